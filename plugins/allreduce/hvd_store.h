/* SPDX-License-Identifier: Apache-2.0 */
/* hvd_store.h - a store of a job of several workers: what an operation asks of the others for each of its
 * keys, one exchange at a time on a key, and when the core is told. */
#ifndef HVD_STORE_H
#define HVD_STORE_H

#include "hvd_gather.h"
#include "hvd_keys.h"
#include "hvd_device.h"
#include "hvd_quick.h"

#include <pthread.h>
#include <stdatomic.h>

typedef struct hvd_op hvd_op_t;

typedef struct hvd_store {
    /* fixed once it is open */
    hvd_job_t *job;
    hvd_quick_t *quick;     /* NULL: nothing goes that way */
    hvd_nccl_t *nccl;       /* NULL: arrays on devices come as copies in host memory */
    kvs_devstore_t streams; /* of it only the list of marks, and the lock, are in use */
    kvs_net_store_t *net;
    uint32_t number;
    int rank, n_workers;
    int64_t timeout_ms, warning_ms;
    atomic_size_t n_pending; /* operations; relaxed: only of this process's own calls */
    atomic_bool cancelled;
    _Atomic uint32_t
        epoch;       /* how often all have joined: counts of keys begin anew. Relaxed: what another
                             * thread asks for during a join has no order with it */
    hvd_keys_t keys; /* of the thread that issues operations */
    pthread_mutex_t
        lock; /* guards the keys' queues and, while operations are pending, counts; and */
    hvd_keys_t gather_keys; /* those of allgather, which are others */
} hvd_store_t;

/* What the core keeps for each of its entries. */
typedef struct hvd_entry {
    hvd_key_t *key; /* NULL: not looked for yet */
} hvd_entry_t;

/* One key of an operation: the state of its group. */
struct hvd_item {
    hvd_pending_t pending; /* first */
    hvd_op_t *op;
    const kvs_group_t *group;
    hvd_key_t *key;
    hvd_item_t *next;  /* on its key */
    kvs_tensor_t held; /* values that were summed when the operation was issued; data NULL: none */
    hvd_rows_t rows;   /* the same for row-sparse ones */
};

kvs_status_t hvd_store_open(hvd_store_t *store, hvd_job_t *job, const kvs_open_args_t *args);
kvs_status_t hvd_store_close(hvd_store_t *store, int64_t timeout_ms);
/* pushpull and broadcast. */
kvs_status_t hvd_store_run(hvd_store_t *store, kvs_op_t *op);
/* The same of an operation that hvd_store_takes: all its arrays are on devices. */
bool hvd_store_takes(const hvd_store_t *store, const kvs_op_t *op);
kvs_status_t hvd_store_barrier(hvd_store_t *store);
/* Calls that wait return ERR_CANCELLED. Safe in a signal handler. */
void hvd_store_cancel(hvd_store_t *store);
kvs_status_t hvd_store_join(hvd_store_t *store, int *ret_last_rank);
kvs_status_t hvd_store_allgather(hvd_store_t *store, const kvs_key_t *key,
                                 const kvs_tensor_t *value, const kvs_tensor_t *out);

/* The same for a job of one: in this process. */
kvs_status_t hvd_alone_run(kvs_op_t *op);
kvs_status_t hvd_alone_allgather(const kvs_tensor_t *value, const kvs_tensor_t *out);
/* What the core checks for its own operations. */
kvs_status_t hvd_check_gather(const kvs_key_t *key, const kvs_tensor_t *value,
                              const kvs_tensor_t *out);

#endif
