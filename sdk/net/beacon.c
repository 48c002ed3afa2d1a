/* SPDX-License-Identifier: Apache-2.0 */
/* beacon.c - the name is a hash, since job ids may be longer than a socket's name. Peers of another
 * user are not believed. */
#include "beacon.h"

#include "clock.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define ASK_AGAIN_MS 20
#define ANSWER_MS    1000
#define BACKLOG      1024

static uint64_t hash_of(const char *job_id, const char *purpose)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    const char *parts[] = {job_id, "\n", purpose};

    for (size_t i = 0; i < 3; i++) {
        for (const char *at = parts[i]; *at != '\0'; at++) { /* FNV-1a */
            hash = (hash ^ (unsigned char)*at) * UINT64_C(0x100000001b3);
        }
    }
    return hash;
}

static socklen_t name_of(const char *job_id, const char *purpose, struct sockaddr_un *ret_name)
{
    int n;

    *ret_name = (struct sockaddr_un){.sun_family = AF_UNIX};
    n = snprintf(ret_name->sun_path + 1, sizeof(ret_name->sun_path) - 1, "kvstore-net-%ld-%016llx",
                 (long)geteuid(), (unsigned long long)hash_of(job_id, purpose));
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

static int unix_socket(void)
{
    return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

kvs_status_t net_beacon_light(const char *job_id, const char *purpose, int *ret_fd)
{
    struct sockaddr_un name;
    socklen_t size = name_of(job_id, purpose, &name);
    int fd = unix_socket();
    int cause;

    if (fd >= 0 && bind(fd, (const struct sockaddr *)&name, size) == 0 &&
        listen(fd, BACKLOG) == 0) {
        *ret_fd = fd;
        return KVS_OK;
    }
    cause = errno;
    if (fd >= 0) {
        close(fd);
    }
    return kvs_fail(cause == EADDRINUSE ? KVS_ERR_EXISTS : KVS_ERR_IO,
                    "job '%s': abstract socket %s: %s", job_id, name.sun_path + 1, strerror(cause));
}

/* The process at the other end, if it is this user's; else -1. */
static int64_t peer_of(int fd)
{
    struct ucred peer = {0};
    socklen_t size = sizeof(peer);

    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == geteuid()
               ? (int64_t)peer.pid
               : -1;
}

void net_beacon_answer(int fd, const char *text)
{
    int client;

    while ((client = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0) {
        if (peer_of(client) >= 0 && send(client, text, strlen(text), MSG_NOSIGNAL) < 0) {
            kvs_log(KVS_LOG_DEBUG, "net", "a process that asked for %s is gone", text);
        }
        close(client);
    }
}

static int call(const char *job_id, const char *purpose)
{
    struct sockaddr_un name;
    socklen_t size = name_of(job_id, purpose, &name);
    int fd = unix_socket();

    if (fd >= 0 && (connect(fd, (const struct sockaddr *)&name, size) != 0 || peer_of(fd) < 0)) {
        close(fd);
        return -1;
    }
    return fd;
}

int64_t net_beacon_owner(const char *job_id, const char *purpose)
{
    int fd = call(job_id, purpose);
    int64_t owner = fd < 0 ? -1 : peer_of(fd);

    if (fd >= 0) {
        close(fd);
    }
    return owner;
}

/* What comes until the other end closes: an answer is one short text. */
static bool read_answer(int fd, int64_t deadline, char *ret_text, size_t size)
{
    struct pollfd item = {.fd = fd, .events = POLLIN};
    size_t n = 0;

    for (;;) {
        ssize_t got = recv(fd, ret_text + n, size - 1 - n, 0);

        if (got > 0) {
            n += (size_t)got;
        } else if (got == 0 || (errno != EAGAIN && errno != EINTR) || net_now() >= deadline) {
            ret_text[n] = '\0';
            return got == 0 && n > 0;
        } else {
            (void)poll(&item, 1, net_poll_ms(deadline)); /* recv says what came of it */
        }
    }
}

bool net_beacon_ask(const char *job_id, const char *purpose, int64_t deadline, char *ret_text,
                    size_t size)
{
    for (;;) {
        int fd = call(job_id, purpose);
        bool answered = fd >= 0 && read_answer(fd, net_earlier(deadline, net_deadline(ANSWER_MS)),
                                               ret_text, size);

        if (fd >= 0) {
            close(fd);
        }
        if (answered || net_now() >= deadline) {
            return answered;
        }
        (void)poll(NULL, 0, ASK_AGAIN_MS); /* nothing tells of a name that appears */
    }
}
