/* SPDX-License-Identifier: Apache-2.0 */
/* ar_group.h - processes of one host that reduce and broadcast arrays through a shared segment.
 *
 * An array goes through in blocks that stay in the caches. Of each block every member owns a slice: all
 * lay their values down, each sums its slice of all in order of the members, and all take the sums. Four
 * blocks are under way, so that nobody waits for the last. Members must carry out the same exchanges in
 * the same order; whoever has no part in one skips it. One thread of a process at a time. */
#ifndef AR_GROUP_H
#define AR_GROUP_H

#include "ar_data.h"

#include <kvstore/net.h>

typedef struct ar_group ar_group_t;

/* Members are the workers of this node's host. The lowest of them creates the segment `name`, with
 * `n_extra` bytes, all zero, for the caller's own use; the others map it. */
kvs_status_t ar_group_open(kvs_net_node_t *node, const char *name, size_t n_extra,
                           int64_t timeout_ms, ar_group_t **ret_group);
void ar_group_close(ar_group_t *group); /* NULL does nothing */

int ar_group_count(const ar_group_t *group);
int ar_group_index(const ar_group_t *group);              /* of this process */
int ar_group_index_of(const ar_group_t *group, int rank); /* -1: of another host */
const kvs_net_peer_t *ar_group_peer(const ar_group_t *group, int index);
void *ar_group_extra(const ar_group_t *group);

/* Who takes part, and where the exchange stands in the order of all: `number` is the same for all, and
 * at least the last one's `number` plus its ar_group_steps. */
typedef struct ar_party {
    uint32_t number;
    int n_members;
    const int *members; /* indices, ascending; one is this process */
    int64_t timeout_ms; /* without progress; 0: for ever */
} ar_party_t;

/* How many numbers an exchange of so many bytes takes, or a few more. */
uint32_t ar_group_steps(uint64_t n_bytes);

/* Every member's outs get the reduction of all members' values: KVS_REDUCE_…. Values are read before
 * outs that are the same arrays are written. ERR_PEER, ERR_TIMEOUT: name who is missing; the group is of
 * no use any more. */
kvs_status_t ar_group_reduce(ar_group_t *group, const ar_party_t *party, int reduce,
                             const ar_data_t *data);
/* Every member's outs get the values of member `root`. */
kvs_status_t ar_group_broadcast(ar_group_t *group, const ar_party_t *party, int root,
                                const ar_data_t *data);

#endif
