/* SPDX-License-Identifier: Apache-2.0 */
/* tiny_set.h - small data sets for the demo's tests, in memory and as IDX files. */
#ifndef TINY_SET_H
#define TINY_SET_H

#include "data.h"

enum { TINY_SIDE = 4 }; /* images are TINY_SIDE × TINY_SIDE */

/* `n_images` images of noise over a pattern that depends on the label, so that they can be learnt. */
dataset_t tiny_set(size_t n_images, uint64_t seed);

/* Write DIR/NAME; exits on failure, as kt_write_file does. */
void tiny_write(const char *dir, const char *name, const void *bytes, size_t n_bytes);
/* Write the pair of files that dataset_load reads. */
void tiny_write_set(const char *dir, const char *prefix, const dataset_t *set);

#endif
