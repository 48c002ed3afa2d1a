/* SPDX-License-Identifier: Apache-2.0 */
/* segment.h - memory of a memfd, sealed so that nobody can shrink it under another, and the part of a
 * node that hands segments over. */
#ifndef NET_SEGMENT_H
#define NET_SEGMENT_H

#include "door.h"

typedef struct net_memory {
    void *data;     /* NULL: none */
    size_t n_bytes; /* as asked for; mapped is a multiple of the page */
} net_memory_t;

/* New memory, all of it there, and its descriptor. ERR_NO_MEMORY, ERR_IO. */
kvs_status_t net_memory_new(size_t n_bytes, net_memory_t *ret_memory, int *ret_fd);
/* Map what a descriptor stands for. ERR_PEER: it is not sealed, or smaller than `n_bytes`. */
kvs_status_t net_memory_map(int fd, size_t n_bytes, net_memory_t *ret_memory);
void net_memory_unmap(net_memory_t *memory);

/* On the I/O thread: somebody asks for a segment. */
void net_segment_answer(kvs_net_node_t *node, const net_note_t *note,
                        const net_door_address_t *from);
/* The node is closed: what it still serves is nobody's. */
void net_segment_forget_all(kvs_net_node_t *node);

#endif
