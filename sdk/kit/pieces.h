/* SPDX-License-Identifier: Apache-2.0 */
/* pieces.h - cutting work over the host's pool, by the bytes the work touches. */
#ifndef KVS_KIT_PIECES_H
#define KVS_KIT_PIECES_H

#include <stdint.h>

/* Pieces begin at multiples of this many elements, which divides KVS_OPTIMIZER_SUM_BLOCK. */
#define KVS_PIECE_ELEMS 2048

/* Call fn(arg, begin, end) for pieces that cover [0, n), n >= 1, on this thread and others of the pool,
 * and return when all have returned. `n_bytes` is what the whole work reads and writes; little is
 * done here, because waking a thread takes as long as a core needs for about 1 MiB in its cache. */
void kvs_for_units(int64_t n_units, uint64_t n_bytes,
                   void (*fn)(void *arg, int64_t begin, int64_t end), void *arg);

/* The same for elements. */
void kvs_for_pieces(int64_t n, uint64_t n_bytes, void (*fn)(void *arg, int64_t begin, int64_t end),
                    void *arg);

#endif
