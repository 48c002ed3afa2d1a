/* SPDX-License-Identifier: Apache-2.0 */
/* kernels.h - the kernels of the CUDA provider by name, each with its one argument, a struct.
 *
 * Read by nvcc, by the plugin's C code, and by the test double that runs the same sources on the host.
 * Arguments stay below 4 KiB, what every driver takes. Nothing here is an array's owner: pointers are
 * those that the launching device reaches. */
#ifndef CUDA_KERNELS_H
#define CUDA_KERNELS_H

#include <stdint.h>

#define CUDA_BLOCK       256   /* threads */
#define CUDA_CHUNK_BYTES 16384 /* of one array, for one block of a sum */
#define CUDA_CHUNK       4096  /* elements, for one block of the others */
#define CUDA_MAX_ITEMS   32
#define CUDA_MAX_ARRAYS  384
/* Of steps, whose items are larger: */
#define CUDA_MAX_STEPS       9
#define CUDA_MAX_STEP_ARRAYS 272

/* Items of a sum: each adds `n_src` arrays in order and writes the result to `n_dst` arrays, whose
 * pointers follow those of the sources, from `first_array` on. Item i has the blocks from `first_block`
 * up to the next item's. */
typedef struct cuda_sum_item {
    int64_t n;
    uint32_t first_block;
    uint32_t first_array;
    uint32_t n_src;
    uint32_t n_dst;
} cuda_sum_item_t;

typedef struct cuda_sum_args {
    uint32_t n_items;
    uint32_t reserved;
    cuda_sum_item_t items[CUDA_MAX_ITEMS];
    void *arrays[CUDA_MAX_ARRAYS];
} cuda_sum_args_t;

/* Dtypes are KVS_DTYPE_… numbers. */
typedef struct cuda_cast_args {
    int64_t n;
    int32_t src_dtype;
    int32_t dst_dtype;
    const void *src;
    void *dst;
} cuda_cast_args_t;

/* Sets *flag to 1 if an element is NaN or infinite; of `add`, if not NULL, which is float32 as is
 * `src` then, the sums are looked at. */
typedef struct cuda_finite_args {
    int64_t n;
    int32_t dtype;
    int32_t reserved;
    const void *src;
    const float *add;
    uint32_t *flag;
} cuda_finite_args_t;

/* Steps of an optimizer: the sum of n_src gradients, rounded once, changes weight and states; the new
 * weight is also written to n_dst arrays. Blocks and arrays as of sums. `master`: the float32 weight of
 * a half type, or NULL. Kernels rows_… update the states per row before: a thread has a row. */
typedef struct cuda_step_item {
    int64_t n;
    uint32_t first_block;
    uint32_t first_array;
    uint32_t n_src;
    uint32_t n_dst;
    int32_t rule; /* CUDA_RULE_… */
    int32_t reserved;
    int64_t row_elems; /* state 0 is one number a row; 0: all states are as large as the weight */
    void *weight;
    float *master;
    void *states[3];
    double scalars[16];
} cuda_step_item_t;

typedef struct cuda_step_args {
    uint32_t n_items;
    uint32_t reserved;
    cuda_step_item_t items[CUDA_MAX_STEPS];
    void *arrays[CUDA_MAX_STEP_ARRAYS];
} cuda_step_args_t;

/* Sums of squares of an optimizer's terms, two of them, in the host's order: of each unit of `unit` elements
 * 16 lanes, an element's being its place modulo 16; then of each block of `units` units the lanes
 * added pairwise, and the units in order. */
#define CUDA_NORM_LANES 16
#define CUDA_NORM_TERMS 2
/* Of half types the host converts so many elements at a time, and sums them together. */
#define CUDA_HALF_UNIT 1024

typedef struct cuda_norms_args {
    int64_t n;
    int64_t unit;
    int32_t rule; /* CUDA_NORMS_… */
    int32_t reserved;
    const void *grad;
    const void *weight;
    const float *master;
    const void *states[2];
    double scalars[16];
    double *lanes; /* of each unit, its terms, their lanes */
} cuda_norms_args_t;

typedef struct cuda_norms_add_args {
    int64_t n_units;
    int64_t units;
    const double *lanes;
    double *sums; /* of each block, its terms */
} cuda_norms_add_args_t;

/* X(rule, the optimizer's name, the phase) */
#define CUDA_NORMS_LIST(X)                                                                         \
    X(lars, "lars", 0)                                                                             \
    X(lamb, "lamb", 0)                                                                             \
    X(lans_first, "lans", 0)                                                                       \
    X(lans, "lans", 1)

enum {
#define CUDA_NORMS_ENUM(rule, name, phase) CUDA_NORMS_##rule,
    CUDA_NORMS_LIST(CUDA_NORMS_ENUM)
#undef CUDA_NORMS_ENUM
        CUDA_N_NORMS
};

/* Compression of float32: one 32-bit word of `bits` an element. */
typedef struct cuda_pack_args {
    int64_t n;
    int32_t bits; /* 1 or 2 */
    float threshold;
    const float *grad;
    const float *residual;
    float *next; /* may be `residual` */
    uint32_t *packed;
} cuda_pack_args_t;

/* The sum, in order, of what n_src packed arrays stand for. */
typedef struct cuda_unpack_args {
    int64_t n;
    int32_t bits;
    float threshold;
    uint32_t n_src;
    uint32_t reserved;
    float *dst;
    const uint32_t *packed[CUDA_MAX_ARRAYS];
} cuda_unpack_args_t;

/* X(kernel, argument) */
#define CUDA_KERNEL_LIST(X)                                                                        \
    X(sum_u8, cuda_sum_args_t)                                                                     \
    X(sum_u32, cuda_sum_args_t)                                                                    \
    X(sum_u64, cuda_sum_args_t)                                                                    \
    X(sum_f16, cuda_sum_args_t)                                                                    \
    X(sum_bf16, cuda_sum_args_t)                                                                   \
    X(sum_f32, cuda_sum_args_t)                                                                    \
    X(sum_f64, cuda_sum_args_t)                                                                    \
    X(cast, cuda_cast_args_t)                                                                      \
    X(finite, cuda_finite_args_t)                                                                  \
    X(step_f32, cuda_step_args_t)                                                                  \
    X(step_f64, cuda_step_args_t)                                                                  \
    X(step_f16, cuda_step_args_t)                                                                  \
    X(step_bf16, cuda_step_args_t)                                                                 \
    X(rows_f32, cuda_step_args_t)                                                                  \
    X(rows_f64, cuda_step_args_t)                                                                  \
    X(rows_f16, cuda_step_args_t)                                                                  \
    X(rows_bf16, cuda_step_args_t)                                                                 \
    X(norms_f32, cuda_norms_args_t)                                                                \
    X(norms_f64, cuda_norms_args_t)                                                                \
    X(norms_f16, cuda_norms_args_t)                                                                \
    X(norms_bf16, cuda_norms_args_t)                                                               \
    X(norms_add, cuda_norms_add_args_t)                                                            \
    X(pack, cuda_pack_args_t)                                                                      \
    X(unpack, cuda_unpack_args_t)

/* X(rule, the optimizer's name, mask of the states it must have, and of those it looks at): the
 * arithmetic of one element, in the headers of sdk/optimizers. */
#define CUDA_RULE_LIST(X)                                                                          \
    X(sgd, "sgd", 0, 1)                                                                            \
    X(sgd_mom, "sgd", 1, 1)                                                                        \
    X(nag, "nag", 0, 1)                                                                            \
    X(nag_mom, "nag", 1, 1)                                                                        \
    X(signum0, "signum", 0, 1)                                                                     \
    X(signum, "signum", 1, 1)                                                                      \
    X(signsgd, "signsgd", 0, 1)                                                                    \
    X(signsgd_mom, "signsgd", 1, 1)                                                                \
    X(dcasgd, "dcasgd", 2, 3)                                                                      \
    X(dcasgd_mom, "dcasgd", 3, 3)                                                                  \
    X(test, "test", 1, 1)                                                                          \
    X(adam, "adam", 3, 3)                                                                          \
    X(adamw, "adamw", 3, 3)                                                                        \
    X(adabelief, "adabelief", 3, 3)                                                                \
    X(adamax, "adamax", 3, 3)                                                                      \
    X(nadam, "nadam", 3, 3)                                                                        \
    X(adagrad, "adagrad", 1, 1)                                                                    \
    X(groupadagrad, "groupadagrad", 1, 1)                                                          \
    X(adadelta, "adadelta", 3, 3)                                                                  \
    X(rmsprop, "rmsprop", 2, 7)                                                                    \
    X(rmsprop_centered, "rmsprop", 7, 7)                                                           \
    X(ftrl, "ftrl", 3, 3)                                                                          \
    X(ftml, "ftml", 7, 7)                                                                          \
    X(lars, "lars", 0, 1)                                                                          \
    X(lars_mom, "lars", 1, 1)                                                                      \
    X(lamb, "lamb", 3, 3)                                                                          \
    X(lans, "lans", 3, 3)

enum {
#define CUDA_RULE_ENUM(rule, name, states, mask) CUDA_RULE_##rule,
    CUDA_RULE_LIST(CUDA_RULE_ENUM)
#undef CUDA_RULE_ENUM
        CUDA_N_RULES
};

#endif
