/* SPDX-License-Identifier: Apache-2.0 */
/* hvd_device.c - an item's arrays are a span of plugins/nccl; the job's thread exchanges spans. */
#include "hvd_device.h"

#include "nccl_link.h"

#include <kvstore/allreduce.h>

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

struct hvd_device {
    nccl_link_t *link;
    nccl_span_t span;
    kvs_group_t group; /* the caller's, with a state of ours */
    kvs_devstore_group_t state;
    kvs_devstore_t *streams;
    bool is_awaited; /* nobody's stream waits for all arrays */
    nccl_wait_t wait;
    void (*end)(void *arg, kvs_status_t status, const char *text);
    void *arg;
};

/* ---- Whether --------------------------------------------------------------------------------------- */

kvs_status_t hvd_nccl_check(void)
{
    const kvs_provider_t *provider;
    kvs_status_t status = kvs_provider_find(KVS_DEVICE_CUDA, &provider);

    if (status == KVS_OK &&
        (provider->size < offsetof(kvs_provider_t, rows_sum) || provider->steps == NULL)) {
        return kvs_fail(KVS_ERR_UNAVAILABLE,
                        "device provider '%s' lends no streams; install a newer version",
                        provider->name);
    }
    status = status == KVS_OK ? provider->probe() : status;
    return status == KVS_OK ? nccl_library_open() : status;
}

const char *hvd_nccl_text(char *text, size_t n_bytes)
{
    char library[NCCL_TEXT_BYTES];

    snprintf(text, n_bytes, "%s", nccl_library_text(library));
    return text;
}

static bool all_on_devices(const kvs_tensor_t *tensors, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (tensors[i].device.type != KVS_DEVICE_CUDA || tensors[i].rows != NULL) {
            return false;
        }
    }
    return true;
}

/* NCCL's averages are those of devices, and its least and greatest floats don't give NaN. */
static bool has_reduction(uint32_t reduce, kvs_dtype_t dtype)
{
    int index = kvs_dtype_index(dtype);
    bool is_float = index == KVS_DTYPE_float32 || index == KVS_DTYPE_float64 ||
                    index == KVS_DTYPE_float16 || index == KVS_DTYPE_bfloat16;

    return reduce == KVS_REDUCE_SUM ||
           (!is_float && (reduce == KVS_REDUCE_MIN || reduce == KVS_REDUCE_MAX));
}

/* Those whose arrays share memory need an order that the host keeps. */
bool hvd_device_takes(const kvs_op_t *op)
{
    for (size_t g = 0; g < op->n_groups; g++) {
        const kvs_group_t *group = &op->groups[g];
        bool has_one = group->n_values == 1 || op->reduce == KVS_REDUCE_SUM;

        if (!all_on_devices(group->values, group->n_values) ||
            !all_on_devices(group->outs, group->n_outs) || !has_one ||
            !has_reduction(op->reduce, group->values[0].dtype)) {
            return false;
        }
    }
    return (op->flags & KVS_OP_SHARED) == 0;
}

/* ---- One key ----------------------------------------------------------------------------------------- */

static bool any_awaited(const kvs_tensor_t *tensors, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (kvs_dev_is_awaited(&tensors[i])) {
            return true;
        }
    }
    return false;
}

static kvs_status_t open_span(hvd_device_t *device)
{
    bool guards = !any_awaited(device->group.values, device->group.n_values);
    kvs_status_t status = nccl_span_open(&device->span, &device->group, guards);

    return status == KVS_OK && guards ? nccl_span_guard_values(&device->span) : status;
}

kvs_status_t hvd_device_open(hvd_nccl_t *nccl, kvs_devstore_t *streams, const kvs_group_t *group,
                             int64_t timeout_ms, hvd_device_t **ret_device)
{
    hvd_device_t *device = calloc(1, sizeof(*device));
    kvs_status_t status;

    if (device == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for arrays on devices");
    }
    device->link = (nccl_link_t *)nccl;
    device->streams = streams;
    device->group = *group;
    device->group.state = &device->state;
    device->span.timeout_ms = timeout_ms;
    device->span.into_outs = 1;
    device->is_awaited =
        any_awaited(group->values, group->n_values) || any_awaited(group->outs, group->n_outs);
    status = kvs_dev_marks_take(streams, &device->group);
    status = status == KVS_OK ? open_span(device) : status;
    if (status != KVS_OK) {
        hvd_device_close(device);
        return status;
    }
    *ret_device = device;
    return KVS_OK;
}

void hvd_device_close(hvd_device_t *device)
{
    if (device != NULL) {
        nccl_span_release(&device->span);
        kvs_dev_marks_drop(device->streams, &device->group);
        free(device);
    }
}

int64_t hvd_device_mask(const hvd_device_t *device)
{
    return nccl_span_devices(&device->span);
}

static void on_waited(nccl_wait_t *wait)
{
    hvd_device_t *device = (hvd_device_t *)(void *)((char *)wait - offsetof(hvd_device_t, wait));
    kvs_status_t status = nccl_span_wait(&device->span);

    device->end(device->arg, status, status == KVS_OK ? "" : kvs_plugin_host->last_error());
}

bool hvd_device_end_later(hvd_device_t *device,
                          void (*end)(void *arg, kvs_status_t status, const char *text), void *arg)
{
    if (!device->is_awaited) {
        return false;
    }
    device->wait.run = on_waited;
    device->end = end;
    device->arg = arg;
    nccl_link_wait(device->link, &device->wait);
    return true;
}

/* ---- The job's part ------------------------------------------------------------------------------------ */

kvs_status_t hvd_nccl_open(hvd_job_t *job, hvd_nccl_t **ret_nccl)
{
    nccl_link_t *link;
    kvs_status_t status = nccl_link_open(job, &link);

    if (status == KVS_OK) {
        *ret_nccl = (hvd_nccl_t *)link;
    }
    return status;
}

void hvd_nccl_close(hvd_nccl_t *nccl, bool is_over)
{
    nccl_link_close((nccl_link_t *)nccl, is_over);
}

void hvd_nccl_message(hvd_nccl_t *nccl, hvd_view_t view)
{
    nccl_link_message((nccl_link_t *)nccl, view);
}

kvs_status_t hvd_nccl_run(hvd_pending_t *const *pending, size_t n, const hvd_go_t *go)
{
    nccl_span_t **spans = calloc(n, sizeof(nccl_span_t *));
    nccl_span_call_t call = {.is_broadcast = pending[0]->what == HVD_BROADCAST,
                             .reduce = pending[0]->reduce};
    kvs_status_t status;

    if (spans == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for an exchange of %zu keys", n);
    }
    for (size_t i = 0; i < n; i++) {
        spans[i] = &pending[i]->device->span;
    }
    status = nccl_link_exchange(pending[0]->device->link, spans, n, go, &call);
    for (size_t i = 0; i < n && status == KVS_OK; i++) {
        status = nccl_span_write_outs(spans[i]);
    }
    free(spans);
    return status;
}
