/* SPDX-License-Identifier: Apache-2.0 */
/* devstore_rows.h - row-sparse arrays of keys whose weights are on devices. Ids are on the host, where unions
 * are worked out; devices are given lists of what to add, and the host waits for nothing but ids that
 * lie on a device, and rows that an update may have reached. */
#ifndef KVS_KIT_DEVSTORE_ROWS_H
#define KVS_KIT_DEVSTORE_ROWS_H

#include "devstore.h"

/* Whether the provider has kernels for rows. */
int kvs_dev_has_rows(const kvs_provider_t *provider);

/* ---- Pushes ----------------------------------------------------------------------------------------- */

/* What the values of a task, all row-sparse, say about each row. */
typedef struct kvs_dev_rows kvs_dev_rows_t;

/* ERR_RANGE: nothing was done. */
kvs_status_t kvs_dev_rows_open(const kvs_dev_task_t *task, kvs_dev_rows_t **ret_rows);
void kvs_dev_rows_close(kvs_dev_rows_t *rows); /* NULL does nothing */
/* Have on a part's device all that it needs: for all parts, before the first of them is worked on. */
kvs_status_t kvs_dev_rows_bring(kvs_dev_rows_t *rows, const kvs_dev_part_t *part);
/* A part's weight becomes the dense form of the sum. */
kvs_status_t kvs_dev_rows_replace(const kvs_dev_rows_t *rows, const kvs_dev_part_t *part);
/* The dense form of the sum, which is there until the rows are closed. */
kvs_status_t kvs_dev_rows_gradient(const kvs_dev_rows_t *rows, const kvs_dev_part_t *part,
                                   void **ret_gradient);
/* A step that changes only the rows of the sum. */
kvs_status_t kvs_dev_rows_step(const kvs_dev_rows_t *rows, const kvs_dev_part_t *part,
                               const kvs_step_item_t *step);
/* All parts have been given their work: the key has these rows now. */
void kvs_dev_rows_note(const kvs_dev_rows_t *rows);

/* ---- Pulls ------------------------------------------------------------------------------------------ */

/* Where an update may have reached rows that no push has listed, look for them, and wait. */
kvs_status_t kvs_dev_rows_settle(const kvs_dev_task_t *task);
/* Write the rows that the key has to the row-sparse outs of the task. */
kvs_status_t kvs_dev_rows_send(const kvs_dev_task_t *task);

/* A row_sparse_pull of one key: first the ids are read, then, all being right, the outs are written. */
typedef struct kvs_dev_rowpull kvs_dev_rowpull_t;

kvs_status_t kvs_dev_rowpull_open(const kvs_dev_task_t *task, kvs_dev_rowpull_t **ret_pull);
kvs_status_t kvs_dev_rowpull_run(const kvs_dev_rowpull_t *pull);
void kvs_dev_rowpull_close(kvs_dev_rowpull_t *pull); /* NULL does nothing */

/* ---- Both ------------------------------------------------------------------------------------------- */

/* The places of those of n ascending ids whose rows lie, at least with an element, in the part. */
typedef struct kvs_dev_row_range {
    int64_t first, end;
} kvs_dev_row_range_t;

kvs_dev_row_range_t kvs_dev_rows_of_part(const kvs_dev_part_t *part, int64_t row_elems, int64_t n,
                                         const int64_t *ids);

#endif
