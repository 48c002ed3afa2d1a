/* SPDX-License-Identifier: Apache-2.0 */
/* cases_optimizer.c - an optimizer in the store, tried with sgd: g = clip(rescale * G) + wd * w, then
 * w -= lr * g, or with momentum m = momentum * m - lr * g, w += m.
 *
 * All numbers are binary fractions with few digits, so that every step is exact in every floating
 * dtype; the expectations are those formulas in double. */
#include "themes.h"

#include <stdio.h>

enum { N = 6 };

#define REAL(param_name, number)                                                                   \
    {                                                                                              \
        .name = (param_name), .type = KVS_PARAM_FLOAT, .value = {.real = (number) }                \
    }
#define INTEGER(param_name, number)                                                                \
    {                                                                                              \
        .name = (param_name), .type = KVS_PARAM_INT, .value = {.integer = (number) }               \
    }

static kvs_status_t set_optimizer(cf_t *t, const char *name, const kvs_param_t *params,
                                  size_t n_params)
{
    kvs_optimizer_spec_t spec = KVS_OPTIMIZER_INIT;

    spec.name = name;
    spec.params = params;
    spec.n_params = n_params;
    return kvs_store_set_optimizer(t->store, &spec);
}

#define SET_OPTIMIZER(t, name, ...)                                                                \
    set_optimizer((t), (name), (const kvs_param_t[]){__VA_ARGS__},                                 \
                  sizeof((kvs_param_t[]){__VA_ARGS__}) / sizeof(kvs_param_t))

static cf_array_t *f32(cf_t *t, double value)
{
    return cf_const(t, KVS_DTYPE_float32, N, value);
}

/* One element of sgd. */
typedef struct sgd {
    double rate, wd, rescale, momentum, clip;
    double mom;
} sgd_t;

static double step(sgd_t *sgd, double gradient, double weight)
{
    double g = sgd->rescale * gradient;

    if (sgd->clip > 0) {
        g = g > sgd->clip ? sgd->clip : g < -sgd->clip ? -sgd->clip : g;
    }
    g += sgd->wd * weight;
    sgd->mom = sgd->momentum * sgd->mom - sgd->rate * g;
    return weight + sgd->mom;
}

/* Push the gradient `value` and want `weight` stored. */
static void push_and_want(cf_t *t, kvs_key_t key, double value, double weight)
{
    cf_array_t *out = f32(t, 0);

    cf_push(t, key, CF_LIST(t, f32(t, value)));
    cf_pull(t, key, out);
    cf_want_all(t, "weight after the update", out, weight);
}

static void sgd_step(cf_t *t)
{
    static const int dtypes[] = {KVS_DTYPE_float32, KVS_DTYPE_float64, KVS_DTYPE_float16,
                                 KVS_DTYPE_bfloat16};

    CF_OK(t, SET_OPTIMIZER(t, "sgd", REAL("learning_rate", 0.5), REAL("wd", 0.25),
                           REAL("rescale_grad", 0.5)));
    for (int i = 0; i < 4; i++) {
        kvs_key_t key = cf_key(t, i);
        cf_array_t *out = cf_vector(t, dtypes[i], N);

        cf_init(t, key, cf_const(t, dtypes[i], N, 8));
        cf_push(t, key, CF_LIST(t, cf_ranked(t, dtypes[i], N, 0), cf_ranked(t, dtypes[i], N, 1)));
        cf_pull(t, key, out);
        for (int j = 0; j < N; j++) {
            sgd_t sgd = {0.5, 0.25, 0.5, 0, 0, 0};

            cf_want_at(t, "8 - 0.5 * (0.5 * sum + 0.25 * 8)", out, j,
                       step(&sgd, cf_sum(t, 2, j), 8));
        }
    }
}

static void momentum(cf_t *t)
{
    kvs_key_t keys[2] = {cf_key(t, 1), cf_key(t, 2)};
    sgd_t sgd[2] = {{0.5, 0.25, 1, 0.5, 0, 0}, {0.5, 0.25, 1, 0.5, 0, 0}};
    double weights[2] = {8, -4};

    cf_init(t, keys[0], f32(t, weights[0]));
    cf_init(t, keys[1], f32(t, weights[1]));
    CF_OK(t, SET_OPTIMIZER(t, "sgd", REAL("learning_rate", 0.5), REAL("wd", 0.25),
                           REAL("momentum", 0.5)));
    for (int i = 1; i <= 3; i++) {
        for (int k = 0; k < 2; k++) {
            weights[k] = step(&sgd[k], (double)i * t->n_workers, weights[k]);
            push_and_want(t, keys[k], i, weights[k]);
        }
    }
}

static void clip(cf_t *t)
{
    kvs_key_t key = cf_key(t, 1);

    cf_init(t, key, f32(t, 8));
    CF_OK(t, SET_OPTIMIZER(t, "sgd", REAL("learning_rate", 1), REAL("clip_gradient", 2)));
    push_and_want(t, key, 16, 6);
    push_and_want(t, key, -16, 8);
    CF_OK(t, SET_OPTIMIZER(t, "sgd", REAL("learning_rate", 1), REAL("clip_gradient", 0)));
    push_and_want(t, key, 16, 8 - 16 * t->n_workers); /* 0 is off */
}

static void pushpull(cf_t *t)
{
    kvs_key_t key = cf_key(t, 1);
    cf_array_t *value = f32(t, 2), *out = f32(t, 0);

    cf_init(t, key, f32(t, 8));
    CF_OK(t, SET_OPTIMIZER(t, "sgd", REAL("learning_rate", 0.5)));
    cf_pushpull(t, key, CF_LIST(t, value), CF_LIST(t, out));
    cf_want_all(t, "weight, in the out of a pushpull", out, 8 - t->n_workers);
    cf_want_all(t, "the gradient", value, 2);
    cf_pushpull(t, key, CF_LIST(t, value), NULL);
    cf_want_all(t, "weight, in place of the gradient", value, 8 - 2 * t->n_workers);
}

static void list(cf_t *t)
{
    enum { N_KEYS = 40 };
    kvs_key_t *keys = cf_alloc(t, N_KEYS * sizeof(*keys));
    cf_array_t **weights = cf_alloc(t, N_KEYS * sizeof(*weights));
    cf_array_t **values = cf_alloc(t, N_KEYS * sizeof(*values));

    for (int i = 0; i < N_KEYS; i++) {
        keys[i] = cf_name(t, (i * 7) % N_KEYS);
        weights[i] = cf_const(t, KVS_DTYPE_float32, 1 + i, i);
        values[i] = cf_const(t, KVS_DTYPE_float32, 1 + i, 2);
    }
    CF_OK(t, kvs_store_init(t->store, keys, N_KEYS, cf_list(t, N_KEYS, weights), NULL));
    CF_OK(t, SET_OPTIMIZER(t, "sgd", REAL("learning_rate", 0.5)));
    for (int round = 1; round <= 2; round++) {
        CF_OK(t, kvs_store_push(t->store, keys, N_KEYS, cf_list(t, N_KEYS, values), NULL));
        CF_OK(t, kvs_store_pull(t->store, keys, N_KEYS, cf_list(t, N_KEYS, weights), NULL));
        for (int i = 0; i < N_KEYS; i++) {
            cf_want_all(t, "weight of a list", weights[i], i - round * t->n_workers);
        }
    }
}

static void second(cf_t *t)
{
    kvs_key_t key = cf_key(t, 1);
    int n = t->n_workers;

    cf_init(t, key, f32(t, 32));
    for (int i = 0; i < 2; i++) {
        CF_OK(t, SET_OPTIMIZER(t, "sgd", REAL("learning_rate", 1), REAL("momentum", 0.5)));
        /* m = -n, then -1.5 n; it starts at 0 again for the second optimizer */
        push_and_want(t, key, 1, 32 - 2.5 * i * n - n);
        push_and_want(t, key, 1, 32 - 2.5 * i * n - 2.5 * n);
    }
}

static void attribute(cf_t *t)
{
    kvs_key_t key = cf_key(t, 1);
    const kvs_param_t rate = REAL("learning_rate", 0.25);
    const kvs_param_t rescale = REAL("rescale_grad", 0.5);
    const kvs_param_t wd = REAL("wd", 0.5);
    const kvs_param_t unknown = REAL("learning_rat", 0.5);
    int n = t->n_workers;

    cf_init(t, key, f32(t, 32));
    CF_FAIL(t, kvs_store_set_optimizer_attr(t->store, &rate), KVS_ERR_STATE, "");
    CF_OK(t, SET_OPTIMIZER(t, "sgd", REAL("learning_rate", 1)));
    push_and_want(t, key, 4, 32 - 4 * n);
    CF_OK(t, kvs_store_set_optimizer_attr(t->store, &rate));
    push_and_want(t, key, 4, 32 - 5 * n);
    CF_OK(t, kvs_store_set_optimizer_attr(t->store, &rescale));
    push_and_want(t, key, 4, 32 - 5.5 * n);
    CF_FAIL(t, kvs_store_set_optimizer_attr(t->store, &unknown), KVS_ERR_ARGUMENT, "learning_rat");
    CF_OK(t, kvs_store_set_optimizer_attr(t->store, &wd));
    push_and_want(t, key, 0, (32 - 5.5 * n) * 0.875);
}

static void schedule(cf_t *t)
{
    kvs_key_t key = cf_key(t, 1);
    const kvs_param_t params[] = {REAL("learning_rate", 1)};
    const kvs_param_t schedule_params[] = {INTEGER("step", 1), REAL("factor", 0.5)};
    const kvs_param_t rate = REAL("learning_rate", 0.25);
    kvs_optimizer_spec_t spec = KVS_OPTIMIZER_INIT;
    int n = t->n_workers;

    spec.name = "sgd";
    spec.params = params;
    spec.n_params = 1;
    spec.schedule = "factor";
    spec.schedule_params = schedule_params;
    spec.n_schedule_params = 2;
    cf_init(t, key, f32(t, 32));
    CF_OK(t, kvs_store_set_optimizer(t->store, &spec));
    push_and_want(t, key, 4,
                  32 - 4 * n); /* the rate is halved once more than one update was made */
    push_and_want(t, key, 4, 32 - 6 * n);
    CF_FAIL(t, kvs_store_set_optimizer_attr(t->store, &rate), KVS_ERR_STATE, "factor");
    push_and_want(t, key, 4, 32 - 7 * n);
}

static void multipliers(cf_t *t)
{
    kvs_key_t keys[3] = {cf_key(t, 1), cf_key(t, 2), cf_key(t, 3)};
    const kvs_param_t params[] = {REAL("learning_rate", 1), REAL("wd", 0.5)};
    const kvs_multiplier_t lr_mult[] = {{cf_key(t, 1), 0.5}, {kvs_key_str("bias"), 0.25}};
    const kvs_multiplier_t wd_mult[] = {{kvs_key_str("bias"), 0}};
    const kvs_param_name_t names[] = {{cf_key(t, 2), "bias"}};
    kvs_optimizer_spec_t spec = KVS_OPTIMIZER_INIT;
    int n = t->n_workers;

    spec.name = "sgd";
    spec.params = params;
    spec.n_params = 2;
    spec.lr_mult = lr_mult;
    spec.n_lr_mult = 2;
    spec.wd_mult = wd_mult;
    spec.n_wd_mult = 1;
    spec.names = names;
    spec.n_names = 1;
    for (int i = 0; i < 3; i++) {
        cf_init(t, keys[i], f32(t, 16));
    }
    CF_OK(t, kvs_store_set_optimizer(t->store, &spec));
    push_and_want(t, keys[0], 4, 16 - 0.5 * (4 * n + 8));
    push_and_want(t, keys[1], 4, 16 - 0.25 * (4 * n));
    push_and_want(t, keys[2], 4, 16 - (4 * n + 8));
}

static void unknown_name(cf_t *t)
{
    kvs_key_t key = cf_key(t, 1);

    cf_init(t, key, f32(t, 8));
    CF_FAIL(t, SET_OPTIMIZER(t, "no_such_optimizer", REAL("learning_rate", 1)), KVS_ERR_NOT_FOUND,
            "no_such_optimizer");
    cf_push(t, key, CF_LIST(t, f32(t, 3)));
    push_and_want(t, key, 3, 3 * t->n_workers); /* pushes still replace */
    CF_OK(t, SET_OPTIMIZER(t, "sgd", REAL("learning_rate", 1)));
    CF_FAIL(t, SET_OPTIMIZER(t, "no_such_optimizer", REAL("learning_rate", 1)), KVS_ERR_NOT_FOUND,
            "");
    push_and_want(t, key, 1, 2 * t->n_workers); /* sgd is still there */
}

static kvs_status_t nothing(const kvs_key_t *key, const kvs_tensor_t *value,
                            const kvs_tensor_t *stored, void *arg)
{
    (void)key;
    (void)value;
    (void)stored;
    (void)arg;
    return KVS_OK;
}

static void bad_parameters(cf_t *t)
{
    const kvs_param_t text = {
        .name = "momentum", .type = KVS_PARAM_TEXT, .value = {.text = "much"}};

    CF_FAIL(t, SET_OPTIMIZER(t, "sgd", REAL("momentun", 0.5)), KVS_ERR_ARGUMENT, "momentun");
    cf_want_part(t, "text about an unknown parameter", kvs_last_error(), "momentum");
    CF_FAIL(t, SET_OPTIMIZER(t, "sgd", REAL("learning_rate", -0.5)), KVS_ERR_ARGUMENT,
            "learning_rate");
    CF_FAIL(t, set_optimizer(t, "sgd", &text, 1), KVS_ERR_ARGUMENT, "momentum");
    CF_FAIL(t, SET_OPTIMIZER(t, "sgd", REAL("wd", -1)), KVS_ERR_ARGUMENT, "wd");
    CF_OK(t, SET_OPTIMIZER(t, "sgd", INTEGER("learning_rate", 1))); /* whole numbers are numbers */
}

static void integer_weights(cf_t *t)
{
    kvs_key_t key = cf_key(t, 1);
    cf_array_t *out = cf_vector(t, KVS_DTYPE_int32, N);

    cf_init(t, key, cf_const(t, KVS_DTYPE_int32, N, 5));
    CF_OK(t, SET_OPTIMIZER(t, "sgd", REAL("learning_rate", 1)));
    CF_FAIL(t,
            kvs_store_push(t->store, &key, 1, CF_LIST(t, cf_const(t, KVS_DTYPE_int32, N, 1)), NULL),
            KVS_ERR_DTYPE, "int32");
    cf_want_part(t, "text about an integer weight", kvs_last_error(), cf_key_text(t, key));
    cf_pull(t, key, out);
    cf_want_all(t, "stored after a refused update", out, 5);
}

static void values_unchanged(cf_t *t)
{
    kvs_key_t key = cf_key(t, 1);
    cf_array_t *a = f32(t, 3), *b = f32(t, 4);

    cf_init(t, key, f32(t, 8));
    CF_OK(t, SET_OPTIMIZER(t, "sgd", REAL("learning_rate", 1), REAL("momentum", 0.5),
                           REAL("wd", 0.5)));
    cf_push(t, key, CF_LIST(t, a));
    cf_push(t, key, CF_LIST(t, a, b));
    cf_want_all(t, "the first pushed array", a, 3);
    cf_want_all(t, "the second pushed array", b, 4);
}

static void or_updater(cf_t *t)
{
    kvs_key_t key = cf_key(t, 1);
    int n = t->n_workers;

    if ((t->traits & CF_UPDATER) == 0) {
        cf_skip(t, "the backend takes no updater");
        return;
    }
    cf_init(t, key, f32(t, 8));
    CF_OK(t, SET_OPTIMIZER(t, "sgd", REAL("learning_rate", 1)));
    push_and_want(t, key, 1, 8 - n);
    CF_OK(t, kvs_store_set_updater(t->store, nothing, NULL));
    push_and_want(t, key, 1, 8 - n); /* nothing happens in that updater */
    CF_OK(t, SET_OPTIMIZER(t, "sgd", REAL("learning_rate", 1)));
    push_and_want(t, key, 1, 8 - 2 * n);
    CF_OK(t, kvs_store_set_updater(t->store, NULL, NULL));
    push_and_want(t, key, 1, n);
}

/* Where there is none: it says so, or like Horovod does nothing. */
static void not_capable(cf_t *t)
{
    kvs_status_t status = SET_OPTIMIZER(t, "sgd", REAL("learning_rate", 1));
    cf_array_t *value = f32(t, 4), *out = f32(t, 0);

    if (status != KVS_OK) {
        CF_FAIL(t, status, KVS_ERR_NOT_IMPLEMENTED, "not implemented: set_optimizer by");
    }
    cf_reduce(t, cf_key(t, 1), CF_LIST(t, value), out);
    cf_want_all(t, "a sum, with or without that call", out, 4 * t->n_workers);
}

static const cf_case_t cases[] = {
    {"optimizer.sgd", "sgd in the store updates weights of every floating dtype by its formula.",
     CF_OPTIMIZER | CF_IN_STEP, sgd_step},
    {"optimizer.momentum", "Each key has a momentum of its own, which goes on from push to push.",
     CF_OPTIMIZER | CF_IN_STEP, momentum},
    {"optimizer.clip", "clip_gradient bounds the rescaled sum; 0 is off.",
     CF_OPTIMIZER | CF_IN_STEP, clip},
    {"optimizer.pushpull", "With an optimizer pushpull gives the updated weight.",
     CF_OPTIMIZER | CF_IN_STEP, pushpull},
    {"optimizer.list", "The keys of one push are each updated once; string keys too.",
     CF_OPTIMIZER | CF_IN_STEP, list},
    {"optimizer.second", "A further set_optimizer starts with empty states.",
     CF_OPTIMIZER | CF_IN_STEP, second},
    {"optimizer.attribute",
     "set_optimizer_attr holds for the pushes after it; unknown, or without optimizer, is an "
     "error.",
     CF_OPTIMIZER | CF_IN_STEP, attribute},
    {"optimizer.schedule", "A schedule sets the rate; setting it beside the schedule is an error.",
     CF_OPTIMIZER | CF_IN_STEP, schedule},
    {"optimizer.multipliers", "Multipliers of rate and wd are found by key, else by name.",
     CF_OPTIMIZER | CF_IN_STEP, multipliers},
    {"optimizer.unknown_name", "An unknown optimizer is an error naming it; the old one stays.",
     CF_OPTIMIZER | CF_REPLACES, unknown_name},
    {"optimizer.bad_parameters",
     "An unknown parameter, a wrong type or a negative rate is an error naming it.", CF_OPTIMIZER,
     bad_parameters},
    {"optimizer.integer_weights", "A push to an integer weight with an optimizer is a dtype error.",
     CF_OPTIMIZER, integer_weights},
    {"optimizer.values_unchanged", "An optimizer does not change the pushed gradients.",
     CF_OPTIMIZER, values_unchanged},
    {"optimizer.or_updater", "Optimizer and updater take each other's place.", CF_OPTIMIZER,
     or_updater},
    {"optimizer.not_capable", "A backend that is not capable of an optimizer updates nothing.",
     CF_NO_OPTIMIZER, not_capable},
};

const cf_theme_t cf_theme_optimizer = CF_THEME(cases);
