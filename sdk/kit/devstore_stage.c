/* SPDX-License-Identifier: Apache-2.0 */
/* devstore_stage.c - the way through host memory: every device array of an operation gets a copy there,
 * the host store does the work, and what it wrote is sent to the devices. Slow, and right for everything
 * the host store does. */
#include "devstore.h"

#include "rowsparse.h"

#include <stdlib.h>
#include <string.h>

static const kvs_device_t host_device = {KVS_DEVICE_CPU, 0};

typedef struct staged {
    kvs_op_t op; /* the shadow */
    const kvs_op_t *real;
    const kvs_provider_t *provider;
    kvs_group_t *groups;
    kvs_tensor_t *tensors; /* of all groups, in order */
    size_t *n_bytes;       /* of each copy; 0: not a copy */
    size_t n_tensors;
} staged_t;

static size_t count_tensors(const kvs_op_t *op)
{
    size_t n = 0;

    for (size_t g = 0; g < op->n_groups; g++) {
        n += op->groups[g].n_values + op->groups[g].n_outs + op->groups[g].n_row_ids;
    }
    return n;
}

static kvs_status_t open_shadow(staged_t *staged, const kvs_op_t *op)
{
    size_t n = count_tensors(op);

    *staged = (staged_t){.op = *op, .real = op};
    staged->groups = calloc(op->n_groups + 1, sizeof(*staged->groups));
    staged->tensors = calloc(n + 1, sizeof(*staged->tensors));
    staged->n_bytes = calloc(n + 1, sizeof(*staged->n_bytes));
    if (staged->groups == NULL || staged->tensors == NULL || staged->n_bytes == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for copies of %zu arrays", n);
    }
    memcpy(staged->groups, op->groups, op->n_groups * sizeof(*staged->groups));
    staged->op.groups = staged->groups;
    return KVS_OK;
}

static void close_shadow(staged_t *staged)
{
    for (size_t i = 0; staged->tensors != NULL && i < staged->n_tensors; i++) {
        if (staged->n_bytes[i] > 0) {
            kvs_cpu_provider()->free(host_device, staged->tensors[i].data, staged->n_bytes[i]);
        }
    }
    free(staged->groups);
    free(staged->tensors);
    free(staged->n_bytes);
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

static kvs_status_t download(const staged_t *staged, const kvs_group_t *group,
                             const kvs_tensor_t *from, kvs_tensor_t *to, size_t n_bytes)
{
    kvs_queue_t *queue;
    kvs_status_t status = staged->provider->queue(from->device, &queue);

    if (status == KVS_OK) {
        status = kvs_dev_marks_wait(staged->provider, group, queue);
    }
    return status == KVS_OK ? staged->provider->copy(queue, host_device, to->data, from->device,
                                                     from->data, n_bytes)
                            : status;
}

/* Give one list of arrays of a group its copies. */
static kvs_status_t stage_list(staged_t *staged, const kvs_group_t *group,
                               const kvs_tensor_t **io_list, size_t n, int is_out)
{
    kvs_tensor_t *copies = staged->tensors + staged->n_tensors;
    const kvs_tensor_t *list = *io_list;
    kvs_status_t status = KVS_OK;

    for (size_t i = 0; i < n && status == KVS_OK; i++) {
        kvs_tensor_t *copy = &copies[i];
        size_t n_bytes = bytes_of(&list[i], is_out);

        *copy = list[i];
        staged->n_tensors++;
        if (!kvs_dev_is(copy)) {
            continue;
        }
        copy->device = host_device;
        status = kvs_cpu_provider()->alloc(host_device, n_bytes, &copy->data);
        if (status == KVS_OK) {
            staged->n_bytes[copy - staged->tensors] = n_bytes;
            status = is_out ? KVS_OK : download(staged, group, &list[i], copy, n_bytes);
        }
    }
    *io_list = copies;
    return status;
}

static kvs_status_t upload(const staged_t *staged, const kvs_group_t *group,
                           const kvs_tensor_t *from, const kvs_tensor_t *to)
{
    size_t n_bytes = bytes_of(to, 0); /* of an out too: as many rows as were written */
    kvs_queue_t *queue;
    kvs_mark_t mark;
    kvs_status_t status = staged->provider->queue(to->device, &queue);

    if (status == KVS_OK) {
        status = kvs_dev_marks_wait(staged->provider, group, queue);
    }
    if (status == KVS_OK) {
        status =
            staged->provider->copy(queue, to->device, to->data, host_device, from->data, n_bytes);
    }
    if (status == KVS_OK) {
        status = staged->provider->mark(queue, &mark);
    }
    if (status == KVS_OK) {
        status = kvs_dev_marks_release(staged->provider, group, &mark);
    }
    return status == KVS_OK && kvs_dev_is_awaited(to)
               ? staged->provider->host_wait(&mark, KVS_DEV_WAIT_MS)
               : status;
}

/* Outs that share memory are written in the order of the call. */
static kvs_status_t upload_outs(const staged_t *staged)
{
    kvs_status_t status = KVS_OK;
    size_t n_outs = 0;

    for (size_t g = 0; g < staged->op.n_groups; g++) {
        n_outs += staged->groups[g].n_outs;
    }
    if ((staged->op.flags & KVS_OP_SHARED) == 0) {
        for (size_t g = 0; g < staged->op.n_groups; g++) {
            const kvs_group_t *real = &staged->real->groups[g];

            for (size_t i = 0; i < real->n_outs && status == KVS_OK; i++) {
                if (kvs_dev_is(&real->outs[i])) {
                    status = upload(staged, real, &staged->groups[g].outs[i], &real->outs[i]);
                }
            }
        }
        return status;
    }
    for (size_t at = 0, n_done = 0; n_done < n_outs && status == KVS_OK; at++) {
        for (size_t g = 0; g < staged->op.n_groups; g++) {
            const kvs_group_t *real = &staged->real->groups[g];

            for (size_t i = 0; i < real->n_outs && status == KVS_OK; i++) {
                if (real->out_index[i] == at) {
                    n_done++;
                    status = kvs_dev_is(&real->outs[i])
                                 ? upload(staged, real, &staged->groups[g].outs[i], &real->outs[i])
                                 : KVS_OK;
                }
            }
        }
    }
    return status;
}

kvs_status_t kvs_dev_stage(kvs_devstore_t *store, kvs_op_t *op, unsigned what,
                           kvs_status_t (*verb)(void *store, kvs_op_t *op))
{
    staged_t staged;
    kvs_status_t status = open_shadow(&staged, op);

    if (status == KVS_OK) {
        status = kvs_dev_provider(&staged.provider);
    }
    for (size_t g = 0; g < op->n_groups && status == KVS_OK; g++) {
        const kvs_group_t *real = &op->groups[g];
        kvs_group_t *shadow = &staged.groups[g];

        if (what & KVS_DEV_READS) {
            status = stage_list(&staged, real, &shadow->values, shadow->n_values, 0);
        }
        if (status == KVS_OK && (what & KVS_DEV_WRITES)) {
            status = stage_list(&staged, real, &shadow->outs, shadow->n_outs, 1);
        }
        if (status == KVS_OK) {
            status = stage_list(&staged, real, &shadow->row_ids, shadow->n_row_ids, 0);
        }
    }
    if (status == KVS_OK) {
        status = verb(store, &staged.op);
    }
    if (status == KVS_OK && (what & KVS_DEV_WRITES)) {
        status = upload_outs(&staged);
    }
    close_shadow(&staged);
    return status;
}
