/* SPDX-License-Identifier: Apache-2.0 */
/* node_main.c - a process of a job for tests: it is told by its environment who it is, reads commands
 * from standard input, and says on standard output what came of them and what it hears meanwhile.
 *
 * Results are "COMMAND KVS_OK" or "COMMAND STATUS: TEXT". Servers echo what they receive; servers and
 * scheduler end by themselves when the job has ended, with exit status 0 or, after "ended", 3. */
#include "kt.h"
#include "say.h"

#include <kvstore/net.h>

#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define PATIENCE_MS 10000

static kvs_net_settings_t settings;
static kvs_net_job_t *job;
static kvs_net_node_t *worker, *server;
static kvs_net_store_t *store;
static kvs_net_segment_t *segment;
static _Atomic int end_status; /* of a server's job */
static int end_fd;             /* readable once that has ended */

/* A storm: numbered messages, whose echoes have to come once each and in order. */
static pthread_mutex_t storm_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t storm_moves = PTHREAD_COND_INITIALIZER;
static uint32_t n_echoes, n_wrong; /* guarded by storm_lock */
static bool has_lost;              /* somebody: likewise */
static _Atomic bool is_storm;

/* ---- Callbacks ------------------------------------------------------------------------------- */

static void on_event(void *arg, const kvs_net_event_t *event)
{
    static const char *const names[] = {"",      "left",   "dead",   "room",
                                        "error", "opened", "closed", "ended"};

    if (event->kind == KVS_NET_EVENT_DEAD) {
        pthread_mutex_lock(&storm_lock);
        has_lost = true;
        pthread_cond_signal(&storm_moves);
        pthread_mutex_unlock(&storm_lock);
    }
    say_line("event %s %s: %s", names[event->kind], kvs_status_name(event->status), event->text);
    if (event->kind == KVS_NET_EVENT_ENDED && arg == &server) {
        end_status = event->status;
        if (settings.role == KVS_NET_SERVER) {
            uint64_t one = 1;

            (void)!write(end_fd, &one, sizeof(one));
        }
    }
}

static void take_echo(const kvs_net_message_t *message)
{
    uint32_t number;

    memcpy(&number, message->body, sizeof(number));
    pthread_mutex_lock(&storm_lock);
    n_wrong += number != n_echoes++;
    pthread_cond_signal(&storm_moves);
    pthread_mutex_unlock(&storm_lock);
}

static void on_message(void *arg, kvs_net_message_t *message)
{
    kvs_net_send_t send = KVS_NET_SEND_INIT;

    if (arg == &server) {
        send.store = message->store;
        send.body = message->body;
        send.n_body_bytes = message->n_body_bytes;
        send.flags = KVS_NET_URGENT;
        (void)kvs_net_send(server, message->from, &send); /* the sender may be gone */
    } else if (is_storm) {
        take_echo(message);
    } else {
        say_line("message of %zu bytes from %s", message->n_body_bytes, message->from->label);
    }
    kvs_net_message_release(message);
}

/* ---- Commands -------------------------------------------------------------------------------- */

static kvs_status_t open_node(int role, kvs_net_node_t **node)
{
    kvs_net_node_args_t args = KVS_NET_NODE_ARGS_INIT;
    const char *plugin = getenv("TEST_PLUGIN");
    kvs_net_fact_t fact = {"plugin", plugin == NULL ? "test 1" : plugin};

    args.role = role;
    args.group = "test";
    args.facts = &fact;
    args.n_facts = 1;
    args.message = on_message;
    args.event = on_event;
    args.arg = node;
    return kvs_net_node_open(job, &args, node);
}

static void do_open(void)
{
    kvs_status_t status = kvs_net_settings_read(NULL, NULL, &settings);
    const char *window = getenv("TEST_WINDOW");

    settings.window_bytes = window == NULL ? 0 : strtoull(window, NULL, 10);
    status = status == KVS_OK ? kvs_net_job_open(&settings, &job) : status;
    if (status == KVS_OK && (settings.role == KVS_NET_SERVER || kvs_net_job_hosts_server(job))) {
        status = open_node(KVS_NET_SERVER, &server);
    }
    if (status == KVS_OK && settings.role == KVS_NET_WORKER) {
        status = open_node(KVS_NET_WORKER, &worker);
    }
    say_result("open", status);
    if (status == KVS_OK && settings.role == KVS_NET_SCHEDULER) {
        say_line("address %s", kvs_net_job_scheduler(job));
    }
}

static kvs_net_node_t *node(void)
{
    return worker != NULL ? worker : server;
}

static void do_ready(const char *words)
{
    kvs_status_t status = kvs_net_node_wait_ready(node(), strtol(words, NULL, 10));

    say_result("ready", status);
    if (status == KVS_OK) {
        say_line("rank %d of %d, %d servers, local %d, host server %d", kvs_net_node_rank(node()),
                 kvs_net_node_count(node(), KVS_NET_WORKER),
                 kvs_net_node_count(node(), KVS_NET_SERVER), kvs_net_node_local_rank(node()),
                 kvs_net_job_hosts_server(job));
        say_line("listens %s", kvs_net_node_self(node())->address);
    }
}

static void do_store(const char *words)
{
    kvs_net_store_args_t args = KVS_NET_STORE_ARGS_INIT;
    char type[64] = "";
    long timeout_ms = -1;

    sscanf(words, "%63s %ld", type, &timeout_ms);
    args.type = type;
    args.message = on_message;
    args.arg = &worker;
    say_result("store", kvs_net_store_open(worker, &args, timeout_ms, &store));
}

static void do_send(const char *words)
{
    kvs_net_send_t send = KVS_NET_SEND_INIT;
    unsigned n_bytes = 0;
    int role = KVS_NET_SERVER, rank = 0;
    void *body;

    sscanf(words, "%d %d %u", &role, &rank, &n_bytes);
    body = calloc(1, n_bytes + 1);
    send.body = body;
    send.n_body_bytes = n_bytes;
    say_result("send", kvs_net_send_wait(node(), kvs_net_node_peer(node(), role, rank), &send,
                                         PATIENCE_MS));
    free(body);
}

/* "storm N": a line when half of them are back, and one at the end. */
static void do_storm(const char *words)
{
    uint32_t n = (uint32_t)strtoul(words, NULL, 10);
    const kvs_net_peer_t *to = kvs_net_node_peer(worker, KVS_NET_SERVER, 0);
    uint32_t *body = calloc(1, 20000);
    kvs_status_t status = KVS_OK;

    n_echoes = n_wrong = 0;
    has_lost = false;
    is_storm = true;
    for (uint32_t i = 0; i < n && status == KVS_OK; i++) {
        kvs_net_send_t send = KVS_NET_SEND_INIT;

        body[0] = i;
        send.body = body;
        send.n_body_bytes = i % 8 == 0 ? 20000 : 4;
        status = kvs_net_send_wait(worker, to, &send, PATIENCE_MS);
        if (i == n / 2) {
            say_line("half");
        }
    }
    pthread_mutex_lock(&storm_lock);
    while (status == KVS_OK && n_echoes < n && !has_lost) {
        pthread_cond_wait(&storm_moves, &storm_lock);
    }
    pthread_mutex_unlock(&storm_lock);
    is_storm = false;
    free(body);
    if (status == KVS_OK) {
        say_line("storm %u echoes, %u out of order", n_echoes, n_wrong);
    } else {
        say_result("storm", status);
    }
}

static void do_traffic(void)
{
    kvs_net_traffic_t traffic = KVS_NET_TRAFFIC_INIT;

    kvs_net_node_traffic(node(), &traffic);
    say_line("traffic shm %llu %llu tcp %llu %llu",
             (unsigned long long)traffic.sent[KVS_NET_PATH_SHM].n_messages,
             (unsigned long long)traffic.received[KVS_NET_PATH_SHM].n_messages,
             (unsigned long long)traffic.sent[KVS_NET_PATH_TCP].n_messages,
             (unsigned long long)traffic.received[KVS_NET_PATH_TCP].n_messages);
}

/* "limit BYTES": no file, and no memory of a memfd, may be larger. */
static void do_limit(const char *words)
{
    struct rlimit limit;

    getrlimit(RLIMIT_FSIZE, &limit);
    limit.rlim_cur = strtoul(words, NULL, 10);
    say_line("limit %d", setrlimit(RLIMIT_FSIZE, &limit));
}

/* "segment BYTES" makes one, "map RANK BYTES" opens a worker's; its first bytes are a gate. */
static void do_segment(const char *words)
{
    say_result("segment", kvs_net_segment_new(node(), "arena", strtoul(words, NULL, 10), &segment));
}

static void do_map(const char *words)
{
    int rank = 0;
    size_t n_bytes = 0;

    sscanf(words, "%d %zu", &rank, &n_bytes);
    say_result("map", kvs_net_segment_open(node(), kvs_net_node_peer(node(), KVS_NET_WORKER, rank),
                                           "arena", n_bytes, PATIENCE_MS, &segment));
}

/* "gate RANK VALUE": wait for it, giving up with that worker; "raise VALUE". */
static void do_gate(const char *words)
{
    int rank = 0;
    unsigned value = 0;

    sscanf(words, "%d %u", &rank, &value);
    say_result("gate",
               kvs_net_gate_wait(node(), kvs_net_segment_data(segment), value,
                                 rank < 0 ? NULL : kvs_net_node_peer(node(), KVS_NET_WORKER, rank),
                                 PATIENCE_MS));
}

static void do_raise(const char *words)
{
    kvs_net_gate_t *gate = kvs_net_segment_data(segment);

    kvs_net_gate_raise(gate, (uint32_t)strtoul(words, NULL, 10));
    say_line("raise %u", kvs_net_gate_value(gate));
}

static void do_dead(const char *words)
{
    int dead = 0;
    long silent_ms = 0;
    kvs_status_t status;

    sscanf(words, "%ld", &silent_ms);
    status = kvs_net_node_num_dead(node(), 7, silent_ms, PATIENCE_MS, &dead);
    if (status == KVS_OK) {
        say_line("dead %d", dead);
    } else {
        say_result("dead", status);
    }
}

/* Everything of net in a forked child: a state error each, and nothing hangs. */
static int use_in_child(void)
{
    kvs_net_send_t send = KVS_NET_SEND_INIT;
    int dead;

    return kvs_net_send(worker, kvs_net_node_self(worker), &send) != KVS_ERR_STATE ||
           kvs_net_node_num_dead(worker, 7, 1, 1, &dead) != KVS_ERR_STATE ||
           kvs_net_store_barrier(store, 1) != KVS_ERR_STATE ||
           kvs_net_store_close(store, 1) != KVS_ERR_STATE ||
           kvs_net_node_close(worker, 1) != KVS_ERR_STATE ||
           kvs_net_job_close(job, 1) != KVS_ERR_STATE || strstr(kvs_last_error(), "fork") == NULL;
}

static void do_fork(void)
{
    int child = fork(), status = -1;

    if (child == 0) {
        _exit(use_in_child());
    }
    waitpid(child, &status, 0);
    say_line("fork %d", WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

static bool is(const char *command, const char *name, const char **ret_words)
{
    size_t n = strlen(name);

    if (strncmp(command, name, n) != 0 || (command[n] != '\0' && command[n] != ' ')) {
        return false;
    }
    *ret_words = command + n;
    return true;
}

/* False: the end. */
static bool obey(const char *command)
{
    const char *words;

    if (is(command, "open", &words)) {
        do_open();
    } else if (is(command, "ready", &words)) {
        do_ready(words);
    } else if (is(command, "store", &words)) {
        do_store(words);
    } else if (is(command, "send", &words)) {
        do_send(words);
    } else if (is(command, "barrier", &words)) {
        say_result("barrier", kvs_net_store_barrier(store, strtol(words, NULL, 10)));
    } else if (is(command, "closestore", &words)) {
        say_result("closestore", kvs_net_store_close(store, strtol(words, NULL, 10)));
        store = NULL;
    } else if (is(command, "storm", &words)) {
        do_storm(words);
    } else if (is(command, "traffic", &words)) {
        do_traffic();
    } else if (is(command, "limit", &words)) {
        do_limit(words);
    } else if (is(command, "segment", &words)) {
        do_segment(words);
    } else if (is(command, "map", &words)) {
        do_map(words);
    } else if (is(command, "gate", &words)) {
        do_gate(words);
    } else if (is(command, "raise", &words)) {
        do_raise(words);
    } else if (is(command, "dead", &words)) {
        do_dead(words);
    } else if (is(command, "fork", &words)) {
        do_fork();
    } else if (is(command, "quit", &words)) {
        return false;
    } else {
        say_line("what? %s", command);
    }
    return true;
}

/* ---- The end --------------------------------------------------------------------------------- */

static int close_all(void)
{
    kvs_status_t end = KVS_OK;

    if (store != NULL) {
        say_result("closestore", kvs_net_store_close(store, PATIENCE_MS));
    }
    kvs_net_segment_close(segment);
    if (worker != NULL) {
        say_result("close", kvs_net_node_close(worker, PATIENCE_MS));
    }
    if (server != NULL) {
        say_result("close", kvs_net_node_close(server, PATIENCE_MS));
    }
    if (job != NULL && settings.role == KVS_NET_SCHEDULER) {
        end = kvs_net_job_wait_end(job, -1);
        say_result("end", end);
    }
    if (job != NULL) {
        say_result("closejob",
                   kvs_net_job_close(job, settings.role == KVS_NET_SCHEDULER ? 0 : PATIENCE_MS));
    }
    return end != KVS_OK || (settings.role == KVS_NET_SERVER && end_status != KVS_OK) ? 3 : 0;
}

/* The next line of standard input; false: none, or a server whose job has ended. */
static bool next_command(char *command, size_t size)
{
    struct pollfd items[2] = {{.fd = STDIN_FILENO, .events = POLLIN},
                              {.fd = end_fd, .events = POLLIN}};

    for (size_t n = 0; n + 1 < size; n++) {
        if (poll(items, 2, -1) <= 0 || items[1].revents != 0 ||
            read(STDIN_FILENO, command + n, 1) != 1) {
            return false;
        }
        if (command[n] == '\n') {
            command[n] = '\0';
            return true;
        }
    }
    return false;
}

int main(void)
{
    char command[1024];

    end_fd = eventfd(0, EFD_CLOEXEC);
    while (next_command(command, sizeof(command)) && obey(command) &&
           settings.role != KVS_NET_SCHEDULER) { /* which now waits for the end of the job */
    }
    return close_all();
}
