/* SPDX-License-Identifier: Apache-2.0 */
/* probe.h - whether a backend that was loaded can work here: installed is not usable. */
#ifndef KVSI_PROBE_H
#define KVSI_PROBE_H

#include "arena.h"

#include <kvstore/abi.h>

/* KVS_ERR_UNAVAILABLE with the backend's own reason if its probe says no; one that has no probe can
 * always work. No lock of the core may be held. */
kvs_status_t kvsi_probe(const kvs_backend_t *backend, const kvs_config_t *config);
/* The same with the settings of a store that is created without options, whose errors it passes
 * on. */
kvs_status_t kvsi_probe_preset(const kvs_backend_t *backend);
/* Load the backend of that name and ask it so. ERR_ARGUMENT: the name is empty. */
kvs_status_t kvsi_probe_name(const char *name);
/* The same of each name of a list, by commas; copies go to `arena`. */
kvs_status_t kvsi_probe_list(kvsi_arena_t *arena, const char *list);

#endif
