/* SPDX-License-Identifier: Apache-2.0 */
/* verdict.h - why a plugin can't be used: state, reason and fix, written into its
 * kvs_plugin_info_t.
 *
 * Reading a list must not touch the thread's last error, so what is found wrong with a plugin is
 * data; it becomes an error when somebody asks for that plugin. */
#ifndef KVSI_VERDICT_H
#define KVSI_VERDICT_H

#include "arena.h"

#include <kvstore/plugins.h>

/* Set state, reason (the formatted text, naming both sides) and fix, unless the plugin has been
 * judged already: the first reason is the true one. */
void kvsi_judge(kvsi_arena_t *arena, kvs_plugin_info_t *info, kvs_plugin_state_t state,
                const char *fix, const char *format, ...) KVS_PRINTF(5, 6);
/* Append to `notes`, an array in `arena` of `n_notes` texts: what is worth knowing and no fault. The
 * first KVSI_MAX_NOTES are kept. */
#define KVSI_MAX_NOTES 20
void kvsi_note(kvsi_arena_t *arena, const char *const **notes, size_t *n_notes, const char *format,
               ...) KVS_PRINTF(4, 5);
/* Fail with 'plugin "dist" (/path/dist.json): STATE: REASON; FIX' and the status of the state:
 * KVS_ERR_UNAVAILABLE if something outside the plugin is missing or chosen so, else
 * KVS_ERR_PLUGIN. */
kvs_status_t kvsi_verdict_fail(const kvs_plugin_info_t *info);
/* The path of its shared object, or "(static)". */
const char *kvsi_place_of(const kvs_plugin_info_t *info);
/* "install package kvstore-backend-dist again", or, of an unknown package, "install it again". */
const char *kvsi_fix_reinstall(kvsi_arena_t *arena, const kvs_plugin_info_t *info);

#endif
