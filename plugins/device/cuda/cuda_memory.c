/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_memory.c - see cuda_memory.h. Host memory that is not pinned goes through a ring of pinned
 * buffers of the device, a segment at a time: the driver's own staging would block. A segment is used
 * again when all that was queued up to its last use is done. */
#include "cuda_memory.h"

#include "cuda_launch.h"

#include <stdlib.h>
#include <string.h>

#define SEGMENT_BYTES ((size_t)2 << 20)
#define N_SEGMENTS    16
#define N_UNDER_WAY   4 /* chunks on their way to the host at a time */
#define WAIT_MS       600000

typedef struct cuda_ring {
    char *memory;
    size_t segment, n_used; /* the one in use, and how much of it */
    kvs_mark_t last_use[N_SEGMENTS];
} cuda_ring_t;

static CUdeviceptr pointer(const void *data)
{
    return (CUdeviceptr)(uintptr_t)data;
}

/* ---- Memory ------------------------------------------------------------------------------------------ */

static kvs_status_t no_memory(cuda_device_t *device, CUresult result, size_t n_bytes)
{
    size_t n_free = 0, n_total = 0;

    if (result != CUDA_ERROR_OUT_OF_MEMORY) {
        return cuda_check(device, result, "cuMemAlloc");
    }
    (void)cuda(cuMemGetInfo)(&n_free, &n_total); /* for the text only */
    return kvs_fail(KVS_ERR_NO_MEMORY,
                    "device cuda(%d): no memory for %zu bytes (%zu of %zu bytes are free)",
                    device->id, n_bytes, n_free, n_total);
}

static kvs_status_t alloc_on_device(cuda_device_t *device, size_t n_bytes, void **ret_data)
{
    CUdeviceptr data = 0;
    CUresult result =
        device->pool != NULL
            ? cuda(cuMemAllocFromPoolAsync)(&data, n_bytes, device->pool, device->queue.stream)
            : cuda(cuMemAlloc)(&data, n_bytes);

    if (result == CUDA_SUCCESS) {
        result = cuda(cuMemsetD8Async)(data, 0, n_bytes, device->queue.stream);
        cuda_lane_touch(&device->queue);
    }
    if (result != CUDA_SUCCESS) {
        return no_memory(device, result, n_bytes);
    }
    *ret_data = (void *)(uintptr_t)data;
    return KVS_OK;
}

static kvs_status_t alloc_on_host(cuda_device_t *device, int32_t type, size_t n_bytes,
                                  void **ret_data)
{
    CUdeviceptr managed = 0;
    CUresult result;

    if (type == KVS_DEVICE_CUDA_MANAGED) {
        result = cuda(cuMemAllocManaged)(&managed, n_bytes, CU_MEM_ATTACH_GLOBAL);
        *ret_data = (void *)(uintptr_t)managed;
    } else {
        result = cuda(cuMemHostAlloc)(ret_data, n_bytes, CU_MEMHOSTALLOC_PORTABLE);
    }
    if (result != CUDA_SUCCESS) {
        return cuda_check(device, result,
                          type == KVS_DEVICE_CUDA_MANAGED ? "cuMemAllocManaged" : "cuMemHostAlloc");
    }
    memset(*ret_data, 0, n_bytes);
    return KVS_OK;
}

kvs_status_t cuda_alloc(kvs_device_t where, size_t n_bytes, void **ret_data)
{
    cuda_device_t *device;
    kvs_status_t status = cuda_device_of(where, &device);
    void *data = NULL;

    if (status == KVS_OK && n_bytes > 0) {
        status = cuda_enter(device);
        if (status == KVS_OK) {
            status = where.type == KVS_DEVICE_CUDA
                         ? alloc_on_device(device, n_bytes, &data)
                         : alloc_on_host(device, where.type, n_bytes, &data);
            cuda_leave();
        }
    }
    if (status == KVS_OK) {
        *ret_data = data;
    }
    return status;
}

/* Of a device that has failed nothing can be freed any more, but pinned memory, which is every context's. */
static kvs_status_t device_that_frees(kvs_device_t where, cuda_device_t **ret_device)
{
    kvs_status_t status = cuda_device_of(where, ret_device);

    for (int i = 0; where.type == KVS_DEVICE_CUDA_HOST && status != KVS_OK && i < cuda_n_devices();
         i++) {
        status = cuda_device_get(i, ret_device);
    }
    return status;
}

void cuda_free(kvs_device_t where, void *data, size_t n_bytes)
{
    cuda_device_t *device;

    (void)n_bytes;
    if (data == NULL || device_that_frees(where, &device) != KVS_OK ||
        cuda_enter(device) != KVS_OK) {
        return;
    }
    if (where.type == KVS_DEVICE_CUDA_HOST) {
        (void)cuda(cuMemFreeHost)(data);
    } else if (where.type == KVS_DEVICE_CUDA && device->pool != NULL) {
        (void)cuda(cuMemFreeAsync)(pointer(data), device->queue.stream);
        cuda_lane_touch(&device->queue);
    } else {
        (void)cuda(cuMemFree)(pointer(data));
    }
    cuda_leave();
}

kvs_status_t cuda_zero(kvs_queue_t *queue, void *data, size_t n_bytes)
{
    cuda_device_t *device = cuda_device_of_queue(queue);
    kvs_status_t status = n_bytes > 0 ? cuda_enter(device) : KVS_OK;

    if (status == KVS_OK && n_bytes > 0) {
        CUresult result = cuda(cuMemsetD8Async)(pointer(data), 0, n_bytes, device->queue.stream);

        cuda_lane_touch(&device->queue);
        cuda_leave();
        status = cuda_check(device, result, "cuMemsetD8Async");
    }
    return status;
}

/* ---- The ring ------------------------------------------------------------------------------------------ */

static kvs_status_t open_ring_locked(cuda_device_t *device)
{
    cuda_ring_t *ring;

    if (device->ring != NULL) {
        return KVS_OK;
    }
    ring = calloc(1, sizeof(*ring));
    if (ring == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for staging buffers");
    }
    CUresult result = cuda(cuMemHostAlloc)((void **)&ring->memory, SEGMENT_BYTES * N_SEGMENTS,
                                           CU_MEMHOSTALLOC_PORTABLE);

    if (result != CUDA_SUCCESS) {
        free(ring);
        return cuda_check(device, result, "cuMemHostAlloc of staging buffers");
    }
    device->ring = ring;
    return KVS_OK;
}

/* `n_bytes`, at most a segment, to which nothing under way refers any more. */
static kvs_status_t take_locked(cuda_device_t *device, size_t n_bytes, char **ret_space)
{
    cuda_ring_t *ring = device->ring;
    kvs_status_t status = KVS_OK;

    if (ring->n_used + n_bytes > SEGMENT_BYTES) {
        status = cuda_lane_mark(&device->queue, &ring->last_use[ring->segment]);
        if (status == KVS_OK) {
            ring->segment = (ring->segment + 1) % N_SEGMENTS;
            ring->n_used = 0;
            status = cuda_host_wait(&ring->last_use[ring->segment], WAIT_MS);
        }
    }
    *ret_space = ring->memory + ring->segment * SEGMENT_BYTES + ring->n_used;
    ring->n_used += (n_bytes + 63) / 64 * 64;
    return status;
}

static kvs_status_t upload_locked(cuda_device_t *device, void *dst, const void *src, size_t n_bytes)
{
    kvs_status_t status = open_ring_locked(device);

    for (size_t at = 0; at < n_bytes && status == KVS_OK; at += SEGMENT_BYTES) {
        size_t n = n_bytes - at < SEGMENT_BYTES ? n_bytes - at : SEGMENT_BYTES;
        char *space;

        status = take_locked(device, n, &space);
        if (status == KVS_OK) {
            memcpy(space, (const char *)src + at, n);
            status = cuda_check(
                device, cuda(cuMemcpyHtoDAsync)(pointer(dst) + at, space, n, device->queue.stream),
                "cuMemcpyHtoDAsync");
            cuda_lane_touch(&device->queue);
        }
    }
    return status;
}

typedef struct chunk {
    char *space;
    size_t at, n;
    kvs_mark_t mark;
} chunk_t;

static kvs_status_t begin_chunk_locked(cuda_device_t *device, chunk_t *chunk, const void *src)
{
    kvs_status_t status = take_locked(device, chunk->n, &chunk->space);

    if (status == KVS_OK) {
        status = cuda_check(device,
                            cuda(cuMemcpyDtoHAsync)(chunk->space, pointer(src) + chunk->at,
                                                    chunk->n, device->queue.stream),
                            "cuMemcpyDtoHAsync");
        cuda_lane_touch(&device->queue);
    }
    return status == KVS_OK ? cuda_lane_mark(&device->queue, &chunk->mark) : status;
}

/* Several chunks are under way while the oldest is copied out. */
static kvs_status_t download_locked(cuda_device_t *device, void *dst, const void *src,
                                    size_t n_bytes)
{
    kvs_status_t status = open_ring_locked(device);
    size_t n_chunks = (n_bytes + SEGMENT_BYTES - 1) / SEGMENT_BYTES, n_begun = 0;
    chunk_t chunks[N_UNDER_WAY];

    for (size_t i = 0; i < n_chunks && status == KVS_OK; i++) {
        for (; n_begun < n_chunks && n_begun < i + N_UNDER_WAY && status == KVS_OK; n_begun++) {
            size_t at = n_begun * SEGMENT_BYTES;
            chunk_t *chunk = &chunks[n_begun % N_UNDER_WAY];

            *chunk = (chunk_t){.at = at,
                               .n = n_bytes - at < SEGMENT_BYTES ? n_bytes - at : SEGMENT_BYTES};
            status = begin_chunk_locked(device, chunk, src);
        }
        const chunk_t *oldest = &chunks[i % N_UNDER_WAY];

        status = status == KVS_OK ? cuda_host_wait(&oldest->mark, WAIT_MS) : status;
        if (status == KVS_OK) {
            memcpy((char *)dst + oldest->at, oldest->space, oldest->n);
        }
    }
    return status;
}

/* ---- Copies -------------------------------------------------------------------------------------------- */

static int is_host(kvs_device_t device)
{
    return device.type == KVS_DEVICE_CPU || device.type == KVS_DEVICE_CUDA_HOST;
}

static kvs_status_t copy_between(cuda_device_t *device, kvs_device_t dst_device, void *dst,
                                 kvs_device_t src_device, const void *src, size_t n_bytes)
{
    cuda_device_t *to, *from;
    kvs_status_t status = cuda_device_of(dst_device, &to);
    CUresult result;

    status = status == KVS_OK ? cuda_device_of(src_device, &from) : status;
    if (status != KVS_OK) {
        return status;
    }
    result = to == from ? cuda(cuMemcpyDtoDAsync)(pointer(dst), pointer(src), n_bytes,
                                                  device->queue.stream)
                        : cuda(cuMemcpyPeerAsync)(pointer(dst), to->context, pointer(src),
                                                  from->context, n_bytes, device->queue.stream);
    cuda_lane_touch(&device->queue);
    return cuda_check(device, result, "cuMemcpyPeerAsync");
}

static kvs_status_t copy_pinned(cuda_lane_t *lane, int to_host, void *dst, const void *src,
                                size_t n_bytes)
{
    CUresult result = to_host ? cuda(cuMemcpyDtoHAsync)(dst, pointer(src), n_bytes, lane->stream)
                              : cuda(cuMemcpyHtoDAsync)(pointer(dst), src, n_bytes, lane->stream);

    cuda_lane_touch(lane);
    return cuda_check(lane->device, result, "cuMemcpyAsync");
}

static kvs_status_t copy_staged(cuda_device_t *device, int to_host, void *dst, const void *src,
                                size_t n_bytes)
{
    kvs_status_t status;

    pthread_mutex_lock(&device->ring_lock);
    status = to_host ? download_locked(device, dst, src, n_bytes)
                     : upload_locked(device, dst, src, n_bytes);
    pthread_mutex_unlock(&device->ring_lock);
    return status;
}

kvs_status_t cuda_copy(kvs_queue_t *queue, kvs_device_t dst_device, void *dst,
                       kvs_device_t src_device, const void *src, size_t n_bytes)
{
    cuda_device_t *device = cuda_device_of_queue(queue);
    int to_host = is_host(dst_device), from_host = is_host(src_device);
    kvs_status_t status = n_bytes > 0 ? cuda_enter(device) : KVS_OK;

    if (status != KVS_OK || n_bytes == 0) {
        return status;
    }
    if (!to_host && !from_host) {
        status = copy_between(device, dst_device, dst, src_device, src, n_bytes);
    } else if ((to_host ? dst_device : src_device).type == KVS_DEVICE_CUDA_HOST) {
        status = copy_pinned(cuda_lane_of_queue(queue), to_host, dst, src, n_bytes);
    } else {
        status = copy_staged(device, to_host, dst, src, n_bytes);
    }
    cuda_leave();
    return status;
}

static int is_on_device(const void *data)
{
    int id;

    return cuda(cuPointerGetAttribute)(&id, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, pointer(data)) ==
           CUDA_SUCCESS;
}

/* cuMemcpy has done its work when it returns only where it reads into host memory: between devices, and from
 * host memory, it returns before, and is in no order with our stream, which doesn't block. */
static CUresult copy_at_once(cuda_device_t *device, void *dst, const void *src, size_t n_bytes)
{
    CUresult result;

    if (!is_on_device(dst)) {
        return cuda(cuMemcpy)(pointer(dst), pointer(src), n_bytes);
    }
    result = cuda(cuMemcpyAsync)(pointer(dst), pointer(src), n_bytes, device->queue.stream);
    cuda_lane_touch(&device->queue);
    return result;
}

static kvs_status_t wait_for_queue(cuda_device_t *device)
{
    kvs_mark_t mark;
    kvs_status_t status = cuda_lane_mark(&device->queue, &mark);

    return status == KVS_OK ? cuda_host_wait(&mark, WAIT_MS) : status;
}

kvs_status_t cuda_copy_now(kvs_queue_t *queue, void *dst, const void *src, size_t n_bytes)
{
    cuda_device_t *device = cuda_device_of_queue(queue);
    kvs_status_t status = cuda_enter(device);

    if (status != KVS_OK) {
        return status;
    }
    status = wait_for_queue(device);
    if (status == KVS_OK && n_bytes > 0) {
        status = cuda_check(device, copy_at_once(device, dst, src, n_bytes), "cuMemcpy");
        status = status == KVS_OK ? wait_for_queue(device) : status;
    }
    cuda_leave();
    return status;
}
