/* SPDX-License-Identifier: Apache-2.0 */
/* fake_host.h - a host table for tests of the kit, whose parallel_for cuts as the test says and runs
 * every piece on a thread of its own, the last first. Include in one file of a test. */
#ifndef FAKE_HOST_H
#define FAKE_HOST_H

#include "kt.h"
#include "status.h"

#include <kvstore/kit.h>

#include <pthread.h>
#include <stdlib.h>

static int64_t fake_n_pieces = 1; /* 1: all on this thread */
static int fake_n_cuts;           /* calls of parallel_for */

typedef struct fake_piece {
    void (*fn)(void *arg, int64_t begin, int64_t end);
    void *arg;
    int64_t begin, end;
    pthread_t thread;
} fake_piece_t;

static void *fake_run(void *arg)
{
    fake_piece_t *piece = arg;

    piece->fn(piece->arg, piece->begin, piece->end);
    return NULL;
}

static void fake_parallel_for(int64_t n, int64_t grain,
                              void (*fn)(void *arg, int64_t begin, int64_t end), void *arg)
{
    int64_t n_pieces = n / grain < fake_n_pieces ? n / grain : fake_n_pieces;
    fake_piece_t pieces[16];

    fake_n_cuts++;
    if (n_pieces <= 1) {
        fn(arg, 0, n);
        return;
    }
    for (int64_t i = n_pieces - 1; i >= 0; i--) {
        pieces[i] = (fake_piece_t){fn, arg, n * i / n_pieces, n * (i + 1) / n_pieces, 0};
        if (pthread_create(&pieces[i].thread, NULL, fake_run, &pieces[i]) != 0) {
            abort();
        }
    }
    for (int64_t i = 0; i < n_pieces; i++) {
        pthread_join(pieces[i].thread, NULL);
    }
}

static kvs_status_t fake_find_provider(int32_t device_type, const kvs_provider_t **ret_provider)
{
    (void)ret_provider;
    return kvs_fail(KVS_ERR_NOT_FOUND, "fake: no provider for device type %d", (int)device_type);
}

static void fake_log(int level, const char *area, const char *format, ...)
{
    (void)level;
    (void)area;
    (void)format;
}

static kvs_host_t fake_host = {
    .size = sizeof(fake_host),
    .abi_major = KVS_ABI_MAJOR,
    .abi_minor = KVS_ABI_MINOR,
    .version = "0",
    .fail = kvs_fail,
    .fail_context = kvsi_fail_context,
    .log = fake_log,
    .parallel_for = fake_parallel_for,
    .find_provider = fake_find_provider,
};
const kvs_host_t *kvs_plugin_host = &fake_host;

/* The same numbers in every run. */
static uint64_t fake_seed = 1;

static inline uint64_t fake_random(void)
{
    fake_seed = fake_seed * 6364136223846793005u + 1442695040888963407u;
    return fake_seed ^ fake_seed >> 29;
}

#endif
