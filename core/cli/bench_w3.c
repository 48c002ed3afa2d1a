/* SPDX-License-Identifier: Apache-2.0 */
/* bench_w3.c - W3: a training step's traffic: the parameters of ResNet-50 on two devices, with and
 * without SGD with momentum in the store. */
#include "bench_optimizers.h"
#include "bench_resnet50.h"

#include <stdio.h>

#define SECONDS     1.5
#define QUICK_ELEMS 64 /* of an axis */
#define SUM_STREAMS 5  /* arrays that pass through memory: values, stored value, outs */
#define SGD_STREAMS 8  /* and momentum read and written, the stored value read */
#define N_DEVICES   2

static double n_bytes_of(const bench_exchange_spec_t *spec)
{
    double n_elems = 0;

    for (size_t i = 0; i < spec->n_keys; i++) {
        n_elems += (double)bench_shape_n_elems(&spec->shapes[i]);
    }
    return n_elems * sizeof(float);
}

static kvs_status_t run(bench_exchange_t *exchange, bench_way_t way, int pushpull)
{
    const bench_exchange_spec_t *spec = &exchange->spec;
    double n_bytes = n_bytes_of(spec);
    char workload[40];
    bench_row_t row = {
        .peer = "kvstore",
        .workload = workload,
        .size_bytes = (size_t)n_bytes,
        .n_keys = (int)spec->n_keys,
        .n_threads = 1,
        .n_bytes = n_bytes,
        .n_moved = n_bytes * (spec->optimizer == NULL ? SUM_STREAMS : SGD_STREAMS),
    };

    snprintf(workload, sizeof(workload), "W3_%s%sk%d%s", pushpull ? "pushpull_" : "",
             way == BENCH_LIST ? "list_" : "", N_DEVICES, spec->optimizer == NULL ? "" : "_sgdmom");
    return bench_exchange_run(exchange, way, pushpull, SECONDS, &row);
}

static kvs_status_t measure(const bench_t *bench, const bench_exchange_spec_t *spec)
{
    bench_exchange_t exchange;
    kvs_status_t status = bench_exchange_open(bench, spec, &exchange);

    if (status != KVS_OK) {
        return status;
    }
    for (int pushpull = 0; pushpull <= bench->pushpull && status == KVS_OK; pushpull++) {
        status = run(&exchange, BENCH_EVENTS, pushpull);
        if (status == KVS_OK) {
            status = run(&exchange, BENCH_LIST, pushpull);
        }
    }
    return bench_exchange_close(&exchange, status);
}

static void shrink(bench_shape_t *shapes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        for (int32_t axis = 0; axis < shapes[i].ndim; axis++) {
            int64_t *dim = &shapes[i].dims[axis];

            *dim = *dim > QUICK_ELEMS ? QUICK_ELEMS : *dim;
        }
    }
}

kvs_status_t bench_w3(bench_t *bench)
{
    bench_shape_t shapes[BENCH_RESNET50_N];
    kvs_optimizer_spec_t sgd = bench_sgdmom();
    bench_exchange_spec_t spec = {
        .shapes = shapes,
        .n_keys = BENCH_RESNET50_N,
        .n_values = N_DEVICES,
        .n_outs = N_DEVICES,
    };
    kvs_status_t status;

    bench_resnet50(shapes);
    if (bench->quick) {
        shrink(shapes, BENCH_RESNET50_N);
    }
    status = measure(bench, &spec);
    spec.optimizer = &sgd;
    return status != KVS_OK ? status : measure(bench, &spec);
}
