/* SPDX-License-Identifier: Apache-2.0 */
/* test_matrix.c - products of small integers, exact in float, against a plain loop. */
#include "matrix.h"

#include <kt.h>

enum { MOST = 40 };

static float left[MOST * MOST], right[MOST * MOST], product[MOST * MOST + 1];

static void fill(void)
{
    for (int i = 0; i < MOST * MOST; i++) {
        left[i] = (float)(i * 7 % 11 - 5);
        right[i] = (float)(i * 5 % 13 - 6);
    }
}

/* Whether the product of these sizes is right, and what lies behind it is untouched. */
static int is_right(size_t n_rows, size_t n_columns, size_t depth, int transposed)
{
    matrix_left_t factor = {left, transposed ? 1 : depth, transposed ? n_rows : 1};
    int ok = 1;

    product[n_rows * n_columns] = 77;
    matrix_multiply(product, factor, right, n_rows, n_columns, depth);
    for (size_t i = 0; i < n_rows; i++) {
        for (size_t j = 0; j < n_columns; j++) {
            long sum = 0;

            for (size_t p = 0; p < depth; p++) {
                long a = (long)left[transposed ? p * n_rows + i : i * depth + p];

                sum += a * (long)right[p * n_columns + j];
            }
            ok = ok && product[i * n_columns + j] == (float)sum;
        }
    }
    return ok && product[n_rows * n_columns] == 77;
}

static void products_of_all_small_sizes_are_right(void)
{
    static const size_t sizes[] = {0, 1, 2, 3, 4, 5, 8, 15, 16, 17, 33, MOST};
    enum { N = sizeof(sizes) / sizeof(sizes[0]) };

    fill();
    for (size_t r = 0; r < N; r++) {
        for (size_t c = 0; c < N; c++) {
            for (size_t d = 0; d < N; d++) {
                KT_TRUE(is_right(sizes[r], sizes[c], sizes[d], 0));
                KT_TRUE(is_right(sizes[r], sizes[c], sizes[d], 1));
            }
        }
    }
}

static void a_transposed_matrix_has_rows_for_columns(void)
{
    static const float from[6] = {1, 2, 3, 4, 5, 6};
    static const float want[6] = {1, 4, 2, 5, 3, 6};
    float to[6];

    matrix_transpose(to, from, 2, 3);
    KT_TRUE(memcmp(to, want, sizeof(want)) == 0);
}

static const kt_test_t tests[] = {
    KT_TEST(products_of_all_small_sizes_are_right),
    KT_TEST(a_transposed_matrix_has_rows_for_columns),
};

KT_MAIN("demo.matrix", tests)
