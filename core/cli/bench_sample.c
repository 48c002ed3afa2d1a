/* SPDX-License-Identifier: Apache-2.0 */
/* bench_sample.c - how often a call is made, and what is kept of its times. */
#include "bench.h"

#include <stdlib.h>
#include <time.h>

#define MAX_SAMPLES       4096
#define MIN_SAMPLES       15
#define SAMPLE_SECONDS    100e-6
#define MAX_CALLS         100000 /* a sample */
#define N_WARM_UPS        3
#define QUICK_MIN_SAMPLES 3
#define QUICK_SECONDS     0.002

size_t bench_size_bytes(int index)
{
    static const size_t sizes[BENCH_N_SIZES] = {4u << 10, 256u << 10, 4u << 20, 64u << 20};

    return sizes[index];
}

int bench_n_sizes(const bench_t *bench)
{
    return bench->quick ? 2 : BENCH_N_SIZES;
}

double bench_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static int by_value(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;

    return (a > b) - (a < b);
}

bench_times_t bench_summary(double *samples, size_t n)
{
    qsort(samples, n, sizeof(*samples), by_value);
    return (bench_times_t){
        .median = 0.5 * (samples[(n - 1) / 2] + samples[n / 2]),
        .min = samples[0],
        .max = samples[n - 1],
        .n = n,
    };
}

/* Seconds of each of `n_calls` calls in a row. */
static kvs_status_t time_calls(bench_call_t call, void *arg, int n_calls, double *ret_seconds)
{
    double begun = bench_now();

    for (int i = 0; i < n_calls; i++) {
        kvs_status_t status = call(arg);

        if (status != KVS_OK) {
            return status;
        }
    }
    *ret_seconds = (bench_now() - begun) / n_calls;
    return KVS_OK;
}

/* Warm up, and find out how many calls make a sample. */
static kvs_status_t warm_up(bench_call_t call, void *arg, int *ret_n_calls)
{
    double seconds = 0;
    kvs_status_t status = time_calls(call, arg, N_WARM_UPS, &seconds);

    if (status == KVS_OK) {
        status = time_calls(call, arg, 1, &seconds);
    }
    *ret_n_calls = 1;
    if (seconds * MAX_CALLS < SAMPLE_SECONDS) {
        *ret_n_calls = MAX_CALLS;
    } else if (seconds < SAMPLE_SECONDS) {
        *ret_n_calls = (int)(SAMPLE_SECONDS / seconds) + 1;
    }
    return status;
}

/* Every rank makes as many calls. */
static size_t agreed_samples(const bench_t *bench)
{
    return bench->quick ? QUICK_MIN_SAMPLES : MIN_SAMPLES;
}

static int is_enough(const bench_t *bench, size_t n, double elapsed, double seconds)
{
    if (bench->n_calls > 0) {
        return n >= agreed_samples(bench);
    }
    if (bench->quick) {
        return n >= QUICK_MIN_SAMPLES && elapsed >= QUICK_SECONDS;
    }
    if (n < MIN_SAMPLES) {
        return n >= MIN_SAMPLES / 3 && elapsed >= 5 * seconds;
    }
    return elapsed >= seconds;
}

kvs_status_t bench_measure(const bench_t *bench, double seconds, bench_call_t call, void *arg,
                           bench_times_t *ret_times)
{
    double samples[MAX_SAMPLES], begun;
    size_t n = 0;
    int n_calls;
    kvs_status_t status = warm_up(call, arg, &n_calls);

    n_calls = bench->n_calls > 0 ? bench->n_calls : n_calls;
    begun = bench_now();
    while (status == KVS_OK && n < MAX_SAMPLES &&
           !is_enough(bench, n, bench_now() - begun, seconds)) {
        status = time_calls(call, arg, n_calls, &samples[n++]);
    }
    if (status == KVS_OK) {
        *ret_times = bench_summary(samples, n);
    }
    return status;
}
