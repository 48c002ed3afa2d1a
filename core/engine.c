/* SPDX-License-Identifier: Apache-2.0 */
/* engine.c - an op becomes tasks that own lanes (lane.h). The common case, nothing queued on any of
 * its keys, needs no tasks: the call owns the lanes, runs the verb, and leaves. */
#include "engine.h"

#include "futex.h"
#include "log.h"
#include "rows.h"
#include "tensor.h"
#include "trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Groups run side by side when there is this much to do; below, waking a thread costs more. */
#define PARALLEL_BYTES ((uint64_t)1 << 20)
#define PIECE_BYTES    ((uint64_t)128 << 10)
/* An operation with an event that has no more to do than this runs in its call: a thread of the pool
 * would take longer to wake up. */
#define SMALL_BYTES ((uint64_t)64 << 10)

static kvsi_key_t *key_of(const kvs_group_t *group)
{
    return (kvsi_key_t *)group->key; /* kvsi_key_t begins with its entry */
}

/* ---- Running the backend's verbs --------------------------------------------------------------- */

/* Fills the gap where a backend has no pushpull or broadcast of its own. */
static kvs_status_t call_both(const kvs_store_t *store, kvs_op_t *pub,
                              kvs_status_t (*first)(void *store, kvs_op_t *op),
                              kvs_status_t (*then)(void *store, kvs_op_t *op))
{
    kvs_status_t status = first(store->state, pub);

    return status != KVS_OK ? status : then(store->state, pub);
}

static kvs_status_t call_verb(const kvs_store_t *store, kvs_op_t *pub)
{
    const kvs_backend_ops_t *ops = store->ops;

    switch ((kvs_verb_t)pub->verb) {
    case KVS_VERB_INIT:
        return ops->init(store->state, pub);
    case KVS_VERB_PUSH:
        return ops->push(store->state, pub);
    case KVS_VERB_PULL:
        return ops->pull(store->state, pub);
    case KVS_VERB_PUSHPULL:
        return ops->pushpull != NULL ? ops->pushpull(store->state, pub)
                                     : call_both(store, pub, ops->push, ops->pull);
    case KVS_VERB_BROADCAST:
        return ops->broadcast != NULL ? ops->broadcast(store->state, pub)
                                      : call_both(store, pub, ops->init, ops->pull);
    case KVS_VERB_ROW_SPARSE_PULL:
        return ops->row_sparse_pull(store->state, pub);
    }
    return KVS_ERR_INTERNAL;
}

/* Keep the first error in list order, with this thread's text. */
static void note_error_locked(kvsi_op_t *op, kvs_status_t status, size_t list_index)
{
    if (list_index < op->first_error || op->event.status == KVS_OK) {
        free(op->event.text);
        op->event.text = strdup(kvs_last_error());
        op->event.status = status;
        op->first_error = list_index;
    }
}

static void note_error(kvsi_op_t *op, kvs_status_t status, size_t list_index)
{
    pthread_mutex_lock(&op->store->lock);
    note_error_locked(op, status, list_index);
    pthread_mutex_unlock(&op->store->lock);
}

/* Whether the key stands or falls with the op: the op made it, or, where no weights are kept and
 * any exchange makes a key, none has succeeded yet. */
static bool decides_key(const kvsi_op_t *op, size_t g)
{
    return op->made[g] || (!op->store->keeps_weights && !key_of(&op->pub.groups[g])->proven);
}

/* The op failed, and its key with it, unless a later exchange is on its way to make it. */
static void drop_key_locked(kvsi_op_t *op, kvsi_key_t *key)
{
    bool is_awaited = !op->store->keeps_weights && key->mark > op->pub.sequence;

    if (!is_awaited) {
        kvsi_keys_drop(&op->store->keys, key);
    }
}

/* The backend takes back what it made of a key whose init failed. */
static void forget_key(kvsi_op_t *op, kvs_group_t *group)
{
    kvs_store_t *store = op->store;
    kvsi_key_t *key = key_of(group);

    if (store->ops->key_release != NULL) {
        store->ops->key_release(store->state, &key->entry);
    }
    memset(key->entry.state, 0, store->keys.state_bytes);
    pthread_mutex_lock(&store->lock);
    drop_key_locked(op, key);
    key->used = key->live;
    pthread_mutex_unlock(&store->lock);
}

static kvsi_op_t *take_debt_locked(kvs_store_t *store, const kvs_key_entry_t *key, uint64_t before);
static kvs_status_t tell(kvsi_op_t *debt, const char *what);

/* What an op finds out when its turn comes: those before it may have failed, and their error may be
 * owed to it. */
static kvs_status_t check_late(kvsi_op_t *op, const kvs_group_t *group)
{
    kvs_store_t *store = op->store;
    kvs_key_t key = kvsi_key_of(group->key);
    const char *verb = kvsi_verb_name((kvs_verb_t)op->pub.verb);
    kvsi_op_t *debt;
    bool live;

    pthread_mutex_lock(&store->lock);
    debt = take_debt_locked(store, group->key, UINT64_MAX);
    live = key_of(group)->live;
    pthread_mutex_unlock(&store->lock);
    if (debt != NULL) {
        return tell(debt, verb);
    }
    return live ? KVS_OK
                : kvs_fail(KVS_ERR_NOT_FOUND, "%s: key %s was never initialised: its init failed",
                           verb, KVSI_KEY_TEXT(&key));
}

static void trace_group(int64_t begun, const kvsi_op_t *op, const kvs_group_t *group)
{
    kvs_key_t key = kvsi_key_of(group->key);

    kvsi_trace_end(begun, kvsi_verb_name((kvs_verb_t)op->pub.verb), KVSI_KEY_TEXT(&key),
                   (op->bytes_read + op->bytes_written) / op->pub.n_groups);
}

/* Whether the backend sees all groups of the op at once. */
static bool goes_whole(const kvsi_op_t *op)
{
    return (op->pub.flags & KVS_OP_SHARED) != 0 ||
           ((op->store->backend->flags & KVS_BACKEND_WHOLE_CALLS) != 0 && !op->uses_updater);
}

/* Whether the backend sees at once what one thread carries out: an exchange between devices, none of
 * whose groups may have to be left out. */
static bool goes_batched(const kvsi_op_t *op)
{
    bool is_exchange = op->pub.verb == KVS_VERB_PUSH || op->pub.verb == KVS_VERB_PULL ||
                       op->pub.verb == KVS_VERB_PUSHPULL;

    if ((op->store->backend->flags & KVS_BACKEND_BATCHES) == 0 || !is_exchange || op->late ||
        op->uses_updater) {
        return false;
    }
    for (size_t i = 0; i < op->n_values + op->n_outs; i++) {
        if (op->tensors[i].device.type == KVS_DEVICE_CPU ||
            op->tensors[i].device.type == KVS_DEVICE_CUDA_HOST) {
            return false;
        }
    }
    return true;
}

/* Carry out groups [first, first + n): one at a time, or all in one call. */
static void run_groups(kvsi_op_t *op, size_t first, size_t n)
{
    size_t step = goes_whole(op) || goes_batched(op) ? n : 1;

    for (size_t g = first; g < first + n; g += step) {
        kvs_group_t *group = &op->pub.groups[g];
        kvs_op_t part = op->pub;
        kvs_status_t status = KVS_OK;

        part.groups = group;
        part.n_groups = step;
        for (size_t i = g; op->late && i < g + step && status == KVS_OK; i++) {
            status = check_late(op, &op->pub.groups[i]);
        }
        if (status == KVS_OK && atomic_load_explicit(&op->store->cancelled, memory_order_relaxed)) {
            status = kvs_fail(KVS_ERR_CANCELLED, "%s: the store was cancelled",
                              kvsi_verb_name((kvs_verb_t)op->pub.verb));
        }
        if (status == KVS_OK) {
            int64_t begun = kvsi_trace_begin();

            status = call_verb(op->store, &part);
            if (begun != 0) {
                trace_group(begun, op, group);
            }
        }
        for (size_t i = g; i < g + step; i++) {
            if (status == KVS_OK) {
                key_of(&op->pub.groups[i])->proven = true; /* guarded by the lane */
                continue;
            }
            note_error(op, status, op->pub.groups[i].list_index);
            if (decides_key(op, i)) {
                forget_key(op, &op->pub.groups[i]);
            }
        }
    }
}

/* Some groups of an op, by their bytes: pieces of a parallel loop. */
static void run_piece(void *arg, int64_t begin, int64_t end)
{
    run_groups(arg, (size_t)begin, (size_t)(end - begin));
}

static void run_all_groups(kvsi_op_t *op)
{
    uint64_t bytes = op->bytes_read + op->bytes_written;
    size_t n = op->pub.n_groups;

    if (op->serial || n == 1 || bytes < PARALLEL_BYTES || goes_batched(op)) {
        run_groups(op, 0, n);
    } else {
        /* as many groups a piece as make PIECE_BYTES of work, on average */
        int64_t grain = (int64_t)(PIECE_BYTES / (bytes / n + 1)) + 1;

        kvsi_pool_parallel_for((int64_t)n, grain, run_piece, op);
    }
}

/* ---- The end of an op -------------------------------------------------------------------------- */

/* What the outs have been given: row-sparse ones say how many rows. */
static uint64_t bytes_given(const kvsi_op_t *op)
{
    const kvs_tensor_t *outs = op->tensors + op->n_values;
    uint64_t bytes = 0;

    for (size_t i = 0; op->has_rows && i < op->n_outs; i++) {
        bytes += outs[i].rows == NULL
                     ? (uint64_t)kvsi_tensor_n_elems(&outs[i]) * (outs[i].dtype.bits / 8)
                     : kvsi_rows_bytes(&outs[i], outs[i].rows->n_rows);
    }
    return op->has_rows ? bytes : op->bytes_written;
}

static void count_locked(kvsi_op_t *op)
{
    kvs_stats_t *stats = &op->store->stats;
    uint64_t n = op->pub.n_groups, bytes_pulled = bytes_given(op);

    switch ((kvs_verb_t)op->pub.verb) {
    case KVS_VERB_INIT:
        stats->n_inits += n;
        return;
    case KVS_VERB_BROADCAST:
        stats->n_inits += n;
        stats->n_pulls += n;
        stats->bytes_pulled += bytes_pulled;
        return;
    case KVS_VERB_PUSH:
        stats->n_pushes += n;
        break;
    case KVS_VERB_PUSHPULL:
        stats->n_pushpulls += n;
        break;
    case KVS_VERB_PULL:
    case KVS_VERB_ROW_SPARSE_PULL:
        stats->n_pulls += n;
        break;
    }
    stats->bytes_pushed += op->bytes_read;
    stats->bytes_pulled += bytes_pulled;
}

static void add_debt_locked(kvsi_op_t *op)
{
    kvsi_op_t **end = &op->store->debts;

    while (*end != NULL) {
        end = &(*end)->next;
    }
    *end = op;
    kvsi_op_ref(op);
}

/* The holder of the event is gone. An error that it was not told is owed to others; where nobody will
 * ask any more it is for the log: gives the level, or 0. What was cancelled needs no words, and as what
 * breaks a job fails many operations, the first of a store stands for all. */
static int owe_locked(kvsi_op_t *op)
{
    kvs_store_t *store = op->store;
    bool is_first = !store->has_logged;

    if (op->event.status == KVS_OK || op->event.told) {
        return 0;
    }
    if (!store->closed) {
        add_debt_locked(op);
        return 0;
    }
    if (op->event.status == KVS_ERR_CANCELLED) {
        return 0;
    }
    store->has_logged = true;
    return is_first ? KVS_LOG_WARN : KVS_LOG_DEBUG;
}

static const char *text_of(const kvsi_op_t *op)
{
    return op->event.text == NULL ? kvs_status_text(op->event.status) : op->event.text;
}

static void log_error(int level, const kvsi_op_t *op, size_t n_others)
{
    kvs_key_t key = kvsi_key_of(op->pub.groups[0].key);
    char others[64] = "";

    if (n_others > 0) {
        snprintf(others, sizeof(others), " and %zu operations after it", n_others);
    }
    kvsi_log(level, "store", "%s of key %s%s failed, which nobody was told: %s",
             kvsi_verb_name((kvs_verb_t)op->pub.verb), KVSI_KEY_TEXT(&key), others, text_of(op));
}

/* The op has its status: told to its callback, or to whoever holds the event, else owed. */
static void end_op_locked(kvsi_op_t *op)
{
    kvs_store_t *store = op->store;

    op->calls_back = op->event.callback != NULL;
    op->event.told = op->calls_back;
    if (op->event.status == KVS_OK) {
        count_locked(op);
    } else if (op->event.freed) {
        op->log_level = owe_locked(op);
    }
    atomic_store_explicit(&op->event.done, true, memory_order_release);
    kvsi_store_wake(store);
}

static void begin_pending_locked(kvsi_op_t *op)
{
    kvs_store_t *store = op->store;

    op->older = store->newest;
    if (op->older != NULL) {
        op->older->newer = op;
    } else {
        store->oldest = op;
    }
    store->newest = op;
    store->n_pending++;
}

static void end_pending_locked(kvsi_op_t *op)
{
    kvs_store_t *store = op->store;

    if (op->older != NULL) {
        op->older->newer = op->newer;
    } else {
        store->oldest = op->newer;
    }
    if (op->newer != NULL) {
        op->newer->older = op->older;
    } else {
        store->newest = op->older;
    }
    store->n_pending--;
    kvsi_store_wake(store);
}

static void end_pending(kvsi_op_t *op)
{
    pthread_mutex_lock(&op->store->lock);
    end_pending_locked(op);
    pthread_mutex_unlock(&op->store->lock);
}

/* What follows the end outside the lock, for ops on the heap; gives up the engine's reference. */
static void after_end(kvsi_op_t *op)
{
    kvsi_op_release_arrays(op);
    if (op->log_level != 0) {
        log_error(op->log_level, op, 0);
    }
    if (op->calls_back) {
        kvsi_callback_begin();
        op->event.callback(op->event.status, op->event.text == NULL ? "" : op->event.text,
                           op->event.callback_arg);
        kvsi_callback_end();
    }
    end_pending(op);
    kvsi_op_unref(op);
}

/* ---- Lanes and tasks ----------------------------------------------------------------------------- */

/* Own every lane of the op at once, or none. */
static bool own_lanes_locked(kvsi_op_t *op)
{
    if (op->uses_updater && op->store->updater_lane.owned) {
        return false;
    }
    for (size_t g = 0; g < op->pub.n_groups; g++) {
        if (key_of(&op->pub.groups[g])->lane.owned) {
            return false;
        }
    }
    op->late = op->store->debts != NULL; /* something may have failed since the op was resolved */
    for (size_t g = 0; g < op->pub.n_groups; g++) {
        key_of(&op->pub.groups[g])->lane.owned = true;
        op->late |= !key_of(&op->pub.groups[g])->live;
    }
    op->store->updater_lane.owned |= op->uses_updater;
    return true;
}

/* A task that owns all its lanes goes to whoever runs it. */
static void task_is_ready_locked(kvsi_task_t *task)
{
    kvsi_op_t *op = task->op;

    if (op->detached) {
        kvsi_pool_submit(&task->work);
        return;
    }
    task->next = NULL;
    *op->ready_end = task;
    op->ready_end = &task->next;
    kvsi_store_wake(op->store);
}

static void leave_lane_locked(kvsi_lane_t *lane)
{
    kvsi_place_t *next = kvsi_lane_leave(lane);

    if (next != NULL && --next->task->n_waits == 0) {
        task_is_ready_locked(next->task);
    }
}

static void leave_lanes_locked(kvsi_op_t *op)
{
    for (size_t g = 0; g < op->pub.n_groups; g++) {
        leave_lane_locked(&key_of(&op->pub.groups[g])->lane);
    }
    if (op->uses_updater) {
        leave_lane_locked(&op->store->updater_lane);
    }
}

static void run_task(kvsi_work_t *work);

static void join_lane_locked(kvsi_task_t *task, kvsi_lane_t *lane)
{
    kvsi_place_t *place = &task->places[task->n_places++];

    place->task = task;
    if (!kvsi_lane_join(lane, place)) {
        task->n_waits++;
    }
}

/* One task for a serial op; else one a group. Those that own their lanes are ready at once. */
static void make_tasks_locked(kvsi_op_t *op)
{
    size_t step = op->serial ? op->pub.n_groups : 1;
    kvsi_place_t *places = op->places;

    op->late = true;
    op->n_tasks = op->n_left = op->pub.n_groups / step;
    for (size_t t = 0; t < op->n_tasks; t++) {
        kvsi_task_t *task = &op->tasks[t];

        *task = (kvsi_task_t){
            .work = {.run = run_task, .priority = op->pub.priority, .sequence = op->pub.sequence},
            .op = op,
            .first_group = t * step,
            .n_groups = step,
            .places = places};
        for (size_t g = task->first_group; g < task->first_group + step; g++) {
            join_lane_locked(task, &key_of(&op->pub.groups[g])->lane);
        }
        if (op->uses_updater) {
            join_lane_locked(task, &op->store->updater_lane);
        }
        places += task->n_places;
    }
    for (size_t t = 0; t < op->n_tasks; t++) {
        if (op->tasks[t].n_waits == 0) {
            task_is_ready_locked(&op->tasks[t]);
        }
    }
}

/* The task has run. Gives whether it was its op's last. */
static bool end_task_locked(kvsi_task_t *task)
{
    kvsi_op_t *op = task->op;

    for (size_t i = 0; i < task->n_places; i++) {
        leave_lane_locked(task->places[i].lane);
    }
    if (--op->n_left > 0) {
        return false;
    }
    end_op_locked(op);
    return true;
}

/* A task of a detached op, on a thread of the pool. */
static void run_task(kvsi_work_t *work)
{
    kvsi_task_t *task = (kvsi_task_t *)work;
    kvsi_op_t *op = task->op;
    kvs_store_t *store = op->store;
    bool last;

    run_groups(op, task->first_group, task->n_groups);
    pthread_mutex_lock(&store->lock);
    last = end_task_locked(task);
    pthread_mutex_unlock(&store->lock);
    if (last) {
        after_end(op);
    }
}

/* ---- A call that runs on its own thread ---------------------------------------------------------- */

/* Take tasks that wait for a lane out of the queues: the store was cancelled. */
static void withdraw_locked(kvsi_op_t *op)
{
    for (size_t t = 0; t < op->n_tasks; t++) {
        kvsi_task_t *task = &op->tasks[t];

        if (task->n_waits == 0) {
            continue; /* has run */
        }
        for (size_t i = 0; i < task->n_places; i++) {
            kvsi_place_t *place = &task->places[i];

            if (place->waits) {
                kvsi_lane_withdraw(place->lane, place);
            } else {
                leave_lane_locked(place->lane);
            }
        }
        task->n_waits = 0;
        for (size_t g = task->first_group; g < task->first_group + task->n_groups; g++) {
            if (op->made[g]) {
                kvsi_keys_set_live(&op->store->keys, key_of(&op->pub.groups[g]), false);
            }
        }
        op->n_left--;
    }
    kvs_fail(KVS_ERR_CANCELLED, "%s: the store was cancelled",
             kvsi_verb_name((kvs_verb_t)op->pub.verb));
    note_error_locked(op, KVS_ERR_CANCELLED, 0);
    end_op_locked(op);
}

/* Some of its keys are owned by earlier operations: run each task when it is ready. */
static void run_as_lanes_come(kvsi_op_t *op)
{
    kvs_store_t *store = op->store;

    pthread_mutex_lock(&store->lock);
    while (op->n_left > 0) {
        kvsi_task_t *task = op->ready;
        uint32_t seen = atomic_load(&store->epoch);

        if (task != NULL) {
            op->ready = task->next;
            if (op->ready == NULL) {
                op->ready_end = &op->ready;
            }
            pthread_mutex_unlock(&store->lock);
            run_groups(op, task->first_group, task->n_groups);
            pthread_mutex_lock(&store->lock);
            end_task_locked(task);
        } else if (atomic_load_explicit(&store->cancelled, memory_order_relaxed)) {
            withdraw_locked(op);
        } else {
            pthread_mutex_unlock(&store->lock);
            kvsi_store_sleep(store, seen, INT64_MAX);
            pthread_mutex_lock(&store->lock);
        }
    }
    pthread_mutex_unlock(&store->lock);
}

/* The op owns its lanes: run it on this thread and leave them. It is still pending. */
static void run_at_once(kvsi_op_t *op)
{
    run_all_groups(op);
    pthread_mutex_lock(&op->store->lock);
    leave_lanes_locked(op);
    end_op_locked(op);
    pthread_mutex_unlock(&op->store->lock);
}

/* ---- Asynchronous backends ----------------------------------------------------------------------- */

void kvsi_engine_consumed(kvs_op_t *pub)
{
    kvsi_op_t *op = pub->core;

    pthread_mutex_lock(&op->store->lock);
    op->consumed = true;
    kvsi_store_wake(op->store);
    pthread_mutex_unlock(&op->store->lock);
}

/* A push before this pull may have failed since it was issued: then what was pulled is not what was asked
 * for, and an error that nobody was told is told here. */
static kvs_status_t tell_debt_to_pull(const kvsi_op_t *op)
{
    kvs_store_t *store = op->store;
    kvsi_op_t *debt = NULL;

    if (op->pub.verb != KVS_VERB_PULL && op->pub.verb != KVS_VERB_ROW_SPARSE_PULL) {
        return KVS_OK;
    }
    pthread_mutex_lock(&store->lock);
    for (size_t g = 0; g < op->pub.n_groups && store->debts != NULL && debt == NULL; g++) {
        debt = take_debt_locked(store, op->pub.groups[g].key, op->pub.sequence);
    }
    pthread_mutex_unlock(&store->lock);
    return debt == NULL ? KVS_OK : tell(debt, kvsi_verb_name((kvs_verb_t)op->pub.verb));
}

void kvsi_engine_complete(kvs_op_t *pub, kvs_status_t status)
{
    kvsi_op_t *op = pub->core;
    kvs_store_t *store = op->store;

    status = status == KVS_OK ? tell_debt_to_pull(op) : status;
    pthread_mutex_lock(&store->lock);
    op->consumed = true;
    if (status != KVS_OK) {
        note_error_locked(op, status, 0);
    }
    for (size_t g = 0; g < op->pub.n_groups; g++) {
        kvsi_key_t *key = key_of(&op->pub.groups[g]);

        if (status == KVS_OK) {
            key->proven = true;
        } else if (decides_key(op, g)) {
            drop_key_locked(op, key);
        }
    }
    end_op_locked(op);
    pthread_mutex_unlock(&store->lock);
    after_end(op);
}

/* With `leaves` nobody looks at the event after it: a later error is owed. */
static kvs_status_t wait_arrays(kvsi_op_t *op, int64_t until_ns, bool leaves, bool *ret_free)
{
    kvs_store_t *store = op->store;
    bool until_consumed = op->pub.verb == KVS_VERB_PUSH;
    const char *verb = kvsi_verb_name((kvs_verb_t)op->pub.verb);
    kvs_status_t status = KVS_OK;
    bool is_free = false;

    pthread_mutex_lock(&store->lock);
    while (!is_free && status == KVS_OK) {
        uint32_t seen = atomic_load(&store->epoch);
        int64_t now = kvsi_now_ns();

        if (op->event.done || (until_consumed && op->consumed)) {
            is_free = true;
        } else if (atomic_load_explicit(&store->cancelled, memory_order_relaxed)) {
            status = kvs_fail(KVS_ERR_CANCELLED, "%s: the store was cancelled", verb);
        } else if (now >= op->deadline_ns) {
            status = kvs_fail(KVS_ERR_TIMEOUT,
                              "%s: not completed within %lld ms; it goes on, and its arrays must "
                              "stay until wait_all or close",
                              verb, (long long)(kvsi_store_patience_ns(store) / 1000000));
        } else if (now >= until_ns) {
            break;
        } else {
            pthread_mutex_unlock(&store->lock);
            kvsi_store_sleep(store, seen, until_ns < op->deadline_ns ? until_ns : op->deadline_ns);
            pthread_mutex_lock(&store->lock);
        }
    }
    if (is_free && op->event.done && op->event.status != KVS_OK) {
        status = kvs_fail(op->event.status, "%s", text_of(op));
        op->event.told = true;
    }
    op->event.freed |= leaves; /* at once, so that no error comes between */
    pthread_mutex_unlock(&store->lock);
    *ret_free = is_free;
    return status;
}

kvs_status_t kvsi_engine_wait_arrays(kvsi_op_t *op, int64_t until_ns, bool *ret_free)
{
    return wait_arrays(op, until_ns, false, ret_free);
}

/* Wait for the part of an asynchronous op that its call promises. */
static kvs_status_t wait_for_backend(kvsi_op_t *op)
{
    bool is_free;

    return wait_arrays(op, INT64_MAX, true, &is_free);
}

/* ---- The whole way --------------------------------------------------------------------------------- */

/* Take the oldest debt on the key off the list, of an operation with a number below `before`. */
static kvsi_op_t *take_debt_locked(kvs_store_t *store, const kvs_key_entry_t *key, uint64_t before)
{
    for (kvsi_op_t **link = &store->debts; *link != NULL; link = &(*link)->next) {
        kvsi_op_t *debt = *link;

        for (size_t d = 0; d < debt->pub.n_groups; d++) {
            if (debt->pub.groups[d].key == key && debt->pub.sequence < before) {
                *link = debt->next;
                return debt;
            }
        }
    }
    return NULL;
}

/* The same for the keys of a request, of which one may be owed the failure of its own init. */
static kvsi_op_t *take_debt_of_request_locked(kvs_store_t *store, const kvsi_request_t *request)
{
    kvsi_op_t *debt = NULL;

    for (size_t i = 0; store->debts != NULL && debt == NULL && i < request->n_keys; i++) {
        const kvsi_key_t *key = kvsi_keys_find(&store->keys, &request->keys[i]);

        debt = key == NULL ? NULL : take_debt_locked(store, &key->entry, UINT64_MAX);
    }
    return debt;
}

static kvs_status_t tell(kvsi_op_t *debt, const char *what)
{
    kvs_status_t status = kvs_fail(debt->event.status, "%s: an earlier %s failed: %s", what,
                                   kvsi_verb_name((kvs_verb_t)debt->pub.verb), text_of(debt));

    kvsi_op_unref(debt);
    return status;
}

kvs_status_t kvsi_engine_tell_debt(kvs_store_t *store, const char *what)
{
    kvsi_op_t *debt;

    pthread_mutex_lock(&store->lock);
    debt = store->debts;
    if (debt != NULL) {
        store->debts = debt->next;
    }
    pthread_mutex_unlock(&store->lock);
    return debt == NULL ? KVS_OK : tell(debt, what);
}

/* The first that is for the log, and how many are behind it. */
static const kvsi_op_t *find_logged(const kvsi_op_t *debts, size_t *ret_n_others)
{
    const kvsi_op_t *first = NULL;

    *ret_n_others = 0;
    for (const kvsi_op_t *debt = debts; debt != NULL; debt = debt->next) {
        if (debt->event.status != KVS_ERR_CANCELLED) {
            *ret_n_others += first != NULL;
            first = first == NULL ? debt : first;
        }
    }
    return first;
}

void kvsi_engine_forgive(kvs_store_t *store)
{
    kvsi_op_t *debts;
    const kvsi_op_t *first;
    size_t n_others;

    pthread_mutex_lock(&store->lock);
    debts = store->debts;
    store->debts = NULL;
    first = find_logged(debts, &n_others);
    store->has_logged |= first != NULL;
    pthread_mutex_unlock(&store->lock);
    if (first != NULL) {
        log_error(KVS_LOG_WARN, first, n_others);
    }
    while (debts != NULL) {
        kvsi_op_t *next = debts->next;

        kvsi_op_unref(debts);
        debts = next;
    }
}

void kvsi_engine_owe(kvs_event_t *event, bool untold)
{
    kvsi_op_t *op = kvsi_op_of(event);
    int level;

    pthread_mutex_lock(&op->store->lock);
    event->freed = true;
    event->told &= !untold;
    level = event->done ? owe_locked(op) : 0; /* not done: its end sees to that */
    pthread_mutex_unlock(&op->store->lock);
    if (level != 0) {
        log_error(level, op, 0);
    }
    kvsi_op_unref(op);
}

static kvs_status_t fail_pending_locked(const kvs_store_t *store, const char *what)
{
    const kvs_op_t *oldest = &store->oldest->pub;
    kvs_key_t key = kvsi_key_of(oldest->groups[0].key);

    return kvs_fail(
        KVS_ERR_TIMEOUT, "%s: %zu operations have not completed; the oldest is %s of key %s", what,
        store->n_pending, kvsi_verb_name((kvs_verb_t)oldest->verb), KVSI_KEY_TEXT(&key));
}

bool kvsi_engine_await_end(kvs_store_t *store, int64_t deadline_ns)
{
    for (;;) {
        uint32_t seen = atomic_load(&store->epoch);
        bool is_late = kvsi_now_ns() >= deadline_ns, is_idle; /* a last look comes after it */

        pthread_mutex_lock(&store->lock);
        is_idle = store->oldest == NULL;
        pthread_mutex_unlock(&store->lock);
        if (is_idle || is_late) {
            return is_idle;
        }
        kvsi_store_sleep(store, seen, deadline_ns);
    }
}

kvs_status_t kvsi_engine_drain(kvs_store_t *store, int64_t deadline_ns, const char *what)
{
    kvs_status_t status = KVS_OK;
    uint64_t last;

    pthread_mutex_lock(&store->lock);
    last = store->newest == NULL ? 0 : store->newest->pub.sequence;
    while (store->oldest != NULL && store->oldest->pub.sequence <= last && status == KVS_OK) {
        uint32_t seen = atomic_load(&store->epoch);

        if (atomic_load_explicit(&store->cancelled, memory_order_relaxed)) {
            status = kvs_fail(KVS_ERR_CANCELLED, "%s: the store was cancelled", what);
        } else if (kvsi_now_ns() >= deadline_ns) {
            status = fail_pending_locked(store, what);
        } else {
            pthread_mutex_unlock(&store->lock);
            kvsi_store_sleep(store, seen, deadline_ns);
            pthread_mutex_lock(&store->lock);
        }
    }
    pthread_mutex_unlock(&store->lock);
    return status;
}

/* Resolve the keys, find out how the op must run, and let the backend count it. */
static kvs_status_t issue(kvsi_op_t *op, const kvsi_request_t *request)
{
    kvs_store_t *store = op->store;
    kvsi_op_t *debt;
    kvs_status_t status;

    op->pub.sequence = ++store->sequence;
    pthread_mutex_lock(&store->lock);
    debt = take_debt_of_request_locked(store, request);
    status = debt == NULL ? kvsi_op_resolve_locked(op, request) : KVS_OK;
    pthread_mutex_unlock(&store->lock);
    if (debt != NULL) {
        return tell(debt, kvsi_verb_name(request->verb));
    }
    if (status != KVS_OK) {
        return status;
    }
    op->uses_updater = store->has_updater &&
                       (request->verb == KVS_VERB_PUSH || request->verb == KVS_VERB_PUSHPULL);
    status = kvsi_rows_check_ids(op);
    if (status == KVS_OK) {
        status = kvsi_op_find_shared(op);
    }
    if (status == KVS_OK && store->ops->issue != NULL) {
        status = store->ops->issue(store->state, &op->pub);
    }
    op->serial = op->uses_updater || goes_whole(op);
    if (status != KVS_OK) {
        pthread_mutex_lock(&store->lock);
        kvsi_op_revert_locked(op);
        pthread_mutex_unlock(&store->lock);
    }
    return status;
}

static void mark_used_locked(kvsi_op_t *op)
{
    for (size_t g = 0; g < op->pub.n_groups; g++) {
        key_of(&op->pub.groups[g])->used = true;
    }
}

/* Give the whole op to an asynchronous backend. Where it refuses, nothing has happened. */
static kvs_status_t hand_over(kvsi_op_t *op)
{
    kvs_store_t *store = op->store;
    kvs_status_t status = call_verb(store, &op->pub);

    if (status != KVS_OK) {
        pthread_mutex_lock(&store->lock);
        kvsi_op_revert_locked(op);
        end_pending_locked(op);
        pthread_mutex_unlock(&store->lock);
    }
    return status;
}

/* A few rows may bring about an update of all that the key has. */
static bool runs_in_call(const kvsi_op_t *op)
{
    return !op->detached || (!op->uses_updater && !op->has_rows &&
                             op->bytes_read + op->bytes_written <= SMALL_BYTES);
}

/* Number the op, put it in order with the others, and start it unless its call runs it. */
static kvs_status_t begin(kvsi_op_t *op, const kvsi_request_t *request, bool *ret_owns_lanes)
{
    kvs_store_t *store = op->store;
    bool asynchronous = store->mode == KVS_ASYNCHRONOUS;
    kvs_status_t status;

    pthread_mutex_lock(&store->issue_lock);
    status = issue(op, request);
    if (status == KVS_OK) {
        pthread_mutex_lock(&store->lock);
        mark_used_locked(op);
        begin_pending_locked(op);
        *ret_owns_lanes = !asynchronous && runs_in_call(op) && own_lanes_locked(op);
        if (!asynchronous && !*ret_owns_lanes) {
            make_tasks_locked(op);
        }
        pthread_mutex_unlock(&store->lock);
        if (asynchronous) {
            status = hand_over(op);
        }
    }
    pthread_mutex_unlock(&store->issue_lock);
    return status;
}

/* When a call without an event gives up. What a blocking backend runs ends by itself. */
static int64_t call_deadline(const kvs_store_t *store)
{
    int64_t patience = kvsi_store_patience_ns(store);

    return store->mode == KVS_BLOCKING || patience == INT64_MAX ? INT64_MAX
                                                                : kvsi_now_ns() + patience;
}

/* An op that outlives its call: the engine holds it until its end, and so does the call or event. */
static kvs_status_t run_counted(kvsi_op_t *op, const kvsi_request_t *request, bool event)
{
    kvs_store_t *store = op->store;
    bool owns_lanes;
    kvs_status_t status = KVS_OK;

    kvsi_store_ref(store);
    atomic_init(&op->refs, 2);
    op->detached = true;
    op->deadline_ns = call_deadline(store);
    if (store->mode == KVS_BLOCKING) {
        status = kvsi_pool_start();
    }
    if (status == KVS_OK) {
        status = begin(op, request, &owns_lanes);
    }
    if (status != KVS_OK) {
        kvsi_op_unref(op);
    } else if (event) {
        *request->call->ret_event = &op->event;
        if (owns_lanes) {
            run_at_once(op);
            after_end(op);
        }
        return KVS_OK;
    } else {
        status = wait_for_backend(op);
    }
    kvsi_op_unref(op);
    return status;
}

static kvs_status_t run_now(kvsi_op_t *op, const kvsi_request_t *request)
{
    bool owns_lanes;
    kvs_status_t status = begin(op, request, &owns_lanes);

    if (status == KVS_OK) {
        if (owns_lanes) {
            run_at_once(op);
        } else {
            run_as_lanes_come(op);
        }
        end_pending(op);
        status = op->event.status;
        if (status != KVS_OK) {
            kvs_fail(status, "%s", text_of(op));
        }
    }
    kvsi_op_release(op);
    return status;
}

/* A list without keys is done before it begins. */
static kvs_status_t run_nothing(kvs_store_t *store, const kvsi_request_t *request)
{
    kvsi_op_t *op;

    if (request->call == NULL || request->call->ret_event == NULL) {
        return KVS_OK;
    }
    op = calloc(1, sizeof(*op));
    if (op == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "%s: no memory", kvsi_verb_name(request->verb));
    }
    op->store = store;
    op->on_heap = true;
    kvsi_store_ref(store);
    atomic_init(&op->refs, 1);
    atomic_init(&op->event.done, true);
    *request->call->ret_event = &op->event;
    return KVS_OK;
}

kvs_status_t kvsi_engine_run(kvs_store_t *store, const kvsi_request_t *request)
{
    _Alignas(16) char stack[KVSI_OP_STACK_BYTES];
    bool event = request->call != NULL && request->call->ret_event != NULL;
    bool counted = event || store->mode == KVS_ASYNCHRONOUS;
    kvs_status_t status = kvsi_request_check(request);
    kvsi_op_t *op;
    size_t bytes;
    void *memory = stack;

    if (status != KVS_OK || request->n_keys == 0) {
        return status != KVS_OK ? status : run_nothing(store, request);
    }
    bytes = kvsi_op_bytes(store, request, false);
    if (counted || bytes > sizeof(stack)) {
        bytes = kvsi_op_bytes(store, request, true);
        memory = malloc(bytes);
        if (memory == NULL) {
            return kvs_fail(KVS_ERR_NO_MEMORY, "%s: no memory for %zu bytes of a list of %zu keys",
                            kvsi_verb_name(request->verb), bytes, request->n_keys);
        }
    }
    status = kvsi_op_make(store, request, memory, memory != stack, &op);
    if (status != KVS_OK) {
        if (memory != stack) {
            free(memory);
        }
        return status;
    }
    return counted ? run_counted(op, request, event) : run_now(op, request);
}
