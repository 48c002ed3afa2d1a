/* SPDX-License-Identifier: Apache-2.0 */
/* devstore_marks.c - where the program's streams are when an operation is issued, on the thread that
 * issues it: each distinct stream of a group once. */
#include "devstore.h"

#include <stdlib.h>

#define PER_THREAD 2 /* DLPack's number of the per-thread default stream */

typedef struct stream {
    kvs_device_t device;
    int64_t number;
    kvs_mark_t mark;
} stream_t;

/* Kept in the store's list, so that operations that never run lose nothing. */
struct kvs_dev_marks {
    struct kvs_dev_marks *prev, *next;
    size_t n;
    stream_t streams[];
};

static int same_stream(const stream_t *stream, const kvs_tensor_t *tensor)
{
    return stream->number == tensor->stream && stream->device.id == tensor->device.id &&
           stream->device.type == tensor->device.type;
}

static kvs_status_t take_array(const kvs_provider_t *provider, kvs_dev_marks_t *marks,
                               const kvs_tensor_t *tensor)
{
    kvs_queue_t *queue;
    kvs_status_t status = provider->queue(tensor->device, &queue);

    for (size_t i = 0; i < marks->n && status == KVS_OK; i++) {
        if (same_stream(&marks->streams[i], tensor)) {
            return KVS_OK;
        }
    }
    if (status == KVS_OK && tensor->stream > 0) {
        stream_t *stream = &marks->streams[marks->n];

        *stream = (stream_t){.device = tensor->device, .number = tensor->stream};
        status = provider->stream_mark(tensor->device, tensor->stream, &stream->mark);
        marks->n += status == KVS_OK;
    }
    return status;
}

static kvs_status_t take_arrays(const kvs_provider_t *provider, kvs_dev_marks_t *marks,
                                const char *what, const kvs_tensor_t *tensors, size_t n)
{
    kvs_status_t status = KVS_OK;

    for (size_t i = 0; i < n && status == KVS_OK; i++) {
        if (kvs_dev_is(&tensors[i])) {
            status = take_array(provider, marks, &tensors[i]);
            status = status == KVS_OK ? KVS_OK : kvs_fail_context(status, "%s %zu", what, i);
        }
    }
    return status;
}

static size_t n_on_devices(const kvs_tensor_t *tensors, size_t n)
{
    size_t n_found = 0;

    for (size_t i = 0; i < n; i++) {
        n_found += kvs_dev_is(&tensors[i]);
    }
    return n_found;
}

kvs_status_t kvs_dev_marks_take(kvs_devstore_t *store, kvs_group_t *group)
{
    kvs_devstore_group_t *state = group->state;
    size_t n = n_on_devices(group->values, group->n_values) +
               n_on_devices(group->outs, group->n_outs) +
               n_on_devices(group->row_ids, group->n_row_ids);
    const kvs_provider_t *provider;
    kvs_status_t status = n > 0 ? kvs_dev_provider(&provider) : KVS_OK;

    if (n == 0 || status != KVS_OK) {
        return status;
    }
    kvs_dev_marks_t *marks = calloc(1, sizeof(*marks) + n * sizeof(marks->streams[0]));

    if (marks == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory to follow %zu streams", n);
    }
    status = take_arrays(provider, marks, "value", group->values, group->n_values);
    if (status == KVS_OK) {
        status = take_arrays(provider, marks, "out", group->outs, group->n_outs);
    }
    if (status == KVS_OK) {
        status = take_arrays(provider, marks, "row id array", group->row_ids, group->n_row_ids);
    }
    if (status != KVS_OK) {
        free(marks);
        return status;
    }
    pthread_mutex_lock(&store->host.lock);
    marks->next = store->marks;
    if (marks->next != NULL) {
        marks->next->prev = marks;
    }
    store->marks = marks;
    pthread_mutex_unlock(&store->host.lock);
    state->marks = marks;
    return KVS_OK;
}

void kvs_dev_marks_drop(kvs_devstore_t *store, kvs_group_t *group)
{
    kvs_devstore_group_t *state = group->state;
    kvs_dev_marks_t *marks = state->marks;

    if (marks == NULL) {
        return;
    }
    pthread_mutex_lock(&store->host.lock);
    if (marks->prev != NULL) {
        marks->prev->next = marks->next;
    } else {
        store->marks = marks->next;
    }
    if (marks->next != NULL) {
        marks->next->prev = marks->prev;
    }
    pthread_mutex_unlock(&store->host.lock);
    free(marks);
    state->marks = NULL;
}

void kvs_dev_marks_drop_all(kvs_devstore_t *store)
{
    while (store->marks != NULL) {
        kvs_dev_marks_t *next = store->marks->next;

        free(store->marks);
        store->marks = next;
    }
}

kvs_status_t kvs_dev_marks_wait(const kvs_provider_t *provider, const kvs_group_t *group,
                                kvs_queue_t *queue)
{
    const kvs_dev_marks_t *marks = ((const kvs_devstore_group_t *)group->state)->marks;
    kvs_status_t status = KVS_OK;

    for (size_t i = 0; marks != NULL && i < marks->n && status == KVS_OK; i++) {
        status = provider->wait(queue, &marks->streams[i].mark);
    }
    return status;
}

kvs_status_t kvs_dev_marks_release(const kvs_provider_t *provider, const kvs_group_t *group,
                                   const kvs_mark_t *mark)
{
    const kvs_dev_marks_t *marks = ((const kvs_devstore_group_t *)group->state)->marks;
    kvs_status_t status = KVS_OK;

    for (size_t i = 0; marks != NULL && i < marks->n && status == KVS_OK; i++) {
        const stream_t *stream = &marks->streams[i];

        if (stream->number != PER_THREAD) {
            status = provider->stream_wait(stream->device, stream->number, mark);
        }
    }
    return status;
}

int kvs_dev_is_awaited(const kvs_tensor_t *tensor)
{
    return !kvs_dev_is(tensor) || tensor->stream <= 0 || tensor->stream == PER_THREAD;
}
