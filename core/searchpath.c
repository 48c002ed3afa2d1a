/* SPDX-License-Identifier: Apache-2.0 */
/* searchpath.c - built anew for each look at what is installed, from the environment of that
 * moment. */
#include "searchpath.h"

#include "environment.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SUBDIR "kvstore/plugins.d"

const char *kvsi_path_absolute(kvsi_arena_t *arena, const char *path)
{
    char cwd[PATH_MAX];

    if (path[0] == '/' || getcwd(cwd, sizeof(cwd)) == NULL) {
        return kvsi_arena_text(arena, "%s", path);
    }
    return kvsi_arena_text(arena, "%s/%s", strcmp(cwd, "/") == 0 ? "" : cwd, path);
}

int kvsi_is_same_place(const char *a, const char *b)
{
    char real_a[PATH_MAX], real_b[PATH_MAX];

    if (strcmp(a, b) == 0) {
        return 1;
    }
    return realpath(a, real_a) != NULL && realpath(b, real_b) != NULL &&
           strcmp(real_a, real_b) == 0;
}

/* Append, unless the place is in the list already. */
static void append(kvsi_arena_t *arena, kvsi_searchpath_t *path, const char *added)
{
    const char *absolute = kvsi_path_absolute(arena, added);
    const char **grown;

    for (size_t i = 0; i < path->n_paths; i++) {
        if (kvsi_is_same_place(path->paths[i], absolute)) {
            return;
        }
    }
    grown = kvsi_arena_array(arena, path->n_paths + 1, sizeof(*grown));
    if (grown == NULL) {
        return;
    }
    for (size_t i = 0; i < path->n_paths; i++) {
        grown[i] = path->paths[i];
    }
    grown[path->n_paths++] = absolute;
    path->paths = grown;
}

/* The manifests of the prefix that holds this library, in PREFIX/lib or PREFIX/lib/ARCH. */
static void append_own_prefix(kvsi_arena_t *arena, kvsi_searchpath_t *path)
{
    char file[PATH_MAX];
    Dl_info self;

    if (dladdr((void *)append_own_prefix, &self) == 0 || realpath(self.dli_fname, file) == NULL) {
        return;
    }
    *strrchr(file, '/') = '\0';
    const char *dir = strrchr(file, '/');
    const char *near = kvsi_arena_text(arena, "%s/../share/" SUBDIR, file);
    const char *far = kvsi_arena_text(arena, "%s/../../share/" SUBDIR, file);
    int in_arch_dir = dir != NULL && strcmp(dir + 1, KVS_ARCH) == 0;
    const char *chosen = access(near, F_OK) == 0  ? near
                         : access(far, F_OK) == 0 ? far
                         : in_arch_dir            ? far
                                                  : near;

    append(arena, path, realpath(chosen, file) != NULL ? file : chosen);
}

const char *kvsi_searchpath_user(kvsi_arena_t *arena)
{
    const char *data = kvsi_env("XDG_DATA_HOME");
    const char *home = kvsi_env("HOME");

    /* The specification of base directories says to ignore relative ones. */
    if (data != NULL && data[0] == '/') {
        return kvsi_arena_text(arena, "%s/" SUBDIR, data);
    }
    return home != NULL && home[0] == '/' ? kvsi_arena_text(arena, "%s/.local/share/" SUBDIR, home)
                                          : NULL;
}

static void append_defaults(kvsi_arena_t *arena, kvsi_searchpath_t *path)
{
    const char *user = kvsi_searchpath_user(arena);

    if (user != NULL) {
        append(arena, path, user);
    }
    append(arena, path, KVSI_SEARCHPATH_ADMIN);
    append(arena, path, "/usr/local/share/" SUBDIR);
    append_own_prefix(arena, path);
}

static void append_variable(kvsi_arena_t *arena, kvsi_searchpath_t *path, const char *value)
{
    for (;;) {
        size_t len = strcspn(value, ":");

        if (len == 0) {
            append_defaults(arena, path);
        } else {
            append(arena, path, kvsi_arena_copy(arena, value, len));
        }
        if (value[len] == '\0') {
            return;
        }
        value += len + 1;
    }
}

kvs_status_t kvsi_searchpath_build(kvsi_arena_t *arena, const char *const *added, size_t n_added,
                                   kvsi_searchpath_t *ret_path)
{
    const char *variable = kvsi_env("KVSTORE_PLUGIN_PATH");
    kvsi_searchpath_t path = {NULL, 0};

    for (size_t i = 0; i < n_added; i++) {
        append(arena, &path, added[i]);
    }
    /* An empty value is one empty element, so that setting and unsetting it mean the same. */
    append_variable(arena, &path, variable != NULL ? variable : "");
    *ret_path = path;
    return kvsi_arena_check(arena);
}
