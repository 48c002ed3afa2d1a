/* SPDX-License-Identifier: Apache-2.0 */
/* rows.h - what row-sparse arrays of an operation must satisfy beyond shape and dtype: storage that fits
 * the key's, and ids within its shape. */
#ifndef KVSI_ROWS_H
#define KVSI_ROWS_H

#include "op.h"

/* Numbers of row ids: one array, or one for each out, for each key of the list. */
kvs_status_t kvsi_rows_check_counts(const char *verb, const kvs_key_t *key, size_t n_outs,
                                    size_t n_row_ids);

/* Dense and row-sparse arrays stand where they may. `row_sparse`: the key is, or becomes so. ERR_STORAGE,
 * ERR_DTYPE: row ids that are no integers. */
kvs_status_t kvsi_rows_check_storage(const kvsi_op_t *op, const kvs_group_t *group,
                                     bool row_sparse);

/* The ids of all values, and those asked for, where they are in host memory; shapes are known to be
 * right. ERR_RANGE. Reads every id: not under the store's lock. */
kvs_status_t kvsi_rows_check_ids(const kvsi_op_t *op);

/* Bytes of a row-sparse array's ids and rows, `n_rows` of them. */
uint64_t kvsi_rows_bytes(const kvs_tensor_t *tensor, int64_t n_rows);

#endif
