/* SPDX-License-Identifier: Apache-2.0 */
/* ar_reduce.c - sums are the kit's. The rest goes through blocks that stay in the cache: half types as
 * float32, others as they are. */
#include "ar_reduce.h"

#include <stdbool.h>
#include <string.h>

#define BLOCK 1024 /* elements */

/* ---- One type at a time ------------------------------------------------------------------------ */

#define AVERAGE_REAL(name, type)                                                                   \
    static void divide_##name(type *x, int64_t n, size_t n_parts)                                  \
    {                                                                                              \
        for (int64_t i = 0; i < n; i++) {                                                          \
            x[i] /= (type)n_parts;                                                                 \
        }                                                                                          \
    }

/* Rounds down, also below zero. */
#define AVERAGE_INTEGER(name, type)                                                                \
    static void divide_##name(type *x, int64_t n, size_t n_parts)                                  \
    {                                                                                              \
        for (int64_t i = 0; i < n; i++) {                                                          \
            int64_t parts = (int64_t)n_parts, quotient = (int64_t)x[i] / parts;                    \
                                                                                                   \
            x[i] = (type)(quotient - ((int64_t)x[i] % parts < 0));                                 \
        }                                                                                          \
    }

#define LEAST_AND_MOST(name, type)                                                                 \
    static void least_##name(type *x, const type *y, int64_t n)                                    \
    {                                                                                              \
        for (int64_t i = 0; i < n; i++) {                                                          \
            x[i] = x[i] < y[i] || x[i] != x[i] ? x[i] : y[i];                                      \
        }                                                                                          \
    }                                                                                              \
    static void most_##name(type *x, const type *y, int64_t n)                                     \
    {                                                                                              \
        for (int64_t i = 0; i < n; i++) {                                                          \
            x[i] = x[i] > y[i] || x[i] != x[i] ? x[i] : y[i];                                      \
        }                                                                                          \
    }

/* X(name, C type, kind of average) for the dtypes that have a C type. */
#define TYPES(X)                                                                                   \
    X(float32, float, REAL)                                                                        \
    X(float64, double, REAL)                                                                       \
    X(int8, int8_t, INTEGER)                                                                       \
    X(uint8, uint8_t, INTEGER)                                                                     \
    X(int32, int32_t, INTEGER)                                                                     \
    X(int64, int64_t, INTEGER)

#define DEFINE(name, type, kind) AVERAGE_##kind(name, type) LEAST_AND_MOST(name, type)
TYPES(DEFINE)

static void divide(int dtype, void *x, int64_t n, size_t n_parts)
{
    switch (dtype) {
#define CASE(name, type, kind)                                                                     \
    case KVS_DTYPE_##name:                                                                         \
        divide_##name(x, n, n_parts);                                                              \
        return;
        TYPES(CASE)
#undef CASE
    default:
        return;
    }
}

/* x becomes the lesser or greater of x and y. */
static void choose(int reduce, int dtype, void *x, const void *y, int64_t n)
{
    switch (dtype) {
#define CASE(name, type, kind)                                                                     \
    case KVS_DTYPE_##name:                                                                         \
        if (reduce == KVS_REDUCE_MIN) {                                                            \
            least_##name(x, y, n);                                                                 \
        } else {                                                                                   \
            most_##name(x, y, n);                                                                  \
        }                                                                                          \
        return;
        TYPES(CASE)
#undef CASE
    default:
        return;
    }
}

/* ---- Blocks ------------------------------------------------------------------------------------ */

/* A block of half types: exact in float32 for min and max, and rounded once for averages. */
static void reduce_halves(int reduce, int dtype, int64_t at, int64_t n, const void *const *src,
                          size_t n_src, void *dst)
{
    float total[BLOCK], next[BLOCK];

    kvs_cast(n, dtype, (const char *)src[0] + at * 2, KVS_DTYPE_float32, total);
    for (size_t s = 1; s < n_src; s++) {
        kvs_cast(n, dtype, (const char *)src[s] + at * 2, KVS_DTYPE_float32, next);
        if (reduce == KVS_REDUCE_AVERAGE) {
            const void *both[2] = {total, next};
            void *to = total;

            kvs_sum(KVS_DTYPE_float32, n, both, 2, &to, 1, 0);
        } else {
            choose(reduce, KVS_DTYPE_float32, total, next, n);
        }
    }
    if (reduce == KVS_REDUCE_AVERAGE) {
        divide(KVS_DTYPE_float32, total, n, n_src);
    }
    kvs_cast(n, KVS_DTYPE_float32, total, dtype, (char *)dst + at * 2);
}

/* A block of the others. `dst` may be any source, so the result is made beside it. */
static void reduce_block(int reduce, int dtype, int64_t at, int64_t n, const void *const *src,
                         size_t n_src, void *dst)
{
    double block[BLOCK];
    size_t size = kvs_dtype_bytes(dtype), offset = (size_t)at * size;

    memcpy(block, (const char *)src[0] + offset, (size_t)n * size);
    for (size_t s = 1; s < n_src; s++) {
        choose(reduce, dtype, block, (const char *)src[s] + offset, n);
    }
    memcpy((char *)dst + offset, block, (size_t)n * size);
}

void ar_reduce(int reduce, int dtype, int64_t n, const void *const *src, size_t n_src, void *dst)
{
    bool halves = dtype == KVS_DTYPE_float16 || dtype == KVS_DTYPE_bfloat16;

    if (reduce == KVS_REDUCE_SUM || (reduce == KVS_REDUCE_AVERAGE && !halves)) {
        kvs_sum(dtype, n, src, n_src, &dst, 1, 0);
        if (reduce == KVS_REDUCE_AVERAGE) {
            divide(dtype, dst, n, n_src);
        }
        return;
    }
    for (int64_t at = 0; at < n; at += BLOCK) {
        int64_t length = n - at < BLOCK ? n - at : BLOCK;

        if (halves) {
            reduce_halves(reduce, dtype, at, length, src, n_src, dst);
        } else {
            reduce_block(reduce, dtype, at, length, src, n_src, dst);
        }
    }
}

/* Half types a block at a time. */
static void divide_halves(int dtype, int64_t n, size_t n_parts, uint16_t *sums)
{
    float block[BLOCK];

    for (int64_t at = 0; at < n; at += BLOCK) {
        int64_t length = n - at < BLOCK ? n - at : BLOCK;

        kvs_cast(length, dtype, sums + at, KVS_DTYPE_float32, block);
        divide(KVS_DTYPE_float32, block, length, n_parts);
        kvs_cast(length, KVS_DTYPE_float32, block, dtype, sums + at);
    }
}

void ar_divide(int dtype, int64_t n, size_t n_parts, void *sums)
{
    if (dtype == KVS_DTYPE_float16 || dtype == KVS_DTYPE_bfloat16) {
        divide_halves(dtype, n, n_parts, sums);
    } else {
        divide(dtype, sums, n, n_parts);
    }
}
