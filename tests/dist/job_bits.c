/* SPDX-License-Identifier: Apache-2.0 */
/* job_bits.c - a job of n workers gives the bits of `local` with a list of n values: for every dtype,
 * with and without an optimizer, with arrays that are cut over servers and norms of whole arrays. Each
 * rank makes the values of all ranks and lets a local store say what is right. */
#include "job.h"

#include <stdlib.h>

#define N_ROUNDS 3

typedef struct array_case {
    int dtype;
    int32_t ndim;
    int64_t shape[3];
} array_case_t;

typedef struct optimizer_case {
    const char *name; /* NULL: none */
    double learning_rate;
    int multi_precision;
} optimizer_case_t;

static size_t bytes_each(int dtype)
{
    return kvs_dtype(dtype).bits / 8;
}

static int64_t n_elems_of(const array_case_t *array)
{
    int64_t n = 1;

    for (int32_t i = 0; i < array->ndim; i++) {
        n *= array->shape[i];
    }
    return n;
}

/* ---- Numbers: the same on every rank ------------------------------------------------------------------- */

static uint64_t mix(uint64_t x)
{
    x ^= x >> 31;
    x *= 0x9E3779B97F4A7C15u;
    x ^= x >> 29;
    x *= 0xBF58476D1CE4E5B9u;
    return x ^ (x >> 32);
}

/* From a float of eight significant bits, which every floating dtype holds. */
static void put(int dtype, char *to, float value)
{
    uint32_t bits;
    double wide = value;
    uint16_t half;

    memcpy(&bits, &value, sizeof(bits));
    switch (dtype) {
    case KVS_DTYPE_float32:
        memcpy(to, &value, sizeof(value));
        return;
    case KVS_DTYPE_float64:
        memcpy(to, &wide, sizeof(wide));
        return;
    case KVS_DTYPE_bfloat16:
        half = (uint16_t)(bits >> 16);
        memcpy(to, &half, sizeof(half));
        return;
    default: /* float16: exponents here are small */
        half = (uint16_t)((bits >> 16 & 0x8000) | ((bits >> 23 & 0xff) - 112) << 10 |
                          (bits >> 13 & 0x3ff));
        half = value == 0 ? 0 : half;
        memcpy(to, &half, sizeof(half));
        return;
    }
}

static void fill(const array_case_t *array, uint64_t seed, char *data)
{
    size_t n_bytes = bytes_each(array->dtype);

    for (int64_t i = 0; i < n_elems_of(array); i++) {
        uint64_t random = mix(seed * 1000003 + (uint64_t)i);

        if (kvs_dtype(array->dtype).code == KVS_CODE_INT ||
            kvs_dtype(array->dtype).code == KVS_CODE_UINT) {
            memcpy(data + (size_t)i * n_bytes, &random, n_bytes); /* sums wrap */
        } else {
            /* 1/256 … 1, either sign, eight bits */
            float value = (float)(int)(random % 255 + 1) / (float)(256 << (random >> 20 & 3));

            put(array->dtype, data + (size_t)i * n_bytes, random >> 40 & 1 ? -value : value);
        }
    }
}

static void *make(const array_case_t *array, uint64_t seed)
{
    void *data = calloc((size_t)n_elems_of(array) + 1, bytes_each(array->dtype));

    if (data == NULL) {
        exit(2);
    }
    fill(array, seed, data);
    return data;
}

static kvs_tensor_t tensor_of(const array_case_t *array, void *data)
{
    return kt_tensor(data, array->dtype, array->shape, array->ndim);
}

/* ---- One case ------------------------------------------------------------------------------------------ */

static kvs_status_t set_optimizer(kvs_store_t *store, const optimizer_case_t *optimizer)
{
    return JOB_OPTIMIZER(store, optimizer->name,
                         JOB_REAL("learning_rate", optimizer->learning_rate),
                         JOB_REAL("rescale_grad", 0.5), JOB_REAL("wd", 0.0),
                         JOB_BOOL("multi_precision", optimizer->multi_precision));
}

static void push_all_locally(kvs_store_t *local, kvs_key_t key, const array_case_t *array,
                             int n_workers, uint64_t seed)
{
    kvs_tensor_t tensors[16];
    kvs_arrays_t values = kvs_arrays(tensors, (size_t)n_workers);

    for (int w = 0; w < n_workers; w++) {
        tensors[w] = tensor_of(array, make(array, seed + (uint64_t)w));
    }
    KT_OK(kvs_store_push(local, &key, 1, &values, NULL));
    for (int w = 0; w < n_workers; w++) {
        free(tensors[w].data);
    }
}

static void compare(const job_t *job, kvs_store_t *local, kvs_key_t key, const array_case_t *array,
                    const char *what)
{
    size_t n_bytes = (size_t)n_elems_of(array) * bytes_each(array->dtype);
    char *got = calloc(n_bytes + 1, 1), *want = calloc(n_bytes + 1, 1);
    kvs_tensor_t got_tensor = tensor_of(array, got), want_tensor = tensor_of(array, want);
    kvs_arrays_t got_outs = kvs_arrays(&got_tensor, 1), want_outs = kvs_arrays(&want_tensor, 1);
    size_t at = 0;

    KT_OK(kvs_store_pull(job->store, &key, 1, &got_outs, NULL));
    KT_OK(kvs_store_pull(local, &key, 1, &want_outs, NULL));
    while (at < n_bytes && got[at] == want[at]) {
        at++;
    }
    if (at < n_bytes) {
        fprintf(stderr, "%s: %s, element %zu of %lld differs\n", what,
                kvs_dtype_name(kvs_dtype(array->dtype)), at / bytes_each(array->dtype),
                (long long)n_elems_of(array));
    }
    KT_INT(at, n_bytes);
    free(got);
    free(want);
}

/* Push and pull alternate with pushpull, which pulls too. */
static void push_own(const job_t *job, kvs_key_t key, const array_case_t *array, int round,
                     uint64_t seed)
{
    void *data = make(array, seed + (uint64_t)job->rank), *out = make(array, 0);
    kvs_tensor_t value = tensor_of(array, data), out_tensor = tensor_of(array, out);
    kvs_arrays_t values = kvs_arrays(&value, 1), outs = kvs_arrays(&out_tensor, 1);

    if (round % 2 == 0) {
        KT_OK(kvs_store_push(job->store, &key, 1, &values, NULL));
    } else {
        KT_OK(kvs_store_pushpull(job->store, &key, 1, &values, &outs, NULL));
    }
    free(data);
    free(out);
}

static void run_case(const job_t *job, kvs_store_t *local, int64_t number,
                     const array_case_t *array, const char *what)
{
    kvs_key_t key = kvs_key_int(number);
    void *first = make(array, (uint64_t)number);
    kvs_tensor_t value = tensor_of(array, first);
    kvs_arrays_t values = kvs_arrays(&value, 1);

    KT_OK(kvs_store_init(job->store, &key, 1, &values, NULL));
    KT_OK(kvs_store_init(local, &key, 1, &values, NULL));
    free(first);
    for (int round = 0; round < N_ROUNDS; round++) {
        uint64_t seed = (uint64_t)(1000 * number + 100 * round + 1);

        push_own(job, key, array, round, seed);
        push_all_locally(local, key, array, job->n_workers, seed);
        compare(job, local, key, array, what);
    }
}

/* Small, empty, cut at 65,536 elements and odd ones; cut rows and whole ones. */
static const int64_t shapes[][3] = {{1, 7, 0},      {1, 0, 0}, {1, 140001, 0},   {2, 300, 512},
                                    {2, 1211, 121}, {0, 0, 0}, {3, 4, 100 * 256}};

static array_case_t case_of(int dtype, size_t s)
{
    array_case_t array = {.dtype = dtype, .ndim = (int32_t)shapes[s][0]};

    array.shape[0] = shapes[s][1];
    array.shape[1] = array.ndim == 3 ? shapes[s][2] / 256 : shapes[s][2];
    array.shape[2] = 256;
    return array;
}

#define N_SHAPES (sizeof(shapes) / sizeof(shapes[0]))

static void run_all(const optimizer_case_t *optimizer, int floats_only, int optimizer_first)
{
    job_t job = JOB_OPEN({"bigarray_bound", "100000"});
    kvs_store_t *local = NULL;
    int64_t number = 1;

    KT_OK(kvs_store_create("local", NULL, 0, &local));
    if (optimizer->name != NULL && optimizer_first) {
        KT_OK(set_optimizer(job.store, optimizer));
        KT_OK(set_optimizer(local, optimizer));
    }
    for (int dtype = 0; dtype < KVS_N_DTYPES; dtype++) {
        int is_float = dtype <= KVS_DTYPE_bfloat16;

        for (size_t s = 0; s < N_SHAPES && (is_float || !floats_only); s++) {
            array_case_t array = case_of(dtype, s);

            run_case(&job, local, number++, &array,
                     optimizer->name == NULL ? "no optimizer" : optimizer->name);
        }
    }
    KT_OK(kvs_store_close(local));
    job_close(&job);
}

/* ---- Scenarios ----------------------------------------------------------------------------------------- */

static void sums_of_every_dtype_and_shape(void)
{
    run_all(&(optimizer_case_t){.name = NULL}, 0, 0);
}

static void optimizers_by_element(void)
{
    static const optimizer_case_t cases[] = {
        {"sgd", 0.1, 0}, {"sgd", 0.1, 1}, {"adam", 0.01, 0}, {"nadam", 0.01, 1}, {"ftrl", 0.1, 0}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        run_all(&cases[i], 1, 1);
    }
}

static void optimizers_by_whole_array(void)
{
    static const optimizer_case_t cases[] = {
        {"lamb", 0.01, 0}, {"lamb", 0.01, 1}, {"lans", 0.01, 0}, {"lars", 0.1, 1}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        run_all(&cases[i], 1, 1);
    }
}

static void optimizers_by_row(void)
{
    run_all(&(optimizer_case_t){"groupadagrad", 0.1, 0}, 1, 1);
}

/* Keys are there first, and big ones are cut already. */
static void an_optimizer_that_comes_late(void)
{
    array_case_t array = case_of(KVS_DTYPE_float32, 3);
    job_t job = JOB_OPEN({"bigarray_bound", "100000"});
    kvs_store_t *local = NULL;
    kvs_key_t key = kvs_key_str("weight");
    void *first = make(&array, 5);
    kvs_tensor_t value = tensor_of(&array, first);
    kvs_arrays_t values = kvs_arrays(&value, 1);
    static const optimizer_case_t cases[] = {
        {"sgd", 0.1, 0}, {"lamb", 0.01, 0}, {"groupadagrad", 0.1, 0}, {"lamb", 0.02, 0}};

    KT_OK(kvs_store_create("local", NULL, 0, &local));
    KT_OK(kvs_store_init(job.store, &key, 1, &values, NULL));
    KT_OK(kvs_store_init(local, &key, 1, &values, NULL));
    free(first);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        KT_OK(set_optimizer(job.store, &cases[i]));
        KT_OK(set_optimizer(local, &cases[i]));
        for (int round = 0; round < 2; round++) {
            uint64_t seed = 100 * i + 10 * (uint64_t)round + 7;

            push_own(&job, key, &array, round, seed);
            push_all_locally(local, key, &array, job.n_workers, seed);
            compare(&job, local, key, &array, cases[i].name);
        }
    }
    KT_OK(kvs_store_close(local));
    job_close(&job);
}

/* Rates change as a schedule and the program say, states come and go with the momentum. */
static void attributes_and_schedules(void)
{
    array_case_t array = case_of(KVS_DTYPE_float32, 2);
    job_t job = JOB_OPEN({"bigarray_bound", "100000"});
    kvs_store_t *local = NULL;
    kvs_key_t key = kvs_key_int(9);
    void *first = make(&array, 5);
    kvs_tensor_t value = tensor_of(&array, first);
    kvs_arrays_t values = kvs_arrays(&value, 1);

    KT_OK(kvs_store_create("local", NULL, 0, &local));
    KT_OK(kvs_store_init(job.store, &key, 1, &values, NULL));
    KT_OK(kvs_store_init(local, &key, 1, &values, NULL));
    free(first);
    KT_OK(JOB_OPTIMIZER(job.store, "sgd", JOB_REAL("learning_rate", 0.5)));
    KT_OK(JOB_OPTIMIZER(local, "sgd", JOB_REAL("learning_rate", 0.5)));
    for (int round = 0; round < 6; round++) {
        kvs_param_t rate = JOB_REAL("learning_rate", 0.5 / (round + 1));
        kvs_param_t momentum = JOB_REAL("momentum", round % 3 == 2 ? 0.0 : 0.9);
        uint64_t seed = 10 * (uint64_t)round + 7;

        KT_OK(kvs_store_set_optimizer_attr(job.store, &rate));
        KT_OK(kvs_store_set_optimizer_attr(local, &rate));
        KT_OK(kvs_store_set_optimizer_attr(job.store, &momentum));
        KT_OK(kvs_store_set_optimizer_attr(local, &momentum));
        push_own(&job, key, &array, round, seed);
        push_all_locally(local, key, &array, job.n_workers, seed);
        compare(&job, local, key, &array, "sgd with attributes");
    }
    KT_OK(kvs_store_close(local));
    job_close(&job);
}

/* Several values of a worker are summed before they are sent. */
static void lists_of_values(void)
{
    array_case_t array = {.dtype = KVS_DTYPE_int32, .ndim = 1, .shape = {70001}};
    job_t job = JOB_OPEN({"bigarray_bound", "100000"});
    kvs_store_t *local = NULL;
    kvs_key_t key = kvs_key_int(3);
    void *first = make(&array, 1);
    kvs_tensor_t value = tensor_of(&array, first), mine[3];
    kvs_arrays_t values = kvs_arrays(&value, 1), lists = kvs_arrays(mine, 3);

    KT_OK(kvs_store_create("local", NULL, 0, &local));
    KT_OK(kvs_store_init(job.store, &key, 1, &values, NULL));
    KT_OK(kvs_store_init(local, &key, 1, &values, NULL));
    free(first);
    for (int i = 0; i < 3; i++) {
        mine[i] = tensor_of(&array, make(&array, (uint64_t)(3 * job.rank + i)));
    }
    KT_OK(kvs_store_push(job.store, &key, 1, &lists, NULL));
    push_all_locally(local, key, &array, 3 * job.n_workers, 0);
    compare(&job, local, key, &array, "lists");
    for (int i = 0; i < 3; i++) {
        free(mine[i].data);
    }
    KT_OK(kvs_store_close(local));
    job_close(&job);
}

static const kt_test_t tests[] = {
    KT_TEST(sums_of_every_dtype_and_shape),
    KT_TEST(optimizers_by_element),
    KT_TEST(optimizers_by_whole_array),
    KT_TEST(optimizers_by_row),
    KT_TEST(an_optimizer_that_comes_late),
    KT_TEST(attributes_and_schedules),
    KT_TEST(lists_of_values),
};

KT_MAIN("job_bits", tests)
