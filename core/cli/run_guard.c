/* SPDX-License-Identifier: Apache-2.0 */
#include "run_guard.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_GROUPS 4096

static ssize_t read_pid(int fd, pid_t *ret_pid)
{
    ssize_t n;

    do {
        n = read(fd, ret_pid, sizeof(*ret_pid));
    } while (n < 0 && errno == EINTR);
    return n;
}

/* A pid of 0 says that all is done; the end of the pipe, that nobody will say so. */
static void guard(int fd)
{
    static pid_t groups[MAX_GROUPS];
    size_t n = 0;
    pid_t pid;

    while (read_pid(fd, &pid) == (ssize_t)sizeof(pid)) {
        if (pid == 0) {
            _exit(0);
        }
        if (n < MAX_GROUPS) {
            groups[n++] = pid;
        }
    }
    for (size_t i = 0; i < n; i++) {
        (void)kill(-groups[i], SIGKILL); /* it may be gone */
    }
    _exit(0);
}

int run_guard_start(run_guard_t *ret_guard)
{
    int ends[2];
    pid_t pid;

    if (pipe(ends) != 0) {
        return -1;
    }
    pid = fork();
    if (pid == 0) {
        sigset_t all;

        (void)close(ends[1]);
        (void)setsid(); /* the terminal's Ctrl-C is not for it */
        sigfillset(&all);
        (void)sigprocmask(SIG_BLOCK, &all, NULL);
        (void)prctl(PR_SET_NAME, "kvstore-guard");
        for (int fd = 0; fd < 3; fd++) {
            (void)close(fd); /* whoever reads our output is not to wait for the guard */
        }
        guard(ends[0]);
    }
    (void)close(ends[0]);
    if (pid < 0) {
        (void)close(ends[1]);
        return -1;
    }
    *ret_guard = (run_guard_t){pid, ends[1]};
    return 0;
}

void run_guard_watch(const run_guard_t *guard, pid_t group)
{
    ssize_t n;

    do {
        n = write(guard->pipe, &group, sizeof(group));
    } while (n < 0 && errno == EINTR);
}

void run_guard_end(run_guard_t *guard)
{
    if (guard->pipe >= 0) {
        run_guard_watch(guard, 0);
        (void)close(guard->pipe);
        (void)waitpid(guard->pid, NULL, 0);
        guard->pipe = -1;
    }
}
