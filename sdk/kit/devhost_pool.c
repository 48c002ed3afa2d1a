/* SPDX-License-Identifier: Apache-2.0 */
/* devhost_pool.c - memory of operations: pinned buffers, of which some are kept for later ones, since they
 * are slow to make; and arrays on devices. */
#include "devhost.h"

#include <stdlib.h>

static void free_buffers(const kvs_provider_t *provider, kvs_devhost_buffer_t *buffer)
{
    while (buffer != NULL) {
        kvs_devhost_buffer_t *next = buffer->next;

        provider->free(buffer->device, buffer->data, buffer->n_bytes);
        free(buffer);
        buffer = next;
    }
}

static kvs_devhost_buffer_t *take_all_spare(kvs_devhost_t *host)
{
    kvs_devhost_buffer_t *list;

    pthread_mutex_lock(&host->lock);
    list = host->spare;
    host->spare = NULL;
    host->n_spare_bytes = 0;
    pthread_mutex_unlock(&host->lock);
    return list;
}

/* One that is not far too big. */
static kvs_devhost_buffer_t *take_spare(kvs_devhost_t *host, size_t n_bytes)
{
    kvs_devhost_buffer_t *buffer = NULL;

    pthread_mutex_lock(&host->lock);
    for (kvs_devhost_buffer_t **at = &host->spare; *at != NULL; at = &(*at)->next) {
        if ((*at)->n_bytes >= n_bytes && (*at)->n_bytes / 2 <= n_bytes) {
            buffer = *at;
            *at = buffer->next;
            host->n_spare_bytes -= buffer->n_bytes;
            break;
        }
    }
    pthread_mutex_unlock(&host->lock);
    return buffer;
}

static kvs_status_t add_buffer(kvs_devhost_op_t *op, kvs_device_t device, size_t n_bytes,
                               void **ret_data)
{
    kvs_devhost_buffer_t *buffer = calloc(1, sizeof(*buffer));

    if (buffer == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for a buffer's record");
    }
    *buffer = (kvs_devhost_buffer_t){.next = op->buffers, .device = device, .n_bytes = n_bytes};
    kvs_status_t status = op->provider->alloc(device, n_bytes, &buffer->data);

    if (status != KVS_OK) {
        free(buffer);
        return status;
    }
    op->buffers = buffer;
    *ret_data = buffer->data;
    return KVS_OK;
}

/* A spare one, a new one, or a new one in the room of all the spare ones. */
static kvs_status_t try_pinned(kvs_devhost_op_t *op, kvs_device_t device, size_t n_bytes,
                               void **ret_data)
{
    kvs_devhost_buffer_t *buffer = take_spare(op->host, n_bytes);
    kvs_status_t status;

    if (buffer != NULL) {
        buffer->next = op->buffers;
        op->buffers = buffer;
        *ret_data = buffer->data;
        return KVS_OK;
    }
    status = add_buffer(op, device, n_bytes, ret_data);
    if (status == KVS_ERR_NO_MEMORY) {
        free_buffers(op->provider, take_all_spare(op->host));
        status = add_buffer(op, device, n_bytes, ret_data);
    }
    return status;
}

kvs_status_t kvs_devhost_take_pinned(kvs_devhost_op_t *op, kvs_device_t device, size_t n_bytes,
                                     void **ret_data)
{
    kvs_device_t pinned = kvs_devhost_pinned_of(device);
    uint64_t seen;
    kvs_status_t status;

    do {
        seen = kvs_devhost_n_returned(op->host);
        status = try_pinned(op, pinned, n_bytes, ret_data);
    } while (status == KVS_ERR_NO_MEMORY && kvs_devhost_await_memory(op->host, seen));
    return status == KVS_OK
               ? KVS_OK
               : kvs_fail_context(status, "no %zu bytes of pinned host memory", n_bytes);
}

kvs_status_t kvs_devhost_take_scratch(kvs_devhost_op_t *op, kvs_device_t device, size_t n_bytes,
                                      void **ret_data)
{
    uint64_t seen;
    kvs_status_t status;

    do {
        seen = kvs_devhost_n_returned(op->host);
        status = add_buffer(op, device, n_bytes, ret_data);
    } while (status == KVS_ERR_NO_MEMORY && kvs_devhost_await_memory(op->host, seen));
    return status;
}

void kvs_devhost_give_back(kvs_devhost_op_t *op)
{
    kvs_devhost_t *host = op->host;
    kvs_devhost_buffer_t *others = NULL;

    pthread_mutex_lock(&host->lock);
    while (op->buffers != NULL) {
        kvs_devhost_buffer_t *buffer = op->buffers;
        int is_kept = buffer->device.type == KVS_DEVICE_CUDA_HOST &&
                      host->n_spare_bytes + buffer->n_bytes <= KVS_DEVHOST_SPARE_BYTES;
        kvs_devhost_buffer_t **list = is_kept ? &host->spare : &others;

        op->buffers = buffer->next;
        buffer->next = *list;
        *list = buffer;
        host->n_spare_bytes += is_kept ? buffer->n_bytes : 0;
    }
    pthread_mutex_unlock(&host->lock);
    free_buffers(op->provider, others);
    pthread_mutex_lock(&host->lock);
    host->n_ending -= op->is_ending;
    host->n_returned++;
    pthread_cond_broadcast(&host->changed);
    pthread_mutex_unlock(&host->lock);
}

void kvs_devhost_free_spare(kvs_devhost_t *host)
{
    const kvs_provider_t *provider;
    kvs_devhost_buffer_t *list = take_all_spare(host);

    if (list != NULL && kvs_provider_find(KVS_DEVICE_CUDA, &provider) == KVS_OK) {
        free_buffers(provider, list);
    }
}
