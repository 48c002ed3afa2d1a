/* SPDX-License-Identifier: Apache-2.0 */
/* store.c - the public calls on a store: check the handle, then hand on; and a store's life. What
 * an operation does is in engine.c. */
#include "store.h"

#include "engine.h"
#include "forks.h"
#include "futex.h"
#include "identity.h"
#include "log.h"
#include "optimizer_spec.h"
#include "op.h"
#include "probe.h"
#include "registry.h"
#include "status.h"
#include "tensor.h"
#include "trace.h"

#include <ctype.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

/* ---- Forks and callbacks ----------------------------------------------------------------------- */

static _Thread_local int callback_depth;

bool kvsi_store_is_foreign(const kvs_store_t *store)
{
    return store->n_forks != kvsi_forks_count();
}

void kvsi_callback_begin(void)
{
    callback_depth++;
}

void kvsi_callback_end(void)
{
    callback_depth--;
}

/* ---- Entering ------------------------------------------------------------------------------------ */

/* The handle can be asked what it is: also in a callback. */
static kvs_status_t enter_reading(const kvs_store_t *store, const char *what)
{
    if (store == NULL) {
        return kvs_fail(KVS_ERR_ARGUMENT, "%s: the store is NULL", what);
    }
    if (kvsi_store_is_foreign(store)) {
        return kvs_fail(KVS_ERR_STATE,
                        "%s: the store was created before this process was forked; create one here",
                        what);
    }
    return KVS_OK;
}

kvs_status_t kvsi_store_enter_waiting(const kvs_store_t *store, const char *what)
{
    if (callback_depth > 0) {
        return kvs_fail(KVS_ERR_STATE,
                        "%s: not allowed in a callback, which may only ask for "
                        "type, rank, num_workers and is_capable",
                        what);
    }
    return enter_reading(store, what);
}

kvs_status_t kvsi_store_enter(const kvs_store_t *store, const char *what)
{
    kvs_status_t status = kvsi_store_enter_waiting(store, what);

    if (status == KVS_OK && atomic_load_explicit(&store->cancelled, memory_order_relaxed)) {
        return kvs_fail(KVS_ERR_CANCELLED, "%s: the store was cancelled", what);
    }
    return status;
}

static kvs_status_t enter_with(const kvs_store_t *store, const char *what, const void *argument,
                               const char *argument_name)
{
    kvs_status_t status = kvsi_store_enter(store, what);

    if (status == KVS_OK && argument == NULL) {
        return kvs_fail(KVS_ERR_ARGUMENT, "%s: %s is NULL", what, argument_name);
    }
    return status;
}

static kvs_status_t not_implemented(const kvs_store_t *store, const char *what)
{
    return kvs_fail(KVS_ERR_NOT_IMPLEMENTED, "not implemented: %s by %s", what,
                    store->backend->name);
}

/* ---- Waking and sleeping ------------------------------------------------------------------------- */

#define SPIN_NS 20000

void kvsi_store_wake(kvs_store_t *store)
{
    atomic_fetch_add(&store->epoch, 1); /* sequentially consistent, as is n_waiters */
    if (atomic_load(&store->n_waiters) > 0) {
        kvsi_futex_wake(&store->epoch, INT32_MAX);
    }
}

void kvsi_store_sleep(kvs_store_t *store, uint32_t seen, int64_t deadline_ns)
{
    int64_t spin_until = kvsi_now_ns() + SPIN_NS;

    while (atomic_load_explicit(&store->epoch, memory_order_acquire) == seen) {
        if (kvsi_now_ns() >= spin_until) {
            atomic_fetch_add(&store->n_waiters, 1);
            kvsi_futex_wait(&store->epoch, seen, deadline_ns);
            atomic_fetch_sub(&store->n_waiters, 1);
            return;
        }
        sched_yield();
    }
}

#define BACKEND_GRACE_MS 5000 /* the most by which a backend is late that sees work still moving */
#define BACKEND_LATE_MS  2000 /* until its word is here */

int64_t kvsi_store_patience_ns(const kvs_store_t *store)
{
    int64_t ms = store->timeout_ms;

    if (ms == 0 || ms > INT64_MAX / 4000000) {
        return INT64_MAX;
    }
    if (store->mode == KVS_ASYNCHRONOUS) {
        ms += (ms < BACKEND_GRACE_MS ? ms : BACKEND_GRACE_MS) +
              (ms < BACKEND_LATE_MS ? ms : BACKEND_LATE_MS);
    }
    return ms * 1000000;
}

void kvs_store_cancel(kvs_store_t *store)
{
    if (store != NULL) {
        atomic_store(&store->cancelled, true);
        kvsi_store_wake(store);
        if (store->ops->cancel != NULL) {
            store->ops->cancel(store->state);
        }
    }
}

/* ---- Life ---------------------------------------------------------------------------------------- */

void kvsi_store_ref(kvs_store_t *store)
{
    atomic_fetch_add_explicit(&store->refs, 1, memory_order_relaxed);
}

/* Nothing runs any more: let the backend go, keys first. */
static kvs_status_t close_backend(kvs_store_t *store)
{
    kvs_status_t status;

    for (kvsi_key_t *key = store->keys.all; key != NULL; key = key->next) {
        if (key->used && store->ops->key_release != NULL) {
            store->ops->key_release(store->state, &key->entry);
        }
    }
    status = store->ops->close(store->state, store->timeout_ms);
    free(store->state);
    store->state = NULL;
    return status;
}

static void free_store(kvs_store_t *store)
{
    kvsi_keys_release(&store->keys);
    kvsi_config_free(store->config);
    pthread_mutex_destroy(&store->lock);
    pthread_mutex_destroy(&store->issue_lock);
    free(store->state);
    free(store->type);
    free(store);
}

static void *close_late(void *arg)
{
    kvs_store_t *store = arg;

    if (close_backend(store) != KVS_OK) {
        kvsi_log(KVS_LOG_ERROR, "store", "closing '%s' late: %s", store->type, kvs_last_error());
    }
    free_store(store);
    return NULL;
}

/* The last operation of an abandoned store may have ended on a thread of its backend, which waits
 * for its threads in close: so that runs on one of its own. */
static void close_elsewhere(kvs_store_t *store)
{
    pthread_attr_t attributes;
    sigset_t all, before;
    pthread_t thread;

    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    sigfillset(&all); /* the program's signals are for its own threads */
    pthread_sigmask(SIG_BLOCK, &all, &before);
    if (pthread_create(&thread, &attributes, close_late, store) != 0) {
        kvsi_log(KVS_LOG_ERROR, "store", "no thread to close '%s': it is left open", store->type);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
}

void kvsi_store_unref(kvs_store_t *store)
{
    if (atomic_fetch_sub_explicit(&store->refs, 1, memory_order_acq_rel) != 1) {
        return;
    }
    if (store->state != NULL) {
        close_elsewhere(store);
    } else {
        free_store(store);
    }
}

static char *lower_case(const char *name)
{
    char *lower = strdup(name);

    for (char *c = lower; c != NULL && *c != '\0'; c++) {
        *c = (char)tolower((unsigned char)*c);
    }
    return lower;
}

static kvs_store_t *new_store(const char *name, const kvs_backend_t *backend, kvs_config_t *config)
{
    kvs_store_t *store = calloc(1, sizeof(*store));

    if (store == NULL) {
        return NULL;
    }
    store->type = lower_case(name);
    store->state = calloc(1, backend->ops->store_size + 1);
    if (store->type == NULL || store->state == NULL) {
        free(store->type);
        free(store->state);
        free(store);
        return NULL;
    }
    store->backend = backend;
    store->ops = backend->ops;
    store->config = config;
    store->timeout_ms = kvsi_config_time_ms(config, "timeout");
    store->n_forks = kvsi_forks_count();
    store->keeps_weights = (backend->capabilities & KVS_KEEPS_WEIGHTS) != 0;
    store->keys.state_bytes = backend->ops->key_size;
    atomic_init(&store->refs, 1);
    pthread_mutex_init(&store->issue_lock, NULL);
    pthread_mutex_init(&store->lock, NULL);
    return store;
}

static kvs_status_t call_open(kvs_store_t *store)
{
    kvsi_arena_t arena = KVSI_ARENA_INIT;
    const kvs_plugin_t *plugin = kvsi_registry_plugin_of(store->backend);
    kvs_open_args_t args = {.size = (uint32_t)sizeof(args),
                            .type = store->type,
                            .config = store->config,
                            .loaded =
                                kvsi_identity_text(&arena, plugin, store->backend, store->config)};
    kvs_status_t status = kvsi_arena_check(&arena);

    args.digest = kvsi_identity_digest(args.loaded);
    if (status == KVS_OK) {
        status = store->ops->open(store->state, &args);
    }
    if (status == KVS_OK) {
        store->mode = store->ops->store_mode == NULL ? store->ops->mode
                                                     : store->ops->store_mode(store->state);
    }
    kvsi_arena_release(&arena);
    return status;
}

static kvs_status_t open_backend(const char *name, const kvs_backend_t *backend,
                                 kvs_config_t *config, kvs_store_t **ret_store)
{
    kvs_store_t *store;
    kvs_status_t status;

    status = kvsi_probe(backend, config);
    if (status != KVS_OK) {
        return status;
    }
    store = new_store(name, backend, config);
    if (store == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for a store '%s'", name);
    }
    status = call_open(store);
    if (status != KVS_OK) {
        free(store->state);
        store->state = NULL;
        store->config = NULL; /* the caller's */
        free_store(store);
        return status;
    }
    *ret_store = store;
    return KVS_OK;
}

/* What a store's settings decide for the whole process: threads and trace are fixed by the first. */
static kvs_status_t set_up_process(const kvs_config_t *config)
{
    if (kvsi_config_is_given(config, "log")) {
        kvsi_log_set(kvsi_config_text(config, "log"));
    }
    kvsi_pool_set_threads(atoi(kvsi_config_text(config, "threads")));
    return kvsi_trace_open(kvsi_config_text(config, "trace"));
}

static kvs_status_t create(const char *name, const kvs_option_t *options, size_t n_options,
                           kvs_store_t **ret_store)
{
    const kvs_backend_t *backend;
    kvs_config_t *config;
    kvs_status_t status = kvsi_registry_find_backend(name, &backend);

    if (status != KVS_OK) {
        return status;
    }
    status = kvsi_config_new(backend, options, n_options, &config);
    if (status != KVS_OK) {
        return kvsi_fail_context(status, "create '%s'", name);
    }
    status = set_up_process(config);
    if (status == KVS_OK) {
        status = open_backend(name, backend, config, ret_store);
    }
    if (status != KVS_OK) {
        kvsi_config_free(config);
        return kvsi_fail_context(status, "create '%s'", name);
    }
    return KVS_OK;
}

/* No store is created while a backend that the operator calls required can't be had. */
static kvs_status_t check_required(kvsi_arena_t *arena)
{
    const char *list;
    kvs_status_t status = kvsi_config_lookup(arena, "required", &list);

    if (status == KVS_OK) {
        status = kvsi_probe_list(arena, list);
        if (status != KVS_OK) {
            return kvsi_fail_context(status, "create: a required backend can't be had");
        }
    }
    return status;
}

kvs_status_t kvs_store_create(const char *name, const kvs_option_t *options, size_t n_options,
                              kvs_store_t **ret_store)
{
    kvsi_arena_t arena = KVSI_ARENA_INIT;
    kvs_status_t status;

    kvsi_forks_watch();
    if (ret_store == NULL || (options == NULL && n_options > 0)) {
        return kvs_fail(KVS_ERR_ARGUMENT, "create: %s is NULL",
                        ret_store == NULL ? "ret_store" : "the list of options");
    }
    if (name != NULL && name[0] == '\0') {
        return kvs_fail(KVS_ERR_ARGUMENT, "create: the name is empty; for the default pass NULL");
    }
    if (callback_depth > 0) {
        return kvs_fail(KVS_ERR_STATE, "create: not allowed in a callback");
    }
    status = check_required(&arena);
    if (status == KVS_OK && name == NULL) {
        status = kvsi_config_lookup(&arena, "default", &name);
        if (status == KVS_OK && name[0] == '\0') {
            status = kvs_fail(KVS_ERR_ARGUMENT, "create: the setting \"default\" is empty");
        }
    }
    if (status == KVS_OK) {
        status = create(name, options, n_options, ret_store);
    }
    kvsi_arena_release(&arena);
    return status;
}

static int64_t deadline_after(int64_t timeout_ms)
{
    int64_t now = kvsi_now_ns();

    return timeout_ms < 0 || timeout_ms > (INT64_MAX - now) / 1000000 ? INT64_MAX
                                                                      : now + timeout_ms * 1000000;
}

/* The deadline of a store's own waits. */
static int64_t own_deadline(const kvs_store_t *store)
{
    int64_t patience = kvsi_store_patience_ns(store);

    return deadline_after(patience == INT64_MAX ? -1 : patience / 1000000);
}

#define CANCEL_GRACE_NS 2000000000 /* for what a backend ends when it is cancelled */

/* Whether an asynchronous backend has soon ended what was pending, so that it can be closed, and tell
 * the other processes so. What a blocking one runs may not end at all. */
static bool ends_when_cancelled(kvs_store_t *store)
{
    kvs_store_cancel(store);
    return store->mode == KVS_ASYNCHRONOUS && store->ops->cancel != NULL &&
           kvsi_engine_await_end(store, kvsi_now_ns() + CANCEL_GRACE_NS);
}

/* Close the backend; an error that close has found before comes first. */
static kvs_status_t close_backend_after(kvs_store_t *store, kvs_status_t status)
{
    char *text = status == KVS_OK ? NULL : strdup(kvs_last_error());
    kvs_status_t closed = close_backend(store);

    if (status != KVS_OK) {
        kvs_fail(status, "%s", text == NULL ? kvs_status_text(status) : text);
    }
    free(text);
    return status == KVS_OK ? closed : status;
}

kvs_status_t kvs_store_close(kvs_store_t *store)
{
    kvs_status_t status;
    bool is_left = false;

    if (store == NULL) {
        return KVS_OK;
    }
    status = kvsi_store_enter_waiting(store, "close");
    if (status != KVS_OK) {
        return status;
    }
    status = kvsi_engine_drain(store, own_deadline(store), "close");
    if (status == KVS_OK) {
        status = kvsi_engine_tell_debt(store, "close");
    } else if (!ends_when_cancelled(store)) {
        /* The operations that still run hold the store. */
        is_left = true;
        status = kvsi_fail_context(status, "the store was abandoned");
    }
    pthread_mutex_lock(&store->lock);
    store->closed = true;
    pthread_mutex_unlock(&store->lock);
    kvsi_engine_forgive(store);
    if (!is_left) {
        status = close_backend_after(store, status);
    }
    kvsi_store_unref(store);
    kvsi_trace_flush();
    return status;
}

kvs_status_t kvs_store_wait_all(kvs_store_t *store, int64_t timeout_ms)
{
    kvs_status_t status = kvsi_store_enter(store, "wait_all");

    if (status == KVS_OK) {
        status = kvsi_engine_drain(
            store, timeout_ms < 0 ? own_deadline(store) : deadline_after(timeout_ms), "wait_all");
    }
    return status != KVS_OK ? status : kvsi_engine_tell_debt(store, "wait_all");
}

/* ---- Operations ---------------------------------------------------------------------------------- */

/* Of a blocking backend without its own, a pushpull is a push and a pull, and where weights are kept
 * a broadcast is an init and a pull: the engine calls both. Of an asynchronous one each operation is
 * one call, ended once, so there is nothing to fill the gap. */
static bool has_verb(const kvs_store_t *store, kvs_verb_t verb)
{
    const kvs_backend_ops_t *ops = store->ops;
    bool may_call_two = store->mode == KVS_BLOCKING && ops->pull != NULL;

    switch (verb) {
    case KVS_VERB_INIT:
        return ops->init != NULL;
    case KVS_VERB_PUSH:
        return ops->push != NULL;
    case KVS_VERB_PULL:
        return ops->pull != NULL;
    case KVS_VERB_PUSHPULL:
        return ops->pushpull != NULL || (may_call_two && ops->push != NULL);
    case KVS_VERB_BROADCAST:
        return ops->broadcast != NULL ||
               (may_call_two && store->keeps_weights && ops->init != NULL);
    case KVS_VERB_ROW_SPARSE_PULL:
        return ops->row_sparse_pull != NULL;
    }
    return false;
}

static kvs_status_t operate(kvs_store_t *store, const kvsi_request_t *request)
{
    const char *verb = kvsi_verb_name(request->verb);
    bool needs_values = request->verb != KVS_VERB_PULL && request->verb != KVS_VERB_ROW_SPARSE_PULL;
    bool needs_outs = request->verb == KVS_VERB_PULL || request->verb == KVS_VERB_BROADCAST ||
                      request->verb == KVS_VERB_ROW_SPARSE_PULL;
    kvs_status_t status = kvsi_store_enter(store, verb);

    if (status != KVS_OK) {
        return status;
    }
    if (!has_verb(store, request->verb)) {
        return not_implemented(store, verb);
    }
    if (request->n_keys > 0 &&
        ((needs_values && request->values == NULL) || (needs_outs && request->outs == NULL) ||
         (request->verb == KVS_VERB_ROW_SPARSE_PULL && request->row_ids == NULL))) {
        return kvs_fail(KVS_ERR_ARGUMENT, "%s: the list of %s is NULL", verb,
                        needs_values && request->values == NULL ? "values"
                        : needs_outs && request->outs == NULL   ? "outs"
                                                                : "row ids");
    }
    if (request->verb == KVS_VERB_PUSHPULL && request->call != NULL &&
        request->call->size >= sizeof(kvs_call_t) && request->call->reduce != 0 &&
        (store->backend->capabilities & KVS_CAN_REDUCE) == 0) {
        return kvs_fail(KVS_ERR_NOT_IMPLEMENTED,
                        "not implemented: %s with a reduction other than the sum by %s", verb,
                        store->backend->name);
    }
    return kvsi_engine_run(store, request);
}

kvs_status_t kvs_store_init(kvs_store_t *store, const kvs_key_t *keys, size_t n_keys,
                            const kvs_arrays_t *values, const kvs_call_t *call)
{
    return operate(store, &(kvsi_request_t){KVS_VERB_INIT, keys, n_keys, values, NULL, NULL, call});
}

kvs_status_t kvs_store_push(kvs_store_t *store, const kvs_key_t *keys, size_t n_keys,
                            const kvs_arrays_t *values, const kvs_call_t *call)
{
    return operate(store, &(kvsi_request_t){KVS_VERB_PUSH, keys, n_keys, values, NULL, NULL, call});
}

kvs_status_t kvs_store_pull(kvs_store_t *store, const kvs_key_t *keys, size_t n_keys,
                            const kvs_arrays_t *outs, const kvs_call_t *call)
{
    return operate(store, &(kvsi_request_t){KVS_VERB_PULL, keys, n_keys, NULL, outs, NULL, call});
}

kvs_status_t kvs_store_pushpull(kvs_store_t *store, const kvs_key_t *keys, size_t n_keys,
                                const kvs_arrays_t *values, const kvs_arrays_t *outs,
                                const kvs_call_t *call)
{
    return operate(store,
                   &(kvsi_request_t){KVS_VERB_PUSHPULL, keys, n_keys, values, outs, NULL, call});
}

kvs_status_t kvs_store_broadcast(kvs_store_t *store, const kvs_key_t *keys, size_t n_keys,
                                 const kvs_arrays_t *values, const kvs_arrays_t *outs,
                                 const kvs_call_t *call)
{
    return operate(store,
                   &(kvsi_request_t){KVS_VERB_BROADCAST, keys, n_keys, values, outs, NULL, call});
}

kvs_status_t kvs_store_row_sparse_pull(kvs_store_t *store, const kvs_key_t *keys, size_t n_keys,
                                       const kvs_arrays_t *outs, const kvs_arrays_t *row_ids,
                                       const kvs_call_t *call)
{
    return operate(store, &(kvsi_request_t){KVS_VERB_ROW_SPARSE_PULL, keys, n_keys, NULL, outs,
                                            row_ids, call});
}

/* ---- Updaters, optimizers, compression ----------------------------------------------------------- */

/* What changes a store runs alone, after what was issued before it. Leaves issue_lock held on
 * success. */
static kvs_status_t begin_change(kvs_store_t *store, const char *what)
{
    kvs_status_t status;

    pthread_mutex_lock(&store->issue_lock);
    status =
        store->mode == KVS_BLOCKING ? kvsi_engine_drain(store, own_deadline(store), what) : KVS_OK;
    if (status != KVS_OK) {
        pthread_mutex_unlock(&store->issue_lock);
    }
    return status;
}

static void end_change(kvs_store_t *store)
{
    pthread_mutex_unlock(&store->issue_lock);
}

/* The user's updater, between the marks that keep it from using a store. */
static kvs_status_t call_updater(const kvs_key_t *key, const kvs_tensor_t *value,
                                 const kvs_tensor_t *stored, void *arg)
{
    const kvs_store_t *store = arg;
    kvs_status_t status;

    if (store->updater == NULL) {
        return kvs_fail(KVS_ERR_PLUGIN, "backend '%s' calls an updater that was removed",
                        store->backend->name);
    }
    kvsi_status_clear();
    kvsi_callback_begin();
    status = store->updater(key, value, stored, store->updater_arg);
    kvsi_callback_end();
    return status;
}

kvs_status_t kvs_store_set_updater(kvs_store_t *store, kvs_updater_t fn, void *arg)
{
    kvs_status_t status = kvsi_store_enter(store, "set_updater");

    if (status != KVS_OK) {
        return status;
    }
    if (store->ops->set_updater == NULL) {
        return not_implemented(store, "set_updater");
    }
    status = begin_change(store, "set_updater");
    if (status != KVS_OK) {
        return status;
    }
    status = store->ops->set_updater(store->state, fn == NULL ? NULL : call_updater, store);
    if (status == KVS_OK) {
        store->updater = fn;
        store->updater_arg = arg;
        store->has_updater = fn != NULL;
    }
    end_change(store);
    return status;
}

kvs_status_t kvs_store_set_optimizer(kvs_store_t *store, const kvs_optimizer_spec_t *spec)
{
    kvs_status_t status = enter_with(store, "set_optimizer", spec, "the optimizer");

    if (status != KVS_OK) {
        return status;
    }
    if (store->ops->set_optimizer == NULL) {
        return not_implemented(store, "set_optimizer");
    }
    status = kvsi_optimizer_spec_check(spec, "set_optimizer");
    if (status != KVS_OK) {
        return status;
    }
    status = begin_change(store, "set_optimizer");
    if (status != KVS_OK) {
        return status;
    }
    status = store->ops->set_optimizer(store->state, spec);
    if (status == KVS_OK) {
        store->has_updater = false;
        store->updater = NULL;
    }
    end_change(store);
    return status;
}

kvs_status_t kvs_store_set_optimizer_attr(kvs_store_t *store, const kvs_param_t *attr)
{
    kvs_status_t status = enter_with(store, "set_optimizer_attr", attr, "the attribute");

    if (status != KVS_OK) {
        return status;
    }
    if (store->ops->set_optimizer_attr == NULL) {
        return not_implemented(store, "set_optimizer_attr");
    }
    status = begin_change(store, "set_optimizer_attr");
    if (status == KVS_OK) {
        status = store->ops->set_optimizer_attr(store->state, attr);
        end_change(store);
    }
    return status;
}

kvs_status_t kvs_store_set_gradient_compression(kvs_store_t *store, const kvs_param_t *params,
                                                size_t n_params)
{
    kvs_status_t status =
        enter_with(store, "set_gradient_compression", params, "the list of parameters");

    if (status != KVS_OK) {
        return status;
    }
    if (store->ops->set_gradient_compression == NULL) {
        return not_implemented(store, "set_gradient_compression");
    }
    status = begin_change(store, "set_gradient_compression");
    if (status == KVS_OK) {
        status = store->ops->set_gradient_compression(store->state, params, n_params);
        end_change(store);
    }
    return status;
}

kvs_status_t kvs_store_save_optimizer_states(kvs_store_t *store, const char *path,
                                             int dump_optimizer)
{
    kvs_status_t status = enter_with(store, "save_optimizer_states", path, "the path");

    if (status != KVS_OK) {
        return status;
    }
    if (store->ops->save_optimizer_states == NULL) {
        return not_implemented(store, "save_optimizer_states");
    }
    status = begin_change(store, "save_optimizer_states");
    if (status == KVS_OK) {
        status = store->ops->save_optimizer_states(store->state, path, dump_optimizer);
        end_change(store);
    }
    return status;
}

kvs_status_t kvs_store_load_optimizer_states(kvs_store_t *store, const char *path)
{
    kvs_status_t status = enter_with(store, "load_optimizer_states", path, "the path");

    if (status != KVS_OK) {
        return status;
    }
    if (store->ops->load_optimizer_states == NULL) {
        return not_implemented(store, "load_optimizer_states");
    }
    status = begin_change(store, "load_optimizer_states");
    if (status == KVS_OK) {
        status = store->ops->load_optimizer_states(store->state, path);
        end_change(store);
    }
    return status;
}

/* ---- Keys that go ---------------------------------------------------------------------------------- */

/* The live keys of a list, each once. With `values`, they must have their layout. */
static kvs_status_t find_keys_locked(kvs_store_t *store, const char *what, const kvs_key_t *keys,
                                     size_t n_keys, const kvs_arrays_t *values,
                                     kvs_key_entry_t **found)
{
    for (size_t i = 0; i < n_keys; i++) {
        kvsi_key_t *key = kvsi_keys_find(&store->keys, &keys[i]);

        if (key == NULL || !key->live) {
            return kvs_fail(KVS_ERR_NOT_FOUND, "%s: key %s was never initialised", what,
                            KVSI_KEY_TEXT(&keys[i]));
        }
        found[i] = &key->entry;
        for (size_t k = 0; k < i; k++) {
            if (found[k] == found[i]) {
                return kvs_fail(KVS_ERR_ARGUMENT, "%s: key %s stands twice in the list", what,
                                KVSI_KEY_TEXT(&keys[i]));
            }
        }
        if (values != NULL) {
            kvs_status_t status = kvsi_op_check_layout(what, &key->entry, &values->tensors[i], i);

            if (status != KVS_OK) {
                return status;
            }
        }
    }
    return KVS_OK;
}

static void forget_key(kvs_store_t *store, kvs_key_entry_t *entry)
{
    kvsi_key_t *key = (kvsi_key_t *)entry; /* its first member */

    if (store->ops->key_release != NULL) {
        store->ops->key_release(store->state, entry);
    }
    memset(entry->state, 0, store->keys.state_bytes);
    pthread_mutex_lock(&store->lock);
    kvsi_keys_drop(&store->keys, key);
    key->used = false;
    pthread_mutex_unlock(&store->lock);
}

/* Alone: issue_lock is held, and nothing runs. */
static kvs_status_t delete_alone(kvs_store_t *store, const char *what, const kvs_key_t *keys,
                                 size_t n_keys, const kvs_arrays_t *values)
{
    kvs_key_entry_t **found = malloc((n_keys + 1) * sizeof(*found));
    kvs_status_t status;

    if (found == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "%s: no memory for a list of %zu keys", what, n_keys);
    }
    pthread_mutex_lock(&store->lock);
    status = find_keys_locked(store, what, keys, n_keys, values, found);
    pthread_mutex_unlock(&store->lock);
    if (status == KVS_OK && store->ops->delete_keys != NULL) {
        status = store->ops->delete_keys(store->state, found, n_keys);
        status = status == KVS_OK ? KVS_OK : kvsi_fail_context(status, "%s", what);
    }
    for (size_t i = 0; i < n_keys && status == KVS_OK; i++) {
        forget_key(store, found[i]);
    }
    free(found);
    return status;
}

static kvs_status_t delete_keys(kvs_store_t *store, const char *what, const kvs_key_t *keys,
                                size_t n_keys, const kvs_arrays_t *values)
{
    kvs_status_t status = kvsi_store_enter(store, what);

    if (status != KVS_OK) {
        return status;
    }
    if (!store->keeps_weights || (store->ops->delete_keys == NULL && store->mode != KVS_BLOCKING)) {
        return not_implemented(store, what);
    }
    if (keys == NULL && n_keys > 0) {
        return kvs_fail(KVS_ERR_ARGUMENT, "%s: the keys are NULL", what);
    }
    if (values != NULL && (values->tensors == NULL || values->n != n_keys)) {
        return kvs_fail(KVS_ERR_ARGUMENT, "%s: %zu keys, but %zu values; one for each is accepted",
                        what, n_keys, values->tensors == NULL ? 0 : values->n);
    }
    pthread_mutex_lock(&store->issue_lock);
    status = kvsi_engine_drain(store, own_deadline(store), what);
    if (status == KVS_OK) {
        status = delete_alone(store, what, keys, n_keys, values);
    }
    pthread_mutex_unlock(&store->issue_lock);
    return status;
}

kvs_status_t kvs_store_delete(kvs_store_t *store, const kvs_key_t *keys, size_t n_keys)
{
    return delete_keys(store, "delete", keys, n_keys, NULL);
}

kvs_status_t kvs_store_reset(kvs_store_t *store, const kvs_key_t *keys, size_t n_keys,
                             const kvs_arrays_t *values, const kvs_call_t *call)
{
    kvs_status_t status;

    if (values == NULL && n_keys > 0) {
        return kvs_fail(KVS_ERR_ARGUMENT, "reset: the list of values is NULL");
    }
    status = delete_keys(store, "reset", keys, n_keys, values);
    if (status == KVS_OK) {
        status = kvs_store_init(store, keys, n_keys, values, call);
    }
    return status;
}

/* ---- What a store is ------------------------------------------------------------------------------ */

const char *kvs_store_type(const kvs_store_t *store)
{
    return store == NULL ? "" : store->type;
}

/* A number the backend gives, or `preset` where it has no such member. */
static kvs_status_t ask_backend(kvs_store_t *store, const char *what,
                                kvs_status_t (*member)(void *store, int *ret), int preset, int *ret)
{
    if (ret == NULL) {
        return kvs_fail(KVS_ERR_ARGUMENT, "%s: the place for the result is NULL", what);
    }
    if (member != NULL) {
        return member(store->state, ret);
    }
    *ret = preset;
    return KVS_OK;
}

kvs_status_t kvs_store_rank(kvs_store_t *store, int *ret_rank)
{
    kvs_status_t status = enter_reading(store, "rank");

    return status != KVS_OK ? status : ask_backend(store, "rank", store->ops->rank, 0, ret_rank);
}

kvs_status_t kvs_store_num_workers(kvs_store_t *store, int *ret_num_workers)
{
    kvs_status_t status = enter_reading(store, "num_workers");

    return status != KVS_OK
               ? status
               : ask_backend(store, "num_workers", store->ops->num_workers, 1, ret_num_workers);
}

kvs_status_t kvs_store_local_rank(kvs_store_t *store, int *ret_local_rank)
{
    kvs_status_t status = kvsi_store_enter_waiting(store, "local_rank");

    return status != KVS_OK
               ? status
               : ask_backend(store, "local_rank", store->ops->local_rank, 0, ret_local_rank);
}

kvs_status_t kvs_store_is_recovery(kvs_store_t *store, int *ret_recovery)
{
    kvs_status_t status = kvsi_store_enter_waiting(store, "is_recovery");

    return status != KVS_OK
               ? status
               : ask_backend(store, "is_recovery", store->ops->is_recovery, 0, ret_recovery);
}

kvs_status_t kvs_store_is_capable(kvs_store_t *store, const char *capability, int *ret_capable)
{
    static const struct {
        const char *name;
        uint32_t bit;
    } capabilities[] = {{"optimizer", KVS_CAN_OPTIMIZER},
                        {"sparse", KVS_CAN_SPARSE},
                        {"gradient_compression", KVS_CAN_COMPRESSION},
                        {"async", KVS_CAN_ASYNC}};
    kvs_status_t status = enter_reading(store, "is_capable");

    if (status != KVS_OK) {
        return status;
    }
    if (capability == NULL || ret_capable == NULL) {
        return kvs_fail(KVS_ERR_ARGUMENT, "is_capable: %s is NULL",
                        capability == NULL ? "the capability" : "ret_capable");
    }
    for (size_t i = 0; i < sizeof(capabilities) / sizeof(capabilities[0]); i++) {
        if (strcmp(capabilities[i].name, capability) == 0) {
            uint32_t can = store->backend->capabilities;

            can = store->ops->capabilities == NULL
                      ? can
                      : can & store->ops->capabilities(store->state, can);
            *ret_capable = (can & capabilities[i].bit) != 0;
            return KVS_OK;
        }
    }
    return kvs_fail(KVS_ERR_ARGUMENT,
                    "is_capable: unknown capability \"%.80s\"; known are "
                    "optimizer, sparse, gradient_compression, async",
                    capability);
}

kvs_status_t kvs_store_supports(kvs_store_t *store, kvs_dtype_t dtype, kvs_device_t device,
                                int *ret_supported)
{
    kvs_status_t status = kvsi_store_enter_waiting(store, "supports");
    int index = kvs_dtype_index(dtype), has_device = 0;

    if (status != KVS_OK) {
        return status;
    }
    if (ret_supported == NULL) {
        return kvs_fail(KVS_ERR_ARGUMENT, "supports: ret_supported is NULL");
    }
    for (uint32_t i = 0; i < store->backend->n_device_types; i++) {
        has_device |= store->backend->device_types[i] == device.type;
    }
    *ret_supported = has_device && index >= 0 && (store->backend->dtypes >> index & 1) != 0;
    return KVS_OK;
}

kvs_status_t kvs_store_stats(kvs_store_t *store, kvs_stats_t *ret_stats)
{
    kvs_status_t status = kvsi_store_enter_waiting(store, "stats");
    uint32_t size;

    if (status != KVS_OK) {
        return status;
    }
    if (ret_stats == NULL || ret_stats->size < sizeof(uint64_t)) {
        return kvs_fail(KVS_ERR_ARGUMENT, "stats: %s",
                        ret_stats == NULL ? "ret_stats is NULL"
                                          : "set size to sizeof(kvs_stats_t) first");
    }
    size = ret_stats->size;
    pthread_mutex_lock(&store->lock);
    memcpy(ret_stats, &store->stats, size < sizeof(store->stats) ? size : sizeof(store->stats));
    pthread_mutex_unlock(&store->lock);
    ret_stats->size = size;
    return KVS_OK;
}

/* ---- Several processes ---------------------------------------------------------------------------- */

kvs_status_t kvs_store_barrier(kvs_store_t *store)
{
    kvs_status_t status = kvsi_store_enter(store, "barrier");

    return status != KVS_OK || store->ops->barrier == NULL ? status
                                                           : store->ops->barrier(store->state);
}

kvs_status_t kvs_store_join(kvs_store_t *store)
{
    kvs_status_t status = kvsi_store_enter(store, "join");

    return status != KVS_OK || store->ops->join == NULL ? status : store->ops->join(store->state);
}

kvs_status_t kvs_store_join_last(kvs_store_t *store, int *ret_last_rank)
{
    kvs_status_t status = kvsi_store_enter(store, "join");
    int last = 0;

    if (status == KVS_OK && ret_last_rank == NULL) {
        return kvs_fail(KVS_ERR_ARGUMENT, "join: the place for the result is NULL");
    }
    if (status == KVS_OK && store->ops->join_last != NULL) {
        status = store->ops->join_last(store->state, &last);
    } else if (status == KVS_OK && store->ops->join != NULL) {
        status = store->ops->join(store->state);
    } else if (status == KVS_OK && store->ops->num_workers != NULL) {
        status = not_implemented(store, "join"); /* of one process: nobody else is in a round */
    }
    if (status == KVS_OK) {
        *ret_last_rank = last;
    }
    return status;
}

/* The user's controller, between the marks that keep it from using a store. */
static kvs_status_t call_controller(int head, const void *body, size_t n_bytes, void *arg)
{
    const kvs_store_t *store = arg;
    kvs_status_t status;

    kvsi_status_clear();
    kvsi_callback_begin();
    status = store->controller(head, body, n_bytes, store->controller_arg);
    kvsi_callback_end();
    return status;
}

kvs_status_t kvs_store_set_controller(kvs_store_t *store, kvs_controller_t fn, void *arg)
{
    kvs_status_t status = kvsi_store_enter(store, "set_controller");

    if (status == KVS_OK && store->ops->set_controller == NULL) {
        return not_implemented(store, "set_controller");
    }
    if (status == KVS_OK) {
        store->controller = fn;
        store->controller_arg = arg;
        status =
            store->ops->set_controller(store->state, fn == NULL ? NULL : call_controller, store);
    }
    return status;
}

kvs_status_t kvs_store_send_command_to_servers(kvs_store_t *store, int head, const void *body,
                                               size_t n_bytes)
{
    kvs_status_t status = kvsi_store_enter(store, "send_command_to_servers");

    if (status == KVS_OK && body == NULL && n_bytes > 0) {
        return kvs_fail(KVS_ERR_ARGUMENT, "send_command_to_servers: the body is NULL");
    }
    return status != KVS_OK || store->ops->send_command == NULL
               ? status
               : store->ops->send_command(store->state, head, body, n_bytes);
}

kvs_status_t kvs_store_num_dead_nodes(kvs_store_t *store, const char *role, int64_t timeout_ms,
                                      int *ret_dead)
{
    kvs_status_t status = enter_with(store, "num_dead_nodes", role, "the role");

    if (status != KVS_OK) {
        return status;
    }
    if (strcmp(role, "worker") != 0 && strcmp(role, "server") != 0 &&
        strcmp(role, "scheduler") != 0) {
        return kvs_fail(KVS_ERR_ARGUMENT,
                        "num_dead_nodes: unknown role \"%.80s\"; accepted are "
                        "worker, server, scheduler",
                        role);
    }
    if (ret_dead == NULL) {
        return kvs_fail(KVS_ERR_ARGUMENT, "num_dead_nodes: ret_dead is NULL");
    }
    if (store->ops->num_dead_nodes != NULL) {
        return store->ops->num_dead_nodes(store->state, role, timeout_ms, ret_dead);
    }
    *ret_dead = 0;
    return KVS_OK;
}

kvs_status_t kvs_store_run_server(kvs_store_t *store)
{
    kvs_status_t status = kvsi_store_enter(store, "run_server");

    if (status == KVS_OK && store->ops->run_server == NULL) {
        return not_implemented(store, "run_server");
    }
    return status != KVS_OK ? status : store->ops->run_server(store->state);
}

kvs_status_t kvs_store_extension(kvs_store_t *store, const char *name, const void **ret_table,
                                 void **ret_state)
{
    kvs_status_t status = enter_with(store, "extension", name, "the name");
    const void *table;

    if (status != KVS_OK) {
        return status;
    }
    if (ret_table == NULL || ret_state == NULL) {
        return kvs_fail(KVS_ERR_ARGUMENT, "extension: %s is NULL",
                        ret_table == NULL ? "ret_table" : "ret_state");
    }
    table = store->ops->extension == NULL ? NULL : store->ops->extension(name);
    if (table == NULL) {
        return kvs_fail(KVS_ERR_NOT_IMPLEMENTED, "not implemented: %s by %s", name,
                        store->backend->name);
    }
    *ret_table = table;
    *ret_state = store->state;
    return KVS_OK;
}
