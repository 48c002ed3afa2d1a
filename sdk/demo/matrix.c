/* SPDX-License-Identifier: Apache-2.0 */
/* matrix.c - a product grows by four rows of the right factor at a time, each weighted by an element
 * of the left one. The inner loop runs along rows of memory, which gcc and clang make vectors of
 * without being told; blocks of rows of the product stay in the first cache while it grows. */
#include "matrix.h"

enum { BLOCK_ROWS = 16, AT_ONCE = 4 };

static void clear(float *values, size_t n)
{
    for (size_t j = 0; j < n; j++) {
        values[j] = 0;
    }
}

/* sums += weights[0] · rows[0] + … + weights[3] · rows[3], added in this order. */
static void add_four_rows(float *restrict sums, const float *weights, size_t weight_step,
                          const float *restrict rows, size_t n_columns)
{
    const float w0 = weights[0], w1 = weights[weight_step];
    const float w2 = weights[2 * weight_step], w3 = weights[3 * weight_step];
    const float *row1 = rows + n_columns, *row2 = row1 + n_columns, *row3 = row2 + n_columns;

    for (size_t j = 0; j < n_columns; j++) {
        sums[j] = sums[j] + w0 * rows[j] + w1 * row1[j] + w2 * row2[j] + w3 * row3[j];
    }
}

static void add_row(float *restrict sums, float weight, const float *restrict row, size_t n_columns)
{
    for (size_t j = 0; j < n_columns; j++) {
        sums[j] += weight * row[j];
    }
}

static void multiply_block(float *product, matrix_left_t left, const float *right, size_t n_rows,
                           size_t n_columns, size_t depth)
{
    size_t p = 0;

    clear(product, n_rows * n_columns);
    for (; p + AT_ONCE <= depth; p += AT_ONCE) {
        const float *weights = left.values + p * left.column_step;

        for (size_t i = 0; i < n_rows; i++) {
            add_four_rows(product + i * n_columns, weights + i * left.row_step, left.column_step,
                          right + p * n_columns, n_columns);
        }
    }
    for (; p < depth; p++) {
        const float *weights = left.values + p * left.column_step;

        for (size_t i = 0; i < n_rows; i++) {
            add_row(product + i * n_columns, weights[i * left.row_step], right + p * n_columns,
                    n_columns);
        }
    }
}

void matrix_multiply(float *product, matrix_left_t left, const float *right, size_t n_rows,
                     size_t n_columns, size_t depth)
{
    for (size_t begin = 0; begin < n_rows; begin += BLOCK_ROWS) {
        matrix_left_t block = {left.values + begin * left.row_step, left.row_step,
                               left.column_step};
        size_t n_left = n_rows - begin;

        multiply_block(product + begin * n_columns, block, right,
                       n_left < BLOCK_ROWS ? n_left : BLOCK_ROWS, n_columns, depth);
    }
}

void matrix_transpose(float *to, const float *from, size_t n_rows, size_t n_columns)
{
    for (size_t i = 0; i < n_rows; i++) {
        for (size_t j = 0; j < n_columns; j++) {
            to[j * n_rows + i] = from[i * n_columns + j];
        }
    }
}
