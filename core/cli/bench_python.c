/* SPDX-License-Identifier: Apache-2.0 */
/* bench_python.c - --python: what a call costs from Python. A push, a pull and a pushpull of 16 bytes in C,
 * then the same in two Python processes, with the extension and by ctypes alone, which print rows of
 * their own (kvstore/_bench.py). */
#include "bench.h"

#include <dlfcn.h>
#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#define SECONDS 0.4

extern char **environ;

typedef struct calls {
    kvs_store_t *store;
    kvs_key_t key;
    kvs_tensor_t value, out;
} calls_t;

static kvs_status_t push(void *arg)
{
    calls_t *calls = arg;
    kvs_arrays_t values = kvs_arrays(&calls->value, 1);

    return kvs_store_push(calls->store, &calls->key, 1, &values, NULL);
}

static kvs_status_t pull(void *arg)
{
    calls_t *calls = arg;
    kvs_arrays_t outs = kvs_arrays(&calls->out, 1);

    return kvs_store_pull(calls->store, &calls->key, 1, &outs, NULL);
}

static kvs_status_t pushpull(void *arg)
{
    calls_t *calls = arg;
    kvs_arrays_t values = kvs_arrays(&calls->value, 1), outs = kvs_arrays(&calls->out, 1);

    return kvs_store_pushpull(calls->store, &calls->key, 1, &values, &outs, NULL);
}

static kvs_status_t measure(const bench_t *bench, const char *name, bench_call_t call,
                            calls_t *calls, size_t n_bytes)
{
    bench_row_t row = {.peer = "kvstore",
                       .workload = name,
                       .size_bytes = n_bytes,
                       .n_keys = 1,
                       .n_threads = 1,
                       .n_bytes = (double)n_bytes};
    bench_times_t times;
    kvs_status_t status = bench_measure(bench, SECONDS, call, calls, &times);

    if (status == KVS_OK) {
        bench_print_row(bench, &row, &times);
    }
    return status;
}

static kvs_status_t measure_c(const bench_t *bench)
{
    static const int64_t shape[] = {2, 2};
    float value[4] = {1, 1, 1, 1}, out[4];
    kvs_tensor_t tensor = {.data = value,
                           .device = {KVS_DEVICE_CPU, 0},
                           .ndim = 2,
                           .dtype = kvs_dtype(KVS_DTYPE_float32),
                           .shape = shape};
    calls_t calls = {.key = kvs_key_int(3), .value = tensor, .out = tensor};
    kvs_arrays_t values = kvs_arrays(&calls.value, 1);
    kvs_status_t status = kvs_store_create(bench->backend, NULL, 0, &calls.store), closed;

    if (status != KVS_OK) {
        return status;
    }
    calls.out.data = out;
    status = kvs_store_init(calls.store, &calls.key, 1, &values, NULL);
    if (status == KVS_OK) {
        status = measure(bench, "c_push", push, &calls, sizeof(value));
    }
    if (status == KVS_OK) {
        status = measure(bench, "c_pull", pull, &calls, sizeof(value));
    }
    if (status == KVS_OK) {
        status = measure(bench, "c_pushpull", pushpull, &calls, sizeof(value));
    }
    closed = kvs_store_close(calls.store);
    return status != KVS_OK ? status : closed;
}

/* The library that this command uses, for Python to use the same. */
static void name_library(void)
{
    Dl_info info;

    if (dladdr((const void *)(uintptr_t)kvs_version, &info) != 0) {
        setenv("KVSTORE_LIBRARY", info.dli_fname, 0);
    }
}

static kvs_status_t run_python(const bench_t *bench, const char *fast)
{
    const char *python = getenv("KVSTORE_PYTHON");
    char *argv[] = {(char *)(uintptr_t)(python != NULL && python[0] != '\0' ? python : "python3"),
                    "-m",
                    "kvstore._bench",
                    (char *)(uintptr_t)bench->backend,
                    bench->json ? "json" : "table",
                    bench->quick ? "quick" : "full",
                    NULL};
    pid_t child;
    int how = 0, error;

    setenv("KVSTORE_PYTHON_FAST", fast, 1);
    error = posix_spawnp(&child, argv[0], NULL, NULL, argv, environ);
    if (error != 0) {
        return kvs_fail(KVS_ERR_UNAVAILABLE,
                        "%s can't be started: %s; KVSTORE_PYTHON names another", argv[0],
                        strerror(error));
    }
    while (waitpid(child, &how, 0) < 0 && errno == EINTR) {
    }
    return WIFEXITED(how) && WEXITSTATUS(how) == 0
               ? KVS_OK
               : kvs_fail(KVS_ERR_UNAVAILABLE,
                          "%s -m kvstore._bench failed; it needs the Python package kvstore "
                          "(python3-kvstore, or PYTHONPATH)",
                          argv[0]);
}

kvs_status_t bench_python(const bench_t *bench)
{
    kvs_status_t status = measure_c(bench);

    fflush(stdout);
    name_library();
    status = status == KVS_OK ? run_python(bench, "1") : status;
    return status == KVS_OK ? run_python(bench, "0") : status;
}
