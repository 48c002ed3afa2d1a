/* SPDX-License-Identifier: Apache-2.0 */
/* The CPU provider: its memory, and sums and casts that come out the same however they are cut. */
#include "fake_host.h"

#include <kvstore/kit.h>

static const kvs_device_t cpu = {KVS_DEVICE_CPU, 0};

#define BIG_ELEMS ((1 << 20) + 3)

static void *alloc_random(size_t n_bytes)
{
    unsigned char *data = NULL;

    if (!KT_OK(kvs_cpu_provider()->alloc(cpu, n_bytes, (void **)&data))) {
        abort();
    }
    for (size_t i = 0; i < n_bytes; i++) {
        data[i] = (unsigned char)(fake_random() >> 20);
    }
    return data;
}

static int is_zero(const unsigned char *data, size_t n_bytes)
{
    for (size_t i = 0; i < n_bytes; i++) {
        if (data[i] != 0) {
            return 0;
        }
    }
    return 1;
}

static void memory_is_zeroed_and_aligned(void)
{
    const kvs_provider_t *provider = kvs_cpu_provider();
    static const size_t sizes[] = {1, 63, 64, 1000, 4096, (4 << 20) - 1, 4 << 20, (4 << 20) + 5};

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        for (int again = 0; again < 2; again++) {
            void *data = NULL;

            KT_OK(provider->alloc(cpu, sizes[i], &data));
            KT_INT((uintptr_t)data % 64, 0);
            KT_TRUE(is_zero(data, sizes[i]));
            memset(data, 0xFF, sizes[i]);
            provider->free(cpu, data, sizes[i]);
        }
    }
}

static void big_memory_begins_on_a_huge_page(void)
{
    const kvs_provider_t *provider = kvs_cpu_provider();
    void *data = NULL;

    KT_OK(provider->alloc(cpu, (4 << 20) + 12345, &data));
    KT_INT((uintptr_t)data % (2 << 20), 0);
    provider->free(cpu, data, (4 << 20) + 12345);
}

static void no_bytes_are_no_memory(void)
{
    void *data = &data;

    KT_OK(kvs_cpu_provider()->alloc(cpu, 0, &data));
    kvs_cpu_provider()->free(cpu, data, 0);
    kvs_cpu_provider()->free(cpu, NULL, 100);
    kvs_cpu_provider()->free(cpu, NULL, 100 << 20);
}

static void memory_that_does_not_exist_is_an_error_naming_the_size(void)
{
    void *data = &data;

    KT_FAIL(kvs_cpu_provider()->alloc(cpu, (size_t)1 << 60, &data), KVS_ERR_NO_MEMORY,
            "1152921504606846976 bytes");
    KT_FAIL(kvs_cpu_provider()->alloc(cpu, SIZE_MAX, &data), KVS_ERR_NO_MEMORY, "bytes");
    KT_TRUE(data == &data);
}

static void host_memory_is_served_by_the_cpu_provider(void)
{
    const kvs_provider_t *found = NULL;

    KT_OK(kvs_provider_find(KVS_DEVICE_CPU, &found));
    KT_TRUE(found == kvs_cpu_provider());
    found = NULL;
    KT_OK(kvs_provider_find(KVS_DEVICE_CUDA_HOST, &found));
    KT_TRUE(found == kvs_cpu_provider());
    KT_INT(found->device_type, KVS_DEVICE_CPU);
}

static void other_memory_is_asked_of_the_host(void)
{
    const kvs_provider_t *found = NULL;

    KT_FAIL(kvs_provider_find(KVS_DEVICE_CUDA, &found), KVS_ERR_NOT_FOUND, "device type 2");
    KT_TRUE(found == NULL);
}

/* Big sums of every dtype: by one thread without cuts, and cut in several ways. */
static void sums_do_not_depend_on_how_many_threads_compute_them(void)
{
    static const int64_t n_pieces[] = {2, 3, 7, 16};
    const kvs_provider_t *provider = kvs_cpu_provider();

    for (int dtype = 0; dtype < KVS_N_DTYPES; dtype++) {
        size_t n_bytes = BIG_ELEMS * kvs_dtype_bytes(dtype);
        void *arrays[5];

        for (int i = 0; i < 5; i++) {
            arrays[i] = alloc_random(n_bytes);
        }
        fake_n_pieces = 1;
        KT_OK(provider->sum(dtype, BIG_ELEMS, (const void *const *)arrays, 3, arrays + 3, 1));
        for (size_t i = 0; i < 4; i++) {
            fake_n_pieces = n_pieces[i];
            fake_n_cuts = 0;
            memset(arrays[4], 0, n_bytes);
            KT_OK(provider->sum(dtype, BIG_ELEMS, (const void *const *)arrays, 3, arrays + 4, 1));
            KT_INT(fake_n_cuts, 1);
            KT_TRUE(memcmp(arrays[3], arrays[4], n_bytes) == 0);
        }
        for (int i = 0; i < 5; i++) {
            provider->free(cpu, arrays[i], n_bytes);
        }
    }
    fake_n_pieces = 1;
}

static void small_sums_stay_on_the_calling_thread(void)
{
    float a[1000] = {1}, b[1000] = {2}, sum[1000];
    const void *src[] = {a, b};
    void *dst[] = {sum};

    fake_n_cuts = 0;
    KT_OK(kvs_cpu_provider()->sum(KVS_DTYPE_float32, 1000, src, 2, dst, 1));
    KT_OK(kvs_cpu_provider()->sum(KVS_DTYPE_float32, 0, src, 2, dst, 1));
    KT_INT(fake_n_cuts, 0);
    KT_REAL(sum[0], 3);
}

static void casts_do_not_depend_on_how_many_threads_compute_them(void)
{
    const kvs_provider_t *provider = kvs_cpu_provider();
    float *src = alloc_random(BIG_ELEMS * 4);
    uint16_t *whole = alloc_random(BIG_ELEMS * 2), *cut = alloc_random(BIG_ELEMS * 2);

    KT_OK(provider->cast(BIG_ELEMS, KVS_DTYPE_float32, src, KVS_DTYPE_bfloat16, whole));
    fake_n_pieces = 5;
    fake_n_cuts = 0;
    KT_OK(provider->cast(BIG_ELEMS, KVS_DTYPE_float32, src, KVS_DTYPE_bfloat16, cut));
    KT_INT(fake_n_cuts, 1);
    fake_n_pieces = 1;
    KT_TRUE(memcmp(whole, cut, BIG_ELEMS * 2) == 0);
    KT_OK(provider->cast(0, KVS_DTYPE_float32, NULL, KVS_DTYPE_bfloat16, NULL));
    provider->free(cpu, src, BIG_ELEMS * 4);
    provider->free(cpu, whole, BIG_ELEMS * 2);
    provider->free(cpu, cut, BIG_ELEMS * 2);
}

static void dtypes_have_sizes_and_kinds(void)
{
    KT_INT(kvs_dtype_bytes(KVS_DTYPE_float64), 8);
    KT_INT(kvs_dtype_bytes(KVS_DTYPE_bfloat16), 2);
    KT_INT(kvs_dtype_bytes(KVS_DTYPE_uint8), 1);
    KT_INT(kvs_dtype_bytes(KVS_N_DTYPES), 0);
    KT_TRUE(kvs_dtype_is_floating(KVS_DTYPE_bfloat16));
    KT_TRUE(!kvs_dtype_is_floating(KVS_DTYPE_int32));
    KT_TRUE(!kvs_dtype_is_floating(-1));
}

static void a_scalar_has_one_element_and_an_empty_array_none(void)
{
    kvs_tensor_t scalar = kt_tensor(NULL, KVS_DTYPE_int8, NULL, 0);
    kvs_tensor_t matrix = kt_tensor(NULL, KVS_DTYPE_int8, (const int64_t[]){1 << 20, 1 << 20}, 2);
    kvs_tensor_t empty = kt_tensor(NULL, KVS_DTYPE_int8, (const int64_t[]){3, 0}, 2);

    KT_INT(kvs_tensor_n_elems(&scalar), 1);
    KT_INT(kvs_tensor_n_elems(&matrix), (int64_t)1 << 40);
    KT_INT(kvs_tensor_n_elems(&empty), 0);
}

static const kt_test_t tests[] = {
    KT_TEST(memory_is_zeroed_and_aligned),
    KT_TEST(big_memory_begins_on_a_huge_page),
    KT_TEST(no_bytes_are_no_memory),
    KT_TEST(memory_that_does_not_exist_is_an_error_naming_the_size),
    KT_TEST(host_memory_is_served_by_the_cpu_provider),
    KT_TEST(other_memory_is_asked_of_the_host),
    KT_TEST(sums_do_not_depend_on_how_many_threads_compute_them),
    KT_TEST(small_sums_stay_on_the_calling_thread),
    KT_TEST(casts_do_not_depend_on_how_many_threads_compute_them),
    KT_TEST(dtypes_have_sizes_and_kinds),
    KT_TEST(a_scalar_has_one_element_and_an_empty_array_none),
};
KT_MAIN("cpu_provider", tests)
