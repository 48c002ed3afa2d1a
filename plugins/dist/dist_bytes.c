/* SPDX-License-Identifier: Apache-2.0 */
#include "dist_bytes.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

/* ---- Writing ----------------------------------------------------------------------------------- */

int dist_bytes_reserve(dist_bytes_t *bytes, size_t n)
{
    if (!bytes->failed && bytes->capacity - bytes->n < n) {
        size_t capacity = 2 * bytes->capacity + n + 64;
        uint8_t *grown = realloc(bytes->data, capacity);

        bytes->failed = grown == NULL;
        if (grown != NULL) {
            bytes->data = grown;
            bytes->capacity = capacity;
        }
    }
    return !bytes->failed;
}

static void put(dist_bytes_t *bytes, const void *data, size_t n)
{
    if (dist_bytes_reserve(bytes, n) && n > 0) {
        memcpy(bytes->data + bytes->n, data, n);
        bytes->n += n;
    }
}

void dist_put_u8(dist_bytes_t *bytes, uint8_t value)
{
    put(bytes, &value, 1);
}

void dist_put_u32(dist_bytes_t *bytes, uint32_t value)
{
    uint32_t little = htole32(value);

    put(bytes, &little, sizeof(little));
}

void dist_put_u64(dist_bytes_t *bytes, uint64_t value)
{
    uint64_t little = htole64(value);

    put(bytes, &little, sizeof(little));
}

void dist_put_i64(dist_bytes_t *bytes, int64_t value)
{
    dist_put_u64(bytes, (uint64_t)value);
}

void dist_put_real(dist_bytes_t *bytes, double value)
{
    uint64_t bits;

    memcpy(&bits, &value, sizeof(bits));
    dist_put_u64(bytes, bits);
}

void dist_put_bytes(dist_bytes_t *bytes, const void *data, size_t n)
{
    put(bytes, data, n);
}

/* Its length with the ending 0, then both; the length 0 is NULL. */
void dist_put_text(dist_bytes_t *bytes, const char *text)
{
    size_t n = text == NULL ? 0 : strlen(text) + 1;

    dist_put_u32(bytes, (uint32_t)n);
    put(bytes, text, n);
}

void dist_bytes_release(dist_bytes_t *bytes)
{
    free(bytes->data);
    *bytes = (dist_bytes_t)DIST_BYTES_INIT;
}

/* ---- Reading ----------------------------------------------------------------------------------- */

static const uint8_t *get(dist_view_t *view, size_t n)
{
    const uint8_t *at = view->at;

    if (view->failed || view->n_left < n) {
        view->failed = 1;
        return NULL;
    }
    view->at += n;
    view->n_left -= n;
    return at;
}

uint8_t dist_get_u8(dist_view_t *view)
{
    const uint8_t *at = get(view, 1);

    return at == NULL ? 0 : *at;
}

uint32_t dist_get_u32(dist_view_t *view)
{
    uint32_t little = 0;
    const uint8_t *at = get(view, sizeof(little));

    if (at != NULL) {
        memcpy(&little, at, sizeof(little));
    }
    return le32toh(little);
}

uint64_t dist_get_u64(dist_view_t *view)
{
    uint64_t little = 0;
    const uint8_t *at = get(view, sizeof(little));

    if (at != NULL) {
        memcpy(&little, at, sizeof(little));
    }
    return le64toh(little);
}

int64_t dist_get_i64(dist_view_t *view)
{
    return (int64_t)dist_get_u64(view);
}

double dist_get_real(dist_view_t *view)
{
    uint64_t bits = dist_get_u64(view);
    double value;

    memcpy(&value, &bits, sizeof(value));
    return value;
}

const void *dist_get_bytes(dist_view_t *view, size_t n)
{
    return get(view, n);
}

const char *dist_get_text(dist_view_t *view)
{
    uint32_t n = dist_get_u32(view);
    const uint8_t *at = n == 0 ? NULL : get(view, n);

    if (at != NULL && memchr(at, 0, n) != at + n - 1) {
        view->failed = 1;
        return NULL;
    }
    return (const char *)at;
}

uint32_t dist_get_count(dist_view_t *view, size_t item_bytes)
{
    uint32_t n = dist_get_u32(view);

    if (n > view->n_left / item_bytes) {
        view->failed = 1;
        return 0;
    }
    return n;
}
