/* SPDX-License-Identifier: Apache-2.0 */
/* idmap.h - from the number of a link to whatever belongs to it. Open addressing; the numbers are
 * random, so they are their own hash. The caller locks. */
#ifndef NET_IDMAP_H
#define NET_IDMAP_H

#include <kvstore/net.h>

typedef struct net_idmap {
    struct net_idmap_slot *slots;
    size_t n_slots; /* a power of two, or 0 */
    size_t n;
} net_idmap_t;

kvs_status_t net_idmap_put(net_idmap_t *map, uint64_t id, void *value); /* not NULL */
void *net_idmap_find(const net_idmap_t *map, uint64_t id);              /* NULL: not there */
void net_idmap_remove(net_idmap_t *map, uint64_t id);
void net_idmap_release(net_idmap_t *map);

#endif
