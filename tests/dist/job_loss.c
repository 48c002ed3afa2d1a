/* SPDX-License-Identifier: Apache-2.0 */
/* job_loss.c - processes that end too early, or are killed: the others are told who it was, at once for
 * what waits, and for everything after it. Runs with short signs of life. Jobs of two workers. */
#include "job.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#define LOST_MS 20000 /* far more than the seconds that it takes */

/* What waits, a push that the other rank does not join, and what follows fail, naming `who`. */
static void want_lost(const job_t *job, kvs_event_t *waiting, const char *who)
{
    vec_t out = VEC(0);

    KT_FAIL(kvs_event_wait(waiting, LOST_MS), KVS_ERR_PEER, who);
    kvs_event_free(waiting);
    KT_FAIL(job_pull(job, kvs_key_int(1), &out), KVS_ERR_PEER, who);
    KT_FAIL(job_push(job, kvs_key_int(1), VEC(1)), KVS_ERR_PEER, who);
    KT_FAIL(kvs_store_barrier(job->store), KVS_ERR_PEER, who);
}

static job_t begin(void)
{
    job_t job = job_open(NULL, 0);

    KT_OK(job_init(&job, kvs_key_int(0), VEC(0)));
    KT_OK(job_init(&job, kvs_key_int(1), VEC(0)));
    job_meet(&job);
    return job;
}

static void a_killed_worker_is_named(void)
{
    job_t job = begin();
    vec_t value = VEC(1), out = VEC(0);

    if (job.rank == 1) {
        kill(getpid(), SIGKILL);
    }
    want_lost(&job, job_begin_pushpull(&job, kvs_key_int(0), &value, &out), "worker 1 (host ");
    (void)kvs_store_close(job.store); /* what it says was told */
}

static void kill_and_wait(job_t job, const char *role, const char *who)
{
    vec_t value = VEC(1), out = VEC(0);
    kvs_event_t *event = job_begin_pushpull(&job, kvs_key_int(job.rank), &value, &out);

    if (job.rank == 0) {
        int pid = job_pid_of(role, 0);

        KT_TRUE(pid > 0);
        KT_INT(kill(pid, SIGKILL), 0);
    }
    want_lost(&job, event, who);
    (void)kvs_store_close(job.store); /* what it says was told */
}

static void a_killed_server_is_named(void)
{
    kill_and_wait(begin(), "server", "server 0 (host ");
}

static void a_killed_scheduler_is_named(void)
{
    job_t job = begin();
    vec_t value = VEC(0), out = VEC(0);

    /* a round of both: rank 1 needs nothing of the scheduler any more */
    KT_OK(job_finish(job_begin_pushpull(&job, kvs_key_int(0), &value, &out)));
    kill_and_wait(job, "scheduler", "scheduler");
}

/* It ends in good order, but the others still need it. */
static void a_worker_that_ends_early_is_named(void)
{
    job_t job = begin();
    vec_t value = VEC(1);

    if (job.rank == 0) {
        KT_FAIL(job_finish(job_begin_push(&job, kvs_key_int(1), &value)), KVS_ERR_PEER,
                "push: key 1, round 1: worker 1 (");
        job_want(&job, kvs_key_int(1), 1, 0); /* servers are there, and what they keep */
    }
    job_close(&job);
}

static void a_process_that_ends_without_closing_is_named(void)
{
    job_t job = begin();
    vec_t value = VEC(1);

    if (job.rank == 1) {
        exit(0);
    }
    KT_FAIL(job_finish(job_begin_push(&job, kvs_key_int(1), &value)), KVS_ERR_PEER, "worker 1 (");
    (void)kvs_store_close(job.store);
}

/* Told by a worker; the others find it gone, and say so. */
static void a_stopped_server_is_named(void)
{
    job_t job = begin();
    vec_t value = VEC(1);
    kvs_status_t status;

    if (job.rank == 0) {
        KT_OK(kvs_store_send_command_to_servers(job.store, 2, NULL, 0));
    }
    /* it may still serve what comes just then */
    while ((status = job_finish(job_begin_push(&job, kvs_key_int(1), &value))) == KVS_OK) {
    }
    KT_FAIL(status, KVS_ERR_PEER, "server 0 (host ");
    (void)kvs_store_close(job.store);
}

static const kt_test_t tests[] = {
    KT_TEST(a_killed_worker_is_named),
    KT_TEST(a_killed_server_is_named),
    KT_TEST(a_killed_scheduler_is_named),
    KT_TEST(a_worker_that_ends_early_is_named),
    KT_TEST(a_process_that_ends_without_closing_is_named),
    KT_TEST(a_stopped_server_is_named),
};

KT_MAIN("job_loss", tests)
