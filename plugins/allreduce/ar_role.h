/* SPDX-License-Identifier: Apache-2.0 */
/* ar_role.h - a process that is the scheduler of an allreduce job: it keeps membership, and has no
 * part in any exchange. Shared by horovod and byteps. */
#ifndef AR_ROLE_H
#define AR_ROLE_H

#include <kvstore/net.h>

/* Write a scheduler's address and a newline to the file `path`; "" does nothing. */
kvs_status_t ar_announce(const char *path, const char *address);

/* Begin to serve as the scheduler; `announce` as above. */
kvs_status_t ar_scheduler_open(const kvs_net_settings_t *settings, const char *announce,
                               kvs_net_job_t **ret_job);
/* Close it; waits a little for what is on its way. */
kvs_status_t ar_scheduler_close(kvs_net_job_t *job, int64_t timeout_ms);

/* ERR_STATE: what a process of another role answers to operations. */
kvs_status_t ar_refuse(int role, const char *what);

#endif
