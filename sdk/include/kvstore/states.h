/* SPDX-License-Identifier: Apache-2.0 */
/* states.h - optimizer states in files, for stores and for whoever else has keys with states.
 *
 * A file is what any safetensors reader opens: a tensor STATE/KEY for each state of each key, residualN/KEY
 * for what compression still owes of the values in place N, and notes about the keys and, if the optimizer was
 * saved with them, about the optimizer. Loading checks all of it before it changes anything. Nothing here runs
 * while updates do. */
#ifndef KVSTORE_STATES_H
#define KVSTORE_STATES_H

#include <kvstore/compression.h>
#include <kvstore/optimizer.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A key, what an optimizer keeps for it, and what compression does. */
typedef struct kvs_opt_item {
    const kvs_key_entry_t *key;
    kvs_opt_key_t *state;
    kvs_residuals_t *residuals; /* NULL: nothing here compresses; those of a file are passed over */
} kvs_opt_item_t;

/* Write the states and residuals of all items to `path`, in place of what was there once the whole is on the disk; with
 * `dump_optimizer` also the optimizer: hyper-parameters, multipliers, names, counts, schedule and its
 * position, product. Keys that have none of it are left out. ERR_IO: path and cause; the old file stays. */
kvs_status_t kvs_opt_save(const kvs_opt_t *opt, const kvs_opt_item_t *items, size_t n_items,
                          const char *path, int dump_optimizer);

typedef struct kvs_opt_file kvs_opt_file_t;

/* Open a file and read everything but its tensors. ERR_NOT_FOUND, ERR_IO; ERR_FORMAT: foreign, damaged,
 * truncated, or written by a later version. Ended by close. */
kvs_status_t kvs_opt_file_open(const char *path, kvs_opt_file_t **ret_file);
void kvs_opt_file_close(kvs_opt_file_t *file); /* NULL does nothing */

/* The keys of which it has states or counts: number or name, dtype and shape of the weight; `state` is
 * NULL. They live until close. */
size_t kvs_opt_file_n_keys(const kvs_opt_file_t *file);
const kvs_key_entry_t *kvs_opt_file_key(const kvs_opt_file_t *file, size_t index);

/* Give every item the states and residuals it has in the file, and none to those that are not in it. If the optimizer
 * was saved, it takes the place of *io_opt, which is freed, and counts are replaced too; else the states
 * must be of the optimizer in *io_opt, which stays as it is. `items` are sorted here. On failure nothing has changed.
 * ERR_NOT_FOUND: a key of the file is not among the items; ERR_KEY_TYPE: keys are of the other type;
 * ERR_SHAPE, ERR_DTYPE: a weight differs; ERR_FORMAT: another optimizer, or damaged; ERR_NO_MEMORY. */
kvs_status_t kvs_opt_file_load(const kvs_opt_file_t *file, kvs_opt_t **io_opt,
                               kvs_opt_item_t *items, size_t n_items);

/* ---- Between processes --------------------------------------------------------------------------------- */

/* An optimizer with its parameters, multipliers, names, counts that belong to no key, and schedule, as bytes to be
 * freed; and one like it from such bytes. ERR_FORMAT: they are no such bytes; errors of kvs_opt_new. */
kvs_status_t kvs_opt_pack(const kvs_opt_t *opt, char **ret_bytes, size_t *ret_n);
kvs_status_t kvs_opt_unpack(const char *bytes, size_t n, kvs_opt_t **ret_opt);

/* ---- Without a store --------------------------------------------------------------------------------- */

/* Optimizers for the core to offer to workers: kvs_optimizer_create. The plugin `optimizers` names it in
 * its descriptor. */
extern const kvs_optimizer_service_t kvs_optimizer_service;

#ifdef __cplusplus
}
#endif
#endif
