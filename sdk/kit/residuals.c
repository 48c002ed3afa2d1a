/* SPDX-License-Identifier: Apache-2.0 */
/* residuals.c - the memory of compression: see residuals.h. */
#include "residuals.h"

#include <kvstore/kit.h>

#include <stdlib.h>
#include <string.h>

static const kvs_device_t host_device = {KVS_DEVICE_CPU, 0};

static size_t n_bytes_of(const kvs_residuals_t *residuals)
{
    return (size_t)residuals->n_elems * sizeof(float);
}

static void release_item(const kvs_residuals_t *residuals, kvs_residual_t *item)
{
    const kvs_provider_t *cpu = kvs_cpu_provider();

    cpu->free(host_device, item->data, n_bytes_of(residuals));
    cpu->free(host_device, item->next, n_bytes_of(residuals));
    cpu->free(host_device, item->packed, item->packed_bytes);
    *item = (kvs_residual_t){0};
}

void kvs_residuals_release(kvs_residuals_t *residuals)
{
    for (size_t i = 0; i < residuals->n; i++) {
        release_item(residuals, &residuals->items[i]);
    }
    free(residuals->items);
    *residuals = (kvs_residuals_t){0};
}

kvs_status_t kvs_residuals_reserve(kvs_residuals_t *residuals, int64_t n_elems, size_t n_places)
{
    if (n_places <= residuals->n) {
        return KVS_OK;
    }
    kvs_residual_t *grown = realloc(residuals->items, n_places * sizeof(*grown));

    if (grown == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for %zu residuals", n_places);
    }
    residuals->items = grown;
    residuals->n_elems = n_elems;
    while (residuals->n < n_places) {
        kvs_residual_t *item = &grown[residuals->n];

        *item = (kvs_residual_t){0};
        kvs_status_t status =
            kvs_cpu_provider()->alloc(host_device, n_bytes_of(residuals), &item->data);
        if (status != KVS_OK) {
            return kvs_fail_context(status, "residual of value %zu", residuals->n);
        }
        residuals->n++;
    }
    return KVS_OK;
}

kvs_status_t kvs_residual_make_room(kvs_residuals_t *residuals, size_t place, size_t packed_bytes)
{
    const kvs_provider_t *cpu = kvs_cpu_provider();
    kvs_residual_t *item = &residuals->items[place];
    kvs_status_t status = KVS_OK;

    if (item->next == NULL) {
        status = cpu->alloc(host_device, n_bytes_of(residuals), &item->next);
    }
    if (status == KVS_OK && item->packed_bytes != packed_bytes) {
        cpu->free(host_device, item->packed, item->packed_bytes);
        item->packed = NULL;
        item->packed_bytes = 0;
        status = cpu->alloc(host_device, packed_bytes, &item->packed);
        item->packed_bytes = status == KVS_OK ? packed_bytes : 0;
    }
    return status == KVS_OK ? KVS_OK : kvs_fail_context(status, "compression of value %zu", place);
}

const float *kvs_residuals_at(const kvs_residuals_t *residuals, size_t place)
{
    return residuals->items[place].data;
}

kvs_status_t kvs_residuals_set(kvs_residuals_t *residuals, int64_t n_elems, size_t place,
                               const float *data)
{
    kvs_status_t status = kvs_residuals_reserve(residuals, n_elems, place + 1);

    if (status == KVS_OK && n_elems > 0) {
        memcpy(residuals->items[place].data, data, n_bytes_of(residuals));
    }
    return status;
}
