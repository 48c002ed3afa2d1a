/* SPDX-License-Identifier: Apache-2.0 */
/* device.c - the backend `device`: sums where the arrays live.
 *
 * Today those are CPU contexts, whose arrays all lie in host memory: the kit's host store sums them,
 * and gradient compression is the one thing that a device's sum has and `local` has not.
 * TODO(device): arrays of other providers (kvs_provider_find for each device of a group), keys placed
 * by bytes, the largest first, on the device that has the least; with the CUDA provider. */
#include <kvstore/kit.h>

static const kvs_backend_ops_t device_ops = {
    .size = sizeof(device_ops),
    .mode = KVS_BLOCKING,
    .store_size = sizeof(kvs_hoststore_t),
    .key_size = sizeof(kvs_hoststore_key_t),
    .group_size = sizeof(kvs_hoststore_group_t),
    .open = kvs_hoststore_open,
    .close = kvs_hoststore_close,
    .key_release = kvs_hoststore_key_release,
    .issue = kvs_hoststore_issue,
    .init = kvs_hoststore_init,
    .push = kvs_hoststore_push,
    .pull = kvs_hoststore_pull,
    .pushpull = kvs_hoststore_pushpull,
    .row_sparse_pull = kvs_hoststore_row_sparse_pull,
    .set_updater = kvs_hoststore_set_updater,
    .set_optimizer = kvs_hoststore_set_optimizer,
    .set_optimizer_attr = kvs_hoststore_set_optimizer_attr,
    .set_gradient_compression = kvs_hoststore_set_gradient_compression,
    .save_optimizer_states = kvs_hoststore_save_optimizer_states,
    .load_optimizer_states = kvs_hoststore_load_optimizer_states,
};

static const int32_t device_types[] = {KVS_DEVICE_CPU};

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
    .n_device_types = 1,
    .device_types = device_types,
    .ops = &device_ops,
    .options = device_options,
    .n_options = 1,
};

static const kvs_backend_t *const device_backends[] = {&device_backend};

KVS_PLUGIN(device, DEVICE_VERSION, .backends = device_backends, .n_backends = 1)
