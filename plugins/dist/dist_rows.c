/* SPDX-License-Identifier: Apache-2.0 */
/* dist_rows.c - row-sparse arrays on a server. A shard is stored dense, rows it lacks being zero. What
 * workers push is kept as it came; when all have pushed, the rows of all are united in order of rank. */
#include "dist_out.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

/* ---- What comes ---------------------------------------------------------------------------------------- */

/* The rows of a message. */
static kvs_rows_t rows_of(const kvs_net_message_t *message, int64_t n)
{
    return (kvs_rows_t){(int64_t *)(uintptr_t)((const char *)message->body + DIST_ROWS_HEAD), n, n};
}

static int64_t total_of(const kvs_net_message_t *message)
{
    uint64_t total;

    memcpy(&total, message->body, sizeof(total));
    return (int64_t)le64toh(total);
}

/* In place: the message is ours. */
static void swap_ids(int64_t *ids, int64_t n)
{
    for (int64_t i = 0; i < n && htole16(1) != 1; i++) {
        ids[i] = (int64_t)le64toh((uint64_t)ids[i]);
    }
}

static kvs_tensor_t tensor_of(const dist_entry_t *entry, kvs_rows_t *rows)
{
    return (kvs_tensor_t){.data = rows->ids + rows->n_rows,
                          .device = {KVS_DEVICE_CPU, 0},
                          .ndim = entry->view.ndim,
                          .dtype = entry->view.dtype,
                          .shape = entry->view.shape,
                          .rows = rows};
}

static const char *why_misfit(const dist_entry_t *entry, const dist_header_t *header,
                              const kvs_net_message_t *message)
{
    if (header->dtype != entry->record.dtype || header->digest != entry->digest) {
        return "rows do not have the shape and dtype of their key";
    }
    if (entry->cuts_rows) {
        return "rows are pushed to a shard that does not hold whole ones";
    }
    return message->n_body_bytes == dist_rows_bytes(entry->row_bytes, header->n)
               ? NULL
               : "rows do not have the length of their key's";
}

/* ---- The first value ----------------------------------------------------------------------------------- */

static kvs_status_t put_rows(dist_entry_t *entry, const kvs_net_message_t *message, int64_t n)
{
    kvs_rows_t rows = rows_of(message, n);
    kvs_tensor_t value = tensor_of(entry, &rows);
    kvs_row_union_t sum;
    kvs_status_t status;

    swap_ids(rows.ids, n);
    status = kvs_row_union_make(&value, 1, &sum);
    if (status == KVS_OK) {
        kvs_row_union_put(&sum, entry->weight);
        kvs_row_union_release(&sum);
    }
    return status;
}

void dist_rows_take_value(dist_entry_t *entry, const dist_header_t *header,
                          const kvs_net_message_t *message)
{
    kvs_status_t status = KVS_OK;

    if (entry->defined || !entry->record.row_sparse || header->first != entry->n_defined ||
        header->n > entry->n_first - entry->n_defined ||
        why_misfit(entry, header, message) != NULL) {
        status = kvs_fail(KVS_ERR_FORMAT, "a part of the first value does not fit its key");
    } else {
        status = put_rows(entry, message, header->n);
    }
    if (status != KVS_OK) {
        dist_depot_send_done(entry->depot, message->from->rank, entry->define_request, status,
                             kvs_plugin_host->last_error());
        return;
    }
    entry->n_defined += header->n;
    if (entry->n_defined == entry->n_first) {
        entry->defined = true;
        dist_depot_send_done(entry->depot, message->from->rank, entry->define_request, KVS_OK, "");
    }
}

/* ---- Pushes -------------------------------------------------------------------------------------------- */

const char *dist_rows_why_misfit(const dist_entry_t *entry, const dist_header_t *header,
                                 const kvs_net_message_t *message)
{
    const char *misfit = why_misfit(entry, header, message);

    if (misfit != NULL) {
        return misfit;
    }
    return total_of(message) >= header->n && header->first <= total_of(message) - header->n
               ? NULL
               : "a part of a push has more rows than the push";
}

bool dist_rows_add(dist_push_t *push, const dist_header_t *header, kvs_net_message_t *message)
{
    kvs_net_message_t **grown;

    if (header->first != push->n_rows ||
        (push->n_parts > 0 && (!push->is_rows || push->n_all_rows != total_of(message)))) {
        return false;
    }
    grown = realloc(push->row_parts, (size_t)(push->n_parts + 1) * sizeof(*grown));
    if (grown == NULL) {
        return false;
    }
    push->row_parts = grown;
    push->row_parts[push->n_parts++] = message;
    push->is_rows = true;
    push->n_all_rows = total_of(message);
    push->n_rows += header->n;
    return true;
}

void dist_rows_release(dist_push_t *push)
{
    for (int64_t p = 0; push->row_parts != NULL && p < push->n_parts; p++) {
        dist_message_release(push->row_parts[p]);
    }
    free(push->row_parts);
    push->row_parts = NULL;
}

/* How many rows a part of a push has. */
static int64_t n_rows_of(const dist_entry_t *entry, const kvs_net_message_t *message)
{
    return (int64_t)((message->n_body_bytes - DIST_ROWS_HEAD) /
                     (entry->row_bytes + sizeof(int64_t)));
}

bool dist_rows_are_finite(const dist_entry_t *entry, const dist_push_t *push)
{
    for (int64_t p = 0; p < push->n_parts; p++) {
        int64_t n = n_rows_of(entry, push->row_parts[p]);
        kvs_rows_t rows = rows_of(push->row_parts[p], n);
        kvs_tensor_t value = tensor_of(entry, &rows);

        if (!dist_is_finite(entry->record.dtype, n * entry->row_elems, value.data)) {
            return false;
        }
    }
    return true;
}

/* Values in order of rank, and each part as a value of its own: the order of rows is that of one value. */
static kvs_status_t unite(const dist_entry_t *entry, kvs_row_union_t *ret_sum)
{
    const dist_round_t *round = entry->rounds[0];
    size_t n = 0;
    kvs_tensor_t *values;
    kvs_rows_t *rows;
    kvs_status_t status;

    for (int w = 0; w < entry->depot->n_workers; w++) {
        n += (size_t)round->pushes[w].n_parts;
    }
    values = calloc(n, sizeof(*values));
    rows = calloc(n, sizeof(*rows));
    n = 0;
    for (int w = 0; values != NULL && rows != NULL && w < entry->depot->n_workers; w++) {
        const dist_push_t *push = &round->pushes[w];

        for (int64_t p = 0; p < push->n_parts; p++, n++) {
            rows[n] = rows_of(push->row_parts[p], n_rows_of(entry, push->row_parts[p]));
            swap_ids(rows[n].ids, rows[n].n_rows);
            values[n] = tensor_of(entry, &rows[n]);
        }
    }
    status = n > 0 ? kvs_row_union_make(values, n, ret_sum)
                   : kvs_fail(KVS_ERR_NO_MEMORY, "no memory for the rows of a round");
    free(values);
    free(rows);
    return status;
}

static void release_all(dist_entry_t *entry)
{
    for (int w = 0; w < entry->depot->n_workers; w++) {
        dist_rows_release(&entry->rounds[0]->pushes[w]);
    }
}

kvs_status_t dist_rows_sum(dist_entry_t *entry, void *dense)
{
    kvs_row_union_t sum;
    kvs_status_t status = unite(entry, &sum);

    if (status == KVS_OK) {
        kvs_row_union_to_dense(&sum, dense);
        kvs_row_union_release(&sum);
        release_all(entry);
    }
    return status;
}

/* By an optimizer that changes the listed rows only. */
static kvs_status_t step(dist_entry_t *entry, const kvs_row_union_t *sum)
{
    const dist_round_t *round = entry->rounds[0];
    void *packed = NULL;

    if (sum->first != NULL) {
        packed = malloc((size_t)sum->n_rows * entry->row_bytes + 1);
        if (packed == NULL) {
            return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for the sum of %lld rows",
                            (long long)sum->n_rows);
        }
        kvs_row_union_sum(sum, packed);
    }
    if (sum->n_rows > 0 && entry->row_bytes > 0) {
        kvs_opt_step_rows(round->opt, &round->update, &entry->opt, entry->record.dtype, sum->n_rows,
                          sum->ids, sum->first != NULL ? packed : sum->packed, entry->weight);
    }
    free(packed);
    return KVS_OK;
}

kvs_status_t dist_rows_step(dist_entry_t *entry)
{
    kvs_row_union_t sum;
    kvs_status_t status = unite(entry, &sum);

    if (status == KVS_OK) {
        status = step(entry, &sum);
        kvs_row_union_release(&sum);
    }
    if (status == KVS_OK) {
        release_all(entry);
    }
    return status;
}

/* ---- Pulls --------------------------------------------------------------------------------------------- */

static void free_body(void *arg, kvs_status_t status, const char *text)
{
    (void)status;
    (void)text;
    free(arg);
}

static bool are_ours(const dist_entry_t *entry, const int64_t *ids, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        if (ids[i] < 0 || ids[i] >= entry->n_rows) {
            return false;
        }
    }
    return true;
}

static kvs_status_t send_rows(dist_entry_t *entry, int worker, const dist_header_t *asked,
                              const int64_t *ids)
{
    dist_header_t header = {.kind = DIST_ROWS,
                            .dtype = (uint8_t)entry->record.dtype,
                            .request = asked->request,
                            .key = entry->record.id,
                            .digest = entry->digest,
                            .round = entry->n_done,
                            .first = asked->first,
                            .n = asked->n};
    uint8_t bytes[DIST_MAX_HEADER_BYTES];
    kvs_net_send_t net = KVS_NET_SEND_INIT;
    kvs_status_t status;
    void *rows = malloc((size_t)asked->n * entry->row_bytes + 1);

    if (rows == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory on the server for %lld rows",
                        (long long)asked->n);
    }
    kvs_rows_gather(entry->record.dtype, entry->row_elems, entry->weight, asked->n, ids,
                    entry->record.dtype, rows);
    net.store = entry->depot->number;
    net.header = bytes;
    net.n_header_bytes = dist_header_encode(&header, bytes);
    net.body = rows;
    net.n_body_bytes = (size_t)asked->n * entry->row_bytes;
    net.done = free_body;
    net.arg = rows;
    status = dist_out_send(entry->depot, worker, asked->priority, &net);
    if (status != KVS_OK) {
        free(rows);
    }
    return status;
}

void dist_rows_answer(dist_entry_t *entry, const dist_header_t *asked, kvs_net_message_t *message)
{
    int64_t *ids = (int64_t *)(uintptr_t)message->body;
    int worker = message->from->rank;
    kvs_status_t status;

    swap_ids(ids, asked->n);
    if (!are_ours(entry, ids, asked->n) || asked->digest != entry->digest || entry->cuts_rows) {
        status = kvs_fail(KVS_ERR_RANGE, "%s: rows are asked for that server %d does not have",
                          DIST_KEY_TEXT(&entry->record), entry->depot->rank);
    } else {
        status = send_rows(entry, worker, asked, ids);
    }
    if (status != KVS_OK) {
        dist_depot_send_done(entry->depot, worker, asked->request, status,
                             kvs_plugin_host->last_error());
    }
    dist_message_release(message);
}
