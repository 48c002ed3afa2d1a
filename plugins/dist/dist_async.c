/* SPDX-License-Identifier: Apache-2.0 */
/* dist_async.c - asynchronous stores: each push is a round of its own, in order of arrival, one at a time
 * per key, as soon as all of it is here; so a worker that is slow holds up nobody. Pulls are answered
 * between two of them.
 *
 * Where an array is cut over servers, that of its first shard decides on the order and tells the others:
 * every shard sees the same pushes one after the other, and norms of the whole array can be computed. */
#include "dist_depot.h"

#include <stdlib.h>
#include <string.h>

kvs_status_t dist_async_new(dist_entry_t *entry)
{
    size_t n_workers = (size_t)entry->depot->n_workers;

    entry->async = calloc(1, sizeof(*entry->async) + n_workers * sizeof(dist_async_worker_t));
    return entry->async != NULL ? KVS_OK : kvs_fail(KVS_ERR_NO_MEMORY, "no memory for a key");
}

void dist_async_free(dist_entry_t *entry)
{
    dist_async_t *async = entry->async;

    if (async == NULL) {
        return;
    }
    while (async->ready != NULL) {
        dist_round_t *next = async->ready->next;

        dist_round_free(entry, async->ready);
        async->ready = next;
    }
    while (async->turns != NULL) {
        dist_turn_t *next = async->turns->next;

        free(async->turns);
        async->turns = next;
    }
    for (int w = 0; w < entry->depot->n_workers; w++) {
        dist_round_free(entry, async->workers[w].coming[0]);
        dist_round_free(entry, async->workers[w].coming[1]);
    }
    free(async);
    entry->async = NULL;
}

/* ---- Whose turn it is ------------------------------------------------------------------------------------ */

static bool leads(const dist_entry_t *entry)
{
    return entry->shard == &entry->record.shards[0];
}

/* Which optimizer updates: never one before that which the states belong to. */
static uint32_t choose_optimizer(const dist_entry_t *entry, const dist_round_t *round)
{
    uint32_t asked = round->pushes[round->only].optimizer;

    if (asked == 0) { /* a worker that has set none uses what the others have set */
        asked = entry->depot->n_optimizers;
    }
    return asked > entry->optimizer ? asked : entry->optimizer;
}

static void tell_turn(const dist_entry_t *entry, const dist_round_t *round)
{
    dist_depot_t *depot = entry->depot;
    dist_header_t header = {.kind = DIST_TURN,
                            .key = entry->record.id,
                            .digest = entry->digest,
                            .round = entry->n_done + 1,
                            .first = round->only,
                            .optimizer = round->pushes[round->only].optimizer};
    uint8_t bytes[DIST_MAX_HEADER_BYTES];
    kvs_net_send_t net = KVS_NET_SEND_INIT;

    net.flags = KVS_NET_URGENT;
    net.store = depot->number;
    net.header = bytes;
    net.n_header_bytes = dist_header_encode(&header, bytes);
    for (uint32_t i = 1; i < entry->record.n_shards; i++) {
        int server = (int)entry->record.shards[i].server;

        /* A server that is gone is the workers' business: they fail. */
        (void)kvs_net_send(depot->node, kvs_net_node_peer(depot->node, KVS_NET_SERVER, server),
                           &net);
    }
}

/* The first of the ready ones that is of this worker (-1: of any), taken off the list. */
static dist_round_t *take_ready(dist_async_t *async, int worker)
{
    dist_round_t **link = &async->ready, *round;

    while (*link != NULL && worker >= 0 && (*link)->only != worker) {
        link = &(*link)->next;
    }
    round = *link;
    if (round != NULL) {
        *link = round->next;
        round->next = NULL;
    }
    return round;
}

static dist_round_t *next_led(dist_entry_t *entry)
{
    dist_round_t *round = take_ready(entry->async, -1);

    if (round != NULL) {
        round->pushes[round->only].optimizer = choose_optimizer(entry, round);
        tell_turn(entry, round);
    }
    return round;
}

static dist_round_t *next_told(dist_entry_t *entry)
{
    dist_turn_t *turn = entry->async->turns;
    dist_round_t *round = NULL;

    /* An optimizer that is not here yet is on its way. */
    if (turn != NULL && turn->optimizer <= entry->depot->n_optimizers) {
        round = take_ready(entry->async, turn->worker);
    }
    if (round != NULL) {
        round->pushes[round->only].optimizer = turn->optimizer;
        entry->async->turns = turn->next;
        free(turn);
    }
    return round;
}

bool dist_async_begin(dist_entry_t *entry)
{
    entry->rounds[0] = leads(entry) ? next_led(entry) : next_told(entry);
    if (entry->rounds[0] == NULL) {
        return false;
    }
    dist_round_begin(entry);
    return true;
}

void dist_async_end(dist_entry_t *entry)
{
    entry->async->workers[entry->rounds[0]->only].n_done++;
}

void dist_async_take_turn(dist_entry_t *entry, const dist_header_t *header,
                          const kvs_net_message_t *message)
{
    dist_turn_t *turn, **link;

    if (entry->async == NULL || header->digest != entry->digest || leads(entry) ||
        entry->record.shards[0].server != (uint32_t)message->from->rank ||
        header->first >= entry->depot->n_workers) {
        kvs_log(KVS_LOG_WARN, "dist", "a turn from %s does not fit %s: dropped",
                message->from->label, DIST_KEY_TEXT(&entry->record));
        return;
    }
    turn = malloc(sizeof(*turn));
    if (turn == NULL) {
        kvs_log(KVS_LOG_ERROR, "dist", "no memory for a turn of %s: its pushes wait for ever",
                DIST_KEY_TEXT(&entry->record));
        return;
    }
    *turn = (dist_turn_t){NULL, (int)header->first, header->optimizer};
    for (link = &entry->async->turns; *link != NULL; link = &(*link)->next) {
    }
    *link = turn;
    dist_round_go_on(entry);
}

/* ---- Pushes come ----------------------------------------------------------------------------------------- */

static void append(dist_async_t *async, dist_round_t *round)
{
    dist_round_t **link = &async->ready;

    while (*link != NULL) {
        link = &(*link)->next;
    }
    *link = round;
}

static bool is_whole(const dist_entry_t *entry, const dist_round_t *round)
{
    return round->refusal != KVS_OK || dist_round_is_whole(entry, round, round->only);
}

/* Pushes of one worker are ready in its order. */
static void look_at_coming(dist_entry_t *entry, int worker)
{
    dist_async_worker_t *of = &entry->async->workers[worker];

    for (;;) {
        dist_round_t **coming = &of->coming[(of->n_ready + 1) % 2];

        if (*coming == NULL || !is_whole(entry, *coming)) {
            return;
        }
        append(entry->async, *coming);
        *coming = NULL;
        of->n_ready++;
    }
}

/* The round that is to have the next part of a push, or NULL and why not. */
static dist_round_t *coming_round(dist_entry_t *entry, const dist_header_t *header, int worker,
                                  const char **ret_misfit)
{
    dist_async_worker_t *of = &entry->async->workers[worker];
    dist_round_t **coming = &of->coming[header->round % 2];

    if (header->round <= of->n_ready || header->round > of->n_ready + 2) {
        *ret_misfit = "a push is out of order";
        return NULL;
    }
    if (header->optimizer > entry->depot->n_optimizers) {
        *ret_misfit = "a push names an optimizer that was never set";
        return NULL;
    }
    if (*coming == NULL) {
        *coming = dist_round_new(entry, worker);
    }
    if (*coming == NULL) {
        *ret_misfit = "no memory for a push";
        return NULL;
    }
    return *coming;
}

void dist_async_take_push(dist_entry_t *entry, const dist_header_t *header,
                          kvs_net_message_t *message)
{
    int worker = message->from->rank;
    const char *misfit = dist_round_why_misfit(entry, header, message);
    dist_round_t *round = misfit == NULL ? coming_round(entry, header, worker, &misfit) : NULL;

    if (round != NULL && !dist_round_add_part(entry, round, header, message)) {
        misfit = "a part of a push is out of order, or there is no memory for it";
        round = NULL;
    }
    if (round == NULL) {
        dist_entry_refuse(entry, worker, header->request, KVS_ERR_INTERNAL, misfit);
        dist_message_release(message);
        return;
    }
    look_at_coming(entry, worker);
    dist_round_go_on(entry);
}

void dist_async_take_refusal(dist_entry_t *entry, const dist_header_t *header,
                             const kvs_net_message_t *message)
{
    int worker = message->from->rank;
    const char *misfit = NULL;
    dist_round_t *round = coming_round(entry, header, worker, &misfit);

    if (round == NULL) {
        dist_entry_refuse(entry, worker, header->request, KVS_ERR_INTERNAL, misfit);
        return;
    }
    dist_round_add_refusal(entry, round, header, message);
    look_at_coming(entry, worker);
    dist_round_go_on(entry);
}
