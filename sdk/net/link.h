/* SPDX-License-Identifier: Apache-2.0 */
/* link.h - frames in order, once, over a connection that may lose some when it is made anew.
 *
 * The sender numbers its frames from 1 and keeps them until they are acknowledged; the receiver takes
 * number after number. A gap is answered by a request to send again from there; a number that came
 * before is a replay, unless something was sent again. No sockets, no locks: the caller locks. */
#ifndef NET_LINK_H
#define NET_LINK_H

#include <kvstore/net.h>

#include <stdatomic.h>
#include <stdbool.h>

/* A numbered frame, kept until it is acknowledged; freed when nobody holds it any more. */
typedef struct net_record {
    struct net_record *next;
    uint64_t seq;
    _Atomic int holds; /* the link's, and one for each frame of ZeroMQ that points into it */
    uint8_t *frame;
    size_t n_frame;
    const void *body; /* a second frame, of `n_body` bytes, if not 0 */
    size_t n_body;
    bool by_ring;                    /* it went through memory, and is never sent again */
    uint32_t n_header, store, flags; /* of a message that waits for its way */
    size_t n_inline; /* bytes of its body at the end of the frame; 0: it is `body` */
    void *owner;     /* the node that finishes it */
    void (*done)(void *arg, kvs_status_t status, const char *text);
    void *arg;
    kvs_status_t status; /* of done; set before the link's hold is given up */
    const char *text;
} net_record_t;

/* A record with room for `n_frame` bytes of its own; NULL: no memory. */
net_record_t *net_record_new(size_t n_frame);
size_t net_record_bytes(const net_record_t *record);
/* Give up a hold; true if it was the last: the caller then ends the record. */
bool net_record_drop(net_record_t *record);

/* The sender's half. */
typedef struct net_outlink {
    net_record_t *first, *last; /* not acknowledged yet, ascending */
    uint64_t n_sent;            /* number of the last frame */
    uint64_t n_acked;
    uint64_t n_bytes; /* of the records */
} net_outlink_t;

/* Number the record and keep it. */
void net_outlink_add(net_outlink_t *link, net_record_t *record);
/* Take out, in order, what `ack` acknowledges; NULL if nothing. `ret_valid` false: it acknowledges what
 * was never sent. */
net_record_t *net_outlink_acknowledge(net_outlink_t *link, uint64_t ack, bool *ret_valid);
/* Take out everything. */
net_record_t *net_outlink_empty(net_outlink_t *link);

/* The receiver's half. `n_received` and `n_told` are also read and written by senders of the other
 * direction, who carry acknowledgements along: relaxed, as a stale one only costs an extra frame. */
typedef struct net_inlink {
    _Atomic uint64_t n_received; /* everything up to this number has come */
    _Atomic uint64_t n_told;     /* acknowledged up to here */
    bool resend_asked;           /* for what follows n_received */
    bool resent_before;          /* repeats are then legal */
} net_inlink_t;

typedef enum net_verdict {
    NET_TAKE,  /* the next one */
    NET_DROP,  /* come before, by our own request */
    NET_GAP,   /* some are missing: ask for them, unless asked before */
    NET_REPLAY /* come before, though nobody asked */
} net_verdict_t;

net_verdict_t net_inlink_judge(net_inlink_t *link, uint64_t seq);
/* Whether to ask for a resend now: once for each gap, and again after net_inlink_forget. */
bool net_inlink_ask(net_inlink_t *link);
void net_inlink_forget(net_inlink_t *link);

static inline uint64_t net_inlink_received(const net_inlink_t *link)
{
    return atomic_load_explicit(&link->n_received, memory_order_relaxed);
}

/* What to acknowledge in a frame that goes the other way now. */
static inline uint64_t net_inlink_tell(net_inlink_t *link)
{
    uint64_t received = net_inlink_received(link);

    atomic_store_explicit(&link->n_told, received, memory_order_relaxed);
    return received;
}

static inline bool net_inlink_owes(const net_inlink_t *link)
{
    return net_inlink_received(link) > atomic_load_explicit(&link->n_told, memory_order_relaxed);
}

#endif
