/* SPDX-License-Identifier: Apache-2.0 */
/* dist_worker.h - a store of a worker: an operation (dist_op_t) is a list of groups, one a key (dist_group_t),
 * and a group asks every server that holds a shard of its key (dist_request_t).
 *
 * Callers, one at a time for what is issued (the core sees to it), begin operations and may write into send
 * queues; the node's I/O thread alone handles answers and ends requests. `lock` guards all that both touch;
 * the core is never called under it. Lock order: the core's, then `lock`, then the node's own. */
#ifndef DIST_WORKER_H
#define DIST_WORKER_H

#include "dist_map.h"
#include "dist_batch.h"
#include "dist_message.h"
#include "dist_queue.h"

#include <kvstore/kit.h>
#include <kvstore/net.h>

#include <pthread.h>
#include <stdbool.h>

typedef struct dist_worker dist_worker_t;
typedef struct dist_group dist_group_t;
typedef struct dist_key dist_key_t;
typedef struct dist_op dist_op_t;
typedef struct dist_call dist_call_t;

/* Pushes of a key that are on their way or not over yet: servers take the current and the next round. */
#define DIST_MAX_PUSHES 2
/* Arrays up to this size are copied as they are sent, so that the caller has them back at once. */
#define DIST_COPY_BYTES (64 << 10)
/* Sums that wait to be sent, of all keys. Beyond it calls wait, as if their arrays were still being read. */
#define DIST_MAX_WAITING_BYTES (64 << 20)

/* What one server is asked: all messages to it, and all its answers. Guarded by the worker's lock. */
typedef struct dist_request {
    dist_item_t item;    /* first: in its server's queue, while messages are left to be sent */
    dist_group_t *group; /* whose it is: a group's */
    dist_call_t *call;   /* or a call's that waits */
    dist_worker_t *worker;
    uint64_t id;  /* 0: nobody waits for an answer any more */
    uint8_t kind; /* dist_kind_t of its first message */
    bool started;
    bool opened;  /* DEFINE: its first message is sent, elements follow */
    bool ended;   /* answered, or failed: what is left is memory that is still being read */
    bool counted; /* its end has been counted */
    bool parked;  /* out of its queue: the elements that are next have not arrived from a device */
    struct dist_request *next_parked;
    uint32_t server;
    int64_t first, n; /* elements of the array: the shard; with rows n is their number */
    int64_t n_sent;   /* of these */
    int64_t n_got;
    int64_t rows_first; /* its rows begin there, in their order by shard */
    void *body;         /* of rows: the next part */
    size_t n_body;
    uint32_t n_held;   /* bodies that are still being read, and answers still being written */
    int64_t active_ns; /* when something last moved */
} dist_request_t;

typedef enum dist_phase {
    DIST_PHASE_DEFINE = 1, /* rank 0: every server gets its shard */
    DIST_PHASE_PUBLISH,    /* rank 0: the directory is told */
    DIST_PHASE_LOOKUP,     /* other ranks: wait for that */
    DIST_PHASE_EXCHANGE    /* push, pull, pushpull */
} dist_phase_t;

typedef struct dist_ids {
    int64_t *ids; /* ascending, each once */
    int64_t n;
} dist_ids_t;

/* Rows that a group sends, which lie in `source`, or those that it asks for. */
typedef struct dist_rows {
    int64_t row_elems;
    size_t row_bytes;
    const int64_t *ids; /* of rows asked for: of all lists, ascending */
    int64_t n;
    int64_t *owned;    /* memory of ids */
    int64_t *order;    /* shard by shard, the place of each row; NULL: as they lie */
    dist_ids_t *lists; /* asked for: one, or one for each out */
    size_t n_lists;
} dist_rows_t;

/* What an operation does to one key; the state of the core's group. */
struct dist_group {
    kvs_hoststore_group_t host; /* first: of a store in process; else its update, as issued */
    dist_op_t *op;
    const kvs_group_t *pub;
    dist_group_t *next;   /* in its key's queue */
    uint8_t phase;        /* dist_phase_t */
    uint8_t verb;         /* kvs_verb_t of what the phase EXCHANGE does */
    int32_t priority;     /* the call's, or that of a later one of this key */
    bool failed;          /* the operation has its error */
    bool reads;           /* `source` is the caller's */
    uint16_t codec;       /* which set_gradient_compression packed `source`; 0: none */
    uint32_t optimizer;   /* which set_optimizer the update is for; 0: none */
    uint32_t attrs;       /* and which attributes it has */
    kvs_status_t refused; /* not 0: there is nothing to push, and servers are told why */
    char *refusal;
    int64_t round;
    const char *source; /* what is sent; NULL if there are no elements */
    void *sum;          /* the memory of `source`, if it is ours */
    size_t n_sum_bytes;
    bool counted; /* among those that wait */
    char *result; /* what was pulled, if it can't be written at once */
    size_t n_result_bytes;
    dist_rows_t *rows; /* NULL: dense */
    dist_request_t *requests;
    dist_request_t one; /* memory of `requests` where one is enough */
    uint32_t n_requests;
    uint32_t n_left; /* that have not ended */
};

struct dist_op {
    kvs_op_t *pub;
    dist_worker_t *worker;
    dist_op_t *next;  /* among those to be settled */
    size_t n_left;    /* groups that have not ended */
    size_t n_reading; /* groups whose values are still being read */
    bool listed;      /* to be settled */
    bool issuing;     /* its verb runs: it does the settling */
    bool consumed;    /* the core was told */
    bool till_end;    /* the core is told no sooner than of the end */
    kvs_status_t status;
    size_t first_error; /* its place in the call's list */
    char *text;
};

typedef enum dist_key_state {
    DIST_KEY_NEW,
    DIST_KEY_WAITING,
    DIST_KEY_READY,
    DIST_KEY_GOING /* a delete has begun: servers may have heard of it */
} dist_key_state_t;

struct dist_key {
    kvs_hoststore_key_t
        host;              /* first: of a store in process; `opt` also counts a worker's updates */
    dist_worker_t *worker; /* NULL: never seen */
    dist_key_t *prev, *next; /* of the worker's */
    uint8_t state;           /* dist_key_state_t */
    dist_record_t record;
    uint64_t digest;
    int64_t generation;              /* how many keys of this name were deleted before */
    uint32_t n_gone;                 /* GOING: shards whose servers have answered */
    int64_t n_rounds;                /* pushes started */
    kvs_devhost_residual_t residual; /* of compression, where devices push */
    bool was_pushed;                 /* issued; from then on it keeps its codec */
    uint16_t codec;
    uint32_t n_pushes;          /* started and not over */
    uint32_t n_queued;          /* its requests that have messages to send, */
    int32_t queued_priority;    /* all of which have at least this priority */
    dist_group_t *first, *last; /* groups that wait for their turn */
    dist_group_t *current;      /* of them, the init or broadcast that has begun */
    bool advancing;
    kvs_status_t told; /* an error of another rank, for the next use */
    char *told_text;
    void *spare; /* memory for a sum; as large as the array */
    size_t n_spare_bytes;
};

/* What a call that waits asks one server. */
typedef struct dist_ask {
    uint32_t server;
    dist_header_t header; /* the kind, and what belongs to it */
    const void *body;
    size_t n_body;
    dist_bytes_t *reply;  /* NULL, or what the answer's body is added to */
    dist_header_t answer; /* its header */
} dist_ask_t;

struct dist_call {
    dist_request_t request;
    dist_ask_t *ask;
    bool done;
    kvs_status_t status;
    char *text;
};

/* What is to be sent to a server. */
typedef struct dist_wire {
    dist_queue_t queue;
    dist_batch_t batch; /* small messages that go together */
    bool by_socket;     /* fixed: not through shared memory */
    bool pumping;
    bool lets_wait; /* what is put together stays so, for a moment */
    bool full;      /* until an event tells that there is room */
} dist_wire_t;

typedef struct dist_slot {
    dist_request_t *request; /* NULL: free */
    uint32_t generation;
    uint32_t next_free;
} dist_slot_t;

struct dist_worker {
    /* fixed after open */
    kvs_net_node_t *node;
    kvs_net_store_t *net;
    _Atomic uint32_t number; /* the store's, of all processes; 0 until it is opened, when events may
                              * already come */
    char *type;
    int rank, n_workers, n_servers;
    bool is_async;
    int64_t timeout_ms; /* 0: for ever */
    int64_t cut_elems;
    int64_t slice; /* elements of a part at most; 0: as many as fit */
    /* changed by calls that the core lets in one at a time */
    kvs_opt_t *opt;
    uint32_t n_optimizers;          /* calls of set_optimizer that succeeded */
    uint32_t attrs;                 /* digest of the calls of set_optimizer_attr since; 0: none */
    kvs_compression_t *compression; /* NULL: values go as they are */
    uint16_t n_codecs;              /* calls of set_gradient_compression that succeeded */
    uint64_t last_id;               /* rank 0: of keys */
    dist_map_t deleted;             /* by hash of a name: how many keys of it were deleted */
    int64_t n_loads;                /* of files of states, that succeeded */
    int64_t n_load_tries;
    uint64_t *loads; /* rank 0: bytes placed on each server */

    pthread_mutex_t lock;
    pthread_cond_t changed; /* a call is done, or no operation is left */
    dist_key_t *keys;       /* from here on guarded by lock */
    dist_wire_t *wires;     /* to each server */
    uint32_t n_holds;       /* more to be sent is coming: messages are put together */
    bool passes_by;         /* the I/O thread will soon send what was put together */
    uint64_t last_order;    /* of the operations issued */
    dist_slot_t *slots;     /* of requests that wait for an answer */
    uint32_t n_slots, first_free;
    uint64_t n_waiting_bytes; /* of sums that are not sent yet */
    dist_request_t *parked;
    bool is_called; /* the I/O thread is to look at them */
    dist_op_t *to_settle;
    size_t n_ops;         /* begun and not ended */
    kvs_status_t failure; /* nothing works any more */
    char *failure_text;
    kvs_status_t told; /* an error of another rank, for the next operation */
    char *told_text;
    _Atomic bool cancelled; /* set by anyone; waiters look at it at each tick */
};

/* ---- dist_worker.c ------------------------------------------------------------------------------- */

typedef struct dist_worker_args {
    kvs_net_node_t *node;
    const char *type;
    int64_t timeout_ms;
    int64_t cut_elems;
    int64_t slice;
} dist_worker_args_t;

kvs_status_t dist_worker_new(const dist_worker_args_t *args, dist_worker_t **ret_worker);
/* Open it together with the other workers; `loaded` as in kvs_open_args_t. On failure it is to be freed. */
kvs_status_t dist_worker_open(dist_worker_t *worker, const char *loaded);
/* Frees it, whatever it returns. No event comes any more. Not on the I/O thread. */
kvs_status_t dist_worker_close(dist_worker_t *worker, int64_t timeout_ms);
void dist_worker_free(dist_worker_t *worker); /* one that was never opened */
void dist_worker_key_release(dist_worker_t *worker, kvs_key_entry_t *key);

/* As in kvs_backend_ops_t. */
kvs_status_t dist_worker_issue(dist_worker_t *worker, kvs_op_t *op);
kvs_status_t dist_worker_run(dist_worker_t *worker, kvs_op_t *op);

/* Make all calls that wait return soon. Safe in a signal handler. */
void dist_worker_cancel(dist_worker_t *worker);
/* Wait until every operation issued so far has ended; what became of it is told elsewhere. ERR_TIMEOUT. */
kvs_status_t dist_worker_drain(dist_worker_t *worker);

/* On the I/O thread: a node has left in good order; one has died, or the job is over for us; time
 * passes. */
void dist_worker_lose(dist_worker_t *worker, const kvs_net_peer_t *peer, const char *text);
void dist_worker_fail(dist_worker_t *worker, kvs_status_t status, const char *text);
void dist_worker_tick(dist_worker_t *worker);
/* An error of another rank, of this key or, if it is 0, of the store. */
void dist_worker_tell(dist_worker_t *worker, uint64_t key, kvs_status_t status, const char *text);

/* Release the lock, then tell the core what happened under it. I/O thread. */
void dist_worker_settle(dist_worker_t *worker);
/* The group's requests have all ended. Lock held, as for those below. */
void dist_group_ended(dist_group_t *group);
/* Nothing of the caller's values is needed any more. */
void dist_group_has_read(dist_group_t *group);
void dist_group_fail(dist_group_t *group, kvs_status_t status, const char *text);

/* Write the sum of a group's values, in list order. */
kvs_status_t dist_group_sum(const kvs_group_t *pub, void *sum);
/* Memory for n_bytes that are sent, in `group->sum`: the key's spare, or new. Where much waits already, the
 * group `reads` until it is sent. */
kvs_status_t dist_group_take_memory(dist_group_t *group, size_t n_bytes);

/* Put the key's name before this thread's text. */
kvs_status_t dist_name_key(kvs_status_t status, const kvs_key_entry_t *key);

/* ---- dist_result.c ------------------------------------------------------------------------------- */

/* Write elements [first, first + n) of the array to the group's outs. Without the lock, as the
 * others of this file. */
void dist_group_write(const dist_group_t *group, int64_t first, int64_t n, const void *data);
/* Arrays of the call share memory: everything has been read and pulled, now outs are written in the
 * order of the call. */
void dist_op_write_shared_outs(dist_op_t *op);
/* Each out of a row_sparse_pull gets its ids. */
void dist_op_write_row_ids(const dist_op_t *op);
void dist_op_release_results(dist_op_t *op);

/* ---- dist_sparse.c ------------------------------------------------------------------------------- */

/* Of an op that is issued: what row-sparse keys don't do. */
kvs_status_t dist_sparse_issue(const kvs_op_t *op);
/* The group's values; with `once` each row once, else a single value as it is. */
kvs_status_t dist_sparse_read_values(dist_group_t *group, bool once);
/* The ids asked for. With `shared` nothing is written before the end. */
kvs_status_t dist_sparse_read_ids(dist_group_t *group, bool shared);
void dist_sparse_release(dist_group_t *group);
/* Share the rows out to the group's requests. If it fails, so does the group. Lock held. */
bool dist_sparse_split(dist_group_t *group);
/* How many rows the next part has; make its body. */
int64_t dist_sparse_part(const dist_request_t *request);
kvs_status_t dist_sparse_make_body(dist_request_t *request);
/* Rows that came are written; at the end each out gets its ids, and its rows if they had to wait. */
void dist_sparse_write(const dist_group_t *group, int64_t first, int64_t n, const void *data);
void dist_sparse_write_out(const dist_group_t *group, size_t out);

/* ---- dist_pack.c --------------------------------------------------------------------------------- */

/* Of an op that is issued: can its values be packed, and have its keys been pushed in another way?
 * `compression` NULL, `codec` 0: none. With `op` a push its keys keep the codec. */
kvs_status_t dist_pack_issue(const kvs_compression_t *compression, uint16_t codec,
                             const kvs_op_t *op);
/* Pack the group's sum: it is what is sent. What can't be packed makes a group that refuses. */
kvs_status_t dist_pack_values(dist_group_t *group);
/* Bytes of `n` elements as they are sent, n a multiple of what can be packed, or the end. */
size_t dist_pack_bytes(const dist_group_t *group, int64_t n);

/* ---- dist_request.c ------------------------------------------------------------------------------ */

/* Give the request a number and put it in its server's queue. */
void dist_request_start(dist_request_t *request);
/* What waits of this key is sent with at least this priority: something urgent waits behind it. */
void dist_requests_raise(dist_worker_t *worker, dist_key_t *key, int32_t priority);
/* Take it out of its queue: its memory goes. Only a call's, whose messages are copied. */
void dist_request_withdraw(dist_request_t *request);
/* Begin to hold back what is to be sent; or end it, and send. Lock held. */
void dist_requests_hold(dist_worker_t *worker);
void dist_requests_let_go(dist_worker_t *worker);
/* The same for what nobody waits for: small messages of calls in a row may go together. */
void dist_requests_let_go_soon(dist_worker_t *worker);
/* Send what there is room for. I/O thread. */
void dist_requests_send(dist_worker_t *worker, int server);
/* More elements have arrived from devices, or never will. Any thread. */
void dist_worker_arrived(dist_worker_t *worker);
/* Fail every request to this server; -1: to all. */
void dist_requests_fail(dist_worker_t *worker, int server, kvs_status_t status, const char *text);
/* Fail those of one key; gives how many. */
size_t dist_requests_fail_key(dist_worker_t *worker, const dist_key_t *key, kvs_status_t status,
                              const char *text);
/* The group's init has failed: servers are to forget what they have of the key. */
void dist_requests_undo(const dist_group_t *group);
/* Fail those whose server has not moved for too long. */
void dist_requests_expire(dist_worker_t *worker);
/* A message of the store. I/O thread. */
void dist_worker_message(void *arg, kvs_net_message_t *message);

/* ---- dist_control.c ------------------------------------------------------------------------------ */

kvs_status_t dist_worker_set_optimizer(dist_worker_t *worker, const kvs_optimizer_spec_t *spec);
kvs_status_t dist_worker_set_optimizer_attr(dist_worker_t *worker, const kvs_param_t *attr);
kvs_status_t dist_worker_set_compression(dist_worker_t *worker, const kvs_param_t *params,
                                         size_t n_params);
kvs_status_t dist_worker_barrier(dist_worker_t *worker);
kvs_status_t dist_worker_send_command(dist_worker_t *worker, int head, const void *body,
                                      size_t n_bytes);
kvs_status_t dist_worker_num_dead_nodes(dist_worker_t *worker, const char *role, int64_t timeout_ms,
                                        int *ret_dead);
/* Without answers: this worker pushes no more. */
void dist_worker_say_closed(dist_worker_t *worker);
/* Send and wait for the answer, or for the store's deadline. */
kvs_status_t dist_worker_ask(dist_worker_t *worker, dist_ask_t *ask);
/* The same of several at once; the first failure counts. */
kvs_status_t dist_worker_ask_all(dist_worker_t *worker, dist_ask_t *asks, size_t n);
kvs_status_t dist_worker_join(dist_worker_t *worker, int *ret_last_rank);
kvs_status_t dist_worker_delete_keys(dist_worker_t *worker, kvs_key_entry_t *const *keys, size_t n);
/* How often a key of this name was deleted. */
int64_t dist_worker_generation(const dist_worker_t *worker, const dist_record_t *record);
/* The call's request has ended. Lock held. */
void dist_call_ended(dist_call_t *call, kvs_status_t status, const char *text);

/* ---- dist_states.c ------------------------------------------------------------------------------- */

kvs_status_t dist_worker_save_states(dist_worker_t *worker, const char *path, int dump_optimizer);
kvs_status_t dist_worker_load_states(dist_worker_t *worker, const char *path);

/* ---- small things -------------------------------------------------------------------------------- */

int64_t dist_now_ns(void);
/* Milliseconds that a call waits for peers: what the net takes for `timeout_ms`, in which 0 is for
 * ever. */
static inline int64_t dist_net_timeout(int64_t timeout_ms)
{
    return timeout_ms == 0 ? -1 : timeout_ms;
}
/* How long a server may be silent that is alive: it has the deadline itself, and tells more. */
int64_t dist_patience_ms(int64_t timeout_ms);

#endif
