/* SPDX-License-Identifier: Apache-2.0 */
/* job_nccl.c - jobs of several processes with the stand-ins for NCCL and the driver. Each test is run by every
 * worker of a job that `kvstore run` starts; values are small integers, whose sums are exact in every
 * order, and each worker works out what all of them make. */
#include "nccl_double_api.h"
#include "pretend.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#define MAX_ARRAYS 8
#define FINISH_MS  20000

typedef struct job {
    kvs_store_t *store;
    int rank, n;
} job_t;

static job_t job_open_with(const kvs_option_t *options, size_t n)
{
    job_t job = {NULL, 0, 0};

    pretend_open();
    if (kvs_store_create("nccl", options, n, &job.store) != KVS_OK) {
        fprintf(stderr, "no store: %s\n", kvs_last_error());
        exit(1);
    }
    KT_OK(kvs_store_rank(job.store, &job.rank));
    KT_OK(kvs_store_num_workers(job.store, &job.n));
    return job;
}

static job_t job_open(void)
{
    return job_open_with(NULL, 0);
}

static void job_close(job_t *job)
{
    KT_OK(kvs_store_close(job->store));
}

static void meet(const job_t *job)
{
    KT_OK(kvs_store_barrier(job->store));
}

static void set_fault(const char *faults)
{
    void *library = dlopen(getenv("KVSTORE_NCCL_LIBRARY"), RTLD_NOW);
    nccl_double_fault_t fault;

    *(void **)&fault = dlsym(library, "nccl_double_fault");
    fault(faults);
}

static nccl_double_counts_t counts(void)
{
    void *library = dlopen(getenv("KVSTORE_NCCL_LIBRARY"), RTLD_NOW);
    nccl_double_counts_t now;
    nccl_double_read_t read;

    *(void **)&read = dlsym(library, "nccl_double_read");
    read(&now);
    return now;
}

/* ---- Numbers ------------------------------------------------------------------------------------- */

/* Element `i` of the `place`-th array of worker `rank`. */
static int number(int rank, int place, int64_t i)
{
    return (int)((i * 7 + rank * 3 + place * 5) % 4);
}

static uint16_t half_of(int small) /* 0 to 256 */
{
    int exponent = 0;

    while (small >> (exponent + 1) != 0) {
        exponent++;
    }
    return small == 0 ? 0 : (uint16_t)((15 + exponent) << 10 | ((small << 10 >> exponent) & 0x3ff));
}

static void put(void *array, int dtype, int64_t i, int small)
{
    float value = (float)small;
    uint32_t bits;

    memcpy(&bits, &value, sizeof(bits));
    switch (dtype) {
    case KVS_DTYPE_float32:
        ((float *)array)[i] = value;
        break;
    case KVS_DTYPE_float64:
        ((double *)array)[i] = small;
        break;
    case KVS_DTYPE_float16:
        ((uint16_t *)array)[i] = half_of(small);
        break;
    case KVS_DTYPE_bfloat16:
        ((uint16_t *)array)[i] = (uint16_t)(bits >> 16);
        break;
    case KVS_DTYPE_int32:
        ((int32_t *)array)[i] = small;
        break;
    case KVS_DTYPE_int64:
        ((int64_t *)array)[i] = small;
        break;
    default:
        ((uint8_t *)array)[i] = (uint8_t)small;
    }
}

static kvs_tensor_t make(int device, int dtype, const int64_t *n, int rank, int place)
{
    char *bytes = calloc((size_t)*n + 1, 8);
    kvs_tensor_t tensor;

    for (int64_t i = 0; i < *n; i++) {
        put(bytes, dtype, i, number(rank, place, i));
    }
    tensor = pretend_array(device % pretend_n_devices(), dtype, n, bytes, 0);
    free(bytes);
    return tensor;
}

/* The arrays do not hold `times` what all workers' first `n_values` arrays add up to, plus `more`. */
static int n_wrong(const kvs_tensor_t *tensors, int n_tensors, int n_workers, int n_values,
                   int times, int more)
{
    int64_t n = tensors[0].shape[0];
    int dtype = kvs_dtype_index(tensors[0].dtype), n_bad = 0;
    size_t n_bytes = (size_t)n * pretend_elem_bytes(dtype);
    char *want = calloc(n_bytes + 1, 1), *got = calloc(n_bytes + 1, 1);

    for (int64_t i = 0; i < n; i++) {
        int sum = 0;

        for (int r = 0; r < n_workers; r++) {
            for (int v = 0; v < n_values; v++) {
                sum += number(r, v, i);
            }
        }
        put(want, dtype, i, times * sum + more);
    }
    for (int i = 0; i < n_tensors; i++) {
        pretend_get(&tensors[i], got);
        n_bad += memcmp(got, want, n_bytes) != 0;
    }
    free(want);
    free(got);
    return n_bad;
}

static void free_all(kvs_tensor_t *tensors, int n)
{
    for (int i = 0; i < n; i++) {
        pretend_free(&tensors[i], 0);
    }
}

/* ---- One key of floats ---------------------------------------------------------------------------- */

enum { N = 1001 };

static int64_t n_floats = N;

/* A value and an out on each device. */
typedef struct item {
    kvs_key_t key;
    int n;
    kvs_tensor_t values[MAX_ARRAYS], outs[MAX_ARRAYS];
    kvs_arrays_t in, out;
} item_t;

static void open_item(const job_t *job, item_t *item, int64_t key)
{
    item->key = kvs_key_int(key);
    item->n = pretend_n_devices();
    for (int d = 0; d < item->n; d++) {
        item->values[d] = make(d, KVS_DTYPE_float32, &n_floats, job->rank, d);
        item->outs[d] = make(d, KVS_DTYPE_float32, &n_floats, 0, 3);
    }
    item->in = pretend_list(item->values, (size_t)item->n);
    item->out = pretend_list(item->outs, (size_t)item->n);
}

static kvs_status_t init(const job_t *job, const item_t *item, kvs_event_t **ret_event)
{
    kvs_arrays_t one = pretend_list(item->values, 1);
    kvs_call_t call = KVS_CALL_INIT;

    call.ret_event = ret_event;
    return kvs_store_init(job->store, &item->key, 1, &one, &call);
}

static void init_item(const job_t *job, item_t *item, int64_t key)
{
    open_item(job, item, key);
    KT_OK(init(job, item, NULL));
}

/* Keys 0 to n - 1. */
static void init_items(const job_t *job, item_t *items, int n)
{
    for (int i = 0; i < n; i++) {
        init_item(job, &items[i], i);
    }
}

static void close_item(item_t *item)
{
    free_all(item->values, item->n);
    free_all(item->outs, item->n);
}

static void close_items(item_t *items, int n)
{
    for (int i = 0; i < n; i++) {
        close_item(&items[i]);
    }
}

static kvs_status_t push(const job_t *job, item_t *item)
{
    return kvs_store_push(job->store, &item->key, 1, &item->in, NULL);
}

static kvs_status_t pull(const job_t *job, item_t *item)
{
    return kvs_store_pull(job->store, &item->key, 1, &item->out, NULL);
}

static kvs_status_t pushpull(const job_t *job, item_t *item, kvs_event_t **ret_event)
{
    kvs_call_t call = KVS_CALL_INIT;

    call.ret_event = ret_event;
    return kvs_store_pushpull(job->store, &item->key, 1, &item->in, &item->out, &call);
}

static kvs_status_t finish(kvs_event_t *event)
{
    kvs_status_t status = kvs_event_wait(event, FINISH_MS);

    kvs_event_free(event);
    return status;
}

static void want_sum(const job_t *job, const item_t *item)
{
    KT_INT(n_wrong(item->outs, item->n, job->n, item->n, 1, 0), 0);
}

static void works(const job_t *job, item_t *item)
{
    KT_OK(pushpull(job, item, NULL));
    want_sum(job, item);
}

/* ---- What exchanges give ------------------------------------------------------------------------------ */

static void try_sums(const job_t *job, int64_t key_number, int dtype, int64_t n, int n_values)
{
    kvs_key_t key = kvs_key_int(key_number);
    int n_outs = pretend_n_devices() + 1;
    kvs_tensor_t values[MAX_ARRAYS], outs[MAX_ARRAYS];
    kvs_arrays_t in = pretend_list(values, (size_t)n_values),
                 out = pretend_list(outs, (size_t)n_outs), first = pretend_list(values, 1);

    for (int i = 0; i < n_values; i++) {
        values[i] = make(i, dtype, &n, job->rank, i);
    }
    for (int i = 0; i < n_outs; i++) {
        outs[i] = make(i, dtype, &n, 0, 3);
    }
    KT_OK(kvs_store_init(job->store, &key, 1, &first, NULL));
    KT_OK(kvs_store_pull(job->store, &key, 1, &out, NULL));
    KT_INT(n_wrong(outs, n_outs, 1, 1, 1, 0), 0); /* worker 0's first */
    KT_OK(kvs_store_pushpull(job->store, &key, 1, &in, &out, NULL));
    KT_INT(n_wrong(outs, n_outs, job->n, n_values, 1, 0), 0);
    KT_OK(kvs_store_push(job->store, &key, 1, &first, NULL));
    KT_OK(kvs_store_pull(job->store, &key, 1, &out, NULL));
    KT_INT(n_wrong(outs, n_outs, job->n, 1, 1, 0), 0);
    KT_OK(kvs_store_pushpull(job->store, &key, 1, &in, NULL, NULL));
    KT_INT(n_wrong(values, n_values, job->n, n_values, 1, 0), 0);
    free_all(values, n_values);
    free_all(outs, n_outs);
}

static void sums_of_every_dtype_are_over_all_devices(void)
{
    job_t job = job_open();
    int64_t key = 0;

    for (int dtype = 0; dtype < KVS_N_DTYPES; dtype++) {
        try_sums(&job, key++, dtype, 1003, 1);
        try_sums(&job, key++, dtype, 40009, pretend_n_devices());
        try_sums(&job, key++, dtype, 1, 2 * pretend_n_devices() + 1);
    }
    try_sums(&job, key++, KVS_DTYPE_float32, 0, 2);
    job_close(&job);
}

static void workers_may_bring_different_devices(void)
{
    job_t job = job_open();
    item_t item;

    init_item(&job, &item, 1);
    for (int round = 0; round < 3; round++) {
        int device = (job.rank + round) % item.n;
        kvs_tensor_t value = make(device, KVS_DTYPE_float32, &n_floats, job.rank, 0);
        kvs_arrays_t in = pretend_list(&value, 1);

        KT_OK(kvs_store_push(job.store, &item.key, 1, &in, NULL));
        KT_OK(pull(&job, &item));
        KT_INT(n_wrong(item.outs, item.n, job.n, 1, 1, 0), 0);
        pretend_free(&value, 0);
    }
    close_item(&item);
    job_close(&job);
}

static void worker_0s_value_is_broadcast(void)
{
    job_t job = job_open();
    item_t item;
    kvs_arrays_t one;

    open_item(&job, &item, 4);
    one = pretend_list(item.values, 1);
    KT_OK(kvs_store_broadcast(job.store, &item.key, 1, &one, &item.out, NULL));
    KT_INT(n_wrong(item.outs, item.n, 1, 1, 1, 0), 0);
    works(&job, &item);
    KT_FAIL(kvs_store_broadcast(job.store, &item.key, 1, &one, &item.out, NULL), KVS_ERR_EXISTS,
            "duplicate init of key 4");
    close_item(&item);
    job_close(&job);
}

/* sgd by 1, of gradients in float32: w = init - the sum. */
static void all_workers_make_the_same_updates(void)
{
    job_t job = job_open();
    kvs_param_t rate = {.name = "learning_rate", .type = KVS_PARAM_FLOAT, .value.real = 1};
    kvs_optimizer_spec_t sgd = KVS_OPTIMIZER_INIT;
    item_t item;
    float got[N];

    sgd.name = "sgd";
    sgd.params = &rate;
    sgd.n_params = 1;
    init_item(&job, &item, 1);
    KT_OK(kvs_store_set_optimizer(job.store, &sgd));
    for (int round = 1; round < 4; round++) {
        if (round == 2) {
            KT_OK(push(&job, &item));
            KT_OK(pull(&job, &item));
        } else {
            KT_OK(pushpull(&job, &item, NULL));
        }
        for (int d = 0; d < item.n; d++) {
            int n_bad = 0;

            pretend_get(&item.outs[d], got);
            for (int64_t i = 0; i < N; i++) {
                int sum = 0;

                for (int r = 0; r < job.n; r++) {
                    for (int v = 0; v < item.n; v++) {
                        sum += number(r, v, i);
                    }
                }
                n_bad += got[i] != (float)(number(0, 0, i) - round * sum);
            }
            KT_INT(n_bad, 0);
        }
    }
    close_item(&item);
    job_close(&job);
}

static void a_list_of_keys_is_one_exchange_or_a_few(void)
{
    enum { N_KEYS = 60 };
    job_t job = job_open();
    static item_t items[N_KEYS];
    kvs_key_t keys[N_KEYS];
    kvs_tensor_t values[N_KEYS * MAX_ARRAYS], outs[N_KEYS * MAX_ARRAYS];
    size_t per_key[N_KEYS];
    int n = pretend_n_devices();
    kvs_arrays_t in = {values, (size_t)(N_KEYS * n), per_key, N_KEYS},
                 out = {outs, (size_t)(N_KEYS * n), per_key, N_KEYS};

    init_items(&job, items, N_KEYS);
    for (int i = 0; i < N_KEYS; i++) {
        keys[i] = items[i].key;
        per_key[i] = (size_t)n;
        memcpy(&values[i * n], items[i].values, (size_t)n * sizeof(values[0]));
        memcpy(&outs[i * n], items[i].outs, (size_t)n * sizeof(outs[0]));
    }
    meet(&job);
    KT_OK(kvs_store_pushpull(job.store, keys, N_KEYS, &in, &out, NULL));
    KT_INT(counts().lone, 0);
    for (int i = 0; i < N_KEYS; i++) {
        want_sum(&job, &items[i]);
        close_item(&items[i]);
    }
    job_close(&job);
}

/* ---- Order ----------------------------------------------------------------------------------------- */

/* Each worker begins with another key. */
static void keys_may_be_used_in_different_orders(void)
{
    enum { N_KEYS = 12 };
    job_t job = job_open();
    static item_t items[N_KEYS];
    kvs_event_t *events[N_KEYS];

    for (int i = 0; i < N_KEYS; i++) {
        open_item(&job, &items[i], i);
    }
    for (int i = 0; i < N_KEYS; i++) { /* inits too */
        KT_OK(init(&job, &items[(i * 5 + job.rank * 7) % N_KEYS], &events[i]));
    }
    for (int i = 0; i < N_KEYS; i++) {
        KT_OK(finish(events[i]));
    }
    for (int i = 0; i < N_KEYS; i++) {
        KT_OK(pushpull(&job, &items[(i * 5 + job.rank * 7) % N_KEYS], &events[i]));
    }
    for (int i = 0; i < N_KEYS; i++) {
        KT_OK(finish(events[i]));
    }
    for (int i = 0; i < N_KEYS; i++) { /* pushes return when they are read */
        KT_OK(push(&job, &items[(i * 5 + job.rank * 7) % N_KEYS]));
    }
    for (int i = 0; i < N_KEYS; i++) {
        want_sum(&job, &items[i]);
        KT_OK(pull(&job, &items[i]));
        want_sum(&job, &items[i]);
        close_item(&items[i]);
    }
    job_close(&job);
}

static void pushes_of_a_key_and_pulls_behind_them_keep_their_order(void)
{
    enum { N_ROUNDS = 6 };
    job_t job = job_open();
    item_t item;
    kvs_event_t *events[2 * N_ROUNDS];
    kvs_tensor_t outs[N_ROUNDS];
    kvs_call_t call = KVS_CALL_INIT;

    init_item(&job, &item, 1);
    for (int i = 0; i < N_ROUNDS; i++) {
        kvs_arrays_t in = pretend_list(item.values, (size_t)(i % item.n + 1)), out;

        outs[i] = make(i, KVS_DTYPE_float32, &n_floats, 0, 3);
        out = pretend_list(&outs[i], 1);
        call.ret_event = &events[2 * i];
        KT_OK(kvs_store_push(job.store, &item.key, 1, &in, &call));
        call.ret_event = &events[2 * i + 1];
        KT_OK(kvs_store_pull(job.store, &item.key, 1, &out, &call));
    }
    for (int i = 0; i < 2 * N_ROUNDS; i++) {
        KT_OK(finish(events[i]));
    }
    for (int i = 0; i < N_ROUNDS; i++) {
        KT_INT(n_wrong(&outs[i], 1, job.n, i % item.n + 1, 1, 0), 0);
    }
    free_all(outs, N_ROUNDS);
    close_item(&item);
    job_close(&job);
}

typedef struct thread {
    pthread_t id;
    const job_t *job;
    item_t item;
} thread_t;

static void *exchange_often(void *arg)
{
    thread_t *thread = arg;

    for (int i = 0; i < 5; i++) {
        works(thread->job, &thread->item);
    }
    return NULL;
}

/* Four, each with a key of its own. */
static void run_threads(const job_t *even, const job_t *odd, void *(*run)(void *))
{
    thread_t threads[4];

    for (int i = 0; i < 4; i++) {
        threads[i].job = i % 2 == 0 ? even : odd;
        init_item(threads[i].job, &threads[i].item, i);
    }
    for (int i = 0; i < 4; i++) {
        KT_INT(pthread_create(&threads[i].id, NULL, run, &threads[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i].id, NULL);
        close_item(&threads[i].item);
    }
}

static void threads_and_stores_have_keys_of_their_own(void)
{
    job_t job = job_open(), other = job_open();

    run_threads(&job, &other, exchange_often);
    job_close(&other);
    job_close(&job);
}

static void what_it_is(void)
{
    job_t job = job_open();
    int local = -1, dead = -1;

    KT_STR(kvs_store_type(job.store), "nccl");
    KT_TRUE(job.rank >= 0 && job.rank < job.n);
    KT_INT(job.n, atoi(getenv("KVSTORE_NUM_WORKERS")));
    KT_OK(kvs_store_local_rank(job.store, &local));
    KT_INT(local, job.rank);
    KT_OK(kvs_store_num_dead_nodes(job.store, "worker", 10000, &dead));
    KT_INT(dead, 0);
    meet(&job);
    job_close(&job);
}

/* ---- Workers that differ ------------------------------------------------------------------------------- */

static void a_shape_or_dtype_that_differs_is_told_to_all(void)
{
    job_t job = job_open();
    int64_t n = job.rank == 1 ? 7 : 8;
    int dtype = job.rank == 1 ? KVS_DTYPE_float64 : KVS_DTYPE_float32;
    kvs_tensor_t shaped = make(0, KVS_DTYPE_float32, &n, 0, 0),
                 typed = make(0, dtype, &n_floats, 0, 0);
    kvs_arrays_t one = pretend_list(&shaped, 1), other = pretend_list(&typed, 1);
    kvs_key_t key = kvs_key_int(5), second = kvs_key_str("w");
    item_t item;

    KT_FAIL(kvs_store_init(job.store, &key, 1, &one, NULL), KVS_ERR_SHAPE, "init: key 5: worker ");
    KT_HAS(kvs_last_error(), "float32 (8,)");
    KT_HAS(kvs_last_error(), "float32 (7,)");
    KT_HAS(kvs_last_error(), "worker 1 (host ");
    KT_FAIL(kvs_store_init(job.store, &second, 1, &other, NULL), KVS_ERR_DTYPE, "float64 (1001,)");
    KT_HAS(kvs_last_error(), "init: key 'w': worker ");
    init_item(&job, &item, 5); /* the key was not made */
    works(&job, &item);
    close_item(&item);
    pretend_free(&shaped, 0);
    pretend_free(&typed, 0);
    job_close(&job);
}

static void updates_that_are_not_set_up_alike_are_told_to_all(void)
{
    job_t job = job_open();
    kvs_param_t rate = {.name = "learning_rate", .type = KVS_PARAM_FLOAT, .value.real = 0.5};
    kvs_optimizer_spec_t sgd = KVS_OPTIMIZER_INIT;
    item_t item;

    sgd.name = "sgd";
    init_item(&job, &item, 1);
    KT_OK(kvs_store_set_optimizer(job.store, &sgd));
    KT_OK(pushpull(&job, &item, NULL));
    if (job.rank == 1) {
        KT_OK(kvs_store_set_optimizer_attr(job.store, &rate));
    }
    KT_FAIL(pushpull(&job, &item, NULL), KVS_ERR_STATE, "not set up alike");
    KT_HAS(kvs_last_error(), "worker 1 (host ");
    if (job.rank != 1) {
        KT_OK(kvs_store_set_optimizer_attr(job.store, &rate));
    }
    KT_OK(pushpull(&job, &item, NULL));
    close_item(&item);
    job_close(&job);
}

static void updates_are_alike_whatever_the_order_of_their_parameters(void)
{
    job_t job = job_open();
    kvs_param_t params[] = {{.name = "momentum", .type = KVS_PARAM_FLOAT, .value.real = 0.5},
                            {.name = "learning_rate", .type = KVS_PARAM_FLOAT, .value.real = 0.25},
                            {.name = "momentum", .type = KVS_PARAM_FLOAT, .value.real = 0.5}};
    kvs_multiplier_t mult[] = {{kvs_key_int(1), 0.5}, {kvs_key_int(2), 2}, {kvs_key_int(1), 0.5}};
    kvs_param_name_t names[] = {
        {kvs_key_int(1), "a"}, {kvs_key_int(2), "b"}, {kvs_key_int(1), "a"}};
    kvs_optimizer_spec_t sgd = KVS_OPTIMIZER_INIT;
    item_t item;

    sgd.name = "sgd";
    sgd.params = &params[job.rank % 2];
    sgd.n_params = 2;
    sgd.lr_mult = &mult[job.rank % 2];
    sgd.n_lr_mult = 2;
    sgd.names = &names[job.rank % 2];
    sgd.n_names = 2;
    init_item(&job, &item, 1);
    KT_OK(kvs_store_set_optimizer(job.store, &sgd));
    KT_OK(pushpull(&job, &item, NULL));
    mult[1].value = job.rank == 0 ? 2 : 3;
    KT_OK(kvs_store_set_optimizer(job.store, &sgd));
    KT_FAIL(pushpull(&job, &item, NULL), KVS_ERR_STATE, "not set up alike");
    close_item(&item);
    job_close(&job);
}

static void a_missing_worker_is_named_and_finds_out_when_it_comes(void)
{
    job_t room = job_open(), job = job_open_with(&(kvs_option_t){"timeout", "3"}, 1);
    item_t item;

    init_item(&job, &item, 1);
    if (job.rank == 1) {
        meet(&room); /* the others have given up */
    }
    KT_FAIL(pushpull(&job, &item, NULL), KVS_ERR_TIMEOUT, "pushpull: key 1: not submitted for ");
    KT_HAS(kvs_last_error(), "ms by worker 1 (host ");
    if (job.rank != 1) {
        meet(&room);
    }
    works(&job, &item);
    close_item(&item);
    job_close(&job);
    job_close(&room);
}

/* Pushpulls that wait, of keys that don't meet. */
static void calls_in_opposite_orders_end_at_the_deadline(void)
{
    job_t room = job_open(), job = job_open_with(&(kvs_option_t){"timeout", "3"}, 1);
    item_t items[2];

    init_items(&job, items, 2);
    KT_FAIL(pushpull(&job, &items[job.rank % 2], NULL), KVS_ERR_TIMEOUT, "not submitted for");
    meet(&room);
    KT_FAIL(pushpull(&job, &items[1 - job.rank % 2], NULL), KVS_ERR_TIMEOUT, "not submitted for");
    works(&job, &items[0]);
    works(&job, &items[1]);
    close_items(items, 2);
    job_close(&job);
    job_close(&room);
}

/* ---- Losses ---------------------------------------------------------------------------------------------- */

/* What waits and what follows fail; the communicators are aborted. */
static void want_lost(const job_t *job, item_t *item, kvs_event_t *waiting, const char *who)
{
    KT_FAIL(kvs_event_wait(waiting, FINISH_MS), KVS_ERR_PEER, who);
    kvs_event_free(waiting);
    KT_FAIL(pushpull(job, item, NULL), KVS_ERR_PEER, who);
    KT_FAIL(kvs_store_barrier(job->store), KVS_ERR_PEER, "worker");
}

static void a_worker_killed_before_it_submits_is_named(void)
{
    job_t job = job_open();
    kvs_event_t *event = NULL;
    char who[32];
    item_t item;

    snprintf(who, sizeof(who), "worker %d (host ", job.n - 1);
    init_item(&job, &item, 1);
    works(&job, &item);
    meet(&job);
    if (job.rank == job.n - 1) {
        kill(getpid(), SIGKILL);
    }
    KT_OK(pushpull(&job, &item, &event));
    want_lost(&job, &item, event, who);
    close_item(&item);
    (void)kvs_store_close(job.store); /* what it says was told */
}

/* Its stream is held: all have submitted, and NCCL waits for it in vain. */
static void a_worker_killed_in_the_exchange_is_named(void)
{
    job_t job = job_open();
    CUstream stream;
    kvs_event_t *event = NULL;
    char who[32];
    item_t item;

    snprintf(who, sizeof(who), "worker %d (host ", job.n - 1);
    init_item(&job, &item, 1);
    works(&job, &item);
    stream = pretend_stream(0);
    if (job.rank == job.n - 1) {
        item.values[0].stream = (int64_t)(intptr_t)stream;
        driver.hold(stream, 1);
    }
    KT_OK(pushpull(&job, &item, &event));
    meet(&job); /* all have asked */
    if (job.rank == job.n - 1) {
        kill(getpid(), SIGKILL);
    }
    want_lost(&job, &item, event, who);
    close_item(&item);
    (void)kvs_store_close(job.store);
}

/* The last worker's NCCL reports an error: it ends the job for all. */
static void an_error_of_one_worker_ends_the_job_for_all(void)
{
    job_t job = job_open();
    item_t item;

    init_item(&job, &item, 1);
    works(&job, &item);
    meet(&job);
    if (job.rank == job.n - 1) {
        set_fault("async=1");
    }
    KT_TRUE(pushpull(&job, &item, NULL) != KVS_OK);
    KT_HAS(kvs_last_error(), "key 1");
    KT_HAS(kvs_last_error(), "a link went down");
    KT_HAS(kvs_last_error(), "worker 0: cuda(0)");
    KT_FAIL(pushpull(&job, &item, NULL), KVS_ERR_PLUGIN, "a link went down");
    if (job.rank == job.n - 1) { /* the others may not have begun */
        KT_INT(counts().aborts, item.n);
    }
    close_item(&item);
    (void)kvs_store_close(job.store);
}

/* All keys under way fail, whether they went together or not. */
static void an_exchange_that_hangs_ends_at_the_deadline_for_all(void)
{
    enum { N_KEYS = 4 };
    job_t job = job_open();
    static item_t items[N_KEYS];
    kvs_event_t *events[N_KEYS];

    init_items(&job, items, N_KEYS);
    works(&job, &items[0]);
    meet(&job);
    if (job.rank == job.n - 1) {
        set_fault("hang=1");
    }
    for (int i = 0; i < N_KEYS; i++) {
        KT_OK(pushpull(&job, &items[i], &events[i]));
    }
    for (int i = 0; i < N_KEYS; i++) {
        KT_TRUE(finish(events[i]) != KVS_OK);
        KT_HAS(kvs_last_error(), " failed: it was not done after 3000 ms");
    }
    KT_TRUE(pushpull(&job, &items[0], NULL) != KVS_OK);
    KT_HAS(kvs_last_error(), "not done after 3000 ms");
    close_items(items, N_KEYS);
    (void)kvs_store_close(job.store);
}

/* Its communicators never come about. */
static void communicators_that_one_worker_can_not_make_end_the_job(void)
{
    job_t job = job_open();
    item_t item;

    open_item(&job, &item, 1);
    if (job.rank == job.n - 1) {
        set_fault("init");
    }
    KT_TRUE(init(&job, &item, NULL) != KVS_OK);
    KT_HAS(kvs_last_error(), "init: key 1: ");
    KT_HAS(kvs_last_error(), "after 3000 ms");
    close_item(&item);
    (void)kvs_store_close(job.store);
}

/* ---- What only one worker lacks ------------------------------------------------------------------------ */

/* Its device is full: the sum of its two values has no room. The others wait for it in vain. */
static void memory_that_one_worker_lacks_is_told_to_it(void)
{
    job_t room = job_open(), job = job_open_with(&(kvs_option_t){"timeout", "3"}, 1);
    kvs_device_t device = {KVS_DEVICE_CUDA, 0};
    kvs_tensor_t values[2];
    kvs_arrays_t in = pretend_list(values, 2);
    void *ballast[64];
    size_t sizes[64], n_ballast = 0;
    item_t item;

    init_item(&job, &item, 1);
    works(&job, &item);
    for (int i = 0; i < 2; i++) {
        values[i] = make(0, KVS_DTYPE_float32, &n_floats, job.rank, i);
    }
    meet(&room);
    if (job.rank == job.n - 1) {
        for (size_t n_bytes = 1 << 20; n_bytes >= 64; n_bytes /= 2) {
            while (n_ballast < 64 &&
                   kvs_device_alloc(device, n_bytes, &ballast[n_ballast]) == KVS_OK) {
                sizes[n_ballast++] = n_bytes;
            }
        }
        KT_FAIL(kvs_store_pushpull(job.store, &item.key, 1, &in, NULL, NULL), KVS_ERR_NO_MEMORY,
                "cuda(0)");
        KT_FAIL(kvs_store_push(job.store, &item.key, 1, &in, NULL), KVS_ERR_NO_MEMORY, "cuda(0)");
        while (n_ballast > 0) {
            n_ballast--;
            kvs_device_free(device, ballast[n_ballast], sizes[n_ballast]);
        }
    } else {
        KT_FAIL(kvs_store_pushpull(job.store, &item.key, 1, &in, NULL, NULL), KVS_ERR_TIMEOUT,
                "not submitted for");
    }
    meet(&room);
    if (job.rank == job.n - 1) { /* it is told what the others have given up */
        KT_FAIL(pushpull(&job, &item, NULL), KVS_ERR_TIMEOUT, "not submitted for");
    }
    works(&job, &item);
    free_all(values, 2);
    close_item(&item);
    job_close(&job);
    job_close(&room);
}

static void a_worker_that_closes_its_store_is_named(void)
{
    job_t room = job_open(), job = job_open();
    item_t item;

    init_item(&job, &item, 1);
    works(&job, &item);
    if (job.rank == 1) {
        job_close(&job);
    } else {
        KT_TRUE(pushpull(&job, &item, NULL) != KVS_OK);
        KT_HAS(kvs_last_error(), "worker 1 (host ");
        KT_TRUE(push(&job, &item) != KVS_OK || kvs_store_wait_all(job.store, FINISH_MS) != KVS_OK);
        (void)kvs_store_close(job.store);
    }
    meet(&room);
    init_item(&room, &item, 2);
    works(&room, &item);
    close_item(&item);
    job_close(&room);
}

/* What a cancelled worker has pending ends, it closes in good order, and the others hear that. */
static void a_cancelled_worker_leaves_and_the_others_are_told(void)
{
    enum { N_KEYS = 6 };
    job_t room = job_open(), job = job_open();
    static item_t items[2 * N_KEYS];
    kvs_event_t *events[2 * N_KEYS];
    kvs_status_t status;

    for (int i = 0; i < 2 * N_KEYS; i++) { /* the second of a key waits for the first */
        open_item(&job, &items[i], i / 2);
    }
    for (int i = 0; i < 2 * N_KEYS; i += 2) {
        KT_OK(init(&job, &items[i], NULL));
    }
    if (job.rank == 0) {
        for (int i = 0; i < 2 * N_KEYS; i++) {
            KT_OK(pushpull(&job, &items[i], &events[i]));
        }
        kvs_store_cancel(job.store);
        status = kvs_store_close(job.store);
        KT_TRUE(status == KVS_OK || strstr(kvs_last_error(), "abandoned") == NULL);
        for (int i = 0; i < 2 * N_KEYS; i++) {
            int done = 0;

            KT_OK(kvs_event_test(events[i], &done));
            KT_INT(done, 1);
            KT_INT(finish(events[i]), KVS_ERR_CANCELLED);
        }
    }
    meet(&room);
    if (job.rank != 0) {
        KT_FAIL(pushpull(&job, &items[0], NULL), KVS_ERR_PEER, "worker 0 (host ");
        KT_HAS(kvs_last_error(), "has closed the store");
        job_close(&job);
    }
    close_items(items, 2 * N_KEYS);
    init_item(&room, &items[0], 1); /* the other store is as it was */
    works(&room, &items[0]);
    close_item(&items[0]);
    job_close(&room);
}

/* With an optimizer, whose numbers all keys share. */
static void *step_often(void *arg)
{
    thread_t *thread = arg;

    for (int i = 0; i < 8; i++) {
        KT_OK(push(thread->job, &thread->item));
        KT_OK(pull(thread->job, &thread->item));
    }
    return NULL;
}

static void threads_update_keys_of_their_own(void)
{
    job_t job = job_open();
    kvs_optimizer_spec_t adam = KVS_OPTIMIZER_INIT;

    adam.name = "adam";
    KT_OK(kvs_store_set_optimizer(job.store, &adam));
    run_threads(&job, &job, step_often);
    job_close(&job);
}

/* It dies while exchanges begin and end, and nobody closes the store. */
static void exchanges_of_a_worker_that_is_killed_hang_nobody(void)
{
    enum { N_KEYS = 30 };
    job_t job = job_open();
    static item_t items[N_KEYS];
    kvs_event_t *events[N_KEYS];

    init_items(&job, items, N_KEYS);
    for (int i = 0; i < N_KEYS; i++) {
        KT_OK(pushpull(&job, &items[i], &events[i]));
    }
    if (job.rank == job.n - 1) {
        kill(getpid(), SIGKILL);
    }
    for (int i = 0; i < N_KEYS; i++) {
        kvs_status_t status = finish(events[i]);

        KT_TRUE(status == KVS_OK || strstr(kvs_last_error(), "worker ") != NULL);
    }
}

static const kt_test_t tests[] = {
    KT_TEST(sums_of_every_dtype_are_over_all_devices),
    KT_TEST(workers_may_bring_different_devices),
    KT_TEST(worker_0s_value_is_broadcast),
    KT_TEST(all_workers_make_the_same_updates),
    KT_TEST(a_list_of_keys_is_one_exchange_or_a_few),
    KT_TEST(keys_may_be_used_in_different_orders),
    KT_TEST(pushes_of_a_key_and_pulls_behind_them_keep_their_order),
    KT_TEST(threads_and_stores_have_keys_of_their_own),
    KT_TEST(what_it_is),
    KT_TEST(a_shape_or_dtype_that_differs_is_told_to_all),
    KT_TEST(updates_that_are_not_set_up_alike_are_told_to_all),
    KT_TEST(updates_are_alike_whatever_the_order_of_their_parameters),
    KT_TEST(a_missing_worker_is_named_and_finds_out_when_it_comes),
    KT_TEST(calls_in_opposite_orders_end_at_the_deadline),
    KT_TEST(a_worker_killed_before_it_submits_is_named),
    KT_TEST(a_worker_killed_in_the_exchange_is_named),
    KT_TEST(an_error_of_one_worker_ends_the_job_for_all),
    KT_TEST(an_exchange_that_hangs_ends_at_the_deadline_for_all),
    KT_TEST(communicators_that_one_worker_can_not_make_end_the_job),
    KT_TEST(memory_that_one_worker_lacks_is_told_to_it),
    KT_TEST(a_worker_that_closes_its_store_is_named),
    KT_TEST(a_cancelled_worker_leaves_and_the_others_are_told),
    KT_TEST(threads_update_keys_of_their_own),
    KT_TEST(exchanges_of_a_worker_that_is_killed_hang_nobody),
};

KT_MAIN("job_nccl", tests)
