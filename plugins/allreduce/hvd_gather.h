/* SPDX-License-Identifier: Apache-2.0 */
/* hvd_gather.h - exchanges in which workers give arrays of different lengths: allgather, and sums of
 * row-sparse values, for which all rows go to all. Each member in turn gives its own to the others. */
#ifndef HVD_GATHER_H
#define HVD_GATHER_H

#include "hvd_job.h"

/* Broadcast `n` elements of each member: those of member `m` (of the party) begin at `at[m]`, where this
 * process's own lie already. Raises `io_number` as far as all members do. */
kvs_status_t hvd_gather_run(hvd_job_t *job, const ar_party_t *party, uint32_t *io_number, int dtype,
                            const int64_t *n, void *const *at);

/* The rows of a worker, summed: a row-sparse tensor with memory of its own. */
typedef struct hvd_rows {
    kvs_tensor_t tensor; /* its rows are these */
    kvs_rows_t rows;
} hvd_rows_t;

kvs_status_t hvd_rows_make(const kvs_group_t *group, hvd_rows_t *ret_rows);
void hvd_rows_release(hvd_rows_t *rows); /* empties it */

/* Exchange this worker's `rows`, of which the members have `n_rows`, and write the union's sums, or with
 * `reduce` averages, to `group`'s outs. `ret_own`: what is wrong with an out here, with its text; the
 * exchange itself has gone well. A party of one needs no job. */
kvs_status_t hvd_rows_run(hvd_job_t *job, const ar_party_t *party, const hvd_rows_t *rows,
                          const int64_t *n_rows, int reduce, const kvs_group_t *group,
                          kvs_status_t *ret_own);

#endif
