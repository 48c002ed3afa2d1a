/* SPDX-License-Identifier: Apache-2.0 */
/* The host store, driven as the core drives it: issue, then the verb, group by group or all at once
 * where arrays are shared. Expected values come from plain loops. */
#include "fake_host.h"
#include "slow_half.h"

#include <kvstore/kit.h>

#include <math.h>

#define MAX_GROUPS 4

/* ---- A store and its keys without a core ----------------------------------------------------------- */

typedef struct test_key {
    kvs_key_entry_t entry;
    kvs_hoststore_key_t state;
    int64_t shape[1];
} test_key_t;

typedef struct test_op {
    kvs_op_t op;
    kvs_group_t groups[MAX_GROUPS];
    kvs_hoststore_group_t states[MAX_GROUPS];
} test_op_t;

static kvs_hoststore_t store;

static void open_store(void)
{
    kvs_open_args_t args = {.size = sizeof(args), .type = "local_test"};

    store = (kvs_hoststore_t){0};
    if (!KT_OK(kvs_hoststore_open(&store, &args))) {
        abort();
    }
}

static void close_store(void)
{
    KT_TRUE(store.keys == NULL);
    KT_INT(store.n_bytes, 0);
    KT_OK(kvs_hoststore_close(&store, 0));
}

static void set_key(test_key_t *key, int64_t number, int dtype, int64_t n)
{
    *key = (test_key_t){.shape = {n}};
    key->entry = (kvs_key_entry_t){
        .number = number,
        .dtype = kvs_dtype(dtype),
        .ndim = 1,
        .shape = key->shape,
        .n_elems = n,
        .state = &key->state,
    };
}

static kvs_tensor_t tensor(const test_key_t *key, const void *data)
{
    return kt_tensor((void *)data, kvs_dtype_index(key->entry.dtype), key->shape, 1);
}

static void set_op(test_op_t *op, kvs_verb_t verb)
{
    *op = (test_op_t){.op = {.size = sizeof(op->op), .verb = verb}};
    op->op.groups = op->groups;
}

static kvs_group_t *add_group(test_op_t *op, test_key_t *key, const kvs_tensor_t *values,
                              size_t n_values, const kvs_tensor_t *outs, size_t n_outs)
{
    size_t i = op->op.n_groups++;

    op->groups[i] = (kvs_group_t){
        .key = &key->entry,
        .values = values,
        .n_values = n_values,
        .outs = outs,
        .n_outs = n_outs,
        .state = &op->states[i],
    };
    return &op->groups[i];
}

static kvs_status_t run_verb(test_op_t *op)
{
    switch (op->op.verb) {
    case KVS_VERB_INIT:
        return kvs_hoststore_init(&store, &op->op);
    case KVS_VERB_PUSH:
        return kvs_hoststore_push(&store, &op->op);
    case KVS_VERB_PULL:
        return kvs_hoststore_pull(&store, &op->op);
    default:
        return kvs_hoststore_pushpull(&store, &op->op);
    }
}

static kvs_status_t run_op(test_op_t *op)
{
    kvs_status_t status = kvs_hoststore_issue(&store, &op->op);

    return status == KVS_OK ? run_verb(op) : status;
}

static kvs_status_t run_one(kvs_verb_t verb, test_key_t *key, const kvs_tensor_t *values,
                            size_t n_values, const kvs_tensor_t *outs, size_t n_outs)
{
    test_op_t op;

    set_op(&op, verb);
    add_group(&op, key, values, n_values, outs, n_outs);
    return run_op(&op);
}

static kvs_status_t init(test_key_t *key, const void *data)
{
    kvs_tensor_t value = tensor(key, data);

    return run_one(KVS_VERB_INIT, key, &value, 1, NULL, 0);
}

static kvs_status_t push(test_key_t *key, const void *a, const void *b)
{
    kvs_tensor_t values[] = {tensor(key, a), tensor(key, b)};

    return run_one(KVS_VERB_PUSH, key, values, b != NULL ? 2 : 1, NULL, 0);
}

static kvs_status_t pull(test_key_t *key, void *out)
{
    kvs_tensor_t outs[] = {tensor(key, out)};

    return run_one(KVS_VERB_PULL, key, NULL, 0, outs, 1);
}

static void release(test_key_t *key)
{
    kvs_hoststore_key_release(&store, &key->entry);
}

static void expect(const float *got, const float *want, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        if (memcmp(&got[i], &want[i], sizeof(float)) != 0) {
            printf("\n  element %d", (int)i);
            KT_REAL(got[i], want[i]);
            return;
        }
    }
    KT_TRUE(1);
}

/* ---- init, push, pull, pushpull --------------------------------------------------------------------- */

static void init_keeps_a_copy(void)
{
    float value[3] = {1, 2, 3}, out[3];
    test_key_t key;

    open_store();
    set_key(&key, 5, KVS_DTYPE_float32, 3);
    KT_OK(init(&key, value));
    value[0] = 9;
    KT_OK(pull(&key, out));
    expect(out, (float[]){1, 2, 3}, 3);
    release(&key);
    close_store();
}

static void push_replaces_the_value_by_the_sum_in_list_order(void)
{
    /* (1e8 + 1) - 1e8 in float32 is 0 in this order, 1 in another. */
    float a[1] = {1e8f}, b[1] = {1}, c[1] = {-1e8f}, out[1] = {7};
    test_key_t key;

    open_store();
    set_key(&key, 0, KVS_DTYPE_float32, 1);
    KT_OK(init(&key, a));
    kvs_tensor_t values[] = {tensor(&key, a), tensor(&key, b), tensor(&key, c)};
    KT_OK(run_one(KVS_VERB_PUSH, &key, values, 3, NULL, 0));
    KT_OK(pull(&key, out));
    KT_REAL(out[0], 0);
    KT_REAL(a[0], 1e8f);
    release(&key);
    close_store();
}

static void the_store_keeps_no_pushed_array(void)
{
    float value[2] = {1, 2}, out[2];
    test_key_t key;

    open_store();
    set_key(&key, 0, KVS_DTYPE_float32, 2);
    KT_OK(init(&key, value));
    KT_OK(push(&key, value, NULL));
    value[0] = 50;
    KT_OK(pull(&key, out));
    expect(out, (float[]){1, 2}, 2);
    KT_OK(push(&key, value, value));
    expect(value, (float[]){50, 2}, 2);
    release(&key);
    close_store();
}

static void outs_of_other_floating_dtypes_are_converted_to(void)
{
    enum { N = 5000 };
    static float value[N], same[N];
    static double wide[N];
    static uint16_t half[N], brain[N];
    test_key_t key;

    open_store();
    set_key(&key, 0, KVS_DTYPE_float32, N);
    for (int i = 0; i < N; i++) {
        value[i] = (float)i * 0.1f - 77;
    }
    KT_OK(init(&key, value));
    kvs_tensor_t in = tensor(&key, value);
    kvs_tensor_t outs[] = {kt_tensor(half, KVS_DTYPE_float16, key.shape, 1), tensor(&key, same),
                           kt_tensor(wide, KVS_DTYPE_float64, key.shape, 1),
                           kt_tensor(brain, KVS_DTYPE_bfloat16, key.shape, 1)};
    for (int verb = 0; verb < 2; verb++) {
        memset(half, 0, sizeof(half));
        KT_OK(run_one(verb ? KVS_VERB_PUSHPULL : KVS_VERB_PULL, &key, &in, (size_t)verb, outs, 4));
        int n_wrong = 0;

        for (int i = 0; i < N; i++) {
            n_wrong += same[i] != value[i] || wide[i] != (double)value[i] ||
                       half[i] != slow_encode(KVS_DTYPE_float16, value[i]) ||
                       brain[i] != slow_encode(KVS_DTYPE_bfloat16, value[i]);
        }
        KT_INT(n_wrong, 0);
    }
    release(&key);
    close_store();
}

static void pushpull_works_in_place_and_out_of_place(void)
{
    float a[2] = {1, 2}, b[2] = {10, 20}, out[2], stored[2];
    test_key_t key;

    open_store();
    set_key(&key, 0, KVS_DTYPE_float32, 2);
    KT_OK(init(&key, a));
    kvs_tensor_t values[] = {tensor(&key, a), tensor(&key, b)};
    kvs_tensor_t outs[] = {tensor(&key, out), tensor(&key, out)};
    KT_OK(run_one(KVS_VERB_PUSHPULL, &key, values, 2, outs, 2));
    expect(out, (float[]){11, 22}, 2);
    expect(a, (float[]){1, 2}, 2);
    KT_OK(run_one(KVS_VERB_PUSHPULL, &key, values, 2, values, 2));
    expect(a, (float[]){11, 22}, 2);
    expect(b, (float[]){11, 22}, 2);
    KT_OK(pull(&key, stored));
    expect(stored, (float[]){11, 22}, 2);
    release(&key);
    close_store();
}

static void any_number_of_arrays_may_come(void)
{
    enum { MANY = 40 };
    float arrays[MANY][3], out[3];
    kvs_tensor_t values[MANY];
    test_key_t key;

    open_store();
    set_key(&key, 0, KVS_DTYPE_float32, 3);
    for (int i = 0; i < MANY; i++) {
        arrays[i][0] = arrays[i][1] = arrays[i][2] = (float)i;
        values[i] = tensor(&key, arrays[i]);
    }
    KT_OK(init(&key, arrays[0]));
    for (size_t n = 1; n <= MANY; n++) {
        KT_OK(run_one(KVS_VERB_PUSH, &key, values, n, NULL, 0));
        KT_OK(pull(&key, out));
        KT_REAL(out[2], (double)(n * (n - 1) / 2));
    }
    KT_OK(run_one(KVS_VERB_PUSHPULL, &key, values, MANY, values, MANY));
    KT_REAL(arrays[0][0], 780);
    KT_REAL(arrays[MANY - 1][2], 780);
    release(&key);
    close_store();
}

/* The core's broadcast is init, then pull, of one operation with values and outs. */
static void a_verb_touches_only_its_own_arrays(void)
{
    float a[1] = {1}, b[1] = {2}, out[1] = {3};
    test_key_t key;
    test_op_t op;

    open_store();
    set_key(&key, 0, KVS_DTYPE_float32, 1);
    kvs_tensor_t value = tensor(&key, a), other = tensor(&key, b), to = tensor(&key, out);
    set_op(&op, KVS_VERB_BROADCAST);
    add_group(&op, &key, &value, 1, &to, 1);
    KT_OK(kvs_hoststore_init(&store, &op.op));
    KT_REAL(out[0], 3);
    op.groups[0].values = &other;
    for (unsigned flags = 0; flags <= KVS_OP_SHARED; flags += KVS_OP_SHARED) {
        size_t index = 0;

        op.op.flags = flags;
        op.groups[0].out_index = &index;
        out[0] = 3;
        KT_OK(kvs_hoststore_pull(&store, &op.op));
        KT_REAL(out[0], 1);
    }
    out[0] = 3;
    KT_OK(kvs_hoststore_push(&store, &op.op));
    KT_REAL(out[0], 3);
    release(&key);
    close_store();
}

static void every_dtype_is_summed_and_kept(void)
{
    open_store();
    for (int dtype = 0; dtype < KVS_N_DTYPES; dtype++) {
        unsigned char a[9 * 8], b[9 * 8], sum[9 * 8], out[9 * 8];
        const void *src[] = {a, b};
        void *dst[] = {sum};
        test_key_t key;

        memset(a, 0x3A, sizeof(a));
        memset(b, 0xB9, sizeof(b));
        set_key(&key, dtype, dtype, 9);
        kvs_sum(dtype, 9, src, 2, dst, 1, 0);
        KT_OK(init(&key, a));
        KT_OK(push(&key, a, b));
        KT_OK(pull(&key, out));
        KT_TRUE(memcmp(sum, out, 9 * kvs_dtype_bytes(dtype)) == 0);
        release(&key);
    }
    close_store();
}

static void a_released_key_can_be_initialised_again(void)
{
    float value[1] = {1}, out[1];
    test_key_t keys[3];

    open_store();
    for (int i = 0; i < 3; i++) {
        set_key(&keys[i], i, KVS_DTYPE_float32, 1);
        KT_OK(init(&keys[i], value));
    }
    release(&keys[1]);
    release(&keys[1]);
    value[0] = 2;
    KT_OK(init(&keys[1], value));
    KT_OK(pull(&keys[1], out));
    KT_REAL(out[0], 2);
    KT_OK(pull(&keys[0], out));
    KT_REAL(out[0], 1);
    KT_INT(store.n_bytes, 12);
    release(&keys[2]);
    release(&keys[0]);
    release(&keys[1]);
    close_store();
}

static void memory_that_init_does_not_get_is_an_error(void)
{
    float value[1] = {1};
    test_key_t key;

    open_store();
    set_key(&key, 0, KVS_DTYPE_float32, 1);
    key.entry.n_elems = (int64_t)1 << 58;
    KT_FAIL(init(&key, value), KVS_ERR_NO_MEMORY, "bytes");
    release(&key);
    close_store();
}

/* ---- Updaters --------------------------------------------------------------------------------------- */

static const kvs_key_t *updater_key;
static int n_calls;

static kvs_status_t add_to_stored(const kvs_key_t *key, const kvs_tensor_t *value,
                                  const kvs_tensor_t *stored, void *arg)
{
    const float *from = value->data;
    float *to = stored->data;

    updater_key = key;
    n_calls++;
    KT_INT(value->ndim, 1);
    KT_INT(stored->shape[0], value->shape[0]);
    KT_INT(kvs_dtype_index(stored->dtype), KVS_DTYPE_float32);
    if (arg != NULL) {
        *(const void **)arg = from;
    }
    for (int64_t i = 0; i < value->shape[0]; i++) {
        to[i] += from[i];
    }
    return KVS_OK;
}

static void an_updater_gets_the_sum_and_changes_the_stored_value(void)
{
    float a[2] = {1, 2}, b[2] = {10, 20}, out[2] = {0, 0};
    const void *seen = NULL;
    test_key_t key;

    open_store();
    set_key(&key, 3, KVS_DTYPE_float32, 2);
    KT_OK(kvs_hoststore_set_updater(&store, add_to_stored, &seen));
    KT_OK(init(&key, a));
    n_calls = 0;
    KT_OK(push(&key, a, b));
    KT_OK(push(&key, a, b));
    KT_INT(n_calls, 2);
    KT_TRUE(seen != a && seen != b);
    KT_OK(pull(&key, out));
    expect(out, (float[]){23, 46}, 2);
    expect(a, (float[]){1, 2}, 2);
    KT_OK(push(&key, a, NULL));
    KT_TRUE(seen == a); /* a single value is not copied */
    kvs_tensor_t values[] = {tensor(&key, a), tensor(&key, b)};
    KT_OK(run_one(KVS_VERB_PUSHPULL, &key, values, 2, values, 2));
    expect(a, (float[]){35, 70}, 2);
    expect(b, (float[]){35, 70}, 2);
    KT_OK(kvs_hoststore_set_updater(&store, NULL, NULL));
    KT_OK(push(&key, a, NULL));
    KT_OK(pull(&key, out));
    expect(out, (float[]){35, 70}, 2);
    release(&key);
    close_store();
}

static kvs_status_t take_name(const kvs_key_t *key, const kvs_tensor_t *value,
                              const kvs_tensor_t *stored, void *arg)
{
    (void)value;
    (void)stored;
    *(kvs_key_t *)arg = *key;
    return KVS_OK;
}

static void an_updater_is_told_the_key(void)
{
    float a[1] = {1};
    kvs_key_t told = {NULL, 0};
    test_key_t keys[2];

    open_store();
    set_key(&keys[0], -7, KVS_DTYPE_float32, 1);
    set_key(&keys[1], 0, KVS_DTYPE_float32, 1);
    keys[1].entry.name = "weight";
    KT_OK(kvs_hoststore_set_updater(&store, take_name, &told));
    KT_OK(init(&keys[0], a));
    KT_OK(init(&keys[1], a));
    KT_OK(push(&keys[0], a, NULL));
    KT_TRUE(told.str == NULL);
    KT_INT(told.num, -7);
    KT_OK(push(&keys[1], a, NULL));
    KT_STR(told.str, "weight");
    release(&keys[0]);
    release(&keys[1]);
    close_store();
}

static kvs_status_t fail_half_way(const kvs_key_t *key, const kvs_tensor_t *value,
                                  const kvs_tensor_t *stored, void *arg)
{
    (void)key;
    (void)value;
    (void)arg;
    *(float *)stored->data = 42;
    return kvs_fail(KVS_ERR_IO, "the disk is full");
}

static void an_updaters_error_keeps_its_text_and_names_the_key(void)
{
    float a[2] = {1, 2}, out[2] = {7, 7};
    test_key_t key;

    open_store();
    set_key(&key, 12, KVS_DTYPE_float32, 2);
    KT_OK(kvs_hoststore_set_updater(&store, fail_half_way, NULL));
    KT_OK(init(&key, a));
    kvs_tensor_t value = tensor(&key, a), to = tensor(&key, out);
    KT_FAIL(run_one(KVS_VERB_PUSHPULL, &key, &value, 1, &to, 1), KVS_ERR_CALLBACK,
            "key 12: updater returned KVS_ERR_IO: the disk is full");
    expect(out, (float[]){7, 7}, 2);
    KT_OK(pull(&key, out));
    expect(out, (float[]){42, 2}, 2);
    key.entry.name = "w";
    KT_FAIL(push(&key, a, NULL), KVS_ERR_CALLBACK, "key 'w': updater returned KVS_ERR_IO");
    release(&key);
    close_store();
}

static void empty_arrays_are_exchanged_and_updated(void)
{
    test_key_t key;

    open_store();
    set_key(&key, 0, KVS_DTYPE_float32, 0);
    KT_OK(init(&key, NULL));
    KT_OK(push(&key, NULL, NULL));
    KT_OK(pull(&key, NULL));
    KT_OK(kvs_hoststore_set_updater(&store, add_to_stored, NULL));
    n_calls = 0;
    kvs_tensor_t values[] = {tensor(&key, NULL), tensor(&key, NULL)};
    KT_OK(run_one(KVS_VERB_PUSHPULL, &key, values, 2, values, 2));
    KT_INT(n_calls, 1);
    release(&key);
    close_store();
}

/* ---- Arrays shared among the groups of a call ---------------------------------------------------------- */

static void all_values_are_read_before_any_out_is_written(void)
{
    float a[2] = {1, 2}, b[2] = {10, 20};
    const size_t first[] = {0}, second[] = {1};
    test_key_t keys[2];
    test_op_t op;

    open_store();
    set_key(&keys[0], 0, KVS_DTYPE_float32, 2);
    set_key(&keys[1], 1, KVS_DTYPE_float32, 2);
    KT_OK(init(&keys[0], a));
    KT_OK(init(&keys[1], a));
    kvs_tensor_t ta = tensor(&keys[0], a), tb = tensor(&keys[1], b);
    set_op(&op, KVS_VERB_PUSHPULL);
    op.op.flags = KVS_OP_SHARED;
    add_group(&op, &keys[0], &ta, 1, &tb, 1)->out_index = first;
    add_group(&op, &keys[1], &tb, 1, &ta, 1)->out_index = second;
    KT_OK(run_op(&op));
    expect(a, (float[]){10, 20}, 2);
    expect(b, (float[]){1, 2}, 2);
    release(&keys[0]);
    release(&keys[1]);
    close_store();
}

static void of_outs_that_overlap_the_last_of_the_call_stays(void)
{
    float memory[4] = {0, 0, 0, 0}, one[2] = {1, 1}, two[2] = {2, 2};
    const size_t late[] = {1, 3}, early[] = {0, 2};
    test_key_t keys[2];
    test_op_t op;

    open_store();
    set_key(&keys[0], 0, KVS_DTYPE_float32, 2);
    set_key(&keys[1], 1, KVS_DTYPE_float32, 2);
    KT_OK(init(&keys[0], one));
    KT_OK(init(&keys[1], two));
    /* In the order of the call: twos at 2, ones at 1, twos at 0, ones at 0. */
    kvs_tensor_t ones[] = {tensor(&keys[0], memory + 1), tensor(&keys[0], memory)};
    kvs_tensor_t twos[] = {tensor(&keys[1], memory + 2), tensor(&keys[1], memory)};
    set_op(&op, KVS_VERB_PULL);
    op.op.flags = KVS_OP_SHARED;
    add_group(&op, &keys[0], NULL, 0, ones, 2)->out_index = late;
    add_group(&op, &keys[1], NULL, 0, twos, 2)->out_index = early;
    KT_OK(run_op(&op));
    expect(memory, (float[]){1, 1, 1, 2}, 4);
    release(&keys[0]);
    release(&keys[1]);
    close_store();
}

/* ---- Optimizers ------------------------------------------------------------------------------------- */

/* lag: m = m/2 + g, w -= lr * t * m. */
static void lag_scalars(const kvs_hyper_t *hyper, const kvs_update_t *update, double *ret_scalars)
{
    (void)hyper;
    ret_scalars[0] = update->lr * (double)update->t;
}

static void lag_step_f32(int64_t n, const float *grad, float *weight, float *const *states,
                         const float *scalars)
{
    for (int64_t i = 0; i < n; i++) {
        states[0][i] = states[0][i] * 0.5f + grad[i];
        weight[i] -= scalars[0] * states[0][i];
    }
}

static void lag_step_f64(int64_t n, const double *grad, double *weight, double *const *states,
                         const double *scalars)
{
    for (int64_t i = 0; i < n; i++) {
        states[0][i] = states[0][i] * 0.5 + grad[i];
        weight[i] -= scalars[0] * states[0][i];
    }
}

/* share: w -= lr * (sum of all g). */
static void share_scalars(const kvs_hyper_t *hyper, const kvs_update_t *update, double *ret_scalars)
{
    (void)hyper;
    ret_scalars[0] = update->lr;
}

static void share_sums_f32(uint32_t phase, int64_t n, const float *grad, const float *weight,
                           float *const *states, const float *scalars, double *io_sums)
{
    (void)phase;
    (void)weight;
    (void)states;
    (void)scalars;
    for (int64_t i = 0; i < n; i++) {
        io_sums[0] += grad[i];
    }
}

static void share_sums_f64(uint32_t phase, int64_t n, const double *grad, const double *weight,
                           double *const *states, const double *scalars, double *io_sums)
{
    (void)phase;
    (void)weight;
    (void)states;
    (void)scalars;
    for (int64_t i = 0; i < n; i++) {
        io_sums[0] += grad[i];
    }
}

static void share_combine(uint32_t phase, const double *sums, double *io_scalars)
{
    (void)phase;
    io_scalars[1] = sums[0];
}

static void share_step_f32(int64_t n, const float *grad, float *weight, float *const *states,
                           const float *scalars)
{
    (void)grad;
    (void)states;
    for (int64_t i = 0; i < n; i++) {
        weight[i] -= scalars[0] * scalars[1];
    }
}

static void share_step_f64(int64_t n, const double *grad, double *weight, double *const *states,
                           const double *scalars)
{
    (void)grad;
    (void)states;
    for (int64_t i = 0; i < n; i++) {
        weight[i] -= scalars[0] * scalars[1];
    }
}

static kvs_status_t find_optimizer(const char *name, const kvs_optimizer_t **ret_optimizer)
{
    static const kvs_state_info_t lag_states[] = {{"m", 0, 0}};
    static const kvs_optimizer_t lag = {
        .size = sizeof(lag),
        .name = "lag",
        .learning_rate = 0.25,
        .states = lag_states,
        .n_states = 1,
        .scalars = lag_scalars,
        .step_f32 = lag_step_f32,
        .step_f64 = lag_step_f64,
    };
    static const kvs_optimizer_t share = {
        .size = sizeof(share),
        .name = "share",
        .learning_rate = 0.5,
        .scalars = share_scalars,
        .n_phases = 1,
        .n_sums = 1,
        .sums_f32 = share_sums_f32,
        .sums_f64 = share_sums_f64,
        .combine = share_combine,
        .step_f32 = share_step_f32,
        .step_f64 = share_step_f64,
    };

    if (strcmp(name, "lag") != 0 && strcmp(name, "share") != 0) {
        return kvs_fail(KVS_ERR_NOT_FOUND, "no optimizer named '%s'", name);
    }
    *ret_optimizer = strcmp(name, "lag") == 0 ? &lag : &share;
    return KVS_OK;
}

static kvs_status_t set_optimizer(const char *name)
{
    kvs_optimizer_spec_t spec = KVS_OPTIMIZER_INIT;

    fake_host.find_optimizer = find_optimizer;
    spec.name = name;
    return kvs_hoststore_set_optimizer(&store, &spec);
}

static void an_optimizer_updates_by_the_sum_and_outs_get_the_weight(void)
{
    enum { N = 10001 };
    static float a[N], b[N], weight[N], want[N], lag[N], out[N];
    static uint16_t half[N];
    test_key_t key;

    open_store();
    set_key(&key, 0, KVS_DTYPE_float32, N);
    for (int i = 0; i < N; i++) {
        a[i] = (float)(i % 17) - 8;
        b[i] = (float)(i % 5) * 0.25f;
        weight[i] = want[i] = (float)i * 0.01f;
        lag[i] = 0;
    }
    KT_OK(set_optimizer("lag"));
    KT_OK(init(&key, weight));
    kvs_tensor_t values[] = {tensor(&key, a), tensor(&key, b)};
    kvs_tensor_t outs[] = {tensor(&key, out), kt_tensor(half, KVS_DTYPE_float16, key.shape, 1)};
    for (int t = 1; t <= 3; t++) {
        size_t n_values = t == 2 ? 1 : 2;

        KT_OK(run_one(KVS_VERB_PUSHPULL, &key, values, n_values, outs, 2));
        for (int i = 0; i < N; i++) {
            lag[i] = lag[i] * 0.5f + (n_values == 2 ? a[i] + b[i] : a[i]);
            want[i] -= 0.25f * (float)t * lag[i];
        }
        expect(out, want, N);
        KT_INT(half[N - 1], slow_encode(KVS_DTYPE_float16, want[N - 1]));
    }
    KT_OK(run_one(KVS_VERB_PUSHPULL, &key, values, 2, values, 2)); /* in place */
    KT_OK(pull(&key, out));
    expect(a, out, N);
    expect(b, out, N);
    release(&key);
    close_store();
}

static void updates_use_what_was_counted_when_they_were_issued(void)
{
    float one[1] = {1}, zero[1] = {0}, out[1];
    test_key_t keys[2];
    test_op_t first, second;

    open_store();
    KT_OK(set_optimizer("lag"));
    for (int i = 0; i < 2; i++) {
        set_key(&keys[i], i, KVS_DTYPE_float32, 1);
        KT_OK(init(&keys[i], zero));
    }
    kvs_tensor_t value = tensor(&keys[0], one);
    set_op(&first, KVS_VERB_PUSH);
    add_group(&first, &keys[0], &value, 1, NULL, 0);
    set_op(&second, KVS_VERB_PUSH);
    add_group(&second, &keys[0], &value, 1, NULL, 0);
    KT_OK(kvs_hoststore_issue(&store, &first.op));
    KT_OK(kvs_hoststore_issue(&store, &second.op));
    KT_OK(run_verb(&first)); /* t 1: m 1, w -0.25 */
    KT_OK(pull(&keys[0], out));
    KT_REAL(out[0], -0.25);
    KT_OK(run_verb(&second)); /* t 2: m 1.5, w -0.25 - 0.75 */
    KT_OK(pull(&keys[0], out));
    KT_REAL(out[0], -1);
    release(&keys[0]);
    release(&keys[1]);
    close_store();
}

static void an_optimizer_that_needs_the_whole_sum_gets_it(void)
{
    enum { N = 5000 };
    static float a[N], b[N], out[N], want[N], zero[N];
    test_key_t key;

    open_store();
    set_key(&key, 0, KVS_DTYPE_float32, N);
    for (int i = 0; i < N; i++) {
        a[i] = 1;
        b[i] = 2;
        want[i] = -0.5f * 3 * N;
    }
    KT_OK(set_optimizer("share"));
    KT_OK(init(&key, zero));
    kvs_tensor_t values[] = {tensor(&key, a), tensor(&key, b)};
    kvs_tensor_t outs[] = {tensor(&key, out)};
    KT_OK(run_one(KVS_VERB_PUSHPULL, &key, values, 2, outs, 1));
    expect(out, want, N);
    KT_OK(run_one(KVS_VERB_PUSHPULL, &key, values, 1, values, 1));
    KT_REAL(a[N - 1], -0.5 * 3 * N - 0.5 * N);
    release(&key);
    close_store();
}

static void integer_weights_are_refused_before_anything_is_counted(void)
{
    float weight[1] = {0}, out[1];
    int32_t whole[1] = {1};
    test_key_t keys[2];
    test_op_t op;

    open_store();
    KT_OK(set_optimizer("lag"));
    set_key(&keys[0], 0, KVS_DTYPE_float32, 1);
    set_key(&keys[1], 1, KVS_DTYPE_int32, 1);
    KT_OK(init(&keys[0], weight));
    KT_OK(init(&keys[1], whole));
    weight[0] = 1;
    kvs_tensor_t values[] = {tensor(&keys[0], weight), tensor(&keys[1], whole)};
    set_op(&op, KVS_VERB_PUSH);
    add_group(&op, &keys[0], &values[0], 1, NULL, 0);
    add_group(&op, &keys[1], &values[1], 1, NULL, 0);
    KT_FAIL(run_op(&op), KVS_ERR_DTYPE, "int32");
    KT_OK(push(&keys[0], weight, NULL));
    KT_OK(pull(&keys[0], out));
    KT_REAL(out[0], -0.25); /* t is 1 */
    release(&keys[0]);
    release(&keys[1]);
    close_store();
}

static void another_optimizer_begins_with_empty_states(void)
{
    float zero[1] = {0}, one[1] = {1}, out[1];
    test_key_t key;

    open_store();
    set_key(&key, 0, KVS_DTYPE_float32, 1);
    KT_OK(set_optimizer("lag"));
    KT_OK(init(&key, zero));
    KT_OK(push(&key, one, NULL));
    KT_FAIL(set_optimizer("lagg"), KVS_ERR_NOT_FOUND, "lagg");
    KT_OK(push(&key, one, NULL)); /* the first one goes on: -0.25 - 0.5 * 1.5 */
    KT_OK(pull(&key, out));
    KT_REAL(out[0], -1);
    KT_OK(set_optimizer("lag"));
    KT_OK(push(&key, one, NULL)); /* t 1 and m 1 again */
    KT_OK(pull(&key, out));
    KT_REAL(out[0], -1.25);
    KT_OK(kvs_hoststore_set_updater(&store, add_to_stored, NULL)); /* takes its place */
    KT_OK(push(&key, one, NULL));
    KT_OK(pull(&key, out));
    KT_REAL(out[0], -0.25);
    release(&key);
    close_store();
}

static void attributes_change_the_pushes_issued_later(void)
{
    float zero[1] = {0}, one[1] = {1}, out[1];
    kvs_param_t rate = {.name = "learning_rate", .type = KVS_PARAM_FLOAT, .value = {.real = 4}};
    test_key_t key;
    test_op_t op;

    open_store();
    set_key(&key, 0, KVS_DTYPE_float32, 1);
    KT_FAIL(kvs_hoststore_set_optimizer_attr(&store, &rate), KVS_ERR_STATE, "set_optimizer");
    KT_OK(set_optimizer("lag"));
    KT_OK(init(&key, zero));
    kvs_tensor_t value = tensor(&key, one);
    set_op(&op, KVS_VERB_PUSH);
    add_group(&op, &key, &value, 1, NULL, 0);
    KT_OK(kvs_hoststore_issue(&store, &op.op));
    KT_OK(kvs_hoststore_set_optimizer_attr(&store, &rate));
    KT_OK(run_verb(&op));
    KT_OK(pull(&key, out));
    KT_REAL(out[0], -0.25);
    KT_OK(push(&key, one, NULL));
    KT_OK(pull(&key, out));
    KT_REAL(out[0], -0.25 - 4 * 2 * 1.5);
    release(&key);
    close_store();
}

/* ---- Big arrays ----------------------------------------------------------------------------------------- */

enum { BIG = (1 << 21) + 77 };

static float *big_array(int step)
{
    float *data = malloc(BIG * sizeof(*data));

    if (data == NULL) {
        abort();
    }
    for (int i = 0; i < BIG; i++) {
        data[i] = (float)((i * step) % 1001) * 0.125f;
    }
    return data;
}

/* Three exchanges of big arrays: without an updater, with an optimizer, and with one that needs norms. */
static void exchange_big(int64_t n_pieces, float *out)
{
    static const char *const optimizers[] = {NULL, "lag", "share"};
    float *a = big_array(3), *b = big_array(7);
    test_key_t key;

    fake_n_pieces = n_pieces;
    open_store();
    set_key(&key, 0, KVS_DTYPE_float32, BIG);
    KT_OK(init(&key, a));
    kvs_tensor_t values[] = {tensor(&key, a), tensor(&key, b)};
    kvs_tensor_t outs[] = {tensor(&key, out)};
    for (int i = 0; i < 3; i++) {
        if (optimizers[i] != NULL) {
            KT_OK(set_optimizer(optimizers[i]));
        }
        KT_OK(run_one(KVS_VERB_PUSHPULL, &key, values, 2, outs, 1));
        if (i == 0) {
            int n_wrong = 0;

            for (int j = 0; j < BIG; j++) {
                n_wrong += out[j] != a[j] + b[j];
            }
            KT_INT(n_wrong, 0);
        }
    }
    release(&key);
    close_store();
    fake_n_pieces = 1;
    free(a);
    free(b);
}

static void results_do_not_depend_on_the_number_of_threads(void)
{
    float *whole = big_array(1), *cut = big_array(1);

    exchange_big(1, whole);
    for (int64_t n_pieces = 2; n_pieces < 8; n_pieces += 5) {
        exchange_big(n_pieces, cut);
        KT_TRUE(memcmp(whole, cut, BIG * sizeof(*cut)) == 0);
    }
    free(whole);
    free(cut);
}

static const kt_test_t tests[] = {
    KT_TEST(init_keeps_a_copy),
    KT_TEST(push_replaces_the_value_by_the_sum_in_list_order),
    KT_TEST(the_store_keeps_no_pushed_array),
    KT_TEST(outs_of_other_floating_dtypes_are_converted_to),
    KT_TEST(pushpull_works_in_place_and_out_of_place),
    KT_TEST(any_number_of_arrays_may_come),
    KT_TEST(a_verb_touches_only_its_own_arrays),
    KT_TEST(every_dtype_is_summed_and_kept),
    KT_TEST(a_released_key_can_be_initialised_again),
    KT_TEST(memory_that_init_does_not_get_is_an_error),
    KT_TEST(an_updater_gets_the_sum_and_changes_the_stored_value),
    KT_TEST(an_updater_is_told_the_key),
    KT_TEST(an_updaters_error_keeps_its_text_and_names_the_key),
    KT_TEST(empty_arrays_are_exchanged_and_updated),
    KT_TEST(all_values_are_read_before_any_out_is_written),
    KT_TEST(of_outs_that_overlap_the_last_of_the_call_stays),
    KT_TEST(an_optimizer_updates_by_the_sum_and_outs_get_the_weight),
    KT_TEST(updates_use_what_was_counted_when_they_were_issued),
    KT_TEST(an_optimizer_that_needs_the_whole_sum_gets_it),
    KT_TEST(integer_weights_are_refused_before_anything_is_counted),
    KT_TEST(another_optimizer_begins_with_empty_states),
    KT_TEST(attributes_change_the_pushes_issued_later),
    KT_TEST(results_do_not_depend_on_the_number_of_threads),
};
KT_MAIN("hoststore", tests)
