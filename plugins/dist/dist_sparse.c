/* SPDX-License-Identifier: Apache-2.0 */
/* dist_sparse.c - row-sparse values in a worker: which rows go to which server, as what they travel, and
 * where those that come back are written. Only rows that are pushed or asked for travel. */
#include "dist_worker.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

/* ---- What is refused --------------------------------------------------------------------------------- */

static bool has_rows(const kvs_group_t *group)
{
    return group->n_values > 0 && group->values[0].rows != NULL;
}

static kvs_status_t check_room(const kvs_group_t *group, size_t out, int64_t n)
{
    int64_t capacity = group->outs[out].rows->capacity;

    if (capacity >= n) {
        return KVS_OK;
    }
    (void)kvs_fail(KVS_ERR_ARGUMENT, "out %zu has room for %lld rows, but gets %lld", out,
                   (long long)capacity, (long long)n);
    return dist_name_key(KVS_ERR_ARGUMENT, group->key);
}

static kvs_status_t refuse_pull(const kvs_group_t *group, const char *mend)
{
    (void)kvs_fail(KVS_ERR_STORAGE, "it is row-sparse: %s", mend);
    return dist_name_key(KVS_ERR_STORAGE, group->key);
}

kvs_status_t dist_sparse_issue(const kvs_op_t *op)
{
    for (size_t i = 0; i < op->n_groups; i++) {
        const kvs_group_t *group = &op->groups[i];

        if (op->verb == KVS_VERB_PULL && group->key->row_sparse) {
            return refuse_pull(group,
                               "use row_sparse_pull, by which only the rows asked for travel");
        }
        if (op->verb == KVS_VERB_PUSHPULL && has_rows(group)) {
            return refuse_pull(group,
                               "use push, then row_sparse_pull, or pull if the key is dense");
        }
        if (op->verb == KVS_VERB_BROADCAST && has_rows(group)) {
            return refuse_pull(group, "use init, then row_sparse_pull");
        }
    }
    return KVS_OK;
}

/* ---- Rows of a group ---------------------------------------------------------------------------------- */

static kvs_status_t fail_memory(int64_t n)
{
    return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for a list of %lld rows", (long long)n);
}

static kvs_status_t new_rows(dist_group_t *group)
{
    const kvs_key_entry_t *key = group->pub->key;
    dist_rows_t *rows = calloc(1, sizeof(*rows));

    if (rows == NULL) {
        return fail_memory(0);
    }
    rows->row_elems = 1;
    for (int32_t i = 1; i < key->ndim; i++) {
        rows->row_elems *= key->shape[i];
    }
    rows->row_bytes = (size_t)rows->row_elems * kvs_dtype_bytes(kvs_dtype_index(key->dtype));
    group->rows = rows;
    return KVS_OK;
}

void dist_sparse_release(dist_group_t *group)
{
    dist_rows_t *rows = group->rows;

    if (rows == NULL) {
        return;
    }
    for (size_t i = 0; i < rows->n_lists; i++) {
        free(rows->lists[i].ids);
    }
    free(rows->lists);
    free(rows->owned);
    free(rows->order);
    free(rows);
    group->rows = NULL;
}

/* The sum of the group's values, each row once. */
static kvs_status_t unite(dist_group_t *group)
{
    dist_rows_t *rows = group->rows;
    kvs_row_union_t sum;
    kvs_status_t status = kvs_row_union_make(group->pub->values, group->pub->n_values, &sum);

    if (status != KVS_OK) {
        return status;
    }
    rows->n = sum.n_rows;
    rows->owned = malloc((size_t)sum.n_rows * sizeof(int64_t) + 1);
    status = rows->owned == NULL
                 ? fail_memory(sum.n_rows)
                 : dist_group_take_memory(group, (size_t)sum.n_rows * rows->row_bytes);
    if (status == KVS_OK && sum.n_rows > 0) {
        memcpy(rows->owned, sum.ids, (size_t)sum.n_rows * sizeof(int64_t));
        kvs_row_union_sum(&sum, group->sum);
    }
    rows->ids = rows->owned;
    group->source = group->sum;
    kvs_row_union_release(&sum);
    return status;
}

kvs_status_t dist_sparse_read_values(dist_group_t *group, bool once)
{
    const kvs_tensor_t *value = &group->pub->values[0];
    kvs_status_t status = new_rows(group);

    if (status == KVS_OK && (once || group->pub->n_values > 1)) {
        status = unite(group);
    } else if (status == KVS_OK) {
        group->rows->ids = value->rows->ids;
        group->rows->n = value->rows->n_rows;
        group->source = value->data;
        group->reads = true;
    }
    return status == KVS_OK ? KVS_OK : dist_name_key(status, group->pub->key);
}

/* ---- Rows asked for ----------------------------------------------------------------------------------- */

/* All lists in one, each id once. */
static kvs_status_t unite_lists(dist_rows_t *rows, int64_t n_rows)
{
    int64_t n = 0, *ids;
    kvs_tensor_t all = {
        .device = {KVS_DEVICE_CPU, 0}, .ndim = 1, .dtype = kvs_dtype(KVS_DTYPE_int64)};
    kvs_status_t status;

    if (rows->n_lists == 1) {
        rows->ids = rows->lists[0].ids;
        rows->n = rows->lists[0].n;
        return KVS_OK;
    }
    for (size_t i = 0; i < rows->n_lists; i++) {
        n += rows->lists[i].n;
    }
    ids = malloc((size_t)n * sizeof(*ids) + 1);
    if (ids == NULL) {
        return fail_memory(n);
    }
    n = 0;
    for (size_t i = 0; i < rows->n_lists; i++) {
        if (rows->lists[i].n > 0) {
            memcpy(ids + n, rows->lists[i].ids, (size_t)rows->lists[i].n * sizeof(*ids));
        }
        n += rows->lists[i].n;
    }
    all.data = ids;
    all.shape = &n;
    status = kvs_row_ids_unique(&all, n_rows, &rows->owned, &rows->n);
    free(ids);
    rows->ids = rows->owned;
    return status;
}

static const dist_ids_t *list_of_out(const dist_group_t *group, size_t out)
{
    return &group->rows->lists[group->rows->n_lists == 1 ? 0 : out];
}

static kvs_status_t read_lists(dist_group_t *group)
{
    const kvs_group_t *pub = group->pub;
    dist_rows_t *rows = group->rows;
    kvs_status_t status = KVS_OK;

    rows->lists = calloc(pub->n_row_ids + 1, sizeof(*rows->lists));
    if (rows->lists == NULL) {
        return fail_memory((int64_t)pub->n_row_ids);
    }
    while (rows->n_lists < pub->n_row_ids && status == KVS_OK) {
        dist_ids_t *list = &rows->lists[rows->n_lists];

        status = kvs_row_ids_unique(&pub->row_ids[rows->n_lists], pub->key->shape[0], &list->ids,
                                    &list->n);
        rows->n_lists += status == KVS_OK;
    }
    return status == KVS_OK ? unite_lists(rows, pub->key->shape[0]) : status;
}

/* One list goes straight to its outs, unless they have to wait for those of other keys. */
kvs_status_t dist_sparse_read_ids(dist_group_t *group, bool shared)
{
    kvs_status_t status = new_rows(group);

    if (status == KVS_OK) {
        status = read_lists(group);
    }
    if (status != KVS_OK) {
        return dist_name_key(status, group->pub->key);
    }
    for (size_t i = 0; i < group->pub->n_outs && status == KVS_OK; i++) {
        status = check_room(group->pub, i, list_of_out(group, i)->n);
    }
    if (status == KVS_OK && (shared || group->rows->n_lists > 1)) {
        group->n_result_bytes = (size_t)group->rows->n * group->rows->row_bytes;
        status = kvs_cpu_provider()->alloc((kvs_device_t){KVS_DEVICE_CPU, 0}, group->n_result_bytes,
                                           (void **)&group->result);
    }
    return status;
}

/* Rows [first, first + n) of those asked for have come. */
void dist_sparse_write(const dist_group_t *group, int64_t first, int64_t n, const void *data)
{
    const dist_rows_t *rows = group->rows;
    int dtype = kvs_dtype_index(group->pub->key->dtype);

    if (rows->row_bytes == 0) {
        return;
    }
    if (group->result != NULL) {
        memcpy(group->result + (size_t)first * rows->row_bytes, data, (size_t)n * rows->row_bytes);
        return;
    }
    for (size_t i = 0; i < group->pub->n_outs; i++) {
        const kvs_tensor_t *out = &group->pub->outs[i];
        int to = kvs_dtype_index(out->dtype);

        kvs_cast(n * rows->row_elems, dtype, data, to,
                 (char *)out->data + (size_t)(first * rows->row_elems) * kvs_dtype_bytes(to));
    }
}

/* The rows of an out, out of all that came: both lists ascend. */
static void copy_rows(const dist_group_t *group, const dist_ids_t *list, const kvs_tensor_t *out)
{
    const dist_rows_t *rows = group->rows;
    int from = kvs_dtype_index(group->pub->key->dtype), to = kvs_dtype_index(out->dtype);
    size_t out_bytes = (size_t)rows->row_elems * kvs_dtype_bytes(to);
    int64_t at = 0;

    for (int64_t i = 0; i < list->n; i++) {
        while (rows->ids[at] != list->ids[i]) {
            at++;
        }
        kvs_cast(rows->row_elems, from, group->result + (size_t)at * rows->row_bytes, to,
                 (char *)out->data + (size_t)i * out_bytes);
    }
}

void dist_sparse_write_out(const dist_group_t *group, size_t index)
{
    const kvs_tensor_t *out = &group->pub->outs[index];
    const dist_ids_t *list = list_of_out(group, index);

    if (group->result != NULL && group->rows->row_bytes > 0) {
        copy_rows(group, list, out);
    }
    if (list->n > 0) {
        memcpy(out->rows->ids, list->ids, (size_t)list->n * sizeof(*list->ids));
    }
    out->rows->n_rows = list->n;
}

/* ---- Which rows go where -------------------------------------------------------------------------------- */

/* The shard of a row, looked for from `hint` on, where the last one was. */
static uint32_t find_shard(const dist_record_t *record, int64_t row_elems, int64_t id,
                           uint32_t hint)
{
    int64_t elem = id * row_elems;

    while (hint > 0 && elem < record->shards[hint].first) {
        hint--;
    }
    while (hint + 1 < record->n_shards && elem >= record->shards[hint + 1].first) {
        hint++;
    }
    return hint;
}

/* Requests get the places of their rows, which keep their order. */
static bool sort_by_shard(dist_group_t *group, const dist_record_t *record)
{
    dist_rows_t *rows = group->rows;
    dist_request_t *requests = group->requests;
    int64_t first = 0;
    uint32_t shard = 0;

    rows->order = malloc((size_t)rows->n * sizeof(*rows->order) + 1);
    if (rows->order == NULL) {
        return false;
    }
    for (int64_t i = 0; i < rows->n; i++) {
        shard = find_shard(record, rows->row_elems, rows->ids[i], shard);
        requests[shard].n++;
    }
    for (uint32_t s = 0; s < record->n_shards; s++) {
        requests[s].rows_first = first;
        first += requests[s].n;
        requests[s].n = 0;
    }
    for (int64_t i = 0; i < rows->n; i++) {
        shard = find_shard(record, rows->row_elems, rows->ids[i], shard);
        rows->order[requests[shard].rows_first + requests[shard].n++] = i;
    }
    return true;
}

/* Who has none of the rows is not asked. */
static void leave_out_empty(dist_group_t *group)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < group->n_requests; i++) {
        if (group->requests[i].n > 0) {
            group->requests[n++] = group->requests[i];
        }
    }
    group->n_requests = group->n_left = n;
}

bool dist_sparse_split(dist_group_t *group)
{
    const dist_key_t *key = group->pub->key->state;
    const dist_record_t *record = &key->record;

    free(group->rows->order);
    group->rows->order = NULL;
    if (!dist_record_has_whole_rows(record)) {
        dist_group_fail(group, KVS_ERR_NOT_IMPLEMENTED,
                        "a row-sparse push to a dense array that is cut over servers within rows; "
                        "raise bigarray_bound, or init it row-sparse");
        return false;
    }
    for (uint32_t i = 0; i < group->n_requests; i++) {
        group->requests[i].n = record->n_shards == 1 ? group->rows->n : 0;
    }
    if (record->n_shards > 1 && !sort_by_shard(group, record)) {
        dist_group_fail(group, KVS_ERR_NO_MEMORY, "no memory to sort rows by server");
        return false;
    }
    if (group->requests[0].kind == DIST_PULL_ROWS) {
        leave_out_empty(group);
    }
    return true;
}

/* ---- As what they travel -------------------------------------------------------------------------------- */

int64_t dist_sparse_part(const dist_request_t *request)
{
    int64_t n = dist_part_rows(request->group->rows->row_bytes);

    return request->n - request->n_sent < n ? request->n - request->n_sent : n;
}

static int64_t place_of(const dist_request_t *request, int64_t i)
{
    const dist_rows_t *rows = request->group->rows;

    return rows->order == NULL ? request->rows_first + i : rows->order[request->rows_first + i];
}

/* Ids as the server counts them, little-endian. */
static void put_ids(const dist_request_t *request, int64_t n, char *to)
{
    const dist_rows_t *rows = request->group->rows;
    int64_t first = rows->row_elems == 0 ? 0 : request->first / rows->row_elems;

    for (int64_t i = 0; i < n; i++) {
        int64_t at = place_of(request, request->n_sent + i);
        uint64_t id = htole64((uint64_t)(rows->ids[at] - first));

        memcpy(to + (size_t)i * sizeof(id), &id, sizeof(id));
    }
}

static void put_rows(const dist_request_t *request, int64_t n, char *to)
{
    const dist_group_t *group = request->group;
    size_t row_bytes = group->rows->row_bytes;

    if (row_bytes == 0 || n == 0) {
        return;
    }
    if (group->rows->order == NULL) {
        memcpy(to, group->source + (size_t)(request->rows_first + request->n_sent) * row_bytes,
               (size_t)n * row_bytes);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        memcpy(to + (size_t)i * row_bytes,
               group->source + (size_t)place_of(request, request->n_sent + i) * row_bytes,
               row_bytes);
    }
}

/* The next part. Kept by the request until it is sent. */
kvs_status_t dist_sparse_make_body(dist_request_t *request)
{
    bool asks = request->kind == DIST_PULL_ROWS;
    int64_t n = dist_sparse_part(request);
    uint64_t total = htole64((uint64_t)request->n);
    char *body;

    if (request->body != NULL) {
        return KVS_OK;
    }
    request->n_body =
        asks ? (size_t)n * sizeof(int64_t) : dist_rows_bytes(request->group->rows->row_bytes, n);
    request->body = body = malloc(request->n_body);
    if (body == NULL) {
        return fail_memory(n);
    }
    if (asks) {
        put_ids(request, n, body);
        return KVS_OK;
    }
    memcpy(body, &total, sizeof(total));
    put_ids(request, n, body + DIST_ROWS_HEAD);
    put_rows(request, n, body + DIST_ROWS_HEAD + (size_t)n * sizeof(int64_t));
    return KVS_OK;
}
