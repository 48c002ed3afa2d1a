/* SPDX-License-Identifier: Apache-2.0 */
/* cases_push.c - push without an updater: the sum of the list replaces the stored value. */
#include "themes.h"

#include <stdio.h>

enum { N = 7 };

static cf_array_t *f32(cf_t *t, double value)
{
    return cf_const(t, KVS_DTYPE_float32, N, value);
}

static void replaces(cf_t *t)
{
    kvs_key_t key = cf_key(t, 1);
    cf_array_t *out = f32(t, 0);

    cf_init(t, key, f32(t, 100));
    for (int round = 1; round <= 3; round++) {
        cf_push(t, key, CF_LIST(t, f32(t, round)));
        cf_pull(t, key, out);
        cf_want_all(t, "pulled after a push", out, round * t->n_workers);
    }
}

static void sums(cf_t *t)
{
    kvs_key_t key = cf_key(t, 1);
    cf_array_t *values[5];
    cf_array_t *out = f32(t, 0);

    for (int i = 0; i < 5; i++) {
        values[i] = cf_ranked(t, KVS_DTYPE_float32, N, i);
    }
    cf_init(t, key, f32(t, 100));
    cf_push(t, key, cf_list(t, 5, values));
    cf_pull(t, key, out);
    cf_want_sum(t, "sum of five values", out, 5);
}

/* 2^24 + 1 is 2^24 in float32: the sums differ by the order, and by the width of the accumulator. */
static void list_order(cf_t *t)
{
    static const double lists[][4] = {
        {16777216, 1, 1, -16777216},
        {16777216, -16777216, 1, 1},
        {1, 1, 16777216, -16777216},
        {1, 16777216, -16777216, 1},
    };

    for (int i = 0; i < 4; i++) {
        kvs_key_t key = cf_key(t, i);
        cf_array_t *out = f32(t, 0);
        float want = 0;

        cf_init(t, key, f32(t, 0));
        cf_push(t, key,
                CF_LIST(t, f32(t, lists[i][0]), f32(t, lists[i][1]), f32(t, lists[i][2]),
                        f32(t, lists[i][3])));
        cf_pull(t, key, out);
        for (int j = 0; j < 4; j++) {
            want += (float)lists[i][j];
        }
        cf_want_all(t, "sum in list order", out, (double)want * t->n_workers);
    }
}

static void values_unchanged(cf_t *t)
{
    kvs_key_t key = cf_key(t, 1);
    cf_array_t *a = f32(t, 1), *b = f32(t, 2), *c = f32(t, 3);

    cf_init(t, key, f32(t, 0));
    for (int i = 0; i < 2; i++) {
        cf_push(t, key, CF_LIST(t, a, b, c));
        cf_push(t, key, CF_LIST(t, a));
    }
    CF_OK(t, kvs_store_wait_all(t->store, -1));
    cf_want_all(t, "the first pushed array", a, 1);
    cf_want_all(t, "the second pushed array", b, 2);
    cf_want_all(t, "the third pushed array", c, 3);
}

static void copies(cf_t *t)
{
    kvs_key_t key = cf_key(t, 1);
    cf_array_t *a = f32(t, 1), *b = f32(t, 2);
    cf_array_t *out = f32(t, 0);

    cf_init(t, key, f32(t, 0));
    cf_push(t, key, CF_LIST(t, a));
    cf_set_all(t, a, 99);
    cf_pull(t, key, out);
    cf_want_all(t, "pulled, with the one pushed array changed after push", out, t->n_workers);
    cf_push(t, key, CF_LIST(t, b, b));
    cf_set_all(t, b, 99);
    cf_pull(t, key, out);
    cf_want_all(t, "pulled, with pushed arrays changed after push", out, 4 * t->n_workers);
}

static void any_number(cf_t *t)
{
    static const int numbers[] = {2, 5, 1, 12, 3};
    kvs_key_t key = cf_key(t, 1);
    cf_array_t *values[12];
    cf_array_t *out = f32(t, 0);

    for (int i = 0; i < 12; i++) {
        values[i] = cf_ranked(t, KVS_DTYPE_float32, N, i);
    }
    cf_init(t, key, f32(t, 0));
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        char what[64];

        cf_push(t, key, cf_list(t, (size_t)numbers[i], values));
        cf_pull(t, key, out);
        snprintf(what, sizeof(what), "sum of %d values", numbers[i]);
        cf_want_sum(t, what, out, numbers[i]);
    }
}

static void same_array_twice(cf_t *t)
{
    kvs_key_t keys[2] = {cf_key(t, 1), cf_key(t, 2)};
    cf_array_t *a = f32(t, 3);
    cf_array_t *out = f32(t, 0);

    CF_OK(t, kvs_store_init(t->store, keys, 2, CF_LIST(t, a, a), NULL));
    CF_OK(t, kvs_store_push(t->store, keys, 2, CF_SPLIT(t, CF_LIST(t, a, a, a), 2, 1), NULL));
    cf_pull(t, keys[0], out);
    cf_want_all(t, "key that was given one array twice", out, 6 * t->n_workers);
    cf_pull(t, keys[1], out);
    cf_want_all(t, "key that was given it once", out, 3 * t->n_workers);
}

static void mixed_devices(cf_t *t)
{
    kvs_key_t key = cf_key(t, 1);
    cf_array_t *a = f32(t, 1), *b = f32(t, 2), *c = f32(t, 4);
    cf_array_t *out = f32(t, 0);

    if (t->memory->device_type != KVS_DEVICE_CPU) {
        cf_skip(t, "only CPU numbers may be made up");
        return;
    }
    b->tensor.device.id = 1;
    c->tensor.device.id = 3;
    out->tensor.device.id = 2;
    cf_init(t, key, f32(t, 0));
    cf_push(t, key, CF_LIST(t, a, b, c));
    cf_pull(t, key, out);
    cf_want_all(t, "sum over cpu(0), cpu(1) and cpu(3) in cpu(2)", out, 7 * t->n_workers);
}

static void unknown_key(cf_t *t)
{
    kvs_key_t key = cf_key(t, 1);
    cf_array_t *a = f32(t, 1);

    CF_FAIL(t, kvs_store_push(t->store, &key, 1, CF_LIST(t, a), NULL), KVS_ERR_NOT_FOUND,
            cf_key_text(t, key));
    CF_FAIL(t, kvs_store_push(t->store, &key, 1, CF_LIST(t, a, a), NULL), KVS_ERR_NOT_FOUND,
            cf_key_text(t, key));
    cf_init(t, key, a); /* the refused pushes have not made it */
}

static void unknown_string_key(cf_t *t)
{
    kvs_key_t key = cf_name(t, 1);

    CF_FAIL(t, kvs_store_push(t->store, &key, 1, CF_LIST(t, f32(t, 1)), NULL), KVS_ERR_NOT_FOUND,
            key.str);
}

static void wrong_shape(cf_t *t)
{
    kvs_key_t key = cf_key(t, 1);
    cf_array_t *wrong[] = {
        cf_new(t, KVS_DTYPE_float32, 1, (const int64_t[]){13}),     /* other size */
        cf_new(t, KVS_DTYPE_float32, 2, (const int64_t[]){13, 11}), /* same size */
        cf_new(t, KVS_DTYPE_float32, 1, (const int64_t[]){143}),    /* other rank */
        cf_new(t, KVS_DTYPE_float32, 3, (const int64_t[]){11, 13, 1}),
    };
    cf_array_t *right = cf_new(t, KVS_DTYPE_float32, 2, (const int64_t[]){11, 13});
    cf_array_t *out = cf_new(t, KVS_DTYPE_float32, 2, (const int64_t[]){11, 13});

    cf_set_all(t, right, 5);
    cf_init(t, key, right);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        CF_FAIL(t, kvs_store_push(t->store, &key, 1, CF_LIST(t, wrong[i]), NULL), KVS_ERR_SHAPE,
                cf_key_text(t, key));
        cf_want_part(t, "text of the shape error", kvs_last_error(), "11");
        cf_want_part(t, "text of the shape error", kvs_last_error(), i == 2 ? "143" : "13");
        CF_FAIL(t, kvs_store_push(t->store, &key, 1, CF_LIST(t, right, wrong[i]), NULL),
                KVS_ERR_SHAPE, "");
    }
    cf_pull(t, key, out);
    cf_want_all(t, "stored after refused pushes", out, 5);
}

static void wrong_dtype(cf_t *t)
{
    kvs_key_t key = cf_key(t, 1);
    cf_array_t *right = f32(t, 5);
    cf_array_t *out = f32(t, 0);
    static const int wrong[] = {KVS_DTYPE_float64, KVS_DTYPE_float16, KVS_DTYPE_int32};

    cf_init(t, key, right);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        cf_array_t *value = cf_const(t, wrong[i], N, 1);

        CF_FAIL(t, kvs_store_push(t->store, &key, 1, CF_LIST(t, value), NULL), KVS_ERR_DTYPE,
                "float32");
        cf_want_part(t, "text of the dtype error", kvs_last_error(),
                     kvs_dtype_name(kvs_dtype(wrong[i])));
        CF_FAIL(t, kvs_store_push(t->store, &key, 1, CF_LIST(t, right, value), NULL), KVS_ERR_DTYPE,
                cf_key_text(t, key));
    }
    cf_pull(t, key, out);
    cf_want_all(t, "stored after refused pushes", out, 5);
}

static const cf_case_t cases[] = {
    {"push.replaces", "The pushed sum replaces the stored value; push never adds to it.",
     CF_WEIGHTS | CF_REPLACES, replaces},
    {"push.sums", "The values of a key are summed, over all workers too.", CF_WEIGHTS | CF_REPLACES,
     sums},
    {"push.list_order", "Values are summed one by one in list order, float32 in float32.",
     CF_WEIGHTS | CF_REPLACES, list_order},
    {"push.values_unchanged", "push never changes a pushed array.", CF_WEIGHTS | CF_REPLACES,
     values_unchanged},
    {"push.copies", "The store keeps no pushed array: changing one later changes no pull.",
     CF_WEIGHTS | CF_REPLACES, copies},
    {"push.any_number", "A push may bring more or fewer arrays than the last one.",
     CF_WEIGHTS | CF_REPLACES, any_number},
    {"push.same_array_twice", "An array may stand several times among the values of a push.",
     CF_WEIGHTS | CF_REPLACES, same_array_twice},
    {"push.mixed_devices", "Values and outs on different devices may be mixed.",
     CF_WEIGHTS | CF_REPLACES, mixed_devices},
    {"push.unknown_key", "push to a key that was not initialised is an error naming it.",
     CF_WEIGHTS, unknown_key},
    {"push.unknown_string_key", "The error about an unknown string key shows its text.", CF_WEIGHTS,
     unknown_string_key},
    {"push.wrong_shape",
     "A pushed value of another shape, same size or not, is an error giving both shapes.",
     CF_WEIGHTS, wrong_shape},
    {"push.wrong_dtype", "A pushed value of another dtype is an error giving both dtypes.",
     CF_WEIGHTS, wrong_dtype},
};

const cf_theme_t cf_theme_push = CF_THEME(cases);
