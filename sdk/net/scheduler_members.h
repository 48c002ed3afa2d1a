/* SPDX-License-Identifier: Apache-2.0 */
/* scheduler_members.h - a scheduler from the inside, and who is in its job. The functions are for its thread. */
#ifndef NET_SCHEDULER_MEMBERS_H
#define NET_SCHEDULER_MEMBERS_H

#include "address.h"
#include "idmap.h"
#include "liveness.h"
#include "roster.h"
#include "scheduler.h"
#include "show.h"

struct net_scheduler {
    kvs_net_settings_t settings; /* fixed after open, like all up to `thread` */
    char address[NET_HOST_MAX + 16];
    char label[NET_LABEL_MAX];
    uint64_t token;
    net_socket_t *socket;
    int wake_fd, beacon_fd;
    net_show_t *show; /* NULL: it can't be shown */
    pthread_t thread;

    net_idmap_t members; /* by link; the thread's, like all up to `lock` */
    net_group_t *groups;
    int64_t deadline; /* for the first member to come */
    net_liveness_t liveness;

    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool over;    /* guarded by lock, like all below */
    bool running; /* a group is complete, and not done */
    kvs_status_t result;
    char *result_text;
    _Atomic bool stopping, cancelled; /* set by anyone, read by the thread and by waiters */
};

/* A frame has come. */
void net_members_take(net_scheduler_t *s, const net_route_t *route, const void *bytes, size_t n);
/* What is due; gives when the next thing will be. */
int64_t net_members_tick(net_scheduler_t *s);
/* The scheduler ends: tell whoever is left. */
void net_members_dissolve(net_scheduler_t *s);
void net_members_release(net_scheduler_t *s);

#endif
