/* SPDX-License-Identifier: Apache-2.0 */
/* rowsparse.c - row-sparse values in host memory: what several of them say about each row is found by
 * sorting all their ids once; then every row is read, added up and written in one pass. */
#include "rowsparse.h"
#include "pieces.h"
#include "rowsort.h"
#include "sum.h"

#include <stdlib.h>
#include <string.h>

int64_t kvs_row_elems(const kvs_tensor_t *tensor)
{
    int64_t n = 1;

    for (int32_t i = 1; i < tensor->ndim; i++) {
        n *= tensor->shape[i];
    }
    return n;
}

static kvs_status_t fail_range(int64_t id, int64_t n_rows)
{
    return kvs_fail(KVS_ERR_RANGE, "row id %lld is outside [0, %lld)", (long long)id,
                    (long long)n_rows);
}

/* ---- The union of several values ----------------------------------------------------------------- */

/* List the values' rows in order of the list. `ret_sorted`: they ascend, equal ids side by side. */
static kvs_status_t list_sources(const kvs_tensor_t *values, size_t n_values, int64_t n_rows,
                                 size_t row_bytes, kvs_row_source_t *sources, int *ret_sorted)
{
    int64_t last = 0;
    int sorted = 1;

    for (size_t v = 0; v < n_values; v++) {
        const int64_t *ids = values[v].rows->ids;
        uintptr_t row = (uintptr_t)values[v].data;

        for (int64_t i = 0; i < values[v].rows->n_rows; i++, row += row_bytes) {
            if (ids[i] < 0 || ids[i] >= n_rows) {
                return fail_range(ids[i], n_rows);
            }
            sorted &= ids[i] >= last;
            last = ids[i];
            *sources++ = (kvs_row_source_t){last, row};
        }
    }
    *ret_sorted = sorted;
    return KVS_OK;
}

/* One value whose ids ascend is its own union. */
static int is_packed(const kvs_tensor_t *value, int64_t n_rows)
{
    const kvs_rows_t *rows = value->rows;
    int64_t last = -1;

    for (int64_t i = 0; i < rows->n_rows; i++) {
        if (rows->ids[i] <= last) {
            return 0;
        }
        last = rows->ids[i];
    }
    return last < n_rows;
}

/* The memory of a union of at most `n` rows, made of `n` sources. */
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
    parts->first[n_rows] = n;
    rows->n_rows = n_rows;
    rows->ids = parts->ids;
    rows->first = parts->first;
    rows->sources = parts->sources;
    rows->memory = parts->ids;
}

static kvs_status_t unite(const kvs_tensor_t *values, size_t n_values, int64_t n,
                          kvs_row_union_t *rows)
{
    kvs_row_source_t *sources = malloc((size_t)n * 2 * sizeof(*sources) + 1);
    parts_t parts = {0};
    int sorted = 0;
    kvs_status_t status;

    if (sources == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory to sort the ids of %lld rows", (long long)n);
    }
    status = list_sources(values, n_values, rows->n_shape, kvs_row_union_row_bytes(rows), sources,
                          &sorted);
    if (status == KVS_OK) {
        status = make_parts(n, &parts);
    }
    if (status == KVS_OK) {
        if (!sorted) {
            kvs_rowsort_sources(n, rows->n_shape, sources, sources + n);
        }
        fill_parts(sources, n, &parts, rows);
    }
    free(sources);
    return status;
}

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
    if (n_values == 1 && is_packed(&values[0], rows.n_shape)) {
        rows.n_rows = n;
        rows.ids = values[0].rows->ids;
        rows.packed = values[0].data;
    } else {
        status = unite(values, n_values, n, &rows);
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

void kvs_row_union_part(const kvs_row_union_t *rows, int64_t index, int64_t begin, int64_t end,
                        void *block)
{
    size_t elem_bytes = kvs_dtype_bytes(rows->dtype);
    const void *const *sources = &rows->packed;
    int64_t n = 1;
    size_t offset = (size_t)begin * elem_bytes;

    if (rows->first == NULL) {
        offset += (size_t)index * (size_t)rows->row_elems * elem_bytes;
    } else {
        sources = rows->sources + rows->first[index];
        n = rows->first[index + 1] - rows->first[index];
    }
    if (n == 1) {
        memcpy(block, (const char *)sources[0] + offset, (size_t)(end - begin) * elem_bytes);
    } else {
        kvs_sum_block(rows->dtype, begin, end, sources, (size_t)n, block);
    }
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

/* ---- Sums of a union ------------------------------------------------------------------------------- */

typedef struct union_job {
    const kvs_row_union_t *rows;
    char *to;
    size_t row_bytes;
} union_job_t;

static void sum_rows(void *arg, int64_t begin, int64_t end)
{
    const union_job_t *job = arg;

    for (int64_t i = begin; i < end; i++) {
        kvs_row_union_part(job->rows, i, 0, job->rows->row_elems,
                           job->to + (size_t)i * job->row_bytes);
    }
}

void kvs_row_union_sum(const kvs_row_union_t *rows, void *sums)
{
    union_job_t job = {rows, sums, kvs_row_union_row_bytes(rows)};

    if (rows->n_rows > 0 && job.row_bytes > 0) {
        kvs_for_units(rows->n_rows, kvs_row_union_n_bytes(rows, 1), sum_rows, &job);
    }
}

static void put_rows(void *arg, int64_t begin, int64_t end)
{
    const union_job_t *job = arg;
    const int64_t *ids = job->rows->ids;

    for (int64_t i = begin; i < end; i++) {
        kvs_row_union_part(job->rows, i, 0, job->rows->row_elems,
                           job->to + (size_t)ids[i] * job->row_bytes);
    }
}

void kvs_row_union_put(const kvs_row_union_t *rows, void *dense)
{
    union_job_t job = {rows, dense, kvs_row_union_row_bytes(rows)};

    if (rows->n_rows > 0 && job.row_bytes > 0) {
        kvs_for_units(rows->n_rows, kvs_row_union_n_bytes(rows, 1), put_rows, &job);
    }
}

/* Rows [begin, end) of the dense form. */
static void densify_rows(void *arg, int64_t begin, int64_t end)
{
    const union_job_t *job = arg;
    const kvs_row_union_t *rows = job->rows;
    int64_t i = kvs_row_union_find(rows, begin), at = begin;

    while (at < end) {
        int64_t next = i < rows->n_rows && rows->ids[i] < end ? rows->ids[i] : end;

        memset(job->to + (size_t)at * job->row_bytes, 0, (size_t)(next - at) * job->row_bytes);
        if (next < end) {
            kvs_row_union_part(rows, i++, 0, rows->row_elems,
                               job->to + (size_t)next * job->row_bytes);
        }
        at = next + 1;
    }
}

void kvs_row_union_to_dense(const kvs_row_union_t *rows, void *dense)
{
    union_job_t job = {rows, dense, kvs_row_union_row_bytes(rows)};
    uint64_t n_bytes = kvs_row_union_n_bytes(rows, 1) + (uint64_t)rows->n_shape * job.row_bytes;

    if (rows->n_shape > 0 && job.row_bytes > 0) {
        kvs_for_units(rows->n_shape, n_bytes, densify_rows, &job);
    }
}

/* ---- Rows of a dense array ------------------------------------------------------------------------- */

typedef struct rows_job {
    int dtype, to_dtype;
    int64_t row_elems;
    size_t row_bytes, to_bytes;
    const int64_t *ids;
    int64_t n;
    const char *from;
    char *to;
} rows_job_t;

static void gather_rows(void *arg, int64_t begin, int64_t end)
{
    const rows_job_t *job = arg;

    for (int64_t i = begin; i < end; i++) {
        const char *row = job->from + (size_t)job->ids[i] * job->row_bytes;

        if (i + KVS_ROWS_AHEAD < job->n) {
            kvs_row_prefetch(job->from + (size_t)job->ids[i + KVS_ROWS_AHEAD] * job->row_bytes,
                             job->row_bytes);
        }
        if (job->dtype == job->to_dtype) {
            memcpy(job->to + (size_t)i * job->row_bytes, row, job->row_bytes);
        } else {
            kvs_cast(job->row_elems, job->dtype, row, job->to_dtype,
                     job->to + (size_t)i * job->to_bytes);
        }
    }
}

void kvs_rows_gather(int dtype, int64_t row_elems, const void *dense, int64_t n, const int64_t *ids,
                     int to_dtype, void *rows)
{
    rows_job_t job = {
        .dtype = dtype,
        .to_dtype = to_dtype,
        .row_elems = row_elems,
        .row_bytes = (size_t)row_elems * kvs_dtype_bytes(dtype),
        .to_bytes = (size_t)row_elems * kvs_dtype_bytes(to_dtype),
        .ids = ids,
        .n = n,
        .from = dense,
        .to = rows,
    };

    if (n > 0 && row_elems > 0) {
        kvs_for_units(n, (uint64_t)n * (job.row_bytes + job.to_bytes), gather_rows, &job);
    }
}

static void add_rows(void *arg, int64_t begin, int64_t end)
{
    const rows_job_t *job = arg;

    for (int64_t i = begin; i < end; i++) {
        void *to = job->to + (size_t)job->ids[i] * job->row_bytes;
        const void *terms[] = {to, job->from + (size_t)i * job->row_bytes};

        kvs_sum(job->dtype, job->row_elems, terms, 2, &to, 1, 0);
    }
}

void kvs_rows_add(int dtype, int64_t row_elems, int64_t n, const int64_t *ids, const void *rows,
                  void *dense)
{
    rows_job_t job = {
        .dtype = dtype,
        .row_elems = row_elems,
        .row_bytes = (size_t)row_elems * kvs_dtype_bytes(dtype),
        .ids = ids,
        .n = n,
        .from = rows,
        .to = dense,
    };

    if (n > 0 && row_elems > 0) {
        kvs_for_units(n, (uint64_t)n * 3 * job.row_bytes, add_rows, &job);
    }
}

int kvs_row_is_zero(const void *row, size_t n_bytes)
{
    const char *bytes = row;

    return n_bytes == 0 || (bytes[0] == 0 && memcmp(bytes, bytes + 1, n_bytes - 1) == 0);
}

int64_t kvs_rows_find(size_t row_bytes, int64_t n_rows, const void *dense, int64_t *ids)
{
    int64_t n = 0;

    for (int64_t row = 0; row < n_rows && row_bytes > 0; row++) {
        if (!kvs_row_is_zero((const char *)dense + (size_t)row * row_bytes, row_bytes)) {
            ids[n++] = row;
        }
    }
    return n;
}

/* ---- Lists of row ids -------------------------------------------------------------------------------- */

#define COPY_IDS(type)                                                                             \
    for (int64_t i = 0; i < n; i++) {                                                              \
        ids[i] = ((const type *)data)[i];                                                          \
    }                                                                                              \
    return KVS_OK

static kvs_status_t widen_ids(kvs_dtype_t dtype, const void *data, int64_t n, int64_t *ids)
{
    switch (kvs_dtype_index(dtype)) {
    case KVS_DTYPE_int8:
        COPY_IDS(int8_t);
    case KVS_DTYPE_uint8:
        COPY_IDS(uint8_t);
    case KVS_DTYPE_int32:
        COPY_IDS(int32_t);
    case KVS_DTYPE_int64:
        COPY_IDS(int64_t);
    default:
        return kvs_fail(KVS_ERR_DTYPE, "row ids are %s; integers are accepted",
                        kvs_dtype_name(dtype));
    }
}

/* Sort, keep one of each, and return how many that leaves. `scratch` has room for n. */
static int64_t sort_unique(int64_t n, int64_t n_rows, int64_t *ids, int64_t *scratch)
{
    int64_t n_unique = 0;
    int sorted = 1;

    for (int64_t i = 1; i < n; i++) {
        sorted &= ids[i] >= ids[i - 1];
    }
    if (!sorted) {
        kvs_rowsort_ids(n, n_rows, ids, scratch);
    }
    for (int64_t i = 0; i < n; i++) {
        if (i == 0 || ids[i] != ids[i - 1]) {
            ids[n_unique++] = ids[i];
        }
    }
    return n_unique;
}

static kvs_status_t check_ids(int64_t n, int64_t n_rows, const int64_t *ids)
{
    for (int64_t i = 0; i < n; i++) {
        if (ids[i] < 0 || ids[i] >= n_rows) {
            return fail_range(ids[i], n_rows);
        }
    }
    return KVS_OK;
}

kvs_status_t kvs_row_ids_unique(const kvs_tensor_t *row_ids, int64_t n_rows, int64_t **ret_ids,
                                int64_t *ret_n)
{
    int64_t n = kvs_tensor_n_elems(row_ids);
    int64_t *ids = malloc((size_t)n * 2 * sizeof(*ids) + 1);
    kvs_status_t status;

    if (ids == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory to sort %lld row ids", (long long)n);
    }
    status = widen_ids(row_ids->dtype, row_ids->data, n, ids);
    if (status == KVS_OK) {
        status = check_ids(n, n_rows, ids);
    }
    if (status != KVS_OK) {
        free(ids);
        return status;
    }
    *ret_n = sort_unique(n, n_rows, ids, ids + n);
    *ret_ids = ids;
    return KVS_OK;
}
