/* SPDX-License-Identifier: Apache-2.0 */
/* job_async.c - asynchronous stores of several workers: each push updates by itself, no worker waits for
 * another, and a weight sees the pushes one after the other, also where it is cut over servers. */
#include "job.h"

#include <stdlib.h>

static void meet(const job_t *job)
{
    KT_OK(kvs_store_wait_all(job->store, -1));
    job_meet(job);
}

static job_t open_async(void)
{
    return job_open_as("dist_async", NULL, 0);
}

static void a_push_without_an_optimizer_is_refused(void)
{
    job_t job = open_async();
    vec_t value = VEC(1), out = VEC(0);

    KT_OK(job_init(&job, kvs_key_str("w"), VEC(8)));
    KT_FAIL(job_push(&job, kvs_key_str("w"), value), KVS_ERR_STATE, "push: key 'w': ");
    KT_HAS(kvs_last_error(), "call set_optimizer");
    KT_FAIL(job_pushpull(&job, kvs_key_str("w"), value, &out), KVS_ERR_STATE, "set_optimizer");
    KT_FAIL(job_finish(job_begin_push(&job, kvs_key_str("w"), &value)), KVS_ERR_STATE,
            "set_optimizer");
    job_want(&job, kvs_key_str("w"), 1, 8);
    KT_OK(kvs_store_wait_all(job.store, -1)); /* everything was told */
    job_close(&job);
}

/* What counts is whether the servers have one. */
static void another_ranks_optimizer_serves_too(void)
{
    job_t job = open_async();

    KT_OK(job_init(&job, kvs_key_int(1), VEC(8)));
    if (job.rank == 1) {
        KT_OK(JOB_OPTIMIZER(job.store, "sgd", JOB_REAL("learning_rate", 0.5)));
    }
    meet(&job);
    if (job.rank == 0) {
        KT_OK(job_push(&job, kvs_key_int(1), VEC(2)));
        job_want(&job, kvs_key_int(1), 1, 7);
        KT_OK(JOB_OPTIMIZER(job.store, "sgd", JOB_REAL("learning_rate", 0.5)));
        KT_OK(job_push(&job, kvs_key_int(1), VEC(2)));
    }
    meet(&job);
    job_want(&job, kvs_key_int(1), 1, 6);
    job_close(&job);
}

static void no_worker_waits_for_another(void)
{
    job_t job = open_async();

    KT_OK(job_init(&job, kvs_key_int(1), VEC(64)));
    KT_OK(JOB_OPTIMIZER(job.store, "sgd", JOB_REAL("learning_rate", 1)));
    meet(&job);
    for (int rank = 0; rank < job.n_workers; rank++) {
        for (int i = 1; i <= 5 && rank == job.rank; i++) {
            KT_OK(job_push(&job, kvs_key_int(1), VEC(1)));
            job_want(&job, kvs_key_int(1), 1, (float)(64 - 5 * rank - i));
        }
        meet(&job);
    }
    job_close(&job);
}

/* Many pushes and pulls of all at once: whole numbers, so that their order makes no difference. */
static void every_push_counts_once(void)
{
    enum { N_KEYS = 7, N_PUSHES = 40 };
    job_t job = open_async();
    static vec_t values[N_KEYS], outs[N_PUSHES][N_KEYS];
    static kvs_event_t *events[N_PUSHES][N_KEYS];

    for (int k = 0; k < N_KEYS; k++) {
        values[k] = VEC(1, 2, 3, (float)k);
        KT_OK(job_init(&job, kvs_key_int(k), VEC(0, 0, 0, 0)));
    }
    KT_OK(JOB_OPTIMIZER(job.store, "sgd", JOB_REAL("learning_rate", 1)));
    for (int i = 0; i < N_PUSHES; i++) {
        for (int k = 0; k < N_KEYS; k++) {
            outs[i][k].n = 4;
            events[i][k] = (i + k) % 3 == 0
                               ? job_begin_pushpull(&job, kvs_key_int(k), &values[k], &outs[i][k])
                               : job_begin_push(&job, kvs_key_int(k), &values[k]);
        }
    }
    for (int i = 0; i < N_PUSHES; i++) {
        for (int k = 0; k < N_KEYS; k++) {
            KT_OK(job_finish(events[i][k]));
            if ((i + k) % 3 == 0) { /* whole pushes, and at least the own ones */
                KT_TRUE(outs[i][k].at[0] <= (float)-(i + 1));
                KT_REAL(outs[i][k].at[2], 3 * outs[i][k].at[0]);
            }
        }
    }
    meet(&job);
    for (int k = 0; k < N_KEYS; k++) {
        vec_t out = VEC(0, 0, 0, 0);
        float n = (float)-(N_PUSHES * job.n_workers);

        KT_OK(job_pull(&job, kvs_key_int(k), &out));
        for (int j = 0; j < 4; j++) {
            KT_REAL(out.at[j], n * values[k].at[j]);
        }
    }
    job_close(&job);
}

static void attributes_hold_for_the_pushes_after_them(void)
{
    kvs_param_t rate = JOB_REAL("learning_rate", 0.25);
    job_t job = open_async();
    vec_t value = VEC(4);
    kvs_event_t *events[8];

    KT_OK(job_init(&job, kvs_key_int(1), VEC(64)));
    KT_OK(JOB_OPTIMIZER(job.store, "sgd", JOB_REAL("learning_rate", 0.5)));
    meet(&job);
    if (job.rank == 0) {
        for (int i = 0; i < 8; i++) { /* on their way */
            events[i] = job_begin_push(&job, kvs_key_int(1), &value);
        }
        KT_OK(kvs_store_set_optimizer_attr(job.store, &rate));
        KT_OK(job_push(&job, kvs_key_int(1), VEC(4)));
        job_want(&job, kvs_key_int(1), 1, 64 - 8 * 2 - 1);
        for (int i = 0; i < 8; i++) {
            KT_OK(job_finish(events[i]));
        }
        rate.name = "learning_rat";
        KT_FAIL(kvs_store_set_optimizer_attr(job.store, &rate), KVS_ERR_ARGUMENT, "learning_rat");
    }
    meet(&job);
    job_close(&job);
}

/* The same gradient every time, so that any order gives what a local store gives. */
static void an_array_that_is_cut_sees_one_push_after_the_other(void)
{
    enum { N_ELEMS = 300000, N_PUSHES = 3 };
    const kvs_option_t options[] = {{"bigarray_bound", "1000"}};
    static const char *const names[] = {"lamb", "adam", "nadam", "lars"};
    job_t job = job_open_as("dist_async", options, 1);
    float *weight = malloc(N_ELEMS * sizeof(float)), *grad = malloc(N_ELEMS * sizeof(float));
    float *out = malloc(N_ELEMS * sizeof(float));
    int64_t shape = N_ELEMS;

    for (int i = 0; i < N_ELEMS; i++) {
        weight[i] = (float)(i % 97) / 64 + 1;
        grad[i] = (float)(i % 31) / 32 - 0.25f;
    }
    for (int o = 0; o < 4; o++) {
        kvs_tensor_t tensors[] = {kt_tensor(weight, KVS_DTYPE_float32, &shape, 1),
                                  kt_tensor(grad, KVS_DTYPE_float32, &shape, 1),
                                  kt_tensor(out, KVS_DTYPE_float32, &shape, 1)};
        kvs_arrays_t values = kvs_arrays(&tensors[0], 1), grads = kvs_arrays(&tensors[1], 1);
        kvs_arrays_t outs = kvs_arrays(&tensors[2], 1);
        kvs_key_t key = kvs_key_int(o);
        kvs_store_t *local = NULL;

        KT_OK(kvs_store_create("local", NULL, 0, &local));
        KT_OK(kvs_store_init(local, &key, 1, &values, NULL));
        KT_OK(kvs_store_init(job.store, &key, 1, &values, NULL));
        KT_OK(JOB_OPTIMIZER(local, names[o], JOB_REAL("learning_rate", 0.125)));
        KT_OK(JOB_OPTIMIZER(job.store, names[o], JOB_REAL("learning_rate", 0.125)));
        for (int i = 0; i < N_PUSHES * job.n_workers; i++) {
            KT_OK(kvs_store_push(local, &key, 1, &grads, NULL));
        }
        for (int i = 0; i < N_PUSHES; i++) {
            KT_OK(kvs_store_push(job.store, &key, 1, &grads, NULL));
        }
        meet(&job);
        KT_OK(kvs_store_pull(job.store, &key, 1, &outs, NULL));
        tensors[2].data = grad; /* made again below */
        KT_OK(kvs_store_pull(local, &key, 1, &outs, NULL));
        KT_TRUE(memcmp(out, grad, N_ELEMS * sizeof(float)) == 0);
        for (int i = 0; i < N_ELEMS; i++) {
            grad[i] = (float)(i % 31) / 32 - 0.25f;
        }
        meet(&job);
        KT_OK(kvs_store_close(local));
    }
    job_close(&job);
    free(weight);
    free(grad);
    free(out);
}

static void p3_is_for_synchronous_stores(void)
{
    kvs_store_t *store = NULL;

    KT_FAIL(kvs_store_create("dist_async", NULL, 0, &store), KVS_ERR_ARGUMENT, "'dist_async'");
    KT_HAS(kvs_last_error(), "P3");
    KT_FAIL(kvs_store_create("dist_device_async", NULL, 0, &store), KVS_ERR_ARGUMENT, "P3");
}

static void names_say_how_it_works(void)
{
    static const char *const names[] = {"dist_async", "dist_device_async", "dist_async_device"};

    for (int i = 0; i < 3; i++) {
        job_t job = job_open_as(names[i], NULL, 0);
        int is_async = 0;

        KT_OK(kvs_store_is_capable(job.store, "async", &is_async));
        KT_INT(is_async, 1);
        KT_STR(kvs_store_type(job.store), names[i]);
        KT_OK(job_init(&job, kvs_key_int(1), VEC(1)));
        KT_FAIL(job_push(&job, kvs_key_int(1), VEC(1)), KVS_ERR_STATE, "set_optimizer");
        job_close(&job);
    }
}

static const kt_test_t tests[] = {
    KT_TEST(a_push_without_an_optimizer_is_refused),
    KT_TEST(another_ranks_optimizer_serves_too),
    KT_TEST(no_worker_waits_for_another),
    KT_TEST(every_push_counts_once),
    KT_TEST(attributes_hold_for_the_pushes_after_them),
    KT_TEST(an_array_that_is_cut_sees_one_push_after_the_other),
    KT_TEST(p3_is_for_synchronous_stores),
    KT_TEST(names_say_how_it_works),
};

KT_MAIN("job_async", tests)
