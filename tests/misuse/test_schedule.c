/* SPDX-License-Identifier: Apache-2.0 */
/* Schedules of the learning rate with impossible numbers, and the learning rate while one is set. */
#include "misuse.h"

#include <stdlib.h>

#define MAX_PARAMS 4

typedef struct schedule {
    const char *name;
    kvs_param_t params[MAX_PARAMS];
    size_t n;
} schedule_t;

static kvs_param_t real(const char *name, double value)
{
    kvs_param_t param = {.name = name, .type = KVS_PARAM_FLOAT};

    param.value.real = value;
    return param;
}

static kvs_param_t integer(const char *name, int64_t value)
{
    kvs_param_t param = {.name = name, .type = KVS_PARAM_INT};

    param.value.integer = value;
    return param;
}

static kvs_param_t integers(const char *name, const int64_t *values, size_t n)
{
    kvs_param_t param = {.name = name, .type = KVS_PARAM_INTS, .n_integers = n};

    param.value.integers = values;
    return param;
}

static kvs_param_t text(const char *name, const char *value)
{
    kvs_param_t param = {.name = name, .type = KVS_PARAM_TEXT};

    param.value.text = value;
    return param;
}

static kvs_status_t set(kvs_store_t *store, const schedule_t *schedule)
{
    kvs_optimizer_spec_t spec = KVS_OPTIMIZER_INIT;

    spec.name = "sgd";
    spec.schedule = schedule->name;
    spec.schedule_params = schedule->params;
    spec.n_schedule_params = schedule->n;
    return kvs_store_set_optimizer(store, &spec);
}

static void check_refused(schedule_t schedule, const char *part)
{
    kvs_store_t *store = misuse_open();

    KT_FAIL(set(store, &schedule), KVS_ERR_ARGUMENT, part);
    misuse_close_untouched(store);
}

static void a_warm_up_that_begins_above_base_lr_is_an_error(void)
{
    check_refused((schedule_t){"factor",
                               {integer("step", 5), real("base_lr", 0.1),
                                real("warmup_begin_lr", 0.2), integer("warmup_steps", 3)},
                               4},
                  "warmup_begin_lr");
}

static void a_factor_above_one_is_an_error(void)
{
    const int64_t steps[2] = {3, 5};

    check_refused((schedule_t){"factor", {integer("step", 5), real("factor", 1.5)}, 2}, "factor");
    check_refused((schedule_t){"multifactor", {integers("step", steps, 2), real("factor", 1.5)}, 2},
                  "factor");
}

static void a_step_below_one_is_an_error(void)
{
    const int64_t zero[2] = {0, 5};

    check_refused((schedule_t){"factor", {integer("step", 0)}, 1}, "step");
    check_refused((schedule_t){"factor", {integer("step", -4)}, 1}, "step");
    check_refused((schedule_t){"multifactor", {integers("step", zero, 2)}, 1}, "step");
}

static void steps_that_do_not_increase_are_an_error(void)
{
    const int64_t equal[2] = {5, 5}, falling[2] = {5, 3};

    check_refused((schedule_t){"multifactor", {integers("step", equal, 2)}, 1}, "step");
    check_refused((schedule_t){"multifactor", {integers("step", falling, 2)}, 1}, "step");
    check_refused((schedule_t){"multifactor", {integers("step", NULL, 2)}, 1}, "step");
    check_refused((schedule_t){"multifactor", {integers("step", equal, 0)}, 1}, "step");
}

static void a_max_update_within_the_warm_up_is_an_error(void)
{
    static const char *const names[] = {"poly", "cosine"};

    for (size_t i = 0; i < 2; i++) {
        check_refused(
            (schedule_t){names[i], {integer("max_update", 10), integer("warmup_steps", 10)}, 2},
            "max_update");
        check_refused((schedule_t){names[i], {integer("max_update", 0)}, 1}, "max_update");
    }
}

static void a_required_number_that_is_missing_is_an_error(void)
{
    check_refused((schedule_t){"factor", {real("factor", 0.5)}, 1}, "step");
    check_refused((schedule_t){"multifactor", {real("factor", 0.5)}, 1}, "step");
    check_refused((schedule_t){"poly", {real("base_lr", 0.5)}, 1}, "max_update");
    check_refused((schedule_t){"cosine", {real("base_lr", 0.5)}, 1}, "max_update");
}

static void unknown_parameters_and_wrong_types_are_errors(void)
{
    const int64_t steps[2] = {3, 5};

    check_refused((schedule_t){"factor", {integer("step", 5), real("facto", 0.5)}, 2}, "facto");
    check_refused((schedule_t){"factor", {integer("step", 5), real(NULL, 0.5)}, 2}, "name");
    check_refused((schedule_t){"factor", {real("step", 2.5)}, 1}, "step");
    check_refused((schedule_t){"factor", {integers("step", steps, 2)}, 1}, "step");
    check_refused((schedule_t){"factor", {integer("step", 5), text("warmup_mode", "cubic")}, 2},
                  "cubic");
    check_refused((schedule_t){"factor", {integer("step", 5), real("base_lr", -0.5)}, 2},
                  "base_lr");
}

static void an_unknown_schedule_is_an_error_naming_those_there_are(void)
{
    kvs_store_t *store = misuse_open();
    schedule_t schedule = {"stepwise", {{0}}, 0};

    KT_TRUE(set(store, &schedule) != KVS_OK);
    KT_HAS(kvs_last_error(), "stepwise");
    KT_HAS(kvs_last_error(), "cosine");
    misuse_close_untouched(store);
}

static void the_learning_rate_cannot_be_set_while_a_schedule_is(void)
{
    kvs_store_t *store = misuse_open();
    schedule_t schedule = {"factor", {integer("step", 5)}, 1};
    kvs_param_t rate = real("learning_rate", 0.5);
    kvs_param_t decay = real("wd", 0.5);

    KT_OK(set(store, &schedule));
    KT_FAIL(kvs_store_set_optimizer_attr(store, &rate), KVS_ERR_STATE, "factor");
    KT_OK(kvs_store_set_optimizer_attr(store, &decay));
    misuse_close_untouched(store);
}

static const kt_test_t tests[] = {
    KT_TEST(a_warm_up_that_begins_above_base_lr_is_an_error),
    KT_TEST(a_factor_above_one_is_an_error),
    KT_TEST(a_step_below_one_is_an_error),
    KT_TEST(steps_that_do_not_increase_are_an_error),
    KT_TEST(a_max_update_within_the_warm_up_is_an_error),
    KT_TEST(a_required_number_that_is_missing_is_an_error),
    KT_TEST(unknown_parameters_and_wrong_types_are_errors),
    KT_TEST(an_unknown_schedule_is_an_error_naming_those_there_are),
    KT_TEST(the_learning_rate_cannot_be_set_while_a_schedule_is),
};
KT_MAIN("misuse.schedule", tests)
