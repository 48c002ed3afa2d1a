/* SPDX-License-Identifier: Apache-2.0 */
/* dist_batch.h - small messages that go to one place together, as one. Whoever writes adds messages until
 * it is time to send; whoever reads gets each of them as if it had come by itself. */
#ifndef DIST_BATCH_H
#define DIST_BATCH_H

#include "dist_bytes.h"

#include <kvstore/net.h>

#include <stdbool.h>

/* Bodies of messages that are put together, and all of a batch. */
#define DIST_BATCH_SMALL (16 << 10)
#define DIST_BATCH_BYTES (64 << 10)

/* ---- Writing ------------------------------------------------------------------------------------- */

typedef struct dist_batch {
    dist_bytes_t bytes;
    uint32_t n;
} dist_batch_t;

/* False: no memory, nothing was added. */
bool dist_batch_add(dist_batch_t *batch, const kvs_net_send_t *net);
/* Send what there is, to one peer, and empty it; unless that fails, also with KVS_NET_AGAIN. `net` has the
 * store, and flags. */
kvs_status_t dist_batch_send(dist_batch_t *batch, kvs_net_node_t *node, const kvs_net_peer_t *to,
                             kvs_net_send_t net);
void dist_batch_release(dist_batch_t *batch);

/* ---- Reading ------------------------------------------------------------------------------------- */

typedef struct dist_unpacked {
    size_t n;
    kvs_net_message_t *messages[]; /* each is to be released */
} dist_unpacked_t;

/* Owns the message. What was unpacked is to be freed. ERR_FORMAT: it is no batch of `n` messages. */
kvs_status_t dist_batch_open(kvs_net_message_t *message, int64_t n, dist_unpacked_t **ret_unpacked);
/* Of a message that came by itself, or in a batch; NULL does nothing. One thread at a time for all
 * messages of a batch. */
void dist_message_release(kvs_net_message_t *message);

#endif
