/* SPDX-License-Identifier: Apache-2.0 */
/* crowd.h - a whole job within one process: a scheduler, workers and servers, each with a job object
 * of its own, so that they talk over loopback; or, with `together`, one worker and one server of one
 * object, which talk without TCP. What their callbacks see is kept for the test. */
#ifndef CROWD_H
#define CROWD_H

#include "kt.h"
#include "threads.h"

#include <kvstore/net.h>

#define CROWD_MAX        8
#define CROWD_MAX_EVENTS 64

typedef struct crowd_event {
    kvs_net_event_t event; /* its pointers are not to be used */
    char text[512];
    char peer[128];
    char facts[256]; /* "name=value;…" */
} crowd_event_t;

typedef struct member {
    struct crowd *crowd;
    kvs_net_job_t *job;
    kvs_net_node_t *node;
    /* What to do with messages; NULL: count and release. */
    void (*_Atomic message)(struct member *member, kvs_net_message_t *message);
    void *_Atomic arg; /* the test's */
    _Atomic int n_messages;
    pthread_mutex_t lock;
    crowd_event_t events[CROWD_MAX_EVENTS];
    int n_events; /* guarded by lock */
} member_t;

typedef struct crowd {
    kvs_net_settings_t settings; /* of all */
    kvs_net_job_t *scheduler;
    member_t worker[CROWD_MAX], server[CROWD_MAX];
    int n_workers, n_servers;
} crowd_t;

/* Short times, so that nothing takes long. Change crowd->settings before crowd_open if need be. */
void crowd_init(crowd_t *crowd, int n_workers, int n_servers);
void crowd_open(crowd_t *crowd);
void crowd_open_together(crowd_t *crowd); /* one worker, one server */
void crowd_close(crowd_t *crowd);

const kvs_net_peer_t *crowd_peer(const member_t *member, int role, int rank);
/* Wait until `member` has had `n` messages, or an event of `kind`; gives the latter's first. */
void crowd_await_messages(member_t *member, int n);
const crowd_event_t *crowd_await_event(member_t *member, unsigned kind);
int crowd_count_events(member_t *member, unsigned kind);

/* Open a store on all workers at once, each on a thread of its own. */
typedef struct crowd_store_call {
    member_t *member;
    kvs_net_store_args_t args;
    int64_t timeout_ms;
    kvs_net_store_t *store;
    kvs_status_t status;
    char text[1024];
} crowd_store_call_t;

void crowd_open_stores(crowd_t *crowd, const char *type, crowd_store_call_t *calls);
void crowd_close_stores(crowd_t *crowd, crowd_store_call_t *calls);

#endif
