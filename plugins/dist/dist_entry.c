/* SPDX-License-Identifier: Apache-2.0 */
/* dist_entry.c - one shard of one key: its memory, its first value, and answers with its value, which
 * are read from that memory: a part is not changed before everybody has received it. */
#include "dist_out.h"

#include "dist_place.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COPY_BYTES (16 << 10) /* parts up to this size are copied as they are sent */

static const kvs_device_t host_device = {KVS_DEVICE_CPU, 0};

/* ---- The life of an entry ------------------------------------------------------------------------------ */

void dist_entry_free(dist_entry_t *entry)
{
    const kvs_provider_t *cpu = kvs_cpu_provider();

    if (entry == NULL) {
        return;
    }
    dist_round_drop_all(entry);
    dist_norms_drop(entry);
    dist_wait_end(entry->depot->server, &entry->wait);
    while (entry->pulls != NULL) {
        dist_pull_t *next = entry->pulls->next;

        dist_message_release(entry->pulls->message);
        free(entry->pulls);
        entry->pulls = next;
    }
    kvs_opt_key_release(&entry->opt);
    kvs_opt_key_release(&entry->loaded);
    cpu->free(host_device, entry->merge, entry->n_bytes);
    cpu->free(host_device, entry->weight, entry->n_bytes);
    free(entry->parts);
    free(entry->counts);
    free(entry->failed_text);
    dist_record_release(&entry->record);
    free(entry);
}

/* The shard as an array of its own: the whole one, or whole rows, or so many elements. */
static void set_view(dist_entry_t *entry)
{
    const dist_record_t *record = &entry->record;
    int64_t row = dist_row_elems(record), n = entry->shard->n;
    kvs_key_entry_t *view = &entry->view;

    *view = (kvs_key_entry_t){.number = record->number,
                              .name = record->name,
                              .dtype = kvs_dtype(record->dtype),
                              .shape = entry->view_shape,
                              .n_elems = n};
    if (record->n_shards == 1) {
        view->ndim = record->ndim;
        memcpy(entry->view_shape, record->shape, sizeof(record->shape));
    } else if (row > 0 && entry->shard->first % row == 0 && n % row == 0) {
        view->ndim = 2;
        entry->view_shape[0] = n / row;
        entry->view_shape[1] = row;
    } else {
        view->ndim = 1;
        entry->view_shape[0] = n;
        entry->cuts_rows = true;
    }
    entry->row_elems = row;
    entry->row_bytes = (size_t)row * kvs_dtype_bytes(record->dtype);
    entry->n_rows = record->n_shards == 1 ? dist_n_rows(record) : row > 0 ? n / row : 0;
    for (uint32_t i = 0; i < record->n_shards; i++) {
        entry->cuts_blocks |= record->shards[i].first % KVS_OPTIMIZER_SUM_BLOCK != 0;
    }
}

static kvs_status_t allocate(dist_entry_t *entry)
{
    int64_t n_each = dist_part_elems(entry->record.dtype, entry->depot->slice);
    int64_t n_parts = dist_n_parts(n_each, entry->shard->n);

    entry->part_elems = n_each;
    entry->n_parts = n_parts;
    entry->parts = calloc((size_t)n_parts, sizeof(*entry->parts));
    if (entry->parts == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for a list of %lld parts",
                        (long long)n_parts);
    }
    for (int64_t i = 0; i < n_parts; i++) {
        entry->parts[i].entry = entry;
    }
    if (entry->depot->is_async && dist_async_new(entry) != KVS_OK) {
        return KVS_ERR_NO_MEMORY;
    }
    entry->counts = calloc((size_t)entry->depot->n_workers, sizeof(*entry->counts));
    if (entry->counts == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for a key");
    }
    entry->elem_bytes = kvs_dtype_bytes(entry->record.dtype);
    entry->n_bytes = (size_t)entry->shard->n * entry->elem_bytes;
    return kvs_cpu_provider()->alloc(host_device, entry->n_bytes, &entry->weight);
}

static bool has_servers(const dist_depot_t *depot, const dist_record_t *record)
{
    uint32_t i = 0;

    while (i < record->n_shards && record->shards[i].server < (uint32_t)depot->n_servers) {
        i++;
    }
    return i == record->n_shards;
}

static kvs_status_t check_record(const dist_depot_t *depot, const dist_header_t *header,
                                 const dist_record_t *record)
{
    if (record->id != header->key || record->id == 0 ||
        dist_record_digest(record) != header->digest ||
        dist_record_shard_of(record, (uint32_t)depot->rank) == NULL ||
        !has_servers(depot, record)) {
        return kvs_fail(KVS_ERR_FORMAT, "the record of %s does not fit its message",
                        DIST_KEY_TEXT(record));
    }
    if (dist_map_find(&depot->entries, record->id) != NULL) {
        return kvs_fail(KVS_ERR_EXISTS, "%s is kept already", DIST_KEY_TEXT(record));
    }
    return KVS_OK;
}

kvs_status_t dist_entry_new(dist_depot_t *depot, const dist_header_t *header,
                            const kvs_net_message_t *message, dist_entry_t **ret_entry)
{
    dist_record_t record;
    dist_entry_t *entry;
    kvs_status_t status = dist_record_decode(message->body, message->n_body_bytes, &record);

    if (status != KVS_OK) {
        return status;
    }
    status = check_record(depot, header, &record);
    entry = status == KVS_OK ? calloc(1, sizeof(*entry)) : NULL;
    if (entry == NULL) {
        dist_record_release(&record);
        return status != KVS_OK ? status : kvs_fail(KVS_ERR_NO_MEMORY, "no memory for a key");
    }
    entry->depot = depot;
    entry->record = record;
    entry->shard = dist_record_shard_of(&entry->record, (uint32_t)depot->rank);
    entry->digest = header->digest;
    entry->define_request = header->request;
    entry->n_first = header->n;
    entry->defined = record.row_sparse ? header->n == 0 : entry->shard->n == 0;
    set_view(entry);
    status = allocate(entry);
    if (status == KVS_OK) {
        status = dist_map_set(&depot->entries, record.id, entry);
    }
    if (status != KVS_OK) {
        status = kvs_fail_context(status, "%s", DIST_KEY_TEXT(&entry->record));
        dist_entry_free(entry);
        return status;
    }
    *ret_entry = entry;
    return KVS_OK;
}

void dist_entry_refuse(const dist_entry_t *entry, int worker, uint64_t request, kvs_status_t status,
                       const char *why)
{
    char text[DIST_KEY_TEXT_BYTES + 256];

    snprintf(text, sizeof(text), "%s: server %d: %s", DIST_KEY_TEXT(&entry->record),
             entry->depot->rank, why);
    dist_depot_send_done(entry->depot, worker, request, status, text);
}

/* ---- Parts --------------------------------------------------------------------------------------------- */

int64_t dist_entry_part_elems(const dist_entry_t *entry, int64_t part)
{
    int64_t n = entry->shard->n - part * entry->part_elems;

    return n < entry->part_elems ? n : entry->part_elems;
}

void *dist_entry_part(const dist_entry_t *entry, void *array, int64_t part)
{
    return (char *)array + (size_t)(part * entry->part_elems) * entry->elem_bytes;
}

/* ---- The first value ----------------------------------------------------------------------------------- */

void dist_entry_take_value(dist_entry_t *entry, const dist_header_t *header,
                           const kvs_net_message_t *message)
{
    if (entry->defined || entry->record.row_sparse || header->first != entry->n_defined ||
        header->digest != entry->digest || header->dtype != entry->record.dtype ||
        header->n > entry->shard->n - header->first) {
        dist_entry_refuse(entry, message->from->rank, entry->define_request, KVS_ERR_FORMAT,
                          "a part of the first value does not fit");
        return;
    }
    if (header->n > 0) {
        memcpy((char *)entry->weight + (size_t)header->first * entry->elem_bytes, message->body,
               message->n_body_bytes);
    }
    entry->n_defined += header->n;
    if (entry->n_defined == entry->shard->n) {
        entry->defined = true;
        dist_depot_send_done(entry->depot, message->from->rank, entry->define_request, KVS_OK, "");
    }
}

/* ---- Values on their way out ----------------------------------------------------------------------------- */

static void part_is_read(void *arg, kvs_status_t status, const char *text)
{
    dist_part_state_t *part = arg;
    dist_entry_t *entry = part->entry;
    dist_depot_t *depot = entry->depot;

    (void)status; /* a worker that is gone reads nothing either */
    (void)text;
    part->n_readers--;
    entry->n_readers--;
    if (entry->is_deleted && entry->n_readers == 0) {
        dist_entry_free(entry);
    } else if (part->n_readers == 0 && !depot->is_closed) {
        dist_round_go_on(entry);
    }
    dist_depot_let_go(depot);
}

void dist_entry_send_part(dist_entry_t *entry, int worker, uint64_t request, int32_t priority,
                          int64_t part)
{
    dist_depot_t *depot = entry->depot;
    dist_header_t header = {.kind = DIST_PART,
                            .dtype = (uint8_t)entry->record.dtype,
                            .request = request,
                            .key = entry->record.id,
                            .digest = entry->digest,
                            .round = entry->n_done,
                            .first = part * entry->part_elems,
                            .n = dist_entry_part_elems(entry, part)};
    uint8_t bytes[DIST_MAX_HEADER_BYTES];
    kvs_net_send_t net = KVS_NET_SEND_INIT;
    bool copied = (size_t)header.n * entry->elem_bytes <= COPY_BYTES;

    net.store = depot->number;
    net.header = bytes;
    net.n_header_bytes = dist_header_encode(&header, bytes);
    net.n_body_bytes = (size_t)header.n * entry->elem_bytes;
    net.body = header.n > 0 ? dist_entry_part(entry, entry->weight, part) : NULL;
    net.done = copied ? NULL : part_is_read;
    net.arg = &entry->parts[part];
    /* A worker that can't be reached is told nothing: its events do that. */
    if (!copied) {
        entry->parts[part].n_readers++;
        entry->n_readers++;
        depot->n_readers++;
    }
    if (copied && entry->n_parts == 1) {
        dist_out_post(depot, worker, &net);
    } else if (dist_out_send(depot, worker, priority, &net) != KVS_OK && !copied) {
        entry->parts[part].n_readers--;
        entry->n_readers--;
        depot->n_readers--;
    }
}

static void send_value(dist_entry_t *entry, int worker, uint64_t request, int32_t priority)
{
    for (int64_t part = 0; part < entry->n_parts; part++) {
        dist_entry_send_part(entry, worker, request, priority, part);
    }
}

/* Whether the value shows this worker's pushes up to `round`. */
static bool has_round(const dist_entry_t *entry, int worker, int64_t round)
{
    if (entry->async != NULL) { /* while one push is applied, pulls wait for its end */
        return entry->rounds[0] == NULL && round <= entry->async->workers[worker].n_done;
    }
    return round <= entry->n_done;
}

/* Owns the message. */
static void answer_pull(dist_entry_t *entry, const dist_header_t *header, int worker,
                        kvs_net_message_t *message)
{
    if (header->kind == DIST_PULL_ROWS) {
        dist_rows_answer(entry, header, message);
    } else if (header->kind == DIST_GET_STATES) {
        dist_states_answer(entry, header, worker);
        dist_message_release(message);
    } else {
        send_value(entry, worker, header->request, header->priority);
        dist_message_release(message);
    }
}

void dist_entry_answer_pulls(dist_entry_t *entry)
{
    dist_pull_t **link = &entry->pulls;

    while (*link != NULL) {
        dist_pull_t *pull = *link;

        if (!has_round(entry, pull->worker, pull->header.round)) {
            link = &pull->next;
            continue;
        }
        *link = pull->next;
        answer_pull(entry, &pull->header, pull->worker, pull->message);
        free(pull);
    }
}

/* In order: the parts of what one worker asks for are answered as they came. */
static void wait_for_round(dist_entry_t *entry, dist_pull_t *pull)
{
    dist_pull_t **link = &entry->pulls;

    while (*link != NULL) {
        link = &(*link)->next;
    }
    *link = pull;
}

void dist_entry_take_pull(dist_entry_t *entry, const dist_header_t *header,
                          kvs_net_message_t *message)
{
    int worker = message->from->rank;
    dist_pull_t *pull;

    if (has_round(entry, worker, header->round)) {
        answer_pull(entry, header, worker, message);
        return;
    }
    pull = malloc(sizeof(*pull));
    if (pull == NULL) {
        dist_entry_refuse(entry, worker, header->request, KVS_ERR_NO_MEMORY,
                          "no memory for a pull that waits");
        dist_message_release(message);
        return;
    }
    *pull = (dist_pull_t){NULL, worker, *header, NULL};
    if (header->kind == DIST_PULL_ROWS) {
        pull->message = message;
    } else {
        dist_message_release(message);
    }
    wait_for_round(entry, pull);
}
