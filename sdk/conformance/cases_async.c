/* SPDX-License-Identifier: Apache-2.0 */
/* cases_async.c - asynchronous stores: each push updates by itself, of whichever worker it is. What the
 * pushes of several workers give together is looked at where their order makes no difference. */
#include "themes.h"

#include <math.h>

enum { N = 6 };

static cf_array_t *f32(cf_t *t, double value)
{
    return cf_const(t, KVS_DTYPE_float32, N, value);
}

#define REAL(param_name, number)                                                                   \
    {                                                                                              \
        .name = (param_name), .type = KVS_PARAM_FLOAT, .value = {.real = (number) }                \
    }

static void set_sgd(cf_t *t, double rate, double momentum)
{
    const kvs_param_t params[] = {REAL("learning_rate", rate), REAL("momentum", momentum)};
    kvs_optimizer_spec_t spec = KVS_OPTIMIZER_INIT;

    spec.name = "sgd";
    spec.params = params;
    spec.n_params = 2;
    CF_OK(t, kvs_store_set_optimizer(t->store, &spec));
}

/* All workers' pushes so far have been carried out. */
static void meet(cf_t *t)
{
    CF_OK(t, kvs_store_wait_all(t->store, -1));
    CF_OK(t, kvs_store_barrier(t->store));
}

static void want(cf_t *t, const char *what, kvs_key_t key, double value)
{
    cf_array_t *out = f32(t, -1);

    cf_pull(t, key, out);
    cf_want_all(t, what, out, value);
}

static void needs_optimizer(cf_t *t)
{
    kvs_key_t key = cf_key(t, 1);
    cf_array_t *out = f32(t, 0);

    cf_init(t, key, f32(t, 8));
    CF_FAIL(t, kvs_store_push(t->store, &key, 1, CF_LIST(t, f32(t, 1)), NULL), KVS_ERR_STATE,
            "set_optimizer");
    cf_want_part(t, "text of the error", kvs_last_error(), cf_key_text(t, key));
    CF_FAIL(t, kvs_store_pushpull(t->store, &key, 1, CF_LIST(t, f32(t, 1)), CF_LIST(t, out), NULL),
            KVS_ERR_STATE, "set_optimizer");
    want(t, "weight after refused pushes", key, 8);
    meet(t);
    set_sgd(t, 0.5, 0);
    cf_push(t, key, CF_LIST(t, f32(t, 2)));
    meet(t);
    want(t, "weight after a push of each worker", key, 8 - t->n_workers);
}

static void each_push(cf_t *t)
{
    enum { N_PUSHES = 5 };
    kvs_key_t key = cf_key(t, 1);
    double pushed = 0;

    cf_init(t, key, f32(t, 100));
    set_sgd(t, 0.5, 0);
    for (int i = 1; i <= N_PUSHES; i++) {
        cf_push(t, key, CF_LIST(t, f32(t, i), f32(t, t->rank)));
        for (int rank = 0; rank < t->n_workers; rank++) {
            pushed += i + rank;
        }
    }
    meet(t);
    want(t, "weight after all pushes", key, 100 - 0.5 * pushed);
}

static void own_pushes(cf_t *t)
{
    kvs_key_t keys[16];
    int n = t->n_workers < 16 ? t->n_workers : 16;

    for (int i = 0; i < n; i++) {
        keys[i] = cf_key(t, i);
        cf_init(t, keys[i], f32(t, 8));
    }
    set_sgd(t, 0.5, 0);
    for (int i = 1; i <= 4 && t->rank < n; i++) { /* nobody else pushes this key */
        cf_array_t *out = f32(t, 0);

        cf_push(t, keys[t->rank], CF_LIST(t, f32(t, 2)));
        want(t, "weight after an own push", keys[t->rank], 8 - 2 * i + 1);
        cf_pushpull(t, keys[t->rank], CF_LIST(t, f32(t, 2)), CF_LIST(t, out));
        cf_want_all(t, "weight given by a pushpull", out, 8 - 2 * i);
    }
    meet(t);
    for (int i = 0; i < n; i++) {
        want(t, "weight that one worker has changed", keys[i], 0);
    }
}

/* Equal gradients commute, but each update needs the one before it as a whole. */
static void one_at_a_time(cf_t *t)
{
    enum { N_ELEMS = 1 << 20, N_PUSHES = 2 };
    kvs_key_t key = cf_key(t, 1);
    cf_array_t *out = cf_vector(t, KVS_DTYPE_float32, N_ELEMS);
    cf_array_t *gradient = cf_const(t, KVS_DTYPE_float32, N_ELEMS, 1);
    double weight = 64, momentum = 0;

    cf_init(t, key, cf_const(t, KVS_DTYPE_float32, N_ELEMS, weight));
    set_sgd(t, 0.5, 0.5);
    for (int i = 0; i < N_PUSHES; i++) {
        cf_push(t, key, CF_LIST(t, gradient));
        cf_pull(t, key, out);
        for (int j = 0; j < 8; j++) { /* servers may be at different pushes, but no block is */
            int first = j * (N_ELEMS / 8);

            cf_want_at(t, "an element beside another", out, first + 65535, cf_get(t, out, first));
        }
    }
    meet(t);
    for (int i = 0; i < N_PUSHES * t->n_workers; i++) {
        momentum = 0.5 * momentum - 0.5;
        weight += momentum;
    }
    cf_pull(t, key, out);
    for (int j = 0; j < 8; j++) {
        cf_want_at(t, "weight after as many updates as pushes", out, j * (N_ELEMS / 8) + j, weight);
    }
}

static void attribute(cf_t *t)
{
    kvs_param_t rate = REAL("learning_rate", 0.25);
    kvs_key_t key = cf_key(t, 1);

    cf_init(t, key, f32(t, 64));
    CF_FAIL(t, kvs_store_set_optimizer_attr(t->store, &rate), KVS_ERR_STATE, "set_optimizer");
    set_sgd(t, 0.5, 0);
    cf_push(t, key, CF_LIST(t, f32(t, 4)));
    meet(t);
    CF_OK(t, kvs_store_set_optimizer_attr(t->store, &rate));
    cf_push(t, key, CF_LIST(t, f32(t, 4)));
    meet(t);
    want(t, "weight after pushes at both rates", key, 64 - 3 * t->n_workers);
}

/* Each worker's gradients are packed with its own residual; what can't be packed ends that push alone. */
static void compressed(cf_t *t)
{
    static const kvs_param_t params[] = {
        {.name = "type", .type = KVS_PARAM_TEXT, .value = {.text = "2bit"}},
        REAL("threshold", 0.5),
    };
    kvs_key_t key = cf_key(t, 1), own = cf_key(t, 2 + t->rank);

    cf_init(t, key, f32(t, 64));
    for (int rank = 0; rank < t->n_workers; rank++) {
        cf_init(t, cf_key(t, 2 + rank), f32(t, 64));
    }
    set_sgd(t, 1, 0);
    CF_OK(t, kvs_store_set_gradient_compression(t->store, params, 2));
    for (int i = 0; i < 3; i++) { /* 0.5, then 0.5, then 0 and 0.25 is owed */
        cf_push(t, key, CF_LIST(t, f32(t, i == 2 ? 0 : 0.625)));
    }
    cf_push(t, own, CF_LIST(t, f32(t, 1)));
    want(t, "weight after 0.5 of 1 was sent", own, 63.5);
    CF_REFUSED(t, kvs_store_pushpull(t->store, &own, 1, CF_LIST(t, f32(t, INFINITY)), NULL, NULL),
               "");
    cf_push(t, own, CF_LIST(t, f32(t, 0)));
    want(t, "weight after the rest was sent", own, 63);
    meet(t);
    want(t, "weight after pushes by all", key, 64 - t->n_workers);
}

static void capable(cf_t *t)
{
    int is_async = -1;

    CF_OK(t, kvs_store_is_capable(t->store, "async", &is_async));
    cf_want_number(t, "is_capable(async)", is_async, 1);
}

static const cf_case_t cases[] = {
    {"async.capable", "An asynchronous store says so.", CF_ASYNC, capable},
    {"async.needs_optimizer",
     "Without an optimizer a push to an asynchronous store is a state error naming set_optimizer.",
     CF_ASYNC | CF_WEIGHTS, needs_optimizer},
    {"async.each_push", "Each push updates once, with the sum of its own values.",
     CF_ASYNC | CF_OPTIMIZER, each_push},
    {"async.own_pushes", "A push waits for no other worker; a pull sees the worker's own pushes.",
     CF_ASYNC | CF_OPTIMIZER, own_pushes},
    {"async.one_at_a_time", "A weight is never updated by two pushes at the same time.",
     CF_ASYNC | CF_OPTIMIZER, one_at_a_time},
    {"async.attribute", "set_optimizer_attr holds for the pushes after it, of all workers.",
     CF_ASYNC | CF_OPTIMIZER, attribute},
    {"async.compressed", "Compressed pushes, too, update by themselves.",
     CF_ASYNC | CF_OPTIMIZER | CF_COMPRESSION, compressed},
};

const cf_theme_t cf_theme_async = CF_THEME(cases);
