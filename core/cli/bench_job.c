/* SPDX-License-Identifier: Apache-2.0 */
#include "bench_job.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define SECONDS 1.0

extern char **environ;

/* ---- In a worker --------------------------------------------------------------------------------- */

static int calls_of(size_t n_bytes)
{
    return n_bytes <= 64 ? 200 : n_bytes <= (64u << 10) ? 20 : n_bytes <= (1u << 20) ? 5 : 1;
}

static int number_of(const char *variable)
{
    const char *text = getenv(variable);

    return text == NULL ? 0 : atoi(text);
}

kvs_status_t bench_job_begin(bench_t *bench, const char *rows)
{
    const char *to = number_of("KVSTORE_RANK") == 0 ? rows : "/dev/null";

    if (freopen(to, "w", stdout) == NULL) {
        return kvs_fail(KVS_ERR_IO, "%s: %s", to, strerror(errno));
    }
    bench->n_ranks = number_of("KVSTORE_NUM_WORKERS");
    bench->pushpull = 1;
    return KVS_OK;
}

kvs_status_t bench_job_measure(bench_t *bench, const char *workload, const bench_shape_t *shapes,
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
            .n_threads = bench->n_ranks,
            .n_bytes = n_elems * sizeof(float),
        };

        bench->n_calls = calls_of(row.size_bytes);
        status = bench_exchange_run(&exchange, way, 1, SECONDS, &row);
        status = bench_exchange_close(&exchange, status);
    }
    return status;
}

/* ---- In the process that measures ---------------------------------------------------------------- */

static kvs_status_t run_job(const bench_t *bench, const char *backend, const char *workload,
                            int n_workers, const char *rows)
{
    char workers[16];
    char *argv[] = {"kvstore",
                    "run",
                    "-w",
                    workers,
                    "--backend",
                    (char *)(uintptr_t)backend,
                    "--",
                    "/proc/self/exe",
                    "bench",
                    "--backend",
                    (char *)(uintptr_t)backend,
                    "--rows",
                    (char *)(uintptr_t)rows,
                    (char *)(uintptr_t)workload,
                    bench->json ? "--json" : NULL,
                    NULL};
    int how = 0, error;
    pid_t pid;

    snprintf(workers, sizeof(workers), "%d", n_workers);
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

kvs_status_t bench_job_run(const bench_t *bench, const char *backend, const char *workload,
                           int n_workers)
{
    char rows[] = "/tmp/kvstore-bench-XXXXXX";
    int fd = mkstemp(rows);
    kvs_status_t status;

    if (fd < 0) {
        return kvs_fail(KVS_ERR_IO, "%s: %s", rows, strerror(errno));
    }
    close(fd);
    status = run_job(bench, backend, workload, n_workers, rows);
    print_file(rows);
    unlink(rows);
    return status;
}
