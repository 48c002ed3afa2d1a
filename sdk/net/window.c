/* SPDX-License-Identifier: Apache-2.0 */
/* window.c - a process shows what it does to whoever asks on its host: an abstract socket whose name
 * holds user and process, so that asking needs no address (`kvstore status`); one thread, asleep until
 * somebody comes. Only the same user is answered. */

#include <kvstore/net.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define WRITE_MS 1000
#define AGAIN_MS 50

struct kvs_net_window {
    int fd, end_fd;
    char *(*look)(void *arg);
    void *arg;
    pthread_t thread;
};

static socklen_t name_of(unsigned number, struct sockaddr_un *ret_name)
{
    int n;

    *ret_name = (struct sockaddr_un){.sun_family = AF_UNIX};
    n = snprintf(ret_name->sun_path + 1, sizeof(ret_name->sun_path) - 1,
                 "kvstore-status-%ld-%ld-%u", (long)geteuid(), (long)getpid(), number);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

static bool is_own_user(int fd)
{
    struct ucred peer = {0};
    socklen_t size = sizeof(peer);

    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == geteuid();
}

/* Whoever does not read is left alone. */
static void write_all(int fd, const char *text)
{
    size_t n = strlen(text);

    while (n > 0) {
        ssize_t sent = send(fd, text, n, MSG_NOSIGNAL);

        if (sent >= 0) {
            text += sent;
            n -= (size_t)sent;
        } else if (errno == EAGAIN) {
            struct pollfd item = {.fd = fd, .events = POLLOUT};

            if (poll(&item, 1, WRITE_MS) <= 0) {
                return;
            }
        } else if (errno != EINTR) {
            return;
        }
    }
}

static void answer(kvs_net_window_t *window)
{
    int client = accept4(window->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    char *text;

    if (client < 0) {
        (void)poll(NULL, 0, AGAIN_MS); /* too many open files, say: the next time finds it again */
        return;
    }
    text = is_own_user(client) ? window->look(window->arg) : NULL;
    if (text != NULL) {
        write_all(client, text);
    }
    free(text);
    close(client);
}

static void *serve(void *arg)
{
    kvs_net_window_t *window = arg;
    struct pollfd items[2] = {{.fd = window->fd, .events = POLLIN},
                              {.fd = window->end_fd, .events = POLLIN}};

    while (items[1].revents == 0) {
        if (poll(items, 2, -1) > 0 && items[1].revents == 0 && items[0].revents != 0) {
            answer(window);
        }
    }
    return NULL;
}

static void free_window(kvs_net_window_t *window)
{
    if (window->fd >= 0) {
        close(window->fd);
    }
    if (window->end_fd >= 0) {
        close(window->end_fd);
    }
    free(window);
}

kvs_status_t kvs_net_window_open(char *(*look)(void *arg), void *arg, kvs_net_window_t **ret_window)
{
    static _Atomic unsigned number;
    kvs_net_window_t *window = calloc(1, sizeof(*window));
    struct sockaddr_un name;
    socklen_t size = name_of(++number, &name);
    int error = ENOMEM;

    if (window == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory to show what goes on");
    }
    window->look = look;
    window->arg = arg;
    window->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    window->end_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (window->fd < 0 || window->end_fd < 0 ||
        bind(window->fd, (const struct sockaddr *)&name, size) != 0 || listen(window->fd, 8) != 0) {
        error = errno;
    } else {
        error = pthread_create(&window->thread, NULL, serve, window);
    }
    if (error != 0) {
        free_window(window);
        return kvs_fail(KVS_ERR_IO, "abstract socket %s: %s", name.sun_path + 1, strerror(error));
    }
    *ret_window = window;
    return KVS_OK;
}

void kvs_net_window_close(kvs_net_window_t *window)
{
    uint64_t one = 1;

    if (window == NULL) {
        return;
    }
    while (write(window->end_fd, &one, sizeof(one)) < 0 && errno == EINTR) {
    }
    pthread_join(window->thread, NULL);
    free_window(window);
}
