/* SPDX-License-Identifier: Apache-2.0 */
/* nccl.c - the backend `nccl`: the kit's device store, whose sums over devices NCCL does; in a job of several
 * processes nccl_job.c sums over all of them first. */
#include "ar_settings.h"
#include "nccl_digest.h"
#include "nccl_job.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const kvs_net_plugin_t plugin = {.size = sizeof(plugin), .name = "nccl", .no_servers = 1};

/* ---- Sums over the devices of this process --------------------------------------------------------- */

static kvs_status_t exchange(kvs_devstore_t *dev, const kvs_collective_item_t *items,
                             size_t n_items, uint64_t *ret_ticket)
{
    const nccl_store_t *store = (const nccl_store_t *)(const void *)dev;
    nccl_item_t *alone = calloc(n_items, sizeof(*alone));
    kvs_status_t status;

    if (alone == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for an exchange of %zu keys", n_items);
    }
    for (size_t i = 0; i < n_items; i++) {
        alone[i].at = items[i];
    }
    status = nccl_exchange(alone, n_items, store->member.timeout_ms, ret_ticket);
    free(alone);
    return status;
}

static kvs_status_t settle(kvs_devstore_t *store, uint64_t ticket)
{
    (void)store;
    return nccl_settle(ticket);
}

static const kvs_collective_t over_several = {
    .exchange = exchange, .settle = settle, .min_devices = 2};
static const kvs_collective_t over_any = {.exchange = exchange, .settle = settle, .min_devices = 1};

/* ---- Opening and closing --------------------------------------------------------------------------- */

static kvs_status_t nccl_probe(const kvs_config_t *config)
{
    const char *role = kvs_net_look_up_option((void *)(uintptr_t)config, "KVSTORE_ROLE");
    const kvs_provider_t *provider;
    kvs_status_t status;

    if (role != NULL && strcmp(role, "scheduler") == 0) {
        return KVS_OK; /* it has nothing to do with arrays */
    }
    status = kvs_provider_find(KVS_DEVICE_CUDA, &provider);
    if (status == KVS_OK &&
        (provider->size < offsetof(kvs_provider_t, rows_sum) || provider->leave == NULL)) {
        return kvs_fail(KVS_ERR_UNAVAILABLE,
                        "device provider '%s' lends no streams; install a newer version",
                        provider->name);
    }
    if (status == KVS_OK) {
        status = provider->probe();
    }
    return status == KVS_OK ? nccl_library_open() : status;
}

static kvs_status_t open_worker(nccl_store_t *store, const kvs_net_settings_t *settings,
                                const kvs_open_args_t *args)
{
    kvs_status_t status = kvs_hoststore_open(store, args);

    if (status != KVS_OK) {
        return status;
    }
    store->dev.collective = strcmp(kvs_plugin_host->option(args->config, "single"), "1") == 0
                                ? &over_any
                                : &over_several;
    nccl_exchange_open();
    if (settings->n_workers > 1) {
        status = nccl_job_open(store, settings, args);
    }
    if (status != KVS_OK) {
        nccl_exchange_close(0);
        (void)kvs_hoststore_close(store, 0); /* does not fail */
    }
    return status;
}

static kvs_status_t nccl_open(void *opened, const kvs_open_args_t *args)
{
    nccl_store_t *store = opened;
    kvs_net_settings_t settings;
    kvs_status_t status = ar_settings_read(args->config, &settings);
    char version[24];

    store->member.timeout_ms = kvs_option_ms(args->config, "timeout");
    store->member.warning_ms = kvs_option_ms(args->config, "stall_warning");
    if (status != KVS_OK) {
        return status;
    }
    if (settings.role == KVS_NET_SERVER) {
        return kvs_fail(KVS_ERR_ARGUMENT, "nccl has no servers; start workers only "
                                          "(KVSTORE_NUM_SERVERS=0)");
    }
    if (settings.role == KVS_NET_SCHEDULER) {
        return kvs_net_service_open(&plugin, &settings,
                                    kvs_plugin_host->option(args->config, "announce"),
                                    &store->scheduler);
    }
    status = nccl_library_open();
    if (status != KVS_OK) {
        return status;
    }
    kvs_log(KVS_LOG_INFO, "nccl", "NCCL %s", nccl_version_text(nccl_library.version, version));
    return open_worker(store, &settings, args);
}

static kvs_status_t nccl_close(void *opened, int64_t timeout_ms)
{
    nccl_store_t *store = opened;
    kvs_status_t status = KVS_OK, closed;

    if (store->scheduler != NULL) {
        return kvs_net_service_close(store->scheduler, ar_net_timeout(timeout_ms));
    }
    if (store->member.job != NULL) {
        status = nccl_job_close(store, timeout_ms);
    }
    nccl_exchange_close(timeout_ms);
    closed = kvs_devstore_close(store, timeout_ms);
    return status == KVS_OK ? closed : status;
}

static uint32_t nccl_store_mode(void *opened)
{
    const nccl_store_t *store = opened;

    return store->member.job != NULL ? KVS_ASYNCHRONOUS : KVS_BLOCKING;
}

/* ---- Operations ------------------------------------------------------------------------------------ */

static kvs_status_t check_worker(const nccl_store_t *store, const char *what)
{
    return store->scheduler == NULL ? KVS_OK : kvs_net_service_refuse(store->scheduler, what);
}

/* In a job they are numbered and marked when they are taken up. */
static kvs_status_t nccl_issue(void *opened, kvs_op_t *op)
{
    nccl_store_t *store = opened;
    kvs_status_t status = check_worker(store, "an operation");

    return status == KVS_OK && store->member.job == NULL ? kvs_devstore_issue(store, op) : status;
}

static kvs_status_t broadcast_alone(void *store, kvs_op_t *op)
{
    kvs_status_t status = kvs_devstore_init(store, op);

    return status == KVS_OK ? kvs_devstore_pull(store, op) : status;
}

/* How a process alone does each verb; a job has one way for all. */
static kvs_status_t (*const verbs_alone[])(void *store, kvs_op_t *op) = {
    [KVS_VERB_INIT] = kvs_devstore_init,    [KVS_VERB_PUSH] = kvs_devstore_push,
    [KVS_VERB_PULL] = kvs_devstore_pull,    [KVS_VERB_PUSHPULL] = kvs_devstore_pushpull,
    [KVS_VERB_BROADCAST] = broadcast_alone,
};

static kvs_status_t nccl_run(void *opened, kvs_op_t *op)
{
    nccl_store_t *store = opened;

    return store->member.job != NULL ? nccl_job_run(store, op) : verbs_alone[op->verb](store, op);
}

/* ---- What changes the store ------------------------------------------------------------------------- */

/* In a job nobody else waits for what was issued before. */
static kvs_status_t begin_change(nccl_store_t *store, const char *what)
{
    kvs_status_t status = check_worker(store, what);

    if (status == KVS_OK && store->member.job != NULL) {
        status = nccl_job_drain(store);
    }
    return status == KVS_OK ? KVS_OK : kvs_fail_context(status, "%s", what);
}

/* What has been changed here must be changed by all: the next push holds the digests against each other. */
static kvs_status_t end_change(nccl_store_t *store, kvs_status_t status, uint64_t digest)
{
    store->digest = status == KVS_OK ? digest : store->digest;
    return status;
}

static kvs_status_t nccl_set_updater(void *opened, kvs_updater_t fn, void *arg)
{
    nccl_store_t *store = opened;
    kvs_status_t status = begin_change(store, "set_updater");

    status = status == KVS_OK ? kvs_devstore_set_updater(store, fn, arg) : status;
    return end_change(store, status, nccl_digest_text(0, fn == NULL ? "no updater" : "an updater"));
}

static kvs_status_t nccl_set_optimizer(void *opened, const kvs_optimizer_spec_t *spec)
{
    nccl_store_t *store = opened;
    kvs_status_t status = begin_change(store, "set_optimizer");

    status = status == KVS_OK ? kvs_devstore_set_optimizer(store, spec) : status;
    return end_change(store, status, nccl_digest_spec(0, spec));
}

static kvs_status_t nccl_set_optimizer_attr(void *opened, const kvs_param_t *attr)
{
    nccl_store_t *store = opened;
    kvs_status_t status = begin_change(store, "set_optimizer_attr");

    status = status == KVS_OK ? kvs_hoststore_set_optimizer_attr(store, attr) : status;
    return end_change(store, status, nccl_digest_param(store->digest, attr));
}

static kvs_status_t nccl_save_optimizer_states(void *opened, const char *path, int dump_optimizer)
{
    nccl_store_t *store = opened;
    kvs_status_t status = begin_change(store, "save_optimizer_states");

    return status == KVS_OK ? kvs_devstore_save_optimizer_states(store, path, dump_optimizer)
                            : status;
}

static kvs_status_t nccl_load_optimizer_states(void *opened, const char *path)
{
    nccl_store_t *store = opened;
    kvs_status_t status = begin_change(store, "load_optimizer_states");

    status = status == KVS_OK ? kvs_devstore_load_optimizer_states(store, path) : status;
    return end_change(store, status, nccl_digest_text(store->digest, "load"));
}

/* Each process forgets its own; what comes of it is key_release. */
static kvs_status_t nccl_delete_keys(void *store, kvs_key_entry_t *const *keys, size_t n_keys)
{
    (void)keys;
    (void)n_keys;
    return begin_change(store, "delete");
}

/* ---- What a store is, and the other processes ------------------------------------------------------- */

static kvs_status_t give(const nccl_store_t *store, const char *what, int in_job, int alone,
                         int *ret)
{
    kvs_status_t status = check_worker(store, what);

    if (status == KVS_OK) {
        *ret = store->member.job != NULL ? in_job : alone;
    }
    return status;
}

static kvs_status_t nccl_rank(void *opened, int *ret_rank)
{
    const nccl_store_t *store = opened;

    return give(store, "rank", store->member.rank, 0, ret_rank);
}

static kvs_status_t nccl_num_workers(void *opened, int *ret_num_workers)
{
    const nccl_store_t *store = opened;

    return give(store, "num_workers", store->member.n_workers, 1, ret_num_workers);
}

static kvs_status_t nccl_local_rank(void *opened, int *ret_local_rank)
{
    const nccl_store_t *store = opened;
    int local =
        store->member.job == NULL ? 0 : kvs_net_node_local_rank(hvd_job_node(store->member.job));

    return give(store, "local_rank", local, 0, ret_local_rank);
}

static kvs_status_t nccl_barrier(void *opened)
{
    nccl_store_t *store = opened;
    kvs_status_t status = check_worker(store, "barrier");

    return status == KVS_OK && store->member.job != NULL ? hvd_member_barrier(&store->member)
                                                         : status;
}

static kvs_status_t nccl_num_dead_nodes(void *opened, const char *role, int64_t timeout_ms,
                                        int *ret_dead)
{
    nccl_store_t *store = opened;
    int mask = strcmp(role, "worker") == 0 ? KVS_NET_WORKER : KVS_NET_SCHEDULER;
    kvs_status_t status = check_worker(store, "num_dead_nodes");

    if (status != KVS_OK || store->member.job == NULL || strcmp(role, "server") == 0) {
        *ret_dead = 0;
        return status;
    }
    return kvs_net_node_num_dead(hvd_job_node(store->member.job), mask, timeout_ms,
                                 ar_net_timeout(store->member.timeout_ms), ret_dead);
}

static kvs_status_t nccl_run_server(void *opened)
{
    nccl_store_t *store = opened;

    return store->scheduler != NULL
               ? kvs_net_service_run(store->scheduler)
               : kvs_fail(KVS_ERR_STATE,
                          "run_server: this process is a worker; its role is set by KVSTORE_ROLE");
}

static void nccl_cancel(void *opened)
{
    nccl_store_t *store = opened;

    if (store->scheduler != NULL) {
        kvs_net_service_cancel(store->scheduler);
    } else if (store->member.job != NULL) {
        hvd_member_cancel(&store->member);
    }
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
    .issue = nccl_issue,
    .init = nccl_run,
    .push = nccl_run,
    .pull = nccl_run,
    .pushpull = nccl_run,
    .broadcast = nccl_run,
    .set_updater = nccl_set_updater,
    .set_optimizer = nccl_set_optimizer,
    .set_optimizer_attr = nccl_set_optimizer_attr,
    .save_optimizer_states = nccl_save_optimizer_states,
    .load_optimizer_states = nccl_load_optimizer_states,
    .rank = nccl_rank,
    .num_workers = nccl_num_workers,
    .local_rank = nccl_local_rank,
    .barrier = nccl_barrier,
    .num_dead_nodes = nccl_num_dead_nodes,
    .run_server = nccl_run_server,
    .delete_keys = nccl_delete_keys,
    .cancel = nccl_cancel,
    .store_mode = nccl_store_mode,
};

static const int32_t nccl_device_types[] = {KVS_DEVICE_CUDA};

static const kvs_option_info_t nccl_options[] = {
    {.name = "single",
     .type = "bool",
     .preset = "0",
     .doc = "go through NCCL on one device too, for tests; else the device sums by itself"},
    {.name = "stall_warning",
     .type = "time",
     .preset = "30",
     .doc = "seconds after which a worker that has not submitted a key is warned of; 0: never"},
    AR_JOB_OPTIONS,
};

static const kvs_backend_t nccl_backend = {
    .size = sizeof(nccl_backend),
    .capabilities = KVS_CAN_OPTIMIZER | KVS_KEEPS_WEIGHTS | KVS_CAN_MULTI_WORKER,
    .name = "nccl",
    .dtypes = KVS_DTYPES_ALL,
    .n_device_types = 1,
    .device_types = nccl_device_types,
    .ops = &nccl_ops,
    .options = nccl_options,
    .n_options = sizeof(nccl_options) / sizeof(nccl_options[0]),
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
