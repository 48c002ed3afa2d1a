/* SPDX-License-Identifier: Apache-2.0 */
/* devhost_pack.c - gradient compression where values are: the sum of a key's values is packed on its device,
 * with a residual that stays there, and only the codes go to the host. A sum that is not finite shows in a flag,
 * on the device, and again in front of the codes. Who packs in host memory gets the residual home first. */
#include "devhost.h"

#include "residuals.h"

#include <string.h>

#define FLAG_BYTES 64 /* before the codes, so that these are aligned */

static const kvs_device_t host_device = {KVS_DEVICE_CPU, 0};

/* ---- What is packed ----------------------------------------------------------------------------------- */

static int is_packed(kvs_devhost_t *host, const kvs_op_t *op, const kvs_group_t *group,
                     kvs_devhost_packing_t *ret_packing)
{
    return (op->verb == KVS_VERB_PUSH || op->verb == KVS_VERB_PUSHPULL) &&
           host->args.packing != NULL && group->n_values > 0 && group->key->n_elems > 0 &&
           host->args.packing(host->args.store, group, ret_packing);
}

static int are_on_devices(const kvs_group_t *group)
{
    for (size_t i = 0; i < group->n_values; i++) {
        if (!kvs_dev_is(&group->values[i])) {
            return 0;
        }
    }
    return group->n_values <= KVS_DEVHOST_MAX_SUM;
}

static int has_kernel(const kvs_provider_t *provider, const kvs_group_t *group,
                      const kvs_compression_t *compression)
{
    kvs_pack_item_t item = {.size = (uint32_t)sizeof(item),
                            .kind = kvs_compression_kind(compression),
                            .params = kvs_compression_params(compression)};
    kvs_queue_t *queue;

    return provider->queue(group->values[0].device, &queue) != KVS_OK || /* which staging tells */
           provider->pack(queue, &item) != KVS_ERR_NOT_IMPLEMENTED;
}

/* Whether the group's values are packed on their device. Where a kernel is missing that is said once. */
static int packs_on_device(const kvs_group_t *group, const kvs_compression_t *compression)
{
    const kvs_provider_t *provider;

    if (!are_on_devices(group) || kvs_dev_provider(&provider) != KVS_OK) {
        return 0;
    }
    if (has_kernel(provider, group, compression)) {
        return 1;
    }
    kvs_dev_tell_compressor(compression);
    return 0;
}

/* ---- Where the residual is ----------------------------------------------------------------------------- */

void kvs_devhost_residual_release(kvs_devhost_residual_t *residual)
{
    const kvs_provider_t *provider;

    if (residual->data != NULL && kvs_provider_find(KVS_DEVICE_CUDA, &provider) == KVS_OK) {
        provider->free(residual->device, residual->data, (size_t)residual->n_elems * sizeof(float));
    }
    *residual = (kvs_devhost_residual_t){.data = NULL};
}

kvs_status_t kvs_devhost_take_home(kvs_devhost_residual_t *residual, kvs_residuals_t *residuals)
{
    const kvs_provider_t *provider;
    kvs_queue_t *queue;
    kvs_status_t status;

    if (residual->data == NULL) {
        return KVS_OK;
    }
    status = kvs_dev_provider(&provider);
    if (status == KVS_OK) {
        status = kvs_residuals_reserve(residuals, residual->n_elems, 1);
    }
    if (status == KVS_OK) {
        status = provider->queue(residual->device, &queue);
    }
    if (status == KVS_OK) {
        status = provider->copy(queue, host_device, residuals->items[0].data, residual->device,
                                residual->data, (size_t)residual->n_elems * sizeof(float));
    }
    if (status != KVS_OK) {
        kvs_residuals_release(residuals);
        status = kvs_fail_context(status, "what earlier pushes left of compression is lost");
    }
    kvs_devhost_residual_release(residual);
    return status;
}

/* Have it on the device; the host's is gone then. */
static kvs_status_t take_out(const kvs_provider_t *provider, kvs_device_t device,
                             kvs_queue_t *queue, int64_t n_elems,
                             const kvs_devhost_packing_t *packing)
{
    kvs_devhost_residual_t *residual = packing->residual;
    size_t n_bytes = (size_t)n_elems * sizeof(float);
    void *data;
    kvs_status_t status = provider->alloc(device, n_bytes, &data);

    if (status != KVS_OK) {
        return status;
    }
    if (packing->residuals->n > 0) {
        status = provider->copy(queue, device, data, host_device,
                                kvs_residuals_at(packing->residuals, 0), n_bytes);
    }
    if (status != KVS_OK) {
        provider->free(device, data, n_bytes);
        return status;
    }
    kvs_residuals_release(packing->residuals);
    *residual = (kvs_devhost_residual_t){.device = device, .data = data, .n_elems = n_elems};
    return KVS_OK;
}

kvs_status_t kvs_devhost_settle_residuals(kvs_devhost_t *host, const kvs_op_t *op)
{
    kvs_status_t status = KVS_OK;

    for (size_t g = 0; g < op->n_groups && status == KVS_OK; g++) {
        const kvs_group_t *group = &op->groups[g];
        kvs_devhost_packing_t packing;

        if (!is_packed(host, op, group, &packing)) {
            continue;
        }
        kvs_devhost_residual_t *residual = packing.residual;
        int stays = packs_on_device(group, packing.compression);

        if (!stays || (residual->data != NULL &&
                       residual->device.id != kvs_devhost_home_of(group->values).id)) {
            status = kvs_devhost_take_home(residual, packing.residuals);
        }
        if (stays && residual->n_on_host > __atomic_load_n(&host->n_dealt, __ATOMIC_ACQUIRE)) {
            kvs_devhost_drain(host); /* what packs in host memory comes before */
        }
        residual->n_on_host = stays ? 0 : host->n_added + 1;
    }
    return status;
}

/* ---- Packing ------------------------------------------------------------------------------------------- */

/* What one value is packed to: the codes behind their flag. */
typedef struct codes {
    void *device, *host;
    size_t n_bytes;
} codes_t;

static kvs_status_t take_room(kvs_devhost_op_t *op, kvs_device_t device, uint64_t n_packed,
                              codes_t *codes)
{
    codes->n_bytes = FLAG_BYTES + ((size_t)n_packed + 3) / 4 * 4; /* kernels write whole words */
    kvs_status_t status = kvs_devhost_take_scratch(op, device, codes->n_bytes, &codes->device);

    return status == KVS_OK ? kvs_devhost_take_pinned(op, device, codes->n_bytes, &codes->host)
                            : status;
}

/* Nothing is queued before there is all the memory: the residual changes as soon as it is. */
static kvs_status_t pack(kvs_devhost_op_t *op, kvs_queue_t *queue, const float *sum,
                         const kvs_devhost_packing_t *packing, const codes_t *codes)
{
    kvs_devhost_residual_t *residual = packing->residual;
    kvs_pack_item_t item = {.size = (uint32_t)sizeof(item),
                            .kind = kvs_compression_kind(packing->compression),
                            .params = kvs_compression_params(packing->compression),
                            .n = residual->n_elems,
                            .grad = sum,
                            .residual = residual->data,
                            .ret_residual = residual->data,
                            .packed = (char *)codes->device + FLAG_BYTES,
                            .unless = codes->device};
    kvs_status_t status =
        op->provider->find_non_finite(queue, KVS_DTYPE_float32, residual->n_elems, sum,
                                      residual->data, codes->device); /* it is 0 */

    return status == KVS_OK ? op->provider->pack(queue, &item) : status;
}

int kvs_devhost_packs(kvs_devhost_op_t *op, size_t g, kvs_devhost_packing_t *ret_packing)
{
    const kvs_group_t *group = &op->real->groups[g];

    return is_packed(op->host, op->real, group, ret_packing) &&
           packs_on_device(group, ret_packing->compression);
}

kvs_status_t kvs_devhost_stage_packed(kvs_devhost_op_t *op, size_t g,
                                      const kvs_devhost_packing_t *packing)
{
    const kvs_group_t *group = &op->real->groups[g];
    kvs_device_t device = kvs_devhost_home_of(group->values);
    int64_t n = group->key->n_elems;
    kvs_tensor_t *copy = &op->tensors[op->n_tensors++];
    const void *sum = NULL;
    kvs_devhost_queue_t *queue;
    kvs_mark_t packed;
    codes_t codes = {.host = NULL};
    kvs_status_t status =
        take_room(op, device, kvs_compression_bytes(packing->compression, n), &codes);

    *copy = group->values[0];
    op->groups[g].values = copy;
    op->groups[g].n_values = 1;
    if (status == KVS_OK) {
        status = kvs_devhost_add_up(op, group, &queue, &sum);
    }
    if (status == KVS_OK && packing->residual->data == NULL) {
        status = take_out(op->provider, device, queue->queue, n, packing);
    }
    if (status == KVS_OK) {
        status = pack(op, queue->queue, sum, packing, &codes);
    }
    if (status == KVS_OK) {
        status = op->provider->mark(queue->queue, &packed);
    }
    copy->data = codes.host;
    op->packed[g] = codes.host;
    return status == KVS_OK
               ? kvs_devhost_download(op, g, device, codes.device, codes.n_bytes, &packed, copy)
               : status;
}

kvs_status_t kvs_devhost_packed(const kvs_op_t *pub, const kvs_group_t *group,
                                const void **ret_packed)
{
    const kvs_devhost_op_t *op = (const kvs_devhost_op_t *)pub;
    const char *codes = NULL;
    uint32_t flag = 0;

    if (kvs_devhost_is_staged(pub) && op->provider != NULL) {
        codes = op->packed[group - op->groups];
    }
    *ret_packed = codes == NULL ? NULL : codes + FLAG_BYTES;
    if (codes != NULL) {
        memcpy(&flag, codes, sizeof(flag));
    }
    return flag == 0 ? KVS_OK
                     : kvs_fail(KVS_ERR_NON_FINITE,
                                "an element of its values' sum is NaN or infinite, or exceeds "
                                "float32 with what earlier pushes left, and can't be compressed; "
                                "nothing was done");
}
