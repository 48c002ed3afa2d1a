/* SPDX-License-Identifier: Apache-2.0 */
/* calls.c - see calls.h. */
#include "calls.h"

#include "store.h"

#include <math.h>
#include <stdlib.h>

float *big_array(void)
{
    static float *array;

    if (array == NULL) {
        array = calloc((size_t)BIG, sizeof(*array));
    }
    if (array == NULL) {
        exit(2);
    }
    return array;
}

static kvs_status_t call_arrays(kvs_store_t *store, kvs_verb_t verb, const kvs_key_t *keys,
                                size_t n_keys, const kvs_arrays_t *arrays, kvs_event_t **ret_event)
{
    kvs_call_t options = KVS_CALL_INIT;

    options.ret_event = ret_event;
    switch (verb) {
    case KVS_VERB_INIT:
        return kvs_store_init(store, keys, n_keys, arrays, &options);
    case KVS_VERB_PUSH:
        return kvs_store_push(store, keys, n_keys, arrays, &options);
    case KVS_VERB_PULL:
        return kvs_store_pull(store, keys, n_keys, arrays, &options);
    case KVS_VERB_PUSHPULL:
        return kvs_store_pushpull(store, keys, n_keys, arrays, NULL, &options);
    case KVS_VERB_BROADCAST:
        return kvs_store_broadcast(store, keys, n_keys, arrays, arrays, &options);
    default:
        return KVS_ERR_INTERNAL;
    }
}

kvs_status_t call_key(kvs_store_t *store, kvs_verb_t verb, kvs_key_t key, float *data,
                      int64_t n_elems, kvs_event_t **ret_event)
{
    kvs_tensor_t tensor = KT_F32(data, n_elems);
    kvs_arrays_t arrays = kvs_arrays(&tensor, 1);

    return call_arrays(store, verb, &key, 1, &arrays, ret_event);
}

kvs_status_t call_list(kvs_store_t *store, kvs_verb_t verb, const int64_t *keys, size_t n_keys,
                       float *const *data, int64_t n_elems, kvs_event_t **ret_event)
{
    kvs_tensor_t tensors[64];
    kvs_key_t names[64];
    kvs_arrays_t arrays = kvs_arrays(tensors, n_keys);

    for (size_t i = 0; i < n_keys; i++) {
        tensors[i] = kt_tensor(data[i], KVS_DTYPE_float32, &n_elems, 1);
        names[i] = kvs_key_int(keys[i]);
    }
    return call_arrays(store, verb, names, n_keys, &arrays, ret_event);
}

kvs_status_t call(kvs_store_t *store, kvs_verb_t verb, int64_t key, float *data, int64_t n_elems)
{
    return call_key(store, verb, kvs_key_int(key), data, n_elems, NULL);
}

void init_one(kvs_store_t *store, int64_t key, float value)
{
    KT_OK(call(store, KVS_VERB_INIT, key, &value, 1));
}

kvs_status_t push_one(kvs_store_t *store, int64_t key, float value)
{
    return call(store, KVS_VERB_PUSH, key, &value, 1);
}

float pull_one(kvs_store_t *store, int64_t key)
{
    float value = NAN;

    KT_OK(call(store, KVS_VERB_PULL, key, &value, 1));
    return value;
}

void init_big(kvs_store_t *store, int64_t key)
{
    KT_OK(call(store, KVS_VERB_INIT, key, big_array(), BIG));
}

kvs_event_t *start_big(kvs_store_t *store, kvs_verb_t verb, int64_t key)
{
    kvs_event_t *event = NULL;

    KT_OK(call_key(store, verb, kvs_key_int(key), big_array(), BIG, &event));
    return event;
}

kvs_status_t finish(kvs_event_t *event)
{
    kvs_status_t status = kvs_event_wait(event, KT_PATIENCE_MS);

    kvs_event_free(event);
    return status;
}

int is_done(kvs_event_t *event)
{
    int done = -1;

    KT_OK(kvs_event_test(event, &done));
    return done;
}

kvs_status_t add_updater(const kvs_key_t *key, const kvs_tensor_t *value,
                         const kvs_tensor_t *stored, void *arg)
{
    const float *from = value->data;
    float *to = stored->data;

    (void)key;
    (void)arg;
    for (int64_t i = 0; i < stored->shape[0]; i++) {
        to[i] += from[i];
    }
    return KVS_OK;
}

static void run_caller(void *arg)
{
    caller_t *caller = arg;

    caller->status = call(caller->store, caller->verb, caller->key, caller->data, caller->n_elems);
    snprintf(caller->text, sizeof(caller->text), "%s", kvs_last_error());
}

void caller_start(caller_t *caller, kvs_store_t *store, kvs_verb_t verb, int64_t key, float *data,
                  int64_t n_elems)
{
    caller->store = store;
    caller->verb = verb;
    caller->key = key;
    caller->data = data;
    caller->n_elems = n_elems;
    kt_thread_start(&caller->thread, run_caller, caller);
}

kvs_status_t caller_join(caller_t *caller)
{
    kt_thread_join(&caller->thread);
    return caller->status == KVS_OK ? KVS_OK : kvs_fail(caller->status, "%s", caller->text);
}

typedef struct sleepers {
    kvs_store_t *store;
    uint32_t n;
} sleepers_t;

static bool sleep_enough(void *arg)
{
    sleepers_t *wanted = arg;

    return atomic_load(&wanted->store->n_waiters) >= wanted->n;
}

void wait_for_sleepers(kvs_store_t *store, uint32_t n)
{
    sleepers_t wanted = {store, n};

    kt_until(sleep_enough, &wanted, "a thread to sleep on the store");
}
