/* SPDX-License-Identifier: Apache-2.0 */
/* job_horovod_sums.c - what exchanges give, for jobs of any size: every dtype and many sizes, the bits of
 * `local`, any order of keys, from several threads, small and big mixed. */
#include "crew.h"

#include <pthread.h>
#include <stdlib.h>

/* ---- Numbers ------------------------------------------------------------------------------------- */

static uint32_t next_random(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

/* A small whole number of rank `rank` at element `i`. */
static int number(int rank, int64_t i)
{
    return (int)((i * 7 + rank * 3) % 5) - 1;
}

static uint16_t half_of(int small)
{
    static const uint16_t halves[] = {0x0000, 0x3C00, 0x4000, 0x4200, 0x4400, 0x4500, 0x4600,
                                      0x4700, 0x4800, 0x4880, 0x4900, 0x4980, 0x4A00};

    return (uint16_t)(small < 0 ? 0x8000 | halves[-small] : halves[small]);
}

static uint16_t bfloat_of(int small)
{
    float value = (float)small;
    uint32_t bits;

    memcpy(&bits, &value, sizeof(bits));
    return (uint16_t)(bits >> 16);
}

static void put(void *array, int dtype, int64_t i, int small)
{
    switch (dtype) {
    case KVS_DTYPE_float32:
        ((float *)array)[i] = (float)small;
        break;
    case KVS_DTYPE_float64:
        ((double *)array)[i] = small;
        break;
    case KVS_DTYPE_float16:
        ((uint16_t *)array)[i] = small == 0 ? 0 : half_of(small);
        break;
    case KVS_DTYPE_bfloat16:
        ((uint16_t *)array)[i] = bfloat_of(small);
        break;
    case KVS_DTYPE_int8:
    case KVS_DTYPE_uint8:
        ((uint8_t *)array)[i] = (uint8_t)small;
        break;
    case KVS_DTYPE_int32:
        ((int32_t *)array)[i] = small;
        break;
    default:
        ((int64_t *)array)[i] = small;
    }
}

static size_t size_of(int dtype)
{
    return kvs_dtype(dtype).bits / 8;
}

/* ---- Sizes and dtypes ---------------------------------------------------------------------------- */

static void check_size(const crew_t *crew, int dtype, int64_t n, int in_place)
{
    size_t n_bytes = (size_t)n * size_of(dtype);
    void *value = malloc(n_bytes + 1), *out = malloc(n_bytes + 1), *want = malloc(n_bytes + 1);

    for (int64_t i = 0; i < n; i++) {
        int sum = 0;

        for (int rank = 0; rank < crew->n; rank++) {
            sum += number(rank, i);
        }
        put(value, dtype, i, number(crew->rank, i));
        put(want, dtype, i, sum);
    }
    KT_OK(crew_sum(crew, kvs_key_int(n), dtype, n, value, in_place ? NULL : out, NULL));
    KT_TRUE(memcmp(in_place ? value : out, want, n_bytes) == 0);
    free(value);
    free(out);
    free(want);
}

static void sums_of_every_dtype_and_size(void)
{
    static const int64_t sizes[] = {0, 1, 7, 1000, 65537, 131072, 300001};
    crew_t crew = crew_open(NULL, 0);

    for (int dtype = 0; dtype < KVS_N_DTYPES; dtype++) {
        for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
            check_size(&crew, dtype, sizes[s], (int)s % 2);
        }
    }
    crew_close(&crew);
}

static void ten_million_and_one_elements(void)
{
    crew_t crew = crew_open(NULL, 0);

    check_size(&crew, KVS_DTYPE_float32, 10000001, 1);
    check_size(&crew, KVS_DTYPE_int8, 10000001, 0);
    crew_close(&crew);
}

/* ---- The bits of `local` -------------------------------------------------------------------------- */

static void fill(float *array, int64_t n, int rank)
{
    uint32_t state = (uint32_t)rank * 77 + 5;

    for (int64_t i = 0; i < n; i++) {
        array[i] = ((float)next_random(&state) / 65536 - 100) * (float)(1 << (i % 20));
    }
}

static void sums_have_the_bits_of_local(void)
{
    enum { N = 200003 };
    crew_t crew = crew_open(NULL, 0);
    kvs_store_t *local = NULL;
    int64_t n = N;

    KT_OK(kvs_store_create("local", NULL, 0, &local));
    for (int dtype = 0; dtype < 4; dtype++) { /* the floating ones; any bits will do for halves */
        int64_t n_elems = n * 4 / (int64_t)size_of(dtype);
        float *arrays[8], *sum = malloc(N * 4);
        kvs_tensor_t tensors[8], out = kt_tensor(sum, dtype, &n_elems, 1);
        kvs_arrays_t values = kvs_arrays(tensors, (size_t)crew.n), outs = kvs_arrays(&out, 1);
        kvs_key_t key = kvs_key_int(dtype);

        for (int rank = 0; rank < crew.n; rank++) {
            arrays[rank] = malloc(N * 4);
            fill(arrays[rank], n, rank);
            if (dtype != KVS_DTYPE_float32) { /* no NaN: of several, which one stays is open */
                for (int64_t i = 0; i < n; i++) {
                    uint32_t bits;

                    memcpy(&bits, &arrays[rank][i], 4);
                    bits = (bits & 0x8FFF8FFFu) | 0x30003000u;
                    memcpy(&arrays[rank][i], &bits, 4);
                }
            }
            tensors[rank] = kt_tensor(arrays[rank], dtype, &n_elems, 1);
        }
        KT_OK(kvs_store_init(local, &key, 1, &(kvs_arrays_t){&tensors[0], 1, NULL, 0}, NULL));
        KT_OK(kvs_store_pushpull(local, &key, 1, &values, &outs, NULL));
        KT_OK(crew_sum(&crew, key, dtype, n_elems, arrays[crew.rank], NULL, NULL));
        KT_TRUE(memcmp(arrays[crew.rank], sum, (size_t)n_elems * size_of(dtype)) == 0);
        for (int rank = 0; rank < crew.n; rank++) {
            free(arrays[rank]);
        }
        free(sum);
    }
    KT_OK(kvs_store_close(local));
    crew_close(&crew);
}

static void a_broadcast_gives_rank_0s_value_whatever_others_hold(void)
{
    crew_t crew = crew_open(NULL, 0);
    static const int64_t sizes[] = {1, 5, 100000, 1000001};

    for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
        float *value = malloc((size_t)sizes[s] * 4), *out = malloc((size_t)sizes[s] * 4);
        int64_t n_wrong = 0;

        for (int64_t i = 0; i < sizes[s]; i++) {
            value[i] = crew.rank == 0 ? (float)(i % 1000) : 0.0f / 0.0f;
        }
        KT_OK(crew_broadcast(&crew, kvs_key_int(sizes[s]), KVS_DTYPE_float32, sizes[s], value, out,
                             NULL));
        for (int64_t i = 0; i < sizes[s]; i++) {
            n_wrong += out[i] != (float)(i % 1000);
        }
        KT_INT(n_wrong, 0);
        free(value);
        free(out);
    }
    crew_close(&crew);
}

/* ---- Orders --------------------------------------------------------------------------------------- */

static void keys_may_be_submitted_in_any_order(void)
{
    enum { N_KEYS = 60 };
    crew_t crew = crew_open(NULL, 0);
    float values[N_KEYS];
    kvs_event_t *events[N_KEYS];

    for (int round = 0; round < 5; round++) {
        for (int i = 0; i < N_KEYS; i++) {
            int key = (i * (crew.rank % 2 == 0 ? 1 : N_KEYS - 1) + crew.rank * 11) % N_KEYS;

            values[key] = (float)(key + crew.rank + round);
            KT_OK(crew_sum(&crew, kvs_key_int(key), KVS_DTYPE_float32, 1, &values[key], NULL,
                           &events[key]));
        }
        for (int key = 0; key < N_KEYS; key++) {
            KT_OK(crew_finish(events[key]));
            KT_REAL(values[key], crew.n * (key + round) + crew.n * (crew.n - 1) / 2);
        }
    }
    crew_close(&crew);
}

static void a_key_submitted_twice_is_exchanged_twice_in_order(void)
{
    crew_t crew = crew_open(NULL, 0);
    float values[4] = {1, 10, 100, 1000};
    kvs_event_t *events[4];

    for (int i = 0; i < 4; i++) {
        KT_OK(
            crew_sum(&crew, kvs_key_str("w"), KVS_DTYPE_float32, 1, &values[i], NULL, &events[i]));
    }
    for (int i = 3; i >= 0; i--) {
        KT_OK(crew_finish(events[i]));
    }
    KT_REAL(values[0], crew.n);
    KT_REAL(values[1], crew.n * 10);
    KT_REAL(values[2], crew.n * 100);
    KT_REAL(values[3], crew.n * 1000);
    crew_close(&crew);
}

typedef struct helper {
    const crew_t *crew;
    int first_key;
    kvs_status_t status;
    int n_wrong;
} helper_t;

static void *help(void *arg)
{
    helper_t *helper = arg;

    for (int i = 0; i < 60 && helper->status == KVS_OK; i++) {
        float sum = 0;

        helper->status = crew_sum1(helper->crew, kvs_key_int(helper->first_key + i % 3),
                                   (float)(helper->first_key + i), &sum);
        helper->n_wrong += sum != (float)(helper->crew->n * (helper->first_key + i));
    }
    return NULL;
}

static void threads_may_exchange_keys_of_their_own(void)
{
    crew_t crew = crew_open(NULL, 0);
    helper_t helpers[3];
    pthread_t threads[3];

    for (int i = 0; i < 3; i++) {
        int which = (i + crew.rank) % 3; /* begun in another order on each rank */

        helpers[which] = (helper_t){&crew, which * 100, KVS_OK, 0};
        KT_INT(pthread_create(&threads[which], NULL, help, &helpers[which]), 0);
    }
    for (int i = 0; i < 3; i++) {
        pthread_join(threads[i], NULL);
        KT_INT(helpers[i].status, KVS_OK);
        KT_INT(helpers[i].n_wrong, 0);
    }
    crew_close(&crew);
}

/* Each rank decides for itself whether it waits or takes an event: small exchanges go one way or the
 * other, and all must agree which. */
static void ranks_may_wait_or_take_events_as_they_like(void)
{
    crew_t crew = crew_open(NULL, 0);
    uint32_t state = (uint32_t)crew.rank * 99 + 1;
    int n_wrong = 0;

    for (int i = 0; i < 400; i++) {
        float value[3] = {(float)i, (float)crew.rank, 1};
        kvs_event_t *event = NULL;
        int waits = next_random(&state) % 3 != 0;

        KT_OK(crew_sum(&crew, kvs_key_int(i % 4), KVS_DTYPE_float32, 1 + i % 3, value, NULL,
                       waits ? NULL : &event));
        if (!waits) {
            KT_OK(crew_finish(event));
        }
        n_wrong += value[0] != (float)(i * crew.n);
        n_wrong += i % 3 > 0 && value[1] != (float)(crew.n * (crew.n - 1)) / 2;
    }
    KT_INT(n_wrong, 0);
    crew_close(&crew);
}

static void small_and_big_keys_of_a_list(void)
{
    enum { N_KEYS = 30 };
    crew_t crew = crew_open(NULL, 0);
    kvs_key_t keys[N_KEYS];
    kvs_tensor_t tensors[N_KEYS];
    int64_t sizes[N_KEYS];
    kvs_arrays_t values = kvs_arrays(tensors, N_KEYS);

    for (int i = 0; i < N_KEYS; i++) {
        sizes[i] = i % 7 == 3 ? 400001 : i * 37;
        float *data = malloc((size_t)sizes[i] * 4 + 1);

        for (int64_t at = 0; at < sizes[i]; at++) {
            data[at] = (float)number(crew.rank, at + i);
        }
        keys[i] = kvs_key_int(crew.rank % 2 == 0 ? i : N_KEYS - 1 - i);
        tensors[i] = kt_tensor(data, KVS_DTYPE_float32, &sizes[i], 1);
    }
    /* the ranks give the same keys in opposite orders */
    for (int i = 0; crew.rank % 2 != 0 && i < N_KEYS / 2; i++) {
        kvs_tensor_t other = tensors[i];

        tensors[i] = tensors[N_KEYS - 1 - i];
        tensors[N_KEYS - 1 - i] = other;
    }
    KT_OK(kvs_store_pushpull(crew.store, keys, N_KEYS, &values, NULL, NULL));
    for (int i = 0; i < N_KEYS; i++) {
        int64_t key = keys[i].num, n_wrong = 0;

        for (int64_t at = 0; at < tensors[i].shape[0]; at++) {
            int sum = 0;

            for (int rank = 0; rank < crew.n; rank++) {
                sum += number(rank, at + key);
            }
            n_wrong += ((float *)tensors[i].data)[at] != (float)sum;
        }
        KT_INT(n_wrong, 0);
        free(tensors[i].data);
    }
    crew_close(&crew);
}

static void two_stores_have_keys_of_their_own(void)
{
    crew_t one = crew_open(NULL, 0), other = crew_open(NULL, 0);
    float a = 1, b = 10;
    kvs_event_t *first = NULL, *second = NULL;

    KT_OK(crew_sum(one.rank == 0 ? &one : &other, kvs_key_int(1), KVS_DTYPE_float32, 1,
                   one.rank == 0 ? &a : &b, NULL, &first));
    KT_OK(crew_sum(one.rank == 0 ? &other : &one, kvs_key_int(1), KVS_DTYPE_float32, 1,
                   one.rank == 0 ? &b : &a, NULL, &second));
    KT_OK(crew_finish(first));
    KT_OK(crew_finish(second));
    KT_REAL(a, one.n);
    KT_REAL(b, one.n * 10);
    crew_close(&one);
    crew_works(&other, kvs_key_int(2));
    crew_close(&other);
}

static void what_it_is_and_what_it_leaves_to_the_worker(void)
{
    crew_t crew = crew_open(NULL, 0);
    kvs_optimizer_spec_t spec = KVS_OPTIMIZER_INIT;
    int local_rank = -1;
    float sum = 0;

    spec.name = "sgd";
    KT_STR(kvs_store_type(crew.store), "horovod");
    KT_OK(kvs_store_local_rank(crew.store, &local_rank));
    KT_INT(local_rank, crew.rank);
    KT_OK(kvs_store_set_optimizer(crew.store, &spec));
    KT_OK(kvs_store_save_optimizer_states(crew.store, "/nonexistent/states", 1));
    KT_OK(kvs_store_load_optimizer_states(crew.store, "/nonexistent/states"));
    KT_OK(crew_sum1(&crew, kvs_key_int(1), 1, &sum)); /* a sum all the same */
    KT_REAL(sum, crew.n);
    crew_close(&crew);
}

static const kt_test_t tests[] = {
    KT_TEST(sums_of_every_dtype_and_size),
    KT_TEST(ten_million_and_one_elements),
    KT_TEST(sums_have_the_bits_of_local),
    KT_TEST(a_broadcast_gives_rank_0s_value_whatever_others_hold),
    KT_TEST(keys_may_be_submitted_in_any_order),
    KT_TEST(a_key_submitted_twice_is_exchanged_twice_in_order),
    KT_TEST(threads_may_exchange_keys_of_their_own),
    KT_TEST(ranks_may_wait_or_take_events_as_they_like),
    KT_TEST(small_and_big_keys_of_a_list),
    KT_TEST(two_stores_have_keys_of_their_own),
    KT_TEST(what_it_is_and_what_it_leaves_to_the_worker),
};

KT_MAIN("job_horovod_sums", tests)
