/* SPDX-License-Identifier: Apache-2.0 */
/* hvd_job.h - this process's part in its job: opened by its first store, kept for later ones, and left
 * in good order when the process ends. It asks worker 0 for exchanges, and carries out on one thread,
 * in order, what worker 0 says; in worker 0's process it also keeps the table of all.
 *
 * Lock order: the table's, then the job's. No call of the core is made under either. */
#ifndef HVD_JOB_H
#define HVD_JOB_H

#include "hvd_message.h"
#include "hvd_quick.h"

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
    const kvs_key_entry_t *key; /* for the timeline; NULL: not in it */
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

typedef struct hvd_job_options {
    uint64_t fusion_bytes;
    const char *engine;      /* "auto", "shm" or "mpi" */
    const char *mpi_library; /* libmpi.so.40 */
    const char *timeline;    /* "": none */
} hvd_job_options_t;

/* Join the job of `settings`, or use the one that is there. Waits until everyone is there. ERR_STATE:
 * this process belongs to another job, or is another worker, already. */
kvs_status_t hvd_job_get(const kvs_net_settings_t *settings, const hvd_job_options_t *options,
                         hvd_job_t **ret_job);
/* A store of this process begins and ends to use it. */
void hvd_job_use(hvd_job_t *job);
void hvd_job_unuse(hvd_job_t *job);

kvs_net_node_t *hvd_job_node(const hvd_job_t *job);
hvd_quick_t *hvd_job_quick(const hvd_job_t *job); /* NULL: not on this job's engine */
/* 0, or why the job is over, with its text. */
kvs_status_t hvd_job_check(hvd_job_t *job);

/* Ask worker 0 for an exchange. `pending` must stay until it is ended, which also happens when
 * something fails. ERR_NO_MEMORY, or as hvd_job_check: it will not be ended. */
kvs_status_t hvd_job_ask(hvd_job_t *job, hvd_pending_t *pending, hvd_ask_t *ask);
/* Wait for it no more. False: it is being ended, or has been. */
bool hvd_job_give_up(hvd_job_t *job, const hvd_pending_t *pending);
/* This process has closed a store. */
void hvd_job_say_closed(hvd_job_t *job, uint32_t store);

/* Carry out an exchange among the members of a party with the job's engine: as in ar_group.h. On the
 * job's thread. */
kvs_status_t hvd_job_reduce(hvd_job_t *job, const ar_party_t *party, int reduce,
                            const ar_data_t *data);
kvs_status_t hvd_job_broadcast(hvd_job_t *job, const ar_party_t *party, int root,
                               const ar_data_t *data);

int64_t hvd_now_ms(void);

#endif
