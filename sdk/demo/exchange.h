/* SPDX-License-Identifier: Apache-2.0 */
/* exchange.h - all that this program has to do with a store; begin reading here.
 *
 * Every device has a copy of the weights and computes gradients from its part of a batch. The store
 * sums the gradients of all devices and updates its weights by them, which it gives back to every
 * device; or it gives the sums back, and the weights are updated here, by the same optimizer. Keys are
 * the names of the model's arrays. One thread uses an exchange at a time. */
#ifndef DEMO_EXCHANGE_H
#define DEMO_EXCHANGE_H

#include "network.h"

#include <kvstore/kvstore.h>

typedef struct exchange exchange_t;

/* Where weights are updated; by default in the store, if it can. Both give the same bits. */
typedef enum update_place { UPDATE_DEFAULT, UPDATE_IN_STORE, UPDATE_IN_WORKER } update_place_t;

typedef struct compression_settings {
    const char *type; /* NULL: none */
    double threshold;
} compression_settings_t;

/* Create the store `backend`, with its option allow_cpu if that is asked for, and the optimizer. Errors are
 * the library's. Ended by exchange_close. */
kvs_status_t exchange_open(const char *backend, int allow_cpu, update_place_t place,
                           const kvs_optimizer_spec_t *optimizer,
                           const compression_settings_t *compression, exchange_t **ret_exchange);
/* Returns the first error of the store that nobody has been told. NULL does nothing. */
kvs_status_t exchange_close(exchange_t *exchange);

/* Which of how many processes this is: 0 of 1 if the store has one only. */
int exchange_rank(const exchange_t *exchange);
int exchange_n_workers(const exchange_t *exchange);
int exchange_updates_here(const exchange_t *exchange); /* 1: in this process, not in the store */

/* Before the first update, with networks of one model, one a device, which must outlive the exchange: the
 * weights of the first network, in the first process, become those of the store and of every network. With
 * KVS_DEVICE_CUDA the store sees copies of their arrays on GPUs, one after the other, beginning behind those of
 * the processes before this one on the host, and again with the first where there are too few. */
kvs_status_t exchange_begin(exchange_t *exchange, network_t *const *networks, size_t n_networks,
                            int32_t device_type);
/* Gradients of every network in, new weights of every network out. */
kvs_status_t exchange_update(exchange_t *exchange);

/* The optimizer and its states in a file, whichever place they are in. Saved by the first process, when
 * nothing is under way; loaded by all of them, after exchange_begin: the optimizer that was saved then
 * takes the place of the one given to exchange_open. */
kvs_status_t exchange_save_states(exchange_t *exchange, const char *path);
kvs_status_t exchange_load_states(exchange_t *exchange, const char *path);

kvs_status_t exchange_stats(exchange_t *exchange, kvs_stats_t *ret_stats);

#endif
