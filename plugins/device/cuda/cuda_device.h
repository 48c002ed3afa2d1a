/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_device.h - the devices: primary contexts, memory pools, peers, and whether they have failed.
 *
 * Everything here is made once, at the first use of CUDA, and lives as long as the process. Contexts are
 * the primary ones, shared with every framework of the process; a function that makes one current puts
 * the caller's back. */
#ifndef CUDA_DEVICE_H
#define CUDA_DEVICE_H

#include "cuda_driver.h"
#include "cuda_lane.h"

#define CUDA_MAX_DEVICES 32

typedef struct cuda_device {
    int id;
    CUdevice handle;
    CUcontext context;
    CUmemoryPool pool;   /* NULL: not supported, memory comes from cuMemAlloc */
    cuda_lane_t queue;   /* of kernels and copies */
    cuda_lane_t to_host; /* of copies to pinned memory only, and from it */
    cuda_lane_t from_host;
    cuda_lane_t *streams; /* of the program, as they were met; guarded by streams_lock */
    pthread_mutex_t streams_lock;
    int can_reach[CUDA_MAX_DEVICES]; /* 0, or how well */
    int failed;             /* the CUresult that it doesn't recover from; an atomic, set once */
    struct cuda_ring *ring; /* of staging buffers; made at first use, guarded by ring_lock */
    pthread_mutex_t ring_lock;
} cuda_device_t;

/* Start CUDA if it has not been. ERR_UNAVAILABLE, ERR_STATE: this process was forked since. */
kvs_status_t cuda_start(void);
int cuda_n_devices(void);
/* ERR_ARGUMENT: no such device; ERR_UNAVAILABLE: it has failed. */
kvs_status_t cuda_device_get(int id, cuda_device_t **ret_device);
/* Managed memory belongs to the first device, and so does pinned memory of no device that there is. */
kvs_status_t cuda_device_of(kvs_device_t device, cuda_device_t **ret_device);

/* Make the device's context current, and put the caller's back. */
kvs_status_t cuda_enter(cuda_device_t *device);
void cuda_leave(void);
/* The status of a driver's answer about this device, which is marked as failed where it is. */
kvs_status_t cuda_check(cuda_device_t *device, CUresult result, const char *what);

#endif
