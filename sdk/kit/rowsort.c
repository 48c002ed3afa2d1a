/* SPDX-License-Identifier: Apache-2.0 */
/* rowsort.c - digit by digit, the lowest first; only the digits that an id of the shape can have. */
#include "rowsort.h"

#include <string.h>

/* Few ids: counting a big digit's values would cost more than another pass. */
#define FEW        4096
#define BITS_FEW   8
#define BITS_MANY  11
#define MAX_VALUES (1 << BITS_MANY)

static int64_t id_of_id(const int64_t *id)
{
    return *id;
}

static int64_t id_of_source(const kvs_row_source_t *source)
{
    return source->id;
}

#define DEFINE_SORT(name, record, id_of)                                                           \
    /* Move the records from `from` to `to` by the digit at `shift`. */                            \
    static void name##_pass(int64_t n, int shift, int bits, const record *from, record *to)        \
    {                                                                                              \
        int64_t places[MAX_VALUES];                                                                \
        const int64_t mask = (1 << bits) - 1;                                                      \
        int64_t before = 0;                                                                        \
                                                                                                   \
        memset(places, 0, sizeof(*places) << bits);                                                \
        for (int64_t i = 0; i < n; i++) {                                                          \
            places[id_of(&from[i]) >> shift & mask]++;                                             \
        }                                                                                          \
        for (int64_t value = 0; value <= mask; value++) {                                          \
            int64_t count = places[value];                                                         \
                                                                                                   \
            places[value] = before;                                                                \
            before += count;                                                                       \
        }                                                                                          \
        for (int64_t i = 0; i < n; i++) {                                                          \
            to[places[id_of(&from[i]) >> shift & mask]++] = from[i];                               \
        }                                                                                          \
    }                                                                                              \
    void kvs_rowsort_##name(int64_t n, int64_t n_rows, record *records, record *scratch)           \
    {                                                                                              \
        const int bits = n < FEW ? BITS_FEW : BITS_MANY;                                           \
        record *from = records, *to = scratch;                                                     \
                                                                                                   \
        for (int shift = 0; shift < 63 && (n_rows - 1) >> shift > 0; shift += bits) {              \
            record *other = from;                                                                  \
                                                                                                   \
            name##_pass(n, shift, bits, from, to);                                                 \
            from = to;                                                                             \
            to = other;                                                                            \
        }                                                                                          \
        if (from != records) {                                                                     \
            memcpy(records, from, (size_t)n * sizeof(*records));                                   \
        }                                                                                          \
    }

DEFINE_SORT(ids, int64_t, id_of_id)
DEFINE_SORT(sources, kvs_row_source_t, id_of_source)
