/* SPDX-License-Identifier: Apache-2.0 */
/* byteps_link.c - one link a process. A forked child has none of its own until it creates a store. */
#include "byteps_link.h"

#include "byteps_server.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TICK_MS    500
#define HURRY_MS   20   /* while a depot has something pending */
#define GOODBYE_MS 2000 /* at the end of the process: for what is on its way */
#define OTHERS_MS  3000 /* for the other workers, if this process hosts their scheduler */

struct byteps_link {
    /* fixed once it is open */
    kvs_net_settings_t settings;
    pid_t pid;
    kvs_net_job_t *job;
    kvs_net_node_t *node;
    byteps_server_t *server; /* NULL: not here */

    bool hurries; /* the I/O thread's */

    pthread_mutex_t lock;
    byteps_worker_t **workers; /* guarded by lock, as what follows */
    size_t n_workers, n_room;
    bool is_over; /* a worker died, or the job failed: there is nobody to say goodbye to */
};

static pthread_mutex_t link_lock = PTHREAD_MUTEX_INITIALIZER;
static byteps_link_t *the_link; /* guarded by link_lock */

/* ---- Events ------------------------------------------------------------------------------------------ */

static bool ends_job(const kvs_net_event_t *event)
{
    return (event->kind == KVS_NET_EVENT_DEAD &&
            (event->peer == NULL || event->peer->role == KVS_NET_WORKER)) ||
           (event->kind == KVS_NET_EVENT_ENDED && event->status != KVS_OK);
}

static void on_event(void *arg, const kvs_net_event_t *event)
{
    byteps_link_t *link = arg;

    pthread_mutex_lock(&link->lock);
    link->is_over |= ends_job(event);
    for (size_t i = 0; i < link->n_workers; i++) {
        byteps_worker_event(link->workers[i], event);
    }
    pthread_mutex_unlock(&link->lock);
}

/* Messages go to stores; there are none to the node itself. */
static void on_message(void *arg, kvs_net_message_t *message)
{
    (void)arg;
    kvs_log(KVS_LOG_WARN, "byteps", "a message from %s is for no store: dropped",
            message->from->label);
    kvs_net_message_release(message);
}

static void tick(void *arg)
{
    byteps_link_t *link = arg;
    int64_t now = byteps_now_ns();
    bool pending = false;

    pthread_mutex_lock(&link->lock);
    for (size_t i = 0; i < link->n_workers; i++) {
        pending |= byteps_worker_tick(link->workers[i], now);
    }
    pthread_mutex_unlock(&link->lock);
    if (link->hurries && !pending) {
        link->hurries = false;
        (void)kvs_net_node_set_tick(link->node, TICK_MS, tick,
                                    link); /* on this thread it can't fail */
    }
}

static void start_ticking(void *arg)
{
    byteps_link_t *link = arg;

    (void)kvs_net_node_set_tick(link->node, TICK_MS, tick, link); /* as above */
}

static void hurry(void *arg)
{
    byteps_link_t *link = arg;

    if (!link->hurries) {
        link->hurries = true;
        (void)kvs_net_node_set_tick(link->node, HURRY_MS, tick, link); /* as above */
    }
}

static void free_depot(void *arg, byteps_depot_t *depot)
{
    (void)arg;
    byteps_depot_free(depot);
}

byteps_owner_t byteps_link_owner(byteps_link_t *link)
{
    return (byteps_owner_t){link, hurry, free_depot};
}

void byteps_link_add(byteps_link_t *link, byteps_worker_t *worker)
{
    pthread_mutex_lock(&link->lock);
    link->workers[link->n_workers++] = worker; /* byteps_link_get has made room */
    pthread_mutex_unlock(&link->lock);
}

void byteps_link_remove(byteps_link_t *link, byteps_worker_t *worker)
{
    pthread_mutex_lock(&link->lock);
    for (size_t i = 0; i < link->n_workers; i++) {
        if (link->workers[i] == worker) {
            link->workers[i] = link->workers[--link->n_workers];
        }
    }
    pthread_mutex_unlock(&link->lock);
}

kvs_net_node_t *byteps_link_node(const byteps_link_t *link)
{
    return link->node;
}

/* ---- Leaving ----------------------------------------------------------------------------------------- */

static void free_link(byteps_link_t *link)
{
    pthread_mutex_destroy(&link->lock);
    free(link->workers);
    free(link);
}

/* At the end of the process. Stores that are still open may be in use by other threads: then nothing
 * is taken from under them, and the others see this process go. */
static void leave(void)
{
    byteps_link_t *link = the_link;
    bool in_use, is_over;

    if (link == NULL || link->pid != getpid()) {
        return;
    }
    pthread_mutex_lock(&link->lock);
    in_use = link->n_workers > 0;
    is_over = link->is_over;
    pthread_mutex_unlock(&link->lock);
    if (in_use) {
        return;
    }
    the_link = NULL;
    /* Nobody is left to be told of a failure, here as below. */
    (void)kvs_net_node_close(link->node, is_over ? 0 : GOODBYE_MS);
    if (link->server != NULL) {
        (void)byteps_server_wait_end(link->server, is_over ? 0 : OTHERS_MS);
        (void)byteps_server_close(link->server, is_over ? 0 : GOODBYE_MS);
    }
    (void)kvs_net_job_close(link->job, 0);
    free_link(link);
}

static void leave_at_exit(void)
{
    if (atexit(leave) != 0) {
        kvs_log(KVS_LOG_DEBUG, "byteps", "no memory to say goodbye at exit");
    }
}

/* ---- Joining ----------------------------------------------------------------------------------------- */

static kvs_status_t open_nodes(byteps_link_t *link)
{
    kvs_net_node_args_t args = KVS_NET_NODE_ARGS_INIT;
    kvs_status_t status = kvs_net_job_open(&link->settings, &link->job);

    if (status == KVS_OK && kvs_net_job_hosts_server(link->job)) {
        status = byteps_server_open(link->job, &link->server);
    }
    args.role = KVS_NET_WORKER;
    args.facts = byteps_facts;
    args.n_facts = byteps_n_facts;
    args.group = "byteps";
    args.spares_servers = 1;
    args.message = on_message;
    args.event = on_event;
    args.arg = link;
    if (status == KVS_OK) {
        status = kvs_net_node_open(link->job, &args, &link->node);
    }
    if (status == KVS_OK) {
        status = kvs_net_node_call(link->node, start_ticking, link);
    }
    return status == KVS_OK ? kvs_net_node_wait_ready(link->node, -1) : status;
}

/* What failed is closed again, so that a later create may try anew. Keeps status and text. */
static kvs_status_t undo(byteps_link_t *link, kvs_status_t status)
{
    char *text = strdup(kvs_plugin_host->last_error());

    (void)kvs_net_node_close(link->node, 0);
    (void)byteps_server_close(link->server, 0);
    (void)kvs_net_job_close(link->job, 0);
    free_link(link);
    (void)kvs_fail(status, "%s", text == NULL ? "no memory" : text);
    free(text);
    return status;
}

static kvs_status_t join(const kvs_net_settings_t *settings, byteps_link_t **ret_link)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    byteps_link_t *link = calloc(1, sizeof(*link));
    kvs_status_t status;

    if (link == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory to join a job");
    }
    link->settings = *settings;
    link->pid = getpid();
    pthread_mutex_init(&link->lock, NULL);
    pthread_once(&once, leave_at_exit);
    status = open_nodes(link);
    if (status != KVS_OK) {
        return undo(link, status);
    }
    *ret_link = link;
    return KVS_OK;
}

static bool is_same_job(const kvs_net_settings_t *a, const kvs_net_settings_t *b)
{
    return a->role == b->role && a->rank == b->rank && a->n_workers == b->n_workers &&
           a->n_servers == b->n_servers && strcmp(a->scheduler, b->scheduler) == 0 &&
           strcmp(a->job_id, b->job_id) == 0;
}

static kvs_status_t make_room(byteps_link_t *link)
{
    byteps_worker_t **grown;

    pthread_mutex_lock(&link->lock);
    link->n_room += link->n_room == link->n_workers ? 8 : 0;
    grown = realloc(link->workers, link->n_room * sizeof(*grown));
    if (grown != NULL) {
        link->workers = grown;
    }
    pthread_mutex_unlock(&link->lock);
    return grown != NULL ? KVS_OK : kvs_fail(KVS_ERR_NO_MEMORY, "no memory for a store");
}

kvs_status_t byteps_link_get(const kvs_net_settings_t *settings, byteps_link_t **ret_link)
{
    kvs_status_t status = KVS_OK;

    pthread_mutex_lock(&link_lock);
    if (the_link != NULL && the_link->pid != getpid()) {
        the_link = NULL; /* the parent's: not ours to touch */
    }
    if (the_link == NULL) {
        status = join(settings, &the_link);
    } else if (!is_same_job(&the_link->settings, settings)) {
        status =
            kvs_fail(KVS_ERR_STATE,
                     "this process is worker %d of job '%s' already; a process has one part in "
                     "one job",
                     kvs_net_node_rank(the_link->node), the_link->settings.job_id);
    }
    if (status == KVS_OK) {
        status = make_room(the_link);
    }
    if (status == KVS_OK) {
        *ret_link = the_link;
    }
    pthread_mutex_unlock(&link_lock);
    return status;
}
