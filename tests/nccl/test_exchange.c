/* SPDX-License-Identifier: Apache-2.0 */
/* Sums over pretend devices by the stand-in for NCCL, as many as KVSTORE_DOUBLE_DEVICES says. Values are
 * small integers, whose sums are exact in every order: `nccl` gives the bits of `local`. */
#include "nccl_double_api.h"
#include "pretend.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>

enum { MAX_ARRAYS = 24 };

typedef struct arrays {
    kvs_tensor_t on_device[MAX_ARRAYS], on_host[MAX_ARRAYS];
    int n;
} arrays_t;

typedef struct pair {
    kvs_store_t *nccl, *local;
} pair_t;

static nccl_double_counts_t read_counts(void)
{
    static nccl_double_read_t read;
    nccl_double_counts_t counts;

    if (read == NULL) {
        void *library = dlopen(getenv("KVSTORE_NCCL_LIBRARY"), RTLD_NOW);

        *(void **)&read = library != NULL ? dlsym(library, "nccl_double_read") : NULL;
    }
    read(&counts);
    return counts;
}

static pair_t open_pair(void)
{
    pair_t pair = {NULL, NULL};

    KT_OK(kvs_store_create("nccl", NULL, 0, &pair.nccl));
    KT_OK(kvs_store_create("local", NULL, 0, &pair.local));
    return pair;
}

static void close_pair(pair_t *pair)
{
    KT_OK(kvs_store_close(pair->nccl));
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

static void make_arrays(arrays_t *arrays, int n, int dtype, const int64_t *n_elems)
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

static void free_arrays(arrays_t *arrays)
{
    for (int i = 0; i < arrays->n; i++) {
        pretend_free(&arrays->on_device[i], 0);
        pretend_free(&arrays->on_host[i], 0);
    }
}

static int n_different(const arrays_t *arrays)
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

static void both_init(const pair_t *pair, int64_t number, const arrays_t *value)
{
    kvs_key_t key = kvs_key_int(number);
    kvs_arrays_t device = pretend_list(value->on_device, 1), host = pretend_list(value->on_host, 1);

    KT_OK(kvs_store_init(pair->nccl, &key, 1, &device, NULL));
    KT_OK(kvs_store_init(pair->local, &key, 1, &host, NULL));
}

static void both_exchange(const pair_t *pair, int64_t number, const arrays_t *values,
                          const arrays_t *outs)
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
        KT_OK(kvs_store_pull(pair->nccl, &key, 1, &device_outs, NULL));
        KT_OK(kvs_store_pull(pair->local, &key, 1, &host_outs, NULL));
    } else if (outs == NULL) {
        KT_OK(kvs_store_push(pair->nccl, &key, 1, &device, NULL));
        KT_OK(kvs_store_push(pair->local, &key, 1, &host, NULL));
    } else {
        KT_OK(kvs_store_pushpull(pair->nccl, &key, 1, &device, outs != values ? &device_outs : NULL,
                                 NULL));
        KT_OK(kvs_store_pushpull(pair->local, &key, 1, &host, outs != values ? &host_outs : NULL,
                                 NULL));
    }
}

static void try_sums(int dtype, int64_t n_elems, int n_values)
{
    pair_t pair = open_pair();
    arrays_t weight, values, outs;

    make_arrays(&weight, 1, dtype, &n_elems);
    make_arrays(&values, n_values, dtype, &n_elems);
    make_arrays(&outs, n_values + 1, dtype, &n_elems);
    both_init(&pair, 7, &weight);
    both_exchange(&pair, 7, NULL, &outs);
    KT_INT(n_different(&outs), 0);
    both_exchange(&pair, 7, &values, &outs);
    KT_INT(n_different(&outs), 0);
    both_exchange(&pair, 7, &values, NULL);
    both_exchange(&pair, 7, NULL, &weight);
    KT_INT(n_different(&weight), 0);
    both_exchange(&pair, 7, NULL, &outs);
    KT_INT(n_different(&outs), 0);
    both_exchange(&pair, 7, &values, &values); /* in place */
    KT_INT(n_different(&values), 0);
    free_arrays(&weight);
    free_arrays(&values);
    free_arrays(&outs);
    close_pair(&pair);
}

/* ---- Tests --------------------------------------------------------------------------------------- */

static void sums_of_every_dtype_are_those_of_local(void)
{
    for (int dtype = 0; dtype < KVS_N_DTYPES; dtype++) {
        try_sums(dtype, 1, pretend_n_devices());
        try_sums(dtype, 4099, pretend_n_devices());
        try_sums(dtype, 40009, pretend_n_devices());
    }
}

static void arrays_that_share_a_device_are_summed_first(void)
{
    try_sums(KVS_DTYPE_float32, 1003, 2 * pretend_n_devices() + 1);
    try_sums(KVS_DTYPE_float16, 65537, 2 * pretend_n_devices());
}

static void some_devices_only_pull(void)
{
    int64_t n = 5001;
    pair_t pair = open_pair();
    arrays_t values, outs;

    make_arrays(&values, 1, KVS_DTYPE_float32, &n);
    make_arrays(&outs, pretend_n_devices() + 2, KVS_DTYPE_float32, &n);
    both_init(&pair, 1, &values);
    both_exchange(&pair, 1, &values, &outs);
    KT_INT(n_different(&outs), 0);
    free_arrays(&values);
    free_arrays(&outs);
    close_pair(&pair);
}

/* The weight follows to devices that push; states too. */
static void device_sets_may_change(void)
{
    int64_t n = 3001;
    pair_t pair = open_pair();
    kvs_key_t key = kvs_key_int(1);
    arrays_t all;

    make_arrays(&all, 2 * pretend_n_devices(), KVS_DTYPE_float32, &n);
    both_init(&pair, 1, &all);
    for (int first = 0; first < pretend_n_devices(); first++) {
        for (int k = 1; k <= pretend_n_devices(); k++) {
            kvs_arrays_t device = pretend_list(&all.on_device[first], (size_t)k);
            kvs_arrays_t host = pretend_list(&all.on_host[first], (size_t)k);

            KT_OK(kvs_store_pushpull(pair.nccl, &key, 1, &device, NULL, NULL));
            KT_OK(kvs_store_pushpull(pair.local, &key, 1, &host, NULL, NULL));
            KT_INT(n_different(&all), 0);
        }
    }
    free_arrays(&all);
    close_pair(&pair);
}

static void optimizers_update_as_those_of_local(void)
{
    static const char *const names[] = {"sgd", "adam", "lamb"};
    int64_t n = 2049;

    for (int i = 0; i < 3; i++) {
        for (int dtype = KVS_DTYPE_float32; dtype <= KVS_DTYPE_float16; dtype++) {
            pair_t pair = open_pair();
            kvs_optimizer_spec_t spec = KVS_OPTIMIZER_INIT;
            arrays_t values, outs;

            spec.name = names[i];
            KT_OK(kvs_store_set_optimizer(pair.nccl, &spec));
            KT_OK(kvs_store_set_optimizer(pair.local, &spec));
            make_arrays(&values, pretend_n_devices() + 1, dtype, &n);
            make_arrays(&outs, pretend_n_devices() + 1, dtype, &n);
            both_init(&pair, 5, &values);
            for (int round = 0; round < 3; round++) {
                both_exchange(&pair, 5, &values, &outs);
                KT_INT(n_different(&outs), 0);
                both_exchange(&pair, 5, &values, NULL);
            }
            both_exchange(&pair, 5, NULL, &outs);
            KT_INT(n_different(&outs), 0);
            free_arrays(&values);
            free_arrays(&outs);
            close_pair(&pair);
        }
    }
}

static void a_list_of_keys_is_one_group(void)
{
    enum { N_KEYS = 100 };
    int64_t n = 129;
    int n_devices = pretend_n_devices();
    pair_t pair = open_pair();
    kvs_key_t keys[N_KEYS];
    kvs_tensor_t *tensors = calloc((size_t)(N_KEYS * n_devices), sizeof(*tensors));
    size_t per_key[N_KEYS];
    kvs_arrays_t values = {tensors, (size_t)(N_KEYS * n_devices), per_key, N_KEYS};
    arrays_t *arrays = calloc(N_KEYS, sizeof(*arrays));
    nccl_double_counts_t before, after;

    for (int i = 0; i < N_KEYS; i++) {
        keys[i] = kvs_key_int(i);
        make_arrays(&arrays[i], n_devices, KVS_DTYPE_float32, &n);
        both_init(&pair, i, &arrays[i]);
        memcpy(&tensors[i * n_devices], arrays[i].on_device, (size_t)n_devices * sizeof(*tensors));
        per_key[i] = (size_t)n_devices;
    }
    before = read_counts();
    KT_OK(kvs_store_pushpull(pair.nccl, keys, N_KEYS, &values, NULL, NULL));
    after = read_counts();
    KT_INT(after.groups - before.groups, 1);
    KT_INT(after.collectives - before.collectives, N_KEYS);
    KT_INT(after.lone, 0);
    for (int i = 0; i < N_KEYS; i++) {
        kvs_arrays_t host = pretend_list(arrays[i].on_host, (size_t)n_devices);

        KT_OK(kvs_store_pushpull(pair.local, &keys[i], 1, &host, NULL, NULL));
        KT_INT(n_different(&arrays[i]), 0);
        free_arrays(&arrays[i]);
    }
    free(tensors);
    free(arrays);
    close_pair(&pair);
}

static void communicators_are_kept_and_ended_with_the_last_store(void)
{
    int64_t n = 64;
    pair_t first = open_pair(), second = open_pair();
    arrays_t values;
    nccl_double_counts_t before = read_counts(), after;

    make_arrays(&values, pretend_n_devices(), KVS_DTYPE_float32, &n);
    both_init(&first, 1, &values);
    both_init(&second, 1, &values);
    for (int i = 0; i < 3; i++) {
        both_exchange(&first, 1, &values, &values);
        both_exchange(&second, 1, &values, NULL);
    }
    after = read_counts();
    KT_INT(after.inits - before.inits, pretend_n_devices());
    close_pair(&first);
    KT_INT(read_counts().destroys, before.destroys);
    close_pair(&second);
    KT_INT(read_counts().destroys - before.destroys, pretend_n_devices());
    KT_INT(read_counts().aborts, before.aborts);
    free_arrays(&values);
}

typedef struct thread {
    pthread_t id;
    pair_t *pair;
    int64_t number;
    arrays_t arrays;
} thread_t;

static void *exchange_often(void *arg)
{
    thread_t *thread = arg;

    for (int i = 0; i < 3; i++) {
        both_exchange(thread->pair, thread->number, &thread->arrays, &thread->arrays);
    }
    return NULL;
}

static void threads_may_exchange_at_once(void)
{
    int64_t n = 777;
    pair_t pair = open_pair();
    thread_t threads[4];

    for (int i = 0; i < 4; i++) {
        threads[i].pair = &pair;
        threads[i].number = i;
        make_arrays(&threads[i].arrays, pretend_n_devices(), KVS_DTYPE_float64, &n);
        both_init(&pair, i, &threads[i].arrays);
    }
    for (int i = 0; i < 4; i++) {
        KT_INT(pthread_create(&threads[i].id, NULL, exchange_often, &threads[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i].id, NULL);
        KT_INT(n_different(&threads[i].arrays), 0);
        free_arrays(&threads[i].arrays);
    }
    close_pair(&pair);
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
