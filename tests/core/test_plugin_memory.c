/* SPDX-License-Identifier: Apache-2.0 */
/* Running out of memory while plugins are found and loaded, at each allocation in turn: an error
 * that says so, and the next try succeeds. The linker puts the functions below in the place of
 * libc's. */
#include "kt.h"
#include "fakes.h"
#include "registry.h"

#include <stdlib.h>

void *__real_malloc(size_t n_bytes);
void *__real_calloc(size_t n, size_t n_bytes);
void *__real_realloc(void *data, size_t n_bytes);
char *__real_strdup(const char *text);
void *__wrap_malloc(size_t n_bytes);
void *__wrap_calloc(size_t n, size_t n_bytes);
void *__wrap_realloc(void *data, size_t n_bytes);
char *__wrap_strdup(const char *text);

static long n_left = -1; /* allocations until one fails; negative: none does */

static int fails_now(void)
{
    return n_left >= 0 && n_left-- == 0;
}

void *__wrap_malloc(size_t n_bytes)
{
    return fails_now() ? NULL : __real_malloc(n_bytes);
}

void *__wrap_calloc(size_t n, size_t n_bytes)
{
    return fails_now() ? NULL : __real_calloc(n, n_bytes);
}

void *__wrap_realloc(void *data, size_t n_bytes)
{
    return fails_now() ? NULL : __real_realloc(data, n_bytes);
}

char *__wrap_strdup(const char *text)
{
    return fails_now() ? NULL : __real_strdup(text);
}

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
                             " {\"kind\": \"backend\", \"name\": \"fake\", \"capabilities\":"
                             " {\"keeps_weights\": true, \"devices\": [\"cpu\"],"
                             " \"dtypes\": [\"float32\"]}}]",
                 .more = "\"requires\": {\"libraries\": [{\"name\": \"libc.so.6\"}]}, "
                         "\"options\": [{\"name\": \"a\", \"type\": \"int\", \"default\": 3}], ");
}

/* Let the n-th allocation of `attempt` fail, for n from 0 until it succeeds. */
static void fail_each_allocation(kvs_status_t (*attempt)(void))
{
    kvs_status_t status = KVS_ERR_NO_MEMORY;
    long n = 0;

    while (status == KVS_ERR_NO_MEMORY && n < 10000) {
        n_left = n++;
        status = attempt();
        n_left = -1;
    }
    KT_OK(status);
    KT_TRUE(n > 10); /* else the wrappers are not in place */
}

static kvs_status_t find_backend(void)
{
    const kvs_backend_t *backend;

    return kvsi_registry_find_backend("fake", &backend);
}

static kvs_status_t list_plugins(void)
{
    kvs_plugin_list_t *list = NULL;
    kvs_status_t status = kvs_plugin_list(&list);

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
    fail_each_allocation(find_backend);
}

static void listing_survives_a_lack_of_memory(void)
{
    use_all_kinds();
    fail_each_allocation(list_plugins);
}

static void an_unknown_name_survives_a_lack_of_memory(void)
{
    const kvs_backend_t *backend;

    use_all_kinds();
    for (long n = 0; n < 400; n++) {
        n_left = n;
        kvs_status_t status = kvsi_registry_find_backend("fkae", &backend);
        KT_TRUE(status == KVS_ERR_NO_MEMORY || status == KVS_ERR_NOT_FOUND);
    }
    n_left = -1;
}

static void adding_a_path_survives_a_lack_of_memory(void)
{
    n_left = 0;
    KT_FAIL(add_a_path(), KVS_ERR_NO_MEMORY, "no memory");
    n_left = -1;
    KT_OK(add_a_path());
}

static const kt_test_t tests[] = {
    KT_TEST(finding_a_backend_survives_a_lack_of_memory),
    KT_TEST(listing_survives_a_lack_of_memory),
    KT_TEST(an_unknown_name_survives_a_lack_of_memory),
    KT_TEST(adding_a_path_survives_a_lack_of_memory),
};
KT_MAIN("plugin_memory", tests)
