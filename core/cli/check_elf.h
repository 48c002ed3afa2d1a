/* SPDX-License-Identifier: Apache-2.0 */
/* check_elf.h - whether a shared object is built as a plugin has to be: one exported symbol, no symbol
 * of libkvstore needed, every symbol bound at load, no run path, no static TLS. */
#ifndef KVS_CLI_CHECK_ELF_H
#define KVS_CLI_CHECK_ELF_H

#include <kvstore/kvstore.h>

/* Told of one rule that is broken, and how to keep it. */
typedef void (*check_tell_t)(void *arg, const char *text);

/* Look at the file without running any of it. KVS_OK: it was looked at, and `tell` was called for each
 * broken rule. ERR_IO, ERR_FORMAT: it can't be read, or is no shared object for this machine. */
kvs_status_t check_elf(const char *path, check_tell_t tell, void *arg);

#endif
