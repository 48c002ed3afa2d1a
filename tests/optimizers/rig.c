/* SPDX-License-Identifier: Apache-2.0 */
/* rig.c - the host calls the plugin's own entry, so that its descriptor is what is tested. Its
 * parallel_for hands out pieces last one first. */
#include "rig.h"

#include "kt.h"
#include "status.h"

#include <kvstore/kit.h>

#include <stdlib.h>

extern const kvs_plugin_t *kvs_plugin_entry_v1_optimizers(const kvs_host_t *host,
                                                          const char **ret_refusal);

static const kvs_plugin_t *plugin;
static int64_t n_pieces = 1;

static kvs_status_t find_optimizer(const char *name, const kvs_optimizer_t **ret_optimizer)
{
    for (size_t i = 0; i < plugin->n_optimizers; i++) {
        if (strcmp(plugin->optimizers[i]->name, name) == 0) {
            *ret_optimizer = plugin->optimizers[i];
            return KVS_OK;
        }
    }
    return kvs_fail(KVS_ERR_NOT_FOUND, "no optimizer '%s'", name);
}

static void parallel_for(int64_t n, int64_t grain,
                         void (*fn)(void *arg, int64_t begin, int64_t end), void *arg)
{
    int64_t end = n;
    int64_t step = n / n_pieces > grain ? n / n_pieces : grain;

    while (end > 0) {
        int64_t begin = end > step ? end - step : 0;

        fn(arg, begin, end);
        end = begin;
    }
}

static const kvs_host_t host = {
    .size = sizeof(host),
    .abi_major = KVS_ABI_MAJOR,
    .abi_minor = KVS_ABI_MINOR,
    .version = "test",
    .fail = kvs_fail,
    .fail_context = kvsi_fail_context,
    .parallel_for = parallel_for,
    .find_optimizer = find_optimizer,
};

const kvs_host_t *kvs_plugin_host = &host;

void rig_start(void)
{
    const char *refusal = NULL;

    plugin = kvs_plugin_entry_v1_optimizers(&host, &refusal);
    if (plugin == NULL) {
        printf("the plugin refuses the host: %s\n", refusal);
        exit(2);
    }
}

const kvs_optimizer_t *rig_optimizer_at(size_t index)
{
    return index < plugin->n_optimizers ? plugin->optimizers[index] : NULL;
}

void rig_set_pieces(int64_t n)
{
    n_pieces = n;
}

rig_key_t rig_key(int64_t number, int dtype, const int64_t *shape, int32_t ndim)
{
    rig_key_t key = {.entry = {.number = number, .dtype = kvs_dtype(dtype), .ndim = ndim},
                     .dtype = dtype};

    key.entry.n_elems = 1;
    for (int32_t i = 0; i < ndim; i++) {
        key.shape[i] = shape[i];
        key.entry.n_elems *= shape[i];
    }
    key.weight = calloc((size_t)key.entry.n_elems + 1, kvs_dtype_bytes(dtype));
    if (key.weight == NULL) {
        printf("out of memory\n");
        exit(2);
    }
    return key;
}

rig_key_t rig_key_f32(int64_t n, const float *weight)
{
    rig_key_t key = rig_key(0, KVS_DTYPE_float32, &n, 1);

    memcpy(key.weight, weight, (size_t)n * sizeof(*weight));
    return key;
}

void rig_key_release(rig_key_t *key)
{
    kvs_opt_key_release(&key->state);
    free(key->weight);
    key->weight = NULL;
}

kvs_status_t rig_update(kvs_opt_t *opt, rig_key_t *key, const void *grad, int64_t block,
                        kvs_opt_update_t *ret_update)
{
    int64_t n = key->entry.n_elems;
    size_t elem = kvs_dtype_bytes(key->dtype);
    kvs_opt_update_t update;
    kvs_status_t status;

    key->entry.shape = key->shape; /* the key may have been copied since it was made */
    status = kvs_opt_issue(opt, &key->state, &key->entry, &update);
    if (status == KVS_OK) {
        status = kvs_opt_begin(opt, &key->state, &key->entry, key->weight);
    }
    if (status != KVS_OK) {
        return status;
    }
    if (kvs_opt_needs_whole(opt)) {
        kvs_opt_prepare(opt, &key->state, key->dtype, n, grad, key->weight, &update);
    }
    for (int64_t first = 0; first<n; first += block> 0 ? block : n) {
        int64_t n_block = block > 0 && block < n - first ? block : n - first;
        size_t offset = (size_t)first * elem;

        kvs_opt_step(opt, &update, &key->state, key->dtype, first, n_block,
                     (const char *)grad + offset, (char *)key->weight + offset);
    }
    if (ret_update != NULL) {
        *ret_update = update;
    }
    return KVS_OK;
}

kvs_opt_state_t rig_state(const rig_key_t *key, const char *name)
{
    for (size_t i = 0; i < kvs_opt_n_states(&key->state); i++) {
        kvs_opt_state_t state = kvs_opt_state_at(&key->state, i);

        if (strcmp(state.name, name) == 0) {
            return state;
        }
    }
    return (kvs_opt_state_t){0};
}

kvs_opt_t *rig_opt(const char *name, const kvs_param_t *params, size_t n)
{
    kvs_optimizer_spec_t spec = KVS_OPTIMIZER_INIT;
    kvs_opt_t *opt = NULL;

    spec.name = name;
    spec.params = params;
    spec.n_params = n;
    KT_OK(kvs_opt_new(&spec, &opt));
    return opt;
}
