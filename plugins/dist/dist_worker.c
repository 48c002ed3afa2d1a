/* SPDX-License-Identifier: Apache-2.0 */
/* dist_worker.c - operations: what they do to each key, one after the other on a key, and when the
 * core is told. What has to be read while the caller waits is read here, on the caller's thread. */
#include "dist_worker.h"

#include "deadline.h"
#include "dist_place.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const kvs_device_t host_device = {KVS_DEVICE_CPU, 0};

int64_t dist_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static const char *verb_name(uint32_t verb)
{
    static const char *const names[] = {
        [KVS_VERB_INIT] = "init",           [KVS_VERB_PUSH] = "push",
        [KVS_VERB_PULL] = "pull",           [KVS_VERB_PUSHPULL] = "pushpull",
        [KVS_VERB_BROADCAST] = "broadcast", [KVS_VERB_ROW_SPARSE_PULL] = "row_sparse_pull",
    };

    return names[verb];
}

static bool is_init(const kvs_op_t *op)
{
    return op->verb == KVS_VERB_INIT || op->verb == KVS_VERB_BROADCAST;
}

kvs_status_t dist_name_key(kvs_status_t status, const kvs_key_entry_t *key)
{
    return key->name != NULL ? kvs_fail_context(status, "key '%s'", key->name)
                             : kvs_fail_context(status, "key %lld", (long long)key->number);
}

static bool is_push(uint8_t verb)
{
    return verb == KVS_VERB_PUSH || verb == KVS_VERB_PUSHPULL;
}

/* ---- The life of a store --------------------------------------------------------------------------- */

static void free_worker(dist_worker_t *worker)
{
    kvs_opt_free(worker->opt);
    kvs_compression_free(worker->compression);
    free(worker->type);
    free(worker->loads);
    for (int s = 0; worker->wires != NULL && s < worker->n_servers; s++) {
        dist_queue_release(&worker->wires[s].queue);
        dist_batch_release(&worker->wires[s].batch);
    }
    free(worker->wires);
    dist_map_release(&worker->deleted);
    free(worker->slots);
    free(worker->failure_text);
    free(worker->told_text);
    pthread_cond_destroy(&worker->changed);
    pthread_mutex_destroy(&worker->lock);
    free(worker);
}

static dist_worker_t *new_worker(const dist_worker_args_t *args)
{
    dist_worker_t *worker = calloc(1, sizeof(*worker));
    pthread_condattr_t monotonic;

    if (worker == NULL) {
        return NULL;
    }
    worker->node = args->node;
    worker->rank = kvs_net_node_rank(args->node);
    worker->n_workers = kvs_net_node_count(args->node, KVS_NET_WORKER);
    worker->n_servers = kvs_net_node_count(args->node, KVS_NET_SERVER);
    worker->timeout_ms = args->timeout_ms;
    worker->is_async = dist_type_is_async(args->type);
    worker->cut_elems = args->cut_elems;
    worker->slice = args->slice;
    worker->first_free = UINT32_MAX;
    pthread_mutex_init(&worker->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&worker->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    worker->type = strdup(args->type);
    worker->loads = calloc((size_t)worker->n_servers + 1, sizeof(*worker->loads));
    worker->wires = calloc((size_t)worker->n_servers + 1, sizeof(*worker->wires));
    if (worker->type == NULL || worker->loads == NULL || worker->wires == NULL) {
        free_worker(worker);
        return NULL;
    }
    for (int s = 0; s < worker->n_servers; s++) {
        const kvs_net_peer_t *server = kvs_net_node_peer(args->node, KVS_NET_SERVER, s);

        worker->wires[s].by_socket = kvs_net_node_shares_memory(args->node, server) == 0;
    }
    return worker;
}

kvs_status_t dist_worker_new(const dist_worker_args_t *args, dist_worker_t **ret_worker)
{
    dist_worker_t *worker = new_worker(args);

    if (worker == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for the store");
    }
    if (worker->n_servers == 0) {
        free_worker(worker);
        return kvs_fail(KVS_ERR_ARGUMENT,
                        "'%s' needs a server, and this job has none; set KVSTORE_NUM_SERVERS "
                        "(kvstore run -s)",
                        args->type);
    }
    *ret_worker = worker;
    return KVS_OK;
}

kvs_status_t dist_worker_open(dist_worker_t *worker, const char *loaded)
{
    kvs_net_store_args_t args = KVS_NET_STORE_ARGS_INIT;
    kvs_status_t status;

    args.type = worker->type;
    args.message = dist_worker_message;
    args.arg = worker;
    args.loaded = loaded;
    status =
        kvs_net_store_open(worker->node, &args, dist_net_timeout(worker->timeout_ms), &worker->net);
    if (status == KVS_OK) {
        worker->number = kvs_net_store_number(worker->net);
    }
    return status;
}

void dist_worker_free(dist_worker_t *worker)
{
    free_worker(worker);
}

static bool others_have_failed(dist_worker_t *worker)
{
    kvs_status_t failure;

    pthread_mutex_lock(&worker->lock);
    failure = worker->failure;
    pthread_mutex_unlock(&worker->lock);
    return failure != KVS_OK && failure != KVS_ERR_CANCELLED;
}

kvs_status_t dist_worker_close(dist_worker_t *worker, int64_t timeout_ms)
{
    kvs_status_t status;

    if (!others_have_failed(worker)) { /* else they tell why */
        dist_worker_say_closed(worker);
    }
    status = kvs_net_store_close(worker->net, dist_net_timeout(timeout_ms));
    free_worker(worker);
    return status;
}

/* ---- Keys ------------------------------------------------------------------------------------------ */

static void list_key(dist_worker_t *worker, dist_key_t *key)
{
    key->worker = worker;
    key->next = worker->keys;
    if (key->next != NULL) {
        key->next->prev = key;
    }
    worker->keys = key;
}

static void forget_told(dist_key_t *key)
{
    free(key->told_text);
    key->told_text = NULL;
    key->told = KVS_OK;
}

static void release_spare(dist_key_t *key)
{
    kvs_cpu_provider()->free(host_device, key->spare, key->n_spare_bytes);
    key->spare = NULL;
    key->n_spare_bytes = 0;
}

/* An init begins: what an earlier one that failed has left is gone. */
static void renew_key(dist_worker_t *worker, dist_key_t *key, dist_record_t record)
{
    if (key->worker == NULL) {
        list_key(worker, key);
    }
    release_spare(key);
    forget_told(key);
    dist_record_release(&key->record);
    kvs_residuals_release(&key->host.residuals);
    kvs_devhost_residual_release(&key->residual);
    key->was_pushed = false;
    key->record = record;
    key->digest = dist_record_digest(&record);
    key->n_rounds = 0;
    key->host.opt.n_updates = 0;
    key->state = DIST_KEY_WAITING;
}

void dist_worker_key_release(dist_worker_t *worker, kvs_key_entry_t *entry)
{
    dist_key_t *key = entry->state;

    pthread_mutex_lock(&worker->lock);
    if (key->worker != NULL) {
        if (key->prev != NULL) {
            key->prev->next = key->next;
        } else {
            worker->keys = key->next;
        }
        if (key->next != NULL) {
            key->next->prev = key->prev;
        }
    }
    pthread_mutex_unlock(&worker->lock);
    release_spare(key);
    forget_told(key);
    dist_record_release(&key->record);
    kvs_residuals_release(&key->host.residuals);
    kvs_devhost_residual_release(&key->residual);
    *key = (dist_key_t){.worker = NULL};
}

/* ---- What is counted in program order -------------------------------------------------------------- */

/* An error that somebody else has made known is this operation's. */
static kvs_status_t take_told_locked(dist_worker_t *worker, const kvs_op_t *op)
{
    kvs_status_t status = KVS_OK;

    if (worker->failure != KVS_OK) {
        return kvs_fail(worker->failure, "%s: %s", verb_name(op->verb), worker->failure_text);
    }
    if (worker->told != KVS_OK) {
        status = kvs_fail(worker->told, "%s: %s", verb_name(op->verb), worker->told_text);
        free(worker->told_text);
        worker->told_text = NULL;
        worker->told = KVS_OK;
        return status;
    }
    for (size_t i = 0; i < op->n_groups && status == KVS_OK; i++) {
        dist_key_t *key = op->groups[i].key->state;

        if (key->state == DIST_KEY_GOING) {
            status =
                kvs_fail(KVS_ERR_STATE,
                         "%s: %s was to be deleted, which has failed half way; delete it again",
                         verb_name(op->verb), DIST_KEY_TEXT(&key->record));
        } else if (key->told != KVS_OK) {
            status = kvs_fail(key->told, "%s: %s", verb_name(op->verb), key->told_text);
            forget_told(key);
        }
    }
    return status;
}

static kvs_status_t issue_updates(dist_worker_t *worker, kvs_op_t *op)
{
    kvs_status_t status = KVS_OK;

    for (size_t i = 0; i < op->n_groups && status == KVS_OK; i++) {
        status = kvs_opt_check_key(worker->opt, op->groups[i].key);
    }
    for (size_t i = 0; i < op->n_groups && status == KVS_OK; i++) {
        dist_key_t *key = op->groups[i].key->state;
        dist_group_t *group = op->groups[i].state;

        if (!worker->is_async) { /* else servers do it, in the order they see */
            status =
                kvs_opt_issue(worker->opt, &key->host.opt, op->groups[i].key, &group->host.update);
        }
        group->optimizer = worker->n_optimizers;
        group->attrs = worker->attrs;
    }
    return status;
}

kvs_status_t dist_worker_issue(dist_worker_t *worker, kvs_op_t *op)
{
    kvs_status_t status;

    pthread_mutex_lock(&worker->lock);
    status = take_told_locked(worker, op);
    pthread_mutex_unlock(&worker->lock);
    if (status == KVS_OK) {
        status = dist_pack_issue(worker->compression, worker->n_codecs, op);
    }
    if (status == KVS_OK && worker->opt != NULL && is_push((uint8_t)op->verb)) {
        status = issue_updates(worker, op);
    }
    return status;
}

/* ---- Reading values -------------------------------------------------------------------------------- */

static size_t bytes_of(const kvs_group_t *group)
{
    return (size_t)group->key->n_elems * kvs_dtype_bytes(kvs_dtype_index(group->key->dtype));
}

kvs_status_t dist_group_take_memory(dist_group_t *group, size_t n_bytes)
{
    dist_worker_t *worker = group->op->worker;
    dist_key_t *key = group->pub->key->state;

    group->n_sum_bytes = n_bytes;
    pthread_mutex_lock(&worker->lock);
    worker->n_waiting_bytes += n_bytes;
    group->counted = true;
    group->reads |= worker->n_waiting_bytes > DIST_MAX_WAITING_BYTES;
    if (key->n_spare_bytes == n_bytes) {
        group->sum = key->spare;
        key->spare = NULL;
        key->n_spare_bytes = 0;
    }
    pthread_mutex_unlock(&worker->lock);
    return group->sum != NULL || n_bytes == 0
               ? KVS_OK
               : kvs_cpu_provider()->alloc(host_device, n_bytes, &group->sum);
}

static void give_memory_back(dist_group_t *group)
{
    dist_key_t *key = group->pub->key->state;

    group->op->worker->n_waiting_bytes -= group->counted ? group->n_sum_bytes : 0;
    group->counted = false;
    if (group->sum == NULL) {
        return;
    }
    if (key->spare == NULL && group->op->worker->failure == KVS_OK) {
        key->spare = group->sum;
        key->n_spare_bytes = group->n_sum_bytes;
    } else {
        kvs_cpu_provider()->free(host_device, group->sum, group->n_sum_bytes);
    }
    group->sum = NULL;
}

kvs_status_t dist_group_sum(const kvs_group_t *pub, void *sum)
{
    const void **sources = malloc(pub->n_values * sizeof(*sources));
    kvs_status_t status;

    if (sources == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for a list of %zu arrays", pub->n_values);
    }
    for (size_t i = 0; i < pub->n_values; i++) {
        sources[i] = pub->values[i].data;
    }
    status = kvs_cpu_provider()->sum(kvs_dtype_index(pub->key->dtype), pub->key->n_elems, sources,
                                     pub->n_values, &sum, 1);
    free(sources);
    return status;
}

/* One array for each key leaves this process. */
static kvs_status_t sum_values(dist_group_t *group)
{
    kvs_status_t status = dist_group_take_memory(group, bytes_of(group->pub));

    group->source = group->sum;
    return status == KVS_OK ? dist_group_sum(group->pub, group->sum) : status;
}

/* What the group sends, if it sends anything. */
static kvs_status_t read_values(dist_group_t *group)
{
    const kvs_op_t *op = group->op->pub;
    const kvs_group_t *pub = group->pub;

    if (op->verb == KVS_VERB_ROW_SPARSE_PULL) {
        return dist_sparse_read_ids(group, (op->flags & KVS_OP_SHARED) != 0);
    }
    if (op->verb == KVS_VERB_PULL || (is_init(op) && group->op->worker->rank != 0)) {
        return KVS_OK;
    }
    if (pub->values[0].rows != NULL) {
        return dist_sparse_read_values(group, is_init(op) || (op->flags & KVS_OP_SHARED) != 0);
    }
    if (pub->key->n_elems == 0) {
        return KVS_OK;
    }
    if (!is_init(op) && group->op->worker->compression != NULL) {
        return dist_pack_values(group);
    }
    if (pub->n_values > 1 || (op->flags & KVS_OP_SHARED) != 0) {
        return sum_values(group);
    }
    group->source = pub->values[0].data;
    group->reads = true;
    return KVS_OK;
}

/* ---- Telling the core ------------------------------------------------------------------------------ */

static void list_to_settle(dist_op_t *op)
{
    if (!op->listed && !op->issuing) {
        op->listed = true;
        op->next = op->worker->to_settle;
        op->worker->to_settle = op;
    }
}

static void complete(dist_op_t *op)
{
    dist_worker_t *worker = op->worker;
    kvs_op_t *pub = op->pub;
    kvs_status_t status;

    if (op->status == KVS_OK && (pub->flags & KVS_OP_SHARED) != 0) {
        dist_op_write_shared_outs(op);
    } else if (op->status == KVS_OK && pub->verb == KVS_VERB_ROW_SPARSE_PULL) {
        dist_op_write_row_ids(op);
    }
    dist_op_release_results(op);
    status = op->status;
    if (status != KVS_OK) {
        (void)kvs_fail(status, "%s: %s", verb_name(pub->verb),
                       op->text == NULL ? "no memory" : op->text);
    }
    for (size_t i = 0; i < pub->n_groups; i++) {
        dist_group_t *group = pub->groups[i].state;

        free(group->refusal);
        dist_sparse_release(group);
    }
    free(op->text);
    free(op);
    pthread_mutex_lock(&worker->lock);
    if (--worker->n_ops == 0) {
        pthread_cond_broadcast(&worker->changed);
    }
    pthread_mutex_unlock(&worker->lock);
    kvs_devhost_complete(pub, status);
}

/* Only the thread that runs the operation's verb, while it does, or the I/O thread comes here: so
 * nobody ends the operation between the two calls. A failure is told by complete alone, so that the
 * call that waits for its values to be read has it. */
static void settle(dist_op_t *op, bool read, bool ended)
{
    if (read && !(ended && op->status != KVS_OK)) {
        kvs_devhost_consumed(op->pub);
    }
    if (ended) {
        complete(op);
    }
}

/* What is to be told of the op now. Lock held. */
static void look(dist_op_t *op, bool *ret_read, bool *ret_ended)
{
    *ret_ended = op->n_left == 0;
    *ret_read = !op->consumed && ((op->n_reading == 0 && !op->till_end) || *ret_ended);
    op->consumed |= *ret_read;
}

void dist_worker_settle(dist_worker_t *worker)
{
    while (worker->to_settle != NULL) {
        dist_op_t *op = worker->to_settle;
        bool read, ended;

        worker->to_settle = op->next;
        op->listed = false;
        look(op, &read, &ended);
        pthread_mutex_unlock(&worker->lock);
        settle(op, read, ended);
        pthread_mutex_lock(&worker->lock);
    }
    pthread_mutex_unlock(&worker->lock);
}

/* The verb is done with the op; so far the I/O thread has left the telling to it. Releases the lock. */
static void end_issuing(dist_op_t *op)
{
    dist_worker_t *worker = op->worker;
    bool read, ended;

    look(op, &read, &ended);
    if (read && !ended) {
        pthread_mutex_unlock(&worker->lock);
        kvs_devhost_consumed(op->pub);
        pthread_mutex_lock(&worker->lock);
        read = false;
        ended = op->n_left == 0;
    }
    op->issuing = false;
    pthread_mutex_unlock(&worker->lock);
    if (ended) {
        settle(op, read, true);
    }
}

/* ---- Groups, one after the other on each key -------------------------------------------------------- */

void dist_group_fail(dist_group_t *group, kvs_status_t status, const char *text)
{
    dist_op_t *op = group->op;

    if (op->status == KVS_OK || group->pub->list_index < op->first_error) {
        free(op->text);
        op->text = strdup(text);
        op->status = status;
        op->first_error = group->pub->list_index;
    }
    group->failed = true;
}

void dist_group_has_read(dist_group_t *group)
{
    if (group->reads) {
        group->reads = false;
        if (--group->op->n_reading == 0) {
            list_to_settle(group->op);
        }
    }
    give_memory_back(group);
}

static void advance(dist_key_t *key);

static void release_requests(dist_group_t *group)
{
    for (uint32_t i = 0; i < group->n_requests && group->requests != NULL; i++) {
        free(group->requests[i].body);
    }
    if (group->requests != &group->one) {
        free(group->requests);
    }
    group->requests = NULL;
}

/* The group is done; what waits behind it may have its turn. */
static void finish_group(dist_group_t *group)
{
    dist_key_t *key = group->pub->key->state;

    dist_group_has_read(group);
    release_requests(group);
    if (--group->op->n_left == 0) {
        list_to_settle(group->op);
    }
    advance(key);
}

/* Requests of `kind` to the servers of the key's shards, or, with `directory`, to server 0. */
static bool make_requests(dist_group_t *group, uint8_t kind, bool directory)
{
    const dist_key_t *key = group->pub->key->state;
    uint32_t n = directory ? 1 : key->record.n_shards;

    release_requests(group);
    group->requests = n == 1 ? &group->one : calloc(n, sizeof(*group->requests));
    if (group->requests == NULL) {
        dist_group_fail(group, KVS_ERR_NO_MEMORY, "no memory for the requests to the servers");
        return false;
    }
    group->n_requests = group->n_left = n;
    for (uint32_t i = 0; i < n; i++) {
        dist_request_t *request = &group->requests[i];

        *request = (dist_request_t){.group = group, .worker = group->op->worker, .kind = kind};
        if (!directory) {
            request->server = key->record.shards[i].server;
            request->first = key->record.shards[i].first;
            request->n = key->record.shards[i].n;
        }
    }
    return group->rows == NULL || directory || dist_sparse_split(group);
}

/* The last one may end the group. */
static void start_requests(dist_group_t *group)
{
    uint32_t n = group->n_requests;

    for (uint32_t i = 0; i < n; i++) {
        dist_request_start(&group->requests[i]);
    }
}

static void ask(dist_group_t *group, uint8_t kind, bool directory)
{
    if (make_requests(group, kind, directory) && group->n_requests > 0) {
        start_requests(group);
    } else {
        dist_group_ended(group);
    }
}

static void exchange(dist_group_t *group)
{
    dist_key_t *key = group->pub->key->state;
    uint8_t kind = group->refused != KVS_OK                              ? DIST_REFUSAL
                   : group->verb == KVS_VERB_ROW_SPARSE_PULL             ? DIST_PULL_ROWS
                   : group->verb == KVS_VERB_PUSH && group->rows != NULL ? DIST_PUSH_ROWS
                   : group->verb == KVS_VERB_PUSH                        ? DIST_PUSH
                   : group->verb == KVS_VERB_PULL                        ? DIST_PULL
                                                                         : DIST_PUSHPULL;
    bool made = make_requests(group, kind, false);

    group->phase = DIST_PHASE_EXCHANGE;
    if (is_push(group->verb)) {
        key->n_pushes++;
        key->n_rounds += made;
    }
    group->round = key->n_rounds;
    if (made && group->n_requests > 0) {
        start_requests(group);
    } else {
        dist_group_ended(group);
    }
}

static void start(dist_group_t *group)
{
    switch ((dist_phase_t)group->phase) {
    case DIST_PHASE_DEFINE:
        ask(group, DIST_DEFINE, false);
        break;
    case DIST_PHASE_PUBLISH:
        ask(group, DIST_PUBLISH, true);
        break;
    case DIST_PHASE_LOOKUP:
        ask(group, DIST_LOOKUP, true);
        break;
    case DIST_PHASE_EXCHANGE:
        exchange(group);
        break;
    }
}

/* An init or broadcast goes on to its next phase, or ends. */
static void end_phase(dist_group_t *group)
{
    dist_key_t *key = group->pub->key->state;

    if (group->failed) {
        key->state = DIST_KEY_NEW;
        if (group->phase != DIST_PHASE_LOOKUP && group->op->worker->failure == KVS_OK) {
            dist_requests_undo(group);
        }
    } else if (group->phase == DIST_PHASE_DEFINE) {
        group->phase = DIST_PHASE_PUBLISH;
        start(group);
        return;
    } else {
        key->state = DIST_KEY_READY;
        if (group->verb == KVS_VERB_PULL) { /* a broadcast */
            exchange(group);
            return;
        }
    }
    key->current = NULL;
    finish_group(group);
}

void dist_group_ended(dist_group_t *group)
{
    dist_key_t *key = group->pub->key->state;

    if (group->phase != DIST_PHASE_EXCHANGE) {
        end_phase(group);
        return;
    }
    if (is_push(group->verb)) {
        key->n_pushes--;
    }
    if (key->current == group) {
        key->current = NULL;
    }
    finish_group(group);
}

/* Whether the first in the queue can begin. An init that has begun holds up those behind it. */
static bool may_start(const dist_key_t *key)
{
    const dist_group_t *group = key->first;

    if (group->phase != DIST_PHASE_EXCHANGE) {
        return true;
    }
    return key->current == NULL && !(is_push(group->verb) && key->n_pushes >= DIST_MAX_PUSHES);
}

static void start_or_fail(dist_group_t *group)
{
    dist_worker_t *worker = group->op->worker;
    dist_key_t *key = group->pub->key->state;

    if (worker->failure != KVS_OK) {
        dist_group_fail(group, worker->failure, worker->failure_text);
    } else if (group->phase == DIST_PHASE_EXCHANGE && key->state == DIST_KEY_NEW) {
        char text[DIST_KEY_TEXT_BYTES + 64];

        snprintf(text, sizeof(text), "%s was never initialised: its init failed",
                 DIST_KEY_TEXT(&key->record));
        dist_group_fail(group, KVS_ERR_NOT_FOUND, text);
    } else {
        if (group->phase != DIST_PHASE_EXCHANGE) {
            key->current = group;
        }
        start(group);
        return;
    }
    if (group->phase != DIST_PHASE_EXCHANGE) {
        key->state = DIST_KEY_NEW;
    }
    finish_group(group);
}

/* Begin what may begin. Not recursive, however many end at once. */
static void advance(dist_key_t *key)
{
    if (key->advancing) {
        return;
    }
    key->advancing = true;
    while (key->first != NULL && may_start(key)) {
        dist_group_t *group = key->first;

        key->first = group->next;
        start_or_fail(group);
    }
    key->advancing = false;
}

/* What is before it on its key has to go first, and so is as urgent. */
static void raise_those_before(const dist_group_t *group)
{
    dist_key_t *key = group->pub->key->state;

    for (dist_group_t *before = key->first; before != NULL; before = before->next) {
        before->priority = before->priority < group->priority ? group->priority : before->priority;
    }
    dist_requests_raise(group->op->worker, key, group->priority);
}

static void enqueue(dist_group_t *group)
{
    dist_key_t *key = group->pub->key->state;

    raise_those_before(group);
    if (key->first == NULL) {
        key->first = group;
    } else {
        key->last->next = group;
    }
    key->last = group;
    advance(key);
}

/* ---- The verbs --------------------------------------------------------------------------------------- */

static dist_op_t *new_op(dist_worker_t *worker, kvs_op_t *pub)
{
    dist_op_t *op = calloc(1, sizeof(*op));

    if (op == NULL) {
        return NULL;
    }
    op->pub = pub;
    op->worker = worker;
    op->n_left = pub->n_groups;
    op->issuing = true;
    /* whether the servers have an optimizer is theirs to say: the call that pushes is to hear it */
    op->till_end = worker->is_async && worker->n_optimizers == 0;
    for (size_t i = 0; i < pub->n_groups; i++) {
        dist_group_t *group = pub->groups[i].state;

        group->op = op;
        group->pub = &pub->groups[i];
        group->priority = pub->priority;
        group->verb = pub->verb == KVS_VERB_BROADCAST ? KVS_VERB_PULL : (uint8_t)pub->verb;
        group->phase = !is_init(pub)       ? DIST_PHASE_EXCHANGE
                       : worker->rank == 0 ? DIST_PHASE_DEFINE
                                           : DIST_PHASE_LOOKUP;
    }
    return op;
}

static void drop_op(dist_op_t *op)
{
    pthread_mutex_lock(&op->worker->lock);
    for (size_t i = 0; i < op->pub->n_groups; i++) {
        give_memory_back(op->pub->groups[i].state);
    }
    pthread_mutex_unlock(&op->worker->lock);
    for (size_t i = 0; i < op->pub->n_groups; i++) {
        dist_group_t *group = op->pub->groups[i].state;

        free(group->refusal);
        dist_sparse_release(group);
    }
    dist_op_release_results(op);
    free(op->text);
    free(op);
}

static kvs_status_t read_all(dist_op_t *op)
{
    bool shared = (op->pub->flags & KVS_OP_SHARED) != 0;
    kvs_status_t status = KVS_OK;

    for (size_t i = 0; i < op->pub->n_groups && status == KVS_OK; i++) {
        dist_group_t *group = op->pub->groups[i].state;

        status = read_values(group);
        op->n_reading += group->reads;
        if (status == KVS_OK && shared && group->pub->n_outs > 0 && group->rows == NULL) {
            group->n_result_bytes = bytes_of(group->pub);
            status = kvs_cpu_provider()->alloc(host_device, group->n_result_bytes,
                                               (void **)&group->result);
        }
    }
    return status;
}

/* Rank 0 decides where the keys go. */
static kvs_status_t place(dist_worker_t *worker, dist_record_t *records, size_t n)
{
    dist_placing_t placing = {
        .n_servers = (uint32_t)worker->n_servers,
        .loads = worker->loads,
        .cut_elems = worker->cut_elems,
        .whole_rows = worker->opt != NULL && kvs_opt_has_rows(worker->opt) != 0,
        .whole_blocks = worker->opt != NULL && kvs_opt_n_phases(worker->opt) > 0};
    dist_record_t **list = calloc(n + 1, sizeof(dist_record_t *));
    kvs_status_t status;

    if (list == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory to place %zu keys", n);
    }
    for (size_t i = 0; i < n; i++) {
        list[i] = &records[i];
        records[i].id = ++worker->last_id;
    }
    status = dist_place(&placing, list, n);
    free(list);
    return status;
}

/* The keys get their records; on failure none does. */
static kvs_status_t begin_keys(dist_op_t *op)
{
    dist_worker_t *worker = op->worker;
    size_t n = op->pub->n_groups;
    dist_record_t *records = calloc(n + 1, sizeof(*records));
    kvs_status_t status =
        records == NULL ? kvs_fail(KVS_ERR_NO_MEMORY, "no memory for %zu keys", n) : KVS_OK;

    for (size_t i = 0; i < n && status == KVS_OK; i++) {
        status = dist_record_of(op->pub->groups[i].key, &records[i]);
    }
    if (status == KVS_OK && worker->rank == 0) {
        status = place(worker, records, n);
    }
    pthread_mutex_lock(&worker->lock);
    for (size_t i = 0; i < n && status == KVS_OK; i++) {
        dist_key_t *key = op->pub->groups[i].key->state;

        renew_key(worker, key, records[i]);
        key->host.entry = op->pub->groups[i].key;
        key->generation = dist_worker_generation(worker, &records[i]);
    }
    pthread_mutex_unlock(&worker->lock);
    for (size_t i = 0; i < n && records != NULL && status != KVS_OK; i++) {
        dist_record_release(&records[i]);
    }
    free(records);
    return status;
}

kvs_status_t dist_worker_run(dist_worker_t *worker, kvs_op_t *pub)
{
    dist_op_t *op = new_op(worker, pub);
    kvs_status_t status;

    if (op == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "%s: no memory", verb_name(pub->verb));
    }
    status = worker->compression != NULL ? kvs_devhost_await(pub) : KVS_OK;
    status = status == KVS_OK ? read_all(op) : status;
    if (status == KVS_OK && is_init(pub)) {
        status = begin_keys(op);
    }
    if (status != KVS_OK) {
        drop_op(op);
        return kvs_fail_context(status, "%s", verb_name(pub->verb));
    }
    pub->backend = op;
    pthread_mutex_lock(&worker->lock);
    worker->last_order = pub->sequence;
    worker->n_ops++;
    dist_requests_hold(worker);
    for (size_t i = 0; i < pub->n_groups; i++) {
        enqueue(pub->groups[i].state);
    }
    if (pub->verb == KVS_VERB_PUSH && !op->till_end) {
        dist_requests_let_go_soon(worker);
    } else {
        dist_requests_let_go(worker);
    }
    end_issuing(op);
    return KVS_OK;
}

/* Each operation ends at its own deadline; so do all, but in a row they may take longer. */
kvs_status_t dist_worker_drain(dist_worker_t *worker)
{
    struct timespec deadline = kvs_time_after(2 * dist_patience_ms(worker->timeout_ms));
    kvs_status_t status = KVS_OK;
    int waited = 0;

    pthread_mutex_lock(&worker->lock);
    while (worker->n_ops > 0 && waited != ETIMEDOUT && !worker->cancelled) {
        waited = worker->timeout_ms == 0
                     ? pthread_cond_wait(&worker->changed, &worker->lock)
                     : pthread_cond_timedwait(&worker->changed, &worker->lock, &deadline);
    }
    if (worker->n_ops > 0) {
        status =
            kvs_fail(KVS_ERR_TIMEOUT, "%zu operations before it have not ended", worker->n_ops);
    }
    pthread_mutex_unlock(&worker->lock);
    return status;
}

/* ---- What happens to the job --------------------------------------------------------------------------- */

static void set_text(char **text, const char *to)
{
    char *copy = strdup(to);

    free(*text);
    *text = copy;
}

/* Groups that have not begun; those that have fail with their requests. */
static void fail_waiting(dist_worker_t *worker)
{
    for (dist_key_t *key = worker->keys; key != NULL; key = key->next) {
        advance(key);
    }
}

/* Fail what waits for its turn on the key; gives how many. */
static size_t fail_queue(dist_key_t *key, kvs_status_t status, const char *text)
{
    size_t n = 0;

    for (dist_group_t *group = key->first; group != NULL; n++) {
        dist_group_t *next = group->next;

        key->first = next;
        dist_group_fail(group, status, text);
        key->advancing = true; /* all fail */
        finish_group(group);
        key->advancing = false;
        group = next;
    }
    return n;
}

static dist_key_t *find_key(dist_worker_t *worker, uint64_t id)
{
    dist_key_t *key = worker->keys;

    while (key != NULL && !(key->record.id == id && key->state == DIST_KEY_READY)) {
        key = key->next;
    }
    return key;
}

/* An error of another rank: told to what uses the key now, else to its next use. */
static void tell_key(dist_worker_t *worker, uint64_t id, kvs_status_t status, const char *text)
{
    dist_key_t *key = find_key(worker, id);

    if (key == NULL || key->told != KVS_OK) {
        return;
    }
    if (fail_queue(key, status, text) + dist_requests_fail_key(worker, key, status, text) == 0) {
        key->told = status;
        set_text(&key->told_text, text);
    }
}

void dist_worker_tell(dist_worker_t *worker, uint64_t key, kvs_status_t status, const char *text)
{
    if (status == KVS_OK) { /* no error, but worth knowing */
        kvs_log(KVS_LOG_WARN, "dist", "%s", text);
        return;
    }
    pthread_mutex_lock(&worker->lock);
    if (key != 0) {
        tell_key(worker, key, status, text);
    } else if (worker->told == KVS_OK) {
        worker->told = status;
        set_text(&worker->told_text, text);
    }
    dist_worker_settle(worker);
}

static void fail_all(dist_worker_t *worker, kvs_status_t status, const char *text)
{
    if (worker->failure == KVS_OK) {
        worker->failure = status;
        set_text(&worker->failure_text, text);
        dist_requests_fail(worker, -1, status, text);
        fail_waiting(worker);
    }
}

void dist_worker_fail(dist_worker_t *worker, kvs_status_t status, const char *text)
{
    pthread_mutex_lock(&worker->lock);
    fail_all(worker, status, text);
    dist_worker_settle(worker);
}

/* Workers that leave in good order are missed by rounds only, and servers see to that. */
void dist_worker_lose(dist_worker_t *worker, const kvs_net_peer_t *peer, const char *text)
{
    if (peer->role == KVS_NET_SERVER) { /* and its keys are gone */
        pthread_mutex_lock(&worker->lock);
        dist_requests_fail(worker, peer->rank, KVS_ERR_PEER, text);
        dist_worker_settle(worker);
    }
}

void dist_worker_cancel(dist_worker_t *worker)
{
    worker->cancelled = true;
    kvs_net_store_cancel(worker->net);
}

void dist_worker_tick(dist_worker_t *worker)
{
    pthread_mutex_lock(&worker->lock);
    if (worker->cancelled) {
        pthread_cond_broadcast(&worker->changed);
        fail_all(worker, KVS_ERR_CANCELLED, "the store was cancelled");
    }
    dist_requests_expire(worker);
    dist_worker_settle(worker);
}
