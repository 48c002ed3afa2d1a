/* SPDX-License-Identifier: Apache-2.0 */
/* teststore.c - the smallest complete backend: a store of one worker that keeps no weights, so that
 * pushpull sums the values it is given and broadcast copies one. `kvstore new-plugin` begins a plugin
 * as a copy of this file.
 *
 * What the core has seen to before a function here is called: arguments, shapes and dtypes, order,
 * threads, events. What is left: the arithmetic, and memory. */
#include <kvstore/kit.h>

#include <stdlib.h>

static const kvs_device_t host_memory = {KVS_DEVICE_CPU, 0};

/* What an operation remembers of one key. The core allocates it, zeroed, for each group. */
typedef struct teststore_group {
    void *sum;
    size_t n_bytes;
    size_t n_written; /* outs done so far */
} teststore_group_t;

static kvs_status_t teststore_open(void *store, const kvs_open_args_t *args)
{
    (void)store;
    (void)args;
    return KVS_OK;
}

static kvs_status_t teststore_close(void *store, int64_t timeout_ms)
{
    (void)store;
    (void)timeout_ms;
    return KVS_OK;
}

/* Values of a group have one shape and dtype. Where no weights are kept the key has none of its own. */
static kvs_status_t sum_values(const kvs_group_t *group)
{
    const kvs_provider_t *cpu = kvs_cpu_provider();
    teststore_group_t *state = group->state;
    int dtype = kvs_dtype_index(group->values[0].dtype);
    int64_t n_elems = kvs_tensor_n_elems(&group->values[0]);
    const void **sources = malloc(group->n_values * sizeof(*sources));

    if (sources == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for a list of %zu arrays", group->n_values);
    }
    for (size_t i = 0; i < group->n_values; i++) {
        sources[i] = group->values[i].data;
    }
    state->n_bytes = (size_t)n_elems * kvs_dtype_bytes(dtype);
    kvs_status_t status = cpu->alloc(host_memory, state->n_bytes, &state->sum);

    if (status == KVS_OK) {
        status = cpu->sum(dtype, n_elems, sources, group->n_values, &state->sum, 1);
    }
    free(sources);
    return status;
}

/* An out may have another floating dtype than the values. */
static kvs_status_t write_next_out(const kvs_group_t *group)
{
    teststore_group_t *state = group->state;
    const kvs_tensor_t *out = &group->outs[state->n_written++];

    return kvs_cpu_provider()->cast(kvs_tensor_n_elems(out),
                                    kvs_dtype_index(group->values[0].dtype), state->sum,
                                    kvs_dtype_index(out->dtype), out->data);
}

/* The group whose next out comes first in the call; NULL when all are written. The order matters where
 * outs share memory, and only then are there places to compare. */
static const kvs_group_t *next_group(const kvs_op_t *op)
{
    const kvs_group_t *next = NULL;
    size_t next_place = 0;

    for (size_t i = 0; i < op->n_groups; i++) {
        const kvs_group_t *group = &op->groups[i];
        const teststore_group_t *state = group->state;

        if (state->n_written < group->n_outs) {
            size_t place = op->flags & KVS_OP_SHARED ? group->out_index[state->n_written] : i;

            if (next == NULL || place < next_place) {
                next = group;
                next_place = place;
            }
        }
    }
    return next;
}

/* First all values are read, then outs are written: arrays of the call may share memory. */
static kvs_status_t teststore_pushpull(void *store, kvs_op_t *op)
{
    kvs_status_t status = KVS_OK;

    (void)store;
    for (size_t i = 0; i < op->n_groups && status == KVS_OK; i++) {
        status = sum_values(&op->groups[i]);
    }
    for (const kvs_group_t *group; status == KVS_OK && (group = next_group(op)) != NULL;) {
        status = write_next_out(group);
    }
    for (size_t i = 0; i < op->n_groups; i++) {
        teststore_group_t *state = op->groups[i].state;

        kvs_cpu_provider()->free(host_memory, state->sum, state->n_bytes);
    }
    return status;
}

/* With one worker, rank 0's value is the only one: its sum, a copy, goes to the outs. */
static kvs_status_t teststore_broadcast(void *store, kvs_op_t *op)
{
    return teststore_pushpull(store, op);
}

static const kvs_backend_ops_t teststore_ops = {
    .size = sizeof(teststore_ops),
    .mode = KVS_BLOCKING,
    .group_size = sizeof(teststore_group_t),
    .open = teststore_open,
    .close = teststore_close,
    .pushpull = teststore_pushpull,
    .broadcast = teststore_broadcast,
};

static const int32_t teststore_devices[] = {KVS_DEVICE_CPU};

/* Says the same as teststore.json: the core compares them. */
static const kvs_backend_t teststore_backend = {
    .size = sizeof(teststore_backend),
    .capabilities = 0,
    .name = "teststore",
    .dtypes = KVS_DTYPES_ALL,
    .n_device_types = 1,
    .device_types = teststore_devices,
    .ops = &teststore_ops,
};

static const kvs_backend_t *const teststore_backends[] = {&teststore_backend};

KVS_PLUGIN(teststore, TESTSTORE_VERSION, .backends = teststore_backends, .n_backends = 1)
