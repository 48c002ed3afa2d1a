/* SPDX-License-Identifier: Apache-2.0 */
#include "crew.h"

#include <stdlib.h>

#define FINISH_MS 20000

crew_t crew_open(const kvs_option_t *options, size_t n)
{
    crew_t crew = {NULL, 0, 0};

    if (kvs_store_create("horovod", options, n, &crew.store) != KVS_OK) {
        fprintf(stderr, "no store: %s\n", kvs_last_error());
        exit(1);
    }
    KT_OK(kvs_store_rank(crew.store, &crew.rank));
    KT_OK(kvs_store_num_workers(crew.store, &crew.n));
    return crew;
}

void crew_close(crew_t *crew)
{
    KT_OK(kvs_store_close(crew->store));
    crew->store = NULL;
}

void crew_meet(const crew_t *crew)
{
    KT_OK(kvs_store_barrier(crew->store));
}

static kvs_status_t exchange(const crew_t *crew, int is_broadcast, kvs_key_t key, int dtype,
                             int64_t n, void *value, void *out, kvs_event_t **ret_event)
{
    kvs_tensor_t in = kt_tensor(value, dtype, &n, 1), to = kt_tensor(out, dtype, &n, 1);
    kvs_arrays_t values = kvs_arrays(&in, 1), outs = kvs_arrays(&to, 1);
    kvs_call_t call = KVS_CALL_INIT;

    call.ret_event = ret_event;
    return is_broadcast ? kvs_store_broadcast(crew->store, &key, 1, &values, &outs, &call)
                        : kvs_store_pushpull(crew->store, &key, 1, &values,
                                             out == NULL ? NULL : &outs, &call);
}

kvs_status_t crew_sum(const crew_t *crew, kvs_key_t key, int dtype, int64_t n, void *value,
                      void *out, kvs_event_t **ret_event)
{
    return exchange(crew, 0, key, dtype, n, value, out, ret_event);
}

kvs_status_t crew_broadcast(const crew_t *crew, kvs_key_t key, int dtype, int64_t n, void *value,
                            void *out, kvs_event_t **ret_event)
{
    return exchange(crew, 1, key, dtype, n, value, out, ret_event);
}

kvs_status_t crew_sum1(const crew_t *crew, kvs_key_t key, float value, float *ret_sum)
{
    return crew_sum(crew, key, KVS_DTYPE_float32, 1, &value, ret_sum, NULL);
}

kvs_status_t crew_finish(kvs_event_t *event)
{
    kvs_status_t status = kvs_event_wait(event, FINISH_MS);

    kvs_event_free(event);
    return status;
}

void crew_works(const crew_t *crew, kvs_key_t key)
{
    float sum = 0;

    KT_OK(crew_sum1(crew, key, (float)(crew->rank + 1), &sum));
    KT_REAL(sum, crew->n * (crew->n + 1) / 2);
}
