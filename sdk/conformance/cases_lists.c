/* SPDX-License-Identifier: Apache-2.0 */
/* cases_lists.c - several keys, and several arrays for a key, in one call. */
#include "themes.h"

#include <stdio.h>

enum { N = 6 };

static void empty(cf_t *t)
{
    const kvs_arrays_t *none = cf_list(t, 0, NULL);

    CF_OK(t, kvs_store_pushpull(t->store, NULL, 0, none, none, NULL));
    CF_OK(t, kvs_store_pushpull(t->store, NULL, 0, none, NULL, NULL));
    CF_OK(t, kvs_store_broadcast(t->store, NULL, 0, none, none, NULL));
    if (cf_keeps_weights(t)) {
        CF_OK(t, kvs_store_init(t->store, NULL, 0, none, NULL));
        CF_OK(t, kvs_store_push(t->store, NULL, 0, none, NULL));
        CF_OK(t, kvs_store_pull(t->store, NULL, 0, none, NULL));
    }
}

static void unequal(cf_t *t)
{
    kvs_key_t keys[2] = {cf_key(t, 1), cf_key(t, 2)};
    kvs_key_t new_keys[2] = {cf_key(t, 3), cf_key(t, 4)};
    cf_array_t *a = cf_const(t, KVS_DTYPE_float32, N, 1);
    cf_array_t *b = cf_const(t, KVS_DTYPE_float32, N, 2);
    const kvs_arrays_t *lists[] = {
        CF_LIST(t, a),
        CF_LIST(t, a, b, a),
        CF_SPLIT(t, CF_LIST(t, a, b), 2),
        CF_SPLIT(t, CF_LIST(t, a, b), 1, 2),
        CF_SPLIT(t, CF_LIST(t, a, b), 1, 1, 0),
    };

    cf_use(t, keys[0], a);
    cf_use(t, keys[1], b);
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        CF_FAIL(t, kvs_store_pushpull(t->store, keys, 2, lists[i], NULL, NULL), KVS_ERR_ARGUMENT,
                "");
        CF_FAIL(t, kvs_store_pushpull(t->store, keys, 2, CF_LIST(t, a, b), lists[i], NULL),
                KVS_ERR_ARGUMENT, "");
        CF_FAIL(t, kvs_store_broadcast(t->store, new_keys, 2, CF_LIST(t, a, b), lists[i], NULL),
                KVS_ERR_ARGUMENT, "");
    }
    cf_want_all(t, "an array of refused calls", a, 1);
    cf_want_all(t, "an array of refused calls", b, 2);
}

static void keys_by_devices(cf_t *t)
{
    kvs_key_t keys[3] = {cf_key(t, 2), cf_key(t, 3), cf_key(t, 1)};
    cf_array_t *values[6], *outs[4];

    for (int i = 0; i < 6; i++) {
        values[i] = cf_ranked(t, KVS_DTYPE_float32, N, i < 3 ? i : i < 4 ? 0 : i - 4);
    }
    for (int i = 0; i < 4; i++) {
        outs[i] = cf_vector(t, KVS_DTYPE_float32, N);
    }
    if (cf_keeps_weights(t)) {
        CF_OK(t, kvs_store_init(t->store, keys, 3, CF_LIST(t, outs[0], outs[1], outs[2]), NULL));
    }
    CF_OK(t, kvs_store_pushpull(t->store, keys, 3, CF_SPLIT(t, cf_list(t, 6, values), 3, 1, 2),
                                CF_SPLIT(t, cf_list(t, 4, outs), 1, 2, 1), NULL));
    cf_want_sum(t, "out of the key with three values", outs[0], 3);
    cf_want_sum(t, "first out of the key with one value", outs[1], 1);
    cf_want_sum(t, "second out of the key with one value", outs[2], 1);
    cf_want_sum(t, "out of the key with two values", outs[3], 2);
}

static void repeated_key(cf_t *t)
{
    kvs_key_t keys[3] = {cf_key(t, 5), cf_key(t, 1), cf_key(t, 5)};
    cf_array_t *outs[3], *values[4];

    for (int i = 0; i < 3; i++) {
        outs[i] = cf_vector(t, KVS_DTYPE_float32, N);
    }
    values[0] = cf_ranked(t, KVS_DTYPE_float32, N, 0);
    values[1] = cf_ranked(t, KVS_DTYPE_float32, N, 0);
    values[2] = cf_ranked(t, KVS_DTYPE_float32, N, 1);
    values[3] = cf_ranked(t, KVS_DTYPE_float32, N, 2);
    if (cf_keeps_weights(t)) {
        CF_OK(t, kvs_store_init(t->store, keys, 2, CF_LIST(t, outs[0], outs[1]), NULL));
    }
    CF_OK(t, kvs_store_pushpull(t->store, keys, 3, CF_SPLIT(t, cf_list(t, 4, values), 1, 1, 2),
                                cf_list(t, 3, outs), NULL));
    cf_want_sum(t, "out at the key's first place", outs[0], 3);
    cf_want_sum(t, "out of the key between", outs[1], 1);
    cf_want_sum(t, "out at the key's second place", outs[2], 3);
}

static void repeated_key_order(cf_t *t)
{
    kvs_key_t keys[4] = {cf_key(t, 1), cf_key(t, 2), cf_key(t, 1), cf_key(t, 1)};
    cf_array_t *big = cf_const(t, KVS_DTYPE_float32, N, 16777216);
    cf_array_t *minus_big = cf_const(t, KVS_DTYPE_float32, N, -16777216);
    cf_array_t *one = cf_const(t, KVS_DTYPE_float32, N, 1);
    cf_array_t *zero = cf_vector(t, KVS_DTYPE_float32, N);
    cf_array_t *out = cf_vector(t, KVS_DTYPE_float32, N);

    CF_OK(t, kvs_store_init(t->store, keys, 2, CF_LIST(t, zero, zero), NULL));
    CF_OK(t, kvs_store_push(t->store, keys, 4, CF_LIST(t, big, one, one, minus_big), NULL));
    cf_pull(t, keys[0], out);
    cf_want_all(t, "(2^24 + 1) - 2^24 in float32", out, 0);
    CF_OK(t, kvs_store_push(t->store, keys, 4, CF_LIST(t, big, one, minus_big, one), NULL));
    cf_pull(t, keys[0], out);
    cf_want_all(t, "(2^24 - 2^24) + 1", out, t->n_workers);
}

static void repeated_key_pull(cf_t *t)
{
    kvs_key_t keys[3] = {cf_key(t, 1), cf_key(t, 2), cf_key(t, 1)};
    cf_array_t *outs[3];

    for (int i = 0; i < 3; i++) {
        outs[i] = cf_vector(t, KVS_DTYPE_float32, N);
    }
    cf_init(t, keys[0], cf_const(t, KVS_DTYPE_float32, N, 4));
    cf_init(t, keys[1], cf_const(t, KVS_DTYPE_float32, N, 5));
    CF_OK(t, kvs_store_pull(t->store, keys, 3, cf_list(t, 3, outs), NULL));
    cf_want_all(t, "out at the key's first place", outs[0], 4);
    cf_want_all(t, "out of the key between", outs[1], 5);
    cf_want_all(t, "out at the key's second place", outs[2], 4);
}

static void empty_group(cf_t *t)
{
    kvs_key_t keys[2] = {cf_key(t, 1), cf_key(t, 2)};
    cf_array_t *a = cf_const(t, KVS_DTYPE_float32, N, 1);
    cf_array_t *out = cf_const(t, KVS_DTYPE_float32, N, 9);
    const kvs_arrays_t *none = cf_list(t, 0, NULL);
    const kvs_arrays_t *holed = CF_SPLIT(t, CF_LIST(t, a), 1, 0);

    if (cf_keeps_weights(t)) {
        CF_OK(t, kvs_store_init(t->store, keys, 2, CF_LIST(t, a, a), NULL));
        CF_FAIL(t, kvs_store_push(t->store, keys, 1, none, NULL), KVS_ERR_ARGUMENT, "");
        CF_FAIL(t, kvs_store_push(t->store, keys, 2, holed, NULL), KVS_ERR_ARGUMENT,
                cf_key_text(t, keys[1]));
        CF_FAIL(t, kvs_store_pull(t->store, keys, 1, none, NULL), KVS_ERR_ARGUMENT, "");
    }
    CF_FAIL(t, kvs_store_pushpull(t->store, keys, 1, none, CF_LIST(t, out), NULL), KVS_ERR_ARGUMENT,
            "");
    CF_FAIL(t, kvs_store_pushpull(t->store, keys, 2, holed, CF_LIST(t, out, out), NULL),
            KVS_ERR_ARGUMENT, cf_key_text(t, keys[1]));
    cf_want_all(t, "the out of refused calls", out, 9);
}

/* The second key of the list is wrong: the first must not have been touched. */
static void all_or_nothing_push(cf_t *t)
{
    kvs_key_t keys[2] = {cf_key(t, 1), cf_key(t, 2)};
    cf_array_t *good = cf_const(t, KVS_DTYPE_float32, N, 7);
    cf_array_t *bad = cf_const(t, KVS_DTYPE_float32, N + 5, 8);
    cf_array_t *out = cf_vector(t, KVS_DTYPE_float32, N);

    cf_init(t, keys[0], cf_const(t, KVS_DTYPE_float32, N, 1));
    CF_FAIL(t, kvs_store_push(t->store, keys, 2, CF_LIST(t, good, good), NULL), KVS_ERR_NOT_FOUND,
            cf_key_text(t, keys[1]));
    cf_init(t, keys[1], cf_const(t, KVS_DTYPE_float32, N, 2));
    CF_FAIL(t, kvs_store_push(t->store, keys, 2, CF_LIST(t, good, bad), NULL), KVS_ERR_SHAPE,
            cf_key_text(t, keys[1]));
    cf_pull(t, keys[0], out);
    cf_want_all(t, "first key after refused pushes", out, 1);
    cf_pull(t, keys[1], out);
    cf_want_all(t, "second key after refused pushes", out, 2);
}

static void all_or_nothing_pull(cf_t *t)
{
    kvs_key_t keys[2] = {cf_key(t, 1), cf_key(t, 2)};
    cf_array_t *out = cf_const(t, KVS_DTYPE_float32, N, 9);
    cf_array_t *bad = cf_const(t, KVS_DTYPE_float32, N + 5, 9);

    cf_init(t, keys[0], cf_const(t, KVS_DTYPE_float32, N, 1));
    CF_FAIL(t, kvs_store_pull(t->store, keys, 2, CF_LIST(t, out, out), NULL), KVS_ERR_NOT_FOUND,
            cf_key_text(t, keys[1]));
    cf_init(t, keys[1], cf_const(t, KVS_DTYPE_float32, N, 2));
    CF_FAIL(t, kvs_store_pull(t->store, keys, 2, CF_LIST(t, out, bad), NULL), KVS_ERR_SHAPE,
            cf_key_text(t, keys[1]));
    cf_want_all(t, "the good out of refused pulls", out, 9);
}

static void all_or_nothing_pushpull(cf_t *t)
{
    kvs_key_t keys[2] = {cf_key(t, 1), cf_key(t, 2)};
    cf_array_t *value = cf_const(t, KVS_DTYPE_float32, N, 7);
    cf_array_t *out = cf_const(t, KVS_DTYPE_float32, N, 9);
    cf_array_t *bad = cf_const(t, KVS_DTYPE_float32, N + 5, 9);

    if (cf_keeps_weights(t)) {
        CF_OK(t, kvs_store_init(t->store, keys, 2, CF_LIST(t, value, value), NULL));
    }
    CF_FAIL(
        t,
        kvs_store_pushpull(t->store, keys, 2, CF_LIST(t, value, value), CF_LIST(t, out, bad), NULL),
        KVS_ERR_SHAPE, cf_key_text(t, keys[1]));
    cf_want_all(t, "the good out of a refused pushpull", out, 9);
    cf_want_all(t, "the bad out of a refused pushpull", bad, 9);
}

static void many_keys(cf_t *t)
{
    enum { N_KEYS = 300 };
    kvs_key_t *keys = cf_alloc(t, N_KEYS * sizeof(*keys));
    cf_array_t **values = cf_alloc(t, N_KEYS * sizeof(*values));
    cf_array_t **outs = cf_alloc(t, N_KEYS * sizeof(*outs));

    for (int i = 0; i < N_KEYS; i++) {
        keys[i] = cf_key(t, (i * 7) % N_KEYS); /* not in order */
        values[i] = cf_const(t, KVS_DTYPE_float32, 1 + i % 5, i);
        outs[i] = cf_vector(t, KVS_DTYPE_float32, 1 + i % 5);
    }
    if (cf_keeps_weights(t)) {
        CF_OK(t, kvs_store_init(t->store, keys, N_KEYS, cf_list(t, N_KEYS, outs), NULL));
    }
    CF_OK(t, kvs_store_pushpull(t->store, keys, N_KEYS, cf_list(t, N_KEYS, values),
                                cf_list(t, N_KEYS, outs), NULL));
    for (int i = 0; i < N_KEYS; i++) {
        cf_want_all(t, "out of a list of 300 keys", outs[i], (double)i * t->n_workers);
    }
}

static const cf_case_t cases[] = {
    {"lists.empty", "An empty list of keys does nothing and succeeds.", 0, empty},
    {"lists.unequal", "Lists of unequal length are an error, and nothing is done.", 0, unequal},
    {"lists.keys_by_devices", "A list gives any number of arrays to each of its keys.",
     CF_REPLACES | CF_LISTS, keys_by_devices},
    {"lists.repeated_key", "A key that stands several times has one group of all its values.",
     CF_REPLACES | CF_LISTS, repeated_key},
    {"lists.repeated_key_order", "The group of a repeated key is summed in list order.",
     CF_WEIGHTS | CF_REPLACES, repeated_key_order},
    {"lists.repeated_key_pull", "A key that stands several times in a pull fills all its outs.",
     CF_WEIGHTS, repeated_key_pull},
    {"lists.empty_group", "A key of a list without values is an error that names it.", 0,
     empty_group},
    {"lists.all_or_nothing_push",
     "A wrong key or value in a pushed list leaves every key as it was.", CF_WEIGHTS,
     all_or_nothing_push},
    {"lists.all_or_nothing_pull", "A wrong key or out in a pulled list leaves every out as it was.",
     CF_WEIGHTS, all_or_nothing_pull},
    {"lists.all_or_nothing_pushpull",
     "A wrong out in a pushpull list leaves every key and out as it was.", 0,
     all_or_nothing_pushpull},
    {"lists.many_keys", "A list of hundreds of keys in any order is one operation.",
     CF_REPLACES | CF_LISTS, many_keys},
};

const cf_theme_t cf_theme_lists = CF_THEME(cases);
