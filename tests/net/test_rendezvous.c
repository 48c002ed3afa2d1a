/* SPDX-License-Identifier: Apache-2.0 */
/* Processes that come together, and every way in which they don't: missing, doubled, too many,
 * different, unreachable. */
#include "crew.h"
#include "threads.h"

#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

static void check_refused(crew_hand_t *hand, const char *part)
{
    const char *said = crew_hear(hand, "ready ");

    KT_HAS(said, "KVS_ERR_PEER");
    KT_HAS(said, part);
    crew_say(hand, "quit");
    KT_INT(crew_wait(hand), 0);
}

static void processes_meet_under_their_given_ranks(void)
{
    crew_t crew;

    crew_open(&crew, 2, 2, NULL);
    for (int i = 0; i < 2; i++) {
        char want[64];

        snprintf(want, sizeof(want), "%d of 2, 2 servers, local %d, host server 0", i, i);
        KT_STR(crew_hear(&crew.worker[i], "rank "), want);
        KT_HAS(crew_hear(&crew.server[i], "listens "), "127.0.0.1:");
    }
    crew_say(&crew.worker[0], "store dist_sync 10000");
    KT_STR(crew_ask(&crew.worker[1], "store ", "store dist_sync 10000"), "KVS_OK");
    KT_STR(crew_hear(&crew.worker[0], "store "), "KVS_OK");
    KT_STR(crew_ask(&crew.worker[0], "send ", "send 2 1 300000"), "KVS_OK");
    KT_HAS(crew_hear(&crew.worker[0], "message of 300000 bytes from "), "server 1 (host ");
    crew_close(&crew);
}

static void a_forked_child_is_refused_and_its_parent_goes_on(void)
{
    crew_t crew;

    crew_open(&crew, 1, 1, NULL);
    KT_STR(crew_ask(&crew.worker[0], "store ", "store dist_sync 10000"), "KVS_OK");
    KT_STR(crew_ask(&crew.worker[0], "fork ", "fork"), "0");
    KT_STR(crew_ask(&crew.worker[0], "barrier ", "barrier 10000"), "KVS_OK");
    KT_STR(crew_ask(&crew.worker[0], "send ", "send 2 0 10"), "KVS_OK");
    (void)crew_hear(&crew.worker[0], "message of 10 bytes");
    crew_close(&crew);
}

/* ---- Missing --------------------------------------------------------------------------------- */

static void everyone_says_who_is_missing(void)
{
    crew_t crew = {.n_workers = 3, .n_servers = 2, .extra = "KVSTORE_RENDEZVOUS=5"};
    crew_hand_t *hands[] = {&crew.scheduler, &crew.worker[0], &crew.server[1]};
    const char *const want = "1 of 3 workers, 1 of 2 servers present; missing: worker 1, worker 2, "
                             "server 0";

    crew_start(&crew.scheduler, "scheduler", crew_environment(&crew, "scheduler", -1));
    crew_say(&crew.scheduler, "open");
    snprintf(crew.address, sizeof(crew.address), "%s", crew_hear(&crew.scheduler, "address "));
    crew_start(&crew.worker[0], "worker 0", crew_environment(&crew, "worker", 0));
    crew_start(&crew.server[1], "server 1", crew_environment(&crew, "server", 1));
    for (int i = 1; i < 3; i++) {
        crew_say(hands[i], "open");
        crew_say(hands[i], "ready -1");
    }
    for (int i = 0; i < 3; i++) {
        const char *said = crew_hear(hands[i], i == 0 ? "end " : "ready ");

        KT_HAS(said, "KVS_ERR_TIMEOUT");
        KT_HAS(said, want);
    }
    crew_say(&crew.worker[0], "quit");
    KT_INT(crew_wait(&crew.worker[0]), 0);
    KT_INT(crew_wait(&crew.server[1]), 3);
    KT_INT(crew_wait(&crew.scheduler), 3);
}

static void an_unreachable_scheduler_is_told_with_errno(void)
{
    crew_hand_t hand = {0};
    const char *said;
    crew_start(&hand, "worker",
               "KVSTORE_ROLE=worker KVSTORE_NUM_WORKERS=1 KVSTORE_NUM_SERVERS=1 "
               "KVSTORE_SCHEDULER=127.0.0.1:1 KVSTORE_RENDEZVOUS=0.3");
    crew_say(&hand, "open");
    said = crew_ask(&hand, "ready ", "ready -1");
    KT_HAS(said, "KVS_ERR_TIMEOUT");
    KT_HAS(said, "for 0.3 s the scheduler was not there");
    KT_HAS(said, "127.0.0.1:1: Connection refused (errno 111)");
    crew_say(&hand, "quit");
    KT_INT(crew_wait(&hand), 0);
}

/* Somebody else's program on that port. */
static int silent_listener(int *ret_port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    KT_INT(bind(fd, (struct sockaddr *)&address, size), 0);
    KT_INT(listen(fd, 8), 0);
    KT_INT(getsockname(fd, (struct sockaddr *)&address, &size), 0);
    *ret_port = ntohs(address.sin_port);
    return fd;
}

static void a_stranger_on_the_schedulers_port_is_told_apart(void)
{
    char environment[256];
    crew_hand_t hand = {0};
    int port, fd = silent_listener(&port);
    const char *said;

    snprintf(environment, sizeof(environment),
             "KVSTORE_ROLE=worker KVSTORE_NUM_WORKERS=1 KVSTORE_NUM_SERVERS=1 "
             "KVSTORE_SCHEDULER=127.0.0.1:%d KVSTORE_RENDEZVOUS=0.5",
             port);
    crew_start(&hand, "worker", environment);
    crew_say(&hand, "open");
    said = crew_ask(&hand, "ready ", "ready -1");
    KT_HAS(said, "KVS_ERR_TIMEOUT");
    KT_HAS(said, "has not answered as a scheduler does");
    crew_say(&hand, "quit");
    KT_INT(crew_wait(&hand), 0);
    close(fd);
}

static void a_port_that_is_taken_is_told_with_errno(void)
{
    char environment[256];
    crew_hand_t hand = {0};
    int port, fd = silent_listener(&port);
    const char *said;

    snprintf(environment, sizeof(environment),
             "KVSTORE_ROLE=scheduler KVSTORE_NUM_WORKERS=1 KVSTORE_NUM_SERVERS=1 "
             "KVSTORE_SCHEDULER=127.0.0.1:%d",
             port);
    crew_start(&hand, "scheduler", environment);
    said = crew_ask(&hand, "open ", "open");
    KT_HAS(said, "KVS_ERR_IO: scheduler (is another one still running there?)");
    KT_HAS(said, "127.0.0.1 port ");
    KT_HAS(said, "Address already in use (errno 98)");
    KT_INT(crew_wait(&hand), 0);
    close(fd);
}

static void a_waiting_worker_may_be_started_again(void)
{
    crew_t crew = {.n_workers = 2, .n_servers = 1};

    crew_start(&crew.scheduler, "scheduler", crew_environment(&crew, "scheduler", -1));
    crew_say(&crew.scheduler, "open");
    snprintf(crew.address, sizeof(crew.address), "%s", crew_hear(&crew.scheduler, "address "));
    crew_start(&crew.worker[0], "worker 0", crew_environment(&crew, "worker", 0));
    crew_say(&crew.worker[0], "open");
    KT_HAS(crew_ask(&crew.worker[0], "ready ", "ready 300"),
           "KVS_ERR_TIMEOUT: job 'default': after "
           "0.3 s only ");
    crew_say(&crew.worker[0], "quit"); /* it gives up its place */
    KT_INT(crew_wait(&crew.worker[0]), 0);
    crew_start(&crew.server[0], "server 0", crew_environment(&crew, "server", 0));
    crew_start(&crew.worker[0], "worker 0", crew_environment(&crew, "worker", 0));
    crew_start(&crew.worker[1], "worker 1", crew_environment(&crew, "worker", 1));
    for (int i = 0; i < 3; i++) {
        crew_hand_t *hand = i < 2 ? &crew.worker[i] : &crew.server[0];

        crew_say(hand, "open");
        crew_say(hand, "ready -1");
    }
    KT_STR(crew_hear(&crew.worker[0], "ready "), "KVS_OK");
    KT_STR(crew_hear(&crew.worker[1], "ready "), "KVS_OK");
    crew_close(&crew);
}

/* ---- Too many, and different ------------------------------------------------------------------ */

static void open_one(crew_t *crew, crew_hand_t *hand, const char *role, int rank, const char *extra)
{
    char environment[1400];

    snprintf(environment, sizeof(environment), "%s %s", crew_environment(crew, role, rank), extra);
    crew_start(hand, role, environment);
    crew_say(hand, "open");
    crew_say(hand, "ready -1");
}

static void open_scheduler(crew_t *crew)
{
    crew_start(&crew->scheduler, "scheduler", crew_environment(crew, "scheduler", -1));
    crew_say(&crew->scheduler, "open");
    snprintf(crew->address, sizeof(crew->address), "%s", crew_hear(&crew->scheduler, "address "));
}

static bool one_is_refused(void *arg)
{
    crew_hand_t **hands = arg;

    return crew_has_heard(hands[0], "ready KVS_ERR_PEER") ||
           crew_has_heard(hands[1], "ready KVS_ERR_PEER");
}

static void a_second_worker_of_a_rank_is_refused(void)
{
    crew_t crew = {.n_workers = 2, .n_servers = 1};
    crew_hand_t second = {0}, *hands[] = {&crew.worker[1], &second};

    open_scheduler(&crew);
    open_one(&crew, &crew.worker[1], "worker", 1, "");
    open_one(&crew, &second, "worker", 1, "");
    kt_until(one_is_refused, hands, "a refusal of one of them");
    if (crew_has_heard(&second, "ready KVS_ERR_PEER")) {
        check_refused(&second, "is there already");
    } else {
        check_refused(&crew.worker[1], "is there already");
        crew.worker[1] = second;
    }
    open_one(&crew, &crew.worker[0], "worker", 0, "");
    open_one(&crew, &crew.server[0], "server", 0, "");
    KT_STR(crew_hear(&crew.worker[0], "ready "), "KVS_OK");
    KT_STR(crew_hear(&crew.worker[1], "ready "), "KVS_OK");
    crew_close(&crew);
}

static void a_third_worker_of_two_does_no_harm(void)
{
    crew_t crew;
    crew_hand_t third = {0};

    crew_open(&crew, 2, 1, NULL);
    open_one(&crew, &third, "worker", -1, "");
    check_refused(&third, "comes too late: the job runs with its 2 workers and 1 servers");
    crew_say(&crew.worker[0], "store dist_sync 10000");
    KT_STR(crew_ask(&crew.worker[1], "store ", "store dist_sync 10000"), "KVS_OK");
    crew_close(&crew);
}

/* Two workers that differ: both hear of it, and so does the scheduler. */
static void check_difference(const char *extra, const char *part)
{
    crew_t crew = {
        .n_workers = 2, .n_servers = 1, .extra = "KVSTORE_HEARTBEAT=0.2 KVSTORE_DEAD_AFTER=3"};

    open_scheduler(&crew);
    open_one(&crew, &crew.worker[0], "worker", 0, "");
    open_one(&crew, &crew.worker[1], "worker", 1, extra);
    check_refused(&crew.worker[0], part);
    check_refused(&crew.worker[1], part);
    KT_HAS(crew_hear(&crew.scheduler, "end "), part);
    KT_INT(crew_wait(&crew.scheduler), 3);
}

static void what_differs_is_an_error_on_both_sides(void)
{
    check_difference("KVSTORE_NUM_WORKERS=3", "the number of workers differs: worker 1 (host ");
    check_difference("KVSTORE_NUM_SERVERS=2", "the number of servers differs: worker 1 (host ");
    check_difference("TEST_PLUGIN=test-2", "plugin differs: worker ");
}

static void another_job_is_turned_away(void)
{
    crew_t crew;
    crew_hand_t stranger = {0};

    crew_open(&crew, 1, 1, "KVSTORE_JOB_ID=mine");
    open_one(&crew, &stranger, "worker", 0, "KVSTORE_JOB_ID=yours");
    check_refused(&stranger, "belongs to job 'yours', but the scheduler at 127.0.0.1:");
    crew_close(&crew);
}

static void addresses_of_a_network_need_a_word(void)
{
    static const char *const environments[] = {
        "KVSTORE_ROLE=scheduler KVSTORE_NUM_WORKERS=1 KVSTORE_NUM_SERVERS=1 "
        "KVSTORE_SCHEDULER=0.0.0.0:0",
        "KVSTORE_ROLE=worker KVSTORE_NUM_WORKERS=1 KVSTORE_NUM_SERVERS=1 "
        "KVSTORE_SCHEDULER=192.0.2.1:9",
    };
    crew_hand_t hand = {0};

    crew_start(&hand, "scheduler", environments[0]);
    KT_HAS(crew_ask(&hand, "open ", "open"), "KVSTORE_INSECURE=1");
    KT_INT(crew_wait(&hand), 0);
    crew_start(&hand, "worker", environments[1]);
    crew_say(&hand, "open");
    KT_HAS(crew_ask(&hand, "ready ", "ready -1"), "192.0.2.1:9 is not a loopback address");
    crew_say(&hand, "quit");
    KT_INT(crew_wait(&hand), 0);
}

static void they_meet_over_ipv6_too(void)
{
    crew_t crew = {.n_workers = 1, .n_servers = 1};
    const char *said;

    snprintf(crew.address, sizeof(crew.address), "[::1]:0");
    crew_start(&crew.scheduler, "scheduler", crew_environment(&crew, "scheduler", -1));
    said = crew_ask(&crew.scheduler, "open ", "open");
    if (strstr(said, "errno 99") != NULL || strstr(said, "errno 97") != NULL) {
        KT_INT(crew_wait(&crew.scheduler), 0);
        return; /* a host without IPv6 */
    }
    KT_STR(said, "KVS_OK");
    snprintf(crew.address, sizeof(crew.address), "%s", crew_hear(&crew.scheduler, "address "));
    open_one(&crew, &crew.server[0], "server", 0, "");
    open_one(&crew, &crew.worker[0], "worker", 0, "");
    KT_STR(crew_hear(&crew.worker[0], "ready "), "KVS_OK");
    KT_HAS(crew_hear(&crew.worker[0], "listens "), "[::1]:");
    KT_STR(crew_ask(&crew.worker[0], "send ", "send 2 0 10"), "KVS_OK");
    (void)crew_hear(&crew.worker[0], "message of 10 bytes");
    crew_close(&crew);
}

/* ---- Embedded -------------------------------------------------------------------------------- */

static void embedded_roles_find_each_other_by_the_jobs_name(void)
{
    char environment[256];
    crew_t crew = {.n_workers = 3};
    int n_hosting = 0;

    for (int i = 2; i >= 0; i--) { /* rank 0, which hosts the scheduler, comes last */
        snprintf(environment, sizeof(environment),
                 "OMPI_COMM_WORLD_SIZE=3 OMPI_COMM_WORLD_RANK=%d OMPI_COMM_WORLD_LOCAL_RANK=%d "
                 "OMPI_COMM_WORLD_LOCAL_SIZE=3 PMIX_NAMESPACE=test-%d",
                 i, i, (int)getpid());
        crew_start(&crew.worker[i], "worker", environment);
        crew_say(&crew.worker[i], "open");
        crew_say(&crew.worker[i], "ready -1");
        crew_say(&crew.worker[i], "store dist_sync 10000");
    }
    for (int i = 0; i < 3; i++) {
        const char *said;

        KT_STR(crew_hear(&crew.worker[i], "ready "), "KVS_OK");
        said = crew_hear(&crew.worker[i], "rank ");
        KT_HAS(said, "of 3, 1 servers");
        n_hosting += strstr(said, "host server 1") != NULL;
        KT_STR(crew_hear(&crew.worker[i], "store "), "KVS_OK");
    }
    KT_INT(n_hosting, 1);
    KT_STR(crew_ask(&crew.worker[2], "send ", "send 2 0 100000"), "KVS_OK");
    (void)crew_hear(&crew.worker[2], "message of 100000 bytes from server 0");
    KT_HAS(crew_ask(&crew.worker[0], "closestore ", "closestore 200"),
           "KVS_ERR_TIMEOUT: store 1 (dist_sync) is still open in: worker 1 (host ");
    crew_close(&crew);
}

static void without_rank_0_the_others_say_what_they_looked_for(void)
{
    char environment[256];
    crew_hand_t hand = {0};
    const char *said;

    snprintf(environment, sizeof(environment),
             "KVSTORE_NUM_WORKERS=2 KVSTORE_RANK=1 KVSTORE_JOB_ID=alone-%d KVSTORE_RENDEZVOUS=0.2",
             (int)getpid());
    crew_start(&hand, "worker 1", environment);
    said = crew_ask(&hand, "open ", "open");
    KT_HAS(said, "KVS_ERR_TIMEOUT: worker 1: for 0.2 s no process of job 'alone-");
    KT_HAS(said, "KVSTORE_SCHEDULER=host:port");
    crew_say(&hand, "quit");
    KT_INT(crew_wait(&hand), 0);
}

static void two_embedded_jobs_of_one_name_are_told_apart(void)
{
    char environment[256];
    crew_hand_t first = {0}, second = {0};

    snprintf(environment, sizeof(environment),
             "KVSTORE_NUM_WORKERS=2 KVSTORE_RANK=0 KVSTORE_JOB_ID=same-%d", (int)getpid());
    crew_start(&first, "worker 0", environment);
    KT_STR(crew_ask(&first, "open ", "open"), "KVS_OK");
    crew_start(&second, "the other worker 0", environment);
    KT_HAS(crew_ask(&second, "open ", "open"),
           "runs on this host already, its scheduler in process");
    crew_say(&second, "quit");
    KT_INT(crew_wait(&second), 0);
    crew_say(&first, "quit");
    KT_INT(crew_wait(&first), 0);
}

static const kt_test_t tests[] = {
    KT_TEST(processes_meet_under_their_given_ranks),
    KT_TEST(a_forked_child_is_refused_and_its_parent_goes_on),
    KT_TEST(everyone_says_who_is_missing),
    KT_TEST(an_unreachable_scheduler_is_told_with_errno),
    KT_TEST(a_stranger_on_the_schedulers_port_is_told_apart),
    KT_TEST(a_port_that_is_taken_is_told_with_errno),
    KT_TEST(a_waiting_worker_may_be_started_again),
    KT_TEST(a_second_worker_of_a_rank_is_refused),
    KT_TEST(a_third_worker_of_two_does_no_harm),
    KT_TEST(what_differs_is_an_error_on_both_sides),
    KT_TEST(another_job_is_turned_away),
    KT_TEST(addresses_of_a_network_need_a_word),
    KT_TEST(they_meet_over_ipv6_too),
    KT_TEST(embedded_roles_find_each_other_by_the_jobs_name),
    KT_TEST(without_rank_0_the_others_say_what_they_looked_for),
    KT_TEST(two_embedded_jobs_of_one_name_are_told_apart),
};

KT_MAIN("rendezvous", tests)
