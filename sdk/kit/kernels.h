/* SPDX-License-Identifier: Apache-2.0 */
/* kernels.h - the inner loops of sums and casts, once for each instruction set.
 *
 * One source (kernels_impl.h), compiled with several sets of flags; all give the same bits. sum.c and
 * cast.c add what callers may expect: any number of arrays, any alignment, the floating-point
 * environment. Kernels touch no state. */
#ifndef KVS_KIT_KERNELS_H
#define KVS_KIT_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#include <kvstore/kvstore.h>

/* Streamed destinations are aligned to this many bytes at element `dst_begin`. */
#define KVS_STREAM_ALIGN 64

/* Add elements [begin, end) of n_src >= 1 arrays, in order, and write the sums to each of n_dst arrays,
 * there beginning at element `dst_begin`; to the first n_stream of them past the caches (which the
 * caller fences). */
typedef void kvs_sum_kernel_t(int64_t begin, int64_t end, const void *const *src, size_t n_src,
                              int64_t dst_begin, void *const *dst, size_t n_dst, size_t n_stream);

typedef struct kvs_kernels {
    const char *isa;
    kvs_sum_kernel_t *sum[KVS_N_DTYPES];
    void (*widen_f16)(int64_t n, const uint16_t *src, float *dst);
    void (*widen_bf16)(int64_t n, const uint16_t *src, float *dst);
    void (*widen_f32)(int64_t n, const float *src, double *dst);
    void (*narrow_f16)(int64_t n, const float *src, uint16_t *dst);
    void (*narrow_bf16)(int64_t n, const float *src, uint16_t *dst);
    void (*narrow_f64)(int64_t n, const double *src, float *dst);
    void (*narrow_f64_odd)(int64_t n, const double *src, float *dst); /* kvs_f64_to_f32_odd */
} kvs_kernels_t;

extern const kvs_kernels_t kvs_kernels_default, kvs_kernels_avx2, kvs_kernels_avx512;

/* The best for this processor. */
const kvs_kernels_t *kvs_kernels(void);

/* Every one that this processor can run, the best first; NULL past the last. For tests. */
const kvs_kernels_t *kvs_kernels_at(size_t index);

#endif
