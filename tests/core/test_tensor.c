/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays as callers give them: what is taken, and every refusal with its code and text; dtypes; the
 * texts of shapes and keys. */
#include "tensor.h"
#include "kt.h"

#include <stdint.h>

static _Alignas(64) char memory[256];
static const int64_t shape_2_3[] = {2, 3};

static kvs_tensor_t good(void)
{
    return kt_tensor(memory, KVS_DTYPE_float32, shape_2_3, 2);
}

/* Checked as value 1 of key 7. */
static kvs_status_t check(const kvs_tensor_t *tensor, kvsi_size_t *ret_size)
{
    kvs_key_t key = kvs_key_int(7);

    return kvsi_tensor_check(tensor, "value", 1, &key, false, ret_size);
}

static void check_taken(kvs_tensor_t tensor, int64_t n_elems, int64_t n_bytes)
{
    kvsi_size_t size = {-1, -1};

    KT_OK(check(&tensor, &size));
    KT_INT(size.n_elems, n_elems);
    KT_INT(size.n_bytes, n_bytes);
}

/* Refused with a text that names key, array and `part`; the size is not written. */
static void check_refused(kvs_tensor_t tensor, kvs_status_t want, const char *part)
{
    kvsi_size_t size = {-1, -1};

    KT_FAIL(check(&tensor, &size), want, part);
    KT_HAS(kvs_last_error(), "key 7: ");
    KT_HAS(kvs_last_error(), "value 1");
    KT_INT(size.n_elems, -1);
}

/* ---- Sizes ----------------------------------------------------------------------------------- */

static void a_compact_array_is_counted(void)
{
    check_taken(good(), 6, 24);
}

static void a_scalar_has_one_element(void)
{
    check_taken(kt_tensor(memory, KVS_DTYPE_float64, NULL, 0), 1, 8);
}

static void each_dtype_has_its_bytes(void)
{
    static const int64_t bytes[KVS_N_DTYPES] = {4, 8, 2, 2, 1, 1, 4, 8};

    for (int i = 0; i < KVS_N_DTYPES; i++) {
        check_taken(kt_tensor(memory, i, shape_2_3, 2), 6, 6 * bytes[i]);
    }
}

static void an_array_without_elements_needs_no_data(void)
{
    static const int64_t empty[] = {3, 0, 2};

    check_taken(kt_tensor(NULL, KVS_DTYPE_float32, empty, 3), 0, 0);
    check_taken(kt_tensor(memory + 1, KVS_DTYPE_float32, empty, 3), 0, 0);
}

static void more_than_2_to_the_31_elements_are_counted(void)
{
    static const int64_t large[] = {3, (int64_t)1 << 31};
    static const int64_t largest[] = {INT64_MAX};

    check_taken(kt_tensor(memory, KVS_DTYPE_float32, large, 2), (int64_t)3 << 31, (int64_t)3 << 33);
    check_taken(kt_tensor(memory, KVS_DTYPE_int8, largest, 1), INT64_MAX, INT64_MAX);
}

static void sizes_beyond_the_address_space_are_refused(void)
{
    static const int64_t product[] = {(int64_t)1 << 32, (int64_t)1 << 32};
    static const int64_t wraps_to_one[] = {INT64_MAX, INT64_MAX};
    static const int64_t bytes[] = {(int64_t)1 << 61};

    check_refused(kt_tensor(memory, KVS_DTYPE_int8, product, 2), KVS_ERR_ARGUMENT,
                  "shape (4294967296, 4294967296)");
    check_refused(kt_tensor(memory, KVS_DTYPE_int8, wraps_to_one, 2), KVS_ERR_ARGUMENT,
                  "exceeds the address space");
    check_refused(kt_tensor(memory, KVS_DTYPE_float32, bytes, 1), KVS_ERR_ARGUMENT,
                  "exceeds the address space");
    check_refused(kt_tensor(memory, KVS_DTYPE_float64, bytes, 1), KVS_ERR_ARGUMENT,
                  "exceeds the address space");
}

/* ---- Shapes ---------------------------------------------------------------------------------- */

static void ndim_out_of_range_is_refused(void)
{
    kvs_tensor_t tensor = good();

    tensor.ndim = -1;
    check_refused(tensor, KVS_ERR_ARGUMENT, "ndim -1; 0 to 32 are accepted");
    tensor.ndim = 33;
    check_refused(tensor, KVS_ERR_ARGUMENT, "ndim 33; 0 to 32 are accepted");
}

static void as_many_dimensions_as_allowed_are_taken(void)
{
    int64_t shape[KVSI_MAX_NDIM];

    for (int i = 0; i < KVSI_MAX_NDIM; i++) {
        shape[i] = i < 3 ? 2 : 1;
    }
    check_taken(kt_tensor(memory, KVS_DTYPE_float32, shape, KVSI_MAX_NDIM), 8, 32);
}

static void dimensions_without_a_shape_are_refused(void)
{
    kvs_tensor_t tensor = good();

    tensor.shape = NULL;
    check_refused(tensor, KVS_ERR_ARGUMENT, "ndim 2 but its shape is NULL");
}

static void a_negative_dimension_is_refused(void)
{
    static const int64_t negative[] = {2, -3};
    static const int64_t behind_a_zero[] = {0, -1};

    check_refused(kt_tensor(memory, KVS_DTYPE_float32, negative, 2), KVS_ERR_ARGUMENT,
                  "shape (2, -3): a dimension is negative");
    check_refused(kt_tensor(memory, KVS_DTYPE_float32, behind_a_zero, 2), KVS_ERR_ARGUMENT,
                  "a dimension is negative");
}

static void unknown_dtypes_are_refused(void)
{
    static const kvs_dtype_t unknown[] = {{KVS_CODE_FLOAT, 32, 2},
                                          {KVS_CODE_UINT, 16, 1},
                                          {KVS_CODE_FLOAT, 31, 1},
                                          {KVS_CODE_FLOAT, 0, 1},
                                          {77, 32, 1},
                                          {0, 0, 0}};

    for (size_t i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++) {
        kvs_tensor_t tensor = good();

        tensor.dtype = unknown[i];
        check_refused(tensor, KVS_ERR_DTYPE, "unknown dtype (code ");
        KT_HAS(kvs_last_error(), "accepted are float32, float64, float16, bfloat16, int8, uint8, "
                                 "int32, int64");
    }
}

/* ---- Strides and data ------------------------------------------------------------------------ */

static void compact_strides_are_taken(void)
{
    kvs_tensor_t tensor = good();

    tensor.strides = (const int64_t[]){3, 1};
    check_taken(tensor, 6, 24);
}

static void strides_of_dimensions_of_size_one_do_not_count(void)
{
    static const int64_t shape[] = {1, 2, 1, 3, 1};
    kvs_tensor_t tensor = kt_tensor(memory, KVS_DTYPE_float32, shape, 5);

    tensor.strides = (const int64_t[]){-5, 3, 99, 1, 0};
    check_taken(tensor, 6, 24);
}

static void strides_of_an_empty_array_do_not_count(void)
{
    static const int64_t shape[] = {4, 0, 3};
    kvs_tensor_t tensor = kt_tensor(memory, KVS_DTYPE_float32, shape, 3);

    tensor.strides = (const int64_t[]){7, -7, 77};
    check_taken(tensor, 0, 0);
}

static void other_strides_are_refused(void)
{
    static const int64_t strides[][2] = {{1, 2}, {4, 1}, {0, 0}, {-3, 1}, {3, 2}};

    for (size_t i = 0; i < sizeof(strides) / sizeof(strides[0]); i++) {
        kvs_tensor_t tensor = good();

        tensor.strides = strides[i];
        check_refused(tensor, KVS_ERR_ARGUMENT, "of shape (2, 3) has strides (");
        KT_HAS(kvs_last_error(), "pass a contiguous copy");
    }
}

static void null_data_is_refused(void)
{
    kvs_tensor_t tensor = good();

    tensor.data = NULL;
    check_refused(tensor, KVS_ERR_ARGUMENT, "of shape (2, 3) has NULL data");
    tensor.byte_offset = 64;
    check_refused(tensor, KVS_ERR_ARGUMENT, "has NULL data");
}

static void data_between_elements_is_refused(void)
{
    kvs_tensor_t tensor = good();

    tensor.data = memory + 2;
    check_refused(tensor, KVS_ERR_ARGUMENT, "not aligned to its element of 4 bytes");
    tensor.data = memory;
    tensor.byte_offset = 3;
    check_refused(tensor, KVS_ERR_ARGUMENT, "not aligned to its element of 4 bytes");
}

static void a_byte_offset_counts_for_alignment(void)
{
    kvs_tensor_t tensor = good();

    tensor.data = memory + 2;
    tensor.byte_offset = 2;
    check_taken(tensor, 6, 24);
    tensor.data = memory;
    tensor.byte_offset = 64;
    check_taken(tensor, 6, 24);
}

/* ---- Row-sparse ------------------------------------------------------------------------------ */

static kvs_tensor_t sparse(kvs_rows_t *rows, const int64_t *shape, int32_t ndim)
{
    kvs_tensor_t tensor = kt_tensor(memory, KVS_DTYPE_float32, shape, ndim);

    tensor.rows = rows;
    return tensor;
}

static void a_row_sparse_value_holds_the_rows_it_lists(void)
{
    static const int64_t shape[] = {1000, 2, 3};
    int64_t ids[4] = {5, 1, 5, 0};
    kvs_rows_t rows = {.ids = ids, .n_rows = 4};

    check_taken(sparse(&rows, shape, 3), 24, 96);
    rows.n_rows = 0;
    rows.ids = NULL;
    check_taken(sparse(&rows, shape, 3), 0, 0);
}

static void a_row_sparse_out_has_room_for_its_capacity(void)
{
    kvs_key_t key = kvs_key_int(7);
    int64_t ids[4];
    kvs_rows_t rows = {
        .ids = ids, .n_rows = -77, .capacity = 4}; /* n_rows is for the store to set */
    kvs_tensor_t tensor = sparse(&rows, shape_2_3, 2);
    kvsi_size_t size = {-1, -1};

    KT_OK(kvsi_tensor_check(&tensor, "out", 1, &key, true, &size));
    KT_INT(size.n_elems, 12);
    rows.n_rows = INT64_MAX;
    KT_OK(kvsi_tensor_check(&tensor, "out", 1, &key, true, &size));
    KT_INT(size.n_bytes, 48);
    rows.capacity = -1;
    KT_FAIL(kvsi_tensor_check(&tensor, "out", 1, &key, true, &size), KVS_ERR_ARGUMENT,
            "the row ids of out 1");
}

static void the_capacity_of_a_row_sparse_value_does_not_count(void)
{
    int64_t ids[4] = {0};
    kvs_rows_t rows = {.ids = ids, .n_rows = 1, .capacity = -1};

    check_taken(sparse(&rows, shape_2_3, 2), 3, 12);
    rows.capacity = INT64_MAX;
    check_taken(sparse(&rows, shape_2_3, 2), 3, 12);
}

static void row_ids_that_are_null_or_negative_in_number_are_refused(void)
{
    int64_t ids[1] = {0};
    kvs_rows_t rows = {.ids = ids, .n_rows = -1};

    check_refused(sparse(&rows, shape_2_3, 2), KVS_ERR_ARGUMENT, "the row ids of value 1");
    rows = (kvs_rows_t){.ids = NULL, .n_rows = 1};
    check_refused(sparse(&rows, shape_2_3, 2), KVS_ERR_ARGUMENT,
                  "NULL or their number is negative");
}

static void a_row_sparse_scalar_is_refused(void)
{
    kvs_rows_t rows = {0};

    check_refused(sparse(&rows, NULL, 0), KVS_ERR_SHAPE, "row-sparse but has no dimension of rows");
}

static void more_rows_than_fit_in_memory_are_refused(void)
{
    static const int64_t wide[] = {2, (int64_t)1 << 40};
    int64_t ids[1];
    kvs_rows_t rows = {.ids = ids, .n_rows = (int64_t)1 << 30};

    check_refused(sparse(&rows, wide, 2), KVS_ERR_ARGUMENT, "more rows than fit in memory");
    rows.n_rows = (int64_t)1 << 22; /* elements fit, bytes don't */
    check_refused(sparse(&rows, wide, 2), KVS_ERR_ARGUMENT, "more rows than fit in memory");
}

static void rows_without_data_are_refused(void)
{
    int64_t ids[1] = {0};
    kvs_rows_t rows = {.ids = ids, .n_rows = 1};
    kvs_tensor_t tensor = sparse(&rows, shape_2_3, 2);

    tensor.data = NULL;
    check_refused(tensor, KVS_ERR_ARGUMENT, "has NULL data");
}

/* ---- Names, shapes and keys as texts --------------------------------------------------------- */

static void dtypes_have_numbers_and_names(void)
{
    static const char *const names[KVS_N_DTYPES] = {"float32", "float64", "float16", "bfloat16",
                                                    "int8",    "uint8",   "int32",   "int64"};

    for (int i = 0; i < KVS_N_DTYPES; i++) {
        KT_INT(kvs_dtype_index(kvs_dtype(i)), i);
        KT_STR(kvs_dtype_name(kvs_dtype(i)), names[i]);
    }
    KT_INT(kvs_dtype_index(kvs_dtype(-1)), -1);
    KT_INT(kvs_dtype_index(kvs_dtype(KVS_N_DTYPES)), -1);
    KT_STR(kvs_dtype_name(kvs_dtype(99)), "unknown dtype");
}

static void shapes_are_equal_in_every_dimension(void)
{
    static const int64_t a[] = {2, 3, 4}, b[] = {2, 3, 5};

    KT_TRUE(kvsi_shape_equal(a, 3, a, 3));
    KT_TRUE(kvsi_shape_equal(a, 2, b, 2));
    KT_TRUE(!kvsi_shape_equal(a, 3, b, 3));
    KT_TRUE(!kvsi_shape_equal(a, 2, a, 3));
    KT_TRUE(kvsi_shape_equal(NULL, 0, a, 0));
}

static void a_shape_reads_as_a_tuple(void)
{
    static const int64_t shape[] = {4, 0, -1};

    KT_STR(KVSI_SHAPE_TEXT(NULL, 0), "()");
    KT_STR(KVSI_SHAPE_TEXT(shape, 1), "(4,)");
    KT_STR(KVSI_SHAPE_TEXT(shape, 3), "(4, 0, -1)");
}

static void a_long_shape_is_cut_and_says_so(void)
{
    int64_t shape[KVSI_MAX_NDIM];
    const char *text;

    for (int i = 0; i < KVSI_MAX_NDIM; i++) {
        shape[i] = INT64_MIN;
    }
    text = KVSI_SHAPE_TEXT(shape, KVSI_MAX_NDIM);
    KT_TRUE(strlen(text) < KVSI_SHAPE_TEXT_BYTES);
    KT_STR(text + strlen(text) - 6, ", ...)");
    KT_HAS(text, "(-9223372036854775808, -9223372036854775808");
}

static void every_cut_of_a_shape_fits(void)
{
    static const int64_t shape[] = {10, 200, 3000, 40000, 500000};
    char text[64];

    for (size_t n_bytes = 8; n_bytes <= sizeof(text); n_bytes++) {
        memset(text, 'x', sizeof(text));
        kvsi_shape_text(shape, 5, text, n_bytes);
        KT_TRUE(strnlen(text, n_bytes) < n_bytes);
        KT_INT(text[strlen(text) - 1], ')');
    }
    KT_STR(text, "(10, 200, 3000, 40000, 500000)");
}

static const char *text_of(const char *key)
{
    static char text[KVSI_KEY_TEXT_BYTES];
    kvs_key_t name = kvs_key_str(key);

    return kvsi_key_text(&name, text, sizeof(text));
}

static void integer_keys_are_bare_and_string_keys_quoted(void)
{
    kvs_key_t least = kvs_key_int(INT64_MIN);

    KT_STR(KVSI_KEY_TEXT(&least), "-9223372036854775808");
    KT_STR(text_of("3"), "'3'");
    KT_STR(text_of(""), "''");
}

static void a_key_that_just_fits_is_whole(void)
{
    char key[KVSI_KEY_TEXT_BYTES], want[KVSI_KEY_TEXT_BYTES + 2];
    size_t n = KVSI_KEY_TEXT_BYTES - 3; /* two quotes and the end */

    memset(key, 'k', sizeof(key));
    key[n] = '\0';
    snprintf(want, sizeof(want), "'%s'", key);
    KT_STR(text_of(key), want);
    key[n] = 'k';
    key[n + 1] = '\0';
    KT_INT(strlen(text_of(key)), KVSI_KEY_TEXT_BYTES - 1);
    KT_STR(text_of(key) + KVSI_KEY_TEXT_BYTES - 5, "...'");
}

static int is_utf8_border(const char *text, size_t at)
{
    return ((unsigned char)text[at] & 0xC0) != 0x80;
}

static void a_long_key_is_cut_between_characters(void)
{
    static const char *const characters[] = {"\xC3\xA4", "\xE2\x82\xAC", "\xF0\x9F\x98\x80"};

    for (size_t c = 0; c < 3; c++) {
        for (size_t before = 0; before < 5; before++) {
            char key[300] = "";
            const char *text;
            size_t cut;

            memset(key, 'k', before);
            while (strlen(key) < 200) {
                strcat(key, characters[c]);
            }
            text = text_of(key);
            cut = strlen(text) - strlen("'...'");
            KT_TRUE(strlen(text) < KVSI_KEY_TEXT_BYTES);
            KT_STR(text + 1 + cut, "...'");
            KT_TRUE(memcmp(text + 1, key, cut) == 0);
            KT_TRUE(is_utf8_border(key, cut));
        }
    }
}

static const kt_test_t tests[] = {
    KT_TEST(a_compact_array_is_counted),
    KT_TEST(a_scalar_has_one_element),
    KT_TEST(each_dtype_has_its_bytes),
    KT_TEST(an_array_without_elements_needs_no_data),
    KT_TEST(more_than_2_to_the_31_elements_are_counted),
    KT_TEST(sizes_beyond_the_address_space_are_refused),
    KT_TEST(ndim_out_of_range_is_refused),
    KT_TEST(as_many_dimensions_as_allowed_are_taken),
    KT_TEST(dimensions_without_a_shape_are_refused),
    KT_TEST(a_negative_dimension_is_refused),
    KT_TEST(unknown_dtypes_are_refused),
    KT_TEST(compact_strides_are_taken),
    KT_TEST(strides_of_dimensions_of_size_one_do_not_count),
    KT_TEST(strides_of_an_empty_array_do_not_count),
    KT_TEST(other_strides_are_refused),
    KT_TEST(null_data_is_refused),
    KT_TEST(data_between_elements_is_refused),
    KT_TEST(a_byte_offset_counts_for_alignment),
    KT_TEST(a_row_sparse_value_holds_the_rows_it_lists),
    KT_TEST(a_row_sparse_out_has_room_for_its_capacity),
    KT_TEST(the_capacity_of_a_row_sparse_value_does_not_count),
    KT_TEST(row_ids_that_are_null_or_negative_in_number_are_refused),
    KT_TEST(a_row_sparse_scalar_is_refused),
    KT_TEST(more_rows_than_fit_in_memory_are_refused),
    KT_TEST(rows_without_data_are_refused),
    KT_TEST(dtypes_have_numbers_and_names),
    KT_TEST(shapes_are_equal_in_every_dimension),
    KT_TEST(a_shape_reads_as_a_tuple),
    KT_TEST(a_long_shape_is_cut_and_says_so),
    KT_TEST(every_cut_of_a_shape_fits),
    KT_TEST(integer_keys_are_bare_and_string_keys_quoted),
    KT_TEST(a_key_that_just_fits_is_whole),
    KT_TEST(a_long_key_is_cut_between_characters),
};
KT_MAIN("tensor", tests)
