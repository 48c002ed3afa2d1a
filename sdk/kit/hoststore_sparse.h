/* SPDX-License-Identifier: Apache-2.0 */
/* hoststore_sparse.h - row-sparse arrays of a host store: what one of its groups does with them. Errors
 * name the key. */
#ifndef KVS_KIT_HOSTSTORE_SPARSE_H
#define KVS_KIT_HOSTSTORE_SPARSE_H

#include <kvstore/kit.h>

/* Of row_sparse_pulls that are issued: every out has room for the rows it is asked to hold. */
kvs_status_t kvs_sparse_check_issued(const kvs_op_t *op);

/* Give a new key, whose weight is zero, the rows of its value. */
kvs_status_t kvs_sparse_init(const kvs_group_t *group);

/* The sum of the group's values, all row-sparse, replaces the stored value or updates it. */
kvs_status_t kvs_sparse_push(const kvs_hoststore_t *host, const kvs_group_t *group);

/* Of a pushpull, before its push: the row-sparse outs have room for the rows that will certainly come: those
 * pushed, and with `host`, when what was issued before has been done, those that an update leaves. An
 * updater may make more. The error does not name the key, nor do those of the next one. */
kvs_status_t kvs_sparse_check_push_room(const kvs_hoststore_t *host, const kvs_group_t *group);

/* Write the rows that a row-sparse key has into a row-sparse out. ERR_ARGUMENT: it has not room
 * enough; checked for all outs of a group before any is written. */
kvs_status_t kvs_sparse_check_room(const kvs_key_entry_t *key, const kvs_tensor_t *outs,
                                   size_t n_outs);
kvs_status_t kvs_sparse_pull(const kvs_key_entry_t *key, const kvs_tensor_t *out);

/* Write rows `ids` of the stored value into the out, which has room for them. */
void kvs_sparse_write_out(const kvs_key_entry_t *key, int64_t n, const int64_t *ids,
                          const kvs_tensor_t *out);
/* Out `index` has no room for n rows; the key is not named. */
kvs_status_t kvs_sparse_fail_room(size_t index, const kvs_tensor_t *out, int64_t n);

static inline int kvs_sparse_has_rows(const kvs_tensor_t *tensors, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (tensors[i].rows != NULL) {
            return 1;
        }
    }
    return 0;
}

#endif
