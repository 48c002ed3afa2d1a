/* SPDX-License-Identifier: Apache-2.0 */
/* allreduce.h - what stores of allreduce backends (`horovod`) can beyond kvstore.h: other reductions than
 * the sum, and allgather. Stores of other backends answer ERR_NOT_IMPLEMENTED. Statuses, texts and threads
 * as in kvstore.h. The names are those of the field: Horovod's allreduce with op=Average, Min and Max, and
 * its allgather; its join is kvs_store_join_last. */
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
    KVS_REDUCE_AVERAGE =
        1,              /* the sum divided by the workers that took part; integers: rounded down */
    KVS_REDUCE_MIN = 2, /* of each element; NaN if one is NaN */
    KVS_REDUCE_MAX = 3
};

#define KVS_ALLREDUCE_EXTENSION "allreduce"

/* The table of the extension, as the backend gives it. New members are appended. */
typedef struct kvs_allreduce_ops {
    uint32_t size;
    uint32_t reserved;
    kvs_status_t (*allgather)(void *state, const kvs_key_t *key, const kvs_tensor_t *value,
                              const kvs_tensor_t *out);
} kvs_allreduce_ops_t;

static inline kvs_status_t kvs_allreduce_find(kvs_store_t *store,
                                              const kvs_allreduce_ops_t **ret_ops, void **ret_state)
{
    const void *table = NULL;
    kvs_status_t status = kvs_store_extension(store, KVS_ALLREDUCE_EXTENSION, &table, ret_state);

    *ret_ops = (const kvs_allreduce_ops_t *)table;
    return status;
}

/* Every worker gets the values of all, one behind the other in order of rank: the value's first
 * dimension may differ among workers, the others and the dtype must not, and the out's first dimension is
 * the sum of theirs. Both are dense and compact, on devices that pushpull takes, and don't overlap. Waits. ERR_SHAPE:
 * workers disagree (told to all), or this worker's out has other room (told to this one alone). `key`
 * names the exchange, beside those of pushpull. */
static inline kvs_status_t kvs_allgather(kvs_store_t *store, kvs_key_t key,
                                         const kvs_tensor_t *value, const kvs_tensor_t *out)
{
    const kvs_allreduce_ops_t *ops = NULL;
    void *state = NULL;
    kvs_status_t status = kvs_allreduce_find(store, &ops, &state);

    return status == KVS_OK ? ops->allgather(state, &key, value, out) : status;
}

#ifdef __cplusplus
}
#endif
#endif
