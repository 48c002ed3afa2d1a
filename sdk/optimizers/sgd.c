/* SPDX-License-Identifier: Apache-2.0 */
/* sgd.c - sgd and its relatives: nag, signum, signsgd, dcasgd; and test, the simplest of all. */
#include "optimizers.h"
#include "steps.h"

#include "real64.h"

#include "sgd.h"

#include "real32.h"

#include "sgd.h"

STEPS_0(sgd)
STEPS_1(sgd_mom, 0)
STEPS_1(nag_mom, 0)
STEPS_0(signsgd)
STEPS_1(signum, 0)
STEPS_1(dcasgd, 1)
STEPS_2(dcasgd_mom, 0, 1)
STEPS_0(test)

PICK_STEPS(sgd_either, 0, sgd_mom, sgd)
PICK_STEPS(nag_either, 0, nag_mom, sgd)
PICK_STEPS(signum_either, 0, signum, signsgd)
PICK_STEPS(dcasgd_either, 0, dcasgd_mom, dcasgd)

static const kvs_state_info_t states[] = {{.name = "mom"}};

/* `momentum` is the first parameter of all that have it; without it there is no state for it. */
static uint32_t mom_used(const kvs_hyper_t *hyper)
{
    return hyper->own[0] != 0;
}

static void mom_scalars(const kvs_hyper_t *hyper, const kvs_update_t *update, double *ret_scalars)
{
    optimizers_common_scalars(hyper, update, ret_scalars);
    ret_scalars[MOMENTUM] = hyper->own[0];
}

/* ---- sgd -------------------------------------------------------------------------------------- */

static const kvs_param_info_t sgd_params[] = {
    {"momentum", KVS_PARAM_FLOAT, KVS_PARAM_NON_NEGATIVE, 0, "share of the last step to repeat"},
    {"lazy_update", KVS_PARAM_BOOL, 0, 0, "row-sparse gradients update the rows they list only"},
};

const kvs_optimizer_t optimizers_sgd = {
    .size = (uint32_t)sizeof(kvs_optimizer_t),
    .flags = KVS_OPTIMIZER_LAZY,
    .name = "sgd",
    .arithmetic = "kvstore/sgd",
    .summary = "stochastic gradient descent, with momentum",
    .learning_rate = 0.01,
    .params = sgd_params,
    .n_params = OPTIMIZERS_COUNT(sgd_params),
    .states = states,
    .n_states = 1,
    .states_used = mom_used,
    .scalars = mom_scalars,
    .step_f32 = sgd_either_step_f32,
    .step_f64 = sgd_either_step_f64,
};

/* ---- nag -------------------------------------------------------------------------------------- */

static const kvs_param_info_t nag_params[] = {
    {"momentum", KVS_PARAM_FLOAT, KVS_PARAM_NON_NEGATIVE, 0.9, "share of the last step to repeat"},
};

const kvs_optimizer_t optimizers_nag = {
    .size = (uint32_t)sizeof(kvs_optimizer_t),
    .name = "nag",
    .arithmetic = "kvstore/nag",
    .summary = "Nesterov's accelerated gradient",
    .learning_rate = 0.1,
    .params = nag_params,
    .n_params = OPTIMIZERS_COUNT(nag_params),
    .states = states,
    .n_states = 1,
    .states_used = mom_used,
    .scalars = mom_scalars,
    .step_f32 = nag_either_step_f32,
    .step_f64 = nag_either_step_f64,
};

/* ---- signum, signsgd -------------------------------------------------------------------------- */

static const kvs_param_info_t signum_params[] = {
    {"momentum", KVS_PARAM_FLOAT, KVS_PARAM_NON_NEGATIVE, 0.9, "of the mean whose sign is used"},
    {"wd_lh", KVS_PARAM_FLOAT, KVS_PARAM_NON_NEGATIVE, 0, "weight decay outside of the sign"},
};
static const kvs_param_info_t signsgd_params[] = {
    {"momentum", KVS_PARAM_FLOAT, KVS_PARAM_NON_NEGATIVE, 0, "of the mean whose sign is used"},
    {"wd_lh", KVS_PARAM_FLOAT, KVS_PARAM_NON_NEGATIVE, 0, "weight decay outside of the sign"},
};

/* Without momentum the sign is the gradient's alone, so that wd too works outside of it. */
static void signum_scalars(const kvs_hyper_t *hyper, const kvs_update_t *update,
                           double *ret_scalars)
{
    double momentum = hyper->own[0];
    double wd_lh = hyper->own[1];

    optimizers_common_scalars(hyper, update, ret_scalars);
    ret_scalars[SIGN_MOMENTUM] = momentum;
    ret_scalars[SIGN_REST] = 1 - momentum;
    ret_scalars[SIGN_KEEP] = 1 - update->lr * (momentum != 0 ? wd_lh : update->wd + wd_lh);
}

#define SIGNUM(ident, what, params_table)                                                          \
    const kvs_optimizer_t optimizers_##ident = {                                                   \
        .size = (uint32_t)sizeof(kvs_optimizer_t),                                                 \
        .name = #ident,                                                                            \
        .arithmetic = "kvstore/" #ident,                                                           \
        .summary = what,                                                                           \
        .learning_rate = 0.01,                                                                     \
        .params = params_table,                                                                    \
        .n_params = OPTIMIZERS_COUNT(params_table),                                                \
        .states = states,                                                                          \
        .n_states = 1,                                                                             \
        .states_used = mom_used,                                                                   \
        .scalars = signum_scalars,                                                                 \
        .step_f32 = signum_either_step_f32,                                                        \
        .step_f64 = signum_either_step_f64,                                                        \
    }

SIGNUM(signum, "steps of one size, in the direction of the mean's sign", signum_params);
SIGNUM(signsgd, "signum without momentum: the gradient's own sign", signsgd_params);

/* ---- dcasgd ----------------------------------------------------------------------------------- */

static const kvs_param_info_t dcasgd_params[] = {
    {"momentum", KVS_PARAM_FLOAT, KVS_PARAM_NON_NEGATIVE, 0, "share of the last step to repeat"},
    {"lamda", KVS_PARAM_FLOAT, KVS_PARAM_NON_NEGATIVE, 0.04, "strength of the compensation"},
};

static const kvs_state_info_t dcasgd_states[] = {
    {.name = "mom"},
    {.name = "previous_weight", .flags = KVS_STATE_FROM_WEIGHT},
};

static uint32_t dcasgd_used(const kvs_hyper_t *hyper)
{
    return hyper->own[0] != 0 ? 3 : 2;
}

static void dcasgd_scalars(const kvs_hyper_t *hyper, const kvs_update_t *update,
                           double *ret_scalars)
{
    optimizers_common_scalars(hyper, update, ret_scalars);
    ret_scalars[DC_MOMENTUM] = hyper->own[0];
    ret_scalars[DC_LAMDA] = hyper->own[1];
}

const kvs_optimizer_t optimizers_dcasgd = {
    .size = (uint32_t)sizeof(kvs_optimizer_t),
    .name = "dcasgd",
    .arithmetic = "kvstore/dcasgd",
    .summary = "sgd that makes up for delayed gradients",
    .learning_rate = 0.1,
    .params = dcasgd_params,
    .n_params = OPTIMIZERS_COUNT(dcasgd_params),
    .states = dcasgd_states,
    .n_states = OPTIMIZERS_COUNT(dcasgd_states),
    .states_used = dcasgd_used,
    .scalars = dcasgd_scalars,
    .step_f32 = dcasgd_either_step_f32,
    .step_f64 = dcasgd_either_step_f64,
};

/* ---- test ------------------------------------------------------------------------------------- */

static const kvs_state_info_t test_states[] = {{.name = "copy"}};

const kvs_optimizer_t optimizers_test = {
    .size = (uint32_t)sizeof(kvs_optimizer_t),
    .flags = KVS_OPTIMIZER_ANY_RATE,
    .name = "test",
    .arithmetic = "kvstore/test",
    .summary = "weight -= lr * (rescale_grad * grad + wd * weight), for tests",
    .learning_rate = 0.01,
    .states = test_states,
    .n_states = OPTIMIZERS_COUNT(test_states),
    .scalars = optimizers_common_scalars,
    .step_f32 = test_step_f32,
    .step_f64 = test_step_f64,
};
