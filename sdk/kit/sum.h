/* SPDX-License-Identifier: Apache-2.0 */
/* sum.h - kvs_sum for a part of the arrays, for those who cut them. */
#ifndef KVS_KIT_SUM_H
#define KVS_KIT_SUM_H

#include "kernels.h"

/* kvs_sum of elements [begin, end) of arrays that begin at the pointers given. */
void kvs_sum_range(int dtype, int64_t begin, int64_t end, const void *const *src, size_t n_src,
                   void *const *dst, size_t n_dst, int stream);

/* Elements [begin, end) summed to the beginning of `block`, which is none of the sources. */
void kvs_sum_block(int dtype, int64_t begin, int64_t end, const void *const *src, size_t n_src,
                   void *block);

/* kvs_sum_range by kernels of the caller's choice. For tests. */
void kvs_sum_range_by(const kvs_kernels_t *kernels, int dtype, int64_t begin, int64_t end,
                      const void *const *src, size_t n_src, void *const *dst, size_t n_dst,
                      int stream);

#endif
