/* SPDX-License-Identifier: Apache-2.0 */
/* misuse.c - the misused store and its checks. */
#include "misuse.h"

const int64_t misuse_shape[2] = {2, 3};
static const float initial[MISUSE_N] = {1, 2, 3, 4, 5, 6};

kvs_store_t *misuse_create(const char *type)
{
    kvs_store_t *store = NULL;

    KT_OK(kvs_store_create(type, NULL, 0, &store));
    return store;
}

static kvs_store_t *open_with(kvs_key_t key)
{
    kvs_store_t *store = misuse_create("local");
    float value[MISUSE_N];

    memcpy(value, initial, sizeof(value));
    KT_OK(misuse_init(store, key, kt_tensor(value, KVS_DTYPE_float32, misuse_shape, 2)));
    return store;
}

kvs_store_t *misuse_open(void)
{
    return open_with(kvs_key_int(MISUSE_KEY));
}

kvs_store_t *misuse_open_str(void)
{
    return open_with(kvs_key_str("w"));
}

kvs_status_t misuse_init(kvs_store_t *store, kvs_key_t key, kvs_tensor_t value)
{
    kvs_arrays_t values = kvs_arrays(&value, 1);

    return kvs_store_init(store, &key, 1, &values, NULL);
}

kvs_status_t misuse_push(kvs_store_t *store, kvs_key_t key, kvs_tensor_t value)
{
    kvs_arrays_t values = kvs_arrays(&value, 1);

    return kvs_store_push(store, &key, 1, &values, NULL);
}

kvs_status_t misuse_pull(kvs_store_t *store, kvs_key_t key, kvs_tensor_t out)
{
    kvs_arrays_t outs = kvs_arrays(&out, 1);

    return kvs_store_pull(store, &key, 1, &outs, NULL);
}

static void check_shaped(kvs_store_t *store, kvs_key_t key, const float *want, const int64_t *shape,
                         int32_t ndim)
{
    float got[64] = {0};
    int64_t n = 1;

    for (int32_t i = 0; i < ndim; i++) {
        n *= shape[i];
    }
    if (KT_OK(misuse_pull(store, key, kt_tensor(got, KVS_DTYPE_float32, shape, ndim)))) {
        for (int64_t i = 0; i < n; i++) {
            KT_REAL(got[i], want[i]);
        }
    }
}

void misuse_check(kvs_store_t *store, kvs_key_t key, const float *want, int64_t n)
{
    check_shaped(store, key, want, &n, 1);
}

void misuse_close_working(kvs_store_t *store, kvs_key_t fresh_key)
{
    float first[2] = {1, 2};
    float second[2] = {30, 40};

    KT_OK(kvs_store_set_updater(store, NULL, NULL));
    KT_OK(misuse_init(store, fresh_key, KT_F32(first, 2)));
    KT_OK(misuse_push(store, fresh_key, KT_F32(second, 2)));
    misuse_check(store, fresh_key, second, 2);
    KT_OK(kvs_store_wait_all(store, -1));
    KT_OK(kvs_store_close(store));
}

void misuse_close_untouched(kvs_store_t *store)
{
    kvs_stats_t stats = {.size = sizeof(stats)};
    kvs_key_t key = kvs_key_int(MISUSE_KEY);
    kvs_key_t fresh = kvs_key_int(1000);
    float out[MISUSE_N];

    if (misuse_pull(store, key, kt_tensor(out, KVS_DTYPE_float32, misuse_shape, 2)) ==
        KVS_ERR_KEY_TYPE) {
        key = kvs_key_str("w");
        fresh = kvs_key_str("fresh");
    }
    check_shaped(store, key, initial, misuse_shape, 2);
    KT_OK(kvs_store_stats(store, &stats));
    KT_INT(stats.n_inits, 1);
    KT_INT(stats.n_pushes, 0);
    KT_INT(stats.n_pushpulls, 0);
    misuse_close_working(store, fresh);
}
