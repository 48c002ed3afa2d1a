/* SPDX-License-Identifier: Apache-2.0 */
#include "dist_local.h"

static kvs_status_t run(kvs_hoststore_t *store, kvs_op_t *op)
{
    kvs_status_t status;

    switch ((kvs_verb_t)op->verb) {
    case KVS_VERB_INIT:
        return kvs_hoststore_init(store, op);
    case KVS_VERB_PUSH:
        return kvs_hoststore_push(store, op);
    case KVS_VERB_PULL:
        return kvs_hoststore_pull(store, op);
    case KVS_VERB_PUSHPULL:
        return kvs_hoststore_pushpull(store, op);
    case KVS_VERB_BROADCAST:
        status = kvs_hoststore_init(store, op);
        return status == KVS_OK ? kvs_hoststore_pull(store, op) : status;
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
