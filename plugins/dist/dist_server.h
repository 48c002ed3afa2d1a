/* SPDX-License-Identifier: Apache-2.0 */
/* dist_server.h - a server node: it keeps shards of the keys of every store of its job, and serves the
 * workers until they have left or it is told to stop. */
#ifndef DIST_SERVER_H
#define DIST_SERVER_H

#include <kvstore/net.h>

#include <stdbool.h>

typedef struct dist_server dist_server_t;

/* Begin to serve, on the node's own thread; the job may not be complete yet. `facts` as in
 * kvs_net_node_args_t. With a controller to come, commands for it wait for dist_server_wait_end. */
kvs_status_t dist_server_open(kvs_net_job_t *job, const kvs_net_fact_t *facts, uint32_t n_facts,
                              const char *job_id, bool with_controller, dist_server_t **ret_server);
/* Wait until the job is complete; as kvs_net_node_wait_ready. */
kvs_status_t dist_server_wait_ready(dist_server_t *server);
/* What gets the commands that are not the server's own, in dist_server_wait_end. NULL: nobody. */
void dist_server_set_controller(dist_server_t *server, kvs_controller_t fn, void *arg);
/* Wait until a command stops the server (0), or the job is over: 0 if all workers have left in good
 * order, else why. ERR_TIMEOUT: past `timeout_ms` (negative: never) it goes on. */
kvs_status_t dist_server_wait_end(dist_server_t *server, int64_t timeout_ms);
/* Leave and free it. NULL does nothing. */
kvs_status_t dist_server_close(dist_server_t *server, int64_t timeout_ms);

#endif
