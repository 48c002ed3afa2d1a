/* SPDX-License-Identifier: Apache-2.0 */
/* adam.c - adam and its relatives: adamw, adabelief, adamax, nadam. */
#include "optimizers.h"
#include "steps.h"

#include "real64.h"

#include "adam.h"

#include "real32.h"

#include "adam.h"

#include <math.h>

STEPS_2(adam, 0, 1)
STEPS_2(adamw, 0, 1)
STEPS_2(adabelief, 0, 1)
STEPS_2(adamax, 0, 1)
STEPS_2(nadam, 0, 1)

static const kvs_state_info_t states[] = {{.name = "mean"}, {.name = "var"}};

/* The first parameters of all. */
enum { OWN_BETA1, OWN_BETA2, OWN_EPSILON, OWN_LAST };

#define BETA1_PARAM                                                                                \
    {                                                                                              \
        "beta1", KVS_PARAM_FLOAT, KVS_PARAM_UNIT, 0.9, "how long the mean remembers"               \
    }
#define BETA2_PARAM                                                                                \
    {                                                                                              \
        "beta2", KVS_PARAM_FLOAT, KVS_PARAM_UNIT, 0.999, "how long the variance remembers"         \
    }
#define EPSILON_PARAM(preset)                                                                      \
    {                                                                                              \
        "epsilon", KVS_PARAM_FLOAT, KVS_PARAM_NON_NEGATIVE, preset, "keeps the divisor from zero"  \
    }

static void adam_like(const kvs_hyper_t *hyper, const kvs_update_t *update, double *ret_scalars)
{
    optimizers_common_scalars(hyper, update, ret_scalars);
    ret_scalars[BETA1] = hyper->own[OWN_BETA1];
    ret_scalars[REST1] = 1 - hyper->own[OWN_BETA1];
    ret_scalars[BETA2] = hyper->own[OWN_BETA2];
    ret_scalars[REST2] = 1 - hyper->own[OWN_BETA2];
    ret_scalars[EPSILON] = hyper->own[OWN_EPSILON];
}

/* √(1-β2^t) / (1-β1^t) */
static double bias_correction(const kvs_hyper_t *hyper, int64_t t)
{
    return sqrt(1 - pow(hyper->own[OWN_BETA2], (double)t)) /
           (1 - pow(hyper->own[OWN_BETA1], (double)t));
}

/* ---- adam ------------------------------------------------------------------------------------- */

static const kvs_param_info_t adam_params[] = {
    BETA1_PARAM,
    BETA2_PARAM,
    EPSILON_PARAM(1e-8),
    {"lazy_update", KVS_PARAM_BOOL, 0, 0, "row-sparse gradients update the rows they list only"},
};

static void adam_scalars(const kvs_hyper_t *hyper, const kvs_update_t *update, double *ret_scalars)
{
    adam_like(hyper, update, ret_scalars);
    ret_scalars[LR] *= bias_correction(hyper, update->t);
    ret_scalars[REST1] = optimizers_rest_f32(hyper->own[OWN_BETA1]);
    ret_scalars[REST2] = optimizers_rest_f32(hyper->own[OWN_BETA2]);
}

const kvs_optimizer_t optimizers_adam = {
    .size = (uint32_t)sizeof(kvs_optimizer_t),
    .flags = KVS_OPTIMIZER_LAZY,
    .name = "adam",
    .arithmetic = "kvstore/adam",
    .summary = "steps scaled by running mean and variance of the gradient",
    .learning_rate = 0.001,
    .params = adam_params,
    .n_params = OPTIMIZERS_COUNT(adam_params),
    .states = states,
    .n_states = OPTIMIZERS_COUNT(states),
    .scalars = adam_scalars,
    .step_f32 = adam_step_f32,
    .step_f64 = adam_step_f64,
};

/* ---- adamw, adabelief ------------------------------------------------------------------------- */

enum { OWN_CORRECT_BIAS = OWN_LAST };

static const kvs_param_info_t correcting_params[] = {
    BETA1_PARAM,
    BETA2_PARAM,
    EPSILON_PARAM(1e-6),
    {"correct_bias", KVS_PARAM_BOOL, 0, 1, "make up for states that begin at zero"},
};

static void correcting_scalars(const kvs_hyper_t *hyper, const kvs_update_t *update,
                               double *ret_scalars)
{
    adam_like(hyper, update, ret_scalars);
    if (hyper->own[OWN_CORRECT_BIAS] != 0) {
        ret_scalars[LR] *= bias_correction(hyper, update->t);
    }
}

const kvs_optimizer_t optimizers_adamw = {
    .size = (uint32_t)sizeof(kvs_optimizer_t),
    .name = "adamw",
    .arithmetic = "kvstore/adamw",
    .summary = "adam with weight decay outside of the scaling",
    .learning_rate = 0.001,
    .params = correcting_params,
    .n_params = OPTIMIZERS_COUNT(correcting_params),
    .states = states,
    .n_states = OPTIMIZERS_COUNT(states),
    .scalars = correcting_scalars,
    .step_f32 = adamw_step_f32,
    .step_f64 = adamw_step_f64,
};

const kvs_optimizer_t optimizers_adabelief = {
    .size = (uint32_t)sizeof(kvs_optimizer_t),
    .name = "adabelief",
    .arithmetic = "kvstore/adabelief",
    .summary = "adam scaled by how far gradients are from their mean",
    .learning_rate = 0.001,
    .params = correcting_params,
    .n_params = OPTIMIZERS_COUNT(correcting_params),
    .states = states,
    .n_states = OPTIMIZERS_COUNT(states),
    .scalars = correcting_scalars,
    .step_f32 = adabelief_step_f32,
    .step_f64 = adabelief_step_f64,
};

/* ---- adamax ----------------------------------------------------------------------------------- */

static const kvs_param_info_t adamax_params[] = {BETA1_PARAM, BETA2_PARAM, EPSILON_PARAM(1e-8)};

static const kvs_state_info_t adamax_states[] = {{.name = "mean"}, {.name = "inf_norm"}};

static void adamax_scalars(const kvs_hyper_t *hyper, const kvs_update_t *update,
                           double *ret_scalars)
{
    adam_like(hyper, update, ret_scalars);
    ret_scalars[LR] /= 1 - pow(hyper->own[OWN_BETA1], (double)update->t);
}

const kvs_optimizer_t optimizers_adamax = {
    .size = (uint32_t)sizeof(kvs_optimizer_t),
    .name = "adamax",
    .arithmetic = "kvstore/adamax",
    .summary = "adam scaled by the largest gradient of late",
    .learning_rate = 0.002,
    .params = adamax_params,
    .n_params = OPTIMIZERS_COUNT(adamax_params),
    .states = adamax_states,
    .n_states = OPTIMIZERS_COUNT(adamax_states),
    .scalars = adamax_scalars,
    .step_f32 = adamax_step_f32,
    .step_f64 = adamax_step_f64,
};

/* ---- nadam ------------------------------------------------------------------------------------ */

enum { OWN_SCHEDULE_DECAY = OWN_LAST };

static const kvs_param_info_t nadam_params[] = {
    BETA1_PARAM,
    BETA2_PARAM,
    EPSILON_PARAM(1e-8),
    {"schedule_decay", KVS_PARAM_FLOAT, KVS_PARAM_NON_NEGATIVE, 0.004, "how fast beta1 is reached"},
};

static double nadam_momentum(const kvs_hyper_t *hyper, double t)
{
    return hyper->own[OWN_BETA1] * (1 - 0.5 * pow(0.96, t * hyper->own[OWN_SCHEDULE_DECAY]));
}

/* The product of the momenta is one for all keys, as in the peer. */
static void nadam_scalars(const kvs_hyper_t *hyper, const kvs_update_t *update, double *ret_scalars)
{
    double now = nadam_momentum(hyper, (double)update->t);
    double next = nadam_momentum(hyper, (double)update->t + 1);

    adam_like(hyper, update, ret_scalars);
    *update->product *= now;
    ret_scalars[NADAM_GRAD] = (1 - now) / (1 - *update->product);
    ret_scalars[NADAM_MEAN] = next / (1 - *update->product * next);
    ret_scalars[NADAM_VAR] = 1 / (1 - pow(hyper->own[OWN_BETA2], (double)update->t));
}

const kvs_optimizer_t optimizers_nadam = {
    .size = (uint32_t)sizeof(kvs_optimizer_t),
    .name = "nadam",
    .arithmetic = "kvstore/nadam",
    .summary = "adam with Nesterov's momentum",
    .learning_rate = 0.001,
    .params = nadam_params,
    .n_params = OPTIMIZERS_COUNT(nadam_params),
    .states = states,
    .n_states = OPTIMIZERS_COUNT(states),
    .scalars = nadam_scalars,
    .step_f32 = nadam_step_f32,
    .step_f64 = nadam_step_f64,
};
