/* SPDX-License-Identifier: Apache-2.0 */
/* cases_compression.c - gradient compression, against its definition element by element.
 *
 * A store of one process compresses each value before the sum; one of several workers the sum of this
 * worker's values, before it leaves. With one value, equal on all ranks, both come to the same, times
 * the number of workers. */
#include "themes.h"

#include <math.h>

enum { N = 8 };

static kvs_param_t type_of(const char *type)
{
    return (kvs_param_t){.name = "type", .type = KVS_PARAM_TEXT, .value = {.text = type}};
}

static kvs_param_t threshold_of(double threshold)
{
    return (kvs_param_t){
        .name = "threshold", .type = KVS_PARAM_FLOAT, .value = {.real = threshold}};
}

static kvs_status_t set(cf_t *t, kvs_param_t first, kvs_param_t second)
{
    kvs_param_t params[2] = {first, second};

    return kvs_store_set_gradient_compression(t->store, params, 2);
}

static void compress(cf_t *t, const char *type, double threshold)
{
    CF_OK(t, set(t, type_of(type), threshold_of(threshold)));
}

/* ---- The definition ---------------------------------------------------------------------------- */

/* What is sent of a value; `residual` carries over. All of it in float32. */
static float sent_1bit(float *residual, float value, float threshold)
{
    float sum = *residual + value, sent = sum > threshold ? 1.0f : -1.0f;

    *residual = sum - sent;
    return sent;
}

static float sent_2bit(float *residual, float value, float threshold)
{
    float sum = *residual + value;
    float sent = sum >= threshold ? threshold : sum <= -threshold ? -threshold : 0.0f;

    *residual = sum - sent;
    return sent;
}

/* As many times as there are workers. */
static double by_workers(const cf_t *t, float sent)
{
    float sum = sent;

    for (int i = 1; i < t->n_workers; i++) {
        sum += sent;
    }
    return sum;
}

/* A new key with zeros. */
static kvs_key_t new_key(cf_t *t, int number)
{
    kvs_key_t key = cf_key(t, number);

    cf_init(t, key, cf_const(t, KVS_DTYPE_float32, N, 0));
    return key;
}

/* Push arrays that are `value` all over, one for each of `values`, and want `sum` stored. */
static void push_and_want(cf_t *t, const char *what, kvs_key_t key, size_t n, const double *values,
                          double sum)
{
    cf_array_t **arrays = cf_alloc(t, n * sizeof(*arrays));
    cf_array_t *out = cf_vector(t, KVS_DTYPE_float32, N);

    for (size_t i = 0; i < n; i++) {
        arrays[i] = cf_const(t, KVS_DTYPE_float32, N, values[i]);
    }
    cf_push(t, key, cf_list(t, n, arrays));
    cf_pull(t, key, out);
    cf_want_all(t, what, out, sum);
}

#define PUSH_AND_WANT(t, what, key, sum, ...)                                                      \
    push_and_want((t), (what), (key), sizeof((double[]){__VA_ARGS__}) / sizeof(double),            \
                  (const double[]){__VA_ARGS__}, (sum))

/* ---- What is sent ------------------------------------------------------------------------------- */

static const double around[N] = {0.5, -0.5, 0.75, -0.75, 0.25, -0.25, 0, 1.5};

static void two_bit(cf_t *t)
{
    kvs_key_t key = new_key(t, 1);
    cf_array_t *out = cf_vector(t, KVS_DTYPE_float32, N);

    compress(t, "2bit", 0.5);
    cf_push(t, key, CF_LIST(t, cf_values(t, KVS_DTYPE_float32, N, around)));
    cf_pull(t, key, out);
    for (int i = 0; i < N; i++) {
        float residual = 0, sent = sent_2bit(&residual, (float)around[i], 0.5f);

        cf_want_at(t, "0.5 from 0.5 on, -0.5 up to -0.5, else 0", out, i, by_workers(t, sent));
    }
}

static void one_bit(cf_t *t)
{
    kvs_key_t key = new_key(t, 1);
    cf_array_t *out = cf_vector(t, KVS_DTYPE_float32, N);

    compress(t, "1bit", 0.25);
    cf_push(t, key, CF_LIST(t, cf_values(t, KVS_DTYPE_float32, N, around)));
    cf_pull(t, key, out);
    for (int i = 0; i < N; i++) {
        cf_want_at(t, "1 above 0.25, else -1", out, i,
                   by_workers(t, around[i] > 0.25 ? 1.0f : -1.0f));
    }
}

static void residual(cf_t *t)
{
    static const double values[] = {0.75, 0.75, 0.5, -3, 0, 0.25};
    kvs_key_t keys[2] = {new_key(t, 1), new_key(t, 2)};
    float rests[2] = {0, 0};

    compress(t, "2bit", 1);
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        float sent = sent_2bit(&rests[0], (float)values[i], 1);

        PUSH_AND_WANT(t, "2bit of residual and value", keys[0], by_workers(t, sent), values[i]);
    }
    if (t->traits & CF_COMPRESSES_EACH) { /* elsewhere the first push settles the compressor */
        compress(t, "1bit", 0.5);
    }
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        float sent = t->traits & CF_COMPRESSES_EACH ? sent_1bit(&rests[1], (float)values[i], 0.5f)
                                                    : sent_2bit(&rests[1], (float)values[i], 1);

        PUSH_AND_WANT(t, "residual and value of another key", keys[1], by_workers(t, sent),
                      values[i]);
    }
}

static void keys(cf_t *t)
{
    kvs_key_t first = new_key(t, 1), second = new_key(t, 2);

    compress(t, "2bit", 1);
    PUSH_AND_WANT(t, "0.75, below the threshold", first, 0, 0.75);
    PUSH_AND_WANT(t, "0.75 of another key", second, 0, 0.75);
    PUSH_AND_WANT(t, "0.5 and the 0.75 of before", first, t->n_workers, 0.5);
    PUSH_AND_WANT(t, "0.25 and the 0.75 of before", second, t->n_workers, 0.25);
}

static void order(cf_t *t)
{
    enum { LONG = 67 };
    kvs_key_t key = cf_key(t, 1);
    cf_array_t *value = cf_vector(t, KVS_DTYPE_float32, LONG);
    cf_array_t *out = cf_vector(t, KVS_DTYPE_float32, LONG);

    for (int i = 0; i < LONG; i++) {
        cf_set(t, value, i, i % 5 == 0 ? 1 : i % 7 == 0 ? -1 : 0);
    }
    cf_init(t, key, cf_const(t, KVS_DTYPE_float32, LONG, 0));
    compress(t, "2bit", 1);
    cf_push(t, key, CF_LIST(t, value));
    cf_pull(t, key, out);
    for (int i = 0; i < LONG; i++) {
        cf_want_at(t, "each element in its place", out, i, cf_get(t, value, i) * t->n_workers);
    }
}

static void default_threshold(cf_t *t)
{
    kvs_param_t type = type_of("2bit");
    kvs_key_t key = new_key(t, 1);

    CF_OK(t, kvs_store_set_gradient_compression(t->store, &type, 1));
    PUSH_AND_WANT(t, "0.5 with the default threshold", key, 0.5 * t->n_workers, 0.5);
    PUSH_AND_WANT(t, "0.25 with the default threshold", key, 0, 0.25);
}

static void small_threshold(cf_t *t)
{
    float small = (float)1e-7;
    kvs_key_t key = new_key(t, 1);

    compress(t, "2bit", 1e-7);
    PUSH_AND_WANT(t, "the float32 next to 1e-7, and that threshold", key, by_workers(t, small),
                  small);
    PUSH_AND_WANT(t, "a little less", key, 0, nextafterf(small, 0));
}

/* 0.7 is above the float32 that it is rounded to. */
static void float_threshold(cf_t *t)
{
    kvs_key_t key = new_key(t, 1);

    compress(t, "2bit", 0.7);
    PUSH_AND_WANT(t, "0.7 as a float32, with threshold 0.7", key, by_workers(t, 0.7f), 0.7f);
    PUSH_AND_WANT(t, "0 after it: nothing is left", key, 0, 0);
}

static void exact(cf_t *t)
{
    kvs_key_t key = cf_key(t, 1);
    cf_array_t *out = cf_vector(t, KVS_DTYPE_float32, N);

    compress(t, "2bit", 0.5);
    cf_init(t, key, cf_const(t, KVS_DTYPE_float32, N, 0.3125));
    cf_pull(t, key, out);
    cf_want_all(t, "what init gave, pulled", out, 0.3125);
    PUSH_AND_WANT(t, "0.25, below the threshold", key, 0, 0.25);
}

static void pushpull(cf_t *t)
{
    kvs_key_t key = new_key(t, 1);
    cf_array_t *value = cf_const(t, KVS_DTYPE_float32, N, 0.75);
    cf_array_t *out = cf_vector(t, KVS_DTYPE_float32, N);

    compress(t, "2bit", 0.5);
    cf_pushpull(t, key, CF_LIST(t, value), CF_LIST(t, out));
    cf_want_all(t, "0.75, in the out of a pushpull", out, 0.5 * t->n_workers);
    cf_set_all(t, value, 0.25);
    cf_pushpull(t, key, CF_LIST(t, value), NULL);
    cf_want_all(t, "0.25 and the 0.25 of before, in place", value, 0.5 * t->n_workers);
}

static void values_unchanged(cf_t *t)
{
    kvs_key_t key = new_key(t, 1);
    cf_array_t *value = cf_const(t, KVS_DTYPE_float32, N, 0.75);

    compress(t, "2bit", 0.5);
    cf_push(t, key, CF_LIST(t, value));
    cf_want_all(t, "the pushed array after the push", value, 0.75);
}

static double saw(void *arg, int64_t i)
{
    return (double)((i * 7 + *(int *)arg) % 17) / 8.0 - 1;
}

static void large(cf_t *t)
{
    enum { LARGE = 150001 };
    kvs_key_t key = cf_key(t, 1);
    cf_array_t *value = cf_vector(t, KVS_DTYPE_float32, LARGE);
    cf_array_t *out = cf_vector(t, KVS_DTYPE_float32, LARGE);
    float *rests = cf_alloc(t, LARGE * sizeof(*rests));

    cf_init(t, key, out);
    compress(t, "2bit", 0.5);
    for (int round = 0; round < 2; round++) {
        cf_window_t sent = {.array = value}, got = {.array = out};

        cf_set_each(t, value, saw, &round);
        cf_push(t, key, CF_LIST(t, value));
        cf_pull(t, key, out);
        for (int i = 0; i < LARGE; i++) {
            double want = by_workers(t, sent_2bit(&rests[i], (float)cf_peek(t, &sent, i), 0.5f));

            if (cf_peek(t, &got, i) != want) {
                cf_want_at(t, "an element of a large array", out, i, want);
            }
        }
    }
}

static void list(cf_t *t)
{
    enum { KEYS = 5 };
    kvs_key_t names[KEYS];
    cf_array_t *values[KEYS], *outs[KEYS];

    for (int i = 0; i < KEYS; i++) {
        names[i] = cf_name(t, i);
        outs[i] = cf_vector(t, KVS_DTYPE_float32, 1 + i * 9);
        values[i] = cf_const(t, KVS_DTYPE_float32, 1 + i * 9, 0.25 * (i + 1));
    }
    CF_OK(t, kvs_store_init(t->store, names, KEYS, cf_list(t, KEYS, outs), NULL));
    compress(t, "2bit", 1);
    CF_OK(t, kvs_store_push(t->store, names, KEYS, cf_list(t, KEYS, values), NULL));
    CF_OK(t, kvs_store_pull(t->store, names, KEYS, cf_list(t, KEYS, outs), NULL));
    for (int i = 0; i < KEYS; i++) {
        cf_want_all(t, "keys of one call", outs[i], i < 3 ? 0 : t->n_workers);
    }
}

/* ---- Each value --------------------------------------------------------------------------------- */

static void each_value(cf_t *t)
{
    kvs_key_t key = new_key(t, 1);

    compress(t, "2bit", 1);
    PUSH_AND_WANT(t, "0.75 and 0.75, each below the threshold", key, 0, 0.75, 0.75);
    PUSH_AND_WANT(t, "2, -2, 2", new_key(t, 2), 1, 2, -2, 2);
}

static void places(cf_t *t)
{
    kvs_key_t key = new_key(t, 1);

    compress(t, "2bit", 1);
    PUSH_AND_WANT(t, "0.75, then 0.25 in the list", key, 0, 0.75, 0.25);
    PUSH_AND_WANT(t, "0.25 with 0.75 before, 0.5 with 0.25", key, 1, 0.25, 0.5);
    PUSH_AND_WANT(t, "0.75 with nothing before, 0.25 with 0.75", key, 1, 0.75, 0.25);
}

static void number_of_values(cf_t *t)
{
    kvs_key_t key = new_key(t, 1);

    compress(t, "2bit", 1);
    PUSH_AND_WANT(t, "0.75 and 0.75", key, 0, 0.75, 0.75);
    PUSH_AND_WANT(t, "one value, 0.25", key, 1, 0.25);
    PUSH_AND_WANT(t, "three values, of which the last has no residual", key, 1, 0, 0.25, 0.75);
    PUSH_AND_WANT(t, "0.25 in the third place", key, 1, 0, 0, 0.25);
}

static void later(cf_t *t)
{
    kvs_key_t key = new_key(t, 1);

    PUSH_AND_WANT(t, "0.25 before compression is set", key, 0.25, 0.25);
    compress(t, "2bit", 0.5);
    PUSH_AND_WANT(t, "0.25 after it was set", key, 0, 0.25);
    compress(t, "2bit", 0.125);
    PUSH_AND_WANT(t, "0, with a lower threshold", key, 0.125, 0);
}

/* ---- Updaters and optimizers ---------------------------------------------------------------------- */

static kvs_status_t add(const kvs_key_t *key, const kvs_tensor_t *value, const kvs_tensor_t *stored,
                        void *arg)
{
    const float *from = value->data;
    float *to = stored->data;

    (void)key;
    (void)arg;
    for (int64_t i = 0; i < value->shape[0]; i++) {
        to[i] += from[i];
    }
    return KVS_OK;
}

static void updater(cf_t *t)
{
    kvs_key_t key = cf_key(t, 1);

    cf_init(t, key, cf_const(t, KVS_DTYPE_float32, N, 8));
    CF_OK(t, kvs_store_set_updater(t->store, add, NULL));
    compress(t, "2bit", 0.5);
    PUSH_AND_WANT(t, "8 and what was sent of 0.75", key, 8 + 0.5 * t->n_workers, 0.75);
    PUSH_AND_WANT(t, "nothing more of 0", key, 8 + 0.5 * t->n_workers, 0);
}

static void optimizer(cf_t *t)
{
    kvs_param_t rate = {.name = "learning_rate", .type = KVS_PARAM_FLOAT, .value = {.real = 0.5}};
    kvs_optimizer_spec_t sgd = KVS_OPTIMIZER_INIT;
    kvs_key_t key = cf_key(t, 1);

    sgd.name = "sgd";
    sgd.params = &rate;
    sgd.n_params = 1;
    cf_init(t, key, cf_const(t, KVS_DTYPE_float32, N, 8));
    CF_OK(t, kvs_store_set_optimizer(t->store, &sgd));
    compress(t, "2bit", 0.5);
    PUSH_AND_WANT(t, "a step by what was sent of 0.75", key, 8 - 0.25 * t->n_workers, 0.75);
    PUSH_AND_WANT(t, "a step by 0", key, 8 - 0.25 * t->n_workers, 0.125);
}

/* ---- What is refused ------------------------------------------------------------------------------ */

static void parameters(cf_t *t)
{
    kvs_param_t type = type_of("2bit"), half = threshold_of(0.5);
    kvs_param_t misspelt = half, words = type_of("0.5");
    kvs_key_t key = new_key(t, 1);

    misspelt.name = "treshold";
    words.name = "threshold";
    CF_REFUSED(t, kvs_store_set_gradient_compression(t->store, &half, 1), "type");
    CF_REFUSED(t, set(t, type_of("3bit"), half), "3bit");
    CF_REFUSED(t, set(t, type_of("none"), half), "none");
    CF_REFUSED(t, set(t, type, threshold_of(0)), "threshold");
    CF_REFUSED(t, set(t, type, threshold_of(-1)), "threshold");
    CF_REFUSED(t, set(t, type, threshold_of(NAN)), "threshold");
    CF_REFUSED(t, set(t, type, threshold_of(1e300)), "threshold");
    CF_REFUSED(t, set(t, type, words), "threshold");
    CF_REFUSED(t, set(t, type, misspelt), "treshold");
    PUSH_AND_WANT(t, "0.25 after calls that were refused", key, 0.25 * t->n_workers, 0.25);
}

static void other_dtypes(cf_t *t)
{
    static const int others[] = {KVS_DTYPE_float64, KVS_DTYPE_float16, KVS_DTYPE_bfloat16,
                                 KVS_DTYPE_int32, KVS_DTYPE_int8};

    for (int i = 0; i < 5; i++) {
        if (cf_has_dtype(t, others[i])) {
            cf_init(t, cf_key(t, i), cf_const(t, others[i], N, 3));
        }
    }
    compress(t, "2bit", 0.5);
    for (int i = 0; i < 5; i++) {
        kvs_key_t key = cf_key(t, i), fresh = cf_key(t, 10 + i);
        cf_array_t *value = cf_vector(t, others[i], N), *out = cf_vector(t, others[i], N);
        const char *name = kvs_dtype_name(kvs_dtype(others[i]));

        if (cf_has_dtype(t, others[i])) {
            CF_REFUSED(t, kvs_store_push(t->store, &key, 1, CF_LIST(t, value), NULL), name);
            CF_REFUSED(t, kvs_store_init(t->store, &fresh, 1, CF_LIST(t, value), NULL), name);
            cf_pull(t, key, out);
            cf_want_all(t, "the stored value after a push that was refused", out, 3);
        }
    }
    PUSH_AND_WANT(t, "float32 beside them", new_key(t, 20), 0.5 * t->n_workers, 0.5);
}

static void row_sparse(cf_t *t)
{
    static const int64_t shape[2] = {5, N};
    kvs_key_t key = cf_key(t, 1), fresh = cf_key(t, 2);
    cf_array_t *memory = cf_new(t, KVS_DTYPE_float32, 2, shape);
    int64_t ids[2] = {1, 3};
    kvs_rows_t rows = {ids, 2, 2};
    kvs_tensor_t tensor = memory->tensor;
    kvs_arrays_t sparse = kvs_arrays(&tensor, 1);

    tensor.rows = &rows;
    cf_init(t, key, memory);
    compress(t, "2bit", 0.5);
    CF_REFUSED(t, kvs_store_push(t->store, &key, 1, &sparse, NULL), "row-sparse");
    CF_REFUSED(t, kvs_store_init(t->store, &fresh, 1, &sparse, NULL), "row-sparse");
}

static void non_finite(cf_t *t)
{
    static const double odd[] = {NAN, INFINITY, -INFINITY};
    kvs_key_t key = new_key(t, 1);
    const char *name = cf_key_text(t, key);
    cf_array_t *value = cf_const(t, KVS_DTYPE_float32, N, 1);

    compress(t, "2bit", 1);
    PUSH_AND_WANT(t, "0.75, below the threshold", key, 0, 0.75);
    for (int i = 0; i < 3; i++) {
        cf_set(t, value, N - 1, odd[i]);
        CF_FAIL(t, kvs_store_push(t->store, &key, 1, CF_LIST(t, value), NULL), KVS_ERR_NON_FINITE,
                name);
        CF_FAIL(t, kvs_store_pushpull(t->store, &key, 1, CF_LIST(t, value), NULL, NULL),
                KVS_ERR_NON_FINITE, name);
    }
    cf_want_at(t, "the array of the pushpull that failed", value, 0, 1);
    PUSH_AND_WANT(t, "0.25 and the 0.75 of before", key, t->n_workers, 0.25);
    PUSH_AND_WANT(t, "0", key, 0, 0);
}

static void non_finite_value(cf_t *t)
{
    kvs_key_t key = new_key(t, 1);
    cf_array_t *good = cf_const(t, KVS_DTYPE_float32, N, 0.75);
    cf_array_t *bad = cf_const(t, KVS_DTYPE_float32, N, NAN);

    compress(t, "2bit", 1);
    PUSH_AND_WANT(t, "2 and 2", key, 2, 2, 2);
    CF_FAIL(t, kvs_store_push(t->store, &key, 1, CF_LIST(t, good, bad), NULL), KVS_ERR_NON_FINITE,
            cf_key_text(t, key));
    PUSH_AND_WANT(t, "0 and 0, with a residual of 1 each", key, 2, 0, 0);
    PUSH_AND_WANT(t, "0.5: nothing of the push that failed is left", key, 0, 0.5, 0);
}

#define NEEDS (CF_WEIGHTS | CF_COMPRESSION)
#define EACH  (NEEDS | CF_REPLACES | CF_COMPRESSES_EACH)

static const cf_case_t cases[] = {
    {"compression.two_bit",
     "2bit sends the threshold of what reaches it, minus it of what reaches minus it, else 0.",
     NEEDS | CF_REPLACES, two_bit},
    {"compression.one_bit", "1bit sends 1 of what is above the threshold, else -1.",
     NEEDS | CF_REPLACES, one_bit},
    {"compression.residual", "What was not sent is added to the next push.", NEEDS | CF_REPLACES,
     residual},
    {"compression.keys", "Each key has its own residual.", NEEDS | CF_REPLACES, keys},
    {"compression.order", "Every element comes out where it went in.", NEEDS | CF_REPLACES, order},
    {"compression.default_threshold", "The threshold is 0.5 unless given.", NEEDS | CF_REPLACES,
     default_threshold},
    {"compression.small_threshold", "A threshold of 1e-7 arrives as it was given.",
     NEEDS | CF_REPLACES, small_threshold},
    {"compression.float_threshold", "The threshold is a float32 in every comparison.",
     NEEDS | CF_REPLACES, float_threshold},
    {"compression.exact", "Init and pulls are exact.", NEEDS | CF_REPLACES, exact},
    {"compression.pushpull", "A pushpull compresses as a push does.", NEEDS | CF_REPLACES,
     pushpull},
    {"compression.values_unchanged", "Pushed arrays stay as they are.", NEEDS | CF_REPLACES,
     values_unchanged},
    {"compression.large", "Large arrays are compressed element by element like small ones.",
     NEEDS | CF_REPLACES, large},
    {"compression.list", "All keys of a list are compressed.", NEEDS | CF_REPLACES, list},
    {"compression.each_value", "Each value of a push is compressed before the sum.", EACH,
     each_value},
    {"compression.places", "Each place in the list of values has its own residual.", EACH, places},
    {"compression.number_of_values",
     "A push may bring more or fewer values: new places begin without residual, others keep "
     "theirs.",
     EACH, number_of_values},
    {"compression.later", "Compression takes effect for pushes issued after it was set.", EACH,
     later},
    {"compression.updater", "An updater is given the sum of what was sent.", NEEDS | CF_UPDATER,
     updater},
    {"compression.optimizer", "An optimizer is given the sum of what was sent.",
     NEEDS | CF_OPTIMIZER | CF_IN_STEP, optimizer},
    {"compression.parameters",
     "Wrong, missing and misspelt parameters are errors that name them, and change nothing.",
     NEEDS | CF_REPLACES, parameters},
    {"compression.dtypes", "With compression other dtypes than float32 are errors naming them.",
     NEEDS | CF_REPLACES, other_dtypes},
    {"compression.row_sparse", "With compression row-sparse values are an error.",
     NEEDS | CF_SPARSE, row_sparse},
    {"compression.non_finite",
     "NaN and infinity are an error of their push, which names the key and changes nothing.",
     NEEDS | CF_REPLACES, non_finite},
    {"compression.non_finite_value",
     "A push in which one value is not finite changes no residual of the others.", EACH,
     non_finite_value},
};

const cf_theme_t cf_theme_compression = CF_THEME(cases);
