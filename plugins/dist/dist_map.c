/* SPDX-License-Identifier: Apache-2.0 */
#include "dist_map.h"

#include <stdlib.h>

static uint64_t mix(uint64_t x)
{
    x ^= x >> 32;
    x *= 0x9E3779B97F4A7C15u;
    x ^= x >> 29;
    x *= 0xBF58476D1CE4E5B9u;
    return x ^ (x >> 32);
}

/* The item of the number, or the free one where it belongs. The map is never full. */
static dist_map_item_t *item_of(const dist_map_t *map, uint64_t number)
{
    size_t i = mix(number) & (map->n_items - 1);

    while (map->items[i].number != 0 && map->items[i].number != number) {
        i = (i + 1) & (map->n_items - 1);
    }
    return &map->items[i];
}

void *dist_map_find(const dist_map_t *map, uint64_t number)
{
    return map->n_items == 0 || number == 0 ? NULL : item_of(map, number)->value;
}

/* Room for as many again as there are: what was removed leaves its place, and the map may even shrink. */
static size_t room_for(const dist_map_t *map)
{
    size_t n = 1, room = 64;

    for (size_t i = 0; i < map->n_items; i++) {
        n += map->items[i].value != NULL;
    }
    while (room < 4 * n) {
        room *= 2;
    }
    return room;
}

static kvs_status_t grow(dist_map_t *map)
{
    dist_map_t grown = {.n_items = room_for(map)};

    grown.items = calloc(grown.n_items, sizeof(*grown.items));
    if (grown.items == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for a table of %zu keys", grown.n_items);
    }
    for (size_t i = 0; i < map->n_items; i++) {
        if (map->items[i].value != NULL) { /* else it was removed */
            *item_of(&grown, map->items[i].number) = map->items[i];
            grown.n_used++;
        }
    }
    free(map->items);
    *map = grown;
    return KVS_OK;
}

kvs_status_t dist_map_set(dist_map_t *map, uint64_t number, void *value)
{
    dist_map_item_t *item;

    if (2 * (map->n_used + 1) > map->n_items) {
        kvs_status_t status = grow(map);

        if (status != KVS_OK) {
            return status;
        }
    }
    item = item_of(map, number);
    map->n_used += item->number == 0;
    *item = (dist_map_item_t){number, value};
    return KVS_OK;
}

/* Its place stays taken until the map grows, for those that were put behind it. */
void dist_map_remove(dist_map_t *map, uint64_t number)
{
    if (map->n_items > 0 && number != 0) {
        item_of(map, number)->value = NULL;
    }
}

void dist_map_release(dist_map_t *map)
{
    free(map->items);
    *map = (dist_map_t)DIST_MAP_INIT;
}
