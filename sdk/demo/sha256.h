/* SPDX-License-Identifier: Apache-2.0 */
/* sha256.h - SHA-256 (FIPS 180-4), for the line by which two runs are compared. */
#ifndef DEMO_SHA256_H
#define DEMO_SHA256_H

#include <stddef.h>
#include <stdint.h>

#define SHA256_HEX_BYTES 65 /* with the final NUL */

typedef struct sha256 {
    uint32_t state[8];
    uint64_t n_bytes;  /* taken so far */
    uint8_t block[64]; /* its first n_bytes % 64 bytes wait for the rest */
} sha256_t;

void sha256_start(sha256_t *hash);
void sha256_add(sha256_t *hash, const void *bytes, size_t n_bytes);
/* Add the values as little-endian float32, whatever this machine's order is. */
void sha256_add_floats(sha256_t *hash, const float *values, size_t n_values);
/* The digest in lower-case hexadecimal. The hash is used up. */
void sha256_finish(sha256_t *hash, char ret_hex[SHA256_HEX_BYTES]);

#endif
