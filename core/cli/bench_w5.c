/* SPDX-License-Identifier: Apache-2.0 */
/* bench_w5.c - W5: the sum of an array over two and over four processes of this host, without servers. */
#include "bench_job.h"
#include "bench_resnet50.h"

#include <string.h>

kvs_status_t bench_w5_worker(bench_t *bench)
{
    bench_shape_t scalar = {1, {1}}, layers[BENCH_RESNET50_N];
    kvs_status_t status = bench_job_measure(bench, "W5_latency", &scalar, 1, BENCH_LIST);

    for (int i = 0; i < bench_n_sizes(bench) && status == KVS_OK; i++) {
        bench_shape_t shape = {1, {(int64_t)(bench_size_bytes(i) / sizeof(float))}};

        status = bench_job_measure(bench, "W5_allreduce", &shape, 1, BENCH_LIST);
    }
    if (status == KVS_OK && !bench->quick) {
        bench_resnet50(layers);
        status = bench_job_measure(bench, "W5_resnet50", layers, BENCH_RESNET50_N, BENCH_EVENTS);
    }
    return status;
}

kvs_status_t bench_w5(bench_t *bench)
{
    const char *backend = strcmp(bench->backend, "local") == 0 ? "horovod" : bench->backend;
    kvs_status_t status = bench_job_run(bench, backend, "W5", 2);

    return status == KVS_OK ? bench_job_run(bench, backend, "W5", 4) : status;
}
