/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_double.h - a stand-in for libcuda.so.1 seen from inside: pretend devices whose memory is the host's,
 * and streams that one thread works off late and in an order chosen to be unkind, so that a missing wait
 * shows as a wrong result. KVSTORE_DOUBLE_DEVICES: how many (1). KVSTORE_DOUBLE_DELAY_US: how long work lies
 * before it may run (50). KVSTORE_DOUBLE_MEMORY: bytes of each device; KVSTORE_DOUBLE_PINNED: of pinned host
 * memory. KVSTORE_DOUBLE_FAULT: a list of driver=VERSION, nodevice, nopeer, pairs (devices 0 and 1, 2 and 3,
 * … have better links than others), islands (only those have any), nopools, capture, sticky=DEVICE:N (the
 * N-th launch there breaks the device). */
#ifndef CUDA_DOUBLE_H
#define CUDA_DOUBLE_H

#include "cuda_double_api.h"

#include <cuda.h>
#include <pthread.h>
#include <stdint.h>

#define DOUBLE_MAX_DEVICES 16

typedef struct double_device {
    char *arena; /* its memory: a range of addresses of its own */
    size_t n_used, n_bytes_live;
    void *bins[64];     /* free blocks, by the logarithm of their size */
    unsigned can_reach; /* mask of devices whose memory its kernels may touch */
    int failed;         /* it has met its sticky error */
    uint64_t n_launches;
} double_device_t;

typedef struct double_settings {
    int n_devices, driver_version, no_device, no_peer, no_pools, capture, pairs, islands;
    int sticky_device;
    uint64_t sticky_launch;
    size_t memory, pinned;
    int64_t delay_ns;
} double_settings_t;

extern pthread_mutex_t double_lock; /* guards everything below and all streams */
extern double_settings_t double_settings;
extern double_device_t double_devices[DOUBLE_MAX_DEVICES];
extern cuda_double_counts_t double_counts;
extern int64_t double_downloads; /* that may still be made; -1: any number */

#define DOUBLE_API __attribute__((visibility("default")))

/* The device of this thread's current context, or -1. */
int double_current(void);
/* What a call on a device gives before it does anything. */
CUresult double_check(int device);
/* The device whose memory that is, or -1. Any thread. */
int double_device_of(const void *data);
void double_memory_start(void);
void *double_alloc_locked(int device, size_t n_bytes);
void double_free_locked(void *data);

/* One thing to do, when its stream comes to it. */
typedef struct double_work {
    void (*run)(struct double_work *work); /* without the lock; NULL: nothing */
    void (*run_locked)(struct double_work *work);
    struct CUevent_st *awaited; /* not before this event's record number `number` has happened */
    uint64_t number;
    struct CUevent_st *recorded;
    void *dst;
    const void *src;
    size_t n_bytes;
    int value;
    int is_download;
    void (*kernel)(const void *args, uint32_t n_blocks);
    uint32_t n_blocks;
    size_t args_bytes;
    void *args;
    void (*callback)(void *arg);
    int device;
    uint64_t sequence;
    int64_t ready_ns;
    struct double_work *next;
} double_work_t;

/* Append to a stream (a handle, or 0, 1, 2) a copy of *work. */
CUresult double_enqueue(CUstream stream, const double_work_t *work);
/* Wait until all work that the device's streams have by now is done. */
void double_await_device_locked(int device);
void double_streams_start(void);

#endif
