/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_streams.c - streams and events of the stand-in for libcuda.so.1. One thread runs the work of all
 * streams; but functions of the host, which may wait for other processes, have threads of their own. Work
 * lies for a while before it may run, and of the streams that could go on the one that was given its
 * work last goes first: who forgets to wait comes too early. */
#include "cuda_double.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

struct CUstream_st {
    int device;
    int held;    /* by a test: does nothing */
    int is_away; /* its first is a function of the host, on a thread of its own */
    long thread; /* of the per-thread default streams: whose */
    double_work_t *first, **end;
    struct CUstream_st *next;
};

struct CUevent_st {
    int device;
    uint64_t n_recorded; /* records asked for */
    uint64_t n_done;
};

static struct CUstream_st *streams;
static struct CUstream_st *defaults; /* the legacy and the per-thread streams */
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static uint64_t n_enqueued;

static int64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

/* ---- Running ---------------------------------------------------------------------------------- */

static int may_run(const double_work_t *work, int64_t now)
{
    const struct CUevent_st *event = work->awaited;

    return work->ready_ns <= now && !(work->is_download && double_downloads == 0) &&
           (event == NULL || event->n_done >= work->number || double_devices[event->device].failed);
}

/* The stream whose turn it is; NULL: none, and *ret_next is when it is worth looking again. */
static struct CUstream_st *choose(int64_t now, int64_t *ret_next)
{
    struct CUstream_st *lists[] = {streams, defaults}, *chosen = NULL;

    *ret_next = INT64_MAX;
    for (int i = 0; i < 2; i++) {
        for (struct CUstream_st *s = lists[i]; s != NULL; s = s->next) {
            if (s->first == NULL || s->held || s->is_away) {
                continue;
            }
            if (s->first->ready_ns > now && s->first->ready_ns < *ret_next) {
                *ret_next = s->first->ready_ns;
            }
            if (may_run(s->first, now) &&
                (chosen == NULL || s->first->sequence > chosen->first->sequence)) {
                chosen = s;
            }
        }
    }
    return chosen;
}

static void end_first_locked(struct CUstream_st *stream)
{
    double_work_t *work = stream->first;

    if (work->recorded != NULL && work->recorded->n_done < work->number) {
        work->recorded->n_done = work->number;
    }
    stream->first = work->next;
    if (stream->first == NULL) {
        stream->end = &stream->first;
    }
    free(work->args);
    free(work);
    pthread_cond_broadcast(&changed);
}

static void run_host(double_work_t *work)
{
    work->callback(work->dst);
}

static void *run_apart(void *arg)
{
    struct CUstream_st *stream = arg;

    run_host(stream->first); /* nobody else touches it meanwhile */
    pthread_mutex_lock(&double_lock);
    stream->is_away = 0;
    end_first_locked(stream);
    pthread_mutex_unlock(&double_lock);
    return NULL;
}

static void start_thread(void *(*run)(void *arg), void *arg)
{
    pthread_t thread;
    pthread_attr_t attributes;

    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    if (pthread_create(&thread, &attributes, run, arg) != 0) {
        abort();
    }
    pthread_attr_destroy(&attributes);
}

static void run_first_locked(struct CUstream_st *stream)
{
    double_work_t *work = stream->first;

    if (!double_devices[stream->device].failed) {
        double_downloads -= work->is_download && double_downloads > 0;
        if (work->run == run_host) {
            stream->is_away = 1;
            start_thread(run_apart, stream);
            return;
        }
        if (work->run != NULL) {
            pthread_mutex_unlock(&double_lock);
            work->run(work);
            pthread_mutex_lock(&double_lock);
        }
        if (work->run_locked != NULL) {
            work->run_locked(work);
        }
    }
    end_first_locked(stream);
}

static void *run_all(void *arg)
{
    (void)arg;
    pthread_mutex_lock(&double_lock);
    for (;;) {
        int64_t next;
        struct CUstream_st *stream = choose(now_ns(), &next);

        if (stream != NULL) {
            run_first_locked(stream);
        } else if (next == INT64_MAX) {
            pthread_cond_wait(&changed, &double_lock);
        } else {
            int64_t rest = next - now_ns();
            struct timespec pause = {0, rest > 0 ? rest % 1000000000 : 0};

            pthread_mutex_unlock(&double_lock);
            nanosleep(&pause, NULL);
            pthread_mutex_lock(&double_lock);
        }
    }
    return NULL;
}

void double_streams_start(void)
{
    start_thread(run_all, NULL);
}

/* ---- Streams ---------------------------------------------------------------------------------- */

static struct CUstream_st *new_stream(int device, long thread)
{
    struct CUstream_st *stream = calloc(1, sizeof(*stream));

    if (stream == NULL) {
        abort();
    }
    stream->device = device;
    stream->thread = thread;
    stream->end = &stream->first;
    return stream;
}

static __thread char thread_mark; /* its address tells threads apart */

/* The stream behind a handle; 0 and 1 are the current device's legacy stream, 2 is its stream of this
 * thread. */
static struct CUstream_st *stream_of_locked(CUstream handle)
{
    int device = double_current();
    long thread = handle == CU_STREAM_PER_THREAD ? (long)(intptr_t)&thread_mark : 0;

    if (handle != NULL && handle != CU_STREAM_LEGACY && handle != CU_STREAM_PER_THREAD) {
        return handle;
    }
    for (struct CUstream_st *s = defaults; s != NULL; s = s->next) {
        if (s->device == device && s->thread == thread) {
            return s;
        }
    }
    struct CUstream_st *stream = new_stream(device, thread);

    stream->next = defaults;
    defaults = stream;
    return stream;
}

static CUresult enqueue_locked(struct CUstream_st *stream, const double_work_t *work)
{
    double_work_t *copy = malloc(sizeof(*copy));

    if (double_devices[stream->device].failed) {
        free(copy);
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    }
    if (copy == NULL) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *copy = *work;
    if (work->args_bytes > 0) {
        copy->args = malloc(work->args_bytes);
        if (copy->args == NULL) {
            free(copy);
            return CUDA_ERROR_OUT_OF_MEMORY;
        }
        memcpy(copy->args, work->args, work->args_bytes);
    }
    copy->device = stream->device;
    copy->sequence = ++n_enqueued;
    copy->ready_ns = now_ns() + double_settings.delay_ns;
    copy->next = NULL;
    *stream->end = copy;
    stream->end = &copy->next;
    pthread_cond_broadcast(&changed);
    return CUDA_SUCCESS;
}

CUresult double_enqueue(CUstream handle, const double_work_t *work)
{
    pthread_mutex_lock(&double_lock);
    CUresult result = double_current() < 0 ? CUDA_ERROR_INVALID_CONTEXT
                                           : enqueue_locked(stream_of_locked(handle), work);
    pthread_mutex_unlock(&double_lock);
    return result;
}

DOUBLE_API CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned flags, int priority)
{
    CUresult result = double_check(double_current());

    (void)flags, (void)priority;
    if (result != CUDA_SUCCESS) {
        return result;
    }
    *stream = new_stream(double_current(), 0);
    pthread_mutex_lock(&double_lock);
    (*stream)->next = streams;
    streams = *stream;
    pthread_mutex_unlock(&double_lock);
    return CUDA_SUCCESS;
}

DOUBLE_API CUresult cuStreamCreate(CUstream *stream, unsigned flags)
{
    return cuStreamCreateWithPriority(stream, flags, 0);
}

DOUBLE_API void cuda_double_hold(CUstream stream, int on);
void cuda_double_hold(CUstream stream, int on)
{
    pthread_mutex_lock(&double_lock);
    stream->held = on;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&double_lock);
}

DOUBLE_API void cuda_double_downloads(int64_t n);
void cuda_double_downloads(int64_t n)
{
    pthread_mutex_lock(&double_lock);
    double_downloads = n;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&double_lock);
}

static CUresult wait_until_idle(CUstream handle)
{
    pthread_mutex_lock(&double_lock);
    struct CUstream_st *stream = stream_of_locked(handle);

    double_counts.host_syncs++;
    while (stream->first != NULL) {
        pthread_cond_wait(&changed, &double_lock);
    }
    int failed = double_devices[stream->device].failed;
    pthread_mutex_unlock(&double_lock);
    return failed ? CUDA_ERROR_ILLEGAL_ADDRESS : CUDA_SUCCESS;
}

static int has_work_locked(const struct CUstream_st *stream, int device, uint64_t up_to)
{
    for (; stream != NULL; stream = stream->next) {
        if (stream->device == device && stream->first != NULL && stream->first->sequence <= up_to) {
            return 1;
        }
    }
    return 0;
}

void double_await_device_locked(int device)
{
    uint64_t up_to = n_enqueued;

    while (has_work_locked(streams, device, up_to) || has_work_locked(defaults, device, up_to)) {
        pthread_cond_wait(&changed, &double_lock);
    }
}

DOUBLE_API CUresult cuStreamSynchronize(CUstream stream)
{
    return wait_until_idle(stream);
}

DOUBLE_API CUresult cuStreamDestroy_v2(CUstream stream)
{
    (void)wait_until_idle(stream);
    pthread_mutex_lock(&double_lock);
    for (struct CUstream_st **s = &streams; *s != NULL; s = &(*s)->next) {
        if (*s == stream) {
            *s = stream->next;
            free(stream);
            break;
        }
    }
    pthread_mutex_unlock(&double_lock);
    return CUDA_SUCCESS;
}

DOUBLE_API CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *status)
{
    (void)stream;
    pthread_mutex_lock(&double_lock);
    *status =
        double_settings.capture ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
    pthread_mutex_unlock(&double_lock);
    return CUDA_SUCCESS;
}

DOUBLE_API CUresult cuLaunchHostFunc(CUstream stream, CUhostFn fn, void *arg)
{
    return double_enqueue(stream, &(double_work_t){.run = run_host, .callback = fn, .dst = arg});
}

/* ---- Events ----------------------------------------------------------------------------------- */

DOUBLE_API CUresult cuEventCreate(CUevent *event, unsigned flags)
{
    CUresult result = double_check(double_current());

    (void)flags;
    if (result == CUDA_SUCCESS) {
        *event = calloc(1, sizeof(**event));
        if (*event == NULL) {
            return CUDA_ERROR_OUT_OF_MEMORY;
        }
        (*event)->device = double_current();
    }
    return result;
}

DOUBLE_API CUresult cuEventDestroy_v2(CUevent event)
{
    (void)event; /* work may still name it; a test leaks little */
    return CUDA_SUCCESS;
}

DOUBLE_API CUresult cuEventRecord(CUevent event, CUstream handle)
{
    CUresult result = double_check(double_current());

    if (result != CUDA_SUCCESS) {
        return result;
    }
    pthread_mutex_lock(&double_lock);
    struct CUstream_st *stream = stream_of_locked(handle);

    if (stream->device != event->device) {
        result = CUDA_ERROR_INVALID_HANDLE;
    } else {
        double_counts.events++;
        result = enqueue_locked(stream,
                                &(double_work_t){.recorded = event, .number = ++event->n_recorded});
    }
    pthread_mutex_unlock(&double_lock);
    return result;
}

DOUBLE_API CUresult cuEventQuery(CUevent event)
{
    CUresult result = double_check(event->device);

    if (result == CUDA_SUCCESS) {
        pthread_mutex_lock(&double_lock);
        result = event->n_done >= event->n_recorded ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
        pthread_mutex_unlock(&double_lock);
    }
    return result;
}

DOUBLE_API CUresult cuStreamWaitEvent(CUstream handle, CUevent event, unsigned flags)
{
    (void)flags;
    pthread_mutex_lock(&double_lock);
    double_counts.waits++;
    CUresult result =
        double_current() < 0
            ? CUDA_ERROR_INVALID_CONTEXT
            : enqueue_locked(stream_of_locked(handle),
                             &(double_work_t){.awaited = event, .number = event->n_recorded});
    pthread_mutex_unlock(&double_lock);
    return result;
}
