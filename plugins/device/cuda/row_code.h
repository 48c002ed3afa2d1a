/* SPDX-License-Identifier: Apache-2.0 */
/* row_code.h - which elements of which row a thread has: a few threads share a short row, a long one is cut
 * into chunks with a block each, so that no element costs a division. */
#ifndef CUDA_ROW_CODE_H
#define CUDA_ROW_CODE_H

#include "device_code.h"

typedef struct row_span {
    int64_t row; /* its place in the list */
    int64_t at;  /* where it begins in the range; may lie before it */
    int64_t from,
        to; /* its elements that the block has, of which the thread's lane has its share */
    uint32_t lane;
} row_span_t;

/* `array` + `n` elements, also where that is no part of the array. */
DEVICE void *shifted(const void *array, int64_t n, uint32_t elem_bytes)
{
    return (void *)((uintptr_t)array + (uintptr_t)n * elem_bytes);
}

/* Of whole rows, or of what of them lies in the range. 0: the thread has none. */
DEVICE int span_of_thread(const cuda_rows_map_t *map, int in_range, row_span_t *ret_span)
{
    int64_t block = block_index(), piece = 0;
    row_span_t span;

    if (map->pieces > 1) {
        piece = block % map->pieces;
        block /= map->pieces;
    }
    span.row = block * (CUDA_BLOCK >> map->lane_bits) + (thread_index() >> map->lane_bits);
    span.lane = thread_index() & (map->lanes - 1);
    if (span.row >= map->n_rows) {
        return 0;
    }
    span.at = map->ids[span.row] * map->row_elems - map->begin;
    span.from = piece * CUDA_CHUNK;
    span.to = chunk_end(span.from, CUDA_CHUNK, map->row_elems);
    if (in_range) {
        span.from = span.from < -span.at ? -span.at : span.from;
        span.to = span.to > map->n - span.at ? map->n - span.at : span.to;
    }
    *ret_span = span;
    return 1;
}

#endif
