/* SPDX-License-Identifier: Apache-2.0 */
/* rowsparse.h - parts of a union's rows, for those who cut them further than kit.h's calls do. */
#ifndef KVS_KIT_ROWSPARSE_H
#define KVS_KIT_ROWSPARSE_H

#include <kvstore/kit.h>

/* Elements [begin, end) of row `index`, to the beginning of `block`. */
void kvs_row_union_part(const kvs_row_union_t *rows, int64_t index, int64_t begin, int64_t end,
                        void *block);

/* Where the first id that is not below `id` stands; n_rows if there is none. */
int64_t kvs_row_union_find(const kvs_row_union_t *rows, int64_t id);

/* Bytes of all sources, and of the sums `n_times`. */
uint64_t kvs_row_union_n_bytes(const kvs_row_union_t *rows, uint64_t n_times);

/* Bytes of one row. */
static inline size_t kvs_row_union_row_bytes(const kvs_row_union_t *rows)
{
    return (size_t)rows->row_elems * kvs_dtype_bytes(rows->dtype);
}

/* Have a row that is written or read soon on its way to the caches. */
static inline void kvs_row_prefetch(const void *row, size_t n_bytes)
{
    for (size_t at = 0; at < n_bytes && at < 512; at += 64) {
        __builtin_prefetch((const char *)row + at);
    }
}

/* How many rows ahead that is. */
#define KVS_ROWS_AHEAD 8

#endif
