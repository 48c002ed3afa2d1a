/* SPDX-License-Identifier: Apache-2.0 */
/* nccl_exchange.c - all keys of an exchange go in one group of NCCL. Groups are issued under one lock,
 * whole and one after the other, so that all communicators see the same order. A thread watches what
 * is under way: by the time-out, when NCCL reports an error, or when a job is over, it has the communicators
 * aborted and keeps the text for whoever asks. An abort may take its time: it has a thread of its own.
 *
 * Lock order: issue_lock (calls of NCCL with a set, and the list of sets), then lock (what is under way). */
#include "nccl_exchange.h"

#include "deadline.h"

#include <kvstore/allreduce.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define WATCH_MS       10
#define MAX_FAILED     64   /* failures that are remembered */
#define ABORT_SHOWN_MS 2000 /* so long who is told of a failure waits for the abort */

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
    char keys[128];
    char text[768];
} failure_t;

/* Communicators that are to be aborted, and who is to be told. */
typedef struct doom {
    nccl_set_t *set;
    size_t n;
    ncclComm_t comms[NCCL_MAX_DEVICES];
    const nccl_peers_t *peers;
    kvs_status_t status;
    char text[768];
} doom_t;

static pthread_mutex_t issue_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static pthread_cond_t aborted = PTHREAD_COND_INITIALIZER;
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

static int start_thread(void *(*main)(void *), void *arg)
{
    pthread_attr_t attributes;
    pthread_t thread;
    int error;

    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    error = pthread_create(&thread, &attributes, main, arg);
    pthread_attr_destroy(&attributes);
    return error;
}

/* ---- Aborts -------------------------------------------------------------------------------------- */

static void *carry_out(void *arg)
{
    doom_t *doom = arg;

    if (doom->peers != NULL && doom->status != KVS_OK) {
        doom->peers->fail(doom->peers->arg, doom->status, doom->text);
    }
    for (size_t i = 0; i < doom->n; i++) {
        (void)nccl(ncclCommAbort)(doom->comms[i]); /* nothing more can be done about it */
    }
    pthread_mutex_lock(&lock);
    doom->set->n_aborting--;
    pthread_cond_broadcast(&aborted);
    pthread_mutex_unlock(&lock);
    free(doom);
    return NULL;
}

/* Take the communicators from the set, which is made anew at its next use, and have them aborted. */
static void doom_locked(nccl_set_t *set, kvs_status_t status, const char *text)
{
    doom_t *doom = calloc(1, sizeof(*doom));

    set->is_made = 0;
    if (doom == NULL) {
        kvs_log(KVS_LOG_ERROR, "nccl",
                "no memory to abort communicators: they are left as they are");
        memset(set->comms, 0, sizeof(set->comms));
        return;
    }
    doom->set = set;
    doom->peers = set->world.peers;
    doom->status = status;
    snprintf(doom->text, sizeof(doom->text), "%s", text);
    for (size_t i = 0; i < set->n; i++) {
        if (set->comms[i] != NULL) {
            doom->comms[doom->n++] = set->comms[i];
            set->comms[i] = NULL;
        }
    }
    set->n_aborting++;
    if (start_thread(carry_out, doom) != 0) {
        pthread_mutex_unlock(&lock);
        (void)carry_out(doom);
        pthread_mutex_lock(&lock);
    }
}

/* Wait, for some time, until nothing of the set is being aborted. */
static int await_aborts_locked(const nccl_set_t *set, int64_t timeout_ms)
{
    struct timespec until = kvs_time_after(timeout_ms);

    while (set->n_aborting > 0 &&
           (timeout_ms == 0
                ? pthread_cond_wait(&aborted, &lock)
                : pthread_cond_clockwait(&aborted, &lock, CLOCK_MONOTONIC, &until)) == 0) {
    }
    return set->n_aborting == 0;
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

static const char *remember_locked(const flight_t *flight, kvs_status_t status, const char *why)
{
    failure_t *failure = &failures[n_failures++ % MAX_FAILED];
    char devices[256];

    if (failure->ticket != 0) {
        failure->set->n_forgotten++;
    }
    failure->ticket = flight->ticket;
    failure->set = flight->set;
    failure->status = status;
    memcpy(failure->keys, flight->keys, sizeof(failure->keys));
    snprintf(failure->text, sizeof(failure->text),
             "NCCL over %s: the exchange of %s failed: %s; its values are not to be used%s",
             nccl_set_devices(flight->set, devices), flight->keys, why,
             flight->set->world.peers != NULL ? "" : ", the communicators are made anew");
    return failure->text;
}

/* Abort a set: all that is still under way on it has failed. */
static void fail_set_locked(nccl_set_t *set, kvs_status_t status, const char *why)
{
    char text[768];

    snprintf(text, sizeof(text), "%s", why);
    for (flight_t **at = &flights, *flight; (flight = *at) != NULL;) {
        if (flight->set != set) {
            at = &flight->next;
            continue;
        }
        if (!has_landed(flight)) {
            snprintf(text, sizeof(text), "%s", remember_locked(flight, status, why));
        }
        *at = flight->next;
        free(flight);
    }
    doom_locked(set, status, text);
}

kvs_status_t nccl_settle(uint64_t ticket)
{
    kvs_status_t status = KVS_OK;

    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < MAX_FAILED && ticket != 0; i++) {
        if (failures[i].ticket == ticket) {
            if (failures[i].set->world.peers == NULL) { /* else several operations may ask */
                failures[i].ticket = 0;
            }
            status = kvs_fail(failures[i].status, "%s", failures[i].text);
            (void)await_aborts_locked(failures[i].set, ABORT_SHOWN_MS);
            break;
        }
    }
    pthread_mutex_unlock(&lock);
    return status;
}

/* What failed on a set and nobody has been told of is told now, all of it: the oldest with its text, the
 * others by their keys. */
static kvs_status_t tell_debt_locked(nccl_set_t *set)
{
    failure_t *oldest = NULL;
    char others[512] = "";
    size_t n = set->n_forgotten, at = 0;

    for (size_t i = 0; i < MAX_FAILED; i++) {
        failure_t *failure = &failures[(n_failures + i) % MAX_FAILED];

        if (failure->ticket == 0 || failure->set != set) {
            continue;
        }
        failure->ticket = 0;
        if (oldest == NULL) {
            oldest = failure;
        } else if (at < sizeof(others) - 160) {
            at += (size_t)snprintf(others + at, sizeof(others) - at, "%s%s",
                                   at == 0 ? "; so did those of " : ", ", failure->keys);
        } else {
            n++;
        }
    }
    set->n_forgotten = 0;
    if (n > 0 && at < sizeof(others)) {
        snprintf(others + at, sizeof(others) - at, "; and %zu more", n);
    }
    return oldest == NULL ? KVS_OK : kvs_fail(KVS_ERR_PLUGIN, "%s%s", oldest->text, others);
}

/* ---- Watching ------------------------------------------------------------------------------------ */

/* Whether it stays under way. */
static int look_locked(flight_t **at)
{
    flight_t *flight = *at;
    const nccl_peers_t *peers = flight->set->world.peers;
    const char *text = "";
    ncclResult_t state = nccl_set_state(flight->set, &text);
    char why[600];

    if (flight->set->is_issuing) { /* who issues waits for it, and finds out */
        return 1;
    }
    if (state != ncclSuccess && state != ncclInProgress) {
        snprintf(why, sizeof(why), "%s: %s", nccl(ncclGetErrorString)(state), text);
        fail_set_locked(flight->set, KVS_ERR_PLUGIN, why);
        return 0;
    }
    if (has_landed(flight)) {
        *at = flight->next;
        free(flight);
        return 0;
    }
    if (now_ms() >= flight->deadline_ms) {
        snprintf(why, sizeof(why), "it was not done after %lld ms", (long long)flight->timeout_ms);
        fail_set_locked(flight->set, KVS_ERR_TIMEOUT, why);
        return 0;
    }
    if (peers != NULL && peers->check(peers->arg) != KVS_OK) {
        snprintf(why, sizeof(why), "%s", kvs_plugin_host->last_error());
        fail_set_locked(flight->set, KVS_ERR_PEER, why);
        return 0;
    }
    return 1;
}

/* Look at every flight; those that end take themselves, and a failure others, off the list. */
static void look_at_all_locked(void)
{
    for (flight_t **at = &flights; *at != NULL;) {
        if (look_locked(at)) {
            at = &(*at)->next;
        } else {
            at = &flights;
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
    int error = is_watching ? 0 : start_thread(watch, NULL);

    is_watching = is_watching || error == 0;
    return error == 0
               ? KVS_OK
               : kvs_fail(KVS_ERR_NO_MEMORY, "no thread to watch over NCCL: %s", strerror(error));
}

/* ---- One exchange -------------------------------------------------------------------------------- */

typedef struct exchange {
    const kvs_provider_t *provider;
    const nccl_item_t *items;
    size_t n_items;
    nccl_set_t **used;  /* of each item */
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

static ncclRedOp_t nccl_op(int reduce)
{
    return reduce == KVS_REDUCE_MIN ? ncclMin : reduce == KVS_REDUCE_MAX ? ncclMax : ncclSum;
}

static ncclResult_t call_one(const nccl_item_t *item, size_t i, ncclComm_t comm,
                             cudaStream_t stream)
{
    const kvs_collective_item_t *at = &item->at;
    ncclDataType_t dtype = nccl_dtype(at->key->dtype);
    ncclRedOp_t op = nccl_op(item->reduce);
    size_t n = (size_t)at->n;

    if (at->is_broadcast) {
        return nccl(ncclBroadcast)(at->src[i], at->dst[i], n, dtype, at->root, comm, stream);
    }
    if (at->root >= 0) {
        return nccl(ncclReduce)(at->src[i], at->dst[i], n, dtype, op, at->root, comm, stream);
    }
    return nccl(ncclAllReduce)(at->src[i], at->dst[i], n, dtype, op, comm, stream);
}

static ncclResult_t call_all(const exchange_t *args)
{
    ncclResult_t result = nccl(ncclGroupStart)(), end;

    for (size_t k = 0; k < args->n_items; k++) {
        const nccl_item_t *item = &args->items[k];

        for (size_t i = 0; i < item->at.n_devices; i++) {
            void *stream;

            if (result != ncclSuccess && result != ncclInProgress) {
                break;
            }
            if (args->provider->enter(item->at.queues[i], &stream) != KVS_OK) {
                result = ncclUnhandledCudaError;
                break;
            }
            result = call_one(item, i, args->used[k]->comms[i], stream);
            args->provider->leave(item->at.queues[i]);
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

static int is_first_use(const exchange_t *args, size_t k)
{
    size_t j = 0;

    while (args->used[j] != args->used[k]) {
        j++;
    }
    return j == k;
}

/* Note that the items of `set` are under way. */
static kvs_status_t take_off_locked(const exchange_t *args, nccl_set_t *set)
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
        if (args->used[k] == set) {
            first = first == NULL ? &args->items[k].at : first;
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

/* The sets, told of what they owe; nobody else aborts them from here on. Gives one of whose old communicators
 * some are still being aborted: then nothing has happened. */
static kvs_status_t take_sets(const exchange_t *args, nccl_set_t **ret_busy)
{
    kvs_status_t status = KVS_OK;

    *ret_busy = NULL;
    for (size_t k = 0; k < args->n_items && status == KVS_OK; k++) {
        status = nccl_set_find(&args->items[k].at, args->items[k].world, &args->used[k]);
    }
    pthread_mutex_lock(&lock);
    status = status == KVS_OK ? begin_watching_locked() : status;
    for (size_t k = 0; k < args->n_items && status == KVS_OK; k++) {
        status = tell_debt_locked(args->used[k]);
        *ret_busy = args->used[k]->n_aborting > 0 ? args->used[k] : *ret_busy;
    }
    for (size_t k = 0; k < args->n_items && status == KVS_OK && *ret_busy == NULL; k++) {
        args->used[k]->is_issuing = 1;
    }
    pthread_mutex_unlock(&lock);
    return status;
}

/* Not under issue_lock: exchanges on other sets go on meanwhile. */
static kvs_status_t await_aborts(const nccl_set_t *set, int64_t timeout_ms)
{
    char devices[256];
    int is_done;

    pthread_mutex_lock(&lock);
    is_done = await_aborts_locked(set, timeout_ms);
    pthread_mutex_unlock(&lock);
    return is_done ? KVS_OK
                   : kvs_fail(KVS_ERR_TIMEOUT,
                              "NCCL over %s: earlier communicators are still being aborted",
                              nccl_set_devices(set, devices));
}

static kvs_status_t make_sets(const exchange_t *args)
{
    kvs_status_t status = KVS_OK;

    for (size_t k = 0; k < args->n_items && status == KVS_OK; k++) {
        nccl_set_t *set = args->used[k];

        if (!set->is_made) {
            status = nccl_set_make(args->provider, set, &args->items[k].at, args->timeout_ms);
            pthread_mutex_lock(&lock);
            set->is_made = status == KVS_OK;
            pthread_mutex_unlock(&lock);
        }
    }
    return status;
}

/* Call NCCL, and wait until it has taken the call. */
static kvs_status_t call_and_wait(const exchange_t *args)
{
    ncclResult_t result = call_all(args);
    kvs_status_t status = KVS_OK;
    char devices[256];

    if (result != ncclSuccess && result != ncclInProgress) {
        return kvs_fail(KVS_ERR_PLUGIN, "NCCL over %s: %s: %s; NCCL_DEBUG=WARN tells more",
                        nccl_set_devices(args->used[0], devices), nccl(ncclGetErrorString)(result),
                        nccl(ncclGetLastError)(NULL));
    }
    for (size_t k = 0; k < args->n_items && status == KVS_OK; k++) {
        status = is_first_use(args, k) ? nccl_set_wait(args->used[k], args->timeout_ms) : KVS_OK;
    }
    return status;
}

/* Watch what was issued; what failed is aborted, with all that was issued before on the same sets. */
static kvs_status_t leave_sets(exchange_t *args, kvs_status_t status)
{
    char text[768];

    pthread_mutex_lock(&lock);
    args->ticket = ++last_ticket;
    for (size_t k = 0; k < args->n_items && status == KVS_OK; k++) {
        status = is_first_use(args, k) ? take_off_locked(args, args->used[k]) : KVS_OK;
    }
    snprintf(text, sizeof(text), "%s", status == KVS_OK ? "" : kvs_plugin_host->last_error());
    for (size_t k = 0; k < args->n_items; k++) {
        nccl_set_t *set = args->used[k];

        set->is_issuing = 0;
        if (status != KVS_OK && is_first_use(args, k)) {
            fail_set_locked(
                set, status,
                set->world.peers != NULL ? text : "an exchange that was issued with it failed");
        }
    }
    for (size_t i = 0; i < MAX_FAILED && status != KVS_OK; i++) {
        failures[i].ticket = failures[i].ticket == args->ticket ? 0 : failures[i].ticket;
    }
    pthread_cond_signal(&changed);
    pthread_mutex_unlock(&lock);
    return status == KVS_OK ? KVS_OK : kvs_fail(status, "%s", text);
}

static kvs_status_t issue(exchange_t *args, nccl_set_t **ret_busy)
{
    kvs_status_t status;

    pthread_mutex_lock(&issue_lock);
    status = take_sets(args, ret_busy);
    if (status == KVS_OK && *ret_busy == NULL) {
        status = make_sets(args);
        status = leave_sets(args, status == KVS_OK ? call_and_wait(args) : status);
    }
    pthread_mutex_unlock(&issue_lock);
    return status;
}

/* Who is told of a failure finds its communicators aborted, unless that takes long. */
static void show_aborts(const exchange_t *args)
{
    pthread_mutex_lock(&lock);
    for (size_t k = 0; k < args->n_items && args->used[k] != NULL; k++) {
        (void)await_aborts_locked(args->used[k], ABORT_SHOWN_MS);
    }
    pthread_mutex_unlock(&lock);
}

static kvs_status_t run(exchange_t *args)
{
    nccl_set_t *busy = NULL;
    kvs_status_t status;

    do {
        status = busy == NULL ? KVS_OK : await_aborts(busy, args->timeout_ms);
        if (status == KVS_OK) {
            status = issue(args, &busy);
            if (status != KVS_OK) {
                show_aborts(args);
            }
        }
    } while (status == KVS_OK && busy != NULL);
    return status;
}

kvs_status_t nccl_exchange(const nccl_item_t *items, size_t n_items, int64_t timeout_ms,
                           uint64_t *ret_ticket)
{
    exchange_t args = {.items = items, .n_items = n_items, .timeout_ms = timeout_ms};
    kvs_status_t status = kvs_provider_find(KVS_DEVICE_CUDA, &args.provider);
    char key[96];

    args.used = calloc(n_items, sizeof(*args.used));
    if (args.used == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for an exchange of %zu keys", n_items);
    }
    status = status == KVS_OK ? run(&args) : status;
    free(args.used);
    if (status != KVS_OK) {
        name_of(items[0].at.key, key);
        return n_items == 1 ? kvs_fail_context(status, "%s", key)
                            : kvs_fail_context(status, "%s and %zu others", key, n_items - 1);
    }
    *ret_ticket = args.ticket;
    return KVS_OK;
}

/* ---- Life ---------------------------------------------------------------------------------------- */

void nccl_exchange_open(void)
{
    pthread_mutex_lock(&lock);
    n_stores++;
    pthread_mutex_unlock(&lock);
}

/* Nothing is under way any more that anybody waits for. */
static void drop_flights(const nccl_peers_t *peers)
{
    pthread_mutex_lock(&lock);
    for (flight_t **at = &flights, *flight; (flight = *at) != NULL;) {
        if (flight->set->world.peers == peers) {
            *at = flight->next;
            free(flight);
        } else {
            at = &flight->next;
        }
    }
    pthread_mutex_unlock(&lock);
}

void nccl_exchange_close(int64_t timeout_ms)
{
    int is_last;

    pthread_mutex_lock(&lock);
    is_last = --n_stores == 0;
    pthread_mutex_unlock(&lock);
    if (is_last) {
        pthread_mutex_lock(&issue_lock);
        drop_flights(NULL);
        nccl_sets_close(NULL, timeout_ms);
        pthread_mutex_unlock(&issue_lock);
    }
}

int nccl_exchange_close_world(const nccl_peers_t *peers, int is_over, int64_t timeout_ms)
{
    int is_done = 1;

    pthread_mutex_lock(&issue_lock);
    drop_flights(peers);
    pthread_mutex_lock(&lock);
    for (nccl_set_t *set = nccl_sets_first(); set != NULL && is_over; set = set->next) {
        if (set->is_made && set->world.peers == peers) {
            doom_locked(set, KVS_OK, "");
        }
    }
    for (nccl_set_t *set = nccl_sets_first(); set != NULL; set = set->next) {
        if (set->world.peers == peers) {
            is_done &= await_aborts_locked(set, ABORT_SHOWN_MS);
        }
    }
    pthread_mutex_unlock(&lock);
    nccl_sets_close(peers, timeout_ms);
    pthread_mutex_unlock(&issue_lock);
    return is_done;
}
