/* SPDX-License-Identifier: Apache-2.0 */
/* A store in a forked child: every use is a state error, nothing hangs, and the parent goes on. */
#include "misuse.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static int is_state_error(kvs_status_t status)
{
    return status == KVS_ERR_STATE && strstr(kvs_last_error(), "fork") != NULL;
}

/* 0 if all is as it should be; else the number of the check that failed. */
static int use_in_child(kvs_store_t *store)
{
    float data[MISUSE_N] = {0};
    kvs_tensor_t array = kt_tensor(data, KVS_DTYPE_float32, misuse_shape, 2);
    kvs_key_t key = kvs_key_int(MISUSE_KEY);
    int number;

    if (!is_state_error(misuse_push(store, key, array))) {
        return 1;
    }
    if (!is_state_error(misuse_pull(store, key, array))) {
        return 2;
    }
    if (!is_state_error(kvs_store_wait_all(store, -1))) {
        return 3;
    }
    if (!is_state_error(kvs_store_rank(store, &number))) {
        return 4;
    }
    if (!is_state_error(kvs_store_set_updater(store, NULL, NULL))) {
        return 5;
    }
    if (strcmp(kvs_store_type(store), "local") != 0) {
        return 6;
    }
    if (!is_state_error(kvs_store_close(store))) {
        return 7;
    }
    return 0;
}

static void a_forked_child_cannot_use_the_store(void)
{
    kvs_store_t *store = misuse_open();
    int status = -1;
    pid_t child = fork();

    if (child == 0) {
        _exit(use_in_child(store));
    }
    KT_TRUE(child > 0);
    KT_INT(waitpid(child, &status, 0), child);
    KT_TRUE(WIFEXITED(status));
    KT_INT(WEXITSTATUS(status), 0);
    misuse_close_untouched(store);
}

static void a_forked_child_that_leaves_without_closing_does_no_harm(void)
{
    kvs_store_t *store = misuse_open();
    int status = -1;
    pid_t child = fork();

    if (child == 0) {
        execl("/bin/true", "true", (char *)NULL);
        _exit(1);
    }
    KT_INT(waitpid(child, &status, 0), child);
    KT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    misuse_close_untouched(store);
}

static const kt_test_t tests[] = {
    KT_TEST(a_forked_child_cannot_use_the_store),
    KT_TEST(a_forked_child_that_leaves_without_closing_does_no_harm),
};
KT_MAIN("misuse.fork", tests)
