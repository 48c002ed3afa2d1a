/* SPDX-License-Identifier: Apache-2.0 */
/* devhost.h - operations of device arrays for backends that work in host memory, from the inside: devhost.c
 * (order, threads, what the core is told), devhost_stage.c (copies, and streams of the program). */
#ifndef KVS_KIT_DEVHOST_H
#define KVS_KIT_DEVHOST_H

#include "devstore.h"

/* Pinned host memory. */
typedef struct kvs_devhost_buffer {
    struct kvs_devhost_buffer *next;
    void *data;
    size_t n_bytes;
} kvs_devhost_buffer_t;

/* A stream of the program, and where it was when the operation was issued. */
typedef struct kvs_devhost_stream {
    kvs_device_t device;
    int64_t number;
    kvs_mark_t mark;
    uint32_t is_of_host; /* of an array in pinned memory, which the host itself reads and writes */
} kvs_devhost_stream_t;

/* A queue that works for the operation, and what it has been given so far. */
typedef struct kvs_devhost_queue {
    kvs_queue_t *queue;
    kvs_mark_t mark;
} kvs_devhost_queue_t;

/* An operation whose arrays on devices have copies in host memory. */
typedef struct kvs_devhost_op {
    kvs_op_t op; /* first: what the backend is given */
    kvs_devhost_t *host;
    kvs_op_t *real;                 /* NULL: the core has been told */
    uint32_t is_consumed;           /* the core knows */
    const kvs_provider_t *provider; /* NULL: there are no arrays on devices */
    kvs_group_t *groups;
    kvs_tensor_t *tensors; /* of the groups, one list behind the other */
    size_t n_tensors;
    size_t *
        copy_of; /* of each out of the real operation, its place among the outs of the group's copy */
    kvs_devhost_stream_t *streams;
    size_t n_streams;
    kvs_devhost_queue_t *queues;
    size_t n_queues;
    kvs_devhost_buffer_t *buffers;
    struct kvs_devhost_op *next; /* in a lane */
} kvs_devhost_op_t;

/* A thread, and the operations that it deals with one after the other. */
typedef struct kvs_devhost_lane {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    kvs_devhost_op_t *first,
        *last; /* guarded by lock, as what follows; the first is being dealt with */
    uint32_t is_running, stops;
    size_t n; /* written under lock; an atomic */
    void (*deal)(kvs_devhost_op_t *op);
} kvs_devhost_lane_t;

struct kvs_devhost {
    void *store;
    kvs_status_t (*run)(void *store, kvs_op_t *op);
    kvs_devhost_lane_t in;  /* waits until values are in host memory, and hands on */
    kvs_devhost_lane_t out; /* waits until outs are on the devices, and tidies up */
    pthread_mutex_t lock;
    kvs_devhost_buffer_t *spare; /* guarded by lock */
};

int kvs_devhost_has_device_arrays(const kvs_op_t *op);
/* Whether the program may go on with all values once the operation is staged: their streams wait. */
int kvs_devhost_streams_guard_values(const kvs_op_t *op);
/* Give the operation's arrays their copies, and queue sums and copies of the values. The op is to be freed
 * also if this fails, but not before its queues are done. */
kvs_status_t kvs_devhost_stage(kvs_devhost_op_t *op);
/* Wait until the values are in host memory. */
kvs_status_t kvs_devhost_wait_values(const kvs_devhost_op_t *op);
/* Queue copies of the outs to the devices and make their streams wait; says whether somebody has to wait
 * for the queues before the operation ends. */
kvs_status_t kvs_devhost_send_outs(kvs_devhost_op_t *op, int *ret_is_awaited);
/* Where the queues of the operation are now, and the wait for that. */
kvs_status_t kvs_devhost_mark_queues(kvs_devhost_op_t *op);
kvs_status_t kvs_devhost_wait_queues(const kvs_devhost_op_t *op);
void kvs_devhost_op_free(kvs_devhost_op_t *op);

#endif
