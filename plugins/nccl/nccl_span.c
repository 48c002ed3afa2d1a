/* SPDX-License-Identifier: Apache-2.0 */
/* nccl_span.c - all work is queued on the devices' queues, behind the program's streams and before them. */
#include "nccl_span.h"

#include <stdlib.h>
#include <string.h>

#define WAIT_MS 600000 /* the longest that a device is waited for */

static size_t n_bytes_of(const nccl_span_t *span)
{
    return (size_t)span->n_elems * kvs_dtype_bytes(span->dtype);
}

/* Memory as large as the span's arrays, until it is released. */
static kvs_status_t take(nccl_span_t *span, kvs_device_t device, void **ret_data)
{
    return kvs_dev_scratch_take(&span->scratch, span->provider, device, n_bytes_of(span), ret_data);
}

void nccl_span_release(nccl_span_t *span)
{
    kvs_dev_scratch_release(&span->scratch, span->provider);
    free(span->sides);
    *span = (nccl_span_t){0};
}

/* ---- What this process gives --------------------------------------------------------------------- */

static int by_id(const void *a, const void *b)
{
    const nccl_side_t *left = a, *right = b;

    return (left->device.id > right->device.id) - (left->device.id < right->device.id);
}

static kvs_status_t find_sides(nccl_span_t *span)
{
    const kvs_group_t *group = span->group;
    kvs_status_t status = KVS_OK;

    for (size_t i = 0; i < group->n_values && status == KVS_OK; i++) {
        int32_t id = group->values[i].device.id;
        size_t j = 0;

        while (j < span->n_sides && span->sides[j].device.id != id) {
            j++;
        }
        if (j < span->n_sides) {
            continue;
        }
        if (id > NCCL_MAX_ID) {
            return kvs_fail(KVS_ERR_NOT_IMPLEMENTED,
                            "cuda(%d): in a job, NCCL is used with devices 0 to %d", (int)id,
                            NCCL_MAX_ID);
        }
        span->sides[span->n_sides].device = (kvs_device_t){KVS_DEVICE_CUDA, id};
        status = span->provider->queue(span->sides[span->n_sides].device,
                                       &span->sides[span->n_sides].queue);
        span->n_sides++;
    }
    qsort(span->sides, span->n_sides, sizeof(*span->sides), by_id);
    return status;
}

static kvs_status_t add_up(nccl_span_t *span, nccl_side_t *side, const void **src, int keeps)
{
    const kvs_group_t *group = span->group;
    size_t n = 0;
    void *sum;

    for (size_t i = 0; i < group->n_values; i++) {
        if (group->values[i].device.id == side->device.id) {
            src[n++] = group->values[i].data;
        }
    }
    side->give = src[0];
    if ((n == 1 && !keeps) || span->n_elems == 0) {
        return KVS_OK;
    }
    kvs_status_t status = take(span, side->device, &sum);
    kvs_sum_item_t item = {span->n_elems, src, n, &sum, 1};

    side->give = sum;
    side->got = sum;
    return status == KVS_OK ? span->provider->sums(side->queue, span->dtype, &item, 1) : status;
}

kvs_status_t nccl_span_open(nccl_span_t *span, const kvs_group_t *group, int keeps)
{
    const void **src = malloc((group->n_values + 1) * sizeof(*src));
    kvs_status_t status = kvs_provider_find(KVS_DEVICE_CUDA, &span->provider);

    span->group = group;
    span->dtype = kvs_dtype_index(group->values[0].dtype);
    span->n_elems = kvs_tensor_n_elems(&group->values[0]);
    span->key = *group->key;
    span->key.dtype = group->values[0].dtype;
    span->sides = calloc(group->n_values, sizeof(*span->sides));
    if (status == KVS_OK && (src == NULL || span->sides == NULL)) {
        status = kvs_fail(KVS_ERR_NO_MEMORY, "no memory for lists of %zu arrays", group->n_values);
    }
    status = status == KVS_OK ? find_sides(span) : status;
    for (size_t i = 0; i < span->n_sides && status == KVS_OK; i++) {
        status = kvs_dev_marks_wait(span->provider, group, span->sides[i].queue);
        status = status == KVS_OK ? add_up(span, &span->sides[i], src, keeps) : status;
    }
    free(src);
    return status;
}

int64_t nccl_span_devices(const nccl_span_t *span)
{
    int64_t devices = 0;

    for (size_t i = 0; i < span->n_sides; i++) {
        devices |= INT64_C(1) << span->sides[i].device.id;
    }
    return devices;
}

/* Where all queues are, for streams and for who waits. */
static kvs_status_t mark_sides(nccl_span_t *span)
{
    kvs_status_t status = KVS_OK;

    for (size_t i = 0; i < span->n_sides && status == KVS_OK; i++) {
        status = span->provider->mark(span->sides[i].queue, &span->sides[i].mark);
        if (status == KVS_OK) {
            status = kvs_dev_marks_release(span->provider, span->group, &span->sides[i].mark);
        }
    }
    return status;
}

kvs_status_t nccl_span_guard_values(nccl_span_t *span)
{
    return mark_sides(span);
}

kvs_status_t nccl_span_wait(const nccl_span_t *span)
{
    kvs_status_t status = KVS_OK;

    for (size_t i = 0; i < span->n_sides && status == KVS_OK; i++) {
        status = span->provider->host_wait(&span->sides[i].mark, WAIT_MS);
    }
    return status == KVS_OK ? nccl_settle(span->ticket) : status;
}

/* ---- The exchange -------------------------------------------------------------------------------- */

/* Where the result will be on a side: an out of the dtype, if that is wanted, else what it gave if that is
 * nobody else's, else a new array. */
static kvs_status_t choose_place(nccl_span_t *span, nccl_side_t *side)
{
    for (size_t i = 0; i < span->group->n_outs && span->into_outs; i++) {
        const kvs_tensor_t *out = &span->group->outs[i];

        if (kvs_dev_is(out) && out->device.id == side->device.id &&
            kvs_dtype_index(out->dtype) == span->dtype) {
            side->got_out = out;
            side->got = out->data;
            return KVS_OK;
        }
    }
    return side->got != NULL ? KVS_OK : take(span, side->device, &side->got);
}

typedef struct lists {
    kvs_device_t *devices;
    kvs_queue_t **queues;
    const void **src;
    void **dst;
} lists_t;

static int root_of(const nccl_world_t *world, int member)
{
    int root = 0;

    for (int m = 0; m < member; m++) {
        root += __builtin_popcountll((unsigned long long)world->devices[m]);
    }
    return root;
}

static kvs_status_t fill_item(nccl_span_t *span, const nccl_world_t *world,
                              const nccl_span_call_t *call, lists_t *lists, nccl_item_t *ret_item)
{
    kvs_status_t status = KVS_OK;

    *ret_item = (nccl_item_t){.at = {.key = &span->key,
                                     .n = span->n_elems,
                                     .n_devices = span->n_sides,
                                     .devices = lists->devices,
                                     .queues = lists->queues,
                                     .src = lists->src,
                                     .dst = lists->dst,
                                     .root = call->is_broadcast ? root_of(world, call->root) : -1,
                                     .is_broadcast = (uint32_t)call->is_broadcast},
                              .world = world,
                              .reduce = call->reduce};
    for (size_t i = 0; i < span->n_sides && status == KVS_OK; i++) {
        nccl_side_t *side = &span->sides[i];

        status = choose_place(span, side);
        *lists->devices++ = side->device;
        *lists->queues++ = side->queue;
        *lists->src++ = side->give;
        *lists->dst++ = side->got;
    }
    return status;
}

static kvs_status_t exchange(nccl_span_t *const *spans, const nccl_world_t *worlds, size_t n,
                             const nccl_span_call_t *call, lists_t lists, nccl_item_t *items)
{
    kvs_status_t status = KVS_OK;
    uint64_t ticket = 0;
    size_t n_items = 0;

    for (size_t i = 0; i < n && status == KVS_OK; i++) {
        if (spans[i]->n_elems > 0) {
            status = fill_item(spans[i], &worlds[i], call, &lists, &items[n_items++]);
        }
    }
    if (status == KVS_OK && n_items > 0) {
        status = nccl_exchange(items, n_items, spans[0]->timeout_ms, &ticket);
    }
    for (size_t i = 0; i < n; i++) {
        spans[i]->ticket = spans[i]->n_elems > 0 ? ticket : 0;
    }
    return status;
}

kvs_status_t nccl_span_exchange(nccl_span_t *const *spans, const nccl_world_t *worlds, size_t n,
                                const nccl_span_call_t *call)
{
    size_t n_sides = 0;
    nccl_item_t *items = calloc(n, sizeof(*items));
    kvs_status_t status;
    char *memory;

    for (size_t i = 0; i < n; i++) {
        n_sides += spans[i]->n_sides;
    }
    memory = calloc(n_sides, 3 * sizeof(void *) + sizeof(kvs_device_t));
    if (items == NULL || memory == NULL) {
        status = kvs_fail(KVS_ERR_NO_MEMORY, "no memory for an exchange of %zu keys", n);
    } else {
        lists_t lists = {.queues = (kvs_queue_t **)(void *)memory};

        lists.src = (const void **)(void *)(memory + n_sides * sizeof(void *));
        lists.dst = (void **)(void *)(memory + 2 * n_sides * sizeof(void *));
        lists.devices = (kvs_device_t *)(void *)(memory + 3 * n_sides * sizeof(void *));
        status = exchange(spans, worlds, n, call, lists, items);
    }
    free(memory);
    free(items);
    return status;
}

kvs_tensor_t nccl_span_result(const nccl_span_t *span, size_t side)
{
    kvs_tensor_t result = span->group->values[0];

    result.device = span->sides[side].device;
    result.data = span->sides[side].got;
    result.stream = 1; /* nobody's: nothing waits for it */
    return result;
}

/* ---- The outs ------------------------------------------------------------------------------------ */

static kvs_status_t write_here(nccl_span_t *span, const nccl_side_t *side, const kvs_tensor_t *out)
{
    const void *got = side->got;
    void *to = out->data;
    int dtype = kvs_dtype_index(out->dtype);
    kvs_sum_item_t item = {span->n_elems, &got, 1, &to, 1};

    return dtype == span->dtype
               ? span->provider->sums(side->queue, dtype, &item, 1)
               : span->provider->convert(side->queue, span->n_elems, span->dtype, got, dtype, to);
}

/* To a device that gave nothing: from the first side, which waits for it. */
static kvs_status_t write_there(nccl_span_t *span, const kvs_tensor_t *out)
{
    const kvs_provider_t *provider = span->provider;
    nccl_side_t *side = &span->sides[0];
    kvs_device_t device = {KVS_DEVICE_CUDA, out->device.id};
    int dtype = kvs_dtype_index(out->dtype);
    void *to = out->data;
    kvs_queue_t *queue;
    kvs_mark_t mark;
    kvs_status_t status = provider->queue(device, &queue);

    if (status == KVS_OK && dtype != span->dtype) {
        status = take(span, device, &to);
    }
    status = status == KVS_OK ? provider->mark(side->queue, &mark) : status;
    status = status == KVS_OK ? provider->wait(queue, &mark) : status;
    status = status == KVS_OK ? kvs_dev_marks_wait(provider, span->group, queue) : status;
    if (status == KVS_OK) {
        status = provider->copy(queue, device, to, side->device, side->got, n_bytes_of(span));
    }
    if (status == KVS_OK && dtype != span->dtype) {
        status = provider->convert(queue, span->n_elems, span->dtype, to, dtype, out->data);
    }
    status = status == KVS_OK ? provider->mark(queue, &mark) : status;
    return status == KVS_OK ? provider->wait(side->queue, &mark) : status;
}

static kvs_status_t write_out(nccl_span_t *span, const kvs_tensor_t *out)
{
    for (size_t i = 0; i < span->n_sides; i++) {
        const nccl_side_t *side = &span->sides[i];

        if (side->device.id == out->device.id) {
            return out == side->got_out ? KVS_OK : write_here(span, side, out);
        }
    }
    return write_there(span, out);
}

kvs_status_t nccl_span_write_outs(nccl_span_t *span)
{
    kvs_status_t status = KVS_OK;

    for (size_t i = 0; i < span->group->n_outs && status == KVS_OK && span->n_elems > 0; i++) {
        status = write_out(span, &span->group->outs[i]);
    }
    return status == KVS_OK ? mark_sides(span) : status;
}
