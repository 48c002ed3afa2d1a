/* SPDX-License-Identifier: Apache-2.0 */
/* byteps_answer.c - results on their way to the workers, and sums of a host on theirs to a server. A
 * result's memory stays until all have received it; when they have, and there are other servers, the
 * workers are told, since they keep what came last: should this server be lost, whoever has a result
 * gives it to those who have not. */
#include "byteps_depot.h"

#include <stdlib.h>
#include <string.h>

#define SMALL_BYTES 8192 /* copied as they are sent */

void *byteps_block_memory(byteps_depot_t *depot)
{
    return depot->n_spare > 0 ? depot->spare[--depot->n_spare]
                              : aligned_alloc(64, BYTEPS_BLOCK_BYTES);
}

static void give_memory_back(byteps_depot_t *depot, void *memory)
{
    if (memory != NULL && depot->n_spare < sizeof(depot->spare) / sizeof(depot->spare[0])) {
        depot->spare[depot->n_spare++] = memory;
    } else {
        free(memory);
    }
}

void byteps_depot_release_memory(byteps_depot_t *depot)
{
    while (depot->n_spare > 0) {
        free(depot->spare[--depot->n_spare]);
    }
}

byteps_answer_t *byteps_answer_new(byteps_depot_t *depot, kvs_net_message_t *message, void *memory,
                                   size_t n_body_bytes)
{
    byteps_answer_t *answer = calloc(1, sizeof(*answer));

    if (answer == NULL) {
        kvs_net_message_release(message);
        give_memory_back(depot, memory);
        return NULL;
    }
    *answer = (byteps_answer_t){.depot = depot,
                                .n_refs = 1,
                                .message = message,
                                .memory = memory,
                                .body = message != NULL ? message->body : memory,
                                .n_body_bytes = n_body_bytes};
    return answer;
}

void byteps_answer_number(byteps_answer_t *answer)
{
    byteps_depot_t *depot = answer->depot;

    if (!depot->may_be_replaced) {
        return;
    }
    answer->number = ++depot->n_answers;
    if (depot->answers == NULL) {
        depot->answers = answer;
    } else {
        depot->last_answer->next = answer;
    }
    depot->last_answer = answer;
}

static void release_body(byteps_answer_t *answer)
{
    kvs_net_message_release(answer->message);
    give_memory_back(answer->depot, answer->memory);
    answer->message = NULL;
    answer->memory = NULL;
}

/* Numbered answers stay, without their body, until those before them are with everyone too. */
static void settle(byteps_depot_t *depot)
{
    while (depot->answers != NULL && depot->answers->n_refs == 0) {
        byteps_answer_t *answer = depot->answers;

        depot->settled = answer->number;
        depot->answers = answer->next;
        free(answer);
    }
}

void byteps_answer_drop(byteps_answer_t *answer)
{
    byteps_depot_t *depot = answer->depot;

    if (--answer->n_refs > 0) {
        return;
    }
    release_body(answer);
    if (answer->number == 0) {
        free(answer);
        return;
    }
    settle(depot);
    byteps_depot_wait(depot); /* to tell it, if no answer does */
}

static void was_received(void *arg, kvs_status_t status, const char *text)
{
    byteps_answer_t *answer = arg;
    byteps_depot_t *depot = answer->depot;

    (void)status; /* whoever died or left needs it no more */
    (void)text;
    byteps_answer_drop(answer);
    depot->n_unsent--;
    byteps_depot_let_go(depot);
}

static kvs_status_t post(byteps_depot_t *depot, const kvs_net_peer_t *to,
                         const byteps_header_t *header, kvs_net_send_t *net)
{
    uint8_t bytes[BYTEPS_MAX_HEADER_BYTES];

    net->flags = KVS_NET_URGENT;
    net->store = depot->number;
    net->header = bytes;
    net->n_header_bytes = byteps_header_encode(header, bytes);
    return kvs_net_send(depot->node, to, net);
}

static void send_answer(byteps_answer_t *answer, const kvs_net_peer_t *to,
                        const byteps_header_t *header)
{
    byteps_depot_t *depot = answer->depot;
    kvs_net_send_t net = KVS_NET_SEND_INIT;
    bool awaited = answer->number != 0 || answer->n_body_bytes > SMALL_BYTES;

    net.body = answer->body;
    net.n_body_bytes = answer->n_body_bytes;
    if (awaited) {
        net.done = was_received;
        net.arg = answer;
    }
    /* Whoever can't be reached is seen to die or leave. */
    if (post(depot, to, header, &net) == KVS_OK && awaited) {
        answer->n_refs++;
        depot->n_unsent++;
    }
}

void byteps_answer_send(byteps_answer_t *answer, const byteps_exchange_t *exchange, uint64_t block,
                        int worker)
{
    byteps_depot_t *depot = answer->depot;
    byteps_header_t header = {.kind = BYTEPS_RESULT,
                              .id = exchange->header.id,
                              .exchange = exchange->header.exchange,
                              .block = block,
                              .answer = answer->number,
                              .settled = depot->settled,
                              .n_ranks = exchange->seating == BYTEPS_HOSTS};

    send_answer(answer, kvs_net_node_peer(depot->node, KVS_NET_WORKER, worker), &header);
}

void byteps_answer_send_to_server(byteps_answer_t *answer, const byteps_header_t *header,
                                  uint32_t server)
{
    send_answer(answer, kvs_net_node_peer(answer->depot->node, KVS_NET_SERVER, (int)server),
                header);
}

void byteps_depot_say(byteps_depot_t *depot, int worker, const byteps_header_t *header,
                      const char *text)
{
    kvs_net_send_t net = KVS_NET_SEND_INIT;

    net.body = text;
    net.n_body_bytes = text == NULL ? 0 : strlen(text);
    (void)post(depot, kvs_net_node_peer(depot->node, KVS_NET_WORKER, worker), header,
               &net); /* as above */
}

void byteps_depot_say_to_server(byteps_depot_t *depot, uint32_t server,
                                const byteps_header_t *header, const void *body,
                                size_t n_body_bytes)
{
    kvs_net_send_t net = KVS_NET_SEND_INIT;

    net.body = body;
    net.n_body_bytes = n_body_bytes;
    (void)post(depot, kvs_net_node_peer(depot->node, KVS_NET_SERVER, (int)server), header,
               &net); /* as above */
}

void byteps_depot_tell_settled(byteps_depot_t *depot)
{
    byteps_header_t header = {.kind = BYTEPS_SETTLED, .settled = depot->settled};

    if (depot->settled == depot->told_settled) {
        return;
    }
    depot->told_settled = depot->settled;
    for (int w = 0; w < depot->n_workers; w++) {
        byteps_depot_say(depot, w, &header, NULL);
    }
}
