/* SPDX-License-Identifier: Apache-2.0 */
/* exchange.h - all that this program has to do with a store; begin reading here.
 *
 * Every device has a copy of the weights and computes gradients from its part of a batch. The store
 * sums the gradients of all devices, updates its weights by them, and gives these back to every
 * device. Keys are the names of the model's arrays. One thread uses an exchange at a time. */
#ifndef DEMO_EXCHANGE_H
#define DEMO_EXCHANGE_H

#include "network.h"

#include <kvstore/kvstore.h>

typedef struct exchange exchange_t;

typedef struct optimizer_settings {
    double learning_rate, momentum, wd;
    double rescale_grad; /* 1 / images in a batch: gradients are sums over them */
} optimizer_settings_t;

typedef struct compression_settings {
    const char *type; /* NULL: none */
    double threshold;
} compression_settings_t;

/* Create the store `backend` with the optimizer sgd. Errors are the store's. Ended by exchange_close. */
kvs_status_t exchange_open(const char *backend, const optimizer_settings_t *settings,
                           const compression_settings_t *compression, exchange_t **ret_exchange);
/* Returns the first error of the store that nobody has been told. NULL does nothing. */
kvs_status_t exchange_close(exchange_t *exchange);

/* Which of how many processes this is: 0 of 1 if the store has one only. */
int exchange_rank(const exchange_t *exchange);
int exchange_n_workers(const exchange_t *exchange);

/* Before the first update, with networks of one model, one a device, which must outlive the exchange: the
 * weights of the first network, in the first process, become those of the store and of every network. */
kvs_status_t exchange_begin(exchange_t *exchange, network_t *const *networks, size_t n_networks);
/* Gradients of every network in, new weights of every network out. */
kvs_status_t exchange_update(exchange_t *exchange);

kvs_status_t exchange_stats(exchange_t *exchange, kvs_stats_t *ret_stats);

#endif
