/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_info.c - `kvstore info NAME`: everything about the plugin that is named so or provides that.
 *
 * --json: one object, with the members of plugin_json.c and info_about.c, of info_device.c if it provides
 * devices, and of info_optimizer.c if it is the name of an optimizer. Exit status 1 if there is no
 * such name. */
#include "columns.h"
#include "commands.h"
#include "info_about.h"
#include "info_device.h"
#include "info_optimizer.h"
#include "plugin_json.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A line of two columns. */
static void add_line(columns_t *columns, const char *label, const char *format, ...)
    KVS_PRINTF(3, 4);
static void add_line(columns_t *columns, const char *label, const char *format, ...)
{
    va_list args;
    char *text = NULL;

    va_start(args, format);
    if (vasprintf(&text, format, args) < 0) {
        text = NULL;
        columns->failed = 1;
    }
    va_end(args);
    columns_add(columns, label);
    columns_add(columns, text != NULL ? text : "");
    free(text);
}

static void add_texts(columns_t *columns, const char *label, const char *const *texts, size_t n)
{
    if (n > 0) {
        columns_add(columns, label);
        columns_add_list(columns, texts, n);
    }
}

/* How to turn off what is on; what is wrong has its own fix. */
static void add_change(columns_t *columns, const kvs_plugin_info_t *plugin)
{
    if (plugin->state != KVS_PLUGIN_OK) {
        add_line(columns, "reason", "%s", plugin->reason);
        add_line(columns, "to change it", "%s", plugin->fix);
    } else if (plugin->manifest[0] == '(') {
        add_line(columns, "to change it", "the program added it");
    } else {
        add_line(columns, "to turn it off", "kvstore disable %s, or KVSTORE_PLUGINS=-%s%s%s",
                 plugin->name, plugin->name,
                 plugin->package[0] != '\0' ? ", or remove package " : "", plugin->package);
    }
}

static void print_plugin(columns_t *columns, const kvs_plugin_info_t *plugin)
{
    add_line(columns, "name", "%s", plugin->name);
    add_line(columns, "summary", "%s", plugin->summary);
    add_line(columns, "state", "%s", kvs_plugin_state_text(plugin->state));
    add_change(columns, plugin);
    add_line(columns, "version", "%s", plugin->version);
    add_line(columns, "package", "%s", plugin->package);
    add_line(columns, "license", "%s", plugin->license);
    add_line(columns, "arch", "%s", plugin->arch);
    add_line(columns, "abi", "%s", plugin->abi);
    add_line(columns, "manifest", "%s", plugin->manifest);
    add_line(columns, "library", "%s", plugin->library);
    for (size_t i = 0; i < plugin->n_notes; i++) {
        add_line(columns, "note", "%s", plugin->notes[i]);
    }
    columns->failed |= columns_print(columns, 0);
}

static void print_provide(columns_t *columns, const kvs_provide_t *provide)
{
    const char *can[6];
    size_t n = 0;

    printf("\nprovides %s %s\n", provide->kind, provide->name);
    add_texts(columns, "aliases", provide->aliases, provide->n_aliases);
    if (provide->word[0] != '\0') {
        add_line(columns, "word", "%s", provide->word);
    }
    add_texts(columns, "beside it", provide->with, provide->n_with);
    if (provide->priority != 0) {
        add_line(columns, "priority", "%d", (int)provide->priority);
    }
    add_texts(columns, "devices", provide->devices, provide->n_devices);
    add_texts(columns, "dtypes", provide->dtypes, provide->n_dtypes);
    if (provide->optimizer) {
        can[n++] = "optimizer";
    }
    if (provide->sparse) {
        can[n++] = "sparse";
    }
    if (provide->async) {
        can[n++] = "async";
    }
    if (provide->multi_worker) {
        can[n++] = "multi_worker";
    }
    if (provide->keeps_weights) {
        can[n++] = "keeps_weights";
    }
    add_texts(columns, "capabilities", can, n);
    add_texts(columns, "compression", provide->compression, provide->n_compression);
    columns->failed |= columns_print(columns, 2);
}

/* Whether arrays on such a device can be worked on: the CPU always, others by a plugin. */
static int has_provider(const kvs_plugin_list_t *list, const char *device)
{
    for (size_t i = 0; i < kvs_plugin_list_count(list); i++) {
        const kvs_plugin_info_t *plugin = kvs_plugin_list_at(list, i);

        for (size_t j = 0; j < plugin->n_provides && plugin->state == KVS_PLUGIN_OK; j++) {
            if (strcmp(plugin->provides[j].kind, "device") == 0 &&
                strcmp(plugin->provides[j].name, device) == 0) {
                return 1;
            }
        }
    }
    return strcmp(device, "cpu") == 0;
}

static void print_requirements(columns_t *columns, const kvs_plugin_list_t *list,
                               const kvs_plugin_info_t *plugin)
{
    if (plugin->n_libraries + plugin->n_devices == 0 && plugin->core[0] == '\0') {
        return;
    }
    printf("\nrequires\n");
    columns->n_columns = 4;
    if (plugin->core[0] != '\0') {
        columns_add(columns, "libkvstore");
        add_line(columns, plugin->state == KVS_PLUGIN_CORE_TOO_OLD ? "too old" : "found", "%s",
                 plugin->core);
        columns_add(columns, kvs_version());
    }
    for (size_t i = 0; i < plugin->n_libraries; i++) {
        const kvs_requirement_t *library = &plugin->libraries[i];

        columns_add(columns, library->name);
        columns_add(columns, library->found ? "found" : "not found");
        columns_add(columns, library->package);
        columns_add(columns, library->why);
    }
    for (size_t i = 0; i < plugin->n_devices; i++) {
        columns_add(columns, plugin->devices[i]);
        columns_add(columns, has_provider(list, plugin->devices[i]) ? "found" : "not found");
        columns_add(columns, "");
        columns_add(columns, "device");
    }
    columns->failed |= columns_print(columns, 2);
}

static void print_options(columns_t *columns, const kvs_plugin_info_t *plugin)
{
    if (plugin->n_options == 0) {
        return;
    }
    printf("\noptions\n");
    columns->n_columns = 4;
    for (size_t i = 0; i < plugin->n_options; i++) {
        columns_add(columns, plugin->options[i].name);
        columns_add(columns, plugin->options[i].type);
        columns_add(columns, plugin->options[i].preset);
        columns_add(columns, plugin->options[i].doc);
    }
    columns->failed |= columns_print(columns, 2);
}

static int info_text(kvs_plugin_list_t *list, const kvs_plugin_info_t *plugin, const char *name)
{
    columns_t columns = {.n_columns = 2};

    print_plugin(&columns, plugin);
    for (size_t i = 0; i < plugin->n_provides; i++) {
        print_provide(&columns, &plugin->provides[i]);
    }
    print_requirements(&columns, list, plugin);
    print_options(&columns, plugin);
    cli_about_text(&columns, list, plugin);
    cli_device_text(&columns, plugin);
    cli_optimizer_text(&columns, plugin, name);
    if (columns.failed) {
        (void)kvs_fail(KVS_ERR_NO_MEMORY, "no memory to print all of it");
        return cli_failed("info");
    }
    return 0;
}

int cmd_info(int argc, char **argv)
{
    const kvs_plugin_info_t *plugin;
    kvs_plugin_list_t *list = NULL;
    const char *name;
    int json, status = cli_parse(argc, argv, 1, &name, &json);

    if (status != 0) {
        return status;
    }
    if (kvs_plugin_list(&list) != KVS_OK || kvs_plugin_list_find(list, name, &plugin) != KVS_OK) {
        status = cli_failed("info");
    } else if (json) {
        json_t writer = JSON_INIT;

        cli_plugin_json_open(&writer, NULL, plugin);
        cli_about_json(&writer, list, plugin);
        cli_device_json(&writer, plugin);
        cli_optimizer_json(&writer, plugin, name);
        json_close(&writer, '}');
    } else {
        status = info_text(list, plugin, name);
    }
    kvs_plugin_list_free(list);
    return status;
}
