/* SPDX-License-Identifier: Apache-2.0 */
/* discovery.h - everything that is installed: what the program added, then the manifests along the
 * search path. Reads manifests only, and all of them each time: twenty take a fraction of a
 * millisecond, and a cache would be one more thing to go stale. */
#ifndef KVSI_DISCOVERY_H
#define KVSI_DISCOVERY_H

#include "searchpath.h"

#include <kvstore/abi.h>
#include <kvstore/plugins.h>

/* Plugins in search order: of two, the one with the smaller index was found earlier. */
struct kvs_plugin_list {
    kvsi_arena_t arena; /* holds all below but the array */
    kvsi_searchpath_t path;
    kvs_plugin_info_t *plugins;
    size_t n_plugins;
    const char *const *notes; /* on the search as a whole */
    size_t n_notes;
};

/* A plugin that is linked into the program. */
typedef struct kvsi_static {
    const char *name;
    const char *manifest; /* its text */
    kvs_plugin_entry_t entry;
} kvsi_static_t;

/* What the program added. */
typedef struct kvsi_added {
    const char *const *paths;
    size_t n_paths;
    const kvsi_static_t *statics;
    size_t n_statics;
    const kvs_backend_t *const *backends;
    size_t n_backends;
} kvsi_added_t;

kvs_status_t kvsi_discovery_scan(const kvsi_added_t *added, kvs_plugin_list_t **ret_list);
/* One manifest by itself, whatever else is installed and whatever is turned off. */
kvs_status_t kvsi_discovery_read(const char *path, kvs_plugin_list_t **ret_list);

#endif
