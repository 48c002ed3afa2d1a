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

const char *nccl_set_devices(const nccl_set_t *set, char text[256])
{
    size_t at = 0;

    text[0] = '\0';
    for (size_t i = 0; i < set->n && at < 240; i++) {
        at += (size_t)snprintf(text + at, 256 - at, "%scuda(%d)", i == 0 ? "" : ", ", set->ids[i]);
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

void nccl_set_abort(nccl_set_t *set)
{
    for (size_t i = 0; i < set->n; i++) {
        if (set->comms[i] != NULL) {
            (void)nccl(ncclCommAbort)(set->comms[i]); /* nothing more can be done about it */
            set->comms[i] = NULL;
        }
    }
    set->is_made = 0;
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
        result = nccl(ncclCommInitRankConfig)(&set->comms[i], (int)set->n, *id, (int)i, &config);
        provider->leave(item->queues[i]);
    }
    end = nccl(ncclGroupEnd)();
    return result == ncclSuccess || result == ncclInProgress ? end : result;
}

static kvs_status_t make(const kvs_provider_t *provider, nccl_set_t *set,
                         const kvs_collective_item_t *item, int64_t timeout_ms)
{
    ncclUniqueId id;
    ncclResult_t result = nccl(ncclGetUniqueId)(&id);
    kvs_status_t status = KVS_OK;
    char devices[256];

    if (result == ncclSuccess) {
        result = begin_all(provider, set, item, &id);
    }
    if (result != ncclSuccess && result != ncclInProgress) {
        status = kvs_fail(KVS_ERR_PLUGIN, "NCCL over %s: %s: %s; NCCL_DEBUG=WARN tells more",
                          nccl_set_devices(set, devices), nccl(ncclGetErrorString)(result),
                          nccl(ncclGetLastError)(NULL));
    }
    if (status == KVS_OK) {
        status = nccl_set_wait(set, timeout_ms);
    }
    if (status != KVS_OK) {
        nccl_set_abort(set);
        return kvs_fail_context(status, "making communicators");
    }
    set->is_made = 1;
    return KVS_OK;
}

static int has_devices(const nccl_set_t *set, const kvs_collective_item_t *item)
{
    size_t i = 0;

    while (i < item->n_devices && i < set->n && set->ids[i] == item->devices[i].id) {
        i++;
    }
    return i == item->n_devices && i == set->n;
}

static kvs_status_t find_or_add(const kvs_collective_item_t *item, nccl_set_t **ret_set)
{
    nccl_set_t *set = sets;

    while (set != NULL && !has_devices(set, item)) {
        set = set->next;
    }
    if (set == NULL) {
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
        set->next = sets;
        sets = set;
    }
    *ret_set = set;
    return KVS_OK;
}

kvs_status_t nccl_set_get(const kvs_provider_t *provider, const kvs_collective_item_t *item,
                          int64_t timeout_ms, nccl_set_t **ret_set)
{
    nccl_set_t *set = NULL;
    kvs_status_t status = find_or_add(item, &set);

    if (status == KVS_OK && set->owes != 0) {
        set->owes = 0;
        return kvs_fail(KVS_ERR_PLUGIN, "%s", set->text);
    }
    if (status == KVS_OK && !set->is_made) {
        status = make(provider, set, item, timeout_ms);
    }
    if (status == KVS_OK) {
        *ret_set = set;
    }
    return status;
}

void nccl_sets_close(int64_t timeout_ms)
{
    for (nccl_set_t *set = sets; set != NULL; set = set->next) {
        if (!set->is_made) {
            continue;
        }
        for (size_t i = 0; i < set->n; i++) {
            (void)nccl(ncclCommFinalize)(set->comms[i]); /* its outcome is asked for below */
        }
        if (nccl_set_wait(set, timeout_ms) != KVS_OK) {
            nccl_set_abort(set);
            continue;
        }
        for (size_t i = 0; i < set->n; i++) {
            (void)nccl(ncclCommDestroy)(set->comms[i]); /* frees in any case */
            set->comms[i] = NULL;
        }
        set->is_made = 0;
    }
}
