/* SPDX-License-Identifier: Apache-2.0 */
/* Wrong and odd use of gradient compression, on `device`: code, text, nothing done, still usable. */
#include "misuse.h"

#include <math.h>
#include <stdlib.h>

static kvs_param_t text(const char *name, const char *value)
{
    return (kvs_param_t){.name = name, .type = KVS_PARAM_TEXT, .value = {.text = value}};
}

static kvs_param_t real(const char *name, double value)
{
    return (kvs_param_t){.name = name, .type = KVS_PARAM_FLOAT, .value = {.real = value}};
}

/* The values of key 3, which is float32 of MISUSE_N elements. */
static const float initial[MISUSE_N] = {1, 2, 3, 4, 5, 6};

static kvs_store_t *open_device(void)
{
    kvs_store_t *store = misuse_create("device");
    float value[MISUSE_N];

    memcpy(value, initial, sizeof(value));
    KT_OK(misuse_init(store, kvs_key_int(MISUSE_KEY), KT_F32(value, MISUSE_N)));
    return store;
}

/* It does not compress: 0.25 arrives whole. */
static void close_uncompressed(kvs_store_t *store)
{
    float quarters[MISUSE_N] = {0.25f, 0.25f, 0.25f, 0.25f, 0.25f, 0.25f};

    misuse_check(store, kvs_key_int(MISUSE_KEY), initial, MISUSE_N);
    KT_OK(misuse_push(store, kvs_key_int(MISUSE_KEY), KT_F32(quarters, MISUSE_N)));
    misuse_check(store, kvs_key_int(MISUSE_KEY), quarters, MISUSE_N);
    misuse_close_working(store, kvs_key_int(1000));
}

static void refused(kvs_param_t first, kvs_param_t second, kvs_status_t status, const char *part)
{
    kvs_store_t *store = open_device();
    kvs_param_t params[2] = {first, second};

    KT_FAIL(kvs_store_set_gradient_compression(store, params, 2), status, part);
    close_uncompressed(store);
}

static void an_unknown_type_names_what_there_is(void)
{
    refused(text("type", "3bit"), real("threshold", 1), KVS_ERR_NOT_FOUND,
            "no compressor named \"3bit\"; did you mean \"1bit\"");
    KT_HAS(kvs_last_error(), "Installed: 1bit, 2bit");
    refused(text("type", "none"), real("threshold", 1), KVS_ERR_NOT_FOUND,
            "no compressor named \"none\"");
    refused(text("type", ""), real("threshold", 1), KVS_ERR_NOT_FOUND, "no compressor named \"\"");
}

static void a_missing_type_is_named(void)
{
    kvs_store_t *store = open_device();
    kvs_param_t threshold = real("threshold", 0.5);

    KT_FAIL(kvs_store_set_gradient_compression(store, &threshold, 1), KVS_ERR_ARGUMENT,
            "'type' is missing");
    KT_TRUE(kvs_store_set_gradient_compression(store, NULL, 0) != KVS_OK);
    KT_FAIL(kvs_store_set_gradient_compression(store, NULL, 1), KVS_ERR_ARGUMENT, "NULL");
    KT_FAIL(kvs_store_set_gradient_compression(NULL, &threshold, 1), KVS_ERR_ARGUMENT, "NULL");
    close_uncompressed(store);
}

static void thresholds_that_are_no_threshold_are_errors(void)
{
    kvs_param_t type = text("type", "2bit");

    refused(type, real("threshold", 0), KVS_ERR_ARGUMENT, "threshold");
    refused(type, real("threshold", -1), KVS_ERR_ARGUMENT, "threshold");
    refused(type, real("threshold", NAN), KVS_ERR_ARGUMENT, "threshold");
    refused(type, real("threshold", INFINITY), KVS_ERR_ARGUMENT, "threshold");
    refused(type, real("threshold", 1e-60), KVS_ERR_ARGUMENT, "threshold");
    refused(type, text("threshold", "many"), KVS_ERR_ARGUMENT, "threshold");
}

static void misspelt_parameters_are_errors(void)
{
    refused(text("type", "2bit"), real("treshold", 0.5), KVS_ERR_ARGUMENT,
            "unknown parameter 'treshold'; did you mean 'threshold'?");
    refused(text("Type", "2bit"), real("threshold", 0.5), KVS_ERR_ARGUMENT, "'Type'");
}

static void a_compressor_is_told_from_other_plugins(void)
{
    refused(text("type", "sgd"), real("threshold", 0.5), KVS_ERR_NOT_FOUND,
            "no compressor named \"sgd\"");
    refused(text("type", "local"), real("threshold", 0.5), KVS_ERR_NOT_FOUND,
            "no compressor named \"local\"");
}

static void without_the_plugin_the_package_is_named(void)
{
    kvs_store_t *store = open_device();
    kvs_param_t type = text("type", "2bit");

    setenv("KVSTORE_PLUGINS", "-compressors", 1);
    KT_FAIL(kvs_store_set_gradient_compression(store, &type, 1), KVS_ERR_UNAVAILABLE, "disabled");
    unsetenv("KVSTORE_PLUGINS");
    close_uncompressed(store);
}

/* ---- What can't be compressed ----------------------------------------------------------------------- */

static void compress(kvs_store_t *store)
{
    kvs_param_t type = text("type", "2bit");

    KT_OK(kvs_store_set_gradient_compression(store, &type, 1));
}

static void other_dtypes_are_errors_of_init_and_push(void)
{
    kvs_store_t *store = open_device();
    double wide[2] = {1, 2};
    kvs_tensor_t tensor = kt_tensor(wide, KVS_DTYPE_float64, (const int64_t[]){2}, 1);
    double out[2] = {0};
    kvs_tensor_t result = kt_tensor(out, KVS_DTYPE_float64, (const int64_t[]){2}, 1);

    KT_OK(misuse_init(store, kvs_key_int(8), tensor));
    compress(store);
    KT_FAIL(misuse_init(store, kvs_key_int(9), tensor), KVS_ERR_DTYPE, "float64");
    KT_FAIL(misuse_pull(store, kvs_key_int(9), result), KVS_ERR_NOT_FOUND, "9");
    KT_FAIL(misuse_push(store, kvs_key_int(8), tensor), KVS_ERR_DTYPE,
            "key 8: gradient compression '2bit' takes float32 values, got float64");
    KT_OK(misuse_pull(store, kvs_key_int(8), result));
    KT_REAL(out[1], 2);
    KT_OK(kvs_store_close(store));
}

static void one_key_of_another_dtype_refuses_the_whole_list(void)
{
    kvs_store_t *store = open_device();
    int32_t whole[1] = {7};
    float value[MISUSE_N] = {9, 9, 9, 9, 9, 9};
    kvs_tensor_t tensors[2] = {KT_F32(value, MISUSE_N),
                               kt_tensor(whole, KVS_DTYPE_int32, (const int64_t[]){1}, 1)};
    kvs_arrays_t arrays = kvs_arrays(tensors, 2);
    kvs_key_t keys[2] = {kvs_key_int(MISUSE_KEY), kvs_key_int(8)};

    KT_OK(misuse_init(store, keys[1], tensors[1]));
    compress(store);
    KT_FAIL(kvs_store_push(store, keys, 2, &arrays, NULL), KVS_ERR_DTYPE, "int32");
    misuse_check(store, keys[0], initial, MISUSE_N);
    KT_OK(kvs_store_close(store));
}

static void row_sparse_values_are_errors_of_init_and_push(void)
{
    static const int64_t shape[2] = {4, 2};
    kvs_store_t *store = open_device();
    float dense[8] = {0}, rows_data[4] = {1, 2, 3, 4};
    int64_t ids[2] = {1, 3};
    kvs_rows_t rows = {.ids = ids, .n_rows = 2, .capacity = 2};
    kvs_tensor_t sparse = kt_tensor(rows_data, KVS_DTYPE_float32, shape, 2);

    sparse.rows = &rows;
    KT_OK(misuse_init(store, kvs_key_int(8), sparse));
    KT_OK(misuse_init(store, kvs_key_int(9), kt_tensor(dense, KVS_DTYPE_float32, shape, 2)));
    compress(store);
    KT_FAIL(misuse_push(store, kvs_key_int(8), sparse), KVS_ERR_STORAGE, "row-sparse");
    KT_FAIL(misuse_push(store, kvs_key_int(9), sparse), KVS_ERR_STORAGE, "key 9");
    KT_FAIL(misuse_init(store, kvs_key_int(10), sparse), KVS_ERR_STORAGE, "row-sparse");
    KT_OK(kvs_store_close(store));
}

static void not_a_number_is_an_error_of_its_push_alone(void)
{
    kvs_store_t *store = open_device();
    float value[MISUSE_N] = {0, 0, NAN, 0, 0, 0}, zeros[MISUSE_N] = {0};

    compress(store);
    KT_FAIL(misuse_push(store, kvs_key_int(MISUSE_KEY), KT_F32(value, MISUSE_N)),
            KVS_ERR_NON_FINITE, "key 3: value 0 of the list: element 2 is NaN");
    misuse_check(store, kvs_key_int(MISUSE_KEY), initial, MISUSE_N);
    value[2] = 0;
    KT_OK(misuse_push(store, kvs_key_int(MISUSE_KEY), KT_F32(value, MISUSE_N)));
    misuse_check(store, kvs_key_int(MISUSE_KEY), zeros, MISUSE_N);
    KT_OK(kvs_store_wait_all(store, -1)); /* the error was delivered once */
    KT_OK(kvs_store_close(store));
}

static void an_event_carries_the_error(void)
{
    kvs_store_t *store = open_device();
    float value[MISUSE_N] = {INFINITY};
    kvs_tensor_t tensor = KT_F32(value, MISUSE_N);
    kvs_arrays_t arrays = kvs_arrays(&tensor, 1);
    kvs_key_t key = kvs_key_int(MISUSE_KEY);
    kvs_event_t *event = NULL;
    kvs_call_t call = KVS_CALL_INIT;

    call.ret_event = &event;
    compress(store);
    KT_OK(kvs_store_push(store, &key, 1, &arrays, &call));
    KT_FAIL(kvs_event_wait(event, 20000), KVS_ERR_NON_FINITE, "element 0 is infinite");
    kvs_event_free(event);
    KT_OK(kvs_store_close(store));
}

/* ---- A device count that changes -------------------------------------------------------------------- */

static kvs_status_t push_many(kvs_store_t *store, float *values, size_t n)
{
    kvs_key_t key = kvs_key_int(1);
    kvs_tensor_t tensors[4];
    kvs_arrays_t arrays = kvs_arrays(tensors, n);

    for (size_t i = 0; i < n; i++) {
        tensors[i] = KT_F32(&values[i], 1);
        tensors[i].device.id = (int32_t)i;
    }
    return kvs_store_push(store, &key, 1, &arrays, NULL);
}

static void the_number_of_devices_may_change_with_every_push(void)
{
    static const size_t counts[] = {2, 4, 1, 3};
    kvs_store_t *store = misuse_create("device");
    float values[4] = {1, 2, 4, 8}, zero = 0;

    KT_OK(misuse_init(store, kvs_key_int(1), KT_F32(&zero, 1)));
    for (int i = 0; i < 4; i++) {
        float sum = (float)((1 << counts[i]) - 1);

        KT_OK(push_many(store, values, counts[i]));
        misuse_check(store, kvs_key_int(1), &sum, 1);
    }
    compress(store);
    for (int i = 0; i < 4; i++) {
        float sum = 0.5f * (float)counts[i];

        KT_OK(push_many(store, values, counts[i]));
        misuse_check(store, kvs_key_int(1), &sum, 1);
    }
    KT_OK(kvs_store_close(store));
}

static const kt_test_t tests[] = {
    KT_TEST(an_unknown_type_names_what_there_is),
    KT_TEST(a_missing_type_is_named),
    KT_TEST(thresholds_that_are_no_threshold_are_errors),
    KT_TEST(misspelt_parameters_are_errors),
    KT_TEST(a_compressor_is_told_from_other_plugins),
    KT_TEST(without_the_plugin_the_package_is_named),
    KT_TEST(other_dtypes_are_errors_of_init_and_push),
    KT_TEST(one_key_of_another_dtype_refuses_the_whole_list),
    KT_TEST(row_sparse_values_are_errors_of_init_and_push),
    KT_TEST(not_a_number_is_an_error_of_its_push_alone),
    KT_TEST(an_event_carries_the_error),
    KT_TEST(the_number_of_devices_may_change_with_every_push),
};
KT_MAIN("misuse.compression", tests)
