/* SPDX-License-Identifier: Apache-2.0 */
/* dist_directory.c - names: rank 0 says what a key is and where it lies, the others ask. Whoever asks
 * first waits; whoever means another shape or dtype is told so, and so are the others. */
#include "dist_depot.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_BYTES 1024

/* A worker that asked before rank 0 said. */
typedef struct asker {
    struct asker *next;
    int worker;
    uint64_t request;
    int64_t generation;
    int64_t begun_ns, timeout_ms;
    dist_record_t record; /* what it means */
} asker_t;

/* A record that rank 0 has deleted and published anew, before everybody had asked for it. */
typedef struct earlier {
    struct earlier *next;
    int64_t generation;
    dist_record_t record;
    bool *knows; /* by rank */
} earlier_t;

struct dist_name {
    dist_name_t *next; /* of the same hash */
    dist_depot_t *depot;
    dist_record_t record; /* id 0: not published */
    int64_t generation;   /* how often its key was deleted before */
    earlier_t *earlier;
    asker_t *askers;
    bool *knows;        /* by rank: has the record */
    kvs_status_t *owed; /* by rank: an error of another, for its first use */
    char *owed_text;
    dist_wait_t wait;
};

static void free_asker(asker_t *asker)
{
    dist_record_release(&asker->record);
    free(asker);
}

static void free_earlier(earlier_t *earlier)
{
    dist_record_release(&earlier->record);
    free(earlier->knows);
    free(earlier);
}

static void free_name(dist_name_t *name)
{
    while (name->earlier != NULL) {
        earlier_t *next = name->earlier->next;

        free_earlier(name->earlier);
        name->earlier = next;
    }
    dist_wait_end(name->depot->server, &name->wait);
    while (name->askers != NULL) {
        asker_t *next = name->askers->next;

        free_asker(name->askers);
        name->askers = next;
    }
    dist_record_release(&name->record);
    free(name->knows);
    free(name->owed);
    free(name->owed_text);
    free(name);
}

void dist_directory_free(dist_depot_t *depot)
{
    for (size_t i = 0; i < depot->names.n_items; i++) {
        dist_name_t *name = depot->names.items[i].value;

        while (name != NULL) {
            dist_name_t *next = name->next;

            free_name(name);
            name = next;
        }
    }
    dist_map_release(&depot->names);
}

static dist_name_t *new_name(dist_depot_t *depot, const dist_record_t *record)
{
    dist_name_t *name = calloc(1, sizeof(*name));
    size_t n = (size_t)depot->n_workers;

    if (name == NULL) {
        return NULL;
    }
    name->depot = depot;
    name->knows = calloc(n, sizeof(*name->knows));
    name->owed = calloc(n, sizeof(*name->owed));
    if (name->knows == NULL || name->owed == NULL ||
        dist_record_copy(record, &name->record) != KVS_OK) {
        free_name(name);
        return NULL;
    }
    name->record.id = 0;
    return name;
}

/* Found, or made. NULL: no memory. */
static dist_name_t *name_of(dist_depot_t *depot, const dist_record_t *record)
{
    uint64_t hash = dist_record_name_hash(record);
    uint64_t number = hash == 0 ? 1 : hash;
    dist_name_t *first = dist_map_find(&depot->names, number), *name = first;

    while (name != NULL && !dist_record_same_name(&name->record, record)) {
        name = name->next;
    }
    if (name != NULL) {
        return name;
    }
    name = new_name(depot, record);
    if (name == NULL) {
        return NULL;
    }
    name->next = first;
    if (dist_map_set(&depot->names, number, name) != KVS_OK) {
        free_name(name);
        return NULL;
    }
    return name;
}

/* ---- Disagreement ---------------------------------------------------------------------------------------- */

static void owe(dist_name_t *name, int worker, kvs_status_t status, const char *text)
{
    if (name->knows[worker]) {
        dist_depot_tell(name->depot, worker, name->record.id, status, text);
        return;
    }
    name->owed[worker] = status;
    free(name->owed_text);
    name->owed_text = strdup(text);
}

/* Told to the worker, and to the others at their next use of the key. */
static void disagree(dist_name_t *name, int worker, uint64_t request, const dist_record_t *record)
{
    dist_depot_t *depot = name->depot;
    const dist_record_t *ours = &name->record;
    kvs_status_t status = record->dtype == ours->dtype ? KVS_ERR_SHAPE : KVS_ERR_DTYPE;
    char text[TEXT_BYTES];

    if (record->dtype == ours->dtype && record->row_sparse != ours->row_sparse) {
        status = KVS_ERR_STORAGE;
    }
    snprintf(text, sizeof(text),
             "%s: %s gives %sshape %s and dtype %s, but %s gave %sshape %s and %s",
             DIST_KEY_TEXT(ours), dist_depot_worker_label(depot, worker),
             record->row_sparse ? "row-sparse " : "", DIST_SHAPE_TEXT(record),
             kvs_dtype_name(kvs_dtype(record->dtype)), dist_depot_worker_label(depot, 0),
             ours->row_sparse ? "row-sparse " : "", DIST_SHAPE_TEXT(ours),
             kvs_dtype_name(kvs_dtype(ours->dtype)));
    for (int w = 0; w < depot->n_workers; w++) { /* before it can tell them by other ways */
        if (w != worker) {
            owe(name, w, status, text);
        }
    }
    dist_depot_send_done(depot, worker, request, status, text);
}

static void answer(dist_name_t *name, int worker, uint64_t request, const dist_record_t *record)
{
    kvs_status_t owed = name->owed[worker];

    if (dist_record_digest(record) != dist_record_digest(&name->record)) {
        disagree(name, worker, request, record);
    } else if (owed != KVS_OK) {
        name->owed[worker] = KVS_OK;
        dist_depot_send_done(name->depot, worker, request, owed,
                             name->owed_text == NULL ? "no memory" : name->owed_text);
    } else {
        name->knows[worker] = true;
        dist_depot_send_record(name->depot, worker, request, &name->record);
    }
}

/* ---- Waiting for rank 0 ------------------------------------------------------------------------------------ */

static void refuse(dist_name_t *name, asker_t *asker, kvs_status_t status, const char *text)
{
    dist_depot_send_done(name->depot, asker->worker, asker->request, status, text);
    free_asker(asker);
}

static void look_at_time(dist_wait_t *wait, int64_t now_ns)
{
    dist_name_t *name = (dist_name_t *)((char *)wait - offsetof(dist_name_t, wait));
    asker_t **link = &name->askers;

    while (*link != NULL) {
        asker_t *asker = *link;
        char text[TEXT_BYTES];

        if (asker->timeout_ms == 0 || now_ns - asker->begun_ns < asker->timeout_ms * 1000000) {
            link = &asker->next;
            continue;
        }
        *link = asker->next;
        kvs_net_print(text, sizeof(text), "%s: %s has not initialised it within %.3g s",
                      DIST_KEY_TEXT(&name->record), dist_depot_worker_label(name->depot, 0),
                      (double)asker->timeout_ms / 1000);
        refuse(name, asker, KVS_ERR_TIMEOUT, text);
    }
    if (name->askers == NULL) {
        dist_wait_end(name->depot->server, &name->wait);
    }
}

static void wait_for_rank_0(dist_name_t *name, const dist_header_t *header, int worker,
                            dist_record_t *record)
{
    asker_t *asker = calloc(1, sizeof(*asker));

    if (asker == NULL) {
        dist_depot_send_done(name->depot, worker, header->request, KVS_ERR_NO_MEMORY,
                             "no memory on the server to wait for a key");
        return;
    }
    *asker = (asker_t){.next = name->askers,
                       .worker = worker,
                       .request = header->request,
                       .generation = header->first,
                       .begun_ns = dist_now_ns(),
                       .timeout_ms = header->timeout_ms,
                       .record = *record};
    *record = (dist_record_t)DIST_RECORD_INIT;
    name->askers = asker;
    name->wait.look = look_at_time;
    dist_wait_begin(name->depot->server, &name->wait);
}

static void check_gone(dist_name_t *name)
{
    const char *why = dist_depot_why_gone(name->depot, 0);

    while (why != NULL && name->askers != NULL) {
        asker_t *asker = name->askers;
        char text[TEXT_BYTES];

        name->askers = asker->next;
        snprintf(text, sizeof(text), "%s was not initialised: %s", DIST_KEY_TEXT(&name->record),
                 why);
        refuse(name, asker, KVS_ERR_PEER, text);
    }
    if (name->askers == NULL) {
        dist_wait_end(name->depot->server, &name->wait);
    }
}

void dist_directory_check_gone(dist_depot_t *depot)
{
    for (size_t i = 0; i < depot->names.n_items; i++) {
        for (dist_name_t *name = depot->names.items[i].value; name != NULL; name = name->next) {
            check_gone(name);
        }
    }
}

/* ---- Messages -------------------------------------------------------------------------------------------- */

/* Those who have asked for what was published now. */
static void answer_all(dist_name_t *name)
{
    asker_t **link = &name->askers;

    while (*link != NULL) {
        asker_t *asker = *link;

        if (asker->generation != name->generation) {
            link = &asker->next;
            continue;
        }
        *link = asker->next;
        answer(name, asker->worker, asker->request, &asker->record);
        free_asker(asker);
    }
    if (name->askers == NULL) {
        dist_wait_end(name->depot->server, &name->wait);
    }
}

static bool all_know(const dist_depot_t *depot, const bool *knows)
{
    int w = 0;

    while (w < depot->n_workers && (knows[w] || dist_depot_why_gone(depot, w) != NULL)) {
        w++;
    }
    return w == depot->n_workers;
}

/* The record goes, but not for those who have not asked for it yet. */
static kvs_status_t retire(dist_name_t *name)
{
    size_t n = (size_t)name->depot->n_workers;
    bool *knows = calloc(n, sizeof(*knows));
    earlier_t *earlier = calloc(1, sizeof(*earlier));

    if (knows == NULL || earlier == NULL) {
        free(knows);
        free(earlier);
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for the name of a key");
    }
    *earlier = (earlier_t){name->earlier, name->generation, name->record, name->knows};
    name->record = (dist_record_t)DIST_RECORD_INIT;
    name->knows = knows;
    name->earlier = earlier;
    memset(name->owed, 0, n * sizeof(*name->owed));
    if (all_know(name->depot, earlier->knows)) {
        name->earlier = earlier->next;
        free_earlier(earlier);
    }
    return KVS_OK;
}

static void answer_earlier(dist_name_t *name, const dist_header_t *header, int worker,
                           const dist_record_t *record)
{
    earlier_t **link = &name->earlier, *earlier;

    while (*link != NULL && (*link)->generation != header->first) {
        link = &(*link)->next;
    }
    earlier = *link;
    if (earlier == NULL || dist_record_digest(&earlier->record) != dist_record_digest(record)) {
        char text[TEXT_BYTES];

        snprintf(text, sizeof(text),
                 "%s: %sshape %s and dtype %s of %s are not what %s gave before it was deleted",
                 DIST_KEY_TEXT(record), record->row_sparse ? "row-sparse " : "",
                 DIST_SHAPE_TEXT(record), kvs_dtype_name(kvs_dtype(record->dtype)),
                 dist_depot_worker_label(name->depot, worker),
                 dist_depot_worker_label(name->depot, 0));
        dist_depot_send_done(name->depot, worker, header->request, KVS_ERR_SHAPE, text);
        return;
    }
    dist_depot_send_record(name->depot, worker, header->request, &earlier->record);
    earlier->knows[worker] = true;
    if (all_know(name->depot, earlier->knows)) {
        *link = earlier->next;
        free_earlier(earlier);
    }
}

void dist_directory_publish(dist_depot_t *depot, const dist_header_t *header,
                            const kvs_net_message_t *message)
{
    dist_record_t record;
    dist_name_t *name;
    kvs_status_t status = dist_record_decode(message->body, message->n_body_bytes, &record);

    if (status == KVS_OK && (record.id == 0 || record.n_shards == 0)) {
        dist_record_release(&record);
        status = kvs_fail(KVS_ERR_FORMAT, "the record of a key has no place");
    }
    if (status != KVS_OK) {
        dist_depot_send_done(depot, message->from->rank, header->request, status,
                             kvs_plugin_host->last_error());
        return;
    }
    name = name_of(depot, &record);
    if (name == NULL) {
        dist_record_release(&record);
        dist_depot_send_done(depot, message->from->rank, header->request, KVS_ERR_NO_MEMORY,
                             "no memory on the server for the name of a key");
        return;
    }
    if (name->record.id != 0 && header->first > name->generation && retire(name) != KVS_OK) {
        dist_record_release(&record);
        dist_depot_send_done(depot, message->from->rank, header->request, KVS_ERR_NO_MEMORY,
                             kvs_plugin_host->last_error());
        return;
    }
    dist_record_release(&name->record);
    name->record = record;
    name->generation = header->first;
    name->knows[0] = true;
    dist_depot_send_done(depot, message->from->rank, header->request, KVS_OK, "");
    answer_all(name);
}

void dist_directory_look_up(dist_depot_t *depot, const dist_header_t *header,
                            const kvs_net_message_t *message)
{
    int worker = message->from->rank;
    dist_record_t record;
    dist_name_t *name;
    kvs_status_t status = dist_record_decode(message->body, message->n_body_bytes, &record);

    if (status != KVS_OK) {
        dist_depot_send_done(depot, worker, header->request, status, kvs_plugin_host->last_error());
        return;
    }
    name = name_of(depot, &record);
    if (name == NULL) {
        dist_depot_send_done(depot, worker, header->request, KVS_ERR_NO_MEMORY,
                             "no memory on the server for the name of a key");
    } else if (name->record.id != 0 && header->first < name->generation) {
        answer_earlier(name, header, worker, &record);
    } else if (name->record.id != 0 && header->first == name->generation) {
        answer(name, worker, header->request, &record);
    } else {
        wait_for_rank_0(name, header, worker, &record);
        check_gone(name);
    }
    dist_record_release(&record);
}
