/* SPDX-License-Identifier: Apache-2.0 */
/* node_ring.c - lanes through shared memory, as the I/O thread sees them: offered when a lane is opened,
 * read where they are, and watched without system calls while there is traffic. A lane's numbers go on
 * whichever way a message takes, so that order and receipts are those of the lane. */
#include "node.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define BATCH       64 /* messages of a ring before others have their turn */
#define TURNS       8  /* of all rings before the clock and the sockets are looked at */
#define AGAIN_NS    (20 * NET_MS)
#define MEMORY      (UINT64_C(64) << 20) /* for the rings of a node, if there are not very many */
#define RING_ENOUGH (UINT64_C(2) << 20)  /* with messages of 256 KiB each still goes through it */

/* ---- Offers ---------------------------------------------------------------------------------- */

static void put_on_rings(kvs_net_node_t *node, net_lane_t *lane)
{
    if (!lane->is_on_rings) {
        lane->is_on_rings = true;
        lane->next_ring = node->rings;
        node->rings = lane;
    }
}

static void say_by_socket(const net_peer_t *peer, const char *why)
{
    kvs_log(KVS_LOG_WARN, "net", "messages to %s go by socket: %s", peer->label, why);
}

/* 0, or errno of handing it over. */
static int hand_over(kvs_net_node_t *node, const net_lane_t *lane, size_t n_bytes, int fd)
{
    net_door_address_t to = net_door_address(lane->peer->incarnation);
    net_note_t note = {.kind = NET_NOTE_RING,
                       .token = node->token,
                       .from = node->incarnation,
                       .to = lane->peer->incarnation,
                       .n_bytes = n_bytes,
                       .lane = lane->index};

    return net_door_send(node->door, &to, &note, fd);
}

/* Those of one lane take as much as its window, or its part of what all may take. */
static uint64_t ring_bytes(const kvs_net_node_t *node)
{
    const kvs_net_settings_t *settings = &node->job->settings;
    uint64_t window = settings->window_bytes / (uint64_t)settings->n_lanes;
    uint64_t n_rings = 0, bytes = RING_ENOUGH;

    for (uint32_t i = 0; i < node->n_peers; i++) {
        n_rings += node->peers[i].pub.same_host ? 2 * (uint64_t)settings->n_lanes : 0;
    }
    while (n_rings > 0 && bytes < NET_RING_MAX && 2 * bytes <= MEMORY / n_rings) {
        bytes *= 2;
    }
    return window < bytes ? window : bytes;
}

static void wish_again(kvs_net_node_t *node, net_lane_t *lane)
{
    pthread_mutex_lock(&lane->lock);
    lane->wants_ring = true;
    pthread_mutex_unlock(&lane->lock);
    node->offer_again = net_now() + AGAIN_NS;
}

static void offer(kvs_net_node_t *node, net_lane_t *lane)
{
    net_peer_t *peer = lane->peer;
    net_ring_id_t id = {node->token, node->incarnation, peer->incarnation, lane->index};
    net_bell_t bell = net_bell(node->door, node->incarnation, peer->incarnation);
    net_writer_t *writer;
    int fd, cause;

    if (net_writer_new(&id, ring_bytes(node), &bell, &writer, &fd) != KVS_OK) {
        say_by_socket(peer, net_last_error());
        return;
    }
    cause = hand_over(node, lane, writer->memory.n_bytes, fd);
    close(fd);
    if (cause == EAGAIN) { /* many others are at its door */
        net_writer_free(writer);
        wish_again(node, lane);
        return;
    }
    if (cause != 0) {
        net_writer_free(writer);
        if (cause != ECONNREFUSED) { /* else it does not share memory, or has left already */
            say_by_socket(peer, strerror(cause));
        }
        return;
    }
    pthread_mutex_lock(&lane->lock);
    lane->writer = writer;
    pthread_mutex_unlock(&lane->lock);
    put_on_rings(node, lane);
}

static bool take_wish(net_lane_t *lane)
{
    bool wants;

    pthread_mutex_lock(&lane->lock);
    wants = lane->wants_ring && !lane->closed && lane->writer == NULL;
    lane->wants_ring = false;
    pthread_mutex_unlock(&lane->lock);
    return wants;
}

void net_rings_offer(kvs_net_node_t *node)
{
    for (uint32_t i = 0; i < node->n_peers; i++) {
        for (int lane = 0; lane < node->job->settings.n_lanes; lane++) {
            if (take_wish(&node->peers[i].lanes[lane])) {
                offer(node, &node->peers[i].lanes[lane]);
            }
        }
    }
}

/* The lane an offer or refusal is about; NULL: nobody we know. */
static net_lane_t *find_lane(kvs_net_node_t *node, const net_note_t *note)
{
    net_peer_t *peer = net_node_find_peer(node, note->from);

    return peer == NULL || peer->gone || note->token != node->token ||
                   note->lane >= (uint32_t)node->job->settings.n_lanes
               ? NULL
               : &peer->lanes[note->lane];
}

static void refuse(kvs_net_node_t *node, const net_lane_t *lane, const char *why)
{
    net_door_address_t to = net_door_address(lane->peer->incarnation);
    net_note_t note = {.kind = NET_NOTE_REFUSE,
                       .token = node->token,
                       .from = node->incarnation,
                       .to = lane->peer->incarnation,
                       .lane = lane->index};

    kvs_log(KVS_LOG_WARN, "net", "messages from %s come by socket: %s", lane->peer->label, why);
    snprintf(note.name, sizeof(note.name), "%s", why);
    (void)net_door_send(node->door, &to, &note, -1); /* unheard, its ring stays unused */
}

void net_rings_take_offer(kvs_net_node_t *node, const net_note_t *note, int fd)
{
    net_lane_t *lane = find_lane(node, note);
    net_ring_id_t id = {node->token, note->from, node->incarnation, note->lane};
    net_bell_t bell = net_bell(node->door, node->incarnation, note->from);
    net_reader_t *reader;

    if (lane == NULL || lane->reader != NULL || lane->shut) {
        kvs_log(KVS_LOG_DEBUG, "net", "a ring is passed over: nobody here expects it");
        return;
    }
    if (fd < 0) {
        refuse(node, lane, "its descriptor did not come: too many open files?");
        return;
    }
    if (net_reader_new(fd, note->n_bytes, &id, node->job->settings.max_message_bytes, &bell,
                       &reader) != KVS_OK) {
        refuse(node, lane, net_last_error());
        return;
    }
    lane->reader = reader;
    put_on_rings(node, lane);
    atomic_store_explicit(&net_reader_ring(reader)->state, NET_RING_TAKEN, memory_order_release);
    kvs_log(KVS_LOG_INFO, "net", "messages from %s come through shared memory", lane->peer->label);
}

static void drop_writer(net_lane_t *lane)
{
    net_writer_t *writer;

    pthread_mutex_lock(&lane->lock);
    writer = lane->writer;
    lane->writer = NULL;
    lane->ring_is_open = lane->overflows = false;
    lane->held_up_until = 0;
    pthread_mutex_unlock(&lane->lock);
    net_writer_free(writer);
}

static bool is_offered(net_lane_t *lane)
{
    bool offered;

    pthread_mutex_lock(&lane->lock);
    offered = lane->writer != NULL && !lane->ring_is_open;
    pthread_mutex_unlock(&lane->lock);
    return offered;
}

void net_rings_take_refusal(kvs_net_node_t *node, const net_note_t *note)
{
    net_lane_t *lane = find_lane(node, note);

    if (lane != NULL && is_offered(lane)) {
        drop_writer(lane);
        say_by_socket(lane->peer, note->name);
    }
}

static void drop_reader(net_lane_t *lane)
{
    net_reader_t *reader = lane->reader;

    lane->reader = NULL;
    if (reader != NULL) {
        net_reader_close(reader);
        net_reader_unref(reader);
    }
}

void net_lane_close_rings(net_lane_t *lane)
{
    drop_writer(lane);
    drop_reader(lane);
}

/* ---- Traffic --------------------------------------------------------------------------------- */

/* Is a message there that is the next of its lane, as far as is known? */
static bool can_receive(const net_lane_t *lane)
{
    return lane->reader != NULL && net_reader_has_more(lane->reader) &&
           lane->stalled_at != net_inlink_received(&lane->in) + 1;
}

/* The next message: true if it was taken. */
static bool receive_one(kvs_net_node_t *node, net_lane_t *lane)
{
    uint64_t next = net_inlink_received(&lane->in) + 1;
    const uint8_t *header, *body;
    net_entry_t entry;
    int got = net_reader_peek(lane->reader, &entry, &header, &body);

    if (got > 0 && entry.seq > next) { /* one is still to come by socket */
        lane->stalled_at = next;
        return false;
    }
    if (got > 0 && entry.seq < next) {
        (void)kvs_fail(KVS_ERR_FORMAT, "in a ring a message with number %llu came a second time",
                       (unsigned long long)entry.seq);
        got = -1;
    }
    if (got < 0) {
        drop_reader(lane);
        net_node_shut_out(node, lane);
    }
    if (got > 0) {
        net_node_take_entry(node, lane, &entry, header, body);
    }
    return got > 0;
}

/* At most `max` messages; true: some came. Callbacks may close the lane. */
static bool receive(kvs_net_node_t *node, net_lane_t *lane, uint64_t max)
{
    bool some = false;

    while (max-- > 0 && can_receive(lane) && receive_one(node, lane)) {
        some = true;
    }
    if (some && lane->reader != NULL) {
        net_reader_wake_writer(lane->reader, false);
    }
    return some;
}

void net_rings_drain(kvs_net_node_t *node, net_lane_t *lane, uint64_t last)
{
    uint64_t received = net_inlink_received(&lane->in);

    (void)receive(node, lane, last > received ? last - received : 0);
}

/* What the peer has received of us. */
static bool look_at_writer(kvs_net_node_t *node, net_lane_t *lane)
{
    bool busy;

    if (lane->writer == NULL || !net_writer_has_news(lane->writer)) {
        return false;
    }
    if (!net_lane_look_at_ring(lane, &busy)) {
        drop_writer(lane);
        net_node_shut_out(node, lane);
    }
    return true;
}

bool net_rings_poll(kvs_net_node_t *node)
{
    bool some = false;

    for (net_lane_t *lane = node->rings; lane != NULL; lane = lane->next_ring) {
        some |= receive(node, lane, BATCH);
        some |= look_at_writer(node, lane);
    }
    return some;
}

void net_rings_spin(kvs_net_node_t *node)
{
    kvs_net_spin_t spin = KVS_NET_SPIN_INIT;

    if (node->rings == NULL || !net_rings_poll(node)) {
        return;
    }
    for (int n_turns = 0; n_turns < TURNS && node->acks == NULL && !node->is_rung;) {
        if (net_rings_poll(node)) {
            spin = (kvs_net_spin_t)KVS_NET_SPIN_INIT;
            n_turns++;
        } else if (!kvs_net_node_spin(node, &spin)) {
            return;
        }
    }
}

int64_t net_rings_look_at_clock(kvs_net_node_t *node)
{
    int64_t next;

    if (node->offer_again != 0 && net_now() >= node->offer_again) {
        node->offer_again = 0;
        net_rings_offer(node);
    }
    next = node->offer_again != 0 ? node->offer_again : NET_NEVER;
    for (net_lane_t *lane = node->rings; lane != NULL; lane = lane->next_ring) {
        int64_t until = atomic_load_explicit(&lane->held_up_until, memory_order_relaxed);
        int64_t now = until == 0 ? 0 : net_now();

        if (until != 0 && now >= until) {
            net_lane_look_at_hold(lane, now);
        } else if (until != 0) {
            next = net_earlier(next, until);
        }
    }
    return next;
}

bool net_rings_fall_asleep(kvs_net_node_t *node)
{
    bool quiet = true;

    for (net_lane_t *lane = node->rings; lane != NULL; lane = lane->next_ring) {
        if (lane->reader != NULL) {
            atomic_store_explicit(&net_reader_ring(lane->reader)->reader_sleeps, 1,
                                  memory_order_relaxed);
        }
        if (lane->writer != NULL) {
            atomic_store_explicit(&lane->writer->ring->writer_sleeps, 1, memory_order_relaxed);
        }
    }
    atomic_thread_fence(memory_order_seq_cst);
    for (net_lane_t *lane = node->rings; lane != NULL && quiet; lane = lane->next_ring) {
        quiet = !can_receive(lane) && (lane->writer == NULL || !net_writer_has_news(lane->writer));
    }
    return quiet;
}

void net_rings_wake_up(kvs_net_node_t *node)
{
    for (net_lane_t *lane = node->rings; lane != NULL; lane = lane->next_ring) {
        if (lane->reader != NULL) {
            atomic_store_explicit(&net_reader_ring(lane->reader)->reader_sleeps, 0,
                                  memory_order_relaxed);
        }
        if (lane->writer != NULL) {
            atomic_store_explicit(&lane->writer->ring->writer_sleeps, 0, memory_order_relaxed);
        }
    }
}
