/* SPDX-License-Identifier: Apache-2.0 */
/* socket.h - the part of ZeroMQ that net uses; socket.c alone includes zmq.h.
 *
 * Two kinds: a listener, on which frames of many connections arrive, each with the way
 * back, on which it can be answered; and a connector to one listener. A socket is used by one thread
 * at a time: its owner's, or whoever holds its lock. Nothing here waits except net_wait. */
#ifndef NET_SOCKET_H
#define NET_SOCKET_H

#include <kvstore/net.h>

#include <stdbool.h>

typedef struct net_context net_context_t;
typedef struct net_socket net_socket_t;

/* The way back to whoever sent something to a listener, until that connection is lost. A connection that
 * is made anew has a new one: giving it the old one's name loses it now and then (libzmq 2892). */
typedef struct net_route {
    uint8_t n;
    uint8_t bytes[15];
} net_route_t;

typedef struct net_socket_options {
    uint64_t max_frame_bytes; /* a connection that sends more is closed */
    int64_t heartbeat_ms; /* of connectors; a connection silent for dead_after_ms is made anew */
    int64_t dead_after_ms;
} net_socket_options_t;

#define NET_LIBRARY_BYTES 512
/* "4.3.4, /usr/lib/libzmq.so.5" */
const char *net_library_text(char text[NET_LIBRARY_BYTES]);

kvs_status_t net_context_new(int n_io_threads, net_context_t **ret_context);
/* Waits for closed sockets to linger. NULL does nothing. */
void net_context_free(net_context_t *context);

/* Bind `host` (numeric, v6 without brackets), port 0: any. ERR_IO gives address, port and errno;
 * `ret_errno`, if not NULL, errno too. */
kvs_status_t net_listener_open(net_context_t *context, const char *host, int port,
                               const net_socket_options_t *options, net_socket_t **ret_socket,
                               int *ret_port, int *ret_errno);
/* Let connectors of this context reach it by name too. */
kvs_status_t net_listener_name(net_socket_t *socket, const char *name);
/* Connect to host and port, or, with port -1, to a named listener of the context. */
kvs_status_t net_connector_open(net_context_t *context, const char *host, int port,
                                const net_socket_options_t *options, net_socket_t **ret_socket);
/* Frames not sent yet are tried for `linger_ms`, in the background. NULL does nothing. */
void net_socket_close(net_socket_t *socket, int linger_ms);

/* A frame, empty until set or received. */
typedef struct net_frame {
    _Alignas(8) unsigned char opaque[64];
} net_frame_t;

bool net_frame_copy(net_frame_t *frame, const void *data, size_t n_bytes); /* false: no memory */
/* `release(data, hint)` runs once, on any thread, when the memory is no longer read. */
bool net_frame_lend(net_frame_t *frame, const void *data, size_t n_bytes,
                    void (*release)(void *data, void *hint), void *hint);
const void *net_frame_data(net_frame_t *frame);
size_t net_frame_size(const net_frame_t *frame);
/* `to` is uninitialised, `from` empty afterwards. */
void net_frame_move(net_frame_t *to, net_frame_t *from);
void net_frame_release(net_frame_t *frame);

/* Send the frames as one message, after `to` for listeners. They are emptied. False: not sent, as the
 * other side is not connected; frames that were lent are released. */
bool net_socket_send(net_socket_t *socket, const net_route_t *to, net_frame_t *frames, size_t n);
/* Receive a message of at most `max` frames, on a listener with its sender. Number of frames, to be
 * released; 0: nothing there. A message with more is passed over. */
size_t net_socket_receive(net_socket_t *socket, net_route_t *ret_from, net_frame_t *frames,
                          size_t max);

/* A descriptor that becomes readable when something has changed. Whoever has received until nothing was
 * there, and not sent since, may sleep on it. */
int net_socket_fd(net_socket_t *socket);

#define NET_WAIT_MAX 4

/* Sleep until one of the sockets has something to receive, one of the descriptors is readable, or
 * `timeout_ms` have passed. At most NET_WAIT_MAX of each. Bits of ready descriptors. */
unsigned net_wait(net_socket_t *const *sockets, size_t n_sockets, const int *fds, size_t n_fds,
                  int timeout_ms);

#endif
