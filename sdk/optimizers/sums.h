/* SPDX-License-Identifier: Apache-2.0 */
/* sums.h - sums of squares over arrays, in double, compiled for several instruction sets.
 *
 * Term i goes to lane i modulo SUM_LANES, and lanes are added pairwise: an order that vectors of any
 * width can keep, so that all instruction sets give the same bits. */
#ifndef KVS_OPTIMIZERS_SUMS_H
#define KVS_OPTIMIZERS_SUMS_H

#include "steps.h"

#define SUM_LANES 16

static inline double sum_of_lanes(double *lanes)
{
    for (int width = SUM_LANES / 2; width > 0; width /= 2) {
        for (int i = 0; i < width; i++) {
            lanes[i] += lanes[i + width];
        }
    }
    return lanes[0];
}

/* SUMS_k(elem, n_terms, …) defines elem_sums_f32 and elem_sums_f64, which add to io_sums the squares of
 * the terms that elem_f32 or elem_f64 writes for each element. k states are read. */
#define SUM_ISA(target, isa, elem, type, suffix, n_terms, a, b, ...)                               \
    target static void elem##_sums_##suffix##_##isa(                                               \
        int64_t n, const type *restrict grad, const type *restrict weight, type *const *states,    \
        const type *scalars, double *io_sums)                                                      \
    {                                                                                              \
        double lanes[n_terms][SUM_LANES] = {{0}};                                                  \
        type s[KVS_OPTIMIZER_MAX_SCALARS];                                                         \
        type terms[n_terms];                                                                       \
        const type *restrict x = states[a];                                                        \
        const type *restrict y = states[b];                                                        \
        int64_t base = 0;                                                                          \
                                                                                                   \
        (void)weight, (void)x, (void)y;                                                            \
        memcpy(s, scalars, sizeof(s));                                                             \
        for (; base + SUM_LANES <= n; base += SUM_LANES) {                                         \
            for (int64_t i = base; i < base + SUM_LANES; i++) {                                    \
                elem##_##suffix(__VA_ARGS__, s, terms);                                            \
                for (int t = 0; t < n_terms; t++) {                                                \
                    lanes[t][i - base] += (double)terms[t] * (double)terms[t];                     \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
        for (int64_t i = base; i < n; i++) {                                                       \
            elem##_##suffix(__VA_ARGS__, s, terms);                                                \
            for (int t = 0; t < n_terms; t++) {                                                    \
                lanes[t][i - base] += (double)terms[t] * (double)terms[t];                         \
            }                                                                                      \
        }                                                                                          \
        for (int t = 0; t < n_terms; t++) {                                                        \
            io_sums[t] += sum_of_lanes(lanes[t]);                                                  \
        }                                                                                          \
    }
#define SUM(elem, type, suffix, ...)                                                               \
    SUM_ISA(FOR_AVX512, avx512, elem, type, suffix, __VA_ARGS__)                                   \
    SUM_ISA(FOR_AVX2, avx2, elem, type, suffix, __VA_ARGS__)                                       \
    SUM_ISA(FOR_ANY, any, elem, type, suffix, __VA_ARGS__)                                         \
    static void elem##_sums_##suffix(int64_t n, const type *grad, const type *weight,              \
                                     type *const *states, const type *scalars, double *io_sums)    \
    {                                                                                              \
        CALL_BEST(elem##_sums_##suffix, n, grad, weight, states, scalars, io_sums);                \
    }
#define SUMS(elem, ...)                                                                            \
    SUM(elem, float, f32, __VA_ARGS__)                                                             \
    SUM(elem, double, f64, __VA_ARGS__)

#define SUMS_GRAD(elem, n_terms)    SUMS(elem, n_terms, 0, 0, grad[i])
#define SUMS_0(elem, n_terms)       SUMS(elem, n_terms, 0, 0, grad[i], weight[i])
#define SUMS_2(elem, n_terms, a, b) SUMS(elem, n_terms, a, b, grad[i], weight[i], x[i], y[i])

#endif
