/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_rows.h - the provider's calls about rows, as launches. Pointers are those that the queue's device
 * reaches; nothing here waits. */
#ifndef CUDA_ROWS_H
#define CUDA_ROWS_H

#include "cuda_driver.h"

kvs_status_t cuda_rows_sum(kvs_queue_t *queue, const kvs_rows_item_t *item, void *sums);
kvs_status_t cuda_rows_put(kvs_queue_t *queue, const kvs_rows_item_t *item, int add, void *range);
kvs_status_t cuda_rows_gather(kvs_queue_t *queue, const kvs_rows_item_t *item, const void *range,
                              int to_dtype, void *const *dst, size_t n_dst);
kvs_status_t cuda_rows_step(kvs_queue_t *queue, const kvs_rows_item_t *item,
                            const kvs_step_item_t *step);
kvs_status_t cuda_rows_mark(kvs_queue_t *queue, int dtype, int64_t n, const void *ids,
                            int64_t n_rows, uint8_t *flags, int64_t *outside);
kvs_status_t cuda_rows_find(kvs_queue_t *queue, const kvs_rows_item_t *item, const void *range,
                            uint8_t *flags);
kvs_status_t cuda_rows_list(kvs_queue_t *queue, int64_t n_rows, const uint8_t *flags,
                            int64_t *ret_ids, int64_t *ret_n);

#endif
