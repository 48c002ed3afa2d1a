/* SPDX-License-Identifier: Apache-2.0 */
/* nccl_job.h - a store in a job of several processes: every push is summed over the devices of all, and each
 * process's own store, a device store, is then given the sum as if it were all that was pushed. So all keep
 * the same weights, and run the same updates in the same order, which worker 0 arranges. */
#ifndef NCCL_JOB_H
#define NCCL_JOB_H

#include "hvd_job.h"
#include "hvd_keys.h"
#include "nccl_link.h"

#include <kvstore/process.h>

#include <pthread.h>
#include <stdatomic.h>

typedef struct nccl_store {
    kvs_devstore_t dev; /* first */
    int64_t timeout_ms;
    hvd_job_t *job; /* NULL: this process alone; fixed once it is open, as what follows */
    nccl_link_t *link;
    kvs_net_store_t *net;
    kvs_net_service_t *scheduler; /* NULL: this process is a worker */
    uint32_t number;
    int rank, n_workers;
    int64_t warning_ms;
    uint64_t digest;      /* of what changes weights; changed when nothing is pending */
    hvd_keys_t keys;      /* of the thread that issues operations */
    pthread_mutex_t lock; /* guards the keys' queues, operations, and */
    pthread_cond_t idle;  /* none is pending */
    size_t n_pending;
    atomic_bool cancelled;
} nccl_store_t;

extern const hvd_engine_t nccl_engine;

kvs_status_t nccl_job_open(nccl_store_t *store, const kvs_net_settings_t *settings,
                           const kvs_open_args_t *args);
kvs_status_t nccl_job_close(nccl_store_t *store, int64_t timeout_ms);
/* All verbs. */
kvs_status_t nccl_job_run(nccl_store_t *store, kvs_op_t *op);
/* Wait until nothing is pending: for what runs alone. ERR_CANCELLED. */
kvs_status_t nccl_job_drain(nccl_store_t *store);
kvs_status_t nccl_job_barrier(nccl_store_t *store);
/* Calls that wait return ERR_CANCELLED. Safe in a signal handler. */
void nccl_job_cancel(nccl_store_t *store);

#endif
