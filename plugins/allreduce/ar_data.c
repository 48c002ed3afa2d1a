/* SPDX-License-Identifier: Apache-2.0 */
#include "ar_data.h"

#include <string.h>

ar_data_t ar_data_number(int dtype, ar_piece_t *pieces, size_t n_pieces)
{
    ar_data_t data = {dtype, pieces, n_pieces, 0};

    for (size_t i = 0; i < n_pieces; i++) {
        pieces[i].first = data.n_elems;
        data.n_elems += pieces[i].n_elems;
    }
    return data;
}

/* The piece that element `at`, which is there, belongs to. */
static const ar_piece_t *piece_of(const ar_data_t *data, int64_t at)
{
    size_t low = 0, high = data->n_pieces;

    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;

        if (data->pieces[middle].first <= at) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return &data->pieces[low];
}

static size_t size_of(const kvs_tensor_t *tensor)
{
    return tensor->dtype.bits / 8;
}

static void read_piece(const ar_piece_t *piece, int dtype, int64_t at, int64_t n, void *to)
{
    const void *sources[AR_MAX_VALUES];

    for (size_t i = 0; i < piece->n_values; i++) {
        sources[i] = (const char *)piece->values[i].data + (size_t)at * size_of(&piece->values[i]);
    }
    if (piece->n_values > 0) {
        kvs_sum(dtype, n, sources, piece->n_values, &to, 1, 0);
    }
}

static void write_piece(const ar_piece_t *piece, int dtype, int64_t at, int64_t n, const void *from)
{
    for (size_t i = 0; i < piece->n_outs; i++) {
        const kvs_tensor_t *out = &piece->outs[i];

        kvs_cast(n, dtype, from, kvs_dtype_index(out->dtype),
                 (char *)out->data + (size_t)at * size_of(out));
    }
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

void ar_data_read(const ar_data_t *data, int64_t begin, int64_t end, void *to)
{
    size_t size = kvs_dtype_bytes(data->dtype);

    for (int64_t at = begin; at < end;) {
        const ar_piece_t *piece = piece_of(data, at);
        int64_t n = least(end, piece->first + piece->n_elems) - at;

        read_piece(piece, data->dtype, at - piece->first, n,
                   (char *)to + (size_t)(at - begin) * size);
        at += n;
    }
}

void ar_data_write(const ar_data_t *data, int64_t begin, int64_t end, const void *from)
{
    size_t size = kvs_dtype_bytes(data->dtype);

    for (int64_t at = begin; at < end;) {
        const ar_piece_t *piece = piece_of(data, at);
        int64_t n = least(end, piece->first + piece->n_elems) - at;

        write_piece(piece, data->dtype, at - piece->first, n,
                    (const char *)from + (size_t)(at - begin) * size);
        at += n;
    }
}

/* `begin`'s piece if it holds `end` too. */
static const ar_piece_t *whole_piece(const ar_data_t *data, int64_t begin, int64_t end)
{
    const ar_piece_t *piece = begin < end ? piece_of(data, begin) : NULL;

    return piece != NULL && end <= piece->first + piece->n_elems ? piece : NULL;
}

const void *ar_data_value(const ar_data_t *data, int64_t begin, int64_t end)
{
    const ar_piece_t *piece = whole_piece(data, begin, end);

    return piece != NULL && piece->n_values == 1
               ? (const char *)piece->values[0].data +
                     (size_t)(begin - piece->first) * size_of(&piece->values[0])
               : NULL;
}

void *ar_data_out(const ar_data_t *data, int64_t begin, int64_t end)
{
    const ar_piece_t *piece = whole_piece(data, begin, end);

    return piece != NULL && piece->n_outs == 1 &&
                   kvs_dtype_index(piece->outs[0].dtype) == data->dtype
               ? (char *)piece->outs[0].data +
                     (size_t)(begin - piece->first) * size_of(&piece->outs[0])
               : NULL;
}
