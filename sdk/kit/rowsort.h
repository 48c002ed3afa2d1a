/* SPDX-License-Identifier: Apache-2.0 */
/* rowsort.h - row ids in order: by a stable radix sort, so that the time does not depend on how the ids
 * lie, and rows of equal id stay in the order they came in. */
#ifndef KVS_KIT_ROWSORT_H
#define KVS_KIT_ROWSORT_H

#include <stdint.h>

/* A row of a value, and the id it was given. */
typedef struct kvs_row_source {
    int64_t id;
    uintptr_t row; /* its address */
} kvs_row_source_t;

/* Sort `n` ids or sources whose ids lie in [0, n_rows). `scratch` has room for as many. */
void kvs_rowsort_ids(int64_t n, int64_t n_rows, int64_t *ids, int64_t *scratch);
void kvs_rowsort_sources(int64_t n, int64_t n_rows, kvs_row_source_t *sources,
                         kvs_row_source_t *scratch);

#endif
