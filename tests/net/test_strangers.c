/* SPDX-License-Identifier: Apache-2.0 */
/* Garbage: from strangers who are no ZeroMQ peers, from those who are, and from a member that lies. A
 * job of real processes goes on as if nothing had happened. */
#include "address.h"
#include "clock.h"
#include "crew.h"
#include "socket.h"
#include "wire.h"

#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

static const net_socket_options_t options = {
    .max_frame_bytes = 1u << 28, .heartbeat_ms = 2000, .dead_after_ms = 15000};

static net_context_t *context; /* of this process, for all tests */

static void split(const char *address, char host[NET_HOST_MAX], int *ret_port)
{
    KT_OK(net_address_split(address, host, ret_port));
}

static net_socket_t *connect_to(const char *address)
{
    net_socket_t *socket = NULL;
    char host[NET_HOST_MAX];
    int port;

    split(address, host, &port);
    KT_OK(net_connector_open(context, host, port, &options, &socket));
    return socket;
}

static void send_bytes(net_socket_t *socket, const void *bytes, size_t n)
{
    net_frame_t frame;

    KT_TRUE(net_frame_copy(&frame, bytes, n));
    KT_TRUE(net_socket_send(socket, NULL, &frame, 1));
}

static void send_wire(net_socket_t *socket, net_wire_t wire)
{
    uint8_t bytes[1024];

    net_wire_encode(&wire, NULL, bytes);
    send_bytes(socket, bytes, net_wire_size(&wire, NULL));
}

/* The next frame of `type` on a socket, others passed over; it points into `frame`. */
static bool receive_type(net_socket_t *socket, bool listener, unsigned type, net_frame_t *frame,
                         net_wire_t *ret_wire)
{
    int64_t deadline = net_deadline(CREW_PATIENCE_MS);
    net_route_t route;

    while (net_now() < deadline) {
        if (net_socket_receive(socket, listener ? &route : NULL, frame, 1) == 1) {
            if (net_wire_decode(net_frame_data(frame), net_frame_size(frame), ret_wire) == KVS_OK &&
                ret_wire->type == type) {
                return true;
            }
            net_frame_release(frame);
        } else {
            (void)net_wait(&socket, 1, NULL, 0, net_poll_ms(deadline));
        }
    }
    KT_TRUE(!"a frame came");
    return false;
}

/* The job still works: something is echoed, and a barrier is passed. */
static void check_alive(crew_t *crew)
{
    KT_STR(crew_ask(&crew->worker[0], "send ", "send 2 0 1000"), "KVS_OK");
    (void)crew_hear(&crew->worker[0], "message of 1000 bytes from server 0");
}

static void check_unharmed(crew_t *crew)
{
    check_alive(crew);
    KT_STR(crew_ask(&crew->worker[0], "store ", "store dist_sync 10000"), "KVS_OK");
    KT_STR(crew_ask(&crew->worker[0], "barrier ", "barrier 10000"), "KVS_OK");
    crew_close(crew);
}

static void open_job(crew_t *crew, const char *targets[2], char address[128])
{
    crew_open(crew, 1, 1, NULL);
    snprintf(address, 128, "%s", crew_hear(&crew->server[0], "listens "));
    targets[0] = crew->address;
    targets[1] = address;
}

/* ---- Strangers -------------------------------------------------------------------------------- */

static void babble_over_tcp(const char *address, const void *bytes, size_t n)
{
    net_address_t to;
    char host[NET_HOST_MAX];
    int port, fd;
    size_t n_found;

    split(address, host, &port);
    KT_OK(net_address_resolve(host, port, &to, 1, &n_found));
    fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    KT_INT(connect(fd, (struct sockaddr *)&to.storage, to.size), 0);
    (void)!send(fd, bytes, n, MSG_NOSIGNAL); /* they may have closed already */
    close(fd);
}

static void what_is_no_zeromq_is_ignored(void)
{
    static const char http[] = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
    uint8_t noise[4096];
    char address[128];
    const char *targets[2];
    crew_t crew;

    open_job(&crew, targets, address);
    for (size_t i = 0; i < sizeof(noise); i++) {
        noise[i] = (uint8_t)(i * 2654435761u >> 13);
    }
    for (int i = 0; i < 2; i++) {
        babble_over_tcp(targets[i], http, sizeof(http) - 1);
        babble_over_tcp(targets[i], noise, sizeof(noise));
        babble_over_tcp(targets[i], "", 0);
        noise[0] = 0xff; /* as a ZMTP greeting begins */
        noise[9] = 0x7f;
        babble_over_tcp(targets[i], noise, sizeof(noise));
    }
    check_unharmed(&crew);
}

static void send_all_sorts(net_socket_t *socket)
{
    net_wire_t data = {.type = NET_DATA, .seq = 1};
    uint8_t bytes[64];
    net_frame_t frames[5];

    send_bytes(socket, "", 0);
    send_bytes(socket, "garbage", 7);
    net_wire_encode(&(net_wire_t){.type = NET_BEAT}, NULL, bytes);
    send_bytes(socket, bytes, 39); /* cut */
    bytes[4] = 9;
    send_bytes(socket, bytes, 40); /* another version */
    send_wire(socket, data);       /* nobody said whose it is */
    send_wire(socket, (net_wire_t){.type = NET_LANE, .as.lane = {1, 2, 3, 0, 0}});
    send_wire(socket, (net_wire_t){.type = NET_WELCOME});
    send_wire(socket, (net_wire_t){.type = NET_STORE_CLOSED});
    send_wire(socket, (net_wire_t){.type = NET_LEAVE});
    for (int i = 0; i < 5; i++) {
        KT_TRUE(net_frame_copy(&frames[i], "x", 1));
    }
    KT_TRUE(net_socket_send(socket, NULL, frames, 5));
}

static void garbage_from_strangers_is_ignored(void)
{
    char address[128];
    const char *targets[2];
    net_socket_t *sockets[2];
    crew_t crew;

    open_job(&crew, targets, address);
    for (int i = 0; i < 2; i++) {
        sockets[i] = connect_to(targets[i]);
        for (int repeat = 0; repeat < 50; repeat++) {
            send_all_sorts(sockets[i]);
        }
    }
    check_unharmed(&crew);
    net_socket_close(sockets[0], 0);
    net_socket_close(sockets[1], 0);
}

static void a_frame_over_the_limit_is_not_read(void)
{
    size_t n = (size_t)70 << 20;
    void *bytes = calloc(1, n);
    char address[128];
    const char *targets[2];
    net_socket_t *sockets[2];
    crew_t crew;

    open_job(&crew, targets, address);
    for (int i = 0; i < 2; i++) {
        sockets[i] = connect_to(targets[i]);
        send_bytes(sockets[i], bytes, n);
    }
    check_unharmed(&crew);
    net_socket_close(sockets[0], 0);
    net_socket_close(sockets[1], 0);
    free(bytes);
}

static void a_hello_of_another_version_is_answered_in_words(void)
{
    net_hello_t hello = {.job_id = "default",
                         .host = "far",
                         .role = KVS_NET_WORKER,
                         .rank = 0,
                         .pid = 99,
                         .group = "test",
                         .address = "127.0.0.1:1",
                         .n_workers = 1,
                         .n_servers = 1};
    net_wire_t wire = {.type = NET_HELLO, .as.hello = hello}, got;
    uint8_t bytes[512];
    net_socket_t *socket;
    net_frame_t frame;
    char address[128];
    const char *targets[2];
    crew_t crew;

    open_job(&crew, targets, address);
    socket = connect_to(crew.address);
    net_wire_encode(&wire, NULL, bytes);
    bytes[4] = 77;
    send_bytes(socket, bytes, net_wire_size(&wire, NULL));
    if (receive_type(socket, false, NET_REFUSED, &frame, &got)) {
        KT_HAS(got.as.notice.text,
               "protocol version differs: worker 0 (host far, pid 99) speaks 77, scheduler (host ");
        net_frame_release(&frame);
    }
    check_unharmed(&crew);
    net_socket_close(socket, 0);
}

/* ---- A member that lies ----------------------------------------------------------------------- */

/* What the liar calls its two connections. */
#define CONTROL_LINK 0x1111
#define LANE_LINK    0x2222

/* Worker 1 of a job of two, played by this process. */
typedef struct liar {
    net_socket_t *control, *listener, *lane;
    uint64_t incarnation, token, server;
    char server_address[128];
} liar_t;

static void learn(liar_t *liar, const net_welcome_t *welcome)
{
    net_wire_list_t list = welcome->members;
    net_wire_member_t member;

    liar->token = welcome->token;
    while (net_wire_next_member(&list, &member)) {
        if (member.role == KVS_NET_SERVER) {
            liar->server = member.incarnation;
            snprintf(liar->server_address, sizeof(liar->server_address), "%s", member.address);
        }
    }
}

static void join_job(liar_t *liar, const char *scheduler)
{
    const kvs_net_fact_t facts[] = {{"number of lanes", "1"}, {"limit of messages", "67108864"}};
    const net_wire_lists_t lists = {.facts = facts, .n_facts = 2};
    char own[64];
    net_wire_t wire = {.type = NET_HELLO,
                       .link = CONTROL_LINK,
                       .as.hello = {.job_id = "default",
                                    .host = "liar",
                                    .role = KVS_NET_WORKER,
                                    .rank = 1,
                                    .pid = 666,
                                    .group = "test",
                                    .address = own,
                                    .host_id = net_host_id(),
                                    .n_workers = 2,
                                    .n_servers = 1}};
    net_frame_t frame;
    net_wire_t got;
    uint8_t bytes[512];
    int port;

    liar->incarnation = wire.as.hello.incarnation = net_random();
    KT_OK(net_listener_open(context, "127.0.0.1", 0, &options, &liar->listener, &port, NULL));
    snprintf(own, sizeof(own), "127.0.0.1:%d", port);
    liar->control = connect_to(scheduler);
    net_wire_encode(&wire, &lists, bytes);
    send_bytes(liar->control, bytes, net_wire_size(&wire, &lists));
    if (receive_type(liar->control, false, NET_WELCOME, &frame, &got)) {
        learn(liar, &got.as.welcome);
        net_frame_release(&frame);
    }
    liar->lane = connect_to(liar->server_address);
    send_wire(liar->lane,
              (net_wire_t){.type = NET_LANE,
                           .link = LANE_LINK,
                           .as.lane = {liar->token, liar->incarnation, liar->server, 0, 0}});
}

static void leave_job(liar_t *liar)
{
    send_wire(liar->control, (net_wire_t){.type = NET_LEAVE, .link = CONTROL_LINK, .seq = 1});
    net_socket_close(liar->control, 1000);
    net_socket_close(liar->lane, 0);
    net_socket_close(liar->listener, 0);
}

static void open_job_with(crew_t *crew, liar_t *liar)
{
    *crew = (crew_t){.n_workers = 2, .n_servers = 1};
    crew_start(&crew->scheduler, "scheduler", crew_environment(crew, "scheduler", -1));
    crew_say(&crew->scheduler, "open");
    snprintf(crew->address, sizeof(crew->address), "%s", crew_hear(&crew->scheduler, "address "));
    crew_start(&crew->server[0], "server 0", crew_environment(crew, "server", 0));
    crew_start(&crew->worker[0], "worker 0", crew_environment(crew, "worker", 0));
    crew_say(&crew->server[0], "open");
    crew_say(&crew->worker[0], "open");
    crew_say(&crew->worker[0], "ready -1");
    join_job(liar, crew->address);
    KT_STR(crew_hear(&crew->worker[0], "ready "), "KVS_OK");
}

/* The server shuts the liar out, tells it and everyone why, and goes on with the others. */
static void check_shut_out(crew_t *crew, liar_t *liar, const char *part)
{
    net_frame_t frame;
    net_wire_t got;
    const char *said;

    if (receive_type(liar->listener, true, NET_CLOSE, &frame, &got)) {
        KT_HAS(got.as.notice.text,
               "has shut out worker 1 (host liar, pid 666), as it sent nonsense: ");
        KT_HAS(got.as.notice.text, part);
        net_frame_release(&frame);
    }
    said = crew_hear(&crew->worker[0], "event error KVS_ERR_PEER: ");
    KT_HAS(said, part);
    check_alive(crew);
    leave_job(liar);
    crew_close(crew);
}

static net_wire_t data_frame(uint64_t seq, uint64_t ack, uint64_t n_body)
{
    return (net_wire_t){
        .type = NET_DATA, .link = LANE_LINK, .seq = seq, .ack = ack, .as.data = {.n_body = n_body}};
}

static void a_member_that_sends_garbage_is_shut_out(void)
{
    crew_t crew;
    liar_t liar;

    open_job_with(&crew, &liar);
    send_bytes(liar.lane, "garbage", 7);
    check_shut_out(&crew, &liar, "does not begin as one of ours");
}

static void a_member_that_replays_is_shut_out(void)
{
    crew_t crew;
    liar_t liar;

    open_job_with(&crew, &liar);
    send_wire(liar.lane, data_frame(1, 0, 0));
    send_wire(liar.lane, data_frame(1, 0, 0));
    check_shut_out(&crew, &liar, "a DATA with number 1 came a second time");
}

static void a_member_that_acknowledges_what_was_not_sent_is_shut_out(void)
{
    crew_t crew;
    liar_t liar;

    open_job_with(&crew, &liar);
    send_wire(liar.lane, data_frame(1, 77, 0));
    check_shut_out(&crew, &liar, "number 77, which was never sent");
}

static void a_member_whose_body_is_missing_is_shut_out(void)
{
    crew_t crew;
    liar_t liar;

    open_job_with(&crew, &liar);
    send_wire(liar.lane, data_frame(1, 0, 100000));
    check_shut_out(&crew, &liar, "a body of 100000 bytes came in 1 frames");
}

static void a_gap_is_asked_for_and_filled(void)
{
    crew_t crew;
    liar_t liar;
    net_frame_t frame;
    net_wire_t got;

    open_job_with(&crew, &liar);
    send_wire(liar.lane, data_frame(3, 0, 0)); /* as if a connection had been lost */
    if (receive_type(liar.listener, true, NET_ACK, &frame, &got)) {
        KT_INT(got.ack, 0);
        KT_INT(got.flags, NET_RESEND);
        net_frame_release(&frame);
    }
    for (uint64_t seq = 1; seq <= 3; seq++) {
        send_wire(liar.lane, data_frame(seq, 0, 0));
    }
    for (uint64_t n = 0; n < 3; n++) { /* each is echoed, once */
        if (receive_type(liar.listener, true, NET_DATA, &frame, &got)) {
            KT_INT(got.seq, n + 1);
            net_frame_release(&frame);
        }
    }
    check_alive(&crew);
    leave_job(&liar);
    crew_close(&crew);
}

static void what_is_asked_for_is_sent_again(void)
{
    crew_t crew;
    liar_t liar;
    net_frame_t frame;
    net_wire_t got;

    open_job_with(&crew, &liar);
    for (uint64_t seq = 1; seq <= 2; seq++) {
        send_wire(liar.lane, data_frame(seq, 0, 0));
    }
    for (uint64_t n = 0; n < 2; n++) {
        if (receive_type(liar.listener, true, NET_DATA, &frame, &got)) {
            KT_INT(got.seq, n + 1);
            net_frame_release(&frame);
        }
    }
    send_wire(liar.lane,
              (net_wire_t){.type = NET_ACK, .link = LANE_LINK, .flags = NET_RESEND, .ack = 1});
    if (receive_type(liar.listener, true, NET_DATA, &frame, &got)) {
        KT_INT(got.seq, 2); /* only what was not acknowledged */
        net_frame_release(&frame);
    }
    check_alive(&crew);
    leave_job(&liar);
    crew_close(&crew);
}

static const kt_test_t tests[] = {
    KT_TEST(what_is_no_zeromq_is_ignored),
    KT_TEST(garbage_from_strangers_is_ignored),
    KT_TEST(a_frame_over_the_limit_is_not_read),
    KT_TEST(a_hello_of_another_version_is_answered_in_words),
    KT_TEST(a_member_that_sends_garbage_is_shut_out),
    KT_TEST(a_member_that_replays_is_shut_out),
    KT_TEST(a_member_that_acknowledges_what_was_not_sent_is_shut_out),
    KT_TEST(a_member_whose_body_is_missing_is_shut_out),
    KT_TEST(a_gap_is_asked_for_and_filled),
    KT_TEST(what_is_asked_for_is_sent_again),
};

int main(int argc, char **argv)
{
    int result;

    if (net_context_new(1, &context) != KVS_OK) {
        return 1;
    }
    result = kt_run("strangers", tests, sizeof(tests) / sizeof(tests[0]), argc, argv);
    net_context_free(context);
    return result;
}
