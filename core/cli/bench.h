/* SPDX-License-Identifier: Apache-2.0 */
/* bench.h - what the files of `kvstore bench` share: the run, its rows, and how a row is measured.
 *
 * cmd_bench.c reads the arguments; bench_wN.c is workload N; bench_machine.c measures what memory
 * allows; bench_exchange.c moves arrays through a store. One thread; statuses as in the library. */
#ifndef KVS_CLI_BENCH_H
#define KVS_CLI_BENCH_H

#include <kvstore/kvstore.h>

#define BENCH_N_SIZES 4 /* 4 KiB, 256 KiB, 4 MiB, 64 MiB */

typedef struct bench {
    const char *backend;
    int pushpull; /* measure pushpull as well */
    int json;
    int quick;     /* few samples of small arrays: shows that it works, measures nothing */
    int n_threads; /* that stores of this process work with */
    int n_ranks;   /* workers of the job that this process is one of; 0: none */
    int n_calls; /* of a sample, where the ranks must agree on it; 0: as many as take long enough */
    double triad[BENCH_N_SIZES]; /* bytes a second of the fastest triad of each size; 0: unknown */
} bench_t;

size_t bench_size_bytes(int index);
/* How many of the sizes this run looks at. */
int bench_n_sizes(const bench_t *bench);

/* ---- Measuring ------------------------------------------------------------------------------- */

/* Seconds per call, over all samples. */
typedef struct bench_times {
    double median, min, max;
    size_t n;
} bench_times_t;

typedef kvs_status_t (*bench_call_t)(void *arg);

double bench_now(void); /* seconds, of the clock that all processes share */
/* Median, least and largest of `n` samples, which are sorted. */
bench_times_t bench_summary(double *samples, size_t n);
/* Three calls to warm up, then samples for about `seconds`, at least 15 if they don't take five times
 * as long. A sample is as many calls as last 100 us. */
kvs_status_t bench_measure(const bench_t *bench, double seconds, bench_call_t call, void *arg,
                           bench_times_t *ret_times);

/* ---- Rows ------------------------------------------------------------------------------------ */

typedef struct bench_row {
    const char *peer; /* "kvstore" or "machine" */
    const char *workload;
    size_t size_bytes;
    int n_keys;
    int n_threads;    /* 1 unless the workload is about threads */
    double n_bytes;   /* of a call, for GBps; 0: none */
    double n_moved;   /* bytes that memory has to move for it at least, for of_triad; 0: none */
    double rss_ratio; /* 0: none */
} bench_row_t;

void bench_print_head(const bench_t *bench);
void bench_print_row(const bench_t *bench, const bench_row_t *row, const bench_times_t *times);

/* ---- What is measured ------------------------------------------------------------------------ */

kvs_status_t bench_machine(bench_t *bench); /* fills `triad` */
kvs_status_t bench_w1(bench_t *bench);
kvs_status_t bench_w2(bench_t *bench);
kvs_status_t bench_w3(bench_t *bench);
kvs_status_t bench_w4(bench_t *bench);
kvs_status_t bench_w5(bench_t *bench);
/* In the processes that these two start: see bench_job.h. */
kvs_status_t bench_w4_worker(bench_t *bench);
kvs_status_t bench_w5_worker(bench_t *bench);
kvs_status_t bench_w6(bench_t *bench);
kvs_status_t bench_w7(bench_t *bench);
kvs_status_t bench_w8(bench_t *bench);
/* What a call costs from Python: --python. */
kvs_status_t bench_python(const bench_t *bench);
/* In the process that bench_w8 starts: `started` is when, as text. Gives its exit status. */
int bench_w8_child(const bench_t *bench, const char *started);

#endif
