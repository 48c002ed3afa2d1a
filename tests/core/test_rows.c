/* SPDX-License-Identifier: Apache-2.0 */
/* Row-sparse arrays of a call: which kinds may stand where, ids, numbers of row ids, what backends are given,
 * and bytes counted. What is refused leaves no trace. */
#include "calls.h"

enum { N_ROWS = 8, WIDTH = 2, MAX_ARRAYS = 6 };
static const int64_t table[] = {N_ROWS, WIDTH};

static float data[MAX_ARRAYS][N_ROWS * WIDTH];
static int64_t ids[MAX_ARRAYS][N_ROWS];
static kvs_rows_t lists[MAX_ARRAYS];

#define KEYS(...)   ((const kvs_key_t[]){__VA_ARGS__})
#define ARRAYS(...) ((const kvs_tensor_t[]){__VA_ARGS__})
#define I(number)                                                                                  \
    {                                                                                              \
        NULL, (number)                                                                             \
    }

static kvs_tensor_t dense(int i)
{
    return kt_tensor(data[i], KVS_DTYPE_float32, table, 2);
}

/* Array `i` with these rows, which are also what it has room for. */
static kvs_tensor_t sparse(int i, int64_t first, int64_t second)
{
    kvs_tensor_t tensor = dense(i);

    ids[i][0] = first;
    ids[i][1] = second;
    lists[i] = (kvs_rows_t){.ids = ids[i], .n_rows = 2, .capacity = 2};
    tensor.rows = &lists[i];
    return tensor;
}

static kvs_status_t init(kvs_store_t *store, int64_t number, kvs_tensor_t value)
{
    kvs_key_t key = kvs_key_int(number);
    kvs_arrays_t values = kvs_arrays(&value, 1);

    return kvs_store_init(store, &key, 1, &values, NULL);
}

/* Key 1 is row-sparse, key 2 is dense; then the record begins. */
static kvs_store_t *begin(void)
{
    kvs_store_t *store;

    memset(ids, 0, sizeof(ids));
    fake_begin();
    store = fake_open(FAKE);
    KT_OK(init(store, 1, sparse(0, 1, 3)));
    KT_OK(init(store, 2, dense(0)));
    fake_begin();
    return store;
}

static kvs_status_t push(kvs_store_t *store, int64_t number, const kvs_tensor_t *values, size_t n)
{
    kvs_key_t key = kvs_key_int(number);
    kvs_arrays_t list = kvs_arrays(values, n);

    return kvs_store_push(store, &key, 1, &list, NULL);
}

static kvs_status_t pull(kvs_store_t *store, int64_t number, kvs_tensor_t out, uint32_t flags)
{
    kvs_key_t key = kvs_key_int(number);
    kvs_arrays_t outs = kvs_arrays(&out, 1);
    kvs_call_t call = KVS_CALL_INIT;

    call.flags = flags;
    return kvs_store_pull(store, &key, 1, &outs, &call);
}

static kvs_tensor_t id_array(int i, int64_t n)
{
    static int64_t shapes[MAX_ARRAYS][1];

    shapes[i][0] = n;
    return kt_tensor(ids[i], KVS_DTYPE_int64, shapes[i], 1);
}

static kvs_status_t pull_rows(kvs_store_t *store, int64_t number, kvs_tensor_t out,
                              kvs_tensor_t row_ids)
{
    kvs_key_t key = kvs_key_int(number);
    kvs_arrays_t outs = kvs_arrays(&out, 1), id_list = kvs_arrays(&row_ids, 1);

    return kvs_store_row_sparse_pull(store, &key, 1, &outs, &id_list, NULL);
}

/* Nothing was called, the key is still what it was, and the store closes. */
static void check_untouched(kvs_store_t *store)
{
    KT_STR(fake_calls(), "");
    KT_INT(fake_count("issue 1"), 0);
    KT_OK(push(store, 1, ARRAYS(sparse(0, 0, 7)), 1));
    KT_OK(kvs_store_close(store));
}

/* ---- Storage ------------------------------------------------------------------------------------ */

static void values_of_two_kinds_do_not_mix(void)
{
    kvs_store_t *store = begin();

    KT_FAIL(push(store, 1, ARRAYS(sparse(0, 1, 2), dense(1)), 2), KVS_ERR_STORAGE,
            "push: key 1: value 0 is row-sparse, but value 1 is dense");
    KT_FAIL(push(store, 2, ARRAYS(dense(0), dense(1), sparse(2, 1, 2)), 3), KVS_ERR_STORAGE,
            "push: key 2: value 0 is dense, but value 2 is row-sparse");
    check_untouched(store);
}

static void a_dense_value_for_a_row_sparse_key_is_refused(void)
{
    kvs_store_t *store = begin();
    kvs_tensor_t value = dense(0), out = dense(1);
    kvs_arrays_t values = kvs_arrays(&value, 1), outs = kvs_arrays(&out, 1);

    KT_FAIL(push(store, 1, ARRAYS(dense(0)), 1), KVS_ERR_STORAGE,
            "push: key 1 is row-sparse, but value 0 is dense");
    KT_FAIL(kvs_store_pushpull(store, KEYS(I(1)), 1, &values, &outs, NULL), KVS_ERR_STORAGE,
            "pushpull: key 1 is row-sparse, but value 0 is dense");
    check_untouched(store);
}

static void row_sparse_values_for_a_dense_key_are_taken(void)
{
    kvs_store_t *store = begin();

    KT_OK(push(store, 2, ARRAYS(sparse(0, 5, 5), sparse(1, 7, 0)), 2));
    KT_STR(fake_calls(), "push 2");
    KT_OK(kvs_store_close(store));
}

static void a_row_sparse_out_needs_the_flag_and_a_row_sparse_key(void)
{
    kvs_store_t *store = begin();

    KT_FAIL(pull(store, 1, sparse(1, 0, 0), 0), KVS_ERR_STORAGE,
            "pull: key 1: out 0 is row-sparse; use row_sparse_pull");
    KT_FAIL(pull(store, 2, sparse(1, 0, 0), 0), KVS_ERR_STORAGE, "use row_sparse_pull");
    KT_FAIL(pull(store, 2, sparse(1, 0, 0), KVS_CALL_KEEP_SPARSE), KVS_ERR_STORAGE,
            "pull: key 2: out 0 is row-sparse, but the key is dense; use row_sparse_pull");
    KT_STR(fake_calls(), "");
    KT_OK(pull(store, 1, sparse(1, 0, 0), KVS_CALL_KEEP_SPARSE));
    KT_OK(pull(store, 1, dense(1), 0));
    KT_OK(pull(store, 1, dense(1), KVS_CALL_KEEP_SPARSE));
    KT_STR(fake_calls(), "pull 1, pull 1, pull 1");
    KT_OK(kvs_store_close(store));
}

/* The key that a broadcast makes is of its value's kind, whatever a failed one was. */
static void a_broadcast_may_give_rows_of_a_row_sparse_value(void)
{
    kvs_store_t *store = begin();
    kvs_key_t key = kvs_key_int(3);
    kvs_tensor_t value = sparse(0, 1, 2), out = sparse(1, 0, 0), dense_value = dense(2);
    kvs_arrays_t values = kvs_arrays(&value, 1), outs = kvs_arrays(&out, 1);
    kvs_arrays_t dense_values = kvs_arrays(&dense_value, 1);
    kvs_call_t keep = KVS_CALL_INIT;

    keep.flags = KVS_CALL_KEEP_SPARSE;
    KT_FAIL(kvs_store_broadcast(store, &key, 1, &values, &outs, NULL), KVS_ERR_STORAGE,
            "broadcast: key 3: out 0 is row-sparse");
    KT_FAIL(kvs_store_broadcast(store, &key, 1, &dense_values, &outs, &keep), KVS_ERR_STORAGE,
            "but the key is dense");
    KT_STR(fake_calls(), "");
    KT_OK(kvs_store_broadcast(store, &key, 1, &values, &outs, &keep));
    KT_STR(fake_calls(), "init 3, pull 3");
    KT_FAIL(push(store, 3, ARRAYS(dense(0)), 1), KVS_ERR_STORAGE, "key 3 is row-sparse");
    KT_OK(kvs_store_close(store));
}

static void row_sparse_pull_needs_a_row_sparse_key_and_outs(void)
{
    kvs_store_t *store = begin();

    KT_FAIL(pull_rows(store, 2, sparse(0, 0, 0), id_array(1, 1)), KVS_ERR_STORAGE,
            "row_sparse_pull: key 2 is dense; use pull");
    KT_FAIL(pull_rows(store, 1, dense(0), id_array(1, 1)), KVS_ERR_STORAGE,
            "row_sparse_pull: key 1: out 0 is dense; pass row-sparse outs, or use pull");
    check_untouched(store);
}

/* ---- Row ids ------------------------------------------------------------------------------------- */

static void row_ids_must_be_dense_integers_on_a_device_that_is_taken(void)
{
    kvs_store_t *store = begin();
    kvs_tensor_t row_ids = id_array(1, 2);

    row_ids.dtype = kvs_dtype(KVS_DTYPE_float64);
    KT_FAIL(pull_rows(store, 1, sparse(0, 0, 0), row_ids), KVS_ERR_DTYPE,
            "row_sparse_pull: key 1: row id array 0 is float64; integer dtypes are accepted");
    KT_FAIL(pull_rows(store, 1, sparse(0, 0, 0), sparse(1, 0, 1)), KVS_ERR_STORAGE,
            "row id array 0 is row-sparse; pass it dense");
    row_ids = id_array(1, 2);
    row_ids.device.type = KVS_DEVICE_CUDA;
    KT_FAIL(pull_rows(store, 1, sparse(0, 0, 0), row_ids), KVS_ERR_NOT_IMPLEMENTED,
            "arrays on cuda(0)");
    check_untouched(store);
}

static void row_ids_of_every_integer_dtype_and_shape_are_read(void)
{
    static const int64_t square[] = {2, 2};
    static const int dtypes[] = {KVS_DTYPE_int8, KVS_DTYPE_uint8, KVS_DTYPE_int32, KVS_DTYPE_int64};
    int8_t i8[] = {0, 7, 7, -1};
    uint8_t u8[] = {0, 7, 7, 255};
    int32_t i32[] = {0, 7, 7, 1 << 30};
    int64_t i64[] = {0, 7, 7, INT64_MIN};
    void *bad[] = {i8, u8, i32, i64};
    const char *texts[] = {"row id -1", "row id 255", "row id 1073741824",
                           "row id -9223372036854775808"};
    kvs_store_t *store = begin();

    for (int i = 0; i < 4; i++) {
        KT_FAIL(pull_rows(store, 1, sparse(0, 0, 0), kt_tensor(bad[i], dtypes[i], square, 2)),
                KVS_ERR_RANGE, texts[i]);
        KT_HAS(kvs_last_error(), "row_sparse_pull: key 1: row id array 0: row id ");
        KT_HAS(kvs_last_error(), "at place 3, is outside [0, 8): the key has 8 rows");
    }
    KT_STR(fake_calls(), "");
    i8[3] = 6;
    KT_OK(pull_rows(store, 1, sparse(0, 0, 0), kt_tensor(i8, KVS_DTYPE_int8, square, 2)));
    KT_OK(pull_rows(store, 1, sparse(0, 0, 0), id_array(1, 0)));
    KT_OK(kvs_store_close(store));
}

static void ids_of_values_outside_the_shape_are_refused(void)
{
    kvs_store_t *store = begin();
    kvs_tensor_t narrow = sparse(1, 7, 8);
    static const int64_t other[] = {9, WIDTH};

    KT_FAIL(push(store, 1, ARRAYS(sparse(0, 1, 2), narrow), 2), KVS_ERR_RANGE,
            "push: key 1: value 1: row id 8, at place 1, is outside [0, 8): the key has 8 rows");
    KT_FAIL(push(store, 2, ARRAYS(sparse(0, -1, 2)), 1), KVS_ERR_RANGE, "row id -1, at place 0");
    KT_FAIL(init(store, 9, sparse(0, 3, 8)), KVS_ERR_RANGE, "init: key 9: value 0: row id 8");
    KT_FAIL(push(store, 9, ARRAYS(sparse(0, 1, 2)), 1), KVS_ERR_NOT_FOUND, "9");
    narrow.shape = other; /* the shape is told before ids that fit it */
    KT_FAIL(push(store, 1, &narrow, 1), KVS_ERR_SHAPE, "(9, 2)");
    check_untouched(store);
}

static void a_list_with_one_bad_id_does_nothing(void)
{
    kvs_store_t *store = begin();
    kvs_arrays_t values = kvs_arrays(ARRAYS(dense(0), sparse(5, 0, 8)), 2);
    kvs_arrays_t outs = kvs_arrays(ARRAYS(sparse(0, 0, 0), sparse(1, 0, 0)), 2), row_ids;

    KT_FAIL(kvs_store_push(store, KEYS(I(2), I(1)), 2, &values, NULL), KVS_ERR_RANGE, "key 1");
    KT_OK(init(store, 3, sparse(4, 0, 1)));
    fake_begin();
    ids[2][0] = 0;
    ids[3][0] = 8;
    row_ids = kvs_arrays(ARRAYS(id_array(2, 1), id_array(3, 1)), 2);
    KT_FAIL(kvs_store_row_sparse_pull(store, KEYS(I(1), I(3)), 2, &outs, &row_ids, NULL),
            KVS_ERR_RANGE, "key 3: row id array 0: row id 8");
    check_untouched(store);
}

static void numbers_of_row_ids_are_one_or_that_of_the_outs(void)
{
    kvs_store_t *store = begin();
    const kvs_tensor_t outs[] = {sparse(0, 0, 0), sparse(1, 0, 0), sparse(2, 0, 0)};
    const kvs_tensor_t row_ids[] = {id_array(3, 1), id_array(4, 1), id_array(5, 1)};
    kvs_arrays_t three = kvs_arrays(outs, 3), none = kvs_arrays(NULL, 0);
    kvs_arrays_t one_list = kvs_arrays(row_ids, 1), two_lists = kvs_arrays(row_ids, 2),
                 three_lists = kvs_arrays(row_ids, 3);

    KT_FAIL(kvs_store_row_sparse_pull(store, KEYS(I(1)), 1, &three, &two_lists, NULL),
            KVS_ERR_ARGUMENT, "row_sparse_pull: key 1 has 3 outs and 2 row id arrays");
    KT_FAIL(kvs_store_row_sparse_pull(store, KEYS(I(1)), 1, &three, &none, NULL), KVS_ERR_ARGUMENT,
            "key 1 has no row id arrays");
    KT_FAIL(kvs_store_row_sparse_pull(store, KEYS(I(1)), 1, &three, NULL, NULL), KVS_ERR_ARGUMENT,
            "row ids is NULL");
    KT_FAIL(kvs_store_row_sparse_pull(store, KEYS(I(1)), 1, &none, &one_list, NULL),
            KVS_ERR_ARGUMENT, "key 1 has no outs");
    KT_STR(fake_calls(), "");
    KT_OK(kvs_store_row_sparse_pull(store, KEYS(I(1)), 1, &three, &one_list, NULL));
    KT_OK(kvs_store_row_sparse_pull(store, KEYS(I(1)), 1, &three, &three_lists, NULL));
    KT_INT(fake_call(0)->groups[0].n_row_ids, 1);
    KT_INT(fake_call(1)->groups[0].n_row_ids, 3);
    KT_OK(kvs_store_close(store));
}

/* Key 1 stands twice, with two outs and one list, then with one and one: each out has its list. */
static void row_ids_of_a_key_that_repeats_go_with_its_outs(void)
{
    kvs_store_t *store = begin();
    const kvs_tensor_t outs[] = {sparse(0, 0, 0), sparse(1, 0, 0), sparse(2, 0, 0)};
    const kvs_tensor_t row_ids[] = {id_array(3, 1), id_array(4, 1)};
    kvs_arrays_t out_list = {outs, 3, (const size_t[]){2, 1}, 2};
    kvs_arrays_t id_list = kvs_arrays(row_ids, 2);
    const fake_group_t *group;

    KT_OK(kvs_store_row_sparse_pull(store, KEYS(I(1), I(1)), 2, &out_list, &id_list, NULL));
    group = &fake_call(0)->groups[0];
    KT_INT(group->n_outs, 3);
    KT_INT(group->n_row_ids, 3);
    KT_TRUE(group->row_ids[0] == ids[3] && group->row_ids[1] == ids[3]);
    KT_TRUE(group->row_ids[2] == ids[4]);
    KT_TRUE(group->outs[2] == data[2]);
    KT_OK(kvs_store_close(store));
}

static void row_ids_where_an_out_of_another_key_is_written_are_shared(void)
{
    kvs_store_t *store = begin();
    kvs_tensor_t outs[2], row_ids[2];
    kvs_arrays_t out_list = {outs, 2, NULL, 0}, id_list = {row_ids, 2, NULL, 0};

    KT_OK(init(store, 3, sparse(0, 1, 3)));
    fake_begin();
    outs[0] = sparse(0, 0, 0);
    outs[1] = sparse(1, 0, 0);
    row_ids[0] = id_array(2, 2);
    row_ids[1] = id_array(3, 2);
    KT_OK(kvs_store_row_sparse_pull(store, KEYS(I(1), I(3)), 2, &out_list, &id_list, NULL));
    KT_STR(fake_calls(), "row_sparse_pull 1, row_sparse_pull 3");
    fake_begin();
    row_ids[1] = id_array(0, 2); /* out 0's ids */
    KT_OK(kvs_store_row_sparse_pull(store, KEYS(I(1), I(3)), 2, &out_list, &id_list, NULL));
    KT_STR(fake_calls(), "row_sparse_pull 1+3");
    KT_INT(fake_call(0)->flags, KVS_OP_SHARED | KVS_OP_WAITS);
    KT_OK(kvs_store_close(store));
}

/* ---- Events --------------------------------------------------------------------------------------- */

/* Few bytes, but an optimizer may update the whole key by them. */
static void with_an_event_a_push_of_rows_returns_at_once(void)
{
    kvs_store_t *store = begin();
    kvs_key_t key = kvs_key_int(1);
    kvs_tensor_t value = sparse(0, 1, 2);
    kvs_arrays_t values = kvs_arrays(&value, 1);
    kvs_event_t *event = NULL;
    kvs_call_t call = KVS_CALL_INIT;

    call.ret_event = &event;
    fake_hold("push 1");
    KT_OK(kvs_store_push(store, &key, 1, &values, &call));
    fake_wait_held("push 1");
    fake_release("push 1");
    KT_OK(kvs_event_wait(event, 20000));
    kvs_event_free(event);
    KT_OK(kvs_store_close(store));
}

/* ---- Bytes ---------------------------------------------------------------------------------------- */

static void bytes_are_those_of_the_rows_that_travelled(void)
{
    kvs_store_t *store = begin();
    kvs_stats_t stats = {.size = sizeof(stats)};
    kvs_tensor_t out = sparse(1, 0, 0);

    KT_OK(push(store, 1, ARRAYS(sparse(0, 1, 2)), 1)); /* 2 rows of 8 bytes, 2 ids */
    lists[1].capacity = 8;
    lists[1].n_rows = 3; /* as if the backend had written them */
    KT_OK(pull_rows(store, 1, out, id_array(2, 4)));
    KT_OK(kvs_store_stats(store, &stats));
    KT_INT(stats.bytes_pushed, 2 * (8 + 8));
    KT_INT(stats.bytes_pulled, 3 * (8 + 8));
    KT_INT(stats.n_pulls, 1);
    KT_OK(pull(store, 1, dense(3), 0));
    KT_OK(kvs_store_stats(store, &stats));
    KT_INT(stats.bytes_pulled, 3 * (8 + 8) + sizeof(data[3]));
    KT_OK(kvs_store_close(store));
}

static const kt_test_t tests[] = {
    KT_TEST(values_of_two_kinds_do_not_mix),
    KT_TEST(a_dense_value_for_a_row_sparse_key_is_refused),
    KT_TEST(row_sparse_values_for_a_dense_key_are_taken),
    KT_TEST(a_row_sparse_out_needs_the_flag_and_a_row_sparse_key),
    KT_TEST(a_broadcast_may_give_rows_of_a_row_sparse_value),
    KT_TEST(row_sparse_pull_needs_a_row_sparse_key_and_outs),
    KT_TEST(row_ids_must_be_dense_integers_on_a_device_that_is_taken),
    KT_TEST(row_ids_of_every_integer_dtype_and_shape_are_read),
    KT_TEST(ids_of_values_outside_the_shape_are_refused),
    KT_TEST(a_list_with_one_bad_id_does_nothing),
    KT_TEST(numbers_of_row_ids_are_one_or_that_of_the_outs),
    KT_TEST(row_ids_of_a_key_that_repeats_go_with_its_outs),
    KT_TEST(row_ids_where_an_out_of_another_key_is_written_are_shared),
    KT_TEST(with_an_event_a_push_of_rows_returns_at_once),
    KT_TEST(bytes_are_those_of_the_rows_that_travelled),
};
KT_MAIN("rows", tests)
