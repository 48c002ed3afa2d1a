/* SPDX-License-Identifier: Apache-2.0 */
/* devhost.c - operations of device arrays for asynchronous backends that work in host memory. An operation
 * is queued on the calling thread; one thread waits for its values and gives the backend a copy of it that
 * is all in host memory; when that ends, outs are sent, and another thread waits for what is on its way.
 * While an operation waits for its values those behind it do too: the backend sees the order of issue. */
#include "devhost.h"

#include <signal.h>
#include <stdlib.h>

#define IS_STAGED (1u << 31) /* in kvs_op_t.flags: it is a kvs_devhost_op_t */

/* ---- Threads ----------------------------------------------------------------------------------------- */

static void lane_init(kvs_devhost_lane_t *lane, void (*deal)(kvs_devhost_op_t *op))
{
    pthread_mutex_init(&lane->lock, NULL);
    pthread_cond_init(&lane->changed, NULL);
    lane->deal = deal;
}

static void *lane_main(void *arg)
{
    kvs_devhost_lane_t *lane = arg;

    pthread_mutex_lock(&lane->lock);
    for (;;) {
        while (lane->first == NULL && !lane->stops) {
            pthread_cond_wait(&lane->changed, &lane->lock);
        }
        kvs_devhost_op_t *op = lane->first;

        if (op == NULL) {
            break;
        }
        lane->first = op->next;
        pthread_mutex_unlock(&lane->lock);
        lane->deal(op);
        pthread_mutex_lock(&lane->lock);
        __atomic_fetch_sub(&lane->n, 1, __ATOMIC_RELEASE);
        pthread_cond_broadcast(&lane->changed);
    }
    pthread_mutex_unlock(&lane->lock);
    return NULL;
}

/* Have the thread. */
static kvs_status_t lane_start(kvs_devhost_lane_t *lane)
{
    sigset_t all, old;
    int error = 0;

    pthread_mutex_lock(&lane->lock);
    if (!lane->is_running) {
        sigfillset(&all); /* signals are the program's */
        pthread_sigmask(SIG_SETMASK, &all, &old);
        error = pthread_create(&lane->thread, NULL, lane_main, lane);
        pthread_sigmask(SIG_SETMASK, &old, NULL);
        lane->is_running = error == 0;
    }
    pthread_mutex_unlock(&lane->lock);
    return error == 0
               ? KVS_OK
               : kvs_fail(KVS_ERR_NO_MEMORY, "no thread to wait for devices (error %d)", error);
}

static void lane_add(kvs_devhost_lane_t *lane, kvs_devhost_op_t *op)
{
    op->next = NULL;
    pthread_mutex_lock(&lane->lock);
    if (lane->first == NULL) {
        lane->first = op;
    } else {
        lane->last->next = op;
    }
    lane->last = op;
    __atomic_fetch_add(&lane->n, 1, __ATOMIC_RELAXED);
    pthread_cond_broadcast(&lane->changed);
    pthread_mutex_unlock(&lane->lock);
}

static void lane_drain(kvs_devhost_lane_t *lane)
{
    pthread_mutex_lock(&lane->lock);
    while (lane->n > 0) {
        pthread_cond_wait(&lane->changed, &lane->lock);
    }
    pthread_mutex_unlock(&lane->lock);
}

static void lane_release(kvs_devhost_lane_t *lane)
{
    pthread_mutex_lock(&lane->lock);
    lane->stops = 1;
    pthread_cond_broadcast(&lane->changed);
    pthread_mutex_unlock(&lane->lock);
    if (lane->is_running) {
        pthread_join(lane->thread, NULL);
    }
    pthread_cond_destroy(&lane->changed);
    pthread_mutex_destroy(&lane->lock);
}

/* ---- The way of an operation --------------------------------------------------------------------------- */

/* The core need no longer wait, or has been told; the memory goes when the queues are done with it. */
static void retire(kvs_devhost_op_t *op)
{
    if (op->n_queues > 0) {
        lane_add(&op->host->out, op);
    } else {
        kvs_devhost_op_free(op);
    }
}

static kvs_status_t run_staged(kvs_devhost_op_t *op)
{
    kvs_status_t status = op->provider != NULL ? kvs_devhost_wait_values(op) : KVS_OK;

    return status == KVS_OK ? op->host->run(op->host->store, &op->op) : status;
}

static void deal_in(kvs_devhost_op_t *op)
{
    kvs_op_t *real = op->real;
    kvs_status_t status = run_staged(op);

    if (status != KVS_OK) {
        op->real = NULL;
        retire(op);
        kvs_plugin_host->complete(real, status);
    }
}

static void deal_out(kvs_devhost_op_t *op)
{
    kvs_op_t *real = op->real;
    kvs_status_t status = kvs_devhost_wait_queues(op);

    kvs_devhost_op_free(op);
    if (real != NULL) {
        kvs_plugin_host->complete(real, status);
    }
}

void kvs_devhost_consumed(kvs_op_t *pub)
{
    const kvs_devhost_op_t *op = (const kvs_devhost_op_t *)pub;

    if ((pub->flags & IS_STAGED) == 0) {
        kvs_plugin_host->consumed(pub);
    } else if (!op->is_consumed) {
        kvs_plugin_host->consumed(op->real);
    }
}

void kvs_devhost_complete(kvs_op_t *pub, kvs_status_t status)
{
    kvs_devhost_op_t *op = (kvs_devhost_op_t *)pub;
    int is_awaited = 0;

    if ((pub->flags & IS_STAGED) == 0) {
        kvs_plugin_host->complete(pub, status);
        return;
    }
    kvs_op_t *real = op->real;

    if (status == KVS_OK && op->provider != NULL) {
        status = kvs_devhost_send_outs(op, &is_awaited);
    }
    if (status == KVS_OK && is_awaited) {
        lane_add(&op->host->out, op);
        return;
    }
    op->real = NULL;
    retire(op);
    kvs_plugin_host->complete(real, status);
}

/* ---- Calls --------------------------------------------------------------------------------------------- */

kvs_status_t kvs_devhost_new(void *store, kvs_status_t (*run)(void *store, kvs_op_t *op),
                             kvs_devhost_t **ret_host)
{
    kvs_devhost_t *host = calloc(1, sizeof(*host));

    if (host == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for the store");
    }
    host->store = store;
    host->run = run;
    pthread_mutex_init(&host->lock, NULL);
    lane_init(&host->in, deal_in);
    lane_init(&host->out, deal_out);
    *ret_host = host;
    return KVS_OK;
}

void kvs_devhost_free(kvs_devhost_t *host)
{
    const kvs_provider_t *provider;

    if (host == NULL) {
        return;
    }
    lane_release(&host->in);
    lane_release(&host->out);
    while (host->spare != NULL) {
        kvs_devhost_buffer_t *buffer = host->spare;

        host->spare = buffer->next;
        if (kvs_dev_provider(&provider) == KVS_OK) {
            provider->free((kvs_device_t){KVS_DEVICE_CUDA_HOST, 0}, buffer->data, buffer->n_bytes);
        }
        free(buffer);
    }
    pthread_mutex_destroy(&host->lock);
    free(host);
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

static kvs_status_t begin(kvs_devhost_t *host, kvs_op_t *real, int is_on_devices)
{
    kvs_devhost_op_t *op = calloc(1, sizeof(*op));
    int is_init = real->verb == KVS_VERB_INIT || real->verb == KVS_VERB_BROADCAST;
    kvs_status_t status;

    if (op == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for an operation");
    }
    op->op = *real;
    op->op.flags = (real->flags | IS_STAGED) & ~(uint32_t)KVS_OP_WAITS;
    op->host = host;
    op->real = real;
    status = lane_start(&host->in);
    status = status == KVS_OK ? lane_start(&host->out) : status;
    if (status == KVS_OK && is_on_devices) {
        status = kvs_devhost_stage(op);
        status = status == KVS_OK ? KVS_OK : kvs_fail_context(status, "%s", verb_name(real->verb));
    }
    if (status == KVS_OK && !is_init) {
        op->is_consumed = is_on_devices && kvs_devhost_streams_guard_values(real);
        if (op->is_consumed) {
            kvs_plugin_host->consumed(real);
        }
        lane_add(&host->in, op);
        return KVS_OK;
    }
    if (status == KVS_OK) { /* what follows may count on the keys it makes */
        lane_drain(&host->in);
        status = run_staged(op);
    }
    if (status != KVS_OK) {
        op->real = NULL;
        if (op->n_queues > 0) {
            (void)kvs_devhost_mark_queues(op);
        }
        retire(op);
    }
    return status;
}

kvs_status_t kvs_devhost_run(kvs_devhost_t *host, kvs_op_t *op)
{
    int is_on_devices = kvs_devhost_has_device_arrays(op);

    if (!is_on_devices && __atomic_load_n(&host->in.n, __ATOMIC_ACQUIRE) == 0) {
        return host->run(host->store, op);
    }
    return begin(host, op, is_on_devices);
}

/* The shadow of a call has no operation of the core behind it when it is retired. */
static kvs_status_t call_staged(kvs_devhost_op_t *op, const char *what,
                                kvs_status_t (*call)(void *arg, const kvs_tensor_t *value,
                                                     const kvs_tensor_t *out),
                                void *arg)
{
    int is_awaited = 0;
    kvs_status_t status = kvs_devhost_stage(op);

    if (status != KVS_OK) {
        return kvs_fail_context(status, "%s", what);
    }
    status = kvs_devhost_wait_values(op);
    status = status == KVS_OK ? call(arg, op->groups[0].values, op->groups[0].outs) : status;
    status = status == KVS_OK ? kvs_devhost_send_outs(op, &is_awaited) : status;
    return status == KVS_OK && is_awaited ? kvs_devhost_wait_queues(op) : status;
}

kvs_status_t kvs_devhost_call(
    kvs_devhost_t *host, const char *what, const kvs_tensor_t *value, const kvs_tensor_t *out,
    kvs_status_t (*call)(void *arg, const kvs_tensor_t *value, const kvs_tensor_t *out), void *arg)
{
    kvs_group_t group = {.values = value, .n_values = 1, .outs = out, .n_outs = 1};
    kvs_op_t real = {
        .size = sizeof(real), .verb = KVS_VERB_PUSHPULL, .groups = &group, .n_groups = 1};
    kvs_devhost_op_t *op;
    kvs_status_t status;

    kvs_devhost_drain(host);
    if (!kvs_devhost_has_device_arrays(&real)) {
        return call(arg, value, out);
    }
    op = calloc(1, sizeof(*op));
    if (op == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for an operation");
    }
    *op = (kvs_devhost_op_t){.op = real, .host = host, .real = &real};
    status = lane_start(&host->out);
    status = status == KVS_OK ? call_staged(op, what, call, arg) : status;
    op->real = NULL;
    if (status != KVS_OK && op->n_queues > 0) {
        (void)kvs_devhost_mark_queues(op);
    }
    retire(op);
    return status;
}

void kvs_devhost_drain(kvs_devhost_t *host)
{
    if (host != NULL && __atomic_load_n(&host->in.n, __ATOMIC_ACQUIRE) > 0) {
        lane_drain(&host->in);
    }
}
