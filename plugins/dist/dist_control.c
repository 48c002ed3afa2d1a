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

kvs_status_t dist_worker_ask(dist_worker_t *worker, dist_ask_t *what)
{
    dist_call_t call = {
        .request = {.worker = worker, .kind = what->header.kind, .server = what->server},
        .ask = what};
    kvs_status_t status;

    call.request.call = &call;
    pthread_mutex_lock(&worker->lock);
    if (worker->failure != KVS_OK) {
        status = kvs_fail(worker->failure, "%s", worker->failure_text);
        pthread_mutex_unlock(&worker->lock);
        return status;
    }
    dist_request_start(&call.request);
    while (!call.done) { /* ended by an answer, a failure, or the tick at the deadline */
        pthread_cond_wait(&worker->changed, &worker->lock);
    }
    dist_request_withdraw(&call.request);
    pthread_mutex_unlock(&worker->lock);
    status = call.status == KVS_OK
                 ? KVS_OK
                 : kvs_fail(call.status, "%s", call.text == NULL ? "no memory" : call.text);
    free(call.text);
    return status;
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
static kvs_status_t send_attr(dist_worker_t *worker, const kvs_param_t *attr)
{
    kvs_optimizer_spec_t spec = KVS_OPTIMIZER_INIT;
    dist_bytes_t body = DIST_BYTES_INIT;
    kvs_status_t status = dist_worker_drain(worker);

    spec.name = "attribute";
    spec.params = attr;
    spec.n_params = 1;
    if (status == KVS_OK) {
        status = dist_spec_encode(&spec, &body);
    }
    for (int s = 0; s < worker->n_servers && status == KVS_OK; s++) {
        status = ask(worker, (uint32_t)s, DIST_ATTR, worker->n_optimizers, &body);
    }
    dist_bytes_release(&body);
    return status == KVS_OK ? KVS_OK : kvs_fail_context(status, "set_optimizer_attr");
}

kvs_status_t dist_worker_set_optimizer_attr(dist_worker_t *worker, const kvs_param_t *attr)
{
    kvs_status_t status;

    if (worker->opt == NULL) {
        return kvs_fail(KVS_ERR_STATE,
                        "set_optimizer_attr: the store has no optimizer; call set_optimizer first");
    }
    status = kvs_opt_set_attr(worker->opt, attr);
    return status == KVS_OK && worker->is_async ? send_attr(worker, attr) : status;
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

    net.store = worker->number;
    net.header = bytes;
    net.n_header_bytes = dist_header_encode(&header, bytes);
    for (int s = 0; s < worker->n_servers; s++) {
        /* A server that can't be told will see this node leave. */
        (void)kvs_net_send(worker->node, kvs_net_node_peer(worker->node, KVS_NET_SERVER, s), &net);
    }
}
