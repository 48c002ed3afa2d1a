/* SPDX-License-Identifier: Apache-2.0 */
/* devstore_rowpull.c - rows of weights on devices to row-sparse outs: each part's device copies what it has of
 * them, which is one piece of an out since ids ascend. */
#include "devstore_rows.h"

#include "hoststore_sparse.h"
#include "hoststore_update.h"
#include "rowset.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const kvs_device_t host_device = {KVS_DEVICE_CPU, 0};

/* ---- From a part to outs --------------------------------------------------------------------------------- */

static int64_t row_elems_of(const kvs_dev_task_t *task)
{
    return task->group->key->n_elems / task->group->key->shape[0];
}

/* What one part writes. */
typedef struct delivery {
    const kvs_dev_task_t *task;
    const kvs_dev_part_t *part;
    kvs_rows_item_t item;
    int64_t first;    /* rows of the outs before the item's */
    int64_t begin, n; /* the piece, in elements of the item's rows */
} delivery_t;

static delivery_t delivery_of(const kvs_dev_task_t *task, const kvs_dev_part_t *part, int64_t n,
                              const int64_t *ids)
{
    int64_t row_elems = row_elems_of(task);
    kvs_dev_row_range_t range = kvs_dev_rows_of_part(part, row_elems, n, ids);
    delivery_t delivery = {.task = task,
                           .part = part,
                           .item = {.size = (uint32_t)sizeof(kvs_rows_item_t),
                                    .dtype = task->dtype,
                                    .row_elems = row_elems,
                                    .n_rows = range.end - range.first,
                                    .ids = ids + range.first,
                                    .begin = part->begin,
                                    .n = part->n},
                           .first = range.first};

    if (delivery.item.n_rows > 0) {
        int64_t begin = part->begin - ids[range.first] * row_elems;
        int64_t end = part->begin + part->n - ids[range.end - 1] * row_elems;

        delivery.begin = begin > 0 ? begin : 0;
        delivery.n = (delivery.item.n_rows - 1) * row_elems + (end < row_elems ? end : row_elems) -
                     delivery.begin;
    }
    return delivery;
}

static char *rows_of_out(const delivery_t *delivery, const kvs_tensor_t *out)
{
    return (char *)out->data +
           (size_t)(delivery->first * delivery->item.row_elems) * (out->dtype.bits / 8);
}

/* To all outs of a dtype that the device reaches, at once. */
static kvs_status_t write_reached(const delivery_t *delivery, int dtype, const kvs_tensor_t *outs,
                                  size_t n_outs)
{
    const kvs_dev_part_t *part = delivery->part;
    void *dst[KVS_DEV_MAX_ARRAYS];
    size_t n_dst = 0;

    for (size_t i = 0; i < n_outs; i++) {
        if (kvs_dtype_index(outs[i].dtype) == dtype && outs[i].rows != NULL &&
            kvs_dev_reaches(delivery->task, part, &outs[i])) {
            dst[n_dst++] = rows_of_out(delivery, &outs[i]);
        }
    }
    return n_dst == 0 ? KVS_OK
                      : delivery->task->provider->rows_gather(part->queue, &delivery->item,
                                                              part->weight, dtype, dst, n_dst);
}

static kvs_status_t copy_to_out(const delivery_t *delivery, const kvs_tensor_t *out)
{
    const kvs_provider_t *provider = delivery->task->provider;
    const kvs_dev_part_t *part = delivery->part;
    size_t elem_bytes = out->dtype.bits / 8, at = (size_t)delivery->begin * elem_bytes;
    size_t n_bytes = (size_t)(delivery->item.n_rows * delivery->item.row_elems) * elem_bytes;
    void *rows = NULL;
    kvs_status_t status = provider->alloc(part->device, n_bytes, &rows);

    if (status != KVS_OK) {
        return status;
    }
    status = provider->rows_gather(part->queue, &delivery->item, part->weight,
                                   kvs_dtype_index(out->dtype), &rows, 1);
    if (status == KVS_OK) {
        status = provider->copy(part->queue, out->device, rows_of_out(delivery, out) + at,
                                part->device, (char *)rows + at, (size_t)delivery->n * elem_bytes);
    }
    provider->free(part->device, rows, n_bytes);
    return status;
}

static kvs_status_t write_outs(const delivery_t *delivery, const kvs_tensor_t *outs, size_t n_outs)
{
    kvs_status_t status = KVS_OK;

    for (int dtype = 0; dtype < KVS_N_DTYPES && status == KVS_OK; dtype++) {
        status = write_reached(delivery, dtype, outs, n_outs);
    }
    for (size_t i = 0; i < n_outs && status == KVS_OK; i++) {
        if (outs[i].rows != NULL && !kvs_dev_reaches(delivery->task, delivery->part, &outs[i])) {
            status = copy_to_out(delivery, &outs[i]);
        }
    }
    return status;
}

/* Rows `ids` of the weight, as far as the part has them, to outs that have room for all. */
static kvs_status_t write_part(const kvs_dev_task_t *task, const kvs_dev_part_t *part, int64_t n,
                               const int64_t *ids, const kvs_tensor_t *outs, size_t n_outs)
{
    delivery_t delivery = delivery_of(task, part, n, ids);
    size_t n_bytes = (size_t)delivery.item.n_rows * sizeof(*ids);
    void *copy = NULL;

    if (delivery.item.n_rows == 0) {
        return KVS_OK;
    }
    kvs_status_t status = task->provider->alloc(part->device, n_bytes, &copy);

    if (status != KVS_OK) {
        return status;
    }
    status = task->provider->copy(part->queue, part->device, copy, host_device, delivery.item.ids,
                                  n_bytes);
    delivery.item.ids = copy;
    if (status == KVS_OK) {
        status = write_outs(&delivery, outs, n_outs);
    }
    task->provider->free(part->device, copy, n_bytes);
    return status;
}

static kvs_status_t write_all(const kvs_dev_task_t *task, int64_t n, const int64_t *ids,
                              const kvs_tensor_t *outs, size_t n_outs)
{
    kvs_status_t status = KVS_OK;

    for (size_t i = 0; i < task->key->n_parts && status == KVS_OK; i++) {
        status = write_part(task, &task->key->parts[i], n, ids, outs, n_outs);
    }
    for (size_t i = 0; i < n_outs && status == KVS_OK; i++) {
        if (outs[i].rows != NULL) {
            memcpy(outs[i].rows->ids, ids, (size_t)n * sizeof(*ids));
            outs[i].rows->n_rows = n;
        }
    }
    return status;
}

/* ---- The rows that a key has ------------------------------------------------------------------------------ */

static kvs_status_t find_rows(const kvs_dev_task_t *task, const kvs_dev_part_t *part,
                              void **ret_flags)
{
    const kvs_rows_item_t item = {.size = (uint32_t)sizeof(item),
                                  .dtype = task->dtype,
                                  .row_elems = row_elems_of(task),
                                  .begin = part->begin,
                                  .n = part->n};
    kvs_status_t status =
        task->provider->alloc(part->device, (size_t)task->group->key->shape[0], ret_flags);

    return status == KVS_OK
               ? task->provider->rows_find(part->queue, &item, part->weight, *ret_flags)
               : status;
}

static kvs_status_t add_found(const kvs_dev_task_t *task, const kvs_dev_part_t *part,
                              const void *flags, uint8_t *copy)
{
    int64_t n_rows = task->group->key->shape[0];
    kvs_status_t status =
        task->provider->copy(part->queue, host_device, copy, part->device, flags, (size_t)n_rows);

    for (int64_t row = 0; row < n_rows && status == KVS_OK; row++) {
        if (copy[row] != 0) {
            kvs_rowset_add(task->key->host.rows, 1, &row);
        }
    }
    return status;
}

kvs_status_t kvs_dev_rows_settle(const kvs_dev_task_t *task)
{
    kvs_devstore_key_t *key = task->key;
    size_t n_rows = (size_t)task->group->key->shape[0];
    kvs_status_t status = KVS_OK;

    if (key->host.rows == NULL || !key->host.rows_unsure) {
        return KVS_OK;
    }
    void **flags = calloc(key->n_parts, sizeof(*flags));
    uint8_t *copy = malloc(n_rows);

    if (flags == NULL || copy == NULL) {
        status = kvs_fail(KVS_ERR_NO_MEMORY, "no memory to find rows among %zu", n_rows);
    }
    for (size_t i = 0; i < key->n_parts && status == KVS_OK; i++) {
        status = find_rows(task, &key->parts[i], &flags[i]);
    }
    for (size_t i = 0; i < key->n_parts && status == KVS_OK; i++) { /* all are looking: now ask */
        status = add_found(task, &key->parts[i], flags[i], copy);
    }
    for (size_t i = 0; flags != NULL && i < key->n_parts; i++) {
        task->provider->free(key->parts[i].device, flags[i], n_rows);
    }
    key->host.rows_unsure = status != KVS_OK;
    free(copy);
    free(flags);
    return status;
}

kvs_status_t kvs_dev_rows_send(const kvs_dev_task_t *task)
{
    const kvs_hoststore_key_t *key = &task->key->host;
    int64_t n_words = kvs_rowset_n_words(task->group->key->shape[0]);
    kvs_status_t status = kvs_dev_rows_settle(task);

    if (status == KVS_OK) {
        status = kvs_sparse_check_room(task->group->key, task->group->outs, task->n_outs);
    }
    if (status != KVS_OK) {
        return status;
    }
    int64_t n = kvs_rowset_count(key->rows, n_words);
    int64_t *ids = malloc((size_t)n * sizeof(*ids) + 1);

    if (ids == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for a list of %lld rows", (long long)n);
    }
    kvs_rowset_list(key->rows, n_words, ids);
    status = write_all(task, n, ids, task->group->outs, task->n_outs);
    free(ids);
    return status;
}

/* ---- Ids that lie on a device ----------------------------------------------------------------------------- */

/* Fewer are sorted on the host, as are those of an array with very many more rows. */
#define MANY_IDS    4096
#define ROWS_PER_ID 64

typedef struct id_list {
    int64_t *ids; /* free() */
    int64_t n;
} id_list_t;

static kvs_status_t read_and_sort(const kvs_dev_task_t *task, kvs_queue_t *queue,
                                  const kvs_tensor_t *row_ids, id_list_t *ret_list)
{
    kvs_tensor_t copy = *row_ids;
    size_t n_bytes = (size_t)kvs_tensor_n_elems(row_ids) * (row_ids->dtype.bits / 8);
    kvs_status_t status;

    copy.device = host_device;
    copy.data = malloc(n_bytes + 1);
    status = copy.data != NULL
                 ? KVS_OK
                 : kvs_fail(KVS_ERR_NO_MEMORY, "no memory for %zu bytes of row ids", n_bytes);
    if (status == KVS_OK && n_bytes > 0) {
        status = task->provider->copy(queue, host_device, copy.data, row_ids->device, row_ids->data,
                                      n_bytes);
    }
    if (status == KVS_OK) {
        status =
            kvs_row_ids_unique(&copy, task->group->key->shape[0], &ret_list->ids, &ret_list->n);
    }
    free(copy.data);
    return status;
}

/* Sort on the device: flags, then `found`: whether an id lies outside, how many there are, and the ids. */
static kvs_status_t launch_sort(const kvs_dev_task_t *task, kvs_queue_t *queue,
                                const kvs_tensor_t *row_ids, uint8_t *flags, int64_t *found)
{
    int64_t n_rows = task->group->key->shape[0];
    kvs_status_t status =
        task->provider->rows_mark(queue, kvs_dtype_index(row_ids->dtype),
                                  kvs_tensor_n_elems(row_ids), row_ids->data, n_rows, flags, found);

    return status == KVS_OK ? task->provider->rows_list(queue, n_rows, flags, found + 2, found + 1)
                            : status;
}

/* *ret_list is left without ids where one of them lies outside. */
static kvs_status_t sort_there(const kvs_dev_task_t *task, kvs_queue_t *queue,
                               const kvs_tensor_t *row_ids, id_list_t *ret_list)
{
    const kvs_provider_t *provider = task->provider;
    kvs_device_t device = row_ids->device;
    int64_t n_rows = task->group->key->shape[0], n = kvs_tensor_n_elems(row_ids);
    size_t n_bytes = (size_t)((n < n_rows ? n : n_rows) + 2) * sizeof(int64_t);
    int64_t *copy = malloc(n_bytes);
    void *flags = NULL, *found = NULL;
    kvs_status_t status = copy != NULL ? provider->alloc(device, (size_t)n_rows, &flags)
                                       : kvs_fail(KVS_ERR_NO_MEMORY, "no memory for row ids");

    if (status == KVS_OK) {
        status = provider->alloc(device, n_bytes, &found);
    }
    if (status == KVS_OK) {
        status = launch_sort(task, queue, row_ids, flags, found);
    }
    if (status == KVS_OK) {
        status = provider->copy(queue, host_device, copy, device, found, n_bytes);
    }
    provider->free(device, flags, (size_t)n_rows);
    provider->free(device, found, n_bytes);
    if (status == KVS_OK && copy[0] == 0) {
        ret_list->n = copy[1];
        ret_list->ids = memmove(copy, copy + 2, (size_t)copy[1] * sizeof(*copy));
    } else {
        free(copy);
    }
    return status;
}

static kvs_status_t read_from_device(const kvs_dev_task_t *task, const kvs_tensor_t *row_ids,
                                     id_list_t *list)
{
    int64_t n = kvs_tensor_n_elems(row_ids);
    kvs_queue_t *queue;
    kvs_status_t status = task->provider->queue(row_ids->device, &queue);

    if (status == KVS_OK) {
        status = kvs_dev_marks_wait(task->provider, task->group, queue);
    }
    if (status == KVS_OK && row_ids->device.type == KVS_DEVICE_CUDA && n >= MANY_IDS &&
        task->group->key->shape[0] / ROWS_PER_ID <= n) {
        status = sort_there(task, queue, row_ids, list);
    }
    return status == KVS_OK && list->ids == NULL ? read_and_sort(task, queue, row_ids, list)
                                                 : status;
}

/* ---- row_sparse_pull -------------------------------------------------------------------------------------- */

struct kvs_dev_rowpull {
    const kvs_dev_task_t *task;
    id_list_t lists[]; /* as the group's row ids */
};

static kvs_status_t read_list(const kvs_dev_task_t *task, size_t index, id_list_t *list)
{
    const kvs_tensor_t *row_ids = &task->group->row_ids[index];

    return kvs_dev_is(row_ids)
               ? read_from_device(task, row_ids, list)
               : kvs_row_ids_unique(row_ids, task->group->key->shape[0], &list->ids, &list->n);
}

static const id_list_t *list_of_out(const kvs_dev_rowpull_t *pull, size_t out)
{
    return &pull->lists[pull->task->group->n_row_ids == 1 ? 0 : out];
}

static kvs_status_t check_room(const kvs_dev_rowpull_t *pull)
{
    const kvs_group_t *group = pull->task->group;

    for (size_t i = 0; i < group->n_outs; i++) {
        if (group->outs[i].rows->capacity < list_of_out(pull, i)->n) {
            return kvs_sparse_fail_room(i, &group->outs[i], list_of_out(pull, i)->n);
        }
    }
    return KVS_OK;
}

kvs_status_t kvs_dev_rowpull_open(const kvs_dev_task_t *task, kvs_dev_rowpull_t **ret_pull)
{
    size_t n = task->group->n_row_ids;
    kvs_dev_rowpull_t *pull = calloc(1, sizeof(*pull) + n * sizeof(pull->lists[0]));
    kvs_status_t status =
        pull != NULL ? KVS_OK : kvs_fail(KVS_ERR_NO_MEMORY, "no memory for %zu lists of ids", n);

    *ret_pull = pull;
    if (status != KVS_OK) {
        return kvs_update_named(status, task->group->key);
    }
    pull->task = task;
    for (size_t i = 0; i < n && status == KVS_OK; i++) {
        status = read_list(task, i, &pull->lists[i]);
    }
    status = status == KVS_OK ? check_room(pull) : status;
    return kvs_update_named(status, task->group->key);
}

static kvs_status_t write_lists(const kvs_dev_rowpull_t *pull)
{
    const kvs_dev_task_t *task = pull->task;
    const kvs_tensor_t *outs = task->group->outs;
    kvs_status_t status = KVS_OK;

    if (task->group->n_row_ids == 1) {
        return write_all(task, pull->lists[0].n, pull->lists[0].ids, outs, task->n_outs);
    }
    for (size_t i = 0; i < task->n_outs && status == KVS_OK; i++) {
        status = write_all(task, pull->lists[i].n, pull->lists[i].ids, &outs[i], 1);
    }
    return status;
}

/* Also after a failure: what is queued must not run into what the program does next. */
static kvs_status_t end_parts(const kvs_dev_task_t *task, kvs_status_t status)
{
    char text[512];

    for (size_t i = 0; i < task->key->n_parts && status == KVS_OK; i++) {
        status = kvs_dev_end_part(task, &task->key->parts[i]);
    }
    if (status == KVS_OK) {
        return KVS_OK;
    }
    snprintf(text, sizeof(text), "%s", kvs_plugin_host->last_error());
    for (size_t i = 0; i < task->key->n_parts; i++) {
        (void)kvs_dev_end_part(task,
                               &task->key->parts[i]); /* a device that is lost does nothing more */
    }
    return kvs_fail(status, "%s", text);
}

kvs_status_t kvs_dev_rowpull_run(const kvs_dev_rowpull_t *pull)
{
    const kvs_dev_task_t *task = pull->task;
    kvs_status_t status = KVS_OK;

    for (size_t i = 0; i < task->key->n_parts && status == KVS_OK; i++) {
        status = kvs_dev_marks_wait(task->provider, task->group, task->key->parts[i].queue);
    }
    status = status == KVS_OK ? write_lists(pull) : status;
    status = end_parts(task, status);
    return kvs_update_named(status, task->group->key);
}

void kvs_dev_rowpull_close(kvs_dev_rowpull_t *pull)
{
    for (size_t i = 0; pull != NULL && i < pull->task->group->n_row_ids; i++) {
        free(pull->lists[i].ids);
    }
    free(pull);
}
