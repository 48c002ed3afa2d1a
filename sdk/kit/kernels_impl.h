/* SPDX-License-Identifier: Apache-2.0 */
/* kernels_impl.h - the source of all kernels: each kernels_ISA.c defines KERNELS_ISA, is compiled with
 * the flags of its instruction set, and includes this once.
 *
 * A sum is one pass over memory: a vector of every source is read, added, and written to every
 * destination at once. Measured against going block by block through a scratch buffer, this is
 * the faster way from the first-level cache to memory, and it allows a destination to be a source. */
#include "half.h"
#include "kernels.h"

#if defined(__SSE2__)
#include <immintrin.h>
#endif

#if defined(__AVX512F__)
#define VECTOR_BYTES        64
#define STREAM(ptr, vector) _mm512_stream_si512((void *)(ptr), (__m512i)(vector))
#elif defined(__AVX2__)
#define VECTOR_BYTES        32
#define STREAM(ptr, vector) _mm256_stream_si256((void *)(ptr), (__m256i)(vector))
#elif defined(__SSE2__)
#define VECTOR_BYTES        16
#define STREAM(ptr, vector) _mm_stream_si128((void *)(ptr), (__m128i)(vector))
#else
#define VECTOR_BYTES        16
#define STREAM(ptr, vector) (*(ptr) = (vector))
#endif

#define INLINE static inline __attribute__((always_inline))
/* Vectors as they lie in callers' arrays: aligned to their elements only. */
#define VECTOR_OF(elem)                                                                            \
    elem __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(elem)), may_alias))

typedef VECTOR_OF(float) f32_vector;
typedef VECTOR_OF(double) f64_vector;
typedef VECTOR_OF(uint8_t) u8_vector;
typedef VECTOR_OF(uint16_t) u16_vector;
typedef VECTOR_OF(uint32_t) u32_vector;
typedef VECTOR_OF(uint64_t) u64_vector;

#define F32_LANES ((int64_t)(VECTOR_BYTES / sizeof(float)))

/* ---- float16 in vectors ------------------------------------------------------------------------ */

#if defined(__AVX512F__)
INLINE f32_vector f16_widen(const uint16_t *src)
{
    return (f32_vector)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)src));
}

INLINE u16_vector f16_narrow(f32_vector low, f32_vector high)
{
    __m256i first = _mm512_cvtps_ph((__m512)low, _MM_FROUND_TO_NEAREST_INT);
    __m256i second = _mm512_cvtps_ph((__m512)high, _MM_FROUND_TO_NEAREST_INT);

    return (u16_vector)_mm512_inserti64x4(_mm512_castsi256_si512(first), second, 1);
}
#elif defined(__F16C__)
INLINE f32_vector f16_widen(const uint16_t *src)
{
    return (f32_vector)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)src));
}

INLINE u16_vector f16_narrow(f32_vector low, f32_vector high)
{
    __m128i first = _mm256_cvtps_ph((__m256)low, _MM_FROUND_TO_NEAREST_INT);
    __m128i second = _mm256_cvtps_ph((__m256)high, _MM_FROUND_TO_NEAREST_INT);

    return (u16_vector)_mm256_set_m128i(second, first);
}
#else
INLINE f32_vector f16_widen(const uint16_t *src)
{
    f32_vector wide;

    for (int64_t i = 0; i < F32_LANES; i++) {
        wide[i] = kvs_f16_to_f32(src[i]);
    }
    return wide;
}

INLINE u16_vector f16_narrow(f32_vector low, f32_vector high)
{
    u16_vector halves;

    for (int64_t i = 0; i < F32_LANES; i++) {
        halves[i] = kvs_f32_to_f16(low[i]);
        halves[i + F32_LANES] = kvs_f32_to_f16(high[i]);
    }
    return halves;
}
#endif

/* ---- Conversions ------------------------------------------------------------------------------ */

static void widen_f16(int64_t n, const uint16_t *src, float *dst)
{
    int64_t i = 0;

    for (; i + F32_LANES <= n; i += F32_LANES) {
        *(f32_vector *)(dst + i) = f16_widen(src + i);
    }
    for (; i < n; i++) {
        dst[i] = kvs_f16_to_f32(src[i]);
    }
}

static void narrow_f16(int64_t n, const float *src, uint16_t *dst)
{
    int64_t i = 0;

    for (; i + 2 * F32_LANES <= n; i += 2 * F32_LANES) {
        *(u16_vector *)(dst + i) =
            f16_narrow(*(const f32_vector *)(src + i), *(const f32_vector *)(src + i + F32_LANES));
    }
    for (; i < n; i++) {
        dst[i] = kvs_f32_to_f16(src[i]);
    }
}

#define DEFINE_CONVERSION(name, from, to, convert)                                                 \
    static void name(int64_t n, const from *restrict src, to *restrict dst)                        \
    {                                                                                              \
        for (int64_t i = 0; i < n; i++) {                                                          \
            dst[i] = convert(src[i]);                                                              \
        }                                                                                          \
    }

DEFINE_CONVERSION(widen_bf16, uint16_t, float, kvs_bf16_to_f32)
DEFINE_CONVERSION(widen_f32, float, double, (double))
DEFINE_CONVERSION(narrow_bf16, float, uint16_t, kvs_f32_to_bf16)
DEFINE_CONVERSION(narrow_f64, double, float, (float))
DEFINE_CONVERSION(narrow_f64_odd, double, float, kvs_f64_to_f32_odd)

/* ---- Accumulators: what a sum keeps of one vector of elements ------------------------------------ */

/* NAME_total of a vector, NAME_load, NAME_add and NAME_pack; NAME_first, NAME_next and NAME_last do the
 * same for one element, whose total is a `single`. */
#define DEFINE_PLAIN_TOTAL(name, elem)                                                             \
    typedef elem name##_single;                                                                    \
    typedef name##_vector name##_total;                                                            \
    INLINE name##_total name##_load(const elem *src)                                               \
    {                                                                                              \
        return *(const name##_vector *)src;                                                        \
    }                                                                                              \
    INLINE name##_total name##_add(name##_total total, const elem *src)                            \
    {                                                                                              \
        return total + *(const name##_vector *)src;                                                \
    }                                                                                              \
    INLINE name##_vector name##_pack(name##_total total)                                           \
    {                                                                                              \
        return total;                                                                              \
    }                                                                                              \
    INLINE elem name##_first(const elem *src)                                                      \
    {                                                                                              \
        return *src;                                                                               \
    }                                                                                              \
    INLINE elem name##_next(elem total, const elem *src)                                           \
    {                                                                                              \
        return (elem)(total + *src);                                                               \
    }                                                                                              \
    INLINE elem name##_last(elem total)                                                            \
    {                                                                                              \
        return total;                                                                              \
    }

DEFINE_PLAIN_TOTAL(f32, float)
DEFINE_PLAIN_TOTAL(f64, double)
DEFINE_PLAIN_TOTAL(u8, uint8_t)
DEFINE_PLAIN_TOTAL(u32, uint32_t)
DEFINE_PLAIN_TOTAL(u64, uint64_t)

typedef float f16_single;
typedef u16_vector f16_vector;
typedef struct f16_total {
    f32_vector low, high;
} f16_total;

INLINE f16_total f16_load(const uint16_t *src)
{
    return (f16_total){f16_widen(src), f16_widen(src + F32_LANES)};
}

INLINE f16_total f16_add(f16_total total, const uint16_t *src)
{
    return (f16_total){total.low + f16_widen(src), total.high + f16_widen(src + F32_LANES)};
}

INLINE f16_vector f16_pack(f16_total total)
{
    return f16_narrow(total.low, total.high);
}

INLINE float f16_first(const uint16_t *src)
{
    return kvs_f16_to_f32(*src);
}

INLINE float f16_next(float total, const uint16_t *src)
{
    return total + kvs_f16_to_f32(*src);
}

INLINE uint16_t f16_last(float total)
{
    return kvs_f32_to_f16(total);
}

/* Neighbours share a 32-bit lane: one is its high half, which is a float32 already, the other is
 * shifted there. No lane changes its place. */
typedef float bf16_single;
typedef u16_vector bf16_vector;
typedef struct bf16_total {
    f32_vector low, high;
} bf16_total;

INLINE bf16_total bf16_load(const uint16_t *src)
{
    u32_vector pairs = (u32_vector) * (const u16_vector *)src;

    return (bf16_total){(f32_vector)(pairs << 16), (f32_vector)(pairs & 0xFFFF0000u)};
}

INLINE bf16_total bf16_add(bf16_total total, const uint16_t *src)
{
    bf16_total other = bf16_load(src);

    return (bf16_total){total.low + other.low, total.high + other.high};
}

/* kvs_f32_to_bf16, its result left in the high half. */
INLINE u32_vector bf16_round(f32_vector value)
{
    u32_vector bits = (u32_vector)value;
    u32_vector is_nan = (u32_vector)((bits & 0x7FFFFFFFu) > 0x7F800000u);

    return (is_nan & (bits | 0x00400000u)) | (~is_nan & (bits + 0x7FFFu + (bits >> 16 & 1u)));
}

INLINE bf16_vector bf16_pack(bf16_total total)
{
    return (u16_vector)(bf16_round(total.low) >> 16 | (bf16_round(total.high) & 0xFFFF0000u));
}

INLINE float bf16_first(const uint16_t *src)
{
    return kvs_bf16_to_f32(*src);
}

INLINE float bf16_next(float total, const uint16_t *src)
{
    return total + kvs_bf16_to_f32(*src);
}

INLINE uint16_t bf16_last(float total)
{
    return kvs_f32_to_bf16(total);
}

/* ---- Sums -------------------------------------------------------------------------------------- */

/* Four vectors at a time, then one, then single elements. `to` is how much further an element lies in
 * the destinations. Counts that are constants at the call are what the compiler specialises by. */
#define DEFINE_SUM(name, elem)                                                                     \
    INLINE void name##_step(int64_t at, int64_t n_vectors, const void *const *src, size_t n_src,   \
                            int64_t to, void *const *dst, size_t n_dst, size_t n_stream)           \
    {                                                                                              \
        const int64_t lanes = (int64_t)(VECTOR_BYTES / sizeof(elem));                              \
        name##_total total[4];                                                                     \
        name##_vector sum[4];                                                                      \
        for (int64_t k = 0; k < n_vectors; k++) {                                                  \
            total[k] = name##_load((const elem *)src[0] + at + k * lanes);                         \
        }                                                                                          \
        for (size_t j = 1; j < n_src; j++) {                                                       \
            for (int64_t k = 0; k < n_vectors; k++) {                                              \
                total[k] = name##_add(total[k], (const elem *)src[j] + at + k * lanes);            \
            }                                                                                      \
        }                                                                                          \
        for (int64_t k = 0; k < n_vectors; k++) {                                                  \
            sum[k] = name##_pack(total[k]);                                                        \
        }                                                                                          \
        for (size_t j = 0; j < n_stream; j++) {                                                    \
            for (int64_t k = 0; k < n_vectors; k++) {                                              \
                STREAM((name##_vector *)((elem *)dst[j] + at + to + k * lanes), sum[k]);           \
            }                                                                                      \
        }                                                                                          \
        for (size_t j = n_stream; j < n_dst; j++) {                                                \
            for (int64_t k = 0; k < n_vectors; k++) {                                              \
                *(name##_vector *)((elem *)dst[j] + at + to + k * lanes) = sum[k];                 \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
    INLINE void name##_one(int64_t at, const void *const *src, size_t n_src, int64_t to,           \
                           void *const *dst, size_t n_dst)                                         \
    {                                                                                              \
        name##_single total = name##_first((const elem *)src[0] + at);                             \
        for (size_t j = 1; j < n_src; j++) {                                                       \
            total = name##_next(total, (const elem *)src[j] + at);                                 \
        }                                                                                          \
        for (size_t j = 0; j < n_dst; j++) {                                                       \
            ((elem *)dst[j])[at + to] = name##_last(total);                                        \
        }                                                                                          \
    }                                                                                              \
    INLINE void name##_loop(int64_t begin, int64_t end, const void *const *src, size_t n_src,      \
                            int64_t to, void *const *dst, size_t n_dst, size_t n_stream)           \
    {                                                                                              \
        const int64_t lanes = (int64_t)(VECTOR_BYTES / sizeof(elem));                              \
        int64_t at = begin;                                                                        \
        for (; at + 4 * lanes <= end; at += 4 * lanes) {                                           \
            name##_step(at, 4, src, n_src, to, dst, n_dst, n_stream);                              \
        }                                                                                          \
        for (; at + lanes <= end; at += lanes) {                                                   \
            name##_step(at, 1, src, n_src, to, dst, n_dst, n_stream);                              \
        }                                                                                          \
        for (; at < end; at++) {                                                                   \
            name##_one(at, src, n_src, to, dst, n_dst);                                            \
        }                                                                                          \
    }                                                                                              \
    static void sum_##name(int64_t begin, int64_t end, const void *const *src, size_t n_src,       \
                           int64_t dst_begin, void *const *dst, size_t n_dst, size_t n_stream)     \
    {                                                                                              \
        int64_t to = dst_begin - begin;                                                            \
        if (n_src == 2 && n_stream == 0) {                                                         \
            name##_loop(begin, end, src, 2, to, dst, n_dst, 0);                                    \
        } else if (n_src == 2) {                                                                   \
            name##_loop(begin, end, src, 2, to, dst, n_dst, n_stream);                             \
        } else if (n_stream == 0) {                                                                \
            name##_loop(begin, end, src, n_src, to, dst, n_dst, 0);                                \
        } else {                                                                                   \
            name##_loop(begin, end, src, n_src, to, dst, n_dst, n_stream);                         \
        }                                                                                          \
    }

DEFINE_SUM(f32, float)
DEFINE_SUM(f64, double)
DEFINE_SUM(f16, uint16_t)
DEFINE_SUM(bf16, uint16_t)
DEFINE_SUM(u8, uint8_t)
DEFINE_SUM(u32, uint32_t)
DEFINE_SUM(u64, uint64_t)

/* Signed integers wrap like unsigned ones. */
#define TEXT_OF(token)       #token
#define TEXT_OF_VALUE(macro) TEXT_OF(macro)
#define JOINED(left, right)  left##right
#define TABLE_NAME(isa)      JOINED(kvs_kernels_, isa)
const kvs_kernels_t TABLE_NAME(KERNELS_ISA) = {
    .isa = TEXT_OF_VALUE(KERNELS_ISA),
    .sum =
        {
            [KVS_DTYPE_float32] = sum_f32,
            [KVS_DTYPE_float64] = sum_f64,
            [KVS_DTYPE_float16] = sum_f16,
            [KVS_DTYPE_bfloat16] = sum_bf16,
            [KVS_DTYPE_int8] = sum_u8,
            [KVS_DTYPE_uint8] = sum_u8,
            [KVS_DTYPE_int32] = sum_u32,
            [KVS_DTYPE_int64] = sum_u64,
        },
    .widen_f16 = widen_f16,
    .widen_bf16 = widen_bf16,
    .widen_f32 = widen_f32,
    .narrow_f16 = narrow_f16,
    .narrow_bf16 = narrow_bf16,
    .narrow_f64 = narrow_f64,
    .narrow_f64_odd = narrow_f64_odd,
};
