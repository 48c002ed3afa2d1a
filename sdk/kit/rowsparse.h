/* SPDX-License-Identifier: Apache-2.0 */
/* rowsparse.h - what the files of row-sparse values share beyond kit.h. */
#ifndef KVS_KIT_ROWSPARSE_H
#define KVS_KIT_ROWSPARSE_H

#include <kvstore/kit.h>

/* ERR_RANGE: the id is none of n_rows. */
kvs_status_t kvs_row_fail_range(int64_t id, int64_t n_rows);

/* Have a row that is written or read soon on its way to the caches. */
static inline void kvs_row_prefetch(const void *row, size_t n_bytes)
{
    for (size_t at = 0; at < n_bytes && at < 512; at += 64) {
        __builtin_prefetch((const char *)row + at);
    }
}

/* How many rows ahead that is. */
#define KVS_ROWS_AHEAD 8

#endif
