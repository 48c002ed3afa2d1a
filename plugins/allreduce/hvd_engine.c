/* SPDX-License-Identifier: Apache-2.0 */
/* hvd_engine.c - the choice between shm and mpi, once a job, and of nccl beside it for arrays on devices; and
 * exchanges by the one chosen. */
#include "hvd_engine.h"

#include "hvd_mpi.h"
#include "hvd_openmpi.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

typedef struct carrier {
    hvd_job_t *job;
    kvs_net_node_t *node;
    int rank, n_workers;
    ar_group_t *group;    /* the workers of this host; NULL: nothing goes through shared memory */
    hvd_quick_t *quick;   /* NULL: they are not all, or a timeline is written */
    hvd_mpi_t *mpi;       /* NULL: the engine is shm */
    bool may_have_nccl;   /* it is looked for when arrays on devices come */
    pthread_mutex_t lock; /* guards what follows */
    bool has_looked;
    hvd_nccl_t *nccl; /* NULL: arrays on devices go through the host */
} carrier_t;

/* ---- Exchanges ------------------------------------------------------------------------------------ */

static kvs_status_t reduce(const carrier_t *c, const ar_party_t *party, int kind,
                           const ar_data_t *data)
{
    /* with the engine shm, members of the group are the ranks */
    return c->mpi != NULL ? hvd_mpi_reduce(c->mpi, party, kind, data)
                          : ar_group_reduce(c->group, party, kind, data);
}

static kvs_status_t broadcast(const carrier_t *c, const ar_party_t *party, int root,
                              const ar_data_t *data)
{
    return c->mpi != NULL ? hvd_mpi_broadcast(c->mpi, party, root, data)
                          : ar_group_broadcast(c->group, party, root, data);
}

kvs_status_t hvd_engine_reduce(hvd_job_t *job, const ar_party_t *party, int kind,
                               const ar_data_t *data)
{
    return reduce(hvd_job_engine(job), party, kind, data);
}

kvs_status_t hvd_engine_broadcast(hvd_job_t *job, const ar_party_t *party, int root,
                                  const ar_data_t *data)
{
    return broadcast(hvd_job_engine(job), party, root, data);
}

hvd_quick_t *hvd_engine_quick(const hvd_job_t *job)
{
    return ((const carrier_t *)hvd_job_engine(job))->quick;
}

kvs_status_t hvd_engine_check_host(const hvd_job_t *job)
{
    const carrier_t *c = hvd_job_engine(job);

    return c->group != NULL || c->mpi != NULL
               ? KVS_OK
               : kvs_fail(KVS_ERR_UNAVAILABLE,
                          "engine nccl carries arrays on devices only, where the workers don't "
                          "share the "
                          "memory of one host; use the engine mpi, under mpirun");
}

/* An exchange of arrays that all have the same shape: the pieces of all items make one row. */
static kvs_status_t run_pieces(const carrier_t *c, hvd_pending_t *const *pending, size_t n,
                               const ar_party_t *party)
{
    ar_piece_t *pieces = calloc(n, sizeof(*pieces));
    kvs_status_t status;

    if (pieces == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for an exchange");
    }
    for (size_t i = 0; i < n; i++) {
        pieces[i] = pending[i]->piece;
    }
    ar_data_t data = ar_data_number(pending[0]->dtype, pieces, n);

    status = pending[0]->what == HVD_REDUCE ? reduce(c, party, pending[0]->reduce, &data)
                                            : broadcast(c, party, pending[0]->root, &data);
    free(pieces);
    return status;
}

static kvs_status_t run(void *state, hvd_pending_t *const *pending, size_t n, const hvd_go_t *go)
{
    const carrier_t *c = state;
    ar_party_t party = {.number = go->number,
                        .n_members = (int)go->n_members,
                        .members = go->members,
                        .timeout_ms = pending[0]->timeout_ms};

    if (pending[0]->device != NULL) {
        return hvd_nccl_run(pending, n, go);
    }
    return pending[0]->run != NULL ? pending[0]->run(pending[0], c->job, &party, go->items[0].extra)
                                   : run_pieces(c, pending, n, &party);
}

/* ---- The choice ------------------------------------------------------------------------------------ */

static bool has_failed(void *arg)
{
    return hvd_job_has_failed(((const carrier_t *)arg)->job);
}

static bool all_here(const carrier_t *c)
{
    for (int rank = 0; rank < c->n_workers; rank++) {
        const kvs_net_peer_t *peer = kvs_net_node_peer(c->node, KVS_NET_WORKER, rank);

        if (!peer->is_self && !kvs_net_node_shares_memory(c->node, peer)) {
            return false;
        }
    }
    return true;
}

static kvs_status_t open_group(carrier_t *c, size_t n_extra)
{
    return ar_group_open(c->node, "horovod", n_extra, hvd_job_settings(c->job)->rendezvous_ms,
                         &c->group);
}

static bool is_switched_off(const carrier_t *c)
{
    return hvd_job_settings(c->job)->shm == KVS_NET_SHM_OFF;
}

static kvs_status_t open_shm(carrier_t *c, const hvd_engine_options_t *options)
{
    kvs_status_t status;

    if (!all_here(c) && is_switched_off(c)) {
        return kvs_fail(KVS_ERR_UNAVAILABLE,
                        "engine shm: KVSTORE_SHM=0 keeps the workers from sharing memory; leave it "
                        "out, or use the engine mpi, under mpirun");
    }
    if (!all_here(c)) {
        return kvs_fail(KVS_ERR_UNAVAILABLE,
                        "engine shm: the job's workers don't share the memory of one host; use "
                        "the engine mpi, under mpirun");
    }
    status = open_group(c, hvd_quick_bytes(c->n_workers));
    /* what goes that way would not be in the timeline */
    return status == KVS_OK && !options->has_timeline ? hvd_quick_open(c->node, c->group, &c->quick)
                                                      : status;
}

/* Wait for all workers that use this engine. */
static kvs_status_t meet(carrier_t *c, const char *engine)
{
    kvs_net_store_args_t args = KVS_NET_STORE_ARGS_INIT;
    kvs_net_store_t *store;
    kvs_status_t status;

    args.type = engine;
    status = kvs_net_store_open(c->node, &args, hvd_job_settings(c->job)->rendezvous_ms, &store);
    return status == KVS_OK ? kvs_net_store_close(store, hvd_job_settings(c->job)->rendezvous_ms)
                            : status;
}

/* Asked for on one host, it carries everything: else it would have nothing to do. */
static kvs_status_t open_mpi(carrier_t *c, const hvd_engine_options_t *options)
{
    const kvs_net_peer_t *self = kvs_net_node_self(c->node);
    kvs_status_t status = hvd_openmpi_load(options->mpi_library);

    if (status == KVS_OK) {
        status = meet(c, "engine mpi");
    }
    if (status == KVS_OK && !all_here(c) && kvs_net_node_shares_memory(c->node, self)) {
        status = open_group(c, 0);
    }
    return status == KVS_OK
               ? hvd_mpi_open(c->node, c->group, hvd_job_settings(c->job)->rendezvous_ms,
                              has_failed, c, &c->mpi)
               : status;
}

/* Who has said which engine to use wants to see it. */
static void tell_engine(const carrier_t *c, bool is_told, bool is_nccl)
{
    int level = is_told ? KVS_LOG_WARN : KVS_LOG_INFO;
    char text[200];

    if (is_nccl) {
        kvs_log(level, "horovod", "engine nccl: worker %d of %d, NCCL %s", c->rank, c->n_workers,
                hvd_nccl_text(text, sizeof(text)));
    } else if (c->mpi != NULL) {
        kvs_log(level, "horovod", "engine mpi: worker %d of %d, %d hosts, %s", c->rank,
                c->n_workers, hvd_mpi_n_hosts(c->mpi), hvd_mpi_version(c->mpi));
    } else {
        kvs_log(level, "horovod", "engine shm: worker %d of %d, on one host", c->rank,
                c->n_workers);
    }
}

static int n_workers_here(const carrier_t *c)
{
    int n = 0;

    for (int rank = 0; rank < c->n_workers; rank++) {
        n += kvs_net_node_peer(c->node, KVS_NET_WORKER, rank)->same_host != 0;
    }
    return n;
}

/* Without being asked for, NCCL is used where it is there and each worker of this host can have a device of
 * its own, which it needs. Looked for when the first arrays on devices come: nobody else opens CUDA. */
static void look_for_nccl_locked(carrier_t *c)
{
    const kvs_provider_t *provider;
    int n_devices = 0, n_here = n_workers_here(c);
    char text[200];

    if (hvd_nccl_check() != KVS_OK || kvs_provider_find(KVS_DEVICE_CUDA, &provider) != KVS_OK ||
        provider->n_devices(&n_devices) != KVS_OK) {
        kvs_log(KVS_LOG_INFO, "horovod", "arrays on devices go through the host: %s",
                kvs_plugin_host->last_error());
    } else if (n_devices < n_here) {
        kvs_log(
            KVS_LOG_INFO, "horovod",
            "arrays on devices go through the host: %d workers here see %d devices; engine=nccl "
            "if those are different ones",
            n_here, n_devices);
    } else if (hvd_nccl_open(c->job, &c->nccl) != KVS_OK) {
        kvs_log(KVS_LOG_WARN, "horovod", "arrays on devices go through the host: %s",
                kvs_plugin_host->last_error());
    } else {
        kvs_log(KVS_LOG_INFO, "horovod", "arrays on devices: engine nccl, NCCL %s",
                hvd_nccl_text(text, sizeof(text)));
    }
}

hvd_nccl_t *hvd_engine_nccl(const hvd_job_t *job)
{
    carrier_t *c = hvd_job_engine(job);
    hvd_nccl_t *nccl;

    pthread_mutex_lock(&c->lock);
    if (c->may_have_nccl && !c->has_looked) {
        look_for_nccl_locked(c);
        c->has_looked = true;
    }
    nccl = c->nccl;
    pthread_mutex_unlock(&c->lock);
    return nccl;
}

/* What is in host memory goes as it would otherwise, on one host; elsewhere it is refused. */
static kvs_status_t open_nccl(carrier_t *c, const hvd_engine_options_t *options)
{
    kvs_status_t status = hvd_nccl_check();

    if (status == KVS_OK && all_here(c)) {
        status = open_shm(c, options);
    }
    status = status == KVS_OK ? hvd_nccl_open(c->job, &c->nccl) : status;
    return status == KVS_OK ? KVS_OK : kvs_fail_context(status, "engine nccl");
}

static kvs_status_t open_host(carrier_t *c, const hvd_engine_options_t *options, bool is_auto)
{
    bool is_mpi = strcmp(options->engine, "mpi") == 0;
    kvs_status_t status =
        is_mpi || (is_auto && !all_here(c)) ? open_mpi(c, options) : open_shm(c, options);

    if (status == KVS_ERR_UNAVAILABLE && is_auto && is_switched_off(c)) {
        status = kvs_fail_context(status, "KVSTORE_SHM=0 leaves the engine mpi only");
    }
    c->may_have_nccl = is_auto;
    return status;
}

kvs_status_t hvd_engine_check_name(const char *engine)
{
    static const char *const names[] = {"auto", "shm", "mpi", "nccl"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcmp(engine, names[i]) == 0) {
            return KVS_OK;
        }
    }
    return kvs_fail(KVS_ERR_ARGUMENT, "engine: \"%s\" is none; accepted are auto, shm, mpi, nccl",
                    engine);
}

static kvs_status_t open_engine(carrier_t *c, const hvd_engine_options_t *options)
{
    bool is_auto = strcmp(options->engine, "auto") == 0;
    bool is_nccl = strcmp(options->engine, "nccl") == 0;
    kvs_status_t status = hvd_engine_check_name(options->engine);

    if (status == KVS_OK) {
        status = is_nccl ? open_nccl(c, options) : open_host(c, options, is_auto);
    }
    if (status == KVS_OK) {
        tell_engine(c, !is_auto, is_nccl);
    }
    return status;
}

static void close_carrier(void *state, bool is_over)
{
    carrier_t *c = state;

    hvd_nccl_close(c->nccl, is_over);
    pthread_mutex_destroy(&c->lock);
    if (!is_over) { /* else not all of them are there to take part in it */
        hvd_mpi_close(c->mpi);
        hvd_openmpi_finalize();
    }
    hvd_quick_close(c->quick);
    ar_group_close(c->group);
    free(c);
}

static kvs_status_t open_carrier(hvd_job_t *job, const void *options, void **ret_state)
{
    carrier_t *c = calloc(1, sizeof(*c));
    kvs_status_t status;

    if (c == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for an engine");
    }
    pthread_mutex_init(&c->lock, NULL);
    c->job = job;
    c->node = hvd_job_node(job);
    c->rank = kvs_net_node_rank(c->node);
    c->n_workers = kvs_net_node_count(c->node, KVS_NET_WORKER);
    status = open_engine(c, options);
    if (status != KVS_OK) {
        hvd_mpi_close(c->mpi);
        close_carrier(c, true);
        return status;
    }
    *ret_state = c;
    return KVS_OK;
}

static void take_message(void *state, hvd_view_t view)
{
    carrier_t *c = state;
    hvd_nccl_t *nccl;

    pthread_mutex_lock(&c->lock);
    nccl = c->nccl;
    pthread_mutex_unlock(&c->lock);
    if (nccl != NULL) { /* who has asked for an exchange has it */
        hvd_nccl_message(nccl, view);
    }
}

const hvd_engine_t hvd_engine = {.name = "horovod",
                                 .version = "horovod " HOROVOD_VERSION,
                                 .n_steps = ar_group_steps,
                                 .open = open_carrier,
                                 .run = run,
                                 .message = take_message,
                                 .close = close_carrier};
