/* SPDX-License-Identifier: Apache-2.0 */
/* staging.c - how fast arrays on a device come to host memory and back for backends that work there, against
 * plain copies to and from pinned memory: a table. The backend answers each value with itself: the next step
 * of a real one would come in between.
 *
 * KVSTORE_GPU_MIB: MiB of each array (256); KVSTORE_GPU_KEYS: how many are on their way at once (4). */
#include "host.h"
#include "pretend.h"

#include <kvstore/kit.h>

#include <stdlib.h>
#include <time.h>

#define MAX_KEYS 16
#define N_ROUNDS 6

const kvs_host_t *kvs_plugin_host;

/* ---- The backend --------------------------------------------------------------------------------------- */

typedef struct echo {
    kvs_devhost_t *devices;
    pthread_mutex_t lock;
    kvs_op_t *ops[MAX_KEYS]; /* guarded by lock, as what follows; NULL: free */
    size_t n_bytes[MAX_KEYS];
} echo_t;

/* Give back what has arrived since, and end what is whole. */
static void answer_locked(echo_t *echo, int i)
{
    kvs_op_t *op = echo->ops[i];
    size_t n_whole = (size_t)kvs_tensor_n_elems(&op->groups[0].values[0]) * sizeof(float), n_bytes;

    if (kvs_devhost_arrived(op, &op->groups[0], &n_bytes) != KVS_OK) {
        abort();
    }
    n_bytes = n_bytes < n_whole ? n_bytes : n_whole;
    kvs_devhost_wrote(op, &op->groups[0], (int64_t)(echo->n_bytes[i] / sizeof(float)),
                      (int64_t)((n_bytes - echo->n_bytes[i]) / sizeof(float)));
    echo->n_bytes[i] = n_bytes;
    if (n_bytes == n_whole) {
        echo->ops[i] = NULL;
        kvs_devhost_consumed(op);
        kvs_devhost_complete(op, KVS_OK);
    }
}

static void arrived(void *store)
{
    echo_t *echo = store;

    pthread_mutex_lock(&echo->lock);
    for (int i = 0; i < MAX_KEYS; i++) {
        if (echo->ops[i] != NULL) {
            answer_locked(echo, i);
        }
    }
    pthread_mutex_unlock(&echo->lock);
}

static kvs_status_t run_in_chunks(void *store, kvs_op_t *op)
{
    echo_t *echo = store;
    int i = 0;

    pthread_mutex_lock(&echo->lock);
    while (echo->ops[i] != NULL) { /* there are never more than keys */
        i++;
    }
    echo->ops[i] = op;
    echo->n_bytes[i] = 0;
    answer_locked(echo, i);
    pthread_mutex_unlock(&echo->lock);
    return KVS_OK;
}

static kvs_status_t run_whole(void *store, kvs_op_t *op)
{
    (void)store;
    kvs_devhost_consumed(op);
    kvs_devhost_complete(op, KVS_OK);
    return KVS_OK;
}

static kvs_status_t echo_open(void *store, const kvs_open_args_t *args)
{
    echo_t *echo = store;
    int is_whole = strcmp(args->type, "whole") == 0;

    pthread_mutex_init(&echo->lock, NULL);
    return kvs_devhost_new(&(kvs_devhost_args_t){.store = store,
                                                 .run = is_whole ? run_whole : run_in_chunks,
                                                 .arrived = is_whole ? NULL : arrived},
                           &echo->devices);
}

static kvs_status_t echo_close(void *store, int64_t timeout_ms)
{
    (void)timeout_ms;
    kvs_devhost_free(((echo_t *)store)->devices);
    return KVS_OK;
}

static kvs_status_t echo_run(void *store, kvs_op_t *op)
{
    return kvs_devhost_run(((echo_t *)store)->devices, op);
}

static const kvs_backend_ops_t ops = {.size = sizeof(ops),
                                      .mode = KVS_ASYNCHRONOUS,
                                      .store_size = sizeof(echo_t),
                                      .open = echo_open,
                                      .close = echo_close,
                                      .pushpull = echo_run};

static const int32_t device_types[] = {KVS_DEVICE_CPU, KVS_DEVICE_CUDA};

static const kvs_backend_t backend = {.size = sizeof(backend),
                                      .name = "echo",
                                      .dtypes = KVS_DTYPES_ALL,
                                      .n_device_types = 2,
                                      .device_types = device_types,
                                      .ops = &ops};

/* ---- Measuring ----------------------------------------------------------------------------------------- */

static double now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static size_t number_of(const char *variable, size_t preset)
{
    const char *text = getenv(variable);

    return text != NULL ? (size_t)atol(text) : preset;
}

/* The best of some rounds, in bytes a second that pass through host memory. */
static double rate_of(void (*round)(void *arg), void *arg, size_t n_bytes)
{
    double best = 1e9;

    for (int i = 0; i < N_ROUNDS; i++) {
        double begin = now();

        round(arg);
        best = now() - begin < best ? now() - begin : best;
    }
    return (double)n_bytes / best;
}

typedef struct plain {
    kvs_tensor_t tensor;
    void *pinned;
    size_t n_bytes;
    CUstream stream;
} plain_t;

static void read_plainly(void *arg)
{
    plain_t *plain = arg;

    pretend_read(0, plain->stream, &plain->tensor, plain->pinned, plain->n_bytes);
    pretend_sync(0, plain->stream);
}

static void write_plainly(void *arg)
{
    plain_t *plain = arg;

    pretend_write(0, plain->stream, &plain->tensor, plain->pinned, plain->n_bytes);
    pretend_sync(0, plain->stream);
}

static void measure_plain(const int64_t *n, double *ret_read, double *ret_write)
{
    plain_t plain = {.n_bytes = (size_t)*n * sizeof(float), .stream = pretend_stream(0)};
    kvs_device_t pinned = {KVS_DEVICE_CUDA_HOST, 0};

    plain.tensor = pretend_array(0, KVS_DTYPE_float32, n, NULL, 0);
    KT_OK(kvs_device_alloc(pinned, plain.n_bytes, &plain.pinned));
    *ret_read = rate_of(read_plainly, &plain, plain.n_bytes);
    *ret_write = rate_of(write_plainly, &plain, plain.n_bytes);
    kvs_device_free(pinned, plain.pinned, plain.n_bytes);
    pretend_free(&plain.tensor, 0);
}

typedef struct staged {
    kvs_store_t *store;
    size_t n_keys;
    kvs_tensor_t values[MAX_KEYS], outs[MAX_KEYS];
    CUstream stream;
} staged_t;

static void exchange_all(void *arg)
{
    staged_t *staged = arg;
    kvs_event_t *events[MAX_KEYS];

    for (size_t i = 0; i < staged->n_keys; i++) {
        kvs_key_t key = kvs_key_int((int64_t)i);
        kvs_arrays_t in = pretend_list(&staged->values[i], 1),
                     out = pretend_list(&staged->outs[i], 1);
        kvs_call_t call = KVS_CALL_INIT;

        call.ret_event = &events[i];
        KT_OK(kvs_store_pushpull(staged->store, &key, 1, &in, &out, &call));
    }
    for (size_t i = 0; i < staged->n_keys; i++) {
        KT_OK(kvs_event_wait(events[i], 60000));
        kvs_event_free(events[i]);
    }
    pretend_sync(0, staged->stream); /* it waits for the outs */
}

static double measure_staged(const char *type, const int64_t *n, size_t n_keys)
{
    staged_t staged = {.n_keys = n_keys, .stream = pretend_stream(0)};
    double rate;

    KT_OK(kvs_store_create(type, NULL, 0, &staged.store));
    for (size_t i = 0; i < n_keys; i++) {
        staged.values[i] = pretend_array(0, KVS_DTYPE_float32, n, NULL, 0);
        staged.outs[i] = pretend_array(0, KVS_DTYPE_float32, n, NULL, 0);
        staged.values[i].stream = staged.outs[i].stream = (int64_t)(intptr_t)staged.stream;
    }
    rate = rate_of(exchange_all, &staged, n_keys * (size_t)*n * sizeof(float));
    for (size_t i = 0; i < n_keys; i++) {
        pretend_free(&staged.values[i], 0);
        pretend_free(&staged.outs[i], 0);
    }
    KT_OK(kvs_store_close(staged.store));
    return rate;
}

static void print_row(const char *name, double rate)
{
    printf("%-28s %10.1f\n", name, rate / 1e9);
}

static void the_table(void)
{
    size_t mib = number_of("KVSTORE_GPU_MIB", 256), n_keys = number_of("KVSTORE_GPU_KEYS", 4);
    int64_t n = (int64_t)((mib << 20) / sizeof(float));
    double read, write;

    kvs_plugin_host = kvsi_host();
    KT_OK(kvs_register_backend("whole", &backend));
    KT_OK(kvs_register_backend("chunks", &backend));
    n_keys = n_keys < MAX_KEYS ? n_keys : MAX_KEYS;
    measure_plain(&n, &read, &write);
    printf("\n%-28s %10s   arrays of %zu MiB\n", "through pinned memory", "GB/s", mib);
    print_row("plain copy to the host", read);
    print_row("plain copy from the host", write);
    print_row("both, one after the other", 1 / (1 / read + 1 / write));
    print_row("there and back, whole", measure_staged("whole", &n, 1));
    print_row("there and back, in chunks", measure_staged("chunks", &n, 1));
    print_row("the same, several at once", measure_staged("chunks", &n, n_keys));
}

int main(int argc, char **argv)
{
    static const kt_test_t tests[] = {KT_TEST(the_table)};

    pretend_open();
    return kt_run("gpu_staging", tests, 1, argc, argv);
}
