/* SPDX-License-Identifier: Apache-2.0 */
/* ar_reduce.h - what is made of the same elements of several workers' arrays. Any thread; the bits
 * depend on nothing but the sources and their order. */
#ifndef AR_REDUCE_H
#define AR_REDUCE_H

#include <kvstore/allreduce.h>
#include <kvstore/kit.h>

/* Reduce n_src >= 1 arrays of `n` elements, in order, to `dst`, which may be one of them. `reduce`:
 * KVS_REDUCE_…; an average divides by n_src. Half types are worked on in float32 and rounded once,
 * integer sums wrap, integer averages are those sums rounded down. */
void ar_reduce(int reduce, int dtype, int64_t n, const void *const *src, size_t n_src, void *dst);
/* Divide `n` sums by `n_parts`, in place: what an average is of parts that were summed elsewhere. */
void ar_divide(int dtype, int64_t n, size_t n_parts, void *sums);

#endif
