/* SPDX-License-Identifier: Apache-2.0 */
/* nccl_double.h - a stand-in for libnccl.so.2 seen from inside: real sums over the pretend devices of the
 * stand-in for libcuda.so.1, between processes through memory that the unique id names.
 *
 * KVSTORE_DOUBLE_NCCL_FAULT, a list: version=CODE; init (never gets beyond in-progress); progress=N,
 * async=N, hang=N, usage=N: what happens to the N-th collective from here on: never more than
 * in-progress, an error that shows later, a stream that stands still, one that is refused; stuck_abort:
 * aborts take until that is over. */
#ifndef NCCL_DOUBLE_H
#define NCCL_DOUBLE_H

#include "nccl_double_api.h"

#include <cuda.h>
#include <nccl.h>
#include <stdatomic.h>
#include <stdint.h>

#define DOUBLE_MAX_RANKS   64
#define DOUBLE_CHUNK_BYTES (1 << 19) /* of which memory is there where it is used */

typedef enum double_verb {
    ALL_REDUCE,
    REDUCE,
    BROADCAST,
    REDUCE_SCATTER,
    ALL_GATHER
} double_verb_t;

/* What the ranks of a communicator share; those of other processes too. */
typedef struct double_slot {
    _Atomic uint64_t n_posted, n_taken; /* chunks */
    _Atomic uint32_t is_taken;          /* by a rank */
    char bus_id[16];                    /* of its device and process */
    uint64_t what;                      /* verb, dtype and count of its collective */
    char chunk[DOUBLE_CHUNK_BYTES];
} double_slot_t;

typedef struct double_region {
    _Atomic uint32_t n_joined;
    double_slot_t slots[DOUBLE_MAX_RANKS];
} double_region_t;

/* The ranks of one communicator in this process. */
typedef struct double_clique {
    ncclUniqueId id;
    double_region_t *region;
    int n_ranks;
    struct ncclComm *members[DOUBLE_MAX_RANKS]; /* by rank; NULL: of another process, or gone */
    uint64_t n_chunks;                          /* exchanged so far */
    _Atomic int aborted;
    struct double_clique *next;
} double_clique_t;

struct ncclComm {
    double_clique_t *clique;
    CUcontext context;
    CUevent arrived, done;
    int rank, device;
    int is_blocking, n_polls, stuck;
    ncclResult_t failure;
    CUstream held; /* a stream that a fault has stopped */
    char text[256];
    struct ncclComm
        *older; /* of this process; none is freed, since work that is queued may name it */
};

/* One collective as one rank has asked for it. */
typedef struct double_call {
    ncclComm_t comm;
    double_verb_t verb;
    const void *send;
    void *recv;
    size_t count;
    ncclDataType_t dtype;
    ncclRedOp_t op;
    int root;
    CUstream stream;
} double_call_t;

/* The stand-in for the driver, found once. */
typedef struct double_driver {
    CUresult (*get_current)(CUcontext *);
    CUresult (*get_device)(CUdevice *);
    CUresult (*push)(CUcontext);
    CUresult (*pop)(CUcontext *);
    CUresult (*event_create)(CUevent *, unsigned);
    CUresult (*event_record)(CUevent, CUstream);
    CUresult (*stream_wait)(CUstream, CUevent, unsigned);
    CUresult (*launch_host)(CUstream, CUhostFn, void *);
    void (*hold)(CUstream, int);
} double_driver_t;

const double_driver_t *nccl_double_driver(void);

/* Run calls[i] of every local rank of one clique, in the order of their streams. */
ncclResult_t nccl_double_run(double_clique_t *clique, const double_call_t *calls, int n_calls);
/* The communicator was used wrongly, as shows now. */
void nccl_double_fail(ncclComm_t comm, const char *text);
size_t nccl_double_dtype_bytes(ncclDataType_t dtype);

#endif
