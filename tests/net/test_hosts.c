/* SPDX-License-Identifier: Apache-2.0 */
/* Two hosts, which are network namespaces with a cable between them: addresses, lost connections and a
 * cable that is pulled. Skipped where namespaces can't be made. */
#include "crew.h"

#include <stdarg.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define OPEN_NET "KVSTORE_INSECURE=1 "
#define FAST     "KVSTORE_HEARTBEAT=0.2 KVSTORE_DEAD_AFTER=2 "

static char here[32], there[32]; /* the namespaces */

static bool shell(const char *format, ...) KVS_PRINTF(1, 2);
static bool shell(const char *format, ...)
{
    char command[512];
    va_list args;
    int status;

    va_start(args, format);
    vsnprintf(command, sizeof(command), format, args);
    va_end(args);
    status = system(command);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static void take_down(void)
{
    (void)shell("ip netns del %s 2>/dev/null", here);
    (void)shell("ip netns del %s 2>/dev/null", there);
}

/* 10.77.0.1 here, 10.77.0.2 there. */
static bool set_up(void)
{
    snprintf(here, sizeof(here), "kvs-a-%d", (int)getpid());
    snprintf(there, sizeof(there), "kvs-b-%d", (int)getpid());
    return shell("ip netns add %s 2>/dev/null && ip netns add %s 2>/dev/null", here, there) &&
           shell("ip link add cable netns %s type veth peer name cable netns %s 2>/dev/null", here,
                 there) &&
           shell("ip -n %s addr add 10.77.0.1/24 dev cable && ip -n %s link set cable up && "
                 "ip -n %s link set lo up",
                 here, here, here) &&
           shell("ip -n %s addr add 10.77.0.2/24 dev cable && ip -n %s link set cable up && "
                 "ip -n %s link set lo up",
                 there, there, there);
}

static void start(crew_t *crew, crew_hand_t *hand, const char *netns, const char *role, int rank,
                  const char *extra)
{
    char environment[1400], name[64];

    snprintf(name, sizeof(name), "%s %d", role, rank);
    snprintf(environment, sizeof(environment), "%s %s", crew_environment(crew, role, rank), extra);
    hand->netns = netns;
    crew_start(hand, name, environment);
    crew_say(hand, "open");
}

static void open_scheduler(crew_t *crew)
{
    snprintf(crew->address, sizeof(crew->address), "10.77.0.1:0");
    start(crew, &crew->scheduler, here, "scheduler", -1, "");
    KT_STR(crew_hear(&crew->scheduler, "open "), "KVS_OK");
    snprintf(crew->address, sizeof(crew->address), "%s", crew_hear(&crew->scheduler, "address "));
}

/* Scheduler and worker 0 here, server and worker 1 there. */
static void open_job(crew_t *crew, const char *extra)
{
    crew_hand_t *hands[] = {&crew->worker[0], &crew->worker[1], &crew->server[0]};

    *crew = (crew_t){.n_workers = 2, .n_servers = 1, .extra = extra};
    open_scheduler(crew);
    start(crew, &crew->server[0], there, "server", 0, "");
    start(crew, &crew->worker[0], here, "worker", 0, "");
    start(crew, &crew->worker[1], there, "worker", 1, "");
    for (int i = 0; i < 3; i++) {
        KT_STR(crew_ask(hands[i], "ready ", "ready -1"), "KVS_OK");
    }
}

static void each_host_announces_the_address_that_routes(void)
{
    crew_t crew;

    open_job(&crew, OPEN_NET);
    KT_HAS(crew_hear(&crew.worker[0], "listens "), "10.77.0.1:");
    KT_HAS(crew_hear(&crew.worker[1], "listens "), "10.77.0.2:");
    KT_HAS(crew_hear(&crew.worker[1], "rank "), "local 0");
    KT_STR(crew_ask(&crew.worker[0], "send ", "send 2 0 300000"), "KVS_OK");
    (void)crew_hear(&crew.worker[0], "message of 300000 bytes from server 0");
    crew_close(&crew);
}

static void a_network_needs_a_word_on_every_side(void)
{
    crew_t crew = {.n_workers = 1, .n_servers = 1};
    crew_hand_t hand = {0};

    snprintf(crew.address, sizeof(crew.address), "10.77.0.1:4000");
    start(&crew, &hand, here, "scheduler", -1, "");
    KT_HAS(crew_hear(&hand, "open "), "10.77.0.1:4000 is not a loopback address");
    KT_INT(crew_wait(&hand), 0);
    start(&crew, &hand, there, "worker", 0, "");
    KT_HAS(crew_ask(&hand, "ready ", "ready -1"), "KVSTORE_INSECURE=1");
    crew_say(&hand, "quit");
    KT_INT(crew_wait(&hand), 0);
}

static void interfaces_and_hosts_may_be_given(void)
{
    crew_t crew = {.n_workers = 2, .n_servers = 1, .extra = OPEN_NET};
    crew_hand_t lost = {0};

    open_scheduler(&crew);
    start(&crew, &lost, there, "worker", 0, "KVSTORE_INTERFACE=eth7");
    KT_HAS(crew_ask(&lost, "ready ", "ready -1"),
           "interface 'eth7' (KVSTORE_INTERFACE) has no address");
    crew_say(&lost, "quit");
    KT_INT(crew_wait(&lost), 0);
    start(&crew, &crew.server[0], there, "server", 0, "KVSTORE_INTERFACE=cable");
    start(&crew, &crew.worker[0], here, "worker", 0, "KVSTORE_NODE_HOST=10.77.0.1");
    start(&crew, &crew.worker[1], there, "worker", 1, "");
    crew_say(&crew.server[0], "ready -1");
    crew_say(&crew.worker[1], "ready -1");
    KT_STR(crew_ask(&crew.worker[0], "ready ", "ready -1"), "KVS_OK");
    KT_HAS(crew_hear(&crew.worker[0], "listens "), "10.77.0.1:");
    KT_HAS(crew_hear(&crew.server[0], "listens "), "10.77.0.2:");
    KT_STR(crew_hear(&crew.worker[1], "ready "), "KVS_OK");
    crew_close(&crew);
}

static void loopback_is_not_announced_to_another_host(void)
{
    crew_t crew = {.n_workers = 2, .n_servers = 1, .extra = OPEN_NET};
    crew_hand_t *hands[] = {&crew.worker[0], &crew.worker[1], &crew.server[0]};

    open_scheduler(&crew);
    start(&crew, &crew.server[0], there, "server", 0, "");
    start(&crew, &crew.worker[0], here, "worker", 0, "KVSTORE_NODE_HOST=127.0.0.1");
    start(&crew, &crew.worker[1], there, "worker", 1, "");
    for (int i = 0; i < 3; i++) {
        const char *said = crew_hear(hands[i], "event ended KVS_ERR_PEER: ");

        KT_HAS(said, "worker 0 (host ");
        KT_HAS(said, "listens on 127.0.0.1:");
        KT_HAS(said, "KVSTORE_NODE_HOST or KVSTORE_INTERFACE");
    }
    crew_say(&crew.worker[0], "quit");
    crew_say(&crew.worker[1], "quit");
    KT_INT(crew_wait(&crew.worker[0]), 0);
    KT_INT(crew_wait(&crew.worker[1]), 0);
    KT_INT(crew_wait(&crew.server[0]), 3);
    KT_INT(crew_wait(&crew.scheduler), 3);
}

static void connections_that_are_lost_lose_nothing(void)
{
    crew_t crew;

    open_job(&crew, OPEN_NET "KVSTORE_HEARTBEAT=0.2 TEST_WINDOW=100000");
    crew_say(&crew.worker[0], "store dist_sync 10000");
    KT_STR(crew_ask(&crew.worker[1], "store ", "store dist_sync 10000"), "KVS_OK");
    for (int i = 0; i < 5; i++) {
        crew_say(&crew.worker[0], "storm 4000");
        (void)crew_hear(&crew.worker[0], "half");
        /* every connection between the two is reset, control and data */
        KT_TRUE(shell("ip netns exec %s ss -tK dst 10.77.0.2 >/dev/null", here));
        KT_STR(crew_hear(&crew.worker[0], "storm "), "4000 echoes, 0 out of order");
        crew_say(&crew.worker[1], "barrier 10000");
        KT_STR(crew_ask(&crew.worker[0], "barrier ", "barrier 10000"), "KVS_OK");
        KT_STR(crew_hear(&crew.worker[1], "barrier "), "KVS_OK");
    }
    crew_close(&crew);
}

static void a_pulled_cable_is_the_loss_of_whoever_is_behind_it(void)
{
    crew_t crew;

    open_job(&crew, OPEN_NET FAST);
    KT_TRUE(shell("ip -n %s link set cable down", here));
    (void)crew_hear(&crew.worker[0], "event dead KVS_ERR_PEER: ");
    (void)crew_hear(&crew.worker[0], "event dead KVS_ERR_PEER: ");
    KT_STR(crew_ask(&crew.worker[0], "dead ", "dead 60000"), "2");
    KT_HAS(crew_hear(&crew.worker[1], "event ended KVS_ERR_PEER: "), "the scheduler at 10.77.0.1:");
    KT_INT(crew_wait(&crew.server[0]), 3);
    crew_say(&crew.worker[0], "quit");
    crew_say(&crew.worker[1], "quit");
    KT_INT(crew_wait(&crew.worker[0]), 0);
    KT_INT(crew_wait(&crew.worker[1]), 0);
    KT_INT(crew_wait(&crew.scheduler), 3);
    KT_TRUE(shell("ip -n %s link set cable up", here));
}

static const kt_test_t tests[] = {
    KT_TEST(each_host_announces_the_address_that_routes),
    KT_TEST(a_network_needs_a_word_on_every_side),
    KT_TEST(interfaces_and_hosts_may_be_given),
    KT_TEST(loopback_is_not_announced_to_another_host),
    KT_TEST(connections_that_are_lost_lose_nothing),
    KT_TEST(a_pulled_cable_is_the_loss_of_whoever_is_behind_it),
};

int main(int argc, char **argv)
{
    int result;

    if (!set_up()) {
        take_down();
        printf("skipped: network namespaces cannot be made here (they need root and iproute2)\n");
        return 77;
    }
    result = kt_run("hosts", tests, sizeof(tests) / sizeof(tests[0]), argc, argv);
    take_down();
    return result;
}
