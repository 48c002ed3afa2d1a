/* SPDX-License-Identifier: Apache-2.0 */
/* pulse.h - a node's tick that is fast while something is pending, and slow or silent while nothing is. The
 * I/O thread's. */
#ifndef NET_PULSE_H
#define NET_PULSE_H

#include "clock.h"

#include <kvstore/net.h>

#include <stdbool.h>

typedef struct net_pulse {
    kvs_net_node_t *node;
    int64_t slow_ms, fast_ms;                /* slow 0: silent */
    bool (*beat)(void *arg, int64_t now_ns); /* false: nothing is pending */
    void *arg;
    bool is_fast;
} net_pulse_t;

void net_pulse_start(net_pulse_t *pulse); /* slowly */
void net_pulse_hurry(net_pulse_t *pulse);

#endif
