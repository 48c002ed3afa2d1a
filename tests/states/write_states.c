/* SPDX-License-Identifier: Apache-2.0 */
/* write_states.c - writes files of optimizer states into the directory given, for the readers of this
 * folder. The gradients of element i are i + 1, so that what has to be in the files is soon worked out. */
#include <kvstore/kvstore.h>

#include <stdio.h>
#include <stdlib.h>

static char path[1024];
static const char *dir;

static const char *in_dir(const char *name)
{
    snprintf(path, sizeof(path), "%s/%s.states", dir, name);
    return path;
}

static void must(kvs_status_t status)
{
    if (status != KVS_OK) {
        fprintf(stderr, "write_states: %s\n", kvs_last_error());
        exit(1);
    }
}

static const int64_t matrix[2] = {3, 4}, vector[1] = {5}, small[2] = {2, 2};

/* An array of numbers that begin with `first` and grow by `step`. */
static kvs_tensor_t array(int dtype, int32_t ndim, const int64_t *shape, double first, double step)
{
    kvs_tensor_t tensor = {.device = {KVS_DEVICE_CPU, 0},
                           .ndim = ndim,
                           .dtype = kvs_dtype(dtype),
                           .shape = shape,
                           .data = calloc(64, 8)};
    int64_t n = 1;

    for (int32_t d = 0; d < ndim; d++) {
        n *= shape[d];
    }
    for (int64_t i = 0; i < n; i++) {
        double value = first + step * (double)i;

        if (dtype == KVS_DTYPE_float32) {
            ((float *)tensor.data)[i] = (float)value;
        } else if (dtype == KVS_DTYPE_float64) {
            ((double *)tensor.data)[i] = value;
        } else { /* float16: 1 to 4 */
            static const uint16_t halves[] = {0x3C00, 0x4000, 0x4200, 0x4400};

            ((uint16_t *)tensor.data)[i] = halves[i % 4];
        }
    }
    return tensor;
}

static kvs_status_t call(kvs_status_t (*verb)(kvs_store_t *, const kvs_key_t *, size_t,
                                              const kvs_arrays_t *, const kvs_call_t *),
                         kvs_store_t *store, kvs_key_t key, kvs_tensor_t tensor)
{
    kvs_arrays_t arrays = kvs_arrays(&tensor, 1);
    kvs_status_t status = verb(store, &key, 1, &arrays, NULL);

    free(tensor.data);
    return status;
}

static kvs_param_t real(const char *name, double value)
{
    return (kvs_param_t){.name = name, .type = KVS_PARAM_FLOAT, .value.real = value};
}

static kvs_store_t *open_store(const char *optimizer, const kvs_param_t *params, size_t n_params)
{
    kvs_optimizer_spec_t spec = KVS_OPTIMIZER_INIT;
    kvs_store_t *store = NULL;

    spec.name = optimizer;
    spec.params = params;
    spec.n_params = n_params;
    must(kvs_store_create("local", NULL, 0, &store));
    must(kvs_store_set_optimizer(store, &spec));
    return store;
}

/* Two updates with lr 1, momentum 0.5: mom = -g, then -1.5 g. Integer keys, states alone. */
static void write_sgd(void)
{
    const kvs_param_t params[] = {real("learning_rate", 1), real("momentum", 0.5)};
    kvs_store_t *store = open_store("sgd", params, 2);

    must(call(kvs_store_init, store, kvs_key_int(-3), array(KVS_DTYPE_float32, 2, matrix, 0, 0)));
    must(call(kvs_store_init, store, kvs_key_int(10), array(KVS_DTYPE_float64, 0, NULL, 0, 0)));
    must(call(kvs_store_init, store, kvs_key_int(11), array(KVS_DTYPE_float64, 0, NULL, 0, 0)));
    for (int i = 0; i < 2; i++) {
        must(call(kvs_store_push, store, kvs_key_int(-3),
                  array(KVS_DTYPE_float32, 2, matrix, 1, 1)));
        must(call(kvs_store_push, store, kvs_key_int(10), array(KVS_DTYPE_float64, 0, NULL, 8, 0)));
    }
    must(kvs_store_save_optimizer_states(store, in_dir("sgd"), 0));
    must(kvs_store_close(store));
}

/* One update: mean = 0.1 g, var = 0.001 g². Keys with a slash, a quote and a letter beyond ASCII, a half
 * type with its master, and a schedule. */
static void write_adam(void)
{
    const kvs_param_t params[] = {
        {.name = "multi_precision", .type = KVS_PARAM_BOOL, .value.integer = 1}, real("wd", 0.125)};
    const kvs_param_t cosine[] = {
        {.name = "max_update", .type = KVS_PARAM_INT, .value.integer = 100}};
    const kvs_multiplier_t lr_mult[] = {{{"fc/weight", 0}, 2}};
    kvs_optimizer_spec_t spec = KVS_OPTIMIZER_INIT;
    kvs_store_t *store = open_store("adam", params, 2);
    kvs_key_t keys[3] = {kvs_key_str("fc/weight"), kvs_key_str("b \"\xC3\xBC\""),
                         kvs_key_str("half")};

    spec.name = "adam";
    spec.params = params;
    spec.n_params = 2;
    spec.lr_mult = lr_mult;
    spec.n_lr_mult = 1;
    spec.schedule = "cosine";
    spec.schedule_params = cosine;
    spec.n_schedule_params = 1;
    must(kvs_store_set_optimizer(store, &spec));
    must(call(kvs_store_init, store, keys[0], array(KVS_DTYPE_float32, 2, matrix, 0, 0)));
    must(call(kvs_store_init, store, keys[1], array(KVS_DTYPE_float64, 1, vector, 0, 0)));
    must(call(kvs_store_init, store, keys[2], array(KVS_DTYPE_float16, 2, small, 1, 1)));
    must(call(kvs_store_push, store, keys[0], array(KVS_DTYPE_float32, 2, matrix, 1, 1)));
    must(call(kvs_store_push, store, keys[1], array(KVS_DTYPE_float64, 1, vector, 1, 1)));
    must(call(kvs_store_push, store, keys[2], array(KVS_DTYPE_float16, 2, small, 1, 1)));
    must(kvs_store_save_optimizer_states(store, in_dir("adam"), 1));
    must(kvs_store_close(store));
}

/* In the worker: a number for each row, the mean of g² over the row; and no key at all. */
static void write_worker(void)
{
    kvs_optimizer_spec_t spec = KVS_OPTIMIZER_INIT;
    kvs_worker_optimizer_t *optimizer = NULL;
    kvs_tensor_t grad = array(KVS_DTYPE_float32, 2, matrix, 1, 1);
    kvs_tensor_t weight = array(KVS_DTYPE_float32, 2, matrix, 0, 0);

    spec.name = "groupadagrad";
    must(kvs_optimizer_create(&spec, &optimizer));
    must(kvs_optimizer_save_states(optimizer, in_dir("empty"), 1));
    must(kvs_optimizer_update(optimizer, kvs_key_str("w"), &grad, &weight));
    must(kvs_optimizer_save_states(optimizer, in_dir("worker"), 1));
    kvs_optimizer_free(optimizer);
    free(grad.data);
    free(weight.data);
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: write_states DIRECTORY\n");
        return 2;
    }
    dir = argv[1];
    write_sgd();
    write_adam();
    write_worker();
    return 0;
}
