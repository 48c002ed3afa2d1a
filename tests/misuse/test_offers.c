/* SPDX-License-Identifier: Apache-2.0 */
/* What `local` does not offer says so by name and does nothing: compression, and today optimizer
 * states. */
#include "misuse.h"

#include <stdlib.h>

static kvs_param_t text(const char *name, const char *value)
{
    kvs_param_t param = {.name = name, .type = KVS_PARAM_TEXT};

    param.value.text = value;
    return param;
}

static void compression_on_local_is_not_implemented(void)
{
    kvs_store_t *store = misuse_open();
    kvs_param_t two_bit = text("type", "2bit");

    KT_FAIL(kvs_store_set_gradient_compression(store, &two_bit, 1), KVS_ERR_NOT_IMPLEMENTED,
            "not implemented: set_gradient_compression by local");
    misuse_close_untouched(store);
}

static void wrong_compression_on_local_is_an_error_of_either_kind(void)
{
    kvs_store_t *store = misuse_open();
    kvs_param_t none = text("type", "none");
    kvs_param_t odd[2] = {text("type", "2bit"), text("treshold", "0.5")};

    KT_TRUE(kvs_store_set_gradient_compression(store, &none, 1) != KVS_OK);
    KT_TRUE(kvs_store_set_gradient_compression(store, odd, 2) != KVS_OK);
    KT_TRUE(kvs_store_set_gradient_compression(store, NULL, 0) != KVS_OK);
    KT_FAIL(kvs_store_set_gradient_compression(store, NULL, 1), KVS_ERR_ARGUMENT, "NULL");
    KT_FAIL(kvs_store_set_gradient_compression(NULL, &none, 1), KVS_ERR_ARGUMENT, "NULL");
    misuse_close_untouched(store);
}

static void states_without_an_optimizer_are_an_error(void)
{
    kvs_store_t *store = misuse_open();
    char path[600];

    snprintf(path, sizeof(path), "%s/states", kt_temp_dir());
    KT_TRUE(kvs_store_save_optimizer_states(store, path, 1) != KVS_OK);
    KT_HAS(kvs_last_error(), "optimizer");
    KT_TRUE(kvs_store_load_optimizer_states(store, path) != KVS_OK);
    KT_HAS(kvs_last_error(), "optimizer");
    KT_FAIL(kvs_store_save_optimizer_states(store, NULL, 0), KVS_ERR_ARGUMENT, "NULL");
    KT_FAIL(kvs_store_load_optimizer_states(store, NULL), KVS_ERR_ARGUMENT, "NULL");
    KT_FAIL(kvs_store_save_optimizer_states(NULL, path, 0), KVS_ERR_ARGUMENT, "NULL");
    KT_FAIL(kvs_store_load_optimizer_states(NULL, path), KVS_ERR_ARGUMENT, "NULL");
    misuse_close_untouched(store);
}

static const kt_test_t tests[] = {
    KT_TEST(compression_on_local_is_not_implemented),
    KT_TEST(wrong_compression_on_local_is_an_error_of_either_kind),
    KT_TEST(states_without_an_optimizer_are_an_error),
};
KT_MAIN("misuse.offers", tests)
