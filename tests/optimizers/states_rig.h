/* SPDX-License-Identifier: Apache-2.0 */
/* states_rig.h - an optimizer with a few keys of all layouts, its states in files, and files as bytes
 * that can be bent. */
#ifndef STATES_RIG_H
#define STATES_RIG_H

#include "rig.h"

#include <kvstore/states.h>

#define STATES_MAX_KEYS 8

/* An optimizer and its keys; the file's path is the test's. */
typedef struct states_rig {
    kvs_opt_t *opt;
    rig_key_t keys[STATES_MAX_KEYS];
    kvs_residuals_t residuals[STATES_MAX_KEYS]; /* of the keys; at first none */
    size_t n_keys;
} states_rig_t;

/* Keys w float32 (3, 4), b float64 (5,), half float16 (2, 2), bhalf bfloat16 (7,), scalar float32 (),
 * empty float32 (4, 0); with `integers` they are numbered -1, 0, 1, … instead. Weights are set. */
states_rig_t states_rig(kvs_opt_t *opt, int integers);
void states_rig_release(states_rig_t *rig);
/* `n` updates of every key, in order, by gradients that depend on nothing but key, element and the
 * number of the update in this process. */
void states_rig_update(states_rig_t *rig, int n);

kvs_status_t states_rig_save(const states_rig_t *rig, const char *path, int dump_optimizer);
kvs_status_t states_rig_load(states_rig_t *rig, const char *path);
/* A number that depends on all that a file would hold, and on the weights. */
uint64_t states_rig_digest(const states_rig_t *rig);
/* The weights of both are the same, bit by bit. */
int states_rig_same_weights(const states_rig_t *a, const states_rig_t *b);

/* A path in the test's own directory; static until the next call but three. */
const char *states_path(const char *name);

/* ---- Files as bytes ------------------------------------------------------------------------------ */

typedef struct bytes {
    char *data;
    size_t n;
} bytes_t;

bytes_t bytes_read(const char *path); /* n is 0 if it can't be read */
void bytes_write(const char *path, const bytes_t *bytes);
void bytes_release(bytes_t *bytes);
int bytes_equal(const bytes_t *a, const bytes_t *b);
/* The same file with `old` in its header replaced by `new`, once, its length and checksum mended. The
 * test fails if it is not there. */
bytes_t bytes_bend(const bytes_t *file, const char *old, const char *new_text);
/* The header as text; freed by bytes_release. */
bytes_t bytes_header(const bytes_t *file);

#endif
