/* SPDX-License-Identifier: Apache-2.0 */
/* Messages between nodes: contents, order, receipts, room, and what happens to them when somebody
 * goes. Over loopback between job objects, and by name within one. */
#include "crowd.h"

#include "node.h"

#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define KIB 1024u

static kvs_net_send_t message_of(const void *header, size_t n_header, const void *body, size_t n)
{
    kvs_net_send_t send = KVS_NET_SEND_INIT;

    send.header = header;
    send.n_header_bytes = n_header;
    send.body = body;
    send.n_body_bytes = n;
    return send;
}

static uint8_t byte_at(size_t n, size_t at)
{
    return (uint8_t)(n * 31 + at * 7 + at / 251);
}

/* ---- Contents -------------------------------------------------------------------------------- */

static const size_t sizes[] = {0,    1,    3,        8,         4095,          8191,
                               8192, 8193, 64 * KIB, 256 * KIB, 256 * KIB + 1, KIB *KIB + 5};
#define N_SIZES (sizeof(sizes) / sizeof(sizes[0]))

static void check_contents(member_t *member, kvs_net_message_t *message)
{
    size_t index = (size_t)member->n_messages, n = sizes[index];
    const uint8_t *body = message->body;
    size_t n_wrong = 0;

    KT_INT(message->n_header_bytes, index);
    KT_INT(message->n_body_bytes, n);
    KT_TRUE(((uintptr_t)message->body & 7) == 0);
    KT_STR(message->from->label, crowd_peer(member, KVS_NET_WORKER, 0)->label);
    for (size_t i = 0; i < n && i < message->n_body_bytes; i++) {
        n_wrong += body[i] != byte_at(n, i);
    }
    KT_INT(n_wrong, 0);
    kvs_net_message_release(message);
}

static void send_every_size(crowd_t *crowd)
{
    member_t *from = &crowd->worker[0], *to = &crowd->server[0];

    to->message = check_contents;
    for (size_t i = 0; i < N_SIZES; i++) {
        uint8_t *body = malloc(sizes[i] + 1);
        kvs_net_send_t send = message_of("twelve bytes!", i, body, sizes[i]);

        for (size_t at = 0; at < sizes[i]; at++) {
            body[at] = byte_at(sizes[i], at);
        }
        KT_OK(kvs_net_send(from->node, crowd_peer(from, KVS_NET_SERVER, 0), &send));
        memset(body, 0xee, sizes[i] + 1); /* copied: without done it is ours again */
        free(body);
    }
    crowd_await_messages(to, (int)N_SIZES);
}

static void every_size_arrives_whole(void)
{
    crowd_t crowd;

    crowd_init(&crowd, 1, 1);
    crowd_open(&crowd);
    send_every_size(&crowd);
    crowd_close(&crowd);
}

static void every_size_arrives_whole_within_a_process(void)
{
    crowd_t crowd;

    crowd_init(&crowd, 1, 1);
    crowd_open_together(&crowd);
    KT_TRUE(crowd_peer(&crowd.worker[0], KVS_NET_SERVER, 0)->same_process);
    send_every_size(&crowd);
    crowd_close(&crowd);
}

static void every_size_arrives_whole_through_memory_within_a_process(void)
{
    crowd_t crowd;

    crowd_init(&crowd, 1, 1);
    crowd.settings.shm = KVS_NET_SHM_ALWAYS;
    crowd_open_together(&crowd);
    for (int i = 0; i < 8; i++) { /* the first by name, as the ring is still to be taken */
        crowd.server[0].n_messages = 0;
        send_every_size(&crowd);
    }
    crowd_close(&crowd);
}

static void what_is_too_large_is_refused_before_it_is_sent(void)
{
    crowd_t crowd;
    static char header[KVS_NET_MAX_HEADER + 1];
    kvs_net_send_t send = message_of(header, sizeof(header), NULL, 0);
    member_t *from = &crowd.worker[0];
    const kvs_net_peer_t *to;

    crowd_init(&crowd, 1, 1);
    crowd.settings.max_message_bytes = 1000;
    crowd_open(&crowd);
    to = crowd_peer(from, KVS_NET_SERVER, 0);
    KT_FAIL(kvs_net_send(from->node, to, &send), KVS_ERR_RANGE, "a header of 16385 bytes");
    send = message_of(header, KVS_NET_MAX_HEADER, header, 1001);
    KT_FAIL(kvs_net_send(from->node, to, &send), KVS_ERR_RANGE, "a body of 1001");
    send.n_body_bytes = 1000;
    KT_OK(kvs_net_send(from->node, to, &send));
    crowd_await_messages(&crowd.server[0], 1);
    crowd_close(&crowd);
}

static void a_node_may_send_to_itself_and_to_its_like(void)
{
    crowd_t crowd;
    kvs_net_send_t send = message_of("h", 1, "body", 4);

    crowd_init(&crowd, 2, 0);
    crowd_open(&crowd);
    KT_OK(
        kvs_net_send(crowd.worker[1].node, crowd_peer(&crowd.worker[1], KVS_NET_WORKER, 1), &send));
    KT_OK(
        kvs_net_send(crowd.worker[1].node, crowd_peer(&crowd.worker[1], KVS_NET_WORKER, 0), &send));
    crowd_await_messages(&crowd.worker[0], 1);
    crowd_await_messages(&crowd.worker[1], 1);
    crowd_close(&crowd);
}

/* ---- Order, with several senders -------------------------------------------------------------- */

#define N_SENDERS 4
#define N_EACH    500

typedef struct sender {
    member_t *from;
    uint32_t number;
    kvs_status_t status;
} sender_t;

static void send_storm(void *arg)
{
    sender_t *sender = arg;
    const kvs_net_peer_t *to = crowd_peer(sender->from, KVS_NET_SERVER, 0);
    uint8_t *body = calloc(1, 20000);

    for (uint32_t i = 0; i < N_EACH && sender->status == KVS_OK; i++) {
        uint32_t header[2] = {sender->number, i};
        kvs_net_send_t send = message_of(header, sizeof(header), body, i % 16 == 0 ? 20000 : 40);

        send.lane = sender->number;
        sender->status = kvs_net_send_wait(sender->from->node, to, &send, KT_PATIENCE_MS);
    }
    free(body);
}

typedef struct orders {
    uint32_t next[2 * N_SENDERS];
    int n_wrong;
} orders_t;

static void check_order(member_t *member, kvs_net_message_t *message)
{
    orders_t *orders = member->arg;
    uint32_t header[2];

    memcpy(header, message->header, sizeof(header));
    orders->n_wrong += header[1] != orders->next[header[0]]++;
    kvs_net_message_release(message);
}

static void a_storm_from_many_threads_keeps_each_ones_order(void)
{
    orders_t orders = {.n_wrong = 0};
    sender_t senders[2 * N_SENDERS];
    kt_thread_t threads[2 * N_SENDERS];
    crowd_t crowd;

    crowd_init(&crowd, 2, 1);
    crowd.settings.n_lanes = 2;
    crowd.settings.window_bytes = 100000; /* and there is not always room */
    crowd_open(&crowd);
    crowd.server[0].arg = &orders;
    crowd.server[0].message = check_order;
    for (uint32_t i = 0; i < 2 * N_SENDERS; i++) {
        senders[i] = (sender_t){.from = &crowd.worker[i % 2], .number = i};
        kt_thread_start(&threads[i], send_storm, &senders[i]);
    }
    for (int i = 0; i < 2 * N_SENDERS; i++) {
        kt_thread_join(&threads[i]);
        KT_OK(senders[i].status);
    }
    crowd_await_messages(&crowd.server[0], 2 * N_SENDERS * N_EACH);
    KT_INT(orders.n_wrong, 0);
    crowd_close(&crowd);
}

/* ---- Receipts -------------------------------------------------------------------------------- */

typedef struct receipt {
    _Atomic int n;
    kvs_status_t status;
    char text[256];
} receipt_t;

static void on_done(void *arg, kvs_status_t status, const char *text)
{
    receipt_t *receipt = arg;

    receipt->status = status;
    snprintf(receipt->text, sizeof(receipt->text), "%s", text);
    receipt->n++;
}

static bool has_receipt(void *arg)
{
    return ((receipt_t *)arg)->n > 0;
}

static void check_receipts(crowd_t *crowd)
{
    member_t *from = &crowd->worker[0];
    uint8_t *body = calloc(1, KIB * KIB);

    for (size_t i = 0; i < 4; i++) {
        receipt_t receipt = {.n = 0};
        kvs_net_send_t send = message_of("h", 1, body, i < 2 ? 4 : KIB * KIB);

        send.flags = i % 2 == 0 ? KVS_NET_ACK_NOW : 0;
        send.done = on_done;
        send.arg = &receipt;
        KT_OK(kvs_net_send(from->node, crowd_peer(from, KVS_NET_SERVER, 0), &send));
        kt_until(has_receipt, &receipt, "a receipt");
        KT_INT(receipt.n, 1);
        KT_INT(receipt.status, KVS_OK);
        KT_TRUE(crowd->server[0].n_messages >=
                (int)i); /* taken, if perhaps still in its callback */
    }
    crowd_await_messages(&crowd->server[0], 4);
    free(body);
}

static void done_is_called_once_the_peer_has_received(void)
{
    crowd_t crowd;

    crowd_init(&crowd, 1, 1);
    crowd_open(&crowd);
    check_receipts(&crowd);
    crowd_close(&crowd);
    crowd_init(&crowd, 1, 1);
    crowd_open_together(&crowd);
    check_receipts(&crowd);
    crowd_close(&crowd);
}

static void keep(member_t *member, kvs_net_message_t *message)
{
    member->arg = message;
}

static void done_does_not_wait_for_the_message_to_be_released(void)
{
    crowd_t crowd;

    for (int together = 0; together < 2; together++) {
        receipt_t receipt = {.n = 0};
        uint8_t *body = calloc(1, 100000);
        kvs_net_send_t send = message_of("h", 1, body, 100000);
        kvs_net_message_t *kept;

        crowd_init(&crowd, 1, 1);
        together ? crowd_open_together(&crowd) : crowd_open(&crowd);
        crowd.server[0].message = keep;
        send.done = on_done;
        send.arg = &receipt;
        body[99999] = 42;
        KT_OK(kvs_net_send(crowd.worker[0].node, crowd_peer(&crowd.worker[0], KVS_NET_SERVER, 0),
                           &send));
        kt_until(has_receipt, &receipt, "a receipt");
        free(body);
        crowd_await_messages(&crowd.server[0], 1);
        kept = crowd.server[0].arg;
        KT_INT(((const uint8_t *)kept->body)[99999], 42);
        kvs_net_message_release(kept); /* on another thread than it came on */
        crowd_close(&crowd);
    }
}

/* ---- Room ------------------------------------------------------------------------------------ */

static void wait_at_gate(member_t *member, kvs_net_message_t *message)
{
    pthread_mutex_t *gate = member->arg; /* a callback that blocks, as it must not */

    pthread_mutex_lock(gate);
    pthread_mutex_unlock(gate);
    kvs_net_message_release(message);
}

/* Fill the window of a server that does not receive. Gives the messages taken. */
static int fill(member_t *from, const kvs_net_send_t *send)
{
    const kvs_net_peer_t *to = crowd_peer(from, KVS_NET_SERVER, 0);
    kvs_status_t status = KVS_OK;
    int n = -1;

    while (status == KVS_OK && n < 100000) {
        status = kvs_net_send(from->node, to, send);
        n++;
    }
    KT_INT(status, KVS_NET_AGAIN);
    return n;
}

static void a_full_window_refuses_and_tells_when_there_is_room(void)
{
    static uint8_t body[10000];
    kvs_net_send_t send = message_of("h", 1, body, sizeof(body));
    pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
    member_t *from;
    crowd_t crowd;
    int n;

    crowd_init(&crowd, 1, 1);
    crowd.settings.window_bytes = 200000;
    crowd_open(&crowd);
    from = &crowd.worker[0];
    crowd.server[0].arg = &gate;
    crowd.server[0].message = wait_at_gate;
    pthread_mutex_lock(&gate);
    n = fill(from, &send);
    KT_TRUE(n >= 19 && n < 40); /* the window, and what is acknowledged before the gate stops it */
    KT_FAIL(kvs_net_send_wait(from->node, crowd_peer(from, KVS_NET_SERVER, 0), &send, 20),
            KVS_ERR_TIMEOUT, "server 0 (host ");
    send.flags = KVS_NET_URGENT;
    KT_OK(kvs_net_send(from->node, crowd_peer(from, KVS_NET_SERVER, 0), &send));
    KT_INT(crowd_count_events(from, KVS_NET_EVENT_ROOM), 0);
    pthread_mutex_unlock(&gate);
    KT_STR(crowd_await_event(from, KVS_NET_EVENT_ROOM)->peer,
           crowd_peer(from, KVS_NET_SERVER, 0)->label);
    send.flags = 0;
    KT_OK(kvs_net_send_wait(from->node, crowd_peer(from, KVS_NET_SERVER, 0), &send, 10000));
    crowd_await_messages(&crowd.server[0], n + 2);
    crowd_close(&crowd);
}

static void a_message_larger_than_the_window_goes_alone(void)
{
    static uint8_t body[100000];
    kvs_net_send_t send = message_of("h", 1, body, sizeof(body));
    crowd_t crowd;

    crowd_init(&crowd, 1, 1);
    crowd.settings.window_bytes = 50000;
    crowd_open(&crowd);
    for (int i = 0; i < 5; i++) {
        KT_OK(kvs_net_send_wait(crowd.worker[0].node,
                                crowd_peer(&crowd.worker[0], KVS_NET_SERVER, 0), &send, 10000));
    }
    crowd_await_messages(&crowd.server[0], 5);
    crowd_close(&crowd);
}

typedef struct waiting {
    member_t *from;
    const kvs_net_send_t *send;
    kvs_status_t status;
    char text[256];
} waiting_t;

static void send_and_wait(void *arg)
{
    waiting_t *waiting = arg;

    waiting->status = kvs_net_send_wait(
        waiting->from->node, crowd_peer(waiting->from, KVS_NET_SERVER, 0), waiting->send, -1);
    snprintf(waiting->text, sizeof(waiting->text), "%s", kvs_last_error());
}

static void cancelling_wakes_whoever_waits_for_room(void)
{
    static uint8_t body[10000];
    kvs_net_send_t send = message_of("h", 1, body, sizeof(body));
    pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
    waiting_t waiting = {.send = &send};
    kt_thread_t thread;
    crowd_t crowd;

    crowd_init(&crowd, 1, 1);
    crowd.settings.window_bytes = 50000;
    crowd_open(&crowd);
    waiting.from = &crowd.worker[0];
    crowd.server[0].arg = &gate;
    crowd.server[0].message = wait_at_gate;
    pthread_mutex_lock(&gate);
    (void)fill(&crowd.worker[0], &send);
    kt_thread_start(&thread, send_and_wait, &waiting);
    kvs_net_node_cancel(crowd.worker[0].node);
    kt_thread_join(&thread);
    KT_INT(waiting.status, KVS_ERR_CANCELLED);
    KT_HAS(waiting.text, "cancelled");
    pthread_mutex_unlock(&gate);
    crowd_close(&crowd);
}

/* ---- Going ----------------------------------------------------------------------------------- */

static void closing_waits_until_all_is_received(void)
{
    static uint8_t body[256 * KIB];
    kvs_net_send_t send = message_of("h", 1, body, sizeof(body));
    crowd_t crowd;

    crowd_init(&crowd, 1, 1);
    crowd_open(&crowd);
    for (int i = 0; i < 40; i++) {
        KT_OK(kvs_net_send(crowd.worker[0].node, crowd_peer(&crowd.worker[0], KVS_NET_SERVER, 0),
                           &send));
    }
    KT_OK(kvs_net_node_close(crowd.worker[0].node, 10000));
    crowd.worker[0].node = NULL;
    crowd_await_messages(&crowd.server[0], 40);
    crowd_close(&crowd);
}

static void what_a_leaving_peer_did_not_receive_ends_with_an_error(void)
{
    static uint8_t body[10000];
    kvs_net_send_t send = message_of("h", 1, body, sizeof(body));
    receipt_t receipt = {.n = 0};
    const kvs_net_peer_t *to;
    crowd_t crowd;

    crowd_init(&crowd, 2, 0);
    crowd_open(&crowd);
    to = crowd_peer(&crowd.worker[0], KVS_NET_WORKER, 1);
    KT_OK(kvs_net_node_check_peer(crowd.worker[0].node, to));
    KT_OK(kvs_net_node_close(crowd.worker[1].node, 5000));
    crowd.worker[1].node = NULL;
    send.done = on_done;
    send.arg = &receipt;
    if (kvs_net_send(crowd.worker[0].node, to, &send) == KVS_OK) { /* not yet told: lost, then */
        kt_until(has_receipt, &receipt, "a receipt");
        KT_INT(receipt.status, KVS_ERR_PEER);
        KT_HAS(receipt.text, "worker 1 (host ");
    }
    KT_HAS(crowd_await_event(&crowd.worker[0], KVS_NET_EVENT_LEFT)->text, "has left the job");
    KT_FAIL(kvs_net_send(crowd.worker[0].node, to, &send), KVS_ERR_PEER, "worker 1 (host ");
    KT_FAIL(kvs_net_node_check_peer(crowd.worker[0].node, to), KVS_ERR_PEER, "has left the job");
    crowd_close(&crowd);
}

static void what_is_left_at_the_deadline_is_cancelled(void)
{
    static uint8_t body[100000];
    kvs_net_send_t send = message_of("h", 1, body, sizeof(body));
    pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
    receipt_t receipt = {.n = 0};
    crowd_t crowd;

    crowd_init(&crowd, 1, 1);
    crowd_open(&crowd);
    crowd.server[0].arg = &gate;
    crowd.server[0].message = wait_at_gate;
    pthread_mutex_lock(&gate);
    for (int i = 0; i < 3; i++) {
        send.done = i == 2 ? on_done : NULL;
        send.arg = &receipt;
        KT_OK(kvs_net_send(crowd.worker[0].node, crowd_peer(&crowd.worker[0], KVS_NET_SERVER, 0),
                           &send));
    }
    KT_FAIL(kvs_net_node_close(crowd.worker[0].node, 50), KVS_ERR_TIMEOUT,
            "closed before server 0 (host ");
    crowd.worker[0].node = NULL;
    KT_INT(receipt.n, 1);
    KT_INT(receipt.status, KVS_ERR_CANCELLED);
    pthread_mutex_unlock(&gate);
    crowd_close(&crowd);
}

/* More than ZeroMQ takes of one connection waits while its peer goes, for longer than a heartbeat. */
static void a_peer_that_goes_while_much_of_it_waits_harms_nobody(void)
{
    enum { N = 6000 };
    static uint8_t body[10000];
    kvs_net_send_t send = message_of("h", 1, body, sizeof(body));
    pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
    crowd_t crowd;

    crowd_init(&crowd, 2, 1);
    crowd.settings.window_bytes = 2 * N * sizeof(body);
    crowd_open(&crowd);
    crowd.server[0].arg = &gate;
    crowd.server[0].message = wait_at_gate;
    pthread_mutex_lock(&gate);
    for (int i = 0; i < N; i++) {
        KT_OK(kvs_net_send(crowd.worker[0].node, crowd_peer(&crowd.worker[0], KVS_NET_SERVER, 0),
                           &send));
    }
    KT_FAIL(kvs_net_node_close(crowd.worker[0].node, 50), KVS_ERR_TIMEOUT,
            "closed before server 0 (host ");
    crowd.worker[0].node = NULL;
    poll(NULL, 0, 3 * (int)crowd.settings.heartbeat_ms); /* there is nothing else to wait for */
    pthread_mutex_unlock(&gate);
    KT_OK(
        kvs_net_send(crowd.worker[1].node, crowd_peer(&crowd.worker[1], KVS_NET_SERVER, 0), &send));
    KT_OK(kvs_net_node_close(crowd.worker[1].node, 10000)); /* which has been received */
    crowd.worker[1].node = NULL;
    crowd_close(&crowd);
}

static void declare_dead(void *node)
{
    net_node_end(node, KVS_ERR_PEER, "declared dead");
}

static void what_a_node_declared_dead_has_sent_ends_with_an_error(void)
{
    static uint8_t body[100000];
    kvs_net_send_t send = message_of("h", 1, body, sizeof(body));
    pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
    receipt_t receipt = {.n = 0};
    const kvs_net_peer_t *to;
    member_t *from;
    crowd_t crowd;

    crowd_init(&crowd, 1, 1);
    crowd_open(&crowd);
    from = &crowd.worker[0];
    to = crowd_peer(from, KVS_NET_SERVER, 0);
    crowd.server[0].arg = &gate;
    crowd.server[0].message = wait_at_gate;
    pthread_mutex_lock(&gate);
    for (int i = 0; i < 3; i++) {
        send.done = i == 2 ? on_done : NULL;
        send.arg = &receipt;
        KT_OK(kvs_net_send(from->node, to, &send));
    }
    KT_OK(kvs_net_node_call(from->node, declare_dead, from->node));
    kt_until(has_receipt, &receipt, "a receipt");
    KT_INT(receipt.n, 1);
    KT_INT(receipt.status, KVS_ERR_PEER);
    KT_STR(receipt.text, "declared dead");
    KT_FAIL(kvs_net_send(from->node, to, &send), KVS_ERR_PEER, "declared dead");
    KT_INT(crowd_count_events(from, KVS_NET_EVENT_ENDED), 1);
    KT_INT(crowd_count_events(from, KVS_NET_EVENT_DEAD), 0);
    pthread_mutex_unlock(&gate);
    crowd_close(&crowd);
}

/* ---- The I/O thread -------------------------------------------------------------------------- */

typedef struct seen {
    member_t *member;
    kvs_status_t status;
    char text[256];
    _Atomic int n;
} seen_t;

static void wait_in_callback(void *arg)
{
    seen_t *seen = arg;
    int dead;

    seen->status = kvs_net_node_num_dead(seen->member->node, KVS_NET_WORKER, 1000, 1000, &dead);
    snprintf(seen->text, sizeof(seen->text), "%s", kvs_last_error());
    seen->n++;
}

static bool has_seen(void *arg)
{
    return ((seen_t *)arg)->n >= 3;
}

static void count_tick(void *arg)
{
    ((seen_t *)arg)->n++;
}

static void start_ticking(void *arg)
{
    seen_t *seen = arg;

    seen->status = kvs_net_node_set_tick(seen->member->node, 5, count_tick, seen);
}

static void callbacks_cannot_wait_and_calls_run_on_their_thread(void)
{
    crowd_t crowd;
    seen_t seen = {.member = &crowd.worker[0]};

    crowd_init(&crowd, 1, 0);
    crowd_open(&crowd);
    for (int i = 0; i < 3; i++) {
        KT_OK(kvs_net_node_call(crowd.worker[0].node, wait_in_callback, &seen));
    }
    kt_until(has_seen, &seen, "three calls");
    KT_INT(seen.status, KVS_ERR_STATE);
    KT_HAS(seen.text, "callback");
    seen.n = 0;
    KT_FAIL(kvs_net_node_set_tick(crowd.worker[0].node, 5, count_tick, &seen), KVS_ERR_STATE,
            "on the node's thread");
    KT_OK(kvs_net_node_call(crowd.worker[0].node, start_ticking, &seen));
    kt_until(has_seen, &seen, "three ticks");
    KT_OK(seen.status);
    crowd_close(&crowd);
}

static void count_slowly(void *arg)
{
    seen_t *seen = arg;

    for (int i = 0; i < 1000; i++) {
        sched_yield();
    }
    seen->n++;
}

static void a_call_can_be_waited_for_with_all_that_came_before(void)
{
    crowd_t crowd;
    seen_t seen = {.member = &crowd.worker[0]};

    crowd_init(&crowd, 1, 0);
    crowd_open(&crowd);
    KT_OK(kvs_net_node_call_wait(crowd.worker[0].node, count_slowly, &seen));
    KT_INT(seen.n, 1);
    KT_OK(kvs_net_node_call(crowd.worker[0].node, count_slowly, &seen));
    KT_OK(kvs_net_node_call_wait(crowd.worker[0].node, NULL, NULL));
    KT_INT(seen.n, 2);
    crowd_close(&crowd);
}

static const kt_test_t tests[] = {
    KT_TEST(every_size_arrives_whole),
    KT_TEST(every_size_arrives_whole_within_a_process),
    KT_TEST(every_size_arrives_whole_through_memory_within_a_process),
    KT_TEST(what_is_too_large_is_refused_before_it_is_sent),
    KT_TEST(a_node_may_send_to_itself_and_to_its_like),
    KT_TEST(a_storm_from_many_threads_keeps_each_ones_order),
    KT_TEST(done_is_called_once_the_peer_has_received),
    KT_TEST(done_does_not_wait_for_the_message_to_be_released),
    KT_TEST(a_full_window_refuses_and_tells_when_there_is_room),
    KT_TEST(a_message_larger_than_the_window_goes_alone),
    KT_TEST(cancelling_wakes_whoever_waits_for_room),
    KT_TEST(closing_waits_until_all_is_received),
    KT_TEST(what_a_leaving_peer_did_not_receive_ends_with_an_error),
    KT_TEST(what_is_left_at_the_deadline_is_cancelled),
    KT_TEST(a_peer_that_goes_while_much_of_it_waits_harms_nobody),
    KT_TEST(what_a_node_declared_dead_has_sent_ends_with_an_error),
    KT_TEST(callbacks_cannot_wait_and_calls_run_on_their_thread),
    KT_TEST(a_call_can_be_waited_for_with_all_that_came_before),
};

KT_MAIN("messages", tests)
