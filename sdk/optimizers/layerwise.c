/* SPDX-License-Identifier: Apache-2.0 */
/* layerwise.c - rates adapted to each array by its norms: lars, lamb, lans. */
#include "optimizers.h"
#include "steps.h"
#include "sums.h"

#include "real64.h"

#include "layerwise.h"
#include "sgd.h"

#include "real32.h"

#include "layerwise.h"
#include "sgd.h"

#include <math.h>

STEPS_0(sgd)
STEPS_1(sgd_mom, 0)
STEPS_2(lamb, 0, 1)
STEPS_2(lans, 0, 1)

PICK_STEPS(lars, 0, sgd_mom, sgd)

SUMS_0(lars_norms, 2)
SUMS_2(lamb_norms, 2, 0, 1)
SUMS_2(lans_norms, 2, 0, 1)

/* ---- lars ------------------------------------------------------------------------------------- */

enum { LARS_OWN_MOMENTUM, LARS_OWN_ETA, LARS_OWN_EPSILON };

static const kvs_param_info_t lars_params[] = {
    {"momentum", KVS_PARAM_FLOAT, KVS_PARAM_NON_NEGATIVE, 0, "share of the last step to repeat"},
    {"eta", KVS_PARAM_FLOAT, KVS_PARAM_NON_NEGATIVE, 0.001, "trust in an array's own rate"},
    {"epsilon", KVS_PARAM_FLOAT, KVS_PARAM_NON_NEGATIVE, 1e-8, "keeps the divisor from zero"},
};

static const kvs_state_info_t lars_states[] = {{.name = "mom"}};

static uint32_t lars_used(const kvs_hyper_t *hyper)
{
    return hyper->own[LARS_OWN_MOMENTUM] != 0;
}

static int ends_in(const char *name, const char *ending)
{
    size_t len = strlen(name);
    size_t ending_len = strlen(ending);

    return len >= ending_len && strcmp(name + len - ending_len, ending) == 0;
}

/* Scales and offsets keep the plain rate. */
static int is_skipped(const char *name)
{
    return ends_in(name, "gamma") || ends_in(name, "beta") || ends_in(name, "bias");
}

static void lars_scalars(const kvs_hyper_t *hyper, const kvs_update_t *update, double *ret_scalars)
{
    optimizers_common_scalars(hyper, update, ret_scalars);
    ret_scalars[LARS_MOMENTUM] = hyper->own[LARS_OWN_MOMENTUM];
    ret_scalars[LARS_ETA] = hyper->own[LARS_OWN_ETA];
    ret_scalars[LARS_EPSILON] = hyper->own[LARS_OWN_EPSILON];
    ret_scalars[LARS_SKIP] = is_skipped(update->name);
}

static void lars_sums_f32(uint32_t phase, int64_t n, const float *grad, const float *weight,
                          float *const *states, const float *scalars, double *io_sums)
{
    (void)phase;
    lars_norms_sums_f32(n, grad, weight, states, scalars, io_sums);
}

static void lars_sums_f64(uint32_t phase, int64_t n, const double *grad, const double *weight,
                          double *const *states, const double *scalars, double *io_sums)
{
    (void)phase;
    lars_norms_sums_f64(n, grad, weight, states, scalars, io_sums);
}

static void lars_combine(uint32_t phase, const double *sums, double *io_scalars)
{
    double grad_norm = fabs(io_scalars[RESCALE]) * sqrt(sums[0]);
    double weight_norm = sqrt(sums[1]);

    (void)phase;
    if (io_scalars[LARS_SKIP] == 0 && grad_norm != 0 && weight_norm != 0) {
        io_scalars[LR] *= io_scalars[LARS_ETA] * weight_norm /
                          (grad_norm + io_scalars[WD] * weight_norm + io_scalars[LARS_EPSILON]);
    }
}

const kvs_optimizer_t optimizers_lars = {
    .size = (uint32_t)sizeof(kvs_optimizer_t),
    .name = "lars",
    .arithmetic = "kvstore/lars",
    .summary = "sgd with a rate for each array, for large batches",
    .learning_rate = 0.1,
    .params = lars_params,
    .n_params = OPTIMIZERS_COUNT(lars_params),
    .states = lars_states,
    .n_states = OPTIMIZERS_COUNT(lars_states),
    .states_used = lars_used,
    .scalars = lars_scalars,
    .n_phases = 1,
    .n_sums = 2,
    .sums_f32 = lars_sums_f32,
    .sums_f64 = lars_sums_f64,
    .combine = lars_combine,
    .step_f32 = lars_step_f32,
    .step_f64 = lars_step_f64,
};

/* ---- lamb, lans ------------------------------------------------------------------------------- */

enum { OWN_BETA1, OWN_BETA2, OWN_EPSILON, OWN_LOWER, OWN_UPPER, OWN_BIAS_CORRECTION };

static const kvs_param_info_t lamb_params[] = {
    {"beta1", KVS_PARAM_FLOAT, KVS_PARAM_UNIT, 0.9, "how long the mean remembers"},
    {"beta2", KVS_PARAM_FLOAT, KVS_PARAM_UNIT, 0.999, "how long the variance remembers"},
    {"epsilon", KVS_PARAM_FLOAT, KVS_PARAM_NON_NEGATIVE, 1e-6, "keeps the divisor from zero"},
    {"lower_bound", KVS_PARAM_FLOAT, KVS_PARAM_NULLABLE | KVS_PARAM_NON_NEGATIVE, NAN,
     "of the weights' norm; null or 0: none"},
    {"upper_bound", KVS_PARAM_FLOAT, KVS_PARAM_NULLABLE | KVS_PARAM_NON_NEGATIVE, NAN,
     "of the weights' norm; null or 0: none"},
    {"bias_correction", KVS_PARAM_BOOL, 0, 1, "make up for states that begin at zero"},
};
/* lans always corrects. */
#define N_LANS_PARAMS (OPTIMIZERS_COUNT(lamb_params) - 1)

static const kvs_state_info_t lamb_states[] = {{.name = "mean"}, {.name = "var"}};

static kvs_status_t check_bounds(const kvs_hyper_t *hyper)
{
    double lower = hyper->own[OWN_LOWER];
    double upper = hyper->own[OWN_UPPER];

    if (upper > 0 && lower > upper) {
        return kvs_fail(KVS_ERR_ARGUMENT, "parameter 'lower_bound' is %g, above upper_bound, %g",
                        lower, upper);
    }
    return KVS_OK;
}

static void bounded_scalars(const kvs_hyper_t *hyper, const kvs_update_t *update, int correct,
                            double *ret_scalars)
{
    double beta1 = hyper->own[OWN_BETA1];
    double beta2 = hyper->own[OWN_BETA2];
    double t = (double)update->t;

    optimizers_common_scalars(hyper, update, ret_scalars);
    ret_scalars[LAMB_BETA1] = beta1;
    ret_scalars[LAMB_REST1] = optimizers_rest_f32(beta1);
    ret_scalars[LAMB_BETA2] = beta2;
    ret_scalars[LAMB_REST2] = optimizers_rest_f32(beta2);
    ret_scalars[LAMB_EPSILON] = hyper->own[OWN_EPSILON];
    ret_scalars[LAMB_MEAN] = correct ? 1 / (1 - pow(beta1, t)) : 1;
    ret_scalars[LAMB_VAR] = correct ? 1 / (1 - pow(beta2, t)) : 1;
    ret_scalars[LAMB_LOWER] = hyper->own[OWN_LOWER] > 0 ? hyper->own[OWN_LOWER] : 0;
    ret_scalars[LAMB_UPPER] = hyper->own[OWN_UPPER] > 0 ? hyper->own[OWN_UPPER] : INFINITY;
}

static double bounded_norm(double sum, const double *scalars)
{
    return fmin(fmax(sqrt(sum), scalars[LAMB_LOWER]), scalars[LAMB_UPPER]);
}

static double ratio_of(double weight_norm, double step_norm)
{
    return weight_norm == 0 || step_norm == 0 ? 1 : weight_norm / step_norm;
}

static void lamb_scalars(const kvs_hyper_t *hyper, const kvs_update_t *update, double *ret_scalars)
{
    bounded_scalars(hyper, update, hyper->own[OWN_BIAS_CORRECTION] != 0, ret_scalars);
}

static void lamb_sums_f32(uint32_t phase, int64_t n, const float *grad, const float *weight,
                          float *const *states, const float *scalars, double *io_sums)
{
    (void)phase;
    lamb_norms_sums_f32(n, grad, weight, states, scalars, io_sums);
}

static void lamb_sums_f64(uint32_t phase, int64_t n, const double *grad, const double *weight,
                          double *const *states, const double *scalars, double *io_sums)
{
    (void)phase;
    lamb_norms_sums_f64(n, grad, weight, states, scalars, io_sums);
}

static void lamb_combine(uint32_t phase, const double *sums, double *io_scalars)
{
    (void)phase;
    io_scalars[LR] *= ratio_of(bounded_norm(sums[0], io_scalars), sqrt(sums[1]));
}

const kvs_optimizer_t optimizers_lamb = {
    .size = (uint32_t)sizeof(kvs_optimizer_t),
    .name = "lamb",
    .arithmetic = "kvstore/lamb",
    .summary = "adam with a rate for each array, for large batches",
    .learning_rate = 0.001,
    .params = lamb_params,
    .n_params = OPTIMIZERS_COUNT(lamb_params),
    .states = lamb_states,
    .n_states = OPTIMIZERS_COUNT(lamb_states),
    .check = check_bounds,
    .scalars = lamb_scalars,
    .n_phases = 1,
    .n_sums = 2,
    .sums_f32 = lamb_sums_f32,
    .sums_f64 = lamb_sums_f64,
    .combine = lamb_combine,
    .step_f32 = lamb_step_f32,
    .step_f64 = lamb_step_f64,
};

static void lans_scalars(const kvs_hyper_t *hyper, const kvs_update_t *update, double *ret_scalars)
{
    bounded_scalars(hyper, update, 1, ret_scalars);
}

static void lans_sums_f32(uint32_t phase, int64_t n, const float *grad, const float *weight,
                          float *const *states, const float *scalars, double *io_sums)
{
    (phase == 0 ? lars_norms_sums_f32 : lans_norms_sums_f32)(n, grad, weight, states, scalars,
                                                             io_sums);
}

static void lans_sums_f64(uint32_t phase, int64_t n, const double *grad, const double *weight,
                          double *const *states, const double *scalars, double *io_sums)
{
    (phase == 0 ? lars_norms_sums_f64 : lans_norms_sums_f64)(n, grad, weight, states, scalars,
                                                             io_sums);
}

/* First the gradient is brought to norm 1, then each part of the step to the weights' norm. */
static void lans_combine(uint32_t phase, const double *sums, double *io_scalars)
{
    if (phase == 0) {
        double grad_norm = fabs(io_scalars[RESCALE]) * sqrt(sums[0]);

        io_scalars[RESCALE] = grad_norm != 0 ? io_scalars[RESCALE] / grad_norm : 0;
        io_scalars[LANS_WEIGHT_NORM] = bounded_norm(sums[1], io_scalars);
    } else {
        double beta1 = io_scalars[LAMB_BETA1];
        double norm = io_scalars[LANS_WEIGHT_NORM];

        io_scalars[LANS_MEAN_RATE] = io_scalars[LR] * beta1 * ratio_of(norm, sqrt(sums[0]));
        io_scalars[LANS_GRAD_RATE] = io_scalars[LR] * (1 - beta1) * ratio_of(norm, sqrt(sums[1]));
    }
}

const kvs_optimizer_t optimizers_lans = {
    .size = (uint32_t)sizeof(kvs_optimizer_t),
    .name = "lans",
    .arithmetic = "kvstore/lans",
    .summary = "lamb with normalised gradients and Nesterov's momentum",
    .learning_rate = 0.001,
    .params = lamb_params,
    .n_params = N_LANS_PARAMS,
    .states = lamb_states,
    .n_states = OPTIMIZERS_COUNT(lamb_states),
    .check = check_bounds,
    .scalars = lans_scalars,
    .n_phases = 2,
    .n_sums = 2,
    .sums_f32 = lans_sums_f32,
    .sums_f64 = lans_sums_f64,
    .combine = lans_combine,
    .step_f32 = lans_step_f32,
    .step_f64 = lans_step_f64,
};
