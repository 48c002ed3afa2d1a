/* SPDX-License-Identifier: Apache-2.0 */
/* dist_out.c - values on their way to workers: at once where there is room, else by priority as each worker
 * receives. Short answers don't come here: they are sent whatever waits. */
#include "dist_out.h"

#include <stdlib.h>
#include <string.h>

/* What waits; its header and, if it was to be copied, its body lie behind it. */
typedef struct answer {
    dist_item_t item; /* first */
    const dist_depot_t *depot;
    kvs_net_send_t net;
    uint8_t bytes[];
} answer_t;

kvs_status_t dist_outs_new(int n_workers, dist_outs_t **ret_outs)
{
    dist_outs_t *outs = calloc(1, sizeof(*outs) + (size_t)n_workers * sizeof(outs->to[0]));

    if (outs == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for queues to %d workers", n_workers);
    }
    outs->n_workers = n_workers;
    *ret_outs = outs;
    return KVS_OK;
}

static answer_t *new_answer(const dist_depot_t *depot, const kvs_net_send_t *net)
{
    size_t n_copied = net->done == NULL ? net->n_body_bytes : 0;
    answer_t *answer = malloc(sizeof(*answer) + net->n_header_bytes + n_copied);

    if (answer == NULL) {
        return NULL;
    }
    *answer = (answer_t){.depot = depot, .net = *net};
    memcpy(answer->bytes, net->header, net->n_header_bytes);
    answer->net.header = answer->bytes;
    if (n_copied > 0) {
        memcpy(answer->bytes + net->n_header_bytes, net->body, n_copied);
        answer->net.body = answer->bytes + net->n_header_bytes;
    }
    return answer;
}

static void drop(dist_queue_t *queue, answer_t *answer, kvs_status_t status)
{
    kvs_net_send_t net = answer->net;

    dist_queue_remove(queue, &answer->item);
    free(answer);
    if (status != KVS_OK && net.done != NULL) {
        net.done(net.arg, status, "");
    }
}

kvs_status_t dist_out_send(dist_depot_t *depot, int worker, int32_t priority,
                           const kvs_net_send_t *net)
{
    dist_queue_t *queue = &depot->outs->to[worker].queue;
    const kvs_net_peer_t *peer = kvs_net_node_peer(depot->node, KVS_NET_WORKER, worker);
    kvs_status_t status =
        queue->n == 0 ? kvs_net_send(depot->node, peer, net) : (kvs_status_t)KVS_NET_AGAIN;
    answer_t *answer;

    if (status != KVS_NET_AGAIN) {
        return status;
    }
    answer = new_answer(depot, net);
    if (answer == NULL || !dist_queue_add(queue, &answer->item, priority, 0)) {
        free(answer);
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for an answer");
    }
    return KVS_OK; /* an event tells when there is room */
}

/* Whoever can't be reached is seen to die or leave. */
static void send_batch(dist_depot_t *depot, int worker)
{
    kvs_net_send_t net = KVS_NET_SEND_INIT;

    net.flags = KVS_NET_URGENT;
    net.store = depot->number;
    if (dist_batch_send(&depot->outs->to[worker].batch, depot->node,
                        kvs_net_node_peer(depot->node, KVS_NET_WORKER, worker), net) != KVS_OK) {
        dist_batch_release(&depot->outs->to[worker].batch);
    }
}

void dist_out_post(dist_depot_t *depot, int worker, const kvs_net_send_t *net)
{
    dist_batch_t *batch = &depot->outs->to[worker].batch;
    kvs_net_send_t urgent = *net;

    if (depot->outs->gathers && net->n_body_bytes <= DIST_BATCH_SMALL &&
        dist_batch_add(batch, net)) {
        if (batch->bytes.n > DIST_BATCH_BYTES) {
            send_batch(depot, worker);
        }
        return;
    }
    urgent.flags |= KVS_NET_URGENT;
    (void)kvs_net_send(depot->node, kvs_net_node_peer(depot->node, KVS_NET_WORKER, worker),
                       &urgent);
}

void dist_outs_gather(dist_outs_t *outs)
{
    outs->gathers = true;
}

void dist_outs_send_gathered(dist_depot_t *depot)
{
    depot->outs->gathers = false;
    for (int w = 0; w < depot->outs->n_workers; w++) {
        send_batch(depot, w);
    }
}

void dist_out_go_on(dist_outs_t *outs, kvs_net_node_t *node, int worker)
{
    dist_queue_t *queue = &outs->to[worker].queue;
    const kvs_net_peer_t *peer = kvs_net_node_peer(node, KVS_NET_WORKER, worker);
    dist_item_t *item;

    while ((item = dist_queue_next(queue)) != NULL) {
        answer_t *answer = (answer_t *)item;
        kvs_status_t status = kvs_net_send(node, peer, &answer->net);

        if (status == KVS_NET_AGAIN) {
            return;
        }
        dist_queue_end_turn(queue);
        drop(queue, answer, status);
    }
}

static void drop_of(dist_queue_t *queue, const dist_depot_t *depot)
{
    dist_item_t *item = queue->oldest;

    while (item != NULL) {
        answer_t *answer = (answer_t *)item;

        if (depot != NULL && answer->depot != depot) {
            item = item->newer;
            continue;
        }
        drop(queue, answer, KVS_ERR_CANCELLED);
        item = queue->oldest; /* dropping one may have dropped or added others */
    }
}

void dist_outs_drop(dist_outs_t *outs, const dist_depot_t *depot)
{
    for (int w = 0; w < outs->n_workers; w++) {
        drop_of(&outs->to[w].queue, depot);
    }
}

void dist_outs_free(dist_outs_t *outs)
{
    if (outs == NULL) {
        return;
    }
    dist_outs_drop(outs, NULL);
    for (int w = 0; w < outs->n_workers; w++) {
        dist_queue_release(&outs->to[w].queue);
        dist_batch_release(&outs->to[w].batch);
    }
    free(outs);
}
