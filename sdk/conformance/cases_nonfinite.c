/* SPDX-License-Identifier: Apache-2.0 */
/* cases_nonfinite.c - the option nonfinite, of backends that have it: what becomes of gradients with NaN or
 * infinity. Each case makes a store of its own, on all workers. */
#include "themes.h"

#include <math.h>
#include <stdlib.h>

enum { N = 6 };

static cf_array_t *f32(cf_t *t, double value)
{
    return cf_const(t, KVS_DTYPE_float32, N, value);
}

/* Ones, but of rank `rank` with one element that is not finite. */
static cf_array_t *bad_of(cf_t *t, int rank, double value)
{
    cf_array_t *array = f32(t, 1);

    if (t->rank == rank) {
        cf_set(t, array, 2, value);
    }
    return array;
}

/* The case's store as a store with the option; NULL: the backend has none. */
static kvs_store_t *open_with(cf_t *t, const char *policy)
{
    kvs_option_t *options = cf_alloc(t, (t->n_options + 1) * sizeof(*options));
    kvs_store_t *store = NULL;

    for (size_t i = 0; i < t->n_options; i++) {
        options[i] = t->options[i];
    }
    options[t->n_options] = (kvs_option_t){"nonfinite", policy};
    if (kvs_store_create(t->backend, options, t->n_options + 1, &store) == KVS_ERR_ARGUMENT) {
        cf_skip(t, "the backend has no option nonfinite");
        return NULL;
    }
    cf_want_true(t, store != NULL, "a store with the option nonfinite");
    return store;
}

static void pull_all(cf_t *t, kvs_store_t *store, kvs_key_t key, const char *what, double want)
{
    cf_array_t *out = f32(t, -1);

    CF_OK(t, kvs_store_pull(store, &key, 1, CF_LIST(t, out), NULL));
    cf_want_all(t, what, out, want);
}

static void skip(cf_t *t)
{
    const double bad[] = {(double)NAN, (double)INFINITY, -(double)INFINITY};
    kvs_store_t *store = open_with(t, "skip");
    kvs_key_t key = cf_key(t, 1);
    cf_array_t *out = f32(t, -1);

    if (store == NULL) {
        return;
    }
    CF_OK(t, kvs_store_init(store, &key, 1, CF_LIST(t, f32(t, 8)), NULL));
    for (int i = 0; i < 3; i++) {
        CF_OK(t, kvs_store_pushpull(store, &key, 1, CF_LIST(t, bad_of(t, i % t->n_workers, bad[i])),
                                    CF_LIST(t, out), NULL));
        cf_want_all(t, "the weight that a skipped round gives", out, 8);
    }
    CF_OK(t, kvs_store_push(store, &key, 1, CF_LIST(t, bad_of(t, 0, bad[0])), NULL));
    pull_all(t, store, key, "the weight after a skipped push", 8);
    CF_OK(t, kvs_store_push(store, &key, 1, CF_LIST(t, f32(t, 2)), NULL));
    pull_all(t, store, key, "the sum of the next round", 2 * t->n_workers);
    CF_OK(t, kvs_store_close(store));
}

static void error(cf_t *t)
{
    kvs_store_t *store = open_with(t, "error");
    kvs_key_t key = cf_name(t, 1);
    cf_array_t *out = f32(t, -1);

    if (store == NULL) {
        return;
    }
    CF_OK(t, kvs_store_init(store, &key, 1, CF_LIST(t, f32(t, 8)), NULL));
    CF_FAIL(t,
            kvs_store_pushpull(store, &key, 1,
                               CF_LIST(t, bad_of(t, t->n_workers - 1, (double)INFINITY)),
                               CF_LIST(t, out), NULL),
            KVS_ERR_NON_FINITE, cf_key_text(t, key));
    pull_all(t, store, key, "the weight after a refused round", 8);
    CF_OK(t, kvs_store_pushpull(store, &key, 1, CF_LIST(t, f32(t, 2)), CF_LIST(t, out), NULL));
    cf_want_all(t, "the sum of the next round", out, 2 * t->n_workers);
    CF_OK(t, kvs_store_close(store));
}

static const cf_case_t cases[] = {
    {"nonfinite.skip",
     "With nonfinite=skip a round with NaN or infinity leaves the weight as it is.",
     CF_WEIGHTS | CF_REPLACES, skip},
    {"nonfinite.error",
     "With nonfinite=error a round with NaN or infinity is an error naming the key, and changes "
     "nothing.",
     CF_WEIGHTS | CF_REPLACES, error},
};

const cf_theme_t cf_theme_nonfinite = CF_THEME(cases);
