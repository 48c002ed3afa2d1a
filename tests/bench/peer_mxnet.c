/* SPDX-License-Identifier: Apache-2.0 */
/* peer_mxnet.c - W1, W2 and W3 on MXNet's "local" store through its C API, without Python's cost.
 *
 * peer_mxnet LIBMXNET PEER WORKLOAD... prints the rows of `kvstore bench --json`, with whose sampler,
 * shapes and printer it is built (core/cli/bench_*.c). libmxnet has no header here: its functions are
 * declared below, as far as they are used, and looked up by name. */
#include "bench_resnet50.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef void *handle_t;
typedef int exchange_fn_t(handle_t store, uint32_t n, const char **keys, handle_t *arrays,
                          int priority);

static struct {
    int (*array_create)(const uint32_t *shape, uint32_t ndim, int device_type, int device_id,
                        int delay, int dtype, handle_t *ret_array);
    int (*array_data)(handle_t array, void **ret_data);
    int (*array_free)(handle_t array);
    int (*wait_all)(void);
    int (*store_create)(const char *type, handle_t *ret_store);
    int (*store_free)(handle_t store);
    int (*store_init)(handle_t store, uint32_t n, const char **keys, handle_t *arrays);
    exchange_fn_t *push, *pull;
    const char *(*last_error)(void);
} mx;

#define CPU     1
#define FLOAT32 0

static void check(int failed)
{
    if (failed) {
        fprintf(stderr, "peer_mxnet: %s\n", mx.last_error());
        exit(1);
    }
}

static void load(const char *path)
{
    const struct {
        void *function;
        const char *name;
    } symbols[] = {
        {&mx.array_create, "MXNDArrayCreateEx"}, {&mx.array_data, "MXNDArrayGetData"},
        {&mx.array_free, "MXNDArrayFree"},       {&mx.wait_all, "MXNDArrayWaitAll"},
        {&mx.store_create, "MXKVStoreCreate"},   {&mx.store_free, "MXKVStoreFree"},
        {&mx.store_init, "MXKVStoreInitEx"},     {&mx.push, "MXKVStorePushEx"},
        {&mx.pull, "MXKVStorePullEx"},           {&mx.last_error, "MXGetLastError"},
    };
    void *library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);

    for (size_t i = 0; library != NULL && i < sizeof(symbols) / sizeof(symbols[0]); i++) {
        void *address = dlsym(library, symbols[i].name);

        memcpy(symbols[i].function, &address, sizeof(address));
        library = address != NULL ? library : NULL;
    }
    if (library == NULL) {
        fprintf(stderr, "peer_mxnet: %s\n", dlerror());
        exit(1);
    }
}

/* ---- A store, its keys and arrays ---------------------------------------------------------------- */

#define MAX_ARRAYS 2048

typedef struct exchange {
    handle_t store;
    int n_keys, n_values, n_outs; /* arrays for each key */
    int by_key;                   /* a call for each key, with its priority */
    /* keys, once for each array, as MXNet takes them */
    const char *value_keys[MAX_ARRAYS], *out_keys[MAX_ARRAYS];
    handle_t values[MAX_ARRAYS], outs[MAX_ARRAYS];
} exchange_t;

static handle_t make_array(const bench_shape_t *shape, float value)
{
    uint32_t dims[4];
    handle_t array;
    void *data;

    for (int32_t i = 0; i < shape->ndim; i++) {
        dims[i] = (uint32_t)shape->dims[i];
    }
    check(mx.array_create(dims, (uint32_t)shape->ndim, CPU, 0, 0, FLOAT32, &array));
    check(mx.array_data(array, &data));
    for (int64_t i = 0; i < bench_shape_n_elems(shape); i++) {
        ((float *)data)[i] = value;
    }
    return array;
}

static void add_key(exchange_t *exchange, int key, const bench_shape_t *shape)
{
    handle_t zero = make_array(shape, 0);
    char text[16];
    const char *name;

    snprintf(text, sizeof(text), "k%d", key);
    name = strdup(text); /* lives as long as the program */
    for (int i = key * exchange->n_values; i < (key + 1) * exchange->n_values; i++) {
        exchange->value_keys[i] = name;
        exchange->values[i] = make_array(shape, 1);
    }
    for (int i = key * exchange->n_outs; i < (key + 1) * exchange->n_outs; i++) {
        exchange->out_keys[i] = name;
        exchange->outs[i] = make_array(shape, 0);
    }
    check(mx.store_init(exchange->store, 1, &name, &zero));
    check(mx.wait_all());
    check(mx.array_free(zero));
}

static exchange_t *open_exchange(const bench_shape_t *shapes, int n_keys, int n_values, int n_outs)
{
    exchange_t *exchange = calloc(1, sizeof(*exchange));

    if (exchange == NULL) {
        perror("peer_mxnet");
        exit(1);
    }
    exchange->n_keys = n_keys;
    exchange->n_values = n_values;
    exchange->n_outs = n_outs;
    check(mx.store_create("local", &exchange->store));
    for (int i = 0; i < n_keys; i++) {
        add_key(exchange, i, &shapes[i]);
    }
    return exchange;
}

static void close_exchange(exchange_t *exchange)
{
    for (int i = 0; i < exchange->n_keys * exchange->n_values; i++) {
        check(mx.array_free(exchange->values[i]));
    }
    for (int i = 0; i < exchange->n_keys * exchange->n_outs; i++) {
        check(mx.array_free(exchange->outs[i]));
    }
    check(mx.store_free(exchange->store));
    free(exchange);
}

/* ---- Measuring ----------------------------------------------------------------------------------- */

static void exchange_keys(exchange_t *exchange, int first, int n_keys, int priority)
{
    int value = first * exchange->n_values, out = first * exchange->n_outs;

    check(mx.push(exchange->store, (uint32_t)(n_keys * exchange->n_values),
                  exchange->value_keys + value, exchange->values + value, priority));
    check(mx.pull(exchange->store, (uint32_t)(n_keys * exchange->n_outs), exchange->out_keys + out,
                  exchange->outs + out, priority));
}

static kvs_status_t exchange_all(void *arg)
{
    exchange_t *exchange = arg;

    if (exchange->by_key) {
        for (int i = 0; i < exchange->n_keys; i++) {
            exchange_keys(exchange, i, 1, -i);
        }
    } else {
        exchange_keys(exchange, 0, exchange->n_keys, 0);
    }
    check(mx.wait_all());
    return KVS_OK;
}

static void check_sums(const exchange_t *exchange, const char *workload)
{
    for (int i = 0; i < exchange->n_keys * exchange->n_outs; i++) {
        void *data;

        check(mx.array_data(exchange->outs[i], &data));
        if (*(float *)data != (float)exchange->n_values) {
            fprintf(stderr, "peer_mxnet: %s: an out holds %g\n", workload, *(float *)data);
            exit(1);
        }
    }
}

static void run(const bench_t *bench, exchange_t *exchange, int by_key, double seconds,
                const bench_row_t *row)
{
    bench_times_t times;

    exchange->by_key = by_key;
    (void)bench_measure(bench, seconds, exchange_all, exchange,
                        &times); /* check() ends the program */
    check_sums(exchange, row->workload);
    bench_print_row(bench, row, &times);
}

static void w1(const bench_t *bench, const char *peer)
{
    for (int k = 2; k <= 4; k += 2) {
        for (int i = 0; i < bench_n_sizes(bench); i++) {
            size_t n_bytes = bench_size_bytes(i);
            bench_shape_t shape = {1, {(int64_t)(n_bytes / sizeof(float))}};
            exchange_t *exchange = open_exchange(&shape, 1, k, k);
            bench_row_t row = {peer, k == 2 ? "W1_k2" : "W1_k4", n_bytes, 1, 1, (double)n_bytes, 0,
                               0};

            run(bench, exchange, 0, 0.6, &row);
            close_exchange(exchange);
        }
    }
}

#define W2_N_KEYS 1000

static void w2(const bench_t *bench, const char *peer)
{
    static const char *const names[2][2] = {{"W2_listcall", "W2_percall"},
                                            {"W2_listcall_k2", "W2_percall_k2"}};
    static bench_shape_t shapes[W2_N_KEYS];

    for (int i = 0; i < W2_N_KEYS; i++) {
        shapes[i] = (bench_shape_t){1, {256}};
    }
    for (int k = 1; k <= 2; k++) {
        exchange_t *exchange = open_exchange(shapes, W2_N_KEYS, k, 1);

        for (int by_key = 0; by_key < 2; by_key++) {
            bench_row_t row = {peer, names[k - 1][by_key], 1024, W2_N_KEYS, 1, 1024e3, 0, 0};

            run(bench, exchange, by_key, 0.6, &row);
        }
        close_exchange(exchange);
    }
}

static void w3(const bench_t *bench, const char *peer)
{
    bench_shape_t shapes[BENCH_RESNET50_N];
    size_t n_bytes = 0;
    exchange_t *exchange;

    bench_resnet50(shapes);
    for (int i = 0; i < BENCH_RESNET50_N; i++) {
        n_bytes += (size_t)bench_shape_n_elems(&shapes[i]) * sizeof(float);
    }
    exchange = open_exchange(shapes, BENCH_RESNET50_N, 2, 2);
    bench_row_t row = {peer, "W3_k2", n_bytes, BENCH_RESNET50_N, 1, (double)n_bytes, 0, 0};

    run(bench, exchange, 1, 1.5, &row);
    close_exchange(exchange);
}

int main(int argc, char **argv)
{
    const char *quick = getenv("KVSTORE_BENCH_QUICK");
    bench_t bench = {.backend = "local", .json = 1};

    if (argc < 4) {
        fprintf(stderr, "usage: peer_mxnet LIBMXNET PEER WORKLOAD...\n");
        return 2;
    }
    bench.quick = quick != NULL && quick[0] != '\0' && strcmp(quick, "0") != 0;
    load(argv[1]);
    for (int i = 3; i < argc; i++) {
        if (strcmp(argv[i], "W1") == 0) {
            w1(&bench, argv[2]);
        } else if (strcmp(argv[i], "W2") == 0) {
            w2(&bench, argv[2]);
        } else if (strcmp(argv[i], "W3") == 0) {
            w3(&bench, argv[2]);
        }
    }
    return 0;
}
