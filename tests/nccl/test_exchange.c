/* SPDX-License-Identifier: Apache-2.0 */
/* Sums over pretend devices by the stand-in for NCCL, as many as KVSTORE_DOUBLE_DEVICES says. Values are
 * small integers, whose sums are exact in every order: `nccl` gives the bits of `local`. */
#include "exact.h"
#include "nccl_double_api.h"
#include "pretend.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>

/* Whether it is the stand-in, which counts. */
static int counts_calls(nccl_double_counts_t *ret_counts)
{
    static nccl_double_read_t read;
    const char *name = getenv("KVSTORE_NCCL_LIBRARY");

    if (read == NULL) {
        void *library = name != NULL ? dlopen(name, RTLD_NOW) : NULL;

        *(void **)&read = library != NULL ? dlsym(library, "nccl_double_read") : NULL;
    }
    if (read != NULL) {
        read(ret_counts);
    }
    return read != NULL;
}

static nccl_double_counts_t read_counts(void)
{
    nccl_double_counts_t counts = {0};

    (void)counts_calls(&counts);
    return counts;
}

/* ---- Tests --------------------------------------------------------------------------------------- */

static void sums_of_every_dtype_are_those_of_local(void)
{
    for (int dtype = 0; dtype < KVS_N_DTYPES; dtype++) {
        exact_try_sums("nccl", dtype, 1, pretend_n_devices());
        exact_try_sums("nccl", dtype, 4099, pretend_n_devices());
        exact_try_sums("nccl", dtype, 40009, pretend_n_devices());
    }
}

static void arrays_that_share_a_device_are_summed_first(void)
{
    exact_try_sums("nccl", KVS_DTYPE_float32, 1003, 2 * pretend_n_devices() + 1);
    exact_try_sums("nccl", KVS_DTYPE_float16, 65537, 2 * pretend_n_devices());
}

static void some_devices_only_pull(void)
{
    int64_t n = 5001;
    exact_pair_t pair;
    exact_arrays_t values, outs;

    exact_open(&pair, "nccl");
    exact_make(&values, 1, KVS_DTYPE_float32, &n);
    exact_make(&outs, pretend_n_devices() + 2, KVS_DTYPE_float32, &n);
    exact_init(&pair, 1, &values);
    exact_exchange(&pair, 1, &values, &outs);
    KT_INT(exact_n_different(&outs), 0);
    exact_free(&values);
    exact_free(&outs);
    exact_close(&pair);
}

/* The weight follows to devices that push; states too. */
static void device_sets_may_change(void)
{
    int64_t n = 3001;
    exact_pair_t pair;
    kvs_key_t key = kvs_key_int(1);
    exact_arrays_t all;

    exact_open(&pair, "nccl");
    exact_make(&all, 2 * pretend_n_devices(), KVS_DTYPE_float32, &n);
    exact_init(&pair, 1, &all);
    for (int first = 0; first < pretend_n_devices(); first++) {
        for (int k = 1; k <= pretend_n_devices(); k++) {
            kvs_arrays_t device = pretend_list(&all.on_device[first], (size_t)k);
            kvs_arrays_t host = pretend_list(&all.on_host[first], (size_t)k);

            KT_OK(kvs_store_pushpull(pair.device, &key, 1, &device, NULL, NULL));
            KT_OK(kvs_store_pushpull(pair.local, &key, 1, &host, NULL, NULL));
            KT_INT(exact_n_different(&all), 0);
        }
    }
    exact_free(&all);
    exact_close(&pair);
}

static void optimizers_update_as_those_of_local(void)
{
    static const char *const names[] = {"sgd", "adam", "lamb"};
    int64_t n = 2049;

    for (int i = 0; i < 3; i++) {
        for (int dtype = KVS_DTYPE_float32; dtype <= KVS_DTYPE_float16; dtype++) {
            exact_pair_t pair;
            kvs_optimizer_spec_t spec = KVS_OPTIMIZER_INIT;
            exact_arrays_t values, outs;

            exact_open(&pair, "nccl");
            spec.name = names[i];
            KT_OK(kvs_store_set_optimizer(pair.device, &spec));
            KT_OK(kvs_store_set_optimizer(pair.local, &spec));
            exact_make(&values, pretend_n_devices() + 1, dtype, &n);
            exact_make(&outs, pretend_n_devices() + 1, dtype, &n);
            exact_init(&pair, 5, &values);
            for (int round = 0; round < 3; round++) {
                exact_exchange(&pair, 5, &values, &outs);
                KT_INT(exact_n_different(&outs), 0);
                exact_exchange(&pair, 5, &values, NULL);
            }
            exact_exchange(&pair, 5, NULL, &outs);
            KT_INT(exact_n_different(&outs), 0);
            exact_free(&values);
            exact_free(&outs);
            exact_close(&pair);
        }
    }
}

static void a_list_of_keys_is_one_group(void)
{
    enum { N_KEYS = 100 };
    int64_t n = 129;
    int n_devices = pretend_n_devices();
    exact_pair_t pair;
    kvs_key_t keys[N_KEYS];
    kvs_tensor_t *tensors = calloc((size_t)(N_KEYS * n_devices), sizeof(*tensors));
    size_t per_key[N_KEYS];
    kvs_arrays_t values = {tensors, (size_t)(N_KEYS * n_devices), per_key, N_KEYS};
    exact_arrays_t *arrays = calloc(N_KEYS, sizeof(*arrays));
    nccl_double_counts_t before, after;

    exact_open(&pair, "nccl");
    for (int i = 0; i < N_KEYS; i++) {
        keys[i] = kvs_key_int(i);
        exact_make(&arrays[i], n_devices, KVS_DTYPE_float32, &n);
        exact_init(&pair, i, &arrays[i]);
        memcpy(&tensors[i * n_devices], arrays[i].on_device, (size_t)n_devices * sizeof(*tensors));
        per_key[i] = (size_t)n_devices;
    }
    before = read_counts();
    KT_OK(kvs_store_pushpull(pair.device, keys, N_KEYS, &values, NULL, NULL));
    after = read_counts();
    if (counts_calls(&after)) {
        KT_INT(after.groups - before.groups, 1);
        KT_INT(after.collectives - before.collectives, N_KEYS);
        KT_INT(after.lone, 0);
    }
    for (int i = 0; i < N_KEYS; i++) {
        kvs_arrays_t host = pretend_list(arrays[i].on_host, (size_t)n_devices);

        KT_OK(kvs_store_pushpull(pair.local, &keys[i], 1, &host, NULL, NULL));
        KT_INT(exact_n_different(&arrays[i]), 0);
        exact_free(&arrays[i]);
    }
    free(tensors);
    free(arrays);
    exact_close(&pair);
}

static void communicators_are_kept_and_ended_with_the_last_store(void)
{
    int64_t n = 64;
    exact_pair_t first, second;
    exact_arrays_t values;
    nccl_double_counts_t before = {0}, after;
    int n_comms = counts_calls(&before) ? pretend_n_devices() : 0; /* NCCL itself counts nothing */

    exact_open(&first, "nccl");
    exact_open(&second, "nccl");
    exact_make(&values, pretend_n_devices(), KVS_DTYPE_float32, &n);
    exact_init(&first, 1, &values);
    exact_init(&second, 1, &values);
    for (int i = 0; i < 3; i++) {
        exact_exchange(&first, 1, &values, &values);
        exact_exchange(&second, 1, &values, NULL);
    }
    after = read_counts();
    KT_INT(after.inits - before.inits, n_comms);
    exact_close(&first);
    KT_INT(read_counts().destroys, before.destroys);
    exact_close(&second);
    KT_INT(read_counts().destroys - before.destroys, n_comms);
    KT_INT(read_counts().aborts, before.aborts);
    exact_free(&values);
}

typedef struct thread {
    pthread_t id;
    exact_pair_t *pair;
    int64_t number;
    exact_arrays_t arrays;
} thread_t;

static void *exchange_often(void *arg)
{
    thread_t *thread = arg;

    for (int i = 0; i < 3; i++) {
        exact_exchange(thread->pair, thread->number, &thread->arrays, &thread->arrays);
    }
    return NULL;
}

static void threads_may_exchange_at_once(void)
{
    int64_t n = 777;
    exact_pair_t pair;
    thread_t threads[4];

    exact_open(&pair, "nccl");
    for (int i = 0; i < 4; i++) {
        threads[i].pair = &pair;
        threads[i].number = i;
        exact_make(&threads[i].arrays, pretend_n_devices(), KVS_DTYPE_float64, &n);
        exact_init(&pair, i, &threads[i].arrays);
    }
    for (int i = 0; i < 4; i++) {
        KT_INT(pthread_create(&threads[i].id, NULL, exchange_often, &threads[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i].id, NULL);
        KT_INT(exact_n_different(&threads[i].arrays), 0);
        exact_free(&threads[i].arrays);
    }
    exact_close(&pair);
}

int main(int argc, char **argv)
{
    static const kt_test_t tests[] = {
        KT_TEST(sums_of_every_dtype_are_those_of_local),
        KT_TEST(arrays_that_share_a_device_are_summed_first),
        KT_TEST(some_devices_only_pull),
        KT_TEST(device_sets_may_change),
        KT_TEST(optimizers_update_as_those_of_local),
        KT_TEST(a_list_of_keys_is_one_group),
        KT_TEST(communicators_are_kept_and_ended_with_the_last_store),
        KT_TEST(threads_may_exchange_at_once),
    };

    pretend_open();
    return kt_run("nccl.exchange", tests, sizeof(tests) / sizeof(tests[0]), argc, argv);
}
