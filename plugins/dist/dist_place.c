/* SPDX-License-Identifier: Apache-2.0 */
#include "dist_place.h"

#include <kvstore/kit.h>

#include <stdlib.h>

static uint64_t bytes_of(const dist_record_t *record, int64_t n_elems)
{
    return (uint64_t)n_elems * kvs_dtype_bytes(record->dtype);
}

static int64_t greatest_common_divisor(int64_t a, int64_t b)
{
    while (b != 0) {
        int64_t rest = a % b;

        a = b;
        b = rest;
    }
    return a;
}

/* Cuts are multiples of this: of blocks and rows, or of one of both if that leaves a server without
 * anything. 0: the array is not cut. */
static int64_t unit_of(const dist_placing_t *placing, const dist_record_t *record)
{
    const int64_t block = KVS_OPTIMIZER_SUM_BLOCK;
    int64_t row = dist_row_elems(record), both;

    if (record->n_elems < placing->cut_elems || record->n_elems <= block ||
        placing->n_servers < 2) {
        return 0;
    }
    if (__builtin_mul_overflow(row / greatest_common_divisor(row, block), block, &both) ||
        both > record->n_elems / placing->n_servers) {
        if (record->row_sparse) {
            return placing->whole_blocks ? 0 : row;
        }
        return placing->whole_rows ? 0 : block;
    }
    return both;
}

static uint32_t least_loaded(const dist_placing_t *placing)
{
    uint32_t best = 0;

    for (uint32_t s = 1; s < placing->n_servers; s++) {
        if (placing->loads[s] < placing->loads[best]) {
            best = s;
        }
    }
    return best;
}

/* Units are shared out evenly; where there are fewer than servers, some servers get none. */
static void cut(dist_placing_t *placing, dist_record_t *record, int64_t unit)
{
    int64_t n_units = (record->n_elems - 1) / unit + 1, n_servers = placing->n_servers;

    for (int64_t s = 0; s < n_servers; s++) {
        int64_t first = n_units / n_servers * s + n_units % n_servers * s / n_servers;
        int64_t next = n_units / n_servers * (s + 1) + n_units % n_servers * (s + 1) / n_servers;
        int64_t n = (next == n_units ? record->n_elems : next * unit) - first * unit;

        if (next > first) {
            record->shards[record->n_shards++] =
                (dist_shard_t){.server = (uint32_t)s, .first = first * unit, .n = n};
            placing->loads[s] += bytes_of(record, n);
        }
    }
}

static kvs_status_t place_one(dist_placing_t *placing, dist_record_t *record)
{
    int64_t unit = unit_of(placing, record);
    dist_shard_t *shards = calloc(unit > 0 ? placing->n_servers : 1, sizeof(*shards));

    if (shards == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory to place a key");
    }
    free(record->shards);
    record->shards = shards;
    record->n_shards = 0;
    if (unit > 0) {
        cut(placing, record, unit);
    } else {
        uint32_t server = least_loaded(placing);

        shards[0] = (dist_shard_t){.server = server, .n = record->n_elems};
        record->n_shards = 1;
        placing->loads[server] += bytes_of(record, record->n_elems);
    }
    return KVS_OK;
}

typedef struct rank {
    size_t index; /* in the list */
    uint64_t n_bytes;
} rank_t;

static int largest_first(const void *a, const void *b)
{
    const rank_t *left = a, *right = b;

    if (left->n_bytes != right->n_bytes) {
        return left->n_bytes > right->n_bytes ? -1 : 1;
    }
    return (left->index > right->index) - (left->index < right->index);
}

kvs_status_t dist_place(dist_placing_t *placing, dist_record_t *const *records, size_t n)
{
    rank_t *order = calloc(n + 1, sizeof(*order));
    kvs_status_t status = KVS_OK;

    if (order == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory to place %zu keys", n);
    }
    for (size_t i = 0; i < n; i++) {
        order[i] = (rank_t){i, bytes_of(records[i], records[i]->n_elems)};
    }
    qsort(order, n, sizeof(*order), largest_first);
    for (size_t i = 0; i < n && status == KVS_OK; i++) {
        status = place_one(placing, records[order[i].index]);
    }
    free(order);
    return status;
}
