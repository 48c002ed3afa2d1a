/* SPDX-License-Identifier: Apache-2.0 */
/* cases_store.c - the store as a whole: waiting, counting, cancelling, and its workers. */
#include "themes.h"

enum { N = 6, SILENT_MS = 60000 }; /* a process that is well may be late with its beats */

static void wait_all(cf_t *t)
{
    enum { N_KEYS = 10 };
    cf_array_t *outs[N_KEYS];
    kvs_event_t *events[N_KEYS] = {NULL};

    CF_OK(t, kvs_store_wait_all(t->store, -1));
    CF_OK(t, kvs_store_wait_all(t->store, 0));
    for (int i = 0; i < N_KEYS; i++) {
        kvs_key_t key = cf_key(t, i);
        kvs_call_t call = cf_call(&events[i]);

        outs[i] = cf_vector(t, KVS_DTYPE_float32, N);
        if (cf_keeps_weights(t)) {
            cf_init(t, key, outs[i]);
        }
        CF_OK(t, kvs_store_pushpull(t->store, &key, 1,
                                    CF_LIST(t, cf_ranked(t, KVS_DTYPE_float32, N, i)),
                                    CF_LIST(t, outs[i]), &call));
    }
    CF_OK(t, kvs_store_wait_all(t->store, -1));
    for (int i = 0; i < N_KEYS; i++) {
        int done = -1;

        CF_OK(t, kvs_event_test(events[i], &done));
        cf_want_number(t, "done, after wait_all", done, 1);
        kvs_event_free(events[i]);
        for (int j = 0; j < N; j++) {
            cf_want_at(t, "out", outs[i], j, cf_sum(t, i + 1, j) - cf_sum(t, i, j));
        }
    }
}

static kvs_stats_t stats_of(cf_t *t)
{
    kvs_stats_t stats = {.size = (uint32_t)sizeof(stats)};

    CF_OK(t, kvs_store_wait_all(t->store, -1));
    CF_OK(t, kvs_store_stats(t->store, &stats));
    return stats;
}

static void want_stats(cf_t *t, const kvs_stats_t *before, const kvs_stats_t *more)
{
    kvs_stats_t now = stats_of(t);

    cf_want_number(t, "n_inits", (int64_t)(now.n_inits - before->n_inits), (int64_t)more->n_inits);
    cf_want_number(t, "n_pushes", (int64_t)(now.n_pushes - before->n_pushes),
                   (int64_t)more->n_pushes);
    cf_want_number(t, "n_pulls", (int64_t)(now.n_pulls - before->n_pulls), (int64_t)more->n_pulls);
    cf_want_number(t, "n_pushpulls", (int64_t)(now.n_pushpulls - before->n_pushpulls),
                   (int64_t)more->n_pushpulls);
    cf_want_number(t, "bytes_pushed", (int64_t)(now.bytes_pushed - before->bytes_pushed),
                   (int64_t)more->bytes_pushed);
    cf_want_number(t, "bytes_pulled", (int64_t)(now.bytes_pulled - before->bytes_pulled),
                   (int64_t)more->bytes_pulled);
}

static void stats(cf_t *t)
{
    kvs_key_t keys[2] = {cf_key(t, 1), cf_key(t, 2)};
    cf_array_t *a = cf_vector(t, KVS_DTYPE_float32, N), *b = cf_vector(t, KVS_DTYPE_float32, N);
    cf_array_t *longer = cf_vector(t, KVS_DTYPE_float32, N + 1);
    kvs_stats_t before = stats_of(t);
    kvs_stats_t more = {.n_inits = 2, .n_pulls = 2, .bytes_pulled = 3 * N * sizeof(float)};

    CF_OK(t, kvs_store_broadcast(t->store, keys, 2, CF_LIST(t, a, a),
                                 CF_SPLIT(t, CF_LIST(t, b, b, b), 2, 1), NULL));
    want_stats(t, &before, &more);
    before = stats_of(t);
    more = (kvs_stats_t){
        .n_pushpulls = 1, .bytes_pushed = 2 * N * sizeof(float), .bytes_pulled = N * sizeof(float)};
    cf_pushpull(t, keys[0], CF_LIST(t, a, a), CF_LIST(t, b));
    CF_REFUSED(t, kvs_store_pushpull(t->store, keys, 1, CF_LIST(t, a), CF_LIST(t, longer), NULL),
               "");
    want_stats(t, &before, &more);
}

static void stats_weights(cf_t *t)
{
    kvs_key_t keys[3] = {cf_key(t, 1), cf_key(t, 2), cf_key(t, 3)};
    cf_array_t *a = cf_vector(t, KVS_DTYPE_float32, N), *b = cf_vector(t, KVS_DTYPE_float32, N);
    kvs_stats_t before = stats_of(t);
    kvs_stats_t more = {.n_inits = 3,
                        .n_pushes = 3,
                        .n_pulls = 2,
                        .bytes_pushed = 4 * N * sizeof(float),
                        .bytes_pulled = 4 * N * sizeof(float)};

    CF_OK(t, kvs_store_init(t->store, keys, 3, CF_LIST(t, a, a, a), NULL));
    CF_OK(t, kvs_store_push(t->store, keys, 2, CF_SPLIT(t, CF_LIST(t, a, a, a), 1, 2), NULL));
    CF_OK(t, kvs_store_push(t->store, &keys[2], 1, CF_LIST(t, a), NULL));
    CF_OK(t, kvs_store_pull(t->store, keys, 1, CF_LIST(t, b, b, b), NULL));
    CF_OK(t, kvs_store_pull(t->store, &keys[1], 1, CF_LIST(t, b), NULL));
    CF_REFUSED(t, kvs_store_init(t->store, keys, 1, CF_LIST(t, a), NULL), "");
    want_stats(t, &before, &more);
}

static void priority(cf_t *t)
{
    static const int32_t priorities[] = {0, 1, -1, INT32_MAX, INT32_MIN};

    for (int i = 0; i < 5; i++) {
        kvs_key_t key = cf_key(t, i);
        cf_array_t *out = cf_vector(t, KVS_DTYPE_float32, N);
        kvs_call_t call = KVS_CALL_INIT;

        call.priority = priorities[i];
        if (cf_keeps_weights(t)) {
            cf_init(t, key, out);
        }
        CF_OK(t, kvs_store_pushpull(t->store, &key, 1,
                                    CF_LIST(t, cf_const(t, KVS_DTYPE_float32, N, i)),
                                    CF_LIST(t, out), &call));
        cf_want_all(t, "out", out, i * t->n_workers);
    }
}

static void cancel(cf_t *t)
{
    kvs_key_t key = cf_key(t, 1);
    const kvs_arrays_t *list = CF_LIST(t, cf_vector(t, KVS_DTYPE_float32, N));
    kvs_store_t *store = NULL;

    CF_OK(t, cf_create(t, NULL, &store));
    kvs_store_cancel(store);
    kvs_store_cancel(store);
    kvs_store_cancel(NULL);
    CF_FAIL(t, kvs_store_broadcast(store, &key, 1, list, list, NULL), KVS_ERR_CANCELLED, "");
    CF_FAIL(t, kvs_store_pushpull(store, &key, 1, list, NULL, NULL), KVS_ERR_CANCELLED, "");
    (void)kvs_store_close(store);                       /* it may say that it was cancelled */
    cf_use(t, key, cf_vector(t, KVS_DTYPE_float32, N)); /* this store was not */
}

static void workers(cf_t *t)
{
    int rank = -1, n_workers = -1, local_rank = -1, recovery = -1;

    CF_OK(t, kvs_store_rank(t->store, &rank));
    CF_OK(t, kvs_store_num_workers(t->store, &n_workers));
    CF_OK(t, kvs_store_local_rank(t->store, &local_rank));
    CF_OK(t, kvs_store_is_recovery(t->store, &recovery));
    cf_want_true(t, n_workers >= 1, "there is at least one worker");
    cf_want_true(t, rank >= 0 && rank < n_workers, "the rank is one of the workers'");
    cf_want_true(t, local_rank >= 0 && local_rank < n_workers, "so is the local rank");
    cf_want_number(t, "rank, again", rank, t->rank);
    cf_want_number(t, "is_recovery", recovery, 0);
}

static void barrier(cf_t *t)
{
    for (int i = 0; i < 3; i++) {
        CF_OK(t, kvs_store_barrier(t->store));
    }
}

static void alone(cf_t *t)
{
    static const char *const roles[] = {"worker", "server", "scheduler"};
    int dead = -1;

    for (int i = 0; i < 3; i++) {
        CF_OK(t, kvs_store_num_dead_nodes(t->store, roles[i], SILENT_MS, &dead));
        cf_want_number(t, roles[i], dead, 0);
    }
    CF_FAIL(t, kvs_store_num_dead_nodes(t->store, "waiter", SILENT_MS, &dead), KVS_ERR_ARGUMENT,
            "waiter");
    CF_OK(t, kvs_store_send_command_to_servers(t->store, 0, "text", 4));
    CF_OK(t, kvs_store_send_command_to_servers(t->store, 77, NULL, 0));
    CF_OK(t, kvs_store_join(t->store));
}

static const cf_case_t cases[] = {
    {"store.wait_all", "wait_all waits for everything issued, and for nothing else.", CF_REPLACES,
     wait_all},
    {"store.stats",
     "stats count keys and bytes of what succeeded; a broadcast is an init and a pull.",
     CF_REPLACES | CF_LISTS, stats},
    {"store.stats_weights", "stats count inits, pushes and pulls.", CF_WEIGHTS | CF_REPLACES,
     stats_weights},
    {"store.priority", "Any priority is accepted.", CF_REPLACES, priority},
    {"store.cancel", "After cancel, operations fail with cancelled; other stores go on.",
     CF_ONE_WORKER, cancel},
    {"store.workers", "rank, num_workers and local_rank agree with each other.", 0, workers},
    {"store.barrier", "A barrier returns when all workers have called it.", 0, barrier},
    {"store.alone", "In a job of one worker commands and join do nothing, and no node is dead.",
     CF_ONE_WORKER, alone},
};

const cf_theme_t cf_theme_store = CF_THEME(cases);
