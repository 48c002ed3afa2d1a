/* SPDX-License-Identifier: Apache-2.0 */
/* plugin_list.c - kvstore/plugins.h for hosts and the `kvstore` command. */
#include "discovery.h"
#include "lookup.h"
#include "names.h"
#include "registry.h"
#include "requirement.h"

#include <stdio.h>

/* A scan leaves this out, since creating a store doesn't need it. The libraries are the list's
 * own. */
static void look_for_libraries(kvs_plugin_info_t *info)
{
    kvs_requirement_t *libraries = (kvs_requirement_t *)info->libraries;

    for (size_t i = 0; i < info->n_libraries; i++) {
        libraries[i].found = kvsi_library_is_found(libraries[i].name);
    }
}

kvs_status_t kvs_plugin_list(kvs_plugin_list_t **ret_list)
{
    kvs_plugin_list_t *list;
    kvs_status_t status;

    if (ret_list == NULL) {
        return kvs_fail(KVS_ERR_ARGUMENT, "plugin_list: ret_list is NULL");
    }
    status = kvsi_registry_scan(&list);
    if (status != KVS_OK) {
        return status;
    }
    for (size_t i = 0; i < list->n_plugins; i++) {
        look_for_libraries(&list->plugins[i]);
    }
    *ret_list = list;
    return KVS_OK;
}

size_t kvs_plugin_list_count(const kvs_plugin_list_t *list)
{
    return list != NULL ? list->n_plugins : 0;
}

const kvs_plugin_info_t *kvs_plugin_list_at(const kvs_plugin_list_t *list, size_t index)
{
    return index < kvs_plugin_list_count(list) ? &list->plugins[index] : NULL;
}

kvs_status_t kvs_plugin_list_find(const kvs_plugin_list_t *list, const char *name,
                                  const kvs_plugin_info_t **ret_plugin)
{
    char lower[128]; /* longer than any name */
    kvsi_found_t found;
    kvs_status_t status;

    if (list == NULL || name == NULL || ret_plugin == NULL) {
        return kvs_fail(KVS_ERR_ARGUMENT, "plugin_list_find: an argument is NULL");
    }
    snprintf(lower, sizeof(lower), "%s", name);
    kvsi_name_to_lower(lower);
    status = kvsi_lookup_any(list, lower, &found);
    if (status == KVS_OK) {
        *ret_plugin = found.plugin;
    }
    return status;
}

size_t kvs_plugin_list_n_paths(const kvs_plugin_list_t *list)
{
    return list != NULL ? list->path.n_paths : 0;
}

const char *kvs_plugin_list_path(const kvs_plugin_list_t *list, size_t index)
{
    return index < kvs_plugin_list_n_paths(list) ? list->path.paths[index] : NULL;
}
