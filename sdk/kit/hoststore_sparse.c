/* SPDX-License-Identifier: Apache-2.0 */
/* hoststore_sparse.c - a row-sparse key is stored dense, rows it lacks being zero, with a bit for each
 * row it has: so that rows are found by their ids, an update needs no room to be made for it, and a
 * push that replaces clears what was there and nothing else. */
#include "hoststore_sparse.h"

#include "hoststore_update.h"
#include "pieces.h"
#include "rowset.h"
#include "rowunion.h"

#include <stdlib.h>
#include <string.h>

/* The sums of some rows that go to the optimizer while they are in the first cache. */
#define BLOCK_BYTES 8192

static int64_t n_rows_of(const kvs_key_entry_t *entry)
{
    return entry->shape[0];
}

static int64_t n_words_of(const kvs_key_entry_t *entry)
{
    return kvs_rowset_n_words(n_rows_of(entry));
}

static int64_t row_elems_of(const kvs_key_entry_t *entry)
{
    int64_t n = 1;

    for (int32_t i = 1; i < entry->ndim; i++) {
        n *= entry->shape[i];
    }
    return n;
}

static size_t row_bytes_of(const kvs_key_entry_t *entry)
{
    return (size_t)row_elems_of(entry) * kvs_dtype_bytes(kvs_dtype_index(entry->dtype));
}

/* ---- The rows that a key has ----------------------------------------------------------------------- */

/* The rows that it has now, whatever else is true of the others. */
static void add_rows(kvs_hoststore_key_t *key, const kvs_row_union_t *rows)
{
    if (key->rows != NULL) {
        kvs_rowset_add(key->rows, rows->n_rows, rows->ids);
    }
}

typedef struct find_job {
    kvs_hoststore_key_t *key;
    int64_t n_rows;
    size_t row_bytes;
} find_job_t;

/* Among the rows of words [begin, end), those that are not zero. */
static void find_rows(void *arg, int64_t begin, int64_t end)
{
    const find_job_t *job = arg;
    int64_t last = end * KVS_ROWSET_BITS < job->n_rows ? end * KVS_ROWSET_BITS : job->n_rows;

    for (int64_t row = begin * KVS_ROWSET_BITS; row < last; row++) {
        const char *weight = (const char *)job->key->weight + (size_t)row * job->row_bytes;

        if (!kvs_row_is_zero(weight, job->row_bytes)) {
            kvs_rowset_add(job->key->rows, 1, &row);
        }
    }
}

/* An update may have reached rows that no push has listed. */
static void settle_rows(const kvs_key_entry_t *entry)
{
    kvs_hoststore_key_t *key = entry->state;
    find_job_t job = {key, n_rows_of(entry), row_bytes_of(entry)};

    if (key->rows_unsure && key->n_bytes > 0) {
        kvs_for_units(n_words_of(entry), key->n_bytes, find_rows, &job);
    }
    key->rows_unsure = 0;
}

/* ---- Pushes that replace ------------------------------------------------------------------------------ */

typedef struct replace_job {
    kvs_hoststore_key_t *key;
    const kvs_row_union_t *rows;
    size_t row_bytes;
} replace_job_t;

/* Clear the rows of words [begin, end) that the key had and the sum lacks; it now has the sum's. */
static void replace_words(void *arg, int64_t begin, int64_t end)
{
    const replace_job_t *job = arg;
    const kvs_row_union_t *rows = job->rows;
    int64_t i = kvs_row_union_find(rows, begin * KVS_ROWSET_BITS);

    for (int64_t w = begin; w < end; w++) {
        uint64_t now = 0, gone;

        for (; i < rows->n_rows && rows->ids[i] / KVS_ROWSET_BITS == w; i++) {
            now |= (uint64_t)1 << rows->ids[i] % KVS_ROWSET_BITS;
        }
        gone = job->row_bytes > 0 ? job->key->rows[w] & ~now : 0;
        job->key->rows[w] = now;
        while (gone != 0) {
            int64_t row = w * KVS_ROWSET_BITS + kvs_rowset_take(&gone);

            memset((char *)job->key->weight + (size_t)row * job->row_bytes, 0, job->row_bytes);
        }
    }
}

static void replace(const kvs_key_entry_t *entry, const kvs_row_union_t *rows)
{
    kvs_hoststore_key_t *key = entry->state;
    replace_job_t job = {key, rows, row_bytes_of(entry)};
    uint64_t n_words = (uint64_t)n_words_of(entry);

    if (key->rows == NULL || key->rows_unsure) {
        kvs_row_union_to_dense(rows, key->weight);
        if (key->rows != NULL) {
            memset(key->rows, 0, n_words * sizeof(*key->rows));
            add_rows(key, rows);
            key->rows_unsure = 0;
        }
        return;
    }
    if (n_words > 0) {
        kvs_for_units((int64_t)n_words, n_words * 8 + (uint64_t)rows->n_rows * job.row_bytes,
                      replace_words, &job);
    }
    kvs_row_union_put(rows, key->weight);
}

/* ---- Pushes that update ------------------------------------------------------------------------------- */

/* The sums one after the other: as they came, or in the merge buffer. */
static kvs_status_t pack(const kvs_key_entry_t *entry, const kvs_row_union_t *rows,
                         const void **ret_packed)
{
    const kvs_hoststore_key_t *key = entry->state;
    kvs_status_t status = KVS_OK;

    if (rows->first == NULL) {
        *ret_packed = rows->packed;
        return KVS_OK;
    }
    status = kvs_update_make_merge(entry);
    if (status == KVS_OK) {
        kvs_row_union_sum(rows, key->merge);
        *ret_packed = key->merge;
    }
    return status;
}

static kvs_status_t update_by_updater(const kvs_hoststore_t *host, const kvs_key_entry_t *entry,
                                      const kvs_row_union_t *rows)
{
    kvs_hoststore_key_t *key = entry->state;
    kvs_rows_t list = {(int64_t *)(uintptr_t)rows->ids, rows->n_rows, rows->n_rows};
    const void *packed;
    kvs_status_t status = pack(entry, rows, &packed);

    if (status != KVS_OK) {
        return kvs_update_name_key(status, entry);
    }
    add_rows(key, rows);
    key->rows_unsure = key->rows != NULL;
    return kvs_update_call(host, entry, packed, &list);
}

/* By an optimizer that is to see every row. */
static kvs_status_t update_all_rows(const kvs_hoststore_t *host, const kvs_group_t *group,
                                    const kvs_row_union_t *rows)
{
    kvs_hoststore_key_t *key = group->key->state;
    kvs_status_t status = kvs_update_make_merge(group->key);

    if (status != KVS_OK) {
        return kvs_update_name_key(status, group->key);
    }
    const void *gradient = key->merge;
    kvs_work_t work = {
        .key = key,
        .n_elems = group->key->n_elems,
        .dtype = rows->dtype,
        .elem_bytes = kvs_dtype_bytes(rows->dtype),
        .values = &gradient,
        .n_values = 1,
        .written = &key->weight,
        .n_written = 1,
    };

    kvs_row_union_to_dense(rows, key->merge);
    status = kvs_update_by_optimizer(host, group, &work);
    if (status == KVS_OK) {
        add_rows(key, rows);
        key->rows_unsure = key->rows != NULL;
    }
    return status;
}

typedef struct lazy_job {
    const kvs_opt_t *opt;
    const kvs_opt_update_t *update;
    kvs_hoststore_key_t *key;
    const kvs_row_union_t *rows;
    const char *packed; /* NULL: to be summed block by block */
    size_t row_bytes;
} lazy_job_t;

static void step_packed(const lazy_job_t *job, int64_t begin, int64_t end, const void *packed)
{
    kvs_opt_step_rows(job->opt, job->update, &job->key->opt, job->rows->dtype, end - begin,
                      job->rows->ids + begin, packed, job->key->weight);
}

static void step_rows(void *arg, int64_t begin, int64_t end)
{
    const lazy_job_t *job = arg;
    _Alignas(64) char block[BLOCK_BYTES];

    if (job->packed != NULL) {
        step_packed(job, begin, end, job->packed + (size_t)begin * job->row_bytes);
        return;
    }
    int64_t n_block = (int64_t)(BLOCK_BYTES / job->row_bytes);

    for (int64_t at = begin; at < end; at += n_block) {
        int64_t n = end - at < n_block ? end - at : n_block;

        kvs_row_union_sum_range(job->rows, at, at + n, block);
        step_packed(job, at, at + n, block);
    }
}

static kvs_status_t update_listed_rows(const kvs_hoststore_t *host, const kvs_group_t *group,
                                       const kvs_row_union_t *rows)
{
    const kvs_hoststore_group_t *issued = group->state;
    kvs_hoststore_key_t *key = group->key->state;
    lazy_job_t job = {host->opt, &issued->update, key, rows, NULL, kvs_row_union_row_bytes(rows)};
    const void *packed = NULL;
    kvs_status_t status = KVS_OK;

    if (rows->first == NULL || job.row_bytes > BLOCK_BYTES) {
        status = pack(group->key, rows, &packed);
    }
    if (status == KVS_OK) {
        status = kvs_opt_begin(host->opt, &key->opt, group->key, key->weight);
    }
    if (status != KVS_OK) {
        return kvs_update_name_key(status, group->key);
    }
    job.packed = packed;
    add_rows(key, rows);
    if (rows->n_rows > 0 && job.row_bytes > 0) {
        kvs_for_units(rows->n_rows, kvs_row_union_n_bytes(rows, 4), step_rows, &job);
    }
    return KVS_OK;
}

/* ---- Groups --------------------------------------------------------------------------------------------- */

kvs_status_t kvs_sparse_init(const kvs_group_t *group)
{
    kvs_hoststore_key_t *key = group->key->state;
    kvs_row_union_t rows;

    key->rows = calloc((size_t)n_words_of(group->key) + 1, sizeof(*key->rows));
    if (key->rows == NULL) {
        return kvs_update_name_key(kvs_fail(KVS_ERR_NO_MEMORY, "no memory for a list of %lld rows",
                                            (long long)n_rows_of(group->key)),
                                   group->key);
    }
    kvs_status_t status = kvs_row_union_make(group->values, 1, &rows);

    if (status != KVS_OK) {
        return kvs_update_name_key(status, group->key);
    }
    kvs_row_union_put(&rows, key->weight);
    add_rows(key, &rows);
    kvs_row_union_release(&rows);
    return KVS_OK;
}

kvs_status_t kvs_sparse_push(const kvs_hoststore_t *host, const kvs_group_t *group)
{
    const kvs_hoststore_group_t *issued = group->state;
    kvs_row_union_t rows;
    kvs_status_t status = kvs_row_union_make(group->values, group->n_values, &rows);

    if (status != KVS_OK) {
        return kvs_update_name_key(status, group->key);
    }
    if (host->updater != NULL) {
        status = update_by_updater(host, group->key, &rows);
    } else if (host->opt == NULL) {
        replace(group->key, &rows);
    } else if (issued->update.lazy) {
        status = update_listed_rows(host, group, &rows);
    } else {
        status = update_all_rows(host, group, &rows);
    }
    kvs_row_union_release(&rows);
    return status;
}

kvs_status_t kvs_sparse_fail_room(size_t index, const kvs_tensor_t *out, int64_t n)
{
    return kvs_fail(KVS_ERR_ARGUMENT, "out %zu has room for %lld rows, but gets %lld", index,
                    (long long)out->rows->capacity, (long long)n);
}

void kvs_sparse_write_out(const kvs_key_entry_t *entry, int64_t n, const int64_t *ids,
                          const kvs_tensor_t *out)
{
    const kvs_hoststore_key_t *key = entry->state;

    kvs_rows_gather(kvs_dtype_index(entry->dtype), row_elems_of(entry), key->weight, n, ids,
                    kvs_dtype_index(out->dtype), out->data);
    if (n > 0) {
        memcpy(out->rows->ids, ids, (size_t)n * sizeof(*ids));
    }
    out->rows->n_rows = n;
}

kvs_status_t kvs_sparse_check_room(const kvs_key_entry_t *entry, const kvs_tensor_t *outs,
                                   size_t n_outs)
{
    const kvs_hoststore_key_t *key = entry->state;
    int64_t n;

    if (!kvs_sparse_has_rows(outs, n_outs)) {
        return KVS_OK;
    }
    settle_rows(entry);
    n = kvs_rowset_count(key->rows, n_words_of(entry));
    for (size_t i = 0; i < n_outs; i++) {
        if (outs[i].rows != NULL && outs[i].rows->capacity < n) {
            return kvs_sparse_fail_room(i, &outs[i], n);
        }
    }
    return KVS_OK;
}

/* The place of the row-sparse out with the least room; n_outs: there is none. */
static size_t smallest_out(const kvs_group_t *group)
{
    size_t smallest = group->n_outs;

    for (size_t i = 0; i < group->n_outs; i++) {
        const kvs_rows_t *rows = group->outs[i].rows;

        if (rows != NULL &&
            (smallest == group->n_outs || rows->capacity < group->outs[smallest].rows->capacity)) {
            smallest = i;
        }
    }
    return smallest;
}

/* How many of the ids are not in the set. */
static int64_t n_new_rows(const uint64_t *set, const kvs_row_union_t *rows)
{
    int64_t n = 0;

    for (int64_t i = 0; i < rows->n_rows; i++) {
        n += (set[rows->ids[i] / KVS_ROWSET_BITS] >> rows->ids[i] % KVS_ROWSET_BITS & 1) == 0;
    }
    return n;
}

kvs_status_t kvs_sparse_check_push_room(const kvs_hoststore_t *host, const kvs_group_t *group)
{
    const kvs_hoststore_key_t *key = group->key->state;
    int stays = host != NULL && (host->updater != NULL || host->opt != NULL);
    size_t out = smallest_out(group);
    int64_t n = 0, n_listed = 0;
    kvs_row_union_t rows;
    kvs_status_t status;

    if (out == group->n_outs || !kvs_sparse_has_rows(group->values, group->n_values)) {
        return KVS_OK;
    }
    if (stays) {
        settle_rows(group->key);
        n = kvs_rowset_count(key->rows, n_words_of(group->key));
    }
    for (size_t i = 0; i < group->n_values; i++) {
        n_listed += group->values[i].rows->n_rows;
    }
    if (n + n_listed <= group->outs[out].rows->capacity) {
        return KVS_OK;
    }
    status = kvs_row_union_make(group->values, group->n_values, &rows);
    if (status != KVS_OK) {
        return status;
    }
    n += stays ? n_new_rows(key->rows, &rows) : rows.n_rows;
    kvs_row_union_release(&rows);
    return group->outs[out].rows->capacity < n ? kvs_sparse_fail_room(out, &group->outs[out], n)
                                               : KVS_OK;
}

kvs_status_t kvs_sparse_pull(const kvs_key_entry_t *entry, const kvs_tensor_t *out)
{
    const kvs_hoststore_key_t *key = entry->state;
    int64_t n, *ids;

    settle_rows(entry);
    n = kvs_rowset_count(key->rows, n_words_of(entry));
    ids = malloc((size_t)n * sizeof(*ids) + 1);
    if (ids == NULL) {
        return kvs_update_name_key(
            kvs_fail(KVS_ERR_NO_MEMORY, "no memory for a list of %lld rows", (long long)n), entry);
    }
    kvs_rowset_list(key->rows, n_words_of(entry), ids);
    kvs_sparse_write_out(entry, n, ids, out);
    free(ids);
    return KVS_OK;
}
