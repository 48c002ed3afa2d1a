/* SPDX-License-Identifier: Apache-2.0 */
/* loader.h - opens a plugin's shared object, once, and never closes it.
 *
 * libltdl keeps the handles. It alone says "file not found" for everything, binds lazily, and has
 * one error string for all threads and no locks: so the file's header is looked at, then dlopen is
 * asked for the true cause, then libltdl takes the object over. Callers hold the registry's
 * lock. */
#ifndef KVSI_LOADER_H
#define KVSI_LOADER_H

#include "arena.h"

#include <kvstore/abi.h>
#include <kvstore/plugins.h>

/* The core's own copy of the descriptor of the plugin `info`, which agrees with its manifest; it
 * lives until the process ends. `entry` is that of a plugin linked statically, else NULL. NULL:
 * `info` has been judged, with texts in `arena`; a later call tries again. */
const kvs_plugin_t *kvsi_loader_load(kvsi_arena_t *arena, kvs_plugin_info_t *info,
                                     kvs_plugin_entry_t entry);

/* The loaded plugin that holds this very table, or NULL. */
const kvs_plugin_t *kvsi_loader_plugin_of(const kvs_backend_t *backend);

#endif
