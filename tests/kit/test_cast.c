/* SPDX-License-Identifier: Apache-2.0 */
/* Conversions between floating dtypes: every value of the half types, every tie between two of them,
 * by every set of kernels, against conversions by definition. */
#include "cast.h"
#include "fake_host.h"
#include "half.h"
#include "slow_half.h"

#include <kvstore/kit.h>

#include <fenv.h>
#include <math.h>

#define N_CODES 65536

static uint16_t codes[N_CODES], halves[N_CODES];
static float singles[N_CODES];
static double doubles[N_CODES];

static const int half_dtypes[] = {KVS_DTYPE_float16, KVS_DTYPE_bfloat16};

static void fill_codes(void)
{
    for (int i = 0; i < N_CODES; i++) {
        codes[i] = (uint16_t)i;
    }
}

static int same_single(float a, float b)
{
    return memcmp(&a, &b, sizeof(a)) == 0;
}

static void every_half_value_widens_exactly(void)
{
    fill_codes();
    for (size_t k = 0; kvs_kernels_at(k) != NULL; k++) {
        for (int h = 0; h < 2; h++) {
            int dtype = half_dtypes[h], n_wrong = 0;

            kvs_cast_by(kvs_kernels_at(k), N_CODES, dtype, codes, KVS_DTYPE_float32, singles);
            kvs_cast_by(kvs_kernels_at(k), N_CODES, dtype, codes, KVS_DTYPE_float64, doubles);
            for (int i = 0; i < N_CODES; i++) {
                double want = slow_decode(dtype, codes[i]);
                int right = isnan(want)
                                ? isnan(singles[i]) && isnan(doubles[i])
                                : same_single(singles[i], (float)want) && doubles[i] == want;

                n_wrong += !right;
            }
            KT_INT(n_wrong, 0);
        }
    }
}

static void every_half_value_survives_the_way_there_and_back(void)
{
    fill_codes();
    for (size_t k = 0; kvs_kernels_at(k) != NULL; k++) {
        for (int h = 0; h < 2; h++) {
            int dtype = half_dtypes[h];
            const int wide[] = {KVS_DTYPE_float32, KVS_DTYPE_float64};

            for (int w = 0; w < 2; w++) {
                int n_wrong = 0;

                kvs_cast_by(kvs_kernels_at(k), N_CODES, dtype, codes, wide[w], doubles);
                kvs_cast_by(kvs_kernels_at(k), N_CODES, wide[w], doubles, dtype, halves);
                for (int i = 0; i < N_CODES; i++) {
                    uint16_t quiet = (uint16_t)(1 << (slow_mantissa_bits(dtype) - 1));
                    int is_nan = (codes[i] & 0x7FFF) > slow_infinity(dtype);

                    n_wrong += halves[i] != (is_nan ? codes[i] | quiet : codes[i]);
                }
                KT_INT(n_wrong, 0);
            }
        }
    }
}

/* Between each value and the next, infinity included: the tie, and just below and above it. */
static int fill_ties(int dtype)
{
    int n = 0;

    for (uint16_t code = 0; code < slow_infinity(dtype); code++) {
        double tie = (slow_magnitude(dtype, code) + slow_magnitude(dtype, code + 1)) / 2;

        doubles[n++] = code & 2 ? tie : -tie;
    }
    return n;
}

static void ties_round_to_even_from_float32(void)
{
    for (size_t k = 0; kvs_kernels_at(k) != NULL; k++) {
        for (int h = 0; h < 2; h++) {
            int dtype = half_dtypes[h], n = fill_ties(dtype), n_wrong = 0;

            for (int side = -1; side <= 1; side++) {
                for (int i = 0; i < n; i++) {
                    singles[i] = (float)doubles[i];
                    if (side != 0) {
                        singles[i] = nextafterf(singles[i], side * INFINITY);
                    }
                }
                kvs_cast_by(kvs_kernels_at(k), n, KVS_DTYPE_float32, singles, dtype, halves);
                for (int i = 0; i < n; i++) {
                    n_wrong += halves[i] != slow_encode(dtype, singles[i]);
                }
            }
            KT_INT(n_wrong, 0);
        }
    }
}

/* Just beside a tie by less than float32 can tell: rounding twice would land on the tie first. */
static void float64_is_rounded_to_halves_once(void)
{
    for (size_t k = 0; kvs_kernels_at(k) != NULL; k++) {
        for (int h = 0; h < 2; h++) {
            int dtype = half_dtypes[h], n = fill_ties(dtype), n_wrong = 0;

            for (int side = -1; side <= 1; side++) {
                for (int i = 0; i < n && side != 0; i++) {
                    doubles[i] = nextafter(doubles[i], side * INFINITY);
                }
                kvs_cast_by(kvs_kernels_at(k), n, KVS_DTYPE_float64, doubles, dtype, halves);
                for (int i = 0; i < n; i++) {
                    n_wrong += halves[i] != slow_encode(dtype, doubles[i]);
                }
                fill_ties(dtype);
            }
            KT_INT(n_wrong, 0);
        }
    }
}

static void float64_extremes_reach_halves_as_infinity_and_zero(void)
{
    const double values[] = {1e300, -1e300, INFINITY, -INFINITY, 3.5e38, 1e-300, -1e-300, 4.9e-324};
    const uint16_t want16[] = {0x7C00, 0xFC00, 0x7C00, 0xFC00, 0x7C00, 0, 0x8000, 0};
    const uint16_t want_b[] = {0x7F80, 0xFF80, 0x7F80, 0xFF80, 0x7F80, 0, 0x8000, 0};

    for (size_t k = 0; kvs_kernels_at(k) != NULL; k++) {
        kvs_cast_by(kvs_kernels_at(k), 8, KVS_DTYPE_float64, values, KVS_DTYPE_float16, halves);
        KT_TRUE(memcmp(halves, want16, sizeof(want16)) == 0);
        kvs_cast_by(kvs_kernels_at(k), 8, KVS_DTYPE_float64, values, KVS_DTYPE_bfloat16, halves);
        KT_TRUE(memcmp(halves, want_b, sizeof(want_b)) == 0);
    }
}

static void random_bits_give_the_same_by_all_kernels(void)
{
    static uint16_t best[N_CODES];

    for (int round = 0; round < 8; round++) {
        for (int i = 0; i < N_CODES; i++) {
            uint64_t bits = fake_random();

            memcpy(&singles[i], &bits, sizeof(singles[i]));
            memcpy(&doubles[i], &bits, sizeof(doubles[i]));
        }
        for (int h = 0; h < 2; h++) {
            for (int wide = KVS_DTYPE_float32; wide <= KVS_DTYPE_float64; wide++) {
                const void *src = wide == KVS_DTYPE_float32 ? (void *)singles : (void *)doubles;

                kvs_cast_by(kvs_kernels(), N_CODES, wide, src, half_dtypes[h], best);
                for (size_t k = 0; kvs_kernels_at(k) != NULL; k++) {
                    kvs_cast_by(kvs_kernels_at(k), N_CODES, wide, src, half_dtypes[h], halves);
                    KT_TRUE(memcmp(best, halves, sizeof(best)) == 0);
                }
            }
        }
    }
}

static void half_types_convert_into_each_other_in_place(void)
{
    fill_codes();
    kvs_cast(N_CODES, KVS_DTYPE_float16, codes, KVS_DTYPE_bfloat16, halves);
    for (int i = 0; i < N_CODES; i++) {
        double value = slow_decode(KVS_DTYPE_float16, codes[i]);

        if (isnan(value) ? !isnan(slow_decode(KVS_DTYPE_bfloat16, halves[i]))
                         : halves[i] != slow_encode(KVS_DTYPE_bfloat16, value)) {
            KT_INT(halves[i], slow_encode(KVS_DTYPE_bfloat16, value));
            break;
        }
    }
    kvs_cast(N_CODES, KVS_DTYPE_float16, codes, KVS_DTYPE_bfloat16, codes);
    KT_TRUE(memcmp(codes, halves, sizeof(halves)) == 0);
}

static void float32_and_float64_convert_as_the_language_does(void)
{
    for (int i = 0; i < N_CODES; i++) {
        doubles[i] = ldexp((double)(int64_t)fake_random(), (int)(fake_random() % 300) - 200);
    }
    kvs_cast(N_CODES, KVS_DTYPE_float64, doubles, KVS_DTYPE_float32, singles);
    for (int i = 0; i < N_CODES; i++) {
        if (!same_single(singles[i], (float)doubles[i])) {
            KT_REAL(singles[i], (float)doubles[i]);
            break;
        }
    }
    kvs_cast(N_CODES, KVS_DTYPE_float32, singles, KVS_DTYPE_float64, doubles);
    for (int i = 0; i < N_CODES; i++) {
        if (doubles[i] != (double)singles[i]) {
            KT_REAL(doubles[i], singles[i]);
            break;
        }
    }
}

static void equal_dtypes_are_copied_bit_by_bit(void)
{
    uint32_t odd_nan[3] = {0x7F800001, 0xFFC12345, 0}, copy[3] = {0};

    kvs_cast(3, KVS_DTYPE_float32, odd_nan, KVS_DTYPE_float32, copy);
    KT_TRUE(memcmp(odd_nan, copy, sizeof(copy)) == 0);
    kvs_cast(3, KVS_DTYPE_float32, copy, KVS_DTYPE_float32, copy);
    KT_TRUE(memcmp(odd_nan, copy, sizeof(copy)) == 0);
    kvs_cast(0, KVS_DTYPE_float32, NULL, KVS_DTYPE_float16, NULL);
}

static void the_callers_rounding_mode_is_not_used_and_not_changed(void)
{
    float tie = 2049, next_tie = 2051; /* between 2048, 2050 and 2052 */
    uint16_t half;

    fesetround(FE_UPWARD);
    kvs_cast(1, KVS_DTYPE_float32, &tie, KVS_DTYPE_float16, &half);
    KT_INT(half, 0x6800);
    kvs_cast(1, KVS_DTYPE_float32, &next_tie, KVS_DTYPE_float16, &half);
    KT_INT(half, 0x6802);
    KT_INT(fegetround(), FE_UPWARD);
    fesetround(FE_TONEAREST);
}

static const kt_test_t tests[] = {
    KT_TEST(every_half_value_widens_exactly),
    KT_TEST(every_half_value_survives_the_way_there_and_back),
    KT_TEST(ties_round_to_even_from_float32),
    KT_TEST(float64_is_rounded_to_halves_once),
    KT_TEST(float64_extremes_reach_halves_as_infinity_and_zero),
    KT_TEST(random_bits_give_the_same_by_all_kernels),
    KT_TEST(half_types_convert_into_each_other_in_place),
    KT_TEST(float32_and_float64_convert_as_the_language_does),
    KT_TEST(equal_dtypes_are_copied_bit_by_bit),
    KT_TEST(the_callers_rounding_mode_is_not_used_and_not_changed),
};
KT_MAIN("cast", tests)
