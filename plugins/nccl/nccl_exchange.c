/* SPDX-License-Identifier: Apache-2.0 */
/* nccl_exchange.c - all keys of an exchange go in one group of NCCL. Groups are issued under one lock,
 * whole and one after the other, so that all communicators see the same order. A thread watches what
 * is under way: by the time-out, or when NCCL reports an error, it aborts the communicators and
 * keeps the text for whoever asks. */
#include "nccl_exchange.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define WATCH_MS   10
#define MAX_FAILED 64 /* failures that are remembered */

/* What is under way on one set. */
typedef struct flight {
    struct flight *next;
    uint64_t ticket;
    nccl_set_t *set;
    int64_t deadline_ms; /* INT64_MAX: none */
    int64_t timeout_ms;
    const kvs_provider_t *provider;
    kvs_mark_t marks[NCCL_MAX_DEVICES];
    char keys[128];
} flight_t;

typedef struct failure {
    uint64_t ticket; /* 0: none */
    nccl_set_t *set;
    kvs_status_t status;
    char text[512];
} failure_t;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static flight_t *flights;
static failure_t failures[MAX_FAILED];
static size_t n_failures;
static uint64_t last_ticket;
static int n_stores, is_watching;

static int64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

/* ---- Failures ------------------------------------------------------------------------------------ */

static int has_landed(const flight_t *flight)
{
    for (size_t i = 0; i < flight->set->n; i++) {
        if (flight->provider->host_wait(&flight->marks[i], 0) != KVS_OK) {
            return 0;
        }
    }
    return 1;
}

static void remember_locked(const flight_t *flight, kvs_status_t status, const char *why)
{
    failure_t *failure = &failures[n_failures++ % MAX_FAILED];
    char devices[256];

    failure->ticket = flight->ticket;
    failure->set = flight->set;
    failure->status = status;
    snprintf(failure->text, sizeof(failure->text),
             "NCCL over %s: the exchange of %s failed: %s; its values are not to be used, the "
             "communicators are made anew",
             nccl_set_devices(flight->set, devices), flight->keys, why);
    flight->set->owes = flight->ticket;
    memcpy(flight->set->text, failure->text, sizeof(flight->set->text));
}

/* Abort a set: all that is still under way on it has failed. The exchange `told` has been told already. */
static void fail_set_locked(nccl_set_t *set, kvs_status_t status, const char *why, uint64_t told)
{
    for (flight_t **at = &flights; *at != NULL;) {
        flight_t *flight = *at;

        if (flight->set != set) {
            at = &flight->next;
            continue;
        }
        if (flight->ticket != told && !has_landed(flight)) {
            remember_locked(flight, status, why);
        }
        *at = flight->next;
        free(flight);
    }
    nccl_set_abort(set);
}

kvs_status_t nccl_settle(kvs_devstore_t *store, uint64_t ticket)
{
    kvs_status_t status = KVS_OK;

    (void)store;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < MAX_FAILED && ticket != 0; i++) {
        if (failures[i].ticket == ticket) {
            status = kvs_fail(failures[i].status, "%s", failures[i].text);
            failures[i].ticket = 0;
            if (failures[i].set->owes == ticket) {
                failures[i].set->owes = 0;
            }
        }
    }
    pthread_mutex_unlock(&lock);
    return status;
}

/* ---- Watching ------------------------------------------------------------------------------------ */

static void look_locked(flight_t **at, flight_t **ret_next)
{
    flight_t *flight = *at;
    const char *text = "";
    ncclResult_t state = nccl_set_state(flight->set, &text);
    char why[300];

    *ret_next = NULL;
    if (state != ncclSuccess && state != ncclInProgress) {
        snprintf(why, sizeof(why), "%s: %s", nccl(ncclGetErrorString)(state), text);
        fail_set_locked(flight->set, KVS_ERR_PLUGIN, why, 0);
    } else if (has_landed(flight)) {
        *at = flight->next;
        free(flight);
    } else if (now_ms() >= flight->deadline_ms) {
        snprintf(why, sizeof(why), "it was not done after %lld ms", (long long)flight->timeout_ms);
        fail_set_locked(flight->set, KVS_ERR_TIMEOUT, why, 0);
    } else {
        *ret_next = flight;
    }
}

/* Look at every flight; those that end take themselves off the list. */
static void look_at_all_locked(void)
{
    flight_t **at = &flights, *stays;

    while (*at != NULL) {
        look_locked(at, &stays);
        if (stays != NULL) {
            at = &stays->next;
        } else if (flights == NULL) {
            return;
        } else {
            at = &flights; /* a failure takes others off too */
        }
    }
}

static void *watch(void *arg)
{
    (void)arg;
    pthread_mutex_lock(&lock);
    for (;;) {
        if (flights == NULL) {
            pthread_cond_wait(&changed, &lock);
            continue;
        }
        look_at_all_locked();
        pthread_mutex_unlock(&lock);
        nanosleep(&(struct timespec){0, WATCH_MS * 1000000L}, NULL);
        pthread_mutex_lock(&lock);
    }
    return NULL;
}

static kvs_status_t begin_watching_locked(void)
{
    pthread_attr_t attributes;
    pthread_t thread;
    int error;

    if (is_watching) {
        return KVS_OK;
    }
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    error = pthread_create(&thread, &attributes, watch, NULL);
    pthread_attr_destroy(&attributes);
    if (error != 0) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no thread to watch over NCCL: %s", strerror(error));
    }
    is_watching = 1;
    return KVS_OK;
}

/* ---- One exchange -------------------------------------------------------------------------------- */

typedef struct exchange {
    const kvs_provider_t *provider;
    const kvs_collective_item_t *items;
    size_t n_items;
    int64_t timeout_ms; /* 0: for ever */
    uint64_t ticket;
} exchange_t;

static ncclDataType_t nccl_dtype(kvs_dtype_t dtype)
{
    static const ncclDataType_t types[] = {
        [KVS_DTYPE_float32] = ncclFloat32, [KVS_DTYPE_float64] = ncclFloat64,
        [KVS_DTYPE_float16] = ncclFloat16, [KVS_DTYPE_bfloat16] = ncclBfloat16,
        [KVS_DTYPE_int8] = ncclInt8,       [KVS_DTYPE_uint8] = ncclUint8,
        [KVS_DTYPE_int32] = ncclInt32,     [KVS_DTYPE_int64] = ncclInt64};

    return types[kvs_dtype_index(dtype)];
}

static ncclResult_t call_one(const kvs_collective_item_t *item, size_t i, ncclComm_t comm,
                             cudaStream_t stream)
{
    ncclDataType_t dtype = nccl_dtype(item->key->dtype);
    size_t n = (size_t)item->n;

    if (item->is_broadcast) {
        return nccl(ncclBroadcast)(item->src[i], item->dst[i], n, dtype, item->root, comm, stream);
    }
    if (item->root >= 0) {
        return nccl(ncclReduce)(item->src[i], item->dst[i], n, dtype, ncclSum, item->root, comm,
                                stream);
    }
    return nccl(ncclAllReduce)(item->src[i], item->dst[i], n, dtype, ncclSum, comm, stream);
}

static ncclResult_t call_all(const kvs_provider_t *provider, const kvs_collective_item_t *items,
                             size_t n_items, nccl_set_t **used)
{
    ncclResult_t result = nccl(ncclGroupStart)(), end;

    for (size_t k = 0; k < n_items; k++) {
        for (size_t i = 0; i < items[k].n_devices; i++) {
            void *stream;

            if (result != ncclSuccess && result != ncclInProgress) {
                break;
            }
            if (provider->enter(items[k].queues[i], &stream) != KVS_OK) {
                result = ncclUnhandledCudaError;
                break;
            }
            result = call_one(&items[k], i, used[k]->comms[i], stream);
            provider->leave(items[k].queues[i]);
        }
    }
    end = nccl(ncclGroupEnd)();
    return result == ncclSuccess || result == ncclInProgress ? end : result;
}

static const char *name_of(const kvs_key_entry_t *key, char text[96])
{
    if (key->name != NULL) {
        snprintf(text, 96, "key '%.80s'", key->name);
    } else {
        snprintf(text, 96, "key %lld", (long long)key->number);
    }
    return text;
}

/* Note that the items of `set` are under way. */
static kvs_status_t take_off_locked(const exchange_t *args, nccl_set_t *set, nccl_set_t **used)
{
    flight_t *flight = calloc(1, sizeof(*flight));
    const kvs_collective_item_t *first = NULL;
    size_t n_keys = 0;
    char key[96];
    kvs_status_t status = KVS_OK;

    if (flight == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory to watch over an exchange");
    }
    for (size_t k = 0; k < args->n_items; k++) {
        if (used[k] == set) {
            first = first == NULL ? &args->items[k] : first;
            n_keys++;
        }
    }
    name_of(first->key, key);
    if (n_keys == 1) {
        snprintf(flight->keys, sizeof(flight->keys), "%s", key);
    } else {
        snprintf(flight->keys, sizeof(flight->keys), "%s and %zu others", key, n_keys - 1);
    }
    for (size_t i = 0; i < set->n && status == KVS_OK; i++) {
        status = args->provider->mark(first->queues[i], &flight->marks[i]);
    }
    if (status != KVS_OK) {
        free(flight);
        return status;
    }
    flight->ticket = args->ticket;
    flight->set = set;
    flight->provider = args->provider;
    flight->timeout_ms = args->timeout_ms;
    flight->deadline_ms = args->timeout_ms > 0 ? now_ms() + args->timeout_ms : INT64_MAX;
    flight->next = flights;
    flights = flight;
    return KVS_OK;
}

static int is_first_use(nccl_set_t *const *used, size_t k)
{
    size_t j = 0;

    while (used[j] != used[k]) {
        j++;
    }
    return j == k;
}

/* After the call: wait until NCCL has taken it, and watch it; what fails is aborted. */
static kvs_status_t follow_locked(const exchange_t *args, ncclResult_t result, nccl_set_t **used)
{
    kvs_status_t status = KVS_OK;
    char devices[256];

    if (result != ncclSuccess && result != ncclInProgress) {
        status = kvs_fail(KVS_ERR_PLUGIN, "NCCL over %s: %s: %s; NCCL_DEBUG=WARN tells more",
                          nccl_set_devices(used[0], devices), nccl(ncclGetErrorString)(result),
                          nccl(ncclGetLastError)(NULL));
    }
    for (size_t k = 0; k < args->n_items && status == KVS_OK; k++) {
        if (is_first_use(used, k)) {
            status = nccl_set_wait(used[k], args->timeout_ms);
            if (status == KVS_OK) {
                status = take_off_locked(args, used[k], used);
            }
        }
    }
    for (size_t k = 0; k < args->n_items && status != KVS_OK; k++) {
        if (is_first_use(used, k)) {
            fail_set_locked(used[k], status, "an exchange that was issued with it failed",
                            args->ticket);
        }
    }
    return status;
}

static kvs_status_t exchange_locked(exchange_t *args, nccl_set_t **used)
{
    kvs_status_t status = begin_watching_locked();

    for (size_t k = 0; k < args->n_items && status == KVS_OK; k++) {
        status = nccl_set_get(args->provider, &args->items[k], args->timeout_ms, &used[k]);
    }
    if (status != KVS_OK) {
        return status;
    }
    args->ticket = ++last_ticket;
    status = follow_locked(args, call_all(args->provider, args->items, args->n_items, used), used);
    pthread_cond_signal(&changed);
    return status;
}

kvs_status_t nccl_exchange(kvs_devstore_t *store, const kvs_collective_item_t *items,
                           size_t n_items, uint64_t *ret_ticket)
{
    exchange_t args = {.items = items, .n_items = n_items, .timeout_ms = nccl_timeout_ms(store)};
    nccl_set_t **used = calloc(n_items, sizeof(*used));
    kvs_status_t status = kvs_provider_find(KVS_DEVICE_CUDA, &args.provider);
    char key[96];

    if (used == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for an exchange of %zu keys", n_items);
    }
    if (status == KVS_OK) {
        pthread_mutex_lock(&lock);
        status = exchange_locked(&args, used);
        pthread_mutex_unlock(&lock);
    }
    free(used);
    if (status != KVS_OK) {
        return n_items == 1 ? kvs_fail_context(status, "%s", name_of(items[0].key, key))
                            : kvs_fail_context(status, "%s and %zu others",
                                               name_of(items[0].key, key), n_items - 1);
    }
    *ret_ticket = args.ticket;
    return KVS_OK;
}

void nccl_exchange_open(void)
{
    pthread_mutex_lock(&lock);
    n_stores++;
    pthread_mutex_unlock(&lock);
}

void nccl_exchange_close(int64_t timeout_ms)
{
    pthread_mutex_lock(&lock);
    if (--n_stores == 0) {
        nccl_sets_close(timeout_ms);
    }
    pthread_mutex_unlock(&lock);
}
