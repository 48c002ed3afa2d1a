/* SPDX-License-Identifier: Apache-2.0 */
/* rowunion.h - parts of a union's rows, for those who cut them further than kit.h's calls do. */
#ifndef KVS_KIT_ROWUNION_H
#define KVS_KIT_ROWUNION_H

#include "rowsparse.h"

/* The sums of rows [begin, end), one after the other, on this thread. */
void kvs_row_union_sum_range(const kvs_row_union_t *rows, int64_t begin, int64_t end, void *sums);

/* Where the first id that is not below `id` stands; n_rows if there is none. */
int64_t kvs_row_union_find(const kvs_row_union_t *rows, int64_t id);

/* Bytes of all sources, and of the sums `n_times`. */
uint64_t kvs_row_union_n_bytes(const kvs_row_union_t *rows, uint64_t n_times);

/* Bytes of one row. */
static inline size_t kvs_row_union_row_bytes(const kvs_row_union_t *rows)
{
    return (size_t)rows->row_elems * kvs_dtype_bytes(rows->dtype);
}

#endif
