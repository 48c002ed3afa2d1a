/* SPDX-License-Identifier: Apache-2.0 */
/* bench_w6.c - W6: 2bit compression between two devices: push two arrays of one key. What is timed holds
 * everything that compression costs: quantise both, dequantise both, sum and store. */
#include "bench_exchange.h"

#include <string.h>

#define SECONDS   1.0
#define K         2
#define N_PLAIN   3 /* arrays that pass through memory: values, the stored value */
#define N_2BIT    7 /* and residuals, read and written */
#define FIRST     2 /* of the sizes: 4 MiB, which caches may hold, and 64 MiB */
#define THRESHOLD 1 /* ones come through whole, so that sums can be checked */

static const kvs_param_t two_bit[] = {
    {.name = "type", .type = KVS_PARAM_TEXT, .value.text = "2bit"},
    {.name = "threshold", .type = KVS_PARAM_FLOAT, .value.real = THRESHOLD},
};

typedef struct workload {
    const char *name;
    size_t n_outs;
    size_t n_compression; /* parameters of it */
    double n_arrays;
} workload_t;

static kvs_status_t measure(const bench_t *bench, const workload_t *workload, size_t n_bytes)
{
    bench_shape_t shape = {1, {(int64_t)(n_bytes / sizeof(float))}};
    bench_exchange_spec_t spec = {
        .shapes = &shape,
        .n_keys = 1,
        .n_values = K,
        .n_outs = workload->n_outs,
        .compression = two_bit,
        .n_compression = workload->n_compression,
    };
    bench_row_t row = {
        .peer = "kvstore",
        .workload = workload->name,
        .size_bytes = n_bytes,
        .n_keys = 1,
        .n_threads = bench->n_threads,
        .n_bytes = (double)n_bytes * K,
        .n_moved = (double)n_bytes * workload->n_arrays,
    };
    bench_exchange_t exchange;
    kvs_status_t status = bench_exchange_open(bench, &spec, &exchange);

    if (status != KVS_OK) {
        return status;
    }
    status = bench_exchange_run(&exchange, BENCH_LIST, 0, SECONDS, &row);
    return bench_exchange_close(&exchange, status);
}

/* `local`, which stands for "none was named", does not compress. */
static const char *choose_backend(const bench_t *bench)
{
    return strcmp(bench->backend, "local") == 0 ? "device" : bench->backend;
}

kvs_status_t bench_w6(bench_t *bench)
{
    static const workload_t workloads[] = {
        {"W6_2bit", 0, 2, N_2BIT},
        {"W6_device_k2_2bit", K, 2, N_2BIT + 1 + K},
        {"W6_device_k2_none", K, 0, N_PLAIN + 1 + K},
    };
    int first = bench->quick ? 1 : FIRST;
    bench_t own = *bench;
    kvs_status_t status = KVS_OK;

    own.backend = choose_backend(bench);
    for (size_t w = 0; w < sizeof(workloads) / sizeof(workloads[0]); w++) {
        for (int i = first; i < bench_n_sizes(bench) && status == KVS_OK; i++) {
            status = measure(&own, &workloads[w], bench_size_bytes(i));
        }
    }
    return status;
}
