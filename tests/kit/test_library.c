/* SPDX-License-Identifier: Apache-2.0 */
/* Libraries that are opened at run time: once, by a name that can be replaced, with errors that say what is
 * missing. */
#include "kt.h"

#include <kvstore/kit.h>

#include <dlfcn.h>
#include <stdlib.h>

static const kvs_host_t host = {.size = sizeof(host), .fail = kvs_fail};

const kvs_host_t *kvs_plugin_host = &host;

static int n_finds;
static char found_by[64];
static kvs_status_t find_status;

static kvs_status_t find(void *handle, const char *name)
{
    n_finds++;
    snprintf(found_by, sizeof(found_by), "%s", name);
    KT_TRUE(dlsym(handle, "cosh") != NULL);
    return find_status == KVS_OK ? KVS_OK : kvs_fail(find_status, "%s is too old", name);
}

static kvs_library_t maths(const char *preset)
{
    n_finds = 0;
    find_status = KVS_OK;
    unsetenv("KVSTORE_TEST_LIBRARY");
    return (kvs_library_t){.preset = preset,
                           .variable = "KVSTORE_TEST_LIBRARY",
                           .missing = "no maths",
                           .mend = "install libc6",
                           .find = find};
}

static void it_is_opened_once(void)
{
    kvs_library_t library = maths("libm.so.6");

    KT_OK(kvs_library_open(&library));
    KT_OK(kvs_library_open(&library));
    KT_INT(n_finds, 1);
    KT_STR(found_by, "libm.so.6");
}

static void its_variable_names_another_file(void)
{
    kvs_library_t library = maths("libnone.so.1");

    setenv("KVSTORE_TEST_LIBRARY", "libm.so.6", 1);
    KT_OK(kvs_library_open(&library));
    KT_STR(found_by, "libm.so.6");
    library = maths("libm.so.6");
    setenv("KVSTORE_TEST_LIBRARY", "", 1); /* as if it were not set */
    KT_OK(kvs_library_open(&library));
}

static void one_that_is_missing_is_told_with_what_mends_it(void)
{
    kvs_library_t library = maths("libnone.so.1");

    KT_FAIL(kvs_library_open(&library), KVS_ERR_UNAVAILABLE, "no maths: libnone.so.1");
    KT_HAS(kvs_last_error(), "; install libc6");
    KT_INT(n_finds, 0);
    setenv("KVSTORE_TEST_LIBRARY", "libm.so.6", 1); /* installed meanwhile */
    KT_OK(kvs_library_open(&library));
}

static void one_that_will_not_do_is_looked_at_again(void)
{
    kvs_library_t library = maths("libm.so.6");

    find_status = KVS_ERR_UNAVAILABLE;
    KT_FAIL(kvs_library_open(&library), KVS_ERR_UNAVAILABLE, "libm.so.6 is too old");
    KT_FAIL(kvs_library_open(&library), KVS_ERR_UNAVAILABLE, "libm.so.6 is too old");
    find_status = KVS_OK;
    KT_OK(kvs_library_open(&library));
    KT_INT(n_finds, 3);
}

static const kt_test_t tests[] = {
    KT_TEST(it_is_opened_once),
    KT_TEST(its_variable_names_another_file),
    KT_TEST(one_that_is_missing_is_told_with_what_mends_it),
    KT_TEST(one_that_will_not_do_is_looked_at_again),
};
KT_MAIN("library", tests)
