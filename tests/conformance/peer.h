/* SPDX-License-Identifier: Apache-2.0 */
/* peer.h - two processes that trade arrays through shared memory: as much of a job as the suite needs
 * to be tried with two workers. Connected before the processes are forked; until then, one worker. */
#ifndef PEER_H
#define PEER_H

#include <kvstore/kvstore.h>

/* Before forking. */
kvs_status_t peer_connect(void);
/* In each of the two processes: it is rank 0 or 1 from here on. */
void peer_join(int rank);
int peer_rank(void);
int peer_n_workers(void); /* 1 before peer_join */

/* Give `mine` and take `ret_theirs` under a name that both use once at a time. Any thread. ERR_TIMEOUT
 * after some seconds; ERR_PEER: the other gave another size. */
kvs_status_t peer_trade(const char *name, const void *mine, size_t n_bytes, void *ret_theirs);

#endif
