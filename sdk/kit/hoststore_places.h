/* SPDX-License-Identifier: Apache-2.0 */
/* hoststore_places.h - the outs of an operation whose arrays share memory, in the order of its call: the
 * order in which they must be written. */
#ifndef KVS_KIT_HOSTSTORE_PLACES_H
#define KVS_KIT_HOSTSTORE_PLACES_H

#include <kvstore/plugin.h>

typedef struct kvs_place {
    size_t index; /* among the outs of the call */
    size_t group; /* of the operation */
    size_t out;   /* of the group */
} kvs_place_t;

/* free() the list. */
kvs_status_t kvs_places_list(const kvs_op_t *op, kvs_place_t **ret_places, size_t *ret_n);

#endif
