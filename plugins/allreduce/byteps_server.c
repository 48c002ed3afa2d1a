/* SPDX-License-Identifier: Apache-2.0 */
/* byteps_server.c - the node: stores come and go, workers are seen to leave, time is told. All of it on the node's I/O thread; others only wait for the end. */
#include "byteps_server.h"

#include "byteps_depot.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TICK_MS 20

const kvs_net_fact_t byteps_facts[] = {
    {"plugin", "byteps " BYTEPS_VERSION},
    {"messages", BYTEPS_MESSAGES_VERSION},
};
const uint32_t byteps_n_facts = sizeof(byteps_facts) / sizeof(byteps_facts[0]);

struct byteps_server {
    kvs_net_node_t *node; /* fixed after open */
    /* the I/O thread's */
    byteps_depot_t *depots;
    bool ticks;

    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool ended; /* guarded by lock, as what follows */
    kvs_status_t status;
    char *text;
};

/* ---- Time --------------------------------------------------------------------------------------------- */

static void tick(void *arg)
{
    byteps_server_t *server = arg;
    int64_t now = byteps_now_ns();
    bool waits = false;

    for (byteps_depot_t *depot = server->depots; depot != NULL; depot = depot->next) {
        waits |= byteps_depot_look(depot, now);
    }
    if (!waits) {
        server->ticks = false;
        (void)kvs_net_node_set_tick(server->node, 0, NULL, NULL); /* nothing else can be done */
    }
}

static void wait(void *arg)
{
    byteps_server_t *server = arg;

    if (!server->ticks) {
        server->ticks = kvs_net_node_set_tick(server->node, TICK_MS, tick, server) == KVS_OK;
    }
}

/* ---- Stores ------------------------------------------------------------------------------------------- */

static byteps_depot_t *find_depot(byteps_server_t *server, uint32_t number)
{
    byteps_depot_t *depot = server->depots;

    while (depot != NULL && (depot->number != number || depot->closed_here)) {
        depot = depot->next;
    }
    return depot;
}

static void forget_depot(void *arg, byteps_depot_t *depot)
{
    byteps_server_t *server = arg;
    byteps_depot_t **link = &server->depots;

    while (*link != depot) {
        link = &(*link)->next;
    }
    *link = depot->next;
    byteps_depot_free(depot);
}

static void open_depot(byteps_server_t *server, uint32_t number)
{
    const byteps_owner_t owner = {server, wait, forget_depot};
    byteps_depot_t *depot;

    pthread_mutex_lock(&server->lock); /* until the node is set: this may be its first event */
    pthread_mutex_unlock(&server->lock);
    depot = byteps_depot_new(server->node, number,
                             kvs_net_node_count(server->node, KVS_NET_SERVER) > 1, &owner);
    if (depot == NULL) {
        (void)kvs_net_node_tell(server->node, number, KVS_ERR_NO_MEMORY,
                                "a server has no memory for the store");
        return;
    }
    depot->next = server->depots;
    server->depots = depot;
}

static void lose_worker(byteps_server_t *server, const kvs_net_peer_t *peer, const char *text)
{
    for (byteps_depot_t *depot = server->depots; depot != NULL; depot = depot->next) {
        byteps_depot_lose(depot, peer->rank, text);
    }
}

/* ---- Messages ----------------------------------------------------------------------------------------- */

static void on_message(void *arg, kvs_net_message_t *message)
{
    byteps_server_t *server = arg;
    byteps_depot_t *depot = find_depot(server, message->store);
    byteps_header_t header;

    if (depot == NULL) {
        kvs_net_message_release(message); /* of a store that could not be opened, which was told */
    } else if (message->from->role != KVS_NET_WORKER ||
               byteps_header_decode(message->header, message->n_header_bytes, &header) != KVS_OK) {
        kvs_log(KVS_LOG_WARN, "byteps",
                "a message from %s is dropped: it is malformed, or not its to send",
                message->from->label);
        kvs_net_message_release(message);
    } else {
        byteps_depot_take(depot, &header, message);
    }
}

static void end(byteps_server_t *server, kvs_status_t status, const char *text)
{
    pthread_mutex_lock(&server->lock);
    if (!server->ended) {
        server->ended = true;
        server->status = status;
        server->text = strdup(text);
        pthread_cond_broadcast(&server->changed);
    }
    pthread_mutex_unlock(&server->lock);
}

static void on_event(void *arg, const kvs_net_event_t *event)
{
    byteps_server_t *server = arg;
    byteps_depot_t *depot;

    switch ((kvs_net_event_kind_t)event->kind) {
    case KVS_NET_EVENT_STORE_OPENED:
        open_depot(server, event->store);
        break;
    case KVS_NET_EVENT_STORE_CLOSED:
        depot = find_depot(server, event->store);
        if (depot != NULL) {
            byteps_depot_close(depot);
        }
        break;
    case KVS_NET_EVENT_LEFT:
        if (event->peer != NULL && event->peer->role == KVS_NET_WORKER) {
            lose_worker(server, event->peer, event->text);
        }
        break;
    case KVS_NET_EVENT_ENDED:
        end(server, event->status, event->text);
        break;
    default:
        /* Answers never wait for room, errors are the workers' to tell, and of deaths each of them is told
         * by the scheduler: of a worker's, nothing works any more; of a server's, they come here. */
        break;
    }
}

/* ---- The life of a server ------------------------------------------------------------------------------ */

static void free_server(byteps_server_t *server)
{
    while (server->depots != NULL) {
        byteps_depot_t *next = server->depots->next;

        byteps_depot_free(server->depots);
        server->depots = next;
    }
    free(server->text);
    pthread_cond_destroy(&server->changed);
    pthread_mutex_destroy(&server->lock);
    free(server);
}

static byteps_server_t *new_server(void)
{
    byteps_server_t *server = calloc(1, sizeof(*server));
    pthread_condattr_t monotonic;

    if (server == NULL) {
        return NULL;
    }
    pthread_mutex_init(&server->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&server->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    return server;
}

kvs_status_t byteps_server_open(kvs_net_job_t *job, byteps_server_t **ret_server)
{
    byteps_server_t *server = new_server();
    kvs_net_node_args_t args = KVS_NET_NODE_ARGS_INIT;
    kvs_status_t status;

    if (server == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for a server");
    }
    args.role = KVS_NET_SERVER;
    args.facts = byteps_facts;
    args.n_facts = byteps_n_facts;
    args.group = "byteps";
    args.spares_servers = 1;
    args.message = on_message;
    args.event = on_event;
    args.arg = server;
    pthread_mutex_lock(&server->lock);
    status = kvs_net_node_open(job, &args, &server->node);
    pthread_mutex_unlock(&server->lock);
    if (status != KVS_OK) {
        free_server(server);
        return status;
    }
    *ret_server = server;
    return KVS_OK;
}

kvs_status_t byteps_server_wait_ready(byteps_server_t *server)
{
    return kvs_net_node_wait_ready(server->node, -1);
}

static struct timespec time_after(int64_t timeout_ms)
{
    struct timespec time;
    int64_t ns;

    clock_gettime(CLOCK_MONOTONIC, &time);
    ns = time.tv_nsec + timeout_ms % 1000 * 1000000;
    time.tv_sec += timeout_ms / 1000 + ns / 1000000000;
    time.tv_nsec = ns % 1000000000;
    return time;
}

kvs_status_t byteps_server_wait_end(byteps_server_t *server, int64_t timeout_ms)
{
    struct timespec deadline = time_after(timeout_ms < 0 ? 0 : timeout_ms);
    kvs_status_t status = KVS_ERR_TIMEOUT;
    int waited = 0;

    pthread_mutex_lock(&server->lock);
    while (!server->ended && waited != ETIMEDOUT) {
        waited = timeout_ms < 0
                     ? pthread_cond_wait(&server->changed, &server->lock)
                     : pthread_cond_timedwait(&server->changed, &server->lock, &deadline);
    }
    if (!server->ended) {
        (void)kvs_fail(KVS_ERR_TIMEOUT, "the server goes on");
    } else {
        status = server->status;
        if (status != KVS_OK) {
            (void)kvs_fail(status, "%s", server->text == NULL ? "no memory" : server->text);
        }
    }
    pthread_mutex_unlock(&server->lock);
    return status;
}

kvs_status_t byteps_server_close(byteps_server_t *server, int64_t timeout_ms)
{
    kvs_status_t status;

    if (server == NULL) {
        return KVS_OK;
    }
    status = kvs_net_node_close(server->node, timeout_ms);
    server->node = NULL;
    free_server(server);
    return status;
}
