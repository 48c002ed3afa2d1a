/* SPDX-License-Identifier: Apache-2.0 */
/* hvd_table.c - entries are found by hash, looked over in order of arrival where time counts, and once
 * complete wait in order of priority for their turn: few exchanges are under way at a time, so that small
 * ones that become complete meanwhile go together. */
#include "hvd_table.h"

#include <kvstore/kit.h>
#include <kvstore/net.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define N_BUCKETS   1024
#define N_LAGS      256
#define MAX_RUNNING 2                   /* exchanges under way in worker 0's process */
#define SMALL_BYTES ((uint64_t)1 << 20) /* arrays up to here go together with others */
#define MAX_FUSED   4096                /* items */
#define MAX_NAMED   8                   /* workers in a text */

typedef struct part {
    bool came;
    bool is_past; /* it had joined when the exchange ended */
    uint64_t ticket;
    int64_t extra;
} part_t;

typedef struct entry {
    struct entry *chain;         /* in its bucket */
    struct entry *older, *newer; /* among those that wait or have failed */
    struct entry *next;          /* among those that are complete */
    uint64_t hash;
    hvd_ask_t first; /* the first worker's; its key is the entry's own */
    int first_rank;
    char *key;
    kvs_status_t status; /* not 0: it has failed, with `text` */
    char *text;
    int64_t came_ms;
    bool has_warned;
    int n_came;
    part_t *parts; /* one a worker */
} entry_t;

/* Of a key: by how many exchanges each worker's own count is behind that of the others, because it had joined
 * when they came about. */
typedef struct lag {
    struct lag *next;
    hvd_ask_t key; /* as far as it says which key; its text is the lag's own */
    char *text;
    uint64_t behind[]; /* by rank */
} lag_t;

typedef struct store {
    struct store *next;
    uint32_t number;
    int n_closed, n_joined, last_joined;
    int64_t moved_ms; /* when something happened last; for who waits in join */
    bool *closed, *joined;
    uint64_t *join_tickets;
    hvd_ask_t join;      /* the first one's, for its times */
    lag_t *lags[N_LAGS]; /* by hash of the key; none once all have joined, as counts begin anew */
    size_t n_lags;
} store_t;

struct hvd_table {
    int n_workers;
    uint64_t fusion_bytes;
    uint32_t (*n_steps)(uint64_t n_bytes);
    hvd_table_sink_t sink;
    entry_t *buckets[N_BUCKETS];
    entry_t *oldest, *newest; /* not complete */
    entry_t *ready;
    entry_t *last_ready; /* the end of that list, or NULL: not known */
    int n_running;
    uint32_t number;
    store_t *stores;
    char **lost; /* by worker: why it is gone, or NULL */
};

/* ---- Life -------------------------------------------------------------------------------------- */

kvs_status_t hvd_table_new(const hvd_table_args_t *args, hvd_table_t **ret_table)
{
    hvd_table_t *table = calloc(1, sizeof(*table));

    if (table != NULL) {
        table->lost = calloc((size_t)args->n_workers, sizeof(*table->lost));
    }
    if (table == NULL || table->lost == NULL) {
        free(table);
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for a table of exchanges");
    }
    table->n_workers = args->n_workers;
    table->fusion_bytes = args->fusion_bytes;
    table->n_steps = args->n_steps;
    table->sink = args->sink;
    *ret_table = table;
    return KVS_OK;
}

static void free_entry(entry_t *entry)
{
    free(entry->key);
    free(entry->text);
    free(entry->parts);
    free(entry);
}

static void forget_lags(store_t *store)
{
    for (int i = 0; i < N_LAGS; i++) {
        while (store->lags[i] != NULL) {
            lag_t *next = store->lags[i]->next;

            free(store->lags[i]->text);
            free(store->lags[i]);
            store->lags[i] = next;
        }
    }
    store->n_lags = 0;
}

static void free_store(store_t *store)
{
    forget_lags(store);
    free(store->closed);
    free(store->joined);
    free(store->join_tickets);
    free(store);
}

void hvd_table_free(hvd_table_t *table)
{
    if (table == NULL) {
        return;
    }
    for (entry_t *entry = table->oldest, *newer; entry != NULL; entry = newer) {
        newer = entry->newer;
        free_entry(entry);
    }
    for (entry_t *entry = table->ready, *next; entry != NULL; entry = next) {
        next = entry->next;
        free_entry(entry);
    }
    for (store_t *store = table->stores, *next; store != NULL; store = next) {
        next = store->next;
        free_store(store);
    }
    for (int rank = 0; rank < table->n_workers; rank++) {
        free(table->lost[rank]);
    }
    free(table->lost);
    free(table);
}

/* ---- Stores ------------------------------------------------------------------------------------ */

static store_t *store_of(hvd_table_t *table, uint32_t number)
{
    store_t *store = table->stores;

    while (store != NULL && store->number != number) {
        store = store->next;
    }
    if (store != NULL) {
        return store;
    }
    store = calloc(1, sizeof(*store));
    if (store == NULL) {
        return NULL;
    }
    store->number = number;
    store->closed = calloc((size_t)table->n_workers, sizeof(*store->closed));
    store->joined = calloc((size_t)table->n_workers, sizeof(*store->joined));
    store->join_tickets = calloc((size_t)table->n_workers, sizeof(*store->join_tickets));
    if (store->closed == NULL || store->joined == NULL || store->join_tickets == NULL) {
        free_store(store);
        return NULL;
    }
    store->next = table->stores;
    table->stores = store;
    return store;
}

/* ---- Finding entries ---------------------------------------------------------------------------- */

static uint64_t mix(uint64_t hash, const void *bytes, size_t n)
{
    const unsigned char *at = bytes;

    for (size_t i = 0; i < n; i++) {
        hash = (hash ^ at[i]) * UINT64_C(1099511628211);
    }
    return hash;
}

static uint64_t hash_of(const hvd_ask_t *ask)
{
    uint64_t hash = UINT64_C(14695981039346656037);

    hash = mix(hash, &ask->store, sizeof(ask->store));
    hash = mix(hash, &ask->count, sizeof(ask->count));
    hash = ask->is_text ? mix(hash, ask->text, ask->n_text)
                        : mix(hash, &ask->number, sizeof(ask->number));
    return hash ^ hash >> 32;
}

static bool is_same_key(const hvd_ask_t *a, const hvd_ask_t *b)
{
    if (a->is_text != b->is_text) {
        return false;
    }
    return a->is_text ? a->n_text == b->n_text && memcmp(a->text, b->text, a->n_text) == 0
                      : a->number == b->number;
}

static bool is_same(const hvd_ask_t *a, const hvd_ask_t *b)
{
    return a->store == b->store && a->count == b->count && is_same_key(a, b);
}

/* Allgathers are counted by themselves: see count_gather in hvd_store.c. */
static lag_t **find_lag(store_t *store, const hvd_ask_t *ask)
{
    hvd_ask_t key = *ask;
    lag_t **link;

    key.count = ask->what == HVD_GATHER;
    link = &store->lags[hash_of(&key) % N_LAGS];
    while (*link != NULL && !((*link)->key.count == key.count && is_same_key(&(*link)->key, ask))) {
        link = &(*link)->next;
    }
    return link;
}

/* An exchange has ended without this worker, which has joined. Without memory it is out of step, should the
 * join fail. */
static void note_lag(const hvd_table_t *table, store_t *store, const hvd_ask_t *ask, int rank)
{
    size_t n = (size_t)table->n_workers;
    lag_t **link = find_lag(store, ask), *lag = *link;

    if (lag == NULL) {
        lag = calloc(1, sizeof(*lag) + n * sizeof(lag->behind[0]));
        if (lag == NULL || (ask->is_text && (lag->text = malloc(ask->n_text + 1)) == NULL)) {
            free(lag);
            return;
        }
        lag->key = (hvd_ask_t){.store = ask->store,
                               .count = ask->what == HVD_GATHER,
                               .is_text = ask->is_text,
                               .number = ask->number,
                               .text = lag->text,
                               .n_text = ask->n_text};
        if (ask->is_text) {
            memcpy(lag->text, ask->text, ask->n_text);
        }
        *link = lag;
        store->n_lags++;
    }
    lag->behind[rank]++;
}

/* The exchange that a worker means, as the others count. */
static uint64_t count_of(store_t *store, const hvd_ask_t *ask, int rank)
{
    const lag_t *lag = store->n_lags == 0 ? NULL : *find_lag(store, ask);

    return ask->count + (lag == NULL ? 0 : lag->behind[rank]);
}

static entry_t *find(hvd_table_t *table, const hvd_ask_t *ask, uint64_t hash)
{
    entry_t *entry = table->buckets[hash % N_BUCKETS];

    while (entry != NULL && !(entry->hash == hash && is_same(&entry->first, ask))) {
        entry = entry->chain;
    }
    return entry;
}

static entry_t *add(hvd_table_t *table, int rank, const hvd_ask_t *ask, uint64_t hash)
{
    entry_t *entry = calloc(1, sizeof(*entry));

    if (entry != NULL) {
        entry->parts = calloc((size_t)table->n_workers, sizeof(*entry->parts));
        entry->key = malloc(ask->n_text + 1);
    }
    if (entry == NULL || entry->parts == NULL || entry->key == NULL) {
        if (entry != NULL) {
            free_entry(entry);
        }
        return NULL;
    }
    if (ask->n_text > 0) {
        memcpy(entry->key, ask->text, ask->n_text);
    }
    entry->key[ask->n_text] = '\0';
    entry->first = *ask;
    entry->first.text = entry->key;
    entry->first_rank = rank;
    entry->hash = hash;
    entry->chain = table->buckets[hash % N_BUCKETS];
    table->buckets[hash % N_BUCKETS] = entry;
    entry->older = table->newest;
    if (entry->older != NULL) {
        entry->older->newer = entry;
    } else {
        table->oldest = entry;
    }
    table->newest = entry;
    return entry;
}

/* It waits for nobody any more. */
static void take_out(hvd_table_t *table, entry_t *entry)
{
    entry_t **link = &table->buckets[entry->hash % N_BUCKETS];

    while (*link != entry) {
        link = &(*link)->chain;
    }
    *link = entry->chain;
    if (entry->older != NULL) {
        entry->older->newer = entry->newer;
    } else {
        table->oldest = entry->newer;
    }
    if (entry->newer != NULL) {
        entry->newer->older = entry->older;
    } else {
        table->newest = entry->older;
    }
}

/* ---- Texts -------------------------------------------------------------------------------------- */

static void add_array(kvs_net_text_t *text, const hvd_ask_t *ask)
{
    kvs_net_text_add(text, "%s (", kvs_dtype_name(kvs_dtype(ask->dtype)));
    for (int32_t i = 0; i < ask->ndim; i++) {
        kvs_net_text_add(text, "%s%" PRId64, i == 0 ? "" : ", ", ask->shape[i]);
    }
    kvs_net_text_add(text, "%s)", ask->ndim == 1 ? "," : "");
}

static const char *label(const hvd_table_t *table, int rank)
{
    return table->sink.label(table->sink.arg, rank);
}

/* Those who have (not) come, by name: "worker 1 (…), worker 2 (…) and 3 more". */
static void add_workers(kvs_net_text_t *text, const hvd_table_t *table, const entry_t *entry,
                        const store_t *store, bool came)
{
    int n = 0;

    for (int rank = 0; rank < table->n_workers; rank++) {
        if (entry->parts[rank].came != came || (!came && store->joined[rank])) {
            continue;
        }
        if (n++ < MAX_NAMED) {
            kvs_net_text_add(text, "%s%s", n == 1 ? "" : ", ", label(table, rank));
        }
    }
    if (n > MAX_NAMED) {
        kvs_net_text_add(text, " and %d more", n - MAX_NAMED);
    }
}

static void add_gone(kvs_net_text_t *text, const hvd_table_t *table, int rank)
{
    if (table->lost[rank] != NULL) {
        kvs_net_text_add(text, "%s", table->lost[rank]);
    } else {
        kvs_net_text_add(text, "%s has closed the store", label(table, rank));
    }
}

/* ---- Failures ----------------------------------------------------------------------------------- */

static void send_no(hvd_table_t *table, int rank, uint64_t ticket, kvs_status_t status,
                    const char *text)
{
    hvd_bytes_t bytes = {0};

    hvd_put_i64(&bytes, (int64_t)ticket);
    hvd_put_u32(&bytes, (uint32_t)status);
    hvd_put_text(&bytes, text);
    table->sink.send(table->sink.arg, rank, HVD_NO, &bytes);
    hvd_bytes_release(&bytes);
}

/* The entry has ended: who has joined will not ask for it. */
static void pass_joined(hvd_table_t *table, entry_t *entry)
{
    store_t *store = store_of(table, entry->first.store);

    for (int rank = 0; store != NULL && rank < table->n_workers; rank++) {
        if (store->joined[rank] && !entry->parts[rank].came && !entry->parts[rank].is_past) {
            entry->parts[rank].is_past = true;
            note_lag(table, store, &entry->first, rank);
        }
    }
}

/* A failed entry that everybody has been told of, or will never ask for, is forgotten. */
static void forget_if_told(hvd_table_t *table, entry_t *entry)
{
    const store_t *store = store_of(table, entry->first.store);

    for (int rank = 0; rank < table->n_workers; rank++) {
        if (!entry->parts[rank].came && !entry->parts[rank].is_past && table->lost[rank] == NULL &&
            (store == NULL || !store->closed[rank])) {
            return;
        }
    }
    take_out(table, entry);
    free_entry(entry);
}

/* Everybody who has come is told; the others will be when they come, but for those who have joined. The
 * entry may be gone then. */
static void fail(hvd_table_t *table, entry_t *entry, kvs_status_t status, const char *text)
{
    entry->status = status;
    entry->text = strdup(text);
    for (int rank = 0; rank < table->n_workers; rank++) {
        if (entry->parts[rank].came) {
            send_no(table, rank, entry->parts[rank].ticket, status, text);
        }
    }
    pass_joined(table, entry);
    forget_if_told(table, entry);
}

/* ---- Do all want the same? ----------------------------------------------------------------------- */

/* Of allgathers the first dimension may differ. */
static bool same_shape(const hvd_ask_t *a, const hvd_ask_t *b)
{
    bool same = a->ndim == b->ndim;

    for (int32_t i = a->what == HVD_GATHER ? 1 : 0; same && i < a->ndim; i++) {
        same = a->shape[i] == b->shape[i];
    }
    return same;
}

static kvs_status_t compare(const hvd_table_t *table, const entry_t *entry, int rank,
                            const hvd_ask_t *ask, kvs_net_text_t *text)
{
    const hvd_ask_t *first = &entry->first;
    const char *one = label(table, entry->first_rank), *other = label(table, rank);

    if (first->what != ask->what) {
        kvs_net_text_add(text, "%s submitted a %s, but %s a %s", one, hvd_what_name(first->what),
                         other, hvd_what_name(ask->what));
        return KVS_ERR_ARGUMENT;
    }
    if (first->dtype != ask->dtype || !same_shape(first, ask)) {
        kvs_net_text_add(text, "%s submitted ", one);
        add_array(text, first);
        kvs_net_text_add(text, ", but %s ", other);
        add_array(text, ask);
        return first->dtype != ask->dtype ? KVS_ERR_DTYPE : KVS_ERR_SHAPE;
    }
    if ((first->what == HVD_REDUCE || first->what == HVD_BROADCAST) &&
        (first->extra == 0) != (ask->extra == 0)) {
        kvs_net_text_add(
            text,
            "the arrays of %s go through NCCL, but those of %s through host memory: have them all "
            "on devices or none, in all workers, and NCCL installed everywhere; or set engine to "
            "shm or mpi",
            first->extra != 0 ? one : other, first->extra != 0 ? other : one);
        return KVS_ERR_ARGUMENT;
    }
    if (first->reduce != ask->reduce) {
        kvs_net_text_add(text, "%s asked for the %s, but %s for the %s", one,
                         hvd_reduce_name(first->reduce), other, hvd_reduce_name(ask->reduce));
        return KVS_ERR_ARGUMENT;
    }
    if (first->root != ask->root && first->what == HVD_REDUCE) {
        kvs_net_text_add(
            text,
            "the updates of %s and of %s are not set up alike: all workers make the same "
            "calls of set_optimizer, set_optimizer_attr, set_updater and load_optimizer_states",
            one, other);
        return KVS_ERR_STATE;
    }
    if (first->root != ask->root) {
        kvs_net_text_add(text, "%s asked for the value of worker %d, but %s for that of worker %d",
                         one, (int)first->root, other, (int)ask->root);
        return KVS_ERR_ARGUMENT;
    }
    return KVS_OK;
}

/* ---- Carrying out ------------------------------------------------------------------------------- */

static uint64_t n_bytes_of(const hvd_ask_t *ask)
{
    uint64_t n = kvs_dtype_bytes(ask->dtype);

    for (int32_t i = 0; i < ask->ndim; i++) {
        n *= (uint64_t)ask->shape[i];
    }
    return n;
}

/* More numbers than the exchange has steps, whatever engine carries it out. */
static uint32_t n_steps(const hvd_table_t *table, const entry_t *entry)
{
    const hvd_ask_t *first = &entry->first;
    uint64_t row = kvs_dtype_bytes(first->dtype);
    uint32_t n = 0;

    if (table->n_steps == NULL) {
        return 1;
    }
    if (first->what == HVD_REDUCE || first->what == HVD_BROADCAST) {
        return 4 * table->n_steps(2 * n_bytes_of(first));
    }
    for (int32_t i = 1; i < first->ndim; i++) {
        row *= (uint64_t)first->shape[i];
    }
    for (int rank = 0; rank < table->n_workers; rank++) {
        n += 2 * (table->n_steps((uint64_t)entry->parts[rank].extra * row) +
                  table->n_steps((uint64_t)entry->parts[rank].extra * sizeof(int64_t)));
    }
    return n;
}

static bool fuse(const hvd_table_t *table, const entry_t *a, const entry_t *b)
{
    if (a->first.what != HVD_REDUCE || b->first.what != HVD_REDUCE ||
        a->first.dtype != b->first.dtype || a->first.reduce != b->first.reduce ||
        (a->first.extra == 0) != (b->first.extra == 0) || n_bytes_of(&a->first) > SMALL_BYTES ||
        n_bytes_of(&b->first) > SMALL_BYTES) {
        return false;
    }
    for (int rank = 0; rank < table->n_workers; rank++) {
        if (a->parts[rank].came != b->parts[rank].came) {
            return false;
        }
    }
    return true;
}

/* Take the first complete entry and those that go with it off the list. */
static size_t pick(hvd_table_t *table, entry_t **ret_entries)
{
    entry_t **link = &table->ready;
    uint64_t n_bytes = 0;
    size_t n = 0;

    table->last_ready = NULL;
    while (*link != NULL && n < MAX_FUSED && n_bytes <= table->fusion_bytes) {
        entry_t *entry = *link;
        uint64_t more = n_bytes_of(&entry->first);

        if (n > 0 &&
            (!fuse(table, ret_entries[0], entry) || n_bytes + more > table->fusion_bytes)) {
            link = &entry->next;
            continue;
        }
        ret_entries[n++] = entry;
        n_bytes += more;
        *link = entry->next;
    }
    return n;
}

static bool has_extra(const hvd_table_t *table, entry_t *const *entries, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        for (int rank = 0; rank < table->n_workers; rank++) {
            if (entries[i]->parts[rank].extra != 0) {
                return true;
            }
        }
    }
    return false;
}

static void send_go(hvd_table_t *table, int rank, entry_t *const *entries, size_t n)
{
    const entry_t *first = entries[0];
    bool has_extras = has_extra(table, entries, n);
    hvd_bytes_t bytes = {0};

    hvd_put_u32(&bytes, table->number);
    hvd_put_u32(&bytes, (uint32_t)first->n_came);
    hvd_put_u32(&bytes, (uint32_t)n);
    hvd_put_u32(&bytes, has_extras);
    for (int m = 0; m < table->n_workers; m++) {
        if (first->parts[m].came) {
            hvd_put_u32(&bytes, (uint32_t)m);
        }
    }
    for (size_t i = 0; i < n; i++) {
        hvd_put_i64(&bytes, (int64_t)entries[i]->parts[rank].ticket);
        for (int m = 0; has_extras && m < table->n_workers; m++) {
            if (first->parts[m].came) {
                hvd_put_i64(&bytes, entries[i]->parts[m].extra);
            }
        }
    }
    table->sink.send(table->sink.arg, rank, HVD_GO, &bytes);
    hvd_bytes_release(&bytes);
}

static void start_next(hvd_table_t *table)
{
    entry_t *entries[MAX_FUSED];

    while (table->ready != NULL && table->n_running < MAX_RUNNING) {
        size_t n = pick(table, entries);
        uint32_t steps = 0;

        for (int rank = 0; rank < table->n_workers; rank++) {
            if (entries[0]->parts[rank].came) {
                table->n_running += rank == 0;
                send_go(table, rank, entries, n);
            }
        }
        for (size_t i = 0; i < n; i++) {
            steps += n_steps(table, entries[i]);
            free_entry(entries[i]);
        }
        table->number += steps;
    }
}

void hvd_table_done(hvd_table_t *table)
{
    table->n_running--;
    start_next(table);
}

/* Whether all have come, or have no part in it. */
static bool is_complete(const hvd_table_t *table, const entry_t *entry, const store_t *store)
{
    for (int rank = 0; rank < table->n_workers; rank++) {
        if (!entry->parts[rank].came && !store->joined[rank]) {
            return false;
        }
    }
    return true;
}

/* Behind those of the same priority. */
static void make_ready(hvd_table_t *table, entry_t *entry)
{
    entry_t **link = &table->ready;

    take_out(table, entry);
    if (table->last_ready != NULL && table->last_ready->first.priority >= entry->first.priority) {
        link = &table->last_ready->next;
    }
    while (*link != NULL && (*link)->first.priority >= entry->first.priority) {
        link = &(*link)->next;
    }
    entry->next = *link;
    *link = entry;
    table->last_ready = entry->next == NULL ? entry : table->last_ready;
}

/* Who has closed the store and waits for the entry no more, being cancelled; n_workers: nobody. */
static int who_gave_up(const hvd_table_t *table, const entry_t *entry, const store_t *store)
{
    int rank = 0;

    while (rank < table->n_workers && !(entry->parts[rank].came && store->closed[rank])) {
        rank++;
    }
    return rank;
}

/* All are there. */
static void complete(hvd_table_t *table, entry_t *entry, const store_t *store)
{
    int gone = who_gave_up(table, entry, store);

    if (gone < table->n_workers) {
        kvs_net_text_t text = {.n = 0};

        kvs_net_text_add(&text, "%s has closed the store", label(table, gone));
        fail(table, entry, KVS_ERR_PEER, text.bytes);
    } else {
        make_ready(table, entry);
        pass_joined(table, entry);
    }
}

/* Somebody has come, joined, closed or left: what becomes of an entry that waits. */
static void settle(hvd_table_t *table, entry_t *entry, const store_t *store)
{
    kvs_net_text_t text = {.n = 0};
    bool may_lack = entry->first.what == HVD_REDUCE || entry->first.what == HVD_ROWS;

    if (entry->status != KVS_OK) {
        return;
    }
    for (int rank = 0; rank < table->n_workers; rank++) {
        if (entry->parts[rank].came) {
            continue;
        }
        if (table->lost[rank] != NULL || store->closed[rank]) {
            add_gone(&text, table, rank);
            fail(table, entry, KVS_ERR_PEER, text.bytes);
            return;
        }
        if (store->joined[rank] && !may_lack) {
            kvs_net_text_add(&text, "%s has joined: only pushpull goes on without it",
                             label(table, rank));
            fail(table, entry, KVS_ERR_STATE, text.bytes);
            return;
        }
    }
    if (is_complete(table, entry, store)) {
        complete(table, entry, store);
    }
}

static void settle_all(hvd_table_t *table, const store_t *store)
{
    for (entry_t *entry = table->oldest, *newer; entry != NULL; entry = newer) {
        newer = entry->newer;
        if (entry->first.store == store->number) {
            settle(table, entry, store);
        }
    }
    start_next(table);
}

/* ---- Joining ------------------------------------------------------------------------------------ */

static void end_join(hvd_table_t *table, store_t *store)
{
    for (int rank = 0; rank < table->n_workers; rank++) {
        hvd_bytes_t bytes = {0};

        hvd_put_i64(&bytes, (int64_t)store->join_tickets[rank]);
        hvd_put_u32(&bytes, (uint32_t)store->last_joined);
        table->sink.send(table->sink.arg, rank, HVD_JOINED, &bytes);
        hvd_bytes_release(&bytes);
        store->joined[rank] = false;
    }
    store->n_joined = 0;
    forget_lags(store);
}

/* Nobody can wait for all any more. */
static void fail_join(hvd_table_t *table, store_t *store, kvs_status_t status, const char *text)
{
    for (int rank = 0; rank < table->n_workers; rank++) {
        if (store->joined[rank]) {
            send_no(table, rank, store->join_tickets[rank], status, text);
            store->joined[rank] = false;
        }
    }
    store->n_joined = 0;
}

static void check_join(hvd_table_t *table, store_t *store)
{
    kvs_net_text_t text = {.n = 0};

    for (int rank = 0; rank < table->n_workers && store->n_joined > 0; rank++) {
        if (table->lost[rank] != NULL || store->closed[rank]) {
            add_gone(&text, table, rank);
            fail_join(table, store, KVS_ERR_PEER, text.bytes);
        }
    }
}

static void join(hvd_table_t *table, store_t *store, int rank, const hvd_ask_t *ask)
{
    if (store->joined[rank]) {
        send_no(table, rank, ask->ticket, KVS_ERR_STATE, "it has been called already");
        return;
    }
    if (store->n_joined == 0) {
        store->join = *ask;
        store->join.text = NULL;
        store->join.n_text = 0;
    }
    store->joined[rank] = true;
    store->join_tickets[rank] = ask->ticket;
    store->last_joined = rank;
    store->n_joined++;
    if (store->n_joined == table->n_workers) {
        end_join(table, store);
        return;
    }
    check_join(table, store);
    for (entry_t *entry = table->oldest, *newer; entry != NULL; entry = newer) {
        newer = entry->newer;
        if (entry->first.store == store->number && entry->status != KVS_OK) {
            pass_joined(table, entry);
            forget_if_told(table, entry);
        }
    }
    settle_all(table, store);
}

/* ---- What is asked ------------------------------------------------------------------------------ */

static void come(hvd_table_t *table, store_t *store, entry_t *entry, int rank, const hvd_ask_t *ask)
{
    kvs_net_text_t text = {.n = 0};
    kvs_status_t status;

    entry->parts[rank] = (part_t){.came = true, .ticket = ask->ticket, .extra = ask->extra};
    entry->n_came++;
    if (entry->status != KVS_OK) {
        send_no(table, rank, ask->ticket, entry->status,
                entry->text == NULL ? "it has failed" : entry->text);
        forget_if_told(table, entry);
        return;
    }
    status = compare(table, entry, rank, ask, &text);
    if (status != KVS_OK) {
        fail(table, entry, status, text.bytes);
        return;
    }
    settle(table, entry, store);
}

void hvd_table_ask(hvd_table_t *table, int rank, const hvd_ask_t *asked, int64_t now_ms)
{
    store_t *store = store_of(table, asked->store);
    hvd_ask_t counted = *asked;
    const hvd_ask_t *ask = &counted;
    uint64_t hash;
    entry_t *entry;

    if (store == NULL) {
        send_no(table, rank, ask->ticket, KVS_ERR_NO_MEMORY, "worker 0 has no memory for a store");
        return;
    }
    store->moved_ms = now_ms;
    if (ask->what == HVD_JOIN) {
        join(table, store, rank, ask);
        return;
    }
    counted.count = count_of(store, asked, rank);
    hash = hash_of(ask);
    entry = find(table, ask, hash);
    if (entry != NULL && entry->parts[rank].came) {
        send_no(table, rank, ask->ticket, KVS_ERR_INTERNAL,
                "the same exchange was asked for twice");
        return;
    }
    if (entry == NULL) {
        entry = add(table, rank, ask, hash);
        if (entry == NULL) {
            send_no(table, rank, ask->ticket, KVS_ERR_NO_MEMORY,
                    "worker 0 has no memory for an exchange");
            return;
        }
        entry->came_ms = now_ms;
    }
    come(table, store, entry, rank, ask);
    start_next(table);
}

void hvd_table_close(hvd_table_t *table, int rank, uint32_t number)
{
    store_t *store = store_of(table, number);

    if (store == NULL || store->closed[rank]) {
        return;
    }
    store->closed[rank] = true;
    store->n_closed++;
    check_join(table, store);
    settle_all(table, store);
    for (entry_t *entry = table->oldest, *newer; entry != NULL; entry = newer) {
        newer = entry->newer;
        if (entry->first.store == number && entry->status != KVS_OK) {
            forget_if_told(table, entry);
        }
    }
    if (store->n_closed == table->n_workers) {
        for (store_t **link = &table->stores; *link != NULL; link = &(*link)->next) {
            if (*link == store) {
                *link = store->next;
                free_store(store);
                return;
            }
        }
    }
}

void hvd_table_lose(hvd_table_t *table, int rank, const char *text)
{
    if (table->lost[rank] == NULL) {
        table->lost[rank] = strdup(text);
    }
    for (store_t *store = table->stores; store != NULL; store = store->next) {
        check_join(table, store);
        settle_all(table, store);
    }
}

/* ---- The clock ---------------------------------------------------------------------------------- */

/* Those who get an error put the key in front themselves. */
static void warn(const hvd_table_t *table, const entry_t *entry, const char *why)
{
    const hvd_ask_t *first = &entry->first;
    kvs_net_text_t text = {.n = 0};

    kvs_net_text_add(&text, "%s: key ", hvd_what_name(first->what));
    if (first->is_text) {
        kvs_net_text_add(&text, "'%s': ", entry->key);
    } else {
        kvs_net_text_add(&text, "%" PRId64 ": ", first->number);
    }
    kvs_net_text_add(&text, "%s", why);
    table->sink.warn(table->sink.arg, text.bytes);
}

static void look_at(hvd_table_t *table, entry_t *entry, int64_t now_ms)
{
    const store_t *store = store_of(table, entry->first.store);
    int64_t late_ms = now_ms - entry->came_ms;
    bool is_over = entry->first.timeout_ms > 0 && late_ms >= entry->first.timeout_ms;
    bool warns = entry->first.warning_ms > 0 && late_ms >= entry->first.warning_ms;
    kvs_net_text_t text = {.n = 0};

    if (entry->status != KVS_OK || store == NULL || !(is_over || (warns && !entry->has_warned))) {
        return;
    }
    kvs_net_text_add(&text, "not submitted for %" PRId64 " ms by ", late_ms);
    add_workers(&text, table, entry, store, false);
    kvs_net_text_add(&text, "; it was by ");
    add_workers(&text, table, entry, store, true);
    if (is_over) {
        fail(table, entry, KVS_ERR_TIMEOUT, text.bytes);
    } else {
        entry->has_warned = true;
        warn(table, entry, text.bytes);
    }
}

static void look_at_join(hvd_table_t *table, store_t *store, int64_t now_ms)
{
    kvs_net_text_t text = {.n = 0};

    if (table->n_running > 0) { /* the others are not done with what they have submitted */
        store->moved_ms = now_ms;
    }
    if (store->n_joined == 0 || store->join.timeout_ms == 0 ||
        now_ms - store->moved_ms < store->join.timeout_ms) {
        return;
    }
    kvs_net_text_add(&text, "nothing heard for %" PRId64 " ms of ", now_ms - store->moved_ms);
    for (int rank = 0, n = 0; rank < table->n_workers; rank++) {
        if (!store->joined[rank] && n++ < MAX_NAMED) {
            kvs_net_text_add(&text, "%s%s", n == 1 ? "" : ", ", label(table, rank));
        }
    }
    fail_join(table, store, KVS_ERR_TIMEOUT, text.bytes);
}

void hvd_table_tick(hvd_table_t *table, int64_t now_ms)
{
    for (entry_t *entry = table->oldest, *newer; entry != NULL; entry = newer) {
        newer = entry->newer;
        look_at(table, entry, now_ms);
    }
    for (store_t *store = table->stores; store != NULL; store = store->next) {
        look_at_join(table, store, now_ms);
    }
}
