/* SPDX-License-Identifier: Apache-2.0 */
/* compressstore.c - the kit's host store with compression in front of it, element by element in plain C,
 * for mutations of compression. Values are replaced by what is sent of them, and the kit sums these.
 *
 * `has(store, M_…)` marks each place where a mutation makes it wrong. */
#include "mutants.h"

#include <kvstore/kit.h>

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "host.h"

enum { MAX_PLACES = 8 };

/* The kit's parts come first: its functions are given these as theirs. */
typedef struct compress_store {
    kvs_hoststore_t host;
    mutation_t mutation;
    int bits; /* 0: no compression */
    double threshold;
    float shared[16]; /* shares_residual_of_keys */
} compress_store_t;

typedef struct compress_key {
    kvs_hoststore_key_t host;
    float *residuals[MAX_PLACES];
    size_t n_values; /* of the last push */
    bool is_early;   /* compresses_new_keys_only: was there before */
} compress_key_t;

static bool has(const compress_store_t *store, mutation_t mutation)
{
    return store->mutation == mutation;
}

/* ---- One element ---------------------------------------------------------------------------------- */

static float sent_1bit(const compress_store_t *store, float sum)
{
    float threshold = (float)store->threshold;
    float size = has(store, M_scales_1bit) ? threshold : 1;

    return sum > threshold || (has(store, M_sends_1bit_at_threshold) && sum == threshold) ? size
                                                                                          : -size;
}

static float sent_2bit(const compress_store_t *store, float sum)
{
    float threshold = (float)store->threshold;
    double least = has(store, M_compares_in_double) ? store->threshold : threshold;

    if (has(store, M_sends_2bit_above_threshold)) {
        least = nextafterf(threshold, INFINITY);
    }
    if (has(store, M_sends_no_negatives) && sum < 0) {
        return 0;
    }
    return sum >= least ? threshold : sum <= -least ? -threshold : 0;
}

static float send(const compress_store_t *store, float *residual, float value)
{
    float sum = *residual + value;
    float sent = store->bits == 1 ? sent_1bit(store, sum) : sent_2bit(store, sum);

    *residual = has(store, M_forgets_residual)    ? 0
                : has(store, M_subtracts_nothing) ? sum
                                                  : sum - sent;
    return sent;
}

/* ---- One value ------------------------------------------------------------------------------------ */

static float *residual_of(compress_store_t *store, compress_key_t *key, size_t place, int64_t n)
{
    float **residual = &key->residuals[has(store, M_shares_residual_of_places) ? 0 : place];

    if (has(store, M_shares_residual_of_keys) && n <= 16) {
        return store->shared;
    }
    if (*residual == NULL) {
        *residual = calloc((size_t)n + 1, sizeof(float));
    }
    return *residual;
}

static int64_t first_odd(const float *value, int64_t n)
{
    int64_t i = 0;

    while (i < n && isfinite(value[i])) {
        i++;
    }
    return i;
}

static void send_array(compress_store_t *store, float *residual, const float *value, int64_t n,
                       float *sent)
{
    int64_t n_done = has(store, M_compresses_one_block) && n > 65536 ? 65536 : n;

    for (int64_t i = 0; i < n; i++) {
        sent[i] = i < n_done ? send(store, &residual[i], value[i]) : value[i];
    }
    for (int64_t i = 0; i + 4 <= n && has(store, M_turns_bytes_round); i += 4) {
        float first = sent[i], second = sent[i + 1];

        sent[i] = sent[i + 3];
        sent[i + 1] = sent[i + 2];
        sent[i + 2] = second;
        sent[i + 3] = first;
    }
}

/* ---- One group ------------------------------------------------------------------------------------ */

static kvs_status_t fail_odd(const compress_store_t *store, const kvs_key_entry_t *key,
                             size_t place, int64_t element)
{
    return kvs_fail(KVS_ERR_NON_FINITE, "key %lld: value %zu, element %lld is not finite",
                    has(store, M_hides_key_of_non_finite) ? -1LL : (long long)key->number, place,
                    (long long)element);
}

static kvs_status_t check_value(compress_store_t *store, const kvs_group_t *group, size_t place)
{
    const float *value = group->values[place].data;
    int64_t odd = first_odd(value, group->key->n_elems);

    if (odd == group->key->n_elems || has(store, M_lets_non_finite_pass)) {
        return KVS_OK;
    }
    if (has(store, M_keeps_non_finite)) {
        residual_of(store, group->key->state, place, group->key->n_elems)[odd] = value[odd];
    }
    return fail_odd(store, group->key, place, odd);
}

static bool is_left_alone(const compress_store_t *store, const kvs_op_t *op,
                          const kvs_group_t *group)
{
    const compress_key_t *key = group->key->state;

    return store->bits == 0 || has(store, M_never_compresses) ||
           (has(store, M_spares_single_values) && group->n_values == 1) ||
           (has(store, M_spares_pushpull) && op->verb == KVS_VERB_PUSHPULL) ||
           (has(store, M_spares_known_keys) && key->is_early) ||
           (has(store, M_gives_updater_exact_sum) && store->host.updater != NULL) ||
           (has(store, M_gives_optimizer_exact_sum) && store->host.opt != NULL) ||
           kvs_dtype_index(group->key->dtype) != KVS_DTYPE_float32;
}

/* The sum as one value, for a mutation that compresses that. */
static void sum_first(kvs_group_t *group, kvs_tensor_t *values, float *sum)
{
    memset(sum, 0, (size_t)group->key->n_elems * sizeof(float));
    for (size_t i = 0; i < group->n_values; i++) {
        for (int64_t j = 0; j < group->key->n_elems; j++) {
            sum[j] += ((const float *)group->values[i].data)[j];
        }
    }
    values[0] = group->values[0];
    values[0].data = sum;
    group->values = values;
    group->n_values = 1;
}

/* `memory` holds the arrays that take the places of the values. */
static kvs_status_t compress_group(compress_store_t *store, kvs_group_t *group,
                                   kvs_tensor_t *values, float *memory)
{
    compress_key_t *key = group->key->state;
    int64_t n = group->key->n_elems;
    bool at_once = !has(store, M_sends_until_non_finite);
    kvs_status_t status = KVS_OK;

    /* All values are looked at before any residual changes. */
    for (size_t i = 0; i < group->n_values && at_once && status == KVS_OK; i++) {
        status = check_value(store, group, i);
    }
    if (status != KVS_OK) {
        return status;
    }
    if (has(store, M_compresses_sum)) {
        sum_first(group, values, memory + (int64_t)group->n_values * n);
    }
    if (has(store, M_drops_residuals_of_other_numbers) && key->n_values != group->n_values) {
        for (size_t i = 0; i < MAX_PLACES && key->n_values != 0; i++) {
            free(key->residuals[i]);
            key->residuals[i] = NULL;
        }
    }
    key->n_values = group->n_values;
    for (size_t i = 0; i < group->n_values; i++) {
        float *residual = residual_of(store, key, i, n), *sent = memory + (int64_t)i * n;

        status = at_once ? KVS_OK : check_value(store, group, i);
        if (status != KVS_OK) {
            return status;
        }
        send_array(store, residual, group->values[i].data, n, sent);
        if (has(store, M_compresses_in_place)) {
            memcpy(group->values[i].data, sent, (size_t)n * sizeof(float));
        }
        values[i] = group->values[i];
        values[i].data = sent;
    }
    group->values = values;
    return KVS_OK;
}

/* ---- The verbs ------------------------------------------------------------------------------------ */

typedef kvs_status_t verb_t(void *store, kvs_op_t *op);

/* The op for one of its groups, with what was sent in place of the values. */
static kvs_status_t push_group(compress_store_t *store, const kvs_op_t *op, kvs_group_t group,
                               verb_t *verb)
{
    size_t n_elems = (size_t)group.key->n_elems;
    float *memory = calloc((group.n_values + 1) * n_elems + 1, sizeof(*memory));
    kvs_tensor_t values[MAX_PLACES];
    kvs_op_t one = *op;
    kvs_status_t status = KVS_OK;

    one.groups = &group;
    one.n_groups = 1;
    if (!is_left_alone(store, op, &group)) {
        status = compress_group(store, &group, values, memory);
    }
    if (status == KVS_OK) {
        status = verb(&store->host, &one);
    }
    free(memory);
    return status;
}

static kvs_status_t push_by(compress_store_t *store, const kvs_op_t *op, verb_t *verb)
{
    kvs_status_t status = KVS_OK;

    for (size_t i = 0; i < op->n_groups && status == KVS_OK; i++) {
        status = push_group(store, op, op->groups[i], verb);
    }
    return status;
}

static bool compresses_any(const compress_store_t *store, const kvs_op_t *op)
{
    bool any = false;

    for (size_t i = 0; i < op->n_groups; i++) {
        any = any || !is_left_alone(store, op, &op->groups[i]);
    }
    return any;
}

static kvs_status_t compress_push(void *self, kvs_op_t *op)
{
    return compresses_any(self, op) ? push_by(self, op, kvs_hoststore_push)
                                    : kvs_hoststore_push(self, op);
}

static kvs_status_t compress_pushpull(void *self, kvs_op_t *op)
{
    return compresses_any(self, op) ? push_by(self, op, kvs_hoststore_pushpull)
                                    : kvs_hoststore_pushpull(self, op);
}

/* Every out as it would be after the way over the wire. */
static void compress_outs(compress_store_t *store, const kvs_op_t *op)
{
    for (size_t i = 0; i < op->n_groups; i++) {
        for (size_t j = 0; j < op->groups[i].n_outs && store->bits > 0; j++) {
            float *out = op->groups[i].outs[j].data;

            for (int64_t k = 0; k < op->groups[i].key->n_elems; k++) {
                float nothing = 0;

                out[k] = send(store, &nothing, out[k]);
            }
        }
    }
}

static kvs_status_t compress_pull(void *self, kvs_op_t *op)
{
    compress_store_t *store = self;
    kvs_status_t status = kvs_hoststore_pull(&store->host, op);

    if (status == KVS_OK && has(store, M_compresses_pulls)) {
        compress_outs(store, op);
    }
    return status;
}

static kvs_status_t compress_init(void *self, kvs_op_t *op)
{
    compress_store_t *store = self;
    compress_key_t *key = op->groups[0].key->state;

    key->is_early = store->bits == 0;
    if (store->bits > 0 && has(store, M_compresses_init)) {
        return push_by(store, op, kvs_hoststore_init);
    }
    return kvs_hoststore_init(&store->host, op);
}

/* Dtypes, as issued; row-sparse values are refused here too. */
static kvs_status_t check_values(const compress_store_t *store, const kvs_op_t *op)
{
    for (size_t i = 0; i < op->n_groups && store->bits > 0; i++) {
        const kvs_group_t *group = &op->groups[i];

        for (size_t j = 0; j < group->n_values; j++) {
            if (group->values[j].rows != NULL && !has(store, M_takes_row_sparse_values)) {
                return kvs_fail(KVS_ERR_STORAGE, "a row-sparse value can't be compressed");
            }
            if (kvs_dtype_index(group->values[j].dtype) != KVS_DTYPE_float32 &&
                !has(store, M_takes_other_dtypes)) {
                return kvs_fail(KVS_ERR_DTYPE, "%s can't be compressed",
                                kvs_dtype_name(group->values[j].dtype));
            }
        }
    }
    return KVS_OK;
}

static kvs_status_t compress_issue(void *self, kvs_op_t *op)
{
    kvs_status_t status = check_values(self, op);

    return status == KVS_OK ? kvs_hoststore_issue(self, op) : status;
}

static void compress_key_release(void *self, kvs_key_entry_t *entry)
{
    compress_key_t *key = entry->state;

    for (size_t i = 0; i < MAX_PLACES; i++) {
        free(key->residuals[i]);
    }
    kvs_hoststore_key_release(self, entry);
}

/* ---- Parameters ----------------------------------------------------------------------------------- */

static kvs_status_t take_type(compress_store_t *store, const kvs_param_t *param, int *ret_bits)
{
    bool known = param->type == KVS_PARAM_TEXT &&
                 (strcmp(param->value.text, "1bit") == 0 || strcmp(param->value.text, "2bit") == 0);

    if (!known && !has(store, M_takes_any_type)) {
        return kvs_fail(KVS_ERR_ARGUMENT, "type \"%s\" is neither 1bit nor 2bit",
                        param->type == KVS_PARAM_TEXT ? param->value.text : "");
    }
    *ret_bits = known && param->value.text[0] == '1' ? 1 : 2;
    return KVS_OK;
}

static kvs_status_t take_threshold(compress_store_t *store, const kvs_param_t *param,
                                   double *ret_threshold)
{
    double value = param->type == KVS_PARAM_FLOAT ? param->value.real : NAN;

    if (!isfinite((float)value)) {
        return kvs_fail(KVS_ERR_ARGUMENT, "threshold must be a finite number");
    }
    if (has(store, M_reads_six_digits)) {
        value = round(value * 1e6) / 1e6;
    }
    *ret_threshold = has(store, M_ignores_threshold) ? 0.5 : value;
    return KVS_OK;
}

static kvs_status_t take_param(compress_store_t *store, const kvs_param_t *param, int *ret_bits,
                               double *ret_threshold)
{
    if (strcmp(param->name, "type") == 0) {
        return take_type(store, param, ret_bits);
    }
    if (strcmp(param->name, "threshold") == 0) {
        return take_threshold(store, param, ret_threshold);
    }
    return has(store, M_takes_any_compression_parameter)
               ? KVS_OK
               : kvs_fail(KVS_ERR_ARGUMENT, "unknown parameter %s", param->name);
}

static kvs_status_t set_compression(void *self, const kvs_param_t *params, size_t n_params)
{
    compress_store_t *store = self;
    double threshold = has(store, M_has_another_default_threshold) ? 1 : 0.5;
    int bits = 0;
    kvs_status_t status = KVS_OK;

    for (size_t i = 0; i < n_params && status == KVS_OK; i++) {
        status = take_param(store, &params[i], &bits, &threshold);
    }
    if (status == KVS_OK && bits == 0) {
        status = kvs_fail(KVS_ERR_ARGUMENT, "type is missing");
    }
    if (status == KVS_OK && bits == 2 && !((float)threshold > 0) &&
        !has(store, M_takes_any_threshold) && !has(store, M_reads_six_digits)) {
        status = kvs_fail(KVS_ERR_ARGUMENT, "threshold must be above 0");
    }
    if (status == KVS_OK || has(store, M_sets_before_checking)) {
        store->bits = bits > 0 ? bits : 2;
        store->threshold = threshold;
    }
    return status;
}

/* ---- The backend ---------------------------------------------------------------------------------- */

static kvs_status_t compress_open(void *self, const kvs_open_args_t *args)
{
    compress_store_t *store = self;

    store->mutation = mutation_of(args->type);
    return kvs_hoststore_open(&store->host, args);
}

static const kvs_backend_ops_t compress_ops = {
    .size = sizeof(compress_ops),
    .mode = KVS_BLOCKING,
    .store_size = sizeof(compress_store_t),
    .key_size = sizeof(compress_key_t),
    .group_size = sizeof(kvs_hoststore_group_t),
    .open = compress_open,
    .close = kvs_hoststore_close,
    .key_release = compress_key_release,
    .issue = compress_issue,
    .init = compress_init,
    .push = compress_push,
    .pull = compress_pull,
    .pushpull = compress_pushpull,
    .row_sparse_pull = kvs_hoststore_row_sparse_pull,
    .set_updater = kvs_hoststore_set_updater,
    .set_optimizer = kvs_hoststore_set_optimizer,
    .set_optimizer_attr = kvs_hoststore_set_optimizer_attr,
    .save_optimizer_states = kvs_hoststore_save_optimizer_states,
    .load_optimizer_states = kvs_hoststore_load_optimizer_states,
    .set_gradient_compression = set_compression,
};

static const int32_t device_types[] = {KVS_DEVICE_CPU};

static const kvs_backend_t compress_backend = {
    .size = sizeof(compress_backend),
    .capabilities = KVS_CAN_OPTIMIZER | KVS_CAN_SPARSE | KVS_CAN_COMPRESSION | KVS_KEEPS_WEIGHTS,
    .name = "compressstore",
    .dtypes = KVS_DTYPES_ALL,
    .n_device_types = 1,
    .device_types = device_types,
    .ops = &compress_ops,
};

/* ---- Each push by itself --------------------------------------------------------------------------- */

static kvs_status_t need_optimizer(const compress_store_t *store, const kvs_op_t *op)
{
    const kvs_key_entry_t *key = op->groups[0].key;

    if (store->host.opt != NULL || (op->verb != KVS_VERB_PUSH && op->verb != KVS_VERB_PUSHPULL)) {
        return KVS_OK;
    }
    return key->name != NULL
               ? kvs_fail(KVS_ERR_STATE, "key '%s': set_optimizer comes first", key->name)
               : kvs_fail(KVS_ERR_STATE, "key %lld: set_optimizer comes first",
                          (long long)key->number);
}

static kvs_status_t async_issue(void *self, kvs_op_t *op)
{
    kvs_status_t status = check_values(self, op);

    status = status == KVS_OK ? need_optimizer(self, op) : status;
    return status == KVS_OK ? kvs_hoststore_issue(self, op) : status;
}

static kvs_status_t async_push(void *self, kvs_op_t *op)
{
    kvs_status_t status = compress_push(self, op);

    return status == KVS_OK && compresses_any(self, op) &&
                   has(self, M_applies_compressed_pushes_twice)
               ? compress_push(self, op)
               : status;
}

static const kvs_backend_ops_t async_ops = {
    .size = sizeof(async_ops),
    .mode = KVS_BLOCKING,
    .store_size = sizeof(compress_store_t),
    .key_size = sizeof(compress_key_t),
    .group_size = sizeof(kvs_hoststore_group_t),
    .open = compress_open,
    .close = kvs_hoststore_close,
    .key_release = compress_key_release,
    .issue = async_issue,
    .init = compress_init,
    .push = async_push,
    .pull = compress_pull,
    .pushpull = compress_pushpull,
    .row_sparse_pull = kvs_hoststore_row_sparse_pull,
    .set_optimizer = kvs_hoststore_set_optimizer,
    .set_optimizer_attr = kvs_hoststore_set_optimizer_attr,
    .save_optimizer_states = kvs_hoststore_save_optimizer_states,
    .load_optimizer_states = kvs_hoststore_load_optimizer_states,
    .set_gradient_compression = set_compression,
};

static const kvs_backend_t async_backend = {
    .size = sizeof(async_backend),
    .capabilities = KVS_CAN_OPTIMIZER | KVS_CAN_SPARSE | KVS_CAN_ASYNC | KVS_CAN_COMPRESSION |
                    KVS_KEEPS_WEIGHTS,
    .name = "asynccompressstore",
    .dtypes = KVS_DTYPES_ALL,
    .n_device_types = 1,
    .device_types = device_types,
    .ops = &async_ops,
};

kvs_status_t register_async_compress(const char *name)
{
    kvs_plugin_host = kvsi_host();
    return kvs_register_backend(name, &async_backend);
}

kvs_status_t register_compress(const char *name)
{
    kvs_plugin_host = kvsi_host();
    return kvs_register_backend(name, &compress_backend);
}
