/* SPDX-License-Identifier: Apache-2.0 */
/* conffile.h - the configuration files: /etc/kvstore/kvstore.conf, then the user's,
 * $XDG_CONFIG_HOME/kvstore/kvstore.conf (not in secure execution). A later entry beats an earlier one.
 *
 * A line is `key = value`, empty, or a comment that begins with '#'. Keys are letters, digits, '_', '-'
 * and '.'; the value is the rest of the line without the blanks at both ends. UTF-8, at most 64 KiB. */
#ifndef KVSI_CONFFILE_H
#define KVSI_CONFFILE_H

#include "arena.h"

typedef struct kvsi_conf_entry {
    const char *key, *value;
    const char *origin; /* "/etc/kvstore/kvstore.conf:3" */
    struct kvsi_conf_entry *next;
} kvsi_conf_entry_t;

typedef struct kvsi_conf {
    kvsi_conf_entry_t *first; /* newest first: the first entry of a key counts */
} kvsi_conf_t;

/* Read both files; one that does not exist is no error, and neither is the user's if permission to read
 * it is missing, which is logged once. ERR_FORMAT: path:line and reason. ERR_IO. */
kvs_status_t kvsi_conf_read(kvsi_arena_t *arena, kvsi_conf_t *ret_conf);
/* Add the entries of one file's text. */
kvs_status_t kvsi_conf_parse(kvsi_arena_t *arena, const char *path, const char *text,
                             size_t n_bytes, kvsi_conf_t *conf);
/* The entry that counts, or NULL. */
const kvsi_conf_entry_t *kvsi_conf_find(const kvsi_conf_t *conf, const char *key);

#endif
