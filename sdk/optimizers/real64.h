/* SPDX-License-Identifier: Apache-2.0 */
/* real64.h - what follows is for float64: REAL, and NAME(x) for x_f64. See real32.h. */
#undef REAL
#undef NAME
#undef SQRT
#undef ABS
#define REAL    double
#define NAME(x) x##_f64
#define SQRT(x) sqrt(x)
#define ABS(x)  fabs(x)

#ifndef KVS_OPTIMIZERS_REAL64
#define KVS_OPTIMIZERS_REAL64
#include "grad.h"
#endif
