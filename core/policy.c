/* SPDX-License-Identifier: Apache-2.0 */
/* policy.c - see policy.h. */
#include "policy.h"

#include "environment.h"
#include "log.h"
#include "near.h"
#include "searchpath.h"
#include "verdict.h"

#include <fnmatch.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysmacros.h>

struct kvsi_mask {
    const char *name, *path;
    struct kvsi_mask *next;
};

int kvsi_policy_is_mask(const struct stat *st)
{
    int is_null = S_ISCHR(st->st_mode) && st->st_rdev == makedev(1, 3);

    return is_null || (S_ISREG(st->st_mode) && st->st_size == 0);
}

void kvsi_policy_add_mask(kvsi_arena_t *arena, kvsi_masks_t *masks, const char *name,
                          const char *path)
{
    struct kvsi_mask *mask = kvsi_arena_array(arena, 1, sizeof(*mask));

    if (mask != NULL) {
        mask->name = name;
        mask->path = path;
        mask->next = masks->first;
        masks->first = mask;
    }
}

static void disable(kvsi_arena_t *arena, kvs_plugin_info_t *info, const char *fix,
                    const char *reason)
{
    info->state = KVS_PLUGIN_OK;
    kvsi_judge(arena, info, KVS_PLUGIN_DISABLED, fix, "%s", reason);
}

/* ---- KVSTORE_PLUGINS ------------------------------------------------------------------------ */

/* The next glob of the list, which is moved behind it; NULL after the last. */
static const char *next_glob(kvsi_arena_t *arena, const char **globs, int *ret_removes)
{
    *globs += strspn(*globs, ", ");
    size_t len = strcspn(*globs, ", ");
    int removes = **globs == '-';
    const char *glob = *globs + removes;

    *globs += len;
    *ret_removes = removes;
    return len == 0 ? NULL : kvsi_arena_copy(arena, glob, len - (size_t)removes);
}

/* What the list says of a name. */
typedef struct choice {
    int has_positive, is_chosen, is_removed;
} choice_t;

static choice_t choose(kvsi_arena_t *arena, const char *globs, const char *name)
{
    choice_t choice = {0, 0, 0};
    const char *glob;
    int removes;

    while ((glob = next_glob(arena, &globs, &removes)) != NULL) {
        int matches = fnmatch(glob, name, 0) == 0;

        choice.has_positive |= !removes;
        choice.is_chosen |= !removes && matches;
        choice.is_removed |= removes && matches;
    }
    return choice;
}

/* Whose directory a mask is in tells how to remove it. */
static const char *fix_of_mask(kvsi_arena_t *arena, const char *name, const char *path)
{
    const char *user = kvsi_searchpath_user(arena);
    const char *directory = kvsi_arena_copy(arena, path, (size_t)(strrchr(path, '/') - path));

    if (strcmp(directory, KVSI_SEARCHPATH_ADMIN) == 0) {
        return kvsi_arena_text(arena, "run: kvstore enable %s", name);
    }
    return user != NULL && strcmp(directory, user) == 0
               ? kvsi_arena_text(arena, "run: kvstore enable %s --user", name)
               : kvsi_arena_text(arena, "remove %s", path);
}

/* The path of the mask of that name, or NULL. */
static const char *mask_of(const kvsi_masks_t *masks, const char *name)
{
    for (const struct kvsi_mask *mask = masks->first; mask != NULL; mask = mask->next) {
        if (strcmp(mask->name, name) == 0) {
            return mask->path;
        }
    }
    return NULL;
}

void kvsi_policy_apply(kvsi_arena_t *arena, const kvsi_masks_t *masks, kvs_plugin_info_t *info)
{
    const char *globs = kvsi_env("KVSTORE_PLUGINS");
    const char *mask = mask_of(masks, info->name);

    if (mask != NULL) {
        disable(arena, info, fix_of_mask(arena, info->name, mask),
                kvsi_arena_text(arena, "masked by %s", mask));
    } else if (globs != NULL) {
        choice_t choice = choose(arena, globs, info->name);

        if (choice.is_removed || (choice.has_positive && !choice.is_chosen)) {
            disable(arena, info, "change or unset KVSTORE_PLUGINS",
                    kvsi_arena_text(arena, "%s by KVSTORE_PLUGINS=%s",
                                    choice.is_removed ? "removed" : "not chosen", globs));
        }
    }
}

/* Whether the glob matches a plugin that has a manifest; names are offered as near ones. */
static int matches_any(const char *glob, const kvs_plugin_info_t *plugins, size_t n_plugins,
                       kvsi_near_t *near)
{
    for (size_t i = 0; i < n_plugins; i++) {
        if (plugins[i].state == KVS_PLUGIN_SHADOWED) {
            continue;
        }
        if (fnmatch(glob, plugins[i].name, 0) == 0) {
            return 1;
        }
        kvsi_near_offer(near, plugins[i].name);
    }
    return 0;
}

void kvsi_policy_note_unmatched(kvsi_arena_t *arena, const kvs_plugin_info_t *plugins,
                                size_t n_plugins, const char *const **notes, size_t *n_notes)
{
    static char told[512]; /* guarded by the registry's lock */
    const char *globs = kvsi_env("KVSTORE_PLUGINS"), *rest = globs, *glob;
    size_t n_before = *n_notes;
    int removes;

    while (rest != NULL && (glob = next_glob(arena, &rest, &removes)) != NULL) {
        kvsi_near_t near = KVSI_NEAR_INIT(glob);

        if (!matches_any(glob, plugins, n_plugins, &near)) {
            kvsi_note(arena, notes, n_notes, "KVSTORE_PLUGINS: \"%s%s\" matches no plugin%s%s",
                      removes ? "-" : "", glob, kvsi_near_text(&near),
                      near.text[0] != '\0' ? "?" : "");
        }
    }
    if (globs != NULL && strncmp(told, globs, sizeof(told) - 1) != 0) {
        snprintf(told, sizeof(told), "%s", globs);
        for (size_t i = n_before; i < *n_notes; i++) {
            kvsi_log(KVS_LOG_WARN, "policy", "%s", (*notes)[i]);
        }
    }
}
