/* SPDX-License-Identifier: Apache-2.0 */
/* futex.h - sleep until a 32-bit word changes: Linux's futex, which needs no object to be set up or
 * destroyed, and whose wake may be called in a signal handler. */
#ifndef KVSI_FUTEX_H
#define KVSI_FUTEX_H

#include <linux/futex.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static inline int64_t kvsi_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Sleep while *word is `seen`, at most until `deadline_ns` of the monotonic clock (INT64_MAX: no
 * end). Also returns without cause: the caller looks again. */
static inline void kvsi_futex_wait(_Atomic uint32_t *word, uint32_t seen, int64_t deadline_ns)
{
    struct timespec until = {deadline_ns / 1000000000, deadline_ns % 1000000000};

    syscall(SYS_futex, word, FUTEX_WAIT_BITSET_PRIVATE, seen,
            deadline_ns == INT64_MAX ? NULL : &until, NULL, FUTEX_BITSET_MATCH_ANY);
}

static inline void kvsi_futex_wake(_Atomic uint32_t *word, int n_waiters)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, n_waiters, NULL, NULL, 0);
}

#endif
