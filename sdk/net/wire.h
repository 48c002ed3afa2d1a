/* SPDX-License-Identifier: Apache-2.0 */
/* wire.h - messages as bytes, and back; WIRE.md is the reference. No sockets, no state, no memory of
 * its own: what is decoded points into the frame it came from, whose text and counts have been
 * checked. All integers are little-endian; a frame is used up to its last byte or refused. */
#ifndef NET_WIRE_H
#define NET_WIRE_H

#include <kvstore/net.h>

#include <stdbool.h>

#define NET_WIRE_MAGIC       0x4e53564bu /* "KVSN" */
#define NET_WIRE_VERSION     1
#define NET_WIRE_HEAD_BYTES  40
#define NET_WIRE_DATA_BYTES  64          /* head and fixed part of a data message */
#define NET_WIRE_MAX_CONTROL (32u << 20) /* bytes of a frame other than data */
#define NET_WIRE_MAX_TEXT    8192
#define NET_SPARED           "lost servers" /* the fact that a group goes on without them */
#define NET_WIRE_MAX_FACTS   64
#define NET_WIRE_MAX_MEMBERS 65536

/* X(type, number, shape): what a frame is, and which of the shapes below its body has. */
#define NET_WIRE_TYPES(X)                                                                          \
    X(HELLO, 1, hello)           /* node: let me in */                                             \
    X(WELCOME, 2, welcome)       /* everyone is there: this is the list */                         \
    X(REFUSED, 3, notice)        /* you are not let in */                                          \
    X(STATUS, 4, notice)         /* who is there so far */                                         \
    X(BEAT, 5, beat)             /* both ways: I am alive */                                       \
    X(LEAVE, 6, empty)           /* node: goodbye */                                               \
    X(BYE, 7, empty)             /* scheduler: your goodbye has been told to all */                \
    X(LEFT, 8, notice)           /* that member left */                                            \
    X(DEAD, 9, notice)           /* that member died */                                            \
    X(END, 10, notice)           /* the job is over for you */                                     \
    X(TELL, 11, notice)          /* node: tell everyone this error */                              \
    X(ERROR, 12, notice)         /* that member tells everyone an error */                         \
    X(SUSPECT, 13, notice)       /* node: I can't reach that member */                             \
    X(STORE_OPEN, 14, store)     /* worker: my n-th store */                                       \
    X(STORE_ANNOUNCE, 15, store) /* to servers: a store begins */                                  \
    X(STORE_READY, 16, request)  /* server: I know of it */                                        \
    X(BARRIER, 17, request)      /* worker: I am at this store's n-th barrier */                   \
    X(STORE_CLOSE, 18, request)  /* worker: I have closed it */                                    \
    X(STORE_CLOSED, 19, request) /* to servers: all have closed it */                              \
    X(QUERY, 20, request)        /* node: how many are silent? */                                  \
    X(ANSWER, 21, answer)        /* to STORE_OPEN, BARRIER, STORE_CLOSE, QUERY */                  \
    X(LANE, 32, lane)            /* node to node: this connection is mine */                       \
    X(DATA, 33, data)                                                                              \
    X(ACK, 34, ack)      /* what came on that lane of yours */                                     \
    X(CLOSE, 35, notice) /* your connection is closed, for this reason */

typedef enum net_wire_type {
#define NET_WIRE_ENUM(type, number, shape) NET_##type = (number),
    NET_WIRE_TYPES(NET_WIRE_ENUM)
#undef NET_WIRE_ENUM
} net_wire_type_t;

enum { NET_ACK_NOW = 1, NET_RESEND = 2, NET_ALL_FLAGS = 3 }; /* of a frame */

/* A list in a decoded frame: walk it with net_wire_next_… */
typedef struct net_wire_list {
    const uint8_t *at;
    uint32_t n;
} net_wire_list_t;

/* The first five, the door, stand at the same place in every version. */
typedef struct net_hello {
    const char *job_id;
    const char *host;
    int32_t role;
    int32_t rank; /* -1: none given */
    int64_t pid;
    const char *group;
    const char *address;  /* "host:port" where it listens */
    uint64_t incarnation; /* a random number of this node's */
    uint64_t host_id;     /* of boot and network namespace */
    uint64_t process_id;  /* a random number of this process's */
    int32_t n_workers;
    int32_t n_servers; /* -1: as many as say hosts_server */
    uint32_t hosts_server;
    net_wire_list_t facts;
} net_hello_t;

typedef struct net_wire_member {
    int32_t role, rank, local_rank;
    int64_t pid;
    uint64_t incarnation, host_id, process_id;
    const char *host;
    const char *address;
} net_wire_member_t;

typedef struct net_welcome {
    uint64_t epoch;
    uint64_t token; /* of this run of the job: lanes must know it */
    uint32_t self;  /* place of the addressee in the list */
    net_wire_list_t members;
} net_welcome_t;

typedef struct net_notice {
    uint32_t member; /* place in the list of the one it is about */
    uint32_t store;
    int32_t status;
    const char *text;
} net_notice_t;

typedef struct net_beat {
    uint64_t last; /* number of the last frame sent */
} net_beat_t;

typedef struct net_wire_store {
    uint32_t ordinal; /* the worker's n-th, from 1 */
    uint32_t store;   /* its number, when announced */
    int64_t timeout_ms;
    const char *type;
    net_wire_list_t facts;
} net_wire_store_t;

typedef struct net_request {
    uint32_t number; /* of the barrier; of the query */
    uint32_t store;
    uint32_t mask;      /* QUERY: roles. STORE_CLOSE: 1: have it answered */
    int64_t timeout_ms; /* QUERY: how long silent */
} net_request_t;

typedef struct net_answer {
    uint32_t type; /* what is answered: a net_wire_type_t */
    uint32_t number;
    uint32_t store;
    uint32_t value;
    int32_t status;
    const char *text;
} net_answer_t;

typedef struct net_lane_hello {
    uint64_t token;
    uint64_t from, to; /* incarnations */
    uint32_t lane;
    uint64_t last; /* number of the last frame sent */
} net_lane_hello_t;

/* The header follows the fixed part; the body too, at the next multiple of 8 and padded to one, if it
 * is `n_inline`; otherwise it is the next frame. */
typedef struct net_data {
    uint32_t store;
    uint32_t n_header;
    uint64_t n_body;
    uint32_t n_inline; /* 0 or n_body */
    const uint8_t *header;
    const uint8_t *body; /* inline only */
} net_data_t;

typedef struct net_ack {
    uint32_t lane;
} net_ack_t;

typedef struct net_empty {
    uint32_t reserved;
} net_empty_t;

typedef struct net_wire {
    uint16_t version;
    uint16_t type;  /* net_wire_type_t */
    uint32_t flags; /* NET_ACK_NOW, NET_RESEND */
    uint64_t link; /* whose connection it came by: the sender's random number; the scheduler's: 0 */
    uint64_t seq;  /* number of this frame on its link, from 1; 0: none */
    uint64_t ack;  /* everything up to this number has come the other way */
    union {
        net_hello_t hello;
        net_welcome_t welcome;
        net_notice_t notice;
        net_beat_t beat;
        net_wire_store_t store;
        net_request_t request;
        net_answer_t answer;
        net_lane_hello_t lane;
        net_data_t data;
        net_ack_t ack;
        net_empty_t empty;
    } as;
} net_wire_t;

/* "HELLO"; "?" for a number that is none. */
const char *net_wire_name(unsigned type);

/* Read a frame. ERR_FORMAT: what is wrong and where. ERR_NOT_IMPLEMENTED: another version, which
 * `ret_wire->version` gives; of a HELLO the door has been read, of others nothing. In both cases
 * `ret_wire->link` is given as far as it was reached, else 0. */
kvs_status_t net_wire_decode(const void *frame, size_t n_bytes, net_wire_t *ret_wire);

/* Step through a list that net_wire_decode gave; false at its end. */
bool net_wire_next_fact(net_wire_list_t *list, kvs_net_fact_t *ret_fact);
bool net_wire_next_member(net_wire_list_t *list, net_wire_member_t *ret_member);

/* What a frame lists, when it is written. */
typedef struct net_wire_lists {
    const kvs_net_fact_t *facts;
    size_t n_facts;
    const net_wire_member_t *members;
    size_t n_members;
} net_wire_lists_t;

/* Bytes of `wire` as a frame, and the frame. `lists` may be NULL. Texts are cut at NET_WIRE_MAX_TEXT,
 * and control characters in them become '?'. Of a data message only head and fixed part are written:
 * header and inline body are the caller's to fill in. */
size_t net_wire_size(const net_wire_t *wire, const net_wire_lists_t *lists);
void net_wire_encode(const net_wire_t *wire, const net_wire_lists_t *lists, void *frame);

/* Write these anew into an encoded frame. */
void net_wire_stamp(void *frame, uint64_t link, uint64_t seq, uint64_t ack);

/* Bytes of a data frame, and where in it the inline body begins. */
size_t net_wire_data_size(size_t n_header, size_t n_inline);
size_t net_wire_body_offset(size_t n_header);

#endif
