/* SPDX-License-Identifier: Apache-2.0 */
/* half.c - a small binary float is sign * m * 2^e with a bounded m and e: rounding a value is one
 * rint() of value / 2^e. */
#include "half.h"

#include <math.h>

typedef struct format {
    int n_fraction; /* bits of the fraction */
    int min_exp;    /* exponent of the smallest normal number */
    int max_exp;    /* exponent of the largest finite number */
} format_t;

static const format_t float16 = {.n_fraction = 10, .min_exp = -14, .max_exp = 15};
static const format_t bfloat16 = {.n_fraction = 7, .min_exp = -126, .max_exp = 127};

static double decode(const format_t *format, uint16_t bits)
{
    int n_exp_bits = 15 - format->n_fraction;
    int fraction = bits & ((1 << format->n_fraction) - 1);
    int exp_field = (bits >> format->n_fraction) & ((1 << n_exp_bits) - 1);
    double sign = (bits & 0x8000) != 0 ? -1 : 1;

    if (exp_field == (1 << n_exp_bits) - 1) {
        return fraction != 0 ? (double)NAN : sign * (double)INFINITY;
    }
    if (exp_field == 0) {
        return sign * ldexp(fraction, format->min_exp - format->n_fraction);
    }
    return sign * ldexp(fraction + (1 << format->n_fraction),
                        exp_field - 1 + format->min_exp - format->n_fraction);
}

static uint16_t encode(const format_t *format, double value)
{
    uint16_t sign = signbit(value) ? 0x8000 : 0;
    uint16_t infinity = (uint16_t)((format->max_exp - format->min_exp + 2) << format->n_fraction);
    double magnitude = fabs(value);
    int exp = format->min_exp;

    if (isnan(value)) {
        return (uint16_t)(infinity | (1 << (format->n_fraction - 1)));
    }
    if (isinf(value)) {
        return sign | infinity;
    }
    if (magnitude >= ldexp(1, format->min_exp)) {
        exp = ilogb(magnitude);
    }
    /* In units of the last place; may round up into the next exponent, which the sum carries. */
    double units = rint(ldexp(magnitude, format->n_fraction - exp));
    double bits = units + ldexp(exp - format->min_exp, format->n_fraction);

    return bits >= infinity ? (uint16_t)(sign | infinity) : (uint16_t)(sign | (uint16_t)bits);
}

double half_to_double(uint16_t bits)
{
    return decode(&float16, bits);
}

uint16_t half_from_double(double value)
{
    return encode(&float16, value);
}

double bfloat_to_double(uint16_t bits)
{
    return decode(&bfloat16, bits);
}

uint16_t bfloat_from_double(double value)
{
    return encode(&bfloat16, value);
}
