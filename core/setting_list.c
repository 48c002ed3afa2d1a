/* SPDX-License-Identifier: Apache-2.0 */
/* setting_list.c - asks config.c for each setting of the core and of the installed manifests. */
#include <kvstore/plugins.h>
#include <kvstore/settings.h>

#include "config.h"

#include <stdlib.h>
#include <string.h>

struct kvs_setting_list {
    kvsi_arena_t arena;
    kvs_setting_t *settings;
    size_t n, room;
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
    *setting = (kvs_setting_t){copy(arena, owner),        copy(arena, info->name),
                               copy(arena, info->type),   copy(arena, text),
                               copy(arena, origin),       copy(arena, info->preset),
                               copy(arena, info->doc),    ""};
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
                                  .variable = option->variable[0] == '\0' ? NULL
                                                                          : option->variable};

        add(list, conf, plugin->name, &info);
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
