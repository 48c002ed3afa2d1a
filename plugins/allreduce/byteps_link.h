/* SPDX-License-Identifier: Apache-2.0 */
/* byteps_link.h - this process's part in its job, as a worker: opened by its first store, kept for later
 * ones, and left in good order when the process ends. Where roles are embedded it also hosts the
 * scheduler and a server. Any thread. */
#ifndef BYTEPS_LINK_H
#define BYTEPS_LINK_H

#include "byteps_worker.h"

typedef struct byteps_link byteps_link_t;

/* Join the job of `settings`, or use the link that is there. Waits until everyone is there.
 * ERR_STATE: this process belongs to another job, or is another worker, already. */
kvs_status_t byteps_link_get(const kvs_net_settings_t *settings, byteps_link_t **ret_link);
kvs_net_node_t *byteps_link_node(const byteps_link_t *link);
/* Of depots of workers. */
byteps_owner_t byteps_link_owner(byteps_link_t *link);

/* Events go to the stores that are added. Not on the I/O thread. */
void byteps_link_add(byteps_link_t *link, byteps_worker_t *worker);
void byteps_link_remove(byteps_link_t *link, byteps_worker_t *worker);

#endif
