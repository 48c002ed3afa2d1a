/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_rows.c - see cuda_rows.h. */
#include "cuda_rows.h"

#include "cuda_launch.h"
#include "cuda_memory.h"

#include <string.h>

#define VECTOR_BYTES 16

typedef struct dtype_kernels {
    int elem_bytes, sums, lazy, lazyrows; /* KERNEL_… */
} dtype_kernels_t;

static const dtype_kernels_t kernels_of[KVS_N_DTYPES] = {
    [KVS_DTYPE_float32] = {4, KERNEL_union_f32, KERNEL_lazy_f32, KERNEL_lazyrows_f32},
    [KVS_DTYPE_float64] = {8, KERNEL_union_f64, KERNEL_lazy_f64, KERNEL_lazyrows_f64},
    [KVS_DTYPE_float16] = {2, KERNEL_union_f16, KERNEL_lazy_f16, KERNEL_lazyrows_f16},
    [KVS_DTYPE_bfloat16] = {2, KERNEL_union_bf16, KERNEL_lazy_bf16, KERNEL_lazyrows_bf16},
    [KVS_DTYPE_int8] = {.elem_bytes = 1, .sums = KERNEL_union_u8},
    [KVS_DTYPE_uint8] = {.elem_bytes = 1, .sums = KERNEL_union_u8},
    [KVS_DTYPE_int32] = {.elem_bytes = 4, .sums = KERNEL_union_u32},
    [KVS_DTYPE_int64] = {.elem_bytes = 8, .sums = KERNEL_union_u64},
};

/* Threads for rows whose elements are looked at `unit` at a time. */
static cuda_rows_map_t map_of(const kvs_rows_item_t *item, int64_t unit)
{
    cuda_rows_map_t map = {.row_elems = item->row_elems,
                           .n_rows = item->n_rows,
                           .ids = item->ids,
                           .begin = item->begin,
                           .n = item->n,
                           .pieces = 1,
                           .lanes = 1};

    while (map.lanes < CUDA_BLOCK && map.lanes < cuda_n_chunks(item->row_elems, unit)) {
        map.lanes *= 2;
        map.lane_bits++;
    }
    if (map.lanes == CUDA_BLOCK) {
        map.pieces = cuda_n_chunks(item->row_elems, CUDA_CHUNK);
    }
    return map;
}

static int64_t n_blocks_of(const cuda_rows_map_t *map)
{
    return map->row_elems == 0 ? 0
                               : cuda_n_chunks(map->n_rows, CUDA_BLOCK / map->lanes) * map->pieces;
}

static kvs_status_t write_rows(kvs_queue_t *queue, const kvs_rows_item_t *item,
                               cuda_rows_args_t *args)
{
    const dtype_kernels_t *kernels = &kernels_of[item->dtype];

    args->map = map_of(item, VECTOR_BYTES / kernels->elem_bytes);
    args->first = item->first;
    args->sources = item->sources;
    args->packed = item->packed;
    return cuda_launch(cuda_device_of_queue(queue), kernels->sums, n_blocks_of(&args->map), args);
}

kvs_status_t cuda_rows_sum(kvs_queue_t *queue, const kvs_rows_item_t *item, void *sums)
{
    cuda_rows_args_t args = {.sums = sums};

    return write_rows(queue, item, &args);
}

kvs_status_t cuda_rows_put(kvs_queue_t *queue, const kvs_rows_item_t *item, int add, void *range)
{
    cuda_rows_args_t args = {.range = range, .add = add != 0};

    return write_rows(queue, item, &args);
}

kvs_status_t cuda_rows_gather(kvs_queue_t *queue, const kvs_rows_item_t *item, const void *range,
                              int to_dtype, void *const *dst, size_t n_dst)
{
    int elem_bytes = kernels_of[item->dtype].elem_bytes;
    int64_t unit = to_dtype == item->dtype ? VECTOR_BYTES / elem_bytes : 1;
    cuda_gather_args_t args = {.map = map_of(item, unit),
                               .src_dtype = item->dtype,
                               .dst_dtype = to_dtype,
                               .range = range,
                               .elem_bytes = (uint32_t)elem_bytes};
    kvs_status_t status = KVS_OK;

    for (size_t i = 0; i < n_dst && status == KVS_OK; i += args.n_dst) {
        size_t n = n_dst - i < CUDA_MAX_GATHERED ? n_dst - i : CUDA_MAX_GATHERED;

        args.n_dst = (uint32_t)n;
        memcpy(args.dst, dst + i, n * sizeof(*dst));
        status =
            cuda_launch(cuda_device_of_queue(queue), KERNEL_gather, n_blocks_of(&args.map), &args);
    }
    return status;
}

kvs_status_t cuda_rows_step(kvs_queue_t *queue, const kvs_rows_item_t *item,
                            const kvs_step_item_t *step)
{
    cuda_device_t *device = cuda_device_of_queue(queue);
    const dtype_kernels_t *kernels = &kernels_of[item->dtype];
    cuda_lazy_args_t args = {.grad = item->packed};
    kvs_status_t status = cuda_fill_step(step, &args.item);

    args.item.n_dst = 0;
    if (status == KVS_OK && step->row_elems > 0) {
        args.map = map_of(item, item->row_elems);
        status = cuda_launch(device, kernels->lazyrows, n_blocks_of(&args.map), &args);
    }
    args.map = map_of(item, 1);
    return status == KVS_OK ? cuda_launch(device, kernels->lazy, n_blocks_of(&args.map), &args)
                            : status;
}

kvs_status_t cuda_rows_mark(kvs_queue_t *queue, int dtype, int64_t n, const void *ids,
                            int64_t n_rows, uint8_t *flags, int64_t *outside)
{
    cuda_mark_args_t args = {
        .n = n, .n_rows = n_rows, .ids = ids, .flags = flags, .outside = outside, .dtype = dtype};

    return cuda_launch(cuda_device_of_queue(queue), KERNEL_mark, cuda_n_chunks(n, CUDA_CHUNK),
                       &args);
}

kvs_status_t cuda_rows_find(kvs_queue_t *queue, const kvs_rows_item_t *item, const void *range,
                            uint8_t *flags)
{
    cuda_find_args_t args = {.row_elems = item->row_elems,
                             .begin = item->begin,
                             .n = item->n,
                             .range = range,
                             .flags = flags,
                             .elem_bytes = (uint32_t)kernels_of[item->dtype].elem_bytes};

    return cuda_launch(cuda_device_of_queue(queue), KERNEL_find, cuda_n_chunks(item->n, CUDA_CHUNK),
                       &args);
}

/* ---- Lists ------------------------------------------------------------------------------------------- */

/* Sizes of the levels; gives how many levels there are. */
static uint32_t plan_levels(int64_t n_rows, int64_t *ret_sizes)
{
    uint32_t n_levels = 0;
    int64_t n = n_rows;

    do {
        n = cuda_n_chunks(n, CUDA_GROUP);
        ret_sizes[n_levels++] = n;
    } while (n > 1);
    return n_levels;
}

static kvs_status_t launch_list(cuda_device_t *device, const int64_t *sizes, int64_t *counts,
                                cuda_list_args_t *args)
{
    cuda_count_args_t count = {.n = args->n_rows, .flags = args->flags, .sums = counts};
    kvs_status_t status = KVS_OK;

    for (uint32_t level = 0; level < args->n_levels && status == KVS_OK; level++) {
        args->levels[level] = count.sums;
        status = cuda_launch(device, KERNEL_count, cuda_n_chunks(sizes[level], CUDA_BLOCK), &count);
        count = (cuda_count_args_t){
            .n = sizes[level], .counts = count.sums, .sums = count.sums + sizes[level]};
    }
    return status == KVS_OK
               ? cuda_launch(device, KERNEL_list, cuda_n_chunks(sizes[0], CUDA_BLOCK), args)
               : status;
}

kvs_status_t cuda_rows_list(kvs_queue_t *queue, int64_t n_rows, const uint8_t *flags,
                            int64_t *ret_ids, int64_t *ret_n)
{
    cuda_device_t *device = cuda_device_of_queue(queue);
    kvs_device_t where = {KVS_DEVICE_CUDA, device->id};
    cuda_list_args_t args = {.n_rows = n_rows, .flags = flags, .ids = ret_ids, .n = ret_n};
    int64_t sizes[CUDA_MAX_LEVELS], n_counts = 0;
    void *counts = NULL;

    if (n_rows == 0) {
        return cuda_zero(queue, ret_n, sizeof(*ret_n));
    }
    args.n_levels = plan_levels(n_rows, sizes);
    for (uint32_t level = 0; level < args.n_levels; level++) {
        n_counts += sizes[level];
    }
    kvs_status_t status = cuda_alloc(where, (size_t)n_counts * sizeof(int64_t), &counts);

    if (status == KVS_OK) {
        status = launch_list(device, sizes, counts, &args);
    }
    cuda_free(where, counts, (size_t)n_counts * sizeof(int64_t));
    return status;
}
