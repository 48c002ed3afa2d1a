/* SPDX-License-Identifier: Apache-2.0 */
#include "pulse.h"

static void set(net_pulse_t *pulse, bool is_fast);

static void tick(void *arg)
{
    net_pulse_t *pulse = arg;

    if (!pulse->beat(pulse->arg, net_now()) && pulse->is_fast) {
        set(pulse, false);
    }
}

static void set(net_pulse_t *pulse, bool is_fast)
{
    int64_t period_ms = is_fast ? pulse->fast_ms : pulse->slow_ms;

    pulse->is_fast = is_fast;
    /* on this thread it can't fail */
    (void)kvs_net_node_set_tick(pulse->node, period_ms, period_ms > 0 ? tick : NULL, pulse);
}

void net_pulse_start(net_pulse_t *pulse)
{
    set(pulse, false);
}

void net_pulse_hurry(net_pulse_t *pulse)
{
    if (!pulse->is_fast) {
        set(pulse, true);
    }
}
