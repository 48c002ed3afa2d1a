/* SPDX-License-Identifier: Apache-2.0 */
#include "hvd_held.h"

#include <stdlib.h>

typedef struct place {
    size_t index; /* among the outs of the call */
    const kvs_tensor_t *out, *held;
} place_t;

static const kvs_device_t host_device = {KVS_DEVICE_CPU, 0};

static size_t n_bytes_of(const kvs_tensor_t *tensor)
{
    return (size_t)kvs_tensor_n_elems(tensor) * (tensor->dtype.bits / 8);
}

kvs_status_t hvd_held_make(const kvs_group_t *group, kvs_tensor_t *ret_held)
{
    kvs_tensor_t held = group->values[0];
    const void **sources = malloc(group->n_values * sizeof(*sources));
    kvs_status_t status =
        sources == NULL ? kvs_fail(KVS_ERR_NO_MEMORY, "no memory for a sum")
                        : kvs_cpu_provider()->alloc(host_device, n_bytes_of(&held), &held.data);

    for (size_t i = 0; status == KVS_OK && i < group->n_values; i++) {
        sources[i] = group->values[i].data;
    }
    if (status == KVS_OK && held.data != NULL) {
        status = kvs_cpu_provider()->sum(kvs_dtype_index(held.dtype), kvs_tensor_n_elems(&held),
                                         sources, group->n_values, &held.data, 1);
    }
    free(sources);
    if (status == KVS_OK) {
        *ret_held = held;
    }
    return status;
}

void hvd_held_release(kvs_tensor_t *held)
{
    kvs_cpu_provider()->free(host_device, held->data, held->data == NULL ? 0 : n_bytes_of(held));
    held->data = NULL;
}

static int by_index(const void *a, const void *b)
{
    const place_t *left = a, *right = b;

    return (left->index > right->index) - (left->index < right->index);
}

kvs_status_t hvd_held_write(const kvs_op_t *op, const kvs_tensor_t *held)
{
    place_t *places;
    size_t n = 0;

    for (size_t g = 0; g < op->n_groups; g++) {
        n += op->groups[g].n_outs;
    }
    places = malloc((n + 1) * sizeof(*places));
    if (places == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory to put %zu outs in order", n);
    }
    n = 0;
    for (size_t g = 0; g < op->n_groups; g++) {
        for (size_t i = 0; held[g].rows == NULL && i < op->groups[g].n_outs; i++) {
            places[n++] = (place_t){op->groups[g].out_index[i], &op->groups[g].outs[i], &held[g]};
        }
    }
    qsort(places, n, sizeof(*places), by_index);
    for (size_t i = 0; i < n; i++) {
        kvs_cast(kvs_tensor_n_elems(places[i].out), kvs_dtype_index(places[i].held->dtype),
                 places[i].held->data, kvs_dtype_index(places[i].out->dtype), places[i].out->data);
    }
    free(places);
    return KVS_OK;
}
