/* SPDX-License-Identifier: Apache-2.0 */
/* byteps_depot.h - what a node that sums has of one store (a depot) while something is on its way: exchanges
 * that not everyone has come to yet, their blocks, and answers that not everyone has received. Servers
 * have depots; where all workers are on one host, so do they.
 *
 * byteps_depot.c takes messages in and hands them on, byteps_exchange.c adds blocks up, compares what
 * the workers say and keeps deadlines, byteps_answer.c sends results and knows when they have come.
 * All on the node's I/O thread: no locks. Nothing outlives its exchange, but a failure that somebody has
 * not been told yet. */
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
    byteps_came_t came;
} byteps_visit_t;

/* A block of an exchange that not all workers have come with. */
typedef struct byteps_pending {
    struct byteps_pending *prev, *next; /* in its exchange, ascending */
    uint64_t block;
    uint32_t n_waiting, n_came;
    byteps_answer_t *kept;   /* the result, of a server that was lost */
    byteps_visit_t visits[]; /* by rank */
} byteps_pending_t;

/* The n-th use of a key: here while a block of it is pending, or somebody has to be told of its failure. */
struct byteps_exchange {
    byteps_depot_t *depot;
    byteps_exchange_t *next_in_bucket;
    byteps_exchange_t *prev, *next; /* in the depot */
    byteps_header_t header;         /* of the first worker that came with a block */
    char name[BYTEPS_MAX_NAME + 1]; /* what `header.name` points to */
    int first;                      /* whose it is; -1: nobody's yet */
    int64_t begun_ns;               /* of the wait: when it began, or a block was last summed */
    int64_t came_ns;                /* when a block last came */
    bool wanted, reported;
    byteps_pending_t *blocks, *last_block;
    kvs_status_t status; /* it failed; then: */
    char *text;
    uint32_t n_told;
    bool told[]; /* by rank */
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
    uint32_t number; /* the store's */
    int n_workers;
    bool closed_here;     /* no message of it comes any more */
    bool may_be_replaced; /* there are other servers: it is told when answers are with everyone */
    char **closed;        /* by rank: why the worker comes no more */
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

/* These two own the message. */
void byteps_exchange_take_block(byteps_depot_t *depot, const byteps_header_t *header,
                                kvs_net_message_t *message);
void byteps_exchange_take_kept(byteps_depot_t *depot, const byteps_header_t *header,
                               kvs_net_message_t *message);
void byteps_exchange_take_drop(byteps_depot_t *depot, const byteps_header_t *header, int worker);
/* A worker is gone: exchanges that need it fail. */
void byteps_exchanges_check_gone(byteps_depot_t *depot);
/* All fail for those who wait. */
void byteps_exchanges_fail(byteps_depot_t *depot, kvs_status_t status, const char *text);
/* Time has passed. False: nothing is pending; those that have failed wait for nothing. */
bool byteps_exchanges_look(byteps_depot_t *depot, int64_t now_ns);
void byteps_exchanges_free(byteps_depot_t *depot);

/* ---- byteps_answer.c --------------------------------------------------------------------------------- */

/* A result and its receivers. It reads from `message`, or from memory of a block. */
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
/* Without a result: FAILED, WANTED, SETTLED. `text` may be NULL. */
void byteps_depot_say(byteps_depot_t *depot, int worker, const byteps_header_t *header,
                      const char *text);
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
/* An answer is no longer read. */
void byteps_depot_let_go(byteps_depot_t *depot);

int64_t byteps_now_ns(void);

#endif
