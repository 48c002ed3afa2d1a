/* SPDX-License-Identifier: Apache-2.0 */
/* dist_map.h - from a number that is not 0 to a pointer, by open addressing. Nothing is ever taken out.
 * The caller locks. */
#ifndef DIST_MAP_H
#define DIST_MAP_H

#include <kvstore/plugin.h>

typedef struct dist_map_item {
    uint64_t number; /* 0: free */
    void *value;
} dist_map_item_t;

typedef struct dist_map {
    dist_map_item_t *items;
    size_t n_items, n_used; /* n_items is a power of two, or 0 */
} dist_map_t;

#define DIST_MAP_INIT                                                                              \
    {                                                                                              \
        NULL, 0, 0                                                                                 \
    }

void *dist_map_find(const dist_map_t *map, uint64_t number); /* NULL: not there */
/* Puts `value` in place of what was there. ERR_NO_MEMORY: nothing has changed. */
kvs_status_t dist_map_set(dist_map_t *map, uint64_t number, void *value);
void dist_map_remove(dist_map_t *map, uint64_t number); /* not there: nothing */
/* Frees the map, not the values: walk `items` first. */
void dist_map_release(dist_map_t *map);

#endif
