/* SPDX-License-Identifier: Apache-2.0 */
/* crowd.c - see crowd.h. */
#include "crowd.h"

#include <stdlib.h>
#include <unistd.h>

void crowd_init(crowd_t *crowd, int n_workers, int n_servers)
{
    static int n_crowds;
    const char *shm = getenv("KVSTORE_SHM");

    *crowd = (crowd_t){
        .settings = KVS_NET_SETTINGS_INIT, .n_workers = n_workers, .n_servers = n_servers};
    crowd->settings.shm = shm != NULL && *shm == '0' ? KVS_NET_SHM_OFF : KVS_NET_SHM_AUTO;
    crowd->settings.n_workers = n_workers;
    crowd->settings.n_servers = n_servers;
    crowd->settings.heartbeat_ms = 200;
    crowd->settings.dead_after_ms = 15000;
    crowd->settings.rendezvous_ms = 15000;
    snprintf(crowd->settings.job_id, sizeof(crowd->settings.job_id), "crowd %d %d", (int)getpid(),
             n_crowds++);
}

static void note_facts(crowd_event_t *note, const kvs_net_event_t *event)
{
    size_t n = 0;

    for (uint32_t i = 0; i < event->n_facts && n < sizeof(note->facts); i++) {
        n += (size_t)snprintf(note->facts + n, sizeof(note->facts) - n, "%s=%s;",
                              event->facts[i].name, event->facts[i].value);
    }
}

static void on_event(void *arg, const kvs_net_event_t *event)
{
    member_t *member = arg;

    pthread_mutex_lock(&member->lock);
    if (member->n_events < CROWD_MAX_EVENTS) {
        crowd_event_t *note = &member->events[member->n_events];

        note->event = *event;
        snprintf(note->text, sizeof(note->text), "%s", event->text);
        snprintf(note->peer, sizeof(note->peer), "%s",
                 event->peer == NULL ? "" : event->peer->label);
        note_facts(note, event);
        member->n_events++;
    }
    pthread_mutex_unlock(&member->lock);
}

static void on_message(void *arg, kvs_net_message_t *message)
{
    member_t *member = arg;

    if (member->message != NULL) {
        member->message(member, message);
    } else {
        kvs_net_message_release(message);
    }
    member->n_messages++;
}

static void open_node(member_t *member, int role)
{
    kvs_net_node_args_t args = KVS_NET_NODE_ARGS_INIT;

    pthread_mutex_init(&member->lock, NULL);
    args.role = role;
    args.group = "test";
    args.message = on_message;
    args.event = on_event;
    args.arg = member;
    if (!KT_OK(kvs_net_node_open(member->job, &args, &member->node))) {
        exit(1);
    }
}

static void open_member(crowd_t *crowd, member_t *member, int role, int rank)
{
    kvs_net_settings_t settings = crowd->settings;

    settings.role = role;
    settings.rank = rank;
    member->crowd = crowd;
    if (!KT_OK(kvs_net_job_open(&settings, &member->job))) {
        exit(1);
    }
    open_node(member, role);
}

static void wait_for_all(crowd_t *crowd)
{
    for (int i = 0; i < crowd->n_workers; i++) {
        if (!KT_OK(kvs_net_node_wait_ready(crowd->worker[i].node, KT_PATIENCE_MS))) {
            exit(1);
        }
    }
    for (int i = 0; i < crowd->n_servers; i++) {
        if (!KT_OK(kvs_net_node_wait_ready(crowd->server[i].node, KT_PATIENCE_MS))) {
            exit(1);
        }
    }
}

void crowd_open(crowd_t *crowd)
{
    kvs_net_settings_t settings = crowd->settings;

    settings.role = KVS_NET_SCHEDULER;
    snprintf(settings.scheduler, sizeof(settings.scheduler), "127.0.0.1:0");
    if (!KT_OK(kvs_net_job_open(&settings, &crowd->scheduler))) {
        exit(1);
    }
    snprintf(crowd->settings.scheduler, sizeof(crowd->settings.scheduler), "%s",
             kvs_net_job_scheduler(crowd->scheduler));
    for (int i = 0; i < crowd->n_servers; i++) {
        open_member(crowd, &crowd->server[i], KVS_NET_SERVER, i);
    }
    for (int i = 0; i < crowd->n_workers; i++) {
        open_member(crowd, &crowd->worker[i], KVS_NET_WORKER, i);
    }
    wait_for_all(crowd);
}

void crowd_open_together(crowd_t *crowd)
{
    kvs_net_settings_t settings = crowd->settings;

    settings.embed = KVS_NET_EMBED_SCHEDULER | KVS_NET_EMBED_SERVERS;
    settings.rank = 0;
    settings.n_servers = 0;
    if (!KT_OK(kvs_net_job_open(&settings, &crowd->scheduler))) {
        exit(1);
    }
    KT_TRUE(kvs_net_job_hosts_server(crowd->scheduler));
    crowd->server[0].crowd = crowd->worker[0].crowd = crowd;
    crowd->server[0].job = crowd->worker[0].job = crowd->scheduler;
    open_node(&crowd->server[0], KVS_NET_SERVER);
    open_node(&crowd->worker[0], KVS_NET_WORKER);
    wait_for_all(crowd);
}

static void close_member(crowd_t *crowd, member_t *member)
{
    if (member->node != NULL) {
        KT_OK(kvs_net_node_close(member->node, 5000));
        member->node = NULL;
    }
    if (member->job != crowd->scheduler) {
        KT_OK(kvs_net_job_close(member->job, 5000));
    }
    member->job = NULL;
}

void crowd_close(crowd_t *crowd)
{
    for (int i = 0; i < crowd->n_workers; i++) {
        close_member(crowd, &crowd->worker[i]);
    }
    for (int i = 0; i < crowd->n_servers; i++) {
        close_member(crowd, &crowd->server[i]);
    }
    KT_OK(kvs_net_job_close(crowd->scheduler, 5000));
}

const kvs_net_peer_t *crowd_peer(const member_t *member, int role, int rank)
{
    return kvs_net_node_peer(member->node, role, rank);
}

typedef struct awaited {
    member_t *member;
    int n;
    unsigned kind;
} awaited_t;

static bool has_messages(void *arg)
{
    awaited_t *awaited = arg;

    return awaited->member->n_messages >= awaited->n;
}

void crowd_await_messages(member_t *member, int n)
{
    awaited_t awaited = {.member = member, .n = n};

    kt_until(has_messages, &awaited, "messages");
}

int crowd_count_events(member_t *member, unsigned kind)
{
    int n = 0;

    pthread_mutex_lock(&member->lock);
    for (int i = 0; i < member->n_events; i++) {
        n += member->events[i].event.kind == kind;
    }
    pthread_mutex_unlock(&member->lock);
    return n;
}

static bool has_event(void *arg)
{
    awaited_t *awaited = arg;

    return crowd_count_events(awaited->member, awaited->kind) > 0;
}

const crowd_event_t *crowd_await_event(member_t *member, unsigned kind)
{
    awaited_t awaited = {.member = member, .kind = kind};

    kt_until(has_event, &awaited, "an event");
    for (int i = 0;; i++) {
        if (member->events[i].event.kind == kind) {
            return &member->events[i];
        }
    }
}

/* ---- Stores ---------------------------------------------------------------------------------- */

static void open_store(void *arg)
{
    crowd_store_call_t *call = arg;

    call->status =
        kvs_net_store_open(call->member->node, &call->args, call->timeout_ms, &call->store);
    snprintf(call->text, sizeof(call->text), "%s", call->status == KVS_OK ? "" : kvs_last_error());
}

void crowd_open_stores(crowd_t *crowd, const char *type, crowd_store_call_t *calls)
{
    kt_thread_t threads[CROWD_MAX];

    for (int i = 0; i < crowd->n_workers; i++) {
        calls[i].member = &crowd->worker[i];
        calls[i].args.size = (uint32_t)sizeof(calls[i].args);
        if (calls[i].args.type == NULL) {
            calls[i].args.type = type;
        }
        if (calls[i].args.message == NULL) {
            calls[i].args.message = on_message;
            calls[i].args.arg = &crowd->worker[i];
        }
        if (calls[i].timeout_ms == 0) {
            calls[i].timeout_ms = 10000;
        }
        kt_thread_start(&threads[i], open_store, &calls[i]);
    }
    for (int i = 0; i < crowd->n_workers; i++) {
        kt_thread_join(&threads[i]);
    }
}

void crowd_close_stores(crowd_t *crowd, crowd_store_call_t *calls)
{
    for (int i = 0; i < crowd->n_workers; i++) {
        KT_OK(kvs_net_store_close(calls[i].store, 5000));
    }
}
