/* SPDX-License-Identifier: Apache-2.0 */
/* dist_out.h - a server's queues of values to its workers, by priority. I/O thread. */
#ifndef DIST_OUT_H
#define DIST_OUT_H

#include "dist_depot.h"
#include "dist_queue.h"

typedef struct dist_out {
    dist_queue_t queue;
    dist_batch_t batch; /* short answers, until what came together is answered together */
} dist_out_t;

struct dist_outs {
    int n_workers;
    bool gathers;
    dist_out_t to[]; /* by rank */
};

kvs_status_t dist_outs_new(int n_workers, dist_outs_t **ret_outs);
/* What waits gets `done` with ERR_CANCELLED. */
void dist_outs_free(dist_outs_t *outs);
/* The same for what is of this depot; NULL: of all. */
void dist_outs_drop(dist_outs_t *outs, const dist_depot_t *depot);
/* Send it to a worker, or let it wait: header and what has no `done` are copied. On failure `done` is
 * not called. */
kvs_status_t dist_out_send(dist_depot_t *depot, int worker, int32_t priority,
                           const kvs_net_send_t *net);
/* A short answer, whatever waits: at once, or with others while answers are gathered. */
void dist_out_post(dist_depot_t *depot, int worker, const kvs_net_send_t *net);
/* Gather what is posted from here on; send it. */
void dist_outs_gather(dist_outs_t *outs);
void dist_outs_send_gathered(dist_depot_t *depot);
/* The worker has received something, or is gone. */
void dist_out_go_on(dist_outs_t *outs, kvs_net_node_t *node, int worker);

#endif
