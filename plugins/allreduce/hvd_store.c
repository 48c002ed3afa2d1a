/* SPDX-License-Identifier: Apache-2.0 */
#include "hvd_store.h"

#include "hvd_engine.h"
#include "hvd_held.h"

#include <kvstore/allreduce.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- Life -------------------------------------------------------------------------------------- */

kvs_status_t hvd_store_open(hvd_store_t *store, hvd_job_t *job, const kvs_open_args_t *args)
{
    kvs_status_t status = hvd_member_open(&store->member, job, args);

    if (status == KVS_OK) {
        store->quick = hvd_engine_quick(job);
        pthread_mutex_init(&store->streams.host.lock, NULL);
    }
    return status;
}

kvs_status_t hvd_store_close(hvd_store_t *store, int64_t timeout_ms)
{
    kvs_status_t status = hvd_member_close(&store->member, timeout_ms);

    hvd_keys_release(&store->gather_keys);
    pthread_mutex_destroy(&store->streams.host.lock);
    return status;
}

/* ---- What is asked for ---------------------------------------------------------------------------- */

/* NULL: no memory. */
static hvd_key_t *key_of(hvd_store_t *store, const kvs_group_t *group)
{
    hvd_entry_t *entry = group->key->state;

    if (entry->key == NULL) {
        entry->key = hvd_keys_get(&store->member.keys, group->key);
    }
    return entry->key;
}

/* How many exchanges of the key have been asked for, as all workers count them. */
static uint64_t count_of(const hvd_store_t *store, hvd_key_t *key)
{
    uint32_t epoch = atomic_load_explicit(&store->epoch, memory_order_relaxed);

    if (key->epoch != epoch) {
        key->epoch = epoch;
        key->n_exchanges = 0;
    }
    return (uint64_t)key->epoch << 40 | key->n_exchanges;
}

static kvs_status_t ask_for(hvd_item_t *item, uint64_t count)
{
    const hvd_store_t *store = item->turn.op->store;
    const struct hvd_device *device = item->turn.pending.device;

    return hvd_turn_ask(&item->turn, &store->member,
                        device != NULL ? hvd_device_mask(device) : item->rows.rows.n_rows, count);
}

/* ---- The end of items and operations ---------------------------------------------------------------- */

static void release_item(hvd_item_t *item)
{
    if (item->held.rows == NULL) {
        hvd_held_release(&item->held);
    }
    hvd_rows_release(&item->rows);
    hvd_device_close(item->turn.pending.device);
    item->turn.pending.device = NULL;
}

static void finish(hvd_op_t *op)
{
    kvs_op_t *pub = op->pub;
    hvd_store_t *store = op->store;
    kvs_status_t status = hvd_op_result(op);
    bool is_shared = (pub->flags & KVS_OP_SHARED) != 0;
    kvs_tensor_t *held = is_shared ? calloc(pub->n_groups, sizeof(*held)) : NULL;

    if (is_shared && held == NULL) {
        status = kvs_fail(KVS_ERR_NO_MEMORY, "%s: no memory for its outs", hvd_verb_name(pub));
    }
    for (size_t g = 0; held != NULL && g < pub->n_groups; g++) {
        held[g] = ((hvd_item_t *)pub->groups[g].state)->held;
    }
    if (held != NULL && status == KVS_OK) {
        status = hvd_held_write(pub, held);
    }
    for (size_t g = 0; g < pub->n_groups; g++) {
        release_item(pub->groups[g].state);
    }
    free(held);
    atomic_fetch_sub_explicit(&store->n_pending, 1, memory_order_release);
    free(op);
    kvs_devhost_complete(pub, status);
}

/* The item is its key's first no longer. Gives the one that is now, and its count. */
static hvd_item_t *leave_key(hvd_item_t *item, kvs_status_t status, const char *text,
                             uint64_t *ret_count, bool *ret_is_last)
{
    hvd_op_t *op = item->turn.op;
    hvd_store_t *store = op->store;
    hvd_turn_t *next;

    pthread_mutex_lock(&store->member.lock);
    if (status != KVS_OK) {
        hvd_op_note_error_locked(op, &item->turn, status, text);
    }
    next = hvd_turn_leave_locked(&item->turn);
    if (next != NULL) {
        *ret_count = count_of(store, next->key);
        next->key->n_exchanges++;
    }
    *ret_is_last = --op->n_left == 0;
    pthread_mutex_unlock(&store->member.lock);
    return (hvd_item_t *)next;
}

/* An item has ended; the next of its key is asked for, or ends as well if that can't be done. */
static void end_item(hvd_item_t *item, kvs_status_t status, const char *text)
{
    char *own_text = NULL;

    while (item != NULL) {
        hvd_op_t *op = item->turn.op;
        uint64_t count = 0;
        bool is_last;
        hvd_item_t *next = leave_key(item, status, text, &count, &is_last);

        if (next != NULL) {
            status = ask_for(next, count);
            next = status == KVS_OK ? NULL : next;
        }
        if (next != NULL) {
            free(own_text);
            own_text = strdup(kvs_plugin_host->last_error());
            text = own_text == NULL ? "" : own_text;
        }
        if (is_last) {
            finish(op); /* the store may be closed from here on, unless `next` holds it */
        }
        item = next;
    }
    free(own_text);
}

static void on_device_done(void *item, kvs_status_t status, const char *text)
{
    end_item(item, status, text);
}

static void on_end(hvd_pending_t *pending, kvs_status_t status, const char *text, int last_rank)
{
    (void)last_rank;
    if (status != KVS_OK || pending->device == NULL ||
        !hvd_device_end_later(pending->device, on_device_done, pending)) {
        end_item((hvd_item_t *)pending, status, text);
    }
}

/* ---- Beginning ------------------------------------------------------------------------------------ */

static kvs_status_t run_rows(hvd_pending_t *pending, hvd_job_t *job, const ar_party_t *party,
                             const int64_t *extra)
{
    hvd_item_t *item = (hvd_item_t *)pending;

    return hvd_rows_run(job, party, &item->rows, extra, pending->reduce, item->turn.group,
                        &pending->own);
}

/* Row-sparse values are summed at once; all workers' rows then go to all. */
static kvs_status_t prepare_rows(hvd_item_t *item)
{
    kvs_status_t status;

    if (item->turn.pending.reduce != KVS_REDUCE_SUM &&
        item->turn.pending.reduce != KVS_REDUCE_AVERAGE) {
        return kvs_fail(KVS_ERR_NOT_IMPLEMENTED,
                        "pushpull: of row-sparse values there are the sum and the average only");
    }
    status = hvd_rows_make(item->turn.group, &item->rows);
    item->held.rows = &item->rows.rows;
    item->turn.pending.what = HVD_ROWS;
    item->turn.pending.run = run_rows;
    return status;
}

static kvs_status_t prepare(hvd_op_t *op, kvs_group_t *group, bool on_devices)
{
    hvd_item_t *item = group->state;
    hvd_store_t *store = op->store;
    const kvs_tensor_t *value = &group->values[0];
    bool holds = (op->pub->flags & KVS_OP_SHARED) != 0;

    item->turn.op = op;
    item->turn.group = group;
    item->turn.key = key_of(store, group);
    if (item->turn.key == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "%s: no memory for a key", hvd_verb_name(op->pub));
    }
    item->turn.pending =
        (hvd_pending_t){.what = op->pub->verb == KVS_VERB_PUSHPULL ? HVD_REDUCE : HVD_BROADCAST,
                        .reduce = (int)op->pub->reduce,
                        .dtype = kvs_dtype_index(value->dtype),
                        .key = group->key,
                        .piece = {.n_elems = kvs_tensor_n_elems(value),
                                  .values = group->values,
                                  .n_values = group->n_values,
                                  .outs = group->outs,
                                  .n_outs = group->n_outs},
                        .timeout_ms = store->member.timeout_ms,
                        .cancelled = &store->member.cancelled,
                        .end = on_end};
    if (on_devices) {
        return hvd_device_open(hvd_engine_nccl(store->member.job), &store->streams, group,
                               store->member.timeout_ms, &item->turn.pending.device);
    }
    if (value->rows != NULL) {
        return prepare_rows(item);
    }
    if (holds || group->n_values > AR_MAX_VALUES) {
        kvs_status_t status = hvd_held_make(group, &item->held);

        if (status != KVS_OK) {
            return status;
        }
        item->turn.pending.piece.values = &item->held;
        item->turn.pending.piece.n_values = 1;
    }
    if (holds) {
        item->turn.pending.piece.outs = &item->held;
        item->turn.pending.piece.n_outs = 1;
    }
    return KVS_OK;
}

static kvs_status_t prepare_all(hvd_op_t *op, bool on_devices)
{
    kvs_status_t status = KVS_OK;

    for (size_t g = 0; g < op->pub->n_groups && status == KVS_OK; g++) {
        status = prepare(op, &op->pub->groups[g], on_devices);
    }
    for (size_t g = 0; g < op->pub->n_groups && status != KVS_OK; g++) {
        release_item(op->pub->groups[g].state);
    }
    return status;
}

static void begin_item(hvd_store_t *store, hvd_item_t *item)
{
    hvd_key_t *key = item->turn.key;
    uint64_t count = 0;
    bool is_first;

    pthread_mutex_lock(&store->member.lock);
    is_first = hvd_turn_join_locked(&item->turn);
    if (is_first) {
        count = count_of(store, key);
        key->n_exchanges++;
    }
    pthread_mutex_unlock(&store->member.lock);
    if (is_first) {
        kvs_status_t status = ask_for(item, count);

        if (status != KVS_OK) {
            char *text = strdup(kvs_plugin_host->last_error());

            end_item(item, status, text == NULL ? "" : text);
            free(text);
        }
    }
}

static kvs_status_t begin(hvd_store_t *store, kvs_op_t *pub)
{
    hvd_op_t *op = calloc(1, sizeof(*op));
    size_t n_groups = pub->n_groups;
    kvs_status_t status;

    if (op == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "%s: no memory", hvd_verb_name(pub));
    }
    op->pub = pub;
    op->store = store;
    op->n_left = n_groups + 1;
    status = prepare_all(op, hvd_store_takes(store, pub));
    if (status != KVS_OK) {
        free(op);
        return status;
    }
    atomic_fetch_add_explicit(&store->n_pending, 1, memory_order_relaxed);
    for (size_t g = 0; g < n_groups; g++) {
        begin_item(store, pub->groups[g].state);
    }
    if (hvd_op_let_go(op, &store->member)) {
        finish(op);
    }
    return KVS_OK;
}

/* ---- Small arrays ---------------------------------------------------------------------------------- */

/* Nothing of this store is under way, the caller waits, and it is one small key. */
static bool is_quick(const hvd_store_t *store, const kvs_op_t *op, uint64_t n_bytes)
{
    return store->quick != NULL && (op->flags & KVS_OP_WAITS) != 0 &&
           atomic_load_explicit(&store->n_pending, memory_order_acquire) == 0 &&
           hvd_quick_takes(store->quick, n_bytes) && op->groups[0].n_values <= AR_MAX_VALUES;
}

static bool run_quick(hvd_store_t *store, kvs_op_t *op)
{
    const kvs_group_t *group = &op->groups[0];
    const kvs_tensor_t *value = &group->values[0];
    hvd_key_t *key = key_of(store, group);
    int dtype = kvs_dtype_index(value->dtype);
    ar_piece_t piece = {.n_elems = kvs_tensor_n_elems(value),
                        .values = group->values,
                        .n_values = group->n_values,
                        .outs = group->outs,
                        .n_outs = group->n_outs};
    ar_data_t data = ar_data_number(dtype, &piece, 1);
    hvd_quick_call_t call = {.root = op->verb == KVS_VERB_BROADCAST ? 0 : HVD_QUICK_ALL,
                             .reduce = (int)op->reduce,
                             .data = &data};

    if (key == NULL || value->rows != NULL ||
        !is_quick(store, op, (uint64_t)piece.n_elems * kvs_dtype_bytes(dtype))) {
        return false;
    }
    call.digest = hvd_mix(hvd_mix(key->digest, store->member.number), count_of(store, key));
    call.digest = hvd_mix(call.digest, op->verb << 24 | (uint32_t)call.reduce << 16 |
                                           (uint32_t)dtype << 8 | (uint32_t)value->ndim);
    for (int32_t i = 0; i < value->ndim; i++) {
        call.digest = hvd_mix(call.digest, (uint64_t)value->shape[i]);
    }
    if (!hvd_quick_try(store->quick, &call)) {
        return false;
    }
    key->n_exchanges++;
    kvs_devhost_complete(op, KVS_OK);
    return true;
}

bool hvd_store_takes(const hvd_store_t *store, const kvs_op_t *op)
{
    return op->n_groups > 0 && hvd_device_takes(op) && hvd_engine_nccl(store->member.job) != NULL;
}

kvs_status_t hvd_store_run(hvd_store_t *store, kvs_op_t *op)
{
    kvs_status_t status = hvd_job_check(store->member.job);

    if (status != KVS_OK) {
        return kvs_fail_context(status, "%s", hvd_verb_name(op));
    }
    if (op->reduce > KVS_REDUCE_MAX) {
        return kvs_fail(KVS_ERR_ARGUMENT, "pushpull: reduction %u is none of KVS_REDUCE_...",
                        op->reduce);
    }
    if (hvd_store_takes(store, op)) {
        return begin(store, op);
    }
    if (op->n_groups == 1 && (op->flags & KVS_OP_SHARED) == 0 && run_quick(store, op)) {
        return KVS_OK;
    }
    status = hvd_engine_check_host(store->member.job);
    return status == KVS_OK ? begin(store, op) : kvs_fail_context(status, "%s", hvd_verb_name(op));
}

/* ---- Calls that wait -------------------------------------------------------------------------------- */

/* A call that waits until its pending has ended. */
typedef struct waiter {
    hvd_pending_t pending; /* first */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool has_ended;
    kvs_status_t status;
    char *text;
    int last_rank;
} waiter_t;

static void wake(hvd_pending_t *pending, kvs_status_t status, const char *text, int last_rank)
{
    waiter_t *waiter = (waiter_t *)pending;

    pthread_mutex_lock(&waiter->lock);
    waiter->status = status;
    waiter->text = status == KVS_OK ? NULL : strdup(text);
    waiter->last_rank = last_rank;
    waiter->has_ended = true;
    pthread_cond_signal(&waiter->changed);
    pthread_mutex_unlock(&waiter->lock);
}

/* The job's thread ends it in any case, but a cancelled store does not wait for that. False: it was
 * cancelled, and is waited for no more. */
static bool wait_until_ended(hvd_store_t *store, waiter_t *waiter)
{
    bool gave_up = false;

    pthread_mutex_lock(&waiter->lock);
    while (!waiter->has_ended && !gave_up) {
        hvd_member_pause(&waiter->changed, &waiter->lock);
        if (!waiter->has_ended && hvd_member_is_cancelled(&store->member)) {
            pthread_mutex_unlock(&waiter->lock);
            gave_up = hvd_job_give_up(store->member.job, &waiter->pending);
            pthread_mutex_lock(&waiter->lock);
        }
    }
    pthread_mutex_unlock(&waiter->lock);
    return !gave_up;
}

/* Ask, and wait. */
static kvs_status_t ask_and_wait(hvd_store_t *store, waiter_t *waiter, hvd_ask_t *ask)
{
    kvs_status_t status;

    pthread_mutex_init(&waiter->lock, NULL);
    pthread_cond_init(&waiter->changed, NULL);
    waiter->pending.end = wake;
    status = hvd_job_ask(store->member.job, &waiter->pending, ask);
    if (status == KVS_OK && !wait_until_ended(store, waiter)) {
        status = kvs_fail(KVS_ERR_CANCELLED, "the store was cancelled");
    } else if (status == KVS_OK && waiter->status != KVS_OK) {
        status = kvs_fail(waiter->status, "%s", waiter->text == NULL ? "" : waiter->text);
    }
    free(waiter->text);
    pthread_cond_destroy(&waiter->changed);
    pthread_mutex_destroy(&waiter->lock);
    return status;
}

kvs_status_t hvd_store_join(hvd_store_t *store, int *ret_last_rank)
{
    waiter_t waiter = {.pending = {.what = HVD_JOIN, .timeout_ms = store->member.timeout_ms}};
    hvd_ask_t ask = {.store = store->member.number,
                     .what = HVD_JOIN,
                     .timeout_ms = store->member.timeout_ms,
                     .warning_ms = store->member.warning_ms};
    kvs_status_t status;

    if (atomic_load_explicit(&store->n_pending, memory_order_acquire) > 0) {
        return kvs_fail(KVS_ERR_STATE,
                        "join: operations of this store have not completed; wait for them first");
    }
    status = ask_and_wait(store, &waiter, &ask);
    if (status != KVS_OK) {
        return kvs_fail_context(status, "join");
    }
    atomic_fetch_add_explicit(&store->epoch, 1, memory_order_relaxed);
    *ret_last_rank = waiter.last_rank;
    return KVS_OK;
}

/* ---- Allgather -------------------------------------------------------------------------------------- */

typedef struct gather {
    waiter_t waiter; /* first */
    const kvs_tensor_t *value, *out;
} gather_t;

/* Where each member's part goes: nowhere if the out does not have just the room. */
static void place_parts(const gather_t *gather, const ar_party_t *party, int rank,
                        const int64_t *extra, bool fits, int64_t *n, void **at)
{
    const kvs_tensor_t *value = gather->value;
    int64_t row_elems = kvs_row_elems(value), n_rows = 0;
    size_t size = value->dtype.bits / 8;

    for (int m = 0; m < party->n_members; m++) {
        bool is_own = party->members[m] == rank;

        n[m] = extra[m] * row_elems;
        at[m] = is_own ? value->data : NULL;
        if (fits && n[m] > 0) {
            at[m] = (char *)gather->out->data + (size_t)(n_rows * row_elems) * size;
        }
        if (fits && is_own && n[m] > 0) {
            memcpy(at[m], value->data, (size_t)n[m] * size);
        }
        n_rows += extra[m];
    }
}

static kvs_status_t run_gather(hvd_pending_t *pending, hvd_job_t *job, const ar_party_t *party,
                               const int64_t *extra)
{
    gather_t *gather = (gather_t *)pending;
    int rank = kvs_net_node_rank(hvd_job_node(job));
    size_t row_bytes = (size_t)kvs_row_elems(gather->value) * (gather->value->dtype.bits / 8);
    kvs_status_t status = hvd_check_rows(party->members, extra, party->n_members, rank,
                                         gather->value->shape[0], INT64_MAX, row_bytes);

    if (status != KVS_OK) {
        return status;
    }
    int64_t *n = calloc((size_t)party->n_members, sizeof(*n)), n_rows = 0;
    void **at = calloc((size_t)party->n_members, sizeof(*at));
    uint32_t number = party->number;
    bool fits;

    for (int m = 0; m < party->n_members; m++) {
        n_rows += extra[m];
    }
    fits = n_rows == gather->out->shape[0];
    if (n == NULL || at == NULL) {
        status = kvs_fail(KVS_ERR_NO_MEMORY, "no memory for an allgather");
    } else {
        place_parts(gather, party, rank, extra, fits, n, at);
        status = hvd_gather_run(job, party, &number, pending->dtype, n, at);
    }
    if (status == KVS_OK && !fits) {
        pending->own = kvs_fail(KVS_ERR_SHAPE,
                                "the first dimensions of the workers' values add up to %" PRId64
                                ", but that of the out is %" PRId64,
                                n_rows, gather->out->shape[0]);
    }
    free(n);
    free(at);
    return status;
}

/* The n-th allgather of a key; they are none of its pushpulls. */
static kvs_status_t count_gather(hvd_store_t *store, const kvs_key_t *key, uint64_t *ret_count)
{
    kvs_key_entry_t entry = {.number = key->num, .name = key->str};
    hvd_key_t *known;

    pthread_mutex_lock(&store->member.lock);
    known = hvd_keys_get(&store->gather_keys, &entry);
    if (known != NULL) {
        *ret_count = UINT64_C(1) << 63 | count_of(store, known);
        known->n_exchanges++;
    }
    pthread_mutex_unlock(&store->member.lock);
    return known != NULL ? KVS_OK : kvs_fail(KVS_ERR_NO_MEMORY, "no memory for a key");
}

kvs_status_t hvd_store_allgather(hvd_store_t *store, const kvs_key_t *key,
                                 const kvs_tensor_t *value, const kvs_tensor_t *out)
{
    gather_t gather = {.waiter = {.pending = {.what = HVD_GATHER,
                                              .dtype = kvs_dtype_index(value->dtype),
                                              .timeout_ms = store->member.timeout_ms,
                                              .run = run_gather}},
                       .value = value,
                       .out = out};
    hvd_ask_t ask = {.store = store->member.number,
                     .what = HVD_GATHER,
                     .dtype = (uint8_t)gather.waiter.pending.dtype,
                     .ndim = value->ndim,
                     .extra = value->shape[0],
                     .timeout_ms = store->member.timeout_ms,
                     .warning_ms = store->member.warning_ms,
                     .is_text = key->str != NULL,
                     .number = key->num,
                     .text = key->str,
                     .n_text = key->str == NULL ? 0 : (uint32_t)strlen(key->str)};
    kvs_status_t status = count_gather(store, key, &ask.count);

    memcpy(ask.shape, value->shape, (size_t)value->ndim * sizeof(int64_t));
    if (status == KVS_OK) {
        status = ask_and_wait(store, &gather.waiter, &ask);
    }
    if (status == KVS_OK) {
        return KVS_OK;
    }
    return key->str != NULL ? kvs_fail_context(status, "allgather: key '%s'", key->str)
                            : kvs_fail_context(status, "allgather: key %" PRId64, key->num);
}
