/* SPDX-License-Identifier: Apache-2.0 */
/* hoststore_update.h - what comes between the sum of a push and the outs: the program's updater, or an
 * optimizer. */
#ifndef KVS_KIT_HOSTSTORE_UPDATE_H
#define KVS_KIT_HOSTSTORE_UPDATE_H

#include "hoststore_work.h"

/* Put the key in front of this thread's text. */
kvs_status_t kvs_update_name_key(kvs_status_t status, const kvs_key_entry_t *key);
static inline kvs_status_t kvs_update_named(kvs_status_t status, const kvs_key_entry_t *key)
{
    return status == KVS_OK ? KVS_OK : kvs_update_name_key(status, key);
}

/* Make the key's merge buffer, if it has none. */
kvs_status_t kvs_update_make_merge(const kvs_key_entry_t *key);

/* Pack the work's values, if the store compresses, and with `whole` leave one value: the sum of all.
 * ERR_NON_FINITE, ERR_NO_MEMORY: nothing was done. */
kvs_status_t kvs_update_take_values(const kvs_hoststore_t *host, const kvs_key_entry_t *key,
                                    kvs_work_t *work, int whole);

/* Call the updater with the sum: dense, or with `rows` those rows. */
kvs_status_t kvs_update_call(const kvs_hoststore_t *host, const kvs_key_entry_t *key,
                             const void *sum, kvs_rows_t *rows);

/* Sum the values, let the updater or the optimizer have the sum, and write the outs. */
kvs_status_t kvs_update_by_updater(const kvs_hoststore_t *host, const kvs_key_entry_t *key,
                                   kvs_work_t *work);
kvs_status_t kvs_update_by_optimizer(const kvs_hoststore_t *host, const kvs_group_t *group,
                                     kvs_work_t *work);

#endif
