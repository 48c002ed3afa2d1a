/* SPDX-License-Identifier: Apache-2.0 */
/* nccl_set.h - sets of devices with a communicator for each, made at the first exchange over those devices
 * in that order, and kept: devices of this process, or of several (a world). They never block: a set that
 * gets stuck is aborted, and made anew when it is used again. All functions, unless they say otherwise: the
 * caller holds the issue lock of nccl_exchange.c. */
#ifndef NCCL_SET_H
#define NCCL_SET_H

#include "nccl_library.h"

#include <kvstore/kit.h>

#define NCCL_MAX_DEVICES 64
#define NCCL_MAX_WORLD   1024 /* devices of all processes in a set */

typedef struct nccl_set nccl_set_t;

/* How processes of a job reach each other. */
typedef struct nccl_peers {
    void *arg;
    /* 0, or why the job is over, with its text. Any thread, under any lock. */
    kvs_status_t (*check)(void *arg);
    /* Give the id of a set to its other members, which call take_id. ERR_TIMEOUT, or as check. */
    kvs_status_t (*give_id)(void *arg, const nccl_set_t *set, const ncclUniqueId *id);
    kvs_status_t (*take_id)(void *arg, const nccl_set_t *set, int64_t timeout_ms,
                            ncclUniqueId *ret_id);
    /* An exchange has failed here: the others must know. Any thread, under no lock. */
    void (*fail)(void *arg, kvs_status_t status, const char *text);
} nccl_peers_t;

/* The processes of an exchange, and their devices; the same in all of them. */
typedef struct nccl_world {
    const nccl_peers_t *peers;
    int n_members, self;
    const int *members;     /* ranks, ascending */
    const int64_t *devices; /* of each: a bit for each id */
} nccl_world_t;

struct nccl_set {
    nccl_set_t *next;
    size_t n; /* devices of this process: in the order of the list, in a world ascending */
    int32_t ids[NCCL_MAX_DEVICES];
    nccl_world_t world; /* its own copy; peers NULL: of this process alone */
    uint64_t digest;    /* of the world */
    int n_ranks, first; /* of the communicators, and of this process's first */
    /* written under both locks: */
    ncclComm_t comms[NCCL_MAX_DEVICES]; /* NULL: to be made */
    int is_made;
    /* guarded by the state lock of nccl_exchange.c: */
    int is_issuing;     /* somebody is calling NCCL with it: it is not to be aborted by others */
    int n_aborting;     /* abortions of its old communicators that go on */
    size_t n_forgotten; /* failures that nobody was told, and that are remembered no more */
};

/* The set of an exchange's devices, in a world or not. */
kvs_status_t nccl_set_find(const kvs_collective_item_t *item, const nccl_world_t *world,
                           nccl_set_t **ret_set);
/* Make its communicators. ERR_PLUGIN: they can't be made; ERR_TIMEOUT; or why the job is over. They are left
 * as they are then, to be aborted. */
kvs_status_t nccl_set_make(const kvs_provider_t *provider, nccl_set_t *set,
                           const kvs_collective_item_t *item, int64_t timeout_ms);
/* "cuda(0), cuda(2)"; "worker 0: cuda(0); worker 1: cuda(0)" */
const char *nccl_set_devices(const nccl_set_t *set, char text[256]);
/* Of all communicators: success, in progress, or the first error with its text. Under either lock. */
ncclResult_t nccl_set_state(const nccl_set_t *set, const char **ret_text);
/* Wait until none is in progress. ERR_PLUGIN, ERR_TIMEOUT: what failed is in the text; nothing is
 * aborted. */
kvs_status_t nccl_set_wait(const nccl_set_t *set, int64_t timeout_ms);
nccl_set_t *nccl_sets_first(void);
/* End all sets of a world or, without peers, of none, in good order, where they let us, within the time. */
void nccl_sets_close(const nccl_peers_t *peers, int64_t timeout_ms);

#endif
