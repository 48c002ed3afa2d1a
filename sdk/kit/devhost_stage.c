/* SPDX-License-Identifier: Apache-2.0 */
/* devhost_stage.c - copies of an operation's values in pinned host memory. Values of a key that are all on
 * devices are summed on the first one's, in list order, and one copy is made of the sum. Copies are cut in
 * chunks, each of which is watched, so that the backend can begin with the first. */
#include "devhost.h"

#include "hoststore_update.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const kvs_device_t host_device = {KVS_DEVICE_CPU, 0};

/* ---- What there is ----------------------------------------------------------------------------------- */

/* Pinned memory is the host's, but for its stream. */
static int is_followed(const kvs_tensor_t *tensor)
{
    return kvs_dev_is(tensor) ||
           (tensor->device.type == KVS_DEVICE_CUDA_HOST && tensor->stream > 0);
}

static int any_followed(const kvs_tensor_t *tensors, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (is_followed(&tensors[i])) {
            return 1;
        }
    }
    return 0;
}

int kvs_devhost_has_device_arrays(const kvs_op_t *op)
{
    for (size_t g = 0; g < op->n_groups; g++) {
        const kvs_group_t *group = &op->groups[g];

        if (any_followed(group->values, group->n_values) ||
            any_followed(group->outs, group->n_outs) ||
            any_followed(group->row_ids, group->n_row_ids)) {
            return 1;
        }
    }
    return 0;
}

int kvs_devhost_streams_guard_values(const kvs_op_t *op)
{
    for (size_t g = 0; g < op->n_groups; g++) {
        for (size_t i = 0; i < op->groups[g].n_values; i++) {
            const kvs_tensor_t *value = &op->groups[g].values[i];

            if (!kvs_dev_is(value) || value->stream <= 0 || value->rows != NULL) {
                return 0;
            }
        }
    }
    return 1;
}

static size_t bytes_of(const kvs_tensor_t *tensor)
{
    return (size_t)(tensor->rows == NULL ? kvs_tensor_n_elems(tensor)
                                         : tensor->rows->n_rows * kvs_row_elems(tensor)) *
           (tensor->dtype.bits / 8);
}

static kvs_status_t name_key(kvs_status_t status, const kvs_group_t *group)
{
    return status == KVS_OK || group->key == NULL ? status
                                                  : kvs_update_name_key(status, group->key);
}

/* ---- Streams ----------------------------------------------------------------------------------------- */

static kvs_status_t follow_list(kvs_devhost_op_t *op, const char *what, const kvs_tensor_t *tensors,
                                size_t n)
{
    kvs_status_t status = KVS_OK;

    for (size_t i = 0; i < n && status == KVS_OK; i++) {
        if (is_followed(&tensors[i])) {
            status = kvs_devhost_follow(op, &tensors[i]);
            status = status == KVS_OK ? KVS_OK : kvs_fail_context(status, "%s %zu", what, i);
        }
    }
    return status;
}

static kvs_status_t follow_group(kvs_devhost_op_t *op, const kvs_group_t *group)
{
    kvs_status_t status = follow_list(op, "value", group->values, group->n_values);

    if (status == KVS_OK) {
        status = follow_list(op, "out", group->outs, group->n_outs);
    }
    if (status == KVS_OK) {
        status = follow_list(op, "row id array", group->row_ids, group->n_row_ids);
    }
    return status;
}

/* The host itself reads and writes pinned arrays: it waits for their streams as if they were values. */
static void watch_host_streams(kvs_devhost_op_t *op)
{
    for (size_t i = 0; i < op->n_streams; i++) {
        const kvs_devhost_stream_t *stream = &op->streams[i];

        if (stream->is_of_host) {
            op->watches[op->n_watches++] =
                (kvs_devhost_watch_t){.op = op, .device = stream->device, .mark = stream->mark};
        }
    }
}

/* ---- Copies ------------------------------------------------------------------------------------------ */

/* Watch the pieces that no watch has yet. */
static kvs_status_t close_pieces(kvs_devhost_op_t *op)
{
    const kvs_devhost_queue_t *queue = &op->queues[op->open_queue];
    kvs_devhost_watch_t *watch = &op->watches[op->n_watches];
    kvs_status_t status;

    if (op->n_open == 0) {
        return KVS_OK;
    }
    *watch = (kvs_devhost_watch_t){.op = op,
                                   .device = queue->device,
                                   .first_piece = op->n_pieces - op->n_open,
                                   .n_pieces = op->n_open};
    status = op->provider->mark(queue->queue, &watch->mark);
    op->n_watches += status == KVS_OK;
    op->n_open = op->n_open_bytes = 0;
    return status;
}

/* The copies of small arrays are watched together. */
static kvs_status_t copy_chunk(kvs_devhost_op_t *op, const kvs_devhost_queue_t *queue, size_t group,
                               void *to, const void *from, size_t at, size_t n_bytes)
{
    size_t place = (size_t)(queue - op->queues);
    kvs_status_t status = op->open_queue != place ? close_pieces(op) : KVS_OK;

    if (status == KVS_OK) {
        op->open_queue = place;
        op->pieces[op->n_pieces++] = (kvs_devhost_piece_t){group, at + n_bytes};
        op->n_open++;
        op->n_open_bytes += n_bytes;
        status =
            op->provider->copy(queue->queue, kvs_devhost_pinned_of(queue->device), (char *)to + at,
                               queue->device, (const char *)from + at, n_bytes);
    }
    return status == KVS_OK && op->n_open_bytes >= KVS_DEVHOST_CHUNK ? close_pieces(op) : status;
}

kvs_status_t kvs_devhost_download(kvs_devhost_op_t *op, size_t group, kvs_device_t device,
                                  const void *from, size_t n_bytes, const kvs_mark_t *after,
                                  kvs_tensor_t *to)
{
    size_t chunk = kvs_devhost_chunk_bytes(n_bytes);
    kvs_devhost_queue_t *queue = NULL;
    kvs_status_t status = kvs_devhost_use_queue(op, device, KVS_DEVHOST_TO_HOST, &queue);

    to->device = host_device;
    if (status != KVS_OK) {
        return status;
    }
    queue->is_met |= after == NULL;
    if (after != NULL) {
        status = op->provider->wait(queue->queue, after);
    }
    for (size_t at = 0; at < n_bytes && status == KVS_OK; at += chunk) {
        status = copy_chunk(op, queue, group, to->data, from, at,
                            n_bytes - at < chunk ? n_bytes - at : chunk);
    }
    return status;
}

static kvs_status_t download(kvs_devhost_op_t *op, size_t group, const kvs_tensor_t *from,
                             kvs_tensor_t *to)
{
    size_t n_bytes = bytes_of(from);
    kvs_status_t status =
        n_bytes > 0 ? kvs_devhost_take_pinned(op, from->device, n_bytes, &to->data) : KVS_OK;

    return status == KVS_OK
               ? kvs_devhost_download(op, group, from->device, from->data, n_bytes, NULL, to)
               : status;
}

static kvs_status_t copy_list(kvs_devhost_op_t *op, size_t group, const kvs_tensor_t **io_list,
                              size_t n)
{
    kvs_tensor_t *copies = op->tensors + op->n_tensors;
    const kvs_tensor_t *list = *io_list;
    kvs_status_t status = KVS_OK;

    for (size_t i = 0; i < n && status == KVS_OK; i++) {
        copies[i] = list[i];
        if (kvs_dev_is(&list[i])) {
            status = download(op, group, &list[i], &copies[i]);
        }
    }
    op->n_tensors += n;
    *io_list = copies;
    return status;
}

/* ---- Sums -------------------------------------------------------------------------------------------- */

/* Other sums than of all values would be rounded between. */
static int sums_on_device(const kvs_devhost_op_t *op, const kvs_group_t *group)
{
    int is_push = op->op.verb == KVS_VERB_PUSH || op->op.verb == KVS_VERB_PUSHPULL;

    for (size_t i = 0; i < group->n_values; i++) {
        if (!kvs_dev_is(&group->values[i]) || group->values[i].rows != NULL) {
            return 0;
        }
    }
    return is_push && op->op.reduce == 0 && group->n_values > 1 &&
           group->n_values <= KVS_DEVHOST_MAX_SUM && bytes_of(&group->values[0]) > 0;
}

/* The value where the device reaches it. */
static kvs_status_t bring(kvs_devhost_op_t *op, kvs_queue_t *queue, kvs_device_t device,
                          const kvs_tensor_t *value, const void **ret_src)
{
    size_t n_bytes = bytes_of(value);
    kvs_status_t status;
    void *copy;

    *ret_src = value->data;
    if (value->device.type == KVS_DEVICE_CUDA_MANAGED || value->device.id == device.id ||
        op->provider->reaches(device.id, value->device.id) != 0) {
        return KVS_OK;
    }
    status = kvs_devhost_take_scratch(op, device, n_bytes, &copy);
    if (status == KVS_OK) {
        *ret_src = copy;
        status = op->provider->copy(queue, device, copy, value->device, value->data, n_bytes);
    }
    return status;
}

kvs_status_t kvs_devhost_add_up(kvs_devhost_op_t *op, const kvs_group_t *group,
                                kvs_devhost_queue_t **ret_queue, const void **ret_sum)
{
    kvs_device_t device = kvs_devhost_home_of(group->values);
    const void *src[KVS_DEVHOST_MAX_SUM];
    void *total = NULL;
    kvs_sum_item_t item = {.n = kvs_tensor_n_elems(&group->values[0]),
                           .src = src,
                           .n_src = group->n_values,
                           .dst = &total,
                           .n_dst = 1};
    kvs_status_t status = kvs_devhost_use_queue(op, device, KVS_DEVHOST_WORK, ret_queue);

    if (status != KVS_OK) {
        return status;
    }
    (*ret_queue)->is_met = 1;
    if (group->n_values == 1) {
        *ret_sum = group->values[0].data;
        return KVS_OK;
    }
    status = kvs_devhost_take_scratch(op, device, bytes_of(&group->values[0]), &total);
    for (size_t i = 0; i < group->n_values && status == KVS_OK; i++) {
        status = bring(op, (*ret_queue)->queue, device, &group->values[i], &src[i]);
    }
    *ret_sum = total;
    return status == KVS_OK ? op->provider->sums((*ret_queue)->queue,
                                                 kvs_dtype_index(group->values[0].dtype), &item, 1)
                            : status;
}

/* One value, in host memory, in place of several on devices. */
static kvs_status_t stage_sum(kvs_devhost_op_t *op, size_t g)
{
    const kvs_group_t *group = &op->real->groups[g];
    size_t n_bytes = bytes_of(&group->values[0]);
    kvs_device_t device = kvs_devhost_home_of(group->values);
    kvs_tensor_t *copy = &op->tensors[op->n_tensors++];
    kvs_devhost_queue_t *queue;
    const void *sum;
    kvs_status_t status = kvs_devhost_add_up(op, group, &queue, &sum);
    kvs_mark_t summed;

    *copy = group->values[0];
    op->groups[g].values = copy;
    op->groups[g].n_values = 1;
    if (status == KVS_OK) {
        status = op->provider->mark(queue->queue, &summed);
    }
    if (status == KVS_OK) {
        status = kvs_devhost_take_pinned(op, device, n_bytes, &copy->data);
    }
    return status == KVS_OK ? kvs_devhost_download(op, g, device, sum, n_bytes, &summed, copy)
                            : status;
}

/* ---- Whole operations -------------------------------------------------------------------------------- */

typedef struct room {
    size_t n_outs, n_tensors, n_pieces;
} room_t;

static void count_copies(room_t *room, const kvs_tensor_t *tensors, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        room->n_tensors++;
        room->n_pieces += /* one more for the flag before packed values */
            kvs_dev_is(&tensors[i]) ? kvs_devhost_n_chunks(bytes_of(&tensors[i])) + 1 : 0;
    }
}

static room_t count(const kvs_op_t *real)
{
    room_t room = {0};

    for (size_t g = 0; g < real->n_groups; g++) {
        const kvs_group_t *group = &real->groups[g];

        count_copies(&room, group->values, group->n_values);
        count_copies(&room, group->row_ids, group->n_row_ids);
        room.n_tensors += group->n_outs;
        room.n_outs += group->n_outs;
    }
    return room;
}

/* Lists of the operation, large enough. */
static kvs_status_t make_lists(kvs_devhost_op_t *op)
{
    const kvs_op_t *real = op->real;
    room_t room = count(real);
    size_t n_groups = real->n_groups, n = room.n_tensors;

    op->groups = calloc(n_groups + 1, sizeof(*op->groups));
    op->arrived = calloc(n_groups + 1, sizeof(*op->arrived));
    op->packed = calloc(n_groups + 1, sizeof(*op->packed));
    op->tensors = calloc(n + 1, sizeof(*op->tensors));
    op->streams = calloc(n + 1, sizeof(*op->streams));
    op->queues = calloc(3 * n + 1, sizeof(*op->queues));
    op->pieces = calloc(room.n_pieces + 1, sizeof(*op->pieces));
    op->watches = calloc(room.n_pieces + 4 * n + 1, sizeof(*op->watches));
    op->outs = calloc(room.n_outs + 1, sizeof(*op->outs));
    op->first_out = calloc(n_groups + 1, sizeof(*op->first_out));
    op->out_index = calloc(room.n_outs + 1, sizeof(*op->out_index));
    if (op->groups == NULL || op->arrived == NULL || op->packed == NULL || op->tensors == NULL ||
        op->streams == NULL || op->queues == NULL || op->pieces == NULL || op->watches == NULL ||
        op->outs == NULL || op->first_out == NULL || op->out_index == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for copies of %zu arrays", n);
    }
    memcpy(op->groups, real->groups, n_groups * sizeof(*op->groups));
    op->op.groups = op->groups;
    return KVS_OK;
}

static kvs_status_t stage_group(kvs_devhost_op_t *op, size_t g)
{
    const kvs_group_t *group = &op->real->groups[g];
    kvs_group_t *shadow = &op->groups[g];
    size_t first_piece = op->n_pieces;
    kvs_devhost_packing_t packing;
    kvs_status_t status =
        kvs_devhost_packs(op, g, &packing) ? kvs_devhost_stage_packed(op, g, &packing)
        : sums_on_device(op, group)        ? stage_sum(op, g)
                                           : copy_list(op, g, &shadow->values, shadow->n_values);

    op->arrived[g] = op->n_pieces > first_piece ? 0 : SIZE_MAX;
    if (status == KVS_OK) {
        status = copy_list(op, g, &shadow->row_ids, shadow->n_row_ids);
    }
    return status == KVS_OK ? kvs_devhost_stage_outs(op, g) : status;
}

/* Whether every value is one array, of which there is first the beginning and then more. */
static int may_be_early(const kvs_devhost_op_t *op)
{
    int is_push = op->op.verb == KVS_VERB_PUSH || op->op.verb == KVS_VERB_PUSHPULL;

    for (size_t g = 0; g < op->op.n_groups; g++) {
        if (op->groups[g].n_values != 1 || op->groups[g].values[0].rows != NULL ||
            op->packed[g] != NULL) {
            return 0;
        }
    }
    for (size_t i = 0; i < op->n_streams; i++) {
        if (op->streams[i].is_of_host) {
            return 0;
        }
    }
    return is_push && op->host->args.arrived != NULL && (op->op.flags & KVS_OP_SHARED) == 0;
}

static kvs_status_t stage(kvs_devhost_op_t *op)
{
    const kvs_op_t *real = op->real;
    kvs_status_t status = KVS_OK;

    for (size_t g = 0; g < real->n_groups && status == KVS_OK; g++) {
        status = name_key(follow_group(op, &real->groups[g]), &real->groups[g]);
    }
    if (status == KVS_OK) {
        watch_host_streams(op);
    }
    for (size_t g = 0; g < real->n_groups && status == KVS_OK; g++) {
        status = name_key(stage_group(op, g), &real->groups[g]);
    }
    op->first_out[real->n_groups] = op->n_outs;
    return status == KVS_OK ? close_pieces(op) : status;
}

kvs_status_t kvs_devhost_stage(kvs_devhost_op_t *op)
{
    kvs_status_t status = kvs_dev_provider(&op->provider);
    char text[1024];

    if (status == KVS_OK) {
        status = make_lists(op);
    }
    if (status != KVS_OK) {
        return status;
    }
    status = stage(op);
    if (status == KVS_OK) {
        status = kvs_devhost_release_streams(op, 0, 1);
    } else { /* what is queued goes on; its failures are of no interest */
        snprintf(text, sizeof(text), "%s", kvs_plugin_host->last_error());
        (void)close_pieces(op);
        (void)kvs_devhost_release_streams(op, 0, 1);
        (void)kvs_fail(status, "%s", text);
    }
    op->is_early = status == KVS_OK && may_be_early(op);
    kvs_devhost_watch(op, 0);
    return status;
}
