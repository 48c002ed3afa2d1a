/* SPDX-License-Identifier: Apache-2.0 */
/* steps.h - loops over arrays from the arithmetic of one element, compiled for several instruction
 * sets. All give the same bits: contraction is off, and vectors do what single elements do. */
#ifndef KVS_OPTIMIZERS_STEPS_H
#define KVS_OPTIMIZERS_STEPS_H

#include "optimizers.h"

#include <string.h>

#include "real64.h"

#include "real32.h"

/* Not target_clones: clang 14 exports the resolvers it makes, and they run before sanitizers can. */
#if defined(__x86_64__)
#define FOR_AVX512 __attribute__((target("avx512f")))
#define FOR_AVX2   __attribute__((target("avx2")))
#else
#define FOR_AVX512
#define FOR_AVX2
#endif
#define FOR_ANY

/* Call one of three functions that differ in the instruction set they were compiled for. */
#define CALL_BEST(function, ...)                                                                   \
    do {                                                                                           \
        switch (optimizers_isa()) {                                                                \
        case OPTIMIZERS_AVX512:                                                                    \
            function##_avx512(__VA_ARGS__);                                                        \
            break;                                                                                 \
        case OPTIMIZERS_AVX2:                                                                      \
            function##_avx2(__VA_ARGS__);                                                          \
            break;                                                                                 \
        default:                                                                                   \
            function##_any(__VA_ARGS__);                                                           \
        }                                                                                          \
    } while (0)

/* STEPS_k(elem, …) defines elem_step_f32 and elem_step_f64 for an element with k states, of which the
 * numbers are given. Scalars are copied, so that the compiler sees that no store changes them. */
#define STEP_ISA(target, isa, elem, type, suffix, a, b, c, ...)                                    \
    target static void elem##_step_##suffix##_##isa(int64_t n, const type *restrict grad,          \
                                                    type *restrict weight, type *const *states,    \
                                                    const type *scalars)                           \
    {                                                                                              \
        type s[KVS_OPTIMIZER_MAX_SCALARS];                                                         \
        type *restrict x = states[a];                                                              \
        type *restrict y = states[b];                                                              \
        type *restrict z = states[c];                                                              \
                                                                                                   \
        (void)x, (void)y, (void)z;                                                                 \
        memcpy(s, scalars, sizeof(s));                                                             \
        for (int64_t i = 0; i < n; i++) {                                                          \
            elem##_##suffix(grad[i], &weight[i], __VA_ARGS__);                                     \
        }                                                                                          \
    }
#define STEP(elem, type, suffix, ...)                                                              \
    STEP_ISA(FOR_AVX512, avx512, elem, type, suffix, __VA_ARGS__)                                  \
    STEP_ISA(FOR_AVX2, avx2, elem, type, suffix, __VA_ARGS__)                                      \
    STEP_ISA(FOR_ANY, any, elem, type, suffix, __VA_ARGS__)                                        \
    static void elem##_step_##suffix(int64_t n, const type *grad, type *weight,                    \
                                     type *const *states, const type *scalars)                     \
    {                                                                                              \
        CALL_BEST(elem##_step_##suffix, n, grad, weight, states, scalars);                         \
    }
#define STEPS(elem, ...)                                                                           \
    STEP(elem, float, f32, __VA_ARGS__)                                                            \
    STEP(elem, double, f64, __VA_ARGS__)

#define STEPS_0(elem)          STEPS(elem, 0, 0, 0, s)
#define STEPS_1(elem, a)       STEPS(elem, a, a, a, &x[i], s)
#define STEPS_2(elem, a, b)    STEPS(elem, a, b, b, &x[i], &y[i], s)
#define STEPS_3(elem, a, b, c) STEPS(elem, a, b, c, &x[i], &y[i], &z[i], s)

/* Defines name_step_f32 and name_step_f64: one step if state `a` is in use, another if it is not. */
#define PICK_STEP(name, type, suffix, a, with, without)                                            \
    static void name##_step_##suffix(int64_t n, const type *grad, type *weight,                    \
                                     type *const *states, const type *scalars)                     \
    {                                                                                              \
        (states[a] ? with##_step_##suffix : without##_step_##suffix)(n, grad, weight, states,      \
                                                                     scalars);                     \
    }
#define PICK_STEPS(name, a, with, without)                                                         \
    PICK_STEP(name, float, f32, a, with, without)                                                  \
    PICK_STEP(name, double, f64, a, with, without)

#endif
