/* SPDX-License-Identifier: Apache-2.0 */
/* liveness.h - how long somebody has been silent, not counting the time in which we ourselves did not
 * listen: a process that was stopped, or a machine that slept, must not take everyone for dead. */
#ifndef NET_LIVENESS_H
#define NET_LIVENESS_H

#include "clock.h"

#include <stdbool.h>

typedef struct net_liveness {
    int64_t looked; /* when we looked last; begins as net_now() */
} net_liveness_t;

/* We listen now, and mean to again within `period_ns`. Gives by how much we are late: to be added to
 * whatever was heard last, of anyone. */
static inline int64_t net_liveness_look(net_liveness_t *liveness, int64_t now, int64_t period_ns)
{
    int64_t late = now - liveness->looked - period_ns;

    liveness->looked = now;
    return late > 0 ? late : 0;
}

static inline bool net_is_silent(int64_t heard, int64_t now, int64_t dead_after_ns)
{
    return now - heard > dead_after_ns;
}

#endif
