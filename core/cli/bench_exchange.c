/* SPDX-License-Identifier: Apache-2.0 */
/* bench_exchange.c - see bench_exchange.h. The measured part is issue(): nothing but calls of the
 * library. */
#include "bench_exchange.h"

#include <stdio.h>
#include <stdlib.h>

#define KEY_TEXT_BYTES 8

/* ---- Opening and closing ----------------------------------------------------------------------- */

static kvs_status_t make_keys(bench_exchange_t *exchange)
{
    size_t n = exchange->spec.n_keys;

    exchange->keys = calloc(n, sizeof(*exchange->keys));
    exchange->key_texts = calloc(n, KEY_TEXT_BYTES);
    exchange->events = calloc(2 * n, sizeof(*exchange->events));
    if (exchange->keys == NULL || exchange->key_texts == NULL || exchange->events == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for %zu keys", n);
    }
    for (size_t i = 0; i < n; i++) {
        char *text = exchange->key_texts + i * KEY_TEXT_BYTES;

        snprintf(text, KEY_TEXT_BYTES, "k%u", (unsigned)i % 100000);
        exchange->keys[i] = kvs_key_str(text);
    }
    return KVS_OK;
}

static kvs_status_t init_keys(bench_exchange_t *exchange)
{
    const bench_exchange_spec_t *spec = &exchange->spec;
    bench_arrays_t zeros = {0};
    kvs_status_t status = bench_arrays_make(spec->shapes, spec->n_keys, 1, 0, &zeros);

    if (status == KVS_OK) {
        kvs_arrays_t values = bench_arrays_all(&zeros);

        status = kvs_store_init(exchange->store, exchange->keys, spec->n_keys, &values, NULL);
    }
    bench_arrays_release(&zeros);
    exchange->keeps_weights = status == KVS_OK;
    return status == KVS_ERR_NOT_IMPLEMENTED && exchange->bench->pushpull ? KVS_OK : status;
}

static kvs_status_t make_arrays(bench_exchange_t *exchange)
{
    const bench_exchange_spec_t *spec = &exchange->spec;
    kvs_status_t status =
        bench_arrays_make(spec->shapes, spec->n_keys, spec->n_values, 1, &exchange->values);

    return status != KVS_OK
               ? status
               : bench_arrays_make(spec->shapes, spec->n_keys, spec->n_outs, 0, &exchange->outs);
}

kvs_status_t bench_exchange_open(const bench_t *bench, const bench_exchange_spec_t *spec,
                                 bench_exchange_t *ret_exchange)
{
    bench_exchange_t exchange = {.bench = bench, .spec = *spec};
    kvs_status_t status = kvs_store_create(bench->backend, NULL, 0, &exchange.store);

    if (status == KVS_OK) {
        status = make_keys(&exchange);
    }
    if (status == KVS_OK) {
        status = init_keys(&exchange);
    }
    if (status == KVS_OK && spec->optimizer != NULL) {
        status = kvs_store_set_optimizer(exchange.store, spec->optimizer);
    }
    if (status == KVS_OK && spec->n_compression > 0) {
        status = kvs_store_set_gradient_compression(exchange.store, spec->compression,
                                                    spec->n_compression);
    }
    if (status == KVS_OK) {
        status = make_arrays(&exchange);
    }
    if (status != KVS_OK) {
        return bench_exchange_close(&exchange, status);
    }
    *ret_exchange = exchange;
    return KVS_OK;
}

kvs_status_t bench_exchange_close(bench_exchange_t *exchange, kvs_status_t status)
{
    if (status == KVS_OK) {
        status = kvs_store_close(exchange->store);
    } else {
        (void)kvs_store_close(exchange->store); /* the first error is the one to tell */
    }
    bench_arrays_release(&exchange->values);
    bench_arrays_release(&exchange->outs);
    free(exchange->events);
    free(exchange->key_texts);
    free(exchange->keys);
    return status;
}

/* ---- The measured part ------------------------------------------------------------------------- */

/* Push and pull, or pushpull, of the keys from `first` on. `events`: NULL, or room for two. */
static kvs_status_t issue(bench_exchange_t *exchange, const kvs_key_t *keys, size_t n_keys,
                          const kvs_arrays_t *values, const kvs_arrays_t *outs, int32_t priority,
                          kvs_event_t **events)
{
    kvs_call_t first = KVS_CALL_INIT, second = KVS_CALL_INIT;
    kvs_status_t status;

    first.priority = second.priority = priority;
    if (events != NULL) {
        first.ret_event = &events[0];
        second.ret_event = &events[1];
    }
    if (exchange->pushpull) {
        return kvs_store_pushpull(exchange->store, keys, n_keys, values, outs, &first);
    }
    status = kvs_store_push(exchange->store, keys, n_keys, values, &first);
    if (status == KVS_OK && outs->n > 0) {
        status = kvs_store_pull(exchange->store, keys, n_keys, outs, &second);
    }
    return status;
}

static kvs_status_t issue_list(bench_exchange_t *exchange)
{
    kvs_arrays_t values = bench_arrays_all(&exchange->values);
    kvs_arrays_t outs = bench_arrays_all(&exchange->outs);

    return issue(exchange, exchange->keys, exchange->spec.n_keys, &values, &outs, 0, NULL);
}

static kvs_status_t issue_each(bench_exchange_t *exchange)
{
    kvs_status_t status = KVS_OK;

    for (size_t i = 0; i < exchange->spec.n_keys && status == KVS_OK; i++) {
        kvs_arrays_t values = bench_arrays_of(&exchange->values, i);
        kvs_arrays_t outs = bench_arrays_of(&exchange->outs, i);
        int events = exchange->way == BENCH_EVENTS;

        status = issue(exchange, &exchange->keys[i], 1, &values, &outs, events ? -(int32_t)i : 0,
                       events ? &exchange->events[2 * i] : NULL);
    }
    return status;
}

/* Wait for everything, and hear what every event has to say. */
static kvs_status_t wait_for_events(bench_exchange_t *exchange, kvs_status_t status)
{
    kvs_status_t waited = kvs_store_wait_all(exchange->store, -1);

    for (size_t i = 0; i < 2 * exchange->spec.n_keys; i++) {
        kvs_event_t *event = exchange->events[i];

        if (event != NULL && status == KVS_OK && waited == KVS_OK) {
            status = kvs_event_wait(event, 0);
        }
        kvs_event_free(event);
        exchange->events[i] = NULL;
    }
    return status != KVS_OK ? status : waited;
}

static kvs_status_t issue_all(void *arg)
{
    bench_exchange_t *exchange = arg;

    switch (exchange->way) {
    case BENCH_LIST:
        return issue_list(exchange);
    case BENCH_EACH:
        return issue_each(exchange);
    case BENCH_EVENTS:
        return wait_for_events(exchange, issue_each(exchange));
    }
    return KVS_ERR_INTERNAL;
}

/* ---- Its result -------------------------------------------------------------------------------- */

/* Values are ones: without an optimizer every out holds their number, at both ends and between. */
static kvs_status_t check_outs(const bench_exchange_t *exchange, const char *workload)
{
    int n_ranks = exchange->bench->n_ranks;
    float sum = (float)exchange->spec.n_values * (float)(n_ranks > 0 ? n_ranks : 1);

    for (size_t i = 0; i < exchange->outs.n && exchange->spec.optimizer == NULL; i++) {
        size_t key = i / exchange->spec.n_outs;
        int64_t n = bench_shape_n_elems(&exchange->spec.shapes[key]);
        const float *out = exchange->outs.tensors[i].data;

        if (out[0] != sum || out[n / 2] != sum || out[n - 1] != sum) {
            return kvs_fail(KVS_ERR_INTERNAL,
                            "%s: an out of key %s holds %g, %g, %g, not the sum %g", workload,
                            exchange->keys[key].str, out[0], out[n / 2], out[n - 1], sum);
        }
    }
    return KVS_OK;
}

kvs_status_t bench_exchange_run(bench_exchange_t *exchange, bench_way_t way, int pushpull,
                                double seconds, const bench_row_t *row)
{
    bench_times_t times;
    kvs_status_t status;

    if (!pushpull && !exchange->keeps_weights) {
        return KVS_OK;
    }
    exchange->way = way;
    exchange->pushpull = pushpull;
    status = bench_measure(exchange->bench, seconds, issue_all, exchange, &times);
    if (status == KVS_OK) {
        status = check_outs(exchange, row->workload);
    }
    if (status == KVS_OK) {
        bench_print_row(exchange->bench, row, &times);
    }
    return status;
}
