/* SPDX-License-Identifier: Apache-2.0 */
#include "dist_local.h"

#include "dist_worker.h"

#include <stdlib.h>
#include <string.h>

static const kvs_device_t host_device = {KVS_DEVICE_CPU, 0};

static bool is_push(const kvs_op_t *op)
{
    return op->verb == KVS_VERB_PUSH || op->verb == KVS_VERB_PUSHPULL;
}

kvs_status_t dist_local_issue(kvs_hoststore_t *store, uint16_t codec, kvs_op_t *op)
{
    kvs_status_t status = dist_pack_issue(store->compression, codec, op);

    if (status == KVS_OK && is_push(op) && op->n_groups > 0 && store->opt == NULL &&
        dist_type_is_async(store->type)) {
        dist_record_t key = {.number = op->groups[0].key->number,
                             .name = (char *)(uintptr_t)op->groups[0].key->name}; /* only read */

        status = kvs_fail(KVS_ERR_STATE, "%s: %s: " DIST_NEEDS_OPTIMIZER,
                          op->verb == KVS_VERB_PUSH ? "push" : "pushpull", DIST_KEY_TEXT(&key));
    }
    return status == KVS_OK ? kvs_hoststore_issue(store, op) : status;
}

static size_t bytes_of(const kvs_group_t *group)
{
    return (size_t)group->key->n_elems * kvs_dtype_bytes(kvs_dtype_index(group->key->dtype));
}

static kvs_status_t push(kvs_hoststore_t *store, kvs_op_t *op)
{
    return op->verb == KVS_VERB_PUSH ? kvs_hoststore_push(store, op)
                                     : kvs_hoststore_pushpull(store, op);
}

/* Each group's values are one, in `sums`: the sum of those it had. */
static kvs_status_t sum_groups(kvs_group_t *groups, size_t n, kvs_tensor_t *sums)
{
    kvs_status_t status = KVS_OK;

    for (size_t i = 0; i < n && status == KVS_OK; i++) {
        sums[i] = groups[i].values[0];
        if (groups[i].n_values == 1) {
            continue;
        }
        sums[i].data = NULL;
        status = kvs_cpu_provider()->alloc(host_device, bytes_of(&groups[i]), &sums[i].data);
        if (status == KVS_OK) {
            status = dist_group_sum(&groups[i], sums[i].data);
        }
        groups[i].values = &sums[i];
    }
    return status;
}

/* Gradient compression is of the sum of a worker's values. */
static kvs_status_t push_compressed(kvs_hoststore_t *store, kvs_op_t *op)
{
    size_t n = op->n_groups;
    kvs_group_t *groups = calloc(n + 1, sizeof(*groups));
    kvs_tensor_t *sums = calloc(n + 1, sizeof(*sums));
    kvs_op_t summed = *op;
    kvs_status_t status = KVS_OK;

    if (groups == NULL || sums == NULL) {
        status = kvs_fail(KVS_ERR_NO_MEMORY, "no memory for %zu sums", n);
    } else {
        memcpy(groups, op->groups, n * sizeof(*groups));
        status = sum_groups(groups, n, sums);
    }
    for (size_t i = 0; i < n && status == KVS_OK; i++) {
        groups[i].n_values = 1;
    }
    summed.groups = groups;
    status = status == KVS_OK ? push(store, &summed) : status;
    for (size_t i = 0; i < n && groups != NULL && sums != NULL; i++) {
        if (groups[i].values == &sums[i]) {
            kvs_cpu_provider()->free(host_device, sums[i].data, bytes_of(&groups[i]));
        }
    }
    free(groups);
    free(sums);
    return status;
}

static kvs_status_t run(kvs_hoststore_t *store, kvs_op_t *op)
{
    kvs_status_t status;

    if (is_push(op) && store->compression != NULL) {
        return push_compressed(store, op);
    }
    switch ((kvs_verb_t)op->verb) {
    case KVS_VERB_INIT:
        return kvs_hoststore_init(store, op);
    case KVS_VERB_PUSH:
    case KVS_VERB_PUSHPULL:
        return push(store, op);
    case KVS_VERB_PULL:
        return kvs_hoststore_pull(store, op);
    case KVS_VERB_BROADCAST:
        status = kvs_hoststore_init(store, op);
        return status == KVS_OK ? kvs_hoststore_pull(store, op) : status;
    case KVS_VERB_ROW_SPARSE_PULL:
        return kvs_hoststore_row_sparse_pull(store, op);
    default:
        return kvs_fail(KVS_ERR_INTERNAL, "an operation of kind %u", op->verb);
    }
}

/* Keys whose init failed are empty again. */
static void release_keys(kvs_hoststore_t *store, kvs_op_t *op)
{
    for (size_t i = 0; i < op->n_groups; i++) {
        kvs_hoststore_key_release(store, op->groups[i].key);
    }
}

kvs_status_t dist_local_run(kvs_hoststore_t *store, kvs_op_t *op)
{
    kvs_status_t status = run(store, op);

    if (status != KVS_OK) {
        if (op->verb == KVS_VERB_INIT || op->verb == KVS_VERB_BROADCAST) {
            release_keys(store, op);
        }
        return status;
    }
    kvs_plugin_host->consumed(op);
    kvs_plugin_host->complete(op, KVS_OK);
    return KVS_OK;
}
