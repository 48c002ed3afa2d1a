/* SPDX-License-Identifier: Apache-2.0 */
/* event.c - the user's view of an operation that outlives its call. An event is part of its op;
 * this file only reads it, tells it, and gives it up. */
#include "engine.h"
#include "futex.h"

static kvs_status_t tell_locked(kvs_event_t *event)
{
    event->told = true;
    return event->status == KVS_OK
               ? KVS_OK
               : kvs_fail(event->status, "%s",
                          event->text == NULL ? kvs_status_text(event->status) : event->text);
}

static int64_t deadline_of(int64_t timeout_ms)
{
    int64_t now = kvsi_now_ns();

    return timeout_ms < 0 || timeout_ms > (INT64_MAX - now) / 1000000 ? INT64_MAX
                                                                      : now + timeout_ms * 1000000;
}

kvs_status_t kvs_event_wait(kvs_event_t *event, int64_t timeout_ms)
{
    int64_t deadline = deadline_of(timeout_ms);
    kvs_store_t *store;
    kvs_status_t status;

    if (event == NULL) {
        return kvs_fail(KVS_ERR_ARGUMENT, "event_wait: the event is NULL");
    }
    store = kvsi_op_of(event)->store;
    status = kvsi_store_enter_waiting(store, "event_wait");
    while (status == KVS_OK && !atomic_load_explicit(&event->done, memory_order_acquire)) {
        uint32_t seen = atomic_load(&store->epoch);

        if (atomic_load_explicit(&event->done, memory_order_acquire)) {
            break;
        }
        if (atomic_load_explicit(&store->cancelled, memory_order_relaxed)) {
            return kvs_fail(KVS_ERR_CANCELLED, "event_wait: the store was cancelled");
        }
        if (timeout_ms == 0 || kvsi_now_ns() >= deadline) {
            return kvs_fail(
                KVS_ERR_TIMEOUT, "event_wait: not completed within %lld ms; the %s goes on",
                (long long)timeout_ms, kvsi_verb_name((kvs_verb_t)kvsi_op_of(event)->pub.verb));
        }
        kvsi_store_sleep(store, seen, deadline);
    }
    if (status == KVS_OK) {
        pthread_mutex_lock(&store->lock);
        status = tell_locked(event);
        pthread_mutex_unlock(&store->lock);
    }
    return status;
}

kvs_status_t kvs_event_wait_arrays(kvs_event_t *event, int64_t timeout_ms, int *ret_free)
{
    kvs_status_t status;
    bool is_free;

    if (event == NULL || ret_free == NULL) {
        return kvs_fail(KVS_ERR_ARGUMENT, "event_wait_arrays: %s is NULL",
                        event == NULL ? "the event" : "ret_free");
    }
    status = kvsi_store_enter_waiting(kvsi_op_of(event)->store, "event_wait_arrays");
    if (status != KVS_OK) {
        return status;
    }
    status = kvsi_engine_wait_arrays(kvsi_op_of(event), deadline_of(timeout_ms), &is_free);
    if (status == KVS_OK) {
        *ret_free = is_free;
    }
    return status;
}

kvs_status_t kvs_event_test(kvs_event_t *event, int *ret_done)
{
    if (event == NULL || ret_done == NULL) {
        return kvs_fail(KVS_ERR_ARGUMENT, "event_test: %s is NULL",
                        event == NULL ? "the event" : "ret_done");
    }
    *ret_done = atomic_load_explicit(&event->done, memory_order_acquire);
    if (!*ret_done && kvsi_store_is_foreign(kvsi_op_of(event)->store)) {
        return kvs_fail(KVS_ERR_STATE, "event_test: the store was created before this process was "
                                       "forked; its operations go on in the parent");
    }
    return KVS_OK;
}

kvs_status_t kvs_event_on_complete(kvs_event_t *event, kvs_event_callback_t fn, void *arg)
{
    kvs_store_t *store;
    kvs_status_t status;
    bool done;

    if (event == NULL || fn == NULL) {
        return kvs_fail(KVS_ERR_ARGUMENT, "event_on_complete: %s is NULL",
                        event == NULL ? "the event" : "the callback");
    }
    store = kvsi_op_of(event)->store;
    status = kvsi_store_enter_waiting(store, "event_on_complete");
    if (status != KVS_OK) {
        return status;
    }
    pthread_mutex_lock(&store->lock);
    if (event->callback != NULL) {
        pthread_mutex_unlock(&store->lock);
        return kvs_fail(KVS_ERR_STATE, "event_on_complete: the event has a callback already");
    }
    event->callback = fn;
    event->callback_arg = arg;
    done = event->done;
    event->told |= done;
    pthread_mutex_unlock(&store->lock);
    if (done) {
        kvsi_callback_begin();
        fn(event->status, event->text == NULL ? "" : event->text, arg);
        kvsi_callback_end();
    }
    return KVS_OK;
}

void kvs_event_free(kvs_event_t *event)
{
    if (event != NULL && !kvsi_store_is_foreign(kvsi_op_of(event)->store)) {
        kvsi_engine_owe(event, false);
    }
}

void kvs_event_drop(kvs_event_t *event)
{
    if (event != NULL && !kvsi_store_is_foreign(kvsi_op_of(event)->store)) {
        kvsi_engine_owe(event, true);
    }
}
