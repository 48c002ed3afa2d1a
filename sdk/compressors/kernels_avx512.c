/* SPDX-License-Identifier: Apache-2.0 */
/* kernels_avx512.c - the kernels for x86-64 with AVX-512 F. */
#if defined(__AVX512F__)
#define KERNELS_ISA avx512
#include "kernels_impl.h"
#else
typedef int compressors_no_avx512_here; /* another architecture: CMakeLists.txt gives no flags */
#endif
