/* SPDX-License-Identifier: Apache-2.0 */
/* policy.c - see policy.h. */
#include "policy.h"

#include "verdict.h"

#include <fnmatch.h>
#include <stdlib.h>
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

/* What KVSTORE_PLUGINS says of a name. */
typedef struct choice {
    int has_positive, is_chosen, is_removed;
} choice_t;

static choice_t choose(kvsi_arena_t *arena, const char *globs, const char *name)
{
    choice_t choice = {0, 0, 0};

    for (;;) {
        globs += strspn(globs, ", ");
        size_t len = strcspn(globs, ", ");
        int removes = globs[0] == '-';

        if (len == 0) {
            return choice;
        }
        const char *glob = kvsi_arena_copy(arena, globs + removes, len - (size_t)removes);
        int matches = fnmatch(glob, name, 0) == 0;
        choice.has_positive |= !removes;
        choice.is_chosen |= !removes && matches;
        choice.is_removed |= removes && matches;
        globs += len;
    }
}

void kvsi_policy_apply(kvsi_arena_t *arena, const kvsi_masks_t *masks, kvs_plugin_info_t *info)
{
    const char *globs = secure_getenv("KVSTORE_PLUGINS");

    for (const struct kvsi_mask *mask = masks->first; mask != NULL; mask = mask->next) {
        if (strcmp(mask->name, info->name) == 0) {
            disable(arena, info, kvsi_arena_text(arena, "remove %s", mask->path),
                    kvsi_arena_text(arena, "masked by %s", mask->path));
            return;
        }
    }
    if (globs != NULL) {
        choice_t choice = choose(arena, globs, info->name);

        if (choice.is_removed || (choice.has_positive && !choice.is_chosen)) {
            disable(arena, info, "change or unset KVSTORE_PLUGINS",
                    kvsi_arena_text(arena, "%s by KVSTORE_PLUGINS=%s",
                                    choice.is_removed ? "removed" : "not chosen", globs));
        }
    }
}
