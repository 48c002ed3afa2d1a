/* SPDX-License-Identifier: Apache-2.0 */
/* bench_w7.c - W7: an optimizer in the store: one push of one array of 25.6 million floats. First the two
 * that others are compared with, then every one that is installed, by its default parameters. */
#include "bench_exchange.h"
#include "bench_optimizers.h"

#include <kvstore/plugins.h>

#include <stdio.h>
#include <string.h>

#define SECONDS      1.0
#define ROW_LENGTH   1000
#define N_ROWS       25600
#define QUICK_N_ROWS 100

static kvs_status_t measure(const bench_t *bench, const char *name,
                            const kvs_optimizer_spec_t *optimizer, int n_streams)
{
    bench_shape_t shape = {2, {bench->quick ? QUICK_N_ROWS : N_ROWS, ROW_LENGTH}};
    bench_exchange_spec_t spec = {
        .shapes = &shape, .n_keys = 1, .n_values = 1, .optimizer = optimizer};
    size_t n_bytes = (size_t)bench_shape_n_elems(&shape) * sizeof(float);
    char workload[32];
    bench_row_t row = {
        .peer = "kvstore",
        .workload = workload,
        .size_bytes = n_bytes,
        .n_keys = 1,
        .n_threads = bench->n_threads,
        .n_bytes = (double)n_bytes * n_streams,
        .n_moved = (double)n_bytes * n_streams,
    };
    bench_exchange_t exchange;
    kvs_status_t status = bench_exchange_open(bench, &spec, &exchange);

    if (status != KVS_OK) {
        return status;
    }
    snprintf(workload, sizeof(workload), "W7_%s", name);
    status = bench_exchange_run(&exchange, BENCH_LIST, 0, SECONDS, &row);
    return bench_exchange_close(&exchange, status);
}

/* How often arrays as large as the weight pass through memory at least: the gradient; each state and
 * the weight, read and written. */
static int n_streams_of(const kvs_optimizer_info_t *info)
{
    int n = 3;

    for (size_t i = 0; i < info->n_states; i++) {
        n += info->states[i].by_default && !info->states[i].per_row ? 2 : 0;
    }
    return n;
}

static kvs_status_t measure_default(const bench_t *bench, const char *name)
{
    kvs_optimizer_spec_t optimizer = bench_optimizer(name, NULL, 0);
    kvs_optimizer_info_t *info = NULL;
    kvs_status_t status = kvs_optimizer_describe(name, &info);

    if (status == KVS_OK) {
        status = measure(bench, info->name, &optimizer, n_streams_of(info));
        kvs_optimizer_info_free(info);
    }
    return status;
}

static kvs_status_t measure_plugin(const bench_t *bench, const kvs_plugin_info_t *plugin)
{
    kvs_status_t status = KVS_OK;

    for (size_t i = 0; status == KVS_OK && i < plugin->n_provides; i++) {
        if (strcmp(plugin->provides[i].kind, "optimizer") == 0 &&
            strcmp(plugin->provides[i].name, "adam") != 0) { /* which was the second */
            status = measure_default(bench, plugin->provides[i].name);
        }
    }
    return status;
}

static kvs_status_t measure_installed(const bench_t *bench)
{
    kvs_plugin_list_t *list = NULL;
    kvs_status_t status = kvs_plugin_list(&list);

    for (size_t i = 0; status == KVS_OK && i < kvs_plugin_list_count(list); i++) {
        if (kvs_plugin_list_at(list, i)->state == KVS_PLUGIN_OK) {
            status = measure_plugin(bench, kvs_plugin_list_at(list, i));
        }
    }
    kvs_plugin_list_free(list);
    return status;
}

kvs_status_t bench_w7(bench_t *bench)
{
    kvs_optimizer_spec_t sgd = bench_sgdmom(), adam = bench_adam();
    kvs_status_t status = measure(bench, "sgdmom", &sgd, 5);

    if (status == KVS_OK) {
        status = measure(bench, "adam", &adam, 7);
    }
    return status != KVS_OK ? status : measure_installed(bench);
}
