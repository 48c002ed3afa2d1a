/* SPDX-License-Identifier: Apache-2.0 */
/* membership.h - who is in a group: the scheduler's list, from the first hello to the last goodbye.
 *
 * Members gather until W workers and S servers are there; then the group is settled: ranks are given,
 * and the list is workers by rank, then servers by rank. What differs between two of them fails the
 * whole group; a number that is taken, or a member too many, only the newcomer. No sockets and no
 * clock of its own; one thread. */
#ifndef NET_MEMBERSHIP_H
#define NET_MEMBERSHIP_H

#include "channel.h"
#include "socket.h"
#include "text.h"

typedef enum net_state { NET_PRESENT, NET_GONE_LEFT, NET_GONE_DEAD } net_state_t;

typedef struct net_member {
    struct net_group *group;
    int role, rank; /* -1 until settled, unless given */
    int local_rank;
    uint32_t place; /* in the list, once settled */
    bool hosts_server;
    int64_t pid;
    uint64_t incarnation, host_id, process_id;
    char *host, *address;
    char label[NET_LABEL_MAX];
    net_state_t state;
    uint64_t link;     /* what it calls its connection */
    net_route_t route; /* by which its last frame came */
    net_channel_t channel;
} net_member_t;

typedef struct net_group {
    struct net_group *next;
    char *name;
    int n_workers;
    int n_servers;             /* -1 until settled: as many as there are workers that host one */
    char first[NET_LABEL_MAX]; /* who said so */
    net_facts_t facts;         /* all that were named so far, */
    net_facts_t fact_owners;   /* and who named them first: {name, label} */
    net_member_t **members;    /* in order of arrival; once settled as told */
    size_t n_members;
    bool settled;
    bool ended;           /* its members have been told that it is over */
    kvs_status_t failure; /* why it can't settle, or who died first */
    char *failure_text;
    int64_t deadline; /* of settling; then of the last goodbyes, and of telling latecomers */
    size_t n_told;    /* of its failure, when it could not settle */
    void *owner;      /* the scheduler's */
    void *book;       /* likewise: of its stores */
} net_group_t;

/* `first` says who set W and S: the scheduler, or the first to come. NULL: no memory. */
net_group_t *net_group_new(const char *name, int n_workers, int n_servers, const char *first);
void net_group_free(net_group_t *group); /* members too; NULL does nothing */

/* Let a node in, or say why not: the text is for both sides. `ret_fails_all`: what is wrong is wrong
 * with the group, and everyone has to be told. */
kvs_status_t net_group_admit(net_group_t *group, const net_hello_t *hello, uint64_t link,
                             net_member_t **ret_member, bool *ret_fails_all);
/* Before it is settled: somebody left or died. Frees the member. */
void net_group_remove(net_group_t *group, net_member_t *member);
bool net_group_is_complete(const net_group_t *group);
/* Give ranks and places. ERR_PEER: a member announced loopback, and another is on another host. */
kvs_status_t net_group_settle(net_group_t *group);

/* "2 of 4 workers, 1 of 2 servers present; missing: worker 3, server 1". */
void net_group_missing(const net_group_t *group, kvs_net_text_t *text);
size_t net_group_count(const net_group_t *group, int role, net_state_t state);
/* Can it go on without this server? */
bool net_group_spares(const net_group_t *group, const net_member_t *server);
/* Remember why the group is no longer whole; the first reason stays. */
void net_group_fail(net_group_t *group, kvs_status_t status, const char *text);

#endif
