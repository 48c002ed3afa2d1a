/* SPDX-License-Identifier: Apache-2.0 */
/* Running out of memory in the calls on a store, at each allocation in turn: KVS_ERR_NO_MEMORY, each
 * key as it was before or as it is after, nothing leaked, and the next call succeeds. */
#include "kt.h"
#include "fail_alloc.h"
#include "plugins.h"

#include <stdlib.h>

enum { N_KEYS = 40, N_ELEMS = 3 };

typedef struct rig {
    kvs_store_t *store;
    kvs_key_t keys[N_KEYS];
    float values[N_KEYS][N_ELEMS], outs[N_KEYS][N_ELEMS];
    kvs_tensor_t value_tensors[N_KEYS], out_tensors[N_KEYS];
    kvs_arrays_t value_list, out_list;
    float before, after; /* what a key may hold when an attempt failed */
    int64_t next_key;
} rig_t;

static const int64_t shape[] = {N_ELEMS};

static void fill(rig_t *rig, float value)
{
    for (size_t i = 0; i < N_KEYS; i++) {
        for (size_t e = 0; e < N_ELEMS; e++) {
            rig->values[i][e] = value;
        }
    }
}

static void open_rig(rig_t *rig)
{
    memory_register_plugins();
    memset(rig, 0, sizeof(*rig));
    KT_OK(kvs_store_create("local", NULL, 0, &rig->store));
    for (size_t i = 0; i < N_KEYS; i++) {
        rig->keys[i] = kvs_key_int((int64_t)i);
        rig->value_tensors[i] = kt_tensor(rig->values[i], KVS_DTYPE_float32, shape, 1);
        rig->out_tensors[i] = kt_tensor(rig->outs[i], KVS_DTYPE_float32, shape, 1);
    }
    rig->value_list = kvs_arrays(rig->value_tensors, N_KEYS);
    rig->out_list = kvs_arrays(rig->out_tensors, N_KEYS);
    fill(rig, 1);
    KT_OK(kvs_store_init(rig->store, rig->keys, N_KEYS, &rig->value_list, NULL));
    rig->before = rig->after = 1;
    rig->next_key = 1000;
}

static void close_rig(rig_t *rig)
{
    KT_OK(kvs_store_close(rig->store));
}

/* Every key holds one of the two values, in all its elements. */
static void each_key_is_whole(void *arg)
{
    rig_t *rig = arg;

    KT_OK(kvs_store_pull(rig->store, rig->keys, N_KEYS, &rig->out_list, NULL));
    for (size_t i = 0; i < N_KEYS; i++) {
        float first = rig->outs[i][0];

        KT_TRUE(first == rig->before || first == rig->after);
        for (size_t e = 1; e < N_ELEMS; e++) {
            KT_REAL(rig->outs[i][e], first);
        }
    }
}

static kvs_status_t create_and_close(void *arg)
{
    kvs_option_t option = {"timeout", "5"};
    kvs_store_t *store;
    kvs_status_t status = kvs_store_create("local", &option, 1, &store);

    (void)arg;
    return status != KVS_OK ? status : kvs_store_close(store);
}

static void creating_a_store(void)
{
    memory_register_plugins();
    KT_TRUE(kt_fail_each_alloc(create_and_close, NULL, NULL) > 5);
}

/* Three keys nobody had; where it fails each of them can be initialised later. */
static kvs_status_t init_new_keys(void *arg)
{
    rig_t *rig = arg;
    kvs_key_t keys[3];
    kvs_status_t status;

    for (size_t i = 0; i < 3; i++) {
        keys[i] = kvs_key_int(rig->next_key++);
    }
    status =
        kvs_store_init(rig->store, keys, 3, &(kvs_arrays_t){rig->value_tensors, 3, NULL, 0}, NULL);
    kt_fail_alloc(-1);
    for (size_t i = 0; i < 3 && status != KVS_OK; i++) {
        kvs_arrays_t one = kvs_arrays(rig->value_tensors, 1), out = kvs_arrays(rig->out_tensors, 1);
        kvs_status_t pulled = kvs_store_pull(rig->store, &keys[i], 1, &out, NULL);

        KT_TRUE(pulled == KVS_OK || pulled == KVS_ERR_NOT_FOUND);
        if (pulled == KVS_ERR_NOT_FOUND) {
            KT_OK(kvs_store_init(rig->store, &keys[i], 1, &one, NULL));
            KT_OK(kvs_store_pull(rig->store, &keys[i], 1, &out, NULL));
        }
        KT_REAL(rig->outs[0][N_ELEMS - 1], 1);
    }
    return status;
}

static void initialising_keys(void)
{
    rig_t rig;

    open_rig(&rig);
    /* kt_fail_alloc(-1) inside hides whether a failure was met: count by hand. */
    for (long n = 0; n < 60; n++) {
        kvs_status_t status;

        kt_fail_alloc(n);
        status = init_new_keys(&rig);
        KT_TRUE(status == KVS_OK || status == KVS_ERR_NO_MEMORY);
    }
    KT_OK(init_new_keys(&rig));
    close_rig(&rig);
}

static kvs_status_t push_and_pull_lists(void *arg)
{
    rig_t *rig = arg;
    kvs_status_t status;

    fill(rig, rig->after);
    status = kvs_store_push(rig->store, rig->keys, N_KEYS, &rig->value_list, NULL);
    return status != KVS_OK ? status
                            : kvs_store_pull(rig->store, rig->keys, N_KEYS, &rig->out_list, NULL);
}

static void pushing_and_pulling_lists(void)
{
    rig_t rig;

    open_rig(&rig);
    rig.after = 2;
    KT_TRUE(kt_fail_each_alloc(push_and_pull_lists, each_key_is_whole, &rig) >= 2);
    rig.before = rig.after;
    each_key_is_whole(&rig);
    close_rig(&rig);
}

/* Every key twice, and all outs in one place: lists are regrouped, outs numbered. */
static kvs_status_t pushpull_repeats_into_one_out(void *arg)
{
    rig_t *rig = arg;
    kvs_key_t keys[2 * N_KEYS];
    kvs_tensor_t values[2 * N_KEYS], outs[2 * N_KEYS];
    kvs_arrays_t value_list = kvs_arrays(values, 2 * N_KEYS),
                 out_list = kvs_arrays(outs, 2 * N_KEYS);

    fill(rig, rig->after / 2);
    for (size_t i = 0; i < 2 * N_KEYS; i++) {
        keys[i] = rig->keys[i / 2];
        values[i] = rig->value_tensors[i / 2];
        outs[i] = rig->out_tensors[0];
    }
    return kvs_store_pushpull(rig->store, keys, 2 * N_KEYS, &value_list, &out_list, NULL);
}

static void exchanging_repeated_keys(void)
{
    rig_t rig;

    open_rig(&rig);
    rig.after = 6;
    KT_TRUE(kt_fail_each_alloc(pushpull_repeats_into_one_out, each_key_is_whole, &rig) >= 3);
    close_rig(&rig);
}

static kvs_status_t push_with_event(void *arg)
{
    rig_t *rig = arg;
    kvs_event_t *event;
    kvs_call_t call = KVS_CALL_INIT;
    kvs_status_t status;

    call.ret_event = &event;
    fill(rig, rig->after);
    status = kvs_store_push(rig->store, rig->keys, N_KEYS, &rig->value_list, &call);
    if (status == KVS_OK) {
        status = kvs_event_wait(event, 20000);
        kvs_event_free(event);
    }
    return status;
}

static void operations_with_events(void)
{
    rig_t rig;

    open_rig(&rig);
    rig.after = 4;
    KT_TRUE(kt_fail_each_alloc(push_with_event, each_key_is_whole, &rig) >= 1);
    close_rig(&rig);
}

static kvs_status_t add(const kvs_key_t *key, const kvs_tensor_t *value, const kvs_tensor_t *stored,
                        void *arg)
{
    (void)key;
    (void)arg;
    for (size_t e = 0; e < N_ELEMS; e++) {
        ((float *)stored->data)[e] = ((const float *)value->data)[e] + 1;
    }
    return KVS_OK;
}

static kvs_status_t push_pairs_through_updater(void *arg)
{
    rig_t *rig = arg;
    size_t two[N_KEYS];
    kvs_tensor_t values[2 * N_KEYS];
    kvs_arrays_t list = {values, 2 * N_KEYS, two, N_KEYS};
    kvs_status_t status = kvs_store_set_updater(rig->store, add, NULL);

    fill(rig, 3);
    for (size_t i = 0; i < 2 * N_KEYS; i++) {
        values[i] = rig->value_tensors[i / 2];
        two[i / 2] = 2;
    }
    return status != KVS_OK ? status : kvs_store_push(rig->store, rig->keys, N_KEYS, &list, NULL);
}

static void updaters(void)
{
    rig_t rig;

    open_rig(&rig);
    rig.after = 7;
    KT_TRUE(kt_fail_each_alloc(push_pairs_through_updater, each_key_is_whole, &rig) > N_KEYS);
    close_rig(&rig);
}

/* The first push makes each key's state. sgd with momentum from w = 1, gradient 1, rate 0.5. */
static kvs_status_t set_sgd_and_push(void *arg)
{
    rig_t *rig = arg;
    const kvs_param_t params[] = {
        {.name = "learning_rate", .type = KVS_PARAM_FLOAT, .value.real = 0.5},
        {.name = "momentum", .type = KVS_PARAM_FLOAT, .value.real = 0.9}};
    const kvs_multiplier_t mult = {kvs_key_int(0), 1.0};
    kvs_optimizer_spec_t spec = KVS_OPTIMIZER_INIT;
    kvs_status_t status;

    spec.name = "sgd";
    spec.params = params;
    spec.n_params = 2;
    spec.lr_mult = &mult;
    spec.n_lr_mult = 1;
    fill(rig, 1);
    status = kvs_store_set_updater(rig->store, NULL, NULL);
    if (status == KVS_OK) {
        status = kvs_store_push(rig->store, rig->keys, N_KEYS, &rig->value_list, NULL); /* w = 1 */
    }
    if (status == KVS_OK) {
        status = kvs_store_set_optimizer(rig->store, &spec);
    }
    return status != KVS_OK ? status
                            : kvs_store_push(rig->store, rig->keys, N_KEYS, &rig->value_list, NULL);
}

static void optimizers(void)
{
    rig_t rig;

    open_rig(&rig);
    rig.after = 0.5f;
    KT_TRUE(kt_fail_each_alloc(set_sgd_and_push, NULL, &rig) > N_KEYS);
    each_key_is_whole(&rig);
    close_rig(&rig);
}

static void big_arrays(void)
{
    const int64_t big[] = {(8 << 20) / 4};
    float *data = calloc((size_t)big[0], sizeof(float));
    kvs_tensor_t tensor = kt_tensor(data, KVS_DTYPE_float32, big, 1);
    kvs_arrays_t list = kvs_arrays(&tensor, 1);
    kvs_key_t key = kvs_key_str("big");
    kvs_store_t *store;
    kvs_status_t status = KVS_ERR_NO_MEMORY;
    long n = 0;

    memory_register_plugins();
    KT_OK(kvs_store_create("local", NULL, 0, &store));
    while (status == KVS_ERR_NO_MEMORY && n < 100) {
        kt_fail_alloc(n++);
        status = kvs_store_init(store, &key, 1, &list, NULL);
        kt_fail_alloc(-1);
    }
    KT_OK(status);
    KT_TRUE(n > 3);
    KT_OK(kvs_store_pull(store, &key, 1, &list, NULL));
    KT_OK(kvs_store_close(store));
    free(data);
}

static const kt_test_t tests[] = {
    KT_TEST(creating_a_store),
    KT_TEST(initialising_keys),
    KT_TEST(pushing_and_pulling_lists),
    KT_TEST(exchanging_repeated_keys),
    KT_TEST(operations_with_events),
    KT_TEST(updaters),
    KT_TEST(optimizers),
    KT_TEST(big_arrays),
};
KT_MAIN("memory", tests)
