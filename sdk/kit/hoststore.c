/* SPDX-License-Identifier: Apache-2.0 */
/* hoststore.c - the life of a host store and its keys, and what updates its weights.
 *
 * Moving numbers is hoststore_exchange.c's part. Settings change while no operation runs, which the
 * core sees to; keys come and go while others are in use, so their list has a lock. */
#include "hoststore_sparse.h"
#include "hoststore_update.h"

#include <stdlib.h>
#include <string.h>

static const kvs_device_t host_device = {KVS_DEVICE_CPU, 0};

kvs_status_t kvs_hoststore_open(void *store, const kvs_open_args_t *args)
{
    kvs_hoststore_t *host = store;

    host->type = strdup(args->type);
    if (host->type == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "%s: no memory for the store", args->type);
    }
    int error = pthread_mutex_init(&host->lock, NULL);

    if (error != 0) {
        free(host->type);
        return kvs_fail(KVS_ERR_NO_MEMORY, "%s: no lock for the store: %s", args->type,
                        strerror(error));
    }
    return KVS_OK;
}

kvs_status_t kvs_hoststore_close(void *store, int64_t timeout_ms)
{
    kvs_hoststore_t *host = store;

    (void)timeout_ms; /* nothing here waits */
    kvs_opt_free(host->opt);
    kvs_compression_free(host->compression);
    pthread_mutex_destroy(&host->lock);
    free(host->type);
    return KVS_OK;
}

/* ---- Keys --------------------------------------------------------------------------------------- */

static void list_key(kvs_hoststore_t *host, kvs_hoststore_key_t *key)
{
    pthread_mutex_lock(&host->lock);
    key->next = host->keys;
    if (key->next != NULL) {
        key->next->prev = key;
    }
    host->keys = key;
    __atomic_store_n(&host->n_bytes, host->n_bytes + key->n_bytes, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&host->lock);
}

static void unlist_key(kvs_hoststore_t *host, kvs_hoststore_key_t *key)
{
    pthread_mutex_lock(&host->lock);
    if (key->prev != NULL) {
        key->prev->next = key->next;
    } else {
        host->keys = key->next;
    }
    if (key->next != NULL) {
        key->next->prev = key->prev;
    }
    __atomic_store_n(&host->n_bytes, host->n_bytes - key->n_bytes, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&host->lock);
}

static kvs_status_t init_key(kvs_hoststore_t *host, const kvs_group_t *group)
{
    const kvs_provider_t *cpu = kvs_cpu_provider();
    kvs_hoststore_key_t *key = group->key->state;
    int dtype = kvs_dtype_index(group->key->dtype);
    const void *value = group->values[0].data;

    key->n_bytes = (size_t)group->key->n_elems * kvs_dtype_bytes(dtype);
    kvs_status_t status = cpu->alloc(host_device, key->n_bytes, &key->weight);

    if (status == KVS_OK && group->values[0].rows != NULL) {
        status = kvs_sparse_init(group);
    } else if (status == KVS_OK) {
        status = cpu->sum(dtype, group->key->n_elems, &value, 1, &key->weight, 1);
    }
    if (status != KVS_OK) {
        return kvs_fail_context(status, "init"); /* key_release follows */
    }
    key->entry = group->key;
    key->has_value = 1;
    list_key(host, key);
    return KVS_OK;
}

kvs_status_t kvs_hoststore_init(void *store, kvs_op_t *op)
{
    kvs_status_t status = KVS_OK;

    for (size_t i = 0; i < op->n_groups && status == KVS_OK; i++) {
        status = init_key(store, &op->groups[i]);
    }
    return status;
}

void kvs_hoststore_key_release(void *store, kvs_key_entry_t *entry)
{
    const kvs_provider_t *cpu = kvs_cpu_provider();
    kvs_hoststore_key_t *key = entry->state;

    if (key->has_value) {
        unlist_key(store, key);
    }
    kvs_opt_key_release(&key->opt);
    kvs_residuals_release(&key->residuals);
    cpu->free(host_device, key->merge, key->n_bytes);
    cpu->free(host_device, key->weight, key->n_bytes);
    free(key->rows);
    *key = (kvs_hoststore_key_t){0};
}

/* ---- What is counted in program order ------------------------------------------------------------ */

static kvs_status_t issue_updates(const kvs_hoststore_t *host, kvs_op_t *op)
{
    kvs_status_t status = KVS_OK;

    for (size_t i = 0; i < op->n_groups && status == KVS_OK; i++) {
        status = kvs_opt_check_key(host->opt, op->groups[i].key);
    }
    for (size_t i = 0; i < op->n_groups && status == KVS_OK; i++) {
        kvs_hoststore_key_t *key = op->groups[i].key->state;
        kvs_hoststore_group_t *group = op->groups[i].state;

        status = kvs_opt_issue(host->opt, &key->opt, op->groups[i].key, &group->update);
    }
    return status;
}

static kvs_status_t check_compressible(const kvs_hoststore_t *host, const kvs_op_t *op)
{
    kvs_status_t status = KVS_OK;

    for (size_t i = 0; i < op->n_groups && status == KVS_OK && host->compression != NULL; i++) {
        status = kvs_compression_check(host->compression, &op->groups[i]);
    }
    return status;
}

kvs_status_t kvs_hoststore_issue(void *store, kvs_op_t *op)
{
    const kvs_hoststore_t *host = store;
    kvs_status_t status = check_compressible(host, op);

    for (size_t i = 0; i < op->n_groups && status == KVS_OK && op->verb == KVS_VERB_PUSHPULL; i++) {
        status =
            kvs_update_named(kvs_sparse_check_push_room(NULL, &op->groups[i]), op->groups[i].key);
    }
    if (status != KVS_OK) {
        return status;
    }
    if (op->verb == KVS_VERB_ROW_SPARSE_PULL) {
        status = kvs_sparse_check_issued(op);
    } else if (host->opt != NULL && (op->verb == KVS_VERB_PUSH || op->verb == KVS_VERB_PUSHPULL)) {
        status = issue_updates(host, op);
    }
    return status;
}

/* ---- What updates the weights -------------------------------------------------------------------- */

/* Put both in force, one of them NULL or both, with no states and no merge buffers left over. */
static void replace_updates(kvs_hoststore_t *host, kvs_opt_t *opt, kvs_updater_t updater, void *arg)
{
    pthread_mutex_lock(&host->lock);
    for (kvs_hoststore_key_t *key = host->keys; key != NULL; key = key->next) {
        kvs_opt_key_release(&key->opt);
        kvs_cpu_provider()->free(host_device, key->merge, key->n_bytes);
        key->merge = NULL;
    }
    pthread_mutex_unlock(&host->lock);
    kvs_opt_free(host->opt);
    host->opt = opt;
    host->updater = updater;
    host->updater_arg = arg;
}

kvs_status_t kvs_hoststore_set_updater(void *store, kvs_updater_t fn, void *arg)
{
    replace_updates(store, NULL, fn, arg);
    return KVS_OK;
}

kvs_status_t kvs_hoststore_set_optimizer(void *store, const kvs_optimizer_spec_t *spec)
{
    kvs_opt_t *opt = NULL;
    kvs_status_t status = kvs_opt_new(spec, &opt);

    if (status == KVS_OK) {
        replace_updates(store, opt, NULL, NULL);
    }
    return status;
}

kvs_status_t kvs_hoststore_set_optimizer_attr(void *store, const kvs_param_t *attr)
{
    const kvs_hoststore_t *host = store;

    if (host->opt == NULL) {
        return kvs_fail(KVS_ERR_STATE,
                        "set_optimizer_attr: the store has no optimizer; call set_optimizer first");
    }
    return kvs_opt_set_attr(host->opt, attr);
}

/* What is owed to a key by its residuals stays owed. */
kvs_status_t kvs_hoststore_set_gradient_compression(void *store, const kvs_param_t *params,
                                                    size_t n_params)
{
    kvs_hoststore_t *host = store;
    kvs_compression_t *compression = NULL;
    kvs_status_t status = kvs_compression_new(params, n_params, &compression);

    if (status == KVS_OK) {
        kvs_compression_free(host->compression);
        host->compression = compression;
    }
    return status;
}
