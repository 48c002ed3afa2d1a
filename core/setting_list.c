/* SPDX-License-Identifier: Apache-2.0 */
/* setting_list.c - asks config.c for each setting of the core and of the installed manifests. */
#include <kvstore/plugins.h>
#include <kvstore/settings.h>

#include "config.h"
#include "environment.h"
#include "near.h"
#include "probe.h"
#include "status.h"
#include "trace.h"
#include "verdict.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct kvs_setting_list {
    kvsi_arena_t arena;
    kvs_setting_t *settings;
    size_t n, room;
    const char *const *notes;
    size_t n_notes;
};

static const char *copy(kvsi_arena_t *arena, const char *text)
{
    return kvsi_arena_copy(arena, text, strlen(text));
}

static void add(kvs_setting_list_t *list, const kvsi_conf_t *conf, const char *owner,
                const kvs_option_info_t *info)
{
    kvsi_arena_t *arena = &list->arena;
    kvs_setting_t *setting = &list->settings[list->n++];
    const char *text, *origin;

    kvsi_config_source(arena, conf, info, &text, &origin);
    *setting = (kvs_setting_t){
        copy(arena, owner),  copy(arena, info->name),   copy(arena, info->type), copy(arena, text),
        copy(arena, origin), copy(arena, info->preset), copy(arena, info->doc),  ""};
    if (kvsi_config_check(info, text, origin) != KVS_OK) {
        setting->error = copy(arena, kvs_last_error());
    }
}

static void add_options_of(kvs_setting_list_t *list, const kvsi_conf_t *conf,
                           const kvs_plugin_info_t *plugin)
{
    for (size_t i = 0; i < plugin->n_options; i++) {
        const kvs_plugin_option_t *option = &plugin->options[i];
        kvs_option_info_t info = {.name = option->name,
                                  .type = option->type,
                                  .preset = option->preset,
                                  .doc = option->doc,
                                  .variable =
                                      option->variable[0] == '\0' ? NULL : option->variable};

        add(list, conf, plugin->name, &info);
    }
}

/* ---- What nobody reads ----------------------------------------------------------------------- */

/* Variables of ours that are no settings. */
static const char *const other_variables[] = {
    "plugin_path", "plugins", "bench_quick", "library",          "python_fast", "python",
    "shm",         "command", "cuda_driver", "byteps_allow_cpu", "nccl_library"};

/* Whether a setting has that name; the others are offered as near ones. */
static int is_setting(const kvs_plugin_list_t *plugins, const char *name, kvsi_near_t *near)
{
    const kvs_option_info_t *core;
    int known = 0;

    for (size_t i = 0; (core = kvsi_config_core_option(i)) != NULL; i++) {
        known |= strcmp(core->name, name) == 0;
        kvsi_near_offer(near, core->name);
    }
    for (size_t i = 0; i < kvs_plugin_list_count(plugins); i++) {
        const kvs_plugin_info_t *plugin = kvs_plugin_list_at(plugins, i);

        for (size_t j = 0; j < plugin->n_options; j++) {
            known |= strcmp(plugin->options[j].name, name) == 0;
            kvsi_near_offer(near, plugin->options[j].name);
        }
    }
    return known;
}

static void note_keys(kvs_setting_list_t *list, const kvsi_conf_t *conf,
                      const kvs_plugin_list_t *plugins)
{
    for (const kvsi_conf_entry_t *entry = conf->first; entry != NULL; entry = entry->next) {
        kvsi_near_t near = KVSI_NEAR_INIT(entry->key);

        if (!is_setting(plugins, entry->key, &near)) {
            kvsi_note(&list->arena, &list->notes, &list->n_notes, "%s: unknown key \"%s\"%s%s",
                      entry->origin, entry->key, kvsi_near_text(&near),
                      near.text[0] != '\0' ? "?" : "");
        }
    }
}

/* `variable` is an entry of the environment without its prefix. */
static void note_variable(kvs_setting_list_t *list, const char *variable,
                          const kvs_plugin_list_t *plugins)
{
    char name[64];
    kvsi_near_t near = KVSI_NEAR_INIT(name);
    int known = 0;

    snprintf(name, sizeof(name), "%.*s", (int)strcspn(variable, "="), variable);
    for (char *c = name; *c != '\0'; c++) {
        *c = (char)tolower((unsigned char)*c);
    }
    for (size_t i = 0; i < sizeof(other_variables) / sizeof(other_variables[0]); i++) {
        known |= strcmp(other_variables[i], name) == 0;
    }
    if (!known && !is_setting(plugins, name, &near)) {
        kvsi_note(&list->arena, &list->notes, &list->n_notes,
                  "variable KVSTORE_%.*s: there is no setting \"%s\"%s%s",
                  (int)strcspn(variable, "="), variable, name, kvsi_near_text(&near),
                  near.text[0] != '\0' ? "?" : "");
    }
}

static void note_variables(kvs_setting_list_t *list, const kvs_plugin_list_t *plugins)
{
    static const char prefix[] = "KVSTORE_";

    for (char **entry = environ; entry != NULL && *entry != NULL && !kvsi_is_secure(); entry++) {
        if (strncmp(*entry, prefix, strlen(prefix)) == 0) {
            note_variable(list, *entry + strlen(prefix), plugins);
        }
    }
}

static kvs_status_t fill(kvs_setting_list_t *list, const kvs_plugin_list_t *plugins)
{
    size_t n_plugins = kvs_plugin_list_count(plugins);
    kvsi_conf_t conf;
    kvs_status_t status = kvsi_conf_read(&list->arena, &conf);

    if (status != KVS_OK) {
        return status;
    }
    while (kvsi_config_core_option(list->room) != NULL) {
        list->room++;
    }
    for (size_t i = 0; i < n_plugins; i++) {
        list->room += kvs_plugin_list_at(plugins, i)->n_options;
    }
    list->settings = kvsi_arena_array(&list->arena, list->room, sizeof(*list->settings));
    if (list->settings == NULL) {
        return kvsi_arena_check(&list->arena);
    }
    for (size_t i = 0; kvsi_config_core_option(i) != NULL; i++) {
        add(list, &conf, "core", kvsi_config_core_option(i));
    }
    for (size_t i = 0; i < n_plugins; i++) {
        const kvs_plugin_info_t *plugin = kvs_plugin_list_at(plugins, i);

        if (plugin->state == KVS_PLUGIN_OK) {
            add_options_of(list, &conf, plugin);
        }
    }
    note_keys(list, &conf, plugins);
    note_variables(list, plugins);
    return kvsi_arena_check(&list->arena);
}

kvs_status_t kvs_setting_list(kvs_setting_list_t **ret_list)
{
    kvs_setting_list_t *list;
    kvs_plugin_list_t *plugins;
    kvs_status_t status;

    if (ret_list == NULL) {
        return kvs_fail(KVS_ERR_ARGUMENT, "setting_list: ret_list is NULL");
    }
    list = calloc(1, sizeof(*list));
    if (list == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "setting_list: no memory");
    }
    status = kvs_plugin_list(&plugins);
    if (status == KVS_OK) {
        status = fill(list, plugins);
        kvs_plugin_list_free(plugins);
    }
    if (status != KVS_OK) {
        kvs_setting_list_free(list);
        return status;
    }
    *ret_list = list;
    return KVS_OK;
}

void kvs_setting_list_free(kvs_setting_list_t *list)
{
    if (list != NULL) {
        kvsi_arena_release(&list->arena);
        free(list);
    }
}

size_t kvs_setting_list_count(const kvs_setting_list_t *list)
{
    return list == NULL ? 0 : list->n;
}

const kvs_setting_t *kvs_setting_list_at(const kvs_setting_list_t *list, size_t index)
{
    return list != NULL && index < list->n ? &list->settings[index] : NULL;
}

size_t kvs_setting_list_n_notes(const kvs_setting_list_t *list)
{
    return list == NULL ? 0 : list->n_notes;
}

const char *kvs_setting_list_note(const kvs_setting_list_t *list, size_t index)
{
    return index < kvs_setting_list_n_notes(list) ? list->notes[index] : NULL;
}

kvs_status_t kvs_setting_try(const kvs_setting_t *setting)
{
    kvsi_arena_t arena = KVSI_ARENA_INIT;
    kvs_status_t status = KVS_OK;

    if (setting == NULL) {
        return kvs_fail(KVS_ERR_ARGUMENT, "setting_try: the setting is NULL");
    }
    if (setting->error[0] != '\0') {
        return kvs_fail(KVS_ERR_ARGUMENT, "%s", setting->error);
    }
    if (strcmp(setting->owner, "core") != 0) {
        return KVS_OK;
    }
    if (strcmp(setting->name, "default") == 0) {
        status = kvsi_probe_name(setting->value);
    } else if (strcmp(setting->name, "required") == 0) {
        status = kvsi_probe_list(&arena, setting->value);
    } else if (strcmp(setting->name, "trace") == 0) {
        status = kvsi_trace_try(setting->value);
    }
    kvsi_arena_release(&arena);
    return status == KVS_OK ? KVS_OK
                            : kvsi_fail_context(status, "%s: %s is \"%.80s\"", setting->origin,
                                                setting->name, setting->value);
}
