/* SPDX-License-Identifier: Apache-2.0 */
/* residuals.h - the residuals of a key from the inside: those of the last push, and room for those of
 * the next, so that a push that fails has changed nothing. */
#ifndef KVS_KIT_RESIDUALS_H
#define KVS_KIT_RESIDUALS_H

#include <kvstore/compression.h>

/* Of one place in the list of values. Arrays without elements are NULL. */
typedef struct kvs_residual {
    void *data;   /* float32 */
    void *next;   /* NULL until the first push */
    void *packed; /* of the last push; NULL until then */
    size_t packed_bytes;
} kvs_residual_t;

/* Have residuals for the first n_places at least; new ones are zeros. ERR_NO_MEMORY: perhaps fewer are
 * new. */
kvs_status_t kvs_residuals_reserve(kvs_residuals_t *residuals, int64_t n_elems, size_t n_places);
/* Have `next` and `packed` for a place. ERR_NO_MEMORY: the residual is as it was. */
kvs_status_t kvs_residual_make_room(kvs_residuals_t *residuals, size_t place, size_t packed_bytes);

#endif
