/* SPDX-License-Identifier: Apache-2.0 */
/* hvd_store.h - a store of a job of several workers: what an operation asks of the others for each of its
 * keys, one exchange at a time on a key, and when the core is told. */
#ifndef HVD_STORE_H
#define HVD_STORE_H

#include "hvd_gather.h"
#include "hvd_device.h"
#include "hvd_quick.h"
#include "hvd_turn.h"

typedef struct hvd_store {
    /* Its lock guards counts too, while operations are pending, and gather_keys. */
    hvd_member_t member;
    /* fixed once it is open */
    hvd_quick_t *quick;      /* NULL: nothing goes that way */
    kvs_devstore_t streams;  /* of it only the list of marks, and the lock, are in use */
    atomic_size_t n_pending; /* operations; relaxed: only of this process's own calls */
    /* How often all have joined: counts of keys begin anew. Relaxed: what another thread asks for during a
     * join has no order with it. */
    _Atomic uint32_t epoch;
    hvd_keys_t gather_keys; /* those of allgather, which are others than the member's */
} hvd_store_t;

/* What the core keeps for each of its entries. */
typedef struct hvd_entry {
    hvd_key_t *key; /* NULL: not looked for yet */
} hvd_entry_t;

/* One key of an operation: the state of its group. */
typedef struct hvd_item {
    hvd_turn_t turn;   /* first */
    kvs_tensor_t held; /* values that were summed when the operation was issued; data NULL: none */
    hvd_rows_t rows;   /* the same for row-sparse ones */
} hvd_item_t;

kvs_status_t hvd_store_open(hvd_store_t *store, hvd_job_t *job, const kvs_open_args_t *args);
kvs_status_t hvd_store_close(hvd_store_t *store, int64_t timeout_ms);
/* pushpull and broadcast. */
kvs_status_t hvd_store_run(hvd_store_t *store, kvs_op_t *op);
/* The same of an operation that hvd_store_takes: all its arrays are on devices. */
bool hvd_store_takes(const hvd_store_t *store, const kvs_op_t *op);
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
