/* SPDX-License-Identifier: Apache-2.0 */
/* pretend.h - what tests on the stand-in for the CUDA driver share: the driver's functions and those for
 * tests, arrays on pretend devices, and random numbers. Tests skip where the stand-in is not named; with
 * KVSTORE_TEST_GPU set they run on real devices, without what only the stand-in can show. */
#ifndef PRETEND_H
#define PRETEND_H

#include "cuda_double_api.h"
#include "kt.h"

#include <cuda.h>
#include <kvstore/kvstore.h>

typedef struct pretend_driver {
    __typeof__(&cuDevicePrimaryCtxRetain) retain;
    __typeof__(&cuCtxPushCurrent) push;
    __typeof__(&cuCtxPopCurrent) pop;
    __typeof__(&cuStreamCreate) stream_create;
    __typeof__(&cuStreamSynchronize) stream_synchronize;
    __typeof__(&cuMemcpyHtoDAsync) copy_async;
    __typeof__(&cuMemcpyDtoHAsync) read_async;
    __typeof__(&cuMemsetD8Async) fill_async;
    /* NULL on real devices: */
    cuda_double_read_t read_counts;
    cuda_double_reset_t reset_counts;
    cuda_double_break_t break_device;
    cuda_double_capturing_t capturing;
    cuda_double_hold_t hold;
    cuda_double_live_t live;
    cuda_double_downloads_t downloads;
} pretend_driver_t;

extern pretend_driver_t driver;

/* Find the stand-in; ends the process with 77 if there is none. */
void pretend_open(void);
int pretend_n_devices(void);
/* Hold a stream back, or give it much to do; and let it go. */
void pretend_hold(int device, CUstream stream, int on);

/* Make the device's context current, and put back what was. */
void pretend_enter(int device);
void pretend_leave(void);
/* A stream of the program on a device. */
CUstream pretend_stream(int device);
void pretend_sync(int device, CUstream stream);
/* Write to an array in the order of a stream, and read from it. */
void pretend_write(int device, CUstream stream, const kvs_tensor_t *tensor, const void *from,
                   size_t n_bytes);
void pretend_read(int device, CUstream stream, const kvs_tensor_t *tensor, void *to,
                  size_t n_bytes);

/* An array of one dimension on a device (-1: host memory) with these bytes, `off` elements into its memory. */
kvs_tensor_t pretend_array(int device, int dtype, const int64_t *n, const void *bytes, int off);
void pretend_get(const kvs_tensor_t *tensor, void *to);
void pretend_free(kvs_tensor_t *tensor, int off);

uint64_t pretend_random(void);
/* Elements whose sums are not exact, so that order and rounding show. */
void pretend_fill(int dtype, int64_t n, void *bytes);
size_t pretend_elem_bytes(int dtype);

/* A list of n tensors as a call takes it. */
static inline kvs_arrays_t pretend_list(const kvs_tensor_t *tensors, size_t n)
{
    return (kvs_arrays_t){.tensors = tensors, .n = n};
}

#endif
