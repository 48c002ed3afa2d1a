/* SPDX-License-Identifier: Apache-2.0 */
/* dist.c - the backends of the parameter server: what the core calls, given on to a worker, to a store
 * in this process (a job of one worker that was told of no server), or refused in a process that is a
 * server or a scheduler. */
#include "dist_local.h"
#include "dist_net.h"
#include "dist_p3.h"
#include "dist_server.h"
#include "dist_worker.h"

#include <stdlib.h>
#include <string.h>

typedef struct dist_store {
    kvs_hoststore_t host; /* first: of a store in this process */
    uint16_t n_codecs;    /* of it: calls of set_gradient_compression */
    dist_nonfinite_t nonfinite;
    bool p3; /* slices by priority, and updates by the workers */
    kvs_net_process_t *process;
    kvs_devhost_t *devices;     /* NULL: not a worker */
    dist_worker_t *worker;      /* or */
    kvs_net_service_t *service; /* or neither: in this process */
} dist_store_t;

/* ---- Opening and closing ------------------------------------------------------------------------------- */

static bool is_alone(const kvs_net_settings_t *settings)
{
    return settings->role == KVS_NET_WORKER && settings->n_workers == 1 &&
           (settings->embed & KVS_NET_EMBED_SERVERS) != 0;
}

static kvs_status_t open_worker(dist_store_t *store, const kvs_net_settings_t *settings,
                                const kvs_open_args_t *args)
{
    const kvs_config_t *config = args->config;
    dist_worker_args_t worker_args = {
        .type = args->type,
        .timeout_ms = kvs_option_ms(config, "timeout"),
        .cut_elems = strtoll(kvs_plugin_host->option(config, "bigarray_bound"), NULL, 10),
        .slice = store->p3 ? dist_p3_slice(kvs_plugin_host->option(config, "slice_threshold")) : 0};
    kvs_status_t status = kvs_net_process_join(&dist_plugin, settings, &store->process);

    if (status != KVS_OK) {
        return status;
    }
    worker_args.node = kvs_net_process_node(store->process);
    status = dist_worker_new(&worker_args, &store->worker);
    if (status != KVS_OK) {
        return status;
    }
    status = kvs_net_process_add(store->process, store->worker);
    if (status == KVS_OK) {
        status = dist_worker_open(store->worker, args->loaded);
    }
    if (status != KVS_OK) {
        kvs_net_process_remove(store->process, store->worker);
        dist_worker_free(store->worker);
    }
    return status;
}

static kvs_status_t run(void *state, kvs_op_t *op)
{
    dist_store_t *store = state;

    return store->worker != NULL ? dist_worker_run(store->worker, op)
                                 : dist_local_run(&store->host, store->nonfinite, op);
}

static void arrived(void *state)
{
    const dist_store_t *store = state;

    if (store->worker != NULL) {
        dist_worker_arrived(store->worker);
    }
}

/* Of a job of one the store packs itself, in host memory. */
static int packing(void *state, const kvs_group_t *group, kvs_devhost_packing_t *ret_packing)
{
    const dist_store_t *store = state;
    dist_key_t *key = group->key->state;

    if (store->worker == NULL || store->worker->compression == NULL) {
        return 0;
    }
    *ret_packing =
        (kvs_devhost_packing_t){store->worker->compression, &key->host.residuals, &key->residual};
    return 1;
}

static kvs_status_t dist_open(void *state, const kvs_open_args_t *args)
{
    dist_store_t *store = state;
    kvs_net_settings_t settings;
    const char *p3 = kvs_plugin_host->option(args->config, "p3");
    kvs_status_t status = dist_p3_check(p3, args->type);

    store->p3 = dist_p3_is_on(p3);
    if (status == KVS_OK) {
        status = dist_nonfinite_of(kvs_plugin_host->option(args->config, "nonfinite"),
                                   &store->nonfinite);
    }
    if (status == KVS_OK) {
        status = kvs_net_settings_read(kvs_net_look_up_option, (void *)(uintptr_t)args->config,
                                       &settings);
    }
    if (status != KVS_OK) {
        return status;
    }
    settings.window_bytes = store->p3 ? DIST_P3_WINDOW : settings.window_bytes;
    if (settings.role != KVS_NET_WORKER) {
        return kvs_net_service_open(&dist_plugin, &settings,
                                    kvs_plugin_host->option(args->config, "announce"),
                                    &store->service);
    }
    status = kvs_devhost_new(
        &(kvs_devhost_args_t){.store = store, .run = run, .arrived = arrived, .packing = packing},
        &store->devices);
    if (status == KVS_OK) {
        status = is_alone(&settings) ? kvs_hoststore_open(&store->host, args)
                                     : open_worker(store, &settings, args);
    }
    if (status != KVS_OK) {
        kvs_devhost_free(store->devices);
    }
    return status;
}

static kvs_status_t dist_close(void *state, int64_t timeout_ms)
{
    dist_store_t *store = state;

    kvs_devhost_free(store->devices);
    if (store->worker != NULL) {
        kvs_net_process_remove(store->process, store->worker);
        return dist_worker_close(store->worker, timeout_ms);
    }
    return store->service != NULL
               ? kvs_net_service_close(store->service, dist_net_timeout(timeout_ms))
               : kvs_hoststore_close(&store->host, timeout_ms);
}

static void dist_key_release(void *state, kvs_key_entry_t *key)
{
    dist_store_t *store = state;

    if (store->worker != NULL) {
        dist_worker_key_release(store->worker, key);
    } else if (store->service == NULL) {
        kvs_hoststore_key_release(&store->host, key);
        *(dist_key_t *)key->state = (dist_key_t){.worker = NULL};
    }
}

/* ---- Operations ------------------------------------------------------------------------------------------ */

static kvs_status_t dist_issue(void *state, kvs_op_t *op)
{
    dist_store_t *store = state;

    if (store->service != NULL) {
        return kvs_net_service_refuse(store->service, "an operation");
    }
    kvs_status_t status = dist_sparse_issue(op);

    if (status != KVS_OK) {
        return status;
    }
    return store->worker != NULL ? dist_worker_issue(store->worker, op)
                                 : dist_local_issue(&store->host, store->n_codecs, op);
}

static kvs_status_t dist_run(void *state, kvs_op_t *op)
{
    return kvs_devhost_run(((dist_store_t *)state)->devices, op);
}

/* What optimizers in the store are for; operations issued before come before it. */
static kvs_status_t check_optimizer(const dist_store_t *store, const char *what)
{
    if (store->service != NULL) {
        return kvs_net_service_refuse(store->service, what);
    }
    kvs_devhost_drain(store->devices);
    return store->p3 ? kvs_fail(KVS_ERR_NOT_IMPLEMENTED,
                                "not implemented: %s by stores with P3 (DMLC_PS_VAN_TYPE=p3); "
                                "workers update: see kvs_optimizer_create",
                                what)
                     : KVS_OK;
}

static uint32_t dist_capabilities(void *state, uint32_t of_backend)
{
    const dist_store_t *store = state;

    return store->p3 ? of_backend & ~(uint32_t)KVS_CAN_OPTIMIZER : of_backend;
}

static kvs_status_t dist_set_optimizer(void *state, const kvs_optimizer_spec_t *spec)
{
    dist_store_t *store = state;
    kvs_status_t status = check_optimizer(store, "set_optimizer");

    if (status != KVS_OK) {
        return status;
    }
    return store->worker != NULL ? dist_worker_set_optimizer(store->worker, spec)
                                 : kvs_hoststore_set_optimizer(&store->host, spec);
}

static kvs_status_t dist_set_optimizer_attr(void *state, const kvs_param_t *attr)
{
    dist_store_t *store = state;
    kvs_status_t status = check_optimizer(store, "set_optimizer_attr");

    if (status != KVS_OK) {
        return status;
    }
    return store->worker != NULL ? dist_worker_set_optimizer_attr(store->worker, attr)
                                 : kvs_hoststore_set_optimizer_attr(&store->host, attr);
}

static kvs_status_t dist_save_optimizer_states(void *state, const char *path, int dump_optimizer)
{
    dist_store_t *store = state;
    kvs_status_t status = check_optimizer(store, "save_optimizer_states");

    if (status != KVS_OK) {
        return status;
    }
    return store->worker != NULL
               ? dist_worker_save_states(store->worker, path, dump_optimizer)
               : kvs_hoststore_save_optimizer_states(&store->host, path, dump_optimizer);
}

static kvs_status_t dist_load_optimizer_states(void *state, const char *path)
{
    dist_store_t *store = state;
    kvs_status_t status = check_optimizer(store, "load_optimizer_states");

    if (status != KVS_OK) {
        return status;
    }
    return store->worker != NULL ? dist_worker_load_states(store->worker, path)
                                 : kvs_hoststore_load_optimizer_states(&store->host, path);
}

static kvs_status_t dist_set_gradient_compression(void *state, const kvs_param_t *params,
                                                  size_t n_params)
{
    dist_store_t *store = state;
    kvs_status_t status;

    if (store->service != NULL) {
        return kvs_net_service_refuse(store->service, "set_gradient_compression");
    }
    kvs_devhost_drain(store->devices);
    if (store->worker != NULL) {
        return dist_worker_set_compression(store->worker, params, n_params);
    }
    status = kvs_hoststore_set_gradient_compression(&store->host, params, n_params);
    store->n_codecs += status == KVS_OK;
    return status;
}

/* ---- What a store is, and the other processes ------------------------------------------------------------ */

static kvs_status_t give(const dist_store_t *store, const char *what, int of_worker, int alone,
                         int *ret)
{
    if (store->service != NULL) {
        return kvs_net_service_refuse(store->service, what);
    }
    *ret = store->worker != NULL ? of_worker : alone;
    return KVS_OK;
}

static kvs_status_t dist_rank(void *state, int *ret_rank)
{
    const dist_store_t *store = state;

    return give(store, "rank", store->worker == NULL ? 0 : store->worker->rank, 0, ret_rank);
}

static kvs_status_t dist_num_workers(void *state, int *ret_num_workers)
{
    const dist_store_t *store = state;

    return give(store, "num_workers", store->worker == NULL ? 1 : store->worker->n_workers, 1,
                ret_num_workers);
}

static kvs_status_t dist_local_rank(void *state, int *ret_local_rank)
{
    const dist_store_t *store = state;

    return give(store, "local_rank",
                store->worker == NULL ? 0 : kvs_net_node_local_rank(store->worker->node), 0,
                ret_local_rank);
}

static kvs_status_t dist_barrier(void *state)
{
    dist_store_t *store = state;

    if (store->service != NULL) {
        return kvs_net_service_refuse(store->service, "barrier");
    }
    kvs_devhost_drain(store->devices);
    return store->worker != NULL ? dist_worker_barrier(store->worker) : KVS_OK;
}

static kvs_status_t dist_join_last(void *state, int *ret_last_rank)
{
    dist_store_t *store = state;

    if (store->service != NULL) {
        return kvs_net_service_refuse(store->service, "join");
    }
    kvs_devhost_drain(store->devices);
    *ret_last_rank = 0;
    return store->worker != NULL ? dist_worker_join(store->worker, ret_last_rank) : KVS_OK;
}

static kvs_status_t dist_join(void *state)
{
    int last;

    return dist_join_last(state, &last);
}

static kvs_status_t dist_send_command(void *state, int head, const void *body, size_t n_bytes)
{
    dist_store_t *store = state;

    if (store->service != NULL) {
        return kvs_net_service_refuse(store->service, "send_command_to_servers");
    }
    kvs_devhost_drain(store->devices);
    return store->worker != NULL ? dist_worker_send_command(store->worker, head, body, n_bytes)
                                 : KVS_OK;
}

static kvs_status_t dist_num_dead_nodes(void *state, const char *role, int64_t timeout_ms,
                                        int *ret_dead)
{
    dist_store_t *store = state;

    if (store->worker != NULL) {
        return dist_worker_num_dead_nodes(store->worker, role, timeout_ms, ret_dead);
    }
    return give(store, "num_dead_nodes", 0, 0, ret_dead);
}

static kvs_status_t dist_run_server(void *state)
{
    dist_store_t *store = state;

    return store->service != NULL
               ? kvs_net_service_run(store->service)
               : kvs_fail(KVS_ERR_STATE,
                          "run_server: this process is a worker; its role is set by KVSTORE_ROLE");
}

static kvs_status_t dist_set_controller(void *state, kvs_controller_t fn, void *arg)
{
    const dist_store_t *store = state;
    kvs_net_server_t *server =
        store->service == NULL ? NULL : kvs_net_service_server(store->service);

    if (server == NULL) {
        return kvs_fail(KVS_ERR_STATE,
                        "set_controller: this process is a %s; commands go to servers "
                        "(KVSTORE_ROLE)",
                        store->service == NULL ? "worker" : "scheduler");
    }
    dist_server_set_controller(server, fn, arg);
    return KVS_OK;
}

static kvs_status_t dist_delete_keys(void *state, kvs_key_entry_t *const *keys, size_t n_keys)
{
    dist_store_t *store = state;

    kvs_devhost_drain(store->devices);
    return store->worker != NULL ? dist_worker_delete_keys(store->worker, keys, n_keys) : KVS_OK;
}

static void dist_cancel(void *state)
{
    const dist_store_t *store = state;

    kvs_devhost_cancel(store->devices);
    if (store->service != NULL) {
        kvs_net_service_cancel(store->service);
    } else if (store->worker != NULL) {
        dist_worker_cancel(store->worker);
    }
}

static const kvs_backend_ops_t dist_ops = {
    .size = sizeof(dist_ops),
    .mode = KVS_ASYNCHRONOUS,
    .store_size = sizeof(dist_store_t),
    .key_size = sizeof(dist_key_t),
    .group_size = sizeof(dist_group_t),
    .open = dist_open,
    .close = dist_close,
    .key_release = dist_key_release,
    .issue = dist_issue,
    .init = dist_run,
    .push = dist_run,
    .pull = dist_run,
    .pushpull = dist_run,
    .broadcast = dist_run,
    .row_sparse_pull = dist_run,
    .set_optimizer = dist_set_optimizer,
    .set_optimizer_attr = dist_set_optimizer_attr,
    .set_gradient_compression = dist_set_gradient_compression,
    .save_optimizer_states = dist_save_optimizer_states,
    .load_optimizer_states = dist_load_optimizer_states,
    .rank = dist_rank,
    .num_workers = dist_num_workers,
    .local_rank = dist_local_rank,
    .barrier = dist_barrier,
    .join = dist_join,
    .send_command = dist_send_command,
    .num_dead_nodes = dist_num_dead_nodes,
    .run_server = dist_run_server,
    .capabilities = dist_capabilities,
    .join_last = dist_join_last,
    .set_controller = dist_set_controller,
    .delete_keys = dist_delete_keys,
    .cancel = dist_cancel,
};

static const int32_t dist_devices[] = {KVS_DEVICE_CPU, KVS_DEVICE_CUDA, KVS_DEVICE_CUDA_HOST,
                                       KVS_DEVICE_CUDA_MANAGED};

/* The same as in dist.json: the core compares them. */
static const kvs_option_info_t dist_options[] = {
    {.name = "bigarray_bound",
     .type = "size",
     .preset = "1000000",
     .doc = "elements from which an array is cut over all servers",
     .variable = "MXNET_KVSTORE_BIGARRAY_BOUND"},
    {.name = "p3",
     .type = "text",
     .preset = "",
     .doc = "1 or p3: arrays travel in slices by priority, and workers update; synchronous stores",
     .variable = "DMLC_PS_VAN_TYPE"},
    {.name = "slice_threshold",
     .type = "size",
     .preset = "40000",
     .doc = "with p3: elements of a slice at most",
     .variable = "MXNET_KVSTORE_SLICE_THRESHOLD"},
    {.name = "nonfinite",
     .type = "text",
     .preset = "propagate",
     .doc = "gradients with NaN or infinity: propagate, skip the update, or error"},
    {.name = "role",
     .type = "text",
     .preset = "",
     .doc = "what this process is: worker, server or scheduler",
     .flags = KVS_OPTION_LOCAL},
    {.name = "rank",
     .type = "text",
     .preset = "",
     .doc = "this process's number among those of its role",
     .flags = KVS_OPTION_LOCAL},
    {.name = "num_workers",
     .type = "text",
     .preset = "",
     .doc = "workers in the job",
     .flags = KVS_OPTION_LOCAL},
    {.name = "num_servers",
     .type = "text",
     .preset = "",
     .doc = "servers in the job",
     .flags = KVS_OPTION_LOCAL},
    {.name = "scheduler",
     .type = "text",
     .preset = "",
     .doc = "the scheduler's address, host:port",
     .flags = KVS_OPTION_LOCAL},
    {.name = "job_id",
     .type = "text",
     .preset = "",
     .doc = "the job's name: jobs of different names never meet",
     .flags = KVS_OPTION_LOCAL},
    {.name = "node_host",
     .type = "text",
     .preset = "",
     .doc = "the address to announce to the others",
     .flags = KVS_OPTION_LOCAL},
    {.name = "interface",
     .type = "text",
     .preset = "",
     .doc = "the network interface whose address to announce",
     .flags = KVS_OPTION_LOCAL},
    {.name = "insecure",
     .type = "text",
     .preset = "",
     .doc = "1: addresses other than loopback are allowed, without keys",
     .flags = KVS_OPTION_LOCAL},
    {.name = "heartbeat", .type = "time", .preset = "2", .doc = "seconds between signs of life"},
    {.name = "dead_after",
     .type = "time",
     .preset = "15",
     .doc = "seconds of silence after which a process counts as dead"},
    {.name = "rendezvous",
     .type = "time",
     .preset = "300",
     .doc = "seconds to wait until all processes are there; 0: for ever",
     .flags = KVS_OPTION_LOCAL},
    {.name = "announce",
     .type = "text",
     .preset = "",
     .doc = "file that a scheduler writes its address to, once it listens",
     .flags = KVS_OPTION_LOCAL},
};

static const kvs_backend_t dist_sync = {
    .size = sizeof(dist_sync),
    .capabilities = KVS_CAN_OPTIMIZER | KVS_CAN_SPARSE | KVS_CAN_COMPRESSION |
                    KVS_CAN_MULTI_WORKER | KVS_KEEPS_WEIGHTS,
    .name = "dist_sync",
    .dtypes = KVS_DTYPES_ALL,
    .n_device_types = sizeof(dist_devices) / sizeof(dist_devices[0]),
    .device_types = dist_devices,
    .ops = &dist_ops,
    .options = dist_options,
    .n_options = sizeof(dist_options) / sizeof(dist_options[0]),
};

static const kvs_backend_t dist_async = {
    .size = sizeof(dist_async),
    .capabilities = KVS_CAN_OPTIMIZER | KVS_CAN_SPARSE | KVS_CAN_COMPRESSION | KVS_CAN_ASYNC |
                    KVS_CAN_MULTI_WORKER | KVS_KEEPS_WEIGHTS,
    .name = "dist_async",
    .dtypes = KVS_DTYPES_ALL,
    .n_device_types = sizeof(dist_devices) / sizeof(dist_devices[0]),
    .device_types = dist_devices,
    .ops = &dist_ops,
    .options = dist_options,
    .n_options = sizeof(dist_options) / sizeof(dist_options[0]),
};

static const kvs_backend_t *const dist_backends[] = {&dist_sync, &dist_async};

KVS_PLUGIN(dist, DIST_VERSION, .backends = dist_backends,
           .n_backends = sizeof(dist_backends) / sizeof(dist_backends[0]), .about = kvs_net_about)
