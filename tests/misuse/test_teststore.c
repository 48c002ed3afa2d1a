/* SPDX-License-Identifier: Apache-2.0 */
/* teststore keeps no weights: what it does not offer says so, and exchanges are checked as strictly
 * as a store's. */
#include "misuse.h"

#include <stdlib.h>

static float data[3][8];

static kvs_tensor_t array(int i, int64_t n)
{
    static int64_t shapes[3][1];

    shapes[i][0] = n;
    return kt_tensor(data[i], KVS_DTYPE_float32, shapes[i], 1);
}

/* data[i] is all i + 1; an exchange of the three over key 1 gives 6. */
static kvs_store_t *open_filled(void)
{
    for (int i = 0; i < 3; i++) {
        for (int j = 0; j < 8; j++) {
            data[i][j] = (float)(i + 1);
        }
    }
    return misuse_create("teststore");
}

static kvs_status_t exchange(kvs_store_t *store, kvs_key_t key, kvs_tensor_t *list, size_t n)
{
    kvs_arrays_t values = kvs_arrays(list, n);

    return kvs_store_pushpull(store, &key, 1, &values, NULL, NULL);
}

static void close_working(kvs_store_t *store, kvs_key_t key)
{
    kvs_tensor_t list[2] = {array(0, 2), array(1, 2)};

    data[0][0] = 1;
    data[1][0] = 2;
    KT_OK(exchange(store, key, list, 2));
    KT_REAL(data[0][0], 3);
    KT_REAL(data[1][0], 3);
    KT_OK(kvs_store_close(store));
}

static void what_it_does_not_offer_says_so_by_name(void)
{
    kvs_store_t *store = open_filled();
    kvs_key_t key = kvs_key_int(1);
    kvs_tensor_t a = array(0, 8);
    int64_t ids[1] = {0};
    const int64_t ids_shape[1] = {1};
    kvs_tensor_t id_array = kt_tensor(ids, KVS_DTYPE_int64, ids_shape, 1);
    kvs_arrays_t arrays = kvs_arrays(&a, 1);
    kvs_arrays_t row_ids = kvs_arrays(&id_array, 1);
    kvs_rows_t rows = {.ids = ids, .capacity = 1};
    const int64_t sparse_shape[2] = {1, 8};
    kvs_tensor_t sparse = kt_tensor(data[0], KVS_DTYPE_float32, sparse_shape, 2);
    kvs_arrays_t sparse_outs = kvs_arrays(&sparse, 1);

    sparse.rows = &rows;
    KT_FAIL(misuse_init(store, key, a), KVS_ERR_NOT_IMPLEMENTED,
            "not implemented: init by teststore");
    KT_FAIL(misuse_push(store, key, a), KVS_ERR_NOT_IMPLEMENTED,
            "not implemented: push by teststore");
    KT_FAIL(misuse_pull(store, key, a), KVS_ERR_NOT_IMPLEMENTED,
            "not implemented: pull by teststore");
    KT_FAIL(kvs_store_row_sparse_pull(store, &key, 1, &sparse_outs, &row_ids, NULL),
            KVS_ERR_NOT_IMPLEMENTED, "not implemented: row_sparse_pull by teststore");
    KT_OK(kvs_store_pushpull(store, &key, 1, &arrays, NULL, NULL));
    close_working(store, kvs_key_int(2));
}

static kvs_status_t never(const kvs_key_t *key, const kvs_tensor_t *value,
                          const kvs_tensor_t *stored, void *arg)
{
    (void)key;
    (void)value;
    (void)stored;
    (void)arg;
    return KVS_ERR_INTERNAL;
}

static void it_takes_no_optimizer_no_updater_and_no_compression(void)
{
    kvs_store_t *store = open_filled();
    kvs_optimizer_spec_t spec = KVS_OPTIMIZER_INIT;
    kvs_param_t param = {.name = "type", .type = KVS_PARAM_TEXT, .value.text = "2bit"};

    spec.name = "sgd";
    KT_FAIL(kvs_store_set_optimizer(store, &spec), KVS_ERR_NOT_IMPLEMENTED,
            "not implemented: set_optimizer by teststore");
    KT_FAIL(kvs_store_set_updater(store, never, NULL), KVS_ERR_NOT_IMPLEMENTED,
            "not implemented: set_updater by teststore");
    KT_FAIL(kvs_store_set_optimizer_attr(store, &param), KVS_ERR_NOT_IMPLEMENTED,
            "not implemented: set_optimizer_attr by teststore");
    KT_FAIL(kvs_store_set_gradient_compression(store, &param, 1), KVS_ERR_NOT_IMPLEMENTED,
            "not implemented: set_gradient_compression by teststore");
    KT_FAIL(kvs_store_save_optimizer_states(store, "states", 0), KVS_ERR_NOT_IMPLEMENTED,
            "not implemented: save_optimizer_states by teststore");
    KT_FAIL(kvs_store_load_optimizer_states(store, "states"), KVS_ERR_NOT_IMPLEMENTED,
            "not implemented: load_optimizer_states by teststore");
    KT_FAIL(kvs_store_run_server(store), KVS_ERR_NOT_IMPLEMENTED,
            "not implemented: run_server by teststore");
    close_working(store, kvs_key_int(2));
}

static void it_is_capable_of_nothing(void)
{
    static const char *const names[] = {"optimizer", "sparse", "gradient_compression", "async"};
    kvs_store_t *store = open_filled();
    int capable = 7;

    for (size_t i = 0; i < 4; i++) {
        KT_OK(kvs_store_is_capable(store, names[i], &capable));
        KT_INT(capable, 0);
    }
    KT_FAIL(kvs_store_is_capable(store, "flight", &capable), KVS_ERR_ARGUMENT, "flight");
    close_working(store, kvs_key_int(2));
}

static void pushpull_of_one_array_without_outs_gives_it_back(void)
{
    kvs_store_t *store = open_filled();
    kvs_tensor_t a = array(2, 4);

    KT_OK(exchange(store, kvs_key_str("x"), &a, 1));
    KT_REAL(data[2][3], 3);
    close_working(store, kvs_key_str("y"));
}

static void arrays_of_different_shapes_are_an_error_giving_both(void)
{
    kvs_store_t *store = open_filled();
    kvs_tensor_t list[3] = {array(0, 4), array(1, 4), array(2, 5)};

    KT_FAIL(exchange(store, kvs_key_int(1), list, 3), KVS_ERR_SHAPE, "(5,)");
    KT_HAS(kvs_last_error(), "(4,)");
    KT_REAL(data[0][0], 1);
    close_working(store, kvs_key_int(1));
}

static void arrays_of_different_dtypes_are_an_error_giving_both(void)
{
    kvs_store_t *store = open_filled();
    kvs_tensor_t list[2] = {array(0, 4), array(1, 4)};

    list[1].dtype = kvs_dtype(KVS_DTYPE_int32);
    KT_FAIL(exchange(store, kvs_key_int(1), list, 2), KVS_ERR_DTYPE, "int32");
    KT_HAS(kvs_last_error(), "float32");
    KT_REAL(data[0][0], 1);
    close_working(store, kvs_key_int(1));
}

static void outs_that_do_not_fit_are_an_error(void)
{
    kvs_store_t *store = open_filled();
    kvs_key_t key = kvs_key_int(1);
    kvs_tensor_t value = array(0, 4), longer = array(1, 5);
    kvs_tensor_t integers = array(2, 4);
    kvs_arrays_t values = kvs_arrays(&value, 1);
    kvs_arrays_t outs = kvs_arrays(&longer, 1);

    KT_FAIL(kvs_store_pushpull(store, &key, 1, &values, &outs, NULL), KVS_ERR_SHAPE, "(5,)");
    integers.dtype = kvs_dtype(KVS_DTYPE_int32);
    outs.tensors = &integers;
    KT_FAIL(kvs_store_pushpull(store, &key, 1, &values, &outs, NULL), KVS_ERR_DTYPE, "int32");
    KT_REAL(data[1][0], 2);
    close_working(store, kvs_key_int(1));
}

static void an_exchange_of_nothing_is_an_error(void)
{
    kvs_store_t *store = open_filled();

    KT_FAIL(exchange(store, kvs_key_int(1), NULL, 0), KVS_ERR_ARGUMENT, "1");
    close_working(store, kvs_key_int(1));
}

static void a_key_need_not_keep_its_shape(void)
{
    kvs_store_t *store = open_filled();
    kvs_tensor_t a = array(0, 4), b = array(1, 7);

    KT_OK(exchange(store, kvs_key_int(1), &a, 1));
    KT_OK(exchange(store, kvs_key_int(1), &b, 1));
    close_working(store, kvs_key_int(1));
}

/* "A store takes its key type from the first init or exchange that succeeds." */
static void the_first_exchange_decides_the_key_type(void)
{
    kvs_store_t *store = open_filled();
    kvs_tensor_t list[2] = {array(0, 4), array(1, 5)};

    KT_FAIL(exchange(store, kvs_key_int(1), list, 2), KVS_ERR_SHAPE, "(5,)");
    KT_OK(exchange(store, kvs_key_str("1"), list, 1));
    KT_FAIL(exchange(store, kvs_key_int(1), list, 1), KVS_ERR_KEY_TYPE,
            "mixed key types are not allowed");
    close_working(store, kvs_key_str("2"));
}

static void a_broadcast_may_be_repeated(void)
{
    kvs_store_t *store = open_filled();
    kvs_key_t key = kvs_key_int(1);
    kvs_tensor_t value = array(0, 4), out = array(1, 4);
    kvs_arrays_t values = kvs_arrays(&value, 1), outs = kvs_arrays(&out, 1);

    KT_OK(kvs_store_broadcast(store, &key, 1, &values, &outs, NULL));
    KT_REAL(data[1][3], 1);
    data[0][3] = 9;
    KT_OK(kvs_store_broadcast(store, &key, 1, &values, &outs, NULL));
    KT_REAL(data[1][3], 9);
    close_working(store, kvs_key_int(1));
}

static const kt_test_t tests[] = {
    KT_TEST(what_it_does_not_offer_says_so_by_name),
    KT_TEST(it_takes_no_optimizer_no_updater_and_no_compression),
    KT_TEST(it_is_capable_of_nothing),
    KT_TEST(pushpull_of_one_array_without_outs_gives_it_back),
    KT_TEST(arrays_of_different_shapes_are_an_error_giving_both),
    KT_TEST(arrays_of_different_dtypes_are_an_error_giving_both),
    KT_TEST(outs_that_do_not_fit_are_an_error),
    KT_TEST(an_exchange_of_nothing_is_an_error),
    KT_TEST(a_key_need_not_keep_its_shape),
    KT_TEST(the_first_exchange_decides_the_key_type),
    KT_TEST(a_broadcast_may_be_repeated),
};
KT_MAIN("misuse.teststore", tests)
