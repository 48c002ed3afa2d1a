/* SPDX-License-Identifier: Apache-2.0 */
/* hoststore_work.c - where only sums and copies are asked for, one kernel reads all values and writes
 * the stored value and all outs; where an optimizer or a conversion takes part, the way goes block
 * by block, each block staying in the first caches until it is done. */
#include "hoststore_work.h"
#include "pieces.h"
#include "sum.h"

/* Elements of a block. While sums alternate with updates, blocks of a page of float32 keep the
 * processor's prefetching on the way in all arrays: a third faster than twice as many, measured. */
#define SUM_BLOCK_ELEMS  KVS_WORK_CUT
#define BLOCK_ELEMS      2048
#define SUM_BLOCK_BYTES  (SUM_BLOCK_ELEMS * 8) /* of the widest dtype */
#define STREAM_MIN_BYTES (64u << 10) /* smaller arrays are left to the caches: they are soon read */

/* ---- A piece of the work, on any thread ------------------------------------------------------------ */

static void *element(const kvs_work_t *work, const void *data, int64_t index)
{
    return (char *)data + (size_t)index * work->elem_bytes;
}

static int has_conversions(const kvs_work_t *work)
{
    return work->n_written <= work->n_outs;
}

static void convert_outs(const kvs_work_t *work, int64_t begin, int64_t end)
{
    for (size_t i = 0; i < work->n_outs; i++) {
        int dtype = kvs_dtype_index(work->outs[i].dtype);

        if (dtype != work->dtype) {
            kvs_cast(end - begin, work->dtype, element(work, work->key->weight, begin), dtype,
                     (char *)work->outs[i].data + (size_t)begin * kvs_dtype_bytes(dtype));
        }
    }
}

static void copy_to_outs(const kvs_work_t *work, int64_t begin, int64_t end)
{
    const void *weight = work->key->weight;

    kvs_sum_range(work->dtype, begin, end, &weight, 1, work->written + 1, work->n_written - 1,
                  work->stream);
}

static void update_weight(const kvs_work_t *work, int64_t begin, int64_t end)
{
    _Alignas(64) char block[SUM_BLOCK_BYTES];
    const void *grad = block;

    if (work->packed.n_values > 0) {
        kvs_packed_sum(&work->packed, begin, end, (float *)block);
    } else if (work->n_values == 1) {
        grad = element(work, work->values[0], begin);
    } else {
        kvs_sum_block(work->dtype, begin, end, work->values, work->n_values, block);
    }
    kvs_opt_step(work->opt, work->update, &work->key->opt, work->dtype, begin, end - begin, grad,
                 element(work, work->key->weight, begin));
}

static void run_block(const kvs_work_t *work, int64_t begin, int64_t end)
{
    if (work->n_values == 0) {
        copy_to_outs(work, begin, end);
    } else if (work->opt != NULL) {
        update_weight(work, begin, end);
        copy_to_outs(work, begin, end);
    } else if (work->packed.n_values > 0) {
        kvs_packed_sum(&work->packed, begin, end, element(work, work->key->weight, begin));
        copy_to_outs(work, begin, end);
    } else {
        kvs_sum_range(work->dtype, begin, end, work->values, work->n_values, work->written,
                      work->n_written, work->stream);
    }
    convert_outs(work, begin, end);
}

static int64_t block_elems(const kvs_work_t *work, int64_t n_elems)
{
    int is_packed = work->packed.n_values > 0;

    if (work->opt != NULL && (work->n_values > 1 || is_packed)) {
        return SUM_BLOCK_ELEMS;
    }
    return work->opt != NULL || is_packed || has_conversions(work) ? BLOCK_ELEMS : n_elems;
}

static void run_piece(void *arg, int64_t begin, int64_t end)
{
    const kvs_work_t *work = arg;
    int64_t block = block_elems(work, end - begin);

    for (int64_t at = begin; at < end; at += block) {
        run_block(work, at, end - at < block ? end : at + block);
    }
}

/* ---- The whole of it ----------------------------------------------------------------------------- */

/* Not if the stored value is read again for conversions. Outs of a store that the caches can't hold
 * will have left them before anybody reads them, whatever the size of this one. */
static int pays_to_stream(const kvs_hoststore_t *host, const kvs_work_t *work, uint64_t n_bytes)
{
    uint64_t n_arrays = 1 + work->n_values + work->n_outs;
    uint64_t n_stored = __atomic_load_n(&host->n_bytes, __ATOMIC_RELAXED);

    return !has_conversions(work) && (kvs_exceeds_cache(n_bytes) ||
                                      (work->n_outs > 0 && n_bytes >= n_arrays * STREAM_MIN_BYTES &&
                                       kvs_exceeds_cache(n_stored * n_arrays)));
}

void kvs_work_run(const kvs_hoststore_t *host, kvs_work_t *work)
{
    uint64_t n_arrays = 1 + work->n_values + work->n_outs + (work->opt != NULL ? 3 : 0);
    uint64_t n_bytes = (uint64_t)work->n_elems * work->elem_bytes * n_arrays;

    if (work->n_elems > 0) {
        work->stream = pays_to_stream(host, work, n_bytes);
        kvs_for_pieces(work->n_elems, n_bytes, run_piece, work);
    }
}
