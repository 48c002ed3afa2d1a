/* SPDX-License-Identifier: Apache-2.0 */
/* nccl_exchange.h - exchanges over NCCL, issued one after the other, and who watches over them. */
#ifndef NCCL_EXCHANGE_H
#define NCCL_EXCHANGE_H

#include "nccl_set.h"

/* An exchange of a key. In a world the devices are this process's, ascending, the root counts devices of
 * all, and all members call with the same items in the same order. */
typedef struct nccl_item {
    kvs_collective_item_t at;
    const nccl_world_t *world; /* NULL: this process alone */
    int reduce;                /* KVS_REDUCE_SUM, _MIN or _MAX */
} nccl_item_t;

/* Queue all items, in one group of NCCL, and return. What fails later is told by settle, or, to an operation
 * that has ended by then, at the next exchange over the same devices; in a world also to all others. */
kvs_status_t nccl_exchange(const nccl_item_t *items, size_t n_items, int64_t timeout_ms,
                           uint64_t *ret_ticket);
kvs_status_t nccl_settle(uint64_t ticket);

/* A store more or less; with the last one the communicators of this process alone end. */
void nccl_exchange_open(void);
void nccl_exchange_close(int64_t timeout_ms);
/* A world ends; `is_over`: not all of it is there any more. 0: aborts still go on: `peers` must stay. */
int nccl_exchange_close_world(const nccl_peers_t *peers, int is_over, int64_t timeout_ms);

#endif
