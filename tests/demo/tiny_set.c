/* SPDX-License-Identifier: Apache-2.0 */
/* tiny_set.c - writes IDX by its definition, not by anything the demo has. */
#include "tiny_set.h"

#include "rng.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *allocate(size_t n_bytes)
{
    void *bytes = calloc(1, n_bytes);

    if (bytes == NULL) {
        perror("calloc");
        exit(2);
    }
    return bytes;
}

dataset_t tiny_set(size_t n_images, uint64_t seed)
{
    enum { N_PIXELS = TINY_SIDE * TINY_SIDE };
    rng_t rng = {seed};
    dataset_t set = {n_images, TINY_SIDE, TINY_SIDE, allocate(n_images * N_PIXELS),
                     allocate(n_images)};

    for (size_t i = 0; i < n_images; i++) {
        set.labels[i] = (uint8_t)(rng_next(&rng) % DATA_N_CLASSES);
        for (size_t p = 0; p < N_PIXELS; p++) {
            int bright = p == set.labels[i];

            set.pixels[i * N_PIXELS + p] = (uint8_t)(rng_next(&rng) % 64 + (bright ? 190 : 0));
        }
    }
    return set;
}

void tiny_write(const char *dir, const char *name, const void *bytes, size_t n_bytes)
{
    char path[1024];
    FILE *file;

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    file = fopen(path, "wb");
    if (file == NULL || fwrite(bytes, 1, n_bytes, file) != n_bytes || fclose(file) != 0) {
        perror(path);
        exit(2);
    }
}

void tiny_write_set(const char *dir, const char *prefix, const dataset_t *set)
{
    const size_t n_pixels = set->n_images * TINY_SIDE * TINY_SIDE;
    uint8_t count[2] = {(uint8_t)(set->n_images >> 8), (uint8_t)set->n_images};
    uint8_t images_header[16] = {0, 0, 8, 3,         0, 0, count[0], count[1],
                                 0, 0, 0, TINY_SIDE, 0, 0, 0,        TINY_SIDE};
    uint8_t labels_header[8] = {0, 0, 8, 1, 0, 0, count[0], count[1]};
    uint8_t *bytes = allocate(16 + n_pixels);
    char name[64];

    memcpy(bytes, images_header, 16);
    memcpy(bytes + 16, set->pixels, n_pixels);
    snprintf(name, sizeof(name), "%s-images-idx3-ubyte", prefix);
    tiny_write(dir, name, bytes, 16 + n_pixels);
    memcpy(bytes, labels_header, 8);
    memcpy(bytes + 8, set->labels, set->n_images);
    snprintf(name, sizeof(name), "%s-labels-idx1-ubyte", prefix);
    tiny_write(dir, name, bytes, 8 + set->n_images);
    free(bytes);
}
