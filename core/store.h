/* SPDX-License-Identifier: Apache-2.0 */
/* store.h - what a store is inside the core, shared by the façade, the operations and the engine.
 *
 * Lock order: issue_lock, then lock, then the pool's. issue_lock serialises what must happen in
 * order of issue: numbering, the backend's issue(), an asynchronous backend's verbs. lock guards
 * keys, lanes and accounts; no backend code and no callback runs under it. */
#ifndef KVSI_STORE_H
#define KVSI_STORE_H

#include "config.h"
#include "keys.h"

#include <pthread.h>
#include <stdatomic.h>

struct kvsi_op;

struct kvs_store {
    /* fixed after create */
    char *type;
    const kvs_backend_t *backend;
    const kvs_backend_ops_t *ops;
    void *state; /* the backend's */
    kvs_config_t *config;
    int64_t timeout_ms; /* of a wait for other processes; 0: for ever */
    uint32_t n_forks;   /* kvsi_forks_count then */
    uint32_t mode;      /* KVS_BLOCKING or KVS_ASYNCHRONOUS */
    bool keeps_weights;

    atomic_size_t refs; /* the user's handle, and one for each operation that outlives its call */
    atomic_bool cancelled;
    _Atomic uint32_t epoch;     /* raised whenever a waiter might find what it waits for */
    _Atomic uint32_t n_waiters; /* in kvsi_futex_wait on `epoch` */

    pthread_mutex_t issue_lock;
    uint64_t sequence;     /* guarded by issue_lock */
    bool has_updater;      /* guarded by issue_lock: pushes go through the updater's lane */
    kvs_updater_t updater; /* the user's; changed under issue_lock while nothing runs */
    void *updater_arg;
    kvs_controller_t controller; /* the user's; changed before run_server */
    void *controller_arg;

    pthread_mutex_t lock;
    kvsi_keys_t keys; /* from here on guarded by lock */
    kvsi_lane_t updater_lane;
    size_t n_pending;                /* operations begun and not ended */
    struct kvsi_op *oldest, *newest; /* of those, in order of issue */
    struct kvsi_op *debts; /* ended with an error that nobody has been told, oldest first */
    kvs_stats_t stats;
    bool closed;     /* no handle any more: nobody will ask for debts */
    bool has_logged; /* an error that nobody was told */
};

/* Raise the epoch and wake who waits. With or without the lock; safe in a signal handler. */
void kvsi_store_wake(kvs_store_t *store);
/* Sleep until the epoch is no longer `seen`, or the deadline (kvsi_now_ns) has passed. */
void kvsi_store_sleep(kvs_store_t *store, uint32_t seen, int64_t deadline_ns);
/* How long the store's work is waited for; INT64_MAX: for ever. Longer than its time-out where the
 * backend keeps that itself, as its error names who did not come. */
int64_t kvsi_store_patience_ns(const kvs_store_t *store);
void kvsi_store_ref(kvs_store_t *store);
/* The last one frees the store, and first closes the backend if close could not: on a thread of its
 * own, later. */
void kvsi_store_unref(kvs_store_t *store);

/* ERR_STATE in a callback, in a forked child; ERR_CANCELLED. ERR_ARGUMENT for NULL. `what` is the
 * call, for the text. */
kvs_status_t kvsi_store_enter(const kvs_store_t *store, const char *what);
/* The same for waits, which may find that what they wait for was done before the cancel. */
kvs_status_t kvsi_store_enter_waiting(const kvs_store_t *store, const char *what);

/* The store was made before this process was forked off: its locks may be held by threads that are
 * not here, so nothing of it may be touched. */
bool kvsi_store_is_foreign(const kvs_store_t *store);

/* Callbacks of the user run between these two on their thread: kvsi_store_enter refuses there. */
void kvsi_callback_begin(void);
void kvsi_callback_end(void);

#endif
