/* SPDX-License-Identifier: Apache-2.0 */
/* Optimizers in the worker, through the shared library as a program meets them: the same bits as in a
 * store, whatever the optimizer, the dtype and the number of arrays that are summed; also in an updater;
 * and files that store and worker read of each other. */
#include <kt.h>
#include <threads.h>

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

static const char *const names[] = {
    "sgd",      "nag",     "signum", "signsgd", "adam",   "adamw",   "adabelief",
    "adamax",   "nadam",   "lamb",   "lans",    "lars",   "adagrad", "groupadagrad",
    "adadelta", "rmsprop", "ftrl",   "ftml",    "dcasgd", "test",
};
#define N_NAMES (sizeof(names) / sizeof(names[0]))

#define ROWS    37
#define COLUMNS 129
#define N       (ROWS * COLUMNS)
#define N_KEYS  3

static const int64_t shape[2] = {ROWS, COLUMNS};

/* One dtype's arrays: two gradients for each of three keys, and weights. */
typedef struct arrays {
    int dtype;
    size_t n_bytes;
    char *grads[N_KEYS][2];
    char *sums[N_KEYS];
    char *weights[N_KEYS];
} arrays_t;

static uint64_t seed = 1;

/* A number between -1 and 1. */
static double next_random(void)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (double)(int64_t)(seed >> 11) / (double)(INT64_C(1) << 52) - 1;
}

/* Half types: an exponent of 0 to 7 below 1, so that every bit pattern is a plain number. */
static void fill(int dtype, char *array)
{
    for (size_t i = 0; i < N; i++) {
        double value = next_random();

        if (dtype == KVS_DTYPE_float32) {
            ((float *)(void *)array)[i] = (float)value;
        } else if (dtype == KVS_DTYPE_float64) {
            ((double *)(void *)array)[i] = value;
        } else {
            float single = (float)value;
            uint32_t bits;

            memcpy(&bits, &single, sizeof(bits));
            /* bfloat16: the upper half; float16: a number from 1/128 to 1 by its bits */
            ((uint16_t *)(void *)array)[i] =
                dtype == KVS_DTYPE_bfloat16
                    ? (uint16_t)(bits >> 16)
                    : (uint16_t)((bits >> 16 & 0x8000) | (0x2000 + (bits >> 8 & 0x1BFF)));
        }
    }
}

static arrays_t make_arrays(int dtype)
{
    arrays_t arrays = {.dtype = dtype, .n_bytes = N * kvs_dtype(dtype).bits / 8};

    for (int k = 0; k < N_KEYS; k++) {
        arrays.weights[k] = malloc(arrays.n_bytes);
        arrays.sums[k] = malloc(arrays.n_bytes);
        fill(dtype, arrays.weights[k]);
        for (int v = 0; v < 2; v++) {
            arrays.grads[k][v] = malloc(arrays.n_bytes);
            fill(dtype, arrays.grads[k][v]);
        }
    }
    return arrays;
}

static void free_arrays(arrays_t *arrays)
{
    for (int k = 0; k < N_KEYS; k++) {
        free(arrays->weights[k]);
        free(arrays->sums[k]);
        free(arrays->grads[k][0]);
        free(arrays->grads[k][1]);
    }
}

static kvs_tensor_t tensor(const arrays_t *arrays, void *data)
{
    return kt_tensor(data, arrays->dtype, shape, 2);
}

static kvs_key_t key_of(int k)
{
    static const char *const texts[N_KEYS] = {"fc1/weight", "b", "fc2.gamma"};

    return kvs_key_str(texts[k]);
}

static kvs_optimizer_spec_t spec_of(const char *name, int multi_precision)
{
    static kvs_param_t params[3];
    kvs_optimizer_spec_t spec = KVS_OPTIMIZER_INIT;

    params[0] = (kvs_param_t){
        .name = "multi_precision", .type = KVS_PARAM_BOOL, .value.integer = multi_precision};
    params[1] = (kvs_param_t){.name = "clip_gradient", .type = KVS_PARAM_FLOAT, .value.real = 0.5};
    params[2] = (kvs_param_t){.name = "wd", .type = KVS_PARAM_FLOAT, .value.real = 0.01};
    spec.name = name;
    spec.params = params;
    spec.n_params = strcmp(name, "groupadagrad") == 0 ? 2 : 3; /* it takes no wd */
    return spec;
}

static kvs_store_t *open_store(const char *type)
{
    kvs_store_t *store = NULL;

    if (!KT_OK(kvs_store_create(type, NULL, 0, &store))) {
        exit(1);
    }
    return store;
}

static void init_all(kvs_store_t *store, const arrays_t *arrays)
{
    for (int k = 0; k < N_KEYS; k++) {
        kvs_key_t key = key_of(k);
        kvs_tensor_t value = tensor(arrays, arrays->weights[k]);
        kvs_arrays_t values = kvs_arrays(&value, 1);

        KT_OK(kvs_store_init(store, &key, 1, &values, NULL));
    }
}

/* Two values for each key, which the store sums. */
static void push_all(kvs_store_t *store, const arrays_t *arrays)
{
    for (int k = 0; k < N_KEYS; k++) {
        kvs_key_t key = key_of(k);
        kvs_tensor_t grads[2] = {tensor(arrays, arrays->grads[k][0]),
                                 tensor(arrays, arrays->grads[k][1])};
        kvs_arrays_t values = kvs_arrays(grads, 2);

        KT_OK(kvs_store_push(store, &key, 1, &values, NULL));
    }
}

/* The sums by a store that keeps nothing, then updates here. */
static void update_all(kvs_store_t *summing, kvs_worker_optimizer_t *optimizer, arrays_t *arrays)
{
    for (int k = 0; k < N_KEYS; k++) {
        kvs_key_t key = key_of(k);
        kvs_tensor_t grads[2] = {tensor(arrays, arrays->grads[k][0]),
                                 tensor(arrays, arrays->grads[k][1])};
        kvs_tensor_t sum = tensor(arrays, arrays->sums[k]);
        kvs_tensor_t weight = tensor(arrays, arrays->weights[k]);
        kvs_arrays_t values = kvs_arrays(grads, 2);
        kvs_arrays_t outs = kvs_arrays(&sum, 1);

        KT_OK(kvs_store_pushpull(summing, &key, 1, &values, &outs, NULL));
        KT_OK(kvs_optimizer_update(optimizer, key, &sum, &weight));
    }
}

/* The store's weights are those of `arrays`, bit by bit. */
static void want_weights(kvs_store_t *store, const arrays_t *arrays, const char *what)
{
    char *got = malloc(arrays->n_bytes);

    for (int k = 0; k < N_KEYS; k++) {
        kvs_key_t key = key_of(k);
        kvs_tensor_t out = tensor(arrays, got);
        kvs_arrays_t outs = kvs_arrays(&out, 1);

        KT_OK(kvs_store_pull(store, &key, 1, &outs, NULL));
        if (memcmp(got, arrays->weights[k], arrays->n_bytes) != 0) {
            printf("\n  %s, %s, key %d: bits differ", what,
                   kvs_dtype_name(kvs_dtype(arrays->dtype)), k);
            KT_TRUE(0);
        }
    }
    free(got);
}

static void compare(const char *name, int dtype, int multi_precision)
{
    arrays_t arrays = make_arrays(dtype);
    kvs_store_t *local = open_store("local"), *summing = open_store("teststore");
    kvs_worker_optimizer_t *optimizer = NULL;
    kvs_optimizer_spec_t spec = spec_of(name, multi_precision);

    init_all(local, &arrays);
    KT_OK(kvs_store_set_optimizer(local, &spec));
    KT_OK(kvs_optimizer_create(&spec, &optimizer));
    for (int step = 0; step < 4; step++) {
        push_all(local, &arrays);
        update_all(summing, optimizer, &arrays);
    }
    want_weights(local, &arrays, name);
    kvs_optimizer_free(optimizer);
    KT_OK(kvs_store_close(local));
    KT_OK(kvs_store_close(summing));
    free_arrays(&arrays);
}

static void every_optimizer_gives_the_bits_of_the_store(void)
{
    static const int dtypes[] = {KVS_DTYPE_float32, KVS_DTYPE_float64, KVS_DTYPE_float16,
                                 KVS_DTYPE_bfloat16};

    for (size_t i = 0; i < N_NAMES; i++) {
        for (int d = 0; d < 4; d++) {
            compare(names[i], dtypes[d], 0);
            if (d >= 2) {
                compare(names[i], dtypes[d], 1);
            }
        }
    }
}

/* As the peer's get_updater: the store asks, the worker's optimizer answers. */
static kvs_status_t update_stored(const kvs_key_t *key, const kvs_tensor_t *value,
                                  const kvs_tensor_t *stored, void *arg)
{
    return kvs_optimizer_update(arg, *key, value, stored);
}

static void an_updater_may_use_one(void)
{
    arrays_t arrays = make_arrays(KVS_DTYPE_float32);
    kvs_store_t *with_updater = open_store("local"), *local = open_store("local");
    kvs_worker_optimizer_t *optimizer = NULL;
    kvs_optimizer_spec_t spec = spec_of("adam", 0);

    init_all(with_updater, &arrays);
    init_all(local, &arrays);
    KT_OK(kvs_optimizer_create(&spec, &optimizer));
    KT_OK(kvs_store_set_updater(with_updater, update_stored, optimizer));
    KT_OK(kvs_store_set_optimizer(local, &spec));
    for (int step = 0; step < 3; step++) {
        push_all(with_updater, &arrays);
        push_all(local, &arrays);
    }
    for (int k = 0; k < N_KEYS; k++) {
        kvs_key_t key = key_of(k);
        kvs_tensor_t out = tensor(&arrays, arrays.weights[k]);
        kvs_arrays_t outs = kvs_arrays(&out, 1);

        KT_OK(kvs_store_pull(with_updater, &key, 1, &outs, NULL));
    }
    want_weights(local, &arrays, "updater");
    KT_OK(kvs_store_close(with_updater));
    KT_OK(kvs_store_close(local));
    kvs_optimizer_free(optimizer);
    free_arrays(&arrays);
}

static void set_rate(kvs_worker_optimizer_t *optimizer, kvs_store_t *store, double rate)
{
    kvs_param_t attr = {.name = "learning_rate", .type = KVS_PARAM_FLOAT, .value.real = rate};

    KT_OK(kvs_optimizer_set_attr(optimizer, &attr));
    KT_OK(kvs_store_set_optimizer_attr(store, &attr));
}

/* From a store to a worker and back to another store, each going on where the one before was. */
static void check_hand_over(const char *name, int dtype, int multi_precision)
{
    arrays_t arrays = make_arrays(dtype);
    kvs_store_t *whole = open_store("local"), *summing = open_store("teststore"), *second;
    kvs_worker_optimizer_t *optimizer = NULL;
    kvs_optimizer_spec_t spec = spec_of(name, multi_precision), other = spec_of("sgd", 0);
    char path[600];

    snprintf(path, sizeof(path), "%s/%s.states", kt_temp_dir(), name);
    init_all(whole, &arrays);
    KT_OK(kvs_store_set_optimizer(whole, &spec));
    KT_OK(kvs_optimizer_create(&spec, &optimizer));
    push_all(whole, &arrays);
    update_all(summing, optimizer, &arrays);
    set_rate(optimizer, whole, 0.003);
    KT_OK(kvs_optimizer_save_states(optimizer, path, 1));
    kvs_optimizer_free(optimizer);

    second = open_store("local"); /* whose optimizer is another: the file's takes its place */
    init_all(second, &arrays);
    KT_OK(kvs_store_set_optimizer(second, &other));
    KT_OK(kvs_store_load_optimizer_states(second, path));
    push_all(whole, &arrays);
    push_all(second, &arrays);
    KT_OK(kvs_store_save_optimizer_states(second, path, 1));

    optimizer = NULL;
    KT_OK(kvs_optimizer_create(&other, &optimizer));
    KT_OK(kvs_optimizer_load_states(optimizer, path));
    for (int k = 0; k < N_KEYS; k++) {
        kvs_key_t key = key_of(k);
        kvs_tensor_t out = tensor(&arrays, arrays.weights[k]);
        kvs_arrays_t outs = kvs_arrays(&out, 1);

        KT_OK(kvs_store_pull(second, &key, 1, &outs, NULL));
    }
    push_all(whole, &arrays);
    update_all(summing, optimizer, &arrays);
    want_weights(whole, &arrays, name);
    kvs_optimizer_free(optimizer);
    KT_OK(kvs_store_close(whole));
    KT_OK(kvs_store_close(second));
    KT_OK(kvs_store_close(summing));
    free_arrays(&arrays);
}

static void stores_and_workers_go_on_from_each_others_files(void)
{
    for (size_t i = 0; i < N_NAMES; i++) {
        check_hand_over(names[i], KVS_DTYPE_float32, 0);
        check_hand_over(names[i], i % 2 == 0 ? KVS_DTYPE_float16 : KVS_DTYPE_bfloat16, 1);
    }
    check_hand_over("adam", KVS_DTYPE_float64, 0);
    for (size_t i = 0; i < 3; i++) {
        check_hand_over(names[i], KVS_DTYPE_bfloat16, 0);
    }
}

/* w = 8, lr 0.5: 8 - 0.5 * 2 = 7, and for a scalar too. */
static void arrays_of_no_and_of_one_element_are_updated(void)
{
    const int64_t none[2] = {4, 0};
    kvs_optimizer_spec_t spec = KVS_OPTIMIZER_INIT;
    kvs_param_t rate = {.name = "learning_rate", .type = KVS_PARAM_FLOAT, .value.real = 0.5};
    kvs_worker_optimizer_t *optimizer = NULL;
    float grad = 2, weight = 8;
    kvs_tensor_t empty = kt_tensor(NULL, KVS_DTYPE_float32, none, 2);
    kvs_tensor_t from = kt_tensor(&grad, KVS_DTYPE_float32, NULL, 0);
    kvs_tensor_t to = kt_tensor(&weight, KVS_DTYPE_float32, NULL, 0);

    spec.name = "sgd";
    spec.params = &rate;
    spec.n_params = 1;
    KT_OK(kvs_optimizer_create(&spec, &optimizer));
    KT_OK(kvs_optimizer_update(optimizer, kvs_key_int(-7), &from, &to));
    KT_REAL(weight, 7);
    KT_REAL(grad, 2);
    KT_OK(kvs_optimizer_update(optimizer, kvs_key_int(8), &empty, &empty));
    kvs_optimizer_free(optimizer);
}

typedef struct busy {
    kt_thread_t thread;
    kvs_worker_optimizer_t *optimizer;
    atomic_bool has_begun, stops;
} busy_t;

static void keep_updating(void *arg)
{
    busy_t *busy = arg;
    static float grad[N], weight[N];
    kvs_tensor_t from = KT_F32(grad, N), to = KT_F32(weight, N);

    while (!atomic_load(&busy->stops)) {
        (void)kvs_optimizer_update(busy->optimizer, kvs_key_int(1), &from, &to);
        atomic_store(&busy->has_begun, true);
    }
}

static bool is_busy(void *arg)
{
    return atomic_load(&((busy_t *)arg)->has_begun);
}

/* In the child: an update, or words of why not. */
static int update_in_child(kvs_worker_optimizer_t *optimizer)
{
    float grad = 2, weight = 8;
    kvs_tensor_t from = KT_F32(&grad, 1), to = KT_F32(&weight, 1);
    kvs_status_t status = kvs_optimizer_update(optimizer, kvs_key_int(2), &from, &to);

    return status == KVS_OK ? weight != 7
                            : status != KVS_ERR_STATE || strstr(kvs_last_error(), "forked") == NULL;
}

static void a_forked_child_has_a_copy_or_is_told_that_it_was_in_use(void)
{
    kvs_optimizer_spec_t spec = KVS_OPTIMIZER_INIT;
    kvs_param_t rate = {.name = "learning_rate", .type = KVS_PARAM_FLOAT, .value.real = 0.5};
    busy_t busy = {.optimizer = NULL};

    spec.name = "sgd";
    spec.params = &rate;
    spec.n_params = 1;
    KT_OK(kvs_optimizer_create(&spec, &busy.optimizer));
    kt_thread_start(&busy.thread, keep_updating, &busy);
    /* From now on it gets memory only in an update, if at all: then the child asks for none. */
    kt_until(is_busy, &busy, "a first update");
    for (int i = 0; i < 4; i++) {
        pid_t child = fork();

        if (child == 0) {
            _exit(update_in_child(busy.optimizer));
        }
        KT_INT(kt_wait_child(child), 0);
    }
    atomic_store(&busy.stops, true);
    kt_thread_join(&busy.thread);
    kvs_optimizer_free(busy.optimizer);
}

static const kt_test_t tests[] = {
    KT_TEST(every_optimizer_gives_the_bits_of_the_store),
    KT_TEST(an_updater_may_use_one),
    KT_TEST(stores_and_workers_go_on_from_each_others_files),
    KT_TEST(arrays_of_no_and_of_one_element_are_updated),
    KT_TEST(a_forked_child_has_a_copy_or_is_told_that_it_was_in_use),
};
KT_MAIN("optimizers.worker", tests)
