/* SPDX-License-Identifier: Apache-2.0 */
/* exact.c - see exact.h. */
#include "exact.h"

#include "pretend.h"

#include <stdlib.h>

void exact_open(exact_pair_t *pair, const char *backend)
{
    KT_OK(kvs_store_create(backend, NULL, 0, &pair->device));
    KT_OK(kvs_store_create("local", NULL, 0, &pair->local));
}

void exact_close(exact_pair_t *pair)
{
    KT_OK(kvs_store_close(pair->device));
    KT_OK(kvs_store_close(pair->local));
}

/* ---- Arrays of small integers -------------------------------------------------------------------- */

static uint16_t half_of(int value) /* 0 to 7 */
{
    static const uint16_t bits[] = {0, 0x3c00, 0x4000, 0x4200, 0x4400, 0x4500, 0x4600, 0x4700};

    return bits[value];
}

static uint16_t brain_of(int value)
{
    float wide = (float)value;
    uint32_t bits;

    memcpy(&bits, &wide, sizeof(bits));
    return (uint16_t)(bits >> 16);
}

static void fill(int dtype, int64_t n, void *bytes)
{
    for (int64_t i = 0; i < n; i++) {
        int value = (int)(pretend_random() % 8);

        switch (dtype) {
        case KVS_DTYPE_float32:
            ((float *)bytes)[i] = (float)value;
            break;
        case KVS_DTYPE_float64:
            ((double *)bytes)[i] = value;
            break;
        case KVS_DTYPE_float16:
            ((uint16_t *)bytes)[i] = half_of(value);
            break;
        case KVS_DTYPE_bfloat16:
            ((uint16_t *)bytes)[i] = brain_of(value);
            break;
        case KVS_DTYPE_int32:
            ((int32_t *)bytes)[i] = value;
            break;
        case KVS_DTYPE_int64:
            ((int64_t *)bytes)[i] = value;
            break;
        default:
            ((uint8_t *)bytes)[i] = (uint8_t)value;
        }
    }
}

void exact_make(exact_arrays_t *arrays, int n, int dtype, const int64_t *n_elems)
{
    void *bytes = malloc((size_t)*n_elems * 8 + 8);

    arrays->n = n;
    for (int i = 0; i < n; i++) {
        fill(dtype, *n_elems, bytes);
        arrays->on_device[i] = pretend_array(i % pretend_n_devices(), dtype, n_elems, bytes, 0);
        arrays->on_host[i] = pretend_array(-1, dtype, n_elems, bytes, 0);
    }
    free(bytes);
}

void exact_free(exact_arrays_t *arrays)
{
    for (int i = 0; i < arrays->n; i++) {
        pretend_free(&arrays->on_device[i], 0);
        pretend_free(&arrays->on_host[i], 0);
    }
}

int exact_n_different(const exact_arrays_t *arrays)
{
    size_t n_bytes =
        (size_t)arrays->on_host[0].shape[0] * (size_t)(arrays->on_host[0].dtype.bits / 8);
    char *got = malloc(n_bytes + 1);
    int n = 0;

    for (int i = 0; i < arrays->n; i++) {
        pretend_get(&arrays->on_device[i], got);
        n += memcmp(got, arrays->on_host[i].data, n_bytes) != 0;
    }
    free(got);
    return n;
}

/* ---- The same with both -------------------------------------------------------------------------- */

void exact_init(const exact_pair_t *pair, int64_t number, const exact_arrays_t *value)
{
    kvs_key_t key = kvs_key_int(number);
    kvs_arrays_t device = pretend_list(value->on_device, 1), host = pretend_list(value->on_host, 1);

    KT_OK(kvs_store_init(pair->device, &key, 1, &device, NULL));
    KT_OK(kvs_store_init(pair->local, &key, 1, &host, NULL));
}

void exact_exchange(const exact_pair_t *pair, int64_t number, const exact_arrays_t *values,
                    const exact_arrays_t *outs)
{
    kvs_key_t key = kvs_key_int(number);
    kvs_arrays_t device, host, device_outs, host_outs;

    if (values != NULL) {
        device = pretend_list(values->on_device, (size_t)values->n);
        host = pretend_list(values->on_host, (size_t)values->n);
    }
    if (outs != NULL) {
        device_outs = pretend_list(outs->on_device, (size_t)outs->n);
        host_outs = pretend_list(outs->on_host, (size_t)outs->n);
    }
    if (values == NULL) {
        KT_OK(kvs_store_pull(pair->device, &key, 1, &device_outs, NULL));
        KT_OK(kvs_store_pull(pair->local, &key, 1, &host_outs, NULL));
    } else if (outs == NULL) {
        KT_OK(kvs_store_push(pair->device, &key, 1, &device, NULL));
        KT_OK(kvs_store_push(pair->local, &key, 1, &host, NULL));
    } else {
        KT_OK(kvs_store_pushpull(pair->device, &key, 1, &device,
                                 outs != values ? &device_outs : NULL, NULL));
        KT_OK(kvs_store_pushpull(pair->local, &key, 1, &host, outs != values ? &host_outs : NULL,
                                 NULL));
    }
}

void exact_try_sums(const char *backend, int dtype, int64_t n_elems, int n_values)
{
    exact_pair_t pair;
    exact_arrays_t weight, values, outs;

    exact_open(&pair, backend);
    exact_make(&weight, 1, dtype, &n_elems);
    exact_make(&values, n_values, dtype, &n_elems);
    exact_make(&outs, n_values + 1, dtype, &n_elems);
    exact_init(&pair, 7, &weight);
    exact_exchange(&pair, 7, NULL, &outs);
    KT_INT(exact_n_different(&outs), 0);
    exact_exchange(&pair, 7, &values, &outs);
    KT_INT(exact_n_different(&outs), 0);
    exact_exchange(&pair, 7, &values, NULL);
    exact_exchange(&pair, 7, NULL, &weight);
    KT_INT(exact_n_different(&weight), 0);
    exact_exchange(&pair, 7, NULL, &outs);
    KT_INT(exact_n_different(&outs), 0);
    exact_exchange(&pair, 7, &values, &values); /* in place */
    KT_INT(exact_n_different(&values), 0);
    exact_free(&weight);
    exact_free(&values);
    exact_free(&outs);
    exact_close(&pair);
}
