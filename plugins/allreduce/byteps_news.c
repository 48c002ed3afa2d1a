/* SPDX-License-Identifier: Apache-2.0 */
/* byteps_news.c - what other nodes say to a store: results and failures of its own uses; what it sums for
 * others is its depot's. All on the I/O thread. */
#include "byteps_worker.h"

#include <string.h>

/* The use that a server's message is about, if it is still on its way. */
static byteps_use_t *find_use(const byteps_worker_t *worker, const byteps_header_t *header)
{
    byteps_key_t *key = header->id < worker->n_known ? worker->known[header->id].key : NULL;
    byteps_use_t *use = key == NULL ? NULL : key->current;

    return use != NULL && use->number == header->exchange && use->parts != NULL ? use : NULL;
}

static byteps_part_t *find_part(const byteps_worker_t *worker, byteps_use_t *use,
                                const byteps_header_t *header, const kvs_net_message_t *message)
{
    uint64_t i = header->block / byteps_blocks_per_part(worker);
    byteps_part_t *part = i < use->n_parts ? &use->parts[i] : NULL;

    return part != NULL && part->target == byteps_target_number(worker, message->from) &&
                   part->n_got < part->n_sent && header->block == part->first_block + part->n_got &&
                   message->n_body_bytes == byteps_block_bytes(use, header->block)
               ? part
               : NULL;
}

static void got_block(byteps_part_t *part, uint64_t block)
{
    byteps_use_t *use = part->use;

    use->key->worker->n_in_flight -= byteps_block_bytes(use, block);
    use->moved_ns = byteps_now_ns();
    if (++part->n_got == part->n_blocks) {
        part->started = false;
        if (--use->n_parts_left == 0) {
            byteps_use_end(use);
        }
    }
}

/* Writing takes long, so it is done without the lock; the use is held meanwhile. */
static void take_result(byteps_worker_t *worker, const byteps_header_t *header,
                        const kvs_net_message_t *message)
{
    byteps_use_t *use = find_use(worker, header);
    byteps_part_t *part = use == NULL ? NULL : find_part(worker, use, header, message);

    if (part == NULL) {
        return; /* of a use that has failed */
    }
    use->n_held++;
    pthread_mutex_unlock(&worker->lock);
    byteps_use_write(use, header->block, message->body);
    pthread_mutex_lock(&worker->lock);
    use->n_held--;
    if (!use->over) {
        got_block(part, header->block);
    }
    byteps_use_look(use);
    byteps_parts_send(worker);
}

static void take_failed(byteps_worker_t *worker, const byteps_header_t *header,
                        const kvs_net_message_t *message)
{
    byteps_use_t *use = find_use(worker, header);
    kvs_net_text_t text = {.n = 0};

    if (use != NULL) {
        byteps_depot_read_text(&text, message);
        byteps_use_fail(use, header->status == KVS_OK ? KVS_ERR_PEER : header->status, text.bytes);
        byteps_use_end(use);
        byteps_parts_send(worker); /* there is credit again */
    }
}

static void take_wanted(byteps_worker_t *worker, const byteps_header_t *header)
{
    byteps_use_t *use = find_use(worker, header);

    if (!byteps_make_known(worker, header->id)) {
        return;
    }
    worker->known[header->id].wanted = header->exchange;
    if (use == NULL || use->wanted) {
        return;
    }
    for (uint64_t i = 0; i < use->n_parts; i++) {
        if (!use->parts[i].parked) {
            byteps_part_unqueue(&use->parts[i]);
        }
    }
    use->wanted = true;
    for (uint64_t i = 0; i < use->n_parts; i++) {
        if (!use->parts[i].parked && use->parts[i].n_sent < use->parts[i].n_blocks) {
            (void)byteps_part_queue(&use->parts[i]); /* there is room: it has just gone */
        }
    }
    byteps_parts_send(worker);
}

/* A server's results may be of use to others later. Takes over the answer; NULL does nothing. */
static void keep(byteps_worker_t *worker, const byteps_header_t *header, uint32_t server,
                 byteps_answer_t *answer)
{
    byteps_settle_kept(worker, server, header->settled);
    if (answer != NULL && header->answer > header->settled) {
        byteps_keep(worker, header, server, answer);
    } else if (answer != NULL) {
        byteps_answer_drop(answer);
    }
}

/* Owns the message. */
static void take_answer(byteps_worker_t *worker, const byteps_header_t *header,
                        kvs_net_message_t *message)
{
    uint32_t server = (uint32_t)message->from->rank;
    byteps_answer_t *answer = NULL;

    switch ((byteps_kind_t)header->kind) {
    case BYTEPS_RESULT:
        take_result(worker, header, message);
        break;
    case BYTEPS_FAILED:
        take_failed(worker, header, message);
        break;
    case BYTEPS_WANTED:
        take_wanted(worker, header);
        break;
    default: /* SETTLED */
        break;
    }
    if (message->from->role != KVS_NET_SERVER) {
        kvs_net_message_release(message);
        return;
    }
    if (header->kind == BYTEPS_RESULT && header->answer > header->settled) {
        answer = byteps_answer_new(worker->depot, message, NULL, message->n_body_bytes);
    } else {
        kvs_net_message_release(message);
    }
    keep(worker, header, server, answer);
}

/* What a server says to one that sums for its host. */
static bool is_for_host(const byteps_header_t *header, const kvs_net_message_t *message)
{
    return message->from->role == KVS_NET_SERVER && header->n_ranks != 0 &&
           (header->kind == BYTEPS_RESULT || header->kind == BYTEPS_FAILED);
}

static void take_for_host(byteps_worker_t *worker, const byteps_header_t *header,
                          kvs_net_message_t *message)
{
    uint32_t server = (uint32_t)message->from->rank;
    byteps_answer_t *answer = NULL;

    if (header->kind == BYTEPS_RESULT) {
        answer = byteps_relay_take_result(worker->depot, header, message);
    } else {
        byteps_relay_take_failed(worker->depot, header, message);
        kvs_net_message_release(message);
    }
    pthread_mutex_lock(&worker->lock);
    keep(worker, header, server, answer);
    byteps_worker_settle(worker);
}

static bool is_for_depot(const byteps_header_t *header)
{
    return header->kind == BYTEPS_BLOCK || header->kind == BYTEPS_DROP ||
           header->kind == BYTEPS_CLOSE || header->kind == BYTEPS_REFUSED;
}

/* What workers say to one that sums. A worker that has closed the store sums no more either. */
static void take_for_depot(byteps_worker_t *worker, const byteps_header_t *header,
                           kvs_net_message_t *message)
{
    int rank = message->from->rank;

    byteps_depot_take(worker->depot, header, message);
    if (header->kind == BYTEPS_CLOSE) {
        pthread_mutex_lock(&worker->lock);
        byteps_worker_lose(worker, rank, worker->depot->closed[rank]);
        byteps_worker_settle(worker);
    }
}

static void take(byteps_worker_t *worker, const byteps_header_t *header, kvs_net_message_t *message)
{
    if (header->kind == BYTEPS_WANTED && message->from->role == KVS_NET_SERVER) {
        byteps_relay_take_wanted(worker->depot, header);
    }
    pthread_mutex_lock(&worker->lock);
    if (header->kind == BYTEPS_ASK || header->kind == BYTEPS_PLACES) {
        byteps_take_places(worker, header, message);
        kvs_net_message_release(message);
    } else {
        take_answer(worker, header, message);
    }
    byteps_worker_settle(worker);
}

void byteps_worker_message(void *store, kvs_net_message_t *message)
{
    byteps_worker_t *worker = store;
    byteps_header_t header;

    if (byteps_header_decode(message->header, message->n_header_bytes, &header) != KVS_OK ||
        (header.kind == BYTEPS_WANTED && header.id > BYTEPS_MAX_KEYS)) {
        kvs_log(KVS_LOG_WARN, "byteps", "a message from %s is dropped: it is malformed",
                message->from->label);
        kvs_net_message_release(message);
    } else if (is_for_depot(&header) && message->from->role == KVS_NET_WORKER) {
        take_for_depot(worker, &header, message);
    } else if (is_for_host(&header, message)) {
        take_for_host(worker, &header, message);
    } else {
        take(worker, &header, message);
    }
}
