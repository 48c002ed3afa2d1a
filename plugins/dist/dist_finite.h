/* SPDX-License-Identifier: Apache-2.0 */
/* dist_finite.h - gradients with NaN or infinity: what a store does about them. */
#ifndef DIST_FINITE_H
#define DIST_FINITE_H

#include <kvstore/plugin.h>

#include <stdbool.h>

typedef enum dist_nonfinite {
    DIST_NONFINITE_PROPAGATE, /* they go into the weight like any number */
    DIST_NONFINITE_SKIP,      /* the key's round changes nothing */
    DIST_NONFINITE_ERROR      /* the round fails */
} dist_nonfinite_t;

/* From the option's text. ERR_ARGUMENT: another word. */
kvs_status_t dist_nonfinite_of(const char *text, dist_nonfinite_t *ret_policy);
/* Whether all of `n` elements are finite; integers are. */
bool dist_is_finite(int dtype, int64_t n, const void *data);

#endif
