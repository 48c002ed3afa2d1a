/* SPDX-License-Identifier: Apache-2.0 */
/* pool.h - the threads of the process, shared by all stores: they run queued tasks by priority and
 * help with parallel loops.
 *
 * Started at first use, never stopped: the threads sleep when there is nothing to do, hold nothing
 * at exit, and don't exist in a forked child. All functions: any thread. */
#ifndef KVSI_POOL_H
#define KVSI_POOL_H

#include <kvstore/kvstore.h>

#define KVSI_POOL_MAX_THREADS 1024

typedef struct kvsi_work {
    void (*run)(struct kvsi_work *work);
    int32_t priority;                  /* larger first */
    uint64_t sequence;                 /* among equals, smaller first */
    struct kvsi_work *child, *sibling; /* the pool's */
} kvsi_work_t;

/* Start the threads. ERR_IO: not one can be started; what is submitted then won't run. */
kvs_status_t kvsi_pool_start(void);

/* Queue `work`, which the caller keeps until it runs. Never fails once the pool is started. */
void kvsi_pool_submit(kvsi_work_t *work);

/* fn(arg, begin, end) for pieces that cover [0, n), on this thread and idle ones; `begin` is a
 * multiple of `grain`. Returns when all have returned. May be called within a piece. */
void kvsi_pool_parallel_for(int64_t n, int64_t grain,
                            void (*fn)(void *arg, int64_t begin, int64_t end), void *arg);

/* How many threads work at once: 0 stands for the cores this process may use. Before the first work
 * only; later it changes nothing. */
void kvsi_pool_set_threads(int n);
int kvsi_pool_n_threads(void);

#endif
