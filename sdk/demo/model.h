/* SPDX-License-Identifier: Apache-2.0 */
/* model.h - the shape of a multi-layer perceptron: its layers, and the arrays they are made of.
 *
 * Array 2l is layer l's weight (inputs × outputs), array 2l+1 its bias (outputs). This order is the
 * order of keys in the store. */
#ifndef DEMO_MODEL_H
#define DEMO_MODEL_H

#include "rng.h"

#include <stddef.h>
#include <stdint.h>

enum { MODEL_MAX_LAYERS = 4, MODEL_MAX_ARRAYS = 2 * MODEL_MAX_LAYERS, MODEL_NAME_BYTES = 40 };

typedef struct model_array {
    char name[MODEL_NAME_BYTES]; /* "layer1.weight" */
    int64_t shape[2];
    int32_t ndim; /* 2: weight, 1: bias */
    size_t n_elems;
} model_array_t;

typedef struct model {
    size_t n_layers;
    size_t sizes[MODEL_MAX_LAYERS + 1]; /* [0]: inputs, [n_layers]: classes */
    size_t n_arrays;
    model_array_t arrays[MODEL_MAX_ARRAYS];
} model_t;

/* `n_layers` layers, at most MODEL_MAX_LAYERS; `sizes` has one number more. */
model_t model_of(const size_t *sizes, size_t n_layers);
size_t model_n_elems(const model_t *model); /* of all arrays */

/* Fill the arrays of one copy: weights uniform with variance 2 / inputs, as suits rectified units
 * (He et al. 2015), biases zero. */
void model_init(const model_t *model, rng_t *rng, float *const arrays[]);

#endif
