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
    const uint32_t *unless; /* NULL, or: not 0, nothing is packed and the residual stays */
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

/* Rows of an array by id, of which the device has elements [begin, begin + n). `lanes` threads, 2 to the power of
 * lane_bits, have a row, or blocks of CUDA_BLOCK threads that have a chunk of it each: `pieces` of them. */
typedef struct cuda_rows_map {
    int64_t row_elems;
    int64_t n_rows;
    const int64_t *ids;
    int64_t begin;
    int64_t n;
    int64_t pieces;
    uint32_t lanes;
    uint32_t lane_bits;
} cuda_rows_map_t;

/* Rows as of kvs_rows_item_t, which go to `range` by id, or one after the other to `sums`. */
typedef struct cuda_rows_args {
    cuda_rows_map_t map;
    const int64_t *first;
    const void *const *sources;
    const void *packed;
    void *sums;
    void *range;
    uint32_t add; /* to what is in the range */
    uint32_t reserved;
} cuda_rows_args_t;

#define CUDA_MAX_GATHERED 64 /* destinations */

typedef struct cuda_gather_args {
    cuda_rows_map_t map;
    int32_t src_dtype;
    int32_t dst_dtype;
    const void *range;
    uint32_t n_dst;
    uint32_t elem_bytes; /* of the source */
    void *dst[CUDA_MAX_GATHERED];
} cuda_gather_args_t;

/* A step of the rows alone, by the gradients of each; what the item says of sources and destinations does
 * not count. Kernels lazyrows_… as rows_… */
typedef struct cuda_lazy_args {
    cuda_rows_map_t map;
    const void *grad;
    cuda_step_item_t item;
} cuda_lazy_args_t;

typedef struct cuda_mark_args {
    int64_t n;
    int64_t n_rows;
    const void *ids;
    uint8_t *flags;
    int64_t *outside;
    int32_t dtype;
    int32_t reserved;
} cuda_mark_args_t;

typedef struct cuda_find_args {
    int64_t row_elems;
    int64_t begin;
    int64_t n;
    const void *range;
    uint8_t *flags;
    uint32_t elem_bytes;
    uint32_t reserved;
} cuda_find_args_t;

/* How many flags are set, by levels: of each CUDA_GROUP flags, then of each CUDA_GROUP numbers of the level
 * before, up to one number. */
#define CUDA_GROUP      64
#define CUDA_MAX_LEVELS 11

typedef struct cuda_count_args {
    int64_t n;            /* of what is counted */
    const uint8_t *flags; /* NULL: `counts` are */
    const int64_t *counts;
    int64_t *sums;
} cuda_count_args_t;

typedef struct cuda_list_args {
    int64_t n_rows;
    const uint8_t *flags;
    const int64_t *levels[CUDA_MAX_LEVELS];
    int64_t *ids;
    int64_t *n;
    uint32_t n_levels;
    uint32_t reserved;
} cuda_list_args_t;

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
    X(unpack, cuda_unpack_args_t)                                                                  \
    X(union_u8, cuda_rows_args_t)                                                                  \
    X(union_u32, cuda_rows_args_t)                                                                 \
    X(union_u64, cuda_rows_args_t)                                                                 \
    X(union_f16, cuda_rows_args_t)                                                                 \
    X(union_bf16, cuda_rows_args_t)                                                                \
    X(union_f32, cuda_rows_args_t)                                                                 \
    X(union_f64, cuda_rows_args_t)                                                                 \
    X(gather, cuda_gather_args_t)                                                                  \
    X(lazy_f32, cuda_lazy_args_t)                                                                  \
    X(lazy_f64, cuda_lazy_args_t)                                                                  \
    X(lazy_f16, cuda_lazy_args_t)                                                                  \
    X(lazy_bf16, cuda_lazy_args_t)                                                                 \
    X(lazyrows_f32, cuda_lazy_args_t)                                                              \
    X(lazyrows_f64, cuda_lazy_args_t)                                                              \
    X(lazyrows_f16, cuda_lazy_args_t)                                                              \
    X(lazyrows_bf16, cuda_lazy_args_t)                                                             \
    X(mark, cuda_mark_args_t)                                                                      \
    X(find, cuda_find_args_t)                                                                      \
    X(count, cuda_count_args_t)                                                                    \
    X(list, cuda_list_args_t)

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
