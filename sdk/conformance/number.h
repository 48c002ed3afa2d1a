/* SPDX-License-Identifier: Apache-2.0 */
/* number.h - one element of any of the eight dtypes, to and from a double, and to and from int64.
 *
 * Plain and slow on purpose: what a backend gives is compared with this. */
#ifndef CF_NUMBER_H
#define CF_NUMBER_H

#include <kvstore/kvstore.h>

#include <stddef.h>

size_t cf_dtype_bytes(int dtype);
/* Write `value`, rounded to nearest even, in the dtype's bytes; 8 bytes are enough. */
void cf_encode(int dtype, double value, void *bytes);
double cf_decode(int dtype, const void *bytes);
/* For the integer dtypes; the low bits are kept. */
void cf_encode_int(int dtype, int64_t value, void *bytes);
int64_t cf_decode_int(int dtype, const void *bytes);

#endif
