/* SPDX-License-Identifier: Apache-2.0 */
/* devhost_watch.c - one thread waits for what devices do for operations: values that arrive, chunk by chunk,
 * and outs. Devices are asked one after the other, so that one that is stuck holds up no other. What is
 * waited for too long fails its operation, but the watch stays: until it ends the memory is in use. */
#include "devhost.h"

#include "deadline.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SLICE_MS  5  /* that one device is waited for before others are asked */
#define SHARED_MS 1  /* the same while more than one is busy */
#define LATE_MS   20 /* between looks at what nobody waits for */
#define CLOSE_MS  5000
#define MAX_BUSY  64

static int64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* ---- Ends -------------------------------------------------------------------------------------------- */

/* What is to be told after the lock is released. */
typedef struct news {
    int is_arrival; /* the backend may go on */
    kvs_op_t *real; /* NULL, or what the core is told of */
} news_t;

static void fail_locked(kvs_devhost_op_t *op, kvs_status_t status, const char *text)
{
    if (op->status == KVS_OK) {
        op->status = status;
        op->text = strdup(text);
    }
}

/* The core is told of the operation's end once: if not by the watches, it is not theirs to touch. */
static kvs_op_t *take_real_locked(kvs_devhost_op_t *op)
{
    kvs_op_t *real = NULL;

    if (op->tells) {
        real = op->real;
        op->real = NULL;
        kvs_devhost_note_ending_locked(op);
    }
    return real;
}

static void note_locked(kvs_devhost_watch_t *watch, kvs_status_t status, news_t *news)
{
    kvs_devhost_op_t *op = watch->op;

    op->moved_ms = now_ms();
    if (status != KVS_OK) {
        fail_locked(op, status, kvs_plugin_host->last_error());
    }
    if (watch->is_of_outs) {
        op->n_outs_left--;
        news->real = op->n_outs_left == 0 ? take_real_locked(op) : NULL;
    } else {
        op->n_values_left--;
        for (size_t i = 0; i < watch->n_pieces && status == KVS_OK; i++) {
            const kvs_devhost_piece_t *piece = &op->pieces[watch->first_piece + i];

            __atomic_store_n(&op->arrived[piece->group], piece->end, __ATOMIC_RELEASE);
        }
        news->is_arrival = op->is_early;
    }
    pthread_cond_broadcast(&op->host->changed);
}

/* Whether the watch is waited for no longer; then its operation fails. */
static int expire_locked(kvs_devhost_watch_t *watch, news_t *news)
{
    kvs_devhost_op_t *op = watch->op;
    int64_t timeout_ms = op->host->args.timeout_ms;
    char text[160];

    if (watch->is_late) {
        return 0;
    }
    if (__atomic_load_n(&op->host->is_cancelled, __ATOMIC_RELAXED)) {
        fail_locked(op, KVS_ERR_CANCELLED, "the store was cancelled");
    } else if (now_ms() - op->moved_ms <= timeout_ms) {
        return 0;
    }
    snprintf(text, sizeof(text),
             "device cuda(%d) did not get done within %lld ms; its work goes on", watch->device.id,
             (long long)timeout_ms);
    fail_locked(op, KVS_ERR_TIMEOUT, text);
    watch->is_late = 1;
    op->is_stuck = 1;
    kvs_devhost_note_ending_locked(op);
    news->is_arrival = op->is_early && !watch->is_of_outs;
    news->real = watch->is_of_outs ? take_real_locked(op) : NULL;
    pthread_cond_broadcast(&op->host->changed);
    return 1;
}

/* Without the lock. The operation is still there, and the watch's reference to it, if it `drops` that, too. */
static void tell(kvs_devhost_op_t *op, const news_t *news, int drops)
{
    if (news->is_arrival) {
        op->host->args.arrived(op->host->args.store);
    }
    if (news->real != NULL && drops) {
        kvs_devhost_drop_and_tell(op, news->real, kvs_devhost_failure(op));
    } else if (news->real != NULL) {
        kvs_plugin_host->complete(news->real, kvs_devhost_failure(op));
    } else if (drops) {
        kvs_devhost_drop(op);
    }
}

/* ---- The thread -------------------------------------------------------------------------------------- */

/* Places in queues that were found not to be reached, by queue: those behind are not either. */
typedef struct busy {
    const void *lanes[MAX_BUSY];
    size_t n;
} busy_t;

static int is_busy(const busy_t *busy, const kvs_mark_t *mark)
{
    for (size_t i = 0; i < busy->n; i++) {
        if (busy->lanes[i] == mark->lane) {
            return 1;
        }
    }
    return 0;
}

/* A device that is lost does nothing any more. */
static int is_over(kvs_status_t status)
{
    return status == KVS_OK || status == KVS_ERR_UNAVAILABLE;
}

/* Ask for the watch at *at; gives whether it has ended. Releases the lock for a while: others only append. */
static int look_locked(kvs_devhost_t *host, kvs_devhost_watch_t **at, busy_t *busy)
{
    kvs_devhost_watch_t *watch = *at;
    kvs_devhost_op_t *op = watch->op;
    news_t news = {0};
    kvs_status_t status = KVS_ERR_TIMEOUT;

    if (!is_busy(busy, &watch->mark)) {
        pthread_mutex_unlock(&host->lock);
        status = op->provider->host_wait(&watch->mark, 0);
        pthread_mutex_lock(&host->lock);
        if (!is_over(status) && busy->n < MAX_BUSY) {
            busy->lanes[busy->n++] = watch->mark.lane;
        }
    }
    if (is_over(status)) {
        *at = watch->next;
        if (watch->next == NULL) {
            host->end = at;
        }
        note_locked(watch, status, &news);
    } else if (!expire_locked(watch, &news)) {
        return 0;
    }
    pthread_mutex_unlock(&host->lock);
    tell(op, &news, is_over(status));
    pthread_mutex_lock(&host->lock);
    return is_over(status);
}

static int look_at_all_locked(kvs_devhost_t *host, busy_t *busy)
{
    kvs_devhost_watch_t **at = &host->first;
    int any = 0;

    busy->n = 0;
    while (*at != NULL) {
        if (look_locked(host, at, busy)) {
            any = 1;
        } else {
            at = &(*at)->next;
        }
    }
    return any;
}

static void nap_locked(kvs_devhost_t *host)
{
    struct timespec until = kvs_time_after(LATE_MS);

    (void)pthread_cond_timedwait(&host->changed, &host->lock, &until);
}

/* Wait for the first that somebody waits for. */
static void pause_locked(kvs_devhost_t *host, const busy_t *busy)
{
    const kvs_devhost_watch_t *watch = host->first;

    while (watch != NULL && watch->is_late) {
        watch = watch->next;
    }
    if (watch == NULL) {
        nap_locked(host);
        return;
    }
    kvs_mark_t mark = watch->mark;
    const kvs_provider_t *provider = watch->op->provider;

    pthread_mutex_unlock(&host->lock);
    (void)provider->host_wait(&mark, busy->n > 1 ? SHARED_MS : SLICE_MS); /* asked again in turn */
    pthread_mutex_lock(&host->lock);
}

static void *watch_all(void *arg)
{
    kvs_devhost_t *host = arg;
    int64_t stopped_ms = 0;
    busy_t busy = {.n = 0};

    pthread_mutex_lock(&host->lock);
    for (;;) {
        if (host->stops && stopped_ms == 0) {
            stopped_ms = now_ms();
        }
        if (host->stops && (host->first == NULL || now_ms() - stopped_ms > CLOSE_MS)) {
            break;
        }
        if (host->first == NULL) {
            pthread_cond_wait(&host->changed, &host->lock);
        } else if (!look_at_all_locked(host, &busy)) {
            pause_locked(host, &busy);
        }
    }
    pthread_mutex_unlock(&host->lock);
    return NULL;
}

kvs_status_t kvs_devhost_start_watching(kvs_devhost_t *host)
{
    sigset_t all, old;
    int error = 0;

    pthread_mutex_lock(&host->lock);
    if (!host->is_watched) {
        sigfillset(&all); /* signals are the program's */
        pthread_sigmask(SIG_SETMASK, &all, &old);
        error = pthread_create(&host->watcher, NULL, watch_all, host);
        pthread_sigmask(SIG_SETMASK, &old, NULL);
        host->is_watched = error == 0;
    }
    pthread_mutex_unlock(&host->lock);
    return error == 0
               ? KVS_OK
               : kvs_fail(KVS_ERR_NO_MEMORY, "no thread to wait for devices (error %d)", error);
}

/* What a device may still touch stays behind. */
void kvs_devhost_stop_watching(kvs_devhost_t *host)
{
    pthread_mutex_lock(&host->lock);
    host->stops = 1;
    pthread_cond_broadcast(&host->changed);
    pthread_mutex_unlock(&host->lock);
    if (host->is_watched) {
        pthread_join(host->watcher, NULL);
    }
}

/* ---- Who waits --------------------------------------------------------------------------------------- */

void kvs_devhost_watch(kvs_devhost_op_t *op, int tells)
{
    kvs_devhost_t *host = op->host;

    pthread_mutex_lock(&host->lock);
    op->moved_ms = now_ms();
    for (; op->n_watched < op->n_watches; op->n_watched++) {
        kvs_devhost_watch_t *watch = &op->watches[op->n_watched];

        watch->next = NULL;
        *host->end = watch;
        host->end = &watch->next;
        op->n_refs++;
        op->n_values_left += !watch->is_of_outs;
        op->n_outs_left += watch->is_of_outs;
    }
    op->tells = tells;
    op->n_refs -= (size_t)tells;
    pthread_cond_broadcast(&host->changed);
    pthread_mutex_unlock(&host->lock); /* the operation, and the host, may be gone from here on */
}

void kvs_devhost_note_ending_locked(kvs_devhost_op_t *op)
{
    uint32_t is_ending = op->real == NULL && !op->is_stuck;

    op->host->n_ending += is_ending;
    op->host->n_ending -= op->is_ending;
    op->is_ending = is_ending;
}

uint64_t kvs_devhost_n_returned(kvs_devhost_t *host)
{
    uint64_t n;

    pthread_mutex_lock(&host->lock);
    n = host->n_returned;
    pthread_mutex_unlock(&host->lock);
    return n;
}

/* The thread that watches would wait for itself. */
int kvs_devhost_await_memory(kvs_devhost_t *host, uint64_t seen)
{
    struct timespec until = kvs_time_after(host->args.timeout_ms);
    int any;

    pthread_mutex_lock(&host->lock);
    while (host->n_returned == seen && host->n_ending > 0 &&
           !pthread_equal(pthread_self(), host->watcher) &&
           pthread_cond_timedwait(&host->changed, &host->lock, &until) == 0) {
    }
    any = host->n_returned != seen;
    pthread_mutex_unlock(&host->lock);
    return any;
}

static kvs_status_t failure_locked(const kvs_devhost_op_t *op)
{
    return op->status == KVS_OK
               ? KVS_OK
               : kvs_fail(op->status, "%s", op->text == NULL ? "no memory" : op->text);
}

kvs_status_t kvs_devhost_failure(kvs_devhost_op_t *op)
{
    kvs_status_t status;

    pthread_mutex_lock(&op->host->lock);
    status = failure_locked(op);
    pthread_mutex_unlock(&op->host->lock);
    return status;
}

void kvs_devhost_fail(kvs_devhost_op_t *op, kvs_status_t status)
{
    pthread_mutex_lock(&op->host->lock);
    free(op->text);
    op->status = status;
    op->text = strdup(kvs_plugin_host->last_error());
    pthread_mutex_unlock(&op->host->lock);
}

static kvs_status_t await(kvs_devhost_op_t *op, const size_t *n_left)
{
    kvs_devhost_t *host = op->host;
    kvs_status_t status;

    pthread_mutex_lock(&host->lock);
    while (*n_left > 0 && op->status == KVS_OK && !host->stops) {
        pthread_cond_wait(&host->changed, &host->lock);
    }
    status = failure_locked(op);
    if (status == KVS_OK && *n_left > 0) {
        status = kvs_fail(KVS_ERR_CANCELLED, "the store is closed before its devices are done");
    }
    pthread_mutex_unlock(&host->lock);
    return status;
}

kvs_status_t kvs_devhost_await_values(kvs_devhost_op_t *op)
{
    return await(op, &op->n_values_left);
}

kvs_status_t kvs_devhost_await_outs(kvs_devhost_op_t *op)
{
    return await(op, &op->n_outs_left);
}
