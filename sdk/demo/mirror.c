/* SPDX-License-Identifier: Apache-2.0 */
#include "mirror.h"

#include <stdlib.h>

static size_t n_bytes_of(const kvs_tensor_t *array)
{
    size_t n_bytes = sizeof(float);

    for (int32_t i = 0; i < array->ndim; i++) {
        n_bytes *= (size_t)array->shape[i];
    }
    return n_bytes;
}

kvs_status_t mirror_new(const kvs_tensor_t *arrays, size_t n, size_t first,
                        kvs_tensor_t **ret_mirror)
{
    int n_gpus = 0;
    kvs_status_t status = kvs_device_count(KVS_DEVICE_CUDA, &n_gpus);
    kvs_tensor_t *mirror = NULL;

    if (status == KVS_OK && n_gpus == 0) {
        status = kvs_fail(KVS_ERR_UNAVAILABLE, "the CUDA driver sees no GPU");
    }
    if (status != KVS_OK) {
        return status;
    }
    mirror = calloc(n, sizeof(*mirror));
    if (mirror == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for a list of %zu arrays", n);
    }
    for (size_t i = 0; i < n && status == KVS_OK; i++) {
        size_t gpu = (first + (size_t)arrays[i].device.id) % (size_t)n_gpus;

        mirror[i] = arrays[i];
        mirror[i].data = NULL;
        mirror[i].device = (kvs_device_t){KVS_DEVICE_CUDA, (int32_t)gpu};
        status = kvs_device_alloc(mirror[i].device, n_bytes_of(&mirror[i]), &mirror[i].data);
    }
    if (status != KVS_OK) {
        mirror_free(mirror, n);
        return status;
    }
    *ret_mirror = mirror;
    return KVS_OK;
}

void mirror_free(kvs_tensor_t *mirror, size_t n)
{
    for (size_t i = 0; mirror != NULL && i < n; i++) {
        if (mirror[i].data != NULL) {
            kvs_device_free(mirror[i].device, mirror[i].data, n_bytes_of(&mirror[i]));
        }
    }
    free(mirror);
}

kvs_status_t mirror_copy(const kvs_tensor_t *to, const kvs_tensor_t *from, size_t n)
{
    kvs_status_t status = KVS_OK;

    for (size_t i = 0; i < n && status == KVS_OK; i++) {
        status = kvs_device_copy(to[i].device, to[i].data, from[i].device, from[i].data,
                                 n_bytes_of(&from[i]));
    }
    return status;
}
