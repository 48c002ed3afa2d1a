/* SPDX-License-Identifier: Apache-2.0 */
/* model.c - everything about the network that doesn't depend on data. */
#include "model.h"

#include <math.h>
#include <stdio.h>

static model_array_t array_of(size_t layer, const char *part, size_t rows, size_t columns)
{
    model_array_t array = {.ndim = rows > 0 ? 2 : 1};

    snprintf(array.name, sizeof(array.name), "layer%zu.%s", layer + 1, part);
    if (rows > 0) {
        array.shape[0] = (int64_t)rows;
        array.shape[1] = (int64_t)columns;
        array.n_elems = rows * columns;
    } else {
        array.shape[0] = (int64_t)columns;
        array.n_elems = columns;
    }
    return array;
}

model_t model_of(const size_t *sizes, size_t n_layers)
{
    model_t model = {.n_layers = n_layers, .n_arrays = 2 * n_layers, .sizes = {sizes[0]}};

    for (size_t l = 0; l < n_layers; l++) {
        model.sizes[l + 1] = sizes[l + 1];
        model.arrays[2 * l] = array_of(l, "weight", sizes[l], sizes[l + 1]);
        model.arrays[2 * l + 1] = array_of(l, "bias", 0, sizes[l + 1]);
    }
    return model;
}

size_t model_n_elems(const model_t *model)
{
    size_t n = 0;

    for (size_t a = 0; a < model->n_arrays; a++) {
        n += model->arrays[a].n_elems;
    }
    return n;
}

void model_init(const model_t *model, rng_t *rng, float *const arrays[])
{
    for (size_t a = 0; a < model->n_arrays; a++) {
        const model_array_t *array = &model->arrays[a];
        float bound = array->ndim == 2 ? sqrtf(6.0f / (float)array->shape[0]) : 0.0f;

        for (size_t i = 0; i < array->n_elems; i++) {
            arrays[a][i] = rng_uniform(rng, -bound, bound);
        }
    }
}
