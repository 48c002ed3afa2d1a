/* SPDX-License-Identifier: Apache-2.0 */
/* manifest.h - from the text of a manifest to a kvs_plugin_info_t.
 *
 * sdk/manifest.schema.json says the same in JSON Schema; tests/cli holds the two together. */
#ifndef KVSI_MANIFEST_H
#define KVSI_MANIFEST_H

#include "arena.h"

#include <kvstore/plugins.h>

#define KVSI_MANIFEST_MAX_BYTES (64 * 1024)
/* In place of a path: of a plugin linked into the program, of a backend that it registered. */
#define KVSI_MANIFEST_STATIC  "(static)"
#define KVSI_MANIFEST_PROGRAM "(program)"

/* An info whose texts are all "", named for the file: "dist" for
 * "/etc/kvstore/plugins.d/dist.json". */
kvs_plugin_info_t kvsi_manifest_blank(kvsi_arena_t *arena, const char *path);
/* Read `text`, the manifest at info->manifest, into `info`, which was blank.
 * What is wrong is judged: bad-manifest with line, column, field and reason, or format-too-new. */
void kvsi_manifest_parse(kvsi_arena_t *arena, const char *text, size_t n_bytes,
                         kvs_plugin_info_t *info);

#endif
