/* SPDX-License-Identifier: Apache-2.0 */
/* test_bench_parts.c - what `kvstore bench` measures with and on: samples, shapes and arrays. */
#include "bench_resnet50.h"

#include <kt.h>

static int n_calls;

static kvs_status_t count_call(void *arg)
{
    double until = bench_now() + *(double *)arg;

    n_calls++;
    while (bench_now() < until) {
    }
    return KVS_OK;
}

static kvs_status_t fail_at_fifth(void *arg)
{
    (void)arg;
    return ++n_calls == 5 ? kvs_fail(KVS_ERR_STATE, "the fifth") : KVS_OK;
}

static void the_median_is_the_middle_one_or_the_mean_of_two(void)
{
    double odd[] = {5, 1, 3}, even[] = {4, 1, 8, 2}, one[] = {7};
    bench_times_t times = bench_summary(odd, 3);

    KT_REAL(times.median, 3);
    KT_REAL(times.min, 1);
    KT_REAL(times.max, 5);
    KT_INT(times.n, 3);
    KT_REAL(bench_summary(even, 4).median, 3);
    KT_REAL(bench_summary(one, 1).median, 7);
}

static void a_sample_of_a_short_call_is_many_calls(void)
{
    bench_t bench = {.quick = 1};
    bench_times_t times = {0};
    double seconds = 10e-6;

    n_calls = 0;
    KT_OK(bench_measure(&bench, 0, count_call, &seconds, &times));
    /* four to warm up and to learn how long one takes; a sample lasts 100 us */
    KT_TRUE(n_calls >= 4 + (int)times.n);
    KT_TRUE(times.n >= 3);
    KT_TRUE(times.min >= seconds);
    KT_TRUE(times.median >= times.min && times.max >= times.median);
}

static void a_long_call_is_a_sample(void)
{
    bench_t bench = {.quick = 1};
    bench_times_t times = {0};
    double seconds = 1e-3;

    n_calls = 0;
    KT_OK(bench_measure(&bench, 0, count_call, &seconds, &times));
    KT_INT(n_calls, 4 + (int)times.n);
}

static void a_call_that_fails_ends_the_measurement(void)
{
    bench_t bench = {.quick = 1};
    bench_times_t times = {.n = 77};

    n_calls = 0;
    KT_FAIL(bench_measure(&bench, 0, fail_at_fifth, NULL, &times), KVS_ERR_STATE, "the fifth");
    KT_INT(times.n, 77);
}

static int is_shape(const bench_shape_t *shape, int32_t ndim, const int64_t *dims)
{
    return shape->ndim == ndim && memcmp(shape->dims, dims, (size_t)ndim * sizeof(*dims)) == 0;
}

static void resnet50_has_the_published_parameters(void)
{
    bench_shape_t shapes[BENCH_RESNET50_N];
    int64_t n_elems = 0;
    int n_by_ndim[5] = {0};

    bench_resnet50(shapes);
    for (int i = 0; i < BENCH_RESNET50_N; i++) {
        n_elems += bench_shape_n_elems(&shapes[i]);
        n_by_ndim[shapes[i].ndim]++;
    }
    KT_INT(n_elems, 25557032);
    KT_INT(n_by_ndim[4], 53); /* convolutions: stem, 16 blocks of 3, 4 shortcuts */
    KT_INT(n_by_ndim[2], 1);
    KT_INT(n_by_ndim[1], 107);
    KT_TRUE(is_shape(&shapes[0], 4, (const int64_t[]){64, 3, 7, 7}));
    KT_TRUE(is_shape(&shapes[1], 1, (const int64_t[]){64}));
    KT_TRUE(is_shape(&shapes[6], 4, (const int64_t[]){64, 64, 3, 3}));
    KT_TRUE(is_shape(&shapes[12], 4, (const int64_t[]){256, 64, 1, 1})); /* the first shortcut */
    KT_TRUE(is_shape(&shapes[159], 2, (const int64_t[]){1000, 2048}));
    KT_TRUE(is_shape(&shapes[160], 1, (const int64_t[]){1000}));
}

static void arrays_lie_key_by_key_and_hold_their_value(void)
{
    bench_shape_t shapes[2] = {{1, {3}}, {2, {2, 4}}};
    bench_arrays_t arrays;
    kvs_arrays_t all, second;

    KT_OK(bench_arrays_make(shapes, 2, 2, 1, &arrays));
    all = bench_arrays_all(&arrays);
    KT_INT(all.n, 4);
    KT_INT(all.n_per_key, 2);
    KT_INT(all.per_key[0] + all.per_key[1], 4);
    second = bench_arrays_of(&arrays, 1);
    KT_INT(second.n, 2);
    KT_TRUE(second.tensors == all.tensors + 2);
    KT_INT(second.tensors[1].ndim, 2);
    KT_INT(second.tensors[1].shape[1], 4);
    KT_REAL(((const float *)second.tensors[1].data)[7], 1);
    bench_arrays_release(&arrays);
    KT_TRUE(arrays.tensors == NULL);

    KT_OK(bench_arrays_make(shapes, 2, 0, 1, &arrays)); /* W7 pulls nothing */
    KT_INT(bench_arrays_of(&arrays, 1).n, 0);
    bench_arrays_release(&arrays);
}

static const kt_test_t tests[] = {
    KT_TEST(the_median_is_the_middle_one_or_the_mean_of_two),
    KT_TEST(a_sample_of_a_short_call_is_many_calls),
    KT_TEST(a_long_call_is_a_sample),
    KT_TEST(a_call_that_fails_ends_the_measurement),
    KT_TEST(resnet50_has_the_published_parameters),
    KT_TEST(arrays_lie_key_by_key_and_hold_their_value),
};

KT_MAIN("bench_parts", tests)
