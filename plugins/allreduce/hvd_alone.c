/* SPDX-License-Identifier: Apache-2.0 */
/* hvd_alone.c - a job of one worker: whatever the reduction, the result is the sum of its own values. */
#include "ar_data.h"
#include "hvd_held.h"
#include "hvd_store.h"

#include <stdlib.h>

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
        status = hvd_held_make(&op->groups[g], &held[g]);
    }
    if (status == KVS_OK) {
        status = hvd_held_write(op, held);
    }
    for (size_t g = 0; held != NULL && g < op->n_groups; g++) {
        hvd_held_release(&held[g]);
    }
    free(held);
    return status;
}

kvs_status_t hvd_alone_run(kvs_op_t *op)
{
    kvs_status_t status = KVS_OK;

    if ((op->flags & KVS_OP_SHARED) != 0) {
        status = run_shared(op);
    }
    for (size_t g = 0; (op->flags & KVS_OP_SHARED) == 0 && g < op->n_groups && status == KVS_OK;
         g++) {
        status = run_group(&op->groups[g]);
    }
    if (status != KVS_OK) {
        return status;
    }
    kvs_plugin_host->consumed(op);
    kvs_plugin_host->complete(op, KVS_OK);
    return KVS_OK;
}
