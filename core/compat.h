/* SPDX-License-Identifier: Apache-2.0 */
/* compat.h - whether what a manifest states fits this library, before anything is opened. */
#ifndef KVSI_COMPAT_H
#define KVSI_COMPAT_H

#include "arena.h"

#include <kvstore/plugins.h>

/* Judge by arch, abi, required version of the core, and whether the shared object is there. */
void kvsi_compat_check(kvsi_arena_t *arena, kvs_plugin_info_t *info);
/* A plugin's ABI is served if its major is ours and its minor is not above ours. */
int kvsi_abi_is_served(unsigned major, unsigned minor);

#endif
