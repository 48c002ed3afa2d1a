/* SPDX-License-Identifier: Apache-2.0 */
/* dist_norms.c - whole-array norms of an array that is cut over servers: in each phase every server
 * sends the sums of its blocks to the others, and each adds up all of them in the order of the array.
 * So all come to the same bits, which are those of an array that is not cut. */
#include "dist_depot.h"

#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void dist_norms_drop(dist_entry_t *entry)
{
    while (entry->sums != NULL) {
        dist_sums_t *next = entry->sums->next;

        free(entry->sums);
        entry->sums = next;
    }
}

/* Those of rounds that are over are of no use any more. */
static void drop_old(dist_entry_t *entry)
{
    dist_sums_t **link = &entry->sums;

    while (*link != NULL) {
        dist_sums_t *sums = *link;

        if (sums->round > entry->n_done) {
            link = &sums->next;
        } else {
            *link = sums->next;
            free(sums);
        }
    }
}

static const dist_sums_t *find(const dist_entry_t *entry, uint32_t phase, uint32_t server)
{
    const dist_sums_t *sums = entry->sums;

    while (sums != NULL &&
           !(sums->round == entry->n_done + 1 && sums->phase == phase && sums->server == server)) {
        sums = sums->next;
    }
    return sums;
}

static size_t n_numbers(const dist_entry_t *entry, const dist_shard_t *shard)
{
    int64_t n_blocks = (shard->n + KVS_OPTIMIZER_SUM_BLOCK - 1) / KVS_OPTIMIZER_SUM_BLOCK;

    return (size_t)n_blocks * kvs_opt_n_sums(entry->rounds[0]->opt);
}

static void send_to(const dist_entry_t *entry, uint32_t server, const dist_sums_t *sums)
{
    const dist_depot_t *depot = entry->depot;
    dist_header_t header = {.kind = DIST_SUMS,
                            .key = entry->record.id,
                            .digest = entry->digest,
                            .round = sums->round,
                            .states = sums->phase};
    uint8_t bytes[DIST_MAX_HEADER_BYTES];
    kvs_net_send_t net = KVS_NET_SEND_INIT;

    net.flags = KVS_NET_URGENT;
    net.store = depot->number;
    net.header = bytes;
    net.n_header_bytes = dist_header_encode(&header, bytes);
    net.body = sums->numbers;
    net.n_body_bytes = sums->n * sizeof(double);
    /* A server that is gone is the workers' business: they fail. */
    (void)kvs_net_send(depot->node, kvs_net_node_peer(depot->node, KVS_NET_SERVER, (int)server),
                       &net);
}

/* Numbers travel as little-endian doubles. */
static void swap_bytes(dist_sums_t *sums)
{
    for (size_t i = 0; i < sums->n && htole16(1) != 1; i++) {
        uint64_t bits;

        memcpy(&bits, &sums->numbers[i], sizeof(bits));
        bits = htole64(bits);
        memcpy(&sums->numbers[i], &bits, sizeof(bits));
    }
}

static dist_sums_t *new_sums(size_t n, int64_t round, uint32_t phase, uint32_t server)
{
    dist_sums_t *sums = malloc(sizeof(*sums) + n * sizeof(double));

    if (sums != NULL) {
        *sums = (dist_sums_t){.round = round, .phase = phase, .server = server, .n = n};
    }
    return sums;
}

static void keep(dist_entry_t *entry, dist_sums_t *sums)
{
    sums->next = entry->sums;
    entry->sums = sums;
}

static void send_to_others(const dist_entry_t *entry, dist_sums_t *sums)
{
    swap_bytes(sums);
    for (uint32_t i = 0; i < entry->record.n_shards; i++) {
        if (&entry->record.shards[i] != entry->shard) {
            send_to(entry, entry->record.shards[i].server, sums);
        }
    }
    swap_bytes(sums);
}

static void fail(dist_entry_t *entry, kvs_status_t status, const char *what, uint32_t server)
{
    char text[128], whole[1024];

    snprintf(text, sizeof(text), "server %u: %s", server, what);
    dist_round_text(entry, text, whole, sizeof(whole));
    dist_round_fail(entry, status, whole);
}

/* This server's own, to all others of the array. */
static bool make_own(dist_entry_t *entry, const void *grad)
{
    dist_round_t *round = entry->rounds[0];
    size_t n = n_numbers(entry, entry->shard);
    dist_sums_t *sums = new_sums(n, entry->n_done + 1, round->phase, (uint32_t)entry->depot->rank);
    const double *numbers;

    if (sums == NULL) {
        fail(entry, KVS_ERR_NO_MEMORY, "no memory for norms", (uint32_t)entry->depot->rank);
        return false;
    }
    numbers = kvs_opt_sum_blocks(round->opt, &entry->opt, round->phase, entry->record.dtype, grad,
                                 entry->weight, &round->update);
    if (n > 0) {
        memcpy(sums->numbers, numbers, n * sizeof(double));
    }
    send_to_others(entry, sums);
    keep(entry, sums);
    round->sums_sent = true;
    return true;
}

/* 1 if all servers' sums of the phase are there, 0 if not; -1: one does not fit, the round failed. */
static int have_all(dist_entry_t *entry)
{
    for (uint32_t i = 0; i < entry->record.n_shards; i++) {
        const dist_shard_t *shard = &entry->record.shards[i];
        const dist_sums_t *sums = find(entry, entry->rounds[0]->phase, shard->server);

        if (sums == NULL) {
            return 0;
        }
        if (sums->n != n_numbers(entry, shard)) {
            fail(entry, KVS_ERR_PEER, "its norms do not fit the array", shard->server);
            return -1;
        }
    }
    return 1;
}

#define VERDICT UINT32_MAX /* a phase of its own */

bool dist_norms_agree(dist_entry_t *entry, double own, double *ret_largest)
{
    dist_round_t *round = entry->rounds[0];
    double largest = 0;

    drop_old(entry);
    if (!round->verdict_sent) {
        dist_sums_t *sums = new_sums(1, entry->n_done + 1, VERDICT, (uint32_t)entry->depot->rank);

        if (sums == NULL) {
            fail(entry, KVS_ERR_NO_MEMORY, "no memory for a verdict", (uint32_t)entry->depot->rank);
            return false;
        }
        sums->numbers[0] = own;
        send_to_others(entry, sums);
        keep(entry, sums);
        round->verdict_sent = true;
    }
    for (uint32_t i = 0; i < entry->record.n_shards; i++) {
        const dist_sums_t *sums = find(entry, VERDICT, entry->record.shards[i].server);

        if (sums == NULL || sums->n != 1) {
            return false;
        }
        largest = sums->numbers[0] > largest ? sums->numbers[0] : largest;
    }
    *ret_largest = largest;
    return true;
}

static void combine(dist_entry_t *entry)
{
    dist_round_t *round = entry->rounds[0];
    uint32_t n_sums = kvs_opt_n_sums(round->opt);
    double totals[KVS_OPTIMIZER_MAX_SUMS] = {0};

    for (uint32_t i = 0; i < entry->record.n_shards; i++) {
        const dist_sums_t *sums = find(entry, round->phase, entry->record.shards[i].server);

        for (size_t k = 0; k < sums->n; k++) {
            totals[k % n_sums] += sums->numbers[k];
        }
    }
    kvs_opt_combine(round->opt, round->phase, totals, &round->update);
}

bool dist_norms_go_on(dist_entry_t *entry, const void *grad)
{
    dist_round_t *round = entry->rounds[0];

    drop_old(entry);
    while (round->phase < kvs_opt_n_phases(round->opt)) {
        if ((!round->sums_sent && !make_own(entry, grad)) || have_all(entry) != 1) {
            return false;
        }
        combine(entry);
        round->phase++;
        round->sums_sent = false;
    }
    kvs_opt_update_rows(round->opt, &entry->opt, entry->record.dtype, entry->shard->n, grad,
                        entry->weight, &round->update);
    return true;
}

void dist_norms_take_sums(dist_entry_t *entry, const dist_header_t *header,
                          const kvs_net_message_t *message)
{
    size_t n = message->n_body_bytes / sizeof(double);
    uint32_t server = (uint32_t)message->from->rank;
    dist_sums_t *sums;

    if (header->digest != entry->digest || message->n_body_bytes % sizeof(double) != 0 ||
        dist_record_shard_of(&entry->record, server) == NULL || header->round <= entry->n_done ||
        header->round > entry->n_done + 2) {
        kvs_log(KVS_LOG_WARN, "dist", "norms from %s for round %lld do not fit %s: dropped",
                message->from->label, (long long)header->round, DIST_KEY_TEXT(&entry->record));
        return;
    }
    sums = new_sums(n, header->round, header->states, server);
    if (sums == NULL) {
        return; /* the round ends at its deadline */
    }
    if (n > 0) {
        memcpy(sums->numbers, message->body, n * sizeof(double));
    }
    swap_bytes(sums);
    keep(entry, sums);
    dist_round_go_on(entry);
}
