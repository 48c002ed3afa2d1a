/* SPDX-License-Identifier: Apache-2.0 */
/* byteps_places.c - where the parts of a key go: worker 0 says so, out of its book, and the others ask it at
 * the first use of a key. Where hosts sum first a part goes to a worker of this host, and from there to a
 * server. */
#include "byteps_worker.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

bool byteps_make_known(byteps_worker_t *worker, uint64_t id)
{
    size_t n = worker->n_known == 0 ? 256 : worker->n_known;
    byteps_known_t *grown;

    if (id > BYTEPS_MAX_KEYS) {
        return false;
    }
    while (n <= id) {
        n *= 2;
    }
    if (n > worker->n_known) {
        grown = realloc(worker->known, n * sizeof(*grown));
        if (grown == NULL) {
            return false;
        }
        memset(grown + worker->n_known, 0, (n - worker->n_known) * sizeof(*grown));
        worker->known = grown;
        worker->n_known = n;
    }
    return true;
}

/* Takes over `list`: targets, and behind them, with `hosts`, servers. */
static kvs_status_t set_places(byteps_key_t *key, uint64_t id, uint64_t n, uint32_t *list,
                               bool hosts)
{
    if (list == NULL || !byteps_make_known(key->worker, id)) {
        free(list);
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for the places of a key");
    }
    free(key->targets);
    key->id = id;
    key->n_places = n;
    key->targets = list;
    key->servers = hosts ? list + n : NULL;
    key->worker->known[id].key = key;
    return KVS_OK;
}

static kvs_status_t look_up(byteps_worker_t *worker, const byteps_header_t *header,
                            uint64_t n_parts, const byteps_place_t **ret_place)
{
    uint64_t n_bytes = (uint64_t)byteps_n_elems(header) * (uint64_t)kvs_dtype_bytes(header->dtype);
    uint64_t part_bytes = byteps_blocks_per_part(worker) * BYTEPS_BLOCK_BYTES;
    uint64_t before = (n_parts - 1) * part_bytes;

    return byteps_book_place(&worker->book, header, n_parts, part_bytes,
                             n_bytes > before ? n_bytes - before : 0, ret_place);
}

/* Of all its parts the target for a worker of this host, and behind them, where hosts sum first, the
 * server. NULL: no memory. */
static uint32_t *list_places(const byteps_worker_t *worker, const byteps_place_t *place,
                             uint32_t host, size_t *ret_n)
{
    uint32_t n_hosts = worker->book.n_hosts;
    size_t n = (size_t)place->n_parts, n_all = n_hosts > 0 ? 2 * n : n;
    uint32_t *list = malloc(n_all * sizeof(*list));

    for (size_t i = 0; list != NULL && i < n; i++) {
        list[i] = n_hosts > 0 ? worker->n_servers + place->summers[i * n_hosts + host]
                              : place->servers[i];
    }
    if (list != NULL && n_hosts > 0) {
        memcpy(list + n, place->servers, n * sizeof(*list));
    }
    *ret_n = n_all;
    return list;
}

static kvs_status_t place_here(byteps_key_t *key, const byteps_use_t *use)
{
    byteps_worker_t *worker = key->worker;
    const byteps_place_t *place;
    kvs_status_t status = look_up(worker, &use->header, use->n_parts, &place);
    uint32_t *list;
    size_t n;

    if (status != KVS_OK) {
        return status;
    }
    list = list_places(worker, place, kvs_net_node_self(worker->node)->host_number, &n);
    return set_places(key, place->id, place->n_parts, list, n > place->n_parts);
}

static kvs_status_t ask(byteps_key_t *key, const byteps_use_t *use)
{
    byteps_worker_t *worker = key->worker;
    byteps_header_t header = use->header;
    uint8_t bytes[BYTEPS_MAX_HEADER_BYTES];
    kvs_net_send_t net = KVS_NET_SEND_INIT;
    kvs_status_t status;

    if (worker->closed[0] != NULL) {
        return kvs_fail(KVS_ERR_PEER, "%s: %s", BYTEPS_KEY_TEXT(&header), worker->closed[0]);
    }
    header.kind = BYTEPS_ASK;
    header.block = use->n_parts;
    header.exchange = worker->n_asks + 1;
    byteps_message_of(worker, &header, bytes, &net);
    net.flags = KVS_NET_URGENT;
    status = kvs_net_send(worker->node, kvs_net_node_peer(worker->node, KVS_NET_WORKER, 0), &net);
    if (status != KVS_OK) {
        return status;
    }
    key->ask = ++worker->n_asks;
    key->next_asking = NULL;
    if (worker->asking == NULL) {
        worker->asking = key;
    } else {
        worker->last_asking->next_asking = key;
    }
    worker->last_asking = key;
    return KVS_OK;
}

void byteps_key_ask(byteps_key_t *key, const byteps_use_t *use)
{
    bool here = key->worker->rank == 0;
    kvs_status_t status = here ? place_here(key, use)
                          : key->ask == 0
                              ? ask(key, use)
                              : KVS_OK; /* for a use that has failed: it is answered yet */

    if (status != KVS_OK) {
        byteps_use_fail(key->current, status, kvs_plugin_host->last_error());
        byteps_use_end(key->current);
    } else if (here) {
        byteps_key_go_on(key);
    }
}

/* Where the asker's key goes, as a body of u32; else why it can't be told. */
static kvs_status_t find_places(byteps_worker_t *worker, const byteps_header_t *header,
                                const kvs_net_peer_t *asker, const byteps_place_t **ret_place,
                                uint32_t **ret_body, size_t *ret_n)
{
    kvs_status_t status;
    uint32_t *body;

    if (worker->rank != 0 || header->block != byteps_n_parts(worker, header)) {
        return kvs_fail(KVS_ERR_FORMAT, "%s: worker %d can't say where its parts go",
                        BYTEPS_KEY_TEXT(header), worker->rank);
    }
    status = look_up(worker, header, header->block, ret_place);
    if (status != KVS_OK) {
        return status;
    }
    body = list_places(worker, *ret_place, asker->host_number, ret_n);
    if (body == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory to say where a key of %llu parts goes",
                        (unsigned long long)(*ret_place)->n_parts);
    }
    for (size_t i = 0; i < *ret_n; i++) {
        body[i] = htole32(body[i]);
    }
    *ret_body = body;
    return KVS_OK;
}

static void answer_ask(byteps_worker_t *worker, const byteps_header_t *header,
                       const kvs_net_message_t *message)
{
    byteps_header_t answer = {.kind = BYTEPS_PLACES, .exchange = header->exchange};
    const byteps_place_t *place = NULL;
    uint8_t bytes[BYTEPS_MAX_HEADER_BYTES];
    kvs_net_send_t net = KVS_NET_SEND_INIT;
    uint32_t *body = NULL;
    size_t n = 0;

    answer.status = find_places(worker, header, message->from, &place, &body, &n);
    if (answer.status == KVS_OK) {
        answer.id = place->id;
        answer.block = place->n_parts;
        net.body = body;
        net.n_body_bytes = n * sizeof(*body);
    } else {
        net.body = kvs_plugin_host->last_error();
        net.n_body_bytes = strlen(net.body);
    }
    byteps_message_of(worker, &answer, bytes, &net);
    net.store = message->store; /* we may not have come as far as to know it */
    net.flags = KVS_NET_URGENT;
    (void)kvs_net_send(worker->node, message->from, &net); /* if it is gone, it needs no answer */
    free(body);
}

void byteps_key_forget_ask(byteps_key_t *key)
{
    byteps_worker_t *worker = key->worker;
    byteps_key_t *before = NULL;

    if (key->ask == 0) {
        return;
    }
    for (byteps_key_t *at = worker->asking; at != key; at = at->next_asking) {
        before = at;
    }
    if (before == NULL) {
        worker->asking = key->next_asking;
    } else {
        before->next_asking = key->next_asking;
    }
    worker->last_asking = worker->last_asking == key ? before : worker->last_asking;
    key->ask = 0;
}

/* Answers come in the order of what was asked, but some may be missing. */
static byteps_key_t *take_asking(byteps_worker_t *worker, uint64_t number)
{
    byteps_key_t *key = worker->asking;

    while (key != NULL && key->ask != number) {
        key = key->next_asking;
    }
    if (key != NULL) {
        byteps_key_forget_ask(key);
    }
    return key;
}

/* NULL: not nodes of this job, or no memory. Targets come first. */
static uint32_t *read_places(const byteps_worker_t *worker, const kvs_net_message_t *message,
                             size_t n_targets, size_t n)
{
    uint32_t *list = n == 0 ? NULL : malloc(n * sizeof(*list));

    for (size_t i = 0; i < n && list != NULL; i++) {
        memcpy(&list[i], (const uint8_t *)message->body + i * sizeof(*list), sizeof(*list));
        list[i] = le32toh(list[i]);
        if (list[i] >= (i < n_targets ? worker->n_targets : worker->n_servers)) {
            free(list);
            list = NULL;
        }
    }
    return list;
}

static kvs_status_t accept_places(byteps_key_t *key, const byteps_header_t *header,
                                  const kvs_net_message_t *message)
{
    size_t n = message->n_body_bytes / sizeof(uint32_t), n_targets = (size_t)header->block;
    uint32_t *list = NULL;

    if (header->status != KVS_OK) {
        kvs_net_text_t text = {.n = 0};

        byteps_depot_read_text(&text, message);
        return kvs_fail(header->status, "%s could not place the key: %s", message->from->label,
                        text.bytes);
    }
    if (header->id > BYTEPS_MAX_KEYS) {
        return kvs_fail(KVS_ERR_PEER, "%s calls the key number %llu; a store has at most %d keys",
                        message->from->label, (unsigned long long)header->id, BYTEPS_MAX_KEYS);
    }
    if (header->id != 0 && (n == n_targets || n / 2 == n_targets)) {
        list = read_places(key->worker, message, n_targets, n);
    }
    if (list == NULL) {
        return kvs_fail(KVS_ERR_PEER, "%s sent places that make no sense", message->from->label);
    }
    return set_places(key, header->id, n_targets, list, n > n_targets);
}

static void take_answer(byteps_worker_t *worker, const byteps_header_t *header,
                        const kvs_net_message_t *message)
{
    byteps_key_t *key = message->from->rank == 0 ? take_asking(worker, header->exchange) : NULL;
    kvs_status_t status;

    if (key == NULL) {
        return;
    }
    status = accept_places(key, header, message);
    if (status == KVS_OK) {
        byteps_key_go_on(key);
    } else if (key->current != NULL) {
        byteps_use_fail(key->current, status, kvs_plugin_host->last_error());
        byteps_use_end(key->current);
    }
}

void byteps_take_places(byteps_worker_t *worker, const byteps_header_t *header,
                        const kvs_net_message_t *message)
{
    if (message->from->role == KVS_NET_WORKER && header->kind == BYTEPS_ASK) {
        answer_ask(worker, header, message);
    } else if (message->from->role == KVS_NET_WORKER) {
        take_answer(worker, header, message);
    }
}
