/* SPDX-License-Identifier: Apache-2.0 */
/* byteps_server.h - a summation server: it adds up what the workers send and sends the sums back, for every
 * store of its job, until the workers have left. */
#ifndef BYTEPS_SERVER_H
#define BYTEPS_SERVER_H

#include <kvstore/process.h>

/* As kvs_net_plugin_t has it. */
kvs_status_t byteps_server_open(kvs_net_job_t *job, const kvs_net_settings_t *settings,
                                int is_service, kvs_net_server_t **ret_server);
kvs_status_t byteps_server_close(kvs_net_server_t *server, int64_t timeout_ms);

#endif
