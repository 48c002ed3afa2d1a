/* SPDX-License-Identifier: Apache-2.0 */
/* exchange.c - one call serves all keys and all devices: the arrays of a call stand key by key, and
 * for each key device by device. The lists are made once, as the networks' arrays never move. A store that
 * takes one key a call gets a call for each, all at once, the first keys first. Networks compute on the
 * host: where the store is to see GPUs, gradients are copied there before a call, what it gives after it. */
#include "exchange.h"

#include "mirror.h"

#include <stdlib.h>
#include <string.h>

struct exchange {
    kvs_store_t *store;
    kvs_worker_optimizer_t *optimizer; /* NULL: the store updates */
    int rank, n_workers;
    int one_by_one; /* the store takes one key a call */
    const model_t *model;
    size_t n_networks;
    kvs_key_t keys[MODEL_MAX_ARRAYS];
    size_t per_key[MODEL_MAX_ARRAYS];    /* n_networks, for every key */
    kvs_tensor_t *host_weights;          /* [key][network]: the arrays of the networks */
    kvs_tensor_t *host_gradients;        /* [key][network] */
    int on_gpus;                         /* the store sees mirrors of them, not themselves */
    kvs_tensor_t *weights;               /* [key][network]: what the store sees */
    kvs_tensor_t *gradients;             /* [key][network] */
    kvs_tensor_t sums[MODEL_MAX_ARRAYS]; /* the gradients of the first network: where sums go */
};

static kvs_tensor_t tensor_of(const model_array_t *array, float *data, size_t device)
{
    return (kvs_tensor_t){.data = data,
                          .device = {KVS_DEVICE_CPU, (int32_t)device},
                          .ndim = array->ndim,
                          .dtype = kvs_dtype(KVS_DTYPE_float32),
                          .shape = array->shape};
}

static size_t n_arrays(const exchange_t *exchange)
{
    return exchange->model->n_arrays * exchange->n_networks;
}

static kvs_status_t make_lists(exchange_t *exchange, network_t *const *networks)
{
    const model_t *model = exchange->model;
    size_t n_networks = exchange->n_networks;

    exchange->host_weights = calloc(n_arrays(exchange), sizeof(kvs_tensor_t));
    exchange->host_gradients = calloc(n_arrays(exchange), sizeof(kvs_tensor_t));
    if (exchange->host_weights == NULL || exchange->host_gradients == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for the lists of arrays");
    }
    for (size_t a = 0; a < model->n_arrays; a++) {
        const model_array_t *array = &model->arrays[a];

        exchange->keys[a] = kvs_key_str(array->name);
        exchange->per_key[a] = n_networks;
        for (size_t d = 0; d < n_networks; d++) {
            size_t i = a * n_networks + d;

            exchange->host_weights[i] = tensor_of(array, networks[d]->weights[a], d);
            exchange->host_gradients[i] = tensor_of(array, networks[d]->gradients[a], d);
        }
    }
    return KVS_OK;
}

/* Make mirrors on GPUs, other ones than other processes of this host if there are enough. */
static kvs_status_t make_mirrors(exchange_t *exchange)
{
    int local_rank = 0;
    size_t first;
    kvs_status_t status = kvs_store_local_rank(exchange->store, &local_rank);

    first = (size_t)local_rank * exchange->n_networks;
    if (status == KVS_OK) {
        status = mirror_new(exchange->host_weights, n_arrays(exchange), first, &exchange->weights);
    }
    if (status == KVS_OK) {
        status =
            mirror_new(exchange->host_gradients, n_arrays(exchange), first, &exchange->gradients);
    }
    return status;
}

/* What the store is to see. */
static kvs_status_t place_arrays(exchange_t *exchange, int on_gpus)
{
    kvs_status_t status = KVS_OK;

    exchange->on_gpus = on_gpus;
    if (on_gpus) {
        status = make_mirrors(exchange);
    } else {
        exchange->weights = exchange->host_weights;
        exchange->gradients = exchange->host_gradients;
    }
    for (size_t a = 0; a < exchange->model->n_arrays && status == KVS_OK; a++) {
        exchange->sums[a] = exchange->gradients[a * exchange->n_networks];
    }
    return status;
}

/* Copy all arrays between what the store sees and the networks. */
static kvs_status_t copy_all(const exchange_t *exchange, const kvs_tensor_t *to,
                             const kvs_tensor_t *from)
{
    return exchange->on_gpus ? mirror_copy(to, from, n_arrays(exchange)) : KVS_OK;
}

static kvs_param_t real(const char *name, double value)
{
    return (kvs_param_t){.name = name, .type = KVS_PARAM_FLOAT, .value = {.real = value}};
}

/* Where it is asked for, else in the store if that can. */
static kvs_status_t set_optimizer(exchange_t *exchange, update_place_t place,
                                  const kvs_optimizer_spec_t *optimizer)
{
    int in_store = place == UPDATE_IN_STORE;
    kvs_status_t status = KVS_OK;

    if (place == UPDATE_DEFAULT) {
        status = kvs_store_is_capable(exchange->store, "optimizer", &in_store);
    }
    if (status != KVS_OK) {
        return status;
    }
    return in_store ? kvs_store_set_optimizer(exchange->store, optimizer)
                    : kvs_optimizer_create(optimizer, &exchange->optimizer);
}

static kvs_status_t set_compression(kvs_store_t *store, const compression_settings_t *settings)
{
    const kvs_param_t params[] = {
        {.name = "type", .type = KVS_PARAM_TEXT, .value = {.text = settings->type}},
        real("threshold", settings->threshold),
    };

    return settings->type != NULL ? kvs_store_set_gradient_compression(store, params, 2) : KVS_OK;
}

kvs_status_t exchange_open(const char *backend, int allow_cpu, update_place_t place,
                           const kvs_optimizer_spec_t *optimizer,
                           const compression_settings_t *compression, exchange_t **ret_exchange)
{
    const kvs_option_t allow = {"allow_cpu", "1"};
    exchange_t *exchange = calloc(1, sizeof(*exchange));
    kvs_status_t status;

    if (exchange == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for an exchange");
    }
    status = kvs_store_create(backend, &allow, allow_cpu ? 1 : 0, &exchange->store);
    if (status == KVS_OK) {
        status = kvs_store_rank(exchange->store, &exchange->rank);
    }
    if (status == KVS_OK) {
        status = kvs_store_num_workers(exchange->store, &exchange->n_workers);
    }
    if (status == KVS_OK) {
        status = set_optimizer(exchange, place, optimizer);
    }
    if (status == KVS_OK) {
        status = set_compression(exchange->store, compression);
    }
    if (status != KVS_OK) {
        (void)exchange_close(exchange); /* the first error counts */
        return status;
    }
    *ret_exchange = exchange;
    return KVS_OK;
}

int exchange_rank(const exchange_t *exchange)
{
    return exchange->rank;
}

int exchange_n_workers(const exchange_t *exchange)
{
    return exchange->n_workers;
}

int exchange_updates_here(const exchange_t *exchange)
{
    return exchange->optimizer != NULL;
}

kvs_status_t exchange_close(exchange_t *exchange)
{
    kvs_status_t status;

    if (exchange == NULL) {
        return KVS_OK;
    }
    status = kvs_store_close(exchange->store);
    kvs_optimizer_free(exchange->optimizer);
    if (exchange->on_gpus) {
        mirror_free(exchange->weights, n_arrays(exchange));
        mirror_free(exchange->gradients, n_arrays(exchange));
    }
    free(exchange->host_weights);
    free(exchange->host_gradients);
    free(exchange);
    return status;
}

/* The arrays of all keys and all networks, as a call wants them. */
static kvs_arrays_t all_of(const exchange_t *exchange, const kvs_tensor_t *tensors)
{
    return (kvs_arrays_t){tensors, n_arrays(exchange), exchange->per_key,
                          exchange->model->n_arrays};
}

typedef kvs_status_t (*call_t)(kvs_store_t *store, const kvs_key_t *keys, size_t n_keys,
                               const kvs_arrays_t *values, const kvs_arrays_t *outs,
                               const kvs_call_t *call);

/* The call for each key, with so many values and outs. */
static kvs_status_t call_each(const exchange_t *exchange, call_t call, const kvs_tensor_t *values,
                              size_t n_values, const kvs_tensor_t *outs, size_t n_outs)
{
    kvs_event_t *events[MODEL_MAX_ARRAYS];
    size_t n = 0;
    kvs_status_t status = KVS_OK;

    for (size_t a = 0; a < exchange->model->n_arrays && status == KVS_OK; a++) {
        kvs_arrays_t value = kvs_arrays(values + a * n_values, n_values);
        kvs_arrays_t out = kvs_arrays(outs + a * n_outs, n_outs);
        kvs_call_t options = KVS_CALL_INIT;

        options.priority = -(int32_t)a;
        options.ret_event = &events[n];
        status = call(exchange->store, &exchange->keys[a], 1, &value, &out, &options);
        n += status == KVS_OK;
    }
    for (size_t i = 0; i < n; i++) {
        kvs_status_t ended = kvs_event_wait(events[i], -1); /* the store has its own deadline */

        status = status == KVS_OK ? ended : status;
        kvs_event_free(events[i]);
    }
    return status;
}

/* Whether the store takes lists is seen here: a list that is refused leaves everything as it was. */
static kvs_status_t broadcast(exchange_t *exchange, const kvs_tensor_t *first)
{
    size_t n_keys = exchange->model->n_arrays;
    kvs_arrays_t values = kvs_arrays(first, n_keys);
    kvs_arrays_t outs = all_of(exchange, exchange->weights);
    kvs_status_t status =
        kvs_store_broadcast(exchange->store, exchange->keys, n_keys, &values, &outs, NULL);

    if (status == KVS_ERR_ARGUMENT) {
        exchange->one_by_one = 1;
        status = call_each(exchange, kvs_store_broadcast, first, 1, exchange->weights,
                           exchange->n_networks);
    }
    return status;
}

/* The sum of the gradients of all devices of all processes. */
static kvs_status_t sum_gradients(const exchange_t *exchange)
{
    size_t n_keys = exchange->model->n_arrays;
    kvs_arrays_t gradients = all_of(exchange, exchange->gradients);
    kvs_arrays_t sums = kvs_arrays(exchange->sums, n_keys);

    return exchange->one_by_one ? call_each(exchange, kvs_store_pushpull, exchange->gradients,
                                            exchange->n_networks, exchange->sums, 1)
                                : kvs_store_pushpull(exchange->store, exchange->keys, n_keys,
                                                     &gradients, &sums, NULL);
}

kvs_status_t exchange_begin(exchange_t *exchange, network_t *const *networks, size_t n_networks,
                            int32_t device_type)
{
    size_t n_keys = networks[0]->model.n_arrays;
    kvs_tensor_t first[MODEL_MAX_ARRAYS];
    kvs_status_t status;

    exchange->model = &networks[0]->model;
    exchange->n_networks = n_networks;
    status = make_lists(exchange, networks);
    if (status == KVS_OK) {
        status = place_arrays(exchange, device_type == KVS_DEVICE_CUDA);
    }
    if (status == KVS_OK) {
        status = copy_all(exchange, exchange->weights, exchange->host_weights);
    }
    if (status != KVS_OK) {
        return status;
    }
    for (size_t a = 0; a < n_keys; a++) {
        first[a] = exchange->weights[a * n_networks];
    }
    status = broadcast(exchange, first);
    return status == KVS_OK ? copy_all(exchange, exchange->host_weights, exchange->weights)
                            : status;
}

/* Gradients go in, weights come out. */
static kvs_status_t update_in_store(exchange_t *exchange)
{
    size_t n_keys = exchange->model->n_arrays;
    kvs_arrays_t gradients = all_of(exchange, exchange->gradients);
    kvs_arrays_t weights = all_of(exchange, exchange->weights);
    kvs_status_t status = kvs_store_push(exchange->store, exchange->keys, n_keys, &gradients, NULL);

    if (status == KVS_OK) {
        status = kvs_store_pull(exchange->store, exchange->keys, n_keys, &weights, NULL);
    }
    return status == KVS_OK ? copy_all(exchange, exchange->host_weights, exchange->weights)
                            : status;
}

/* The weights of the first network become those of the others. */
static void copy_weights(const exchange_t *exchange, size_t array)
{
    const kvs_tensor_t *weights = &exchange->host_weights[array * exchange->n_networks];
    size_t n_bytes = exchange->model->arrays[array].n_elems * sizeof(float);

    for (size_t d = 1; d < exchange->n_networks; d++) {
        memcpy(weights[d].data, weights[0].data, n_bytes);
    }
}

/* Gradients go in, their sums come out, and what the store would do with them is done here. */
static kvs_status_t update_here(exchange_t *exchange)
{
    size_t n_keys = exchange->model->n_arrays;
    kvs_status_t status = sum_gradients(exchange);

    for (size_t a = 0; a < n_keys && status == KVS_OK; a++) {
        const kvs_tensor_t *sum = &exchange->host_gradients[a * exchange->n_networks];

        if (exchange->on_gpus) {
            status = mirror_copy(sum, &exchange->sums[a], 1);
        }
        if (status == KVS_OK) {
            status = kvs_optimizer_update(exchange->optimizer, exchange->keys[a], sum,
                                          &exchange->host_weights[a * exchange->n_networks]);
        }
        copy_weights(exchange, a);
    }
    return status;
}

kvs_status_t exchange_update(exchange_t *exchange)
{
    kvs_status_t status = copy_all(exchange, exchange->gradients, exchange->host_gradients);

    if (status != KVS_OK) {
        return status;
    }
    return exchange_updates_here(exchange) ? update_here(exchange) : update_in_store(exchange);
}

kvs_status_t exchange_save_states(exchange_t *exchange, const char *path)
{
    return exchange_updates_here(exchange)
               ? kvs_optimizer_save_states(exchange->optimizer, path, 1)
               : kvs_store_save_optimizer_states(exchange->store, path, 1);
}

kvs_status_t exchange_load_states(exchange_t *exchange, const char *path)
{
    kvs_status_t status = KVS_OK;

    if (exchange_updates_here(exchange)) {
        return kvs_optimizer_load_states(exchange->optimizer, path);
    }
    /* of the stores of several workers, nccl alone has weights and states in each of them */
    if (exchange->rank == 0 || strcmp(kvs_store_type(exchange->store), "nccl") == 0) {
        status = kvs_store_load_optimizer_states(exchange->store, path);
    }
    return status == KVS_OK ? kvs_store_barrier(exchange->store) : status;
}

kvs_status_t exchange_stats(exchange_t *exchange, kvs_stats_t *ret_stats)
{
    ret_stats->size = sizeof(*ret_stats);
    return kvs_store_stats(exchange->store, ret_stats);
}
