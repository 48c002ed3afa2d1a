/* SPDX-License-Identifier: Apache-2.0 */
/* dist_bytes.h - numbers and texts as little-endian bytes, and back. Both ends remember their first
 * failure, so that a whole structure is written or read before anybody asks. */
#ifndef DIST_BYTES_H
#define DIST_BYTES_H

#include <stddef.h>
#include <stdint.h>

/* Grows as it is written. */
typedef struct dist_bytes {
    uint8_t *data; /* freed by dist_bytes_release */
    size_t n, capacity;
    int failed; /* no memory: what is there is incomplete */
} dist_bytes_t;

#define DIST_BYTES_INIT                                                                            \
    {                                                                                              \
        NULL, 0, 0, 0                                                                              \
    }

void dist_put_u8(dist_bytes_t *bytes, uint8_t value);
void dist_put_u32(dist_bytes_t *bytes, uint32_t value);
void dist_put_u64(dist_bytes_t *bytes, uint64_t value);
void dist_put_i64(dist_bytes_t *bytes, int64_t value);
void dist_put_real(dist_bytes_t *bytes, double value);
/* Room for `n` more bytes at data + n, which the caller then counts: 0 if there is no memory. */
int dist_bytes_reserve(dist_bytes_t *bytes, size_t n);
void dist_put_bytes(dist_bytes_t *bytes, const void *data, size_t n);
void dist_put_text(dist_bytes_t *bytes, const char *text); /* NULL stays NULL */
void dist_bytes_release(dist_bytes_t *bytes);

/* Reads from memory that it does not own; past the end everything is 0. */
typedef struct dist_view {
    const uint8_t *at;
    size_t n_left;
    int failed; /* too short, or malformed */
} dist_view_t;

static inline dist_view_t dist_view(const void *data, size_t n)
{
    return (dist_view_t){data, n, 0};
}

uint8_t dist_get_u8(dist_view_t *view);
uint32_t dist_get_u32(dist_view_t *view);
uint64_t dist_get_u64(dist_view_t *view);
int64_t dist_get_i64(dist_view_t *view);
double dist_get_real(dist_view_t *view);
/* Points into the bytes, where a 0 ends it; holds no other 0. */
const char *dist_get_text(dist_view_t *view);
/* The next `n` bytes, where they are; NULL: there are fewer. */
const void *dist_get_bytes(dist_view_t *view, size_t n);
/* A number of items that take at least `item_bytes` each: never more than there can be. */
uint32_t dist_get_count(dist_view_t *view, size_t item_bytes);

#endif
