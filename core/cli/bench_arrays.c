/* SPDX-License-Identifier: Apache-2.0 */
/* bench_arrays.c - the arrays that an application would own: each an allocation of its own, written
 * before anything is measured, so that no page is missing. */
#include "bench_exchange.h"

#include <stdlib.h>

#define ALIGN_BYTES 64

static kvs_status_t make_one(const bench_shape_t *shape, float value, kvs_tensor_t *ret_tensor)
{
    int64_t n_elems = bench_shape_n_elems(shape);
    size_t n_bytes = (size_t)n_elems * sizeof(float);
    float *data =
        aligned_alloc(ALIGN_BYTES, (n_bytes + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES);

    if (data == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for an array of %zu bytes", n_bytes);
    }
    for (int64_t i = 0; i < n_elems; i++) {
        data[i] = value;
    }
    *ret_tensor = (kvs_tensor_t){
        .data = data,
        .device = {KVS_DEVICE_CPU, 0},
        .ndim = shape->ndim,
        .dtype = kvs_dtype(KVS_DTYPE_float32),
        .shape = shape->dims,
    };
    return KVS_OK;
}

kvs_status_t bench_arrays_make(const bench_shape_t *shapes, size_t n_keys, size_t n_per_key,
                               float value, bench_arrays_t *ret_arrays)
{
    bench_arrays_t arrays = {.n = n_keys * n_per_key, .n_keys = n_keys};
    kvs_status_t status = KVS_OK;

    arrays.tensors = calloc(arrays.n + 1, sizeof(*arrays.tensors));
    arrays.per_key = calloc(n_keys + 1, sizeof(*arrays.per_key));
    if (arrays.tensors == NULL || arrays.per_key == NULL) {
        status = kvs_fail(KVS_ERR_NO_MEMORY, "no memory for a list of %zu arrays", arrays.n);
    }
    for (size_t key = 0; key < n_keys && status == KVS_OK; key++) {
        arrays.per_key[key] = n_per_key;
    }
    for (size_t i = 0; i < arrays.n && status == KVS_OK; i++) {
        status = make_one(&shapes[i / n_per_key], value, &arrays.tensors[i]);
    }
    if (status != KVS_OK) {
        bench_arrays_release(&arrays);
        return status;
    }
    *ret_arrays = arrays;
    return KVS_OK;
}

void bench_arrays_release(bench_arrays_t *arrays)
{
    for (size_t i = 0; i < arrays->n && arrays->tensors != NULL; i++) {
        free(arrays->tensors[i].data);
    }
    free(arrays->tensors);
    free(arrays->per_key);
    *arrays = (bench_arrays_t){0};
}

kvs_arrays_t bench_arrays_all(const bench_arrays_t *arrays)
{
    return (kvs_arrays_t){arrays->tensors, arrays->n, arrays->per_key, arrays->n_keys};
}

kvs_arrays_t bench_arrays_of(const bench_arrays_t *arrays, size_t key)
{
    size_t n = arrays->per_key[key];

    return kvs_arrays(arrays->tensors + key * n, n);
}
