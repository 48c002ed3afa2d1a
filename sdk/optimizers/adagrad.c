/* SPDX-License-Identifier: Apache-2.0 */
/* adagrad.c - steps scaled by the gradients so far: adagrad, groupadagrad, adadelta, rmsprop. */
#include "optimizers.h"
#include "steps.h"
#include "sums.h"

#include "real64.h"

#include "adagrad.h"

#include "real32.h"

#include "adagrad.h"

#include <math.h>

STEPS_1(adagrad, 0)
STEPS(groupadagrad, 0, 0, 0, *x, s)
SUMS_GRAD(group_squares, 1)
STEPS_2(adadelta, 0, 1)
STEPS_1(rmsprop, 1)
STEPS_3(rmsprop_centered, 0, 1, 2)

PICK_STEPS(rmsprop_either, 0, rmsprop_centered, rmsprop)

/* ---- adagrad ---------------------------------------------------------------------------------- */

static const kvs_param_info_t adagrad_params[] = {
    {"epsilon", KVS_PARAM_FLOAT, KVS_PARAM_NON_NEGATIVE, 1e-6, "keeps the divisor from zero"},
};

static const kvs_state_info_t adagrad_states[] = {{.name = "history"}};

static void adagrad_scalars(const kvs_hyper_t *hyper, const kvs_update_t *update,
                            double *ret_scalars)
{
    optimizers_common_scalars(hyper, update, ret_scalars);
    ret_scalars[ADAGRAD_EPSILON] = hyper->own[0];
}

const kvs_optimizer_t optimizers_adagrad = {
    .size = (uint32_t)sizeof(kvs_optimizer_t),
    .flags = KVS_OPTIMIZER_LAZY,
    .name = "adagrad",
    .arithmetic = "kvstore/adagrad",
    .summary = "steps scaled by the sum of all squared gradients",
    .learning_rate = 0.01,
    .params = adagrad_params,
    .n_params = OPTIMIZERS_COUNT(adagrad_params),
    .states = adagrad_states,
    .n_states = OPTIMIZERS_COUNT(adagrad_states),
    .scalars = adagrad_scalars,
    .step_f32 = adagrad_step_f32,
    .step_f64 = adagrad_step_f64,
};

/* ---- groupadagrad ----------------------------------------------------------------------------- */

static const kvs_state_info_t group_states[] = {{.name = "history", .flags = KVS_STATE_PER_ROW}};

static kvs_status_t group_check(const kvs_hyper_t *hyper)
{
    if (hyper->wd != 0) {
        return kvs_fail(KVS_ERR_ARGUMENT,
                        "parameter 'wd' is %g, must be 0: weight decay is not defined here",
                        hyper->wd);
    }
    return KVS_OK;
}

static void group_row_f32(int64_t n, int64_t row_elems, const float *grad, float *const *states,
                          const float *scalars)
{
    double sum = 0;

    group_squares_sums_f32(n, grad, NULL, states, scalars, &sum);
    states[0][0] += (float)(sum / (double)row_elems);
}

static void group_row_f64(int64_t n, int64_t row_elems, const double *grad, double *const *states,
                          const double *scalars)
{
    double sum = 0;

    group_squares_sums_f64(n, grad, NULL, states, scalars, &sum);
    states[0][0] += sum / (double)row_elems;
}

const kvs_optimizer_t optimizers_groupadagrad = {
    .size = (uint32_t)sizeof(kvs_optimizer_t),
    .flags = KVS_OPTIMIZER_LAZY,
    .name = "groupadagrad",
    .arithmetic = "kvstore/groupadagrad",
    .summary = "adagrad with one scale for each row, for embeddings",
    .learning_rate = 0.01,
    .params = adagrad_params,
    .n_params = OPTIMIZERS_COUNT(adagrad_params),
    .states = group_states,
    .n_states = OPTIMIZERS_COUNT(group_states),
    .check = group_check,
    .scalars = adagrad_scalars,
    .row_f32 = group_row_f32,
    .row_f64 = group_row_f64,
    .step_f32 = groupadagrad_step_f32,
    .step_f64 = groupadagrad_step_f64,
};

/* ---- adadelta --------------------------------------------------------------------------------- */

static const kvs_param_info_t adadelta_params[] = {
    {"rho", KVS_PARAM_FLOAT, KVS_PARAM_UNIT, 0.9, "how long the means remember"},
    {"epsilon", KVS_PARAM_FLOAT, KVS_PARAM_NON_NEGATIVE, 1e-6, "keeps steps from standing still"},
};

static const kvs_state_info_t adadelta_states[] = {{.name = "acc_g"}, {.name = "acc_delta"}};

static void adadelta_scalars(const kvs_hyper_t *hyper, const kvs_update_t *update,
                             double *ret_scalars)
{
    optimizers_common_scalars(hyper, update, ret_scalars);
    ret_scalars[RHO] = hyper->own[0];
    ret_scalars[RHO_REST] = 1 - hyper->own[0];
    ret_scalars[RHO_EPSILON] = hyper->own[1];
}

const kvs_optimizer_t optimizers_adadelta = {
    .size = (uint32_t)sizeof(kvs_optimizer_t),
    .name = "adadelta",
    .arithmetic = "kvstore/adadelta",
    .summary = "steps scaled by the size of past steps over that of past gradients",
    .learning_rate = 1,
    .params = adadelta_params,
    .n_params = OPTIMIZERS_COUNT(adadelta_params),
    .states = adadelta_states,
    .n_states = OPTIMIZERS_COUNT(adadelta_states),
    .scalars = adadelta_scalars,
    .step_f32 = adadelta_step_f32,
    .step_f64 = adadelta_step_f64,
};

/* ---- rmsprop ---------------------------------------------------------------------------------- */

enum { RMS_OWN_RHO, RMS_OWN_MOMENTUM, RMS_OWN_EPSILON, RMS_OWN_CENTERED, RMS_OWN_CLIP_WEIGHTS };

static const kvs_param_info_t rmsprop_params[] = {
    {"rho", KVS_PARAM_FLOAT, KVS_PARAM_UNIT, 0.9, "how long the means remember"},
    {"momentum", KVS_PARAM_FLOAT, KVS_PARAM_NON_NEGATIVE, 0.9,
     "share of the last step to repeat; with centered only"},
    {"epsilon", KVS_PARAM_FLOAT, KVS_PARAM_NON_NEGATIVE, 1e-8, "keeps the divisor from zero"},
    {"centered", KVS_PARAM_BOOL, 0, 0, "scale by the variance about the mean"},
    {"clip_weights", KVS_PARAM_FLOAT, KVS_PARAM_NULLABLE | KVS_PARAM_NON_NEGATIVE, NAN,
     "bound of the weights; null or 0: none"},
};

static const kvs_state_info_t rmsprop_states[] = {
    {.name = "mean"}, {.name = "var"}, {.name = "mom"}};

static uint32_t rmsprop_used(const kvs_hyper_t *hyper)
{
    return hyper->own[RMS_OWN_CENTERED] != 0 ? 7 : 2;
}

static void rmsprop_scalars(const kvs_hyper_t *hyper, const kvs_update_t *update,
                            double *ret_scalars)
{
    double bound = hyper->own[RMS_OWN_CLIP_WEIGHTS];

    optimizers_common_scalars(hyper, update, ret_scalars);
    ret_scalars[RHO] = hyper->own[RMS_OWN_RHO];
    ret_scalars[RHO_REST] = 1 - hyper->own[RMS_OWN_RHO];
    ret_scalars[RHO_EPSILON] = hyper->own[RMS_OWN_EPSILON];
    ret_scalars[RMS_MOMENTUM] = hyper->own[RMS_OWN_MOMENTUM];
    ret_scalars[RMS_BOUND] = bound > 0 ? bound : INFINITY;
}

const kvs_optimizer_t optimizers_rmsprop = {
    .size = (uint32_t)sizeof(kvs_optimizer_t),
    .name = "rmsprop",
    .arithmetic = "kvstore/rmsprop",
    .summary = "steps scaled by a running mean of squared gradients",
    .learning_rate = 0.001,
    .params = rmsprop_params,
    .n_params = OPTIMIZERS_COUNT(rmsprop_params),
    .states = rmsprop_states,
    .n_states = OPTIMIZERS_COUNT(rmsprop_states),
    .states_used = rmsprop_used,
    .scalars = rmsprop_scalars,
    .step_f32 = rmsprop_either_step_f32,
    .step_f64 = rmsprop_either_step_f64,
};
