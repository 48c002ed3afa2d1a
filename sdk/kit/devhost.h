/* SPDX-License-Identifier: Apache-2.0 */
/* devhost.h - operations of device arrays for backends that work in host memory, from the inside: devhost.c
 * (order, what the core is told), devhost_watch.c (waits for devices), devhost_stage.c (values),
 * devhost_outs.c (outs), devhost_queue.c (queues and streams), devhost_pool.c (memory).
 *
 * An operation lives as long as somebody refers to it: who is to end it, and each watch. */
#ifndef KVS_KIT_DEVHOST_H
#define KVS_KIT_DEVHOST_H

#include "devstore.h"

/* Big arrays are copied in chunks of this size, or in so many. */
#define KVS_DEVHOST_CHUNK      ((size_t)4 << 20)
#define KVS_DEVHOST_MAX_CHUNKS 16
#define KVS_DEVHOST_MAX_SUM    128 /* values in one kernel */
/* Pinned memory that is kept for later operations, at most. */
#define KVS_DEVHOST_SPARE_BYTES ((size_t)256 << 20)

typedef struct kvs_devhost_op kvs_devhost_op_t;

/* Memory of an operation: pinned, or of a device. */
typedef struct kvs_devhost_buffer {
    struct kvs_devhost_buffer *next;
    kvs_device_t device;
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

typedef enum kvs_devhost_role {
    KVS_DEVHOST_WORK, /* the device's own queue */
    KVS_DEVHOST_TO_HOST,
    KVS_DEVHOST_FROM_HOST
} kvs_devhost_role_t;

/* A queue that works for the operation. */
typedef struct kvs_devhost_queue {
    kvs_queue_t *queue;
    kvs_device_t device;
    kvs_devhost_role_t role;
    uint32_t is_met; /* it reads or writes arrays of the program, whose streams wait for it */
} kvs_devhost_queue_t;

/* A part of a group's value that is on its way: up to byte `end`. */
typedef struct kvs_devhost_piece {
    size_t group, end;
} kvs_devhost_piece_t;

/* Somebody waits until a place in a queue is reached. */
typedef struct kvs_devhost_watch {
    struct kvs_devhost_watch *next;
    kvs_devhost_op_t *op;
    kvs_device_t device;
    kvs_mark_t mark;
    size_t first_piece, n_pieces; /* what has arrived then */
    uint32_t is_of_outs;
    uint32_t is_late; /* nobody waits any more, but the memory is still in use */
} kvs_devhost_watch_t;

/* An out on a device, and its copy. */
typedef struct kvs_devhost_out {
    size_t index; /* among the outs of the call */
    size_t from;  /* among the tensors of the operation */
    const kvs_tensor_t *to;
    size_t n_bytes;
    uint32_t sent;                       /* a bit for each chunk */
    size_t left[KVS_DEVHOST_MAX_CHUNKS]; /* bytes of each chunk that are not written yet */
} kvs_devhost_out_t;

/* An operation whose arrays on devices have copies in host memory. */
struct kvs_devhost_op {
    kvs_op_t op; /* first: what the backend is given */
    kvs_devhost_t *host;
    kvs_op_t *real;                 /* NULL: it has ended; written under the host's lock */
    const kvs_provider_t *provider; /* NULL: there are no arrays on devices */
    uint32_t is_consumed;           /* the core knows */
    uint32_t is_early;              /* the backend is given it before its values are there */
    kvs_group_t *groups;
    kvs_tensor_t *tensors; /* of the groups, one list behind the other */
    size_t n_tensors;
    size_t *arrived; /* of each group, bytes of its value that are there; atomics */
    void **packed;   /* of each group: NULL, or what its values are packed to, behind a flag */
    kvs_devhost_stream_t *streams;
    size_t n_streams;
    kvs_devhost_queue_t *queues; /* when outs are sent, guarded by the host's out_lock */
    size_t n_queues;
    kvs_devhost_piece_t *pieces;
    size_t n_pieces, n_open, n_open_bytes; /* the last so many belong to no watch yet, */
    size_t open_queue;                     /* and are this queue's */
    kvs_devhost_watch_t *watches;
    size_t n_watches;
    kvs_devhost_buffer_t *buffers;
    kvs_devhost_out_t *outs; /* guarded by the host's out_lock from the first that is sent on */
    size_t n_outs;
    size_t *first_out; /* of each group, its place among `outs`; and at the end how many */
    size_t *out_index; /* of the copies of all groups, where the call has such a list */
    size_t n_places;   /* in that */
    /* from here on guarded by the host's lock: */
    size_t n_refs;
    size_t n_watched; /* the first so many watches are in the list, or were */
    size_t n_values_left, n_outs_left;
    uint32_t is_stuck;  /* a device was waited for too long */
    uint32_t is_ending; /* counted in the host's n_ending */
    int tells;          /* the core is told when no outs are left, with */
    kvs_status_t status;
    char *text;
    int64_t moved_ms;       /* when something last arrived */
    kvs_devhost_op_t *next; /* in the lane */
};

/* A thread, and the operations that it deals with one after the other. */
typedef struct kvs_devhost_lane {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    kvs_devhost_op_t *first,
        *last; /* guarded by lock, as what follows; the first is being dealt with */
    uint32_t is_running, stops;
    size_t n; /* written under lock; an atomic */
} kvs_devhost_lane_t;

struct kvs_devhost {
    kvs_devhost_args_t args;
    kvs_devhost_lane_t in; /* hands operations on, in order */
    uint64_t n_added;      /* to the lane; of the calling thread */
    uint64_t n_dealt;      /* of these; an atomic */
    int is_cancelled;      /* an atomic, set in signal handlers too */
    pthread_mutex_t out_lock;
    pthread_mutex_t lock; /* the last of these to be taken */
    pthread_cond_t changed;
    pthread_t watcher; /* guarded by lock, as is what follows */
    uint32_t is_watched, stops;
    kvs_devhost_watch_t *first, **end;
    kvs_devhost_buffer_t *spare; /* pinned */
    size_t n_spare_bytes;
    size_t n_ending;     /* operations that have ended and whose memory is still in use */
    uint64_t n_returned; /* operations whose memory has come back */
};

/* ---- devhost.c --------------------------------------------------------------------------------------- */

/* One reference less; the last one frees the operation. */
void kvs_devhost_drop(kvs_devhost_op_t *op);
/* Drop the operation, and then tell the core that `real` has ended, with this thread's text. Once that is
 * told the store may be closed. */
void kvs_devhost_drop_and_tell(kvs_devhost_op_t *op, kvs_op_t *real, kvs_status_t status);
/* Whether a backend's operation is one of ours. */
int kvs_devhost_is_staged(const kvs_op_t *op);

/* ---- devhost_watch.c --------------------------------------------------------------------------------- */

kvs_status_t kvs_devhost_start_watching(kvs_devhost_t *host);
/* Wait for what is still on its way, but not for ever. */
void kvs_devhost_stop_watching(kvs_devhost_t *host);
/* Watch the marks that the operation has taken since. With `tells` the watches have the caller's reference:
 * when no outs are left the core is told of the end. */
void kvs_devhost_watch(kvs_devhost_op_t *op, int tells);
/* The operation has ended, or is stuck. */
void kvs_devhost_note_ending_locked(kvs_devhost_op_t *op);
/* Operations whose memory has come back so far. */
uint64_t kvs_devhost_n_returned(kvs_devhost_t *host);
/* There was no memory, asked for after `seen` had come back: wait until more has, or nothing that has ended
 * keeps any. Gives whether more has. */
int kvs_devhost_await_memory(kvs_devhost_t *host, uint64_t seen);
/* Wait until the values are in host memory, or the outs on their devices; or for the failure of that. */
kvs_status_t kvs_devhost_await_values(kvs_devhost_op_t *op);
kvs_status_t kvs_devhost_await_outs(kvs_devhost_op_t *op);
/* The failure so far; and have this one, with this thread's text. */
kvs_status_t kvs_devhost_failure(kvs_devhost_op_t *op);
void kvs_devhost_fail(kvs_devhost_op_t *op, kvs_status_t status);

/* ---- devhost_stage.c --------------------------------------------------------------------------------- */

int kvs_devhost_has_device_arrays(const kvs_op_t *op);
/* Whether the program may go on with all values once the operation is staged: their streams wait. */
int kvs_devhost_streams_guard_values(const kvs_op_t *op);
/* Give the operation's arrays their copies, queue sums and copies of the values, and watch these. */
kvs_status_t kvs_devhost_stage(kvs_devhost_op_t *op);

/* The device on which values that are all on devices are summed. */
static inline kvs_device_t kvs_devhost_home_of(const kvs_tensor_t *values)
{
    return (kvs_device_t){KVS_DEVICE_CUDA, values[0].device.id};
}

/* Queue the sum of the group's values, in list order; of one value it is that. */
kvs_status_t kvs_devhost_add_up(kvs_devhost_op_t *op, const kvs_group_t *group,
                                kvs_devhost_queue_t **ret_queue, const void **ret_sum);
/* Copy an array of the group to pinned memory, `to->data`; `after` says what has to be reached before, or is
 * NULL: the array is the program's. */
kvs_status_t kvs_devhost_download(kvs_devhost_op_t *op, size_t group, kvs_device_t device,
                                  const void *from, size_t n_bytes, const kvs_mark_t *after,
                                  kvs_tensor_t *to);

/* ---- devhost_pack.c ---------------------------------------------------------------------------------- */

/* Before a push is staged: residuals are where its values will be packed. */
kvs_status_t kvs_devhost_settle_residuals(kvs_devhost_t *host, const kvs_op_t *op);
/* Whether the group's values are packed on their device. */
int kvs_devhost_packs(kvs_devhost_op_t *op, size_t group, kvs_devhost_packing_t *ret_packing);
kvs_status_t kvs_devhost_stage_packed(kvs_devhost_op_t *op, size_t group,
                                      const kvs_devhost_packing_t *packing);

/* ---- devhost_outs.c ---------------------------------------------------------------------------------- */

kvs_status_t kvs_devhost_stage_outs(kvs_devhost_op_t *op, size_t group);
/* The backend is done with the outs: queue what is left to be copied, unless it `failed`; make the outs'
 * streams wait and watch the copies. Says whether somebody has to wait before the operation ends. */
kvs_status_t kvs_devhost_send_outs(kvs_devhost_op_t *op, int failed, int *ret_is_awaited);

/* ---- devhost_queue.c --------------------------------------------------------------------------------- */

/* The array's device is there; remember where its stream is. */
kvs_status_t kvs_devhost_follow(kvs_devhost_op_t *op, const kvs_tensor_t *tensor);
/* A queue of the device. At its first use it waits for all streams of the operation. */
kvs_status_t kvs_devhost_use_queue(kvs_devhost_op_t *op, kvs_device_t device,
                                   kvs_devhost_role_t role, kvs_devhost_queue_t **ret_queue);
/* Make the program's streams wait for the queues that meet its arrays: those that bring outs, or others. The
 * per-thread stream can be reached by its own thread only. */
kvs_status_t kvs_devhost_release_streams(kvs_devhost_op_t *op, int of_outs, int is_own_thread);
/* Bytes of a chunk, and how many there are, of n_bytes. */
size_t kvs_devhost_chunk_bytes(size_t n_bytes);
size_t kvs_devhost_n_chunks(size_t n_bytes);

/* ---- devhost_pool.c ---------------------------------------------------------------------------------- */

static inline kvs_device_t kvs_devhost_pinned_of(kvs_device_t device)
{
    return (kvs_device_t){KVS_DEVICE_CUDA_HOST, device.id};
}

/* Memory of the operation: pinned for copies of arrays of `device`, or on it. */
kvs_status_t kvs_devhost_take_pinned(kvs_devhost_op_t *op, kvs_device_t device, size_t n_bytes,
                                     void **ret_data);
kvs_status_t kvs_devhost_take_scratch(kvs_devhost_op_t *op, kvs_device_t device, size_t n_bytes,
                                      void **ret_data);
/* Nothing is done with the operation's memory any more. */
void kvs_devhost_give_back(kvs_devhost_op_t *op);
void kvs_devhost_free_spare(kvs_devhost_t *host);

#endif
