/* SPDX-License-Identifier: Apache-2.0 */
/* pool.c - one lock, one heap of tasks, one list of loops. Loops go first: they are parts of tasks
 * that already run. A thread that finds nothing looks again for some microseconds before it
 * sleeps, since the next push of a training step comes soon and waking a thread costs more. */
#include "pool.h"

#include "futex.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define SPIN_NS 50000

/* A parallel loop, on the stack of the thread that called it. */
typedef struct loop {
    void (*fn)(void *arg, int64_t begin, int64_t end);
    void *arg;
    int64_t n, step;
    _Atomic int64_t next; /* first index nobody has taken; relaxed: only hands out pieces */
    _Atomic uint32_t
        n_helpers; /* pool threads inside; changed under the lock, read while waiting */
    struct loop *before, *after; /* guarded by lock */
} loop_t;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static kvsi_work_t *heap;     /* guarded by lock; a pairing heap: what goes first is its root */
static loop_t *loops;         /* guarded by lock */
static _Atomic int n_threads; /* 0: not set yet; then fixed */
static int n_started;         /* guarded by lock */
static _Atomic uint32_t news; /* raised whenever there is something to do */
static _Atomic uint32_t n_sleeping; /* threads in kvsi_futex_wait on `news` */
static atomic_bool watches_forks;

/* ---- Heap ------------------------------------------------------------------------------------ */

static bool goes_first(const kvsi_work_t *a, const kvsi_work_t *b)
{
    return a->priority != b->priority ? a->priority > b->priority : a->sequence < b->sequence;
}

static kvsi_work_t *meld(kvsi_work_t *a, kvsi_work_t *b)
{
    if (a == NULL || b == NULL) {
        return a == NULL ? b : a;
    }
    if (goes_first(b, a)) {
        kvsi_work_t *swapped = a;

        a = b;
        b = swapped;
    }
    b->sibling = a->child;
    a->child = b;
    return a;
}

static void heap_push_locked(kvsi_work_t *work)
{
    work->child = work->sibling = NULL;
    heap = meld(heap, work);
}

/* The children of the first are melded in pairs, and the pairs one by one, from the last. */
static kvsi_work_t *heap_pop_locked(void)
{
    kvsi_work_t *first = heap, *rest = first->child, *pairs = NULL;

    while (rest != NULL) {
        kvsi_work_t *a = rest, *b = a->sibling, *pair;

        rest = b == NULL ? NULL : b->sibling;
        a->sibling = NULL;
        if (b != NULL) {
            b->sibling = NULL;
        }
        pair = meld(a, b);
        pair->sibling = pairs;
        pairs = pair;
    }
    heap = NULL;
    while (pairs != NULL) {
        kvsi_work_t *pair = pairs;

        pairs = pair->sibling;
        pair->sibling = NULL;
        heap = meld(heap, pair);
    }
    return first;
}

/* ---- Threads --------------------------------------------------------------------------------- */

static void run_pieces(loop_t *loop)
{
    for (;;) {
        int64_t begin = atomic_fetch_add_explicit(&loop->next, loop->step, memory_order_relaxed);

        if (begin >= loop->n) {
            return;
        }
        loop->fn(loop->arg, begin, loop->n - begin < loop->step ? loop->n : begin + loop->step);
    }
}

static loop_t *find_loop_locked(void)
{
    for (loop_t *loop = loops; loop != NULL; loop = loop->after) {
        uint32_t n_helpers = atomic_load_explicit(&loop->n_helpers, memory_order_relaxed);

        if (atomic_load_explicit(&loop->next, memory_order_relaxed) < loop->n &&
            n_helpers + 1 < (uint32_t)n_threads) {
            return loop;
        }
    }
    return NULL;
}

static void help(loop_t *loop)
{
    run_pieces(loop);
    /* Release: the caller, who reads 0 with acquire, sees what the pieces wrote. After this the
     * loop may be gone; a wake on its address is harmless. */
    if (atomic_fetch_sub_explicit(&loop->n_helpers, 1, memory_order_release) == 1) {
        kvsi_futex_wake(&loop->n_helpers, 1);
    }
}

static void wait_for_news(uint32_t seen)
{
    int64_t spin_until = kvsi_now_ns() + SPIN_NS;

    while (atomic_load_explicit(&news, memory_order_acquire) == seen) {
        if (kvsi_now_ns() >= spin_until) {
            atomic_fetch_add(&n_sleeping, 1);
            kvsi_futex_wait(&news, seen, INT64_MAX);
            atomic_fetch_sub(&n_sleeping, 1);
            return;
        }
        sched_yield();
    }
}

static void *thread_main(void *unused)
{
    (void)unused;
    for (;;) {
        uint32_t seen = atomic_load_explicit(&news, memory_order_acquire);
        kvsi_work_t *work = NULL;
        loop_t *loop;

        pthread_mutex_lock(&lock);
        loop = find_loop_locked();
        if (loop != NULL) {
            atomic_fetch_add_explicit(&loop->n_helpers, 1, memory_order_relaxed);
        } else if (heap != NULL) {
            work = heap_pop_locked();
        }
        pthread_mutex_unlock(&lock);

        if (loop != NULL) {
            help(loop);
        } else if (work != NULL) {
            work->run(work);
        } else {
            wait_for_news(seen);
        }
    }
    return NULL;
}

static void forget_threads(void)
{
    pthread_mutex_init(&lock, NULL);
    n_started = 0;
    heap = NULL;
    loops = NULL;
    atomic_store(&n_sleeping, 0);
}

static int count_cores(void)
{
    cpu_set_t cpus;
    int n = sched_getaffinity(0, sizeof(cpus), &cpus) == 0 ? CPU_COUNT(&cpus) : 1;

    return n < KVSI_POOL_MAX_THREADS ? n : KVSI_POOL_MAX_THREADS;
}

void kvsi_pool_set_threads(int n)
{
    int none = 0;

    n = n <= 0 ? count_cores() : n < KVSI_POOL_MAX_THREADS ? n : KVSI_POOL_MAX_THREADS;
    atomic_compare_exchange_strong(&n_threads, &none, n);
}

int kvsi_pool_n_threads(void)
{
    if (atomic_load_explicit(&n_threads, memory_order_relaxed) == 0) {
        kvsi_pool_set_threads(0);
    }
    return atomic_load_explicit(&n_threads, memory_order_relaxed);
}

/* Before the lock is ever held: it would stay so in a child. */
static void watch_forks(void)
{
    if (!atomic_load(&watches_forks) && pthread_atfork(NULL, NULL, forget_threads) == 0) {
        atomic_store(&watches_forks, true); /* twice does no harm */
    }
}

/* Start what is missing. Fewer threads than wanted are no error unless there are none: then gives
 * the system's error number. */
static int start_locked(void)
{
    int n_wanted = kvsi_pool_n_threads(), error = 0;
    pthread_attr_t attributes;
    sigset_t all, before;

    if (n_started == n_wanted) {
        return 0;
    }
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    sigfillset(&all); /* the program's signals are for its own threads */
    pthread_sigmask(SIG_BLOCK, &all, &before);
    while (n_started < n_wanted && error == 0) {
        pthread_t thread;

        error = pthread_create(&thread, &attributes, thread_main, NULL);
        n_started += error == 0;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return n_started == 0 ? error : 0;
}

static void tell(int n_wanted)
{
    atomic_fetch_add(&news, 1); /* sequentially consistent, as is n_sleeping: one sees the other */
    if (atomic_load(&n_sleeping) > 0) {
        kvsi_futex_wake(&news, n_wanted);
    }
}

kvs_status_t kvsi_pool_start(void)
{
    int error;

    watch_forks();
    pthread_mutex_lock(&lock);
    error = start_locked();
    pthread_mutex_unlock(&lock);
    return error == 0 ? KVS_OK : kvs_fail(KVS_ERR_IO, "can't start a thread: %s", strerror(error));
}

void kvsi_pool_submit(kvsi_work_t *work)
{
    pthread_mutex_lock(&lock);
    heap_push_locked(work);
    pthread_mutex_unlock(&lock);
    tell(1);
}

static void enter_loop_locked(loop_t *loop)
{
    loop->after = loops;
    if (loops != NULL) {
        loops->before = loop;
    }
    loops = loop;
}

static void leave_loop_locked(loop_t *loop)
{
    if (loop->before != NULL) {
        loop->before->after = loop->after;
    } else {
        loops = loop->after;
    }
    if (loop->after != NULL) {
        loop->after->before = loop->before;
    }
}

static void wait_for_helpers(loop_t *loop)
{
    int64_t spin_until = 0;
    uint32_t n;

    while ((n = atomic_load_explicit(&loop->n_helpers, memory_order_acquire)) > 0) {
        int64_t now = kvsi_now_ns();

        if (spin_until == 0) {
            spin_until = now + SPIN_NS;
        }
        if (now < spin_until) {
            sched_yield();
        } else {
            kvsi_futex_wait(&loop->n_helpers, n, INT64_MAX);
        }
    }
}

void kvsi_pool_parallel_for(int64_t n, int64_t grain,
                            void (*fn)(void *arg, int64_t begin, int64_t end), void *arg)
{
    int64_t threads = kvsi_pool_n_threads(), n_grains;
    loop_t loop = {.fn = fn, .arg = arg, .n = n};

    if (n <= 0) {
        return;
    }
    grain = grain < 1 ? 1 : grain;
    n_grains = n / grain + (n % grain != 0);
    if (threads == 1 || n_grains == 1) {
        fn(arg, 0, n);
        return;
    }
    /* About four pieces a thread, so that one that is late holds up little. */
    loop.step = grain * (n_grains / (threads * 4) + (n_grains % (threads * 4) != 0));
    watch_forks();
    pthread_mutex_lock(&lock);
    start_locked();
    enter_loop_locked(&loop);
    pthread_mutex_unlock(&lock);
    tell(n_grains < threads ? (int)n_grains - 1 : (int)threads - 1);

    run_pieces(&loop);
    pthread_mutex_lock(&lock);
    leave_loop_locked(&loop);
    pthread_mutex_unlock(&lock);
    wait_for_helpers(&loop);
}
