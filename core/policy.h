/* SPDX-License-Identifier: Apache-2.0 */
/* policy.h - whether an installed plugin is on: the first that matches decides.
 *
 * A mask, an empty file or a link to /dev/null named NAME.json in an earlier directory, turns NAME
 * off. Then KVSTORE_PLUGINS: a comma list of globs over plugin names; a "-" before one turns those
 * off, and if there are any without, only those are on. Else it is on. */
#ifndef KVSI_POLICY_H
#define KVSI_POLICY_H

#include "arena.h"

#include <kvstore/plugins.h>

#include <sys/stat.h>

/* The masks seen so far, newest first. */
typedef struct kvsi_masks {
    struct kvsi_mask *first;
} kvsi_masks_t;

int kvsi_policy_is_mask(const struct stat *st);
void kvsi_policy_add_mask(kvsi_arena_t *arena, kvsi_masks_t *masks, const char *name,
                          const char *path);
/* Judge it disabled, whatever else is wrong with it: who turned it off doesn't want to hear of
 * that. */
void kvsi_policy_apply(kvsi_arena_t *arena, const kvsi_masks_t *masks, kvs_plugin_info_t *info);
/* Note each glob of KVSTORE_PLUGINS that matches none of the plugins, which is most often a slip, with
 * near names; and log it, once for each value of the variable. The caller holds the registry's lock. */
void kvsi_policy_note_unmatched(kvsi_arena_t *arena, const kvs_plugin_info_t *plugins,
                                size_t n_plugins, const char *const **notes, size_t *n_notes);

#endif
