/* SPDX-License-Identifier: Apache-2.0 */
/* job_rounds.c - who waits for whom: inits in any order, rounds that belong to each worker's own count,
 * many operations in flight, several stores. */
#include "job.h"

#include <stdlib.h>

static kvs_key_t name(const char *text)
{
    return kvs_key_str(text);
}

/* ---- Init ---------------------------------------------------------------------------------------------- */

static void ranks_init_in_any_order(void)
{
    static const char *const names[] = {"a", "b", "c", "d", "e"};
    job_t job = job_open(NULL, 0);
    kvs_event_t *events[5];
    vec_t values[5];

    for (int i = 0; i < 5; i++) {
        int k = job.rank % 2 == 0 ? i : 4 - i;

        values[k] = VEC((float)(10 * job.rank + k));
        events[k] = job_begin_init(&job, name(names[k]), &values[k]);
    }
    for (int i = 0; i < 5; i++) {
        KT_OK(job_finish(events[i]));
        job_want(&job, name(names[i]), 1, (float)i); /* rank 0's */
    }
    job_close(&job);
}

static void rank_0_waits_for_nobody_and_others_for_rank_0(void)
{
    job_t job = job_open(NULL, 0);
    vec_t value = VEC((float)job.rank + 5);

    if (job.rank == 0) {
        KT_OK(job_init(&job, kvs_key_int(1), value)); /* nobody else has */
        job_meet(&job);
        job_meet(&job);
        KT_OK(job_init(&job, kvs_key_int(2), value));
    } else {
        job_meet(&job);
        kvs_event_t *event = job_begin_init(&job, kvs_key_int(2), &value);

        KT_OK(job_init(&job, kvs_key_int(1), value));
        KT_FAIL(kvs_event_wait(event, 0), KVS_ERR_TIMEOUT, "");
        job_meet(&job);
        KT_OK(job_finish(event));
    }
    job_want(&job, kvs_key_int(1), 1, 5);
    job_want(&job, kvs_key_int(2), 1, 5);
    job_close(&job);
}

static void what_follows_an_init_waits_for_it(void)
{
    job_t job = job_open(NULL, 0);
    vec_t first = VEC(1, 2), value = VEC(3, 4), out = VEC(0, 0);
    kvs_event_t *init, *exchange;

    if (job.rank == 0) {
        job_meet(&job);
    }
    init = job_begin_init(&job, name("w"), &first);
    exchange = job_begin_pushpull(&job, name("w"), &value, &out);
    if (job.rank != 0) {
        job_meet(&job);
    }
    KT_OK(job_finish(init));
    KT_OK(job_finish(exchange));
    KT_REAL(out.at[0], 3.0f * (float)job.n_workers);
    KT_REAL(out.at[1], 4.0f * (float)job.n_workers);
    job_close(&job);
}

static void rank_0s_value_counts(void)
{
    job_t job = job_open(NULL, 0);

    KT_OK(job_init(&job, kvs_key_int(-7), VEC((float)(job.rank + 1), (float)(job.rank + 1))));
    job_want(&job, kvs_key_int(-7), 2, 1);
    job_close(&job);
}

static void using_a_key_before_its_init_is_refused(void)
{
    job_t job = job_open(NULL, 0);
    vec_t out = VEC(0);

    KT_FAIL(job_push(&job, kvs_key_int(4), VEC(1)), KVS_ERR_NOT_FOUND,
            "key 4 was never initialised");
    KT_FAIL(job_pull(&job, kvs_key_int(4), &out), KVS_ERR_NOT_FOUND, "key 4 was never initialised");
    KT_OK(job_init(&job, kvs_key_int(4), VEC(1)));
    KT_FAIL(job_init(&job, kvs_key_int(4), VEC(1)), KVS_ERR_EXISTS, "duplicate init of key 4");
    job_close(&job);
}

/* ---- Rounds -------------------------------------------------------------------------------------------- */

static void a_second_push_belongs_to_the_next_round(void)
{
    job_t job = job_open(NULL, 0);
    vec_t one = VEC(1), ten = VEC(10);
    kvs_event_t *first = NULL, *second = NULL;

    KT_OK(job_init(&job, kvs_key_int(1), VEC(0)));
    if (job.rank == 0) {
        first = job_begin_push(&job, kvs_key_int(1), &one);
        second = job_begin_push(&job, kvs_key_int(1), &ten);
        KT_FAIL(kvs_event_wait(first, 0), KVS_ERR_TIMEOUT, ""); /* two pushes don't make a round */
        job_meet(&job);
        job_meet(&job);
        KT_OK(job_finish(first));
        KT_FAIL(kvs_event_wait(second, 0), KVS_ERR_TIMEOUT, "");
        job_meet(&job);
        KT_OK(job_finish(second));
        job_want(&job, kvs_key_int(1), 1, 10 + 200.0f * (float)(job.n_workers - 1));
    } else {
        job_meet(&job);
        KT_OK(job_push(&job, kvs_key_int(1), VEC(100)));
        job_want(&job, kvs_key_int(1), 1, 1 + 100.0f * (float)(job.n_workers - 1));
        job_meet(&job);
        job_meet(&job);
        KT_OK(job_push(&job, kvs_key_int(1), VEC(200)));
        job_want(&job, kvs_key_int(1), 1, 10 + 200.0f * (float)(job.n_workers - 1));
    }
    job_close(&job);
}

/* Rank 0 is many rounds ahead before the others begin. */
static void pushes_may_run_ahead(void)
{
    enum { N = 40 };
    job_t job = job_open(NULL, 0);
    kvs_event_t *events[N];
    vec_t values[N];

    KT_OK(job_init(&job, kvs_key_int(1), VEC(0)));
    if (job.rank != 0) {
        job_meet(&job);
    }
    for (int i = 0; i < N; i++) {
        values[i] = VEC((float)i);
        events[i] = job_begin_push(&job, kvs_key_int(1), &values[i]);
    }
    if (job.rank == 0) {
        job_meet(&job);
    }
    for (int i = 0; i < N; i++) {
        KT_OK(job_finish(events[i]));
    }
    job_want(&job, kvs_key_int(1), 1, (float)((N - 1) * job.n_workers));
    job_close(&job);
}

static void a_pull_sees_the_round_of_the_push_before_it(void)
{
    job_t job = job_open(NULL, 0);

    KT_OK(job_init(&job, kvs_key_int(1), VEC(0)));
    for (int round = 1; round <= 30; round++) {
        KT_OK(job_push(&job, kvs_key_int(1), VEC((float)round)));
        job_want(&job, kvs_key_int(1), 1, (float)(round * job.n_workers));
        job_meet(&job); /* else a fast worker's next round might be seen */
    }
    job_close(&job);
}

/* One thread, 64 keys, opposite orders. */
static void events_finish_in_any_order(void)
{
    enum { N = 64 };
    job_t job = job_open(NULL, 0);
    kvs_event_t *events[N];
    vec_t values[N], outs[N];

    for (int i = 0; i < N; i++) {
        KT_OK(job_init(&job, kvs_key_int(i), VEC(0)));
    }
    for (int i = 0; i < N; i++) {
        int k = job.rank % 2 == 0 ? i : N - 1 - i;

        values[k] = VEC((float)(k + job.rank));
        outs[k] = VEC(0);
        events[k] = job_begin_pushpull(&job, kvs_key_int(k), &values[k], &outs[k]);
    }
    for (int i = 0; i < N; i++) {
        int n = job.n_workers;

        KT_OK(job_finish(events[i]));
        KT_REAL(outs[i].at[0], (float)(n * i + n * (n - 1) / 2));
    }
    job_close(&job);
}

/* ---- Many ------------------------------------------------------------------------------------------------ */

static void twenty_thousand_keys(void)
{
    enum { N = 20000 };
    job_t job = job_open(NULL, 0);
    kvs_key_t *keys = calloc(N, sizeof(*keys));
    kvs_tensor_t *values = calloc(N, sizeof(*values)), *outs = calloc(N, sizeof(*outs));
    float *data = calloc(N, sizeof(*data)), *pulled = calloc(N, sizeof(*pulled));
    int64_t shape[] = {1}, n_wrong = 0;
    kvs_arrays_t value_list = kvs_arrays(values, N), out_list = kvs_arrays(outs, N);

    for (int i = 0; i < N; i++) {
        keys[i] = kvs_key_int(3 * i - N);
        data[i] = (float)(i % 100 + job.rank);
        values[i] = kt_tensor(&data[i], KVS_DTYPE_float32, shape, 1);
        outs[i] = kt_tensor(&pulled[i], KVS_DTYPE_float32, shape, 1);
    }
    KT_OK(kvs_store_init(job.store, keys, N, &value_list, NULL));
    KT_OK(kvs_store_pushpull(job.store, keys, N, &value_list, &out_list, NULL));
    for (int i = 0; i < N; i++) {
        int n = job.n_workers;

        n_wrong += pulled[i] != (float)(n * (i % 100) + n * (n - 1) / 2);
    }
    KT_INT(n_wrong, 0);
    free(keys);
    free(values);
    free(outs);
    free(data);
    free(pulled);
    job_close(&job);
}

/* ---- Stores ---------------------------------------------------------------------------------------------- */

static void several_stores_have_keys_of_their_own(void)
{
    job_t a = job_open(NULL, 0), b = job_open(NULL, 0);

    KT_OK(job_init(&a, kvs_key_int(1), VEC(1)));
    KT_OK(job_init(&b, name("1"), VEC(2, 2)));
    KT_OK(JOB_OPTIMIZER(b.store, "test", JOB_REAL("learning_rate", 1)));
    KT_OK(job_push(&a, kvs_key_int(1), VEC(5)));
    KT_OK(job_push(&b, name("1"), VEC(5, 5)));
    job_want(&a, kvs_key_int(1), 1, 5.0f * (float)a.n_workers);
    job_want(&b, name("1"), 2, 2 - 5.0f * (float)b.n_workers);
    job_close(&a);
    job_want(&b, name("1"), 2, 2 - 5.0f * (float)b.n_workers);
    a = job_open(NULL, 0); /* after one was closed */
    KT_OK(job_init(&a, kvs_key_int(1), VEC(7)));
    job_want(&a, kvs_key_int(1), 1, 7);
    job_close(&b);
    job_close(&a);
}

static void a_second_optimizer_starts_afresh(void)
{
    job_t job = job_open(NULL, 0);
    float n = (float)job.n_workers;

    KT_OK(job_init(&job, kvs_key_int(1), VEC(0)));
    for (int i = 0; i < 2; i++) {
        KT_OK(JOB_OPTIMIZER(job.store, "sgd", JOB_REAL("learning_rate", 1),
                            JOB_REAL("momentum", 0.5)));
        KT_OK(job_push(&job, kvs_key_int(1), VEC(1)));
        job_want(&job, kvs_key_int(1), 1, (float)(i + 1) * -n); /* no momentum is left */
        job_meet(&job);
    }
    job_close(&job);
}

static void servers_are_told_and_counted(void)
{
    job_t job = job_open(NULL, 0);
    int n_dead = -1;

    KT_OK(kvs_store_send_command_to_servers(job.store, 1, NULL, 0));
    KT_OK(kvs_store_send_command_to_servers(job.store, 3, "", 0));
    KT_OK(kvs_store_send_command_to_servers(job.store, 77, "text", 4)); /* a warning there */
    KT_FAIL(kvs_store_send_command_to_servers(job.store, 4, "2bit", 4), KVS_ERR_NOT_IMPLEMENTED,
            "compression");
    KT_FAIL(kvs_store_send_command_to_servers(job.store, 5, "1", 1), KVS_ERR_ARGUMENT, "state");
    KT_FAIL(kvs_store_send_command_to_servers(job.store, 5, "x", 1), KVS_ERR_ARGUMENT, "digit");
    KT_FAIL(kvs_store_send_command_to_servers(job.store, -1, NULL, 0), KVS_ERR_ARGUMENT, "-1");
    KT_OK(kvs_store_num_dead_nodes(job.store, "worker", 60000, &n_dead));
    KT_INT(n_dead, 0);
    KT_OK(kvs_store_num_dead_nodes(job.store, "server", 60000, &n_dead));
    KT_INT(n_dead, 0);
    KT_OK(kvs_store_num_dead_nodes(job.store, "scheduler", 60000, &n_dead));
    KT_INT(n_dead, 0);
    job_close(&job);
}

static const kt_test_t tests[] = {
    KT_TEST(ranks_init_in_any_order),
    KT_TEST(rank_0_waits_for_nobody_and_others_for_rank_0),
    KT_TEST(what_follows_an_init_waits_for_it),
    KT_TEST(rank_0s_value_counts),
    KT_TEST(using_a_key_before_its_init_is_refused),
    KT_TEST(a_second_push_belongs_to_the_next_round),
    KT_TEST(pushes_may_run_ahead),
    KT_TEST(a_pull_sees_the_round_of_the_push_before_it),
    KT_TEST(events_finish_in_any_order),
    KT_TEST(twenty_thousand_keys),
    KT_TEST(several_stores_have_keys_of_their_own),
    KT_TEST(a_second_optimizer_starts_afresh),
    KT_TEST(servers_are_told_and_counted),
};

KT_MAIN("job_rounds", tests)
