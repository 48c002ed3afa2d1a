/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_launch.h - from calls of the provider to launches of kernels. Pointers are those that the queue's
 * device reaches; nothing here waits. */
#ifndef CUDA_LAUNCH_H
#define CUDA_LAUNCH_H

#include "cuda_device.h"
#include "kernels.h"

enum {
#define CUDA_KERNEL_ENUM(name, type) KERNEL_##name,
    CUDA_KERNEL_LIST(CUDA_KERNEL_ENUM)
#undef CUDA_KERNEL_ENUM
        CUDA_N_KERNELS
};

/* Load the kernels, once for all devices. The driver is open. */
kvs_status_t cuda_launch_load(void);

kvs_status_t cuda_sums(kvs_queue_t *queue, int dtype, const kvs_sum_item_t *items, size_t n_items);
kvs_status_t cuda_convert(kvs_queue_t *queue, int64_t n, int src_dtype, const void *src,
                          int dst_dtype, void *dst);
kvs_status_t cuda_find_non_finite(kvs_queue_t *queue, int dtype, int64_t n, const void *src,
                                  const float *add, uint32_t *flag);
kvs_status_t cuda_step(kvs_queue_t *queue, const kvs_step_item_t *item);
kvs_status_t cuda_steps(kvs_queue_t *queue, const kvs_step_item_t *items, size_t n_items);
kvs_status_t cuda_norms(kvs_queue_t *queue, const kvs_step_item_t *item, uint32_t phase,
                        double *ret_sums);
kvs_status_t cuda_pack(kvs_queue_t *queue, const kvs_pack_item_t *item);
kvs_status_t cuda_unpack(kvs_queue_t *queue, const kvs_compressor_t *kind, const float *params,
                         int64_t n, const void *const *src, size_t n_src, float *dst);

/* Launch one of the kernels; n_blocks may be 0. */
kvs_status_t cuda_launch(cuda_device_t *device, int kernel, int64_t n_blocks, void *args);
/* The item as kernels take it, but its arrays. ERR_NOT_IMPLEMENTED: there is no such step. */
kvs_status_t cuda_fill_step(const kvs_step_item_t *item, cuda_step_item_t *ret_item);

static inline int64_t cuda_n_chunks(int64_t n, int64_t chunk)
{
    return (n + chunk - 1) / chunk;
}

/* A queue is a lane of ours. */
static inline cuda_lane_t *cuda_lane_of_queue(kvs_queue_t *queue)
{
    return (cuda_lane_t *)(void *)queue;
}

static inline cuda_device_t *cuda_device_of_queue(kvs_queue_t *queue)
{
    return cuda_lane_of_queue(queue)->device;
}

#endif
