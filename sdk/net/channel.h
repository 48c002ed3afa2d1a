/* SPDX-License-Identifier: Apache-2.0 */
/* channel.h - one end of the control connection between a node and the scheduler: numbered frames in
 * order, once, although the connection may be made anew. Beats carry what was sent and received last,
 * and so bring losses to light. Used by one thread; `transmit` puts a frame on the socket, and may
 * lose it. */
#ifndef NET_CHANNEL_H
#define NET_CHANNEL_H

#include "link.h"
#include "wire.h"

typedef struct net_channel {
    uint64_t link; /* what this end calls its connection */
    net_outlink_t out;
    net_inlink_t in;
    int64_t heard; /* net_now() of the last frame */
    void (*transmit)(void *arg, const void *frame, size_t n_bytes);
    void *arg;
} net_channel_t;

/* A frame to be sent later, by net_channel_send_record; NULL: no memory. */
net_record_t *net_channel_encode(const net_wire_t *wire, const net_wire_lists_t *lists);
void net_channel_send_record(net_channel_t *channel, net_record_t *record);
/* Send as the next numbered frame. ERR_NO_MEMORY. */
kvs_status_t net_channel_send(net_channel_t *channel, const net_wire_t *wire,
                              const net_wire_lists_t *lists);
/* Send once, unnumbered: it may be lost. */
void net_channel_post(net_channel_t *channel, const net_wire_t *wire,
                      const net_wire_lists_t *lists);
void net_channel_beat(net_channel_t *channel);

/* A decoded frame has come. `ret_deliver`: it is for the caller. ERR_FORMAT: its numbers can't be. */
kvs_status_t net_channel_receive(net_channel_t *channel, const net_wire_t *wire, bool *ret_deliver);
void net_channel_release(net_channel_t *channel);

#endif
