/* SPDX-License-Identifier: Apache-2.0 */
/* rowsparse.c - rows of dense arrays in host memory, and lists of row ids. */
#include "rowsparse.h"
#include "pieces.h"
#include "rowsort.h"

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

kvs_status_t kvs_row_fail_range(int64_t id, int64_t n_rows)
{
    return kvs_fail(KVS_ERR_RANGE, "row id %lld is outside [0, %lld)", (long long)id,
                    (long long)n_rows);
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
            return kvs_row_fail_range(ids[i], n_rows);
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
