/* SPDX-License-Identifier: Apache-2.0 */
/* device_sums.h - sums over devices along trees of their links (option usetree), in place of the kit's direct
 * exchange. */
#ifndef DEVICE_SUMS_H
#define DEVICE_SUMS_H

#include <kvstore/kit.h>

typedef struct device_store {
    kvs_devstore_t dev; /* first */
    int64_t bound;      /* arrays of more elements are cut over all roots */
    double penalty;     /* of a link that an earlier tree uses */
    int logs;           /* each plan of trees is logged */
} device_store_t;

/* For kvs_devstore_t.collective. */
extern const kvs_collective_t device_along_trees;

#endif
