/* SPDX-License-Identifier: Apache-2.0 */
/* Running out of memory in row-sparse calls, at each allocation in turn: KVS_ERR_NO_MEMORY, the key as it
 * was before or as it is after, nothing leaked, and the next call succeeds. */
#include "kt.h"
#include "fail_alloc.h"
#include "plugins.h"

#include <stdlib.h>

enum { N_ROWS = 8, WIDTH = 2, N_LISTED = 3 };

/* Rows 1, 6 and 3 are listed: all rows hold `before` or, listed ones, `after`, others `others`. */
typedef struct rig {
    kvs_store_t *store;
    kvs_key_t key;
    kvs_tensor_t values[2], out, dense_out;
    kvs_rows_t rows[2], out_rows;
    float data[2][N_LISTED * WIDTH], out_data[N_ROWS * WIDTH];
    int64_t ids[2][N_LISTED], out_ids[N_ROWS];
    float before, after, others;
    const char *optimizer;
} rig_t;

static const int64_t shape[] = {N_ROWS, WIDTH};

static void fill(rig_t *rig, float first, float second)
{
    for (size_t i = 0; i < N_LISTED * WIDTH; i++) {
        rig->data[0][i] = first;
        rig->data[1][i] = second;
    }
}

static kvs_status_t init_all(rig_t *rig, float value)
{
    int64_t ids[N_ROWS];
    float data[N_ROWS * WIDTH];
    kvs_rows_t rows = {.ids = ids, .n_rows = N_ROWS};
    kvs_tensor_t tensor = kt_tensor(data, KVS_DTYPE_float32, shape, 2);
    kvs_arrays_t list = kvs_arrays(&tensor, 1);

    tensor.rows = &rows;
    for (int64_t i = 0; i < N_ROWS; i++) {
        ids[i] = N_ROWS - 1 - i;
    }
    for (size_t i = 0; i < N_ROWS * WIDTH; i++) {
        data[i] = value;
    }
    return kvs_store_init(rig->store, &rig->key, 1, &list, NULL);
}

static void open_rig(rig_t *rig)
{
    static const int64_t ids[N_LISTED] = {1, 6, 3};

    memory_register_plugins();
    memset(rig, 0, sizeof(*rig));
    KT_OK(kvs_store_create("local", NULL, 0, &rig->store));
    for (size_t v = 0; v < 2; v++) {
        memcpy(rig->ids[v], ids, sizeof(ids));
        rig->rows[v] = (kvs_rows_t){.ids = rig->ids[v], .n_rows = N_LISTED};
        rig->values[v] = kt_tensor(rig->data[v], KVS_DTYPE_float32, shape, 2);
        rig->values[v].rows = &rig->rows[v];
    }
    rig->out_rows = (kvs_rows_t){.ids = rig->out_ids, .capacity = N_ROWS};
    rig->dense_out = rig->out = kt_tensor(rig->out_data, KVS_DTYPE_float32, shape, 2);
    rig->out.rows = &rig->out_rows;
    rig->key = kvs_key_int(1);
    KT_OK(init_all(rig, 1));
    rig->before = rig->after = rig->others = 1;
}

static void close_rig(rig_t *rig)
{
    KT_OK(kvs_store_close(rig->store));
}

static int is_listed(size_t row)
{
    return row == 1 || row == 6 || row == 3;
}

/* The key is as before, in every row, or as after. */
static void the_key_is_whole(void *arg)
{
    rig_t *rig = arg;
    kvs_arrays_t outs = kvs_arrays(&rig->dense_out, 1);

    KT_OK(kvs_store_pull(rig->store, &rig->key, 1, &outs, NULL));
    int is_after = rig->out_data[WIDTH] == rig->after;

    for (size_t i = 0; i < N_ROWS * WIDTH; i++) {
        float after = is_listed(i / WIDTH) ? rig->after : rig->others;

        KT_REAL(rig->out_data[i], is_after ? after : rig->before);
    }
}

static kvs_status_t push_both(rig_t *rig)
{
    kvs_arrays_t values = kvs_arrays(rig->values, 2);

    return kvs_store_push(rig->store, &rig->key, 1, &values, NULL);
}

static kvs_status_t init_a_key(void *arg)
{
    rig_t *rig = arg;

    rig->key.num++;
    return init_all(rig, 1);
}

static void initialising_a_key(void)
{
    rig_t rig;

    open_rig(&rig);
    KT_TRUE(kt_fail_each_alloc(init_a_key, NULL, &rig) >= 4);
    the_key_is_whole(&rig);
    close_rig(&rig);
}

static kvs_status_t push_rows(void *arg)
{
    rig_t *rig = arg;

    fill(rig, 2, 3);
    return push_both(rig);
}

static void pushing_rows_that_replace(void)
{
    rig_t rig;

    open_rig(&rig);
    rig.after = 5;
    rig.others = 0;
    KT_TRUE(kt_fail_each_alloc(push_rows, the_key_is_whole, &rig) >= 2);
    the_key_is_whole(&rig);
    close_rig(&rig);
}

static kvs_status_t set_rows(const kvs_key_t *key, const kvs_tensor_t *value,
                             const kvs_tensor_t *stored, void *arg)
{
    const float *from = value->data;
    float *to = stored->data;

    (void)key;
    (void)arg;
    for (int64_t i = 0; i < value->rows->n_rows * WIDTH; i++) {
        to[value->rows->ids[i / WIDTH] * WIDTH + i % WIDTH] = from[i] + 1;
    }
    return KVS_OK;
}

static kvs_status_t push_through_updater(void *arg)
{
    rig_t *rig = arg;
    kvs_status_t status = kvs_store_set_updater(rig->store, set_rows, NULL);

    fill(rig, 2, 3);
    return status != KVS_OK ? status : push_both(rig);
}

static void updaters(void)
{
    rig_t rig;

    open_rig(&rig);
    rig.after = 6;
    KT_TRUE(kt_fail_each_alloc(push_through_updater, the_key_is_whole, &rig) >= 3);
    close_rig(&rig);
}

/* Gradient 1, rate 0.5, from weight 1; the optimizer is set anew, without states, by each attempt. */
static kvs_status_t set_optimizer_and_push(void *arg)
{
    rig_t *rig = arg;
    const kvs_param_t params[] = {
        {.name = "learning_rate", .type = KVS_PARAM_FLOAT, .value.real = 0.5},
        {.name = "momentum", .type = KVS_PARAM_FLOAT, .value.real = 0.9},
        {.name = "lazy_update", .type = KVS_PARAM_BOOL, .value.integer = 1}};
    kvs_optimizer_spec_t spec = KVS_OPTIMIZER_INIT;
    kvs_status_t status;

    spec.name = rig->optimizer;
    spec.params = params;
    spec.n_params = strcmp(rig->optimizer, "sgd") == 0 ? 3 : 2;
    rig->key.num++;
    status = init_all(rig, 1);
    if (status == KVS_OK) {
        status = kvs_store_set_optimizer(rig->store, &spec);
    }
    fill(rig, 0.5f, 0.5f);
    return status != KVS_OK ? status : push_both(rig);
}

static void optimizers_by_listed_rows_and_by_all(void)
{
    static const char *const names[] = {"sgd", "nag"};
    static const float after[] = {0.5f, 1 - 0.9f * 0.5f - 0.5f};

    for (int i = 0; i < 2; i++) {
        rig_t rig;

        open_rig(&rig);
        rig.optimizer = names[i];
        rig.after = after[i];
        KT_TRUE(kt_fail_each_alloc(set_optimizer_and_push, NULL, &rig) >= 8);
        the_key_is_whole(&rig);
        close_rig(&rig);
    }
}

static kvs_status_t pull_rows(void *arg)
{
    rig_t *rig = arg;
    int64_t ids[] = {6, 2, 6};
    const int64_t three[] = {3};
    kvs_tensor_t row_ids = kt_tensor(ids, KVS_DTYPE_int64, three, 1);
    kvs_arrays_t outs = kvs_arrays(&rig->out, 1), list = kvs_arrays(&row_ids, 1);
    kvs_status_t status;

    rig->out_rows.n_rows = -1;
    rig->out_rows.capacity = 2; /* so that the ids are counted first */
    status = kvs_store_row_sparse_pull(rig->store, &rig->key, 1, &outs, &list, NULL);
    KT_INT(rig->out_rows.n_rows, status == KVS_OK ? 2 : -1);
    return status;
}

static kvs_status_t pull_what_it_has(void *arg)
{
    rig_t *rig = arg;
    kvs_arrays_t outs = kvs_arrays(&rig->out, 1);
    kvs_call_t call = KVS_CALL_INIT;
    kvs_status_t status;

    call.flags = KVS_CALL_KEEP_SPARSE;
    rig->out_rows.n_rows = -1;
    rig->out_rows.capacity = N_ROWS;
    status = kvs_store_pull(rig->store, &rig->key, 1, &outs, &call);
    KT_INT(rig->out_rows.n_rows, status == KVS_OK ? N_ROWS : -1);
    return status;
}

static void pulling_rows(void)
{
    rig_t rig;

    open_rig(&rig);
    KT_TRUE(kt_fail_each_alloc(pull_rows, NULL, &rig) >= 4);
    KT_REAL(rig.out_data[0], 1);
    KT_TRUE(kt_fail_each_alloc(pull_what_it_has, NULL, &rig) >= 1);
    the_key_is_whole(&rig);
    close_rig(&rig);
}

static const kt_test_t tests[] = {
    KT_TEST(initialising_a_key), KT_TEST(pushing_rows_that_replace),
    KT_TEST(updaters),           KT_TEST(optimizers_by_listed_rows_and_by_all),
    KT_TEST(pulling_rows),
};
KT_MAIN("memory.sparse", tests)
