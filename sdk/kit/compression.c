/* SPDX-License-Identifier: Apache-2.0 */
/* compression.c - see compression.h. Values are packed block by block, each block by one thread; the new
 * residuals are written beside the old ones and take their place once all blocks are done. */
#include "fpenv.h"
#include "opt_params.h"
#include "pieces.h"
#include "residuals.h"

#include <kvstore/kit.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct kvs_compression {
    const kvs_compressor_t *kind;
    float params[KVS_COMPRESSOR_MAX_PARAMS];
};

/* ---- Parameters ---------------------------------------------------------------------------------- */

#define OWNER "gradient compression"

static const kvs_param_info_t type_info = {.name = "type", .type = KVS_PARAM_TEXT};

static kvs_status_t fail_without_type(const kvs_param_t *params, size_t n_params)
{
    for (size_t i = 0; i < n_params; i++) {
        if (params[i].name != NULL && kvs_near_name(params[i].name, &type_info.name, 1) != NULL) {
            return kvs_fail(KVS_ERR_ARGUMENT,
                            OWNER ": unknown parameter '%s'; did you mean 'type'?", params[i].name);
        }
    }
    return kvs_fail(KVS_ERR_ARGUMENT,
                    OWNER ": parameter 'type' is missing: the name of a compressor, such as 2bit");
}

static kvs_status_t find_kind(const kvs_param_t *params, size_t n_params,
                              const kvs_compressor_t **ret_kind)
{
    const kvs_param_table_t table = {OWNER, &type_info, 1};
    size_t i = 0, index;

    if (params == NULL && n_params > 0) {
        return kvs_fail(KVS_ERR_ARGUMENT, OWNER ": the list of parameters is NULL");
    }
    while (i < n_params && (params[i].name == NULL || strcmp(params[i].name, "type") != 0)) {
        i++;
    }
    if (i == n_params) {
        return fail_without_type(params, n_params);
    }
    kvs_status_t status = kvs_params_check(&table, &params[i], &index);

    if (status != KVS_OK) {
        return status;
    }
    status = kvs_plugin_host->find_compressor(params[i].value.text, ret_kind);
    return status == KVS_OK ? KVS_OK : kvs_fail_context(status, OWNER);
}

static kvs_status_t take_params(kvs_compression_t *compression, const kvs_param_t *params,
                                size_t n_params)
{
    const kvs_compressor_t *kind = compression->kind;
    kvs_param_info_t infos[1 + KVS_COMPRESSOR_MAX_PARAMS] = {type_info};
    const kvs_param_t *given[1 + KVS_COMPRESSOR_MAX_PARAMS];
    char owner[64];
    const kvs_param_table_t table = {owner, infos, 1 + kind->n_params};

    snprintf(owner, sizeof(owner), "compressor '%.40s'", kind->name);
    for (size_t i = 0; i < kind->n_params; i++) {
        infos[1 + i] = kind->params[i];
    }
    kvs_status_t status = kvs_params_match(&table, params, n_params, given);

    for (size_t i = 0; i < kind->n_params && status == KVS_OK; i++) {
        double number = kvs_param_number(&kind->params[i], given[1 + i]);

        compression->params[i] = (float)number;
        if (!isfinite(compression->params[i])) {
            status =
                kvs_fail(KVS_ERR_ARGUMENT, "%s: parameter '%s' is %.17g, too large for float32",
                         owner, kind->params[i].name, number);
        }
    }
    return status == KVS_OK && kind->check != NULL ? kind->check(compression->params) : status;
}

kvs_status_t kvs_compression_new(const kvs_param_t *params, size_t n_params,
                                 kvs_compression_t **ret_compression)
{
    kvs_compression_t compression = {0};
    kvs_status_t status = find_kind(params, n_params, &compression.kind);

    if (status == KVS_OK) {
        status = take_params(&compression, params, n_params);
    }
    if (status != KVS_OK) {
        return status;
    }
    kvs_compression_t *made = malloc(sizeof(*made));

    if (made == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, OWNER ": no memory");
    }
    *made = compression;
    *ret_compression = made;
    return KVS_OK;
}

void kvs_compression_free(kvs_compression_t *compression)
{
    free(compression);
}

/* ---- What can be compressed ------------------------------------------------------------------------ */

static kvs_status_t check_value(const kvs_compression_t *compression, const kvs_tensor_t *value)
{
    if (value->rows != NULL) {
        return kvs_fail(KVS_ERR_STORAGE, OWNER " '%s' takes dense values, got a row-sparse one",
                        compression->kind->name);
    }
    if (kvs_dtype_index(value->dtype) != KVS_DTYPE_float32) {
        return kvs_fail(KVS_ERR_DTYPE, OWNER " '%s' takes float32 values, got %s",
                        compression->kind->name, kvs_dtype_name(value->dtype));
    }
    return KVS_OK;
}

kvs_status_t kvs_compression_check(const kvs_compression_t *compression, const kvs_group_t *group)
{
    kvs_status_t status = KVS_OK;

    for (size_t i = 0; i < group->n_values && status == KVS_OK; i++) {
        status = check_value(compression, &group->values[i]);
    }
    if (status == KVS_OK) {
        return KVS_OK;
    }
    return group->key->name != NULL
               ? kvs_fail_context(status, "key '%s'", group->key->name)
               : kvs_fail_context(status, "key %lld", (long long)group->key->number);
}

int64_t kvs_compression_unit(const kvs_compression_t *compression)
{
    return compression->kind->unit;
}

uint64_t kvs_compression_bytes(const kvs_compression_t *compression, int64_t n_elems)
{
    return n_elems == 0 ? 0 : compression->kind->packed_bytes(compression->params, n_elems);
}

const kvs_compressor_t *kvs_compression_kind(const kvs_compression_t *compression)
{
    return compression->kind;
}

const float *kvs_compression_params(const kvs_compression_t *compression)
{
    return compression->params;
}

/* ---- Packing ------------------------------------------------------------------------------------- */

typedef struct job {
    const kvs_compression_t *compression;
    const kvs_residuals_t *residuals;
    const float *const *values;
    int64_t n_blocks; /* of each value */
    int stream;
    int failed; /* written as a relaxed atomic: the pool's end of the loop makes it seen */
} job_t;

/* Block `index % n_blocks` of value `index / n_blocks`. */
static int pack_block(const job_t *job, int64_t index)
{
    const kvs_compression_t *compression = job->compression;
    const kvs_residual_t *item = &job->residuals->items[index / job->n_blocks];
    int64_t begin = index % job->n_blocks * KVS_COMPRESSOR_BLOCK;
    int64_t n = job->residuals->n_elems - begin;

    return compression->kind->encode(
        compression->params, n < KVS_COMPRESSOR_BLOCK ? n : KVS_COMPRESSOR_BLOCK,
        job->values[index / job->n_blocks] + begin, (const float *)item->data + begin,
        (float *)item->next + begin,
        (char *)item->packed + kvs_compression_bytes(compression, begin), job->stream);
}

static void pack_blocks(void *arg, int64_t begin, int64_t end)
{
    job_t *job = arg;
    unsigned saved = kvs_fpenv_enter();

    for (int64_t i = begin; i < end; i++) {
        if (!pack_block(job, i)) {
            __atomic_store_n(&job->failed, 1, __ATOMIC_RELAXED);
        }
    }
    kvs_fpenv_leave(saved);
}

/* Name the first element, in list order, whose sum with its residual is not finite. */
static kvs_status_t fail_non_finite(const job_t *job, size_t n_values)
{
    for (size_t i = 0; i < n_values; i++) {
        const float *residual = job->residuals->items[i].data;

        for (int64_t j = 0; j < job->residuals->n_elems; j++) {
            float value = job->values[i][j];

            if (!isfinite(value)) {
                return kvs_fail(KVS_ERR_NON_FINITE,
                                "value %zu of the list: element %lld is %s, which can't be "
                                "compressed; nothing was done",
                                i, (long long)j, isnan(value) ? "NaN" : "infinite");
            }
            if (!isfinite(value + residual[j])) {
                return kvs_fail(
                    KVS_ERR_NON_FINITE,
                    "value %zu of the list: element %lld is %g, which with its residual "
                    "%g exceeds float32; nothing was done",
                    i, (long long)j, (double)value, (double)residual[j]);
            }
        }
    }
    return kvs_fail(KVS_ERR_PLUGIN,
                    "compressor '%s' says that a value is not finite, though all are",
                    job->compression->kind->name);
}

static kvs_status_t make_room(const kvs_compression_t *compression, kvs_residuals_t *residuals,
                              int64_t n_elems, size_t n_values)
{
    uint64_t packed_bytes = kvs_compression_bytes(compression, n_elems);
    kvs_status_t status = kvs_residuals_reserve(residuals, n_elems, n_values);

    for (size_t i = 0; i < n_values && status == KVS_OK; i++) {
        status = kvs_residual_make_room(residuals, i, packed_bytes);
    }
    return status;
}

kvs_status_t kvs_compression_pack(const kvs_compression_t *compression, kvs_residuals_t *residuals,
                                  int64_t n_elems, const void *const *values, size_t n_values,
                                  kvs_packed_t *ret_packed)
{
    uint64_t n_bytes = (uint64_t)n_elems * sizeof(float) * 3 * n_values;
    job_t job = {
        .compression = compression,
        .residuals = residuals,
        .values = (const float *const *)values,
        .n_blocks = (n_elems + KVS_COMPRESSOR_BLOCK - 1) / KVS_COMPRESSOR_BLOCK,
        .stream = kvs_exceeds_cache(n_bytes),
    };
    kvs_status_t status = make_room(compression, residuals, n_elems, n_values);

    if (status != KVS_OK) {
        return status;
    }
    if (n_elems > 0) {
        kvs_for_units(job.n_blocks * (int64_t)n_values, n_bytes, pack_blocks, &job);
    }
    if (job.failed) {
        return fail_non_finite(&job, n_values);
    }
    for (size_t i = 0; i < n_values; i++) {
        kvs_residual_t *item = &residuals->items[i];
        void *old = item->data;

        item->data = item->next;
        item->next = old;
    }
    *ret_packed = (kvs_packed_t){compression, residuals, n_values};
    return KVS_OK;
}

/* ---- Unpacking ----------------------------------------------------------------------------------- */

const void *kvs_packed_at(const kvs_packed_t *packed, size_t place)
{
    return packed->residuals->items[place].packed;
}

void kvs_compression_unpack(const kvs_compression_t *compression, int64_t n_elems,
                            const void *packed, float *dst, int adds)
{
    const kvs_compressor_t *kind = compression->kind;
    unsigned saved = kvs_fpenv_enter();

    (adds ? kind->decode_add : kind->decode)(compression->params, n_elems, packed, dst);
    kvs_fpenv_leave(saved);
}

void kvs_packed_sum(const kvs_packed_t *packed, int64_t begin, int64_t end, float *sum)
{
    uint64_t at = kvs_compression_bytes(packed->compression, begin);

    for (size_t i = 0; i < packed->n_values; i++) {
        kvs_compression_unpack(packed->compression, end - begin,
                               (const char *)kvs_packed_at(packed, i) + at, sum, i > 0);
    }
}
