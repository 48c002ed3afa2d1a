/* SPDX-License-Identifier: Apache-2.0 */
/* A server with a controller of its own: a job of three processes, forked before any of them has a store. */
#include "kt.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static int announced[2]; /* a pipe: the scheduler's address */

static kvs_store_t *open_as(const char *role, const char *scheduler, const char *announce)
{
    const kvs_option_t options[] = {{"role", role},           {"rank", "0"},
                                    {"num_workers", "1"},     {"num_servers", "1"},
                                    {"scheduler", scheduler}, {"announce", announce}};
    kvs_store_t *store = NULL;

    if (kvs_store_create("dist_sync", options, 6, &store) != KVS_OK) {
        fprintf(stderr, "%s: %s\n", role, kvs_last_error());
        _exit(2);
    }
    return store;
}

/* What it has been told shows in what it answers. */
static kvs_status_t control(int head, const void *body, size_t n_bytes, void *arg)
{
    int *n_calls = arg;

    ++*n_calls;
    if (head == 100) {
        return kvs_fail(KVS_ERR_RANGE, "call %d: head %d, body '%.*s'", *n_calls, head,
                        (int)n_bytes, (const char *)body);
    }
    return head == 101 ? KVS_ERR_RANGE : KVS_OK;
}

static pid_t start(const char *role, const char *scheduler, const char *announce)
{
    pid_t child = fork();

    if (child == 0) {
        kvs_store_t *store = open_as(role, scheduler, announce);
        int n_calls = 0;
        kvs_status_t status = strcmp(role, "server") == 0
                                  ? kvs_store_set_controller(store, control, &n_calls)
                                  : KVS_OK;

        status = status == KVS_OK ? kvs_store_run_server(store) : status;
        _exit(status == KVS_OK ? 0 : 1);
    }
    return child;
}

static void commands_reach_the_controller_in_order(void)
{
    char announce[64], address[128] = "";
    pid_t scheduler, server;
    kvs_store_t *store;
    ssize_t n;

    KT_INT(pipe(announced), 0);
    snprintf(announce, sizeof(announce), "/proc/self/fd/%d", announced[1]);
    scheduler = start("scheduler", "127.0.0.1:0", announce);
    n = read(announced[0], address, sizeof(address) - 1);
    KT_TRUE(n > 1);
    address[n > 0 ? n - 1 : 0] = '\0'; /* the newline */
    server = start("server", address, "");
    store = open_as("worker", address, "");
    KT_OK(kvs_store_send_command_to_servers(store, 0, "pickled", 7));
    KT_FAIL(kvs_store_send_command_to_servers(store, 100, "hello", 5), KVS_ERR_RANGE,
            "send_command_to_servers: call 2: head 100, body 'hello'");
    KT_OK(kvs_store_send_command_to_servers(store, 77, NULL, 0));
    KT_OK(kvs_store_send_command_to_servers(store, 3, "", 0)); /* not for it */
    KT_FAIL(kvs_store_send_command_to_servers(store, 100, "", 0), KVS_ERR_RANGE, "call 4: ");
    KT_FAIL(kvs_store_send_command_to_servers(store, 101, "", 0), KVS_ERR_RANGE,
            "send_command_to_servers: the controller of server 0 has refused command 101");
    KT_FAIL(kvs_store_set_controller(store, control, NULL), KVS_ERR_STATE, "worker");
    KT_OK(kvs_store_close(store));
    /* this process's part in the job ends with it: the others would wait for that */
    kill(server, SIGKILL);
    kill(scheduler, SIGKILL);
    (void)waitpid(server, NULL, 0);
    (void)waitpid(scheduler, NULL, 0);
}

static const kt_test_t tests[] = {
    KT_TEST(commands_reach_the_controller_in_order),
};

KT_MAIN("controller", tests)
