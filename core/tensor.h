/* SPDX-License-Identifier: Apache-2.0 */
/* tensor.h - checks that an array given by a caller is one this library can read, never misread. */
#ifndef KVSI_TENSOR_H
#define KVSI_TENSOR_H

#include <kvstore/kvstore.h>

#include <stdbool.h>

#define KVSI_MAX_NDIM 32

typedef struct kvsi_size {
    int64_t n_elems;
    int64_t n_bytes;
} kvsi_size_t;

/* Shape, dtype, strides, alignment and data of a dense or row-sparse array; `what` ("value 2") and
 * `key` name it in the text. `ret_size` counts the elements that `data` holds: of a row-sparse out
 * those of its capacity, of a value those of its rows. */
kvs_status_t kvsi_tensor_check(const kvs_tensor_t *tensor, const char *what, size_t index,
                               const kvs_key_t *key, bool is_out, kvsi_size_t *ret_size);

/* Elements of the full shape. */
static inline int64_t kvsi_tensor_n_elems(const kvs_tensor_t *tensor)
{
    int64_t n = 1;

    for (int32_t i = 0; i < tensor->ndim; i++) {
        n *= tensor->shape[i];
    }
    return n;
}

int kvsi_shape_equal(const int64_t *a, int32_t a_ndim, const int64_t *b, int32_t b_ndim);
/* "(2, 3)", "(4,)", "()"; cut with "..." where it does not fit. Gives `text`. */
const char *kvsi_shape_text(const int64_t *shape, int32_t ndim, char *text, size_t n_bytes);
/* "3" or "'weight'", cut where it does not fit. Gives `text`. */
const char *kvsi_key_text(const kvs_key_t *key, char *text, size_t n_bytes);

#define KVSI_KEY_TEXT_BYTES   96
#define KVSI_SHAPE_TEXT_BYTES 160
/* Texts that live to the end of the enclosing block, for messages. */
#define KVSI_KEY_TEXT(key) kvsi_key_text((key), (char[KVSI_KEY_TEXT_BYTES]){0}, KVSI_KEY_TEXT_BYTES)
#define KVSI_SHAPE_TEXT(shape, ndim)                                                               \
    kvsi_shape_text((shape), (ndim), (char[KVSI_SHAPE_TEXT_BYTES]){0}, KVSI_SHAPE_TEXT_BYTES)

static inline int kvsi_dtype_is_floating(kvs_dtype_t dtype)
{
    return dtype.code == KVS_CODE_FLOAT || dtype.code == KVS_CODE_BFLOAT;
}

static inline int kvsi_dtype_equal(kvs_dtype_t a, kvs_dtype_t b)
{
    return a.code == b.code && a.bits == b.bits && a.lanes == b.lanes;
}

#endif
