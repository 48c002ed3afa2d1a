/* SPDX-License-Identifier: Apache-2.0 */
/* arena.h - memory of things that live and die together, such as the texts of a plugin list.
 *
 * Running out of memory is remembered, so that code which builds many small things checks once, at
 * its end, by kvsi_arena_check. Not thread-safe: whoever owns an arena locks it. */
#ifndef KVSI_ARENA_H
#define KVSI_ARENA_H

#include <kvstore/kvstore.h>

typedef struct kvsi_arena {
    struct kvsi_arena_block *blocks;
    int failed; /* an allocation failed */
} kvsi_arena_t;

#define KVSI_ARENA_INIT                                                                            \
    {                                                                                              \
        0                                                                                          \
    }

/* Zeroed, aligned for any type; NULL when out of memory. */
void *kvsi_arena_array(kvsi_arena_t *arena, size_t n_items, size_t item_bytes);
/* Copies of text; "" when out of memory, never NULL. */
const char *kvsi_arena_copy(kvsi_arena_t *arena, const char *text, size_t n_bytes);
const char *kvsi_arena_text(kvsi_arena_t *arena, const char *format, ...) KVS_PRINTF(2, 3);
/* KVS_ERR_NO_MEMORY if anything failed so far. */
kvs_status_t kvsi_arena_check(const kvsi_arena_t *arena);
void kvsi_arena_release(kvsi_arena_t *arena); /* empties it; usable again */

#endif
