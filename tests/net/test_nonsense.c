/* SPDX-License-Identifier: Apache-2.0 */
/* Peers that write nonsense into the memory they share: they are shut out, everyone is told, and the others
 * go on. The test reaches into its nodes to make it. */
#include "crowd.h"

#include "node.h"

static net_lane_t *lane_to(const member_t *from, int role, int rank)
{
    return ((const net_peer_t *)(const void *)crowd_peer(from, role, rank))->lanes;
}

static bool has_ring(void *arg)
{
    member_t *from = arg;
    net_lane_t *lane = lane_to(from, KVS_NET_SERVER, 0);
    kvs_net_send_t send = KVS_NET_SEND_INIT;
    bool has;

    (void)kvs_net_send(from->node, crowd_peer(from, KVS_NET_SERVER, 0), &send);
    pthread_mutex_lock(&lane->lock);
    has = lane->ring_is_open;
    pthread_mutex_unlock(&lane->lock);
    return has;
}

/* Two workers, whose messages to the server go through rings. */
static void open_sharing(crowd_t *crowd)
{
    crowd_init(crowd, 2, 1);
    crowd->settings.shm = KVS_NET_SHM_AUTO;
    crowd_open(crowd);
    kt_until(has_ring, &crowd->worker[0], "a ring");
    kt_until(has_ring, &crowd->worker[1], "a ring");
}

/* The other worker still sends, and is received. */
static void check_others(crowd_t *crowd)
{
    member_t *from = &crowd->worker[1];
    kvs_net_send_t send = KVS_NET_SEND_INIT;
    int before = crowd->server[0].n_messages;

    for (int i = 0; i < 10; i++) {
        KT_OK(kvs_net_send_wait(from->node, crowd_peer(from, KVS_NET_SERVER, 0), &send, 10000));
    }
    crowd_await_messages(&crowd->server[0], before + 10);
}

typedef void (*spoil_t)(net_writer_t *writer);

static void server_shuts_out(spoil_t spoil)
{
    crowd_t crowd;
    net_lane_t *lane;
    const crowd_event_t *event;

    open_sharing(&crowd);
    lane = lane_to(&crowd.worker[0], KVS_NET_SERVER, 0);
    pthread_mutex_lock(&lane->lock);
    spoil(lane->writer);
    pthread_mutex_unlock(&lane->lock);
    net_node_ring(crowd.server[0].node); /* it may sleep: look */
    event = crowd_await_event(&crowd.server[0], KVS_NET_EVENT_DEAD);
    KT_HAS(event->peer, "worker 0");
    KT_HAS(event->text, "as it sent nonsense: in a ring");
    (void)crowd_await_event(&crowd.worker[1], KVS_NET_EVENT_ERROR);
    check_others(&crowd);
    crowd_close(&crowd);
}

static void far_tail(net_writer_t *writer)
{
    atomic_store(&writer->ring->tail, writer->tail + 100 * writer->capacity);
}

static void empty_entry(net_writer_t *writer)
{
    atomic_store(&writer->ring->tail, writer->tail + 64);
}

static void old_number(net_writer_t *writer)
{
    net_entry_t entry = {.seq = 1};

    (void)net_writer_put(writer, &entry, NULL, NULL);
}

static void a_tail_far_ahead_shuts_the_writer_out(void)
{
    server_shuts_out(far_tail);
}

static void an_entry_without_bytes_shuts_the_writer_out(void)
{
    server_shuts_out(empty_entry);
}

static void a_number_that_came_before_shuts_the_writer_out(void)
{
    server_shuts_out(old_number);
}

/* Worker 0 learns it from what the ring says of its reader. */
static void a_reader_that_says_it_has_read_what_was_never_written_is_shut_out(void)
{
    crowd_t crowd;
    net_lane_t *lane;
    const crowd_event_t *event;

    open_sharing(&crowd);
    lane = lane_to(&crowd.worker[0], KVS_NET_SERVER, 0);
    pthread_mutex_lock(&lane->lock);
    atomic_store(&lane->writer->ring->read, UINT64_MAX - 63);
    pthread_mutex_unlock(&lane->lock);
    net_node_ring(crowd.worker[0].node);
    event = crowd_await_event(&crowd.worker[0], KVS_NET_EVENT_DEAD);
    KT_HAS(event->peer, "server 0");
    KT_HAS(event->text, "as it sent nonsense: a ring");
    crowd_close(&crowd);
}

static const kt_test_t tests[] = {
    KT_TEST(a_tail_far_ahead_shuts_the_writer_out),
    KT_TEST(an_entry_without_bytes_shuts_the_writer_out),
    KT_TEST(a_number_that_came_before_shuts_the_writer_out),
    KT_TEST(a_reader_that_says_it_has_read_what_was_never_written_is_shut_out),
};

KT_MAIN("nonsense", tests)
