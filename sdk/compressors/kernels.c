/* SPDX-License-Identifier: Apache-2.0 */
/* kernels.c - which kernels this processor can run. Asked at every call: the answer lies in a few words
 * that the compiler's start-up code has filled in. */
#include "kernels.h"

const compressors_kernels_t *compressors_kernels_at(size_t index)
{
    const compressors_kernels_t *runnable[3];
    size_t n = 0;

#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f")) {
        runnable[n++] = &compressors_kernels_avx512;
    }
    if (__builtin_cpu_supports("avx2")) {
        runnable[n++] = &compressors_kernels_avx2;
    }
#endif
    runnable[n++] = &compressors_kernels_default;
    return index < n ? runnable[index] : NULL;
}

const compressors_kernels_t *compressors_kernels(void)
{
    return compressors_kernels_at(0);
}
