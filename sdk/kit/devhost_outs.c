/* SPDX-License-Identifier: Apache-2.0 */
/* devhost_outs.c - outs on devices: outs of a key share one copy in pinned memory, of which each chunk is sent
 * to its devices as soon as the backend has written it. */
#include "devhost.h"

#include <stdlib.h>

static const kvs_device_t host_device = {KVS_DEVICE_CPU, 0};

/* ---- Copies ------------------------------------------------------------------------------------------ */

/* Of rows: how many there are, or how many there is room for. */
static size_t bytes_of(const kvs_tensor_t *out, int has_room)
{
    int64_t n_elems = kvs_tensor_n_elems(out);

    if (out->rows != NULL) {
        n_elems = (has_room ? out->rows->capacity : out->rows->n_rows) * kvs_row_elems(out);
    }
    return (size_t)n_elems * (out->dtype.bits / 8);
}

/* The copy of an earlier out of the group that this one shares, or NULL. */
static const kvs_devhost_out_t *sharer_of(const kvs_devhost_op_t *op, size_t first,
                                          const kvs_tensor_t *out)
{
    for (size_t i = first; i < op->n_outs && out->rows == NULL; i++) {
        const kvs_tensor_t *other = op->outs[i].to;

        if (other->rows == NULL && kvs_dtype_index(other->dtype) == kvs_dtype_index(out->dtype)) {
            return &op->outs[i];
        }
    }
    return NULL;
}

static void add_out(kvs_devhost_op_t *op, const kvs_tensor_t *out, size_t index, size_t from)
{
    kvs_devhost_out_t *to = &op->outs[op->n_outs++];
    size_t n_bytes = out->rows == NULL ? bytes_of(out, 0) : 0;
    size_t chunk = kvs_devhost_chunk_bytes(n_bytes);

    *to = (kvs_devhost_out_t){.index = index, .from = from, .to = out, .n_bytes = n_bytes};
    for (size_t at = 0, i = 0; at < n_bytes; at += chunk, i++) {
        to->left[i] = n_bytes - at < chunk ? n_bytes - at : chunk;
    }
}

kvs_status_t kvs_devhost_stage_outs(kvs_devhost_op_t *op, size_t g)
{
    const kvs_group_t *group = &op->real->groups[g];
    kvs_group_t *shadow = &op->groups[g];
    size_t first = op->n_outs, first_tensor = op->n_tensors;
    size_t *places = op->out_index + op->n_places;
    kvs_status_t status = KVS_OK;

    op->first_out[g] = first;
    for (size_t i = 0; i < group->n_outs && status == KVS_OK; i++) {
        const kvs_tensor_t *out = &group->outs[i];
        size_t index = group->out_index != NULL ? group->out_index[i] : i;
        const kvs_devhost_out_t *sharer = kvs_dev_is(out) ? sharer_of(op, first, out) : NULL;
        size_t n_bytes = bytes_of(out, 1);
        kvs_tensor_t *copy = &op->tensors[op->n_tensors];

        if (sharer != NULL) {
            add_out(op, out, index, sharer->from);
            continue;
        }
        *copy = *out;
        places[op->n_tensors - first_tensor] = index;
        if (kvs_dev_is(out)) {
            add_out(op, out, index, op->n_tensors);
            copy->device = host_device;
            status = n_bytes > 0 ? kvs_devhost_take_pinned(op, out->device, n_bytes, &copy->data)
                                 : KVS_OK;
        }
        op->n_tensors++;
    }
    shadow->outs = op->tensors + first_tensor;
    shadow->n_outs = op->n_tensors - first_tensor;
    shadow->out_index = group->out_index != NULL ? places : NULL;
    op->n_places += shadow->n_outs;
    return status;
}

/* ---- Sending ----------------------------------------------------------------------------------------- */

static kvs_status_t send_locked(kvs_devhost_op_t *op, const kvs_devhost_out_t *out, size_t at,
                                size_t n_bytes)
{
    const char *from = op->tensors[out->from].data;
    kvs_device_t device = out->to->device;
    kvs_devhost_queue_t *queue;
    kvs_status_t status = kvs_devhost_use_queue(op, device, KVS_DEVHOST_FROM_HOST, &queue);

    if (status != KVS_OK || n_bytes == 0) {
        return status;
    }
    queue->is_met = 1;
    return op->provider->copy(queue->queue, device, (char *)out->to->data + at,
                              kvs_devhost_pinned_of(device), from + at, n_bytes);
}

static kvs_status_t send_chunk_locked(kvs_devhost_op_t *op, kvs_devhost_out_t *out, size_t i)
{
    size_t chunk = kvs_devhost_chunk_bytes(out->n_bytes), at = i * chunk;

    out->sent |= 1u << i;
    return send_locked(op, out, at, out->n_bytes - at < chunk ? out->n_bytes - at : chunk);
}

/* Bytes [begin, end) of the copy are written. */
static kvs_status_t write_locked(kvs_devhost_op_t *op, kvs_devhost_out_t *out, size_t begin,
                                 size_t end)
{
    size_t chunk = kvs_devhost_chunk_bytes(out->n_bytes);
    kvs_status_t status = KVS_OK;

    for (size_t i = begin / chunk; i * chunk < end && status == KVS_OK; i++) {
        size_t from = i * chunk > begin ? i * chunk : begin;
        size_t to = (i + 1) * chunk < end ? (i + 1) * chunk : end;

        out->left[i] -= to - from;
        if (out->left[i] == 0) {
            status = send_chunk_locked(op, out, i);
        }
    }
    return status;
}

void kvs_devhost_wrote(kvs_op_t *pub, const kvs_group_t *group, int64_t first, int64_t n)
{
    kvs_devhost_op_t *op = (kvs_devhost_op_t *)pub;
    kvs_status_t status = KVS_OK;

    if (!kvs_devhost_is_staged(pub) || op->n_outs == 0 || (pub->flags & KVS_OP_SHARED) != 0) {
        return;
    }
    size_t g = (size_t)(group - op->groups);

    pthread_mutex_lock(&op->host->out_lock);
    for (size_t i = op->first_out[g]; i < op->first_out[g + 1] && status == KVS_OK; i++) {
        kvs_devhost_out_t *out = &op->outs[i];
        size_t elem_bytes = out->to->dtype.bits / 8;

        if (out->to->rows == NULL) {
            status =
                write_locked(op, out, (size_t)first * elem_bytes, (size_t)(first + n) * elem_bytes);
        }
    }
    pthread_mutex_unlock(&op->host->out_lock);
    if (status != KVS_OK) { /* told when the operation ends */
        kvs_devhost_fail(op, status);
    }
}

static int by_index(const void *left, const void *right)
{
    size_t a = ((const kvs_devhost_out_t *)left)->index,
           b = ((const kvs_devhost_out_t *)right)->index;

    return (a > b) - (a < b);
}

static kvs_status_t send_rest_locked(kvs_devhost_op_t *op, kvs_devhost_out_t *out)
{
    kvs_status_t status = KVS_OK;

    if (out->to->rows != NULL) { /* as many as were written */
        return send_locked(op, out, 0, bytes_of(out->to, 0));
    }
    for (size_t i = 0; i < kvs_devhost_n_chunks(out->n_bytes) && status == KVS_OK; i++) {
        if ((out->sent & 1u << i) == 0) {
            status = send_chunk_locked(op, out, i);
        }
    }
    return status;
}

/* ---- The end ----------------------------------------------------------------------------------------- */

static kvs_status_t watch_queues_locked(kvs_devhost_op_t *op)
{
    kvs_status_t status = KVS_OK;

    for (size_t i = 0; i < op->n_queues; i++) {
        const kvs_devhost_queue_t *queue = &op->queues[i];
        kvs_devhost_watch_t *watch = &op->watches[op->n_watches];

        if (queue->role != KVS_DEVHOST_FROM_HOST || !queue->is_met) {
            continue;
        }
        *watch = (kvs_devhost_watch_t){.op = op, .device = queue->device, .is_of_outs = 1};
        kvs_status_t one = op->provider->mark(queue->queue, &watch->mark);

        op->n_watches += one == KVS_OK;
        status = status == KVS_OK ? one : status;
    }
    return status;
}

kvs_status_t kvs_devhost_send_outs(kvs_devhost_op_t *op, int failed, int *ret_is_awaited)
{
    kvs_status_t status = KVS_OK, last;

    *ret_is_awaited = 0;
    pthread_mutex_lock(&op->host->out_lock);
    if ((op->op.flags & KVS_OP_SHARED) != 0) {
        qsort(op->outs, op->n_outs, sizeof(*op->outs), by_index);
    }
    for (size_t i = 0; i < op->n_outs; i++) {
        if (status == KVS_OK && !failed) {
            status = send_rest_locked(op, &op->outs[i]);
        }
        *ret_is_awaited |= kvs_dev_is_awaited(op->outs[i].to);
    }
    last = kvs_devhost_release_streams(op, 1, 0);
    status = status == KVS_OK ? last : status;
    last = watch_queues_locked(op);
    status = status == KVS_OK ? last : status;
    pthread_mutex_unlock(&op->host->out_lock);
    return status;
}
