/* SPDX-License-Identifier: Apache-2.0 */
#include "ar_role.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define CLOSE_MS 5000 /* for what is on its way, when the job is over */

/* In one write: whoever reads it from a pipe gets all of it. */
kvs_status_t ar_announce(const char *path, const char *address)
{
    FILE *file = path[0] == '\0' ? NULL : fopen(path, "w");
    int wrote = file != NULL && fprintf(file, "%s\n", address) > 0;

    if (path[0] == '\0') {
        return KVS_OK;
    }
    if (file == NULL || fclose(file) != 0 || !wrote) {
        return kvs_fail(KVS_ERR_IO, "announce: %s: %s", path, strerror(errno));
    }
    return KVS_OK;
}

kvs_status_t ar_scheduler_open(const kvs_net_settings_t *settings, const char *announce,
                               kvs_net_job_t **ret_job)
{
    kvs_net_job_t *job;
    kvs_status_t status = kvs_net_job_open(settings, &job);

    if (status != KVS_OK) {
        return status;
    }
    status = ar_announce(announce, kvs_net_job_scheduler(job));
    if (status != KVS_OK) {
        (void)kvs_net_job_close(job, 0); /* the first error counts */
        return status;
    }
    *ret_job = job;
    return KVS_OK;
}

kvs_status_t ar_scheduler_close(kvs_net_job_t *job, int64_t timeout_ms)
{
    return kvs_net_job_close(job, timeout_ms <= 0 || timeout_ms > CLOSE_MS ? CLOSE_MS : timeout_ms);
}

kvs_status_t ar_refuse(int role, const char *what)
{
    return kvs_fail(KVS_ERR_STATE, "%s: this process is a %s; it serves in run_server", what,
                    kvs_net_role_name(role));
}
