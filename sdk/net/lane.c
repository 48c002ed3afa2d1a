/* SPDX-License-Identifier: Apache-2.0 */
/* lane.c - the sending half of a connection: numbers, window, and memory that is lent to ZeroMQ until
 * the peer has received it. Small bodies are copied beside their header into one frame; large ones
 * are a second frame that points to the sender's memory. */
#include "node.h"

#include <stdlib.h>
#include <string.h>

#define INLINE_MAX     8192 /* larger ones get memory of their own at the receiver, which is aligned */
#define MAX_ON_THE_WAY 65536 /* messages, however small */

kvs_status_t net_lane_init(net_lane_t *lane, net_peer_t *peer, uint32_t index)
{
    lane->peer = peer;
    lane->index = index;
    lane->link = net_random();
    pthread_mutex_init(&lane->lock, NULL);
    net_cond_init(&lane->room);
    return KVS_OK;
}

void net_lane_release(net_lane_t *lane)
{
    pthread_cond_destroy(&lane->room);
    pthread_mutex_destroy(&lane->lock);
}

/* ---- The end of a record --------------------------------------------------------------------- */

static void end_record(kvs_net_node_t *node, net_record_t *record)
{
    if (record->done != NULL) {
        record->done(record->arg, record->status, record->text);
    }
    free(record);
    atomic_fetch_sub_explicit(&node->n_records, 1, memory_order_release);
}

/* On the I/O thread: the link lets go of records, which ZeroMQ may still be reading. */
static void end_records(kvs_net_node_t *node, net_record_t *record, kvs_status_t status,
                        const char *text)
{
    while (record != NULL) {
        net_record_t *next = record->next;

        record->status = status;
        record->text = text;
        if (net_record_drop(record)) {
            end_record(node, record);
        }
        record = next;
    }
}

/* ZeroMQ's, on any thread: it has read a body for the last time. */
static void let_go(void *data, void *hint)
{
    net_record_t *record = hint;
    kvs_net_node_t *node = record->owner;

    (void)data;
    if (!net_record_drop(record)) {
        return;
    }
    record->next = atomic_load_explicit(&node->finished, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&node->finished, &record->next, record,
                                                  memory_order_release, memory_order_relaxed)) {
    }
    net_node_ring(node);
}

void net_lane_end_finished(kvs_net_node_t *node)
{
    net_record_t *record = atomic_exchange_explicit(&node->finished, NULL, memory_order_acquire);

    while (record != NULL) {
        net_record_t *next = record->next;

        end_record(node, record);
        record = next;
    }
}

/* ---- Frames ---------------------------------------------------------------------------------- */

static void post_locked(net_lane_t *lane, const net_wire_t *wire)
{
    unsigned char bytes[NET_WIRE_MAX_TEXT + 256];
    net_frame_t frame;

    net_wire_encode(wire, NULL, bytes);
    net_wire_stamp(bytes, lane->link, 0, net_inlink_tell(&lane->in));
    if (net_frame_copy(&frame, bytes, net_wire_size(wire, NULL))) {
        (void)net_socket_send(lane->socket, NULL, &frame, 1); /* lost ones are made good */
    }
}

/* Say whose connection this is, and, when asking for an acknowledgement, how far we have come. */
static void post_hello_locked(net_lane_t *lane, uint32_t flags)
{
    const net_peer_t *peer = lane->peer;
    net_wire_t wire = {.type = NET_LANE,
                       .flags = flags,
                       .as.lane = {.token = peer->node->token,
                                   .from = peer->node->incarnation,
                                   .to = peer->incarnation,
                                   .lane = lane->index,
                                   .last = lane->out.n_sent}};

    post_locked(lane, &wire);
}

static kvs_status_t open_locked(net_lane_t *lane)
{
    const net_peer_t *peer = lane->peer;
    const kvs_net_settings_t *settings = &peer->node->job->settings;
    net_socket_options_t options = {.max_frame_bytes = NET_WIRE_MAX_CONTROL,
                                    .heartbeat_ms = settings->heartbeat_ms,
                                    .dead_after_ms = settings->dead_after_ms};
    kvs_status_t status;

    if (lane->socket != NULL) {
        return KVS_OK;
    }
    status = net_connector_open(peer->node->job->context, peer->connect_host, peer->connect_port,
                                &options, &lane->socket);
    if (status == KVS_OK) {
        lane->progress = net_now();
        post_hello_locked(lane, 0);
    }
    return status;
}

/* Two frames at most; what is lent to ZeroMQ holds the record. */
static void transmit_locked(net_lane_t *lane, net_record_t *record)
{
    net_frame_t frames[2];
    bool good;

    net_wire_stamp(record->frame, lane->link, record->seq, net_inlink_tell(&lane->in));
    if (!net_frame_copy(&frames[0], record->frame, record->n_frame)) {
        return; /* as if it were lost: it is sent again */
    }
    if (record->n_body == 0) {
        (void)net_socket_send(lane->socket, NULL, frames, 1);
        return;
    }
    if (lane->peer->by_name) { /* the receiver may keep it for long */
        good = net_frame_copy(&frames[1], record->body, record->n_body);
    } else {
        atomic_fetch_add_explicit(&record->holds, 1, memory_order_relaxed);
        good = net_frame_lend(&frames[1], record->body, record->n_body, let_go, record);
        if (!good) {
            (void)net_record_drop(record); /* not the last: the link has one */
        }
    }
    if (good) {
        (void)net_socket_send(lane->socket, NULL, frames, 2);
    } else {
        net_frame_release(&frames[0]);
    }
}

/* ---- Sending --------------------------------------------------------------------------------- */

static net_record_t *new_record(net_lane_t *lane, const kvs_net_send_t *send)
{
    kvs_net_node_t *node = lane->peer->node;
    size_t n_inline = send->n_body_bytes <= INLINE_MAX ? send->n_body_bytes : 0;
    size_t n_frame = net_wire_data_size(send->n_header_bytes, n_inline);
    bool copy = n_inline == 0 && send->done == NULL;
    net_record_t *record = net_record_new(n_frame + (copy ? send->n_body_bytes : 0));
    net_wire_t wire = {.type = NET_DATA,
                       .flags = (send->flags & KVS_NET_ACK_NOW) != 0 ? NET_ACK_NOW : 0,
                       .as.data = {.store = send->store,
                                   .n_header = (uint32_t)send->n_header_bytes,
                                   .n_body = send->n_body_bytes,
                                   .n_inline = (uint32_t)n_inline}};

    if (record == NULL) {
        return NULL;
    }
    net_wire_encode(&wire, NULL, record->frame);
    memset(record->frame + NET_WIRE_DATA_BYTES, 0, n_frame - n_inline - NET_WIRE_DATA_BYTES);
    if (send->n_header_bytes > 0) {
        memcpy(record->frame + NET_WIRE_DATA_BYTES, send->header, send->n_header_bytes);
    }
    if (n_inline > 0) {
        memcpy(record->frame + n_frame - n_inline, send->body, n_inline);
    }
    if (copy && send->n_body_bytes > 0) {
        memcpy(record->frame + n_frame, send->body, send->n_body_bytes);
    }
    record->n_frame = n_frame;
    record->n_body = n_inline > 0 ? 0 : send->n_body_bytes;
    record->body = copy ? record->frame + n_frame : send->body;
    record->owner = node;
    record->done = send->done;
    record->arg = send->arg;
    atomic_fetch_add_explicit(&node->n_records, 1, memory_order_relaxed);
    return record;
}

static void discard(kvs_net_node_t *node, net_record_t *record)
{
    free(record);
    atomic_fetch_sub_explicit(&node->n_records, 1, memory_order_release);
}

static kvs_status_t check_size(const net_lane_t *lane, const kvs_net_send_t *send)
{
    uint64_t max = lane->peer->node->job->settings.max_message_bytes;

    if (send->n_header_bytes > KVS_NET_MAX_HEADER || send->n_body_bytes > max) {
        return kvs_fail(KVS_ERR_RANGE,
                        "a message to %s has a header of %zu bytes and a body of %zu; at most %d "
                        "and %llu are allowed",
                        lane->peer->label, send->n_header_bytes, send->n_body_bytes,
                        KVS_NET_MAX_HEADER, (unsigned long long)max);
    }
    return KVS_OK;
}

static kvs_status_t fail_gone(const net_peer_t *peer)
{
    if (atomic_load_explicit(&peer->gone, memory_order_acquire)) {
        return kvs_fail(peer->gone_status, "%s",
                        peer->gone_text == NULL ? peer->label : peer->gone_text);
    }
    return kvs_fail(KVS_ERR_CANCELLED, "this node closes, and sends nothing more to %s",
                    peer->label);
}

static bool is_full_locked(const net_lane_t *lane, const net_record_t *record)
{
    const kvs_net_settings_t *settings = &lane->peer->node->job->settings;
    uint64_t window = settings->window_bytes / (uint64_t)settings->n_lanes;

    return lane->out.first != NULL && (lane->out.n_bytes + net_record_bytes(record) > window ||
                                       lane->out.n_sent - lane->out.n_acked >= MAX_ON_THE_WAY);
}

/* Take the record, or refuse it: with an error, or with AGAIN for lack of room. */
static kvs_status_t take_locked(net_lane_t *lane, net_record_t *record, bool urgent)
{
    kvs_status_t status;

    if (lane->closed) {
        return fail_gone(lane->peer);
    }
    if (!urgent && is_full_locked(lane, record)) {
        return KVS_NET_AGAIN;
    }
    status = open_locked(lane);
    if (status != KVS_OK) {
        return kvs_fail_context(status, "%s", lane->peer->label);
    }
    if (lane->out.first == NULL) {
        lane->progress = net_now();
    }
    net_outlink_add(&lane->out, record);
    transmit_locked(lane, record);
    return KVS_OK;
}

static kvs_status_t prepare(net_lane_t *lane, const kvs_net_send_t *send, net_record_t **ret_record)
{
    kvs_status_t status = check_size(lane, send);
    net_record_t *record = status == KVS_OK ? new_record(lane, send) : NULL;

    if (status == KVS_OK && record == NULL) {
        status = kvs_fail(KVS_ERR_NO_MEMORY, "no memory for a message of %zu bytes to %s",
                          send->n_body_bytes, lane->peer->label);
    }
    *ret_record = record;
    return status;
}

kvs_status_t net_lane_send(net_lane_t *lane, const kvs_net_send_t *send)
{
    net_record_t *record;
    kvs_status_t status = prepare(lane, send, &record);

    if (status != KVS_OK) {
        return status;
    }
    pthread_mutex_lock(&lane->lock);
    status = take_locked(lane, record, (send->flags & KVS_NET_URGENT) != 0);
    lane->wants_room |= status == KVS_NET_AGAIN;
    pthread_mutex_unlock(&lane->lock);
    if (status != KVS_OK) {
        discard(lane->peer->node, record);
    }
    return status;
}

static kvs_status_t fail_no_room(const net_lane_t *lane, int64_t timeout_ms)
{
    char seconds[32];

    if (lane->peer->node->cancelled) {
        return kvs_fail(KVS_ERR_CANCELLED, "cancelled while waiting for %s to receive",
                        lane->peer->label);
    }
    return kvs_fail(KVS_ERR_TIMEOUT,
                    "%s has not received enough within %s for another message; nothing was sent",
                    lane->peer->label, net_seconds(seconds, timeout_ms));
}

kvs_status_t net_lane_send_wait(net_lane_t *lane, const kvs_net_send_t *send, int64_t timeout_ms)
{
    int64_t deadline = net_deadline(timeout_ms);
    net_record_t *record;
    kvs_status_t status = prepare(lane, send, &record);

    if (status != KVS_OK) {
        return status;
    }
    pthread_mutex_lock(&lane->lock);
    lane->n_waiters++;
    status = take_locked(lane, record, (send->flags & KVS_NET_URGENT) != 0);
    while (status == KVS_NET_AGAIN && !lane->peer->node->cancelled && net_now() < deadline) {
        net_cond_wait(&lane->room, &lane->lock, deadline);
        status = take_locked(lane, record, false);
    }
    lane->n_waiters--;
    pthread_mutex_unlock(&lane->lock);
    if (status != KVS_OK) {
        discard(lane->peer->node, record);
    }
    return status == KVS_NET_AGAIN ? fail_no_room(lane, timeout_ms) : status;
}

/* ---- On the I/O thread ----------------------------------------------------------------------- */

static size_t resend_locked(net_lane_t *lane)
{
    size_t n = 0;

    for (net_record_t *record = lane->out.first; record != NULL && lane->socket != NULL;
         record = record->next) {
        transmit_locked(lane, record);
        n++;
    }
    return n;
}

static bool has_room_locked(const net_lane_t *lane)
{
    const kvs_net_settings_t *settings = &lane->peer->node->job->settings;

    return lane->out.n_bytes <= settings->window_bytes / (uint64_t)settings->n_lanes / 2 &&
           lane->out.n_sent - lane->out.n_acked <= MAX_ON_THE_WAY / 2;
}

bool net_lane_acknowledged(net_lane_t *lane, uint64_t ack, bool resend)
{
    bool valid, tell_room = false;
    net_record_t *records;
    size_t n_resent = 0;

    pthread_mutex_lock(&lane->lock);
    records = net_outlink_acknowledge(&lane->out, ack, &valid);
    if (valid && resend) {
        n_resent = resend_locked(lane);
    }
    if (records != NULL && has_room_locked(lane)) {
        tell_room = lane->wants_room;
        lane->wants_room = false;
        if (lane->n_waiters > 0) {
            pthread_cond_broadcast(&lane->room);
        }
    }
    pthread_mutex_unlock(&lane->lock);
    if (n_resent > 0) {
        kvs_log(KVS_LOG_DEBUG, "net", "%s had lost a connection: %zu messages sent again",
                lane->peer->label, n_resent);
    }
    end_records(lane->peer->node, records, KVS_OK, "");
    if (tell_room) {
        net_node_emit(
            lane->peer->node,
            &(kvs_net_event_t){.kind = KVS_NET_EVENT_ROOM, .peer = &lane->peer->pub, .text = ""});
    }
    return valid;
}

static void post(net_lane_t *lane, const net_wire_t *wire)
{
    pthread_mutex_lock(&lane->lock);
    if (!lane->closed && open_locked(lane) == KVS_OK) { /* else the peer is asked for it again */
        post_locked(lane, wire);
    }
    pthread_mutex_unlock(&lane->lock);
}

void net_lane_post_ack(net_lane_t *lane, bool resend)
{
    net_wire_t wire = {
        .type = NET_ACK, .flags = resend ? NET_RESEND : 0, .as.ack = {.lane = lane->index}};

    post(lane, &wire);
}

void net_lane_post_close(net_lane_t *lane, const char *text)
{
    net_wire_t wire = {.type = NET_CLOSE, .as.notice = {.status = KVS_ERR_PEER, .text = text}};

    post(lane, &wire);
}

void net_lane_probe(net_lane_t *lane)
{
    pthread_mutex_lock(&lane->lock);
    if (lane->socket != NULL && lane->out.first != NULL) {
        post_hello_locked(lane, NET_ACK_NOW);
    }
    pthread_mutex_unlock(&lane->lock);
}

bool net_lane_look(net_lane_t *lane, int64_t now, int64_t late_ns, int64_t dead_after_ns)
{
    bool stuck = false;

    pthread_mutex_lock(&lane->lock);
    if (lane->socket != NULL && lane->out.first != NULL) {
        if (lane->out.n_acked != lane->mark) {
            lane->progress = now;
        } else {
            post_hello_locked(lane, NET_ACK_NOW);
            lane->progress += late_ns;
            stuck = net_is_silent(lane->progress, now, dead_after_ns);
        }
    }
    lane->mark = lane->out.n_acked;
    pthread_mutex_unlock(&lane->lock);
    return stuck;
}

bool net_lane_is_empty(net_lane_t *lane)
{
    bool empty;

    pthread_mutex_lock(&lane->lock);
    empty = lane->out.first == NULL;
    pthread_mutex_unlock(&lane->lock);
    return empty;
}

void net_lane_wake(net_lane_t *lane)
{
    pthread_mutex_lock(&lane->lock);
    pthread_cond_broadcast(&lane->room);
    pthread_mutex_unlock(&lane->lock);
}

void net_lane_close(net_lane_t *lane, kvs_status_t status, const char *text, int linger_ms)
{
    net_socket_t *socket;
    net_record_t *records;

    pthread_mutex_lock(&lane->lock);
    lane->closed = true;
    socket = lane->socket;
    lane->socket = NULL;
    records = net_outlink_empty(&lane->out);
    pthread_cond_broadcast(&lane->room);
    pthread_mutex_unlock(&lane->lock);
    net_socket_close(socket, linger_ms);
    end_records(lane->peer->node, records, status, text);
}
