/* SPDX-License-Identifier: Apache-2.0 */
/* newfile.h - a file that takes the place of another all at once, or not at all.
 *
 * It is written under a name of its own in the same directory, brought to the disk, and renamed: after a
 * crash the old one is there, or the new one, whole. Writers of the same path don't meet until the
 * rename, of which the last counts. One thread a file. */
#ifndef KVS_KIT_NEWFILE_H
#define KVS_KIT_NEWFILE_H

#include <kvstore/plugin.h>

typedef struct kvs_newfile {
    char *path; /* links followed */
    char *temporary;
    int fd;
} kvs_newfile_t;

/* All errors are ERR_IO with path and cause, or ERR_NO_MEMORY; what was at `path` stays as it was. A path
 * that is there but no regular file is refused. After success end it by commit or abandon. */
kvs_status_t kvs_newfile_open(const char *path, kvs_newfile_t *ret_file);
kvs_status_t kvs_newfile_write(kvs_newfile_t *file, const void *data, size_t n_bytes);
/* Ends it also if it fails. */
kvs_status_t kvs_newfile_commit(kvs_newfile_t *file);
void kvs_newfile_abandon(kvs_newfile_t *file);

#endif
