/* SPDX-License-Identifier: Apache-2.0 */
/* misuse.h - a `local` store in a known state, to be misused, and the proof that nothing was done:
 * its one key still has its value, its counts have not moved, and it still works. */
#ifndef MISUSE_H
#define MISUSE_H

#include "kt.h"

/* The store's key 3 is float32, shape (2, 3), with the values 1 2 3 4 5 6. */
#define MISUSE_KEY 3
#define MISUSE_N   6
extern const int64_t misuse_shape[2];

kvs_store_t *misuse_create(const char *type);
kvs_store_t *misuse_open(void);
/* The same with the string key "w". */
kvs_store_t *misuse_open_str(void);

/* One operation on one key, without an event. */
kvs_status_t misuse_init(kvs_store_t *store, kvs_key_t key, kvs_tensor_t value);
kvs_status_t misuse_push(kvs_store_t *store, kvs_key_t key, kvs_tensor_t value);
kvs_status_t misuse_pull(kvs_store_t *store, kvs_key_t key, kvs_tensor_t out);

/* The key's value is `want`. */
void misuse_check(kvs_store_t *store, kvs_key_t key, const float *want, int64_t n);
/* Nothing was done to a store of misuse_open or misuse_open_str, and it works; then close it. */
void misuse_close_untouched(kvs_store_t *store);
/* It still creates a key, pushes and pulls; then close it, without error. `key` is of its type. */
void misuse_close_working(kvs_store_t *store, kvs_key_t fresh_key);

#endif
