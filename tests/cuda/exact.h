/* SPDX-License-Identifier: Apache-2.0 */
/* exact.h - arrays of small integers, whose sums are exact in every order, on pretend devices and on the
 * host: what a store of devices gives is what `local` gives, whoever adds and in which order. */
#ifndef EXACT_H
#define EXACT_H

#include <kvstore/kvstore.h>

enum { EXACT_MAX_ARRAYS = 24 };

typedef struct exact_arrays {
    kvs_tensor_t on_device[EXACT_MAX_ARRAYS], on_host[EXACT_MAX_ARRAYS];
    int n;
} exact_arrays_t;

typedef struct exact_pair {
    kvs_store_t *device, *local;
} exact_pair_t;

void exact_open(exact_pair_t *pair, const char *backend);
void exact_close(exact_pair_t *pair);

/* n arrays of random numbers, dealt out over the devices; `n_elems` is kept as their shape. */
void exact_make(exact_arrays_t *arrays, int n, int dtype, const int64_t *n_elems);
void exact_free(exact_arrays_t *arrays);
/* How many of the arrays are not what those on the host are. */
int exact_n_different(const exact_arrays_t *arrays);

/* The same with both stores: init by the first array; pull (no values), push (no outs) or pushpull, in place
 * where both are the same. */
void exact_init(const exact_pair_t *pair, int64_t number, const exact_arrays_t *value);
void exact_exchange(const exact_pair_t *pair, int64_t number, const exact_arrays_t *values,
                    const exact_arrays_t *outs);

/* All of these with n_values arrays, compared. */
void exact_try_sums(const char *backend, int dtype, int64_t n_elems, int n_values);

#endif
