/* SPDX-License-Identifier: Apache-2.0 */
/* bench.c - what messages cost, beside what they are made of: round trips of 4 bytes, and 64 MiB in parts
 * of 256 KiB one way with one answer at the end, between two processes on loopback. Three peers, taken in
 * turns: net, plain ZeroMQ (DEALER to ROUTER and back, one I/O thread), plain TCP. Times are per round
 * trip, or per 64 MiB; compare them within one run only.
 *
 *     net_bench [ROUNDS]      (5) */
#include <kvstore/net.h>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <semaphore.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <zmq.h>

#define PART       (256u << 10)
#define N_PARTS    256
#define TOTAL      ((size_t)PART * N_PARTS)
#define N_TRIPS    2000
#define N_BULKS    5
#define MAX_ROUNDS 50

static char *payload;

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void die(const char *what)
{
    fprintf(stderr, "net_bench: %s: %s\n", what, kvs_last_error());
    exit(1);
}

/* A peer is a way to make one round trip and one bulk transfer. */
typedef struct way {
    void (*trip)(void);
    void (*bulk)(void);
} way_t;

/* ---- net ------------------------------------------------------------------------------------- */

static kvs_net_job_t *scheduler, *job;
static kvs_net_node_t *node;
static const kvs_net_peer_t *peer;
static sem_t answered;
static int n_parts; /* the echo's, of a bulk */
static pid_t server;

static void on_answer(void *arg, kvs_net_message_t *message)
{
    (void)arg;
    kvs_net_message_release(message);
    sem_post(&answered);
}

/* At the other process: small ones are echoed, the last part of a bulk is answered. */
static void on_request(void *arg, kvs_net_message_t *message)
{
    kvs_net_send_t send = KVS_NET_SEND_INIT;

    (void)arg;
    send.body = "echo";
    send.n_body_bytes = 4;
    if (message->n_body_bytes < PART || ++n_parts % N_PARTS == 0) {
        (void)kvs_net_send(node, message->from, &send);
    }
    kvs_net_message_release(message);
}

static void net_trip(void)
{
    kvs_net_send_t send = KVS_NET_SEND_INIT;

    send.body = "ping";
    send.n_body_bytes = 4;
    if (kvs_net_send(node, peer, &send) != KVS_OK) {
        die("send");
    }
    sem_wait(&answered);
}

static void forget(void *arg, kvs_status_t status, const char *text)
{
    (void)arg;
    (void)status;
    (void)text;
}

static void net_bulk(void)
{
    for (size_t at = 0; at < TOTAL; at += PART) {
        kvs_net_send_t send = KVS_NET_SEND_INIT;

        send.body = payload + at;
        send.n_body_bytes = PART;
        send.done = forget; /* so that nothing is copied */
        if (kvs_net_send_wait(node, peer, &send, -1) != KVS_OK) {
            die("send");
        }
    }
    sem_wait(&answered);
}

static void open_node(int role, const char *address,
                      void (*message)(void *arg, kvs_net_message_t *message))
{
    kvs_net_settings_t settings = KVS_NET_SETTINGS_INIT;
    kvs_net_node_args_t args = KVS_NET_NODE_ARGS_INIT;

    settings.role = role;
    settings.n_servers = 1;
    snprintf(settings.scheduler, sizeof(settings.scheduler), "%s", address);
    args.role = role;
    args.group = "bench";
    args.message = message;
    if (kvs_net_job_open(&settings, &job) != KVS_OK ||
        kvs_net_node_open(job, &args, &node) != KVS_OK ||
        kvs_net_node_wait_ready(node, 20000) != KVS_OK) {
        die("open");
    }
}

static void net_open(const char *program)
{
    kvs_net_settings_t settings = KVS_NET_SETTINGS_INIT;

    settings.role = KVS_NET_SCHEDULER;
    settings.n_servers = 1;
    snprintf(settings.scheduler, sizeof(settings.scheduler), "127.0.0.1:0");
    if (kvs_net_job_open(&settings, &scheduler) != KVS_OK) {
        die("scheduler");
    }
    server = fork();
    if (server == 0) {
        execl(program, program, "--server", kvs_net_job_scheduler(scheduler), (char *)NULL);
        _exit(127);
    }
    sem_init(&answered, 0, 0);
    open_node(KVS_NET_WORKER, kvs_net_job_scheduler(scheduler), on_answer);
    peer = kvs_net_node_peer(node, KVS_NET_SERVER, 0);
}

static _Noreturn void serve(const char *address)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    open_node(KVS_NET_SERVER, address, on_request);
    for (;;) {
        pause();
    }
}

/* ---- ZeroMQ ---------------------------------------------------------------------------------- */

static void *zmq_out, *zmq_in;

static void keep(void *data, void *hint)
{
    (void)data;
    (void)hint;
}

static void *zmq_open(void *context, int type, int port, bool binds)
{
    void *socket = zmq_socket(context, type);
    int none = 0;
    char endpoint[64];

    zmq_setsockopt(socket, ZMQ_SNDHWM, &none, sizeof(none));
    zmq_setsockopt(socket, ZMQ_RCVHWM, &none, sizeof(none));
    zmq_setsockopt(socket, ZMQ_LINGER, &none, sizeof(none));
    snprintf(endpoint, sizeof(endpoint), "tcp://127.0.0.1:%d", port);
    if ((binds ? zmq_bind : zmq_connect)(socket, endpoint) != 0) {
        perror(endpoint);
        exit(1);
    }
    return socket;
}

static size_t zmq_take(void *router)
{
    zmq_msg_t frame;
    size_t n = 0;
    int more = 1;

    while (more) {
        zmq_msg_init(&frame);
        if (zmq_msg_recv(&frame, router, 0) < 0) {
            exit(1);
        }
        n = zmq_msg_size(&frame);
        more = zmq_msg_more(&frame);
        zmq_msg_close(&frame);
    }
    return n;
}

static void zmq_serve(int port)
{
    void *context = zmq_ctx_new();
    void *in = zmq_open(context, ZMQ_ROUTER, port, true);
    void *out = zmq_open(context, ZMQ_DEALER, port + 1, false);

    for (int parts = 0;;) {
        if (zmq_take(in) < PART || ++parts % N_PARTS == 0) {
            zmq_send(out, "echo", 4, 0);
        }
    }
}

static void zmq_trip(void)
{
    zmq_send(zmq_out, "ping", 4, 0);
    (void)zmq_take(zmq_in);
}

static void zmq_bulk(void)
{
    for (size_t at = 0; at < TOTAL; at += PART) {
        zmq_msg_t frame;

        zmq_msg_init_data(&frame, payload + at, PART, keep, NULL);
        zmq_msg_send(&frame, zmq_out, 0);
    }
    (void)zmq_take(zmq_in);
}

static pid_t zmq_start(int port)
{
    void *context;
    pid_t child = fork();

    if (child == 0) {
        zmq_serve(port);
    }
    context = zmq_ctx_new();
    zmq_in = zmq_open(context, ZMQ_ROUTER, port + 1, true);
    zmq_out = zmq_open(context, ZMQ_DEALER, port, false);
    return child;
}

/* ---- TCP ------------------------------------------------------------------------------------- */

static int tcp_fd;

static void read_all(int fd, char *to, size_t n)
{
    while (n > 0) {
        ssize_t got = recv(fd, to, n, 0);

        if (got <= 0) {
            exit(1);
        }
        to += got;
        n -= (size_t)got;
    }
}

static void write_all(int fd, const char *from, size_t n)
{
    while (n > 0) {
        ssize_t sent = send(fd, from, n, MSG_NOSIGNAL);

        if (sent <= 0) {
            exit(1);
        }
        from += sent;
        n -= (size_t)sent;
    }
}

/* A length, then as many bytes; parts go to one buffer, as ZeroMQ's allocator reuses its memory. */
static void tcp_serve(int listener)
{
    static char buffer[PART];
    int fd = accept(listener, NULL, NULL), one = 1;

    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    for (int parts = 0;;) {
        uint32_t n;

        read_all(fd, (char *)&n, sizeof(n));
        read_all(fd, buffer, n);
        if (n < PART || ++parts % N_PARTS == 0) {
            write_all(fd, "echo", 4);
        }
    }
}

static void tcp_say(const char *bytes, uint32_t n)
{
    write_all(tcp_fd, (const char *)&n, sizeof(n));
    write_all(tcp_fd, bytes, n);
}

static void tcp_trip(void)
{
    char ping[8] = {4, 0, 0, 0, 'p', 'i', 'n', 'g'}, echo[4];

    write_all(tcp_fd, ping, sizeof(ping));
    read_all(tcp_fd, echo, sizeof(echo));
}

static void tcp_bulk(void)
{
    char echo[4];

    for (size_t at = 0; at < TOTAL; at += PART) {
        tcp_say(payload + at, PART);
    }
    read_all(tcp_fd, echo, sizeof(echo));
}

static pid_t tcp_start(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(address);
    int listener = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    pid_t child;

    if (bind(listener, (struct sockaddr *)&address, size) != 0 || listen(listener, 1) != 0 ||
        getsockname(listener, (struct sockaddr *)&address, &size) != 0) {
        die("listen");
    }
    child = fork();
    if (child == 0) {
        tcp_serve(listener);
    }
    tcp_fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(tcp_fd, (struct sockaddr *)&address, size) != 0) {
        die("connect");
    }
    setsockopt(tcp_fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    return child;
}

/* ---- Measuring ------------------------------------------------------------------------------- */

static double time_trips(const way_t *way)
{
    double begun = now();

    for (int i = 0; i < N_TRIPS; i++) {
        way->trip();
    }
    return (now() - begun) / N_TRIPS;
}

static double time_bulks(const way_t *way)
{
    double begun = now();

    for (int i = 0; i < N_BULKS; i++) {
        way->bulk();
    }
    return (now() - begun) / N_BULKS;
}

static int compare(const void *a, const void *b)
{
    return *(const double *)a < *(const double *)b ? -1 : 1;
}

static void print_row(const char *name, const char *workload, size_t n_bytes, double *times, int n)
{
    qsort(times, (size_t)n, sizeof(*times), compare);
    printf("{\"peer\": \"%s\", \"workload\": \"%s\", \"size_bytes\": %zu, \"procs\": 2, "
           "\"median_s\": %.3e, \"min_s\": %.3e, \"max_s\": %.3e, \"GBps\": %.2f}\n",
           name, workload, n_bytes, times[n / 2], times[0], times[n - 1],
           (double)n_bytes / times[n / 2] / 1e9);
}

int main(int argc, char **argv)
{
    static double trips[3][MAX_ROUNDS], bulks[3][MAX_ROUNDS];
    static const char *const names[] = {"net", "zmq", "tcp"};
    static const way_t ways[] = {{net_trip, net_bulk}, {zmq_trip, zmq_bulk}, {tcp_trip, tcp_bulk}};
    int n_rounds = argc > 1 ? atoi(argv[1]) : 5;
    pid_t children[2];

    if (argc > 2 && strcmp(argv[1], "--server") == 0) {
        serve(argv[2]);
    }
    n_rounds = n_rounds < 1 ? 1 : n_rounds > MAX_ROUNDS ? MAX_ROUNDS : n_rounds;
    payload = malloc(TOTAL);
    memset(payload, 1, TOTAL);
    children[0] = tcp_start(); /* the two that only fork come before there are threads */
    children[1] = zmq_start(20000 + (int)(getpid() % 20000));
    net_open("/proc/self/exe");
    for (int round = -1; round < n_rounds; round++) { /* the first is not counted */
        for (int i = 0; i < 3; i++) {
            trips[i][round < 0 ? 0 : round] = time_trips(&ways[i]);
            bulks[i][round < 0 ? 0 : round] = time_bulks(&ways[i]);
        }
    }
    for (int i = 0; i < 3; i++) {
        print_row(names[i], "rtt", 4, trips[i], n_rounds);
    }
    for (int i = 0; i < 3; i++) {
        print_row(names[i], "stream_256KiB", TOTAL, bulks[i], n_rounds);
    }
    kill(children[0], SIGKILL);
    kill(children[1], SIGKILL);
    (void)kvs_net_node_close(node, 1000);
    kill(server, SIGKILL);
    (void)kvs_net_job_close(job, 1000);
    (void)kvs_net_job_close(scheduler, 0);
    return 0;
}
