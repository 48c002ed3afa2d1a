/* SPDX-License-Identifier: Apache-2.0 */
/* Wrong and odd use of row-sparse arrays on `local`. Where an error is wanted the table of weights is as it
 * was before, and the store works on. */
#include "misuse.h"

#include <math.h>
#include <stdlib.h>

/* The store's key 8 is row-sparse: 4 rows of 2, of which it has 1 and 3; key 9 is dense. */
enum { N_ROWS = 4, WIDTH = 2, N = N_ROWS * WIDTH };
static const int64_t shape[2] = {N_ROWS, WIDTH};
static const float initial[N] = {0, 0, 1, 2, 0, 0, 3, 4};
static const float initial_dense[N] = {1, 1, 1, 1, 1, 1, 1, 1};

/* A row-sparse array with room for 6 rows. */
typedef struct sparse {
    float data[6 * WIDTH];
    int64_t ids[6];
    kvs_rows_t rows;
    kvs_tensor_t tensor;
} sparse_t;

static void set_rows(sparse_t *s, int64_t n, const int64_t *ids, const float *data)
{
    *s = (sparse_t){0};
    for (int64_t i = 0; i < n; i++) {
        s->ids[i] = ids[i];
        memcpy(&s->data[i * WIDTH], &data[i * WIDTH], WIDTH * sizeof(float));
    }
    s->rows = (kvs_rows_t){.ids = s->ids, .n_rows = n, .capacity = 6};
    s->tensor = kt_tensor(s->data, KVS_DTYPE_float32, shape, 2);
    s->tensor.rows = &s->rows;
}

#define IDS(...)  ((const int64_t[]){__VA_ARGS__})
#define ROWS(...) ((const float[]){__VA_ARGS__})

static sparse_t *out_of(int64_t capacity)
{
    static sparse_t out;

    set_rows(&out, 0, NULL, NULL);
    memset(out.data, 0x55, sizeof(out.data));
    out.rows.n_rows = -7;
    out.rows.capacity = capacity;
    return &out;
}

static kvs_tensor_t dense(float *data)
{
    return kt_tensor(data, KVS_DTYPE_float32, shape, 2);
}

static kvs_store_t *open_with_keys(void)
{
    kvs_store_t *store = misuse_open();
    float ones[N] = {1, 1, 1, 1, 1, 1, 1, 1};
    sparse_t s;

    set_rows(&s, 2, IDS(3, 1), ROWS(3, 4, 1, 2));
    KT_OK(misuse_init(store, kvs_key_int(8), s.tensor));
    KT_OK(misuse_init(store, kvs_key_int(9), dense(ones)));
    return store;
}

static void check_key(kvs_store_t *store, int64_t number, const float *want)
{
    float got[N];

    if (KT_OK(misuse_pull(store, kvs_key_int(number), dense(got)))) {
        for (int i = 0; i < N; i++) {
            KT_REAL(got[i], want[i]);
        }
    }
}

static void close_untouched(kvs_store_t *store)
{
    kvs_stats_t stats = {.size = sizeof(stats)};

    KT_OK(kvs_store_stats(store, &stats));
    KT_INT(stats.n_inits, 3);
    KT_INT(stats.n_pushes + stats.n_pushpulls + stats.n_pulls, 0);
    check_key(store, 8, initial);
    check_key(store, 9, initial_dense);
    misuse_close_working(store, kvs_key_int(100));
}

/* A pull of rows: `n_ids` ids of int64. */
static kvs_status_t pull_rows(kvs_store_t *store, int64_t number, kvs_tensor_t out,
                              const int64_t *ids, int64_t n_ids)
{
    kvs_key_t key = kvs_key_int(number);
    kvs_tensor_t row_ids = kt_tensor((int64_t *)(uintptr_t)ids, KVS_DTYPE_int64, &n_ids, 1);
    kvs_arrays_t outs = kvs_arrays(&out, 1), list = kvs_arrays(&row_ids, 1);

    return kvs_store_row_sparse_pull(store, &key, 1, &outs, &list, NULL);
}

static kvs_status_t push_list(kvs_store_t *store, int64_t number, const kvs_tensor_t *values,
                              size_t n)
{
    kvs_key_t key = kvs_key_int(number);
    kvs_arrays_t list = kvs_arrays(values, n);

    return kvs_store_push(store, &key, 1, &list, NULL);
}

static kvs_status_t pull_keeping(kvs_store_t *store, int64_t number, kvs_tensor_t out)
{
    kvs_key_t key = kvs_key_int(number);
    kvs_arrays_t outs = kvs_arrays(&out, 1);
    kvs_call_t call = KVS_CALL_INIT;

    call.flags = KVS_CALL_KEEP_SPARSE;
    return kvs_store_pull(store, &key, 1, &outs, &call);
}

/* ---- row_sparse_pull ---------------------------------------------------------------------------- */

static void ids_outside_the_shape_are_a_range_error(void)
{
    static const int64_t bad[] = {4, -1, INT64_MAX, INT64_MIN, (int64_t)1 << 32};
    kvs_store_t *store = open_with_keys();
    sparse_t *out = out_of(6);

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        char text[64];

        snprintf(text, sizeof(text), "key 8: row id array 0: row id %lld", (long long)bad[i]);
        KT_FAIL(pull_rows(store, 8, out->tensor, IDS(1, bad[i]), 2), KVS_ERR_RANGE, text);
        KT_HAS(kvs_last_error(), "the key has 4 rows");
    }
    KT_INT(out->rows.n_rows, -7);
    close_untouched(store);
}

static void floating_ids_are_a_dtype_error_even_if_whole(void)
{
    kvs_store_t *store = open_with_keys();
    kvs_key_t key = kvs_key_int(8);
    float reals[] = {1, 2};
    kvs_tensor_t row_ids = KT_F32(reals, 2);
    kvs_arrays_t outs = kvs_arrays(&out_of(6)->tensor, 1), list = kvs_arrays(&row_ids, 1);

    KT_FAIL(kvs_store_row_sparse_pull(store, &key, 1, &outs, &list, NULL), KVS_ERR_DTYPE,
            "row id array 0 is float32; integer dtypes are accepted");
    close_untouched(store);
}

static void no_ids_give_an_empty_result(void)
{
    kvs_store_t *store = open_with_keys();
    sparse_t *out = out_of(0);

    out->tensor.data = NULL;
    out->rows.ids = NULL;
    KT_OK(pull_rows(store, 8, out->tensor, NULL, 0));
    KT_INT(out->rows.n_rows, 0);
    misuse_close_working(store, kvs_key_int(100));
}

static void dense_keys_and_dense_outs_are_a_storage_error(void)
{
    kvs_store_t *store = open_with_keys();
    float data[N];

    KT_FAIL(pull_rows(store, 9, out_of(6)->tensor, IDS(1), 1), KVS_ERR_STORAGE,
            "row_sparse_pull: key 9 is dense; use pull");
    KT_FAIL(pull_rows(store, 8, dense(data), IDS(1), 1), KVS_ERR_STORAGE,
            "row_sparse_pull: key 8: out 0 is dense");
    close_untouched(store);
}

static void a_key_never_initialised_is_named(void)
{
    kvs_store_t *store = open_with_keys();

    KT_FAIL(pull_rows(store, 77, out_of(6)->tensor, IDS(1), 1), KVS_ERR_NOT_FOUND,
            "row_sparse_pull: key 77 was never initialised");
    close_untouched(store);
}

static void missing_or_surplus_row_ids_are_an_error(void)
{
    kvs_store_t *store = open_with_keys();
    kvs_key_t key = kvs_key_int(8);
    int64_t ids[] = {1};
    const int64_t one[] = {1};
    kvs_tensor_t row_ids = kt_tensor(ids, KVS_DTYPE_int64, one, 1);
    kvs_tensor_t three[] = {row_ids, row_ids, row_ids}, out = out_of(6)->tensor;
    kvs_tensor_t two_outs[] = {out, out};
    kvs_arrays_t outs = kvs_arrays(&out, 1), list = kvs_arrays(three, 3),
                 two = kvs_arrays(two_outs, 2), none = kvs_arrays(NULL, 0);

    KT_FAIL(kvs_store_row_sparse_pull(store, &key, 1, &outs, NULL, NULL), KVS_ERR_ARGUMENT,
            "row_sparse_pull: the list of row ids is NULL");
    KT_FAIL(kvs_store_row_sparse_pull(store, &key, 1, NULL, &list, NULL), KVS_ERR_ARGUMENT,
            "row_sparse_pull: the list of outs is NULL");
    KT_FAIL(kvs_store_row_sparse_pull(store, &key, 1, &outs, &none, NULL), KVS_ERR_ARGUMENT,
            "key 8 has no row id arrays");
    KT_FAIL(kvs_store_row_sparse_pull(store, &key, 1, &two, &list, NULL), KVS_ERR_ARGUMENT,
            "key 8 has 2 outs and 3 row id arrays");
    KT_FAIL(kvs_store_row_sparse_pull(NULL, &key, 1, &outs, &list, NULL), KVS_ERR_ARGUMENT, "NULL");
    close_untouched(store);
}

static void outs_of_another_shape_or_dtype_are_refused(void)
{
    static const int64_t other[2] = {N_ROWS, WIDTH + 1}, flat[1] = {N_ROWS};
    kvs_store_t *store = open_with_keys();
    sparse_t *out = out_of(4);

    out->tensor.shape = other;
    KT_FAIL(pull_rows(store, 8, out->tensor, IDS(1), 1), KVS_ERR_SHAPE, "(4, 3)");
    out->tensor.shape = flat;
    out->tensor.ndim = 1;
    KT_FAIL(pull_rows(store, 8, out->tensor, IDS(1), 1), KVS_ERR_SHAPE, "(4,)");
    out = out_of(6);
    out->tensor.dtype = kvs_dtype(KVS_DTYPE_int32);
    KT_FAIL(pull_rows(store, 8, out->tensor, IDS(1), 1), KVS_ERR_DTYPE, "int32");
    close_untouched(store);
}

static void too_little_room_names_both_numbers(void)
{
    kvs_store_t *store = open_with_keys();
    sparse_t *out = out_of(2);

    KT_FAIL(pull_rows(store, 8, out->tensor, IDS(0, 1, 2, 1), 4), KVS_ERR_ARGUMENT,
            "key 8: out 0 has room for 2 rows, but gets 3");
    KT_INT(out->rows.n_rows, -7);
    out->rows.capacity = -1;
    KT_FAIL(pull_rows(store, 8, out->tensor, IDS(0), 1), KVS_ERR_ARGUMENT, "negative");
    out->rows.capacity = INT64_MAX;
    KT_FAIL(pull_rows(store, 8, out->tensor, IDS(0), 1), KVS_ERR_ARGUMENT, "memory");
    close_untouched(store);
}

/* A bad list in the second key: the first key's out is not written. */
static void a_list_of_keys_with_one_error_does_nothing(void)
{
    kvs_store_t *store = open_with_keys();
    kvs_key_t keys[] = {kvs_key_int(8), kvs_key_int(9)};
    int64_t ids[] = {1};
    const int64_t one[] = {1};
    kvs_tensor_t row_ids[] = {kt_tensor(ids, KVS_DTYPE_int64, one, 1),
                              kt_tensor(ids, KVS_DTYPE_int64, one, 1)};
    sparse_t other;
    sparse_t *out = out_of(6);

    set_rows(&other, 0, NULL, NULL);
    kvs_tensor_t outs[] = {out->tensor, other.tensor};
    kvs_arrays_t out_list = {outs, 2, NULL, 0}, id_list = {row_ids, 2, NULL, 0};

    KT_FAIL(kvs_store_row_sparse_pull(store, keys, 2, &out_list, &id_list, NULL), KVS_ERR_STORAGE,
            "key 9 is dense");
    KT_INT(out->rows.n_rows, -7);
    close_untouched(store);
}

/* ---- pull ---------------------------------------------------------------------------------------- */

static void a_pull_into_a_row_sparse_out_names_row_sparse_pull(void)
{
    kvs_store_t *store = open_with_keys();
    sparse_t *out = out_of(6);

    KT_FAIL(misuse_pull(store, kvs_key_int(8), out->tensor), KVS_ERR_STORAGE,
            "key 8: out 0 is row-sparse; use row_sparse_pull");
    KT_FAIL(misuse_pull(store, kvs_key_int(9), out->tensor), KVS_ERR_STORAGE, "row_sparse_pull");
    KT_FAIL(pull_keeping(store, 9, out->tensor), KVS_ERR_STORAGE, "key 9");
    KT_INT(out->rows.n_rows, -7);
    close_untouched(store);
}

static void keep_sparse_gives_the_rows_of_a_row_sparse_key(void)
{
    kvs_store_t *store = open_with_keys();
    sparse_t *out = out_of(2);

    KT_OK(pull_keeping(store, 8, out->tensor));
    KT_INT(out->rows.n_rows, 2);
    KT_INT(out->ids[0], 1);
    KT_INT(out->ids[1], 3);
    KT_REAL(out->data[0], 1);
    KT_REAL(out->data[3], 4);
    out->rows.capacity = 1;
    KT_FAIL(pull_keeping(store, 8, out->tensor), KVS_ERR_ARGUMENT,
            "key 8: out 0 has room for 1 rows, but gets 2");
    misuse_close_working(store, kvs_key_int(100));
}

/* ---- init and push -------------------------------------------------------------------------------- */

static void a_pushed_id_outside_the_shape_is_a_range_error(void)
{
    kvs_store_t *store = open_with_keys();
    sparse_t s;

    set_rows(&s, 2, IDS(1, 4), ROWS(1, 2, 3, 4));
    KT_FAIL(misuse_push(store, kvs_key_int(8), s.tensor), KVS_ERR_RANGE,
            "push: key 8: value 0: row id 4, at place 1, is outside [0, 4)");
    KT_FAIL(misuse_push(store, kvs_key_int(9), s.tensor), KVS_ERR_RANGE, "key 9");
    set_rows(&s, 1, IDS(-1), ROWS(1, 2));
    KT_FAIL(misuse_push(store, kvs_key_int(8), s.tensor), KVS_ERR_RANGE, "row id -1");
    KT_FAIL(misuse_init(store, kvs_key_int(50), s.tensor), KVS_ERR_RANGE, "init: key 50");
    KT_FAIL(misuse_pull(store, kvs_key_int(50), s.tensor), KVS_ERR_NOT_FOUND, "50");
    close_untouched(store);
}

static void dense_and_row_sparse_do_not_mix(void)
{
    kvs_store_t *store = open_with_keys();
    float data[N] = {0};
    sparse_t s;

    set_rows(&s, 1, IDS(1), ROWS(1, 2));
    KT_FAIL(misuse_push(store, kvs_key_int(8), dense(data)), KVS_ERR_STORAGE,
            "push: key 8 is row-sparse, but value 0 is dense");
    kvs_tensor_t mixed[] = {s.tensor, dense(data)}, other[] = {dense(data), s.tensor};
    KT_FAIL(push_list(store, 8, mixed, 2), KVS_ERR_STORAGE,
            "key 8: value 0 is row-sparse, but value 1 is dense");
    KT_FAIL(push_list(store, 9, other, 2), KVS_ERR_STORAGE,
            "key 9: value 0 is dense, but value 1 is row-sparse");
    close_untouched(store);
}

static void row_lists_that_cannot_be_read_are_an_error(void)
{
    kvs_store_t *store = open_with_keys();
    kvs_key_t key = kvs_key_int(50);
    sparse_t s;

    set_rows(&s, 2, IDS(1, 2), ROWS(1, 2, 3, 4));
    s.rows.ids = NULL;
    KT_FAIL(misuse_init(store, key, s.tensor), KVS_ERR_ARGUMENT, "value 0");
    set_rows(&s, 2, IDS(1, 2), ROWS(1, 2, 3, 4));
    s.rows.n_rows = -1;
    KT_FAIL(misuse_init(store, key, s.tensor), KVS_ERR_ARGUMENT, "value 0");
    s.rows.n_rows = INT64_MAX;
    KT_FAIL(misuse_init(store, key, s.tensor), KVS_ERR_ARGUMENT, "value 0");
    set_rows(&s, 2, IDS(1, 2), ROWS(1, 2, 3, 4));
    s.tensor.data = NULL;
    KT_FAIL(misuse_init(store, key, s.tensor), KVS_ERR_ARGUMENT, "NULL data");
    set_rows(&s, 1, IDS(1), ROWS(1, 2));
    s.tensor.ndim = 0;
    KT_FAIL(misuse_init(store, key, s.tensor), KVS_ERR_SHAPE, "no dimension of rows");
    close_untouched(store);
}

static void rows_without_columns_and_tables_without_rows_work(void)
{
    static const int64_t no_columns[2] = {3, 0}, no_rows[2] = {0, 3}, columns[1] = {3};
    kvs_store_t *store = open_with_keys();
    float data[3] = {7, 8, 9}, got[3];
    sparse_t s;

    set_rows(&s, 2, IDS(2, 0), ROWS(0, 0, 0, 0));
    s.tensor = kt_tensor(NULL, KVS_DTYPE_float32, no_columns, 2);
    s.tensor.rows = &s.rows;
    KT_OK(misuse_init(store, kvs_key_int(50), s.tensor));
    KT_OK(misuse_push(store, kvs_key_int(50), s.tensor));
    s.rows.n_rows = 0;
    s.tensor.shape = no_rows;
    KT_OK(misuse_init(store, kvs_key_int(51), s.tensor));
    KT_OK(misuse_push(store, kvs_key_int(51), s.tensor));
    set_rows(&s, 2, IDS(2, 0), ROWS(0, 0, 0, 0)); /* rows of one element */
    s.tensor = kt_tensor(data, KVS_DTYPE_float32, columns, 1);
    s.tensor.rows = &s.rows;
    KT_OK(misuse_init(store, kvs_key_int(52), s.tensor));
    KT_OK(misuse_pull(store, kvs_key_int(52), KT_F32(got, 3)));
    KT_REAL(got[0], 8);
    KT_REAL(got[1], 0);
    KT_REAL(got[2], 7);
    misuse_close_working(store, kvs_key_int(100));
}

static void unsorted_and_repeated_rows_add_and_are_not_changed(void)
{
    kvs_store_t *store = open_with_keys();
    sparse_t s, copy;

    set_rows(&s, 4, IDS(3, 0, 3, 1), ROWS(1, 2, 10, 20, 100, 200, 5, 6));
    copy = s;
    KT_OK(misuse_push(store, kvs_key_int(8), s.tensor));
    check_key(store, 8, ROWS(10, 20, 5, 6, 0, 0, 101, 202));
    KT_TRUE(memcmp(s.data, copy.data, sizeof(s.data)) == 0);
    KT_TRUE(memcmp(s.ids, copy.ids, sizeof(s.ids)) == 0);
    KT_OK(misuse_push(store, kvs_key_int(9), s.tensor)); /* a dense key takes them too */
    check_key(store, 9, ROWS(10, 20, 5, 6, 0, 0, 101, 202));
    s.rows.n_rows = 0;
    KT_OK(misuse_push(store, kvs_key_int(8), s.tensor));
    check_key(store, 8, (const float[N]){0});
    misuse_close_working(store, kvs_key_int(100));
}

/* ---- Events, lists and memory ---------------------------------------------------------------------- */

static void the_same_array_may_be_out_twice_and_row_ids_too(void)
{
    kvs_store_t *store = open_with_keys();
    kvs_key_t key = kvs_key_int(8);
    int64_t ids[6] = {3, 1, 3};
    const int64_t three[] = {3};
    sparse_t *out = out_of(6);
    kvs_tensor_t row_ids = kt_tensor(ids, KVS_DTYPE_int64, three, 1);

    out->rows.ids = ids; /* the list becomes the answer */
    kvs_tensor_t outs[] = {out->tensor, out->tensor};
    kvs_arrays_t out_list = kvs_arrays(outs, 2), id_list = kvs_arrays(&row_ids, 1);

    KT_OK(kvs_store_row_sparse_pull(store, &key, 1, &out_list, &id_list, NULL));
    KT_INT(out->rows.n_rows, 2);
    KT_INT(ids[0], 1);
    KT_INT(ids[1], 3);
    KT_REAL(out->data[2], 3);
    misuse_close_working(store, kvs_key_int(100));
}

static void events_carry_row_sparse_operations(void)
{
    kvs_store_t *store = open_with_keys();
    kvs_key_t key = kvs_key_int(8);
    kvs_event_t *events[3] = {NULL};
    kvs_call_t call = KVS_CALL_INIT;
    int64_t ids[] = {0, 2};
    const int64_t two[] = {2};
    kvs_tensor_t row_ids = kt_tensor(ids, KVS_DTYPE_int64, two, 1);
    sparse_t s, bad, *out = out_of(6);

    set_rows(&s, 1, IDS(2), ROWS(5, 6));
    set_rows(&bad, 1, IDS(4), ROWS(5, 6));
    kvs_arrays_t values = kvs_arrays(&s.tensor, 1), outs = kvs_arrays(&out->tensor, 1);
    kvs_arrays_t id_list = kvs_arrays(&row_ids, 1), bad_values = kvs_arrays(&bad.tensor, 1);

    call.ret_event = &events[0];
    KT_OK(kvs_store_push(store, &key, 1, &values, &call));
    call.ret_event = &events[1];
    KT_OK(kvs_store_row_sparse_pull(store, &key, 1, &outs, &id_list, &call));
    call.ret_event = &events[2];
    KT_FAIL(kvs_store_push(store, &key, 1, &bad_values, &call), KVS_ERR_RANGE, "row id 4");
    KT_TRUE(events[2] == NULL);
    for (int i = 0; i < 2; i++) {
        KT_OK(kvs_event_wait(events[i], 20000));
        kvs_event_free(events[i]);
    }
    KT_INT(out->rows.n_rows, 2);
    KT_REAL(out->data[0], 0);
    KT_REAL(out->data[3], 6);
    misuse_close_working(store, kvs_key_int(100));
}

static void a_table_that_does_not_fit_in_memory_is_an_error(void)
{
    static const int64_t huge[2] = {(int64_t)1 << 40, 1 << 18};
    kvs_store_t *store = open_with_keys();
    sparse_t s;

    set_rows(&s, 0, NULL, NULL);
    s.tensor.shape = huge;
    KT_FAIL(misuse_init(store, kvs_key_int(50), s.tensor), KVS_ERR_NO_MEMORY, "");
    KT_FAIL(misuse_push(store, kvs_key_int(50), s.tensor), KVS_ERR_NOT_FOUND, "50");
    close_untouched(store);
}

static void row_sparse_is_a_capability_of_local(void)
{
    kvs_store_t *store = open_with_keys();
    int capable = 0;

    KT_OK(kvs_store_is_capable(store, "sparse", &capable));
    KT_INT(capable, 1);
    close_untouched(store);
}

static void bytes_are_counted_for_rows_and_ids(void)
{
    kvs_store_t *store = open_with_keys();
    kvs_stats_t stats = {.size = sizeof(stats)};
    sparse_t s;

    set_rows(&s, 3, IDS(1, 1, 2), ROWS(1, 2, 3, 4, 5, 6));
    KT_OK(misuse_push(store, kvs_key_int(8), s.tensor));
    KT_OK(pull_rows(store, 8, out_of(6)->tensor, IDS(0, 1, 0, 1), 4));
    KT_OK(kvs_store_stats(store, &stats));
    KT_INT(stats.bytes_pushed, 3 * (8 + WIDTH * 4));
    KT_INT(stats.bytes_pulled, 2 * (8 + WIDTH * 4));
    misuse_close_working(store, kvs_key_int(100));
}

static const kt_test_t tests[] = {
    KT_TEST(ids_outside_the_shape_are_a_range_error),
    KT_TEST(floating_ids_are_a_dtype_error_even_if_whole),
    KT_TEST(no_ids_give_an_empty_result),
    KT_TEST(dense_keys_and_dense_outs_are_a_storage_error),
    KT_TEST(a_key_never_initialised_is_named),
    KT_TEST(missing_or_surplus_row_ids_are_an_error),
    KT_TEST(outs_of_another_shape_or_dtype_are_refused),
    KT_TEST(too_little_room_names_both_numbers),
    KT_TEST(a_list_of_keys_with_one_error_does_nothing),
    KT_TEST(a_pull_into_a_row_sparse_out_names_row_sparse_pull),
    KT_TEST(keep_sparse_gives_the_rows_of_a_row_sparse_key),
    KT_TEST(a_pushed_id_outside_the_shape_is_a_range_error),
    KT_TEST(dense_and_row_sparse_do_not_mix),
    KT_TEST(row_lists_that_cannot_be_read_are_an_error),
    KT_TEST(rows_without_columns_and_tables_without_rows_work),
    KT_TEST(unsorted_and_repeated_rows_add_and_are_not_changed),
    KT_TEST(the_same_array_may_be_out_twice_and_row_ids_too),
    KT_TEST(events_carry_row_sparse_operations),
    KT_TEST(a_table_that_does_not_fit_in_memory_is_an_error),
    KT_TEST(row_sparse_is_a_capability_of_local),
    KT_TEST(bytes_are_counted_for_rows_and_ids),
};
KT_MAIN("misuse.sparse", tests)
