/* SPDX-License-Identifier: Apache-2.0 */
/* socket.c - ROUTER and DEALER of plain libzmq (czmq installs signal handlers). Every socket gets its
 * options before it binds or connects. */
#include "socket.h"

#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

_Static_assert(sizeof(net_frame_t) == sizeof(zmq_msg_t), "a frame is a zmq_msg_t");

#define MAX_WAITING      4096 /* messages received and not taken, of one connection */
#define RECONNECT_MS     100
#define MAX_RECONNECT_MS 1000

/* Within a process a frame's memory changes threads by atomics inside libzmq, which TSan does not see. */
#ifdef __SANITIZE_THREAD__
void __tsan_acquire(void *address);
void __tsan_release(void *address);
#else
#define __tsan_acquire(address) ((void)(address))
#define __tsan_release(address) ((void)(address))
#endif

static zmq_msg_t *msg(net_frame_t *frame)
{
    return (zmq_msg_t *)(void *)frame->opaque;
}

const char *net_library_text(char text[NET_LIBRARY_BYTES])
{
    int major, minor, patch;
    Dl_info file = {0};

    zmq_version(&major, &minor, &patch);
    (void)dladdr((void *)(uintptr_t)zmq_version, &file); /* what isn't found is left out */
    snprintf(text, NET_LIBRARY_BYTES, "%d.%d.%d%s%s", major, minor, patch,
             file.dli_fname != NULL ? ", " : "", file.dli_fname != NULL ? file.dli_fname : "");
    return text;
}

kvs_status_t net_context_new(int n_io_threads, net_context_t **ret_context)
{
    void *context = zmq_ctx_new();

    if (context == NULL) {
        return kvs_fail(KVS_ERR_IO, "ZeroMQ: no context: %s", zmq_strerror(errno));
    }
    (void)zmq_ctx_set(context, ZMQ_IO_THREADS, n_io_threads); /* 1 is the least that is asked for */
    (void)zmq_ctx_set(context, ZMQ_MAX_SOCKETS, zmq_ctx_get(context, ZMQ_SOCKET_LIMIT));
    *ret_context = context;
    return KVS_OK;
}

void net_context_free(net_context_t *context)
{
    while (context != NULL && zmq_ctx_term(context) != 0 && errno == EINTR) {
    }
}

static bool set_int(void *socket, int option, int64_t value)
{
    int number = value > INT32_MAX ? INT32_MAX : (int)value;

    return zmq_setsockopt(socket, option, &number, sizeof(number)) == 0;
}

static bool set_common(void *socket, const net_socket_options_t *options)
{
    int64_t max = options->max_frame_bytes > INT64_MAX ? -1 : (int64_t)options->max_frame_bytes;

    return set_int(socket, ZMQ_LINGER, 0) && set_int(socket, ZMQ_IPV6, 1) &&
           set_int(socket, ZMQ_SNDHWM, 0) && set_int(socket, ZMQ_RCVHWM, MAX_WAITING) &&
           zmq_setsockopt(socket, ZMQ_MAXMSGSIZE, &max, sizeof(max)) == 0 &&
           set_int(socket, ZMQ_HANDSHAKE_IVL, options->dead_after_ms);
}

/* Only whoever has connected looks whether the other side is there. Of a listener's connections one may be
 * full of what waits when its peer goes: ZeroMQ would abort at its next heartbeat. */
static bool set_heartbeat(void *socket, const net_socket_options_t *options)
{
    return set_int(socket, ZMQ_HEARTBEAT_IVL, options->heartbeat_ms) &&
           set_int(socket, ZMQ_HEARTBEAT_TIMEOUT, options->dead_after_ms);
}

static kvs_status_t open_socket(net_context_t *context, int type,
                                const net_socket_options_t *options, void **ret_socket)
{
    void *socket = zmq_socket(context, type);

    if (socket == NULL) {
        return kvs_fail(KVS_ERR_IO, "ZeroMQ: no socket: %s", zmq_strerror(errno));
    }
    if (!set_common(socket, options)) {
        int cause = errno;

        zmq_close(socket);
        return kvs_fail(KVS_ERR_IO, "ZeroMQ: a socket's options: %s", zmq_strerror(cause));
    }
    *ret_socket = socket;
    return KVS_OK;
}

static void endpoint_of(char *text, size_t size, const char *host, int port)
{
    if (port < 0) {
        snprintf(text, size, "inproc://%s", host);
    } else if (strchr(host, ':') != NULL) {
        snprintf(text, size, "tcp://[%s]:%d", host, port);
    } else {
        snprintf(text, size, "tcp://%s:%d", host, port);
    }
}

static int bound_port(void *socket)
{
    char endpoint[300] = "";
    size_t size = sizeof(endpoint);
    const char *colon;

    if (zmq_getsockopt(socket, ZMQ_LAST_ENDPOINT, endpoint, &size) != 0) {
        return -1;
    }
    colon = strrchr(endpoint, ':');
    return colon == NULL ? -1 : atoi(colon + 1);
}

kvs_status_t net_listener_open(net_context_t *context, const char *host, int port,
                               const net_socket_options_t *options, net_socket_t **ret_socket,
                               int *ret_port, int *ret_errno)
{
    char endpoint[300];
    void *socket;
    kvs_status_t status = open_socket(context, ZMQ_ROUTER, options, &socket);

    if (status != KVS_OK) {
        return status;
    }
    endpoint_of(endpoint, sizeof(endpoint), host, port);
    if (!set_int(socket, ZMQ_ROUTER_MANDATORY, 1) || zmq_bind(socket, endpoint) != 0) {
        int cause = errno;

        zmq_close(socket);
        if (ret_errno != NULL) {
            *ret_errno = cause;
        }
        return kvs_fail(KVS_ERR_IO, "cannot listen on %s port %d: %s (errno %d)", host, port,
                        zmq_strerror(cause), cause);
    }
    *ret_port = bound_port(socket);
    *ret_socket = socket;
    return KVS_OK;
}

kvs_status_t net_listener_name(net_socket_t *socket, const char *name)
{
    char endpoint[300];

    endpoint_of(endpoint, sizeof(endpoint), name, -1);
    if (zmq_bind(socket, endpoint) != 0) {
        return kvs_fail(KVS_ERR_IO, "cannot listen on %s: %s", endpoint, zmq_strerror(errno));
    }
    return KVS_OK;
}

kvs_status_t net_connector_open(net_context_t *context, const char *host, int port,
                                const net_socket_options_t *options, net_socket_t **ret_socket)
{
    char endpoint[300];
    void *socket;
    kvs_status_t status = open_socket(context, ZMQ_DEALER, options, &socket);

    if (status != KVS_OK) {
        return status;
    }
    endpoint_of(endpoint, sizeof(endpoint), host, port);
    if (!set_heartbeat(socket, options) || !set_int(socket, ZMQ_RECONNECT_IVL, RECONNECT_MS) ||
        !set_int(socket, ZMQ_RECONNECT_IVL_MAX, MAX_RECONNECT_MS) ||
        zmq_connect(socket, endpoint) != 0) {
        int cause = errno;

        zmq_close(socket);
        return kvs_fail(KVS_ERR_IO, "cannot connect to %s port %d: %s (errno %d)", host, port,
                        zmq_strerror(cause), cause);
    }
    *ret_socket = socket;
    return KVS_OK;
}

void net_socket_close(net_socket_t *socket, int linger_ms)
{
    if (socket != NULL) {
        (void)set_int(socket, ZMQ_LINGER, linger_ms);
        zmq_close(socket);
    }
}

/* ---- Frames ---------------------------------------------------------------------------------- */

bool net_frame_copy(net_frame_t *frame, const void *data, size_t n_bytes)
{
    if (zmq_msg_init_size(msg(frame), n_bytes) != 0) {
        return false;
    }
    if (n_bytes != 0) {
        memcpy(zmq_msg_data(msg(frame)), data, n_bytes);
    }
    return true;
}

bool net_frame_lend(net_frame_t *frame, const void *data, size_t n_bytes,
                    void (*release)(void *data, void *hint), void *hint)
{
    /* ZeroMQ only reads what is lent; its interface has no const. */
    return zmq_msg_init_data(msg(frame), (void *)(uintptr_t)data, n_bytes, release, hint) == 0;
}

const void *net_frame_data(net_frame_t *frame)
{
    return zmq_msg_data(msg(frame));
}

size_t net_frame_size(const net_frame_t *frame)
{
    return zmq_msg_size((const zmq_msg_t *)(const void *)frame->opaque);
}

void net_frame_move(net_frame_t *to, net_frame_t *from)
{
    zmq_msg_init(msg(to));
    (void)zmq_msg_move(msg(to), msg(from)); /* fails only for what is no frame */
}

void net_frame_release(net_frame_t *frame)
{
    (void)zmq_msg_close(msg(frame)); /* fails only for what is no frame */
}

static bool send_one(void *socket, net_frame_t *frame, bool more)
{
    __tsan_release(zmq_msg_data(msg(frame)));
    return zmq_msg_send(msg(frame), socket, ZMQ_DONTWAIT | (more ? ZMQ_SNDMORE : 0)) >= 0;
}

bool net_socket_send(net_socket_t *socket, const net_route_t *to, net_frame_t *frames, size_t n)
{
    bool sent = to == NULL || zmq_send(socket, to->bytes, to->n, ZMQ_DONTWAIT | ZMQ_SNDMORE) >= 0;

    for (size_t i = 0; i < n; i++) {
        sent = sent && send_one(socket, &frames[i], i + 1 < n);
        if (!sent) {
            net_frame_release(&frames[i]);
        }
    }
    return sent;
}

static bool has_more(net_frame_t *frame)
{
    return zmq_msg_more(msg(frame)) != 0;
}

static bool receive_one(void *socket, net_frame_t *frame)
{
    zmq_msg_init(msg(frame));
    if (zmq_msg_recv(msg(frame), socket, ZMQ_DONTWAIT) >= 0) {
        __tsan_acquire(zmq_msg_data(msg(frame)));
        return true;
    }
    net_frame_release(frame);
    return false;
}

static void pass_over(void *socket, bool more)
{
    net_frame_t frame;

    while (more && receive_one(socket, &frame)) {
        more = has_more(&frame);
        net_frame_release(&frame);
    }
}

/* ZeroMQ's own names for connections are of 5 bytes; longer ones are none of ours. */
static bool take_route(net_frame_t *frame, net_route_t *ret_from)
{
    size_t n = net_frame_size(frame);

    if (n > sizeof(ret_from->bytes)) {
        return false;
    }
    *ret_from = (net_route_t){.n = (uint8_t)n};
    memcpy(ret_from->bytes, net_frame_data(frame), n);
    return true;
}

/* The frames of the message that is next: their number; 0: nothing there; max + 1: not one of ours. */
static size_t receive_message(void *socket, net_route_t *ret_from, net_frame_t *frames, size_t max)
{
    net_frame_t frame;
    size_t n = 0;
    bool more = true, ours = true;

    if (ret_from != NULL) {
        if (!receive_one(socket, &frame)) {
            return 0;
        }
        ours = take_route(&frame, ret_from);
        more = has_more(&frame);
        net_frame_release(&frame);
    }
    while (ours && more && n < max) {
        if (!receive_one(socket, &frames[n])) {
            break;
        }
        more = has_more(&frames[n++]);
    }
    if (ours && n == 0 && ret_from == NULL) {
        return 0;
    }
    if (ours && n > 0 && !more) {
        return n;
    }
    while (n > 0) {
        net_frame_release(&frames[--n]);
    }
    pass_over(socket, more);
    return max + 1;
}

size_t net_socket_receive(net_socket_t *socket, net_route_t *ret_from, net_frame_t *frames,
                          size_t max)
{
    size_t n;

    do {
        n = receive_message(socket, ret_from, frames, max);
    } while (n > max);
    return n;
}

static bool has_input(net_socket_t *socket)
{
    int events = 0;
    size_t size = sizeof(events);

    return zmq_getsockopt(socket, ZMQ_EVENTS, &events, &size) == 0 && (events & ZMQ_POLLIN) != 0;
}

int net_socket_fd(net_socket_t *socket)
{
    int fd = -1;
    size_t size = sizeof(fd);

    return zmq_getsockopt(socket, ZMQ_FD, &fd, &size) == 0 ? fd : -1;
}

/* Not zmq_poll, which polls twice. A socket's descriptor tells of changes only, so the socket itself is
 * asked first. */
unsigned net_wait(net_socket_t *const *sockets, size_t n_sockets, const int *fds, size_t n_fds,
                  int timeout_ms)
{
    struct pollfd items[2 * NET_WAIT_MAX];
    size_t n = 0;
    unsigned ready = 0;

    for (size_t i = 0; i < n_fds; i++) {
        items[n++] = (struct pollfd){.fd = fds[i], .events = POLLIN};
    }
    for (size_t i = 0; i < n_sockets; i++) {
        timeout_ms = has_input(sockets[i]) ? 0 : timeout_ms;
        items[n++] = (struct pollfd){.fd = net_socket_fd(sockets[i]), .events = POLLIN};
    }
    if (poll(items, n, timeout_ms) > 0) {
        for (size_t i = 0; i < n_fds; i++) {
            ready |= items[i].revents != 0 ? 1u << i : 0;
        }
    }
    return ready;
}
