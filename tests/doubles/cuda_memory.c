/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_memory.c - memory of the stand-in for libcuda.so.1: each device has a range of addresses of its
 * own, from which blocks of 2^k bytes are cut; new memory is full of rubbish. */
#include "cuda_double.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define ARENA_BYTES ((size_t)8 << 30)
#define HEADER      512 /* before each block: its size; keeps blocks aligned */
#define RUBBISH     0xA5

typedef struct header {
    size_t n_bytes;
    int bin;
    void *next;
} header_t;

void double_memory_start(void)
{
    for (int i = 0; i < double_settings.n_devices; i++) {
        void *arena = mmap(NULL, ARENA_BYTES, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

        double_devices[i].arena = arena == MAP_FAILED ? NULL : arena;
    }
}

int double_device_of(const void *data)
{
    for (int i = 0; i < double_settings.n_devices; i++) {
        const char *arena = double_devices[i].arena;

        if (arena != NULL && (const char *)data >= arena &&
            (const char *)data < arena + ARENA_BYTES) {
            return i;
        }
    }
    return -1;
}

void *double_alloc_locked(int index, size_t n_bytes)
{
    double_device_t *device = &double_devices[index];
    int bin = 10;

    while (((size_t)1 << bin) < n_bytes + HEADER && bin < 40) {
        bin++;
    }
    size_t whole = (size_t)1 << bin;
    header_t *header = device->bins[bin];

    if (device->n_bytes_live + n_bytes > double_settings.memory || device->arena == NULL) {
        return NULL;
    }
    if (header != NULL) {
        device->bins[bin] = header->next;
    } else if (whole <= ARENA_BYTES - device->n_used) {
        header = (header_t *)(void *)(device->arena + device->n_used);
        device->n_used += whole;
    } else {
        return NULL;
    }
    *header = (header_t){n_bytes, bin, NULL};
    device->n_bytes_live += n_bytes;
    double_counts.allocs++;
    return (char *)header + HEADER;
}

void double_free_locked(void *data)
{
    double_device_t *device = &double_devices[double_device_of(data)];
    header_t *header = (header_t *)(void *)((char *)data - HEADER);

    device->n_bytes_live -= header->n_bytes;
    header->next = device->bins[header->bin];
    device->bins[header->bin] = header;
}

static CUresult alloc(CUdeviceptr *data, int device, size_t n_bytes)
{
    CUresult result = double_check(device);

    if (result != CUDA_SUCCESS) {
        return result;
    }
    pthread_mutex_lock(&double_lock);
    void *block = double_alloc_locked(device, n_bytes);
    pthread_mutex_unlock(&double_lock);
    if (block == NULL) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    memset(block, RUBBISH, n_bytes);
    *data = (CUdeviceptr)(uintptr_t)block;
    return CUDA_SUCCESS;
}

DOUBLE_API CUresult cuMemAlloc_v2(CUdeviceptr *data, size_t n_bytes)
{
    return alloc(data, double_current(), n_bytes);
}

DOUBLE_API CUresult cuMemAllocManaged(CUdeviceptr *data, size_t n_bytes, unsigned flags)
{
    void *block = aligned_alloc(512, (n_bytes + 511) / 512 * 512);

    (void)flags;
    *data = (CUdeviceptr)(uintptr_t)block;
    return block != NULL ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

DOUBLE_API CUresult cuMemFree_v2(CUdeviceptr data)
{
    void *block = (void *)(uintptr_t)data;

    if (double_device_of(block) < 0) {
        free(block);
        return CUDA_SUCCESS;
    }
    pthread_mutex_lock(&double_lock);
    double_await_device_locked(double_device_of(block)); /* as the driver does: work may still use it */
    double_free_locked(block);
    pthread_mutex_unlock(&double_lock);
    return CUDA_SUCCESS;
}

/* Pinned memory: its size stands before it. */
DOUBLE_API CUresult cuMemHostAlloc(void **data, size_t n_bytes, unsigned flags)
{
    size_t whole = (n_bytes + 4095) / 4096 * 4096 + 4096;
    char *block = NULL;

    (void)flags;
    pthread_mutex_lock(&double_lock);
    if (n_bytes <= double_settings.pinned) {
        block = aligned_alloc(4096, whole);
    }
    if (block != NULL) {
        double_settings.pinned -= n_bytes;
        memcpy(block, &n_bytes, sizeof(n_bytes));
        *data = block + 4096;
    }
    double_counts.pinned_refused += block == NULL;
    pthread_mutex_unlock(&double_lock);
    return block != NULL ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

DOUBLE_API CUresult cuMemFreeHost(void *data)
{
    char *block = (char *)data - 4096;
    size_t n_bytes;

    memcpy(&n_bytes, block, sizeof(n_bytes));
    pthread_mutex_lock(&double_lock);
    double_settings.pinned += n_bytes;
    pthread_mutex_unlock(&double_lock);
    free(block);
    return CUDA_SUCCESS;
}

DOUBLE_API CUresult cuMemGetInfo_v2(size_t *n_free, size_t *n_total)
{
    pthread_mutex_lock(&double_lock);
    *n_total = double_settings.memory;
    *n_free = double_settings.memory - double_devices[double_current()].n_bytes_live;
    pthread_mutex_unlock(&double_lock);
    return CUDA_SUCCESS;
}

DOUBLE_API CUresult cuPointerGetAttribute(void *value, CUpointer_attribute attribute,
                                          CUdeviceptr data)
{
    int device = double_device_of((const void *)(uintptr_t)data);

    if (attribute != CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL || device < 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *(int *)value = device;
    return CUDA_SUCCESS;
}

/* ---- Pools: a pool is its device's number + 1 --------------------------------------------------- */

DOUBLE_API CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *props)
{
    *pool = (CUmemoryPool)(intptr_t)(props->location.id + 1);
    return double_settings.no_pools ? CUDA_ERROR_NOT_SUPPORTED : CUDA_SUCCESS;
}

DOUBLE_API CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute,
                                          void *value)
{
    (void)pool, (void)attribute, (void)value;
    return CUDA_SUCCESS;
}

DOUBLE_API CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *map, size_t n)
{
    (void)pool, (void)map, (void)n;
    return double_settings.no_peer ? CUDA_ERROR_INVALID_DEVICE : CUDA_SUCCESS;
}

DOUBLE_API CUresult cuMemAllocFromPoolAsync(CUdeviceptr *data, size_t n_bytes, CUmemoryPool pool,
                                            CUstream stream)
{
    (void)stream;
    return alloc(data, (int)(intptr_t)pool - 1, n_bytes);
}

static void run_free(double_work_t *work)
{
    double_free_locked(work->dst);
}

DOUBLE_API CUresult cuMemFreeAsync(CUdeviceptr data, CUstream stream)
{
    return double_enqueue(stream,
                          &(double_work_t){.run_locked = run_free, .dst = (void *)(uintptr_t)data});
}

/* ---- Copies ----------------------------------------------------------------------------------- */

static void run_copy(double_work_t *work)
{
    memmove(work->dst, work->src, work->n_bytes);
}

static CUresult enqueue_copy(void *dst, const void *src, size_t n_bytes, CUstream stream,
                             int is_download)
{
    return double_enqueue(stream, &(double_work_t){.run = run_copy,
                                                   .dst = dst,
                                                   .src = src,
                                                   .n_bytes = n_bytes,
                                                   .is_download = is_download});
}

static CUresult copy(void *dst, const void *src, size_t n_bytes, CUstream stream)
{
    pthread_mutex_lock(&double_lock);
    double_counts.copies++;
    double_counts.bytes += n_bytes;
    pthread_mutex_unlock(&double_lock);
    return enqueue_copy(dst, src, n_bytes, stream, 0);
}

static void count(uint64_t *n, uint64_t *bytes, uint64_t *most, size_t n_bytes)
{
    pthread_mutex_lock(&double_lock);
    double_counts.copies++;
    double_counts.bytes += n_bytes;
    *n += 1;
    *bytes += n_bytes;
    *most = *most > n_bytes ? *most : n_bytes;
    pthread_mutex_unlock(&double_lock);
}

DOUBLE_API CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr dst, const void *src, size_t n_bytes,
                                         CUstream stream)
{
    count(&double_counts.from_host, &double_counts.from_host_bytes, &double_counts.from_host_most,
          n_bytes);
    return enqueue_copy((void *)(uintptr_t)dst, src, n_bytes, stream, 0);
}

DOUBLE_API CUresult cuMemcpyDtoHAsync_v2(void *dst, CUdeviceptr src, size_t n_bytes,
                                         CUstream stream)
{
    count(&double_counts.to_host, &double_counts.to_host_bytes, &double_counts.to_host_most,
          n_bytes);
    return enqueue_copy(dst, (const void *)(uintptr_t)src, n_bytes, stream, 1);
}

DOUBLE_API CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr dst, CUdeviceptr src, size_t n_bytes,
                                         CUstream stream)
{
    return copy((void *)(uintptr_t)dst, (const void *)(uintptr_t)src, n_bytes, stream);
}

DOUBLE_API CUresult cuMemcpyPeerAsync(CUdeviceptr dst, CUcontext dst_context, CUdeviceptr src,
                                      CUcontext src_context, size_t n_bytes, CUstream stream)
{
    (void)dst_context, (void)src_context;
    pthread_mutex_lock(&double_lock);
    double_counts.peer_copies++;
    pthread_mutex_unlock(&double_lock);
    return copy((void *)(uintptr_t)dst, (const void *)(uintptr_t)src, n_bytes, stream);
}

/* Into host memory at once: what is under way on streams is not waited for, as that of non-blocking ones
 * isn't. Else it may return before its work is done. */
DOUBLE_API CUresult cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t n_bytes)
{
    int device = double_device_of((void *)(uintptr_t)src);
    CUresult result = device >= 0 ? double_check(device) : CUDA_SUCCESS;

    if (result != CUDA_SUCCESS || double_device_of((void *)(uintptr_t)dst) >= 0) {
        return result != CUDA_SUCCESS
                   ? result
                   : copy((void *)(uintptr_t)dst, (const void *)(uintptr_t)src, n_bytes, NULL);
    }
    memmove((void *)(uintptr_t)dst, (const void *)(uintptr_t)src, n_bytes);
    return CUDA_SUCCESS;
}

DOUBLE_API CUresult cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t n_bytes, CUstream stream)
{
    return copy((void *)(uintptr_t)dst, (const void *)(uintptr_t)src, n_bytes, stream);
}

static void run_fill(double_work_t *work)
{
    memset(work->dst, work->value, work->n_bytes);
}

DOUBLE_API CUresult cuMemsetD8Async(CUdeviceptr dst, unsigned char value, size_t n, CUstream stream)
{
    return double_enqueue(
        stream, &(double_work_t){
                    .run = run_fill, .dst = (void *)(uintptr_t)dst, .n_bytes = n, .value = value});
}
