/* SPDX-License-Identifier: Apache-2.0 */
/* loader.c - libltdl is used here only. Measured with 2.4.7 on Debian 12: a custom loader through
 * lt_dlloader_add would leave the lazy built-in one in place, for everybody in the process. */
#include "loader.h"

#include "claims.h"
#include "compat.h"
#include "descriptor.h"
#include "elfcheck.h"
#include "host.h"
#include "log.h"
#include "verdict.h"

#include <dlfcn.h>
#include <locale.h>
#include <ltdl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ENTRY_SYMBOL "kvs_plugin_entry_v1"

/* A plugin that was loaded. Never freed: stores and threads of plugins may outlive everything. */
typedef struct loaded {
    struct loaded *next;
    kvs_plugin_entry_t entry; /* what identifies it: two paths may lead to one shared object */
    const char *library;      /* where it was found first */
    const kvs_plugin_t *plugin;
    kvsi_arena_t arena; /* holds the two above */
} loaded_t;

static loaded_t *loaded_plugins; /* guarded by the registry's lock */

/* ---- Opening -------------------------------------------------------------------------------- */

/* What dlopen says, in the language that the causes below are looked for in. */
static const char *linker_error(kvsi_arena_t *arena)
{
    locale_t english = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    locale_t before = english != (locale_t)0 ? uselocale(english) : (locale_t)0;
    const char *text = dlerror();
    const char *copy = kvsi_arena_text(arena, "%s", text != NULL ? text : "unknown cause");

    if (english != (locale_t)0) {
        uselocale(before);
        freelocale(english);
    }
    return copy;
}

static kvs_plugin_state_t state_of_cause(const char *cause)
{
    static const struct {
        const char *part;
        kvs_plugin_state_t state;
    } causes[] = {
        {"undefined symbol", KVS_PLUGIN_UNRESOLVED_SYMBOL},
        {"version `", KVS_PLUGIN_UNRESOLVED_SYMBOL}, /* a library too old for it */
        {"cannot open shared object file", KVS_PLUGIN_MISSING_DEPENDENCY},
        {"static TLS", KVS_PLUGIN_UNAVAILABLE},
        {"cannot allocate", KVS_PLUGIN_UNAVAILABLE},
        {"failed to map", KVS_PLUGIN_UNAVAILABLE},
        {"cannot map", KVS_PLUGIN_UNAVAILABLE},
    };

    for (size_t i = 0; i < sizeof(causes) / sizeof(causes[0]); i++) {
        if (strstr(cause, causes[i].part) != NULL) {
            return causes[i].state;
        }
    }
    return KVS_PLUGIN_NOT_ELF;
}

/* The cause of a missing dependency begins with its name; the manifest may know its package. */
static const char *fix_of_cause(kvsi_arena_t *arena, const kvs_plugin_info_t *info,
                                kvs_plugin_state_t state, const char *cause)
{
    size_t len = strcspn(cause, ":");

    if (state != KVS_PLUGIN_MISSING_DEPENDENCY) {
        return kvsi_fix_reinstall(arena, info);
    }
    for (size_t i = 0; i < info->n_libraries; i++) {
        const kvs_requirement_t *library = &info->libraries[i];

        if (strlen(library->name) == len && memcmp(library->name, cause, len) == 0 &&
            library->package[0] != '\0') {
            return kvsi_arena_text(arena, "install package %s", library->package);
        }
    }
    return kvsi_arena_text(arena, "install the package that brings %.*s", (int)len, cause);
}

/* Let libltdl take an object that dlopen has just opened, and keep it. */
static lt_dlhandle take_over(const char *path)
{
    lt_dlhandle handle = NULL;
    lt_dladvise advise;

    if (lt_dladvise_init(&advise) == 0) {
        if (lt_dladvise_local(&advise) == 0 && lt_dladvise_resident(&advise) == 0) {
            handle = lt_dlopenadvise(path, advise);
        }
        (void)lt_dladvise_destroy(&advise); /* it can't fail on one that was made */
    }
    return handle;
}

static kvs_plugin_entry_t find_entry(lt_dlhandle handle)
{
    void *symbol = lt_dlsym(handle, ENTRY_SYMBOL);
    kvs_plugin_entry_t entry;

    memcpy(&entry, &symbol, sizeof(entry)); /* ISO C has no cast from data to function pointers */
    return entry;
}

/* The entry of the plugin's shared object; NULL: judged. */
static kvs_plugin_entry_t open_library(kvsi_arena_t *arena, kvs_plugin_info_t *info)
{
    static int ltdl_ready; /* guarded by the registry's lock; never undone */
    char reason[512];
    kvs_plugin_state_t state = kvsi_elf_check(info->library, reason, sizeof(reason));

    if (state != KVS_PLUGIN_OK) {
        kvsi_judge(arena, info, state, kvsi_fix_reinstall(arena, info), "%s", reason);
        return NULL;
    }
    (void)dlerror();
    void *opened = dlopen(info->library, RTLD_NOW | RTLD_LOCAL);
    if (opened == NULL) {
        const char *cause = linker_error(arena);

        state = state_of_cause(cause);
        kvsi_judge(arena, info, state, fix_of_cause(arena, info, state, cause), "%s", cause);
        return NULL;
    }
    ltdl_ready = ltdl_ready || lt_dlinit() == 0;
    lt_dlhandle handle = ltdl_ready ? take_over(info->library) : NULL;
    if (handle == NULL) {
        const char *cause = lt_dlerror();

        kvsi_judge(arena, info, KVS_PLUGIN_UNAVAILABLE, kvsi_fix_reinstall(arena, info),
                   "libltdl cannot open %s: %s", info->library,
                   cause != NULL ? cause : "unknown cause");
        return NULL; /* `opened` is kept: what was loaded is never unmapped */
    }
    (void)dlclose(opened); /* libltdl holds it now */
    kvs_plugin_entry_t entry = find_entry(handle);
    if (entry == NULL) {
        kvsi_judge(arena, info, KVS_PLUGIN_ENTRY_MISSING,
                   "build the plugin with the KVS_PLUGIN macro of kvstore/plugin.h",
                   "%s has no symbol " ENTRY_SYMBOL, info->library);
    }
    return entry;
}

/* ---- The descriptor ------------------------------------------------------------------------- */

static const kvs_plugin_t *call_entry(kvsi_arena_t *arena, kvs_plugin_info_t *info,
                                      kvs_plugin_entry_t entry)
{
    const char *refusal = NULL;
    const kvs_plugin_t *plugin = entry(kvsi_host(), &refusal);

    if (plugin == NULL) {
        kvsi_judge(arena, info, KVS_PLUGIN_UNAVAILABLE, "", "the plugin refused to load: %s",
                   refusal != NULL ? refusal : "it gave no reason");
        return NULL;
    }
    if (plugin->size >=
            offsetof(kvs_plugin_t, name) && /* a shorter one is refused as a whole later */
        !kvsi_abi_is_served(plugin->abi_major, plugin->abi_minor)) {
        kvsi_judge(arena, info, KVS_PLUGIN_ABI_MISMATCH, kvsi_fix_reinstall(arena, info),
                   "%s was built for ABI %u.%u, this library offers %d.0 to %d.%d",
                   kvsi_place_of(info), plugin->abi_major, plugin->abi_minor, KVS_ABI_MAJOR,
                   KVS_ABI_MAJOR, KVS_ABI_MINOR);
        return NULL;
    }
    return plugin;
}

/* By its entry or, if that isn't known yet, by its path. */
static const loaded_t *find_loaded(kvs_plugin_entry_t entry, const char *library)
{
    const loaded_t *loaded = loaded_plugins;

    while (loaded != NULL &&
           (entry != NULL ? loaded->entry != entry : strcmp(loaded->library, library) != 0)) {
        loaded = loaded->next;
    }
    return loaded;
}

/* Copy what the entry gives, and remember it. */
static const loaded_t *adopt(kvsi_arena_t *arena, kvs_plugin_info_t *info, kvs_plugin_entry_t entry)
{
    const kvs_plugin_t *plugin = call_entry(arena, info, entry);
    loaded_t *loaded = plugin != NULL ? calloc(1, sizeof(*loaded)) : NULL;
    kvsi_complaint_t complaint = {""};

    if (loaded == NULL) {
        arena->failed |= plugin != NULL;
        return NULL;
    }
    loaded->entry = entry;
    loaded->library = kvsi_arena_text(&loaded->arena, "%s", info->library);
    loaded->plugin = kvsi_plugin_copy(&loaded->arena, plugin, &complaint);
    if (loaded->plugin == NULL) {
        if (complaint.text[0] != '\0') {
            kvsi_judge(arena, info, KVS_PLUGIN_ABI_MISMATCH, "report it to the plugin's author",
                       "%s breaks the ABI: %s", kvsi_place_of(info), complaint.text);
        } else {
            arena->failed = 1;
        }
        kvsi_arena_release(&loaded->arena);
        free(loaded);
        return NULL;
    }
    loaded->next = loaded_plugins;
    loaded_plugins = loaded;
    kvsi_log(KVS_LOG_DEBUG, "loader", "plugin '%s' version %s loaded from '%s'",
             loaded->plugin->name, loaded->plugin->version, kvsi_place_of(info));
    return loaded;
}

const kvs_plugin_t *kvsi_loader_load(kvsi_arena_t *arena, kvs_plugin_info_t *info,
                                     kvs_plugin_entry_t entry)
{
    const loaded_t *loaded = find_loaded(entry, info->library);
    int is_new = loaded == NULL;

    if (loaded == NULL && entry == NULL) {
        entry = open_library(arena, info);
        if (entry == NULL) {
            return NULL;
        }
        loaded = find_loaded(entry, info->library);
    }
    if (loaded == NULL) {
        loaded = adopt(arena, info, entry);
    }
    if (loaded == NULL) {
        return NULL;
    }
    const char *fix = kvsi_fix_reinstall(arena, info);
    if (!is_new) {
        fix = kvsi_arena_text(arena,
                              "restart this process, which holds the library as it was; if "
                              "that doesn't help, %s",
                              fix);
    }
    kvsi_claims_check(arena, info, loaded->plugin, fix);
    return info->state == KVS_PLUGIN_OK ? loaded->plugin : NULL;
}

const kvs_plugin_t *kvsi_loader_plugin_of(const kvs_backend_t *backend)
{
    for (const loaded_t *loaded = loaded_plugins; loaded != NULL; loaded = loaded->next) {
        for (size_t i = 0; i < loaded->plugin->n_backends; i++) {
            if (loaded->plugin->backends[i] == backend) {
                return loaded->plugin;
            }
        }
    }
    return NULL;
}
