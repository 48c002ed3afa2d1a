/* SPDX-License-Identifier: Apache-2.0 */
/* half.h - float16 and bfloat16 by arithmetic on the definition, so that tests do not repeat the
 * bit tricks of the code they check. Round to nearest, ties to even. */
#ifndef HALF_H
#define HALF_H

#include <stdint.h>

double half_to_double(uint16_t bits);
uint16_t half_from_double(double value);
double bfloat_to_double(uint16_t bits);
uint16_t bfloat_from_double(double value);

#endif
