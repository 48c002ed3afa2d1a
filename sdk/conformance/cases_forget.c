/* SPDX-License-Identifier: Apache-2.0 */
/* cases_forget.c - keys that are deleted or begin afresh, and workers that take no part in rounds any
 * more. */
#include "themes.h"

enum { N = 6 };

static cf_array_t *f32(cf_t *t, double value)
{
    return cf_const(t, KVS_DTYPE_float32, N, value);
}

/* Whether the backend offers it: an empty list tells. */
static bool can_delete(cf_t *t)
{
    if (kvs_store_delete(t->store, NULL, 0) == KVS_ERR_NOT_IMPLEMENTED) {
        cf_skip(t, "the backend deletes no keys");
        return false;
    }
    return true;
}

static void want(cf_t *t, const char *what, kvs_key_t key, double value)
{
    cf_array_t *out = f32(t, -1);

    cf_pull(t, key, out);
    cf_want_all(t, what, out, value);
}

static void forgets(cf_t *t)
{
    kvs_key_t keys[2] = {cf_key(t, 1), cf_key(t, 2)};
    cf_array_t *other = cf_const(t, KVS_DTYPE_float64, N + 1, 7);
    cf_array_t *out = cf_vector(t, KVS_DTYPE_float64, N + 1);

    if (!can_delete(t)) {
        return;
    }
    cf_init(t, keys[0], f32(t, 1));
    cf_init(t, keys[1], f32(t, 2));
    CF_OK(t, kvs_store_delete(t->store, keys, 1));
    CF_FAIL(t, kvs_store_pull(t->store, keys, 1, CF_LIST(t, f32(t, 0)), NULL), KVS_ERR_NOT_FOUND,
            cf_key_text(t, keys[0]));
    CF_FAIL(t, kvs_store_push(t->store, keys, 1, CF_LIST(t, f32(t, 0)), NULL), KVS_ERR_NOT_FOUND,
            cf_key_text(t, keys[0]));
    want(t, "another key", keys[1], 2);
    cf_init(t, keys[0], other); /* as new: of another shape and dtype */
    cf_pull(t, keys[0], out);
    cf_want_all(t, "the key, initialised anew", out, 7);
}

static void unknown(cf_t *t)
{
    kvs_key_t keys[2] = {cf_name(t, 1), cf_name(t, 2)};

    if (!can_delete(t)) {
        return;
    }
    cf_init(t, keys[0], f32(t, 5));
    CF_FAIL(t, kvs_store_delete(t->store, keys, 2), KVS_ERR_NOT_FOUND, keys[1].str);
    CF_FAIL(t, kvs_store_delete(t->store, (kvs_key_t[]){keys[0], keys[0]}, 2), KVS_ERR_ARGUMENT,
            keys[0].str);
    want(t, "a key of a refused list", keys[0], 5);
    CF_OK(t, kvs_store_delete(t->store, keys, 1));
    CF_FAIL(t, kvs_store_delete(t->store, keys, 1), KVS_ERR_NOT_FOUND, keys[0].str);
}

static void after_pushes(cf_t *t)
{
    kvs_key_t key = cf_key(t, 1);
    cf_array_t *outs[4];
    kvs_event_t *events[4] = {NULL};

    if (!can_delete(t)) {
        return;
    }
    cf_init(t, key, f32(t, 1));
    for (int i = 0; i < 4; i++) {
        kvs_call_t call = cf_call(&events[i]);

        outs[i] = f32(t, 0);
        CF_OK(t, kvs_store_pushpull(t->store, &key, 1, CF_LIST(t, f32(t, i)), CF_LIST(t, outs[i]),
                                    &call));
    }
    CF_OK(t, kvs_store_delete(t->store, &key, 1));
    for (int i = 0; i < 4; i++) {
        cf_finish(t, events[i]);
        cf_want_all(t, "out of a pushpull before the delete", outs[i], i * t->n_workers);
    }
}

static void reset(cf_t *t)
{
    kvs_key_t key = cf_name(t, 1);
    cf_array_t *longer = cf_vector(t, KVS_DTYPE_float32, N + 1);

    if (!can_delete(t)) {
        return;
    }
    CF_FAIL(t, kvs_store_reset(t->store, &key, 1, CF_LIST(t, f32(t, 1)), NULL), KVS_ERR_NOT_FOUND,
            key.str);
    cf_init(t, key, f32(t, 1));
    CF_OK(t, kvs_store_reset(t->store, &key, 1, CF_LIST(t, f32(t, 4)), NULL));
    want(t, "value after a reset", key, 4);
    CF_FAIL(t, kvs_store_reset(t->store, &key, 1, CF_LIST(t, longer), NULL), KVS_ERR_SHAPE,
            key.str);
    want(t, "value after a refused reset", key, 4);
}

static void reset_states(cf_t *t)
{
    const kvs_param_t params[] = {
        {.name = "learning_rate", .type = KVS_PARAM_FLOAT, .value = {.real = 0.5}},
        {.name = "momentum", .type = KVS_PARAM_FLOAT, .value = {.real = 0.5}}};
    kvs_optimizer_spec_t spec = KVS_OPTIMIZER_INIT;
    kvs_key_t key = cf_key(t, 1);

    if (!can_delete(t)) {
        return;
    }
    spec.name = "sgd";
    spec.params = params;
    spec.n_params = 2;
    CF_OK(t, kvs_store_set_optimizer(t->store, &spec));
    cf_init(t, key, f32(t, 8));
    cf_push(t, key, CF_LIST(t, f32(t, 1)));
    cf_push(t, key, CF_LIST(t, f32(t, 1)));
    CF_OK(t, kvs_store_reset(t->store, &key, 1, CF_LIST(t, f32(t, 8)), NULL));
    cf_push(t, key, CF_LIST(t, f32(t, 1)));
    want(t, "weight after the first update since", key, 8 - 0.5 * t->n_workers);
}

/* Join all workers; else the case is not for this backend. */
static int has_join(cf_t *t, int *ret_last)
{
    kvs_status_t status = kvs_store_join_last(t->store, ret_last);

    if (status == KVS_ERR_NOT_IMPLEMENTED) {
        cf_skip(t, "the backend has no join");
        return 0;
    }
    CF_OK(t, status);
    return 1;
}

/* The number of the last one is some worker's, and rounds go on with all. */
static void join(cf_t *t)
{
    kvs_key_t key = cf_key(t, 1);
    cf_array_t *out = f32(t, 0);
    int last = -1;

    if (!has_join(t, &last)) {
        return;
    }
    cf_want_true(t, last >= 0 && last < t->n_workers, "the last to join is one of the workers");
    cf_reduce(t, key, CF_LIST(t, f32(t, 1)), out);
    cf_want_all(t, "sum of all, after a join", out, t->n_workers);
    CF_OK(t, kvs_store_join(t->store));
}

/* Rank r pushes r + 1 times: each round has fewer workers. */
static void join_uneven(cf_t *t)
{
    kvs_key_t keys[2] = {cf_key(t, 1), cf_key(t, 2)};
    cf_array_t *out = f32(t, 0);
    int last;

    cf_init(t, keys[0], f32(t, 0));
    cf_init(t, keys[1], f32(t, 0));
    if (!has_join(t, &last)) {
        return;
    }
    for (int again = 0; again < 2; again++) {
        for (int round = 0; round <= t->rank; round++) {
            cf_pushpull(t, keys[0], CF_LIST(t, f32(t, t->rank + 1)), CF_LIST(t, out));
            double sum = 0;

            for (int rank = round; rank < t->n_workers; rank++) {
                sum += rank + 1;
            }
            cf_want_all(t, "sum of those that have not joined", out, sum);
        }
        CF_OK(t, kvs_store_join(t->store));
        cf_pushpull(t, keys[again], CF_LIST(t, f32(t, 1)), CF_LIST(t, out));
        cf_want_all(t, "sum of all, after the join", out, t->n_workers);
    }
}

static const cf_case_t cases[] = {
    {"delete.forgets", "A deleted key is as if never initialised; another init may differ.",
     CF_WEIGHTS, forgets},
    {"delete.unknown",
     "Deleting an unknown key is an error naming it, and deletes none of the list.", CF_WEIGHTS,
     unknown},
    {"delete.after_pushes", "A delete comes after what was issued before it.",
     CF_WEIGHTS | CF_REPLACES, after_pushes},
    {"reset.value", "A reset replaces the value by one of the same layout.", CF_WEIGHTS, reset},
    {"reset.states", "After a reset an optimizer has no states of the key.",
     CF_OPTIMIZER | CF_IN_STEP, reset_states},
    {"join.last", "join gives the rank that joined last; rounds need all workers again.",
     CF_REPLACES, join},
    {"join.uneven", "Rounds are of the workers that have not joined.",
     CF_WEIGHTS | CF_REPLACES | CF_IN_STEP, join_uneven},
};

const cf_theme_t cf_theme_forget = CF_THEME(cases);
