/* SPDX-License-Identifier: Apache-2.0 */
/* dist_server.c - the node: stores come and go, messages are looked at and handed on, workers are seen
 * to leave, time is told. All of it on the node's I/O thread; others only wait for the end. */
#include "dist_server.h"

#include "dist_net.h"
#include "dist_out.h"
#include "dist_p3.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TICK_MS 100

struct dist_server {
    kvs_net_server_t *net; /* fixed after open */
    /* the I/O thread's */
    dist_depot_t *depots;
    dist_outs_t *outs; /* NULL until there is a store */
    dist_wait_t *waits;
    dist_profile_t profile;
    int n_gone;  /* room of `gone` */
    char **gone; /* by rank: why the worker pushes no more; NULL: it is there */

    pthread_mutex_t lock;
    dist_commands_t commands; /* guarded by lock */
};

static kvs_net_node_t *node_of(const dist_server_t *server)
{
    return kvs_net_server_node(server->net);
}

/* ---- Things that wait ------------------------------------------------------------------------------- */

static int tick(void *arg, int64_t now_ns)
{
    dist_server_t *server = arg;

    for (dist_wait_t *wait = server->waits, *next; wait != NULL; wait = next) {
        next = wait->next;
        wait->look(wait, now_ns);
    }
    return server->waits != NULL;
}

void dist_wait_begin(dist_server_t *server, dist_wait_t *wait)
{
    if (wait->listed) {
        return;
    }
    wait->listed = true;
    wait->prev = NULL;
    wait->next = server->waits;
    if (wait->next != NULL) {
        wait->next->prev = wait;
    }
    server->waits = wait;
    kvs_net_server_hurry(server->net);
}

void dist_wait_end(dist_server_t *server, dist_wait_t *wait)
{
    if (!wait->listed) {
        return;
    }
    wait->listed = false;
    if (wait->prev != NULL) {
        wait->prev->next = wait->next;
    } else {
        server->waits = wait->next;
    }
    if (wait->next != NULL) {
        wait->next->prev = wait->prev;
    }
}

/* ---- Stores ------------------------------------------------------------------------------------------ */

static void free_depot(dist_depot_t *depot)
{
    for (size_t i = 0; i < depot->entries.n_items; i++) {
        dist_entry_free(depot->entries.items[i].value);
    }
    dist_map_release(&depot->entries);
    dist_wait_end(depot->server, &depot->join_wait);
    dist_directory_free(depot);
    dist_optimizers_free(depot);
    dist_codecs_free(depot);
    dist_states_free(depot);
    for (int w = 0; depot->closed != NULL && w < depot->n_workers; w++) {
        free(depot->closed[w]);
    }
    free(depot->closed);
    free(depot->sources);
    free(depot->joins);
    free(depot->scratch);
    free(depot);
}

static dist_depot_t *new_depot(dist_server_t *server, uint32_t number)
{
    dist_depot_t *depot = calloc(1, sizeof(*depot));

    if (depot == NULL) {
        return NULL;
    }
    depot->server = server;
    depot->node = node_of(server);
    depot->outs = server->outs;
    depot->number = number;
    depot->rank = kvs_net_node_rank(node_of(server));
    depot->n_workers = kvs_net_node_count(node_of(server), KVS_NET_WORKER);
    depot->n_servers = kvs_net_node_count(node_of(server), KVS_NET_SERVER);
    depot->closed = calloc((size_t)depot->n_workers + 1, sizeof(*depot->closed));
    depot->sources = calloc((size_t)depot->n_workers + 1, sizeof(void *));
    depot->scratch = aligned_alloc(64, DIST_PART_BYTES);
    depot->joins = calloc((size_t)depot->n_workers + 1, sizeof(*depot->joins));
    if (depot->joins == NULL || depot->closed == NULL || depot->sources == NULL ||
        depot->scratch == NULL) {
        free_depot(depot);
        return NULL;
    }
    return depot;
}

static dist_depot_t **link_of_depot(dist_server_t *server, uint32_t number)
{
    dist_depot_t **link = &server->depots;

    while (*link != NULL && ((*link)->number != number || (*link)->is_closed)) {
        link = &(*link)->next;
    }
    return link;
}

static void open_depot(dist_server_t *server, const kvs_net_event_t *event)
{
    uint32_t number = event->store;
    dist_depot_t *depot;

    if (server->outs == NULL && dist_outs_new(kvs_net_node_count(node_of(server), KVS_NET_WORKER),
                                              &server->outs) != KVS_OK) {
        depot = NULL;
    } else {
        depot = new_depot(server, number);
    }
    if (depot == NULL) {
        (void)kvs_net_node_tell(node_of(server), number, KVS_ERR_NO_MEMORY,
                                "a server has no memory for the store");
        return;
    }
    depot->slice = dist_p3_slice_of(event->facts, event->n_facts);
    depot->opened_ns = dist_now_ns();
    depot->is_async = event->n_facts > 0 && dist_type_is_async(event->facts[0].value);
    for (uint32_t i = 0; i < event->n_facts; i++) {
        if (strcmp(event->facts[i].name, "option nonfinite") ==
            0) { /* the workers have checked it */
            (void)dist_nonfinite_of(event->facts[i].value, &depot->nonfinite);
        }
    }
    depot->next = server->depots;
    server->depots = depot;
}

/* Free it once nothing of it is on its way any more. */
static void free_if_done(dist_depot_t *depot)
{
    dist_depot_t **link = &depot->server->depots;

    if (!depot->is_closed || depot->n_readers > 0) {
        return;
    }
    while (*link != depot) {
        link = &(*link)->next;
    }
    *link = depot->next;
    free_depot(depot);
}

void dist_depot_let_go(dist_depot_t *depot)
{
    depot->n_readers--;
    free_if_done(depot);
}

static void close_depot(dist_server_t *server, uint32_t number)
{
    dist_depot_t *depot = *link_of_depot(server, number);

    if (depot != NULL) {
        depot->is_closed = true;
        depot->n_readers++; /* until here nobody frees it */
        dist_outs_drop(depot->outs, depot);
        for (size_t i = 0; i < depot->entries.n_items; i++) {
            dist_entry_t *entry = depot->entries.items[i].value;

            if (entry != NULL) {
                dist_round_drop_all(entry);
                dist_wait_end(server, &entry->wait);
            }
        }
        dist_depot_let_go(depot);
    }
}

/* ---- Workers ------------------------------------------------------------------------------------------ */

const char *dist_depot_worker_label(const dist_depot_t *depot, int worker)
{
    return kvs_net_node_peer(depot->node, KVS_NET_WORKER, worker)->label;
}

const char *dist_depot_why_gone(const dist_depot_t *depot, int worker)
{
    const dist_server_t *server = depot->server;

    if (worker < server->n_gone && server->gone[worker] != NULL) {
        return server->gone[worker];
    }
    return depot->closed[worker];
}

static void check_gone(dist_depot_t *depot, int worker)
{
    for (size_t i = 0; i < depot->entries.n_items; i++) {
        dist_entry_t *entry = depot->entries.items[i].value;

        if (entry != NULL && entry->rounds[0] != NULL) {
            dist_round_check_gone(entry);
            dist_round_go_on(entry);
        }
        if (entry != NULL) {
            dist_delete_look(entry);
        }
    }
    dist_join_check_gone(depot);
    if (worker == 0) {
        dist_states_check_gone(depot);
        dist_directory_check_gone(depot);
    }
}

static bool note_gone(dist_server_t *server, int worker, const char *text)
{
    if (worker >= server->n_gone) {
        char **grown = realloc(server->gone, (size_t)(worker + 1) * sizeof(*grown));

        if (grown == NULL) {
            return false;
        }
        memset(grown + server->n_gone, 0, (size_t)(worker + 1 - server->n_gone) * sizeof(*grown));
        server->gone = grown;
        server->n_gone = worker + 1;
    }
    if (server->gone[worker] == NULL) {
        server->gone[worker] = strdup(text);
    }
    return server->gone[worker] != NULL;
}

static void lose_worker(dist_server_t *server, const kvs_net_peer_t *peer, const char *text)
{
    if (!note_gone(server, peer->rank, text)) {
        return; /* rounds that need it end at their deadline */
    }
    for (dist_depot_t *depot = server->depots; depot != NULL; depot = depot->next) {
        if (!depot->is_closed) {
            check_gone(depot, peer->rank);
        }
    }
    if (server->outs != NULL) { /* what it was sent is dropped */
        dist_out_go_on(server->outs, node_of(server), peer->rank);
    }
}

static void take_close(dist_depot_t *depot, int worker)
{
    char text[512];

    snprintf(text, sizeof(text), "%s has closed the store", dist_depot_worker_label(depot, worker));
    free(depot->closed[worker]);
    depot->closed[worker] = strdup(text);
    check_gone(depot, worker);
}

/* ---- For those who look --------------------------------------------------------------------------------- */

dist_profile_t *dist_server_profile(dist_server_t *server)
{
    return &server->profile;
}

const dist_depot_t *dist_server_depots(const dist_server_t *server)
{
    return server->depots;
}

/* ---- Answers ------------------------------------------------------------------------------------------ */

void dist_depot_answer(dist_depot_t *depot, int worker, const dist_header_t *header,
                       const void *body, size_t n_bytes)
{
    uint8_t bytes[DIST_MAX_HEADER_BYTES];
    kvs_net_send_t net = KVS_NET_SEND_INIT;

    net.store = depot->number;
    net.header = bytes;
    net.n_header_bytes = dist_header_encode(header, bytes);
    net.body = body;
    net.n_body_bytes = n_bytes;
    dist_out_post(depot, worker, &net);
}

void dist_depot_send_done(dist_depot_t *depot, int worker, uint64_t request, kvs_status_t status,
                          const char *text)
{
    dist_header_t header = {.kind = DIST_DONE, .request = request, .status = status};

    dist_depot_answer(depot, worker, &header, text, status == KVS_OK ? 0 : strlen(text));
}

void dist_depot_send_patience(dist_depot_t *depot, int worker, uint64_t request)
{
    dist_header_t header = {.kind = DIST_PATIENCE, .request = request};

    dist_depot_answer(depot, worker, &header, NULL, 0);
}

void dist_depot_tell(dist_depot_t *depot, int worker, uint64_t key, kvs_status_t status,
                     const char *text)
{
    dist_header_t header = {.kind = DIST_TELL, .key = key, .status = status};

    dist_depot_answer(depot, worker, &header, text, strlen(text));
}

void dist_depot_send_record(dist_depot_t *depot, int worker, uint64_t request,
                            const dist_record_t *record)
{
    dist_header_t header = {.kind = DIST_RECORD, .request = request};
    dist_bytes_t body = DIST_BYTES_INIT;

    dist_record_encode(record, &body);
    if (body.failed) {
        dist_depot_send_done(depot, worker, request, KVS_ERR_NO_MEMORY,
                             "no memory on the server for a record");
    } else {
        dist_depot_answer(depot, worker, &header, body.data, body.n);
    }
    dist_bytes_release(&body);
}

/* ---- The end, and commands ----------------------------------------------------------------------------------------- */

void dist_server_stop(dist_server_t *server)
{
    kvs_net_server_stop(server->net);
}

dist_commands_t *dist_server_lock_commands(dist_server_t *server)
{
    pthread_mutex_lock(&server->lock);
    return &server->commands;
}

void dist_server_unlock_commands(dist_server_t *server)
{
    pthread_mutex_unlock(&server->lock);
    kvs_net_server_wake(server->net);
}

void dist_server_set_controller(kvs_net_server_t *net, kvs_controller_t fn, void *arg)
{
    dist_server_t *server = kvs_net_server_arg(net);

    pthread_mutex_lock(&server->lock);
    server->commands.controller = fn;
    server->commands.arg = arg;
    pthread_mutex_unlock(&server->lock);
}

/* On the thread that serves; the lock is released while one runs. */
static void run_commands(void *arg)
{
    dist_server_t *server = arg;
    dist_command_t *command;

    pthread_mutex_lock(&server->lock);
    server->commands.held = false;
    while (!kvs_net_server_has_ended(server->net) &&
           (command = dist_commands_take(&server->commands)) != NULL) {
        kvs_controller_t controller = server->commands.controller;
        void *controller_arg = server->commands.arg;

        pthread_mutex_unlock(&server->lock);
        dist_command_run(command, node_of(server), controller, controller_arg);
        pthread_mutex_lock(&server->lock);
    }
    pthread_mutex_unlock(&server->lock);
}

/* ---- Messages ----------------------------------------------------------------------------------------- */

static void take_define(dist_depot_t *depot, const dist_header_t *header,
                        const kvs_net_message_t *message)
{
    dist_entry_t *entry;
    kvs_status_t status = dist_entry_new(depot, header, message, &entry);

    if (status != KVS_OK) {
        dist_depot_send_done(depot, message->from->rank, header->request, status,
                             kvs_plugin_host->last_error());
    } else if (entry->defined) { /* nothing follows */
        dist_depot_send_done(depot, message->from->rank, header->request, KVS_OK, "");
    }
}

/* Of a key that is not kept: told once, with the first part. */
static void refuse_unknown(dist_depot_t *depot, const dist_header_t *header, int worker)
{
    if (header->kind != DIST_VALUE && header->kind != DIST_VALUE_ROWS && header->first == 0) {
        char text[128];

        snprintf(text, sizeof(text), "server %d does not keep the key of id %llu", depot->rank,
                 (unsigned long long)header->key);
        dist_depot_send_done(depot, worker, header->request, KVS_ERR_NOT_FOUND, text);
    }
}

/* Which round of the key this is: workers count their own pushes. */
static dist_header_t count_round(dist_depot_t *depot, dist_entry_t *entry, dist_header_t header,
                                 int worker)
{
    dist_count_t *count = &entry->counts[worker];

    if (header.kind != DIST_PULL && header.kind != DIST_PULL_ROWS) {
        depot->pushed_ns = dist_now_ns();
        count->n_pushed = header.round > count->n_pushed ? header.round : count->n_pushed;
    }
    if (!depot->is_async) {
        header.round = dist_join_round(entry, worker, header.round);
    }
    return header;
}

static void take_push(dist_depot_t *depot, dist_entry_t *entry, const dist_header_t *as_sent,
                      kvs_net_message_t *message)
{
    dist_header_t header = count_round(depot, entry, *as_sent, message->from->rank);

    if (header.kind == DIST_REFUSAL && depot->is_async) {
        dist_async_take_refusal(entry, &header, message);
    } else if (header.kind == DIST_REFUSAL) {
        dist_round_take_refusal(entry, &header, message);
    } else if (depot->is_async) {
        dist_async_take_push(entry, &header, message);
        return; /* which owns the message */
    } else {
        dist_round_take_push(entry, &header, message);
        return; /* so does this */
    }
    dist_message_release(message);
}

static void take_pull(dist_depot_t *depot, dist_entry_t *entry, const dist_header_t *as_sent,
                      kvs_net_message_t *message)
{
    dist_header_t header = count_round(depot, entry, *as_sent, message->from->rank);

    dist_entry_take_pull(entry, &header, message);
}

static void take_data(dist_depot_t *depot, const dist_header_t *header, kvs_net_message_t *message)
{
    dist_entry_t *entry = dist_map_find(&depot->entries, header->key);
    bool is_value = header->kind == DIST_VALUE || header->kind == DIST_VALUE_ROWS;
    bool is_push = header->kind == DIST_PUSH || header->kind == DIST_PUSHPULL ||
                   header->kind == DIST_PUSH_ROWS || header->kind == DIST_REFUSAL;

    if (header->kind == DIST_DELETE && header->first == DIST_DELETE_FAILED) {
        if (entry != NULL && message->from->rank == 0) {
            dist_delete_undo(entry);
        }
    } else if (entry == NULL || (!is_value && !entry->defined)) {
        refuse_unknown(depot, header, message->from->rank);
    } else if (is_push) {
        take_push(depot, entry, header, message);
        return; /* which owns the message */
    } else if (header->kind == DIST_PULL || header->kind == DIST_PULL_ROWS) {
        take_pull(depot, entry, header, message);
        return; /* so does this */
    } else if (header->kind == DIST_GET_STATES) {
        dist_entry_take_pull(entry, header, message);
        return; /* and this */
    } else if (header->kind == DIST_DELETE) {
        dist_delete_take(entry, header, message->from->rank);
    } else if (header->kind == DIST_VALUE_ROWS) {
        dist_rows_take_value(entry, header, message);
    } else if (header->kind == DIST_PUT_STATES) {
        dist_states_take(entry, header, message);
    } else {
        dist_entry_take_value(entry, header, message);
    }
    dist_message_release(message);
}

/* Of another server, about a round. */
static void take_word(dist_depot_t *depot, const dist_header_t *header,
                      const kvs_net_message_t *message)
{
    dist_entry_t *entry = dist_map_find(&depot->entries, header->key);

    if (entry == NULL || !entry->defined) {
        return;
    }
    if (header->kind == DIST_SUMS) {
        dist_norms_take_sums(entry, header, message);
    } else {
        dist_async_take_turn(entry, header, message);
    }
}

static bool may_send(const dist_depot_t *depot, const dist_header_t *header,
                     const kvs_net_peer_t *from)
{
    switch ((dist_kind_t)header->kind) {
    case DIST_DEFINE:
    case DIST_VALUE:
    case DIST_VALUE_ROWS:
    case DIST_PUT_STATES:
    case DIST_PUT_OPTIMIZER:
        return from->role == KVS_NET_WORKER && from->rank == 0;
    case DIST_PUBLISH:
        return from->role == KVS_NET_WORKER && from->rank == 0 && depot->rank == 0;
    case DIST_LOOKUP:
        return from->role == KVS_NET_WORKER && depot->rank == 0;
    case DIST_PUSH:
    case DIST_PUSHPULL:
    case DIST_PULL:
    case DIST_PUSH_ROWS:
    case DIST_PULL_ROWS:
    case DIST_GET_STATES:
    case DIST_GET_OPTIMIZER:
    case DIST_LOAD:
    case DIST_JOIN:
    case DIST_DELETE:
    case DIST_OPTIMIZER:
    case DIST_COMPRESSION:
    case DIST_REFUSAL:
    case DIST_COMMAND:
    case DIST_CLOSE:
        return from->role == KVS_NET_WORKER;
    case DIST_ATTR:
        return from->role == KVS_NET_WORKER && depot->is_async;
    case DIST_SUMS:
    case DIST_TURN:
        return from->role == KVS_NET_SERVER;
    default:
        return false;
    }
}

static void take(dist_depot_t *depot, const dist_header_t *header, kvs_net_message_t *message)
{
    switch ((dist_kind_t)header->kind) {
    case DIST_VALUE:
    case DIST_VALUE_ROWS:
    case DIST_PUSH_ROWS:
    case DIST_PULL_ROWS:
    case DIST_PUSH:
    case DIST_PUSHPULL:
    case DIST_PULL:
    case DIST_REFUSAL:
    case DIST_GET_STATES:
    case DIST_PUT_STATES:
    case DIST_DELETE:
        take_data(depot, header, message);
        return; /* which owns the message */
    case DIST_DEFINE:
        take_define(depot, header, message);
        break;
    case DIST_PUBLISH:
        dist_directory_publish(depot, header, message);
        break;
    case DIST_LOOKUP:
        dist_directory_look_up(depot, header, message);
        break;
    case DIST_OPTIMIZER:
        dist_optimizers_take(depot, header, message);
        break;
    case DIST_COMPRESSION:
        dist_codecs_take(depot, header, message);
        break;
    case DIST_GET_OPTIMIZER:
        dist_states_send_optimizer(depot, header, message->from->rank);
        break;
    case DIST_PUT_OPTIMIZER:
        dist_states_take_optimizer(depot, header, message);
        break;
    case DIST_LOAD:
        dist_states_load(depot, header, message->from->rank);
        break;
    case DIST_JOIN:
        dist_join_take(depot, header, message->from->rank);
        break;
    case DIST_COMMAND:
        dist_command_take(depot, header, message);
        break;
    case DIST_CLOSE:
        take_close(depot, message->from->rank);
        break;
    case DIST_SUMS:
    case DIST_TURN:
        take_word(depot, header, message);
        break;
    case DIST_ATTR:
        dist_optimizers_take_attr(depot, header, message);
        break;
    default:
        break;
    }
    dist_message_release(message);
}

/* Owns the message. */
static void handle(dist_depot_t *depot, kvs_net_message_t *message)
{
    dist_header_t header;

    if (dist_header_decode(message->header, message->n_header_bytes, message->n_body_bytes,
                           &header) != KVS_OK ||
        !may_send(depot, &header, message->from)) {
        kvs_log(KVS_LOG_WARN, "dist",
                "a message from %s is dropped: it is malformed, or not its to send",
                message->from->label);
        dist_message_release(message);
        return;
    }
    take(depot, &header, message);
}

/* What came together is answered together. */
static void handle_batch(dist_depot_t *depot, int64_t n, kvs_net_message_t *message)
{
    const char *label = message->from->label;
    dist_unpacked_t *unpacked;

    if (dist_batch_open(message, n, &unpacked) != KVS_OK) {
        kvs_log(KVS_LOG_WARN, "dist", "messages from %s are dropped: %s", label,
                kvs_plugin_host->last_error());
        return;
    }
    dist_outs_gather(depot->outs);
    for (size_t i = 0; i < unpacked->n; i++) {
        handle(depot, unpacked->messages[i]);
    }
    dist_outs_send_gathered(depot);
    free(unpacked);
}

static void on_message(void *arg, kvs_net_message_t *message)
{
    dist_server_t *server = arg;
    dist_depot_t *depot = *link_of_depot(server, message->store);
    dist_header_t header;

    if (depot == NULL) {
        dist_message_release(message); /* of a store that could not be opened, which was told */
        return;
    }
    if (message->from->role == KVS_NET_WORKER &&
        dist_header_decode(message->header, message->n_header_bytes, message->n_body_bytes,
                           &header) == KVS_OK &&
        header.kind == DIST_BATCH) {
        handle_batch(depot, header.n, message);
    } else {
        handle(depot, message);
    }
}

static void on_event(void *arg, const kvs_net_event_t *event)
{
    dist_server_t *server = arg;

    switch ((kvs_net_event_kind_t)event->kind) {
    case KVS_NET_EVENT_STORE_OPENED:
        open_depot(server, event);
        break;
    case KVS_NET_EVENT_STORE_CLOSED:
        close_depot(server, event->store);
        break;
    case KVS_NET_EVENT_LEFT:
        if (event->peer != NULL && event->peer->role == KVS_NET_WORKER) {
            lose_worker(server, event->peer, event->text);
        }
        break;
    case KVS_NET_EVENT_ROOM:
        if (server->outs != NULL && event->peer->role == KVS_NET_WORKER) {
            dist_out_go_on(server->outs, node_of(server), event->peer->rank);
        }
        break;
    default:
        /* Errors are the workers' to tell, and of deaths each of them is told by the scheduler: then
         * nothing works any more. */
        break;
    }
}

/* ---- The life of a server ------------------------------------------------------------------------------ */

static void free_server(dist_server_t *server)
{
    for (dist_depot_t *depot = server->depots; depot != NULL; depot = depot->next) {
        depot->is_closed = true;
    }
    dist_outs_free(server->outs);
    while (server->depots != NULL) {
        dist_depot_t *next = server->depots->next;

        free_depot(server->depots);
        server->depots = next;
    }
    dist_commands_release(&server->commands);
    for (int i = 0; i < server->n_gone; i++) {
        free(server->gone[i]);
    }
    free(server->gone);
    dist_profile_release(&server->profile);
    pthread_mutex_destroy(&server->lock);
    free(server);
}

kvs_status_t dist_server_open(kvs_net_job_t *job, const kvs_net_settings_t *settings,
                              int is_service, kvs_net_server_t **ret_server)
{
    dist_server_t *server = calloc(1, sizeof(*server));
    kvs_net_server_args_t args = KVS_NET_SERVER_ARGS_INIT;
    kvs_status_t status;

    if (server == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for a server");
    }
    pthread_mutex_init(&server->lock, NULL);
    server->commands.held = is_service != 0;
    args.message = on_message;
    args.event = on_event;
    args.tick = tick;
    args.tick_ms = TICK_MS;
    args.serve = run_commands;
    args.show = dist_status_show;
    args.arg = server;
    (void)settings; /* the job's */
    status = kvs_net_server_open(job, &dist_plugin, &args, &server->net);
    if (status != KVS_OK) {
        free_server(server);
        return status;
    }
    *ret_server = server->net;
    return KVS_OK;
}

kvs_status_t dist_server_close(kvs_net_server_t *net, int64_t timeout_ms)
{
    dist_server_t *server = kvs_net_server_arg(net);
    kvs_status_t status;

    status = kvs_net_server_close(net, timeout_ms);
    free_server(server);
    return status;
}
