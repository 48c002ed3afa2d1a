/* SPDX-License-Identifier: Apache-2.0 */
/* op.h - one call on a store as the core sees it: checked, grouped by key, ready for the engine.
 *
 * An op is one block of memory: on the stack of its call, or, when it may outlive the call (an
 * event, an asynchronous backend), on the heap and counted. */
#ifndef KVSI_OP_H
#define KVSI_OP_H

#include "pool.h"
#include "store.h"

typedef struct kvsi_op kvsi_op_t;

/* The arguments of a call, as the user gave them. */
typedef struct kvsi_request {
    kvs_verb_t verb;
    const kvs_key_t *keys;
    size_t n_keys;
    const kvs_arrays_t *values, *outs,
        *row_ids; /* NULL: the verb has none; pushpull: outs in place */
    const kvs_call_t *call;
} kvsi_request_t;

/* What the engine runs at a time: groups [first, first + n) of an op. */
typedef struct kvsi_task {
    kvsi_work_t work; /* first */
    kvsi_op_t *op;
    size_t first_group, n_groups;
    kvsi_place_t *places; /* one a group, and one more for the updater's lane */
    size_t n_places;
    size_t n_waits;         /* lanes it does not own yet; guarded by the store's lock */
    struct kvsi_task *next; /* in the op's list of tasks for the caller to run */
} kvsi_task_t;

/* What the user holds of an op; everything guarded by the store's lock, `done` also read without. */
struct kvs_event {
    atomic_bool done; /* release: who sees it sees the outs and the status */
    bool freed;       /* the user has no handle (any more) */
    bool told;        /* the user knows the status */
    kvs_status_t status;
    char *text; /* of a failure; NULL where there was no memory for it */
    kvs_event_callback_t callback;
    void *callback_arg;
};

struct kvsi_op {
    kvs_op_t pub; /* what the backend sees; first */
    struct kvs_event event;
    kvs_store_t *store;
    atomic_size_t refs;
    bool on_heap;
    bool detached;       /* nobody waits in the call: it runs on the pool, or the backend has it */
    bool uses_updater;   /* it goes through the updater's lane */
    bool serial;         /* its groups run one after the other, as one task */
    bool late;           /* those before it may have failed after it was resolved */
    bool consumed;       /* asynchronous: guarded by the store's lock */
    bool calls_back;     /* at its end the event had a callback; set under lock, then fixed */
    int log_level;       /* of its error at its end, or 0; set under lock, then fixed */
    int64_t deadline_ns; /* of the wait for its arrays; set once */
    size_t first_error;  /* list index of the group whose error `event` carries; guarded by lock */
    kvs_tensor_t *tensors; /* values, outs and row ids, normalised */
    size_t n_values, n_outs, n_row_ids;
    kvs_tensor_t *regrouped; /* of calls in which a key stands twice; its own memory */
    size_t *out_index;    /* of calls whose arrays share memory, or in which a key stands twice */
    size_t *group_of_key; /* by place in the list */
    bool *made;           /* by group: this op brings the key to life */
    uint64_t bytes_read, bytes_written; /* row-sparse outs as far as there is room */
    bool has_rows;                      /* a value or an out is row-sparse */
    kvsi_task_t *tasks;
    kvsi_place_t *places;
    size_t n_tasks;
    size_t n_left;                   /* tasks that have not ended; guarded by lock */
    kvsi_task_t *ready, **ready_end; /* tasks the caller runs itself; guarded by lock */
    kvsi_op_t *older, *newer;        /* among the store's pending ones; guarded by lock */
    kvsi_op_t *next;                 /* in the store's debts */
};

/* The op's memory that fits on a stack. */
#define KVSI_OP_STACK_BYTES 4096

/* Check everything about the arguments that needs no look at the store's keys. */
kvs_status_t kvsi_request_check(const kvsi_request_t *request);
/* Bytes that kvsi_op_make needs for a checked request. */
size_t kvsi_op_bytes(const kvs_store_t *store, const kvsi_request_t *request, bool on_heap);
/* Make an op in `memory`, copying the tensors; on the heap, where it may outlive its call, also
 * their shapes, and holding what they were taken from. On failure the memory is the caller's. */
kvs_status_t kvsi_op_make(kvs_store_t *store, const kvsi_request_t *request, void *memory,
                          bool on_heap, kvsi_op_t **ret_op);
/* Find or make the keys, group the list by key, check shapes and dtypes. Store's lock held. On
 * failure nothing has changed. */
kvs_status_t kvsi_op_resolve_locked(kvsi_op_t *op, const kvsi_request_t *request);
/* Undo what resolve did to keys: the operation won't be carried out. */
void kvsi_op_revert_locked(kvsi_op_t *op);
/* Set KVS_OP_SHARED where arrays of the call share memory in a way that order decides. */
kvs_status_t kvsi_op_find_shared(kvsi_op_t *op);
/* Give up the hold on what the arrays were taken from: the op has ended. */
void kvsi_op_release_arrays(kvsi_op_t *op);
/* Free what an op holds, and itself if it is on the heap. */
void kvsi_op_release(kvsi_op_t *op);

static inline void kvsi_op_ref(kvsi_op_t *op)
{
    atomic_fetch_add_explicit(&op->refs, 1, memory_order_relaxed);
}
void kvsi_op_unref(kvsi_op_t *op);

static inline kvsi_op_t *kvsi_op_of(kvs_event_t *event)
{
    return (kvsi_op_t *)((char *)event - offsetof(kvsi_op_t, event));
}

const char *kvsi_verb_name(kvs_verb_t verb);

/* Does a value have the shape and dtype of a key? ERR_SHAPE, ERR_DTYPE; ERR_ARGUMENT: it is no array. */
kvs_status_t kvsi_op_check_layout(const char *verb, const kvs_key_entry_t *key,
                                  const kvs_tensor_t *value, size_t index);

#endif
