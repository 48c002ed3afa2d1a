/* SPDX-License-Identifier: Apache-2.0 */
/* What `local` does not offer says so by name and does nothing: compression, and today row-sparse
 * values and optimizer states. */
#include "misuse.h"

#include <stdlib.h>

static kvs_param_t text(const char *name, const char *value)
{
    kvs_param_t param = {.name = name, .type = KVS_PARAM_TEXT};

    param.value.text = value;
    return param;
}

static void compression_on_local_is_not_implemented(void)
{
    kvs_store_t *store = misuse_open();
    kvs_param_t two_bit = text("type", "2bit");

    KT_FAIL(kvs_store_set_gradient_compression(store, &two_bit, 1), KVS_ERR_NOT_IMPLEMENTED,
            "not implemented: set_gradient_compression by local");
    misuse_close_untouched(store);
}

static void wrong_compression_on_local_is_an_error_of_either_kind(void)
{
    kvs_store_t *store = misuse_open();
    kvs_param_t none = text("type", "none");
    kvs_param_t odd[2] = {text("type", "2bit"), text("treshold", "0.5")};

    KT_TRUE(kvs_store_set_gradient_compression(store, &none, 1) != KVS_OK);
    KT_TRUE(kvs_store_set_gradient_compression(store, odd, 2) != KVS_OK);
    KT_TRUE(kvs_store_set_gradient_compression(store, NULL, 0) != KVS_OK);
    KT_FAIL(kvs_store_set_gradient_compression(store, NULL, 1), KVS_ERR_ARGUMENT, "NULL");
    KT_FAIL(kvs_store_set_gradient_compression(NULL, &none, 1), KVS_ERR_ARGUMENT, "NULL");
    misuse_close_untouched(store);
}

static void states_without_an_optimizer_are_an_error(void)
{
    kvs_store_t *store = misuse_open();
    char path[600];

    snprintf(path, sizeof(path), "%s/states", kt_temp_dir());
    KT_TRUE(kvs_store_save_optimizer_states(store, path, 1) != KVS_OK);
    KT_HAS(kvs_last_error(), "optimizer");
    KT_TRUE(kvs_store_load_optimizer_states(store, path) != KVS_OK);
    KT_HAS(kvs_last_error(), "optimizer");
    KT_FAIL(kvs_store_save_optimizer_states(store, NULL, 0), KVS_ERR_ARGUMENT, "NULL");
    KT_FAIL(kvs_store_load_optimizer_states(store, NULL), KVS_ERR_ARGUMENT, "NULL");
    KT_FAIL(kvs_store_save_optimizer_states(NULL, path, 0), KVS_ERR_ARGUMENT, "NULL");
    KT_FAIL(kvs_store_load_optimizer_states(NULL, path), KVS_ERR_ARGUMENT, "NULL");
    misuse_close_untouched(store);
}

/* A row-sparse array of 4 rows of 2 with the rows 1 and 3. */
typedef struct sparse {
    float rows_data[4];
    int64_t ids[2];
    kvs_rows_t rows;
    kvs_tensor_t tensor;
} sparse_t;

static const int64_t sparse_shape[2] = {4, 2};

static void setup(sparse_t *s)
{
    *s = (sparse_t){.rows_data = {1, 2, 3, 4}, .ids = {1, 3}};
    s->rows = (kvs_rows_t){.ids = s->ids, .n_rows = 2, .capacity = 2};
    s->tensor = kt_tensor(s->rows_data, KVS_DTYPE_float32, sparse_shape, 2);
    s->tensor.rows = &s->rows;
}

static void row_sparse_values_are_not_implemented_yet(void)
{
    kvs_store_t *store = misuse_open();
    kvs_key_t key = kvs_key_int(MISUSE_KEY);
    int64_t ids[1] = {0};
    const int64_t ids_shape[1] = {1};
    kvs_tensor_t id_array = kt_tensor(ids, KVS_DTYPE_int64, ids_shape, 1);
    kvs_arrays_t row_ids = kvs_arrays(&id_array, 1);
    kvs_arrays_t outs;
    sparse_t s;

    setup(&s);
    outs = kvs_arrays(&s.tensor, 1);
    KT_FAIL(misuse_init(store, kvs_key_int(8), s.tensor), KVS_ERR_NOT_IMPLEMENTED, "local");
    KT_FAIL(kvs_store_row_sparse_pull(store, &key, 1, &outs, &row_ids, NULL),
            KVS_ERR_NOT_IMPLEMENTED, "not implemented: row_sparse_pull by local");
    misuse_close_untouched(store);
}

static void a_row_sparse_push_to_a_dense_key_is_not_implemented_yet(void)
{
    kvs_store_t *store = misuse_open();
    float dense[8] = {0};
    const float zeros[8] = {0};
    float out[8];
    sparse_t s;

    setup(&s);
    KT_OK(misuse_init(store, kvs_key_int(8), kt_tensor(dense, KVS_DTYPE_float32, sparse_shape, 2)));
    KT_FAIL(misuse_push(store, kvs_key_int(8), s.tensor), KVS_ERR_NOT_IMPLEMENTED, "local");
    KT_OK(misuse_pull(store, kvs_key_int(8), kt_tensor(out, KVS_DTYPE_float32, sparse_shape, 2)));
    KT_TRUE(memcmp(out, zeros, sizeof(out)) == 0);
    misuse_close_working(store, kvs_key_int(9));
}

static void pull_into_a_row_sparse_out_names_row_sparse_pull(void)
{
    kvs_store_t *store = misuse_open();
    float dense[8] = {0};
    kvs_key_t key = kvs_key_int(8);
    kvs_call_t keep = KVS_CALL_INIT;
    kvs_arrays_t outs;
    sparse_t s;

    setup(&s);
    outs = kvs_arrays(&s.tensor, 1);
    keep.flags = KVS_CALL_KEEP_SPARSE;
    KT_OK(misuse_init(store, key, kt_tensor(dense, KVS_DTYPE_float32, sparse_shape, 2)));
    KT_FAIL(misuse_pull(store, key, s.tensor), KVS_ERR_STORAGE, "row_sparse_pull");
    KT_FAIL(kvs_store_pull(store, &key, 1, &outs, &keep), KVS_ERR_STORAGE, "8");
    KT_REAL(s.rows_data[0], 1);
    misuse_close_working(store, kvs_key_int(9));
}

static void row_lists_that_cannot_be_read_are_an_error(void)
{
    kvs_store_t *store = misuse_open();
    sparse_t s;

    setup(&s);
    s.rows.ids = NULL;
    KT_TRUE(misuse_init(store, kvs_key_int(8), s.tensor) != KVS_OK);
    setup(&s);
    s.rows.n_rows = -1;
    KT_TRUE(misuse_init(store, kvs_key_int(8), s.tensor) != KVS_OK);
    setup(&s);
    s.rows.n_rows = s.rows.capacity = INT64_MAX;
    KT_TRUE(misuse_init(store, kvs_key_int(8), s.tensor) != KVS_OK);
    setup(&s);
    s.tensor.ndim = 0;
    KT_TRUE(misuse_init(store, kvs_key_int(8), s.tensor) != KVS_OK);
    misuse_close_untouched(store);
}

static const kt_test_t tests[] = {
    KT_TEST(compression_on_local_is_not_implemented),
    KT_TEST(wrong_compression_on_local_is_an_error_of_either_kind),
    KT_TEST(states_without_an_optimizer_are_an_error),
    KT_TEST(row_sparse_values_are_not_implemented_yet),
    KT_TEST(a_row_sparse_push_to_a_dense_key_is_not_implemented_yet),
    KT_TEST(pull_into_a_row_sparse_out_names_row_sparse_pull),
    KT_TEST(row_lists_that_cannot_be_read_are_an_error),
};
KT_MAIN("misuse.offers", tests)
