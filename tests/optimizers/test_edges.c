/* SPDX-License-Identifier: Apache-2.0 */
/* test_edges.c - updates worked by hand, and the cases that hurt users of other systems. */
#include "rig.h"

#include "../vectors/half.h" /* not the kit's */
#include "kt.h"

#include <kvstore/kit.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MOMENTUM RIG_REAL("momentum", 0.9)

static float *weights(const rig_key_t *key)
{
    return key->weight;
}

static float first_of(const rig_key_t *key, const char *state)
{
    kvs_opt_state_t found = rig_state(key, state);

    return found.data != NULL ? *(float *)found.data : NAN;
}

static void near(double got, double want)
{
    if (!(fabs(got - want) <= 1e-6)) {
        printf("\n  got %.9g, want %.9g", got, want);
    }
    KT_TRUE(fabs(got - want) <= 1e-6);
}

/* g = min(2 * .5, .75) + .1 * 1 = .85; mom = -.085. Then g = .75 + .0915, mom = .9 * mom - .08415. */
static void sgd_rescales_then_clips_then_decays(void)
{
    rig_key_t key = rig_key_f32(1, (const float[]){1});
    const float grad[] = {0.5f};
    kvs_opt_t *opt =
        RIG_OPT("sgd", RIG_REAL("learning_rate", 0.1), RIG_REAL("wd", 0.1),
                RIG_REAL("rescale_grad", 2), RIG_REAL("clip_gradient", 0.75), MOMENTUM);

    KT_OK(rig_update(opt, &key, grad, 0, NULL));
    near(weights(&key)[0], 0.915);
    KT_OK(rig_update(opt, &key, grad, 0, NULL));
    near(weights(&key)[0], 0.75435);
    near(first_of(&key, "mom"), -0.16065);
    KT_REAL(grad[0], 0.5);
    kvs_opt_free(opt);
    rig_key_release(&key);
}

/* prev is the weight before: s = g + lamda g² (w - prev). */
static void dcasgd_updates_with_momentum(void)
{
    rig_key_t key = rig_key_f32(1, (const float[]){1});
    kvs_opt_t *opt =
        RIG_OPT("dcasgd", RIG_REAL("learning_rate", 0.1), RIG_REAL("lamda", 0.5), MOMENTUM);

    KT_OK(rig_update(opt, &key, (const float[]){1}, 0, NULL)); /* mom = -.1 */
    near(weights(&key)[0], 0.9);
    KT_OK(rig_update(opt, &key, (const float[]){2}, 0, NULL)); /* s = 2 + .5 * 4 * -.1 = 1.8 */
    near(weights(&key)[0], 0.63);
    near(first_of(&key, "mom"), -0.27);
    near(first_of(&key, "previous_weight"), 0.9);
    kvs_opt_free(opt);
    rig_key_release(&key);
}

static void zero_first_gradients_change_no_weight(void)
{
    const float zeros[3] = {0};

    for (size_t i = 0; rig_optimizer_at(i) != NULL; i++) {
        rig_key_t key = rig_key_f32(3, (const float[]){1, -2, 0.5f});
        kvs_opt_t *opt = rig_opt(rig_optimizer_at(i)->name, NULL, 0);

        if (strcmp(rig_optimizer_at(i)->name, "ftrl") == 0) {
            kvs_opt_free(opt); /* its weights come from its states alone, which begin at 0 */
            rig_key_release(&key);
            continue;
        }
        KT_OK(rig_update(opt, &key, zeros, 0, NULL));
        near(weights(&key)[0], 1);
        near(weights(&key)[1], -2);
        near(weights(&key)[2], 0.5);
        kvs_opt_free(opt);
        rig_key_release(&key);
    }
}

/* Three steps with one huge gradient; the sum of the weights tells results apart. */
static double steps_with(const char *name, const kvs_param_t *param)
{
    rig_key_t key = rig_key_f32(2, (const float[]){1, -1});
    kvs_opt_t *opt = rig_opt(name, param, param != NULL);
    double sum;

    KT_OK(rig_update(opt, &key, (const float[]){300, -0.2f}, 0, NULL));
    KT_OK(rig_update(opt, &key, (const float[]){0.1f, -400}, 0, NULL));
    KT_OK(rig_update(opt, &key, (const float[]){0.1f, 0.3f}, 0, NULL));
    sum = (double)weights(&key)[0] + 3 * (double)weights(&key)[1];
    kvs_opt_free(opt);
    rig_key_release(&key);
    return sum;
}

static void clip_gradient_zero_or_null_is_off_for_all(void)
{
    const kvs_param_t zero = RIG_REAL("clip_gradient", 0);
    const kvs_param_t null = {.name = "clip_gradient", .type = KVS_PARAM_NULL};
    const kvs_param_t tight = RIG_REAL("clip_gradient", 0.01);

    for (size_t i = 0; rig_optimizer_at(i) != NULL; i++) {
        const char *name = rig_optimizer_at(i)->name;
        double off = steps_with(name, NULL);

        KT_REAL(steps_with(name, &zero), off);
        KT_REAL(steps_with(name, &null), off);
        if (strcmp(name, "test") != 0 && strncmp(name, "sign", 4) != 0) { /* clip nothing to see */
            KT_TRUE(steps_with(name, &tight) != off);
        }
    }
}

static void nan_gradients_are_not_hidden_by_clipping(void)
{
    rig_key_t key = rig_key_f32(2, (const float[]){1, 1});
    kvs_opt_t *opt = RIG_OPT("sgd", RIG_REAL("clip_gradient", 1));

    KT_OK(rig_update(opt, &key, (const float[]){NAN, 5}, 0, NULL));
    KT_TRUE(isnan(weights(&key)[0]));
    near(weights(&key)[1], 0.99);
    kvs_opt_free(opt);
    rig_key_release(&key);
}

static void lans_takes_a_zero_gradient_for_zero(void)
{
    rig_key_t key = rig_key_f32(2, (const float[]){3, 4});
    kvs_opt_t *opt = RIG_OPT("lans", RIG_REAL("learning_rate", 0.1));

    KT_OK(rig_update(opt, &key, (const float[]){0, 0}, 0, NULL));
    KT_REAL(weights(&key)[0], 3);
    KT_REAL(weights(&key)[1], 4);
    KT_REAL(first_of(&key, "mean"), 0);
    kvs_opt_free(opt);
    rig_key_release(&key);
}

/* ‖w‖ = 5, ‖2 g‖ = 2: the rate is .1 * .5 * 5 / (2 + 0 + 0) = .125; g = 2 * (.6, .8). */
static void lars_adapts_the_rate_unless_the_name_says_no(void)
{
    static const kvs_param_name_t names[] = {{{NULL, 1}, "bn_gamma"}};
    const kvs_param_t params[] = {RIG_REAL("learning_rate", 0.1), RIG_REAL("eta", 0.5),
                                  RIG_REAL("epsilon", 0), RIG_REAL("rescale_grad", -2)};
    rig_key_t key = rig_key_f32(2, (const float[]){3, 4});
    rig_key_t named = rig_key_f32(2, (const float[]){3, 4});
    rig_key_t bias = rig_key_f32(2, (const float[]){3, 4});
    kvs_optimizer_spec_t spec = KVS_OPTIMIZER_INIT;
    kvs_opt_t *opt = NULL;

    spec.name = "lars";
    spec.params = params;
    spec.n_params = 4;
    spec.names = names;
    spec.n_names = 1;
    KT_OK(kvs_opt_new(&spec, &opt));
    named.entry.number = 1;
    bias.entry.name = "fc_bias"; /* a string key is its own name */
    KT_OK(rig_update(opt, &key, (const float[]){-0.6f, -0.8f}, 0, NULL));
    KT_OK(rig_update(opt, &named, (const float[]){-0.6f, -0.8f}, 0, NULL));
    KT_OK(rig_update(opt, &bias, (const float[]){-0.6f, -0.8f}, 0, NULL));
    near(weights(&key)[0], 3 - 0.125 * 1.2);
    near(weights(&key)[1], 4 - 0.125 * 1.6);
    near(weights(&named)[0], 3 - 0.1 * 1.2);
    near(weights(&bias)[1], 4 - 0.1 * 1.6);
    kvs_opt_free(opt);
    rig_key_release(&key);
    rig_key_release(&named);
    rig_key_release(&bias);
}

/* u = 1 in both elements, so ‖u‖ = √2; ‖w‖ = 5 is cut to 1. */
static void lamb_bounds_the_norm_of_weights(void)
{
    rig_key_t key = rig_key_f32(2, (const float[]){3, 4});
    kvs_opt_t *opt = RIG_OPT("lamb", RIG_REAL("learning_rate", 0.1), RIG_REAL("epsilon", 0),
                             RIG_REAL("upper_bound", 1));

    KT_OK(rig_update(opt, &key, (const float[]){2, 2}, 0, NULL));
    KT_TRUE(fabs(weights(&key)[0] - (3 - 0.1 / sqrt(2))) < 1e-5);
    KT_TRUE(fabs(weights(&key)[1] - (4 - 0.1 / sqrt(2))) < 1e-5);
    kvs_opt_free(opt);
    rig_key_release(&key);
}

/* Rows (1, 2) and (0, 4): means of squares 2.5 and 8. */
static void groupadagrad_keeps_one_number_a_row(void)
{
    static const int64_t shape[] = {2, 2};
    rig_key_t key = rig_key(0, KVS_DTYPE_float32, shape, 2);
    kvs_opt_t *opt = RIG_OPT("groupadagrad", RIG_REAL("learning_rate", 1), RIG_REAL("epsilon", 0));
    kvs_opt_state_t history;

    KT_OK(rig_update(opt, &key, (const float[]){1, 2, 0, 4}, 3, NULL));
    history = rig_state(&key, "history");
    KT_INT(history.n_elems, 2);
    KT_TRUE(history.per_row);
    KT_REAL(((float *)history.data)[0], 2.5f);
    KT_REAL(((float *)history.data)[1], 8);
    near(weights(&key)[0], -1 / sqrt(2.5));
    near(weights(&key)[1], -2 / sqrt(2.5));
    near(weights(&key)[2], 0);
    near(weights(&key)[3], -4 / sqrt(8));
    kvs_opt_free(opt);
    rig_key_release(&key);
}

/* With the same gradient again and again, the variance about the mean goes to zero. */
static void centered_rmsprop_survives_equal_gradients(void)
{
    rig_key_t key = rig_key_f32(1, (const float[]){1});
    kvs_opt_t *opt = RIG_OPT("rmsprop", RIG_BOOL("centered", 1), RIG_REAL("learning_rate", 1e-9));

    for (int i = 0; i < 2000; i++) {
        KT_OK(rig_update(opt, &key, (const float[]){1000.1f}, 0, NULL));
    }
    KT_TRUE(isfinite(weights(&key)[0]));
    kvs_opt_free(opt);
    rig_key_release(&key);
}

static void leaders_stay_where_they_are_at_rate_zero(void)
{
    static const char *const names[] = {"ftrl", "ftml"};

    for (size_t i = 0; i < 2; i++) {
        rig_key_t key = rig_key_f32(1, (const float[]){0.5f});
        kvs_opt_t *opt = RIG_OPT(names[i], RIG_REAL("learning_rate", 0));

        KT_OK(rig_update(opt, &key, (const float[]){2}, 0, NULL));
        KT_REAL(weights(&key)[0], 0.5);
        KT_INT(key.state.n_updates, 1);
        kvs_opt_free(opt);
        rig_key_release(&key);
    }
}

static void momentum_has_a_state_only_when_it_is_not_zero(void)
{
    static const char *const names[] = {"sgd", "nag", "signum", "lars"};

    for (size_t i = 0; i < 4; i++) {
        rig_key_t key = rig_key_f32(1, (const float[]){1});
        kvs_opt_t *opt = RIG_OPT(names[i], RIG_REAL("momentum", 0));
        const kvs_param_t on = RIG_REAL("momentum", 0.5);
        const kvs_param_t off = RIG_REAL("momentum", 0);

        KT_OK(rig_update(opt, &key, (const float[]){1}, 0, NULL));
        KT_INT(kvs_opt_n_states(&key.state), 0);
        KT_OK(kvs_opt_set_attr(opt, &on));
        KT_OK(rig_update(opt, &key, (const float[]){1}, 0, NULL));
        KT_INT(kvs_opt_n_states(&key.state), 1);
        KT_STR(kvs_opt_state_at(&key.state, 0).name, "mom");
        KT_TRUE(first_of(&key, "mom") != 0);
        KT_OK(kvs_opt_set_attr(opt, &off));
        KT_OK(rig_update(opt, &key, (const float[]){1}, 0, NULL));
        KT_INT(kvs_opt_n_states(&key.state), 0);
        kvs_opt_free(opt);
        rig_key_release(&key);
    }
}

static void the_test_optimizer_keeps_a_state_of_zeros(void)
{
    rig_key_t key = rig_key_f32(1, (const float[]){1});
    kvs_opt_t *opt = RIG_OPT("test", RIG_REAL("learning_rate", -0.5), RIG_REAL("wd", 0.1),
                             RIG_REAL("rescale_grad", 2), RIG_REAL("clip_gradient", 0.001));

    KT_OK(rig_update(opt, &key, (const float[]){3}, 0, NULL));
    near(weights(&key)[0], 1 + 0.5 * (6 + 0.1));
    KT_REAL(first_of(&key, "copy"), 0);
    kvs_opt_free(opt);
    rig_key_release(&key);
}

#define N_HALF 1500 /* more than one piece */

/* Without a master copy, arrays are rounded after each step and arithmetic is float32. */
static void half_types_are_rounded_once_a_step(void)
{
    static const int64_t shape[] = {N_HALF};
    static uint16_t grad[N_HALF], weight[N_HALF], mom[N_HALF];
    rig_key_t key = rig_key(0, KVS_DTYPE_float16, shape, 1);
    kvs_opt_t *opt = RIG_OPT("sgd", RIG_REAL("learning_rate", 0.1), MOMENTUM);
    float mu = 0.9f;
    float lr = 0.1f;

    memset(mom, 0, sizeof(mom));
    for (int i = 0; i < N_HALF; i++) {
        weight[i] = half_from_double(sin(i));
    }
    memcpy(key.weight, weight, sizeof(weight));
    for (int step = 0; step < 4; step++) {
        for (int i = 0; i < N_HALF; i++) {
            float m;

            grad[i] = half_from_double(cos(i + step));
            m = mu * (float)half_to_double(mom[i]) - lr * (float)half_to_double(grad[i]);
            mom[i] = half_from_double(m);
            weight[i] = half_from_double((float)half_to_double(weight[i]) + m);
        }
        KT_OK(rig_update(opt, &key, grad, 0, NULL));
    }
    KT_INT(rig_state(&key, "mom").dtype, KVS_DTYPE_float16);
    KT_TRUE(memcmp(key.weight, weight, sizeof(weight)) == 0);
    KT_TRUE(memcmp(rig_state(&key, "mom").data, mom, sizeof(mom)) == 0);
    kvs_opt_free(opt);
    rig_key_release(&key);
}

/* Steps too small for float16 add up in the master weight. */
static void master_weights_keep_what_half_types_lose(void)
{
    static const int64_t shape[] = {1};
    const uint16_t grad[] = {half_from_double(1)};
    rig_key_t key = rig_key(0, KVS_DTYPE_float16, shape, 1);
    kvs_opt_t *opt =
        RIG_OPT("sgd", RIG_REAL("learning_rate", 0.0001), RIG_BOOL("multi_precision", 1));

    *(uint16_t *)key.weight = half_from_double(1);
    for (int i = 0; i < 100; i++) {
        KT_OK(rig_update(opt, &key, grad, 0, NULL));
    }
    KT_STR(kvs_opt_state_at(&key.state, 0).name, "master_weight");
    KT_TRUE(fabs(first_of(&key, "master_weight") - 0.99) < 1e-5);
    KT_INT(*(uint16_t *)key.weight, half_from_double(0.99));
    kvs_opt_free(opt);
    rig_key_release(&key);
}

/* Corrected for its bias, the mean is g and the variance g². */
static void the_first_step_of_adam_is_the_rate(void)
{
    rig_key_t key = rig_key_f32(2, (const float[]){1, 1});
    kvs_opt_t *opt = RIG_OPT("adam", RIG_REAL("learning_rate", 0.01));

    KT_OK(rig_update(opt, &key, (const float[]){1, -50}, 0, NULL));
    KT_TRUE(fabs(weights(&key)[0] - 0.99) < 1e-6);
    KT_TRUE(fabs(weights(&key)[1] - 1.01) < 1e-6);
    kvs_opt_free(opt);
    rig_key_release(&key);
}

static const kt_test_t tests[] = {
    KT_TEST(sgd_rescales_then_clips_then_decays),
    KT_TEST(dcasgd_updates_with_momentum),
    KT_TEST(zero_first_gradients_change_no_weight),
    KT_TEST(clip_gradient_zero_or_null_is_off_for_all),
    KT_TEST(nan_gradients_are_not_hidden_by_clipping),
    KT_TEST(lans_takes_a_zero_gradient_for_zero),
    KT_TEST(lars_adapts_the_rate_unless_the_name_says_no),
    KT_TEST(lamb_bounds_the_norm_of_weights),
    KT_TEST(groupadagrad_keeps_one_number_a_row),
    KT_TEST(centered_rmsprop_survives_equal_gradients),
    KT_TEST(leaders_stay_where_they_are_at_rate_zero),
    KT_TEST(momentum_has_a_state_only_when_it_is_not_zero),
    KT_TEST(the_test_optimizer_keeps_a_state_of_zeros),
    KT_TEST(half_types_are_rounded_once_a_step),
    KT_TEST(master_weights_keep_what_half_types_lose),
    KT_TEST(the_first_step_of_adam_is_the_rate),
};

int main(int argc, char **argv)
{
    rig_start();
    return kt_run("edges", tests, sizeof(tests) / sizeof(tests[0]), argc, argv);
}
