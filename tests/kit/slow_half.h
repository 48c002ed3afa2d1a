/* SPDX-License-Identifier: Apache-2.0 */
/* slow_half.h - float16 and bfloat16 by their definition, as a reference: decoding by ldexp, rounding
 * by searching the two neighbours among all values. */
#ifndef SLOW_HALF_H
#define SLOW_HALF_H

#include <kvstore/kvstore.h>

#include <math.h>
#include <stdint.h>

static inline int slow_mantissa_bits(int dtype)
{
    return dtype == KVS_DTYPE_float16 ? 10 : 7;
}

static inline uint16_t slow_infinity(int dtype)
{
    return dtype == KVS_DTYPE_float16 ? 0x7C00 : 0x7F80;
}

/* The value of a magnitude (sign bit 0); infinity as the power of two that would follow. */
static inline double slow_magnitude(int dtype, uint16_t code)
{
    int bits = slow_mantissa_bits(dtype);
    int smallest = dtype == KVS_DTYPE_float16 ? -14 : -126;
    int exponent = code >> bits;
    int mantissa = code & ((1 << bits) - 1);

    return exponent == 0 ? ldexp(mantissa, smallest - bits)
                         : ldexp(mantissa + (1 << bits), exponent - 1 + smallest - bits);
}

static inline double slow_decode(int dtype, uint16_t code)
{
    uint16_t magnitude = code & 0x7FFF;
    double sign = code & 0x8000 ? -1 : 1;

    if (magnitude > slow_infinity(dtype)) {
        return NAN;
    }
    return sign * (magnitude == slow_infinity(dtype) ? INFINITY : slow_magnitude(dtype, magnitude));
}

/* Not for NaN. */
static inline uint16_t slow_encode(int dtype, double value)
{
    uint16_t sign = signbit(value) ? 0x8000 : 0;
    uint16_t low = 0, high = slow_infinity(dtype);
    double magnitude = fabs(value);

    if (magnitude >= slow_magnitude(dtype, high)) {
        return sign | high;
    }
    while (high - low > 1) { /* value(low) <= magnitude < value(high) */
        uint16_t middle = (uint16_t)((low + high) / 2);

        if (slow_magnitude(dtype, middle) <= magnitude) {
            low = middle;
        } else {
            high = middle;
        }
    }
    double below = magnitude - slow_magnitude(dtype, low);
    double above = slow_magnitude(dtype, high) - magnitude;
    int up = below > above || (below == above && (low & 1) != 0);

    return (uint16_t)(sign | (up ? high : low));
}

#endif
