/* SPDX-License-Identifier: Apache-2.0 */
/* Plugins linked into the program, as somebody does who ships one file: sdk/teststore's source and
 * another, built with -DKVS_PLUGIN_STATIC and registered with their manifests as text. */
#include "kt.h"

#include <kvstore/plugins.h>

#include <stdlib.h>

const struct kvs_plugin *kvs_plugin_entry_v1_teststore(const struct kvs_host *host,
                                                       const char **ret_refusal);
const struct kvs_plugin *kvs_plugin_entry_v1_twin(const struct kvs_host *host,
                                                  const char **ret_refusal);

#define MANIFEST(name, version, dtypes)                                                            \
    "{\"manifest_version\": \"1.0\", \"name\": \"" name "\", \"version\": \"" version "\","        \
    " \"arch\": \"" KVS_ARCH "\", \"abi\": \"1.0\", \"provides\": [{\"kind\": \"backend\","        \
    " \"name\": \"" name "\", \"aliases\": [\"" name "_alias\"],"                                  \
    " \"capabilities\": {\"devices\": [\"cpu\"], \"dtypes\": [" dtypes "]}}]}"
#define ALL_DTYPES                                                                                 \
    "\"float32\", \"float64\", \"float16\", \"bfloat16\", \"int8\", \"uint8\", \"int32\", "        \
    "\"int64\""

static void register_both(void)
{
    static int done;

    setenv("KVSTORE_PLUGIN_PATH", "/nonexistent", 1);
    if (!done) {
        KT_OK(kvs_plugin_register(kvs_plugin_entry_v1_teststore,
                                  MANIFEST("teststore", TESTSTORE_VERSION, ALL_DTYPES)));
        KT_OK(
            kvs_plugin_register(kvs_plugin_entry_v1_twin, MANIFEST("twin", "2.0", "\"float32\"")));
        done = 1;
    }
}

static kvs_status_t sum(const char *name, float *ret_sum)
{
    float a[2] = {1, 2}, b[2] = {10, 20};
    kvs_tensor_t values[2] = {KT_F32(a, 2), KT_F32(b, 2)}, out = KT_F32(ret_sum, 2);
    kvs_arrays_t in = kvs_arrays(values, 2), outs = kvs_arrays(&out, 1);
    kvs_key_t key = kvs_key_int(7);
    kvs_store_t *store = NULL;
    kvs_status_t status = kvs_store_create(name, NULL, 0, &store);

    if (status == KVS_OK) {
        status = kvs_store_pushpull(store, &key, 1, &in, &outs, NULL);
        KT_OK(kvs_store_close(store));
    }
    return status;
}

static void a_linked_plugin_works_without_any_file(void)
{
    float got[2] = {0, 0};

    register_both();
    KT_OK(sum("teststore", got));
    KT_REAL(got[0], 11);
    KT_REAL(got[1], 22);
    KT_OK(sum("TestStore_Alias", got));
}

static void two_linked_plugins_get_along(void)
{
    float got[2] = {0, 0};

    register_both();
    KT_FAIL(sum("twin", got), KVS_ERR_IO, "the twin does nothing");
    KT_OK(sum("teststore", got));
    KT_REAL(got[1], 22);
}

static void linked_plugins_are_listed_and_turned_off_like_others(void)
{
    kvs_plugin_list_t *list = NULL;
    float got[2];

    register_both();
    KT_OK(kvs_plugin_list(&list));
    KT_INT(kvs_plugin_list_count(list), 2);
    KT_STR(kvs_plugin_list_at(list, 0)->name, "teststore");
    KT_STR(kvs_plugin_list_at(list, 0)->manifest, "(static)");
    KT_STR(kvs_plugin_list_at(list, 0)->library, "");
    KT_INT(kvs_plugin_list_at(list, 0)->n_notes, 0);
    KT_OK(kvs_plugin_try(list, 0));
    KT_STR(kvs_plugin_state_text(kvs_plugin_list_at(list, 0)->state), "ok");
    kvs_plugin_list_free(list);
    setenv("KVSTORE_PLUGINS", "-twin", 1);
    KT_FAIL(sum("twin", got), KVS_ERR_UNAVAILABLE,
            "plugin \"twin\" (static): disabled: removed by");
    unsetenv("KVSTORE_PLUGINS");
    KT_FAIL(kvs_plugin_disable("twin", 1), KVS_ERR_STATE, "comes from the program itself");
}

static void a_linked_plugin_must_be_what_its_manifest_says(void)
{
    kvs_store_t *store = NULL;

    setenv("KVSTORE_PLUGIN_PATH", "/nonexistent", 1);
    KT_OK(kvs_plugin_register(kvs_plugin_entry_v1_twin, MANIFEST("tween", "2.0", "\"float32\"")));
    KT_FAIL(kvs_store_create("tween", NULL, 0, &store), KVS_ERR_PLUGIN,
            "manifest-mismatch: \"name\": the manifest says tween, (static) says twin");
}

static const kt_test_t tests[] = {
    KT_TEST(a_linked_plugin_works_without_any_file),
    KT_TEST(two_linked_plugins_get_along),
    KT_TEST(linked_plugins_are_listed_and_turned_off_like_others),
    KT_TEST(a_linked_plugin_must_be_what_its_manifest_says),
};
KT_MAIN("plugins.static", tests)
