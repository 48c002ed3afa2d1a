/* SPDX-License-Identifier: Apache-2.0 */
/* device.c - the backend `device`: sums where the arrays live, which is all that the kit's device store
 * does. Its devices are CPU contexts, in host memory, and those of the provider `cuda`, if that is
 * installed: not before such an array comes is it asked for. */
#include "device_sums.h"

#include <stdlib.h>
#include <string.h>

static int is_set(const kvs_config_t *config, const char *option)
{
    return strcmp(kvs_plugin_host->option(config, option), "1") == 0;
}

static kvs_status_t device_open(void *opened, const kvs_open_args_t *args)
{
    device_store_t *store = opened;

    store->bound = strtoll(kvs_plugin_host->option(args->config, "tree_array_bound"), NULL, 10);
    store->penalty = kvs_option_real(args->config, "tree_link_usage_penalty");
    store->logs = is_set(args->config, "logtree");
    if (!(store->penalty > 0 && store->penalty <= 1)) {
        return kvs_fail(KVS_ERR_ARGUMENT,
                        "option tree_link_usage_penalty is %g, not above 0 and at most 1",
                        store->penalty);
    }
    if (is_set(args->config, "usetree")) {
        store->dev.collective = &device_along_trees;
    }
    return kvs_hoststore_open(store, args);
}

static const kvs_backend_ops_t device_ops = {
    .size = sizeof(device_ops),
    .mode = KVS_BLOCKING,
    .store_size = sizeof(device_store_t),
    .key_size = sizeof(kvs_devstore_key_t),
    .group_size = sizeof(kvs_devstore_group_t),
    .open = device_open,
    .close = kvs_devstore_close,
    .key_release = kvs_devstore_key_release,
    .issue = kvs_devstore_issue,
    .init = kvs_devstore_init,
    .push = kvs_devstore_push,
    .pull = kvs_devstore_pull,
    .pushpull = kvs_devstore_pushpull,
    .row_sparse_pull = kvs_devstore_row_sparse_pull,
    .set_updater = kvs_devstore_set_updater,
    .set_optimizer = kvs_devstore_set_optimizer,
    .set_optimizer_attr = kvs_hoststore_set_optimizer_attr,
    .set_gradient_compression = kvs_devstore_set_gradient_compression,
    .save_optimizer_states = kvs_devstore_save_optimizer_states,
    .load_optimizer_states = kvs_devstore_load_optimizer_states,
};

static const int32_t device_types[] = {KVS_DEVICE_CPU, KVS_DEVICE_CUDA, KVS_DEVICE_CUDA_HOST,
                                       KVS_DEVICE_CUDA_MANAGED};

/* Each with MXNet's variable behind it. */
static const kvs_option_info_t device_options[] = {
    {.name = "usetree",
     .type = "bool",
     .preset = "0",
     .doc = "sum along trees of the links between devices; no difference on CPU arrays",
     .variable = "MXNET_KVSTORE_USETREE"},
    {.name = "tree_array_bound",
     .type = "size",
     .preset = "10000000",
     .doc = "with usetree: arrays of more elements are cut over trees of all roots",
     .variable = "MXNET_KVSTORE_TREE_ARRAY_BOUND"},
    {.name = "tree_link_usage_penalty",
     .type = "float",
     .preset = "0.7",
     .doc = "with usetree: what a link counts once a tree of another root uses it",
     .variable = "MXNET_KVSTORE_TREE_LINK_USAGE_PENALTY"},
    {.name = "logtree",
     .type = "bool",
     .preset = "0",
     .doc = "with usetree: log the trees, at level info",
     .variable = "MXNET_KVSTORE_LOGTREE"},
};

static const kvs_backend_t device_backend = {
    .size = sizeof(device_backend),
    .capabilities = KVS_CAN_OPTIMIZER | KVS_CAN_SPARSE | KVS_CAN_COMPRESSION | KVS_KEEPS_WEIGHTS,
    .name = "device",
    .dtypes = KVS_DTYPES_ALL,
    .n_device_types = sizeof(device_types) / sizeof(device_types[0]),
    .device_types = device_types,
    .ops = &device_ops,
    .options = device_options,
    .n_options = sizeof(device_options) / sizeof(device_options[0]),
    .flags = KVS_BACKEND_BATCHES,
};

static const kvs_backend_t *const device_backends[] = {&device_backend};

KVS_PLUGIN(device, DEVICE_VERSION, .backends = device_backends, .n_backends = 1)
