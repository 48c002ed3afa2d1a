/* SPDX-License-Identifier: Apache-2.0 */
/* bandwidth.c - how near kernels come to what the device's memory can do: a table, a line for each kind of
 * work. Each goes over keys that together exceed the caches, all queued before anything is waited for.
 *
 * KVSTORE_GPU_MIB: MiB of each array (256); KVSTORE_GPU_ALL_MIB: of all arrays (4096). */
#include "pretend.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>

typedef struct work {
    const char *name;
    const char *optimizer;
    int dtype, n_values, n_outs;
    double bytes;  /* read and written an element */
    int64_t width; /* of rows, every second of which is given; 0: arrays are dense */
} work_t;

static const work_t works[] = {
    {"copy", NULL, KVS_DTYPE_float32, 0, 1, 8, 0},
    {"sum of 2", NULL, KVS_DTYPE_float32, 2, 0, 12, 0},
    {"sum of 4", NULL, KVS_DTYPE_float32, 4, 0, 20, 0},
    {"sum of 8", NULL, KVS_DTYPE_float32, 8, 0, 36, 0},
    {"sum of 2, float16", NULL, KVS_DTYPE_float16, 2, 0, 6, 0},
    {"sum of 2, bfloat16", NULL, KVS_DTYPE_bfloat16, 2, 0, 6, 0},
    {"sgd", "sgd", KVS_DTYPE_float32, 1, 0, 12, 0},
    {"sgd, momentum", "nag", KVS_DTYPE_float32, 1, 0, 20, 0},
    {"adam", "adam", KVS_DTYPE_float32, 1, 0, 28, 0},
    {"rows copied", NULL, KVS_DTYPE_float32, 0, 1, 8, 1024},
    {"rows, sum of 2", NULL, KVS_DTYPE_float32, 2, 0, 12, 1024},
    {"rows, adagrad", "adagrad", KVS_DTYPE_float32, 1, 0, 20, 1024},
};

static double now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

/* What the memory can do, in bytes a second, as the driver tells clock and width; 0 if it doesn't. */
static double peak_of(int device)
{
    void *library =
        dlopen(getenv("KVSTORE_TEST_GPU") != NULL ? "libcuda.so.1" : getenv("KVSTORE_CUDA_DRIVER"),
               RTLD_NOW);
    CUresult (*get)(int *, CUdevice_attribute, CUdevice) =
        (CUresult(*)(int *, CUdevice_attribute, CUdevice))(uintptr_t)dlsym(library,
                                                                           "cuDeviceGetAttribute");
    int khz = 0, bits = 0;

    (void)get(&khz, CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, device);
    (void)get(&bits, CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, device);
    return 2e3 * khz * bits / 8;
}

typedef struct bench {
    const work_t *work;
    kvs_store_t *store;
    kvs_tensor_t *tensors; /* of each key its values, or its outs */
    int n_keys, n_per_key;
    int64_t shape[2];
    int64_t
        *ids; /* of all arrays of rows, which are listed one by one in `rows`, and to be pulled */
    kvs_rows_t *rows;
    kvs_tensor_t row_ids;
} bench_t;

static kvs_status_t pull(const bench_t *bench, const kvs_key_t *key, const kvs_arrays_t *list)
{
    kvs_arrays_t row_ids = pretend_list(&bench->row_ids, 1);

    return bench->work->width > 0
               ? kvs_store_row_sparse_pull(bench->store, key, 1, list, &row_ids, NULL)
               : kvs_store_pull(bench->store, key, 1, list, NULL);
}

static void run_once(const bench_t *bench)
{
    for (int k = 0; k < bench->n_keys; k++) {
        kvs_key_t key = kvs_key_int(k);
        kvs_arrays_t list =
            pretend_list(&bench->tensors[k * bench->n_per_key], (size_t)bench->n_per_key);

        KT_OK(bench->work->n_values > 0 ? kvs_store_push(bench->store, &key, 1, &list, NULL)
                                        : pull(bench, &key, &list));
    }
}

/* Let the arrays be those rows; outs have their own lists of ids, though all are the same. */
static void make_rows(bench_t *bench, int64_t n)
{
    int64_t n_listed = n / bench->work->width;
    size_t n_arrays = (size_t)(bench->n_keys * bench->n_per_key);

    bench->shape[0] = 2 * n_listed;
    bench->shape[1] = bench->work->width;
    bench->ids = malloc((n_arrays + 1) * (size_t)n_listed * sizeof(*bench->ids));
    bench->rows = calloc(n_arrays + 1, sizeof(*bench->rows));
    for (size_t a = 0; a <= n_arrays; a++) {
        int64_t *ids = bench->ids + (int64_t)a * n_listed;

        for (int64_t i = 0; i < n_listed; i++) {
            ids[i] = 2 * i;
        }
        bench->rows[a] = (kvs_rows_t){ids, n_listed, n_listed};
    }
    bench->row_ids = kt_tensor(bench->ids + (int64_t)n_arrays * n_listed, KVS_DTYPE_int64,
                               &bench->rows[0].capacity, 1);
    for (size_t a = 0; a < n_arrays; a++) {
        bench->tensors[a].ndim = 2;
        bench->tensors[a].shape = bench->shape;
        bench->tensors[a].rows = &bench->rows[a];
    }
}

static void make_arrays(bench_t *bench, const int64_t *n, CUstream stream)
{
    for (int i = 0; i < bench->n_keys * bench->n_per_key; i++) {
        bench->tensors[i] = pretend_array(0, bench->work->dtype, n, NULL, 0);
        bench->tensors[i].stream = (int64_t)(intptr_t)stream;
    }
    if (bench->work->width > 0) {
        make_rows(bench, *n);
    }
}

static void set_up(bench_t *bench)
{
    const work_t *work = bench->work;

    KT_OK(kvs_store_create("device", NULL, 0, &bench->store));
    if (work->optimizer != NULL) {
        kvs_optimizer_spec_t spec = KVS_OPTIMIZER_INIT;

        spec.name = work->optimizer;
        KT_OK(kvs_store_set_optimizer(bench->store, &spec));
    }
    for (int k = 0; k < bench->n_keys; k++) {
        kvs_key_t key = kvs_key_int(k);
        kvs_arrays_t list = pretend_list(&bench->tensors[k * bench->n_per_key], 1);

        KT_OK(kvs_store_init(bench->store, &key, 1, &list, NULL));
        KT_OK(kvs_store_push(bench->store, &key, 1, &list, NULL)); /* the weight moves out */
    }
}

static double measure(const work_t *work, int64_t n, size_t all_bytes)
{
    size_t n_bytes = (size_t)n * pretend_elem_bytes(work->dtype);
    int n_arrays = work->n_values + work->n_outs;
    CUstream stream = pretend_stream(0);
    bench_t bench = {.work = work, .n_per_key = n_arrays};
    double best = 1e9;

    bench.n_keys =
        (int)(all_bytes / (n_bytes * (size_t)(n_arrays + (work->width > 0 ? 6 : 3)))) + 1;
    bench.tensors = calloc((size_t)(bench.n_keys * n_arrays), sizeof(*bench.tensors));
    make_arrays(&bench, &n, stream);
    set_up(&bench);
    for (int round = 0; round < 6; round++) {
        double begin;

        pretend_sync(0, stream);
        begin = now();
        run_once(&bench);
        pretend_sync(0, stream); /* which waits for the work */
        if (round > 0 && now() - begin < best) {
            best = now() - begin;
        }
    }
    double rate = work->bytes * (double)n * bench.n_keys / best;

    for (int i = 0; i < bench.n_keys * n_arrays; i++) {
        pretend_free(&bench.tensors[i], 0);
    }
    free(bench.tensors);
    free(bench.ids);
    free(bench.rows);
    KT_OK(kvs_store_close(bench.store));
    return rate;
}

static size_t number_of(const char *variable, size_t preset)
{
    const char *text = getenv(variable);

    return text != NULL ? (size_t)atol(text) : preset;
}

static void the_table(void)
{
    size_t mib = number_of("KVSTORE_GPU_MIB", 256);
    size_t all_mib = number_of("KVSTORE_GPU_ALL_MIB", 4096);
    double peak = peak_of(0);

    printf("\n%-20s %10s %8s   arrays of %zu MiB\n", "work", "GB/s", "of peak", mib);
    for (size_t i = 0; i < sizeof(works) / sizeof(works[0]); i++) {
        int64_t n = (int64_t)((mib << 20) / pretend_elem_bytes(works[i].dtype));
        double rate = measure(&works[i], n, all_mib << 20);

        printf("%-20s %10.1f", works[i].name, rate / 1e9);
        if (peak > 0) {
            printf(" %7.1f%%", 100 * rate / peak);
        }
        printf("\n");
    }
    if (peak > 0) {
        printf("%-20s %10.1f\n", "peak, by the driver", peak / 1e9);
    }
}

int main(int argc, char **argv)
{
    static const kt_test_t tests[] = {KT_TEST(the_table)};

    pretend_open();
    return kt_run("gpu_bandwidth", tests, 1, argc, argv);
}
