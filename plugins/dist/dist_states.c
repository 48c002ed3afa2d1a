/* SPDX-License-Identifier: Apache-2.0 */
#include "dist_states.h"

#include <kvstore/kit.h>

#include <string.h>

dist_states_t dist_states_of(const kvs_opt_key_t *state, bool whole, int64_t first, int64_t n,
                             int64_t row_elems)
{
    dist_states_t states = {.n = kvs_opt_n_states(state)};

    for (size_t i = 0; i < states.n; i++) {
        kvs_opt_state_t one = kvs_opt_state_at(state, i);
        int64_t each = one.per_row && !whole ? row_elems : 1;
        int64_t begin = whole ? 0 : first / each, n_elems = whole ? one.n_elems : n / each;
        size_t elem_bytes = kvs_dtype_bytes(one.dtype);

        if (n_elems > 0) {
            states.pieces[i].data = (char *)one.data + (size_t)begin * elem_bytes;
            states.pieces[i].n_bytes = (size_t)n_elems * elem_bytes;
        }
        states.n_bytes += (int64_t)states.pieces[i].n_bytes;
    }
    return states;
}

void dist_states_copy(const dist_states_t *states, int64_t first, int64_t n, void *bytes, bool back)
{
    size_t skip = (size_t)first, left = (size_t)n;
    char *at = bytes;

    for (size_t i = 0; i < states->n && left > 0; i++) {
        size_t here = states->pieces[i].n_bytes;

        if (skip >= here) {
            skip -= here;
            continue;
        }
        here = here - skip < left ? here - skip : left;
        if (back) {
            memcpy(states->pieces[i].data + skip, at, here);
        } else {
            memcpy(at, states->pieces[i].data + skip, here);
        }
        at += here;
        left -= here;
        skip = 0;
    }
}

uint32_t dist_states_mask(const kvs_opt_t *opt, const kvs_opt_key_t *state)
{
    const kvs_optimizer_t *kind = NULL;
    uint32_t mask = 0;

    if (kvs_plugin_host->find_optimizer(kvs_opt_name(opt), &kind) != KVS_OK) {
        return 0; /* it is in use: it was found before */
    }
    for (size_t i = 0; i < kvs_opt_n_states(state); i++) {
        kvs_opt_state_t one = kvs_opt_state_at(state, i);

        for (size_t k = 0; k < kind->n_states; k++) {
            mask |= strcmp(kind->states[k].name, one.name) == 0 ? 1u << k : 0;
        }
    }
    return mask;
}

void dist_states_put_head(dist_bytes_t *bytes, const dist_states_head_t *head)
{
    dist_put_u8(bytes, head->made);
    dist_put_u32(bytes, head->mask);
    dist_put_i64(bytes, head->n_updates);
    dist_put_i64(bytes, head->n_bytes);
}

dist_states_head_t dist_states_get_head(dist_view_t *view)
{
    dist_states_head_t head;

    head.made = dist_get_u8(view) != 0;
    head.mask = dist_get_u32(view);
    head.n_updates = dist_get_i64(view);
    head.n_bytes = dist_get_i64(view);
    view->failed |= head.n_updates < 0 || head.n_bytes < 0;
    return head;
}
