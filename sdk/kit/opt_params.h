/* SPDX-License-Identifier: Apache-2.0 */
/* opt_params.h - typed parameters against a table of what is accepted: for optimizers and schedules.
 *
 * Besides the types of kvs_param_info_t the table may ask for KVS_PARAM_TEXT and KVS_PARAM_INTS;
 * what the values of these mean is the caller's to check. */
#ifndef KVS_KIT_OPT_PARAMS_H
#define KVS_KIT_OPT_PARAMS_H

#include <kvstore/plugin.h>

/* Whole numbers up to here pass through a double unchanged. */
#define KVS_PARAM_INT_MAX (INT64_C(1) << 53)

typedef struct kvs_param_table {
    const char *owner; /* "optimizer 'sgd'": how errors begin */
    const kvs_param_info_t *infos;
    size_t n_infos;
} kvs_param_table_t;

/* Find `param` in the table by name and check its type and value. ERR_ARGUMENT: the text names the
 * parameter; for an unknown one also a near name and all that are accepted. */
kvs_status_t kvs_params_check(const kvs_param_table_t *table, const kvs_param_t *param,
                              size_t *ret_index);

/* kvs_params_check for each; ret_given[i] becomes the one for infos[i], or NULL. ERR_ARGUMENT also for
 * a parameter that stands twice. */
kvs_status_t kvs_params_match(const kvs_param_table_t *table, const kvs_param_t *params,
                              size_t n_params, const kvs_param_t **ret_given);

/* The number that a checked parameter of type BOOL, INT or FLOAT stands for: NaN for null, the preset
 * if `param` is NULL. */
double kvs_param_number(const kvs_param_info_t *info, const kvs_param_t *param);

/* The one of `n` names that `name` was probably meant to be, or NULL. */
const char *kvs_near_name(const char *name, const char *const *names, size_t n_names);

#endif
