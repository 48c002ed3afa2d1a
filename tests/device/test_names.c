/* SPDX-License-Identifier: Apache-2.0 */
/* The names that lead to `device`, those that don't, and its option. */
#include "kt.h"

#include <stdlib.h>

/* Whether the store that this name gives compresses gradients: of all backends of one process that
 * is `device` alone. -1: there is none, and the text says why. */
static int compresses(const char *name)
{
    kvs_store_t *store = NULL;
    int can = -1;

    if (kvs_store_create(name, NULL, 0, &store) == KVS_OK) {
        KT_STR(kvs_store_type(store), name);
        KT_OK(kvs_store_is_capable(store, "gradient_compression", &can));
        KT_OK(kvs_store_close(store));
    }
    return can;
}

static void the_word_device_with_its_neighbours_leads_here(void)
{
    static const char *const names[] = {
        "device",       "local_device", "local_allreduce_device", "local_update_device",
        "device_local", "device_cpu",   "local-device",           "local_update-device"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        KT_INT(compresses(names[i]), 1);
    }
}

static void names_are_lower_cased(void)
{
    kvs_store_t *store = NULL;

    KT_OK(kvs_store_create("Local_AllReduce_DEVICE", NULL, 0, &store));
    KT_STR(kvs_store_type(store), "local_allreduce_device");
    KT_OK(kvs_store_close(store));
}

static void other_names_of_local_stay_local(void)
{
    KT_INT(compresses("local"), 0);
    KT_INT(compresses("local_update_cpu"), 0);
    KT_INT(compresses("local_allreduce_cpu"), 0);
}

/* Today they aren't installed; they never become a `device`. */
static void names_of_dist_do_not_lead_here(void)
{
    kvs_store_t *store = NULL;

    if (kvs_store_create("dist_device_sync", NULL, 0, &store) == KVS_ERR_UNAVAILABLE) {
        KT_HAS(kvs_last_error(), "kvstore-backend-dist");
    }
    KT_OK(kvs_store_close(store));
    KT_FAIL(kvs_store_create("local_devise", NULL, 0, &store), KVS_ERR_NOT_FOUND, "local_devise");
    KT_FAIL(kvs_store_create("device_device", NULL, 0, &store), KVS_ERR_NOT_FOUND, "device_device");
}

static void turned_off_every_name_says_so(void)
{
    kvs_store_t *store = NULL;

    setenv("KVSTORE_PLUGINS", "-device", 1);
    KT_FAIL(kvs_store_create("device", NULL, 0, &store), KVS_ERR_UNAVAILABLE, "KVSTORE_PLUGINS");
    KT_FAIL(kvs_store_create("local_allreduce_device", NULL, 0, &store), KVS_ERR_UNAVAILABLE,
            "disabled");
    KT_INT(compresses("local_update_cpu"), 0);
    unsetenv("KVSTORE_PLUGINS");
    KT_INT(compresses("local_allreduce_device"), 1);
}

/* ---- usetree ------------------------------------------------------------------------------------- */

static float sum_of_three(const kvs_option_t *options, size_t n_options)
{
    float values[3] = {1, 1e-8f, -1}, out = 0;
    kvs_tensor_t list[3] = {KT_F32(&values[0], 1), KT_F32(&values[1], 1), KT_F32(&values[2], 1)};
    kvs_tensor_t result = KT_F32(&out, 1);
    kvs_arrays_t one = kvs_arrays(list, 1), all = kvs_arrays(list, 3),
                 outs = kvs_arrays(&result, 1);
    kvs_key_t key = kvs_key_int(0);
    kvs_store_t *store = NULL;

    for (int32_t i = 0; i < 3; i++) {
        list[i].device.id = i;
    }
    KT_OK(kvs_store_create("device", options, n_options, &store));
    KT_OK(kvs_store_init(store, &key, 1, &one, NULL));
    KT_OK(kvs_store_pushpull(store, &key, 1, &all, &outs, NULL));
    KT_OK(kvs_store_close(store));
    return out;
}

static void usetree_is_accepted_and_changes_no_sum(void)
{
    const kvs_option_t on = {"usetree", "1"};

    KT_REAL(sum_of_three(NULL, 0), 0); /* in list order, in float32 */
    KT_REAL(sum_of_three(&on, 1), 0);
    setenv("MXNET_KVSTORE_USETREE", "1", 1);
    KT_REAL(sum_of_three(NULL, 0), 0);
    setenv("MXNET_KVSTORE_USETREE", "0", 1);
    KT_REAL(sum_of_three(NULL, 0), 0);
    unsetenv("MXNET_KVSTORE_USETREE");
}

static void a_malformed_usetree_is_an_error_that_names_the_variable(void)
{
    kvs_store_t *store = NULL;

    setenv("MXNET_KVSTORE_USETREE", "maybe", 1);
    KT_FAIL(kvs_store_create("device", NULL, 0, &store), KVS_ERR_ARGUMENT, "MXNET_KVSTORE_USETREE");
    KT_INT(compresses("local"), 0); /* which has no such option */
    unsetenv("MXNET_KVSTORE_USETREE");
}

static const kt_test_t tests[] = {
    KT_TEST(the_word_device_with_its_neighbours_leads_here),
    KT_TEST(names_are_lower_cased),
    KT_TEST(other_names_of_local_stay_local),
    KT_TEST(names_of_dist_do_not_lead_here),
    KT_TEST(turned_off_every_name_says_so),
    KT_TEST(usetree_is_accepted_and_changes_no_sum),
    KT_TEST(a_malformed_usetree_is_an_error_that_names_the_variable),
};
KT_MAIN("device.names", tests)
