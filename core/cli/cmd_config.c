/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_config.c - `kvstore config [--json]`: every setting, its value, and where it came from.
 *
 * --json: {"settings": [{"owner", "name", "type", "value", "origin", "default", "doc", "error"}]}, all
 * texts; "error" is "" where create would take the value. Exit status 1 if it would refuse one. */
#include "columns.h"
#include "commands.h"
#include "json.h"

#include <kvstore/settings.h>

#include <stdio.h>
#include <string.h>

/* Why create would refuse the value, until the next call of the library; "" if it would not. What nobody
 * set is not tried: only a store that is created shows whether it can be had. */
static const char *refusal(const kvs_setting_t *setting)
{
    if (strcmp(setting->origin, "default") == 0 || kvs_setting_try(setting) == KVS_OK) {
        return setting->error;
    }
    return kvs_last_error();
}

static void config_json(const kvs_setting_list_t *list)
{
    json_t json = JSON_INIT;

    json_open(&json, NULL, '{');
    json_open(&json, "settings", '[');
    for (size_t i = 0; i < kvs_setting_list_count(list); i++) {
        const kvs_setting_t *setting = kvs_setting_list_at(list, i);

        json_open(&json, NULL, '{');
        json_text(&json, "owner", setting->owner);
        json_text(&json, "name", setting->name);
        json_text(&json, "type", setting->type);
        json_text(&json, "value", setting->value);
        json_text(&json, "origin", setting->origin);
        json_text(&json, "default", setting->preset);
        json_text(&json, "doc", setting->doc);
        json_text(&json, "error", refusal(setting));
        json_close(&json, '}');
    }
    json_close(&json, ']');
    json_close(&json, '}');
}

static int config_text(const kvs_setting_list_t *list)
{
    static const char *const heads[] = {"OWNER", "NAME", "VALUE", "FROM", "MEANING"};
    columns_t columns = {.n_columns = sizeof(heads) / sizeof(heads[0])};

    for (size_t i = 0; i < columns.n_columns; i++) {
        columns_add(&columns, heads[i]);
    }
    for (size_t i = 0; i < kvs_setting_list_count(list); i++) {
        const kvs_setting_t *setting = kvs_setting_list_at(list, i);

        columns_add(&columns, setting->owner);
        columns_add(&columns, setting->name);
        columns_add(&columns, setting->value);
        columns_add(&columns, setting->origin);
        columns_add(&columns, setting->doc);
    }
    if (columns_print(&columns, 0) != 0) {
        (void)kvs_fail(KVS_ERR_NO_MEMORY, "no memory to print the settings");
        return cli_failed("config");
    }
    return 0;
}

static int tell_malformed(const kvs_setting_list_t *list)
{
    int exit_status = 0;

    fflush(stdout);
    for (size_t i = 0; i < kvs_setting_list_count(list); i++) {
        const char *text = refusal(kvs_setting_list_at(list, i));

        if (text[0] != '\0') {
            fprintf(stderr, "kvstore config: %s\n", text);
            exit_status = 1;
        }
    }
    return exit_status;
}

int cmd_config(int argc, char **argv)
{
    kvs_setting_list_t *list;
    int json, exit_status = cli_parse(argc, argv, 0, NULL, &json);

    if (exit_status != 0) {
        return exit_status;
    }
    if (kvs_setting_list(&list) != KVS_OK) {
        return cli_failed("config");
    }
    if (json) {
        config_json(list);
    } else {
        exit_status = config_text(list);
    }
    exit_status |= tell_malformed(list);
    kvs_setting_list_free(list);
    return exit_status;
}
