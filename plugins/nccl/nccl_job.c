/* SPDX-License-Identifier: Apache-2.0 */
/* nccl_job.c - operations of a store in a job, key by key: one at a time of a key, in order of issue. What
 * exchanges waits for all workers, and is carried out by the job's thread in the order of worker 0; pulls
 * are this process's own. Arrays of a call that share memory are read when it is issued, and written at its
 * end. */
#include "nccl_job.h"

#include <stdlib.h>
#include <string.h>

#define FUSION_BYTES ((uint64_t)64 << 20) /* of small arrays in one exchange */

/* One key of an operation. */
typedef struct nccl_part {
    hvd_turn_t turn;   /* first */
    nccl_span_t span;  /* of an exchange */
    kvs_tensor_t held; /* of arrays that share memory: what the outs are to get; data NULL: none */
    bool is_awaited;   /* the operation must not end before the devices are done */
    kvs_status_t own;  /* what failed here alone, after the exchange */
    char *own_text;
    nccl_wait_t wait;
} nccl_part_t;

typedef struct nccl_op {
    hvd_op_t base; /* first */
    nccl_part_t items[];
} nccl_op_t;

static nccl_store_t *store_of(const nccl_part_t *item)
{
    return item->turn.op->store;
}

static bool is_init(const kvs_op_t *op)
{
    return op->verb == KVS_VERB_INIT || op->verb == KVS_VERB_BROADCAST;
}

static bool is_shared(const kvs_op_t *op)
{
    return (op->flags & KVS_OP_SHARED) != 0;
}

/* ---- The end of items and operations ---------------------------------------------------------------- */

static void release_item(nccl_store_t *store, nccl_part_t *item)
{
    const kvs_provider_t *provider;

    free(item->own_text);
    nccl_span_release(&item->span);
    if (item->held.data != NULL && kvs_provider_find(KVS_DEVICE_CUDA, &provider) == KVS_OK) {
        provider->free(item->held.device, item->held.data,
                       (size_t)item->turn.group->key->n_elems * (item->held.dtype.bits / 8));
    }
    kvs_dev_marks_drop(&store->dev, item->turn.group);
}

/* An out's place among the outs of the call. */
typedef struct place {
    size_t index;
    const nccl_part_t *item;
    const kvs_tensor_t *out;
} place_t;

static int by_index(const void *a, const void *b)
{
    const place_t *left = a, *right = b;

    return (left->index > right->index) - (left->index < right->index);
}

/* Write outs that share memory, one after the other, and wait: a rare case that needs no speed. */
static kvs_status_t write_places(const place_t *places, size_t n)
{
    const kvs_provider_t *provider;
    kvs_status_t status = kvs_provider_find(KVS_DEVICE_CUDA, &provider);

    for (size_t i = 0; i < n && status == KVS_OK; i++) {
        nccl_side_t side = {.device = places[i].item->held.device,
                            .got = places[i].item->held.data};
        kvs_group_t group = *places[i].item->turn.group;
        nccl_span_t span = {.provider = provider,
                            .group = &group,
                            .dtype = kvs_dtype_index(places[i].item->held.dtype),
                            .n_elems = group.key->n_elems,
                            .sides = &side,
                            .n_sides = 1};

        group.outs = places[i].out;
        group.n_outs = 1;
        status = provider->queue(side.device, &side.queue);
        status = status == KVS_OK ? nccl_span_write_outs(&span) : status;
        status = status == KVS_OK ? nccl_span_wait(&span) : status;
        span.sides = NULL; /* not its own */
        nccl_span_release(&span);
    }
    return status;
}

static kvs_status_t write_shared(const nccl_op_t *op)
{
    size_t n = 0, n_outs = 0;
    place_t *places;
    kvs_status_t status;

    for (size_t g = 0; g < op->base.pub->n_groups; g++) {
        n_outs += op->items[g].held.data == NULL ? 0 : op->base.pub->groups[g].n_outs;
    }
    places = malloc((n_outs + 1) * sizeof(*places));
    if (places == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory to put %zu outs in order", n_outs);
    }
    for (size_t g = 0; g < op->base.pub->n_groups; g++) {
        const kvs_group_t *group = &op->base.pub->groups[g];

        for (size_t i = 0; i < group->n_outs && op->items[g].held.data != NULL; i++) {
            places[n++] = (place_t){group->out_index[i], &op->items[g], &group->outs[i]};
        }
    }
    qsort(places, n, sizeof(*places), by_index);
    status = write_places(places, n);
    free(places);
    return status;
}

static void finish(nccl_op_t *op)
{
    nccl_store_t *store = op->base.store;
    kvs_op_t *pub = op->base.pub;
    kvs_status_t status = hvd_op_result(&op->base);

    if (status == KVS_OK && is_shared(pub)) {
        status = write_shared(op);
    }
    for (size_t g = 0; g < pub->n_groups; g++) {
        release_item(store, &op->items[g]);
    }
    free(op);
    pthread_mutex_lock(&store->member.lock);
    store->n_pending--;
    pthread_cond_broadcast(&store->idle);
    pthread_mutex_unlock(&store->member.lock);
    kvs_plugin_host->complete(pub, status);
}

/* An item is over. */
static void let_go(const nccl_part_t *item, kvs_status_t status, const char *text)
{
    nccl_store_t *store = store_of(item);
    hvd_op_t *op = item->turn.op;
    bool is_last;

    pthread_mutex_lock(&store->member.lock);
    if (status != KVS_OK) {
        hvd_op_note_error_locked(op, &item->turn, status, text);
    }
    is_last = --op->n_left == 0;
    pthread_mutex_unlock(&store->member.lock);
    if (is_last) {
        finish((nccl_op_t *)op); /* the store may be closed from here on */
    }
}

/* ---- This process's own part ------------------------------------------------------------------------ */

/* The item's group as an operation of its own. */
static kvs_op_t one_of(const nccl_part_t *item, kvs_group_t *group)
{
    kvs_op_t one = *item->turn.op->pub;

    one.flags &= ~(uint32_t)KVS_OP_SHARED;
    one.groups = group;
    one.n_groups = 1;
    return one;
}

/* Outs that share memory with others get theirs at the end: until then it is held. */
static kvs_status_t hold_outs(nccl_part_t *item, kvs_group_t *group, kvs_tensor_t *held)
{
    const kvs_provider_t *provider;
    kvs_status_t status = kvs_provider_find(KVS_DEVICE_CUDA, &provider);
    size_t n_bytes = (size_t)group->key->n_elems * (group->key->dtype.bits / 8);

    if (!is_shared(item->turn.op->pub) || group->n_outs == 0 || status != KVS_OK || n_bytes == 0) {
        return status;
    }
    item->held = (kvs_tensor_t){.device = {KVS_DEVICE_CUDA, group->outs[0].device.id},
                                .dtype = group->key->dtype,
                                .ndim = group->key->ndim,
                                .shape = group->key->shape}; /* no stream: it is waited for */
    status = provider->alloc(item->held.device, n_bytes, &item->held.data);
    *held = item->held;
    group->outs = held;
    group->n_outs = 1;
    return status;
}

static kvs_status_t run_pull(nccl_part_t *item)
{
    kvs_group_t group = *item->turn.group;
    kvs_tensor_t held;
    kvs_status_t status = hold_outs(item, &group, &held);
    kvs_op_t one = one_of(item, &group);

    return status == KVS_OK ? kvs_devstore_pull(store_of(item), &one) : status;
}

/* The result of the exchange, on the device that has the key's weight, if there is such a one. */
static kvs_status_t result_of(nccl_part_t *item, kvs_tensor_t *ret_result)
{
    nccl_span_t *span = &item->span;
    size_t home = 0;
    kvs_status_t status = KVS_OK;

    if (span->n_elems == 0) {
        *ret_result = item->turn.group->values[0];
        return KVS_OK;
    }
    if (!is_init(item->turn.op->pub)) {
        kvs_device_t devices[NCCL_MAX_ID + 1];

        for (size_t i = 0; i < span->n_sides; i++) {
            devices[i] = span->sides[i].device;
        }
        status = kvs_devstore_settle(&store_of(item)->dev, item->turn.group->key, devices,
                                     span->n_sides, &home);
    }
    *ret_result = nccl_span_result(span, home);
    return status;
}

static kvs_status_t run_init(nccl_part_t *item)
{
    nccl_store_t *store = store_of(item);
    kvs_group_t group = *item->turn.group;
    kvs_tensor_t value, held;
    kvs_op_t one = one_of(item, &group);
    kvs_status_t status = nccl_span_guard_values(&item->span);

    status = status == KVS_OK ? result_of(item, &value) : status;
    group.values = &value;
    group.n_values = 1;
    status = status == KVS_OK ? kvs_devstore_init(store, &one) : status;
    if (status == KVS_OK && one.verb == KVS_VERB_BROADCAST) {
        status = hold_outs(item, &group, &held);
        status = status == KVS_OK ? kvs_devstore_pull(store, &one) : status;
    }
    return status;
}

/* Whether all outs are on devices that have the sum, which is the result: they have got it already. */
static bool writes_outs(const nccl_part_t *item)
{
    const nccl_store_t *store = store_of(item);
    int64_t devices = nccl_span_devices(&item->span);

    if (item->turn.group->n_outs == 0 || is_shared(item->turn.op->pub) ||
        store->dev.host.opt != NULL || store->dev.host.updater != NULL) {
        return false;
    }
    for (size_t i = 0; i < item->turn.group->n_outs; i++) {
        if ((devices >> item->turn.group->outs[i].device.id & 1) == 0) {
            return false;
        }
    }
    return true;
}

/* The sum is all that was pushed. */
static kvs_status_t run_push(nccl_part_t *item)
{
    nccl_store_t *store = store_of(item);
    bool has_written = writes_outs(item);
    kvs_group_t group = *item->turn.group;
    kvs_tensor_t sum, held;
    kvs_op_t one = one_of(item, &group);
    kvs_status_t status =
        has_written ? nccl_span_write_outs(&item->span) : nccl_span_guard_values(&item->span);

    status = status == KVS_OK ? result_of(item, &sum) : status;
    group.values = &sum;
    group.n_values = 1;
    if (has_written) {
        group.n_outs = 0;
        one.verb = KVS_VERB_PUSH;
    }
    status = status == KVS_OK ? hold_outs(item, &group, &held) : status;
    status = status == KVS_OK ? kvs_hoststore_issue(store, &one) : status;
    if (status != KVS_OK) {
        return status;
    }
    return group.n_outs > 0 ? kvs_devstore_pushpull(store, &one) : kvs_devstore_push(store, &one);
}

/* ---- From one item of a key to the next --------------------------------------------------------------- */

static int32_t fold(uint64_t digest)
{
    return (int32_t)(uint32_t)(digest ^ digest >> 32);
}

/* The item is its key's first no longer. Gives the one that is now. */
static nccl_part_t *leave_key(nccl_store_t *store, nccl_part_t *item)
{
    hvd_turn_t *next;

    pthread_mutex_lock(&store->member.lock);
    next = hvd_turn_leave_locked(&item->turn);
    pthread_mutex_unlock(&store->member.lock);
    return (nccl_part_t *)next;
}

/* Begin what is its key's first. True: it has ended, with that status, whose text is this thread's. */
static bool start(nccl_store_t *store, nccl_part_t *item, kvs_status_t *ret_status)
{
    hvd_pending_t *pending = &item->turn.pending;

    if (pending->what == 0) {
        *ret_status = run_pull(item);
        return true;
    }
    pending->dtype = item->span.dtype;
    pending->root = pending->what == HVD_REDUCE ? fold(store->digest) : 0;
    *ret_status = hvd_turn_ask(&item->turn, &store->member, nccl_span_devices(&item->span),
                               item->turn.key->n_exchanges++);
    return *ret_status != KVS_OK;
}

/* An item has done its work, or failed; the next of its key begins, and may end at once as well. */
static void end_item(nccl_part_t *item, kvs_status_t status, const char *text)
{
    char *own_text = NULL;

    while (item != NULL) {
        nccl_store_t *store = store_of(item);
        nccl_part_t *next = leave_key(store, item);
        kvs_status_t next_status = KVS_OK;
        char *next_text = NULL;

        if (next != NULL && !start(store, next, &next_status)) {
            next = NULL;
        } else if (next_status != KVS_OK) {
            next_text = strdup(kvs_plugin_host->last_error());
        }
        if (status == KVS_OK && item->is_awaited) {
            nccl_link_wait(store->link, &item->wait);
        } else {
            let_go(item, status, text == NULL ? "" : text);
        }
        free(own_text);
        own_text = next_text;
        text = own_text;
        status = next_status;
        item = next;
    }
    free(own_text);
}

/* Work of an operation's values, or its outs, is done on the devices. */
static void on_waited(nccl_wait_t *wait)
{
    nccl_part_t *item = (nccl_part_t *)(void *)((char *)wait - offsetof(nccl_part_t, wait));
    kvs_status_t status = nccl_span_wait(&item->span);

    let_go(item, status, status == KVS_OK ? "" : kvs_plugin_host->last_error());
}

static void on_end(hvd_pending_t *pending, kvs_status_t status, const char *text, int last_rank)
{
    nccl_part_t *item = (nccl_part_t *)pending;

    (void)last_rank;
    if (status == KVS_OK && item->own != KVS_OK) {
        end_item(item, item->own, item->own_text);
    } else {
        end_item(item, status, text);
    }
}

/* ---- Exchanges ----------------------------------------------------------------------------------------- */

/* What a worker does with a sum is its own: an error of that is told to this worker only. */
static void run_own(nccl_part_t *item)
{
    item->own = is_init(item->turn.op->pub) ? run_init(item) : run_push(item);
    item->own_text = item->own == KVS_OK ? NULL : strdup(kvs_plugin_host->last_error());
}

static kvs_status_t run_go(void *state, hvd_pending_t *const *pending, size_t n, const hvd_go_t *go)
{
    nccl_span_t **spans = calloc(n, sizeof(nccl_span_t *));
    nccl_part_t *const *items = (nccl_part_t *const *)pending;
    nccl_span_call_t call = {.is_broadcast = pending[0]->what == HVD_BROADCAST};
    kvs_status_t status = KVS_OK;

    if (spans == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for an exchange of %zu keys", n);
    }
    for (size_t i = 0; i < n; i++) {
        spans[i] = &items[i]->span;
        spans[i]->into_outs = pending[0]->what == HVD_REDUCE && writes_outs(items[i]);
    }
    status = nccl_link_exchange(state, spans, n, go, &call);
    for (size_t i = 0; i < n && status == KVS_OK; i++) {
        run_own(items[i]);
    }
    free(spans);
    return status;
}

/* ---- Beginning ------------------------------------------------------------------------------------------ */

static bool any_awaited(const kvs_tensor_t *tensors, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (kvs_dev_is_awaited(&tensors[i])) {
            return true;
        }
    }
    return false;
}

/* Values that streams guard are copied, since the program may go on with them as soon as the call returns. */
static kvs_status_t prepare(nccl_op_t *op, nccl_part_t *item, kvs_group_t *group)
{
    const kvs_op_t *pub = op->base.pub;
    nccl_store_t *store = op->base.store;
    kvs_status_t status;
    bool guards;

    item->turn.op = &op->base;
    item->turn.group = group;
    item->wait.run = on_waited;
    item->turn.key = hvd_keys_get(&store->member.keys, group->key);
    if (item->turn.key == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for a key");
    }
    item->turn.pending = (hvd_pending_t){.what = pub->verb == KVS_VERB_PULL ? 0
                                                 : is_init(pub)             ? HVD_BROADCAST
                                                                            : HVD_REDUCE,
                                         .key = group->key,
                                         .timeout_ms = store->member.timeout_ms,
                                         .cancelled = &store->member.cancelled,
                                         .end = on_end};
    status = kvs_dev_marks_take(&store->dev, group);
    if (status != KVS_OK || pub->verb == KVS_VERB_PULL) {
        return status;
    }
    if (!is_init(pub) && store->dev.host.opt != NULL) {
        status = kvs_opt_check_key(store->dev.host.opt, group->key);
        if (status != KVS_OK) {
            return status;
        }
    }
    item->span.timeout_ms = store->member.timeout_ms;
    item->is_awaited =
        any_awaited(group->values, group->n_values) || any_awaited(group->outs, group->n_outs);
    guards = !any_awaited(group->values, group->n_values) && !is_init(pub);
    status =
        nccl_span_open(&item->span, group, guards || pub->verb == KVS_VERB_PUSH || is_shared(pub));
    return status == KVS_OK && guards ? nccl_span_guard_values(&item->span) : status;
}

static kvs_status_t prepare_all(nccl_op_t *op)
{
    kvs_status_t status = KVS_OK;
    size_t n = 0;

    while (n < op->base.pub->n_groups && status == KVS_OK) {
        status = prepare(op, &op->items[n], &op->base.pub->groups[n]);
        n++;
    }
    for (size_t g = 0; g < n && status != KVS_OK; g++) {
        release_item(op->base.store, &op->items[g]);
    }
    return status;
}

static void begin_item(nccl_store_t *store, nccl_part_t *item)
{
    kvs_status_t status = KVS_OK;
    bool is_first;

    pthread_mutex_lock(&store->member.lock);
    is_first = hvd_turn_join_locked(&item->turn);
    pthread_mutex_unlock(&store->member.lock);
    if (is_first && start(store, item, &status)) {
        char *text = status == KVS_OK ? NULL : strdup(kvs_plugin_host->last_error());

        end_item(item, status, text);
        free(text);
    }
}

/* Give the values of a push back as soon as they have been copied, so that workers may push keys in different
 * orders. Where no stream waits for that, and nobody has an event, this thread does. */
static kvs_status_t consume(nccl_op_t *op)
{
    kvs_op_t *pub = op->base.pub;
    nccl_store_t *store = op->base.store;
    bool is_awaited = false;
    kvs_status_t status = KVS_OK;

    for (size_t g = 0; g < pub->n_groups && status == KVS_OK; g++) {
        if (op->items[g].is_awaited) {
            status = nccl_span_guard_values(&op->items[g].span);
            is_awaited = true;
        }
    }
    if (status != KVS_OK || (is_awaited && (pub->flags & KVS_OP_WAITS) == 0)) {
        return status;
    }
    for (size_t g = 0; g < pub->n_groups && status == KVS_OK; g++) {
        status = is_awaited ? nccl_span_wait(&op->items[g].span) : KVS_OK;
        kvs_dev_marks_drop(&store->dev, &pub->groups[g]); /* the streams are not ours any more */
    }
    if (status == KVS_OK) {
        kvs_plugin_host->consumed(pub);
    }
    return status;
}

static kvs_status_t begin(nccl_op_t *op)
{
    nccl_store_t *store = op->base.store;
    size_t n_groups = op->base.pub->n_groups;
    kvs_status_t status = prepare_all(op);

    if (status == KVS_OK && op->base.pub->verb == KVS_VERB_PUSH &&
        store->dev.host.updater == NULL) {
        status = consume(op); /* an updater's error is the push's own: it ends with that */
        for (size_t g = 0; g < n_groups && status != KVS_OK; g++) {
            release_item(store, &op->items[g]);
        }
    }
    if (status != KVS_OK) {
        return status;
    }
    op->base.n_left = n_groups + 1;
    pthread_mutex_lock(&store->member.lock);
    store->n_pending++;
    pthread_mutex_unlock(&store->member.lock);
    for (size_t g = 0; g < n_groups; g++) {
        begin_item(store, &op->items[g]);
    }
    if (hvd_op_let_go(&op->base, &store->member)) {
        finish(op);
    }
    return KVS_OK;
}

kvs_status_t nccl_job_run(nccl_store_t *store, kvs_op_t *pub)
{
    kvs_status_t status = hvd_job_check(store->member.job);
    nccl_op_t *op;

    if (status != KVS_OK) {
        return kvs_fail_context(status, "%s", hvd_verb_name(pub));
    }
    op = calloc(1, sizeof(*op) + pub->n_groups * sizeof(op->items[0]));
    if (op == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "%s: no memory", hvd_verb_name(pub));
    }
    op->base.pub = pub;
    op->base.store = store;
    status = begin(op);
    if (status != KVS_OK) {
        free(op);
        return kvs_fail_context(status, "%s", hvd_verb_name(pub));
    }
    return KVS_OK;
}

/* ---- Calls that wait -------------------------------------------------------------------------------------- */

kvs_status_t nccl_job_drain(nccl_store_t *store)
{
    kvs_status_t status = KVS_OK;

    pthread_mutex_lock(&store->member.lock);
    while (store->n_pending > 0 && status == KVS_OK) {
        hvd_member_pause(&store->idle, &store->member.lock);
        if (hvd_member_is_cancelled(&store->member)) {
            status = kvs_fail(KVS_ERR_CANCELLED, "the store was cancelled");
        }
    }
    pthread_mutex_unlock(&store->member.lock);
    return status;
}

/* ---- Life --------------------------------------------------------------------------------------------------- */

static kvs_status_t engine_open(hvd_job_t *job, const void *options, void **ret_state)
{
    kvs_net_node_t *node = hvd_job_node(job);
    nccl_link_t *link;
    kvs_status_t status = nccl_link_open(job, &link);

    (void)options;
    if (status == KVS_OK) {
        kvs_log(KVS_LOG_INFO, "nccl", "worker %d of %d", kvs_net_node_rank(node),
                kvs_net_node_count(node, KVS_NET_WORKER));
        *ret_state = link;
    }
    return status;
}

static void engine_message(void *state, hvd_view_t view)
{
    nccl_link_message(state, view);
}

static void engine_close(void *state, bool is_over)
{
    nccl_link_close(state, is_over);
}

const hvd_engine_t nccl_engine = {.name = "nccl",
                                  .version = "nccl " NCCL_PLUGIN_VERSION,
                                  .open = engine_open,
                                  .run = run_go,
                                  .message = engine_message,
                                  .close = engine_close};

kvs_status_t nccl_job_open(nccl_store_t *store, const kvs_net_settings_t *settings,
                           const kvs_open_args_t *args)
{
    hvd_job_options_t options = {
        .engine = &nccl_engine, .fusion_bytes = FUSION_BYTES, .timeline = ""};
    hvd_job_t *job;
    kvs_status_t status = hvd_job_get(settings, &options, &job);

    status = status == KVS_OK ? hvd_member_open(&store->member, job, args) : status;
    if (status == KVS_OK) {
        store->link = hvd_job_engine(job);
        pthread_cond_init(&store->idle, NULL);
    }
    return status;
}

kvs_status_t nccl_job_close(nccl_store_t *store, int64_t timeout_ms)
{
    kvs_status_t status = hvd_member_close(&store->member, timeout_ms);

    pthread_cond_destroy(&store->idle);
    return status;
}
