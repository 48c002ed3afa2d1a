/* SPDX-License-Identifier: Apache-2.0 */
/* mask.c - kvs_plugin_disable and kvs_plugin_enable: making and removing masks (policy.h), an empty
 * file NAME.json that comes before the plugin's own. Nothing but a mask is ever removed. */
#include "discovery.h"
#include "lookup.h"
#include "manifest.h"
#include "names.h"
#include "policy.h"
#include "registry.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A mask that is to be made or removed, and what is installed before that. */
typedef struct change {
    kvs_plugin_list_t *list;
    const kvs_plugin_info_t *plugin; /* the first of that name; NULL: none is installed */
    const char *name;                /* the plugin's */
    const char *directory;           /* of the mask */
    const char *path;
    const char *hint; /* what to write behind the command: "" or " --user" */
} change_t;

/* ---- What there is -------------------------------------------------------------------------- */

/* The plugin of that name or that provides it. Of an unknown name nothing but the error is set. */
static kvs_status_t find_plugin(change_t *change, const char *name)
{
    kvsi_found_t found;
    char lower[128]; /* longer than any name */
    kvs_status_t status;

    snprintf(lower, sizeof(lower), "%s", name);
    kvsi_name_to_lower(lower);
    change->name = kvsi_arena_text(&change->list->arena, "%s", lower);
    status = kvsi_lookup_any(change->list, lower, &found);
    if (status == KVS_OK) {
        change->plugin = found.plugin;
        change->name = found.plugin->name;
    }
    return status;
}

static kvs_status_t find_place(change_t *change, int for_user)
{
    kvsi_arena_t *arena = &change->list->arena;

    change->hint = for_user ? " --user" : "";
    change->directory = for_user ? kvsi_searchpath_user(arena) : KVSI_SEARCHPATH_ADMIN;
    if (change->directory == NULL) {
        return kvs_fail(KVS_ERR_STATE, "there is no directory for the user's plugins: set HOME or "
                                       "XDG_DATA_HOME to an absolute path");
    }
    change->path = kvsi_arena_text(arena, "%s/%s.json", change->directory, change->name);
    return kvsi_arena_check(arena);
}

/* Where `directory` stands in the search path; the number of places if it doesn't. */
static size_t rank_of(const kvs_plugin_list_t *list, const char *directory)
{
    size_t rank = 0;

    while (rank < list->path.n_paths && !kvsi_is_same_place(list->path.paths[rank], directory)) {
        rank++;
    }
    return rank;
}

/* The place in which a manifest was found. */
static size_t rank_of_manifest(kvs_plugin_list_t *list, const char *manifest)
{
    const char *directory =
        kvsi_arena_copy(&list->arena, manifest, (size_t)(strrchr(manifest, '/') - manifest));

    for (size_t i = 0; i < list->path.n_paths; i++) {
        if (strcmp(list->path.paths[i], manifest) == 0 ||
            strcmp(list->path.paths[i], directory) == 0) {
            return i;
        }
    }
    return list->path.n_paths;
}

/* Whether a mask in that directory would come before the plugin. */
static kvs_status_t check_effect(change_t *change)
{
    kvs_plugin_list_t *list = change->list;
    size_t rank = rank_of(list, change->directory);

    if (change->plugin->manifest[0] == '(') {
        return kvs_fail(KVS_ERR_STATE,
                        "'%s' comes from the program itself, which no mask turns off",
                        change->name);
    }
    if (rank == list->path.n_paths) {
        return kvs_fail(KVS_ERR_STATE,
                        "a mask in %s would have no effect: that directory is not searched; add an "
                        "empty element to KVSTORE_PLUGIN_PATH, or use KVSTORE_PLUGINS=-%s",
                        change->directory, change->name);
    }
    if (rank_of_manifest(list, change->plugin->manifest) <= rank) {
        return kvs_fail(
            KVS_ERR_STATE,
            "a mask in %s would have no effect: %s comes before it; remove that file, or "
            "use KVSTORE_PLUGINS=-%s",
            change->directory, change->plugin->manifest, change->name);
    }
    return KVS_OK;
}

/* ---- Making and removing -------------------------------------------------------------------- */

static kvs_status_t cannot(const char *what, const char *path, const char *hint)
{
    int is_right = errno == EACCES || errno == EPERM || errno == EROFS;
    const char *mend = !is_right         ? ""
                       : hint[0] == '\0' ? "; run it as root, or with --user for this user alone"
                                         : "; is that directory yours?";

    return kvs_fail(KVS_ERR_IO, "cannot %s %s: %s%s", what, path, strerror(errno), mend);
}

/* As mkdir -p. */
static kvs_status_t make_directory(change_t *change)
{
    char *path = (char *)kvsi_arena_text(&change->list->arena, "%s/", change->directory);

    for (char *slash = strchr(path + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(path, 0755) != 0 && errno != EEXIST) {
            return cannot("make directory", path, change->hint);
        }
        *slash = '/';
    }
    return KVS_OK;
}

static int is_masked(const change_t *change)
{
    struct stat st;

    return stat(change->path, &st) == 0 && kvsi_policy_is_mask(&st);
}

static kvs_status_t make_mask(change_t *change)
{
    kvs_status_t status = make_directory(change);
    int fd;

    if (status != KVS_OK) {
        return status;
    }
    fd = open(change->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd < 0) {
        return cannot("make", change->path, change->hint);
    }
    (void)close(fd); /* nothing was written */
    return KVS_OK;
}

/* ---- The two calls -------------------------------------------------------------------------- */

static kvs_status_t disable(change_t *change, const char *name, int for_user)
{
    kvs_status_t status = find_plugin(change, name);

    if (status == KVS_OK) {
        status = find_place(change, for_user);
    }
    if (status != KVS_OK || is_masked(change)) {
        return status;
    }
    status = check_effect(change);
    return status == KVS_OK ? make_mask(change) : status;
}

/* Whatever else turns the plugin off now that the mask is gone. */
static kvs_status_t check_enabled(const char *name)
{
    kvs_plugin_list_t *list;
    kvsi_found_t found;
    kvs_status_t status = kvsi_registry_scan(&list);

    if (status != KVS_OK) {
        return status;
    }
    if (kvsi_lookup_any(list, name, &found) == KVS_OK &&
        found.plugin->state == KVS_PLUGIN_DISABLED) {
        status = kvs_fail(KVS_ERR_STATE, "plugin '%s' stays disabled: %s; %s", found.plugin->name,
                          found.plugin->reason, found.plugin->fix);
    }
    kvs_plugin_list_free(list);
    return status;
}

static kvs_status_t enable(change_t *change, const char *name, int for_user)
{
    kvs_status_t found = find_plugin(change, name), status;

    if (found != KVS_OK && !kvsi_name_is_valid(change->name)) {
        return found;
    }
    status = find_place(change, for_user);
    if (status != KVS_OK) {
        return status;
    }
    if (is_masked(change)) { /* perhaps of a plugin that is no longer there */
        if (unlink(change->path) != 0) {
            return cannot("remove", change->path, change->hint);
        }
    } else if (found != KVS_OK) {
        return find_plugin(change, name); /* for its text */
    }
    return check_enabled(change->name);
}

static kvs_status_t change_mask(const char *what, const char *name, int for_user,
                                kvs_status_t (*make)(change_t *change, const char *name,
                                                     int for_user))
{
    change_t change = {.plugin = NULL};
    kvs_status_t status;

    if (name == NULL || name[0] == '\0') {
        return kvs_fail(KVS_ERR_ARGUMENT, "%s: the name is %s", what,
                        name == NULL ? "NULL" : "empty");
    }
    status = kvsi_registry_scan(&change.list);
    if (status == KVS_OK) {
        status = make(&change, name, for_user);
        kvs_plugin_list_free(change.list);
    }
    return status;
}

kvs_status_t kvs_plugin_disable(const char *name, int for_user)
{
    return change_mask("plugin_disable", name, for_user, disable);
}

kvs_status_t kvs_plugin_enable(const char *name, int for_user)
{
    return change_mask("plugin_enable", name, for_user, enable);
}
