/* SPDX-License-Identifier: Apache-2.0 */
/* test_params.c - names, types, defaults and bounds of every optimizer's parameters. The tables here
 * are written from the documentation, not from the plugin. */
#include "rig.h"

#include "kt.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct preset {
    const char *name;
    double value; /* NaN: null; a bool as 0 or 1 */
} preset_t;

static const struct expected {
    const char *name;
    double learning_rate;
    preset_t own[8]; /* up to the first without a name */
    const char *states[4];
} expected[] = {
    {"sgd", 0.01, {{"momentum", 0}, {"lazy_update", 0}}, {"mom"}},
    {"nag", 0.1, {{"momentum", 0.9}}, {"mom"}},
    {"signum", 0.01, {{"momentum", 0.9}, {"wd_lh", 0}}, {"mom"}},
    {"signsgd", 0.01, {{"momentum", 0}, {"wd_lh", 0}}, {"mom"}},
    {"dcasgd", 0.1, {{"momentum", 0}, {"lamda", 0.04}}, {"mom", "previous_weight"}},
    {"test", 0.01, {{0}}, {"copy"}},
    {"adam",
     0.001,
     {{"beta1", 0.9}, {"beta2", 0.999}, {"epsilon", 1e-8}, {"lazy_update", 0}},
     {"mean", "var"}},
    {"adamw",
     0.001,
     {{"beta1", 0.9}, {"beta2", 0.999}, {"epsilon", 1e-6}, {"correct_bias", 1}},
     {"mean", "var"}},
    {"adabelief",
     0.001,
     {{"beta1", 0.9}, {"beta2", 0.999}, {"epsilon", 1e-6}, {"correct_bias", 1}},
     {"mean", "var"}},
    {"adamax", 0.002, {{"beta1", 0.9}, {"beta2", 0.999}, {"epsilon", 1e-8}}, {"mean", "inf_norm"}},
    {"nadam",
     0.001,
     {{"beta1", 0.9}, {"beta2", 0.999}, {"epsilon", 1e-8}, {"schedule_decay", 0.004}},
     {"mean", "var"}},
    {"adagrad", 0.01, {{"epsilon", 1e-6}}, {"history"}},
    {"groupadagrad", 0.01, {{"epsilon", 1e-6}}, {"history"}},
    {"adadelta", 1, {{"rho", 0.9}, {"epsilon", 1e-6}}, {"acc_g", "acc_delta"}},
    {"rmsprop",
     0.001,
     {{"rho", 0.9}, {"momentum", 0.9}, {"epsilon", 1e-8}, {"centered", 0}, {"clip_weights", NAN}},
     {"mean", "var", "mom"}},
    {"ftrl", 0.1, {{"lamda1", 0.01}, {"beta", 1}}, {"z", "n"}},
    {"ftml", 0.0025, {{"beta1", 0.6}, {"beta2", 0.999}, {"epsilon", 1e-8}}, {"d", "v", "z"}},
    {"lars", 0.1, {{"momentum", 0}, {"eta", 0.001}, {"epsilon", 1e-8}}, {"mom"}},
    {"lamb",
     0.001,
     {{"beta1", 0.9},
      {"beta2", 0.999},
      {"epsilon", 1e-6},
      {"lower_bound", NAN},
      {"upper_bound", NAN},
      {"bias_correction", 1}},
     {"mean", "var"}},
    {"lans",
     0.001,
     {{"beta1", 0.9},
      {"beta2", 0.999},
      {"epsilon", 1e-6},
      {"lower_bound", NAN},
      {"upper_bound", NAN}},
     {"mean", "var"}},
};
#define N_EXPECTED (sizeof(expected) / sizeof(expected[0]))

static const kvs_optimizer_t *find(const char *name)
{
    for (size_t i = 0; rig_optimizer_at(i) != NULL; i++) {
        if (strcmp(rig_optimizer_at(i)->name, name) == 0) {
            return rig_optimizer_at(i);
        }
    }
    return NULL;
}

static const kvs_param_info_t *find_param(const kvs_optimizer_t *kind, const char *name)
{
    for (size_t i = 0; i < kind->n_params; i++) {
        if (strcmp(kind->params[i].name, name) == 0) {
            return &kind->params[i];
        }
    }
    return NULL;
}

static kvs_status_t try_params(const char *name, const kvs_param_t *params, size_t n)
{
    kvs_optimizer_spec_t spec = KVS_OPTIMIZER_INIT;
    kvs_opt_t *opt = NULL;
    kvs_status_t status;

    spec.name = name;
    spec.params = params;
    spec.n_params = n;
    status = kvs_opt_new(&spec, &opt);
    kvs_opt_free(opt);
    return status;
}

static kvs_status_t try_param(const char *name, kvs_param_t param)
{
    return try_params(name, &param, 1);
}

static void defaults_are_as_documented(void)
{
    for (size_t i = 0; i < N_EXPECTED; i++) {
        const kvs_optimizer_t *kind = find(expected[i].name);
        size_t n = 0;

        KT_TRUE(kind != NULL);
        if (kind == NULL) {
            continue;
        }
        KT_REAL(kind->learning_rate, expected[i].learning_rate);
        for (; expected[i].own[n].name != NULL; n++) {
            const kvs_param_info_t *info = find_param(kind, expected[i].own[n].name);

            KT_TRUE(info != NULL);
            if (info != NULL && isnan(expected[i].own[n].value)) {
                KT_TRUE(isnan(info->preset));
                KT_TRUE((info->rules & KVS_PARAM_NULLABLE) != 0);
            } else if (info != NULL) {
                KT_REAL(info->preset, expected[i].own[n].value);
            }
        }
        KT_INT(kind->n_params, n);
        for (n = 0; n < 4 && expected[i].states[n] != NULL; n++) {
            KT_STR(kind->states[n].name, expected[i].states[n]);
        }
        KT_INT(kind->n_states, n);
    }
}

static void the_manifest_lists_what_the_plugin_has(void)
{
    FILE *file = fopen(KVS_OPTIMIZERS_MANIFEST, "rb");
    char *text = NULL;
    size_t size = 0;
    const cJSON *entry;
    size_t n = 0;
    cJSON *json;

    KT_TRUE(file != NULL && getdelim(&text, &size, '\0', file) > 0);
    json = cJSON_Parse(text);
    KT_TRUE(json != NULL);
    cJSON_ArrayForEach(entry, cJSON_GetObjectItem(json, "provides"))
    {
        KT_STR(cJSON_GetStringValue(cJSON_GetObjectItem(entry, "kind")), "optimizer");
        KT_TRUE(find(cJSON_GetStringValue(cJSON_GetObjectItem(entry, "name"))) != NULL);
        n++;
    }
    KT_INT(n, N_EXPECTED);
    KT_TRUE(rig_optimizer_at(n) == NULL);
    cJSON_Delete(json);
    free(text);
    fclose(file);
}

static void misspelt_parameters_are_named_with_a_near_one_and_all(void)
{
    for (size_t i = 0; i < N_EXPECTED; i++) {
        const char *name = expected[i].name;

        KT_FAIL(try_param(name, (kvs_param_t)RIG_REAL("lerning_rate", 0.1)), KVS_ERR_ARGUMENT,
                "unknown parameter 'lerning_rate'; did you mean 'learning_rate'? Accepted: "
                "learning_rate, wd, rescale_grad, clip_gradient, multi_precision, "
                "begin_num_update");
        KT_HAS(kvs_last_error(), name);
        for (size_t j = 0; expected[i].own[j].name != NULL; j++) {
            KT_HAS(kvs_last_error(), expected[i].own[j].name);
        }
    }
    KT_FAIL(try_param("sgd", (kvs_param_t)RIG_REAL("beta1", 0.1)), KVS_ERR_ARGUMENT,
            "optimizer 'sgd': unknown parameter 'beta1'; accepted: ");
}

/* A value of each type that the parameter does not have. */
static void wrong_types_are_errors(const char *name, const char *param, uint32_t type, int nullable)
{
    kvs_param_t text = {.name = param, .type = KVS_PARAM_TEXT, .value = {.text = "0.1"}};
    kvs_param_t list = {.name = param, .type = KVS_PARAM_INTS};
    kvs_param_t null = {.name = param, .type = KVS_PARAM_NULL};
    kvs_param_t other =
        type == KVS_PARAM_BOOL ? (kvs_param_t)RIG_REAL(param, 1) : (kvs_param_t)RIG_BOOL(param, 1);

    KT_FAIL(try_param(name, text), KVS_ERR_ARGUMENT, param);
    KT_HAS(kvs_last_error(), "got a text");
    KT_FAIL(try_param(name, list), KVS_ERR_ARGUMENT, "got a list of integers");
    KT_FAIL(try_param(name, other), KVS_ERR_ARGUMENT, param);
    if (nullable) {
        KT_OK(try_param(name, null));
    } else {
        KT_FAIL(try_param(name, null), KVS_ERR_ARGUMENT, "got null");
    }
}

static void bad_numbers_are_errors(const char *name, const char *param, int any)
{
    const double never[] = {NAN, INFINITY, -INFINITY};
    const kvs_param_t whole = {.name = param, .type = KVS_PARAM_INT, .value = {.integer = 0}};

    for (size_t i = 0; i < 3; i++) {
        KT_FAIL(try_param(name, (kvs_param_t)RIG_REAL(param, never[i])), KVS_ERR_ARGUMENT, param);
    }
    KT_OK(try_param(name, whole));
    if (any) {
        KT_OK(try_param(name, (kvs_param_t)RIG_REAL(param, -0.5)));
    } else {
        KT_FAIL(try_param(name, (kvs_param_t)RIG_REAL(param, -0.5)), KVS_ERR_ARGUMENT, param);
    }
}

static void every_parameter_checks_type_and_value(void)
{
    for (size_t i = 0; i < N_EXPECTED; i++) {
        const char *name = expected[i].name;
        const kvs_optimizer_t *kind = find(name);

        wrong_types_are_errors(name, "learning_rate", KVS_PARAM_FLOAT, 0);
        bad_numbers_are_errors(name, "learning_rate", strcmp(name, "test") == 0);
        wrong_types_are_errors(name, "wd", KVS_PARAM_FLOAT, 0);
        bad_numbers_are_errors(name, "wd", 0);
        wrong_types_are_errors(name, "rescale_grad", KVS_PARAM_FLOAT, 0);
        bad_numbers_are_errors(name, "rescale_grad", 1);
        wrong_types_are_errors(name, "clip_gradient", KVS_PARAM_FLOAT, 1);
        bad_numbers_are_errors(name, "clip_gradient", 0);
        wrong_types_are_errors(name, "multi_precision", KVS_PARAM_BOOL, 0);
        wrong_types_are_errors(name, "begin_num_update", KVS_PARAM_INT, 0);
        for (size_t j = 0; kind != NULL && j < kind->n_params; j++) {
            const kvs_param_info_t *info = &kind->params[j];

            wrong_types_are_errors(name, info->name, info->type,
                                   (info->rules & KVS_PARAM_NULLABLE) != 0);
            if (info->type == KVS_PARAM_FLOAT) {
                bad_numbers_are_errors(name, info->name, 0);
            }
        }
    }
}

static void betas_lie_between_zero_and_one(void)
{
    static const char *const bounded[] = {"beta1", "beta2", "rho"};

    for (size_t i = 0; i < N_EXPECTED; i++) {
        for (size_t j = 0; j < 3; j++) {
            const kvs_optimizer_t *kind = find(expected[i].name);

            if (kind == NULL || find_param(kind, bounded[j]) == NULL) {
                continue;
            }
            KT_FAIL(try_param(kind->name, (kvs_param_t)RIG_REAL(bounded[j], 1)), KVS_ERR_ARGUMENT,
                    "at least 0 and below 1");
            KT_HAS(kvs_last_error(), bounded[j]);
            KT_OK(try_param(kind->name, (kvs_param_t)RIG_REAL(bounded[j], 0)));
            KT_OK(try_param(kind->name, (kvs_param_t)RIG_REAL(bounded[j], 0.9999999)));
        }
    }
}

static void parameters_that_do_not_fit_together_are_errors(void)
{
    const kvs_param_t crossed[] = {RIG_REAL("lower_bound", 2), RIG_REAL("upper_bound", 1)};
    const kvs_param_t open[] = {RIG_REAL("lower_bound", 2), RIG_REAL("upper_bound", 0)};

    KT_FAIL(try_params("lamb", crossed, 2), KVS_ERR_ARGUMENT,
            "optimizer 'lamb': parameter 'lower_bound' is 2, above upper_bound, 1");
    KT_FAIL(try_params("lans", crossed, 2), KVS_ERR_ARGUMENT, "optimizer 'lans': ");
    KT_OK(try_params("lamb", open, 2));
    KT_FAIL(try_param("groupadagrad", (kvs_param_t)RIG_REAL("wd", 0.1)), KVS_ERR_ARGUMENT,
            "optimizer 'groupadagrad': parameter 'wd' is 0.1, must be 0");
}

static const kt_test_t tests[] = {
    KT_TEST(defaults_are_as_documented),
    KT_TEST(the_manifest_lists_what_the_plugin_has),
    KT_TEST(misspelt_parameters_are_named_with_a_near_one_and_all),
    KT_TEST(every_parameter_checks_type_and_value),
    KT_TEST(betas_lie_between_zero_and_one),
    KT_TEST(parameters_that_do_not_fit_together_are_errors),
};

int main(int argc, char **argv)
{
    rig_start();
    return kt_run("params", tests, sizeof(tests) / sizeof(tests[0]), argc, argv);
}
