/* SPDX-License-Identifier: Apache-2.0 */
/* kernels.c - which kernels this processor can run. Asked at every call: the answer lies in a few words
 * that the compiler's start-up code has filled in, and a choice kept here would be state. */
#include "kernels.h"

#if defined(__x86_64__)
/* Every processor with AVX2 has F16C. */
static int has_avx2(void)
{
    return __builtin_cpu_supports("avx2");
}

static int has_avx512(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

const kvs_kernels_t *kvs_kernels(void)
{
    return has_avx512() ? &kvs_kernels_avx512
           : has_avx2() ? &kvs_kernels_avx2
                        : &kvs_kernels_default;
}

const kvs_kernels_t *kvs_kernels_at(size_t index)
{
    const kvs_kernels_t *runnable[3];
    size_t n = 0;

    if (has_avx512()) {
        runnable[n++] = &kvs_kernels_avx512;
    }
    if (has_avx2()) {
        runnable[n++] = &kvs_kernels_avx2;
    }
    runnable[n++] = &kvs_kernels_default;
    return index < n ? runnable[index] : NULL;
}
#else
const kvs_kernels_t *kvs_kernels(void)
{
    return &kvs_kernels_default;
}

const kvs_kernels_t *kvs_kernels_at(size_t index)
{
    return index == 0 ? &kvs_kernels_default : NULL;
}
#endif
