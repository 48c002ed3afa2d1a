/* SPDX-License-Identifier: Apache-2.0 */
/* test_optimizer.c - the driver with optimizers made for this test, which show what they are given.
 * The built-in ones have tests of their own, in tests/optimizers. */
#include <kvstore/optimizer.h>

#include "kt.h"
#include "status.h"

#include <kvstore/kit.h>

#include <math.h>
#include <stdlib.h>
#if defined(__SSE__)
#include <xmmintrin.h>
#endif

/* ---- Optimizers that show what they see -------------------------------------------------------- */

enum { SHOW_T, SHOW_LR, SHOW_WD, SHOW_PRODUCT, SHOW_RESCALE, SHOW_CLIP, SHOW_GAIN, SHOW_SUM };

static char last_name[64];

static void show_scalars(const kvs_hyper_t *hyper, const kvs_update_t *update, double *ret_scalars)
{
    *update->product *= 2;
    snprintf(last_name, sizeof(last_name), "%s", update->name);
    ret_scalars[SHOW_T] = (double)update->t;
    ret_scalars[SHOW_LR] = update->lr;
    ret_scalars[SHOW_WD] = update->wd;
    ret_scalars[SHOW_PRODUCT] = *update->product;
    ret_scalars[SHOW_RESCALE] = hyper->rescale_grad;
    ret_scalars[SHOW_CLIP] = hyper->clip_gradient;
    ret_scalars[SHOW_GAIN] = hyper->own != NULL ? hyper->own[0] : 0;
}

/* weight -= lr * grad; seen += grad */
static void show_step_f32(int64_t n, const float *grad, float *weight, float *const *states,
                          const float *scalars)
{
    for (int64_t i = 0; i < n; i++) {
        weight[i] -= scalars[SHOW_LR] * grad[i];
        if (states[0] != NULL) {
            states[0][i] += grad[i];
        }
    }
}

static void show_step_f64(int64_t n, const double *grad, double *weight, double *const *states,
                          const double *scalars)
{
    for (int64_t i = 0; i < n; i++) {
        weight[i] -= scalars[SHOW_LR] * grad[i];
        if (states[0] != NULL) {
            states[0][i] += grad[i];
        }
    }
}

static const kvs_param_info_t show_params[] = {
    {"gain", KVS_PARAM_FLOAT, 0, 3, "shown"},
    {"deep", KVS_PARAM_BOOL, 0, 1, "keep states"},
    {"depth", KVS_PARAM_INT, KVS_PARAM_NON_NEGATIVE, 0, "an integer"},
};

static const kvs_state_info_t show_states[] = {
    {.name = "seen"},
    {.name = "start", .flags = KVS_STATE_FROM_WEIGHT},
};

static uint32_t show_used(const kvs_hyper_t *hyper)
{
    return hyper->own[1] != 0 ? ~0u : 0; /* more bits than states */
}

static kvs_status_t show_check(const kvs_hyper_t *hyper)
{
    return hyper->own[0] > 10 && hyper->wd > 0
               ? kvs_fail(KVS_ERR_ARGUMENT, "gain %g with wd %g", hyper->own[0], hyper->wd)
               : KVS_OK;
}

static const kvs_optimizer_t show = {
    .size = (uint32_t)sizeof(kvs_optimizer_t),
    .name = "show",
    .learning_rate = 0.5,
    .params = show_params,
    .n_params = 3,
    .states = show_states,
    .n_states = 2,
    .check = show_check,
    .states_used = show_used,
    .scalars = show_scalars,
    .step_f32 = show_step_f32,
    .step_f64 = show_step_f64,
};

/* Two phases: the second adds what the first one's total was to every term. The step writes the total
 * of the second. */
static void sums_f32(uint32_t phase, int64_t n, const float *grad, const float *weight,
                     float *const *states, const float *scalars, double *io_sums)
{
    (void)weight, (void)states;
    for (int64_t i = 0; i < n; i++) {
        io_sums[0] += grad[i] + (phase == 1 ? scalars[SHOW_SUM] : 0);
    }
}

static void sums_f64(uint32_t phase, int64_t n, const double *grad, const double *weight,
                     double *const *states, const double *scalars, double *io_sums)
{
    (void)weight, (void)states;
    for (int64_t i = 0; i < n; i++) {
        io_sums[0] += grad[i] + (phase == 1 ? scalars[SHOW_SUM] : 0);
    }
}

static void combine(uint32_t phase, const double *sums, double *io_scalars)
{
    (void)phase;
    io_scalars[SHOW_SUM] = sums[0];
}

static void total_step_f32(int64_t n, const float *grad, float *weight, float *const *states,
                           const float *scalars)
{
    (void)grad, (void)states;
    for (int64_t i = 0; i < n; i++) {
        weight[i] = scalars[SHOW_SUM];
    }
}

static void total_step_f64(int64_t n, const double *grad, double *weight, double *const *states,
                           const double *scalars)
{
    (void)grad, (void)states;
    for (int64_t i = 0; i < n; i++) {
        weight[i] = scalars[SHOW_SUM];
    }
}

static const kvs_optimizer_t total = {
    .size = (uint32_t)sizeof(kvs_optimizer_t),
    .name = "total",
    .learning_rate = 1,
    .scalars = show_scalars,
    .n_phases = 2,
    .n_sums = 1,
    .sums_f32 = sums_f32,
    .sums_f64 = sums_f64,
    .combine = combine,
    .step_f32 = total_step_f32,
    .step_f64 = total_step_f64,
};

/* The row's state counts the row's gradients; the step writes it to the weights. */
static void row_f32(int64_t n, int64_t row_elems, const float *grad, float *const *states,
                    const float *scalars)
{
    (void)scalars, (void)row_elems;
    for (int64_t i = 0; i < n; i++) {
        states[0][0] += grad[i];
    }
}

static void row_f64(int64_t n, int64_t row_elems, const double *grad, double *const *states,
                    const double *scalars)
{
    (void)scalars, (void)row_elems;
    for (int64_t i = 0; i < n; i++) {
        states[0][0] += grad[i];
    }
}

static void row_step_f32(int64_t n, const float *grad, float *weight, float *const *states,
                         const float *scalars)
{
    (void)grad, (void)scalars;
    for (int64_t i = 0; i < n; i++) {
        weight[i] = states[0][0];
    }
}

static void row_step_f64(int64_t n, const double *grad, double *weight, double *const *states,
                         const double *scalars)
{
    (void)grad, (void)scalars;
    for (int64_t i = 0; i < n; i++) {
        weight[i] = states[0][0];
    }
}

static const kvs_state_info_t row_states[] = {{.name = "row", .flags = KVS_STATE_PER_ROW}};

static const kvs_optimizer_t rows = {
    .size = (uint32_t)sizeof(kvs_optimizer_t),
    .name = "rows",
    .learning_rate = 1,
    .states = row_states,
    .n_states = 1,
    .scalars = show_scalars,
    .row_f32 = row_f32,
    .row_f64 = row_f64,
    .step_f32 = row_step_f32,
    .step_f64 = row_step_f64,
};

/* ---- The host ----------------------------------------------------------------------------------- */

static kvs_optimizer_t broken; /* what "broken" finds */

static kvs_status_t find_optimizer(const char *name, const kvs_optimizer_t **ret_optimizer)
{
    const kvs_optimizer_t *const known[] = {&show, &total, &rows, &broken};

    for (size_t i = 0; i < 4; i++) {
        if (known[i]->name != NULL && strcmp(known[i]->name, name) == 0) {
            *ret_optimizer = known[i];
            return KVS_OK;
        }
    }
    return kvs_fail(KVS_ERR_NOT_FOUND, "no optimizer named '%s' in this test", name);
}

static void parallel_for(int64_t n, int64_t grain,
                         void (*fn)(void *arg, int64_t begin, int64_t end), void *arg)
{
    (void)grain;
    for (int64_t i = n; i > 0; i--) {
        fn(arg, i - 1, i);
    }
}

static const kvs_host_t host = {
    .size = sizeof(host),
    .fail = kvs_fail,
    .fail_context = kvsi_fail_context,
    .parallel_for = parallel_for,
    .find_optimizer = find_optimizer,
};

const kvs_host_t *kvs_plugin_host = &host;

/* ---- Keys and specifications -------------------------------------------------------------------- */

static const int64_t shape_of_four[] = {4};

static kvs_key_entry_t key_of(int64_t number, int dtype)
{
    kvs_key_entry_t key = {.number = number,
                           .dtype = kvs_dtype(dtype),
                           .ndim = 1,
                           .shape = shape_of_four,
                           .n_elems = 4};

    return key;
}

static kvs_param_t real(const char *name, double value)
{
    return (kvs_param_t){.name = name, .type = KVS_PARAM_FLOAT, .value = {.real = value}};
}

static kvs_param_t whole(const char *name, int64_t value)
{
    return (kvs_param_t){.name = name, .type = KVS_PARAM_INT, .value = {.integer = value}};
}

static kvs_param_t flag(const char *name, int value)
{
    return (kvs_param_t){.name = name, .type = KVS_PARAM_BOOL, .value = {.integer = value}};
}

static kvs_optimizer_spec_t spec_of(const char *name, const kvs_param_t *params, size_t n)
{
    kvs_optimizer_spec_t spec = KVS_OPTIMIZER_INIT;

    spec.name = name;
    spec.params = params;
    spec.n_params = n;
    return spec;
}

static kvs_opt_t *opt_of(const kvs_optimizer_spec_t *spec)
{
    kvs_opt_t *opt = NULL;

    KT_OK(kvs_opt_new(spec, &opt));
    return opt;
}

static kvs_opt_t *plain_opt(const char *name)
{
    kvs_optimizer_spec_t spec = spec_of(name, NULL, 0);

    return opt_of(&spec);
}

static kvs_status_t try_spec(const kvs_optimizer_spec_t *spec)
{
    kvs_opt_t *opt = NULL;
    kvs_status_t status = kvs_opt_new(spec, &opt);

    KT_TRUE(status == KVS_OK || opt == NULL);
    kvs_opt_free(opt);
    return status;
}

static kvs_opt_update_t issue(kvs_opt_t *opt, kvs_opt_key_t *state, const kvs_key_entry_t *key)
{
    kvs_opt_update_t update = {0};

    KT_OK(kvs_opt_issue(opt, state, key, &update));
    return update;
}

/* ---- Counting ------------------------------------------------------------------------------------ */

static void each_key_counts_its_own_updates(void)
{
    const kvs_param_t params[] = {whole("begin_num_update", 10)};
    kvs_optimizer_spec_t spec = spec_of("show", params, 1);
    kvs_opt_t *opt = opt_of(&spec);
    kvs_key_entry_t a = key_of(1, KVS_DTYPE_float32);
    kvs_key_entry_t b = key_of(2, KVS_DTYPE_float32);
    kvs_opt_key_t a_state = {0};
    kvs_opt_key_t b_state = {0};

    KT_INT(kvs_opt_num_update(opt), 10);
    KT_INT(issue(opt, &a_state, &a).t, 11);
    KT_INT(issue(opt, &a_state, &a).t, 12);
    KT_INT(issue(opt, &b_state, &b).t, 11);
    KT_INT(kvs_opt_count(opt, &a_state), 12);
    KT_INT(kvs_opt_count(opt, &b_state), 11);
    KT_INT(kvs_opt_num_update(opt), 12);
    kvs_opt_free(opt);
}

static void the_product_is_one_for_all_keys(void)
{
    kvs_opt_t *opt = plain_opt("show");
    kvs_key_entry_t a = key_of(1, KVS_DTYPE_float32);
    kvs_opt_key_t a_state = {0};
    kvs_opt_key_t b_state = {0};

    KT_REAL(issue(opt, &a_state, &a).scalars[SHOW_PRODUCT], 2);
    KT_REAL(issue(opt, &b_state, &a).scalars[SHOW_PRODUCT], 4);
    kvs_opt_free(opt);
}

/* Factor with step 2: key a is pushed three times, then key b sees the rate of num_update 3. */
static void schedules_go_by_the_largest_count(void)
{
    const kvs_param_t steps[] = {whole("step", 2), real("factor", 0.5), real("base_lr", 1)};
    kvs_optimizer_spec_t spec = spec_of("show", NULL, 0);
    kvs_key_entry_t key = key_of(1, KVS_DTYPE_float32);
    kvs_opt_key_t a_state = {0};
    kvs_opt_key_t b_state = {0};
    kvs_opt_t *opt;

    spec.schedule = "factor";
    spec.schedule_params = steps;
    spec.n_schedule_params = 3;
    opt = opt_of(&spec);
    KT_REAL(issue(opt, &a_state, &key).lr, 1);
    KT_REAL(issue(opt, &a_state, &key).lr, 1);
    KT_REAL(issue(opt, &a_state, &key).lr, 0.5);
    KT_REAL(issue(opt, &b_state, &key).lr, 0.5);
    KT_REAL(kvs_opt_rate(opt), 0.5);
    kvs_opt_free(opt);
}

static void a_named_learning_rate_replaces_the_base_of_a_schedule(void)
{
    const kvs_param_t steps[] = {whole("step", 2), real("factor", 0.5), real("base_lr", 1)};
    const kvs_param_t params[] = {real("learning_rate", 0.25)};
    kvs_optimizer_spec_t spec = spec_of("show", params, 1);
    kvs_key_entry_t key = key_of(1, KVS_DTYPE_float32);
    kvs_opt_key_t state = {0};
    kvs_opt_t *opt;

    spec.schedule = "factor";
    spec.schedule_params = steps;
    spec.n_schedule_params = 3;
    opt = opt_of(&spec);
    KT_REAL(issue(opt, &state, &key).lr, 0.25);
    kvs_opt_free(opt);
    spec.n_params = 0;
    opt = opt_of(&spec);
    KT_REAL(issue(opt, &state, &key).lr, 1); /* the default, 0.5, does not count */
    kvs_opt_free(opt);
}

static void integer_weights_are_refused_before_anything_is_counted(void)
{
    kvs_opt_t *opt = plain_opt("show");
    kvs_key_entry_t number = key_of(5, KVS_DTYPE_int32);
    kvs_key_entry_t text = key_of(0, KVS_DTYPE_uint8);
    kvs_opt_key_t state = {0};
    kvs_opt_update_t update;

    text.name = "table";
    KT_FAIL(kvs_opt_issue(opt, &state, &number, &update), KVS_ERR_DTYPE,
            "optimizer 'show': weights of dtype int32, key 5, can't be updated");
    KT_FAIL(kvs_opt_check_key(opt, &text), KVS_ERR_DTYPE,
            "optimizer 'show': weights of dtype uint8, key 'table'");
    KT_INT(state.n_updates, 0);
    KT_INT(kvs_opt_num_update(opt), 0);
    for (int dtype = 0; dtype < KVS_N_DTYPES; dtype++) {
        kvs_key_entry_t key = key_of(1, dtype);

        KT_INT(kvs_opt_check_key(opt, &key) == KVS_OK, kvs_dtype_is_floating(dtype));
    }
    kvs_opt_free(opt);
}

/* ---- Multipliers and names ----------------------------------------------------------------------- */

static void multipliers_go_by_key_else_by_name(void)
{
    const kvs_multiplier_t lr_mult[] = {
        {kvs_key_int(1), 2}, {kvs_key_str("fc_bias"), 3}, {kvs_key_str("9"), 5}};
    const kvs_multiplier_t wd_mult[] = {{kvs_key_str("fc_bias"), 0}};
    const kvs_param_name_t names[] = {{kvs_key_int(2), "fc_bias"}, {kvs_key_int(1), "fc_bias"}};
    const kvs_param_t params[] = {real("wd", 0.5), real("learning_rate", 1)};
    kvs_optimizer_spec_t spec = spec_of("show", params, 2);
    const struct {
        int64_t number;
        const char *name;
        double lr, wd;
        const char *shown;
    } wanted[] = {
        {1, NULL, 2, 0, "fc_bias"}, /* the key itself goes first */
        {2, NULL, 3, 0, "fc_bias"},      {3, NULL, 1, 0.5, "3"}, {9, NULL, 5, 0.5, "9"},
        {0, "fc_bias", 3, 0, "fc_bias"}, /* a string key is its own name */
        {0, "other", 1, 0.5, "other"},
    };
    kvs_opt_t *opt;

    spec.lr_mult = lr_mult;
    spec.n_lr_mult = 3;
    spec.wd_mult = wd_mult;
    spec.n_wd_mult = 1;
    spec.names = names;
    spec.n_names = 2;
    opt = opt_of(&spec);
    for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
        kvs_key_entry_t key = key_of(wanted[i].number, KVS_DTYPE_float32);
        kvs_opt_key_t state = {0};
        kvs_opt_update_t update;

        key.name = wanted[i].name;
        update = issue(opt, &state, &key);
        KT_REAL(update.lr, wanted[i].lr);
        KT_REAL(update.scalars[SHOW_LR], wanted[i].lr);
        KT_REAL(update.wd, wanted[i].wd);
        KT_STR(last_name, wanted[i].shown);
    }
    kvs_opt_free(opt);
}

static void the_specification_is_copied(void)
{
    char text[] = "alpha";
    char name[] = "fc_bias";
    kvs_multiplier_t lr_mult[] = {{kvs_key_str(text), 2}};
    kvs_param_name_t names[] = {{kvs_key_int(2), name}};
    kvs_param_t params[] = {real("gain", 7)};
    kvs_optimizer_spec_t spec = spec_of("show", params, 1);
    kvs_key_entry_t key = key_of(2, KVS_DTYPE_float32);
    kvs_opt_key_t state = {0};
    kvs_opt_t *opt;

    spec.lr_mult = lr_mult;
    spec.n_lr_mult = 1;
    spec.names = names;
    spec.n_names = 1;
    opt = opt_of(&spec);
    memset(text, 'x', 5);
    memset(name, 'x', 7);
    memset(params, 0, sizeof(params));
    memset(lr_mult, 0, sizeof(lr_mult));
    KT_REAL(issue(opt, &state, &key).scalars[SHOW_GAIN], 7);
    KT_STR(last_name, "fc_bias");
    key.name = "alpha";
    KT_REAL(issue(opt, &state, &key).lr, 1);
    KT_STR(kvs_opt_name(opt), "show");
    kvs_opt_free(opt);
}

static void bad_multipliers_and_names_are_errors(void)
{
    const kvs_multiplier_t twice[] = {
        {kvs_key_int(4), 1}, {kvs_key_int(3), 1}, {kvs_key_int(4), 2}};
    const kvs_multiplier_t negative[] = {{kvs_key_str("w"), -1}};
    const kvs_multiplier_t not_finite[] = {{kvs_key_int(1), INFINITY}};
    const kvs_param_name_t unnamed[] = {{kvs_key_int(4), NULL}};
    kvs_optimizer_spec_t spec = spec_of("show", NULL, 0);

    spec.lr_mult = twice;
    spec.n_lr_mult = 3;
    KT_FAIL(try_spec(&spec), KVS_ERR_ARGUMENT, "optimizer 'show': lr_mult: key 4 stands twice");
    spec.lr_mult = negative;
    spec.n_lr_mult = 1;
    KT_FAIL(try_spec(&spec), KVS_ERR_ARGUMENT, "lr_mult: key 'w'");
    spec.n_lr_mult = 0;
    spec.wd_mult = not_finite;
    spec.n_wd_mult = 1;
    KT_FAIL(try_spec(&spec), KVS_ERR_ARGUMENT, "wd_mult: key 1");
    spec.n_wd_mult = 0;
    spec.names = unnamed;
    spec.n_names = 1;
    KT_FAIL(try_spec(&spec), KVS_ERR_ARGUMENT, "names: key 4 has no name");
    spec.names = NULL;
    KT_FAIL(try_spec(&spec), KVS_ERR_ARGUMENT, "names: the list is NULL");
}

/* ---- Parameters ----------------------------------------------------------------------------------- */

static void specifications_that_make_no_sense_are_errors(void)
{
    const kvs_param_t twice[] = {real("wd", 0), real("wd", 0)};
    const kvs_param_t clash[] = {real("gain", 11), real("wd", 1)};
    const kvs_param_t nameless[] = {real(NULL, 0)};
    const kvs_param_t odd_bool[] = {flag("deep", 2)};
    const kvs_param_t fraction[] = {real("depth", 1)};
    const kvs_param_t far[] = {whole("begin_num_update", INT64_MAX)};
    kvs_optimizer_spec_t spec = spec_of(NULL, NULL, 0);

    KT_FAIL(try_spec(&spec), KVS_ERR_ARGUMENT, "the name of the optimizer is NULL");
    spec = spec_of("shown", NULL, 0);
    KT_FAIL(try_spec(&spec), KVS_ERR_NOT_FOUND, "no optimizer named 'shown' in this test");
    spec = spec_of("show", NULL, 1);
    KT_FAIL(try_spec(&spec), KVS_ERR_ARGUMENT, "the list of parameters is NULL");
    spec = spec_of("show", twice, 2);
    KT_FAIL(try_spec(&spec), KVS_ERR_ARGUMENT, "parameter 'wd' is given twice");
    spec = spec_of("show", clash, 2);
    KT_FAIL(try_spec(&spec), KVS_ERR_ARGUMENT, "optimizer 'show': gain 11 with wd 1");
    spec = spec_of("show", nameless, 1);
    KT_FAIL(try_spec(&spec), KVS_ERR_ARGUMENT, "the name of a parameter is NULL");
    spec = spec_of("show", odd_bool, 1);
    KT_FAIL(try_spec(&spec), KVS_ERR_ARGUMENT, "a bool is 0 or 1");
    spec = spec_of("show", fraction, 1);
    KT_FAIL(try_spec(&spec), KVS_ERR_ARGUMENT, "parameter 'depth' must be an integer");
    spec = spec_of("show", far, 1);
    KT_FAIL(try_spec(&spec), KVS_ERR_ARGUMENT, "parameter 'begin_num_update'");
    spec = spec_of("show", NULL, 0);
    spec.n_schedule_params = 1;
    KT_FAIL(try_spec(&spec), KVS_ERR_ARGUMENT,
            "parameters of a schedule are given, but no schedule");
    spec.schedule = "factor";
    spec.schedule_params = nameless;
    KT_FAIL(try_spec(&spec), KVS_ERR_ARGUMENT, "optimizer 'show': schedule 'factor': ");
}

static void attributes_change_later_updates(void)
{
    kvs_opt_t *opt = plain_opt("show");
    kvs_key_entry_t key = key_of(1, KVS_DTYPE_float32);
    kvs_opt_key_t state = {0};
    kvs_opt_update_t before = issue(opt, &state, &key);
    const kvs_param_t attrs[] = {real("learning_rate", 2), real("wd", 3), real("rescale_grad", -4),
                                 real("clip_gradient", 5), whole("gain", 6)};
    const kvs_param_t null = {.name = "clip_gradient", .type = KVS_PARAM_NULL};
    kvs_opt_update_t after;

    KT_REAL(before.lr, 0.5);
    KT_REAL(before.scalars[SHOW_RESCALE], 1);
    KT_REAL(before.scalars[SHOW_CLIP], 0);
    KT_REAL(before.scalars[SHOW_GAIN], 3);
    for (size_t i = 0; i < 5; i++) {
        KT_OK(kvs_opt_set_attr(opt, &attrs[i]));
    }
    after = issue(opt, &state, &key);
    KT_REAL(after.lr, 2);
    KT_REAL(after.wd, 3);
    KT_REAL(after.scalars[SHOW_RESCALE], -4);
    KT_REAL(after.scalars[SHOW_CLIP], 5);
    KT_REAL(after.scalars[SHOW_GAIN], 6);
    KT_OK(kvs_opt_set_attr(opt, &null));
    KT_REAL(issue(opt, &state, &key).scalars[SHOW_CLIP], 0);
    kvs_opt_free(opt);
}

static void bad_attributes_are_errors_and_change_nothing(void)
{
    kvs_opt_t *opt = plain_opt("show");
    kvs_key_entry_t key = key_of(1, KVS_DTYPE_float32);
    kvs_opt_key_t state = {0};
    const kvs_param_t misspelt = real("momentun", 1);
    const kvs_param_t negative = real("learning_rate", -1);
    const kvs_param_t master = flag("multi_precision", 1);
    const kvs_param_t begin = whole("begin_num_update", 1);
    const kvs_param_t wd = real("wd", 1);
    const kvs_param_t clash = real("gain", 11);

    KT_FAIL(kvs_opt_set_attr(opt, &misspelt), KVS_ERR_ARGUMENT, "unknown parameter 'momentun'");
    KT_FAIL(kvs_opt_set_attr(opt, &negative), KVS_ERR_ARGUMENT, "parameter 'learning_rate' is -1");
    KT_FAIL(kvs_opt_set_attr(opt, &master), KVS_ERR_ARGUMENT,
            "parameter 'multi_precision' can't be changed later");
    KT_FAIL(kvs_opt_set_attr(opt, &begin), KVS_ERR_ARGUMENT, "'begin_num_update' can't be changed");
    KT_OK(kvs_opt_set_attr(opt, &wd));
    KT_FAIL(kvs_opt_set_attr(opt, &clash), KVS_ERR_ARGUMENT, "gain 11 with wd 1");
    KT_REAL(issue(opt, &state, &key).scalars[SHOW_GAIN], 3);
    KT_REAL(issue(opt, &state, &key).lr, 0.5);
    kvs_opt_free(opt);
}

static void the_rate_cannot_be_set_while_a_schedule_decides_it(void)
{
    const kvs_param_t steps[] = {whole("max_update", 2)};
    const kvs_param_t rate = real("learning_rate", 1);
    const kvs_param_t wd = real("wd", 1);
    kvs_optimizer_spec_t spec = spec_of("show", NULL, 0);
    kvs_opt_t *opt;

    spec.schedule = "cosine";
    spec.schedule_params = steps;
    spec.n_schedule_params = 1;
    opt = opt_of(&spec);
    KT_FAIL(kvs_opt_set_attr(opt, &rate), KVS_ERR_STATE,
            "optimizer 'show': learning_rate can't be set, schedule 'cosine' decides it");
    KT_OK(kvs_opt_set_attr(opt, &wd));
    kvs_opt_free(opt);
}

static void tables_of_broken_plugins_are_refused(void)
{
    kvs_optimizer_spec_t spec = spec_of("broken", NULL, 0);

    broken = show;
    broken.name = "broken";
    KT_OK(try_spec(&spec));
    broken.step_f64 = NULL;
    KT_FAIL(try_spec(&spec), KVS_ERR_PLUGIN, "optimizer 'broken'");
    broken = total;
    broken.name = "broken";
    broken.combine = NULL;
    KT_FAIL(try_spec(&spec), KVS_ERR_PLUGIN, "optimizer 'broken'");
    broken = rows;
    broken.name = "broken";
    broken.row_f32 = NULL;
    KT_FAIL(try_spec(&spec), KVS_ERR_PLUGIN, "optimizer 'broken'");
    broken = show;
    broken.name = "broken";
    broken.n_params = KVS_OPTIMIZER_MAX_PARAMS + 1;
    KT_FAIL(try_spec(&spec), KVS_ERR_PLUGIN, "optimizer 'broken'");
}

/* ---- States ---------------------------------------------------------------------------------------- */

static void states_begin_as_zeros_or_as_the_weight(void)
{
    kvs_opt_t *opt = plain_opt("show");
    kvs_key_entry_t key = key_of(1, KVS_DTYPE_float64);
    kvs_opt_key_t state = {0};
    const double weight[] = {1, 2, 3, 4};
    const double later[] = {9, 9, 9, 9};
    kvs_opt_state_t seen, start;

    KT_INT(kvs_opt_n_states(&state), 0);
    KT_OK(kvs_opt_begin(opt, &state, &key, weight));
    KT_OK(kvs_opt_begin(opt, &state, &key, later)); /* changes nothing */
    KT_INT(kvs_opt_n_states(&state), 2);
    seen = kvs_opt_state_at(&state, 0);
    start = kvs_opt_state_at(&state, 1);
    KT_STR(seen.name, "seen");
    KT_STR(start.name, "start");
    KT_INT(start.dtype, KVS_DTYPE_float64);
    KT_INT(start.n_elems, 4);
    KT_INT(start.per_row, 0);
    for (int i = 0; i < 4; i++) {
        KT_REAL(((double *)seen.data)[i], 0);
        KT_REAL(((double *)start.data)[i], weight[i]);
    }
    kvs_opt_key_release(&state);
    KT_INT(kvs_opt_n_states(&state), 0);
    KT_INT(state.n_updates, 0);
    KT_OK(kvs_opt_begin(opt, &state, &key, later)); /* usable again */
    KT_REAL(((double *)kvs_opt_state_at(&state, 1).data)[0], 9);
    kvs_opt_key_release(&state);
    kvs_opt_key_release(&state);
    kvs_opt_free(opt);
}

static void half_types_get_a_float32_master_when_asked_for(void)
{
    const kvs_param_t params[] = {flag("multi_precision", 1)};
    kvs_optimizer_spec_t spec = spec_of("show", params, 1);
    kvs_opt_t *opt = opt_of(&spec);
    kvs_key_entry_t half = key_of(1, KVS_DTYPE_bfloat16);
    kvs_key_entry_t full = key_of(2, KVS_DTYPE_float32);
    kvs_opt_key_t half_state = {0};
    kvs_opt_key_t full_state = {0};
    const uint16_t half_weight[] = {0x3F80, 0x4000, 0, 0}; /* 1, 2 */
    const float full_weight[4] = {0};

    KT_OK(kvs_opt_begin(opt, &half_state, &half, half_weight));
    KT_INT(kvs_opt_n_states(&half_state), 3);
    KT_STR(kvs_opt_state_at(&half_state, 0).name, "master_weight");
    KT_STR(kvs_opt_state_at(&half_state, 1).name, "seen");
    KT_STR(kvs_opt_state_at(&half_state, 2).name, "start");
    for (size_t i = 0; i < 3; i++) {
        KT_INT(kvs_opt_state_at(&half_state, i).dtype, KVS_DTYPE_float32);
    }
    KT_REAL(((float *)kvs_opt_state_at(&half_state, 0).data)[1], 2);
    KT_REAL(((float *)kvs_opt_state_at(&half_state, 2).data)[1], 2);
    KT_OK(kvs_opt_begin(opt, &full_state, &full, full_weight));
    KT_INT(kvs_opt_n_states(&full_state), 2);
    kvs_opt_key_release(&half_state);
    kvs_opt_key_release(&full_state);
    kvs_opt_free(opt);
}

static void states_come_and_go_with_the_parameters(void)
{
    kvs_opt_t *opt = plain_opt("show");
    kvs_key_entry_t key = key_of(1, KVS_DTYPE_float32);
    kvs_opt_key_t state = {0};
    const float weight[] = {1, 2, 3, 4};
    const kvs_param_t shallow = flag("deep", 0);
    const kvs_param_t deep = flag("deep", 1);

    KT_OK(kvs_opt_set_attr(opt, &shallow));
    KT_INT(issue(opt, &state, &key).states, 0);
    KT_OK(kvs_opt_begin(opt, &state, &key, weight));
    KT_INT(kvs_opt_n_states(&state), 0);
    KT_OK(kvs_opt_set_attr(opt, &deep));
    KT_INT(issue(opt, &state, &key).states, 3);
    KT_OK(kvs_opt_begin(opt, &state, &key, weight));
    KT_INT(kvs_opt_n_states(&state), 2);
    KT_OK(kvs_opt_set_attr(opt, &shallow));
    KT_OK(kvs_opt_begin(opt, &state, &key, weight));
    KT_INT(kvs_opt_n_states(&state), 0);
    KT_INT(state.n_updates, 2);
    kvs_opt_key_release(&state);
    kvs_opt_free(opt);
}

static void states_that_do_not_fit_leave_the_key_as_it_was(void)
{
    static const int64_t shape[] = {INT64_C(1) << 58};
    kvs_opt_t *opt = plain_opt("show");
    kvs_key_entry_t key = key_of(1, KVS_DTYPE_float32);
    kvs_opt_key_t state = {0};
    const float weight[] = {0};

    key.shape = shape;
    key.n_elems = shape[0];
    KT_FAIL(kvs_opt_begin(opt, &state, &key, weight), KVS_ERR_NO_MEMORY,
            "optimizer 'show': states of 288230376151711744 elements: ");
    KT_TRUE(state.states == NULL);
    kvs_opt_free(opt);
}

/* ---- Steps ----------------------------------------------------------------------------------------- */

static void steps_change_their_block_and_nothing_else(void)
{
    kvs_opt_t *opt = plain_opt("show");
    kvs_key_entry_t key = key_of(1, KVS_DTYPE_float32);
    kvs_opt_key_t state = {0};
    float weight[] = {1, 1, 1, 1};
    const float grad[] = {1, 2, 3, 4};
    kvs_opt_update_t update = issue(opt, &state, &key);
    const float *seen;

    KT_INT(kvs_opt_needs_whole(opt), 0);
    KT_OK(kvs_opt_begin(opt, &state, &key, weight));
    kvs_opt_prepare(opt, &state, KVS_DTYPE_float32, 4, grad, weight, &update); /* does nothing */
    kvs_opt_step(opt, &update, &state, KVS_DTYPE_float32, 1, 2, grad + 1, weight + 1);
    seen = kvs_opt_state_at(&state, 0).data;
    KT_REAL(weight[0], 1);
    KT_REAL(weight[1], 0);
    KT_REAL(weight[2], -0.5);
    KT_REAL(weight[3], 1);
    KT_REAL(seen[0], 0);
    KT_REAL(seen[1], 2);
    KT_REAL(seen[2], 3);
    KT_REAL(seen[3], 0);
    kvs_opt_step(opt, &update, &state, KVS_DTYPE_float32, 4, 0, grad + 4, weight + 4);
    kvs_opt_key_release(&state);
    kvs_opt_free(opt);
}

/* 2 * SUM_BLOCK + 3 ones. The second phase adds n to each of n terms. */
static void phases_sum_whole_arrays_and_see_earlier_totals(void)
{
    const int64_t n = 2 * KVS_OPTIMIZER_SUM_BLOCK + 3;
    kvs_opt_t *opt = plain_opt("total");
    kvs_key_entry_t key = key_of(1, KVS_DTYPE_float64);
    double *grad = malloc((size_t)n * sizeof(*grad));
    double *weight = calloc((size_t)n, sizeof(*weight));
    kvs_opt_key_t state = {0};
    kvs_opt_update_t update = issue(opt, &state, &key);

    key.shape = &n;
    key.n_elems = n;
    for (int64_t i = 0; i < n; i++) {
        grad[i] = 1;
    }
    KT_INT(kvs_opt_needs_whole(opt), 1);
    KT_OK(kvs_opt_begin(opt, &state, &key, weight));
    KT_INT(kvs_opt_n_states(&state), 0);
    kvs_opt_prepare(opt, &state, KVS_DTYPE_float64, n, grad, weight, &update);
    KT_REAL(update.scalars[SHOW_SUM], (double)n + (double)n * (double)n);
    kvs_opt_step(opt, &update, &state, KVS_DTYPE_float64, n - 1, 1, grad + n - 1, weight + n - 1);
    KT_REAL(weight[n - 1], (double)n + (double)n * (double)n);
    KT_REAL(weight[0], 0);
    kvs_opt_key_release(&state);
    kvs_opt_free(opt);
    free(grad);
    free(weight);
}

/* Rows of 3, and steps that begin and end within them. */
static void rows_keep_their_own_state(void)
{
    static const int64_t shape[] = {3, 3};
    const float grad[] = {1, 2, 3, 10, 20, 30, 100, 200, 300};
    float weight[9] = {0};
    kvs_opt_t *opt = plain_opt("rows");
    kvs_key_entry_t key = {
        .dtype = kvs_dtype(KVS_DTYPE_float32), .ndim = 2, .shape = shape, .n_elems = 9};
    kvs_opt_key_t state = {0};
    kvs_opt_update_t update = issue(opt, &state, &key);

    KT_INT(kvs_opt_needs_whole(opt), 1);
    KT_OK(kvs_opt_begin(opt, &state, &key, weight));
    KT_INT(kvs_opt_state_at(&state, 0).n_elems, 3);
    KT_INT(kvs_opt_state_at(&state, 0).per_row, 1);
    kvs_opt_prepare(opt, &state, KVS_DTYPE_float32, 9, grad, weight, &update);
    kvs_opt_step(opt, &update, &state, KVS_DTYPE_float32, 2, 5, grad + 2, weight + 2);
    KT_REAL(weight[1], 0);
    KT_REAL(weight[2], 6);
    KT_REAL(weight[3], 60);
    KT_REAL(weight[5], 60);
    KT_REAL(weight[6], 600);
    KT_REAL(weight[7], 0);
    kvs_opt_key_release(&state);
    kvs_opt_free(opt);
}

/* 3000 ones in a row of float16: more than one piece. In float16 itself, counting ends at 2048. */
static void long_rows_of_half_types_are_summed_in_float32(void)
{
    static const int64_t shape[] = {1, 3000};
    static uint16_t grad[3000], weight[3000];
    kvs_opt_t *opt = plain_opt("rows");
    kvs_key_entry_t key = {
        .dtype = kvs_dtype(KVS_DTYPE_float16), .ndim = 2, .shape = shape, .n_elems = 3000};
    kvs_opt_key_t state = {0};
    kvs_opt_update_t update = issue(opt, &state, &key);

    for (int i = 0; i < 3000; i++) {
        grad[i] = 0x3C00; /* 1 */
    }
    KT_OK(kvs_opt_begin(opt, &state, &key, weight));
    KT_INT(kvs_opt_state_at(&state, 0).dtype, KVS_DTYPE_float16);
    kvs_opt_prepare(opt, &state, KVS_DTYPE_float16, 3000, grad, weight, &update);
    kvs_opt_step(opt, &update, &state, KVS_DTYPE_float16, 0, 3000, grad, weight);
    KT_INT(*(uint16_t *)kvs_opt_state_at(&state, 0).data, 0x69DC); /* 3000 */
    KT_INT(weight[2999], 0x69DC);
    kvs_opt_key_release(&state);
    kvs_opt_free(opt);
}

static void threads_that_flush_denormals_get_the_same_bits(void)
{
#if defined(__SSE__)
    kvs_opt_t *opt = plain_opt("show");
    kvs_key_entry_t key = key_of(1, KVS_DTYPE_float32);
    kvs_opt_key_t state = {0};
    float weight[4] = {0};
    const float grad[] = {1e-40f, 1e-40f, 1e-40f, 1e-40f};
    kvs_opt_update_t update = issue(opt, &state, &key);
    unsigned saved = _mm_getcsr();

    KT_OK(kvs_opt_begin(opt, &state, &key, weight));
    _mm_setcsr(saved | 0x8040u); /* flush to zero, denormals are zero */
    kvs_opt_step(opt, &update, &state, KVS_DTYPE_float32, 0, 4, grad, weight);
    KT_INT(_mm_getcsr() & 0x8040u, 0x8040u);
    _mm_setcsr(saved);
    KT_TRUE(weight[0] == -0.5f * 1e-40f && weight[0] != 0);
    kvs_opt_key_release(&state);
    kvs_opt_free(opt);
#endif
}

static const kt_test_t tests[] = {
    KT_TEST(each_key_counts_its_own_updates),
    KT_TEST(the_product_is_one_for_all_keys),
    KT_TEST(schedules_go_by_the_largest_count),
    KT_TEST(a_named_learning_rate_replaces_the_base_of_a_schedule),
    KT_TEST(integer_weights_are_refused_before_anything_is_counted),
    KT_TEST(multipliers_go_by_key_else_by_name),
    KT_TEST(the_specification_is_copied),
    KT_TEST(bad_multipliers_and_names_are_errors),
    KT_TEST(specifications_that_make_no_sense_are_errors),
    KT_TEST(attributes_change_later_updates),
    KT_TEST(bad_attributes_are_errors_and_change_nothing),
    KT_TEST(the_rate_cannot_be_set_while_a_schedule_decides_it),
    KT_TEST(tables_of_broken_plugins_are_refused),
    KT_TEST(states_begin_as_zeros_or_as_the_weight),
    KT_TEST(half_types_get_a_float32_master_when_asked_for),
    KT_TEST(states_come_and_go_with_the_parameters),
    KT_TEST(states_that_do_not_fit_leave_the_key_as_it_was),
    KT_TEST(steps_change_their_block_and_nothing_else),
    KT_TEST(phases_sum_whole_arrays_and_see_earlier_totals),
    KT_TEST(rows_keep_their_own_state),
    KT_TEST(long_rows_of_half_types_are_summed_in_float32),
    KT_TEST(threads_that_flush_denormals_get_the_same_bits),
};
KT_MAIN("optimizer", tests)
