/* SPDX-License-Identifier: Apache-2.0 */
/* exchange.c - one call serves all keys and all devices: the arrays of a call stand key by key, and
 * for each key device by device. The lists are made once, as the networks' arrays never move. */
#include "exchange.h"

#include <stdlib.h>

struct exchange {
    kvs_store_t *store;
    int rank, n_workers;
    const model_t *model;
    size_t n_networks;
    kvs_key_t keys[MODEL_MAX_ARRAYS];
    size_t per_key[MODEL_MAX_ARRAYS]; /* n_networks, for every key */
    kvs_tensor_t *weights;            /* [key][network] */
    kvs_tensor_t *gradients;          /* [key][network] */
};

static kvs_tensor_t tensor_of(const model_array_t *array, float *data, size_t device)
{
    return (kvs_tensor_t){.data = data,
                          .device = {KVS_DEVICE_CPU, (int32_t)device},
                          .ndim = array->ndim,
                          .dtype = kvs_dtype(KVS_DTYPE_float32),
                          .shape = array->shape};
}

static kvs_status_t make_lists(exchange_t *exchange, network_t *const *networks)
{
    const model_t *model = exchange->model;
    size_t n_networks = exchange->n_networks;

    exchange->weights = calloc(model->n_arrays * n_networks, sizeof(kvs_tensor_t));
    exchange->gradients = calloc(model->n_arrays * n_networks, sizeof(kvs_tensor_t));
    if (exchange->weights == NULL || exchange->gradients == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for the lists of arrays");
    }
    for (size_t a = 0; a < model->n_arrays; a++) {
        const model_array_t *array = &model->arrays[a];

        exchange->keys[a] = kvs_key_str(array->name);
        exchange->per_key[a] = n_networks;
        for (size_t d = 0; d < n_networks; d++) {
            size_t i = a * n_networks + d;

            exchange->weights[i] = tensor_of(array, networks[d]->weights[a], d);
            exchange->gradients[i] = tensor_of(array, networks[d]->gradients[a], d);
        }
    }
    return KVS_OK;
}

static kvs_param_t real(const char *name, double value)
{
    return (kvs_param_t){.name = name, .type = KVS_PARAM_FLOAT, .value = {.real = value}};
}

static kvs_status_t set_optimizer(kvs_store_t *store, const optimizer_settings_t *settings)
{
    const kvs_param_t params[] = {
        real("learning_rate", settings->learning_rate),
        real("momentum", settings->momentum),
        real("wd", settings->wd),
        real("rescale_grad", settings->rescale_grad),
    };
    kvs_optimizer_spec_t spec = KVS_OPTIMIZER_INIT;

    spec.name = "sgd";
    spec.params = params;
    spec.n_params = sizeof(params) / sizeof(params[0]);
    return kvs_store_set_optimizer(store, &spec);
}

static kvs_status_t set_compression(kvs_store_t *store, const compression_settings_t *settings)
{
    const kvs_param_t params[] = {
        {.name = "type", .type = KVS_PARAM_TEXT, .value = {.text = settings->type}},
        real("threshold", settings->threshold),
    };

    return settings->type != NULL ? kvs_store_set_gradient_compression(store, params, 2) : KVS_OK;
}

kvs_status_t exchange_open(const char *backend, const optimizer_settings_t *settings,
                           const compression_settings_t *compression, exchange_t **ret_exchange)
{
    exchange_t *exchange = calloc(1, sizeof(*exchange));
    kvs_status_t status;

    if (exchange == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for an exchange");
    }
    status = kvs_store_create(backend, NULL, 0, &exchange->store);
    if (status == KVS_OK) {
        status = kvs_store_rank(exchange->store, &exchange->rank);
    }
    if (status == KVS_OK) {
        status = kvs_store_num_workers(exchange->store, &exchange->n_workers);
    }
    if (status == KVS_OK) {
        status = set_optimizer(exchange->store, settings);
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

kvs_status_t exchange_close(exchange_t *exchange)
{
    kvs_status_t status;

    if (exchange == NULL) {
        return KVS_OK;
    }
    status = kvs_store_close(exchange->store);
    free(exchange->weights);
    free(exchange->gradients);
    free(exchange);
    return status;
}

/* The arrays of all keys and all networks, as a call wants them. */
static kvs_arrays_t all_of(const exchange_t *exchange, const kvs_tensor_t *tensors)
{
    size_t n_keys = exchange->model->n_arrays;

    return (kvs_arrays_t){tensors, n_keys * exchange->n_networks, exchange->per_key, n_keys};
}

kvs_status_t exchange_begin(exchange_t *exchange, network_t *const *networks, size_t n_networks)
{
    size_t n_keys = networks[0]->model.n_arrays;
    kvs_tensor_t first[MODEL_MAX_ARRAYS];
    kvs_status_t status;

    exchange->model = &networks[0]->model;
    exchange->n_networks = n_networks;
    status = make_lists(exchange, networks);
    if (status != KVS_OK) {
        return status;
    }
    for (size_t a = 0; a < n_keys; a++) {
        first[a] = exchange->weights[a * n_networks];
    }
    kvs_arrays_t values = kvs_arrays(first, n_keys);
    kvs_arrays_t outs = all_of(exchange, exchange->weights);

    return kvs_store_broadcast(exchange->store, exchange->keys, n_keys, &values, &outs, NULL);
}

/* TODO(demo): stores that keep no weights need pushpull of the gradients and the optimizer in the
 * worker, on each network's own weights; waits for the worker's optimizer in kvstore.h. */
kvs_status_t exchange_update(exchange_t *exchange)
{
    size_t n_keys = exchange->model->n_arrays;
    kvs_arrays_t gradients = all_of(exchange, exchange->gradients);
    kvs_arrays_t weights = all_of(exchange, exchange->weights);
    kvs_status_t status = kvs_store_push(exchange->store, exchange->keys, n_keys, &gradients, NULL);

    if (status == KVS_OK) {
        status = kvs_store_pull(exchange->store, exchange->keys, n_keys, &weights, NULL);
    }
    return status;
}

kvs_status_t exchange_stats(exchange_t *exchange, kvs_stats_t *ret_stats)
{
    ret_stats->size = sizeof(*ret_stats);
    return kvs_store_stats(exchange->store, ret_stats);
}
