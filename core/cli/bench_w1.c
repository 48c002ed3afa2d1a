/* SPDX-License-Identifier: Apache-2.0 */
/* bench_w1.c - W1: one key, k arrays in, k arrays out, at four sizes. */
#include "bench_exchange.h"

#include <stdio.h>

#define SECONDS 0.6

static kvs_status_t run(const bench_exchange_spec_t *spec, bench_exchange_t *exchange, int pushpull)
{
    char workload[32];
    size_t n_bytes = (size_t)spec->shapes->dims[0] * sizeof(float);
    bench_row_t row = {
        .peer = "kvstore",
        .workload = workload,
        .size_bytes = n_bytes,
        .n_keys = 1,
        .n_threads = 1,
        .n_bytes = (double)n_bytes,
        .n_moved = (double)(spec->n_values + spec->n_outs + 1) * (double)n_bytes,
    };

    snprintf(workload, sizeof(workload), "W1_%sk%zu", pushpull ? "pushpull_" : "", spec->n_values);
    return bench_exchange_run(exchange, BENCH_LIST, pushpull, SECONDS, &row);
}

static kvs_status_t measure(const bench_t *bench, size_t n_bytes, size_t k)
{
    bench_shape_t shape = {1, {(int64_t)(n_bytes / sizeof(float))}};
    bench_exchange_spec_t spec = {.shapes = &shape, .n_keys = 1, .n_values = k, .n_outs = k};
    bench_exchange_t exchange;
    kvs_status_t status = bench_exchange_open(bench, &spec, &exchange);

    if (status != KVS_OK) {
        return status;
    }
    status = run(&spec, &exchange, 0);
    if (status == KVS_OK && bench->pushpull) {
        status = run(&spec, &exchange, 1);
    }
    return bench_exchange_close(&exchange, status);
}

kvs_status_t bench_w1(bench_t *bench)
{
    kvs_status_t status = KVS_OK;

    for (size_t k = 2; k <= 4; k += 2) {
        for (int i = 0; i < bench_n_sizes(bench) && status == KVS_OK; i++) {
            status = measure(bench, bench_size_bytes(i), k);
        }
    }
    return status;
}
