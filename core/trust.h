/* SPDX-License-Identifier: Apache-2.0 */
/* trust.h - whether somebody else may have put a plugin where it is.
 *
 * In secure execution a manifest, its library, and the directories that hold them directly must be
 * root's and writable by root only. Otherwise one that everybody may write is refused; a sticky
 * directory, where nobody can replace the files of others, is not, and ancestors don't count. */
#ifndef KVSI_TRUST_H
#define KVSI_TRUST_H

#include "arena.h"

#include <kvstore/plugins.h>

/* Judge `untrusted`, naming the file or directory and what mends it. What does not exist is not
 * judged. */
void kvsi_trust_check(kvsi_arena_t *arena, kvs_plugin_info_t *info);
/* Note what is not refused, but lets somebody other than root and this user decide what is loaded:
 * another owner, a group that may write, a sticky directory, an ancestor that everybody may
 * write. */
void kvsi_trust_note(kvsi_arena_t *arena, kvs_plugin_info_t *info);

#endif
