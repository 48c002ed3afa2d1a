/* SPDX-License-Identifier: Apache-2.0 */
/* nccl_alone.c - what the backend `nccl` takes NCCL for, tried on one device, without the backend: communicators
 * that don't block, of one rank; a group of a hundred collectives; an abort while nothing is under way,
 * and a new communicator after it; an end in good order. On real devices with KVSTORE_TEST_GPU set, else
 * on the stand-ins. */
#include "pretend.h"

#include <dlfcn.h>
#include <nccl.h>
#include <stdlib.h>
#include <time.h>

enum { N_CALLS = 100, MAX_TRIES = 1000000 }; /* of 50 us at least */

#define FUNCTIONS(X)                                                                               \
    X(ncclAllReduce)                                                                               \
    X(ncclBroadcast)                                                                               \
    X(ncclCommAbort)                                                                               \
    X(ncclCommDestroy)                                                                             \
    X(ncclCommFinalize)                                                                            \
    X(ncclCommGetAsyncError)                                                                       \
    X(ncclCommInitRankConfig)                                                                      \
    X(ncclGetErrorString)                                                                          \
    X(ncclGetLastError)                                                                            \
    X(ncclGetUniqueId)                                                                             \
    X(ncclGetVersion)                                                                              \
    X(ncclGroupEnd)                                                                                \
    X(ncclGroupStart)                                                                              \
    X(ncclReduce)

static struct {
#define MEMBER(f) __typeof__(&f) f;
    FUNCTIONS(MEMBER)
#undef MEMBER
} nccl;

static void open_nccl(void)
{
    const char *name = getenv("KVSTORE_NCCL_LIBRARY");
    void *library = dlopen(name != NULL ? name : "libnccl.so.2", RTLD_NOW | RTLD_LOCAL);

    if (library == NULL) {
        printf("skipped: %s\n", dlerror());
        exit(77);
    }
#define FIND(f)                                                                                    \
    nccl.f = (__typeof__(nccl.f))(uintptr_t)dlsym(library, #f);                                    \
    if (nccl.f == NULL) {                                                                          \
        printf("NCCL has no %s\n", #f);                                                            \
        exit(1);                                                                                   \
    }
    FUNCTIONS(FIND)
#undef FIND
}

/* ---- One communicator ----------------------------------------------------------------------------- */

static int is_fine(ncclResult_t result, ncclComm_t comm, const char *what)
{
    if (result != ncclSuccess && result != ncclInProgress) {
        printf("%s: %s: %s\n", what, nccl.ncclGetErrorString(result), nccl.ncclGetLastError(comm));
    }
    return result == ncclSuccess || result == ncclInProgress;
}

/* Ask until it is no longer in progress. */
static ncclResult_t settle(ncclComm_t comm)
{
    ncclResult_t state = ncclInProgress;

    for (int64_t tries = 0; state == ncclInProgress && tries < MAX_TRIES; tries++) {
        KT_INT(nccl.ncclCommGetAsyncError(comm, &state), ncclSuccess);
        if (state == ncclInProgress) {
            nanosleep(&(struct timespec){0, 50000}, NULL);
        }
    }
    return state;
}

static ncclComm_t make(void)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclComm_t comm = NULL;
    ncclUniqueId id;

    config.blocking = 0;
    KT_INT(nccl.ncclGetUniqueId(&id), ncclSuccess);
    pretend_enter(0);
    KT_INT(nccl.ncclGroupStart(), ncclSuccess);
    KT_TRUE(is_fine(nccl.ncclCommInitRankConfig(&comm, 1, id, 0, &config), NULL, "init"));
    pretend_leave();
    KT_TRUE(is_fine(nccl.ncclGroupEnd(), NULL, "the group of init"));
    KT_TRUE(comm != NULL);
    KT_INT(settle(comm), ncclSuccess);
    return comm;
}

/* A hundred collectives of one group, in place and not; with one rank each gives its own values. */
static void exchange(ncclComm_t comm, CUstream stream)
{
    int64_t n = 1000;
    float *numbers = malloc((size_t)n * sizeof(float)), *got = calloc((size_t)n, sizeof(float));
    kvs_tensor_t from[N_CALLS], to[N_CALLS];

    for (int i = 0; i < N_CALLS; i++) {
        for (int64_t j = 0; j < n; j++) {
            numbers[j] = (float)(i + j);
        }
        from[i] = pretend_array(0, KVS_DTYPE_float32, &n, numbers, 0);
        to[i] = i % 2 == 0 ? from[i] : pretend_array(0, KVS_DTYPE_float32, &n, NULL, 0);
    }
    KT_INT(nccl.ncclGroupStart(), ncclSuccess);
    for (int i = 0; i < N_CALLS; i++) {
        cudaStream_t its = (cudaStream_t)stream;

        pretend_enter(0);
        KT_TRUE(is_fine(i % 4 < 2    ? nccl.ncclAllReduce(from[i].data, to[i].data, (size_t)n,
                                                          ncclFloat32, ncclSum, comm, its)
                        : i % 4 == 2 ? nccl.ncclReduce(from[i].data, to[i].data, (size_t)n,
                                                       ncclFloat32, ncclSum, 0, comm, its)
                                     : nccl.ncclBroadcast(from[i].data, to[i].data, (size_t)n,
                                                          ncclFloat32, 0, comm, its),
                        comm, "a collective"));
        pretend_leave();
    }
    KT_TRUE(is_fine(nccl.ncclGroupEnd(), comm, "the group"));
    KT_INT(settle(comm), ncclSuccess); /* from here on all is in the stream */
    pretend_sync(0, stream);
    for (int i = 0; i < N_CALLS; i++) {
        pretend_get(&to[i], got);
        KT_REAL(got[0], i);
        KT_REAL(got[n - 1], (float)(i + n - 1));
        pretend_free(&from[i], 0);
        if (to[i].data != from[i].data) {
            pretend_free(&to[i], 0);
        }
    }
    free(numbers);
    free(got);
}

static void end(ncclComm_t comm)
{
    KT_TRUE(is_fine(nccl.ncclCommFinalize(comm), comm, "finalize"));
    KT_INT(settle(comm), ncclSuccess);
    KT_TRUE(is_fine(nccl.ncclCommDestroy(comm), NULL, "destroy"));
}

/* ---- Tests ----------------------------------------------------------------------------------------- */

static void a_communicator_of_one_rank_takes_groups_and_ends(void)
{
    CUstream stream = pretend_stream(0);
    ncclComm_t comm = make();
    int version = 0;

    KT_INT(nccl.ncclGetVersion(&version), ncclSuccess);
    printf("NCCL %d, built against %d\n", version, NCCL_VERSION_CODE);
    exchange(comm, stream);
    exchange(comm, stream);
    end(comm);
}

static void after_an_abort_while_idle_a_new_one_works(void)
{
    CUstream stream = pretend_stream(0);

    for (int i = 0; i < 3; i++) {
        ncclComm_t comm = make();

        if (i > 0) {
            exchange(comm, stream);
        }
        KT_TRUE(is_fine(nccl.ncclCommAbort(comm), NULL, "abort"));
    }
    ncclComm_t comm = make();

    exchange(comm, stream);
    end(comm);
}

int main(int argc, char **argv)
{
    static const kt_test_t tests[] = {
        KT_TEST(a_communicator_of_one_rank_takes_groups_and_ends),
        KT_TEST(after_an_abort_while_idle_a_new_one_works),
    };

    pretend_open();
    open_nccl();
    return kt_run("gpu_nccl", tests, 2, argc, argv);
}
