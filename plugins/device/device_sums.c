/* SPDX-License-Identifier: Apache-2.0 */
/* device_sums.c - see device_sums.h. A device adds what its children have to what it has itself, from the
 * leaves to the root, and weights and results go the same way back. Each device works in its own queue and waits for marks
 * of others; the host waits for nothing. */
#include "device_sums.h"

#include "device_tree.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define THROUGH_HOST 0.5 /* what a pair without peer access counts; the least link counts 1 */
#define CUT          64  /* elements: slices begin at multiples */

/* The trees of a list of devices, planned once. */
typedef struct plan {
    struct plan *next;
    int32_t n;
    int32_t ids[DEVICE_TREE_MAX];
    double penalty;
    device_tree_t trees[];
} plan_t;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static plan_t *plans; /* kept until the process ends; guarded by lock */

/* ---- Plans --------------------------------------------------------------------------------------- */

static void log_plan(const plan_t *plan)
{
    for (int32_t root = 0; root < plan->n; root++) {
        char text[512];
        size_t at = 0;

        for (int32_t i = 0; i < plan->n && at < sizeof(text) - 32; i++) {
            if (i != root) {
                at += (size_t)snprintf(text + at, sizeof(text) - at, " %d>%d", plan->ids[i],
                                       plan->ids[plan->trees[root].parent[i]]);
            }
        }
        kvs_log(KVS_LOG_INFO, "device", "tree to cuda(%d):%s", plan->ids[root], text);
    }
}

static kvs_status_t make_plan(const kvs_provider_t *provider, const kvs_collective_item_t *item,
                              const device_store_t *store, plan_t **ret_plan)
{
    int32_t n = (int32_t)item->n_devices;
    double links[DEVICE_TREE_MAX * DEVICE_TREE_MAX];
    plan_t *plan;
    kvs_status_t status;

    if (item->n_devices > DEVICE_TREE_MAX) {
        return kvs_fail(KVS_ERR_NOT_IMPLEMENTED,
                        "trees are planned over at most %d devices, not %zu", DEVICE_TREE_MAX,
                        item->n_devices);
    }
    plan = calloc(1, sizeof(*plan) + item->n_devices * sizeof(plan->trees[0]));
    if (plan == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for trees over %zu devices", item->n_devices);
    }
    for (int32_t i = 0; i < n; i++) {
        plan->ids[i] = item->devices[i].id;
        for (int32_t j = 0; j < n; j++) { /* a tree uses a link both ways */
            int there = provider->reaches(item->devices[i].id, item->devices[j].id);
            int back = provider->reaches(item->devices[j].id, item->devices[i].id);

            links[i * n + j] = i == j ? 0 : there < back ? there : back;
        }
    }
    plan->n = n;
    plan->penalty = store->penalty;
    status = device_tree_plan(n, links, THROUGH_HOST, store->penalty, plan->trees);
    if (status != KVS_OK) {
        free(plan);
        return status;
    }
    if (store->logs) {
        log_plan(plan);
    }
    *ret_plan = plan;
    return KVS_OK;
}

static int fits(const plan_t *plan, const kvs_collective_item_t *item, double penalty)
{
    size_t i = 0;

    while (i < item->n_devices && i < (size_t)plan->n && plan->ids[i] == item->devices[i].id) {
        i++;
    }
    return i == item->n_devices && i == (size_t)plan->n && plan->penalty == penalty;
}

static kvs_status_t get_plan(const kvs_provider_t *provider, const kvs_collective_item_t *item,
                             const device_store_t *store, const plan_t **ret_plan)
{
    kvs_status_t status = KVS_OK;
    plan_t *plan;

    pthread_mutex_lock(&lock);
    plan = plans;
    while (plan != NULL && !fits(plan, item, store->penalty)) {
        plan = plan->next;
    }
    if (plan == NULL) {
        status = make_plan(provider, item, store, &plan);
        if (status == KVS_OK) {
            plan->next = plans;
            plans = plan;
        }
    }
    pthread_mutex_unlock(&lock);
    if (status == KVS_OK) {
        *ret_plan = plan;
    }
    return status;
}

/* ---- Along one tree ------------------------------------------------------------------------------ */

/* Elements [first, first + n) of an item, along one tree. */
typedef struct slice {
    const kvs_provider_t *provider;
    const kvs_collective_item_t *item;
    const device_tree_t *tree;
    int dtype;
    size_t elem_bytes;
    int64_t first, n;
    void *sums[DEVICE_TREE_MAX];   /* of inner devices other than the root */
    void *copies[DEVICE_TREE_MAX]; /* of what a child has, at its parent that doesn't reach it */
} slice_t;

static size_t slice_bytes(const slice_t *slice)
{
    return (size_t)slice->n * slice->elem_bytes;
}

static const void *source(const slice_t *slice, int32_t i)
{
    return (const char *)slice->item->src[i] + (size_t)slice->first * slice->elem_bytes;
}

static void *target(const slice_t *slice, int32_t i)
{
    return (char *)slice->item->dst[i] + (size_t)slice->first * slice->elem_bytes;
}

/* Let the queue of device `later` wait for what that of `earlier` has been given so far. */
static kvs_status_t follow(const slice_t *slice, int32_t later, int32_t earlier)
{
    kvs_mark_t mark;
    kvs_status_t status = slice->provider->mark(slice->item->queues[earlier], &mark);

    return status == KVS_OK ? slice->provider->wait(slice->item->queues[later], &mark) : status;
}

static int reaches(const slice_t *slice, int32_t from, int32_t to)
{
    return slice->provider->reaches(slice->item->devices[from].id, slice->item->devices[to].id) !=
           0;
}

/* What a device has to give to its parent. */
static const void *given_by(const slice_t *slice, int32_t i)
{
    return slice->sums[i] != NULL ? slice->sums[i] : source(slice, i);
}

/* Where the parent finds what its child gives: there, or in a copy at hand. */
static kvs_status_t fetch(slice_t *slice, int32_t parent, int32_t child, const void **ret_data)
{
    const kvs_collective_item_t *item = slice->item;
    kvs_status_t status = follow(slice, parent, child);

    *ret_data = given_by(slice, child);
    if (status != KVS_OK || reaches(slice, parent, child)) {
        return status;
    }
    status =
        slice->provider->alloc(item->devices[parent], slice_bytes(slice), &slice->copies[child]);
    if (status == KVS_OK) {
        status =
            slice->provider->copy(item->queues[parent], item->devices[parent], slice->copies[child],
                                  item->devices[child], *ret_data, slice_bytes(slice));
        *ret_data = slice->copies[child];
    }
    return status;
}

static kvs_status_t add_children(slice_t *slice, int32_t parent)
{
    const void *src[DEVICE_TREE_MAX] = {source(slice, parent)};
    kvs_sum_item_t sum = {.n = slice->n, .src = src, .n_src = 1, .n_dst = 1};
    void *dst = parent == slice->tree->root ? target(slice, parent) : NULL;
    kvs_status_t status = KVS_OK;

    for (int32_t i = 0; i < slice->tree->n && status == KVS_OK; i++) {
        if (i != parent && slice->tree->parent[i] == parent) {
            status = fetch(slice, parent, i, &src[sum.n_src++]);
        }
    }
    if (status == KVS_OK && parent != slice->tree->root && sum.n_src > 1) {
        status = slice->provider->alloc(slice->item->devices[parent], slice_bytes(slice),
                                        &slice->sums[parent]);
        dst = slice->sums[parent];
    }
    if (status != KVS_OK || (parent != slice->tree->root && sum.n_src == 1)) {
        return status; /* a leaf gives what it has */
    }
    sum.dst = &dst;
    status = slice->provider->sums(slice->item->queues[parent], slice->dtype, &sum, 1);
    /* Children may do with their arrays what they like only when they have been read. */
    for (int32_t i = 0; i < slice->tree->n && status == KVS_OK; i++) {
        if (i != parent && slice->tree->parent[i] == parent) {
            status = follow(slice, i, parent);
        }
    }
    return status;
}

static kvs_status_t sum_up(slice_t *slice)
{
    kvs_status_t status = KVS_OK;

    for (int32_t at = slice->tree->n - 1; at >= 0 && status == KVS_OK; at--) {
        status = add_children(slice, slice->tree->order[at]);
    }
    return status;
}

/* From the root on; `root_data` is what it has. */
static kvs_status_t hand_down(const slice_t *slice, const void *root_data)
{
    const kvs_collective_item_t *item = slice->item;
    kvs_status_t status = KVS_OK;

    for (int32_t at = 1; at < slice->tree->n && status == KVS_OK; at++) {
        int32_t child = slice->tree->order[at], parent = slice->tree->parent[child];
        const void *from = parent == slice->tree->root ? root_data : target(slice, parent);

        status = follow(slice, child, parent);
        if (status == KVS_OK) {
            status = slice->provider->copy(item->queues[child], item->devices[child],
                                           target(slice, child), item->devices[parent], from,
                                           slice_bytes(slice));
        }
        if (status == KVS_OK) {
            status = follow(slice, parent, child);
        }
    }
    return status;
}

static void release(slice_t *slice)
{
    for (int32_t i = 0; i < slice->tree->n; i++) {
        const kvs_device_t *devices = slice->item->devices;

        slice->provider->free(devices[i], slice->sums[i], slice_bytes(slice));
        slice->provider->free(devices[slice->tree->parent[i]], slice->copies[i],
                              slice_bytes(slice));
    }
}

static kvs_status_t run_slice(slice_t *slice)
{
    int32_t root = slice->tree->root;
    kvs_status_t status = KVS_OK;

    if (slice->n == 0) {
        return KVS_OK;
    }
    if (slice->item->is_broadcast) {
        return hand_down(slice, source(slice, root));
    }
    status = sum_up(slice);
    if (status == KVS_OK && slice->item->root < 0) {
        status = hand_down(slice, target(slice, root));
    }
    release(slice);
    return status;
}

/* ---- All of it ----------------------------------------------------------------------------------- */

static kvs_status_t run_item(const kvs_provider_t *provider, const device_store_t *store,
                             const kvs_collective_item_t *item)
{
    const plan_t *plan;
    int64_t first[DEVICE_TREE_MAX + 1];
    int dtype = kvs_dtype_index(item->key->dtype);
    kvs_status_t status = get_plan(provider, item, store, &plan);
    slice_t whole = {.provider = provider,
                     .item = item,
                     .dtype = dtype,
                     .elem_bytes = kvs_dtype_bytes(dtype),
                     .n = item->n};

    if (status != KVS_OK) {
        return status;
    }
    if (item->root >= 0 || item->n <= store->bound) {
        whole.tree = &plan->trees[item->root >= 0 ? item->root : 0];
        return run_slice(&whole);
    }
    device_tree_slices(plan->trees, plan->n, item->n, CUT, first);
    for (int32_t root = 0; root < plan->n && status == KVS_OK; root++) {
        slice_t slice = whole;

        slice.tree = &plan->trees[root];
        slice.first = first[root];
        slice.n = first[root + 1] - first[root];
        status = run_slice(&slice);
    }
    return status;
}

static kvs_status_t exchange(kvs_devstore_t *store, const kvs_collective_item_t *items,
                             size_t n_items, uint64_t *ret_ticket)
{
    const kvs_provider_t *provider;
    kvs_status_t status = kvs_provider_find(KVS_DEVICE_CUDA, &provider);

    for (size_t i = 0; i < n_items && status == KVS_OK; i++) {
        status = run_item(provider, (const device_store_t *)(const void *)store, &items[i]);
        if (status != KVS_OK) {
            return items[i].key->name != NULL
                       ? kvs_fail_context(status, "key '%s'", items[i].key->name)
                       : kvs_fail_context(status, "key %lld", (long long)items[i].key->number);
        }
    }
    *ret_ticket = 0;
    return status;
}

/* What fails on a device is told by the calls that wait for it. */
static kvs_status_t settle(kvs_devstore_t *store, uint64_t ticket)
{
    (void)store;
    (void)ticket;
    return KVS_OK;
}

const kvs_collective_t device_along_trees = {
    .exchange = exchange, .settle = settle, .min_devices = 2, .is_one_by_one = 1};
