/* SPDX-License-Identifier: Apache-2.0 */
/* storebook.h - the scheduler's book of a group's stores: where workers meet to open, to pass a barrier
 * and to close. Each meeting ends once, for all who came and for those who come later: everyone was
 * there, or its first deadline passed, or somebody is gone or differs. One thread; answers go out
 * through `say`. */
#ifndef NET_STOREBOOK_H
#define NET_STOREBOOK_H

#include "membership.h"

typedef struct net_storebook {
    net_group_t *group; /* settled */
    struct net_stored *stores;
    struct net_meeting *meetings;
    /* Send to a member; `arg` as below. Never fails: a member that can't be reached dies. */
    void (*say)(void *arg, net_member_t *to, const net_wire_t *wire, const net_wire_lists_t *lists);
    void *arg;
} net_storebook_t;

/* A frame of a worker or server about stores: STORE_OPEN, STORE_READY, BARRIER, STORE_CLOSE.
 * ERR_FORMAT: it makes no sense, such as a store that was never opened. */
kvs_status_t net_storebook_take(net_storebook_t *book, net_member_t *from, const net_wire_t *wire);
/* A member has left or died. */
void net_storebook_gone(net_storebook_t *book, const net_member_t *member);
/* End what is overdue; when to call again, NET_NEVER if nothing waits. */
int64_t net_storebook_tick(net_storebook_t *book);
void net_storebook_release(net_storebook_t *book);

#endif
