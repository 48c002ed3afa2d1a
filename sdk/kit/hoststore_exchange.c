/* SPDX-License-Identifier: Apache-2.0 */
/* hoststore_exchange.c - push, pull and pushpull of a host store: from an operation's groups to passes
 * over arrays, with an updater or an optimizer between the sum and the outs if one is set. */
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
        return kvs_update_name_key(status, group->key);
    }
    if (n_values > 0 && host->updater != NULL) {
        status = kvs_update_by_updater(host, group->key, &work);
    } else if (n_values > 0 && host->opt != NULL) {
        status = kvs_update_by_optimizer(host, group, &work);
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
