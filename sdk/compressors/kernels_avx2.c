/* SPDX-License-Identifier: Apache-2.0 */
/* kernels_avx2.c - the kernels for x86-64 with AVX2. */
#if defined(__AVX2__)
#define KERNELS_ISA avx2
#include "kernels_impl.h"
#else
typedef int compressors_no_avx2_here; /* another architecture: CMakeLists.txt gives no flags */
#endif
