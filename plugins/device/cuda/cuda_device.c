/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_device.c - see cuda_device.h. */
#include "cuda_device.h"

#include "cuda_launch.h"

#include <stdlib.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static cuda_device_t devices[CUDA_MAX_DEVICES];
static int n_devices;
static pid_t owner; /* 0: not started; an atomic: who reads it not 0 sees the devices */

/* ---- Current contexts ----------------------------------------------------------------------------- */

kvs_status_t cuda_check(cuda_device_t *device, CUresult result, const char *what)
{
    if (result == CUDA_SUCCESS) {
        return KVS_OK;
    }
    if (cuda_is_sticky(result)) {
        int none = 0;

        (void)__atomic_compare_exchange_n(&device->failed, &none, (int)result, 0, __ATOMIC_RELAXED,
                                          __ATOMIC_RELAXED); /* the first error stays */
        (void)cuda_fail(result, what);
        return kvs_fail_context(KVS_ERR_UNAVAILABLE,
                                "device cuda(%d) is lost until the process ends", device->id);
    }
    kvs_status_t status = cuda_fail(result, what);

    return kvs_fail_context(status, "device cuda(%d)", device->id);
}

kvs_status_t cuda_enter(cuda_device_t *device)
{
    return cuda_check(device, cuda(cuCtxPushCurrent)(device->context), "cuCtxPushCurrent");
}

void cuda_leave(void)
{
    CUcontext context;

    (void)cuda(cuCtxPopCurrent)(&context); /* it was pushed */
}

/* ---- The start ------------------------------------------------------------------------------------- */

/* Freed memory is kept: it is wanted again in the next step of training. */
static kvs_status_t make_pool(cuda_device_t *device)
{
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device->id}};
    uint64_t keep = UINT64_MAX;
    int supported = 0;
    CUresult result;

    (void)cuda(cuDeviceGetAttribute)(&supported, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED,
                                     device->handle);
    if (!supported) {
        return KVS_OK;
    }
    result = cuda(cuMemPoolCreate)(&device->pool, &props);
    if (result == CUDA_SUCCESS) {
        result =
            cuda(cuMemPoolSetAttribute)(device->pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep);
    }
    return cuda_check(device, result, "cuMemPoolCreate");
}

static kvs_status_t make_queue(cuda_device_t *device, cuda_lane_t *queue)
{
    CUstream stream;
    kvs_status_t status =
        cuda_check(device, cuda(cuStreamCreateWithPriority)(&stream, CU_STREAM_NON_BLOCKING, -1),
                   "cuStreamCreateWithPriority");

    if (status == KVS_OK) {
        cuda_lane_init(queue, device, stream);
        queue->is_ours = 1;
    }
    return status;
}

static kvs_status_t start_device(cuda_device_t *device, int id)
{
    CUresult result = cuda(cuDeviceGet)(&device->handle, id);

    device->id = id;
    pthread_mutex_init(&device->streams_lock, NULL); /* they can't fail */
    pthread_mutex_init(&device->ring_lock, NULL);
    if (result == CUDA_SUCCESS) {
        result = cuda(cuDevicePrimaryCtxRetain)(&device->context, device->handle);
    }
    if (result != CUDA_SUCCESS) {
        return cuda_check(device, result, "cuDevicePrimaryCtxRetain");
    }
    kvs_status_t status = cuda_enter(device);

    if (status != KVS_OK) {
        return status;
    }
    status = make_queue(device, &device->queue);
    status = status == KVS_OK ? make_queue(device, &device->to_host) : status;
    status = status == KVS_OK ? make_queue(device, &device->from_host) : status;
    status = status == KVS_OK ? make_pool(device) : status;
    cuda_leave();
    return status;
}

static int wants_peers(void)
{
    const char *text = secure_getenv("MXNET_ENABLE_GPU_P2P");

    return text == NULL || text[0] != '0';
}

/* Let kernels of `from` touch memory of `to`: that of cuMemAlloc, and that of the pool. */
static void open_path(cuda_device_t *from, cuda_device_t *to)
{
    CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = from->id},
                              .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    int can = 0, rank = 0;
    CUresult result;

    if (cuda(cuDeviceCanAccessPeer)(&can, from->handle, to->handle) != CUDA_SUCCESS || !can ||
        cuda_enter(from) != KVS_OK) {
        return;
    }
    result = cuda(cuCtxEnablePeerAccess)(to->context, 0);
    cuda_leave();
    if (result != CUDA_SUCCESS && result != CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED) {
        return;
    }
    if (to->pool != NULL && cuda(cuMemPoolSetAccess)(to->pool, &access, 1) != CUDA_SUCCESS) {
        return;
    }
    (void)cuda(cuDeviceGetP2PAttribute)(&rank, CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK,
                                        from->handle, to->handle);
    /* 0 is the best rank; wide and narrow links differ by a factor, so that trees can weigh them */
    from->can_reach[to->id] = rank > 0 && rank < 99 ? 100 / (1 + rank) : rank > 0 ? 1 : 100;
}

static void open_paths(void)
{
    int n_missing = 0;

    for (int i = 0; i < n_devices; i++) {
        devices[i].can_reach[i] = 1000;
        for (int j = 0; j < n_devices && wants_peers(); j++) {
            if (i != j) {
                open_path(&devices[i], &devices[j]);
            }
        }
        for (int j = 0; j < n_devices; j++) {
            n_missing += devices[i].can_reach[j] == 0;
        }
    }
    if (n_missing > 0) {
        kvs_log(KVS_LOG_WARN, "cuda",
                "%d of %d pairs of devices have no peer access: they exchange by copies (kvstore "
                "info cuda shows which)",
                n_missing, n_devices * (n_devices - 1));
    }
}

static kvs_status_t start_locked(void)
{
    kvs_status_t status = cuda_driver_open();
    int n = 0;

    if (status == KVS_OK && cuda(cuDeviceGetCount)(&n) != CUDA_SUCCESS) {
        n = 0;
    }
    if (status == KVS_OK && n == 0) {
        status = kvs_fail(KVS_ERR_UNAVAILABLE, "the CUDA driver finds no device");
    }
    if (status == KVS_OK) {
        status = cuda_launch_load();
    }
    n_devices = n < CUDA_MAX_DEVICES ? n : CUDA_MAX_DEVICES;
    for (int i = 0; i < n_devices && status == KVS_OK; i++) {
        status = start_device(&devices[i], i);
    }
    if (status == KVS_OK) {
        open_paths();
        __atomic_store_n(&owner, getpid(), __ATOMIC_RELEASE);
    }
    return status;
}

kvs_status_t cuda_start(void)
{
    pid_t started = __atomic_load_n(&owner, __ATOMIC_ACQUIRE);
    kvs_status_t status = KVS_OK;

    if (started == 0) {
        pthread_mutex_lock(&lock);
        status = owner == 0 ? start_locked() : KVS_OK;
        pthread_mutex_unlock(&lock);
        started = owner;
    }
    if (status == KVS_OK && started != getpid()) {
        return kvs_fail(KVS_ERR_STATE,
                        "CUDA was in use when this process was forked, and does not survive that; "
                        "fork before the first use of CUDA, or start a program of its own");
    }
    return status;
}

int cuda_n_devices(void)
{
    return n_devices;
}

kvs_status_t cuda_device_get(int id, cuda_device_t **ret_device)
{
    kvs_status_t status = cuda_start();

    if (status != KVS_OK) {
        return status;
    }
    if (id < 0 || id >= n_devices) {
        return kvs_fail(KVS_ERR_ARGUMENT, "there is no device cuda(%d): this machine has %d", id,
                        n_devices);
    }
    int failed = __atomic_load_n(&devices[id].failed, __ATOMIC_RELAXED);

    if (failed != 0) {
        return cuda_check(&devices[id], (CUresult)failed, "earlier work on it");
    }
    *ret_device = &devices[id];
    return KVS_OK;
}

kvs_status_t cuda_device_of(kvs_device_t device, cuda_device_t **ret_device)
{
    int is_of_one = device.type == KVS_DEVICE_CUDA;

    if (device.type == KVS_DEVICE_CUDA_HOST && cuda_start() == KVS_OK) {
        is_of_one = device.id > 0 && device.id < n_devices;
    }
    return cuda_device_get(is_of_one ? device.id : 0, ret_device);
}
