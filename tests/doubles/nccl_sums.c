/* SPDX-License-Identifier: Apache-2.0 */
/* nccl_sums.c - the collectives of the stand-in for libnccl.so.2, chunk by chunk through the slots of
 * a region. One host function does the work of all ranks of this process, once all their streams
 * have come to it; their streams go on when it has. */
#include "nccl_double.h"

#include "half.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct work {
    double_clique_t *clique;
    int n_calls;
    double_call_t calls[];
} work_t;

size_t nccl_double_dtype_bytes(ncclDataType_t dtype)
{
    static const size_t bytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};

    return bytes[dtype];
}

/* ---- Arithmetic ---------------------------------------------------------------------------------- */

#define COMBINE(acc, x, op)                                                                        \
    ((op) == ncclMax    ? ((acc) > (x) ? (acc) : (x))                                              \
     : (op) == ncclMin  ? ((acc) < (x) ? (acc) : (x))                                              \
     : (op) == ncclProd ? (acc) * (x)                                                              \
                        : (acc) + (x))

#define REDUCE_AS(type, wide, load, store)                                                         \
    for (size_t i = 0; i < count; i++) {                                                           \
        wide acc = load(((const type *)slots[0].chunk)[i]);                                        \
        for (int r = 1; r < n_ranks; r++) {                                                        \
            wide x = load(((const type *)slots[r].chunk)[i]);                                      \
            acc = COMBINE(acc, x, op);                                                             \
        }                                                                                          \
        ((type *)to)[i] = store((op) == ncclAvg ? acc / (wide)n_ranks : acc);                      \
    }                                                                                              \
    break

/* Rank after rank, halves in float32. */
static void reduce(const double_slot_t *slots, int n_ranks, ncclDataType_t dtype, ncclRedOp_t op,
                   size_t count, void *to)
{
    switch (dtype) {
    case ncclInt8:
        REDUCE_AS(int8_t, int64_t, , (int8_t));
    case ncclUint8:
        REDUCE_AS(uint8_t, uint64_t, , (uint8_t));
    case ncclInt32:
        REDUCE_AS(int32_t, int64_t, , (int32_t));
    case ncclUint32:
        REDUCE_AS(uint32_t, uint64_t, , (uint32_t));
    case ncclInt64:
        REDUCE_AS(int64_t, uint64_t, (uint64_t), (int64_t));
    case ncclUint64:
        REDUCE_AS(uint64_t, uint64_t, , );
    case ncclFloat32:
        REDUCE_AS(float, float, , );
    case ncclFloat64:
        REDUCE_AS(double, double, , );
    case ncclFloat16:
        REDUCE_AS(uint16_t, float, kvs_f16_to_f32, kvs_f32_to_f16);
    case ncclBfloat16:
        REDUCE_AS(uint16_t, float, kvs_bf16_to_f32, kvs_f32_to_bf16);
    default:
        break;
    }
}

/* ---- Exchange ------------------------------------------------------------------------------------ */

static int all_have(const double_clique_t *clique, int taken, uint64_t number)
{
    const double_slot_t *slots = clique->region->slots;

    for (int r = 0; r < clique->n_ranks; r++) {
        if (atomic_load(taken ? &slots[r].n_taken : &slots[r].n_posted) < number) {
            return 0;
        }
    }
    return 1;
}

static int wait_for_all(double_clique_t *clique, int taken, uint64_t number)
{
    for (int i = 0; !all_have(clique, taken, number); i++) {
        if (atomic_load(&clique->aborted)) {
            return 0;
        }
        if (i < 100) {
            sched_yield();
        } else {
            nanosleep(&(struct timespec){0, 20000}, NULL);
        }
    }
    return 1;
}

/* What rank `r` posts and takes of elements [at, at + n): for scatter and gather the arrays of the
 * ranks lie one behind the other. */
static void post(double_clique_t *clique, const double_call_t *call, const char *send, size_t n)
{
    double_slot_t *slot = &clique->region->slots[call->comm->rank];

    slot->what = (uint64_t)call->verb << 56 | (uint64_t)call->dtype << 48 | call->count;
    if (send != NULL) {
        memcpy(slot->chunk, send, n * nccl_double_dtype_bytes(call->dtype));
    }
    atomic_store(&slot->n_posted, clique->n_chunks);
}

static int ranks_agree(const double_clique_t *clique)
{
    for (int r = 1; r < clique->n_ranks; r++) {
        if (clique->region->slots[r].what != clique->region->slots[0].what) {
            return 0;
        }
    }
    return 1;
}

/* Exchange n elements: each rank's from `send` + offset, the result of `root`, or of all if it is -1, to
 * `recv` + offset; op -1 hands on the chunk of rank `source`. */
static int exchange(const work_t *work, size_t send_at, size_t recv_at, size_t n, int root,
                    int source)
{
    double_clique_t *clique = work->clique;

    if (atomic_load(&clique->aborted)) { /* its streams were let go for that */
        return 0;
    }
    clique->n_chunks++;
    for (int i = 0; i < work->n_calls; i++) {
        const double_call_t *call = &work->calls[i];
        size_t size = nccl_double_dtype_bytes(call->dtype);
        int gives = source < 0 || call->comm->rank == source;

        post(clique, call, gives ? (const char *)call->send + send_at * size : NULL, n);
    }
    if (!wait_for_all(clique, 0, clique->n_chunks)) {
        return 0;
    }
    if (!ranks_agree(clique)) {
        for (int i = 0; i < work->n_calls; i++) {
            nccl_double_fail(work->calls[i].comm, "ranks disagree about a collective");
        }
        return 0;
    }
    for (int i = 0; i < work->n_calls; i++) {
        const double_call_t *call = &work->calls[i];
        size_t size = nccl_double_dtype_bytes(call->dtype);
        char *to;

        if (root >= 0 && call->comm->rank != root) {
            continue;
        }
        to = (char *)call->recv + recv_at * size;
        if (source >= 0) {
            memcpy(to, clique->region->slots[source].chunk, n * size);
        } else {
            reduce(clique->region->slots, clique->n_ranks, call->dtype, call->op, n, to);
        }
    }
    for (int i = 0; i < work->n_calls; i++) {
        atomic_store(&clique->region->slots[work->calls[i].comm->rank].n_taken, clique->n_chunks);
    }
    return wait_for_all(clique, 1, clique->n_chunks);
}

static int run_chunk(const work_t *work, size_t at, size_t n)
{
    const double_call_t *first = &work->calls[0];
    int n_ranks = work->clique->n_ranks, ok = 1;

    switch (first->verb) {
    case ALL_REDUCE:
        return exchange(work, at, at, n, -1, -1);
    case REDUCE:
        return exchange(work, at, at, n, first->root, -1);
    case BROADCAST:
        return exchange(work, at, at, n, -1, first->root);
    case REDUCE_SCATTER:
        for (int r = 0; r < n_ranks && ok; r++) {
            ok = exchange(work, (size_t)r * first->count + at, at, n, r, -1);
        }
        return ok;
    case ALL_GATHER:
        for (int r = 0; r < n_ranks && ok; r++) {
            ok = exchange(work, at, (size_t)r * first->count + at, n, -1, r);
        }
        return ok;
    }
    return 0;
}

static void run(void *arg)
{
    work_t *work = arg;
    size_t count = work->calls[0].count;
    size_t chunk = DOUBLE_CHUNK_BYTES / nccl_double_dtype_bytes(work->calls[0].dtype);

    for (size_t at = 0; at < count; at += chunk) {
        if (!run_chunk(work, at, count - at < chunk ? count - at : chunk)) {
            break;
        }
    }
    free(work);
}

ncclResult_t nccl_double_run(double_clique_t *clique, const double_call_t *calls, int n_calls)
{
    const double_driver_t *driver = nccl_double_driver();
    const double_call_t *leader = &calls[0];
    work_t *work = malloc(sizeof(*work) + (size_t)n_calls * sizeof(*calls));
    CUcontext popped;
    int ok = work != NULL;

    if (!ok) {
        return ncclSystemError;
    }
    work->clique = clique;
    work->n_calls = n_calls;
    memcpy(work->calls, calls, (size_t)n_calls * sizeof(*calls));
    for (int i = 0; i < n_calls; i++) {
        ok &= driver->push(calls[i].comm->context) == CUDA_SUCCESS;
        ok &= driver->event_record(calls[i].comm->arrived, calls[i].stream) == CUDA_SUCCESS;
        ok &= driver->pop(&popped) == CUDA_SUCCESS;
    }
    ok &= driver->push(leader->comm->context) == CUDA_SUCCESS;
    for (int i = 1; i < n_calls; i++) {
        ok &= driver->stream_wait(leader->stream, calls[i].comm->arrived, 0) == CUDA_SUCCESS;
    }
    ok &= driver->launch_host(leader->stream, run, work) == CUDA_SUCCESS;
    ok &= driver->event_record(leader->comm->done, leader->stream) == CUDA_SUCCESS;
    ok &= driver->pop(&popped) == CUDA_SUCCESS;
    for (int i = 1; i < n_calls; i++) {
        ok &= driver->push(calls[i].comm->context) == CUDA_SUCCESS;
        ok &= driver->stream_wait(calls[i].stream, leader->comm->done, 0) == CUDA_SUCCESS;
        ok &= driver->pop(&popped) == CUDA_SUCCESS;
    }
    return ok ? ncclSuccess : ncclUnhandledCudaError;
}
