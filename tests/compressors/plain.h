/* SPDX-License-Identifier: Apache-2.0 */
/* plain.h - 1bit and 2bit element by element, as their definition reads: what tests compare with. */
#ifndef PLAIN_H
#define PLAIN_H

#include <stdint.h>

/* What is sent of `sum`, the residual with the gradient. */
static inline float plain_sent(int bits, float threshold, float sum)
{
    if (bits == 1) {
        return sum > threshold ? 1.0f : -1.0f;
    }
    return sum >= threshold ? threshold : sum <= -threshold ? -threshold : 0.0f;
}

/* Element `i` as its bits. */
static inline unsigned plain_code(int bits, float threshold, float sum)
{
    if (bits == 1) {
        return sum > threshold ? 1 : 0;
    }
    return sum >= threshold ? 3 : sum <= -threshold ? 2 : 0;
}

/* Put the bits of element `i` into zeroed bytes: the first element of a byte is in the highest bits. */
static inline void plain_put(int bits, int64_t i, unsigned code, uint8_t *packed)
{
    int64_t bit = i * bits;

    packed[bit / 8] |= (uint8_t)(code << (8 - bits - bit % 8));
}

/* What the bits of element `i` stand for. */
static inline float plain_value(int bits, float threshold, int64_t i, const uint8_t *packed)
{
    int64_t bit = i * bits;
    unsigned code = packed[bit / 8] >> (8 - bits - bit % 8) & ((1u << bits) - 1);

    if (bits == 1) {
        return code ? 1.0f : -1.0f;
    }
    return code == 3 ? threshold : code == 2 ? -threshold : 0.0f;
}

static inline int64_t plain_packed_bytes(int bits, int64_t n)
{
    return (n * bits + 31) / 32 * 4;
}

#endif
