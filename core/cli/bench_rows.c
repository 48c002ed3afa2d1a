/* SPDX-License-Identifier: Apache-2.0 */
/* bench_rows.c - a row as a line of JSON, or of a table whose widths are fixed, since a row is shown
 * as soon as it was measured. Names of workloads and of backends that exist need no escapes. */
#include "bench.h"

#include <stdio.h>
#include <string.h>

/* Which of the sizes, whose triad limits a row; larger ones are limited like the largest. */
static int size_index(size_t size_bytes)
{
    int index = 0;

    while (index + 1 < BENCH_N_SIZES && bench_size_bytes(index) < size_bytes) {
        index++;
    }
    return index;
}

/* Speed at which a row moves what it has to, in parts of the fastest triad; 0 if not known. */
static double of_triad(const bench_t *bench, const bench_row_t *row, const bench_times_t *times)
{
    double triad = bench->triad[size_index(row->size_bytes)];

    return triad > 0 && times->median > 0 ? row->n_moved / times->median / triad : 0;
}

static double gbps(const bench_row_t *row, const bench_times_t *times)
{
    return times->median > 0 ? row->n_bytes / times->median * 1e-9 : 0;
}

/* A member, or null for 0, which stands for "not known". */
static void print_member(const char *name, double value)
{
    if (value > 0) {
        printf(",\"%s\":%.4g", name, value);
    } else {
        printf(",\"%s\":null", name);
    }
}

static void print_json(const bench_t *bench, const bench_row_t *row, const bench_times_t *times)
{
    printf("{\"peer\":\"%s\",\"workload\":\"%s\",\"size_bytes\":%zu,\"keys\":%d,\"procs\":%d,"
           "\"median_s\":%.6g,\"min_s\":%.6g,\"max_s\":%.6g",
           row->peer, row->workload, row->size_bytes, row->n_keys, row->n_threads, times->median,
           times->min, times->max);
    print_member("GBps", gbps(row, times));
    printf(",\"samples\":%zu", times->n);
    print_member("of_triad", of_triad(bench, row, times));
    if (row->rss_ratio > 0) {
        print_member("rss_ratio", row->rss_ratio);
    }
    if (strcmp(row->peer, "machine") != 0) {
        printf(",\"backend\":\"%s\"", bench->backend);
    }
    printf("}\n");
}

static const char *seconds_text(double seconds, char text[16])
{
    if (seconds <= 0) {
        return "-";
    }
    if (seconds < 1e-3) {
        snprintf(text, 16, "%.2f us", seconds * 1e6);
    } else {
        snprintf(text, 16, "%.2f ms", seconds * 1e3);
    }
    return text;
}

static const char *number_text(double value, char text[16])
{
    if (value <= 0) {
        return "-";
    }
    snprintf(text, 16, "%.2f", value);
    return text;
}

static void print_line(const bench_t *bench, const bench_row_t *row, const bench_times_t *times)
{
    char text[6][16];

    printf("%-8s %-26s %10zu %5d %7d %11s %11s %11s %8s %8s %8s\n", row->peer, row->workload,
           row->size_bytes, row->n_keys, row->n_threads, seconds_text(times->median, text[0]),
           seconds_text(times->min, text[1]), seconds_text(times->max, text[2]),
           number_text(gbps(row, times), text[3]),
           number_text(of_triad(bench, row, times), text[4]), number_text(row->rss_ratio, text[5]));
}

void bench_print_head(const bench_t *bench)
{
    if (!bench->json) {
        printf("%-8s %-26s %10s %5s %7s %11s %11s %11s %8s %8s %8s\n", "PEER", "WORKLOAD", "BYTES",
               "KEYS", "THREADS", "MEDIAN", "MIN", "MAX", "GB/S", "OF TRIAD", "RSS");
    }
}

void bench_print_row(const bench_t *bench, const bench_row_t *row, const bench_times_t *times)
{
    if (bench->json) {
        print_json(bench, row, times);
    } else {
        print_line(bench, row, times);
    }
    fflush(stdout);
}
