/* SPDX-License-Identifier: Apache-2.0 */
/* hvd_table.h - worker 0's account of who has submitted what: finds the exchanges that all have submitted,
 * the ones about which workers disagree, and those that somebody does not submit in time.
 *
 * An exchange is known by its store, its key, and how many of that key came before it, so that workers may
 * submit keys in any order. What failed is remembered until everybody has asked for it: whoever comes
 * late gets the same error, and all are in step again. Knows nothing of messages: what is to be sent goes
 * to a sink. The caller locks. */
#ifndef HVD_TABLE_H
#define HVD_TABLE_H

#include "hvd_message.h"

typedef struct hvd_table hvd_table_t;

typedef struct hvd_table_sink {
    /* To worker `rank`. Messages to one worker must arrive in this order. */
    void (*send)(void *arg, int rank, uint8_t kind, const hvd_bytes_t *bytes);
    /* Something is late: a text for the log. */
    void (*warn)(void *arg, const char *text);
    /* "worker 3 (host a, pid 71)". */
    const char *(*label)(void *arg, int rank);
    void *arg;
} hvd_table_sink_t;

typedef struct hvd_table_args {
    int n_workers;
    uint64_t fusion_bytes; /* of small arrays in one exchange; 0: each goes by itself */
    uint32_t (*n_steps)(uint64_t n_bytes); /* as of hvd_engine_t */
    hvd_table_sink_t sink;
} hvd_table_args_t;

kvs_status_t hvd_table_new(const hvd_table_args_t *args, hvd_table_t **ret_table);
void hvd_table_free(hvd_table_t *table); /* NULL does nothing */

/* Worker `rank` asks. What `ask` points to is copied. `now_ms` is of any clock that only rises. */
void hvd_table_ask(hvd_table_t *table, int rank, const hvd_ask_t *ask, int64_t now_ms);
/* Worker `rank` has closed a store, or left the job: `text` says so. */
void hvd_table_close(hvd_table_t *table, int rank, uint32_t store);
void hvd_table_lose(hvd_table_t *table, int rank, const char *text);
/* Worker 0 has carried out an exchange: the next ones may begin. */
void hvd_table_done(hvd_table_t *table);
/* Look at the clock: warnings and deadlines. */
void hvd_table_tick(hvd_table_t *table, int64_t now_ms);

#endif
