/* SPDX-License-Identifier: Apache-2.0 */
/* idx.h - reads the IDX format, in which MNIST and Fashion-MNIST are published: two zero bytes, the
 * type (8: unsigned bytes, the only one read here), the number of dimensions, each dimension as
 * 32 bits, big end first, then the data. Files may be compressed by gzip: see inflow.h. */
#ifndef DEMO_IDX_H
#define DEMO_IDX_H

#include <kvstore/kvstore.h>

enum { IDX_MAX_DIMS = 3 };

typedef struct idx {
    uint8_t *bytes; /* owned */
    size_t n_bytes;
    size_t dims[IDX_MAX_DIMS];
} idx_t;

/* Read a file of `n_dims` dimensions. ERR_NOT_FOUND: no such file; ERR_FORMAT: foreign, truncated or
 * with bytes left over; ERR_IO. Freed by idx_release, which takes an empty one. */
kvs_status_t idx_read(const char *path, size_t n_dims, idx_t *ret_idx);
void idx_release(idx_t *idx);

#endif
