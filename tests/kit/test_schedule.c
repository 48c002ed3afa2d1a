/* SPDX-License-Identifier: Apache-2.0 */
/* test_schedule.c - rates worked by hand, and parameters that no schedule accepts. */
#include "schedule.h"

#include "kt.h"
#include "status.h"

#include <math.h>

static const kvs_host_t host = {
    .size = sizeof(host), .fail = kvs_fail, .fail_context = kvsi_fail_context};

const kvs_host_t *kvs_plugin_host = &host;

#define REAL(param, number)                                                                        \
    {                                                                                              \
        .name = (param), .type = KVS_PARAM_FLOAT, .value = {.real = (number) }                     \
    }
#define WHOLE(param, number)                                                                       \
    {                                                                                              \
        .name = (param), .type = KVS_PARAM_INT, .value = {.integer = (number) }                    \
    }
#define TEXT(param, words)                                                                         \
    {                                                                                              \
        .name = (param), .type = KVS_PARAM_TEXT, .value = {.text = (words) }                       \
    }
#define LIST(param, ...)                                                                           \
    {                                                                                              \
        .name = (param), .type = KVS_PARAM_INTS,                                                   \
        .value = {.integers = (const int64_t[]){__VA_ARGS__}},                                     \
        .n_integers = sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t)                     \
    }
#define PARAMS(...)                                                                                \
    (const kvs_param_t[]){__VA_ARGS__},                                                            \
        sizeof((const kvs_param_t[]){__VA_ARGS__}) / sizeof(kvs_param_t)

static kvs_schedule_t *schedule_of(const char *name, const kvs_param_t *params, size_t n)
{
    kvs_schedule_t *schedule = NULL;

    KT_OK(kvs_schedule_new(name, params, n, &schedule));
    return schedule;
}

static kvs_status_t try_schedule(const char *name, const kvs_param_t *params, size_t n)
{
    kvs_schedule_t *schedule = NULL;
    kvs_status_t status = kvs_schedule_new(name, params, n, &schedule);

    KT_TRUE(status == KVS_OK || schedule == NULL);
    kvs_schedule_free(schedule);
    return status;
}

static void factor_falls_after_each_step_and_stops_at_its_floor(void)
{
    kvs_schedule_t *s =
        schedule_of("factor", PARAMS(REAL("base_lr", 1), WHOLE("step", 2), REAL("factor", 0.5),
                                     REAL("stop_factor_lr", 0.2)));

    KT_REAL(kvs_schedule_rate(s, 0), 1);
    KT_REAL(kvs_schedule_rate(s, 2), 1);
    KT_REAL(kvs_schedule_rate(s, 3), 0.5);
    KT_REAL(kvs_schedule_rate(s, 3), 0.5);
    KT_REAL(kvs_schedule_rate(s, 5), 0.25);
    KT_REAL(kvs_schedule_rate(s, 1), 0.25); /* it never goes back */
    KT_REAL(kvs_schedule_rate(s, 7), 0.2);
    KT_STR(kvs_schedule_name(s), "factor");
    kvs_schedule_free(s);
}

static void jumps_over_many_steps_take_no_time(void)
{
    const int64_t far = INT64_C(1) << 53;
    kvs_schedule_t *halving = schedule_of("factor", PARAMS(WHOLE("step", 1), REAL("factor", 0.5)));
    kvs_schedule_t *constant = schedule_of("factor", PARAMS(WHOLE("step", 1)));
    kvs_schedule_t *slow = schedule_of(
        "factor", PARAMS(WHOLE("step", 1), REAL("factor", 0.999999), REAL("base_lr", 1)));

    KT_REAL(kvs_schedule_rate(halving, far), 1e-8);
    KT_REAL(kvs_schedule_rate(constant, far), 0.01);
    KT_TRUE(fabs(kvs_schedule_rate(slow, 1000001) - exp(-1)) < 1e-6);
    KT_TRUE(fabs(kvs_schedule_rate(slow, 1000002) / kvs_schedule_rate(slow, 1000001) - 1) < 1e-5);
    kvs_schedule_free(halving);
    kvs_schedule_free(constant);
    kvs_schedule_free(slow);
}

static void multifactor_falls_once_for_every_step_passed(void)
{
    kvs_schedule_t *s = schedule_of(
        "multifactor", PARAMS(REAL("base_lr", 8), LIST("step", 2, 3, 10), REAL("factor", 0.5)));

    KT_REAL(kvs_schedule_rate(s, 2), 8);
    KT_REAL(kvs_schedule_rate(s, 4), 2); /* two at once */
    KT_REAL(kvs_schedule_rate(s, 10), 2);
    KT_REAL(kvs_schedule_rate(s, 1), 2);
    KT_REAL(kvs_schedule_rate(s, 100), 1);
    kvs_schedule_free(s);
}

static void poly_goes_from_base_to_final_and_keeps_its_last_value(void)
{
    kvs_schedule_t *s = schedule_of(
        "poly", PARAMS(REAL("base_lr", 1), REAL("final_lr", 0.2), WHOLE("max_update", 4)));

    KT_REAL(kvs_schedule_rate(s, 9), 1); /* nothing computed yet */
    KT_REAL(kvs_schedule_rate(s, 2), 0.2 + 0.8 * 0.25);
    KT_REAL(kvs_schedule_rate(s, 9), 0.2 + 0.8 * 0.25);
    KT_REAL(kvs_schedule_rate(s, 4), 0.2);
    KT_REAL(kvs_schedule_rate(s, 0), 1);
    kvs_schedule_free(s);
}

static void the_power_of_poly_may_be_an_integer(void)
{
    kvs_schedule_t *s =
        schedule_of("poly", PARAMS(REAL("base_lr", 1), WHOLE("max_update", 4), WHOLE("pwr", 1)));

    KT_REAL(kvs_schedule_rate(s, 1), 0.75);
    kvs_schedule_free(s);
}

static void cosine_is_half_way_at_half_time(void)
{
    kvs_schedule_t *s = schedule_of(
        "cosine", PARAMS(REAL("base_lr", 1), REAL("final_lr", 0.5), WHOLE("max_update", 8)));

    KT_REAL(kvs_schedule_rate(s, 0), 1);
    KT_TRUE(fabs(kvs_schedule_rate(s, 4) - 0.75) < 1e-15);
    KT_REAL(kvs_schedule_rate(s, 8), 0.5);
    kvs_schedule_free(s);
}

static void warm_up_is_linear_or_constant(void)
{
    kvs_schedule_t *linear =
        schedule_of("poly", PARAMS(REAL("base_lr", 1), WHOLE("warmup_steps", 4),
                                   REAL("warmup_begin_lr", 0.2), WHOLE("max_update", 8)));
    kvs_schedule_t *constant = schedule_of(
        "factor", PARAMS(REAL("base_lr", 1), WHOLE("warmup_steps", 4), REAL("warmup_begin_lr", 0.2),
                         TEXT("warmup_mode", "constant"), WHOLE("step", 2), REAL("factor", 0.5)));

    KT_REAL(kvs_schedule_rate(linear, 0), 0.2);
    KT_REAL(kvs_schedule_rate(linear, 1), 0.4);
    KT_REAL(kvs_schedule_rate(linear, 4), 1);
    KT_REAL(kvs_schedule_rate(linear, 6), 0.25);
    KT_REAL(kvs_schedule_rate(constant, 3), 0.2);
    KT_REAL(kvs_schedule_rate(constant, 4), 0.5); /* steps are counted from 0 */
    kvs_schedule_free(linear);
    kvs_schedule_free(constant);
}

static void a_rate_given_later_replaces_what_falls_but_not_what_is_computed(void)
{
    kvs_schedule_t *factor =
        schedule_of("factor", PARAMS(REAL("base_lr", 1), WHOLE("step", 5), REAL("factor", 0.5)));
    kvs_schedule_t *poly =
        schedule_of("poly", PARAMS(REAL("base_lr", 1), WHOLE("max_update", 2), WHOLE("pwr", 1)));

    kvs_schedule_set_rate(factor, 0.6);
    kvs_schedule_set_rate(poly, 0.6);
    KT_REAL(kvs_schedule_rate(factor, 1), 0.6);
    KT_REAL(kvs_schedule_rate(factor, 6), 0.3);
    KT_REAL(kvs_schedule_rate(poly, 3), 0.6);
    KT_REAL(kvs_schedule_rate(poly, 1), 0.5);
    KT_REAL(kvs_schedule_rate(poly, 3), 0.5);
    kvs_schedule_free(factor);
    kvs_schedule_free(poly);
}

static void unknown_schedules_are_named_with_a_near_one(void)
{
    KT_FAIL(try_schedule("cosin", NULL, 0), KVS_ERR_ARGUMENT,
            "unknown schedule 'cosin'; did you mean 'cosine'? Known: factor, multifactor, poly, "
            "cosine");
    KT_FAIL(try_schedule("exponential", NULL, 0), KVS_ERR_ARGUMENT,
            "unknown schedule 'exponential'; known: factor, multifactor, poly, cosine");
}

static void wrong_parameters_are_named(void)
{
    KT_FAIL(
        try_schedule("poly", PARAMS(WHOLE("max_updates", 3))), KVS_ERR_ARGUMENT,
        "schedule 'poly': unknown parameter 'max_updates'; did you mean 'max_update'? Accepted: "
        "base_lr, warmup_steps, warmup_begin_lr, warmup_mode, max_update, final_lr, pwr");
    KT_FAIL(try_schedule("cosine", PARAMS(WHOLE("max_update", 3), WHOLE("pwr", 2))),
            KVS_ERR_ARGUMENT, "unknown parameter 'pwr'");
    KT_FAIL(try_schedule("factor", NULL, 0), KVS_ERR_ARGUMENT,
            "schedule 'factor': parameter 'step' is needed");
    KT_FAIL(try_schedule("multifactor", NULL, 0), KVS_ERR_ARGUMENT, "'step' is needed");
    KT_FAIL(try_schedule("cosine", NULL, 0), KVS_ERR_ARGUMENT, "'max_update' is needed");
    KT_FAIL(try_schedule("factor", PARAMS(REAL("step", 2))), KVS_ERR_ARGUMENT,
            "parameter 'step' must be an integer, got a number");
    KT_FAIL(try_schedule("multifactor", PARAMS(WHOLE("step", 2))), KVS_ERR_ARGUMENT,
            "must be a list of integers, got an integer");
    KT_FAIL(try_schedule("factor", PARAMS(WHOLE("step", 2), WHOLE("step", 2))), KVS_ERR_ARGUMENT,
            "parameter 'step' is given twice");
    KT_FAIL(try_schedule("factor", PARAMS(WHOLE("step", 2), REAL("base_lr", -1))), KVS_ERR_ARGUMENT,
            "parameter 'base_lr' is -1, must be 0 or more");
    KT_FAIL(try_schedule("factor", PARAMS(WHOLE("step", 2), REAL("base_lr", NAN))),
            KVS_ERR_ARGUMENT, "must be a finite number");
    KT_FAIL(try_schedule("factor", PARAMS(WHOLE("step", 2), TEXT("warmup_mode", "cubic"))),
            KVS_ERR_ARGUMENT, "parameter 'warmup_mode' is 'cubic', must be 'linear' or 'constant'");
    KT_FAIL(try_schedule("factor", PARAMS(WHOLE("step", INT64_MAX))), KVS_ERR_ARGUMENT, "2^53");
}

/* The rows "scheduler: …" of what was tried on MXNet. */
static void schedules_that_make_no_sense_are_errors(void)
{
    KT_FAIL(try_schedule("factor", PARAMS(WHOLE("step", 2), REAL("base_lr", 0.1),
                                          REAL("warmup_begin_lr", 0.2), WHOLE("warmup_steps", 3))),
            KVS_ERR_ARGUMENT, "parameter 'warmup_begin_lr' is 0.2, above base_lr, 0.1");
    KT_FAIL(try_schedule("factor", PARAMS(WHOLE("step", 2), REAL("factor", 1.5))), KVS_ERR_ARGUMENT,
            "parameter 'factor' is 1.5, must be at most 1");
    KT_FAIL(try_schedule("multifactor", PARAMS(LIST("step", 2), REAL("factor", 1.5))),
            KVS_ERR_ARGUMENT, "parameter 'factor' is 1.5");
    KT_FAIL(try_schedule("factor", PARAMS(WHOLE("step", 0))), KVS_ERR_ARGUMENT,
            "parameter 'step' is 0, must be at least 1");
    KT_FAIL(try_schedule("multifactor", PARAMS(LIST("step", 0, 1))), KVS_ERR_ARGUMENT,
            "parameter 'step' holds 0, must be at least 1");
    KT_FAIL(try_schedule("multifactor", PARAMS(LIST("step", 4, 4))), KVS_ERR_ARGUMENT,
            "parameter 'step' must increase, but 4 comes after 4");
    KT_FAIL(try_schedule("multifactor", PARAMS({.name = "step", .type = KVS_PARAM_INTS})),
            KVS_ERR_ARGUMENT, "parameter 'step' is an empty list");
    KT_FAIL(try_schedule("poly", PARAMS(WHOLE("max_update", 3), WHOLE("warmup_steps", 3))),
            KVS_ERR_ARGUMENT, "parameter 'max_update' is 3, must be above warmup_steps, 3");
    KT_FAIL(try_schedule("cosine", PARAMS(WHOLE("max_update", 0))), KVS_ERR_ARGUMENT,
            "parameter 'max_update' is 0");
}

static const kt_test_t tests[] = {
    KT_TEST(factor_falls_after_each_step_and_stops_at_its_floor),
    KT_TEST(jumps_over_many_steps_take_no_time),
    KT_TEST(multifactor_falls_once_for_every_step_passed),
    KT_TEST(poly_goes_from_base_to_final_and_keeps_its_last_value),
    KT_TEST(the_power_of_poly_may_be_an_integer),
    KT_TEST(cosine_is_half_way_at_half_time),
    KT_TEST(warm_up_is_linear_or_constant),
    KT_TEST(a_rate_given_later_replaces_what_falls_but_not_what_is_computed),
    KT_TEST(unknown_schedules_are_named_with_a_near_one),
    KT_TEST(wrong_parameters_are_named),
    KT_TEST(schedules_that_make_no_sense_are_errors),
};
KT_MAIN("schedule", tests)
