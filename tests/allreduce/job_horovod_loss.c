/* SPDX-License-Identifier: Apache-2.0 */
/* job_horovod_loss.c - processes that end too early, or are killed, in each phase: the others are told who
 * it was, for what waits, and for everything after it. Runs with short signs of life. */
#include "crew.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#define LOST_MS 20000 /* far more than the seconds that it takes */

static int is_victim(const crew_t *crew)
{
    return crew->rank == crew->n - 1;
}

/* Small exchanges before, so that every way has been used. */
static crew_t begin(void)
{
    crew_t crew = crew_open(NULL, 0);

    for (int i = 0; i < 3; i++) {
        crew_works(&crew, kvs_key_int(i));
    }
    crew_meet(&crew);
    return crew;
}

/* What waits, and what follows, fail, naming `who`. */
static void want_lost(const crew_t *crew, kvs_event_t *waiting, const char *who)
{
    float sum = 0;

    KT_FAIL(kvs_event_wait(waiting, LOST_MS), KVS_ERR_PEER, who);
    kvs_event_free(waiting);
    KT_FAIL(crew_sum1(crew, kvs_key_int(1), 1, &sum), KVS_ERR_PEER, who);
    KT_FAIL(kvs_store_barrier(crew->store), KVS_ERR_PEER, "worker");
}

static const char *name_of_victim(const crew_t *crew)
{
    static char name[32];

    snprintf(name, sizeof(name), "worker %d (host ", crew->n - 1);
    return name;
}

static void a_worker_killed_before_it_submits_is_named(void)
{
    crew_t crew = begin();
    float value = 1;
    kvs_event_t *event = NULL;

    if (is_victim(&crew)) {
        kill(getpid(), SIGKILL);
    }
    KT_OK(crew_sum(&crew, kvs_key_int(0), KVS_DTYPE_float32, 1, &value, NULL, &event));
    want_lost(&crew, event, name_of_victim(&crew));
    (void)kvs_store_close(crew.store); /* what it says was told */
}

/* It has submitted everything, and dies while the others carry it out. */
static void a_worker_killed_in_the_exchange_is_named(void)
{
    enum { N = 1 << 24, N_KEYS = 8 };
    crew_t crew = begin();
    static float values[N];
    kvs_event_t *events[N_KEYS];
    kvs_event_t *last = NULL;
    float value = 1;

    for (int i = 0; i < N_KEYS; i++) {
        KT_OK(crew_sum(&crew, kvs_key_int(i), KVS_DTYPE_float32, N / N_KEYS,
                       values + i * (N / N_KEYS), NULL, &events[i]));
    }
    if (is_victim(&crew)) {
        (void)kvs_event_wait(events[0], LOST_MS);
        kill(getpid(), SIGKILL);
    }
    KT_OK(crew_sum(&crew, kvs_key_int(9), KVS_DTYPE_float32, 1, &value, NULL, &last));
    want_lost(&crew, last, name_of_victim(&crew));
    for (int i = 0; i < N_KEYS; i++) {
        kvs_event_free(events[i]);
    }
    (void)kvs_store_close(crew.store);
}

static void a_worker_killed_among_small_exchanges_is_named(void)
{
    crew_t crew = begin();
    float sum = 0;
    kvs_status_t status = KVS_OK;

    for (int i = 0; status == KVS_OK; i++) {
        if (i == 300 && is_victim(&crew)) {
            kill(getpid(), SIGKILL);
        }
        status = crew_sum1(&crew, kvs_key_int(i % 3), 1, &sum);
    }
    KT_FAIL(status, KVS_ERR_PEER, name_of_victim(&crew));
    (void)kvs_store_close(crew.store);
}

static void worker_0_killed_is_named(void)
{
    crew_t crew = begin();
    float value = 1;
    kvs_event_t *event = NULL;

    if (crew.rank == 0) {
        kill(getpid(), SIGKILL);
    }
    KT_OK(crew_sum(&crew, kvs_key_int(0), KVS_DTYPE_float32, 1, &value, NULL, &event));
    want_lost(&crew, event, "worker 0 (host ");
    (void)kvs_store_close(crew.store);
}

/* It ends in good order, but the others still need it. */
static void a_worker_that_ends_early_is_named(void)
{
    crew_t crew = begin();
    float sum = 0;

    if (!is_victim(&crew)) {
        KT_FAIL(crew_sum1(&crew, kvs_key_int(1), 1, &sum), KVS_ERR_PEER, name_of_victim(&crew));
    }
    (void)kvs_store_close(crew.store);
}

static void a_process_that_ends_with_work_pending_is_named(void)
{
    crew_t crew = begin();
    static float value = 1;
    float sum = 0;
    kvs_event_t *event = NULL;

    if (is_victim(&crew)) {
        KT_OK(crew_sum(&crew, kvs_key_int(7), KVS_DTYPE_float32, 1, &value, NULL, &event));
        exit(0);
    }
    KT_FAIL(crew_sum1(&crew, kvs_key_int(1), 1, &sum), KVS_ERR_PEER, name_of_victim(&crew));
    (void)kvs_store_close(crew.store);
}

static const kt_test_t tests[] = {
    KT_TEST(a_worker_killed_before_it_submits_is_named),
    KT_TEST(a_worker_killed_in_the_exchange_is_named),
    KT_TEST(a_worker_killed_among_small_exchanges_is_named),
    KT_TEST(worker_0_killed_is_named),
    KT_TEST(a_worker_that_ends_early_is_named),
    KT_TEST(a_process_that_ends_with_work_pending_is_named),
};

KT_MAIN("job_horovod_loss", tests)
