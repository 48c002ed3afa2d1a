/* SPDX-License-Identifier: Apache-2.0 */
/* Questions to a store, and the calls for several processes on a store of one. */
#include "misuse.h"

#include <stdlib.h>

static void an_unknown_capability_is_an_error_naming_it(void)
{
    kvs_store_t *store = misuse_open();
    int capable = 7;

    KT_FAIL(kvs_store_is_capable(store, "teleport", &capable), KVS_ERR_ARGUMENT, "teleport");
    KT_HAS(kvs_last_error(), "optimizer");
    KT_FAIL(kvs_store_is_capable(store, "Optimizer", &capable), KVS_ERR_ARGUMENT, "Optimizer");
    KT_FAIL(kvs_store_is_capable(store, "", &capable), KVS_ERR_ARGUMENT, "capability");
    KT_FAIL(kvs_store_is_capable(store, NULL, &capable), KVS_ERR_ARGUMENT, "NULL");
    KT_INT(capable, 7);
    misuse_close_untouched(store);
}

static void the_four_capabilities_answer_0_or_1(void)
{
    static const char *const names[] = {"optimizer", "sparse", "gradient_compression", "async"};
    kvs_store_t *store = misuse_open();

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        int capable = 7;

        KT_OK(kvs_store_is_capable(store, names[i], &capable));
        KT_TRUE(capable == 0 || capable == 1);
    }
    misuse_close_untouched(store);
}

static void results_must_not_be_null(void)
{
    kvs_store_t *store = misuse_open();
    kvs_device_t cpu = {KVS_DEVICE_CPU, 0};

    KT_FAIL(kvs_store_rank(store, NULL), KVS_ERR_ARGUMENT, "NULL");
    KT_FAIL(kvs_store_num_workers(store, NULL), KVS_ERR_ARGUMENT, "NULL");
    KT_FAIL(kvs_store_local_rank(store, NULL), KVS_ERR_ARGUMENT, "NULL");
    KT_FAIL(kvs_store_is_capable(store, "async", NULL), KVS_ERR_ARGUMENT, "NULL");
    KT_FAIL(kvs_store_supports(store, kvs_dtype(0), cpu, NULL), KVS_ERR_ARGUMENT, "NULL");
    KT_FAIL(kvs_store_stats(store, NULL), KVS_ERR_ARGUMENT, "NULL");
    KT_FAIL(kvs_store_num_dead_nodes(store, "worker", 0, NULL), KVS_ERR_ARGUMENT, "NULL");
    KT_FAIL(kvs_store_is_recovery(store, NULL), KVS_ERR_ARGUMENT, "NULL");
    misuse_close_untouched(store);
}

static void a_store_is_required(void)
{
    kvs_device_t cpu = {KVS_DEVICE_CPU, 0};
    kvs_stats_t stats = {.size = sizeof(stats)};
    int number = 7;

    KT_FAIL(kvs_store_rank(NULL, &number), KVS_ERR_ARGUMENT, "NULL");
    KT_FAIL(kvs_store_num_workers(NULL, &number), KVS_ERR_ARGUMENT, "NULL");
    KT_FAIL(kvs_store_local_rank(NULL, &number), KVS_ERR_ARGUMENT, "NULL");
    KT_FAIL(kvs_store_is_capable(NULL, "async", &number), KVS_ERR_ARGUMENT, "NULL");
    KT_FAIL(kvs_store_supports(NULL, kvs_dtype(0), cpu, &number), KVS_ERR_ARGUMENT, "NULL");
    KT_FAIL(kvs_store_stats(NULL, &stats), KVS_ERR_ARGUMENT, "NULL");
    KT_FAIL(kvs_store_barrier(NULL), KVS_ERR_ARGUMENT, "NULL");
    KT_FAIL(kvs_store_join(NULL), KVS_ERR_ARGUMENT, "NULL");
    KT_FAIL(kvs_store_send_command_to_servers(NULL, 0, NULL, 0), KVS_ERR_ARGUMENT, "NULL");
    KT_FAIL(kvs_store_num_dead_nodes(NULL, "worker", 0, &number), KVS_ERR_ARGUMENT, "NULL");
    KT_FAIL(kvs_store_is_recovery(NULL, &number), KVS_ERR_ARGUMENT, "NULL");
    KT_FAIL(kvs_store_run_server(NULL), KVS_ERR_ARGUMENT, "NULL");
    kvs_store_cancel(NULL);
    KT_INT(number, 7);
}

static void stats_need_their_size(void)
{
    kvs_store_t *store = misuse_open();
    kvs_stats_t stats = {.size = 0, .n_inits = 99};

    KT_FAIL(kvs_store_stats(store, &stats), KVS_ERR_ARGUMENT, "size");
    KT_INT(stats.n_inits, 99);
    misuse_close_untouched(store);
}

/* An older program's struct ends earlier: what lies behind it is not touched. */
static void stats_write_no_more_than_their_size(void)
{
    kvs_store_t *store = misuse_open();
    kvs_stats_t stats = {.n_pulls = 99, .bytes_pulled = 99};

    stats.size = (uint32_t)offsetof(kvs_stats_t, n_pulls);
    KT_OK(kvs_store_stats(store, &stats));
    KT_INT(stats.n_inits, 1);
    KT_INT(stats.n_pulls, 99);
    KT_INT(stats.bytes_pulled, 99);
    misuse_close_untouched(store);
}

static void failed_operations_are_not_counted(void)
{
    kvs_store_t *store = misuse_open();
    kvs_stats_t stats = {.size = sizeof(stats)};
    float data[8] = {0};

    KT_TRUE(misuse_push(store, kvs_key_int(MISUSE_KEY), KT_F32(data, 8)) == KVS_ERR_SHAPE);
    KT_TRUE(misuse_pull(store, kvs_key_int(MISUSE_KEY), KT_F32(data, 8)) == KVS_ERR_SHAPE);
    KT_TRUE(misuse_pull(store, kvs_key_int(55), KT_F32(data, 8)) == KVS_ERR_NOT_FOUND);
    KT_OK(kvs_store_stats(store, &stats));
    KT_INT(stats.n_pushes, 0);
    KT_INT(stats.n_pulls, 0);
    KT_INT(stats.bytes_pushed, 0);
    KT_INT(stats.bytes_pulled, 0);
    misuse_close_untouched(store);
}

static void unknown_dtypes_and_devices_are_not_supported(void)
{
    kvs_store_t *store = misuse_open();
    kvs_device_t cpu = {KVS_DEVICE_CPU, 0}, nowhere = {99, 0};
    kvs_dtype_t odd = {KVS_CODE_FLOAT, 32, 2};
    int supported = 7;

    KT_OK(kvs_store_supports(store, odd, cpu, &supported));
    KT_INT(supported, 0);
    KT_OK(kvs_store_supports(store, kvs_dtype(KVS_N_DTYPES), cpu, &supported));
    KT_INT(supported, 0);
    supported = 7;
    KT_OK(kvs_store_supports(store, kvs_dtype(KVS_DTYPE_float32), nowhere, &supported));
    KT_INT(supported, 0);
    for (int dtype = 0; dtype < KVS_N_DTYPES; dtype++) {
        KT_OK(kvs_store_supports(store, kvs_dtype(dtype), cpu, &supported));
        KT_INT(supported, 1);
    }
    misuse_close_untouched(store);
}

static void numbers_and_names_of_dtypes_have_answers_for_all(void)
{
    kvs_dtype_t odd = {KVS_CODE_INT, 3, 1};

    KT_INT(kvs_dtype_index(kvs_dtype(-1)), -1);
    KT_INT(kvs_dtype_index(kvs_dtype(KVS_N_DTYPES)), -1);
    KT_INT(kvs_dtype_index(kvs_dtype(INT32_MAX)), -1);
    KT_INT(kvs_dtype_index(odd), -1);
    KT_STR(kvs_dtype_name(odd), "unknown dtype");
    KT_STR(kvs_dtype_name(kvs_dtype(-5)), "unknown dtype");
}

static void calls_for_several_processes_do_nothing_on_a_store_of_one(void)
{
    kvs_store_t *store = misuse_open();
    int number = 7;

    KT_OK(kvs_store_barrier(store));
    KT_OK(kvs_store_join(store));
    KT_OK(kvs_store_send_command_to_servers(store, 0, "hello", 5));
    KT_OK(kvs_store_send_command_to_servers(store, -9, NULL, 0));
    KT_OK(kvs_store_num_dead_nodes(store, "server", 60000, &number));
    KT_INT(number, 0);
    number = 7;
    KT_OK(kvs_store_is_recovery(store, &number));
    KT_INT(number, 0);
    KT_OK(kvs_store_rank(store, &number));
    KT_INT(number, 0);
    number = 7;
    KT_OK(kvs_store_local_rank(store, &number));
    KT_INT(number, 0);
    misuse_close_untouched(store);
}

static void wrong_arguments_of_those_calls_are_errors(void)
{
    kvs_store_t *store = misuse_open();
    int dead = 7;

    KT_FAIL(kvs_store_send_command_to_servers(store, 0, NULL, 5), KVS_ERR_ARGUMENT, "NULL");
    KT_FAIL(kvs_store_num_dead_nodes(store, "manager", 0, &dead), KVS_ERR_ARGUMENT, "manager");
    KT_FAIL(kvs_store_num_dead_nodes(store, NULL, 0, &dead), KVS_ERR_ARGUMENT, "NULL");
    KT_INT(dead, 7);
    misuse_close_untouched(store);
}

static void a_store_of_one_process_serves_nobody(void)
{
    kvs_store_t *store = misuse_open();

    KT_FAIL(kvs_store_run_server(store), KVS_ERR_NOT_IMPLEMENTED,
            "not implemented: run_server by local");
    misuse_close_untouched(store);
}

static void statuses_that_do_not_exist_have_names_and_texts(void)
{
    KT_STR(kvs_status_name(12345), "unknown status");
    KT_STR(kvs_status_text(INT32_MIN), "unknown status");
}

static const kt_test_t tests[] = {
    KT_TEST(an_unknown_capability_is_an_error_naming_it),
    KT_TEST(the_four_capabilities_answer_0_or_1),
    KT_TEST(results_must_not_be_null),
    KT_TEST(a_store_is_required),
    KT_TEST(stats_need_their_size),
    KT_TEST(stats_write_no_more_than_their_size),
    KT_TEST(failed_operations_are_not_counted),
    KT_TEST(unknown_dtypes_and_devices_are_not_supported),
    KT_TEST(numbers_and_names_of_dtypes_have_answers_for_all),
    KT_TEST(calls_for_several_processes_do_nothing_on_a_store_of_one),
    KT_TEST(wrong_arguments_of_those_calls_are_errors),
    KT_TEST(a_store_of_one_process_serves_nobody),
    KT_TEST(statuses_that_do_not_exist_have_names_and_texts),
};
KT_MAIN("misuse.info", tests)
