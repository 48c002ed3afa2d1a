/* SPDX-License-Identifier: Apache-2.0 */
#include "dist_local.h"

#include "dist_worker.h"

#include <stdlib.h>
#include <string.h>

static const kvs_device_t host_device = {KVS_DEVICE_CPU, 0};

static bool is_push(const kvs_op_t *op)
{
    return op->verb == KVS_VERB_PUSH || op->verb == KVS_VERB_PUSHPULL;
}

kvs_status_t dist_local_issue(kvs_hoststore_t *store, uint16_t codec, kvs_op_t *op)
{
    kvs_status_t status = dist_pack_issue(store->compression, codec, op);

    if (status == KVS_OK && is_push(op) && op->n_groups > 0 && store->opt == NULL &&
        dist_type_is_async(store->type)) {
        dist_record_t key = {.number = op->groups[0].key->number,
                             .name = (char *)(uintptr_t)op->groups[0].key->name}; /* only read */

        status = kvs_fail(KVS_ERR_STATE, "%s: %s: " DIST_NEEDS_OPTIMIZER,
                          op->verb == KVS_VERB_PUSH ? "push" : "pushpull", DIST_KEY_TEXT(&key));
    }
    return status == KVS_OK ? kvs_hoststore_issue(store, op) : status;
}

static size_t bytes_of(const kvs_group_t *group)
{
    return (size_t)group->key->n_elems * kvs_dtype_bytes(kvs_dtype_index(group->key->dtype));
}

static kvs_status_t push(kvs_hoststore_t *store, kvs_op_t *op)
{
    return op->verb == KVS_VERB_PUSH ? kvs_hoststore_push(store, op)
                                     : kvs_hoststore_pushpull(store, op);
}

/* Each group's values are one, in `sums`: the sum of those it had. */
static kvs_status_t sum_groups(kvs_group_t *groups, size_t n, kvs_tensor_t *sums)
{
    kvs_status_t status = KVS_OK;

    for (size_t i = 0; i < n && status == KVS_OK; i++) {
        sums[i] = groups[i].values[0];
        if (groups[i].n_values == 1) {
            continue;
        }
        sums[i].data = NULL;
        status = kvs_cpu_provider()->alloc(host_device, bytes_of(&groups[i]), &sums[i].data);
        if (status == KVS_OK) {
            status = dist_group_sum(&groups[i], sums[i].data);
        }
        groups[i].values = &sums[i];
    }
    return status;
}

/* Gradient compression is of the sum of a worker's values. */
static kvs_status_t push_compressed(kvs_hoststore_t *store, kvs_op_t *op)
{
    size_t n = op->n_groups;
    kvs_group_t *groups = calloc(n + 1, sizeof(*groups));
    kvs_tensor_t *sums = calloc(n + 1, sizeof(*sums));
    kvs_op_t summed = *op;
    kvs_status_t status = KVS_OK;

    if (groups == NULL || sums == NULL) {
        status = kvs_fail(KVS_ERR_NO_MEMORY, "no memory for %zu sums", n);
    } else {
        memcpy(groups, op->groups, n * sizeof(*groups));
        status = sum_groups(groups, n, sums);
    }
    for (size_t i = 0; i < n && status == KVS_OK; i++) {
        groups[i].n_values = 1;
    }
    summed.groups = groups;
    status = status == KVS_OK ? push(store, &summed) : status;
    for (size_t i = 0; i < n && groups != NULL && sums != NULL; i++) {
        if (groups[i].values == &sums[i]) {
            kvs_cpu_provider()->free(host_device, sums[i].data, bytes_of(&groups[i]));
        }
    }
    free(groups);
    free(sums);
    return status;
}

static bool is_finite(const kvs_group_t *group)
{
    for (size_t i = 0; i < group->n_values; i++) {
        const kvs_tensor_t *value = &group->values[i];
        int64_t n = group->key->n_elems;

        if (value->rows != NULL) {
            n = value->rows->n_rows * kvs_row_elems(value);
        }
        if (!dist_is_finite(kvs_dtype_index(value->dtype), n, value->data)) {
            return false;
        }
    }
    return true;
}

static kvs_status_t run(kvs_hoststore_t *store, kvs_op_t *op);

/* Groups that are not finite are not pushed, only pulled; or the first of them is the operation's error. */
static kvs_status_t push_finite(kvs_hoststore_t *store, dist_nonfinite_t nonfinite, kvs_op_t *op)
{
    kvs_group_t *groups = calloc(2 * op->n_groups + 1, sizeof(*groups));
    kvs_group_t *others = groups == NULL ? NULL : groups + op->n_groups;
    kvs_op_t pushed = *op, pulled = *op;
    kvs_status_t status = KVS_OK;

    if (groups == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for a list of %zu keys", op->n_groups);
    }
    pushed.groups = groups;
    pulled.groups = others;
    pushed.n_groups = pulled.n_groups = 0;
    pulled.verb = KVS_VERB_PULL;
    for (size_t i = 0; i < op->n_groups && status == KVS_OK; i++) {
        dist_record_t key = {.number = op->groups[i].key->number,
                             .name = (char *)(uintptr_t)op->groups[i].key->name}; /* only read */

        if (is_finite(&op->groups[i])) {
            groups[pushed.n_groups++] = op->groups[i];
        } else if (nonfinite == DIST_NONFINITE_ERROR) {
            status = kvs_fail(KVS_ERR_NON_FINITE,
                              "%s: %s: the gradient of worker 0 holds NaN or infinity",
                              op->verb == KVS_VERB_PUSH ? "push" : "pushpull", DIST_KEY_TEXT(&key));
        } else {
            kvs_log(KVS_LOG_WARN, "dist",
                    "%s: the gradient of worker 0 holds NaN or infinity: the update is skipped",
                    DIST_KEY_TEXT(&key));
            others[pulled.n_groups++] = op->groups[i];
        }
    }
    if (status == KVS_OK && pushed.n_groups > 0) {
        status = run(store, &pushed);
    }
    if (status == KVS_OK && pulled.n_groups > 0 && op->verb == KVS_VERB_PUSHPULL) {
        status = run(store, &pulled);
    }
    free(groups);
    return status;
}

static kvs_status_t run(kvs_hoststore_t *store, kvs_op_t *op)
{
    kvs_status_t status;

    if (is_push(op) && store->compression != NULL) {
        return push_compressed(store, op);
    }
    switch ((kvs_verb_t)op->verb) {
    case KVS_VERB_INIT:
        return kvs_hoststore_init(store, op);
    case KVS_VERB_PUSH:
    case KVS_VERB_PUSHPULL:
        return push(store, op);
    case KVS_VERB_PULL:
        return kvs_hoststore_pull(store, op);
    case KVS_VERB_BROADCAST:
        status = kvs_hoststore_init(store, op);
        return status == KVS_OK ? kvs_hoststore_pull(store, op) : status;
    case KVS_VERB_ROW_SPARSE_PULL:
        return kvs_hoststore_row_sparse_pull(store, op);
    default:
        return kvs_fail(KVS_ERR_INTERNAL, "an operation of kind %u", op->verb);
    }
}

/* Keys whose init failed are empty again. */
static void release_keys(kvs_hoststore_t *store, kvs_op_t *op)
{
    for (size_t i = 0; i < op->n_groups; i++) {
        kvs_hoststore_key_release(store, op->groups[i].key);
    }
}

kvs_status_t dist_local_run(kvs_hoststore_t *store, dist_nonfinite_t nonfinite, kvs_op_t *op)
{
    kvs_status_t status = kvs_devhost_await(op);

    if (status == KVS_OK) {
        status = is_push(op) && nonfinite != DIST_NONFINITE_PROPAGATE
                     ? push_finite(store, nonfinite, op)
                     : run(store, op);
    }

    if (status != KVS_OK) {
        if (op->verb == KVS_VERB_INIT || op->verb == KVS_VERB_BROADCAST) {
            release_keys(store, op);
        }
        return status;
    }
    kvs_devhost_consumed(op);
    kvs_devhost_complete(op, KVS_OK);
    return KVS_OK;
}
