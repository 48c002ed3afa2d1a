/* SPDX-License-Identifier: Apache-2.0 */
/* hvd_quick.h - exchanges of small arrays by the calling threads themselves, with no other thread and no
 * message: every worker lays its values down with a digest of what it means to do, looks whether all
 * others have come with the same, and sums all values itself.
 *
 * Workers meet at numbered gates. Whoever waits too long at one shuts it for those who are not there,
 * and all go the long way: a gate is passed by all or by none. */
#ifndef HVD_QUICK_H
#define HVD_QUICK_H

#include "ar_group.h"

#define HVD_QUICK_MAX_BYTES ((size_t)256 << 10) /* of one worker's values */

typedef struct hvd_quick hvd_quick_t;

/* Bytes, all zero at first, that `n` members need in common. */
size_t hvd_quick_bytes(int n);
kvs_status_t hvd_quick_open(kvs_net_node_t *node, ar_group_t *group, hvd_quick_t **ret_quick);
void hvd_quick_close(hvd_quick_t *quick); /* NULL does nothing */

enum { HVD_QUICK_ALL = -1 };

typedef struct hvd_quick_call {
    uint64_t digest; /* of everything that must be the same */
    int reduce;
    int root; /* HVD_QUICK_ALL: a reduction; else whose values everyone gets */
    const ar_data_t *data;
} hvd_quick_call_t;

/* Whether arrays of so many bytes are small enough. */
bool hvd_quick_takes(const hvd_quick_t *quick, uint64_t n_bytes);
/* Try it, for about as long as a message takes. True: it is done. False: nothing has happened, on any
 * worker. Any thread; one at a time tries, others are told no. */
bool hvd_quick_try(hvd_quick_t *quick, const hvd_quick_call_t *call);

#endif
