/* SPDX-License-Identifier: Apache-2.0 */
/* Streams: what was put into a program's stream before a call comes before the work of the call, what is
 * put there after it comes after, and the host waits for nothing. A stream that is held back shows
 * whether somebody waits for it: a provider without its waits fails here (mutant_waits.c). Also what
 * an exchange costs, counted. */
#include "pretend.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

enum { MAX_DEVICES = 8 };

static const int64_t n_small = 1000, n_big = 65536 * 8 + 3;

/* Copies of other host memory may wait for the stream, and nothing would be held back. */
static const kvs_device_t pinned = {KVS_DEVICE_CUDA_HOST, 0};

typedef struct bench {
    kvs_store_t *store;
    int n;
    CUstream streams[MAX_DEVICES];
    kvs_tensor_t values[MAX_DEVICES], outs[MAX_DEVICES];
    float *numbers, *got;
    size_t n_bytes;
} bench_t;

/* A store with one key of zeros, whose weight has moved to its devices; a value and an out on each, full
 * of 1000, with a stream each. */
static void set_up(bench_t *bench, const int64_t *n_elems)
{
    kvs_key_t key = kvs_key_int(5);

    *bench = (bench_t){.n = pretend_n_devices(), .n_bytes = (size_t)*n_elems * sizeof(float)};
    bench->n = bench->n < MAX_DEVICES ? bench->n : MAX_DEVICES;
    KT_OK(kvs_device_alloc(pinned, bench->n_bytes, (void **)&bench->numbers));
    KT_OK(kvs_device_alloc(pinned, bench->n_bytes, (void **)&bench->got));
    KT_OK(kvs_store_create("device", NULL, 0, &bench->store));
    kvs_tensor_t zero = KT_F32(bench->numbers, *n_elems);
    kvs_arrays_t list = pretend_list(&zero, 1);

    KT_OK(kvs_store_init(bench->store, &key, 1, &list, NULL));
    for (int64_t i = 0; i < *n_elems; i++) {
        bench->numbers[i] = 1000;
    }
    for (int d = 0; d < bench->n; d++) {
        bench->streams[d] = pretend_stream(d);
        bench->values[d] = pretend_array(d, KVS_DTYPE_float32, n_elems, bench->numbers, 0);
        bench->outs[d] = pretend_array(d, KVS_DTYPE_float32, n_elems, bench->numbers, 0);
    }
    list = pretend_list(bench->values, (size_t)bench->n);
    KT_OK(kvs_store_push(bench->store, &key, 1, &list, NULL));
    for (int d = 0; d < bench->n; d++) {
        bench->values[d].stream = bench->outs[d].stream = (int64_t)(intptr_t)bench->streams[d];
    }
}

static void tear_down(bench_t *bench)
{
    for (int d = 0; d < bench->n; d++) {
        pretend_sync(d, bench->streams[d]);
        pretend_free(&bench->values[d], 0);
        pretend_free(&bench->outs[d], 0);
    }
    KT_OK(kvs_store_close(bench->store));
    kvs_device_free(pinned, bench->numbers, bench->n_bytes);
    kvs_device_free(pinned, bench->got, bench->n_bytes);
}

static void exchange(const bench_t *bench)
{
    kvs_key_t key = kvs_key_int(5);
    kvs_arrays_t values = pretend_list(bench->values, (size_t)bench->n);
    kvs_arrays_t outs = pretend_list(bench->outs, (size_t)bench->n);

    KT_OK(kvs_store_pushpull(bench->store, &key, 1, &values, &outs, NULL));
}

static void hold_all(const bench_t *bench, int on)
{
    for (int d = 0; d < bench->n; d++) {
        pretend_hold(d, bench->streams[d], on);
    }
}

/* Every element of every out, read in the order of its stream, is `want`. */
static void want_outs(bench_t *bench, float want)
{
    for (int d = 0; d < bench->n; d++) {
        int64_t n_wrong = 0;

        pretend_read(d, bench->streams[d], &bench->outs[d], bench->got, bench->n_bytes);
        pretend_sync(d, bench->streams[d]);
        for (size_t i = 0; i < bench->n_bytes / sizeof(float); i++) {
            n_wrong += bench->got[i] != want;
        }
        KT_INT(n_wrong, 0);
    }
}

static void fill(bench_t *bench, float value)
{
    for (size_t i = 0; i < bench->n_bytes / sizeof(float); i++) {
        bench->numbers[i] = value;
    }
}

static void write_values(bench_t *bench)
{
    for (int d = 0; d < bench->n; d++) {
        pretend_write(d, bench->streams[d], &bench->values[d], bench->numbers, bench->n_bytes);
    }
}

static void try_values_after_streams(const int64_t *n_elems)
{
    bench_t bench;

    set_up(&bench, n_elems);
    fill(&bench, 3);
    hold_all(&bench, 1);
    write_values(&bench);
    exchange(&bench);    /* returns, though nothing can have been summed */
    (void)usleep(20000); /* time for whoever does not wait to read too early */
    hold_all(&bench, 0);
    want_outs(&bench, 3.0f * (float)bench.n);
    tear_down(&bench);
}

static void values_are_read_after_their_streams(void)
{
    try_values_after_streams(&n_small);
    try_values_after_streams(&n_big);
}

static void outs_are_written_after_their_streams(void)
{
    bench_t bench;
    float *old;

    set_up(&bench, &n_big);
    old = malloc(bench.n_bytes);
    hold_all(&bench, 1);
    pretend_read(0, bench.streams[0], &bench.outs[0], old, bench.n_bytes);
    exchange(&bench);
    (void)usleep(20000);
    hold_all(&bench, 0);
    want_outs(&bench, 1000.0f * (float)bench.n);
    KT_REAL(old[0], 1000);
    KT_REAL(old[n_big - 1], 1000);
    free(old);
    tear_down(&bench);
}

static void streams_go_on_after_the_exchange(void)
{
    bench_t bench;

    set_up(&bench, &n_big);
    exchange(&bench);
    fill(&bench, -7); /* while the sum may still be under way */
    write_values(&bench);
    want_outs(&bench, 1000.0f * (float)bench.n);
    exchange(&bench);
    want_outs(&bench, -7.0f * (float)bench.n);
    tear_down(&bench);
}

static void exchanges_follow_one_another_without_waiting(void)
{
    kvs_key_t key = kvs_key_int(5);
    bench_t bench;

    set_up(&bench, &n_big);
    hold_all(&bench, 1);
    exchange(&bench);
    for (int i = 0; i < 3; i++) { /* each sums what the last one wrote, in place */
        kvs_arrays_t outs = pretend_list(bench.outs, (size_t)bench.n);

        KT_OK(kvs_store_pushpull(bench.store, &key, 1, &outs, NULL, NULL));
    }
    hold_all(&bench, 0);
    float want = 1000.0f;

    for (int i = 0; i < 4; i++) {
        want *= (float)bench.n;
    }
    want_outs(&bench, want);
    tear_down(&bench);
}

static void the_legacy_stream_is_a_stream_too(void)
{
    bench_t bench;

    set_up(&bench, &n_small);
    for (int d = 0; d < bench.n; d++) {
        bench.streams[d] = CU_STREAM_LEGACY;
        bench.values[d].stream = bench.outs[d].stream = 1;
    }
    fill(&bench, 2);
    write_values(&bench);
    exchange(&bench);
    want_outs(&bench, 2.0f * (float)bench.n);
    tear_down(&bench);
}

/* The per-thread stream, -1 and no stream at all: the call ends when it is done with the arrays. */
static void without_a_stream_to_wait_the_call_ends_when_all_is_done(void)
{
    const int64_t streams[] = {0, -1, 2};
    bench_t bench;

    set_up(&bench, &n_big);
    for (int i = 0; i < 3; i++) {
        for (int d = 0; d < bench.n; d++) {
            bench.values[d].stream = bench.outs[d].stream = streams[i];
            KT_OK(kvs_device_copy(bench.outs[d].device, bench.outs[d].data,
                                  (kvs_device_t){KVS_DEVICE_CPU, 0}, bench.numbers, bench.n_bytes));
        }
        exchange(&bench);
        pretend_read(0, bench.streams[0], &bench.outs[0], bench.got, bench.n_bytes);
        pretend_sync(0, bench.streams[0]);
        KT_REAL(bench.got[n_big - 1], 1000.0 * bench.n);
    }
    tear_down(&bench);
}

static void *exchange_elsewhere(void *arg)
{
    exchange(arg);
    return NULL;
}

static void several_threads_may_exchange_at_once(void)
{
    bench_t benches[3];
    pthread_t threads[3];

    for (int i = 0; i < 3; i++) {
        set_up(&benches[i], &n_big);
        fill(&benches[i], (float)i);
        write_values(&benches[i]);
    }
    for (int i = 0; i < 3; i++) {
        KT_INT(pthread_create(&threads[i], NULL, exchange_elsewhere, &benches[i]), 0);
    }
    for (int i = 0; i < 3; i++) {
        pthread_join(threads[i], NULL);
        want_outs(&benches[i], (float)(i * benches[i].n));
        tear_down(&benches[i]);
    }
}

/* ---- Cost ------------------------------------------------------------------------------------------- */

static cuda_double_counts_t cost_of_an_exchange(const int64_t *n_elems, const char *optimizer)
{
    cuda_double_counts_t counts;
    bench_t bench;

    set_up(&bench, n_elems);
    if (optimizer != NULL) {
        kvs_optimizer_spec_t spec = KVS_OPTIMIZER_INIT;

        spec.name = optimizer;
        KT_OK(kvs_store_set_optimizer(bench.store, &spec));
        exchange(&bench); /* the weight goes out again, and states are made */
    }
    driver.reset_counts();
    exchange(&bench);
    driver.read_counts(&counts);
    tear_down(&bench);
    return counts;
}

static void an_exchange_is_one_launch_for_each_device_and_no_copy(void)
{
    const char *const optimizers[] = {NULL, "sgd", "adam"};

    for (int i = 0; i < 3 && driver.read_counts != NULL; i++) {
        cuda_double_counts_t small = cost_of_an_exchange(&n_small, optimizers[i]);
        cuda_double_counts_t big = cost_of_an_exchange(&n_big, optimizers[i]);

        KT_INT(small.launches, 1);
        KT_INT(big.launches, pretend_n_devices());
        KT_INT(small.copies + big.copies, 0);
        KT_INT(small.bytes + big.bytes, 0);
        KT_INT(small.host_syncs + big.host_syncs, 0);
        KT_INT(small.allocs + big.allocs, 0);
    }
}

/* Twenty small keys on device 0, whose weights have moved there; all elements of key k are k. */
enum { N_KEYS = 20, N_SMALL = 100 };

typedef struct small_keys {
    kvs_store_t *store;
    kvs_key_t keys[N_KEYS];
    kvs_tensor_t values[N_KEYS];
    kvs_arrays_t list;
} small_keys_t;

static void set_up_small(small_keys_t *small, const char *optimizer)
{
    kvs_optimizer_spec_t spec = KVS_OPTIMIZER_INIT;
    kvs_param_t rate = {.name = "learning_rate", .type = KVS_PARAM_FLOAT, .value.real = 0.5};
    float numbers[N_SMALL];
    static const int64_t n = N_SMALL; /* arrays keep its place */

    KT_OK(kvs_store_create("device", NULL, 0, &small->store));
    for (int k = 0; k < N_KEYS; k++) {
        small->keys[k] = kvs_key_int(k);
        for (int i = 0; i < N_SMALL; i++) {
            numbers[i] = (float)k;
        }
        small->values[k] = pretend_array(0, KVS_DTYPE_float32, &n, numbers, 0);
    }
    small->list = pretend_list(small->values, N_KEYS);
    KT_OK(kvs_store_init(small->store, small->keys, N_KEYS, &small->list, NULL));
    if (optimizer != NULL) {
        spec.name = optimizer;
        spec.params = &rate;
        spec.n_params = 1;
        KT_OK(kvs_store_set_optimizer(small->store, &spec));
    }
    KT_OK(kvs_store_push(small->store, small->keys, N_KEYS, &small->list, NULL));
}

static void tear_down_small(small_keys_t *small)
{
    for (int k = 0; k < N_KEYS; k++) {
        pretend_free(&small->values[k], 0);
    }
    KT_OK(kvs_store_close(small->store));
}

static uint64_t launches_of(const small_keys_t *small,
                            kvs_status_t (*call)(kvs_store_t *store, const kvs_key_t *keys,
                                                 size_t n_keys, const kvs_arrays_t *list,
                                                 const kvs_call_t *settings))
{
    cuda_double_counts_t counts = {0};

    if (driver.reset_counts != NULL) {
        driver.reset_counts();
    }
    KT_OK(call(small->store, small->keys, N_KEYS, &small->list, NULL));
    if (driver.read_counts != NULL) {
        driver.read_counts(&counts);
    }
    return (uint64_t)counts.launches;
}

static float element_of(const kvs_tensor_t *tensor)
{
    float numbers[N_SMALL];

    pretend_get(tensor, numbers);
    return numbers[N_SMALL - 1];
}

/* groupadagrad: rows, then the step; lamb: the sum of several gradients, norms, their sums, the step. */
static void optimizers_that_look_before_they_step_take_more_launches(void)
{
    if (driver.read_counts != NULL) {
        KT_INT(cost_of_an_exchange(&n_small, "groupadagrad").launches, 2);
        KT_INT(cost_of_an_exchange(&n_big, "groupadagrad").launches, 2);
        KT_INT(cost_of_an_exchange(&n_small, "lamb").launches, pretend_n_devices() > 1 ? 4 : 3);
    }
}

static void fill_with(const kvs_tensor_t *tensor, float number)
{
    float numbers[N_SMALL];

    for (int i = 0; i < N_SMALL; i++) {
        numbers[i] = number;
    }
    KT_OK(kvs_device_copy(tensor->device, tensor->data, (kvs_device_t){KVS_DEVICE_CPU, 0}, numbers,
                          sizeof(numbers)));
}

static void small_keys_of_a_call_are_summed_in_one_launch(void)
{
    small_keys_t small;
    uint64_t pushed, pulled;

    set_up_small(&small, NULL);
    pushed = launches_of(&small, kvs_store_push);
    pulled = launches_of(&small, kvs_store_pull);
    for (int k = 0; k < N_KEYS; k++) {
        KT_REAL(element_of(&small.values[k]), k);
    }
    if (driver.read_counts != NULL) {
        KT_INT(pushed, 1);
        KT_INT(pulled, 1);
    }
    tear_down_small(&small);
}

/* w = g = k; each push takes half of g away. */
static void small_keys_of_a_call_are_stepped_nine_a_launch(void)
{
    small_keys_t small;
    uint64_t pushed, pulled;

    set_up_small(&small, "sgd");
    pushed = launches_of(&small, kvs_store_push);
    pulled = launches_of(&small, kvs_store_pull);
    for (int k = 0; k < N_KEYS; k++) {
        KT_REAL(element_of(&small.values[k]), 0); /* k - k/2 - k/2 */
    }
    if (driver.read_counts != NULL) {
        KT_INT(pushed, 3);
        KT_INT(pulled, 1);
    }
    tear_down_small(&small);
}

/* A value that can't be packed fails its key, whose array stays as it was; the others are exchanged. */
static void a_key_that_fails_holds_up_no_other_of_its_call(void)
{
    kvs_param_t params[] = {{.name = "type", .type = KVS_PARAM_TEXT, .value.text = "2bit"},
                            {.name = "threshold", .type = KVS_PARAM_FLOAT, .value.real = 0.5}};
    const int bad = 7;
    small_keys_t small;

    set_up_small(&small, NULL);
    KT_OK(kvs_store_set_gradient_compression(small.store, params, 2));
    fill_with(&small.values[bad], NAN);
    KT_FAIL(kvs_store_pushpull(small.store, small.keys, N_KEYS, &small.list, NULL, NULL),
            KVS_ERR_NON_FINITE, "key 7");
    for (int k = 0; k < N_KEYS; k++) {
        float got = element_of(&small.values[k]);

        KT_TRUE(k == bad ? isnan(got) : got == (k == 0 ? 0.0f : 0.5f));
    }
    KT_OK(kvs_store_pull(small.store, small.keys, N_KEYS, &small.list, NULL));
    KT_REAL(element_of(&small.values[bad]), bad);
    tear_down_small(&small);
}

int main(int argc, char **argv)
{
    static const kt_test_t tests[] = {
        KT_TEST(values_are_read_after_their_streams),
        KT_TEST(outs_are_written_after_their_streams),
        KT_TEST(streams_go_on_after_the_exchange),
        KT_TEST(exchanges_follow_one_another_without_waiting),
        KT_TEST(the_legacy_stream_is_a_stream_too),
        KT_TEST(without_a_stream_to_wait_the_call_ends_when_all_is_done),
        KT_TEST(several_threads_may_exchange_at_once),
        KT_TEST(an_exchange_is_one_launch_for_each_device_and_no_copy),
        KT_TEST(optimizers_that_look_before_they_step_take_more_launches),
        KT_TEST(small_keys_of_a_call_are_summed_in_one_launch),
        KT_TEST(small_keys_of_a_call_are_stepped_nine_a_launch),
        KT_TEST(a_key_that_fails_holds_up_no_other_of_its_call),
    };

    pretend_open();
    return kt_run("cuda_order", tests, sizeof(tests) / sizeof(tests[0]), argc, argv);
}
