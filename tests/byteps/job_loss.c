/* SPDX-License-Identifier: Apache-2.0 */
/* job_loss.c - processes that are killed: a server that others take the place of costs a round that is sent
 * again, any other loss is an error that names it. Runs with short signs of life. */
#include "job.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

enum { N = 700000 };

static kvs_event_t *begin(const job_t *job, kvs_key_t key, float *data, int round)
{
    kvs_tensor_t tensor = KT_F32(data, N);
    kvs_arrays_t values = kvs_arrays(&tensor, 1);
    kvs_call_t call = KVS_CALL_INIT;
    kvs_event_t *event = NULL;

    for (int i = 0; i < N; i++) {
        data[i] = (float)(i % 11 + job->rank + round);
    }
    call.ret_event = &event;
    KT_OK(kvs_store_pushpull(job->store, &key, 1, &values, NULL, &call));
    return event;
}

static void want_sum(const job_t *job, const float *data, int round)
{
    int n = job->n_workers, n_wrong = 0;

    for (int i = 0; i < N; i++) {
        n_wrong += data[i] != (float)(n * (i % 11 + round) + n * (n - 1) / 2);
    }
    KT_INT(n_wrong, 0);
}

static void kill_process(const char *role, int rank)
{
    int pid = job_pid_of(role, rank);

    KT_TRUE(pid > 0);
    KT_INT(kill(pid, SIGKILL), 0);
}

static void meet(const job_t *job)
{
    vec_t out = VEC(0);

    KT_OK(job_pushpull(job, kvs_key_int(-1), VEC(1), &out));
    KT_REAL(out.at[0], job->n_workers);
}

/* And all have what they met for: nobody needs another for it any more. */
static void meet_and_part(const job_t *job)
{
    meet(job);
    job_meet(job);
}

/* The server has rank 0's values when it is killed, and the others have not sent theirs. */
static void a_killed_server_costs_a_resent_round(void)
{
    job_t job = job_open_as("byteps", NULL, 0);
    float *data[2] = {malloc(N * sizeof(float)), malloc(N * sizeof(float))};
    kvs_event_t *events[2];

    meet(&job);
    if (job.rank == 0) {
        events[0] = begin(&job, kvs_key_int(1), data[0], 5);
        kill_process("server", 0);
    }
    job_meet(&job);
    if (job.rank != 0) {
        events[0] = begin(&job, kvs_key_int(1), data[0], 5);
    }
    events[1] = begin(&job, kvs_key_int(2), data[1], 6);
    for (int i = 0; i < 2; i++) {
        KT_OK(job_finish(events[i]));
        want_sum(&job, data[i], 5 + i);
        free(data[i]);
    }
    meet(&job);
    job_close(&job);
}

/* In place, round after round, while the server goes: whoever has a result gives it to who has not. */
static void rounds_survive_a_server_killed_anywhere(void)
{
    enum { N_KEYS = 3, ROUNDS = 30 };
    job_t job = job_open_as("byteps", NULL, 0);
    float *data[N_KEYS];
    kvs_event_t *events[N_KEYS];

    for (int k = 0; k < N_KEYS; k++) {
        data[k] = malloc(N * sizeof(float));
    }
    for (int round = 0; round < ROUNDS; round++) {
        for (int k = 0; k < N_KEYS; k++) {
            events[k] = begin(&job, kvs_key_int(k), data[k], round);
        }
        if (round == ROUNDS / 3 && job.rank == job.n_workers - 1) {
            kill_process("server", 0);
        }
        for (int k = 0; k < N_KEYS; k++) {
            KT_OK(job_finish(events[k]));
            want_sum(&job, data[k], round);
        }
    }
    for (int k = 0; k < N_KEYS; k++) {
        free(data[k]);
    }
    job_close(&job);
}

static void stores_open_after_a_loss(void)
{
    job_t job = job_open_as("byteps", NULL, 0), later;
    float *data = malloc(N * sizeof(float));

    if (job.rank == 0) {
        kill_process("server", 0);
    }
    KT_OK(job_finish(begin(&job, kvs_key_int(1), data, 1)));
    want_sum(&job, data, 1);
    later = job_open_as("byteps", NULL, 0);
    KT_OK(job_finish(begin(&later, kvs_key_int(1), data, 2)));
    want_sum(&job, data, 2);
    job_meet(&later);
    free(data);
    job_close(&later);
    job_close(&job);
}

/* What waits and what follows fail, naming `who`. */
static void want_lost(const job_t *job, const char *who)
{
    vec_t out = VEC(0);

    KT_FAIL(job_pushpull(job, kvs_key_int(3), VEC(1), &out), KVS_ERR_PEER, who);
    KT_FAIL(job_pushpull(job, kvs_key_int(3), VEC(1), &out), KVS_ERR_PEER, who);
    KT_FAIL(kvs_store_barrier(job->store), KVS_ERR_PEER, who);
    (void)kvs_store_close(job->store); /* what it says was told */
}

static void a_killed_server_without_another_is_named(void)
{
    job_t job = job_open_as("byteps", NULL, 0);
    float *data = malloc(N * sizeof(float));

    meet_and_part(&job);
    if (job.rank == 0) {
        kvs_event_t *event = begin(&job, kvs_key_int(2), data, 1);

        kill_process("server", 0);
        KT_FAIL(job_finish(event), KVS_ERR_PEER, "server 0 (host ");
        KT_HAS(kvs_last_error(), "there is no other server to take its place");
    }
    want_lost(&job, "server 0 (host ");
    free(data);
}

static void a_killed_worker_is_named(void)
{
    job_t job = job_open_as("byteps", NULL, 0);

    meet_and_part(&job);
    if (job.rank == 1) {
        kill(getpid(), SIGKILL);
    }
    want_lost(&job, "worker 1 (host ");
}

static const kt_test_t tests[] = {
    KT_TEST(a_killed_server_costs_a_resent_round),
    KT_TEST(rounds_survive_a_server_killed_anywhere),
    KT_TEST(stores_open_after_a_loss),
    KT_TEST(a_killed_server_without_another_is_named),
    KT_TEST(a_killed_worker_is_named),
};

KT_MAIN("job_loss", tests)
