/* SPDX-License-Identifier: Apache-2.0 */
/* sparse.h - what cases of row-sparse arrays are written with: arrays of some rows of a table, and tables
 * of doubles in which a plain loop works out what is wanted. */
#ifndef CF_SPARSE_H
#define CF_SPARSE_H

#include "case.h"

/* What a key should hold. */
typedef struct cf_table {
    int64_t n_rows, width;
    double *elems;
} cf_table_t;

cf_table_t cf_table(cf_t *t, int64_t n_rows, int64_t width); /* zeros */

/* Rows `ids` of such a table; elements are zero and reached by cf_set and cf_get, `width` a row. */
cf_array_t *cf_rows(cf_t *t, int dtype, const cf_table_t *table, int64_t n, const int64_t *ids);
#define CF_ROWS(t, dtype, table, ...)                                                              \
    cf_rows((t), (dtype), (table), (int64_t)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)),  \
            (const int64_t[]){__VA_ARGS__})
/* The same with elements cf_value(rank of this process, place, i). */
cf_array_t *cf_ranked_rows(cf_t *t, int dtype, const cf_table_t *table, int place, int64_t n,
                           const int64_t *ids);
#define CF_RANKED_ROWS(t, dtype, table, place, ...)                                                \
    cf_ranked_rows((t), (dtype), (table), (place),                                                 \
                   (int64_t)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)),                  \
                   (const int64_t[]){__VA_ARGS__})
/* An out with room for so many. */
cf_array_t *cf_rows_out(cf_t *t, int dtype, const cf_table_t *table, int64_t capacity);
/* A dense array of the table's shape. */
cf_array_t *cf_dense(cf_t *t, int dtype, const cf_table_t *table, double value);

/* Add what every rank pushes with cf_ranked_rows to the table. */
void cf_add_ranked(cf_t *t, cf_table_t *table, int place, int64_t n, const int64_t *ids);
/* Add one array's elements, `times` over. */
void cf_add_rows(cf_t *t, cf_table_t *table, const cf_array_t *rows, double times);
void cf_table_clear(cf_table_t *table);

/* An array of row ids. */
cf_array_t *cf_ids(cf_t *t, int dtype, int64_t n, const int64_t *ids);
#define CF_IDS(t, ...)                                                                             \
    cf_ids((t), KVS_DTYPE_int64, (int64_t)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)),    \
           (const int64_t[]){__VA_ARGS__})

/* One key, one out; success is wanted. */
void cf_pull_rows(cf_t *t, kvs_key_t key, cf_array_t *out, cf_array_t *ids);
/* `out` has these rows, ascending, with the table's elements. */
void cf_want_rows(cf_t *t, const char *what, const cf_array_t *out, const cf_table_t *table,
                  int64_t n, const int64_t *ids);
#define CF_WANT_ROWS(t, what, out, table, ...)                                                     \
    cf_want_rows((t), (what), (out), (table),                                                      \
                 (int64_t)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)),                    \
                 (const int64_t[]){__VA_ARGS__})
/* The key holds the table: all its rows are pulled by row_sparse_pull. */
void cf_want_table(cf_t *t, const char *what, kvs_key_t key, int dtype, const cf_table_t *table);
/* A dense array is the table. */
void cf_want_dense(cf_t *t, const char *what, const cf_array_t *array, const cf_table_t *table);

#endif
