/* SPDX-License-Identifier: Apache-2.0 */
/* kernels_impl.h - the source of all kernels: each kernels_ISA.c defines KERNELS_ISA, is compiled with
 * the flags of its instruction set, and includes this once.
 *
 * The unit is a word of 32 bits: 16 elements of 2bit, 32 of 1bit. Masks of comparisons have the
 * first lane in the lowest bit, packed bytes have their first element in the highest: tables turn
 * eight lanes at a time. What is subtracted from the sum is what the packed bits stand for, so that
 * encoding and decoding cannot disagree. */
#include "kernels.h"
#include "lanes.h"

#include <endian.h>
#include <string.h>

enum { WORD_1BIT = 32, WORD_2BIT = 16 }; /* elements */

/* TABLE_256(F): F(0), F(1), … F(255). */
#define TABLE_4(F, n)  F(n), F((n) + 1), F((n) + 2), F((n) + 3)
#define TABLE_16(F, n) TABLE_4(F, n), TABLE_4(F, (n) + 4), TABLE_4(F, (n) + 8), TABLE_4(F, (n) + 12)
#define TABLE_64(F, n)                                                                             \
    TABLE_16(F, n), TABLE_16(F, (n) + 16), TABLE_16(F, (n) + 32), TABLE_16(F, (n) + 48)
#define TABLE_256(F) TABLE_64(F, 0), TABLE_64(F, 64), TABLE_64(F, 128), TABLE_64(F, 192)

/* Eight lanes as a byte of 1bit. */
#define TURN_4(n) (((n)&1) << 3 | ((n)&2) << 1 | ((n)&4) >> 1 | ((n)&8) >> 3)
#define TURN_8(n) (TURN_4((n)&15) << 4 | TURN_4((n) >> 4))
static const uint8_t turned[256] = {TABLE_256(TURN_8)};

/* Eight lanes as the low bits of two bytes of 2bit. */
#define SPREAD_4(n) (((n)&1) << 6 | ((n)&2) << 3 | ((n)&4) | ((n)&8) >> 3)
#define SPREAD_8(n) (SPREAD_4((n)&15) | SPREAD_4((n) >> 4) << 8)
static const uint16_t spread[256] = {TABLE_256(SPREAD_8)};

/* ---- Words -------------------------------------------------------------------------------------- */

INLINE void put_word(void *packed, int64_t index, uint32_t word)
{
    word = htole32(word);
    memcpy((char *)packed + 4 * index, &word, sizeof(word));
}

INLINE uint32_t get_word(const void *packed, int64_t index)
{
    uint32_t word;

    memcpy(&word, (const char *)packed + 4 * index, sizeof(word));
    return le32toh(word);
}

/* The bits of a word that its first `n` elements of `elem_bits` use. */
INLINE uint32_t used_bits(int64_t n, int elem_bits)
{
    int n_bits = (int)n * elem_bits;
    uint32_t whole = (UINT32_C(1) << (n_bits & ~7)) - 1;

    return whole | (0xFF00u >> (n_bits & 7) & 0xFF) << (n_bits & ~7);
}

/* ---- Encoding ----------------------------------------------------------------------------------- */

/* A word of elements: packs them and writes their residual. `bad` becomes NaN in a lane whose sum is
 * not finite. */
typedef uint32_t encode_word_t(lanes_f32 threshold, const float *grad, const float *residual,
                               float *ret_residual, int stream, lanes_f32 *bad);

INLINE uint32_t encode_word_1bit(lanes_f32 threshold, const float *grad, const float *residual,
                                 float *ret_residual, int stream, lanes_f32 *bad)
{
    const lanes_f32 plus = lanes_all(1), minus = lanes_all(-1);
    uint32_t bits = 0;

    for (int i = 0; i < WORD_1BIT; i += LANES) {
        lanes_f32 sum = lanes_load(residual + i) + lanes_load(grad + i);
        lanes_mask up = lanes_above(sum, threshold);

        lanes_store(ret_residual + i, sum - lanes_pick(up, plus, minus), stream);
        *bad += sum - sum;
        bits |= lanes_bits(up) << i;
    }
    return (uint32_t)turned[bits & 255] | (uint32_t)turned[bits >> 8 & 255] << 8 |
           (uint32_t)turned[bits >> 16 & 255] << 16 | (uint32_t)turned[bits >> 24] << 24;
}

INLINE uint32_t encode_word_2bit(lanes_f32 threshold, const float *grad, const float *residual,
                                 float *ret_residual, int stream, lanes_f32 *bad)
{
    const lanes_f32 zero = lanes_all(0);
    uint32_t ups = 0, any = 0;

    for (int i = 0; i < WORD_2BIT; i += LANES) {
        lanes_f32 sum = lanes_load(residual + i) + lanes_load(grad + i);
        lanes_mask up = lanes_at_least(sum, threshold);
        lanes_mask down = lanes_at_least(-threshold, sum);
        lanes_f32 sent = lanes_pick(up, threshold, lanes_pick(down, -threshold, zero));

        lanes_store(ret_residual + i, sum - sent, stream);
        *bad += sum - sum;
        ups |= lanes_bits(up) << i;
        any |= (lanes_bits(up) | lanes_bits(down)) << i;
    }
    return (uint32_t)(spread[any & 255] << 1 | spread[ups & 255]) |
           (uint32_t)(spread[any >> 8] << 1 | spread[ups >> 8]) << 16;
}

/* The last elements, fewer than a word. */
INLINE void encode_rest(encode_word_t *encode_word, int word_elems, lanes_f32 threshold, int64_t n,
                        const float *grad, const float *residual, float *ret_residual, void *packed,
                        lanes_f32 *bad)
{
    float whole_grad[WORD_1BIT] = {0}, whole_residual[WORD_1BIT] = {0};
    size_t n_bytes = (size_t)n * sizeof(float);

    memcpy(whole_grad, grad, n_bytes);
    memcpy(whole_residual, residual, n_bytes);
    put_word(packed, 0,
             encode_word(threshold, whole_grad, whole_residual, whole_residual, 0, bad) &
                 used_bits(n, 32 / word_elems));
    memcpy(ret_residual, whole_residual, n_bytes);
}

INLINE int encode(encode_word_t *encode_word, int word_elems, float threshold, int64_t n,
                  const float *grad, const float *residual, float *ret_residual, void *packed,
                  int stream)
{
    lanes_f32 thresholds = lanes_all(threshold), bad = lanes_all(0);
    int64_t whole = n - n % word_elems;

    for (int64_t i = 0; i < whole; i += word_elems) {
        put_word(packed, i / word_elems,
                 encode_word(thresholds, grad + i, residual + i, ret_residual + i, stream, &bad));
    }
    if (whole < n) {
        encode_rest(encode_word, word_elems, thresholds, n - whole, grad + whole, residual + whole,
                    ret_residual + whole, (char *)packed + 4 * (whole / word_elems), &bad);
    }
    return !lanes_have_nan(bad);
}

#define DEFINE_ENCODE(bits, WORD)                                                                  \
    static int encode_##bits(const float *params, int64_t n, const float *grad,                    \
                             const float *residual, float *ret_residual, void *packed, int stream) \
    {                                                                                              \
        int finite;                                                                                \
                                                                                                   \
        if (!stream) {                                                                             \
            return encode(encode_word_##bits, WORD, params[0], n, grad, residual, ret_residual,    \
                          packed, 0);                                                              \
        }                                                                                          \
        finite = encode(encode_word_##bits, WORD, params[0], n, grad, residual, ret_residual,      \
                        packed, 1);                                                                \
        lanes_fence();                                                                             \
        return finite;                                                                             \
    }

DEFINE_ENCODE(1bit, WORD_1BIT)
DEFINE_ENCODE(2bit, WORD_2BIT)

/* ---- Decoding ----------------------------------------------------------------------------------- */

/* Write or add what a word stands for. */
typedef void decode_word_t(lanes_f32 threshold, uint32_t word, float *dst, int adds);

INLINE void put(float *dst, lanes_f32 lanes, int adds)
{
    if (adds) {
        lanes += lanes_load(dst);
    }
    lanes_store(dst, lanes, 0);
}

/* Where in a word the bits of its elements are. */
#define BIT_1(i)  ((int32_t)(UINT32_C(1) << ((i) / 8 * 8 + 7 - (i) % 8)))
#define HIGH_2(i) ((int32_t)(UINT32_C(2) << ((i) / 4 * 8 + 6 - (i) % 4 * 2)))
#define BOTH_2(i) ((int32_t)(UINT32_C(3) << ((i) / 4 * 8 + 6 - (i) % 4 * 2)))
static const int32_t bit_1bit[WORD_1BIT] = {TABLE_16(BIT_1, 0), TABLE_16(BIT_1, 16)};
static const int32_t high_2bit[WORD_2BIT] = {TABLE_16(HIGH_2, 0)};
static const int32_t both_2bit[WORD_2BIT] = {TABLE_16(BOTH_2, 0)};

INLINE void decode_word_1bit(lanes_f32 threshold, uint32_t word, float *dst, int adds)
{
    const lanes_f32 plus = lanes_all(1), minus = lanes_all(-1);
    lanes_i32 words = lanes_all_i32(word);

    (void)threshold; /* decides, but does not scale */
    for (int i = 0; i < WORD_1BIT; i += LANES) {
        lanes_i32 bit = *(const lanes_i32 *)(bit_1bit + i);

        put(dst + i, lanes_pick(lanes_equal(words & bit, bit), plus, minus), adds);
    }
}

INLINE void decode_word_2bit(lanes_f32 threshold, uint32_t word, float *dst, int adds)
{
    const lanes_f32 zero = lanes_all(0);
    lanes_i32 words = lanes_all_i32(word);

    for (int i = 0; i < WORD_2BIT; i += LANES) {
        lanes_i32 both = *(const lanes_i32 *)(both_2bit + i);
        lanes_i32 high = *(const lanes_i32 *)(high_2bit + i);
        lanes_mask up = lanes_equal(words & both, both);
        lanes_mask down = lanes_equal(words & both, high);

        put(dst + i, lanes_pick(up, threshold, lanes_pick(down, -threshold, zero)), adds);
    }
}

INLINE void decode(decode_word_t *decode_word, int word_elems, float threshold, int64_t n,
                   const void *packed, float *dst, int adds)
{
    lanes_f32 thresholds = lanes_all(threshold);
    int64_t whole = n - n % word_elems;
    size_t rest_bytes = (size_t)(n - whole) * sizeof(float);
    float rest[WORD_1BIT] = {0};

    for (int64_t i = 0; i < whole; i += word_elems) {
        decode_word(thresholds, get_word(packed, i / word_elems), dst + i, adds);
    }
    if (rest_bytes > 0) {
        memcpy(rest, dst + whole, rest_bytes);
        decode_word(thresholds, get_word(packed, whole / word_elems), rest, adds);
        memcpy(dst + whole, rest, rest_bytes);
    }
}

#define DEFINE_DECODE(name, bits, WORD, adds)                                                      \
    static void name(const float *params, int64_t n, const void *packed, float *dst)               \
    {                                                                                              \
        decode(decode_word_##bits, WORD, params[0], n, packed, dst, adds);                         \
    }

DEFINE_DECODE(decode_1bit, 1bit, WORD_1BIT, 0)
DEFINE_DECODE(decode_2bit, 2bit, WORD_2BIT, 0)
DEFINE_DECODE(decode_add_1bit, 1bit, WORD_1BIT, 1)
DEFINE_DECODE(decode_add_2bit, 2bit, WORD_2BIT, 1)

/* ---- The table ---------------------------------------------------------------------------------- */

#define JOIN_NOW(a, b) a##b
#define JOIN(a, b)     JOIN_NOW(a, b)
#define TEXT_NOW(name) #name
#define TEXT(name)     TEXT_NOW(name)

const compressors_kernels_t JOIN(compressors_kernels_, KERNELS_ISA) = {
    .isa = TEXT(KERNELS_ISA),
    .encode_1bit = encode_1bit,
    .encode_2bit = encode_2bit,
    .decode_1bit = decode_1bit,
    .decode_2bit = decode_2bit,
    .decode_add_1bit = decode_add_1bit,
    .decode_add_2bit = decode_add_2bit,
};
