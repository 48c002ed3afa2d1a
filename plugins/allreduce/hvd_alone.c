/* SPDX-License-Identifier: Apache-2.0 */
/* hvd_alone.c - a job of one worker: whatever the reduction, the result is the sum of its own values. */
#include "ar_data.h"
#include "hvd_held.h"
#include "hvd_store.h"

#include <kvstore/allreduce.h>

#include <stdlib.h>
#include <string.h>

#define BLOCK_BYTES 65536

typedef struct work {
    const ar_data_t *data;
    size_t block; /* elements */
} work_t;

static void sum_some(void *arg, int64_t begin, int64_t end)
{
    const work_t *work = arg;
    _Alignas(64) char block[BLOCK_BYTES];

    for (int64_t at = begin; at < end; at += (int64_t)work->block) {
        int64_t stop = at + (int64_t)work->block < end ? at + (int64_t)work->block : end;

        ar_data_read(work->data, at, stop, block);
        ar_data_write(work->data, at, stop, block);
    }
}

/* The rows that were given, each once. */
static kvs_status_t run_rows(const kvs_op_t *op, const kvs_group_t *group)
{
    const ar_party_t party = {.n_members = 1, .members = (const int[]){0}};
    kvs_status_t own = KVS_OK, status;
    hvd_rows_t rows;

    if (op->reduce > KVS_REDUCE_AVERAGE) {
        return kvs_fail(KVS_ERR_NOT_IMPLEMENTED,
                        "pushpull: of row-sparse values there are the sum and the average only");
    }
    status = hvd_rows_make(group, &rows);
    if (status == KVS_OK) {
        status = hvd_rows_run(NULL, &party, &rows, &rows.rows.n_rows, KVS_REDUCE_SUM, group, &own);
        hvd_rows_release(&rows);
    }
    status = status != KVS_OK ? status : own;
    if (status == KVS_OK) {
        return KVS_OK;
    }
    return group->key->name != NULL
               ? kvs_fail_context(status, "pushpull: key '%s'", group->key->name)
               : kvs_fail_context(status, "pushpull: key %lld", (long long)group->key->number);
}

static kvs_status_t run_group(const kvs_group_t *group)
{
    ar_piece_t piece = {.n_elems = kvs_tensor_n_elems(&group->values[0]),
                        .values = group->values,
                        .n_values = group->n_values,
                        .outs = group->outs,
                        .n_outs = group->n_outs};
    kvs_tensor_t held = {0};
    kvs_status_t status = KVS_OK;

    if (group->n_values > AR_MAX_VALUES) {
        status = hvd_held_make(group, &held);
        piece.values = &held;
        piece.n_values = 1;
    }
    if (status == KVS_OK) {
        ar_data_t data = ar_data_number(kvs_dtype_index(group->values[0].dtype), &piece, 1);
        work_t work = {&data, BLOCK_BYTES / kvs_dtype_bytes(data.dtype)};

        kvs_plugin_host->parallel_for(data.n_elems, (int64_t)work.block * 4, sum_some, &work);
        hvd_held_release(&held);
    }
    return status;
}

/* All values are read before any out is written. */
static kvs_status_t run_shared(const kvs_op_t *op)
{
    kvs_tensor_t *held = calloc(op->n_groups, sizeof(*held));
    kvs_status_t status =
        held == NULL ? kvs_fail(KVS_ERR_NO_MEMORY, "no memory for %zu sums", op->n_groups) : KVS_OK;

    for (size_t g = 0; g < op->n_groups && status == KVS_OK; g++) {
        status = op->groups[g].values[0].rows == NULL ? hvd_held_make(&op->groups[g], &held[g])
                                                      : run_rows(op, &op->groups[g]);
        held[g].rows = op->groups[g].values[0].rows;
    }
    if (status == KVS_OK) {
        status = hvd_held_write(op, held);
    }
    for (size_t g = 0; held != NULL && g < op->n_groups; g++) {
        if (held[g].rows == NULL) {
            hvd_held_release(&held[g]);
        }
    }
    free(held);
    return status;
}

kvs_status_t hvd_alone_run(kvs_op_t *op)
{
    kvs_status_t status = KVS_OK;

    if (op->reduce > KVS_REDUCE_MAX) {
        return kvs_fail(KVS_ERR_ARGUMENT, "pushpull: reduction %u is none of KVS_REDUCE_...",
                        op->reduce);
    }
    if ((op->flags & KVS_OP_SHARED) != 0) {
        status = run_shared(op);
    }
    for (size_t g = 0; (op->flags & KVS_OP_SHARED) == 0 && g < op->n_groups && status == KVS_OK;
         g++) {
        status = op->groups[g].values[0].rows == NULL ? run_group(&op->groups[g])
                                                      : run_rows(op, &op->groups[g]);
    }
    if (status != KVS_OK) {
        return status;
    }
    kvs_devhost_consumed(op);
    kvs_devhost_complete(op, KVS_OK);
    return KVS_OK;
}

/* ---- Allgather -------------------------------------------------------------------------------------- */

static bool is_taken(int32_t device_type)
{
    return device_type == KVS_DEVICE_CPU || device_type == KVS_DEVICE_CUDA ||
           device_type == KVS_DEVICE_CUDA_HOST || device_type == KVS_DEVICE_CUDA_MANAGED;
}

static kvs_status_t check_array(const kvs_tensor_t *tensor, const char *what)
{
    int64_t step = 1;

    if (tensor == NULL || tensor->ndim < 1 || tensor->ndim > HVD_MAX_NDIM ||
        tensor->shape == NULL || tensor->rows != NULL || kvs_dtype_index(tensor->dtype) < 0 ||
        !is_taken(tensor->device.type)) {
        return kvs_fail(KVS_ERR_ARGUMENT,
                        "allgather: the %s is no dense array of one dimension or more, of one of "
                        "the eight dtypes, on the CPU or a CUDA device",
                        what);
    }
    for (int32_t i = tensor->ndim - 1; i >= 0; i--) {
        if (tensor->shape[i] < 0 ||
            (tensor->strides != NULL && tensor->shape[i] > 1 && tensor->strides[i] != step)) {
            return kvs_fail(KVS_ERR_ARGUMENT, "allgather: the %s is not compact", what);
        }
        if (__builtin_mul_overflow(step, tensor->shape[i], &step)) {
            return kvs_fail(KVS_ERR_RANGE, "allgather: the shape of the %s is too large", what);
        }
    }
    if (step > 0 && tensor->data == NULL) {
        return kvs_fail(KVS_ERR_ARGUMENT, "allgather: the %s's data is NULL", what);
    }
    return KVS_OK;
}

kvs_status_t hvd_check_gather(const kvs_key_t *key, const kvs_tensor_t *value,
                              const kvs_tensor_t *out)
{
    kvs_status_t status = check_array(value, "value");

    if (status == KVS_OK) {
        status = check_array(out, "out");
    }
    if (status != KVS_OK) {
        return status;
    }
    if (key->str != NULL && strlen(key->str) > KVS_KEY_MAX_BYTES) {
        return kvs_fail(KVS_ERR_ARGUMENT, "allgather: the key is longer than %d bytes",
                        KVS_KEY_MAX_BYTES);
    }
    if (kvs_dtype_index(value->dtype) != kvs_dtype_index(out->dtype)) {
        return kvs_fail(KVS_ERR_DTYPE, "allgather: the value is %s, but the out is %s",
                        kvs_dtype_name(value->dtype), kvs_dtype_name(out->dtype));
    }
    for (int32_t i = 1; i < value->ndim || i < out->ndim; i++) {
        if (value->ndim != out->ndim || value->shape[i] != out->shape[i]) {
            return kvs_fail(KVS_ERR_SHAPE,
                            "allgather: value and out differ beyond their first dimension");
        }
    }
    return KVS_OK;
}

kvs_status_t hvd_alone_allgather(const kvs_tensor_t *value, const kvs_tensor_t *out)
{
    size_t n_bytes = (size_t)kvs_tensor_n_elems(value) * (value->dtype.bits / 8);

    if (value->shape[0] != out->shape[0]) {
        return kvs_fail(KVS_ERR_SHAPE,
                        "allgather: the first dimension of the value is %lld, but that of the out "
                        "is %lld",
                        (long long)value->shape[0], (long long)out->shape[0]);
    }
    if (n_bytes > 0) {
        memcpy(out->data, value->data, n_bytes);
    }
    return KVS_OK;
}
