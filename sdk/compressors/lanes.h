/* SPDX-License-Identifier: Apache-2.0 */
/* lanes.h - vectors of float32, as wide as the instruction set that the including file is compiled
 * for. Vectors in memory are aligned to their elements only. */
#ifndef KVS_COMPRESSORS_LANES_H
#define KVS_COMPRESSORS_LANES_H

#include <stdint.h>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

#define INLINE static inline __attribute__((always_inline))

#if defined(__AVX512F__)
#define LANES 16
#elif defined(__AVX2__)
#define LANES 8
#else
#define LANES 4
#endif

typedef float lanes_f32 __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef int32_t lanes_i32 __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

INLINE lanes_f32 lanes_load(const float *src)
{
    return *(const lanes_f32 *)src;
}

/* `stream`: past the caches, to aligned memory. */
INLINE void lanes_store(float *dst, lanes_f32 lanes, int stream)
{
    if (!stream) {
        *(lanes_f32 *)dst = lanes;
        return;
    }
#if defined(__AVX512F__)
    _mm512_stream_ps(dst, (__m512)lanes);
#elif defined(__AVX2__)
    _mm256_stream_ps(dst, (__m256)lanes);
#elif defined(__SSE2__)
    _mm_stream_ps(dst, (__m128)lanes);
#else
    *(lanes_f32 *)dst = lanes;
#endif
}

/* Streamed stores are weakly ordered: make them visible before anything that follows. */
INLINE void lanes_fence(void)
{
#if defined(__SSE2__)
    _mm_sfence();
#endif
}

INLINE lanes_f32 lanes_all(float value)
{
    lanes_f32 zero = {0};

    return value - zero;
}

INLINE lanes_i32 lanes_all_i32(uint32_t value)
{
    lanes_i32 zero = {0};

    return zero + (int32_t)value;
}

/* ---- Comparisons -------------------------------------------------------------------------------- */

/* Measured with gcc 12: it turns masks of AVX-512 into vectors and back, a third slower. */
#if defined(__AVX512F__)
typedef __mmask16 lanes_mask;

INLINE lanes_mask lanes_at_least(lanes_f32 a, lanes_f32 b)
{
    return _mm512_cmp_ps_mask((__m512)a, (__m512)b, _CMP_GE_OQ);
}

INLINE lanes_mask lanes_above(lanes_f32 a, lanes_f32 b)
{
    return _mm512_cmp_ps_mask((__m512)a, (__m512)b, _CMP_GT_OQ);
}

INLINE lanes_mask lanes_equal(lanes_i32 a, lanes_i32 b)
{
    return _mm512_cmpeq_epi32_mask((__m512i)a, (__m512i)b);
}

/* Of `yes` where the mask is set, else of `no`. */
INLINE lanes_f32 lanes_pick(lanes_mask mask, lanes_f32 yes, lanes_f32 no)
{
    return (lanes_f32)_mm512_mask_blend_ps(mask, (__m512)no, (__m512)yes);
}

/* Bit i for lane i. */
INLINE uint32_t lanes_bits(lanes_mask mask)
{
    return mask;
}
#else
typedef lanes_i32 lanes_mask;

INLINE lanes_mask lanes_at_least(lanes_f32 a, lanes_f32 b)
{
    return a >= b;
}

INLINE lanes_mask lanes_above(lanes_f32 a, lanes_f32 b)
{
    return a > b;
}

INLINE lanes_mask lanes_equal(lanes_i32 a, lanes_i32 b)
{
    return a == b;
}

INLINE lanes_f32 lanes_pick(lanes_mask mask, lanes_f32 yes, lanes_f32 no)
{
    return (lanes_f32)((mask & (lanes_i32)yes) | (~mask & (lanes_i32)no));
}

INLINE uint32_t lanes_bits(lanes_mask mask)
{
#if defined(__AVX2__)
    return (uint32_t)_mm256_movemask_ps((__m256)mask);
#elif defined(__SSE2__)
    return (uint32_t)_mm_movemask_ps((__m128)mask);
#else
    uint32_t bits = 0;

    for (int i = 0; i < LANES; i++) {
        bits |= (uint32_t)(mask[i] & 1) << i;
    }
    return bits;
#endif
}
#endif

INLINE int lanes_have_nan(lanes_f32 lanes)
{
    int have = 0;

    for (int i = 0; i < LANES; i++) {
        have |= lanes[i] != lanes[i];
    }
    return have;
}

#endif
