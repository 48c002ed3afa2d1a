/* SPDX-License-Identifier: Apache-2.0 */
/* bench_exchange.h - a store with keys, arrays for them, and the ways to move those: what W1, W2, W3, W6
 * and W7 differ in is data. Arrays are ordinary aligned memory, as an application would have. */
#ifndef KVS_CLI_BENCH_EXCHANGE_H
#define KVS_CLI_BENCH_EXCHANGE_H

#include "bench.h"

typedef struct bench_shape {
    int32_t ndim;
    int64_t dims[4];
} bench_shape_t;

static inline int64_t bench_shape_n_elems(const bench_shape_t *shape)
{
    int64_t n = 1;

    for (int32_t i = 0; i < shape->ndim; i++) {
        n *= shape->dims[i];
    }
    return n;
}

/* Arrays of ones or zeros, `n_per_key` for each key, one key after the other. */
typedef struct bench_arrays {
    kvs_tensor_t *tensors;
    size_t n;
    size_t *per_key;
    size_t n_keys;
} bench_arrays_t;

/* `shapes`, one a key, must live as long as the arrays. Both release what was made when they fail. */
kvs_status_t bench_arrays_make(const bench_shape_t *shapes, size_t n_keys, size_t n_per_key,
                               float value, bench_arrays_t *ret_arrays);
void bench_arrays_release(bench_arrays_t *arrays);
/* Those of all keys, and those of one. */
kvs_arrays_t bench_arrays_all(const bench_arrays_t *arrays);
kvs_arrays_t bench_arrays_of(const bench_arrays_t *arrays, size_t key);

/* How the keys are given to the store; for each way, push and pull, or pushpull instead of both. */
typedef enum bench_way {
    BENCH_LIST,   /* in one call */
    BENCH_EACH,   /* one by one */
    BENCH_EVENTS, /* one by one, with events and priority -index, then one wait */
} bench_way_t;

typedef struct bench_exchange_spec {
    const bench_shape_t *shapes;           /* one a key */
    size_t n_keys, n_values, n_outs;       /* arrays for each key */
    const kvs_optimizer_spec_t *optimizer; /* NULL: the sum replaces the stored value */
    const kvs_param_t *compression;        /* of gradients */
    size_t n_compression;                  /* parameters of it; 0: none */
} bench_exchange_spec_t;

typedef struct bench_exchange {
    const bench_t *bench;
    bench_exchange_spec_t spec;
    kvs_store_t *store;
    kvs_key_t *keys;
    char *key_texts;
    kvs_event_t **events; /* two a key */
    bench_arrays_t values, outs;
    int keeps_weights; /* 0: only pushpull is there */
    bench_way_t way;
    int pushpull;
} bench_exchange_t;

/* Create a store, its keys (as zeros) and their arrays (values ones). A store that keeps no weights
 * is taken if the run measures pushpull. */
kvs_status_t bench_exchange_open(const bench_t *bench, const bench_exchange_spec_t *spec,
                                 bench_exchange_t *ret_exchange);
kvs_status_t bench_exchange_close(bench_exchange_t *exchange, kvs_status_t status);

/* Measure a way for `seconds`, check that the outs hold the sum, and print `row`. Does nothing for a
 * way that the store has not. */
kvs_status_t bench_exchange_run(bench_exchange_t *exchange, bench_way_t way, int pushpull,
                                double seconds, const bench_row_t *row);

#endif
