/* SPDX-License-Identifier: Apache-2.0 */
/* deadline.h - deadlines as pthread_cond_timedwait and pthread_cond_clockwait take them. */
#ifndef KVS_KIT_DEADLINE_H
#define KVS_KIT_DEADLINE_H

#include <stdint.h>
#include <time.h>

/* `timeout_ms`, at least 0, from now on, by CLOCK_MONOTONIC, which the wait must go by as well: the other clock
 * may be set meanwhile. */
static inline struct timespec kvs_time_after(int64_t timeout_ms)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    time.tv_sec += timeout_ms / 1000;
    time.tv_nsec += timeout_ms % 1000 * 1000000;
    time.tv_sec += time.tv_nsec / 1000000000;
    time.tv_nsec %= 1000000000;
    return time;
}

#endif
