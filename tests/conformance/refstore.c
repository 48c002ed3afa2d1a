/* SPDX-License-Identifier: Apache-2.0 */
/* refstore.c - a store in the plainest C there is, written on abi.h alone: with weights, or as an
 * exchange without; of one worker, or of two (peer.h). Element by element, no kit, no blocks.
 *
 * `has(store, M_…)` marks each place where a mutation makes it wrong; without one it is right, and
 * the suite must find nothing. */
#include "mutants.h"

#include "number.h"
#include "peer.h"

#include <kvstore/abi.h>
#include <kvstore/allreduce.h>

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host.h"

typedef struct ref_store {
    mutation_t mutation;
    kvs_updater_t updater;
    void *updater_arg;
    bool optimizes; /* pretends_to_optimize */
    enum { PROPAGATE, SKIP, REFUSE } nonfinite;
} ref_store_t;

typedef struct ref_key {
    void *value;
    void *previous;       /* returns_previous */
    const void *borrowed; /* keeps_pointer, keeps_init_pointer: read in place of `value` */
    size_t n_values;      /* keeps_number_of_values: of the first push */
    size_t n_pushes;      /* rotates_list */
    int64_t n_elems;      /* wants_one_shape, broadcasts_once: of the first use, plus one */
} ref_key_t;

typedef struct ref_group {
    void *sum;
    size_t n_written; /* outs done so far */
} ref_group_t;

static bool has(const ref_store_t *store, mutation_t mutation)
{
    return store->mutation == mutation;
}

/* ---- Arithmetic ---------------------------------------------------------------------------------- */

static bool is_floating(int dtype)
{
    return kvs_dtype(dtype).code == KVS_CODE_FLOAT || kvs_dtype(dtype).code == KVS_CODE_BFLOAT;
}

static bool is_half(int dtype)
{
    return dtype == KVS_DTYPE_float16 || dtype == KVS_DTYPE_bfloat16;
}

static int64_t n_elems_of(const kvs_tensor_t *tensor)
{
    int64_t n = 1;

    for (int32_t i = 0; i < tensor->ndim; i++) {
        n *= tensor->shape[i];
    }
    return n;
}

static const void *at(int dtype, const void *data, int64_t i)
{
    return (const char *)data + (size_t)i * cf_dtype_bytes(dtype);
}

/* One step of a floating sum: float64 in double, all others in float. */
static double add(const ref_store_t *store, int dtype, double sum, double value)
{
    char half[8];

    if (has(store, M_sums_in_float32)) {
        return (float)sum + (float)value;
    }
    if (dtype == KVS_DTYPE_float64 ||
        (dtype == KVS_DTYPE_float32 && has(store, M_sums_float32_in_double))) {
        return sum + value;
    }
    sum = (float)sum + (float)value;
    if (is_half(dtype) && has(store, M_accumulates_in_half)) {
        cf_encode(dtype, sum, half);
        sum = cf_decode(dtype, half);
    }
    return sum;
}

static void put_floating(const ref_store_t *store, int dtype, double sum, void *to)
{
    uint16_t bits;

    sum *= store->optimizes ? 2 : 1;
    if (has(store, M_flushes_nan) && isnan(sum)) {
        sum = 0;
    }
    if (has(store, M_flushes_subnormals) &&
        fabs(sum) < (dtype == KVS_DTYPE_float64 ? 0x1p-1022 : 0x1p-126)) {
        sum = 0;
    }
    cf_encode(dtype, sum, to);
    if (is_half(dtype) && has(store, M_truncates_half) && fabs(cf_decode(dtype, to)) > fabs(sum)) {
        memcpy(&bits, to, sizeof(bits));
        bits--; /* one unit nearer to zero */
        memcpy(to, &bits, sizeof(bits));
    }
}

static void put_integer(const ref_store_t *store, int dtype, uint64_t sum, void *to)
{
    int64_t signed_sum = (int64_t)sum;

    if (has(store, M_saturates_integers)) {
        int64_t top = dtype == KVS_DTYPE_int8    ? INT8_MAX
                      : dtype == KVS_DTYPE_uint8 ? UINT8_MAX
                                                 : INT32_MAX;

        signed_sum = signed_sum > top ? top : signed_sum;
    }
    if (has(store, M_sums_in_float32)) {
        signed_sum = (int64_t)(float)signed_sum;
    }
    cf_encode_int(dtype, signed_sum, to);
}

/* The value that is the `i`-th to be added. */
static const kvs_tensor_t *value_at(const ref_store_t *store, const kvs_group_t *group, size_t n,
                                    size_t i)
{
    const ref_key_t *key = group->key->state;

    if (has(store, M_reverses_list)) {
        return &group->values[n - 1 - i];
    }
    if (has(store, M_rotates_list)) {
        return &group->values[(i + key->n_pushes) % n];
    }
    return &group->values[i];
}

static size_t n_values_of(const ref_store_t *store, const kvs_group_t *group)
{
    const ref_key_t *key = group->key->state;

    if (has(store, M_drops_last_value) && group->n_values > 1) {
        return group->n_values - 1;
    }
    if (has(store, M_keeps_number_of_values) && key->n_values > 0 &&
        key->n_values < group->n_values) {
        return key->n_values;
    }
    return has(store, M_gives_first_value) ? 1 : group->n_values;
}

static void sum_element(const ref_store_t *store, const kvs_group_t *group, int dtype, size_t n,
                        int64_t i, void *to)
{
    double real = 0;
    uint64_t integer = 0;

    for (size_t j = 0; j < n; j++) {
        const void *from = at(dtype, value_at(store, group, n, j)->data, i);

        if (!is_floating(dtype)) {
            integer += (uint64_t)cf_decode_int(dtype, from);
        } else if (j == 0) {
            real = cf_decode(dtype, from);
        } else {
            real = add(store, dtype, real, cf_decode(dtype, from));
        }
    }
    if (is_floating(dtype)) {
        put_floating(store, dtype, real, to);
    } else {
        put_integer(store, dtype, integer, to);
    }
}

/* How many elements of an array get attention. */
static int64_t n_elems_done(const ref_store_t *store, int64_t n_elems)
{
    if (has(store, M_forgets_remainder) && n_elems > 16) {
        return n_elems / 16 * 16;
    }
    return has(store, M_stops_at_a_megabyte) && n_elems > 1 << 18 ? 1 << 18 : n_elems;
}

/* The sum of this worker's values into the group's own memory. */
static kvs_status_t sum_here(const ref_store_t *store, const kvs_group_t *group)
{
    ref_group_t *state = group->state;
    ref_key_t *key = group->key->state;
    int dtype = kvs_dtype_index(group->values[0].dtype);
    int64_t n_elems = n_elems_of(&group->values[0]);
    size_t n = n_values_of(store, group);

    if (has(store, M_refuses_zero_size) && n_elems == 0) {
        return kvs_fail(KVS_ERR_SHAPE, "there is nothing to push");
    }
    if (has(store, M_refuses_scalars) && group->values[0].ndim == 0) {
        return kvs_fail(KVS_ERR_SHAPE, "an array has dimensions");
    }
    state->sum = calloc((size_t)n_elems + 1, cf_dtype_bytes(dtype));
    if (state->sum == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for a sum");
    }
    for (int64_t i = 0; i < n_elems_done(store, n_elems); i++) {
        sum_element(store, group, dtype, n, i, (void *)at(dtype, state->sum, i));
    }
    if (has(store, M_changes_value) && n_elems > 0) {
        memcpy(group->values[0].data, state->sum, (size_t)n_elems * cf_dtype_bytes(dtype));
    }
    key->n_values = key->n_values ? key->n_values : group->n_values;
    key->n_pushes++;
    return KVS_OK;
}

/* ---- Two workers --------------------------------------------------------------------------------- */

static kvs_status_t trade(const kvs_key_entry_t *entry, const void *mine, size_t n_bytes,
                          void **ret_theirs)
{
    char name[64];
    void *theirs = malloc(n_bytes + 1);
    kvs_status_t status;

    if (theirs == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for the other's array");
    }
    snprintf(name, sizeof(name), "%.40s %lld", entry->name ? entry->name : "",
             (long long)entry->number);
    status = peer_trade(name, mine, n_bytes, theirs);
    if (status != KVS_OK) {
        free(theirs);
        return status;
    }
    *ret_theirs = theirs;
    return KVS_OK;
}

/* What is done in place of `reduce`. */
static uint32_t reduction_of(const ref_store_t *store, uint32_t reduce)
{
    if ((has(store, M_sums_for_average) && reduce == KVS_REDUCE_AVERAGE) ||
        (has(store, M_gives_sum_for_extremes) && reduce != KVS_REDUCE_AVERAGE)) {
        return KVS_REDUCE_SUM;
    }
    return has(store, M_takes_greatest_for_least) && reduce == KVS_REDUCE_MIN ? KVS_REDUCE_MAX
                                                                              : reduce;
}

static double combine_floating(const ref_store_t *store, int dtype, uint32_t reduce, double first,
                               double second)
{
    switch (reduce) {
    case KVS_REDUCE_MIN:
        return isnan(first) || first < second ? first : second;
    case KVS_REDUCE_MAX:
        return isnan(first) || first > second ? first : second;
    case KVS_REDUCE_AVERAGE:
        return add(store, dtype, first, second) / 2;
    default:
        return add(store, dtype, first, second);
    }
}

static uint64_t combine_integers(const ref_store_t *store, uint32_t reduce, int64_t first,
                                 int64_t second)
{
    int64_t sum = (int64_t)((uint64_t)first + (uint64_t)second);

    switch (reduce) {
    case KVS_REDUCE_MIN:
        return (uint64_t)(first < second ? first : second);
    case KVS_REDUCE_MAX:
        return (uint64_t)(first > second ? first : second);
    case KVS_REDUCE_AVERAGE:
        return (uint64_t)(sum / 2 - (sum % 2 < 0 && !has(store, M_rounds_averages_to_zero)));
    default:
        return (uint64_t)sum;
    }
}

/* Take in the other worker's sum, rank 0's first on both. */
static kvs_status_t take_theirs(const ref_store_t *store, const kvs_key_entry_t *entry, int dtype,
                                uint32_t reduce, int64_t n_elems, void *sum)
{
    void *theirs;
    kvs_status_t status = trade(entry, sum, (size_t)n_elems * cf_dtype_bytes(dtype), &theirs);

    if (status != KVS_OK) {
        return status;
    }
    for (int64_t i = 0; i < n_elems; i++) {
        const void *mine = at(dtype, sum, i), *other = at(dtype, theirs, i);
        const void *first = peer_rank() == 0 ? mine : other;
        const void *second = peer_rank() == 0 ? other : mine;

        if (is_floating(dtype)) {
            put_floating(store, dtype,
                         combine_floating(store, dtype, reduce, cf_decode(dtype, first),
                                          cf_decode(dtype, second)),
                         (void *)mine);
        } else {
            put_integer(store, dtype,
                        combine_integers(store, reduce, cf_decode_int(dtype, first),
                                         cf_decode_int(dtype, second)),
                        (void *)mine);
        }
    }
    free(theirs);
    return KVS_OK;
}

/* The sum of a group's values, and what `reduce` makes of it over the workers. */
static kvs_status_t reduce_values(const ref_store_t *store, const kvs_group_t *group,
                                  uint32_t reduce)
{
    const ref_group_t *state = group->state;
    kvs_status_t status = sum_here(store, group);

    if (status != KVS_OK || peer_n_workers() == 1) {
        return status; /* an average, or the least, of one */
    }
    return take_theirs(store, group->key, kvs_dtype_index(group->values[0].dtype),
                       reduction_of(store, reduce), n_elems_of(&group->values[0]), state->sum);
}

static kvs_status_t sum_values(const ref_store_t *store, const kvs_group_t *group)
{
    return reduce_values(store, group, KVS_REDUCE_SUM);
}

/* Rank 0's array for both. */
static kvs_status_t take_first(const kvs_key_entry_t *entry, size_t n_bytes, void *array)
{
    void *theirs;
    kvs_status_t status;

    if (peer_n_workers() == 1) {
        return KVS_OK;
    }
    status = trade(entry, array, n_bytes, &theirs);
    if (status != KVS_OK) {
        return status;
    }
    if (peer_rank() != 0) {
        memcpy(array, theirs, n_bytes);
    }
    free(theirs);
    return KVS_OK;
}

/* The one value of a group, rank 0's; there is nothing to reduce. */
static kvs_status_t first_value(const ref_store_t *store, const kvs_group_t *group, uint32_t reduce)
{
    const ref_group_t *state = group->state;
    int dtype = kvs_dtype_index(group->values[0].dtype);
    kvs_status_t status = sum_here(store, group);

    (void)reduce;
    return status != KVS_OK
               ? status
               : take_first(group->key,
                            (size_t)n_elems_of(&group->values[0]) * cf_dtype_bytes(dtype),
                            state->sum);
}

/* ---- Writing outs -------------------------------------------------------------------------------- */

static void write_out(const ref_store_t *store, int dtype, const void *from,
                      const kvs_tensor_t *out)
{
    int64_t n_elems = n_elems_of(out);
    int to = kvs_dtype_index(out->dtype);

    for (int64_t i = 0; i < n_elems; i++) {
        void *element = (void *)at(to, out->data, i);

        if (dtype == to) {
            memcpy(element, at(dtype, from, i), cf_dtype_bytes(dtype));
        } else if (has(store, M_converts_nothing) || has(store, M_converts_no_outs)) {
            memset(element, 0, cf_dtype_bytes(to));
            memcpy(element, at(dtype, from, i),
                   cf_dtype_bytes(cf_dtype_bytes(to) < cf_dtype_bytes(dtype) ? to : dtype));
        } else {
            cf_encode(to, cf_decode(dtype, at(dtype, from, i)), element);
        }
    }
    if (has(store, M_writes_past_end)) {
        memset((void *)at(to, out->data, n_elems), 0, 1);
    }
}

/* The group whose next out comes first in the call; NULL when all are written. */
static const kvs_group_t *next_group(const ref_store_t *store, const kvs_op_t *op)
{
    const kvs_group_t *next = NULL;
    size_t first = SIZE_MAX;

    for (size_t g = 0; g < op->n_groups; g++) {
        const kvs_group_t *group = &op->groups[g];
        size_t n_written = ((const ref_group_t *)group->state)->n_written;
        size_t place = g;

        if (n_written == group->n_outs) {
            continue;
        }
        if (op->flags & KVS_OP_SHARED && !has(store, M_ignores_out_order)) {
            place = group->out_index[n_written];
        }
        if (place < first) {
            first = place;
            next = group;
        }
    }
    return next;
}

static bool is_value(const kvs_group_t *group, const kvs_tensor_t *out)
{
    for (size_t i = 0; i < group->n_values; i++) {
        if (group->values[i].data == out->data) {
            return true;
        }
    }
    return false;
}

static bool skips(const ref_store_t *store, const kvs_group_t *group, size_t i)
{
    return (i > 0 && (has(store, M_writes_first_out) || has(store, M_gives_first_out))) ||
           (has(store, M_forgets_in_place) && is_value(group, &group->outs[i])) ||
           (has(store, M_writes_only_in_place) && !is_value(group, &group->outs[i]));
}

static const void
    *last_init; /* shares_values_of_stores: what the last init of any store has made */

/* What a pull of the key gives. */
static const void *readable(const ref_store_t *store, const kvs_group_t *group, bool from_sum)
{
    const ref_key_t *key = group->key->state;

    if (from_sum) {
        return ((const ref_group_t *)group->state)->sum;
    }
    if (has(store, M_returns_previous) && key->previous != NULL) {
        return key->previous;
    }
    if (has(store, M_shares_values_of_stores)) {
        return last_init;
    }
    return key->borrowed != NULL ? key->borrowed : key->value;
}

static void write_outs(const ref_store_t *store, kvs_op_t *op, bool from_sum)
{
    const kvs_group_t *group;

    while ((group = next_group(store, op)) != NULL) {
        size_t i = ((ref_group_t *)group->state)->n_written++;
        kvs_dtype_t dtype = from_sum ? group->values[0].dtype : group->key->dtype;

        if (!skips(store, group, i)) {
            write_out(store, kvs_dtype_index(dtype), readable(store, group, from_sum),
                      &group->outs[i]);
        }
    }
}

static void release_sums(kvs_op_t *op)
{
    for (size_t g = 0; g < op->n_groups; g++) {
        ref_group_t *state = op->groups[g].state;

        free(state->sum);
        state->sum = NULL;
    }
}

/* ---- Weights ------------------------------------------------------------------------------------- */

static size_t bytes_of(const kvs_key_entry_t *entry)
{
    return (size_t)entry->n_elems * cf_dtype_bytes(kvs_dtype_index(entry->dtype));
}

static kvs_status_t ref_init(void *self, kvs_op_t *op)
{
    ref_store_t *store = self;

    kvs_status_t status = KVS_OK;

    for (size_t g = 0; g < op->n_groups && status == KVS_OK; g++) {
        kvs_group_t *group = &op->groups[g];
        ref_key_t *key = group->key->state;

        key->value = calloc(1, bytes_of(group->key) + 1);
        if (key->value == NULL) {
            return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for a weight");
        }
        if (bytes_of(group->key) > 0 && !has(store, M_takes_init_as_zero)) {
            memcpy(key->value, group->values[0].data, bytes_of(group->key));
        }
        last_init = key->value;
        if (has(store, M_keeps_init_pointer)) {
            key->borrowed = group->values[0].data;
        }
        status = take_first(group->key, bytes_of(group->key), key->value);
    }
    return status;
}

static void ref_key_release(void *self, kvs_key_entry_t *entry)
{
    ref_key_t *key = entry->state;

    (void)self;
    free(key->value);
    free(key->previous);
    *key = (ref_key_t){0};
}

static kvs_tensor_t view(const kvs_key_entry_t *entry, const void *data)
{
    kvs_tensor_t tensor = {.data = (void *)data,
                           .device = {KVS_DEVICE_CPU, 0},
                           .ndim = entry->ndim,
                           .dtype = entry->dtype,
                           .shape = entry->shape};

    return tensor;
}

static kvs_status_t call_updater(const ref_store_t *store, const kvs_group_t *group,
                                 const void *value, void *stored)
{
    const kvs_key_entry_t *entry = group->key;
    kvs_key_t key = {entry->name, entry->number};
    kvs_tensor_t value_view = view(entry, value), stored_view = view(entry, stored);
    kvs_status_t status = store->updater(&key, &value_view, &stored_view, store->updater_arg);
    char text[512];

    if (status == KVS_OK || has(store, M_swallows_updater_error)) {
        return KVS_OK;
    }
    snprintf(text, sizeof(text), "%s", kvs_last_error());
    if (has(store, M_hides_key_of_error)) {
        return kvs_fail(KVS_ERR_CALLBACK, "the updater failed: %s", text);
    }
    return entry->name != NULL
               ? kvs_fail(KVS_ERR_CALLBACK, "key '%s': the updater failed: %s", entry->name, text)
               : kvs_fail(KVS_ERR_CALLBACK, "key %lld: the updater failed: %s",
                          (long long)entry->number, text);
}

/* The updater on a copy of the stored value, which is kept or not. */
static kvs_status_t update_copy(const ref_store_t *store, const kvs_group_t *group, const void *sum)
{
    ref_key_t *key = group->key->state;
    void *copy = malloc(bytes_of(group->key) + 1);
    kvs_status_t status;

    if (copy == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for a copy");
    }
    memcpy(copy, key->value, bytes_of(group->key));
    status = call_updater(store, group, sum, copy);
    if (has(store, M_undoes_failed_update) && status == KVS_OK) {
        memcpy(key->value, copy, bytes_of(group->key));
    }
    free(copy);
    return status;
}

static kvs_status_t update(const ref_store_t *store, const kvs_group_t *group, void *sum)
{
    ref_key_t *key = group->key->state;
    kvs_status_t status = KVS_OK;

    if (has(store, M_updates_a_copy) || has(store, M_undoes_failed_update)) {
        return update_copy(store, group, sum);
    }
    if (has(store, M_updates_per_value)) {
        for (size_t i = 0; i < group->n_values && status == KVS_OK; i++) {
            status = call_updater(store, group, group->values[i].data, key->value);
        }
        return status;
    }
    if (has(store, M_gives_updater_the_value) && group->n_values == 1) {
        /* as if the update were made in the caller's array */
        status = call_updater(store, group, sum, key->value);
        memcpy(group->values[0].data, key->value, bytes_of(group->key));
        return status;
    }
    return call_updater(store, group, sum, key->value);
}

static void add_to_stored(const ref_store_t *store, const kvs_key_entry_t *entry, const void *sum)
{
    const ref_key_t *key = entry->state;
    int dtype = kvs_dtype_index(entry->dtype);

    for (int64_t i = 0; i < entry->n_elems; i++) {
        void *stored = (void *)at(dtype, key->value, i);

        put_floating(
            store, dtype,
            add(store, dtype, cf_decode(dtype, stored), cf_decode(dtype, at(dtype, sum, i))),
            stored);
    }
}

static kvs_status_t keep_previous(ref_key_t *key, size_t n_bytes)
{
    void *previous = realloc(key->previous, n_bytes + 1);

    if (previous == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for the previous value");
    }
    memcpy(previous, key->value, n_bytes);
    key->previous = previous;
    return KVS_OK;
}

/* The group's sum goes to the updater, or takes the place of the stored value. */
static kvs_status_t apply(const ref_store_t *store, const kvs_group_t *group)
{
    ref_group_t *state = group->state;
    ref_key_t *key = group->key->state;
    kvs_status_t status = KVS_OK;

    if (has(store, M_returns_previous)) {
        status = keep_previous(key, bytes_of(group->key));
    }
    key->borrowed = NULL;
    if (status != KVS_OK) {
        return status;
    }
    if (store->updater != NULL) {
        return update(store, group, state->sum);
    }
    if (has(store, M_adds)) {
        add_to_stored(store, group->key, state->sum);
        return KVS_OK;
    }
    memcpy(key->value, state->sum, bytes_of(group->key));
    if (has(store, M_keeps_pointer) && group->n_values == 1) {
        key->borrowed = group->values[0].data;
    }
    return KVS_OK;
}

static bool is_finite(const kvs_group_t *group)
{
    const void *sum = ((const ref_group_t *)group->state)->sum;
    int dtype = kvs_dtype_index(group->key->dtype);

    for (int64_t i = 0; i < group->key->n_elems && is_floating(dtype); i++) {
        if (!isfinite(cf_decode(dtype, at(dtype, sum, i)))) {
            return false;
        }
    }
    return true;
}

static kvs_status_t refuse_non_finite(const ref_store_t *store, const kvs_group_t *group)
{
    const kvs_key_entry_t *key = group->key;

    if (has(store, M_keeps_non_finite_sum)) {
        (void)apply(store, group); /* it is refused in any case */
    }
    if (has(store, M_hides_key_of_non_finite_round)) {
        return kvs_fail(KVS_ERR_NON_FINITE, "a gradient is not finite");
    }
    return key->name != NULL
               ? kvs_fail(KVS_ERR_NON_FINITE, "key '%s': a gradient is not finite", key->name)
               : kvs_fail(KVS_ERR_NON_FINITE, "key %lld: a gradient is not finite",
                          (long long)key->number);
}

static kvs_status_t push_group(const ref_store_t *store, const kvs_group_t *group)
{
    kvs_status_t status = sum_values(store, group);

    if (status != KVS_OK || store->nonfinite == PROPAGATE || has(store, M_takes_non_finite) ||
        is_finite(group)) {
        return status != KVS_OK ? status : apply(store, group);
    }
    return store->nonfinite == SKIP || has(store, M_skips_non_finite)
               ? KVS_OK
               : refuse_non_finite(store, group);
}

static kvs_status_t ref_push(void *self, kvs_op_t *op)
{
    kvs_status_t status = KVS_OK;

    for (size_t g = 0; g < op->n_groups && status == KVS_OK; g++) {
        status = push_group(self, &op->groups[g]);
    }
    release_sums(op);
    return status;
}

static kvs_status_t ref_pull(void *self, kvs_op_t *op)
{
    ref_store_t *store = self;

    write_outs(store, op, false);
    for (size_t g = 0; g < op->n_groups && has(store, M_empties_on_pull); g++) {
        const ref_key_t *key = op->groups[g].key->state;

        memset(key->value, 0, bytes_of(op->groups[g].key));
    }
    return KVS_OK;
}

/* Each group read and written by itself: right only where no arrays are shared. */
static kvs_status_t pushpull_one_by_one(const ref_store_t *store, kvs_op_t *op, bool weights)
{
    kvs_status_t status = KVS_OK;

    for (size_t g = 0; g < op->n_groups && status == KVS_OK; g++) {
        kvs_op_t part = *op;

        part.groups = &op->groups[g];
        part.n_groups = 1;
        status = weights ? push_group(store, part.groups) : sum_values(store, part.groups);
        if (status == KVS_OK) {
            write_outs(store, &part, !weights);
        }
    }
    release_sums(op);
    return status;
}

static kvs_status_t ref_pushpull(void *self, kvs_op_t *op)
{
    ref_store_t *store = self;
    kvs_status_t status = KVS_OK;
    bool from_sum = has(store, M_forgets_pushpull) || has(store, M_returns_sum_for_update);

    if (has(store, M_writes_early)) {
        return pushpull_one_by_one(store, op, true);
    }
    for (size_t g = 0; g < op->n_groups && status == KVS_OK; g++) {
        status = has(store, M_forgets_pushpull) ? sum_values(store, &op->groups[g])
                                                : push_group(store, &op->groups[g]);
    }
    if (status == KVS_OK) {
        write_outs(store, op, from_sum);
    }
    release_sums(op);
    return status;
}

static kvs_status_t update_nothing(const kvs_key_t *key, const kvs_tensor_t *value,
                                   const kvs_tensor_t *stored, void *arg)
{
    (void)key;
    (void)value;
    (void)stored;
    (void)arg;
    return KVS_OK;
}

static kvs_status_t ref_set_updater(void *self, kvs_updater_t fn, void *arg)
{
    ref_store_t *store = self;

    if (fn == NULL && has(store, M_keeps_updating)) {
        fn = update_nothing; /* the real one may be gone */
    }
    store->updater = fn;
    store->updater_arg = arg;
    return KVS_OK;
}

static kvs_status_t ref_set_gradient_compression(void *self, const kvs_param_t *params,
                                                 size_t n_params)
{
    (void)params;
    (void)n_params;
    return has(self, M_pretends_to_compress)
               ? KVS_OK
               : kvs_fail(KVS_ERR_NOT_IMPLEMENTED, "not implemented: set_gradient_compression");
}

/* ---- The exchange -------------------------------------------------------------------------------- */

static kvs_status_t check_first_use(const kvs_group_t *group, bool only_once)
{
    ref_key_t *key = group->key->state;
    int64_t n_elems = n_elems_of(&group->values[0]);

    if (key->n_elems != 0 && (only_once || key->n_elems != n_elems + 1)) {
        return kvs_fail(KVS_ERR_SHAPE, "the key was used otherwise before");
    }
    key->n_elems = n_elems + 1;
    return KVS_OK;
}

typedef kvs_status_t (*gather_t)(const ref_store_t *store, const kvs_group_t *group,
                                 uint32_t reduce);

static kvs_status_t exchange(const ref_store_t *store, kvs_op_t *op, gather_t gather)
{
    kvs_status_t status = KVS_OK;

    for (size_t g = 0; g < op->n_groups && status == KVS_OK; g++) {
        if (has(store, M_wants_one_shape)) {
            status = check_first_use(&op->groups[g], false);
        }
        if (status == KVS_OK) {
            status = gather(store, &op->groups[g], op->reduce);
        }
    }
    if (status == KVS_OK) {
        write_outs(store, op, true);
    }
    release_sums(op);
    return status;
}

static kvs_status_t ref_exchange(void *self, kvs_op_t *op)
{
    if (has(self, M_refuses_lists_dryly) && (op->n_groups > 1 || op->groups[0].n_values > 1)) {
        return kvs_fail(KVS_ERR_ARGUMENT, "no");
    }
    if (has(self, M_refuses_arrays_dryly)) {
        return kvs_fail(KVS_ERR_UNAVAILABLE, "no");
    }
    return has(self, M_exchanges_early) ? pushpull_one_by_one(self, op, false)
                                        : exchange(self, op, reduce_values);
}

static kvs_status_t ref_broadcast(void *self, kvs_op_t *op)
{
    kvs_status_t status = KVS_OK;

    for (size_t g = 0; g < op->n_groups && has(self, M_broadcasts_once) && status == KVS_OK; g++) {
        status = check_first_use(&op->groups[g], true);
    }
    return status != KVS_OK ? status : exchange(self, op, first_value);
}

/* ---- Allgather ----------------------------------------------------------------------------------- */

static size_t bytes_of_tensor(const kvs_tensor_t *tensor)
{
    return (size_t)n_elems_of(tensor) * cf_dtype_bytes(kvs_dtype_index(tensor->dtype));
}

/* Traded in arrays of `n_bytes`, as large as both together. */
static kvs_status_t gather_both(const ref_store_t *store, const kvs_tensor_t *value,
                                const kvs_tensor_t *out, char *mine, char *theirs)
{
    size_t n_bytes = bytes_of_tensor(out), n_mine = bytes_of_tensor(value);
    bool mine_first = (peer_rank() == 0) != has(store, M_gathers_backwards);
    size_t n_first = mine_first ? n_mine : n_bytes - n_mine;
    kvs_status_t status;

    memcpy(mine, value->data, n_mine);
    status = peer_trade("allgather", mine, n_bytes, theirs);
    if (status != KVS_OK) {
        return status;
    }
    if (has(store, M_gathers_equal_sizes)) {
        n_first = n_bytes / 2;
    }
    memcpy(out->data, mine_first ? mine : theirs, n_first);
    memcpy((char *)out->data + n_first, mine_first ? theirs : mine, n_bytes - n_first);
    return KVS_OK;
}

static kvs_status_t ref_allgather(void *self, const kvs_key_t *key, const kvs_tensor_t *value,
                                  const kvs_tensor_t *out)
{
    size_t n_bytes = bytes_of_tensor(out);
    char *both;
    kvs_status_t status;

    (void)key;
    if (bytes_of_tensor(value) > n_bytes) {
        return kvs_fail(KVS_ERR_SHAPE, "the out has no room for the value");
    }
    if (peer_n_workers() == 1) {
        memcpy(out->data, value->data, bytes_of_tensor(value));
        return KVS_OK;
    }
    both = calloc(2, n_bytes + 1);
    if (both == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for the workers' values");
    }
    status = gather_both(self, value, out, both, both + n_bytes);
    free(both);
    return status;
}

static const void *find_extension(const char *name)
{
    static const kvs_allreduce_ops_t allreduce_ops = {.size = sizeof(allreduce_ops),
                                                      .allgather = ref_allgather};

    return strcmp(name, KVS_ALLREDUCE_EXTENSION) == 0 ? &allreduce_ops : NULL;
}

static kvs_status_t push_nothing(void *self, kvs_op_t *op)
{
    (void)self;
    (void)op;
    return KVS_OK;
}

/* From now on sums are doubled, as if something were updated. */
static kvs_status_t pretend_optimizer(void *self, const kvs_optimizer_spec_t *spec)
{
    ref_store_t *store = self;

    (void)spec;
    store->optimizes = true;
    return KVS_OK;
}

/* ---- Life ---------------------------------------------------------------------------------------- */

static kvs_status_t ref_open(void *self, const kvs_open_args_t *args)
{
    ref_store_t *store = self;

    const char *nonfinite = kvsi_host()->option(args->config, "nonfinite");

    store->mutation = mutation_of(args->type);
    if (nonfinite != NULL) { /* stores without weights have no such option */
        store->nonfinite = strcmp(nonfinite, "skip") == 0    ? SKIP
                           : strcmp(nonfinite, "error") == 0 ? REFUSE
                                                             : PROPAGATE;
    }
    return KVS_OK;
}

static kvs_status_t ref_close(void *self, int64_t timeout_ms)
{
    (void)self;
    (void)timeout_ms;
    return KVS_OK;
}

static kvs_status_t ref_rank(void *self, int *ret_rank)
{
    *ret_rank = has(self, M_has_wrong_rank) ? 1 : peer_rank();
    return KVS_OK;
}

static kvs_status_t ref_num_workers(void *self, int *ret_num_workers)
{
    (void)self;
    *ret_num_workers = peer_n_workers();
    return KVS_OK;
}

static kvs_status_t ref_barrier(void *self)
{
    char mine = 0, theirs;

    (void)self;
    return peer_n_workers() == 1 ? KVS_OK : peer_trade("barrier", &mine, sizeof(mine), &theirs);
}

static kvs_status_t ref_num_dead_nodes(void *self, const char *role, int64_t timeout_ms,
                                       int *ret_dead)
{
    (void)role;
    (void)timeout_ms;
    *ret_dead = has(self, M_is_dead) ? 1 : 0;
    return KVS_OK;
}

#define COMMON_OPS                                                                                 \
    .size = sizeof(kvs_backend_ops_t), .mode = KVS_BLOCKING, .store_size = sizeof(ref_store_t),    \
    .key_size = sizeof(ref_key_t), .group_size = sizeof(ref_group_t), .open = ref_open,            \
    .close = ref_close, .key_release = ref_key_release, .rank = ref_rank,                          \
    .num_workers = ref_num_workers, .local_rank = ref_rank, .barrier = ref_barrier,                \
    .num_dead_nodes = ref_num_dead_nodes

static const kvs_backend_ops_t weights_ops = {
    COMMON_OPS,
    .init = ref_init,
    .push = ref_push,
    .pull = ref_pull,
    .pushpull = ref_pushpull,
    .set_updater = ref_set_updater,
    .set_gradient_compression = ref_set_gradient_compression,
};

static const kvs_backend_ops_t exchange_ops = {
    COMMON_OPS,
    .pushpull = ref_exchange,
    .broadcast = ref_broadcast,
    .extension = find_extension,
};

static const kvs_backend_ops_t pretending_push_ops = {
    COMMON_OPS,
    .push = push_nothing,
    .pushpull = ref_exchange,
    .broadcast = ref_broadcast,
};

static const kvs_backend_ops_t pretending_optimizer_ops = {
    COMMON_OPS,
    .pushpull = ref_exchange,
    .broadcast = ref_broadcast,
    .set_optimizer = pretend_optimizer,
};

static const int32_t device_types[] = {KVS_DEVICE_CPU};

static const kvs_option_info_t weights_options[] = {{.name = "nonfinite",
                                                     .type = "text",
                                                     .preset = "propagate",
                                                     .doc = "propagate, skip or error"}};

/* Backends live until the process ends. */
static kvs_status_t register_backend(const char *name, const kvs_backend_ops_t *ops,
                                     uint32_t capabilities)
{
    enum { MAX_BACKENDS = 2 * N_MUTATIONS };
    static kvs_backend_t backends[MAX_BACKENDS];
    static size_t n_backends;
    kvs_backend_t *backend = &backends[n_backends];

    if (n_backends == MAX_BACKENDS) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "more backends than mutations");
    }
    n_backends++;
    *backend = (kvs_backend_t){.size = (uint32_t)sizeof(*backend),
                               .capabilities = capabilities,
                               .name = name,
                               .dtypes = KVS_DTYPES_ALL,
                               .n_device_types = 1,
                               .device_types = device_types,
                               .ops = ops,
                               .options = weights_options,
                               .n_options = ops == &weights_ops};
    if (mutation_of(name) == M_takes_no_bfloat16) {
        backend->dtypes &= ~(1u << KVS_DTYPE_bfloat16);
    }
    return kvs_register_backend(name, backend);
}

kvs_status_t register_weights(const char *name)
{
    uint32_t more = mutation_of(name) == M_claims_optimizer ? KVS_CAN_OPTIMIZER : 0;

    return register_backend(name, &weights_ops, KVS_KEEPS_WEIGHTS | more);
}

kvs_status_t register_exchange(const char *name)
{
    switch (mutation_of(name)) {
    case M_pretends_to_push:
        return register_backend(name, &pretending_push_ops, 0);
    case M_pretends_to_optimize:
        return register_backend(name, &pretending_optimizer_ops, 0);
    default:
        return register_backend(name, &exchange_ops, KVS_CAN_REDUCE);
    }
}
