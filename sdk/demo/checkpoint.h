/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint.h - where training was, in a directory: DIR/checkpoint, which holds weights and what was
 * measured so far, and beside it the library's file of optimizer states of the same epoch.
 *
 * The states are written first, under the epoch's number; the checkpoint that names the epoch then takes
 * the place of the one before, all at once. So whenever the program ends, both fit together. */
#ifndef DEMO_CHECKPOINT_H
#define DEMO_CHECKPOINT_H

#include <kvstore/kvstore.h>

#define CHECKPOINT_NAME_BYTES 64
#define CHECKPOINT_PATH_BYTES 4200

typedef struct checkpoint {
    char optimizer[CHECKPOINT_NAME_BYTES]; /* by which it was trained, for people */
    size_t n_epochs;                       /* done */
    size_t n_steps;                        /* in all of them */
    size_t n_elems;                        /* of all weights, in the order of keys */
    float *weights;
    double *losses;     /* of each step */
    double *accuracies; /* of each epoch */
} checkpoint_t;

/* ERR_NOT_FOUND, ERR_IO; ERR_FORMAT: it is damaged, or no checkpoint. Freed by release. */
kvs_status_t checkpoint_read(const char *dir, checkpoint_t *ret_checkpoint);
void checkpoint_release(checkpoint_t *checkpoint);
/* Make `dir` if it is not there. ERR_IO. */
kvs_status_t checkpoint_make_dir(const char *dir);
/* ERR_IO: the one before stays. Afterwards states of other epochs are of no use and removed. */
kvs_status_t checkpoint_write(const char *dir, const checkpoint_t *checkpoint);
/* Where the optimizer states after so many epochs lie. */
void checkpoint_states_path(const char *dir, size_t n_epochs, char ret_path[CHECKPOINT_PATH_BYTES]);

#endif
