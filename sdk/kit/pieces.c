/* SPDX-License-Identifier: Apache-2.0 */
#include "pieces.h"

#include <kvstore/plugin.h>

#define PIECE_MIN_BYTES (512u << 10)

typedef struct pieces_job {
    void (*fn)(void *arg, int64_t begin, int64_t end);
    void *arg;
    int64_t n;
} pieces_job_t;

static void run_units(void *arg, int64_t begin, int64_t end)
{
    const pieces_job_t *job = arg;
    int64_t last = end * KVS_PIECE_ELEMS;

    job->fn(job->arg, begin * KVS_PIECE_ELEMS, last < job->n ? last : job->n);
}

void kvs_for_units(int64_t n_units, uint64_t n_bytes,
                   void (*fn)(void *arg, int64_t begin, int64_t end), void *arg)
{
    uint64_t n_pieces = n_bytes / PIECE_MIN_BYTES;

    if (n_units < 2 || n_pieces < 2) {
        fn(arg, 0, n_units);
        return;
    }
    int64_t grain = n_units / (int64_t)n_pieces;

    kvs_plugin_host->parallel_for(n_units, grain > 0 ? grain : 1, fn, arg);
}

void kvs_for_pieces(int64_t n, uint64_t n_bytes, void (*fn)(void *arg, int64_t begin, int64_t end),
                    void *arg)
{
    int64_t n_units = (n + KVS_PIECE_ELEMS - 1) / KVS_PIECE_ELEMS;
    pieces_job_t job = {fn, arg, n};

    kvs_for_units(n_units, n_bytes, run_units, &job);
}
