/* SPDX-License-Identifier: Apache-2.0 */
/* calls.h - operations of the core's tests: one key, one dense float32 array, in one line; with an
 * event; and on a thread of their own. */
#ifndef CALLS_H
#define CALLS_H

#include "fake_backend.h"

/* So many elements that an operation with an event goes to the pool. */
#define BIG ((int64_t)1 << 18)
/* Zeroed memory for that many; lives until the program ends, the same each time. */
float *big_array(void);

/* `data` is value, out, or both at once. With `ret_event` the call gives an event. */
kvs_status_t call_key(kvs_store_t *store, kvs_verb_t verb, kvs_key_t key, float *data,
                      int64_t n_elems, kvs_event_t **ret_event);
/* The same for an integer key, without an event. */
kvs_status_t call(kvs_store_t *store, kvs_verb_t verb, int64_t key, float *data, int64_t n_elems);
/* A list: array `i` is key `i`'s value, out, or both at once. At most 64 keys. */
kvs_status_t call_list(kvs_store_t *store, kvs_verb_t verb, const int64_t *keys, size_t n_keys,
                       float *const *data, int64_t n_elems, kvs_event_t **ret_event);
/* A key with a value of one element. */
void init_one(kvs_store_t *store, int64_t key, float value);
kvs_status_t push_one(kvs_store_t *store, int64_t key, float value);
/* The value, or NaN after a failed check. */
float pull_one(kvs_store_t *store, int64_t key);
/* A key with BIG zeros, and operations on it with an event. */
void init_big(kvs_store_t *store, int64_t key);
kvs_event_t *start_big(kvs_store_t *store, kvs_verb_t verb, int64_t key);

/* Wait for the event and free it. */
kvs_status_t finish(kvs_event_t *event);
int is_done(kvs_event_t *event);

/* A user's updater that adds the sum to the stored value. */
kvs_status_t add_updater(const kvs_key_t *key, const kvs_tensor_t *value,
                         const kvs_tensor_t *stored, void *arg);

/* A call on a thread of its own. */
typedef struct caller {
    kt_thread_t thread;
    kvs_store_t *store;
    kvs_verb_t verb;
    int64_t key;
    float *data;
    int64_t n_elems;
    kvs_status_t status; /* once joined */
    char text[256];
} caller_t;

void caller_start(caller_t *caller, kvs_store_t *store, kvs_verb_t verb, int64_t key, float *data,
                  int64_t n_elems);
/* Gives the call's status, with its text for this thread. */
kvs_status_t caller_join(caller_t *caller);

/* Wait until `n` threads sleep on the store. */
void wait_for_sleepers(kvs_store_t *store, uint32_t n);

#endif
