/* SPDX-License-Identifier: Apache-2.0 */
#include "hvd_member.h"

#include "ar_settings.h"
#include "deadline.h"

#define LOOK_MS 100 /* how often who waits looks whether the store was cancelled */

kvs_status_t hvd_member_open(hvd_member_t *member, hvd_job_t *job, const kvs_open_args_t *args)
{
    kvs_status_t status;

    hvd_job_use(job);
    status = hvd_job_open_store(job, args, member->timeout_ms, &member->net);
    if (status != KVS_OK) {
        hvd_job_unuse(job);
        return status;
    }
    member->number = kvs_net_store_number(member->net);
    member->rank = kvs_net_node_rank(hvd_job_node(job));
    member->n_workers = kvs_net_node_count(hvd_job_node(job), KVS_NET_WORKER);
    pthread_mutex_init(&member->lock, NULL);
    member->job = job;
    return KVS_OK;
}

kvs_status_t hvd_member_close(hvd_member_t *member, int64_t timeout_ms)
{
    kvs_status_t status;

    hvd_job_say_closed(member->job, member->number);
    status = kvs_net_store_close(member->net, ar_net_timeout(timeout_ms));
    hvd_job_unuse(member->job);
    hvd_keys_release(&member->keys);
    pthread_mutex_destroy(&member->lock);
    return status;
}

kvs_status_t hvd_member_barrier(hvd_member_t *member)
{
    kvs_status_t status = hvd_job_check(member->job);

    if (status == KVS_OK) {
        status = kvs_net_store_barrier(member->net, ar_net_timeout(member->timeout_ms));
    }
    return status == KVS_OK ? KVS_OK : kvs_fail_context(status, "barrier");
}

void hvd_member_cancel(hvd_member_t *member)
{
    atomic_store_explicit(&member->cancelled, true, memory_order_relaxed);
    kvs_net_store_cancel(member->net);
}

void hvd_member_pause(pthread_cond_t *changed, pthread_mutex_t *lock)
{
    struct timespec until = kvs_time_after(LOOK_MS);

    (void)pthread_cond_clockwait(changed, lock, CLOCK_MONOTONIC, &until);
}
