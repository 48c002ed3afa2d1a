/* SPDX-License-Identifier: Apache-2.0 */
/* searchpath.h - the places where manifests are looked for, in order: the first that has a
 * plugin's name wins.
 *
 * Paths added by the program; then KVSTORE_PLUGIN_PATH (an empty element stands for what follows
 * here; without one the variable replaces it); then the user's, the administrator's, /usr/local's,
 * and the prefix that holds this library. In secure execution the environment is ignored. */
#ifndef KVSI_SEARCHPATH_H
#define KVSI_SEARCHPATH_H

#include "arena.h"

typedef struct kvsi_searchpath {
    const char **paths; /* absolute; directories of manifests, or manifests; each once */
    size_t n_paths;
} kvsi_searchpath_t;

/* `added` are the program's. What doesn't exist stays in the list, so that errors can name it. */
kvs_status_t kvsi_searchpath_build(kvsi_arena_t *arena, const char *const *added, size_t n_added,
                                   kvsi_searchpath_t *ret_path);
/* The user's place, or NULL: there is no home, or it doesn't count (secure execution). */
const char *kvsi_searchpath_user(kvsi_arena_t *arena);
#define KVSI_SEARCHPATH_ADMIN "/etc/kvstore/plugins.d"

/* Whether two paths, which need not exist, lead to the same. */
int kvsi_is_same_place(const char *a, const char *b);
/* The path itself, or with the working directory in front. */
const char *kvsi_path_absolute(kvsi_arena_t *arena, const char *path);

#endif
