/* SPDX-License-Identifier: Apache-2.0 */
/* rowunion.c - what several row-sparse values say about each row: found by merging their ids where those
 * ascend, else by sorting all of them once; then every row is read, added up and written in one pass. */
#include "rowunion.h"
#include "fpenv.h"
#include "kernels.h"
#include "pieces.h"
#include "rowsort.h"

#include <stdlib.h>
#include <string.h>

/* So many values are merged; more are sorted, which then takes less time. */
#define MAX_MERGED 8

/* What a union is made of: `n` sources of at most as many rows. */
typedef struct parts {
    int64_t *ids;
    int64_t *first;
    const void **sources;
} parts_t;

static kvs_status_t make_parts(int64_t n, parts_t *ret_parts)
{
    char *memory = malloc((size_t)n * 3 * sizeof(int64_t) + sizeof(int64_t));

    if (memory == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for the ids of %lld rows", (long long)n);
    }
    ret_parts->ids = (int64_t *)memory;
    ret_parts->first = ret_parts->ids + n;
    ret_parts->sources = (const void **)(ret_parts->first + n + 1);
    return KVS_OK;
}

static void use_parts(const parts_t *parts, int64_t n_rows, int64_t n, kvs_row_union_t *rows)
{
    parts->first[n_rows] = n;
    rows->n_rows = n_rows;
    rows->ids = parts->ids;
    rows->first = parts->first;
    rows->sources = parts->sources;
    rows->memory = parts->ids;
}

/* ---- Values whose ids ascend ------------------------------------------------------------------------ */

/* Ids of the shape in ascending order: with `strictly` each once. */
static int ascends(const kvs_tensor_t *value, int strictly)
{
    const int64_t *ids = value->rows->ids;
    int64_t n = value->rows->n_rows, n_wrong = 0;

    for (int64_t i = 1; i < n; i++) {
        n_wrong += ids[i] < ids[i - 1] + strictly;
    }
    return n_wrong == 0 && (n == 0 || (ids[0] >= 0 && ids[n - 1] < value->shape[0]));
}

static int all_ascend(const kvs_tensor_t *values, size_t n_values)
{
    for (size_t i = 0; i < n_values; i++) {
        if (!ascends(&values[i], 0)) {
            return 0;
        }
    }
    return n_values <= MAX_MERGED;
}

/* How far a value has been merged. */
typedef struct head {
    int64_t id; /* the next; of none INT64_MAX, which no shape has */
    const int64_t *next, *end;
    uintptr_t row;
} head_t;

static void advance(head_t *head, size_t row_bytes)
{
    head->next++;
    head->id = head->next < head->end ? *head->next : INT64_MAX;
    head->row += row_bytes;
}

/* Take the lowest id from the heads of all values until there is none. */
static void merge(head_t *heads, size_t n_values, size_t row_bytes, const parts_t *parts,
                  kvs_row_union_t *rows)
{
    int64_t n_rows = 0, n = 0;

    for (;;) {
        int64_t id = INT64_MAX;

        for (size_t v = 0; v < n_values; v++) {
            id = heads[v].id < id ? heads[v].id : id;
        }
        if (id == INT64_MAX) {
            break;
        }
        parts->ids[n_rows] = id;
        parts->first[n_rows++] = n;
        for (size_t v = 0; v < n_values; v++) {
            while (heads[v].id == id) {
                parts->sources[n++] = (const void *)heads[v].row;
                advance(&heads[v], row_bytes);
            }
        }
    }
    use_parts(parts, n_rows, n, rows);
}

static kvs_status_t merge_values(const kvs_tensor_t *values, size_t n_values, int64_t n,
                                 kvs_row_union_t *rows)
{
    head_t heads[MAX_MERGED];
    parts_t parts = {0};
    kvs_status_t status = make_parts(n, &parts);

    if (status != KVS_OK) {
        return status;
    }
    for (size_t v = 0; v < n_values; v++) {
        const kvs_rows_t *list = values[v].rows;

        heads[v] = (head_t){.id = list->n_rows > 0 ? list->ids[0] : INT64_MAX,
                            .next = list->ids,
                            .end = list->n_rows > 0 ? list->ids + list->n_rows : list->ids,
                            .row = (uintptr_t)values[v].data};
    }
    merge(heads, n_values, kvs_row_union_row_bytes(rows), &parts, rows);
    return KVS_OK;
}

/* ---- Values in any order ----------------------------------------------------------------------------- */

/* List the values' rows in order of the list. */
static kvs_status_t list_sources(const kvs_tensor_t *values, size_t n_values, size_t row_bytes,
                                 kvs_row_source_t *sources)
{
    int64_t n_rows = values[0].shape[0];

    for (size_t v = 0; v < n_values; v++) {
        const int64_t *ids = values[v].rows->ids;
        uintptr_t row = (uintptr_t)values[v].data;

        for (int64_t i = 0; i < values[v].rows->n_rows; i++, row += row_bytes) {
            if (ids[i] < 0 || ids[i] >= n_rows) {
                return kvs_row_fail_range(ids[i], n_rows);
            }
            *sources++ = (kvs_row_source_t){ids[i], row};
        }
    }
    return KVS_OK;
}

/* From sorted sources to one entry for each different row. */
static void fill_parts(const kvs_row_source_t *sources, int64_t n, const parts_t *parts,
                       kvs_row_union_t *rows)
{
    int64_t n_rows = 0;

    for (int64_t i = 0; i < n; i++) {
        parts->sources[i] = (const void *)sources[i].row;
        if (i == 0 || sources[i].id != sources[i - 1].id) {
            parts->ids[n_rows] = sources[i].id;
            parts->first[n_rows++] = i;
        }
    }
    use_parts(parts, n_rows, n, rows);
}

static kvs_status_t sort_values(const kvs_tensor_t *values, size_t n_values, int64_t n,
                                kvs_row_union_t *rows)
{
    kvs_row_source_t *sources = malloc((size_t)n * 2 * sizeof(*sources) + 1);
    parts_t parts = {0};
    kvs_status_t status;

    if (sources == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory to sort the ids of %lld rows", (long long)n);
    }
    status = list_sources(values, n_values, kvs_row_union_row_bytes(rows), sources);
    if (status == KVS_OK) {
        status = make_parts(n, &parts);
    }
    if (status == KVS_OK) {
        kvs_rowsort_sources(n, rows->n_shape, sources, sources + n);
        fill_parts(sources, n, &parts, rows);
    }
    free(sources);
    return status;
}

/* ---- The union ---------------------------------------------------------------------------------------- */

kvs_status_t kvs_row_union_make(const kvs_tensor_t *values, size_t n_values,
                                kvs_row_union_t *ret_rows)
{
    kvs_row_union_t rows = {
        .dtype = kvs_dtype_index(values[0].dtype),
        .row_elems = kvs_row_elems(&values[0]),
        .n_shape = values[0].shape[0],
    };
    int64_t n = 0;
    kvs_status_t status = KVS_OK;

    for (size_t i = 0; i < n_values; i++) {
        n += values[i].rows->n_rows;
    }
    if (n_values == 1 && ascends(&values[0], 1)) {
        rows.n_rows = n;
        rows.ids = values[0].rows->ids;
        rows.packed = values[0].data;
    } else if (all_ascend(values, n_values)) {
        status = merge_values(values, n_values, n, &rows);
    } else {
        status = sort_values(values, n_values, n, &rows);
    }
    if (status == KVS_OK) {
        *ret_rows = rows;
    }
    return status;
}

void kvs_row_union_release(kvs_row_union_t *rows)
{
    free(rows->memory);
    *rows = (kvs_row_union_t){0};
}

int64_t kvs_row_union_find(const kvs_row_union_t *rows, int64_t id)
{
    int64_t low = 0, high = rows->n_rows;

    while (low < high) {
        int64_t middle = low + (high - low) / 2;

        if (rows->ids[middle] < id) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

uint64_t kvs_row_union_n_bytes(const kvs_row_union_t *rows, uint64_t n_times)
{
    int64_t n_sources = rows->first == NULL ? rows->n_rows : rows->first[rows->n_rows];

    return ((uint64_t)n_sources + n_times * (uint64_t)rows->n_rows) * kvs_row_union_row_bytes(rows);
}

/* ---- Sums ------------------------------------------------------------------------------------------- */

/* What the pieces of one job share. */
typedef struct job {
    const kvs_row_union_t *rows;
    kvs_sum_kernel_t *kernel;
    size_t row_bytes;
    char *to;
} job_t;

static job_t job_of(const kvs_row_union_t *rows, void *to)
{
    return (job_t){rows, kvs_kernels()->sum[rows->dtype], kvs_row_union_row_bytes(rows), to};
}

/* The sum of row `index`, in the default floating-point environment. */
static void sum_row(const job_t *job, int64_t index, void *to)
{
    const kvs_row_union_t *rows = job->rows;

    if (rows->first == NULL) {
        memcpy(to, (const char *)rows->packed + (size_t)index * job->row_bytes, job->row_bytes);
        return;
    }
    const void *const *sources = rows->sources + rows->first[index];
    size_t n = (size_t)(rows->first[index + 1] - rows->first[index]);

    if (n == 1) {
        memcpy(to, sources[0], job->row_bytes);
    } else {
        job->kernel(0, rows->row_elems, sources, n, 0, &to, 1, 0);
    }
}

/* Have what is read and written for the row KVS_ROWS_AHEAD of `index` on its way to the caches. */
static void prefetch_row(const job_t *job, int64_t index, int64_t end, int in_place)
{
    const kvs_row_union_t *rows = job->rows;
    int64_t ahead = index + KVS_ROWS_AHEAD;

    if (ahead >= end) {
        return;
    }
    if (rows->first != NULL) {
        for (int64_t i = rows->first[ahead]; i < rows->first[ahead + 1]; i++) {
            kvs_row_prefetch(rows->sources[i], job->row_bytes);
        }
    }
    if (in_place) {
        kvs_row_prefetch(job->to + (size_t)rows->ids[ahead] * job->row_bytes, job->row_bytes);
    }
}

void kvs_row_union_sum_range(const kvs_row_union_t *rows, int64_t begin, int64_t end, void *sums)
{
    job_t job = job_of(rows, sums);
    unsigned fpenv = kvs_fpenv_enter();

    for (int64_t i = begin; i < end; i++) {
        prefetch_row(&job, i, rows->n_rows, 0);
        sum_row(&job, i, job.to + (size_t)(i - begin) * job.row_bytes);
    }
    kvs_fpenv_leave(fpenv);
}

static void sum_rows(void *arg, int64_t begin, int64_t end)
{
    const job_t *job = arg;

    kvs_row_union_sum_range(job->rows, begin, end, job->to + (size_t)begin * job->row_bytes);
}

void kvs_row_union_sum(const kvs_row_union_t *rows, void *sums)
{
    job_t job = job_of(rows, sums);

    if (rows->n_rows > 0 && job.row_bytes > 0) {
        kvs_for_units(rows->n_rows, kvs_row_union_n_bytes(rows, 1), sum_rows, &job);
    }
}

static void put_rows(void *arg, int64_t begin, int64_t end)
{
    const job_t *job = arg;
    unsigned fpenv = kvs_fpenv_enter();

    for (int64_t i = begin; i < end; i++) {
        prefetch_row(job, i, end, 1);
        sum_row(job, i, job->to + (size_t)job->rows->ids[i] * job->row_bytes);
    }
    kvs_fpenv_leave(fpenv);
}

void kvs_row_union_put(const kvs_row_union_t *rows, void *dense)
{
    job_t job = job_of(rows, dense);

    if (rows->n_rows > 0 && job.row_bytes > 0) {
        kvs_for_units(rows->n_rows, kvs_row_union_n_bytes(rows, 1), put_rows, &job);
    }
}

/* Rows [begin, end) of the dense form. */
static void densify_rows(void *arg, int64_t begin, int64_t end)
{
    const job_t *job = arg;
    const kvs_row_union_t *rows = job->rows;
    int64_t i = kvs_row_union_find(rows, begin), at = begin;
    unsigned fpenv = kvs_fpenv_enter();

    while (at < end) {
        int64_t next = i < rows->n_rows && rows->ids[i] < end ? rows->ids[i] : end;

        memset(job->to + (size_t)at * job->row_bytes, 0, (size_t)(next - at) * job->row_bytes);
        if (next < end) {
            sum_row(job, i++, job->to + (size_t)next * job->row_bytes);
        }
        at = next + 1;
    }
    kvs_fpenv_leave(fpenv);
}

void kvs_row_union_to_dense(const kvs_row_union_t *rows, void *dense)
{
    job_t job = job_of(rows, dense);
    uint64_t n_bytes = kvs_row_union_n_bytes(rows, 1) + (uint64_t)rows->n_shape * job.row_bytes;

    if (rows->n_shape > 0 && job.row_bytes > 0) {
        kvs_for_units(rows->n_shape, n_bytes, densify_rows, &job);
    }
}
