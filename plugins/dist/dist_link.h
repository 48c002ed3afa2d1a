/* SPDX-License-Identifier: Apache-2.0 */
/* dist_link.h - this process's part in its job, as a worker: opened by its first store, kept for later
 * ones, and left in good order when the process ends. Where roles are embedded it also hosts the
 * scheduler and a server. Any thread. */
#ifndef DIST_LINK_H
#define DIST_LINK_H

#include "dist_worker.h"

typedef struct dist_link dist_link_t;

/* What nodes of the plugin must have in common: see kvs_net_fact_t. */
extern const kvs_net_fact_t dist_facts[];
extern const uint32_t dist_n_facts;

/* Join the job of `settings`, or use the link that is there. Waits until everyone is there.
 * ERR_STATE: this process belongs to another job, or is another worker, already. */
kvs_status_t dist_link_get(const kvs_net_settings_t *settings, dist_link_t **ret_link);
kvs_net_node_t *dist_link_node(const dist_link_t *link);

/* Events go to the stores that are added. Not on the I/O thread. */
void dist_link_add(dist_link_t *link, dist_worker_t *worker);
void dist_link_remove(dist_link_t *link, dist_worker_t *worker);

#endif
