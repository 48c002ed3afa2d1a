/* SPDX-License-Identifier: Apache-2.0 */
/* hvd_mpi.c - an array goes through in pieces of CHUNK_BYTES. Of each, one worker a host, its leader in
 * this exchange, holds what the host has; leaders sum a slice each and give it to all, by messages from
 * one to the other, so that any of them may be missing. Half types travel and are summed as float32, and
 * are rounded once, at the end. Waiting is looking, and sleeping longer each time. */
#include "hvd_mpi.h"

#include "ar_reduce.h"
#include "hvd_openmpi.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CHUNK_BYTES ((size_t)1 << 20)
#define SLICE_UNIT  64 /* elements */
#define MAX_NAP_NS  200000
#define TAG         1

struct hvd_mpi {
    const hvd_openmpi_t *mpi;
    kvs_net_node_t *node;
    ar_group_t *group; /* NULL: every worker is a host */
    hvd_mpi_comm_t comm;
    int rank, n_workers, n_hosts;
    int32_t *host_of;      /* by rank: the lowest worker of its host */
    int32_t own_host;      /* what this one says of its own */
    int64_t rendezvous_ms; /* for what all workers do as they begin; negative: for ever */
    bool (*is_over)(void *arg);
    void *arg;
    /* of the exchange that runs */
    char *chunk, *received;
    int *leaders, *local; /* ranks, ascending; indices in the group */
    const void **sources;
    hvd_mpi_request_t *requests;
    int *partners; /* ranks: of each request */
    int n_requests;
    bool is_broken; /* requests are under way that nobody waits for: their memory stays */
};

/* ---- Opening ----------------------------------------------------------------------------------- */

static kvs_status_t make_room(hvd_mpi_t *mpi)
{
    size_t n = (size_t)mpi->n_workers;

    mpi->host_of = calloc(n, sizeof(*mpi->host_of));
    mpi->leaders = calloc(n, sizeof(*mpi->leaders));
    mpi->local = calloc(n, sizeof(*mpi->local));
    mpi->sources = calloc(n, sizeof(*mpi->sources));
    mpi->requests = calloc(2 * n, sizeof(*mpi->requests));
    mpi->partners = calloc(2 * n, sizeof(*mpi->partners));
    mpi->chunk = aligned_alloc(64, CHUNK_BYTES);
    /* one slice a host, and what rounding up makes of them */
    mpi->received = aligned_alloc(64, CHUNK_BYTES + n * SLICE_UNIT * sizeof(double));
    return mpi->host_of != NULL && mpi->leaders != NULL && mpi->local != NULL &&
                   mpi->sources != NULL && mpi->requests != NULL && mpi->partners != NULL &&
                   mpi->chunk != NULL && mpi->received != NULL
               ? KVS_OK
               : kvs_fail(KVS_ERR_NO_MEMORY, "no memory for the engine mpi");
}

static int64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void nap(int64_t *ns)
{
    struct timespec pause = {0, *ns};

    nanosleep(&pause, NULL);
    *ns = *ns * 2 < MAX_NAP_NS ? *ns * 2 : MAX_NAP_NS;
}

/* Of something that all workers do, which has begun with `error`. Past the deadline it is under way still. */
static kvs_status_t wait_for_workers(hvd_mpi_t *mpi, int error, hvd_mpi_request_t request,
                                     const char *what)
{
    int64_t begun = now_ns(), pause = 1000;
    kvs_status_t status = hvd_openmpi_check(mpi->mpi, error, what);
    int done = 0;

    while (status == KVS_OK && !done) {
        status =
            hvd_openmpi_check(mpi->mpi, mpi->mpi->Testall(1, &request, &done, NULL), "Testall");
        if (status != KVS_OK || done) {
            break;
        }
        nap(&pause);
        if (mpi->is_over(mpi->arg)) {
            status = kvs_fail(KVS_ERR_PEER, "the job has failed meanwhile");
        } else if (mpi->rendezvous_ms >= 0 && now_ns() - begun > mpi->rendezvous_ms * 1000000) {
            status =
                kvs_fail(KVS_ERR_TIMEOUT,
                         "engine mpi: MPI_%s has not ended within %.3g s: the other workers do "
                         "not answer by MPI",
                         what, (double)mpi->rendezvous_ms / 1000);
        }
    }
    mpi->is_broken |= status != KVS_OK;
    return status;
}

/* Every worker tells which is the lowest of its host; -1: it is another one for MPI. */
static kvs_status_t find_hosts(hvd_mpi_t *mpi, bool is_right)
{
    int32_t lowest = mpi->group == NULL ? mpi->rank : ar_group_peer(mpi->group, 0)->rank;
    hvd_mpi_request_t request = NULL;
    int error;
    kvs_status_t status;

    mpi->own_host = is_right ? lowest : -1;
    error =
        mpi->mpi->Iallgather(&mpi->own_host, sizeof(mpi->own_host), mpi->mpi->byte, mpi->host_of,
                             sizeof(mpi->own_host), mpi->mpi->byte, mpi->comm, &request);
    status = wait_for_workers(mpi, error, request, "Iallgather");

    for (int rank = 0; rank < mpi->n_workers && status == KVS_OK; rank++) {
        mpi->n_hosts += mpi->host_of[rank] == rank;
        if (mpi->host_of[rank] < 0 && is_right) {
            status = kvs_fail(KVS_ERR_ARGUMENT,
                              "engine mpi: process %d of MPI is another worker of the job; start "
                              "every worker with one mpirun",
                              rank);
        }
    }
    return status;
}

/* All workers come as far as finding hosts, or none does. */
static kvs_status_t check_world(hvd_mpi_t *mpi)
{
    int rank = -1, n = -1;
    kvs_status_t status = KVS_OK;

    (void)mpi->mpi->Comm_rank(mpi->comm, &rank); /* these two can't fail on a communicator */
    (void)mpi->mpi->Comm_size(mpi->comm, &n);
    if (n == mpi->n_workers) {
        status = find_hosts(mpi, rank == mpi->rank);
    }
    return status != KVS_OK || (rank == mpi->rank && n == mpi->n_workers)
               ? status
               : kvs_fail(KVS_ERR_ARGUMENT,
                          "engine mpi: this process is worker %d of %d of the job, but process %d "
                          "of %d of MPI; start every worker with one mpirun",
                          mpi->rank, mpi->n_workers, rank, n);
}

kvs_status_t hvd_mpi_open(kvs_net_node_t *node, ar_group_t *group, int64_t rendezvous_ms,
                          bool (*is_over)(void *arg), void *arg, hvd_mpi_t **ret_mpi)
{
    hvd_mpi_t *mpi = calloc(1, sizeof(*mpi));
    kvs_status_t status;

    if (mpi == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for the engine mpi");
    }
    mpi->node = node;
    mpi->group = group;
    mpi->rank = kvs_net_node_rank(node);
    mpi->n_workers = kvs_net_node_count(node, KVS_NET_WORKER);
    mpi->rendezvous_ms = rendezvous_ms;
    mpi->is_over = is_over;
    mpi->arg = arg;
    status = make_room(mpi);
    if (status == KVS_OK) {
        status = hvd_openmpi_get(&mpi->mpi);
    }
    if (status == KVS_OK) {
        hvd_mpi_request_t request = NULL;
        int error = mpi->mpi->Comm_idup(mpi->mpi->world, &mpi->comm, &request);

        status = wait_for_workers(mpi, error, request, "Comm_idup");
    }
    if (status == KVS_OK) {
        (void)mpi->mpi->Comm_set_errhandler(mpi->comm, mpi->mpi->errors_return);
        status = check_world(mpi);
    }
    if (status != KVS_OK) {
        hvd_mpi_close(mpi);
        return status;
    }
    *ret_mpi = mpi;
    return KVS_OK;
}

void hvd_mpi_close(hvd_mpi_t *mpi)
{
    if (mpi == NULL || mpi->is_broken) {
        return;
    }
    if (mpi->comm != NULL && hvd_openmpi_is_there(mpi->mpi)) {
        (void)mpi->mpi->Comm_free(&mpi->comm); /* nothing can be done about it */
    }
    free(mpi->host_of);
    free(mpi->leaders);
    free(mpi->local);
    free((void *)(uintptr_t)mpi->sources);
    free(mpi->requests);
    free(mpi->partners);
    free(mpi->chunk);
    free(mpi->received);
    free(mpi);
}

const char *hvd_mpi_version(const hvd_mpi_t *mpi)
{
    return mpi->mpi->version;
}

int hvd_mpi_n_hosts(const hvd_mpi_t *mpi)
{
    return mpi->n_hosts;
}

/* ---- Messages ---------------------------------------------------------------------------------- */

static kvs_status_t send(hvd_mpi_t *mpi, const void *from, size_t n_bytes, int rank)
{
    if (n_bytes == 0) {
        return KVS_OK;
    }
    mpi->partners[mpi->n_requests] = rank;
    return hvd_openmpi_check(mpi->mpi,
                             mpi->mpi->Isend(from, (int)n_bytes, mpi->mpi->byte, rank, TAG,
                                             mpi->comm, &mpi->requests[mpi->n_requests++]),
                             "Isend");
}

static kvs_status_t receive(hvd_mpi_t *mpi, void *to, size_t n_bytes, int rank)
{
    if (n_bytes == 0) {
        return KVS_OK;
    }
    mpi->partners[mpi->n_requests] = rank;
    return hvd_openmpi_check(mpi->mpi,
                             mpi->mpi->Irecv(to, (int)n_bytes, mpi->mpi->byte, rank, TAG, mpi->comm,
                                             &mpi->requests[mpi->n_requests++]),
                             "Irecv");
}

static kvs_status_t fail_stuck(hvd_mpi_t *mpi, int64_t timeout_ms)
{
    char names[1024] = "";
    size_t n = 0;
    int last = -1;

    for (int i = 0; i < mpi->n_requests && n < sizeof(names); i++) {
        int rank = mpi->partners[i], done = 0;

        /* a request that ended earlier is gone, and counts as done */
        (void)mpi->mpi->Testall(1, &mpi->requests[i], &done, NULL);
        if (!done && rank != last) {
            last = rank;
            n += (size_t)snprintf(names + n, sizeof(names) - n, "%s%s", n == 0 ? "" : ", ",
                                  kvs_net_node_peer(mpi->node, KVS_NET_WORKER, rank)->label);
        }
    }
    return kvs_fail(KVS_ERR_TIMEOUT,
                    "stuck in the exchange: nothing came by MPI within %lld ms; awaited: %s",
                    (long long)timeout_ms, names);
}

/* Wait for everything that was begun. */
static kvs_status_t wait_all(hvd_mpi_t *mpi, int64_t timeout_ms)
{
    kvs_net_spin_t spin = KVS_NET_SPIN_INIT;
    int64_t begun = now_ns(), pause = 1000;
    kvs_status_t status = KVS_OK;
    int done = 0;

    while (status == KVS_OK) {
        status = hvd_openmpi_check(
            mpi->mpi, mpi->mpi->Testall(mpi->n_requests, mpi->requests, &done, NULL), "Testall");
        if (status != KVS_OK || done) {
            break;
        }
        if (kvs_net_node_spin(mpi->node, &spin)) {
            continue;
        }
        nap(&pause);
        if (mpi->is_over(mpi->arg)) {
            status = kvs_fail(KVS_ERR_PEER, "the job has failed meanwhile");
        } else if (timeout_ms > 0 && now_ns() - begun > timeout_ms * 1000000) {
            status = fail_stuck(mpi, timeout_ms);
        }
    }
    mpi->is_broken |= status != KVS_OK;
    mpi->n_requests = 0;
    return status;
}

/* ---- Parties ----------------------------------------------------------------------------------- */

/* Who is who in one exchange. */
typedef struct cast {
    int n_leaders, self; /* leaders, and this process's place among them; -1: it is none */
    int leader;          /* rank: of this host */
    int n_local;
    uint32_t number; /* the next of the group's exchanges */
    int64_t timeout_ms;
} cast_t;

/* `root` leads its host; elsewhere, and with -1, the lowest member does. */
static cast_t find_cast(hvd_mpi_t *mpi, const ar_party_t *party, int root)
{
    cast_t cast = {
        .self = -1, .leader = -1, .number = party->number, .timeout_ms = party->timeout_ms};
    int own_host = mpi->host_of[mpi->rank];

    for (int i = 0; i < party->n_members; i++) {
        int member = party->members[i], host = mpi->host_of[member];
        bool is_first = true, root_is_there = root >= 0 && mpi->host_of[root] == host;

        for (int before = 0; before < i; before++) {
            is_first &= mpi->host_of[party->members[before]] != host;
        }
        if (host == own_host) {
            mpi->local[cast.n_local++] =
                mpi->group == NULL ? 0 : ar_group_index_of(mpi->group, member);
        }
        if (is_first) {
            int leader = root_is_there ? root : member;

            cast.self = leader == mpi->rank ? cast.n_leaders : cast.self;
            cast.leader = host == own_host ? leader : cast.leader;
            mpi->leaders[cast.n_leaders++] = leader;
        }
    }
    return cast;
}

static ar_party_t local_party(const hvd_mpi_t *mpi, cast_t *cast, size_t n_bytes)
{
    ar_party_t party = {cast->number, cast->n_local, mpi->local, cast->timeout_ms};

    cast->number += ar_group_steps(n_bytes);
    return party;
}

/* ---- Between hosts ----------------------------------------------------------------------------- */

static void slice_of(const cast_t *cast, int64_t n, int place, int64_t *ret_first, int64_t *ret_n)
{
    int64_t each = (n + cast->n_leaders - 1) / cast->n_leaders;
    int64_t first;

    each = (each + SLICE_UNIT - 1) / SLICE_UNIT * SLICE_UNIT;
    first = place * each < n ? place * each : n;
    *ret_first = first;
    *ret_n = first + each < n ? each : n - first;
}

/* The chunk of each leader becomes the reduction of all leaders' chunks. */
static kvs_status_t reduce_between(hvd_mpi_t *mpi, const cast_t *cast, int reduce, int dtype,
                                   int64_t n)
{
    size_t size = kvs_dtype_bytes(dtype);
    int64_t own, n_own;
    kvs_status_t status = KVS_OK;

    slice_of(cast, n, cast->self, &own, &n_own);
    for (int i = 0; i < cast->n_leaders && status == KVS_OK; i++) {
        char *place = mpi->received + (size_t)i * (size_t)n_own * size;
        int64_t first, n_slice;

        slice_of(cast, n, i, &first, &n_slice);
        mpi->sources[i] = i == cast->self ? mpi->chunk + (size_t)own * size : place;
        if (i != cast->self) {
            status = receive(mpi, place, (size_t)n_own * size, mpi->leaders[i]);
        }
        if (i != cast->self && status == KVS_OK) {
            status = send(mpi, mpi->chunk + (size_t)first * size, (size_t)n_slice * size,
                          mpi->leaders[i]);
        }
    }
    status = status == KVS_OK ? wait_all(mpi, cast->timeout_ms) : status;
    if (status == KVS_OK && n_own > 0) {
        ar_reduce(reduce, dtype, n_own, mpi->sources, (size_t)cast->n_leaders,
                  mpi->chunk + (size_t)own * size);
    }
    for (int i = 0; i < cast->n_leaders && status == KVS_OK; i++) {
        int64_t first, n_slice;

        slice_of(cast, n, i, &first, &n_slice);
        if (i != cast->self) {
            status = receive(mpi, mpi->chunk + (size_t)first * size, (size_t)n_slice * size,
                             mpi->leaders[i]);
        }
        if (i != cast->self && status == KVS_OK) {
            status =
                send(mpi, mpi->chunk + (size_t)own * size, (size_t)n_own * size, mpi->leaders[i]);
        }
    }
    return status == KVS_OK ? wait_all(mpi, cast->timeout_ms) : status;
}

/* The chunk of each leader becomes that of `root`, one of them. */
static kvs_status_t broadcast_between(hvd_mpi_t *mpi, const cast_t *cast, int root, size_t n_bytes)
{
    kvs_status_t status = KVS_OK;

    if (mpi->rank != root) {
        status = receive(mpi, mpi->chunk, n_bytes, root);
    }
    for (int i = 0; mpi->rank == root && i < cast->n_leaders && status == KVS_OK; i++) {
        if (mpi->leaders[i] != root) {
            status = send(mpi, mpi->chunk, n_bytes, mpi->leaders[i]);
        }
    }
    return status == KVS_OK ? wait_all(mpi, cast->timeout_ms) : status;
}

/* ---- Chunks ------------------------------------------------------------------------------------ */

static bool is_half(int dtype)
{
    return dtype == KVS_DTYPE_float16 || dtype == KVS_DTYPE_bfloat16;
}

/* The chunk as an array of its own. */
typedef struct whole {
    kvs_tensor_t tensor;
    ar_piece_t piece;
    ar_data_t data;
} whole_t;

static void make_whole(const hvd_mpi_t *mpi, int dtype, int64_t n, whole_t *whole)
{
    whole->tensor = (kvs_tensor_t){
        .data = mpi->chunk, .device = {KVS_DEVICE_CPU, 0}, .dtype = kvs_dtype(dtype)};
    whole->piece = (ar_piece_t){
        .n_elems = n, .values = &whole->tensor, .n_values = 1, .outs = &whole->tensor, .n_outs = 1};
    whole->data = ar_data_number(dtype, &whole->piece, 1);
}

static kvs_status_t give_to_host(hvd_mpi_t *mpi, cast_t *cast, whole_t *whole, size_t n_bytes)
{
    ar_party_t party = local_party(mpi, cast, n_bytes);

    return mpi->group != NULL && cast->n_local > 1
               ? ar_group_broadcast(mpi->group, &party, ar_group_index_of(mpi->group, cast->leader),
                                    &whole->data)
               : KVS_OK;
}

static kvs_status_t reduce_chunk(hvd_mpi_t *mpi, cast_t *cast, int reduce, int dtype, int64_t n)
{
    size_t n_bytes = (size_t)n * kvs_dtype_bytes(dtype);
    int step = reduce == KVS_REDUCE_AVERAGE ? KVS_REDUCE_SUM : reduce;
    ar_party_t party = local_party(mpi, cast, n_bytes);
    kvs_status_t status = KVS_OK;
    whole_t whole;

    make_whole(mpi, dtype, n, &whole);
    if (mpi->group != NULL && cast->n_local > 1) {
        status = ar_group_reduce(mpi->group, &party, step, &whole.data);
    }
    if (status == KVS_OK && cast->self >= 0 && cast->n_leaders > 1) {
        status = reduce_between(mpi, cast, step, dtype, n);
    }
    return status == KVS_OK ? give_to_host(mpi, cast, &whole, n_bytes) : status;
}

kvs_status_t hvd_mpi_reduce(hvd_mpi_t *mpi, const ar_party_t *party, int reduce,
                            const ar_data_t *data)
{
    cast_t cast = find_cast(mpi, party, -1);
    int dtype = is_half(data->dtype) ? KVS_DTYPE_float32 : data->dtype;
    int64_t step = (int64_t)(CHUNK_BYTES / kvs_dtype_bytes(dtype));
    char *narrow = mpi->received; /* free while values are read and written */
    kvs_status_t status = KVS_OK;

    for (int64_t at = 0; at < data->n_elems && status == KVS_OK; at += step) {
        int64_t end = at + step < data->n_elems ? at + step : data->n_elems;

        ar_data_read(data, at, end, dtype == data->dtype ? mpi->chunk : narrow);
        if (dtype != data->dtype) {
            kvs_cast(end - at, data->dtype, narrow, dtype, mpi->chunk);
        }
        status = reduce_chunk(mpi, &cast, reduce, dtype, end - at);
        if (status != KVS_OK) {
            break;
        }
        if (reduce == KVS_REDUCE_AVERAGE) {
            ar_divide(dtype, end - at, (size_t)party->n_members, mpi->chunk);
        }
        if (dtype != data->dtype) {
            kvs_cast(end - at, dtype, mpi->chunk, data->dtype, narrow);
        }
        ar_data_write(data, at, end, dtype == data->dtype ? mpi->chunk : narrow);
    }
    return status;
}

kvs_status_t hvd_mpi_broadcast(hvd_mpi_t *mpi, const ar_party_t *party, int root,
                               const ar_data_t *data)
{
    cast_t cast = find_cast(mpi, party, root);
    size_t size = kvs_dtype_bytes(data->dtype);
    int64_t step = (int64_t)(CHUNK_BYTES / size);
    kvs_status_t status = KVS_OK;

    for (int64_t at = 0; at < data->n_elems && status == KVS_OK; at += step) {
        int64_t end = at + step < data->n_elems ? at + step : data->n_elems;
        whole_t whole;

        make_whole(mpi, data->dtype, end - at, &whole);
        if (mpi->rank == root) {
            ar_data_read(data, at, end, mpi->chunk);
        }
        if (cast.self >= 0 && cast.n_leaders > 1) {
            status = broadcast_between(mpi, &cast, root, (size_t)(end - at) * size);
        }
        if (status == KVS_OK) {
            status = give_to_host(mpi, &cast, &whole, (size_t)(end - at) * size);
        }
        if (status == KVS_OK) {
            ar_data_write(data, at, end, mpi->chunk);
        }
    }
    return status;
}
