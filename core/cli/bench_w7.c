/* SPDX-License-Identifier: Apache-2.0 */
/* bench_w7.c - W7: an optimizer in the store: one push of one array of 25.6 million floats. */
#include "bench_exchange.h"
#include "bench_optimizers.h"

#define SECONDS       1.0
#define N_ELEMS       25600000
#define QUICK_N_ELEMS 100000

typedef struct workload {
    const char *name;
    kvs_optimizer_spec_t optimizer;
    int n_streams; /* gradient; each state and the weight, read and written */
} workload_t;

static kvs_status_t measure(const bench_t *bench, const workload_t *workload)
{
    bench_shape_t shape = {1, {bench->quick ? QUICK_N_ELEMS : N_ELEMS}};
    bench_exchange_spec_t spec = {
        .shapes = &shape, .n_keys = 1, .n_values = 1, .optimizer = &workload->optimizer};
    size_t n_bytes = (size_t)shape.dims[0] * sizeof(float);
    bench_row_t row = {
        .peer = "kvstore",
        .workload = workload->name,
        .size_bytes = n_bytes,
        .n_keys = 1,
        .n_threads = bench->n_threads,
        .n_bytes = (double)n_bytes * workload->n_streams,
        .n_moved = (double)n_bytes * workload->n_streams,
    };
    bench_exchange_t exchange;
    kvs_status_t status = bench_exchange_open(bench, &spec, &exchange);

    if (status != KVS_OK) {
        return status;
    }
    status = bench_exchange_run(&exchange, BENCH_LIST, 0, SECONDS, &row);
    return bench_exchange_close(&exchange, status);
}

kvs_status_t bench_w7(bench_t *bench)
{
    workload_t sgd = {"W7_sgdmom", bench_sgdmom(), 5}, adam = {"W7_adam", bench_adam(), 7};
    kvs_status_t status = measure(bench, &sgd);

    return status != KVS_OK ? status : measure(bench, &adam);
}
