/* SPDX-License-Identifier: Apache-2.0 */
/* dist_request.c - requests: their messages, sent as fast as each server takes them, and their answers.
 *
 * A request has ended when it was answered or has failed, and when nothing reads its elements any more,
 * nor writes what was pulled.
 * One that failed early still sends what is left of its elements: servers count on whole arrays. */
#include "dist_worker.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Numbers ----------------------------------------------------------------------------------------- */

static bool grow_slots(dist_worker_t *worker)
{
    uint32_t n = worker->n_slots == 0 ? 64 : 2 * worker->n_slots;
    dist_slot_t *slots = realloc(worker->slots, n * sizeof(*slots));

    if (slots == NULL) {
        return false;
    }
    for (uint32_t i = worker->n_slots; i < n; i++) {
        slots[i] = (dist_slot_t){.generation = 1, .next_free = i + 1 < n ? i + 1 : UINT32_MAX};
    }
    worker->first_free = worker->n_slots;
    worker->slots = slots;
    worker->n_slots = n;
    return true;
}

static bool take_id(dist_request_t *request)
{
    dist_worker_t *worker = request->worker;
    uint32_t i;

    if (worker->first_free == UINT32_MAX && !grow_slots(worker)) {
        return false;
    }
    i = worker->first_free;
    worker->first_free = worker->slots[i].next_free;
    worker->slots[i].request = request;
    request->id = (uint64_t)worker->slots[i].generation << 32 | i;
    return true;
}

static void give_id_back(dist_request_t *request)
{
    dist_worker_t *worker = request->worker;
    uint32_t i = (uint32_t)request->id;

    if (request->id == 0) {
        return;
    }
    worker->slots[i].request = NULL;
    worker->slots[i].generation++;
    worker->slots[i].generation += worker->slots[i].generation == 0; /* so that no id is 0 */
    worker->slots[i].next_free = worker->first_free;
    worker->first_free = i;
    request->id = 0;
}

/* NULL: nobody waits for this any more. */
static dist_request_t *find_request(const dist_worker_t *worker, uint64_t id, uint32_t server)
{
    uint32_t i = (uint32_t)id;
    dist_request_t *request = i < worker->n_slots ? worker->slots[i].request : NULL;

    return request != NULL && request->id == id && request->server == server ? request : NULL;
}

/* ---- Ends -------------------------------------------------------------------------------------------- */

static bool sends_elements(const dist_request_t *request)
{
    return request->kind == DIST_DEFINE || request->kind == DIST_PUSH ||
           request->kind == DIST_PUSHPULL || request->kind == DIST_PUSH_ROWS ||
           request->kind == DIST_PULL_ROWS;
}

/* Nothing is left to be sent or read. */
static bool is_idle(const dist_request_t *request)
{
    return request->started && request->item.place == 0 && !request->parked && request->n_held == 0;
}

/* Are the values of the request's group still read by any of its requests? */
static void look_at_values(dist_group_t *group)
{
    for (uint32_t i = 0; i < group->n_requests; i++) {
        if (!is_idle(&group->requests[i])) {
            return;
        }
    }
    dist_group_has_read(group);
}

/* After something has moved: what can be said of the request? */
static void look_at(dist_request_t *request)
{
    dist_group_t *group = request->group;

    request->active_ns = dist_now_ns();
    if (!is_idle(request)) {
        return;
    }
    if (group != NULL && sends_elements(request)) {
        look_at_values(group);
    }
    if (request->ended && !request->counted) {
        request->counted = true;
        if (group != NULL && --group->n_left == 0) {
            dist_group_ended(group);
        }
    }
}

/* The request may be gone after it, as after all that ends one. */
static void end(dist_request_t *request)
{
    request->ended = true;
    give_id_back(request);
    look_at(request);
}

static void fail_request(dist_request_t *request, kvs_status_t status, const char *text)
{
    if (!request->ended && request->group != NULL) {
        dist_group_fail(request->group, status, text);
    } else if (!request->ended) {
        dist_call_ended(request->call, status, text);
    }
    end(request);
}

/* ---- Sending ----------------------------------------------------------------------------------------- */

static void body_is_read(void *arg, kvs_status_t status, const char *text)
{
    dist_request_t *request = arg;
    dist_worker_t *worker = request->worker;

    pthread_mutex_lock(&worker->lock);
    request->n_held--;
    if (status != KVS_OK) {
        fail_request(request, status, text);
    } else {
        look_at(request);
    }
    dist_worker_settle(worker);
}

static const kvs_net_peer_t *server_of(const dist_worker_t *worker, uint32_t server)
{
    return kvs_net_node_peer(worker->node, KVS_NET_SERVER, (int)server);
}

static kvs_status_t send_batch(dist_worker_t *worker, uint32_t server)
{
    kvs_net_send_t net = KVS_NET_SEND_INIT;

    net.store = worker->number;
    return dist_batch_send(&worker->wires[server].batch, worker->node, server_of(worker, server),
                           net);
}

static bool is_small(const dist_request_t *request, const kvs_net_send_t *net)
{
    return request->group != NULL && net->done == NULL && net->flags == 0 &&
           net->n_body_bytes <= DIST_BATCH_SMALL;
}

/* Small messages are put together until the end of the turn, big ones go after them. */
static kvs_status_t send(dist_request_t *request, const dist_header_t *header, kvs_net_send_t *net)
{
    dist_worker_t *worker = request->worker;
    dist_batch_t *batch = &worker->wires[request->server].batch;
    uint8_t bytes[DIST_MAX_HEADER_BYTES];
    bool small = is_small(request, net), urgent = (net->flags & KVS_NET_URGENT) != 0;
    kvs_status_t status = KVS_OK;

    net->size = (uint32_t)sizeof(*net);
    net->store = worker->number;
    net->header = bytes;
    net->n_header_bytes = dist_header_encode(header, bytes);
    if (small && batch->bytes.n + net->n_body_bytes <= DIST_BATCH_BYTES &&
        dist_batch_add(batch, net)) {
        return KVS_OK;
    }
    if (!urgent) {
        status = send_batch(worker, request->server);
    }
    if (status != KVS_OK || (small && dist_batch_add(batch, net))) {
        return status;
    }
    return kvs_net_send(worker->node, server_of(worker, request->server), net);
}

static dist_header_t header_of(const dist_request_t *request)
{
    dist_header_t header = {.kind = request->kind, .request = request->id};

    if (request->group != NULL) {
        const dist_key_t *key = request->group->pub->key->state;

        header.key = key->record.id;
        header.digest = key->digest;
        header.dtype = (uint8_t)key->record.dtype;
        header.round = request->group->round;
        header.priority = request->group->priority;
        header.timeout_ms = request->worker->timeout_ms;
    }
    return header;
}

/* The record of the key, as a body. */
static kvs_status_t send_record(dist_request_t *request)
{
    const dist_key_t *key = request->group->pub->key->state;
    dist_header_t header = header_of(request);
    kvs_net_send_t net = KVS_NET_SEND_INIT;
    dist_bytes_t body = DIST_BYTES_INIT;
    kvs_status_t status;

    if (request->kind == DIST_DEFINE && request->group->rows != NULL) {
        header.n = request->n;
    }
    header.first = request->kind == DIST_DEFINE ? 0 : key->generation;
    dist_record_encode(&key->record, &body);
    net.body = body.data;
    net.n_body_bytes = body.n;
    status = body.failed ? kvs_fail(KVS_ERR_NO_MEMORY, "no memory for the record of a key")
                         : send(request, &header, &net);
    dist_bytes_release(&body);
    return status;
}

static kvs_status_t send_call(dist_request_t *request)
{
    const dist_ask_t *ask = request->call->ask;
    dist_header_t header = ask->header;
    kvs_net_send_t net = KVS_NET_SEND_INIT;

    header.request = request->id;
    net.body = ask->body;
    net.n_body_bytes = ask->n_body;
    return send(request, &header, &net);
}

static kvs_status_t send_refusal(dist_request_t *request)
{
    const dist_group_t *group = request->group;
    dist_header_t header = header_of(request);
    kvs_net_send_t net = KVS_NET_SEND_INIT;

    header.status = group->refused;
    net.body = group->refusal;
    net.n_body_bytes = group->refusal == NULL ? 0 : strlen(group->refusal);
    return send(request, &header, &net);
}

static void set_update(const dist_request_t *request, dist_header_t *header)
{
    const kvs_opt_update_t *update = &request->group->host.update;

    header->optimizer = request->group->optimizer;
    if (header->optimizer == 0) {
        return;
    }
    header->attrs = request->group->attrs;
    header->states = update->states | (update->lazy ? DIST_LAZY : 0);
    for (uint32_t i = 0; i < KVS_OPTIMIZER_MAX_SCALARS; i++) {
        uint64_t bits;

        header->scalars[i] = update->scalars[i];
        memcpy(&bits, &update->scalars[i], sizeof(bits));
        header->n_scalars = bits != 0 ? i + 1 : header->n_scalars;
    }
}

/* The next part of the shard's elements. Big ones are read where they lie. */
static kvs_status_t send_elements(dist_request_t *request)
{
    const dist_group_t *group = request->group;
    dist_header_t header = header_of(request);
    kvs_net_send_t net = KVS_NET_SEND_INIT;
    int64_t n_part = dist_part_elems(header.dtype, request->worker->slice),
            n_left = request->n - request->n_sent;
    bool copied = dist_pack_bytes(group, request->n) <= DIST_COPY_BYTES;
    kvs_status_t status;

    header.first = request->n_sent;
    header.n = n_left < n_part ? n_left : n_part;
    if (request->kind == DIST_DEFINE) {
        header.kind = DIST_VALUE;
        header.round = 0;
    } else {
        header.codec = group->codec;
        set_update(request, &header);
    }
    net.n_body_bytes = dist_pack_bytes(group, header.n);
    if (header.n > 0) {
        net.body = group->source + dist_pack_bytes(group, request->first + request->n_sent);
    }
    if (!copied) {
        net.done = body_is_read;
        net.arg = request;
        net.flags = header.n == n_left && group->verb == KVS_VERB_PUSH ? KVS_NET_ACK_NOW : 0;
    }
    status = send(request, &header, &net);
    if (status == KVS_OK) {
        request->n_sent += header.n;
        request->n_held += !copied;
    }
    return status;
}

static void free_body(void *arg, kvs_status_t status, const char *text)
{
    (void)status;
    (void)text;
    free(arg);
}

/* The next part of the rows, or of the ids of those asked for. */
static kvs_status_t send_rows(dist_request_t *request)
{
    dist_header_t header = header_of(request);
    kvs_net_send_t net = KVS_NET_SEND_INIT;
    kvs_status_t status = dist_sparse_make_body(request);

    if (status != KVS_OK) {
        return status;
    }
    header.first = request->n_sent;
    header.n = dist_sparse_part(request);
    if (request->kind == DIST_DEFINE) {
        header.kind = DIST_VALUE_ROWS;
        header.round = 0;
    } else if (request->kind == DIST_PUSH_ROWS) {
        set_update(request, &header);
    }
    net.body = request->body;
    net.n_body_bytes = request->n_body;
    net.done = free_body;
    net.arg = request->body;
    status = send(request, &header, &net);
    if (status == KVS_OK) {
        request->body = NULL;
        request->n_sent += header.n;
    }
    return status;
}

static kvs_status_t send_next(dist_request_t *request)
{
    switch (request->kind) {
    case DIST_PUSH_ROWS:
    case DIST_PULL_ROWS:
        return send_rows(request);
    case DIST_PUSH:
    case DIST_PUSHPULL:
        return send_elements(request);
    case DIST_REFUSAL:
        return send_refusal(request);
    case DIST_DEFINE:
        if (!request->opened) {
            return send_record(request);
        }
        return request->group->rows != NULL ? send_rows(request) : send_elements(request);
    case DIST_PUBLISH:
    case DIST_LOOKUP:
        return send_record(request);
    case DIST_PULL: {
        dist_header_t header = header_of(request);
        kvs_net_send_t net = KVS_NET_SEND_INIT;

        return send(request, &header, &net);
    }
    default:
        return send_call(request);
    }
}

static bool all_is_sent(const dist_request_t *request)
{
    return request->opened && (!sends_elements(request) || request->n_sent == request->n);
}

static dist_key_t *key_of(const dist_request_t *request)
{
    return request->group == NULL ? NULL : request->group->pub->key->state;
}

static void leave_queue(dist_request_t *request)
{
    dist_key_t *key = key_of(request);

    if (request->item.place == 0) {
        return;
    }
    dist_queue_remove(&request->worker->wires[request->server].queue, &request->item);
    if (key != NULL) {
        key->n_queued--;
    }
}

/* Calls come after what was issued before them. */
static bool join_queue(dist_request_t *request)
{
    dist_worker_t *worker = request->worker;
    dist_queue_t *queue = &worker->wires[request->server].queue;
    dist_key_t *key = key_of(request);
    int32_t priority = key == NULL ? dist_queue_lowest(queue, 0) : request->group->priority;
    uint64_t order = key == NULL ? worker->last_order : request->group->op->pub->sequence;

    if (!dist_queue_add(queue, &request->item, priority, order)) {
        return false;
    }
    if (key != NULL && (key->n_queued++ == 0 || key->queued_priority > priority)) {
        key->queued_priority = priority;
    }
    return true;
}

static void raise_in(dist_queue_t *queue, const dist_key_t *key, int32_t priority)
{
    for (dist_item_t *item = queue->oldest; item != NULL; item = item->newer) {
        if (key_of((dist_request_t *)item) == key) {
            dist_queue_raise(queue, item, priority);
        }
    }
}

void dist_requests_raise(dist_worker_t *worker, dist_key_t *key, int32_t priority)
{
    if (key->n_queued == 0 || key->queued_priority >= priority) {
        return;
    }
    key->queued_priority = priority;
    for (int s = 0; s < worker->n_servers; s++) {
        raise_in(&worker->wires[s].queue, key, priority);
    }
}

/* ---- Elements that come from devices ------------------------------------------------------------------- */

#define NOT_ARRIVED 1 /* no kvs_status_t, which are negative */

/* Whether the elements of the next message are there: 0, NOT_ARRIVED, or the failure of what brings them. */
static kvs_status_t look_for_elements(const dist_request_t *request)
{
    const dist_group_t *group = request->group;
    size_t n_arrived;
    kvs_status_t status;

    if (group == NULL || group->source == NULL || group->sum != NULL ||
        (request->kind != DIST_PUSH && request->kind != DIST_PUSHPULL)) {
        return KVS_OK;
    }
    status = kvs_devhost_arrived(group->op->pub, group->pub, &n_arrived);
    if (status != KVS_OK || n_arrived == SIZE_MAX) {
        return status;
    }
    int64_t n_part =
        dist_part_elems(kvs_dtype_index(group->pub->key->dtype), request->worker->slice);
    int64_t n_left = request->n - request->n_sent;
    int64_t end = request->first + request->n_sent + (n_left < n_part ? n_left : n_part);

    return dist_pack_bytes(group, end) <= n_arrived ? KVS_OK : (kvs_status_t)NOT_ARRIVED;
}

static void park(dist_request_t *request)
{
    leave_queue(request);
    request->parked = true;
    request->next_parked = request->worker->parked;
    request->worker->parked = request;
}

static void unpark(dist_request_t *request)
{
    dist_request_t **at = &request->worker->parked;

    while (request->parked && *at != request) {
        at = &(*at)->next_parked;
    }
    if (request->parked) {
        *at = request->next_parked;
        request->parked = false;
    }
}

static bool is_push(const dist_request_t *request)
{
    return request->kind == DIST_PUSH || request->kind == DIST_PUSHPULL ||
           request->kind == DIST_PUSH_ROWS;
}

/* What is not sent yet never will be: of a push the server is told so, beyond what it has room for. */
static void give_up(dist_request_t *request, kvs_status_t status, const char *text)
{
    dist_header_t header = header_of(request);
    kvs_net_send_t net = KVS_NET_SEND_INIT;

    if (request->item.place == 0 && !request->parked) {
        return;
    }
    leave_queue(request);
    unpark(request);
    if (is_push(request)) {
        header.kind = DIST_REFUSAL;
        header.status = status;
        net.flags = KVS_NET_URGENT;
        net.body = text;
        net.n_body_bytes = strlen(text);
        (void)send(request, &header, &net); /* one that is gone needs to know nothing */
    }
}

/* What was to be sent never comes. */
static void fail_to_arrive(dist_request_t *request, kvs_status_t status)
{
    char text[512];
    int n_key = snprintf(text, sizeof(text), "%s: ", DIST_KEY_TEXT(&key_of(request)->record));

    n_key = n_key < (int)sizeof(text) ? n_key : 0;
    snprintf(text + n_key, sizeof(text) - (size_t)n_key, "%s", kvs_plugin_host->last_error());
    give_up(request, status, text + n_key); /* servers name the key themselves */
    fail_request(request, status, text);
}

/* Send its next message. False: the server has to receive first. */
static bool send_one(dist_request_t *request)
{
    kvs_status_t status = look_for_elements(request);
    char *text;

    if ((int)status == NOT_ARRIVED) {
        park(request);
        return true;
    }
    if (status != KVS_OK) {
        fail_to_arrive(request, status);
        return true;
    }
    status = send_next(request);
    if (status == KVS_NET_AGAIN) {
        request->worker->wires[request->server].full = true;
        return false;
    }
    dist_queue_end_turn(&request->worker->wires[request->server].queue);
    if (status == KVS_OK) {
        request->opened = true;
        request->active_ns = dist_now_ns();
        if (all_is_sent(request)) {
            leave_queue(request);
            look_at(request);
        }
        return true;
    }
    text = strdup(kvs_plugin_host->last_error());
    leave_queue(request);
    fail_request(request, status, text == NULL ? "no memory" : text);
    free(text);
    return true;
}

/* Send what was put together. If the server can't be reached any more, all that wait for it fail. */
static void send_rest(dist_worker_t *worker, uint32_t server)
{
    kvs_status_t status = send_batch(worker, server);
    char *text;

    worker->wires[server].full = status == KVS_NET_AGAIN;
    if (status != KVS_OK && status != KVS_NET_AGAIN) {
        text = strdup(kvs_plugin_host->last_error());
        dist_requests_fail(worker, (int)server, status, text == NULL ? "no memory" : text);
        free(text);
    }
}

/* Not recursive: what ends here may put new requests into this queue. */
static void pump(dist_worker_t *worker, uint32_t server)
{
    dist_wire_t *wire = &worker->wires[server];
    dist_item_t *item;

    if (wire->pumping || wire->full || worker->n_holds > 0) {
        return;
    }
    wire->pumping = true;
    do {
        while ((item = dist_queue_next(&wire->queue)) != NULL && send_one((dist_request_t *)item)) {
        }
        if (!wire->full && !wire->lets_wait) {
            send_rest(worker, server);
        }
    } while (!wire->full && wire->queue.n > 0);
    wire->pumping = false;
}

void dist_requests_hold(dist_worker_t *worker)
{
    worker->n_holds++;
}

static void pass_by(void *arg)
{
    dist_worker_t *worker = arg;

    pthread_mutex_lock(&worker->lock);
    worker->passes_by = false;
    for (int s = 0; s < worker->n_servers; s++) {
        pump(worker, (uint32_t)s);
    }
    dist_worker_settle(worker);
}

static bool set_waiting(dist_worker_t *worker, bool lets_wait)
{
    bool any = false;

    for (int s = 0; s < worker->n_servers; s++) {
        worker->wires[s].lets_wait = lets_wait && worker->wires[s].by_socket;
        any |= worker->wires[s].by_socket;
    }
    return any;
}

/* By socket a message costs several times what its elements do: the first of a row goes at once, and what
 * comes until the I/O thread has come by goes together. By memory it would only come later. */
void dist_requests_let_go_soon(dist_worker_t *worker)
{
    bool any = set_waiting(worker, worker->passes_by);

    dist_requests_let_go(worker);
    (void)set_waiting(worker, false);
    if (any && !worker->passes_by) {
        worker->passes_by = kvs_net_node_call(worker->node, pass_by, worker) == KVS_OK;
    }
}

void dist_requests_let_go(dist_worker_t *worker)
{
    worker->n_holds--;
    for (int s = 0; s < worker->n_servers; s++) {
        pump(worker, (uint32_t)s);
    }
}

void dist_request_start(dist_request_t *request)
{
    dist_worker_t *worker = request->worker;

    request->started = true;
    request->active_ns = dist_now_ns();
    if (request->server >= (uint32_t)worker->n_servers || !take_id(request) ||
        !join_queue(request)) {
        fail_request(request, KVS_ERR_NO_MEMORY, "no memory for a request");
        return;
    }
    pump(worker, request->server);
}

static void take_arrived(void *arg)
{
    dist_worker_t *worker = arg;

    pthread_mutex_lock(&worker->lock);
    worker->is_called = false;
    dist_requests_hold(worker);
    for (dist_request_t **at = &worker->parked; *at != NULL;) {
        dist_request_t *request = *at;
        kvs_status_t status = look_for_elements(request);

        if ((int)status == NOT_ARRIVED) {
            at = &request->next_parked;
        } else if (status != KVS_OK) {
            fail_to_arrive(request, status);
        } else {
            unpark(request);
            request->active_ns = dist_now_ns();
            if (!join_queue(request)) {
                fail_request(request, KVS_ERR_NO_MEMORY, "no memory for a request");
            }
        }
    }
    dist_requests_let_go(worker);
    dist_worker_settle(worker);
}

/* The I/O thread sends it: it alone tells the core of ends. */
void dist_worker_arrived(dist_worker_t *worker)
{
    bool calls;

    pthread_mutex_lock(&worker->lock);
    calls = worker->parked != NULL && !worker->is_called;
    worker->is_called |= calls;
    pthread_mutex_unlock(&worker->lock);
    if (calls) { /* without that thread all has failed */
        (void)kvs_net_node_call(worker->node, take_arrived, worker);
    }
}

void dist_request_withdraw(dist_request_t *request)
{
    give_id_back(request);
    leave_queue(request);
}

void dist_requests_send(dist_worker_t *worker, int server)
{
    pthread_mutex_lock(&worker->lock);
    if (server >= 0 && server < worker->n_servers) {
        worker->wires[server].full = false;
        pump(worker, (uint32_t)server);
    }
    dist_worker_settle(worker);
}

/* ---- Failures of many -------------------------------------------------------------------------------- */

static void unpark_all(dist_worker_t *worker, int server)
{
    for (dist_request_t **at = &worker->parked; *at != NULL;) {
        dist_request_t *request = *at;

        if (request->server != (uint32_t)server) {
            at = &request->next_parked;
            continue;
        }
        unpark(request);
        if (request->ended) {
            look_at(request);
        }
    }
}

static void empty_queue(dist_worker_t *worker, int server)
{
    dist_queue_t *queue = &worker->wires[server].queue;

    unpark_all(worker, server);
    while (queue->oldest != NULL) {
        dist_request_t *request = (dist_request_t *)queue->oldest;

        leave_queue(request);
        if (request->ended) {
            look_at(request);
        }
    }
    dist_batch_release(&worker->wires[server].batch);
    worker->wires[server].full = false; /* whatever comes now is to hear why it fails */
}

void dist_requests_fail(dist_worker_t *worker, int server, kvs_status_t status, const char *text)
{
    for (int s = 0; s < worker->n_servers; s++) {
        if (server < 0 || s == server) {
            empty_queue(worker, s);
        }
    }
    for (uint32_t i = 0; i < worker->n_slots; i++) {
        dist_request_t *request = worker->slots[i].request;

        if (request != NULL && (server < 0 || request->server == (uint32_t)server)) {
            fail_request(request, status, text);
        }
    }
}

size_t dist_requests_fail_key(dist_worker_t *worker, const dist_key_t *key, kvs_status_t status,
                              const char *text)
{
    size_t n = 0;

    for (uint32_t i = 0; i < worker->n_slots; i++) {
        dist_request_t *request = worker->slots[i].request;

        if (request != NULL && request->group != NULL && request->group->pub->key->state == key) {
            fail_request(request, status, text);
            n++;
        }
    }
    return n;
}

/* Nobody waits for it, and a server that is gone has forgotten all. */
void dist_requests_undo(const dist_group_t *group)
{
    dist_worker_t *worker = group->op->worker;
    const dist_key_t *key = group->pub->key->state;

    for (uint32_t i = 0; i < key->record.n_shards; i++) {
        dist_request_t request = {.group = (dist_group_t *)(uintptr_t)group, /* only read */
                                  .worker = worker,
                                  .kind = DIST_DELETE,
                                  .server = key->record.shards[i].server};
        dist_header_t header = header_of(&request);
        kvs_net_send_t net = KVS_NET_SEND_INIT;

        header.first = DIST_DELETE_FAILED;
        (void)send(&request, &header, &net);
        pump(worker, request.server);
    }
}

int64_t dist_patience_ms(int64_t timeout_ms)
{
    return timeout_ms + (timeout_ms < 5000 ? timeout_ms : 5000) +
           (timeout_ms < 2000 ? timeout_ms : 2000) / 2;
}

void dist_requests_expire(dist_worker_t *worker)
{
    int64_t now = dist_now_ns(), patience = dist_patience_ms(worker->timeout_ms) * 1000000;

    for (uint32_t i = 0; i < worker->n_slots && worker->timeout_ms > 0; i++) {
        dist_request_t *request = worker->slots[i].request;

        if (request != NULL && now - request->active_ns > patience) {
            const kvs_net_peer_t *peer =
                kvs_net_node_peer(worker->node, KVS_NET_SERVER, (int)request->server);
            const dist_key_t *key = key_of(request);
            char text[512];

            kvs_net_print(text, sizeof(text),
                          "%s%s%s has not answered within %.1f s; it is alive, but busy or stuck",
                          key == NULL ? "" : DIST_KEY_TEXT(&key->record), key == NULL ? "" : ": ",
                          peer->label, (double)patience / 1e9);
            give_up(request, KVS_ERR_TIMEOUT, text);
            fail_request(request, KVS_ERR_TIMEOUT, text);
        }
    }
}

/* ---- Answers ----------------------------------------------------------------------------------------- */

static const char *copy_text(const kvs_net_message_t *message, char *text, size_t n_bytes)
{
    snprintf(text, n_bytes, "%.*s", (int)message->n_body_bytes, (const char *)message->body);
    return text;
}

static void fail_answer(dist_request_t *request, const kvs_net_message_t *message)
{
    char text[512];

    snprintf(text, sizeof(text), "%s sent an answer that does not fit the request",
             message->from->label);
    fail_request(request, KVS_ERR_PEER, text);
}

static void take_done(dist_request_t *request, const dist_header_t *header,
                      const kvs_net_message_t *message)
{
    char text[4096];

    if (header->status != KVS_OK) {
        fail_request(request, header->status, copy_text(message, text, sizeof(text)));
    } else if (request->kind == DIST_PUSHPULL || request->kind == DIST_PULL ||
               request->kind == DIST_LOOKUP || request->kind == DIST_PULL_ROWS) {
        fail_answer(request, message);
    } else {
        if (request->call != NULL) {
            request->call->ask->answer = *header;
            dist_call_ended(request->call, KVS_OK, "");
        }
        end(request);
    }
}

/* Writing takes long, so it is done without the lock. A sender on another thread may fail the request
 * meanwhile, but its group does not end before the request is let go. */
static void write_without_lock(dist_request_t *request,
                               void (*write)(const dist_group_t *group, int64_t first, int64_t n,
                                             const void *data),
                               int64_t first, const dist_header_t *header, const void *data)
{
    dist_worker_t *worker = request->worker;

    request->n_held++;
    pthread_mutex_unlock(&worker->lock);
    write(request->group, first + header->first, header->n, data);
    pthread_mutex_lock(&worker->lock);
    request->n_held--;
    request->n_got += header->n;
    if (request->n_got == request->n && !request->ended) {
        end(request);
    } else {
        look_at(request);
    }
}

static void take_part(dist_request_t *request, const dist_header_t *header,
                      const kvs_net_message_t *message)
{
    const dist_group_t *group = request->group;
    bool pulls = request->kind == DIST_PUSHPULL || request->kind == DIST_PULL;

    if (!pulls || header->first != request->n_got || header->n > request->n - request->n_got ||
        header->dtype != kvs_dtype_index(group->pub->key->dtype) ||
        (header->n == 0 && request->n > 0)) {
        fail_answer(request, message);
        return;
    }
    write_without_lock(request, dist_group_write, request->first, header, message->body);
}

/* The same of rows asked for. */
static void take_rows(dist_request_t *request, const dist_header_t *header,
                      const kvs_net_message_t *message)
{
    const dist_group_t *group = request->group;

    if (request->kind != DIST_PULL_ROWS || header->first != request->n_got ||
        header->n > request->n_sent - request->n_got ||
        header->dtype != kvs_dtype_index(group->pub->key->dtype) ||
        message->n_body_bytes != (size_t)header->n * group->rows->row_bytes) {
        fail_answer(request, message);
        return;
    }
    write_without_lock(request, dist_sparse_write, request->rows_first, header, message->body);
}

static bool fits(const dist_worker_t *worker, const dist_record_t *record)
{
    for (uint32_t i = 0; i < record->n_shards; i++) {
        if (record->shards[i].server >= (uint32_t)worker->n_servers) {
            return false;
        }
    }
    return record->n_shards > 0 && record->id != 0;
}

static void take_record(dist_request_t *request, const kvs_net_message_t *message)
{
    dist_key_t *key = request->group == NULL ? NULL : request->group->pub->key->state;
    dist_record_t record;

    if (request->kind != DIST_LOOKUP ||
        dist_record_decode(message->body, message->n_body_bytes, &record) != KVS_OK) {
        fail_answer(request, message);
        return;
    }
    if (!fits(request->worker, &record) || dist_record_digest(&record) != key->digest) {
        dist_record_release(&record);
        fail_answer(request, message);
        return;
    }
    dist_record_release(&key->record);
    key->record = record;
    end(request);
}

static void take_states(dist_request_t *request, const dist_header_t *header,
                        const kvs_net_message_t *message)
{
    dist_ask_t *ask = request->call == NULL ? NULL : request->call->ask;

    if (ask == NULL || ask->reply == NULL) {
        fail_answer(request, message);
        return;
    }
    ask->answer = *header;
    dist_put_bytes(ask->reply, message->body, message->n_body_bytes);
    if (ask->reply->failed) {
        fail_request(request, KVS_ERR_NO_MEMORY, "no memory for an answer");
        return;
    }
    dist_call_ended(request->call, KVS_OK, "");
    end(request);
}

static void take_answer(dist_worker_t *worker, const dist_header_t *header,
                        const kvs_net_message_t *message)
{
    dist_request_t *request;

    pthread_mutex_lock(&worker->lock);
    request = find_request(worker, header->request, (uint32_t)message->from->rank);
    if (request != NULL && header->kind == DIST_DONE) {
        take_done(request, header, message);
    } else if (request != NULL && header->kind == DIST_PART) {
        take_part(request, header, message);
    } else if (request != NULL && header->kind == DIST_ROWS) {
        take_rows(request, header, message);
    } else if (request != NULL && header->kind == DIST_PATIENCE) {
        request->active_ns = dist_now_ns();
    } else if (request != NULL && header->kind == DIST_STATES) {
        take_states(request, header, message);
    } else if (request != NULL) {
        take_record(request, message);
    }
    dist_worker_settle(worker);
}

/* Owns the message. */
static void take_message(dist_worker_t *worker, kvs_net_message_t *message)
{
    dist_header_t header;
    char text[4096];

    if (message->from->role != KVS_NET_SERVER ||
        dist_header_decode(message->header, message->n_header_bytes, message->n_body_bytes,
                           &header) != KVS_OK) {
        kvs_log(KVS_LOG_WARN, "dist", "a message from %s is dropped: it is malformed",
                message->from->label);
    } else if (header.kind == DIST_TELL) {
        dist_worker_tell(worker, header.key, header.status, copy_text(message, text, sizeof(text)));
    } else if (header.kind == DIST_DONE || header.kind == DIST_PART || header.kind == DIST_RECORD ||
               header.kind == DIST_ROWS || header.kind == DIST_STATES ||
               header.kind == DIST_PATIENCE) {
        take_answer(worker, &header, message);
    } else {
        kvs_log(KVS_LOG_WARN, "dist", "a message of kind %u from %s is not for workers: dropped",
                (unsigned)header.kind, message->from->label);
    }
    dist_message_release(message);
}

/* What is sent on the way, because something has ended, goes together too. */
static void take_batch(dist_worker_t *worker, int64_t n, kvs_net_message_t *message)
{
    const char *label = message->from->label;
    dist_unpacked_t *unpacked;

    if (dist_batch_open(message, n, &unpacked) != KVS_OK) {
        kvs_log(KVS_LOG_WARN, "dist", "messages from %s are dropped: %s", label,
                kvs_plugin_host->last_error());
        return;
    }
    pthread_mutex_lock(&worker->lock);
    dist_requests_hold(worker);
    pthread_mutex_unlock(&worker->lock);
    for (size_t i = 0; i < unpacked->n; i++) {
        take_message(worker, unpacked->messages[i]);
    }
    free(unpacked);
    pthread_mutex_lock(&worker->lock);
    dist_requests_let_go(worker);
    dist_worker_settle(worker);
}

void dist_worker_message(void *arg, kvs_net_message_t *message)
{
    dist_header_t header;

    if (message->from->role == KVS_NET_SERVER &&
        dist_header_decode(message->header, message->n_header_bytes, message->n_body_bytes,
                           &header) == KVS_OK &&
        header.kind == DIST_BATCH) {
        take_batch(arg, header.n, message);
    } else {
        take_message(arg, message);
    }
}
