/* SPDX-License-Identifier: Apache-2.0 */
/* job_errors.c - ranks that disagree, and ranks that do not come: everyone is told, with the key, both
 * ranks and both sides; and the store can be used afterwards. Jobs of two workers. */
#include "job.h"

static const kvs_option_t four_seconds = {"timeout", "4"}, allow = {"allow_cpu", "1"};

static void want_works(const job_t *job, kvs_key_t key)
{
    vec_t out = VEC(0, 0);

    KT_OK(job_pushpull(job, key, VEC(1, (float)job->rank), &out));
    KT_REAL(out.at[0], 2);
    KT_REAL(out.at[1], 1);
}

static void a_shape_that_differs_is_told_to_both(void)
{
    job_t job = job_open_as("byteps", NULL, 0);
    kvs_key_t key = kvs_key_str("weight");
    vec_t out = VEC(0, 0);
    vec_t longer = VEC(0, 0, 0);

    if (job.rank == 0) {
        KT_FAIL(job_pushpull(&job, key, VEC(1, 2), &out), KVS_ERR_SHAPE,
                "pushpull: key 'weight': worker ");
    } else {
        KT_FAIL(job_pushpull(&job, key, VEC(1, 2, 3), &longer), KVS_ERR_SHAPE,
                "pushpull: key 'weight': worker ");
    }
    KT_HAS(kvs_last_error(), "worker 0 (host ");
    KT_HAS(kvs_last_error(), "worker 1 (host ");
    KT_HAS(kvs_last_error(), "pushpull of float32 (2,)");
    KT_HAS(kvs_last_error(), "pushpull of float32 (3,)");
    want_works(&job, key);
    job_close(&job);
}

/* The array has several parts, and those of the other rank are of another size. */
static void a_dtype_that_differs_is_told_to_both(void)
{
    enum { N = 3000000 };
    static double values[N];
    job_t job = job_open_as("byteps", NULL, 0);
    int dtype = job.rank == 0 ? KVS_DTYPE_float32 : KVS_DTYPE_float64;
    const int64_t n = N;
    kvs_tensor_t tensor = kt_tensor(values, dtype, &n, 1);
    kvs_arrays_t arrays = kvs_arrays(&tensor, 1);
    kvs_key_t key = kvs_key_int(5);

    KT_FAIL(kvs_store_pushpull(job.store, &key, 1, &arrays, NULL, NULL), KVS_ERR_DTYPE,
            "pushpull: key 5: worker ");
    KT_HAS(kvs_last_error(), "pushpull of float32 (3000000,)");
    KT_HAS(kvs_last_error(), "pushpull of float64 (3000000,)");
    want_works(&job, key);
    job_close(&job);
}

static void a_verb_that_differs_is_told_to_both(void)
{
    job_t job = job_open_as("byteps", NULL, 0);
    float value[2] = {1, 2};
    kvs_tensor_t tensor = KT_F32(value, 2);
    kvs_arrays_t arrays = kvs_arrays(&tensor, 1);
    kvs_key_t key = kvs_key_int(5);
    kvs_status_t status = job.rank == 0
                              ? kvs_store_broadcast(job.store, &key, 1, &arrays, &arrays, NULL)
                              : kvs_store_pushpull(job.store, &key, 1, &arrays, NULL, NULL);

    KT_FAIL(status, KVS_ERR_STATE, "key 5: worker ");
    KT_HAS(kvs_last_error(), "a broadcast of float32 (2,)");
    KT_HAS(kvs_last_error(), "a pushpull of float32 (2,)");
    want_works(&job, key);
    job_close(&job);
}

static void parts_that_differ_are_told_to_both(void)
{
    job_t job = job_open_as("byteps", NULL, 0);
    kvs_option_t option = {"partition_bytes", job.rank == 0 ? "1000000" : "2000000"};
    kvs_store_t *store = NULL;

    KT_FAIL(kvs_store_create("byteps", &option, 1, &store), KVS_ERR_PEER, "partition_bytes");
    KT_HAS(kvs_last_error(), "'1000000'");
    KT_HAS(kvs_last_error(), "'2000000'");
    want_works(&job, kvs_key_int(1));
    job_close(&job);
}

static void a_key_of_one_rank_ends_at_the_deadline(void)
{
    job_t job = job_open_as("byteps", &four_seconds, 1), meeting = job_open_as("byteps", NULL, 0);
    vec_t out = VEC(0, 0);

    if (job.rank == 0) {
        KT_FAIL(job_pushpull(&job, kvs_key_str("extra"), VEC(1, 2), &out), KVS_ERR_TIMEOUT,
                "pushpull: key 'extra': worker 1 (host ");
        KT_HAS(kvs_last_error(), ") has not come within 4 s, unlike worker 0 (host ");
        job_meet(&meeting);
    } else { /* late, it is told the same at once */
        job_meet(&meeting);
        KT_FAIL(job_pushpull(&job, kvs_key_str("extra"), VEC(1, 2), &out), KVS_ERR_TIMEOUT,
                "pushpull: key 'extra': worker 1 (host ");
    }
    want_works(&job, kvs_key_str("extra"));
    job_close(&meeting);
    job_close(&job);
}

/* An array that nobody has: it is not touched before its parts have places, for which there is no memory. */
static void a_key_that_worker_0_cannot_place_fails_at_once(void)
{
    const int64_t n = INT64_C(1) << 56;
    job_t job = job_open_as("byteps", NULL, 0);
    float value[1] = {1};
    kvs_tensor_t tensor = kt_tensor(value, KVS_DTYPE_float32, &n, 1);
    kvs_arrays_t values = kvs_arrays(&tensor, 1);
    kvs_key_t key = kvs_key_str("huge");

    if (job.rank == 1) {
        KT_FAIL(kvs_store_pushpull(job.store, &key, 1, &values, NULL, NULL), KVS_ERR_NO_MEMORY,
                "pushpull: worker 0 (host ");
        KT_HAS(kvs_last_error(), "could not place the key: no memory");
    }
    want_works(&job, kvs_key_str("small"));
    job_close(&job);
}

static void a_worker_that_closes_is_named(void)
{
    job_t job = job_open_as("byteps", NULL, 0);
    vec_t out = VEC(0, 0);

    want_works(&job, kvs_key_int(1));
    if (job.rank == 0) {
        KT_FAIL(job_pushpull(&job, kvs_key_int(1), VEC(1, 2), &out), KVS_ERR_PEER,
                "pushpull: key 1: worker 1 (host ");
    }
    job_close(&job);
}

/* What waits behind the key that worker 1 sums, for want of credit, ends too. */
static void a_worker_that_closes_holds_up_no_other_key(void)
{
    enum { N = 4 };
    job_t room = job_open_as("byteps", NULL, 0), job = job_open_as("byteps", NULL, 0);
    kvs_event_t *events[N];
    vec_t values[N], out = VEC(0);

    for (int i = 0; i < N; i++) {
        KT_OK(job_pushpull(&job, kvs_key_int(i), VEC(1), &out));
        values[i] = VEC(1);
    }
    for (int i = 0; i < N && job.rank == 0; i++) {
        events[i] = job_begin_pushpull(&job, kvs_key_int(N - 1 - i), &values[i], &values[i]);
    }
    job_meet(&room);
    if (job.rank == 1) {
        job_close(&job);
    }
    for (int i = 0; i < N && job.rank == 0; i++) {
        KT_FAIL(job_finish(events[i]), KVS_ERR_PEER, "worker 1 (");
    }
    if (job.rank == 0) {
        job_close(&job);
    }
    job_close(&room);
}

/* It is worker 0 that knows where keys go. */
static void a_worker_0_that_closes_is_named_for_new_keys(void)
{
    job_t room = job_open_as("byteps", NULL, 0), job = job_open_as("byteps", NULL, 0);
    vec_t out = VEC(0);

    KT_OK(job_pushpull(&job, kvs_key_int(1), VEC(1), &out));
    if (job.rank == 0) {
        job_close(&job);
    }
    job_meet(&room);
    if (job.rank == 1) {
        for (int i = 2; i < 4; i++) {
            KT_FAIL(job_pushpull(&job, kvs_key_int(i), VEC(1), &out), KVS_ERR_PEER, "worker 0 (");
        }
        job_close(&job);
    }
    job_meet(&room);
    job_close(&room);
}

static void cpu_arrays_are_refused_without_the_switch(void)
{
    job_t job = job_open_as("byteps", NULL, 0);
    job_t allowed = job_open_as("byteps", &allow, 1);
    vec_t out = VEC(0, 0);

    KT_FAIL(job_pushpull(&job, kvs_key_int(1), VEC(1, 2), &out), KVS_ERR_UNAVAILABLE,
            "create the store with allow_cpu=1, or set KVSTORE_BYTEPS_ALLOW_CPU=1");
    want_works(&allowed, kvs_key_int(1));
    job_close(&allowed);
    job_close(&job);
}

/* What a cancelled worker has pending ends, it closes in good order, and the other hears that. */
static void a_cancelled_worker_leaves_and_the_other_is_told(void)
{
    enum { N = 6 };
    job_t room = job_open_as("byteps", NULL, 0), job = job_open_as("byteps", NULL, 0);
    kvs_event_t *events[2 * N];
    vec_t values[2 * N], outs[2 * N], value = VEC(1), out;
    kvs_status_t status = KVS_OK;

    for (int i = 0; i < N; i++) {
        KT_OK(job_pushpull(&job, kvs_key_int(i), value, &value));
    }
    if (job.rank == 0) {
        for (int i = 0; i < 2 * N; i++) { /* the second of a key waits for the first */
            values[i] = outs[i] = value;
            events[i] = job_begin_pushpull(&job, kvs_key_int(i / 2), &values[i], &outs[i]);
        }
        kvs_store_cancel(job.store);
        status = kvs_store_close(job.store);
        KT_TRUE(status == KVS_OK || strstr(kvs_last_error(), "abandoned") == NULL);
        for (int i = 0; i < 2 * N; i++) {
            int done = 0;

            KT_OK(kvs_event_test(events[i], &done));
            KT_INT(done, 1);
            KT_INT(job_finish(events[i]), KVS_ERR_CANCELLED);
        }
    }
    job_meet(&room);
    if (job.rank == 1) {
        for (int i = 0; i < 3 && status == KVS_OK; i++) { /* what it sent before may count */
            out = value;
            status = job_pushpull(&job, kvs_key_int(0), value, &out);
        }
        KT_INT(status, KVS_ERR_PEER);
        KT_HAS(kvs_last_error(), "worker 0 (");
        KT_TRUE(strstr(kvs_last_error(), "died") == NULL);
        job_close(&job);
    }
    job_close(&room);
}

static const kt_test_t tests[] = {
    KT_TEST(a_shape_that_differs_is_told_to_both),
    KT_TEST(a_dtype_that_differs_is_told_to_both),
    KT_TEST(a_verb_that_differs_is_told_to_both),
    KT_TEST(parts_that_differ_are_told_to_both),
    KT_TEST(a_key_of_one_rank_ends_at_the_deadline),
    KT_TEST(a_key_that_worker_0_cannot_place_fails_at_once),
    KT_TEST(a_worker_that_closes_is_named),
    KT_TEST(a_worker_that_closes_holds_up_no_other_key),
    KT_TEST(a_worker_0_that_closes_is_named_for_new_keys),
    KT_TEST(cpu_arrays_are_refused_without_the_switch),
    KT_TEST(a_cancelled_worker_leaves_and_the_other_is_told),
};

KT_MAIN("job_errors", tests)
