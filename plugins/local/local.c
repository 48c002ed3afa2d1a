/* SPDX-License-Identifier: Apache-2.0 */
/* local.c - the backend `local`: the kit's host store, and nothing of its own. */
#include <kvstore/kit.h>

static const kvs_backend_ops_t local_ops = {
    .size = sizeof(local_ops),
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
    .save_optimizer_states = kvs_hoststore_save_optimizer_states,
    .load_optimizer_states = kvs_hoststore_load_optimizer_states,
};

static const int32_t local_devices[] = {KVS_DEVICE_CPU};

static const kvs_backend_t local_backend = {
    .size = sizeof(local_backend),
    .capabilities = KVS_CAN_OPTIMIZER | KVS_CAN_SPARSE | KVS_KEEPS_WEIGHTS,
    .name = "local",
    .dtypes = KVS_DTYPES_ALL,
    .n_device_types = 1,
    .device_types = local_devices,
    .ops = &local_ops,
};

static const kvs_backend_t *const local_backends[] = {&local_backend};

KVS_PLUGIN(local, LOCAL_VERSION, .backends = local_backends, .n_backends = 1)
