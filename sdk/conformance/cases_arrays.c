/* SPDX-License-Identifier: Apache-2.0 */
/* cases_arrays.c - shapes, sizes and layouts of arrays, and the bits of large sums. */
#include "themes.h"

#include <stdio.h>

enum { N_LARGE = 786433 /* 3 MiB of float32 and a bit: no block size divides it */ };

static void zero_size(cf_t *t)
{
    static const int64_t shapes[][2] = {{0, 4}, {4, 0}, {0, 0}};

    for (int i = 0; i < 3; i++) {
        cf_array_t *a = cf_new(t, KVS_DTYPE_float32, 2, shapes[i]);
        cf_array_t *b = cf_new(t, KVS_DTYPE_float32, 2, shapes[i]);
        cf_array_t *out = cf_new(t, KVS_DTYPE_float32, 2, shapes[i]);

        b->tensor.data = NULL;
        cf_reduce(t, cf_key(t, i), CF_LIST(t, a, b), out);
        cf_pushpull(t, cf_key(t, i), CF_LIST(t, b, a), NULL);
    }
}

/* An empty array between others must not end the list. */
static void zero_size_in_list(cf_t *t)
{
    kvs_key_t keys[3] = {cf_key(t, 1), cf_key(t, 2), cf_key(t, 3)};
    cf_array_t *a = cf_const(t, KVS_DTYPE_float32, 4, 1);
    cf_array_t *none = cf_vector(t, KVS_DTYPE_float32, 0);
    cf_array_t *c = cf_const(t, KVS_DTYPE_float32, 4, 3);

    if (cf_keeps_weights(t)) {
        CF_OK(t, kvs_store_init(t->store, keys, 3, CF_LIST(t, a, none, c), NULL));
    }
    CF_OK(t, kvs_store_pushpull(t->store, keys, 3, CF_LIST(t, a, none, c), NULL, NULL));
    cf_want_all(t, "the key before", a, t->n_workers);
    cf_want_all(t, "the key after", c, 3 * t->n_workers);
}

static void scalar(cf_t *t)
{
    kvs_key_t key = cf_key(t, 1);
    cf_array_t *a = cf_new(t, KVS_DTYPE_float32, 0, NULL);
    cf_array_t *b = cf_new(t, KVS_DTYPE_float32, 0, NULL);
    cf_array_t *out = cf_new(t, KVS_DTYPE_float32, 0, NULL);
    cf_array_t *vector = cf_const(t, KVS_DTYPE_float32, 1, 9);

    cf_set(t, a, 0, 2);
    cf_set(t, b, 0, 3);
    cf_reduce(t, key, CF_LIST(t, a, b), out);
    cf_want_all(t, "sum of two scalars", out, 5 * t->n_workers);
    CF_FAIL(t, kvs_store_pushpull(t->store, &key, 1, CF_LIST(t, a), CF_LIST(t, vector), NULL),
            KVS_ERR_SHAPE, "");
}

static void high_rank(cf_t *t)
{
    static const int64_t shape[CF_MAX_DIMS] = {2, 1, 3, 1, 1, 2, 1, 1, 2, 1, 1, 1, 1, 1, 1, 2};
    cf_array_t *a = cf_new(t, KVS_DTYPE_float32, CF_MAX_DIMS, shape);
    cf_array_t *out = cf_new(t, KVS_DTYPE_float32, CF_MAX_DIMS, shape);

    cf_fill_ranked(t, a, 0);
    cf_reduce(t, cf_key(t, 1), CF_LIST(t, a), out);
    cf_want_sum(t, "array of 16 dimensions", out, 1);
}

static void sizes(cf_t *t)
{
    static const int64_t n_elems[] = {1, 2, 3, 15, 16, 17, 63, 64, 65, 255, 1023, 4097, 65535};

    for (int i = 0; i < (int)(sizeof(n_elems) / sizeof(n_elems[0])); i++) {
        cf_array_t *a = cf_ranked(t, KVS_DTYPE_float32, n_elems[i], 0);
        cf_array_t *b = cf_ranked(t, KVS_DTYPE_float32, n_elems[i], 1);
        cf_array_t *out = cf_vector(t, KVS_DTYPE_float32, n_elems[i]);

        cf_reduce(t, cf_key(t, i), CF_LIST(t, a, b), out);
        cf_want_sum(t, "sum of two values", out, 2);
    }
}

static void large(cf_t *t)
{
    cf_array_t *values[3], *out = cf_vector(t, KVS_DTYPE_float32, N_LARGE);

    for (int i = 0; i < 3; i++) {
        values[i] = cf_ranked(t, KVS_DTYPE_float32, N_LARGE, i);
    }
    cf_reduce(t, cf_key(t, 1), cf_list(t, 3, values), out);
    cf_want_sum(t, "sum of three large values", out, 3);
}

/* A fraction in (-1, 1) with all bits in use, from a small generator. */
static double noise(void *arg, int64_t i)
{
    uint64_t *state = arg;

    (void)i;
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (double)(int64_t)*state / 0x1p63;
}

static cf_array_t *noisy(cf_t *t, int64_t n_elems, int place)
{
    cf_array_t *array = cf_vector(t, KVS_DTYPE_float32, n_elems);
    uint64_t state = (uint64_t)(t->rank * 100 + place + 1);

    cf_set_each(t, array, noise, &state);
    return array;
}

static void want_sum_in_order(cf_t *t, cf_array_t *const values[6], const cf_array_t *got)
{
    cf_window_t windows[6], sums = {.array = got};

    for (int k = 0; k < 6; k++) {
        windows[k] = (cf_window_t){.array = values[k]};
    }
    for (int64_t j = 0; j < got->n_elems && !t->failed; j++) {
        float sum = 0;

        for (int k = 0; k < 6; k++) {
            sum += (float)cf_peek(t, &windows[k], j);
        }
        if (cf_peek(t, &sums, j) != (double)sum) {
            cf_want_at(t, "sum in list order", got, j, sum);
        }
    }
}

/* Sums of these depend on the order of additions: the bits tell whether it was always the same one,
 * and with one worker, which. */
static void same_bits(cf_t *t)
{
    static const int64_t n_elems[] = {1001, 200003};

    for (int i = 0; i < 2; i++) {
        kvs_key_t key = cf_key(t, i);
        cf_array_t *first = cf_vector(t, KVS_DTYPE_float32, n_elems[i]);
        cf_array_t *again = cf_vector(t, KVS_DTYPE_float32, n_elems[i]);
        cf_array_t *values[6];

        for (int j = 0; j < 6; j++) {
            values[j] = noisy(t, n_elems[i], j);
        }
        cf_reduce(t, key, cf_list(t, 6, values), first);
        for (int run = 0; run < 5; run++) {
            cf_pushpull(t, key, cf_list(t, 6, values), CF_LIST(t, again));
            cf_want_same(t, "the same sum again", again, first);
        }
        if (t->n_workers == 1) {
            want_sum_in_order(t, values, first);
        }
    }
}

static void compact_strides(cf_t *t)
{
    static const int64_t shape[3] = {2, 3, 4}, strides[3] = {12, 4, 1};
    cf_array_t *a = cf_new(t, KVS_DTYPE_float32, 3, shape);
    cf_array_t *out = cf_new(t, KVS_DTYPE_float32, 3, shape);

    cf_fill_ranked(t, a, 0);
    a->tensor.strides = strides;
    out->tensor.strides = strides;
    cf_reduce(t, cf_key(t, 1), CF_LIST(t, a), out);
    cf_want_sum(t, "array with its strides given", out, 1);
}

/* Use `tensor` as value and as out: both are refused, and the memory stays at 9. */
static void want_refused(cf_t *t, kvs_tensor_t tensor, const cf_array_t *memory)
{
    kvs_key_t key = cf_key(t, 1);
    kvs_arrays_t list = kvs_arrays(&tensor, 1);

    CF_FAIL(t, kvs_store_broadcast(t->store, &key, 1, &list, &list, NULL), KVS_ERR_ARGUMENT, "");
    if (cf_keeps_weights(t)) {
        CF_FAIL(t, kvs_store_init(t->store, &key, 1, &list, NULL), KVS_ERR_ARGUMENT, "");
    } else {
        CF_FAIL(t, kvs_store_pushpull(t->store, &key, 1, &list, NULL, NULL), KVS_ERR_ARGUMENT, "");
    }
    cf_want_all(t, "memory of a refused array", memory, 9);
}

static void other_strides(cf_t *t)
{
    static const int64_t shape[2] = {3, 3};
    static const int64_t strides[][2] = {{1, 3}, {6, 2}, {3, 2}, {0, 1}, {3, -1}, {4, 1}};
    cf_array_t *memory = cf_const(t, KVS_DTYPE_float32, 64, 9);

    for (size_t i = 0; i < sizeof(strides) / sizeof(strides[0]); i++) {
        kvs_tensor_t tensor = memory->tensor;

        tensor.ndim = 2;
        tensor.shape = shape;
        tensor.strides = strides[i];
        want_refused(t, tensor, memory);
    }
}

static void byte_offset(cf_t *t)
{
    kvs_key_t key = cf_key(t, 1);
    static const int64_t shape[1] = {4};
    cf_array_t *memory = CF_VALUES(t, KVS_DTYPE_float32, 9, 9, 9, 1, 2, 3, 4, 9, 9);
    cf_array_t *zeros = cf_vector(t, KVS_DTYPE_float32, 4);
    kvs_tensor_t tensor = memory->tensor;
    kvs_arrays_t list = kvs_arrays(&tensor, 1);

    tensor.shape = shape;
    tensor.byte_offset = 3 * sizeof(float);
    if (cf_keeps_weights(t)) {
        cf_init(t, key, zeros);
    }
    cf_pushpull(t, key, &list, NULL);
    for (int i = 0; i < 9; i++) {
        cf_want_at(t, "memory of an array at an offset", memory, i,
                   i < 3 || i > 6 ? 9 : (i - 2) * t->n_workers);
    }
}

static void unaligned(cf_t *t)
{
    static const int64_t shape[1] = {4};
    cf_array_t *memory = cf_const(t, KVS_DTYPE_float32, 64, 9);
    kvs_tensor_t tensor = memory->tensor;

    tensor.shape = shape;
    tensor.byte_offset = 2;
    want_refused(t, tensor, memory);
    tensor.byte_offset = 0;
    tensor.data = (char *)memory->tensor.data + 1;
    want_refused(t, tensor, memory);
}

static void malformed(cf_t *t)
{
    static const int64_t negative[2] = {4, -1}, huge[2] = {(int64_t)1 << 40, (int64_t)1 << 40};
    cf_array_t *memory = cf_const(t, KVS_DTYPE_float32, 64, 9);
    kvs_tensor_t tensor = memory->tensor;

    tensor.shape = negative;
    tensor.ndim = 2;
    want_refused(t, tensor, memory);
    tensor.shape = huge; /* more elements than an int64 counts */
    want_refused(t, tensor, memory);
    tensor.shape = NULL;
    want_refused(t, tensor, memory);
    tensor = memory->tensor;
    tensor.ndim = -1;
    want_refused(t, tensor, memory);
    tensor = memory->tensor;
    tensor.data = NULL;
    want_refused(t, tensor, memory);
}

static const cf_case_t cases[] = {
    {"array.zero_size", "An array may have no elements, and then no data.", CF_REPLACES | CF_LISTS,
     zero_size},
    {"array.zero_size_in_list", "An empty array in a list leaves the other keys alone.",
     CF_REPLACES | CF_LISTS, zero_size_in_list},
    {"array.scalar", "An array of no dimensions is one element, and not a vector of one.",
     CF_REPLACES | CF_LISTS, scalar},
    {"array.high_rank", "Arrays of many dimensions are taken.", CF_REPLACES, high_rank},
    {"array.sizes", "Sums are whole for sizes beside powers of two.", CF_REPLACES | CF_LISTS,
     sizes},
    {"array.large", "Sums of several MiB are the same as small ones, element by element.",
     CF_REPLACES | CF_LISTS, large},
    {"array.same_bits", "A list of values gives the same bits on every run and for every size.",
     CF_REPLACES | CF_LISTS, same_bits},
    {"array.compact_strides", "Strides that are those of a compact array may be given.",
     CF_REPLACES, compact_strides},
    {"array.other_strides", "Other strides are refused, never misread.", 0, other_strides},
    {"array.byte_offset", "The byte offset of an array is heeded.", CF_REPLACES, byte_offset},
    {"array.unaligned", "Data not aligned to its element is refused.", 0, unaligned},
    {"array.malformed", "A negative or overflowing shape, or no data, is refused.", 0, malformed},
};

const cf_theme_t cf_theme_arrays = CF_THEME(cases);
