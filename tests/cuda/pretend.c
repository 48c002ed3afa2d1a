/* SPDX-License-Identifier: Apache-2.0 */
/* pretend.c - see pretend.h. */
#include "pretend.h"

#include <dlfcn.h>
#include <stdlib.h>

pretend_driver_t driver;

static void *find(void *library, const char *name)
{
    void *found = dlsym(library, name);

    if (found == NULL) {
        printf("the stand-in lacks %s\n", name);
        exit(1);
    }
    return found;
}

/* Of the stand-in alone. */
#define FIND_OURS(member, name)                                                                    \
    driver.member = (__typeof__(driver.member))(uintptr_t)dlsym(library, name)
#define FIND(member, name) driver.member = (__typeof__(driver.member))(uintptr_t)find(library, name)

void pretend_open(void)
{
    const char *name =
        getenv("KVSTORE_TEST_GPU") != NULL ? "libcuda.so.1" : getenv("KVSTORE_CUDA_DRIVER");
    void *library = name != NULL ? dlopen(name, RTLD_NOW | RTLD_LOCAL) : NULL;

    if (library == NULL) {
        printf("skipped: KVSTORE_CUDA_DRIVER names no stand-in\n");
        exit(77);
    }
    FIND(retain, "cuDevicePrimaryCtxRetain");
    FIND(push, "cuCtxPushCurrent_v2");
    FIND(pop, "cuCtxPopCurrent_v2");
    FIND(stream_create, "cuStreamCreate");
    FIND(stream_synchronize, "cuStreamSynchronize");
    FIND(copy_async, "cuMemcpyHtoDAsync_v2");
    FIND(read_async, "cuMemcpyDtoHAsync_v2");
    FIND(fill_async, "cuMemsetD8Async");
    FIND_OURS(read_counts, "cuda_double_read");
    FIND_OURS(reset_counts, "cuda_double_reset");
    FIND_OURS(break_device, "cuda_double_break");
    FIND_OURS(capturing, "cuda_double_capturing");
    FIND_OURS(hold, "cuda_double_hold");
    FIND_OURS(live, "cuda_double_live");
    FIND_OURS(downloads, "cuda_double_downloads");
}

int pretend_n_devices(void)
{
    int n = 0;

    KT_OK(kvs_device_count(KVS_DEVICE_CUDA, &n));
    return n;
}

/* ---- Streams ----------------------------------------------------------------------------------- */

void pretend_enter(int device)
{
    CUcontext context;

    (void)driver.retain(&context, device);
    (void)driver.push(context);
}

void pretend_leave(void)
{
    CUcontext context;

    (void)driver.pop(&context);
}

CUstream pretend_stream(int device)
{
    CUstream stream = NULL;

    pretend_enter(device);
    KT_INT(driver.stream_create(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    pretend_leave();
    return stream;
}

void pretend_sync(int device, CUstream stream)
{
    pretend_enter(device);
    KT_INT(driver.stream_synchronize(stream), CUDA_SUCCESS);
    pretend_leave();
}

void pretend_write(int device, CUstream stream, const kvs_tensor_t *tensor, const void *from,
                   size_t n_bytes)
{
    pretend_enter(device);
    KT_INT(driver.copy_async((CUdeviceptr)(uintptr_t)tensor->data, from, n_bytes, stream),
           CUDA_SUCCESS);
    pretend_leave();
}

void pretend_read(int device, CUstream stream, const kvs_tensor_t *tensor, void *to, size_t n_bytes)
{
    pretend_enter(device);
    KT_INT(driver.read_async(to, (CUdeviceptr)(uintptr_t)tensor->data, n_bytes, stream),
           CUDA_SUCCESS);
    pretend_leave();
}

#define LOAD_BYTES ((size_t)256 << 20)

void pretend_hold(int device, CUstream stream, int on)
{
    static void *load;

    if (driver.hold != NULL) {
        driver.hold(stream, on);
    } else if (on) {
        pretend_enter(device);
        if (load == NULL) {
            KT_OK(kvs_device_alloc((kvs_device_t){KVS_DEVICE_CUDA, device}, LOAD_BYTES, &load));
        }
        for (int i = 0; i < 200; i++) { /* some 20 ms of work */
            (void)driver.fill_async((CUdeviceptr)(uintptr_t)load, 0, LOAD_BYTES, stream);
        }
        pretend_leave();
    }
}

/* ---- Arrays ------------------------------------------------------------------------------------ */

static const kvs_device_t host = {KVS_DEVICE_CPU, 0};

size_t pretend_elem_bytes(int dtype)
{
    return kvs_dtype(dtype).bits / 8;
}

kvs_tensor_t pretend_array(int device, int dtype, const int64_t *n, const void *bytes, int off)
{
    kvs_device_t where = device < 0 ? host : (kvs_device_t){KVS_DEVICE_CUDA, device};
    size_t elem_bytes = pretend_elem_bytes(dtype);
    size_t n_bytes = (size_t)*n * elem_bytes;
    void *data = NULL;

    KT_OK(kvs_device_alloc(where, n_bytes + 64, &data));
    data = (char *)data + (size_t)off * elem_bytes;
    if (bytes != NULL) {
        KT_OK(kvs_device_copy(where, data, host, bytes, n_bytes));
    }
    return (kvs_tensor_t){
        .data = data, .device = where, .ndim = 1, .dtype = kvs_dtype(dtype), .shape = n};
}

void pretend_get(const kvs_tensor_t *tensor, void *to)
{
    KT_OK(kvs_device_copy(host, to, tensor->device, tensor->data,
                          (size_t)tensor->shape[0] * (tensor->dtype.bits / 8)));
}

void pretend_free(kvs_tensor_t *tensor, int off)
{
    kvs_device_free(tensor->device,
                    (char *)tensor->data - (size_t)off * (size_t)(tensor->dtype.bits / 8), 0);
}

/* ---- Numbers ----------------------------------------------------------------------------------- */

static uint64_t seed = 1;

uint64_t pretend_random(void)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return seed ^ seed >> 29;
}

void pretend_fill(int dtype, int64_t n, void *bytes)
{
    for (int64_t i = 0; i < n; i++) {
        float value = (float)(int64_t)(pretend_random() % 20011) / 1009.0f - 9.5f;
        double wide = (double)value * 1.00000013;
        uint32_t bits;

        memcpy(&bits, &value, sizeof(bits));
        switch (dtype) {
        case KVS_DTYPE_float32:
            ((float *)bytes)[i] = value;
            break;
        case KVS_DTYPE_float64:
            ((double *)bytes)[i] = wide;
            break;
        case KVS_DTYPE_bfloat16:
            ((uint16_t *)bytes)[i] = (uint16_t)(bits >> 16);
            break;
        case KVS_DTYPE_float16: /* finite, of either sign */
            ((uint16_t *)bytes)[i] = (uint16_t)(pretend_random() % 0x4C00 | (i % 2) << 15);
            break;
        default:
            for (size_t b = 0; b < pretend_elem_bytes(dtype); b++) {
                ((uint8_t *)bytes)[(size_t)i * pretend_elem_bytes(dtype) + b] =
                    (uint8_t)pretend_random();
            }
        }
    }
}
