/* SPDX-License-Identifier: Apache-2.0 */
/* job.h - what nodes need of their job. Fixed after kvs_net_job_open. */
#ifndef NET_JOB_H
#define NET_JOB_H

#include "scheduler.h"

struct kvs_net_job {
    kvs_net_settings_t settings; /* with every default filled in */
    net_context_t *context;
    char scheduler_address[300];
    uint64_t process_id;
    bool hosts_server;
    net_scheduler_t *scheduler;          /* NULL: not here */
    int scheduler_beacon, server_beacon; /* -1: not ours */
    const uint32_t *alive;               /* a page that a forked child finds empty */
};

/* False in a forked child, with the error's text. */
static inline bool net_job_is_ours(const kvs_net_job_t *job)
{
    if (*job->alive == 1) {
        return true;
    }
    (void)kvs_fail(KVS_ERR_STATE, "a forked child cannot use its parent's connections: create a "
                                  "store of its own");
    return false;
}

#endif
