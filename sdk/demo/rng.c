/* SPDX-License-Identifier: Apache-2.0 */
/* rng.c - SplitMix64 and what is made of it. */
#include "rng.h"

uint64_t rng_next(rng_t *rng)
{
    uint64_t z = rng->state += 0x9E3779B97F4A7C15u;

    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

float rng_uniform(rng_t *rng, float low, float high)
{
    float unit = (float)(rng_next(rng) >> 40) * 0x1p-24f; /* 24 bits: exact in a float, below 1 */

    return low + (high - low) * unit;
}

void rng_shuffle(rng_t *rng, uint32_t *items, size_t n_items)
{
    for (size_t i = n_items; i > 1; i--) {
        size_t other =
            (size_t)(rng_next(rng) % i); /* the bias, below i / 2^64, matters to nobody */
        uint32_t item = items[i - 1];

        items[i - 1] = items[other];
        items[other] = item;
    }
}
