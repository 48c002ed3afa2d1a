/* SPDX-License-Identifier: Apache-2.0 */
/* rowstore.c - a store of row-sparse and dense keys in the plainest C there is, written on abi.h alone, for
 * mutations of row-sparse. A key is a dense table and a flag for each row it has; sums are kept as one
 * accumulator an element. `has(store, M_…)` marks each place where a mutation makes it wrong. */
#include "mutants.h"

#include "number.h"

#include <kvstore/abi.h>

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct row_store {
    mutation_t mutation;
    kvs_updater_t updater;
    void *updater_arg;
    bool is_in_init; /* inits_last_of_repeated */
} row_store_t;

typedef struct row_key {
    char *table;
    bool *has_row;
    const kvs_tensor_t *borrowed; /* borrows_rows: summed again at the next read */
    kvs_tensor_t borrowed_copy;
} row_key_t;

/* What values add up to. */
typedef struct sum {
    int64_t n_rows, width;
    int dtype;
    double *reals; /* float64 in double, all others in float */
    uint64_t *wholes;
    bool *has_row;
} sum_t;

static bool has(const row_store_t *store, mutation_t mutation)
{
    return store->mutation == mutation;
}

static bool is_floating(int dtype)
{
    return kvs_dtype(dtype).code == KVS_CODE_FLOAT || kvs_dtype(dtype).code == KVS_CODE_BFLOAT;
}

static int64_t width_of(const row_store_t *store, const kvs_tensor_t *tensor)
{
    int64_t width = 1;

    if (has(store, M_takes_second_dimension_as_row)) {
        return tensor->ndim > 1 ? tensor->shape[1] : 1;
    }
    for (int32_t i = 1; i < tensor->ndim; i++) {
        width *= tensor->shape[i];
    }
    return width;
}

static kvs_tensor_t view_of(const kvs_key_entry_t *entry, void *data)
{
    return (kvs_tensor_t){.data = data,
                          .device = {KVS_DEVICE_CPU, 0},
                          .ndim = entry->ndim,
                          .dtype = entry->dtype,
                          .shape = entry->shape};
}

/* ---- Sums ------------------------------------------------------------------------------------------ */

static void release_sum(sum_t *sum)
{
    free(sum->reals);
    free(sum->wholes);
    free(sum->has_row);
}

static kvs_status_t make_sum(const row_store_t *store, const kvs_tensor_t *like, sum_t *sum)
{
    size_t n;

    *sum = (sum_t){.n_rows = like->ndim > 0 ? like->shape[0] : 1,
                   .width = width_of(store, like),
                   .dtype = kvs_dtype_index(like->dtype)};
    n = (size_t)(sum->n_rows * sum->width) + 1;
    sum->reals = calloc(n, sizeof(*sum->reals));
    sum->wholes = calloc(n, sizeof(*sum->wholes));
    sum->has_row = calloc((size_t)sum->n_rows + 1, sizeof(*sum->has_row));
    if (sum->reals == NULL || sum->wholes == NULL || sum->has_row == NULL) {
        release_sum(sum);
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for a sum");
    }
    return KVS_OK;
}

static void add_element(const row_store_t *store, sum_t *sum, int64_t at, bool first,
                        const void *from)
{
    char half[8];
    double real;

    if (!is_floating(sum->dtype)) {
        sum->wholes[at] += (uint64_t)cf_decode_int(sum->dtype, from);
        return;
    }
    real = cf_decode(sum->dtype, from);
    if (first) {
        sum->reals[at] = real;
    } else if (sum->dtype == KVS_DTYPE_float64) {
        sum->reals[at] += real;
    } else {
        sum->reals[at] = (float)sum->reals[at] + (float)real;
    }
    if (has(store, M_sums_rows_in_half)) {
        cf_encode(sum->dtype, sum->reals[at], half);
        sum->reals[at] = cf_decode(sum->dtype, half);
    }
}

static void add_row(const row_store_t *store, sum_t *sum, int64_t row, const char *from)
{
    size_t bytes = cf_dtype_bytes(sum->dtype);
    bool first = !sum->has_row[row] || has(store, M_keeps_last_of_repeated) ||
                 (has(store, M_inits_last_of_repeated) && store->is_in_init);
    int64_t width = sum->width;

    if (has(store, M_stops_after_64_rows) && row >= 64) {
        return;
    }
    if (has(store, M_stops_at_a_page) && width > 1024) {
        width = 1024;
    }
    for (int64_t j = 0; j < width; j++) {
        add_element(store, sum, row * sum->width + j, first, from + (size_t)j * bytes);
    }
    sum->has_row[row] = true;
}

/* The `i`-th smallest id, for one who takes the rows as sorted. */
static int64_t ranked_id(const kvs_rows_t *rows, int64_t i)
{
    for (int64_t j = 0; j < rows->n_rows; j++) {
        int64_t n_before = 0;

        for (int64_t k = 0; k < rows->n_rows; k++) {
            n_before += rows->ids[k] < rows->ids[j] || (rows->ids[k] == rows->ids[j] && k < j);
        }
        if (n_before == i) {
            return rows->ids[j];
        }
    }
    return 0;
}

static void sort_ids(kvs_rows_t *rows)
{
    for (int64_t i = 1; i < rows->n_rows; i++) {
        for (int64_t j = i; j > 0 && rows->ids[j] < rows->ids[j - 1]; j--) {
            int64_t id = rows->ids[j];

            rows->ids[j] = rows->ids[j - 1];
            rows->ids[j - 1] = id;
        }
    }
}

static void add_value(const row_store_t *store, sum_t *sum, const kvs_tensor_t *value)
{
    size_t row_bytes = (size_t)sum->width * cf_dtype_bytes(sum->dtype);
    int64_t n = value->rows != NULL ? value->rows->n_rows : sum->n_rows;
    const char *data = value->data != NULL ? value->data : ""; /* no elements */

    for (int64_t i = 0; i < n; i++) {
        int64_t from = has(store, M_sums_rows_backwards) ? n - 1 - i : i;
        int64_t row = value->rows != NULL ? value->rows->ids[from] : from;

        if (has(store, M_takes_rows_as_sorted) && value->rows != NULL) {
            row = ranked_id(value->rows, from);
        }
        add_row(store, sum, row, data + (size_t)from * row_bytes);
    }
}

static void add_values(const row_store_t *store, sum_t *sum, const kvs_tensor_t *values, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (has(store, M_keeps_first_values_rows) && i > 0) {
            break;
        }
        add_value(store, sum, &values[has(store, M_sums_rows_backwards) ? n - 1 - i : i]);
    }
}

static void put_row(const row_store_t *store, const sum_t *sum, int64_t row, char *to)
{
    size_t bytes = cf_dtype_bytes(sum->dtype);

    for (int64_t j = 0; j < sum->width; j++) {
        int64_t at = row * sum->width + j;
        double real =
            has(store, M_flushes_nan_of_rows) && isnan(sum->reals[at]) ? 0 : sum->reals[at];

        if (is_floating(sum->dtype)) {
            cf_encode(sum->dtype, real, to + (size_t)j * bytes);
        } else {
            cf_encode_int(sum->dtype, (int64_t)sum->wholes[at], to + (size_t)j * bytes);
        }
    }
}

/* ---- Keys ------------------------------------------------------------------------------------------ */

static size_t row_bytes_of(const row_store_t *store, const kvs_key_entry_t *entry)
{
    kvs_tensor_t view = view_of(entry, NULL);
    size_t bytes = cf_dtype_bytes(kvs_dtype_index(entry->dtype));

    if (has(store, M_keeps_rows_of_four_bytes) && bytes > 4) {
        bytes = 4;
    }
    return (size_t)width_of(store, &view) * bytes;
}

/* The sum takes the place of the table. */
static void replace(const row_store_t *store, const kvs_key_entry_t *entry, const sum_t *sum)
{
    row_key_t *key = entry->state;
    size_t row_bytes = row_bytes_of(store, entry);
    bool keeps = has(store, M_leaves_rows_not_pushed) ||
                 (has(store, M_adds_to_dense_key) && !entry->row_sparse);

    for (int64_t row = 0; row < sum->n_rows; row++) {
        if (sum->has_row[row] || !keeps) {
            put_row(store, sum, row, key->table + (size_t)row * row_bytes);
        }
        key->has_row[row] = sum->has_row[row] || (keeps && key->has_row[row]);
    }
}

static void borrow(const kvs_key_entry_t *entry, const kvs_tensor_t *value)
{
    row_key_t *key = entry->state;

    key->borrowed_copy = *value;
    key->borrowed_copy.shape = entry->shape;
    key->borrowed = &key->borrowed_copy;
}

static kvs_status_t init_table(row_store_t *store, const kvs_group_t *group, sum_t *sum)
{
    row_key_t *key = group->key->state;
    const kvs_tensor_t *value = &group->values[0];
    size_t n_bytes =
        (size_t)group->key->n_elems * cf_dtype_bytes(kvs_dtype_index(group->key->dtype));

    if (value->rows != NULL && value->rows->n_rows == 0 && has(store, M_refuses_no_rows)) {
        return kvs_fail(KVS_ERR_SHAPE, "there are no rows");
    }
    key->table = calloc(1, n_bytes + 1);
    key->has_row = calloc((size_t)sum->n_rows + 1, sizeof(*key->has_row));
    if (key->table == NULL || key->has_row == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for a table");
    }
    store->is_in_init = true;
    if (!has(store, M_forgets_rows_of_init) || value->rows == NULL) {
        add_value(store, sum, value);
    }
    store->is_in_init = false;
    replace(store, group->key, sum);
    return KVS_OK;
}

static kvs_status_t init_group(row_store_t *store, const kvs_group_t *group)
{
    sum_t sum;
    kvs_status_t status = make_sum(store, &group->values[0], &sum);

    if (status != KVS_OK) {
        return status;
    }
    status = init_table(store, group, &sum);
    release_sum(&sum);
    if (status == KVS_OK && has(store, M_borrows_initial_rows) && group->values[0].rows != NULL) {
        borrow(group->key, &group->values[0]);
    }
    return status;
}

static kvs_status_t row_init(void *self, kvs_op_t *op)
{
    kvs_status_t status = KVS_OK;

    for (size_t g = 0; g < op->n_groups && status == KVS_OK; g++) {
        status = init_group(self, &op->groups[g]);
    }
    return status;
}

static void row_key_release(void *self, kvs_key_entry_t *entry)
{
    row_key_t *key = entry->state;

    (void)self;
    free(key->table);
    free(key->has_row);
    *key = (row_key_t){0};
}

static int64_t count_rows(const sum_t *sum)
{
    int64_t n = 0;

    for (int64_t row = 0; row < sum->n_rows; row++) {
        n += sum->has_row[row];
    }
    return n;
}

static kvs_status_t run_updater(const row_store_t *store, const kvs_key_entry_t *entry,
                                const kvs_tensor_t *value, const kvs_tensor_t *stored)
{
    kvs_key_t name = {entry->name, entry->number};
    char text[512];

    if (store->updater(&name, value, stored, store->updater_arg) == KVS_OK) {
        return KVS_OK;
    }
    snprintf(text, sizeof(text), "%s", kvs_last_error());
    return entry->name != NULL
               ? kvs_fail(KVS_ERR_CALLBACK, "key '%s': the updater failed: %s", entry->name, text)
               : kvs_fail(KVS_ERR_CALLBACK, "key %lld: the updater failed: %s",
                          (long long)entry->number, text);
}

/* The updater with the sum: the rows it has, or all if values were dense. */
static kvs_status_t call_updater(const row_store_t *store, const kvs_key_entry_t *entry,
                                 const sum_t *sum, bool is_sparse)
{
    row_key_t *key = entry->state;
    size_t row_bytes = row_bytes_of(store, entry);
    char *data = calloc((size_t)sum->n_rows + 1, row_bytes + 1);
    int64_t *ids = calloc((size_t)sum->n_rows + 1, sizeof(*ids)), n = 0;
    kvs_tensor_t value = view_of(entry, data), stored = view_of(entry, key->table);
    kvs_rows_t rows = {.ids = ids};
    kvs_status_t status = KVS_OK;

    if (data == NULL || ids == NULL) {
        status = kvs_fail(KVS_ERR_NO_MEMORY, "no memory for a gradient");
    }
    for (int64_t row = 0; row < sum->n_rows && status == KVS_OK; row++) {
        if (sum->has_row[row] || !is_sparse) {
            ids[n] = row;
            put_row(store, sum, row, data + (size_t)n++ * row_bytes);
            key->has_row[row] |= is_sparse;
        }
    }
    rows.n_rows = rows.capacity = n;
    value.rows = is_sparse ? &rows : NULL;
    if (status == KVS_OK) {
        status = run_updater(store, entry, &value, &stored);
    }
    for (int64_t row = 0; row < sum->n_rows && !has(store, M_forgets_rows_beside); row++) {
        for (size_t b = 0; b < row_bytes; b++) {
            key->has_row[row] |= key->table[(size_t)row * row_bytes + b] != 0;
        }
    }
    free(data);
    free(ids);
    return status;
}

static kvs_status_t update_for_each(const row_store_t *store, const kvs_group_t *group)
{
    kvs_status_t status = KVS_OK;

    for (size_t i = 0; i < group->n_values && status == KVS_OK; i++) {
        sum_t sum;

        status = make_sum(store, &group->values[i], &sum);
        if (status == KVS_OK) {
            add_value(store, &sum, &group->values[i]);
            status = call_updater(store, group->key, &sum, group->values[i].rows != NULL);
            release_sum(&sum);
        }
    }
    return status;
}

static kvs_status_t push_group(const row_store_t *store, const kvs_group_t *group)
{
    row_key_t *key = group->key->state;
    bool is_sparse = group->values[0].rows != NULL;
    kvs_status_t status;
    sum_t sum;

    key->borrowed = NULL;
    if (store->updater != NULL && has(store, M_updates_for_each_value)) {
        return update_for_each(store, group);
    }
    status = make_sum(store, &group->values[0], &sum);
    if (status != KVS_OK) {
        return status;
    }
    add_values(store, &sum, group->values, group->n_values);
    if (is_sparse && count_rows(&sum) == 0 &&
        has(store, store->updater == NULL ? M_ignores_empty_push : M_skips_empty_update)) {
        release_sum(&sum);
        return KVS_OK;
    }
    if (store->updater != NULL) {
        mutation_t densifies =
            group->key->row_sparse ? M_gives_dense_gradient : M_densifies_for_dense_key;

        status = call_updater(store, group->key, &sum, is_sparse && !has(store, densifies));
    } else {
        replace(store, group->key, &sum);
    }
    release_sum(&sum);
    for (size_t i = 0; is_sparse && has(store, M_sorts_callers_ids) && i < group->n_values; i++) {
        sort_ids(group->values[i].rows);
    }
    if (is_sparse && has(store, M_borrows_rows)) {
        borrow(group->key, &group->values[0]);
    }
    return status;
}

static kvs_status_t row_push(void *self, kvs_op_t *op)
{
    kvs_status_t status = KVS_OK;

    for (size_t g = 0; g < op->n_groups && status == KVS_OK; g++) {
        status = push_group(self, &op->groups[g]);
    }
    return status;
}

/* ---- Reading --------------------------------------------------------------------------------------- */

static void read_borrowed(const row_store_t *store, const kvs_key_entry_t *entry)
{
    row_key_t *key = entry->state;
    sum_t sum;

    if (key->borrowed != NULL && make_sum(store, key->borrowed, &sum) == KVS_OK) {
        add_value(store, &sum, key->borrowed);
        replace(store, entry, &sum);
        release_sum(&sum);
    }
}

static void copy_elements(const row_store_t *store, int dtype, const char *from,
                          const kvs_tensor_t *out, int64_t first, int64_t n)
{
    int to = kvs_dtype_index(out->dtype);

    for (int64_t j = 0; j < n; j++) {
        char *element = (char *)out->data + (size_t)(first + j) * cf_dtype_bytes(to);
        const char *source = from + (size_t)j * cf_dtype_bytes(dtype);

        if (dtype == to) {
            memcpy(element, source, cf_dtype_bytes(dtype));
        } else if (!has(store, M_converts_no_rows)) {
            cf_encode(to, cf_decode(dtype, source), element);
        }
    }
}

/* Write row `row` as the out's `place`-th. */
static void copy_row(const row_store_t *store, const kvs_key_entry_t *entry, int64_t row,
                     const kvs_tensor_t *out, int64_t place)
{
    const row_key_t *key = entry->state;
    size_t row_bytes = row_bytes_of(store, entry);
    int64_t width = width_of(store, out);

    copy_elements(store, kvs_dtype_index(entry->dtype), key->table + (size_t)row * row_bytes, out,
                  place * width, width);
}

static bool is_zero(const row_store_t *store, const kvs_key_entry_t *entry, int64_t row)
{
    const row_key_t *key = entry->state;
    size_t row_bytes = row_bytes_of(store, entry);

    for (size_t b = 0; b < row_bytes; b++) {
        if (key->table[(size_t)row * row_bytes + b] != 0) {
            return false;
        }
    }
    return true;
}

static kvs_status_t fail_room(const kvs_key_entry_t *entry, int64_t room, int64_t n)
{
    return kvs_fail(KVS_ERR_ARGUMENT, "key %lld: an out has room for %lld rows, but gets %lld",
                    (long long)entry->number, (long long)room, (long long)n);
}

/* The rows that the key has, into a row-sparse out. */
static kvs_status_t pull_rows(const row_store_t *store, const kvs_key_entry_t *entry,
                              const kvs_tensor_t *out)
{
    const row_key_t *key = entry->state;
    bool all = has(store, M_gives_all_rows);
    int64_t n = 0;

    for (int pass = 0; pass < 2; pass++) {
        if (pass == 1 && n > out->rows->capacity) {
            return fail_room(entry, out->rows->capacity, n);
        }
        n = 0;
        for (int64_t row = 0; row < entry->shape[0]; row++) {
            if ((!key->has_row[row] && !all) ||
                (has(store, M_drops_zero_rows) && is_zero(store, entry, row))) {
                continue;
            }
            if (pass == 1) {
                out->rows->ids[n] = row;
                copy_row(store, entry, row, out, n);
            }
            n++;
        }
    }
    out->rows->n_rows = n;
    return KVS_OK;
}

static kvs_status_t pull_out(const row_store_t *store, const kvs_key_entry_t *entry,
                             const kvs_tensor_t *out)
{
    const row_key_t *key = entry->state;

    read_borrowed(store, entry);
    if (out->rows != NULL) {
        return pull_rows(store, entry, out);
    }
    if (out->ndim == 0) {
        copy_elements(store, kvs_dtype_index(entry->dtype), key->table, out, 0, 1);
        return KVS_OK;
    }
    for (int64_t row = 0; row < out->shape[0]; row++) {
        if (!has(store, M_pulls_rows_it_has) || key->has_row[row] || !entry->row_sparse) {
            copy_row(store, entry, row, out, row);
        }
    }
    return KVS_OK;
}

/* ---- Outs in the order of the call ------------------------------------------------------------------- */

/* Ids asked for, read before an out is written: `n` of them, sorted and unique. */
typedef struct wanted {
    int64_t *ids;
    int64_t n;
} wanted_t;

static int64_t n_ids_of(const row_store_t *store, const kvs_tensor_t *row_ids)
{
    int64_t n = 1;

    for (int32_t i = 0; i < row_ids->ndim; i++) {
        if (i == 0 || !has(store, M_reads_first_dimension)) {
            n *= row_ids->shape[i];
        }
    }
    return n;
}

static kvs_status_t read_wanted(const row_store_t *store, const kvs_group_t *group, size_t out,
                                wanted_t *wanted)
{
    bool first = group->n_row_ids == 1 || has(store, M_uses_first_ids);
    const kvs_tensor_t *row_ids = &group->row_ids[first ? 0 : out];
    int dtype = kvs_dtype_index(row_ids->dtype);
    int64_t n = n_ids_of(store, row_ids), n_kept = 0;
    const row_key_t *key = group->key->state;
    kvs_rows_t rows = {.n_rows = n};

    rows.ids = wanted->ids = calloc((size_t)n + 1, sizeof(*wanted->ids));
    if (wanted->ids == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for ids");
    }
    for (int64_t i = 0; i < n; i++) {
        wanted->ids[i] =
            cf_decode_int(dtype, (const char *)row_ids->data + (size_t)i * cf_dtype_bytes(dtype));
    }
    if (!has(store, M_forgets_to_sort)) {
        sort_ids(&rows);
    }
    for (int64_t i = 0; i < n; i++) {
        if ((i == 0 || wanted->ids[i] != wanted->ids[i - 1] || has(store, M_gives_rows_twice)) &&
            (key->has_row[wanted->ids[i]] || !has(store, M_leaves_out_absent_rows))) {
            wanted->ids[n_kept++] = wanted->ids[i];
        }
    }
    wanted->n = n_kept;
    return KVS_OK;
}

static void give_rows(const row_store_t *store, const kvs_group_t *group, size_t out,
                      const wanted_t *wanted)
{
    const kvs_tensor_t *to = &group->outs[out];
    int64_t n = wanted->n < to->rows->capacity ? wanted->n : to->rows->capacity;

    if ((has(store, M_gives_rows_to_first_out) && out > 0) ||
        (n == 0 && has(store, M_leaves_no_rows_alone))) {
        return;
    }
    read_borrowed(store, group->key);
    for (int64_t i = 0; i < n; i++) {
        to->rows->ids[i] = wanted->ids[i];
        copy_row(store, group->key, wanted->ids[i], to, i);
    }
    to->rows->n_rows = n;
}

/* Which out is written next: the group and its out; false when all are. */
static bool next_out(const kvs_op_t *op, size_t place, size_t *ret_group, size_t *ret_out)
{
    size_t n = 0;

    for (size_t g = 0; g < op->n_groups; g++) {
        for (size_t i = 0; i < op->groups[g].n_outs; i++, n++) {
            size_t index = op->flags & KVS_OP_SHARED ? op->groups[g].out_index[i] : n;

            if (index == place) {
                *ret_group = g;
                *ret_out = i;
                return true;
            }
        }
    }
    return false;
}

static kvs_status_t row_pull(void *self, kvs_op_t *op)
{
    kvs_status_t status = KVS_OK;
    size_t g, i;

    for (size_t place = 0; status == KVS_OK && next_out(op, place, &g, &i); place++) {
        status = pull_out(self, op->groups[g].key, &op->groups[g].outs[i]);
    }
    return status;
}

static size_t n_outs_of(const kvs_op_t *op)
{
    size_t n = 0;

    for (size_t g = 0; g < op->n_groups; g++) {
        n += op->groups[g].n_outs;
    }
    return n;
}

static kvs_status_t row_row_sparse_pull(void *self, kvs_op_t *op)
{
    const row_store_t *store = self;
    bool early = has(store, M_writes_before_reading_ids);
    wanted_t *wanted = calloc(n_outs_of(op) + 1, sizeof(*wanted));
    kvs_status_t status = wanted == NULL ? kvs_fail(KVS_ERR_NO_MEMORY, "no memory") : KVS_OK;
    size_t g, i;

    for (size_t place = 0; status == KVS_OK && next_out(op, place, &g, &i); place++) {
        status = read_wanted(store, &op->groups[g], i, &wanted[place]);
        if (status == KVS_OK && early) {
            give_rows(store, &op->groups[g], i, &wanted[place]);
        }
    }
    for (size_t place = 0; status == KVS_OK && !early && next_out(op, place, &g, &i); place++) {
        give_rows(store, &op->groups[g], i, &wanted[place]);
    }
    for (size_t place = 0; wanted != NULL && place < n_outs_of(op); place++) {
        free(wanted[place].ids);
    }
    free(wanted);
    return status;
}

/* Room is looked at before anything is done. */
static kvs_status_t row_issue(void *self, kvs_op_t *op)
{
    const row_store_t *store = self;
    kvs_status_t status = KVS_OK;
    size_t g, i;

    if (op->verb != KVS_VERB_ROW_SPARSE_PULL || has(store, M_ignores_room)) {
        return KVS_OK;
    }
    for (size_t place = 0; status == KVS_OK && next_out(op, place, &g, &i); place++) {
        wanted_t wanted = {0};
        int64_t room = op->groups[g].outs[i].rows->capacity;

        status = read_wanted(store, &op->groups[g], i, &wanted);
        if (status == KVS_OK && wanted.n > room) {
            status = fail_room(op->groups[g].key, room, wanted.n);
        }
        free(wanted.ids);
    }
    return status;
}

/* ---- Life ------------------------------------------------------------------------------------------ */

static kvs_status_t row_open(void *self, const kvs_open_args_t *args)
{
    ((row_store_t *)self)->mutation = mutation_of(args->type);
    return KVS_OK;
}

static kvs_status_t row_close(void *self, int64_t timeout_ms)
{
    (void)self;
    (void)timeout_ms;
    return KVS_OK;
}

static kvs_status_t row_set_updater(void *self, kvs_updater_t fn, void *arg)
{
    row_store_t *store = self;

    store->updater = fn;
    store->updater_arg = arg;
    return KVS_OK;
}

static const kvs_backend_ops_t row_ops = {
    .size = sizeof(row_ops),
    .mode = KVS_BLOCKING,
    .store_size = sizeof(row_store_t),
    .key_size = sizeof(row_key_t),
    .open = row_open,
    .close = row_close,
    .key_release = row_key_release,
    .issue = row_issue,
    .init = row_init,
    .push = row_push,
    .pull = row_pull,
    .row_sparse_pull = row_row_sparse_pull,
    .set_updater = row_set_updater,
};

static const int32_t device_types[] = {KVS_DEVICE_CPU};

static const kvs_backend_t row_backend = {
    .size = sizeof(row_backend),
    .capabilities = KVS_CAN_SPARSE | KVS_KEEPS_WEIGHTS,
    .name = "rowstore",
    .dtypes = KVS_DTYPES_ALL,
    .n_device_types = 1,
    .device_types = device_types,
    .ops = &row_ops,
};

kvs_status_t register_rows(const char *name)
{
    return kvs_register_backend(name, &row_backend);
}
