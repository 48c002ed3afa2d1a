/* SPDX-License-Identifier: Apache-2.0 */
/* sha256.c - straight from FIPS 180-4; names of variables follow its section 6.2. */
#include "sha256.h"

#include <stdio.h>
#include <string.h>

static const uint32_t round_constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t rotate(uint32_t x, int n)
{
    return (x >> n) | (x << (32 - n));
}

static void extend_schedule(const uint8_t block[64], uint32_t w[64])
{
    for (int t = 0; t < 16; t++) {
        w[t] = (uint32_t)block[4 * t] << 24 | (uint32_t)block[4 * t + 1] << 16 |
               (uint32_t)block[4 * t + 2] << 8 | block[4 * t + 3];
    }
    for (int t = 16; t < 64; t++) {
        uint32_t s0 = rotate(w[t - 15], 7) ^ rotate(w[t - 15], 18) ^ (w[t - 15] >> 3);
        uint32_t s1 = rotate(w[t - 2], 17) ^ rotate(w[t - 2], 19) ^ (w[t - 2] >> 10);

        w[t] = w[t - 16] + s0 + w[t - 7] + s1;
    }
}

static void take_block(uint32_t state[8], const uint8_t block[64])
{
    uint32_t w[64];
    uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
    uint32_t e = state[4], f = state[5], g = state[6], h = state[7];

    extend_schedule(block, w);
    for (int t = 0; t < 64; t++) {
        uint32_t s1 = rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25);
        uint32_t t1 = h + s1 + ((e & f) ^ (~e & g)) + round_constants[t] + w[t];
        uint32_t s0 = rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22);
        uint32_t t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));

        h = g;
        g = f;
        f = e;
        e = d + t1;
        d = c;
        c = b;
        b = a;
        a = t1 + t2;
    }
    state[0] += a;
    state[1] += b;
    state[2] += c;
    state[3] += d;
    state[4] += e;
    state[5] += f;
    state[6] += g;
    state[7] += h;
}

void sha256_start(sha256_t *hash)
{
    *hash = (sha256_t){.state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f,
                                 0x9b05688c, 0x1f83d9ab, 0x5be0cd19}};
}

void sha256_add(sha256_t *hash, const void *bytes, size_t n_bytes)
{
    const uint8_t *next = bytes;

    while (n_bytes > 0) {
        size_t filled = (size_t)(hash->n_bytes % 64);
        size_t n = n_bytes < 64 - filled ? n_bytes : 64 - filled;

        memcpy(hash->block + filled, next, n);
        hash->n_bytes += n;
        next += n;
        n_bytes -= n;
        if (filled + n == 64) {
            take_block(hash->state, hash->block);
        }
    }
}

void sha256_add_floats(sha256_t *hash, const float *values, size_t n_values)
{
    for (size_t i = 0; i < n_values; i++) {
        uint32_t bits;

        memcpy(&bits, &values[i], sizeof(bits));
        const uint8_t little_endian[4] = {(uint8_t)bits, (uint8_t)(bits >> 8),
                                          (uint8_t)(bits >> 16), (uint8_t)(bits >> 24)};
        sha256_add(hash, little_endian, sizeof(little_endian));
    }
}

void sha256_finish(sha256_t *hash, char ret_hex[SHA256_HEX_BYTES])
{
    static const uint8_t padding[64] = {0x80};
    uint64_t n_bits = hash->n_bytes * 8;
    uint8_t length[8];

    sha256_add(hash, padding, 1 + (119 - (size_t)(hash->n_bytes % 64)) % 64);
    for (int i = 0; i < 8; i++) {
        length[i] = (uint8_t)(n_bits >> (56 - 8 * i));
    }
    sha256_add(hash, length, sizeof(length));
    for (int i = 0; i < 8; i++) {
        snprintf(ret_hex + 8 * i, 9, "%08x", (unsigned)hash->state[i]);
    }
}
