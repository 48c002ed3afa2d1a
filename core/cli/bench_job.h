/* SPDX-License-Identifier: Apache-2.0 */
/* bench_job.h - workloads of several processes. The job is this program under `kvstore run`; worker 0
 * writes the rows into a file that the process which measures prints. All workers make the same calls,
 * so their number is fixed by size. */
#ifndef KVS_CLI_BENCH_JOB_H
#define KVS_CLI_BENCH_JOB_H

#include "bench_exchange.h"

/* In the process that measures: run `workload` on so many workers, and on as many servers as the backend
 * needs, at most one. */
kvs_status_t bench_job_run(const bench_t *bench, const char *backend, const char *workload,
                           int n_workers);

/* In a worker: `rows` is where worker 0's go. */
kvs_status_t bench_job_begin(bench_t *bench, const char *rows);
/* A pushpull of these keys by each worker. */
kvs_status_t bench_job_measure(bench_t *bench, const char *workload, const bench_shape_t *shapes,
                               size_t n_keys, bench_way_t way);

#endif
