/* SPDX-License-Identifier: Apache-2.0 */
/* step.cu - optimizers: the sum of the gradients, the step, and the new weight to every array that wants
 * it, in one pass over memory. The arithmetic of an element is that of sdk/optimizers, whose headers C
 * compilers and nvcc both take; what rule it is, all threads know, so that choosing costs little. */
#include "row_code.h"

#include "real64.h"

#include "adagrad.h"
#include "adam.h"
#include "ftrl.h"
#include "layerwise.h"
#include "sgd.h"

#include "real32.h"

#include "adagrad.h"
#include "adam.h"
#include "ftrl.h"
#include "layerwise.h"
#include "sgd.h"

#define SAME(x) (x)

/* One element; rules that divide by the rate do nothing at rate 0. */
#define DEFINE_STEP_ONE(type, suffix)                                                              \
    DEVICE void step_one_##suffix(int rule, type g, type *w, type *x, type *y, type *z,            \
                                  const type *s)                                                   \
    {                                                                                              \
        switch (rule) {                                                                            \
        case CUDA_RULE_sgd:                                                                        \
        case CUDA_RULE_lars:                                                                       \
        case CUDA_RULE_nag:                                                                        \
            sgd_##suffix(g, w, s);                                                                 \
            break;                                                                                 \
        case CUDA_RULE_lars_mom:                                                                   \
        case CUDA_RULE_sgd_mom:                                                                    \
            sgd_mom_##suffix(g, w, x, s);                                                          \
            break;                                                                                 \
        case CUDA_RULE_nag_mom:                                                                    \
            nag_mom_##suffix(g, w, x, s);                                                          \
            break;                                                                                 \
        case CUDA_RULE_signum0:                                                                    \
        case CUDA_RULE_signsgd:                                                                    \
            signsgd_##suffix(g, w, s);                                                             \
            break;                                                                                 \
        case CUDA_RULE_signum:                                                                     \
        case CUDA_RULE_signsgd_mom:                                                                \
            signum_##suffix(g, w, x, s);                                                           \
            break;                                                                                 \
        case CUDA_RULE_dcasgd:                                                                     \
            dcasgd_##suffix(g, w, y, s);                                                           \
            break;                                                                                 \
        case CUDA_RULE_dcasgd_mom:                                                                 \
            dcasgd_mom_##suffix(g, w, x, y, s);                                                    \
            break;                                                                                 \
        case CUDA_RULE_test:                                                                       \
            test_##suffix(g, w, s);                                                                \
            break;                                                                                 \
        case CUDA_RULE_adam:                                                                       \
            adam_##suffix(g, w, x, y, s);                                                          \
            break;                                                                                 \
        case CUDA_RULE_adamw:                                                                      \
            adamw_##suffix(g, w, x, y, s);                                                         \
            break;                                                                                 \
        case CUDA_RULE_adabelief:                                                                  \
            adabelief_##suffix(g, w, x, y, s);                                                     \
            break;                                                                                 \
        case CUDA_RULE_adamax:                                                                     \
            adamax_##suffix(g, w, x, y, s);                                                        \
            break;                                                                                 \
        case CUDA_RULE_nadam:                                                                      \
            nadam_##suffix(g, w, x, y, s);                                                         \
            break;                                                                                 \
        case CUDA_RULE_adagrad:                                                                    \
            adagrad_##suffix(g, w, x, s);                                                          \
            break;                                                                                 \
        case CUDA_RULE_groupadagrad:                                                               \
            groupadagrad_##suffix(g, w, *x, s);                                                    \
            break;                                                                                 \
        case CUDA_RULE_adadelta:                                                                   \
            adadelta_##suffix(g, w, x, y, s);                                                      \
            break;                                                                                 \
        case CUDA_RULE_rmsprop:                                                                    \
            rmsprop_##suffix(g, w, y, s);                                                          \
            break;                                                                                 \
        case CUDA_RULE_rmsprop_centered:                                                           \
            rmsprop_centered_##suffix(g, w, x, y, z, s);                                           \
            break;                                                                                 \
        case CUDA_RULE_ftrl:                                                                       \
            if (s[LR] != 0) {                                                                      \
                ftrl_##suffix(g, w, x, y, s);                                                      \
            }                                                                                      \
            break;                                                                                 \
        case CUDA_RULE_ftml:                                                                       \
            if (s[LR] != 0) {                                                                      \
                ftml_##suffix(g, w, x, y, z, s);                                                   \
            }                                                                                      \
            break;                                                                                 \
        case CUDA_RULE_lamb:                                                                       \
            lamb_##suffix(g, w, x, y, s);                                                          \
            break;                                                                                 \
        case CUDA_RULE_lans:                                                                       \
            lans_##suffix(g, w, x, y, s);                                                          \
            break;                                                                                 \
        default:                                                                                   \
            break;                                                                                 \
        }                                                                                          \
    }

DEFINE_STEP_ONE(double, f64)
DEFINE_STEP_ONE(float, f32)

/* The item that a block works on: all threads of a block take the same way. */
DEVICE const cuda_step_item_t *item_of_block(const cuda_step_args_t *args)
{
    uint32_t i = 0;

    while (i + 1 < args->n_items && args->items[i + 1].first_block <= block_index()) {
        i++;
    }
    return &args->items[i];
}

DEVICE double sum_of_lanes(const double *lanes)
{
    double sums[CUDA_NORM_LANES];

    for (int i = 0; i < CUDA_NORM_LANES; i++) {
        sums[i] = lanes[i];
    }
    for (int width = CUDA_NORM_LANES / 2; width > 0; width /= 2) {
        for (int i = 0; i < width; i++) {
            sums[i] += sums[i + width];
        }
    }
    return sums[0];
}

#define DEFINE_STEP(name, elem, type, suffix, widen, narrow)                                       \
    /* The sum of the gradients as the CPU keeps it: in the array's own type. */                   \
    DEVICE type name##_grad(void *const *arrays, uint32_t n_src, int64_t i)                        \
    {                                                                                              \
        type total = widen(((const elem *)arrays[0])[i]);                                          \
                                                                                                   \
        for (uint32_t j = 1; j < n_src; j++) {                                                     \
            total += widen(((const elem *)arrays[j])[i]);                                          \
        }                                                                                          \
        return n_src > 1 ? widen((elem)narrow(total)) : total;                                     \
    }                                                                                              \
    DEVICE int name##_is_exact(const cuda_step_item_t *item)                                       \
    {                                                                                              \
        return item->master != 0 || sizeof(elem) == sizeof(type);                                  \
    }                                                                                              \
    DEVICE type name##_state(const cuda_step_item_t *item, int k, int64_t i)                       \
    {                                                                                              \
        int64_t at = item->row_elems == 0 ? i : i / item->row_elems;                               \
                                                                                                   \
        return name##_is_exact(item) ? ((const type *)item->states[k])[at]                         \
                                     : widen(((const elem *)item->states[k])[at]);                 \
    }                                                                                              \
    DEVICE void name##_set_state(const cuda_step_item_t *item, int k, int64_t at, type value)      \
    {                                                                                              \
        if (name##_is_exact(item)) {                                                               \
            ((type *)item->states[k])[at] = value;                                                 \
        } else {                                                                                   \
            ((elem *)item->states[k])[at] = (elem)narrow(value);                                   \
        }                                                                                          \
    }                                                                                              \
    DEVICE void name##_element(const cuda_step_item_t *item, void *const *arrays, uint32_t n_src,  \
                               int64_t i, const type *s)                                           \
    {                                                                                              \
        type weight =                                                                              \
            item->master != 0 ? (type)item->master[i] : widen(((const elem *)item->weight)[i]);    \
        type state[3];                                                                             \
                                                                                                   \
        for (int k = 0; k < 3; k++) {                                                              \
            state[k] = item->states[k] == 0 ? 0 : name##_state(item, k, i);                        \
        }                                                                                          \
        step_one_##suffix(item->rule, name##_grad(arrays, n_src, i), &weight, &state[0],           \
                          &state[1], &state[2], s);                                                \
        for (int k = 0; k < 3; k++) {                                                              \
            if (item->states[k] != 0 && item->row_elems == 0) {                                    \
                name##_set_state(item, k, i, state[k]);                                            \
            }                                                                                      \
        }                                                                                          \
        if (item->master != 0) {                                                                   \
            item->master[i] = (float)weight;                                                       \
        }                                                                                          \
        ((elem *)item->weight)[i] = (elem)narrow(weight);                                          \
        for (uint32_t j = 0; j < item->n_dst; j++) {                                               \
            ((elem *)arrays[n_src + j])[i] = (elem)narrow(weight);                                 \
        }                                                                                          \
    }                                                                                              \
    KERNEL(name, cuda_step_args_t)                                                                 \
    {                                                                                              \
        const cuda_step_item_t *item = item_of_block(args);                                        \
        int64_t begin = (int64_t)(block_index() - item->first_block) * CUDA_CHUNK;                 \
        int64_t end = chunk_end(begin, CUDA_CHUNK, item->n);                                       \
        type s[16];                                                                                \
                                                                                                   \
        for (int k = 0; k < 16; k++) {                                                             \
            s[k] = (type)item->scalars[k];                                                         \
        }                                                                                          \
        for (int64_t i = begin + thread_index(); i < end; i += CUDA_BLOCK) {                       \
            name##_element(item, args->arrays + item->first_array, item->n_src, i, s);             \
        }                                                                                          \
    }

DEFINE_STEP(step_f32, float, float, f32, SAME, SAME)
DEFINE_STEP(step_f64, double, double, f64, SAME, SAME)
DEFINE_STEP(step_f16, uint16_t, float, f32, widen_f16, narrow_f16)
DEFINE_STEP(step_bf16, uint16_t, float, f32, kvs_bf16_to_f32, kvs_f32_to_bf16)

/* ---- Rows ------------------------------------------------------------------------------------------- */

/* The mean of a row's squares goes to its history, in the host's order: lanes as of norms, and of half
 * types a piece of `unit` elements after the other. */
#define DEFINE_ROWS(name, step, type, suffix, unit)                                                \
    DEVICE type name##_piece(const cuda_step_item_t *item, void *const *arrays, uint32_t n_src,    \
                             int64_t begin, int64_t end, const type *s)                            \
    {                                                                                              \
        double lanes[CUDA_NORM_LANES] = {0};                                                       \
                                                                                                   \
        for (int64_t i = begin; i < end; i++) {                                                    \
            type term;                                                                             \
                                                                                                   \
            group_squares_##suffix(step##_grad(arrays, n_src, i), s, &term);                       \
            lanes[(i - begin) % CUDA_NORM_LANES] += (double)term * (double)term;                   \
        }                                                                                          \
        return (type)(sum_of_lanes(lanes) / (double)item->row_elems);                              \
    }                                                                                              \
    DEVICE void name##_row(const cuda_step_item_t *item, void *const *arrays, uint32_t n_src,      \
                           int64_t row)                                                            \
    {                                                                                              \
        int64_t begin = row * item->row_elems, end = begin + item->row_elems;                      \
        type history, s[16];                                                                       \
                                                                                                   \
        for (int k = 0; k < 16; k++) {                                                             \
            s[k] = (type)item->scalars[k];                                                         \
        }                                                                                          \
        history = step##_state(item, 0, begin);                                                    \
        for (int64_t i = begin; i < end; i += (unit)) {                                            \
            history +=                                                                             \
                name##_piece(item, arrays, n_src, i, end - i < (unit) ? end : i + (unit), s);      \
        }                                                                                          \
        step##_set_state(item, 0, row, history);                                                   \
    }                                                                                              \
    KERNEL(name, cuda_step_args_t)                                                                 \
    {                                                                                              \
        const cuda_step_item_t *item = item_of_block(args);                                        \
        int64_t row = (int64_t)(block_index() - item->first_block) * CUDA_BLOCK + thread_index();  \
                                                                                                   \
        if (row < item->n / item->row_elems) {                                                     \
            name##_row(item, args->arrays + item->first_array, item->n_src, row);                  \
        }                                                                                          \
    }

DEFINE_ROWS(rows_f32, step_f32, float, f32, item->row_elems)
DEFINE_ROWS(rows_f64, step_f64, double, f64, item->row_elems)
DEFINE_ROWS(rows_f16, step_f16, float, f32, CUDA_HALF_UNIT)
DEFINE_ROWS(rows_bf16, step_bf16, float, f32, CUDA_HALF_UNIT)

/* ---- Rows that a sparse gradient lists ------------------------------------------------------------------ */

/* Where the gradient of the whole range would begin for element i of the range to be that of the span's row. */
DEVICE void *lazy_grad(const cuda_lazy_args_t *args, const row_span_t *span, uint32_t elem_bytes)
{
    return shifted(args->grad, span->row * args->map.row_elems - span->at, elem_bytes);
}

#define DEFINE_LAZY(name, step, elem, type)                                                        \
    KERNEL(name, cuda_lazy_args_t)                                                                 \
    {                                                                                              \
        row_span_t span;                                                                           \
        type s[16];                                                                                \
                                                                                                   \
        if (!span_of_thread(&args->map, 1, &span)) {                                               \
            return;                                                                                \
        }                                                                                          \
        void *const grad[1] = {lazy_grad(args, &span, sizeof(elem))};                              \
                                                                                                   \
        for (int k = 0; k < 16; k++) {                                                             \
            s[k] = (type)args->item.scalars[k];                                                    \
        }                                                                                          \
        for (int64_t i = span.from + span.lane; i < span.to; i += args->map.lanes) {               \
            step##_element(&args->item, grad, 1, span.at + i, s);                                  \
        }                                                                                          \
    }

DEFINE_LAZY(lazy_f32, step_f32, float, float)
DEFINE_LAZY(lazy_f64, step_f64, double, double)
DEFINE_LAZY(lazy_f16, step_f16, uint16_t, float)
DEFINE_LAZY(lazy_bf16, step_bf16, uint16_t, float)

/* A thread has a row. */
#define DEFINE_LAZYROWS(name, rows, elem, type)                                                    \
    KERNEL(name, cuda_lazy_args_t)                                                                 \
    {                                                                                              \
        row_span_t span;                                                                           \
                                                                                                   \
        if (!span_of_thread(&args->map, 1, &span)) {                                               \
            return;                                                                                \
        }                                                                                          \
        void *const grad[1] = {lazy_grad(args, &span, sizeof(elem))};                              \
                                                                                                   \
        rows##_row(&args->item, grad, 1, span.at / args->map.row_elems);                           \
    }

DEFINE_LAZYROWS(lazyrows_f32, rows_f32, float, float)
DEFINE_LAZYROWS(lazyrows_f64, rows_f64, double, double)
DEFINE_LAZYROWS(lazyrows_f16, rows_f16, uint16_t, float)
DEFINE_LAZYROWS(lazyrows_bf16, rows_bf16, uint16_t, float)

/* ---- Norms ------------------------------------------------------------------------------------------ */

#define DEFINE_TERMS(type, suffix)                                                                 \
    DEVICE void terms_##suffix(int rule, type g, type w, type x, type y, const type *s,            \
                               type *terms)                                                        \
    {                                                                                              \
        switch (rule) {                                                                            \
        case CUDA_NORMS_lamb:                                                                      \
            lamb_norms_##suffix(g, w, x, y, s, terms);                                             \
            break;                                                                                 \
        case CUDA_NORMS_lans:                                                                      \
            lans_norms_##suffix(g, w, x, y, s, terms);                                             \
            break;                                                                                 \
        default:                                                                                   \
            lars_norms_##suffix(g, w, s, terms);                                                   \
            break;                                                                                 \
        }                                                                                          \
    }

DEFINE_TERMS(double, f64)
DEFINE_TERMS(float, f32)

/* A thread adds up one lane of one unit. */
#define DEFINE_NORMS(name, elem, type, suffix, widen)                                              \
    DEVICE type name##_state(const cuda_norms_args_t *args, int k, int64_t i)                      \
    {                                                                                              \
        return args->states[k] == 0 ? 0                                                            \
               : args->master != 0 || sizeof(elem) == sizeof(type)                                 \
                   ? ((const type *)args->states[k])[i]                                            \
                   : widen(((const elem *)args->states[k])[i]);                                    \
    }                                                                                              \
    KERNEL(name, cuda_norms_args_t)                                                                \
    {                                                                                              \
        int64_t index = (int64_t)block_index() * CUDA_BLOCK + thread_index();                      \
        int64_t unit = index / CUDA_NORM_LANES, lane = index % CUDA_NORM_LANES;                    \
        int64_t end = chunk_end(unit * args->unit, args->unit, args->n);                           \
        double sums[CUDA_NORM_TERMS] = {0, 0};                                                     \
        type s[16];                                                                                \
                                                                                                   \
        if (unit * args->unit >= args->n) {                                                        \
            return;                                                                                \
        }                                                                                          \
        for (int k = 0; k < 16; k++) {                                                             \
            s[k] = (type)args->scalars[k];                                                         \
        }                                                                                          \
        for (int64_t i = unit * args->unit + lane; i < end; i += CUDA_NORM_LANES) {                \
            type w = args->master != 0 ? (type)args->master[i]                                     \
                                       : widen(((const elem *)args->weight)[i]);                   \
            type terms[CUDA_NORM_TERMS];                                                           \
                                                                                                   \
            terms_##suffix(args->rule, widen(((const elem *)args->grad)[i]), w,                    \
                           name##_state(args, 0, i), name##_state(args, 1, i), s, terms);          \
            sums[0] += (double)terms[0] * (double)terms[0];                                        \
            sums[1] += (double)terms[1] * (double)terms[1];                                        \
        }                                                                                          \
        args->lanes[unit * CUDA_NORM_TERMS * CUDA_NORM_LANES + lane] = sums[0];                    \
        args->lanes[(unit * CUDA_NORM_TERMS + 1) * CUDA_NORM_LANES + lane] = sums[1];              \
    }

DEFINE_NORMS(norms_f32, float, float, f32, SAME)
DEFINE_NORMS(norms_f64, double, double, f64, SAME)
DEFINE_NORMS(norms_f16, uint16_t, float, f32, widen_f16)
DEFINE_NORMS(norms_bf16, uint16_t, float, f32, kvs_bf16_to_f32)

/* A thread adds up one term of one block. */
KERNEL(norms_add, cuda_norms_add_args_t)
{
    int64_t index = (int64_t)block_index() * CUDA_BLOCK + thread_index();
    int64_t begin = index / CUDA_NORM_TERMS * args->units, term = index % CUDA_NORM_TERMS;
    int64_t end = chunk_end(begin, args->units, args->n_units);
    double sum = 0;

    if (begin >= args->n_units) {
        return;
    }
    for (int64_t unit = begin; unit < end; unit++) {
        sum += sum_of_lanes(args->lanes + (unit * CUDA_NORM_TERMS + term) * CUDA_NORM_LANES);
    }
    args->sums[index] = sum;
}
