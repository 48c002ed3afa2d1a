/* SPDX-License-Identifier: Apache-2.0 */
/* lane.c - the sending half of a connection: numbers, window, and memory that is lent to ZeroMQ until
 * the peer has received it. Small bodies are copied beside their header into one frame; large ones
 * are a second frame that points to the sender's memory. */
#include "node.h"

#include <stdlib.h>
#include <string.h>

#define INLINE_MAX     8192 /* larger ones get memory of their own at the receiver, which is aligned */
#define MAX_ON_THE_WAY 65536         /* messages, however small */
#define HOLD_NS        (20 * NET_MS) /* a ring full of held messages is waited for */

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

/* ZeroMQ's, on any thread: it has read a body for the last time. With the lock, as the I/O thread may end
 * the record at once, be it the last one, and close waits for the lock before it frees the node. */
static void let_go(void *data, void *hint)
{
    net_record_t *record = hint;
    kvs_net_node_t *node = record->owner;

    (void)data;
    if (!net_record_drop(record)) {
        return;
    }
    pthread_mutex_lock(&node->lock);
    record->next = atomic_load_explicit(&node->finished, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&node->finished, &record->next, record,
                                                  memory_order_release, memory_order_relaxed)) {
    }
    net_node_ring(node);
    pthread_mutex_unlock(&node->lock);
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

/* Messages can go by memory, once it is there. */
static void want_ring_locked(net_lane_t *lane)
{
    const net_peer_t *peer = lane->peer;
    kvs_net_node_t *node = peer->node;

    if (kvs_net_node_shares_memory(node, &peer->pub) && !peer->pub.is_self &&
        (!peer->pub.same_process || node->job->settings.shm == KVS_NET_SHM_ALWAYS)) {
        lane->wants_ring = true;
        node->wants_rings = true;
        net_node_ring(node);
    }
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
        want_ring_locked(lane);
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

/* ---- By socket ------------------------------------------------------------------------------- */

/* From now on its end is waited for. */
static void own_record(net_lane_t *lane, net_record_t *record, const kvs_net_send_t *send)
{
    kvs_net_node_t *node = lane->peer->node;

    record->owner = node;
    record->done = send->done;
    record->arg = send->arg;
    atomic_fetch_add_explicit(&node->n_records, 1, memory_order_relaxed);
}

static net_record_t *new_record(net_lane_t *lane, const kvs_net_send_t *send)
{
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
    record->n_header = (uint32_t)send->n_header_bytes;
    record->store = send->store;
    record->flags = send->flags;
    record->n_inline = n_inline;
    own_record(lane, record, send);
    return record;
}

static void discard(kvs_net_node_t *node, net_record_t *record)
{
    if (record != NULL) {
        free(record);
        atomic_fetch_sub_explicit(&node->n_records, 1, memory_order_release);
    }
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

static uint64_t window_of(const net_lane_t *lane)
{
    const kvs_net_settings_t *settings = &lane->peer->node->job->settings;

    return settings->window_bytes / (uint64_t)settings->n_lanes;
}

static uint64_t on_the_way_locked(const net_lane_t *lane)
{
    return lane->out.n_bytes + lane->n_queued_bytes +
           (lane->writer == NULL ? 0 : net_writer_unread(lane->writer));
}

static bool is_full_locked(const net_lane_t *lane, uint64_t n_bytes, uint64_t n_received)
{
    return lane->out.n_sent > n_received && (on_the_way_locked(lane) + n_bytes > window_of(lane) ||
                                             lane->out.n_sent - n_received >= MAX_ON_THE_WAY);
}

/* The clock of a lane on which everything was received begins anew. */
static void note_progress_locked(net_lane_t *lane)
{
    if (lane->out.n_sent == lane->out.n_acked) {
        lane->progress = net_now();
    }
}

/* Take the record, or refuse it: with an error, or with AGAIN for lack of room. */
static kvs_status_t take_locked(net_lane_t *lane, net_record_t *record, bool urgent)
{
    kvs_status_t status;

    if (lane->closed) {
        return fail_gone(lane->peer);
    }
    if (!urgent && is_full_locked(lane, net_record_bytes(record), lane->out.n_acked)) {
        return KVS_NET_AGAIN;
    }
    status = open_locked(lane);
    if (status != KVS_OK) {
        return kvs_fail_context(status, "%s", lane->peer->label);
    }
    note_progress_locked(lane);
    net_outlink_add(&lane->out, record);
    transmit_locked(lane, record);
    return KVS_OK;
}

static kvs_status_t fail_no_memory(const net_lane_t *lane, const kvs_net_send_t *send)
{
    return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for a message of %zu bytes to %s",
                    send->n_body_bytes, lane->peer->label);
}

/* ---- By memory ------------------------------------------------------------------------------- */

/* Beside OK and AGAIN: the message can't go through the ring; or not yet. */
enum { BY_SOCKET = 2, LATER = 3 };

static bool has_ring_locked(net_lane_t *lane)
{
    if (lane->writer == NULL || lane->closed) {
        return false;
    }
    lane->ring_is_open = lane->ring_is_open || net_writer_state(lane->writer) == NET_RING_TAKEN;
    return lane->ring_is_open;
}

/* Where the ring is full of what was read and is held, it may stay so: after a while there is the socket. */
static bool may_overflow_locked(net_lane_t *lane)
{
    if (net_writer_unread(lane->writer) > 0) {
        return false; /* more will be released, or copied */
    }
    if (!lane->overflows && lane->held_up_until == 0) {
        lane->held_up_until = net_now() + HOLD_NS;
        net_node_ring(lane->peer->node);
    }
    return lane->overflows;
}

static void note_room_locked(net_lane_t *lane)
{
    lane->overflows = false;
    if (lane->held_up_until != 0) {
        lane->held_up_until = 0;
    }
}

static net_entry_t entry_of(const net_lane_t *lane, uint32_t flags, bool wants_ack, uint32_t store,
                            size_t n_header, size_t n_body)
{
    return (net_entry_t){.flags = ((flags & KVS_NET_ACK_NOW) != 0 ? NET_ACK_NOW : 0) |
                                  (wants_ack ? NET_ENTRY_WANTS_ACK : 0),
                         .seq = lane->out.n_sent + 1,
                         .n_body = n_body,
                         .n_header = (uint32_t)n_header,
                         .store = store};
}

/* It lies in the ring: only `done` is left to be called. */
static void keep_for_receipt_locked(net_lane_t *lane, net_record_t *record)
{
    note_room_locked(lane);
    note_progress_locked(lane);
    if (record == NULL) {
        lane->out.n_sent++;
        return;
    }
    record->by_ring = true;
    record->n_frame = record->n_body = 0;
    net_outlink_add(&lane->out, record);
}

/* KVS_NET_AGAIN: no room. */
static kvs_status_t write_locked(net_lane_t *lane, const kvs_net_send_t *send)
{
    net_entry_t entry = entry_of(lane, send->flags, send->done != NULL, send->store,
                                 send->n_header_bytes, send->n_body_bytes);
    net_record_t *record = NULL;

    if (send->done != NULL) {
        record = net_record_new(0);
        if (record == NULL) {
            return fail_no_memory(lane, send);
        }
    }
    if (!net_writer_put(lane->writer, &entry, send->header, send->body)) {
        free(record);
        return KVS_NET_AGAIN;
    }
    if (record != NULL) {
        own_record(lane, record, send);
    }
    keep_for_receipt_locked(lane, record);
    return KVS_OK;
}

/* Is the window full, although the ring has been looked at? */
static bool is_window_full_locked(net_lane_t *lane, const kvs_net_send_t *send)
{
    uint64_t n_bytes = net_entry_bytes(send->n_header_bytes, send->n_body_bytes);
    uint64_t n_received;

    if ((send->flags & KVS_NET_URGENT) != 0 || !is_full_locked(lane, n_bytes, lane->out.n_acked)) {
        return false;
    }
    net_writer_wait(lane->writer);
    return net_writer_look(lane->writer, &n_received) == KVS_OK &&
           is_full_locked(lane, n_bytes, n_received);
}

/* Where there is no room: once more, with the promise to be told when there is. */
static kvs_status_t put_in_ring_locked(net_lane_t *lane, const kvs_net_send_t *send)
{
    kvs_status_t status;
    uint64_t n_received;

    if (!has_ring_locked(lane)) {
        return BY_SOCKET;
    }
    if (is_window_full_locked(lane, send)) {
        return KVS_NET_AGAIN;
    }
    if (lane->queue != NULL) {
        return LATER;
    }
    if (!net_writer_fits(lane->writer, net_entry_bytes(send->n_header_bytes, send->n_body_bytes))) {
        return BY_SOCKET;
    }
    status = write_locked(lane, send);
    if (status == KVS_NET_AGAIN) {
        net_writer_wait(lane->writer);
        if (net_writer_look(lane->writer, &n_received) ==
            KVS_OK) { /* else the I/O thread says why */
            status = write_locked(lane, send);
        }
    }
    return status != KVS_NET_AGAIN ? status : may_overflow_locked(lane) ? BY_SOCKET : LATER;
}

static void enqueue_locked(net_lane_t *lane, net_record_t *record)
{
    record->next = NULL;
    *(lane->queue == NULL ? &lane->queue : &lane->last_queued->next) = record;
    lane->last_queued = record;
    lane->n_queued_bytes += net_record_bytes(record);
}

static net_record_t *dequeue_locked(net_lane_t *lane)
{
    net_record_t *record = lane->queue;

    lane->queue = record->next;
    lane->n_queued_bytes -= net_record_bytes(record);
    return record;
}

static size_t body_bytes(const net_record_t *record)
{
    return record->n_inline > 0 ? record->n_inline : record->n_body;
}

static void count(kvs_net_count_t *count, size_t n_header, size_t n_body)
{
    count->n_messages++;
    count->n_bytes += n_header + n_body;
}

/* Write the first of the queue into the ring; false: no room. */
static bool write_first_locked(net_lane_t *lane)
{
    net_record_t *record = lane->queue;
    const uint8_t *at = record->frame;
    size_t n_body = body_bytes(record);
    net_entry_t entry = entry_of(lane, record->flags, record->done != NULL, record->store,
                                 record->n_header, n_body);

    if (!net_writer_put(lane->writer, &entry, at + NET_WIRE_DATA_BYTES,
                        record->n_inline > 0 ? at + record->n_frame - n_body : record->body)) {
        return false;
    }
    (void)dequeue_locked(lane);
    count(&lane->by_ring, record->n_header, n_body);
    if (record->done == NULL) {
        discard(lane->peer->node, record);
        record = NULL;
    }
    keep_for_receipt_locked(lane, record);
    return true;
}

static void send_first_locked(net_lane_t *lane)
{
    net_record_t *record = dequeue_locked(lane);

    count(&lane->by_socket, record->n_header, body_bytes(record));
    net_outlink_add(&lane->out, record);
    transmit_locked(lane, record);
}

static bool write_first_after_look_locked(net_lane_t *lane)
{
    uint64_t n_received;

    net_writer_wait(lane->writer);
    return net_writer_look(lane->writer, &n_received) == KVS_OK && write_first_locked(lane);
}

/* The ring may have room again for what waits. */
static void send_queue_locked(net_lane_t *lane)
{
    while (lane->queue != NULL && lane->writer != NULL) {
        const net_record_t *record = lane->queue;
        bool fits =
            net_writer_fits(lane->writer, net_entry_bytes(record->n_header, body_bytes(record)));

        if (fits && (write_first_locked(lane) || write_first_after_look_locked(lane))) {
            continue;
        }
        if (fits && !may_overflow_locked(lane)) {
            return;
        }
        send_first_locked(lane);
    }
}

/* With a record, which is made when it is needed, by socket, or, to keep the order, when it is its turn. */
static kvs_status_t give_record_locked(net_lane_t *lane, const kvs_net_send_t *send, bool later,
                                       net_record_t **record)
{
    kvs_status_t status = KVS_OK;

    *record = *record == NULL ? new_record(lane, send) : *record;
    if (*record == NULL) {
        return fail_no_memory(lane, send);
    }
    if (later) {
        enqueue_locked(lane, *record); /* counted when it goes */
    } else {
        status = take_locked(lane, *record, (send->flags & KVS_NET_URGENT) != 0);
        if (status == KVS_OK) {
            count(&lane->by_socket, send->n_header_bytes, send->n_body_bytes);
        }
    }
    *record = status == KVS_OK ? NULL : *record;
    return status;
}

static kvs_status_t give_locked(net_lane_t *lane, const kvs_net_send_t *send, net_record_t **record)
{
    kvs_status_t status = lane->closed ? fail_gone(lane->peer) : put_in_ring_locked(lane, send);

    if (status == BY_SOCKET || status == LATER) {
        return give_record_locked(lane, send, status == LATER, record);
    }
    if (status == KVS_OK) {
        count(&lane->by_ring, send->n_header_bytes, send->n_body_bytes);
    }
    return status;
}

/* ---- Sending --------------------------------------------------------------------------------- */

kvs_status_t net_lane_send(net_lane_t *lane, const kvs_net_send_t *send)
{
    net_record_t *record = NULL;
    kvs_status_t status = check_size(lane, send);

    if (status != KVS_OK) {
        return status;
    }
    pthread_mutex_lock(&lane->lock);
    status = give_locked(lane, send, &record);
    lane->wants_room |= status == KVS_NET_AGAIN;
    pthread_mutex_unlock(&lane->lock);
    discard(lane->peer->node, record);
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
    net_record_t *record = NULL;
    kvs_status_t status = check_size(lane, send);

    if (status != KVS_OK) {
        return status;
    }
    pthread_mutex_lock(&lane->lock);
    lane->n_waiters++;
    status = give_locked(lane, send, &record);
    while (status == KVS_NET_AGAIN && !lane->peer->node->cancelled && net_now() < deadline) {
        net_cond_wait(&lane->room, &lane->lock, deadline);
        status = give_locked(lane, send, &record);
    }
    lane->n_waiters--;
    pthread_mutex_unlock(&lane->lock);
    discard(lane->peer->node, record);
    return status == KVS_NET_AGAIN ? fail_no_room(lane, timeout_ms) : status;
}

/* ---- On the I/O thread ----------------------------------------------------------------------- */

static size_t resend_locked(net_lane_t *lane)
{
    size_t n = 0;

    for (net_record_t *record = lane->out.first; record != NULL && lane->socket != NULL;
         record = record->next) {
        if (!record->by_ring) {
            transmit_locked(lane, record);
            n++;
        }
    }
    return n;
}

static bool has_room_locked(const net_lane_t *lane)
{
    return on_the_way_locked(lane) <= window_of(lane) / 2 &&
           lane->out.n_sent - lane->out.n_acked <= MAX_ON_THE_WAY / 2;
}

/* Senders that were refused for lack of room try again; true: EVENT_ROOM is due. */
static bool tell_room_locked(net_lane_t *lane)
{
    bool tell_room = lane->wants_room;

    if (!has_room_locked(lane)) {
        if (lane->writer != NULL && (tell_room || lane->n_waiters > 0)) {
            net_writer_wait(
                lane->writer); /* whoever looks for news before sleeping sees the rest */
        }
        return false;
    }
    lane->wants_room = false;
    if (lane->n_waiters > 0) {
        pthread_cond_broadcast(&lane->room);
    }
    return tell_room;
}

/* After the lock has been given up. */
static void end_acknowledged(net_lane_t *lane, net_record_t *records, bool tell_room)
{
    end_records(lane->peer->node, records, KVS_OK, "");
    if (tell_room) {
        net_node_emit(
            lane->peer->node,
            &(kvs_net_event_t){.kind = KVS_NET_EVENT_ROOM, .peer = &lane->peer->pub, .text = ""});
    }
}

bool net_lane_acknowledged(net_lane_t *lane, uint64_t ack, bool resend)
{
    bool valid, tell_room;
    net_record_t *records;
    size_t n_resent = 0;

    pthread_mutex_lock(&lane->lock);
    tell_room = ack > lane->out.n_acked;
    records = net_outlink_acknowledge(&lane->out, ack, &valid);
    send_queue_locked(lane);
    if (valid && resend) {
        n_resent = resend_locked(lane);
    }
    tell_room = tell_room && valid && tell_room_locked(lane);
    pthread_mutex_unlock(&lane->lock);
    if (n_resent > 0) {
        kvs_log(KVS_LOG_DEBUG, "net", "%s had lost a connection: %zu messages sent again",
                lane->peer->label, n_resent);
    }
    end_acknowledged(lane, records, tell_room);
    return valid;
}

void net_lane_look_at_hold(net_lane_t *lane, int64_t now)
{
    bool tell_room = false;

    pthread_mutex_lock(&lane->lock);
    if (lane->held_up_until != 0 && now >= lane->held_up_until && lane->writer != NULL) {
        lane->held_up_until = 0;
        lane->overflows = true;
        send_queue_locked(lane);
        tell_room = tell_room_locked(lane);
    }
    pthread_mutex_unlock(&lane->lock);
    end_acknowledged(lane, NULL, tell_room);
}

bool net_lane_look_at_ring(net_lane_t *lane, bool *ret_busy)
{
    uint64_t n_received = 0;
    net_record_t *records = NULL;
    bool valid, tell_room = false;

    *ret_busy = pthread_mutex_trylock(&lane->lock) != 0;
    if (*ret_busy) {
        return true;
    }
    net_writer_note_news(lane->writer);
    valid = net_writer_look(lane->writer, &n_received) == KVS_OK;
    if (valid) {
        records = net_outlink_acknowledge(&lane->out, n_received, &valid);
        if (!valid) {
            (void)kvs_fail(KVS_ERR_FORMAT, "a ring says that %llu messages were received, of %llu",
                           (unsigned long long)n_received, (unsigned long long)lane->out.n_sent);
        }
    }
    if (valid) {
        send_queue_locked(lane);
        tell_room = tell_room_locked(lane);
    }
    pthread_mutex_unlock(&lane->lock);
    end_acknowledged(lane, records, tell_room);
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
    if (lane->socket != NULL && lane->out.n_sent != lane->out.n_acked) {
        post_hello_locked(lane, NET_ACK_NOW);
    }
    if (lane->writer != NULL) {
        net_writer_wait(lane->writer);
    }
    pthread_mutex_unlock(&lane->lock);
}

bool net_lane_look(net_lane_t *lane, int64_t now, int64_t late_ns, int64_t dead_after_ns)
{
    bool stuck = false;

    pthread_mutex_lock(&lane->lock);
    if (lane->socket != NULL && lane->out.n_sent != lane->out.n_acked) {
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
    empty = (lane->out.n_sent == lane->out.n_acked && lane->queue == NULL) || lane->closed;
    pthread_mutex_unlock(&lane->lock);
    return empty;
}

static void add_count(kvs_net_count_t *sum, const kvs_net_count_t *count)
{
    sum->n_messages += count->n_messages;
    sum->n_bytes += count->n_bytes;
}

void net_lane_count(net_lane_t *lane, kvs_net_traffic_t *io_traffic)
{
    pthread_mutex_lock(&lane->lock);
    add_count(&io_traffic->sent[KVS_NET_PATH_SHM], &lane->by_ring);
    add_count(&io_traffic->sent[net_peer_path(lane->peer)], &lane->by_socket);
    pthread_mutex_unlock(&lane->lock);
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
    net_record_t *records, *queue;

    net_lane_close_rings(lane);
    pthread_mutex_lock(&lane->lock);
    lane->closed = true;
    socket = lane->socket;
    lane->socket = NULL;
    records = net_outlink_empty(&lane->out);
    queue = lane->queue;
    lane->queue = NULL;
    lane->n_queued_bytes = 0;
    pthread_cond_broadcast(&lane->room);
    pthread_mutex_unlock(&lane->lock);
    net_socket_close(socket, linger_ms);
    end_records(lane->peer->node, records, status, text);
    end_records(lane->peer->node, queue, status, text);
}
