/* SPDX-License-Identifier: Apache-2.0 */
/* test_command.c - commands on a server: whose they are, and what becomes of those that can't be kept. The
 * server around them is a stand-in, which keeps the last answer. */
#include "../kit/fake_host.h"
#include "dist_depot.h"
#include "fail_alloc.h"

#include <kt.h>

static dist_commands_t commands;
static kvs_status_t answer;
static char text[256];
static int n_answers;

dist_commands_t *dist_server_lock_commands(dist_server_t *server)
{
    (void)server;
    return &commands;
}

void dist_server_unlock_commands(dist_server_t *server)
{
    (void)server;
}

void dist_server_stop(dist_server_t *server)
{
    (void)server;
}

dist_profile_t *dist_server_profile(dist_server_t *server)
{
    (void)server;
    return NULL;
}

kvs_status_t dist_profile_command(dist_profile_t *profile, int rank, const char *body,
                                  size_t n_bytes)
{
    (void)profile;
    (void)rank;
    (void)body;
    (void)n_bytes;
    return KVS_OK;
}

void dist_depot_send_done(dist_depot_t *depot, int worker, uint64_t request, kvs_status_t status,
                          const char *why)
{
    (void)depot;
    (void)worker;
    (void)request;
    answer = status;
    snprintf(text, sizeof(text), "%s", why);
    n_answers++;
}

int kvs_net_node_rank(const kvs_net_node_t *node)
{
    (void)node;
    return 0;
}

kvs_status_t kvs_net_send(kvs_net_node_t *node, const kvs_net_peer_t *to,
                          const kvs_net_send_t *send)
{
    (void)node;
    (void)to;
    (void)send;
    n_answers++;
    return KVS_OK;
}

static kvs_status_t control(int head, const void *body, size_t n_bytes, void *arg)
{
    *(int *)arg += head + (int)n_bytes;
    (void)body;
    return KVS_OK;
}

static void take(int head)
{
    static const kvs_net_peer_t worker = {.role = KVS_NET_WORKER, .label = "worker 0"};
    dist_depot_t depot = {.n_workers = 1};
    dist_header_t header = {.kind = DIST_COMMAND, .request = 7, .first = head};
    kvs_net_message_t message = {.from = &worker, .body = "abc", .n_body_bytes = 3};

    dist_command_take(&depot, &header, &message);
}

static void the_controller_gets_what_is_kept_for_it(void)
{
    dist_command_t *command;
    int sum = 0;

    commands = (dist_commands_t){.controller = control, .arg = &sum};
    n_answers = 0;
    take(9);
    KT_INT(n_answers, 0); /* the controller's end is the answer */
    command = dist_commands_take(&commands);
    KT_TRUE(command != NULL);
    dist_command_run(command, NULL, control, &sum);
    KT_INT(sum, 9 + 3);
    KT_INT(n_answers, 1);
}

static void without_a_controller_a_command_is_passed_over(void)
{
    commands = (dist_commands_t){.controller = NULL};
    n_answers = 0;
    take(9);
    KT_INT(n_answers, 1);
    KT_INT(answer, KVS_OK);
}

static void a_command_for_which_there_is_no_memory_is_an_error(void)
{
    int sum = 0;

    commands = (dist_commands_t){.controller = control, .arg = &sum};
    n_answers = 0;
    kt_fail_alloc(0);
    take(9);
    kt_fail_alloc(-1);
    KT_INT(n_answers, 1);
    KT_INT(answer, KVS_ERR_NO_MEMORY);
    KT_HAS(text, "no memory on the server for a command");
    KT_TRUE(dist_commands_take(&commands) == NULL);
}

static void compression_is_the_workers_to_set(void)
{
    commands = (dist_commands_t){.controller = NULL};
    take(4);
    KT_INT(answer, KVS_ERR_NOT_IMPLEMENTED);
    KT_HAS(text, "every worker calls set_gradient_compression");
}

static const kt_test_t tests[] = {
    KT_TEST(the_controller_gets_what_is_kept_for_it),
    KT_TEST(without_a_controller_a_command_is_passed_over),
    KT_TEST(a_command_for_which_there_is_no_memory_is_an_error),
    KT_TEST(compression_is_the_workers_to_set),
};

KT_MAIN("command", tests)
