/* SPDX-License-Identifier: Apache-2.0 */
/* ftrl.c - follow the (moving) leader: ftrl and ftml. */
#include "optimizers.h"
#include "steps.h"

#include "real64.h"

#include "ftrl.h"

#include "real32.h"

#include "ftrl.h"

#include <math.h>

STEPS_2(ftrl, 0, 1)
STEPS_3(ftml, 0, 1, 2)

/* At rate 0, where both would divide by zero, weights and states stay as they are. */
#define STEP_WITH_RATE(elem, type, suffix)                                                         \
    static void elem##_with_rate_step_##suffix(int64_t n, const type *grad, type *weight,          \
                                               type *const *states, const type *scalars)           \
    {                                                                                              \
        if (scalars[LR] != 0) {                                                                    \
            elem##_step_##suffix(n, grad, weight, states, scalars);                                \
        }                                                                                          \
    }
STEP_WITH_RATE(ftrl, float, f32)
STEP_WITH_RATE(ftrl, double, f64)
STEP_WITH_RATE(ftml, float, f32)
STEP_WITH_RATE(ftml, double, f64)

/* ---- ftrl ------------------------------------------------------------------------------------- */

static const kvs_param_info_t ftrl_params[] = {
    {"lamda1", KVS_PARAM_FLOAT, KVS_PARAM_NON_NEGATIVE, 0.01, "weights below it become zero"},
    {"beta", KVS_PARAM_FLOAT, KVS_PARAM_NON_NEGATIVE, 1, "smooths the first steps"},
};

static const kvs_state_info_t ftrl_states[] = {{.name = "z"}, {.name = "n"}};

static void ftrl_scalars(const kvs_hyper_t *hyper, const kvs_update_t *update, double *ret_scalars)
{
    optimizers_common_scalars(hyper, update, ret_scalars);
    ret_scalars[FTRL_LAMDA1] = hyper->own[0];
    ret_scalars[FTRL_BETA] = hyper->own[1];
    ret_scalars[FTRL_PER_RATE] = 1 / update->lr;
}

const kvs_optimizer_t optimizers_ftrl = {
    .size = (uint32_t)sizeof(kvs_optimizer_t),
    .flags = KVS_OPTIMIZER_LAZY,
    .name = "ftrl",
    .arithmetic = "kvstore/ftrl",
    .summary = "follow the regularised leader: sparse weights",
    .learning_rate = 0.1,
    .params = ftrl_params,
    .n_params = OPTIMIZERS_COUNT(ftrl_params),
    .states = ftrl_states,
    .n_states = OPTIMIZERS_COUNT(ftrl_states),
    .scalars = ftrl_scalars,
    .step_f32 = ftrl_with_rate_step_f32,
    .step_f64 = ftrl_with_rate_step_f64,
};

/* ---- ftml ------------------------------------------------------------------------------------- */

static const kvs_param_info_t ftml_params[] = {
    {"beta1", KVS_PARAM_FLOAT, KVS_PARAM_UNIT, 0.6, "how long the leader remembers"},
    {"beta2", KVS_PARAM_FLOAT, KVS_PARAM_UNIT, 0.999, "how long the variance remembers"},
    {"epsilon", KVS_PARAM_FLOAT, KVS_PARAM_NON_NEGATIVE, 1e-8, "keeps the divisor from zero"},
};

static const kvs_state_info_t ftml_states[] = {{.name = "d"}, {.name = "v"}, {.name = "z"}};

static void ftml_scalars(const kvs_hyper_t *hyper, const kvs_update_t *update, double *ret_scalars)
{
    double beta1 = hyper->own[0];
    double beta2 = hyper->own[1];
    double t = (double)update->t;

    optimizers_common_scalars(hyper, update, ret_scalars);
    ret_scalars[FTML_BETA1] = beta1;
    ret_scalars[FTML_REST1] = 1 - beta1;
    ret_scalars[FTML_BETA2] = beta2;
    ret_scalars[FTML_REST2] = 1 - beta2;
    ret_scalars[FTML_EPSILON] = hyper->own[2];
    ret_scalars[FTML_VAR] = 1 / (1 - pow(beta2, t));
    ret_scalars[FTML_SCALE] = (1 - pow(beta1, t)) / update->lr;
}

const kvs_optimizer_t optimizers_ftml = {
    .size = (uint32_t)sizeof(kvs_optimizer_t),
    .name = "ftml",
    .arithmetic = "kvstore/ftml",
    .summary = "follow the moving leader",
    .learning_rate = 0.0025,
    .params = ftml_params,
    .n_params = OPTIMIZERS_COUNT(ftml_params),
    .states = ftml_states,
    .n_states = OPTIMIZERS_COUNT(ftml_states),
    .scalars = ftml_scalars,
    .step_f32 = ftml_with_rate_step_f32,
    .step_f64 = ftml_with_rate_step_f64,
};
