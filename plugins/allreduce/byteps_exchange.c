/* SPDX-License-Identifier: Apache-2.0 */
/* byteps_exchange.c - blocks meet: when one is here for every seat they are summed in order of the seats,
 * so that the bits depend on no order of arrival, and the sum goes back to all; that of a host goes to a
 * server first. */
#include "byteps_depot.h"

#include <kvstore/kit.h>

#include <stdlib.h>
#include <string.h>

/* ---- The table ---------------------------------------------------------------------------------------- */

static size_t bucket_of(const byteps_depot_t *depot, uint64_t id, uint64_t exchange)
{
    uint64_t x = id * UINT64_C(0x9E3779B97F4A7C15) + exchange;

    x ^= x >> 32;
    x *= UINT64_C(0xBF58476D1CE4E5B9);
    return (size_t)(x ^ x >> 29) & (depot->n_buckets - 1);
}

byteps_exchange_t *byteps_exchange_find(const byteps_depot_t *depot, uint64_t id, uint64_t number)
{
    byteps_exchange_t *exchange =
        depot->n_buckets == 0 ? NULL : depot->buckets[bucket_of(depot, id, number)];

    while (exchange != NULL && (exchange->header.id != id || exchange->header.exchange != number)) {
        exchange = exchange->next_in_bucket;
    }
    return exchange;
}

static bool grow(byteps_depot_t *depot)
{
    size_t n = depot->n_buckets == 0 ? 256 : 2 * depot->n_buckets;
    byteps_exchange_t **buckets = calloc(n, sizeof(*buckets));

    if (buckets == NULL) {
        return false;
    }
    free(depot->buckets);
    depot->buckets = buckets;
    depot->n_buckets = n;
    for (byteps_exchange_t *at = depot->exchanges; at != NULL; at = at->next) {
        size_t i = bucket_of(depot, at->header.id, at->header.exchange);

        at->next_in_bucket = buckets[i];
        buckets[i] = at;
    }
    return true;
}

static void list(byteps_depot_t *depot, byteps_exchange_t *exchange)
{
    byteps_exchange_t **bucket =
        &depot->buckets[bucket_of(depot, exchange->header.id, exchange->header.exchange)];

    exchange->next_in_bucket = *bucket;
    *bucket = exchange;
    exchange->next = depot->exchanges;
    if (exchange->next != NULL) {
        exchange->next->prev = exchange;
    }
    depot->exchanges = exchange;
    depot->n_exchanges++;
}

static void unlist(byteps_depot_t *depot, byteps_exchange_t *exchange)
{
    byteps_exchange_t **at =
        &depot->buckets[bucket_of(depot, exchange->header.id, exchange->header.exchange)];

    while (*at != exchange) {
        at = &(*at)->next_in_bucket;
    }
    *at = exchange->next_in_bucket;
    if (exchange->prev != NULL) {
        exchange->prev->next = exchange->next;
    } else {
        depot->exchanges = exchange->next;
    }
    if (exchange->next != NULL) {
        exchange->next->prev = exchange->prev;
    }
    depot->n_exchanges--;
}

static int count_seats(const byteps_depot_t *depot, byteps_seating_t seating)
{
    return seating == BYTEPS_WORKERS ? depot->n_workers
           : seating == BYTEPS_MATES ? depot->n_mates
                                     : depot->n_hosts;
}

static byteps_exchange_t *new_exchange(byteps_depot_t *depot, const byteps_header_t *header,
                                       byteps_seating_t seating)
{
    byteps_exchange_t *exchange;

    if (2 * depot->n_exchanges >= depot->n_buckets && !grow(depot)) {
        return NULL;
    }
    exchange = calloc(1, sizeof(*exchange) + (size_t)depot->n_workers);
    if (exchange == NULL) {
        return NULL;
    }
    exchange->depot = depot;
    exchange->header.id = header->id;
    exchange->header.exchange = header->exchange;
    exchange->seating = seating;
    exchange->n_seats = count_seats(depot, seating);
    exchange->first = -1;
    exchange->begun_ns = exchange->came_ns = byteps_now_ns();
    list(depot, exchange);
    byteps_depot_wait(depot);
    return exchange;
}

byteps_exchange_t *byteps_exchange_get(byteps_depot_t *depot, const byteps_header_t *header,
                                       byteps_seating_t seating)
{
    byteps_exchange_t *exchange = byteps_exchange_find(depot, header->id, header->exchange);

    if (exchange == NULL) {
        return new_exchange(depot, header, seating);
    }
    return exchange->seating == seating ? exchange : NULL;
}

int byteps_seat_of(const byteps_exchange_t *exchange, int worker)
{
    const kvs_net_peer_t *peer = kvs_net_node_peer(exchange->depot->node, KVS_NET_WORKER, worker);

    switch (exchange->seating) {
    case BYTEPS_MATES:
        return peer->same_host ? peer->local_rank : -1;
    case BYTEPS_HOSTS:
        return (int)peer->host_number;
    default:
        return worker;
    }
}

/* ---- Blocks ------------------------------------------------------------------------------------------- */

byteps_pending_t *byteps_block_find(const byteps_exchange_t *exchange, uint64_t block)
{
    byteps_pending_t *at = exchange->blocks;

    if (exchange->last_block != NULL && exchange->last_block->block < block) {
        return NULL; /* as it is for whoever is ahead */
    }
    while (at != NULL && at->block < block) {
        at = at->next;
    }
    return at != NULL && at->block == block ? at : NULL;
}

static void insert_block(byteps_exchange_t *exchange, byteps_pending_t *pending)
{
    byteps_pending_t *before = exchange->last_block;

    while (before != NULL && before->block > pending->block) {
        before = before->prev;
    }
    pending->prev = before;
    pending->next = before == NULL ? exchange->blocks : before->next;
    if (before != NULL) {
        before->next = pending;
    } else {
        exchange->blocks = pending;
    }
    if (pending->next != NULL) {
        pending->next->prev = pending;
    } else {
        exchange->last_block = pending;
    }
}

static byteps_pending_t *get_block(byteps_exchange_t *exchange, uint64_t block)
{
    byteps_pending_t *pending = byteps_block_find(exchange, block);

    if (pending == NULL) {
        size_t n_seats = (size_t)exchange->n_seats;

        pending = calloc(1, sizeof(*pending) + n_seats * sizeof(pending->visits[0]));
        if (pending != NULL) {
            pending->block = block;
            insert_block(exchange, pending);
        }
    }
    return pending;
}

byteps_came_t byteps_came(const byteps_exchange_t *exchange, const byteps_pending_t *pending,
                          int worker)
{
    int seat = byteps_seat_of(exchange, worker);

    return seat < 0 ? BYTEPS_ANSWERED : pending->visits[seat].came;
}

static void release_message(byteps_visit_t *visit)
{
    kvs_net_message_release(visit->message);
    visit->message = NULL;
}

static void forget_visit(byteps_pending_t *pending, int seat)
{
    byteps_visit_t *visit = &pending->visits[seat];

    pending->n_waiting -= visit->came == BYTEPS_WAITS;
    release_message(visit);
    visit->came = BYTEPS_ANSWERED;
}

void byteps_block_free(byteps_exchange_t *exchange, byteps_pending_t *pending)
{
    for (int seat = 0; seat < exchange->n_seats; seat++) {
        forget_visit(pending, seat);
    }
    if (pending->kept != NULL) {
        byteps_answer_drop(pending->kept);
    }
    if (pending->sum != NULL) {
        byteps_answer_drop(pending->sum);
    }
    if (pending->prev != NULL) {
        pending->prev->next = pending->next;
    } else {
        exchange->blocks = pending->next;
    }
    if (pending->next != NULL) {
        pending->next->prev = pending->prev;
    } else {
        exchange->last_block = pending->prev;
    }
    free(pending);
}

void byteps_exchange_free(byteps_exchange_t *exchange)
{
    while (exchange->blocks != NULL) {
        byteps_block_free(exchange, exchange->blocks);
    }
    unlist(exchange->depot, exchange);
    free(exchange->text);
    free(exchange);
}

void byteps_exchanges_free(byteps_depot_t *depot)
{
    while (depot->exchanges != NULL) {
        byteps_exchange_free(depot->exchanges);
    }
    free(depot->buckets);
    depot->buckets = NULL;
    depot->n_buckets = 0;
}

void byteps_exchange_free_if_done(byteps_exchange_t *exchange)
{
    bool over = exchange->status == KVS_OK ? exchange->blocks == NULL
                                           : byteps_exchange_has_told_all(exchange);

    if (over) {
        byteps_exchange_free(exchange);
    }
}

/* ---- Sums --------------------------------------------------------------------------------------------- */

/* The message whose body is the result as it is: a broadcast's, or the only one. NULL: there is none. */
static kvs_net_message_t *take_result(const byteps_exchange_t *exchange, byteps_pending_t *pending)
{
    byteps_visit_t *visit = &pending->visits[0];
    kvs_net_message_t *message = visit->message;

    if (exchange->n_seats > 1 && exchange->header.verb != KVS_VERB_BROADCAST) {
        return NULL;
    }
    visit->message = NULL;
    return message;
}

static void *sum_block(const byteps_exchange_t *exchange, const byteps_pending_t *pending,
                       int64_t n_elems)
{
    byteps_depot_t *depot = exchange->depot;
    void *memory = byteps_block_memory(depot);

    if (memory == NULL) {
        return NULL;
    }
    for (int seat = 0; seat < exchange->n_seats; seat++) {
        depot->sources[seat] = pending->visits[seat].message->body;
    }
    if (n_elems > 0) {
        kvs_sum(exchange->header.dtype, n_elems, depot->sources, (size_t)exchange->n_seats, &memory,
                1, 0);
    }
    return memory;
}

static int64_t pending_elems(const byteps_exchange_t *exchange, const byteps_pending_t *pending)
{
    return byteps_elems_of_block(exchange->header.dtype, byteps_n_elems(&exchange->header),
                                 pending->block);
}

size_t byteps_pending_bytes(const byteps_exchange_t *exchange, const byteps_pending_t *pending)
{
    return (size_t)pending_elems(exchange, pending) * kvs_dtype_bytes(exchange->header.dtype);
}

byteps_answer_t *byteps_pending_sum(byteps_exchange_t *exchange, byteps_pending_t *pending)
{
    kvs_net_message_t *message = take_result(exchange, pending);
    byteps_answer_t *answer;
    void *memory;

    if (message != NULL) {
        answer = byteps_answer_new(exchange->depot, message, NULL, message->n_body_bytes);
    } else {
        memory = sum_block(exchange, pending, pending_elems(exchange, pending));
        answer = memory == NULL ? NULL
                                : byteps_answer_new(exchange->depot, NULL, memory,
                                                    byteps_pending_bytes(exchange, pending));
    }
    for (int seat = 0; seat < exchange->n_seats; seat++) {
        release_message(&pending->visits[seat]);
    }
    return answer;
}

void byteps_block_give(byteps_exchange_t *exchange, byteps_pending_t *pending,
                       byteps_answer_t *answer)
{
    for (int seat = 0; seat < exchange->n_seats; seat++) {
        if (pending->visits[seat].came == BYTEPS_WAITS) {
            byteps_answer_send(answer, exchange, pending->block, pending->visits[seat].worker);
            forget_visit(pending, seat);
        }
    }
}

static void answer_all(byteps_exchange_t *exchange, byteps_pending_t *pending)
{
    byteps_depot_t *depot = exchange->depot;
    byteps_answer_t *answer = byteps_pending_sum(exchange, pending);

    if (answer == NULL) {
        byteps_exchange_fail(exchange, KVS_ERR_NO_MEMORY, "no memory on the server for a sum");
        return;
    }
    byteps_answer_number(answer);
    byteps_block_give(exchange, pending, answer);
    if (exchange->seating == BYTEPS_WORKERS) { /* all workers have been told with it */
        depot->told_settled = depot->settled;
    }
    byteps_answer_drop(answer);
    byteps_block_free(exchange, pending);
}

/* One is here for every seat. */
static void complete(byteps_exchange_t *exchange, byteps_pending_t *pending)
{
    if (exchange->seating == BYTEPS_MATES) {
        byteps_relay_send(exchange, pending);
    } else {
        answer_all(exchange, pending);
    }
    exchange->begun_ns = exchange->came_ns;
}

/* Those who wait get what another server had given to others. */
static void give_kept(byteps_exchange_t *exchange, byteps_pending_t *pending)
{
    byteps_block_give(exchange, pending, pending->kept);
    if (pending->n_came == (uint32_t)exchange->n_seats) {
        byteps_block_free(exchange, pending);
    }
}

/* ---- Messages ----------------------------------------------------------------------------------------- */

byteps_seating_t byteps_seating_of(const byteps_header_t *header)
{
    return header->server != 0    ? BYTEPS_MATES
           : header->n_ranks != 0 ? BYTEPS_HOSTS
                                  : BYTEPS_WORKERS;
}

static uint32_t count_workers(const byteps_depot_t *depot, uint32_t host)
{
    uint32_t n = 0;

    for (int w = 0; w < depot->n_workers; w++) {
        n += kvs_net_node_peer(depot->node, KVS_NET_WORKER, w)->host_number == host;
    }
    return n;
}

bool byteps_may_come(const byteps_depot_t *depot, const byteps_header_t *header,
                     const kvs_net_peer_t *from)
{
    switch (byteps_seating_of(header)) {
    case BYTEPS_MATES:
        return depot->n_part_blocks > 0 && from->same_host != 0 &&
               header->server <= (uint32_t)depot->n_servers;
    case BYTEPS_HOSTS:
        return header->n_ranks == count_workers(depot, from->host_number);
    default:
        return true;
    }
}

/* Elements come with it: in a broadcast, from worker 0 and its host. */
static bool brings_body(const byteps_header_t *header, const kvs_net_peer_t *from)
{
    return header->verb == KVS_VERB_PUSHPULL ||
           (byteps_seating_of(header) == BYTEPS_HOSTS ? from->host_number == 0 : from->rank == 0);
}

static bool fits(const byteps_depot_t *depot, const byteps_header_t *header,
                 const kvs_net_message_t *message)
{
    int64_t n_elems = byteps_n_elems(header);
    int64_t n;

    if (header->verb == 0 || header->block >= byteps_n_blocks(header->dtype, n_elems) ||
        !byteps_may_come(depot, header, message->from)) {
        return false;
    }
    n = brings_body(header, message->from)
            ? byteps_elems_of_block(header->dtype, n_elems, header->block)
            : 0;
    return message->n_body_bytes == (size_t)n * kvs_dtype_bytes(header->dtype);
}

static void drop_message(const byteps_depot_t *depot, kvs_net_message_t *message, const char *why)
{
    kvs_log(KVS_LOG_WARN, "byteps", "store %u: a block from %s is dropped: %s", depot->number,
            message->from->label, why);
    kvs_net_message_release(message);
}

/* The first block says what the exchange is about. */
static void set_header(byteps_exchange_t *exchange, const byteps_header_t *header, int worker)
{
    exchange->header = *header;
    if (header->n_name > 0) {
        memcpy(exchange->name, header->name, header->n_name);
    }
    exchange->header.name = exchange->name;
    exchange->first = worker;
    if (exchange->seating == BYTEPS_HOSTS &&
        header->timeout_ms > 0) { /* its host has waited before */
        uint64_t most = (uint64_t)header->timeout_ms;

        exchange->begun_ns -= (int64_t)(header->answer < most ? header->answer : most) * 1000000;
    }
}

static void visit(byteps_exchange_t *exchange, const byteps_header_t *header,
                  kvs_net_message_t *message)
{
    byteps_pending_t *pending = get_block(exchange, header->block);
    int worker = message->from->rank, seat = byteps_seat_of(exchange, worker);

    if (pending == NULL) {
        kvs_net_message_release(message);
        byteps_exchange_fail(exchange, KVS_ERR_NO_MEMORY, "no memory on the server for a block");
        byteps_exchange_tell(exchange, worker);
        return;
    }
    if (pending->visits[seat].came != BYTEPS_ABSENT) {
        drop_message(exchange->depot, message, "it came before");
        return;
    }
    pending->visits[seat] = (byteps_visit_t){message, worker, BYTEPS_WAITS};
    pending->home = header->server - 1; /* where it is none, nobody looks at it */
    pending->n_came++;
    pending->n_waiting++;
    exchange->came_ns = byteps_now_ns();
    if (pending->kept != NULL) {
        give_kept(exchange, pending);
    } else if (pending->n_waiting == (uint32_t)exchange->n_seats) {
        complete(exchange, pending);
    } else {
        byteps_exchange_check_gone(exchange);
    }
}

void byteps_exchange_take_block(byteps_depot_t *depot, const byteps_header_t *header,
                                kvs_net_message_t *message)
{
    int worker = message->from->rank;
    byteps_exchange_t *exchange;

    if (!fits(depot, header, message)) {
        drop_message(depot, message, "its body does not fit its header, or it is not its to send");
        return;
    }
    exchange = byteps_exchange_get(depot, header, byteps_seating_of(header));
    if (exchange == NULL) {
        drop_message(depot, message,
                     "no memory"); /* whoever waits for it does so until its deadline */
        return;
    }
    if (exchange->status == KVS_OK && exchange->first < 0) {
        set_header(exchange, header, worker);
    }
    if (exchange->status == KVS_OK && !byteps_same_array(&exchange->header, header)) {
        byteps_exchange_fail_mismatch(exchange, header, worker);
    }
    if (exchange->status == KVS_OK) {
        visit(exchange, header, message);
    } else {
        kvs_net_message_release(message);
        byteps_exchange_tell(exchange, worker);
    }
    byteps_exchange_free_if_done(exchange);
}

void byteps_exchange_take_kept(byteps_depot_t *depot, const byteps_header_t *header,
                               kvs_net_message_t *message)
{
    byteps_seating_t seating = header->n_ranks != 0 ? BYTEPS_HOSTS : BYTEPS_WORKERS;
    byteps_exchange_t *exchange = byteps_exchange_get(depot, header, seating);
    byteps_pending_t *pending =
        exchange == NULL || exchange->status != KVS_OK ? NULL : get_block(exchange, header->block);
    int seat = pending == NULL ? -1 : byteps_seat_of(exchange, message->from->rank);

    if (seat < 0 || pending->visits[seat].came != BYTEPS_ABSENT) {
        kvs_net_message_release(message); /* whoever waits for it does so until its deadline */
        return;
    }
    pending->visits[seat].came = BYTEPS_ANSWERED;
    pending->n_came++;
    if (pending->kept == NULL) {
        pending->kept = byteps_answer_new(depot, message, NULL, message->n_body_bytes);
    } else {
        kvs_net_message_release(message);
    }
    if (pending->kept != NULL) {
        give_kept(exchange, pending);
    }
    byteps_exchange_free_if_done(exchange);
}

/* What has been summed already counts all the same. True: nobody waits for a sum that is at a server. */
static bool withdraw(byteps_pending_t *pending, int seat, int worker)
{
    byteps_visit_t *visit = &pending->visits[seat];

    if (visit->came != BYTEPS_WAITS || visit->worker != worker) {
        return false;
    }
    forget_visit(pending, seat);
    if (pending->sum == NULL) {
        visit->came = BYTEPS_ABSENT;
        pending->n_came--;
    }
    return pending->sum != NULL && pending->n_waiting == 0;
}

void byteps_exchange_take_drop(byteps_depot_t *depot, const byteps_header_t *header, int worker)
{
    byteps_exchange_t *exchange = byteps_exchange_find(depot, header->id, header->exchange);
    int seat = exchange == NULL ? -1 : byteps_seat_of(exchange, worker);
    bool is_unwanted = false;
    byteps_pending_t *next;

    if (seat < 0) {
        return;
    }
    for (byteps_pending_t *at = exchange->blocks; at != NULL; at = at->next) {
        is_unwanted |= withdraw(at, seat, worker);
    }
    if (is_unwanted) {
        byteps_relay_drop(exchange);
    }
    for (byteps_pending_t *at = exchange->blocks; at != NULL; at = next) {
        next = at->next;
        if (at->n_waiting == 0 && at->kept == NULL) {
            byteps_block_free(exchange, at);
        }
    }
    byteps_exchange_free_if_done(exchange);
}
