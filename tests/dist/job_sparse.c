/* SPDX-License-Identifier: Apache-2.0 */
/* job_sparse.c - row-sparse arrays in a job: the bits of `local` with the list of all workers' values, whole
 * or cut over servers, with optimizers that are lazy and those that are not; and what is told where
 * workers disagree. Each rank makes the values of all ranks and lets a local store say what is right. */
#include "job.h"

#include <stdlib.h>

enum { N_ROUNDS = 4, MAX_WORKERS = 8 };

/* ---- Tables and rows of them --------------------------------------------------------------------------- */

typedef struct table {
    int dtype;
    int64_t shape[2];
} table_t;

/* Rows of a table, with room for all of them. */
typedef struct rows {
    kvs_tensor_t tensor;
    kvs_rows_t rows;
} rows_t;

static size_t bytes_each(const table_t *table)
{
    return kvs_dtype(table->dtype).bits / 8;
}

static size_t row_bytes(const table_t *table)
{
    return (size_t)table->shape[1] * bytes_each(table);
}

static uint64_t mix(uint64_t x)
{
    x ^= x >> 31;
    x *= 0x9E3779B97F4A7C15u;
    x ^= x >> 29;
    x *= 0xBF58476D1CE4E5B9u;
    return x ^ (x >> 32);
}

static void new_rows(const table_t *table, int64_t capacity, rows_t *rows)
{
    rows->rows.ids = calloc((size_t)capacity + 1, sizeof(int64_t));
    rows->rows.n_rows = capacity;
    rows->rows.capacity = capacity;
    rows->tensor = kt_tensor(calloc((size_t)capacity + 1, row_bytes(table) + 1), table->dtype,
                             table->shape, 2);
    rows->tensor.rows = &rows->rows;
    if (rows->rows.ids == NULL || rows->tensor.data == NULL) {
        exit(2);
    }
}

static void release(rows_t *rows)
{
    free(rows->rows.ids);
    free(rows->tensor.data);
}

/* Of full precision, so that sums round, and another order gives other bits. */
static void put(const table_t *table, char *to, uint64_t random)
{
    double wide = ((double)(random >> 11) / (double)((uint64_t)1 << 52) - 1) *
                  (double)(1 << (random >> 3 & 7));
    float narrow = (float)wide;
    uint32_t bits;
    uint16_t half;

    memcpy(&bits, &narrow, sizeof(bits));
    switch (table->dtype) {
    case KVS_DTYPE_float32:
        memcpy(to, &narrow, sizeof(narrow));
        break;
    case KVS_DTYPE_float64:
        memcpy(to, &wide, sizeof(wide));
        break;
    case KVS_DTYPE_bfloat16:
        half = (uint16_t)(bits >> 16);
        memcpy(to, &half, sizeof(half));
        break;
    case KVS_DTYPE_float16:
        half = (uint16_t)((bits >> 16 & 0x8000) | ((bits >> 23 & 0xff) - 112) << 10 |
                          (bits >> 13 & 0x3ff));
        half = narrow > -0x1p-14f && narrow < 0x1p-14f ? 0 : half;
        memcpy(to, &half, sizeof(half));
        break;
    default: /* integers wrap */
        memcpy(to, &random, bytes_each(table));
        break;
    }
}

static void fill(const table_t *table, uint64_t seed, rows_t *rows)
{
    int64_t n = rows->rows.n_rows * table->shape[1];

    for (int64_t i = 0; i < n; i++) {
        put(table, (char *)rows->tensor.data + (size_t)i * bytes_each(table),
            mix(seed * 1000003 + (uint64_t)i));
    }
}

/* What a worker pushes: unsorted rows, some of them twice; a round now and then has none. */
static rows_t pushed_rows(const table_t *table, int worker, uint64_t seed)
{
    int64_t n = table->shape[0] == 0 || (seed + (uint64_t)worker) % 5 == 4
                    ? 0
                    : table->shape[0] / 3 + worker + 1;
    rows_t rows;

    new_rows(table, n, &rows);
    for (int64_t i = 0; i < n; i++) {
        rows.rows.ids[i] =
            (int64_t)(mix(seed * 77 + (uint64_t)(worker * 7919 + i)) % (uint64_t)table->shape[0]);
    }
    fill(table, seed + (uint64_t)worker, &rows);
    return rows;
}

/* ---- Both stores ----------------------------------------------------------------------------------------- */

typedef struct pair {
    job_t job;
    kvs_store_t *local;
} pair_t;

static pair_t open_pair(void)
{
    pair_t pair = {JOB_OPEN({"bigarray_bound", "70000"}), NULL};

    KT_OK(kvs_store_create("local", NULL, 0, &pair.local));
    return pair;
}

static void close_pair(pair_t *pair)
{
    KT_OK(kvs_store_close(pair->local));
    job_close(&pair->job);
}

/* Rows 0, 3, 6, …; the others are missing. */
static void init_both(const pair_t *pair, kvs_key_t key, const table_t *table, uint64_t seed)
{
    rows_t rows;
    kvs_arrays_t values = kvs_arrays(&rows.tensor, 1);

    new_rows(table, (table->shape[0] + 2) / 3, &rows);
    for (int64_t i = 0; i < rows.rows.n_rows; i++) {
        rows.rows.ids[i] = 3 * i;
    }
    fill(table, seed, &rows);
    KT_OK(kvs_store_init(pair->job.store, &key, 1, &values, NULL));
    KT_OK(kvs_store_init(pair->local, &key, 1, &values, NULL));
    release(&rows);
}

static void push_both(const pair_t *pair, kvs_key_t key, const table_t *table, uint64_t seed)
{
    rows_t rows[MAX_WORKERS];
    kvs_tensor_t tensors[MAX_WORKERS];
    kvs_arrays_t all = kvs_arrays(tensors, (size_t)pair->job.n_workers), own;

    for (int w = 0; w < pair->job.n_workers; w++) {
        rows[w] = pushed_rows(table, w, seed);
        tensors[w] = rows[w].tensor;
        tensors[w].rows = &rows[w].rows;
    }
    own = kvs_arrays(&tensors[pair->job.rank], 1);
    KT_OK(kvs_store_push(pair->job.store, &key, 1, &own, NULL));
    KT_OK(kvs_store_push(pair->local, &key, 1, &all, NULL));
    for (int w = 0; w < pair->job.n_workers; w++) {
        release(&rows[w]);
    }
}

static void pull_rows(kvs_store_t *store, kvs_key_t key, kvs_tensor_t *ids, rows_t *out)
{
    kvs_arrays_t outs = kvs_arrays(&out->tensor, 1), lists = kvs_arrays(ids, 1);

    out->tensor.rows = &out->rows;
    KT_OK(kvs_store_row_sparse_pull(store, &key, 1, &outs, &lists, NULL));
}

/* Every `step`-th row, the last ones first, by row_sparse_pull. */
static void compare(const pair_t *pair, kvs_key_t key, const table_t *table, int64_t step,
                    const char *what)
{
    int64_t n = (table->shape[0] + step - 1) / step, at = 0;
    int64_t *ids = calloc((size_t)n + 1, sizeof(*ids));
    kvs_tensor_t tensor = kt_tensor(ids, KVS_DTYPE_int64, &n, 1);
    rows_t got, want;

    new_rows(table, n, &got);
    new_rows(table, n, &want);
    for (int64_t i = 0; i < n; i++) {
        ids[i] = (n - 1 - i) * step;
    }
    pull_rows(pair->job.store, key, &tensor, &got);
    pull_rows(pair->local, key, &tensor, &want);
    KT_INT(got.rows.n_rows, n);
    while (at < n && got.rows.ids[at] == want.rows.ids[at] &&
           memcmp((char *)got.tensor.data + (size_t)at * row_bytes(table),
                  (char *)want.tensor.data + (size_t)at * row_bytes(table),
                  row_bytes(table)) == 0) {
        at++;
    }
    if (at < n) {
        fprintf(stderr, "%s: %s (%lld, %lld), row %lld of %lld differs\n", what,
                kvs_dtype_name(kvs_dtype(table->dtype)), (long long)table->shape[0],
                (long long)table->shape[1], (long long)at, (long long)n);
    }
    KT_INT(at, n);
    release(&got);
    release(&want);
    free(ids);
}

static void run_table(const pair_t *pair, int64_t number, const table_t *table, const char *what)
{
    kvs_key_t key = kvs_key_int(number);

    init_both(pair, key, table, (uint64_t)number + 50);
    compare(pair, key, table, 1, what);
    for (int round = 0; round < N_ROUNDS; round++) {
        push_both(pair, key, table, (uint64_t)(1000 * number + round));
        compare(pair, key, table, 1 + round, what);
    }
}

/* Empty ones; whole; cut over servers at blocks and rows, and at rows alone; rows longer than a message. */
static const int64_t shapes[][2] = {{7, 3}, {0, 4}, {5, 0}, {300, 512}, {1211, 121}, {5, 70001}};

#define N_SHAPES (sizeof(shapes) / sizeof(shapes[0]))

typedef struct optimizer {
    const char *name;
    int lazy; /* -1: it has no such parameter */
    int multi_precision;
    size_t n_shapes; /* of the list above */
} optimizer_t;

static kvs_status_t set_optimizer(kvs_store_t *store, const optimizer_t *optimizer)
{
    kvs_param_t params[4] = {
        JOB_REAL("learning_rate", 0.1), JOB_BOOL("multi_precision", optimizer->multi_precision),
        JOB_REAL("rescale_grad", 0.5), JOB_BOOL("lazy_update", optimizer->lazy)};

    return job_set_optimizer(store, optimizer->name, params, optimizer->lazy < 0 ? 3 : 4);
}

static void run_all(const optimizer_t *optimizer, int floats_only)
{
    pair_t pair = open_pair();
    int64_t number = 1;

    if (optimizer->name != NULL) {
        KT_OK(set_optimizer(pair.job.store, optimizer));
        KT_OK(set_optimizer(pair.local, optimizer));
    }
    for (int dtype = 0; dtype < KVS_N_DTYPES; dtype++) {
        for (size_t s = 0; s < optimizer->n_shapes; s++) {
            table_t table = {dtype, {shapes[s][0], shapes[s][1]}};

            if (dtype <= KVS_DTYPE_bfloat16 || !floats_only) {
                run_table(&pair, number++, &table,
                          optimizer->name == NULL ? "no optimizer" : optimizer->name);
            }
        }
    }
    close_pair(&pair);
}

/* ---- Scenarios ------------------------------------------------------------------------------------------- */

static void rows_have_the_bits_of_local(void)
{
    run_all(&(optimizer_t){NULL, -1, 0, N_SHAPES}, 0);
}

static void lazy_updates_have_the_bits_of_local(void)
{
    static const optimizer_t optimizers[] = {
        {"sgd", 1, 0, N_SHAPES}, {"adam", 1, 1, 5}, {"ftrl", -1, 0, 5}, {"groupadagrad", -1, 0, 5}};

    for (size_t i = 0; i < sizeof(optimizers) / sizeof(optimizers[0]); i++) {
        run_all(&optimizers[i], 1);
    }
}

static void updates_of_all_rows_have_the_bits_of_local(void)
{
    static const optimizer_t optimizers[] = {
        {"sgd", 0, 1, N_SHAPES}, {"nag", -1, 0, 5}, {"lamb", -1, 0, 5}};

    for (size_t i = 0; i < sizeof(optimizers) / sizeof(optimizers[0]); i++) {
        run_all(&optimizers[i], 1);
    }
}

/* Dense weights with row-sparse gradients, and dense ones between them. */
static void dense_keys_take_rows(void)
{
    static const optimizer_t lazy = {"sgd", 1, 0, 0};
    pair_t pair = open_pair();
    table_t table = {KVS_DTYPE_float32, {300, 512}};
    int64_t n = table.shape[0] * table.shape[1];
    float *at = calloc((size_t)n, sizeof(*at)), *want = calloc((size_t)n, sizeof(*want));
    kvs_tensor_t tensor = kt_tensor(at, table.dtype, table.shape, 2);
    kvs_tensor_t want_tensor = kt_tensor(want, table.dtype, table.shape, 2);
    kvs_arrays_t arrays = kvs_arrays(&tensor, 1), wants = kvs_arrays(&want_tensor, 1);
    kvs_key_t key = kvs_key_str("dense");

    KT_OK(kvs_store_init(pair.job.store, &key, 1, &arrays, NULL));
    KT_OK(kvs_store_init(pair.local, &key, 1, &arrays, NULL));
    for (int round = 0; round < 6; round++) {
        if (round == 3) {
            KT_OK(set_optimizer(pair.job.store, &lazy));
            KT_OK(set_optimizer(pair.local, &lazy));
        }
        push_both(&pair, key, &table, (uint64_t)round);
        KT_OK(kvs_store_pull(pair.job.store, &key, 1, &arrays, NULL));
        KT_OK(kvs_store_pull(pair.local, &key, 1, &wants, NULL));
        KT_INT(memcmp(at, want, (size_t)n * sizeof(*at)), 0);
    }
    free(at);
    free(want);
    close_pair(&pair);
}

/* Several values of a worker are one: the rows of all. Several outs have lists of their own. */
static void lists_of_values_and_outs(void)
{
    pair_t pair = open_pair();
    table_t table = {KVS_DTYPE_int32, {1211, 121}};
    kvs_key_t key = kvs_key_int(3);
    rows_t rows[2 * MAX_WORKERS], outs[2], wants[2];
    kvs_tensor_t tensors[2 * MAX_WORKERS], out_tensors[2], want_tensors[2], id_tensors[2];
    int64_t ids[2][3] = {{1200, 3, 1200}, {0, 3, 900}}, n = 3;
    kvs_arrays_t all = kvs_arrays(tensors, 2 * (size_t)pair.job.n_workers);
    kvs_arrays_t own = kvs_arrays(&tensors[2 * pair.job.rank], 2),
                 lists = kvs_arrays(id_tensors, 2);
    kvs_arrays_t got = kvs_arrays(out_tensors, 2), want = kvs_arrays(want_tensors, 2);

    init_both(&pair, key, &table, 4);
    for (int i = 0; i < 2 * pair.job.n_workers; i++) {
        rows[i] = pushed_rows(&table, i, 20);
        tensors[i] = rows[i].tensor;
        tensors[i].rows = &rows[i].rows;
    }
    KT_OK(kvs_store_push(pair.job.store, &key, 1, &own, NULL));
    KT_OK(kvs_store_push(pair.local, &key, 1, &all, NULL));
    for (int i = 0; i < 2; i++) {
        new_rows(&table, 3, &outs[i]);
        new_rows(&table, 3, &wants[i]);
        out_tensors[i] = outs[i].tensor;
        want_tensors[i] = wants[i].tensor;
        id_tensors[i] = kt_tensor(ids[i], KVS_DTYPE_int64, &n, 1);
    }
    KT_OK(kvs_store_row_sparse_pull(pair.job.store, &key, 1, &got, &lists, NULL));
    KT_OK(kvs_store_row_sparse_pull(pair.local, &key, 1, &want, &lists, NULL));
    for (int i = 0; i < 2; i++) {
        KT_INT(outs[i].rows.n_rows, 2 + i);
        KT_INT(memcmp(outs[i].rows.ids, wants[i].rows.ids, (size_t)(2 + i) * sizeof(int64_t)), 0);
        KT_INT(
            memcmp(outs[i].tensor.data, wants[i].tensor.data, (size_t)(2 + i) * row_bytes(&table)),
            0);
        release(&outs[i]);
        release(&wants[i]);
    }
    for (int i = 0; i < 2 * pair.job.n_workers; i++) {
        release(&rows[i]);
    }
    close_pair(&pair);
}

/* ---- What is refused --------------------------------------------------------------------------------------- */

static kvs_status_t push_rows(const job_t *job, kvs_key_t key, const table_t *table, int64_t id)
{
    rows_t rows;
    kvs_arrays_t values = kvs_arrays(&rows.tensor, 1);
    kvs_status_t status;

    new_rows(table, 1, &rows);
    rows.rows.ids[0] = id;
    status = kvs_store_push(job->store, &key, 1, &values, NULL);
    release(&rows);
    return status;
}

static void init_dense(const job_t *job, kvs_key_t key, const table_t *table)
{
    kvs_tensor_t tensor =
        kt_tensor(calloc((size_t)table->shape[0], row_bytes(table)), table->dtype, table->shape, 2);
    kvs_arrays_t values = kvs_arrays(&tensor, 1);

    KT_OK(kvs_store_init(job->store, &key, 1, &values, NULL));
    free(tensor.data);
}

static void dense_and_row_sparse_pushes_of_one_round_are_told_to_both(void)
{
    job_t job = job_open(NULL, 0);
    table_t table = {KVS_DTYPE_float32, {2, 2}};
    float at[4] = {1, 2, 3, 4};
    kvs_tensor_t tensor = kt_tensor(at, table.dtype, table.shape, 2);
    kvs_arrays_t arrays = kvs_arrays(&tensor, 1);
    kvs_key_t key = kvs_key_int(1);

    init_dense(&job, key, &table);
    KT_FAIL(job_failure(&job, job.rank == 0 ? kvs_store_push(job.store, &key, 1, &arrays, NULL)
                                            : push_rows(&job, key, &table, 1)),
            KVS_ERR_STORAGE, "key 1, round 1: worker 0 (");
    KT_HAS(kvs_last_error(), "pushes a dense value, worker 1 (");
    KT_OK(kvs_store_push(job.store, &key, 1, &arrays, NULL));
    KT_OK(kvs_store_pull(job.store, &key, 1, &arrays, NULL));
    KT_REAL(at[3], 8);
    job_close(&job);
}

static void a_storage_that_differs_is_told_to_both(void)
{
    job_t job = job_open(NULL, 0);
    table_t table = {KVS_DTYPE_float32, {2, 2}};
    kvs_key_t key = kvs_key_int(1);
    rows_t rows;
    kvs_arrays_t values = kvs_arrays(&rows.tensor, 1);

    if (job.rank == 0) {
        init_dense(&job, key, &table);
        job_meet(&job);
        job_meet(&job);
        KT_FAIL(push_rows(&job, key, &table, 0), KVS_ERR_STORAGE, "key 1: worker 1 (");
    } else {
        job_meet(&job);
        new_rows(&table, 0, &rows);
        KT_FAIL(kvs_store_init(job.store, &key, 1, &values, NULL), KVS_ERR_STORAGE,
                "gives row-sparse shape (2, 2) and dtype float32, but worker 0 (");
        release(&rows);
        job_meet(&job);
    }
    job_close(&job);
}

/* 1211 elements a row: cut at a block, which no row begins at. */
static void rows_of_an_array_cut_within_rows_are_refused(void)
{
    job_t job = JOB_OPEN({"bigarray_bound", "70000"});
    table_t table = {KVS_DTYPE_float32, {121, 1211}};

    init_dense(&job, kvs_key_int(1), &table);
    KT_FAIL(push_rows(&job, kvs_key_int(1), &table, 7), KVS_ERR_NOT_IMPLEMENTED, "bigarray_bound");
    job_close(&job);
}

static void an_optimizer_with_norms_comes_before_a_table_is_cut(void)
{
    job_t job = JOB_OPEN({"bigarray_bound", "70000"});
    table_t table = {KVS_DTYPE_float32, {1211, 121}};
    kvs_key_t key = kvs_key_int(1);
    rows_t rows;
    kvs_arrays_t values = kvs_arrays(&rows.tensor, 1);

    new_rows(&table, 0, &rows);
    KT_OK(kvs_store_init(job.store, &key, 1, &values, NULL));
    release(&rows);
    KT_OK(set_optimizer(job.store, &(optimizer_t){"lamb", -1, 0, 0}));
    KT_FAIL(job_failure(&job, push_rows(&job, key, &table, 7)), KVS_ERR_NOT_IMPLEMENTED,
            "optimizer 'lamb' needs norms, but shape (1211, 121) is cut between their blocks");
    job_close(&job);
}

static const kt_test_t tests[] = {
    KT_TEST(rows_have_the_bits_of_local),
    KT_TEST(lazy_updates_have_the_bits_of_local),
    KT_TEST(updates_of_all_rows_have_the_bits_of_local),
    KT_TEST(dense_keys_take_rows),
    KT_TEST(lists_of_values_and_outs),
    KT_TEST(dense_and_row_sparse_pushes_of_one_round_are_told_to_both),
    KT_TEST(a_storage_that_differs_is_told_to_both),
    KT_TEST(rows_of_an_array_cut_within_rows_are_refused),
    KT_TEST(an_optimizer_with_norms_comes_before_a_table_is_cut),
};

KT_MAIN("job_sparse", tests)
