/* SPDX-License-Identifier: Apache-2.0 */
/* cases_gradients.c - row-sparse gradients: what an updater is given, and which rows an optimizer
 * changes. Numbers are binary fractions with few digits, so that every step is exact. */
#include "sparse.h"
#include "themes.h"

#include <string.h>

enum { ROWS = 8, WIDTH = 2, F32 = KVS_DTYPE_float32, MAX_SEEN = 8 };

/* ---- Updaters ---------------------------------------------------------------------------------------- */

typedef struct seen {
    int n_calls;
    bool is_sparse, stored_is_dense;
    int64_t n_rows, n_shape;
    int64_t ids[MAX_SEEN];
    float values[MAX_SEEN * WIDTH];
    int64_t beside; /* a row that is set to 50 beside those of the gradient; -1: none */
} seen_t;

/* stored += 2 * value, row by row. The views of host stores lie on the host. */
static kvs_status_t add_double(const kvs_key_t *key, const kvs_tensor_t *value,
                               const kvs_tensor_t *stored, void *arg)
{
    seen_t *seen = arg;
    const float *from = value->data;
    float *to = stored->data;

    (void)key;
    seen->n_calls++;
    seen->is_sparse = value->rows != NULL;
    seen->stored_is_dense = stored->rows == NULL;
    seen->n_shape = value->shape[0];
    seen->n_rows = value->rows != NULL ? value->rows->n_rows : -1;
    for (int64_t i = 0; i < seen->n_rows && i < MAX_SEEN; i++) {
        seen->ids[i] = value->rows->ids[i];
        for (int64_t j = 0; j < WIDTH; j++) {
            seen->values[i * WIDTH + j] = from[i * WIDTH + j];
            to[seen->ids[i] * WIDTH + j] += 2 * from[i * WIDTH + j];
        }
    }
    for (int64_t j = 0; j < WIDTH && seen->beside >= 0; j++) {
        to[seen->beside * WIDTH + j] = 50;
    }
    return KVS_OK;
}

static seen_t *set_updater(cf_t *t)
{
    seen_t *seen = cf_alloc(t, sizeof(*seen));

    seen->beside = -1;
    CF_OK(t, kvs_store_set_updater(t->store, add_double, seen));
    return seen;
}

static void updater_rows(cf_t *t)
{
    static const int64_t ids[2][3] = {{6, 1, 6}, {1, 0, 3}};
    kvs_key_t key = cf_key(t, 1);
    cf_table_t sum = cf_table(t, ROWS, WIDTH), stored = cf_table(t, ROWS, WIDTH);
    cf_array_t *initial = CF_ROWS(t, F32, &sum, 6, 2);
    seen_t *seen;

    cf_set_all(t, initial, 16);
    cf_init(t, key, initial);
    cf_add_rows(t, &stored, initial, 1);
    seen = set_updater(t);
    cf_push(t, key,
            CF_LIST(t, cf_ranked_rows(t, F32, &sum, 0, 3, ids[0]),
                    cf_ranked_rows(t, F32, &sum, 1, 3, ids[1])));
    CF_OK(t, kvs_store_wait_all(t->store, -1));
    cf_add_ranked(t, &sum, 0, 3, ids[0]);
    cf_add_ranked(t, &sum, 1, 3, ids[1]);
    cf_want_number(t, "calls", seen->n_calls, 1);
    cf_want_true(t, seen->is_sparse, "the updater's value is row-sparse");
    cf_want_true(t, seen->stored_is_dense, "the updater's stored value is dense");
    cf_want_number(t, "rows of the full shape", seen->n_shape, ROWS);
    cf_want_number(t, "rows of the gradient", seen->n_rows, 4);
    for (int64_t i = 0; i < 4 && !t->failed; i++) {
        static const int64_t want[] = {0, 1, 3, 6};

        cf_want_number(t, "ids of the gradient, ascending", seen->ids[i], want[i]);
        for (int64_t j = 0; j < WIDTH; j++) {
            cf_want_number(t, "an element of the gradient", (int64_t)seen->values[i * WIDTH + j],
                           (int64_t)sum.elems[want[i] * WIDTH + j]);
        }
    }
    for (int64_t i = 0; i < ROWS * WIDTH; i++) {
        stored.elems[i] += 2 * sum.elems[i];
    }
    cf_want_table(t, "stored += 2 * sum", key, F32, &stored);
}

static void updater_dense_key(cf_t *t)
{
    static const int64_t ids[] = {5, 1, 5};
    kvs_key_t key = cf_key(t, 1);
    cf_table_t table = cf_table(t, ROWS, WIDTH);
    cf_array_t *out = cf_dense(t, F32, &table, 0);
    seen_t *seen;

    cf_init(t, key, cf_dense(t, F32, &table, 3));
    seen = set_updater(t);
    cf_push(t, key, CF_LIST(t, cf_ranked_rows(t, F32, &table, 1, 3, ids)));
    cf_add_ranked(t, &table, 1, 3, ids);
    cf_pull(t, key, out);
    cf_want_number(t, "rows of the gradient for a dense key", seen->n_rows, 2);
    for (int64_t i = 0; i < ROWS * WIDTH; i++) {
        table.elems[i] = 3 + 2 * table.elems[i];
    }
    cf_want_dense(t, "a dense key after the updater", out, &table);
}

static void updater_empty(cf_t *t)
{
    kvs_key_t key = cf_key(t, 1);
    cf_table_t table = cf_table(t, ROWS, WIDTH);
    cf_array_t *initial = CF_ROWS(t, F32, &table, 6, 2);
    seen_t *seen;

    cf_set_all(t, initial, 16);
    cf_init(t, key, initial);
    cf_add_rows(t, &table, initial, 1);
    seen = set_updater(t);
    cf_push(t, key, CF_LIST(t, cf_rows(t, F32, &table, 0, NULL)));
    cf_want_table(t, "after an update by no rows", key, F32, &table);
    cf_want_number(t, "calls for a push of no rows", seen->n_calls, 1);
    cf_want_number(t, "rows of the gradient", seen->n_rows, 0);
}

/* Rows that only the updater has made are the key's, and the next push that replaces clears them. */
static void updater_beside(cf_t *t)
{
    kvs_key_t key = cf_key(t, 1);
    cf_table_t table = cf_table(t, ROWS, WIDTH);
    cf_array_t *value = CF_ROWS(t, F32, &table, 2), *out = cf_rows_out(t, F32, &table, ROWS);
    kvs_call_t keep = KVS_CALL_INIT;

    keep.flags = KVS_CALL_KEEP_SPARSE;
    cf_set_all(t, value, 1);
    cf_init(t, key, value);
    set_updater(t)->beside = 5;
    cf_push(t, key, CF_LIST(t, value));
    cf_add_rows(t, &table, value, 3);
    table.elems[5 * WIDTH] = table.elems[5 * WIDTH + 1] = 50;
    CF_OK(t, kvs_store_pull(t->store, &key, 1, CF_LIST(t, out), &keep));
    CF_WANT_ROWS(t, "rows after the update", out, &table, 2, 5);
    CF_OK(t, kvs_store_set_updater(t->store, NULL, NULL));
    cf_push(t, key, CF_LIST(t, value));
    cf_table_clear(&table);
    cf_add_rows(t, &table, value, 1);
    cf_want_table(t, "after a push that replaces again", key, F32, &table);
}

/* ---- Optimizers -------------------------------------------------------------------------------------- */

#define REAL(param_name, number)                                                                   \
    {                                                                                              \
        .name = (param_name), .type = KVS_PARAM_FLOAT, .value = {.real = (number) }                \
    }
#define FLAG(param_name, on)                                                                       \
    {                                                                                              \
        .name = (param_name), .type = KVS_PARAM_BOOL, .value = {.integer = (on) }                  \
    }

static kvs_status_t set_optimizer(cf_t *t, const char *name, const kvs_param_t *params,
                                  size_t n_params)
{
    kvs_optimizer_spec_t spec = KVS_OPTIMIZER_INIT;

    spec.name = name;
    spec.params = params;
    spec.n_params = n_params;
    return kvs_store_set_optimizer(t->store, &spec);
}

#define SET_OPTIMIZER(t, name, ...)                                                                \
    set_optimizer((t), (name), (const kvs_param_t[]){__VA_ARGS__},                                 \
                  sizeof((kvs_param_t[]){__VA_ARGS__}) / sizeof(kvs_param_t))

/* A row-sparse key all of whose rows are `weight`. */
static void init_all(cf_t *t, kvs_key_t key, const cf_table_t *table, double weight)
{
    int64_t ids[ROWS];
    cf_array_t *value;

    for (int64_t i = 0; i < ROWS; i++) {
        ids[i] = i;
    }
    value = cf_rows(t, F32, table, ROWS, ids);
    cf_set_all(t, value, weight);
    cf_init(t, key, value);
}

/* Every row is `listed` if it is 1 or 6, which the cases push, else `other`. */
static void set_table(cf_table_t *table, double listed, double other)
{
    for (int64_t i = 0; i < ROWS * WIDTH; i++) {
        int64_t row = i / WIDTH;

        table->elems[i] = row == 1 || row == 6 ? listed : other;
    }
}

/* Push the gradient 1 for rows 6 and 1; row 6 in two halves. */
static void push_ones(cf_t *t, kvs_key_t key, const cf_table_t *table)
{
    cf_array_t *a = CF_ROWS(t, F32, table, 6, 1), *b = CF_ROWS(t, F32, table, 6);

    for (int64_t j = 0; j < WIDTH; j++) {
        cf_set(t, a, j, 0.5);
        cf_set(t, a, WIDTH + j, 1);
        cf_set(t, b, j, 0.5);
    }
    cf_push(t, key, CF_LIST(t, a, b));
}

static void lazy(cf_t *t)
{
    kvs_key_t key = cf_key(t, 1);
    cf_table_t table = cf_table(t, ROWS, WIDTH);

    init_all(t, key, &table, 4);
    CF_OK(t, SET_OPTIMIZER(t, "sgd", REAL("learning_rate", 0.5), REAL("wd", 0.25),
                           FLAG("lazy_update", 1)));
    push_ones(t, key, &table);
    set_table(&table, 4 - 0.5 * (t->n_workers + 1), 4);
    cf_want_table(t, "sgd with lazy_update", key, F32, &table);
}

static void standard(cf_t *t)
{
    kvs_key_t key = cf_key(t, 1);
    cf_table_t table = cf_table(t, ROWS, WIDTH);

    init_all(t, key, &table, 4);
    CF_OK(t, SET_OPTIMIZER(t, "sgd", REAL("learning_rate", 0.5), REAL("wd", 0.25)));
    push_ones(t, key, &table);
    set_table(&table, 4 - 0.5 * (t->n_workers + 1), 4 - 0.5);
    cf_want_table(t, "sgd without lazy_update: weight decay in every row", key, F32, &table);
}

/* Rows without a gradient go on by their momentum, unless the update is lazy. */
static void momentum(cf_t *t)
{
    for (int is_lazy = 0; is_lazy < 2; is_lazy++) {
        kvs_key_t key = cf_key(t, is_lazy);
        cf_table_t table = cf_table(t, ROWS, WIDTH);
        cf_array_t *other = CF_ROWS(t, F32, &table, 3);
        double mom = -0.5 * t->n_workers;

        init_all(t, key, &table, 4);
        CF_OK(t, SET_OPTIMIZER(t, "sgd", REAL("learning_rate", 0.5), REAL("momentum", 0.5),
                               FLAG("lazy_update", is_lazy)));
        push_ones(t, key, &table);
        cf_set_all(t, other, 1);
        cf_push(t, key, CF_LIST(t, other));
        set_table(&table, 4 + mom + (is_lazy ? 0 : 0.5 * mom), 4);
        for (int64_t j = 0; j < WIDTH; j++) {
            table.elems[3 * WIDTH + j] = 4 + mom;
        }
        cf_want_table(t, is_lazy ? "momentum, lazy" : "momentum, not lazy", key, F32, &table);
    }
}

static void always_lazy(cf_t *t)
{
    static const char *const names[] = {"adagrad", "ftrl"};

    for (int i = 0; i < 2; i++) {
        kvs_key_t key = cf_key(t, i);
        cf_table_t table = cf_table(t, ROWS, WIDTH);
        cf_array_t *out = cf_rows_out(t, F32, &table, ROWS);

        init_all(t, key, &table, 4);
        CF_OK(t, SET_OPTIMIZER(t, names[i], REAL("learning_rate", 0.5), REAL("wd", 0.25)));
        push_ones(t, key, &table);
        cf_pull_rows(t, key, out, CF_IDS(t, 0, 1, 2, 5, 6, 7));
        for (int64_t j = 0; j < 6 * WIDTH && !t->failed; j++) {
            int64_t row = out->tensor.rows->ids[j / WIDTH];

            if (row == 1 || row == 6) {
                cf_want_true(t, cf_get(t, out, j) != 4, "a listed row changes");
            } else {
                cf_want_at(t, names[i], out, j, 4);
            }
        }
    }
}

/* nag knows no laziness: weight decay reaches every row, and so does momentum. */
static void dense_form(cf_t *t)
{
    kvs_key_t key = cf_key(t, 1);
    cf_table_t table = cf_table(t, ROWS, WIDTH);
    double step = 0.5 * (t->n_workers + 1);

    init_all(t, key, &table, 4);
    CF_OK(t, SET_OPTIMIZER(t, "nag", REAL("learning_rate", 0.5), REAL("momentum", 0.5),
                           REAL("wd", 0.25)));
    push_ones(t, key, &table);
    set_table(&table, 4 - 0.5 * step - step, 4 - 0.5 * 0.5 - 0.5);
    cf_want_table(t, "nag, in every row", key, F32, &table);
}

/* A push of no rows counts: the next one is the second, as after one of zeros. */
static void empty_counts(cf_t *t)
{
    kvs_key_t keys[3] = {cf_key(t, 1), cf_key(t, 2), cf_key(t, 3)};
    cf_table_t table = cf_table(t, ROWS, WIDTH);
    cf_array_t *outs[3];

    for (int i = 0; i < 3; i++) {
        init_all(t, keys[i], &table, 4);
        outs[i] = cf_rows_out(t, F32, &table, 2);
    }
    CF_OK(t, SET_OPTIMIZER(t, "adam", REAL("learning_rate", 0.5), FLAG("lazy_update", 1)));
    cf_push(t, keys[0], CF_LIST(t, cf_rows(t, F32, &table, 0, NULL)));
    cf_push(t, keys[1], CF_LIST(t, CF_ROWS(t, F32, &table, 1, 6)));
    for (int i = 0; i < 3; i++) {
        push_ones(t, keys[i], &table);
        cf_pull_rows(t, keys[i], outs[i], CF_IDS(t, 1, 6));
    }
    cf_want_same(t, "adam's second update, after one by no rows", outs[0], outs[1]);
    cf_want_true(t, cf_get(t, outs[0], 0) != cf_get(t, outs[2], 0),
                 "it is not the first update, which differs by bias correction");
}

/* All rows listed: the same bits as a dense key gets by dense gradients. */
static void same_as_dense(cf_t *t)
{
    static const struct {
        const char *name;
        bool has_flag, has_wd;
    } optimizers[] = {{"sgd", true, true},
                      {"adam", true, true},
                      {"adagrad", false, true},
                      {"groupadagrad", false, false},
                      {"ftrl", false, true}};

    for (int i = 0; i < 5; i++) {
        kvs_key_t sparse_key = cf_key(t, 2 * i), dense_key = cf_key(t, 2 * i + 1);
        cf_table_t table = cf_table(t, ROWS, WIDTH);
        kvs_param_t params[3] = {REAL("learning_rate", 0.3)};
        size_t n = 1;
        cf_array_t *dense = cf_dense(t, F32, &table, 4), *out = cf_dense(t, F32, &table, 0);
        cf_array_t *rows = CF_ROWS(t, F32, &table, 0, 1, 2, 3, 4, 5, 6, 7);

        init_all(t, sparse_key, &table, 4);
        cf_init(t, dense_key, dense);
        if (optimizers[i].has_wd) {
            params[n++] = (kvs_param_t)REAL("wd", 0.1);
        }
        if (optimizers[i].has_flag) {
            params[n++] = (kvs_param_t)FLAG("lazy_update", 1);
        }
        CF_OK(t, set_optimizer(t, optimizers[i].name, params, n));
        for (int step = 0; step < 3; step++) {
            cf_fill_ranked(t, rows, step);
            cf_fill_ranked(t, dense, step);
            cf_push(t, sparse_key, CF_LIST(t, rows));
            cf_push(t, dense_key, CF_LIST(t, dense));
        }
        cf_pull(t, dense_key, out);
        for (int64_t j = 0; j < ROWS * WIDTH; j++) {
            table.elems[j] = cf_get(t, out, j);
        }
        cf_want_table(t, optimizers[i].name, sparse_key, F32, &table);
    }
}

static void lazy_dense_key(cf_t *t)
{
    kvs_key_t key = cf_key(t, 1);
    cf_table_t table = cf_table(t, ROWS, WIDTH);
    cf_array_t *out = cf_dense(t, F32, &table, 0);

    cf_init(t, key, cf_dense(t, F32, &table, 4));
    CF_OK(t, SET_OPTIMIZER(t, "sgd", REAL("learning_rate", 0.5), REAL("wd", 0.25),
                           FLAG("lazy_update", 1)));
    push_ones(t, key, &table);
    set_table(&table, 4 - 0.5 * (t->n_workers + 1), 4);
    cf_pull(t, key, out);
    cf_want_dense(t, "a dense key by a row-sparse gradient", out, &table);
}

static void half_master(cf_t *t)
{
    kvs_key_t key = cf_key(t, 1);
    cf_table_t table = cf_table(t, 2, 1);
    cf_array_t *weight = CF_ROWS(t, KVS_DTYPE_float16, &table, 0, 1);
    cf_array_t *value = CF_ROWS(t, KVS_DTYPE_float16, &table, 1);

    if (!cf_has_dtype(t, KVS_DTYPE_float16)) {
        cf_skip(t, "the backend takes no float16");
        return;
    }
    cf_set_all(t, weight, 2048); /* where float16 counts by two */
    cf_init(t, key, weight);
    CF_OK(t, SET_OPTIMIZER(t, "sgd", REAL("learning_rate", 0.5), FLAG("lazy_update", 1),
                           FLAG("multi_precision", 1)));
    cf_set_all(t, value, -1);
    for (int i = 0; i < 8; i++) {
        cf_push(t, key, CF_LIST(t, value));
    }
    table.elems[0] = 2048;
    table.elems[1] = 2048 + 4 * t->n_workers;
    cf_want_table(t, "eight halves added to a float32 master", key, KVS_DTYPE_float16, &table);
}

static const cf_case_t cases[] = {
    {"gradients.updater_rows",
     "An updater is given the summed rows, ids ascending, and the dense stored value.",
     CF_WEIGHTS | CF_SPARSE | CF_UPDATER, updater_rows},
    {"gradients.updater_dense_key", "So it is for a row-sparse push to a dense key.",
     CF_WEIGHTS | CF_SPARSE | CF_UPDATER, updater_dense_key},
    {"gradients.updater_empty", "A push of no rows runs the updater, with no rows.",
     CF_WEIGHTS | CF_SPARSE | CF_UPDATER, updater_empty},
    {"gradients.updater_beside",
     "Rows that only an updater has set belong to the key, until a push replaces them.",
     CF_WEIGHTS | CF_SPARSE | CF_UPDATER | CF_ONE_WORKER, updater_beside},
    {"gradients.lazy", "With lazy_update sgd changes only the rows listed.",
     CF_WEIGHTS | CF_SPARSE | CF_OPTIMIZER | CF_IN_STEP, lazy},
    {"gradients.standard", "Without it the gradient of the other rows is zero.",
     CF_WEIGHTS | CF_SPARSE | CF_OPTIMIZER | CF_IN_STEP, standard},
    {"gradients.momentum", "Momentum of rows that are not listed goes on unless lazy.",
     CF_WEIGHTS | CF_SPARSE | CF_OPTIMIZER | CF_IN_STEP, momentum},
    {"gradients.always_lazy", "adagrad and ftrl change only the rows listed.",
     CF_WEIGHTS | CF_SPARSE | CF_OPTIMIZER, always_lazy},
    {"gradients.dense_form", "Every other optimizer is given the gradient's dense form.",
     CF_WEIGHTS | CF_SPARSE | CF_OPTIMIZER | CF_IN_STEP, dense_form},
    {"gradients.empty_counts", "A gradient of no rows counts as an update.",
     CF_WEIGHTS | CF_SPARSE | CF_OPTIMIZER | CF_IN_STEP, empty_counts},
    {"gradients.same_as_dense", "Listed rows get the bits of a dense update.",
     CF_WEIGHTS | CF_SPARSE | CF_OPTIMIZER | CF_IN_STEP, same_as_dense},
    {"gradients.lazy_dense_key", "A dense weight is updated lazily by row-sparse gradients.",
     CF_WEIGHTS | CF_SPARSE | CF_OPTIMIZER | CF_IN_STEP, lazy_dense_key},
    {"gradients.half_master", "With multi_precision listed rows keep a float32 master.",
     CF_WEIGHTS | CF_SPARSE | CF_OPTIMIZER | CF_IN_STEP, half_master},
};

const cf_theme_t cf_theme_gradients = CF_THEME(cases);
