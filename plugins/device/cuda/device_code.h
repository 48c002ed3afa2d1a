/* SPDX-License-Identifier: Apache-2.0 */
/* device_code.h - what a .cu file of this folder begins with. The files are C that nvcc takes too: C
 * compilers read them for the test double, after a header that stands for CUDA's built-ins.
 *
 * KERNEL(name, type) { … args->n … } defines a kernel of one argument, called `args` in its body, whose
 * threads know thread_index(), block_index() and nothing of one another: no barriers, no shared memory,
 * so that results depend on no launch. */
#ifndef CUDA_DEVICE_CODE_H
#define CUDA_DEVICE_CODE_H

#include "kernels.h"

#if defined(__CUDACC__)
#define KERNEL(name, type)                                                                         \
    static __device__ __forceinline__ void name##_thread(const type *args);                        \
    extern "C" __global__ void __launch_bounds__(CUDA_BLOCK)                                       \
        kvs_##name(const __grid_constant__ type a)                                                 \
    {                                                                                              \
        name##_thread(&a);                                                                         \
    }                                                                                              \
    static __device__ __forceinline__ void name##_thread(const type *args)
#define DEVICE static __device__ __forceinline__
#define UNROLL _Pragma("unroll")
DEVICE uint32_t thread_index(void)
{
    return threadIdx.x;
}
DEVICE uint32_t block_index(void)
{
    return blockIdx.x;
}
#endif

#include "half.h"

/* Vectors of 16 bytes, as loads and stores take them. */
#define VECTOR_BYTES 16
#define DEFINE_VECTOR(name, elem)                                                                  \
    typedef struct __attribute__((aligned(VECTOR_BYTES))) name##_vector {                          \
        elem e[VECTOR_BYTES / sizeof(elem)];                                                       \
    } name##_vector

/* The range of elements that this block has, of `n` in chunks of `chunk`. */
DEVICE int64_t chunk_end(int64_t begin, int64_t chunk, int64_t n)
{
    return n - begin < chunk ? n : begin + chunk;
}

DEVICE float widen_f16(uint16_t half)
{
#if defined(__CUDA_ARCH__)
    float value;

    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(half));
    return value;
#else
    return kvs_f16_to_f32(half);
#endif
}

DEVICE uint16_t narrow_f16(float value)
{
#if defined(__CUDA_ARCH__)
    uint16_t half;

    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(value));
    return half;
#else
    return kvs_f32_to_f16(value);
#endif
}

#endif
