/* SPDX-License-Identifier: Apache-2.0 */
/* nccl_job.h - a store in a job of several processes: every push is summed over the devices of all, and each
 * process's own store, a device store, is then given the sum as if it were all that was pushed. So all keep
 * the same weights, and run the same updates in the same order, which worker 0 arranges. */
#ifndef NCCL_JOB_H
#define NCCL_JOB_H

#include "hvd_turn.h"
#include "nccl_link.h"

#include <kvstore/kit.h>

typedef struct nccl_store {
    kvs_devstore_t dev; /* first */
    hvd_member_t member;
    nccl_link_t *link;            /* of a job */
    kvs_net_service_t *scheduler; /* NULL: this process is a worker */
    uint64_t digest;              /* of what changes weights; changed when nothing is pending */
    pthread_cond_t idle;          /* none is pending */
    size_t n_pending;             /* operations; guarded by the member's lock */
} nccl_store_t;

extern const hvd_engine_t nccl_engine;

kvs_status_t nccl_job_open(nccl_store_t *store, const kvs_net_settings_t *settings,
                           const kvs_open_args_t *args);
kvs_status_t nccl_job_close(nccl_store_t *store, int64_t timeout_ms);
/* All verbs. */
kvs_status_t nccl_job_run(nccl_store_t *store, kvs_op_t *op);
/* Wait until nothing is pending: for what runs alone. ERR_CANCELLED. */
kvs_status_t nccl_job_drain(nccl_store_t *store);

#endif
