/* SPDX-License-Identifier: Apache-2.0 */
/* wake.h - an eventfd by which other threads, and signal handlers, wake an I/O thread. */
#ifndef NET_WAKE_H
#define NET_WAKE_H

#include <kvstore/net.h>

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

static inline kvs_status_t net_wake_open(int *ret_fd)
{
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

    if (fd < 0) {
        return kvs_fail(KVS_ERR_IO, "no eventfd: %s", strerror(errno));
    }
    *ret_fd = fd;
    return KVS_OK;
}

static inline void net_wake_ring(int fd)
{
    uint64_t one = 1;

    if (write(fd, &one, sizeof(one)) < 0) {
        return; /* full: it rings already */
    }
}

static inline void net_wake_clear(int fd)
{
    uint64_t count;

    if (read(fd, &count, sizeof(count)) < 0) {
        return; /* it did not ring */
    }
}

#endif
