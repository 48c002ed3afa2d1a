/* SPDX-License-Identifier: Apache-2.0 */
/* optimizer.c - from a specification to the scalars of one update: parameters, multipliers, names,
 * schedule and counts. */
#include "opt_private.h"

#include "fpenv.h"
#include "opt_common.h"
#include "opt_params.h"
#include "opt_states.h"

#include <kvstore/kit.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The names of states stand in files, before a slash. */
static kvs_status_t check_state_names(const kvs_optimizer_t *kind)
{
    for (size_t i = 0; i < kind->n_states; i++) {
        const char *name = kind->states[i].name != NULL ? kind->states[i].name : "";
        int is_taken = strcmp(name, KVS_OPT_MASTER) == 0;

        for (size_t j = 0; j < i; j++) {
            is_taken |= strcmp(name, kind->states[j].name) == 0;
        }
        if (is_taken || name[0] == '\0' || strlen(name) >= KVS_OPT_STATE_NAME_BYTES ||
            strchr(name, '/') != NULL) {
            return kvs_fail(
                KVS_ERR_PLUGIN,
                "optimizer '%s': its plugin names a state '%.80s'; names are different, "
                "not empty, below %d bytes, without '/', and not " KVS_OPT_MASTER,
                kind->name, name, KVS_OPT_STATE_NAME_BYTES);
        }
    }
    return KVS_OK;
}

static kvs_status_t check_kind(const kvs_optimizer_t *kind)
{
    int has_sums = kind->sums_f32 && kind->sums_f64 && kind->combine && kind->n_sums > 0;
    int has_rows = kind->row_f32 && kind->row_f64;
    int lazy = (kind->flags & KVS_OPTIMIZER_LAZY) != 0;
    int wants_rows = 0;

    for (size_t i = 0; i < kind->n_states && i < KVS_OPTIMIZER_MAX_STATES; i++) {
        wants_rows |= (kind->states[i].flags & KVS_STATE_PER_ROW) != 0;
    }
    if (kind->n_params > KVS_OPTIMIZER_MAX_PARAMS || kind->n_states > KVS_OPTIMIZER_MAX_STATES ||
        kind->n_sums > KVS_OPTIMIZER_MAX_SUMS || !kind->scalars || !kind->step_f32 ||
        !kind->step_f64 || (kind->n_phases > 0 && (!has_sums || lazy)) ||
        (wants_rows && !has_rows)) {
        return kvs_fail(KVS_ERR_PLUGIN,
                        "optimizer '%s': its plugin's table lacks a function, has too many "
                        "parameters, states or sums, or is lazy with phases",
                        kind->name);
    }
    return KVS_OK;
}

static kvs_param_table_t param_table(const kvs_opt_t *opt)
{
    return (kvs_param_table_t){opt->owner, opt->infos, KVS_OPT_N_COMMON + opt->kind->n_params};
}

static void set_kind(kvs_opt_t *opt, const kvs_optimizer_t *kind)
{
    opt->kind = kind;
    opt->product = 1;
    snprintf(opt->owner, sizeof(opt->owner), "optimizer '%s'", kind->name);
    memcpy(opt->infos, kvs_opt_common_infos, sizeof(kvs_opt_common_infos));
    opt->infos[KVS_OPT_LEARNING_RATE].preset = kind->learning_rate;
    if ((kind->flags & KVS_OPTIMIZER_ANY_RATE) != 0) {
        opt->infos[KVS_OPT_LEARNING_RATE].rules = 0;
    }
    if (kind->n_params > 0) {
        memcpy(opt->infos + KVS_OPT_N_COMMON, kind->params, kind->n_params * sizeof(*kind->params));
    }
    for (size_t i = 0; i < kind->n_params; i++) {
        if (strcmp(kind->params[i].name, "lazy_update") == 0) {
            opt->lazy_value = &opt->values[KVS_OPT_N_COMMON + i];
        }
    }
}

/* The parameters as the optimizer sees them. `values` must outlive the result. */
static kvs_hyper_t hyper_of(const double *values)
{
    return (kvs_hyper_t){
        .size = (uint32_t)sizeof(kvs_hyper_t),
        .multi_precision = values[KVS_OPT_MULTI_PRECISION] != 0,
        .learning_rate = values[KVS_OPT_LEARNING_RATE],
        .wd = values[KVS_OPT_WD],
        .rescale_grad = values[KVS_OPT_RESCALE_GRAD],
        .clip_gradient = isnan(values[KVS_OPT_CLIP_GRADIENT]) ? 0 : values[KVS_OPT_CLIP_GRADIENT],
        .own = values + KVS_OPT_N_COMMON,
    };
}

static kvs_status_t check_together(const kvs_opt_t *opt, const kvs_hyper_t *hyper)
{
    kvs_status_t status = opt->kind->check != NULL ? opt->kind->check(hyper) : KVS_OK;

    return status == KVS_OK ? KVS_OK : kvs_fail_context(status, "%s", opt->owner);
}

static kvs_status_t set_schedule(kvs_opt_t *opt, const kvs_optimizer_spec_t *spec,
                                 const kvs_param_t *given_rate)
{
    kvs_status_t status;

    if (spec->schedule == NULL) {
        return spec->n_schedule_params == 0
                   ? KVS_OK
                   : kvs_fail(KVS_ERR_ARGUMENT,
                              "%s: parameters of a schedule are given, but no schedule",
                              opt->owner);
    }
    status = kvs_schedule_new(spec->schedule, spec->schedule_params, spec->n_schedule_params,
                              &opt->schedule);
    if (status != KVS_OK) {
        return kvs_fail_context(status, "%s", opt->owner);
    }
    if (given_rate != NULL) {
        kvs_schedule_set_rate(opt->schedule, opt->values[KVS_OPT_LEARNING_RATE]);
    }
    return KVS_OK;
}

static kvs_status_t set_params(kvs_opt_t *opt, const kvs_optimizer_spec_t *spec)
{
    const kvs_param_t *given[KVS_OPT_N_COMMON + KVS_OPTIMIZER_MAX_PARAMS];
    kvs_param_table_t table = param_table(opt);
    kvs_status_t status = kvs_params_match(&table, spec->params, spec->n_params, given);

    if (status != KVS_OK) {
        return status;
    }
    for (size_t i = 0; i < table.n_infos; i++) {
        opt->values[i] = kvs_param_number(&opt->infos[i], given[i]);
    }
    opt->num_update = (int64_t)opt->values[KVS_OPT_BEGIN_NUM_UPDATE];
    opt->hyper = hyper_of(opt->values);
    status = check_together(opt, &opt->hyper);
    return status == KVS_OK ? set_schedule(opt, spec, given[KVS_OPT_LEARNING_RATE]) : status;
}

static kvs_status_t set_keymaps(kvs_opt_t *opt, const kvs_optimizer_spec_t *spec)
{
    kvs_status_t status =
        kvs_keymap_set_multipliers(&opt->lr_mult, "lr_mult", spec->lr_mult, spec->n_lr_mult);

    if (status == KVS_OK) {
        status =
            kvs_keymap_set_multipliers(&opt->wd_mult, "wd_mult", spec->wd_mult, spec->n_wd_mult);
    }
    if (status == KVS_OK) {
        status = kvs_keymap_set_names(&opt->names, "names", spec->names, spec->n_names);
    }
    return status == KVS_OK ? KVS_OK : kvs_fail_context(status, "%s", opt->owner);
}

kvs_status_t kvs_opt_new(const kvs_optimizer_spec_t *given_spec, kvs_opt_t **ret_opt)
{
    kvs_optimizer_spec_t spec = {0}; /* an older caller's may be shorter */
    const kvs_optimizer_t *kind;
    kvs_opt_t *opt;
    kvs_status_t status;

    memcpy(&spec, given_spec, given_spec->size < sizeof(spec) ? given_spec->size : sizeof(spec));
    if (spec.name == NULL) {
        return kvs_fail(KVS_ERR_ARGUMENT, "the name of the optimizer is NULL");
    }
    status = kvs_plugin_host->find_optimizer(spec.name, &kind);
    if (status == KVS_OK) {
        status = check_kind(kind);
    }
    if (status == KVS_OK) {
        status = check_state_names(kind);
    }
    if (status != KVS_OK) {
        return status;
    }
    opt = calloc(1, sizeof(*opt));
    if (opt == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "optimizer '%s': no memory", spec.name);
    }
    set_kind(opt, kind);
    status = set_params(opt, &spec);
    if (status == KVS_OK) {
        status = set_keymaps(opt, &spec);
    }
    if (status != KVS_OK) {
        kvs_opt_free(opt);
        return status;
    }
    *ret_opt = opt;
    return KVS_OK;
}

void kvs_opt_free(kvs_opt_t *opt)
{
    if (opt != NULL) {
        kvs_keymap_release(&opt->lr_mult);
        kvs_keymap_release(&opt->wd_mult);
        kvs_keymap_release(&opt->names);
        kvs_schedule_free(opt->schedule);
        free(opt);
    }
}

kvs_status_t kvs_opt_set_attr(kvs_opt_t *opt, const kvs_param_t *attr)
{
    double values[KVS_OPT_N_COMMON + KVS_OPTIMIZER_MAX_PARAMS];
    kvs_param_table_t table = param_table(opt);
    kvs_hyper_t hyper;
    size_t index;
    kvs_status_t status = kvs_params_check(&table, attr, &index);

    if (status != KVS_OK) {
        return status;
    }
    if (index == KVS_OPT_LEARNING_RATE && opt->schedule != NULL) {
        return kvs_fail(KVS_ERR_STATE,
                        "%s: learning_rate can't be set, schedule '%s' decides it; set the "
                        "optimizer anew to change that",
                        opt->owner, kvs_schedule_name(opt->schedule));
    }
    if (index == KVS_OPT_MULTI_PRECISION || index == KVS_OPT_BEGIN_NUM_UPDATE) {
        return kvs_fail(KVS_ERR_ARGUMENT,
                        "%s: parameter '%s' can't be changed later; set the optimizer anew",
                        opt->owner, attr->name);
    }
    memcpy(values, opt->values, sizeof(values));
    values[index] = kvs_param_number(&opt->infos[index], attr);
    hyper = hyper_of(values);
    status = check_together(opt, &hyper);
    if (status == KVS_OK) {
        opt->values[index] = values[index];
        opt->hyper = hyper_of(opt->values);
    }
    return status;
}

static kvs_status_t fail_integer(const kvs_opt_t *opt, const kvs_key_entry_t *key)
{
    const char *dtype = kvs_dtype_name(key->dtype);
    const char *mend = "only floating dtypes are; use an updater, or none";

    if (key->name != NULL) {
        return kvs_fail(KVS_ERR_DTYPE, "%s: weights of dtype %s, key '%s', can't be updated: %s",
                        opt->owner, dtype, key->name, mend);
    }
    return kvs_fail(KVS_ERR_DTYPE, "%s: weights of dtype %s, key %lld, can't be updated: %s",
                    opt->owner, dtype, (long long)key->number, mend);
}

kvs_status_t kvs_opt_check_key(const kvs_opt_t *opt, const kvs_key_entry_t *key)
{
    return key->dtype.code == KVS_CODE_FLOAT || key->dtype.code == KVS_CODE_BFLOAT
               ? KVS_OK
               : fail_integer(opt, key);
}

static int is_lazy(const kvs_opt_t *opt)
{
    return (opt->kind->flags & KVS_OPTIMIZER_LAZY) != 0 &&
           (opt->lazy_value == NULL || *opt->lazy_value != 0);
}

/* By key, else by the key's name, else 1. */
static double multiplier(const kvs_keymap_t *map, kvs_key_t key, const char *name)
{
    const kvs_keymap_entry_t *entry = NULL;

    if (map->n > 0) {
        entry = kvs_keymap_find(map, key);
        if (entry == NULL) {
            entry = kvs_keymap_find(map, kvs_key_str(name));
        }
    }
    return entry != NULL ? entry->value : 1;
}

/* The rates, then the scalars that follow from them. */
static void compute(kvs_opt_t *opt, kvs_key_t key, kvs_update_t *update, double *ret_scalars)
{
    unsigned fpenv = kvs_fpenv_enter();

    update->lr = kvs_opt_rate(opt) * multiplier(&opt->lr_mult, key, update->name);
    update->wd = opt->hyper.wd * multiplier(&opt->wd_mult, key, update->name);
    opt->kind->scalars(&opt->hyper, update, ret_scalars);
    kvs_fpenv_leave(fpenv);
}

kvs_status_t kvs_opt_issue(kvs_opt_t *opt, kvs_opt_key_t *key_state, const kvs_key_entry_t *key,
                           kvs_opt_update_t *ret_update)
{
    kvs_key_t id = {key->name, key->number};
    const kvs_keymap_entry_t *named;
    kvs_update_t update = {.size = (uint32_t)sizeof(update), .product = &opt->product};
    char number[24]; /* of an integer key, as text */
    kvs_status_t status = kvs_opt_check_key(opt, key);

    if (status != KVS_OK) {
        return status;
    }
    named = opt->names.n > 0 ? kvs_keymap_find(&opt->names, id) : NULL;
    update.name = named != NULL ? named->name : key->name;
    if (update.name == NULL) {
        snprintf(number, sizeof(number), "%lld", (long long)key->number);
        update.name = number;
    }
    key_state->n_updates++;
    update.t = kvs_opt_count(opt, key_state);
    opt->num_update = update.t > opt->num_update ? update.t : opt->num_update;

    *ret_update = (kvs_opt_update_t){
        .t = update.t, .states = kvs_opt_states_used(opt), .lazy = (uint32_t)is_lazy(opt)};
    compute(opt, id, &update, ret_update->scalars);
    ret_update->lr = update.lr;
    ret_update->wd = update.wd;
    return KVS_OK;
}

uint32_t kvs_opt_states_used(const kvs_opt_t *opt)
{
    uint32_t all = (1u << opt->kind->n_states) - 1;

    return opt->kind->states_used != NULL ? opt->kind->states_used(&opt->hyper) & all : all;
}

int64_t kvs_opt_count(const kvs_opt_t *opt, const kvs_opt_key_t *key_state)
{
    return (int64_t)opt->values[KVS_OPT_BEGIN_NUM_UPDATE] + key_state->n_updates;
}

int64_t kvs_opt_num_update(const kvs_opt_t *opt)
{
    return opt->num_update;
}

double kvs_opt_rate(kvs_opt_t *opt)
{
    return opt->schedule != NULL ? kvs_schedule_rate(opt->schedule, opt->num_update)
                                 : opt->hyper.learning_rate;
}

const char *kvs_opt_name(const kvs_opt_t *opt)
{
    return opt->kind->name;
}
