/* SPDX-License-Identifier: Apache-2.0 */
/* real32.h - what follows is for float32: REAL, and NAME(x) for x_f32.
 *
 * Arithmetic is written once, in headers that are included after real32.h and again after real64.h. They
 * hold functions of one element, marked ELEM, that a C compiler and nvcc both take. */
#undef REAL
#undef NAME
#undef SQRT
#undef ABS
#define REAL    float
#define NAME(x) x##_f32
#define SQRT(x) sqrtf(x)
#define ABS(x)  fabsf(x)

#ifndef KVS_OPTIMIZERS_REAL32
#define KVS_OPTIMIZERS_REAL32
#include "grad.h"
#endif
