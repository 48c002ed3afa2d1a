/* SPDX-License-Identifier: Apache-2.0 */
/* cases_errors.c - calls that no caller may make. */
#include "themes.h"

enum { N = 4 };

static void null_arguments(cf_t *t)
{
    kvs_key_t key = cf_key(t, 1);
    const kvs_arrays_t *list = CF_LIST(t, cf_vector(t, KVS_DTYPE_float32, N));
    const kvs_arrays_t no_arrays = {NULL, 1, NULL, 0};
    int number;

    CF_FAIL(t, kvs_store_pushpull(NULL, &key, 1, list, NULL, NULL), KVS_ERR_ARGUMENT, "NULL");
    CF_FAIL(t, kvs_store_pushpull(t->store, NULL, 1, list, NULL, NULL), KVS_ERR_ARGUMENT, "NULL");
    CF_FAIL(t, kvs_store_pushpull(t->store, &key, 1, NULL, NULL, NULL), KVS_ERR_ARGUMENT, "NULL");
    CF_FAIL(t, kvs_store_pushpull(t->store, &key, 1, &no_arrays, NULL, NULL), KVS_ERR_ARGUMENT,
            "NULL");
    CF_FAIL(t, kvs_store_broadcast(t->store, &key, 1, list, NULL, NULL), KVS_ERR_ARGUMENT, "NULL");
    CF_FAIL(t, kvs_store_broadcast(t->store, &key, 1, NULL, list, NULL), KVS_ERR_ARGUMENT, "NULL");
    CF_FAIL(t, kvs_store_rank(NULL, &number), KVS_ERR_ARGUMENT, "NULL");
    CF_FAIL(t, kvs_store_rank(t->store, NULL), KVS_ERR_ARGUMENT, "NULL");
    CF_FAIL(t, kvs_store_is_capable(t->store, NULL, &number), KVS_ERR_ARGUMENT, "NULL");
    CF_FAIL(t, kvs_store_stats(t->store, NULL), KVS_ERR_ARGUMENT, "NULL");
    CF_FAIL(t, kvs_event_wait(NULL, 0), KVS_ERR_ARGUMENT, "NULL");
    cf_want_text(t, "type of no store", kvs_store_type(NULL), "");
    if (cf_keeps_weights(t)) {
        CF_FAIL(t, kvs_store_init(t->store, &key, 1, NULL, NULL), KVS_ERR_ARGUMENT, "NULL");
        cf_init(t, key, cf_vector(t, KVS_DTYPE_float32, N));
        CF_FAIL(t, kvs_store_push(t->store, &key, 1, NULL, NULL), KVS_ERR_ARGUMENT, "NULL");
        CF_FAIL(t, kvs_store_pull(t->store, &key, 1, NULL, NULL), KVS_ERR_ARGUMENT, "NULL");
    }
}

/* After every refused call, the store works on. */
static void store_works_on(cf_t *t)
{
    kvs_key_t key = cf_key(t, 1);
    cf_array_t *value = cf_const(t, KVS_DTYPE_float32, N, 2);
    cf_array_t *out = cf_vector(t, KVS_DTYPE_float32, N);
    cf_array_t *longer = cf_vector(t, KVS_DTYPE_float32, N + 1);

    cf_use(t, key, value);
    for (int i = 0; i < 3; i++) {
        CF_FAIL(t,
                kvs_store_pushpull(t->store, &key, 1, CF_LIST(t, value), CF_LIST(t, longer), NULL),
                KVS_ERR_SHAPE, "");
        cf_pushpull(t, key, CF_LIST(t, value), CF_LIST(t, out));
        cf_want_all(t, "out of a good call after a refused one", out, 2 * t->n_workers);
    }
    CF_OK(t, kvs_store_wait_all(t->store, -1)); /* what a call returned is not owed */
}

static const cf_case_t cases[] = {
    {"error.null", "NULL where something is needed is an argument error that says so.", 0,
     null_arguments},
    {"error.works_on", "A store works on after refused calls, and owes no error for them.",
     CF_REPLACES, store_works_on},
};

const cf_theme_t cf_theme_errors = CF_THEME(cases);
