/* SPDX-License-Identifier: Apache-2.0 */
/* process.c - a worker process's one part in one job. It is the plugin's only state in this library beside
 * the host table: a process joins once, whatever its stores are. */
#include "pulse.h"

#include <kvstore/process.h>

#include <stdlib.h>
#include <string.h>

#define GOODBYE_MS 2000 /* at the end of the process: for what is on its way */
#define OTHERS_MS  3000 /* for the other workers, if this process serves them */

struct kvs_net_process {
    /* fixed once it is open */
    const kvs_net_plugin_t *plugin;
    kvs_net_settings_t settings;
    kvs_net_job_t *job;
    kvs_net_node_t *node;
    kvs_net_server_t *server; /* NULL: not here */

    net_pulse_t pulse; /* the I/O thread's */

    pthread_mutex_t lock;
    void **stores; /* guarded by lock, as what follows */
    size_t n_stores, n_room;
    bool is_over; /* somebody died, or the job failed: there is nobody to say goodbye to */
};

static pthread_mutex_t process_lock = PTHREAD_MUTEX_INITIALIZER;
static kvs_net_process_t *the_process; /* guarded by process_lock */

/* ---- Events ------------------------------------------------------------------------------------------ */

static bool ends_job(const kvs_net_plugin_t *plugin, const kvs_net_event_t *event)
{
    bool is_spared =
        plugin->spares_servers != 0 && event->peer != NULL && event->peer->role == KVS_NET_SERVER;

    return (event->kind == KVS_NET_EVENT_DEAD && !is_spared) ||
           (event->kind == KVS_NET_EVENT_ENDED && event->status != KVS_OK);
}

static void on_event(void *arg, const kvs_net_event_t *event)
{
    kvs_net_process_t *process = arg;

    pthread_mutex_lock(&process->lock);
    process->is_over |= ends_job(process->plugin, event);
    for (size_t i = 0; i < process->n_stores; i++) {
        process->plugin->event(process->stores[i], event);
    }
    pthread_mutex_unlock(&process->lock);
}

/* Messages go to stores; there are none to the node itself. */
static void on_message(void *arg, kvs_net_message_t *message)
{
    const kvs_net_process_t *process = arg;

    kvs_log(KVS_LOG_WARN, process->plugin->name, "a message from %s is for no store: dropped",
            message->from->label);
    kvs_net_message_release(message);
}

static bool beat(void *arg, int64_t now_ns)
{
    kvs_net_process_t *process = arg;
    bool is_pending = false;

    pthread_mutex_lock(&process->lock);
    for (size_t i = 0; i < process->n_stores; i++) {
        is_pending |= process->plugin->tick(process->stores[i], now_ns) != 0;
    }
    pthread_mutex_unlock(&process->lock);
    return is_pending;
}

static void start_ticking(void *arg)
{
    kvs_net_process_t *process = arg;

    process->pulse.node = process->node;
    net_pulse_start(&process->pulse);
}

void kvs_net_process_hurry(kvs_net_process_t *process)
{
    net_pulse_hurry(&process->pulse);
}

/* ---- Stores ------------------------------------------------------------------------------------------ */

kvs_status_t kvs_net_process_add(kvs_net_process_t *process, void *store)
{
    size_t n_room;
    void **grown = NULL;

    pthread_mutex_lock(&process->lock);
    n_room = process->n_room + (process->n_room == process->n_stores ? 8 : 0);
    grown = realloc(process->stores, n_room * sizeof(*grown));
    if (grown != NULL) {
        process->stores = grown;
        process->n_room = n_room;
        process->stores[process->n_stores++] = store;
    }
    pthread_mutex_unlock(&process->lock);
    return grown != NULL ? KVS_OK : kvs_fail(KVS_ERR_NO_MEMORY, "no memory for a store");
}

void kvs_net_process_remove(kvs_net_process_t *process, void *store)
{
    pthread_mutex_lock(&process->lock);
    for (size_t i = 0; i < process->n_stores; i++) {
        if (process->stores[i] == store) {
            process->stores[i] = process->stores[--process->n_stores];
        }
    }
    pthread_mutex_unlock(&process->lock);
}

kvs_net_node_t *kvs_net_process_node(const kvs_net_process_t *process)
{
    return process->node;
}

/* ---- Leaving ----------------------------------------------------------------------------------------- */

static void free_process(kvs_net_process_t *process)
{
    pthread_mutex_destroy(&process->lock);
    free(process->stores);
    free(process);
}

/* Nobody is left to be told of a failure. */
static void say_goodbye(kvs_net_process_t *process, bool is_over)
{
    int64_t goodbye_ms = is_over ? 0 : GOODBYE_MS;

    (void)kvs_net_node_close(process->node, goodbye_ms);
    if (process->server != NULL) {
        (void)kvs_net_server_wait_end(process->server, is_over ? 0 : OTHERS_MS);
        (void)process->plugin->server_close(process->server, goodbye_ms);
        goodbye_ms = 0; /* its end was the job's */
    }
    (void)kvs_net_job_close(process->job, goodbye_ms);
    free_process(process);
}

static bool is_in_use(kvs_net_process_t *process, bool *ret_is_over)
{
    bool is_in_use;

    pthread_mutex_lock(&process->lock);
    is_in_use = process->n_stores > 0;
    *ret_is_over = process->is_over;
    pthread_mutex_unlock(&process->lock);
    return is_in_use;
}

/* At the end of the process. Stores that are still open may be in use by other threads: then nothing
 * is taken from under them, and the others see this process go. So they do where one is just joining. */
static void leave(void)
{
    kvs_net_process_t *process;
    bool is_over = false;

    if (pthread_mutex_trylock(&process_lock) != 0) {
        return;
    }
    process = the_process;
    if (process != NULL && is_in_use(process, &is_over)) {
        process = NULL;
    }
    the_process = process != NULL ? NULL : the_process;
    pthread_mutex_unlock(&process_lock);
    if (process != NULL) {
        say_goodbye(process, is_over);
    }
}

/* In a forked child: the part is its parent's, and not to be touched. Whoever held the lock is not here. */
static void forget(void)
{
    the_process = NULL;
    process_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}

static bool is_watched; /* fixed after the first call */

static void watch_forks_and_exit(void)
{
    is_watched = pthread_atfork(NULL, NULL, forget) == 0;
    if (atexit(leave) != 0) {
        kvs_log(KVS_LOG_DEBUG, "net", "no memory to say goodbye at exit");
    }
}

/* ---- Joining ----------------------------------------------------------------------------------------- */

static kvs_status_t open_node(kvs_net_process_t *process)
{
    const kvs_net_plugin_t *plugin = process->plugin;
    kvs_net_node_args_t args = KVS_NET_NODE_ARGS_INIT;

    args.role = KVS_NET_WORKER;
    args.facts = plugin->facts;
    args.n_facts = plugin->n_facts;
    args.group = plugin->name;
    args.no_servers = plugin->no_servers;
    args.spares_servers = plugin->spares_servers;
    args.message = on_message;
    args.event = on_event;
    args.arg = process;
    return kvs_net_node_open(process->job, &args, &process->node);
}

static kvs_status_t open_nodes(kvs_net_process_t *process)
{
    kvs_status_t status = kvs_net_job_open(&process->settings, &process->job);

    if (status == KVS_OK && process->plugin->server_open != NULL &&
        kvs_net_job_hosts_server(process->job)) {
        status =
            process->plugin->server_open(process->job, &process->settings, 0, &process->server);
    }
    if (status == KVS_OK) {
        status = open_node(process);
    }
    if (status == KVS_OK) {
        status = kvs_net_node_call(process->node, start_ticking, process);
    }
    return status == KVS_OK ? kvs_net_node_wait_ready(process->node, -1) : status;
}

/* What failed is closed again, so that a later store may try anew. Keeps status and text. */
static kvs_status_t undo(kvs_net_process_t *process, kvs_status_t status)
{
    char *text = strdup(kvs_plugin_host->last_error());

    (void)kvs_net_node_close(process->node, 0);
    if (process->server != NULL) {
        (void)process->plugin->server_close(process->server, 0);
    }
    (void)kvs_net_job_close(process->job, 0);
    free_process(process);
    (void)kvs_fail(status, "%s", text == NULL ? "no memory" : text);
    free(text);
    return status;
}

static kvs_status_t join(const kvs_net_plugin_t *plugin, const kvs_net_settings_t *settings,
                         kvs_net_process_t **ret_process)
{
    kvs_net_process_t *process = is_watched ? calloc(1, sizeof(*process)) : NULL;
    kvs_status_t status;

    if (process == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory to join a job");
    }
    process->plugin = plugin;
    process->settings = *settings;
    process->pulse = (net_pulse_t){
        .slow_ms = plugin->tick_ms, .fast_ms = plugin->hurry_ms, .beat = beat, .arg = process};
    pthread_mutex_init(&process->lock, NULL);
    status = open_nodes(process);
    if (status != KVS_OK) {
        return undo(process, status);
    }
    *ret_process = process;
    return KVS_OK;
}

static bool is_same_job(const kvs_net_settings_t *a, const kvs_net_settings_t *b)
{
    return a->role == b->role && a->rank == b->rank && a->n_workers == b->n_workers &&
           a->n_servers == b->n_servers && strcmp(a->scheduler, b->scheduler) == 0 &&
           strcmp(a->job_id, b->job_id) == 0;
}

kvs_status_t kvs_net_process_join(const kvs_net_plugin_t *plugin,
                                  const kvs_net_settings_t *settings,
                                  kvs_net_process_t **ret_process)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    kvs_status_t status = KVS_OK;

    pthread_once(&once, watch_forks_and_exit);
    pthread_mutex_lock(&process_lock);
    if (the_process == NULL) {
        status = join(plugin, settings, &the_process);
    } else if (!is_same_job(&the_process->settings, settings)) {
        status =
            kvs_fail(KVS_ERR_STATE,
                     "this process is worker %d of job '%s' already; a process has one part in "
                     "one job",
                     kvs_net_node_rank(the_process->node), the_process->settings.job_id);
    }
    if (status == KVS_OK) {
        *ret_process = the_process;
    }
    pthread_mutex_unlock(&process_lock);
    return status;
}
