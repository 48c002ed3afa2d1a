/* SPDX-License-Identifier: Apache-2.0 */
/* idmap.h - from a connection's id to whatever belongs to it. Open addressing; ids are random, so
 * their first bytes are the hash. The caller locks. */
#ifndef NET_IDMAP_H
#define NET_IDMAP_H

#include "socket.h"

typedef struct net_idmap {
    struct net_idmap_slot *slots;
    size_t n_slots; /* a power of two, or 0 */
    size_t n;
} net_idmap_t;

kvs_status_t net_idmap_put(net_idmap_t *map, const net_id_t *id, void *value); /* not NULL */
void *net_idmap_find(const net_idmap_t *map, const net_id_t *id);              /* NULL: not there */
void net_idmap_remove(net_idmap_t *map, const net_id_t *id);
void net_idmap_release(net_idmap_t *map);

#endif
