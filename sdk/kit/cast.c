/* SPDX-License-Identifier: Apache-2.0 */
/* cast.c - every conversion goes through float32, block by block: exact on the way in, rounded on the
 * way out. Only float64 doesn't fit; on its way to a half type it is cut to float32 so that the one
 * rounding that follows is the right one. */
#include "cast.h"
#include "fpenv.h"

#include <kvstore/kit.h>

#include <string.h>

#define BLOCK_ELEMS 1024

/* Gives `n` elements as float32: in `block`, or where they lie. */
static const float *widen(const kvs_kernels_t *kernels, int64_t n, int dtype, const void *src,
                          int dst_dtype, float *block)
{
    switch (dtype) {
    case KVS_DTYPE_float32:
        return src;
    case KVS_DTYPE_float64:
        if (dst_dtype == KVS_DTYPE_float32) {
            kernels->narrow_f64(n, src, block);
        } else {
            kernels->narrow_f64_odd(n, src, block);
        }
        return block;
    case KVS_DTYPE_float16:
        kernels->widen_f16(n, src, block);
        return block;
    default:
        kernels->widen_bf16(n, src, block);
        return block;
    }
}

static void narrow(const kvs_kernels_t *kernels, int64_t n, const float *src, int dtype, void *dst)
{
    switch (dtype) {
    case KVS_DTYPE_float32:
        memcpy(dst, src, (size_t)n * sizeof(float));
        break;
    case KVS_DTYPE_float64:
        kernels->widen_f32(n, src, dst);
        break;
    case KVS_DTYPE_float16:
        kernels->narrow_f16(n, src, dst);
        break;
    default:
        kernels->narrow_bf16(n, src, dst);
        break;
    }
}

void kvs_cast_by(const kvs_kernels_t *kernels, int64_t n, int src_dtype, const void *src,
                 int dst_dtype, void *dst)
{
    size_t src_bytes = kvs_dtype_bytes(src_dtype), dst_bytes = kvs_dtype_bytes(dst_dtype);
    float block[BLOCK_ELEMS];

    if (n <= 0 || (src_dtype == dst_dtype && src == dst)) {
        return;
    }
    if (src_dtype == dst_dtype) {
        memcpy(dst, src, (size_t)n * src_bytes);
        return;
    }
    for (int64_t at = 0; at < n; at += BLOCK_ELEMS) {
        int64_t m = n - at < BLOCK_ELEMS ? n - at : BLOCK_ELEMS;
        const char *from = (const char *)src + (size_t)at * src_bytes;
        const float *wide = widen(kernels, m, src_dtype, from, dst_dtype, block);

        narrow(kernels, m, wide, dst_dtype, (char *)dst + (size_t)at * dst_bytes);
    }
}

void kvs_cast(int64_t n, int src_dtype, const void *src, int dst_dtype, void *dst)
{
    unsigned saved = kvs_fpenv_enter();

    kvs_cast_by(kvs_kernels(), n, src_dtype, src, dst_dtype, dst);
    kvs_fpenv_leave(saved);
}
