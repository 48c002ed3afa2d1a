/* SPDX-License-Identifier: Apache-2.0 */
/* forks.c - see forks.h. */
#include "forks.h"

#include "log.h"

#include <pthread.h>
#include <stdatomic.h>

static _Atomic uint32_t n_forks; /* relaxed: it changes where there is one thread */

static void count_fork(void)
{
    atomic_fetch_add_explicit(&n_forks, 1, memory_order_relaxed);
}

static void watch(void)
{
    if (pthread_atfork(NULL, NULL, count_fork) != 0) {
        kvsi_log(KVS_LOG_WARN, "store",
                 "no memory to watch for forks: a store used in a forked child may hang");
    }
}

void kvsi_forks_watch(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, watch);
}

uint32_t kvsi_forks_count(void)
{
    return atomic_load_explicit(&n_forks, memory_order_relaxed);
}
