/* SPDX-License-Identifier: Apache-2.0 */
/* idmap.c - removal leaves a tombstone, which growing sweeps away. */
#include "idmap.h"

#include <stdbool.h>
#include <stdlib.h>

typedef struct net_idmap_slot {
    uint64_t id;
    void *value; /* NULL: free, or a tombstone */
    bool used;   /* since the last growing */
} slot_t;

static slot_t *slot_of(const net_idmap_t *map, uint64_t id)
{
    for (size_t at = id & (map->n_slots - 1);; at = (at + 1) & (map->n_slots - 1)) {
        slot_t *slot = &map->slots[at];

        if (!slot->used || slot->id == id) {
            return slot;
        }
    }
}

static void put(net_idmap_t *map, uint64_t id, void *value)
{
    slot_t *slot = slot_of(map, id);

    map->n += slot->used ? 0 : 1;
    *slot = (slot_t){.id = id, .value = value, .used = true};
}

static bool grow(net_idmap_t *map)
{
    net_idmap_t bigger = {.n_slots = map->n_slots == 0 ? 64 : 2 * map->n_slots};

    bigger.slots = calloc(bigger.n_slots, sizeof(*bigger.slots));
    if (bigger.slots == NULL) {
        return false;
    }
    for (size_t i = 0; i < map->n_slots; i++) {
        if (map->slots[i].value != NULL) {
            put(&bigger, map->slots[i].id, map->slots[i].value);
        }
    }
    free(map->slots);
    *map = bigger;
    return true;
}

kvs_status_t net_idmap_put(net_idmap_t *map, uint64_t id, void *value)
{
    if (2 * map->n >= map->n_slots && !grow(map)) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for %zu connections", map->n + 1);
    }
    put(map, id, value);
    return KVS_OK;
}

void *net_idmap_find(const net_idmap_t *map, uint64_t id)
{
    return map->n_slots == 0 ? NULL : slot_of(map, id)->value;
}

void net_idmap_remove(net_idmap_t *map, uint64_t id)
{
    if (map->n_slots != 0) {
        slot_of(map, id)->value = NULL; /* a free slot keeps its NULL */
    }
}

void net_idmap_release(net_idmap_t *map)
{
    free(map->slots);
    *map = (net_idmap_t){0};
}
