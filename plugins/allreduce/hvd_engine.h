/* SPDX-License-Identifier: Apache-2.0 */
/* hvd_engine.h - what carries horovod's exchanges: shared memory, or MPI between hosts; and NCCL between
 * devices. */
#ifndef HVD_ENGINE_H
#define HVD_ENGINE_H

#include "hvd_device.h"
#include "hvd_quick.h"

typedef struct hvd_engine_options {
    const char *engine;      /* "auto", "shm", "mpi" or "nccl" */
    const char *mpi_library; /* libmpi.so.40 */
    bool has_timeline;       /* nothing goes past the table then */
} hvd_engine_options_t;

extern const hvd_engine_t hvd_engine;

/* ERR_ARGUMENT: there is no engine of that name. */
kvs_status_t hvd_engine_check_name(const char *engine);

/* Carry out an exchange among the members of a party: as in ar_group.h. On the job's thread. */
kvs_status_t hvd_engine_reduce(hvd_job_t *job, const ar_party_t *party, int reduce,
                               const ar_data_t *data);
kvs_status_t hvd_engine_broadcast(hvd_job_t *job, const ar_party_t *party, int root,
                                  const ar_data_t *data);
hvd_quick_t *hvd_engine_quick(const hvd_job_t *job); /* NULL: not on this job's engine */
hvd_nccl_t *hvd_engine_nccl(const hvd_job_t *job); /* NULL: arrays on devices go through the host */
/* 0, or why it carries no arrays in host memory, with its text. */
kvs_status_t hvd_engine_check_host(const hvd_job_t *job);

#endif
