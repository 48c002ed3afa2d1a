/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_driver.h - the CUDA driver, opened at run time: its functions as a table, and its errors as
 * statuses with texts. libcuda.so.1, or what KVSTORE_CUDA_DRIVER names. */
#ifndef CUDA_DRIVER_H
#define CUDA_DRIVER_H

#include <kvstore/plugin.h>

#include <cuda.h>

/* The driver that the kernels were compiled for: CUDA 13's compiler, driver R580. */
#define CUDA_NEEDED 13000

/* Names are those after cuda.h's macros, cuMemAlloc_v2 for cuMemAlloc. */
#define CUDA_FUNCTIONS(X)                                                                          \
    X(cuCtxEnablePeerAccess)                                                                       \
    X(cuCtxPopCurrent)                                                                             \
    X(cuCtxPushCurrent)                                                                            \
    X(cuDeviceCanAccessPeer)                                                                       \
    X(cuDeviceGet)                                                                                 \
    X(cuDeviceGetAttribute)                                                                        \
    X(cuDeviceGetCount)                                                                            \
    X(cuDeviceGetName)                                                                             \
    X(cuDeviceGetP2PAttribute)                                                                     \
    X(cuDevicePrimaryCtxRetain)                                                                    \
    X(cuDeviceTotalMem)                                                                            \
    X(cuEventCreate)                                                                               \
    X(cuEventQuery)                                                                                \
    X(cuEventRecord)                                                                               \
    X(cuGetErrorName)                                                                              \
    X(cuGetErrorString)                                                                            \
    X(cuLaunchKernel)                                                                              \
    X(cuLibraryGetKernel)                                                                          \
    X(cuLibraryLoadData)                                                                           \
    X(cuMemAlloc)                                                                                  \
    X(cuMemAllocFromPoolAsync)                                                                     \
    X(cuMemAllocManaged)                                                                           \
    X(cuMemFree)                                                                                   \
    X(cuMemFreeAsync)                                                                              \
    X(cuMemFreeHost)                                                                               \
    X(cuMemGetInfo)                                                                                \
    X(cuMemHostAlloc)                                                                              \
    X(cuMemPoolCreate)                                                                             \
    X(cuMemPoolSetAccess)                                                                          \
    X(cuMemPoolSetAttribute)                                                                       \
    X(cuMemcpy)                                                                                    \
    X(cuMemcpyAsync)                                                                               \
    X(cuMemcpyDtoDAsync)                                                                           \
    X(cuMemcpyDtoHAsync)                                                                           \
    X(cuMemcpyHtoDAsync)                                                                           \
    X(cuMemcpyPeerAsync)                                                                           \
    X(cuMemsetD8Async)                                                                             \
    X(cuPointerGetAttribute)                                                                       \
    X(cuStreamCreateWithPriority)                                                                  \
    X(cuStreamIsCapturing)                                                                         \
    X(cuStreamWaitEvent)

typedef struct cuda_driver {
#define CUDA_MEMBER(f) __typeof__(&f) p_##f;
    CUDA_FUNCTIONS(CUDA_MEMBER)
#undef CUDA_MEMBER
    int version;
} cuda_driver_t;

extern cuda_driver_t cuda_driver; /* filled by cuda_driver_open, read-only from then on */

/* cuda(cuInit)(0) */
#define cuda(f) (cuda_driver.p_##f)

/* Open it, once. ERR_UNAVAILABLE: there is none, it is too old, or it finds no device; again at each
 * call. Any thread. */
kvs_status_t cuda_driver_open(void);

#define CUDA_TEXT_BYTES 1024
/* For people: what CUDA it offers and its file, or why there is none. Any thread. */
const char *cuda_driver_text(char text[CUDA_TEXT_BYTES]);

/* "13.0" of 13000. */
const char *cuda_version_text(int version, char text[16]);

/* "CUDA_ERROR_OUT_OF_MEMORY (2): out of memory"; the status that it means. */
kvs_status_t cuda_fail(CUresult result, const char *what);
/* Whether the error is one that a device doesn't recover from. */
int cuda_is_sticky(CUresult result);

#endif
