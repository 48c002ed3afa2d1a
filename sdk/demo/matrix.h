/* SPDX-License-Identifier: Apache-2.0 */
/* matrix.h - the two matrix operations a multi-layer perceptron needs.
 *
 * Matrices are row-major and compact. Each element of a product is one sum in ascending order, so
 * the result is the same bits whatever the tiles and the width of the vectors are. */
#ifndef DEMO_MATRIX_H
#define DEMO_MATRIX_H

#include <stddef.h>

/* A left factor: element (i, p) is values[i * row_step + p * column_step]. Reading it transposed is
 * a matter of swapping the steps. */
typedef struct matrix_left {
    const float *values;
    size_t row_step, column_step;
} matrix_left_t;

/* product (n_rows × n_columns) = left (n_rows × depth) · right (depth × n_columns). */
void matrix_multiply(float *product, matrix_left_t left, const float *right, size_t n_rows,
                     size_t n_columns, size_t depth);

/* to (n_columns × n_rows) = from (n_rows × n_columns), transposed. */
void matrix_transpose(float *to, const float *from, size_t n_rows, size_t n_columns);

#endif
