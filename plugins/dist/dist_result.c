/* SPDX-License-Identifier: Apache-2.0 */
/* dist_result.c - what came from servers is written to the outs of its operation: at once, or, where arrays of
 * the call share memory, from a copy when all of it is there. */
#include "dist_worker.h"

#include <stdlib.h>
#include <string.h>

static const kvs_device_t host_device = {KVS_DEVICE_CPU, 0};

static void write_out(const kvs_tensor_t *out, int dtype, int64_t first, int64_t n,
                      const void *data)
{
    int out_dtype = kvs_dtype_index(out->dtype);
    void *to = (char *)out->data + (size_t)first * kvs_dtype_bytes(out_dtype);

    if (out_dtype == dtype &&
        kvs_exceeds_cache((uint64_t)kvs_tensor_n_elems(out) * kvs_dtype_bytes(dtype))) {
        kvs_sum(dtype, n, &data, 1, &to, 1, 1); /* a copy past the caches */
    } else {
        kvs_cast(n, dtype, data, out_dtype, to);
    }
}

void dist_group_write(const dist_group_t *group, int64_t first, int64_t n, const void *data)
{
    int dtype = kvs_dtype_index(group->pub->key->dtype);

    if (n == 0) {
        return;
    }
    if (group->result != NULL) {
        size_t elem_bytes = kvs_dtype_bytes(dtype);

        memcpy(group->result + (size_t)first * elem_bytes, data, (size_t)n * elem_bytes);
        return;
    }
    for (size_t i = 0; i < group->pub->n_outs; i++) {
        write_out(&group->pub->outs[i], dtype, first, n, data);
    }
    kvs_devhost_wrote(group->op->pub, group->pub, first, n);
}

typedef struct place {
    size_t index; /* among the outs of the call */
    const dist_group_t *group;
    const kvs_tensor_t *out;
} place_t;

static int by_index(const void *left, const void *right)
{
    size_t a = ((const place_t *)left)->index, b = ((const place_t *)right)->index;

    return (a > b) - (a < b);
}

void dist_op_write_shared_outs(dist_op_t *op)
{
    size_t n = 0;

    for (size_t i = 0; i < op->pub->n_groups; i++) {
        n += op->pub->groups[i].n_outs;
    }
    place_t *places = malloc((n + 1) * sizeof(*places));

    if (places == NULL) {
        op->status = KVS_ERR_NO_MEMORY;
        return;
    }
    n = 0;
    for (size_t i = 0; i < op->pub->n_groups; i++) {
        const kvs_group_t *pub = &op->pub->groups[i];

        for (size_t j = 0; j < pub->n_outs; j++) {
            places[n++] = (place_t){pub->out_index[j], pub->state, &pub->outs[j]};
        }
    }
    qsort(places, n, sizeof(*places), by_index);
    for (size_t i = 0; i < n; i++) {
        const kvs_key_entry_t *key = places[i].group->pub->key;

        if (places[i].group->rows != NULL) {
            dist_sparse_write_out(places[i].group,
                                  (size_t)(places[i].out - places[i].group->pub->outs));
        } else if (key->n_elems > 0) {
            write_out(places[i].out, kvs_dtype_index(key->dtype), 0, key->n_elems,
                      places[i].group->result);
        }
    }
    free(places);
}

void dist_op_release_results(dist_op_t *op)
{
    for (size_t i = 0; i < op->pub->n_groups; i++) {
        dist_group_t *group = op->pub->groups[i].state;

        kvs_cpu_provider()->free(host_device, group->result, group->n_result_bytes);
        group->result = NULL;
    }
}

void dist_op_write_row_ids(const dist_op_t *op)
{
    for (size_t i = 0; i < op->pub->n_groups; i++) {
        const dist_group_t *group = op->pub->groups[i].state;

        for (size_t j = 0; j < group->pub->n_outs; j++) {
            dist_sparse_write_out(group, j);
        }
    }
}
