/* SPDX-License-Identifier: Apache-2.0 */
/* kernels_default.c - the kernels for what every processor of this architecture can run. */
#define KERNELS_ISA default
#include "kernels_impl.h"
