/* SPDX-License-Identifier: Apache-2.0 */
/* job_codec.c - gradient compression in a job: the bits of `device` with one value of each worker, whatever is
 * cut and updated, and what is told where workers disagree. Each rank makes the values of all ranks and
 * lets a store of its own say what is right. */
#include "job.h"

#include <math.h>
#include <stdlib.h>

enum { N_ROUNDS = 4, MAX_WORKERS = 8 };

static kvs_status_t set(kvs_store_t *store, const char *type, double threshold)
{
    kvs_param_t params[2] = {
        {.name = "type", .type = KVS_PARAM_TEXT, .value = {.text = type}},
        {.name = "threshold", .type = KVS_PARAM_FLOAT, .value = {.real = threshold}}};

    return kvs_store_set_gradient_compression(store, params, 2);
}

/* ---- Against `device` ---------------------------------------------------------------------------------- */

typedef struct array {
    int64_t shape[2];
    int64_t n;
    float *at;
} array_t;

static array_t array_of(int64_t rows, int64_t width)
{
    array_t array = {{rows, width}, rows * width, NULL};

    array.at = calloc((size_t)array.n + 1, sizeof(*array.at));
    if (array.at == NULL) {
        exit(2);
    }
    return array;
}

static kvs_tensor_t tensor_of(array_t *array)
{
    return kt_tensor(array->at, KVS_DTYPE_float32, array->shape, 2);
}

/* What `rank` pushes in a round: multiples of 1/64 around the thresholds. */
static void fill(array_t *array, int rank, int round)
{
    for (int64_t i = 0; i < array->n; i++) {
        uint64_t x = ((uint64_t)i * 31 + (uint64_t)(7 * rank + 3 * round)) * 0x9E3779B97F4A7C15u;

        array->at[i] = (float)((int)(x >> 57) - 64) / 64;
    }
}

typedef struct pair {
    job_t job;
    kvs_store_t *device;
} pair_t;

static void init_both(const pair_t *pair, kvs_key_t key, array_t *value)
{
    kvs_tensor_t tensor = tensor_of(value);
    kvs_arrays_t values = kvs_arrays(&tensor, 1);

    KT_OK(kvs_store_init(pair->job.store, &key, 1, &values, NULL));
    KT_OK(kvs_store_init(pair->device, &key, 1, &values, NULL));
}

static void push_all(const pair_t *pair, kvs_key_t key, const array_t *like, int round)
{
    array_t arrays[MAX_WORKERS];
    kvs_tensor_t tensors[MAX_WORKERS];
    kvs_arrays_t values = kvs_arrays(tensors, (size_t)pair->job.n_workers);

    for (int w = 0; w < pair->job.n_workers; w++) {
        arrays[w] = array_of(like->shape[0], like->shape[1]);
        fill(&arrays[w], w, round);
        tensors[w] = tensor_of(&arrays[w]);
    }
    KT_OK(kvs_store_push(pair->device, &key, 1, &values, NULL));
    for (int w = 0; w < pair->job.n_workers; w++) {
        free(arrays[w].at);
    }
}

/* Push and pull, or pushpull, into `out`. */
static void push_own(const pair_t *pair, kvs_key_t key, array_t *out, int round)
{
    array_t value = array_of(out->shape[0], out->shape[1]);
    kvs_tensor_t tensor = tensor_of(&value), out_tensor = tensor_of(out);
    kvs_arrays_t values = kvs_arrays(&tensor, 1), outs = kvs_arrays(&out_tensor, 1);

    fill(&value, pair->job.rank, round);
    if (round % 2 == 0) {
        KT_OK(kvs_store_push(pair->job.store, &key, 1, &values, NULL));
        KT_OK(kvs_store_pull(pair->job.store, &key, 1, &outs, NULL));
    } else {
        KT_OK(kvs_store_pushpull(pair->job.store, &key, 1, &values, &outs, NULL));
    }
    free(value.at);
}

static void compare(const pair_t *pair, kvs_key_t key, array_t *got, const char *what)
{
    array_t want = array_of(got->shape[0], got->shape[1]);
    kvs_tensor_t tensor = tensor_of(&want);
    kvs_arrays_t outs = kvs_arrays(&tensor, 1);
    int64_t at = 0;

    KT_OK(kvs_store_pull(pair->device, &key, 1, &outs, NULL));
    while (at < got->n && memcmp(&got->at[at], &want.at[at], sizeof(float)) == 0) {
        at++;
    }
    if (at < got->n) {
        fprintf(stderr, "%s: element %lld of %lld is %g, want %g\n", what, (long long)at,
                (long long)got->n, (double)got->at[at], (double)want.at[at]);
    }
    KT_INT(at, got->n);
    free(want.at);
}

static void run_array(const pair_t *pair, int64_t number, int64_t rows, int64_t width,
                      const char *what)
{
    array_t value = array_of(rows, width), out = array_of(rows, width);
    kvs_key_t key = kvs_key_int(number);

    fill(&value, 0, (int)number);
    init_both(pair, key, &value);
    for (int round = 0; round < N_ROUNDS; round++) {
        push_own(pair, key, &out, round);
        push_all(pair, key, &out, round);
        compare(pair, key, &out, what);
    }
    free(value.at);
    free(out.at);
}

/* Empty, of less and more than a word, cut over servers within rows and between them. */
static void run_shapes(const char *type, double threshold, const char *optimizer)
{
    static const int64_t shapes[][2] = {{1, 0},     {1, 1},      {3, 11},    {1, 65536},
                                        {300, 512}, {1, 140001}, {1211, 121}};
    pair_t pair = {JOB_OPEN({"bigarray_bound", "100000"}), NULL};

    KT_OK(kvs_store_create("device", NULL, 0, &pair.device));
    if (optimizer != NULL) {
        KT_OK(JOB_OPTIMIZER(pair.job.store, optimizer, JOB_REAL("learning_rate", 0.1)));
        KT_OK(JOB_OPTIMIZER(pair.device, optimizer, JOB_REAL("learning_rate", 0.1)));
    }
    KT_OK(set(pair.job.store, type, threshold));
    KT_OK(set(pair.device, type, threshold));
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        run_array(&pair, (int64_t)i, shapes[i][0], shapes[i][1], type);
    }
    KT_OK(kvs_store_close(pair.device));
    job_close(&pair.job);
}

static void packed_sums_have_the_bits_of_device(void)
{
    run_shapes("2bit", 0.5, NULL);
    run_shapes("2bit", 1e-7, NULL);
    run_shapes("1bit", 0.25, NULL);
}

static void packed_updates_have_the_bits_of_device(void)
{
    run_shapes("2bit", 0.5, "sgd");
    run_shapes("1bit", 0.5, "adam");
    run_shapes("2bit", 0.25, "lamb");
}

/* ---- What is packed -------------------------------------------------------------------------------------- */

static void values_of_a_worker_are_summed_first(void)
{
    job_t job = job_open(NULL, 0);
    kvs_key_t key = kvs_key_int(1);
    float at[2] = {0.75f, 0.5f};
    kvs_tensor_t tensors[2] = {KT_F32(&at[0], 1), KT_F32(&at[1], 1)};
    kvs_arrays_t values = kvs_arrays(tensors, 2);

    KT_OK(set(job.store, "2bit", 1));
    KT_OK(job_init(&job, key, VEC(0)));
    KT_OK(kvs_store_push(job.store, &key, 1, &values, NULL));
    job_want(&job, key, 1, (float)job.n_workers); /* 1.25, of which 0.25 stays */
    KT_OK(job_push(&job, key, VEC(0.75f)));
    job_want(&job, key, 1, (float)job.n_workers);
    KT_OK(job_push(&job, key, VEC(0.5f)));
    job_want(&job, key, 1, 0);
    job_close(&job);
}

/* Several pushes are packed before the first of them is over. */
static void pushes_that_run_ahead_keep_their_residuals(void)
{
    enum { N = 12 };
    job_t job = job_open(NULL, 0);
    kvs_key_t key = kvs_key_int(1);
    vec_t values[N], outs[N];
    kvs_event_t *events[N];

    KT_OK(set(job.store, "2bit", 1));
    KT_OK(job_init(&job, key, VEC(0)));
    for (int i = 0; i < N; i++) {
        values[i] = VEC(0.25f);
        outs[i] = VEC(-1);
        events[i] = job_begin_pushpull(&job, key, &values[i], &outs[i]);
    }
    for (int i = 0; i < N; i++) {
        KT_OK(job_finish(events[i]));
        KT_REAL(outs[i].at[0], i % 4 == 3 ? job.n_workers : 0);
    }
    job_close(&job);
}

/* ---- What is refused --------------------------------------------------------------------------------------- */

static void a_key_keeps_the_compression_of_its_first_push(void)
{
    job_t job = job_open(NULL, 0);
    vec_t out = VEC(0);

    for (int i = 1; i <= 3; i++) {
        KT_OK(job_init(&job, kvs_key_int(i), VEC(0)));
    }
    KT_OK(job_push(&job, kvs_key_int(1), VEC(0.25f)));
    KT_OK(set(job.store, "2bit", 0.5));
    KT_FAIL(job_push(&job, kvs_key_int(1), VEC(1)), KVS_ERR_STATE,
            "key 1: it was pushed before gradient compression was set");
    KT_FAIL(job_pushpull(&job, kvs_key_int(1), VEC(1), &out), KVS_ERR_STATE, "key 1: ");
    KT_OK(job_push(&job, kvs_key_int(2), VEC(0.5f)));
    KT_OK(set(job.store, "2bit", 0.125));
    KT_FAIL(job_push(&job, kvs_key_int(2), VEC(1)), KVS_ERR_STATE,
            "key 2: it was pushed with another gradient compression");
    KT_OK(job_push(&job, kvs_key_int(3), VEC(0.25f)));
    job_want(&job, kvs_key_int(1), 1, 0.25f * (float)job.n_workers);
    job_want(&job, kvs_key_int(2), 1, 0.5f * (float)job.n_workers);
    job_want(&job, kvs_key_int(3), 1, 0.125f * (float)job.n_workers);
    job_close(&job);
}

static void compression_that_differs_is_told_to_both(void)
{
    job_t job = job_open(NULL, 0);
    vec_t out = VEC(0);
    kvs_status_t status;

    KT_OK(job_init(&job, kvs_key_int(1), VEC(0)));
    if (job.rank == 0) {
        KT_OK(set(job.store, "2bit", 0.5));
        job_meet(&job);
        while ((status = job_pull(&job, kvs_key_int(1), &out)) == KVS_OK) {
        }
        KT_FAIL(status, KVS_ERR_ARGUMENT, "set_gradient_compression: call 1 of worker 1 (");
        KT_HAS(kvs_last_error(), "(type '2bit', threshold 0.25), but that of worker 0 (");
        KT_HAS(kvs_last_error(), "(type '2bit', threshold 0.5)");
    } else {
        job_meet(&job);
        KT_FAIL(set(job.store, "2bit", 0.25), KVS_ERR_ARGUMENT,
                "set_gradient_compression: call 1 of worker 1 (");
        KT_OK(set(job.store, "2bit", 0.5)); /* mended */
    }
    KT_OK(job_push(&job, kvs_key_int(1), VEC(0.75f)));
    job_want(&job, kvs_key_int(1), 1, 1);
    job_close(&job);
}

static void compression_on_one_rank_only_is_told_to_both(void)
{
    job_t job = job_open(NULL, 0);

    KT_OK(job_init(&job, kvs_key_int(1), VEC(0)));
    if (job.rank == 0) {
        KT_OK(set(job.store, "2bit", 0.5));
    }
    job_meet(&job);
    KT_FAIL(job_failure(&job, job_push(&job, kvs_key_int(1), VEC(1))), KVS_ERR_STATE,
            "key 1, round 1: worker 0 (");
    KT_HAS(kvs_last_error(), "has called set_gradient_compression 1 times, worker 1 (");
    job_close(&job);
}

/* Of the round as a whole, so that all stay in step. */
static void what_one_rank_cannot_pack_is_told_to_all(void)
{
    job_t job = job_open(NULL, 0);
    kvs_key_t key = kvs_key_int(1);

    KT_OK(set(job.store, "2bit", 1));
    KT_OK(job_init(&job, key, VEC(0, 0)));
    KT_OK(job_push(&job, key, VEC(0.75f, 0.75f)));
    if (job.rank == 1) {
        KT_FAIL(job_push(&job, key, VEC(1, NAN)), KVS_ERR_NON_FINITE,
                "push: key 1: value 0 of the list: element 1 is NaN");
    } else {
        KT_FAIL(job_failure(&job, job_push(&job, key, VEC(0, 0))), KVS_ERR_NON_FINITE,
                "key 1, round 2: worker 1 (");
        KT_HAS(kvs_last_error(), "element 1 is NaN");
    }
    KT_OK(job_push(&job, key, VEC(0.5f, 0.5f)));
    job_want(&job, key, 2, (float)job.n_workers);
    job_close(&job);
}

/* With no deadline: the worker that has left is all that ends the round. */
static void what_cannot_be_packed_waits_for_nobody_who_has_left(void)
{
    job_t room = job_open(NULL, 0), job = JOB_OPEN({"timeout", "0"});

    KT_OK(set(job.store, "2bit", 1));
    KT_OK(job_init(&job, kvs_key_int(1), VEC(0, 0)));
    if (job.rank == 1) {
        job_close(&job);
    }
    job_meet(&room);
    if (job.rank == 0) {
        KT_FAIL(job_push(&job, kvs_key_int(1), VEC(1, NAN)), KVS_ERR_NON_FINITE,
                "element 1 is NaN");
        job_close(&job);
    }
    job_meet(&room); /* its process is there till then */
    job_close(&room);
}

static const kt_test_t tests[] = {
    KT_TEST(packed_sums_have_the_bits_of_device),
    KT_TEST(packed_updates_have_the_bits_of_device),
    KT_TEST(values_of_a_worker_are_summed_first),
    KT_TEST(pushes_that_run_ahead_keep_their_residuals),
    KT_TEST(a_key_keeps_the_compression_of_its_first_push),
    KT_TEST(compression_that_differs_is_told_to_both),
    KT_TEST(compression_on_one_rank_only_is_told_to_both),
    KT_TEST(what_one_rank_cannot_pack_is_told_to_all),
    KT_TEST(what_cannot_be_packed_waits_for_nobody_who_has_left),
};

KT_MAIN("job_codec", tests)
