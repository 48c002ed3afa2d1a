/* SPDX-License-Identifier: Apache-2.0 */
/* optimizer.c - the example optimizer in use: by its name, in a store and in the worker, against a plain
 * loop; with a schedule, wrong parameters, half types, and states in a file. Run by optimizer.sh, with the
 * plugin on the search path. */
#include <kvstore/kvstore.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N 5000

static int n_failed;

static void want(int holds, const char *what)
{
    if (!holds) {
        printf("failed: %s (last error: %s)\n", what, kvs_last_error());
        n_failed++;
    }
}

#define OK(expr) want((expr) == KVS_OK, #expr)

static const int64_t shape[1] = {N};

static kvs_tensor_t tensor(void *data, int dtype)
{
    return (kvs_tensor_t){.data = data,
                          .device = {KVS_DEVICE_CPU, 0},
                          .ndim = 1,
                          .dtype = kvs_dtype(dtype),
                          .shape = shape};
}

static kvs_status_t call(kvs_status_t (*verb)(kvs_store_t *, const kvs_key_t *, size_t,
                                              const kvs_arrays_t *, const kvs_call_t *),
                         kvs_store_t *store, kvs_tensor_t array)
{
    kvs_key_t key = kvs_key_str("w");
    kvs_arrays_t arrays = kvs_arrays(&array, 1);

    return verb(store, &key, 1, &arrays, NULL);
}

static kvs_param_t real(const char *name, double value)
{
    kvs_param_t param = {.name = name, .type = KVS_PARAM_FLOAT};

    param.value.real = value;
    return param;
}

/* The same, element by element. */
static void plain_lion(const float *grad, float *weight, float *mean, double rate, double wd)
{
    for (int i = 0; i < N; i++) {
        float step = (float)0.9 * mean[i] + (float)(1 - 0.9) * grad[i];

        weight[i] = (float)(1 - rate * wd) * weight[i] - (float)rate * (step > 0   ? 1.0f
                                                                        : step < 0 ? -1.0f
                                                                                   : 0.0f);
        mean[i] = (float)0.99 * mean[i] + (float)(1 - 0.99) * grad[i];
    }
}

static void fill(float *array, int salt)
{
    for (int i = 0; i < N; i++) {
        array[i] = (float)((i * 31 + salt * 17) % 101 - 50) / 32;
    }
}

static kvs_store_t *open_store(const kvs_optimizer_spec_t *spec, float *weight)
{
    kvs_store_t *store = NULL;

    OK(kvs_store_create("local", NULL, 0, &store));
    OK(call(kvs_store_init, store, tensor(weight, KVS_DTYPE_float32)));
    OK(kvs_store_set_optimizer(store, spec));
    return store;
}

/* Three updates in a store and in a worker, a file of the one that the other goes on from, one more. */
static void check_numbers(const char *path)
{
    static float weight[N], mean[N], grad[N], in_worker[N], pulled[N];
    const kvs_param_t params[] = {real("learning_rate", 0.01), real("wd", 0.1)};
    kvs_optimizer_spec_t spec = KVS_OPTIMIZER_INIT;
    kvs_worker_optimizer_t *worker = NULL;
    kvs_tensor_t from = tensor(grad, KVS_DTYPE_float32), to = tensor(in_worker, KVS_DTYPE_float32);
    kvs_store_t *store;

    spec.name = "lion";
    spec.params = params;
    spec.n_params = 2;
    fill(weight, 1);
    memcpy(in_worker, weight, sizeof(weight));
    store = open_store(&spec, weight);
    OK(kvs_optimizer_create(&spec, &worker));
    for (int step = 0; step < 3; step++) {
        fill(grad, step);
        plain_lion(grad, weight, mean, 0.01, 0.1);
        OK(call(kvs_store_push, store, from));
        OK(kvs_optimizer_update(worker, kvs_key_str("w"), &from, &to));
    }
    OK(call(kvs_store_pull, store, tensor(pulled, KVS_DTYPE_float32)));
    want(memcmp(pulled, weight, sizeof(weight)) == 0, "the store's weights are the plain loop's");
    want(memcmp(in_worker, weight, sizeof(weight)) == 0,
         "the worker's weights are the plain loop's");

    OK(kvs_store_save_optimizer_states(store, path, 1));
    OK(kvs_store_close(store));
    kvs_optimizer_free(worker);
    worker = NULL;
    OK(kvs_optimizer_create(&spec, &worker));
    OK(kvs_optimizer_load_states(worker, path));
    plain_lion(grad, weight, mean, 0.01, 0.1);
    OK(kvs_optimizer_update(worker, kvs_key_str("w"), &from, &to));
    want(memcmp(in_worker, weight, sizeof(weight)) == 0, "its state came back from the file");
    kvs_optimizer_free(worker);
}

/* A schedule halves the rate after the first update: 1 - 0.5 - 0.25, all of it exact. */
static void check_schedule(void)
{
    static float weight[N], grad[N], pulled[N];
    kvs_param_t rate = real("learning_rate", 0.5);
    kvs_param_t params[2] = {{.name = "step", .type = KVS_PARAM_INT}, real("factor", 0.5)};
    kvs_optimizer_spec_t spec = KVS_OPTIMIZER_INIT;
    kvs_store_t *store;

    params[0].value.integer = 1;
    spec.name = "Lion";
    spec.params = &rate;
    spec.n_params = 1;
    spec.schedule = "factor";
    spec.schedule_params = params;
    spec.n_schedule_params = 2;
    for (int i = 0; i < N; i++) {
        weight[i] = 1;
        grad[i] = 3;
    }
    store = open_store(&spec, weight);
    OK(call(kvs_store_push, store, tensor(grad, KVS_DTYPE_float32)));
    OK(call(kvs_store_push, store, tensor(grad, KVS_DTYPE_float32)));
    OK(call(kvs_store_pull, store, tensor(pulled, KVS_DTYPE_float32)));
    want(pulled[0] == 0.25f && pulled[N - 1] == 0.25f, "the schedule is followed");
    OK(kvs_store_close(store));
}

/* bfloat16 weights with a float32 master: 100 steps of 2^-10, each too small for the weight alone. */
static void check_half(void)
{
    static uint16_t weight[N], grad[N], pulled[N];
    kvs_param_t params[2] = {real("learning_rate", 1.0 / 1024),
                             {.name = "multi_precision", .type = KVS_PARAM_BOOL}};
    kvs_optimizer_spec_t spec = KVS_OPTIMIZER_INIT;
    kvs_store_t *store = NULL;

    params[1].value.integer = 1;
    spec.name = "lion";
    spec.params = params;
    spec.n_params = 2;
    for (int i = 0; i < N; i++) {
        weight[i] = 0x4000; /* 2 */
        grad[i] = 0x3F80;   /* 1 */
    }
    OK(kvs_store_create("local", NULL, 0, &store));
    OK(call(kvs_store_init, store, tensor(weight, KVS_DTYPE_bfloat16)));
    OK(kvs_store_set_optimizer(store, &spec));
    for (int step = 0; step < 128; step++) {
        OK(call(kvs_store_push, store, tensor(grad, KVS_DTYPE_bfloat16)));
    }
    OK(call(kvs_store_pull, store, tensor(pulled, KVS_DTYPE_bfloat16)));
    want(pulled[7] == 0x3FF0, "small steps add up to 2 - 0.125"); /* 1.875 */
    OK(kvs_store_close(store));
}

static void check_errors(void)
{
    const kvs_param_t wrong = real("beta3", 0.5), too_large = real("beta2", 1);
    kvs_optimizer_spec_t spec = KVS_OPTIMIZER_INIT;
    kvs_worker_optimizer_t *worker = NULL;

    spec.name = "lion";
    spec.params = &wrong;
    spec.n_params = 1;
    want(kvs_optimizer_create(&spec, &worker) == KVS_ERR_ARGUMENT,
         "an unknown parameter is refused");
    want(strstr(kvs_last_error(), "optimizer 'lion': unknown parameter 'beta3'") != NULL,
         "its text");
    spec.params = &too_large;
    want(kvs_optimizer_create(&spec, &worker) == KVS_ERR_ARGUMENT, "a wrong value is refused");
    want(strstr(kvs_last_error(), "at least 0 and below 1") != NULL, "its text");
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        printf("usage: optimizer FILE\n");
        return 2;
    }
    check_numbers(argv[1]);
    check_schedule();
    check_half();
    check_errors();
    printf("%s\n", n_failed == 0 ? "the example works" : "the example fails");
    return n_failed != 0;
}
