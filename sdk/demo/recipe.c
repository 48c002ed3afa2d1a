/* SPDX-License-Identifier: Apache-2.0 */
/* recipe.c - sgd is what the demo was tuned with; of others the library is asked for the default. */
#include "recipe.h"

#include <kvstore/plugins.h>

#include <string.h>

static kvs_param_t real(const char *name, double value)
{
    return (kvs_param_t){.name = name, .type = KVS_PARAM_FLOAT, .value = {.real = value}};
}

static kvs_param_t whole(const char *name, size_t value)
{
    return (kvs_param_t){.name = name, .type = KVS_PARAM_INT, .value = {.integer = (int64_t)value}};
}

/* The first parameter that every optimizer has is learning_rate. */
static kvs_status_t default_rate(const char *optimizer, double *ret_rate)
{
    kvs_optimizer_info_t *info = NULL;
    kvs_status_t status = kvs_optimizer_describe(optimizer, &info);

    if (status == KVS_OK) {
        *ret_rate = info->params[0].preset.value.real;
        kvs_optimizer_info_free(info);
    }
    return status;
}

/* A schedule begins at the rate; what it needs beside that follows from the number of updates. A name
 * that is none is left to the library to refuse. */
static void set_schedule(const recipe_settings_t *settings, recipe_t *recipe)
{
    kvs_param_t *params = recipe->schedule_params;
    size_t n = settings->n_updates;

    recipe->spec.schedule = settings->schedule;
    recipe->spec.schedule_params = params;
    params[0] = real("base_lr", recipe->rate);
    recipe->spec.n_schedule_params = 1;
    if (strcmp(settings->schedule, "factor") == 0) { /* down by a fifth with each epoch */
        params[1] = whole("step", settings->n_epoch_updates);
        params[2] = real("factor", 0.8);
        recipe->spec.n_schedule_params = 3;
    } else if (strcmp(settings->schedule, "multifactor") == 0) { /* to a tenth, twice */
        recipe->steps[0] = (int64_t)(n / 2 > 0 ? n / 2 : 1);
        recipe->steps[1] = recipe->steps[0] + (int64_t)(n / 4 > 0 ? n / 4 : 1);
        params[1] = (kvs_param_t){.name = "step",
                                  .type = KVS_PARAM_INTS,
                                  .value = {.integers = recipe->steps},
                                  .n_integers = 2};
        params[2] = real("factor", 0.1);
        recipe->spec.n_schedule_params = 3;
    } else if (strcmp(settings->schedule, "poly") == 0 ||
               strcmp(settings->schedule, "cosine") == 0) { /* to zero at the end */
        params[1] = whole("max_update", n);
        recipe->spec.n_schedule_params = 2;
    }
}

kvs_status_t recipe_make(const recipe_settings_t *settings, recipe_t *ret_recipe)
{
    int is_sgd = strcmp(settings->optimizer, "sgd") == 0;
    size_t n = 0;

    *ret_recipe = (recipe_t){.spec = KVS_OPTIMIZER_INIT, .rate = settings->rate};
    if (settings->rate == 0 && is_sgd) {
        ret_recipe->rate = 0.02;
    } else if (settings->rate == 0) {
        kvs_status_t status = default_rate(settings->optimizer, &ret_recipe->rate);

        if (status != KVS_OK) {
            return status;
        }
    }
    ret_recipe->params[n++] = real("rescale_grad", settings->rescale_grad);
    if (is_sgd) {
        ret_recipe->params[n++] = real("momentum", 0.9);
        ret_recipe->params[n++] = real("wd", 1e-4);
    }
    if (settings->schedule == NULL) {
        ret_recipe->params[n++] = real("learning_rate", ret_recipe->rate);
    } else {
        set_schedule(settings, ret_recipe);
    }
    ret_recipe->spec.name = settings->optimizer;
    ret_recipe->spec.params = ret_recipe->params;
    ret_recipe->spec.n_params = n;
    return KVS_OK;
}
