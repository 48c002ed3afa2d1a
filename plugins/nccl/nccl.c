/* SPDX-License-Identifier: Apache-2.0 */
/* nccl.c - the backend `nccl`: the kit's device store, whose sums over devices NCCL does. */
#include "nccl_exchange.h"

#include <stdio.h>
#include <string.h>

typedef struct nccl_store {
    kvs_devstore_t dev; /* first */
    int64_t timeout_ms;
} nccl_store_t;

static const kvs_collective_t over_several = {
    .exchange = nccl_exchange, .settle = nccl_settle, .min_devices = 2};
static const kvs_collective_t over_any = {
    .exchange = nccl_exchange, .settle = nccl_settle, .min_devices = 1};

int64_t nccl_timeout_ms(const kvs_devstore_t *store)
{
    return ((const nccl_store_t *)(const void *)store)->timeout_ms;
}

static kvs_status_t nccl_probe(const kvs_config_t *config)
{
    const kvs_provider_t *provider;
    kvs_status_t status = kvs_provider_find(KVS_DEVICE_CUDA, &provider);

    (void)config;
    if (status == KVS_OK && (provider->size < sizeof(kvs_provider_t) || provider->leave == NULL)) {
        return kvs_fail(KVS_ERR_UNAVAILABLE,
                        "device provider '%s' lends no streams; install a newer version",
                        provider->name);
    }
    if (status == KVS_OK) {
        status = provider->probe();
    }
    return status == KVS_OK ? nccl_library_open() : status;
}

static kvs_status_t nccl_open(void *opened, const kvs_open_args_t *args)
{
    nccl_store_t *store = opened;
    kvs_status_t status = kvs_hoststore_open(store, args);
    char version[24];

    if (status == KVS_OK) {
        int any = strcmp(kvs_plugin_host->option(args->config, "single"), "1") == 0;

        store->timeout_ms = kvs_option_ms(args->config, "timeout");
        store->dev.collective = any ? &over_any : &over_several;
        nccl_exchange_open();
        kvs_log(KVS_LOG_INFO, "nccl", "NCCL %s", nccl_version_text(nccl_library.version, version));
    }
    return status;
}

static kvs_status_t nccl_close(void *store, int64_t timeout_ms)
{
    nccl_exchange_close(timeout_ms);
    return kvs_devstore_close(store, timeout_ms);
}

static const kvs_backend_ops_t nccl_ops = {
    .size = sizeof(nccl_ops),
    .mode = KVS_BLOCKING,
    .store_size = sizeof(nccl_store_t),
    .key_size = sizeof(kvs_devstore_key_t),
    .group_size = sizeof(kvs_devstore_group_t),
    .probe = nccl_probe,
    .open = nccl_open,
    .close = nccl_close,
    .key_release = kvs_devstore_key_release,
    .issue = kvs_devstore_issue,
    .init = kvs_devstore_init,
    .push = kvs_devstore_push,
    .pull = kvs_devstore_pull,
    .pushpull = kvs_devstore_pushpull,
    .set_updater = kvs_devstore_set_updater,
    .set_optimizer = kvs_devstore_set_optimizer,
    .set_optimizer_attr = kvs_hoststore_set_optimizer_attr,
    .save_optimizer_states = kvs_devstore_save_optimizer_states,
    .load_optimizer_states = kvs_devstore_load_optimizer_states,
};

static const int32_t nccl_device_types[] = {KVS_DEVICE_CUDA};

static const kvs_option_info_t nccl_options[] = {
    {.name = "single",
     .type = "bool",
     .preset = "0",
     .doc = "go through NCCL on one device too, for tests; else the device sums by itself"},
};

static const kvs_backend_t nccl_backend = {
    .size = sizeof(nccl_backend),
    .capabilities = KVS_CAN_OPTIMIZER | KVS_KEEPS_WEIGHTS,
    .name = "nccl",
    .dtypes = KVS_DTYPES_ALL,
    .n_device_types = 1,
    .device_types = nccl_device_types,
    .ops = &nccl_ops,
    .options = nccl_options,
    .n_options = 1,
    .flags = KVS_BACKEND_WHOLE_CALLS,
};

static const kvs_backend_t *const nccl_backends[] = {&nccl_backend};

/* ---- For `kvstore info` -------------------------------------------------------------------------- */

static void tell_driver(void (*line)(void *arg, const char *label, const char *text), void *arg)
{
    kvs_device_info_t info = {.size = (uint32_t)sizeof(info)};
    const kvs_provider_t *provider;
    kvs_status_t status = kvs_provider_find(KVS_DEVICE_CUDA, &provider);
    char text[160];
    int n = 0;

    if (status == KVS_OK) {
        status = provider->n_devices(&n);
    }
    if (status == KVS_OK) {
        status = provider->info(0, &info);
    }
    if (status != KVS_OK) {
        line(arg, "devices", kvs_plugin_host->last_error());
        return;
    }
    snprintf(text, sizeof(text), "%d, %s", n, info.driver);
    line(arg, "devices", text);
}

static void nccl_about(const kvs_config_t *config,
                       void (*line)(void *arg, const char *label, const char *text), void *arg)
{
    char text[NCCL_TEXT_BYTES], needs[24];

    (void)config;
    line(arg, "NCCL", nccl_library_text(text));
    snprintf(text, sizeof(text), "%s, or a later one of version %d",
             nccl_version_text(NCCL_NEEDED, needs), NCCL_NEEDED_MAJOR);
    line(arg, "NCCL needed", text);
    tell_driver(line, arg);
}

KVS_PLUGIN(nccl, NCCL_PLUGIN_VERSION, .backends = nccl_backends, .n_backends = 1,
           .about = nccl_about)
