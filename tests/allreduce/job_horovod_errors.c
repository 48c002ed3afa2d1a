/* SPDX-License-Identifier: Apache-2.0 */
/* job_horovod_errors.c - ranks that disagree, and ranks that do not come: everyone is told, with the key,
 * both ranks and both sides; and the store can be used afterwards. Jobs of two workers or more, where the
 * last is the odd one. */
#include "crew.h"

#include <kvstore/allreduce.h>

#include <locale.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

static int is_odd(const crew_t *crew)
{
    return crew->rank == crew->n - 1;
}

static void a_dtype_that_differs_is_told_to_all(void)
{
    crew_t crew = crew_open(NULL, 0);
    double value[2] = {1, 1};

    KT_FAIL(crew_sum(&crew, kvs_key_str("w"), is_odd(&crew) ? KVS_DTYPE_float64 : KVS_DTYPE_float32,
                     2, value, NULL, NULL),
            KVS_ERR_DTYPE, "pushpull: key 'w': worker ");
    KT_HAS(kvs_last_error(), "float32 (2,)");
    KT_HAS(kvs_last_error(), "float64 (2,)");
    KT_HAS(kvs_last_error(), "(host ");
    crew_works(&crew, kvs_key_str("w"));
    crew_close(&crew);
}

static void a_shape_that_differs_is_told_to_all(void)
{
    crew_t crew = crew_open(NULL, 0);
    float value[3] = {1, 1, 1};
    kvs_event_t *event = NULL;

    KT_OK(crew_sum(&crew, kvs_key_int(-4), KVS_DTYPE_float32, is_odd(&crew) ? 3 : 2, value, NULL,
                   &event));
    KT_FAIL(crew_finish(event), KVS_ERR_SHAPE, "pushpull: key -4: worker ");
    KT_HAS(kvs_last_error(), "float32 (2,)");
    KT_HAS(kvs_last_error(), "float32 (3,)");
    KT_REAL(value[0], 1);
    crew_works(&crew, kvs_key_int(-4));
    crew_works(&crew, kvs_key_int(3));
    crew_close(&crew);
}

static void an_operation_that_differs_is_told_to_all(void)
{
    crew_t crew = crew_open(NULL, 0);
    float value = 1, out = 0;
    kvs_status_t status =
        is_odd(&crew)
            ? crew_broadcast(&crew, kvs_key_int(1), KVS_DTYPE_float32, 1, &value, &out, NULL)
            : crew_sum(&crew, kvs_key_int(1), KVS_DTYPE_float32, 1, &value, &out, NULL);

    KT_FAIL(status, KVS_ERR_ARGUMENT, "submitted a");
    KT_HAS(kvs_last_error(), "a pushpull");
    KT_HAS(kvs_last_error(), "a broadcast");
    crew_works(&crew, kvs_key_int(1));
    crew_close(&crew);
}

/* The others are warned of the late one, and go on when it comes. Rank 0, which warns, is the first. */
static void a_late_rank_is_warned_of(void)
{
    crew_t room = crew_open(NULL, 0), crew = CREW_OPEN({"stall_warning", "0.3"});
    float value = 1;
    kvs_event_t *event = NULL;

    if (crew.rank == 0) {
        kt_stderr_begin();
        KT_OK(crew_sum(&crew, kvs_key_str("late"), KVS_DTYPE_float32, 1, &value, NULL, &event));
    }
    crew_meet(&room);
    if (crew.rank != 0 && !is_odd(&crew)) {
        KT_OK(crew_sum(&crew, kvs_key_str("late"), KVS_DTYPE_float32, 1, &value, NULL, &event));
    }
    if (crew.rank == 0) {
        KT_FAIL(kvs_event_wait(event, 5000), KVS_ERR_TIMEOUT, "not completed");
        const char *text = kt_stderr_end();

        KT_HAS(text, "key 'late': not submitted for ");
        KT_HAS(text, "ms by worker ");
        KT_HAS(text, "it was by worker 0 (host ");
    }
    crew_meet(&room);
    if (is_odd(&crew)) {
        KT_OK(crew_sum(&crew, kvs_key_str("late"), KVS_DTYPE_float32, 1, &value, NULL, NULL));
    } else {
        KT_OK(crew_finish(event));
    }
    KT_REAL(value, crew.n);
    crew_close(&crew);
    crew_close(&room);
}

/* Past the deadline all get the same error, the late one too, and are in step again. */
static void a_missing_rank_is_named_and_finds_out_when_it_comes(void)
{
    crew_t room = crew_open(NULL, 0), crew = CREW_OPEN({"timeout", "4"});
    float sum = 0;
    char missing[32];

    snprintf(missing, sizeof(missing), "ms by worker %d (host ", crew.n - 1);
    if (is_odd(&crew)) {
        crew_meet(&room);
    }
    KT_FAIL(crew_sum1(&crew, kvs_key_int(5), 1, &sum), KVS_ERR_TIMEOUT,
            "pushpull: key 5: not submitted for ");
    KT_HAS(kvs_last_error(), missing);
    KT_HAS(kvs_last_error(), "it was by worker 0 (host ");
    if (!is_odd(&crew)) {
        crew_meet(&room);
    }
    crew_works(&crew, kvs_key_int(5));
    crew_close(&crew);
    crew_close(&room);
}

static void calls_in_opposite_orders_end_at_the_deadline(void)
{
    crew_t room = crew_open(NULL, 0), crew = CREW_OPEN({"timeout", "4"});
    float sum = 0;
    int mine = is_odd(&crew) ? 1 : 2;

    KT_FAIL(crew_sum1(&crew, kvs_key_int(mine), 1, &sum), KVS_ERR_TIMEOUT, "not submitted for");
    crew_meet(&room);
    /* whoever has not come is told what became of it */
    KT_FAIL(crew_sum1(&crew, kvs_key_int(3 - mine), 1, &sum), KVS_ERR_TIMEOUT, "not submitted for");
    crew_works(&crew, kvs_key_int(1));
    crew_works(&crew, kvs_key_int(2));
    crew_close(&crew);
    crew_close(&room);
}

static void an_option_that_differs_is_told_to_all(void)
{
    crew_t room = crew_open(NULL, 0);
    kvs_option_t option = {"fusion_threshold", is_odd(&room) ? "1" : "2"};
    kvs_store_t *store = NULL;

    KT_FAIL(kvs_store_create("horovod", &option, 1, &store), KVS_ERR_PEER, "fusion_threshold");
    crew_works(&room, kvs_key_int(1));
    crew_close(&room);
}

static void a_store_closed_early_is_named(void)
{
    crew_t room = crew_open(NULL, 0), crew = crew_open(NULL, 0);
    float value = 1;

    if (is_odd(&crew)) {
        crew_meet(&room);
    } else {
        kvs_event_t *event = NULL;

        KT_OK(crew_sum(&crew, kvs_key_int(1), KVS_DTYPE_float32, 1, &value, NULL, &event));
        crew_meet(&room);
        KT_FAIL(crew_finish(event), KVS_ERR_PEER, "pushpull: key 1: worker ");
        KT_HAS(kvs_last_error(), "has closed the store");
    }
    crew_close(&crew);
    crew_works(&room, kvs_key_int(1));
    crew_close(&room);
}

static void a_missing_barrier_is_named(void)
{
    crew_t room = crew_open(NULL, 0), crew = CREW_OPEN({"timeout", "4"});

    if (!is_odd(&crew)) {
        KT_FAIL(kvs_store_barrier(crew.store), KVS_ERR_TIMEOUT, "barrier");
    }
    crew_meet(&room);
    crew_close(&crew);
    crew_close(&room);
}

/* Uneven steps: whoever has no more to do joins, and has no part in what the others still exchange. */
static void who_has_joined_has_no_part(void)
{
    crew_t crew = crew_open(NULL, 0);

    for (int round = 0; round < 3; round++) {
        for (int step = 0; step <= crew.rank * 2; step++) {
            float sum = 0;
            int n_there = 0;

            for (int rank = 0; rank < crew.n; rank++) {
                n_there += step <= rank * 2;
            }
            KT_OK(crew_sum1(&crew, kvs_key_int(step), 1, &sum));
            KT_REAL(sum, n_there);
        }
        KT_OK(kvs_store_join(crew.store));
        crew_works(&crew, kvs_key_int(0)); /* all are back */
    }
    crew_close(&crew);
}

static void only_pushpull_goes_on_without_who_has_joined(void)
{
    crew_t room = crew_open(NULL, 0), crew = crew_open(NULL, 0);
    float value = 1, out = 0;

    if (!is_odd(&crew)) {
        kvs_event_t *event = NULL;

        KT_OK(crew_broadcast(&crew, kvs_key_int(1), KVS_DTYPE_float32, 1, &value, &out, &event));
        crew_meet(&room);
        KT_FAIL(crew_finish(event), KVS_ERR_STATE, "broadcast: key 1: worker ");
        KT_HAS(kvs_last_error(), "has joined");
    } else {
        crew_meet(&room);
    }
    KT_OK(kvs_store_join(crew.store));
    crew_close(&crew);
    crew_close(&room);
}

/* Rank 0 joins, and the others exchange without it, in good order and not, but don't join in time. */
static void a_join_that_times_out_leaves_all_in_step(void)
{
    crew_t room = crew_open(NULL, 0), crew = CREW_OPEN({"timeout", "4"});
    kvs_key_t key = kvs_key_str("w");
    float sum = 0, value[2] = {1, 1};
    double real = 1;

    crew_works(&crew, key);
    if (crew.rank == 0) {
        KT_FAIL(kvs_store_join(crew.store), KVS_ERR_TIMEOUT, "join: nothing heard for ");
    } else {
        KT_OK(crew_sum1(&crew, key, 1, &sum));
        KT_REAL(sum, crew.n - 1);
        if (crew.n > 2) {
            KT_FAIL(crew.rank == 1 ? crew_sum(&crew, key, KVS_DTYPE_float64, 1, &real, NULL, NULL)
                                   : crew_sum(&crew, key, KVS_DTYPE_float32, 2, value, NULL, NULL),
                    KVS_ERR_DTYPE, "pushpull: key 'w': worker ");
        }
        KT_OK(crew_sum1(&crew, key, 2, &sum));
        KT_REAL(sum, 2 * (crew.n - 1));
        KT_OK(crew_sum1(&crew, kvs_key_str("v"), 3, &sum));
    }
    crew_meet(&room);
    for (int i = 0; i < 3; i++) {
        crew_works(&crew, key);
        crew_works(&crew, kvs_key_str("v"));
    }
    KT_OK(kvs_store_join(crew.store));
    crew_works(&crew, key);
    crew_close(&crew);
    crew_close(&room);
}

/* ---- Cancel --------------------------------------------------------------------------------------- */

static void *wait_at_barrier(void *arg)
{
    KT_FAIL(kvs_store_barrier(((crew_t *)arg)->store), KVS_ERR_CANCELLED, "cancelled");
    return NULL;
}

static void *wait_in_join(void *arg)
{
    KT_FAIL(kvs_store_join(((crew_t *)arg)->store), KVS_ERR_CANCELLED, "cancelled");
    return NULL;
}

static void *wait_in_allgather(void *arg)
{
    crew_t *crew = arg;
    float value = 1, out[8];
    kvs_tensor_t from = KT_F32(&value, 1), to = KT_F32(out, crew->n);

    KT_FAIL(kvs_allgather(crew->store, kvs_key_int(1), &from, &to), KVS_ERR_CANCELLED, "cancelled");
    return NULL;
}

static void *wait_in_pushpull(void *arg)
{
    float sum = 0;

    KT_FAIL(crew_sum1(arg, kvs_key_int(1), 1, &sum), KVS_ERR_CANCELLED, "cancelled");
    return NULL;
}

static void cancel_wakes_who_waits_for_others(void)
{
    void *(*const waits[])(void *) = {wait_at_barrier, wait_in_join, wait_in_allgather,
                                      wait_in_pushpull};
    crew_t room = crew_open(NULL, 0);

    for (int i = 0; i < 4; i++) {
        crew_t crew = crew_open(NULL, 0);
        pthread_t thread;

        if (crew.rank == 0) {
            KT_INT(pthread_create(&thread, NULL, waits[i], &crew), 0);
            kvs_store_cancel(crew.store);
            pthread_join(thread, NULL);
        }
        crew_meet(&room);
        (void)kvs_store_close(crew.store);
        crew_works(&room, kvs_key_int(i)); /* the other store is as it was */
    }
    crew_close(&room);
}

/* What a cancelled worker has pending ends, it closes in good order, and the others hear that. */
static void a_cancelled_worker_leaves_and_the_others_are_told(void)
{
    enum { N = 6 };
    crew_t room = crew_open(NULL, 0), crew = crew_open(NULL, 0);
    kvs_event_t *events[2 * N];
    float values[2 * N], sum;
    kvs_status_t status;

    if (crew.rank == 0) {
        for (int i = 0; i < 2 * N; i++) { /* the second of a key waits for the first */
            values[i] = 1;
            KT_OK(crew_sum(&crew, kvs_key_int(i / 2), KVS_DTYPE_float32, 1, &values[i], &values[i],
                           &events[i]));
        }
        kvs_store_cancel(crew.store);
        status = kvs_store_close(crew.store);
        KT_TRUE(status == KVS_OK || strstr(kvs_last_error(), "abandoned") == NULL);
        for (int i = 0; i < 2 * N; i++) {
            int done = 0;

            KT_OK(kvs_event_test(events[i], &done));
            KT_INT(done, 1);
            KT_FAIL(kvs_event_wait(events[i], 0), KVS_ERR_CANCELLED, "cancelled");
            kvs_event_free(events[i]);
        }
    }
    crew_meet(&room);
    if (crew.rank != 0) {
        KT_FAIL(crew_sum1(&crew, kvs_key_int(0), 1, &sum), KVS_ERR_PEER, "worker 0 (host ");
        KT_HAS(kvs_last_error(), "has closed the store");
        crew_close(&crew);
    }
    crew_works(&room, kvs_key_int(1)); /* the other store is as it was */
    crew_close(&room);
}

static double seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* So many keys that the last is exchanged long after it was submitted, and nobody calls that late. Worker 0
 * exchanges with nobody else, so that only waiting for its turn counts. */
static void keys_that_wait_for_their_turn_are_not_overdue(void)
{
    enum { N = 4 << 20, MAX_KEYS = 4000 };
    crew_t crew = CREW_OPEN({"timeout", "2"});
    static kvs_event_t *events[MAX_KEYS];
    float *value = calloc(N, sizeof(*value));
    double begun = 0;
    int n_keys = 0;

    for (int i = 0; i < 2 && crew.rank == 0; i++) {
        begun = seconds();
        KT_OK(crew_sum(&crew, kvs_key_int(-1), KVS_DTYPE_float32, N, value, NULL, NULL));
    }
    if (crew.rank == 0) {
        for (double each = seconds() - begun; n_keys < MAX_KEYS && n_keys * each < 5; n_keys++) {
            KT_OK(crew_sum(&crew, kvs_key_int(n_keys), KVS_DTYPE_float32, N, value, NULL,
                           &events[n_keys]));
        }
        for (int k = 0; k < n_keys; k++) {
            KT_OK(crew_finish(events[k]));
        }
    }
    KT_OK(kvs_store_join(crew.store));
    crew_works(&crew, kvs_key_int(-1));
    crew_close(&crew);
    free(value);
}

/* Where it is written with a comma, "4.5" must not be read as 4. */
static void tenths_of_a_second_count_in_any_locale(void)
{
    (void)kt_comma_locale();
    crew_t room = crew_open(NULL, 0), crew = CREW_OPEN({"timeout", "4.5"});

    if (crew.rank == 0) {
        static const char late[] = "not submitted for ";
        const char *text;

        KT_FAIL(crew_sum1(&crew, kvs_key_int(1), 1, NULL), KVS_ERR_TIMEOUT, late);
        text = strstr(kvs_last_error(), late);
        KT_TRUE(text != NULL && atoi(text + strlen(late)) >= 4500);
    }
    crew_meet(&room);
    crew_close(&crew);
    crew_close(&room);
    setlocale(LC_ALL, "C");
}

static const kt_test_t tests[] = {
    KT_TEST(a_dtype_that_differs_is_told_to_all),
    KT_TEST(a_shape_that_differs_is_told_to_all),
    KT_TEST(an_operation_that_differs_is_told_to_all),
    KT_TEST(a_late_rank_is_warned_of),
    KT_TEST(a_missing_rank_is_named_and_finds_out_when_it_comes),
    KT_TEST(calls_in_opposite_orders_end_at_the_deadline),
    KT_TEST(an_option_that_differs_is_told_to_all),
    KT_TEST(a_store_closed_early_is_named),
    KT_TEST(a_missing_barrier_is_named),
    KT_TEST(who_has_joined_has_no_part),
    KT_TEST(only_pushpull_goes_on_without_who_has_joined),
    KT_TEST(a_join_that_times_out_leaves_all_in_step),
    KT_TEST(cancel_wakes_who_waits_for_others),
    KT_TEST(a_cancelled_worker_leaves_and_the_others_are_told),
    KT_TEST(keys_that_wait_for_their_turn_are_not_overdue),
    KT_TEST(tenths_of_a_second_count_in_any_locale),
};

KT_MAIN("job_horovod_errors", tests)
