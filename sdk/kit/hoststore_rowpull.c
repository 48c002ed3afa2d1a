/* SPDX-License-Identifier: Apache-2.0 */
/* hoststore_rowpull.c - row_sparse_pull of a host store: lists of ids in any order, from any array, become
 * rows in order. */
#include "hoststore_places.h"
#include "hoststore_sparse.h"
#include "hoststore_update.h"

#include <stdlib.h>

/* The ids of one array, in order. */
typedef struct id_list {
    int64_t *ids;
    int64_t n;
} id_list_t;

static kvs_status_t read_ids(const kvs_group_t *group, size_t index, id_list_t *list)
{
    kvs_status_t status =
        kvs_row_ids_unique(&group->row_ids[index], group->key->shape[0], &list->ids, &list->n);

    return status == KVS_OK ? KVS_OK : kvs_update_name_key(status, group->key);
}

/* The place of an out's ids among the group's lists. */
static size_t list_of_out(const kvs_group_t *group, size_t out)
{
    return group->n_row_ids == 1 ? 0 : out;
}

/* Only where there may be too little room are the ids sorted, to count them. */
static kvs_status_t check_issued_out(const kvs_group_t *group, size_t out)
{
    size_t index = list_of_out(group, out);
    int64_t capacity = group->outs[out].rows->capacity;
    id_list_t list = {0};
    kvs_status_t status;

    if (capacity >= kvs_tensor_n_elems(&group->row_ids[index])) {
        return KVS_OK;
    }
    status = read_ids(group, index, &list);
    if (status == KVS_OK && capacity < list.n) {
        status =
            kvs_update_name_key(kvs_sparse_fail_room(out, &group->outs[out], list.n), group->key);
    }
    free(list.ids);
    return status;
}

kvs_status_t kvs_sparse_check_issued(const kvs_op_t *op)
{
    kvs_status_t status = KVS_OK;

    for (size_t g = 0; g < op->n_groups; g++) {
        for (size_t i = 0; i < op->groups[g].n_outs && status == KVS_OK; i++) {
            status = check_issued_out(&op->groups[g], i);
        }
    }
    return status;
}

/* Every list of ids that an operation brings: read before any out is written, which may lie there. */
typedef struct id_lists {
    id_list_t *lists;
    size_t *first; /* of each group */
    size_t n;
} id_lists_t;

static void release_lists(id_lists_t *lists)
{
    for (size_t i = 0; i < lists->n; i++) {
        free(lists->lists[i].ids);
    }
    free(lists->lists);
    free(lists->first);
}

static kvs_status_t read_lists(const kvs_op_t *op, id_lists_t *lists)
{
    size_t n = 0;
    kvs_status_t status = KVS_OK;

    for (size_t g = 0; g < op->n_groups; g++) {
        n += op->groups[g].n_row_ids;
    }
    lists->lists = calloc(n + 1, sizeof(*lists->lists));
    lists->first = calloc(op->n_groups + 1, sizeof(*lists->first));
    if (lists->lists == NULL || lists->first == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for %zu lists of row ids", n);
    }
    for (size_t g = 0; g < op->n_groups; g++) {
        lists->first[g] = lists->n;
        for (size_t i = 0; i < op->groups[g].n_row_ids && status == KVS_OK; i++) {
            status = read_ids(&op->groups[g], i, &lists->lists[lists->n]);
            lists->n += status == KVS_OK;
        }
    }
    return status;
}

static void write_listed(const kvs_op_t *op, const id_lists_t *lists, size_t g, size_t out)
{
    const kvs_group_t *group = &op->groups[g];
    const id_list_t *list = &lists->lists[lists->first[g] + list_of_out(group, out)];

    kvs_sparse_write_out(group->key, list->n, list->ids, &group->outs[out]);
}

static kvs_status_t write_shared(const kvs_op_t *op, const id_lists_t *lists)
{
    kvs_place_t *places = NULL;
    size_t n = 0;
    kvs_status_t status = kvs_places_list(op, &places, &n);

    for (size_t i = 0; i < n; i++) {
        write_listed(op, lists, places[i].group, places[i].out);
    }
    free(places);
    return status;
}

kvs_status_t kvs_hoststore_row_sparse_pull(void *store, kvs_op_t *op)
{
    id_lists_t lists = {0};
    kvs_status_t status = read_lists(op, &lists);

    (void)store;
    if (status == KVS_OK && (op->flags & KVS_OP_SHARED) != 0) {
        status = write_shared(op, &lists);
    } else if (status == KVS_OK) {
        for (size_t g = 0; g < op->n_groups; g++) {
            for (size_t i = 0; i < op->groups[g].n_outs; i++) {
                write_listed(op, &lists, g, i);
            }
        }
    }
    release_lists(&lists);
    return status;
}
