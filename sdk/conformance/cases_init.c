/* SPDX-License-Identifier: Apache-2.0 */
/* cases_init.c - how keys come into being in stores that keep weights. */
#include "themes.h"

enum { N = 5 };

static void copies(cf_t *t)
{
    kvs_key_t key = cf_key(t, 1);
    cf_array_t *value = cf_ranked(t, KVS_DTYPE_float32, N, 3);
    cf_array_t *out = cf_vector(t, KVS_DTYPE_float32, N);

    cf_init(t, key, value);
    for (int i = 0; i < N; i++) {
        cf_want_at(t, "the caller's array after init", value, i, cf_value(t->rank, 3, i));
    }
    cf_set_all(t, value, 99);
    cf_pull(t, key, out);
    for (int i = 0; i < N; i++) {
        cf_want_at(t, "pulled, with the caller's array changed after init", out, i,
                   cf_value(0, 3, i));
    }
}

static void duplicate(cf_t *t)
{
    kvs_key_t key = cf_key(t, 1);
    cf_array_t *out = cf_vector(t, KVS_DTYPE_float32, N);

    cf_init(t, key, cf_const(t, KVS_DTYPE_float32, N, 1));
    CF_FAIL(
        t,
        kvs_store_init(t->store, &key, 1, CF_LIST(t, cf_const(t, KVS_DTYPE_float32, N, 2)), NULL),
        KVS_ERR_EXISTS, "duplicate init of key");
    cf_want_part(t, "text of the duplicate init", kvs_last_error(), cf_key_text(t, key));
    cf_pull(t, key, out);
    cf_want_all(t, "pulled after a refused second init", out, 1);
}

static void duplicate_string(cf_t *t)
{
    kvs_key_t key = cf_name(t, 1);
    cf_array_t *value = cf_const(t, KVS_DTYPE_float32, N, 1);

    cf_init(t, key, value);
    CF_FAIL(t, kvs_store_init(t->store, &key, 1, CF_LIST(t, value), NULL), KVS_ERR_EXISTS, key.str);
}

static void duplicate_in_list(cf_t *t)
{
    kvs_key_t keys[3] = {cf_key(t, 1), cf_key(t, 2), cf_key(t, 1)};
    cf_array_t *value = cf_const(t, KVS_DTYPE_float32, N, 1);

    CF_FAIL(t, kvs_store_init(t->store, keys, 3, CF_LIST(t, value, value, value), NULL),
            KVS_ERR_EXISTS, cf_key_text(t, keys[0]));
    for (int i = 0; i < 2; i++) {
        CF_FAIL(t, kvs_store_pull(t->store, &keys[i], 1, CF_LIST(t, value), NULL),
                KVS_ERR_NOT_FOUND, cf_key_text(t, keys[i]));
    }
    cf_init(t, keys[0], value);
}

static void one_value(cf_t *t)
{
    kvs_key_t key = cf_key(t, 1);
    cf_array_t *value = cf_const(t, KVS_DTYPE_float32, N, 1);

    CF_FAIL(t, kvs_store_init(t->store, &key, 1, CF_LIST(t, value, value), NULL), KVS_ERR_EXISTS,
            cf_key_text(t, key));
    CF_FAIL(t, kvs_store_pull(t->store, &key, 1, CF_LIST(t, value), NULL), KVS_ERR_NOT_FOUND,
            cf_key_text(t, key));
    CF_OK(t, kvs_store_init(t->store, &key, 1, CF_SPLIT(t, CF_LIST(t, value), 1), NULL));
}

static void all_or_nothing(cf_t *t)
{
    kvs_key_t keys[2] = {cf_key(t, 1), cf_key(t, 2)};
    cf_array_t *value = cf_const(t, KVS_DTYPE_float32, N, 1);
    cf_array_t *other = cf_const(t, KVS_DTYPE_float32, N, 2);
    cf_array_t *out = cf_vector(t, KVS_DTYPE_float32, N);

    cf_init(t, keys[1], value);
    CF_FAIL(t, kvs_store_init(t->store, keys, 2, CF_LIST(t, other, other), NULL), KVS_ERR_EXISTS,
            cf_key_text(t, keys[1]));
    CF_FAIL(t, kvs_store_pull(t->store, keys, 1, CF_LIST(t, out), NULL), KVS_ERR_NOT_FOUND,
            cf_key_text(t, keys[0]));
    cf_pull(t, keys[1], out);
    cf_want_all(t, "the key that existed", out, 1);
}

static void list(cf_t *t)
{
    kvs_key_t keys[3] = {cf_key(t, 3), cf_key(t, 1), cf_key(t, 2)};
    cf_array_t *values[3], *outs[3];

    for (int i = 0; i < 3; i++) {
        static const int dtypes[] = {KVS_DTYPE_float32, KVS_DTYPE_int32, KVS_DTYPE_float64};

        values[i] = cf_const(t, dtypes[i], N + i, i + 1);
        outs[i] = cf_vector(t, dtypes[i], N + i);
    }
    CF_OK(t, kvs_store_init(t->store, keys, 3, cf_list(t, 3, values), NULL));
    CF_OK(t, kvs_store_pull(t->store, keys, 3, cf_list(t, 3, outs), NULL));
    for (int i = 0; i < 3; i++) {
        cf_want_all(t, "pulled", outs[i], i + 1);
    }
}

static const cf_case_t cases[] = {
    {"init.copies", "init stores a copy of rank 0's value: the caller's array stays its own.",
     CF_WEIGHTS, copies},
    {"init.duplicate", "A second init of a key is an error that names it, and changes nothing.",
     CF_WEIGHTS, duplicate},
    {"init.duplicate_string", "A second init of a string key is an error that shows its text.",
     CF_WEIGHTS, duplicate_string},
    {"init.duplicate_in_list",
     "A key that stands twice in one init is a duplicate init, and no key of the list is made.",
     CF_WEIGHTS, duplicate_in_list},
    {"init.one_value",
     "init takes one value for a key, bare or as a list of one; two are an error.", CF_WEIGHTS,
     one_value},
    {"init.all_or_nothing", "A list with a key that exists makes none of the others.", CF_WEIGHTS,
     all_or_nothing},
    {"init.list", "The keys of one init may differ in shape and dtype.", CF_WEIGHTS, list},
};

const cf_theme_t cf_theme_init = CF_THEME(cases);
