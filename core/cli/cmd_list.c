/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_list.c - `kvstore list`: a line for each plugin along the search path, losers included.
 *
 * --json: {"version": of libkvstore, "paths": [searched, in order], "plugins": [...], "notes":
 * [texts]}; the members of a plugin are those of plugin_json.c. Exit status 0 also if nothing is
 * installed. */
#include "columns.h"
#include "commands.h"
#include "plugin_json.h"

#include <stdio.h>
#include <string.h>

static void list_json(const kvs_plugin_list_t *list)
{
    json_t json = JSON_INIT;

    json_open(&json, NULL, '{');
    json_text(&json, "version", kvs_version());
    json_open(&json, "paths", '[');
    for (size_t i = 0; i < kvs_plugin_list_n_paths(list); i++) {
        json_text(&json, NULL, kvs_plugin_list_path(list, i));
    }
    json_close(&json, ']');
    json_open(&json, "plugins", '[');
    for (size_t i = 0; i < kvs_plugin_list_count(list); i++) {
        cli_plugin_json(&json, NULL, kvs_plugin_list_at(list, i));
    }
    json_close(&json, ']');
    json_open(&json, "notes", '[');
    for (size_t i = 0; i < kvs_plugin_list_n_notes(list); i++) {
        json_text(&json, NULL, kvs_plugin_list_note(list, i));
    }
    json_close(&json, ']');
    json_close(&json, '}');
}

/* What of all that the plugin provides goes into one cell: each text once, at most as many as
 * fit. */
typedef struct texts {
    const char *items[32];
    size_t n;
} texts_t;

static void add_once(texts_t *texts, const char *text)
{
    for (size_t i = 0; i < texts->n; i++) {
        if (strcmp(texts->items[i], text) == 0) {
            return;
        }
    }
    if (texts->n < sizeof(texts->items) / sizeof(texts->items[0])) {
        texts->items[texts->n++] = text;
    }
}

static void add_row(columns_t *columns, const kvs_plugin_info_t *plugin)
{
    texts_t kinds = {.n = 0}, devices = {.n = 0};
    int priority = 0;
    char number[16] = "";

    for (size_t i = 0; i < plugin->n_provides; i++) {
        const kvs_provide_t *provide = &plugin->provides[i];

        add_once(&kinds, provide->kind);
        for (size_t j = 0; j < provide->n_devices; j++) {
            add_once(&devices, provide->devices[j]);
        }
        priority = provide->priority > priority ? provide->priority : priority;
        snprintf(number, sizeof(number), "%d", priority);
    }
    columns_add(columns, plugin->name);
    columns_add_list(columns, kinds.items, kinds.n);
    columns_add(columns, kvs_plugin_state_text(plugin->state));
    columns_add(columns, plugin->version);
    columns_add(columns, plugin->abi);
    columns_add(columns, number);
    columns_add_list(columns, devices.items, devices.n);
    columns_add(columns, plugin->manifest);
    columns_add(columns, plugin->reason);
}

static int fail_print(void)
{
    (void)kvs_fail(KVS_ERR_NO_MEMORY, "no memory to print the list");
    return cli_failed("list");
}

static int list_text(const kvs_plugin_list_t *list)
{
    static const char *const heads[] = {"NAME",     "KINDS",   "STATE", "VERSION", "ABI",
                                        "PRIORITY", "DEVICES", "FROM",  "REASON"};
    columns_t columns = {.n_columns = sizeof(heads) / sizeof(heads[0])};
    columns_t paths = {.n_columns = 1};

    for (size_t i = 0; i < columns.n_columns; i++) {
        columns_add(&columns, heads[i]);
    }
    for (size_t i = 0; i < kvs_plugin_list_count(list); i++) {
        add_row(&columns, kvs_plugin_list_at(list, i));
    }
    if (columns_print(&columns, 0) != 0) {
        return fail_print();
    }
    if (kvs_plugin_list_count(list) > 0) {
        return 0;
    }
    printf("no plugins found; searched:\n");
    for (size_t i = 0; i < kvs_plugin_list_n_paths(list); i++) {
        columns_add(&paths, kvs_plugin_list_path(list, i));
    }
    return columns_print(&paths, 2) == 0 ? 0 : fail_print();
}

int cmd_list(int argc, char **argv)
{
    kvs_plugin_list_t *list;
    int json, status = cli_parse(argc, argv, 0, NULL, &json);

    if (status != 0) {
        return status;
    }
    if (kvs_plugin_list(&list) != KVS_OK) {
        return cli_failed("list");
    }
    if (json) {
        list_json(list);
    } else {
        status = list_text(list);
    }
    kvs_plugin_list_free(list);
    return status;
}
