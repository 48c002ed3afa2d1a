/* SPDX-License-Identifier: Apache-2.0 */
/* Writing where the system's answer is a signal: only an errno is left of it. */
#include "quietly.h"
#include "kt.h"
#include "threads.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

static int is_pending(int number)
{
    sigset_t pending;

    sigpending(&pending);
    return sigismember(&pending, number);
}

static int is_blocked(int number)
{
    sigset_t blocked;

    pthread_sigmask(SIG_BLOCK, NULL, &blocked);
    return sigismember(&blocked, number);
}

/* In a child, which the signal would end: 0, or the number of what is wrong. */
static int write_past_the_limit(void)
{
    static char data[8192];
    const struct rlimit limit = {4096, 4096};
    int fd = open("limited", O_WRONLY | O_CREAT | O_TRUNC, 0600);

    if (fd < 0 || setrlimit(RLIMIT_FSIZE, &limit) != 0) {
        return 1;
    }
    if (kvsi_write_quietly(fd, data, sizeof(data), -1) != 4096) {
        return 2;
    }
    if (kvsi_write_quietly(fd, data, sizeof(data), -1) != -1 || errno != EFBIG) {
        return 3;
    }
    if (kvsi_write_quietly(fd, data, 10, 4096) != -1 || errno != EFBIG) {
        return 4;
    }
    return is_pending(SIGXFSZ) || is_blocked(SIGXFSZ) ? 5 : 0;
}

static int write_to_nobody(void)
{
    int fds[2];

    if (pipe(fds) != 0) {
        return 1;
    }
    close(fds[0]);
    if (kvsi_write_quietly(fds[1], "x", 1, -1) != -1 || errno != EPIPE) {
        return 2;
    }
    return is_pending(SIGPIPE) || is_blocked(SIGPIPE) ? 3 : 0;
}

static int keep_what_was_pending(void)
{
    sigset_t set;
    int fds[2];

    sigemptyset(&set);
    sigaddset(&set, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    raise(SIGPIPE);
    if (pipe(fds) != 0) {
        return 1;
    }
    close(fds[0]);
    (void)kvsi_write_quietly(fds[1], "x", 1, -1);
    return is_pending(SIGPIPE) && is_blocked(SIGPIPE) ? 0 : 2;
}

static int in_child(int (*run)(void))
{
    pid_t child;

    fflush(NULL);
    child = fork();
    if (child == 0) {
        _exit(run());
    }
    return kt_wait_child(child);
}

static void a_limit_of_file_sizes_is_an_error(void)
{
    KT_INT(in_child(write_past_the_limit), 0);
}

static void a_pipe_that_nobody_reads_is_an_error(void)
{
    KT_INT(in_child(write_to_nobody), 0);
}

static void a_signal_that_waited_before_still_waits(void)
{
    KT_INT(in_child(keep_what_was_pending), 0);
}

static const kt_test_t tests[] = {
    KT_TEST(a_limit_of_file_sizes_is_an_error),
    KT_TEST(a_pipe_that_nobody_reads_is_an_error),
    KT_TEST(a_signal_that_waited_before_still_waits),
};
KT_MAIN("quietly", tests)
