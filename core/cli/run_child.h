/* SPDX-License-Identifier: Apache-2.0 */
/* run_child.h - one process of `kvstore run`: started with its role's environment in a process group of
 * its own, its output passed on line by line with its name in front. */
#ifndef KVS_CLI_RUN_CHILD_H
#define KVS_CLI_RUN_CHILD_H

#include <stddef.h>
#include <sys/types.h>

#define RUN_LINE_BYTES 4096 /* longer lines are passed on in pieces */

/* Output on its way. */
typedef struct run_stream {
    int fd; /* -1: closed */
    size_t n;
    char line[RUN_LINE_BYTES];
} run_stream_t;

typedef struct run_child {
    char name[32]; /* "worker 1" */
    const char *role;
    int rank;
    pid_t pid;     /* also of its group; 0: never started */
    int is_reaped; /* `status` is known */
    int has_ended; /* and what follows from it done */
    int status;    /* as waitpid gives it */
    run_stream_t out, err;
} run_child_t;

/* What all processes of a job are told. */
typedef struct run_job {
    const char *backend;
    int n_workers, n_servers;
    char scheduler[300]; /* host:port */
    char job_id[128];
} run_job_t;

/* Start `argv` in the role, and rank, of `child`. `kept_fd` stays open in it; -1: none. 0, or -1 with
 * errno. */
int run_child_start(run_child_t *child, const run_job_t *job, char *const *argv, int kept_fd);
/* Pass on what has come on the stream that is `to`; closes it at its end. */
void run_child_pass_on(run_child_t *child, run_stream_t *stream, int to);
/* The child has ended: pass on what is left, without waiting for others who hold its pipes. */
void run_child_drain(run_child_t *child);
/* As a shell would give it: 128 + the signal that killed it. */
int run_child_exit_status(const run_child_t *child);

#endif
