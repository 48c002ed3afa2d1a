/* SPDX-License-Identifier: Apache-2.0 */
/* network.c - forward and backward through fully connected layers. */
#include "network.h"

#include "matrix.h"

#include <math.h>
#include <stdlib.h>

static int allocate_arrays(network_t *network)
{
    const model_t *model = &network->model;
    size_t largest = 0;
    int ok = 1;

    for (size_t a = 0; a < model->n_arrays; a++) {
        size_t n = model->arrays[a].n_elems;

        network->weights[a] = calloc(n, sizeof(float));
        network->gradients[a] = calloc(n, sizeof(float));
        ok = ok && network->weights[a] != NULL && network->gradients[a] != NULL;
        largest = n > largest ? n : largest;
    }
    network->transposed = calloc(largest, sizeof(float));
    return ok && network->transposed != NULL;
}

static int allocate_layers(network_t *network)
{
    int ok = 1;

    for (size_t l = 0; l <= network->model.n_layers; l++) {
        size_t n = network->max_images * network->model.sizes[l];

        network->activations[l] = calloc(n, sizeof(float));
        ok = ok && network->activations[l] != NULL;
        if (l > 0) {
            network->errors[l] = calloc(n, sizeof(float));
            ok = ok && network->errors[l] != NULL;
        }
    }
    return ok;
}

kvs_status_t network_new(const model_t *model, size_t max_images, network_t **ret_network)
{
    network_t *network = calloc(1, sizeof(*network));

    if (network != NULL) {
        network->model = *model;
        network->max_images = max_images;
    }
    if (network == NULL || !allocate_arrays(network) || !allocate_layers(network)) {
        network_free(network);
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for a network of %zu weights",
                        model_n_elems(model));
    }
    *ret_network = network;
    return KVS_OK;
}

void network_free(network_t *network)
{
    if (network == NULL) {
        return;
    }
    for (size_t a = 0; a < MODEL_MAX_ARRAYS; a++) {
        free(network->weights[a]);
        free(network->gradients[a]);
    }
    for (size_t l = 0; l <= MODEL_MAX_LAYERS; l++) {
        free(network->activations[l]);
        free(network->errors[l]);
    }
    free(network->transposed);
    free(network);
}

static void add_bias(float *rows, const float *bias, size_t n_rows, size_t n_columns)
{
    for (size_t i = 0; i < n_rows; i++) {
        for (size_t j = 0; j < n_columns; j++) {
            rows[i * n_columns + j] += bias[j];
        }
    }
}

static void rectify(float *values, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        values[i] = values[i] > 0 ? values[i] : 0;
    }
}

float *network_image(network_t *network, size_t i)
{
    return network->activations[0] + i * network->model.sizes[0];
}

void network_forward(network_t *network, size_t n_images)
{
    const model_t *model = &network->model;

    for (size_t l = 0; l < model->n_layers; l++) {
        size_t n_in = model->sizes[l], n_out = model->sizes[l + 1];
        float *out = network->activations[l + 1];

        matrix_multiply(out, (matrix_left_t){network->activations[l], n_in, 1},
                        network->weights[2 * l], n_images, n_out, n_in);
        add_bias(out, network->weights[2 * l + 1], n_images, n_out);
        if (l + 1 < model->n_layers) {
            rectify(out, n_images * n_out);
        }
    }
}

/* The loss of one image, and by the scores its gradient: softmax(scores) - onehot(label). */
static double softmax_loss(const float *scores, size_t label, size_t n_classes, float *ret_error)
{
    float highest = scores[0];
    double sum = 0;

    for (size_t c = 1; c < n_classes; c++) {
        highest = scores[c] > highest ? scores[c] : highest;
    }
    for (size_t c = 0; c < n_classes; c++) {
        sum += exp((double)(scores[c] - highest));
    }
    for (size_t c = 0; c < n_classes; c++) {
        ret_error[c] = (float)(exp((double)(scores[c] - highest)) / sum) - (c == label);
    }
    return log(sum) - (double)(scores[label] - highest);
}

static void sum_rows(float *sums, const float *rows, size_t n_rows, size_t n_columns)
{
    for (size_t j = 0; j < n_columns; j++) {
        sums[j] = 0;
    }
    for (size_t i = 0; i < n_rows; i++) {
        for (size_t j = 0; j < n_columns; j++) {
            sums[j] += rows[i * n_columns + j];
        }
    }
}

/* Hand the errors of layer l's outputs on to its inputs, where these are rectified values. */
static void errors_of_inputs(network_t *network, size_t l, size_t n_images)
{
    size_t n_in = network->model.sizes[l], n_out = network->model.sizes[l + 1];
    float *errors = network->errors[l];
    const float *inputs = network->activations[l];

    matrix_transpose(network->transposed, network->weights[2 * l], n_in, n_out);
    matrix_multiply(errors, (matrix_left_t){network->errors[l + 1], n_out, 1}, network->transposed,
                    n_images, n_in, n_out);
    for (size_t i = 0; i < n_images * n_in; i++) {
        errors[i] = inputs[i] > 0 ? errors[i] : 0;
    }
}

double network_backward(network_t *network, const uint8_t *labels, size_t n_images)
{
    const model_t *model = &network->model;
    size_t last = model->n_layers, n_classes = model->sizes[last];
    double loss = 0;

    for (size_t i = 0; i < n_images; i++) {
        loss += softmax_loss(network->activations[last] + i * n_classes, labels[i], n_classes,
                             network->errors[last] + i * n_classes);
    }
    for (size_t l = last; l-- > 0;) {
        size_t n_in = model->sizes[l], n_out = model->sizes[l + 1];
        const float *errors = network->errors[l + 1];

        matrix_multiply(network->gradients[2 * l],
                        (matrix_left_t){network->activations[l], 1, n_in}, errors, n_in, n_out,
                        n_images);
        sum_rows(network->gradients[2 * l + 1], errors, n_images, n_out);
        if (l > 0) {
            errors_of_inputs(network, l, n_images);
        }
    }
    return loss;
}

uint8_t network_predicted(const network_t *network, size_t image)
{
    size_t n_classes = network->model.sizes[network->model.n_layers];
    const float *scores = network->activations[network->model.n_layers] + image * n_classes;
    size_t best = 0;

    for (size_t c = 1; c < n_classes; c++) {
        best = scores[c] > scores[best] ? c : best;
    }
    return (uint8_t)best;
}
