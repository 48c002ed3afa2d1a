/* SPDX-License-Identifier: Apache-2.0 */
/* devhost.c - operations of device arrays for asynchronous backends that work in host memory. An operation
 * is queued on the calling thread and gets copies of its arrays in host memory; one thread hands these to
 * the backend in order of issue, once its values are there or, if the backend asks for what has arrived, at
 * once; another waits for the devices. */
#include "devhost.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define IS_STAGED (1u << 31) /* in kvs_op_t.flags: it is a kvs_devhost_op_t */

int kvs_devhost_is_staged(const kvs_op_t *op)
{
    return (op->flags & IS_STAGED) != 0;
}

/* ---- The thread ---------------------------------------------------------------------------------------- */

static void deal(kvs_devhost_op_t *op);

static void lane_init(kvs_devhost_lane_t *lane)
{
    pthread_mutex_init(&lane->lock, NULL);
    pthread_cond_init(&lane->changed, NULL);
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
        deal(op);
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
    return error == 0 ? KVS_OK
                      : kvs_fail(KVS_ERR_NO_MEMORY,
                                 "no thread for operations of devices (error %d)", error);
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

/* ---- The life of an operation -------------------------------------------------------------------------- */

/* With one reference: that of who ends it. */
static kvs_devhost_op_t *new_op(kvs_devhost_t *host, kvs_op_t *real)
{
    kvs_devhost_op_t *op = calloc(1, sizeof(*op));

    if (op != NULL) {
        op->op = *real;
        op->op.flags = (real->flags | IS_STAGED) & ~(uint32_t)KVS_OP_WAITS;
        op->host = host;
        op->real = real;
        op->n_refs = 1;
    }
    return op;
}

static void free_op(kvs_devhost_op_t *op)
{
    kvs_devhost_give_back(op);
    free(op->groups);
    free(op->arrived);
    free(op->packed);
    free(op->tensors);
    free(op->streams);
    free(op->queues);
    free(op->pieces);
    free(op->watches);
    free(op->outs);
    free(op->first_out);
    free(op->out_index);
    free(op->text);
    free(op);
}

void kvs_devhost_drop(kvs_devhost_op_t *op)
{
    int is_last;

    pthread_mutex_lock(&op->host->lock);
    is_last = --op->n_refs == 0;
    pthread_mutex_unlock(&op->host->lock);
    if (is_last) {
        free_op(op);
    }
}

void kvs_devhost_drop_and_tell(kvs_devhost_op_t *op, kvs_op_t *real, kvs_status_t status)
{
    char *text = status != KVS_OK ? strdup(kvs_plugin_host->last_error()) : NULL;

    kvs_devhost_drop(op);
    if (status != KVS_OK) {
        (void)kvs_fail(status, "%s", text == NULL ? "no memory" : text);
    }
    free(text);
    kvs_plugin_host->complete(real, status);
}

static kvs_op_t *take_real(kvs_devhost_op_t *op)
{
    kvs_op_t *real = op->real;

    pthread_mutex_lock(&op->host->lock);
    op->real = NULL;
    kvs_devhost_note_ending_locked(op);
    pthread_mutex_unlock(&op->host->lock);
    return real;
}

static void end(kvs_devhost_op_t *op, kvs_status_t status)
{
    kvs_devhost_drop_and_tell(op, take_real(op), status);
}

static kvs_status_t run_staged(kvs_devhost_op_t *op)
{
    kvs_status_t status = op->is_early ? KVS_OK : kvs_devhost_await_values(op);

    return status == KVS_OK ? op->host->args.run(op->host->args.store, &op->op) : status;
}

static void deal(kvs_devhost_op_t *op)
{
    kvs_devhost_t *host = op->host;
    kvs_status_t status = run_staged(op);

    __atomic_fetch_add(&host->n_dealt, 1, __ATOMIC_RELEASE);
    if (status != KVS_OK) {
        end(op, status);
    }
}

void kvs_devhost_consumed(kvs_op_t *pub)
{
    const kvs_devhost_op_t *op = (const kvs_devhost_op_t *)pub;

    if (!kvs_devhost_is_staged(pub)) {
        kvs_plugin_host->consumed(pub);
    } else if (!op->is_consumed) {
        kvs_plugin_host->consumed(op->real);
    }
}

void kvs_devhost_complete(kvs_op_t *pub, kvs_status_t status)
{
    kvs_devhost_op_t *op = (kvs_devhost_op_t *)pub;
    kvs_status_t sent;
    int is_awaited = 0;

    if (!kvs_devhost_is_staged(pub)) {
        kvs_plugin_host->complete(pub, status);
        return;
    }
    if (status != KVS_OK) {
        kvs_devhost_fail(op, status);
    }
    if (op->n_outs > 0) {
        sent = kvs_devhost_send_outs(op, status != KVS_OK, &is_awaited);
        if (sent != KVS_OK) {
            kvs_devhost_fail(op, sent);
        }
    }
    if (is_awaited && op->n_watched < op->n_watches) {
        kvs_devhost_watch(op, 1);
        return;
    }
    kvs_devhost_watch(op, 0);
    end(op, kvs_devhost_failure(op));
}

/* ---- What a backend asks ------------------------------------------------------------------------------- */

kvs_status_t kvs_devhost_arrived(const kvs_op_t *pub, const kvs_group_t *group, size_t *ret_n_bytes)
{
    kvs_devhost_op_t *op = (kvs_devhost_op_t *)(uintptr_t)pub;
    size_t n_bytes;

    if (!kvs_devhost_is_staged(pub) || !op->is_early) {
        *ret_n_bytes = SIZE_MAX;
        return KVS_OK;
    }
    n_bytes = __atomic_load_n(&op->arrived[group - op->groups], __ATOMIC_ACQUIRE);
    *ret_n_bytes = n_bytes;
    return n_bytes == SIZE_MAX ? KVS_OK : kvs_devhost_failure(op);
}

kvs_status_t kvs_devhost_await(const kvs_op_t *pub)
{
    return kvs_devhost_is_staged(pub) ? kvs_devhost_await_values((kvs_devhost_op_t *)(uintptr_t)pub)
                                      : KVS_OK;
}

/* ---- Calls --------------------------------------------------------------------------------------------- */

kvs_status_t kvs_devhost_new(const kvs_devhost_args_t *args, kvs_devhost_t **ret_host)
{
    kvs_devhost_t *host = calloc(1, sizeof(*host));
    pthread_condattr_t monotonic;

    if (host == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for the store");
    }
    host->args = *args;
    host->args.timeout_ms = args->timeout_ms > 0 ? args->timeout_ms : KVS_DEV_WAIT_MS;
    host->end = &host->first;
    pthread_mutex_init(&host->lock, NULL);
    pthread_mutex_init(&host->out_lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&host->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    lane_init(&host->in);
    *ret_host = host;
    return KVS_OK;
}

void kvs_devhost_free(kvs_devhost_t *host)
{
    if (host == NULL) {
        return;
    }
    kvs_devhost_stop_watching(host);
    lane_release(&host->in);
    kvs_devhost_free_spare(host);
    pthread_cond_destroy(&host->changed);
    pthread_mutex_destroy(&host->out_lock);
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

static kvs_status_t start_threads(kvs_devhost_t *host, int is_on_devices)
{
    kvs_status_t status = lane_start(&host->in);

    return status == KVS_OK && is_on_devices ? kvs_devhost_start_watching(host) : status;
}

static kvs_status_t begin(kvs_devhost_t *host, kvs_op_t *real, int is_on_devices)
{
    kvs_devhost_op_t *op = new_op(host, real);
    int is_init = real->verb == KVS_VERB_INIT || real->verb == KVS_VERB_BROADCAST;
    kvs_status_t status;

    if (op == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for an operation");
    }
    status = start_threads(host, is_on_devices);
    if (status == KVS_OK && is_on_devices) {
        status = kvs_devhost_stage(op);
        status = status == KVS_OK ? KVS_OK : kvs_fail_context(status, "%s", verb_name(real->verb));
    }
    if (status == KVS_OK && !is_init) {
        op->is_consumed = is_on_devices && kvs_devhost_streams_guard_values(real);
        if (op->is_consumed) {
            kvs_plugin_host->consumed(real);
        }
        host->n_added++;
        lane_add(&host->in, op);
        return KVS_OK;
    }
    if (status == KVS_OK) { /* what follows may count on the keys it makes */
        lane_drain(&host->in);
        status = run_staged(op);
    }
    if (status != KVS_OK) { /* what is queued may need its memory for a while */
        (void)take_real(op);
        kvs_devhost_drop(op);
    }
    return status;
}

kvs_status_t kvs_devhost_run(kvs_devhost_t *host, kvs_op_t *op)
{
    int is_on_devices = kvs_devhost_has_device_arrays(op);

    kvs_status_t status =
        host->args.packing != NULL ? kvs_devhost_settle_residuals(host, op) : KVS_OK;

    if (status != KVS_OK) {
        return kvs_fail_context(status, "%s", verb_name(op->verb));
    }
    if (!is_on_devices && __atomic_load_n(&host->in.n, __ATOMIC_ACQUIRE) == 0) {
        return host->args.run(host->args.store, op);
    }
    return begin(host, op, is_on_devices);
}

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
    status = kvs_devhost_await_values(op);
    status = status == KVS_OK ? call(arg, op->groups[0].values, op->groups[0].outs) : status;
    status = status == KVS_OK ? kvs_devhost_send_outs(op, 0, &is_awaited) : status;
    kvs_devhost_watch(op, 0);
    return status == KVS_OK && is_awaited ? kvs_devhost_await_outs(op) : status;
}

kvs_status_t kvs_devhost_call(
    kvs_devhost_t *host, const char *what, const kvs_tensor_t *value, const kvs_tensor_t *out,
    kvs_status_t (*call)(void *arg, const kvs_tensor_t *value, const kvs_tensor_t *out), void *arg)
{
    kvs_group_t group = {.values = value, .n_values = 1, .outs = out, .n_outs = 1};
    kvs_op_t real = {
        .size = sizeof(real), .verb = KVS_VERB_BROADCAST, .groups = &group, .n_groups = 1};
    kvs_devhost_op_t *op;
    kvs_status_t status;

    kvs_devhost_drain(host);
    if (!kvs_devhost_has_device_arrays(&real)) {
        return call(arg, value, out);
    }
    op = new_op(host, &real);
    if (op == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for an operation");
    }
    status = start_threads(host, 1);
    status = status == KVS_OK ? call_staged(op, what, call, arg) : status;
    (void)take_real(op);
    kvs_devhost_drop(op);
    return status;
}

/* The watcher looks at it every few milliseconds while anything is waited for. */
void kvs_devhost_cancel(kvs_devhost_t *host)
{
    if (host != NULL) {
        __atomic_store_n(&host->is_cancelled, 1, __ATOMIC_RELAXED);
    }
}

void kvs_devhost_drain(kvs_devhost_t *host)
{
    if (host != NULL && __atomic_load_n(&host->in.n, __ATOMIC_ACQUIRE) > 0) {
        lane_drain(&host->in);
    }
}
