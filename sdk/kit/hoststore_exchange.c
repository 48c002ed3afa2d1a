/* SPDX-License-Identifier: Apache-2.0 */
/* hoststore_exchange.c - push, pull and pushpull of a host store: from an operation's groups to passes
 * over arrays, with an updater or an optimizer between the sum and the outs if one is set. */
#include "hoststore_places.h"
#include "hoststore_sparse.h"
#include "hoststore_update.h"

#include <stdlib.h>

#define FEW 16 /* arrays of a group for which no list is allocated */

/* The parts of an operation: the verb says which are wanted, whatever arrays its groups hold. */
enum { READ_VALUES = 1, WRITE_OUTS = 2 };

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
static kvs_status_t exchange_dense(const kvs_hoststore_t *host, const kvs_group_t *group,
                                   size_t n_values, const kvs_tensor_t *outs, size_t n_outs)
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
        return kvs_update_name_key(status, group->key);
    }
    if (n_values > 0 && host->updater != NULL) {
        status = kvs_update_by_updater(host, group->key, &work);
    } else if (n_values > 0 && host->opt != NULL) {
        status = kvs_update_by_optimizer(host, group, &work);
    } else {
        status = n_values > 0 ? kvs_update_take_values(host, group->key, &work, 0) : KVS_OK;
        if (status == KVS_OK) {
            kvs_work_run(host, &work);
        }
    }
    lists_release(&lists);
    return status;
}

/* The same where some are row-sparse: values first, then out by out. */
static kvs_status_t exchange_sparse(const kvs_hoststore_t *host, const kvs_group_t *group,
                                    size_t n_values, const kvs_tensor_t *outs, size_t n_outs)
{
    kvs_status_t status = KVS_OK;

    if (kvs_sparse_has_rows(group->values, n_values)) {
        status = kvs_sparse_push(host, group);
    } else if (n_values > 0) {
        status = exchange_dense(host, group, n_values, NULL, 0);
    }
    if (status == KVS_OK) {
        status = kvs_update_named(kvs_sparse_check_room(group->key, outs, n_outs), group->key);
    }
    for (size_t i = 0; i < n_outs && status == KVS_OK; i++) {
        status = outs[i].rows != NULL ? kvs_sparse_pull(group->key, &outs[i])
                                      : exchange_dense(host, group, 0, &outs[i], 1);
    }
    return status;
}

static kvs_status_t exchange(const kvs_hoststore_t *host, const kvs_group_t *group, size_t n_values,
                             const kvs_tensor_t *outs, size_t n_outs)
{
    return kvs_sparse_has_rows(group->values, n_values) || kvs_sparse_has_rows(outs, n_outs)
               ? exchange_sparse(host, group, n_values, outs, n_outs)
               : exchange_dense(host, group, n_values, outs, n_outs);
}

/* ---- Operations whose arrays share memory: all reads, then the outs in the order of the call ---------- */

static kvs_status_t exchange_shared(const kvs_hoststore_t *host, const kvs_op_t *op, unsigned what)
{
    kvs_place_t *places = NULL;
    size_t n_places = 0;
    kvs_status_t status = what & WRITE_OUTS ? kvs_places_list(op, &places, &n_places) : KVS_OK;

    if (what & READ_VALUES) {
        for (size_t i = 0; i < op->n_groups && status == KVS_OK; i++) {
            status = exchange(host, &op->groups[i], op->groups[i].n_values, NULL, 0);
        }
    }
    for (size_t i = 0; i < op->n_groups && (what & WRITE_OUTS) && status == KVS_OK; i++) {
        const kvs_group_t *group = &op->groups[i];

        status = kvs_update_named(kvs_sparse_check_room(group->key, group->outs, group->n_outs),
                                  group->key);
    }
    for (size_t i = 0; i < n_places && status == KVS_OK; i++) {
        const kvs_group_t *group = &op->groups[places[i].group];

        status = exchange(host, group, 0, &group->outs[places[i].out], 1);
    }
    free(places);
    return status;
}

/* ---- The verbs ------------------------------------------------------------------------------------- */

static kvs_status_t exchange_op(const kvs_hoststore_t *host, const kvs_op_t *op, unsigned what)
{
    kvs_status_t status = KVS_OK;

    for (size_t i = 0; i < op->n_groups && what == (READ_VALUES | WRITE_OUTS); i++) {
        status =
            kvs_update_named(kvs_sparse_check_push_room(host, &op->groups[i]), op->groups[i].key);
        if (status != KVS_OK) {
            return status;
        }
    }
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
