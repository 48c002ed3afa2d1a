/* SPDX-License-Identifier: Apache-2.0 */
/* A host store with a compressor of a third party, whose unit is too large for the blocks in which the
 * store works: the sum is then unpacked as a whole first. Through the core, with plugins of the
 * program. */
#include "host.h"
#include "kt.h"
#include "mean.h"

#include <kvstore/kit.h>

#include <stdlib.h>

#define N (2 * KVS_COMPRESSOR_BLOCK + 100)

const kvs_host_t *kvs_plugin_host;

static const kvs_compressor_t *const compressors[] = {&mean_compressor};

static const kvs_plugin_t *enter(const kvs_host_t *host, const char **ret_refusal)
{
    static const kvs_plugin_t plugin = {
        .size = sizeof(plugin),
        .abi_major = KVS_ABI_MAJOR,
        .abi_minor = KVS_ABI_MINOR,
        .name = "mean",
        .version = "1.0.0",
        .compressors = compressors,
        .n_compressors = 1,
    };

    (void)host;
    (void)ret_refusal;
    return &plugin;
}

static const kvs_backend_ops_t ops = {
    .size = sizeof(ops),
    .mode = KVS_BLOCKING,
    .store_size = sizeof(kvs_hoststore_t),
    .key_size = sizeof(kvs_hoststore_key_t),
    .group_size = sizeof(kvs_hoststore_group_t),
    .open = kvs_hoststore_open,
    .close = kvs_hoststore_close,
    .key_release = kvs_hoststore_key_release,
    .issue = kvs_hoststore_issue,
    .init = kvs_hoststore_init,
    .push = kvs_hoststore_push,
    .pull = kvs_hoststore_pull,
    .pushpull = kvs_hoststore_pushpull,
    .set_updater = kvs_hoststore_set_updater,
    .set_optimizer = kvs_hoststore_set_optimizer,
    .set_gradient_compression = kvs_hoststore_set_gradient_compression,
};

static const int32_t device_types[] = {KVS_DEVICE_CPU};

static const kvs_backend_t backend = {
    .size = sizeof(backend),
    .capabilities = KVS_CAN_OPTIMIZER | KVS_CAN_COMPRESSION | KVS_KEEPS_WEIGHTS,
    .name = "compressed",
    .dtypes = KVS_DTYPES_ALL,
    .n_device_types = 1,
    .device_types = device_types,
    .ops = &ops,
};

/* A store that compresses by `mean`, with key 1: N elements, all of them 1. */
static kvs_store_t *open_store(void)
{
    static int registered;
    kvs_param_t type = {.name = "type", .type = KVS_PARAM_TEXT, .value = {.text = "mean"}};
    float *ones = malloc(N * sizeof(*ones));
    kvs_tensor_t tensor = KT_F32(ones, N);
    kvs_arrays_t arrays = kvs_arrays(&tensor, 1);
    kvs_key_t key = kvs_key_int(1);
    kvs_store_t *store = NULL;

    kvs_plugin_host = kvsi_host();
    if (!registered++) {
        KT_OK(kvs_plugin_register(enter, "{\"manifest_version\": \"1.0\", \"name\": \"mean\","
                                         " \"version\": \"1.0.0\", \"arch\": \"" KVS_ARCH "\","
                                         " \"abi\": \"1.0\", \"provides\":"
                                         " [{\"kind\": \"compressor\", \"name\": \"mean\"}]}"));
        KT_OK(kvs_register_backend("compressed", &backend));
    }
    for (int i = 0; i < N; i++) {
        ones[i] = 1;
    }
    KT_OK(kvs_store_create("compressed", NULL, 0, &store));
    KT_OK(kvs_store_init(store, &key, 1, &arrays, NULL));
    KT_OK(kvs_store_set_gradient_compression(store, &type, 1));
    free(ones);
    return store;
}

/* Push arrays that are zero but for the first elements of their three blocks, whose means are whole
 * numbers, `times` and twice that: the sum of both is 3, 6, 9 times `times`. */
static void push(kvs_store_t *store, float times)
{
    float *values = calloc(2 * N, sizeof(*values));
    kvs_tensor_t tensors[2] = {KT_F32(values, N), KT_F32(values + N, N)};
    kvs_arrays_t arrays = kvs_arrays(tensors, 2);
    kvs_key_t key = kvs_key_int(1);

    for (int i = 0; i < 2; i++) {
        float *value = values + i * N;

        value[0] = times * (float)(i + 1) * KVS_COMPRESSOR_BLOCK;
        value[KVS_COMPRESSOR_BLOCK] = 2 * times * (float)(i + 1) * KVS_COMPRESSOR_BLOCK;
        value[2 * KVS_COMPRESSOR_BLOCK] = 3 * times * (float)(i + 1) * 100;
    }
    KT_OK(kvs_store_push(store, &key, 1, &arrays, NULL));
    free(values);
}

/* The key's blocks are these numbers all over. */
static void want_blocks(kvs_store_t *store, float first, float second, float third)
{
    float *out = malloc(N * sizeof(*out));
    kvs_tensor_t tensor = KT_F32(out, N);
    kvs_arrays_t arrays = kvs_arrays(&tensor, 1);
    kvs_key_t key = kvs_key_int(1);

    KT_OK(kvs_store_pull(store, &key, 1, &arrays, NULL));
    KT_REAL(out[0], first);
    KT_REAL(out[KVS_COMPRESSOR_BLOCK - 1], first);
    KT_REAL(out[KVS_COMPRESSOR_BLOCK], second);
    KT_REAL(out[2 * KVS_COMPRESSOR_BLOCK - 1], second);
    KT_REAL(out[2 * KVS_COMPRESSOR_BLOCK], third);
    KT_REAL(out[N - 1], third);
    free(out);
}

static void a_plain_sum_replaces_the_stored_value(void)
{
    kvs_store_t *store = open_store();

    push(store, 1);
    want_blocks(store, 3, 6, 9);
    push(store, 2); /* residuals have mean 0 */
    want_blocks(store, 6, 12, 18);
    KT_OK(kvs_store_close(store));
}

static kvs_status_t add(const kvs_key_t *key, const kvs_tensor_t *value, const kvs_tensor_t *stored,
                        void *arg)
{
    (void)key;
    (void)arg;
    for (int64_t i = 0; i < N; i++) {
        ((float *)stored->data)[i] += ((const float *)value->data)[i];
    }
    return KVS_OK;
}

static void an_updater_is_given_the_sum(void)
{
    kvs_store_t *store = open_store();

    KT_OK(kvs_store_set_updater(store, add, NULL));
    push(store, 1);
    want_blocks(store, 4, 7, 10);
    KT_OK(kvs_store_close(store));
}

static void an_optimizer_is_given_the_sum(void)
{
    kvs_param_t rate = {.name = "learning_rate", .type = KVS_PARAM_FLOAT, .value = {.real = 1}};
    kvs_optimizer_spec_t sgd = KVS_OPTIMIZER_INIT;
    kvs_store_t *store = open_store();

    sgd.name = "sgd";
    sgd.params = &rate;
    sgd.n_params = 1;
    KT_OK(kvs_store_set_optimizer(store, &sgd));
    push(store, 1);
    want_blocks(store, -2, -5, -8);
    KT_OK(kvs_store_close(store));
}

static const kt_test_t tests[] = {
    KT_TEST(a_plain_sum_replaces_the_stored_value),
    KT_TEST(an_updater_is_given_the_sum),
    KT_TEST(an_optimizer_is_given_the_sum),
};
KT_MAIN("compressed_store", tests)
