/* SPDX-License-Identifier: Apache-2.0 */
/* ring.h - a lane between processes of a host: messages in shared memory, written by one node and read in
 * place by another. Neither believes the other: each keeps its own count of where it is, reads each
 * header once into memory of its own, and checks every number. WIRE.md has the layout.
 *
 * The writer's functions: whoever holds its lane's lock. The reader's: the I/O thread, but for
 * net_reader_release. No sockets and no waiting here. */
#ifndef NET_RING_H
#define NET_RING_H

#include "segment.h"

#include <pthread.h>
#include <stdatomic.h>

#define NET_RING_MAGIC  0x4752564bu /* "KVRG" */
#define NET_RING_MIN    (UINT64_C(64) << 10)
#define NET_RING_MAX    (UINT64_C(4) << 20) /* stays in cache */
#define NET_RING_FIXED  4096                /* bytes before the data */
#define NET_RING_LINE   64                  /* everything in the data is a multiple of it */
#define NET_RING_SPREAD 128                 /* what different processes write is so far apart */

typedef enum net_ring_state { NET_RING_OFFERED, NET_RING_TAKEN } net_ring_state_t;

/* Who a ring is for. */
typedef struct net_ring_id {
    uint64_t token, from, to; /* the run of the job, incarnations */
    uint32_t lane;
} net_ring_id_t;

/* How to wake the other side's I/O thread: a note at its door. */
typedef struct net_bell {
    int door; /* ours; -1: not any more */
    net_door_address_t to;
    net_note_t note;
} net_bell_t;

net_bell_t net_bell(int door, uint64_t from, uint64_t to);

/* What lies before the data. Positions are bytes since the beginning, modulo the capacity a place. */
typedef struct net_ring {
    uint32_t magic;
    uint32_t lane;
    uint64_t capacity; /* a power of two */
    uint64_t token, from, to;

    _Alignas(NET_RING_SPREAD) _Atomic uint64_t tail; /* the writer's: written up to here */

    _Alignas(NET_RING_SPREAD) _Atomic uint64_t read; /* the reader's: received up to here */
    _Atomic uint64_t received; /* number of the last frame of the lane received */
    _Atomic uint64_t head;     /* free up to here */
    _Atomic uint32_t state;    /* net_ring_state_t */

    /* Who wants to be woken: set by himself before he sleeps, cleared by whoever wakes him. */
    _Alignas(NET_RING_SPREAD) _Atomic uint32_t reader_sleeps;
    _Alignas(NET_RING_SPREAD) _Atomic uint32_t writer_sleeps;
    _Atomic uint32_t writer_waits; /* for room: to be woken when half of the ring is free */
} net_ring_t;

enum { NET_ENTRY_WANTS_ACK = 2 }; /* a flag beside NET_ACK_NOW: the sender waits for the receipt */
enum { NET_ENTRY_DATA = 1, NET_ENTRY_SKIP = 2 }; /* a skip goes to the end of the memory */

/* Begins each message; header and body follow, each from a multiple of NET_RING_LINE on. */
typedef struct net_entry {
    uint32_t kind;
    uint32_t flags;   /* NET_ACK_NOW | NET_ENTRY_WANTS_ACK */
    uint64_t n_total; /* bytes, this included */
    uint64_t seq;     /* number of the frame on its lane */
    uint64_t n_body;
    uint32_t n_header;
    uint32_t store;
    uint64_t zero[3];
} net_entry_t;

uint64_t net_entry_bytes(uint64_t n_header, uint64_t n_body);

/* ---- The writer ------------------------------------------------------------------------------ */

typedef struct net_writer {
    net_memory_t memory;
    net_ring_t *ring;
    uint8_t *data;
    net_bell_t bell; /* the reader's */
    uint64_t capacity;
    uint64_t tail, head, read;
    uint64_t seen[3]; /* news that were noted: the I/O thread's */
} net_writer_t;

/* A ring for about `window` bytes, and the descriptor to hand over. */
kvs_status_t net_writer_new(const net_ring_id_t *id, uint64_t window, const net_bell_t *bell,
                            net_writer_t **ret_writer, int *ret_fd);
void net_writer_free(net_writer_t *writer); /* NULL does nothing */
net_ring_state_t net_writer_state(const net_writer_t *writer);
/* Can a message of this size ever go through the ring? */
bool net_writer_fits(const net_writer_t *writer, uint64_t n_bytes);
/* Learn how far the reader is. ERR_FORMAT: that can't be. */
kvs_status_t net_writer_look(net_writer_t *writer, uint64_t *ret_received);
/* Has the reader moved since the news were noted? Without the lock. */
bool net_writer_has_news(const net_writer_t *writer);
void net_writer_note_news(net_writer_t *writer); /* before net_writer_look */
static inline uint64_t net_writer_unread(const net_writer_t *writer)
{
    return writer->tail - writer->read;
}
static inline uint64_t net_writer_free_bytes(const net_writer_t *writer)
{
    return writer->capacity - (writer->tail - writer->head);
}
/* Be woken when there is room, or everything was read. What was seen is old then: look again. */
void net_writer_wait(net_writer_t *writer);
/* Write a message, and wake a reader that sleeps; false: no room, as far as was seen last. */
bool net_writer_put(net_writer_t *writer, const net_entry_t *entry, const void *header,
                    const void *body);

/* ---- The reader ------------------------------------------------------------------------------ */

typedef struct net_reader net_reader_t;

/* A message that stays in the ring until it is released. */
typedef struct net_held {
    struct net_held *next;
    uint64_t begin;
    bool released;
} net_held_t;

/* Map a ring that was offered, if it is the one that is meant. ERR_PEER, ERR_NO_MEMORY, ERR_IO. */
kvs_status_t net_reader_new(int fd, uint64_t n_bytes, const net_ring_id_t *id, uint64_t max_body,
                            const net_bell_t *bell, net_reader_t **ret_reader);
net_ring_t *net_reader_ring(const net_reader_t *reader);
/* Is there something that was not looked at yet? */
bool net_reader_has_more(const net_reader_t *reader);
/* The next message, without taking it: 1; 0: none is there. -1: nonsense, with its text; the ring is not
 * to be used any more. `ret_header` and `ret_body` point into the ring. */
int net_reader_peek(net_reader_t *reader, net_entry_t *ret_entry, const uint8_t **ret_header,
                    const uint8_t **ret_body);
/* It may stay in place, as a quarter of the ring is free beside it. */
bool net_reader_may_hold(net_reader_t *reader, const net_entry_t *entry);
/* The message peeked at last has been taken: copied, or, with `held`, it stays until released. */
void net_reader_take(net_reader_t *reader, const net_entry_t *entry, net_held_t *held);
/* Everything up to this number of the lane has been received. */
void net_reader_tell(net_reader_t *reader, uint64_t received);
/* Wake the writer if it waits for room, and there is some; with `now` in any case. If it sleeps. */
void net_reader_wake_writer(net_reader_t *reader, bool now);
/* Give up a hold, from any thread. Gives the holds whose memory is now the caller's, as a list. */
net_held_t *net_reader_release(net_reader_t *reader, net_held_t *held);
/* No bell is rung any more: the door closes. */
void net_reader_close(net_reader_t *reader);
net_reader_t *net_reader_ref(net_reader_t *reader);
void net_reader_unref(net_reader_t *reader); /* the last one unmaps it; NULL does nothing */

#endif
