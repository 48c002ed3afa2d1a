/* SPDX-License-Identifier: Apache-2.0 */
/* peer_mpi.c - W5 through an MPI: MPI_Allreduce of ones, two buffers, and in place. Run by mpirun; the
 * first process writes the rows. Sampling and rows are those of `kvstore bench`. */
#include <mpi.h>

#include <bench_resnet50.h>

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECONDS 1.0

static int rank, n_procs;

/* What bench_rows.c and bench_sample.c need of the library. */
kvs_status_t kvs_fail(kvs_status_t status, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    return status;
}

typedef struct work {
    float *values, *sums;
    const int *counts; /* of each array; they lie one behind the other */
    int n_arrays, in_place;
} work_t;

static kvs_status_t reduce_all(void *arg)
{
    const work_t *work = arg;
    size_t at = 0;

    for (int i = 0; i < work->n_arrays; i++) {
        const void *from = work->in_place ? MPI_IN_PLACE : work->values + at;

        if (MPI_Allreduce(from, work->sums + at, work->counts[i], MPI_FLOAT, MPI_SUM,
                          MPI_COMM_WORLD) != MPI_SUCCESS) {
            return KVS_ERR_IO;
        }
        at += (size_t)work->counts[i];
    }
    return KVS_OK;
}

/* All at once, then one wait. */
static kvs_status_t start_all(void *arg)
{
    const work_t *work = arg;
    MPI_Request requests[BENCH_RESNET50_N];
    size_t at = 0;

    for (int i = 0; i < work->n_arrays; i++) {
        if (MPI_Iallreduce(work->values + at, work->sums + at, work->counts[i], MPI_FLOAT, MPI_SUM,
                           MPI_COMM_WORLD, &requests[i]) != MPI_SUCCESS) {
            return KVS_ERR_IO;
        }
        at += (size_t)work->counts[i];
    }
    return MPI_Waitall(work->n_arrays, requests, MPI_STATUSES_IGNORE) == MPI_SUCCESS ? KVS_OK
                                                                                     : KVS_ERR_IO;
}

static void measure(bench_t *bench, const char *peer, const char *workload, bench_call_t call,
                    const int *counts, int n_arrays, int in_place)
{
    work_t work = {.counts = counts, .n_arrays = n_arrays, .in_place = in_place};
    bench_row_t row = {
        .peer = peer, .workload = workload, .n_keys = n_arrays, .n_threads = n_procs};
    bench_times_t times;
    size_t n = 0;

    for (int i = 0; i < n_arrays; i++) {
        n += (size_t)counts[i];
    }
    row.size_bytes = n * sizeof(float);
    row.n_bytes = (double)row.size_bytes;
    bench->n_calls = row.size_bytes <= 64            ? 200
                     : row.size_bytes <= (64u << 10) ? 20
                     : row.size_bytes <= (1u << 20)  ? 5
                                                     : 1;
    work.values = aligned_alloc(64, (row.size_bytes + 63) / 64 * 64);
    work.sums = aligned_alloc(64, (row.size_bytes + 63) / 64 * 64);
    if (work.values == NULL || work.sums == NULL) {
        MPI_Abort(MPI_COMM_WORLD, 1);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        work.values[i] = 1;
        work.sums[i] = 0;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (bench_measure(bench, SECONDS, call, &work, &times) != KVS_OK ||
        (!in_place && work.sums[n - 1] != (float)n_procs)) {
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    if (rank == 0) {
        bench_print_row(bench, &row, &times);
    }
    free(work.values);
    free(work.sums);
}

int main(int argc, char **argv)
{
    const char *quick = getenv("KVSTORE_BENCH_QUICK");
    bench_t bench = {.backend = "", .json = 1, .quick = quick != NULL && strcmp(quick, "0") != 0};
    bench_shape_t layers[BENCH_RESNET50_N];
    int counts[BENCH_RESNET50_N], one = 1;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &n_procs);
    measure(&bench, "openmpi", "W5_latency", reduce_all, &one, 1, 0);
    measure(&bench, "openmpi-inplace", "W5_latency", reduce_all, &one, 1, 1);
    for (int i = 0; i < bench_n_sizes(&bench); i++) {
        int n = (int)(bench_size_bytes(i) / sizeof(float));

        measure(&bench, "openmpi", "W5_allreduce", reduce_all, &n, 1, 0);
        measure(&bench, "openmpi-inplace", "W5_allreduce", reduce_all, &n, 1, 1);
    }
    if (!bench.quick) {
        bench_resnet50(layers);
        for (int i = 0; i < BENCH_RESNET50_N; i++) {
            counts[i] = (int)bench_shape_n_elems(&layers[i]);
        }
        measure(&bench, "openmpi", "W5_resnet50", reduce_all, counts, BENCH_RESNET50_N, 0);
        measure(&bench, "openmpi-nb", "W5_resnet50", start_all, counts, BENCH_RESNET50_N, 0);
    }
    MPI_Finalize();
    return 0;
}
