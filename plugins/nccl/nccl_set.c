/* SPDX-License-Identifier: Apache-2.0 */
/* nccl_set.c - see nccl_set.h. What doesn't block has to be asked until it is done; that is NCCL's
 * way, it has no descriptor or callback for it. */
#include "nccl_set.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define POLL_NS 50000

static nccl_set_t *sets;

static int64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

static size_t say_devices(char text[256], size_t at, int64_t devices)
{
    int n = 0;

    for (int id = 0; id < 63 && at < 240; id++) {
        if ((devices >> id & 1) != 0) {
            at += (size_t)snprintf(text + at, 256 - at, "%scuda(%d)", n++ == 0 ? "" : ", ", id);
        }
    }
    return at;
}

const char *nccl_set_devices(const nccl_set_t *set, char text[256])
{
    const nccl_world_t *world = &set->world;
    size_t at = 0;

    text[0] = '\0';
    for (size_t i = 0; i < set->n && at < 240 && world->peers == NULL; i++) {
        at += (size_t)snprintf(text + at, 256 - at, "%scuda(%d)", i == 0 ? "" : ", ", set->ids[i]);
    }
    for (int m = 0; m < world->n_members && at < 220; m++) {
        at += (size_t)snprintf(text + at, 256 - at, "%sworker %d: ", m == 0 ? "" : "; ",
                               world->members[m]);
        at = say_devices(text, at, world->devices[m]);
    }
    return text;
}

ncclResult_t nccl_set_state(const nccl_set_t *set, const char **ret_text)
{
    ncclResult_t worst = ncclSuccess;

    for (size_t i = 0; i < set->n; i++) {
        ncclResult_t state = ncclSuccess, result;

        if (set->comms[i] == NULL) {
            continue;
        }
        result = nccl(ncclCommGetAsyncError)(set->comms[i], &state);
        state = result != ncclSuccess ? result : state;
        if (state != ncclSuccess && state != ncclInProgress) {
            *ret_text = nccl(ncclGetLastError)(set->comms[i]);
            return state;
        }
        worst = state == ncclInProgress ? state : worst;
    }
    return worst;
}

kvs_status_t nccl_set_wait(const nccl_set_t *set, int64_t timeout_ms)
{
    int64_t end = timeout_ms > 0 ? now_ms() + timeout_ms : INT64_MAX;
    const char *text = "";
    char devices[256];

    for (;;) {
        ncclResult_t state = nccl_set_state(set, &text);

        if (state == ncclSuccess) {
            return KVS_OK;
        }
        if (set->world.peers != NULL) {
            kvs_status_t status = set->world.peers->check(set->world.peers->arg);

            if (status != KVS_OK) {
                return status;
            }
        }
        if (state != ncclInProgress) {
            return kvs_fail(KVS_ERR_PLUGIN, "NCCL over %s: %s: %s; NCCL_DEBUG=WARN tells more",
                            nccl_set_devices(set, devices), nccl(ncclGetErrorString)(state), text);
        }
        if (now_ms() >= end) {
            return kvs_fail(KVS_ERR_TIMEOUT, "NCCL over %s was still in progress after %lld ms",
                            nccl_set_devices(set, devices), (long long)timeout_ms);
        }
        nanosleep(&(struct timespec){0, POLL_NS}, NULL);
    }
}

/* ---- Making one ---------------------------------------------------------------------------------- */

static ncclResult_t begin_all(const kvs_provider_t *provider, nccl_set_t *set,
                              const kvs_collective_item_t *item, const ncclUniqueId *id)
{
    ncclResult_t result = nccl(ncclGroupStart)(), end;

    for (size_t i = 0; i < set->n && (result == ncclSuccess || result == ncclInProgress); i++) {
        ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
        void *stream;

        config.blocking = 0;
        if (provider->enter(item->queues[i], &stream) != KVS_OK) {
            result = ncclUnhandledCudaError;
            break;
        }
        result = nccl(ncclCommInitRankConfig)(&set->comms[i], set->n_ranks, *id,
                                              set->first + (int)i, &config);
        provider->leave(item->queues[i]);
    }
    end = nccl(ncclGroupEnd)();
    return result == ncclSuccess || result == ncclInProgress ? end : result;
}

static kvs_status_t tell(const nccl_set_t *set, ncclResult_t result)
{
    char devices[256];

    return kvs_fail(KVS_ERR_PLUGIN, "NCCL over %s: %s: %s; NCCL_DEBUG=WARN tells more",
                    nccl_set_devices(set, devices), nccl(ncclGetErrorString)(result),
                    nccl(ncclGetLastError)(NULL));
}

/* The first member of a world makes the id, and gives it to the others. */
static kvs_status_t agree_on_id(const nccl_set_t *set, int64_t timeout_ms, ncclUniqueId *ret_id)
{
    const nccl_peers_t *peers = set->world.peers;
    ncclResult_t result;

    if (peers != NULL && set->world.self > 0) {
        return peers->take_id(peers->arg, set, timeout_ms, ret_id);
    }
    result = nccl(ncclGetUniqueId)(ret_id);
    if (result != ncclSuccess) {
        return tell(set, result);
    }
    return peers != NULL ? peers->give_id(peers->arg, set, ret_id) : KVS_OK;
}

kvs_status_t nccl_set_make(const kvs_provider_t *provider, nccl_set_t *set,
                           const kvs_collective_item_t *item, int64_t timeout_ms)
{
    ncclUniqueId id;
    kvs_status_t status = agree_on_id(set, timeout_ms, &id);

    if (status == KVS_OK) {
        ncclResult_t result = begin_all(provider, set, item, &id);

        status = result == ncclSuccess || result == ncclInProgress ? KVS_OK : tell(set, result);
    }
    if (status == KVS_OK) {
        status = nccl_set_wait(set, timeout_ms);
    }
    return status == KVS_OK ? KVS_OK : kvs_fail_context(status, "making communicators");
}

/* ---- Finding one --------------------------------------------------------------------------------- */

static int is_in_world(const nccl_set_t *set, const nccl_world_t *world)
{
    size_t n = (size_t)world->n_members;

    return set->world.peers == world->peers && set->world.n_members == world->n_members &&
           memcmp(set->world.members, world->members, n * sizeof(*world->members)) == 0 &&
           memcmp(set->world.devices, world->devices, n * sizeof(*world->devices)) == 0;
}

static int has_devices(const nccl_set_t *set, const kvs_collective_item_t *item)
{
    size_t i = 0;

    while (i < item->n_devices && i < set->n && set->ids[i] == item->devices[i].id) {
        i++;
    }
    return set->world.peers == NULL && i == item->n_devices && i == set->n;
}

static uint64_t mix(uint64_t digest, uint64_t value)
{
    return (digest ^ value) * UINT64_C(1099511628211);
}

/* Copy the world; counts ranks of communicators member by member. */
static kvs_status_t enter_world(nccl_set_t *set, const nccl_world_t *world)
{
    size_t n = (size_t)world->n_members;
    int *members = malloc(n * sizeof(*members));
    int64_t *devices = malloc(n * sizeof(*devices));

    set->world = *world;
    set->world.members = members;
    set->world.devices = devices;
    if (members == NULL || devices == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for communicators");
    }
    memcpy(members, world->members, n * sizeof(*members));
    memcpy(devices, world->devices, n * sizeof(*devices));
    set->digest = UINT64_C(14695981039346656037);
    set->n_ranks = 0;
    for (int m = 0; m < world->n_members; m++) {
        set->first = m == world->self ? set->n_ranks : set->first;
        set->n_ranks += __builtin_popcountll((unsigned long long)devices[m]);
        set->digest = mix(mix(set->digest, (uint64_t)members[m]), (uint64_t)devices[m]);
    }
    if (set->n_ranks > NCCL_MAX_WORLD) {
        return kvs_fail(KVS_ERR_NOT_IMPLEMENTED, "nccl sums over at most %d devices, not %d",
                        NCCL_MAX_WORLD, set->n_ranks);
    }
    return KVS_OK;
}

static void free_set(nccl_set_t *set)
{
    free((void *)(uintptr_t)set->world.members);
    free((void *)(uintptr_t)set->world.devices);
    free(set);
}

static kvs_status_t add(const kvs_collective_item_t *item, const nccl_world_t *world,
                        nccl_set_t **ret_set)
{
    nccl_set_t *set;
    kvs_status_t status = KVS_OK;

    if (item->n_devices > NCCL_MAX_DEVICES) {
        return kvs_fail(KVS_ERR_NOT_IMPLEMENTED, "nccl sums over at most %d devices, not %zu",
                        NCCL_MAX_DEVICES, item->n_devices);
    }
    set = calloc(1, sizeof(*set));
    if (set == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for communicators");
    }
    for (size_t i = 0; i < item->n_devices; i++) {
        set->ids[i] = item->devices[i].id;
    }
    set->n = item->n_devices;
    set->n_ranks = (int)set->n;
    if (world != NULL) {
        status = enter_world(set, world);
    }
    if (status != KVS_OK) {
        free_set(set);
        return status;
    }
    set->next = sets;
    sets = set;
    *ret_set = set;
    return KVS_OK;
}

kvs_status_t nccl_set_find(const kvs_collective_item_t *item, const nccl_world_t *world,
                           nccl_set_t **ret_set)
{
    nccl_set_t *set = sets;

    while (set != NULL && !(world != NULL ? is_in_world(set, world) : has_devices(set, item))) {
        set = set->next;
    }
    if (set == NULL) {
        return add(item, world, ret_set);
    }
    *ret_set = set;
    return KVS_OK;
}

/* ---- The end ------------------------------------------------------------------------------------- */

static void close_set(nccl_set_t *set, int64_t timeout_ms)
{
    kvs_status_t status = KVS_OK;

    for (size_t i = 0; i < set->n; i++) {
        (void)nccl(ncclCommFinalize)(set->comms[i]); /* its outcome is asked for below */
    }
    status = nccl_set_wait(set, timeout_ms);
    for (size_t i = 0; i < set->n; i++) {
        if (status == KVS_OK) {
            (void)nccl(ncclCommDestroy)(set->comms[i]); /* frees in any case */
        } else {
            (void)nccl(ncclCommAbort)(set->comms[i]); /* nothing more can be done about it */
        }
        set->comms[i] = NULL;
    }
    set->is_made = 0;
}

nccl_set_t *nccl_sets_first(void)
{
    return sets;
}

void nccl_sets_close(const nccl_peers_t *peers, int64_t timeout_ms)
{
    for (nccl_set_t *set = sets; set != NULL; set = set->next) {
        if (set->is_made && set->world.peers == peers) {
            close_set(set, timeout_ms);
        }
    }
}
