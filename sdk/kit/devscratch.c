/* SPDX-License-Identifier: Apache-2.0 */
#include "devscratch.h"

#include <stdlib.h>

struct kvs_dev_scratch {
    struct kvs_dev_scratch *next;
    kvs_device_t device;
    void *data;
    size_t n_bytes;
};

kvs_status_t kvs_dev_scratch_take(kvs_dev_scratch_t **list, const kvs_provider_t *provider,
                                  kvs_device_t device, size_t n_bytes, void **ret_data)
{
    kvs_dev_scratch_t *scratch = malloc(sizeof(*scratch));
    kvs_status_t status;

    if (scratch == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory to note an array on a device");
    }
    status = provider->alloc(device, n_bytes, &scratch->data);
    if (status != KVS_OK) {
        free(scratch);
        return status;
    }
    scratch->device = device;
    scratch->n_bytes = n_bytes;
    scratch->next = *list;
    *list = scratch;
    *ret_data = scratch->data;
    return KVS_OK;
}

void kvs_dev_scratch_release(kvs_dev_scratch_t **list, const kvs_provider_t *provider)
{
    while (*list != NULL) {
        kvs_dev_scratch_t *scratch = *list;

        *list = scratch->next;
        provider->free(scratch->device, scratch->data, scratch->n_bytes);
        free(scratch);
    }
}
