/* SPDX-License-Identifier: Apache-2.0 */
/* dist_server_states.c - states of optimizers given to workers and taken from rank 0. What is taken waits
 * beside the states in force until all of it is there; then they change places, between two updates. */
#include "dist_depot.h"

#include "dist_states.h"

#include <kvstore/states.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_BYTES 512

/* A worker that waits for rank 0's load. */
struct dist_loading {
    dist_loading_t *next;
    dist_depot_t *depot;
    int worker;
    uint64_t request;
    int64_t number;
    int64_t begun_ns, timeout_ms;
    dist_wait_t wait;
};

static void send_reply(dist_depot_t *depot, int worker, const dist_header_t *header,
                       const dist_bytes_t *body)
{
    if (body->failed) {
        dist_depot_send_done(depot, worker, header->request, KVS_ERR_NO_MEMORY,
                             "no memory on the server for an answer");
    } else {
        dist_depot_answer(depot, worker, header, body->data, body->n);
    }
}

/* ---- To workers ------------------------------------------------------------------------------------------ */

/* States of an earlier optimizer are none. */
void dist_states_answer(dist_entry_t *entry, const dist_header_t *asked, int worker)
{
    dist_depot_t *depot = entry->depot;
    uint32_t optimizer = asked->optimizer;
    int64_t first = asked->first;
    bool has = entry->optimizer == optimizer && optimizer != 0 && optimizer <= depot->n_optimizers;
    kvs_opt_key_t none = {0};
    const kvs_opt_key_t *state = has ? &entry->opt : &none;
    dist_states_t states = dist_states_of(state, true, 0, 0, 1);
    dist_states_head_t head = {
        .made = state->states != NULL, .n_updates = state->n_updates, .n_bytes = states.n_bytes};
    dist_header_t header = {
        .kind = DIST_STATES, .request = asked->request, .round = entry->n_done, .first = first};
    dist_bytes_t body = DIST_BYTES_INIT;
    int64_t left = states.n_bytes > first ? states.n_bytes - first : 0;
    int64_t n = left < DIST_STATES_RUN_BYTES ? left : DIST_STATES_RUN_BYTES;

    if (has) {
        head.mask = dist_states_mask(depot->optimizers[optimizer - 1].opt, state);
    }
    dist_states_put_head(&body, &head);
    if (dist_bytes_reserve(&body, (size_t)n)) {
        dist_states_copy(&states, first, n, body.data + body.n, false);
        body.n += (size_t)n;
    }
    send_reply(depot, worker, &header, &body);
    dist_bytes_release(&body);
}

static const dist_optimizer_t *find_optimizer(dist_depot_t *depot, const dist_header_t *header,
                                              int worker)
{
    if (header->optimizer == 0 || header->optimizer > depot->n_optimizers) {
        dist_depot_send_done(depot, worker, header->request, KVS_ERR_INTERNAL,
                             "a message names an optimizer that was never set");
        return NULL;
    }
    return &depot->optimizers[header->optimizer - 1];
}

void dist_states_send_optimizer(dist_depot_t *depot, const dist_header_t *header, int worker)
{
    const dist_optimizer_t *optimizer = find_optimizer(depot, header, worker);
    dist_header_t answer = {.kind = DIST_STATES, .request = header->request};
    char *bytes = NULL;
    size_t n = 0;
    kvs_status_t status;

    if (optimizer == NULL) {
        return;
    }
    status = kvs_opt_pack(optimizer->opt, &bytes, &n);
    if (status != KVS_OK) {
        dist_depot_send_done(depot, worker, header->request, status, kvs_plugin_host->last_error());
    } else {
        dist_depot_answer(depot, worker, &answer, bytes, n);
    }
    free(bytes);
}

/* ---- From rank 0 ----------------------------------------------------------------------------------------- */

void dist_states_take_optimizer(dist_depot_t *depot, const dist_header_t *header,
                                const kvs_net_message_t *message)
{
    kvs_opt_t *opt = NULL;
    kvs_status_t status = kvs_opt_unpack(message->body, message->n_body_bytes, &opt);

    if (status == KVS_OK) {
        kvs_opt_free(depot->load_opt);
        depot->load_opt = opt;
        depot->load_opt_try = header->round;
    }
    dist_depot_send_done(depot, 0, header->request, status,
                         status == KVS_OK ? "" : kvs_plugin_host->last_error());
}

/* What the states will belong to: the optimizer of this load, or the one in force. */
static kvs_opt_t *opt_of_load(const dist_depot_t *depot, const dist_header_t *header)
{
    return depot->load_opt != NULL && depot->load_opt_try == header->round
               ? depot->load_opt
               : depot->optimizers[header->optimizer - 1].opt;
}

static kvs_status_t begin_put(dist_entry_t *entry, const dist_header_t *header,
                              const dist_states_head_t *head)
{
    kvs_opt_key_release(&entry->loaded);
    entry->load_try = header->round;
    entry->loaded.n_updates = head->n_updates;
    return !head->made ? KVS_OK
                       : kvs_opt_begin_for(opt_of_load(entry->depot, header), &entry->loaded,
                                           &entry->view, NULL, head->mask);
}

static kvs_status_t take_run(dist_entry_t *entry, const dist_header_t *header,
                             const kvs_net_message_t *message)
{
    dist_view_t view = dist_view(message->body, message->n_body_bytes);
    dist_states_head_t head = dist_states_get_head(&view);
    kvs_status_t status = KVS_OK;
    dist_states_t states;

    if (header->first == 0) {
        status = begin_put(entry, header, &head);
    }
    states = dist_states_of(&entry->loaded, true, 0, 0, 1);
    if (status == KVS_OK &&
        (view.failed || entry->load_try != header->round || states.n_bytes != head.n_bytes ||
         header->first > states.n_bytes - (int64_t)view.n_left)) {
        status = kvs_fail(KVS_ERR_FORMAT, "%s: states of %lld bytes do not fit its %lld",
                          DIST_KEY_TEXT(&entry->record), (long long)head.n_bytes,
                          (long long)states.n_bytes);
    }
    if (status == KVS_OK) {
        dist_states_copy(&states, header->first, (int64_t)view.n_left, (void *)(uintptr_t)view.at,
                         true);
    }
    return status;
}

void dist_states_take(dist_entry_t *entry, const dist_header_t *header,
                      const kvs_net_message_t *message)
{
    kvs_status_t status;

    if (find_optimizer(entry->depot, header, 0) == NULL) {
        return;
    }
    status = header->digest == entry->digest
                 ? take_run(entry, header, message)
                 : kvs_fail(KVS_ERR_FORMAT, "states that are not of their key");
    dist_depot_send_done(entry->depot, 0, header->request, status,
                         status == KVS_OK ? "" : kvs_plugin_host->last_error());
}

/* ---- In force -------------------------------------------------------------------------------------------- */

void dist_states_exchange(dist_entry_t *entry)
{
    dist_depot_t *depot = entry->depot;
    int64_t n_updates = entry->opt.n_updates;

    if (!entry->exchanges) {
        return;
    }
    entry->exchanges = false;
    kvs_opt_key_release(&entry->opt);
    if (entry->load_try == depot->load_try) { /* else it is not in the file */
        entry->opt = entry->loaded;
        entry->loaded = (kvs_opt_key_t){0};
    }
    if (!depot->load_counts) {
        entry->opt.n_updates = n_updates;
    }
    entry->optimizer = depot->load_optimizer;
}

/* The one that it replaces may still be used by a round that has begun. */
static kvs_status_t replace_optimizer(dist_depot_t *depot, const dist_header_t *header)
{
    dist_optimizer_t *optimizer = &depot->optimizers[header->optimizer - 1];
    kvs_opt_t **grown;

    if (depot->load_opt == NULL || depot->load_opt_try != header->round) {
        return kvs_fail(KVS_ERR_FORMAT, "a load comes before its optimizer");
    }
    grown = realloc(depot->replaced, (depot->n_replaced + 1) * sizeof(*grown));
    if (grown == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for an optimizer");
    }
    depot->replaced = grown;
    grown[depot->n_replaced++] = optimizer->opt;
    optimizer->opt = depot->load_opt;
    depot->load_opt = NULL;
    return KVS_OK;
}

static void exchange_all(dist_depot_t *depot, const dist_header_t *header)
{
    depot->load_try = header->round;
    depot->load_optimizer = header->optimizer;
    depot->load_counts = header->first != 0;
    for (size_t i = 0; i < depot->entries.n_items; i++) {
        dist_entry_t *entry = depot->entries.items[i].value;

        if (entry != NULL) {
            entry->exchanges = true;
            if (entry->rounds[0] == NULL || !entry->rounds[0]->settled) {
                dist_states_exchange(entry);
            }
        }
    }
}

static void load(dist_depot_t *depot, const dist_header_t *header)
{
    kvs_status_t status = header->first != 0 ? replace_optimizer(depot, header) : KVS_OK;

    if (status == KVS_OK) {
        exchange_all(depot, header);
        depot->n_loads = header->n;
    }
    dist_depot_send_done(depot, 0, header->request, status,
                         status == KVS_OK ? "" : kvs_plugin_host->last_error());
}

/* ---- Waiting for rank 0 ---------------------------------------------------------------------------------- */

static void end_waiting(dist_loading_t *loading, kvs_status_t status, const char *text)
{
    dist_depot_t *depot = loading->depot;
    dist_loading_t **link = &depot->loadings;

    while (*link != loading) {
        link = &(*link)->next;
    }
    *link = loading->next;
    dist_wait_end(depot->server, &loading->wait);
    dist_depot_send_done(depot, loading->worker, loading->request, status, text);
    free(loading);
}

static void look_at_time(dist_wait_t *wait, int64_t now_ns)
{
    dist_loading_t *loading = (dist_loading_t *)((char *)wait - offsetof(dist_loading_t, wait));
    char text[TEXT_BYTES];

    if (loading->timeout_ms > 0 && now_ns - loading->begun_ns >= loading->timeout_ms * 1000000) {
        kvs_net_print(text, sizeof(text),
                      "%s has not loaded states within %.3g s: those it loads count, and it calls "
                      "load_optimizer_states too",
                      dist_depot_worker_label(loading->depot, 0),
                      (double)loading->timeout_ms / 1000);
        end_waiting(loading, KVS_ERR_TIMEOUT, text);
    }
}

void dist_states_check_gone(dist_depot_t *depot)
{
    const char *why = dist_depot_why_gone(depot, 0);

    while (why != NULL && depot->loadings != NULL) {
        end_waiting(depot->loadings, KVS_ERR_PEER, why);
    }
}

static void wait_for_rank_0(dist_depot_t *depot, const dist_header_t *header, int worker)
{
    dist_loading_t *loading = calloc(1, sizeof(*loading));

    if (loading == NULL) {
        dist_depot_send_done(depot, worker, header->request, KVS_ERR_NO_MEMORY,
                             "no memory on the server to wait");
        return;
    }
    *loading = (dist_loading_t){.next = depot->loadings,
                                .depot = depot,
                                .worker = worker,
                                .request = header->request,
                                .number = header->n,
                                .begun_ns = dist_now_ns(),
                                .timeout_ms = header->timeout_ms,
                                .wait = {.look = look_at_time}};
    depot->loadings = loading;
    dist_wait_begin(depot->server, &loading->wait);
    dist_states_check_gone(depot);
}

static void answer_waiting(dist_depot_t *depot)
{
    dist_loading_t *next;

    for (dist_loading_t *loading = depot->loadings; loading != NULL; loading = next) {
        next = loading->next;
        if (loading->number <= depot->n_loads) {
            end_waiting(loading, KVS_OK, "");
        }
    }
}

void dist_states_load(dist_depot_t *depot, const dist_header_t *header, int worker)
{
    if (worker != 0 && header->n <= depot->n_loads) {
        dist_depot_send_done(depot, worker, header->request, KVS_OK, "");
    } else if (worker != 0) {
        wait_for_rank_0(depot, header, worker);
    } else if (find_optimizer(depot, header, 0) != NULL) {
        load(depot, header);
        answer_waiting(depot);
    }
}

void dist_states_free(dist_depot_t *depot)
{
    while (depot->loadings != NULL) {
        dist_loading_t *next = depot->loadings->next;

        dist_wait_end(depot->server, &depot->loadings->wait);
        free(depot->loadings);
        depot->loadings = next;
    }
    for (size_t i = 0; i < depot->n_replaced; i++) {
        kvs_opt_free(depot->replaced[i]);
    }
    free(depot->replaced);
    kvs_opt_free(depot->load_opt);
}
