/* SPDX-License-Identifier: Apache-2.0 */
/* cases_dtypes.c - what sums are, in each of the eight dtypes. */
#include "themes.h"

#include <math.h>
#include <stdio.h>

static const char *name_of(int dtype)
{
    return kvs_dtype_name(kvs_dtype(dtype));
}

static void sums(cf_t *t)
{
    for (int dtype = 0; dtype < KVS_N_DTYPES; dtype++) {
        cf_array_t *values[3], *out;

        if (!cf_has_dtype(t, dtype)) {
            continue;
        }
        out = cf_vector(t, dtype, 37);
        for (int i = 0; i < 3; i++) {
            values[i] = cf_ranked(t, dtype, 37, i);
        }
        cf_reduce(t, cf_key(t, dtype), cf_list(t, 3, values), out);
        cf_want_sum(t, "sum of three values", out, 3);
    }
}

static void all_eight(cf_t *t)
{
    for (int dtype = 0; dtype < KVS_N_DTYPES; dtype++) {
        cf_want_number(t, name_of(dtype), cf_has_dtype(t, dtype), 1);
    }
}

static void unknown(cf_t *t)
{
    kvs_key_t key = cf_key(t, 1);
    static const kvs_dtype_t wrong[] = {
        {KVS_CODE_INT, 16, 1}, {KVS_CODE_FLOAT, 32, 2}, {5, 64, 1}, {KVS_CODE_FLOAT, 0, 0}};

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        cf_array_t *memory = cf_vector(t, KVS_DTYPE_float64, 16);
        kvs_tensor_t tensor = memory->tensor;
        kvs_arrays_t list = kvs_arrays(&tensor, 1);
        int supported = 1;

        tensor.dtype = wrong[i];
        CF_OK(t, kvs_store_supports(t->store, wrong[i], tensor.device, &supported));
        cf_want_number(t, "supports a dtype that is none of the eight", supported, 0);
        CF_REFUSED(t, kvs_store_broadcast(t->store, &key, 1, &list, &list, NULL), "");
    }
}

static void integers_wrap(cf_t *t)
{
    static const struct {
        int dtype;
        int64_t a, b, sum; /* sum is a + a + b in two's complement */
    } cases[] = {
        {KVS_DTYPE_int8, 100, 1, -55},      {KVS_DTYPE_int8, -128, -1, -1},
        {KVS_DTYPE_uint8, 200, 3, 147},     {KVS_DTYPE_uint8, 128, 255, 255},
        {KVS_DTYPE_int32, INT32_MAX, 5, 3}, {KVS_DTYPE_int64, INT64_MAX, 5, 3},
    };

    for (int i = 0; i < (int)(sizeof(cases) / sizeof(cases[0])); i++) {
        cf_array_t *a = cf_vector(t, cases[i].dtype, 33);
        cf_array_t *b = cf_vector(t, cases[i].dtype, 33);
        cf_array_t *want = cf_vector(t, cases[i].dtype, 33);
        cf_array_t *out = cf_vector(t, cases[i].dtype, 33);

        for (int j = 0; j < 33; j++) {
            /* the other workers give zeros: their sum leaves the wrapped one alone */
            cf_set_int(t, a, j, t->rank == 0 ? cases[i].a : 0);
            cf_set_int(t, b, j, t->rank == 0 ? cases[i].b : 0);
            cf_set_int(t, want, j, cases[i].sum);
        }
        cf_reduce(t, cf_key(t, i), CF_LIST(t, a, a, b), out);
        for (int j = 0; j < 33; j++) {
            cf_want_number(t, name_of(cases[i].dtype), cf_get_int(t, out, j),
                           cf_get_int(t, want, j));
        }
    }
}

/* More digits than the next narrower type has: 2^53 + 1 and 1 + 2^-40. */
static void wide(cf_t *t)
{
    cf_array_t *big = cf_vector(t, KVS_DTYPE_int64, 5);
    cf_array_t *big_out = cf_vector(t, KVS_DTYPE_int64, 5);
    cf_array_t *fine = cf_const(t, KVS_DTYPE_float64, 5, t->rank == 0 ? 1 + 0x1p-40 : 0);
    cf_array_t *fine_out = cf_vector(t, KVS_DTYPE_float64, 5);

    for (int i = 0; i < 5; i++) {
        cf_set_int(t, big, i, t->rank == 0 ? ((int64_t)1 << 53) + 1 : 0);
    }
    cf_reduce(t, cf_key(t, 1), CF_LIST(t, big), big_out);
    cf_reduce(t, cf_key(t, 2), CF_LIST(t, fine), fine_out);
    for (int i = 0; i < 5; i++) {
        cf_want_number(t, "int64", cf_get_int(t, big_out, i), ((int64_t)1 << 53) + 1);
    }
    cf_want_all(t, "float64", fine_out, 1 + 0x1p-40);
}

/* One list for a half type, given by rank 0; the others give zeros. */
typedef struct half_sum {
    int dtype;
    double values[4];
    double sum; /* in float32, rounded once */
} half_sum_t;

static void want_half_sums(cf_t *t, const half_sum_t *sums_wanted, int n)
{
    for (int i = 0; i < n; i++) {
        cf_array_t *values[4];
        cf_array_t *out = cf_vector(t, sums_wanted[i].dtype, 19);

        for (int j = 0; j < 4; j++) {
            values[j] =
                cf_const(t, sums_wanted[i].dtype, 19, t->rank == 0 ? sums_wanted[i].values[j] : 0);
        }
        cf_reduce(t, cf_key(t, i), cf_list(t, 4, values), out);
        cf_want_all(t, "sum of four values", out, sums_wanted[i].sum);
    }
}

static void half_accumulates(cf_t *t)
{
    static const half_sum_t wanted[] = {
        {KVS_DTYPE_float16, {2048, 1, 1, 0}, 2050},            /* 2049 is not a float16 */
        {KVS_DTYPE_float16, {65504, 65504, -65504, 0}, 65504}, /* no infinity on the way */
        {KVS_DTYPE_float16, {1, 0.00048828125, 0.00048828125, 0}, 1.0009765625},
        {KVS_DTYPE_bfloat16, {256, 1, 1, 0}, 258}, /* 257 is not a bfloat16 */
        {KVS_DTYPE_bfloat16, {1, 0.00390625, 0.00390625, 0}, 1.0078125},
        {KVS_DTYPE_bfloat16, {16777216, 1, 1, -16777216}, 0}, /* in float32, not wider */
    };

    want_half_sums(t, wanted, (int)(sizeof(wanted) / sizeof(wanted[0])));
}

static void half_rounds(cf_t *t)
{
    static const half_sum_t wanted[] = {
        {KVS_DTYPE_float16, {2048, 1, 0, 0}, 2048}, /* ties go to even, down … */
        {KVS_DTYPE_float16, {2048, 3, 0, 0}, 2052}, /* … and up */
        {KVS_DTYPE_float16, {2048, 1, 0.5, 0}, 2050},
        {KVS_DTYPE_float16, {65504, 16, 0, 0}, INFINITY},
        {KVS_DTYPE_float16, {65504, 15, 0, 0}, 65504},
        {KVS_DTYPE_float16, {0x1p-24, 0x1p-24, 0x1p-24, 0}, 3 * 0x1p-24}, /* subnormal */
        {KVS_DTYPE_bfloat16, {256, 1, 0, 0}, 256},
        {KVS_DTYPE_bfloat16, {256, 3, 0, 0}, 260},
        {KVS_DTYPE_bfloat16, {256, 1, 0.5, 0}, 258},
        {KVS_DTYPE_bfloat16, {-256, -3, 0, 0}, -260},
    };

    want_half_sums(t, wanted, (int)(sizeof(wanted) / sizeof(wanted[0])));
}

static void non_finite(cf_t *t)
{
    static const int dtypes[] = {KVS_DTYPE_float32, KVS_DTYPE_float64, KVS_DTYPE_float16,
                                 KVS_DTYPE_bfloat16};

    for (int i = 0; i < 4; i++) {
        cf_array_t *a = CF_VALUES(t, dtypes[i], NAN, INFINITY, -INFINITY, INFINITY, 1);
        cf_array_t *b = CF_VALUES(t, dtypes[i], 1, 1, 1, -INFINITY, NAN);
        cf_array_t *one = cf_vector(t, dtypes[i], 5);
        cf_array_t *two = cf_vector(t, dtypes[i], 5);
        static const double ones[] = {NAN, INFINITY, -INFINITY, INFINITY, 1};
        static const double twos[] = {NAN, INFINITY, -INFINITY, NAN, NAN};

        cf_reduce(t, cf_key(t, 2 * i), CF_LIST(t, a), one);
        cf_reduce(t, cf_key(t, 2 * i + 1), CF_LIST(t, a, b), two);
        for (int j = 0; j < 5; j++) {
            cf_want_at(t, "one value", one, j, j == 4 ? t->n_workers : ones[j]);
            cf_want_at(t, "sum of two values", two, j, twos[j]);
        }
    }
}

static void subnormals(cf_t *t)
{
    cf_array_t *a = cf_const(t, KVS_DTYPE_float32, 9, t->rank == 0 ? 0x1p-149 : 0);
    cf_array_t *b = cf_const(t, KVS_DTYPE_float64, 9, t->rank == 0 ? 0x1p-1074 : 0);
    cf_array_t *a_out = cf_vector(t, KVS_DTYPE_float32, 9);
    cf_array_t *b_out = cf_vector(t, KVS_DTYPE_float64, 9);

    cf_reduce(t, cf_key(t, 1), CF_LIST(t, a, a, a), a_out);
    cf_reduce(t, cf_key(t, 2), CF_LIST(t, b, b, b), b_out);
    cf_want_all(t, "three times the smallest", a_out, 3 * 0x1p-149);
    cf_want_all(t, "three times the smallest", b_out, 3 * 0x1p-1074);
}

static const cf_case_t cases[] = {
    {"dtype.all_eight", "Every backend takes all eight dtypes.", 0, all_eight},
    {"dtype.sums", "Sums of small whole numbers are exact in every dtype.", CF_REPLACES | CF_LISTS,
     sums},
    {"dtype.unknown", "A dtype that is none of the eight, or has lanes, is refused.", 0, unknown},
    {"dtype.integers_wrap", "Integer sums wrap in their own width.", CF_REPLACES | CF_LISTS,
     integers_wrap},
    {"dtype.wide", "int64 and float64 are summed in their full width.", CF_REPLACES, wide},
    {"dtype.half_accumulates", "float16 and bfloat16 are accumulated in float32.",
     CF_REPLACES | CF_LISTS, half_accumulates},
    {"dtype.half_rounds", "A sum of half types is rounded once, to nearest even.",
     CF_REPLACES | CF_LISTS, half_rounds},
    {"dtype.non_finite", "NaN and infinity pass through unchanged.", CF_REPLACES | CF_LISTS,
     non_finite},
    {"dtype.subnormals", "Subnormal numbers are summed, not flushed to zero.",
     CF_REPLACES | CF_LISTS, subnormals},
};

const cf_theme_t cf_theme_dtypes = CF_THEME(cases);
