/* SPDX-License-Identifier: Apache-2.0 */
/* kitstore.c - the kit's host store with part of its settings lost on the way, for mutations of
 * optimizers: arithmetic that is right, of something that was not asked for. */
#include "mutants.h"

#include <kvstore/kit.h>

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "host.h"

/* The kit's part comes first: its functions are given this store as theirs. */
typedef struct kit_store {
    kvs_hoststore_t host;
    mutation_t mutation;
    bool has_optimizer;
} kit_store_t;

__attribute__((visibility("hidden"))) const kvs_host_t *kvs_plugin_host;

static kvs_status_t kit_open(void *self, const kvs_open_args_t *args)
{
    kit_store_t *store = self;

    store->mutation = mutation_of(args->type);
    return kvs_hoststore_open(&store->host, args);
}

/* The name of the parameter that the mutation loses. */
static const char *lost_parameter(mutation_t mutation)
{
    switch (mutation) {
    case M_loses_momentum:
        return "momentum";
    case M_ignores_wd:
        return "wd";
    case M_ignores_rescale:
        return "rescale_grad";
    case M_ignores_clip:
        return "clip_gradient";
    case M_takes_any_parameter:
        return "momentun";
    case M_is_never_lazy:
        return "lazy_update";
    case M_keeps_no_master:
        return "multi_precision";
    default:
        return "";
    }
}

static kvs_status_t set_without(kit_store_t *store, const kvs_optimizer_spec_t *spec)
{
    const char *lost = lost_parameter(store->mutation);
    kvs_param_t *kept = calloc(spec->n_params + 1, sizeof(*kept));
    kvs_optimizer_spec_t changed = *spec;
    kvs_status_t status;

    if (kept == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for parameters");
    }
    changed.params = kept;
    changed.n_params = 0;
    for (size_t i = 0; i < spec->n_params; i++) {
        if (strcmp(spec->params[i].name, lost) != 0) {
            kept[changed.n_params++] = spec->params[i];
        }
    }
    if (store->mutation == M_ignores_schedule) {
        changed.schedule = NULL;
        changed.n_schedule_params = 0;
    }
    if (store->mutation == M_ignores_multipliers) {
        changed.n_lr_mult = changed.n_wd_mult = 0;
    }
    if (store->mutation == M_takes_any_name) {
        changed.name = "sgd";
    }
    if (store->mutation == M_is_always_lazy && strcmp(spec->name, "sgd") == 0) {
        kept[changed.n_params++] =
            (kvs_param_t){.name = "lazy_update", .type = KVS_PARAM_BOOL, .value = {.integer = 1}};
    }
    status = kvs_hoststore_set_optimizer(&store->host, &changed);
    free(kept);
    return status;
}

static kvs_status_t kit_set_optimizer(void *self, const kvs_optimizer_spec_t *spec)
{
    kit_store_t *store = self;
    kvs_status_t status;

    if (store->mutation == M_keeps_states && store->has_optimizer) {
        return KVS_OK;
    }
    status = set_without(store, spec);
    store->has_optimizer = status == KVS_OK;
    return status;
}

static kvs_status_t kit_set_optimizer_attr(void *self, const kvs_param_t *attr)
{
    kit_store_t *store = self;

    if (store->mutation == M_ignores_attribute) {
        return store->has_optimizer ? KVS_OK : kvs_fail(KVS_ERR_STATE, "there is no optimizer");
    }
    return kvs_hoststore_set_optimizer_attr(&store->host, attr);
}

static kvs_status_t kit_set_updater(void *self, kvs_updater_t fn, void *arg)
{
    kit_store_t *store = self;

    if (store->mutation == M_keeps_optimizer && store->has_optimizer) {
        return KVS_OK;
    }
    store->has_optimizer = false;
    return kvs_hoststore_set_updater(&store->host, fn, arg);
}

/* ---- Row-sparse gradients ------------------------------------------------------------------------ */

static bool is_skipped(const kit_store_t *store, const kvs_op_t *op)
{
    int64_t n_rows = 0;

    for (size_t g = 0; g < op->n_groups; g++) {
        for (size_t i = 0; i < op->groups[g].n_values; i++) {
            const kvs_rows_t *rows = op->groups[g].values[i].rows;

            n_rows += rows == NULL ? 1 : rows->n_rows;
        }
    }
    return store->mutation == M_skips_empty_gradients && n_rows == 0;
}

static kvs_status_t kit_issue(void *self, kvs_op_t *op)
{
    return op->verb == KVS_VERB_PUSH && is_skipped(self, op)
               ? KVS_OK
               : kvs_hoststore_issue(&((kit_store_t *)self)->host, op);
}

static bool densifies(const kit_store_t *store, const kvs_group_t *group)
{
    return group->n_values > 0 && group->values[0].rows != NULL &&
           (store->mutation == M_densifies_gradients ||
            (store->mutation == M_updates_dense_keys_whole && !group->key->row_sparse));
}

/* The group with one dense value in place of its row-sparse ones. */
static kvs_status_t push_dense(kit_store_t *store, const kvs_op_t *op, const kvs_group_t *group)
{
    kvs_group_t changed = *group;
    kvs_op_t part = *op;
    kvs_tensor_t dense = group->values[0];
    kvs_row_union_t rows;
    kvs_status_t status = kvs_row_union_make(group->values, group->n_values, &rows);

    if (status != KVS_OK) {
        return status;
    }
    dense.rows = NULL;
    dense.data = malloc((size_t)group->key->n_elems * 8 + 1);
    if (dense.data == NULL) {
        kvs_row_union_release(&rows);
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for a dense gradient");
    }
    kvs_row_union_to_dense(&rows, dense.data);
    changed.values = &dense;
    changed.n_values = 1;
    part.groups = &changed;
    part.n_groups = 1;
    status = kvs_hoststore_push(&store->host, &part);
    kvs_row_union_release(&rows);
    free(dense.data);
    return status;
}

/* As if the step were made in the caller's array. */
static kvs_status_t write_and_push(kit_store_t *store, kvs_op_t *op)
{
    kvs_status_t status = kvs_hoststore_push(&store->host, op);

    for (size_t g = 0; g < op->n_groups; g++) {
        const kvs_hoststore_key_t *key = op->groups[g].key->state;

        memcpy(op->groups[g].values[0].data, key->weight, key->n_bytes);
    }
    return status;
}

static kvs_status_t kit_pushpull(void *self, kvs_op_t *op)
{
    kit_store_t *store = self;
    kvs_status_t status;

    if (store->mutation != M_pulls_before_it_pushes) {
        return kvs_hoststore_pushpull(&store->host, op);
    }
    status = kvs_hoststore_pull(&store->host, op);
    return status == KVS_OK ? kvs_hoststore_push(&store->host, op) : status;
}

static kvs_status_t kit_push(void *self, kvs_op_t *op)
{
    kit_store_t *store = self;

    if (is_skipped(store, op) ||
        (store->mutation == M_updates_first_of_list && op->groups[0].list_index > 0)) {
        return KVS_OK;
    }
    if (store->mutation == M_writes_into_gradient && store->has_optimizer) {
        return write_and_push(store, op);
    }
    return op->n_groups == 1 && densifies(store, &op->groups[0])
               ? push_dense(store, op, &op->groups[0])
               : kvs_hoststore_push(&store->host, op);
}

/* ---- States in files ------------------------------------------------------------------------------ */

static kvs_status_t kit_save(void *self, const char *path, int dump_optimizer)
{
    kit_store_t *store = self;
    kvs_status_t status;

    if (store->mutation == M_always_dumps || store->mutation == M_saves_position_always) {
        dump_optimizer = 1;
    }
    dump_optimizer = store->mutation == M_never_dumps ? 0 : dump_optimizer;
    status = kvs_hoststore_save_optimizer_states(&store->host, path, dump_optimizer);
    return store->mutation == M_saves_nowhere ? KVS_OK : status;
}

static void drop_states(kit_store_t *store, bool but_one)
{
    for (kvs_hoststore_key_t *key = store->host.keys; key != NULL; key = key->next) {
        if (!but_one || key->next != NULL) {
            kvs_opt_key_release(&key->opt);
        }
    }
}

/* A load that leaves the states of keys that are not in the file. */
static kvs_status_t load_merging(kit_store_t *store, const char *path)
{
    kvs_opt_key_t kept[64] = {{0}};
    size_t n = 0;
    kvs_status_t status;

    for (kvs_hoststore_key_t *key = store->host.keys; key != NULL && n < 64; key = key->next) {
        kept[n++] = key->opt;
        key->opt.states = NULL;
    }
    status = kvs_hoststore_load_optimizer_states(&store->host, path);
    n = 0;
    for (kvs_hoststore_key_t *key = store->host.keys; key != NULL && n < 64; key = key->next, n++) {
        if (key->opt.states == NULL) {
            key->opt.states = kept[n].states;
        } else {
            kvs_opt_key_release(&kept[n]);
        }
    }
    return status;
}

static void zero_weights(kit_store_t *store)
{
    for (kvs_hoststore_key_t *key = store->host.keys; key != NULL; key = key->next) {
        memset(key->weight, 0, key->n_bytes);
    }
}

/* What a mutation makes of a failed load. */
static kvs_status_t forgive(kit_store_t *store, kvs_status_t status)
{
    switch (store->mutation) {
    case M_loads_without_optimizer:
        return status == KVS_ERR_STATE ? KVS_OK : status;
    case M_takes_other_states:
        return status == KVS_ERR_FORMAT ? KVS_OK : status;
    case M_takes_other_shapes:
        return status == KVS_ERR_SHAPE ? KVS_OK : status;
    case M_takes_other_keys:
        return status == KVS_ERR_NOT_FOUND ? KVS_OK : status;
    case M_drops_states_on_error:
        drop_states(store, false);
        return status;
    default:
        return status;
    }
}

static kvs_status_t kit_load(void *self, const char *path)
{
    kit_store_t *store = self;
    kvs_status_t status;

    if (store->mutation == M_loads_nothing) {
        return KVS_OK;
    }
    if (store->mutation == M_saves_no_states) {
        return kvs_fail(KVS_ERR_NOT_IMPLEMENTED, "not implemented: load_optimizer_states");
    }
    if (store->mutation == M_merges_states) {
        return load_merging(store, path);
    }
    status = kvs_hoststore_load_optimizer_states(&store->host, path);
    if (status != KVS_OK) {
        return forgive(store, status);
    }
    if (store->mutation == M_loads_one_key) {
        drop_states(store, true);
    }
    if (store->mutation == M_loads_zeros_as_weights) {
        zero_weights(store);
    }
    return KVS_OK;
}

static const kvs_backend_ops_t kit_ops = {
    .size = sizeof(kit_ops),
    .mode = KVS_BLOCKING,
    .store_size = sizeof(kit_store_t),
    .key_size = sizeof(kvs_hoststore_key_t),
    .group_size = sizeof(kvs_hoststore_group_t),
    .open = kit_open,
    .close = kvs_hoststore_close,
    .key_release = kvs_hoststore_key_release,
    .issue = kit_issue,
    .init = kvs_hoststore_init,
    .push = kit_push,
    .pull = kvs_hoststore_pull,
    .pushpull = kit_pushpull,
    .row_sparse_pull = kvs_hoststore_row_sparse_pull,
    .set_updater = kit_set_updater,
    .set_optimizer = kit_set_optimizer,
    .set_optimizer_attr = kit_set_optimizer_attr,
    .save_optimizer_states = kit_save,
    .load_optimizer_states = kit_load,
};

static const int32_t device_types[] = {KVS_DEVICE_CPU};

static const kvs_backend_t kit_backend = {
    .size = sizeof(kit_backend),
    .capabilities = KVS_CAN_OPTIMIZER | KVS_CAN_SPARSE | KVS_KEEPS_WEIGHTS,
    .name = "kitstore",
    .dtypes = KVS_DTYPES_ALL,
    .n_device_types = 1,
    .device_types = device_types,
    .ops = &kit_ops,
};

/* ---- Each push by itself --------------------------------------------------------------------------- */

static kvs_status_t need_optimizer(const kit_store_t *store, const kvs_op_t *op)
{
    const kvs_key_entry_t *key = op->groups[0].key;

    if (store->has_optimizer || store->mutation == M_takes_pushes_without_optimizer) {
        return KVS_OK;
    }
    return key->name != NULL
               ? kvs_fail(KVS_ERR_STATE, "key '%s': set_optimizer comes first", key->name)
               : kvs_fail(KVS_ERR_STATE, "key %lld: set_optimizer comes first",
                          (long long)key->number);
}

static kvs_status_t async_issue(void *self, kvs_op_t *op)
{
    kit_store_t *store = self;
    int pushes = op->verb == KVS_VERB_PUSH || op->verb == KVS_VERB_PUSHPULL;
    kvs_status_t status = pushes ? need_optimizer(store, op) : KVS_OK;

    return status == KVS_OK ? kit_issue(self, op) : status;
}

static kvs_status_t async_push(void *self, kvs_op_t *op)
{
    kit_store_t *store = self;
    kvs_status_t status = kit_push(self, op);

    return status == KVS_OK && store->mutation == M_applies_pushes_twice ? kit_push(self, op)
                                                                         : status;
}

static const kvs_backend_ops_t async_ops = {
    .size = sizeof(async_ops),
    .mode = KVS_BLOCKING,
    .store_size = sizeof(kit_store_t),
    .key_size = sizeof(kvs_hoststore_key_t),
    .group_size = sizeof(kvs_hoststore_group_t),
    .open = kit_open,
    .close = kvs_hoststore_close,
    .key_release = kvs_hoststore_key_release,
    .issue = async_issue,
    .init = kvs_hoststore_init,
    .push = async_push,
    .pull = kvs_hoststore_pull,
    .pushpull = kit_pushpull,
    .row_sparse_pull = kvs_hoststore_row_sparse_pull,
    .set_optimizer = kit_set_optimizer,
    .set_optimizer_attr = kit_set_optimizer_attr,
    .save_optimizer_states = kit_save,
    .load_optimizer_states = kit_load,
};

static const kvs_backend_t async_backend = {
    .size = sizeof(async_backend),
    .capabilities = KVS_CAN_OPTIMIZER | KVS_CAN_SPARSE | KVS_CAN_ASYNC | KVS_KEEPS_WEIGHTS,
    .name = "asyncstore",
    .dtypes = KVS_DTYPES_ALL,
    .n_device_types = 1,
    .device_types = device_types,
    .ops = &async_ops,
};

kvs_status_t register_async(const char *name)
{
    kvs_plugin_host = kvsi_host();
    return kvs_register_backend(name, &async_backend);
}

kvs_status_t register_kit(const char *name)
{
    kvs_plugin_host = kvsi_host();
    return kvs_register_backend(name, &kit_backend);
}
