/* SPDX-License-Identifier: Apache-2.0 */
/* dist_control.c - calls of a worker that wait for servers or for all workers: optimizers, commands,
 * barriers. They wait on the caller's thread, with the store's deadline. */
#include "dist_worker.h"

#include "dist_spec.h"

#include <stdlib.h>
#include <string.h>

/* ---- Asking one server ------------------------------------------------------------------------------- */

void dist_call_ended(dist_call_t *call, kvs_status_t status, const char *text)
{
    call->done = true;
    call->status = status;
    call->text = status == KVS_OK ? NULL : strdup(text);
    pthread_cond_broadcast(&call->request.worker->changed);
}

/* Until all have ended: by an answer, a failure, or the tick at the deadline. */
static bool all_are_done(const dist_call_t *calls, size_t n)
{
    size_t i = 0;

    while (i < n && calls[i].done) {
        i++;
    }
    return i == n;
}

static kvs_status_t ask_locked(dist_worker_t *worker, dist_call_t *calls, size_t n)
{
    if (worker->failure != KVS_OK) {
        return kvs_fail(worker->failure, "%s", worker->failure_text);
    }
    for (size_t i = 0; i < n; i++) {
        dist_request_start(&calls[i].request);
    }
    while (!all_are_done(calls, n) && !worker->cancelled) {
        pthread_cond_wait(&worker->changed, &worker->lock);
    }
    for (size_t i = 0; i < n; i++) {
        if (!calls[i].done) {
            dist_call_ended(&calls[i], KVS_ERR_CANCELLED, "the store was cancelled");
        }
        dist_request_withdraw(&calls[i].request);
    }
    return KVS_OK;
}

kvs_status_t dist_worker_ask_all(dist_worker_t *worker, dist_ask_t *asks, size_t n)
{
    dist_call_t *calls = calloc(n, sizeof(*calls));
    kvs_status_t status;

    if (calls == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory to ask %zu servers", n);
    }
    for (size_t i = 0; i < n; i++) {
        calls[i] = (dist_call_t){.request = {.call = &calls[i],
                                             .worker = worker,
                                             .kind = asks[i].header.kind,
                                             .server = asks[i].server},
                                 .ask = &asks[i]};
    }
    pthread_mutex_lock(&worker->lock);
    status = ask_locked(worker, calls, n);
    pthread_mutex_unlock(&worker->lock);
    for (size_t i = 0; i < n; i++) {
        if (status == KVS_OK && calls[i].status != KVS_OK) {
            status = kvs_fail(calls[i].status, "%s",
                              calls[i].text == NULL ? "no memory" : calls[i].text);
        }
        free(calls[i].text);
    }
    free(calls);
    return status;
}

kvs_status_t dist_worker_ask(dist_worker_t *worker, dist_ask_t *what)
{
    return dist_worker_ask_all(worker, what, 1);
}

static kvs_status_t ask(dist_worker_t *worker, uint32_t server, uint8_t kind, int64_t number,
                        const dist_bytes_t *body)
{
    dist_ask_t what = {.server = server,
                       .header = {.kind = kind, .first = number},
                       .body = body->data,
                       .n_body = body->n};

    if (kind == DIST_OPTIMIZER || kind == DIST_ATTR) {
        what.header.optimizer = (uint32_t)number;
    }
    return dist_worker_ask(worker, &what);
}

/* ---- Optimizers --------------------------------------------------------------------------------------- */

/* A new optimizer starts from nothing. */
static void put_in_force(dist_worker_t *worker, kvs_opt_t *opt)
{
    pthread_mutex_lock(&worker->lock);
    for (dist_key_t *key = worker->keys; key != NULL; key = key->next) {
        key->host.opt.n_updates = 0;
    }
    pthread_mutex_unlock(&worker->lock);
    kvs_opt_free(worker->opt);
    worker->opt = opt;
    worker->n_optimizers++;
    worker->attrs = 0;
}

kvs_status_t dist_worker_set_optimizer(dist_worker_t *worker, const kvs_optimizer_spec_t *spec)
{
    dist_bytes_t body = DIST_BYTES_INIT;
    kvs_opt_t *opt = NULL;
    kvs_status_t status = kvs_opt_new(spec, &opt);

    if (status == KVS_OK) {
        status = dist_spec_encode(spec, &body);
    }
    /* Server 0 decides whether it is the others' too; the rest follow it. */
    for (int s = 0; s < worker->n_servers && status == KVS_OK; s++) {
        status = ask(worker, (uint32_t)s, DIST_OPTIMIZER, (int64_t)worker->n_optimizers + 1, &body);
    }
    dist_bytes_release(&body);
    if (status != KVS_OK) {
        kvs_opt_free(opt);
        return kvs_fail_context(status, "set_optimizer");
    }
    put_in_force(worker, opt);
    return KVS_OK;
}

/* Where servers compute rates, they are told, behind all pushes so far. */
static kvs_status_t send_attr(dist_worker_t *worker, const dist_bytes_t *attr)
{
    kvs_status_t status = dist_worker_drain(worker);

    for (int s = 0; s < worker->n_servers && status == KVS_OK; s++) {
        status = ask(worker, (uint32_t)s, DIST_ATTR, worker->n_optimizers, attr);
    }
    return status;
}

/* Elsewhere pushes carry what workers compute, and a digest by which servers see that they mean the same. */
static void note_attr(dist_worker_t *worker, const dist_bytes_t *attr)
{
    uint32_t digest = worker->attrs == 0 ? UINT32_C(2166136261) : worker->attrs; /* FNV-1a */

    for (size_t i = 0; i < attr->n; i++) {
        digest = (digest ^ attr->data[i]) * UINT32_C(16777619);
    }
    worker->attrs = digest == 0 ? 1 : digest;
}

kvs_status_t dist_worker_set_optimizer_attr(dist_worker_t *worker, const kvs_param_t *attr)
{
    kvs_optimizer_spec_t spec = KVS_OPTIMIZER_INIT;
    dist_bytes_t body = DIST_BYTES_INIT;
    kvs_status_t status;

    if (worker->opt == NULL) {
        return kvs_fail(KVS_ERR_STATE,
                        "set_optimizer_attr: the store has no optimizer; call set_optimizer first");
    }
    spec.name = "attribute";
    spec.params = attr;
    spec.n_params = 1;
    status = dist_spec_encode(&spec, &body);
    if (status == KVS_OK) {
        status = kvs_opt_set_attr(worker->opt, attr);
    }
    if (status == KVS_OK && worker->is_async) {
        status = send_attr(worker, &body);
        status = status == KVS_OK ? KVS_OK : kvs_fail_context(status, "set_optimizer_attr");
    } else if (status == KVS_OK) {
        note_attr(worker, &body);
    }
    dist_bytes_release(&body);
    return status;
}

/* ---- Gradient compression --------------------------------------------------------------------------- */

/* As data, in the form that optimizers have. */
static kvs_status_t encode_compression(const kvs_param_t *params, size_t n_params,
                                       dist_bytes_t *body)
{
    kvs_optimizer_spec_t spec = KVS_OPTIMIZER_INIT;

    spec.name = "gradient_compression";
    spec.params = params;
    spec.n_params = n_params;
    return dist_spec_encode(&spec, body);
}

kvs_status_t dist_worker_set_compression(dist_worker_t *worker, const kvs_param_t *params,
                                         size_t n_params)
{
    dist_bytes_t body = DIST_BYTES_INIT;
    kvs_compression_t *compression = NULL;
    kvs_status_t status = kvs_compression_new(params, n_params, &compression);

    if (status == KVS_OK && worker->n_codecs == DIST_MAX_CODECS) {
        status = kvs_fail(KVS_ERR_RANGE, "%d calls of one store are the most", DIST_MAX_CODECS);
    }
    if (status == KVS_OK) {
        status = encode_compression(params, n_params, &body);
    }
    for (int s = 0; s < worker->n_servers && status == KVS_OK; s++) {
        status = ask(worker, (uint32_t)s, DIST_COMPRESSION, worker->n_codecs + 1, &body);
    }
    dist_bytes_release(&body);
    if (status != KVS_OK) {
        kvs_compression_free(compression);
        return kvs_fail_context(status, "set_gradient_compression");
    }
    kvs_compression_free(worker->compression);
    worker->compression = compression;
    worker->n_codecs++;
    return KVS_OK;
}

/* ---- The rest ----------------------------------------------------------------------------------------- */

kvs_status_t dist_worker_barrier(dist_worker_t *worker)
{
    kvs_status_t status;

    pthread_mutex_lock(&worker->lock);
    status = worker->failure == KVS_OK
                 ? KVS_OK
                 : kvs_fail(worker->failure, "barrier: %s", worker->failure_text);
    pthread_mutex_unlock(&worker->lock);
    if (status == KVS_OK) {
        status = kvs_net_store_barrier(worker->net, dist_net_timeout(worker->timeout_ms));
        status = status == KVS_OK ? KVS_OK : kvs_fail_context(status, "barrier");
    }
    return status;
}

/* All servers at once: each waits for all workers. */
kvs_status_t dist_worker_join(dist_worker_t *worker, int *ret_last_rank)
{
    size_t n = (size_t)worker->n_servers;
    dist_ask_t *asks = calloc(n, sizeof(*asks));
    kvs_status_t status = asks == NULL
                              ? kvs_fail(KVS_ERR_NO_MEMORY, "no memory to ask %zu servers", n)
                              : dist_worker_drain(worker);

    for (size_t s = 0; s < n && status == KVS_OK; s++) {
        asks[s] = (dist_ask_t){.server = (uint32_t)s,
                               .header = {.kind = DIST_JOIN, .timeout_ms = worker->timeout_ms}};
    }
    if (status == KVS_OK) {
        status = dist_worker_ask_all(worker, asks, n);
    }
    if (status == KVS_OK) { /* in their order of arrival at server 0 */
        *ret_last_rank = (int)asks[0].answer.first;
    }
    free(asks);
    return status == KVS_OK ? KVS_OK : kvs_fail_context(status, "join");
}

/* From here on only a delete uses the key. Gives whether one has begun before. */
static bool begin_delete(dist_worker_t *worker, dist_key_t *key)
{
    bool again;

    pthread_mutex_lock(&worker->lock);
    again = key->state == DIST_KEY_GOING;
    key->state = DIST_KEY_GOING;
    pthread_mutex_unlock(&worker->lock);
    return again;
}

/* Shard by shard. What has failed half way is gone on with by the next try: a server that was asked, but was
 * not heard, may have forgotten its shard. */
static kvs_status_t delete_key(dist_worker_t *worker, dist_key_t *key)
{
    const dist_record_t *record = &key->record;
    bool again = begin_delete(worker, key);
    kvs_status_t status = KVS_OK;

    while (key->n_gone < record->n_shards && status == KVS_OK) {
        const dist_shard_t *shard = &record->shards[key->n_gone];
        dist_ask_t ask = {
            .server = shard->server,
            .header = {.kind = DIST_DELETE, .key = record->id, .digest = key->digest}};

        status = dist_worker_ask(worker, &ask);
        status = status == KVS_ERR_NOT_FOUND && again ? KVS_OK : status;
        key->n_gone += status == KVS_OK;
        if (status == KVS_OK && worker->rank == 0) { /* as dist_place counts them */
            worker->loads[ask.server] -= (uint64_t)shard->n * kvs_dtype_bytes(record->dtype);
        }
    }
    return status;
}

/* An init of this name looks for a later one. */
static kvs_status_t count_deletes(dist_worker_t *worker, const dist_key_t *key)
{
    return dist_map_set(&worker->deleted, dist_record_name_hash(&key->record) | 1,
                        (void *)(uintptr_t)(key->generation + 1));
}

kvs_status_t dist_worker_delete_keys(dist_worker_t *worker, kvs_key_entry_t *const *keys, size_t n)
{
    kvs_status_t status = KVS_OK;

    for (size_t i = 0; i < n && status == KVS_OK; i++) {
        dist_key_t *key = keys[i]->state;

        status = delete_key(worker, key);
        if (status == KVS_OK) {
            status = count_deletes(worker, key);
        }
        if (status != KVS_OK) {
            status = dist_name_key(status, keys[i]);
        }
    }
    return status;
}

int64_t dist_worker_generation(const dist_worker_t *worker, const dist_record_t *record)
{
    return (int64_t)(uintptr_t)dist_map_find(&worker->deleted, dist_record_name_hash(record) | 1);
}

kvs_status_t dist_worker_send_command(dist_worker_t *worker, int head, const void *body,
                                      size_t n_bytes)
{
    dist_bytes_t bytes = {.data = (uint8_t *)(uintptr_t)body, .n = n_bytes}; /* only read */
    kvs_status_t status =
        head < 0 ? kvs_fail(KVS_ERR_ARGUMENT, "head %d is negative", head) : KVS_OK;

    for (int s = 0; s < worker->n_servers && status == KVS_OK; s++) {
        status = ask(worker, (uint32_t)s, DIST_COMMAND, head, &bytes);
    }
    return status == KVS_OK ? KVS_OK : kvs_fail_context(status, "send_command_to_servers");
}

kvs_status_t dist_worker_num_dead_nodes(dist_worker_t *worker, const char *role, int64_t timeout_ms,
                                        int *ret_dead)
{
    int mask = strcmp(role, "worker") == 0   ? KVS_NET_WORKER
               : strcmp(role, "server") == 0 ? KVS_NET_SERVER
                                             : KVS_NET_SCHEDULER;

    return kvs_net_node_num_dead(worker->node, mask, timeout_ms,
                                 dist_net_timeout(worker->timeout_ms), ret_dead);
}

void dist_worker_say_closed(dist_worker_t *worker)
{
    dist_header_t header = {.kind = DIST_CLOSE};
    uint8_t bytes[DIST_MAX_HEADER_BYTES];
    kvs_net_send_t net = KVS_NET_SEND_INIT;

    net.flags = KVS_NET_URGENT;
    net.store = worker->number;
    net.header = bytes;
    net.n_header_bytes = dist_header_encode(&header, bytes);
    for (int s = 0; s < worker->n_servers; s++) {
        /* A server that can't be told will see this node leave. */
        (void)kvs_net_send(worker->node, kvs_net_node_peer(worker->node, KVS_NET_SERVER, s), &net);
    }
}
