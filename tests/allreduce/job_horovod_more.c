/* SPDX-License-Identifier: Apache-2.0 */
/* job_horovod_more.c - what stores of horovod can beyond sums of dense arrays: other reductions, allgather,
 * row-sparse values, and a join that says who came last. Jobs of any size. */
#include "crew.h"

#include <kvstore/allreduce.h>

#include <stdlib.h>

static kvs_status_t reduce(const crew_t *crew, kvs_key_t key, uint32_t how, int dtype, int64_t n,
                           void *value)
{
    kvs_tensor_t tensor = kt_tensor(value, dtype, &n, 1);
    kvs_arrays_t values = kvs_arrays(&tensor, 1);
    kvs_call_t call = KVS_CALL_INIT;

    call.reduce = how;
    return kvs_store_pushpull(crew->store, &key, 1, &values, NULL, &call);
}

/* ---- Reductions --------------------------------------------------------------------------------- */

static void averages_of_floats(void)
{
    crew_t crew = crew_open(NULL, 0);
    static float big[400001];
    float small[2] = {(float)crew.rank, 3};
    uint16_t halves[3] = {0x3C00, 0x4000,
                          (uint16_t)(crew.rank == 0 ? 0x4400 : 0)}; /* 1, 2, 4 or 0 */

    for (int64_t i = 0; i < 400001; i++) {
        big[i] = (float)(i % 1000 * crew.rank);
    }
    KT_OK(reduce(&crew, kvs_key_int(1), KVS_REDUCE_AVERAGE, KVS_DTYPE_float32, 2, small));
    KT_REAL(small[0], (float)(crew.n * (crew.n - 1) / 2) / (float)crew.n);
    KT_REAL(small[1], 3);
    KT_OK(reduce(&crew, kvs_key_int(2), KVS_REDUCE_AVERAGE, KVS_DTYPE_float32, 400001, big));
    KT_REAL(big[400000], 0);
    KT_REAL(big[399999], 999 * (float)(crew.n * (crew.n - 1) / 2) / (float)crew.n);
    KT_OK(reduce(&crew, kvs_key_int(3), KVS_REDUCE_AVERAGE, KVS_DTYPE_float16, 3, halves));
    KT_INT(halves[0], 0x3C00);
    KT_INT(halves[1], 0x4000);
    KT_INT(halves[2], crew.n == 2 ? 0x4000 : crew.n == 4 ? 0x3C00 : 0x3D55); /* 2, 1, 4/3 */
    crew_close(&crew);
}

static int floor_of(int a, int b)
{
    return a >= 0 ? a / b : -((-a + b - 1) / b);
}

static void averages_of_integers_are_rounded_down(void)
{
    crew_t crew = crew_open(NULL, 0);

    for (int sum = -7; sum <= 7; sum++) {
        int32_t wide = crew.rank == 0 ? sum : 0;
        int8_t narrow = (int8_t)wide;

        KT_OK(reduce(&crew, kvs_key_int(1), KVS_REDUCE_AVERAGE, KVS_DTYPE_int32, 1, &wide));
        KT_INT(wide, floor_of(sum, crew.n));
        KT_OK(reduce(&crew, kvs_key_int(2), KVS_REDUCE_AVERAGE, KVS_DTYPE_int8, 1, &narrow));
        KT_INT(narrow, floor_of(sum, crew.n));
    }
    crew_close(&crew);
}

static void least_and_greatest(void)
{
    crew_t crew = crew_open(NULL, 0);
    int rank = crew.rank, last = crew.n - 1;
    float nan = 0.0f / 0.0f;

    for (int round = 0; round < 2; round++) {
        uint32_t how = round == 0 ? KVS_REDUCE_MIN : KVS_REDUCE_MAX;
        float values[4] = {(float)rank, (float)-rank, rank == 1 ? nan : 0, 5};
        uint8_t bytes[2] = {(uint8_t)(200 + rank), (uint8_t)(10 - rank)};
        int64_t wide = ((int64_t)1 << 40) * (rank + 1);
        uint16_t bfloats[1] = {(uint16_t)(rank == 0 ? 0xBF80 : 0x3F80)}; /* -1, 1 */

        KT_OK(reduce(&crew, kvs_key_int(1), how, KVS_DTYPE_float32, 4, values));
        KT_REAL(values[0], round == 0 ? 0 : last);
        KT_REAL(values[1], round == 0 ? -last : 0);
        KT_TRUE(values[2] != values[2]);
        KT_REAL(values[3], 5);
        KT_OK(reduce(&crew, kvs_key_int(2), how, KVS_DTYPE_uint8, 2, bytes));
        KT_INT(bytes[0], round == 0 ? 200 : 200 + last);
        KT_INT(bytes[1], round == 0 ? 10 - last : 10);
        KT_OK(reduce(&crew, kvs_key_int(3), how, KVS_DTYPE_int64, 1, &wide));
        KT_INT(wide, ((int64_t)1 << 40) * (round == 0 ? 1 : crew.n));
        KT_OK(reduce(&crew, kvs_key_int(4), how, KVS_DTYPE_bfloat16, 1, bfloats));
        KT_INT(bfloats[0], round == 0 ? 0xBF80 : 0x3F80);
    }
    crew_close(&crew);
}

static void a_reduction_that_differs_is_told_to_all(void)
{
    crew_t crew = crew_open(NULL, 0);
    float value = 1;

    KT_FAIL(reduce(&crew, kvs_key_int(1), crew.rank == 0 ? KVS_REDUCE_MIN : KVS_REDUCE_MAX,
                   KVS_DTYPE_float32, 1, &value),
            KVS_ERR_ARGUMENT, "asked for the ");
    KT_HAS(kvs_last_error(), "min");
    KT_HAS(kvs_last_error(), "max");
    KT_FAIL(reduce(&crew, kvs_key_int(1), 77, KVS_DTYPE_float32, 1, &value), KVS_ERR_ARGUMENT,
            "reduction 77");
    crew_works(&crew, kvs_key_int(1));
    crew_close(&crew);
}

/* ---- Allgather ---------------------------------------------------------------------------------- */

static void allgather_puts_values_one_behind_the_other(void)
{
    crew_t crew = crew_open(NULL, 0);

    for (int round = 0; round < 3; round++) {
        int64_t scale = round == 0   ? 1
                        : round == 1 ? 0
                                     : 30000; /* rows: as many as the rank, times it */
        int64_t n_own = crew.rank * scale, n_all = crew.n * (crew.n - 1) / 2 * scale, n_wrong = 0,
                at = 0;
        int64_t value_shape[2] = {n_own, 3}, out_shape[2] = {n_all, 3};
        int32_t *value = malloc((size_t)n_own * 12 + 1), *out = malloc((size_t)n_all * 12 + 1);
        kvs_tensor_t from = kt_tensor(value, KVS_DTYPE_int32, value_shape, 2);
        kvs_tensor_t to = kt_tensor(out, KVS_DTYPE_int32, out_shape, 2);

        for (int64_t i = 0; i < n_own * 3; i++) {
            value[i] = (int32_t)(crew.rank * 1000000 + i);
        }
        KT_OK(kvs_allgather(crew.store, kvs_key_str("rows"), &from, &to));
        for (int rank = 0; rank < crew.n; rank++) {
            for (int64_t i = 0; i < rank * scale * 3; i++) {
                n_wrong += out[at++] != (int32_t)(rank * 1000000 + i);
            }
        }
        KT_INT(at, n_all * 3);
        KT_INT(n_wrong, 0);
        free(value);
        free(out);
    }
    crew_works(&crew, kvs_key_str("rows")); /* the key is free for pushpull */
    crew_close(&crew);
}

static void allgather_errors(void)
{
    crew_t crew = crew_open(NULL, 0);
    float value[2] = {1, 2}, out[32];
    int64_t one = 1, two = 2, all = crew.n, pair[2] = {1, 2}, n = crew.rank == 0 ? 31 : crew.n;
    kvs_tensor_t from = kt_tensor(value, KVS_DTYPE_float32, &one, 1);
    kvs_tensor_t wide = kt_tensor(value, KVS_DTYPE_float32, pair, 2);
    kvs_tensor_t to = kt_tensor(out, KVS_DTYPE_float32, &n, 1);
    kvs_tensor_t other = kt_tensor(out, KVS_DTYPE_int32, &all, 1);
    kvs_status_t status = kvs_allgather(crew.store, kvs_key_int(1), &from, &to);

    if (crew.rank == 0) { /* only its out is wrong */
        KT_FAIL(status, KVS_ERR_SHAPE, "allgather: key 1: ");
        KT_HAS(kvs_last_error(), "that of the out is 31");
    } else {
        KT_OK(status);
    }
    KT_FAIL(kvs_allgather(crew.store, kvs_key_int(1), &from, &other), KVS_ERR_DTYPE,
            "the value is float32, but the out is int32");
    KT_FAIL(kvs_allgather(crew.store, kvs_key_int(1), &wide, &to), KVS_ERR_SHAPE,
            "beyond their first dimension");
    /* ranks that differ */
    n = two * crew.n;
    from.dtype = kvs_dtype(crew.rank == 0 ? KVS_DTYPE_int32 : KVS_DTYPE_float32);
    to.dtype = from.dtype;
    KT_FAIL(kvs_allgather(crew.store, kvs_key_int(2), &from, &to), KVS_ERR_DTYPE,
            "allgather: key 2: worker ");
    crew_works(&crew, kvs_key_int(1));
    crew_close(&crew);
}

/* ---- Row-sparse values --------------------------------------------------------------------------- */

enum { N_ROWS = 100, ROW = 3 };

/* Rank r has the rows r, r + 1 and, given twice, 50; each element its rank + 1. */
static kvs_tensor_t rows_of(int rank, float *data, int64_t *ids, kvs_rows_t *rows,
                            const int64_t *shape)
{
    kvs_tensor_t tensor = kt_tensor(data, KVS_DTYPE_float32, shape, 2);

    ids[0] = 50;
    ids[1] = rank + 1;
    ids[2] = rank;
    ids[3] = 50;
    for (int i = 0; i < 4 * ROW; i++) {
        data[i] = (float)(rank + 1);
    }
    *rows = (kvs_rows_t){ids, 4, 4};
    tensor.rows = rows;
    return tensor;
}

static float want_row(const crew_t *crew, int row)
{
    float sum = 0;

    for (int rank = 0; rank < crew->n; rank++) {
        sum += (float)((rank + 1) * ((row == rank) + (row == rank + 1) + 2 * (row == 50)));
    }
    return sum;
}

static void rows_of_all_workers_are_added(void)
{
    crew_t crew = crew_open(NULL, 0);
    static const int64_t shape[2] = {N_ROWS, ROW};
    float data[4 * ROW], dense[N_ROWS * ROW], sums[16 * ROW];
    int64_t ids[4], sum_ids[16];
    kvs_rows_t rows, sum_rows = {sum_ids, 0, 16};
    kvs_tensor_t value = rows_of(crew.rank, data, ids, &rows, shape);
    kvs_tensor_t outs[2] = {kt_tensor(dense, KVS_DTYPE_float32, shape, 2),
                            kt_tensor(sums, KVS_DTYPE_float32, shape, 2)};
    kvs_arrays_t values = kvs_arrays(&value, 1), to = kvs_arrays(outs, 2);
    kvs_key_t key = kvs_key_str("table");
    kvs_call_t call = KVS_CALL_INIT;
    int capable = 1, n_wrong = 0;

    outs[1].rows = &sum_rows;
    for (int round = 0; round < 2; round++) {
        float parts = round == 0 ? 1 : (float)crew.n;

        memset(dense, 1, sizeof(dense));
        call.reduce = round == 0 ? KVS_REDUCE_SUM : KVS_REDUCE_AVERAGE;
        KT_OK(kvs_store_pushpull(crew.store, &key, 1, &values, &to, &call));
        KT_INT(sum_rows.n_rows, crew.n + 2);
        for (int i = 0; i < N_ROWS * ROW; i++) {
            n_wrong += dense[i] != want_row(&crew, i / ROW) / parts;
        }
        for (int64_t i = 0; i < sum_rows.n_rows; i++) {
            KT_INT(sum_ids[i], i <= crew.n ? i : 50);
            KT_REAL(sums[i * ROW], want_row(&crew, (int)sum_ids[i]) / parts);
        }
    }
    KT_INT(n_wrong, 0);
    call.reduce = KVS_REDUCE_MIN;
    KT_FAIL(kvs_store_pushpull(crew.store, &key, 1, &values, &to, &call), KVS_ERR_NOT_IMPLEMENTED,
            "the sum and the average only");
    call.reduce = KVS_REDUCE_SUM;
    sum_rows.capacity = 1;
    KT_FAIL(kvs_store_pushpull(crew.store, &key, 1, &values, &to, &call), KVS_ERR_ARGUMENT,
            "pushpull: key 'table': an out has room for 1 rows");
    KT_OK(kvs_store_is_capable(crew.store, "sparse", &capable));
    KT_INT(capable, 0);
    crew_works(&crew, kvs_key_str("other"));
    crew_close(&crew);
}

/* ---- Join ----------------------------------------------------------------------------------------- */

static void join_gives_the_last_to_come(void)
{
    crew_t crew = crew_open(NULL, 0);
    int last = -1;

    /* the last step is rank 0's alone: it joins after all others */
    if (crew.rank == 0) {
        float sum = 0;

        KT_OK(crew_sum1(&crew, kvs_key_int(1), 1, &sum));
        KT_REAL(sum, 1);
        KT_OK(crew_sum1(&crew, kvs_key_int(1), 1, &sum));
        KT_REAL(sum, 1);
    }
    KT_OK(kvs_store_join_last(crew.store, &last));
    KT_INT(last, 0);
    crew_works(&crew, kvs_key_int(1));
    crew_close(&crew);
}

static void others_stores_say_that_they_have_none_of_it(void)
{
    kvs_store_t *local = NULL;
    kvs_key_t key = kvs_key_int(1);
    float value = 1;
    kvs_tensor_t tensor = KT_F32(&value, 1);
    kvs_arrays_t values = kvs_arrays(&tensor, 1);
    kvs_call_t call = KVS_CALL_INIT;

    call.reduce = KVS_REDUCE_MAX;
    KT_OK(kvs_store_create("local", NULL, 0, &local));
    KT_OK(kvs_store_init(local, &key, 1, &values, NULL));
    KT_FAIL(kvs_store_pushpull(local, &key, 1, &values, NULL, &call), KVS_ERR_NOT_IMPLEMENTED,
            "by local");
    KT_FAIL(kvs_allgather(local, key, &tensor, &tensor), KVS_ERR_NOT_IMPLEMENTED,
            "not implemented: allreduce by local");
    KT_OK(kvs_store_close(local));
}

static const kt_test_t tests[] = {
    KT_TEST(averages_of_floats),
    KT_TEST(averages_of_integers_are_rounded_down),
    KT_TEST(least_and_greatest),
    KT_TEST(a_reduction_that_differs_is_told_to_all),
    KT_TEST(allgather_puts_values_one_behind_the_other),
    KT_TEST(allgather_errors),
    KT_TEST(rows_of_all_workers_are_added),
    KT_TEST(join_gives_the_last_to_come),
    KT_TEST(others_stores_say_that_they_have_none_of_it),
};

KT_MAIN("job_horovod_more", tests)
