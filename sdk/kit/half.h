/* SPDX-License-Identifier: Apache-2.0 */
/* half.h - one float16, bfloat16 or float64 at a time to float32 and back, without branches.
 *
 * Rounding is to nearest even; a NaN keeps its sign and the top of its payload and comes out quiet
 * (bfloat16 to float32: as it is). Exactly what the F16C instructions give, so that kernels may mix
 * both. Needs the default floating-point environment (fpenv.h). nvcc takes it too. */
#ifndef KVS_KIT_HALF_H
#define KVS_KIT_HALF_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#if defined(__CUDACC__)
#define KVS_HALF_INLINE static __host__ __device__ __forceinline__
#else
#define KVS_HALF_INLINE static inline
#endif

KVS_HALF_INLINE uint32_t kvs_f32_bits(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

KVS_HALF_INLINE float kvs_f32_from_bits(uint32_t bits)
{
    float value;

    memcpy(&value, &bits, sizeof(value));
    return value;
}

KVS_HALF_INLINE float kvs_f16_to_f32(uint16_t half)
{
    uint32_t magnitude = half & 0x7FFFu;
    /* The exponents' biases differ by 112; the product is exact, also for denormals. */
    uint32_t bits = kvs_f32_bits(kvs_f32_from_bits(magnitude << 13) * 0x1p112f);

    bits |= magnitude >= 0x7C00u ? 0x7F800000u : 0;
    bits |= magnitude > 0x7C00u ? 0x00400000u : 0;
    return kvs_f32_from_bits(bits | (uint32_t)(half & 0x8000u) << 16);
}

KVS_HALF_INLINE uint16_t kvs_f32_to_f16(float value)
{
    uint32_t bits = kvs_f32_bits(value);
    uint32_t magnitude = bits & 0x7FFFFFFFu;
    uint32_t normal = (magnitude - (112u << 23) + 0xFFFu + (magnitude >> 13 & 1u)) >> 13;
    /* 0.5 has the spacing of float16's denormals: the addition rounds to it. */
    uint32_t denormal = kvs_f32_bits(kvs_f32_from_bits(magnitude) + 0.5f) - 0x3F000000u;
    uint32_t nan = 0x7E00u | (magnitude >> 13 & 0x3FFu);
    uint32_t half = magnitude < 0x38800000u ? denormal : normal;

    half = magnitude >= 0x477FF000u ? 0x7C00u : half;
    half = magnitude > 0x7F800000u ? nan : half;
    return (uint16_t)(half | (bits >> 16 & 0x8000u));
}

KVS_HALF_INLINE float kvs_bf16_to_f32(uint16_t half)
{
    return kvs_f32_from_bits((uint32_t)half << 16);
}

KVS_HALF_INLINE uint16_t kvs_f32_to_bf16(float value)
{
    uint32_t bits = kvs_f32_bits(value);
    uint32_t rounded = bits + 0x7FFFu + (bits >> 16 & 1u);
    uint32_t nan = bits | 0x00400000u;

    return (uint16_t)(((bits & 0x7FFFFFFFu) > 0x7F800000u ? nan : rounded) >> 16);
}

/* Cut to float32, with an odd last bit if anything was cut off. Rounding that to a half type gives
 * what rounding the float64 at once would, which rounding to nearest twice does not. */
KVS_HALF_INLINE float kvs_f64_to_f32_odd(double value)
{
    float nearest = (float)value;
    double back = nearest;
    uint32_t inexact = back != value && value == value;
    uint32_t away = fabs(back) > fabs(value);

    return kvs_f32_from_bits((kvs_f32_bits(nearest) - (inexact & away)) | inexact);
}

#endif
