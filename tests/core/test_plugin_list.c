/* SPDX-License-Identifier: Apache-2.0 */
/* kvstore/plugins.h: what hosts and the `kvstore` command are told. */
#include "kt.h"
#include "fakes.h"

#include <kvstore/abi.h>
#include <kvstore/plugins.h>

#include <limits.h>
#include <stdlib.h>

static char dir[512];

static void use_fresh_place(void)
{
    snprintf(dir, sizeof(dir), "%s", kt_temp_dir());
    setenv("KVSTORE_PLUGIN_PATH", dir, 1);
}

static kvs_plugin_list_t *listed(void)
{
    kvs_plugin_list_t *list = NULL;

    KT_OK(kvs_plugin_list(&list));
    return list;
}

static const kvs_plugin_info_t *find(const kvs_plugin_list_t *list, const char *name)
{
    const kvs_plugin_info_t *plugin = NULL;

    KT_OK(kvs_plugin_list_find(list, name, &plugin));
    return plugin;
}

static void a_list_walks_plugins_and_paths(void)
{
    kvs_plugin_list_t *list;

    use_fresh_place();
    FAKE_WRITE(dir, .name = "a");
    FAKE_WRITE(dir, .name = "b", .more = "\"summary\": \"The second\", ");
    list = listed();
    KT_INT(kvs_plugin_list_count(list), 2);
    KT_STR(kvs_plugin_list_at(list, 1)->name, "b");
    KT_STR(kvs_plugin_list_at(list, 1)->summary, "The second");
    KT_STR(kvs_plugin_list_at(list, 1)->package, "");
    KT_INT(kvs_plugin_list_at(list, 1)->state, KVS_PLUGIN_OK);
    KT_TRUE(kvs_plugin_list_at(list, 2) == NULL);
    KT_INT(kvs_plugin_list_n_paths(list), 1);
    KT_STR(kvs_plugin_list_path(list, 0), dir);
    KT_TRUE(kvs_plugin_list_path(list, 1) == NULL);
    kvs_plugin_list_free(list);
}

static void listing_opens_nothing(void)
{
    kvs_plugin_list_t *list;

    use_fresh_place();
    FAKE_VARIANT(dir, "undefined", 0);
    list = listed();
    KT_INT(kvs_plugin_list_at(list, 0)->state, KVS_PLUGIN_OK);
    kvs_plugin_list_free(list);
}

static void plugins_are_found_by_their_name_and_by_what_they_provide(void)
{
    kvs_plugin_list_t *list;

    use_fresh_place();
    FAKE_WRITE(dir, .name = "pack",
               .provides = "[{\"kind\": \"backend\", \"name\": \"fake\", \"aliases\": [\"sham\"]},"
                           " {\"kind\": \"optimizer\", \"name\": \"sgd\"}]");
    list = listed();
    KT_STR(find(list, "pack")->name, "pack");
    KT_STR(find(list, "Pack")->name, "pack");
    KT_STR(find(list, "fake")->name, "pack");
    KT_STR(find(list, "sham")->name, "pack");
    KT_STR(find(list, "sgd")->name, "pack");
    kvs_plugin_list_free(list);
}

static void the_one_that_is_ok_is_found_if_there_are_several(void)
{
    kvs_plugin_list_t *list;

    use_fresh_place();
    FAKE_WRITE(dir, .name = "a", .abi = "9.0", .provide = "\"aliases\": [\"same\"], ");
    FAKE_WRITE(dir, .name = "b", .provide = "\"aliases\": [\"same\"], ");
    list = listed();
    KT_STR(find(list, "same")->name, "b");
    KT_STR(kvs_plugin_state_text(find(list, "a")->state), "abi-mismatch");
    kvs_plugin_list_free(list);
}

static void an_unknown_name_tells_near_ones_and_plugins(void)
{
    const kvs_plugin_info_t *plugin = NULL;
    kvs_plugin_list_t *list;

    use_fresh_place();
    FAKE_WRITE(dir, .name = "local");
    list = listed();
    KT_FAIL(kvs_plugin_list_find(list, "locla", &plugin), KVS_ERR_NOT_FOUND,
            "no plugin named \"locla\"; did you mean \"local\"? Installed: local; ");
    KT_FAIL(kvs_plugin_list_find(list, "horovod", &plugin), KVS_ERR_UNAVAILABLE,
            "plugin \"horovod\" is known but not installed: install package "
            "kvstore-backend-horovod");
    KT_FAIL(kvs_plugin_list_find(list, NULL, &plugin), KVS_ERR_ARGUMENT, "NULL");
    KT_TRUE(plugin == NULL);
    kvs_plugin_list_free(list);
}

static void required_libraries_are_looked_for(void)
{
    kvs_plugin_list_t *list;
    const kvs_plugin_info_t *plugin;

    use_fresh_place();
    kt_write_file(dir, "libs/libtext_only.so.1", "not a library");
    FAKE_WRITE(dir, .more = "\"requires\": {\"libraries\": [{\"name\": \"libc.so.6\"},"
                            " {\"name\": \"libno_such_library.so.7\", \"package\": \"x\"},"
                            " {\"name\": \"libm.so.6\"}, {\"name\": \"libtext_only.so.1\"},"
                            " {\"name\": \"good.so\"}]}, ");
    char libs[2048];
    snprintf(libs, sizeof(libs), "%s/libs:%s", dir, KVS_FAKE_DIR);
    setenv("LD_LIBRARY_PATH", libs, 1);
    list = listed();
    unsetenv("LD_LIBRARY_PATH");
    plugin = kvs_plugin_list_at(list, 0);
    KT_STR(plugin->reason, "");
    KT_INT(plugin->n_libraries, 5);
    KT_INT(plugin->libraries[0].found, 1);
    KT_INT(plugin->libraries[1].found, 0);
    KT_INT(plugin->libraries[2].found, 1);
    KT_INT(plugin->libraries[3].found, 0); /* there, but no shared object */
    KT_INT(plugin->libraries[4].found, 1); /* in LD_LIBRARY_PATH */
    kvs_plugin_list_free(list);
}

/* Registered backends are read by the list only. */
static kvs_status_t never_open(void *store, const kvs_open_args_t *args)
{
    (void)store;
    (void)args;
    return KVS_ERR_INTERNAL;
}

static kvs_status_t never_close(void *store, int64_t timeout_ms)
{
    (void)store;
    (void)timeout_ms;
    return KVS_ERR_INTERNAL;
}

static kvs_status_t never_pushpull(void *store, kvs_op_t *op)
{
    (void)store;
    (void)op;
    return KVS_ERR_INTERNAL;
}

static void what_the_program_registered_is_listed_first(void)
{
    static const kvs_backend_ops_t ops = {.size = (uint32_t)sizeof(ops),
                                          .mode = KVS_ASYNCHRONOUS,
                                          .open = never_open,
                                          .close = never_close,
                                          .pushpull = never_pushpull};
    static const int32_t devices[] = {KVS_DEVICE_CPU, KVS_DEVICE_CUDA};
    static const kvs_backend_t backend = {.size = (uint32_t)sizeof(backend),
                                          .name = "mine",
                                          .capabilities = KVS_CAN_ASYNC | KVS_CAN_COMPRESSION,
                                          .dtypes =
                                              1u << KVS_DTYPE_float32 | 1u << KVS_DTYPE_bfloat16,
                                          .device_types = devices,
                                          .n_device_types = 2,
                                          .ops = &ops};
    kvs_plugin_list_t *list;
    const kvs_plugin_info_t *plugin;

    use_fresh_place();
    FAKE_WRITE(dir, .name = "mine");
    KT_OK(kvs_register_backend("mine", &backend));
    list = listed();
    KT_INT(kvs_plugin_list_count(list), 2);
    plugin = kvs_plugin_list_at(list, 0);
    KT_STR(plugin->manifest, "(program)");
    KT_STR(plugin->name, "mine");
    KT_STR(plugin->library, "");
    KT_INT(plugin->provides[0].async, 1);
    KT_INT(plugin->provides[0].sparse, 0);
    KT_INT(plugin->provides[0].n_devices, 2);
    KT_STR(plugin->provides[0].devices[1], "cuda");
    KT_INT(plugin->provides[0].n_dtypes, 2);
    KT_STR(plugin->provides[0].dtypes[1], "bfloat16");
    KT_STR(kvs_plugin_state_text(kvs_plugin_list_at(list, 1)->state), "ok"); /* not shadowed */
    kvs_plugin_list_free(list);
}

static void states_have_stable_texts(void)
{
    KT_STR(kvs_plugin_state_text(KVS_PLUGIN_OK), "ok");
    KT_STR(kvs_plugin_state_text(KVS_PLUGIN_MISSING_DEPENDENCY), "missing-dependency");
    KT_STR(kvs_plugin_state_text((kvs_plugin_state_t)999), "unknown state");
}

static void listing_leaves_the_last_error_alone(void)
{
    kvs_plugin_list_t *list;

    use_fresh_place();
    kt_write_file(dir, "bad.json", "{");
    FAKE_WRITE(dir, .abi = "9.0");
    (void)kvs_fail(KVS_ERR_IO, "an earlier failure");
    list = listed();
    KT_STR(kvs_last_error(), "an earlier failure");
    kvs_plugin_list_free(list);
    kvs_plugin_list_free(NULL);
    KT_FAIL(kvs_plugin_list(NULL), KVS_ERR_ARGUMENT, "ret_list is NULL");
}

static const kt_test_t tests[] = {
    KT_TEST(a_list_walks_plugins_and_paths),
    KT_TEST(listing_opens_nothing),
    KT_TEST(plugins_are_found_by_their_name_and_by_what_they_provide),
    KT_TEST(the_one_that_is_ok_is_found_if_there_are_several),
    KT_TEST(an_unknown_name_tells_near_ones_and_plugins),
    KT_TEST(required_libraries_are_looked_for),
    KT_TEST(what_the_program_registered_is_listed_first),
    KT_TEST(states_have_stable_texts),
    KT_TEST(listing_leaves_the_last_error_alone),
};
KT_MAIN("plugin_list", tests)
