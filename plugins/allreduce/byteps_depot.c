/* SPDX-License-Identifier: Apache-2.0 */
/* byteps_depot.c - a depot comes and goes, and its messages are handed on. */
#include "byteps_depot.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

int64_t byteps_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

void byteps_depot_free(byteps_depot_t *depot)
{
    byteps_exchanges_free(depot);
    byteps_depot_release_memory(depot);
    while (depot->answers != NULL) {
        byteps_answer_t *next = depot->answers->next;

        free(depot->answers);
        depot->answers = next;
    }
    for (int w = 0; depot->closed != NULL && w < depot->n_workers; w++) {
        free(depot->closed[w]);
    }
    free(depot->closed);
    free(depot->sources);
    free(depot->lost);
    free(depot->told);
    free(depot);
}

static void count_hosts(byteps_depot_t *depot)
{
    for (int w = 0; w < depot->n_workers; w++) {
        const kvs_net_peer_t *peer = kvs_net_node_peer(depot->node, KVS_NET_WORKER, w);
        int host = (int)peer->host_number;

        depot->n_hosts = host >= depot->n_hosts ? host + 1 : depot->n_hosts;
        depot->n_mates += peer->same_host != 0;
    }
}

byteps_depot_t *byteps_depot_new(kvs_net_node_t *node, uint32_t number, bool may_be_replaced,
                                 const byteps_owner_t *owner)
{
    byteps_depot_t *depot = calloc(1, sizeof(*depot));

    if (depot == NULL) {
        return NULL;
    }
    depot->owner = *owner;
    depot->node = node;
    depot->number = number;
    depot->n_workers = kvs_net_node_count(node, KVS_NET_WORKER);
    depot->may_be_replaced = may_be_replaced;
    depot->closed = calloc((size_t)depot->n_workers + 1, sizeof(*depot->closed));
    depot->sources = calloc((size_t)depot->n_workers + 1, sizeof(void *));
    depot->n_servers = kvs_net_node_count(node, KVS_NET_SERVER);
    depot->lost = calloc((size_t)depot->n_servers + 1, sizeof(*depot->lost));
    depot->told = calloc((size_t)depot->n_servers + 1, sizeof(*depot->told));
    if (depot->closed == NULL || depot->sources == NULL || depot->lost == NULL ||
        depot->told == NULL) {
        byteps_depot_free(depot);
        return NULL;
    }
    count_hosts(depot);
    return depot;
}

void byteps_depot_let_go(byteps_depot_t *depot)
{
    if (depot->closed_here && depot->n_unsent == 0) {
        depot->owner.free(depot->owner.arg, depot);
    }
}

void byteps_depot_close(byteps_depot_t *depot)
{
    char text[512];

    snprintf(text, sizeof(text), "%s has closed the store", kvs_net_node_self(depot->node)->label);
    byteps_exchanges_fail(depot, KVS_ERR_PEER, text);
    byteps_exchanges_free(depot);
    depot->closed_here = true;
    byteps_depot_let_go(depot);
}

const char *byteps_depot_label(const byteps_depot_t *depot, int worker)
{
    return kvs_net_node_peer(depot->node, KVS_NET_WORKER, worker)->label;
}

void byteps_depot_read_text(kvs_net_text_t *text, const kvs_net_message_t *message)
{
    size_t n =
        message->n_body_bytes < sizeof(text->bytes) ? message->n_body_bytes : sizeof(text->bytes);

    kvs_net_text_add(text, "%.*s", (int)n, n == 0 ? "" : (const char *)message->body);
}

void byteps_depot_wait(byteps_depot_t *depot)
{
    depot->owner.wait(depot->owner.arg);
}

bool byteps_depot_look(byteps_depot_t *depot, int64_t now_ns)
{
    bool pending = byteps_exchanges_look(depot, now_ns);

    byteps_depot_tell_settled(depot);
    return pending || depot->answers != NULL;
}

void byteps_depot_lose(byteps_depot_t *depot, int worker, const char *text)
{
    if (depot->closed[worker] ==
        NULL) { /* without memory, exchanges that need it end at their deadline */
        depot->closed[worker] = strdup(text);
        byteps_exchanges_check_gone(depot);
    }
}

static void take_close(byteps_depot_t *depot, int worker)
{
    char text[512];

    snprintf(text, sizeof(text), "%s has closed the store", byteps_depot_label(depot, worker));
    byteps_depot_lose(depot, worker, text);
}

void byteps_depot_take(byteps_depot_t *depot, const byteps_header_t *header,
                       kvs_net_message_t *message)
{
    depot->number = message->store;
    switch ((byteps_kind_t)header->kind) {
    case BYTEPS_BLOCK:
        byteps_exchange_take_block(depot, header, message);
        return; /* which owns the message */
    case BYTEPS_KEPT:
        byteps_exchange_take_kept(depot, header, message);
        return;
    case BYTEPS_DROP:
        byteps_exchange_take_drop(depot, header, message->from->rank);
        break;
    case BYTEPS_CLOSE:
        take_close(depot, message->from->rank);
        break;
    case BYTEPS_FAILED:
    case BYTEPS_REFUSED:
        byteps_exchange_take_failed(depot, header, message);
        break;
    case BYTEPS_HERE:
        byteps_exchange_take_here(depot, header, message);
        break;
    default:
        kvs_log(KVS_LOG_WARN, "byteps", "a message of kind %u from %s is not for who sums: dropped",
                (unsigned)header->kind, message->from->label);
        break;
    }
    kvs_net_message_release(message);
}
