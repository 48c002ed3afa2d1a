/* SPDX-License-Identifier: Apache-2.0 */
/* dist_spec.h - the specification of an optimizer as data: names and typed parameters, nothing that
 * could be executed. Equal specifications give equal bytes. */
#ifndef DIST_SPEC_H
#define DIST_SPEC_H

#include "dist_bytes.h"

#include <kvstore/plugin.h>

/* ERR_ARGUMENT: a name, text or list that is NULL where something is needed. */
kvs_status_t dist_spec_encode(const kvs_optimizer_spec_t *spec, dist_bytes_t *bytes);

/* What was read, and its memory. Texts point into the bytes. */
typedef struct dist_spec {
    kvs_optimizer_spec_t spec;
    void *lists[8]; /* owned */
    size_t n_lists;
    int64_t *integers; /* owned: of all parameters */
} dist_spec_t;

/* ERR_FORMAT: malformed. */
kvs_status_t dist_spec_decode(const void *bytes, size_t n_bytes, dist_spec_t *ret_spec);
void dist_spec_release(dist_spec_t *spec);

#define DIST_SPEC_TEXT_BYTES 400
/* "sgd (learning_rate 0.1, momentum 0.9)", cut where it is long; gives `text`. For messages. */
const char *dist_spec_text(const void *bytes, size_t n_bytes, char *text);

#endif
