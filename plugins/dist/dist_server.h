/* SPDX-License-Identifier: Apache-2.0 */
/* dist_server.h - a server node: it keeps shards of the keys of every store of its job, and serves the
 * workers until they have left or it is told to stop. */
#ifndef DIST_SERVER_H
#define DIST_SERVER_H

#include <kvstore/process.h>

/* Begin to serve: as kvs_net_plugin_t has it. Of a service, commands for the controller that is still to
 * be set wait until it serves. */
kvs_status_t dist_server_open(kvs_net_job_t *job, const kvs_net_settings_t *settings,
                              int is_service, kvs_net_server_t **ret_server);
kvs_status_t dist_server_close(kvs_net_server_t *server, int64_t timeout_ms);
/* What gets the commands that are not the server's own, on the thread that serves. NULL: nobody. */
void dist_server_set_controller(kvs_net_server_t *server, kvs_controller_t fn, void *arg);

#endif
