/* SPDX-License-Identifier: Apache-2.0 */
/* dist_place.h - which server holds what. Rank 0 decides it, once for each key, when it is
 * initialised; the others are told. Big arrays are cut over all servers, the rest goes, largest first,
 * to the server with the fewest bytes. */
#ifndef DIST_PLACE_H
#define DIST_PLACE_H

#include "dist_message.h"

typedef struct dist_placing {
    uint32_t n_servers;
    uint64_t *loads;   /* bytes placed on each server so far */
    int64_t cut_elems; /* arrays of at least so many elements are cut */
    /* What can't be cut at rows stays whole: the optimizer keeps numbers for rows; what can't be cut at
     * blocks too: it looks at norms. Row-sparse arrays are cut at rows in any case. */
    int whole_rows, whole_blocks;
} dist_placing_t;

/* Give each of the `n` records its shards. Cuts lie at multiples of KVS_OPTIMIZER_SUM_BLOCK elements,
 * and at rows where the array is large enough for both; those of row-sparse arrays at rows. */
kvs_status_t dist_place(dist_placing_t *placing, dist_record_t *const *records, size_t n);
#endif
