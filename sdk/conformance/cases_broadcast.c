/* SPDX-License-Identifier: Apache-2.0 */
/* cases_broadcast.c - rank 0's value to everyone. */
#include "themes.h"

enum { N = 7 };

static void want_rank0(cf_t *t, const char *what, const cf_array_t *array, int place)
{
    for (int64_t i = 0; i < array->n_elems; i++) {
        cf_want_at(t, what, array, i, cf_value(0, place, i));
    }
}

static void every_out(cf_t *t)
{
    kvs_key_t keys[2] = {cf_key(t, 2), cf_key(t, 1)};
    cf_array_t *values[2], *outs[4];

    for (int i = 0; i < 4; i++) {
        outs[i] = cf_const(t, KVS_DTYPE_float32, N, 9);
    }
    values[0] = cf_ranked(t, KVS_DTYPE_float32, N, 1);
    values[1] = cf_ranked(t, KVS_DTYPE_float32, N, 2);
    CF_OK(t, kvs_store_broadcast(t->store, keys, 2, cf_list(t, 2, values),
                                 CF_SPLIT(t, cf_list(t, 4, outs), 3, 1), NULL));
    want_rank0(t, "first out of the first key", outs[0], 1);
    want_rank0(t, "second out of the first key", outs[1], 1);
    want_rank0(t, "third out of the first key", outs[2], 1);
    want_rank0(t, "out of the second key", outs[3], 2);
    for (int i = 0; i < N; i++) {
        cf_want_at(t, "the value", values[0], i, cf_value(t->rank, 1, i));
    }
}

static void is_init(cf_t *t)
{
    kvs_key_t key = cf_key(t, 1);
    cf_array_t *value = cf_ranked(t, KVS_DTYPE_float32, N, 1);
    cf_array_t *out = cf_const(t, KVS_DTYPE_float32, N, 9);
    cf_array_t *pulled = cf_vector(t, KVS_DTYPE_float32, N);

    CF_OK(t, kvs_store_broadcast(t->store, &key, 1, CF_LIST(t, value), CF_LIST(t, out), NULL));
    cf_set_all(t, value, 99);
    cf_set_all(t, out, 99);
    cf_pull(t, key, pulled);
    want_rank0(t, "pulled after a broadcast", pulled, 1);
    CF_FAIL(t, kvs_store_broadcast(t->store, &key, 1, CF_LIST(t, value), CF_LIST(t, out), NULL),
            KVS_ERR_EXISTS, "duplicate init of key");
    CF_FAIL(t, kvs_store_init(t->store, &key, 1, CF_LIST(t, value), NULL), KVS_ERR_EXISTS,
            cf_key_text(t, key));
    cf_pull(t, key, pulled);
    want_rank0(t, "pulled after refused broadcasts", pulled, 1);
}

static void repeatable(cf_t *t)
{
    kvs_key_t key = cf_key(t, 1);

    for (int i = 0; i < 3; i++) {
        cf_array_t *value = cf_ranked(t, KVS_DTYPE_float32, N + i, i);
        cf_array_t *out = cf_vector(t, KVS_DTYPE_float32, N + i);

        CF_OK(t, kvs_store_broadcast(t->store, &key, 1, CF_LIST(t, value), CF_LIST(t, out), NULL));
        want_rank0(t, "out of a repeated broadcast", out, i);
    }
}

static void into_value(cf_t *t)
{
    kvs_key_t key = cf_key(t, 1);
    cf_array_t *value = cf_ranked(t, KVS_DTYPE_float32, N, 1);
    cf_array_t *out = cf_vector(t, KVS_DTYPE_float32, N);

    CF_OK(t,
          kvs_store_broadcast(t->store, &key, 1, CF_LIST(t, value), CF_LIST(t, value, out), NULL));
    want_rank0(t, "out that is the value", value, 1);
    want_rank0(t, "the other out", out, 1);
}

static void swapped(cf_t *t)
{
    kvs_key_t keys[2] = {cf_key(t, 1), cf_key(t, 2)};
    cf_array_t *a = cf_const(t, KVS_DTYPE_float32, N, 1);
    cf_array_t *b = cf_const(t, KVS_DTYPE_float32, N, 2);

    CF_OK(t, kvs_store_broadcast(t->store, keys, 2, CF_LIST(t, a, b), CF_LIST(t, b, a), NULL));
    cf_want_all(t, "array that was the second value, out of the first key", b, 1);
    cf_want_all(t, "array that was the first value, out of the second key", a, 2);
}

static void one_value(cf_t *t)
{
    kvs_key_t keys[2] = {cf_key(t, 1), cf_key(t, 1)};
    cf_array_t *value = cf_const(t, KVS_DTYPE_float32, N, 1);
    cf_array_t *out = cf_const(t, KVS_DTYPE_float32, N, 9);

    CF_FAIL(t,
            kvs_store_broadcast(t->store, keys, 1, CF_LIST(t, value, value), CF_LIST(t, out), NULL),
            KVS_ERR_EXISTS, cf_key_text(t, keys[0]));
    CF_FAIL(t,
            kvs_store_broadcast(t->store, keys, 2, CF_LIST(t, value, value), CF_LIST(t, out, out),
                                NULL),
            KVS_ERR_EXISTS, cf_key_text(t, keys[0]));
    cf_want_all(t, "the out of refused broadcasts", out, 9);
}

static void converts(cf_t *t)
{
    kvs_key_t key = cf_key(t, 1);
    cf_array_t *value = cf_const(t, KVS_DTYPE_float32, N, 0.1);
    cf_array_t *wide = cf_vector(t, KVS_DTYPE_float64, N);
    cf_array_t *half = cf_vector(t, KVS_DTYPE_float16, N);

    CF_OK(t,
          kvs_store_broadcast(t->store, &key, 1, CF_LIST(t, value), CF_LIST(t, wide, half), NULL));
    cf_want_all(t, "out", wide, (double)0.1f);
    cf_want_all(t, "out", half, cf_round(KVS_DTYPE_float16, (double)0.1f));
}

static void disagree(cf_t *t)
{
    kvs_key_t key = cf_key(t, 1);
    cf_array_t *value = cf_const(t, KVS_DTYPE_float32, N, 1);
    cf_array_t *longer = cf_vector(t, KVS_DTYPE_float32, N + 6);
    cf_array_t *integer = cf_vector(t, KVS_DTYPE_int32, N);
    cf_array_t *out = cf_vector(t, KVS_DTYPE_float32, N);

    CF_FAIL(t, kvs_store_broadcast(t->store, &key, 1, CF_LIST(t, value), CF_LIST(t, longer), NULL),
            KVS_ERR_SHAPE, "13");
    CF_FAIL(t, kvs_store_broadcast(t->store, &key, 1, CF_LIST(t, value), CF_LIST(t, integer), NULL),
            KVS_ERR_DTYPE, "int32");
    /* the refused calls have not made the key */
    CF_OK(t, kvs_store_broadcast(t->store, &key, 1, CF_LIST(t, value), CF_LIST(t, out), NULL));
    cf_want_all(t, "out", out, 1);
}

static const cf_case_t cases[] = {
    {"broadcast.every_out", "broadcast writes rank 0's value to every out on every rank.", CF_LISTS,
     every_out},
    {"broadcast.is_init",
     "Where weights are kept broadcast is init, then pull; the second is a duplicate init.",
     CF_WEIGHTS, is_init},
    {"broadcast.repeatable", "Where none are kept, a key may be broadcast again.", CF_NO_WEIGHTS,
     repeatable},
    {"broadcast.into_value", "An out of a broadcast may be the value itself.", CF_LISTS,
     into_value},
    {"broadcast.swapped", "All values of a broadcast are read before any out is written.", CF_LISTS,
     swapped},
    {"broadcast.one_value", "broadcast takes one value for a key, and a key once.", 0, one_value},
    {"broadcast.converts", "An out of another floating dtype is converted to.", CF_LISTS, converts},
    {"broadcast.disagree",
     "An out of another shape, or of a dtype that is not converted to, makes no key.", 0, disagree},
};

const cf_theme_t cf_theme_broadcast = CF_THEME(cases);
