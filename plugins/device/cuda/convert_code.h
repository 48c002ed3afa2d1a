/* SPDX-License-Identifier: Apache-2.0 */
/* convert_code.h - one element from a floating dtype to another, rounded once, as the kit does it. Dtypes are
 * KVS_DTYPE_… numbers. */
#ifndef CUDA_CONVERT_CODE_H
#define CUDA_CONVERT_CODE_H

#include "device_code.h"

#include <kvstore/kvstore.h>

DEVICE float load_f32(int dtype, const void *src, int64_t i)
{
    switch (dtype) {
    case KVS_DTYPE_float16:
        return widen_f16(((const uint16_t *)src)[i]);
    case KVS_DTYPE_bfloat16:
        return kvs_bf16_to_f32(((const uint16_t *)src)[i]);
    default:
        return ((const float *)src)[i];
    }
}

DEVICE void store_f32(int dtype, float value, void *dst, int64_t i)
{
    switch (dtype) {
    case KVS_DTYPE_float16:
        ((uint16_t *)dst)[i] = narrow_f16(value);
        break;
    case KVS_DTYPE_bfloat16:
        ((uint16_t *)dst)[i] = kvs_f32_to_bf16(value);
        break;
    case KVS_DTYPE_float64:
        ((double *)dst)[i] = value;
        break;
    default:
        ((float *)dst)[i] = value;
    }
}

/* Between different dtypes. */
DEVICE void convert_one(int src_dtype, const void *src, int dst_dtype, void *dst, int64_t i)
{
    if (src_dtype != KVS_DTYPE_float64) {
        store_f32(dst_dtype, load_f32(src_dtype, src, i), dst, i);
    } else {
        double value = ((const double *)src)[i];

        store_f32(dst_dtype,
                  dst_dtype == KVS_DTYPE_float32 ? (float)value : kvs_f64_to_f32_odd(value), dst,
                  i);
    }
}

#endif
