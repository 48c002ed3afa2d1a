/* SPDX-License-Identifier: Apache-2.0 */
/* device.c - memory of devices for programs: the host's own, and what a provider has. */
#include "registry.h"

#include <kvstore/abi.h>

#include <stdlib.h>
#include <string.h>

#define ALLOC_MS 60000

static int is_host(int32_t device_type)
{
    return device_type == KVS_DEVICE_CPU;
}

/* Providers of host-like memory only can't do what is asked here. Pinned and managed memory is cuda's. */
static kvs_status_t find(int32_t device_type, const kvs_provider_t **ret_provider)
{
    int32_t type = device_type == KVS_DEVICE_CUDA_HOST || device_type == KVS_DEVICE_CUDA_MANAGED
                       ? KVS_DEVICE_CUDA
                       : device_type;
    kvs_status_t status = kvsi_registry_find_provider(type, ret_provider);

    if (status == KVS_OK && ((*ret_provider)->queue == NULL || (*ret_provider)->copy_now == NULL)) {
        return kvs_fail(KVS_ERR_NOT_IMPLEMENTED, "not implemented: queues by device provider '%s'",
                        (*ret_provider)->name);
    }
    return status == KVS_OK ? (*ret_provider)->probe() : status;
}

static kvs_status_t need(const void *argument, const char *what, const char *name)
{
    return argument != NULL ? KVS_OK : kvs_fail(KVS_ERR_ARGUMENT, "%s: %s is NULL", what, name);
}

kvs_status_t kvs_device_count(int32_t device_type, int *ret_n)
{
    const kvs_provider_t *provider;
    kvs_status_t status = need(ret_n, "device_count", "ret_n");

    if (status == KVS_OK && is_host(device_type)) {
        *ret_n = 1;
        return KVS_OK;
    }
    status = status == KVS_OK ? find(device_type, &provider) : status;
    return status == KVS_OK ? provider->n_devices(ret_n) : status;
}

kvs_status_t kvs_device_info(kvs_device_t device, kvs_device_info_t *ret_info)
{
    const kvs_provider_t *provider;
    kvs_device_info_t info = {.size = (uint32_t)sizeof(info), .name = "host memory"};
    kvs_status_t status = need(ret_info, "device_info", "ret_info");

    if (status == KVS_OK && ret_info->size < sizeof(info.size)) {
        status =
            kvs_fail(KVS_ERR_ARGUMENT, "device_info: the size of ret_info is %u", ret_info->size);
    }
    if (status == KVS_OK && !is_host(device.type)) {
        status = find(device.type, &provider);
        status = status == KVS_OK ? provider->info(device.id, &info) : status;
    }
    if (status == KVS_OK) {
        uint32_t size = ret_info->size;

        memcpy(ret_info, &info, size < sizeof(info) ? size : sizeof(info));
        ret_info->size = size;
    }
    return status;
}

kvs_status_t kvs_device_reaches(int32_t device_type, int from, int to, int *ret_how_well)
{
    const kvs_provider_t *provider;
    kvs_status_t status = need(ret_how_well, "device_reaches", "ret_how_well");

    if (status == KVS_OK && is_host(device_type)) {
        *ret_how_well = 1;
        return KVS_OK;
    }
    status = status == KVS_OK ? find(device_type, &provider) : status;
    if (status == KVS_OK) {
        *ret_how_well = provider->reaches(from, to);
    }
    return status;
}

/* Providers zero memory in the order of their queue; streams of the program know nothing of that. */
static kvs_status_t alloc_and_wait(const kvs_provider_t *provider, kvs_device_t device,
                                   size_t n_bytes, void **ret_data)
{
    kvs_queue_t *queue;
    kvs_mark_t mark;
    void *data;
    kvs_status_t status = provider->queue(device, &queue);

    status = status == KVS_OK ? provider->alloc(device, n_bytes, &data) : status;
    if (status != KVS_OK) {
        return status;
    }
    status = provider->mark(queue, &mark);
    status = status == KVS_OK ? provider->host_wait(&mark, ALLOC_MS) : status;
    if (status != KVS_OK) {
        provider->free(device, data, n_bytes);
        return status;
    }
    *ret_data = data;
    return KVS_OK;
}

kvs_status_t kvs_device_alloc(kvs_device_t device, size_t n_bytes, void **ret_data)
{
    const kvs_provider_t *provider;
    kvs_status_t status = need(ret_data, "device_alloc", "ret_data");

    if (status != KVS_OK || n_bytes == 0 || !is_host(device.type)) {
        status = status == KVS_OK && !is_host(device.type) ? find(device.type, &provider) : status;
        if (status == KVS_OK && n_bytes == 0) {
            *ret_data = NULL;
        }
        return status != KVS_OK || n_bytes == 0
                   ? status
                   : alloc_and_wait(provider, device, n_bytes, ret_data);
    }
    void *data =
        n_bytes > (size_t)PTRDIFF_MAX - 63 ? NULL : aligned_alloc(64, (n_bytes + 63) / 64 * 64);

    if (data == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "device_alloc: no host memory for %zu bytes", n_bytes);
    }
    *ret_data = memset(data, 0, n_bytes);
    return KVS_OK;
}

void kvs_device_free(kvs_device_t device, void *data, size_t n_bytes)
{
    const kvs_provider_t *provider;

    if (is_host(device.type)) {
        free(data);
    } else if (data != NULL && find(device.type, &provider) == KVS_OK) {
        provider->free(device, data, n_bytes);
    }
}

kvs_status_t kvs_device_copy(kvs_device_t dst_device, void *dst, kvs_device_t src_device,
                             const void *src, size_t n_bytes)
{
    kvs_device_t device = is_host(dst_device.type) ? src_device : dst_device;
    const kvs_provider_t *provider;
    kvs_queue_t *queue;

    if (n_bytes > 0 && (dst == NULL || src == NULL)) {
        return kvs_fail(KVS_ERR_ARGUMENT, "device_copy: %s is NULL", dst == NULL ? "dst" : "src");
    }
    if (is_host(device.type)) {
        memmove(dst, src, n_bytes);
        return KVS_OK;
    }
    kvs_status_t status = find(device.type, &provider);

    status = status == KVS_OK ? provider->queue(device, &queue) : status;
    return status == KVS_OK ? provider->copy_now(queue, dst, src, n_bytes) : status;
}
