/* SPDX-License-Identifier: Apache-2.0 */
/* data.c - loads and checks a pair of IDX files, and scales their pixels. */
#include "data.h"

#include "idx.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

/* Of the pixels of the training set, as fractions of 255. */
#define PIXEL_MEAN      0.2860f
#define PIXEL_DEVIATION 0.3530f

const char *const data_class_names[DATA_N_CLASSES] = {
    "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat",
    "Sandal",      "Shirt",   "Sneaker",  "Bag",   "Ankle boot"};

static kvs_status_t read_part(const char *dir, const char *prefix, const char *part, size_t n_dims,
                              idx_t *ret_idx)
{
    char path[PATH_MAX + 64];
    kvs_status_t status;

    snprintf(path, sizeof(path), "%s/%s-%s-idx%zu-ubyte", dir, prefix, part, n_dims);
    status = idx_read(path, n_dims, ret_idx);
    if (status == KVS_ERR_NOT_FOUND) {
        return kvs_fail(status,
                        "%s (install Debian's package dataset-fashion-mnist, or name "
                        "the directory of the four files with --data)",
                        kvs_last_error());
    }
    return status;
}

static kvs_status_t check_labels(const idx_t *images, const idx_t *labels, const char *dir,
                                 const char *prefix)
{
    if (images->dims[0] != labels->dims[0]) {
        return kvs_fail(KVS_ERR_FORMAT, "%s: %s has %zu images and %zu labels", dir, prefix,
                        images->dims[0], labels->dims[0]);
    }
    for (size_t i = 0; i < labels->n_bytes; i++) {
        if (labels->bytes[i] >= DATA_N_CLASSES) {
            return kvs_fail(KVS_ERR_FORMAT, "%s: label %zu of %s is %d: there are %d classes", dir,
                            i, prefix, labels->bytes[i], DATA_N_CLASSES);
        }
    }
    return KVS_OK;
}

kvs_status_t dataset_load(const char *dir, const char *prefix, dataset_t *ret_set)
{
    idx_t images = {NULL, 0, {0}}, labels = {NULL, 0, {0}};
    kvs_status_t status = read_part(dir, prefix, "images", 3, &images);

    if (status == KVS_OK) {
        status = read_part(dir, prefix, "labels", 1, &labels);
    }
    if (status == KVS_OK) {
        status = check_labels(&images, &labels, dir, prefix);
    }
    if (status != KVS_OK) {
        idx_release(&images);
        idx_release(&labels);
        return status;
    }
    *ret_set = (dataset_t){.n_images = images.dims[0],
                           .rows = images.dims[1],
                           .columns = images.dims[2],
                           .pixels = images.bytes,
                           .labels = labels.bytes};
    return KVS_OK;
}

void dataset_release(dataset_t *set)
{
    free(set->pixels);
    free(set->labels);
    *set = (dataset_t){0};
}

void dataset_image(const dataset_t *set, size_t index, float *ret_values)
{
    size_t n_pixels = set->rows * set->columns;
    const uint8_t *pixels = set->pixels + index * n_pixels;

    for (size_t p = 0; p < n_pixels; p++) {
        ret_values[p] = ((float)pixels[p] / 255.0f - PIXEL_MEAN) / PIXEL_DEVIATION;
    }
}
