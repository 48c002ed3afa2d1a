/* SPDX-License-Identifier: Apache-2.0 */
/* spec.c - the files keep parameters as plain JSON: whole numbers become integers, which every
 * floating parameter takes too. */
#include "spec.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int read_integers(golden_case_t *c, const cJSON *json, kvs_param_t *param)
{
    int64_t *integers = calloc((size_t)cJSON_GetArraySize(json) + 1, sizeof(*integers));
    const cJSON *item;

    if (integers == NULL) {
        return golden_failed(c, "out of memory");
    }
    param->type = KVS_PARAM_INTS;
    param->value.integers = integers;
    cJSON_ArrayForEach(item, json)
    {
        integers[param->n_integers++] = (int64_t)item->valuedouble;
    }
    return 1;
}

static int read_param(golden_case_t *c, const cJSON *json, kvs_param_t *param)
{
    *param = (kvs_param_t){.name = json->string, .type = KVS_PARAM_NULL};
    if (cJSON_IsArray(json)) {
        return read_integers(c, json, param);
    }
    if (cJSON_IsBool(json)) {
        param->type = KVS_PARAM_BOOL;
        param->value.integer = cJSON_IsTrue(json);
    } else if (cJSON_IsString(json)) {
        param->type = KVS_PARAM_TEXT;
        param->value.text = json->valuestring;
    } else if (cJSON_IsNumber(json) && json->valuedouble == floor(json->valuedouble)) {
        param->type = KVS_PARAM_INT;
        param->value.integer = (int64_t)json->valuedouble;
    } else if (cJSON_IsNumber(json)) {
        param->type = KVS_PARAM_FLOAT;
        param->value.real = json->valuedouble;
    } else if (!cJSON_IsNull(json)) {
        return golden_failed(c, "parameter \"%s\" has a value of no known type", json->string);
    }
    return 1;
}

/* Every member of `object` except the one named `skip`. */
static int read_params(golden_case_t *c, const cJSON *object, const char *skip,
                       kvs_param_t **ret_params, size_t *ret_n)
{
    const cJSON *item;

    *ret_params = calloc((size_t)cJSON_GetArraySize(object) + 1, sizeof(**ret_params));
    if (*ret_params == NULL) {
        return golden_failed(c, "out of memory");
    }
    cJSON_ArrayForEach(item, object)
    {
        if (strcmp(item->string, skip) != 0 && !read_param(c, item, &(*ret_params)[(*ret_n)++])) {
            return 0;
        }
    }
    return 1;
}

static void free_params(kvs_param_t *params, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (params[i].type == KVS_PARAM_INTS) {
            free((void *)params[i].value.integers);
        }
    }
    free(params);
}

static const char *schedule_of(const char *class_name)
{
    static const struct {
        const char *class_name, *schedule;
    } known[] = {{"FactorScheduler", "factor"},
                 {"MultiFactorScheduler", "multifactor"},
                 {"PolyScheduler", "poly"},
                 {"CosineScheduler", "cosine"}};

    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (strcmp(class_name, known[i].class_name) == 0) {
            return known[i].schedule;
        }
    }
    return NULL;
}

int golden_spec_read(golden_case_t *c, const char *optimizer, const cJSON *object,
                     golden_spec_t *spec)
{
    const cJSON *schedule = golden_get(object, "lr_scheduler");

    spec->spec.name = optimizer;
    if (!read_params(c, golden_get(object, "hyper"), "", &spec->params, &spec->spec.n_params)) {
        return 0;
    }
    spec->spec.params = spec->params;
    if (!cJSON_IsObject(schedule)) {
        return 1;
    }
    spec->spec.schedule = schedule_of(golden_text(schedule, "class"));
    if (spec->spec.schedule == NULL) {
        return golden_failed(c, "unknown scheduler \"%s\"", golden_text(schedule, "class"));
    }
    if (!read_params(c, schedule, "class", &spec->schedule_params, &spec->spec.n_schedule_params)) {
        return 0;
    }
    spec->spec.schedule_params = spec->schedule_params;
    return 1;
}

int golden_spec_multipliers(golden_case_t *c, const cJSON *list, const char *field,
                            kvs_multiplier_t **ret_mult, size_t *ret_n)
{
    const cJSON *item;

    *ret_mult = calloc((size_t)cJSON_GetArraySize(list) + 1, sizeof(**ret_mult));
    if (*ret_mult == NULL) {
        return golden_failed(c, "out of memory");
    }
    cJSON_ArrayForEach(item, list)
    {
        kvs_multiplier_t *mult = &(*ret_mult)[*ret_n];

        if (golden_get(item, field) == NULL) {
            continue;
        }
        if (!golden_key(c, golden_get(item, "key"), &mult->key)) {
            return 0;
        }
        mult->value = golden_number(item, field, 0);
        (*ret_n)++;
    }
    return 1;
}

int golden_spec_names(golden_case_t *c, const cJSON *list, golden_spec_t *spec)
{
    const cJSON *item;

    spec->names = calloc((size_t)cJSON_GetArraySize(list) + 1, sizeof(*spec->names));
    if (spec->names == NULL) {
        return golden_failed(c, "out of memory");
    }
    cJSON_ArrayForEach(item, list)
    {
        kvs_param_name_t *name = &spec->names[spec->spec.n_names];

        if (golden_get(item, "name") == NULL) {
            continue;
        }
        if (!golden_key(c, golden_get(item, "key"), &name->key)) {
            return 0;
        }
        name->name = golden_text(item, "name");
        spec->spec.n_names++;
    }
    spec->spec.names = spec->names;
    return 1;
}

void golden_spec_release(golden_spec_t *spec)
{
    free_params(spec->params, spec->spec.n_params);
    free_params(spec->schedule_params, spec->spec.n_schedule_params);
    free(spec->lr_mult);
    free(spec->wd_mult);
    free(spec->names);
    *spec = (golden_spec_t)GOLDEN_SPEC_INIT;
}
