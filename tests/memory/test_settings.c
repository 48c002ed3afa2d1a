/* SPDX-License-Identifier: Apache-2.0 */
/* Running out of memory while settings are listed, DLPack tensors go in and out. */
#include "kt.h"
#include "fail_alloc.h"
#include "plugins.h"

#include <kvstore/settings.h>

static kvs_status_t list_settings(void *arg)
{
    kvs_setting_list_t *list;
    kvs_status_t status = kvs_setting_list(&list);

    (void)arg;
    if (status == KVS_OK) {
        KT_STR(kvs_setting_list_at(list, 0)->name, "default");
        kvs_setting_list_free(list);
    }
    return status;
}

static void listing_settings(void)
{
    memory_register_plugins();
    KT_TRUE(kt_fail_each_alloc(list_settings, NULL, NULL) > 3);
}

static void count_release(void *arg)
{
    ++*(int *)arg;
}

static kvs_status_t give_and_take(void *arg)
{
    float data[2] = {1, 2};
    int n_released = 0;
    kvs_tensor_t tensor = KT_F32(data, 2), taken;
    void *managed;
    kvs_status_t status =
        kvs_dlpack_give(&tensor, *(int *)arg, count_release, &n_released, &managed);

    if (status != KVS_OK) {
        KT_INT(n_released, 0);
        return status;
    }
    status = kvs_dlpack_take(managed, *(int *)arg, &taken);
    if (status != KVS_OK) {
        KT_INT(n_released, 0); /* still the caller's */
        kt_fail_alloc(-1);
        KT_OK(kvs_dlpack_take(managed, *(int *)arg, &taken));
    }
    kvs_dlpack_release(&taken);
    KT_INT(n_released, 1);
    return status;
}

static void dlpack_in_and_out(void)
{
    for (int versioned = 0; versioned < 2; versioned++) {
        KT_TRUE(kt_fail_each_alloc(give_and_take, NULL, &versioned) >= 2);
    }
}

static const kt_test_t tests[] = {
    KT_TEST(listing_settings),
    KT_TEST(dlpack_in_and_out),
};
KT_MAIN("memory_settings", tests)
