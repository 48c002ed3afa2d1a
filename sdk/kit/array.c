/* SPDX-License-Identifier: Apache-2.0 */
/* array.c - what a dtype's number and a tensor's shape say. */
#include <kvstore/kit.h>

size_t kvs_dtype_bytes(int dtype)
{
    switch (dtype) {
#define BYTES_OF(name, code, bits)                                                                 \
    case KVS_DTYPE_##name:                                                                         \
        return (bits) / 8;
        KVS_DTYPE_LIST(BYTES_OF)
#undef BYTES_OF
    default:
        return 0;
    }
}

int kvs_dtype_is_floating(int dtype)
{
    switch (dtype) {
#define IS_FLOATING(name, code, bits)                                                              \
    case KVS_DTYPE_##name:                                                                         \
        return (code) == KVS_CODE_FLOAT || (code) == KVS_CODE_BFLOAT;
        KVS_DTYPE_LIST(IS_FLOATING)
#undef IS_FLOATING
    default:
        return 0;
    }
}

int64_t kvs_tensor_n_elems(const kvs_tensor_t *tensor)
{
    int64_t n = 1;

    for (int32_t i = 0; i < tensor->ndim; i++) {
        n *= tensor->shape[i];
    }
    return n;
}
