/* SPDX-License-Identifier: Apache-2.0 */
/* job_sums.c - exchanges that succeed: the bits of `local` over the same values, whatever the size, the
 * order of keys and the way arrays are cut. */
#include "sums.h"

#include <math.h>
#include <stdlib.h>

#define WAIT_MS 50000

static void compare_sum(const job_t *job, kvs_store_t *local, int dtype, int64_t n, int seed)
{
    void *want = sums_by_local(local, dtype, n, 0, job->n_workers, seed);
    void *value = malloc(sums_bytes(dtype, n) + 1);
    kvs_tensor_t tensor = kt_tensor(value, dtype, &n, 1);
    kvs_arrays_t values = kvs_arrays(&tensor, 1);
    kvs_key_t key = kvs_key_int(seed);

    sums_fill(value, dtype, n, job->rank, seed);
    KT_OK(kvs_store_pushpull(job->store, &key, 1, &values, NULL, NULL));
    KT_INT(memcmp(value, want, sums_bytes(dtype, n)), 0);
    free(value);
    free(want);
}

static void sums_have_the_bits_of_local(void)
{
    static const int64_t sizes[] = {0, 1, 3, 65537, 300001};
    job_t job = job_open_as("byteps", NULL, 0);
    kvs_store_t *local = NULL;
    int seed = 0;

    KT_OK(kvs_store_create("local", NULL, 0, &local));
    for (int dtype = 0; dtype < KVS_N_DTYPES; dtype++) {
        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
            compare_sum(&job, local, dtype, sizes[i], ++seed);
        }
    }
    compare_sum(&job, local, KVS_DTYPE_float32, 10000001, ++seed);
    KT_OK(kvs_store_close(local));
    job_close(&job);
}

/* ---- Many at once ------------------------------------------------------------------------------------- */

typedef struct many {
    size_t n;
    int64_t n_elems;
    float *data; /* n times n_elems */
    kvs_event_t **events;
} many_t;

static many_t many_new(size_t n, int64_t n_elems)
{
    return (many_t){n, n_elems, calloc(n * (size_t)n_elems, sizeof(float)),
                    calloc(n, sizeof(kvs_event_t *))};
}

static void many_begin(const job_t *job, many_t *many, size_t i, kvs_key_t key, int32_t priority)
{
    kvs_tensor_t tensor =
        kt_tensor(many->data + i * (size_t)many->n_elems, KVS_DTYPE_float32, &many->n_elems, 1);
    kvs_arrays_t values = kvs_arrays(&tensor, 1);
    kvs_call_t call = KVS_CALL_INIT;

    call.ret_event = &many->events[i];
    call.priority = priority;
    for (int64_t j = 0; j < many->n_elems; j++) {
        ((float *)tensor.data)[j] = (float)(i + (size_t)j % 7) + (float)job->rank;
    }
    KT_OK(kvs_store_pushpull(job->store, &key, 1, &values, NULL, &call));
}

/* Every element is the sum over ranks of what many_begin puts there. */
static void many_finish(const job_t *job, many_t *many)
{
    int n = job->n_workers;
    size_t n_wrong = 0;

    for (size_t i = 0; i < many->n; i++) {
        KT_OK(kvs_event_wait(many->events[i], WAIT_MS));
        kvs_event_free(many->events[i]);
        for (int64_t j = 0; j < many->n_elems; j++) {
            float want = (float)n * (float)(i + (size_t)j % 7) + (float)(n * (n - 1) / 2);

            n_wrong += many->data[i * (size_t)many->n_elems + (size_t)j] != want;
        }
    }
    KT_INT(n_wrong, 0);
    free(many->data);
    free(many->events);
}

/* Each rank begins at another key and with priorities of its own: with the credit of one part nobody
 * would get on if that were all. */
static void keys_go_in_any_order(void)
{
    enum { N = 24 };
    job_t job = job_open_as("byteps", NULL, 0);
    many_t many = many_new(N, 100000);

    for (size_t i = 0; i < N; i++) {
        size_t at = (i * (job.rank % 2 == 0 ? 1 : 5) + (size_t)job.rank * 7) % N;
        char name[32];

        snprintf(name, sizeof(name), "layer/%zu", at);
        many_begin(&job, &many, at, kvs_key_str(name), (int32_t)(at * (size_t)job.rank % 5));
    }
    many_finish(&job, &many);
    job_close(&job);
}

/* Half of the ranks begin with one key, half with the other, so that whom the others wait for is not the same
 * for all parts of a key. */
static void whoever_is_waited_for_goes_on(void)
{
    job_t job = job_open_as("byteps", NULL, 0);

    for (int round = 0; round < 5; round++) {
        many_t many = many_new(2, 300000);
        size_t first = 2 * job.rank < job.n_workers ? 0 : 1;

        many_begin(&job, &many, first, kvs_key_int((int64_t)first), 0);
        many_begin(&job, &many, 1 - first, kvs_key_int((int64_t)(1 - first)), 0);
        many_finish(&job, &many);
    }
    job_close(&job);
}

static void a_key_is_used_again_and_again(void)
{
    job_t job = job_open_as("byteps", NULL, 0);
    many_t many = many_new(50, 1000);
    int n = job.n_workers;

    for (int round = 0; round < 100; round++) {
        vec_t out = VEC(0, 0);

        KT_OK(job_pushpull(&job, kvs_key_int(-7), VEC((float)round, (float)job.rank), &out));
        KT_REAL(out.at[0], n * round);
        KT_REAL(out.at[1], n * (n - 1) / 2);
    }
    for (size_t i = 0; i < 50; i++) { /* which queue behind each other */
        many_begin(&job, &many, i, kvs_key_int(8), 0);
    }
    many_finish(&job, &many);
    job_close(&job);
}

static void broadcasts_are_real(void)
{
    enum { N = 70000 };
    job_t job = job_open_as("byteps", NULL, 0);
    float *value = malloc(N * sizeof(float)), *out = calloc(N, sizeof(float));
    kvs_tensor_t value_tensor = KT_F32(value, N), out_tensor = KT_F32(out, N);
    kvs_arrays_t values = kvs_arrays(&value_tensor, 1), outs = kvs_arrays(&out_tensor, 1);
    kvs_key_t key = kvs_key_str("weights");
    size_t n_wrong = 0;

    for (int round = 1; round <= 3; round++) {
        for (int i = 0; i < N; i++) {
            value[i] = job.rank == 0 ? (float)(i * round) : NAN;
        }
        KT_OK(kvs_store_broadcast(job.store, &key, 1, &values, &outs, NULL));
        for (int i = 0; i < N; i++) {
            n_wrong += out[i] != (float)(i * round);
        }
    }
    KT_OK(kvs_store_broadcast(job.store, &key, 1, &values, &values, NULL));
    for (int i = 0; i < N; i++) {
        n_wrong += value[i] != (float)(i * 3);
    }
    KT_INT(n_wrong, 0);
    free(value);
    free(out);
    job_close(&job);
}

static void two_stores_share_no_keys(void)
{
    job_t one = job_open_as("byteps", NULL, 0), two = job_open_as("byteps", NULL, 0);
    vec_t a = VEC(1), b = VEC(10), out_a = VEC(0), out_b = VEC(0);
    /* in opposite orders */
    const job_t *first = one.rank == 0 ? &one : &two;
    int swapped = one.rank != 0;
    kvs_event_t *x =
        job_begin_pushpull(first, kvs_key_int(1), swapped ? &b : &a, swapped ? &out_b : &out_a);
    kvs_event_t *y = job_begin_pushpull(swapped ? &one : &two, kvs_key_int(1), swapped ? &a : &b,
                                        swapped ? &out_a : &out_b);

    KT_OK(job_finish(x));
    KT_OK(job_finish(y));
    KT_REAL(out_a.at[0], one.n_workers);
    KT_REAL(out_b.at[0], 10 * one.n_workers);
    job_close(&two);
    job_close(&one);
}

/* See launched.sh. */
static void the_launcher_s_variables_are_enough(void)
{
    const char *machine = getenv("DMLC_WORKER_ID"), *local = getenv("BYTEPS_LOCAL_RANK");
    job_t job = job_open_as("byteps", NULL, 0);
    many_t many = many_new(8, 200000); /* of three parts each */

    KT_TRUE(machine != NULL && local != NULL);
    KT_INT(job.n_workers, 4);
    KT_INT(job.rank, 2 * atoi(machine) + atoi(local));
    for (size_t i = 0; i < many.n; i++) {
        many_begin(&job, &many, i, kvs_key_int((int64_t)i), 0);
    }
    many_finish(&job, &many);
    job_close(&job);
}

static void seventy_thousand_keys(void)
{
    job_t job = job_open_as("byteps", NULL, 0);
    many_t many = many_new(70000, 1);

    for (size_t i = 0; i < many.n; i++) {
        many_begin(&job, &many, i, kvs_key_int((int64_t)i), 0);
    }
    many_finish(&job, &many);
    job_close(&job);
}

static void more_than_four_gib(void)
{
    const int64_t n = (INT64_C(1) << 32) + 5;
    const kvs_option_t patience = {"timeout", "250"};
    job_t job = job_open_as("byteps", &patience, 1);
    uint8_t *value = calloc((size_t)n, 1);
    kvs_tensor_t tensor = kt_tensor(value, KVS_DTYPE_uint8, &n, 1);
    kvs_arrays_t values = kvs_arrays(&tensor, 1);
    kvs_key_t key = kvs_key_str("huge");

    if (value != NULL) {
        value[0] = 1;
        value[n - 1] = 7;
        value[INT64_C(1) << 32] = 3;
        KT_OK(kvs_store_pushpull(job.store, &key, 1, &values, NULL, NULL));
        KT_INT(value[0], job.n_workers);
        KT_INT(value[INT64_C(1) << 32], 3 * job.n_workers);
        KT_INT(value[n - 1], 7 * job.n_workers);
        KT_INT(value[12345678], 0);
    }
    free(value);
    job_close(&job);
}

/* `kvstore status` of the job. */
static void servers_show_their_stores(void)
{
    static char text[1 << 16];
    job_t job = job_open_as("byteps", NULL, 0);
    char command[512];
    FILE *out;

    KT_OK(job_pushpull(&job, kvs_key_int(1), VEC(1), &(vec_t){1, {0}}));
    snprintf(command, sizeof(command), "%s status --job %s", getenv("KVSTORE"),
             getenv("KVSTORE_JOB_ID"));
    out = popen(command, "r");
    text[out == NULL ? 0 : fread(text, 1, sizeof(text) - 1, out)] = '\0';
    KT_INT(out == NULL ? -1 : pclose(out), 0);
    KT_HAS(text, ": server 0 (host ");
    KT_HAS(text, ", epoch 1, of 1 servers and 2 workers\n  worker 0 (");
    KT_HAS(text, "  store 1: exchanges under way ");
    KT_HAS(text, "  group byteps: 2 of 2 workers and 1 of 1 servers are there\n");
    job_meet(&job);
    job_close(&job);
}

static const kt_test_t tests[] = {
    KT_TEST(sums_have_the_bits_of_local),
    KT_TEST(keys_go_in_any_order),
    KT_TEST(whoever_is_waited_for_goes_on),
    KT_TEST(a_key_is_used_again_and_again),
    KT_TEST(broadcasts_are_real),
    KT_TEST(two_stores_share_no_keys),
    KT_TEST(the_launcher_s_variables_are_enough),
    KT_TEST(seventy_thousand_keys),
    KT_TEST(more_than_four_gib),
    KT_TEST(servers_show_their_stores),
};

KT_MAIN("job_sums", tests)
