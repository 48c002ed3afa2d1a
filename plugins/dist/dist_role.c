/* SPDX-License-Identifier: Apache-2.0 */
#include "dist_role.h"

#include "dist_link.h"
#include "dist_server.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CLOSE_MS 5000 /* for what is on its way, when the job is over */

struct dist_role {
    int role; /* KVS_NET_… */
    kvs_net_job_t *job;
    dist_server_t *server; /* NULL: a scheduler */
};

/* The address and a newline, in one write: whoever reads it from a pipe gets all of it. */
static kvs_status_t announce_address(const char *path, const char *address)
{
    FILE *file = fopen(path, "w");
    int wrote = file != NULL && fprintf(file, "%s\n", address) > 0;

    if (file == NULL || (fclose(file) != 0) || !wrote) {
        return kvs_fail(KVS_ERR_IO, "announce: %s: %s", path, strerror(errno));
    }
    return KVS_OK;
}

kvs_status_t dist_role_open(const kvs_net_settings_t *settings, const char *announce,
                            dist_role_t **ret_role)
{
    dist_role_t *role = calloc(1, sizeof(*role));
    kvs_status_t status;

    if (role == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory to serve");
    }
    role->role = settings->role;
    status = kvs_net_job_open(settings, &role->job);
    if (status == KVS_OK && settings->role == KVS_NET_SERVER) {
        status = dist_server_open(role->job, dist_facts, dist_n_facts, settings->job_id, true,
                                  &role->server);
    } else if (status == KVS_OK && announce[0] != '\0') {
        status = announce_address(announce, kvs_net_job_scheduler(role->job));
    }
    if (status != KVS_OK) {
        (void)dist_role_close(role, 0); /* the first error counts */
        return status;
    }
    *ret_role = role;
    return KVS_OK;
}

kvs_status_t dist_role_set_controller(dist_role_t *role, kvs_controller_t fn, void *arg)
{
    if (role->server == NULL) {
        return kvs_fail(KVS_ERR_STATE,
                        "set_controller: this process is a scheduler; commands go to "
                        "servers");
    }
    dist_server_set_controller(role->server, fn, arg);
    return KVS_OK;
}

kvs_status_t dist_role_run(dist_role_t *role)
{
    kvs_status_t status;

    if (role->server == NULL) {
        return kvs_net_job_wait_end(role->job, -1);
    }
    status = dist_server_wait_ready(role->server);
    return status == KVS_OK ? dist_server_wait_end(role->server, -1) : status;
}

kvs_status_t dist_role_close(dist_role_t *role, int64_t timeout_ms)
{
    int64_t most = timeout_ms < 0 || timeout_ms > CLOSE_MS ? CLOSE_MS : timeout_ms;
    kvs_status_t status = dist_server_close(role->server, most);
    kvs_status_t closed = kvs_net_job_close(role->job, most);

    free(role);
    return status != KVS_OK ? status : closed;
}

kvs_status_t dist_role_refuse(const dist_role_t *role, const char *what)
{
    return kvs_fail(KVS_ERR_STATE, "%s: this process is a %s; it serves in run_server", what,
                    kvs_net_role_name(role->role));
}
