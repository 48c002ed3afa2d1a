/* SPDX-License-Identifier: Apache-2.0 */
/* bench_w4.c - W4: two workers and a server on this host; each worker pushes its array and gets the
 * sum. */
#include "bench_job.h"
#include "bench_resnet50.h"

#include <string.h>

#define N_WORKERS 2

kvs_status_t bench_w4_worker(bench_t *bench)
{
    bench_shape_t scalar = {1, {1}}, layers[BENCH_RESNET50_N];
    kvs_status_t status = bench_job_measure(bench, "W4_latency_s1", &scalar, 1, BENCH_LIST);

    for (int i = 0; i < bench_n_sizes(bench) && status == KVS_OK; i++) {
        bench_shape_t shape = {1, {(int64_t)(bench_size_bytes(i) / sizeof(float))}};

        status = bench_job_measure(bench, "W4_pushpull_s1", &shape, 1, BENCH_LIST);
    }
    if (status == KVS_OK && !bench->quick) {
        bench_resnet50(layers);
        status = bench_job_measure(bench, "W4_resnet50_s1", layers, BENCH_RESNET50_N, BENCH_EVENTS);
    }
    return status;
}

kvs_status_t bench_w4(bench_t *bench)
{
    const char *backend = strcmp(bench->backend, "local") == 0 ? "dist_sync" : bench->backend;

    return bench_job_run(bench, backend, "W4", N_WORKERS);
}
