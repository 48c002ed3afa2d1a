/* SPDX-License-Identifier: Apache-2.0 */
/* Residuals are part of saved states: a store that loads them goes on as the one that saved them. */
#include "kt.h"

#include <math.h>
#include <stdlib.h>

enum { N = 5000, VALUES = 3 };

static kvs_param_t real(const char *name, double value)
{
    return (kvs_param_t){.name = name, .type = KVS_PARAM_FLOAT, .value = {.real = value}};
}

/* With key 1, zeros, and momentum. */
static kvs_store_t *open_store(const char *backend)
{
    const kvs_param_t params[] = {real("learning_rate", 0.5), real("momentum", 0.9)};
    kvs_optimizer_spec_t sgd = KVS_OPTIMIZER_INIT;
    float *zeros = calloc(N, sizeof(*zeros));
    kvs_tensor_t tensor = KT_F32(zeros, N);
    kvs_arrays_t arrays = kvs_arrays(&tensor, 1);
    kvs_key_t key = kvs_key_int(1);
    kvs_store_t *store = NULL;

    sgd.name = "sgd";
    sgd.params = params;
    sgd.n_params = 2;
    KT_OK(kvs_store_create(backend, NULL, 0, &store));
    KT_OK(kvs_store_init(store, &key, 1, &arrays, NULL));
    KT_OK(kvs_store_set_optimizer(store, &sgd));
    free(zeros);
    return store;
}

static void compress(kvs_store_t *store)
{
    const kvs_param_t type = {.name = "type", .type = KVS_PARAM_TEXT, .value = {.text = "2bit"}};

    KT_OK(kvs_store_set_gradient_compression(store, &type, 1));
}

/* The gradients of that step. */
static void push(kvs_store_t *store, int step)
{
    float *values = malloc(VALUES * N * sizeof(*values));
    kvs_tensor_t tensors[VALUES];
    kvs_arrays_t arrays = kvs_arrays(tensors, VALUES);
    kvs_key_t key = kvs_key_int(1);

    for (int i = 0; i < VALUES * N; i++) {
        values[i] = (float)sin(i * 1.7 + step);
    }
    for (int i = 0; i < VALUES; i++) {
        tensors[i] = KT_F32(values + i * N, N);
    }
    KT_OK(kvs_store_push(store, &key, 1, &arrays, NULL));
    free(values);
}

static float *pull(kvs_store_t *store)
{
    float *out = malloc(N * sizeof(*out));
    kvs_tensor_t tensor = KT_F32(out, N);
    kvs_arrays_t arrays = kvs_arrays(&tensor, 1);
    kvs_key_t key = kvs_key_int(1);

    KT_OK(kvs_store_pull(store, &key, 1, &arrays, NULL));
    return out;
}

/* What the weights of key 1 move by in two more steps. */
static float *two_steps(kvs_store_t *store)
{
    float *before = pull(store), *after;

    push(store, 3);
    push(store, 4);
    after = pull(store);
    for (int i = 0; i < N; i++) {
        after[i] -= before[i];
    }
    free(before);
    return after;
}

static const char *save_after_three_steps(kvs_store_t *store)
{
    static char path[600];

    snprintf(path, sizeof(path), "%s/states", kt_temp_dir());
    for (int step = 0; step < 3; step++) {
        push(store, step);
    }
    KT_OK(kvs_store_save_optimizer_states(store, path, 1));
    return path;
}

/* Weights are no part of the file: the steps are equal but for how they round. */
static void a_store_goes_on_where_the_saved_one_was(void)
{
    kvs_store_t *first = open_store("device"), *second = open_store("device");
    const char *path;
    float *wanted, *got;

    compress(first);
    path = save_after_three_steps(first);
    KT_OK(kvs_store_load_optimizer_states(second, path));
    compress(second); /* in either order */
    wanted = two_steps(first);
    got = two_steps(second);
    for (int i = 0; i < N; i++) {
        KT_TRUE(fabsf(got[i] - wanted[i]) <= 1e-5f);
    }
    free(wanted);
    free(got);
    KT_OK(kvs_store_close(first));
    KT_OK(kvs_store_close(second));
}

static void a_load_replaces_residuals(void)
{
    kvs_store_t *plain = open_store("device"), *store = open_store("device");
    const char *path = save_after_three_steps(plain); /* which has none */
    kvs_key_t key = kvs_key_int(1);
    float *quarters = malloc(N * sizeof(*quarters)), *before, *after;
    kvs_tensor_t tensor = KT_F32(quarters, N);
    kvs_arrays_t arrays = kvs_arrays(&tensor, 1);

    for (int i = 0; i < N; i++) {
        quarters[i] = 0.25f;
    }
    compress(store);
    KT_OK(kvs_store_push(store, &key, 1, &arrays, NULL));
    KT_OK(kvs_store_load_optimizer_states(store, path));
    KT_OK(kvs_store_set_updater(store, NULL, NULL));
    KT_OK(kvs_store_push(store, &key, 1, &arrays, NULL));
    after = pull(store);
    KT_REAL(after[0], 0); /* not 0.5, of two quarters */
    KT_OK(kvs_store_push(store, &key, 1, &arrays, NULL));
    before = pull(store);
    KT_REAL(before[0], 0.5);
    free(quarters);
    free(before);
    free(after);
    KT_OK(kvs_store_close(plain));
    KT_OK(kvs_store_close(store));
}

static void local_takes_the_states_of_device(void)
{
    kvs_store_t *device = open_store("device"), *local = open_store("local");
    const char *path;

    compress(device);
    path = save_after_three_steps(device);
    KT_OK(kvs_store_load_optimizer_states(local, path));
    push(local, 3);
    KT_OK(kvs_store_close(device));
    KT_OK(kvs_store_close(local));
}

static const kt_test_t tests[] = {
    KT_TEST(a_store_goes_on_where_the_saved_one_was),
    KT_TEST(a_load_replaces_residuals),
    KT_TEST(local_takes_the_states_of_device),
};
KT_MAIN("device.states", tests)
