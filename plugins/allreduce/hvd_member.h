/* SPDX-License-Identifier: Apache-2.0 */
/* hvd_member.h - a store's part in its job: what it is there, and its calls that concern all workers. Part
 * of the stores of horovod and of nccl. */
#ifndef HVD_MEMBER_H
#define HVD_MEMBER_H

#include "hvd_job.h"
#include "hvd_keys.h"

#include <kvstore/process.h>

#include <pthread.h>
#include <stdatomic.h>

typedef struct hvd_member {
    int64_t timeout_ms, warning_ms; /* set before it is opened */
    hvd_job_t *job; /* NULL: this process alone; fixed once it is open, as what follows */
    kvs_net_store_t *net;
    uint32_t number;
    int rank, n_workers;
    hvd_keys_t keys;      /* of the thread that issues operations */
    pthread_mutex_t lock; /* guards the keys' queues, and operations */
    atomic_bool cancelled;
} hvd_member_t;

/* Together with all workers, whose `args` must agree. What fails leaves it as it was. */
kvs_status_t hvd_member_open(hvd_member_t *member, hvd_job_t *job, const kvs_open_args_t *args);
kvs_status_t hvd_member_close(hvd_member_t *member, int64_t timeout_ms);
kvs_status_t hvd_member_barrier(hvd_member_t *member);
/* Calls that wait return ERR_CANCELLED, and what is pending soon ends with it. Safe in a signal handler. */
void hvd_member_cancel(hvd_member_t *member);

/* Wait on `changed`, whose lock the caller holds, until it is signalled or it is time to look whether the
 * store was cancelled. */
void hvd_member_pause(pthread_cond_t *changed, pthread_mutex_t *lock);
static inline bool hvd_member_is_cancelled(const hvd_member_t *member)
{
    /* relaxed: nothing else is told by it */
    return atomic_load_explicit(&member->cancelled, memory_order_relaxed);
}

#endif
