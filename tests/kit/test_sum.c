/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of all dtypes by every set of kernels, against plain loops: any number of sources and
 * destinations, in place, at any alignment, past the caches or not. */
#include "fake_host.h"
#include "slow_half.h"
#include "sum.h"

#include <kvstore/kit.h>

#include <math.h>

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

#define MAX_ELEMS  4200
#define MAX_ARRAYS 40
#define SLACK      128 /* bytes in front of an array, to shift it, and behind, to see overruns */

typedef struct buffer {
    _Alignas(64) unsigned char bytes[SLACK + MAX_ELEMS * 8 + SLACK];
} buffer_t;

static buffer_t sources[MAX_ARRAYS], destinations[MAX_ARRAYS];
static unsigned char want[MAX_ELEMS * 8];

/* Numbers of all sizes that float sums can tell apart, with a denormal or an infinity now and then. */
static uint64_t random_element(int dtype)
{
    uint64_t bits = fake_random();
    double value = ldexp((double)(int32_t)bits, -25 + (int)(bits >> 32 & 7));
    int special = (int)(bits >> 40 & 63);
    float single = (float)value;
    uint64_t element = 0;

    if (dtype == KVS_DTYPE_float32) {
        single = special == 0 ? INFINITY : special == 1 ? 1e-41f : single;
        memcpy(&element, &single, sizeof(single));
    } else if (dtype == KVS_DTYPE_float64) {
        value = special == 0 ? INFINITY : special == 1 ? 1e-310 : value;
        memcpy(&element, &value, sizeof(value));
    } else if (dtype == KVS_DTYPE_float16 || dtype == KVS_DTYPE_bfloat16) {
        element = special == 0   ? slow_infinity(dtype)
                  : special == 1 ? 3
                                 : slow_encode(dtype, value);
    } else {
        element = bits;
    }
    return element;
}

static void fill(int dtype, unsigned char *data, int64_t n)
{
    size_t bytes = kvs_dtype_bytes(dtype);

    for (int64_t i = 0; i < n; i++) {
        uint64_t element = random_element(dtype);

        memcpy(data + (size_t)i * bytes, &element, bytes); /* little-endian */
    }
}

static uint64_t element_at(int dtype, const void *data, int64_t i)
{
    size_t bytes = kvs_dtype_bytes(dtype);
    uint64_t element = 0;

    memcpy(&element, (const char *)data + (size_t)i * bytes, bytes);
    return element;
}

static float widen_half(int dtype, uint64_t element)
{
    return (float)slow_decode(dtype, (uint16_t)element);
}

static uint64_t sum_halves(int dtype, const void *const *src, size_t n_src, int64_t i)
{
    volatile float total = widen_half(dtype, element_at(dtype, src[0], i));

    for (size_t j = 1; j < n_src; j++) {
        total = total + widen_half(dtype, element_at(dtype, src[j], i));
    }
    return slow_encode(dtype, total);
}

static uint64_t sum_element(int dtype, const void *const *src, size_t n_src, int64_t i)
{
    uint64_t total = 0;

    if (dtype == KVS_DTYPE_float32) {
        volatile float sum = ((const float *)src[0])[i];

        for (size_t j = 1; j < n_src; j++) {
            sum = sum + ((const float *)src[j])[i];
        }
        float last = sum;
        memcpy(&total, &last, sizeof(last));
    } else if (dtype == KVS_DTYPE_float64) {
        volatile double sum = ((const double *)src[0])[i];

        for (size_t j = 1; j < n_src; j++) {
            sum = sum + ((const double *)src[j])[i];
        }
        double last = sum;
        memcpy(&total, &last, sizeof(last));
    } else if (kvs_dtype_is_floating(dtype)) {
        total = sum_halves(dtype, src, n_src, i);
    } else {
        for (size_t j = 0; j < n_src; j++) {
            total += element_at(dtype, src[j], i);
        }
    }
    return total;
}

static void sum_slowly(int dtype, int64_t n, const void *const *src, size_t n_src)
{
    size_t bytes = kvs_dtype_bytes(dtype);

    for (int64_t i = 0; i < n; i++) {
        uint64_t total = sum_element(dtype, src, n_src, i);

        memcpy(want + (size_t)i * bytes, &total, bytes);
    }
}

/* Source 0 and destination 0 begin `shift` elements after a cache line, the next ones one more each. */
static void check_sum(const kvs_kernels_t *kernels, int dtype, int64_t n, size_t n_src,
                      size_t n_dst, size_t shift, int stream)
{
    size_t bytes = kvs_dtype_bytes(dtype), n_bytes = (size_t)n * bytes;
    const void *src[MAX_ARRAYS];
    void *dst[MAX_ARRAYS];
    int n_wrong = 0;

    for (size_t j = 0; j < n_src; j++) {
        src[j] = sources[j].bytes + (shift + j) % (SLACK / 8) * bytes;
    }
    for (size_t j = 0; j < n_dst; j++) {
        dst[j] = destinations[j].bytes + (shift + j / 2) % (SLACK / 8) * bytes;
        memset(destinations[j].bytes, 0xA5, sizeof(destinations[j].bytes));
    }
    sum_slowly(dtype, n, src, n_src);
    kvs_sum_range_by(kernels, dtype, 0, n, src, n_src, dst, n_dst, stream);
    for (size_t j = 0; j < n_dst; j++) {
        const unsigned char *begin = dst[j];

        n_wrong += memcmp(begin, want, n_bytes) != 0 || begin[n_bytes] != 0xA5 ||
                   (begin > destinations[j].bytes && begin[-1] != 0xA5);
    }
    if (n_wrong > 0) {
        printf("\n  %s %s: n %d, %zu sources, %zu destinations, shift %zu, stream %d", kernels->isa,
               kvs_dtype_name(kvs_dtype(dtype)), (int)n, n_src, n_dst, shift, stream);
    }
    KT_INT(n_wrong, 0);
}

static void fill_sources(int dtype)
{
    for (size_t j = 0; j < MAX_ARRAYS; j++) {
        fill(dtype, sources[j].bytes, (int64_t)(sizeof(sources[j].bytes) / kvs_dtype_bytes(dtype)));
    }
}

static void every_size_gives_what_a_plain_loop_gives(void)
{
    static const int64_t sizes[] = {0,   1,   2,   3,   7,   8,   9,    15,   16,   17,
                                    31,  32,  33,  63,  64,  65,  127,  128,  129,  255,
                                    256, 257, 511, 512, 513, 775, 1023, 1024, 1025, 4099};

    for (int dtype = 0; dtype < KVS_N_DTYPES; dtype++) {
        fill_sources(dtype);
        for (size_t k = 0; kvs_kernels_at(k) != NULL; k++) {
            for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
                check_sum(kvs_kernels_at(k), dtype, sizes[s], 2, 1, 0, 0);
                check_sum(kvs_kernels_at(k), dtype, sizes[s], 3, 2, 1, 1);
            }
        }
    }
}

static void every_number_of_arrays_gives_what_a_plain_loop_gives(void)
{
    static const size_t counts[] = {1, 2, 3, 4, 5, 6, 9, 16, 17, 33};

    for (int dtype = 0; dtype < KVS_N_DTYPES; dtype++) {
        fill_sources(dtype);
        for (size_t k = 0; kvs_kernels_at(k) != NULL; k++) {
            for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
                for (size_t j = 0; j < sizeof(counts) / sizeof(counts[0]); j++) {
                    check_sum(kvs_kernels_at(k), dtype, 131, counts[i], counts[j], 0, 0);
                }
                check_sum(kvs_kernels_at(k), dtype, 4123, counts[i], 33, 3, 1);
            }
        }
    }
}

static void every_alignment_gives_what_a_plain_loop_gives(void)
{
    for (int dtype = 0; dtype < KVS_N_DTYPES; dtype++) {
        fill_sources(dtype);
        for (size_t k = 0; kvs_kernels_at(k) != NULL; k++) {
            for (size_t shift = 0; shift < 16; shift++) {
                check_sum(kvs_kernels_at(k), dtype, 4111, 2, 4, shift, 0);
                check_sum(kvs_kernels_at(k), dtype, 4111, 2, 4, shift, 1);
                check_sum(kvs_kernels_at(k), dtype, 4111, 1, 4, shift, 1);
            }
        }
    }
}

static void a_destination_may_be_a_source(void)
{
    for (int dtype = 0; dtype < KVS_N_DTYPES; dtype++) {
        size_t n_bytes = MAX_ELEMS * kvs_dtype_bytes(dtype);

        for (size_t k = 0; kvs_kernels_at(k) != NULL; k++) {
            for (int stream = 0; stream < 2; stream++) {
                const void *src[3] = {sources[0].bytes, sources[1].bytes, sources[0].bytes};
                /* both sources, one twice, around one that is none */
                void *dst[5] = {sources[1].bytes, destinations[0].bytes, sources[0].bytes,
                                destinations[1].bytes, sources[1].bytes};

                fill_sources(dtype);
                sum_slowly(dtype, MAX_ELEMS, src, 3);
                kvs_sum_range_by(kvs_kernels_at(k), dtype, 0, MAX_ELEMS, src, 3, dst, 5, stream);
                for (size_t j = 0; j < 5; j++) {
                    KT_TRUE(memcmp(dst[j], want, n_bytes) == 0);
                }
            }
        }
    }
}

static void many_destinations_may_all_be_sources(void)
{
    const void *src[MAX_ARRAYS];
    void *dst[MAX_ARRAYS];

    fill_sources(KVS_DTYPE_float32);
    for (size_t j = 0; j < MAX_ARRAYS; j++) {
        src[j] = sources[j].bytes;
        dst[MAX_ARRAYS - 1 - j] = sources[j].bytes;
    }
    sum_slowly(KVS_DTYPE_float32, MAX_ELEMS, src, MAX_ARRAYS);
    kvs_sum(KVS_DTYPE_float32, MAX_ELEMS, src, MAX_ARRAYS, dst, MAX_ARRAYS, 1);
    for (size_t j = 0; j < MAX_ARRAYS; j++) {
        KT_TRUE(memcmp(dst[j], want, MAX_ELEMS * sizeof(float)) == 0);
    }
}

static void a_single_source_is_copied_bit_by_bit(void)
{
    uint32_t nans[2] = {0x7F800001, 0xFFC12345}, copies[2] = {0};
    uint16_t halves[2] = {0x7C01, 0xFE55}, half_copies[2] = {0};
    const void *src = nans;
    void *dst = copies;

    kvs_sum(KVS_DTYPE_float32, 2, &src, 1, &dst, 1, 0);
    KT_TRUE(memcmp(nans, copies, sizeof(nans)) == 0);
    kvs_sum(KVS_DTYPE_float32, 2, &src, 1, (void *[]){nans}, 1, 0);
    KT_TRUE(memcmp(nans, copies, sizeof(nans)) == 0);
    src = halves;
    dst = half_copies;
    kvs_sum(KVS_DTYPE_float16, 2, &src, 1, &dst, 1, 0);
    KT_TRUE(memcmp(halves, half_copies, sizeof(halves)) == 0);
}

static void nan_stays_nan_and_keeps_its_sign(void)
{
    for (size_t k = 0; kvs_kernels_at(k) != NULL; k++) {
        for (int64_t n = 1; n < 140; n += 23) {
            uint16_t half[140], one[140], sum[140];
            const void *src[2] = {one, half};
            void *dst = sum;
            int n_wrong = 0;

            for (int64_t i = 0; i < n; i++) {
                half[i] = i % 2 ? 0x7C01 : 0xFE55;
                one[i] = 0x3C00;
            }
            kvs_sum_range_by(kvs_kernels_at(k), KVS_DTYPE_float16, 0, n, src, 2, &dst, 1, 0);
            for (int64_t i = 0; i < n; i++) {
                n_wrong += sum[i] != (i % 2 ? 0x7E01 : 0xFE55);
            }
            for (int64_t i = 0; i < n; i++) {
                half[i] = i % 2 ? 0x7F81 : 0xFFC5;
                one[i] = 0x3F80;
            }
            kvs_sum_range_by(kvs_kernels_at(k), KVS_DTYPE_bfloat16, 0, n, src, 2, &dst, 1, 0);
            for (int64_t i = 0; i < n; i++) {
                n_wrong += sum[i] != (i % 2 ? 0x7FC1 : 0xFFC5);
            }
            KT_INT(n_wrong, 0);
        }
    }
}

static void half_sums_are_rounded_once(void)
{
    /* 2048 + 1 + 1 in float16: each addition alone would be rounded back to 2048. */
    uint16_t big[1] = {0x6800}, one[1] = {0x3C00}, sum[1];
    const void *src[3] = {big, one, one};
    void *dst = sum;

    kvs_sum(KVS_DTYPE_float16, 1, src, 3, &dst, 1, 0);
    KT_INT(sum[0], 0x6801); /* 2050 */
    big[0] = 0x7BFF;
    src[1] = big;
    kvs_sum(KVS_DTYPE_float16, 1, src, 2, &dst, 1, 0);
    KT_INT(sum[0], 0x7C00); /* twice the largest overflows to infinity */
}

static void integers_wrap(void)
{
    int8_t i8[2] = {127, -128};
    uint8_t u8[2] = {255, 1};
    int32_t i32[2] = {INT32_MAX, INT32_MIN};
    int64_t i64[2] = {INT64_MAX, INT64_MIN};
    const void *src[2];
    void *dst;

    src[0] = src[1] = dst = i8;
    kvs_sum(KVS_DTYPE_int8, 2, src, 2, &dst, 1, 0);
    KT_INT(i8[0], -2);
    KT_INT(i8[1], 0);
    src[0] = src[1] = dst = u8;
    kvs_sum(KVS_DTYPE_uint8, 2, src, 2, &dst, 1, 0);
    KT_INT(u8[0], 254);
    KT_INT(u8[1], 2);
    src[0] = src[1] = dst = i32;
    kvs_sum(KVS_DTYPE_int32, 2, src, 2, &dst, 1, 0);
    KT_INT(i32[0], -2);
    KT_INT(i32[1], 0);
    src[0] = src[1] = dst = i64;
    kvs_sum(KVS_DTYPE_int64, 2, src, 2, &dst, 1, 0);
    KT_INT(i64[0], -2);
    KT_INT(i64[1], 0);
}

static void parts_of_arrays_make_the_whole(void)
{
    const void *src[2] = {sources[0].bytes, sources[1].bytes};
    void *dst = destinations[0].bytes;
    float block[1000];

    fill_sources(KVS_DTYPE_float32);
    sum_slowly(KVS_DTYPE_float32, 4001, src, 2);
    for (int64_t begin = 0; begin < 4001; begin += 667) {
        kvs_sum_range(KVS_DTYPE_float32, begin, begin + 667 < 4001 ? begin + 667 : 4001, src, 2,
                      &dst, 1, 1);
    }
    KT_TRUE(memcmp(dst, want, 4001 * sizeof(float)) == 0);
    kvs_sum_block(KVS_DTYPE_float32, 3001, 4001, src, 2, block);
    KT_TRUE(memcmp(block, want + 3001 * sizeof(float), sizeof(block)) == 0);
}

#if defined(__SSE__)
static void a_caller_that_flushes_denormals_changes_nothing(void)
{
    const unsigned flush = 0x8040; /* FTZ and DAZ, as programs built with -ffast-math set them */
    float tiny = 1e-41f, sum = 0;
    const void *src[2] = {&tiny, &tiny};
    void *dst = &sum;
    unsigned before = _mm_getcsr();

    _mm_setcsr(before | flush);
    kvs_sum(KVS_DTYPE_float32, 1, src, 2, &dst, 1, 0);
    unsigned after = _mm_getcsr();
    _mm_setcsr(before);
    KT_INT(after & flush, flush);
    KT_TRUE(sum > 1.9e-41f && sum < 2.1e-41f);
}
#endif

static void big_work_exceeds_the_cache_and_small_does_not(void)
{
    KT_TRUE(!kvs_exceeds_cache(1 << 20));
    KT_TRUE(kvs_exceeds_cache(1 << 30));
}

static const kt_test_t tests[] = {
    KT_TEST(every_size_gives_what_a_plain_loop_gives),
    KT_TEST(every_number_of_arrays_gives_what_a_plain_loop_gives),
    KT_TEST(every_alignment_gives_what_a_plain_loop_gives),
    KT_TEST(a_destination_may_be_a_source),
    KT_TEST(many_destinations_may_all_be_sources),
    KT_TEST(a_single_source_is_copied_bit_by_bit),
    KT_TEST(nan_stays_nan_and_keeps_its_sign),
    KT_TEST(half_sums_are_rounded_once),
    KT_TEST(integers_wrap),
    KT_TEST(parts_of_arrays_make_the_whole),
#if defined(__SSE__)
    KT_TEST(a_caller_that_flushes_denormals_changes_nothing),
#endif
    KT_TEST(big_work_exceeds_the_cache_and_small_does_not),
};
KT_MAIN("sum", tests)
