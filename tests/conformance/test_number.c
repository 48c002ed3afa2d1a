/* SPDX-License-Identifier: Apache-2.0 */
/* The suite's own conversions: what backends are compared with must itself be right. */
#include <kt.h>

#include "number.h"

#include <math.h>

static unsigned bits_of(int dtype, double value)
{
    uint16_t bits;

    cf_encode(dtype, value, &bits);
    return bits;
}

static double value_of(int dtype, unsigned bits)
{
    uint16_t half = (uint16_t)bits;

    return cf_decode(dtype, &half);
}

static void float16_has_its_known_bits(void)
{
    KT_INT(bits_of(KVS_DTYPE_float16, 1), 0x3C00);
    KT_INT(bits_of(KVS_DTYPE_float16, -2), 0xC000);
    KT_INT(bits_of(KVS_DTYPE_float16, 65504), 0x7BFF);
    KT_INT(bits_of(KVS_DTYPE_float16, 0x1p-14), 0x0400); /* the smallest normal number */
    KT_INT(bits_of(KVS_DTYPE_float16, 0x1p-24), 0x0001); /* the smallest of all */
    KT_INT(bits_of(KVS_DTYPE_float16, -0.0), 0x8000);
    KT_INT(bits_of(KVS_DTYPE_float16, INFINITY), 0x7C00);
    KT_TRUE(isnan(value_of(KVS_DTYPE_float16, bits_of(KVS_DTYPE_float16, NAN))));
}

static void float16_rounds_to_nearest_even(void)
{
    KT_INT(bits_of(KVS_DTYPE_float16, 2049), 0x6800);      /* 2048 */
    KT_INT(bits_of(KVS_DTYPE_float16, 2049.0001), 0x6801); /* 2050 */
    KT_INT(bits_of(KVS_DTYPE_float16, 2051), 0x6802);      /* 2052 */
    KT_INT(bits_of(KVS_DTYPE_float16, 2047.75), 0x6800);   /* up to the next power of two */
    KT_INT(bits_of(KVS_DTYPE_float16, 65519), 0x7BFF);
    KT_INT(bits_of(KVS_DTYPE_float16, 65520), 0x7C00); /* infinity */
    KT_INT(bits_of(KVS_DTYPE_float16, 0x1p-25), 0x0000);
    KT_INT(bits_of(KVS_DTYPE_float16, 3 * 0x1p-25), 0x0002);
    KT_INT(bits_of(KVS_DTYPE_float16, 0x1p-14 - 0x1p-26), 0x0400); /* subnormal up to normal */
}

static void bfloat16_rounds_to_nearest_even(void)
{
    KT_INT(bits_of(KVS_DTYPE_bfloat16, 1), 0x3F80);
    KT_INT(bits_of(KVS_DTYPE_bfloat16, 257), 0x4380); /* 256 */
    KT_INT(bits_of(KVS_DTYPE_bfloat16, 259), 0x4382); /* 260 */
    KT_INT(bits_of(KVS_DTYPE_bfloat16, 1e39), 0x7F80);
}

/* A bfloat16 is the upper half of a float32. */
static void every_bfloat16_is_the_float32_that_begins_with_it(void)
{
    for (uint32_t bits = 0; bits < 0x10000; bits++) {
        uint32_t wide = bits << 16;
        float want;
        double got = value_of(KVS_DTYPE_bfloat16, bits);

        memcpy(&want, &wide, sizeof(want));
        if (!(got == (double)want || (isnan(got) && isnan(want)))) {
            KT_INT(bits, -1);
        }
    }
}

static void every_half_survives_the_way_there_and_back(void)
{
    static const int halves[] = {KVS_DTYPE_float16, KVS_DTYPE_bfloat16};

    for (int i = 0; i < 2; i++) {
        for (unsigned bits = 0; bits < 0x10000; bits++) {
            double value = value_of(halves[i], bits);

            if (!isnan(value) && bits_of(halves[i], value) != bits) {
                KT_INT(bits_of(halves[i], value), bits);
            }
        }
    }
}

static void integers_keep_their_low_bits(void)
{
    int64_t bytes = 0;

    cf_encode_int(KVS_DTYPE_int8, 201, &bytes);
    KT_INT(cf_decode_int(KVS_DTYPE_int8, &bytes), -55);
    cf_encode_int(KVS_DTYPE_uint8, -1, &bytes);
    KT_INT(cf_decode_int(KVS_DTYPE_uint8, &bytes), 255);
    cf_encode_int(KVS_DTYPE_int32, INT64_C(0x180000000), &bytes);
    KT_INT(cf_decode_int(KVS_DTYPE_int32, &bytes), INT32_MIN);
    cf_encode(KVS_DTYPE_int64, -3, &bytes);
    KT_REAL(cf_decode(KVS_DTYPE_int64, &bytes), -3);
}

static const kt_test_t tests[] = {
    KT_TEST(float16_has_its_known_bits),
    KT_TEST(float16_rounds_to_nearest_even),
    KT_TEST(bfloat16_rounds_to_nearest_even),
    KT_TEST(every_bfloat16_is_the_float32_that_begins_with_it),
    KT_TEST(every_half_survives_the_way_there_and_back),
    KT_TEST(integers_keep_their_low_bits),
};

KT_MAIN("number", tests)
