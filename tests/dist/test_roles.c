/* SPDX-License-Identifier: Apache-2.0 */
/* test_roles.c - stores of processes that are no workers, and of a job of one in process. */
#include <kt.h>

#include <stdlib.h>

#define SERVER_OPTIONS                                                                             \
    {"role", "server"}, {"num_workers", "1"}, {"num_servers", "1"}, {"scheduler", "127.0.0.1:1"},  \
        {"rendezvous", "0.2"},                                                                     \
    {                                                                                              \
        "job_id", "roles"                                                                          \
    }

static void every_operation_says_this_process_is_a_server(void)
{
    static const kvs_option_t options[] = {SERVER_OPTIONS};
    kvs_key_t key = kvs_key_int(1);
    float data = 1;
    kvs_tensor_t tensor = KT_F32(&data, 1);
    kvs_arrays_t arrays = kvs_arrays(&tensor, 1);
    kvs_optimizer_spec_t spec = KVS_OPTIMIZER_INIT;
    kvs_store_t *store = NULL;
    int number;

    KT_OK(kvs_store_create("dist_sync", options, sizeof(options) / sizeof(options[0]), &store));
    KT_STR(kvs_store_type(store), "dist_sync");
    KT_FAIL(kvs_store_init(store, &key, 1, &arrays, NULL), KVS_ERR_STATE,
            "this process is a server");
    KT_FAIL(kvs_store_broadcast(store, &key, 1, &arrays, &arrays, NULL), KVS_ERR_STATE,
            "this process is a server");
    spec.name = "sgd";
    KT_FAIL(kvs_store_set_optimizer(store, &spec), KVS_ERR_STATE, "this process is a server");
    KT_FAIL(kvs_store_barrier(store), KVS_ERR_STATE, "this process is a server");
    KT_FAIL(kvs_store_join(store), KVS_ERR_STATE, "this process is a server");
    KT_FAIL(kvs_store_rank(store, &number), KVS_ERR_STATE, "this process is a server");
    KT_FAIL(kvs_store_num_workers(store, &number), KVS_ERR_STATE, "this process is a server");
    KT_FAIL(kvs_store_num_dead_nodes(store, "worker", 0, &number), KVS_ERR_STATE,
            "this process is a server");
    KT_FAIL(kvs_store_send_command_to_servers(store, 1, NULL, 0), KVS_ERR_STATE,
            "this process is a server");
    (void)kvs_store_close(store);
}

static void a_server_that_nobody_joins_says_who_is_missing(void)
{
    static const kvs_option_t options[] = {SERVER_OPTIONS};
    kvs_store_t *store = NULL;

    KT_OK(kvs_store_create("dist_sync", options, sizeof(options) / sizeof(options[0]), &store));
    KT_FAIL(kvs_store_run_server(store), KVS_ERR_TIMEOUT, "127.0.0.1:1");
    (void)kvs_store_close(store);
}

static void a_scheduler_says_who_is_missing(void)
{
    static const kvs_option_t options[] = {{"role", "scheduler"}, {"num_workers", "2"},
                                           {"num_servers", "1"},  {"scheduler", "127.0.0.1:0"},
                                           {"rendezvous", "0.2"}, {"job_id", "roles"}};
    kvs_store_t *store = NULL;

    KT_OK(kvs_store_create("dist_sync", options, sizeof(options) / sizeof(options[0]), &store));
    KT_FAIL(kvs_store_run_server(store), KVS_ERR_TIMEOUT, "only 0 of 2 workers, 0 of 1 server");
    (void)kvs_store_close(store);
}

static void a_worker_does_not_serve(void)
{
    kvs_store_t *store = NULL;

    KT_OK(kvs_store_create("dist_sync", NULL, 0, &store));
    KT_FAIL(kvs_store_run_server(store), KVS_ERR_STATE, "this process is a worker");
    KT_OK(kvs_store_close(store));
}

static void a_role_that_is_none_is_named(void)
{
    static const kvs_option_t options[] = {{"role", "master"},
                                           {"num_workers", "1"},
                                           {"num_servers", "1"},
                                           {"scheduler", "127.0.0.1:0"}};
    kvs_store_t *store = NULL;

    KT_FAIL(kvs_store_create("dist_sync", options, sizeof(options) / sizeof(options[0]), &store),
            KVS_ERR_ARGUMENT, "master");
}

static void an_address_that_can_not_be_written_is_named(void)
{
    static const kvs_option_t options[] = {{"role", "scheduler"},
                                           {"num_workers", "1"},
                                           {"num_servers", "1"},
                                           {"scheduler", "127.0.0.1:0"},
                                           {"announce", "/nowhere/at/all"},
                                           {"job_id", "roles"}};
    kvs_store_t *store = NULL;

    KT_FAIL(kvs_store_create("dist_sync", options, sizeof(options) / sizeof(options[0]), &store),
            KVS_ERR_IO, "announce: /nowhere/at/all");
}

static void alone_everything_is_in_this_process(void)
{
    kvs_key_t key = kvs_key_str("w");
    float first[] = {1, 2}, value[] = {3, 4}, out[] = {0, 0};
    kvs_tensor_t tensors[] = {KT_F32(first, 2), KT_F32(value, 2), KT_F32(out, 2)};
    kvs_arrays_t firsts = kvs_arrays(&tensors[0], 1), values = kvs_arrays(&tensors[1], 1),
                 outs = kvs_arrays(&tensors[2], 1);
    kvs_call_t call = KVS_CALL_INIT;
    kvs_event_t *event = NULL;
    kvs_store_t *store = NULL;
    int number = -1;

    KT_OK(kvs_store_create("dist", NULL, 0, &store));
    KT_OK(kvs_store_rank(store, &number));
    KT_INT(number, 0);
    KT_OK(kvs_store_num_workers(store, &number));
    KT_INT(number, 1);
    KT_OK(kvs_store_init(store, &key, 1, &firsts, NULL));
    call.ret_event = &event;
    KT_OK(kvs_store_pushpull(store, &key, 1, &values, &outs, &call));
    KT_OK(kvs_event_wait(event, 0));
    kvs_event_free(event);
    KT_REAL(out[0], 3);
    KT_REAL(out[1], 4);
    KT_OK(kvs_store_barrier(store));
    KT_OK(kvs_store_join(store));
    KT_OK(kvs_store_send_command_to_servers(store, 99, NULL, 0));
    KT_OK(kvs_store_num_dead_nodes(store, "server", 0, &number));
    KT_INT(number, 0);
    KT_OK(kvs_store_close(store));
}

static void asynchronous_names_are_not_taken_for_synchronous_ones(void)
{
    kvs_store_t *store = NULL;

    static const char *const names[] = {"dist_sync_device", "dist_device_async"};

    KT_TRUE(kvs_store_create("dist_asnyc", NULL, 0, &store) != KVS_OK);
    KT_TRUE(kvs_store_create("dist_sync_async", NULL, 0, &store) != KVS_OK);
    for (int i = 0; i < 2; i++) {
        int is_async = -1;

        KT_OK(kvs_store_create(names[i], NULL, 0, &store));
        KT_STR(kvs_store_type(store), names[i]);
        KT_OK(kvs_store_is_capable(store, "async", &is_async));
        KT_INT(is_async, i);
        KT_OK(kvs_store_close(store));
    }
}

static const kt_test_t tests[] = {
    KT_TEST(every_operation_says_this_process_is_a_server),
    KT_TEST(a_server_that_nobody_joins_says_who_is_missing),
    KT_TEST(a_scheduler_says_who_is_missing),
    KT_TEST(a_worker_does_not_serve),
    KT_TEST(a_role_that_is_none_is_named),
    KT_TEST(an_address_that_can_not_be_written_is_named),
    KT_TEST(alone_everything_is_in_this_process),
    KT_TEST(asynchronous_names_are_not_taken_for_synchronous_ones),
};

KT_MAIN("roles", tests)
