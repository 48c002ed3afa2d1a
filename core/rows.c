/* SPDX-License-Identifier: Apache-2.0 */
/* rows.c - see rows.h. */
#include "rows.h"

#include "tensor.h"

static const char *verb_of(const kvsi_op_t *op)
{
    return kvsi_verb_name((kvs_verb_t)op->pub.verb);
}

kvs_status_t kvsi_rows_check_counts(const char *verb, const kvs_key_t *key, size_t n_outs,
                                    size_t n_row_ids)
{
    if (n_row_ids == 1 || n_row_ids == n_outs) {
        return KVS_OK;
    }
    return kvs_fail(KVS_ERR_ARGUMENT,
                    "%s: key %s has %zu outs and %zu row id arrays; give one, or one for each out",
                    verb, KVSI_KEY_TEXT(key), n_outs, n_row_ids);
}

/* ---- Storage ------------------------------------------------------------------------------------ */

static kvs_status_t check_values(const char *verb, const kvs_key_t *key, const kvs_group_t *group,
                                 bool row_sparse)
{
    for (size_t i = 1; i < group->n_values; i++) {
        if ((group->values[i].rows != NULL) != (group->values[0].rows != NULL)) {
            return kvs_fail(KVS_ERR_STORAGE,
                            "%s: key %s: value 0 is %s, but value %zu is %s; values of one kind "
                            "are accepted",
                            verb, KVSI_KEY_TEXT(key),
                            group->values[0].rows != NULL ? "row-sparse" : "dense", i,
                            group->values[i].rows != NULL ? "row-sparse" : "dense");
        }
    }
    if (row_sparse && group->n_values > 0 && group->values[0].rows == NULL) {
        return kvs_fail(KVS_ERR_STORAGE,
                        "%s: key %s is row-sparse, but value 0 is dense; pass row-sparse values",
                        verb, KVSI_KEY_TEXT(key));
    }
    return KVS_OK;
}

/* A pull gives rows only where the call asks for them and the key has them. */
static kvs_status_t check_out(const kvsi_op_t *op, const kvs_key_t *key, const kvs_group_t *group,
                              bool row_sparse, size_t index)
{
    bool keep = (op->pub.flags & KVS_OP_KEEP_SPARSE) != 0;
    bool has_rows = group->outs[index].rows != NULL;

    if (op->pub.verb == KVS_VERB_ROW_SPARSE_PULL) {
        return has_rows
                   ? KVS_OK
                   : kvs_fail(KVS_ERR_STORAGE,
                              "%s: key %s: out %zu is dense; pass row-sparse outs, or use pull",
                              verb_of(op), KVSI_KEY_TEXT(key), index);
    }
    if (!has_rows || (keep && row_sparse)) {
        return KVS_OK;
    }
    if (row_sparse && !op->store->keeps_weights && op->pub.verb == KVS_VERB_PUSHPULL) {
        return KVS_OK; /* rows in, rows out */
    }
    return kvs_fail(KVS_ERR_STORAGE, "%s: key %s: out %zu is row-sparse%s; use row_sparse_pull",
                    verb_of(op), KVSI_KEY_TEXT(key), index, keep ? ", but the key is dense" : "");
}

static kvs_status_t check_row_ids(const char *verb, const kvs_key_t *key, const kvs_tensor_t *ids,
                                  size_t index)
{
    if (ids->rows != NULL) {
        return kvs_fail(KVS_ERR_STORAGE,
                        "%s: key %s: row id array %zu is row-sparse; pass it dense", verb,
                        KVSI_KEY_TEXT(key), index);
    }
    if (kvsi_dtype_is_floating(ids->dtype)) {
        return kvs_fail(KVS_ERR_DTYPE,
                        "%s: key %s: row id array %zu is %s; integer dtypes are accepted", verb,
                        KVSI_KEY_TEXT(key), index, kvs_dtype_name(ids->dtype));
    }
    return KVS_OK;
}

kvs_status_t kvsi_rows_check_storage(const kvsi_op_t *op, const kvs_group_t *group, bool row_sparse)
{
    kvs_key_t key = kvsi_key_of(group->key);
    kvs_status_t status = check_values(verb_of(op), &key, group, row_sparse);

    if (op->pub.verb == KVS_VERB_ROW_SPARSE_PULL && !row_sparse) {
        return kvs_fail(KVS_ERR_STORAGE, "%s: key %s is dense; use pull", verb_of(op),
                        KVSI_KEY_TEXT(&key));
    }
    for (size_t i = 0; i < group->n_outs && status == KVS_OK; i++) {
        status = check_out(op, &key, group, row_sparse, i);
    }
    for (size_t i = 0; i < group->n_row_ids && status == KVS_OK; i++) {
        status = check_row_ids(verb_of(op), &key, &group->row_ids[i], i);
    }
    return status;
}

/* ---- Ids ---------------------------------------------------------------------------------------- */

/* The first of the ids that is not a row, or -1 as its place. */
#define FIND_OUTSIDE(type)                                                                         \
    for (int64_t i = 0; i < n; i++) {                                                              \
        int64_t id = ((const type *)data)[i];                                                      \
                                                                                                   \
        if (id < 0 || id >= n_rows) {                                                              \
            *ret_id = id;                                                                          \
            return i;                                                                              \
        }                                                                                          \
    }                                                                                              \
    return -1

static int64_t find_outside(kvs_dtype_t dtype, const void *data, int64_t n, int64_t n_rows,
                            int64_t *ret_id)
{
    switch (kvs_dtype_index(dtype)) {
    case KVS_DTYPE_int8:
        FIND_OUTSIDE(int8_t);
    case KVS_DTYPE_uint8:
        FIND_OUTSIDE(uint8_t);
    case KVS_DTYPE_int32:
        FIND_OUTSIDE(int32_t);
    default:
        FIND_OUTSIDE(int64_t);
    }
}

static kvs_status_t check_ids(const kvsi_op_t *op, const kvs_group_t *group, kvs_dtype_t dtype,
                              const void *data, int64_t n, int64_t n_rows, const char *what,
                              size_t index)
{
    kvs_key_t key = kvsi_key_of(group->key);
    int64_t id = 0;
    int64_t place = find_outside(dtype, data, n, n_rows, &id);

    if (place < 0) {
        return KVS_OK;
    }
    return kvs_fail(KVS_ERR_RANGE,
                    "%s: key %s: %s %zu: row id %lld, at place %lld, is outside [0, %lld): the key "
                    "has %lld rows",
                    verb_of(op), KVSI_KEY_TEXT(&key), what, index, (long long)id, (long long)place,
                    (long long)n_rows, (long long)n_rows);
}

static bool is_in_host_memory(const kvs_tensor_t *tensor)
{
    return tensor->device.type != KVS_DEVICE_CUDA;
}

static kvs_status_t check_ids_of_group(const kvsi_op_t *op, const kvs_group_t *group)
{
    kvs_status_t status = KVS_OK;

    for (size_t i = 0; i < group->n_values && status == KVS_OK; i++) {
        const kvs_tensor_t *value = &group->values[i];

        if (value->rows != NULL) {
            status = check_ids(op, group, kvs_dtype(KVS_DTYPE_int64), value->rows->ids,
                               value->rows->n_rows, value->shape[0], "value", i);
        }
    }
    for (size_t i = 0; i < group->n_row_ids && status == KVS_OK; i++) {
        const kvs_tensor_t *ids = &group->row_ids[i];

        if (is_in_host_memory(ids)) {
            status = check_ids(op, group, ids->dtype, ids->data, kvsi_tensor_n_elems(ids),
                               group->key->shape[0], "row id array", i);
        }
    }
    return status;
}

kvs_status_t kvsi_rows_check_ids(const kvsi_op_t *op)
{
    kvs_status_t status = KVS_OK;

    for (size_t g = 0; g < op->pub.n_groups && status == KVS_OK; g++) {
        status = check_ids_of_group(op, &op->pub.groups[g]);
    }
    return status;
}

uint64_t kvsi_rows_bytes(const kvs_tensor_t *tensor, int64_t n_rows)
{
    uint64_t row_bytes = tensor->dtype.bits / 8;

    for (int32_t i = 1; i < tensor->ndim; i++) {
        row_bytes *= (uint64_t)tensor->shape[i];
    }
    return (uint64_t)n_rows * (row_bytes + sizeof(int64_t));
}
