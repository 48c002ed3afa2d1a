/* SPDX-License-Identifier: Apache-2.0 */
/* Gradient compression of `device`, with everything a push can be followed by, against the definition
 * element by element. */
#include "kt.h"
#include "plain.h"

#include <math.h>
#include <stdlib.h>

#define MAX_VALUES 8

static kvs_param_t text(const char *name, const char *value)
{
    return (kvs_param_t){.name = name, .type = KVS_PARAM_TEXT, .value = {.text = value}};
}

static kvs_param_t real(const char *name, double value)
{
    return (kvs_param_t){.name = name, .type = KVS_PARAM_FLOAT, .value = {.real = value}};
}

static kvs_status_t compress(kvs_store_t *store, const char *type, double threshold)
{
    kvs_param_t params[2] = {text("type", type), real("threshold", threshold)};

    return kvs_store_set_gradient_compression(store, params, 2);
}

static kvs_store_t *open_plain(void)
{
    kvs_store_t *store = NULL;

    if (!KT_OK(kvs_store_create("device", NULL, 0, &store))) {
        abort();
    }
    return store;
}

static kvs_store_t *open_compressing(const char *type, double threshold)
{
    kvs_store_t *store = open_plain();

    KT_OK(compress(store, type, threshold));
    return store;
}

static void init(kvs_store_t *store, int64_t number, float value, int64_t n)
{
    kvs_key_t key = kvs_key_int(number);
    float *data = malloc((size_t)n * sizeof(*data) + 1);
    kvs_tensor_t tensor = KT_F32(data, n);
    kvs_arrays_t arrays = kvs_arrays(&tensor, 1);

    for (int64_t i = 0; i < n; i++) {
        data[i] = value;
    }
    KT_OK(kvs_store_init(store, &key, 1, &arrays, NULL));
    free(data);
}

/* Arrays of n elements one after the other in `data`, on cpu(0), cpu(1), … */
static kvs_status_t push(kvs_store_t *store, int64_t number, const float *data, int64_t n,
                         size_t n_values)
{
    kvs_key_t key = kvs_key_int(number);
    kvs_tensor_t values[MAX_VALUES];
    kvs_arrays_t arrays = kvs_arrays(values, n_values);

    for (size_t i = 0; i < n_values; i++) {
        values[i] = kt_tensor((void *)(data + (int64_t)i * n), KVS_DTYPE_float32, &n, 1);
        values[i].device.id = (int32_t)i;
    }
    return kvs_store_push(store, &key, 1, &arrays, NULL);
}

static void pull(kvs_store_t *store, int64_t number, float *out, int64_t n)
{
    kvs_key_t key = kvs_key_int(number);
    kvs_tensor_t tensor = KT_F32(out, n);
    kvs_arrays_t arrays = kvs_arrays(&tensor, 1);

    KT_OK(kvs_store_pull(store, &key, 1, &arrays, NULL));
}

/* The one element of a key. */
static float pulled(kvs_store_t *store, int64_t number)
{
    float out = NAN;

    pull(store, number, &out, 1);
    return out;
}

#define PUSH(store, number, ...)                                                                   \
    push((store), (number), (float[]){__VA_ARGS__}, 1, sizeof((float[]){__VA_ARGS__}) / 4)

/* ---- What is stored --------------------------------------------------------------------------------- */

static void the_sum_of_what_was_sent_replaces_the_stored_value(void)
{
    kvs_store_t *store = open_compressing("2bit", 0.5);

    init(store, 1, 7.25f, 1);
    KT_REAL(pulled(store, 1), 7.25); /* init is exact */
    KT_OK(PUSH(store, 1, 0.3f, 0.6f, -0.5f));
    KT_REAL(pulled(store, 1), 0); /* 0, 0.5, -0.5 */
    KT_OK(PUSH(store, 1, 0.3f, 0.3f, -0.5f));
    KT_REAL(pulled(store, 1), 0); /* 0.5 of 0.6, 0 of 0.4, -0.5 */
    KT_OK(PUSH(store, 1, 0, 0.2f, 0));
    KT_REAL(pulled(store, 1), 0.5); /* 0, 0.5 of 0.6, 0 */
    KT_OK(kvs_store_close(store));
}

static void one_bit_sends_a_sign_of_size_1(void)
{
    kvs_store_t *store = open_compressing("1bit", 0);

    init(store, 1, 0, 1);
    KT_OK(PUSH(store, 1, 0.25f));
    KT_REAL(pulled(store, 1), 1); /* the residual is -0.75 */
    KT_OK(PUSH(store, 1, 0.25f));
    KT_REAL(pulled(store, 1), -1); /* of -0.5 */
    KT_OK(PUSH(store, 1, -0.5f));
    KT_REAL(pulled(store, 1), -1); /* of 0, which is not above the threshold */
    KT_OK(kvs_store_close(store));
}

static void the_default_threshold_is_one_half(void)
{
    kvs_param_t type = text("type", "2bit");
    kvs_store_t *store = open_plain();

    KT_OK(kvs_store_set_gradient_compression(store, &type, 1));
    init(store, 1, 0, 1);
    KT_OK(PUSH(store, 1, 0.5f));
    KT_REAL(pulled(store, 1), 0.5);
    KT_OK(kvs_store_close(store));
}

static void a_tiny_threshold_arrives_exactly(void)
{
    kvs_store_t *store = open_compressing("2bit", 1e-7);

    init(store, 1, 0, 1);
    KT_OK(PUSH(store, 1, 1e-7f));
    KT_REAL(pulled(store, 1), 1e-7f);
    KT_OK(PUSH(store, 1, nextafterf(1e-7f, 0)));
    KT_REAL(pulled(store, 1), 0);
    KT_OK(kvs_store_close(store));
}

static void a_whole_number_is_a_threshold(void)
{
    kvs_param_t params[2] = {text("type", "2bit"),
                             {.name = "threshold", .type = KVS_PARAM_INT, .value = {.integer = 2}}};
    kvs_store_t *store = open_plain();

    KT_OK(kvs_store_set_gradient_compression(store, params, 2));
    init(store, 1, 0, 1);
    KT_OK(PUSH(store, 1, 3));
    KT_REAL(pulled(store, 1), 2);
    KT_OK(kvs_store_close(store));
}

static void keys_do_not_share_residuals(void)
{
    kvs_store_t *store = open_compressing("2bit", 1);

    init(store, 1, 0, 1);
    init(store, 2, 0, 1);
    KT_OK(PUSH(store, 1, 0.75f));
    KT_OK(PUSH(store, 2, 0.75f));
    KT_REAL(pulled(store, 2), 0);
    KT_OK(PUSH(store, 1, 0.75f));
    KT_REAL(pulled(store, 1), 1);
    KT_OK(kvs_store_close(store));
}

static void a_push_may_bring_more_or_fewer_values(void)
{
    kvs_store_t *store = open_compressing("2bit", 1);

    init(store, 1, 0, 1);
    KT_OK(PUSH(store, 1, 0.75f, 0.75f));
    KT_OK(PUSH(store, 1, 0.75f));
    KT_REAL(pulled(store, 1), 1);
    KT_OK(PUSH(store, 1, 0, 0.75f, 0.75f, 0.75f));
    KT_REAL(pulled(store, 1), 1); /* of the second place alone; two are new */
    KT_OK(PUSH(store, 1, 0, 0, 0.25f, 0.25f));
    KT_REAL(pulled(store, 1), 2);
    KT_OK(kvs_store_close(store));
}

static void it_takes_effect_for_pushes_issued_after_it(void)
{
    kvs_store_t *store = open_plain();

    init(store, 1, 0, 1);
    KT_OK(PUSH(store, 1, 0.3f, 0.25f));
    KT_REAL(pulled(store, 1), 0.3f + 0.25f);
    KT_OK(compress(store, "2bit", 0.5)); /* also for keys that exist */
    KT_REAL(pulled(store, 1), 0.3f + 0.25f);
    KT_OK(PUSH(store, 1, 0.3f));
    KT_REAL(pulled(store, 1), 0);
    KT_OK(compress(store, "2bit", 0.25)); /* what is owed stays owed */
    KT_OK(PUSH(store, 1, 0));
    KT_REAL(pulled(store, 1), 0.25);
    KT_OK(kvs_store_close(store));
}

/* With events: pushes are on their way when compression is set. */
static void pushes_issued_before_it_are_exact(void)
{
    enum { N = 300000 };
    kvs_store_t *store = open_plain();
    float *values = malloc(N * sizeof(*values)), *out = malloc(N * sizeof(*out));
    kvs_key_t key = kvs_key_int(1);
    kvs_tensor_t tensor = KT_F32(values, N), result = KT_F32(out, N);
    kvs_arrays_t arrays = kvs_arrays(&tensor, 1), outs = kvs_arrays(&result, 1);
    kvs_event_t *events[2];
    kvs_call_t call = KVS_CALL_INIT;

    for (int i = 0; i < N; i++) {
        values[i] = 0.125f;
    }
    init(store, 1, 0, N);
    call.ret_event = &events[0];
    KT_OK(kvs_store_push(store, &key, 1, &arrays, &call));
    call.ret_event = &events[1];
    KT_OK(kvs_store_pull(store, &key, 1, &outs, &call));
    KT_OK(compress(store, "2bit", 0.5));
    KT_OK(kvs_event_wait(events[0], 20000));
    KT_OK(kvs_event_wait(events[1], 20000));
    KT_REAL(out[0], 0.125);
    KT_REAL(out[N - 1], 0.125);
    kvs_event_free(events[0]);
    kvs_event_free(events[1]);
    KT_OK(kvs_store_close(store));
    free(values);
    free(out);
}

static void pushpull_compresses_and_leaves_the_values(void)
{
    kvs_store_t *store = open_compressing("2bit", 0.5);
    float values[2] = {0.75f, 0.25f}, out = 0;
    kvs_tensor_t list[2] = {KT_F32(&values[0], 1), KT_F32(&values[1], 1)}, result = KT_F32(&out, 1);
    kvs_arrays_t arrays = kvs_arrays(list, 2), outs = kvs_arrays(&result, 1);
    kvs_key_t key = kvs_key_int(1);

    init(store, 1, 0, 1);
    KT_OK(kvs_store_pushpull(store, &key, 1, &arrays, &outs, NULL));
    KT_REAL(out, 0.5);
    KT_REAL(values[0], 0.75);
    KT_REAL(values[1], 0.25);
    KT_OK(kvs_store_pushpull(store, &key, 1, &arrays, NULL, NULL)); /* in place */
    KT_REAL(values[0], 1);                                          /* of 1 and of 0.5 */
    KT_REAL(values[1], 1);
    KT_OK(kvs_store_close(store));
}

static void outs_of_another_dtype_are_converted_to(void)
{
    kvs_store_t *store = open_compressing("2bit", 0.5);
    float value = 3;
    double out = 0;
    kvs_tensor_t tensor = KT_F32(&value, 1);
    kvs_tensor_t result = kt_tensor(&out, KVS_DTYPE_float64, (const int64_t[]){1}, 1);
    kvs_arrays_t arrays = kvs_arrays(&tensor, 1), outs = kvs_arrays(&result, 1);
    kvs_key_t key = kvs_key_int(1);

    init(store, 1, 0, 1);
    KT_OK(kvs_store_pushpull(store, &key, 1, &arrays, &outs, NULL));
    KT_REAL(out, 0.5);
    KT_OK(kvs_store_close(store));
}

/* The second key's value is the first key's out. */
static void arrays_that_keys_share_are_read_before_they_are_written(void)
{
    kvs_store_t *store = open_compressing("2bit", 0.5);
    float a = 0.75f, b = -0.75f;
    kvs_tensor_t values[2] = {KT_F32(&a, 1), KT_F32(&b, 1)};
    kvs_tensor_t results[2] = {KT_F32(&b, 1), KT_F32(&a, 1)};
    kvs_arrays_t arrays = kvs_arrays(values, 2), outs = kvs_arrays(results, 2);
    kvs_key_t keys[2] = {kvs_key_int(1), kvs_key_int(2)};

    init(store, 1, 0, 1);
    init(store, 2, 0, 1);
    KT_OK(kvs_store_pushpull(store, keys, 2, &arrays, &outs, NULL));
    KT_REAL(b, 0.5);
    KT_REAL(a, -0.5);
    KT_OK(kvs_store_close(store));
}

static void empty_and_scalar_arrays_are_compressed(void)
{
    kvs_store_t *store = open_compressing("2bit", 0.5);
    kvs_key_t key = kvs_key_int(2);
    float value = 0.75f, out = 0;
    kvs_tensor_t scalar = kt_tensor(&value, KVS_DTYPE_float32, NULL, 0);
    kvs_tensor_t result = kt_tensor(&out, KVS_DTYPE_float32, NULL, 0);
    kvs_arrays_t arrays = kvs_arrays(&scalar, 1), outs = kvs_arrays(&result, 1);

    init(store, 1, 0, 0);
    KT_OK(push(store, 1, &value, 0, 2));
    KT_OK(kvs_store_init(store, &key, 1, &arrays, NULL));
    KT_OK(kvs_store_pushpull(store, &key, 1, &arrays, &outs, NULL));
    KT_REAL(out, 0.5);
    KT_OK(kvs_store_close(store));
}

/* ---- Updaters and optimizers ------------------------------------------------------------------------- */

static kvs_status_t add(const kvs_key_t *key, const kvs_tensor_t *value, const kvs_tensor_t *stored,
                        void *arg)
{
    const float *from = value->data;
    float *to = stored->data;

    (void)key;
    for (int64_t i = 0; i < value->shape[0]; i++) {
        to[i] += from[i];
    }
    ++*(int *)arg;
    return KVS_OK;
}

static void an_updater_gets_the_sum_of_what_was_sent(void)
{
    kvs_store_t *store = open_compressing("2bit", 0.5);
    int n_calls = 0;

    init(store, 1, 10, 1);
    KT_OK(kvs_store_set_updater(store, add, &n_calls));
    KT_OK(PUSH(store, 1, 0.75f)); /* one value is compressed as well */
    KT_REAL(pulled(store, 1), 10.5);
    KT_OK(PUSH(store, 1, 0.25f, 9, 9));
    KT_REAL(pulled(store, 1), 12);
    KT_FAIL(PUSH(store, 1, NAN), KVS_ERR_NON_FINITE, "key 1");
    KT_INT(n_calls, 2);
    KT_REAL(pulled(store, 1), 12);
    KT_OK(kvs_store_close(store));
}

static void set_optimizer(kvs_store_t *store, const char *name, const kvs_param_t *params, size_t n)
{
    kvs_optimizer_spec_t spec = KVS_OPTIMIZER_INIT;

    spec.name = name;
    spec.params = params;
    spec.n_params = n;
    KT_OK(kvs_store_set_optimizer(store, &spec));
}

static void an_optimizer_gets_the_sum_of_what_was_sent(void)
{
    kvs_store_t *store = open_compressing("2bit", 0.5);
    kvs_param_t params[2] = {real("learning_rate", 0.5), real("momentum", 0.5)};

    init(store, 1, 8, 1);
    set_optimizer(store, "sgd", params, 2);
    KT_OK(PUSH(store, 1, 0.75f, 0.25f, 2)); /* sent: 0.5, 0, 0.5; m = -0.5 */
    KT_REAL(pulled(store, 1), 7.5);
    KT_OK(PUSH(store, 1, 0, 0.25f, 0)); /* sent: 0, 0.5, 0.5; m = -0.75 */
    KT_REAL(pulled(store, 1), 6.75);
    KT_OK(kvs_store_close(store));
}

/* lamb looks at norms: it wants the sum as a whole. Against a store that is given what was sent. */
static void an_optimizer_that_wants_the_whole_sum_gets_it(void)
{
    enum { N = 70000 };
    kvs_store_t *store = open_compressing("2bit", 0.5), *exact = open_plain();
    float *values = malloc(2 * N * sizeof(*values)), *sent = calloc(N, sizeof(*sent));
    float *got = malloc(N * sizeof(*got)), *want = malloc(N * sizeof(*want));

    for (int i = 0; i < 2 * N; i++) {
        values[i] = (float)sin(i);
        sent[i % N] =
            i < N ? plain_sent(2, 0.5f, values[i]) : sent[i % N] + plain_sent(2, 0.5f, values[i]);
    }
    init(store, 1, 1, N);
    init(exact, 1, 1, N);
    set_optimizer(store, "lamb", NULL, 0);
    set_optimizer(exact, "lamb", NULL, 0);
    KT_OK(push(store, 1, values, N, 2));
    KT_OK(push(exact, 1, sent, N, 1));
    pull(store, 1, got, N);
    pull(exact, 1, want, N);
    KT_TRUE(memcmp(got, want, N * sizeof(*got)) == 0);
    KT_OK(kvs_store_close(store));
    KT_OK(kvs_store_close(exact));
    free(values);
    free(sent);
    free(got);
    free(want);
}

/* ---- What is not finite ------------------------------------------------------------------------------ */

static void a_value_that_is_not_finite_fails_the_push_and_changes_nothing(void)
{
    kvs_store_t *store = open_compressing("2bit", 0.5);

    init(store, 1, 3, 1);
    KT_OK(PUSH(store, 1, 0.25f, 0.75f));
    KT_FAIL(PUSH(store, 1, 0.25f, INFINITY), KVS_ERR_NON_FINITE,
            "key 1: value 1 of the list: element 0 is infinite");
    KT_FAIL(PUSH(store, 1, -NAN, 1), KVS_ERR_NON_FINITE, "value 0 of the list: element 0 is NaN");
    KT_REAL(pulled(store, 1), 0.5);
    KT_OK(PUSH(store, 1, 0.25f, 0.25f));
    KT_REAL(pulled(store, 1), 1); /* of 0.5 and 0.5: no residual was touched */
    KT_OK(kvs_store_close(store));
}

static void a_key_with_a_name_is_named(void)
{
    kvs_store_t *store = open_compressing("1bit", 0);
    kvs_key_t key = kvs_key_str("fc1_weight");
    float value = 1;
    kvs_tensor_t tensor = KT_F32(&value, 1);
    kvs_arrays_t arrays = kvs_arrays(&tensor, 1);

    KT_OK(kvs_store_init(store, &key, 1, &arrays, NULL));
    value = INFINITY;
    KT_FAIL(kvs_store_push(store, &key, 1, &arrays, NULL), KVS_ERR_NON_FINITE, "key 'fc1_weight'");
    KT_FAIL(kvs_store_pushpull(store, &key, 1, &arrays, NULL, NULL), KVS_ERR_NON_FINITE,
            "key 'fc1_weight'");
    KT_TRUE(isinf(value)); /* no out was written */
    KT_OK(kvs_store_close(store));
}

/* ---- Large arrays and several at once ----------------------------------------------------------------- */

/* Of several blocks, cut over the pool; against the plain loop, with residuals, for three pushes. */
static void large_arrays_agree(const char *type, int bits)
{
    enum { N = 200003, K = 3 };
    kvs_store_t *store = open_compressing(type, 0.5);
    float *values = malloc(K * N * sizeof(*values)), *rest = calloc(K * N, sizeof(*rest));
    float *out = malloc(N * sizeof(*out));
    int same = 1;

    init(store, 1, 0, N);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < K * N; i++) {
            values[i] = (float)sin(i * (round + 1.0));
        }
        KT_OK(push(store, 1, values, N, K));
        pull(store, 1, out, N);
        for (int i = 0; i < N; i++) {
            float want = 0;

            for (int k = 0; k < K; k++) {
                float x = rest[k * N + i] + values[k * N + i], sent = plain_sent(bits, 0.5f, x);

                rest[k * N + i] = x - sent;
                want = k == 0 ? sent : want + sent;
            }
            same &= out[i] == want;
        }
    }
    KT_TRUE(same);
    KT_OK(kvs_store_close(store));
    free(values);
    free(rest);
    free(out);
}

static void large_arrays_are_compressed_as_small_ones(void)
{
    large_arrays_agree("1bit", 1);
    large_arrays_agree("2bit", 2);
}

static void many_keys_in_flight_keep_their_residuals_apart(void)
{
    enum { KEYS = 16, N = 5000, ROUNDS = 4 };
    kvs_store_t *store = open_compressing("2bit", 1);
    float *values = malloc(N * sizeof(*values)), *out = malloc(N * sizeof(*out));
    kvs_tensor_t tensor = KT_F32(values, N);
    kvs_arrays_t arrays = kvs_arrays(&tensor, 1);

    for (int i = 0; i < N; i++) {
        values[i] = 0.25f;
    }
    for (int k = 0; k < KEYS; k++) {
        init(store, k, 0, N);
    }
    for (int i = 0; i < ROUNDS * KEYS; i++) {
        kvs_key_t key = kvs_key_int(i % KEYS);
        kvs_event_t *event;
        kvs_call_t call = KVS_CALL_INIT;

        call.ret_event = &event;
        KT_OK(kvs_store_push(store, &key, 1, &arrays, &call));
        kvs_event_free(event);
    }
    KT_OK(kvs_store_wait_all(store, 20000));
    for (int k = 0; k < KEYS; k++) {
        pull(store, k, out, N);
        KT_REAL(out[0], 1); /* the fourth quarter */
        KT_REAL(out[N - 1], 1);
    }
    KT_OK(kvs_store_close(store));
    free(values);
    free(out);
}

static const kt_test_t tests[] = {
    KT_TEST(the_sum_of_what_was_sent_replaces_the_stored_value),
    KT_TEST(one_bit_sends_a_sign_of_size_1),
    KT_TEST(the_default_threshold_is_one_half),
    KT_TEST(a_tiny_threshold_arrives_exactly),
    KT_TEST(a_whole_number_is_a_threshold),
    KT_TEST(keys_do_not_share_residuals),
    KT_TEST(a_push_may_bring_more_or_fewer_values),
    KT_TEST(it_takes_effect_for_pushes_issued_after_it),
    KT_TEST(pushes_issued_before_it_are_exact),
    KT_TEST(pushpull_compresses_and_leaves_the_values),
    KT_TEST(outs_of_another_dtype_are_converted_to),
    KT_TEST(arrays_that_keys_share_are_read_before_they_are_written),
    KT_TEST(empty_and_scalar_arrays_are_compressed),
    KT_TEST(an_updater_gets_the_sum_of_what_was_sent),
    KT_TEST(an_optimizer_gets_the_sum_of_what_was_sent),
    KT_TEST(an_optimizer_that_wants_the_whole_sum_gets_it),
    KT_TEST(a_value_that_is_not_finite_fails_the_push_and_changes_nothing),
    KT_TEST(a_key_with_a_name_is_named),
    KT_TEST(large_arrays_are_compressed_as_small_ones),
    KT_TEST(many_keys_in_flight_keep_their_residuals_apart),
};
KT_MAIN("device.compression", tests)
