/* SPDX-License-Identifier: Apache-2.0 */
/* elfcheck.h - whether a file is a shared object for this process, told before the dynamic linker
 * is asked: for a wrong machine it says "No such file or directory", as it does for a missing
 * dependency. */
#ifndef KVSI_ELFCHECK_H
#define KVSI_ELFCHECK_H

#include <kvstore/plugins.h>

/* KVS_PLUGIN_OK; _LIBRARY_MISSING if it can't be read, _NOT_ELF or _ARCH_MISMATCH, with a text that
 * names the file. */
kvs_plugin_state_t kvsi_elf_check(const char *path, char *ret_reason, size_t n_bytes);

#endif
