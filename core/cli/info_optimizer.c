/* SPDX-License-Identifier: Apache-2.0 */
/* info_optimizer.c - an optimizer as text and as JSON. Its plugin is loaded for that, if it is on. */
#include "info_optimizer.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

static int is_optimizer(const kvs_plugin_info_t *plugin, const char *name)
{
    for (size_t i = 0; i < plugin->n_provides; i++) {
        if (strcmp(plugin->provides[i].kind, "optimizer") == 0 &&
            strcasecmp(plugin->provides[i].name, name) == 0) {
            return 1;
        }
    }
    return 0;
}

/* NULL, with a text, if the plugin is off or can't be loaded. */
static kvs_optimizer_info_t *describe(const kvs_plugin_info_t *plugin, const char *name)
{
    kvs_optimizer_info_t *info = NULL;

    if (plugin->state != KVS_PLUGIN_OK) {
        (void)kvs_fail(KVS_ERR_UNAVAILABLE, "the plugin is %s",
                       kvs_plugin_state_text(plugin->state));
    } else {
        (void)kvs_optimizer_describe(name, &info); /* the text tells why not */
    }
    return info;
}

/* ---- As text ---------------------------------------------------------------------------------- */

static void add_preset(columns_t *columns, const kvs_param_t *preset)
{
    char text[40];

    switch (preset->type) {
    case KVS_PARAM_NULL:
        snprintf(text, sizeof(text), "null");
        break;
    case KVS_PARAM_BOOL:
        snprintf(text, sizeof(text), "%s", preset->value.integer != 0 ? "true" : "false");
        break;
    case KVS_PARAM_INT:
        snprintf(text, sizeof(text), "%lld", (long long)preset->value.integer);
        break;
    default:
        snprintf(text, sizeof(text), "%g", preset->value.real);
    }
    columns_add(columns, text);
}

static void print_params(columns_t *columns, const kvs_optimizer_info_t *info)
{
    printf("\nparameters of %s: %s\n", info->name, info->summary);
    columns->n_columns = 5;
    for (size_t i = 0; i < info->n_params; i++) {
        columns_add(columns, info->params[i].preset.name);
        columns_add(columns, info->params[i].type);
        add_preset(columns, &info->params[i].preset);
        columns_add(columns, info->params[i].accepts);
        columns_add(columns, info->params[i].doc);
    }
    columns->failed |= columns_print(columns, 2);
}

static void print_states(columns_t *columns, const kvs_optimizer_info_t *info)
{
    printf("\nstates of %s%s\n", info->name, info->n_states == 0 ? ": none" : "");
    columns->n_columns = 4;
    for (size_t i = 0; i < info->n_states; i++) {
        const kvs_optimizer_state_t *state = &info->states[i];

        columns_add(columns, state->name);
        columns_add(columns, state->by_default ? "by default" : "if parameters ask for it");
        columns_add(columns, state->per_row ? "a number for each row" : "as large as the weight");
        columns_add(columns, state->from_weight ? "begins as the weight" : "begins as zeros");
    }
    columns->failed |= columns_print(columns, 2);
}

void cli_optimizer_text(columns_t *columns, const kvs_plugin_info_t *plugin, const char *name)
{
    kvs_optimizer_info_t *info;

    if (!is_optimizer(plugin, name)) {
        return;
    }
    info = describe(plugin, name);
    if (info == NULL) {
        printf("\nparameters and states of %s can't be told: %s\n", name, kvs_last_error());
        return;
    }
    print_params(columns, info);
    print_states(columns, info);
    kvs_optimizer_info_free(info);
}

/* ---- As JSON ---------------------------------------------------------------------------------- */

static void preset_json(json_t *json, const kvs_param_t *preset)
{
    switch (preset->type) {
    case KVS_PARAM_NULL:
        json_text(json, "default", NULL);
        break;
    case KVS_PARAM_BOOL:
        json_bool(json, "default", preset->value.integer != 0);
        break;
    case KVS_PARAM_INT:
        json_integer(json, "default", preset->value.integer);
        break;
    default:
        json_real(json, "default", preset->value.real);
    }
}

static void info_json(json_t *json, const kvs_optimizer_info_t *info)
{
    json_open(json, "optimizer", '{');
    json_text(json, "name", info->name);
    json_text(json, "summary", info->summary);
    json_open(json, "parameters", '[');
    for (size_t i = 0; i < info->n_params; i++) {
        json_open(json, NULL, '{');
        json_text(json, "name", info->params[i].preset.name);
        json_text(json, "type", info->params[i].type);
        preset_json(json, &info->params[i].preset);
        json_text(json, "accepts", info->params[i].accepts);
        json_text(json, "doc", info->params[i].doc);
        json_close(json, '}');
    }
    json_close(json, ']');
    json_open(json, "states", '[');
    for (size_t i = 0; i < info->n_states; i++) {
        json_open(json, NULL, '{');
        json_text(json, "name", info->states[i].name);
        json_bool(json, "by_default", info->states[i].by_default);
        json_bool(json, "from_weight", info->states[i].from_weight);
        json_bool(json, "per_row", info->states[i].per_row);
        json_close(json, '}');
    }
    json_close(json, ']');
    json_close(json, '}');
}

void cli_optimizer_json(json_t *json, const kvs_plugin_info_t *plugin, const char *name)
{
    kvs_optimizer_info_t *info;

    if (!is_optimizer(plugin, name)) {
        return;
    }
    info = describe(plugin, name);
    if (info == NULL) {
        json_text(json, "optimizer", NULL);
    } else {
        info_json(json, info);
        kvs_optimizer_info_free(info);
    }
}
