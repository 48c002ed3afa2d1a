/* SPDX-License-Identifier: Apache-2.0 */
/* hoststore_states.c - the optimizer states of a host store in files. Runs alone, so that states are
 * those of all operations issued before. */
#include <kvstore/kit.h>
#include <kvstore/states.h>

#include <stdlib.h>

/* Every key that has a value. */
static kvs_status_t list_items(kvs_hoststore_t *host, kvs_opt_item_t **ret_items, size_t *ret_n)
{
    kvs_opt_item_t *items;
    size_t n = 0;

    pthread_mutex_lock(&host->lock);
    for (const kvs_hoststore_key_t *key = host->keys; key != NULL; key = key->next) {
        n++;
    }
    items = malloc((n + 1) * sizeof(*items));
    n = 0;
    for (kvs_hoststore_key_t *key = host->keys; key != NULL && items != NULL; key = key->next) {
        items[n++] = (kvs_opt_item_t){key->entry, &key->opt, &key->residuals};
    }
    pthread_mutex_unlock(&host->lock);
    if (items == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for a list of the keys");
    }
    *ret_items = items;
    *ret_n = n;
    return KVS_OK;
}

static kvs_status_t need_optimizer(const kvs_hoststore_t *host, const char *what)
{
    return host->opt != NULL
               ? KVS_OK
               : kvs_fail(KVS_ERR_STATE, "%s: the store has no optimizer; call set_optimizer first",
                          what);
}

kvs_status_t kvs_hoststore_save_optimizer_states(void *store, const char *path, int dump_optimizer)
{
    kvs_hoststore_t *host = store;
    kvs_opt_item_t *items;
    size_t n;
    kvs_status_t status = need_optimizer(host, "save_optimizer_states");

    if (status == KVS_OK) {
        status = list_items(host, &items, &n);
    }
    if (status == KVS_OK) {
        status = kvs_opt_save(host->opt, items, n, path, dump_optimizer);
        free(items);
    }
    return status;
}

static kvs_status_t load_file(kvs_hoststore_t *host, const kvs_opt_file_t *file)
{
    kvs_opt_item_t *items;
    size_t n;
    kvs_status_t status = list_items(host, &items, &n);

    if (status == KVS_OK) {
        status = kvs_opt_file_load(file, &host->opt, items, n);
        free(items);
    }
    return status;
}

kvs_status_t kvs_hoststore_load_optimizer_states(void *store, const char *path)
{
    kvs_hoststore_t *host = store;
    kvs_opt_file_t *file;
    kvs_status_t status = need_optimizer(host, "load_optimizer_states");

    if (status == KVS_OK) {
        status = kvs_opt_file_open(path, &file);
    }
    if (status == KVS_OK) {
        status = load_file(host, file);
        kvs_opt_file_close(file);
    }
    return status;
}
