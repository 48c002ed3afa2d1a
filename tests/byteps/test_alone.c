/* SPDX-License-Identifier: Apache-2.0 */
/* A program that is started by itself: a job of one, without servers; what its environment may say; and
 * processes that are no workers. */
#include <kt.h>

#include <stdlib.h>

static const char *const variables[] = {"KVSTORE_BYTEPS_ALLOW_CPU",
                                        "KVSTORE_NUM_WORKERS",
                                        "KVSTORE_RANK",
                                        "DMLC_ROLE",
                                        "DMLC_NUM_WORKER",
                                        "DMLC_NUM_SERVER",
                                        "DMLC_WORKER_ID",
                                        "DMLC_PS_ROOT_URI",
                                        "DMLC_PS_ROOT_PORT",
                                        "BYTEPS_LOCAL_SIZE",
                                        "BYTEPS_LOCAL_RANK",
                                        "BYTEPS_GLOBAL_RANK",
                                        "BYTEPS_PARTITION_BYTES",
                                        "BYTEPS_SCHEDULING_CREDIT"};

static void clear(void)
{
    for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
        unsetenv(variables[i]);
    }
}

static kvs_store_t *open_allowed(void)
{
    kvs_option_t option = {"allow_cpu", "1"};
    kvs_store_t *store = NULL;

    clear();
    KT_OK(kvs_store_create("byteps", &option, 1, &store));
    return store;
}

static void a_job_of_one_needs_no_server(void)
{
    kvs_store_t *store = open_allowed();
    float value[3] = {1, 2, 3}, out[3] = {0};
    kvs_tensor_t tensor = KT_F32(value, 3), out_tensor = KT_F32(out, 3);
    kvs_arrays_t values = kvs_arrays(&tensor, 1), outs = kvs_arrays(&out_tensor, 1);
    kvs_key_t key = kvs_key_str("w");
    int number = -1;

    KT_OK(kvs_store_pushpull(store, &key, 1, &values, &outs, NULL));
    KT_REAL(out[2], 3);
    KT_OK(kvs_store_broadcast(store, &key, 1, &values, &outs, NULL));
    KT_OK(kvs_store_pushpull(store, &key, 1, &values, NULL, NULL));
    KT_REAL(value[1], 2);
    KT_OK(kvs_store_barrier(store));
    KT_OK(kvs_store_num_workers(store, &number));
    KT_INT(number, 1);
    KT_OK(kvs_store_rank(store, &number));
    KT_INT(number, 0);
    KT_OK(kvs_store_local_rank(store, &number));
    KT_INT(number, 0);
    KT_OK(kvs_store_close(store));
}

static void what_it_is_not_made_for_is_not_implemented(void)
{
    kvs_store_t *store = open_allowed();
    kvs_optimizer_spec_t spec = KVS_OPTIMIZER_INIT;
    float value[1] = {1};
    kvs_tensor_t tensor = KT_F32(value, 1);
    kvs_arrays_t values = kvs_arrays(&tensor, 1);
    kvs_key_t key = kvs_key_int(1);
    int capable = 1;

    spec.name = "sgd";
    KT_FAIL(kvs_store_set_optimizer(store, &spec), KVS_ERR_NOT_IMPLEMENTED, "byteps");
    KT_FAIL(kvs_store_save_optimizer_states(store, "s", 0), KVS_ERR_NOT_IMPLEMENTED, "byteps");
    KT_FAIL(kvs_store_load_optimizer_states(store, "s"), KVS_ERR_NOT_IMPLEMENTED, "byteps");
    KT_FAIL(kvs_store_init(store, &key, 1, &values, NULL), KVS_ERR_NOT_IMPLEMENTED, "byteps");
    KT_FAIL(kvs_store_push(store, &key, 1, &values, NULL), KVS_ERR_NOT_IMPLEMENTED, "byteps");
    KT_OK(kvs_store_is_capable(store, "optimizer", &capable));
    KT_INT(capable, 0);
    KT_FAIL(kvs_store_run_server(store), KVS_ERR_STATE, "this process is a worker");
    KT_OK(kvs_store_close(store));
}

static void gpu_arrays_need_a_provider(void)
{
    kvs_store_t *store = open_allowed();
    float value[1] = {1};
    kvs_tensor_t tensor = KT_F32(value, 1);
    kvs_arrays_t values = kvs_arrays(&tensor, 1);
    kvs_key_t key = kvs_key_int(1);

    setenv("KVSTORE_CUDA_DRIVER", "/nonexistent/libcuda.so.1", 1);
    tensor.device.type = KVS_DEVICE_CUDA;
    KT_FAIL(kvs_store_pushpull(store, &key, 1, &values, NULL, NULL), KVS_ERR_UNAVAILABLE,
            "byteps backend not available for GPU arrays: ");
    unsetenv("KVSTORE_CUDA_DRIVER");
    KT_OK(kvs_store_close(store));
}

static void want_refused(const char *part)
{
    kvs_store_t *store = NULL;

    KT_FAIL(kvs_store_create("byteps", NULL, 0, &store), KVS_ERR_ARGUMENT, part);
    KT_TRUE(store == NULL);
    clear();
}

static void malformed_variables_are_named(void)
{
    clear();
    setenv("BYTEPS_LOCAL_SIZE", "four", 1);
    want_refused("BYTEPS_LOCAL_SIZE is 'four'");
    setenv("BYTEPS_LOCAL_SIZE", "2", 1);
    setenv("BYTEPS_LOCAL_RANK", "2", 1);
    want_refused("BYTEPS_LOCAL_RANK is '2', not a number below 2");
    setenv("BYTEPS_PARTITION_BYTES", "lots", 1);
    want_refused("BYTEPS_PARTITION_BYTES");
    setenv("DMLC_ROLE", "worker", 1);
    setenv("DMLC_NUM_WORKER", "none", 1);
    want_refused("DMLC_NUM_WORKER is 'none'");
}

static const kt_test_t tests[] = {
    KT_TEST(a_job_of_one_needs_no_server),
    KT_TEST(what_it_is_not_made_for_is_not_implemented),
    KT_TEST(gpu_arrays_need_a_provider),
    KT_TEST(malformed_variables_are_named),
};

KT_MAIN("alone", tests)
