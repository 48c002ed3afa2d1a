/* SPDX-License-Identifier: Apache-2.0 */
/* plugin_json.c - the members are part of the interface: add, don't rename. --help of list and info
 * documents them. */
#include "plugin_json.h"

static void provide_json(json_t *json, const kvs_provide_t *provide)
{
    json_open(json, NULL, '{');
    json_text(json, "kind", provide->kind);
    json_text(json, "name", provide->name);
    json_texts(json, "aliases", provide->aliases, provide->n_aliases);
    json_text(json, "word", provide->word);
    json_texts(json, "with", provide->with, provide->n_with);
    json_integer(json, "priority", provide->priority);
    json_open(json, "capabilities", '{');
    json_bool(json, "optimizer", provide->optimizer);
    json_bool(json, "sparse", provide->sparse);
    json_bool(json, "async", provide->async);
    json_bool(json, "multi_worker", provide->multi_worker);
    json_bool(json, "keeps_weights", provide->keeps_weights);
    json_texts(json, "gradient_compression", provide->compression, provide->n_compression);
    json_texts(json, "devices", provide->devices, provide->n_devices);
    json_texts(json, "dtypes", provide->dtypes, provide->n_dtypes);
    json_close(json, '}');
    json_close(json, '}');
}

static void requires_json(json_t *json, const kvs_plugin_info_t *plugin)
{
    json_open(json, "requires", '{');
    json_open(json, "libraries", '[');
    for (size_t i = 0; i < plugin->n_libraries; i++) {
        const kvs_requirement_t *library = &plugin->libraries[i];

        json_open(json, NULL, '{');
        json_text(json, "name", library->name);
        json_text(json, "package", library->package);
        json_text(json, "why", library->why);
        json_bool(json, "found", library->found);
        json_close(json, '}');
    }
    json_close(json, ']');
    json_texts(json, "devices", plugin->devices, plugin->n_devices);
    json_text(json, "core", plugin->core);
    json_close(json, '}');
}

static void options_json(json_t *json, const kvs_plugin_info_t *plugin)
{
    json_open(json, "options", '[');
    for (size_t i = 0; i < plugin->n_options; i++) {
        const kvs_plugin_option_t *option = &plugin->options[i];

        json_open(json, NULL, '{');
        json_text(json, "name", option->name);
        json_text(json, "type", option->type);
        json_text(json, "default", option->preset);
        json_text(json, "variable", option->variable);
        json_text(json, "doc", option->doc);
        json_close(json, '}');
    }
    json_close(json, ']');
}

void cli_plugin_json_open(json_t *json, const char *name, const kvs_plugin_info_t *plugin)
{
    json_open(json, name, '{');
    json_text(json, "name", plugin->name);
    json_text(json, "state", kvs_plugin_state_text(plugin->state));
    json_text(json, "reason", plugin->reason);
    json_text(json, "fix", plugin->fix);
    json_text(json, "version", plugin->version);
    json_text(json, "summary", plugin->summary);
    json_text(json, "package", plugin->package);
    json_text(json, "license", plugin->license);
    json_text(json, "arch", plugin->arch);
    json_text(json, "abi", plugin->abi);
    json_text(json, "manifest", plugin->manifest);
    json_text(json, "library", plugin->library);
    json_open(json, "provides", '[');
    for (size_t i = 0; i < plugin->n_provides; i++) {
        provide_json(json, &plugin->provides[i]);
    }
    json_close(json, ']');
    requires_json(json, plugin);
    options_json(json, plugin);
    json_texts(json, "notes", plugin->notes, plugin->n_notes);
}

void cli_plugin_json(json_t *json, const char *name, const kvs_plugin_info_t *plugin)
{
    cli_plugin_json_open(json, name, plugin);
    json_close(json, '}');
}
