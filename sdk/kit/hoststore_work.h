/* SPDX-License-Identifier: Apache-2.0 */
/* hoststore_work.h - one pass over the arrays of one key: sum the values, update the stored value, write
 * the outs. hoststore_exchange.c says what, this part how. */
#ifndef KVS_KIT_HOSTSTORE_WORK_H
#define KVS_KIT_HOSTSTORE_WORK_H

#include <kvstore/kit.h>

#define KVS_WORK_CUT 1024 /* elements: where work is cut is a multiple of it */

typedef struct kvs_work {
    kvs_hoststore_key_t *key;
    int64_t n_elems;
    int dtype;
    size_t elem_bytes;
    const void *const *values; /* to be summed; n_values is 0 if the stored value stays */
    size_t n_values;
    kvs_packed_t packed; /* the values, where packed.n_values is not 0; then `values` is not read */
    const kvs_opt_t *opt; /* NULL: the sum replaces the stored value */
    const kvs_opt_update_t *update;
    void **written; /* the stored value, then the outs of its dtype */
    size_t n_written;
    const kvs_tensor_t *outs; /* those of another dtype are converted to */
    size_t n_outs;
    const void *sum; /* of the values, where it is needed as a whole */
    int stream;      /* set by kvs_work_run: write past the caches */
} kvs_work_t;

/* Do it, big arrays cut over the host's pool. */
void kvs_work_run(const kvs_hoststore_t *host, kvs_work_t *work);

#endif
