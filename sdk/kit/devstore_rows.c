/* SPDX-License-Identifier: Apache-2.0 */
/* devstore_rows.c - row-sparse values on devices. The host merges their ids once, in terms of values and
 * places in them; each part's device gets the list of its rows, with the addresses of what is to be added
 * in order, so that bits are the host's. What a device does not reach is copied there first. */
#include "devstore_rows.h"

#include "devscratch.h"
#include "rowset.h"
#include "rowunion.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static const kvs_device_t host_device = {KVS_DEVICE_CPU, 0};

/* In a union the address of a row says whose row it is: the value's place, and the row's in its data. */
#define PLACE_BITS 48
#define PLACE_MASK (((uintptr_t)1 << PLACE_BITS) - 1)

/* What a part's device is to do. */
typedef struct piece {
    kvs_rows_item_t sum;
    kvs_rows_item_t zeros; /* rows that are gone */
    void *made;            /* the dense form of the sum, or its rows side by side; NULL: they are */
} piece_t;

struct kvs_dev_rows {
    const kvs_dev_task_t *task;
    kvs_row_union_t sum;
    piece_t *pieces; /* as the key's parts */
    int64_t *gone;   /* rows that the key has and the sum, which replaces, has not */
    int64_t n_gone;
    int clears;                 /* nobody knows which rows those are */
    kvs_dev_scratch_t *scratch; /* until all is queued */
    const void *values[];       /* on the device of the part at hand */
};

int kvs_dev_has_rows(const kvs_provider_t *provider)
{
    return provider->size >= offsetof(kvs_provider_t, rows_list) + sizeof(provider->rows_list) &&
           provider->rows_list != NULL;
}

/* ---- Memory on devices --------------------------------------------------------------------------------- */

static kvs_status_t take_scratch(kvs_dev_rows_t *rows, const kvs_dev_part_t *part, size_t n_bytes,
                                 void **ret_data)
{
    return kvs_dev_scratch_take(&rows->scratch, rows->task->provider, part->device, n_bytes,
                                ret_data);
}

static kvs_status_t upload(kvs_dev_rows_t *rows, const kvs_dev_part_t *part, const void *data,
                           size_t n_bytes, void **ret_data)
{
    kvs_status_t status = take_scratch(rows, part, n_bytes, ret_data);

    return status == KVS_OK ? rows->task->provider->copy(part->queue, part->device, *ret_data,
                                                         host_device, data, n_bytes)
                            : status;
}

/* ---- The sum, in terms of values ------------------------------------------------------------------------ */

static kvs_status_t make_union(const kvs_dev_task_t *task, kvs_row_union_t *ret_sum)
{
    kvs_tensor_t *values = malloc(task->n_values * sizeof(*values));
    kvs_status_t status;

    if (values == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for a list of %zu values", task->n_values);
    }
    memcpy(values, task->group->values, task->n_values * sizeof(*values));
    for (size_t i = 0; i < task->n_values; i++) {
        values[i].data = (void *)((uintptr_t)i << PLACE_BITS);
    }
    status = kvs_row_union_make(values, task->n_values, ret_sum);
    free(values);
    return status;
}

static int replaces(const kvs_dev_rows_t *rows)
{
    return rows->task->store->host.opt == NULL;
}

static int is_lazy(const kvs_dev_rows_t *rows)
{
    return ((const kvs_devstore_group_t *)rows->task->group->state)->host.update.lazy != 0;
}

static int64_t n_words_of(const kvs_dev_task_t *task)
{
    return kvs_rowset_n_words(task->group->key->shape[0]);
}

static kvs_status_t list_gone(kvs_dev_rows_t *rows)
{
    const uint64_t *had = rows->task->key->host.rows;
    int64_t n_words = n_words_of(rows->task);
    uint64_t *words = calloc((size_t)n_words, sizeof(*words));

    if (words == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for a list of %lld rows",
                        (long long)rows->sum.n_shape);
    }
    kvs_rowset_add(words, rows->sum.n_rows, rows->sum.ids);
    for (int64_t i = 0; i < n_words; i++) {
        words[i] = had[i] & ~words[i];
    }
    rows->n_gone = kvs_rowset_count(words, n_words);
    rows->gone = malloc((size_t)rows->n_gone * sizeof(*rows->gone) + 1);
    if (rows->gone != NULL) {
        kvs_rowset_list(words, n_words, rows->gone);
    }
    free(words);
    return rows->gone != NULL ? KVS_OK
                              : kvs_fail(KVS_ERR_NO_MEMORY, "no memory for a list of %lld rows",
                                         (long long)rows->n_gone);
}

kvs_status_t kvs_dev_rows_open(const kvs_dev_task_t *task, kvs_dev_rows_t **ret_rows)
{
    const kvs_hoststore_key_t *key = &task->key->host;
    kvs_dev_rows_t *rows = calloc(1, sizeof(*rows) + task->n_values * sizeof(rows->values[0]));

    if (rows == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for the rows of %zu values", task->n_values);
    }
    rows->task = task;
    rows->pieces = calloc(task->key->n_parts, sizeof(*rows->pieces));
    kvs_status_t status =
        rows->pieces != NULL
            ? make_union(task, &rows->sum)
            : kvs_fail(KVS_ERR_NO_MEMORY, "no memory for %zu lists of rows", task->key->n_parts);

    rows->clears = key->rows == NULL || key->rows_unsure;
    if (status == KVS_OK && replaces(rows) && !rows->clears) {
        status = list_gone(rows);
    }
    if (status != KVS_OK) {
        kvs_dev_rows_close(rows);
        return status;
    }
    *ret_rows = rows;
    return KVS_OK;
}

void kvs_dev_rows_close(kvs_dev_rows_t *rows)
{
    if (rows == NULL) {
        return;
    }
    kvs_dev_scratch_release(&rows->scratch, rows->task->provider);
    kvs_row_union_release(&rows->sum);
    free(rows->pieces);
    free(rows->gone);
    free(rows);
}

void kvs_dev_rows_note(const kvs_dev_rows_t *rows)
{
    kvs_hoststore_key_t *key = &rows->task->key->host;

    if (key->rows == NULL) {
        return;
    }
    if (replaces(rows)) {
        memset(key->rows, 0, (size_t)n_words_of(rows->task) * sizeof(*key->rows));
        key->rows_unsure = 0;
    } else if (!is_lazy(rows)) {
        key->rows_unsure = 1;
    }
    kvs_rowset_add(key->rows, rows->sum.n_rows, rows->sum.ids);
}

/* ---- The sum on a part's device ------------------------------------------------------------------------- */

kvs_dev_row_range_t kvs_dev_rows_of_part(const kvs_dev_part_t *part, int64_t row_elems, int64_t n,
                                         const int64_t *ids)
{
    const kvs_row_union_t list = {.n_rows = n, .ids = ids};

    return (kvs_dev_row_range_t){
        kvs_row_union_find(&list, part->begin / row_elems),
        kvs_row_union_find(&list, (part->begin + part->n - 1) / row_elems + 1)};
}

/* Have every value's rows where the part's device reaches them. */
static kvs_status_t bring_values(kvs_dev_rows_t *rows, const kvs_dev_part_t *part)
{
    const kvs_dev_task_t *task = rows->task;
    size_t row_bytes = kvs_row_union_row_bytes(&rows->sum);
    kvs_status_t status = KVS_OK;

    for (size_t i = 0; i < task->n_values && status == KVS_OK; i++) {
        const kvs_tensor_t *value = &task->group->values[i];
        size_t n_bytes = (size_t)value->rows->n_rows * row_bytes;
        void *copy = value->data;

        if (n_bytes > 0 && !kvs_dev_reaches(task, part, value)) {
            status = take_scratch(rows, part, n_bytes, &copy);
            status = status == KVS_OK ? task->provider->copy(part->queue, part->device, copy,
                                                             value->device, value->data, n_bytes)
                                      : status;
        }
        rows->values[i] = copy;
    }
    return status;
}

/* Where a row is, of which the union says whose it is. */
static const void *row_at(const kvs_dev_rows_t *rows, const void *source)
{
    uintptr_t place = (uintptr_t)source;

    return (const char *)rows->values[place >> PLACE_BITS] + (place & PLACE_MASK);
}

/* Rows `range` of the sum as the device takes them: ids, counts of sources before each, and the sources. */
static void fill_table(const kvs_dev_rows_t *rows, const kvs_dev_row_range_t *range, int64_t *table)
{
    const kvs_row_union_t *sum = &rows->sum;
    int64_t n = range->end - range->first, before = sum->first[range->first];
    int64_t *first = table + n, *sources = first + n + 1;

    memcpy(table, sum->ids + range->first, (size_t)n * sizeof(*table));
    for (int64_t i = 0; i <= n; i++) {
        first[i] = sum->first[range->first + i] - before;
    }
    for (int64_t i = 0; i < first[n]; i++) {
        sources[i] = (int64_t)(intptr_t)row_at(rows, sum->sources[before + i]);
    }
}

static kvs_status_t upload_table(kvs_dev_rows_t *rows, const kvs_dev_part_t *part,
                                 const kvs_dev_row_range_t *range, kvs_rows_item_t *item)
{
    const int64_t *first = rows->sum.first;
    size_t n_words = (size_t)(2 * item->n_rows + 1 + first[range->end] - first[range->first]);
    int64_t *table = malloc(n_words * sizeof(*table));
    void *copy = NULL;

    if (table == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for a list of %lld rows",
                        (long long)item->n_rows);
    }
    fill_table(rows, range, table);
    kvs_status_t status = upload(rows, part, table, n_words * sizeof(*table), &copy);

    free(table);
    if (status == KVS_OK) {
        item->ids = copy;
        item->first = item->ids + item->n_rows;
        item->sources = (const void *const *)(const void *)(item->first + item->n_rows + 1);
    }
    return status;
}

static kvs_rows_item_t empty_item(const kvs_dev_rows_t *rows, const kvs_dev_part_t *part)
{
    return (kvs_rows_item_t){.size = (uint32_t)sizeof(kvs_rows_item_t),
                             .dtype = rows->sum.dtype,
                             .row_elems = rows->sum.row_elems,
                             .begin = part->begin,
                             .n = part->n};
}

/* The rows of the sum that the part has, for its device. */
static kvs_status_t list_sum(kvs_dev_rows_t *rows, const kvs_dev_part_t *part,
                             kvs_rows_item_t *ret_item)
{
    const kvs_row_union_t *sum = &rows->sum;
    kvs_dev_row_range_t range = kvs_dev_rows_of_part(part, sum->row_elems, sum->n_rows, sum->ids);
    kvs_status_t status = KVS_OK;
    void *ids = NULL;

    *ret_item = empty_item(rows, part);
    ret_item->n_rows = range.end - range.first;
    if (ret_item->n_rows == 0) {
        return KVS_OK;
    }
    status = bring_values(rows, part);
    if (status == KVS_OK && sum->first != NULL) {
        return upload_table(rows, part, &range, ret_item);
    }
    if (status == KVS_OK) {
        status = upload(rows, part, sum->ids + range.first,
                        (size_t)ret_item->n_rows * sizeof(*sum->ids), &ids);
        ret_item->ids = ids;
        ret_item->packed =
            (const char *)rows->values[0] + (size_t)range.first * kvs_row_union_row_bytes(sum);
    }
    return status;
}

/* The rows of the part that are to become zero. */
static kvs_status_t list_zeros(kvs_dev_rows_t *rows, const kvs_dev_part_t *part,
                               kvs_rows_item_t *ret_item)
{
    kvs_dev_row_range_t range =
        kvs_dev_rows_of_part(part, rows->sum.row_elems, rows->n_gone, rows->gone);
    kvs_status_t status = KVS_OK;
    void *ids = NULL;

    *ret_item = empty_item(rows, part);
    ret_item->n_rows = range.end - range.first;
    if (ret_item->n_rows > 0) {
        status = upload(rows, part, rows->gone + range.first,
                        (size_t)ret_item->n_rows * sizeof(*rows->gone), &ids);
    }
    ret_item->ids = ids;
    return status;
}

static piece_t *piece_of(const kvs_dev_rows_t *rows, const kvs_dev_part_t *part)
{
    return &rows->pieces[part - rows->task->key->parts];
}

kvs_status_t kvs_dev_rows_bring(kvs_dev_rows_t *rows, const kvs_dev_part_t *part)
{
    piece_t *piece = piece_of(rows, part);
    size_t row_bytes = kvs_row_union_row_bytes(&rows->sum);
    kvs_status_t status = list_sum(rows, part, &piece->sum);

    if (status != KVS_OK) {
        return status;
    }
    if (replaces(rows)) {
        return list_zeros(rows, part, &piece->zeros);
    }
    if (!is_lazy(rows)) {
        return take_scratch(rows, part, (size_t)part->n * rows->task->elem_bytes, &piece->made);
    }
    return piece->sum.first == NULL
               ? KVS_OK
               : take_scratch(rows, part, (size_t)piece->sum.n_rows * row_bytes, &piece->made);
}

kvs_status_t kvs_dev_rows_replace(const kvs_dev_rows_t *rows, const kvs_dev_part_t *part)
{
    const kvs_provider_t *provider = rows->task->provider;
    const piece_t *piece = piece_of(rows, part);
    kvs_status_t status =
        rows->clears
            ? provider->zero(part->queue, part->weight, (size_t)part->n * rows->task->elem_bytes)
            : provider->rows_put(part->queue, &piece->zeros, 0, part->weight);

    return status == KVS_OK ? provider->rows_put(part->queue, &piece->sum, 0, part->weight)
                            : status;
}

kvs_status_t kvs_dev_rows_gradient(const kvs_dev_rows_t *rows, const kvs_dev_part_t *part,
                                   void **ret_gradient)
{
    const piece_t *piece = piece_of(rows, part); /* what was made is zero */

    *ret_gradient = piece->made;
    return rows->task->provider->rows_put(part->queue, &piece->sum, 0, piece->made);
}

kvs_status_t kvs_dev_rows_step(const kvs_dev_rows_t *rows, const kvs_dev_part_t *part,
                               const kvs_step_item_t *step)
{
    const kvs_provider_t *provider = rows->task->provider;
    const piece_t *piece = piece_of(rows, part);
    kvs_rows_item_t item = piece->sum;
    kvs_status_t status = KVS_OK;

    if (item.first != NULL) {
        status = provider->rows_sum(part->queue, &piece->sum, piece->made);
        item.first = NULL;
        item.packed = piece->made;
    }
    return status == KVS_OK ? provider->rows_step(part->queue, &item, step) : status;
}
