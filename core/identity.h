/* SPDX-License-Identifier: Apache-2.0 */
/* identity.h - what a store is made of, so that the processes of a job can see that they are set up
 * alike: kvs_open_args_t.loaded and .digest. */
#ifndef KVSI_IDENTITY_H
#define KVSI_IDENTITY_H

#include "arena.h"
#include "config.h"

#include <kvstore/abi.h>

/* A line for the plugin with its version and ABI, one for the backend, one for each of the backend's
 * options that must be equal everywhere, in the order in which it declares them. `plugin` is NULL for
 * a backend that the program registered. */
const char *kvsi_identity_text(kvsi_arena_t *arena, const kvs_plugin_t *plugin,
                               const kvs_backend_t *backend, const kvs_config_t *config);
/* FNV-1a, 64 bits. */
uint64_t kvsi_identity_digest(const char *text);

#endif
