/* SPDX-License-Identifier: Apache-2.0 */
/* nccl_link.c - one thread and one list of ids for all stores of the process in its job. */
#include "nccl_link.h"

#include "deadline.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LOOK_MS    50   /* how often who waits looks whether the job is over */
#define GOODBYE_MS 2000 /* at the end of the process */

/* An id that has come and not been taken yet. */
typedef struct letter {
    struct letter *next;
    uint64_t digest; /* of its set */
    ncclUniqueId id;
} letter_t;

struct nccl_link {
    nccl_peers_t peers;
    hvd_job_t *job;
    pthread_t thread;
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t came;
    letter_t *letters; /* oldest first */
    nccl_wait_t *first, **end;
    bool stops;
};

/* ---- Ids ------------------------------------------------------------------------------------------ */

static kvs_status_t check(void *arg)
{
    return hvd_job_check(((const nccl_link_t *)arg)->job);
}

static void fail(void *arg, kvs_status_t status, const char *text)
{
    hvd_job_t *job = ((const nccl_link_t *)arg)->job;

    if (!hvd_job_has_failed(job)) {
        hvd_job_fail(job, status, text);
    }
}

static kvs_status_t give_id(void *arg, const nccl_set_t *set, const ncclUniqueId *id)
{
    nccl_link_t *link = arg;
    hvd_bytes_t bytes = {0};
    kvs_status_t status;

    hvd_put_i64(&bytes, (int64_t)set->digest);
    hvd_put_bytes(&bytes, id->internal, sizeof(id->internal));
    for (int m = 1; m < set->world.n_members; m++) {
        hvd_job_send(link->job, set->world.members[m], &bytes);
    }
    status = bytes.failed ? kvs_fail(KVS_ERR_NO_MEMORY, "no memory for a message") : KVS_OK;
    hvd_bytes_release(&bytes);
    return status;
}

void nccl_link_message(nccl_link_t *link, hvd_view_t view)
{
    letter_t *letter = calloc(1, sizeof(*letter)), **at = &link->letters;
    const void *id;

    if (letter == NULL) {
        kvs_log(KVS_LOG_ERROR, "nccl", "no memory for an id: an exchange will time out");
        return;
    }
    letter->digest = (uint64_t)hvd_get_i64(&view);
    id = hvd_get_bytes(&view, sizeof(letter->id.internal));
    if (id == NULL) {
        kvs_log(KVS_LOG_WARN, "nccl", "a malformed id: dropped");
        free(letter);
        return;
    }
    memcpy(letter->id.internal, id, sizeof(letter->id.internal));
    pthread_mutex_lock(&link->lock);
    while (*at != NULL) {
        at = &(*at)->next;
    }
    *at = letter;
    pthread_cond_broadcast(&link->came);
    pthread_mutex_unlock(&link->lock);
}

static letter_t *find_locked(nccl_link_t *link, uint64_t digest)
{
    letter_t **at = &link->letters, *letter;

    while (*at != NULL && (*at)->digest != digest) {
        at = &(*at)->next;
    }
    letter = *at;
    if (letter != NULL) {
        *at = letter->next;
    }
    return letter;
}

static void wait_locked(nccl_link_t *link)
{
    struct timespec until = kvs_time_after(LOOK_MS);

    (void)pthread_cond_clockwait(&link->came, &link->lock, CLOCK_MONOTONIC, &until);
}

static kvs_status_t take_id(void *arg, const nccl_set_t *set, int64_t timeout_ms,
                            ncclUniqueId *ret_id)
{
    nccl_link_t *link = arg;
    int64_t end = timeout_ms > 0 ? hvd_now_ms() + timeout_ms : INT64_MAX;
    int from = set->world.members[0];
    kvs_status_t status = KVS_OK;
    letter_t *letter;

    pthread_mutex_lock(&link->lock);
    while ((letter = find_locked(link, set->digest)) == NULL && status == KVS_OK) {
        wait_locked(link);
        status = check(link);
        if (status == KVS_OK && hvd_now_ms() >= end) {
            status =
                kvs_fail(KVS_ERR_TIMEOUT, "no id of a communicator came from %s",
                         kvs_net_node_peer(hvd_job_node(link->job), KVS_NET_WORKER, from)->label);
        }
    }
    pthread_mutex_unlock(&link->lock);
    if (letter != NULL) {
        *ret_id = letter->id;
        free(letter);
        return KVS_OK;
    }
    return status;
}

/* ---- The thread that waits -------------------------------------------------------------------------- */

static void *work(void *arg)
{
    nccl_link_t *link = arg;

    pthread_mutex_lock(&link->lock);
    while (link->first != NULL || !link->stops) {
        nccl_wait_t *wait = link->first;

        if (wait == NULL) {
            pthread_cond_wait(&link->came, &link->lock);
            continue;
        }
        link->first = wait->next;
        if (link->first == NULL) {
            link->end = &link->first;
        }
        pthread_mutex_unlock(&link->lock);
        wait->run(wait);
        pthread_mutex_lock(&link->lock);
    }
    pthread_mutex_unlock(&link->lock);
    return NULL;
}

void nccl_link_wait(nccl_link_t *link, nccl_wait_t *wait)
{
    wait->next = NULL;
    pthread_mutex_lock(&link->lock);
    *link->end = wait;
    link->end = &wait->next;
    pthread_cond_broadcast(&link->came);
    pthread_mutex_unlock(&link->lock);
}

/* ---- Exchanges --------------------------------------------------------------------------------------- */

kvs_status_t nccl_link_exchange(nccl_link_t *link, nccl_span_t *const *spans, size_t n,
                                const hvd_go_t *go, const nccl_span_call_t *call)
{
    nccl_world_t *worlds = calloc(n, sizeof(*worlds));
    int rank = kvs_net_node_rank(hvd_job_node(link->job)), self = 0;
    kvs_status_t status;

    if (worlds == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for an exchange of %zu keys", n);
    }
    while (go->members[self] != rank) { /* it is one of them */
        self++;
    }
    for (size_t i = 0; i < n; i++) {
        worlds[i] = (nccl_world_t){.peers = &link->peers,
                                   .n_members = (int)go->n_members,
                                   .self = self,
                                   .members = go->members,
                                   .devices = go->items[i].extra};
    }
    status = nccl_span_exchange(spans, worlds, n, call);
    free(worlds);
    return status;
}

/* ---- Life --------------------------------------------------------------------------------------------- */

static void free_link(nccl_link_t *link)
{
    for (letter_t *letter = link->letters, *next; letter != NULL; letter = next) {
        next = letter->next;
        free(letter);
    }
    pthread_cond_destroy(&link->came);
    pthread_mutex_destroy(&link->lock);
    free(link);
}

kvs_status_t nccl_link_open(hvd_job_t *job, nccl_link_t **ret_link)
{
    nccl_link_t *link = calloc(1, sizeof(*link));
    sigset_t all, before;
    int error;

    if (link == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for NCCL in a job");
    }
    link->job = job;
    link->peers = (nccl_peers_t){link, check, give_id, take_id, fail};
    link->end = &link->first;
    pthread_mutex_init(&link->lock, NULL);
    pthread_cond_init(&link->came, NULL);
    sigfillset(&all); /* the program's signals are for its own threads */
    pthread_sigmask(SIG_BLOCK, &all, &before);
    error = pthread_create(&link->thread, NULL, work, link);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error != 0) {
        free_link(link);
        return kvs_fail(KVS_ERR_NO_MEMORY, "no thread to wait for devices: %s", strerror(error));
    }
    *ret_link = link;
    return KVS_OK;
}

void nccl_link_close(nccl_link_t *link, bool is_over)
{
    if (link == NULL) {
        return;
    }
    pthread_mutex_lock(&link->lock);
    link->stops = true;
    pthread_cond_broadcast(&link->came);
    pthread_mutex_unlock(&link->lock);
    (void)pthread_join(link->thread, NULL);
    if (nccl_exchange_close_world(&link->peers, is_over, GOODBYE_MS)) {
        free_link(link);
    }
}
