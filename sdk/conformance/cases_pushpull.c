/* SPDX-License-Identifier: Apache-2.0 */
/* cases_pushpull.c - push and pull as one operation; an allreduce where no weights are kept. */
#include "themes.h"

enum { N = 7 };

static cf_array_t *f32(cf_t *t, double value)
{
    return cf_const(t, KVS_DTYPE_float32, N, value);
}

/* Where weights are kept the keys must be known before. */
static void make(cf_t *t, const kvs_key_t *keys, size_t n_keys)
{
    for (size_t i = 0; i < n_keys && cf_keeps_weights(t); i++) {
        cf_init(t, keys[i], f32(t, 50));
    }
}

static void sum(cf_t *t)
{
    kvs_key_t key = cf_key(t, 1);
    cf_array_t *values[4];
    cf_array_t *outs[2] = {f32(t, 9), f32(t, 9)};

    for (int i = 0; i < 4; i++) {
        values[i] = cf_ranked(t, KVS_DTYPE_float32, N, i);
    }
    make(t, &key, 1);
    for (int n_values = 4; n_values > 0; n_values--) {
        cf_pushpull(t, key, cf_list(t, (size_t)n_values, values), cf_list(t, 2, outs));
        cf_want_sum(t, "first out", outs[0], n_values);
        cf_want_sum(t, "second out", outs[1], n_values);
    }
    for (int i = 0; i < 4; i++) {
        for (int j = 0; j < N; j++) {
            cf_want_at(t, "a value after pushpull with outs", values[i], j,
                       cf_value(t->rank, i, j));
        }
    }
}

static void in_place(cf_t *t)
{
    kvs_key_t keys[2] = {cf_key(t, 2), cf_key(t, 1)};
    cf_array_t *values[3];

    make(t, keys, 2);
    values[0] = cf_ranked(t, KVS_DTYPE_float32, N, 0);
    values[1] = cf_ranked(t, KVS_DTYPE_float32, N, 1);
    values[2] = cf_ranked(t, KVS_DTYPE_float32, N, 0);
    CF_OK(t, kvs_store_pushpull(t->store, keys, 2, CF_SPLIT(t, cf_list(t, 3, values), 2, 1), NULL,
                                NULL));
    cf_want_sum(t, "first value, without outs", values[0], 2);
    cf_want_sum(t, "second value, without outs", values[1], 2);
    cf_want_sum(t, "the other key's value, without outs", values[2], 1);
}

static void stores(cf_t *t)
{
    kvs_key_t key = cf_key(t, 1);
    cf_array_t *out = f32(t, 0), *pulled = f32(t, 0);

    make(t, &key, 1);
    for (int i = 1; i <= 3; i++) {
        cf_pushpull(t, key, CF_LIST(t, f32(t, i), f32(t, 1)), CF_LIST(t, out));
        cf_want_all(t, "out", out, (i + 1) * t->n_workers);
        cf_pull(t, key, pulled);
        cf_want_all(t, "pulled afterwards", pulled, (i + 1) * t->n_workers);
    }
}

static void no_init(cf_t *t)
{
    kvs_key_t key = cf_key(t, 1);
    static const int dtypes[] = {KVS_DTYPE_float32, KVS_DTYPE_int32, KVS_DTYPE_float32};

    for (int i = 0; i < 3; i++) {
        cf_array_t *value = cf_ranked(t, dtypes[i], N + 3 * i, 0);
        cf_array_t *out = cf_vector(t, dtypes[i], N + 3 * i);

        cf_pushpull(t, key, CF_LIST(t, value), CF_LIST(t, out));
        cf_want_sum(t, "out", out, 1);
    }
}

static void unknown_key(cf_t *t)
{
    kvs_key_t key = cf_key(t, 1);
    cf_array_t *value = f32(t, 1);

    CF_FAIL(t, kvs_store_pushpull(t->store, &key, 1, CF_LIST(t, value), NULL, NULL),
            KVS_ERR_NOT_FOUND, cf_key_text(t, key));
    cf_want_all(t, "the value of a refused pushpull", value, 1);
}

static void reads_before_writes(cf_t *t)
{
    kvs_key_t keys[2] = {cf_key(t, 1), cf_key(t, 2)};
    cf_array_t *a = f32(t, 1), *b = f32(t, 2);

    make(t, keys, 2);
    CF_OK(t, kvs_store_pushpull(t->store, keys, 2, CF_LIST(t, a, b), CF_LIST(t, b, a), NULL));
    cf_want_all(t, "array that was the second value, out of the first key", b, t->n_workers);
    cf_want_all(t, "array that was the first value, out of the second key", a, 2 * t->n_workers);
}

static void out_is_value(cf_t *t)
{
    kvs_key_t key = cf_key(t, 1);
    cf_array_t *a = f32(t, 1), *b = f32(t, 2), *c = f32(t, 4);

    make(t, &key, 1);
    cf_pushpull(t, key, CF_LIST(t, a, b, c), CF_LIST(t, b));
    cf_want_all(t, "out that is the second value", b, 7 * t->n_workers);
    cf_want_all(t, "the first value", a, 1);
    cf_want_all(t, "the third value", c, 4);
    cf_pushpull(t, key, CF_LIST(t, a, a), CF_LIST(t, c, a));
    cf_want_all(t, "out that is both values", a, 2 * t->n_workers);
    cf_want_all(t, "the other out", c, 2 * t->n_workers);
}

static void shared_outs(cf_t *t)
{
    kvs_key_t keys[3] = {cf_key(t, 3), cf_key(t, 2), cf_key(t, 1)};
    cf_array_t *shared = f32(t, 0), *own = f32(t, 0);
    const kvs_arrays_t *values = CF_LIST(t, f32(t, 3), f32(t, 2), f32(t, 1));

    make(t, keys, 3);
    CF_OK(t, kvs_store_pushpull(t->store, keys, 3, values, CF_LIST(t, shared, own, shared), NULL));
    cf_want_all(t, "array that is an out of the first and the last key", shared, t->n_workers);
    cf_want_all(t, "array that is an out of the key between", own, 2 * t->n_workers);
    CF_OK(t, kvs_store_pushpull(t->store, keys, 3, values, CF_LIST(t, own, shared, own), NULL));
    cf_want_all(t, "array that is an out of the key between", shared, 2 * t->n_workers);
    cf_want_all(t, "array that is an out of the first and the last key", own, t->n_workers);
}

/* The outs of two keys overlap by N - 3 elements, and one of them a value of the other. */
static void overlapping(cf_t *t)
{
    kvs_key_t keys[2] = {cf_key(t, 2), cf_key(t, 1)};
    cf_array_t *memory = cf_const(t, KVS_DTYPE_float32, N + 3, 2);
    cf_array_t *one = f32(t, 1);
    kvs_tensor_t front = memory->tensor, back = memory->tensor;
    const int64_t shape[1] = {N};
    kvs_tensor_t values[2], outs[2];
    kvs_arrays_t value_list, out_list;

    make(t, keys, 2);
    front.shape = back.shape = shape;
    back.byte_offset = 3 * sizeof(float);
    values[0] = one->tensor;
    values[1] = front;
    outs[0] = front;
    outs[1] = back;
    value_list = kvs_arrays(values, 2);
    out_list = kvs_arrays(outs, 2);
    CF_OK(t, kvs_store_pushpull(t->store, keys, 2, &value_list, &out_list, NULL));
    for (int i = 0; i < N + 3; i++) {
        cf_want_at(t, "memory of overlapping outs", memory, i, (i < 3 ? 1 : 2) * t->n_workers);
    }
}

static void converts(cf_t *t)
{
    kvs_key_t key = cf_key(t, 1);
    cf_array_t *wide = cf_const(t, KVS_DTYPE_float64, N, 9);
    cf_array_t *half = cf_const(t, KVS_DTYPE_float16, N, 9);
    cf_array_t *brain = cf_const(t, KVS_DTYPE_bfloat16, N, 9);

    make(t, &key, 1);
    cf_pushpull(t, key, CF_LIST(t, f32(t, 1.5), f32(t, 0.25)), CF_LIST(t, wide, half, brain));
    cf_want_all(t, "out", wide, 1.75 * t->n_workers);
    cf_want_all(t, "out", half, 1.75 * t->n_workers);
    cf_want_all(t, "out", brain, 1.75 * t->n_workers);
}

static void disagree(cf_t *t)
{
    kvs_key_t key = cf_key(t, 1);
    cf_array_t *value = f32(t, 1);
    cf_array_t *longer = cf_const(t, KVS_DTYPE_float32, N + 6, 1);
    cf_array_t *integer = cf_const(t, KVS_DTYPE_int32, N, 1);

    make(t, &key, 1);
    CF_FAIL(t, kvs_store_pushpull(t->store, &key, 1, CF_LIST(t, value, longer), NULL, NULL),
            KVS_ERR_SHAPE, "13");
    CF_FAIL(t, kvs_store_pushpull(t->store, &key, 1, CF_LIST(t, value), CF_LIST(t, longer), NULL),
            KVS_ERR_SHAPE, "13");
    CF_FAIL(t, kvs_store_pushpull(t->store, &key, 1, CF_LIST(t, value, integer), NULL, NULL),
            KVS_ERR_DTYPE, "int32");
    CF_FAIL(t, kvs_store_pushpull(t->store, &key, 1, CF_LIST(t, value), CF_LIST(t, integer), NULL),
            KVS_ERR_DTYPE, "int32");
    cf_want_all(t, "the value of refused calls", value, 1);
    cf_want_all(t, "an array of refused calls", longer, 1);
    cf_want_all(t, "an array of refused calls", integer, 1);
}

static const cf_case_t cases[] = {
    {"pushpull.sum",
     "pushpull writes the sum over values and workers to every out, and only there.",
     CF_REPLACES | CF_LISTS, sum},
    {"pushpull.in_place", "Without outs the result is written back into the values.",
     CF_REPLACES | CF_LISTS, in_place},
    {"pushpull.stores", "Where weights are kept, the result of a pushpull is also stored.",
     CF_WEIGHTS | CF_REPLACES, stores},
    {"pushpull.no_init", "Where none are kept, a key needs no init and only names the exchange.",
     CF_NO_WEIGHTS, no_init},
    {"pushpull.unknown_key", "Where weights are kept, an uninitialised key is an error naming it.",
     CF_WEIGHTS, unknown_key},
    {"pushpull.reads_before_writes", "All values of the list are read before any out is written.",
     CF_REPLACES | CF_LISTS, reads_before_writes},
    {"pushpull.out_is_value", "An out may be one of the values.", CF_REPLACES | CF_LISTS,
     out_is_value},
    {"pushpull.shared_outs", "If outs of different keys are one array, the last in the list stays.",
     CF_REPLACES | CF_LISTS, shared_outs},
    {"pushpull.overlapping",
     "Where arrays of different keys overlap in part, values are read first and the last out "
     "stays.",
     CF_REPLACES | CF_LISTS, overlapping},
    {"pushpull.converts", "An out of another floating dtype is converted to.",
     CF_REPLACES | CF_LISTS, converts},
    {"pushpull.disagree",
     "Values and outs of one key that differ in shape, or in dtype as integers do, are an error.",
     0, disagree},
};

const cf_theme_t cf_theme_pushpull = CF_THEME(cases);
