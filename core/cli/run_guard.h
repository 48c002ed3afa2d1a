/* SPDX-License-Identifier: Apache-2.0 */
/* run_guard.h - a small process beside `kvstore run` that kills what it has started, should it be killed
 * itself: the process groups it was told of, as soon as the pipe between them closes. */
#ifndef KVS_CLI_RUN_GUARD_H
#define KVS_CLI_RUN_GUARD_H

#include <sys/types.h>

typedef struct run_guard {
    pid_t pid;
    int pipe; /* -1: none */
} run_guard_t;

/* 0, or -1 with errno. Before any thread and any other child. */
int run_guard_start(run_guard_t *ret_guard);
void run_guard_watch(const run_guard_t *guard, pid_t group);
/* Nothing is left to be killed. */
void run_guard_end(run_guard_t *guard);

#endif
