/* SPDX-License-Identifier: Apache-2.0 */
/* byteps_server.h - a summation server: it adds up what the workers send and sends the sums back, for every
 * store of its job, until the workers have left. */
#ifndef BYTEPS_SERVER_H
#define BYTEPS_SERVER_H

#include <kvstore/net.h>

typedef struct byteps_server byteps_server_t;

/* What nodes of the plugin must have in common: see kvs_net_fact_t. */
extern const kvs_net_fact_t byteps_facts[];
extern const uint32_t byteps_n_facts;

/* Begin to serve, on the node's own thread; the job may not be complete yet. */
kvs_status_t byteps_server_open(kvs_net_job_t *job, byteps_server_t **ret_server);
/* Wait until the job is complete; as kvs_net_node_wait_ready. */
kvs_status_t byteps_server_wait_ready(byteps_server_t *server);
/* Wait until the job is over: 0 if all workers have left in good order, else why. ERR_TIMEOUT: past
 * `timeout_ms` (negative: never) it goes on. */
kvs_status_t byteps_server_wait_end(byteps_server_t *server, int64_t timeout_ms);
/* Leave and free it. NULL does nothing. */
kvs_status_t byteps_server_close(byteps_server_t *server, int64_t timeout_ms);

#endif
