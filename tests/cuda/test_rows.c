/* SPDX-License-Identifier: Apache-2.0 */
/* Row-sparse arrays on pretend devices: `device` gives the bits that `local` gives for the same rows on the
 * host. Also their streams, what they cost, counted, and wrong use. */
#include "pretend.h"

#include <stdlib.h>
#include <unistd.h>

enum { MAX_VALUES = 8 };

static const kvs_device_t host = {KVS_DEVICE_CPU, 0};
static const kvs_key_t key = {NULL, 3};

/* A key's shape; the big one is cut over devices, within a row. */
static const int64_t small_shape[] = {50, 7}, big_shape[] = {900, 211};

/* ---- Arrays --------------------------------------------------------------------------------------------- */

/* The same rows on a device and on the host. */
typedef struct rows {
    kvs_tensor_t there, here;
    kvs_rows_t there_rows, here_rows;
    size_t row_bytes;
} rows_t;

/* An array of `n` rows of `shape` without ids. */
static void make_rows(rows_t *rows, int device, int dtype, const int64_t *shape, int64_t n)
{
    int64_t n_elems = n * shape[1];
    void *bytes = malloc((size_t)n_elems * 8 + 8);

    *rows = (rows_t){.row_bytes = (size_t)shape[1] * pretend_elem_bytes(dtype)};
    pretend_fill(dtype, n_elems, bytes);
    rows->there = pretend_array(device, dtype, &n_elems, bytes, 0);
    rows->here = pretend_array(-1, dtype, &n_elems, bytes, 0);
    rows->there.ndim = rows->here.ndim = 2;
    rows->there.shape = rows->here.shape = shape;
    rows->there_rows = rows->here_rows = (kvs_rows_t){.n_rows = n, .capacity = n};
    rows->there_rows.ids = calloc((size_t)n + 1, sizeof(int64_t));
    rows->here_rows.ids = calloc((size_t)n + 1, sizeof(int64_t));
    rows->there.rows = &rows->there_rows;
    rows->here.rows = &rows->here_rows;
    free(bytes);
}

static void set_id(rows_t *rows, int64_t i, int64_t id)
{
    rows->there_rows.ids[i] = rows->here_rows.ids[i] = id;
}

/* Ids in any order, some of them repeated; or, with `sorted`, ascending, each once. */
static void make_value(rows_t *rows, int device, int dtype, const int64_t *shape, int sorted)
{
    int64_t n = sorted ? shape[0] / 3 : 2 * shape[0] / 3;

    make_rows(rows, device, dtype, shape, n);
    for (int64_t i = 0; i < n; i++) {
        set_id(rows, i,
               sorted ? 3 * i + (int64_t)(pretend_random() % 3)
                      : (int64_t)(pretend_random() % (uint64_t)shape[0]));
    }
}

static void free_rows(rows_t *rows)
{
    free(rows->there_rows.ids);
    free(rows->here_rows.ids);
    pretend_free(&rows->there, 0);
    pretend_free(&rows->here, 0);
}

static int rows_differ(const rows_t *rows)
{
    size_t n = (size_t)rows->here_rows.n_rows;
    void *got = malloc(n * rows->row_bytes + 1);
    int differ = rows->there_rows.n_rows != rows->here_rows.n_rows ||
                 memcmp(rows->there_rows.ids, rows->here_rows.ids, n * sizeof(int64_t)) != 0;

    KT_OK(kvs_device_copy(host, got, rows->there.device, rows->there.data, n * rows->row_bytes));
    differ |= memcmp(got, rows->here.data, n * rows->row_bytes) != 0;
    free(got);
    return differ;
}

/* ---- Two stores ------------------------------------------------------------------------------------------ */

typedef struct pair {
    kvs_store_t *device, *local;
    int dtype;
    const int64_t *shape;
} pair_t;

/* With one key, row-sparse unless `dense`. */
static void open_pair(pair_t *pair, int dtype, const int64_t *shape, int dense)
{
    rows_t first;

    *pair = (pair_t){.dtype = dtype, .shape = shape};
    KT_OK(kvs_store_create("device", NULL, 0, &pair->device));
    KT_OK(kvs_store_create("local", NULL, 0, &pair->local));
    make_rows(&first, 0, dtype, shape, dense ? shape[0] : shape[0] / 2);
    for (int64_t i = 0; i < shape[0] / 2; i++) {
        set_id(&first, i, 2 * i);
    }
    if (dense) {
        first.there.rows = first.here.rows = NULL;
    }
    kvs_arrays_t there = pretend_list(&first.there, 1), here = pretend_list(&first.here, 1);

    KT_OK(kvs_store_init(pair->device, &key, 1, &there, NULL));
    KT_OK(kvs_store_init(pair->local, &key, 1, &here, NULL));
    free_rows(&first);
}

static void close_pair(const pair_t *pair)
{
    KT_OK(kvs_store_close(pair->device));
    KT_OK(kvs_store_close(pair->local));
}

/* n new values, over all devices and, with `mixed`, some on the host. */
static void push(const pair_t *pair, int n, int sorted, int mixed)
{
    rows_t values[MAX_VALUES];
    kvs_tensor_t there[MAX_VALUES], here[MAX_VALUES];
    int n_devices = pretend_n_devices();

    for (int i = 0; i < n; i++) {
        make_value(&values[i], mixed && i % 3 == 1 ? -1 : i % n_devices, pair->dtype, pair->shape,
                   sorted);
        there[i] = values[i].there;
        here[i] = values[i].here;
    }
    kvs_arrays_t there_list = pretend_list(there, (size_t)n),
                 here_list = pretend_list(here, (size_t)n);

    KT_OK(kvs_store_push(pair->device, &key, 1, &there_list, NULL));
    KT_OK(kvs_store_push(pair->local, &key, 1, &here_list, NULL));
    for (int i = 0; i < n; i++) {
        free_rows(&values[i]);
    }
}

/* Pull rows to an out on every device and one on the host; says how many are not as they should be. */
static int n_wrong_pulls(const pair_t *pair, int out_dtype, kvs_tensor_t ids_there,
                         kvs_tensor_t ids_here)
{
    rows_t outs[MAX_VALUES + 1];
    kvs_tensor_t there[MAX_VALUES + 1], here[MAX_VALUES + 1];
    int n = pretend_n_devices() + 1, n_wrong = 0;

    for (int i = 0; i < n; i++) {
        make_rows(&outs[i], i + 1 < n ? i : -1, out_dtype, pair->shape, pair->shape[0]);
        there[i] = outs[i].there;
        here[i] = outs[i].here;
    }
    kvs_arrays_t there_list = pretend_list(there, (size_t)n),
                 here_list = pretend_list(here, (size_t)n);
    kvs_arrays_t there_ids = pretend_list(&ids_there, 1), here_ids = pretend_list(&ids_here, 1);

    KT_OK(kvs_store_row_sparse_pull(pair->device, &key, 1, &there_list, &there_ids, NULL));
    KT_OK(kvs_store_row_sparse_pull(pair->local, &key, 1, &here_list, &here_ids, NULL));
    for (int i = 0; i < n; i++) {
        n_wrong += rows_differ(&outs[i]);
        free_rows(&outs[i]);
    }
    return n_wrong;
}

/* All rows of the key are as they should be, and some. */
static void check_rows(const pair_t *pair, int out_dtype)
{
    int64_t n = pair->shape[0], *ids = malloc((size_t)n * sizeof(*ids));

    for (int64_t i = 0; i < n; i++) {
        ids[i] = n - 1 - i;
    }
    kvs_tensor_t all = kt_tensor(ids, KVS_DTYPE_int64, &n, 1);

    KT_INT(n_wrong_pulls(pair, out_dtype, all, all), 0);
    for (int64_t i = 0; i < n; i++) {
        ids[i] = (int64_t)(pretend_random() % (uint64_t)n) / 2 + n / 3;
    }
    KT_INT(n_wrong_pulls(pair, out_dtype, all, all), 0);
    free(ids);
}

/* The dense form is pulled to a dense out on every device. */
static void check_dense(const pair_t *pair)
{
    int64_t n_elems = pair->shape[0] * pair->shape[1];
    int n = pretend_n_devices();
    size_t n_bytes = (size_t)n_elems * pretend_elem_bytes(pair->dtype);
    char *want = malloc(n_bytes), *got = malloc(n_bytes);
    kvs_tensor_t here = kt_tensor(want, pair->dtype, pair->shape, 2), there[MAX_VALUES];
    kvs_arrays_t list = pretend_list(&here, 1);

    KT_OK(kvs_store_pull(pair->local, &key, 1, &list, NULL));
    for (int i = 0; i < n; i++) {
        there[i] = pretend_array(i, pair->dtype, &n_elems, NULL, 0);
        there[i].ndim = 2;
        there[i].shape = pair->shape;
    }
    list = pretend_list(there, (size_t)n);
    KT_OK(kvs_store_pull(pair->device, &key, 1, &list, NULL));
    for (int i = 0; i < n; i++) {
        KT_OK(kvs_device_copy(host, got, there[i].device, there[i].data, n_bytes));
        KT_INT(memcmp(got, want, n_bytes), 0);
        pretend_free(&there[i], 0);
    }
    free(want);
    free(got);
}

/* The rows that the key has, as a pull that keeps them sparse gives them. */
static void check_kept(const pair_t *pair)
{
    kvs_call_t call = KVS_CALL_INIT;
    rows_t outs[2];

    call.flags = KVS_CALL_KEEP_SPARSE;
    for (int i = 0; i < 2; i++) {
        make_rows(&outs[i], i == 0 ? 0 : -1, pair->dtype, pair->shape, pair->shape[0]);
    }
    kvs_tensor_t there[] = {outs[0].there, outs[1].there}, here[] = {outs[0].here, outs[1].here};
    kvs_arrays_t there_list = pretend_list(there, 2), here_list = pretend_list(here, 2);

    KT_OK(kvs_store_pull(pair->device, &key, 1, &there_list, &call));
    KT_OK(kvs_store_pull(pair->local, &key, 1, &here_list, &call));
    for (int i = 0; i < 2; i++) {
        KT_INT(rows_differ(&outs[i]), 0);
        free_rows(&outs[i]);
    }
}

/* ---- Sums ------------------------------------------------------------------------------------------------- */

static void try_sums(int dtype, const int64_t *shape, int dense)
{
    pair_t pair;

    open_pair(&pair, dtype, shape, dense);
    for (int round = 0; round < 4;
         round++) { /* one value, several; in order or not; some on the host */
        push(&pair, round == 0 ? 1 : 1 + 2 * round, round != 1, round == 2);
        if (!dense) {
            check_rows(&pair, dtype);
            check_kept(&pair);
        }
        check_dense(&pair);
    }
    close_pair(&pair);
}

static void sums_of_rows_have_the_bits_of_the_host(void)
{
    for (int dtype = 0; dtype < KVS_N_DTYPES; dtype++) {
        try_sums(dtype, small_shape, 0);
    }
}

static void big_arrays_of_rows_are_cut_over_devices(void)
{
    try_sums(KVS_DTYPE_float32, big_shape, 0);
    try_sums(KVS_DTYPE_bfloat16, big_shape, 0);
}

static void dense_keys_take_row_sparse_values(void)
{
    try_sums(KVS_DTYPE_float32, small_shape, 1);
    try_sums(KVS_DTYPE_float16, big_shape, 1);
}

static void rows_are_converted_to_the_dtype_of_an_out(void)
{
    const int floating[] = {KVS_DTYPE_float32, KVS_DTYPE_float64, KVS_DTYPE_float16,
                            KVS_DTYPE_bfloat16};

    for (int from = 0; from < 4; from++) {
        pair_t pair;

        open_pair(&pair, floating[from], from == 0 ? big_shape : small_shape, 0);
        push(&pair, 3, 0, 0);
        for (int to = 0; to < 4; to++) {
            check_rows(&pair, floating[to]);
        }
        close_pair(&pair);
    }
}

/* Two values, worked out by hand: row 1 is 10 + 1, row 4 is 20 + 2 + 30 (in that order), all others go. */
static void a_push_replaces_the_rows_that_were_there(void)
{
    const int64_t shape[] = {6, 2};
    float first[] = {10, 10, 20, 20}, second[] = {30, 30, 1, 1, 2, 2}, all[12];
    int64_t first_ids[] = {1, 4}, second_ids[] = {4, 1, 4};
    float want[12] = {0, 0, 11, 11, 0, 0, 0, 0, 52, 52, 0, 0};
    int64_t n_first = 4, n_second = 6, n_all = 12;
    kvs_rows_t rows[] = {{first_ids, 2, 2}, {second_ids, 3, 3}};
    kvs_tensor_t values[2], out;
    kvs_store_t *store;

    for (int i = 0; i < 12; i++) {
        all[i] = 99;
    }
    values[0] = pretend_array(0, KVS_DTYPE_float32, &n_first, first, 0);
    values[1] = pretend_array(pretend_n_devices() - 1, KVS_DTYPE_float32, &n_second, second, 0);
    out = pretend_array(0, KVS_DTYPE_float32, &n_all, all, 0);
    for (int i = 0; i < 2; i++) {
        values[i].ndim = 2;
        values[i].shape = shape;
        values[i].rows = &rows[i];
    }
    out.ndim = 2;
    out.shape = shape;
    kvs_arrays_t one = pretend_list(values, 1), both = pretend_list(values, 2),
                 outs = pretend_list(&out, 1);

    KT_OK(kvs_store_create("device", NULL, 0, &store));
    KT_OK(kvs_store_init(store, &key, 1, &one, NULL));
    KT_OK(kvs_store_push(store, &key, 1, &both, NULL));
    KT_OK(kvs_store_pull(store, &key, 1, &outs, NULL));
    KT_OK(kvs_device_copy(host, all, out.device, out.data, sizeof(all)));
    for (int i = 0; i < 12; i++) {
        KT_REAL(all[i], want[i]);
    }
    KT_OK(kvs_store_close(store));
    pretend_free(&values[0], 0);
    pretend_free(&values[1], 0);
    pretend_free(&out, 0);
}

/* ---- Optimizers -------------------------------------------------------------------------------------------- */

typedef struct step_case {
    const char *name;
    int lazy; /* 1: parameter lazy_update */
    double momentum;
} step_case_t;

static void set_optimizer(const pair_t *pair, const step_case_t *step)
{
    kvs_param_t params[] = {
        {.name = "rescale_grad", .type = KVS_PARAM_FLOAT, .value.real = 0.37},
        {.name = "multi_precision", .type = KVS_PARAM_BOOL, .value.integer = 1},
        {.name = step->lazy ? "lazy_update" : "clip_gradient",
         .type = step->lazy ? KVS_PARAM_BOOL : KVS_PARAM_FLOAT,
         .value.real = 3.0},
        {.name = "momentum", .type = KVS_PARAM_FLOAT, .value.real = step->momentum}};
    kvs_optimizer_spec_t spec = KVS_OPTIMIZER_INIT;

    if (step->lazy) {
        params[2].value.integer = 1;
    }
    spec.name = step->name;
    spec.params = params;
    spec.n_params = step->momentum > 0 ? 4 : 3;
    KT_OK(kvs_store_set_optimizer(pair->device, &spec));
    KT_OK(kvs_store_set_optimizer(pair->local, &spec));
}

/* Between rounds the key goes home for a file of states, and out again. */
static void try_steps(const step_case_t *step, int dtype, const int64_t *shape, int dense)
{
    char path[600];
    pair_t pair;

    snprintf(path, sizeof(path), "%s/rows.states", kt_temp_dir());
    open_pair(&pair, dtype, shape, dense);
    set_optimizer(&pair, step);
    for (int round = 0; round < 3; round++) {
        push(&pair, 1 + round, round != 1, round == 2);
        if (!dense) {
            check_kept(&pair);
            check_rows(&pair, dtype);
        }
        check_dense(&pair);
        KT_OK(kvs_store_save_optimizer_states(pair.device, path, 0));
    }
    close_pair(&pair);
}

static void steps_of_rows_have_the_bits_of_the_host(void)
{
    static const step_case_t steps[] = {
        {"sgd", 1, 0},  {"sgd", 1, 0.9},   {"sgd", 0, 0.9}, {"adam", 1, 0},         {"adam", 0, 0},
        {"ftrl", 0, 0}, {"adagrad", 0, 0}, {"nag", 0, 0.9}, {"groupadagrad", 0, 0}, {"lamb", 0, 0}};

    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        try_steps(&steps[i], i % 3 == 1 ? KVS_DTYPE_float16 : KVS_DTYPE_float32, small_shape, 0);
    }
    try_steps(&steps[8], KVS_DTYPE_bfloat16, small_shape, 0);
    try_steps(&steps[8], KVS_DTYPE_float64, small_shape, 1);
    try_steps(&steps[1], KVS_DTYPE_float64, big_shape, 0);
    try_steps(&steps[2], KVS_DTYPE_bfloat16, big_shape, 1);
}

/* ---- Ids that lie on devices --------------------------------------------------------------------------------- */

static kvs_tensor_t random_ids(int device, int dtype, const int64_t *n, int64_t n_rows,
                               kvs_tensor_t *ret_here)
{
    char *bytes = malloc((size_t)*n * 8 + 8);

    for (int64_t i = 0; i < *n; i++) {
        int64_t id = (int64_t)(pretend_random() % (uint64_t)n_rows);

        if (dtype == KVS_DTYPE_int64) {
            ((int64_t *)(void *)bytes)[i] = id;
        } else {
            ((int32_t *)(void *)bytes)[i] = (int32_t)id;
        }
    }
    *ret_here = pretend_array(-1, dtype, n, bytes, 0);
    kvs_tensor_t there = pretend_array(device, dtype, n, bytes, 0);

    free(bytes);
    return there;
}

static void ids_may_lie_on_a_device(void)
{
    static const int64_t shape[] = {20000, 9}, sizes[] = {0, 1, 500, 5000, 70000};
    pair_t pair;

    open_pair(&pair, KVS_DTYPE_float32, shape, 0);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        for (int dtype = 0; dtype < 2; dtype++) {
            kvs_tensor_t here, there = random_ids(pretend_n_devices() - 1,
                                                  dtype ? KVS_DTYPE_int32 : KVS_DTYPE_int64,
                                                  &sizes[i], shape[0], &here);

            KT_INT(n_wrong_pulls(&pair, KVS_DTYPE_float32, there, here), 0);
            pretend_free(&there, 0);
            pretend_free(&here, 0);
        }
        push(&pair, 2, 1, 0); /* the key is on the host first */
    }
    close_pair(&pair);
}

/* ---- Exchanges into row-sparse arrays -------------------------------------------------------------------------- */

/* In place: the sum's rows come in order where the value's were in none. */
static void a_row_sparse_out_may_be_the_value(void)
{
    kvs_call_t call = KVS_CALL_INIT;

    call.flags = KVS_CALL_KEEP_SPARSE;
    for (int big = 0; big < 2; big++) {
        const int64_t *shape = big ? big_shape : small_shape;
        pair_t pair;
        rows_t value;

        open_pair(&pair, KVS_DTYPE_float32, shape, 0);
        push(&pair, pretend_n_devices(), 0, 0);
        make_value(&value, 0, KVS_DTYPE_float32, shape, 0);
        kvs_arrays_t there = pretend_list(&value.there, 1), here = pretend_list(&value.here, 1);

        KT_OK(kvs_store_pushpull(pair.device, &key, 1, &there, &there, &call));
        KT_OK(kvs_store_pushpull(pair.local, &key, 1, &here, &here, &call));
        KT_INT(rows_differ(&value), 0);
        free_rows(&value);
        check_rows(&pair, KVS_DTYPE_float32);
        close_pair(&pair);
    }
}

/* ---- Wrong use ------------------------------------------------------------------------------------------------- */

static void ids_outside_are_refused_and_change_nothing(void)
{
    pair_t pair;
    rows_t value, out;

    open_pair(&pair, KVS_DTYPE_float32, small_shape, 0);
    push(&pair, 2, 1, 0);
    make_value(&value, 0, KVS_DTYPE_float32, small_shape, 0);
    make_rows(&out, 0, KVS_DTYPE_float32, small_shape, 50);
    kvs_arrays_t values = pretend_list(&value.there, 1), outs = pretend_list(&out.there, 1);

    set_id(&value, 5, 50);
    KT_FAIL(kvs_store_push(pair.device, &key, 1, &values, NULL), KVS_ERR_RANGE,
            "key 3: value 0: row id 50, at place 5, is outside [0, 50)");
    set_id(&value, 5, -1);
    KT_FAIL(kvs_store_push(pair.device, &key, 1, &values, NULL), KVS_ERR_RANGE,
            "key 3: value 0: row id -1, at place 5, is outside [0, 50)");
    static const int64_t counts[] = {3, 5000}; /* looked at by the host, and by the device */
    for (int i = 0; i < 2; i++) {
        kvs_tensor_t here, there = random_ids(0, KVS_DTYPE_int64, &counts[i], 50, &here);
        int64_t bad = 77;
        kvs_arrays_t ids = pretend_list(&there, 1);

        KT_OK(kvs_device_copy(there.device, (int64_t *)there.data + 2, host, &bad, sizeof(bad)));
        KT_FAIL(kvs_store_row_sparse_pull(pair.device, &key, 1, &outs, &ids, NULL), KVS_ERR_RANGE,
                "key 3: row id 77 is outside [0, 50)");
        KT_INT(out.there_rows.n_rows, 50); /* as it was */
        pretend_free(&there, 0);
        pretend_free(&here, 0);
    }
    check_rows(&pair, KVS_DTYPE_float32);
    check_kept(&pair);
    free_rows(&value);
    free_rows(&out);
    close_pair(&pair);
}

static void outs_with_too_little_room_are_refused_and_none_is_written(void)
{
    int64_t ids[] = {4, 1, 1, 9}, n_ids = 4, n_three = 3;
    kvs_call_t call = KVS_CALL_INIT;
    rows_t outs[2];
    pair_t pair;

    call.flags = KVS_CALL_KEEP_SPARSE;
    open_pair(&pair, KVS_DTYPE_float32, small_shape, 0);
    push(&pair, 2, 1, 0);
    make_rows(&outs[0], 0, KVS_DTYPE_float32, small_shape, 3);
    make_rows(&outs[1], 0, KVS_DTYPE_float32, small_shape, 2);
    kvs_tensor_t there[] = {outs[0].there, outs[1].there};
    kvs_tensor_t on_device = pretend_array(0, KVS_DTYPE_int64, &n_ids, ids, 0);
    kvs_tensor_t on_host = kt_tensor(ids, KVS_DTYPE_int64, &n_ids, 1);
    kvs_arrays_t list = pretend_list(there, 2), row_ids = pretend_list(&on_device, 1);

    KT_FAIL(kvs_store_row_sparse_pull(pair.device, &key, 1, &list, &row_ids, NULL),
            KVS_ERR_ARGUMENT, "key 3: out 1 has room for 2 rows, but gets 3");
    row_ids = pretend_list(&on_host, 1);
    KT_FAIL(kvs_store_row_sparse_pull(pair.device, &key, 1, &list, &row_ids, NULL),
            KVS_ERR_ARGUMENT, "key 3: out 1 has room for 2 rows, but gets 3");
    KT_FAIL(kvs_store_pull(pair.device, &key, 1, &list, &call), KVS_ERR_ARGUMENT,
            "key 3: out 0 has room for 3 rows");
    KT_INT(outs[0].there_rows.ids[1], 0); /* as it was */
    outs[0].here_rows.n_rows = 3;
    KT_INT(rows_differ(&outs[0]), 0);
    on_host.shape = &n_three; /* two different ones */
    KT_OK(kvs_store_row_sparse_pull(pair.device, &key, 1, &list, &row_ids, NULL));
    KT_INT(outs[1].there_rows.n_rows, 2);
    pretend_free(&on_device, 0);
    free_rows(&outs[0]);
    free_rows(&outs[1]);
    close_pair(&pair);
}

static void what_does_not_fit_a_row_sparse_key_is_refused(void)
{
    int64_t n_elems = small_shape[0] * small_shape[1], n_ids = 1;
    float zero = 0;
    pair_t pair;
    rows_t out;

    open_pair(&pair, KVS_DTYPE_float32, small_shape, 0);
    push(&pair, 2, 1, 0);
    make_rows(&out, 0, KVS_DTYPE_float32, small_shape, 50);
    kvs_tensor_t dense = pretend_array(0, KVS_DTYPE_float32, &n_elems, NULL, 0);
    int64_t first = 0;
    kvs_tensor_t ids = pretend_array(0, KVS_DTYPE_float32, &n_ids, &zero, 0);
    kvs_tensor_t right_ids = kt_tensor(&first, KVS_DTYPE_int64, &n_ids, 1);
    kvs_arrays_t values = pretend_list(&dense, 1), row_ids = pretend_list(&ids, 1);
    kvs_arrays_t outs = pretend_list(&out.there, 1);

    dense.ndim = 2;
    dense.shape = small_shape;
    KT_FAIL(kvs_store_push(pair.device, &key, 1, &values, NULL), KVS_ERR_STORAGE, "key 3");
    KT_FAIL(kvs_store_row_sparse_pull(pair.device, &key, 1, &outs, &row_ids, NULL), KVS_ERR_DTYPE,
            "float32");
    KT_FAIL(kvs_store_pull(pair.device, &key, 1, &outs, NULL), KVS_ERR_STORAGE, "row_sparse_pull");
    out.there.device.id = pretend_n_devices();
    row_ids = pretend_list(&right_ids, 1);
    KT_FAIL(kvs_store_row_sparse_pull(pair.device, &key, 1, &outs, &row_ids, NULL),
            KVS_ERR_ARGUMENT, "key 3: out 0: there is no device cuda(");
    out.there.device.id = 0;
    check_rows(&pair, KVS_DTYPE_float32);
    pretend_free(&dense, 0);
    pretend_free(&ids, 0);
    free_rows(&out);
    close_pair(&pair);
}

/* ---- A provider without kernels for rows ----------------------------------------------------------------------- */

/* Lines that stderr, which went to the file, got with this text. */
static int n_lines(const char *path, const char *part)
{
    FILE *file = fopen(path, "r");
    char line[1000];
    int n = 0;

    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        n += strstr(line, part) != NULL;
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    return n;
}

static void a_provider_without_kernels_for_rows_goes_through_the_host_and_says_so_once(void)
{
    const char *lacks = getenv("KVSTORE_TEST_NO_ROWS");
    int before = dup(STDERR_FILENO);
    char path[600];

    snprintf(path, sizeof(path), "%s/stderr", kt_temp_dir());
    KT_TRUE(freopen(path, "w", stderr) != NULL);
    try_sums(KVS_DTYPE_float32, small_shape, 0);
    try_sums(KVS_DTYPE_float32, small_shape, 1);
    (void)fflush(stderr);
    (void)dup2(before, STDERR_FILENO);
    (void)close(before);
    KT_INT(n_lines(path, "row-sparse arrays on a device: goes through host memory"),
           lacks != NULL ? 1 : 0); /* of two stores */
}

/* ---- Streams, and what is counted ------------------------------------------------------------------------------ */

enum { N_LISTED = 20 };

/* A key whose weight has moved to its devices; a value and an out on each, of the same rows, with a stream. */
typedef struct bench {
    kvs_store_t *store;
    int n;
    CUstream streams[MAX_VALUES];
    rows_t values[MAX_VALUES], outs[MAX_VALUES];
    kvs_tensor_t value_list[MAX_VALUES], out_list[MAX_VALUES], ids;
    float numbers[N_LISTED * 211];
    size_t n_bytes;
} bench_t;

static void set_up(bench_t *bench, const int64_t *shape, const char *optimizer)
{
    static const int64_t n_ids = N_LISTED;

    *bench = (bench_t){.n = pretend_n_devices()};
    bench->n_bytes = N_LISTED * (size_t)shape[1] * sizeof(float);
    KT_OK(kvs_store_create("device", NULL, 0, &bench->store));
    for (int d = 0; d < bench->n; d++) {
        bench->streams[d] = pretend_stream(d);
        make_rows(&bench->values[d], d, KVS_DTYPE_float32, shape, N_LISTED);
        make_rows(&bench->outs[d], d, KVS_DTYPE_float32, shape, N_LISTED);
        for (int64_t i = 0; i < N_LISTED; i++) {
            set_id(&bench->values[d], i, i * (shape[0] - 1) / (N_LISTED - 1));
        }
        bench->value_list[d] = bench->values[d].there;
        bench->out_list[d] = bench->outs[d].there;
    }
    bench->ids = kt_tensor(bench->values[0].here_rows.ids, KVS_DTYPE_int64, &n_ids, 1);
    kvs_arrays_t list = pretend_list(bench->value_list, 1);

    KT_OK(kvs_store_init(bench->store, &key, 1, &list, NULL));
    if (optimizer != NULL) {
        pair_t pair = {.device = bench->store};
        step_case_t step = {optimizer, 1, 0};

        KT_OK(kvs_store_create("local", NULL, 0, &pair.local));
        set_optimizer(&pair, &step);
        KT_OK(kvs_store_close(pair.local));
    }
    list = pretend_list(bench->value_list, (size_t)bench->n);
    KT_OK(kvs_store_push(bench->store, &key, 1, &list, NULL));
    for (int d = 0; d < bench->n; d++) {
        bench->value_list[d].stream = bench->out_list[d].stream =
            (int64_t)(intptr_t)bench->streams[d];
    }
}

static void tear_down(bench_t *bench)
{
    for (int d = 0; d < bench->n; d++) {
        pretend_sync(d, bench->streams[d]);
        free_rows(&bench->outs[d]);
        if (d > 0) {
            free_rows(&bench->values[d]);
        }
    }
    free_rows(&bench->values[0]); /* the ids are its */
    KT_OK(kvs_store_close(bench->store));
}

static void push_all(const bench_t *bench)
{
    kvs_arrays_t values = pretend_list(bench->value_list, (size_t)bench->n);

    KT_OK(kvs_store_push(bench->store, &key, 1, &values, NULL));
}

static void pull_all(const bench_t *bench)
{
    kvs_arrays_t outs = pretend_list(bench->out_list, (size_t)bench->n);
    kvs_arrays_t ids = pretend_list(&bench->ids, 1);

    KT_OK(kvs_store_row_sparse_pull(bench->store, &key, 1, &outs, &ids, NULL));
}

static void fill(bench_t *bench, float number)
{
    for (size_t i = 0; i < bench->n_bytes / sizeof(float); i++) {
        bench->numbers[i] = number;
    }
}

static void hold_all(const bench_t *bench, int on)
{
    for (int d = 0; d < bench->n; d++) {
        pretend_hold(d, bench->streams[d], on);
    }
}

static void want_outs(bench_t *bench, float want)
{
    for (int d = 0; d < bench->n; d++) {
        int64_t n_wrong = 0;

        pretend_read(d, bench->streams[d], &bench->out_list[d], bench->numbers, bench->n_bytes);
        pretend_sync(d, bench->streams[d]);
        for (size_t i = 0; i < bench->n_bytes / sizeof(float); i++) {
            n_wrong += bench->numbers[i] != want;
        }
        KT_INT(n_wrong, 0);
    }
}

static void try_order(const int64_t *shape)
{
    bench_t bench;

    set_up(&bench, shape, NULL);
    hold_all(&bench, 1);
    fill(&bench, 3);
    for (int d = 0; d < bench.n; d++) {
        pretend_write(d, bench.streams[d], &bench.value_list[d], bench.numbers, bench.n_bytes);
    }
    push_all(&bench); /* both return, though nothing can have been summed */
    pull_all(&bench);
    (void)usleep(20000); /* time for whoever does not wait to read too early */
    hold_all(&bench, 0);
    want_outs(&bench, 3.0f * (float)bench.n);
    tear_down(&bench);
}

static void rows_are_read_after_their_streams_and_written_before_they_go_on(void)
{
    if (getenv("KVSTORE_TEST_NO_ROWS") != NULL || getenv("KVSTORE_TEST_NO_POOLS") != NULL) {
        return; /* what goes through the host waits, and what gives memory back to the driver */
    }
    try_order(small_shape);
    try_order(big_shape);
}

static cuda_double_counts_t cost_of(const bench_t *bench, void (*call)(const bench_t *bench))
{
    cuda_double_counts_t counts = {0};

    driver.reset_counts();
    call(bench);
    driver.read_counts(&counts);
    return counts;
}

static int all_reach(void)
{
    int how_well = 1;

    if (pretend_n_devices() > 1) {
        KT_OK(kvs_device_reaches(KVS_DEVICE_CUDA, 0, 1, &how_well));
    }
    return how_well != 0;
}

/* Each part's device: a list of rows, and the kernel; with a lazy optimizer and several values the sums first.
 * What it does not reach is copied. */
static void try_costs(const int64_t *shape, int n_parts, const char *optimizer)
{
    cuda_double_counts_t counts;
    bench_t bench;

    set_up(&bench, shape, optimizer);
    uint64_t n_far = all_reach() ? 0 : (uint64_t)bench.n - 1;

    counts = cost_of(&bench, push_all);
    KT_INT(counts.launches, n_parts * (optimizer != NULL && bench.n > 1 ? 2 : 1));
    KT_INT(counts.copies, (uint64_t)n_parts + n_far);
    KT_INT(counts.peer_copies, n_far);
    KT_INT(counts.host_syncs, 0);
    counts = cost_of(&bench, pull_all);
    KT_INT(counts.launches, (uint64_t)n_parts + n_far);
    KT_INT(counts.copies, (uint64_t)n_parts + n_far);
    KT_INT(counts.host_syncs, 0);
    tear_down(&bench);
}

static void a_push_is_one_list_and_one_launch_for_each_device(void)
{
    int n_parts = pretend_n_devices() > 1 && all_reach() ? 2 : 1; /* of what has two cuts */

    if (driver.read_counts == NULL || getenv("KVSTORE_TEST_NO_ROWS") != NULL) {
        return;
    }
    try_costs(small_shape, 1, NULL);
    try_costs(small_shape, 1, "sgd");
    try_costs(big_shape, n_parts, NULL);
    try_costs(big_shape, n_parts, "sgd");
}

static void a_closed_store_leaves_no_memory_of_rows_on_devices(void)
{
    if (driver.live == NULL) {
        return; /* others may use the device */
    }
    uint64_t before = driver.live(0);

    try_sums(KVS_DTYPE_float32, big_shape, 0);
    for (int i = 0; i < 2000 && driver.live(0) > before + 1024; i++) {
        int64_t n = 16; /* what was freed in order goes when its turn has come */
        kvs_tensor_t tensor = pretend_array(0, KVS_DTYPE_float32, &n, NULL, 0);
        float got[16];

        pretend_get(&tensor, got);
        pretend_free(&tensor, 0);
    }
    KT_TRUE(driver.live(0) <= before + 1024);
}

int main(int argc, char **argv)
{
    static const kt_test_t tests[] = {
        /* the first: later ones would not be told any more */
        KT_TEST(a_provider_without_kernels_for_rows_goes_through_the_host_and_says_so_once),
        KT_TEST(sums_of_rows_have_the_bits_of_the_host),
        KT_TEST(big_arrays_of_rows_are_cut_over_devices),
        KT_TEST(dense_keys_take_row_sparse_values),
        KT_TEST(rows_are_converted_to_the_dtype_of_an_out),
        KT_TEST(a_push_replaces_the_rows_that_were_there),
        KT_TEST(steps_of_rows_have_the_bits_of_the_host),
        KT_TEST(ids_may_lie_on_a_device),
        KT_TEST(a_row_sparse_out_may_be_the_value),
        KT_TEST(ids_outside_are_refused_and_change_nothing),
        KT_TEST(outs_with_too_little_room_are_refused_and_none_is_written),
        KT_TEST(what_does_not_fit_a_row_sparse_key_is_refused),
        KT_TEST(rows_are_read_after_their_streams_and_written_before_they_go_on),
        KT_TEST(a_push_is_one_list_and_one_launch_for_each_device),
        KT_TEST(a_closed_store_leaves_no_memory_of_rows_on_devices),
    };

    pretend_open();
    return kt_run("cuda_rows", tests, sizeof(tests) / sizeof(tests[0]), argc, argv);
}
