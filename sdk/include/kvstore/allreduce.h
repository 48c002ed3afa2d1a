/* SPDX-License-Identifier: Apache-2.0 */
/* allreduce.h - what stores of allreduce backends (`horovod`) can beyond kvstore.h: other reductions than
 * the sum, allgather, and a join that says who came last. Backends that have none of it answer
 * ERR_NOT_IMPLEMENTED. Statuses, texts and threads as in kvstore.h. */
#ifndef KVSTORE_ALLREDUCE_H
#define KVSTORE_ALLREDUCE_H

#include <kvstore/kvstore.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What pushpull makes of the workers' values: kvs_call_t.reduce. Several values of one worker are
 * summed first, whatever the reduction. All workers must ask for the same. */
enum {
    KVS_REDUCE_SUM = 0,
    KVS_REDUCE_AVERAGE = 1, /* the sum divided by the workers that took part; integers: rounded down */
    KVS_REDUCE_MIN = 2,     /* of each element; NaN if one is NaN */
    KVS_REDUCE_MAX = 3
};

/* Extension "allreduce" of a backend: kvs_backend_ops_t.extension gives it. */
typedef struct kvs_allreduce_ops {
    uint32_t size;
    uint32_t reserved;
    kvs_status_t (*allgather)(void *store, const kvs_key_t *key, const kvs_tensor_t *value,
                              const kvs_tensor_t *out);
    kvs_status_t (*join)(void *store, int *ret_last_rank);
} kvs_allreduce_ops_t;

#ifdef __cplusplus
}
#endif
#endif
