/* SPDX-License-Identifier: Apache-2.0 */
/* recipe.h - by which optimizer, at which rate, and by which schedule: from the user's few words to the
 * specification that the library takes. */
#ifndef DEMO_RECIPE_H
#define DEMO_RECIPE_H

#include <kvstore/kvstore.h>

typedef struct recipe_settings {
    const char *optimizer;
    double rate; /* the learning rate; 0: a good one for sgd, else the optimizer's default */
    const char *schedule;   /* NULL: none */
    size_t n_epoch_updates; /* of every weight */
    size_t n_updates;       /* over which the schedule runs */
    double rescale_grad;    /* 1 / images in a batch: gradients are sums over them */
} recipe_settings_t;

/* `spec` points into it, so it must stay where it was made. */
typedef struct recipe {
    kvs_optimizer_spec_t spec;
    double rate;
    kvs_param_t params[4];
    kvs_param_t schedule_params[3];
    int64_t steps[2];
} recipe_t;

/* Texts of the settings must live as long. Errors are the library's: no such optimizer. */
kvs_status_t recipe_make(const recipe_settings_t *settings, recipe_t *ret_recipe);

#endif
