/* SPDX-License-Identifier: Apache-2.0 */
/* cases_sparse.c - init and push of row-sparse values, without an updater: sums of rows that replace. */
#include "sparse.h"
#include "themes.h"

#include <math.h>

enum { ROWS = 10, WIDTH = 3, F32 = KVS_DTYPE_float32 };

/* A row-sparse key without rows. */
static void init_empty(cf_t *t, kvs_key_t key, int dtype, const cf_table_t *table)
{
    cf_init(t, key, cf_rows(t, dtype, table, 0, NULL));
}

/* ---- init ---------------------------------------------------------------------------------------- */

static void init_rows(cf_t *t)
{
    kvs_key_t keys[2] = {cf_key(t, 1), cf_key(t, 2)};
    cf_table_t table = cf_table(t, ROWS, WIDTH);
    cf_array_t *all = CF_ROWS(t, F32, &table, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9);
    cf_array_t *some = CF_ROWS(t, F32, &table, 7, 2);

    for (int64_t i = 0; i < ROWS * WIDTH; i++) {
        cf_set(t, all, i, (double)i + 1);
    }
    cf_set_all(t, some, 5);
    cf_init(t, keys[0], all);
    cf_init(t, keys[1], some);
    cf_add_rows(t, &table, all, 1);
    cf_want_table(t, "a key of all rows", keys[0], F32, &table);
    cf_table_clear(&table);
    cf_add_rows(t, &table, some, 1);
    cf_want_table(t, "a key of two rows, the others zero", keys[1], F32, &table);
}

static void init_nothing(cf_t *t)
{
    kvs_key_t key = cf_key(t, 1);
    cf_table_t table = cf_table(t, ROWS, WIDTH);

    init_empty(t, key, F32, &table);
    cf_want_table(t, "a key without rows", key, F32, &table);
    cf_push(t, key, CF_LIST(t, CF_RANKED_ROWS(t, F32, &table, 0, 4)));
    cf_add_ranked(t, &table, 0, 1, (const int64_t[]){4});
    cf_want_table(t, "a row pushed to a key without rows", key, F32, &table);
}

static void init_repeated(cf_t *t)
{
    kvs_key_t key = cf_key(t, 1);
    cf_table_t table = cf_table(t, ROWS, WIDTH);
    cf_array_t *value = CF_ROWS(t, F32, &table, 8, 3, 8);

    for (int64_t i = 0; i < 3 * WIDTH; i++) {
        cf_set(t, value, i, (double)i + 1);
    }
    cf_init(t, key, value);
    cf_add_rows(t, &table, value, 1);
    cf_want_table(t, "rows 8, 3, 8 of init", key, F32, &table);
}

static void init_copies(cf_t *t)
{
    kvs_key_t key = cf_key(t, 1);
    cf_table_t table = cf_table(t, ROWS, WIDTH);
    cf_array_t *value = CF_ROWS(t, F32, &table, 1, 2);

    cf_set_all(t, value, 3);
    cf_init(t, key, value);
    cf_add_rows(t, &table, value, 1);
    cf_set_all(t, value, 9);
    value->tensor.rows->ids[0] = 0;
    cf_want_table(t, "after the initial value was changed", key, F32, &table);
}

/* ---- push ---------------------------------------------------------------------------------------- */

static void unsorted(cf_t *t)
{
    static const int64_t ids[] = {7, 0, 9, 4};
    kvs_key_t key = cf_key(t, 1);
    cf_table_t table = cf_table(t, ROWS, WIDTH);

    init_empty(t, key, F32, &table);
    cf_push(t, key, CF_LIST(t, cf_ranked_rows(t, F32, &table, 0, 4, ids)));
    cf_add_ranked(t, &table, 0, 4, ids);
    cf_want_table(t, "rows pushed as 7, 0, 9, 4", key, F32, &table);
}

static void repeated(cf_t *t)
{
    static const int64_t ids[] = {5, 5, 2, 5, 2};
    kvs_key_t key = cf_key(t, 1);
    cf_table_t table = cf_table(t, ROWS, WIDTH);

    init_empty(t, key, F32, &table);
    cf_push(t, key, CF_LIST(t, cf_ranked_rows(t, F32, &table, 0, 5, ids)));
    cf_add_ranked(t, &table, 0, 5, ids);
    cf_want_table(t, "rows pushed as 5, 5, 2, 5, 2", key, F32, &table);
}

static void unites(cf_t *t)
{
    static const int64_t ids[3][3] = {{1, 4, 8}, {8, 0, 4}, {6, 6, 1}};
    kvs_key_t key = cf_key(t, 1);
    cf_table_t table = cf_table(t, ROWS, WIDTH);
    cf_array_t *values[4];

    for (int i = 0; i < 3; i++) {
        values[i] = cf_ranked_rows(t, F32, &table, i, 3, ids[i]);
        cf_add_ranked(t, &table, i, 3, ids[i]);
    }
    values[3] = cf_rows(t, F32, &table, 0, NULL);
    init_empty(t, key, F32, &table);
    cf_push(t, key, cf_list(t, 4, values));
    cf_want_table(t, "the union of four values", key, F32, &table);
}

static void replaces(cf_t *t)
{
    static const int64_t first[] = {1, 2, 9}, second[] = {2, 3};
    kvs_key_t key = cf_key(t, 1);
    cf_table_t table = cf_table(t, ROWS, WIDTH);
    cf_array_t *initial = CF_ROWS(t, F32, &table, 0, 1, 2);

    cf_set_all(t, initial, 6);
    cf_init(t, key, initial);
    cf_push(t, key, CF_LIST(t, cf_ranked_rows(t, F32, &table, 1, 3, first)));
    cf_add_ranked(t, &table, 1, 3, first);
    cf_want_table(t, "after the first push", key, F32, &table);
    cf_push(t, key, CF_LIST(t, cf_ranked_rows(t, F32, &table, 2, 2, second)));
    cf_table_clear(&table);
    cf_add_ranked(t, &table, 2, 2, second);
    cf_want_table(t, "after the second push", key, F32, &table);
}

static void empty_push(cf_t *t)
{
    kvs_key_t key = cf_key(t, 1);
    cf_table_t table = cf_table(t, ROWS, WIDTH);
    cf_array_t *initial = CF_ROWS(t, F32, &table, 1, 5);

    cf_set_all(t, initial, 6);
    cf_init(t, key, initial);
    cf_push(t, key, CF_LIST(t, cf_rows(t, F32, &table, 0, NULL)));
    cf_want_table(t, "after a push of no rows", key, F32, &table);
}

static void values_unchanged(cf_t *t)
{
    static const int64_t ids[] = {7, 7, 0, 3};
    kvs_key_t key = cf_key(t, 1);
    cf_table_t table = cf_table(t, ROWS, WIDTH);
    cf_array_t *values[2], *before[2];

    for (int i = 0; i < 2; i++) {
        values[i] = cf_ranked_rows(t, F32, &table, i, 4, ids);
        before[i] = cf_ranked_rows(t, F32, &table, i, 4, ids);
    }
    init_empty(t, key, F32, &table);
    cf_push(t, key, cf_list(t, 2, values));
    for (int i = 0; i < 2; i++) {
        cf_want_same(t, "a pushed array", values[i], before[i]);
        cf_want_number(t, "number of rows of a pushed array", values[i]->tensor.rows->n_rows, 4);
        for (int j = 0; j < 4; j++) {
            cf_want_number(t, "id of a pushed row", values[i]->tensor.rows->ids[j], ids[j]);
        }
    }
}

static void copies(cf_t *t)
{
    static const int64_t ids[] = {1, 6};
    kvs_key_t key = cf_key(t, 1);
    cf_table_t table = cf_table(t, ROWS, WIDTH);
    cf_array_t *value = cf_ranked_rows(t, F32, &table, 0, 2, ids);

    init_empty(t, key, F32, &table);
    cf_push(t, key, CF_LIST(t, value));
    cf_add_ranked(t, &table, 0, 2, ids);
    CF_OK(t, kvs_store_wait_all(t->store, -1));
    cf_set_all(t, value, 9);
    value->tensor.rows->ids[1] = 2;
    cf_want_table(t, "after the pushed array was changed", key, F32, &table);
}

/* 2^24 + 1 is lost in float32: every order but that of the list gives another sum. */
static void list_order(cf_t *t)
{
    kvs_key_t key = cf_key(t, 1);
    cf_table_t table = cf_table(t, ROWS, 1);
    cf_array_t *first = CF_ROWS(t, F32, &table, 3, 3), *second = CF_ROWS(t, F32, &table, 3, 3);

    cf_set(t, first, 0, 1);
    cf_set(t, first, 1, 16777216);
    cf_set(t, second, 0, -16777216);
    cf_set(t, second, 1, 1);
    init_empty(t, key, F32, &table);
    cf_push(t, key, CF_LIST(t, first, second));
    table.elems[3] = 1;
    cf_want_table(t, "1 + 2^24 - 2^24 + 1 in this order", key, F32, &table);
}

static void dtypes(cf_t *t)
{
    static const int64_t ids[2][3] = {{9, 0, 4}, {4, 4, 1}};

    for (int dtype = 0; dtype < KVS_N_DTYPES; dtype++) {
        kvs_key_t key = cf_key(t, dtype);
        cf_table_t table = cf_table(t, ROWS, WIDTH);

        if (!cf_has_dtype(t, dtype)) {
            continue;
        }
        init_empty(t, key, dtype, &table);
        cf_push(t, key,
                CF_LIST(t, cf_ranked_rows(t, dtype, &table, 0, 3, ids[0]),
                        cf_ranked_rows(t, dtype, &table, 1, 3, ids[1])));
        cf_add_ranked(t, &table, 0, 3, ids[0]);
        cf_add_ranked(t, &table, 1, 3, ids[1]);
        cf_want_table(t, "a sum", key, dtype, &table);
    }
}

/* 2048 + 1 is lost in float16 at every step, and 256 + 1 in bfloat16; their float32 sums are not. */
static void half_accumulates(cf_t *t)
{
    static const int halves[] = {KVS_DTYPE_float16, KVS_DTYPE_bfloat16};
    static const double bigs[] = {2048, 256};

    for (int i = 0; i < 2; i++) {
        kvs_key_t key = cf_key(t, i);
        cf_table_t table = cf_table(t, ROWS, 1);
        cf_array_t *value = CF_ROWS(t, halves[i], &table, 2, 2, 2, 2, 2);

        if (!cf_has_dtype(t, halves[i])) {
            continue;
        }
        cf_set_all(t, value, 1);
        cf_set(t, value, 0, bigs[i]);
        init_empty(t, key, halves[i], &table);
        cf_push(t, key, CF_LIST(t, value));
        table.elems[2] = bigs[i] + 4;
        cf_want_table(t, "a sum that rounds to its start at every step", key, halves[i], &table);
    }
}

static void non_finite(cf_t *t)
{
    kvs_key_t key = cf_key(t, 1);
    cf_table_t table = cf_table(t, ROWS, 1);
    cf_array_t *a = CF_ROWS(t, F32, &table, 1, 2, 3), *b = CF_ROWS(t, F32, &table, 3);

    cf_set(t, a, 0, (double)NAN);
    cf_set(t, a, 1, -(double)INFINITY);
    cf_set(t, a, 2, (double)INFINITY);
    cf_set(t, b, 0, -(double)INFINITY);
    init_empty(t, key, F32, &table);
    cf_push(t, key, CF_LIST(t, a, b));
    table.elems[1] = table.elems[3] = (double)NAN;
    table.elems[2] = -(double)INFINITY;
    cf_want_table(t, "NaN, infinity and their sum", key, F32, &table);
}

/* ---- Lists, shapes, sizes -------------------------------------------------------------------------- */

static void list(cf_t *t)
{
    static const int64_t ids[] = {2, 5};
    kvs_key_t keys[3] = {cf_key(t, 3), cf_key(t, 1), cf_key(t, 2)};
    cf_table_t table = cf_table(t, ROWS, WIDTH);
    cf_array_t *empty = cf_rows(t, F32, &table, 0, NULL), *values[4];

    CF_OK(t, kvs_store_init(t->store, keys, 3, CF_LIST(t, empty, empty, empty), NULL));
    for (int i = 0; i < 4; i++) {
        values[i] = cf_ranked_rows(t, F32, &table, i, 2, ids);
    }
    CF_OK(t, kvs_store_push(t->store, keys, 3, CF_SPLIT(t, cf_list(t, 4, values), 1, 2, 1), NULL));
    for (int k = 0, place = 0; k < 3; k++) {
        cf_table_clear(&table);
        for (int i = 0; i < (k == 1 ? 2 : 1); i++) {
            cf_add_ranked(t, &table, place++, 2, ids);
        }
        cf_want_table(t, "one of three keys", keys[k], F32, &table);
    }
}

static void same_key_twice(cf_t *t)
{
    static const int64_t ids[] = {2, 5};
    kvs_key_t keys[2] = {cf_key(t, 1), cf_key(t, 1)};
    cf_table_t table = cf_table(t, ROWS, WIDTH);

    init_empty(t, keys[0], F32, &table);
    CF_OK(t, kvs_store_push(t->store, keys, 2,
                            CF_LIST(t, cf_ranked_rows(t, F32, &table, 0, 2, ids),
                                    cf_ranked_rows(t, F32, &table, 1, 2, ids)),
                            NULL));
    cf_add_ranked(t, &table, 0, 2, ids);
    cf_add_ranked(t, &table, 1, 2, ids);
    cf_want_table(t, "a key that stood twice", keys[0], F32, &table);
}

/* Tables of that many rows and columns, whose every third row is pushed, the last ones first. */
static void push_thirds(cf_t *t, kvs_key_t key, int64_t n_rows, int64_t width)
{
    cf_table_t table = cf_table(t, n_rows, width);
    int64_t n = (n_rows + 2) / 3;
    int64_t *ids = cf_alloc(t, (size_t)(n + 1) * sizeof(*ids));

    for (int64_t i = 0; i < n; i++) {
        ids[i] = 3 * (n - 1 - i);
    }
    init_empty(t, key, F32, &table);
    cf_push(t, key,
            CF_LIST(t, cf_ranked_rows(t, F32, &table, 0, n, ids),
                    cf_ranked_rows(t, F32, &table, 1, n, ids)));
    cf_add_ranked(t, &table, 0, n, ids);
    cf_add_ranked(t, &table, 1, n, ids);
    cf_want_table(t, "every third row", key, F32, &table);
}

static void sizes(cf_t *t)
{
    static const int64_t n_rows[] = {0, 1, 2, 63, 64, 65, 200}, widths[] = {0, 1, 2, 17, 64, 100};
    int n = 0;

    for (size_t i = 0; i < sizeof(n_rows) / sizeof(n_rows[0]); i++) {
        for (size_t j = 0; j < sizeof(widths) / sizeof(widths[0]); j++) {
            push_thirds(t, cf_key(t, n++), n_rows[i], widths[j]);
        }
    }
}

static void large(cf_t *t)
{
    push_thirds(t, cf_key(t, 1), 30000, 40);
    push_thirds(t, cf_key(t, 2), 20, 30000);
}

/* Tables of one dimension, whose rows are single elements, and of three. */
static void dimensions(cf_t *t)
{
    static const int64_t flat[1] = {ROWS}, deep[3] = {ROWS, 2, 3};
    kvs_key_t keys[2] = {cf_key(t, 1), cf_key(t, 2)};
    const int64_t *shapes[2] = {flat, deep};
    int32_t ndims[2] = {1, 3};

    for (int k = 0; k < 2; k++) {
        cf_table_t table = cf_table(t, ROWS, k == 0 ? 1 : 6);
        cf_array_t *value = CF_RANKED_ROWS(t, F32, &table, 0, 8, 1);
        cf_array_t *empty = cf_rows(t, F32, &table, 0, NULL);
        cf_array_t *out = cf_rows_out(t, F32, &table, 3);

        value->tensor.shape = empty->tensor.shape = out->tensor.shape = shapes[k];
        value->tensor.ndim = empty->tensor.ndim = out->tensor.ndim = ndims[k];
        cf_init(t, keys[k], empty);
        cf_push(t, keys[k], CF_LIST(t, value));
        cf_add_ranked(t, &table, 0, 2, (const int64_t[]){8, 1});
        cf_pull_rows(t, keys[k], out, CF_IDS(t, 8, 0, 1));
        CF_WANT_ROWS(t, "rows of a table of another dimension", out, &table, 0, 1, 8);
    }
}

/* ---- Storage and errors ------------------------------------------------------------------------------ */

static void range(cf_t *t)
{
    static const int64_t bad[] = {ROWS, -1};
    kvs_key_t key = cf_key(t, 1), fresh = cf_key(t, 2);
    cf_table_t table = cf_table(t, ROWS, WIDTH);
    cf_array_t *initial = CF_ROWS(t, F32, &table, 1, 5);

    cf_set_all(t, initial, 6);
    cf_init(t, key, initial);
    cf_add_rows(t, &table, initial, 1);
    for (int i = 0; i < 2; i++) {
        cf_array_t *value = CF_ROWS(t, F32, &table, 2, bad[i]);

        CF_FAIL(t, kvs_store_push(t->store, &key, 1, CF_LIST(t, value), NULL), KVS_ERR_RANGE,
                cf_key_text(t, key));
        cf_want_part(t, "text of the range error", kvs_last_error(), i == 0 ? "10" : "-1");
        CF_FAIL(t, kvs_store_init(t->store, &fresh, 1, CF_LIST(t, value), NULL), KVS_ERR_RANGE,
                cf_key_text(t, fresh));
    }
    cf_want_table(t, "after the refused pushes", key, F32, &table);
}

static void mixed(cf_t *t)
{
    kvs_key_t keys[2] = {cf_key(t, 1), cf_key(t, 2)};
    cf_table_t table = cf_table(t, ROWS, WIDTH);
    cf_array_t *dense = cf_dense(t, F32, &table, 3), *rows = CF_ROWS(t, F32, &table, 1);
    cf_array_t *initial = CF_ROWS(t, F32, &table, 1, 5);

    cf_set_all(t, initial, 6);
    cf_add_rows(t, &table, initial, 1);
    cf_init(t, keys[0], initial);
    cf_init(t, keys[1], dense);
    for (int i = 0; i < 2; i++) {
        CF_FAIL(t, kvs_store_push(t->store, &keys[i], 1, CF_LIST(t, rows, dense), NULL),
                KVS_ERR_STORAGE, cf_key_text(t, keys[i]));
        CF_FAIL(t, kvs_store_push(t->store, &keys[i], 1, CF_LIST(t, dense, rows), NULL),
                KVS_ERR_STORAGE, cf_key_text(t, keys[i]));
    }
    CF_FAIL(t, kvs_store_push(t->store, &keys[0], 1, CF_LIST(t, dense), NULL), KVS_ERR_STORAGE,
            cf_key_text(t, keys[0]));
    cf_want_table(t, "after the refused pushes", keys[0], F32, &table);
}

static void dense_key(cf_t *t)
{
    static const int64_t ids[] = {4, 1, 4};
    kvs_key_t key = cf_key(t, 1);
    cf_table_t table = cf_table(t, ROWS, WIDTH);
    cf_array_t *out = cf_dense(t, F32, &table, 9);

    cf_init(t, key, cf_dense(t, F32, &table, 5));
    cf_push(t, key, CF_LIST(t, cf_ranked_rows(t, F32, &table, 0, 3, ids)));
    cf_add_ranked(t, &table, 0, 3, ids);
    cf_pull(t, key, out);
    cf_want_dense(t, "the dense form of the sum", out, &table);
    cf_push(t, key, CF_LIST(t, cf_dense(t, F32, &table, 2)));
    cf_pull(t, key, out);
    cf_want_all(t, "a dense push after it", out, 2 * t->n_workers);
}

static const cf_case_t cases[] = {
    {"sparse.init", "init stores the rows it is given; the others are zero.",
     CF_WEIGHTS | CF_SPARSE, init_rows},
    {"sparse.init_nothing", "A key may begin without rows.", CF_WEIGHTS | CF_SPARSE | CF_REPLACES,
     init_nothing},
    {"sparse.init_repeated", "Rows of init may come unsorted and repeated; repeated ones add.",
     CF_WEIGHTS | CF_SPARSE, init_repeated},
    {"sparse.init_copies", "init keeps a copy of the rows and of their ids.",
     CF_WEIGHTS | CF_SPARSE, init_copies},
    {"sparse.unsorted", "Pushed rows may come in any order.", CF_WEIGHTS | CF_SPARSE | CF_REPLACES,
     unsorted},
    {"sparse.repeated", "Pushed rows may repeat; repeated ones add.",
     CF_WEIGHTS | CF_SPARSE | CF_REPLACES, repeated},
    {"sparse.unites", "Of several values the sum has the rows of all.",
     CF_WEIGHTS | CF_SPARSE | CF_REPLACES, unites},
    {"sparse.replaces", "Without an updater the sum replaces; rows not pushed become zero.",
     CF_WEIGHTS | CF_SPARSE | CF_REPLACES, replaces},
    {"sparse.empty_push", "A push of no rows leaves none.", CF_WEIGHTS | CF_SPARSE | CF_REPLACES,
     empty_push},
    {"sparse.values_unchanged", "Pushed rows and their ids are never changed.",
     CF_WEIGHTS | CF_SPARSE | CF_REPLACES, values_unchanged},
    {"sparse.copies", "The store keeps no pointer to pushed rows or ids.",
     CF_WEIGHTS | CF_SPARSE | CF_REPLACES, copies},
    {"sparse.list_order", "Each row is summed in the order of the list, and of the value.",
     CF_WEIGHTS | CF_SPARSE | CF_REPLACES | CF_ONE_WORKER, list_order},
    {"sparse.dtypes", "Rows of all dtypes that are taken can be pushed.",
     CF_WEIGHTS | CF_SPARSE | CF_REPLACES, dtypes},
    {"sparse.half_accumulates", "Rows of half types are summed in float32 and rounded once.",
     CF_WEIGHTS | CF_SPARSE | CF_REPLACES | CF_ONE_WORKER, half_accumulates},
    {"sparse.non_finite", "NaN and infinity in rows pass through.",
     CF_WEIGHTS | CF_SPARSE | CF_REPLACES, non_finite},
    {"sparse.list", "A list of keys takes row-sparse values, several for a key.",
     CF_WEIGHTS | CF_SPARSE | CF_REPLACES, list},
    {"sparse.same_key_twice", "A key may stand twice in the list: its values form one group.",
     CF_WEIGHTS | CF_SPARSE | CF_REPLACES, same_key_twice},
    {"sparse.sizes", "Tables may have any number of rows and columns, also none.",
     CF_WEIGHTS | CF_SPARSE | CF_REPLACES, sizes},
    {"sparse.large", "Large tables and long rows work.", CF_WEIGHTS | CF_SPARSE | CF_REPLACES,
     large},
    {"sparse.dimensions", "Rows may be single elements, or have several dimensions.",
     CF_WEIGHTS | CF_SPARSE | CF_REPLACES, dimensions},
    {"sparse.range", "A row id outside the shape is an error naming it and the key.",
     CF_WEIGHTS | CF_SPARSE | CF_REPLACES, range},
    {"sparse.mixed",
     "Dense and row-sparse values of one key don't mix, and a row-sparse key takes no dense ones.",
     CF_WEIGHTS | CF_SPARSE | CF_REPLACES, mixed},
    {"sparse.dense_key", "A dense key becomes the dense form of a row-sparse sum.",
     CF_WEIGHTS | CF_SPARSE | CF_REPLACES, dense_key},
};

const cf_theme_t cf_theme_sparse = CF_THEME(cases);
