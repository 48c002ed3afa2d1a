/* SPDX-License-Identifier: Apache-2.0 */
/* claims.h - whether a loaded plugin is what its manifest says: a manifest is a claim, by which
 * plugins are listed and chosen, and the library's own descriptor is the truth. */
#ifndef KVSI_CLAIMS_H
#define KVSI_CLAIMS_H

#include "arena.h"

#include <kvstore/abi.h>
#include <kvstore/plugins.h>

/* A backend as a manifest would state it. */
kvs_provide_t kvsi_provide_of_backend(kvsi_arena_t *arena, const kvs_backend_t *backend);
/* Judge manifest-mismatch, naming the field and both sides, if `plugin` differs from `info` in
 * name, version, ABI, what it provides, or capabilities, devices or dtypes of a backend. `fix`
 * mends that. */
void kvsi_claims_check(kvsi_arena_t *arena, kvs_plugin_info_t *info, const kvs_plugin_t *plugin,
                       const char *fix);

#endif
