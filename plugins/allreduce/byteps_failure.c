/* SPDX-License-Identifier: Apache-2.0 */
/* byteps_failure.c - what ends an exchange without a result: arrays that do not fit together, workers that
 * are gone, and those that do not come. All are told, with both sides. Where hosts sum first, whoever
 * sums for one tells its server what went wrong there, and who of the host is waiting. */
#include "byteps_depot.h"

#include <kvstore/kit.h>

#include <endian.h>
#include <stdlib.h>
#include <string.h>

#define REPORT_NS INT64_C(30000000000)
#define WANTED_NS INT64_C(20000000) /* after so long the others are told that they are waited for */
#define GRACE_MS  5000              /* an exchange whose blocks still arrive is not over */
#define GONE_NS   INT64_C(1000000000) /* a result that its host has may still be on its way */

/* ---- Telling ------------------------------------------------------------------------------------------ */

void byteps_exchange_tell(byteps_exchange_t *exchange, int worker)
{
    byteps_header_t header = {.kind = BYTEPS_FAILED,
                              .id = exchange->header.id,
                              .exchange = exchange->header.exchange,
                              .n_ranks = exchange->seating == BYTEPS_HOSTS,
                              .status = exchange->status};

    if ((exchange->marks[worker] & BYTEPS_TOLD) == 0) {
        exchange->marks[worker] |= BYTEPS_TOLD;
        byteps_depot_say(exchange->depot, worker, &header,
                         exchange->text == NULL ? "no memory" : exchange->text);
    }
}

/* A worker for each seat: of a host the one that sums for it. */
bool byteps_exchange_has_told_all(const byteps_exchange_t *exchange)
{
    for (int seat = 0; seat < exchange->n_seats; seat++) {
        bool told = false;

        for (int w = 0; w < exchange->depot->n_workers && !told; w++) {
            told = (exchange->marks[w] & BYTEPS_TOLD) != 0 && byteps_seat_of(exchange, w) == seat;
        }
        if (!told) {
            return false;
        }
    }
    return true;
}

static bool waits_anywhere(const byteps_exchange_t *exchange, int worker)
{
    int seat = byteps_seat_of(exchange, worker);

    for (const byteps_pending_t *at = seat < 0 ? NULL : exchange->blocks; at != NULL;
         at = at->next) {
        if (at->visits[seat].came == BYTEPS_WAITS && at->visits[seat].worker == worker) {
            return true;
        }
    }
    return false;
}

void byteps_exchange_fail(byteps_exchange_t *exchange, kvs_status_t status, const char *text)
{
    if (exchange->seating == BYTEPS_MATES) {
        byteps_relay_fail(exchange, status, text);
    }
    byteps_exchange_fail_here(exchange, status, text);
}

void byteps_exchange_fail_here(byteps_exchange_t *exchange, kvs_status_t status, const char *text)
{
    exchange->status = status;
    exchange->text = strdup(text);
    for (int w = 0; w < exchange->depot->n_workers; w++) {
        if (waits_anywhere(exchange, w) || (exchange->marks[w] & BYTEPS_LISTENS) != 0) {
            byteps_exchange_tell(exchange, w);
        }
    }
    while (exchange->blocks != NULL) {
        byteps_block_free(exchange, exchange->blocks);
    }
}

void byteps_exchanges_fail(byteps_depot_t *depot, kvs_status_t status, const char *text)
{
    for (byteps_exchange_t *at = depot->exchanges; at != NULL; at = at->next) {
        kvs_net_text_t all = {.n = 0};

        if (at->status == KVS_OK) {
            kvs_net_text_add(&all, "%s: %s", BYTEPS_KEY_TEXT(&at->header), text);
            byteps_exchange_fail(at, status, all.bytes);
        }
    }
}

/* ---- What does not fit together ------------------------------------------------------------------------ */

void byteps_exchange_fail_mismatch(byteps_exchange_t *exchange, const byteps_header_t *other,
                                   int worker)
{
    const byteps_header_t *first = &exchange->header;
    kvs_net_text_t text = {.n = 0};

    kvs_net_text_add(&text, "%s: %s has come with a %s, %s with a %s", BYTEPS_KEY_TEXT(first),
                     byteps_depot_label(exchange->depot, exchange->first), BYTEPS_ARRAY_TEXT(first),
                     byteps_depot_label(exchange->depot, worker), BYTEPS_ARRAY_TEXT(other));
    byteps_exchange_fail(exchange,
                         first->verb != other->verb     ? KVS_ERR_STATE
                         : first->dtype != other->dtype ? KVS_ERR_DTYPE
                                                        : KVS_ERR_SHAPE,
                         text.bytes);
}

void byteps_exchange_take_failed(byteps_depot_t *depot, const byteps_header_t *header,
                                 const kvs_net_message_t *message)
{
    byteps_exchange_t *exchange = NULL;
    kvs_net_text_t text = {.n = 0};

    if (byteps_may_come(depot, header, message->from)) {
        exchange = byteps_exchange_get(depot, header, byteps_seating_of(header));
    }
    if (exchange == NULL) {
        return; /* whoever waits for it does so until its deadline */
    }
    exchange->marks[message->from->rank] |= BYTEPS_TOLD; /* it tells */
    if (exchange->status == KVS_OK) {
        byteps_depot_read_text(&text, message);
        byteps_exchange_fail_here(
            exchange, header->status == KVS_OK ? KVS_ERR_PEER : header->status, text.bytes);
    }
    byteps_exchange_free_if_done(exchange);
}

/* ---- Who is gone --------------------------------------------------------------------------------------- */

/* Somebody waits here for others, not for a server. */
static bool is_open(const byteps_pending_t *pending)
{
    return pending->n_waiting > 0 && pending->sum == NULL;
}

static bool is_missed(const byteps_exchange_t *exchange, int worker)
{
    for (const byteps_pending_t *at = exchange->blocks; at != NULL; at = at->next) {
        if (is_open(at) && byteps_came(exchange, at, worker) == BYTEPS_ABSENT) {
            return true;
        }
    }
    return false;
}

void byteps_exchange_check_gone(byteps_exchange_t *exchange)
{
    for (int w = 0; w < exchange->depot->n_workers && exchange->status == KVS_OK; w++) {
        const char *why = exchange->depot->closed[w];

        if (why == NULL || !is_missed(exchange, w) ||
            (exchange->seating == BYTEPS_HOSTS && byteps_now_ns() - exchange->came_ns < GONE_NS)) {
            continue;
        }
        if ((exchange->marks[w] & BYTEPS_AT_HOME) == 0) {
            kvs_net_text_t text = {.n = 0};

            kvs_net_text_add(&text, "%s: %s", BYTEPS_KEY_TEXT(&exchange->header), why);
            byteps_exchange_fail(exchange, KVS_ERR_PEER, text.bytes);
        }
    }
}

void byteps_exchanges_check_gone(byteps_depot_t *depot)
{
    byteps_exchange_t *next;

    for (byteps_exchange_t *at = depot->exchanges; at != NULL; at = next) {
        next = at->next;
        if (at->status == KVS_OK) {
            byteps_exchange_check_gone(at);
            byteps_exchange_free_if_done(at);
        }
    }
}

/* ---- Who is missing ------------------------------------------------------------------------------------ */

void byteps_exchange_take_here(byteps_depot_t *depot, const byteps_header_t *header,
                               const kvs_net_message_t *message)
{
    byteps_exchange_t *exchange = byteps_exchange_find(depot, header->id, header->exchange);
    const uint8_t *body = message->body;
    int host = (int)message->from->host_number;

    if (exchange == NULL || exchange->seating != BYTEPS_HOSTS) {
        return; /* nobody waits for it yet */
    }
    if (exchange->status != KVS_OK) {
        byteps_exchange_tell(exchange, message->from->rank);
        byteps_exchange_free_if_done(exchange);
        return;
    }
    exchange->marks[message->from->rank] |= BYTEPS_LISTENS;
    for (int w = 0; w < depot->n_workers; w++) {
        if (byteps_seat_of(exchange, w) == host) {
            exchange->marks[w] &= (uint8_t)~BYTEPS_AT_HOME;
        }
    }
    for (size_t i = 0; i + 4 <= message->n_body_bytes; i += 4) {
        uint32_t rank;

        memcpy(&rank, body + i, sizeof(rank));
        rank = le32toh(rank);
        if (rank < (uint32_t)depot->n_workers && byteps_seat_of(exchange, (int)rank) == host) {
            exchange->marks[rank] |= BYTEPS_AT_HOME;
        }
    }
}

/* The block that somebody waits for; NULL: there is none. All that are missing here are missing elsewhere,
 * or have come there. */
static const byteps_pending_t *first_open(const byteps_exchange_t *exchange)
{
    const byteps_pending_t *at = exchange->blocks;

    while (at != NULL && !is_open(at)) {
        at = at->next;
    }
    return at;
}

static bool is_here(const byteps_exchange_t *exchange, const byteps_pending_t *block, int worker)
{
    return byteps_came(exchange, block, worker) != BYTEPS_ABSENT ||
           (exchange->marks[worker] & BYTEPS_AT_HOME) != 0;
}

/* Gives their number. */
static int add_workers(kvs_net_text_t *text, const byteps_exchange_t *exchange,
                       const byteps_pending_t *block, bool here)
{
    int n = 0;

    for (int w = 0; w < exchange->depot->n_workers; w++) {
        if (byteps_seat_of(exchange, w) >= 0 && is_here(exchange, block, w) == here) {
            kvs_net_text_add(text, "%s%s", n == 0 ? "" : ", ",
                             byteps_depot_label(exchange->depot, w));
            n++;
        }
    }
    return n;
}

static void fail_missing(byteps_exchange_t *exchange)
{
    const byteps_pending_t *block = first_open(exchange);
    kvs_net_text_t text = {.n = 0};
    int n;

    kvs_net_text_add(&text, "%s: ", BYTEPS_KEY_TEXT(&exchange->header));
    n = add_workers(&text, exchange, block, false);
    if (n == 0) {
        kvs_net_text_add(&text, "the sum of a host");
    }
    kvs_net_text_add(&text, " %s not come within %.3g s, unlike ", n > 1 ? "have" : "has",
                     (double)exchange->header.timeout_ms / 1000);
    (void)add_workers(&text, exchange, block, true);
    byteps_exchange_fail(exchange, KVS_ERR_TIMEOUT, text.bytes);
}

static void report(const byteps_exchange_t *exchange)
{
    kvs_net_text_t text = {.n = 0};

    (void)add_workers(&text, exchange, first_open(exchange), false);
    kvs_log(KVS_LOG_WARN, "byteps", "%s has waited 30 s for %s", BYTEPS_KEY_TEXT(&exchange->header),
            text.bytes);
}

/* Somebody may hold its blocks back, as others are on their way: each is told once, as soon as it is missed. */
static void tell_wanted(byteps_exchange_t *exchange)
{
    byteps_header_t header = {.kind = BYTEPS_WANTED,
                              .id = exchange->header.id,
                              .exchange = exchange->header.exchange,
                              .n_ranks = exchange->seating == BYTEPS_HOSTS};

    for (int w = 0; w < exchange->depot->n_workers; w++) {
        if ((exchange->marks[w] & BYTEPS_URGED) == 0 && is_missed(exchange, w)) {
            exchange->marks[w] |= BYTEPS_URGED;
            byteps_depot_say(exchange->depot, w, &header, NULL);
        }
    }
}

/* What is due while somebody waits for others. */
static void look_at_open(byteps_exchange_t *exchange, int64_t now_ns)
{
    int64_t timeout_ms = exchange->header.timeout_ms;
    int64_t grace_ms = timeout_ms < GRACE_MS ? timeout_ms : GRACE_MS;
    int64_t waited = now_ns - exchange->begun_ns;

    if (waited >= WANTED_NS) {
        tell_wanted(exchange);
    }
    if (!exchange->reported && waited >= REPORT_NS) {
        exchange->reported = true;
        report(exchange);
    }
    if (exchange->seating == BYTEPS_HOSTS) {
        byteps_exchange_check_gone(exchange);
    }
    if (exchange->status == KVS_OK && timeout_ms > 0 && waited >= timeout_ms * 1000000 &&
        now_ns - exchange->came_ns >= grace_ms * 1000000) {
        fail_missing(exchange);
    }
}

static void look_at(byteps_exchange_t *exchange, int64_t now_ns)
{
    bool is_waited_for = first_open(exchange) != NULL;

    if (is_waited_for) {
        look_at_open(exchange, now_ns);
    }
    if (exchange->status == KVS_OK && exchange->seating == BYTEPS_MATES) {
        byteps_relay_look(exchange, now_ns);
    }
    /* Kept results that nobody has asked for: everyone had them. */
    if (exchange->status == KVS_OK && exchange->seating != BYTEPS_MATES && !is_waited_for &&
        now_ns - exchange->begun_ns >= REPORT_NS) {
        byteps_exchange_free(exchange);
    } else {
        byteps_exchange_free_if_done(exchange);
    }
}

bool byteps_exchanges_look(byteps_depot_t *depot, int64_t now_ns)
{
    byteps_exchange_t *next;
    bool pending = false;

    for (byteps_exchange_t *at = depot->exchanges; at != NULL; at = next) {
        next = at->next;
        if (at->status == KVS_OK) {
            look_at(at, now_ns);
            pending = true;
        }
    }
    return pending;
}
