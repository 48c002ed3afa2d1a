/* SPDX-License-Identifier: Apache-2.0 */
/* Wrong registrations from within the program, wrong paths, and the list of plugins misused. */
#include "misuse.h"

#include <kvstore/abi.h>
#include <kvstore/plugins.h>

#include <stdlib.h>

static kvs_status_t open_nothing(void *store, const kvs_open_args_t *args)
{
    (void)store;
    (void)args;
    return KVS_OK;
}

static kvs_status_t close_nothing(void *store, int64_t timeout_ms)
{
    (void)store;
    (void)timeout_ms;
    return KVS_OK;
}

static kvs_status_t exchange_nothing(void *store, kvs_op_t *op)
{
    (void)store;
    (void)op;
    return KVS_OK;
}

static const int32_t cpu_only[] = {KVS_DEVICE_CPU};
static const kvs_backend_ops_t bare_ops = {.size = sizeof(bare_ops),
                                           .mode = KVS_BLOCKING,
                                           .open = open_nothing,
                                           .close = close_nothing,
                                           .pushpull = exchange_nothing};

static kvs_backend_t bare(const char *name)
{
    kvs_backend_t backend = {.size = sizeof(backend),
                             .name = name,
                             .dtypes = KVS_DTYPES_ALL,
                             .n_device_types = 1,
                             .device_types = cpu_only,
                             .ops = &bare_ops};

    return backend;
}

static void check_not_there(const char *name)
{
    kvs_store_t *store = NULL;

    KT_FAIL(kvs_store_create(name, NULL, 0, &store), KVS_ERR_NOT_FOUND, name);
    KT_TRUE(store == NULL);
}

static void a_registration_needs_a_name_and_a_backend(void)
{
    static kvs_backend_t backend;

    backend = bare("nameless");
    KT_FAIL(kvs_register_backend(NULL, &backend), KVS_ERR_ARGUMENT, "NULL");
    KT_FAIL(kvs_register_backend("", &backend), KVS_ERR_ARGUMENT, "name");
    KT_FAIL(kvs_register_backend("nameless", NULL), KVS_ERR_ARGUMENT, "NULL");
    check_not_there("nameless");
}

static void a_backend_without_its_required_parts_is_refused(void)
{
    static kvs_backend_t broken[6];
    static kvs_backend_ops_t ops[6];

    for (int i = 0; i < 6; i++) {
        ops[i] = bare_ops;
        broken[i] = bare("unfinished");
        broken[i].ops = &ops[i];
    }
    broken[0].ops = NULL;
    ops[1].open = NULL;
    ops[2].close = NULL;
    ops[3].mode = 77;
    broken[4].size = 4;
    ops[5].pushpull = NULL;
    for (int i = 0; i < 6; i++) {
        KT_TRUE(kvs_register_backend("unfinished", &broken[i]) != KVS_OK);
        KT_HAS(kvs_last_error(), "unfinished");
    }
    check_not_there("unfinished");
}

static void a_bare_backend_says_what_it_does_not_implement(void)
{
    static kvs_backend_t backend;
    kvs_store_t *store;
    float data[2] = {1, 2};
    kvs_tensor_t array = KT_F32(data, 2);
    kvs_arrays_t arrays = kvs_arrays(&array, 1);
    kvs_key_t key = kvs_key_int(1);

    backend = bare("bare");
    KT_OK(kvs_register_backend("Bare", &backend));
    store = misuse_create("BARE");
    KT_OK(kvs_store_pushpull(store, &key, 1, &arrays, NULL, NULL));
    KT_FAIL(kvs_store_broadcast(store, &key, 1, &arrays, &arrays, NULL), KVS_ERR_NOT_IMPLEMENTED,
            "not implemented: broadcast by bare");
    KT_FAIL(misuse_init(store, key, array), KVS_ERR_NOT_IMPLEMENTED,
            "not implemented: init by bare");
    KT_OK(kvs_store_close(store));
}

static void a_static_plugin_needs_an_entry_and_a_manifest(void)
{
    KT_FAIL(kvs_plugin_register(NULL, "{}"), KVS_ERR_ARGUMENT, "NULL");
}

static const struct kvs_plugin *refuse(const struct kvs_host *host, const char **ret_refusal)
{
    (void)host;
    *ret_refusal = "not on a Sunday";
    return NULL;
}

static void a_static_plugins_manifest_must_be_sound(void)
{
    KT_FAIL(kvs_plugin_register(refuse, NULL), KVS_ERR_ARGUMENT, "NULL");
    KT_FAIL(kvs_plugin_register(refuse, "{"), KVS_ERR_FORMAT, "1:2");
    KT_FAIL(kvs_plugin_register(refuse, "{\"manifest_version\": \"1.0\"}"), KVS_ERR_FORMAT, "name");
}

static void a_path_must_be_given(void)
{
    KT_FAIL(kvs_plugin_path_add(NULL), KVS_ERR_ARGUMENT, "NULL");
    KT_FAIL(kvs_plugin_path_add(""), KVS_ERR_ARGUMENT, "path");
}

static void a_path_that_does_not_exist_does_no_harm(void)
{
    kvs_store_t *store;

    (void)kvs_plugin_path_add("/nonexistent/plugins"); /* searched at each create: it may appear */
    store = misuse_open();
    misuse_close_untouched(store);
}

static void hear_nothing(void *arg, const char *label, const char *text)
{
    (void)arg, (void)label, (void)text;
}

static void the_list_takes_wrong_questions(void)
{
    kvs_plugin_list_t *list = NULL;
    const kvs_plugin_info_t *plugin = NULL;

    KT_FAIL(kvs_plugin_list(NULL), KVS_ERR_ARGUMENT, "NULL");
    KT_OK(kvs_plugin_list(&list));
    KT_TRUE(kvs_plugin_list_count(list) > 0);
    KT_TRUE(kvs_plugin_list_at(list, kvs_plugin_list_count(list)) == NULL);
    KT_TRUE(kvs_plugin_list_at(list, SIZE_MAX) == NULL);
    KT_TRUE(kvs_plugin_list_note(list, SIZE_MAX) == NULL);
    KT_INT(kvs_plugin_list_n_notes(NULL), 0);
    KT_TRUE(kvs_plugin_list_note(NULL, 0) == NULL);
    KT_FAIL(kvs_plugin_try(list, SIZE_MAX), KVS_ERR_ARGUMENT, "no item");
    KT_FAIL(kvs_plugin_about(list, SIZE_MAX, hear_nothing, NULL), KVS_ERR_ARGUMENT, "no item");
    KT_FAIL(kvs_plugin_about(NULL, 0, hear_nothing, NULL), KVS_ERR_ARGUMENT, "no item");
    KT_FAIL(kvs_plugin_about(list, 0, NULL, NULL), KVS_ERR_ARGUMENT, "line is NULL");
    KT_FAIL(kvs_plugin_list_find(list, "locla", &plugin), KVS_ERR_NOT_FOUND, "local");
    KT_FAIL(kvs_plugin_list_find(list, NULL, &plugin), KVS_ERR_ARGUMENT, "NULL");
    KT_FAIL(kvs_plugin_list_find(list, "local", NULL), KVS_ERR_ARGUMENT, "NULL");
    KT_TRUE(plugin == NULL);
    KT_OK(kvs_plugin_list_find(list, "local", &plugin));
    KT_STR(plugin->name, "local");
    kvs_plugin_list_free(list);
    kvs_plugin_list_free(NULL);
}

static void there_is_an_end_to_what_is_known(void)
{
    size_t n = 0;

    while (n < 1000 && kvs_known_at(n) != NULL) {
        n++;
    }
    KT_TRUE(n > 0 && n < 1000);
    KT_TRUE(kvs_known_at(SIZE_MAX) == NULL);
}

static const kt_test_t tests[] = {
    KT_TEST(a_registration_needs_a_name_and_a_backend),
    KT_TEST(a_backend_without_its_required_parts_is_refused),
    KT_TEST(a_bare_backend_says_what_it_does_not_implement),
    KT_TEST(a_static_plugin_needs_an_entry_and_a_manifest),
    KT_TEST(a_static_plugins_manifest_must_be_sound),
    KT_TEST(a_path_must_be_given),
    KT_TEST(a_path_that_does_not_exist_does_no_harm),
    KT_TEST(the_list_takes_wrong_questions),
    KT_TEST(there_is_an_end_to_what_is_known),
};
KT_MAIN("misuse.plugins", tests)
