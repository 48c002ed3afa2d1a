/* SPDX-License-Identifier: Apache-2.0 */
#include "sums.h"

#include <stdlib.h>

void sums_fill(void *data, int dtype, int64_t n, int rank, int seed)
{
    uint64_t x = (uint64_t)(rank * 1000 + seed) * UINT64_C(0x9E3779B97F4A7C15) + 1;

    for (int64_t i = 0; i < n; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        switch (dtype) {
        case KVS_DTYPE_float32:
            ((float *)data)[i] = (float)((int64_t)(x >> 20) - (INT64_C(1) << 43)) / 1e6f;
            break;
        case KVS_DTYPE_float64:
            ((double *)data)[i] = (double)(int64_t)x / 3e9;
            break;
        case KVS_DTYPE_float16: /* exponents up to 2^11 */
            ((uint16_t *)data)[i] = (uint16_t)((x & 0x83ff) | (x >> 32) % 26 << 10);
            break;
        case KVS_DTYPE_bfloat16:
            ((uint16_t *)data)[i] = (uint16_t)((x & 0x807f) | (100 + (x >> 32) % 50) << 7);
            break;
        case KVS_DTYPE_int8:
        case KVS_DTYPE_uint8:
            ((uint8_t *)data)[i] = (uint8_t)x;
            break;
        case KVS_DTYPE_int32:
            ((uint32_t *)data)[i] = (uint32_t)x;
            break;
        default:
            ((uint64_t *)data)[i] = x;
            break;
        }
    }
}

size_t sums_bytes(int dtype, int64_t n)
{
    return (size_t)n * kvs_dtype(dtype).bits / 8;
}

void *sums_add(kvs_store_t *local, int dtype, int64_t n, void *const *arrays, int n_arrays)
{
    static int64_t n_keys;
    kvs_tensor_t tensors[SUMS_MAX];
    kvs_arrays_t values = kvs_arrays(tensors, (size_t)n_arrays);
    kvs_key_t key = kvs_key_int(n_keys++);
    void *result = calloc(1, sums_bytes(dtype, n) + 1);
    kvs_tensor_t out = kt_tensor(result, dtype, &n, 1);
    kvs_arrays_t outs = kvs_arrays(&out, 1);

    for (int i = 0; i < n_arrays; i++) {
        tensors[i] = kt_tensor(arrays[i], dtype, &n, 1);
    }
    KT_OK(kvs_store_init(local, &key, 1, &outs, NULL));
    KT_OK(kvs_store_pushpull(local, &key, 1, &values, &outs, NULL));
    return result;
}

void *sums_by_local(kvs_store_t *local, int dtype, int64_t n, int first, int n_ranks, int seed)
{
    void *arrays[SUMS_MAX] = {NULL}, *result;

    for (int i = 0; i < n_ranks; i++) {
        arrays[i] = malloc(sums_bytes(dtype, n) + 1);
        sums_fill(arrays[i], dtype, n, first + i, seed);
    }
    result = sums_add(local, dtype, n, arrays, n_ranks);
    for (int i = 0; i < n_ranks; i++) {
        free(arrays[i]);
    }
    return result;
}
