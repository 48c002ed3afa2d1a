/* SPDX-License-Identifier: Apache-2.0 */
/* nccl_double.c - the functions of the stand-in for libnccl.so.2: communicators, groups (whose depth is a
 * thread's own) and faults. */
#include "nccl_double.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define API       __attribute__((visibility("default")))
#define MAX_CALLS 4096
#define ID_MAGIC  "kvs-nccl-double"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static double_clique_t *cliques;
static struct ncclComm *comms;
static nccl_double_counts_t counts;
static struct {
    int version, init;
    uint64_t progress, async, hang, usage; /* 0: none */
    uint64_t n_seen;
    int stuck_abort;
} faults;

static __thread int depth;
static __thread double_call_t calls[MAX_CALLS];
static __thread int n_calls;
static __thread char last_text[256];

/* ---- Faults and the driver ----------------------------------------------------------------------- */

static uint64_t fault_number(const char *list, const char *name)
{
    const char *at = strstr(list, name);

    return at == NULL ? 0 : strtoull(at + strlen(name), NULL, 10);
}

API void nccl_double_fault(const char *list);
void nccl_double_fault(const char *list)
{
    pthread_mutex_lock(&lock);
    faults.n_seen = 0;
    faults.version = (int)fault_number(list, "version=");
    faults.init = strstr(list, "init") != NULL;
    faults.progress = fault_number(list, "progress=");
    faults.async = fault_number(list, "async=");
    faults.hang = fault_number(list, "hang=");
    faults.usage = fault_number(list, "usage=");
    faults.stuck_abort = strstr(list, "stuck_abort") != NULL;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

API void nccl_double_read(nccl_double_counts_t *ret_counts);
void nccl_double_read(nccl_double_counts_t *ret_counts)
{
    pthread_mutex_lock(&lock);
    *ret_counts = counts;
    pthread_mutex_unlock(&lock);
}

static double_driver_t driver;

static void *find(void *library, const char *name)
{
    void *symbol = library == NULL ? NULL : dlsym(library, name);

    if (symbol == NULL) {
        fprintf(stderr, "nccl double: no %s: it needs the double of libcuda.so.1\n", name);
        abort();
    }
    return symbol;
}

__attribute__((constructor)) static void start(void)
{
    const char *list = getenv("KVSTORE_DOUBLE_NCCL_FAULT"), *path = getenv("KVSTORE_CUDA_DRIVER");
    void *library = dlopen(path != NULL ? path : "libcuda.so.1", RTLD_NOW | RTLD_LOCAL);

    nccl_double_fault(list != NULL ? list : "");
    *(void **)&driver.get_current = find(library, "cuCtxGetCurrent");
    *(void **)&driver.get_device = find(library, "cuCtxGetDevice");
    *(void **)&driver.push = find(library, "cuCtxPushCurrent_v2");
    *(void **)&driver.pop = find(library, "cuCtxPopCurrent_v2");
    *(void **)&driver.event_create = find(library, "cuEventCreate");
    *(void **)&driver.event_record = find(library, "cuEventRecord");
    *(void **)&driver.stream_wait = find(library, "cuStreamWaitEvent");
    *(void **)&driver.launch_host = find(library, "cuLaunchHostFunc");
    *(void **)&driver.hold = find(library, "cuda_double_hold");
}

const double_driver_t *nccl_double_driver(void)
{
    return &driver;
}

static ncclResult_t refuse(ncclResult_t result, const char *text)
{
    snprintf(last_text, sizeof(last_text), "%s", text);
    return result;
}

/* ---- Communicators ------------------------------------------------------------------------------- */

API ncclResult_t ncclGetVersion(int *version)
{
    *version = faults.version != 0 ? faults.version : NCCL_VERSION_CODE;
    return ncclSuccess;
}

/* The id names a file of the process that made it: nothing of it is left when that has ended. */
API ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    static _Atomic unsigned n_ids;
    int fd = memfd_create("nccl-double", MFD_CLOEXEC);

    if (fd < 0 || ftruncate(fd, sizeof(double_region_t)) != 0) {
        return ncclSystemError;
    }
    memset(id, 0, sizeof(*id));
    snprintf(id->internal, sizeof(id->internal), ID_MAGIC " /proc/%d/fd/%d %u", (int)getpid(), fd,
             n_ids++);
    return ncclSuccess;
}

static double_region_t *open_region(const ncclUniqueId *id)
{
    char path[64];
    int fd;
    void *region;

    if (sscanf(id->internal, ID_MAGIC " %63s", path) != 1) {
        return NULL;
    }
    fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0) {
        return NULL;
    }
    region = mmap(NULL, sizeof(double_region_t), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    return region == MAP_FAILED ? NULL : region;
}

static double_clique_t *clique_of_locked(const ncclUniqueId *id, int n_ranks)
{
    double_clique_t *clique;

    for (clique = cliques; clique != NULL; clique = clique->next) {
        if (memcmp(&clique->id, id, sizeof(*id)) == 0) {
            return clique;
        }
    }
    clique = calloc(1, sizeof(*clique));
    if (clique == NULL || (clique->region = open_region(id)) == NULL) {
        free(clique);
        return NULL;
    }
    clique->id = *id;
    clique->n_ranks = n_ranks;
    clique->next = cliques;
    cliques = clique;
    return clique;
}

static ncclResult_t join_locked(double_clique_t *clique, struct ncclComm *comm)
{
    double_slot_t *slot = &clique->region->slots[comm->rank];

    if (atomic_exchange(&slot->is_taken, 1)) {
        return refuse(ncclInvalidUsage, "a rank that is taken");
    }
    snprintf(slot->bus_id, sizeof(slot->bus_id), "%d.%d", (int)getpid(), comm->device);
    for (int r = 0; r < clique->n_ranks; r++) {
        if (r != comm->rank && strcmp(clique->region->slots[r].bus_id, slot->bus_id) == 0) {
            comm->failure = ncclInvalidUsage;
            snprintf(comm->text, sizeof(comm->text), "ranks %d and %d are on one device", r,
                     comm->rank);
        }
    }
    clique->members[comm->rank] = comm;
    atomic_fetch_add(&clique->region->n_joined, 1);
    return ncclSuccess;
}

API ncclResult_t ncclCommInitRankConfig(ncclComm_t *ret_comm, int n_ranks, ncclUniqueId id,
                                        int rank, ncclConfig_t *config)
{
    CUdevice device = -1;
    struct ncclComm *comm;
    ncclResult_t result;

    if (n_ranks < 1 || n_ranks > DOUBLE_MAX_RANKS || rank < 0 || rank >= n_ranks ||
        (config != NULL && (config->magic != 0xcafebeef || config->size < sizeof(size_t) + 12))) {
        return refuse(ncclInvalidArgument, "ranks or configuration out of range");
    }
    comm = calloc(1, sizeof(*comm));
    if (comm == NULL || driver.get_current(&comm->context) != CUDA_SUCCESS ||
        comm->context == NULL || driver.get_device(&device) != CUDA_SUCCESS ||
        driver.event_create(&comm->arrived, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS ||
        driver.event_create(&comm->done, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS) {
        free(comm);
        return refuse(ncclUnhandledCudaError, "no current context");
    }
    comm->rank = rank;
    comm->device = device;
    comm->is_blocking = config == NULL || config->blocking != 0;
    comm->n_polls = 1;
    pthread_mutex_lock(&lock);
    comm->clique = clique_of_locked(&id, n_ranks);
    comm->stuck = faults.init;
    result = comm->clique == NULL ? refuse(ncclInvalidArgument, "no such unique id")
                                  : join_locked(comm->clique, comm);
    if (result == ncclSuccess) {
        counts.inits++;
        comm->older = comms;
        comms = comm;
    }
    pthread_mutex_unlock(&lock);
    if (result != ncclSuccess) {
        free(comm);
        return result;
    }
    *ret_comm = comm;
    return comm->is_blocking ? ncclSuccess : ncclInProgress;
}

API ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *async)
{
    pthread_mutex_lock(&lock);
    if (comm->failure != ncclSuccess) {
        *async = comm->failure;
    } else if (comm->stuck || comm->n_polls > 0 ||
               atomic_load(&comm->clique->region->n_joined) < (uint32_t)comm->clique->n_ranks) {
        comm->n_polls -= comm->n_polls > 0;
        *async = ncclInProgress;
    } else {
        *async = ncclSuccess;
    }
    pthread_mutex_unlock(&lock);
    return ncclSuccess;
}

void nccl_double_fail(ncclComm_t comm, const char *text)
{
    pthread_mutex_lock(&lock);
    comm->failure = ncclInvalidUsage;
    snprintf(comm->text, sizeof(comm->text), "%s", text);
    pthread_mutex_unlock(&lock);
}

static ncclResult_t leave(ncclComm_t comm, uint64_t *counter)
{
    pthread_mutex_lock(&lock);
    comm->clique->members[comm->rank] = NULL;
    if (comm->held != NULL) {
        driver.hold(comm->held, 0);
    }
    ++*counter;
    pthread_mutex_unlock(&lock);
    return ncclSuccess;
}

API ncclResult_t ncclCommFinalize(ncclComm_t comm)
{
    comm->n_polls = 1;
    return comm->is_blocking ? ncclSuccess : ncclInProgress;
}

API ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
    return leave(comm, &counts.destroys);
}

API ncclResult_t ncclCommAbort(ncclComm_t comm)
{
    pthread_mutex_lock(&lock);
    while (faults.stuck_abort) {
        pthread_cond_wait(&changed, &lock);
    }
    pthread_mutex_unlock(&lock);
    atomic_store(&comm->clique->aborted, 1);
    return leave(comm, &counts.aborts);
}

API ncclResult_t ncclCommCount(ncclComm_t comm, int *count)
{
    *count = comm->clique->n_ranks;
    return ncclSuccess;
}

API ncclResult_t ncclCommCuDevice(ncclComm_t comm, int *device)
{
    *device = comm->device;
    return ncclSuccess;
}

API ncclResult_t ncclCommUserRank(ncclComm_t comm, int *rank)
{
    *rank = comm->rank;
    return ncclSuccess;
}

API const char *ncclGetErrorString(ncclResult_t result)
{
    static const char *const texts[] = {
        "no error",         "error of CUDA", "error of the system",   "error inside",
        "invalid argument", "invalid usage", "error of another rank", "in progress"};

    return (unsigned)result < sizeof(texts) / sizeof(texts[0]) ? texts[result] : "unknown result";
}

API const char *ncclGetLastError(ncclComm_t comm)
{
    return comm != NULL && comm->text[0] != '\0' ? comm->text : last_text;
}

/* ---- Groups -------------------------------------------------------------------------------------- */

/* What the fault of this collective makes of it; true: it does not run. */
static int meets_fault_locked(const double_call_t *own, int n_own)
{
    uint64_t n = ++faults.n_seen;

    for (int i = 0; i < n_own; i++) {
        ncclComm_t comm = own[i].comm;

        if (n == faults.progress) {
            comm->stuck = 1;
        } else if (n == faults.async) {
            comm->failure = ncclRemoteError;
            snprintf(comm->text, sizeof(comm->text), "a link went down, says the double");
        } else if (n == faults.hang) {
            comm->held = own[i].stream;
            driver.hold(own[i].stream, 1);
        }
    }
    return n == faults.async;
}

/* The k-th call of every local rank of the clique of calls[first]; they are marked as done. */
static ncclResult_t run_one_locked(int first)
{
    double_clique_t *clique = calls[first].comm->clique;
    double_call_t own[DOUBLE_MAX_RANKS];
    int n_own = 0, n_members = 0;

    for (int r = 0; r < clique->n_ranks; r++) {
        n_members += clique->members[r] != NULL;
    }
    for (int i = first; i < n_calls; i++) {
        int is_new = calls[i].comm != NULL && calls[i].comm->clique == clique;

        for (int j = 0; j < n_own && is_new; j++) {
            is_new = own[j].comm != calls[i].comm;
        }
        if (is_new) {
            own[n_own++] = calls[i];
            calls[i].comm = NULL;
        }
    }
    counts.collectives++;
    if (n_own != n_members) {
        counts.lone++;
        fprintf(stderr, "nccl double: %d of %d ranks of this process are in a collective\n", n_own,
                n_members);
        return refuse(ncclInvalidUsage, "a collective on some ranks of this process only");
    }
    if (faults.n_seen + 1 == faults.usage) {
        faults.n_seen++;
        return refuse(ncclInvalidUsage, "refused, says the double");
    }
    for (int i = 0; i < n_own; i++) {
        own[i].comm->n_polls = 1;
    }
    return meets_fault_locked(own, n_own) ? ncclSuccess : nccl_double_run(clique, own, n_own);
}

ncclResult_t ncclGroupStart(void); /* nccl.h has them without prototypes */
ncclResult_t ncclGroupEnd(void);

API ncclResult_t ncclGroupStart(void)
{
    depth++;
    return ncclSuccess;
}

API ncclResult_t ncclGroupEnd(void)
{
    ncclResult_t result = ncclSuccess;
    int waits = 0;

    if (depth == 0) {
        return refuse(ncclInvalidUsage, "the end of a group that was not begun on this thread");
    }
    if (--depth > 0) {
        return ncclSuccess;
    }
    pthread_mutex_lock(&lock);
    counts.groups += n_calls > 0;
    for (int i = 0; i < n_calls && result == ncclSuccess; i++) {
        if (calls[i].comm != NULL) {
            waits |= !calls[i].comm->is_blocking;
            result = run_one_locked(i);
        }
    }
    n_calls = 0;
    pthread_mutex_unlock(&lock);
    return result == ncclSuccess && waits ? ncclInProgress : result;
}

static ncclResult_t add(const double_call_t *call)
{
    if (call->comm == NULL || (unsigned)call->dtype >= ncclFloat8e4m3 ||
        (unsigned)call->op > ncclAvg || call->root < 0 ||
        call->root >= call->comm->clique->n_ranks) {
        return refuse(ncclInvalidArgument,
                      "a collective with a communicator, dtype, operation or root "
                      "out of range");
    }
    if (n_calls == MAX_CALLS) {
        return refuse(ncclInternalError, "too many collectives in a group");
    }
    (void)ncclGroupStart();
    calls[n_calls++] = *call;
    return ncclGroupEnd();
}

API ncclResult_t ncclAllReduce(const void *send, void *recv, size_t count, ncclDataType_t dtype,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
    return add(
        &(double_call_t){comm, ALL_REDUCE, send, recv, count, dtype, op, 0, (CUstream)stream});
}

API ncclResult_t ncclReduce(const void *send, void *recv, size_t count, ncclDataType_t dtype,
                            ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream)
{
    return add(
        &(double_call_t){comm, REDUCE, send, recv, count, dtype, op, root, (CUstream)stream});
}

API ncclResult_t ncclBroadcast(const void *send, void *recv, size_t count, ncclDataType_t dtype,
                               int root, ncclComm_t comm, cudaStream_t stream)
{
    return add(&(double_call_t){comm, BROADCAST, send, recv, count, dtype, ncclSum, root,
                                (CUstream)stream});
}

API ncclResult_t ncclReduceScatter(const void *send, void *recv, size_t count, ncclDataType_t dtype,
                                   ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
    return add(
        &(double_call_t){comm, REDUCE_SCATTER, send, recv, count, dtype, op, 0, (CUstream)stream});
}

API ncclResult_t ncclAllGather(const void *send, void *recv, size_t count, ncclDataType_t dtype,
                               ncclComm_t comm, cudaStream_t stream)
{
    return add(
        &(double_call_t){comm, ALL_GATHER, send, recv, count, dtype, ncclSum, 0, (CUstream)stream});
}
