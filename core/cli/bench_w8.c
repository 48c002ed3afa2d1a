/* SPDX-License-Identifier: Apache-2.0 */
/* bench_w8.c - W8: how soon a fresh process has pushed and pulled, and how much memory a store takes
 * beyond the data. The process is this program again; it writes its figures as one line. */
#include "bench_exchange.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define N_PROCESSES       9
#define QUICK_N_PROCESSES 2
#define FIRST_ELEMS       1024
#define N_KEYS            25
#define N_ELEMS           1000000

extern char **environ;

/* What a process tells: seconds from its start to the end of the first exchange, and bytes of memory:
 * resident then, and by how much that grew by storing the keys, and by exchanging them too. */
typedef struct figures {
    double first_s, base, stored, exchanged;
} figures_t;

/* ---- In the process that was started ------------------------------------------------------------- */

static double resident_bytes(void)
{
    FILE *file = fopen("/proc/self/statm", "re");
    long n_pages = 0;

    if (file != NULL) {
        if (fscanf(file, "%*s %ld", &n_pages) != 1) {
            n_pages = 0;
        }
        fclose(file);
    }
    return (double)n_pages * (double)sysconf(_SC_PAGESIZE);
}

/* Two values, one out. */
static kvs_status_t make_arrays(const bench_shape_t *shape, bench_arrays_t *ret_values,
                                bench_arrays_t *ret_outs)
{
    kvs_status_t status = bench_arrays_make(shape, 1, 2, 1, ret_values);

    return status != KVS_OK ? status : bench_arrays_make(shape, 1, 1, 0, ret_outs);
}

/* Push two arrays, pull one. */
static kvs_status_t exchange_one(kvs_store_t *store, const kvs_key_t *key,
                                 const bench_arrays_t *values, const bench_arrays_t *outs)
{
    kvs_arrays_t in = bench_arrays_of(values, 0), out = bench_arrays_of(outs, 0);
    kvs_status_t status = kvs_store_push(store, key, 1, &in, NULL);

    return status != KVS_OK ? status : kvs_store_pull(store, key, 1, &out, NULL);
}

static kvs_status_t init_one(kvs_store_t *store, const kvs_key_t *key, const bench_arrays_t *arrays)
{
    kvs_arrays_t value = kvs_arrays(arrays->tensors, 1);

    return kvs_store_init(store, key, 1, &value, NULL);
}

static kvs_status_t first_exchange(kvs_store_t *store, double started, figures_t *ret_figures)
{
    bench_shape_t shape = {1, {FIRST_ELEMS}};
    kvs_key_t key = kvs_key_int(0);
    bench_arrays_t values = {0}, outs = {0};
    kvs_status_t status = make_arrays(&shape, &values, &outs);

    if (status == KVS_OK) {
        status = init_one(store, &key, &values);
    }
    if (status == KVS_OK) {
        status = exchange_one(store, &key, &values, &outs);
    }
    ret_figures->first_s = bench_now() - started;
    ret_figures->base = resident_bytes();
    bench_arrays_release(&values);
    bench_arrays_release(&outs);
    return status;
}

/* Store 25 keys of 4 MB, and exchange each; the arrays of the application are not counted. */
static kvs_status_t grow(kvs_store_t *store, figures_t *figures)
{
    bench_shape_t shape = {1, {N_ELEMS}};
    bench_arrays_t values = {0}, outs = {0};
    kvs_status_t status = make_arrays(&shape, &values, &outs);
    double before = resident_bytes();

    for (int i = 1; i <= N_KEYS && status == KVS_OK; i++) {
        kvs_key_t key = kvs_key_int(i);

        status = init_one(store, &key, &values);
    }
    figures->stored = resident_bytes() - before;
    for (int i = 1; i <= N_KEYS && status == KVS_OK; i++) {
        kvs_key_t key = kvs_key_int(i);

        status = exchange_one(store, &key, &values, &outs);
    }
    figures->exchanged = resident_bytes() - before;
    bench_arrays_release(&values);
    bench_arrays_release(&outs);
    return status;
}

int bench_w8_child(const bench_t *bench, const char *started)
{
    figures_t figures = {0};
    kvs_store_t *store = NULL;
    kvs_status_t status = kvs_store_create(bench->backend, NULL, 0, &store), closed;

    if (status == KVS_OK) {
        status = first_exchange(store, strtod(started, NULL), &figures);
    }
    if (status == KVS_OK) {
        status = grow(store, &figures);
    }
    if (status != KVS_OK) {
        fprintf(stderr, "kvstore bench: %s\n", kvs_last_error());
    }
    closed = kvs_store_close(store);
    printf("%.9f %.0f %.0f %.0f\n", figures.first_s, figures.base, figures.stored,
           figures.exchanged);
    return status != KVS_OK || closed != KVS_OK;
}

/* ---- In the process that measures ---------------------------------------------------------------- */

/* Start this program again, its output going to `out`. 0, or an error number. */
static int start(const bench_t *bench, int out, pid_t *ret_pid)
{
    char started[40];
    char *argv[] = {"kvstore", "bench", "--started", started, "--backend", (char *)bench->backend,
                    "W8",      NULL};
    posix_spawn_file_actions_t actions;
    int error = posix_spawn_file_actions_init(&actions);

    if (error != 0) {
        return error;
    }
    error = posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
    if (error == 0) {
        snprintf(started, sizeof(started), "%.9f", bench_now());
        error = posix_spawn(ret_pid, "/proc/self/exe", &actions, NULL, argv, environ);
    }
    posix_spawn_file_actions_destroy(&actions);
    return error;
}

static kvs_status_t read_figures(FILE *in, pid_t pid, figures_t *ret_figures)
{
    int n = fscanf(in, "%lf %lf %lf %lf", &ret_figures->first_s, &ret_figures->base,
                   &ret_figures->stored, &ret_figures->exchanged);
    int how = 0;

    if (waitpid(pid, &how, 0) != pid || !WIFEXITED(how) || WEXITSTATUS(how) != 0 || n != 4) {
        return kvs_fail(KVS_ERR_IO, "the process that was started to be measured has failed");
    }
    return KVS_OK;
}

static kvs_status_t run_process(const bench_t *bench, figures_t *ret_figures)
{
    kvs_status_t status;
    int ends[2], error;
    pid_t pid;
    FILE *in;

    if (pipe2(ends, O_CLOEXEC) != 0) {
        return kvs_fail(KVS_ERR_IO, "no pipe to a process: %s", strerror(errno));
    }
    error = start(bench, ends[1], &pid);
    close(ends[1]);
    in = fdopen(ends[0], "r");
    if (error != 0) {
        status = kvs_fail(KVS_ERR_IO, "this program can't be started again: %s", strerror(error));
    } else if (in == NULL) {
        (void)waitpid(pid, NULL, 0); /* it ends by itself */
        status = kvs_fail(KVS_ERR_NO_MEMORY, "no memory to read from a process");
    } else {
        status = read_figures(in, pid, ret_figures);
    }
    if (in != NULL) {
        fclose(in);
    } else {
        close(ends[0]);
    }
    return status;
}

static void print_start(const bench_t *bench, const bench_times_t *times)
{
    bench_row_t row = {
        .peer = "kvstore",
        .workload = "W8_startup_first_pushpull",
        .size_bytes = FIRST_ELEMS * sizeof(float),
        .n_keys = 1,
        .n_threads = 1,
    };

    bench_print_row(bench, &row, times);
}

static void print_memory(const bench_t *bench, const char *workload, double n_bytes, int n_keys,
                         double ratio)
{
    bench_times_t no_times = {0};
    bench_row_t row = {
        .peer = "kvstore",
        .workload = workload,
        .size_bytes = (size_t)n_bytes,
        .n_keys = n_keys,
        .n_threads = 1,
        .rss_ratio = ratio,
    };

    bench_print_row(bench, &row, &no_times);
}

kvs_status_t bench_w8(bench_t *bench)
{
    double first[N_PROCESSES], base[N_PROCESSES], stored[N_PROCESSES], exchanged[N_PROCESSES];
    double n_bytes = (double)N_KEYS * N_ELEMS * sizeof(float);
    size_t n = bench->quick ? QUICK_N_PROCESSES : N_PROCESSES;
    bench_times_t times;

    for (size_t i = 0; i < n; i++) {
        figures_t figures;
        kvs_status_t status = run_process(bench, &figures);

        if (status != KVS_OK) {
            return status;
        }
        first[i] = figures.first_s;
        base[i] = figures.base;
        stored[i] = figures.stored;
        exchanged[i] = figures.exchanged;
    }
    times = bench_summary(first, n);
    print_start(bench, &times);
    print_memory(bench, "W8_rss_base", bench_summary(base, n).median, 0, 0);
    print_memory(bench, "W8_rss_100MB_init", n_bytes, N_KEYS,
                 bench_summary(stored, n).median / n_bytes);
    print_memory(bench, "W8_rss_100MB_after_k2", n_bytes, N_KEYS,
                 bench_summary(exchanged, n).median / n_bytes);
    return KVS_OK;
}
