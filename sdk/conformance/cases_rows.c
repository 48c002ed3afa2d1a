/* SPDX-License-Identifier: Apache-2.0 */
/* cases_rows.c - reading row-sparse keys: row_sparse_pull, pull, pushpull and broadcast. */
#include "sparse.h"
#include "themes.h"

#include <string.h>

enum { ROWS = 10, WIDTH = 3, F32 = KVS_DTYPE_float32 };

/* A key whose rows 1, 2, 5 and 9 hold 1, 2, 3, …; gives its table. */
static cf_table_t init_some(cf_t *t, kvs_key_t key, int dtype)
{
    cf_table_t table = cf_table(t, ROWS, WIDTH);
    cf_array_t *value = CF_ROWS(t, dtype, &table, 1, 2, 5, 9);

    for (int64_t i = 0; i < 4 * WIDTH; i++) {
        cf_set(t, value, i, (double)i + 1);
    }
    cf_init(t, key, value);
    cf_add_rows(t, &table, value, 1);
    return table;
}

/* ---- row_sparse_pull ------------------------------------------------------------------------------ */

static void sorted(cf_t *t)
{
    kvs_key_t key = cf_key(t, 1);
    cf_table_t table = init_some(t, key, F32);
    cf_array_t *out = cf_rows_out(t, F32, &table, 3);

    cf_pull_rows(t, key, out, CF_IDS(t, 9, 1, 5));
    CF_WANT_ROWS(t, "rows asked for as 9, 1, 5", out, &table, 1, 5, 9);
}

static void unique(cf_t *t)
{
    kvs_key_t key = cf_key(t, 1);
    cf_table_t table = init_some(t, key, F32);
    cf_array_t *out = cf_rows_out(t, F32, &table, 6);

    cf_pull_rows(t, key, out, CF_IDS(t, 2, 2, 5, 1, 2, 5));
    CF_WANT_ROWS(t, "rows asked for as 2, 2, 5, 1, 2, 5", out, &table, 1, 2, 5);
}

static void absent(cf_t *t)
{
    kvs_key_t key = cf_key(t, 1);
    cf_table_t table = init_some(t, key, F32);
    cf_array_t *out = cf_rows_out(t, F32, &table, 4);

    cf_pull_rows(t, key, out, CF_IDS(t, 0, 1, 3, 8));
    CF_WANT_ROWS(t, "rows of which the key has one", out, &table, 0, 1, 3, 8);
}

static void any_ids(cf_t *t)
{
    static const int dtypes[] = {KVS_DTYPE_int8, KVS_DTYPE_uint8, KVS_DTYPE_int32, KVS_DTYPE_int64};
    static const int64_t ids[] = {9, 2, 2, 0, 5, 9}, shape[3] = {1, 3, 2};
    kvs_key_t key = cf_key(t, 1);
    cf_table_t table = init_some(t, key, F32);

    for (int i = 0; i < 4; i++) {
        cf_array_t *array = cf_new(t, dtypes[i], 3, shape);
        cf_array_t *scalar = cf_new(t, dtypes[i], 0, NULL);
        cf_array_t *out = cf_rows_out(t, F32, &table, 6);

        for (int j = 0; j < 6; j++) {
            cf_set_int(t, array, j, ids[j]);
        }
        cf_set_int(t, scalar, 0, 5);
        cf_pull_rows(t, key, out, array);
        CF_WANT_ROWS(t, kvs_dtype_name(kvs_dtype(dtypes[i])), out, &table, 0, 2, 5, 9);
        cf_pull_rows(t, key, out, scalar);
        CF_WANT_ROWS(t, "a scalar id", out, &table, 5);
    }
}

static void no_ids(cf_t *t)
{
    kvs_key_t key = cf_key(t, 1);
    cf_table_t table = init_some(t, key, F32);
    cf_array_t *out = cf_rows_out(t, F32, &table, 2);
    cf_array_t *none = cf_rows_out(t, F32, &table, 0);

    cf_pull_rows(t, key, out, cf_ids(t, KVS_DTYPE_int64, 0, NULL));
    cf_want_rows(t, "no rows", out, &table, 0, NULL);
    cf_want_all(t, "an out that gets no rows", out, 77);
    cf_pull_rows(t, key, none, cf_ids(t, KVS_DTYPE_int32, 0, NULL));
    cf_want_rows(t, "no rows into no room", none, &table, 0, NULL);
}

static void several_outs(cf_t *t)
{
    kvs_key_t key = cf_key(t, 1);
    cf_table_t table = init_some(t, key, F32);
    cf_array_t *outs[3];

    for (int i = 0; i < 3; i++) {
        outs[i] = cf_rows_out(t, F32, &table, 3);
    }
    CF_OK(t, kvs_store_row_sparse_pull(t->store, &key, 1, cf_list(t, 3, outs),
                                       CF_LIST(t, CF_IDS(t, 9, 3, 9)), NULL));
    for (int i = 0; i < 3; i++) {
        CF_WANT_ROWS(t, "one of three outs", outs[i], &table, 3, 9);
    }
}

static void own_ids(cf_t *t)
{
    kvs_key_t key = cf_key(t, 1);
    cf_table_t table = init_some(t, key, F32);
    cf_array_t *outs[2] = {cf_rows_out(t, F32, &table, 2), cf_rows_out(t, F32, &table, 2)};

    CF_OK(t, kvs_store_row_sparse_pull(t->store, &key, 1, cf_list(t, 2, outs),
                                       CF_LIST(t, CF_IDS(t, 5, 1), CF_IDS(t, 9)), NULL));
    CF_WANT_ROWS(t, "the first out", outs[0], &table, 1, 5);
    CF_WANT_ROWS(t, "the second out", outs[1], &table, 9);
}

static void list(cf_t *t)
{
    kvs_key_t keys[3] = {cf_key(t, 2), cf_key(t, 1), cf_key(t, 2)};
    cf_table_t first = init_some(t, keys[0], F32), second = cf_table(t, 4, 2);
    cf_array_t *value = CF_ROWS(t, F32, &second, 3, 0), *outs[4];

    cf_set_all(t, value, 8);
    cf_init(t, keys[1], value);
    cf_add_rows(t, &second, value, 1);
    outs[0] = cf_rows_out(t, F32, &first, 2);
    outs[1] = cf_rows_out(t, F32, &first, 2);
    outs[2] = cf_rows_out(t, F32, &second, 2);
    outs[3] = cf_rows_out(t, F32, &first, 2);
    /* key 2 stands twice: with two outs and one list, then with one of each */
    CF_OK(t, kvs_store_row_sparse_pull(
                 t->store, keys, 3, CF_SPLIT(t, cf_list(t, 4, outs), 2, 1, 1),
                 CF_LIST(t, CF_IDS(t, 2, 1), CF_IDS(t, 3, 1), CF_IDS(t, 9, 9)), NULL));
    CF_WANT_ROWS(t, "an out of the key that stands twice", outs[0], &first, 1, 2);
    CF_WANT_ROWS(t, "its second out", outs[1], &first, 1, 2);
    CF_WANT_ROWS(t, "the out of the other key", outs[2], &second, 1, 3);
    CF_WANT_ROWS(t, "the out of the second place", outs[3], &first, 9);
}

static void converts(cf_t *t)
{
    static const int floating[] = {F32, KVS_DTYPE_float64, KVS_DTYPE_float16, KVS_DTYPE_bfloat16};
    cf_table_t table = cf_table(t, ROWS, 1);

    for (int from = 0; from < 4; from++) {
        kvs_key_t key = cf_key(t, from);
        cf_array_t *value = CF_ROWS(t, floating[from], &table, 3, 7);

        cf_set(t, value, 0, 1.0 / 3);
        cf_set(t, value, 1, 2049);
        cf_init(t, key, value);
        for (int to = 0; to < 4; to++) {
            cf_array_t *out = cf_rows_out(t, floating[to], &table, 2);

            cf_pull_rows(t, key, out, CF_IDS(t, 7, 3));
            table.elems[3] = cf_round(floating[to], cf_round(floating[from], 1.0 / 3));
            table.elems[7] = cf_round(floating[to], cf_round(floating[from], 2049));
            CF_WANT_ROWS(t, kvs_dtype_name(kvs_dtype(floating[from])), out, &table, 3, 7);
        }
    }
}

/* The ids asked for lie where an out's ids are written, of this out and of another. */
static void shared_ids(cf_t *t)
{
    kvs_key_t key = cf_key(t, 1);
    cf_table_t table = init_some(t, key, F32);
    cf_array_t *outs[2] = {cf_rows_out(t, F32, &table, 3), cf_rows_out(t, F32, &table, 3)};
    kvs_tensor_t ids[2];
    int64_t shape[1] = {3};
    kvs_arrays_t list = kvs_arrays(ids, 2);

    memcpy(outs[0]->tensor.rows->ids, (const int64_t[]){9, 5, 9}, 3 * sizeof(int64_t));
    memcpy(outs[1]->tensor.rows->ids, (const int64_t[]){2, 1, 0}, 3 * sizeof(int64_t));
    for (int i = 0; i < 2; i++) {
        ids[i] = (kvs_tensor_t){.data = outs[1 - i]->tensor.rows->ids,
                                .device = {KVS_DEVICE_CPU, 0},
                                .ndim = 1,
                                .dtype = kvs_dtype(KVS_DTYPE_int64),
                                .shape = shape};
    }
    CF_OK(t, kvs_store_row_sparse_pull(t->store, &key, 1, cf_list(t, 2, outs), &list, NULL));
    CF_WANT_ROWS(t, "an out whose ids were those of the other", outs[0], &table, 0, 1, 2);
    CF_WANT_ROWS(t, "the other", outs[1], &table, 5, 9);
}

static void room(cf_t *t)
{
    kvs_key_t key = cf_key(t, 1);
    cf_table_t table = init_some(t, key, F32);
    cf_array_t *exact = cf_rows_out(t, F32, &table, 3), *few = cf_rows_out(t, F32, &table, 2);

    cf_pull_rows(t, key, exact, CF_IDS(t, 9, 1, 9, 5, 9, 1));
    CF_WANT_ROWS(t, "an out with room for the different rows", exact, &table, 1, 5, 9);
    CF_FAIL(t,
            kvs_store_row_sparse_pull(t->store, &key, 1, CF_LIST(t, few),
                                      CF_LIST(t, CF_IDS(t, 9, 1, 9, 5)), NULL),
            KVS_ERR_ARGUMENT, cf_key_text(t, key));
    cf_want_part(t, "text of the error: the room there is", kvs_last_error(), "2 rows");
    cf_want_part(t, "text of the error: what is needed", kvs_last_error(), "3");
    cf_want_all(t, "the out of a refused pull", few, 77);
}

static void range(cf_t *t)
{
    static const int64_t bad[] = {ROWS, -1, INT64_C(1) << 40};
    kvs_key_t key = cf_key(t, 1);
    cf_table_t table = init_some(t, key, F32);
    cf_array_t *out = cf_rows_out(t, F32, &table, 3);

    for (int i = 0; i < 3; i++) {
        CF_FAIL(t,
                kvs_store_row_sparse_pull(t->store, &key, 1, CF_LIST(t, out),
                                          CF_LIST(t, CF_IDS(t, 1, bad[i])), NULL),
                KVS_ERR_RANGE, cf_key_text(t, key));
    }
    cf_want_number(t, "rows of a refused pull", out->tensor.rows->n_rows, -1);
    cf_want_all(t, "the out of refused pulls", out, 77);
}

static void wrong_kind(cf_t *t)
{
    kvs_key_t key = cf_key(t, 1), dense_key = cf_key(t, 2);
    cf_table_t table = init_some(t, key, F32);
    cf_array_t *dense = cf_dense(t, F32, &table, 4), *out = cf_rows_out(t, F32, &table, 3);
    cf_array_t *ids = CF_IDS(t, 1), *reals = CF_VALUES(t, F32, 1, 2);

    cf_init(t, dense_key, dense);
    CF_FAIL(
        t,
        kvs_store_row_sparse_pull(t->store, &dense_key, 1, CF_LIST(t, out), CF_LIST(t, ids), NULL),
        KVS_ERR_STORAGE, cf_key_text(t, dense_key));
    CF_FAIL(t,
            kvs_store_row_sparse_pull(t->store, &key, 1, CF_LIST(t, dense), CF_LIST(t, ids), NULL),
            KVS_ERR_STORAGE, cf_key_text(t, key));
    CF_FAIL(t,
            kvs_store_row_sparse_pull(t->store, &key, 1, CF_LIST(t, out), CF_LIST(t, reals), NULL),
            KVS_ERR_DTYPE, "float32");
    cf_want_all(t, "the dense out of a refused pull", dense, 4);
    cf_want_number(t, "rows of a refused pull", out->tensor.rows->n_rows, -1);
}

/* ---- pull ------------------------------------------------------------------------------------------- */

static void pull_refused(cf_t *t)
{
    kvs_key_t keys[2] = {cf_key(t, 1), cf_key(t, 2)};
    cf_table_t table = init_some(t, keys[0], F32);
    cf_array_t *out = cf_rows_out(t, F32, &table, ROWS);
    kvs_call_t keep = KVS_CALL_INIT;

    keep.flags = KVS_CALL_KEEP_SPARSE;
    cf_init(t, keys[1], cf_dense(t, F32, &table, 4));
    for (int i = 0; i < 2; i++) {
        CF_FAIL(t, kvs_store_pull(t->store, &keys[i], 1, CF_LIST(t, out), NULL), KVS_ERR_STORAGE,
                "row_sparse_pull");
    }
    CF_FAIL(t, kvs_store_pull(t->store, &keys[1], 1, CF_LIST(t, out), &keep), KVS_ERR_STORAGE,
            cf_key_text(t, keys[1]));
    cf_want_number(t, "rows of a refused pull", out->tensor.rows->n_rows, -1);
}

static void pull_dense(cf_t *t)
{
    kvs_key_t key = cf_key(t, 1);
    cf_table_t table = init_some(t, key, F32);
    cf_array_t *outs[2] = {cf_dense(t, F32, &table, 9), cf_dense(t, KVS_DTYPE_float64, &table, 9)};

    CF_OK(t, kvs_store_pull(t->store, &key, 1, cf_list(t, 2, outs), NULL));
    cf_want_dense(t, "the dense form", outs[0], &table);
    cf_want_dense(t, "the dense form, converted", outs[1], &table);
}

static void keep_rows(cf_t *t)
{
    kvs_key_t key = cf_key(t, 1);
    cf_table_t table = init_some(t, key, F32);
    cf_array_t *out = cf_rows_out(t, F32, &table, ROWS), *value;
    cf_array_t *few = cf_rows_out(t, F32, &table, 1);
    kvs_call_t keep = KVS_CALL_INIT;

    keep.flags = KVS_CALL_KEEP_SPARSE;
    CF_OK(t, kvs_store_pull(t->store, &key, 1, CF_LIST(t, out), &keep));
    CF_WANT_ROWS(t, "the rows of init", out, &table, 1, 2, 5, 9);
    value = CF_ROWS(t, F32, &table, 8, 0, 2);
    cf_set(t, value, 0, 3); /* rows 0 and 2 are zero, but they are rows */
    cf_push(t, key, CF_LIST(t, value));
    cf_table_clear(&table);
    cf_add_rows(t, &table, value, 1);
    CF_OK(t, kvs_store_pull(t->store, &key, 1, CF_LIST(t, out), &keep));
    CF_WANT_ROWS(t, "the rows of the push", out, &table, 0, 2, 8);
    CF_FAIL(t, kvs_store_pull(t->store, &key, 1, CF_LIST(t, few), &keep), KVS_ERR_ARGUMENT,
            cf_key_text(t, key));
    cf_want_all(t, "an out with too little room", few, 77);
}

/* ---- pushpull and broadcast --------------------------------------------------------------------------- */

static void pushpull(cf_t *t)
{
    kvs_key_t key = cf_key(t, 1);
    cf_table_t table = init_some(t, key, F32);
    cf_array_t *a = CF_ROWS(t, F32, &table, 7, 0), *b = CF_ROWS(t, F32, &table, 7);
    cf_array_t *out = cf_dense(t, F32, &table, 9);

    cf_set_all(t, a, 2);
    cf_set_all(t, b, 3);
    cf_table_clear(&table);
    cf_add_rows(t, &table, a, 1);
    cf_add_rows(t, &table, b, 1);
    cf_pushpull(t, key, CF_LIST(t, a, b), CF_LIST(t, out));
    cf_want_dense(t, "the dense form of the sum", out, &table);
    cf_want_table(t, "the key after it", key, F32, &table);
}

/* The sum has more rows than one of the values had. */
static void pushpull_in_place(cf_t *t)
{
    kvs_key_t key = cf_key(t, 1);
    cf_table_t table = init_some(t, key, F32);
    cf_array_t *values[2] = {cf_rows_out(t, F32, &table, 4), cf_rows_out(t, F32, &table, 4)};
    kvs_call_t keep = KVS_CALL_INIT;

    keep.flags = KVS_CALL_KEEP_SPARSE;
    memcpy(values[0]->tensor.rows->ids, (const int64_t[]){7, 0}, 2 * sizeof(int64_t));
    memcpy(values[1]->tensor.rows->ids, (const int64_t[]){4, 7}, 2 * sizeof(int64_t));
    cf_table_clear(&table);
    for (int i = 0; i < 2; i++) {
        values[i]->tensor.rows->n_rows = 2;
        cf_set_all(t, values[i], 2 + i);
        cf_add_rows(t, &table, values[i], 1);
    }
    CF_FAIL(t, kvs_store_pushpull(t->store, &key, 1, cf_list(t, 2, values), NULL, NULL),
            KVS_ERR_STORAGE, cf_key_text(t, key));
    CF_OK(t, kvs_store_pushpull(t->store, &key, 1, cf_list(t, 2, values), NULL, &keep));
    for (int i = 0; i < 2; i++) {
        CF_WANT_ROWS(t, "a value in whose place the sum came", values[i], &table, 0, 4, 7);
    }
}

static void broadcast(cf_t *t)
{
    kvs_key_t key = cf_key(t, 1);
    cf_table_t table = cf_table(t, ROWS, WIDTH);
    cf_array_t *value = CF_ROWS(t, F32, &table, 6, 2), *dense = cf_dense(t, F32, &table, 9);
    cf_array_t *out = cf_rows_out(t, F32, &table, 2);
    kvs_call_t keep = KVS_CALL_INIT;

    keep.flags = KVS_CALL_KEEP_SPARSE;
    cf_set_all(t, value, 5);
    cf_add_rows(t, &table, value, 1);
    CF_OK(t,
          kvs_store_broadcast(t->store, &key, 1, CF_LIST(t, value), CF_LIST(t, dense, out), &keep));
    cf_want_dense(t, "a dense out", dense, &table);
    CF_WANT_ROWS(t, "a row-sparse out", out, &table, 2, 6);
}

/* Where only the rows asked for travel. */
static void pull_by_rows(cf_t *t)
{
    kvs_key_t keys[3] = {cf_key(t, 1), cf_key(t, 2), cf_key(t, 3)};
    cf_table_t table = init_some(t, keys[0], F32);
    cf_array_t *value = CF_ROWS(t, F32, &table, 7, 0), *dense = cf_dense(t, F32, &table, 9);

    cf_init(t, keys[1], cf_dense(t, F32, &table, 4));
    CF_FAIL(t, kvs_store_pull(t->store, &keys[0], 1, CF_LIST(t, dense), NULL), KVS_ERR_STORAGE,
            "row_sparse_pull");
    for (int i = 0; i < 2; i++) {
        CF_FAIL(
            t,
            kvs_store_pushpull(t->store, &keys[i], 1, CF_LIST(t, value), CF_LIST(t, dense), NULL),
            KVS_ERR_STORAGE, cf_key_text(t, keys[i]));
    }
    CF_FAIL(t,
            kvs_store_broadcast(t->store, &keys[2], 1, CF_LIST(t, value), CF_LIST(t, dense), NULL),
            KVS_ERR_STORAGE, cf_key_text(t, keys[2]));
    cf_want_all(t, "the out of refused pulls", dense, 9);
    cf_init(t, keys[2], value);
    cf_want_table(t, "the key after it", keys[0], F32, &table);
}

/* Some workers bring rows, the others none. */
static void some_push(cf_t *t)
{
    static const int64_t ids[] = {9, 2, 9};
    kvs_key_t key = cf_key(t, 1);
    cf_table_t table = cf_table(t, ROWS, WIDTH);
    int64_t n = t->rank == t->n_workers - 1 ? 3 : 0;

    cf_init(t, key, cf_rows(t, F32, &table, 0, NULL));
    cf_push(t, key, CF_LIST(t, cf_ranked_rows(t, F32, &table, 0, n, ids)));
    for (int64_t i = 0; i < 3 * WIDTH; i++) {
        table.elems[ids[i / WIDTH] * WIDTH + i % WIDTH] += cf_value(t->n_workers - 1, 0, i);
    }
    cf_want_table(t, "the rows of the last rank", key, F32, &table);
}

/* Rows of 12 bytes, and ids of 8. */
static void counts(cf_t *t)
{
    kvs_key_t key = cf_key(t, 1);
    cf_table_t table = init_some(t, key, F32);
    cf_array_t *out = cf_rows_out(t, F32, &table, ROWS);
    kvs_stats_t before = {.size = sizeof(before)}, after = {.size = sizeof(after)};

    CF_OK(t, kvs_store_stats(t->store, &before));
    cf_push(t, key, CF_LIST(t, CF_ROWS(t, F32, &table, 1, 2, 1), CF_ROWS(t, F32, &table, 4)));
    cf_pull_rows(t, key, out, CF_IDS(t, 1, 4, 1));
    CF_OK(t, kvs_store_wait_all(t->store, -1));
    CF_OK(t, kvs_store_stats(t->store, &after));
    cf_want_number(t, "bytes of four rows pushed",
                   (int64_t)(after.bytes_pushed - before.bytes_pushed), 4 * (12 + 8));
    cf_want_number(t, "bytes of two rows pulled",
                   (int64_t)(after.bytes_pulled - before.bytes_pulled), 2 * (12 + 8));
}

static const cf_case_t cases[] = {
    {"rows.sorted", "row_sparse_pull gives the rows named, sorted.", CF_WEIGHTS | CF_SPARSE,
     sorted},
    {"rows.unique", "Ids may repeat; each row is given once.", CF_WEIGHTS | CF_SPARSE, unique},
    {"rows.absent", "Rows that the key does not have are given as zeros.", CF_WEIGHTS | CF_SPARSE,
     absent},
    {"rows.any_ids", "Ids may have any integer dtype and any shape.", CF_WEIGHTS | CF_SPARSE,
     any_ids},
    {"rows.no_ids", "No ids give an empty result.", CF_WEIGHTS | CF_SPARSE, no_ids},
    {"rows.several_outs", "One list of ids serves several outs.", CF_WEIGHTS | CF_SPARSE,
     several_outs},
    {"rows.own_ids", "Each out may have its own list of ids.", CF_WEIGHTS | CF_SPARSE, own_ids},
    {"rows.list", "A list of keys is pulled at once, also with a key that stands twice.",
     CF_WEIGHTS | CF_SPARSE, list},
    {"rows.converts", "An out of another floating dtype is converted to.", CF_WEIGHTS | CF_SPARSE,
     converts},
    {"rows.shared_ids", "The ids may lie where an out's ids are written.", CF_WEIGHTS | CF_SPARSE,
     shared_ids},
    {"rows.room", "Too little room in an out is an error naming both numbers.",
     CF_WEIGHTS | CF_SPARSE, room},
    {"rows.range", "An id outside the shape is an error naming the key.", CF_WEIGHTS | CF_SPARSE,
     range},
    {"rows.wrong_kind",
     "row_sparse_pull of a dense key, into a dense out, or by ids that are no integers is an "
     "error.",
     CF_WEIGHTS | CF_SPARSE, wrong_kind},
    {"rows.pull_refused", "A pull into a row-sparse out is an error naming row_rows.",
     CF_WEIGHTS | CF_SPARSE, pull_refused},
    {"rows.pull_dense", "A pull into a dense out writes the dense form.",
     CF_WEIGHTS | CF_SPARSE | CF_PULLS_SPARSE, pull_dense},
    {"rows.keep_rows", "With keep_sparse a pull gives the rows that a row-sparse key has.",
     CF_WEIGHTS | CF_REPLACES | CF_SPARSE | CF_PULLS_SPARSE, keep_rows},
    {"rows.pushpull", "pushpull of row-sparse values writes the dense form to dense outs.",
     CF_WEIGHTS | CF_REPLACES | CF_SPARSE | CF_PULLS_SPARSE, pushpull},
    {"rows.pushpull_in_place",
     "With keep_sparse a pushpull in place gives the sum's rows, where there is room for them.",
     CF_WEIGHTS | CF_REPLACES | CF_SPARSE | CF_PULLS_SPARSE, pushpull_in_place},
    {"rows.broadcast", "broadcast of a row-sparse value is init, then pull.",
     CF_WEIGHTS | CF_SPARSE | CF_PULLS_SPARSE, broadcast},
    {"rows.pull_by_rows",
     "Where rows travel, pull, pushpull and broadcast of row-sparse keys or values are errors.",
     CF_WEIGHTS | CF_SPARSE | CF_NO_SPARSE_PULL, pull_by_rows},
    {"rows.some_push", "A worker may push no rows while others push some.",
     CF_WEIGHTS | CF_SPARSE | CF_REPLACES, some_push},
    {"rows.counts", "Statistics count the rows and ids that came and went.",
     CF_WEIGHTS | CF_SPARSE | CF_REPLACES, counts},
};

const cf_theme_t cf_theme_rows = CF_THEME(cases);
