/* SPDX-License-Identifier: Apache-2.0 */
/* byteps_role.h - a process whose role is server or scheduler: it takes its part in the job when its store
 * is created, and serves in run_server. */
#ifndef BYTEPS_ROLE_H
#define BYTEPS_ROLE_H

#include <kvstore/net.h>

typedef struct byteps_role byteps_role_t;

/* `announce`: "", or a file that gets the scheduler's address. */
kvs_status_t byteps_role_open(const kvs_net_settings_t *settings, const char *announce,
                              byteps_role_t **ret_role);
/* Until the job is over: 0 if everyone left in good order. */
kvs_status_t byteps_role_run(byteps_role_t *role);
kvs_status_t byteps_role_close(byteps_role_t *role, int64_t timeout_ms);
/* ERR_STATE: "pushpull: this process is a server; …" */
kvs_status_t byteps_role_refuse(const byteps_role_t *role, const char *what);

#endif
