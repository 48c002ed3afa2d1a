/* SPDX-License-Identifier: Apache-2.0 */
/* node.c - what the users of a node call, as far as it is not about stores; and its lock, tasks and
 * memory. */
#include "node.h"

#include "segment.h"
#include "wake.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Threads --------------------------------------------------------------------------------- */

bool net_node_is_io_thread(const kvs_net_node_t *node)
{
    return pthread_equal(pthread_self(), node->thread) != 0;
}

kvs_status_t net_node_check_waiter(const kvs_net_node_t *node)
{
    if (!net_job_is_ours(node->job)) {
        return KVS_ERR_STATE;
    }
    if (net_node_is_io_thread(node)) {
        return kvs_fail(KVS_ERR_STATE, "a callback of a node can't wait for other processes");
    }
    return KVS_OK;
}

void net_node_ring(kvs_net_node_t *node)
{
    if (!atomic_exchange_explicit(&node->is_rung, true, memory_order_seq_cst) &&
        !atomic_load_explicit(&node->is_awake, memory_order_seq_cst)) {
        net_wake_ring(node->wake_fd);
    }
}

void net_node_add_task(kvs_net_node_t *node, net_task_t *task)
{
    task->next = NULL;
    pthread_mutex_lock(&node->lock);
    if (node->last_task == NULL) {
        node->tasks = task;
    } else {
        node->last_task->next = task;
    }
    node->last_task = task;
    pthread_mutex_unlock(&node->lock);
    net_node_ring(node);
}

typedef struct awaited {
    net_task_t task; /* first */
    void (*run)(kvs_net_node_t *node, void *arg);
    void *arg;
    bool done; /* guarded by the node's lock */
} awaited_t;

static void run_awaited(kvs_net_node_t *node, net_task_t *task)
{
    awaited_t *awaited = (awaited_t *)task;

    awaited->run(node, awaited->arg);
    pthread_mutex_lock(&node->lock);
    awaited->done = true;
    pthread_cond_broadcast(&node->changed);
    pthread_mutex_unlock(&node->lock);
}

void net_node_run_and_wait(kvs_net_node_t *node, void (*run)(kvs_net_node_t *node, void *arg),
                           void *arg)
{
    awaited_t awaited = {.task.run = run_awaited, .run = run, .arg = arg};

    net_node_add_task(node, &awaited.task);
    pthread_mutex_lock(&node->lock);
    while (!awaited.done) {
        net_cond_wait(&node->changed, &node->lock, NET_NEVER); /* callbacks don't block */
    }
    pthread_mutex_unlock(&node->lock);
}

typedef struct call {
    net_task_t task; /* first */
    void (*fn)(void *arg);
    void *arg;
} call_t;

static void run_call(kvs_net_node_t *node, net_task_t *task)
{
    call_t call = *(call_t *)task;

    (void)node;
    free(task);
    call.fn(call.arg);
}

kvs_status_t kvs_net_node_call(kvs_net_node_t *node, void (*fn)(void *arg), void *arg)
{
    call_t *call;

    if (!net_job_is_ours(node->job)) {
        return KVS_ERR_STATE;
    }
    call = malloc(sizeof(*call));
    if (call == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for a call on a node's thread");
    }
    *call = (call_t){.task.run = run_call, .fn = fn, .arg = arg};
    net_node_add_task(node, &call->task);
    return KVS_OK;
}

static void run_awaited_call(kvs_net_node_t *node, void *arg)
{
    const call_t *call = arg;

    (void)node;
    if (call->fn != NULL) {
        call->fn(call->arg);
    }
}

kvs_status_t kvs_net_node_call_wait(kvs_net_node_t *node, void (*fn)(void *arg), void *arg)
{
    call_t call = {.fn = fn, .arg = arg};
    kvs_status_t status = net_node_check_waiter(node);

    if (status == KVS_OK) {
        net_node_run_and_wait(node, run_awaited_call, &call);
    }
    return status;
}

kvs_status_t kvs_net_node_set_tick(kvs_net_node_t *node, int64_t period_ms, void (*fn)(void *arg),
                                   void *arg)
{
    if (!net_node_is_io_thread(node)) {
        return kvs_fail(KVS_ERR_STATE, "a tick is set on the node's thread");
    }
    if (fn != NULL && period_ms < 1) {
        return kvs_fail(KVS_ERR_ARGUMENT, "a tick of %lld ms", (long long)period_ms);
    }
    node->tick = fn;
    node->tick_arg = arg;
    node->tick_ns = period_ms * NET_MS;
    node->next_tick = net_now() + node->tick_ns;
    return KVS_OK;
}

/* ---- Opening --------------------------------------------------------------------------------- */

static kvs_status_t check_args(const kvs_net_job_t *job, const kvs_net_node_args_t *args)
{
    if (!net_job_is_ours(job)) {
        return KVS_ERR_STATE;
    }
    if (args->role != KVS_NET_WORKER && args->role != KVS_NET_SERVER) {
        return kvs_fail(KVS_ERR_ARGUMENT, "a node is a worker or a server");
    }
    if (args->n_facts > NET_WIRE_MAX_FACTS - 4 || args->group == NULL ||
        strlen(args->group) >= sizeof(((kvs_net_node_t *)NULL)->group)) {
        return kvs_fail(KVS_ERR_ARGUMENT,
                        "a node has a group of at most 127 bytes, and at most %d facts",
                        NET_WIRE_MAX_FACTS - 4);
    }
    return KVS_OK;
}

/* The plugin's facts, and what net itself needs to be the same everywhere. */
static bool gather_facts(kvs_net_node_t *node)
{
    const kvs_net_settings_t *settings = &node->job->settings;
    char lanes[16], max[32];
    bool good;

    snprintf(lanes, sizeof(lanes), "%d", settings->n_lanes);
    snprintf(max, sizeof(max), "%llu", (unsigned long long)settings->max_message_bytes);
    good = net_facts_add(&node->facts, "number of lanes", lanes) &&
           net_facts_add(&node->facts, "limit of messages", max) &&
           (node->args.spares_servers == 0 || net_facts_add(&node->facts, NET_SPARED, "spared"));
    for (uint32_t i = 0; good && i < node->args.n_facts; i++) {
        good = net_facts_add(&node->facts, node->args.facts[i].name, node->args.facts[i].value);
    }
    node->args.facts = NULL; /* the caller's */
    return good;
}

static void free_node(kvs_net_node_t *node)
{
    for (uint32_t i = 0; i < node->n_peers; i++) {
        for (int lane = 0; lane < node->job->settings.n_lanes; lane++) {
            net_lane_release(&node->peers[i].lanes[lane]);
        }
        free(node->peers[i].lanes);
        free(node->peers[i].gone_text);
    }
    free(node->peers);
    net_facts_release(&node->facts);
    net_channel_release(&node->channel);
    net_idmap_release(&node->inbound);
    net_segment_forget_all(node);
    if (node->door >= 0) {
        close(node->door);
    }
    if (node->wake_fd >= 0) {
        close(node->wake_fd);
    }
    pthread_cond_destroy(&node->changed);
    pthread_mutex_destroy(&node->lock);
    free(node->end_text);
    free(node->close_text);
    free(node);
}

static kvs_status_t start(kvs_net_node_t *node)
{
    sigset_t all, old;
    int error;

    sigfillset(&all); /* signals are the program's */
    pthread_sigmask(SIG_SETMASK, &all, &old);
    error = pthread_create(&node->thread, NULL, net_node_thread, node);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return error == 0 ? KVS_OK : kvs_fail(KVS_ERR_IO, "no thread for a node: %s", strerror(error));
}

static kvs_net_node_t *new_node(kvs_net_job_t *job, const kvs_net_node_args_t *args)
{
    kvs_net_node_t *node = calloc(1, sizeof(*node));

    if (node == NULL) {
        return NULL;
    }
    node->job = job;
    node->args = *args;
    node->wake_fd = node->door = -1;
    node->rank_given = args->rank >= 0                    ? args->rank
                       : args->role == job->settings.role ? job->settings.rank
                                                          : -1;
    node->incarnation = net_random();
    node->host_id = net_host_id();
    node->channel.link = net_random();
    snprintf(node->group, sizeof(node->group), "%s", args->group);
    node->args.group = node->group;
    node->rendezvous_deadline = net_deadline(job->settings.rendezvous_ms);
    pthread_mutex_init(&node->lock, NULL);
    net_cond_init(&node->changed);
    return node;
}

/* Without it everything works, through sockets. */
static void open_door(kvs_net_node_t *node)
{
    if (node->job->settings.shm != KVS_NET_SHM_OFF &&
        net_door_open(node->incarnation, &node->door) != KVS_OK) {
        kvs_log(KVS_LOG_WARN, "net", "nothing goes through shared memory: %s", net_last_error());
    }
}

kvs_status_t kvs_net_node_open(kvs_net_job_t *job, const kvs_net_node_args_t *args,
                               kvs_net_node_t **ret_node)
{
    kvs_status_t status = check_args(job, args);
    kvs_net_node_t *node = status == KVS_OK ? new_node(job, args) : NULL;

    if (status != KVS_OK) {
        return status;
    }
    if (node == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for a node");
    }
    status = gather_facts(node) ? net_wake_open(&node->wake_fd)
                                : kvs_fail(KVS_ERR_NO_MEMORY, "no memory for a node");
    open_door(node);
    *ret_node = node; /* before the thread begins: its callbacks may want it */
    status = status == KVS_OK ? start(node) : status;
    if (status != KVS_OK) {
        *ret_node = NULL;
        free_node(node);
    }
    return status;
}

kvs_status_t net_node_fail_ended(kvs_net_node_t *node)
{
    kvs_status_t status;

    pthread_mutex_lock(&node->lock);
    status = node->end_status == KVS_OK
                 ? kvs_fail(KVS_ERR_STATE, "the job has ended")
                 : kvs_fail(node->end_status, "%s",
                            node->end_text == NULL ? "the job failed" : node->end_text);
    pthread_mutex_unlock(&node->lock);
    return status;
}

kvs_status_t kvs_net_node_wait_ready(kvs_net_node_t *node, int64_t timeout_ms)
{
    int64_t deadline = net_deadline(timeout_ms);
    kvs_status_t status = net_node_check_waiter(node);
    char seconds[32];

    if (status != KVS_OK) {
        return status;
    }
    pthread_mutex_lock(&node->lock);
    while (net_node_phase(node) == NET_OPENING && !node->cancelled && net_now() < deadline) {
        net_cond_wait(&node->changed, &node->lock, deadline);
    }
    if (net_node_phase(node) == NET_OPENING) {
        status = node->cancelled
                     ? kvs_fail(KVS_ERR_CANCELLED, "cancelled while joining job '%s'",
                                node->job->settings.job_id)
                     : kvs_fail(KVS_ERR_TIMEOUT, "job '%s': after %s only %s",
                                node->job->settings.job_id, net_seconds(seconds, timeout_ms),
                                node->presence[0] == '\0' ? "this process, and no scheduler"
                                                          : node->presence);
    }
    pthread_mutex_unlock(&node->lock);
    return status == KVS_OK && !net_node_has_joined(node) ? net_node_fail_ended(node) : status;
}

/* ---- Peers ----------------------------------------------------------------------------------- */

net_peer_t *net_node_peer_at(kvs_net_node_t *node, uint32_t place)
{
    return place < node->n_peers ? &node->peers[place] : NULL;
}

int kvs_net_node_rank(const kvs_net_node_t *node)
{
    return node->peers[node->self].pub.rank;
}

int kvs_net_node_local_rank(const kvs_net_node_t *node)
{
    return node->peers[node->self].pub.local_rank;
}

int kvs_net_node_count(const kvs_net_node_t *node, int role)
{
    return role == KVS_NET_WORKER ? node->n_workers : role == KVS_NET_SERVER ? node->n_servers : 0;
}

const kvs_net_peer_t *kvs_net_node_self(const kvs_net_node_t *node)
{
    return &node->peers[node->self].pub;
}

const kvs_net_peer_t *kvs_net_node_peer(const kvs_net_node_t *node, int role, int rank)
{
    int first = role == KVS_NET_WORKER ? 0 : node->n_workers;

    return rank >= 0 && rank < kvs_net_node_count(node, role) ? &node->peers[first + rank].pub
                                                              : NULL;
}

kvs_status_t kvs_net_node_check_peer(kvs_net_node_t *node, const kvs_net_peer_t *pub)
{
    const net_peer_t *peer = (const net_peer_t *)pub;

    (void)node;
    if (!atomic_load_explicit(&peer->gone, memory_order_acquire)) {
        return KVS_OK;
    }
    return kvs_fail(peer->gone_status, "%s",
                    peer->gone_text == NULL ? peer->label : peer->gone_text);
}

/* ---- Sending --------------------------------------------------------------------------------- */

static kvs_status_t check_send(const kvs_net_node_t *node)
{
    if (!net_job_is_ours(node->job)) {
        return KVS_ERR_STATE;
    }
    if (!net_node_has_joined(node)) {
        return kvs_fail(KVS_ERR_STATE, "nothing can be sent before the job is complete");
    }
    return KVS_OK;
}

static net_lane_t *lane_of(const kvs_net_node_t *node, const kvs_net_peer_t *to,
                           const kvs_net_send_t *send)
{
    return &((const net_peer_t *)to)->lanes[send->lane % (uint32_t)node->job->settings.n_lanes];
}

kvs_status_t kvs_net_send(kvs_net_node_t *node, const kvs_net_peer_t *to,
                          const kvs_net_send_t *send)
{
    kvs_status_t status = check_send(node);

    return status == KVS_OK ? net_lane_send(lane_of(node, to, send), send) : status;
}

kvs_status_t kvs_net_send_wait(kvs_net_node_t *node, const kvs_net_peer_t *to,
                               const kvs_net_send_t *send, int64_t timeout_ms)
{
    kvs_status_t status = check_send(node);

    status = status == KVS_OK ? net_node_check_waiter(node) : status;
    return status == KVS_OK ? net_lane_send_wait(lane_of(node, to, send), send, timeout_ms)
                            : status;
}

const char *kvs_net_path_name(int path)
{
    static const char *const names[] = {"shm", "tcp", "inproc"};

    return path >= 0 && path < KVS_NET_N_PATHS ? names[path] : "?";
}

void kvs_net_node_traffic(kvs_net_node_t *node, kvs_net_traffic_t *ret_traffic)
{
    kvs_net_traffic_t traffic = KVS_NET_TRAFFIC_INIT;

    for (uint32_t i = 0; net_node_has_joined(node) && i < node->n_peers; i++) {
        for (int lane = 0; lane < node->job->settings.n_lanes; lane++) {
            net_lane_count(&node->peers[i].lanes[lane], &traffic);
        }
    }
    for (int path = 0; path < KVS_NET_N_PATHS; path++) {
        traffic.received[path].n_messages =
            atomic_load_explicit(&node->n_received[path], memory_order_relaxed);
        traffic.received[path].n_bytes =
            atomic_load_explicit(&node->n_received_bytes[path], memory_order_relaxed);
    }
    traffic.size = ret_traffic->size;
    memcpy(ret_traffic, &traffic, traffic.size < sizeof(traffic) ? traffic.size : sizeof(traffic));
}

/* ---- Cancelling and closing ------------------------------------------------------------------ */

void kvs_net_node_cancel(kvs_net_node_t *node)
{
    node->cancelled = true;
    net_wake_ring(node->wake_fd); /* its thread wakes the waiters */
}

void kvs_net_store_cancel(kvs_net_store_t *store)
{
    store->cancelled = true;
    store->node->wakes = true;
    net_wake_ring(store->node->wake_fd);
}

kvs_status_t kvs_net_node_close(kvs_net_node_t *node, int64_t timeout_ms)
{
    kvs_status_t status;

    if (node == NULL) {
        return KVS_OK;
    }
    status = net_node_check_waiter(node);
    if (status != KVS_OK) {
        return status;
    }
    pthread_mutex_lock(&node->lock);
    node->is_closing = true;
    node->close_deadline = net_deadline(timeout_ms);
    pthread_mutex_unlock(&node->lock);
    net_wake_ring(node->wake_fd);
    pthread_join(node->thread, NULL);
    pthread_mutex_lock(&node->lock); /* ZeroMQ's thread has rung for the last record, see let_go */
    pthread_mutex_unlock(&node->lock);
    status = node->close_status == KVS_OK
                 ? KVS_OK
                 : kvs_fail(node->close_status, "%s",
                            node->close_text == NULL ? "closed too early" : node->close_text);
    while (node->stores != NULL) {
        kvs_net_store_t *store = node->stores;

        node->stores = store->next;
        free(store);
    }
    free_node(node);
    return status;
}
