/* SPDX-License-Identifier: Apache-2.0 */
/* kernels_avx2.c - the kernels for x86-64 with AVX2 and F16C. */
#if defined(__AVX2__) && defined(__F16C__)
#define KERNELS_ISA avx2
#include "kernels_impl.h"
#else
typedef int kvs_no_avx2_here; /* another architecture: CMakeLists.txt gives no flags */
#endif
