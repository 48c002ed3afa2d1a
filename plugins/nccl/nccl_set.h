/* SPDX-License-Identifier: Apache-2.0 */
/* nccl_set.h - sets of devices with a communicator for each, made at the first exchange over those devices
 * in that order, and kept. They never block: a set that gets stuck is aborted, and made anew when it
 * is used again. All functions: the caller holds the lock of nccl_exchange.c. */
#ifndef NCCL_SET_H
#define NCCL_SET_H

#include "nccl_library.h"

#include <kvstore/kit.h>

#define NCCL_MAX_DEVICES 64

typedef struct nccl_set {
    struct nccl_set *next;
    size_t n;
    int32_t ids[NCCL_MAX_DEVICES];
    ncclComm_t comms[NCCL_MAX_DEVICES]; /* NULL: to be made */
    int is_made;
    uint64_t owes;  /* the exchange that failed last, if no operation has been told; else 0 */
    char text[512]; /* how it failed */
} nccl_set_t;

/* The set of these devices, working. ERR_PLUGIN: it can't be made; ERR_TIMEOUT. What an earlier exchange
 * owes is told first, once. */
kvs_status_t nccl_set_get(const kvs_provider_t *provider, const kvs_collective_item_t *item,
                          int64_t timeout_ms, nccl_set_t **ret_set);
/* "cuda(0), cuda(2)" */
const char *nccl_set_devices(const nccl_set_t *set, char text[256]);
/* Of all communicators: success, in progress, or the first error with its text. */
ncclResult_t nccl_set_state(const nccl_set_t *set, const char **ret_text);
/* Wait until none is in progress. ERR_PLUGIN, ERR_TIMEOUT: what failed is in the text; nothing is
 * aborted. */
kvs_status_t nccl_set_wait(const nccl_set_t *set, int64_t timeout_ms);
/* Abort all communicators; the set is made anew at its next use. */
void nccl_set_abort(nccl_set_t *set);
/* End all sets in good order, where they let us, within the time. */
void nccl_sets_close(int64_t timeout_ms);

#endif
