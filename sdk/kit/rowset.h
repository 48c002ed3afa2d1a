/* SPDX-License-Identifier: Apache-2.0 */
/* rowset.h - a set of rows: one bit for each, in words of 64. Bits past the last row are 0. */
#ifndef KVS_KIT_ROWSET_H
#define KVS_KIT_ROWSET_H

#include <stdint.h>

#define KVS_ROWSET_BITS 64

static inline int64_t kvs_rowset_n_words(int64_t n_rows)
{
    return n_rows / KVS_ROWSET_BITS + (n_rows % KVS_ROWSET_BITS != 0);
}

static inline void kvs_rowset_add(uint64_t *words, int64_t n, const int64_t *ids)
{
    for (int64_t i = 0; i < n; i++) {
        words[ids[i] / KVS_ROWSET_BITS] |= (uint64_t)1 << ids[i] % KVS_ROWSET_BITS;
    }
}

static inline int64_t kvs_rowset_count(const uint64_t *words, int64_t n_words)
{
    int64_t n = 0;

    for (int64_t i = 0; i < n_words; i++) {
        n += __builtin_popcountll(words[i]);
    }
    return n;
}

/* Take the lowest row, of `word`'s 64, out of the word, which is not 0. */
static inline int64_t kvs_rowset_take(uint64_t *word)
{
    int64_t row = __builtin_ctzll(*word);

    *word &= *word - 1;
    return row;
}

/* Write the rows, ascending; there is room for all. */
static inline void kvs_rowset_list(const uint64_t *words, int64_t n_words, int64_t *ids)
{
    for (int64_t i = 0; i < n_words; i++) {
        for (uint64_t word = words[i]; word != 0;) {
            *ids++ = i * KVS_ROWSET_BITS + kvs_rowset_take(&word);
        }
    }
}

#endif
