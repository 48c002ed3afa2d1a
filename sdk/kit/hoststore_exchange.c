/* SPDX-License-Identifier: Apache-2.0 */
/* hoststore_exchange.c - push, pull and pushpull of a host store: from an operation's groups to passes
 * over arrays, with an updater or an optimizer between the sum and the outs if one is set. */
#include "hoststore_work.h"

#include <stdlib.h>

#define FEW 16 /* arrays of a group for which no list is allocated */

/* The parts of an operation: the verb says which are wanted, whatever arrays its groups hold. */
enum { READ_VALUES = 1, WRITE_OUTS = 2 };

/* ---- What comes between the sum and the outs -------------------------------------------------------- */

/* Leave one value: the sum of all. */
static void sum_whole(kvs_work_t *work)
{
    const kvs_provider_t *cpu = kvs_cpu_provider();

    if (work->n_values == 1) {
        work->sum = work->values[0];
    } else {
        cpu->sum(work->dtype, work->n_elems, work->values, work->n_values, &work->key->merge, 1);
        work->sum = work->key->merge;
    }
    work->values = &work->sum;
    work->n_values = 1;
}

/* The merge buffer, if the sum is needed as a whole and is not one of the values. */
static kvs_status_t make_merge(const kvs_work_t *work)
{
    const kvs_provider_t *cpu = kvs_cpu_provider();

    if (work->n_values == 1 || work->key->merge != NULL) {
        return KVS_OK;
    }
    return cpu->alloc((kvs_device_t){KVS_DEVICE_CPU, 0}, work->key->n_bytes, &work->key->merge);
}

static kvs_status_t name_key(kvs_status_t status, const kvs_key_entry_t *key)
{
    return key->name != NULL ? kvs_fail_context(status, "key '%s'", key->name)
                             : kvs_fail_context(status, "key %lld", (long long)key->number);
}

static kvs_tensor_t view_of(const kvs_key_entry_t *key, const void *data)
{
    return (kvs_tensor_t){
        .data = (void *)data,
        .device = {KVS_DEVICE_CPU, 0},
        .ndim = key->ndim,
        .dtype = key->dtype,
        .shape = key->shape,
    };
}

static kvs_status_t call_updater(const kvs_hoststore_t *host, const kvs_key_entry_t *key,
                                 const kvs_work_t *work)
{
    kvs_key_t name = {key->name, key->number};
    kvs_tensor_t value = view_of(key, work->sum);
    kvs_tensor_t stored = view_of(key, work->key->weight);
    kvs_status_t status = host->updater(&name, &value, &stored, host->updater_arg);

    if (status != KVS_OK) {
        (void)kvs_fail_context(KVS_ERR_CALLBACK, "updater returned %s", kvs_status_name(status));
        return name_key(KVS_ERR_CALLBACK, key);
    }
    return KVS_OK;
}

static kvs_status_t run_updater(const kvs_hoststore_t *host, const kvs_key_entry_t *key,
                                kvs_work_t *work)
{
    kvs_status_t status = make_merge(work);

    if (status != KVS_OK) {
        return name_key(status, key);
    }
    sum_whole(work);
    status = call_updater(host, key, work);
    if (status == KVS_OK && work->n_outs > 0) {
        work->n_values = 0;
        kvs_work_run(host, work);
    }
    return status;
}

static kvs_status_t run_optimizer(const kvs_hoststore_t *host, const kvs_group_t *group,
                                  kvs_work_t *work)
{
    kvs_hoststore_group_t *issued = group->state;
    int needs_whole = kvs_opt_needs_whole(host->opt);
    kvs_status_t status = needs_whole ? make_merge(work) : KVS_OK;

    if (status == KVS_OK) {
        status = kvs_opt_begin(host->opt, &work->key->opt, group->key, work->key->weight);
    }
    if (status != KVS_OK) {
        return name_key(status, group->key);
    }
    work->opt = host->opt;
    work->update = &issued->update;
    if (needs_whole) {
        sum_whole(work);
        kvs_opt_prepare(host->opt, &work->key->opt, work->dtype, work->n_elems, work->sum,
                        work->key->weight, &issued->update);
    }
    kvs_work_run(host, work);
    return KVS_OK;
}

/* ---- Groups -------------------------------------------------------------------------------------- */

/* The lists of pointers that the kernels take. */
typedef struct lists {
    void *few[FEW + 1];
    void **allocated;
} lists_t;

static void lists_release(lists_t *lists)
{
    free(lists->allocated);
}

static kvs_status_t lists_fill(lists_t *lists, const kvs_tensor_t *values, size_t n_values,
                               kvs_work_t *work)
{
    void **list = lists->few;

    lists->allocated = NULL;
    if (n_values + work->n_outs > FEW) {
        list = lists->allocated = malloc((n_values + work->n_outs + 1) * sizeof(*list));
    }
    if (list == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for a list of %zu arrays",
                        n_values + work->n_outs);
    }
    work->values = (const void *const *)list;
    work->n_values = n_values;
    for (size_t i = 0; i < n_values; i++) {
        *list++ = values[i].data;
    }
    work->written = list;
    *list++ = work->key->weight;
    for (size_t i = 0; i < work->n_outs; i++) {
        if (kvs_dtype_index(work->outs[i].dtype) == work->dtype) {
            *list++ = work->outs[i].data;
        }
    }
    work->n_written = (size_t)(list - work->written);
    return KVS_OK;
}

/* Sum the group's first n_values values, update, and write n_outs outs, beginning with `outs`. */
static kvs_status_t exchange(const kvs_hoststore_t *host, const kvs_group_t *group, size_t n_values,
                             const kvs_tensor_t *outs, size_t n_outs)
{
    kvs_work_t work = {
        .key = group->key->state,
        .n_elems = group->key->n_elems,
        .dtype = kvs_dtype_index(group->key->dtype),
        .outs = outs,
        .n_outs = n_outs,
    };
    lists_t lists;

    work.elem_bytes = kvs_dtype_bytes(work.dtype);
    kvs_status_t status = lists_fill(&lists, group->values, n_values, &work);

    if (status != KVS_OK) {
        return name_key(status, group->key);
    }
    if (n_values > 0 && host->updater != NULL) {
        status = run_updater(host, group->key, &work);
    } else if (n_values > 0 && host->opt != NULL) {
        status = run_optimizer(host, group, &work);
    } else {
        kvs_work_run(host, &work);
    }
    lists_release(&lists);
    return status;
}

/* ---- Operations whose arrays share memory: all reads, then the outs in the order of the call ---------- */

typedef struct place {
    size_t index; /* among the outs of the call */
    const kvs_group_t *group;
    const kvs_tensor_t *out;
} place_t;

static int by_index(const void *left, const void *right)
{
    size_t a = ((const place_t *)left)->index, b = ((const place_t *)right)->index;

    return (a > b) - (a < b);
}

static kvs_status_t list_places(const kvs_op_t *op, place_t **ret_places, size_t *ret_n)
{
    size_t n = 0;

    for (size_t i = 0; i < op->n_groups; i++) {
        n += op->groups[i].n_outs;
    }
    place_t *places = malloc((n + 1) * sizeof(*places));

    if (places == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for a list of %zu outs", n);
    }
    n = 0;
    for (size_t i = 0; i < op->n_groups; i++) {
        const kvs_group_t *group = &op->groups[i];

        for (size_t j = 0; j < group->n_outs; j++) {
            places[n++] = (place_t){group->out_index[j], group, &group->outs[j]};
        }
    }
    qsort(places, n, sizeof(*places), by_index);
    *ret_places = places;
    *ret_n = n;
    return KVS_OK;
}

static kvs_status_t exchange_shared(const kvs_hoststore_t *host, const kvs_op_t *op, unsigned what)
{
    place_t *places = NULL;
    size_t n_places = 0;
    kvs_status_t status = what & WRITE_OUTS ? list_places(op, &places, &n_places) : KVS_OK;

    if (what & READ_VALUES) {
        for (size_t i = 0; i < op->n_groups && status == KVS_OK; i++) {
            status = exchange(host, &op->groups[i], op->groups[i].n_values, NULL, 0);
        }
    }
    for (size_t i = 0; i < n_places && status == KVS_OK; i++) {
        status = exchange(host, places[i].group, 0, places[i].out, 1);
    }
    free(places);
    return status;
}

/* ---- The verbs ------------------------------------------------------------------------------------- */

static kvs_status_t exchange_op(const kvs_hoststore_t *host, const kvs_op_t *op, unsigned what)
{
    kvs_status_t status = KVS_OK;

    if (op->flags & KVS_OP_SHARED) {
        return exchange_shared(host, op, what);
    }
    for (size_t i = 0; i < op->n_groups && status == KVS_OK; i++) {
        const kvs_group_t *group = &op->groups[i];

        status = exchange(host, group, what & READ_VALUES ? group->n_values : 0, group->outs,
                          what & WRITE_OUTS ? group->n_outs : 0);
    }
    return status;
}

kvs_status_t kvs_hoststore_push(void *store, kvs_op_t *op)
{
    return exchange_op(store, op, READ_VALUES);
}

kvs_status_t kvs_hoststore_pull(void *store, kvs_op_t *op)
{
    return exchange_op(store, op, WRITE_OUTS);
}

kvs_status_t kvs_hoststore_pushpull(void *store, kvs_op_t *op)
{
    return exchange_op(store, op, READ_VALUES | WRITE_OUTS);
}
