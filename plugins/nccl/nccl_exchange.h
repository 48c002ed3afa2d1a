/* SPDX-License-Identifier: Apache-2.0 */
/* nccl_exchange.h - exchanges over NCCL, issued one after the other, and who watches over them. */
#ifndef NCCL_EXCHANGE_H
#define NCCL_EXCHANGE_H

#include "nccl_set.h"

/* Members of kvs_collective_t. What fails later than the exchange is told by settle, or, to an operation
 * that has ended by then, at the next exchange over the same devices. */
kvs_status_t nccl_exchange(kvs_devstore_t *store, const kvs_collective_item_t *items,
                           size_t n_items, uint64_t *ret_ticket);
kvs_status_t nccl_settle(kvs_devstore_t *store, uint64_t ticket);

/* The time-out of a store in milliseconds; 0: for ever. */
int64_t nccl_timeout_ms(const kvs_devstore_t *store);

/* A store more or less; with the last one the communicators end. */
void nccl_exchange_open(void);
void nccl_exchange_close(int64_t timeout_ms);

#endif
