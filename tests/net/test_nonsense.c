/* SPDX-License-Identifier: Apache-2.0 */
/* Peers that write nonsense into the memory they share: they are shut out, everyone is told, and the others
 * go on. The test reaches into its nodes to make it. */
#include "crowd.h"

#include "node.h"

#include <errno.h>
#include <unistd.h>

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

static bool is_quiet(void *arg)
{
    net_lane_t *lane = lane_to(arg, KVS_NET_SERVER, 0);
    bool quiet;

    pthread_mutex_lock(&lane->lock);
    quiet = lane->out.n_acked == lane->out.n_sent;
    pthread_mutex_unlock(&lane->lock);
    return quiet;
}

/* Two workers, whose messages to the server go through rings, in which neither side writes any more. */
static void open_sharing(crowd_t *crowd)
{
    crowd_init(crowd, 2, 1);
    crowd->settings.shm = KVS_NET_SHM_AUTO;
    crowd_open(crowd);
    kt_until(has_ring, &crowd->worker[0], "a ring");
    kt_until(has_ring, &crowd->worker[1], "a ring");
    kt_until(is_quiet, &crowd->worker[0], "all to be received");
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
    KT_HAS(event->text, "as it sent nonsense: a ring written up to");
    crowd_close(&crowd);
}

/* ---- A door with a crowd before it ------------------------------------------------------------ */

static void wait_at_gate(member_t *member, kvs_net_message_t *message)
{
    pthread_mutex_lock(member->arg);
    pthread_mutex_unlock(member->arg);
    kvs_net_message_release(message);
}

static void note_call(void *arg)
{
    atomic_store((_Atomic bool *)arg, true);
}

static bool was_called(void *arg)
{
    return atomic_load((_Atomic bool *)arg);
}

/* What the node's thread had to do is done. */
static void pass_by_thread(kvs_net_node_t *node)
{
    for (int i = 0; i < 2; i++) {
        _Atomic bool called = false;

        KT_OK(kvs_net_node_call(node, note_call, &called));
        kt_until(was_called, &called, "a call on the node's thread");
    }
}

static void a_ring_that_cannot_be_handed_over_yet_is_offered_again(void)
{
    pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
    net_note_t junk = {.kind = 99};
    kvs_net_send_t send = KVS_NET_SEND_INIT;
    net_door_address_t to;
    crowd_t crowd;
    int stranger = -1, cause = 0;

    crowd_init(&crowd, 2, 1);
    crowd.settings.shm = KVS_NET_SHM_AUTO;
    crowd_open(&crowd);
    crowd.server[0].arg = &gate;
    crowd.server[0].message = wait_at_gate;
    pthread_mutex_lock(&gate);
    KT_OK(
        kvs_net_send(crowd.worker[0].node, crowd_peer(&crowd.worker[0], KVS_NET_SERVER, 0), &send));
    pass_by_thread(crowd.worker[0].node);
    KT_OK(net_door_open(0, &stranger));
    to = net_door_address(
        ((const net_peer_t *)(const void *)kvs_net_node_self(crowd.server[0].node))->incarnation);
    for (int i = 0; i < 100000 && cause == 0; i++) {
        cause = net_door_send(stranger, &to, &junk, -1);
    }
    KT_INT(cause, EAGAIN);
    KT_OK(
        kvs_net_send(crowd.worker[1].node, crowd_peer(&crowd.worker[1], KVS_NET_SERVER, 0), &send));
    pass_by_thread(crowd.worker[1].node);
    pthread_mutex_unlock(&gate);
    kt_until(has_ring, &crowd.worker[1], "a ring");
    close(stranger);
    crowd_close(&crowd);
}

static void a_reader_that_acknowledges_what_was_never_sent_is_shut_out(void)
{
    crowd_t crowd;
    net_lane_t *lane;

    open_sharing(&crowd);
    lane = lane_to(&crowd.worker[0], KVS_NET_SERVER, 0);
    pthread_mutex_lock(&lane->lock);
    atomic_store(&lane->writer->ring->received, lane->out.n_sent + 1);
    pthread_mutex_unlock(&lane->lock);
    net_node_ring(crowd.worker[0].node);
    KT_HAS(crowd_await_event(&crowd.worker[0], KVS_NET_EVENT_DEAD)->text,
           "as it sent nonsense: a ring says that");
    crowd_close(&crowd);
}

static const kt_test_t tests[] = {
    KT_TEST(a_reader_that_acknowledges_what_was_never_sent_is_shut_out),
    KT_TEST(a_tail_far_ahead_shuts_the_writer_out),
    KT_TEST(an_entry_without_bytes_shuts_the_writer_out),
    KT_TEST(a_number_that_came_before_shuts_the_writer_out),
    KT_TEST(a_ring_that_cannot_be_handed_over_yet_is_offered_again),
    KT_TEST(a_reader_that_says_it_has_read_what_was_never_written_is_shut_out),
};

KT_MAIN("nonsense", tests)
