/* SPDX-License-Identifier: Apache-2.0 */
/* door.h - notes between nodes of one host, which may carry a descriptor: a datagram socket in the
 * abstract name space, named by user and incarnation. It vanishes with its process. Notes of other
 * users' processes are passed over; what a note says is not checked here. Nothing waits. */
#ifndef NET_DOOR_H
#define NET_DOOR_H

#include <kvstore/net.h>

#include <stdbool.h>
#include <sys/socket.h>
#include <sys/un.h>

#define NET_NOTE_MAGIC   0x3153564bu /* "KVS1": notes of another version are passed over */
#define NET_NOTE_PAYLOAD 64

typedef enum net_note_kind {
    NET_NOTE_ASK = 1, /* for the segment of that name */
    NET_NOTE_GIVE,    /* here it is: with a descriptor */
    NET_NOTE_NONE,    /* there is none (yet) */
    NET_NOTE_RING,    /* a ring for a lane: with a descriptor */
    NET_NOTE_REFUSE,  /* it can't be used: why, in `name` */
    NET_NOTE_BELL     /* look at your rings */
} net_note_kind_t;

typedef struct net_note {
    uint32_t magic;
    uint32_t kind;  /* net_note_kind_t */
    uint64_t token; /* of the run of the job */
    uint64_t from;  /* incarnations */
    uint64_t to;
    uint64_t n_bytes; /* of the segment or ring */
    uint32_t lane;    /* of a ring */
    uint32_t zero;
    char name[NET_NOTE_PAYLOAD];
} net_note_t;

typedef struct net_door_address {
    struct sockaddr_un name;
    socklen_t size;
} net_door_address_t;

net_door_address_t net_door_address(uint64_t incarnation);
/* The door of that incarnation; 0: one without a name of its own, to ask from. ERR_IO. */
kvs_status_t net_door_open(uint64_t incarnation, int *ret_fd);
/* 0, or errno: EAGAIN: the other side has too many notes to read; ECONNREFUSED: nobody is there. `fd`
 * -1: without a descriptor. */
int net_door_send(int door, const net_door_address_t *to, const net_note_t *note, int fd);
/* The next note; false: none is there. The descriptor (-1: none came) is the caller's. */
bool net_door_receive(int door, net_note_t *ret_note, net_door_address_t *ret_from, int *ret_fd);

#endif
