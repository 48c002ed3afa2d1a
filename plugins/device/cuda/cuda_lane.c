/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_lane.c - see cuda_lane.h. Whoever waits on the host sleeps; one thread of this file asks the
 * driver for all of them, at first without a pause, and nobody calls a blocking function of CUDA. */
#include "cuda_device.h"

#include "deadline.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

void cuda_lane_init(cuda_lane_t *lane, cuda_device_t *device, CUstream stream)
{
    *lane = (cuda_lane_t){.device = device, .stream = stream, .clean = 1};
    pthread_mutex_init(&lane->lock, NULL); /* it can't fail */
}

/* The event of a mark, made at its first use: most streams of a program need few. */
static CUresult event_locked(cuda_lane_t *lane, uint64_t number, CUevent *ret_event)
{
    CUevent *event = &lane->events[number % CUDA_RING];
    CUresult result =
        *event != NULL ? CUDA_SUCCESS : cuda(cuEventCreate)(event, CU_EVENT_DISABLE_TIMING);

    *ret_event = *event;
    return result;
}

void cuda_lane_touch(cuda_lane_t *lane)
{
    pthread_mutex_lock(&lane->lock);
    lane->clean = 0;
    pthread_mutex_unlock(&lane->lock);
}

CUstream cuda_lane_lend(cuda_lane_t *lane)
{
    pthread_mutex_lock(&lane->lock);
    lane->is_lent = 1;
    lane->clean = 0;
    pthread_mutex_unlock(&lane->lock);
    return lane->stream;
}

kvs_status_t cuda_lane_mark(cuda_lane_t *lane, kvs_mark_t *ret_mark)
{
    CUresult result = CUDA_SUCCESS;

    pthread_mutex_lock(&lane->lock);
    if (!lane->clean || lane->n_marks == 0) {
        CUevent event;

        result = event_locked(lane, lane->n_marks + 1, &event);
        if (result == CUDA_SUCCESS) {
            result = cuda(cuEventRecord)(event, lane->stream);
        }
        if (result == CUDA_SUCCESS) {
            lane->n_marks++;
            /* what a program or a library queues, we don't see */
            lane->clean = lane->is_ours && !lane->is_lent;
        }
    }
    *ret_mark = (kvs_mark_t){lane, lane->n_marks};
    pthread_mutex_unlock(&lane->lock);
    return cuda_check(lane->device, result, "cuEventRecord");
}

kvs_status_t cuda_stream_wait_mark(cuda_device_t *device, CUstream stream, const kvs_mark_t *mark)
{
    cuda_lane_t *lane = mark->lane;
    CUresult result;

    if (lane == NULL || (lane->device == device && lane->stream == stream && lane->thread == 0)) {
        return KVS_OK;
    }
    pthread_mutex_lock(&lane->lock); /* the ring must not come round now */
    result = lane->n_reached >= mark->number
                 ? CUDA_SUCCESS
                 : cuda(cuStreamWaitEvent)(stream, lane->events[mark->number % CUDA_RING], 0);
    pthread_mutex_unlock(&lane->lock);
    return cuda_check(device, result, "cuStreamWaitEvent");
}

/* ---- Streams of the program ---------------------------------------------------------------------- */

static uint64_t this_thread(void)
{
    static uint64_t n_threads;
    static __thread uint64_t number;

    if (number == 0) {
        number = __atomic_add_fetch(&n_threads, 1, __ATOMIC_RELAXED); /* only has to be unique */
    }
    return number;
}

static kvs_status_t add_lane_locked(cuda_device_t *device, CUstream stream, uint64_t thread,
                                    cuda_lane_t **ret_lane)
{
    cuda_lane_t *lane = malloc(sizeof(*lane));

    if (lane == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory to follow a stream");
    }
    cuda_lane_init(lane, device, stream);
    lane->thread = thread;
    lane->next = device->streams;
    device->streams = lane;
    *ret_lane = lane;
    return KVS_OK;
}

kvs_status_t cuda_lane_of_stream(cuda_device_t *device, int64_t number, cuda_lane_t **ret_lane)
{
    CUstream stream = (CUstream)(intptr_t)number;
    uint64_t thread = stream == CU_STREAM_PER_THREAD ? this_thread() : 0;
    kvs_status_t status = KVS_OK;
    cuda_lane_t *lane;

    pthread_mutex_lock(&device->streams_lock);
    lane = device->streams;
    while (lane != NULL && (lane->stream != stream || lane->thread != thread)) {
        lane = lane->next;
    }
    if (lane == NULL) {
        status = add_lane_locked(device, stream, thread, &lane);
    }
    pthread_mutex_unlock(&device->streams_lock);
    *ret_lane = lane;
    return status;
}

/* ---- Waiting on the host --------------------------------------------------------------------------- */

#define SPIN_NS  20000
#define PAUSE_NS 20000

typedef struct waiter {
    kvs_mark_t mark;
    int done;
    CUresult result;
    struct waiter *next;
} waiter_t;

static pthread_mutex_t waiters_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t waiters_changed = PTHREAD_COND_INITIALIZER;
static waiter_t *waiters; /* guarded by waiters_lock, as is what follows */
static int has_thread;

static int64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

/* Whether the mark is reached: 1, 0, or -1 with the error. */
static int has_reached(const kvs_mark_t *mark, CUresult *ret_result)
{
    cuda_lane_t *lane = mark->lane;
    CUresult result = CUDA_SUCCESS;

    pthread_mutex_lock(&lane->lock);
    if (lane->n_reached < mark->number) {
        result = cuda(cuEventQuery)(lane->events[mark->number % CUDA_RING]);
        if (result == CUDA_SUCCESS) {
            lane->n_reached = mark->number;
        }
    }
    pthread_mutex_unlock(&lane->lock);
    *ret_result = result;
    return result == CUDA_SUCCESS ? 1 : result == CUDA_ERROR_NOT_READY ? 0 : -1;
}

/* Ask for all who wait; gives whether somebody need wait no longer. */
static int ask_all_locked(void)
{
    int any = 0;

    for (waiter_t *w = waiters; w != NULL; w = w->next) {
        if (!w->done && has_reached(&w->mark, &w->result) != 0) {
            w->done = any = 1;
        }
    }
    return any;
}

static void *watch(void *arg)
{
    int64_t busy_since = 0;

    (void)arg;
    pthread_mutex_lock(&waiters_lock);
    for (;;) {
        if (waiters == NULL) {
            busy_since = 0;
            pthread_cond_wait(&waiters_changed, &waiters_lock);
            continue;
        }
        busy_since = busy_since == 0 ? now_ns() : busy_since;
        if (ask_all_locked()) {
            pthread_cond_broadcast(&waiters_changed);
            busy_since = 0;
        }
        pthread_mutex_unlock(&waiters_lock);
        if (busy_since == 0 || now_ns() - busy_since < SPIN_NS) {
            sched_yield();
        } else {
            (void)nanosleep(&(struct timespec){0, PAUSE_NS}, NULL);
        }
        pthread_mutex_lock(&waiters_lock);
    }
    return NULL;
}

static kvs_status_t start_thread_locked(void)
{
    pthread_attr_t attributes;
    sigset_t all, before;
    pthread_t thread;
    int error;

    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    sigfillset(&all); /* the program's signals are for its own threads */
    pthread_sigmask(SIG_BLOCK, &all, &before);
    error = pthread_create(&thread, &attributes, watch, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    if (error != 0) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no thread to watch CUDA devices");
    }
    has_thread = 1;
    return KVS_OK;
}

static void unlist_locked(waiter_t *waiter)
{
    waiter_t **place = &waiters;

    while (*place != waiter) {
        place = &(*place)->next;
    }
    *place = waiter->next;
}

kvs_status_t cuda_host_wait(const kvs_mark_t *mark, int64_t timeout_ms)
{
    struct timespec deadline = kvs_time_after(timeout_ms);
    waiter_t waiter = {.mark = *mark};
    kvs_status_t status = KVS_OK;
    int error = 0;

    if (mark->lane == NULL) {
        return KVS_OK;
    }
    if (has_reached(mark, &waiter.result) == 1) {
        return KVS_OK;
    }
    pthread_mutex_lock(&waiters_lock);
    if (!has_thread) {
        status = start_thread_locked();
    }
    if (status == KVS_OK) {
        waiter.next = waiters;
        waiters = &waiter;
        pthread_cond_broadcast(&waiters_changed);
        while (!waiter.done && error != ETIMEDOUT) {
            error =
                pthread_cond_clockwait(&waiters_changed, &waiters_lock, CLOCK_MONOTONIC, &deadline);
        }
        unlist_locked(&waiter);
    }
    pthread_mutex_unlock(&waiters_lock);
    if (status == KVS_OK && !waiter.done) {
        return kvs_fail(KVS_ERR_TIMEOUT,
                        "device cuda(%d) did not get done within %lld ms; its work goes on",
                        ((cuda_lane_t *)mark->lane)->device->id, (long long)timeout_ms);
    }
    return status != KVS_OK
               ? status
               : cuda_check(((cuda_lane_t *)mark->lane)->device, waiter.result, "work on it");
}
