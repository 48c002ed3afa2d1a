/* SPDX-License-Identifier: Apache-2.0 */
/* byteps_depot.h - what a node that sums has of one store (a depot) while something is on its way: exchanges
 * that not everyone has come to yet, their blocks, and answers that not everyone has received. Servers
 * have depots; so do workers, which sum for each other where all are on one host, else for their host.
 *
 * byteps_depot.c takes messages in and hands them on, byteps_exchange.c adds blocks up, byteps_failure.c
 * says what does not fit together and who is missing, byteps_relay.c has sums of a host on their way,
 * byteps_answer.c sends results and knows when they have come. All on the node's I/O thread: no locks.
 * Nothing outlives its exchange, but a failure that somebody has not been told yet. */
#ifndef BYTEPS_DEPOT_H
#define BYTEPS_DEPOT_H

#include "byteps_message.h"

#include <kvstore/net.h>

typedef struct byteps_depot byteps_depot_t;
typedef struct byteps_exchange byteps_exchange_t;
typedef struct byteps_answer byteps_answer_t;

typedef enum byteps_came {
    BYTEPS_ABSENT,
    BYTEPS_WAITS,   /* its block is here, and it waits for the result */
    BYTEPS_ANSWERED /* it has the result, or gets it, or will not come any more */
} byteps_came_t;

typedef struct byteps_visit {
    kvs_net_message_t *message; /* while it waits */
    int worker;                 /* that came */
    byteps_came_t came;
} byteps_visit_t;

/* A block of an exchange that not all have come with, or whose sum is at a server. */
typedef struct byteps_pending {
    struct byteps_pending *prev, *next; /* in its exchange, ascending */
    uint64_t block;
    uint32_t n_waiting, n_came;
    byteps_answer_t *kept;   /* the result, of a server that was lost */
    byteps_answer_t *sum;    /* of a host: it has been sent; NULL: not yet */
    uint32_t home, server;   /* of a host: the server it belongs to, and the one that has the sum */
    byteps_visit_t visits[]; /* by seat */
} byteps_pending_t;

/* Whose blocks meet: one sits for each worker, for each worker of this host, or for each host. */
typedef enum byteps_seating {
    BYTEPS_WORKERS,
    BYTEPS_MATES,
    BYTEPS_HOSTS,
} byteps_seating_t;

/* What is known of a worker in an exchange. */
enum {
    BYTEPS_TOLD = 1,    /* that it failed */
    BYTEPS_AT_HOME = 2, /* it has come to who sums for its host, */
    BYTEPS_LISTENS = 4, /* who has said so, and is told of a failure as those who wait are */
    BYTEPS_URGED = 8    /* that others wait for it */
};

/* The n-th use of a key: here while a block of it is pending, or somebody has to be told of its failure. */
struct byteps_exchange {
    byteps_depot_t *depot;
    byteps_exchange_t *next_in_bucket;
    byteps_exchange_t *prev, *next; /* in the depot */
    byteps_header_t header;         /* of the first worker that came with a block */
    char name[BYTEPS_MAX_NAME + 1]; /* what `header.name` points to */
    byteps_seating_t seating;
    int n_seats;
    int first;        /* whose it is; -1: nobody's yet */
    int64_t begun_ns; /* of the wait: when it began, or a block was last summed */
    int64_t came_ns;  /* when a block last came */
    bool reported;
    int n_at_home;    /* of a host: how many its server knows to be here */
    int64_t moved_ns; /* of a host: when something last went to a server, or came from there */
    byteps_pending_t *blocks, *last_block;
    kvs_status_t status; /* it failed; then: */
    char *text;
    uint8_t marks[]; /* by rank: BYTEPS_TOLD, … */
};

/* Who a depot belongs to. Both functions run on the I/O thread. */
typedef struct byteps_owner {
    void *arg;
    void (*wait)(void *arg); /* something is pending: look from time to time, until nothing is */
    void (*free)(void *arg, byteps_depot_t *depot); /* nothing of it is on its way any more */
} byteps_owner_t;

struct byteps_depot {
    byteps_depot_t *next; /* its owner's */
    byteps_owner_t owner;
    kvs_net_node_t *node;
    uint32_t number;                 /* the store's */
    int n_workers, n_hosts, n_mates; /* hosts of workers; workers of this host, if this is one */
    int n_servers;
    bool *lost;             /* servers, as far as a sum of this host was to go there */
    bool *told;             /* servers: room for a mark each */
    uint64_t n_part_blocks; /* of a part, which has a server; 0: this is no worker */
    bool closed_here;       /* no message of it comes any more */
    bool may_be_replaced;   /* there are other servers: it is told when answers are with everyone */
    char **closed;          /* by rank: why the worker comes no more */
    byteps_exchange_t **buckets; /* exchanges by key and number */
    size_t n_buckets, n_exchanges;
    byteps_exchange_t *exchanges;
    byteps_answer_t *answers, *last_answer; /* numbered ones that not everyone has, in order */
    uint64_t n_answers, settled, told_settled;
    size_t n_unsent; /* answers of any kind that are still being read */
    void *spare[16]; /* memory of blocks */
    size_t n_spare;
    const void **sources; /* room for a pointer a worker */
};

/* ---- byteps_exchange.c ------------------------------------------------------------------------------- */

/* These own the message. */
void byteps_exchange_take_block(byteps_depot_t *depot, const byteps_header_t *header,
                                kvs_net_message_t *message);
void byteps_exchange_take_kept(byteps_depot_t *depot, const byteps_header_t *header,
                               kvs_net_message_t *message);
void byteps_exchange_take_drop(byteps_depot_t *depot, const byteps_header_t *header, int worker);
void byteps_exchanges_free(byteps_depot_t *depot);

/* Whose blocks meet where this one, or its failure, is to go. */
byteps_seating_t byteps_seating_of(const byteps_header_t *header);
/* It may come to such a seat. */
bool byteps_may_come(const byteps_depot_t *depot, const byteps_header_t *header,
                     const kvs_net_peer_t *from);
byteps_exchange_t *byteps_exchange_find(const byteps_depot_t *depot, uint64_t id, uint64_t number);
/* Finds it, or makes one of that seating. NULL: no memory, or it is seated otherwise. */
byteps_exchange_t *byteps_exchange_get(byteps_depot_t *depot, const byteps_header_t *header,
                                       byteps_seating_t seating);
/* NULL: it is not pending. */
byteps_pending_t *byteps_block_find(const byteps_exchange_t *exchange, uint64_t block);
void byteps_block_free(byteps_exchange_t *exchange, byteps_pending_t *pending);
/* Those who wait for the block get it. */
void byteps_block_give(byteps_exchange_t *exchange, byteps_pending_t *pending,
                       byteps_answer_t *answer);
void byteps_exchange_free(byteps_exchange_t *exchange);
/* If nothing of it is left to be done. */
void byteps_exchange_free_if_done(byteps_exchange_t *exchange);

/* Where the worker sits; -1: nowhere. */
int byteps_seat_of(const byteps_exchange_t *exchange, int worker);
byteps_came_t byteps_came(const byteps_exchange_t *exchange, const byteps_pending_t *pending,
                          int worker);
/* What a block weighs, and its sum in order of the seats, or the message whose body is the result as it
 * is; NULL: no memory. */
size_t byteps_pending_bytes(const byteps_exchange_t *exchange, const byteps_pending_t *pending);
byteps_answer_t *byteps_pending_sum(byteps_exchange_t *exchange, byteps_pending_t *pending);

/* ---- byteps_failure.c -------------------------------------------------------------------------------- */

/* For those who are here now, and for the others when they come. Blocks are no longer pending. */
void byteps_exchange_fail(byteps_exchange_t *exchange, kvs_status_t status, const char *text);
/* The same, but servers to which the sum of this host was to go are told nothing. */
void byteps_exchange_fail_here(byteps_exchange_t *exchange, kvs_status_t status, const char *text);
void byteps_exchange_fail_mismatch(byteps_exchange_t *exchange, const byteps_header_t *other,
                                   int worker);
/* Tell a worker that it failed, unless it has been told. */
void byteps_exchange_tell(byteps_exchange_t *exchange, int worker);
bool byteps_exchange_has_told_all(const byteps_exchange_t *exchange);
/* One that is gone and missing makes the exchange fail. */
void byteps_exchange_check_gone(byteps_exchange_t *exchange);
void byteps_exchanges_check_gone(byteps_depot_t *depot);
/* All fail for those who wait. */
void byteps_exchanges_fail(byteps_depot_t *depot, kvs_status_t status, const char *text);
/* A host's sum fails, or a worker's array does not come: by whoever was to bring it. */
void byteps_exchange_take_failed(byteps_depot_t *depot, const byteps_header_t *header,
                                 const kvs_net_message_t *message);
/* Who of a host has come to whoever sums for it. */
void byteps_exchange_take_here(byteps_depot_t *depot, const byteps_header_t *header,
                               const kvs_net_message_t *message);
/* Time has passed. False: nothing is pending; those that have failed wait for nothing. */
bool byteps_exchanges_look(byteps_depot_t *depot, int64_t now_ns);

/* ---- byteps_relay.c ---------------------------------------------------------------------------------- */

/* All workers of this host are here: their sum goes to the block's server. */
void byteps_relay_send(byteps_exchange_t *exchange, byteps_pending_t *pending);
/* What a server says to one that sums for its host. The result's answer is the caller's; NULL: none is
 * of use. */
byteps_answer_t *byteps_relay_take_result(byteps_depot_t *depot, const byteps_header_t *header,
                                          kvs_net_message_t *message);
void byteps_relay_take_failed(byteps_depot_t *depot, const byteps_header_t *header,
                              const kvs_net_message_t *message);
/* Others wait for the exchange: who of this host has come is told. */
void byteps_relay_take_wanted(byteps_depot_t *depot, const byteps_header_t *header);
/* What has no result yet goes to the server that takes its place. */
void byteps_relay_lose_server(byteps_depot_t *depot, uint32_t server);
/* Tell servers that nobody of this host waits any more for what they have; or that the exchange fails. */
void byteps_relay_drop(byteps_exchange_t *exchange);
void byteps_relay_fail(byteps_exchange_t *exchange, kvs_status_t status, const char *text);
/* Time has passed. */
void byteps_relay_look(byteps_exchange_t *exchange, int64_t now_ns);

/* ---- byteps_answer.c --------------------------------------------------------------------------------- */

/* A result, or the sum of a host, and its receivers. It reads from `message`, or from memory of a block. */
struct byteps_answer {
    byteps_depot_t *depot;
    byteps_answer_t *next;
    uint64_t number; /* 0: not numbered */
    uint32_t n_refs; /* its maker's, and one for each send that is not over */
    kvs_net_message_t *message;
    void *memory;
    const void *body;
    size_t n_body_bytes;
};

/* Memory of BYTEPS_BLOCK_BYTES, which goes to an answer; NULL: there is none. */
void *byteps_block_memory(byteps_depot_t *depot);
/* Owns the message or memory, also when it fails. NULL: no memory. */
byteps_answer_t *byteps_answer_new(byteps_depot_t *depot, kvs_net_message_t *message, void *memory,
                                   size_t n_body_bytes);
void byteps_answer_drop(byteps_answer_t *answer);
/* It is to be known when everyone has it. */
void byteps_answer_number(byteps_answer_t *answer);
void byteps_answer_send(byteps_answer_t *answer, const byteps_exchange_t *exchange, uint64_t block,
                        int worker);
/* The sum of a host, which `header` describes. */
void byteps_answer_send_to_server(byteps_answer_t *answer, const byteps_header_t *header,
                                  uint32_t server);
/* Without a result: FAILED, WANTED, SETTLED. `text` may be NULL. */
void byteps_depot_say(byteps_depot_t *depot, int worker, const byteps_header_t *header,
                      const char *text);
void byteps_depot_say_to_server(byteps_depot_t *depot, uint32_t server,
                                const byteps_header_t *header, const void *body,
                                size_t n_body_bytes);
/* Tell the workers how far they have all come, if that is news. */
void byteps_depot_tell_settled(byteps_depot_t *depot);
void byteps_depot_release_memory(byteps_depot_t *depot);

/* ---- byteps_depot.c ---------------------------------------------------------------------------------- */

/* `number` 0: that of the first message. NULL: no memory. */
byteps_depot_t *byteps_depot_new(kvs_net_node_t *node, uint32_t number, bool may_be_replaced,
                                 const byteps_owner_t *owner);
/* No message comes any more: what waits is told that this node has closed the store. The owner frees it
 * when it may. */
void byteps_depot_close(byteps_depot_t *depot);
void byteps_depot_free(byteps_depot_t *depot);
/* A message to whoever sums. Owns it. */
void byteps_depot_take(byteps_depot_t *depot, const byteps_header_t *header,
                       kvs_net_message_t *message);
/* A worker comes no more, because of `text`. */
void byteps_depot_lose(byteps_depot_t *depot, int worker, const char *text);
/* Time has passed. False: nothing is pending. */
bool byteps_depot_look(byteps_depot_t *depot, int64_t now_ns);

const char *byteps_depot_label(const byteps_depot_t *depot, int worker);
void byteps_depot_wait(byteps_depot_t *depot);
/* The text that is a message's body. */
void byteps_depot_read_text(kvs_net_text_t *text, const kvs_net_message_t *message);
/* An answer is no longer read. */
void byteps_depot_let_go(byteps_depot_t *depot);

int64_t byteps_now_ns(void);

#endif
