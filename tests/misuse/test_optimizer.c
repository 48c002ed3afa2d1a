/* SPDX-License-Identifier: Apache-2.0 */
/* Wrong specifications of the optimizer; what was in force before stays in force. */
#include "misuse.h"

#include <math.h>
#include <stdlib.h>

static kvs_param_t real(const char *name, double value)
{
    kvs_param_t param = {.name = name, .type = KVS_PARAM_FLOAT};

    param.value.real = value;
    return param;
}

static kvs_param_t integer(const char *name, uint32_t type, int64_t value)
{
    kvs_param_t param = {.name = name, .type = type};

    param.value.integer = value;
    return param;
}

static kvs_param_t text(const char *name, const char *value)
{
    kvs_param_t param = {.name = name, .type = KVS_PARAM_TEXT};

    param.value.text = value;
    return param;
}

static kvs_status_t set(kvs_store_t *store, const char *name, const kvs_param_t *params, size_t n)
{
    kvs_optimizer_spec_t spec = KVS_OPTIMIZER_INIT;

    spec.name = name;
    spec.params = params;
    spec.n_params = n;
    return kvs_store_set_optimizer(store, &spec);
}

/* sgd with this one parameter is an error whose text holds `part` and the parameter's name. */
static void check_refused(kvs_param_t param, const char *part)
{
    kvs_store_t *store = misuse_open();

    KT_FAIL(set(store, "sgd", &param, 1), KVS_ERR_ARGUMENT, part);
    KT_HAS(kvs_last_error(), param.name);
    misuse_close_untouched(store);
}

static void what_is_reserved_may_not_be_used(void)
{
    kvs_param_t param = real("learning_rate", 0.1);
    kvs_optimizer_spec_t spec = KVS_OPTIMIZER_INIT;
    kvs_worker_optimizer_t *optimizer = NULL;
    kvs_store_t *store = misuse_open();

    param.reserved = 9;
    check_refused(param, "its member reserved is 9, must be 0");
    spec.name = "sgd";
    spec.reserved = 8;
    KT_FAIL(kvs_store_set_optimizer(store, &spec), KVS_ERR_ARGUMENT,
            "set_optimizer: the spec's member reserved is 8, must be 0");
    KT_FAIL(kvs_optimizer_create(&spec, &optimizer), KVS_ERR_ARGUMENT,
            "optimizer_create: the spec's member reserved is 8, must be 0");
    misuse_close_untouched(store);
}

static void a_type_that_is_none_is_named(void)
{
    check_refused(integer("learning_rate", 77, 1),
                  "parameter 'learning_rate': its type is 77, none of KVS_PARAM_NULL to "
                  "KVS_PARAM_INTS");
}

static kvs_status_t push_same(kvs_store_t *store, float gradient)
{
    float data[MISUSE_N];

    for (int i = 0; i < MISUSE_N; i++) {
        data[i] = gradient;
    }
    return misuse_push(store, kvs_key_int(MISUSE_KEY),
                       kt_tensor(data, KVS_DTYPE_float32, misuse_shape, 2));
}

static float first_value(kvs_store_t *store)
{
    float out[MISUSE_N] = {-1};

    KT_OK(misuse_pull(store, kvs_key_int(MISUSE_KEY),
                      kt_tensor(out, KVS_DTYPE_float32, misuse_shape, 2)));
    return out[0];
}

static void no_optimizer_is_an_error(void)
{
    kvs_store_t *store = misuse_open();

    KT_FAIL(kvs_store_set_optimizer(store, NULL), KVS_ERR_ARGUMENT, "NULL");
    KT_FAIL(set(store, NULL, NULL, 0), KVS_ERR_ARGUMENT, "name");
    KT_FAIL(set(NULL, "sgd", NULL, 0), KVS_ERR_ARGUMENT, "NULL");
    misuse_close_untouched(store);
}

static void an_unknown_optimizer_is_an_error_naming_it_and_those_there_are(void)
{
    kvs_store_t *store = misuse_open();

    KT_FAIL(set(store, "sgdd", NULL, 0), KVS_ERR_NOT_FOUND, "sgdd");
    KT_HAS(kvs_last_error(), "\"sgd\"");
    KT_FAIL(set(store, "", NULL, 0), KVS_ERR_NOT_FOUND, "optimizer");
    misuse_close_untouched(store);
}

static void the_size_of_the_specification_must_be_set(void)
{
    kvs_store_t *store = misuse_open();
    kvs_optimizer_spec_t spec = KVS_OPTIMIZER_INIT;

    spec.name = "sgd";
    spec.size = 0;
    KT_FAIL(kvs_store_set_optimizer(store, &spec), KVS_ERR_ARGUMENT, "size");
    spec.size = 8;
    KT_FAIL(kvs_store_set_optimizer(store, &spec), KVS_ERR_ARGUMENT, "size");
    misuse_close_untouched(store);
}

static void an_unknown_parameter_is_an_error_naming_the_accepted_ones(void)
{
    check_refused(real("momentun", 0.9), "momentum");
    check_refused(real("Momentum", 0.9), "momentum");
    check_refused(real("", 0.9), "momentum");
}

static void a_negative_learning_rate_is_an_error(void)
{
    check_refused(real("learning_rate", -0.1), "-0.1");
    check_refused(integer("learning_rate", KVS_PARAM_INT, -1), "-1");
}

static void values_that_are_not_finite_are_errors(void)
{
    static const char *const names[] = {"learning_rate", "momentum", "wd", "rescale_grad",
                                        "clip_gradient"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        check_refused(real(names[i], (double)NAN), "nan");
        check_refused(real(names[i], (double)INFINITY), "inf");
    }
}

static void a_negative_clip_is_an_error_and_zero_is_off(void)
{
    kvs_store_t *store = misuse_open();
    kvs_param_t params[2] = {real("clip_gradient", 0), real("learning_rate", 1)};

    check_refused(real("clip_gradient", -1), "-1");
    KT_OK(set(store, "sgd", params, 2));
    KT_OK(push_same(store, 100));
    KT_REAL(first_value(store), 1 - 100); /* w - lr * g, unclipped */
    misuse_close_working(store, kvs_key_int(9));
}

static void a_null_clip_is_off(void)
{
    kvs_store_t *store = misuse_open();
    kvs_param_t params[2] = {{.name = "clip_gradient", .type = KVS_PARAM_NULL},
                             real("learning_rate", 1)};

    KT_OK(set(store, "sgd", params, 2));
    KT_OK(push_same(store, 100));
    KT_REAL(first_value(store), -99);
    misuse_close_working(store, kvs_key_int(9));
}

static void a_wrong_type_is_an_error(void)
{
    check_refused(text("learning_rate", "0.1"), "learning_rate");
    check_refused(integer("momentum", KVS_PARAM_BOOL, 1), "momentum");
    check_refused((kvs_param_t){.name = "wd", .type = KVS_PARAM_NULL}, "wd");
    check_refused((kvs_param_t){.name = "wd", .type = KVS_PARAM_INTS}, "wd");
    check_refused((kvs_param_t){.name = "wd", .type = 4711}, "wd");
    check_refused(real("lazy_update", 0.5), "lazy_update");
    check_refused(real("begin_num_update", 0.5), "begin_num_update");
}

static void an_integer_is_accepted_for_a_float(void)
{
    kvs_store_t *store = misuse_open();
    kvs_param_t rate = integer("learning_rate", KVS_PARAM_INT, 2);

    KT_OK(set(store, "sgd", &rate, 1));
    KT_OK(push_same(store, 1));
    KT_REAL(first_value(store), -1);
    misuse_close_working(store, kvs_key_int(9));
}

static void a_parameter_given_twice_is_an_error(void)
{
    kvs_store_t *store = misuse_open();
    kvs_param_t params[2] = {real("wd", 0.1), real("wd", 0.2)};

    KT_FAIL(set(store, "sgd", params, 2), KVS_ERR_ARGUMENT, "wd");
    misuse_close_untouched(store);
}

static void lists_of_the_specification_must_not_be_null(void)
{
    kvs_store_t *store = misuse_open();
    kvs_param_t nameless = real(NULL, 1);
    kvs_param_name_t no_name = {kvs_key_int(1), NULL};
    kvs_optimizer_spec_t spec = KVS_OPTIMIZER_INIT;
    kvs_optimizer_spec_t broken;

    spec.name = "sgd";
    KT_FAIL(set(store, "sgd", NULL, 1), KVS_ERR_ARGUMENT, "NULL");
    KT_FAIL(set(store, "sgd", &nameless, 1), KVS_ERR_ARGUMENT, "name");
    broken = spec;
    broken.n_lr_mult = 1;
    KT_FAIL(kvs_store_set_optimizer(store, &broken), KVS_ERR_ARGUMENT, "NULL");
    broken = spec;
    broken.n_wd_mult = 1;
    KT_FAIL(kvs_store_set_optimizer(store, &broken), KVS_ERR_ARGUMENT, "NULL");
    broken = spec;
    broken.n_names = 1;
    KT_FAIL(kvs_store_set_optimizer(store, &broken), KVS_ERR_ARGUMENT, "NULL");
    broken.names = &no_name;
    KT_FAIL(kvs_store_set_optimizer(store, &broken), KVS_ERR_ARGUMENT, "name");
    broken = spec;
    broken.n_schedule_params = 1;
    broken.schedule = "factor";
    KT_TRUE(kvs_store_set_optimizer(store, &broken) != KVS_OK);
    misuse_close_untouched(store);
}

static void an_unknown_schedule_is_an_error(void)
{
    kvs_store_t *store = misuse_open();
    kvs_optimizer_spec_t spec = KVS_OPTIMIZER_INIT;

    spec.name = "sgd";
    spec.schedule = "stepwise";
    KT_TRUE(kvs_store_set_optimizer(store, &spec) != KVS_OK);
    KT_HAS(kvs_last_error(), "schedule");
    misuse_close_untouched(store);
}

static void a_refused_optimizer_leaves_the_one_in_force(void)
{
    kvs_store_t *store = misuse_open();
    kvs_param_t rate = real("learning_rate", 0.5);
    kvs_param_t bad = real("momentun", 0.5);

    KT_OK(set(store, "sgd", &rate, 1));
    KT_FAIL(set(store, "sgd", &bad, 1), KVS_ERR_ARGUMENT, "momentun");
    KT_FAIL(set(store, "no_such", NULL, 0), KVS_ERR_NOT_FOUND, "no_such");
    KT_OK(push_same(store, 1));
    KT_REAL(first_value(store), 0.5);
    misuse_close_working(store, kvs_key_int(9));
}

/* lr 1, momentum 0.5, gradient 1: m = -1, w = 0; m = -1.5, w = -1.5; set again, m = -1, w = -2.5. */
static void a_second_set_optimizer_drops_the_states_of_the_first(void)
{
    kvs_store_t *store = misuse_open();
    kvs_param_t params[2] = {real("learning_rate", 1), real("momentum", 0.5)};

    KT_OK(set(store, "sgd", params, 2));
    KT_OK(push_same(store, 1));
    KT_REAL(first_value(store), 0);
    KT_OK(push_same(store, 1));
    KT_REAL(first_value(store), -1.5);
    KT_OK(set(store, "sgd", params, 2));
    KT_OK(push_same(store, 1));
    KT_REAL(first_value(store), -2.5);
    misuse_close_working(store, kvs_key_int(9));
}

static void sgd_on_integer_weights_is_an_error_of_the_push(void)
{
    kvs_store_t *store = misuse_open();
    int32_t value[2] = {1, 2}, out[2] = {0};
    const int64_t shape[1] = {2};
    kvs_tensor_t array = kt_tensor(value, KVS_DTYPE_int32, shape, 1);

    KT_OK(misuse_init(store, kvs_key_int(5), array));
    KT_OK(set(store, "sgd", NULL, 0));
    KT_FAIL(misuse_push(store, kvs_key_int(5), array), KVS_ERR_DTYPE, "int32");
    KT_HAS(kvs_last_error(), "5");
    KT_OK(misuse_pull(store, kvs_key_int(5), kt_tensor(out, KVS_DTYPE_int32, shape, 1)));
    KT_INT(out[0], 1);
    misuse_close_working(store, kvs_key_int(9));
}

static void one_integer_key_in_a_list_leaves_the_others_alone(void)
{
    kvs_store_t *store = misuse_open();
    int32_t value[2] = {1, 2};
    float gradient[MISUSE_N] = {1, 1, 1, 1, 1, 1};
    const int64_t shape[1] = {2};
    kvs_key_t keys[2] = {kvs_key_int(MISUSE_KEY), kvs_key_int(5)};
    kvs_tensor_t list[2] = {kt_tensor(gradient, KVS_DTYPE_float32, misuse_shape, 2),
                            kt_tensor(value, KVS_DTYPE_int32, shape, 1)};
    kvs_arrays_t values = kvs_arrays(list, 2);

    KT_OK(misuse_init(store, keys[1], list[1]));
    KT_OK(set(store, "sgd", NULL, 0));
    KT_FAIL(kvs_store_push(store, keys, 2, &values, NULL), KVS_ERR_DTYPE, "int32");
    KT_REAL(first_value(store), 1);
    misuse_close_working(store, kvs_key_int(9));
}

static void a_gradient_of_nan_passes_through(void)
{
    kvs_store_t *store = misuse_open();
    kvs_param_t clip = real("clip_gradient", 1);

    KT_OK(set(store, "sgd", &clip, 1));
    KT_OK(push_same(store, NAN));
    (void)first_value(store);
    misuse_close_working(store, kvs_key_int(9));
}

static void an_attribute_without_an_optimizer_is_a_state_error(void)
{
    kvs_store_t *store = misuse_open();
    kvs_param_t rate = real("learning_rate", 0.5);

    KT_FAIL(kvs_store_set_optimizer_attr(store, &rate), KVS_ERR_STATE, "set_optimizer");
    misuse_close_untouched(store);
}

static void an_updater_takes_the_place_of_the_optimizer(void)
{
    kvs_store_t *store = misuse_open();
    kvs_param_t rate = real("learning_rate", 0.5);

    KT_OK(set(store, "sgd", &rate, 1));
    KT_OK(kvs_store_set_updater(store, NULL, NULL));
    KT_FAIL(kvs_store_set_optimizer_attr(store, &rate), KVS_ERR_STATE, "set_optimizer");
    KT_OK(push_same(store, 7));
    KT_REAL(first_value(store), 7);
    misuse_close_working(store, kvs_key_int(9));
}

static void wrong_attributes_are_errors_and_change_nothing(void)
{
    kvs_store_t *store = misuse_open();
    kvs_param_t rate = real("learning_rate", 0.5);
    kvs_param_t unknown = real("learning_rat", 0.5);
    kvs_param_t negative = real("learning_rate", -2);
    kvs_param_t nameless = real(NULL, 2);
    kvs_param_t wrong_type = text("learning_rate", "fast");
    kvs_param_t fixed = integer("begin_num_update", KVS_PARAM_INT, 3);

    KT_OK(set(store, "sgd", &rate, 1));
    KT_FAIL(kvs_store_set_optimizer_attr(store, NULL), KVS_ERR_ARGUMENT, "NULL");
    KT_FAIL(kvs_store_set_optimizer_attr(NULL, &rate), KVS_ERR_ARGUMENT, "NULL");
    KT_FAIL(kvs_store_set_optimizer_attr(store, &nameless), KVS_ERR_ARGUMENT, "name");
    KT_FAIL(kvs_store_set_optimizer_attr(store, &unknown), KVS_ERR_ARGUMENT, "learning_rate");
    KT_FAIL(kvs_store_set_optimizer_attr(store, &negative), KVS_ERR_ARGUMENT, "-2");
    KT_FAIL(kvs_store_set_optimizer_attr(store, &wrong_type), KVS_ERR_ARGUMENT, "learning_rate");
    KT_FAIL(kvs_store_set_optimizer_attr(store, &fixed), KVS_ERR_ARGUMENT, "begin_num_update");
    KT_OK(push_same(store, 1));
    KT_REAL(first_value(store), 0.5);
    misuse_close_working(store, kvs_key_int(9));
}

static void an_attribute_holds_for_the_pushes_after_it(void)
{
    kvs_store_t *store = misuse_open();
    kvs_param_t rate = real("learning_rate", 0.5);

    KT_OK(set(store, "sgd", &rate, 1));
    KT_OK(push_same(store, 1));
    rate.value.real = 2;
    KT_OK(kvs_store_set_optimizer_attr(store, &rate));
    KT_OK(push_same(store, 1));
    KT_REAL(first_value(store), -1.5);
    misuse_close_working(store, kvs_key_int(9));
}

/* ---- every built-in optimizer ---- */

static const char *const all_optimizers[] = {
    "sgd",      "nag",     "signum", "signsgd", "adam",   "adamw",   "adabelief",
    "adamax",   "nadam",   "lamb",   "lans",    "lars",   "adagrad", "groupadagrad",
    "adadelta", "rmsprop", "ftrl",   "ftml",    "dcasgd", "test",
};
#define N_OPTIMIZERS (sizeof(all_optimizers) / sizeof(all_optimizers[0]))

/* The weight after three pushes of 1, 2, … 6 with this parameter. */
static void weight_after_pushes(const char *optimizer, const kvs_param_t *param, size_t n_params,
                                float *ret_weight)
{
    kvs_store_t *store = misuse_open();
    float gradient[MISUSE_N] = {1, 2, 3, 4, 5, 6};

    KT_OK(set(store, optimizer, param, n_params));
    for (int i = 0; i < 3; i++) {
        KT_OK(misuse_push(store, kvs_key_int(MISUSE_KEY),
                          kt_tensor(gradient, KVS_DTYPE_float32, misuse_shape, 2)));
    }
    for (int i = 0; i < MISUSE_N; i++) {
        KT_REAL(gradient[i], i + 1);
    }
    KT_OK(misuse_pull(store, kvs_key_int(MISUSE_KEY),
                      kt_tensor(ret_weight, KVS_DTYPE_float32, misuse_shape, 2)));
    misuse_close_working(store, kvs_key_int(9));
}

static void no_optimizer_changes_the_pushed_gradient_and_all_update(void)
{
    for (size_t i = 0; i < N_OPTIMIZERS; i++) {
        float weight[MISUSE_N] = {0};

        weight_after_pushes(all_optimizers[i], NULL, 0, weight);
        if (weight[1] == 2 || isnan(weight[1])) {
            printf("\n  %s: weight %g after three pushes", all_optimizers[i], (double)weight[1]);
            KT_TRUE(0);
        }
    }
}

static void a_clip_of_zero_is_off_in_all(void)
{
    const kvs_param_t zero = real("clip_gradient", 0);

    for (size_t i = 0; i < N_OPTIMIZERS; i++) {
        float clipped[MISUSE_N] = {0}, plain[MISUSE_N] = {1};

        weight_after_pushes(all_optimizers[i], &zero, 1, clipped);
        weight_after_pushes(all_optimizers[i], NULL, 0, plain);
        KT_TRUE(memcmp(clipped, plain, sizeof(plain)) == 0);
    }
}

static void dcasgd_with_momentum_updates(void)
{
    kvs_store_t *store = misuse_open();
    kvs_param_t params[2] = {real("learning_rate", 1), real("momentum", 0.5)};

    KT_OK(set(store, "dcasgd", params, 2));
    KT_OK(push_same(store, 1));
    KT_REAL(first_value(store), 0); /* prev = w: s = g; m = -1; w = 0 */
    misuse_close_working(store, kvs_key_int(9));
}

static void adamax_with_a_first_gradient_of_zero_leaves_the_weight(void)
{
    kvs_store_t *store = misuse_open();

    KT_OK(set(store, "adamax", NULL, 0));
    KT_OK(push_same(store, 0));
    KT_REAL(first_value(store), 1);
    misuse_close_working(store, kvs_key_int(9));
}

static const kt_test_t tests[] = {
    KT_TEST(what_is_reserved_may_not_be_used),
    KT_TEST(a_type_that_is_none_is_named),
    KT_TEST(no_optimizer_is_an_error),
    KT_TEST(an_unknown_optimizer_is_an_error_naming_it_and_those_there_are),
    KT_TEST(the_size_of_the_specification_must_be_set),
    KT_TEST(an_unknown_parameter_is_an_error_naming_the_accepted_ones),
    KT_TEST(a_negative_learning_rate_is_an_error),
    KT_TEST(values_that_are_not_finite_are_errors),
    KT_TEST(a_negative_clip_is_an_error_and_zero_is_off),
    KT_TEST(a_null_clip_is_off),
    KT_TEST(a_wrong_type_is_an_error),
    KT_TEST(an_integer_is_accepted_for_a_float),
    KT_TEST(a_parameter_given_twice_is_an_error),
    KT_TEST(lists_of_the_specification_must_not_be_null),
    KT_TEST(an_unknown_schedule_is_an_error),
    KT_TEST(a_refused_optimizer_leaves_the_one_in_force),
    KT_TEST(a_second_set_optimizer_drops_the_states_of_the_first),
    KT_TEST(sgd_on_integer_weights_is_an_error_of_the_push),
    KT_TEST(one_integer_key_in_a_list_leaves_the_others_alone),
    KT_TEST(a_gradient_of_nan_passes_through),
    KT_TEST(an_attribute_without_an_optimizer_is_a_state_error),
    KT_TEST(an_updater_takes_the_place_of_the_optimizer),
    KT_TEST(wrong_attributes_are_errors_and_change_nothing),
    KT_TEST(an_attribute_holds_for_the_pushes_after_it),
    KT_TEST(no_optimizer_changes_the_pushed_gradient_and_all_update),
    KT_TEST(a_clip_of_zero_is_off_in_all),
    KT_TEST(dcasgd_with_momentum_updates),
    KT_TEST(adamax_with_a_first_gradient_of_zero_leaves_the_weight),
};
KT_MAIN("misuse.optimizer", tests)
