/* SPDX-License-Identifier: Apache-2.0 */
/* test_lazy.c - updates by row-sparse gradients: which optimizers are lazy, that a listed row gets the bits
 * of a dense update, and that the others keep theirs. */
#include "rig.h"

#include "kt.h"

#include <kvstore/kit.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define N_ROWS 11
static const int64_t listed[] = {0, 2, 3, 4, 8, 10};
#define N_LISTED (sizeof(listed) / sizeof(listed[0]))

static int is_listed(int64_t row)
{
    for (size_t i = 0; i < N_LISTED; i++) {
        if (listed[i] == row) {
            return 1;
        }
    }
    return 0;
}

static kvs_opt_update_t issued(kvs_opt_t *opt)
{
    static const int64_t shape[] = {1};
    rig_key_t key = rig_key(0, KVS_DTYPE_float32, shape, 1);
    kvs_opt_update_t update = {0};

    key.entry.shape = key.shape;
    KT_OK(kvs_opt_issue(opt, &key.state, &key.entry, &update));
    rig_key_release(&key);
    return update;
}

static void only_some_optimizers_are_lazy(void)
{
    static const char *const always[] = {"adagrad", "groupadagrad", "ftrl"};
    static const char *const if_asked[] = {"sgd", "adam"};
    int n_lazy = 0;

    for (size_t i = 0; rig_optimizer_at(i) != NULL; i++) {
        kvs_opt_t *opt = rig_opt(rig_optimizer_at(i)->name, NULL, 0);

        n_lazy += issued(opt).lazy != 0;
        kvs_opt_free(opt);
    }
    KT_INT(n_lazy, 3);
    for (int i = 0; i < 3; i++) {
        kvs_opt_t *opt = rig_opt(always[i], NULL, 0);

        KT_INT(issued(opt).lazy, 1);
        kvs_opt_free(opt);
    }
    for (int i = 0; i < 2; i++) {
        kvs_opt_t *opt = RIG_OPT(if_asked[i], RIG_BOOL("lazy_update", 1));
        kvs_param_t off = RIG_BOOL("lazy_update", 0);
        kvs_opt_update_t before = issued(opt);

        KT_OK(kvs_opt_set_attr(opt, &off));
        KT_INT(before.lazy, 1);
        KT_INT(issued(opt).lazy, 0);
        kvs_opt_free(opt);
    }
}

/* ---- Rows -------------------------------------------------------------------------------------- */

static void fill(int dtype, int64_t n, double phase, void *array)
{
    double *values = malloc(((size_t)n + 1) * sizeof(*values));

    for (int64_t i = 0; i < n; i++) {
        values[i] = sin((double)i * 1.3 + phase) * (i % 7 == 0 ? 2 : 0.4);
    }
    kvs_cast(n, KVS_DTYPE_float64, values, dtype, array);
    free(values);
}

/* How many rows of `got` are not those of `dense` if listed, those of `first` if not. */
static int count_wrong(size_t row_bytes, const void *got, const void *dense, const void *first)
{
    int n_wrong = 0;

    for (int64_t row = 0; row < N_ROWS; row++) {
        size_t at = (size_t)row * row_bytes;
        const char *want = (const char *)(is_listed(row) ? dense : first) + at;

        n_wrong += memcmp((const char *)got + at, want, row_bytes) != 0;
    }
    return n_wrong;
}

/* Update the rows that are listed; `grad` is the whole gradient. */
static void update_listed(kvs_opt_t *opt, rig_key_t *key, const char *grad)
{
    size_t row_bytes = (size_t)key->shape[1] * kvs_dtype_bytes(key->dtype);
    char *rows = malloc(N_LISTED * row_bytes + 1);
    kvs_opt_update_t update;

    for (size_t i = 0; i < N_LISTED; i++) {
        memcpy(rows + i * row_bytes, grad + (size_t)listed[i] * row_bytes, row_bytes);
    }
    key->entry.shape = key->shape;
    KT_OK(kvs_opt_issue(opt, &key->state, &key->entry, &update));
    KT_OK(kvs_opt_begin(opt, &key->state, &key->entry, key->weight));
    /* in two calls, as two threads would */
    kvs_opt_step_rows(opt, &update, &key->state, key->dtype, 2, listed, rows, key->weight);
    kvs_opt_step_rows(opt, &update, &key->state, key->dtype, N_LISTED - 2, listed + 2,
                      rows + 2 * row_bytes, key->weight);
    free(rows);
}

/* States of rows that were never listed are as they began: zero, or the weight. */
static void check_states(const rig_key_t *lazy, const rig_key_t *dense, const char *initial)
{
    for (size_t i = 0; i < kvs_opt_n_states(&lazy->state); i++) {
        kvs_opt_state_t got = kvs_opt_state_at(&lazy->state, i);
        kvs_opt_state_t want = kvs_opt_state_at(&dense->state, i);
        size_t row_bytes = (size_t)(got.n_elems / N_ROWS) * kvs_dtype_bytes(got.dtype);
        char *start = calloc(N_ROWS, row_bytes + 1);

        if (strcmp(got.name, "master_weight") == 0) {
            kvs_cast(got.n_elems, lazy->dtype, initial, got.dtype, start);
        }
        KT_INT(count_wrong(row_bytes, got.data, want.data, start), 0);
        free(start);
    }
}

static void compare(const kvs_optimizer_t *kind, const kvs_param_t *params, size_t n_params,
                    int dtype, int64_t width)
{
    const int64_t shape[] = {N_ROWS, width};
    rig_key_t lazy = rig_key(1, dtype, shape, 2), dense = rig_key(1, dtype, shape, 2);
    size_t n_bytes = (size_t)(N_ROWS * width) * kvs_dtype_bytes(dtype);
    char *grad = malloc(n_bytes + 1), *initial = malloc(n_bytes + 1);
    kvs_opt_t *lazy_opt = rig_opt(kind->name, params, n_params);
    kvs_opt_t *dense_opt = rig_opt(kind->name, params, n_params);

    fill(dtype, N_ROWS * width, 0.1, initial);
    memcpy(lazy.weight, initial, n_bytes);
    memcpy(dense.weight, initial, n_bytes);
    for (int step = 1; step <= 3; step++) {
        fill(dtype, N_ROWS * width, step, grad);
        update_listed(lazy_opt, &lazy, grad);
        KT_OK(rig_update(dense_opt, &dense, grad, 0, NULL));
    }
    KT_INT(count_wrong(n_bytes / N_ROWS, lazy.weight, dense.weight, initial), 0);
    check_states(&lazy, &dense, initial);
    kvs_opt_free(lazy_opt);
    kvs_opt_free(dense_opt);
    rig_key_release(&lazy);
    rig_key_release(&dense);
    free(grad);
    free(initial);
}

static void compare_with(const kvs_optimizer_t *kind, int dtype, int master, int64_t width)
{
    kvs_param_t params[8] = {RIG_REAL("rescale_grad", 0.5), RIG_REAL("clip_gradient", 0.4),
                             RIG_BOOL("multi_precision", master)};
    size_t n = 3;

    if (strcmp(kind->name, "groupadagrad") != 0) {
        params[n++] = (kvs_param_t)RIG_REAL("wd", 0.02);
    }
    for (size_t i = 0; i < kind->n_params; i++) {
        if (strcmp(kind->params[i].name, "lazy_update") == 0) {
            params[n++] = (kvs_param_t)RIG_BOOL("lazy_update", 1);
        }
    }
    compare(kind, params, n, dtype, width);
    if (strcmp(kind->name, "sgd") == 0) {
        params[n++] = (kvs_param_t)RIG_REAL("momentum", 0.9);
        compare(kind, params, n, dtype, width);
    }
}

static void listed_rows_get_the_bits_of_a_dense_update_and_others_stay(void)
{
    static const int dtypes[] = {KVS_DTYPE_float32, KVS_DTYPE_float64, KVS_DTYPE_float16,
                                 KVS_DTYPE_bfloat16};
    static const int64_t widths[] = {1, 37, 1500};

    for (size_t i = 0; rig_optimizer_at(i) != NULL; i++) {
        for (int d = 0; d < 4 && (rig_optimizer_at(i)->flags & KVS_OPTIMIZER_LAZY) != 0; d++) {
            for (int w = 0; w < 3; w++) {
                compare_with(rig_optimizer_at(i), dtypes[d], 0, widths[w]);
                compare_with(rig_optimizer_at(i), dtypes[d], 1, widths[w]);
            }
        }
    }
}

static void rows_without_elements_and_lists_without_rows_are_left_alone(void)
{
    static const int64_t shape[] = {3, 0}, some[] = {3, 2};
    static const int64_t ids[] = {0, 2};
    kvs_opt_t *opt = rig_opt("groupadagrad", NULL, 0);
    rig_key_t empty = rig_key(1, KVS_DTYPE_float32, shape, 2);
    rig_key_t key = rig_key(2, KVS_DTYPE_float32, some, 2);
    kvs_opt_update_t update;

    empty.entry.shape = empty.shape;
    KT_OK(kvs_opt_issue(opt, &empty.state, &empty.entry, &update));
    KT_OK(kvs_opt_begin(opt, &empty.state, &empty.entry, empty.weight));
    kvs_opt_step_rows(opt, &update, &empty.state, KVS_DTYPE_float32, 2, ids, NULL, empty.weight);
    key.entry.shape = key.shape;
    KT_OK(kvs_opt_issue(opt, &key.state, &key.entry, &update));
    KT_OK(kvs_opt_begin(opt, &key.state, &key.entry, key.weight));
    kvs_opt_step_rows(opt, &update, &key.state, KVS_DTYPE_float32, 0, NULL, NULL, key.weight);
    KT_REAL(((const float *)key.weight)[0], 0);
    kvs_opt_free(opt);
    rig_key_release(&empty);
    rig_key_release(&key);
}

static const kt_test_t tests[] = {
    KT_TEST(only_some_optimizers_are_lazy),
    KT_TEST(listed_rows_get_the_bits_of_a_dense_update_and_others_stay),
    KT_TEST(rows_without_elements_and_lists_without_rows_are_left_alone),
};

int main(int argc, char **argv)
{
    rig_start();
    return kt_run("lazy", tests, sizeof(tests) / sizeof(tests[0]), argc, argv);
}
