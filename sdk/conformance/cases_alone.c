/* SPDX-License-Identifier: Apache-2.0 */
/* cases_alone.c - exchanges of one key and one array a call, which is all that some backends take: what
 * other themes hold for lists, held for an array alone. */
#include "themes.h"

#include <math.h>
#include <stdio.h>

enum { N = 7 };

static void sum(cf_t *t)
{
    kvs_key_t key = cf_key(t, 1);
    cf_array_t *value = cf_ranked(t, KVS_DTYPE_float32, N, 1);
    cf_array_t *out = cf_const(t, KVS_DTYPE_float32, N, 9);

    cf_pushpull(t, key, CF_LIST(t, value), CF_LIST(t, out));
    for (int i = 0; i < N; i++) {
        cf_want_at(t, "value after pushpull with an out", value, i, cf_value(t->rank, 1, i));
    }
    cf_pushpull(t, key, CF_LIST(t, value), NULL);
    cf_want_same(t, "value after pushpull without outs", value, out);
    cf_fill_ranked(t, value, 0);
    cf_pushpull(t, key, CF_LIST(t, value), CF_LIST(t, value));
    cf_want_sum(t, "value that is the out", value, 1);
}

static void dtypes(cf_t *t)
{
    static const int64_t sizes[] = {0, 1, 1023};

    for (int dtype = 0; dtype < KVS_N_DTYPES; dtype++) {
        for (int i = 0; i < 3 && cf_has_dtype(t, dtype); i++) {
            cf_array_t *value = cf_ranked(t, dtype, sizes[i], 0);

            cf_pushpull(t, cf_key(t, dtype), CF_LIST(t, value), NULL);
            cf_want_sum(t, "value", value, 1);
        }
    }
}

static void large(cf_t *t)
{
    static const int64_t sizes[] = {(1 << 16) - 1, (1 << 16) + 1, 1100001};

    for (int i = 0; i < 3; i++) {
        cf_array_t *value = cf_ranked(t, KVS_DTYPE_float32, sizes[i], 0);
        cf_array_t *out = cf_vector(t, KVS_DTYPE_float32, sizes[i]);

        cf_pushpull(t, cf_name(t, 1), CF_LIST(t, value), CF_LIST(t, out));
        cf_want_sum(t, "out", out, 1);
    }
}

static void scalar(cf_t *t)
{
    cf_array_t *value = cf_new(t, KVS_DTYPE_float64, 0, NULL);

    cf_fill_ranked(t, value, 0);
    cf_pushpull(t, cf_key(t, 1), CF_LIST(t, value), NULL);
    cf_want_sum(t, "value", value, 1);
}

static void converts(cf_t *t)
{
    cf_array_t *value = cf_ranked(t, KVS_DTYPE_float32, N, 0);
    cf_array_t *out = cf_vector(t, KVS_DTYPE_float64, N);

    if (cf_has_dtype(t, KVS_DTYPE_float64)) {
        cf_pushpull(t, cf_key(t, 1), CF_LIST(t, value), CF_LIST(t, out));
        cf_want_sum(t, "out", out, 1);
    }
}

/* Where a broadcast is a sum with zeros, what is not finite spreads. */
static void broadcast(cf_t *t)
{
    kvs_key_t key = cf_key(t, 1);
    cf_array_t *value = cf_const(t, KVS_DTYPE_float32, N, t->rank == 0 ? 3 : NAN);
    cf_array_t *out = cf_vector(t, KVS_DTYPE_float32, N);

    CF_OK(t, kvs_store_broadcast(t->store, &key, 1, CF_LIST(t, value), CF_LIST(t, out), NULL));
    cf_want_all(t, "out", out, 3);
    cf_want_all(t, "value", value, t->rank == 0 ? 3 : NAN);
    CF_OK(t, kvs_store_broadcast(t->store, &key, 1, CF_LIST(t, value), CF_LIST(t, value), NULL));
    cf_want_all(t, "value that is the out", value, 3);
}

static void lists_refused(cf_t *t)
{
    kvs_key_t keys[2] = {cf_key(t, 1), cf_key(t, 2)};
    cf_array_t *a = cf_const(t, KVS_DTYPE_float32, N, 1), *b = cf_const(t, KVS_DTYPE_float32, N, 1);

    CF_FAIL(t, kvs_store_pushpull(t->store, keys, 2, CF_LIST(t, a, b), NULL, NULL),
            KVS_ERR_ARGUMENT, "one key");
    CF_FAIL(t, kvs_store_pushpull(t->store, keys, 1, CF_LIST(t, a, b), NULL, NULL),
            KVS_ERR_ARGUMENT, "one array");
    CF_FAIL(t, kvs_store_pushpull(t->store, keys, 1, CF_LIST(t, a), CF_LIST(t, a, b), NULL),
            KVS_ERR_ARGUMENT, "one array");
    CF_FAIL(t, kvs_store_broadcast(t->store, keys, 2, CF_LIST(t, a, b), CF_LIST(t, a, b), NULL),
            KVS_ERR_ARGUMENT, "one key");
    cf_want_all(t, "a value of a refused call", a, 1);
    cf_pushpull(t, keys[0], CF_LIST(t, a), NULL);
    cf_want_all(t, "a value of the call after it", a, t->n_workers);
}

static void not_allowed(cf_t *t)
{
    kvs_key_t key = cf_key(t, 1);
    cf_array_t *value = cf_const(t, KVS_DTYPE_float32, N, 2);
    char option[32];

    snprintf(option, sizeof(option), "allow_%s=1", t->memory->name);
    CF_FAIL(t, kvs_store_pushpull(t->store, &key, 1, CF_LIST(t, value), NULL, NULL),
            KVS_ERR_UNAVAILABLE, option);
    CF_FAIL(t, kvs_store_broadcast(t->store, &key, 1, CF_LIST(t, value), CF_LIST(t, value), NULL),
            KVS_ERR_UNAVAILABLE, option);
    cf_want_all(t, "a value of a refused call", value, 2);
}

static const cf_case_t cases[] = {
    {"alone.sum", "pushpull of an array is its sum over workers, in place or only to the out.",
     CF_NO_WEIGHTS, sum},
    {"alone.dtypes", "Sums of an array alone are exact in every dtype, also of no elements.",
     CF_NO_WEIGHTS, dtypes},
    {"alone.large", "An array of several MiB is summed as a small one is.", CF_NO_WEIGHTS, large},
    {"alone.scalar", "An array of no dimensions is summed.", CF_NO_WEIGHTS, scalar},
    {"alone.converts", "An out of another floating dtype is converted to.", CF_NO_WEIGHTS,
     converts},
    {"alone.broadcast", "broadcast of an array gives rank 0's value, whatever the others hold.",
     CF_NO_WEIGHTS, broadcast},
    {"alone.lists_refused", "What takes one key and one array a call says so of lists.",
     CF_NO_LISTS, lists_refused},
    {"alone.not_allowed", "What takes arrays only when allowed to says how to allow them.",
     CF_NOT_ALLOWED, not_allowed},
};

const cf_theme_t cf_theme_alone = CF_THEME(cases);
