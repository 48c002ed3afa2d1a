/* SPDX-License-Identifier: Apache-2.0 */
/* job_control.c - workers that join, keys that go, stores that are cancelled and servers that are told to
 * stop: nobody is left waiting. Jobs of two workers. */
#include "job.h"

#include <pthread.h>
#include <stdlib.h>

#define SHORT                                                                                      \
    {                                                                                              \
        "timeout", "4"                                                                             \
    }

/* ---- Join -------------------------------------------------------------------------------------------- */

static void a_join_alone_ends_at_the_deadline(void)
{
    job_t room = job_open(NULL, 0), job = JOB_OPEN(SHORT);
    int last = -1;

    KT_OK(job_init(&job, kvs_key_int(1), VEC(1)));
    if (job.rank == 0) {
        KT_FAIL(kvs_store_join(job.store), KVS_ERR_TIMEOUT, "join: worker 1 (");
        KT_HAS(kvs_last_error(), "neither pushed nor joined within 4 s");
    }
    job_meet(&room);
    KT_OK(job_push(&job, kvs_key_int(1), VEC(2))); /* it is in the rounds again */
    job_want(&job, kvs_key_int(1), 1, 4);
    KT_OK(kvs_store_join_last(job.store, &last));
    KT_TRUE(last == 0 || last == 1);
    job_close(&job);
    job_close(&room);
}

/* Both keys, of which each server has one: it looks at the pushes that it sees. */
static void pushpull_both(const job_t *job, float value, float want)
{
    for (int i = 1; i <= 2; i++) {
        vec_t out = VEC(0);

        KT_OK(job_pushpull(job, kvs_key_int(i), VEC(value), &out));
        KT_REAL(out.at[0], want);
    }
}

/* Rank 1 pushes long after rank 0's deadline for a silent job would have passed. */
static void a_join_waits_as_long_as_others_push(void)
{
    enum { N = 30 };
    job_t job = JOB_OPEN(SHORT), room = job_open(NULL, 0);
    int last = -1;

    for (int i = 1; i <= 2; i++) {
        KT_OK(job_init(&job, kvs_key_int(i), VEC(0)));
    }
    pushpull_both(&job, 1, 2);
    for (int i = 0; i < N && job.rank == 1; i++) {
        pushpull_both(&job, 5, 5);
    }
    KT_OK(kvs_store_join_last(job.store, &last));
    KT_INT(last, 1); /* its pushes needed rank 0's join */
    pushpull_both(&job, 3, 6);
    job_close(&job);
    job_close(&room);
}

static void a_worker_that_leaves_ends_a_join(void)
{
    job_t room = job_open(NULL, 0), job = job_open(NULL, 0);

    if (job.rank == 0) {
        KT_FAIL(kvs_store_join(job.store), KVS_ERR_PEER, "join: worker 1 (");
    }
    job_close(&job);
    job_meet(&room);
    job_close(&room);
}

/* ---- Keys that go ------------------------------------------------------------------------------------- */

static void deleted_keys_come_back_in_any_order(void)
{
    const kvs_option_t options[] = {{"bigarray_bound", "1"}};
    job_t job = job_open(options, 1);
    kvs_key_t keys[3] = {kvs_key_str("a"), kvs_key_str("b"), kvs_key_str("c")};

    for (int round = 0; round < 5; round++) {
        for (int i = 0; i < 3; i++) {
            KT_OK(job_init(&job, keys[i], VEC((float)(10 * round + i), (float)job.rank)));
        }
        for (int i = 0; i < 3; i++) { /* rank 1 goes the other way */
            kvs_key_t key = keys[job.rank == 0 ? i : 2 - i];

            KT_OK(job_push(&job, key, VEC(1, 2)));
        }
        for (int i = 0; i < 3; i++) {
            vec_t out = VEC(0, 0);

            KT_OK(job_pull(&job, keys[i], &out));
            KT_REAL(out.at[1], 4);
        }
        if (round % 2 == 0) {
            for (int i = 0; i < 3; i++) {
                KT_OK(kvs_store_delete(job.store, &keys[job.rank == 0 ? 2 - i : i], 1));
            }
        } else {
            KT_OK(kvs_store_delete(job.store, keys, 3));
        }
    }
    job_close(&job);
}

/* ---- Cancel ------------------------------------------------------------------------------------------- */

static void *wait_at_barrier(void *arg)
{
    job_t *job = arg;

    KT_FAIL(kvs_store_barrier(job->store), KVS_ERR_CANCELLED, "cancelled");
    return NULL;
}

static void *wait_in_join(void *arg)
{
    job_t *job = arg;

    KT_FAIL(kvs_store_join(job->store), KVS_ERR_CANCELLED, "cancelled");
    return NULL;
}

static void cancel_wakes_who_waits_for_other_workers(void)
{
    void *(*const waits[])(void *) = {wait_at_barrier, wait_in_join};

    for (int i = 0; i < 2; i++) {
        job_t room = job_open(NULL, 0), job = job_open(NULL, 0);
        pthread_t thread;

        if (job.rank == 0) {
            KT_INT(pthread_create(&thread, NULL, waits[i], &job), 0);
            kvs_store_cancel(job.store);
            pthread_join(thread, NULL);
        }
        job_meet(&room); /* the other store is as it was */
        (void)kvs_store_close(job.store);
        job_close(&room);
    }
}

/* What a cancelled worker has pending ends, it closes in good order, and the other hears that it has
 * left, not that it fell silent. */
static void a_cancelled_worker_leaves_and_the_other_is_told(void)
{
    enum { N = 6 };
    job_t room = job_open(NULL, 0), job = job_open(NULL, 0);
    kvs_event_t *events[2 * N];
    vec_t value = VEC(1), outs[N];
    kvs_status_t status = KVS_OK;

    for (int i = 0; i < N; i++) {
        KT_OK(job_init(&job, kvs_key_int(i), value));
    }
    if (job.rank == 0) {
        for (int i = 0; i < N; i++) { /* the second of a key waits for the first */
            outs[i] = value;
            events[2 * i] = job_begin_push(&job, kvs_key_int(i), &value);
            events[2 * i + 1] = job_begin_pushpull(&job, kvs_key_int(i), &value, &outs[i]);
        }
        kvs_store_cancel(job.store);
        status = kvs_store_close(job.store);
        KT_TRUE(status == KVS_OK || strstr(kvs_last_error(), "abandoned") == NULL);
        for (int i = 0; i < 2 * N; i++) {
            int done = 0;

            KT_OK(kvs_event_test(events[i], &done));
            KT_INT(done, 1);
            status = job_finish(events[i]);
            KT_TRUE(status == KVS_ERR_CANCELLED || (status == KVS_OK && i % 2 == 0));
        }
    }
    job_meet(&room);
    if (job.rank == 1) {
        outs[0] = value;
        for (int i = 0; i < 3 && status == KVS_OK; i++) { /* what it pushed before may count */
            status = job_pushpull(&job, kvs_key_int(0), value, &outs[0]);
        }
        KT_INT(status, KVS_ERR_PEER);
        KT_HAS(kvs_last_error(), "worker 0 (");
        KT_TRUE(strstr(kvs_last_error(), "died") == NULL);
        (void)kvs_store_close(job.store); /* may tell of the other keys */
    }
    job_close(&room);
}

/* ---- Stop --------------------------------------------------------------------------------------------- */

/* Keys on both servers, each in the middle of its round. */
static void a_stop_in_the_middle_of_a_round_hangs_nobody(void)
{
    job_t job = job_open(NULL, 0);
    kvs_event_t *events[4] = {NULL};
    vec_t value = VEC(1);
    kvs_status_t status;

    for (int i = 0; i < 4; i++) {
        KT_OK(job_init(&job, kvs_key_int(i), value));
    }
    job_meet(&job);
    if (job.rank == 0) {
        for (int i = 0; i < 4; i++) {
            events[i] = job_begin_push(&job, kvs_key_int(i), &value);
        }
        status = kvs_store_send_command_to_servers(job.store, 2, NULL, 0);
        KT_TRUE(status == KVS_OK || status == KVS_ERR_PEER);
        for (int i = 0; i < 4; i++) {
            KT_FAIL(job_finish(events[i]), KVS_ERR_PEER, "server ");
        }
    } else {
        for (int i = 0; i < 4; i++) { /* until the news has come: then every use says so */
            while ((status = job_pull(&job, kvs_key_int(i), &value)) == KVS_OK) {
            }
            KT_FAIL(status, KVS_ERR_PEER, "server ");
        }
        KT_FAIL(job_finish(job_begin_push(&job, kvs_key_int(1), &value)), KVS_ERR_PEER, "server ");
    }
    (void)kvs_store_close(job.store);
}

static const kt_test_t tests[] = {
    KT_TEST(a_join_alone_ends_at_the_deadline),
    KT_TEST(a_join_waits_as_long_as_others_push),
    KT_TEST(a_worker_that_leaves_ends_a_join),
    KT_TEST(deleted_keys_come_back_in_any_order),
    KT_TEST(cancel_wakes_who_waits_for_other_workers),
    KT_TEST(a_cancelled_worker_leaves_and_the_other_is_told),
    KT_TEST(a_stop_in_the_middle_of_a_round_hangs_nobody),
};

KT_MAIN("job_control", tests)
