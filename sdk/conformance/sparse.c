/* SPDX-License-Identifier: Apache-2.0 */
/* sparse.c - see sparse.h. An array of rows is an array of `width` columns whose tensor has the table's
 * shape. Behind the ids that an out has room for lies one that must stay. */
#include "sparse.h"

#include <string.h>

#define UNTOUCHED_ID INT64_C(-987654321)

cf_table_t cf_table(cf_t *t, int64_t n_rows, int64_t width)
{
    return (cf_table_t){n_rows, width, cf_alloc(t, (size_t)(n_rows * width + 1) * sizeof(double))};
}

void cf_table_clear(cf_table_t *table)
{
    memset(table->elems, 0, (size_t)(table->n_rows * table->width) * sizeof(*table->elems));
}

/* Room for n rows. */
static cf_array_t *new_rows(cf_t *t, int dtype, const cf_table_t *table, int64_t n)
{
    cf_array_t *array = cf_new(t, dtype, 2, (const int64_t[]){n, table->width});
    kvs_rows_t *rows = cf_alloc(t, sizeof(*rows));

    array->shape[0] = table->n_rows;
    rows->ids = cf_alloc(t, (size_t)(n + 1) * sizeof(int64_t));
    for (int64_t i = 0; i <= n; i++) {
        rows->ids[i] = UNTOUCHED_ID;
    }
    rows->capacity = n;
    array->tensor.rows = rows;
    return array;
}

cf_array_t *cf_rows(cf_t *t, int dtype, const cf_table_t *table, int64_t n, const int64_t *ids)
{
    cf_array_t *array = new_rows(t, dtype, table, n);

    for (int64_t i = 0; i < n; i++) {
        array->tensor.rows->ids[i] = ids[i];
    }
    array->tensor.rows->n_rows = n;
    return array;
}

cf_array_t *cf_ranked_rows(cf_t *t, int dtype, const cf_table_t *table, int place, int64_t n,
                           const int64_t *ids)
{
    cf_array_t *array = cf_rows(t, dtype, table, n, ids);

    cf_fill_ranked(t, array, place);
    return array;
}

cf_array_t *cf_rows_out(cf_t *t, int dtype, const cf_table_t *table, int64_t capacity)
{
    cf_array_t *array = new_rows(t, dtype, table, capacity);

    cf_set_all(t, array, 77);
    array->tensor.rows->n_rows = -1;
    return array;
}

cf_array_t *cf_dense(cf_t *t, int dtype, const cf_table_t *table, double value)
{
    cf_array_t *array = cf_new(t, dtype, 2, (const int64_t[]){table->n_rows, table->width});

    cf_set_all(t, array, value);
    return array;
}

void cf_add_ranked(cf_t *t, cf_table_t *table, int place, int64_t n, const int64_t *ids)
{
    for (int rank = 0; rank < t->n_workers; rank++) {
        for (int64_t i = 0; i < n * table->width; i++) {
            table->elems[ids[i / table->width] * table->width + i % table->width] +=
                cf_value(rank, place, i);
        }
    }
}

void cf_add_rows(cf_t *t, cf_table_t *table, const cf_array_t *rows, double times)
{
    const int64_t *ids = rows->tensor.rows->ids;
    cf_window_t window = {.array = rows};

    for (int64_t i = 0; i < rows->tensor.rows->n_rows * table->width; i++) {
        table->elems[ids[i / table->width] * table->width + i % table->width] +=
            times * cf_peek(t, &window, i);
    }
}

static double id_number(void *arg, int64_t i)
{
    const int64_t *const *ids = arg;

    return (double)(*ids)[i];
}

cf_array_t *cf_ids(cf_t *t, int dtype, int64_t n, const int64_t *ids)
{
    cf_array_t *array = cf_vector(t, dtype, n);

    cf_set_each(t, array, id_number, &ids);
    return array;
}

void cf_pull_rows(cf_t *t, kvs_key_t key, cf_array_t *out, cf_array_t *ids)
{
    CF_OK(t, kvs_store_row_sparse_pull(t->store, &key, 1, CF_LIST(t, out), CF_LIST(t, ids), NULL));
}

void cf_want_rows(cf_t *t, const char *what, const cf_array_t *out, const cf_table_t *table,
                  int64_t n, const int64_t *ids)
{
    const kvs_rows_t *rows = out->tensor.rows;
    cf_window_t window = {.array = out};

    cf_want_number(t, what, rows->n_rows, n);
    for (int64_t i = 0; i < n && !t->failed; i++) {
        cf_want_number(t, what, rows->ids[i], ids[i]);
        for (int64_t j = 0; j < table->width && !t->failed; j++) {
            double want = table->elems[ids[i] * table->width + j];

            if (cf_peek(t, &window, i * table->width + j) != want) {
                cf_want_at(t, what, out, i * table->width + j, want);
            }
        }
    }
    if (rows->ids[rows->capacity] != UNTOUCHED_ID) {
        cf_fail(t, "%s: an id was written past the out's room", what);
    }
}

void cf_want_table(cf_t *t, const char *what, kvs_key_t key, int dtype, const cf_table_t *table)
{
    int64_t *ids = cf_alloc(t, (size_t)(table->n_rows + 1) * sizeof(*ids));
    cf_array_t *out = cf_rows_out(t, dtype, table, table->n_rows);

    for (int64_t i = 0; i < table->n_rows; i++) {
        ids[i] = i;
    }
    cf_pull_rows(t, key, out, cf_ids(t, KVS_DTYPE_int64, table->n_rows, ids));
    cf_want_rows(t, what, out, table, table->n_rows, ids);
}

void cf_want_dense(cf_t *t, const char *what, const cf_array_t *array, const cf_table_t *table)
{
    cf_window_t window = {.array = array};

    for (int64_t i = 0; i < table->n_rows * table->width && !t->failed; i++) {
        if (cf_peek(t, &window, i) != table->elems[i]) {
            cf_want_at(t, what, array, i, table->elems[i]);
        }
    }
}
