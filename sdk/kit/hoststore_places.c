/* SPDX-License-Identifier: Apache-2.0 */
/* hoststore_places.c - see hoststore_places.h. */
#include "hoststore_places.h"

#include <stdlib.h>

static int by_index(const void *left, const void *right)
{
    size_t a = ((const kvs_place_t *)left)->index, b = ((const kvs_place_t *)right)->index;

    return (a > b) - (a < b);
}

kvs_status_t kvs_places_list(const kvs_op_t *op, kvs_place_t **ret_places, size_t *ret_n)
{
    size_t n = 0;

    for (size_t i = 0; i < op->n_groups; i++) {
        n += op->groups[i].n_outs;
    }
    kvs_place_t *places = malloc((n + 1) * sizeof(*places));

    if (places == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for a list of %zu outs", n);
    }
    n = 0;
    for (size_t i = 0; i < op->n_groups; i++) {
        for (size_t j = 0; j < op->groups[i].n_outs; j++) {
            places[n++] = (kvs_place_t){op->groups[i].out_index[j], i, j};
        }
    }
    qsort(places, n, sizeof(*places), by_index);
    *ret_places = places;
    *ret_n = n;
    return KVS_OK;
}
