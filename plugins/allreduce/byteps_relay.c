/* SPDX-License-Identifier: Apache-2.0 */
/* byteps_relay.c - a worker that sums for its host: of each part, one does. The sum of the host goes to the
 * part's server as one block and stays until the result is here, which goes back to all workers of the
 * host: should the server be lost before, another gets the sum. */
#include "byteps_depot.h"

#include "byteps_book.h"

#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HERE_NS INT64_C(20000000) /* after so long servers are told who is waiting */

static const kvs_net_peer_t *server_peer(const byteps_depot_t *depot, uint32_t server)
{
    return kvs_net_node_peer(depot->node, KVS_NET_SERVER, (int)server);
}

/* The server of a block as things are; UINT32_MAX: none is left, and nothing works any more. */
static uint32_t server_of(byteps_depot_t *depot, const byteps_exchange_t *exchange,
                          const byteps_pending_t *pending)
{
    uint32_t server = pending->home;

    while (server != UINT32_MAX &&
           kvs_net_node_check_peer(depot->node, server_peer(depot, server)) != KVS_OK) {
        depot->lost[server] = true;
        server = byteps_replace(exchange->header.id, pending->block / depot->n_part_blocks,
                                depot->lost, (uint32_t)depot->n_servers);
    }
    return server;
}

/* ---- Sums on their way -------------------------------------------------------------------------------- */

static void send_sum(byteps_exchange_t *exchange, byteps_pending_t *pending)
{
    byteps_header_t header = exchange->header;
    int64_t now = byteps_now_ns();

    header.kind = BYTEPS_BLOCK;
    header.block = pending->block;
    header.server = 0;
    header.n_ranks = (uint32_t)exchange->n_seats;
    header.answer = (uint64_t)(now - exchange->begun_ns) / 1000000;
    exchange->moved_ns = now;
    pending->server = server_of(exchange->depot, exchange, pending);
    if (pending->server != UINT32_MAX) {
        byteps_answer_send_to_server(pending->sum, &header, pending->server);
    }
}

void byteps_relay_send(byteps_exchange_t *exchange, byteps_pending_t *pending)
{
    pending->sum = byteps_pending_sum(exchange, pending);
    if (pending->sum == NULL) {
        byteps_exchange_fail(exchange, KVS_ERR_NO_MEMORY, "no memory for the sum of a host");
        return;
    }
    send_sum(exchange, pending);
}

void byteps_relay_lose_server(byteps_depot_t *depot, uint32_t server)
{
    for (byteps_exchange_t *exchange = depot->exchanges; exchange != NULL;
         exchange = exchange->next) {
        for (byteps_pending_t *at = exchange->blocks; at != NULL; at = at->next) {
            if (at->sum != NULL && at->server == server) {
                send_sum(exchange, at);
            }
        }
    }
}

byteps_answer_t *byteps_relay_take_result(byteps_depot_t *depot, const byteps_header_t *header,
                                          kvs_net_message_t *message)
{
    byteps_exchange_t *exchange = byteps_exchange_find(depot, header->id, header->exchange);
    byteps_pending_t *pending =
        exchange == NULL ? NULL : byteps_block_find(exchange, header->block);
    uint32_t server = (uint32_t)message->from->rank;
    size_t n_bytes = message->n_body_bytes;
    byteps_answer_t *answer = byteps_answer_new(depot, message, NULL, n_bytes);

    if (pending == NULL || pending->sum == NULL || pending->server != server ||
        n_bytes != byteps_pending_bytes(exchange, pending)) {
        return answer; /* all have given it up */
    }
    if (answer == NULL) {
        byteps_exchange_fail(exchange, KVS_ERR_NO_MEMORY, "no memory for a result");
    } else {
        exchange->moved_ns = byteps_now_ns();
        byteps_block_give(exchange, pending, answer);
        byteps_block_free(exchange, pending);
    }
    byteps_exchange_free_if_done(exchange);
    return answer;
}

/* ---- What goes wrong ---------------------------------------------------------------------------------- */

/* Mark the servers of the exchange's blocks: those that have a sum, or all. */
static void mark_servers(byteps_exchange_t *exchange, bool all)
{
    byteps_depot_t *depot = exchange->depot;

    memset(depot->told, 0, (size_t)depot->n_servers * sizeof(*depot->told));
    for (const byteps_pending_t *at = exchange->blocks; at != NULL; at = at->next) {
        uint32_t server = at->sum != NULL ? at->server
                          : all           ? server_of(depot, exchange, at)
                                          : UINT32_MAX;

        if (server != UINT32_MAX) {
            depot->told[server] = true;
        }
    }
}

static void say_to_marked(byteps_exchange_t *exchange, byteps_kind_t kind, kvs_status_t status,
                          const char *text)
{
    byteps_depot_t *depot = exchange->depot;
    byteps_header_t header = {.kind = (uint8_t)kind,
                              .id = exchange->header.id,
                              .exchange = exchange->header.exchange,
                              .n_ranks = (uint32_t)exchange->n_seats,
                              .status = status};

    for (int s = 0; s < depot->n_servers; s++) {
        if (depot->told[s]) {
            byteps_depot_say_to_server(depot, (uint32_t)s, &header, text, strlen(text));
        }
    }
}

void byteps_relay_drop(byteps_exchange_t *exchange)
{
    mark_servers(exchange, false);
    say_to_marked(exchange, BYTEPS_DROP, KVS_OK, "");
}

void byteps_relay_fail(byteps_exchange_t *exchange, kvs_status_t status, const char *text)
{
    mark_servers(exchange, true);
    say_to_marked(exchange, BYTEPS_FAILED, status, text);
}

void byteps_relay_take_failed(byteps_depot_t *depot, const byteps_header_t *header,
                              const kvs_net_message_t *message)
{
    byteps_exchange_t *exchange = byteps_exchange_find(depot, header->id, header->exchange);
    kvs_net_text_t text = {.n = 0};

    if (exchange == NULL || exchange->seating != BYTEPS_MATES || exchange->status != KVS_OK) {
        return;
    }
    byteps_depot_read_text(&text, message);
    mark_servers(exchange, false);
    depot->told[message->from->rank] = false;
    say_to_marked(exchange, BYTEPS_DROP, KVS_OK, "");
    byteps_exchange_fail_here(exchange, header->status == KVS_OK ? KVS_ERR_PEER : header->status,
                              text.bytes);
    byteps_exchange_free_if_done(exchange);
}

/* ---- Who is here -------------------------------------------------------------------------------------- */

void byteps_relay_take_wanted(byteps_depot_t *depot, const byteps_header_t *header)
{
    byteps_exchange_t *exchange = byteps_exchange_find(depot, header->id, header->exchange);

    if (exchange != NULL) {
        exchange->n_at_home = 0;
    }
}

/* The first block whose sum the others have to wait for; NULL: there is none. */
static const byteps_pending_t *first_unsummed(const byteps_exchange_t *exchange)
{
    const byteps_pending_t *at = exchange->blocks;

    while (at != NULL && at->sum != NULL) {
        at = at->next;
    }
    return at;
}

static void tell_who_is_here(byteps_exchange_t *exchange, const byteps_pending_t *pending)
{
    byteps_depot_t *depot = exchange->depot;
    uint32_t server = server_of(depot, exchange, pending);
    uint32_t *ranks = malloc((size_t)exchange->n_seats * sizeof(*ranks));
    byteps_header_t header = {.kind = BYTEPS_HERE,
                              .id = exchange->header.id,
                              .exchange = exchange->header.exchange,
                              .n_ranks = (uint32_t)exchange->n_seats};
    size_t n = 0;

    for (int seat = 0; ranks != NULL && seat < exchange->n_seats; seat++) {
        if (pending->visits[seat].came != BYTEPS_ABSENT) {
            ranks[n++] = htole32((uint32_t)pending->visits[seat].worker);
        }
    }
    if (ranks != NULL && server != UINT32_MAX) { /* else texts name more workers than are missing */
        byteps_depot_say_to_server(depot, server, &header, ranks, n * sizeof(*ranks));
    }
    free(ranks);
}

/* A server that is silent: it has the deadline of what others miss itself, and a little less patience
 * than this host's workers with this one. */
static void check_servers(byteps_exchange_t *exchange, int64_t now_ns)
{
    int64_t timeout = exchange->header.timeout_ms;
    int64_t patience =
        timeout + (timeout < 5000 ? timeout : 5000) + (timeout < 2000 ? timeout : 2000) / 4;
    const byteps_pending_t *at = exchange->blocks;
    char text[1024];

    if (timeout == 0 || now_ns - exchange->moved_ns <= patience * 1000000) {
        return;
    }
    while (at != NULL && (at->sum == NULL || at->server == UINT32_MAX)) {
        at = at->next;
    }
    if (at != NULL) {
        kvs_net_print(text, sizeof(text),
                      "%s: %s has not answered within %.1f s; it may be busy or stuck",
                      BYTEPS_KEY_TEXT(&exchange->header),
                      server_peer(exchange->depot, at->server)->label, (double)patience / 1000);
        byteps_exchange_fail(exchange, KVS_ERR_TIMEOUT, text);
    }
}

void byteps_relay_look(byteps_exchange_t *exchange, int64_t now_ns)
{
    const byteps_pending_t *unsummed = first_unsummed(exchange);

    if (unsummed != NULL && now_ns - exchange->begun_ns >= HERE_NS &&
        exchange->n_at_home != (int)unsummed->n_came) {
        exchange->n_at_home = (int)unsummed->n_came;
        tell_who_is_here(exchange, unsummed);
    }
    check_servers(exchange, now_ns);
}
