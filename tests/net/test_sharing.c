/* SPDX-License-Identifier: Apache-2.0 */
/* Processes of a host that share memory: messages go through it, unless somebody has it off or cannot have
 * it; and whoever is killed or stopped while they do harms nobody else. */
#include "crew.h"
#include "threads.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#define FAST "KVSTORE_HEARTBEAT=0.2 KVSTORE_DEAD_AFTER=2"

typedef struct traffic {
    unsigned long long shm_sent, shm_received, tcp_sent, tcp_received;
} traffic_t;

static traffic_t traffic_of(crew_hand_t *hand)
{
    const char *said = crew_ask(hand, "traffic ", "traffic");
    traffic_t t = {0};

    KT_INT(sscanf(said, "shm %llu %llu tcp %llu %llu", &t.shm_sent, &t.shm_received, &t.tcp_sent,
                  &t.tcp_received),
           4);
    return t;
}

static void storm(crew_hand_t *hand, int n)
{
    char want[64];

    snprintf(want, sizeof(want), "%d echoes, 0 out of order", n);
    KT_STR(crew_ask(hand, "storm ", "storm %d", n), want);
}

/* The first messages of a lane go by socket, until the other side has taken its ring. */
static bool goes_by_memory(void *arg)
{
    traffic_t t;

    storm(arg, 20);
    t = traffic_of(arg);
    return t.shm_sent > 0 && t.shm_received > 0;
}

static void processes_of_a_host_talk_through_memory(void)
{
    crew_t crew;
    traffic_t before, after;

    crew_open(&crew, 2, 1, "KVSTORE_SHM=1");
    for (int i = 0; i < 2; i++) {
        kt_until(goes_by_memory, &crew.worker[i], "messages through memory");
    }
    before = traffic_of(&crew.worker[0]);
    crew_say(&crew.worker[1], "storm 3000");
    storm(&crew.worker[0], 3000);
    KT_STR(crew_hear(&crew.worker[1], "storm "), "3000 echoes, 0 out of order");
    after = traffic_of(&crew.worker[0]);
    KT_INT(after.shm_sent - before.shm_sent + after.tcp_sent - before.tcp_sent, 3000);
    KT_TRUE(after.shm_sent - before.shm_sent >= 1500); /* where the ring is held up, by socket */
    KT_INT(after.shm_received - before.shm_received + after.tcp_received - before.tcp_received,
           3000);
    crew_close(&crew);
}

/* The window is smaller than a message now and then, and the ring the smallest there is. */
static void small_windows_and_rings_that_go_round_keep_the_order(void)
{
    crew_t crew;

    crew_open(&crew, 3, 1, "KVSTORE_SHM=1 TEST_WINDOW=50000");
    for (int i = 0; i < 3; i++) {
        crew_say(&crew.worker[i], "storm 2000");
    }
    for (int i = 0; i < 3; i++) {
        KT_STR(crew_hear(&crew.worker[i], "storm "), "2000 echoes, 0 out of order");
        KT_TRUE(traffic_of(&crew.worker[i]).shm_sent > 0);
    }
    crew_close(&crew);
}

static void messages_larger_than_a_ring_takes_keep_their_place(void)
{
    crew_t crew;

    crew_open(&crew, 1, 1, "KVSTORE_SHM=1");
    kt_until(goes_by_memory, &crew.worker[0], "messages through memory");
    for (int i = 0; i < 10; i++) {
        char want[64];
        unsigned n_bytes = i % 2 == 0 ? 3000000 : 30000 + (unsigned)i;

        KT_STR(crew_ask(&crew.worker[0], "send ", "send 2 0 %u", n_bytes), "KVS_OK");
        snprintf(want, sizeof(want), "message of %u bytes from server 0", n_bytes);
        (void)crew_hear(&crew.worker[0], want);
    }
    crew_close(&crew);
}

static void switched_off_everything_goes_by_socket(void)
{
    crew_t crew;
    traffic_t t;

    crew_open(&crew, 1, 1, "KVSTORE_SHM=0");
    storm(&crew.worker[0], 500);
    t = traffic_of(&crew.worker[0]);
    KT_INT(t.shm_sent + t.shm_received, 0);
    KT_INT(t.tcp_sent, 500);
    KT_INT(t.tcp_received, 500);
    crew_close(&crew);
}

/* One process has it off: the others share memory, and it talks with all of them. */
static void one_that_has_it_off_is_reached_by_socket(void)
{
    crew_t crew;
    char environment[2048];
    traffic_t t;

    crew = (crew_t){.n_workers = 2, .n_servers = 1, .extra = "KVSTORE_SHM=1"};
    crew_start(&crew.scheduler, "scheduler", crew_environment(&crew, "scheduler", -1));
    KT_STR(crew_ask(&crew.scheduler, "open ", "open"), "KVS_OK");
    snprintf(crew.address, sizeof(crew.address), "%s", crew_hear(&crew.scheduler, "address "));
    crew_start(&crew.server[0], "server 0", crew_environment(&crew, "server", 0));
    crew_start(&crew.worker[0], "worker 0", crew_environment(&crew, "worker", 0));
    snprintf(environment, sizeof(environment), "%s KVSTORE_SHM=0",
             crew_environment(&crew, "worker", 1));
    crew_start(&crew.worker[1], "worker 1", environment);
    crew_say(&crew.server[0], "open");
    for (int i = 0; i < 2; i++) {
        crew_say(&crew.worker[i], "open");
        crew_say(&crew.worker[i], "ready -1");
    }
    for (int i = 0; i < 2; i++) {
        KT_STR(crew_hear(&crew.worker[i], "ready "), "KVS_OK");
    }
    storm(&crew.worker[1], 500);
    t = traffic_of(&crew.worker[1]);
    KT_INT(t.shm_sent + t.shm_received, 0);
    KT_INT(t.tcp_received, 500);
    kt_until(goes_by_memory, &crew.worker[0], "messages through memory");
    crew_close(&crew);
}

/* No memory for rings of its own: what it sends goes by socket, and what it gets may come either way. */
static void one_that_gets_no_memory_sends_by_socket(void)
{
    crew_t crew;
    traffic_t t;

    crew_open(&crew, 1, 1, "KVSTORE_SHM=1");
    KT_STR(crew_ask(&crew.worker[0], "limit ", "limit 4096"), "0");
    storm(&crew.worker[0], 500);
    storm(&crew.worker[0], 500);
    t = traffic_of(&crew.worker[0]);
    KT_INT(t.shm_sent, 0);
    KT_INT(t.tcp_sent, 1000);
    KT_INT(t.shm_received + t.tcp_received, 1000);
    crew_close(&crew);
}

/* ---- Death ----------------------------------------------------------------------------------- */

static void a_worker_killed_in_the_middle_harms_nobody(void)
{
    crew_t crew;

    crew_open(&crew, 2, 1, FAST " KVSTORE_SHM=1");
    kt_until(goes_by_memory, &crew.worker[0], "messages through memory");
    kt_until(goes_by_memory, &crew.worker[1], "messages through memory");
    crew_say(&crew.worker[1], "storm 1000000");
    storm(&crew.worker[0], 200);
    crew_kill(&crew.worker[1], SIGKILL);
    KT_HAS(crew_hear(&crew.worker[0], "event dead KVS_ERR_PEER: "), "worker 1");
    storm(&crew.worker[0], 2000);
    crew_say(&crew.worker[0], "quit");
    KT_INT(crew_wait(&crew.worker[0]), 0);
    KT_INT(crew_wait(&crew.server[0]), 3);
    KT_INT(crew_wait(&crew.scheduler), 3);
}

/* While rings are offered, mapped and first used. */
static void one_killed_at_its_first_messages_harms_nobody(void)
{
    for (int i = 0; i < 5; i++) {
        crew_t crew;

        crew_open(&crew, 2, 1, FAST " KVSTORE_SHM=1");
        crew_say(&crew.worker[1], "storm 1000");
        if (i > 0) {
            storm(&crew.worker[0], i);
        }
        crew_kill(&crew.worker[1], SIGKILL);
        KT_HAS(crew_hear(&crew.worker[0], "event dead KVS_ERR_PEER: "), "worker 1");
        storm(&crew.worker[0], 300);
        crew_say(&crew.worker[0], "quit");
        KT_INT(crew_wait(&crew.worker[0]), 0);
        KT_INT(crew_wait(&crew.server[0]), 3);
        KT_INT(crew_wait(&crew.scheduler), 3);
    }
}

static void a_server_killed_in_the_middle_ends_what_is_sent_to_it(void)
{
    crew_t crew;

    crew_open(&crew, 2, 1, FAST " KVSTORE_SHM=1");
    for (int i = 0; i < 2; i++) {
        kt_until(goes_by_memory, &crew.worker[i], "messages through memory");
        crew_say(&crew.worker[i], "storm 10000000");
    }
    crew_kill(&crew.server[0], SIGKILL);
    for (int i = 0; i < 2; i++) {
        KT_HAS(crew_hear(&crew.worker[i], "event dead KVS_ERR_PEER: "), "server 0");
        (void)crew_hear(&crew.worker[i], "storm ");
        KT_HAS(crew_ask(&crew.worker[i], "send KVS_ERR_PEER: ", "send 2 0 10"), "server 0");
        crew_say(&crew.worker[i], "quit");
        KT_INT(crew_wait(&crew.worker[i]), 0);
    }
    KT_INT(crew_wait(&crew.scheduler), 3);
}

/* Stopped, not dead: the ring fills, senders wait, and go on when it does. */
static void a_server_that_stops_for_a_while_is_waited_for(void)
{
    crew_t crew;

    crew_open(&crew, 1, 1, "KVSTORE_SHM=1");
    kt_until(goes_by_memory, &crew.worker[0], "messages through memory");
    crew_kill(&crew.server[0], SIGSTOP);
    crew_say(&crew.worker[0], "storm 20000");
    crew_kill(&crew.server[0], SIGCONT);
    KT_STR(crew_hear(&crew.worker[0], "storm "), "20000 echoes, 0 out of order");
    crew_close(&crew);
}

static void the_owner_of_a_segment_may_die_and_those_who_wait_for_it_are_told(void)
{
    char environment[100];
    crew_t crew;

    /* without servers of its own a job has its name to itself on this host */
    snprintf(environment, sizeof(environment), FAST " KVSTORE_SHM=1 KVSTORE_JOB_ID=owner-%d",
             (int)getpid());
    crew_open(&crew, 3, 0, environment);
    KT_STR(crew_ask(&crew.worker[0], "segment ", "segment 100000"), "KVS_OK");
    KT_STR(crew_ask(&crew.worker[1], "map ", "map 0 100000"), "KVS_OK");
    KT_STR(crew_ask(&crew.worker[2], "map ", "map 0 100000"), "KVS_OK");
    crew_say(&crew.worker[1], "gate 0 1");
    KT_STR(crew_ask(&crew.worker[0], "raise ", "raise 1"), "1");
    KT_STR(crew_hear(&crew.worker[1], "gate "), "KVS_OK");
    crew_say(&crew.worker[1], "gate 0 3");
    crew_say(&crew.worker[2], "gate -1 3");
    crew_kill(&crew.worker[0], SIGKILL);
    KT_HAS(crew_hear(&crew.worker[1], "gate KVS_ERR_PEER: "), "worker 0");
    KT_HAS(crew_hear(&crew.worker[2], "gate KVS_ERR_PEER: "), "worker 0");
    crew_say(&crew.worker[2], "gate 1 3"); /* the memory is still there for the others */
    KT_STR(crew_ask(&crew.worker[1], "raise ", "raise 3"), "3");
    KT_STR(crew_hear(&crew.worker[2], "gate "), "KVS_OK");
    for (int i = 1; i < 3; i++) {
        crew_say(&crew.worker[i], "quit");
        KT_INT(crew_wait(&crew.worker[i]), 0);
    }
    KT_INT(crew_wait(&crew.scheduler), 3);
}

static const kt_test_t tests[] = {
    KT_TEST(processes_of_a_host_talk_through_memory),
    KT_TEST(small_windows_and_rings_that_go_round_keep_the_order),
    KT_TEST(messages_larger_than_a_ring_takes_keep_their_place),
    KT_TEST(switched_off_everything_goes_by_socket),
    KT_TEST(one_that_has_it_off_is_reached_by_socket),
    KT_TEST(one_that_gets_no_memory_sends_by_socket),
    KT_TEST(a_worker_killed_in_the_middle_harms_nobody),
    KT_TEST(one_killed_at_its_first_messages_harms_nobody),
    KT_TEST(a_server_killed_in_the_middle_ends_what_is_sent_to_it),
    KT_TEST(a_server_that_stops_for_a_while_is_waited_for),
    KT_TEST(the_owner_of_a_segment_may_die_and_those_who_wait_for_it_are_told),
};

KT_MAIN("sharing", tests)
