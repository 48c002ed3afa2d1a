/* SPDX-License-Identifier: Apache-2.0 */
/* byteps_loss.c - when a server is lost, its parts go to others. Whoever had no result yet sends its values
 * again; a worker that had it already may have overwritten them, so it gives the result instead, which is
 * kept until the server has said that everyone has it. */
#include "byteps_worker.h"

#include <stdio.h>
#include <stdlib.h>

void byteps_keep(byteps_worker_t *worker, const byteps_header_t *header, uint32_t server,
                 byteps_answer_t *answer)
{
    byteps_target_t *target = &worker->targets[server];
    byteps_kept_t *kept = worker->n_servers - worker->n_lost > 1 ? malloc(sizeof(*kept)) : NULL;

    if (kept == NULL) { /* nobody could use it; without memory, only a loss just now would show */
        byteps_answer_drop(answer);
        return;
    }
    *kept = (byteps_kept_t){.number = header->answer,
                            .id = header->id,
                            .exchange = header->exchange,
                            .block = header->block,
                            .n_ranks = header->n_ranks,
                            .answer = answer};
    if (target->kept == NULL) {
        target->kept = kept;
    } else {
        target->last_kept->next = kept;
    }
    target->last_kept = kept;
}

static void drop_first(byteps_target_t *target)
{
    byteps_kept_t *kept = target->kept;

    target->kept = kept->next;
    byteps_answer_drop(kept->answer);
    free(kept);
}

void byteps_settle_kept(byteps_worker_t *worker, uint32_t server, uint64_t settled)
{
    byteps_target_t *target = &worker->targets[server];
    bool kept_some = target->kept != NULL;

    while (target->kept != NULL && target->kept->number <= settled) {
        drop_first(target);
    }
    if (kept_some && target->kept == NULL) {
        pthread_cond_broadcast(&worker->changed); /* close waits for it */
    }
}

void byteps_release_kept(byteps_worker_t *worker)
{
    for (uint32_t s = 0; s < worker->n_servers; s++) {
        while (worker->targets[s].kept != NULL) {
            drop_first(&worker->targets[s]);
        }
    }
}

static void give(const byteps_worker_t *worker, const byteps_kept_t *kept)
{
    uint64_t part = kept->block / byteps_blocks_per_part(worker);
    uint32_t server = byteps_replace(kept->id, part, worker->lost, worker->n_servers);
    byteps_header_t header = {.kind = BYTEPS_KEPT,
                              .id = kept->id,
                              .exchange = kept->exchange,
                              .block = kept->block,
                              .n_ranks = kept->n_ranks,
                              .timeout_ms = worker->timeout_ms};
    uint8_t bytes[BYTEPS_MAX_HEADER_BYTES];
    kvs_net_send_t net = KVS_NET_SEND_INIT;

    byteps_message_of(worker, &header, bytes, &net);
    net.flags = KVS_NET_URGENT;
    net.body = kept->answer->body;
    net.n_body_bytes = kept->answer->n_body_bytes;
    /* If that server is lost as well, whoever waits ends at its deadline. */
    (void)kvs_net_send(worker->node, kvs_net_node_peer(worker->node, KVS_NET_SERVER, (int)server),
                       &net);
}

/* Send what has no result yet once more, to whoever takes the server's place. */
static void move_part(byteps_part_t *part)
{
    byteps_use_t *use = part->use;

    byteps_part_unqueue(part);
    part->target = byteps_target_of(use->key->worker, use->key, part->index);
    byteps_part_rewind(part);
    if (!byteps_part_queue(part)) {
        byteps_use_fail(use, KVS_ERR_NO_MEMORY, "no memory for a queue of parts");
    }
}

static void move_use(byteps_use_t *use, uint32_t server)
{
    for (uint64_t i = 0; use->parts != NULL && i < use->n_parts; i++) {
        byteps_part_t *part = &use->parts[i];

        if (part->target == server && part->n_got < part->n_blocks) {
            move_part(part);
        }
    }
    if (use->status != KVS_OK) {
        byteps_use_end(use);
    }
}

void byteps_lose_server(byteps_worker_t *worker, uint32_t server, const char *text)
{
    byteps_use_t *next;
    char all[1024];

    if (worker->lost[server]) {
        return;
    }
    worker->lost[server] = true;
    if (worker->book.base == 0) {
        worker->book.lost[server] = true;
    }
    worker->n_lost++;
    if (worker->n_lost == worker->n_servers) {
        snprintf(all, sizeof(all), "%s; there is no other server to take its place", text);
        byteps_worker_fail(worker, KVS_ERR_PEER, all);
        return;
    }
    kvs_log(KVS_LOG_WARN, "byteps", "%s; its parts go to the other servers", text);
    while (worker->targets[server].kept != NULL) {
        give(worker, worker->targets[server].kept);
        drop_first(&worker->targets[server]);
    }
    for (byteps_use_t *use = worker->active; use != NULL; use = next) {
        next = use->next_active;
        move_use(use, server);
    }
    byteps_parts_send(worker);
    pthread_cond_broadcast(&worker->changed);
}
