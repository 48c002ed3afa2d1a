/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays that are sound but do not fit the key: another shape, another dtype, other numbers of
 * them; and memory that the caller goes on using. */
#include "misuse.h"

#include <stdlib.h>

static const int64_t turned[2] = {3, 2}, longer[2] = {2, 4}, flat[1] = {6};

static kvs_key_t key(void)
{
    return kvs_key_int(MISUSE_KEY);
}

static kvs_tensor_t f32(float *data, const int64_t *shape, int32_t ndim)
{
    return kt_tensor(data, KVS_DTYPE_float32, shape, ndim);
}

static kvs_status_t push_two(kvs_store_t *store, kvs_tensor_t a, kvs_tensor_t b)
{
    kvs_tensor_t list[2] = {a, b};
    kvs_arrays_t values = kvs_arrays(list, 2);
    kvs_key_t k = key();

    return kvs_store_push(store, &k, 1, &values, NULL);
}

static void set_sgd(kvs_store_t *store)
{
    kvs_optimizer_spec_t spec = KVS_OPTIMIZER_INIT;

    spec.name = "sgd";
    KT_OK(kvs_store_set_optimizer(store, &spec));
}

static void push_of_another_shape_is_an_error_giving_both(void)
{
    kvs_store_t *store = misuse_open();
    float data[8] = {0};

    KT_FAIL(misuse_push(store, key(), f32(data, turned, 2)), KVS_ERR_SHAPE, "(3, 2)");
    KT_HAS(kvs_last_error(), "(2, 3)");
    KT_HAS(kvs_last_error(), "key 3");
    KT_FAIL(misuse_push(store, key(), f32(data, longer, 2)), KVS_ERR_SHAPE, "(2, 4)");
    KT_HAS(kvs_last_error(), "(2, 3)");
    KT_FAIL(misuse_push(store, key(), f32(data, flat, 1)), KVS_ERR_SHAPE, "(6,)");
    misuse_close_untouched(store);
}

static void a_refused_push_does_not_change_the_shape_to_pull(void)
{
    kvs_store_t *store = misuse_open();
    float data[8] = {0};

    KT_FAIL(misuse_push(store, key(), f32(data, longer, 2)), KVS_ERR_SHAPE, "(2, 4)");
    KT_FAIL(misuse_pull(store, key(), f32(data, longer, 2)), KVS_ERR_SHAPE, "(2, 4)");
    misuse_close_untouched(store);
}

static void push_of_another_shape_with_sgd_is_an_error_of_the_push(void)
{
    kvs_store_t *store = misuse_open();
    float data[8] = {0};

    set_sgd(store);
    KT_FAIL(misuse_push(store, key(), f32(data, longer, 2)), KVS_ERR_SHAPE, "(2, 4)");
    misuse_close_untouched(store);
}

static void arrays_of_different_shapes_in_one_push_are_an_error(void)
{
    kvs_store_t *store = misuse_open();
    float a[8] = {0}, b[8] = {0};

    KT_FAIL(push_two(store, f32(a, misuse_shape, 2), f32(b, turned, 2)), KVS_ERR_SHAPE, "(3, 2)");
    KT_HAS(kvs_last_error(), "(2, 3)");
    misuse_close_untouched(store);
}

static void arrays_of_different_dtypes_in_one_push_are_an_error(void)
{
    kvs_store_t *store = misuse_open();
    float a[MISUSE_N] = {0};
    double b[MISUSE_N] = {0};

    KT_FAIL(
        push_two(store, f32(a, misuse_shape, 2), kt_tensor(b, KVS_DTYPE_float64, misuse_shape, 2)),
        KVS_ERR_DTYPE, "float64");
    KT_HAS(kvs_last_error(), "float32");
    misuse_close_untouched(store);
}

static void push_of_another_dtype_is_an_error_giving_both(void)
{
    int64_t data[MISUSE_N] = {0}; /* large enough for all */
    kvs_store_t *store = misuse_open();

    for (int dtype = 0; dtype < KVS_N_DTYPES; dtype++) {
        if (dtype == KVS_DTYPE_float32) {
            continue;
        }
        KT_FAIL(misuse_push(store, key(), kt_tensor(data, dtype, misuse_shape, 2)), KVS_ERR_DTYPE,
                kvs_dtype_name(kvs_dtype(dtype)));
        KT_HAS(kvs_last_error(), "float32");
    }
    misuse_close_untouched(store);
}

static void push_of_a_half_gradient_on_a_float32_weight_is_an_error(void)
{
    uint16_t data[MISUSE_N] = {0};
    kvs_store_t *store = misuse_open();

    set_sgd(store);
    KT_FAIL(misuse_push(store, key(), kt_tensor(data, KVS_DTYPE_float16, misuse_shape, 2)),
            KVS_ERR_DTYPE, "float16");
    misuse_close_untouched(store);
}

static void pull_into_another_shape_is_an_error_giving_both(void)
{
    kvs_store_t *store = misuse_open();
    float data[8] = {-1, -1, -1, -1, -1, -1, -1, -1};

    KT_FAIL(misuse_pull(store, key(), f32(data, longer, 2)), KVS_ERR_SHAPE, "(2, 4)");
    KT_HAS(kvs_last_error(), "(2, 3)");
    KT_FAIL(misuse_pull(store, key(), f32(data, turned, 2)), KVS_ERR_SHAPE, "(3, 2)");
    KT_REAL(data[0], -1);
    misuse_close_untouched(store);
}

static void one_out_of_another_shape_leaves_the_others_unwritten(void)
{
    kvs_store_t *store = misuse_open();
    float a[8] = {-1}, b[8] = {-1};
    kvs_tensor_t list[2] = {f32(a, misuse_shape, 2), f32(b, turned, 2)};
    kvs_arrays_t outs = kvs_arrays(list, 2);
    kvs_key_t k = key();

    KT_FAIL(kvs_store_pull(store, &k, 1, &outs, NULL), KVS_ERR_SHAPE, "(3, 2)");
    KT_REAL(a[0], -1);
    misuse_close_untouched(store);
}

static void pull_into_another_floating_dtype_converts(void)
{
    kvs_store_t *store = misuse_open();
    double wide[MISUSE_N];
    uint16_t half[MISUSE_N], bfloat[MISUSE_N];

    KT_OK(misuse_pull(store, key(), kt_tensor(wide, KVS_DTYPE_float64, misuse_shape, 2)));
    KT_REAL(wide[5], 6);
    KT_OK(misuse_pull(store, key(), kt_tensor(half, KVS_DTYPE_float16, misuse_shape, 2)));
    KT_INT(half[0], 0x3C00); /* 1 */
    KT_INT(half[5], 0x4600); /* 6 */
    KT_OK(misuse_pull(store, key(), kt_tensor(bfloat, KVS_DTYPE_bfloat16, misuse_shape, 2)));
    KT_INT(bfloat[5], 0x40C0); /* 6 */
    misuse_close_untouched(store);
}

static void pull_into_an_integer_dtype_is_an_error(void)
{
    int64_t out[MISUSE_N] = {-1};
    kvs_store_t *store = misuse_open();

    for (int dtype = KVS_DTYPE_int8; dtype < KVS_N_DTYPES; dtype++) {
        KT_FAIL(misuse_pull(store, key(), kt_tensor(out, dtype, misuse_shape, 2)), KVS_ERR_DTYPE,
                kvs_dtype_name(kvs_dtype(dtype)));
        KT_HAS(kvs_last_error(), "float32");
    }
    KT_INT(out[0], -1);
    misuse_close_untouched(store);
}

static void an_integer_key_is_not_pulled_into_another_dtype(void)
{
    int32_t value[2] = {1, 2};
    float out[2] = {-1, -1};
    int64_t wide[2] = {-1, -1};
    const int64_t shape[1] = {2};
    kvs_store_t *store = misuse_open();

    KT_OK(misuse_init(store, kvs_key_int(5), kt_tensor(value, KVS_DTYPE_int32, shape, 1)));
    KT_FAIL(misuse_pull(store, kvs_key_int(5), KT_F32(out, 2)), KVS_ERR_DTYPE, "int32");
    KT_FAIL(misuse_pull(store, kvs_key_int(5), kt_tensor(wide, KVS_DTYPE_int64, shape, 1)),
            KVS_ERR_DTYPE, "int64");
    KT_REAL(out[0], -1);
    misuse_close_working(store, kvs_key_int(6));
}

static void a_push_may_bring_more_or_fewer_arrays_than_the_last(void)
{
    static const size_t counts[] = {1, 4, 2, 5, 1};
    float data[5][MISUSE_N];
    kvs_tensor_t list[5];
    kvs_store_t *store = misuse_open();
    kvs_key_t k = key();

    for (size_t i = 0; i < 5; i++) {
        for (size_t j = 0; j < MISUSE_N; j++) {
            data[i][j] = 1;
        }
        list[i] = f32(data[i], misuse_shape, 2);
        list[i].device.id = (int32_t)i;
    }
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        kvs_arrays_t values = kvs_arrays(list, counts[i]);
        float out[MISUSE_N];

        KT_OK(kvs_store_push(store, &k, 1, &values, NULL));
        KT_OK(misuse_pull(store, k, f32(out, misuse_shape, 2)));
        KT_REAL(out[0], (double)counts[i]);
    }
    misuse_close_working(store, kvs_key_int(6));
}

static void changing_an_array_after_push_does_not_change_the_store(void)
{
    kvs_store_t *store = misuse_open();
    float data[MISUSE_N] = {5, 5, 5, 5, 5, 5};
    float out[MISUSE_N];

    KT_OK(misuse_push(store, key(), f32(data, misuse_shape, 2)));
    memset(data, 0, sizeof(data));
    KT_OK(misuse_pull(store, key(), f32(out, misuse_shape, 2)));
    KT_REAL(out[0], 5);
    misuse_close_working(store, kvs_key_int(6));
}

static void changing_an_array_after_init_does_not_change_the_store(void)
{
    kvs_store_t *store = misuse_open();
    float data[2] = {5, 6};
    const float want[2] = {5, 6};

    KT_OK(misuse_init(store, kvs_key_int(5), KT_F32(data, 2)));
    memset(data, 0, sizeof(data));
    misuse_check(store, kvs_key_int(5), want, 2);
    misuse_close_working(store, kvs_key_int(6));
}

static void changing_a_pulled_array_does_not_change_the_store(void)
{
    kvs_store_t *store = misuse_open();
    float out[MISUSE_N];

    KT_OK(misuse_pull(store, key(), f32(out, misuse_shape, 2)));
    memset(out, 0, sizeof(out));
    misuse_close_untouched(store);
}

static void a_pushed_array_is_never_changed(void)
{
    kvs_store_t *store = misuse_open();
    float a[MISUSE_N] = {1, 1, 1, 1, 1, 1}, b[MISUSE_N] = {2, 2, 2, 2, 2, 2};

    KT_OK(push_two(store, f32(a, misuse_shape, 2), f32(b, misuse_shape, 2)));
    set_sgd(store);
    KT_OK(push_two(store, f32(a, misuse_shape, 2), f32(b, misuse_shape, 2)));
    for (int i = 0; i < MISUSE_N; i++) {
        KT_REAL(a[i], 1);
        KT_REAL(b[i], 2);
    }
    misuse_close_working(store, kvs_key_int(6));
}

static const kt_test_t tests[] = {
    KT_TEST(push_of_another_shape_is_an_error_giving_both),
    KT_TEST(a_refused_push_does_not_change_the_shape_to_pull),
    KT_TEST(push_of_another_shape_with_sgd_is_an_error_of_the_push),
    KT_TEST(arrays_of_different_shapes_in_one_push_are_an_error),
    KT_TEST(arrays_of_different_dtypes_in_one_push_are_an_error),
    KT_TEST(push_of_another_dtype_is_an_error_giving_both),
    KT_TEST(push_of_a_half_gradient_on_a_float32_weight_is_an_error),
    KT_TEST(pull_into_another_shape_is_an_error_giving_both),
    KT_TEST(one_out_of_another_shape_leaves_the_others_unwritten),
    KT_TEST(pull_into_another_floating_dtype_converts),
    KT_TEST(pull_into_an_integer_dtype_is_an_error),
    KT_TEST(an_integer_key_is_not_pulled_into_another_dtype),
    KT_TEST(a_push_may_bring_more_or_fewer_arrays_than_the_last),
    KT_TEST(changing_an_array_after_push_does_not_change_the_store),
    KT_TEST(changing_an_array_after_init_does_not_change_the_store),
    KT_TEST(changing_a_pulled_array_does_not_change_the_store),
    KT_TEST(a_pushed_array_is_never_changed),
};
KT_MAIN("misuse.values", tests)
