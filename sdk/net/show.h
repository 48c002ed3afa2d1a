/* SPDX-License-Identifier: Apache-2.0 */
/* show.h - what goes on in a process, for `kvstore status`: asked on a window's thread, written down on the
 * one thread that knows, within a deadline. */
#ifndef NET_SHOW_H
#define NET_SHOW_H

#include <kvstore/net.h>

#include <stdio.h>

typedef struct net_show net_show_t;

typedef struct net_show_args {
    const char *job_id;
    const char *who; /* "server": for the line that says it is busy */
    /* Have net_show_answer(show) called soon, on the thread that knows. */
    void (*ring)(void *arg, net_show_t *show);
    /* There: write lines, the first beginning with "job ID: ". */
    void (*write)(void *arg, FILE *out);
    void *arg;
} net_show_args_t;

/* NULL: it can't be shown, as the log says. */
net_show_t *net_show_open(const net_show_args_t *args);
void net_show_answer(net_show_t *show); /* NULL does nothing */
/* Nobody asks any more. Free it when nobody answers any more either. NULL does nothing. */
void net_show_close(net_show_t *show);
void net_show_free(net_show_t *show);

/* "  memory: 12.3 MB resident" of this process, without a newline. */
void net_show_memory(FILE *out);

#endif
