/* SPDX-License-Identifier: Apache-2.0 */
/* test_recipe.c - from a few words to a specification that the library takes. */
#include "recipe.h"

#include <kt.h>

static const kvs_param_t *find(const kvs_param_t *params, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++) {
        if (strcmp(params[i].name, name) == 0) {
            return &params[i];
        }
    }
    return NULL;
}

static void want_real(const recipe_t *recipe, const char *name, double value)
{
    const kvs_param_t *param = find(recipe->spec.params, recipe->spec.n_params, name);

    KT_TRUE(param != NULL);
    KT_REAL(param != NULL ? param->value.real : -1, value);
}

/* The library takes it. */
static void want_taken(const recipe_t *recipe)
{
    kvs_worker_optimizer_t *optimizer = NULL;

    KT_OK(kvs_optimizer_create(&recipe->spec, &optimizer));
    kvs_optimizer_free(optimizer);
}

static void sgd_has_momentum_and_a_rate_of_its_own(void)
{
    const recipe_settings_t settings = {.optimizer = "sgd", .rescale_grad = 0.125};
    recipe_t recipe;

    KT_OK(recipe_make(&settings, &recipe));
    want_real(&recipe, "learning_rate", 0.02);
    want_real(&recipe, "momentum", 0.9);
    want_real(&recipe, "wd", 1e-4);
    want_real(&recipe, "rescale_grad", 0.125);
    KT_REAL(recipe.rate, 0.02);
    want_taken(&recipe);
}

static void others_have_their_defaults(void)
{
    const recipe_settings_t settings = {.optimizer = "adam", .rescale_grad = 1};
    recipe_t recipe;

    KT_OK(recipe_make(&settings, &recipe));
    want_real(&recipe, "learning_rate", 0.001);
    KT_TRUE(find(recipe.spec.params, recipe.spec.n_params, "momentum") == NULL);
    want_taken(&recipe);
}

static void a_given_rate_counts(void)
{
    const recipe_settings_t settings = {.optimizer = "sgd", .rate = 0.5, .rescale_grad = 1};
    recipe_t recipe;

    KT_OK(recipe_make(&settings, &recipe));
    want_real(&recipe, "learning_rate", 0.5);
}

static void an_unknown_optimizer_is_the_librarys_error(void)
{
    const recipe_settings_t settings = {.optimizer = "adma", .rescale_grad = 1};
    recipe_t recipe;

    KT_FAIL(recipe_make(&settings, &recipe), KVS_ERR_NOT_FOUND, "adma");
}

/* Also for a single update. */
static void every_schedule_is_taken_and_begins_at_the_rate(void)
{
    static const char *const names[] = {"factor", "multifactor", "poly", "cosine"};

    for (size_t i = 0; i < 4; i++) {
        for (size_t n = 1; n <= 1000; n *= 10) {
            const recipe_settings_t settings = {.optimizer = "sgd",
                                                .schedule = names[i],
                                                .n_epoch_updates = n,
                                                .n_updates = n,
                                                .rescale_grad = 1};
            recipe_t recipe;
            const kvs_param_t *base;

            KT_OK(recipe_make(&settings, &recipe));
            KT_STR(recipe.spec.schedule, names[i]);
            base = find(recipe.spec.schedule_params, recipe.spec.n_schedule_params, "base_lr");
            KT_REAL(base != NULL ? base->value.real : -1, 0.02);
            KT_TRUE(find(recipe.spec.params, recipe.spec.n_params, "learning_rate") == NULL);
            want_taken(&recipe);
        }
    }
}

static const kt_test_t tests[] = {
    KT_TEST(sgd_has_momentum_and_a_rate_of_its_own),
    KT_TEST(others_have_their_defaults),
    KT_TEST(a_given_rate_counts),
    KT_TEST(an_unknown_optimizer_is_the_librarys_error),
    KT_TEST(every_schedule_is_taken_and_begins_at_the_rate),
};

KT_MAIN("demo.recipe", tests)
