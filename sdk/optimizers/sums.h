/* SPDX-License-Identifier: Apache-2.0 */
/* sums.h - sums of squares over arrays, in double, compiled for several instruction sets.
 *
 * Term i goes to lane i modulo SUM_LANES, and lanes are added pairwise: an order that vectors of any
 * width can keep, so that all instruction sets give the same bits. */
#ifndef KVS_OPTIMIZERS_SUMS_H
#define KVS_OPTIMIZERS_SUMS_H

#include "steps.h"

#define SUM_LANES 16
#define SUM_CHUNK 256 /* elements whose terms are kept before they are squared and added */

typedef float lanes_f32 __attribute__((vector_size(SUM_LANES * sizeof(float))));
typedef double lanes_f64 __attribute__((vector_size(SUM_LANES * sizeof(double))));

/* `n` is a multiple of SUM_LANES. */
ELEM void add_squares_f32(int64_t n, const float *terms, lanes_f64 *io_lanes)
{
    lanes_f64 sum = *io_lanes;

    for (int64_t i = 0; i < n; i += SUM_LANES) {
        lanes_f32 narrow;
        lanes_f64 wide;

        memcpy(&narrow, terms + i, sizeof(narrow));
        wide = __builtin_convertvector(narrow, lanes_f64);
        sum += wide * wide;
    }
    *io_lanes = sum;
}

ELEM void add_squares_f64(int64_t n, const double *terms, lanes_f64 *io_lanes)
{
    lanes_f64 sum = *io_lanes;

    for (int64_t i = 0; i < n; i += SUM_LANES) {
        lanes_f64 wide;

        memcpy(&wide, terms + i, sizeof(wide));
        sum += wide * wide;
    }
    *io_lanes = sum;
}

static inline double sum_of_lanes(const lanes_f64 *lanes)
{
    double sums[SUM_LANES];

    memcpy(sums, lanes, sizeof(sums));
    for (int width = SUM_LANES / 2; width > 0; width /= 2) {
        for (int i = 0; i < width; i++) {
            sums[i] += sums[i + width];
        }
    }
    return sums[0];
}

/* The same of the first `n` lanes, the others being 0; `sums` is used up. */
static inline double sum_of_few(int64_t n, double *sums)
{
    for (int64_t width = SUM_LANES / 2; width > 0; width /= 2) {
        for (int64_t i = 0; i + width < n; i++) {
            sums[i] += sums[i + width];
        }
        n = n < width ? n : width;
    }
    return sums[0];
}

/* SUMS_k(elem, n_terms, …) defines elem_sums_f32 and elem_sums_f64, which add to io_sums the squares of
 * the terms that elem_f32 or elem_f64 writes for each element. k states are read. */
#define SUM_ISA(target, isa, elem, type, suffix, n_terms, a, b, ...)                               \
    target static void elem##_sums_##suffix##_##isa(                                               \
        int64_t n, const type *restrict grad, const type *restrict weight, type *const *states,    \
        const type *scalars, double *io_sums)                                                      \
    {                                                                                              \
        type terms[n_terms][SUM_CHUNK];                                                            \
        lanes_f64 lanes[n_terms] = {{0}};                                                          \
        type s[KVS_OPTIMIZER_MAX_SCALARS];                                                         \
        const type *restrict x = states[a];                                                        \
        const type *restrict y = states[b];                                                        \
                                                                                                   \
        (void)weight, (void)x, (void)y;                                                            \
        memcpy(s, scalars, sizeof(s));                                                             \
        if (n > 0 && n <= SUM_LANES) { /* a short row: no need of chunks */                        \
            double few[n_terms][SUM_LANES];                                                        \
                                                                                                   \
            for (int64_t i = 0; i < n; i++) {                                                      \
                type term[n_terms];                                                                \
                                                                                                   \
                elem##_##suffix(__VA_ARGS__, s, term);                                             \
                for (int t = 0; t < n_terms; t++) {                                                \
                    few[t][i] = (double)term[t] * (double)term[t];                                 \
                }                                                                                  \
            }                                                                                      \
            for (int t = 0; t < n_terms; t++) {                                                    \
                io_sums[t] += sum_of_few(n, few[t]);                                               \
            }                                                                                      \
            return;                                                                                \
        }                                                                                          \
        for (int64_t base = 0; base < n; base += SUM_CHUNK) {                                      \
            int64_t n_chunk = n - base < SUM_CHUNK ? n - base : SUM_CHUNK;                         \
            int64_t n_padded = (n_chunk + SUM_LANES - 1) / SUM_LANES * SUM_LANES;                  \
                                                                                                   \
            for (int64_t j = 0; j < n_chunk; j++) {                                                \
                int64_t i = base + j;                                                              \
                type term[n_terms];                                                                \
                                                                                                   \
                elem##_##suffix(__VA_ARGS__, s, term);                                             \
                for (int t = 0; t < n_terms; t++) {                                                \
                    terms[t][j] = term[t];                                                         \
                }                                                                                  \
            }                                                                                      \
            for (int t = 0; t < n_terms; t++) {                                                    \
                for (int64_t j = n_chunk; j < n_padded; j++) {                                     \
                    terms[t][j] = 0;                                                               \
                }                                                                                  \
                add_squares_##suffix(n_padded, terms[t], &lanes[t]);                               \
            }                                                                                      \
        }                                                                                          \
        for (int t = 0; t < n_terms; t++) {                                                        \
            io_sums[t] += sum_of_lanes(&lanes[t]);                                                 \
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
