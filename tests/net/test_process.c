/* SPDX-License-Identifier: Apache-2.0 */
/* A process's part in its job: one for all its stores, left in good order when it ends, and none of a
 * forked child's business. Servers and schedulers serve until the job is over, or they are stopped. */
#include "crew.h"
#include "threads.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#define FAST "KVSTORE_HEARTBEAT=0.2 KVSTORE_DEAD_AFTER=2"

/* ---- A job ------------------------------------------------------------------------------------- */

static void start_service(crew_t *crew, crew_hand_t *hand, const char *role)
{
    crew_start(hand, role, crew_environment(crew, role, -1));
}

static void read_address(crew_t *crew, const char *path)
{
    char line[128] = "";
    FILE *file = fopen(path, "r");

    KT_TRUE(file != NULL && fgets(line, sizeof(line), file) != NULL);
    KT_INT(line[0] == '\0' ? 0 : line[strlen(line) - 1], '\n');
    line[strcspn(line, "\n")] = '\0';
    snprintf(crew->address, sizeof(crew->address), "%s", line);
    if (file != NULL) {
        fclose(file);
    }
}

static void start_scheduler(crew_t *crew)
{
    char path[512];

    snprintf(path, sizeof(path), "%s/address", kt_temp_dir());
    start_service(crew, &crew->scheduler, "scheduler");
    KT_STR(crew_ask(&crew->scheduler, "serve ", "serve %s", path), "KVS_OK");
    read_address(crew, path);
}

static void start_worker(crew_t *crew, int rank)
{
    char name[32];

    snprintf(name, sizeof(name), "worker %d", rank);
    crew_start(&crew->worker[rank], name, crew_environment(crew, "worker", rank));
}

/* Everyone has joined, and worker `r` has its store 0. */
static void open_job(crew_t *crew, int n_workers, int n_servers)
{
    *crew = (crew_t){.n_workers = n_workers, .n_servers = n_servers, .extra = FAST};
    start_scheduler(crew);
    for (int s = 0; s < n_servers; s++) {
        start_service(crew, &crew->server[s], "server");
        KT_STR(crew_ask(&crew->server[s], "serve ", "serve"), "KVS_OK");
    }
    for (int w = 0; w < n_workers; w++) {
        start_worker(crew, w);
        crew_say(&crew->worker[w], "join");
    }
    for (int w = 0; w < n_workers; w++) {
        KT_STR(crew_hear(&crew->worker[w], "join "), "KVS_OK");
        KT_STR(crew_hear(&crew->worker[w], "part "), "new");
        KT_STR(crew_ask(&crew->worker[w], "add ", "add 0"), "KVS_OK");
    }
}

static void end_worker(crew_hand_t *worker)
{
    crew_say(worker, "remove 0");
    crew_say(worker, "quit");
    KT_INT(crew_wait(worker), 0);
}

/* All workers leave in good order, and so everything else ends. */
static void close_job(crew_t *crew)
{
    for (int w = 0; w < crew->n_workers; w++) {
        if (crew->worker[w].pid != 0) {
            end_worker(&crew->worker[w]);
        }
    }
    for (int s = 0; s < crew->n_servers; s++) {
        KT_STR(crew_hear(&crew->server[s], "run "), "KVS_OK");
        crew_say(&crew->server[s], "quit");
        KT_INT(crew_wait(&crew->server[s]), 0);
    }
    crew_say(&crew->scheduler, "quit");
    KT_INT(crew_wait(&crew->scheduler), 0);
}

static void clear(crew_t *crew)
{
    crew_clear(&crew->scheduler);
    for (int i = 0; i < CREW_MAX; i++) {
        crew_clear(&crew->worker[i]);
        crew_clear(&crew->server[i]);
    }
}

/* ---- Workers ----------------------------------------------------------------------------------- */

static void stores_of_a_process_share_its_part_and_all_hear_of_events(void)
{
    crew_t crew;

    open_job(&crew, 2, 0);
    KT_STR(crew_ask(&crew.worker[0], "join ", "join"), "KVS_OK");
    KT_STR(crew_hear(&crew.worker[0], "part "), "the same");
    KT_STR(crew_ask(&crew.worker[0], "add ", "add 1"), "KVS_OK");
    KT_STR(crew_ask(&crew.worker[0], "add ", "add 2"), "KVS_OK");
    crew_say(&crew.worker[0], "remove 2");
    end_worker(&crew.worker[1]);
    KT_HAS(crew_hear(&crew.worker[0], "store 0 left: "), "worker 1");
    KT_HAS(crew_hear(&crew.worker[0], "store 1 left: "), "worker 1");
    crew_say(&crew.worker[0], "remove 1");
    close_job(&crew);
    clear(&crew);
}

static void a_removed_store_hears_nothing_any_more(void)
{
    crew_t crew;

    open_job(&crew, 2, 0);
    KT_STR(crew_ask(&crew.worker[0], "add ", "add 1"), "KVS_OK");
    crew_say(&crew.worker[0], "remove 0");
    end_worker(&crew.worker[1]);
    KT_HAS(crew_hear(&crew.worker[0], "store 1 left: "), "worker 1");
    KT_TRUE(!crew_has_heard(&crew.worker[0], "store 0 left"));
    crew_say(&crew.worker[0], "remove 1");
    close_job(&crew);
    clear(&crew);
}

static void a_part_outlives_its_stores(void)
{
    crew_t crew;

    open_job(&crew, 1, 0);
    crew_say(&crew.worker[0], "remove 0");
    KT_STR(crew_ask(&crew.worker[0], "join ", "join"), "KVS_OK");
    KT_STR(crew_hear(&crew.worker[0], "part "), "the same");
    close_job(&crew);
    KT_TRUE(crew_has_heard(&crew.scheduler, "run KVS_OK"));
    clear(&crew);
}

static void a_process_that_ends_with_an_open_store_is_seen_to_die(void)
{
    crew_t crew;
    crew_hand_t *services[] = {&crew.server[0], &crew.scheduler};

    open_job(&crew, 2, 1);
    crew_say(&crew.worker[1], "quit");
    KT_INT(crew_wait(&crew.worker[1]), 0);
    KT_HAS(crew_hear(&crew.worker[0], "store 0 dead: "), "worker 1");
    end_worker(&crew.worker[0]); /* which has nobody to say goodbye to */
    for (int i = 0; i < 2; i++) {
        KT_HAS(crew_hear(services[i], "run "), "worker 1 (");
        crew_say(services[i], "quit");
        KT_INT(crew_wait(services[i]), 0);
    }
    clear(&crew);
}

static void a_part_in_another_job_is_refused_and_the_first_goes_on(void)
{
    crew_t crew;
    const char *said;

    open_job(&crew, 1, 0);
    crew_say(&crew.worker[0], "set KVSTORE_JOB_ID=other");
    said = crew_ask(&crew.worker[0], "join ", "join");
    KT_HAS(said, "KVS_ERR_STATE");
    KT_HAS(said, "this process is worker 0 of job 'default' already");
    crew_say(&crew.worker[0], "set KVSTORE_JOB_ID=default");
    KT_STR(crew_ask(&crew.worker[0], "join ", "join"), "KVS_OK");
    KT_STR(crew_hear(&crew.worker[0], "part "), "the same");
    close_job(&crew);
    clear(&crew);
}

static void a_join_that_failed_can_be_tried_again(void)
{
    crew_t crew = {.n_workers = 1, .extra = FAST};
    char address[128];

    start_scheduler(&crew);
    snprintf(address, sizeof(address), "%s", crew.address);
    start_worker(&crew, 0);
    crew_say(&crew.worker[0], "set KVSTORE_SCHEDULER=127.0.0.1:1");
    crew_say(&crew.worker[0], "set KVSTORE_RENDEZVOUS=0.3");
    KT_HAS(crew_ask(&crew.worker[0], "join ", "join"), "KVS_ERR_TIMEOUT");
    crew_say(&crew.worker[0], "set KVSTORE_SCHEDULER=%s", address);
    crew_say(&crew.worker[0], "set KVSTORE_RENDEZVOUS=15");
    KT_STR(crew_ask(&crew.worker[0], "join ", "join"), "KVS_OK");
    close_job(&crew);
    clear(&crew);
}

static void ticks_hurry_as_long_as_a_store_has_something_pending(void)
{
    crew_t crew;

    open_job(&crew, 1, 0);
    for (int i = 0; i < 2; i++) { /* at their own pace they would take hours */
        KT_STR(crew_ask(&crew.worker[0], "tick ", "tick 20"), "KVS_OK");
        crew_hear(&crew.worker[0], "ticked");
    }
    close_job(&crew);
    clear(&crew);
}

/* ---- Forks ------------------------------------------------------------------------------------- */

static void a_forked_child_has_no_part_and_says_no_goodbye(void)
{
    crew_t crew;

    open_job(&crew, 2, 0);
    crew_say(&crew.worker[0], "remove 0");
    KT_STR(crew_ask(&crew.worker[0], "fork ", "fork"), "0");
    KT_STR(crew_ask(&crew.worker[0], "add ", "add 0"), "KVS_OK");
    KT_TRUE(!crew_has_heard(&crew.worker[1], "store 0 "));
    end_worker(&crew.worker[1]);
    KT_HAS(crew_hear(&crew.worker[0], "store 0 left: "), "worker 1"); /* it goes on */
    close_job(&crew);
    clear(&crew);
}

static void a_child_forked_while_another_thread_joins_does_not_hang(void)
{
    crew_hand_t hand = {0};
    char environment[128];

    snprintf(environment, sizeof(environment), "KVSTORE_JOB_ID=halfway_%d", (int)getpid());
    crew_start(&hand, "process", environment); /* a job of its own */
    KT_STR(crew_ask(&hand, "fork ", "fork_halfway"), "0");
    KT_STR(crew_hear(&hand, "join "), "KVS_OK");
    crew_say(&hand, "quit");
    KT_INT(crew_wait(&hand), 0);
    crew_clear(&hand);
}

/* ---- Services ---------------------------------------------------------------------------------- */

static void services_refuse_operations_and_end_with_the_job(void)
{
    crew_t crew;

    open_job(&crew, 1, 1);
    KT_STR(crew_hear(&crew.server[0], "refuse "),
           "KVS_ERR_STATE: push: this process is a server; it serves in run_server");
    KT_STR(crew_hear(&crew.scheduler, "refuse "),
           "KVS_ERR_STATE: push: this process is a scheduler; it serves in run_server");
    KT_STR(crew_hear(&crew.server[0], "server here "), "1");
    KT_STR(crew_hear(&crew.scheduler, "server here "), "0");
    close_job(&crew);
    clear(&crew);
}

static void a_server_ticks_while_something_is_pending_and_serves_when_woken(void)
{
    crew_t crew;

    open_job(&crew, 1, 1);
    crew_hear(&crew.server[0], "serves, ended 0"); /* as it begins to wait */
    for (int i = 0; i < 2; i++) {
        KT_STR(crew_ask(&crew.worker[0], "tell ", "tell tick 20"), "KVS_OK");
        crew_hear(&crew.server[0], "server ticked");
        KT_STR(crew_ask(&crew.worker[0], "tell ", "tell wake"), "KVS_OK");
        crew_hear(&crew.server[0], "serves, ended 0");
    }
    close_job(&crew);
    clear(&crew);
}

static void a_server_can_be_stopped(void)
{
    crew_t crew;

    open_job(&crew, 1, 1);
    KT_STR(crew_ask(&crew.worker[0], "tell ", "tell stop"), "KVS_OK");
    KT_STR(crew_hear(&crew.server[0], "run "), "KVS_OK");
    KT_STR(crew_hear(&crew.server[0], "close "), "KVS_OK");
    crew_say(&crew.server[0], "quit");
    KT_INT(crew_wait(&crew.server[0]), 0);
    KT_HAS(crew_hear(&crew.worker[0], "store 0 left: "), "server 0");
    crew.n_servers = 0;
    close_job(&crew);
    clear(&crew);
}

static void a_service_can_be_cancelled_from_a_signal_handler(void)
{
    crew_t crew;
    crew_hand_t *services[] = {&crew.server[0], &crew.scheduler};

    open_job(&crew, 1, 1);
    crew_hear(&crew.server[0], "serves"); /* everyone is there */
    for (int i = 0; i < 2; i++) {
        crew_kill(services[i], SIGUSR1);
        KT_HAS(crew_hear(services[i], "run "), "KVS_ERR_CANCELLED");
        crew_say(services[i], "quit");
        KT_INT(crew_wait(services[i]), 0);
    }
    crew_say(&crew.worker[0], "remove 0");
    crew_say(&crew.worker[0], "quit");
    KT_INT(crew_wait(&crew.worker[0]), 0);
    clear(&crew);
}

static void an_announcement_that_cannot_be_written_is_an_error(void)
{
    crew_t crew = {.n_workers = 1, .extra = FAST};

    start_service(&crew, &crew.scheduler, "scheduler");
    KT_HAS(crew_ask(&crew.scheduler, "serve ", "serve /nowhere/at/all"),
           "KVS_ERR_IO: announce: /nowhere/at/all: No such file or directory");
    crew_say(&crew.scheduler, "quit");
    KT_INT(crew_wait(&crew.scheduler), 0);
    clear(&crew);
}

static const kt_test_t tests[] = {
    KT_TEST(stores_of_a_process_share_its_part_and_all_hear_of_events),
    KT_TEST(a_removed_store_hears_nothing_any_more),
    KT_TEST(a_part_outlives_its_stores),
    KT_TEST(a_process_that_ends_with_an_open_store_is_seen_to_die),
    KT_TEST(a_part_in_another_job_is_refused_and_the_first_goes_on),
    KT_TEST(a_join_that_failed_can_be_tried_again),
    KT_TEST(ticks_hurry_as_long_as_a_store_has_something_pending),
    KT_TEST(a_forked_child_has_no_part_and_says_no_goodbye),
    KT_TEST(a_child_forked_while_another_thread_joins_does_not_hang),
    KT_TEST(services_refuse_operations_and_end_with_the_job),
    KT_TEST(a_server_ticks_while_something_is_pending_and_serves_when_woken),
    KT_TEST(a_server_can_be_stopped),
    KT_TEST(a_service_can_be_cancelled_from_a_signal_handler),
    KT_TEST(an_announcement_that_cannot_be_written_is_an_error),
};
KT_MAIN("process", tests)
