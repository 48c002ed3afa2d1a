/* SPDX-License-Identifier: Apache-2.0 */
/* dist_states.h - the states that an optimizer keeps of a shard, as a stream of bytes: the shard's pieces
 * of all states, in the optimizer's order, one after the other. A run of it travels with a head that says
 * what the whole is. */
#ifndef DIST_STATES_H
#define DIST_STATES_H

#include "dist_bytes.h"

#include <kvstore/optimizer.h>

#include <stdbool.h>

#define DIST_STATES_RUN_BYTES (256 << 10) /* the longest run in one message */

/* Where a shard's states lie. */
typedef struct dist_states {
    struct {
        char *data;
        size_t n_bytes;
    } pieces[KVS_OPTIMIZER_MAX_STATES + 1]; /* and the master weight */
    size_t n;
    int64_t n_bytes; /* of all */
} dist_states_t;

/* Of elements [first, first + n) of a key with rows of `row_elems`; `whole`: of the whole key. */
dist_states_t dist_states_of(const kvs_opt_key_t *state, bool whole, int64_t first, int64_t n,
                             int64_t row_elems);
/* Copy `n` bytes from `first` on, to `bytes` or, with `back`, from there. */
void dist_states_copy(const dist_states_t *states, int64_t first, int64_t n, void *bytes,
                      bool back);
/* The mask of the states that there are, as kvs_opt_begin_for takes it. */
uint32_t dist_states_mask(const kvs_opt_t *opt, const kvs_opt_key_t *state);

typedef struct dist_states_head {
    bool made; /* there are states, be they of no elements */
    uint32_t mask;
    int64_t n_updates;
    int64_t n_bytes; /* of the whole stream */
} dist_states_head_t;

void dist_states_put_head(dist_bytes_t *bytes, const dist_states_head_t *head);
dist_states_head_t dist_states_get_head(dist_view_t *view);

#endif
