/* SPDX-License-Identifier: Apache-2.0 */
/* byteps_server.c - the node: stores come and go, workers are seen to leave, time is told. All of it on
 * the node's I/O thread; others only wait for the end. */
#include "byteps_server.h"

#include "byteps_depot.h"
#include "byteps_net.h"

#include <stdlib.h>

#define TICK_MS 20

typedef struct byteps_server {
    kvs_net_server_t *net;  /* fixed after open */
    byteps_depot_t *depots; /* the I/O thread's */
} byteps_server_t;

/* ---- Time --------------------------------------------------------------------------------------------- */

static int tick(void *arg, int64_t now_ns)
{
    byteps_server_t *server = arg;
    bool waits = false;

    for (byteps_depot_t *depot = server->depots; depot != NULL; depot = depot->next) {
        waits |= byteps_depot_look(depot, now_ns);
    }
    return waits;
}

static void wait(void *arg)
{
    const byteps_server_t *server = arg;

    kvs_net_server_hurry(server->net);
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
    kvs_net_node_t *node = kvs_net_server_node(server->net);
    byteps_depot_t *depot =
        byteps_depot_new(node, number, kvs_net_node_count(node, KVS_NET_SERVER) > 1, &owner);

    if (depot == NULL) {
        (void)kvs_net_node_tell(node, number, KVS_ERR_NO_MEMORY,
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
    free(server);
}

static uint64_t show(void *arg, FILE *out)
{
    const byteps_server_t *server = arg;

    for (const byteps_depot_t *depot = server->depots; depot != NULL; depot = depot->next) {
        size_t n_answers = 0;

        for (const byteps_answer_t *answer = depot->answers; answer != NULL;
             answer = answer->next) {
            n_answers++;
        }
        fprintf(out, "  store %u: exchanges under way %zu, results that not all have %zu\n",
                depot->number, depot->n_exchanges, n_answers);
    }
    return 0;
}

kvs_status_t byteps_server_open(kvs_net_job_t *job, const kvs_net_settings_t *settings,
                                int is_service, kvs_net_server_t **ret_server)
{
    byteps_server_t *server = calloc(1, sizeof(*server));
    kvs_net_server_args_t args = KVS_NET_SERVER_ARGS_INIT;
    kvs_status_t status;

    (void)settings;
    (void)is_service;
    if (server == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for a server");
    }
    args.message = on_message;
    args.event = on_event;
    args.tick = tick;
    args.tick_ms = TICK_MS;
    args.show = show;
    args.arg = server;
    status = kvs_net_server_open(job, &byteps_plugin, &args, &server->net);
    if (status != KVS_OK) {
        free_server(server);
        return status;
    }
    *ret_server = server->net;
    return KVS_OK;
}

kvs_status_t byteps_server_close(kvs_net_server_t *net, int64_t timeout_ms)
{
    byteps_server_t *server = kvs_net_server_arg(net);
    kvs_status_t status = kvs_net_server_close(net, timeout_ms);

    free_server(server);
    return status;
}
