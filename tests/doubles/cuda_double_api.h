/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_double_api.h - what tests ask of the stand-in for libcuda.so.1, by dlsym, beside the driver's own
 * functions. */
#ifndef CUDA_DOUBLE_API_H
#define CUDA_DOUBLE_API_H

#include <stdint.h>

/* Calls since the last reset; bytes are those of asynchronous copies. */
typedef struct cuda_double_counts {
    uint64_t launches, copies, bytes, host_syncs, events, waits, allocs, peer_copies;
    /* of the copies those to the host and those from it, and of these the largest */
    uint64_t to_host, to_host_bytes, to_host_most, from_host, from_host_bytes, from_host_most;
    uint64_t pinned_refused; /* pinned memory that there was not enough of */
} cuda_double_counts_t;

/* cuda_double_read */
typedef void (*cuda_double_read_t)(cuda_double_counts_t *ret_counts);
/* cuda_double_reset */
typedef void (*cuda_double_reset_t)(void);
/* cuda_double_break: the device has met an illegal address */
typedef void (*cuda_double_break_t)(int device);
/* cuda_double_capturing: all streams of the program are (not) being captured */
typedef void (*cuda_double_capturing_t)(int on);
/* cuda_double_live: bytes allocated on the device */
typedef uint64_t (*cuda_double_live_t)(int device);

/* cuda_double_downloads: so many more copies to the host are made, and then none; -1: any number */
typedef void (*cuda_double_downloads_t)(int64_t n);

/* cuda_double_hold: the stream does nothing until it is let go */
typedef void (*cuda_double_hold_t)(void *stream, int on);

#endif
