/* SPDX-License-Identifier: Apache-2.0 */
/* scheduler.h - the scheduler of a job: a thread that owns its socket, the groups and their books. */
#ifndef NET_SCHEDULER_H
#define NET_SCHEDULER_H

#include "socket.h"

typedef struct net_scheduler net_scheduler_t;

/* Listen on `address` ("host:port", port 0: any) and begin to run. `beacon_fd`, or -1, is where
 * processes of this host ask for the address; it stays the caller's. ERR_IO, ERR_ARGUMENT. */
kvs_status_t net_scheduler_open(net_context_t *context, const kvs_net_settings_t *settings,
                                const char *address, int beacon_fd,
                                net_scheduler_t **ret_scheduler);
/* With the real port. */
const char *net_scheduler_address(const net_scheduler_t *scheduler);
/* kvs_net_job_wait_end. */
kvs_status_t net_scheduler_wait(net_scheduler_t *scheduler, int64_t timeout_ms);
void net_scheduler_cancel(net_scheduler_t *scheduler); /* safe in a signal handler */
/* Wait for the end of a job that runs, then end the thread, telling whoever is left. NULL does nothing. */
kvs_status_t net_scheduler_close(net_scheduler_t *scheduler, int64_t timeout_ms);

#endif
