/* SPDX-License-Identifier: Apache-2.0 */
/* cases_pull.c - reading what is stored. */
#include "themes.h"

enum { N = 7 };

static const int floating[] = {KVS_DTYPE_float32, KVS_DTYPE_float64, KVS_DTYPE_float16,
                               KVS_DTYPE_bfloat16};
enum { N_FLOATING = sizeof(floating) / sizeof(floating[0]) };

static cf_array_t *f32(cf_t *t, double value)
{
    return cf_const(t, KVS_DTYPE_float32, N, value);
}

static void all_outs(cf_t *t)
{
    kvs_key_t key = cf_key(t, 1);
    cf_array_t *outs[4] = {f32(t, 9), f32(t, 9), f32(t, 9), f32(t, 9)};

    cf_init(t, key, cf_ranked(t, KVS_DTYPE_float32, N, 1));
    CF_OK(t, kvs_store_pull(t->store, &key, 1, cf_list(t, 4, outs), NULL));
    for (int i = 0; i < 4; i++) {
        for (int j = 0; j < N; j++) {
            cf_want_at(t, "one of four outs", outs[i], j, cf_value(0, 1, j));
        }
    }
}

static void sees_pushes(cf_t *t)
{
    kvs_key_t key = cf_key(t, 1);
    cf_array_t *out = f32(t, 0);

    cf_init(t, key, f32(t, 0));
    for (int i = 1; i <= 20; i++) {
        cf_push(t, key, CF_LIST(t, f32(t, i)));
        if (i % 3 == 0) {
            cf_pull(t, key, out);
            cf_want_all(t, "pulled after that many pushes", out, i * t->n_workers);
        }
    }
}

static void changes_nothing(cf_t *t)
{
    kvs_key_t key = cf_key(t, 1);
    cf_array_t *out = f32(t, 0);

    cf_init(t, key, f32(t, 4));
    for (int i = 0; i < 3; i++) {
        cf_pull(t, key, out);
        cf_want_all(t, "pulled again", out, 4);
        cf_set_all(t, out, 99); /* an out is a copy as well */
    }
}

static void same_array_twice(cf_t *t)
{
    kvs_key_t keys[2] = {cf_key(t, 2), cf_key(t, 1)};
    cf_array_t *a = f32(t, 0), *shared = f32(t, 0);

    cf_init(t, keys[0], f32(t, 4));
    cf_init(t, keys[1], f32(t, 5));
    CF_OK(t, kvs_store_pull(t->store, keys, 2, CF_SPLIT(t, CF_LIST(t, a, a, shared, shared), 3, 1),
                            NULL));
    cf_want_all(t, "an out given twice for one key", a, 4);
    cf_want_all(t, "an out of two keys holds the last in the list", shared, 5);
}

/* Every floating dtype into every other; the values need rounding in the narrow ones. */
static void converts(cf_t *t)
{
    static const double values[] = {
        0,           1.5, -2.25,          0.1,          65504,  1.0 / 3, 2049,
        -1.00390625, 257, 0.000061035156, 5.9604645e-8, -100000};
    enum { N_VALUES = sizeof(values) / sizeof(values[0]) };

    for (int from = 0; from < N_FLOATING; from++) {
        kvs_key_t key = cf_key(t, from);
        cf_array_t *value = cf_values(t, floating[from], N_VALUES, values);
        cf_array_t *outs[N_FLOATING];

        for (int to = 0; to < N_FLOATING; to++) {
            outs[to] = cf_const(t, floating[to], N_VALUES, 9);
        }
        cf_init(t, key, value);
        CF_OK(t, kvs_store_pull(t->store, &key, 1, cf_list(t, N_FLOATING, outs), NULL));
        for (int to = 0; to < N_FLOATING; to++) {
            for (int i = 0; i < N_VALUES; i++) {
                cf_want_at(t, kvs_dtype_name(kvs_dtype(floating[from])), outs[to], i,
                           cf_round(floating[to], cf_round(floating[from], values[i])));
            }
        }
    }
}

static void wrong_dtype(cf_t *t)
{
    kvs_key_t keys[2] = {cf_key(t, 1), cf_key(t, 2)};
    cf_array_t *reals = f32(t, 1);
    cf_array_t *integers = cf_const(t, KVS_DTYPE_int32, N, 2);
    cf_array_t *bytes = cf_const(t, KVS_DTYPE_int8, N, 2);

    cf_init(t, keys[0], reals);
    cf_init(t, keys[1], integers);
    CF_FAIL(t, kvs_store_pull(t->store, &keys[0], 1, CF_LIST(t, integers), NULL), KVS_ERR_DTYPE,
            "int32");
    cf_want_part(t, "text of the dtype error", kvs_last_error(), "float32");
    CF_FAIL(t, kvs_store_pull(t->store, &keys[1], 1, CF_LIST(t, reals), NULL), KVS_ERR_DTYPE,
            cf_key_text(t, keys[1]));
    CF_FAIL(t, kvs_store_pull(t->store, &keys[1], 1, CF_LIST(t, integers, bytes), NULL),
            KVS_ERR_DTYPE, "int8");
    cf_want_all(t, "an out of refused pulls", reals, 1);
    cf_want_all(t, "an out of refused pulls", integers, 2);
    cf_want_all(t, "an out of refused pulls", bytes, 2);
}

static void wrong_shape(cf_t *t)
{
    kvs_key_t key = cf_key(t, 1);
    cf_array_t *wrong[] = {
        cf_new(t, KVS_DTYPE_float32, 1, (const int64_t[]){13}),     /* other size */
        cf_new(t, KVS_DTYPE_float32, 2, (const int64_t[]){13, 11}), /* same size */
        cf_new(t, KVS_DTYPE_float32, 1, (const int64_t[]){143}),    /* other rank */
    };
    cf_array_t *right = cf_new(t, KVS_DTYPE_float32, 2, (const int64_t[]){11, 13});

    cf_init(t, key, right);
    cf_set_all(t, right, 8);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        cf_set_all(t, wrong[i], 9);
        CF_FAIL(t, kvs_store_pull(t->store, &key, 1, CF_LIST(t, right, wrong[i]), NULL),
                KVS_ERR_SHAPE, cf_key_text(t, key));
        cf_want_part(t, "text of the shape error", kvs_last_error(), "11");
        cf_want_part(t, "text of the shape error", kvs_last_error(), i == 2 ? "143" : "13");
        cf_want_all(t, "the out of a refused pull", wrong[i], 9);
        cf_want_all(t, "the right out of a refused pull", right, 8);
    }
}

static void unknown_key(cf_t *t)
{
    kvs_key_t key = cf_key(t, 1);
    cf_array_t *out = f32(t, 9);

    CF_FAIL(t, kvs_store_pull(t->store, &key, 1, CF_LIST(t, out), NULL), KVS_ERR_NOT_FOUND,
            cf_key_text(t, key));
    cf_want_all(t, "the out of a refused pull", out, 9);
}

static const cf_case_t cases[] = {
    {"pull.all_outs", "pull writes the stored value into every out.", CF_WEIGHTS, all_outs},
    {"pull.sees_pushes", "pull sees every push to the key issued before it.",
     CF_WEIGHTS | CF_REPLACES, sees_pushes},
    {"pull.changes_nothing", "pull gives copies and may be repeated.", CF_WEIGHTS, changes_nothing},
    {"pull.same_array_twice",
     "An array may stand several times among the outs; of different keys the last in the list "
     "stays.",
     CF_WEIGHTS, same_array_twice},
    {"pull.converts", "An out of another floating dtype is converted to, rounded to nearest even.",
     CF_WEIGHTS, converts},
    {"pull.wrong_dtype", "Between integer dtypes, or integer and floating, nothing is converted.",
     CF_WEIGHTS, wrong_dtype},
    {"pull.wrong_shape", "An out of another shape, same size or not, is an error giving both.",
     CF_WEIGHTS, wrong_shape},
    {"pull.unknown_key", "pull of a key that was not initialised is an error naming it.",
     CF_WEIGHTS, unknown_key},
};

const cf_theme_t cf_theme_pull = CF_THEME(cases);
