/* SPDX-License-Identifier: Apache-2.0 */
/* lion.c - an optimizer as a plugin of its own: Lion, which steps by the sign of a mean of gradients
 * (Chen et al. 2023, "Symbolic Discovery of Optimization Algorithms"). Copy it to begin another.
 *
 * What is left to do here: the parameters and states as tables, the numbers of one update, and the
 * arithmetic of a block, for float32 and float64. Counting, schedules, multipliers, half types, memory,
 * threads and files of states are seen to, in every store and in the worker. */
#include <kvstore/plugin.h>

#include <math.h>

/* ---- Parameters and states ------------------------------------------------------------------- */

/* Beside those that all optimizers have, learning_rate, wd, … They arrive in this order, checked. */
enum { BETA1, BETA2 };

static const kvs_param_info_t params[] = {
    [BETA1] = {"beta1", KVS_PARAM_FLOAT, KVS_PARAM_UNIT, 0.9, "weight of the mean in a step"},
    [BETA2] = {"beta2", KVS_PARAM_FLOAT, KVS_PARAM_UNIT, 0.99, "how long the mean remembers"},
};

static const kvs_state_info_t states[] = {{.name = "mean"}}; /* begins as zeros */

/* ---- One update of one key ------------------------------------------------------------------- */

/* The numbers that every element needs: computed once, in double, in the order of the pushes. */
enum { S_RESCALE, S_CLIP, S_RATE, S_KEEP, S_BETA1, S_REST1, S_BETA2, S_REST2 };

static void lion_scalars(const kvs_hyper_t *hyper, const kvs_update_t *update, double *ret_scalars)
{
    ret_scalars[S_RESCALE] = hyper->rescale_grad;
    ret_scalars[S_CLIP] = hyper->clip_gradient > 0 ? hyper->clip_gradient : INFINITY; /* 0: off */
    ret_scalars[S_RATE] = update->lr;
    ret_scalars[S_KEEP] = 1 - update->lr * update->wd;
    ret_scalars[S_BETA1] = hyper->own[BETA1];
    ret_scalars[S_REST1] = 1 - hyper->own[BETA1];
    ret_scalars[S_BETA2] = hyper->own[BETA2];
    ret_scalars[S_REST2] = 1 - hyper->own[BETA2];
}

/* A block of elements, on any thread: nothing but the arrays is touched. The gradient stays as it is.
 * Written once for both types; the loop has no branch, so that compilers make vectors of it. */
#define LION_STEP(name, type)                                                                      \
    static void name(int64_t n, const type *grad, type *weight, type *const *block_states,         \
                     const type *s)                                                                \
    {                                                                                              \
        type *mean = block_states[0];                                                              \
                                                                                                   \
        for (int64_t i = 0; i < n; i++) {                                                          \
            type g = s[S_RESCALE] * grad[i];                                                       \
            type step;                                                                             \
                                                                                                   \
            g = g > s[S_CLIP] ? s[S_CLIP] : g < -s[S_CLIP] ? -s[S_CLIP] : g;                       \
            step = s[S_BETA1] * mean[i] + s[S_REST1] * g;                                          \
            weight[i] = s[S_KEEP] * weight[i] - s[S_RATE] * (type)((step > 0) - (step < 0));       \
            mean[i] = s[S_BETA2] * mean[i] + s[S_REST2] * g;                                       \
        }                                                                                          \
    }

LION_STEP(lion_step_f32, float)
LION_STEP(lion_step_f64, double)

/* ---- The plugin ------------------------------------------------------------------------------ */

static const kvs_optimizer_t lion = {
    .size = (uint32_t)sizeof(lion),
    .name = "lion",
    .summary = "steps of one size, by the sign of a mean of gradients",
    .learning_rate = 1e-4,
    .params = params,
    .n_params = sizeof(params) / sizeof(params[0]),
    .states = states,
    .n_states = sizeof(states) / sizeof(states[0]),
    .scalars = lion_scalars,
    .step_f32 = lion_step_f32,
    .step_f64 = lion_step_f64,
};

static const kvs_optimizer_t *const optimizers[] = {&lion};

/* Name, version and what is provided stand in lion.json.in too: the core compares them. */
KVS_PLUGIN(lion, "1.0.0", .optimizers = optimizers, .n_optimizers = 1)
