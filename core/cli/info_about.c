/* SPDX-License-Identifier: Apache-2.0 */
/* info_about.c - see info_about.h. */
#include "info_about.h"

#include "trial.h"

#include <stdio.h>
#include <string.h>

#define TIMEOUT_S 10

/* Fills the trial, if the plugin is worth one; 1 or 0. */
static int try_it(kvs_plugin_list_t *list, const kvs_plugin_info_t *plugin, trial_t *ret_trial)
{
    size_t index = 0;

    if (plugin->state != KVS_PLUGIN_OK && plugin->state != KVS_PLUGIN_UNAVAILABLE) {
        return 0;
    }
    while (kvs_plugin_list_at(list, index) != plugin) {
        index++;
    }
    if (cli_trial_about(list, index, TIMEOUT_S, ret_trial) != 0) {
        ret_trial->state = KVS_PLUGIN_UNAVAILABLE;
        snprintf(ret_trial->reason, sizeof(ret_trial->reason), "not tried: %s", kvs_last_error());
    }
    return 1;
}

/* Cut the next label and text off; 0: there is none. */
static int next_line(char **io_rest, const char **ret_label, const char **ret_text)
{
    *ret_label = strsep(io_rest, "\n");
    *ret_text = *io_rest != NULL ? strsep(io_rest, "\n") : NULL;
    return *ret_text != NULL && *io_rest != NULL;
}

void cli_about_text(columns_t *columns, kvs_plugin_list_t *list, const kvs_plugin_info_t *plugin)
{
    trial_t trial = {.state = KVS_PLUGIN_OK};
    char *rest = trial.about, usable[sizeof(trial.reason) + 8];
    const char *label, *text;

    if (!try_it(list, plugin, &trial)) {
        return;
    }
    snprintf(usable, sizeof(usable), "%s%s",
             trial.state == KVS_PLUGIN_OK ? "yes" : "no: ", trial.reason);
    printf("\non this machine\n");
    columns->n_columns = 2;
    columns_add(columns, "usable");
    columns_add(columns, usable);
    while (next_line(&rest, &label, &text)) {
        columns_add(columns, label);
        columns_add(columns, text);
    }
    columns->failed |= columns_print(columns, 2);
}

void cli_about_json(json_t *json, kvs_plugin_list_t *list, const kvs_plugin_info_t *plugin)
{
    trial_t trial = {.state = KVS_PLUGIN_OK};
    char *rest = trial.about;
    const char *label, *text;

    if (!try_it(list, plugin, &trial)) {
        json_text(json, "machine", NULL);
        return;
    }
    json_open(json, "machine", '{');
    json_text(json, "state", kvs_plugin_state_text(trial.state));
    json_text(json, "reason", trial.reason);
    json_open(json, "found", '[');
    while (next_line(&rest, &label, &text)) {
        json_open(json, NULL, '{');
        json_text(json, "label", label);
        json_text(json, "text", text);
        json_close(json, '}');
    }
    json_close(json, ']');
    json_close(json, '}');
}
