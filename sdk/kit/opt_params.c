/* SPDX-License-Identifier: Apache-2.0 */
/* opt_params.c - one rule at a time: name, type, value. Tables are short, so a scan finds a name. */
#include "opt_params.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define MAX_NAMES      32
#define MAX_NAME_BYTES 40

/* NULL: there is no such type. */
static const char *type_text(uint32_t type)
{
    switch (type) {
    case KVS_PARAM_NULL:
        return "null";
    case KVS_PARAM_BOOL:
        return "a bool";
    case KVS_PARAM_INT:
        return "an integer";
    case KVS_PARAM_FLOAT:
        return "a number";
    case KVS_PARAM_TEXT:
        return "a text";
    case KVS_PARAM_INTS:
        return "a list of integers";
    default:
        return NULL;
    }
}

static size_t min3(size_t a, size_t b, size_t c)
{
    size_t least = a < b ? a : b;

    return least < c ? least : c;
}

/* How many letters to insert, drop or replace to turn one name into the other. */
static size_t edit_distance(const char *a, size_t a_len, const char *b, size_t b_len)
{
    size_t row[MAX_NAME_BYTES + 1];

    for (size_t j = 0; j <= b_len; j++) {
        row[j] = j;
    }
    for (size_t i = 1; i <= a_len; i++) {
        size_t diagonal = row[0];

        row[0] = i;
        for (size_t j = 1; j <= b_len; j++) {
            size_t above = row[j];

            row[j] = min3(above + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1]));
            diagonal = above;
        }
    }
    return row[b_len];
}

const char *kvs_near_name(const char *name, const char *const *names, size_t n_names)
{
    size_t len = strlen(name);
    size_t best = len / 3 + 2; /* farther than this is not a slip */
    const char *near = NULL;

    if (len > MAX_NAME_BYTES) {
        return NULL;
    }
    for (size_t i = 0; i < n_names; i++) {
        size_t other_len = strlen(names[i]);
        size_t distance;

        if (other_len > MAX_NAME_BYTES) {
            continue;
        }
        distance = edit_distance(name, len, names[i], other_len);
        if (distance < best) {
            best = distance;
            near = names[i];
        }
    }
    return near;
}

static kvs_status_t fail_unknown(const kvs_param_table_t *table, const char *name)
{
    const char *names[MAX_NAMES];
    char accepted[MAX_NAMES * (MAX_NAME_BYTES + 2)] = "none";
    size_t n_names = table->n_infos < MAX_NAMES ? table->n_infos : MAX_NAMES;
    size_t used = 0;
    const char *near;

    for (size_t i = 0; i < n_names && used < sizeof(accepted); i++) {
        names[i] = table->infos[i].name;
        used += (size_t)snprintf(accepted + used, sizeof(accepted) - used, "%s%s",
                                 i == 0 ? "" : ", ", names[i]);
    }
    near = kvs_near_name(name, names, n_names);
    if (near != NULL) {
        return kvs_fail(KVS_ERR_ARGUMENT,
                        "%s: unknown parameter '%s'; did you mean '%s'? Accepted: %s", table->owner,
                        name, near, accepted);
    }
    return kvs_fail(KVS_ERR_ARGUMENT, "%s: unknown parameter '%s'; accepted: %s", table->owner,
                    name, accepted);
}

static int type_fits(const kvs_param_info_t *info, uint32_t type)
{
    return type == info->type || (type == KVS_PARAM_INT && info->type == KVS_PARAM_FLOAT) ||
           (type == KVS_PARAM_NULL && (info->rules & KVS_PARAM_NULLABLE) != 0);
}

static kvs_status_t check_number(const kvs_param_table_t *table, const kvs_param_info_t *info,
                                 double number)
{
    const char *rule = NULL;

    if (!isfinite(number)) {
        rule = "a finite number";
    } else if ((info->rules & KVS_PARAM_UNIT) != 0 && (number < 0 || number >= 1)) {
        rule = "at least 0 and below 1";
    } else if ((info->rules & KVS_PARAM_NON_NEGATIVE) != 0 && number < 0) {
        rule = (info->rules & KVS_PARAM_NULLABLE) != 0 ? "0 or more, or null" : "0 or more";
    }
    if (rule != NULL) {
        return kvs_fail(KVS_ERR_ARGUMENT, "%s: parameter '%s' is %.17g, must be %s", table->owner,
                        info->name, number, rule);
    }
    return KVS_OK;
}

static kvs_status_t check_integer(const kvs_param_table_t *table, const kvs_param_info_t *info,
                                  int64_t integer)
{
    if (integer > KVS_PARAM_INT_MAX || integer < -KVS_PARAM_INT_MAX) {
        return kvs_fail(KVS_ERR_ARGUMENT,
                        "%s: parameter '%s' is %lld, farther from 0 than 2^53 = %lld", table->owner,
                        info->name, (long long)integer, (long long)KVS_PARAM_INT_MAX);
    }
    return check_number(table, info, (double)integer);
}

static kvs_status_t check_value(const kvs_param_table_t *table, const kvs_param_info_t *info,
                                const kvs_param_t *param)
{
    if (type_text(param->type) == NULL) {
        return kvs_fail(KVS_ERR_ARGUMENT,
                        "%s: parameter '%s': its type is %u, none of KVS_PARAM_NULL to "
                        "KVS_PARAM_INTS",
                        table->owner, info->name, param->type);
    }
    if (!type_fits(info, param->type)) {
        return kvs_fail(KVS_ERR_ARGUMENT, "%s: parameter '%s' must be %s%s, got %s", table->owner,
                        info->name, type_text(info->type),
                        (info->rules & KVS_PARAM_NULLABLE) != 0 ? " or null" : "",
                        type_text(param->type));
    }
    switch (param->type) {
    case KVS_PARAM_BOOL:
        if (param->value.integer != 0 && param->value.integer != 1) {
            return kvs_fail(KVS_ERR_ARGUMENT, "%s: parameter '%s' is %lld, a bool is 0 or 1",
                            table->owner, info->name, (long long)param->value.integer);
        }
        return KVS_OK;
    case KVS_PARAM_INT:
        return check_integer(table, info, param->value.integer);
    case KVS_PARAM_FLOAT:
        return check_number(table, info, param->value.real);
    case KVS_PARAM_TEXT:
        if (param->value.text == NULL) {
            return kvs_fail(KVS_ERR_ARGUMENT, "%s: the text of parameter '%s' is NULL",
                            table->owner, info->name);
        }
        return KVS_OK;
    case KVS_PARAM_INTS:
        if (param->value.integers == NULL && param->n_integers > 0) {
            return kvs_fail(KVS_ERR_ARGUMENT, "%s: the list of parameter '%s' is NULL",
                            table->owner, info->name);
        }
        return KVS_OK;
    default:
        return KVS_OK;
    }
}

kvs_status_t kvs_params_check(const kvs_param_table_t *table, const kvs_param_t *param,
                              size_t *ret_index)
{
    if (param->name == NULL) {
        return kvs_fail(KVS_ERR_ARGUMENT, "%s: the name of a parameter is NULL", table->owner);
    }
    if (param->reserved != 0) {
        return kvs_fail(KVS_ERR_ARGUMENT,
                        "%s: parameter '%s': its member reserved is %u, must be 0", table->owner,
                        param->name, param->reserved);
    }
    for (size_t i = 0; i < table->n_infos; i++) {
        if (strcmp(param->name, table->infos[i].name) == 0) {
            kvs_status_t status = check_value(table, &table->infos[i], param);

            if (status == KVS_OK) {
                *ret_index = i;
            }
            return status;
        }
    }
    return fail_unknown(table, param->name);
}

kvs_status_t kvs_params_match(const kvs_param_table_t *table, const kvs_param_t *params,
                              size_t n_params, const kvs_param_t **ret_given)
{
    if (params == NULL && n_params > 0) {
        return kvs_fail(KVS_ERR_ARGUMENT, "%s: the list of parameters is NULL", table->owner);
    }
    for (size_t i = 0; i < table->n_infos; i++) {
        ret_given[i] = NULL;
    }
    for (size_t i = 0; i < n_params; i++) {
        size_t index;
        kvs_status_t status = kvs_params_check(table, &params[i], &index);

        if (status != KVS_OK) {
            return status;
        }
        if (ret_given[index] != NULL) {
            return kvs_fail(KVS_ERR_ARGUMENT, "%s: parameter '%s' is given twice", table->owner,
                            params[i].name);
        }
        ret_given[index] = &params[i];
    }
    return KVS_OK;
}

double kvs_param_number(const kvs_param_info_t *info, const kvs_param_t *param)
{
    if (param == NULL) {
        return info->preset;
    }
    switch (param->type) {
    case KVS_PARAM_NULL:
        return NAN;
    case KVS_PARAM_FLOAT:
        return param->value.real;
    default:
        return (double)param->value.integer;
    }
}
