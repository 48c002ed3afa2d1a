/* SPDX-License-Identifier: Apache-2.0 */
/* devhost_stage.c - copies of an operation's device arrays in pinned host memory. Values of a key that are
 * all on devices are summed on the first one's, in list order, and one copy is made of the sum; outs of a
 * key share one copy. */
#include "devhost.h"

#include "hoststore_update.h"

#include <stdlib.h>
#include <string.h>

#define PER_THREAD 2   /* DLPack's number of the per-thread default stream */
#define MAX_SUM    128 /* values in one kernel */

static const kvs_device_t host_device = {KVS_DEVICE_CPU, 0};

static kvs_device_t pinned_of(kvs_device_t device)
{
    return (kvs_device_t){KVS_DEVICE_CUDA_HOST, device.id};
}

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

/* Bytes that `data` holds: of a row-sparse value those of its rows, of an out those it has room for. */
static size_t bytes_of(const kvs_tensor_t *tensor, int is_out)
{
    size_t elem_bytes = tensor->dtype.bits / 8;

    if (tensor->rows == NULL) {
        return (size_t)kvs_tensor_n_elems(tensor) * elem_bytes;
    }
    int64_t n_rows = is_out ? tensor->rows->capacity : tensor->rows->n_rows;

    return (size_t)n_rows * (size_t)kvs_row_elems(tensor) * elem_bytes;
}

/* ---- Pinned memory ----------------------------------------------------------------------------------- */

/* A spare buffer that is not far too big, or a new one. */
static kvs_status_t take_buffer(kvs_devhost_op_t *op, kvs_device_t device, size_t n_bytes,
                                void **ret_data)
{
    kvs_devhost_t *host = op->host;
    kvs_devhost_buffer_t *buffer = NULL;

    pthread_mutex_lock(&host->lock);
    for (kvs_devhost_buffer_t **at = &host->spare; *at != NULL; at = &(*at)->next) {
        if ((*at)->n_bytes >= n_bytes && (*at)->n_bytes / 2 <= n_bytes) {
            buffer = *at;
            *at = buffer->next;
            break;
        }
    }
    pthread_mutex_unlock(&host->lock);
    if (buffer == NULL) {
        buffer = calloc(1, sizeof(*buffer));
        if (buffer == NULL) {
            return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for a buffer's record");
        }
        buffer->n_bytes = n_bytes;
        kvs_status_t status = op->provider->alloc(pinned_of(device), n_bytes, &buffer->data);

        if (status != KVS_OK) {
            free(buffer);
            return status;
        }
    }
    buffer->next = op->buffers;
    op->buffers = buffer;
    *ret_data = buffer->data;
    return KVS_OK;
}

static void give_buffers_back(kvs_devhost_op_t *op)
{
    pthread_mutex_lock(&op->host->lock);
    while (op->buffers != NULL) {
        kvs_devhost_buffer_t *buffer = op->buffers;

        op->buffers = buffer->next;
        buffer->next = op->host->spare;
        op->host->spare = buffer;
    }
    pthread_mutex_unlock(&op->host->lock);
}

void kvs_devhost_op_free(kvs_devhost_op_t *op)
{
    give_buffers_back(op);
    free(op->groups);
    free(op->tensors);
    free(op->copy_of);
    free(op->streams);
    free(op->queues);
    free(op);
}

/* ---- Streams and queues ------------------------------------------------------------------------------ */

static int is_stream_of(const kvs_devhost_stream_t *stream, const kvs_tensor_t *tensor)
{
    return stream->number == tensor->stream && stream->device.id == tensor->device.id &&
           stream->device.type == tensor->device.type;
}

static kvs_status_t name_key(kvs_status_t status, const kvs_group_t *group)
{
    return status == KVS_OK || group->key == NULL ? status
                                                  : kvs_update_name_key(status, group->key);
}

/* The device is there; remember where its stream is. */
static kvs_status_t follow(kvs_devhost_op_t *op, const kvs_tensor_t *tensor)
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

static kvs_status_t follow_list(kvs_devhost_op_t *op, const char *what, const kvs_tensor_t *tensors,
                                size_t n)
{
    kvs_status_t status = KVS_OK;

    for (size_t i = 0; i < n && status == KVS_OK; i++) {
        if (is_followed(&tensors[i])) {
            status = follow(op, &tensors[i]);
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

/* The queue of a device. At its first use it waits for all streams of the operation. */
static kvs_status_t use_queue(kvs_devhost_op_t *op, kvs_device_t device, kvs_queue_t **ret_queue)
{
    kvs_status_t status = op->provider->queue(device, ret_queue);

    for (size_t i = 0; i < op->n_queues && status == KVS_OK; i++) {
        if (op->queues[i].queue == *ret_queue) {
            return KVS_OK;
        }
    }
    if (status == KVS_OK) {
        op->queues[op->n_queues++] = (kvs_devhost_queue_t){.queue = *ret_queue};
    }
    for (size_t i = 0; i < op->n_streams && status == KVS_OK; i++) {
        status = op->provider->wait(*ret_queue, &op->streams[i].mark);
    }
    return status;
}

kvs_status_t kvs_devhost_mark_queues(kvs_devhost_op_t *op)
{
    kvs_status_t status = KVS_OK;

    for (size_t i = 0; i < op->n_queues && status == KVS_OK; i++) {
        status = op->provider->mark(op->queues[i].queue, &op->queues[i].mark);
    }
    return status;
}

kvs_status_t kvs_devhost_wait_queues(const kvs_devhost_op_t *op)
{
    kvs_status_t status = KVS_OK;

    for (size_t i = 0; i < op->n_queues && status == KVS_OK; i++) {
        status = op->provider->host_wait(&op->queues[i].mark, KVS_DEV_WAIT_MS);
    }
    return status;
}

/* Mark the queues, and make the program's streams wait for them. The per-thread stream can be reached by
 * its own thread only. */
static kvs_status_t release_streams(kvs_devhost_op_t *op, int is_own_thread)
{
    kvs_status_t status = kvs_devhost_mark_queues(op);

    for (size_t i = 0; i < op->n_streams; i++) {
        const kvs_devhost_stream_t *stream = &op->streams[i];

        for (size_t j = 0; j < op->n_queues && status == KVS_OK; j++) {
            if (!stream->is_of_host && (is_own_thread || stream->number != PER_THREAD)) {
                status =
                    op->provider->stream_wait(stream->device, stream->number, &op->queues[j].mark);
            }
        }
    }
    return status;
}

/* ---- Values ------------------------------------------------------------------------------------------ */

static kvs_status_t download(kvs_devhost_op_t *op, kvs_device_t device, const void *from,
                             size_t n_bytes, kvs_tensor_t *to)
{
    kvs_queue_t *queue;
    kvs_status_t status = use_queue(op, device, &queue);

    to->device = host_device;
    if (status == KVS_OK && n_bytes > 0) {
        status = take_buffer(op, device, n_bytes, &to->data);
    }
    return status == KVS_OK && n_bytes > 0
               ? op->provider->copy(queue, pinned_of(device), to->data, device, from, n_bytes)
               : status;
}

static kvs_status_t copy_list(kvs_devhost_op_t *op, const kvs_tensor_t **io_list, size_t n)
{
    kvs_tensor_t *copies = op->tensors + op->n_tensors;
    const kvs_tensor_t *list = *io_list;
    kvs_status_t status = KVS_OK;

    for (size_t i = 0; i < n && status == KVS_OK; i++) {
        copies[i] = list[i];
        if (kvs_dev_is(&list[i])) {
            status = download(op, list[i].device, list[i].data, bytes_of(&list[i], 0), &copies[i]);
        }
    }
    op->n_tensors += n;
    *io_list = copies;
    return status;
}

/* Other sums than of all values would be rounded between. */
static int sums_on_device(const kvs_devhost_op_t *op, const kvs_group_t *group)
{
    int is_push = op->op.verb == KVS_VERB_PUSH || op->op.verb == KVS_VERB_PUSHPULL;

    for (size_t i = 0; i < group->n_values; i++) {
        if (!kvs_dev_is(&group->values[i]) || group->values[i].rows != NULL) {
            return 0;
        }
    }
    return is_push && op->op.reduce == 0 && group->n_values > 1 && group->n_values <= MAX_SUM &&
           bytes_of(&group->values[0], 0) > 0;
}

typedef struct sum {
    kvs_device_t device;
    kvs_queue_t *queue;
    const void *src[MAX_SUM];
    void *scratch[MAX_SUM + 1]; /* the sum, and copies of what the device does not reach */
    size_t n_scratch;
} sum_t;

static kvs_status_t take_scratch(const kvs_devhost_op_t *op, sum_t *sum, size_t n_bytes)
{
    kvs_status_t status = op->provider->alloc(sum->device, n_bytes, &sum->scratch[sum->n_scratch]);

    sum->n_scratch += status == KVS_OK;
    return status;
}

static kvs_status_t bring(const kvs_devhost_op_t *op, sum_t *sum, const kvs_tensor_t *value,
                          size_t n_bytes, const void **ret_src)
{
    kvs_status_t status;

    *ret_src = value->data;
    if (value->device.type == KVS_DEVICE_CUDA_MANAGED || value->device.id == sum->device.id ||
        op->provider->reaches(sum->device.id, value->device.id) != 0) {
        return KVS_OK;
    }
    status = take_scratch(op, sum, n_bytes);
    if (status == KVS_OK) {
        *ret_src = sum->scratch[sum->n_scratch - 1];
        status = op->provider->copy(sum->queue, sum->device, sum->scratch[sum->n_scratch - 1],
                                    value->device, value->data, n_bytes);
    }
    return status;
}

static kvs_status_t add_up(kvs_devhost_op_t *op, const kvs_group_t *group, sum_t *sum,
                           kvs_tensor_t *to)
{
    size_t n_bytes = bytes_of(&group->values[0], 0);
    kvs_sum_item_t item = {.n = kvs_tensor_n_elems(&group->values[0]),
                           .src = sum->src,
                           .n_src = group->n_values,
                           .dst = sum->scratch,
                           .n_dst = 1};
    kvs_status_t status = take_scratch(op, sum, n_bytes);

    for (size_t i = 0; i < group->n_values && status == KVS_OK; i++) {
        status = bring(op, sum, &group->values[i], n_bytes, &sum->src[i]);
    }
    if (status == KVS_OK) {
        status = op->provider->sums(sum->queue, kvs_dtype_index(group->values[0].dtype), &item, 1);
    }
    return status == KVS_OK ? download(op, sum->device, sum->scratch[0], n_bytes, to) : status;
}

/* One value, in host memory, in place of several on devices. */
static kvs_status_t stage_sum(kvs_devhost_op_t *op, const kvs_group_t *group, kvs_group_t *shadow)
{
    sum_t sum = {.device = {KVS_DEVICE_CUDA, group->values[0].device.id}};
    kvs_tensor_t *copy = &op->tensors[op->n_tensors++];
    kvs_status_t status = use_queue(op, sum.device, &sum.queue);

    *copy = group->values[0];
    if (status == KVS_OK) {
        status = add_up(op, group, &sum, copy);
    }
    for (size_t i = 0; i < sum.n_scratch; i++) { /* in the order of the queue */
        op->provider->free(sum.device, sum.scratch[i], bytes_of(&group->values[0], 0));
    }
    shadow->values = copy;
    shadow->n_values = 1;
    return status;
}

/* ---- Outs -------------------------------------------------------------------------------------------- */

/* An earlier out whose copy this one shares; `i` if there is none. */
static size_t sharer_of(const kvs_group_t *group, size_t i)
{
    const kvs_tensor_t *out = &group->outs[i];

    for (size_t j = 0; j < i && out->rows == NULL; j++) {
        if (kvs_dev_is(&group->outs[j]) && group->outs[j].rows == NULL &&
            kvs_dtype_index(group->outs[j].dtype) == kvs_dtype_index(out->dtype)) {
            return j;
        }
    }
    return i;
}

static kvs_status_t stage_outs(kvs_devhost_op_t *op, const kvs_group_t *group, kvs_group_t *shadow,
                               size_t *copy_of)
{
    kvs_tensor_t *copies = op->tensors + op->n_tensors;
    size_t *places = (size_t *)(uintptr_t)shadow->out_index; /* the copy's own, or NULL */
    kvs_status_t status = KVS_OK;

    shadow->n_outs = 0;
    for (size_t i = 0; i < group->n_outs && status == KVS_OK; i++) {
        const kvs_tensor_t *out = &group->outs[i];
        size_t sharer = kvs_dev_is(out) ? sharer_of(group, i) : i;
        size_t n_bytes = bytes_of(out, 1), at = shadow->n_outs;

        if (sharer != i) {
            copy_of[i] = copy_of[sharer];
            continue;
        }
        copies[at] = *out;
        copy_of[i] = at;
        if (places != NULL) {
            places[at] = group->out_index[i];
        }
        if (kvs_dev_is(out)) {
            copies[at].device = host_device;
            status = n_bytes > 0 ? take_buffer(op, out->device, n_bytes, &copies[at].data) : KVS_OK;
        }
        shadow->n_outs++;
    }
    op->n_tensors += shadow->n_outs;
    shadow->outs = copies;
    return status;
}

static kvs_status_t send_out(kvs_devhost_op_t *op, const kvs_tensor_t *from, const kvs_tensor_t *to,
                             int *io_is_awaited)
{
    size_t n_bytes = bytes_of(to, 0); /* of rows, as many as were written */
    kvs_queue_t *queue;
    kvs_status_t status = use_queue(op, to->device, &queue);

    *io_is_awaited |= kvs_dev_is_awaited(to);
    return status == KVS_OK && n_bytes > 0
               ? op->provider->copy(queue, to->device, to->data, pinned_of(to->device), from->data,
                                    n_bytes)
               : status;
}

typedef struct place {
    size_t index; /* among the outs of the call */
    const kvs_tensor_t *from, *to;
} place_t;

static int by_index(const void *left, const void *right)
{
    size_t a = ((const place_t *)left)->index, b = ((const place_t *)right)->index;

    return (a > b) - (a < b);
}

kvs_status_t kvs_devhost_send_outs(kvs_devhost_op_t *op, int *ret_is_awaited)
{
    const kvs_op_t *real = op->real;
    size_t n = 0, n_seen = 0;
    kvs_status_t status = KVS_OK;

    *ret_is_awaited = 0;
    for (size_t g = 0; g < real->n_groups; g++) {
        n += real->groups[g].n_outs;
    }
    place_t *places = calloc(n + 1, sizeof(*places));

    if (places == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for a list of %zu outs", n);
    }
    n = 0;
    for (size_t g = 0; g < real->n_groups; g++) {
        const kvs_group_t *group = &real->groups[g];

        for (size_t i = 0; i < group->n_outs; i++, n_seen++) {
            if (kvs_dev_is(&group->outs[i])) {
                places[n++] = (place_t){
                    .index = (real->flags & KVS_OP_SHARED) != 0 ? group->out_index[i] : n_seen,
                    .from = &op->groups[g].outs[op->copy_of[n_seen]],
                    .to = &group->outs[i]};
            }
        }
    }
    qsort(places, n, sizeof(*places), by_index);
    for (size_t i = 0; i < n && status == KVS_OK; i++) {
        status = send_out(op, places[i].from, places[i].to, ret_is_awaited);
    }
    free(places);
    if (status != KVS_OK) {
        (void)kvs_devhost_mark_queues(op); /* what is under way still needs the copies */
        return status;
    }
    return n > 0 ? release_streams(op, 0) : KVS_OK;
}

/* ---- Whole operations -------------------------------------------------------------------------------- */

/* Lists of the shadow. Places of outs that share memory stand behind those of copies. */
static kvs_status_t make_lists(kvs_devhost_op_t *op)
{
    const kvs_op_t *real = op->real;
    size_t n_outs = 0, n = 0;

    for (size_t g = 0; g < real->n_groups; g++) {
        const kvs_group_t *group = &real->groups[g];

        n_outs += group->n_outs;
        n += group->n_values + group->n_outs + group->n_row_ids;
    }
    op->groups = calloc(real->n_groups + 1, sizeof(*op->groups));
    op->tensors = calloc(n + 1, sizeof(*op->tensors));
    op->copy_of = calloc(2 * n_outs + 1, sizeof(*op->copy_of));
    op->streams = calloc(n + 1, sizeof(*op->streams));
    op->queues = calloc(n + 1, sizeof(*op->queues));
    if (op->groups == NULL || op->tensors == NULL || op->copy_of == NULL || op->streams == NULL ||
        op->queues == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for copies of %zu arrays", n);
    }
    memcpy(op->groups, real->groups, real->n_groups * sizeof(*op->groups));
    op->op.groups = op->groups;
    for (size_t g = 0, at = n_outs; g < real->n_groups; g++) {
        if (real->groups[g].out_index != NULL) {
            op->groups[g].out_index = &op->copy_of[at];
        }
        at += real->groups[g].n_outs;
    }
    return KVS_OK;
}

static kvs_status_t stage_group(kvs_devhost_op_t *op, const kvs_group_t *group, kvs_group_t *shadow,
                                size_t *copy_of)
{
    kvs_status_t status = sums_on_device(op, group)
                              ? stage_sum(op, group, shadow)
                              : copy_list(op, &shadow->values, shadow->n_values);

    if (status == KVS_OK) {
        status = copy_list(op, &shadow->row_ids, shadow->n_row_ids);
    }
    return status == KVS_OK ? stage_outs(op, group, shadow, copy_of) : status;
}

kvs_status_t kvs_devhost_stage(kvs_devhost_op_t *op)
{
    const kvs_op_t *real = op->real;
    kvs_status_t status = kvs_dev_provider(&op->provider);
    size_t *copy_of;

    if (status == KVS_OK) {
        status = make_lists(op);
    }
    for (size_t g = 0; g < real->n_groups && status == KVS_OK; g++) {
        status = follow_group(op, &real->groups[g]);
        status = name_key(status, &real->groups[g]);
    }
    copy_of = op->copy_of;
    for (size_t g = 0; g < real->n_groups && status == KVS_OK; g++) {
        status = stage_group(op, &real->groups[g], &op->groups[g], copy_of);
        status = name_key(status, &real->groups[g]);
        copy_of += real->groups[g].n_outs;
    }
    return status == KVS_OK ? release_streams(op, 1) : status;
}

kvs_status_t kvs_devhost_wait_values(const kvs_devhost_op_t *op)
{
    kvs_status_t status = kvs_devhost_wait_queues(op);

    for (size_t i = 0; i < op->n_streams && status == KVS_OK; i++) {
        if (op->streams[i].is_of_host) {
            status = op->provider->host_wait(&op->streams[i].mark, KVS_DEV_WAIT_MS);
        }
    }
    return status;
}
