/* SPDX-License-Identifier: Apache-2.0 */
/* static_twin.c - a second plugin for test_static.c: two in one program share the host table and
 * nothing else. Its broadcast always fails, with a text. */
#include <kvstore/plugin.h>

static kvs_status_t twin_open(void *store, const kvs_open_args_t *args)
{
    (void)store;
    (void)args;
    return KVS_OK;
}

static kvs_status_t twin_close(void *store, int64_t timeout_ms)
{
    (void)store;
    (void)timeout_ms;
    return KVS_OK;
}

static kvs_status_t twin_pushpull(void *store, kvs_op_t *op)
{
    (void)store;
    (void)op;
    return kvs_fail(KVS_ERR_IO, "the twin does nothing");
}

static const kvs_backend_ops_t twin_ops = {
    .size = sizeof(twin_ops),
    .mode = KVS_BLOCKING,
    .open = twin_open,
    .close = twin_close,
    .pushpull = twin_pushpull,
};

static const int32_t twin_devices[] = {KVS_DEVICE_CPU};

static const kvs_backend_t twin_backend = {
    .size = sizeof(twin_backend),
    .name = "twin",
    .dtypes = 1u << KVS_DTYPE_float32,
    .n_device_types = 1,
    .device_types = twin_devices,
    .ops = &twin_ops,
};

static const kvs_backend_t *const twin_backends[] = {&twin_backend};

KVS_PLUGIN(twin, "2.0", .backends = twin_backends, .n_backends = 1)
