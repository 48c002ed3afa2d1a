/* SPDX-License-Identifier: Apache-2.0 */
/* hvd_job.h - this process's part in its job: opened by its first store, kept for later ones, and left
 * in good order when the process ends. It asks worker 0 for exchanges, and has its engine carry out on one
 * thread, in order, what worker 0 says; in worker 0's process it also keeps the table of all. Used by
 * horovod and nccl, which have a job and an engine each.
 *
 * Lock order: the table's, then the job's. No call of the core is made under either. */
#ifndef HVD_JOB_H
#define HVD_JOB_H

#include "ar_group.h"
#include "hvd_message.h"

#include <stdatomic.h>

typedef struct hvd_job hvd_job_t;
typedef struct hvd_pending hvd_pending_t;

/* Something that was asked for, and is ended once by the job's thread. Embedded by its owner. */
struct hvd_pending {
    /* All workers take part in the exchange; `members` are ranks, `extra` as in hvd_go_item_t. Fills the
     * piece for a reduction or broadcast. */
    hvd_what_t what;
    int reduce;
    int root;
    int dtype;
    ar_piece_t piece;
    int64_t timeout_ms;
    const kvs_key_entry_t *key;   /* for the timeline; NULL: not in it */
    struct hvd_device *device;    /* NULL, or arrays on devices, for the engine nccl */
    const atomic_bool *cancelled; /* NULL, or its store's: it is ended soon where that is set */
    /* For the other kinds: carry it out. */
    kvs_status_t (*run)(hvd_pending_t *pending, hvd_job_t *job, const ar_party_t *party,
                        const int64_t *extra);
    void (*end)(hvd_pending_t *pending, kvs_status_t status, const char *text, int last_rank);
    /* Set by `run`: an error of this worker alone, with its text; the exchange has gone well. */
    kvs_status_t own;
    /* the job's */
    uint64_t ticket;
    int64_t asked_ms;
    int64_t asked_us; /* of the timeline */
};

/* Who carries exchanges. */
typedef struct hvd_engine {
    const char *name;    /* of the backend: "horovod"; jobs of different ones don't meet */
    const char *version; /* must be the same everywhere */
    /* How many numbers an exchange of so many bytes takes at most; NULL: one. See ar_party_t. */
    uint32_t (*n_steps)(uint64_t n_bytes);
    /* All workers are there. What fails leaves nothing open. */
    kvs_status_t (*open)(hvd_job_t *job, const void *options, void **ret_state);
    /* Carry out an exchange of `n` items, on the job's thread. An error, with its text, ends the job. */
    kvs_status_t (*run)(void *state, hvd_pending_t *const *pending, size_t n, const hvd_go_t *go);
    /* NULL, or: what hvd_job_send of another worker has sent. On the I/O thread. */
    void (*message)(void *state, hvd_view_t view);
    /* `is_over`: the job has failed, not all take part in its end. */
    void (*close)(void *state, bool is_over);
} hvd_engine_t;

typedef struct hvd_job_options {
    const hvd_engine_t *engine;
    const void *engine_options;
    uint64_t fusion_bytes;
    const char *timeline; /* "": none */
} hvd_job_options_t;

/* Join the job of `settings`, or use the one that is there. Waits until everyone is there. ERR_STATE:
 * this process belongs to another job, or is another worker, already. */
kvs_status_t hvd_job_get(const kvs_net_settings_t *settings, const hvd_job_options_t *options,
                         hvd_job_t **ret_job);
/* A store of this process begins and ends to use it. */
void hvd_job_use(hvd_job_t *job);
void hvd_job_unuse(hvd_job_t *job);

kvs_net_node_t *hvd_job_node(const hvd_job_t *job);
const kvs_net_settings_t *hvd_job_settings(const hvd_job_t *job);
void *hvd_job_engine(const hvd_job_t *job); /* its state */
/* 0, or why the job is over, with its text. */
kvs_status_t hvd_job_check(hvd_job_t *job);
bool hvd_job_has_failed(const hvd_job_t *job);

/* Ask worker 0 for an exchange. `pending` must stay until it is ended, which also happens when
 * something fails. ERR_NO_MEMORY, ERR_CANCELLED, or as hvd_job_check: it will not be ended. */
kvs_status_t hvd_job_ask(hvd_job_t *job, hvd_pending_t *pending, hvd_ask_t *ask);
/* Wait for it no more. False: it is being ended, or has been. */
bool hvd_job_give_up(hvd_job_t *job, const hvd_pending_t *pending);
/* This process has closed a store. */
void hvd_job_say_closed(hvd_job_t *job, uint32_t store);

/* Open a store together with all workers, whose `args` must agree. */
kvs_status_t hvd_job_open_store(hvd_job_t *job, const kvs_open_args_t *args, int64_t timeout_ms,
                                kvs_net_store_t **ret_store);
/* To the engine of another worker. Who can't be reached is dead or has left, which ends the job. */
void hvd_job_send(hvd_job_t *job, int rank, const hvd_bytes_t *bytes);
/* An exchange has failed, after its end or on another thread: the job is over for all workers. */
void hvd_job_fail(hvd_job_t *job, kvs_status_t status, const char *text);

int64_t hvd_now_ms(void);

#endif
