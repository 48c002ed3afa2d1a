/* SPDX-License-Identifier: Apache-2.0 */
/* dist_role.h - a process whose role is server or scheduler: it takes its part in the job when its store
 * is created, and serves in run_server. */
#ifndef DIST_ROLE_H
#define DIST_ROLE_H

#include <kvstore/net.h>

typedef struct dist_role dist_role_t;

/* `announce`: "", or a file that gets the scheduler's address, for those who have to be told. */
kvs_status_t dist_role_open(const kvs_net_settings_t *settings, const char *announce,
                            dist_role_t **ret_role);
/* Before it runs; NULL: none. ERR_STATE: a scheduler gets no commands. */
kvs_status_t dist_role_set_controller(dist_role_t *role, kvs_controller_t fn, void *arg);
/* Until it is told to stop, or the job is over: 0 if everyone left in good order. */
kvs_status_t dist_role_run(dist_role_t *role);
kvs_status_t dist_role_close(dist_role_t *role, int64_t timeout_ms);
/* ERR_STATE: "push: this process is a server; …" */
kvs_status_t dist_role_refuse(const dist_role_t *role, const char *what);

#endif
