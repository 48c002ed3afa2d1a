/* SPDX-License-Identifier: Apache-2.0 */
/* cases_threads.c - one store used by several threads at once.
 *
 * Threads get their arrays and lists ready made, since helpers belong to the case's own thread, and
 * leave the status of their first failed call. */
#include "themes.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

enum { N_THREADS = 4, N_ROUNDS = 25, N = 33 };

typedef struct thread {
    pthread_t thread;
    cf_t *t;
    int place;
    kvs_key_t key;
    cf_array_t *value, *out;
    const kvs_arrays_t *values, *outs;
    kvs_status_t status;
    char text[256];
    int64_t n_wrong; /* rounds with a wrong result */
} thread_t;

static bool failed(thread_t *thread, kvs_status_t status)
{
    if (status != KVS_OK && thread->status == KVS_OK) {
        thread->status = status;
        snprintf(thread->text, sizeof(thread->text), "%s", kvs_last_error());
    }
    return status != KVS_OK;
}

static void prepare(cf_t *t, thread_t *thread, int place, int dtype)
{
    thread->t = t;
    thread->place = place;
    thread->key = cf_key(t, place);
    thread->value = cf_vector(t, dtype, N);
    thread->out = cf_vector(t, dtype, N);
    thread->values = CF_LIST(t, thread->value, thread->value);
    thread->outs = CF_LIST(t, thread->out);
}

static void run_all(cf_t *t, thread_t *threads, void *(*run)(void *arg))
{
    int n_started = 0;

    while (n_started < N_THREADS &&
           pthread_create(&threads[n_started].thread, NULL, run, &threads[n_started]) == 0) {
        n_started++;
    }
    for (int i = 0; i < n_started; i++) {
        pthread_join(threads[i].thread, NULL);
        if (threads[i].status != KVS_OK) {
            cf_fail(t, "a call in thread %d of %d: got %s \"%s\", want success", i, N_THREADS,
                    kvs_status_name(threads[i].status), threads[i].text);
        }
        cf_want_number(t, "wrong results in a thread", threads[i].n_wrong, 0);
    }
    if (n_started < N_THREADS) {
        cf_fail(t, "the suite could not start %d threads", N_THREADS);
    }
}

static bool all_are(const thread_t *thread, double want)
{
    for (int64_t i = 0; i < N; i++) {
        if (cf_get(thread->t, thread->out, i) != want) {
            return false;
        }
    }
    return true;
}

static void *exchange(void *arg)
{
    thread_t *thread = arg;
    cf_t *t = thread->t;

    for (int i = 1; i <= N_ROUNDS; i++) {
        cf_set_all(t, thread->value, i + thread->place);
        if (failed(thread, kvs_store_pushpull(t->store, &thread->key, 1, thread->values,
                                              thread->outs, NULL))) {
            break;
        }
        thread->n_wrong += !all_are(thread, 2 * (i + thread->place) * t->n_workers);
    }
    return NULL;
}

static void different_keys(cf_t *t)
{
    thread_t *threads = cf_alloc(t, N_THREADS * sizeof(*threads));

    for (int i = 0; i < N_THREADS; i++) {
        prepare(t, &threads[i], i, KVS_DTYPE_float32);
        if (cf_keeps_weights(t)) {
            cf_init(t, threads[i].key, threads[i].out);
        }
    }
    run_all(t, threads, exchange);
}

/* Pushes with events, all in flight at once; a pull at the end sees the last. */
static void *push_many(void *arg)
{
    thread_t *thread = arg;
    cf_t *t = thread->t;
    kvs_event_t *events[N_ROUNDS] = {NULL};
    int n_issued = 0;

    while (n_issued < N_ROUNDS) {
        kvs_call_t call = cf_call(&events[n_issued]);

        if (failed(thread, kvs_store_push(t->store, &thread->key, 1, thread->values, &call))) {
            break;
        }
        n_issued++;
    }
    (void)failed(thread, kvs_store_pull(t->store, &thread->key, 1, thread->outs, NULL));
    for (int i = 0; i < n_issued; i++) {
        (void)failed(thread, kvs_event_wait(events[i], -1));
        kvs_event_free(events[i]);
    }
    return NULL;
}

/* stored += value, int64. Says in `arg` if it ran twice at a time. */
static kvs_status_t add(const kvs_key_t *key, const kvs_tensor_t *value, const kvs_tensor_t *stored,
                        void *arg)
{
    atomic_int *n_running = arg;
    const int64_t *from = value->data;
    int64_t *to = stored->data;
    bool alone = atomic_fetch_add(n_running, 1) == 0;

    (void)key;
    for (int64_t i = 0; i < value->shape[0]; i++) {
        to[i] += from[i];
    }
    atomic_fetch_sub(n_running, 1);
    return alone ? KVS_OK : kvs_fail(KVS_ERR_STATE, "two updaters ran at a time");
}

static void same_key(cf_t *t)
{
    thread_t *threads = cf_alloc(t, N_THREADS * sizeof(*threads));
    atomic_int *n_running = cf_alloc(t, sizeof(*n_running));
    cf_array_t *out = cf_vector(t, KVS_DTYPE_int64, N);
    int64_t want = 0;

    atomic_init(n_running, 0);
    for (int i = 0; i < N_THREADS; i++) {
        prepare(t, &threads[i], 1, KVS_DTYPE_int64);
        cf_set_all(t, threads[i].value, i + 1);
        want += 2 * N_ROUNDS * (i + 1);
    }
    cf_init(t, cf_key(t, 1), out);
    CF_OK(t, kvs_store_set_updater(t->store, add, n_running));
    run_all(t, threads, push_many);
    cf_pull(t, cf_key(t, 1), out);
    cf_want_all(t, "sum of what all threads pushed", out, (double)want);
}

static void updater_alone(cf_t *t)
{
    thread_t *threads = cf_alloc(t, N_THREADS * sizeof(*threads));
    atomic_int *n_running = cf_alloc(t, sizeof(*n_running));

    atomic_init(n_running, 0);
    for (int i = 0; i < N_THREADS; i++) {
        prepare(t, &threads[i], i, KVS_DTYPE_int64);
        cf_set_all(t, threads[i].value, i + 1);
        cf_init(t, threads[i].key, threads[i].out);
    }
    CF_OK(t, kvs_store_set_updater(t->store, add, n_running));
    run_all(t, threads, push_many);
    for (int i = 0; i < N_THREADS; i++) {
        cf_want_all(t, "sum of what a thread pushed", threads[i].out, 2 * N_ROUNDS * (i + 1));
    }
}

/* Each thread pulls one key again and again while another pushes to it arrays whose elements are
 * all alike: no pull may see half of a push. */
static void *push_or_pull(void *arg)
{
    thread_t *thread = arg;
    cf_t *t = thread->t;

    for (int i = 0; i < N_ROUNDS; i++) {
        if (thread->place == 0) {
            cf_set_all(t, thread->value, i);
            if (failed(thread, kvs_store_push(t->store, &thread->key, 1, thread->values, NULL))) {
                break;
            }
        } else {
            if (failed(thread, kvs_store_pull(t->store, &thread->key, 1, thread->outs, NULL))) {
                break;
            }
            thread->n_wrong += !all_are(thread, cf_get(t, thread->out, 0));
        }
    }
    return NULL;
}

static void whole_values(cf_t *t)
{
    thread_t *threads = cf_alloc(t, N_THREADS * sizeof(*threads));

    for (int i = 0; i < N_THREADS; i++) {
        prepare(t, &threads[i], i, KVS_DTYPE_float32);
        threads[i].key = cf_key(t, 1);
    }
    cf_init(t, cf_key(t, 1), threads[0].out);
    run_all(t, threads, push_or_pull);
    cf_pull(t, cf_key(t, 1), threads[0].out); /* all others may have been before the first push */
    cf_want_all(t, "what was pushed last", threads[0].out, 2.0 * (N_ROUNDS - 1) * t->n_workers);
}

static const cf_case_t cases[] = {
    {"threads.different_keys", "Threads may use different keys of a store at once.",
     CF_REPLACES | CF_LISTS, different_keys},
    {"threads.same_key", "Pushes of several threads to one key are all applied, none twice.",
     CF_UPDATER | CF_ONE_WORKER, same_key},
    {"threads.updater_alone", "The updater of a store runs on one thread at a time.",
     CF_UPDATER | CF_ONE_WORKER, updater_alone},
    {"threads.whole_values", "A pull sees a push whole or not at all.", CF_WEIGHTS | CF_REPLACES,
     whole_values},
};

const cf_theme_t cf_theme_threads = CF_THEME(cases);
