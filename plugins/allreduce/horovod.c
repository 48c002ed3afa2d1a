/* SPDX-License-Identifier: Apache-2.0 */
/* horovod.c - the backend horovod: what the core calls, given on to a store of a job, done in this
 * process where it is a job of one, or refused in a process that is the scheduler. */
#include "ar_settings.h"
#include "hvd_engine.h"
#include "hvd_openmpi.h"
#include "hvd_store.h"

#include <kvstore/allreduce.h>
#include <kvstore/process.h>

#include <string.h>

typedef struct horovod_store {
    hvd_store_t store;            /* of a job of several; else its job is NULL */
    kvs_devhost_t *devices;       /* of a worker */
    kvs_net_service_t *scheduler; /* NULL: this process is a worker */
} horovod_store_t;

static const kvs_net_plugin_t plugin = {.size = sizeof(plugin), .name = "horovod", .no_servers = 1};

/* ---- Opening and closing --------------------------------------------------------------------------- */

static kvs_status_t open_worker(horovod_store_t *store, const kvs_net_settings_t *settings,
                                const kvs_open_args_t *args)
{
    const char *timeline = kvs_plugin_host->option(args->config, "timeline");
    hvd_engine_options_t engine = {.engine = kvs_plugin_host->option(args->config, "engine"),
                                   .mpi_library =
                                       kvs_plugin_host->option(args->config, "mpi_library"),
                                   .has_timeline = timeline[0] != '\0'};
    hvd_job_options_t options = {.engine = &hvd_engine,
                                 .engine_options = &engine,
                                 .fusion_bytes =
                                     (uint64_t)ar_option_int(args->config, "fusion_threshold"),
                                 .timeline = timeline};
    hvd_job_t *job;
    kvs_status_t status = hvd_job_get(settings, &options, &job);

    store->store.member.timeout_ms = kvs_option_ms(args->config, "timeout");
    store->store.member.warning_ms = kvs_option_ms(args->config, "stall_warning");
    if (status == KVS_OK) {
        status = hvd_store_open(&store->store, job, args);
    }
    return status;
}

static kvs_status_t run(void *state, kvs_op_t *op)
{
    horovod_store_t *store = state;

    return store->store.member.job != NULL ? hvd_store_run(&store->store, op) : hvd_alone_run(op);
}

static kvs_status_t horovod_open(void *state, const kvs_open_args_t *args)
{
    horovod_store_t *store = state;
    kvs_net_settings_t settings;
    kvs_status_t status = ar_settings_read(args->config, &settings);

    if (status != KVS_OK) {
        return status;
    }
    if (settings.role == KVS_NET_SERVER) {
        return kvs_fail(KVS_ERR_ARGUMENT, "horovod has no servers; start workers only "
                                          "(KVSTORE_NUM_SERVERS=0)");
    }
    if (settings.role == KVS_NET_SCHEDULER) {
        return kvs_net_service_open(&plugin, &settings,
                                    kvs_plugin_host->option(args->config, "announce"),
                                    &store->scheduler);
    }
    status = kvs_devhost_new(&(kvs_devhost_args_t){.store = store, .run = run}, &store->devices);
    if (status == KVS_OK) {
        status = settings.n_workers > 1
                     ? open_worker(store, &settings, args)
                     : hvd_engine_check_name(kvs_plugin_host->option(args->config, "engine"));
    }
    if (status != KVS_OK) {
        kvs_devhost_free(store->devices);
    }
    return status;
}

static kvs_status_t horovod_close(void *state, int64_t timeout_ms)
{
    horovod_store_t *store = state;

    kvs_devhost_free(store->devices);
    if (store->scheduler != NULL) {
        return kvs_net_service_close(store->scheduler, ar_net_timeout(timeout_ms));
    }
    return store->store.member.job != NULL ? hvd_store_close(&store->store, timeout_ms) : KVS_OK;
}

/* ---- Operations ------------------------------------------------------------------------------------ */

static kvs_status_t check_worker(const horovod_store_t *store, const char *what)
{
    return store->scheduler == NULL ? KVS_OK : kvs_net_service_refuse(store->scheduler, what);
}

static kvs_status_t horovod_run(void *state, kvs_op_t *op)
{
    horovod_store_t *store = state;
    kvs_status_t status = check_worker(store, "an operation");

    if (status == KVS_OK && store->store.member.job != NULL && hvd_store_takes(&store->store, op)) {
        kvs_devhost_drain(store->devices); /* what is on its way through the host comes first */
        return hvd_store_run(&store->store, op);
    }
    return status == KVS_OK ? kvs_devhost_run(store->devices, op) : status;
}

/* What these stand for is the worker's own business here: users' scripts call them all the same. */
static kvs_status_t horovod_set_optimizer(void *state, const kvs_optimizer_spec_t *spec)
{
    (void)spec;
    return check_worker(state, "set_optimizer");
}

static kvs_status_t horovod_save_optimizer_states(void *state, const char *path, int dump_optimizer)
{
    (void)path;
    (void)dump_optimizer;
    return check_worker(state, "save_optimizer_states");
}

static kvs_status_t horovod_load_optimizer_states(void *state, const char *path)
{
    (void)path;
    return check_worker(state, "load_optimizer_states");
}

/* ---- What a store is, and the other processes ------------------------------------------------------- */

static kvs_status_t give(const horovod_store_t *store, const char *what, int in_job, int alone,
                         int *ret)
{
    kvs_status_t status = check_worker(store, what);

    if (status == KVS_OK) {
        *ret = store->store.member.job != NULL ? in_job : alone;
    }
    return status;
}

static kvs_status_t horovod_rank(void *state, int *ret_rank)
{
    const horovod_store_t *store = state;

    return give(store, "rank", store->store.member.rank, 0, ret_rank);
}

static kvs_status_t horovod_num_workers(void *state, int *ret_num_workers)
{
    const horovod_store_t *store = state;

    return give(store, "num_workers", store->store.member.n_workers, 1, ret_num_workers);
}

static kvs_status_t horovod_local_rank(void *state, int *ret_local_rank)
{
    const horovod_store_t *store = state;
    int local = store->store.member.job == NULL
                    ? 0
                    : kvs_net_node_local_rank(hvd_job_node(store->store.member.job));

    return give(store, "local_rank", local, 0, ret_local_rank);
}

static kvs_status_t horovod_barrier(void *state)
{
    horovod_store_t *store = state;
    kvs_status_t status = check_worker(store, "barrier");

    kvs_devhost_drain(store->devices);
    return status != KVS_OK || store->store.member.job == NULL
               ? status
               : hvd_member_barrier(&store->store.member);
}

static kvs_status_t horovod_join_last(void *state, int *ret_last_rank)
{
    horovod_store_t *store = state;
    kvs_status_t status = check_worker(store, "join");

    kvs_devhost_drain(store->devices);
    if (status != KVS_OK || store->store.member.job == NULL) {
        *ret_last_rank = 0;
        return status;
    }
    return hvd_store_join(&store->store, ret_last_rank);
}

static kvs_status_t horovod_join(void *state)
{
    int last_rank;

    return horovod_join_last(state, &last_rank);
}

typedef struct gather {
    horovod_store_t *store;
    const kvs_key_t *key;
} gather_t;

static kvs_status_t gather(void *arg, const kvs_tensor_t *value, const kvs_tensor_t *out)
{
    const gather_t *call = arg;

    return call->store->store.member.job != NULL
               ? hvd_store_allgather(&call->store->store, call->key, value, out)
               : hvd_alone_allgather(value, out);
}

static kvs_status_t horovod_allgather(void *state, const kvs_key_t *key, const kvs_tensor_t *value,
                                      const kvs_tensor_t *out)
{
    horovod_store_t *store = state;
    kvs_tensor_t from, to;
    kvs_status_t status = check_worker(store, "allgather");

    if (status == KVS_OK) {
        status = hvd_check_gather(key, value, out);
    }
    if (status != KVS_OK) {
        return status;
    }
    from = *value;
    from.data = value->data == NULL ? NULL : (char *)value->data + value->byte_offset;
    to = *out;
    to.data = out->data == NULL ? NULL : (char *)out->data + out->byte_offset;
    return kvs_devhost_call(store->devices, "allgather", &from, &to, gather,
                            &(gather_t){store, key});
}

static const void *horovod_extension(const char *name)
{
    static const kvs_allreduce_ops_t extension = {.size = sizeof(extension),
                                                  .allgather = horovod_allgather};

    return strcmp(name, KVS_ALLREDUCE_EXTENSION) == 0 ? &extension : NULL;
}

static kvs_status_t horovod_num_dead_nodes(void *state, const char *role, int64_t timeout_ms,
                                           int *ret_dead)
{
    horovod_store_t *store = state;
    int mask = strcmp(role, "worker") == 0 ? KVS_NET_WORKER : KVS_NET_SCHEDULER;
    kvs_status_t status = check_worker(store, "num_dead_nodes");

    if (status != KVS_OK || store->store.member.job == NULL || strcmp(role, "server") == 0) {
        *ret_dead = 0;
        return status;
    }
    return kvs_net_node_num_dead(hvd_job_node(store->store.member.job), mask, timeout_ms,
                                 ar_net_timeout(store->store.member.timeout_ms), ret_dead);
}

static kvs_status_t horovod_run_server(void *state)
{
    const horovod_store_t *store = state;

    return store->scheduler != NULL
               ? kvs_net_service_run(store->scheduler)
               : kvs_fail(KVS_ERR_STATE,
                          "run_server: this process is a worker; its role is set by KVSTORE_ROLE");
}

static void horovod_cancel(void *state)
{
    horovod_store_t *store = state;

    kvs_devhost_cancel(store->devices);
    if (store->scheduler != NULL) {
        kvs_net_service_cancel(store->scheduler);
    } else if (store->store.member.job != NULL) {
        hvd_member_cancel(&store->store.member);
    }
}

static const kvs_backend_ops_t horovod_ops = {
    .size = sizeof(horovod_ops),
    .mode = KVS_ASYNCHRONOUS,
    .store_size = sizeof(horovod_store_t),
    .key_size = sizeof(hvd_entry_t),
    .group_size = sizeof(hvd_item_t),
    .open = horovod_open,
    .close = horovod_close,
    .pushpull = horovod_run,
    .broadcast = horovod_run,
    .set_optimizer = horovod_set_optimizer,
    .save_optimizer_states = horovod_save_optimizer_states,
    .load_optimizer_states = horovod_load_optimizer_states,
    .rank = horovod_rank,
    .num_workers = horovod_num_workers,
    .local_rank = horovod_local_rank,
    .barrier = horovod_barrier,
    .join = horovod_join,
    .join_last = horovod_join_last,
    .num_dead_nodes = horovod_num_dead_nodes,
    .run_server = horovod_run_server,
    .extension = horovod_extension,
    .cancel = horovod_cancel,
};

static const int32_t horovod_devices[] = {KVS_DEVICE_CPU, KVS_DEVICE_CUDA, KVS_DEVICE_CUDA_HOST,
                                          KVS_DEVICE_CUDA_MANAGED};

/* The same as in horovod.json: the core compares them. */
static const kvs_option_info_t horovod_options[] = {
    {.name = "engine",
     .type = "text",
     .preset = "auto",
     .doc = "what carries arrays: shm (one host), mpi, nccl (on devices), or auto"},
    {.name = "mpi_library",
     .type = "text",
     .preset = "libmpi.so.40",
     .doc = "Open MPI's library, for the engine mpi",
     .flags = KVS_OPTION_LOCAL},
    {.name = "fusion_threshold",
     .type = "size",
     .preset = "67108864",
     .doc = "bytes of small arrays that go together in one exchange; 0: each by itself",
     .variable = "HOROVOD_FUSION_THRESHOLD"},
    {.name = "stall_warning",
     .type = "time",
     .preset = "30",
     .doc = "seconds after which a worker that has not submitted a key is warned of; 0: never",
     .variable = "HOROVOD_STALL_CHECK_TIME_SECONDS"},
    {.name = "timeline",
     .type = "text",
     .preset = "",
     .doc = "file for a trace of exchanges; worker N but 0 writes to FILE.N",
     .variable = "HOROVOD_TIMELINE",
     .flags = KVS_OPTION_LOCAL},
    AR_JOB_OPTIONS,
};

static const kvs_backend_t horovod_backend = {
    .size = sizeof(horovod_backend),
    .capabilities = KVS_CAN_MULTI_WORKER | KVS_CAN_REDUCE | KVS_CAN_ROWS,
    .name = "horovod",
    .dtypes = KVS_DTYPES_ALL,
    .n_device_types = sizeof(horovod_devices) / sizeof(horovod_devices[0]),
    .device_types = horovod_devices,
    .ops = &horovod_ops,
    .options = horovod_options,
    .n_options = sizeof(horovod_options) / sizeof(horovod_options[0]),
};

static const kvs_backend_t *const horovod_backends[] = {&horovod_backend};

static void horovod_about(const kvs_config_t *config,
                          void (*line)(void *arg, const char *label, const char *text), void *arg)
{
    char text[HVD_OPENMPI_TEXT_BYTES], library[HVD_OPENMPI_TEXT_BYTES];

    kvs_net_about(config, line, arg);
    line(arg, "NCCL", hvd_nccl_text(library, sizeof(library)));
    line(arg, "MPI", hvd_openmpi_text(kvs_plugin_host->option(config, "mpi_library"), text));
    line(arg, "engine", kvs_plugin_host->option(config, "engine"));
}

KVS_PLUGIN(horovod, HOROVOD_VERSION, .backends = horovod_backends, .n_backends = 1,
           .about = horovod_about)
