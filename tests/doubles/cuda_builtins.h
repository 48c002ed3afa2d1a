/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_builtins.h - stands for what nvcc has built in, so that a C compiler takes the .cu files of
 * plugins/device/cuda: a kernel becomes a function that runs all threads of all blocks, one by one.
 * Included in front of each of them (-include). */
#ifndef CUDA_BUILTINS_H
#define CUDA_BUILTINS_H

#include <stdint.h>

extern uint32_t cuda_double_thread, cuda_double_block; /* of the one thread that runs kernels */

#define KERNEL(name, type)                                                                         \
    static inline void name##_thread(const type *args);                                            \
    void cuda_double_##name(const void *args, uint32_t n_blocks);                                  \
    void cuda_double_##name(const void *args, uint32_t n_blocks)                                   \
    {                                                                                              \
        for (uint32_t block = 0; block < n_blocks; block++) {                                      \
            cuda_double_block = block;                                                             \
            for (uint32_t thread = 0; thread < CUDA_BLOCK; thread++) {                             \
                cuda_double_thread = thread;                                                       \
                name##_thread((const type *)args);                                                 \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
    static inline void name##_thread(const type *args)

#define DEVICE static inline
#define UNROLL

static inline uint32_t thread_index(void)
{
    return cuda_double_thread;
}

static inline uint32_t block_index(void)
{
    return cuda_double_block;
}

#endif
