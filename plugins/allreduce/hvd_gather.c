/* SPDX-License-Identifier: Apache-2.0 */
#include "hvd_gather.h"

#include "hvd_engine.h"

#include "ar_reduce.h"

#include <stdlib.h>
#include <string.h>

static const kvs_device_t host_device = {KVS_DEVICE_CPU, 0};

kvs_status_t hvd_gather_run(hvd_job_t *job, const ar_party_t *party, uint32_t *io_number, int dtype,
                            const int64_t *n, void *const *at)
{
    kvs_status_t status = KVS_OK;

    for (int m = 0; m < party->n_members && status == KVS_OK; m++) {
        uint64_t n_bytes = (uint64_t)n[m] * kvs_dtype_bytes(dtype);
        kvs_tensor_t tensor = {.data = at[m], .device = host_device, .dtype = kvs_dtype(dtype)};
        ar_piece_t piece = {.n_elems = n[m],
                            .values = &tensor,
                            .n_values = 1,
                            .outs = &tensor,
                            .n_outs = at[m] != NULL};
        ar_data_t data = ar_data_number(dtype, &piece, 1);
        ar_party_t step = *party;

        step.number = *io_number;
        *io_number += 2 * ar_group_steps(n_bytes); /* as the table counts them */
        if (n[m] > 0) {
            status = hvd_engine_broadcast(job, &step, party->members[m], &data);
        }
    }
    return status;
}

/* ---- Rows of one worker ------------------------------------------------------------------------- */

kvs_status_t hvd_rows_make(const kvs_group_t *group, hvd_rows_t *ret_rows)
{
    hvd_rows_t own = {.tensor = group->values[0]};
    kvs_row_union_t all;
    kvs_status_t status = kvs_row_union_make(group->values, group->n_values, &all);

    if (status != KVS_OK) {
        return status;
    }
    own.rows =
        (kvs_rows_t){malloc((size_t)all.n_rows * sizeof(int64_t) + 1), all.n_rows, all.n_rows};
    own.tensor.data = malloc((size_t)(all.n_rows * all.row_elems) * kvs_dtype_bytes(all.dtype) + 1);
    if (own.rows.ids == NULL || own.tensor.data == NULL) {
        status = kvs_fail(KVS_ERR_NO_MEMORY, "no memory for %lld rows", (long long)all.n_rows);
        hvd_rows_release(&own);
    } else {
        if (all.n_rows > 0) {
            memcpy(own.rows.ids, all.ids, (size_t)all.n_rows * sizeof(int64_t));
        }
        kvs_row_union_sum(&all, own.tensor.data);
    }
    kvs_row_union_release(&all);
    if (status == KVS_OK) {
        *ret_rows = own;
    }
    return status;
}

void hvd_rows_release(hvd_rows_t *rows)
{
    free(rows->rows.ids);
    free(rows->tensor.data);
    rows->rows.ids = NULL;
    rows->tensor.data = NULL;
}

/* ---- Rows of all --------------------------------------------------------------------------------- */

/* What the members give, one behind the other in one block each of ids and of rows. */
typedef struct parts {
    int n;
    kvs_tensor_t *tensors;
    kvs_rows_t *rows;
    int64_t *n_elems;
    void **at;
} parts_t;

static void release_parts(parts_t *parts, int self)
{
    for (int m = 0; m < parts->n; m++) {
        if (m != self && parts->rows != NULL && parts->tensors != NULL) {
            free(parts->rows[m].ids);
            free(parts->tensors[m].data);
        }
    }
    free(parts->tensors);
    free(parts->rows);
    free(parts->n_elems);
    free(parts->at);
}

static kvs_status_t make_parts(const hvd_rows_t *own, const int64_t *n_rows, int n, int self,
                               parts_t *ret_parts)
{
    size_t row_elems = (size_t)kvs_row_elems(&own->tensor), size = own->tensor.dtype.bits / 8;
    parts_t parts = {n, calloc((size_t)n, sizeof(kvs_tensor_t)),
                     calloc((size_t)n, sizeof(kvs_rows_t)), calloc((size_t)n, sizeof(int64_t)),
                     calloc((size_t)n, sizeof(void *))};
    bool failed =
        parts.tensors == NULL || parts.rows == NULL || parts.n_elems == NULL || parts.at == NULL;

    for (int m = 0; m < n && !failed; m++) {
        parts.tensors[m] = own->tensor;
        parts.tensors[m].rows = &parts.rows[m];
        parts.rows[m] = own->rows;
        if (m == self) {
            continue;
        }
        parts.rows[m] =
            (kvs_rows_t){malloc((size_t)n_rows[m] * sizeof(int64_t) + 1), n_rows[m], n_rows[m]};
        parts.tensors[m].data = malloc((size_t)n_rows[m] * row_elems * size + 1);
        failed = parts.rows[m].ids == NULL || parts.tensors[m].data == NULL;
    }
    *ret_parts = parts;
    return failed ? kvs_fail(KVS_ERR_NO_MEMORY, "no memory for the rows of %d workers", n) : KVS_OK;
}

static kvs_status_t exchange(hvd_job_t *job, const ar_party_t *party, parts_t *parts, int dtype)
{
    uint32_t number = party->number;
    kvs_status_t status;

    for (int m = 0; m < parts->n; m++) {
        parts->n_elems[m] = parts->rows[m].n_rows;
        parts->at[m] = parts->rows[m].ids;
    }
    status = hvd_gather_run(job, party, &number, KVS_DTYPE_int64, parts->n_elems, parts->at);
    for (int m = 0; m < parts->n; m++) {
        parts->n_elems[m] = parts->rows[m].n_rows * kvs_row_elems(&parts->tensors[m]);
        parts->at[m] = parts->tensors[m].data;
    }
    return status == KVS_OK ? hvd_gather_run(job, party, &number, dtype, parts->n_elems, parts->at)
                            : status;
}

/* ---- Outs ----------------------------------------------------------------------------------------- */

static kvs_status_t write_rows(const kvs_row_union_t *all, const void *sums,
                               const kvs_tensor_t *out)
{
    if (out->rows->capacity < all->n_rows) {
        return kvs_fail(KVS_ERR_ARGUMENT, "an out has room for %lld rows, but the sum has %lld",
                        (long long)out->rows->capacity, (long long)all->n_rows);
    }
    if (all->n_rows > 0) {
        memcpy(out->rows->ids, all->ids, (size_t)all->n_rows * sizeof(int64_t));
    }
    out->rows->n_rows = all->n_rows;
    kvs_cast(all->n_rows * all->row_elems, all->dtype, sums, kvs_dtype_index(out->dtype),
             out->data);
    return KVS_OK;
}

/* Rows that nobody has given are zero. */
static void write_dense(const kvs_row_union_t *all, const void *sums, const kvs_tensor_t *out)
{
    size_t row_bytes = (size_t)all->row_elems * (out->dtype.bits / 8);
    size_t from_bytes = (size_t)all->row_elems * kvs_dtype_bytes(all->dtype);

    if (out->data != NULL) {
        memset(out->data, 0, (size_t)all->n_shape * row_bytes);
    }
    for (int64_t i = 0; i < all->n_rows; i++) {
        kvs_cast(all->row_elems, all->dtype, (const char *)sums + (size_t)i * from_bytes,
                 kvs_dtype_index(out->dtype), (char *)out->data + (size_t)all->ids[i] * row_bytes);
    }
}

static kvs_status_t write_outs(const parts_t *parts, int reduce, const kvs_group_t *group,
                               kvs_status_t *ret_own)
{
    kvs_row_union_t all;
    kvs_status_t status = kvs_row_union_make(parts->tensors, (size_t)parts->n, &all);
    void *sums;

    if (status != KVS_OK) {
        return status;
    }
    sums = malloc((size_t)(all.n_rows * all.row_elems) * kvs_dtype_bytes(all.dtype) + 1);
    if (sums == NULL) {
        kvs_row_union_release(&all);
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for %lld rows", (long long)all.n_rows);
    }
    kvs_row_union_sum(&all, sums);
    if (reduce == KVS_REDUCE_AVERAGE) {
        ar_divide(all.dtype, all.n_rows * all.row_elems, (size_t)parts->n, sums);
    }
    *ret_own = KVS_OK;
    for (size_t i = 0; i < group->n_outs && *ret_own == KVS_OK; i++) {
        if (group->outs[i].rows != NULL) {
            *ret_own = write_rows(&all, sums, &group->outs[i]);
        } else {
            write_dense(&all, sums, &group->outs[i]);
        }
    }
    free(sums);
    kvs_row_union_release(&all);
    return KVS_OK;
}

kvs_status_t hvd_rows_run(hvd_job_t *job, const ar_party_t *party, const hvd_rows_t *rows,
                          const int64_t *n_rows, int reduce, const kvs_group_t *group,
                          kvs_status_t *ret_own)
{
    int self = 0, rank = job == NULL ? 0 : kvs_net_node_rank(hvd_job_node(job));
    size_t row_bytes = (size_t)kvs_row_elems(&rows->tensor) * (rows->tensor.dtype.bits / 8);
    size_t id_bytes = sizeof(int64_t);
    kvs_status_t status;
    parts_t parts;

    for (int m = 0; m < party->n_members; m++) {
        self = party->members[m] == rank ? m : self;
    }
    status = hvd_check_rows(party->members, n_rows, party->n_members, rank, rows->rows.n_rows,
                            rows->tensor.shape[0], row_bytes > id_bytes ? row_bytes : id_bytes);
    if (status != KVS_OK) {
        return status;
    }
    status = make_parts(rows, n_rows, party->n_members, self, &parts);
    if (status == KVS_OK && party->n_members > 1) {
        status = exchange(job, party, &parts, kvs_dtype_index(rows->tensor.dtype));
    }
    if (status == KVS_OK) {
        status = write_outs(&parts, reduce, group, ret_own);
    }
    release_parts(&parts, self);
    return status;
}
