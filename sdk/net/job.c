/* SPDX-License-Identifier: Apache-2.0 */
/* job.c - this process's part in a job: it hosts the scheduler or finds it, and learns whether it has
 * to host a server. One ZeroMQ context serves all its nodes. */
#include "job.h"

#include "address.h"
#include "beacon.h"
#include "clock.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define DEFAULT_WINDOW      (UINT64_C(16) << 20)
#define DEFAULT_MAX_MESSAGE (UINT64_C(64) << 20)
#define MAX_LANES           16

/* ---- Settings -------------------------------------------------------------------------------- */

static void fill_in(kvs_net_settings_t *settings)
{
    settings->role = settings->role == 0 ? KVS_NET_WORKER : settings->role;
    if (settings->job_id[0] == '\0') {
        snprintf(settings->job_id, sizeof(settings->job_id), "default");
    }
    settings->heartbeat_ms = settings->heartbeat_ms <= 0 ? 2000 : settings->heartbeat_ms;
    settings->dead_after_ms = settings->dead_after_ms <= 0 ? 15000 : settings->dead_after_ms;
    settings->rendezvous_ms = settings->rendezvous_ms == 0 ? 300000 : settings->rendezvous_ms;
    settings->max_message_bytes =
        settings->max_message_bytes == 0 ? DEFAULT_MAX_MESSAGE : settings->max_message_bytes;
    settings->window_bytes = settings->window_bytes == 0 ? DEFAULT_WINDOW : settings->window_bytes;
    settings->n_lanes = settings->n_lanes == 0 ? 1 : settings->n_lanes;
    settings->n_io_threads = settings->n_io_threads == 0 ? 1 : settings->n_io_threads;
}

static bool embeds_scheduler(const kvs_net_settings_t *settings)
{
    return (settings->embed & KVS_NET_EMBED_SCHEDULER) != 0;
}

static kvs_status_t check(const kvs_net_settings_t *settings)
{
    const char *wrong = NULL;

    if (settings->role != KVS_NET_WORKER && settings->role != KVS_NET_SERVER &&
        settings->role != KVS_NET_SCHEDULER) {
        wrong = "role is none of worker, server, scheduler";
    } else if (settings->n_workers < 1 || settings->n_servers < 0) {
        wrong = "the number of workers is below 1, or that of servers below 0";
    } else if (!embeds_scheduler(settings) && settings->scheduler[0] == '\0') {
        wrong = "the scheduler has no address (KVSTORE_SCHEDULER)";
    } else if (embeds_scheduler(settings) && settings->n_workers > 1 && settings->rank < 0) {
        wrong = "an embedded scheduler needs ranks (KVSTORE_RANK)";
    } else if (settings->n_lanes < 1 || settings->n_lanes > MAX_LANES) {
        wrong = "the number of lanes is not from 1 to 16";
    } else if (settings->dead_after_ms < 2 * settings->heartbeat_ms) {
        wrong = "dead_after is less than twice the heartbeat";
    }
    return wrong == NULL ? KVS_OK : kvs_fail(KVS_ERR_ARGUMENT, "settings of a job: %s", wrong);
}

/* ---- Finding the scheduler ------------------------------------------------------------------- */

static kvs_status_t host_scheduler(kvs_net_job_t *job, const char *address)
{
    kvs_status_t status = net_scheduler_open(job->context, &job->settings, address,
                                             job->scheduler_beacon, &job->scheduler);

    if (status == KVS_OK) {
        snprintf(job->scheduler_address, sizeof(job->scheduler_address), "%s",
                 net_scheduler_address(job->scheduler));
    }
    return status;
}

/* The beacon is lit by another process, or by another plugin in this one, whose scheduler will do. */
static kvs_status_t use_other(const kvs_net_job_t *job)
{
    int64_t owner = net_beacon_owner(job->settings.job_id, "scheduler");

    if (owner == (int64_t)getpid()) {
        return KVS_OK;
    }
    return kvs_fail(KVS_ERR_EXISTS,
                    "a job with the id '%s' runs on this host already, its scheduler in process "
                    "%lld: set KVSTORE_JOB_ID to an id of its own",
                    job->settings.job_id, (long long)owner);
}

static kvs_status_t find_by_name(kvs_net_job_t *job)
{
    const kvs_net_settings_t *settings = &job->settings;
    char seconds[32];

    if (net_beacon_ask(settings->job_id, "scheduler", net_deadline(settings->rendezvous_ms),
                       job->scheduler_address, sizeof(job->scheduler_address))) {
        return KVS_OK;
    }
    kvs_net_print(seconds, sizeof(seconds), "%g s", (double)settings->rendezvous_ms / 1000);
    return kvs_fail(KVS_ERR_TIMEOUT,
                    "worker %d: for %s no process of job '%s' has hosted a scheduler on this host: "
                    "rank 0 does, and it is missing; if it is on another host, set "
                    "KVSTORE_SCHEDULER=host:port",
                    settings->rank, seconds, settings->job_id);
}

static kvs_status_t embed_by_name(kvs_net_job_t *job)
{
    kvs_status_t status;

    if (job->settings.n_workers == 1) {
        return host_scheduler(job, "127.0.0.1:0");
    }
    if (job->settings.rank != 0) {
        return find_by_name(job);
    }
    status = net_beacon_light(job->settings.job_id, "scheduler", &job->scheduler_beacon);
    if (status == KVS_OK) {
        return host_scheduler(job, "127.0.0.1:0");
    }
    status = status == KVS_ERR_EXISTS ? use_other(job) : status;
    return status == KVS_OK ? find_by_name(job) : status;
}

static kvs_status_t find_scheduler(kvs_net_job_t *job)
{
    const kvs_net_settings_t *settings = &job->settings;
    bool here =
        settings->role == KVS_NET_SCHEDULER || (embeds_scheduler(settings) && settings->rank == 0);

    if (settings->scheduler[0] == '\0') {
        return embed_by_name(job);
    }
    snprintf(job->scheduler_address, sizeof(job->scheduler_address), "%s", settings->scheduler);
    return here ? host_scheduler(job, settings->scheduler) : KVS_OK;
}

/* The first process of a host to light the beacon hosts the server, in each of its plugins. */
static void elect_server(kvs_net_job_t *job)
{
    if ((job->settings.embed & KVS_NET_EMBED_SERVERS) == 0 ||
        job->settings.role != KVS_NET_WORKER) {
        return;
    }
    job->hosts_server =
        job->settings.n_workers == 1 ||
        net_beacon_light(job->settings.job_id, "server", &job->server_beacon) == KVS_OK ||
        net_beacon_owner(job->settings.job_id, "server") == (int64_t)getpid();
}

/* ---- Opening and closing --------------------------------------------------------------------- */

/* Where the kernel can't empty it in children, forks are not noticed. */
static const uint32_t *new_page(void)
{
    uint32_t *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (page == MAP_FAILED) {
        return NULL;
    }
    if (madvise(page, 4096, MADV_WIPEONFORK) != 0) {
        kvs_log(KVS_LOG_DEBUG, "net", "forks are not noticed: %s", strerror(errno));
    }
    *page = 1;
    return page;
}

static void free_job(kvs_net_job_t *job)
{
    net_context_free(job->context);
    if (job->scheduler_beacon >= 0) {
        close(job->scheduler_beacon);
    }
    if (job->server_beacon >= 0) {
        close(job->server_beacon);
    }
    if (job->alive != NULL) {
        munmap((void *)(uintptr_t)job->alive, 4096);
    }
    free(job);
}

kvs_status_t kvs_net_job_open(const kvs_net_settings_t *settings, kvs_net_job_t **ret_job)
{
    kvs_net_job_t *job = calloc(1, sizeof(*job));
    kvs_status_t status;

    if (job == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for a job");
    }
    job->settings = *settings;
    job->scheduler_beacon = job->server_beacon = -1;
    job->process_id = net_random();
    job->alive = new_page();
    fill_in(&job->settings);
    status = check(&job->settings);
    if (status == KVS_OK && job->alive == NULL) {
        status = kvs_fail(KVS_ERR_NO_MEMORY, "no memory for a job");
    }
    status = status == KVS_OK ? net_context_new(job->settings.n_io_threads, &job->context) : status;
    status = status == KVS_OK ? find_scheduler(job) : status;
    if (status != KVS_OK) {
        free_job(job);
        return status;
    }
    elect_server(job);
    kvs_log(KVS_LOG_INFO, "net", "%s of job '%s', told by %s; the scheduler is at %s%s",
            kvs_net_role_name(job->settings.role), job->settings.job_id,
            job->settings.rule[0] == '\0' ? "the program" : job->settings.rule,
            job->scheduler_address, job->scheduler != NULL ? ", in this process" : "");
    *ret_job = job;
    return KVS_OK;
}

int kvs_net_job_hosts_server(const kvs_net_job_t *job)
{
    return job->hosts_server;
}

const char *kvs_net_job_scheduler(const kvs_net_job_t *job)
{
    return job->scheduler_address;
}

kvs_status_t kvs_net_job_wait_end(kvs_net_job_t *job, int64_t timeout_ms)
{
    if (!net_job_is_ours(job)) {
        return KVS_ERR_STATE;
    }
    if (job->scheduler == NULL) {
        return kvs_fail(KVS_ERR_STATE, "the scheduler of job '%s' is not in this process",
                        job->settings.job_id);
    }
    return net_scheduler_wait(job->scheduler, timeout_ms);
}

void kvs_net_job_cancel(kvs_net_job_t *job)
{
    if (job->scheduler != NULL) {
        net_scheduler_cancel(job->scheduler);
    }
}

kvs_status_t kvs_net_job_close(kvs_net_job_t *job, int64_t timeout_ms)
{
    kvs_status_t status;

    if (job == NULL) {
        return KVS_OK;
    }
    if (!net_job_is_ours(job)) {
        return KVS_ERR_STATE; /* and ZeroMQ's part of it is not to be touched */
    }
    status = net_scheduler_close(job->scheduler, timeout_ms);
    free_job(job);
    return status;
}
