/* SPDX-License-Identifier: Apache-2.0 */
/* bench_w2.c - W2: a thousand keys of 1 KiB: what a call and a key cost. */
#include "bench_exchange.h"

#include <stdio.h>

#define SECONDS 0.6
#define N_KEYS  1000
#define N_ELEMS 256

static kvs_status_t run(bench_exchange_t *exchange, bench_way_t way, int pushpull)
{
    char workload[32];
    bench_row_t row = {
        .peer = "kvstore",
        .workload = workload,
        .size_bytes = N_ELEMS * sizeof(float),
        .n_keys = N_KEYS,
        .n_threads = 1,
        .n_bytes = (double)N_KEYS * N_ELEMS * sizeof(float),
    };

    snprintf(workload, sizeof(workload), "W2_%s%s%s", pushpull ? "pushpull_" : "",
             way == BENCH_LIST ? "listcall" : "percall", exchange->spec.n_values == 2 ? "_k2" : "");
    return bench_exchange_run(exchange, way, pushpull, SECONDS, &row);
}

static kvs_status_t measure(const bench_t *bench, const bench_shape_t *shapes, size_t k)
{
    bench_exchange_spec_t spec = {.shapes = shapes, .n_keys = N_KEYS, .n_values = k, .n_outs = 1};
    bench_exchange_t exchange;
    kvs_status_t status = bench_exchange_open(bench, &spec, &exchange);

    if (status != KVS_OK) {
        return status;
    }
    for (int pushpull = 0; pushpull <= bench->pushpull && status == KVS_OK; pushpull++) {
        status = run(&exchange, BENCH_LIST, pushpull);
        if (status == KVS_OK) {
            status = run(&exchange, BENCH_EACH, pushpull);
        }
    }
    return bench_exchange_close(&exchange, status);
}

kvs_status_t bench_w2(bench_t *bench)
{
    bench_shape_t shapes[N_KEYS];
    kvs_status_t status;

    for (size_t i = 0; i < N_KEYS; i++) {
        shapes[i] = (bench_shape_t){1, {N_ELEMS}};
    }
    status = measure(bench, shapes, 1);
    return status != KVS_OK ? status : measure(bench, shapes, 2);
}
