/* SPDX-License-Identifier: Apache-2.0 */
/* registry.c - what the program added is appended to or replaced, but never freed: stores hold
 * pointers to it. */
#include "registry.h"

#include "catalogue.h"
#include "compat.h"
#include "descriptor.h"
#include "discovery.h"
#include "loader.h"
#include "log.h"
#include "lookup.h"
#include "manifest.h"
#include "names.h"
#include "status.h"
#include "verdict.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N_ITEMS(array) (sizeof(array) / sizeof((array)[0]))

/* Asked by the code of a plugin that is being loaded, it answers instead of blocking. */
static pthread_mutex_t lock = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;
static kvsi_added_t added;   /* guarded by lock, as are the others */
static kvsi_arena_t keeping; /* holds what `added` points to */
static struct {
    const kvs_provider_t *providers[32]; /* found so far: backends ask again and again */
    size_t n;
} found_providers;

/* In a forked child whose parent's other thread held the lock: it never comes free, and what it guards
 * may be half changed. */
static bool is_torn;

static void look_after_fork(void)
{
    if (pthread_mutex_trylock(&lock) == 0) {
        (void)pthread_mutex_unlock(&lock);
    } else {
        is_torn = true;
    }
}

static void watch_forks(void)
{
    (void)pthread_atfork(NULL, NULL, look_after_fork); /* without memory such a child would wait */
}

static kvs_status_t take_lock(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, watch_forks);
    if (is_torn) {
        return kvs_fail(KVS_ERR_STATE, "this process was forked while another thread looked for or "
                                       "loaded plugins; fork it when none does");
    }
    return pthread_mutex_lock(&lock) == 0
               ? KVS_OK
               : kvs_fail(KVS_ERR_STATE,
                          "plugins can't be asked for or added while one is loading");
}

static void drop_lock(void)
{
    (void)pthread_mutex_unlock(&lock); /* held */
}

/* ---- Finding -------------------------------------------------------------------------------- */

kvs_status_t kvsi_registry_scan(kvs_plugin_list_t **ret_list)
{
    kvs_status_t status = take_lock();

    if (status == KVS_OK) {
        status = kvsi_discovery_scan(&added, ret_list);
        drop_lock();
    }
    return status;
}

static kvs_plugin_entry_t static_entry(const kvs_plugin_info_t *info)
{
    for (size_t i = 0; i < added.n_statics; i++) {
        if (strcmp(info->manifest, KVSI_MANIFEST_STATIC) == 0 &&
            strcmp(info->name, added.statics[i].name) == 0) {
            return added.statics[i].entry;
        }
    }
    return NULL;
}

/* NULL with KVS_OK: it can't be loaded, and its verdict says why. */
static kvs_status_t load_locked(kvs_plugin_list_t *list, kvs_plugin_info_t *info,
                                const kvs_plugin_t **ret_plugin)
{
    *ret_plugin = info->state == KVS_PLUGIN_OK
                      ? kvsi_loader_load(&list->arena, info, static_entry(info))
                      : NULL;
    return kvsi_arena_check(&list->arena);
}

kvs_status_t kvsi_registry_load(kvs_plugin_list_t *list, kvs_plugin_info_t *info,
                                const kvs_plugin_t **ret_plugin)
{
    kvs_status_t status = take_lock();

    if (status == KVS_OK) {
        status = load_locked(list, info, ret_plugin);
        drop_lock();
    }
    return status;
}

const kvs_plugin_t *kvsi_registry_plugin_of(const kvs_backend_t *backend)
{
    const kvs_plugin_t *plugin = NULL;

    if (take_lock() == KVS_OK) {
        plugin = kvsi_loader_plugin_of(backend);
        drop_lock();
    }
    return plugin;
}

static const void *member_named(const kvs_plugin_t *plugin, const char *kind, const char *name)
{
    if (strcmp(kind, "backend") == 0) {
        for (size_t i = 0; i < plugin->n_backends; i++) {
            if (strcmp(plugin->backends[i]->name, name) == 0) {
                return plugin->backends[i];
            }
        }
    } else if (strcmp(kind, "optimizer") == 0) {
        for (size_t i = 0; i < plugin->n_optimizers; i++) {
            if (strcmp(plugin->optimizers[i]->name, name) == 0) {
                return plugin->optimizers[i];
            }
        }
    } else if (strcmp(kind, "compressor") == 0) {
        for (size_t i = 0; i < plugin->n_compressors; i++) {
            if (strcmp(plugin->compressors[i]->name, name) == 0) {
                return plugin->compressors[i];
            }
        }
    } else {
        for (size_t i = 0; i < plugin->n_providers; i++) {
            if (strcmp(plugin->providers[i]->name, name) == 0) {
                return plugin->providers[i];
            }
        }
    }
    return NULL;
}

/* What provides `name` (in lower case) of `kind` among static and installed plugins. */
static kvs_status_t find_locked(const char *kind, const char *name, const void **ret_member)
{
    kvs_plugin_list_t *list;
    const kvs_plugin_t *plugin = NULL;
    kvsi_found_t found;
    kvs_status_t status = kvsi_discovery_scan(&added, &list);

    if (status != KVS_OK) {
        return status;
    }
    status = kvsi_lookup(list, kind, name, &found);
    if (status == KVS_OK) {
        kvs_plugin_info_t *info = &list->plugins[found.plugin - list->plugins];

        status = load_locked(list, info, &plugin);
        if (status == KVS_OK && plugin != NULL) {
            /* There, since descriptor and manifest agree. */
            *ret_member = member_named(plugin, kind, found.provide->name);
        } else if (status == KVS_OK) {
            status = kvsi_fail_context(kvsi_verdict_fail(info), "%s \"%s\"", kind, name);
        }
    }
    kvs_plugin_list_free(list);
    return status;
}

static kvs_status_t find(const char *kind, const char *name, const void **ret_member)
{
    kvs_status_t status;
    char *lower = strdup(name);

    if (lower == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory to look for %s \"%.80s\"", kind, name);
    }
    kvsi_name_to_lower(lower);
    status = take_lock();
    if (status == KVS_OK) {
        const void *member = NULL;

        for (size_t i = 0; i < added.n_backends && strcmp(kind, "backend") == 0; i++) {
            if (strcmp(added.backends[i]->name, lower) == 0) {
                member = added.backends[i];
            }
        }
        if (member == NULL) {
            status = find_locked(kind, lower, &member);
        }
        if (status == KVS_OK) {
            *ret_member = member;
        }
        drop_lock();
    }
    free(lower);
    return status;
}

kvs_status_t kvsi_registry_find_backend(const char *name, const kvs_backend_t **ret_backend)
{
    const void *member;
    kvs_status_t status = find("backend", name, &member);

    if (status == KVS_OK) {
        *ret_backend = member;
    }
    return status;
}

kvs_status_t kvsi_registry_find_optimizer(const char *name, const kvs_optimizer_t **ret_optimizer)
{
    const void *member;
    kvs_status_t status = find("optimizer", name, &member);

    if (status == KVS_OK) {
        *ret_optimizer = member;
    }
    return status;
}

kvs_status_t kvsi_registry_find_compressor(const char *name,
                                           const kvs_compressor_t **ret_compressor)
{
    const void *member;
    kvs_status_t status = find("compressor", name, &member);

    if (status == KVS_OK) {
        *ret_compressor = member;
    }
    return status;
}

/* The plugin that updates weights in the worker. */
#define SERVICE_PLUGIN "optimizers"

static kvs_status_t find_service_locked(kvs_plugin_list_t *list,
                                        const kvs_optimizer_service_t **ret_service)
{
    const kvs_plugin_t *plugin;
    kvsi_found_t found;
    kvs_status_t status = kvsi_lookup_any(list, SERVICE_PLUGIN, &found);

    if (status != KVS_OK) {
        return status;
    }
    kvs_plugin_info_t *info = &list->plugins[found.plugin - list->plugins];

    status = load_locked(list, info, &plugin);
    if (status == KVS_OK && plugin == NULL) {
        return kvsi_verdict_fail(info);
    }
    if (status == KVS_OK && plugin->optimizer_service == NULL) {
        return kvs_fail(KVS_ERR_PLUGIN, "%s offers none", kvsi_place_of(info));
    }
    if (status == KVS_OK) {
        *ret_service = plugin->optimizer_service;
    }
    return status;
}

kvs_status_t kvsi_registry_find_optimizer_service(const kvs_optimizer_service_t **ret_service)
{
    kvs_plugin_list_t *list;
    kvs_status_t status = take_lock();

    if (status != KVS_OK) {
        return status;
    }
    status = kvsi_discovery_scan(&added, &list);
    if (status == KVS_OK) {
        status = find_service_locked(list, ret_service);
        kvs_plugin_list_free(list);
    }
    drop_lock();
    if (status == KVS_OK || status == KVS_ERR_NO_MEMORY) {
        return status;
    }
    return kvsi_fail_context(KVS_ERR_UNAVAILABLE, "optimizers in the worker need plugin '%s'",
                             SERVICE_PLUGIN);
}

static const kvs_provider_t *provider_of(int32_t device_type)
{
    for (size_t i = 0; i < found_providers.n; i++) {
        if (found_providers.providers[i]->device_type == device_type) {
            return found_providers.providers[i];
        }
    }
    return NULL;
}

static kvs_status_t find_provider_locked(int32_t device_type, const kvs_provider_t **ret_provider)
{
    const kvs_provider_t *known = provider_of(device_type);
    const char *name = kvsi_device_name(device_type);
    char number[16];
    const void *member;

    if (known == NULL) {
        snprintf(number, sizeof(number), "%d", (int)device_type);
        kvs_status_t status = find_locked("device", name != NULL ? name : number, &member);
        if (status != KVS_OK) {
            return status;
        }
        known = member;
        if (found_providers.n < N_ITEMS(found_providers.providers)) {
            found_providers.providers[found_providers.n++] = known;
        }
    }
    *ret_provider = known;
    return KVS_OK;
}

kvs_status_t kvsi_registry_find_provider(int32_t device_type, const kvs_provider_t **ret_provider)
{
    kvs_status_t status = take_lock();

    if (status == KVS_OK) {
        status = find_provider_locked(device_type, ret_provider);
        drop_lock();
    }
    return status;
}

/* ---- Adding --------------------------------------------------------------------------------- */

/* A copy of `items` with room for one more; the old array stays, somebody may be reading it. */
static void *grown(const void *items, size_t n_items, size_t item_bytes)
{
    void *copy = kvsi_arena_array(&keeping, n_items + 1, item_bytes);

    if (copy != NULL && n_items > 0) {
        memcpy(copy, items, n_items * item_bytes);
    }
    return copy;
}

/* Whether all that was allocated in `keeping` is there. */
static kvs_status_t kept(void)
{
    kvs_status_t status = kvsi_arena_check(&keeping);

    keeping.failed = 0;
    return status;
}

static kvs_status_t add_path_locked(const char *path)
{
    const char **paths = grown(added.paths, added.n_paths, sizeof(*paths));
    const char *absolute = kvsi_path_absolute(&keeping, path);
    kvs_status_t status = kept();

    if (status == KVS_OK) {
        paths[added.n_paths] = absolute;
        added.paths = paths;
        added.n_paths++;
    }
    return status;
}

kvs_status_t kvs_plugin_path_add(const char *path)
{
    kvs_status_t status;

    if (path == NULL || path[0] == '\0') {
        return kvs_fail(KVS_ERR_ARGUMENT, "plugin_path_add: the path is %s",
                        path == NULL ? "NULL" : "empty");
    }
    status = take_lock();
    if (status == KVS_OK) {
        status = add_path_locked(path);
        drop_lock();
    }
    return status;
}

static kvs_status_t add_static_locked(const kvs_plugin_info_t *info, const char *manifest,
                                      kvs_plugin_entry_t entry)
{
    kvsi_static_t *statics;
    kvs_status_t status;

    for (size_t i = 0; i < added.n_statics; i++) {
        if (strcmp(added.statics[i].name, info->name) == 0) {
            return kvs_fail(KVS_ERR_EXISTS, "plugin_register: plugin '%s' is registered already",
                            info->name);
        }
    }
    statics = grown(added.statics, added.n_statics, sizeof(*statics));
    kvsi_static_t one = {kvsi_arena_text(&keeping, "%s", info->name),
                         kvsi_arena_text(&keeping, "%s", manifest), entry};
    status = kept();
    if (status == KVS_OK) {
        statics[added.n_statics] = one;
        added.statics = statics;
        added.n_statics++;
    }
    return status;
}

kvs_status_t kvs_plugin_register(kvs_plugin_entry_t entry, const char *manifest_text)
{
    kvsi_arena_t arena = KVSI_ARENA_INIT;
    kvs_plugin_info_t info;
    kvs_status_t status;

    if (entry == NULL || manifest_text == NULL) {
        return kvs_fail(KVS_ERR_ARGUMENT, "plugin_register: the %s is NULL",
                        entry == NULL ? "entry" : "manifest");
    }
    info = kvsi_manifest_blank(&arena, KVSI_MANIFEST_STATIC);
    kvsi_manifest_parse(&arena, manifest_text, strlen(manifest_text), &info);
    kvsi_compat_check(&arena, &info);
    status = kvsi_arena_check(&arena);
    if (status == KVS_OK && info.state == KVS_PLUGIN_BAD_MANIFEST) {
        status = kvs_fail(KVS_ERR_FORMAT, "plugin_register: %s", info.reason);
    } else if (status == KVS_OK && info.state != KVS_PLUGIN_OK) {
        status = kvsi_verdict_fail(&info);
    }
    if (status == KVS_OK) {
        status = take_lock();
    }
    if (status == KVS_OK) {
        status = add_static_locked(&info, manifest_text, entry);
        drop_lock();
    }
    kvsi_arena_release(&arena);
    return status;
}

/* The backend in the core's own tables, under `name` (in lower case). */
static kvs_status_t copy_backend_locked(const char *name, const kvs_backend_t *backend,
                                        const kvs_backend_t **ret_backend)
{
    kvsi_complaint_t complaint;
    const kvs_backend_t *copy = kvsi_backend_copy(&keeping, backend, &complaint);
    kvs_backend_t *named = kvsi_arena_array(&keeping, 1, sizeof(*named));
    const char *kept_name = kvsi_arena_text(&keeping, "%s", name);
    kvs_status_t status = kept();

    if (status == KVS_OK && copy == NULL) {
        status = kvs_fail(KVS_ERR_ARGUMENT, "register_backend '%s': %s", name, complaint.text);
    }
    if (status == KVS_OK) {
        *named = *copy;
        named->name = kept_name;
        *ret_backend = named;
    }
    return status;
}

static kvs_status_t add_backend_locked(const char *name, const kvs_backend_t *backend,
                                       int *ret_replaced)
{
    const kvs_backend_t *copy, **backends;
    size_t place = 0;
    kvs_status_t status = copy_backend_locked(name, backend, &copy);

    if (status != KVS_OK) {
        return status;
    }
    backends = grown(added.backends, added.n_backends, sizeof(*backends));
    status = kept();
    if (status != KVS_OK) {
        return status;
    }
    while (place < added.n_backends && strcmp(backends[place]->name, name) != 0) {
        place++;
    }
    *ret_replaced = place < added.n_backends;
    backends[place] = copy;
    added.backends = backends;
    added.n_backends += place == added.n_backends;
    return KVS_OK;
}

kvs_status_t kvs_register_backend(const char *name, const kvs_backend_t *backend)
{
    int replaced = 0;
    kvs_status_t status;
    char *lower;

    if (name == NULL || backend == NULL) {
        return kvs_fail(KVS_ERR_ARGUMENT, "register_backend: the %s is NULL",
                        name == NULL ? "name" : "backend");
    }
    lower = strdup(name);
    if (lower == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory to register backend '%.80s'", name);
    }
    kvsi_name_to_lower(lower);
    status = kvsi_name_is_valid(lower)
                 ? take_lock()
                 : kvs_fail(KVS_ERR_ARGUMENT,
                            "register_backend: the name is \"%.80s\"; it must be 1 to 64 of a-z, "
                            "0-9, _ and -, beginning with a letter or digit",
                            name);
    if (status == KVS_OK) {
        status = add_backend_locked(lower, backend, &replaced);
        drop_lock();
    }
    if (replaced) {
        kvsi_log(KVS_LOG_WARN, "registry", "backend '%s' is registered again: the new one counts",
                 lower);
    }
    free(lower);
    return status;
}
