/* SPDX-License-Identifier: Apache-2.0 */
/* Row-sparse values: unions and their sums, dense forms, rows of dense arrays, lists of ids. Expected
 * values come from plain loops over dense arrays of int64. */
#include "fake_host.h"
#include "slow_half.h"

#include <kvstore/kit.h>

#include <math.h>

enum { MAX_VALUES = 10 };

/* Elements are small whole numbers, so that sums are exact in every dtype. */
static void set_element(int dtype, void *data, int64_t i, int64_t value)
{
    char *to = (char *)data + (size_t)i * kvs_dtype_bytes(dtype);
    float f32 = (float)value;
    double f64 = (double)value;
    uint16_t half = 0;

    switch (dtype) {
    case KVS_DTYPE_float32:
        memcpy(to, &f32, sizeof(f32));
        break;
    case KVS_DTYPE_float64:
        memcpy(to, &f64, sizeof(f64));
        break;
    case KVS_DTYPE_float16:
    case KVS_DTYPE_bfloat16:
        half = slow_encode(dtype, f64);
        memcpy(to, &half, sizeof(half));
        break;
    default:
        memcpy(to, &value, kvs_dtype_bytes(dtype)); /* little-endian */
    }
}

/* How many elements of `data` are not those of `want`. */
static int64_t count_wrong(int dtype, const void *data, const int64_t *want, int64_t n)
{
    int64_t n_wrong = 0;
    size_t bytes = kvs_dtype_bytes(dtype);
    char element[8];

    for (int64_t i = 0; i < n; i++) {
        set_element(dtype, element, 0, want[i]);
        n_wrong += memcmp(element, (const char *)data + (size_t)i * bytes, bytes) != 0;
    }
    return n_wrong;
}

/* Several values of one shape, and what they add up to. */
typedef struct sparse {
    int dtype;
    int64_t shape[2];
    kvs_tensor_t values[MAX_VALUES];
    kvs_rows_t rows[MAX_VALUES];
    size_t n_values;
    int64_t *sum; /* of the full shape */
    int8_t *has;  /* by row */
} sparse_t;

static void sparse_begin(sparse_t *s, int dtype, int64_t n_rows, int64_t row_elems)
{
    *s = (sparse_t){.dtype = dtype, .shape = {n_rows, row_elems}};
    s->sum = calloc((size_t)(n_rows * row_elems) + 1, sizeof(*s->sum));
    s->has = calloc((size_t)n_rows + 1, 1);
}

/* Add a value of these rows; its elements count up from `from`, modulo 7. */
static void sparse_add(sparse_t *s, int64_t n, const int64_t *ids, int64_t from)
{
    kvs_rows_t *rows = &s->rows[s->n_values];
    kvs_tensor_t *value = &s->values[s->n_values++];
    int64_t row_elems = s->shape[1];

    *rows = (kvs_rows_t){.ids = malloc((size_t)n * sizeof(int64_t) + 1), .n_rows = n};
    *value = kt_tensor(malloc((size_t)(n * row_elems) * 8 + 1), s->dtype, s->shape, 2);
    value->rows = rows;
    for (int64_t i = 0; i < n; i++) {
        rows->ids[i] = ids[i];
        s->has[ids[i]] = 1;
        for (int64_t j = 0; j < row_elems; j++) {
            int64_t number = (from + i * row_elems + j) % 7 - 3;

            set_element(s->dtype, value->data, i * row_elems + j, number);
            s->sum[ids[i] * row_elems + j] += number;
        }
    }
}

static void sparse_end(sparse_t *s)
{
    for (size_t i = 0; i < s->n_values; i++) {
        free(s->rows[i].ids);
        free(s->values[i].data);
    }
    free(s->sum);
    free(s->has);
}

static int64_t n_elems(const sparse_t *s)
{
    return s->shape[0] * s->shape[1];
}

/* The union lists the rows that the values have, ascending. */
static void check_ids(const sparse_t *s, const kvs_row_union_t *rows)
{
    int64_t n = 0, n_wrong = 0;

    for (int64_t row = 0; row < s->shape[0]; row++) {
        if (s->has[row]) {
            n_wrong += n >= rows->n_rows || rows->ids[n] != row;
            n++;
        }
    }
    KT_INT(rows->n_rows, n);
    KT_INT(n_wrong, 0);
}

/* The sums one after the other. */
static void check_packed(const sparse_t *s, const kvs_row_union_t *rows)
{
    size_t bytes = kvs_dtype_bytes(s->dtype);
    char *sums = malloc((size_t)(rows->n_rows * s->shape[1]) * bytes + 1);
    int64_t n_wrong = 0;

    kvs_row_union_sum(rows, sums);
    for (int64_t i = 0; i < rows->n_rows; i++) {
        n_wrong += count_wrong(s->dtype, sums + (size_t)(i * s->shape[1]) * bytes,
                               s->sum + rows->ids[i] * s->shape[1], s->shape[1]);
    }
    KT_INT(n_wrong, 0);
    free(sums);
}

/* In their places: over zeros, and over elements of which only those of listed rows may change. */
static void check_dense(const sparse_t *s, const kvs_row_union_t *rows)
{
    size_t n_bytes = (size_t)n_elems(s) * kvs_dtype_bytes(s->dtype);
    size_t row_bytes = (size_t)s->shape[1] * kvs_dtype_bytes(s->dtype);
    char *dense = malloc(n_bytes + 1), *put = malloc(n_bytes + 1);
    int64_t n_wrong = 0;

    memset(dense, 0x5A, n_bytes + 1);
    memset(put, 0x5A, n_bytes + 1);
    kvs_row_union_to_dense(rows, dense);
    kvs_row_union_put(rows, put);
    KT_INT(count_wrong(s->dtype, dense, s->sum, n_elems(s)), 0);
    KT_INT(dense[n_bytes], 0x5A);
    for (int64_t row = 0; row < s->shape[0]; row++) {
        const char *got = put + (size_t)row * row_bytes;

        if (!s->has[row]) {
            memset(dense + (size_t)row * row_bytes, 0x5A, row_bytes);
        }
        n_wrong += row_bytes > 0 && memcmp(got, dense + (size_t)row * row_bytes, row_bytes) != 0;
    }
    KT_INT(n_wrong, 0);
    KT_INT(put[n_bytes], 0x5A);
    free(dense);
    free(put);
}

static void check_union(const sparse_t *s)
{
    kvs_row_union_t rows;

    if (!KT_OK(kvs_row_union_make(s->values, s->n_values, &rows))) {
        return;
    }
    KT_INT(rows.dtype, s->dtype);
    KT_INT(rows.row_elems, s->shape[1]);
    KT_INT(rows.n_shape, s->shape[0]);
    check_ids(s, &rows);
    check_packed(s, &rows);
    check_dense(s, &rows);
    kvs_row_union_release(&rows);
    KT_INT(rows.n_rows, 0);
    KT_TRUE(rows.memory == NULL);
}

static void check_values_of(int dtype, int64_t row_elems)
{
    static const int64_t unsorted[] = {7, 2, 9}, repeated[] = {2, 2, 8, 2, 0},
                         all[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
    sparse_t s;

    sparse_begin(&s, dtype, 10, row_elems);
    sparse_add(&s, 3, unsorted, 0);
    check_union(&s);
    sparse_add(&s, 5, repeated, 1);
    check_union(&s);
    sparse_add(&s, 0, NULL, 0);
    check_union(&s);
    sparse_add(&s, 10, all, 2);
    check_union(&s);
    sparse_end(&s);
}

/* ---- Unions ---------------------------------------------------------------------------------------- */

static void values_of_every_dtype_and_width_are_united(void)
{
    static const int64_t widths[] = {0, 1, 2, 3, 15, 16, 17, 64, 1000, 5000};

    for (int dtype = 0; dtype < KVS_N_DTYPES; dtype++) {
        for (size_t i = 0; i < sizeof(widths) / sizeof(widths[0]); i++) {
            check_values_of(dtype, widths[i]);
        }
    }
}

/* Few are merged, many are sorted. */
static void any_number_of_values_whose_ids_ascend_are_united(void)
{
    static const int64_t ids[5][4] = {{1, 1, 4, 9}, {0, 4, 4, 9}, {4}, {0, 1, 2, 3}, {9, 9, 9, 9}};
    static const int64_t n[5] = {4, 4, 1, 4, 4};

    for (int dtype = 0; dtype < KVS_N_DTYPES; dtype++) {
        sparse_t s;

        sparse_begin(&s, dtype, 10, 3);
        for (int v = 0; v < MAX_VALUES; v++) {
            sparse_add(&s, v == 7 ? 0 : n[v % 5], ids[v % 5], v);
            check_union(&s);
        }
        sparse_end(&s);
    }
}

static void one_value_whose_ids_ascend_is_not_copied(void)
{
    static const int64_t ids[] = {1, 4, 5};
    kvs_row_union_t rows;
    sparse_t s;

    sparse_begin(&s, KVS_DTYPE_float32, 6, 2);
    sparse_add(&s, 3, ids, 0);
    KT_OK(kvs_row_union_make(s.values, 1, &rows));
    KT_TRUE(rows.packed == s.values[0].data);
    KT_TRUE(rows.ids == s.rows[0].ids);
    KT_TRUE(rows.first == NULL);
    kvs_row_union_release(&rows);
    check_union(&s);
    sparse_end(&s);
}

static void values_without_rows_have_an_empty_union(void)
{
    kvs_row_union_t rows;
    sparse_t s;

    sparse_begin(&s, KVS_DTYPE_float32, 3, 2);
    sparse_add(&s, 0, NULL, 0);
    free(s.values[0].data);
    free(s.rows[0].ids);
    s.values[0].data = NULL;
    s.rows[0].ids = NULL;
    check_union(&s);
    sparse_add(&s, 0, NULL, 0);
    check_union(&s);
    KT_OK(kvs_row_union_make(s.values, 2, &rows));
    KT_INT(rows.n_rows, 0);
    kvs_row_union_release(&rows);
    sparse_end(&s);
    sparse_begin(&s, KVS_DTYPE_float32, 0, 2); /* a shape without rows */
    sparse_add(&s, 0, NULL, 0);
    check_union(&s);
    sparse_end(&s);
}

static void ids_outside_the_shape_are_an_error(void)
{
    static const int64_t bad[] = {4, -1, INT64_MAX, INT64_MIN};
    kvs_row_union_t rows;
    sparse_t s;

    for (size_t i = 0; i < 4; i++) {
        char text[32];

        sparse_begin(&s, KVS_DTYPE_float32, 4, 1);
        sparse_add(&s, 3, (const int64_t[]){3, 1, 0}, 0);
        sparse_add(&s, 2, (const int64_t[]){0, 1}, 0);
        snprintf(text, sizeof(text), "row id %lld is", (long long)bad[i]);
        s.rows[1].ids[1] = bad[i];
        KT_FAIL(kvs_row_union_make(s.values, 2, &rows), KVS_ERR_RANGE, text);
        KT_HAS(kvs_last_error(), "outside [0, 4)");
        KT_FAIL(kvs_row_union_make(&s.values[1], 1, &rows), KVS_ERR_RANGE, text);
        sparse_end(&s);
    }
}

/* 2^24 + 1 is lost in float32, so the order shows. */
static void rows_are_added_in_order_of_the_list(void)
{
    float first[] = {1, 16777216}, second[] = {-16777216, 1};
    int64_t same[] = {0, 0};
    const int64_t shape[] = {1, 1};
    kvs_rows_t rows[] = {{.ids = same, .n_rows = 2}, {.ids = same, .n_rows = 2}};
    kvs_tensor_t values[] = {kt_tensor(first, KVS_DTYPE_float32, shape, 2),
                             kt_tensor(second, KVS_DTYPE_float32, shape, 2)};
    kvs_row_union_t all;
    float sum = 0;
    volatile float want = first[0];

    values[0].rows = &rows[0];
    values[1].rows = &rows[1];
    want += first[1];
    want += second[0];
    want += second[1];
    KT_OK(kvs_row_union_make(values, 2, &all));
    kvs_row_union_sum(&all, &sum);
    KT_REAL(sum, want);
    KT_REAL(want, 1); /* other orders give 2 or 0 */
    kvs_row_union_release(&all);
}

/* 2048 + 1 is lost in float16 at every step, but not in float32. */
static void half_types_are_added_in_float32_and_rounded_once(void)
{
    uint16_t data[5] = {slow_encode(KVS_DTYPE_float16, 2048)}, sum = 0;
    int64_t ids[5] = {0};
    const int64_t shape[] = {1, 1};
    kvs_rows_t rows = {.ids = ids, .n_rows = 5};
    kvs_tensor_t value = kt_tensor(data, KVS_DTYPE_float16, shape, 2);
    kvs_row_union_t all;

    for (int i = 1; i < 5; i++) {
        data[i] = slow_encode(KVS_DTYPE_float16, 1);
    }
    value.rows = &rows;
    KT_OK(kvs_row_union_make(&value, 1, &all));
    kvs_row_union_sum(&all, &sum);
    KT_REAL(slow_decode(KVS_DTYPE_float16, sum), 2052);
    kvs_row_union_release(&all);
}

static void a_single_row_keeps_its_bits(void)
{
    uint32_t bits[2] = {0x7FA00001, 0x80000000}, got[2] = {0}; /* a signalling NaN, -0 */
    int64_t ids[2] = {1, 0};
    const int64_t shape[] = {2, 1};
    kvs_rows_t rows = {.ids = ids, .n_rows = 2};
    kvs_tensor_t value = kt_tensor(bits, KVS_DTYPE_float32, shape, 2);
    kvs_row_union_t all;

    value.rows = &rows;
    KT_OK(kvs_row_union_make(&value, 1, &all));
    kvs_row_union_sum(&all, got);
    KT_INT(got[0], bits[1]);
    KT_INT(got[1], bits[0]);
    kvs_row_union_release(&all);
}

/* A million rows of which two values list 1 %, unsorted and with repeats; cut over threads. */
static void a_million_rows_give_the_same_on_any_number_of_threads(void)
{
    enum { N_ROWS = 1000000, N_LISTED = 10000, N_COLUMNS = 8 };
    int64_t *ids = malloc(N_LISTED * sizeof(*ids));
    sparse_t s;

    sparse_begin(&s, KVS_DTYPE_float32, N_ROWS, N_COLUMNS);
    for (int v = 0; v < 2; v++) {
        for (int i = 0; i < N_LISTED; i++) {
            ids[i] = (int64_t)(fake_random() % N_ROWS);
        }
        ids[1] = ids[0];
        sparse_add(&s, N_LISTED, ids, v);
    }
    for (int64_t n_pieces = 1; n_pieces < 8; n_pieces += 4) {
        fake_n_pieces = n_pieces;
        fake_n_cuts = 0;
        check_union(&s);
        KT_INT(fake_n_cuts, 3);
    }
    fake_n_pieces = 1;
    free(ids);
    sparse_end(&s);
}

/* ---- Rows of dense arrays -------------------------------------------------------------------------- */

static void rows_are_gathered_and_converted(void)
{
    static const int floating[] = {KVS_DTYPE_float32, KVS_DTYPE_float64, KVS_DTYPE_float16,
                                   KVS_DTYPE_bfloat16};
    static const int64_t ids[] = {4, 0, 4, 5};
    enum { WIDTH = 3 };
    int64_t numbers[6 * WIDTH], want[4 * WIDTH];

    for (int i = 0; i < 6 * WIDTH; i++) {
        numbers[i] = i - 5;
    }
    for (int i = 0; i < 4 * WIDTH; i++) {
        want[i] = numbers[ids[i / WIDTH] * WIDTH + i % WIDTH];
    }
    for (int from = 0; from < 4; from++) {
        for (int to = 0; to < 4; to++) {
            char dense[6 * WIDTH * 8], rows[4 * WIDTH * 8];

            for (int i = 0; i < 6 * WIDTH; i++) {
                set_element(floating[from], dense, i, numbers[i]);
            }
            kvs_rows_gather(floating[from], WIDTH, dense, 4, ids, floating[to], rows);
            KT_INT(count_wrong(floating[to], rows, want, 4 * WIDTH), 0);
        }
    }
    kvs_rows_gather(KVS_DTYPE_int8, WIDTH, numbers, 0, NULL, KVS_DTYPE_int8, NULL);
    kvs_rows_gather(KVS_DTYPE_int8, 0, NULL, 4, ids, KVS_DTYPE_int8, NULL);
}

static void many_rows_are_gathered_and_added_on_several_threads(void)
{
    enum { N_ROWS = 200000, N_LISTED = 50000, WIDTH = 16 };
    float *dense = malloc(N_ROWS * WIDTH * sizeof(*dense));
    float *rows = malloc(N_LISTED * WIDTH * sizeof(*rows));
    int64_t *ids = malloc(N_LISTED * sizeof(*ids)), n_wrong = 0;

    for (int i = 0; i < N_ROWS * WIDTH; i++) {
        dense[i] = (float)(i % 1009);
    }
    for (int i = 0; i < N_LISTED; i++) {
        ids[i] = i * 4LL + i % 3;
    }
    fake_n_pieces = 7;
    fake_n_cuts = 0;
    kvs_rows_gather(KVS_DTYPE_float32, WIDTH, dense, N_LISTED, ids, KVS_DTYPE_float32, rows);
    kvs_rows_add(KVS_DTYPE_float32, WIDTH, N_LISTED, ids, rows, dense);
    KT_INT(fake_n_cuts, 2);
    fake_n_pieces = 1;
    for (int i = 0; i < N_LISTED * WIDTH; i++) {
        n_wrong += rows[i] != (float)((ids[i / WIDTH] * WIDTH + i % WIDTH) % 1009);
    }
    for (int i = 0; i < N_ROWS * WIDTH; i++) {
        int row = i / WIDTH, listed = row / 4;
        int times = listed < N_LISTED && ids[listed] == row ? 2 : 1;

        n_wrong += dense[i] != (float)(times * (i % 1009));
    }
    KT_INT(n_wrong, 0);
    free(dense);
    free(rows);
    free(ids);
}

static void rows_that_are_not_zero_are_found(void)
{
    uint16_t dense[6][3] = {{0},      {0, 0, 1}, {0},
                            {0x8000}, {0},       {1, 2, 3}}; /* -0 is not zero bytes */
    int64_t ids[6];

    KT_INT(kvs_rows_find(sizeof(dense[0]), 6, dense, ids), 3);
    KT_INT(ids[0], 1);
    KT_INT(ids[1], 3);
    KT_INT(ids[2], 5);
    KT_INT(kvs_rows_find(sizeof(dense[0]), 0, NULL, NULL), 0);
    KT_INT(kvs_rows_find(0, 6, NULL, NULL), 0);
    KT_INT(kvs_row_is_zero(dense[0], 6), 1);
    KT_INT(kvs_row_is_zero(dense[1], 1), 1);
    KT_INT(kvs_row_is_zero(dense[5], 1), 0);
    KT_INT(kvs_row_is_zero(NULL, 0), 1);
}

/* ---- Lists of ids ---------------------------------------------------------------------------------- */

static void check_unique(kvs_tensor_t array, int64_t n_rows, const int64_t *want, int64_t n)
{
    int64_t *ids = NULL, n_got = -1;

    KT_OK(kvs_row_ids_unique(&array, n_rows, &ids, &n_got));
    KT_INT(n_got, n);
    for (int64_t i = 0; i < n && i < n_got; i++) {
        KT_INT(ids[i], want[i]);
    }
    free(ids);
}

static void ids_of_any_integer_dtype_and_shape_become_unique(void)
{
    int8_t i8[] = {5, 0, 5, 3};
    uint8_t u8[] = {200, 0, 0, 3};
    int32_t i32[] = {70000, 0, 70000, 3};
    int64_t i64[] = {5000000000, 0, 5000000000, 3};
    const int64_t square[] = {2, 2}, flat[] = {4};

    check_unique(kt_tensor(i8, KVS_DTYPE_int8, square, 2), 6, (const int64_t[]){0, 3, 5}, 3);
    check_unique(kt_tensor(u8, KVS_DTYPE_uint8, flat, 1), 201, (const int64_t[]){0, 3, 200}, 3);
    check_unique(kt_tensor(i32, KVS_DTYPE_int32, square, 2), 100000, (const int64_t[]){0, 3, 70000},
                 3);
    check_unique(kt_tensor(i64, KVS_DTYPE_int64, flat, 1), 6000000000,
                 (const int64_t[]){0, 3, 5000000000}, 3);
    check_unique(kt_tensor(i64, KVS_DTYPE_int64, NULL, 0), 6000000000, i64, 1);
    check_unique(kt_tensor(NULL, KVS_DTYPE_int64, (const int64_t[]){0}, 1), 4, NULL, 0);
    check_unique(kt_tensor(NULL, KVS_DTYPE_int64, (const int64_t[]){0}, 1), 0, NULL, 0);
}

static void impossible_lists_of_ids_are_errors(void)
{
    int8_t i8[] = {1, -1};
    int64_t i64[] = {1, 4};
    float reals[] = {1, 2};
    const int64_t two[] = {2};
    int64_t *ids, n;
    kvs_tensor_t negative = kt_tensor(i8, KVS_DTYPE_int8, two, 1);
    kvs_tensor_t high = kt_tensor(i64, KVS_DTYPE_int64, two, 1);
    kvs_tensor_t real = kt_tensor(reals, KVS_DTYPE_float32, two, 1);

    KT_FAIL(kvs_row_ids_unique(&negative, 4, &ids, &n), KVS_ERR_RANGE,
            "row id -1 is outside [0, 4)");
    KT_FAIL(kvs_row_ids_unique(&high, 4, &ids, &n), KVS_ERR_RANGE, "row id 4 is outside [0, 4)");
    KT_FAIL(kvs_row_ids_unique(&real, 4, &ids, &n), KVS_ERR_DTYPE,
            "row ids are float32; integers are accepted");
}

static const kt_test_t tests[] = {
    KT_TEST(values_of_every_dtype_and_width_are_united),
    KT_TEST(any_number_of_values_whose_ids_ascend_are_united),
    KT_TEST(one_value_whose_ids_ascend_is_not_copied),
    KT_TEST(values_without_rows_have_an_empty_union),
    KT_TEST(ids_outside_the_shape_are_an_error),
    KT_TEST(rows_are_added_in_order_of_the_list),
    KT_TEST(half_types_are_added_in_float32_and_rounded_once),
    KT_TEST(a_single_row_keeps_its_bits),
    KT_TEST(a_million_rows_give_the_same_on_any_number_of_threads),
    KT_TEST(rows_are_gathered_and_converted),
    KT_TEST(many_rows_are_gathered_and_added_on_several_threads),
    KT_TEST(rows_that_are_not_zero_are_found),
    KT_TEST(ids_of_any_integer_dtype_and_shape_become_unique),
    KT_TEST(impossible_lists_of_ids_are_errors),
};
KT_MAIN("rowsparse", tests)
