/* SPDX-License-Identifier: Apache-2.0 */
/* plugin_list.c - kvstore/plugins.h for hosts and the `kvstore` command. */
#include "discovery.h"
#include "lookup.h"
#include "manifest.h"
#include "names.h"
#include "probe.h"
#include "registry.h"
#include "requirement.h"
#include "trust.h"
#include "verdict.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What the variable names, if it is set, else what the dynamic linker finds. */
static int is_found(const kvs_requirement_t *library)
{
    const char *other = library->variable[0] != '\0' ? secure_getenv(library->variable) : NULL;

    return other != NULL && other[0] != '\0'
               ? access(other, R_OK) == 0 || kvsi_library_is_found(other)
               : kvsi_library_is_found(library->name);
}

/* A scan leaves this out, since creating a store doesn't need it. The libraries are the list's
 * own. */
static void look_for_libraries(kvs_plugin_info_t *info)
{
    kvs_requirement_t *libraries = (kvs_requirement_t *)info->libraries;

    for (size_t i = 0; i < info->n_libraries; i++) {
        libraries[i].found = is_found(&libraries[i]);
    }
}

static const char *how_to_get(kvsi_arena_t *arena, const kvs_requirement_t *library)
{
    if (library->package[0] != '\0') {
        return kvsi_arena_text(arena, "package %s", library->package);
    }
    return library->why[0] != '\0'
               ? kvsi_arena_text(arena, "what brings %s (%s)", library->name, library->why)
               : kvsi_arena_text(arena, "what brings %s", library->name);
}

/* Without a library that it opens at run time a plugin loads, and is of no use. */
static void judge_libraries(kvsi_arena_t *arena, kvs_plugin_info_t *info)
{
    for (size_t i = 0; i < info->n_libraries; i++) {
        const kvs_requirement_t *library = &info->libraries[i];

        if (!library->found && library->variable[0] != '\0') {
            kvsi_judge(arena, info, KVS_PLUGIN_UNAVAILABLE,
                       kvsi_arena_text(arena, "install %s, or let %s name the library",
                                       how_to_get(arena, library), library->variable),
                       "%s not found%s%s", library->name, library->why[0] != '\0' ? ": " : "",
                       library->why);
        }
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
        judge_libraries(&list->arena, &list->plugins[i]);
        kvsi_trust_note(&list->arena, &list->plugins[i]);
    }
    status = kvsi_arena_check(&list->arena);
    if (status != KVS_OK) {
        kvs_plugin_list_free(list);
        return status;
    }
    *ret_list = list;
    return KVS_OK;
}

kvs_status_t kvs_plugin_read(const char *path, kvs_plugin_list_t **ret_list)
{
    kvs_plugin_list_t *list;
    kvs_status_t status;

    if (path == NULL || path[0] == '\0' || ret_list == NULL) {
        return kvs_fail(KVS_ERR_ARGUMENT, "plugin_read: %s",
                        ret_list == NULL ? "ret_list is NULL"
                        : path == NULL   ? "the path is NULL"
                                         : "the path is empty");
    }
    status = kvsi_discovery_read(path, &list);
    if (status == KVS_OK) {
        look_for_libraries(&list->plugins[0]);
        *ret_list = list;
    }
    return status;
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

size_t kvs_plugin_list_n_notes(const kvs_plugin_list_t *list)
{
    return list != NULL ? list->n_notes : 0;
}

const char *kvs_plugin_list_note(const kvs_plugin_list_t *list, size_t index)
{
    return index < kvs_plugin_list_n_notes(list) ? list->notes[index] : NULL;
}

kvs_status_t kvs_plugin_try(kvs_plugin_list_t *list, size_t index)
{
    const kvs_plugin_t *plugin;
    kvs_status_t status;

    if (index >= kvs_plugin_list_count(list)) {
        return kvs_fail(KVS_ERR_ARGUMENT, "plugin_try: there is no item %zu in a list of %zu",
                        index, kvs_plugin_list_count(list));
    }
    if (strcmp(list->plugins[index].manifest, KVSI_MANIFEST_PROGRAM) == 0) {
        return KVS_OK; /* no plugin */
    }
    status = kvsi_registry_load(list, &list->plugins[index], &plugin);
    if (status != KVS_OK || plugin == NULL) {
        return status;
    }
    for (size_t i = 0; i < plugin->n_backends; i++) {
        if (kvsi_probe_preset(plugin->backends[i]) != KVS_OK) {
            kvsi_judge(&list->arena, &list->plugins[index], KVS_PLUGIN_UNAVAILABLE, "", "%s",
                       kvs_last_error());
        }
    }
    for (size_t i = 0; i < plugin->n_providers; i++) {
        const kvs_provider_t *provider = plugin->providers[i];

        if (provider->probe != NULL && provider->probe() != KVS_OK) {
            kvsi_judge(&list->arena, &list->plugins[index], KVS_PLUGIN_UNAVAILABLE, "", "%s",
                       kvs_last_error());
        }
    }
    return kvsi_arena_check(&list->arena);
}
