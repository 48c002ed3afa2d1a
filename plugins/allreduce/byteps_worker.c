/* SPDX-License-Identifier: Apache-2.0 */
/* byteps_worker.c - uses of keys, one after the other on a key, and when the core is told. */
#include "byteps_worker.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define EXPIRE_NS  INT64_C(400000000)  /* between looks at the clock */
#define HERE_BYTES (UINT64_C(4) << 20) /* most credit between workers of a host: more is slower, */
                                       /* as it does not fit in the memory that they share */
#define DRAIN_MS 1000                  /* of close: until everyone has the last results */

static const kvs_device_t host_device = {KVS_DEVICE_CPU, 0};

static int64_t net_timeout(int64_t timeout_ms)
{
    return timeout_ms == 0 ? -1 : timeout_ms;
}

static const char *verb_name(const kvs_op_t *op)
{
    return op->verb == KVS_VERB_BROADCAST ? "broadcast" : "pushpull";
}

static void set_text(char **text, const char *to)
{
    char *copy = strdup(to);

    free(*text);
    *text = copy;
}

/* ---- The life of a store --------------------------------------------------------------------------- */

static void free_worker(byteps_worker_t *worker)
{
    for (uint32_t t = 0; worker->targets != NULL && t < worker->n_targets; t++) {
        free(worker->targets[t].heap);
    }
    for (int w = 0; worker->closed != NULL && w < worker->n_workers; w++) {
        free(worker->closed[w]);
    }
    free(worker->closed);
    byteps_book_release(&worker->book);
    free(worker->targets);
    free(worker->lost);
    free(worker->known);
    free(worker->type);
    free(worker->failure_text);
    free(worker->told_text);
    pthread_cond_destroy(&worker->changed);
    pthread_mutex_destroy(&worker->lock);
    free(worker);
}

void byteps_worker_free(byteps_worker_t *worker)
{
    if (worker->depot != NULL) {
        byteps_depot_free(worker->depot);
    }
    free_worker(worker);
}

/* Whether all workers can sum through memory that they share. It is worker 0 that goes by it. */
static bool may_sum_here(const byteps_worker_t *worker)
{
    for (int w = 0; w < worker->n_workers; w++) {
        const kvs_net_peer_t *peer = kvs_net_node_peer(worker->node, KVS_NET_WORKER, w);

        if (!peer->is_self && kvs_net_node_shares_memory(worker->node, peer) == 0) {
            return false;
        }
    }
    return true;
}

/* Whether what is on one host is summed there before it is sent: if there are several hosts, and several
 * workers on one of them. Again it is worker 0 that goes by it. */
static bool hosts_sum_first(const byteps_worker_t *worker)
{
    const byteps_depot_t *depot = worker->depot;

    return depot->n_hosts > 1 && depot->n_hosts < worker->n_workers &&
           kvs_net_node_shares_memory(worker->node, kvs_net_node_self(worker->node)) != 0;
}

static bool set_hosts(byteps_worker_t *worker)
{
    uint32_t *hosts = malloc((size_t)worker->n_workers * sizeof(*hosts));
    kvs_status_t status = KVS_ERR_NO_MEMORY;

    for (int w = 0; hosts != NULL && w < worker->n_workers; w++) {
        hosts[w] = kvs_net_node_peer(worker->node, KVS_NET_WORKER, w)->host_number;
    }
    if (hosts != NULL) {
        status = byteps_book_set_hosts(&worker->book, hosts, (uint32_t)worker->n_workers,
                                       (uint32_t)worker->depot->n_hosts);
    }
    free(hosts);
    return status == KVS_OK;
}

static bool make_book(byteps_worker_t *worker, bool here)
{
    uint32_t base = here ? worker->n_servers : 0;
    uint32_t n = here ? (uint32_t)worker->n_workers : worker->n_servers;

    return byteps_book_init(&worker->book, base, n) == KVS_OK &&
           (here || !hosts_sum_first(worker) || set_hosts(worker));
}

static bool allocate(byteps_worker_t *worker, const byteps_worker_args_t *args)
{
    bool here = may_sum_here(worker);

    worker->type = strdup(args->type);
    worker->lost = calloc(worker->n_servers + 1, sizeof(*worker->lost));
    worker->targets = calloc(worker->n_targets, sizeof(*worker->targets));
    worker->closed = calloc((size_t)worker->n_workers, sizeof(*worker->closed));
    worker->depot = byteps_depot_new(worker->node, 0, false, &args->owner);
    if (worker->depot == NULL) {
        return false;
    }
    worker->depot->n_part_blocks = byteps_blocks_per_part(worker);
    if ((here || hosts_sum_first(worker)) &&
        (worker->credit_bytes == 0 || worker->credit_bytes > HERE_BYTES)) {
        worker->credit_bytes = HERE_BYTES;
    }
    return worker->type != NULL && worker->lost != NULL && worker->targets != NULL &&
           worker->closed != NULL && make_book(worker, here);
}

kvs_status_t byteps_worker_new(const byteps_worker_args_t *args, byteps_worker_t **ret_worker)
{
    byteps_worker_t *worker = calloc(1, sizeof(*worker));
    pthread_condattr_t monotonic;

    if (worker == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for the store");
    }
    worker->node = args->node;
    worker->rank = kvs_net_node_rank(args->node);
    worker->n_workers = kvs_net_node_count(args->node, KVS_NET_WORKER);
    worker->n_servers = (uint32_t)kvs_net_node_count(args->node, KVS_NET_SERVER);
    worker->n_targets = worker->n_servers + (uint32_t)worker->n_workers;
    worker->timeout_ms = args->timeout_ms;
    worker->part_bytes = args->part_bytes;
    worker->credit_bytes = args->credit_bytes;
    pthread_mutex_init(&worker->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&worker->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    if (!allocate(worker, args)) {
        byteps_worker_free(worker);
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for the store");
    }
    if (worker->n_servers == 0) {
        byteps_worker_free(worker);
        return kvs_fail(KVS_ERR_ARGUMENT,
                        "'%s' needs a server, and this job has none; set KVSTORE_NUM_SERVERS "
                        "(kvstore run -s)",
                        args->type);
    }
    *ret_worker = worker;
    return KVS_OK;
}

/* Servers that were lost before this store began: later ones are told by events. */
static void find_lost(byteps_worker_t *worker)
{
    pthread_mutex_lock(&worker->lock);
    for (uint32_t s = 0; s < worker->n_servers; s++) {
        const kvs_net_peer_t *peer = kvs_net_node_peer(worker->node, KVS_NET_SERVER, (int)s);

        if (kvs_net_node_check_peer(worker->node, peer) != KVS_OK) {
            byteps_lose_server(worker, s, kvs_plugin_host->last_error());
        }
    }
    byteps_worker_settle(worker);
}

kvs_status_t byteps_worker_open(byteps_worker_t *worker, const char *loaded)
{
    kvs_net_store_args_t args = KVS_NET_STORE_ARGS_INIT;
    kvs_status_t status;

    args.type = worker->type;
    args.message = byteps_worker_message;
    args.arg = worker;
    args.loaded = loaded;
    status = kvs_net_store_open(worker->node, &args, net_timeout(worker->timeout_ms), &worker->net);
    if (status == KVS_OK) {
        pthread_mutex_lock(&worker->lock); /* messages may have come already */
        worker->number = kvs_net_store_number(worker->net);
        pthread_mutex_unlock(&worker->lock);
        find_lost(worker);
    }
    return status;
}

/* The last of this store on the I/O thread: answers of the depot may still be on their way. */
static void close_depot(void *arg)
{
    byteps_worker_t *worker = arg;

    pthread_mutex_lock(&worker->lock);
    byteps_release_kept(worker);
    pthread_mutex_unlock(&worker->lock);
    byteps_depot_close(worker->depot);
}

static bool keeps_any(const byteps_worker_t *worker)
{
    for (uint32_t s = 0; s < worker->n_servers; s++) {
        if (worker->targets[s].kept != NULL) {
            return true;
        }
    }
    return false;
}

/* While others may still need what this worker has, should a server be lost. False: all has failed. */
static bool wait_for_others(byteps_worker_t *worker)
{
    struct timespec deadline;
    bool works;
    int waited = 0;

    clock_gettime(CLOCK_MONOTONIC, &deadline);
    deadline.tv_sec += DRAIN_MS / 1000;
    pthread_mutex_lock(&worker->lock);
    while (worker->failure == KVS_OK && keeps_any(worker) && waited != ETIMEDOUT) {
        waited = pthread_cond_timedwait(&worker->changed, &worker->lock, &deadline);
    }
    works = worker->failure == KVS_OK || worker->failure == KVS_ERR_CANCELLED;
    pthread_mutex_unlock(&worker->lock);
    return works;
}

kvs_status_t byteps_worker_close(byteps_worker_t *worker, int64_t timeout_ms)
{
    kvs_status_t status;

    if (wait_for_others(worker)) { /* else the others have failed too, and tell why */
        byteps_worker_say_closed(worker);
    }
    status = kvs_net_store_close(worker->net, net_timeout(timeout_ms));
    (void)kvs_net_node_call_wait(worker->node, close_depot, worker); /* this is not that thread */
    free_worker(worker);
    return status;
}

void byteps_worker_key_release(byteps_key_t *key)
{
    byteps_worker_t *worker = key->worker;

    if (worker == NULL) {
        return;
    }
    pthread_mutex_lock(&worker->lock);
    if (key->id != 0) {
        worker->known[key->id].key = NULL;
    }
    byteps_key_forget_ask(key);
    pthread_mutex_unlock(&worker->lock);
    free(key->targets);
    *key = (byteps_key_t){.worker = NULL};
}

/* ---- Telling the core ------------------------------------------------------------------------------ */

static void complete(byteps_use_t *use)
{
    kvs_op_t *pub = use->pub;
    kvs_status_t status = use->status;

    if (status != KVS_OK) {
        (void)kvs_fail(status, "%s: %s", verb_name(pub),
                       use->text == NULL ? "no memory" : use->text);
    }
    free(use->text);
    if (use->parts != &use->one) {
        free(use->parts);
    }
    kvs_cpu_provider()->free(host_device, use->copy, use->n_copy_bytes);
    kvs_devhost_consumed(pub);
    kvs_devhost_complete(pub, status);
}

void byteps_worker_settle(byteps_worker_t *worker)
{
    while (worker->to_settle != NULL) {
        byteps_use_t *use = worker->to_settle;

        worker->to_settle = use->next_settled;
        pthread_mutex_unlock(&worker->lock);
        complete(use);
        pthread_mutex_lock(&worker->lock);
    }
    pthread_mutex_unlock(&worker->lock);
}

void byteps_use_look(byteps_use_t *use)
{
    byteps_worker_t *worker = use->key->worker;

    if (use->over && use->n_held == 0 && !use->listed && !use->issuing) {
        use->listed = true;
        use->next_settled = worker->to_settle;
        worker->to_settle = use;
    }
}

/* The verb is done with the use; so far the I/O thread has left the telling to it. Releases the lock. */
static void end_issuing(byteps_use_t *use)
{
    bool ended = use->over && use->n_held == 0;

    use->issuing = false;
    use->listed = ended;
    pthread_mutex_unlock(&use->key->worker->lock);
    if (ended) {
        complete(use);
    }
}

/* ---- Uses, one after the other on each key ----------------------------------------------------------- */

static void set_active(byteps_use_t *use, bool active)
{
    byteps_worker_t *worker = use->key->worker;

    if (use->is_active == active) {
        return;
    }
    use->is_active = active;
    if (active) {
        use->next_active = worker->active;
        if (use->next_active != NULL) {
            use->next_active->prev_active = use;
        }
        worker->active = use;
        return;
    }
    if (use->prev_active != NULL) {
        use->prev_active->next_active = use->next_active;
    } else {
        worker->active = use->next_active;
    }
    if (use->next_active != NULL) {
        use->next_active->prev_active = use->prev_active;
    }
}

static void advance(byteps_key_t *key);

void byteps_use_fail(byteps_use_t *use, kvs_status_t status, const char *text)
{
    if (use->status == KVS_OK) {
        use->status = status;
        set_text(&use->text, text);
    }
}

void byteps_use_end(byteps_use_t *use)
{
    byteps_key_t *key = use->key;

    if (use->over) {
        return;
    }
    use->over = true;
    set_active(use, false);
    byteps_parts_withdraw(use);
    key->current = NULL;
    byteps_use_look(use); /* it may be gone after the lock is released */
    advance(key);
}

static void fail_and_end(byteps_use_t *use, kvs_status_t status)
{
    byteps_use_fail(use, status, kvs_plugin_host->last_error());
    byteps_use_end(use);
}

static void begin(byteps_use_t *use)
{
    kvs_status_t status = byteps_parts_start(use);

    if (status != KVS_OK) {
        fail_and_end(use, status);
        return;
    }
    byteps_parts_send(use->key->worker);
}

void byteps_key_go_on(byteps_key_t *key)
{
    byteps_use_t *use = key->current;

    if (use != NULL && key->n_places < use->n_parts) {
        byteps_key_ask(key, use);
    } else if (use != NULL) {
        begin(use);
    }
}

static void start(byteps_use_t *use)
{
    byteps_key_t *key = use->key;
    byteps_worker_t *worker = key->worker;

    key->current = use;
    set_active(use, true);
    use->moved_ns = byteps_now_ns();
    if (worker->failure != KVS_OK) {
        byteps_use_fail(use, worker->failure, worker->failure_text);
        byteps_use_end(use);
    } else {
        byteps_key_go_on(key);
    }
}

static void advance(byteps_key_t *key)
{
    if (key->advancing) {
        return;
    }
    key->advancing = true;
    while (key->current == NULL && key->first != NULL) {
        byteps_use_t *use = key->first;

        key->first = use->next;
        start(use);
    }
    key->advancing = false;
}

static void enqueue(byteps_use_t *use)
{
    byteps_key_t *key = use->key;

    if (key->first == NULL) {
        key->first = use;
    } else {
        key->last->next = use;
    }
    key->last = use;
    advance(key);
}

/* ---- The verbs ------------------------------------------------------------------------------------- */

kvs_status_t byteps_worker_issue(byteps_worker_t *worker)
{
    kvs_status_t status = KVS_OK;

    pthread_mutex_lock(&worker->lock);
    if (worker->failure != KVS_OK) {
        status = kvs_fail(worker->failure, "%s", worker->failure_text);
    } else if (worker->told != KVS_OK) {
        status = kvs_fail(worker->told, "%s", worker->told_text);
        worker->told = KVS_OK;
    }
    pthread_mutex_unlock(&worker->lock);
    return status;
}

static kvs_status_t describe(byteps_use_t *use, const kvs_op_t *op)
{
    const kvs_group_t *group = &op->groups[0];
    const kvs_tensor_t *value = &group->values[0];
    byteps_header_t *header = &use->header;

    if (value->ndim > BYTEPS_MAX_NDIM) {
        return kvs_fail(KVS_ERR_NOT_IMPLEMENTED, "%s: byteps takes arrays of up to %d dimensions",
                        verb_name(op), BYTEPS_MAX_NDIM);
    }
    header->kind = BYTEPS_BLOCK;
    header->verb = (uint8_t)op->verb;
    header->dtype = (uint8_t)kvs_dtype_index(value->dtype);
    header->ndim = value->ndim;
    for (int32_t i = 0; i < value->ndim; i++) {
        header->shape[i] = value->shape[i];
    }
    header->has_name = group->key->name != NULL;
    if (header->has_name) {
        header->name = group->key->name;
        header->n_name = (uint32_t)strlen(group->key->name);
    } else {
        header->number = group->key->number;
    }
    header->timeout_ms = use->key->worker->timeout_ms;
    use->n_elems = byteps_n_elems(header);
    use->n_blocks = byteps_n_blocks(header->dtype, use->n_elems);
    return KVS_OK;
}

/* What is sent. Values that share memory with the out in another way than being it are copied. */
static kvs_status_t read_value(byteps_use_t *use, const kvs_op_t *op)
{
    const kvs_tensor_t *value = &op->groups[0].values[0];
    size_t n_bytes = (size_t)use->n_elems * kvs_dtype_bytes(use->header.dtype);
    kvs_status_t status;

    if (n_bytes == 0 || (op->verb == KVS_VERB_BROADCAST && use->key->worker->rank != 0)) {
        return KVS_OK;
    }
    use->source = value->data;
    if ((op->flags & KVS_OP_SHARED) == 0) {
        return KVS_OK;
    }
    status = kvs_cpu_provider()->alloc(host_device, n_bytes, &use->copy);
    if (status == KVS_OK) {
        memcpy(use->copy, value->data, n_bytes);
        use->source = use->copy;
        use->n_copy_bytes = n_bytes;
    }
    return status;
}

kvs_status_t byteps_worker_run(byteps_worker_t *worker, kvs_op_t *op)
{
    byteps_use_t *use = op->groups[0].state;
    kvs_status_t status;

    use->pub = op;
    use->key = op->groups[0].key->state;
    if (use->key->worker == NULL) { /* once: the I/O thread reads it for an earlier use */
        use->key->worker = worker;
    }
    use->issuing = true;
    status = describe(use, op);
    status = status == KVS_OK ? read_value(use, op) : status;
    if (status != KVS_OK) {
        return status;
    }
    use->n_parts = byteps_n_parts(worker, &use->header);
    op->backend = use;
    pthread_mutex_lock(&worker->lock);
    enqueue(use);
    end_issuing(use);
    return KVS_OK;
}

void byteps_use_write(const byteps_use_t *use, uint64_t block, const void *data)
{
    const kvs_group_t *group = &use->pub->groups[0];
    int dtype = use->header.dtype;
    int64_t n = byteps_elems_of_block(dtype, use->n_elems, block);
    int64_t first = (int64_t)block * byteps_block_elems(dtype);

    for (size_t i = 0; i < group->n_outs && n > 0; i++) {
        int out_dtype = kvs_dtype_index(group->outs[i].dtype);

        kvs_cast(n, dtype, data, out_dtype,
                 (char *)group->outs[i].data + (size_t)first * kvs_dtype_bytes(out_dtype));
    }
    if (n > 0) {
        kvs_devhost_wrote(use->pub, group, first, n);
    }
}

kvs_status_t byteps_worker_barrier(byteps_worker_t *worker)
{
    kvs_status_t status = byteps_worker_issue(worker);

    status = status == KVS_OK ? kvs_net_store_barrier(worker->net, net_timeout(worker->timeout_ms))
                              : status;
    return status == KVS_OK ? KVS_OK : kvs_fail_context(status, "barrier");
}

void byteps_worker_cancel(byteps_worker_t *worker)
{
    worker->cancelled = true;
    kvs_net_store_cancel(worker->net);
}

/* ---- What happens to the job ------------------------------------------------------------------------- */

void byteps_worker_fail(byteps_worker_t *worker, kvs_status_t status, const char *text)
{
    if (worker->failure != KVS_OK) {
        return;
    }
    worker->failure = status;
    set_text(&worker->failure_text, text);
    while (worker->active != NULL) { /* those behind them fail as they begin */
        byteps_use_t *use = worker->active;

        byteps_use_fail(use, status, text);
        byteps_use_end(use);
    }
    pthread_cond_broadcast(&worker->changed);
}

/* Worker 0 has closed the store or left: nobody says any more where keys go. */
static void fail_asking(byteps_worker_t *worker, const char *text)
{
    while (worker->asking != NULL) {
        byteps_key_t *key = worker->asking;

        byteps_key_forget_ask(key);
        if (key->current != NULL) {
            byteps_use_fail(key->current, KVS_ERR_PEER, text);
            byteps_use_end(key->current);
        }
    }
}

static void fail_parts_at(byteps_use_t *use, uint32_t target, const char *why)
{
    char text[1024];

    for (uint64_t i = 0; use->parts != NULL && i < use->n_parts; i++) {
        const byteps_part_t *part = &use->parts[i];

        if (part->target == target && part->n_got < part->n_blocks) {
            snprintf(text, sizeof(text), "%s: %s", BYTEPS_KEY_TEXT(&use->header), why);
            byteps_use_fail(use, KVS_ERR_PEER, text);
            byteps_use_end(use);
            return;
        }
    }
}

void byteps_worker_lose(byteps_worker_t *worker, int rank, const char *text)
{
    const char *why = text == NULL ? "a worker has closed the store" : text;
    byteps_use_t *next;

    if (worker->closed[rank] == NULL) {
        worker->closed[rank] = strdup(why);
    }
    for (byteps_use_t *use = worker->active; use != NULL; use = next) {
        next = use->next_active;
        fail_parts_at(use, worker->n_servers + (uint32_t)rank, why);
    }
    if (rank == 0) {
        fail_asking(worker, why);
    }
    byteps_parts_send(worker); /* there is credit again */
}

/* What others miss of a worker that left, whoever sums sees to. */
static void lose(byteps_worker_t *worker, const kvs_net_event_t *event)
{
    const kvs_net_peer_t *peer = event->peer;

    if (peer != NULL && peer->role == KVS_NET_SERVER) {
        byteps_lose_server(worker, (uint32_t)peer->rank, event->text);
    } else if (event->kind == KVS_NET_EVENT_DEAD) {
        byteps_worker_fail(worker, event->status, event->text);
    } else if (peer != NULL) {
        byteps_worker_lose(worker, peer->rank, event->text);
    }
}

void byteps_worker_event(byteps_worker_t *worker, const kvs_net_event_t *event)
{
    kvs_status_t failure;

    if (event->kind == KVS_NET_EVENT_LEFT && event->peer != NULL &&
        event->peer->role == KVS_NET_WORKER) {
        byteps_depot_lose(worker->depot, event->peer->rank, event->text);
    }
    pthread_mutex_lock(&worker->lock);
    switch ((kvs_net_event_kind_t)event->kind) {
    case KVS_NET_EVENT_LEFT:
    case KVS_NET_EVENT_DEAD:
        lose(worker, event);
        break;
    case KVS_NET_EVENT_ROOM:
        worker
            ->targets[event->peer->rank +
                      (event->peer->role == KVS_NET_WORKER ? (int)worker->n_servers : 0)]
            .is_full = false;
        byteps_parts_send(worker);
        break;
    case KVS_NET_EVENT_ERROR: /* those of no store are about nodes, whose loss is told by itself */
        if (event->store != 0 && event->store == worker->number && worker->told == KVS_OK) {
            worker->told = event->status;
            set_text(&worker->told_text, event->text);
        }
        break;
    case KVS_NET_EVENT_ENDED:
        if (event->status != KVS_OK) {
            byteps_worker_fail(worker, event->status, event->text);
        }
        break;
    default:
        break;
    }
    failure = worker->failure;
    byteps_worker_settle(worker);
    if (failure != KVS_OK) { /* where the node itself has ended, no DROP reaches the depot */
        byteps_exchanges_fail(worker->depot, failure, worker->failure_text);
    }
    if (event->kind != KVS_NET_EVENT_ROOM && event->peer != NULL &&
        event->peer->role == KVS_NET_SERVER &&
        kvs_net_node_check_peer(worker->node, event->peer) != KVS_OK) {
        byteps_relay_lose_server(worker->depot, (uint32_t)event->peer->rank);
    }
}

/* ---- Time ------------------------------------------------------------------------------------------- */

/* Servers have the deadline themselves, and tell more; this is for one that is silent. */
static int64_t patience_ns(const byteps_worker_t *worker)
{
    int64_t timeout = worker->timeout_ms;

    return (timeout + (timeout < 5000 ? timeout : 5000) + (timeout < 2000 ? timeout : 2000) / 2) *
           1000000;
}

/* Whom the use waits for; NULL: for its turn only. */
static const kvs_net_peer_t *awaited(const byteps_use_t *use)
{
    const byteps_worker_t *worker = use->key->worker;

    if (use->key->ask != 0) {
        return kvs_net_node_peer(worker->node, KVS_NET_WORKER, 0);
    }
    for (uint64_t i = 0; use->parts != NULL && i < use->n_parts; i++) {
        if (use->parts[i].n_sent > use->parts[i].n_got) {
            return byteps_target_peer(worker, use->parts[i].target);
        }
    }
    return NULL;
}

static void expire(byteps_use_t *use, int64_t now)
{
    int64_t patience = patience_ns(use->key->worker);
    const kvs_net_peer_t *peer = awaited(use);
    char text[512];

    if (peer == NULL) {
        use->moved_ns = now;
    } else if (now - use->moved_ns > patience) {
        kvs_net_print(text, sizeof(text),
                      "%s: %s has not answered within %.1f s; it may be busy or stuck",
                      BYTEPS_KEY_TEXT(&use->header), peer->label, (double)patience / 1e9);
        byteps_key_forget_ask(use->key); /* the next use asks again */
        byteps_use_fail(use, KVS_ERR_TIMEOUT, text);
        byteps_use_end(use);
    }
}

bool byteps_worker_tick(byteps_worker_t *worker, int64_t now_ns)
{
    bool pending = byteps_depot_look(worker->depot, now_ns);
    byteps_use_t *next;

    if (now_ns - worker->expired_ns < EXPIRE_NS) {
        return pending;
    }
    worker->expired_ns = now_ns;
    pthread_mutex_lock(&worker->lock);
    if (worker->cancelled) {
        byteps_worker_fail(worker, KVS_ERR_CANCELLED, "the store was cancelled");
    }
    for (byteps_use_t *use = worker->active; use != NULL && worker->timeout_ms > 0; use = next) {
        next = use->next_active;
        expire(use, now_ns);
    }
    byteps_parts_send(worker); /* what has ended gave its credit back */
    byteps_worker_settle(worker);
    return pending;
}
