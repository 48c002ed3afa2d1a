/* SPDX-License-Identifier: Apache-2.0 */
/* byteps.c - the backend: what the core calls, given on to a worker, done in place in a job of one, or
 * refused in a process that is a server or a scheduler. Here is also said what byteps does not take:
 * lists, and arrays in host memory unless they are allowed. */
#include "ar_settings.h"
#include "byteps_net.h"
#include "byteps_settings.h"
#include "byteps_worker.h"

#include <string.h>

#define MAX_PART_BYTES (INT64_C(1) << 40)
#define MAX_CREDIT     (INT64_C(1) << 20)

typedef struct byteps_store {
    kvs_net_process_t *process;
    kvs_devhost_t *devices;     /* of a worker */
    byteps_worker_t *worker;    /* or */
    kvs_net_service_t *service; /* or neither: a job of one */
    bool allows_cpu;
} byteps_store_t;

/* ---- Opening and closing ------------------------------------------------------------------------------- */

static kvs_status_t read_sizes(const kvs_config_t *config, byteps_worker_args_t *args)
{
    int64_t part = ar_option_int(config, "partition_bytes");
    int64_t credit = ar_option_int(config, "credit");

    if (part < 1 || part > MAX_PART_BYTES) {
        return kvs_fail(KVS_ERR_ARGUMENT,
                        "partition_bytes (BYTEPS_PARTITION_BYTES) is %lld, not from 1 to 2^40",
                        (long long)part);
    }
    if (credit < 0 || credit > MAX_CREDIT) {
        return kvs_fail(KVS_ERR_ARGUMENT,
                        "credit (BYTEPS_SCHEDULING_CREDIT) is %lld parts, not from 0 to 2^20",
                        (long long)credit);
    }
    args->part_bytes = (uint64_t)part;
    args->credit_bytes = (uint64_t)credit * (uint64_t)part;
    return KVS_OK;
}

static kvs_status_t open_worker(byteps_store_t *store, const kvs_net_settings_t *settings,
                                const kvs_open_args_t *args)
{
    byteps_worker_args_t worker_args = {.type = args->type,
                                        .timeout_ms = kvs_option_ms(args->config, "timeout")};
    kvs_status_t status = read_sizes(args->config, &worker_args);

    status =
        status == KVS_OK ? kvs_net_process_join(&byteps_plugin, settings, &store->process) : status;
    if (status != KVS_OK) {
        return status;
    }
    worker_args.node = kvs_net_process_node(store->process);
    worker_args.owner = byteps_net_owner(store->process);
    status = byteps_worker_new(&worker_args, &store->worker);
    if (status != KVS_OK) {
        return status;
    }
    status = kvs_net_process_add(store->process, store->worker);
    if (status == KVS_OK) {
        status = byteps_worker_open(store->worker, args->loaded);
    }
    if (status != KVS_OK) {
        kvs_net_process_remove(store->process, store->worker);
        byteps_worker_free(store->worker);
    }
    return status;
}

static bool is_alone(const kvs_net_settings_t *settings)
{
    return settings->n_workers == 1 && (settings->embed & KVS_NET_EMBED_SERVERS) != 0;
}

/* The sum over a job of one, and worker 0's value, is the value. */
static kvs_status_t copy_value(kvs_op_t *op)
{
    const kvs_tensor_t *value = &op->groups[0].values[0];
    kvs_status_t status = kvs_devhost_await(op);

    for (size_t i = 0; i < op->groups[0].n_outs && status == KVS_OK; i++) {
        const kvs_tensor_t *out = &op->groups[0].outs[i];

        if (out->data != value->data) {
            status =
                kvs_cpu_provider()->cast(kvs_tensor_n_elems(out), kvs_dtype_index(value->dtype),
                                         value->data, kvs_dtype_index(out->dtype), out->data);
        }
    }
    if (status == KVS_OK) {
        kvs_devhost_consumed(op);
        kvs_devhost_complete(op, KVS_OK);
    }
    return status;
}

static kvs_status_t run(void *state, kvs_op_t *op)
{
    byteps_store_t *store = state;

    return store->worker != NULL ? byteps_worker_run(store->worker, op) : copy_value(op);
}

static void arrived(void *state)
{
    const byteps_store_t *store = state;

    if (store->worker != NULL) {
        byteps_worker_arrived(store->worker);
    }
}

static kvs_status_t byteps_open(void *state, const kvs_open_args_t *args)
{
    byteps_store_t *store = state;
    kvs_net_settings_t settings;
    kvs_status_t status = byteps_settings_read(args->config, &settings);

    if (status != KVS_OK) {
        return status;
    }
    store->allows_cpu = strcmp(kvs_plugin_host->option(args->config, "allow_cpu"), "1") == 0 ||
                        strcmp(kvs_plugin_host->option(args->config, "allow_cpu"), "true") == 0;
    if (settings.role != KVS_NET_WORKER) {
        return kvs_net_service_open(&byteps_plugin, &settings,
                                    kvs_plugin_host->option(args->config, "announce"),
                                    &store->service);
    }
    status = kvs_devhost_new(&(kvs_devhost_args_t){.store = store, .run = run, .arrived = arrived},
                             &store->devices);
    if (status == KVS_OK && !is_alone(&settings)) {
        status = open_worker(store, &settings, args);
    }
    if (status != KVS_OK) {
        kvs_devhost_free(store->devices);
    }
    return status;
}

static kvs_status_t byteps_close(void *state, int64_t timeout_ms)
{
    byteps_store_t *store = state;

    kvs_devhost_free(store->devices);
    if (store->worker != NULL) {
        kvs_net_process_remove(store->process, store->worker);
        return byteps_worker_close(store->worker, timeout_ms);
    }
    return store->service != NULL
               ? kvs_net_service_close(store->service, ar_net_timeout(timeout_ms))
               : KVS_OK;
}

static void byteps_key_free(void *state, kvs_key_entry_t *key)
{
    (void)state;
    byteps_worker_key_release(key->state);
}

/* ---- Operations ---------------------------------------------------------------------------------------- */

static const char *verb_name(const kvs_op_t *op)
{
    return op->verb == KVS_VERB_BROADCAST ? "broadcast" : "pushpull";
}

static kvs_status_t check_list(const kvs_op_t *op)
{
    if (op->n_groups != 1) {
        return kvs_fail(KVS_ERR_ARGUMENT,
                        "%s: byteps takes one key a call, not a list of %zu; call it once for each",
                        verb_name(op), op->n_groups);
    }
    if (op->groups[0].n_values > 1 || op->groups[0].n_outs > 1) {
        return kvs_fail(
            KVS_ERR_ARGUMENT,
            "%s: byteps takes one array a key, not a list of %zu; sum them first, or run "
            "a process for each",
            verb_name(op),
            op->groups[0].n_values > 1 ? op->groups[0].n_values : op->groups[0].n_outs);
    }
    return KVS_OK;
}

static kvs_status_t check_provider(const kvs_op_t *op)
{
    const kvs_provider_t *provider;
    kvs_status_t status = kvs_provider_find(KVS_DEVICE_CUDA, &provider);

    if (status == KVS_OK && provider->probe != NULL) {
        status = provider->probe();
    }
    return status == KVS_OK
               ? KVS_OK
               : kvs_fail_context(status, "%s: byteps backend not available for GPU arrays",
                                  verb_name(op));
}

static kvs_status_t check_device(const byteps_store_t *store, const kvs_op_t *op,
                                 const kvs_tensor_t *tensors, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (tensors[i].device.type != KVS_DEVICE_CPU) {
            kvs_status_t status = check_provider(op);

            if (status != KVS_OK) {
                return status;
            }
            continue;
        }
        if (!store->allows_cpu) {
            return kvs_fail(KVS_ERR_UNAVAILABLE,
                            "%s: byteps takes arrays on the GPU, and this one is on the CPU; to "
                            "allow CPU arrays create the store with allow_cpu=1, or set "
                            "KVSTORE_BYTEPS_ALLOW_CPU=1",
                            verb_name(op));
        }
    }
    return KVS_OK;
}

static kvs_status_t byteps_issue(void *state, kvs_op_t *op)
{
    byteps_store_t *store = state;
    kvs_status_t status;

    if (store->service != NULL) {
        return kvs_net_service_refuse(store->service, verb_name(op));
    }
    status = check_list(op);
    if (status == KVS_OK) {
        status = check_device(store, op, op->groups[0].values, op->groups[0].n_values);
    }
    if (status == KVS_OK) {
        status = check_device(store, op, op->groups[0].outs, op->groups[0].n_outs);
    }
    if (status == KVS_OK && store->worker != NULL) {
        status = byteps_worker_issue(store->worker);
        status = status == KVS_OK ? KVS_OK : kvs_fail_context(status, "%s", verb_name(op));
    }
    return status;
}

static kvs_status_t byteps_run(void *state, kvs_op_t *op)
{
    return kvs_devhost_run(((byteps_store_t *)state)->devices, op);
}

/* ---- What a store is, and the other processes ----------------------------------------------------------- */

static kvs_status_t give(const byteps_store_t *store, const char *what, int of_worker, int alone,
                         int *ret)
{
    if (store->service != NULL) {
        return kvs_net_service_refuse(store->service, what);
    }
    *ret = store->worker != NULL ? of_worker : alone;
    return KVS_OK;
}

static kvs_status_t byteps_rank(void *state, int *ret_rank)
{
    const byteps_store_t *store = state;

    return give(store, "rank", store->worker == NULL ? 0 : store->worker->rank, 0, ret_rank);
}

static kvs_status_t byteps_num_workers(void *state, int *ret_num_workers)
{
    const byteps_store_t *store = state;

    return give(store, "num_workers", store->worker == NULL ? 1 : store->worker->n_workers, 1,
                ret_num_workers);
}

static kvs_status_t byteps_local_rank(void *state, int *ret_local_rank)
{
    const byteps_store_t *store = state;

    return give(store, "local_rank",
                store->worker == NULL ? 0 : kvs_net_node_local_rank(store->worker->node), 0,
                ret_local_rank);
}

static kvs_status_t byteps_barrier(void *state)
{
    byteps_store_t *store = state;

    if (store->service != NULL) {
        return kvs_net_service_refuse(store->service, "barrier");
    }
    kvs_devhost_drain(store->devices);
    return store->worker != NULL ? byteps_worker_barrier(store->worker) : KVS_OK;
}

static kvs_status_t byteps_num_dead_nodes(void *state, const char *role, int64_t timeout_ms,
                                          int *ret_dead)
{
    byteps_store_t *store = state;
    int mask = strcmp(role, "worker") == 0   ? KVS_NET_WORKER
               : strcmp(role, "server") == 0 ? KVS_NET_SERVER
                                             : KVS_NET_SCHEDULER;

    if (store->worker != NULL) {
        return kvs_net_node_num_dead(store->worker->node, mask, timeout_ms,
                                     ar_net_timeout(store->worker->timeout_ms), ret_dead);
    }
    return give(store, "num_dead_nodes", 0, 0, ret_dead);
}

static kvs_status_t byteps_run_server(void *state)
{
    byteps_store_t *store = state;

    return store->service != NULL
               ? kvs_net_service_run(store->service)
               : kvs_fail(KVS_ERR_STATE,
                          "run_server: this process is a worker; its role is set by KVSTORE_ROLE");
}

static void byteps_cancel(void *state)
{
    const byteps_store_t *store = state;

    kvs_devhost_cancel(store->devices);
    if (store->service != NULL) {
        kvs_net_service_cancel(store->service);
    } else if (store->worker != NULL) {
        byteps_worker_cancel(store->worker);
    }
}

static const kvs_backend_ops_t byteps_ops = {
    .size = sizeof(byteps_ops),
    .mode = KVS_ASYNCHRONOUS,
    .store_size = sizeof(byteps_store_t),
    .key_size = sizeof(byteps_key_t),
    .group_size = sizeof(byteps_use_t),
    .open = byteps_open,
    .close = byteps_close,
    .key_release = byteps_key_free,
    .issue = byteps_issue,
    .pushpull = byteps_run,
    .broadcast = byteps_run,
    .rank = byteps_rank,
    .num_workers = byteps_num_workers,
    .local_rank = byteps_local_rank,
    .barrier = byteps_barrier,
    .num_dead_nodes = byteps_num_dead_nodes,
    .run_server = byteps_run_server,
    .cancel = byteps_cancel,
};

static const int32_t byteps_devices[] = {KVS_DEVICE_CPU, KVS_DEVICE_CUDA, KVS_DEVICE_CUDA_HOST,
                                         KVS_DEVICE_CUDA_MANAGED};

/* The same as in byteps.json: the core compares them. */
static const kvs_option_info_t byteps_options[] = {
    {.name = "allow_cpu",
     .type = "bool",
     .preset = "0",
     .doc = "1: arrays in host memory are taken too",
     .variable = "KVSTORE_BYTEPS_ALLOW_CPU"},
    {.name = "partition_bytes",
     .type = "size",
     .preset = "4194304",
     .doc = "bytes of a part of an array, rounded up to whole blocks of 256 KiB",
     .variable = "BYTEPS_PARTITION_BYTES"},
    {.name = "credit",
     .type = "size",
     .preset = "8",
     .doc = "parts whose results a worker may wait for at once; 0: any number",
     .variable = "BYTEPS_SCHEDULING_CREDIT",
     .flags = KVS_OPTION_LOCAL},
    AR_JOB_OPTIONS,
    AR_SERVER_OPTIONS,
};

static const kvs_backend_t byteps_backend = {
    .size = sizeof(byteps_backend),
    .capabilities = KVS_CAN_MULTI_WORKER,
    .name = "byteps",
    .dtypes = KVS_DTYPES_ALL,
    .n_device_types = sizeof(byteps_devices) / sizeof(byteps_devices[0]),
    .device_types = byteps_devices,
    .ops = &byteps_ops,
    .options = byteps_options,
    .n_options = sizeof(byteps_options) / sizeof(byteps_options[0]),
};

static const kvs_backend_t *const byteps_backends[] = {&byteps_backend};

KVS_PLUGIN(byteps, BYTEPS_VERSION, .backends = byteps_backends, .n_backends = 1,
           .about = kvs_net_about)
