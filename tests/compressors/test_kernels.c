/* SPDX-License-Identifier: Apache-2.0 */
/* The loops of every instruction set that this processor has, against the definition. */
#include "kernels.h"
#include "kt.h"
#include "plain.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MAX_N  1100
#define MARGIN 16 /* elements, and bytes, that must stay as they are */

static const int64_t sizes[] = {0,  1,   2,   3,   4,   5,   7,   8,   9,    15,   16,
                                17, 31,  32,  33,  47,  48,  63,  64,  65,   95,   96,
                                97, 127, 128, 129, 255, 256, 257, 999, 1000, 1024, MAX_N};
static const float thresholds[] = {0.5f, 0.25f, 1e-7f, 0.3f, 1e-40f, 5e37f};

/* One array each, with a margin in front and behind; `shift` elements from an aligned address. */
typedef struct arrays {
    _Alignas(64) float grad[MAX_N + 3 * MARGIN];
    _Alignas(64) float residual[MAX_N + 3 * MARGIN];
    _Alignas(64) float next[MAX_N + 3 * MARGIN];
    _Alignas(64) float decoded[MAX_N + 3 * MARGIN];
    _Alignas(64) uint8_t packed[MAX_N / 4 + 3 * MARGIN];
} arrays_t;

static arrays_t arrays;

static uint64_t seed = 1;

static double random_between(double low, double high)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return low + (high - low) * (double)(seed >> 11) / 0x1p53;
}

/* Around the threshold, on it, and on zeros of both signs. */
static float some_value(float threshold, int64_t i)
{
    switch (i % 7) {
    case 0:
        return threshold;
    case 1:
        return -threshold;
    case 2:
        return 0.0f;
    case 3:
        return -0.0f;
    case 4:
        return nextafterf(threshold, 0);
    default:
        return (float)random_between(-3, 3) * threshold;
    }
}

static compressors_encode_t *encode_of(const compressors_kernels_t *kernels, int bits)
{
    return bits == 1 ? kernels->encode_1bit : kernels->encode_2bit;
}

static compressors_decode_t *decode_of(const compressors_kernels_t *kernels, int bits)
{
    return bits == 1 ? kernels->decode_1bit : kernels->decode_2bit;
}

static compressors_decode_t *decode_add_of(const compressors_kernels_t *kernels, int bits)
{
    return bits == 1 ? kernels->decode_add_1bit : kernels->decode_add_2bit;
}

static void fill(float threshold, int64_t n, int shift)
{
    memset(&arrays, 0xAB, sizeof(arrays));
    for (int64_t i = 0; i < n; i++) {
        arrays.grad[MARGIN + shift + i] = some_value(threshold, i);
        arrays.residual[MARGIN + shift + i] = i % 3 == 0 ? 0 : some_value(threshold, i + 5) / 2;
    }
}

static int margin_is_whole(const void *array, size_t before, size_t n_bytes, size_t size)
{
    const uint8_t *bytes = array;

    for (size_t i = 0; i < size; i++) {
        if ((i < before || i >= before + n_bytes) && bytes[i] != 0xAB) {
            return 0;
        }
    }
    return 1;
}

/* One way of encoding and decoding, against the plain loop. Returns 1 if all agrees. */
static int agrees(const compressors_kernels_t *kernels, int bits, float threshold, int64_t n,
                  int shift)
{
    size_t n_packed = (size_t)plain_packed_bytes(bits, n), n_bytes = (size_t)n * sizeof(float);
    size_t at = MARGIN + (size_t)shift;
    uint8_t want[MAX_N / 4 + MARGIN] = {0};
    int same = 1;

    fill(threshold, n, shift);
    same &= encode_of(kernels, bits)(&threshold, n, arrays.grad + at, arrays.residual + at,
                                     arrays.next + at, arrays.packed + MARGIN, 0);
    for (int64_t i = 0; i < n; i++) {
        float sum = arrays.residual[at + (size_t)i] + arrays.grad[at + (size_t)i];
        float rest = sum - plain_sent(bits, threshold, sum);

        plain_put(bits, i, plain_code(bits, threshold, sum), want);
        same &= memcmp(&rest, &arrays.next[at + (size_t)i], sizeof(rest)) == 0;
    }
    same &= memcmp(want, arrays.packed + MARGIN, n_packed) == 0;
    decode_of(kernels, bits)(&threshold, n, arrays.packed + MARGIN, arrays.decoded + at);
    for (int64_t i = 0; i < n; i++) {
        float value = plain_value(bits, threshold, i, want);

        same &= memcmp(&value, &arrays.decoded[at + (size_t)i], sizeof(value)) == 0;
    }
    same &= margin_is_whole(arrays.packed, MARGIN, n_packed, sizeof(arrays.packed)) &&
            margin_is_whole(arrays.next, at * 4, n_bytes, sizeof(arrays.next)) &&
            margin_is_whole(arrays.decoded, at * 4, n_bytes, sizeof(arrays.decoded));
    if (!same) {
        printf("\n  %s: %dbit, threshold %g, %lld elements, shift %d", kernels->isa, bits,
               (double)threshold, (long long)n, shift);
    }
    return same;
}

static void every_instruction_set_does_as_defined(void)
{
    const compressors_kernels_t *kernels;

    for (size_t k = 0; (kernels = compressors_kernels_at(k)) != NULL; k++) {
        for (size_t t = 0; t < sizeof(thresholds) / sizeof(thresholds[0]); t++) {
            for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
                for (int bits = 1; bits <= 2; bits++) {
                    KT_TRUE(agrees(kernels, bits, thresholds[t], sizes[s], 0));
                    KT_TRUE(agrees(kernels, bits, thresholds[t], sizes[s], 1));
                }
            }
        }
        KT_TRUE(agrees(kernels, 1, 0, 100, 0));
        KT_TRUE(agrees(kernels, 1, -0.5f, 100, 3)); /* legal with 1bit */
    }
}

static void the_residual_may_be_written_in_place(void)
{
    const compressors_kernels_t *kernels;
    float threshold = 0.5f;

    for (size_t k = 0; (kernels = compressors_kernels_at(k)) != NULL; k++) {
        for (int bits = 1; bits <= 2; bits++) {
            fill(threshold, 100, 0);
            (void)encode_of(kernels, bits)(&threshold, 100, arrays.grad + MARGIN,
                                           arrays.residual + MARGIN, arrays.next + MARGIN,
                                           arrays.packed, 0);
            (void)encode_of(kernels, bits)(&threshold, 100, arrays.grad + MARGIN,
                                           arrays.residual + MARGIN, arrays.residual + MARGIN,
                                           arrays.packed, 0);
            KT_TRUE(memcmp(arrays.residual, arrays.next, sizeof(arrays.next)) == 0);
        }
    }
}

static void writing_past_the_caches_gives_the_same(void)
{
    const compressors_kernels_t *kernels;
    static _Alignas(64) float streamed[MAX_N];
    uint8_t packed[MAX_N];
    float threshold = 0.5f;

    for (size_t k = 0; (kernels = compressors_kernels_at(k)) != NULL; k++) {
        for (int bits = 1; bits <= 2; bits++) {
            fill(threshold, 1001, 0);
            memset(packed, 0xAB, sizeof(packed));
            (void)encode_of(kernels, bits)(&threshold, 1001, arrays.grad + MARGIN,
                                           arrays.residual + MARGIN, arrays.next + MARGIN,
                                           arrays.packed, 0);
            KT_INT(encode_of(kernels, bits)(&threshold, 1001, arrays.grad + MARGIN,
                                            arrays.residual + MARGIN, streamed, packed, 1),
                   1);
            KT_TRUE(memcmp(streamed, arrays.next + MARGIN, 1001 * sizeof(float)) == 0);
            KT_TRUE(memcmp(packed, arrays.packed, (size_t)plain_packed_bytes(bits, 1001)) == 0);
        }
    }
}

/* What decode_add does: to what is there. */
static void decoding_can_add(void)
{
    const compressors_kernels_t *kernels;
    float threshold = 0.3f;

    for (size_t k = 0; (kernels = compressors_kernels_at(k)) != NULL; k++) {
        for (int bits = 1; bits <= 2; bits++) {
            fill(threshold, 77, 0);
            (void)encode_of(kernels, bits)(&threshold, 77, arrays.grad + MARGIN,
                                           arrays.residual + MARGIN, arrays.next + MARGIN,
                                           arrays.packed, 0);
            for (int i = 0; i < 77; i++) {
                arrays.decoded[i] = 0.1f * (float)i;
            }
            decode_add_of(kernels, bits)(&threshold, 77, arrays.packed, arrays.decoded);
            for (int i = 0; i < 77; i++) {
                KT_REAL(arrays.decoded[i],
                        0.1f * (float)i + plain_value(bits, threshold, i, arrays.packed));
            }
        }
    }
}

/* 01 is sent by nobody. */
static void any_bytes_can_be_decoded(void)
{
    const compressors_kernels_t *kernels;
    float threshold = 0.5f;
    uint8_t bytes[64];

    for (int i = 0; i < 64; i++) {
        bytes[i] = (uint8_t)(i * 37 + 1);
    }
    for (size_t k = 0; (kernels = compressors_kernels_at(k)) != NULL; k++) {
        for (int bits = 1; bits <= 2; bits++) {
            decode_of(kernels, bits)(&threshold, 256, bytes, arrays.decoded);
            for (int i = 0; i < 256; i++) {
                KT_REAL(arrays.decoded[i], plain_value(bits, threshold, i, bytes));
            }
        }
    }
}

/* Whole words, on one machine and on another. */
static void a_cut_at_words_changes_nothing(void)
{
    const compressors_kernels_t *kernels;
    uint8_t packed[MAX_N];
    float threshold = 0.5f;
    float next[256];

    for (size_t k = 0; (kernels = compressors_kernels_at(k)) != NULL; k++) {
        for (int bits = 1; bits <= 2; bits++) {
            fill(threshold, 250, 0);
            (void)encode_of(kernels, bits)(&threshold, 250, arrays.grad + MARGIN,
                                           arrays.residual + MARGIN, arrays.next + MARGIN,
                                           arrays.packed, 0);
            for (int i = 0; i < 250; i += 96) {
                (void)encode_of(kernels, bits)(
                    &threshold, 250 - i < 96 ? 250 - i : 96, arrays.grad + MARGIN + i,
                    arrays.residual + MARGIN + i, next + i, packed + i * bits / 8, 0);
            }
            KT_TRUE(memcmp(packed, arrays.packed, (size_t)plain_packed_bytes(bits, 250)) == 0);
            KT_TRUE(memcmp(next, arrays.next + MARGIN, 250 * sizeof(float)) == 0);
        }
    }
}

static void an_element_that_is_not_finite_is_noticed_wherever_it_is(void)
{
    static const float odd[] = {NAN, INFINITY, -INFINITY};
    const compressors_kernels_t *kernels;
    float threshold = 0.5f;

    for (size_t k = 0; (kernels = compressors_kernels_at(k)) != NULL; k++) {
        for (int i = 0; i < 100 * 6; i++) {
            int bits = 1 + i % 2;

            fill(threshold, 100, 0);
            arrays.grad[MARGIN + i / 6] = odd[i % 3];
            KT_INT(encode_of(kernels, bits)(&threshold, 100, arrays.grad + MARGIN,
                                            arrays.residual + MARGIN, arrays.next + MARGIN,
                                            arrays.packed, 0),
                   0);
        }
    }
}

static void a_sum_that_exceeds_float32_is_noticed(void)
{
    const compressors_kernels_t *kernels;
    float threshold = 0.5f;

    for (size_t k = 0; (kernels = compressors_kernels_at(k)) != NULL; k++) {
        for (int bits = 1; bits <= 2; bits++) {
            fill(threshold, 40, 0);
            arrays.grad[MARGIN + 39] = FLT_MAX;
            arrays.residual[MARGIN + 39] = 0;
            KT_INT(encode_of(kernels, bits)(&threshold, 40, arrays.grad + MARGIN,
                                            arrays.residual + MARGIN, arrays.next + MARGIN,
                                            arrays.packed, 0),
                   1);
            arrays.residual[MARGIN + 39] = FLT_MAX;
            KT_INT(encode_of(kernels, bits)(&threshold, 40, arrays.grad + MARGIN,
                                            arrays.residual + MARGIN, arrays.next + MARGIN,
                                            arrays.packed, 0),
                   0);
        }
    }
}

static const kt_test_t tests[] = {
    KT_TEST(every_instruction_set_does_as_defined),
    KT_TEST(the_residual_may_be_written_in_place),
    KT_TEST(writing_past_the_caches_gives_the_same),
    KT_TEST(decoding_can_add),
    KT_TEST(any_bytes_can_be_decoded),
    KT_TEST(a_cut_at_words_changes_nothing),
    KT_TEST(an_element_that_is_not_finite_is_noticed_wherever_it_is),
    KT_TEST(a_sum_that_exceeds_float32_is_noticed),
};
KT_MAIN("kernels", tests)
