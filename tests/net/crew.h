/* SPDX-License-Identifier: Apache-2.0 */
/* crew.h - processes of a job, each running NET_NODE with an environment of its own, told what to do
 * line by line and heard in the same way. All waits have a deadline; at the end of a test nobody may
 * be left. */
#ifndef CREW_H
#define CREW_H

#include "kt.h"

#include <stdbool.h>

#define CREW_MAX         8
#define CREW_PATIENCE_MS 15000

typedef struct crew_hand {
    int pid; /* 0: not running */
    int to, from;
    char name[64];     /* "worker 1", for messages of the test */
    const char *netns; /* the network namespace to run in; NULL: the test's own */
    char heard[65536]; /* lines, each once */
    size_t n_heard;
} crew_hand_t;

typedef struct crew {
    crew_hand_t scheduler, worker[CREW_MAX], server[CREW_MAX];
    int n_workers, n_servers;
    char address[128]; /* the scheduler's */
    const char *extra; /* environment of all: "A=1 B=2" */
} crew_t;

/* Start one process; `environment` is "A=1 B=2" and replaces all KVSTORE_ variables but KVSTORE_SHM. */
void crew_start(crew_hand_t *hand, const char *name, const char *environment);
/* Tell it a command of node_main.c. */
void crew_say(crew_hand_t *hand, const char *command, ...) KVS_PRINTF(2, 3);
/* Wait for a line that begins with `begin` and take it; the rest of it, "" and a failure of the test if
 * none comes. */
const char *crew_hear(crew_hand_t *hand, const char *begin);
/* A command, and the line with its result: "ready KVS_OK". */
const char *crew_ask(crew_hand_t *hand, const char *begin, const char *command, ...)
    KVS_PRINTF(3, 4);
/* Has it said such a line up to now? Takes nothing. */
bool crew_has_heard(crew_hand_t *hand, const char *begin);
void crew_kill(crew_hand_t *hand, int signal); /* SIGKILL: also reaped */
/* Wait until it has ended; its exit status, or 128 + signal. */
int crew_wait(crew_hand_t *hand);
/* End whoever still runs, and say so as a failure. */
void crew_clear(crew_hand_t *hand);

/* A whole job: started, each told "open" and "ready", and their answers checked. */
void crew_open(crew_t *crew, int n_workers, int n_servers, const char *extra);
/* The environment of a member. */
const char *crew_environment(const crew_t *crew, const char *role, int rank);
/* Everyone closes in good order and ends with 0; those that were killed are passed over. */
void crew_close(crew_t *crew);

#endif
