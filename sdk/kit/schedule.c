/* SPDX-License-Identifier: Apache-2.0 */
/* schedule.c - each kind is a table entry: the parameters it takes, a check, and its rate after
 * warm-up. All arithmetic is in double, in the order of operations that the peer uses. */
#include "schedule.h"

#include "opt_params.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Parameters, in the order of the tables below: those of warm-up first, then each kind's own. */
enum { BASE_LR, WARMUP_STEPS, WARMUP_BEGIN_LR, WARMUP_MODE, N_COMMON };
enum { FACTOR_STEP = N_COMMON, FACTOR_FACTOR, FACTOR_STOP };
enum { POLY_MAX_UPDATE = N_COMMON, POLY_FINAL_LR, POLY_PWR };
#define MAX_PARAMS KVS_SCHEDULE_MAX_PARAMS

/* From here on a jump over falls of the rate is computed at once: the difference is rounding. */
#define MAX_SINGLE_FALLS 100000

/* The parameters given to a new schedule. */
typedef struct args {
    char owner[32]; /* "schedule 'poly'" */
    kvs_param_info_t infos[MAX_PARAMS];
    const kvs_param_t *given[MAX_PARAMS];
} args_t;

typedef struct kind {
    const char *name;
    const kvs_param_info_t *infos; /* its own */
    size_t n_infos;
    kvs_status_t (*take)(kvs_schedule_t *schedule, const args_t *args);
    void (*advance)(kvs_schedule_t *schedule, int64_t num_update); /* not during warm-up */
} kind_t;

struct kvs_schedule {
    const kind_t *kind;
    double
        values[MAX_PARAMS]; /* of the parameters that are numbers, as the fields below have them */
    double base_lr;         /* of construction */
    int64_t warmup_steps;
    double warmup_begin_lr;
    int warmup_constant;
    double rate; /* computed last */
    /* factor and multifactor */
    double factor, stop_factor_lr;
    int64_t step;
    int64_t counted; /* the number of updates at the last fall */
    int64_t *steps;
    size_t n_steps, next_step;
    /* poly and cosine */
    int64_t max_update;
    double final_lr, pwr;
};

static double number(const args_t *args, int index)
{
    return kvs_param_number(&args->infos[index], args->given[index]);
}

static kvs_status_t need(const args_t *args, int index)
{
    if (args->given[index] == NULL) {
        return kvs_fail(KVS_ERR_ARGUMENT, "%s: parameter '%s' is needed and has no default",
                        args->owner, args->infos[index].name);
    }
    return KVS_OK;
}

static kvs_status_t take_factor(kvs_schedule_t *schedule, const args_t *args)
{
    schedule->factor = number(args, FACTOR_FACTOR);
    if (schedule->factor > 1) {
        return kvs_fail(KVS_ERR_ARGUMENT,
                        "%s: parameter 'factor' is %g, must be at most 1, or the rate would grow",
                        args->owner, schedule->factor);
    }
    return KVS_OK;
}

static void factor_advance(kvs_schedule_t *schedule, int64_t num_update)
{
    int64_t n_falls = (num_update - 1 - schedule->counted) / schedule->step;

    if (num_update <= schedule->counted || n_falls == 0) {
        return;
    }
    schedule->counted += n_falls * schedule->step;
    if (n_falls > MAX_SINGLE_FALLS) {
        schedule->rate *= pow(schedule->factor, (double)n_falls);
        n_falls = 0;
    }
    for (int64_t i = 0; i < n_falls; i++) {
        schedule->rate = fmax(schedule->rate * schedule->factor, schedule->stop_factor_lr);
    }
    schedule->rate = fmax(schedule->rate, schedule->stop_factor_lr);
}

static kvs_status_t factor_take(kvs_schedule_t *schedule, const args_t *args)
{
    kvs_status_t status = need(args, FACTOR_STEP);

    if (status != KVS_OK) {
        return status;
    }
    schedule->step = args->given[FACTOR_STEP]->value.integer;
    schedule->stop_factor_lr = number(args, FACTOR_STOP);
    if (schedule->step < 1) {
        return kvs_fail(KVS_ERR_ARGUMENT, "%s: parameter 'step' is %lld, must be at least 1",
                        args->owner, (long long)schedule->step);
    }
    return take_factor(schedule, args);
}

static void multifactor_advance(kvs_schedule_t *schedule, int64_t num_update)
{
    while (schedule->next_step < schedule->n_steps &&
           num_update > schedule->steps[schedule->next_step]) {
        schedule->next_step++;
        schedule->rate *= schedule->factor;
    }
}

static kvs_status_t check_steps(const char *owner, const kvs_param_t *steps)
{
    if (steps->n_integers == 0) {
        return kvs_fail(KVS_ERR_ARGUMENT, "%s: parameter 'step' is an empty list", owner);
    }
    for (size_t i = 0; i < steps->n_integers; i++) {
        int64_t step = steps->value.integers[i];

        if (step < 1) {
            return kvs_fail(KVS_ERR_ARGUMENT, "%s: parameter 'step' holds %lld, must be at least 1",
                            owner, (long long)step);
        }
        if (i > 0 && step <= steps->value.integers[i - 1]) {
            return kvs_fail(KVS_ERR_ARGUMENT,
                            "%s: parameter 'step' must increase, but %lld comes after %lld", owner,
                            (long long)step, (long long)steps->value.integers[i - 1]);
        }
    }
    return KVS_OK;
}

static kvs_status_t multifactor_take(kvs_schedule_t *schedule, const args_t *args)
{
    const kvs_param_t *steps = args->given[FACTOR_STEP];
    kvs_status_t status = need(args, FACTOR_STEP);

    if (status == KVS_OK) {
        status = check_steps(args->owner, steps);
    }
    if (status != KVS_OK) {
        return status;
    }
    schedule->steps = malloc(steps->n_integers * sizeof(*schedule->steps));
    if (schedule->steps == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "%s: no memory for %zu steps", args->owner,
                        steps->n_integers);
    }
    schedule->n_steps = steps->n_integers;
    memcpy(schedule->steps, steps->value.integers, schedule->n_steps * sizeof(*schedule->steps));
    return take_factor(schedule, args);
}

/* How far between the end of warm-up and max_update, 0 to 1. */
static double progress(const kvs_schedule_t *schedule, int64_t num_update)
{
    return (double)(num_update - schedule->warmup_steps) /
           (double)(schedule->max_update - schedule->warmup_steps);
}

static void poly_advance(kvs_schedule_t *schedule, int64_t num_update)
{
    if (num_update <= schedule->max_update) {
        schedule->rate =
            schedule->final_lr + (schedule->base_lr - schedule->final_lr) *
                                     pow(1 - progress(schedule, num_update), schedule->pwr);
    }
}

static void cosine_advance(kvs_schedule_t *schedule, int64_t num_update)
{
    if (num_update <= schedule->max_update) {
        schedule->rate = schedule->final_lr + (schedule->base_lr - schedule->final_lr) *
                                                  (1 + cos(M_PI * progress(schedule, num_update))) /
                                                  2;
    }
}

static kvs_status_t cosine_take(kvs_schedule_t *schedule, const args_t *args)
{
    kvs_status_t status = need(args, POLY_MAX_UPDATE);

    if (status != KVS_OK) {
        return status;
    }
    schedule->max_update = args->given[POLY_MAX_UPDATE]->value.integer;
    schedule->final_lr = number(args, POLY_FINAL_LR);
    if (schedule->max_update <= schedule->warmup_steps) {
        return kvs_fail(KVS_ERR_ARGUMENT,
                        "%s: parameter 'max_update' is %lld, must be above warmup_steps, %lld",
                        args->owner, (long long)schedule->max_update,
                        (long long)schedule->warmup_steps);
    }
    return KVS_OK;
}

static kvs_status_t poly_take(kvs_schedule_t *schedule, const args_t *args)
{
    schedule->pwr = number(args, POLY_PWR);
    return cosine_take(schedule, args);
}

static const kvs_param_info_t common_infos[N_COMMON] = {
    {"base_lr", KVS_PARAM_FLOAT, KVS_PARAM_NON_NEGATIVE, 0.01, NULL},
    {"warmup_steps", KVS_PARAM_INT, KVS_PARAM_NON_NEGATIVE, 0, NULL},
    {"warmup_begin_lr", KVS_PARAM_FLOAT, KVS_PARAM_NON_NEGATIVE, 0, NULL},
    {"warmup_mode", KVS_PARAM_TEXT, 0, 0, NULL},
};
static const kvs_param_info_t factor_infos[] = {
    {"step", KVS_PARAM_INT, 0, 0, NULL},
    {"factor", KVS_PARAM_FLOAT, KVS_PARAM_NON_NEGATIVE, 1, NULL},
    {"stop_factor_lr", KVS_PARAM_FLOAT, KVS_PARAM_NON_NEGATIVE, 1e-8, NULL},
};
static const kvs_param_info_t multifactor_infos[] = {
    {"step", KVS_PARAM_INTS, 0, 0, NULL},
    {"factor", KVS_PARAM_FLOAT, KVS_PARAM_NON_NEGATIVE, 1, NULL},
};
static const kvs_param_info_t poly_infos[] = {
    {"max_update", KVS_PARAM_INT, 0, 0, NULL},
    {"final_lr", KVS_PARAM_FLOAT, KVS_PARAM_NON_NEGATIVE, 0, NULL},
    {"pwr", KVS_PARAM_FLOAT, KVS_PARAM_NON_NEGATIVE, 2, NULL},
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const kind_t kinds[] = {
    {"factor", factor_infos, COUNT(factor_infos), factor_take, factor_advance},
    {"multifactor", multifactor_infos, COUNT(multifactor_infos), multifactor_take,
     multifactor_advance},
    {"poly", poly_infos, COUNT(poly_infos), poly_take, poly_advance},
    {"cosine", poly_infos, COUNT(poly_infos) - 1, cosine_take, cosine_advance}, /* no pwr */
};

/* NULL, with a text, if there is none. */
static const kind_t *find_kind(const char *name)
{
    const char *names[COUNT(kinds)];
    const char *near;

    for (size_t i = 0; i < COUNT(kinds); i++) {
        names[i] = kinds[i].name;
        if (strcmp(kinds[i].name, name) == 0) {
            return &kinds[i];
        }
    }
    near = kvs_near_name(name, names, COUNT(names));
    (void)kvs_fail(
        KVS_ERR_ARGUMENT, "unknown schedule '%s'%s%s%s factor, multifactor, poly, cosine", name,
        near ? "; did you mean '" : "; known:", near ? near : "", near ? "'? Known:" : "");
    return NULL;
}

static kvs_status_t take_warmup(kvs_schedule_t *schedule, const args_t *args)
{
    const kvs_param_t *given_mode = args->given[WARMUP_MODE];
    const char *mode = given_mode ? given_mode->value.text : "linear";

    schedule->base_lr = number(args, BASE_LR);
    schedule->rate = schedule->base_lr;
    schedule->warmup_steps = (int64_t)number(args, WARMUP_STEPS);
    schedule->warmup_begin_lr = number(args, WARMUP_BEGIN_LR);
    schedule->warmup_constant = strcmp(mode, "constant") == 0;
    if (!schedule->warmup_constant && strcmp(mode, "linear") != 0) {
        return kvs_fail(KVS_ERR_ARGUMENT,
                        "%s: parameter 'warmup_mode' is '%s', must be 'linear' or 'constant'",
                        args->owner, mode);
    }
    if (schedule->warmup_begin_lr > schedule->base_lr) {
        return kvs_fail(KVS_ERR_ARGUMENT,
                        "%s: parameter 'warmup_begin_lr' is %g, above base_lr, %g", args->owner,
                        schedule->warmup_begin_lr, schedule->base_lr);
    }
    return KVS_OK;
}

static void take_values(kvs_schedule_t *schedule, const args_t *args)
{
    for (size_t i = 0; i < N_COMMON + schedule->kind->n_infos; i++) {
        uint32_t type = args->infos[i].type;

        if (type != KVS_PARAM_TEXT && type != KVS_PARAM_INTS) {
            schedule->values[i] = number(args, (int)i);
        }
    }
}

static kvs_status_t read_args(const kind_t *kind, const kvs_param_t *params, size_t n_params,
                              args_t *ret_args)
{
    kvs_param_table_t table = {ret_args->owner, ret_args->infos, N_COMMON + kind->n_infos};

    snprintf(ret_args->owner, sizeof(ret_args->owner), "schedule '%s'", kind->name);
    memcpy(ret_args->infos, common_infos, sizeof(common_infos));
    memcpy(ret_args->infos + N_COMMON, kind->infos, kind->n_infos * sizeof(*kind->infos));
    return kvs_params_match(&table, params, n_params, ret_args->given);
}

kvs_status_t kvs_schedule_new(const char *name, const kvs_param_t *params, size_t n_params,
                              kvs_schedule_t **ret_schedule)
{
    args_t args;
    kvs_schedule_t *schedule;
    kvs_status_t status;
    const kind_t *kind = find_kind(name);

    if (kind == NULL) {
        return KVS_ERR_ARGUMENT;
    }
    status = read_args(kind, params, n_params, &args);
    if (status != KVS_OK) {
        return status;
    }
    schedule = calloc(1, sizeof(*schedule));
    if (schedule == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "%s: no memory", args.owner);
    }
    schedule->kind = kind;
    take_values(schedule, &args);
    status = take_warmup(schedule, &args);
    if (status == KVS_OK) {
        status = kind->take(schedule, &args);
    }
    if (status != KVS_OK) {
        kvs_schedule_free(schedule);
        return status;
    }
    *ret_schedule = schedule;
    return KVS_OK;
}

void kvs_schedule_free(kvs_schedule_t *schedule)
{
    if (schedule != NULL) {
        free(schedule->steps);
        free(schedule);
    }
}

void kvs_schedule_set_rate(kvs_schedule_t *schedule, double rate)
{
    schedule->rate = rate;
}

static double warmup_rate(const kvs_schedule_t *schedule, int64_t num_update)
{
    double increase;

    if (schedule->warmup_constant) {
        return schedule->warmup_begin_lr;
    }
    increase = (schedule->base_lr - schedule->warmup_begin_lr) * (double)num_update /
               (double)schedule->warmup_steps;
    return schedule->warmup_begin_lr + increase;
}

double kvs_schedule_rate(kvs_schedule_t *schedule, int64_t num_update)
{
    if (num_update < schedule->warmup_steps) {
        return warmup_rate(schedule, num_update);
    }
    schedule->kind->advance(schedule, num_update);
    return schedule->rate;
}

const char *kvs_schedule_name(const kvs_schedule_t *schedule)
{
    return schedule->kind->name;
}

/* ---- For state files ------------------------------------------------------------------------------ */

static kvs_param_t param_of(const kvs_schedule_t *schedule, const kvs_param_info_t *info,
                            double value)
{
    kvs_param_t param = {.name = info->name, .type = info->type};

    if (info->type == KVS_PARAM_TEXT) {
        param.value.text = schedule->warmup_constant ? "constant" : "linear";
    } else if (info->type == KVS_PARAM_INTS) {
        param.value.integers = schedule->steps;
        param.n_integers = schedule->n_steps;
    } else if (info->type == KVS_PARAM_INT) {
        param.value.integer = (int64_t)value;
    } else {
        param.value.real = value;
    }
    return param;
}

size_t kvs_schedule_params(const kvs_schedule_t *schedule, kvs_param_t ret_params[MAX_PARAMS])
{
    size_t n = N_COMMON + schedule->kind->n_infos;

    for (size_t i = 0; i < n; i++) {
        const kvs_param_info_t *info =
            i < N_COMMON ? &common_infos[i] : &schedule->kind->infos[i - N_COMMON];

        ret_params[i] = param_of(schedule, info, schedule->values[i]);
    }
    return n;
}

kvs_schedule_position_t kvs_schedule_position(const kvs_schedule_t *schedule)
{
    return (kvs_schedule_position_t){schedule->rate, schedule->counted,
                                     (int64_t)schedule->next_step};
}

kvs_status_t kvs_schedule_set_position(kvs_schedule_t *schedule,
                                       const kvs_schedule_position_t *position)
{
    if (!isfinite(position->rate) || position->n_counted < 0 || position->n_steps < 0 ||
        (uint64_t)position->n_steps > schedule->n_steps) {
        return kvs_fail(KVS_ERR_ARGUMENT,
                        "schedule '%s' is never at rate %g with %lld updates and "
                        "%lld steps passed",
                        schedule->kind->name, position->rate, (long long)position->n_counted,
                        (long long)position->n_steps);
    }
    schedule->rate = position->rate;
    schedule->counted = position->n_counted;
    schedule->next_step = (size_t)position->n_steps;
    return KVS_OK;
}
