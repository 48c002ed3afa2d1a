/* SPDX-License-Identifier: Apache-2.0 */
/* data.h - Fashion-MNIST: 60,000 and 10,000 pictures of clothes, 28 × 28 bytes each, in ten classes.
 *
 * Images stay bytes in memory; they become floats, of mean 0 and variance 1 over the training set,
 * when a network is to see them. */
#ifndef DEMO_DATA_H
#define DEMO_DATA_H

#include <kvstore/kvstore.h>

enum { DATA_N_CLASSES = 10 };

extern const char *const data_class_names[DATA_N_CLASSES];

typedef struct dataset {
    size_t n_images, rows, columns;
    uint8_t *pixels; /* n_images × rows × columns, 0: background; owned, as is labels */
    uint8_t *labels; /* n_images, each below DATA_N_CLASSES */
} dataset_t;

/* Read PREFIX-images-idx3-ubyte and PREFIX-labels-idx1-ubyte, or these with .gz, from `dir`; PREFIX
 * is "train" or "t10k". Errors are idx_read's, and ERR_FORMAT: labels that don't fit the images. */
kvs_status_t dataset_load(const char *dir, const char *prefix, dataset_t *ret_set);
void dataset_release(dataset_t *set); /* takes an empty one */

/* Write image `index` as floats, row by row. */
void dataset_image(const dataset_t *set, size_t index, float *ret_values);

#endif
