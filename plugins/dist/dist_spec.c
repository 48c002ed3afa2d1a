/* SPDX-License-Identifier: Apache-2.0 */
#include "dist_spec.h"

#include <kvstore/net.h>

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define SPEC_VERSION 1

/* ---- Writing ------------------------------------------------------------------------------------- */

static kvs_status_t fail_null(const char *what)
{
    return kvs_fail(KVS_ERR_ARGUMENT, "set_optimizer: %s is NULL", what);
}

static void put_key(dist_bytes_t *bytes, const kvs_key_t *key)
{
    dist_put_text(bytes, key->str);
    dist_put_i64(bytes, key->str == NULL ? key->num : 0);
}

static kvs_status_t put_param(dist_bytes_t *bytes, const kvs_param_t *param)
{
    if (param->name == NULL) {
        return fail_null("the name of a parameter");
    }
    dist_put_text(bytes, param->name);
    dist_put_u32(bytes, param->type);
    switch (param->type) {
    case KVS_PARAM_BOOL:
    case KVS_PARAM_INT:
        dist_put_i64(bytes, param->value.integer);
        break;
    case KVS_PARAM_FLOAT:
        dist_put_real(bytes, param->value.real);
        break;
    case KVS_PARAM_TEXT:
        if (param->value.text == NULL) {
            return fail_null("the text of a parameter");
        }
        dist_put_text(bytes, param->value.text);
        break;
    case KVS_PARAM_INTS:
        if (param->value.integers == NULL && param->n_integers > 0) {
            return fail_null("the list of a parameter");
        }
        dist_put_u32(bytes, (uint32_t)param->n_integers);
        for (size_t i = 0; i < param->n_integers; i++) {
            dist_put_i64(bytes, param->value.integers[i]);
        }
        break;
    default: /* null, or a type the receiver will refuse */
        break;
    }
    return KVS_OK;
}

static kvs_status_t put_params(dist_bytes_t *bytes, const kvs_param_t *params, size_t n)
{
    kvs_status_t status = params == NULL && n > 0 ? fail_null("the list of parameters") : KVS_OK;

    dist_put_u32(bytes, (uint32_t)n);
    for (size_t i = 0; i < n && status == KVS_OK; i++) {
        status = put_param(bytes, &params[i]);
    }
    return status;
}

static kvs_status_t put_multipliers(dist_bytes_t *bytes, const kvs_multiplier_t *list, size_t n)
{
    if (list == NULL && n > 0) {
        return fail_null("a list of multipliers");
    }
    dist_put_u32(bytes, (uint32_t)n);
    for (size_t i = 0; i < n; i++) {
        put_key(bytes, &list[i].key);
        dist_put_real(bytes, list[i].value);
    }
    return KVS_OK;
}

static kvs_status_t put_names(dist_bytes_t *bytes, const kvs_param_name_t *names, size_t n)
{
    if (names == NULL && n > 0) {
        return fail_null("the list of names");
    }
    dist_put_u32(bytes, (uint32_t)n);
    for (size_t i = 0; i < n; i++) {
        if (names[i].name == NULL) {
            return fail_null("the name of a key");
        }
        put_key(bytes, &names[i].key);
        dist_put_text(bytes, names[i].name);
    }
    return KVS_OK;
}

kvs_status_t dist_spec_encode(const kvs_optimizer_spec_t *spec, dist_bytes_t *bytes)
{
    kvs_status_t status;

    if (spec->name == NULL) {
        return fail_null("the name of the optimizer");
    }
    dist_put_u8(bytes, SPEC_VERSION);
    dist_put_text(bytes, spec->name);
    status = put_params(bytes, spec->params, spec->n_params);
    if (status == KVS_OK) {
        status = put_multipliers(bytes, spec->lr_mult, spec->n_lr_mult);
    }
    if (status == KVS_OK) {
        status = put_multipliers(bytes, spec->wd_mult, spec->n_wd_mult);
    }
    if (status == KVS_OK) {
        status = put_names(bytes, spec->names, spec->n_names);
    }
    if (status == KVS_OK) {
        dist_put_text(bytes, spec->schedule);
        status = put_params(bytes, spec->schedule_params, spec->n_schedule_params);
    }
    if (status == KVS_OK && bytes->failed) {
        status = kvs_fail(KVS_ERR_NO_MEMORY, "set_optimizer: no memory to send the optimizer");
    }
    return status;
}

/* ---- Reading ------------------------------------------------------------------------------------- */

/* Zeroed memory that lives as long as the specification; at least one item. */
static void *new_list(dist_spec_t *spec, dist_view_t *view, size_t n, size_t item_bytes)
{
    void *list = view->failed ? NULL : calloc(n + 1, item_bytes);

    if (list == NULL) {
        view->failed = 1;
        return NULL;
    }
    spec->lists[spec->n_lists++] = list;
    return list;
}

static kvs_key_t get_key(dist_view_t *view)
{
    const char *str = dist_get_text(view);
    int64_t num = dist_get_i64(view);

    return (kvs_key_t){str, num};
}

/* Integers of all parameters share one block, which is never larger than the bytes they came in. */
static void get_integers(dist_view_t *view, int64_t **integers, kvs_param_t *param)
{
    uint32_t n = dist_get_count(view, 8);

    param->value.integers = *integers;
    param->n_integers = n;
    for (uint32_t i = 0; i < n; i++) {
        *(*integers)++ = dist_get_i64(view);
    }
}

static void get_param(dist_view_t *view, int64_t **integers, kvs_param_t *param)
{
    param->name = dist_get_text(view);
    param->type = dist_get_u32(view);
    view->failed |= param->name == NULL;
    switch (param->type) {
    case KVS_PARAM_NULL:
        break;
    case KVS_PARAM_BOOL:
    case KVS_PARAM_INT:
        param->value.integer = dist_get_i64(view);
        break;
    case KVS_PARAM_FLOAT:
        param->value.real = dist_get_real(view);
        break;
    case KVS_PARAM_TEXT:
        param->value.text = dist_get_text(view);
        view->failed |= param->value.text == NULL;
        break;
    case KVS_PARAM_INTS:
        get_integers(view, integers, param);
        break;
    default:
        view->failed = 1;
        break;
    }
}

static const kvs_param_t *get_params(dist_spec_t *spec, dist_view_t *view, int64_t **integers,
                                     size_t *ret_n)
{
    uint32_t n = dist_get_count(view, 8);
    kvs_param_t *params = new_list(spec, view, n, sizeof(*params));

    for (uint32_t i = 0; i < n && !view->failed; i++) {
        get_param(view, integers, &params[i]);
    }
    *ret_n = n;
    return params;
}

static const kvs_multiplier_t *get_multipliers(dist_spec_t *spec, dist_view_t *view, size_t *ret_n)
{
    uint32_t n = dist_get_count(view, 20);
    kvs_multiplier_t *list = new_list(spec, view, n, sizeof(*list));

    for (uint32_t i = 0; i < n && !view->failed; i++) {
        list[i].key = get_key(view);
        list[i].value = dist_get_real(view);
    }
    *ret_n = n;
    return list;
}

static const kvs_param_name_t *get_names(dist_spec_t *spec, dist_view_t *view, size_t *ret_n)
{
    uint32_t n = dist_get_count(view, 16);
    kvs_param_name_t *names = new_list(spec, view, n, sizeof(*names));

    for (uint32_t i = 0; i < n && !view->failed; i++) {
        names[i].key = get_key(view);
        names[i].name = dist_get_text(view);
        view->failed |= names[i].name == NULL;
    }
    *ret_n = n;
    return names;
}

kvs_status_t dist_spec_decode(const void *bytes, size_t n_bytes, dist_spec_t *ret_spec)
{
    dist_view_t view = dist_view(bytes, n_bytes);
    dist_spec_t spec = {.spec = KVS_OPTIMIZER_INIT, .integers = calloc(n_bytes / 8 + 1, 8)};
    int64_t *integers = spec.integers;

    view.failed = integers == NULL || dist_get_u8(&view) != SPEC_VERSION;
    spec.spec.name = dist_get_text(&view);
    view.failed |= spec.spec.name == NULL;
    spec.spec.params = get_params(&spec, &view, &integers, &spec.spec.n_params);
    spec.spec.lr_mult = get_multipliers(&spec, &view, &spec.spec.n_lr_mult);
    spec.spec.wd_mult = get_multipliers(&spec, &view, &spec.spec.n_wd_mult);
    spec.spec.names = get_names(&spec, &view, &spec.spec.n_names);
    spec.spec.schedule = dist_get_text(&view);
    spec.spec.schedule_params = get_params(&spec, &view, &integers, &spec.spec.n_schedule_params);
    if (view.failed || view.n_left != 0) {
        dist_spec_release(&spec);
        return kvs_fail(KVS_ERR_FORMAT,
                        "the specification of an optimizer, of %zu bytes, is "
                        "malformed",
                        n_bytes);
    }
    *ret_spec = spec;
    return KVS_OK;
}

void dist_spec_release(dist_spec_t *spec)
{
    for (size_t i = 0; i < spec->n_lists; i++) {
        free(spec->lists[i]);
    }
    free(spec->integers);
    *spec = (dist_spec_t){.spec = KVS_OPTIMIZER_INIT};
}

/* ---- As text ------------------------------------------------------------------------------------- */

typedef struct line {
    char *text;
    size_t n;
} line_t;

static void add(line_t *line, const char *format, ...) KVS_PRINTF(2, 3);

static void add(line_t *line, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    int n = vsnprintf(line->text + line->n, DIST_SPEC_TEXT_BYTES - line->n, format, args);

    va_end(args);
    line->n += n < 0 ? 0 : (size_t)n;
    if (line->n >= DIST_SPEC_TEXT_BYTES) {
        line->n = DIST_SPEC_TEXT_BYTES - 1;
    }
}

static void add_params(line_t *line, const kvs_param_t *params, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const kvs_param_t *param = &params[i];
        char number[32];

        add(line, "%s%s ", i > 0 ? ", " : " (", param->name);
        switch (param->type) {
        case KVS_PARAM_BOOL:
            add(line, "%s", param->value.integer != 0 ? "true" : "false");
            break;
        case KVS_PARAM_INT:
            add(line, "%" PRId64, param->value.integer);
            break;
        case KVS_PARAM_FLOAT:
            kvs_net_print(number, sizeof(number), "%g", param->value.real);
            add(line, "%s", number);
            break;
        case KVS_PARAM_TEXT:
            add(line, "'%.40s'", param->value.text);
            break;
        case KVS_PARAM_INTS:
            add(line, "%zu numbers", param->n_integers);
            break;
        default:
            add(line, "null");
            break;
        }
    }
    add(line, "%s", n > 0 ? ")" : "");
}

const char *dist_spec_text(const void *bytes, size_t n_bytes, char *text)
{
    dist_spec_t spec;
    line_t line = {text, 0};

    text[0] = '\0';
    if (dist_spec_decode(bytes, n_bytes, &spec) != KVS_OK) {
        add(&line, "malformed");
        return text;
    }
    add(&line, "%.60s", spec.spec.name);
    add_params(&line, spec.spec.params, spec.spec.n_params);
    if (spec.spec.schedule != NULL) {
        add(&line, ", schedule %.60s", spec.spec.schedule);
        add_params(&line, spec.spec.schedule_params, spec.spec.n_schedule_params);
    }
    if (spec.spec.n_lr_mult + spec.spec.n_wd_mult + spec.spec.n_names > 0) {
        add(&line, ", %zu lr_mult, %zu wd_mult, %zu names", spec.spec.n_lr_mult,
            spec.spec.n_wd_mult, spec.spec.n_names);
    }
    dist_spec_release(&spec);
    return text;
}
