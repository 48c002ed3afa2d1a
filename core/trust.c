/* SPDX-License-Identifier: Apache-2.0 */
/* trust.c - see trust.h. A link counts twice: its own directory, where it can be replaced, and the
 * file it leads to with that file's directory. */
#include "trust.h"

#include "environment.h"
#include "verdict.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The files and directories on which a plugin depends directly, each once. */
typedef struct places {
    const char *paths[6]; /* of manifest and library: file, its directory, the real one's */
    size_t n;
} places_t;

/* Whether it was not there yet. */
static int add_place(kvsi_arena_t *arena, places_t *places, const char *path)
{
    for (size_t i = 0; i < places->n; i++) {
        if (strcmp(places->paths[i], path) == 0) {
            return 0;
        }
    }
    if (places->n == sizeof(places->paths) / sizeof(places->paths[0])) {
        return 0;
    }
    places->paths[places->n++] = kvsi_arena_text(arena, "%s", path);
    return 1;
}

/* Cut the last part off; what remains of a file in the root is "/". */
static void to_parent(char *path)
{
    char *slash = strrchr(path, '/');

    if (slash != NULL) {
        slash[slash == path ? 1 : 0] = '\0';
    }
}

static void add_file(kvsi_arena_t *arena, places_t *places, const char *file)
{
    char path[PATH_MAX];

    if (file[0] != '/') {
        return; /* "(static)", or no library */
    }
    (void)add_place(arena, places, file);
    snprintf(path, sizeof(path), "%s", file);
    to_parent(path);
    (void)add_place(arena, places, path);
    if (realpath(file, path) != NULL) {
        to_parent(path);
        (void)add_place(arena, places, path);
    }
}

static void gather(kvsi_arena_t *arena, const kvs_plugin_info_t *info, places_t *ret_places)
{
    ret_places->n = 0;
    add_file(arena, ret_places, info->manifest);
    add_file(arena, ret_places, info->library);
}

static int everybody_writes(const struct stat *st)
{
    return (st->st_mode & S_IWOTH) != 0 && !(S_ISDIR(st->st_mode) && (st->st_mode & S_ISVTX) != 0);
}

static void check_secure(kvsi_arena_t *arena, kvs_plugin_info_t *info, const char *path,
                         const struct stat *st)
{
    if (st->st_uid != 0 || (st->st_mode & (S_IWGRP | S_IWOTH)) != 0) {
        kvsi_judge(arena, info, KVS_PLUGIN_UNTRUSTED,
                   kvsi_arena_text(arena, "run: chown root '%s'; chmod go-w '%s'", path, path),
                   "in secure execution %s must be root's and writable by root only; it is user "
                   "%u's, with mode %04o",
                   path, (unsigned)st->st_uid, (unsigned)st->st_mode & 07777);
    }
}

void kvsi_trust_check(kvsi_arena_t *arena, kvs_plugin_info_t *info)
{
    int is_secure = kvsi_is_secure();
    places_t places;

    gather(arena, info, &places);
    for (size_t i = 0; i < places.n; i++) {
        const char *path = places.paths[i];
        struct stat st;

        if (stat(path, &st) != 0) {
            continue;
        }
        if (is_secure) {
            check_secure(arena, info, path, &st);
        } else if (everybody_writes(&st)) {
            kvsi_judge(arena, info, KVS_PLUGIN_UNTRUSTED,
                       kvsi_arena_text(arena, "run: chmod o-w '%s'", path),
                       "everybody may write %s, which has mode %04o", path,
                       (unsigned)st.st_mode & 07777);
        }
    }
}

/* ---- What is only noted --------------------------------------------------------------------- */

static void note_place(kvsi_arena_t *arena, kvs_plugin_info_t *info, const char *path)
{
    struct stat st;

    if (stat(path, &st) != 0) {
        return;
    }
    if (st.st_uid != 0 && st.st_uid != geteuid()) {
        kvsi_note(arena, &info->notes, &info->n_notes, "%s belongs to user %u", path,
                  (unsigned)st.st_uid);
    }
    if (S_ISDIR(st.st_mode) && (st.st_mode & S_IWOTH) != 0 && !everybody_writes(&st)) {
        kvsi_note(arena, &info->notes, &info->n_notes, "everybody may add files to %s", path);
    }
    /* The group of a user alone, which some systems give, can't be told from others. */
    if ((st.st_mode & S_IWGRP) != 0 && st.st_gid != 0) {
        kvsi_note(arena, &info->notes, &info->n_notes, "group %u may write %s", (unsigned)st.st_gid,
                  path);
    }
}

static void note_ancestors(kvsi_arena_t *arena, kvs_plugin_info_t *info, const char *path,
                           places_t *seen)
{
    char ancestor[PATH_MAX];
    struct stat st;

    snprintf(ancestor, sizeof(ancestor), "%s", path);
    while (ancestor[0] == '/' && ancestor[1] != '\0') {
        to_parent(ancestor);
        if (stat(ancestor, &st) == 0 && everybody_writes(&st) && add_place(arena, seen, ancestor)) {
            kvsi_note(arena, &info->notes, &info->n_notes, "everybody may write %s", ancestor);
        }
    }
}

void kvsi_trust_note(kvsi_arena_t *arena, kvs_plugin_info_t *info)
{
    places_t places, seen = {.n = 0};

    gather(arena, info, &places);
    for (size_t i = 0; i < places.n; i++) {
        note_place(arena, info, places.paths[i]);
    }
    for (size_t i = 0; i < places.n && info->state != KVS_PLUGIN_UNTRUSTED; i++) {
        note_ancestors(arena, info, places.paths[i], &seen);
    }
}
