/* SPDX-License-Identifier: Apache-2.0 */
/* dist_depot.h - what a server keeps of one store (a depot), of each of its keys (an entry), and the
 * rounds of pushes to them.
 *
 * dist_server.c takes messages in and hands them on; dist_entry.c has first values, pulls and answers,
 * dist_round.c the rounds, dist_norms.c the norms of arrays that are cut over servers,
 * dist_directory.c the names of keys and who holds them, dist_optimizers.c the optimizers, dist_async.c
 * what asynchronous stores do in place of rounds. Everything runs on the node's I/O thread: no locks. */
#ifndef DIST_DEPOT_H
#define DIST_DEPOT_H

#include "dist_batch.h"
#include "dist_command.h"
#include "dist_finite.h"
#include "dist_map.h"
#include "dist_message.h"
#include "dist_profile.h"
#include "dist_server.h"

#include <kvstore/kit.h>

#include <stdbool.h>

typedef struct dist_server dist_server_t;
typedef struct dist_depot dist_depot_t;
typedef struct dist_entry dist_entry_t;
typedef struct dist_name dist_name_t;
typedef struct dist_outs dist_outs_t;
typedef struct dist_loading dist_loading_t;

/* Something that waits, looked at as time passes. */
typedef struct dist_wait {
    struct dist_wait *prev, *next;
    bool listed;
    void (*look)(struct dist_wait *wait, int64_t now_ns);
} dist_wait_t;

void dist_wait_begin(dist_server_t *server, dist_wait_t *wait);
void dist_wait_end(dist_server_t *server, dist_wait_t *wait);

/* ---- Entries ----------------------------------------------------------------------------------------- */

/* One worker's push in a round. */
typedef struct dist_push {
    uint64_t request;
    int32_t priority;
    int64_t n_parts; /* that have come, in order; 0: none yet */
    bool wants_value;
    uint16_t codec;
    uint32_t optimizer, attrs;
    uint32_t states;
    double scalars[KVS_OPTIMIZER_MAX_SCALARS];
    kvs_net_message_t **parts; /* those not used yet; NULL others */
    bool refused;              /* there is none: the round fails */
    /* of a row-sparse push, which comes in parts of its own: */
    bool is_rows;
    int64_t n_rows, n_all_rows; /* that have come, of all */
    kvs_net_message_t **row_parts;
} dist_push_t;

typedef struct dist_round {
    struct dist_round *next; /* of an asynchronous store: among those that wait for their turn */
    int only;                /* of an asynchronous store: whose push it is; else -1 */
    int64_t begun_ns, latest_ns; /* the first and the last part so far */
    int64_t timeout_ms;          /* the shortest of the pushes'; 0: none */
    bool reported;
    bool settled;         /* what updates is known, and `update` is set */
    int64_t n_applied;    /* parts */
    kvs_status_t refusal; /* of the first that refused; its text */
    char *refusal_text;
    const kvs_compression_t *compression; /* of all pushes; NULL: none */
    kvs_opt_t *opt;
    kvs_opt_update_t update;
    bool summed;     /* the sum is there as a whole */
    uint32_t phase;  /* of norms, done so far */
    bool sums_sent;  /* of that phase */
    bool is_checked; /* it is finite, or nobody minds */
    bool verdict_sent;
    double verdict;       /* this server's, before it is sent */
    dist_push_t pushes[]; /* by rank */
} dist_round_t;

/* A pull that waits for a round to be over; or, of an asynchronous store, for states. */
typedef struct dist_pull {
    struct dist_pull *next;
    int worker;
    dist_header_t header;
    kvs_net_message_t *message; /* of PULL_ROWS: with the ids; owned */
} dist_pull_t;

/* Block sums from another server, for a round and phase that may be ahead of ours. */
typedef struct dist_sums {
    struct dist_sums *next;
    int64_t round;
    uint32_t phase;
    uint32_t server;
    size_t n;
    double numbers[];
} dist_sums_t;

/* What an asynchronous store has got of one worker, for one key. */
typedef struct dist_async_worker {
    int64_t n_ready;         /* pushes that have come as a whole */
    int64_t n_done;          /* of those, the ones that are over */
    dist_round_t *coming[2]; /* on their way: the push of number n is at n % 2 */
} dist_async_worker_t;

/* Whose push is next, said by the server of the first shard to the others of an array. */
typedef struct dist_turn {
    struct dist_turn *next;
    int worker;
    uint32_t optimizer;
} dist_turn_t;

typedef struct dist_async {
    dist_round_t *ready; /* pushes that wait for their turn, in order of arrival */
    dist_turn_t *turns; /* said and not taken yet, in order; not on the server of the first shard */
    dist_async_worker_t workers[]; /* by rank */
} dist_async_t;

typedef struct dist_part_state {
    dist_entry_t *entry;
    uint32_t n_readers; /* answers that are still read from the value's memory */
} dist_part_state_t;

/* How a worker's pushes of a key are counted. */
typedef struct dist_count {
    int64_t n_pushed; /* by the worker, as it counts */
    int64_t behind;   /* so many rounds it has not taken part in */
    bool deleted;     /* it has forgotten the key */
} dist_count_t;

struct dist_entry {
    dist_depot_t *depot;
    dist_record_t record;
    const dist_shard_t *shard; /* this server's, of the record */
    uint64_t digest;
    kvs_key_entry_t view; /* the shard, as the optimizer driver sees a key */
    int64_t view_shape[DIST_MAX_NDIM];
    bool cuts_rows;   /* the shard is part of an array and does not hold whole rows */
    bool cuts_blocks; /* or the array is cut between blocks of norms */
    int64_t row_elems, n_rows;
    size_t row_bytes;
    int64_t n_first; /* of a row-sparse array: rows of the first value */
    size_t elem_bytes, n_bytes;
    int64_t part_elems, n_parts;
    dist_part_state_t *parts;
    uint32_t n_readers; /* of all parts */
    void *weight;
    int64_t n_defined; /* elements, or rows, of the first value that have come */
    bool is_deleted;   /* by all; freed as soon as nothing is read any more */
    uint64_t define_request;
    bool defined;
    int64_t n_done;          /* rounds that are over */
    dist_round_t *rounds[2]; /* the current and the next; NULL: not begun */
    dist_count_t *counts;    /* by rank */
    dist_async_t *async;     /* NULL: the store is synchronous */
    bool applying, again;    /* of dist_round_go_on */
    int64_t failed_round;    /* the last that failed, and why */
    kvs_status_t failed_status;
    char *failed_text;
    dist_pull_t *pulls;
    uint32_t optimizer; /* which one the states belong to; 0: none */
    kvs_opt_key_t opt;
    kvs_opt_key_t loaded; /* from a file, not in force yet */
    int64_t load_try;     /* which try of rank 0's brought them */
    bool exchanges;       /* they are to be in force as soon as no update runs */
    void *merge;          /* the sum as a whole, where something needs it */
    dist_sums_t *sums;
    dist_wait_t wait;
};

kvs_status_t dist_entry_new(dist_depot_t *depot, const dist_header_t *header,
                            const kvs_net_message_t *message, dist_entry_t **ret_entry);
void dist_entry_free(dist_entry_t *entry);
/* Answer a request about the key with an error: "key 7: server 0: " and why. */
void dist_entry_refuse(const dist_entry_t *entry, int worker, uint64_t request, kvs_status_t status,
                       const char *why);
void dist_entry_take_value(dist_entry_t *entry, const dist_header_t *header,
                           const kvs_net_message_t *message);
/* Owns the message. */
void dist_entry_take_pull(dist_entry_t *entry, const dist_header_t *header,
                          kvs_net_message_t *message);
/* Elements of a part, and where they lie in the shard. */
int64_t dist_entry_part_elems(const dist_entry_t *entry, int64_t part);
void *dist_entry_part(const dist_entry_t *entry, void *array, int64_t part);
/* Send a part of the value; it stays as it is until it was received. */
void dist_entry_send_part(dist_entry_t *entry, int worker, uint64_t request, int32_t priority,
                          int64_t part);
/* Answer the pulls that waited for the rounds so far. */
void dist_entry_answer_pulls(dist_entry_t *entry);

/* ---- Rows ---------------------------------------------------------------------------------------------- */

void dist_rows_take_value(dist_entry_t *entry, const dist_header_t *header,
                          const kvs_net_message_t *message);
/* Why a part of a push can't be this key's, or NULL. */
const char *dist_rows_why_misfit(const dist_entry_t *entry, const dist_header_t *header,
                                 const kvs_net_message_t *message);
/* Add a part to its push, which then owns it. False: out of order, or no memory. */
bool dist_rows_add(dist_push_t *push, const dist_header_t *header, kvs_net_message_t *message);
void dist_rows_release(dist_push_t *push);
bool dist_rows_are_finite(const dist_entry_t *entry, const dist_push_t *push);
/* The rows of the current round's pushes in their dense form; or given to its optimizer, which changes
 * these rows only. Then they are released. */
kvs_status_t dist_rows_sum(dist_entry_t *entry, void *dense);
kvs_status_t dist_rows_step(dist_entry_t *entry);
/* Owns the message. */
void dist_rows_answer(dist_entry_t *entry, const dist_header_t *asked, kvs_net_message_t *message);

/* ---- Rounds ------------------------------------------------------------------------------------------ */

/* Owns the message. */
void dist_round_take_push(dist_entry_t *entry, const dist_header_t *header,
                          kvs_net_message_t *message);
/* A worker has no push for a round. */
void dist_round_take_refusal(dist_entry_t *entry, const dist_header_t *header,
                             const kvs_net_message_t *message);
/* Do what can be done of the current round, and of those after it. */
void dist_round_go_on(dist_entry_t *entry);
/* A worker is gone: rounds that need it fail. */
void dist_round_check_gone(dist_entry_t *entry);
/* The current round fails for those that pushed, and for the others when they do. */
void dist_round_fail(dist_entry_t *entry, kvs_status_t status, const char *text);
/* Free what has come of unfinished rounds. */
void dist_round_drop_all(dist_entry_t *entry);

/* Memory for a round, for the pushes of all workers or, if `only` is not negative, of that one. NULL: none. */
dist_round_t *dist_round_new(const dist_entry_t *entry, int only);
void dist_round_free(const dist_entry_t *entry, dist_round_t *round);
/* Why a part of a push can't be the key's, or NULL. */
const char *dist_round_why_misfit(const dist_entry_t *entry, const dist_header_t *header,
                                  const kvs_net_message_t *message);
/* Owns the message, the next part of this worker's push; unless it is not that, or there is no memory. */
bool dist_round_add_part(const dist_entry_t *entry, dist_round_t *round,
                         const dist_header_t *header, kvs_net_message_t *message);
/* Has all of this worker's push come? */
bool dist_round_is_whole(const dist_entry_t *entry, const dist_round_t *round, int worker);
/* A worker says that it has no push. */
void dist_round_add_refusal(const dist_entry_t *entry, dist_round_t *round,
                            const dist_header_t *header, const kvs_net_message_t *message);
/* It is the entry's current one now: its time runs. */
void dist_round_begin(dist_entry_t *entry);

/* Every push of the current round is there. */
bool dist_round_has_come(const dist_entry_t *entry);
/* The sum of a part, in order of rank, to `to`. */
void dist_round_sum_part(const dist_entry_t *entry, int64_t part, void *to);
/* The current round is over, for all its workers, and has changed nothing. */
void dist_round_end_unchanged(dist_entry_t *entry);
/* "key 7, round 3: " and the text. */
void dist_round_text(const dist_entry_t *entry, const char *text, char *ret_text, size_t n_bytes);

/* ---- Values that are not finite: dist_verdict.c ------------------------------------------------------------ */

/* The current round may be applied. False: not yet, or it is over. */
bool dist_verdict_passes(dist_entry_t *entry);

/* ---- Asynchronous stores: dist_async.c ------------------------------------------------------------------ */

kvs_status_t dist_async_new(dist_entry_t *entry);
void dist_async_free(dist_entry_t *entry);
/* As dist_round_take_push and _refusal. */
void dist_async_take_push(dist_entry_t *entry, const dist_header_t *header,
                          kvs_net_message_t *message);
void dist_async_take_refusal(dist_entry_t *entry, const dist_header_t *header,
                             const kvs_net_message_t *message);
void dist_async_take_turn(dist_entry_t *entry, const dist_header_t *header,
                          const kvs_net_message_t *message);
/* The next push whose turn it is becomes the current round: false if there is none. */
bool dist_async_begin(dist_entry_t *entry);
/* The current round is over. */
void dist_async_end(dist_entry_t *entry);

/* ---- Norms of arrays that are cut over servers --------------------------------------------------------- */

/* Go on with the phases of the current round, whose sum is `grad`: true when all are done. */
bool dist_norms_go_on(dist_entry_t *entry, const void *grad);
void dist_norms_take_sums(dist_entry_t *entry, const dist_header_t *header,
                          const kvs_net_message_t *message);
/* Tell the array's other servers `own`, and give the largest of all numbers: true when all are there. */
bool dist_norms_agree(dist_entry_t *entry, double own, double *ret_largest);
void dist_norms_drop(dist_entry_t *entry);

/* ---- Workers without more data: dist_join.c ---------------------------------------------------------------- */

typedef struct dist_join {
    uint64_t request; /* 0: has not joined */
    int64_t begun_ns, timeout_ms;
} dist_join_t;

void dist_join_take(dist_depot_t *depot, const dist_header_t *header, int worker);
/* A worker is gone: it won't join any more. */
void dist_join_check_gone(dist_depot_t *depot);
/* The round of the key that a worker means by its push of this number. */
int64_t dist_join_round(const dist_entry_t *entry, int worker, int64_t number);

/* ---- Keys that go: dist_delete.c --------------------------------------------------------------------------- */

void dist_delete_take(dist_entry_t *entry, const dist_header_t *header, int worker);
/* Its init has failed: nobody is to have it. */
void dist_delete_undo(dist_entry_t *entry);
/* Free the entry if everyone has deleted it, or is gone. */
void dist_delete_look(dist_entry_t *entry);

/* ---- The directory: on server 0 ---------------------------------------------------------------------- */

void dist_directory_publish(dist_depot_t *depot, const dist_header_t *header,
                            const kvs_net_message_t *message);
void dist_directory_look_up(dist_depot_t *depot, const dist_header_t *header,
                            const kvs_net_message_t *message);
/* Worker 0 is gone: nobody will publish any more. */
void dist_directory_check_gone(dist_depot_t *depot);
void dist_directory_free(dist_depot_t *depot);

/* ---- What all workers say alike ------------------------------------------------------------------------ */

/* The n-th call of a kind, as the first worker to arrive gave it. */
typedef struct dist_said {
    uint8_t *bytes; /* a specification */
    size_t n_bytes;
    int worker; /* whose call it was */
} dist_said_t;

kvs_status_t dist_said_keep(const kvs_net_message_t *message, dist_said_t *ret_said);
/* Does call `number` of this message say the same? If not, it is answered, and the others are told. */
bool dist_said_is_same(dist_depot_t *depot, const dist_said_t *said, const char *call,
                       uint32_t number, const dist_header_t *header,
                       const kvs_net_message_t *message);

/* ---- Optimizers and gradient compression ------------------------------------------------------------- */

typedef struct dist_optimizer {
    dist_said_t said;
    kvs_opt_t *opt;
} dist_optimizer_t;

typedef struct dist_codec {
    dist_said_t said;
    kvs_compression_t *compression;
} dist_codec_t;

void dist_optimizers_take(dist_depot_t *depot, const dist_header_t *header,
                          const kvs_net_message_t *message);
/* An attribute of an asynchronous store's optimizer changes. */
void dist_optimizers_take_attr(dist_depot_t *depot, const dist_header_t *header,
                               const kvs_net_message_t *message);
void dist_optimizers_free(dist_depot_t *depot);
void dist_codecs_take(dist_depot_t *depot, const dist_header_t *header,
                      const kvs_net_message_t *message);
void dist_codecs_free(dist_depot_t *depot);

/* ---- States of optimizers, out and in: dist_server_states.c ---------------------------------------------- */

/* Answer with a run of the states. */
void dist_states_answer(dist_entry_t *entry, const dist_header_t *asked, int worker);
void dist_states_send_optimizer(dist_depot_t *depot, const dist_header_t *header, int worker);
void dist_states_take_optimizer(dist_depot_t *depot, const dist_header_t *header,
                                const kvs_net_message_t *message);
void dist_states_take(dist_entry_t *entry, const dist_header_t *header,
                      const kvs_net_message_t *message);
void dist_states_load(dist_depot_t *depot, const dist_header_t *header, int worker);
/* No update runs: put loaded states in force, if that is to be. */
void dist_states_exchange(dist_entry_t *entry);
/* Worker 0 is gone: nobody will load. */
void dist_states_check_gone(dist_depot_t *depot);
void dist_states_free(dist_depot_t *depot);

/* ---- Depots ------------------------------------------------------------------------------------------ */

struct dist_depot {
    dist_depot_t *next;
    dist_server_t *server;
    dist_outs_t *outs; /* the server's */
    kvs_net_node_t *node;
    uint32_t number; /* the store's */
    int64_t slice;   /* elements of a part at most; 0: as many as fit */
    int rank;        /* the server's */
    int n_workers, n_servers;
    bool is_async;
    int64_t opened_ns;
    dist_nonfinite_t nonfinite;
    dist_join_t *joins; /* by rank */
    dist_wait_t join_wait;
    int64_t pushed_ns, pinged_ns; /* the last push of anyone, and the last word to those who wait */
    dist_map_t entries;           /* by id */
    dist_map_t names;             /* by hash, those of one hash in a list */
    dist_optimizer_t *optimizers; /* in order of set_optimizer */
    uint32_t n_optimizers;
    dist_codec_t *codecs; /* in order of set_gradient_compression */
    uint32_t n_codecs;
    kvs_opt_t *load_opt; /* of a file, not in force yet; NULL: none */
    int64_t load_opt_try;
    int64_t load_try; /* of the last load: which try, for which optimizer, with counts? */
    uint32_t load_optimizer;
    bool load_counts;
    int64_t n_loads;
    dist_loading_t *loadings; /* workers that wait for rank 0's */
    kvs_opt_t **replaced;     /* optimizers that a load has replaced */
    size_t n_replaced;
    char **closed;        /* by rank: NULL, or that this worker has closed the store */
    const void **sources; /* room for an array of each worker */
    void *scratch;        /* room for a part */
    uint32_t n_readers;   /* of all entries */
    bool is_closed;       /* freed as soon as nothing is read any more */
};

/* Why a worker pushes no more, or NULL. */
const char *dist_depot_why_gone(const dist_depot_t *depot, int worker);
/* "worker 3 (host a, pid 71)" */
const char *dist_depot_worker_label(const dist_depot_t *depot, int worker);
/* Send an answer; the body is copied. */
void dist_depot_answer(dist_depot_t *depot, int worker, const dist_header_t *header,
                       const void *body, size_t n_bytes);
/* Answer a request; `text` is sent if `status` is not 0. */
void dist_depot_send_done(dist_depot_t *depot, int worker, uint64_t request, kvs_status_t status,
                          const char *text);
void dist_depot_send_record(dist_depot_t *depot, int worker, uint64_t request,
                            const dist_record_t *record);
/* The answer to a request takes its time. */
void dist_depot_send_patience(dist_depot_t *depot, int worker, uint64_t request);
/* An error that `worker` didn't ask for; `key` 0: of the store. */
void dist_depot_tell(dist_depot_t *depot, int worker, uint64_t key, kvs_status_t status,
                     const char *text);
/* An answer's body is no longer read. */
void dist_depot_let_go(dist_depot_t *depot);

/* ---- Commands: dist_command.c ------------------------------------------------------------------------------ */

void dist_command_take(dist_depot_t *depot, const dist_header_t *header,
                       const kvs_net_message_t *message);
dist_commands_t *dist_server_lock_commands(dist_server_t *server);
/* And wake the thread that serves. */
void dist_server_unlock_commands(dist_server_t *server);
void dist_server_stop(dist_server_t *server);
dist_profile_t *dist_server_profile(dist_server_t *server);

/* ---- What a server shows: dist_status.c ---------------------------------------------------------------- */

/* As in kvs_net_server_args_t. */
uint64_t dist_status_show(void *arg, FILE *out);
const dist_depot_t *dist_server_depots(const dist_server_t *server); /* the first */
/* The current round waits for this worker. */
bool dist_round_lacks(const dist_entry_t *entry, int worker);

int64_t dist_now_ns(void);

#endif
