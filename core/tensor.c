/* SPDX-License-Identifier: Apache-2.0 */
/* tensor.c - what is not plainly a compact array of a known dtype is refused with a text that says
 * so: a guess here would be a silent misreading later. */
#include "tensor.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    kvs_dtype_t dtype;
} dtypes[KVS_N_DTYPES] = {
#define DTYPE_ROW(name, code, bits) {#name, {(code), (bits), 1}},
    KVS_DTYPE_LIST(DTYPE_ROW)
#undef DTYPE_ROW
};

kvs_dtype_t kvs_dtype(int index)
{
    if (index < 0 || index >= KVS_N_DTYPES) {
        return (kvs_dtype_t){0, 0, 0};
    }
    return dtypes[index].dtype;
}

int kvs_dtype_index(kvs_dtype_t dtype)
{
    for (int i = 0; i < KVS_N_DTYPES; i++) {
        if (kvsi_dtype_equal(dtypes[i].dtype, dtype)) {
            return i;
        }
    }
    return -1;
}

const char *kvs_dtype_name(kvs_dtype_t dtype)
{
    int index = kvs_dtype_index(dtype);

    return index < 0 ? "unknown dtype" : dtypes[index].name;
}

int kvsi_shape_equal(const int64_t *a, int32_t a_ndim, const int64_t *b, int32_t b_ndim)
{
    if (a_ndim != b_ndim) {
        return 0;
    }
    for (int32_t i = 0; i < a_ndim; i++) {
        if (a[i] != b[i]) {
            return 0;
        }
    }
    return 1;
}

const char *kvsi_shape_text(const int64_t *shape, int32_t ndim, char *text, size_t n_bytes)
{
    size_t used = (size_t)snprintf(text, n_bytes, "(");

    for (int32_t i = 0; i < ndim; i++) {
        char dim[24];
        int len = snprintf(dim, sizeof(dim), "%lld", (long long)shape[i]);

        if (used + (size_t)len + sizeof(", ...)") > n_bytes) {
            snprintf(text + used, n_bytes - used, "...)");
            return text;
        }
        used += (size_t)snprintf(text + used, n_bytes - used, "%s%s", dim,
                                 i + 1 < ndim ? ", " : (ndim == 1 ? "," : ""));
    }
    snprintf(text + used, n_bytes - used, ")");
    return text;
}

const char *kvsi_key_text(const kvs_key_t *key, char *text, size_t n_bytes)
{
    if (key->str == NULL) {
        snprintf(text, n_bytes, "%lld", (long long)key->num);
    } else if (strnlen(key->str, n_bytes) + 2 < n_bytes) {
        snprintf(text, n_bytes, "'%s'", key->str);
    } else {
        int cut = (int)n_bytes - 6;

        while (cut > 0 && ((unsigned char)key->str[cut] & 0xC0) == 0x80) {
            cut--;
        }
        snprintf(text, n_bytes, "'%.*s...'", cut, key->str);
    }
    return text;
}

/* The strides are those of a compact row-major array: dimensions of size 1 have none that counts,
 * and an array without elements has no second element to misread. */
static int is_compact(const kvs_tensor_t *tensor)
{
    int64_t expected = 1;

    for (int32_t i = 0; tensor->strides != NULL && i < tensor->ndim; i++) {
        if (tensor->shape[i] == 0) {
            return 1;
        }
    }
    for (int32_t i = tensor->ndim - 1; tensor->strides != NULL && i >= 0; i--) {
        if (tensor->shape[i] != 1 && tensor->strides[i] != expected) {
            return 0;
        }
        expected *= tensor->shape[i];
    }
    return 1;
}

/* Elements of dimensions [first, ndim) of the shape, checking each for sign and the product, times
 * `bytes`, for overflow. */
static int count_elems(const kvs_tensor_t *tensor, int32_t first, int64_t bytes, int64_t *ret_n)
{
    int64_t n = 1, n_bytes;
    int empty = 0;

    for (int32_t i = first; i < tensor->ndim; i++) {
        if (tensor->shape[i] < 0) {
            return 0;
        }
        if (tensor->shape[i] == 0) {
            empty = 1;
        } else if (__builtin_mul_overflow(n, tensor->shape[i], &n)) {
            return 0;
        }
    }
    if (__builtin_mul_overflow(n, bytes, &n_bytes) || (uint64_t)n_bytes > (uint64_t)PTRDIFF_MAX) {
        return 0;
    }
    *ret_n = empty ? 0 : n;
    return 1;
}

static kvs_status_t check_layout(const kvs_tensor_t *tensor, const char *what, size_t index,
                                 const kvs_key_t *key)
{
    if (tensor->ndim < 0 || tensor->ndim > KVSI_MAX_NDIM) {
        return kvs_fail(KVS_ERR_ARGUMENT, "key %s: %s %zu has ndim %d; 0 to %d are accepted",
                        KVSI_KEY_TEXT(key), what, index, (int)tensor->ndim, KVSI_MAX_NDIM);
    }
    if (tensor->ndim > 0 && tensor->shape == NULL) {
        return kvs_fail(KVS_ERR_ARGUMENT, "key %s: %s %zu has ndim %d but its shape is NULL",
                        KVSI_KEY_TEXT(key), what, index, (int)tensor->ndim);
    }
    if (kvs_dtype_index(tensor->dtype) < 0) {
        return kvs_fail(KVS_ERR_DTYPE,
                        "key %s: %s %zu has an unknown dtype (code %u, bits %u, lanes %u); "
                        "accepted are float32, float64, float16, bfloat16, int8, uint8, int32, "
                        "int64, with one lane",
                        KVSI_KEY_TEXT(key), what, index, tensor->dtype.code, tensor->dtype.bits,
                        tensor->dtype.lanes);
    }
    return KVS_OK;
}

static kvs_status_t check_data(const kvs_tensor_t *tensor, const char *what, size_t index,
                               const kvs_key_t *key, const kvsi_size_t *size)
{
    uintptr_t address = 0, end;

    if (!is_compact(tensor)) {
        return kvs_fail(KVS_ERR_ARGUMENT,
                        "key %s: %s %zu of shape %s has strides %s, which are not those of a "
                        "compact row-major array; pass a contiguous copy",
                        KVSI_KEY_TEXT(key), what, index,
                        KVSI_SHAPE_TEXT(tensor->shape, tensor->ndim),
                        KVSI_SHAPE_TEXT(tensor->strides, tensor->ndim));
    }
    if (size->n_elems > 0 && tensor->data == NULL) {
        return kvs_fail(KVS_ERR_ARGUMENT, "key %s: %s %zu of shape %s has NULL data",
                        KVSI_KEY_TEXT(key), what, index,
                        KVSI_SHAPE_TEXT(tensor->shape, tensor->ndim));
    }
    if (size->n_elems > 0 &&
        (__builtin_add_overflow((uintptr_t)tensor->data, tensor->byte_offset, &address) ||
         __builtin_add_overflow(address, (uintptr_t)size->n_bytes, &end))) {
        return kvs_fail(KVS_ERR_ARGUMENT,
                        "key %s: %s %zu with byte_offset %llu lies beyond the address space",
                        KVSI_KEY_TEXT(key), what, index, (unsigned long long)tensor->byte_offset);
    }
    if (size->n_elems > 0 && address % (tensor->dtype.bits / 8) != 0) {
        return kvs_fail(KVS_ERR_ARGUMENT,
                        "key %s: data of %s %zu is not aligned to its element of %d bytes",
                        KVSI_KEY_TEXT(key), what, index, tensor->dtype.bits / 8);
    }
    return KVS_OK;
}

/* How many rows `data` holds: what else stands in the struct is not the caller's to set. */
static int64_t n_rows_of(const kvs_tensor_t *tensor, bool is_out)
{
    return is_out ? tensor->rows->capacity : tensor->rows->n_rows;
}

static kvs_status_t fail_too_many(const char *what, size_t index, const kvs_key_t *key)
{
    return kvs_fail(KVS_ERR_ARGUMENT, "key %s: %s %zu lists more rows than fit in memory",
                    KVSI_KEY_TEXT(key), what, index);
}

static kvs_status_t check_rows(const kvs_tensor_t *tensor, const char *what, size_t index,
                               const kvs_key_t *key, bool is_out)
{
    int64_t n_rows = n_rows_of(tensor, is_out);

    if (tensor->ndim < 1) {
        return kvs_fail(KVS_ERR_SHAPE, "key %s: %s %zu is row-sparse but has no dimension of rows",
                        KVSI_KEY_TEXT(key), what, index);
    }
    if (n_rows > (int64_t)(PTRDIFF_MAX / sizeof(int64_t))) {
        return fail_too_many(what, index, key);
    }
    if (n_rows < 0 || (n_rows > 0 && tensor->rows->ids == NULL)) {
        return kvs_fail(KVS_ERR_ARGUMENT,
                        "key %s: the row ids of %s %zu are NULL or their number is negative",
                        KVSI_KEY_TEXT(key), what, index);
    }
    return KVS_OK;
}

kvs_status_t kvsi_tensor_check(const kvs_tensor_t *tensor, const char *what, size_t index,
                               const kvs_key_t *key, bool is_out, kvsi_size_t *ret_size)
{
    kvsi_size_t size = {0, 0};
    int64_t row_elems;
    int64_t bytes = tensor->dtype.bits / 8;
    kvs_status_t status = check_layout(tensor, what, index, key);

    if (status == KVS_OK && tensor->rows != NULL) {
        status = check_rows(tensor, what, index, key, is_out);
    }
    if (status != KVS_OK) {
        return status;
    }
    if (!count_elems(tensor, 0, bytes, &size.n_elems)) {
        return kvs_fail(KVS_ERR_ARGUMENT,
                        "key %s: %s %zu has shape %s: a dimension is negative or the size exceeds "
                        "the address space",
                        KVSI_KEY_TEXT(key), what, index,
                        KVSI_SHAPE_TEXT(tensor->shape, tensor->ndim));
    }
    if (tensor->rows != NULL) {
        if (!count_elems(tensor, 1, bytes, &row_elems) ||
            __builtin_mul_overflow(row_elems, n_rows_of(tensor, is_out), &size.n_elems) ||
            __builtin_mul_overflow(size.n_elems, bytes, &size.n_bytes)) {
            return fail_too_many(what, index, key);
        }
    }
    size.n_bytes = size.n_elems * bytes;
    status = check_data(tensor, what, index, key, &size);
    if (status == KVS_OK) {
        *ret_size = size;
    }
    return status;
}
