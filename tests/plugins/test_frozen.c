/* SPDX-License-Identifier: Apache-2.0 */
/* A plugin that was built with the first headers, as a binary, in today's core. */
#include "kt.h"

#include <kvstore/plugins.h>

#include <stdlib.h>

static void use_frozen(void)
{
    const char *dir = kt_temp_dir();

    kt_write_file(dir, "frozen.json",
                  "{\"manifest_version\": \"1.0\", \"name\": \"frozen\", \"version\": \"1.0\","
                  " \"library\": \"" KVS_FROZEN_DIR "/kvs_frozen.so\", \"arch\": \"" KVS_ARCH "\","
                  " \"abi\": \"1.0\", \"provides\": [{\"kind\": \"backend\", \"name\": \"frozen\","
                  " \"capabilities\": {\"devices\": [\"cpu\"], \"dtypes\": [\"float32\"]}}]}");
    setenv("KVSTORE_PLUGIN_PATH", dir, 1);
}

static kvs_store_t *create(const char *scale)
{
    const kvs_option_t option = {"scale", scale};
    kvs_store_t *store = NULL;

    KT_OK(kvs_store_create("frozen", &option, 1, &store));
    return store;
}

static void its_operations_work(void)
{
    float a[3] = {1, 2, 3}, b[3] = {10, 20, 30}, sum[3];
    kvs_tensor_t values[2] = {KT_F32(a, 3), KT_F32(b, 3)}, out = KT_F32(sum, 3);
    kvs_arrays_t in = kvs_arrays(values, 2), outs = kvs_arrays(&out, 1);
    kvs_key_t key = kvs_key_str("w");
    int rank = -1;

    use_frozen();
    kvs_store_t *store = create("3");
    KT_OK(kvs_store_pushpull(store, &key, 1, &in, &outs, NULL));
    KT_REAL(sum[0], 33);
    KT_REAL(sum[1], 66);
    KT_REAL(sum[2], 99);
    KT_OK(kvs_store_rank(store, &rank));
    KT_INT(rank, 1);
    KT_OK(kvs_store_close(store));
}

static void what_it_does_not_have_is_not_implemented(void)
{
    float a[1] = {1};
    kvs_tensor_t value = KT_F32(a, 1);
    kvs_arrays_t arrays = kvs_arrays(&value, 1);
    kvs_key_t key = kvs_key_int(1);
    int workers = -1;

    use_frozen();
    kvs_store_t *store = create("1");
    KT_FAIL(kvs_store_push(store, &key, 1, &arrays, NULL), KVS_ERR_NOT_IMPLEMENTED,
            "not implemented: push by frozen");
    KT_FAIL(kvs_store_set_optimizer_attr(store, &(kvs_param_t){.name = "wd"}),
            KVS_ERR_NOT_IMPLEMENTED, "by frozen");
    KT_OK(kvs_store_num_workers(store, &workers));
    KT_INT(workers, 1);
    KT_OK(kvs_store_close(store));
}

static void its_errors_arrive(void)
{
    const kvs_option_t none = {"scale", "0"}, bad_luck = {"scale", "13"}, wrong = {"scale", "x"};
    kvs_store_t *store = NULL;

    use_frozen();
    KT_FAIL(kvs_store_create("Frozen", &none, 1, &store), KVS_ERR_ARGUMENT,
            "'frozen' has no use for scale 0");
    KT_FAIL(kvs_store_create("frozen", &bad_luck, 1, &store), KVS_ERR_UNAVAILABLE,
            "backend 'frozen' is unavailable: the scale is 13, which brings bad luck");
    KT_FAIL(kvs_store_create("frozen", &wrong, 1, &store), KVS_ERR_ARGUMENT,
            "option: scale is \"x\"; accepted is");
}

static const kt_test_t tests[] = {
    KT_TEST(its_operations_work),
    KT_TEST(what_it_does_not_have_is_not_implemented),
    KT_TEST(its_errors_arrive),
};
KT_MAIN("plugins.frozen", tests)
