/* SPDX-License-Identifier: Apache-2.0 */
/* rng.h - random numbers that are the same on every machine and for every number of devices.
 *
 * The generator is SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators,
 * 2014): 64 bits of state, any seed. Not thread-safe: one user each. */
#ifndef DEMO_RNG_H
#define DEMO_RNG_H

#include <stddef.h>
#include <stdint.h>

typedef struct rng {
    uint64_t state; /* the seed, to begin with */
} rng_t;

uint64_t rng_next(rng_t *rng);
/* Uniform in [low, high). */
float rng_uniform(rng_t *rng, float low, float high);
/* Put the items in random order. */
void rng_shuffle(rng_t *rng, uint32_t *items, size_t n_items);

#endif
