/* SPDX-License-Identifier: Apache-2.0 */
/* device.c - the backend `device`: sums where the arrays live, which is all that the kit's device store
 * does. Its devices are CPU contexts, in host memory, and those of the provider `cuda`, if that is
 * installed: not before such an array comes is it asked for. */
#include <kvstore/kit.h>

static const kvs_backend_ops_t device_ops = {
    .size = sizeof(device_ops),
    .mode = KVS_BLOCKING,
    .store_size = sizeof(kvs_devstore_t),
    .key_size = sizeof(kvs_devstore_key_t),
    .group_size = sizeof(kvs_devstore_group_t),
    .open = kvs_hoststore_open,
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

/* Nothing to ask for yet: host memory has no links between devices that a tree could follow. */
static const kvs_option_info_t device_options[] = {
    {.name = "usetree",
     .type = "bool",
     .preset = "0",
     .doc = "sum along a tree of the links between devices; no difference on CPU arrays",
     .variable = "MXNET_KVSTORE_USETREE"},
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
    .n_options = 1,
};

static const kvs_backend_t *const device_backends[] = {&device_backend};

KVS_PLUGIN(device, DEVICE_VERSION, .backends = device_backends, .n_backends = 1)
