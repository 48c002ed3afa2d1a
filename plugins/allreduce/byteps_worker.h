/* SPDX-License-Identifier: Apache-2.0 */
/* byteps_worker.h - a store of a worker: uses of keys, one after the other on each, are cut in parts, which wait
 * for their turn in the heap of who sums them, and travel as blocks. Where all workers are on one host they
 * sum themselves, each its parts, through shared memory; elsewhere servers do, and those that share a host
 * sum first.
 * Callers, one at a time for what is issued (the core sees to it), begin operations and may send; the node's
 * I/O thread alone handles results, and is called when more has arrived from devices. `lock` guards all that
 * both touch; the core is never called under it. Lock order: the core's, `lock`, the node's and the kit's. */
#ifndef BYTEPS_WORKER_H
#define BYTEPS_WORKER_H

#include "byteps_book.h"
#include "byteps_depot.h"
#include "byteps_message.h"

#include <kvstore/kit.h>
#include <kvstore/net.h>

#include <pthread.h>

typedef struct byteps_worker byteps_worker_t;
typedef struct byteps_use byteps_use_t;
typedef struct byteps_key byteps_key_t;

/* Of an array, at multiples of the part size. Blocks go and come back in order. */
typedef struct byteps_part {
    byteps_use_t *use;
    uint64_t index, first_block;
    uint32_t n_blocks;
    uint32_t n_sent, n_got;
    uint32_t target;
    size_t at;    /* 1 more than its place in the target's heap; 0: not there */
    bool started; /* its bytes count as in flight; else only those that are sent */
    bool parked;  /* its next block has not arrived from a device */
    struct byteps_part *next_parked;
} byteps_part_t;

/* One use of a key: the state of the core's group. Zeroed when the operation begins. */
struct byteps_use {
    kvs_op_t *pub;
    byteps_key_t *key;
    byteps_use_t *next;         /* in its key's queue */
    byteps_use_t *next_settled; /* among those to be settled */
    byteps_use_t *prev_active, *next_active;
    uint64_t number; /* of this key's uses, from 1; 0: it has not begun */
    byteps_header_t header;
    int64_t n_elems;
    uint64_t n_blocks;
    const char *source; /* what is sent; NULL: nothing is */
    void *copy;         /* the memory of `source`, if it is ours */
    size_t n_copy_bytes;
    byteps_part_t *parts;
    byteps_part_t one; /* memory of `parts` where one is enough */
    uint64_t n_parts, n_parts_left;
    size_t n_held;  /* blocks that are still being read */
    bool wanted;    /* others wait for it: goes without credit */
    bool is_active; /* it has begun and is not over */
    bool over, listed, issuing;
    int64_t moved_ns; /* when something last came, while something is awaited */
    kvs_status_t status;
    char *text;
};

/* The state of the core's key. */
struct byteps_key {
    byteps_worker_t *worker; /* NULL: never used */
    uint64_t id;             /* 0: not known yet */
    uint64_t n_places;       /* parts whose target is known */
    uint32_t *targets;
    uint32_t *servers; /* of each part, where hosts sum first; else NULL */
    uint64_t ask;      /* the number of what worker 0 was asked; 0: nothing */
    byteps_key_t *next_asking;
    bool advancing;
    byteps_use_t *current;
    byteps_use_t *first, *last; /* that wait for their turn */
};

/* A result that a server has sent, as long as not everyone is known to have it. */
typedef struct byteps_kept {
    struct byteps_kept *next;
    uint64_t number, id, exchange, block;
    uint32_t n_ranks; /* not 0: it is for all of this host */
    byteps_answer_t *answer;
} byteps_kept_t;

typedef struct byteps_target {
    byteps_part_t **heap; /* parts with blocks to send, the most urgent first */
    size_t n_heap, n_room;
    bool is_full; /* until the server has received more */
    byteps_kept_t *kept, *last_kept;
} byteps_target_t;

/* What is known by a key's id; longer than the core knows the key, which it forgets if its first use fails. */
typedef struct byteps_known {
    byteps_key_t *key; /* NULL: not used here so far */
    uint64_t n_uses;   /* begun */
    uint64_t wanted;   /* the last use that others have waited for */
} byteps_known_t;

struct byteps_worker {
    /* fixed after open */
    kvs_net_node_t *node;
    kvs_net_store_t *net;
    uint32_t number; /* the store's, of all processes */
    char *type;
    int rank, n_workers;
    uint32_t n_servers;
    uint32_t n_targets;                /* who sums: servers, then workers */
    byteps_depot_t *depot;             /* of this worker; the I/O thread's */
    int64_t timeout_ms;                /* 0: for ever */
    uint64_t part_bytes, credit_bytes; /* credit 0: without bound */

    int64_t expired_ns;     /* when the clock was last looked at: the I/O thread's */
    _Atomic bool cancelled; /* set by anyone, also in a signal handler; looked at by each tick */

    pthread_mutex_t lock;
    pthread_cond_t changed;
    byteps_book_t book; /* worker 0's; guarded by lock, as all from here on */
    bool *lost;         /* servers */
    uint32_t n_lost;
    char **closed; /* by worker: why it sums no more; NULL: it does */
    byteps_target_t *targets;
    byteps_known_t *known; /* by id */
    size_t n_known;
    byteps_key_t *asking, *last_asking; /* keys whose places are asked for, in order */
    uint64_t n_asks;
    byteps_use_t *active; /* that have begun */
    byteps_use_t *to_settle;
    byteps_part_t *parked;
    bool is_called;       /* the I/O thread will look at them */
    uint64_t n_in_flight; /* bytes whose result is not in place */
    bool pumping;
    kvs_status_t failure; /* nothing works any more */
    char *failure_text;
    kvs_status_t told; /* an error of another process, for the next operation */
    char *told_text;
};

/* ---- byteps_worker.c ---------------------------------------------------------------------------------- */

typedef struct byteps_worker_args {
    kvs_net_node_t *node;
    const char *type;
    int64_t timeout_ms;
    uint64_t part_bytes, credit_bytes;
    byteps_owner_t owner; /* of its depot, which may outlive it */
} byteps_worker_args_t;

kvs_status_t byteps_worker_new(const byteps_worker_args_t *args, byteps_worker_t **ret_worker);
/* Open it together with the other workers; `loaded` as in kvs_open_args_t. On failure it is to be freed. */
kvs_status_t byteps_worker_open(byteps_worker_t *worker, const char *loaded);
/* Frees it, whatever it returns. No event comes any more. Not on the I/O thread. */
kvs_status_t byteps_worker_close(byteps_worker_t *worker, int64_t timeout_ms);
void byteps_worker_free(byteps_worker_t *worker); /* one that was never opened */
void byteps_worker_key_release(byteps_key_t *key);

kvs_status_t byteps_worker_issue(byteps_worker_t *worker);
kvs_status_t byteps_worker_run(byteps_worker_t *worker, kvs_op_t *op);
kvs_status_t byteps_worker_barrier(byteps_worker_t *worker);
void byteps_worker_cancel(byteps_worker_t *worker);
/* On the I/O thread: something has happened to the job; time has passed. False: nothing is pending. */
void byteps_worker_event(byteps_worker_t *worker, const kvs_net_event_t *event);
bool byteps_worker_tick(byteps_worker_t *worker, int64_t now_ns);

/* Release the lock, then tell the core what happened under it. I/O thread. */
void byteps_worker_settle(byteps_worker_t *worker);
/* Lock held, as for all below. Nothing works any more. */
void byteps_worker_fail(byteps_worker_t *worker, kvs_status_t status, const char *text);
/* That worker has closed the store or left: what it still had to sum fails. */
void byteps_worker_lose(byteps_worker_t *worker, int rank, const char *text);
/* The use is over, with what is in `status`: what still reads or sends its values ends by itself. */
void byteps_use_end(byteps_use_t *use);
void byteps_use_fail(byteps_use_t *use, kvs_status_t status, const char *text);
/* Blocks of an ended use are no longer read: it may be told. */
void byteps_use_look(byteps_use_t *use);
/* Write the result of a block to the out. Without the lock. */
void byteps_use_write(const byteps_use_t *use, uint64_t block, const void *data);

/* The key's places are known: uses that waited for them begin. */
void byteps_key_go_on(byteps_key_t *key);

/* ---- byteps_part.c ------------------------------------------------------------------------------------ */

/* Cut the use in parts and put them where they wait for their turn. The key's places are known. */
kvs_status_t byteps_parts_start(byteps_use_t *use);
/* Take what is not sent yet out of the heaps, give the credit back, and tell the servers. */
void byteps_parts_withdraw(byteps_use_t *use);
/* Send what credit and servers allow. */
void byteps_parts_send(byteps_worker_t *worker);
/* Without the lock: more elements have arrived from devices, or never will. Any thread. */
void byteps_worker_arrived(byteps_worker_t *worker);
/* The bytes of elements in a block. */
size_t byteps_block_bytes(const byteps_use_t *use, uint64_t block);
/* Put the part where it waits; false: no memory. */
bool byteps_part_queue(byteps_part_t *part);
void byteps_part_unqueue(byteps_part_t *part); /* or parked */
/* What has no result will be sent again, and has no credit until then. */
void byteps_part_rewind(byteps_part_t *part);

/* Who sums a part as things are. */
uint32_t byteps_target_of(const byteps_worker_t *worker, const byteps_key_t *key, uint64_t part);
const kvs_net_peer_t *byteps_target_peer(const byteps_worker_t *worker, uint32_t target);
uint32_t byteps_target_number(const byteps_worker_t *worker, const kvs_net_peer_t *peer);
uint64_t byteps_blocks_per_part(const byteps_worker_t *worker);
uint64_t byteps_n_parts(const byteps_worker_t *worker, const byteps_header_t *header);
void byteps_worker_say_closed(byteps_worker_t *worker);
void byteps_message_of(const byteps_worker_t *worker, const byteps_header_t *header, uint8_t *bytes,
                       kvs_net_send_t *net);

/* ---- byteps_places.c ---------------------------------------------------------------------------------- */

/* Ask worker 0 for the key's places, or look them up. */
void byteps_key_ask(byteps_key_t *key, const byteps_use_t *use);
void byteps_key_forget_ask(byteps_key_t *key);
/* ASK and PLACES. */
void byteps_take_places(byteps_worker_t *worker, const byteps_header_t *header,
                        const kvs_net_message_t *message);
/* There is room for what is known by this id; false: no memory, or no id of an honest peer. */
bool byteps_make_known(byteps_worker_t *worker, uint64_t id);

/* ---- byteps_news.c ------------------------------------------------------------------------------------ */

/* A message of the store. I/O thread; takes the lock. */
void byteps_worker_message(void *worker, kvs_net_message_t *message);

/* ---- byteps_loss.c ------------------------------------------------------------------------------------ */

/* Keep a result, in case its server is lost. Takes over the answer. */
void byteps_keep(byteps_worker_t *worker, const byteps_header_t *header, uint32_t server,
                 byteps_answer_t *answer);
/* The server's answers up to this one are with everyone. */
void byteps_settle_kept(byteps_worker_t *worker, uint32_t server, uint64_t settled);
void byteps_release_kept(byteps_worker_t *worker);
/* The server died or left: what it had is done by others, or, if none is left, nothing works any more. */
void byteps_lose_server(byteps_worker_t *worker, uint32_t server, const char *text);

#endif
