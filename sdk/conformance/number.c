/* SPDX-License-Identifier: Apache-2.0 */
/* number.c - the half types are computed from their definition (sign, exponent, fraction), without
 * tricks on bits, so that the suite does not share a mistake with the code it tests. */
#include "number.h"

#include <math.h>
#include <string.h>

/* A binary format of 16 bits: 1 sign, `exponent` and `fraction` bits. */
typedef struct half_format {
    int exponent, fraction;
} half_format_t;

static const half_format_t float16_format = {5, 10};
static const half_format_t bfloat16_format = {8, 7};

static uint16_t half_from_double(half_format_t format, double value)
{
    const int bias = (1 << (format.exponent - 1)) - 1;
    const uint16_t sign = signbit(value) ? 0x8000 : 0;
    const uint16_t infinity = (uint16_t)(((1 << format.exponent) - 1) << format.fraction);
    int exponent = 0;
    double units;

    if (isnan(value)) {
        return (uint16_t)(sign | infinity | 1 << (format.fraction - 1));
    }
    if (isinf(value)) {
        return (uint16_t)(sign | infinity);
    }
    if (value == 0) {
        return sign;
    }
    (void)frexp(value, &exponent); /* 2^(exponent-1) <= |value| < 2^exponent */
    exponent = exponent - 1 < 1 - bias ? 1 - bias : exponent - 1;
    /* Whole units of the last place; a normal number has 2^fraction of them or more. What rounds up
     * to the next power of two carries into the exponent's bits by itself. */
    units = rint(ldexp(fabs(value), format.fraction - exponent));
    units += ldexp(exponent + bias - 1, format.fraction);
    return (uint16_t)(sign | (units >= infinity ? infinity : (uint16_t)units));
}

static double half_to_double(half_format_t format, uint16_t bits)
{
    const int bias = (1 << (format.exponent - 1)) - 1;
    const int exponent = bits >> format.fraction & ((1 << format.exponent) - 1);
    const int fraction = bits & ((1 << format.fraction) - 1);
    double value;

    if (exponent == (1 << format.exponent) - 1) {
        value = fraction ? (double)NAN : (double)INFINITY;
    } else if (exponent == 0) {
        value = ldexp(fraction, 1 - bias - format.fraction);
    } else {
        value = ldexp(fraction + (1 << format.fraction), exponent - bias - format.fraction);
    }
    return bits & 0x8000 ? -value : value;
}

size_t cf_dtype_bytes(int dtype)
{
    return kvs_dtype(dtype).bits / 8;
}

void cf_encode(int dtype, double value, void *bytes)
{
    float single = (float)value;
    uint16_t half;

    switch (dtype) {
    case KVS_DTYPE_float32:
        memcpy(bytes, &single, sizeof(single));
        break;
    case KVS_DTYPE_float64:
        memcpy(bytes, &value, sizeof(value));
        break;
    case KVS_DTYPE_float16:
    case KVS_DTYPE_bfloat16:
        half =
            half_from_double(dtype == KVS_DTYPE_float16 ? float16_format : bfloat16_format, value);
        memcpy(bytes, &half, sizeof(half));
        break;
    default:
        cf_encode_int(dtype, (int64_t)value, bytes);
        break;
    }
}

double cf_decode(int dtype, const void *bytes)
{
    float single;
    double value;
    uint16_t half;

    switch (dtype) {
    case KVS_DTYPE_float32:
        memcpy(&single, bytes, sizeof(single));
        return single;
    case KVS_DTYPE_float64:
        memcpy(&value, bytes, sizeof(value));
        return value;
    case KVS_DTYPE_float16:
    case KVS_DTYPE_bfloat16:
        memcpy(&half, bytes, sizeof(half));
        return half_to_double(dtype == KVS_DTYPE_float16 ? float16_format : bfloat16_format, half);
    default:
        return (double)cf_decode_int(dtype, bytes);
    }
}

void cf_encode_int(int dtype, int64_t value, void *bytes)
{
    uint8_t byte = (uint8_t)value;
    uint32_t word = (uint32_t)value;

    switch (cf_dtype_bytes(dtype)) {
    case 1:
        memcpy(bytes, &byte, sizeof(byte));
        break;
    case 4:
        memcpy(bytes, &word, sizeof(word));
        break;
    default:
        memcpy(bytes, &value, sizeof(value));
        break;
    }
}

int64_t cf_decode_int(int dtype, const void *bytes)
{
    int8_t tiny;
    uint8_t byte;
    int32_t word;
    int64_t value;

    switch (dtype) {
    case KVS_DTYPE_int8:
        memcpy(&tiny, bytes, sizeof(tiny));
        return tiny;
    case KVS_DTYPE_uint8:
        memcpy(&byte, bytes, sizeof(byte));
        return byte;
    case KVS_DTYPE_int32:
        memcpy(&word, bytes, sizeof(word));
        return word;
    default:
        memcpy(&value, bytes, sizeof(value));
        return value;
    }
}
