/* SPDX-License-Identifier: Apache-2.0 */
/* byteps_exchange.c - blocks meet: when every worker's is here they are summed in order of rank, so that
 * the bits depend on no order of arrival, and the sum goes back to all. What does not fit together fails
 * the exchange for everyone, as does a worker that does not come. */
#include "byteps_depot.h"

#include <kvstore/kit.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REPORT_NS INT64_C(30000000000)
#define WANTED_NS INT64_C(20000000) /* after so long the others are told that they are waited for */
#define GRACE_MS  5000              /* an exchange whose blocks still arrive is not over */

/* ---- The table ---------------------------------------------------------------------------------------- */

static size_t bucket_of(const byteps_depot_t *depot, uint64_t id, uint64_t exchange)
{
    uint64_t x = id * UINT64_C(0x9E3779B97F4A7C15) + exchange;

    x ^= x >> 32;
    x *= UINT64_C(0xBF58476D1CE4E5B9);
    return (size_t)(x ^ x >> 29) & (depot->n_buckets - 1);
}

static byteps_exchange_t *find(const byteps_depot_t *depot, uint64_t id, uint64_t number)
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

static byteps_exchange_t *get(byteps_depot_t *depot, const byteps_header_t *header)
{
    byteps_exchange_t *exchange = find(depot, header->id, header->exchange);

    if (exchange != NULL) {
        return exchange;
    }
    if (2 * depot->n_exchanges >= depot->n_buckets && !grow(depot)) {
        return NULL;
    }
    exchange = calloc(1, sizeof(*exchange) + (size_t)depot->n_workers * sizeof(bool));
    if (exchange == NULL) {
        return NULL;
    }
    exchange->depot = depot;
    exchange->header.id = header->id;
    exchange->header.exchange = header->exchange;
    exchange->first = -1;
    exchange->begun_ns = exchange->came_ns = byteps_now_ns();
    list(depot, exchange);
    byteps_depot_wait(depot);
    return exchange;
}

/* ---- Blocks ------------------------------------------------------------------------------------------- */

static byteps_pending_t *find_block(const byteps_exchange_t *exchange, uint64_t block)
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
    byteps_pending_t *pending = find_block(exchange, block);

    if (pending == NULL) {
        size_t n_workers = (size_t)exchange->depot->n_workers;

        pending = calloc(1, sizeof(*pending) + n_workers * sizeof(pending->visits[0]));
        if (pending != NULL) {
            pending->block = block;
            insert_block(exchange, pending);
        }
    }
    return pending;
}

static void forget_visit(byteps_pending_t *pending, int worker)
{
    byteps_visit_t *visit = &pending->visits[worker];

    pending->n_waiting -= visit->came == BYTEPS_WAITS;
    kvs_net_message_release(visit->message);
    visit->message = NULL;
    visit->came = BYTEPS_ANSWERED;
}

static void free_block(byteps_exchange_t *exchange, byteps_pending_t *pending)
{
    for (int w = 0; w < exchange->depot->n_workers; w++) {
        forget_visit(pending, w);
    }
    if (pending->kept != NULL) {
        byteps_answer_drop(pending->kept);
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

static void free_exchange(byteps_exchange_t *exchange)
{
    while (exchange->blocks != NULL) {
        free_block(exchange, exchange->blocks);
    }
    unlist(exchange->depot, exchange);
    free(exchange->text);
    free(exchange);
}

void byteps_exchanges_free(byteps_depot_t *depot)
{
    while (depot->exchanges != NULL) {
        free_exchange(depot->exchanges);
    }
    free(depot->buckets);
    depot->buckets = NULL;
    depot->n_buckets = 0;
}

/* Nothing of it is left to be done. */
static void free_if_done(byteps_exchange_t *exchange)
{
    bool over = exchange->status == KVS_OK
                    ? exchange->blocks == NULL
                    : exchange->n_told == (uint32_t)exchange->depot->n_workers;

    if (over) {
        free_exchange(exchange);
    }
}

/* ---- Failures ----------------------------------------------------------------------------------------- */

static void tell_failure(byteps_exchange_t *exchange, int worker)
{
    byteps_header_t header = {.kind = BYTEPS_FAILED,
                              .id = exchange->header.id,
                              .exchange = exchange->header.exchange,
                              .status = exchange->status};

    if (!exchange->told[worker]) {
        exchange->told[worker] = true;
        exchange->n_told++;
        byteps_depot_say(exchange->depot, worker, &header,
                         exchange->text == NULL ? "no memory" : exchange->text);
    }
}

static bool waits_anywhere(const byteps_exchange_t *exchange, int worker)
{
    for (const byteps_pending_t *at = exchange->blocks; at != NULL; at = at->next) {
        if (at->visits[worker].came == BYTEPS_WAITS) {
            return true;
        }
    }
    return false;
}

/* For those who are here now, and for the others when they come. */
static void fail_exchange(byteps_exchange_t *exchange, kvs_status_t status, const char *text)
{
    exchange->status = status;
    exchange->text = strdup(text);
    for (int w = 0; w < exchange->depot->n_workers; w++) {
        if (waits_anywhere(exchange, w)) {
            tell_failure(exchange, w);
        }
    }
    while (exchange->blocks != NULL) {
        free_block(exchange, exchange->blocks);
    }
}

/* Of the first block: all have come to the others too, or will be missed there. */
static void add_workers(kvs_net_text_t *text, const byteps_exchange_t *exchange, bool there)
{
    const char *comma = "";

    for (int w = 0; w < exchange->depot->n_workers; w++) {
        if ((exchange->blocks->visits[w].came != BYTEPS_ABSENT) == there) {
            kvs_net_text_add(text, "%s%s", comma, byteps_depot_label(exchange->depot, w));
            comma = ", ";
        }
    }
}

static void fail_missing(byteps_exchange_t *exchange)
{
    kvs_net_text_t text = {.n = 0};
    uint32_t n = (uint32_t)exchange->depot->n_workers - exchange->blocks->n_came;

    kvs_net_text_add(&text, "%s: ", BYTEPS_KEY_TEXT(&exchange->header));
    add_workers(&text, exchange, false);
    kvs_net_text_add(&text, " %s not come within %.3g s, unlike ", n == 1 ? "has" : "have",
                     (double)exchange->header.timeout_ms / 1000);
    add_workers(&text, exchange, true);
    fail_exchange(exchange, KVS_ERR_TIMEOUT, text.bytes);
}

static void fail_mismatch(byteps_exchange_t *exchange, const byteps_header_t *other, int worker)
{
    const byteps_header_t *first = &exchange->header;
    kvs_net_text_t text = {.n = 0};

    kvs_net_text_add(&text, "%s: %s has come with a %s, %s with a %s", BYTEPS_KEY_TEXT(first),
                     byteps_depot_label(exchange->depot, exchange->first), BYTEPS_ARRAY_TEXT(first),
                     byteps_depot_label(exchange->depot, worker), BYTEPS_ARRAY_TEXT(other));
    fail_exchange(exchange,
                  first->verb != other->verb     ? KVS_ERR_STATE
                  : first->dtype != other->dtype ? KVS_ERR_DTYPE
                                                 : KVS_ERR_SHAPE,
                  text.bytes);
}

/* One that is gone and missing makes the exchange fail. */
static void check_gone(byteps_exchange_t *exchange)
{
    for (int w = 0; w < exchange->depot->n_workers && exchange->status == KVS_OK; w++) {
        const char *why = exchange->depot->closed[w];

        for (const byteps_pending_t *at = why == NULL ? NULL : exchange->blocks; at != NULL;
             at = at->next) {
            if (at->visits[w].came == BYTEPS_ABSENT && at->n_waiting > 0) {
                kvs_net_text_t text = {.n = 0};

                kvs_net_text_add(&text, "%s: %s", BYTEPS_KEY_TEXT(&exchange->header), why);
                fail_exchange(exchange, KVS_ERR_PEER, text.bytes);
                break;
            }
        }
    }
}

void byteps_exchanges_check_gone(byteps_depot_t *depot)
{
    byteps_exchange_t *next;

    for (byteps_exchange_t *at = depot->exchanges; at != NULL; at = next) {
        next = at->next;
        if (at->status == KVS_OK) {
            check_gone(at);
            free_if_done(at);
        }
    }
}

void byteps_exchanges_fail(byteps_depot_t *depot, kvs_status_t status, const char *text)
{
    for (byteps_exchange_t *at = depot->exchanges; at != NULL; at = at->next) {
        kvs_net_text_t all = {.n = 0};

        if (at->status == KVS_OK) {
            kvs_net_text_add(&all, "%s: %s", BYTEPS_KEY_TEXT(&at->header), text);
            fail_exchange(at, status, all.bytes);
        }
    }
}

/* ---- Sums --------------------------------------------------------------------------------------------- */

/* The message whose body is the result as it is: a broadcast's, or the only one. NULL: there is none. */
static kvs_net_message_t *take_result(const byteps_exchange_t *exchange, byteps_pending_t *pending)
{
    kvs_net_message_t *message = pending->visits[0].message;

    if (exchange->header.verb != KVS_VERB_BROADCAST && exchange->depot->n_workers > 1) {
        return NULL;
    }
    pending->visits[0].message = NULL;
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
    for (int w = 0; w < depot->n_workers; w++) {
        depot->sources[w] = pending->visits[w].message->body;
    }
    if (n_elems > 0) {
        kvs_sum(exchange->header.dtype, n_elems, depot->sources, (size_t)depot->n_workers, &memory,
                1, 0);
    }
    return memory;
}

static byteps_answer_t *make_answer(byteps_exchange_t *exchange, byteps_pending_t *pending)
{
    int dtype = exchange->header.dtype;
    int64_t n = byteps_elems_of_block(dtype, byteps_n_elems(&exchange->header), pending->block);
    kvs_net_message_t *message = take_result(exchange, pending);
    void *memory = message == NULL ? sum_block(exchange, pending, n) : NULL;

    return message == NULL && memory == NULL
               ? NULL
               : byteps_answer_new(exchange->depot, message, memory,
                                   (size_t)n * kvs_dtype_bytes(dtype));
}

/* Everyone's block is here. */
static void complete(byteps_exchange_t *exchange, byteps_pending_t *pending)
{
    byteps_depot_t *depot = exchange->depot;
    byteps_answer_t *answer = make_answer(exchange, pending);

    if (answer == NULL) {
        fail_exchange(exchange, KVS_ERR_NO_MEMORY, "no memory on the server for a sum");
        return;
    }
    byteps_answer_number(answer);
    for (int w = 0; w < depot->n_workers; w++) {
        byteps_answer_send(answer, exchange, pending->block, w);
    }
    depot->told_settled = depot->settled;
    byteps_answer_drop(answer);
    free_block(exchange, pending);
    exchange->begun_ns = exchange->came_ns;
}

/* Those who wait get what another server had given to others. */
static void give_kept(byteps_exchange_t *exchange, byteps_pending_t *pending)
{
    for (int w = 0; w < exchange->depot->n_workers; w++) {
        if (pending->visits[w].came == BYTEPS_WAITS) {
            byteps_answer_send(pending->kept, exchange, pending->block, w);
            forget_visit(pending, w);
        }
    }
    if (pending->n_came == (uint32_t)exchange->depot->n_workers) {
        free_block(exchange, pending);
    }
}

/* ---- Messages ----------------------------------------------------------------------------------------- */

static bool fits(const byteps_header_t *header, const kvs_net_message_t *message)
{
    int64_t n_elems = byteps_n_elems(header);
    bool brings = header->verb == KVS_VERB_PUSHPULL || message->from->rank == 0;
    int64_t n;

    if (header->verb == 0 || header->block >= byteps_n_blocks(header->dtype, n_elems)) {
        return false;
    }
    n = brings ? byteps_elems_of_block(header->dtype, n_elems, header->block) : 0;
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
}

static void visit(byteps_exchange_t *exchange, const byteps_header_t *header,
                  kvs_net_message_t *message)
{
    byteps_pending_t *pending = get_block(exchange, header->block);
    int worker = message->from->rank;

    if (pending == NULL) {
        kvs_net_message_release(message);
        fail_exchange(exchange, KVS_ERR_NO_MEMORY, "no memory on the server for a block");
        tell_failure(exchange, worker);
        return;
    }
    if (pending->visits[worker].came != BYTEPS_ABSENT) {
        drop_message(exchange->depot, message, "it came before");
        return;
    }
    pending->visits[worker] = (byteps_visit_t){message, BYTEPS_WAITS};
    pending->n_came++;
    pending->n_waiting++;
    exchange->came_ns = byteps_now_ns();
    if (pending->kept != NULL) {
        give_kept(exchange, pending);
    } else if (pending->n_waiting == (uint32_t)exchange->depot->n_workers) {
        complete(exchange, pending);
    } else {
        check_gone(exchange);
    }
}

void byteps_exchange_take_block(byteps_depot_t *depot, const byteps_header_t *header,
                                kvs_net_message_t *message)
{
    int worker = message->from->rank;
    byteps_exchange_t *exchange;

    if (!fits(header, message)) {
        drop_message(depot, message, "its body does not fit its header");
        return;
    }
    exchange = get(depot, header);
    if (exchange == NULL) {
        drop_message(depot, message,
                     "no memory"); /* whoever waits for it does so until its deadline */
        return;
    }
    if (exchange->status == KVS_OK && exchange->first < 0) {
        set_header(exchange, header, worker);
    }
    if (exchange->status == KVS_OK && !byteps_same_array(&exchange->header, header)) {
        fail_mismatch(exchange, header, worker);
    }
    if (exchange->status == KVS_OK) {
        visit(exchange, header, message);
    } else {
        kvs_net_message_release(message);
        tell_failure(exchange, worker);
    }
    free_if_done(exchange);
}

void byteps_exchange_take_kept(byteps_depot_t *depot, const byteps_header_t *header,
                               kvs_net_message_t *message)
{
    byteps_exchange_t *exchange = get(depot, header);
    byteps_pending_t *pending =
        exchange == NULL || exchange->status != KVS_OK ? NULL : get_block(exchange, header->block);
    int worker = message->from->rank;

    if (pending == NULL || pending->visits[worker].came != BYTEPS_ABSENT) {
        kvs_net_message_release(message); /* whoever waits for it does so until its deadline */
        return;
    }
    pending->visits[worker].came = BYTEPS_ANSWERED;
    pending->n_came++;
    if (pending->kept == NULL) {
        pending->kept = byteps_answer_new(depot, message, NULL, message->n_body_bytes);
    } else {
        kvs_net_message_release(message);
    }
    if (pending->kept != NULL) {
        give_kept(exchange, pending);
    }
    free_if_done(exchange);
}

void byteps_exchange_take_drop(byteps_depot_t *depot, const byteps_header_t *header, int worker)
{
    byteps_exchange_t *exchange = find(depot, header->id, header->exchange);
    byteps_pending_t *next;

    if (exchange == NULL) {
        return;
    }
    for (byteps_pending_t *at = exchange->blocks; at != NULL; at = next) {
        next = at->next;
        if (at->visits[worker].came == BYTEPS_WAITS) {
            forget_visit(at, worker);
            at->visits[worker].came = BYTEPS_ABSENT;
            at->n_came--;
        }
        if (at->n_waiting == 0 && at->kept == NULL) {
            free_block(exchange, at);
        }
    }
    free_if_done(exchange);
}

/* ---- Time --------------------------------------------------------------------------------------------- */

static void report(const byteps_exchange_t *exchange)
{
    kvs_net_text_t text = {.n = 0};

    add_workers(&text, exchange, false);
    kvs_log(KVS_LOG_WARN, "byteps", "%s has waited 30 s for %s", BYTEPS_KEY_TEXT(&exchange->header),
            text.bytes);
}

/* Somebody may hold its blocks back, as others are on their way. */
static void tell_wanted(const byteps_exchange_t *exchange)
{
    byteps_header_t header = {
        .kind = BYTEPS_WANTED, .id = exchange->header.id, .exchange = exchange->header.exchange};

    for (int w = 0; w < exchange->depot->n_workers; w++) {
        if (exchange->blocks->visits[w].came == BYTEPS_ABSENT) {
            byteps_depot_say(exchange->depot, w, &header, NULL);
        }
    }
}

static bool is_waited_for(const byteps_exchange_t *exchange)
{
    for (const byteps_pending_t *at = exchange->blocks; at != NULL; at = at->next) {
        if (at->n_waiting > 0) {
            return true;
        }
    }
    return false;
}

static void look_at(byteps_exchange_t *exchange, int64_t now_ns)
{
    int64_t timeout_ms = exchange->header.timeout_ms;
    int64_t grace_ms = timeout_ms < GRACE_MS ? timeout_ms : GRACE_MS;
    int64_t waited = now_ns - exchange->begun_ns;

    if (exchange->first >= 0 && !exchange->wanted && waited >= WANTED_NS) {
        exchange->wanted = true;
        tell_wanted(exchange);
    }
    if (exchange->first >= 0 && !exchange->reported && waited >= REPORT_NS) {
        exchange->reported = true;
        report(exchange);
    }
    if (timeout_ms > 0 && waited >= timeout_ms * 1000000 &&
        now_ns - exchange->came_ns >= grace_ms * 1000000 && is_waited_for(exchange)) {
        fail_missing(exchange);
    }
    /* Kept results that nobody has asked for: everyone had them. */
    if (exchange->status == KVS_OK && waited >= REPORT_NS && !is_waited_for(exchange)) {
        free_exchange(exchange);
    } else {
        free_if_done(exchange);
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
