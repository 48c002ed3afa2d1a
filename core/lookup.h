/* SPDX-License-Identifier: Apache-2.0 */
/* lookup.h - from a name to what answers to it in a list of plugins, or to the error that tells
 * what exists.
 *
 * Exact names beat aliases beat words; then what can be used, priority, and the place in the
 * search order decide: a total order. */
#ifndef KVSI_LOOKUP_H
#define KVSI_LOOKUP_H

#include "discovery.h"

typedef struct kvsi_found {
    const kvs_plugin_info_t *plugin;
    const kvs_provide_t *provide; /* NULL: only the plugin's own name fits */
} kvsi_found_t;

/* Find what provides `name` (in lower case) of `kind`. It may be a plugin that is not ok: its
 * verdict says why. KVS_ERR_NOT_FOUND names near ones and what is installed; KVS_ERR_UNAVAILABLE:
 * known, but not installed, with its package. */
kvs_status_t kvsi_lookup(const kvs_plugin_list_t *list, const char *kind, const char *name,
                         kvsi_found_t *ret_found);
/* The same over all kinds and over names of plugins. */
kvs_status_t kvsi_lookup_any(const kvs_plugin_list_t *list, const char *name,
                             kvsi_found_t *ret_found);

#endif
