/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_lane.h - a lane is a stream whose places can be named: our queue of a device, or a stream of the
 * program.
 *
 * A mark is a number; its event is one of a ring, and stands for a later place once the ring has come
 * round: waiting for more than was asked is never wrong, since work is queued in order and nothing
 * queued waits for what is not yet. So marks are plain values that nobody frees. */
#ifndef CUDA_LANE_H
#define CUDA_LANE_H

#include "cuda_driver.h"

#include <pthread.h>

#define CUDA_RING 64 /* events of a lane */

struct cuda_device;

typedef struct cuda_lane {
    struct cuda_device *device;
    CUstream stream;
    uint64_t thread; /* of a per-thread default stream: whose; else 0 */
    int is_ours;     /* nobody else puts work there */
    pthread_mutex_t lock;
    CUevent events[CUDA_RING];
    uint64_t n_marks;   /* recorded; guarded by lock */
    uint64_t n_reached; /* known to be; guarded by lock */
    int clean;          /* nothing was queued since the last mark; guarded by lock */
    int is_lent;        /* to a library, which queues when it likes; guarded by lock */
    struct cuda_lane *next;
} cuda_lane_t;

/* Make the lane of an existing stream. */
void cuda_lane_init(cuda_lane_t *lane, struct cuda_device *device, CUstream stream);
/* Something has been queued: a further mark needs an event of its own. Said before, it would be forgotten
 * by a mark that another thread makes in between. */
void cuda_lane_touch(cuda_lane_t *lane);
/* Its stream, for a library that queues work itself, perhaps later and on a thread of its own. */
CUstream cuda_lane_lend(cuda_lane_t *lane);
/* The context of the lane's device is current. */
kvs_status_t cuda_lane_mark(cuda_lane_t *lane, kvs_mark_t *ret_mark);
/* Let a stream of `device`, whose context is current, wait for the mark. */
kvs_status_t cuda_stream_wait_mark(struct cuda_device *device, CUstream stream,
                                   const kvs_mark_t *mark);
kvs_status_t cuda_host_wait(const kvs_mark_t *mark, int64_t timeout_ms);

/* The lane of a stream of the program; 2 is the calling thread's. The device's context is current. */
kvs_status_t cuda_lane_of_stream(struct cuda_device *device, int64_t stream,
                                 cuda_lane_t **ret_lane);

#endif
