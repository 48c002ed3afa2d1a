/* SPDX-License-Identifier: Apache-2.0 */
/* job_finite.c - gradients that are not finite, by the option nonfinite: jobs of one worker and of two. */
#include "job.h"

#include <math.h>
#include <stdlib.h>

#define POLICY(word)                                                                               \
    {                                                                                              \
        "nonfinite", (word)                                                                        \
    }

static vec_t bad_by(const job_t *job, int rank, float value)
{
    vec_t vec = VEC(1, 1, 1);

    vec.at[1] = job->rank == rank ? value : 1;
    return vec;
}

static void they_are_numbers_like_others_by_default(void)
{
    job_t job = job_open(NULL, 0);
    vec_t out = VEC(0, 0, 0);

    KT_OK(job_init(&job, kvs_key_int(1), VEC(1, 2, 3)));
    KT_OK(job_pushpull(&job, kvs_key_int(1), bad_by(&job, 0, NAN), &out));
    KT_REAL(out.at[0], (float)job.n_workers);
    KT_TRUE(isnan(out.at[1]));
    job_close(&job);
}

static void with_skip_a_round_changes_nothing(void)
{
    job_t job = JOB_OPEN(POLICY("skip"));
    vec_t out = VEC(0, 0, 0);
    float step = 0.5f * (float)job.n_workers;

    KT_OK(
        JOB_OPTIMIZER(job.store, "sgd", JOB_REAL("learning_rate", 0.5), JOB_REAL("momentum", 0.5)));
    KT_OK(job_init(&job, kvs_key_int(1), VEC(8, 8, 8)));
    KT_OK(job_push(&job, kvs_key_int(1), bad_by(&job, job.n_workers - 1, INFINITY)));
    job_want(&job, kvs_key_int(1), 3, 8);
    KT_OK(job_pushpull(&job, kvs_key_int(1), bad_by(&job, 0, NAN), &out));
    KT_REAL(out.at[0], 8);
    KT_REAL(out.at[1], 8);
    KT_OK(
        job_push(&job, kvs_key_int(1), VEC(1, 1, 1))); /* the first that counts: no momentum yet */
    job_want(&job, kvs_key_int(1), 3, 8 - step);
    KT_OK(kvs_store_wait_all(job.store, -1));
    job_close(&job);
}

static void with_error_the_rank_is_named(void)
{
    job_t job = JOB_OPEN(POLICY("error"));
    vec_t out = VEC(0, 0, 0);

    KT_OK(job_init(&job, kvs_key_str("w"), VEC(1, 2, 3)));
    KT_FAIL(job_pushpull(&job, kvs_key_str("w"), bad_by(&job, job.n_workers - 1, -INFINITY), &out),
            KVS_ERR_NON_FINITE, "pushpull: key 'w'");
    KT_HAS(kvs_last_error(), job.n_workers == 1 ? "worker 0" : "worker 1 (");
    KT_OK(job_pushpull(&job, kvs_key_str("w"), VEC(2, 2, 2), &out));
    KT_REAL(out.at[1], (float)(2 * job.n_workers));
    job_close(&job);
}

/* Both are finite. */
static void a_sum_may_be_too_large(void)
{
    job_t job = JOB_OPEN(POLICY("error"));
    vec_t out = VEC(0);

    KT_OK(job_init(&job, kvs_key_int(1), VEC(1)));
    KT_FAIL(job_pushpull(&job, kvs_key_int(1), VEC(3e38f), &out), KVS_ERR_NON_FINITE,
            "the sum of all gradients is not finite");
    job_want(&job, kvs_key_int(1), 1, 1);
    job_close(&job);
}

/* One element, on one server: no shard is changed. */
static void of_an_array_that_is_cut_all_or_nothing_counts(void)
{
    enum { N_ELEMS = 140001 };
    const kvs_option_t options[] = {{"bigarray_bound", "1000"}, POLICY("skip")};
    static const char *const types[] = {"dist_sync", "dist_async"};

    for (int i = 0; i < 2; i++) {
        job_t job = job_open_as(types[i], options, 2);
        float *data = calloc(N_ELEMS, sizeof(float));
        int64_t shape = N_ELEMS;
        kvs_tensor_t tensor = kt_tensor(data, KVS_DTYPE_float32, &shape, 1);
        kvs_arrays_t arrays = kvs_arrays(&tensor, 1);
        kvs_key_t key = kvs_key_int(1);

        KT_OK(JOB_OPTIMIZER(job.store, "sgd", JOB_REAL("learning_rate", 1)));
        KT_OK(kvs_store_init(job.store, &key, 1, &arrays, NULL));
        for (int k = 0; k < N_ELEMS; k++) {
            data[k] = 1;
        }
        data[N_ELEMS - 1] = job.rank == 0 ? NAN : 1;
        if (i == 0 || job.rank == 0) { /* asynchronous: rank 0 alone, and it is skipped */
            KT_OK(kvs_store_push(job.store, &key, 1, &arrays, NULL));
        }
        KT_OK(kvs_store_pull(job.store, &key, 1, &arrays, NULL));
        for (int k = 0; k < N_ELEMS; k += 1000) {
            KT_REAL(data[k], 0);
        }
        KT_REAL(data[N_ELEMS - 1], 0);
        job_close(&job);
        free(data);
    }
}

static void another_word_is_refused(void)
{
    kvs_store_t *store = NULL;
    kvs_option_t option = POLICY("ignore");

    KT_FAIL(kvs_store_create("dist_sync", &option, 1, &store), KVS_ERR_ARGUMENT,
            "nonfinite is \"ignore\"; accepted are propagate, skip, error");
}

static const kt_test_t tests[] = {
    KT_TEST(they_are_numbers_like_others_by_default),
    KT_TEST(with_skip_a_round_changes_nothing),
    KT_TEST(with_error_the_rank_is_named),
    KT_TEST(a_sum_may_be_too_large),
    KT_TEST(of_an_array_that_is_cut_all_or_nothing_counts),
    KT_TEST(another_word_is_refused),
};

KT_MAIN("job_finite", tests)
