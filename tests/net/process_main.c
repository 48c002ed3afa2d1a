/* SPDX-License-Identifier: Apache-2.0 */
/* process_main.c - a process of a plugin as process.h has it, for tests: told by its environment who it is
 * and by lines what to do, it says what comes of it. Stores are numbers. A server does what messages
 * tell it: "wake", "tick N" and "stop". */
#include "kt.h"
#include "say.h"
#include "threads.h"

#include <kvstore/process.h>

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define N_STORES    4
#define NEVER_MS    3600000 /* a tick that no test lives to see */
#define PATIENCE_MS 10000
#define CHILD_SECS  10 /* by then a forked child that hangs is ended */

static kvs_net_settings_t settings;
static kvs_net_process_t *process;
static int stores[N_STORES];
static _Atomic int n_ticks_left;

/* A join that stops halfway. */
static pthread_mutex_t half_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t half_moves = PTHREAD_COND_INITIALIZER;
static bool stops_halfway, is_halfway; /* guarded by half_lock */

/* ---- The plugin: workers ----------------------------------------------------------------------- */

static const char *name_of(const kvs_net_event_t *event)
{
    static const char *const names[] = {"",      "left",   "dead",   "room",
                                        "error", "opened", "closed", "ended"};

    return names[event->kind];
}

static void on_event(void *store, const kvs_net_event_t *event)
{
    say_line("store %d %s: %s", (int)((int *)store - stores), name_of(event), event->text);
}

/* Pending as often as was said. */
static int tick(void *store, int64_t now_ns)
{
    (void)now_ns;
    if (store == &stores[0] && n_ticks_left > 0 && --n_ticks_left == 0) {
        say_line("ticked");
    }
    return n_ticks_left > 0;
}

/* ---- The plugin: servers ----------------------------------------------------------------------- */

typedef struct server {
    kvs_net_server_t *net;
    int n_ticks_left; /* the I/O thread's */
} server_t;

static void obey_message(server_t *server, const char *words)
{
    if (sscanf(words, "tick %d", &server->n_ticks_left) == 1) {
        kvs_net_server_hurry(server->net);
    } else if (strcmp(words, "wake") == 0) {
        kvs_net_server_wake(server->net);
    } else if (strcmp(words, "stop") == 0) {
        kvs_net_server_stop(server->net);
    }
}

static void on_server_message(void *arg, kvs_net_message_t *message)
{
    obey_message(arg, message->body);
    kvs_net_message_release(message);
}

static void on_server_event(void *arg, const kvs_net_event_t *event)
{
    (void)arg;
    say_line("server %s: %s", name_of(event), event->text);
}

static int server_tick(void *arg, int64_t now_ns)
{
    server_t *server = arg;

    (void)now_ns;
    if (--server->n_ticks_left == 0) {
        say_line("server ticked");
    }
    return server->n_ticks_left > 0;
}

static void serve(void *arg)
{
    const server_t *server = arg;

    say_line("serves, ended %d", kvs_net_server_has_ended(server->net));
}

static void wait_halfway(void)
{
    pthread_mutex_lock(&half_lock);
    is_halfway = stops_halfway;
    pthread_cond_broadcast(&half_moves);
    while (stops_halfway) {
        pthread_cond_wait(&half_moves, &half_lock);
    }
    pthread_mutex_unlock(&half_lock);
}

static const kvs_net_plugin_t plugin;

static kvs_status_t server_open(kvs_net_job_t *job, const kvs_net_settings_t *of, int is_service,
                                kvs_net_server_t **ret_server)
{
    static server_t server;
    kvs_net_server_args_t args = KVS_NET_SERVER_ARGS_INIT;
    kvs_status_t status;

    (void)of;
    wait_halfway();
    args.message = on_server_message;
    args.event = on_server_event;
    args.tick = server_tick;
    args.tick_ms = 1;
    args.serve = is_service ? serve : NULL;
    args.arg = &server;
    status = kvs_net_server_open(job, &plugin, &args, &server.net);
    *ret_server = server.net;
    return status;
}

static const kvs_net_fact_t facts[] = {{"plugin", "test"}};

static const kvs_net_plugin_t plugin = {
    .size = sizeof(plugin),
    .name = "test",
    .facts = facts,
    .n_facts = 1,
    .event = on_event,
    .tick = tick,
    .tick_ms = NEVER_MS,
    .hurry_ms = 1,
    .server_open = server_open,
    .server_close = kvs_net_server_close,
};

/* ---- Commands ---------------------------------------------------------------------------------- */

static void do_set(char *words) /* NAME=VALUE */
{
    char *value = strchr(words, '=');

    *value = '\0';
    setenv(words, value + 1, 1);
}

static kvs_status_t join(kvs_net_process_t **ret_process)
{
    kvs_status_t status = kvs_net_settings_read(NULL, NULL, &settings);

    return status == KVS_OK ? kvs_net_process_join(&plugin, &settings, ret_process) : status;
}

static void do_join(void)
{
    kvs_net_process_t *joined = NULL;
    kvs_status_t status = join(&joined);

    say_result("join", status);
    if (status == KVS_OK) {
        say_line("part %s", joined == process ? "the same" : "new");
        process = joined;
    }
}

static kvs_net_service_t *service;

static void cancel(int number)
{
    (void)number;
    kvs_net_service_cancel(service);
}

static void do_serve(const char *announce)
{
    kvs_status_t status = kvs_net_settings_read(NULL, NULL, &settings);

    if (status == KVS_OK) {
        status = kvs_net_service_open(&plugin, &settings, announce, &service);
    }
    signal(SIGUSR1, cancel);
    say_result("serve", status);
    if (status == KVS_OK) {
        say_result("refuse", kvs_net_service_refuse(service, "push"));
        say_line("server here %d", kvs_net_service_server(service) != NULL);
        say_result("run", kvs_net_service_run(service));
        say_result("close", kvs_net_service_close(service, PATIENCE_MS));
    }
}

static void do_tell(const char *words)
{
    kvs_net_node_t *node = kvs_net_process_node(process);
    kvs_net_send_t send = KVS_NET_SEND_INIT;

    send.body = words;
    send.n_body_bytes = strlen(words) + 1;
    say_result("tell", kvs_net_send_wait(node, kvs_net_node_peer(node, KVS_NET_SERVER, 0), &send,
                                         PATIENCE_MS));
}

static void hurry(void *arg)
{
    kvs_net_process_hurry(arg);
}

static void do_tick(const char *words)
{
    n_ticks_left = atoi(words);
    say_result("tick", kvs_net_node_call(kvs_net_process_node(process), hurry, process));
}

static int wait_for(int child)
{
    int status = -1;

    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* A part of its own would need threads, which ThreadSanitizer does not let a forked child have. */
static bool may_join(void)
{
#if defined(__SANITIZE_THREAD__)
    return false;
#else
    return true;
#endif
}

/* In a forked child: joining fails or goes well for reasons of the child alone. */
static int join_in_child(void)
{
    kvs_net_settings_t own = KVS_NET_SETTINGS_INIT;
    kvs_net_process_t *joined;

    if (!kt_child_may_allocate()) {
        return 0;
    }
    alarm(CHILD_SECS);
    own.n_workers = 0;
    if (kvs_net_process_join(&plugin, &own, &joined) != KVS_ERR_ARGUMENT) {
        return 1;
    }
    own.n_workers = 1;
    own.embed = KVS_NET_EMBED_SCHEDULER | KVS_NET_EMBED_SERVERS;
    own.rank = 0;
    snprintf(own.job_id, sizeof(own.job_id), "child %d", (int)getpid());
    if (may_join() && kvs_net_process_join(&plugin, &own, &joined) != KVS_OK) {
        return 2;
    }
    return may_join() && kvs_net_node_count(kvs_net_process_node(joined), KVS_NET_WORKER) != 1;
}

/* Here with a part: in the child it is of no use, and ending says no goodbye for the parent. */
static void do_fork(void)
{
    int child = fork();

    if (child == 0) {
        kvs_net_send_t send = KVS_NET_SEND_INIT;
        kvs_net_node_t *node = kvs_net_process_node(process);

        exit(kvs_net_send(node, kvs_net_node_self(node), &send) == KVS_ERR_STATE ? join_in_child()
                                                                                 : 3);
    }
    say_line("fork %d", wait_for(child));
}

static void *join_halfway(void *arg)
{
    (void)arg;
    do_join();
    return NULL;
}

/* Fork while another thread joins. */
static void do_fork_halfway(void)
{
    pthread_t thread;
    int child;

    stops_halfway = true;
    pthread_create(&thread, NULL, join_halfway, NULL);
    pthread_mutex_lock(&half_lock);
    while (!is_halfway) {
        pthread_cond_wait(&half_moves, &half_lock);
    }
    child = fork();
    if (child == 0) {
        stops_halfway = false;
        pthread_mutex_unlock(&half_lock); /* this thread's */
        _exit(join_in_child());           /* what the other thread had is lost: no leak of ours */
    }
    pthread_mutex_unlock(&half_lock);
    say_line("fork %d", wait_for(child));
    pthread_mutex_lock(&half_lock);
    stops_halfway = false;
    pthread_cond_broadcast(&half_moves);
    pthread_mutex_unlock(&half_lock);
    pthread_join(thread, NULL);
}

/* False: the end. */
static bool obey(char *command)
{
    char *words = strchr(command, ' ');
    const char *rest = words == NULL ? "" : words + 1;
    int store = atoi(rest) % N_STORES;

    if (words != NULL) {
        *words = '\0';
    }
    if (strcmp(command, "join") == 0) {
        do_join();
    } else if (strcmp(command, "set") == 0) {
        do_set(words + 1);
    } else if (strcmp(command, "add") == 0) {
        say_result("add", kvs_net_process_add(process, &stores[store]));
    } else if (strcmp(command, "remove") == 0) {
        kvs_net_process_remove(process, &stores[store]);
    } else if (strcmp(command, "tell") == 0) {
        do_tell(rest);
    } else if (strcmp(command, "tick") == 0) {
        do_tick(rest);
    } else if (strcmp(command, "fork") == 0) {
        do_fork();
    } else if (strcmp(command, "fork_halfway") == 0) {
        do_fork_halfway();
    } else if (strcmp(command, "serve") == 0) {
        do_serve(rest);
    } else {
        return false;
    }
    return true;
}

int main(void)
{
    char command[1024];

    while (fgets(command, sizeof(command), stdin) != NULL) {
        command[strcspn(command, "\n")] = '\0';
        if (!obey(command)) {
            break;
        }
    }
    return 0; /* and leaves the job */
}
