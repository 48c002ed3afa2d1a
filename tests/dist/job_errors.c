/* SPDX-License-Identifier: Apache-2.0 */
/* job_errors.c - ranks that disagree, and ranks that do not come: everyone is told, with the key, both
 * ranks and both sides; and the store can be used afterwards. Jobs of two workers. */
#include "job.h"

#include <locale.h>
#include <stdlib.h>

#define SHORT                                                                                      \
    {                                                                                              \
        "timeout", "4"                                                                             \
    }

static void a_shape_that_differs_is_told_to_both(void)
{
    job_t job = job_open(NULL, 0);
    kvs_key_t key = kvs_key_str("weight");
    vec_t out = VEC(0, 0);
    kvs_status_t status;

    if (job.rank == 0) {
        KT_OK(job_init(&job, key, VEC(1, 2)));
        /* the news is on its way */
        while ((status = job_pull(&job, key, &out)) == KVS_OK) {
        }
        KT_FAIL(status, KVS_ERR_SHAPE, "pull: key 'weight': worker 1 (");
        KT_HAS(kvs_last_error(), "gives shape (3,) and dtype float32, but worker 0 (");
        KT_HAS(kvs_last_error(), "gave shape (2,) and float32");
    } else {
        KT_FAIL(job_init(&job, key, VEC(1, 2, 3)), KVS_ERR_SHAPE, "key 'weight': worker 1 (");
        KT_HAS(kvs_last_error(), "gives shape (3,) and dtype float32, but worker 0 (");
        KT_HAS(kvs_last_error(), "gave shape (2,) and float32");
        KT_OK(job_init(&job, key, VEC(0, 0))); /* mended */
    }
    KT_OK(job_push(&job, key, VEC(3, 3)));
    job_want(&job, key, 2, 6);
    job_close(&job);
}

static void a_dtype_that_differs_is_told_to_what_waits(void)
{
    job_t job = job_open(NULL, 0);
    kvs_key_t key = kvs_key_int(5);
    vec_t value = VEC(1);

    if (job.rank == 0) {
        KT_OK(job_init(&job, key, VEC(1)));
        kvs_event_t *event = job_begin_push(&job, key, &value);

        job_meet(&job);
        KT_FAIL(job_finish(event), KVS_ERR_DTYPE, "push: key 5: worker 1 (");
        KT_HAS(kvs_last_error(), "float64");
        KT_HAS(kvs_last_error(), "float32");
    } else {
        double other = 1;
        kvs_tensor_t tensor = kt_tensor(&other, KVS_DTYPE_float64, (const int64_t[]){1}, 1);
        kvs_arrays_t values = kvs_arrays(&tensor, 1);

        job_meet(&job);
        KT_FAIL(kvs_store_init(job.store, &key, 1, &values, NULL), KVS_ERR_DTYPE,
                "init: key 5: worker 1 (");
    }
    job_close(&job);
}

static void an_optimizer_that_differs_is_told_to_both(void)
{
    job_t job = job_open(NULL, 0);
    vec_t out = VEC(0);
    kvs_status_t status;

    KT_OK(job_init(&job, kvs_key_int(1), VEC(1)));
    if (job.rank == 0) {
        KT_OK(JOB_OPTIMIZER(job.store, "sgd", JOB_REAL("learning_rate", 0.5)));
        job_meet(&job);
        while ((status = job_pull(&job, kvs_key_int(1), &out)) == KVS_OK) {
        }
        KT_FAIL(status, KVS_ERR_ARGUMENT, "pull: set_optimizer: call 1 of worker 1 (");
        KT_HAS(kvs_last_error(), "gives adam (learning_rate 0.5), but that of worker 0 (");
        KT_HAS(kvs_last_error(), "gave sgd (learning_rate 0.5)");
    } else {
        job_meet(&job);
        KT_FAIL(JOB_OPTIMIZER(job.store, "adam", JOB_REAL("learning_rate", 0.5)), KVS_ERR_ARGUMENT,
                "set_optimizer: call 1 of worker 1 (");
        KT_HAS(kvs_last_error(), "gives adam (learning_rate 0.5), but that of worker 0 (");
        KT_OK(JOB_OPTIMIZER(job.store, "sgd", JOB_REAL("learning_rate", 0.5))); /* mended */
    }
    KT_OK(job_push(&job, kvs_key_int(1), VEC(1)));
    job_want(&job, kvs_key_int(1), 1, 0);
    job_close(&job);
}

static void an_optimizer_on_one_rank_only_is_told_to_both(void)
{
    job_t job = job_open(NULL, 0);

    KT_OK(job_init(&job, kvs_key_int(1), VEC(1)));
    if (job.rank == 0) {
        KT_OK(JOB_OPTIMIZER(job.store, "sgd", JOB_REAL("learning_rate", 0.5)));
    }
    job_meet(&job);
    KT_FAIL(job_failure(&job, job_push(&job, kvs_key_int(1), VEC(1))), KVS_ERR_STATE,
            "key 1, round 1: worker 0 (");
    KT_HAS(kvs_last_error(), "has called set_optimizer 1 times, worker 1 (");
    job_close(&job);
}

/* Nobody asks for the push's own end, unless that comes before its call returns. */
static void a_pull_behind_a_push_that_fails_is_told_so(void)
{
    job_t job = job_open(NULL, 0);
    vec_t out = VEC(5);

    KT_OK(job_init(&job, kvs_key_int(1), VEC(1)));
    KT_OK(job_init(&job, kvs_key_int(2), VEC(2)));
    if (job.rank == 0) {
        KT_OK(JOB_OPTIMIZER(job.store, "sgd", JOB_REAL("learning_rate", 0.5)));
    }
    job_meet(&job);
    kvs_status_t status = job_push(&job, kvs_key_int(1), VEC(1));

    if (status == KVS_OK) {
        KT_FAIL(job_pull(&job, kvs_key_int(1), &out), KVS_ERR_STATE,
                "pull: an earlier push failed: push: key 1, round 1: worker 0 (");
    } else {
        KT_FAIL(status, KVS_ERR_STATE, "push: key 1, round 1: worker 0 (");
    }
    KT_HAS(kvs_last_error(), "has called set_optimizer 1 times, worker 1 (");
    KT_OK(job_pull(&job, kvs_key_int(2), &out)); /* once */
    KT_OK(job_pull(&job, kvs_key_int(1), &out));
    KT_REAL(out.at[0], 1);
    KT_OK(kvs_store_wait_all(job.store, 20000));
    job_close(&job);
}

/* Rank 1 has another rate for the second round. */
static void a_rate_that_differs_is_told_to_both(void)
{
    const kvs_param_t same = JOB_REAL("learning_rate", 0.25),
                      other = JOB_REAL("learning_rate", 0.5);
    job_t job = job_open(NULL, 0);
    vec_t out = VEC(0);

    KT_OK(job_init(&job, kvs_key_int(1), VEC(1)));
    KT_OK(JOB_OPTIMIZER(job.store, "sgd", JOB_REAL("learning_rate", 0.5)));
    KT_OK(kvs_store_set_optimizer_attr(job.store, &same));
    KT_OK(job_pushpull(&job, kvs_key_int(1), VEC(1), &out));
    KT_REAL(out.at[0], 0.5);
    KT_OK(kvs_store_set_optimizer_attr(job.store, job.rank == 0 ? &same : &other));
    KT_FAIL(job_pushpull(&job, kvs_key_int(1), VEC(1), &out), KVS_ERR_ARGUMENT,
            "pushpull: key 1, round 2: worker 0 (");
    KT_HAS(kvs_last_error(), "has set other attributes of the optimizer than worker 1 (");
    KT_HAS(kvs_last_error(), ": its update has 0.25, not 0.5 (");
    job_want(&job, kvs_key_int(1), 1, 0.5);
    KT_OK(kvs_store_set_optimizer_attr(job.store, &other)); /* what makes no difference is none */
    KT_OK(job_pushpull(&job, kvs_key_int(1), VEC(0.25), &out));
    KT_REAL(out.at[0], 0.25);
    job_close(&job);
}

static void an_unknown_optimizer_lists_those_there_are(void)
{
    job_t job = job_open(NULL, 0);

    KT_FAIL(JOB_OPTIMIZER(job.store, "sdg", JOB_REAL("learning_rate", 1)), KVS_ERR_NOT_FOUND,
            "sdg");
    KT_HAS(kvs_last_error(), "adam");
    KT_FAIL(JOB_OPTIMIZER(job.store, "sgd", JOB_REAL("rate", 1)), KVS_ERR_ARGUMENT, "rate");
    job_close(&job);
}

static void a_type_that_differs_is_told_to_both(void)
{
    kvs_store_t *store = NULL;
    const char *rank = getenv("KVSTORE_RANK");

    KT_FAIL(kvs_store_create(strcmp(rank, "0") == 0 ? "dist_sync" : "dist", NULL, 0, &store),
            KVS_ERR_PEER, "dist_sync");
    KT_HAS(kvs_last_error(), "worker 0 (");
    KT_HAS(kvs_last_error(), "worker 1 (");
}

static void an_option_that_differs_is_told_to_both(void)
{
    kvs_store_t *store = NULL;
    kvs_option_t option = {"bigarray_bound",
                           strcmp(getenv("KVSTORE_RANK"), "0") == 0 ? "1000" : "2000"};

    KT_FAIL(kvs_store_create("dist_sync", &option, 1, &store), KVS_ERR_PEER, "bigarray_bound");
    KT_HAS(kvs_last_error(), "1000");
    KT_HAS(kvs_last_error(), "2000");
}

/* ---- Deadlines ------------------------------------------------------------------------------------------- */

/* The store with the deadline, and another in which the ranks meet. */
static void a_missing_worker_is_named_and_finds_out_when_it_comes(void)
{
    job_t room = job_open(NULL, 0), job = JOB_OPEN(SHORT);
    kvs_key_t key = kvs_key_str("w");
    vec_t out = VEC(0);

    KT_OK(job_init(&job, key, VEC(1)));
    if (job.rank == 0) {
        KT_FAIL(job_pushpull(&job, key, VEC(5), &out), KVS_ERR_TIMEOUT,
                "pushpull: key 'w', round 1: worker 1 (");
        KT_HAS(kvs_last_error(), "has not pushed within 4 s");
        KT_HAS(kvs_last_error(), "join");
        job_meet(&room);
    } else {
        job_meet(&room); /* rank 0 has given up */
        KT_FAIL(job_pushpull(&job, key, VEC(7), &out), KVS_ERR_TIMEOUT,
                "pushpull: key 'w', round 1: worker 1 (");
    }
    job_want(&job, key, 1, 1); /* nothing was done */
    KT_OK(job_push(&job, key, VEC(4)));
    job_want(&job, key, 1, 8);
    job_close(&job);
    job_close(&room);
}

/* The server is in rank 0's process. */
static void numbers_have_a_point_in_any_locale(void)
{
    job_t room = job_open(NULL, 0), job = JOB_OPEN({"timeout", "3.5"});
    vec_t out = VEC(0);

    KT_OK(job_init(&job, kvs_key_int(1), VEC(1)));
    (void)kt_comma_locale();
    if (job.rank == 0) {
        KT_FAIL(job_pushpull(&job, kvs_key_int(1), VEC(5), &out), KVS_ERR_TIMEOUT,
                "has not pushed within 3.5 s");
        KT_FAIL(kvs_store_join(job.store), KVS_ERR_TIMEOUT,
                "neither pushed nor joined within 3.5 s");
        KT_OK(JOB_OPTIMIZER(job.store, "sgd", JOB_REAL("learning_rate", 0.25)));
        job_meet(&room);
    } else {
        KT_FAIL(job_init(&job, kvs_key_int(2), VEC(1)), KVS_ERR_TIMEOUT,
                "has not initialised it within 3.5 s");
        job_meet(&room);
        KT_FAIL(JOB_OPTIMIZER(job.store, "sgd", JOB_REAL("learning_rate", 0.75)), KVS_ERR_ARGUMENT,
                "gives sgd (learning_rate 0.75), but");
        KT_HAS(kvs_last_error(), "gave sgd (learning_rate 0.25)");
        KT_FAIL(kvs_store_barrier(job.store), KVS_ERR_TIMEOUT, "came within 3.5 s");
    }
    job_meet(&room);
    setlocale(LC_ALL, "C");
    (void)kvs_store_close(job.store);
    job_close(&room);
}

static void a_missing_init_of_rank_0_is_named(void)
{
    job_t room = job_open(NULL, 0), job = JOB_OPEN(SHORT);

    if (job.rank != 0) {
        KT_FAIL(job_init(&job, kvs_key_int(3), VEC(1)), KVS_ERR_TIMEOUT, "init: key 3: worker 0 (");
        KT_HAS(kvs_last_error(), "has not initialised it within 4 s");
    }
    job_meet(&room);
    KT_OK(job_init(&job, kvs_key_int(3), VEC(2))); /* the next try */
    job_want(&job, kvs_key_int(3), 1, 2);
    job_close(&job);
    job_close(&room);
}

static void a_missing_barrier_is_named(void)
{
    job_t room = job_open(NULL, 0), job = JOB_OPEN(SHORT);

    if (job.rank == 0) {
        KT_FAIL(kvs_store_barrier(job.store), KVS_ERR_TIMEOUT, "barrier 1 of store 2 (dist_sync)");
        KT_HAS(kvs_last_error(), "missing: worker 1 (");
    }
    job_meet(&room);
    job_close(&job);
    job_close(&room);
}

/* Each waits for the other's first key. */
static void calls_in_opposite_orders_end_at_the_deadline(void)
{
    job_t room = job_open(NULL, 0), job = JOB_OPEN(SHORT);
    vec_t out = VEC(0);
    char text[64];

    for (int i = 0; i < 4; i++) {
        KT_OK(job_init(&job, kvs_key_int(i), VEC(0)));
    }
    snprintf(text, sizeof(text), "key %d, round 1: worker %d (", job.rank == 0 ? 0 : 3,
             1 - job.rank);
    KT_FAIL(job_pushpull(&job, kvs_key_int(job.rank == 0 ? 0 : 3), VEC(1), &out), KVS_ERR_TIMEOUT,
            text);
    job_meet(&room);
    job_close(&job);
    job_close(&room);
}

/* ---- Leaving ----------------------------------------------------------------------------------------------- */

static void a_store_closed_early_is_named(void)
{
    job_t room = job_open(NULL, 0), job = job_open(NULL, 0);
    vec_t value = VEC(1);

    KT_OK(job_init(&job, kvs_key_int(1), VEC(0)));
    if (job.rank == 0) {
        kvs_event_t *event = job_begin_push(&job, kvs_key_int(1), &value);

        job_meet(&room);
        KT_FAIL(job_finish(event), KVS_ERR_PEER, "push: key 1, round 1: worker 1 (");
        KT_HAS(kvs_last_error(), "has closed the store");
        job_want(&job, kvs_key_int(1), 1, 0); /* what is there can still be read */
        KT_FAIL(job_finish(job_begin_push(&job, kvs_key_int(1), &value)), KVS_ERR_PEER,
                "key 1, round 2: worker 1 (");
    } else {
        job_meet(&room);
    }
    job_close(&job);
    job_meet(&room);
    job_close(&room);
}

static const kt_test_t tests[] = {
    KT_TEST(a_shape_that_differs_is_told_to_both),
    KT_TEST(a_dtype_that_differs_is_told_to_what_waits),
    KT_TEST(an_optimizer_that_differs_is_told_to_both),
    KT_TEST(an_optimizer_on_one_rank_only_is_told_to_both),
    KT_TEST(a_pull_behind_a_push_that_fails_is_told_so),
    KT_TEST(a_rate_that_differs_is_told_to_both),
    KT_TEST(an_unknown_optimizer_lists_those_there_are),
    KT_TEST(a_type_that_differs_is_told_to_both),
    KT_TEST(an_option_that_differs_is_told_to_both),
    KT_TEST(a_missing_worker_is_named_and_finds_out_when_it_comes),
    KT_TEST(numbers_have_a_point_in_any_locale),
    KT_TEST(a_missing_init_of_rank_0_is_named),
    KT_TEST(a_missing_barrier_is_named),
    KT_TEST(calls_in_opposite_orders_end_at_the_deadline),
    KT_TEST(a_store_closed_early_is_named),
};

KT_MAIN("job_errors", tests)
