/* SPDX-License-Identifier: Apache-2.0 */
/* dist_pack.c - gradient compression in a worker: the sum of a key's values is packed in program order, with
 * one residual for each key: on the thread that runs the operation, or before, by the kit, on the device that
 * the values are on. What is packed is copied, so that the next push may be packed before this one is sent. */
#include "dist_worker.h"

#include <string.h>

static const kvs_device_t host_device = {KVS_DEVICE_CPU, 0};

static bool is_push(const kvs_op_t *op)
{
    return op->verb == KVS_VERB_PUSH || op->verb == KVS_VERB_PUSHPULL;
}

static kvs_status_t check_codec(const kvs_key_entry_t *entry, uint16_t codec)
{
    const dist_key_t *key = entry->state;

    if (!key->was_pushed || key->codec == codec) {
        return KVS_OK;
    }
    (void)kvs_fail(KVS_ERR_STATE,
                   "it was pushed %s; call set_gradient_compression before its "
                   "first push, or use another key",
                   key->codec == 0 ? "before gradient compression was set"
                                   : "with another gradient compression");
    return dist_name_key(KVS_ERR_STATE, entry);
}

kvs_status_t dist_pack_issue(const kvs_compression_t *compression, uint16_t codec,
                             const kvs_op_t *op)
{
    kvs_status_t status = KVS_OK;

    for (size_t i = 0; i < op->n_groups && status == KVS_OK && compression != NULL; i++) {
        status = kvs_compression_check(compression, &op->groups[i]);
    }
    for (size_t i = 0; i < op->n_groups && status == KVS_OK && is_push(op); i++) {
        status = check_codec(op->groups[i].key, codec);
    }
    for (size_t i = 0; i < op->n_groups && status == KVS_OK && is_push(op); i++) {
        dist_key_t *key = op->groups[i].key->state;

        key->was_pushed = true;
        key->codec = codec;
    }
    return status;
}

/* ---- Packing --------------------------------------------------------------------------------------- */

size_t dist_pack_bytes(const dist_group_t *group, int64_t n)
{
    return group->codec != 0 ? kvs_compression_bytes(group->op->worker->compression, n)
                             : (size_t)n * kvs_dtype_bytes(kvs_dtype_index(group->pub->key->dtype));
}

static kvs_status_t pack(dist_group_t *group, const void *sum)
{
    const kvs_compression_t *compression = group->op->worker->compression;
    int64_t n = group->pub->key->n_elems;
    dist_key_t *key = group->pub->key->state;
    kvs_packed_t packed;
    kvs_status_t status = dist_group_take_memory(group, kvs_compression_bytes(compression, n));

    if (status == KVS_OK) {
        status = kvs_compression_pack(compression, &key->host.residuals, n, &sum, 1, &packed);
    }
    if (status == KVS_OK) {
        memcpy(group->sum, kvs_packed_at(&packed, 0), group->n_sum_bytes);
        group->source = group->sum;
    }
    return status;
}

/* The round fails for all, for want of this push. Its call is told: it waits for the end, as if the values
 * were still being read. */
static kvs_status_t refuse(dist_group_t *group, kvs_status_t status)
{
    group->refusal = strdup(kvs_plugin_host->last_error());
    group->refused = status;
    group->reads = true;
    (void)dist_name_key(status, group->pub->key);
    dist_group_fail(group, status, kvs_plugin_host->last_error());
    return KVS_OK;
}

/* The codes that a device has made. */
static kvs_status_t take_codes(dist_group_t *group, const void *codes)
{
    kvs_status_t status = dist_group_take_memory(
        group, kvs_compression_bytes(group->op->worker->compression, group->pub->key->n_elems));

    if (status == KVS_OK) {
        memcpy(group->sum, codes, group->n_sum_bytes);
        group->source = group->sum;
    }
    return status;
}

/* Of several values the sum, in host memory. */
static kvs_status_t pack_on_host(dist_group_t *group)
{
    const kvs_group_t *pub = group->pub;
    size_t n_bytes = (size_t)pub->key->n_elems * sizeof(float);
    void *sum = NULL;
    kvs_status_t status = KVS_OK;

    if (pub->n_values > 1) {
        status = kvs_cpu_provider()->alloc(host_device, n_bytes, &sum);
        status = status == KVS_OK ? dist_group_sum(pub, sum) : status;
    }
    if (status == KVS_OK) {
        status = pack(group, pub->n_values > 1 ? sum : pub->values[0].data);
    }
    kvs_cpu_provider()->free(host_device, sum, n_bytes);
    return status;
}

kvs_status_t dist_pack_values(dist_group_t *group)
{
    const void *codes;
    kvs_status_t status = kvs_devhost_packed(group->op->pub, group->pub, &codes);

    group->codec = group->op->worker->n_codecs;
    if (status == KVS_OK) {
        status = codes != NULL ? take_codes(group, codes) : pack_on_host(group);
    }
    return status == KVS_ERR_NON_FINITE ? refuse(group, status) : status;
}
