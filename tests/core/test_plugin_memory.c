/* SPDX-License-Identifier: Apache-2.0 */
/* Running out of memory while plugins are found and loaded, at each allocation in turn: an error
 * that says so, and the next try succeeds. */
#include "kt.h"
#include "fail_alloc.h"
#include "fakes.h"
#include "registry.h"

#include <stdlib.h>

static void use_all_kinds(void)
{
    char dir[512];

    snprintf(dir, sizeof(dir), "%s", kt_temp_dir());
    setenv("KVSTORE_PLUGIN_PATH", dir, 1);
    FAKE_WRITE(dir, .name = "a_first", .abi = "9.0");
    kt_write_file(dir, "b_broken.json", "{ oops");
    kt_write_file(dir, "c_mask.json", "");
    FAKE_VARIANT(dir, "all_kinds",
                 .provides = "[{\"kind\": \"device\", \"name\": \"rocm\"},"
                             " {\"kind\": \"optimizer\", \"name\": \"fakeopt\"},"
                             " {\"kind\": \"compressor\", \"name\": \"fakepress\"},"
                             " {\"kind\": \"backend\", \"name\": \"fake\", \"capabilities\":"
                             " {\"keeps_weights\": true, \"devices\": [\"cpu\"],"
                             " \"dtypes\": [\"float32\"]}}]",
                 .more = "\"requires\": {\"libraries\": [{\"name\": \"libc.so.6\"}]}, "
                         "\"options\": [{\"name\": \"a\", \"type\": \"int\", \"default\": 3}], ");
}

static kvs_status_t find_backend(void *unused)
{
    const kvs_backend_t *backend;

    (void)unused;
    return kvsi_registry_find_backend("fake", &backend);
}

static kvs_status_t list_plugins(void *unused)
{
    kvs_plugin_list_t *list = NULL;
    kvs_status_t status = kvs_plugin_list(&list);

    (void)unused;
    kvs_plugin_list_free(list);
    return status;
}

static kvs_status_t add_a_path(void)
{
    return kvs_plugin_path_add("/no/such/place");
}

static void finding_a_backend_survives_a_lack_of_memory(void)
{
    use_all_kinds();
    KT_TRUE(kt_fail_each_alloc(find_backend, NULL, NULL) > 10);
}

static void listing_survives_a_lack_of_memory(void)
{
    use_all_kinds();
    KT_TRUE(kt_fail_each_alloc(list_plugins, NULL, NULL) > 10);
}

static void an_unknown_name_survives_a_lack_of_memory(void)
{
    const kvs_backend_t *backend;

    use_all_kinds();
    for (long n = 0; n < 400; n++) {
        kt_fail_alloc(n);
        kvs_status_t status = kvsi_registry_find_backend("fkae", &backend);
        KT_TRUE(status == KVS_ERR_NO_MEMORY || status == KVS_ERR_NOT_FOUND);
    }
    kt_fail_alloc(-1);
}

static void adding_a_path_survives_a_lack_of_memory(void)
{
    kt_fail_alloc(0);
    KT_FAIL(add_a_path(), KVS_ERR_NO_MEMORY, "no memory");
    kt_fail_alloc(-1);
    KT_OK(add_a_path());
}

static const kt_test_t tests[] = {
    KT_TEST(finding_a_backend_survives_a_lack_of_memory),
    KT_TEST(listing_survives_a_lack_of_memory),
    KT_TEST(an_unknown_name_survives_a_lack_of_memory),
    KT_TEST(adding_a_path_survives_a_lack_of_memory),
};
KT_MAIN("plugin_memory", tests)
