/* SPDX-License-Identifier: Apache-2.0 */
/* bench_w4.c - W4: two workers and a server on this host; each worker pushes its array and gets the
 * sum. The job is this program under `kvstore run`; worker 0 writes the rows into a file that the
 * process which measures prints. All workers make the same calls, so their number is fixed by size. */
#include "bench_resnet50.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define N_WORKERS 2
#define SECONDS   1.0

extern char **environ;

/* ---- In a worker --------------------------------------------------------------------------------- */

static int calls_of(size_t n_bytes)
{
    return n_bytes <= (64u << 10) ? 20 : n_bytes <= (1u << 20) ? 5 : 1;
}

static kvs_status_t measure(bench_t *bench, const char *workload, const bench_shape_t *shapes,
                            size_t n_keys, bench_way_t way)
{
    bench_exchange_spec_t spec = {.shapes = shapes, .n_keys = n_keys, .n_values = 1, .n_outs = 1};
    bench_exchange_t exchange;
    double n_elems = 0;
    kvs_status_t status = bench_exchange_open(bench, &spec, &exchange);

    for (size_t i = 0; i < n_keys; i++) {
        n_elems += (double)bench_shape_n_elems(&shapes[i]);
    }
    if (status == KVS_OK) {
        bench_row_t row = {
            .peer = "kvstore",
            .workload = workload,
            .size_bytes = (size_t)(n_elems * sizeof(float)),
            .n_keys = (int)n_keys,
            .n_threads = N_WORKERS,
            .n_bytes = n_elems * sizeof(float),
        };

        bench->n_calls = calls_of(row.size_bytes);
        status = bench_exchange_run(&exchange, way, 1, SECONDS, &row);
        status = bench_exchange_close(&exchange, status);
    }
    return status;
}

static kvs_status_t measure_all(bench_t *bench)
{
    bench_shape_t scalar = {1, {1}}, layers[BENCH_RESNET50_N];
    kvs_status_t status = measure(bench, "W4_latency_s1", &scalar, 1, BENCH_LIST);

    for (int i = 0; i < bench_n_sizes(bench) && status == KVS_OK; i++) {
        bench_shape_t shape = {1, {(int64_t)(bench_size_bytes(i) / sizeof(float))}};

        status = measure(bench, "W4_pushpull_s1", &shape, 1, BENCH_LIST);
    }
    if (status == KVS_OK && !bench->quick) {
        bench_resnet50(layers);
        status = measure(bench, "W4_resnet50_s1", layers, BENCH_RESNET50_N, BENCH_EVENTS);
    }
    return status;
}

int bench_w4_worker(bench_t *bench, const char *rows)
{
    const char *rank = getenv("KVSTORE_RANK");
    int is_first = rank != NULL && strcmp(rank, "0") == 0;

    if (freopen(is_first ? rows : "/dev/null", "w", stdout) == NULL) {
        fprintf(stderr, "kvstore bench: %s: %s\n", rows, strerror(errno));
        return 1;
    }
    bench->n_ranks = N_WORKERS;
    bench->pushpull = 1;
    if (measure_all(bench) != KVS_OK) {
        fprintf(stderr, "kvstore bench: %s\n", kvs_last_error());
        return 1;
    }
    return 0;
}

/* ---- In the process that measures ---------------------------------------------------------------- */

/* Run the job; its own output goes to stderr's place only if it fails. */
static kvs_status_t run_job(const bench_t *bench, const char *backend, const char *rows)
{
    char workers[16];
    char *argv[] = {"kvstore",
                    "run",
                    "-w",
                    workers,
                    "-s",
                    "1",
                    "--backend",
                    (char *)backend,
                    "--",
                    "/proc/self/exe",
                    "bench",
                    "--backend",
                    (char *)backend,
                    "--rows",
                    (char *)rows,
                    "W4",
                    bench->json ? "--json" : NULL,
                    NULL};
    int how = 0, error;
    pid_t pid;

    snprintf(workers, sizeof(workers), "%d", N_WORKERS);
    fflush(stdout);
    error = posix_spawn(&pid, "/proc/self/exe", NULL, NULL, argv, environ);
    if (error != 0) {
        return kvs_fail(KVS_ERR_IO, "this program can't be started again: %s", strerror(error));
    }
    if (waitpid(pid, &how, 0) != pid || !WIFEXITED(how) || WEXITSTATUS(how) != 0) {
        return kvs_fail(KVS_ERR_IO, "the job that was to be measured has failed");
    }
    return KVS_OK;
}

static void print_file(const char *path)
{
    FILE *in = fopen(path, "re");
    char block[4096];
    size_t n;

    while (in != NULL && (n = fread(block, 1, sizeof(block), in)) > 0) {
        fwrite(block, 1, n, stdout);
    }
    if (in != NULL) {
        fclose(in);
    }
}

kvs_status_t bench_w4(bench_t *bench)
{
    const char *backend = strcmp(bench->backend, "local") == 0 ? "dist_sync" : bench->backend;
    char rows[] = "/tmp/kvstore-bench-XXXXXX";
    int fd = mkstemp(rows);
    kvs_status_t status;

    if (fd < 0) {
        return kvs_fail(KVS_ERR_IO, "%s: %s", rows, strerror(errno));
    }
    close(fd);
    status = run_job(bench, backend, rows);
    print_file(rows);
    unlink(rows);
    return status;
}
