/* SPDX-License-Identifier: Apache-2.0 */
/* hoststore_update.c - see hoststore_update.h. A sum is kept whole, in the key's merge buffer, only for
 * those who need it so; otherwise blocks of it go to the optimizer while they are in cache. */
#include "hoststore_update.h"
#include "pieces.h"

kvs_status_t kvs_update_name_key(kvs_status_t status, const kvs_key_entry_t *key)
{
    return key->name != NULL ? kvs_fail_context(status, "key '%s'", key->name)
                             : kvs_fail_context(status, "key %lld", (long long)key->number);
}

kvs_status_t kvs_update_make_merge(const kvs_key_entry_t *entry)
{
    kvs_hoststore_key_t *key = entry->state;

    if (key->merge != NULL) {
        return KVS_OK;
    }
    return kvs_cpu_provider()->alloc((kvs_device_t){KVS_DEVICE_CPU, 0}, key->n_bytes, &key->merge);
}

static void unpack_blocks(void *arg, int64_t begin, int64_t end)
{
    const kvs_work_t *work = arg;
    float *merge = work->key->merge;

    for (int64_t i = begin; i < end; i++) {
        int64_t first = i * KVS_COMPRESSOR_BLOCK, behind = first + KVS_COMPRESSOR_BLOCK;

        kvs_packed_sum(&work->packed, first, behind < work->n_elems ? behind : work->n_elems,
                       merge + first);
    }
}

/* The sum of the packed values, in the merge buffer. */
static void unpack_whole(kvs_work_t *work)
{
    if (work->n_elems > 0) {
        kvs_for_units((work->n_elems + KVS_COMPRESSOR_BLOCK - 1) / KVS_COMPRESSOR_BLOCK,
                      work->key->n_bytes, unpack_blocks, work);
    }
    work->packed.n_values = 0;
}

/* Leave one value: the sum of all. */
static void sum_whole(kvs_work_t *work)
{
    const kvs_provider_t *cpu = kvs_cpu_provider();

    if (work->packed.n_values > 0) {
        unpack_whole(work);
        work->sum = work->key->merge;
    } else if (work->n_values == 1) {
        work->sum = work->values[0];
    } else {
        cpu->sum(work->dtype, work->n_elems, work->values, work->n_values, &work->key->merge, 1);
        work->sum = work->key->merge;
    }
    work->values = &work->sum;
    work->n_values = 1;
}

/* Packing is what changes residuals: nothing may fail after it. */
kvs_status_t kvs_update_take_values(const kvs_hoststore_t *host, const kvs_key_entry_t *key,
                                    kvs_work_t *work, int whole)
{
    const kvs_compression_t *compression = host->compression;
    kvs_status_t status = KVS_OK;

    if (compression != NULL && KVS_WORK_CUT % kvs_compression_unit(compression) != 0) {
        whole = 1;
    }
    if (whole && (work->n_values > 1 || compression != NULL)) {
        status = kvs_update_make_merge(key);
    }
    if (status == KVS_OK && compression != NULL) {
        status = kvs_compression_pack(compression, &work->key->residuals, work->n_elems,
                                      work->values, work->n_values, &work->packed);
    }
    if (status != KVS_OK) {
        return kvs_update_name_key(status, key);
    }
    if (whole) {
        sum_whole(work);
    }
    return KVS_OK;
}

static kvs_tensor_t view_of(const kvs_key_entry_t *key, const void *data)
{
    return (kvs_tensor_t){
        .data = (void *)data,
        .device = {KVS_DEVICE_CPU, 0},
        .ndim = key->ndim,
        .dtype = key->dtype,
        .shape = key->shape,
    };
}

kvs_status_t kvs_update_call(const kvs_hoststore_t *host, const kvs_key_entry_t *entry,
                             const void *sum, kvs_rows_t *rows)
{
    const kvs_hoststore_key_t *key = entry->state;
    kvs_key_t name = {entry->name, entry->number};
    kvs_tensor_t value = view_of(entry, sum), stored = view_of(entry, key->weight);

    value.rows = rows;
    kvs_status_t status = host->updater(&name, &value, &stored, host->updater_arg);

    if (status != KVS_OK) {
        (void)kvs_fail_context(KVS_ERR_CALLBACK, "updater returned %s", kvs_status_name(status));
        return kvs_update_name_key(KVS_ERR_CALLBACK, entry);
    }
    return KVS_OK;
}

kvs_status_t kvs_update_by_updater(const kvs_hoststore_t *host, const kvs_key_entry_t *key,
                                   kvs_work_t *work)
{
    kvs_status_t status = kvs_update_take_values(host, key, work, 1);

    if (status != KVS_OK) {
        return status;
    }
    status = kvs_update_call(host, key, work->sum, NULL);
    if (status == KVS_OK && work->n_outs > 0) {
        work->n_values = 0;
        kvs_work_run(host, work);
    }
    return status;
}

kvs_status_t kvs_update_by_optimizer(const kvs_hoststore_t *host, const kvs_group_t *group,
                                     kvs_work_t *work)
{
    kvs_hoststore_group_t *issued = group->state;
    int needs_whole = kvs_opt_needs_whole(host->opt);
    kvs_status_t status = kvs_opt_begin(host->opt, &work->key->opt, group->key, work->key->weight);

    if (status != KVS_OK) {
        return kvs_update_name_key(status, group->key);
    }
    status = kvs_update_take_values(host, group->key, work, needs_whole);
    if (status != KVS_OK) {
        return status;
    }
    work->opt = host->opt;
    work->update = &issued->update;
    if (needs_whole) {
        kvs_opt_prepare(host->opt, &work->key->opt, work->dtype, work->n_elems, work->sum,
                        work->key->weight, &issued->update);
    }
    kvs_work_run(host, work);
    return KVS_OK;
}
