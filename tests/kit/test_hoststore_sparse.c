/* SPDX-License-Identifier: Apache-2.0 */
/* Row-sparse keys and values of the host store, driven as the core drives it. Expected values come from
 * plain loops over dense arrays. */
#include "fake_host.h"

#include <kvstore/kit.h>

#include <math.h>

/* ---- A store with one key ------------------------------------------------------------------------- */

static kvs_hoststore_t store;
static kvs_hoststore_key_t key_state;
static int64_t key_shape[2];
static kvs_key_entry_t key;

static void begin(int64_t n_rows, int64_t width)
{
    kvs_open_args_t args = {.size = sizeof(args), .type = "sparse_test"};

    store = (kvs_hoststore_t){0};
    key_state = (kvs_hoststore_key_t){0};
    key_shape[0] = n_rows;
    key_shape[1] = width;
    key = (kvs_key_entry_t){
        .number = 5,
        .dtype = kvs_dtype(KVS_DTYPE_float32),
        .ndim = 2,
        .shape = key_shape,
        .n_elems = n_rows * width,
        .state = &key_state,
    };
    if (!KT_OK(kvs_hoststore_open(&store, &args))) {
        abort();
    }
}

static void end(void)
{
    kvs_hoststore_key_release(&store, &key);
    KT_TRUE(key_state.rows == NULL);
    KT_OK(kvs_hoststore_close(&store, 0));
}

static kvs_tensor_t dense_tensor(float *data)
{
    return kt_tensor(data, KVS_DTYPE_float32, key_shape, 2);
}

static kvs_tensor_t sparse_tensor(float *data, kvs_rows_t *rows)
{
    kvs_tensor_t tensor = dense_tensor(data);

    tensor.rows = rows;
    return tensor;
}

/* The rows of a list, for values: LIST(ids) of an array. */
static kvs_rows_t list(const int64_t *ids, int64_t n)
{
    return (kvs_rows_t){.ids = (int64_t *)(uintptr_t)ids, .n_rows = n};
}
#define LIST(ids) list((ids), (int64_t)(sizeof(ids) / sizeof((ids)[0])))

static kvs_status_t run_group(kvs_verb_t verb, uint32_t flags, kvs_group_t group)
{
    kvs_hoststore_group_t state = {0};
    kvs_op_t op = {
        .size = sizeof(op), .verb = verb, .flags = flags, .groups = &group, .n_groups = 1};
    kvs_status_t status;

    group.key = &key;
    group.state = &state;
    status = kvs_hoststore_issue(&store, &op);
    if (status != KVS_OK) {
        return status;
    }
    switch (verb) {
    case KVS_VERB_INIT:
        return kvs_hoststore_init(&store, &op);
    case KVS_VERB_PUSH:
        return kvs_hoststore_push(&store, &op);
    case KVS_VERB_PULL:
        return kvs_hoststore_pull(&store, &op);
    case KVS_VERB_ROW_SPARSE_PULL:
        return kvs_hoststore_row_sparse_pull(&store, &op);
    default:
        return kvs_hoststore_pushpull(&store, &op);
    }
}

static kvs_status_t init(kvs_tensor_t value)
{
    key.row_sparse = value.rows != NULL;
    return run_group(KVS_VERB_INIT, 0, (kvs_group_t){.values = &value, .n_values = 1});
}

static kvs_status_t push(kvs_tensor_t value)
{
    return run_group(KVS_VERB_PUSH, 0, (kvs_group_t){.values = &value, .n_values = 1});
}

static kvs_status_t pull(kvs_tensor_t out)
{
    return run_group(KVS_VERB_PULL, out.rows != NULL ? KVS_OP_KEEP_SPARSE : 0,
                     (kvs_group_t){.outs = &out, .n_outs = 1});
}

static void expect_dense(const float *want, int64_t n)
{
    float *got = malloc((size_t)n * sizeof(*got) + 1);
    int64_t n_wrong = 0;

    KT_OK(pull(dense_tensor(got)));
    for (int64_t i = 0; i < n; i++) {
        n_wrong += got[i] != want[i];
    }
    KT_INT(n_wrong, 0);
    free(got);
}

/* A pull into a row-sparse out gives these rows, with the elements that a dense pull gives. */
static void expect_rows(const int64_t *want, int64_t n)
{
    int64_t ids[16];
    float got[16 * 8], *dense = malloc((size_t)key.n_elems * sizeof(*dense) + 1);
    kvs_rows_t rows = {.ids = ids, .n_rows = -1, .capacity = 16};

    KT_OK(pull(sparse_tensor(got, &rows)));
    KT_OK(pull(dense_tensor(dense)));
    KT_INT(rows.n_rows, n);
    for (int64_t i = 0; i < n && i < rows.n_rows; i++) {
        KT_INT(ids[i], want[i]);
        for (int64_t j = 0; j < key_shape[1]; j++) {
            KT_REAL(got[i * key_shape[1] + j], dense[want[i] * key_shape[1] + j]);
        }
    }
    free(dense);
}
#define EXPECT_ROWS(...)                                                                           \
    expect_rows((const int64_t[]){__VA_ARGS__},                                                    \
                (int64_t)(sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t)))

/* ---- Storing -------------------------------------------------------------------------------------- */

static void init_adds_repeated_rows_and_leaves_out_zeros(void)
{
    static const int64_t ids[] = {4, 1, 4};
    kvs_rows_t rows = LIST(ids);
    float data[] = {1, 2, 3, 4, 10, 20};

    begin(6, 2);
    KT_OK(init(sparse_tensor(data, &rows)));
    expect_dense((const float[]){0, 0, 3, 4, 0, 0, 0, 0, 11, 22, 0, 0}, 12);
    EXPECT_ROWS(1, 4);
    end();
}

static void a_push_replaces_and_clears_what_it_does_not_list(void)
{
    static const int64_t ids[] = {0, 1, 64, 129}, next[] = {129, 1, 65};
    kvs_rows_t rows = LIST(ids), next_rows = LIST(next);
    float data[] = {1, 2, 3, 4}, next_data[] = {7, 8, 9}, want[130] = {0};

    begin(130, 1); /* the last word of rows has two */
    KT_OK(init(sparse_tensor(data, &rows)));
    KT_OK(push(sparse_tensor(next_data, &next_rows)));
    want[129] = 7;
    want[1] = 8;
    want[65] = 9;
    expect_dense(want, 130);
    EXPECT_ROWS(1, 65, 129);
    next_rows.n_rows = 0;
    KT_OK(push(sparse_tensor(next_data, &next_rows)));
    expect_dense((const float[130]){0}, 130);
    expect_rows(NULL, 0);
    end();
}

static void explicit_zero_rows_are_rows_of_the_key(void)
{
    static const int64_t ids[] = {3, 1};
    kvs_rows_t rows = LIST(ids);
    float data[] = {0, 0, 0, 5};

    begin(4, 2);
    KT_OK(init(sparse_tensor(data, &rows)));
    EXPECT_ROWS(1, 3);
    end();
}

static void a_dense_key_takes_the_dense_form_of_the_sum(void)
{
    static const int64_t a[] = {2, 0}, b[] = {2};
    kvs_rows_t rows[] = {LIST(a), LIST(b)};
    float data[2][4] = {{1, 2, 3, 4}, {10, 20}}, dense[8] = {9, 9, 9, 9, 9, 9, 9, 9};
    kvs_tensor_t values[2];

    begin(4, 2);
    KT_OK(init(dense_tensor(dense)));
    for (int i = 0; i < 2; i++) {
        values[i] = sparse_tensor(data[i], &rows[i]);
    }
    KT_OK(run_group(KVS_VERB_PUSH, 0, (kvs_group_t){.values = values, .n_values = 2}));
    expect_dense((const float[]){3, 4, 0, 0, 11, 22, 0, 0}, 8);
    KT_OK(push(dense_tensor(dense))); /* and dense ones again */
    expect_dense(dense, 8);
    end();
}

static void a_bad_id_changes_nothing_and_names_the_key(void)
{
    static const int64_t ids[] = {1}, bad[] = {0, 4};
    kvs_rows_t rows = LIST(ids), bad_rows = LIST(bad);
    float data[] = {1, 2};

    begin(4, 1);
    KT_OK(init(sparse_tensor(data, &rows)));
    KT_FAIL(push(sparse_tensor(data, &bad_rows)), KVS_ERR_RANGE, "key 5: row id 4 is outside");
    expect_dense((const float[]){0, 1, 0, 0}, 4);
    end();
}

/* ---- Outs ------------------------------------------------------------------------------------------ */

static kvs_status_t pull_rows(kvs_tensor_t out, int64_t *ids, int64_t n)
{
    kvs_tensor_t row_ids = kt_tensor(ids, KVS_DTYPE_int64, &n, 1);

    return run_group(KVS_VERB_ROW_SPARSE_PULL, 0,
                     (kvs_group_t){.outs = &out, .n_outs = 1, .row_ids = &row_ids, .n_row_ids = 1});
}

static void init_counting(int64_t n_rows, int64_t width)
{
    int64_t *ids = malloc((size_t)n_rows * sizeof(*ids));
    float *data = malloc((size_t)(n_rows * width) * sizeof(*data));
    kvs_rows_t rows = list(ids, n_rows);

    for (int64_t i = 0; i < n_rows; i++) {
        ids[i] = i;
    }
    for (int64_t i = 0; i < n_rows * width; i++) {
        data[i] = (float)(i + 1);
    }
    KT_OK(init(sparse_tensor(data, &rows)));
    free(ids);
    free(data);
}

static void rows_are_given_sorted_and_unique(void)
{
    int64_t wanted[] = {3, 0, 3, 2}, ids[4] = {-1, -1, -1, -1};
    float got[8] = {0};
    kvs_rows_t rows = {.ids = ids, .capacity = 4};

    begin(5, 2);
    init_counting(5, 2);
    KT_OK(pull_rows(sparse_tensor(got, &rows), wanted, 4));
    KT_INT(rows.n_rows, 3);
    KT_INT(ids[0], 0);
    KT_INT(ids[1], 2);
    KT_INT(ids[2], 3);
    KT_INT(ids[3], -1);
    KT_REAL(got[0], 1);
    KT_REAL(got[2], 5);
    KT_REAL(got[5], 8);
    KT_REAL(got[6], 0);
    KT_INT(wanted[0], 3); /* the list is the caller's */
    KT_OK(pull_rows(sparse_tensor(got, &rows), wanted, 0));
    KT_INT(rows.n_rows, 0);
    end();
}

/* The list of ids is where the first out's ids go, and an out is named twice. */
static void ids_are_read_before_any_out_is_written(void)
{
    int64_t ids[2][3] = {{2, 1, 1}, {4, 4, 0}};
    float got[2][6];
    const int64_t three[] = {3};
    kvs_rows_t rows[2] = {{.ids = ids[1], .capacity = 3}, {.ids = ids[0], .capacity = 3}};
    kvs_tensor_t row_ids[2], outs[2];

    begin(5, 2);
    init_counting(5, 2);
    for (int i = 0; i < 2; i++) {
        row_ids[i] = kt_tensor(ids[i], KVS_DTYPE_int64, three, 1);
        outs[i] = sparse_tensor(got[i], &rows[i]);
    }
    KT_OK(run_group(KVS_VERB_ROW_SPARSE_PULL, 0,
                    (kvs_group_t){.outs = outs, .n_outs = 2, .row_ids = row_ids, .n_row_ids = 2}));
    KT_INT(rows[0].n_rows, 2);
    KT_INT(ids[1][0], 1);
    KT_INT(ids[1][1], 2);
    KT_INT(rows[1].n_rows, 2);
    KT_INT(ids[0][0], 0);
    KT_INT(ids[0][1], 4);
    KT_REAL(got[1][2], 9);
    end();
}

static void of_outs_that_share_memory_the_last_of_the_call_stays(void)
{
    int64_t wanted[2][1] = {{1}, {3}}, ids[1];
    float got[1];
    const int64_t one[] = {1};
    const size_t places[] = {1, 0}; /* the group's first out is the call's last */
    kvs_rows_t rows = {.ids = ids, .capacity = 1};
    kvs_tensor_t row_ids[2], outs[2];

    begin(5, 1);
    init_counting(5, 1);
    for (int i = 0; i < 2; i++) {
        row_ids[i] = kt_tensor(wanted[i], KVS_DTYPE_int64, one, 1);
        outs[i] = sparse_tensor(got, &rows);
    }
    KT_OK(run_group(
        KVS_VERB_ROW_SPARSE_PULL, KVS_OP_SHARED,
        (kvs_group_t){
            .outs = outs, .n_outs = 2, .row_ids = row_ids, .n_row_ids = 2, .out_index = places}));
    KT_INT(ids[0], 1);
    KT_REAL(got[0], 2);
    end();
}

static void too_little_room_is_an_error_before_anything_is_written(void)
{
    int64_t wanted[] = {3, 0, 3, 2}, ids[2][4];
    float got[2][4] = {{-1, -1, -1, -1}, {-1, -1, -1, -1}};
    const int64_t four[] = {4};
    kvs_rows_t rows[2] = {{.ids = ids[0], .capacity = 3}, {.ids = ids[1], .capacity = 2}};
    kvs_tensor_t outs[2], row_ids = kt_tensor(wanted, KVS_DTYPE_int64, four, 1);

    begin(5, 1);
    init_counting(5, 1);
    for (int i = 0; i < 2; i++) {
        outs[i] = sparse_tensor(got[i], &rows[i]);
    }
    KT_FAIL(
        run_group(KVS_VERB_ROW_SPARSE_PULL, 0,
                  (kvs_group_t){.outs = outs, .n_outs = 2, .row_ids = &row_ids, .n_row_ids = 1}),
        KVS_ERR_ARGUMENT, "key 5: out 1 has room for 2 rows, but gets 3");
    KT_REAL(got[0][0], -1);
    rows[1].capacity = 3; /* enough for what is different */
    KT_OK(run_group(KVS_VERB_ROW_SPARSE_PULL, 0,
                    (kvs_group_t){.outs = outs, .n_outs = 2, .row_ids = &row_ids, .n_row_ids = 1}));
    KT_REAL(got[1][2], 4);
    rows[0].capacity = 5;
    rows[1].capacity = 4;
    got[0][0] = -1;
    KT_FAIL(run_group(KVS_VERB_PULL, KVS_OP_KEEP_SPARSE, (kvs_group_t){.outs = outs, .n_outs = 2}),
            KVS_ERR_ARGUMENT, "key 5: out 1 has room for 4 rows, but gets 5");
    KT_REAL(got[0][0], -1);
    end();
}

static kvs_status_t pushpull(kvs_tensor_t value, kvs_tensor_t out)
{
    return run_group(KVS_VERB_PUSHPULL, KVS_OP_KEEP_SPARSE,
                     (kvs_group_t){.values = &value, .n_values = 1, .outs = &out, .n_outs = 1});
}

static kvs_status_t add_listed(const kvs_key_t *name, const kvs_tensor_t *value,
                               const kvs_tensor_t *stored, void *arg)
{
    float *weight = stored->data;

    (void)name;
    (void)arg;
    for (int64_t i = 0; i < value->rows->n_rows; i++) {
        weight[value->rows->ids[i]] += ((const float *)value->data)[i];
    }
    return KVS_OK;
}

static void a_pushpull_without_room_for_what_must_come_pushes_nothing(void)
{
    static const int64_t pushed[] = {3, 1, 3};
    static const float before[] = {1, 2, 3, 4, 5}, after[] = {1, 4, 3, 10, 5};
    float data[] = {3, 2, 3}, got[5] = {-1};
    int64_t ids[5];
    kvs_rows_t rows = LIST(pushed), room = {.ids = ids, .capacity = 1};
    kvs_tensor_t value, out;

    begin(5, 1);
    init_counting(5, 1);
    value = sparse_tensor(data, &rows);
    out = sparse_tensor(got, &room);
    KT_FAIL(pushpull(value, out), KVS_ERR_ARGUMENT, "key 5: out 0 has room for 1 rows, but gets 2");
    expect_dense(before, 5);
    KT_OK(kvs_hoststore_set_updater(&store, add_listed, NULL));
    room.capacity = 4; /* enough for those pushed, not for those that stay */
    KT_FAIL(pushpull(value, out), KVS_ERR_ARGUMENT, "key 5: out 0 has room for 4 rows, but gets 5");
    expect_dense(before, 5);
    room.capacity = 5;
    KT_OK(pushpull(value, out));
    KT_INT(room.n_rows, 5);
    expect_dense(after, 5);
    KT_OK(kvs_hoststore_set_updater(&store, NULL, NULL));
    room.capacity = 2;
    KT_OK(pushpull(value, out));
    KT_INT(room.n_rows, 2);
    KT_REAL(got[1], 6);
    end();
}

static void dense_and_row_sparse_outs_may_stand_together(void)
{
    static const int64_t ids[] = {2};
    int64_t got_ids[4];
    float data[] = {5}, got[4], dense[4];
    kvs_rows_t rows = LIST(ids), out_rows = {.ids = got_ids, .capacity = 4};
    double wide[4];

    begin(4, 1);
    KT_OK(init(sparse_tensor(data, &rows)));
    data[0] = 7;
    kvs_tensor_t outs[] = {sparse_tensor(got, &out_rows), dense_tensor(dense),
                           kt_tensor(wide, KVS_DTYPE_float64, key_shape, 2)};
    kvs_tensor_t value = sparse_tensor(data, &rows);
    KT_OK(run_group(KVS_VERB_PUSHPULL, KVS_OP_KEEP_SPARSE,
                    (kvs_group_t){.values = &value, .n_values = 1, .outs = outs, .n_outs = 3}));
    KT_INT(out_rows.n_rows, 1);
    KT_REAL(got[0], 7);
    KT_REAL(dense[2], 7);
    KT_REAL(dense[3], 0);
    KT_REAL(wide[2], 7);
    end();
}

/* In place, where the sum has more rows than the value had. */
static void pushpull_in_place_gives_back_the_sums_rows(void)
{
    int64_t ids[2][4] = {{3, 1}, {0, 1}};
    float data[2][4] = {{1, 2}, {10, 20}};
    kvs_rows_t rows[2] = {{.ids = ids[0], .n_rows = 2, .capacity = 4},
                          {.ids = ids[1], .n_rows = 2, .capacity = 4}};
    const size_t places[] = {0, 1};
    kvs_tensor_t values[2];

    begin(4, 1);
    init_counting(4, 1);
    for (int i = 0; i < 2; i++) {
        values[i] = sparse_tensor(data[i], &rows[i]);
    }
    KT_OK(run_group(
        KVS_VERB_PUSHPULL, KVS_OP_KEEP_SPARSE | KVS_OP_SHARED,
        (kvs_group_t){
            .values = values, .n_values = 2, .outs = values, .n_outs = 2, .out_index = places}));
    for (int i = 0; i < 2; i++) {
        KT_INT(rows[i].n_rows, 3);
        KT_INT(ids[i][0], 0);
        KT_INT(ids[i][2], 3);
        KT_REAL(data[i][0], 10);
        KT_REAL(data[i][1], 22);
        KT_REAL(data[i][2], 1);
    }
    end();
}

/* ---- Updaters -------------------------------------------------------------------------------------- */

typedef struct seen {
    int64_t ids[4], n_rows;
    float data[4];
    int64_t extra; /* a row to set beside those of the gradient, or -1 */
} seen_t;

static kvs_status_t add_rows(const kvs_key_t *name, const kvs_tensor_t *value,
                             const kvs_tensor_t *stored, void *arg)
{
    seen_t *seen = arg;
    float *to = stored->data;

    KT_INT(name->num, 5);
    KT_TRUE(stored->rows == NULL);
    KT_INT(value->shape[0], key_shape[0]);
    if (!KT_TRUE(value->rows != NULL && value->rows->n_rows <= 4)) {
        return KVS_ERR_INTERNAL;
    }
    seen->n_rows = value->rows->n_rows;
    for (int64_t i = 0; i < seen->n_rows; i++) {
        seen->ids[i] = value->rows->ids[i];
        seen->data[i] = ((const float *)value->data)[i];
        to[seen->ids[i]] += seen->data[i];
    }
    if (seen->extra >= 0) {
        to[seen->extra] = 100;
    }
    return KVS_OK;
}

static void an_updater_gets_the_summed_rows_and_the_dense_value(void)
{
    static const int64_t a[] = {3, 1, 3}, b[] = {1};
    kvs_rows_t rows[] = {LIST(a), LIST(b)};
    float data[2][3] = {{1, 2, 3}, {10}};
    seen_t seen = {.extra = -1};
    kvs_tensor_t values[2];

    begin(6, 1);
    rows[1].n_rows = 0;
    KT_OK(init(sparse_tensor(data[1], &rows[1])));
    rows[1].n_rows = 1;
    KT_OK(kvs_hoststore_set_updater(&store, add_rows, &seen));
    for (int i = 0; i < 2; i++) {
        values[i] = sparse_tensor(data[i], &rows[i]);
    }
    KT_OK(run_group(KVS_VERB_PUSH, 0, (kvs_group_t){.values = values, .n_values = 2}));
    KT_INT(seen.n_rows, 2);
    KT_INT(seen.ids[0], 1);
    KT_INT(seen.ids[1], 3);
    KT_REAL(seen.data[0], 12);
    KT_REAL(seen.data[1], 4);
    expect_dense((const float[]){0, 12, 0, 4, 0, 0}, 6);
    EXPECT_ROWS(1, 3);
    KT_OK(push(values[1]));
    KT_INT(seen.n_rows, 1);
    KT_REAL(data[1][0], 10); /* pushed rows are never changed */
    expect_dense((const float[]){0, 22, 0, 4, 0, 0}, 6);
    rows[1].n_rows = 0;
    KT_OK(push(values[1])); /* an empty gradient is one */
    KT_INT(seen.n_rows, 0);
    end();
}

/* What an updater sets beside the gradient's rows is neither lost nor left behind. */
static void rows_that_only_an_updater_has_set_belong_to_the_key(void)
{
    static const int64_t ids[] = {1};
    kvs_rows_t rows = LIST(ids);
    float data[] = {3};
    seen_t seen = {.extra = 4};

    begin(6, 1);
    KT_OK(init(sparse_tensor(data, &rows)));
    KT_OK(kvs_hoststore_set_updater(&store, add_rows, &seen));
    KT_OK(push(sparse_tensor(data, &rows)));
    EXPECT_ROWS(1, 4);
    KT_OK(push(sparse_tensor(data, &rows)));
    KT_OK(kvs_hoststore_set_updater(&store, NULL, NULL));
    KT_OK(push(sparse_tensor(data, &rows)));
    expect_dense((const float[]){0, 3, 0, 0, 0, 0}, 6);
    EXPECT_ROWS(1);
    KT_OK(push(sparse_tensor(data, &rows)));
    EXPECT_ROWS(1);
    end();
}

static void a_dense_keys_updater_gets_the_summed_rows(void)
{
    static const int64_t ids[] = {2, 0};
    kvs_rows_t rows = LIST(ids);
    float data[] = {3, 4}, dense[] = {1, 1, 1};
    seen_t seen = {.extra = -1};

    begin(3, 1);
    KT_OK(init(dense_tensor(dense)));
    KT_OK(kvs_hoststore_set_updater(&store, add_rows, &seen));
    KT_OK(push(sparse_tensor(data, &rows)));
    KT_INT(seen.ids[0], 0);
    expect_dense((const float[]){5, 1, 4}, 3);
    end();
}

static kvs_status_t refuse(const kvs_key_t *name, const kvs_tensor_t *value,
                           const kvs_tensor_t *stored, void *arg)
{
    (void)name;
    (void)value;
    (void)arg;
    ((float *)stored->data)[0] = 42;
    return kvs_fail(KVS_ERR_IO, "no more");
}

static void an_updaters_error_leaves_what_it_left(void)
{
    static const int64_t ids[] = {1};
    kvs_rows_t rows = LIST(ids);
    float data[] = {3};

    begin(2, 1);
    KT_OK(init(sparse_tensor(data, &rows)));
    KT_OK(kvs_hoststore_set_updater(&store, refuse, NULL));
    KT_FAIL(push(sparse_tensor(data, &rows)), KVS_ERR_CALLBACK,
            "key 5: updater returned KVS_ERR_IO: no more");
    expect_dense((const float[]){42, 3}, 2);
    EXPECT_ROWS(0, 1);
    end();
}

/* ---- Shapes and sizes ------------------------------------------------------------------------------ */

static void shapes_without_rows_or_columns_work(void)
{
    static const int64_t ids[] = {1, 1, 0};
    kvs_rows_t none = {0}, some = LIST(ids);
    int64_t out_ids[4], wanted[] = {1};
    kvs_rows_t out = {.ids = out_ids, .capacity = 4};

    begin(0, 3);
    KT_OK(init(sparse_tensor(NULL, &none)));
    KT_OK(push(sparse_tensor(NULL, &none)));
    KT_OK(pull(dense_tensor(NULL)));
    KT_OK(pull_rows(sparse_tensor(NULL, &out), NULL, 0));
    KT_INT(out.n_rows, 0);
    end();
    begin(2, 0);
    KT_OK(init(sparse_tensor(NULL, &none)));
    KT_OK(push(sparse_tensor(NULL, &some)));
    KT_OK(pull_rows(sparse_tensor(NULL, &out), wanted, 1));
    KT_INT(out.n_rows, 1);
    KT_OK(pull(sparse_tensor(NULL, &out)));
    KT_INT(out.n_rows, 2);
    end();
}

/* Of so many rows two values push 1 %: each way through, cut over threads or not. */
enum { MANY = 1000000, LISTED = 10000, WIDTH = 16 };

typedef struct many {
    int64_t *ids[2];
    float *data[2];
    float *want;
} many_t;

static void fill_many(many_t *m, uint64_t seed)
{
    fake_seed = seed;
    memset(m->want, 0, (size_t)MANY * WIDTH * sizeof(float));
    for (int v = 0; v < 2; v++) {
        for (int i = 0; i < LISTED; i++) {
            m->ids[v][i] = (int64_t)(fake_random() % MANY);
            for (int j = 0; j < WIDTH; j++) {
                float number = (float)(fake_random() % 100);

                m->data[v][i * WIDTH + j] = number;
                m->want[m->ids[v][i] * WIDTH + j] += number;
            }
        }
    }
}

static kvs_status_t push_many(const many_t *m)
{
    kvs_rows_t rows[2] = {list(m->ids[0], LISTED), list(m->ids[1], LISTED)};
    kvs_tensor_t values[2] = {sparse_tensor(m->data[0], &rows[0]),
                              sparse_tensor(m->data[1], &rows[1])};

    return run_group(KVS_VERB_PUSH, 0, (kvs_group_t){.values = values, .n_values = 2});
}

static void many_rows_of_a_million(int64_t n_pieces)
{
    many_t m = {.want = malloc((size_t)MANY * WIDTH * sizeof(float))};
    kvs_rows_t none = {0}, out = {.ids = malloc(LISTED * sizeof(int64_t)), .capacity = LISTED};
    float *got = malloc((size_t)LISTED * WIDTH * sizeof(float));
    int64_t n_wrong = 0;

    for (int v = 0; v < 2; v++) {
        m.ids[v] = malloc(LISTED * sizeof(int64_t));
        m.data[v] = malloc((size_t)LISTED * WIDTH * sizeof(float));
    }
    fake_n_pieces = n_pieces;
    begin(MANY, WIDTH);
    KT_OK(init(sparse_tensor(NULL, &none)));
    for (uint64_t round = 1; round <= 3; round++) {
        fill_many(&m, round);
        KT_OK(push_many(&m));
    }
    expect_dense(m.want, (int64_t)MANY * WIDTH);
    KT_OK(pull_rows(sparse_tensor(got, &out), m.ids[0], LISTED));
    for (int64_t i = 0; i < out.n_rows; i++) {
        n_wrong += i > 0 && out.ids[i] <= out.ids[i - 1];
        for (int j = 0; j < WIDTH; j++) {
            n_wrong += got[i * WIDTH + j] != m.want[out.ids[i] * WIDTH + j];
        }
    }
    KT_INT(n_wrong, 0);
    KT_TRUE(out.n_rows > LISTED * 9 / 10);
    end();
    fake_n_pieces = 1;
    for (int v = 0; v < 2; v++) {
        free(m.ids[v]);
        free(m.data[v]);
    }
    free(m.want);
    free(out.ids);
    free(got);
}

static void a_million_rows_of_which_some_are_pushed_on_one_thread(void)
{
    many_rows_of_a_million(1);
}

static void a_million_rows_of_which_some_are_pushed_on_several_threads(void)
{
    many_rows_of_a_million(5);
}

static const kt_test_t tests[] = {
    KT_TEST(init_adds_repeated_rows_and_leaves_out_zeros),
    KT_TEST(a_push_replaces_and_clears_what_it_does_not_list),
    KT_TEST(explicit_zero_rows_are_rows_of_the_key),
    KT_TEST(a_dense_key_takes_the_dense_form_of_the_sum),
    KT_TEST(a_bad_id_changes_nothing_and_names_the_key),
    KT_TEST(rows_are_given_sorted_and_unique),
    KT_TEST(ids_are_read_before_any_out_is_written),
    KT_TEST(of_outs_that_share_memory_the_last_of_the_call_stays),
    KT_TEST(too_little_room_is_an_error_before_anything_is_written),
    KT_TEST(a_pushpull_without_room_for_what_must_come_pushes_nothing),
    KT_TEST(dense_and_row_sparse_outs_may_stand_together),
    KT_TEST(pushpull_in_place_gives_back_the_sums_rows),
    KT_TEST(an_updater_gets_the_summed_rows_and_the_dense_value),
    KT_TEST(rows_that_only_an_updater_has_set_belong_to_the_key),
    KT_TEST(a_dense_keys_updater_gets_the_summed_rows),
    KT_TEST(an_updaters_error_leaves_what_it_left),
    KT_TEST(shapes_without_rows_or_columns_work),
    KT_TEST(a_million_rows_of_which_some_are_pushed_on_one_thread),
    KT_TEST(a_million_rows_of_which_some_are_pushed_on_several_threads),
};
KT_MAIN("hoststore_sparse", tests)
