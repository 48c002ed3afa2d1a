/* SPDX-License-Identifier: Apache-2.0 */
/* kernels_avx512.c - the kernels for x86-64 with AVX-512 F, BW, DQ and VL. */
#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__)
#define KERNELS_ISA avx512
#include "kernels_impl.h"
#else
typedef int kvs_no_avx512_here; /* another architecture: CMakeLists.txt gives no flags */
#endif
