/* SPDX-License-Identifier: Apache-2.0 */
#include "byteps_role.h"

#include "ar_role.h"
#include "byteps_server.h"

#include <stdlib.h>

#define CLOSE_MS 5000 /* for what is on its way, when the job is over */

struct byteps_role {
    int role; /* KVS_NET_… */
    kvs_net_job_t *job;
    byteps_server_t *server; /* NULL: a scheduler */
};

kvs_status_t byteps_role_open(const kvs_net_settings_t *settings, const char *announce,
                              byteps_role_t **ret_role)
{
    byteps_role_t *role = calloc(1, sizeof(*role));
    kvs_status_t status;

    if (role == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory to serve");
    }
    role->role = settings->role;
    if (settings->role == KVS_NET_SCHEDULER) {
        status = ar_scheduler_open(settings, announce, &role->job);
    } else {
        status = kvs_net_job_open(settings, &role->job);
        status = status == KVS_OK ? byteps_server_open(role->job, &role->server) : status;
    }
    if (status != KVS_OK) {
        (void)byteps_role_close(role, 0); /* the first error counts */
        return status;
    }
    *ret_role = role;
    return KVS_OK;
}

kvs_status_t byteps_role_run(byteps_role_t *role)
{
    kvs_status_t status;

    if (role->server == NULL) {
        return kvs_net_job_wait_end(role->job, -1);
    }
    status = byteps_server_wait_ready(role->server);
    return status == KVS_OK ? byteps_server_wait_end(role->server, -1) : status;
}

kvs_status_t byteps_role_close(byteps_role_t *role, int64_t timeout_ms)
{
    int64_t most = timeout_ms < 0 || timeout_ms > CLOSE_MS ? CLOSE_MS : timeout_ms;
    kvs_status_t status = byteps_server_close(role->server, most);
    kvs_status_t closed = kvs_net_job_close(role->job, most);

    free(role);
    return status != KVS_OK ? status : closed;
}

kvs_status_t byteps_role_refuse(const byteps_role_t *role, const char *what)
{
    return ar_refuse(role->role, what);
}
