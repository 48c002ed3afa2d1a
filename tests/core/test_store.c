/* SPDX-License-Identifier: Apache-2.0 */
/* Stores: creating and closing them, what they say of themselves, and what the core fills in where
 * a backend has nothing. */
#include "calls.h"

#include <stdlib.h>

/* ---- Creating and closing -------------------------------------------------------------------- */

static void the_name_is_lower_cased(void)
{
    kvs_store_t *store;

    fake_begin();
    store = fake_open("FaKe");
    KT_STR(kvs_store_type(store), "fake");
    KT_INT(fake_count("open"), 1);
    KT_OK(kvs_store_close(store));
    KT_INT(fake_count("close"), 1);
    KT_STR(kvs_store_type(NULL), "");
}

static void closing_nothing_is_fine(void)
{
    KT_OK(kvs_store_close(NULL));
}

static void check_not_created(const char *name, const kvs_option_t *options, size_t n_options,
                              kvs_status_t want, const char *part)
{
    kvs_store_t *const untouched = (kvs_store_t *)&want;
    kvs_store_t *store = untouched;

    KT_FAIL(kvs_store_create(name, options, n_options, &store), want, part);
    KT_TRUE(store == untouched);
}

static void wrong_arguments_of_create_are_refused(void)
{
    const kvs_option_t depth = {"depth", "deep"}, unknown = {"dept", "1"};

    fake_begin();
    KT_FAIL(kvs_store_create(FAKE, NULL, 0, NULL), KVS_ERR_ARGUMENT, "ret_store is NULL");
    check_not_created(FAKE, NULL, 1, KVS_ERR_ARGUMENT, "the list of options is NULL");
    check_not_created("", NULL, 0, KVS_ERR_ARGUMENT,
                      "the name is empty; for the default pass NULL");
    check_not_created(FAKE, &depth, 1, KVS_ERR_ARGUMENT,
                      "create 'fake': option: depth is \"deep\"; accepted is a whole number");
    check_not_created(FAKE, &unknown, 1, KVS_ERR_ARGUMENT,
                      "create 'fake': unknown option \"dept\"; did you mean \"depth\"?");
    check_not_created("fak", NULL, 0, KVS_ERR_NOT_FOUND, "\"fak\"");
    KT_INT(fake_count("open"), 0);
}

static void a_backend_that_cannot_work_here_says_why(void)
{
    fake_begin();
    fake_fail("probe", KVS_ERR_IO, "no driver (libfake.so.1 not found)");
    check_not_created(FAKE, NULL, 0, KVS_ERR_UNAVAILABLE,
                      "backend 'fake' is unavailable: no driver (libfake.so.1 not found)");
    KT_INT(fake_count("open"), 0);
}

static void a_backend_that_does_not_open_is_not_closed(void)
{
    fake_begin();
    fake_fail("open", KVS_ERR_TIMEOUT, "the scheduler did not answer");
    check_not_created(FAKE, NULL, 0, KVS_ERR_TIMEOUT,
                      "create 'fake': the scheduler did not answer");
    KT_INT(fake_count("close"), 0);
}

static void a_store_without_a_name_is_the_default(void)
{
    kvs_store_t *store = NULL;

    fake_begin();
    setenv("KVSTORE_DEFAULT", FAKE_PLAIN, 1);
    KT_OK(kvs_store_create(NULL, NULL, 0, &store));
    KT_STR(kvs_store_type(store), FAKE_PLAIN);
    KT_OK(kvs_store_close(store));
    unsetenv("KVSTORE_DEFAULT");
}

static void no_store_is_created_without_a_required_backend(void)
{
    kvs_store_t *store;

    fake_begin();
    setenv("KVSTORE_REQUIRED", "fake, no_such_backend", 1);
    check_not_created(FAKE, NULL, 0, KVS_ERR_NOT_FOUND, "a required backend can't be had");
    KT_HAS(kvs_last_error(), "no_such_backend");
    setenv("KVSTORE_REQUIRED", "fake,,fake_plain,", 1);
    store = fake_open(FAKE);
    KT_OK(kvs_store_close(store));
    unsetenv("KVSTORE_REQUIRED");
}

static void close_releases_each_key_once_and_then_the_backend(void)
{
    kvs_store_t *store;
    float value = 1;

    fake_begin();
    store = fake_open(FAKE);
    for (int64_t key = 1; key <= 100; key++) {
        init_one(store, key, 0);
    }
    fake_fail("init 200", KVS_ERR_IO, "no");
    KT_FAIL(call(store, KVS_VERB_INIT, 200, &value, 1), KVS_ERR_IO, "no");
    KT_INT(fake_count("release 1"), 0);
    KT_OK(kvs_store_close(store));
    for (int64_t key = 1; key <= 100; key++) {
        char release[32];

        snprintf(release, sizeof(release), "release %lld", (long long)key);
        KT_INT(fake_count(release), 1);
    }
    KT_INT(fake_count("release 200"), 1); /* when its init failed */
    KT_INT(fake_count("close"), 1);
}

static void stores_have_keys_of_their_own(void)
{
    kvs_store_t *one, *other;

    fake_begin();
    one = fake_open(FAKE);
    other = fake_open(FAKE);
    init_one(one, 1, 10);
    init_one(other, 1, 20);
    KT_OK(push_one(one, 1, 11));
    KT_REAL(pull_one(one, 1), 11);
    KT_REAL(pull_one(other, 1), 20);
    KT_OK(kvs_store_close(one));
    KT_REAL(pull_one(other, 1), 20);
    KT_OK(kvs_store_close(other));
}

/* ---- What the core fills in ------------------------------------------------------------------ */

static void a_pushpull_without_one_is_a_push_and_a_pull(void)
{
    kvs_store_t *store;
    float value = 4;

    fake_begin();
    store = fake_open(FAKE);
    init_one(store, 1, 1);
    KT_OK(kvs_store_set_updater(store, add_updater, NULL));
    KT_OK(call(store, KVS_VERB_PUSHPULL, 1, &value, 1));
    KT_REAL(value, 5);
    KT_STR(fake_calls(), "init 1, push 1, pull 1");
    KT_OK(kvs_store_close(store));
}

static void a_broadcast_without_one_is_an_init_and_a_pull(void)
{
    kvs_store_t *store;
    float value = 4;

    fake_begin();
    store = fake_open(FAKE);
    KT_OK(call(store, KVS_VERB_BROADCAST, 1, &value, 1));
    KT_STR(fake_calls(), "init 1, pull 1");
    KT_REAL(pull_one(store, 1), 4);
    KT_OK(kvs_store_close(store));
}

static void operations_a_backend_lacks_are_not_implemented(void)
{
    kvs_store_t *store;
    kvs_param_t param = {.name = "wd"};
    float value = 4;

    fake_begin();
    store = fake_open(FAKE_PLAIN);
    KT_FAIL(call(store, KVS_VERB_INIT, 1, &value, 1), KVS_ERR_NOT_IMPLEMENTED,
            "not implemented: init by fake_plain");
    KT_FAIL(call(store, KVS_VERB_PUSH, 1, &value, 1), KVS_ERR_NOT_IMPLEMENTED, "push by");
    KT_FAIL(call(store, KVS_VERB_PULL, 1, &value, 1), KVS_ERR_NOT_IMPLEMENTED, "pull by");
    KT_FAIL(kvs_store_row_sparse_pull(store, NULL, 0, NULL, NULL, NULL), KVS_ERR_NOT_IMPLEMENTED,
            "row_sparse_pull by");
    KT_FAIL(kvs_store_set_optimizer_attr(store, &param), KVS_ERR_NOT_IMPLEMENTED,
            "set_optimizer_attr by");
    KT_FAIL(kvs_store_set_gradient_compression(store, &param, 1), KVS_ERR_NOT_IMPLEMENTED,
            "set_gradient_compression by");
    KT_FAIL(kvs_store_save_optimizer_states(store, "f", 0), KVS_ERR_NOT_IMPLEMENTED, "save");
    KT_FAIL(kvs_store_load_optimizer_states(store, "f"), KVS_ERR_NOT_IMPLEMENTED, "load");
    KT_FAIL(kvs_store_run_server(store), KVS_ERR_NOT_IMPLEMENTED, "run_server by");
    KT_OK(kvs_store_close(store));
}

static void a_single_process_is_rank_0_of_1(void)
{
    kvs_store_t *store;
    int rank = -1, workers = -1, local = -1, recovery = -1, dead = -1;

    fake_begin();
    store = fake_open(FAKE);
    KT_OK(kvs_store_rank(store, &rank));
    KT_OK(kvs_store_num_workers(store, &workers));
    KT_OK(kvs_store_local_rank(store, &local));
    KT_OK(kvs_store_is_recovery(store, &recovery));
    KT_OK(kvs_store_num_dead_nodes(store, "server", 1000, &dead));
    KT_OK(kvs_store_barrier(store));
    KT_OK(kvs_store_join(store));
    KT_OK(kvs_store_send_command_to_servers(store, 0, NULL, 0));
    KT_INT(rank, 0);
    KT_INT(workers, 1);
    KT_INT(local, 0);
    KT_INT(recovery, 0);
    KT_INT(dead, 0);
    KT_FAIL(kvs_store_rank(store, NULL), KVS_ERR_ARGUMENT,
            "rank: the place for the result is NULL");
    KT_FAIL(kvs_store_num_dead_nodes(store, "boss", 0, &dead), KVS_ERR_ARGUMENT,
            "unknown role \"boss\"; accepted are worker, server, scheduler");
    KT_FAIL(kvs_store_send_command_to_servers(store, 0, NULL, 3), KVS_ERR_ARGUMENT,
            "the body is NULL");
    KT_OK(kvs_store_close(store));
}

/* ---- What a store is ------------------------------------------------------------------------- */

static void capabilities_are_those_of_the_backend(void)
{
    static const struct {
        const char *type, *capability;
        int want;
    } cases[] = {
        {FAKE, "optimizer", 1},
        {FAKE, "sparse", 1},
        {FAKE, "async", 0},
        {FAKE_ASYNC, "async", 1},
        {FAKE_PLAIN, "optimizer", 0},
        {FAKE_PLAIN, "sparse", 0},
        {FAKE, "gradient_compression", 0},
    };

    fake_begin();
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        kvs_store_t *store = fake_open(cases[i].type);
        int capable = -1;

        KT_OK(kvs_store_is_capable(store, cases[i].capability, &capable));
        KT_INT(capable, cases[i].want);
        KT_FAIL(kvs_store_is_capable(store, "fly", &capable), KVS_ERR_ARGUMENT,
                "unknown capability \"fly\"; known are optimizer, sparse");
        KT_OK(kvs_store_close(store));
    }
}

static void dtypes_and_devices_are_those_of_the_backend(void)
{
    const kvs_device_t cpu = {KVS_DEVICE_CPU, 3}, gpu = {KVS_DEVICE_CUDA, 0};
    kvs_store_t *store;
    int supported = -1;

    fake_begin();
    store = fake_open(FAKE_PLAIN);
    KT_OK(kvs_store_supports(store, kvs_dtype(KVS_DTYPE_float32), cpu, &supported));
    KT_INT(supported, 1);
    KT_OK(kvs_store_supports(store, kvs_dtype(KVS_DTYPE_float64), cpu, &supported));
    KT_INT(supported, 0);
    KT_OK(kvs_store_supports(store, kvs_dtype(KVS_DTYPE_float32), gpu, &supported));
    KT_INT(supported, 0);
    KT_OK(kvs_store_supports(store, kvs_dtype(-1), cpu, &supported));
    KT_INT(supported, 0);
    KT_OK(kvs_store_close(store));
}

static void only_what_succeeded_is_counted(void)
{
    kvs_store_t *store;
    kvs_stats_t stats = {.size = sizeof(stats)};
    float values[4] = {1, 2, 3, 4};
    float *const two[] = {&values[0], &values[2]};

    fake_begin();
    store = fake_open(FAKE);
    KT_OK(call_list(store, KVS_VERB_INIT, (const int64_t[]){1, 2}, 2, two, 2, NULL));
    KT_OK(call_list(store, KVS_VERB_PUSH, (const int64_t[]){1, 2}, 2, two, 2, NULL));
    KT_OK(call(store, KVS_VERB_PULL, 1, values, 2));
    KT_OK(call(store, KVS_VERB_PUSHPULL, 2, values, 2));
    KT_OK(call(store, KVS_VERB_BROADCAST, 3, values, 4));
    fake_fail("push 1", KVS_ERR_IO, "no");
    KT_FAIL(call(store, KVS_VERB_PUSH, 1, values, 2), KVS_ERR_IO, "no");
    KT_FAIL(call(store, KVS_VERB_PUSH, 9, values, 2), KVS_ERR_NOT_FOUND, "9");
    KT_OK(kvs_store_stats(store, &stats));
    KT_INT(stats.n_inits, 3);
    KT_INT(stats.n_pushes, 2);
    KT_INT(stats.n_pulls, 2);
    KT_INT(stats.n_pushpulls, 1);
    KT_INT(stats.bytes_pushed, 16 + 8);
    KT_INT(stats.bytes_pulled, 8 + 8 + 16);
    KT_OK(kvs_store_close(store));
}

static void stats_fill_what_the_caller_has_room_for(void)
{
    kvs_store_t *store;
    kvs_stats_t stats;

    fake_begin();
    store = fake_open(FAKE);
    init_one(store, 1, 0);
    memset(&stats, 0x55, sizeof(stats));
    stats.size = offsetof(kvs_stats_t, n_pushes);
    KT_OK(kvs_store_stats(store, &stats));
    KT_INT(stats.size, offsetof(kvs_stats_t, n_pushes));
    KT_INT(stats.n_inits, 1);
    KT_INT(stats.n_pushes, 0x5555555555555555);
    stats.size = 0;
    KT_FAIL(kvs_store_stats(store, &stats), KVS_ERR_ARGUMENT, "set size to sizeof(kvs_stats_t)");
    KT_FAIL(kvs_store_stats(store, NULL), KVS_ERR_ARGUMENT, "ret_stats is NULL");
    KT_OK(kvs_store_close(store));
}

static void without_its_updater_a_store_replaces_again(void)
{
    kvs_store_t *store;

    fake_begin();
    store = fake_open(FAKE);
    init_one(store, 1, 10);
    KT_OK(kvs_store_set_updater(store, add_updater, NULL));
    KT_OK(push_one(store, 1, 1));
    KT_REAL(pull_one(store, 1), 11);
    KT_OK(kvs_store_set_updater(store, NULL, NULL));
    KT_OK(push_one(store, 1, 1));
    KT_REAL(pull_one(store, 1), 1);
    KT_OK(kvs_store_close(store));
}

static void a_refused_updater_leaves_the_last_one(void)
{
    kvs_store_t *store;

    fake_begin();
    store = fake_open(FAKE);
    init_one(store, 1, 10);
    KT_OK(kvs_store_set_updater(store, add_updater, NULL));
    fake_fail("set_updater", KVS_ERR_STATE, "not now");
    KT_FAIL(kvs_store_set_updater(store, fake_updater, NULL), KVS_ERR_STATE, "not now");
    KT_OK(push_one(store, 1, 1));
    KT_INT(fake_count("updater 1"), 0);
    KT_OK(kvs_store_close(store));
}

static void wrong_optimizer_specs_are_refused(void)
{
    kvs_store_t *store;
    kvs_optimizer_spec_t spec = {0};

    fake_begin();
    store = fake_open(FAKE);
    KT_FAIL(kvs_store_set_optimizer(store, NULL), KVS_ERR_ARGUMENT, "the optimizer is NULL");
    KT_FAIL(kvs_store_set_optimizer(store, &spec), KVS_ERR_ARGUMENT,
            "the spec's size is 0; begin with KVS_OPTIMIZER_INIT");
    KT_INT(fake_count("set_optimizer"), 0);
    KT_OK(kvs_store_close(store));
}

static void every_call_on_no_store_is_refused(void)
{
    kvs_tensor_t tensor = KT_F32(big_array(), 1);
    kvs_arrays_t arrays = kvs_arrays(&tensor, 1);
    kvs_key_t key = kvs_key_int(1);
    kvs_stats_t stats = {.size = sizeof(stats)};
    int number;

    fake_begin();
    KT_FAIL(kvs_store_init(NULL, &key, 1, &arrays, NULL), KVS_ERR_ARGUMENT,
            "init: the store is NULL");
    KT_FAIL(kvs_store_push(NULL, &key, 1, &arrays, NULL), KVS_ERR_ARGUMENT, "push: the store");
    KT_FAIL(kvs_store_pull(NULL, &key, 1, &arrays, NULL), KVS_ERR_ARGUMENT, "pull: the store");
    KT_FAIL(kvs_store_set_updater(NULL, NULL, NULL), KVS_ERR_ARGUMENT, "set_updater: the store");
    KT_FAIL(kvs_store_wait_all(NULL, 0), KVS_ERR_ARGUMENT, "wait_all: the store");
    KT_FAIL(kvs_store_rank(NULL, &number), KVS_ERR_ARGUMENT, "rank: the store");
    KT_FAIL(kvs_store_is_capable(NULL, "sparse", &number), KVS_ERR_ARGUMENT, "is_capable: the");
    KT_FAIL(kvs_store_stats(NULL, &stats), KVS_ERR_ARGUMENT, "stats: the store");
    KT_FAIL(kvs_store_barrier(NULL), KVS_ERR_ARGUMENT, "barrier: the store");
    KT_FAIL(kvs_store_run_server(NULL), KVS_ERR_ARGUMENT, "run_server: the store");
}

/* ---- Closing with work left ------------------------------------------------------------------ */

typedef struct closer {
    kt_thread_t thread;
    kvs_store_t *store;
    kvs_status_t status;
} closer_t;

static void close_it(void *arg)
{
    closer_t *closer = arg;

    closer->status = kvs_store_close(closer->store);
}

static void close_waits_for_work_in_the_pool(void)
{
    closer_t closer;

    fake_begin();
    closer.store = fake_open(FAKE);
    init_big(closer.store, 1);
    fake_hold("push 1");
    kvs_event_free(start_big(closer.store, KVS_VERB_PUSH, 1));
    fake_wait_held("push 1");
    kt_thread_start(&closer.thread, close_it, &closer);
    wait_for_sleepers(closer.store, 1);
    KT_INT(fake_count("close"), 0);
    fake_release("push 1");
    kt_thread_join(&closer.thread);
    KT_OK(closer.status);
    KT_INT(fake_count("close"), 1);
}

static void a_store_left_past_its_deadline_ends_with_its_work(void)
{
    const kvs_option_t option = {"timeout", "0.05"};
    kvs_store_t *store = NULL;
    kvs_event_t *queued;

    fake_begin();
    KT_OK(kvs_store_create(FAKE, &option, 1, &store));
    init_big(store, 1);
    fake_hold("push 1");
    kvs_event_free(start_big(store, KVS_VERB_PUSH, 1));
    queued = start_big(store, KVS_VERB_PULL, 1);
    fake_wait_held("push 1");
    KT_FAIL(kvs_store_close(store), KVS_ERR_TIMEOUT,
            "the store was abandoned: close: 2 operations have not completed");
    KT_INT(is_done(queued), 0);
    kvs_event_free(queued);
    fake_release("push 1");
    fake_wait_count("close", 1);
    KT_INT(fake_count("pull 1"), 0); /* it was not begun */
    KT_INT(fake_count("release 1"), 1);
}

static const kt_test_t tests[] = {
    KT_TEST(the_name_is_lower_cased),
    KT_TEST(closing_nothing_is_fine),
    KT_TEST(wrong_arguments_of_create_are_refused),
    KT_TEST(a_backend_that_cannot_work_here_says_why),
    KT_TEST(a_backend_that_does_not_open_is_not_closed),
    KT_TEST(a_store_without_a_name_is_the_default),
    KT_TEST(no_store_is_created_without_a_required_backend),
    KT_TEST(close_releases_each_key_once_and_then_the_backend),
    KT_TEST(stores_have_keys_of_their_own),
    KT_TEST(a_pushpull_without_one_is_a_push_and_a_pull),
    KT_TEST(a_broadcast_without_one_is_an_init_and_a_pull),
    KT_TEST(operations_a_backend_lacks_are_not_implemented),
    KT_TEST(a_single_process_is_rank_0_of_1),
    KT_TEST(capabilities_are_those_of_the_backend),
    KT_TEST(dtypes_and_devices_are_those_of_the_backend),
    KT_TEST(only_what_succeeded_is_counted),
    KT_TEST(stats_fill_what_the_caller_has_room_for),
    KT_TEST(without_its_updater_a_store_replaces_again),
    KT_TEST(a_refused_updater_leaves_the_last_one),
    KT_TEST(wrong_optimizer_specs_are_refused),
    KT_TEST(every_call_on_no_store_is_refused),
    KT_TEST(close_waits_for_work_in_the_pool),
    KT_TEST(a_store_left_past_its_deadline_ends_with_its_work),
};
KT_MAIN("store", tests)
