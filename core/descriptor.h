/* SPDX-License-Identifier: Apache-2.0 */
/* descriptor.h - the core's own copies of what a plugin or a program hands over.
 *
 * A table made for an older header is shorter: min(size) bytes are copied into a zeroed table, so
 * that the rest of the core sees members of its own header only, NULL where the maker knew none. */
#ifndef KVSI_DESCRIPTOR_H
#define KVSI_DESCRIPTOR_H

#include "arena.h"

#include <kvstore/abi.h>

/* Why it can't be taken, as text: which member of which table. */
typedef struct kvsi_complaint {
    char text[256];
} kvsi_complaint_t;

/* NULL with a complaint: something is missing or out of range; or, with an empty one, out of
 * memory. Texts and arrays of plain values stay where they are: their owner keeps them for ever. */
const kvs_backend_t *kvsi_backend_copy(kvsi_arena_t *arena, const kvs_backend_t *backend,
                                       kvsi_complaint_t *ret_complaint);
/* The same for a whole plugin. Its ABI version has been checked. */
const kvs_plugin_t *kvsi_plugin_copy(kvsi_arena_t *arena, const kvs_plugin_t *plugin,
                                     kvsi_complaint_t *ret_complaint);

#endif
