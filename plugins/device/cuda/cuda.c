/* SPDX-License-Identifier: Apache-2.0 */
/* cuda.c - the provider of NVIDIA's devices: streams, marks, and the table. */
#include "cuda_device.h"
#include "cuda_launch.h"
#include "cuda_memory.h"
#include "cuda_rows.h"

#include <stdio.h>
#include <string.h>

#define WAIT_MS 600000

static kvs_status_t cuda_count(int *ret_n)
{
    kvs_status_t status = cuda_start();

    if (status == KVS_OK) {
        *ret_n = cuda_n_devices();
    }
    return status;
}

static kvs_status_t cuda_info(int id, kvs_device_info_t *ret_info)
{
    cuda_device_t *device;
    kvs_status_t status = cuda_device_get(id, &device);
    int major = 0, minor = 0;
    size_t n_free = 0, n_total = 0;
    char version[16];

    if (status == KVS_OK) {
        status = cuda_enter(device);
    }
    if (status != KVS_OK) {
        return status;
    }
    kvs_device_info_t info = {.size = (uint32_t)sizeof(info)};

    (void)cuda(cuDeviceGetName)(info.name, sizeof(info.name), device->handle);
    (void)cuda(cuDeviceGetAttribute)(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
                                     device->handle);
    (void)cuda(cuDeviceGetAttribute)(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
                                     device->handle);
    (void)cuda(cuMemGetInfo)(&n_free, &n_total); /* what isn't known stays empty or 0 */
    cuda_leave();
    snprintf(info.driver, sizeof(info.driver), "CUDA driver %s",
             cuda_version_text(cuda_driver.version, version));
    snprintf(info.detail, sizeof(info.detail), "compute capability %d.%d%s", major, minor,
             device->pool == NULL ? ", no memory pools" : "");
    info.total_bytes = n_total;
    info.free_bytes = n_free;
    *ret_info = info;
    return KVS_OK;
}

static int cuda_reaches(int from, int to)
{
    cuda_device_t *device;

    return to >= 0 && to < CUDA_MAX_DEVICES && cuda_device_get(from, &device) == KVS_OK
               ? device->can_reach[to]
               : 0;
}

static kvs_status_t cuda_queue(kvs_device_t where, kvs_queue_t **ret_queue)
{
    cuda_device_t *device;
    kvs_status_t status = cuda_device_of(where, &device);

    if (status == KVS_OK) {
        *ret_queue = (kvs_queue_t *)(void *)&device->queue;
    }
    return status;
}

static kvs_status_t cuda_copy_queue(kvs_device_t where, int to_host, kvs_queue_t **ret_queue)
{
    cuda_device_t *device;
    kvs_status_t status = cuda_device_of(where, &device);

    if (status == KVS_OK) {
        *ret_queue = (kvs_queue_t *)(void *)(to_host ? &device->to_host : &device->from_host);
    }
    return status;
}

static kvs_status_t cuda_mark(kvs_queue_t *queue, kvs_mark_t *ret_mark)
{
    kvs_status_t status = cuda_enter(cuda_device_of_queue(queue));

    if (status == KVS_OK) {
        status = cuda_lane_mark(cuda_lane_of_queue(queue), ret_mark);
        cuda_leave();
    }
    return status;
}

static kvs_status_t cuda_wait(kvs_queue_t *queue, const kvs_mark_t *mark)
{
    cuda_lane_t *lane = cuda_lane_of_queue(queue);
    kvs_status_t status = cuda_enter(lane->device);

    if (status == KVS_OK) {
        status = cuda_stream_wait_mark(lane->device, lane->stream, mark);
        cuda_lane_touch(lane);
        cuda_leave();
    }
    return status;
}

static kvs_status_t cuda_enter_queue(kvs_queue_t *queue, void **ret_stream)
{
    cuda_device_t *device = cuda_device_of_queue(queue);
    kvs_status_t status = cuda_enter(device);

    if (status == KVS_OK) {
        *ret_stream = cuda_lane_lend(&device->queue);
    }
    return status;
}

static void cuda_leave_queue(kvs_queue_t *queue)
{
    (void)queue;
    cuda_leave();
}

static kvs_status_t check_stream(cuda_device_t *device, int64_t stream)
{
    CUstreamCaptureStatus capturing = CU_STREAM_CAPTURE_STATUS_NONE;
    CUresult result = cuda(cuStreamIsCapturing)((CUstream)(intptr_t)stream, &capturing);

    if (result == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT ||
        (result == CUDA_SUCCESS && capturing != CU_STREAM_CAPTURE_STATUS_NONE)) {
        return kvs_fail(KVS_ERR_STATE,
                        "stream 0x%llx of device cuda(%d) is being captured into a graph; "
                        "exchange outside of the capture",
                        (unsigned long long)stream, device->id);
    }
    return cuda_check(device, result, "cuStreamIsCapturing");
}

static kvs_status_t cuda_stream_mark(kvs_device_t where, int64_t stream, kvs_mark_t *ret_mark)
{
    cuda_device_t *device;
    cuda_lane_t *lane;
    kvs_status_t status = cuda_device_of(where, &device);

    if (status == KVS_OK) {
        status = cuda_enter(device);
    }
    if (status != KVS_OK) {
        return status;
    }
    status = check_stream(device, stream);
    if (status == KVS_OK) {
        status = cuda_lane_of_stream(device, stream, &lane);
    }
    if (status == KVS_OK) {
        status = cuda_lane_mark(lane, ret_mark);
    }
    cuda_leave();
    return status;
}

static kvs_status_t cuda_stream_wait(kvs_device_t where, int64_t stream, const kvs_mark_t *mark)
{
    cuda_device_t *device;
    kvs_status_t status = cuda_device_of(where, &device);

    if (status == KVS_OK) {
        status = cuda_enter(device);
    }
    if (status == KVS_OK) {
        status = cuda_stream_wait_mark(device, (CUstream)(intptr_t)stream, mark);
        cuda_leave();
    }
    return status;
}

/* ---- What waits -------------------------------------------------------------------------------------- */

/* The queue of the device that an array lies on. */
static kvs_status_t queue_of_array(const void *data, kvs_queue_t **ret_queue)
{
    int id = 0;
    kvs_status_t status = cuda_start();

    if (status == KVS_OK &&
        cuda(cuPointerGetAttribute)(&id, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                                    (CUdeviceptr)(uintptr_t)data) != CUDA_SUCCESS) {
        return kvs_fail(KVS_ERR_ARGUMENT, "cuda: %p is no memory of a CUDA device", data);
    }
    return status == KVS_OK ? cuda_queue((kvs_device_t){KVS_DEVICE_CUDA, id}, ret_queue) : status;
}

static kvs_status_t finish(kvs_status_t status, kvs_queue_t *queue)
{
    kvs_mark_t mark;

    status = status == KVS_OK ? cuda_mark(queue, &mark) : status;
    return status == KVS_OK ? cuda_host_wait(&mark, WAIT_MS) : status;
}

static kvs_status_t cuda_sum(int dtype, int64_t n, const void *const *src, size_t n_src,
                             void *const *dst, size_t n_dst)
{
    const kvs_sum_item_t item = {n, src, n_src, dst, n_dst};
    kvs_queue_t *queue;
    kvs_status_t status = n > 0 && n_dst > 0 ? queue_of_array(dst[0], &queue) : KVS_OK;

    if (status != KVS_OK || n == 0 || n_dst == 0) {
        return status;
    }
    return finish(cuda_sums(queue, dtype, &item, 1), queue);
}

static kvs_status_t cuda_cast(int64_t n, int src_dtype, const void *src, int dst_dtype, void *dst)
{
    kvs_queue_t *queue;
    kvs_status_t status = n > 0 ? queue_of_array(dst, &queue) : KVS_OK;

    if (status != KVS_OK || n == 0) {
        return status;
    }
    return finish(cuda_convert(queue, n, src_dtype, src, dst_dtype, dst), queue);
}

static const kvs_provider_t cuda_provider = {
    .size = sizeof(cuda_provider),
    .device_type = KVS_DEVICE_CUDA,
    .name = "cuda",
    .alloc = cuda_alloc,
    .free = cuda_free,
    .sum = cuda_sum,
    .cast = cuda_cast,
    .probe = cuda_start,
    .n_devices = cuda_count,
    .info = cuda_info,
    .reaches = cuda_reaches,
    .queue = cuda_queue,
    .mark = cuda_mark,
    .wait = cuda_wait,
    .stream_mark = cuda_stream_mark,
    .stream_wait = cuda_stream_wait,
    .host_wait = cuda_host_wait,
    .copy = cuda_copy,
    .copy_now = cuda_copy_now,
    .zero = cuda_zero,
    .sums = cuda_sums,
    .convert = cuda_convert,
    .find_non_finite = cuda_find_non_finite,
    .step = cuda_step,
    .steps = cuda_steps,
    .pack = cuda_pack,
    .unpack = cuda_unpack,
    .enter = cuda_enter_queue,
    .leave = cuda_leave_queue,
    .norms = cuda_norms,
    .rows_sum = cuda_rows_sum,
    .rows_put = cuda_rows_put,
    .rows_gather = cuda_rows_gather,
    .rows_step = cuda_rows_step,
    .rows_mark = cuda_rows_mark,
    .rows_find = cuda_rows_find,
    .rows_list = cuda_rows_list,
    .copy_queue = cuda_copy_queue,
};

static const kvs_provider_t *const cuda_providers[] = {&cuda_provider};

static void cuda_about(const kvs_config_t *config,
                       void (*line)(void *arg, const char *label, const char *text), void *arg)
{
    char text[CUDA_TEXT_BYTES], needs[16];

    (void)config;
    line(arg, "driver", cuda_driver_text(text));
    snprintf(text, sizeof(text), "for CUDA %s, or a newer one",
             cuda_version_text(CUDA_NEEDED, needs));
    line(arg, "driver needed", text);
    line(arg, "kernels for", CUDA_KERNELS_TEXT);
}

KVS_PLUGIN(cuda, CUDA_VERSION_TEXT, .providers = cuda_providers, .n_providers = 1,
           .about = cuda_about)
