/* SPDX-License-Identifier: Apache-2.0 */
/* Processes that die, stop or leave, and what the others hear of it: who it was, and nothing hangs, dies
 * with them or is left over. */
#include "crew.h"
#include "threads.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#define FAST "KVSTORE_HEARTBEAT=0.2 KVSTORE_DEAD_AFTER=2"

static void open_stores(crew_t *crew)
{
    for (int i = 0; i < crew->n_workers; i++) {
        crew_say(&crew->worker[i], "store dist_sync 10000");
    }
    for (int i = 0; i < crew->n_workers; i++) {
        KT_STR(crew_hear(&crew->worker[i], "store "), "KVS_OK");
    }
}

/* "worker 1 (host vm, pid 71) died", whose host is not the test's to know. */
static void check_named(const char *said, const char *role_and_rank, int pid)
{
    char part[64];

    snprintf(part, sizeof(part), "%s (host ", role_and_rank);
    KT_HAS(said, part);
    snprintf(part, sizeof(part), ", pid %d) died, or cannot be reached", pid);
    KT_HAS(said, part);
}

static void quit(crew_hand_t *hand)
{
    crew_say(hand, "quit");
    KT_INT(crew_wait(hand), 0);
}

/* Servers and scheduler end by themselves, with the name of who died. */
static void check_ends(crew_t *crew, const char *role_and_rank, int pid)
{
    for (int i = 0; i < crew->n_servers; i++) {
        if (crew->server[i].pid != 0) {
            check_named(crew_hear(&crew->server[i], "event ended KVS_ERR_PEER: "), role_and_rank,
                        pid);
            KT_INT(crew_wait(&crew->server[i]), 3);
        }
    }
    check_named(crew_hear(&crew->scheduler, "end KVS_ERR_PEER: "), role_and_rank, pid);
    KT_INT(crew_wait(&crew->scheduler), 3);
}

static void a_killed_worker_is_named_to_everyone(void)
{
    crew_t crew;
    int pid;

    crew_open(&crew, 2, 2, FAST);
    open_stores(&crew);
    crew_say(&crew.worker[0], "barrier -1");
    pid = crew.worker[1].pid;
    crew_kill(&crew.worker[1], SIGKILL);
    check_named(crew_hear(&crew.worker[0], "event dead KVS_ERR_PEER: "), "worker 1", pid);
    check_named(crew_hear(&crew.server[0], "event dead KVS_ERR_PEER: "), "worker 1", pid);
    check_named(crew_hear(&crew.server[1], "event dead KVS_ERR_PEER: "), "worker 1", pid);
    KT_HAS(crew_hear(&crew.worker[0], "barrier KVS_ERR_PEER: "),
           "barrier 1 of store 1 (dist_sync)");
    KT_STR(crew_ask(&crew.worker[0], "dead ", "dead 60000"), "1");
    check_named(crew_ask(&crew.worker[0], "send KVS_ERR_PEER: ", "send 1 1 10"), "worker 1", pid);
    KT_STR(crew_ask(&crew.worker[0], "send ", "send 2 1 10"), "KVS_OK"); /* the living still talk */
    (void)crew_hear(&crew.worker[0], "message of 10 bytes from server 1");
    quit(&crew.worker[0]);
    check_ends(&crew, "worker 1", pid);
}

static void a_killed_server_is_named_to_everyone(void)
{
    crew_t crew;
    int pid;

    crew_open(&crew, 2, 2, FAST);
    open_stores(&crew);
    pid = crew.server[0].pid;
    crew_kill(&crew.server[0], SIGKILL);
    for (int i = 0; i < 2; i++) {
        check_named(crew_hear(&crew.worker[i], "event dead KVS_ERR_PEER: "), "server 0", pid);
        check_named(crew_ask(&crew.worker[i], "send KVS_ERR_PEER: ", "send 2 0 10"), "server 0",
                    pid);
    }
    quit(&crew.worker[0]);
    quit(&crew.worker[1]);
    check_ends(&crew, "server 0", pid);
}

static void a_killed_scheduler_ends_servers_and_fails_barriers(void)
{
    crew_t crew;

    crew_open(&crew, 2, 1, FAST);
    open_stores(&crew);
    crew_say(&crew.worker[0], "barrier -1");
    crew_kill(&crew.scheduler, SIGKILL);
    KT_HAS(crew_hear(&crew.worker[0], "barrier KVS_ERR_PEER: "), "the scheduler at 127.0.0.1:");
    for (int i = 0; i < 2; i++) {
        const char *said = crew_hear(&crew.worker[i], "event ended KVS_ERR_PEER: ");

        KT_HAS(said, crew.address);
        KT_HAS(said, "died, or cannot be reached: nothing was heard of it for 2 s");
        KT_STR(crew_ask(&crew.worker[i], "dead ", "dead 500"), "1");
    }
    KT_INT(crew_wait(&crew.server[0]), 3);
    quit(&crew.worker[0]);
    quit(&crew.worker[1]);
}

static void a_worker_that_leaves_is_not_dead(void)
{
    crew_t crew;

    crew_open(&crew, 2, 1, NULL);
    open_stores(&crew);
    quit(&crew.worker[1]);
    KT_HAS(crew_hear(&crew.worker[0], "event left "), "worker 1 (host ");
    KT_STR(crew_ask(&crew.worker[0], "dead ", "dead 60000"), "0");
    KT_HAS(crew_ask(&crew.worker[0], "barrier ", "barrier -1"),
           "KVS_ERR_PEER: barrier 1 of store 1");
    crew_close(&crew); /* all with 0: nothing went wrong */
}

static void a_worker_that_is_stopped_is_told_when_it_wakes(void)
{
    crew_t crew;
    int pid;

    crew_open(&crew, 2, 1, FAST);
    open_stores(&crew);
    pid = crew.worker[1].pid;
    crew_kill(&crew.worker[1], SIGSTOP);
    check_named(crew_hear(&crew.worker[0], "event dead KVS_ERR_PEER: "), "worker 1", pid);
    crew_kill(&crew.worker[1], SIGCONT);
    (void)crew_hear(&crew.worker[1], "event ended KVS_ERR_PEER: ");
    KT_HAS(crew_ask(&crew.worker[1], "barrier ", "barrier -1"), "KVS_ERR_PEER");
    quit(&crew.worker[1]);
    quit(&crew.worker[0]);
    check_ends(&crew, "worker 1", pid);
}

static void a_job_that_sleeps_as_a_whole_wakes_unharmed(void)
{
    crew_t crew;
    crew_hand_t *hands[] = {&crew.scheduler, &crew.server[0], &crew.worker[0], &crew.worker[1]};

    crew_open(&crew, 2, 1, "KVSTORE_HEARTBEAT=0.2 KVSTORE_DEAD_AFTER=2");
    open_stores(&crew);
    for (int i = 0; i < 4; i++) {
        crew_kill(hands[i], SIGSTOP);
    }
    poll(NULL, 0, 2500); /* longer than it takes to be dead: there is nothing else to wait for */
    for (int i = 3; i >= 0; i--) {
        crew_kill(hands[i], SIGCONT);
    }
    crew_say(&crew.worker[0], "barrier 10000");
    KT_STR(crew_ask(&crew.worker[1], "barrier ", "barrier 10000"), "KVS_OK");
    KT_STR(crew_hear(&crew.worker[0], "barrier "), "KVS_OK");
    KT_STR(crew_ask(&crew.worker[0], "send ", "send 2 0 10"), "KVS_OK");
    (void)crew_hear(&crew.worker[0], "message of 10 bytes");
    crew_close(&crew);
}

static void servers_and_scheduler_end_when_all_workers_are_killed(void)
{
    crew_t crew;
    int pid[2];

    crew_open(&crew, 2, 2, FAST);
    for (int i = 0; i < 2; i++) {
        pid[i] = crew.worker[i].pid;
        crew_kill(&crew.worker[i], SIGKILL);
    }
    for (int i = 0; i < 2; i++) {
        (void)crew_hear(&crew.server[i], "event ended KVS_ERR_PEER: ");
        KT_INT(crew_wait(&crew.server[i]), 3);
    }
    KT_INT(crew_wait(&crew.scheduler), 3);
    KT_TRUE(pid[0] != pid[1]);
}

static void a_killed_host_of_the_embedded_roles_is_noticed(void)
{
    char environment[256];
    crew_t crew = {.n_workers = 2};

    for (int i = 0; i < 2; i++) {
        snprintf(environment, sizeof(environment),
                 "KVSTORE_NUM_WORKERS=2 KVSTORE_RANK=%d KVSTORE_JOB_ID=death-%d " FAST, i,
                 (int)getpid());
        crew_start(&crew.worker[i], "worker", environment);
        crew_say(&crew.worker[i], "open");
        crew_say(&crew.worker[i], "ready -1");
    }
    KT_STR(crew_hear(&crew.worker[0], "ready "), "KVS_OK");
    KT_STR(crew_hear(&crew.worker[1], "ready "), "KVS_OK");
    crew_kill(&crew.worker[0], SIGKILL);
    KT_HAS(crew_hear(&crew.worker[1], "event ended KVS_ERR_PEER: "), "the scheduler at 127.0.0.1:");
    quit(&crew.worker[1]);
}

/* ---- Before everyone is there ----------------------------------------------------------------- */

typedef struct asking {
    crew_hand_t *hand;
    const char *part;
    bool refused;
} asking_t;

/* What it has heard of the scheduler by now: it waits with `part` of the others, or was refused. */
static bool has_heard(void *arg)
{
    asking_t *asking = arg;
    const char *said = crew_ask(asking->hand, "ready ", "ready 100");

    asking->refused = strstr(said, "is there already") != NULL;
    return asking->refused || strstr(said, asking->part) != NULL;
}

/* Start a worker 0 until the place of the one that was killed is free. */
static void start_until_admitted(crew_t *crew)
{
    asking_t asking = {&crew->worker[0], "1 of 1 worker", true};

    /* the first is only dead when nothing has been heard of it */
    for (int tries = 0; asking.refused && tries < 500; tries++) {
        crew_start(&crew->worker[0], "worker 0", crew_environment(crew, "worker", 0));
        crew_say(&crew->worker[0], "open");
        kt_until(has_heard, &asking, "an answer of the scheduler");
        if (asking.refused) {
            quit(&crew->worker[0]);
        }
    }
    KT_TRUE(!asking.refused);
}

static void a_worker_killed_while_it_waits_may_be_started_again(void)
{
    crew_t crew = {.n_workers = 1, .n_servers = 1, .extra = FAST};

    crew_start(&crew.scheduler, "scheduler", crew_environment(&crew, "scheduler", -1));
    crew_say(&crew.scheduler, "open");
    snprintf(crew.address, sizeof(crew.address), "%s", crew_hear(&crew.scheduler, "address "));
    crew_start(&crew.worker[0], "worker 0", crew_environment(&crew, "worker", 0));
    crew_say(&crew.worker[0], "open");
    KT_HAS(crew_ask(&crew.worker[0], "ready ", "ready 100"), "KVS_ERR_TIMEOUT");
    crew_kill(&crew.worker[0], SIGKILL);
    start_until_admitted(&crew);
    crew_start(&crew.server[0], "server 0", crew_environment(&crew, "server", 0));
    crew_say(&crew.server[0], "open");
    KT_STR(crew_ask(&crew.server[0], "ready ", "ready -1"), "KVS_OK");
    KT_STR(crew_ask(&crew.worker[0], "ready ", "ready -1"), "KVS_OK");
    crew_close(&crew);
}

static void a_scheduler_killed_while_others_wait_is_named(void)
{
    crew_t crew = {.n_workers = 2, .n_servers = 1, .extra = FAST};
    asking_t asking = {&crew.worker[0], "1 of 2 workers", false};
    const char *said;

    crew_start(&crew.scheduler, "scheduler", crew_environment(&crew, "scheduler", -1));
    crew_say(&crew.scheduler, "open");
    snprintf(crew.address, sizeof(crew.address), "%s", crew_hear(&crew.scheduler, "address "));
    crew_start(&crew.worker[0], "worker 0", crew_environment(&crew, "worker", 0));
    crew_say(&crew.worker[0], "open");
    kt_until(has_heard, &asking, "an answer of the scheduler");
    crew_say(&crew.worker[0], "ready -1");
    crew_kill(&crew.scheduler, SIGKILL);
    said = crew_hear(&crew.worker[0], "ready ");
    KT_HAS(said, "KVS_ERR_PEER: the scheduler at ");
    quit(&crew.worker[0]);
}

static const kt_test_t tests[] = {
    KT_TEST(a_killed_worker_is_named_to_everyone),
    KT_TEST(a_killed_server_is_named_to_everyone),
    KT_TEST(a_killed_scheduler_ends_servers_and_fails_barriers),
    KT_TEST(a_worker_that_leaves_is_not_dead),
    KT_TEST(a_worker_that_is_stopped_is_told_when_it_wakes),
    KT_TEST(a_job_that_sleeps_as_a_whole_wakes_unharmed),
    KT_TEST(servers_and_scheduler_end_when_all_workers_are_killed),
    KT_TEST(a_killed_host_of_the_embedded_roles_is_noticed),
    KT_TEST(a_worker_killed_while_it_waits_may_be_started_again),
    KT_TEST(a_scheduler_killed_while_others_wait_is_named),
};

KT_MAIN("death", tests)
