/* SPDX-License-Identifier: Apache-2.0 */
/* devhost_queue.c - the queues that work for an operation, and the streams of the program that they wait
 * for and that wait for them. */
#include "devhost.h"

#include <stddef.h>

#define PER_THREAD 2 /* DLPack's number of the per-thread default stream */

size_t kvs_devhost_chunk_bytes(size_t n_bytes)
{
    size_t least = (n_bytes / KVS_DEVHOST_MAX_CHUNKS + 4096) / 4096 * 4096;

    return least < KVS_DEVHOST_CHUNK ? KVS_DEVHOST_CHUNK : least;
}

size_t kvs_devhost_n_chunks(size_t n_bytes)
{
    size_t chunk = kvs_devhost_chunk_bytes(n_bytes);

    return (n_bytes + chunk - 1) / chunk;
}

static int is_stream_of(const kvs_devhost_stream_t *stream, const kvs_tensor_t *tensor)
{
    return stream->number == tensor->stream && stream->device.id == tensor->device.id &&
           stream->device.type == tensor->device.type;
}

kvs_status_t kvs_devhost_follow(kvs_devhost_op_t *op, const kvs_tensor_t *tensor)
{
    kvs_queue_t *queue;
    kvs_status_t status = op->provider->queue(tensor->device, &queue);

    for (size_t i = 0; i < op->n_streams && status == KVS_OK; i++) {
        if (is_stream_of(&op->streams[i], tensor)) {
            return KVS_OK;
        }
    }
    if (status == KVS_OK && tensor->stream > 0) {
        kvs_devhost_stream_t *stream = &op->streams[op->n_streams];

        *stream = (kvs_devhost_stream_t){
            .device = tensor->device, .number = tensor->stream, .is_of_host = !kvs_dev_is(tensor)};
        status = op->provider->stream_mark(tensor->device, tensor->stream, &stream->mark);
        op->n_streams += status == KVS_OK;
    }
    return status;
}

/* Older providers have one queue for all. */
static kvs_status_t find_queue(const kvs_provider_t *provider, kvs_device_t device,
                               kvs_devhost_role_t role, kvs_queue_t **ret_queue)
{
    if (role == KVS_DEVHOST_WORK || provider->size <= offsetof(kvs_provider_t, copy_queue) ||
        provider->copy_queue == NULL) {
        return provider->queue(device, ret_queue);
    }
    return provider->copy_queue(device, role == KVS_DEVHOST_TO_HOST, ret_queue);
}

kvs_status_t kvs_devhost_use_queue(kvs_devhost_op_t *op, kvs_device_t device,
                                   kvs_devhost_role_t role, kvs_devhost_queue_t **ret_queue)
{
    kvs_queue_t *queue;
    kvs_status_t status = find_queue(op->provider, device, role, &queue);

    for (size_t i = 0; i < op->n_queues && status == KVS_OK; i++) {
        if (op->queues[i].queue == queue) {
            *ret_queue = &op->queues[i];
            op->queues[i].role = role;
            return KVS_OK;
        }
    }
    if (status == KVS_OK) {
        *ret_queue = &op->queues[op->n_queues++];
        **ret_queue = (kvs_devhost_queue_t){.queue = queue, .device = device, .role = role};
    }
    for (size_t i = 0; i < op->n_streams && status == KVS_OK; i++) {
        status = op->provider->wait(queue, &op->streams[i].mark);
    }
    return status;
}

static kvs_status_t release_from(kvs_devhost_op_t *op, const kvs_devhost_queue_t *queue,
                                 int is_own_thread)
{
    kvs_mark_t mark;
    kvs_status_t status = op->provider->mark(queue->queue, &mark);

    for (size_t i = 0; i < op->n_streams && status == KVS_OK; i++) {
        const kvs_devhost_stream_t *stream = &op->streams[i];

        if (!stream->is_of_host && (is_own_thread || stream->number != PER_THREAD)) {
            status = op->provider->stream_wait(stream->device, stream->number, &mark);
        }
    }
    return status;
}

kvs_status_t kvs_devhost_release_streams(kvs_devhost_op_t *op, int of_outs, int is_own_thread)
{
    kvs_status_t status = KVS_OK;

    for (size_t i = 0; i < op->n_queues; i++) {
        const kvs_devhost_queue_t *queue = &op->queues[i];

        if (queue->is_met && (queue->role == KVS_DEVHOST_FROM_HOST) == of_outs) {
            kvs_status_t one = release_from(op, queue, is_own_thread);

            status = status == KVS_OK ? one : status;
        }
    }
    return status;
}
