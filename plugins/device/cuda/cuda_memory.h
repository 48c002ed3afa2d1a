/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_memory.h - memory of devices, pinned and managed memory, and copies between all of them. */
#ifndef CUDA_MEMORY_H
#define CUDA_MEMORY_H

#include "cuda_device.h"

kvs_status_t cuda_alloc(kvs_device_t device, size_t n_bytes, void **ret_data);
void cuda_free(kvs_device_t device, void *data, size_t n_bytes);
kvs_status_t cuda_copy(kvs_queue_t *queue, kvs_device_t dst_device, void *dst,
                       kvs_device_t src_device, const void *src, size_t n_bytes);
kvs_status_t cuda_copy_now(kvs_queue_t *queue, void *dst, const void *src, size_t n_bytes);
kvs_status_t cuda_zero(kvs_queue_t *queue, void *data, size_t n_bytes);

#endif
