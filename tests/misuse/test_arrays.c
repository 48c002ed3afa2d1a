/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays that no store can read: bad dimensions, sizes, dtypes, strides, addresses, devices. Each is
 * refused in push, pull and init alike, and nothing is done. */
#include "misuse.h"

#include <stdlib.h>

static float data[64];

static kvs_tensor_t good(void)
{
    return kt_tensor(data, KVS_DTYPE_float32, misuse_shape, 2);
}

static void check_refused(kvs_tensor_t array, kvs_status_t want, const char *part)
{
    kvs_store_t *store = misuse_open();

    memset(data, 0, sizeof(data));
    KT_FAIL(misuse_push(store, kvs_key_int(MISUSE_KEY), array), want, part);
    KT_HAS(kvs_last_error(), "3");
    KT_FAIL(misuse_pull(store, kvs_key_int(MISUSE_KEY), array), want, part);
    KT_FAIL(misuse_init(store, kvs_key_int(77), array), want, part);
    KT_HAS(kvs_last_error(), "77");
    for (size_t i = 0; i < sizeof(data) / sizeof(data[0]); i++) {
        KT_REAL(data[i], 0);
    }
    misuse_close_untouched(store);
}

static void a_negative_ndim_is_an_error(void)
{
    kvs_tensor_t array = good();

    array.ndim = -1;
    check_refused(array, KVS_ERR_ARGUMENT, "-1");
    array.ndim = INT32_MIN;
    check_refused(array, KVS_ERR_ARGUMENT, "ndim");
}

static void too_many_dimensions_are_an_error(void)
{
    int64_t shape[40];
    kvs_tensor_t array = good();

    for (size_t i = 0; i < 40; i++) {
        shape[i] = 1;
    }
    array.shape = shape;
    array.ndim = 40;
    check_refused(array, KVS_ERR_ARGUMENT, "40");
    array.ndim = INT32_MAX;
    check_refused(array, KVS_ERR_ARGUMENT, "ndim");
}

static void dimensions_without_a_shape_are_an_error(void)
{
    kvs_tensor_t array = good();

    array.shape = NULL;
    check_refused(array, KVS_ERR_ARGUMENT, "NULL");
}

static void a_negative_dimension_is_an_error(void)
{
    const int64_t shape[2] = {2, -3};
    const int64_t both[2] = {-2, -3};
    kvs_tensor_t array = good();

    array.shape = shape;
    check_refused(array, KVS_ERR_ARGUMENT, "(2, -3)");
    array.shape = both;
    check_refused(array, KVS_ERR_ARGUMENT, "(-2, -3)");
}

static void a_shape_whose_product_overflows_is_an_error(void)
{
    const int64_t elems[2] = {1LL << 32, 1LL << 32};
    const int64_t bytes[1] = {1LL << 61};
    const int64_t half[2] = {INT64_MAX, 3};
    kvs_tensor_t array = good();

    array.shape = elems;
    check_refused(array, KVS_ERR_ARGUMENT, "(4294967296, 4294967296)");
    array.shape = half;
    check_refused(array, KVS_ERR_ARGUMENT, "(9223372036854775807, 3)");
    array.shape = bytes;
    array.ndim = 1;
    check_refused(array, KVS_ERR_ARGUMENT, "(2305843009213693952,)");
}

static void an_unknown_dtype_is_an_error(void)
{
    static const kvs_dtype_t unknown[] = {
        {KVS_CODE_FLOAT, 32, 2}, {KVS_CODE_FLOAT, 32, 0},  {KVS_CODE_FLOAT, 8, 1},
        {KVS_CODE_FLOAT, 0, 1},  {KVS_CODE_INT, 1, 1},     {KVS_CODE_INT, 128, 1},
        {KVS_CODE_UINT, 32, 1},  {KVS_CODE_BFLOAT, 32, 1}, {3, 64, 1},
        {255, 255, 65535}};

    for (size_t i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++) {
        kvs_tensor_t array = good();

        array.dtype = unknown[i];
        check_refused(array, KVS_ERR_DTYPE, "dtype");
    }
}

static void strides_that_are_not_compact_are_an_error(void)
{
    const int64_t transposed[2] = {1, 2};
    const int64_t padded[2] = {4, 1};
    const int64_t repeated[2] = {0, 1};
    const int64_t reversed[2] = {-3, 1};
    const int64_t *const all[] = {transposed, padded, repeated, reversed};

    for (size_t i = 0; i < 4; i++) {
        kvs_tensor_t array = good();

        array.strides = all[i];
        check_refused(array, KVS_ERR_ARGUMENT, "strides");
    }
}

static void compact_strides_are_accepted(void)
{
    const int64_t strides[2] = {3, 1};
    const int64_t flat_shape[3] = {1, 4, 1};
    const int64_t odd_but_unused[3] = {99, 1, 7}; /* a dimension of 1 has no second element */
    kvs_store_t *store = misuse_open();
    kvs_tensor_t array = good();

    array.strides = strides;
    KT_OK(misuse_pull(store, kvs_key_int(MISUSE_KEY), array));
    array = kt_tensor(data, KVS_DTYPE_float32, flat_shape, 3);
    array.strides = odd_but_unused;
    KT_OK(misuse_init(store, kvs_key_int(5), array));
    misuse_close_working(store, kvs_key_int(6));
}

static void data_not_aligned_to_its_element_is_an_error(void)
{
    kvs_tensor_t array = good();

    array.data = (char *)data + 1;
    check_refused(array, KVS_ERR_ARGUMENT, "aligned");
    array = good();
    array.byte_offset = 2;
    check_refused(array, KVS_ERR_ARGUMENT, "aligned");
}

static void a_byte_offset_is_honoured(void)
{
    kvs_store_t *store = misuse_open();
    kvs_tensor_t array = good();

    for (int i = 0; i < 64; i++) {
        data[i] = (float)(100 + i);
    }
    array.byte_offset = 4 * sizeof(float);
    KT_OK(misuse_pull(store, kvs_key_int(MISUSE_KEY), array));
    KT_REAL(data[3], 103);
    KT_REAL(data[4], 1);
    KT_REAL(data[9], 6);
    KT_REAL(data[10], 110);
    misuse_close_untouched(store);
}

static void elements_without_data_are_an_error(void)
{
    kvs_tensor_t array = good();

    array.data = NULL;
    check_refused(array, KVS_ERR_ARGUMENT, "NULL");
}

static void an_array_without_elements_is_accepted_also_without_data(void)
{
    const int64_t shape[2] = {0, 3};
    kvs_store_t *store = misuse_open();
    kvs_tensor_t array = kt_tensor(NULL, KVS_DTYPE_float32, shape, 2);

    KT_OK(misuse_init(store, kvs_key_int(5), array));
    KT_OK(misuse_push(store, kvs_key_int(5), array));
    KT_OK(misuse_pull(store, kvs_key_int(5), array));
    misuse_close_working(store, kvs_key_int(6));
}

static void a_scalar_is_one_element(void)
{
    kvs_store_t *store = misuse_open();
    float value = 4, out = 0;

    KT_OK(misuse_init(store, kvs_key_int(5), kt_tensor(&value, KVS_DTYPE_float32, NULL, 0)));
    KT_OK(misuse_pull(store, kvs_key_int(5), kt_tensor(&out, KVS_DTYPE_float32, NULL, 0)));
    KT_REAL(out, 4);
    KT_FAIL(misuse_pull(store, kvs_key_int(5), KT_F32(&out, 1)), KVS_ERR_SHAPE, "()");
    misuse_close_working(store, kvs_key_int(6));
}

static void a_device_that_no_provider_serves_is_an_error_and_never_read(void)
{
    static const kvs_device_t devices[] = {{99, 0}, {0, 0}, {-1, 0}, {KVS_DEVICE_CUDA, 0}};

    for (size_t i = 0; i < sizeof(devices) / sizeof(devices[0]); i++) {
        kvs_store_t *store = misuse_open();
        kvs_tensor_t array = good();
        int supported = 1;

        array.device = devices[i];
        if (devices[i].type == KVS_DEVICE_CUDA) {
            KT_OK(kvs_store_supports(store, array.dtype, array.device, &supported));
        } else {
            supported = 0;
        }
        array.data = (void *)(uintptr_t)4096; /* reading it would crash */
        if (!supported) {
            KT_TRUE(misuse_push(store, kvs_key_int(MISUSE_KEY), array) != KVS_OK);
            KT_HAS(kvs_last_error(), "device");
            KT_TRUE(misuse_pull(store, kvs_key_int(MISUSE_KEY), array) != KVS_OK);
            KT_TRUE(misuse_init(store, kvs_key_int(50), array) != KVS_OK);
        }
        misuse_close_untouched(store);
    }
}

static void any_cpu_id_is_accepted(void)
{
    kvs_store_t *store = misuse_open();
    kvs_tensor_t array = good();

    array.device.id = 7;
    KT_OK(misuse_pull(store, kvs_key_int(MISUSE_KEY), array));
    KT_REAL(data[5], 6);
    misuse_close_untouched(store);
}

static const kt_test_t tests[] = {
    KT_TEST(a_negative_ndim_is_an_error),
    KT_TEST(too_many_dimensions_are_an_error),
    KT_TEST(dimensions_without_a_shape_are_an_error),
    KT_TEST(a_negative_dimension_is_an_error),
    KT_TEST(a_shape_whose_product_overflows_is_an_error),
    KT_TEST(an_unknown_dtype_is_an_error),
    KT_TEST(strides_that_are_not_compact_are_an_error),
    KT_TEST(compact_strides_are_accepted),
    KT_TEST(data_not_aligned_to_its_element_is_an_error),
    KT_TEST(a_byte_offset_is_honoured),
    KT_TEST(elements_without_data_are_an_error),
    KT_TEST(an_array_without_elements_is_accepted_also_without_data),
    KT_TEST(a_scalar_is_one_element),
    KT_TEST(a_device_that_no_provider_serves_is_an_error_and_never_read),
    KT_TEST(any_cpu_id_is_accepted),
};
KT_MAIN("misuse.arrays", tests)
