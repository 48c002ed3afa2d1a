/* SPDX-License-Identifier: Apache-2.0 */
/* network.h - one device's copy of the model: its weights, and what one step computes with them.
 *
 * Hidden layers are rectified, the last is a softmax with cross-entropy loss. Losses and gradients
 * are sums over the images, not means: sums of the parts of a batch add up to the whole batch's.
 * One thread uses a network at a time. */
#ifndef DEMO_NETWORK_H
#define DEMO_NETWORK_H

#include "model.h"

#include <kvstore/kvstore.h>

typedef struct network {
    model_t model;
    size_t max_images; /* that fit in one step */
    float *weights[MODEL_MAX_ARRAYS];
    float *gradients[MODEL_MAX_ARRAYS];
    float *activations[MODEL_MAX_LAYERS + 1]; /* [0]: the images, one a row; [n_layers]: scores */
    float *errors[MODEL_MAX_LAYERS + 1];      /* loss by activations; [0] is not needed: NULL */
    float *transposed;                        /* room for any layer's weight */
} network_t;

/* Weights are left at zero. Freed by network_free, which takes NULL. */
kvs_status_t network_new(const model_t *model, size_t max_images, network_t **ret_network);
void network_free(network_t *network);

/* Where image `i` of a step has to be put, as floats. */
float *network_image(network_t *network, size_t i);
/* From the first `n_images` images to the scores of every class. */
void network_forward(network_t *network, size_t n_images);
/* After network_forward: the sum of the losses; gradients[] become the sums over these images. */
double network_backward(network_t *network, const uint8_t *labels, size_t n_images);
/* After network_forward: the class with the highest score, the lower one of equals. */
uint8_t network_predicted(const network_t *network, size_t image);

#endif
