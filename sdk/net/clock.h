/* SPDX-License-Identifier: Apache-2.0 */
/* clock.h - nanoseconds of the monotonic clock, and deadlines on it. */
#ifndef NET_CLOCK_H
#define NET_CLOCK_H

#include <pthread.h>
#include <stdint.h>
#include <time.h>

#define NET_NEVER INT64_MAX /* a deadline that does not come */
#define NET_MS    INT64_C(1000000)

static inline int64_t net_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* `timeout_ms` from now on; negative: never. */
static inline int64_t net_deadline(int64_t timeout_ms)
{
    return timeout_ms < 0 || timeout_ms > NET_NEVER / NET_MS / 2 ? NET_NEVER
                                                                 : net_now() + timeout_ms * NET_MS;
}

static inline int64_t net_earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Milliseconds until `deadline`, rounded up, at most a minute: for poll, which is then called again. */
static inline int net_poll_ms(int64_t deadline)
{
    int64_t left = deadline - net_now();

    if (left <= 0) {
        return 0;
    }
    left = (left + NET_MS - 1) / NET_MS;
    return left < 60000 ? (int)left : 60000;
}

static inline void net_cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t attributes;

    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(cond, &attributes);
    pthread_condattr_destroy(&attributes);
}

/* Wait for a signal or the deadline; the caller looks at the clock itself. */
static inline void net_cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock, int64_t deadline)
{
    struct timespec until = {deadline / 1000000000, deadline % 1000000000};

    if (deadline == NET_NEVER) {
        pthread_cond_wait(cond, lock);
    } else {
        pthread_cond_timedwait(cond, lock, &until);
    }
}

#endif
