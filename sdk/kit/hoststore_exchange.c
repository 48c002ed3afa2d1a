/* SPDX-License-Identifier: Apache-2.0 */
/* hoststore_exchange.c - push, pull and pushpull of a host store: sum, update, write outs.
 *
 * The idea is one pass over memory. Where only sums and copies are asked for, one kernel reads all
 * values and writes the stored value and all outs; where an optimizer or a conversion takes part,
 * the way goes block by block, each block staying in the first caches until it is done. */
#include "fpenv.h"
#include "pieces.h"
#include "sum.h"

#include <kvstore/kit.h>

#include <stdlib.h>

/* Elements of a block. While sums alternate with updates, blocks of a page of float32 keep the
 * processor's prefetching on the way in all arrays: a third faster than twice as many, measured. */
#define SUM_BLOCK_ELEMS  1024
#define BLOCK_ELEMS      2048
#define SUM_BLOCK_BYTES  (SUM_BLOCK_ELEMS * 8) /* of the widest dtype */
#define STREAM_MIN_BYTES (64u << 10) /* smaller arrays are left to the caches: they are soon read */
#define FEW              8           /* arrays for which no list is allocated */

/* The parts of an operation: the verb says which are wanted, whatever arrays its groups hold. */
enum { READ_VALUES = 1, WRITE_OUTS = 2 };

/* Work on one key; run_piece does it for a part. */
typedef struct work {
    kvs_hoststore_key_t *key;
    int64_t n_elems;
    int dtype;
    size_t elem_bytes;
    const void *const *values; /* to be summed; n_values is 0 if the stored value stays */
    size_t n_values;
    const kvs_opt_t *opt; /* NULL: the sum replaces the stored value */
    const kvs_opt_update_t *update;
    void **written; /* the stored value, then the outs of its dtype */
    size_t n_written;
    const kvs_tensor_t *outs; /* those of another dtype are converted to */
    size_t n_outs;
    int stream;      /* write past the caches */
    const void *sum; /* of the values, where it is needed as a whole */
} work_t;

/* ---- A piece of the work, on any thread ------------------------------------------------------------ */

static void *element(const work_t *work, const void *data, int64_t index)
{
    return (char *)data + (size_t)index * work->elem_bytes;
}

static int has_conversions(const work_t *work)
{
    return work->n_written <= work->n_outs;
}

static void convert_outs(const work_t *work, int64_t begin, int64_t end)
{
    for (size_t i = 0; i < work->n_outs; i++) {
        int dtype = kvs_dtype_index(work->outs[i].dtype);

        if (dtype != work->dtype) {
            kvs_cast(end - begin, work->dtype, element(work, work->key->weight, begin), dtype,
                     (char *)work->outs[i].data + (size_t)begin * kvs_dtype_bytes(dtype));
        }
    }
}

static void copy_to_outs(const work_t *work, int64_t begin, int64_t end)
{
    const void *weight = work->key->weight;

    kvs_sum_range(work->dtype, begin, end, &weight, 1, work->written + 1, work->n_written - 1,
                  work->stream);
}

static void update_weight(const work_t *work, int64_t begin, int64_t end)
{
    _Alignas(64) char block[SUM_BLOCK_BYTES];
    const void *grad = block;

    if (work->n_values == 1) {
        grad = element(work, work->values[0], begin);
    } else {
        kvs_sum_block(work->dtype, begin, end, work->values, work->n_values, block);
    }
    kvs_opt_step(work->opt, work->update, &work->key->opt, work->dtype, begin, end - begin, grad,
                 element(work, work->key->weight, begin));
}

static void run_block(const work_t *work, int64_t begin, int64_t end)
{
    if (work->n_values == 0) {
        copy_to_outs(work, begin, end);
    } else if (work->opt != NULL) {
        update_weight(work, begin, end);
        copy_to_outs(work, begin, end);
    } else {
        kvs_sum_range(work->dtype, begin, end, work->values, work->n_values, work->written,
                      work->n_written, work->stream);
    }
    convert_outs(work, begin, end);
}

static int64_t block_elems(const work_t *work, int64_t n_elems)
{
    if (work->opt != NULL && work->n_values > 1) {
        return SUM_BLOCK_ELEMS;
    }
    return work->opt != NULL || has_conversions(work) ? BLOCK_ELEMS : n_elems;
}

static void run_piece(void *arg, int64_t begin, int64_t end)
{
    const work_t *work = arg;
    int64_t block = block_elems(work, end - begin);
    unsigned saved = kvs_fpenv_enter();

    for (int64_t at = begin; at < end; at += block) {
        run_block(work, at, end - at < block ? end : at + block);
    }
    kvs_fpenv_leave(saved);
}

/* ---- The whole of it ----------------------------------------------------------------------------- */

/* Not if the stored value is read again for conversions. Outs of a store that the caches can't hold
 * will have left them before anybody reads them, whatever the size of this one. */
static int pays_to_stream(const kvs_hoststore_t *host, const work_t *work, uint64_t n_bytes)
{
    uint64_t n_arrays = 1 + work->n_values + work->n_outs;
    uint64_t n_stored = __atomic_load_n(&host->n_bytes, __ATOMIC_RELAXED);

    return !has_conversions(work) && (kvs_exceeds_cache(n_bytes) ||
                                      (work->n_outs > 0 && n_bytes >= n_arrays * STREAM_MIN_BYTES &&
                                       kvs_exceeds_cache(n_stored * n_arrays)));
}

static void run(const kvs_hoststore_t *host, work_t *work)
{
    uint64_t n_arrays = 1 + work->n_values + work->n_outs + (work->opt != NULL ? 3 : 0);
    uint64_t n_bytes = (uint64_t)work->n_elems * work->elem_bytes * n_arrays;

    if (work->n_elems > 0) {
        work->stream = pays_to_stream(host, work, n_bytes);
        kvs_for_pieces(work->n_elems, n_bytes, run_piece, work);
    }
}

/* Leave one value: the sum of all. */
static void sum_whole(work_t *work)
{
    const kvs_provider_t *cpu = kvs_cpu_provider();

    if (work->n_values == 1) {
        work->sum = work->values[0];
    } else {
        cpu->sum(work->dtype, work->n_elems, work->values, work->n_values, &work->key->merge, 1);
        work->sum = work->key->merge;
    }
    work->values = &work->sum;
    work->n_values = 1;
}

/* The merge buffer, if the sum is needed as a whole and is not one of the values. */
static kvs_status_t make_merge(const work_t *work)
{
    const kvs_provider_t *cpu = kvs_cpu_provider();

    if (work->n_values == 1 || work->key->merge != NULL) {
        return KVS_OK;
    }
    return cpu->alloc((kvs_device_t){KVS_DEVICE_CPU, 0}, work->key->n_bytes, &work->key->merge);
}

static kvs_status_t name_key(kvs_status_t status, const kvs_key_entry_t *key)
{
    return key->name != NULL ? kvs_fail_context(status, "key '%s'", key->name)
                             : kvs_fail_context(status, "key %lld", (long long)key->number);
}

static kvs_tensor_t view_of(const kvs_key_entry_t *key, const void *data)
{
    return (kvs_tensor_t){
        .data = (void *)data,
        .device = {KVS_DEVICE_CPU, 0},
        .ndim = key->ndim,
        .dtype = key->dtype,
        .shape = key->shape,
    };
}

static kvs_status_t call_updater(const kvs_hoststore_t *host, const kvs_key_entry_t *key,
                                 const work_t *work)
{
    kvs_key_t name = {key->name, key->number};
    kvs_tensor_t value = view_of(key, work->sum);
    kvs_tensor_t stored = view_of(key, work->key->weight);
    kvs_status_t status = host->updater(&name, &value, &stored, host->updater_arg);

    if (status != KVS_OK) {
        (void)kvs_fail_context(KVS_ERR_CALLBACK, "updater returned %s", kvs_status_name(status));
        return name_key(KVS_ERR_CALLBACK, key);
    }
    return KVS_OK;
}

static kvs_status_t run_updater(const kvs_hoststore_t *host, const kvs_key_entry_t *key,
                                work_t *work)
{
    kvs_status_t status = make_merge(work);

    if (status != KVS_OK) {
        return name_key(status, key);
    }
    sum_whole(work);
    status = call_updater(host, key, work);
    if (status == KVS_OK && work->n_outs > 0) {
        work->n_values = 0;
        run(host, work);
    }
    return status;
}

static kvs_status_t run_optimizer(const kvs_hoststore_t *host, const kvs_group_t *group,
                                  work_t *work)
{
    kvs_hoststore_group_t *issued = group->state;
    int needs_whole = kvs_opt_needs_whole(host->opt);
    kvs_status_t status = needs_whole ? make_merge(work) : KVS_OK;

    if (status == KVS_OK) {
        status = kvs_opt_begin(host->opt, &work->key->opt, group->key, work->key->weight);
    }
    if (status != KVS_OK) {
        return name_key(status, group->key);
    }
    work->opt = host->opt;
    work->update = &issued->update;
    if (needs_whole) {
        sum_whole(work);
        kvs_opt_prepare(host->opt, &work->key->opt, work->dtype, work->n_elems, work->sum,
                        work->key->weight, &issued->update);
    }
    run(host, work);
    return KVS_OK;
}

/* ---- Groups -------------------------------------------------------------------------------------- */

/* The lists of pointers that the kernels take. */
typedef struct lists {
    void *few[2 * FEW + 1];
    void **allocated;
} lists_t;

static void lists_release(lists_t *lists)
{
    free(lists->allocated);
}

static kvs_status_t lists_fill(lists_t *lists, const kvs_tensor_t *values, size_t n_values,
                               work_t *work)
{
    void **list = lists->few;

    lists->allocated = NULL;
    if (n_values + work->n_outs > 2 * FEW) {
        list = lists->allocated = malloc((n_values + work->n_outs + 1) * sizeof(*list));
    }
    if (list == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for a list of %zu arrays",
                        n_values + work->n_outs);
    }
    work->values = (const void *const *)list;
    work->n_values = n_values;
    for (size_t i = 0; i < n_values; i++) {
        *list++ = values[i].data;
    }
    work->written = list;
    *list++ = work->key->weight;
    for (size_t i = 0; i < work->n_outs; i++) {
        if (kvs_dtype_index(work->outs[i].dtype) == work->dtype) {
            *list++ = work->outs[i].data;
        }
    }
    work->n_written = (size_t)(list - work->written);
    return KVS_OK;
}

/* Sum the group's first n_values values, update, and write n_outs outs, beginning with `outs`. */
static kvs_status_t exchange(const kvs_hoststore_t *host, const kvs_group_t *group, size_t n_values,
                             const kvs_tensor_t *outs, size_t n_outs)
{
    work_t work = {
        .key = group->key->state,
        .n_elems = group->key->n_elems,
        .dtype = kvs_dtype_index(group->key->dtype),
        .outs = outs,
        .n_outs = n_outs,
    };
    lists_t lists;

    work.elem_bytes = kvs_dtype_bytes(work.dtype);
    kvs_status_t status = lists_fill(&lists, group->values, n_values, &work);

    if (status != KVS_OK) {
        return name_key(status, group->key);
    }
    if (n_values > 0 && host->updater != NULL) {
        status = run_updater(host, group->key, &work);
    } else if (n_values > 0 && host->opt != NULL) {
        status = run_optimizer(host, group, &work);
    } else {
        run(host, &work);
    }
    lists_release(&lists);
    return status;
}

/* ---- Operations whose arrays share memory: all reads, then the outs in the order of the call ---------- */

typedef struct place {
    size_t index; /* among the outs of the call */
    const kvs_group_t *group;
    const kvs_tensor_t *out;
} place_t;

static int by_index(const void *left, const void *right)
{
    size_t a = ((const place_t *)left)->index, b = ((const place_t *)right)->index;

    return (a > b) - (a < b);
}

static kvs_status_t list_places(const kvs_op_t *op, place_t **ret_places, size_t *ret_n)
{
    size_t n = 0;

    for (size_t i = 0; i < op->n_groups; i++) {
        n += op->groups[i].n_outs;
    }
    place_t *places = malloc((n + 1) * sizeof(*places));

    if (places == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for a list of %zu outs", n);
    }
    n = 0;
    for (size_t i = 0; i < op->n_groups; i++) {
        const kvs_group_t *group = &op->groups[i];

        for (size_t j = 0; j < group->n_outs; j++) {
            places[n++] = (place_t){group->out_index[j], group, &group->outs[j]};
        }
    }
    qsort(places, n, sizeof(*places), by_index);
    *ret_places = places;
    *ret_n = n;
    return KVS_OK;
}

static kvs_status_t exchange_shared(const kvs_hoststore_t *host, const kvs_op_t *op, unsigned what)
{
    place_t *places = NULL;
    size_t n_places = 0;
    kvs_status_t status = what & WRITE_OUTS ? list_places(op, &places, &n_places) : KVS_OK;

    if (what & READ_VALUES) {
        for (size_t i = 0; i < op->n_groups && status == KVS_OK; i++) {
            status = exchange(host, &op->groups[i], op->groups[i].n_values, NULL, 0);
        }
    }
    for (size_t i = 0; i < n_places && status == KVS_OK; i++) {
        status = exchange(host, places[i].group, 0, places[i].out, 1);
    }
    free(places);
    return status;
}

/* ---- The verbs ------------------------------------------------------------------------------------- */

static kvs_status_t exchange_op(const kvs_hoststore_t *host, const kvs_op_t *op, unsigned what)
{
    kvs_status_t status = KVS_OK;

    if (op->flags & KVS_OP_SHARED) {
        return exchange_shared(host, op, what);
    }
    for (size_t i = 0; i < op->n_groups && status == KVS_OK; i++) {
        const kvs_group_t *group = &op->groups[i];

        status = exchange(host, group, what & READ_VALUES ? group->n_values : 0, group->outs,
                          what & WRITE_OUTS ? group->n_outs : 0);
    }
    return status;
}

kvs_status_t kvs_hoststore_push(void *store, kvs_op_t *op)
{
    return exchange_op(store, op, READ_VALUES);
}

kvs_status_t kvs_hoststore_pull(void *store, kvs_op_t *op)
{
    return exchange_op(store, op, WRITE_OUTS);
}

kvs_status_t kvs_hoststore_pushpull(void *store, kvs_op_t *op)
{
    return exchange_op(store, op, READ_VALUES | WRITE_OUTS);
}
