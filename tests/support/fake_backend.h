/* SPDX-License-Identifier: Apache-2.0 */
/* fake_backend.h - backends made for tests of the core: they record what they are called with, and
 * block, fail or complete as they are told.
 *
 * A call is named by its verb and its first key: "push 3", "init w"; beside the verbs there are
 * "issue 3", "release 3" (key_release), "set_updater", "set_optimizer", "open", "close" and "cancel".
 * Values are real where they are dense float32. All functions: any thread. */
#ifndef FAKE_BACKEND_H
#define FAKE_BACKEND_H

#include "kt.h"
#include "threads.h"

#include <kvstore/abi.h>

#define FAKE               "fake"       /* blocking, keeps weights, has no pushpull nor broadcast */
#define FAKE_PLAIN         "fake_plain" /* blocking, keeps none; float32; pushpull and broadcast */
#define FAKE_ASYNC         "fake_async" /* asynchronous, keeps weights, has every verb */
#define FAKE_ASYNC_BARE    "fake_async_bare"    /* the same without pushpull and broadcast */
#define FAKE_ASYNC_PLAIN   "fake_async_plain"   /* asynchronous, keeps none */
#define FAKE_ASYNC_CANCELS "fake_async_cancels" /* as FAKE_ASYNC, and is told of a cancel */
#define FAKE_ASYNC_STORES  "fake_async_stores"  /* as FAKE_ASYNC_BARE, but only its stores say so */

/* First in each test: the backends are registered, and nothing is recorded, held, failing. */
void fake_begin(void);
/* A store of that type; KT_OK on the way. */
kvs_store_t *fake_open(const char *type);

/* ---- What was called ---- */

enum { FAKE_MAX_GROUPS = 8, FAKE_MAX_ARRAYS = 8 };

typedef struct fake_group {
    char key[64];
    const kvs_key_entry_t *entry;
    int64_t number;
    size_t n_values, n_outs, n_row_ids;
    /* their data */
    const void *values[FAKE_MAX_ARRAYS], *outs[FAKE_MAX_ARRAYS], *row_ids[FAKE_MAX_ARRAYS];
    size_t list_index;
    bool is_numbered; /* out_index was given */
    size_t out_index[FAKE_MAX_ARRAYS];
    bool was_zeroed; /* the group's state */
} fake_group_t;

typedef struct fake_call {
    char name[80]; /* "push 1+2": the keys of all groups */
    uint32_t flags;
    int32_t priority;
    uint64_t sequence;
    size_t n_groups;
    fake_group_t groups[FAKE_MAX_GROUPS];
    pthread_t thread;
} fake_call_t;

/* The verbs called so far, in order: "init 1, push 1". Static until next asked. */
const char *fake_calls(void);
/* One of them; the program ends if there are not so many. */
const fake_call_t *fake_call(size_t index);
/* How often a call of any kind was made. */
size_t fake_count(const char *call);
void fake_wait_count(const char *call, size_t n);

/* ---- What happens ---- */

/* Calls of this name block until fake_release. */
void fake_hold(const char *call);
void fake_release(const char *call);
/* Wait until one is blocked. */
void fake_wait_held(const char *call);
/* The next call of this name returns `status`. */
void fake_fail(const char *call, kvs_status_t status, const char *text);
/* Called by each close, before it returns. */
void fake_on_close(void (*fn)(void *arg), void *arg);
/* A user's updater that adds the sum to the stored value, as the call "updater 3". */
kvs_status_t fake_updater(const kvs_key_t *key, const kvs_tensor_t *value,
                          const kvs_tensor_t *stored, void *arg);

/* ---- Asynchronous ones ---- */

/* They complete within the verb's call; by default they keep what they are handed. */
void fake_complete_inside(bool inside);
/* Wait until an operation of this name is handed over. */
void fake_wait_handed(const char *call);
/* Consume, or carry out and complete, the oldest that is handed over. */
void fake_consume(const char *call);
void fake_complete(const char *call);
/* Complete it with an error. */
void fake_complete_failed(const char *call, kvs_status_t status, const char *text);

#endif
