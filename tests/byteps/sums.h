/* SPDX-License-Identifier: Apache-2.0 */
/* sums.h - arrays of any dtype, and what `local` makes of those of several ranks. */
#ifndef BYTEPS_SUMS_H
#define BYTEPS_SUMS_H

#include "job.h"

#define SUMS_MAX 8 /* arrays */

size_t sums_bytes(int dtype, int64_t n);
/* Bytes that are different for each rank, seed and place, and are neither NaN nor infinite. */
void sums_fill(void *data, int dtype, int64_t n, int rank, int seed);
/* The sum in the order of the arrays; to be freed. */
void *sums_add(kvs_store_t *local, int dtype, int64_t n, void *const *arrays, int n_arrays);
/* That of what the ranks from `first` on are filled with. */
void *sums_by_local(kvs_store_t *local, int dtype, int64_t n, int first, int n_ranks, int seed);

#endif
