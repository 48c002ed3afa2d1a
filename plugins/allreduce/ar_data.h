/* SPDX-License-Identifier: Apache-2.0 */
/* ar_data.h - the arrays of one exchange as one row of elements: pieces that lie anywhere, each with
 * values that are summed as they are read, and outs, of any floating dtype, that are written. */
#ifndef AR_DATA_H
#define AR_DATA_H

#include <kvstore/kit.h>

#include <stdbool.h>

#define AR_MAX_VALUES 32 /* of a piece; who has more sums them first */

typedef struct ar_piece {
    int64_t first; /* element of the row; set by ar_data_number */
    int64_t n_elems;
    const kvs_tensor_t *values; /* of the row's dtype; none in a piece that is only written */
    size_t n_values;
    const kvs_tensor_t *outs; /* one may be one of the values */
    size_t n_outs;
} ar_piece_t;

typedef struct ar_data {
    int dtype;
    const ar_piece_t *pieces;
    size_t n_pieces;
    int64_t n_elems;
} ar_data_t;

/* Number the pieces, which then make up the row. */
ar_data_t ar_data_number(int dtype, ar_piece_t *pieces, size_t n_pieces);

/* Elements [begin, end): read into `to`, and written from `from`. */
void ar_data_read(const ar_data_t *data, int64_t begin, int64_t end, void *to);
void ar_data_write(const ar_data_t *data, int64_t begin, int64_t end, const void *from);
/* Where they lie side by side as one value or one out of the row's dtype; else NULL. */
const void *ar_data_value(const ar_data_t *data, int64_t begin, int64_t end);
void *ar_data_out(const ar_data_t *data, int64_t begin, int64_t end);

#endif
