/* SPDX-License-Identifier: Apache-2.0 */
/* dist_worker_states.c - files of optimizer states: a save collects the states of every key from the
 * servers; a load reads the file on every worker that asks for it, and rank 0 gives the states to the
 * servers, for whom the others wait. Counts are the worker's own, or, in asynchronous stores, the
 * servers'. What a worker owes by compression is saved and loaded by rank 0 alone. */
#include "dist_worker.h"

#include "dist_place.h"
#include "dist_states.h"

#include <kvstore/states.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define MAX_TRIES 20 /* to read a key that changes meanwhile */

/* A key, and its states here while the call lasts. */
typedef struct copy {
    dist_key_t *key;
    kvs_opt_key_t state;
    kvs_residuals_t residuals;
} copy_t;

typedef struct copies {
    copy_t *list;
    kvs_opt_item_t *items; /* the same, for the kit */
    size_t n;
} copies_t;

static bool is_owner_of_residuals(const dist_worker_t *worker)
{
    return worker->rank == 0;
}

static void release(copies_t *copies)
{
    for (size_t i = 0; i < copies->n; i++) {
        kvs_opt_key_release(&copies->list[i].state);
        kvs_residuals_release(&copies->list[i].residuals);
    }
    free(copies->list);
    free(copies->items);
}

/* Every key that is initialised, with its count. */
static kvs_status_t list_keys(dist_worker_t *worker, copies_t *copies)
{
    size_t n = 0;

    pthread_mutex_lock(&worker->lock);
    for (const dist_key_t *key = worker->keys; key != NULL; key = key->next) {
        n++;
    }
    copies->list = calloc(n + 1, sizeof(*copies->list));
    copies->items = calloc(n + 1, sizeof(*copies->items));
    for (dist_key_t *key = worker->keys; key != NULL && copies->list != NULL; key = key->next) {
        if (key->state == DIST_KEY_READY) {
            copies->list[copies->n++] =
                (copy_t){.key = key, .state = {.n_updates = key->host.opt.n_updates}};
        }
    }
    pthread_mutex_unlock(&worker->lock);
    if (copies->list == NULL || copies->items == NULL) {
        copies->n = 0;
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for a list of the keys");
    }
    for (size_t i = 0; i < copies->n; i++) {
        copies->items[i] = (kvs_opt_item_t){.key = copies->list[i].key->host.entry,
                                            .state = &copies->list[i].state};
    }
    return KVS_OK;
}

static kvs_status_t need_optimizer(const dist_worker_t *worker, const char *what)
{
    return worker->opt != NULL
               ? KVS_OK
               : kvs_fail(KVS_ERR_STATE, "%s: the store has no optimizer; call set_optimizer first",
                          what);
}

static dist_states_t states_of(const copy_t *copy, const dist_shard_t *shard)
{
    const dist_record_t *record = &copy->key->record;

    return dist_states_of(&copy->state, record->n_shards == 1, shard->first, shard->n,
                          dist_row_elems(record));
}

/* ---- From the servers ------------------------------------------------------------------------------------- */

static kvs_status_t misfit(const copy_t *copy, const dist_shard_t *shard)
{
    return kvs_fail(KVS_ERR_PEER, "server %u sent states of %s that do not fit", shard->server,
                    DIST_KEY_TEXT(&copy->key->record));
}

/* One run; `ret_n` bytes of the stream have come. ERR_EXISTS: the key has changed since, try again. */
static kvs_status_t fetch_run(dist_worker_t *worker, copy_t *copy, const dist_shard_t *shard,
                              int64_t first, int64_t *io_round, dist_states_head_t *ret_head,
                              int64_t *ret_n)
{
    dist_bytes_t reply = DIST_BYTES_INIT;
    dist_ask_t ask = {.server = shard->server,
                      .header = {.kind = DIST_GET_STATES,
                                 .key = copy->key->record.id,
                                 .digest = copy->key->digest,
                                 .first = first,
                                 .optimizer = worker->n_optimizers},
                      .reply = &reply};
    kvs_status_t status = dist_worker_ask(worker, &ask);
    dist_view_t view = dist_view(reply.data, reply.n);
    dist_states_t states;

    if (status != KVS_OK) {
        dist_bytes_release(&reply);
        return status;
    }
    *ret_head = dist_states_get_head(&view);
    if (first == 0) {
        *io_round = ask.answer.round;
    }
    if (*io_round != ask.answer.round) {
        status = KVS_ERR_EXISTS;
    } else if (ret_head->made && copy->state.states == NULL) {
        status = kvs_opt_begin_for(worker->opt, &copy->state, copy->key->host.entry, NULL,
                                   ret_head->mask);
    }
    states = states_of(copy, shard);
    if (status == KVS_OK && ret_head->n_bytes != states.n_bytes) {
        /* another shard was at another update */
        status = worker->is_async ? KVS_ERR_EXISTS : misfit(copy, shard);
    }
    if (status == KVS_OK && (view.failed || first + (int64_t)view.n_left > states.n_bytes)) {
        status = misfit(copy, shard);
    }
    if (status == KVS_OK) {
        dist_states_copy(&states, first, (int64_t)view.n_left, (void *)(uintptr_t)view.at, true);
        *ret_n = (int64_t)view.n_left;
    }
    dist_bytes_release(&reply);
    return status;
}

static kvs_status_t fetch_shard(dist_worker_t *worker, copy_t *copy, const dist_shard_t *shard)
{
    dist_states_head_t head = {.n_bytes = 0};
    int64_t round = 0, first = 0, n = 0;
    kvs_status_t status;

    do {
        status = fetch_run(worker, copy, shard, first, &round, &head, &n);
        first += n;
        if (status == KVS_OK && n == 0 && first < head.n_bytes) {
            status = misfit(copy, shard);
        }
    } while (status == KVS_OK && first < head.n_bytes);
    if (status == KVS_OK && worker->is_async && shard->first == 0) {
        copy->state.n_updates = head.n_updates;
    }
    return status;
}

static kvs_status_t fetch(dist_worker_t *worker, copy_t *copy)
{
    kvs_status_t status = KVS_ERR_EXISTS;

    for (int i = 0; i < MAX_TRIES && status == KVS_ERR_EXISTS; i++) {
        int64_t n_updates = copy->state.n_updates;

        kvs_opt_key_release(&copy->state);
        copy->state.n_updates = n_updates;
        status = KVS_OK;
        for (uint32_t s = 0; s < copy->key->record.n_shards && status == KVS_OK; s++) {
            status = fetch_shard(worker, copy, &copy->key->record.shards[s]);
        }
    }
    return status != KVS_ERR_EXISTS
               ? status
               : kvs_fail(KVS_ERR_STATE,
                          "%s is updated while its states are read; save between two barriers",
                          DIST_KEY_TEXT(&copy->key->record));
}

/* The optimizer with the counts of where updates are counted. */
static kvs_status_t fetch_optimizer(dist_worker_t *worker, kvs_opt_t **ret_opt)
{
    dist_bytes_t reply = DIST_BYTES_INIT;
    dist_ask_t ask = {.header = {.kind = DIST_GET_OPTIMIZER, .optimizer = worker->n_optimizers},
                      .reply = &reply};
    kvs_status_t status = dist_worker_ask(worker, &ask);

    if (status == KVS_OK) {
        status = kvs_opt_unpack((const char *)reply.data, reply.n, ret_opt);
    }
    dist_bytes_release(&reply);
    return status;
}

static kvs_status_t save(dist_worker_t *worker, copies_t *copies, const char *path,
                         int dump_optimizer)
{
    kvs_opt_t *fetched = NULL;
    kvs_status_t status = KVS_OK;

    for (size_t i = 0; i < copies->n && status == KVS_OK; i++) {
        dist_key_t *key = copies->list[i].key;

        status = fetch(worker, &copies->list[i]);
        if (status == KVS_OK && is_owner_of_residuals(worker)) {
            status = kvs_devhost_take_home(&key->residual, &key->host.residuals);
        }
        copies->items[i].residuals = is_owner_of_residuals(worker) ? &key->host.residuals : NULL;
    }
    if (status == KVS_OK && worker->is_async) {
        status = fetch_optimizer(worker, &fetched);
    }
    if (status == KVS_OK) {
        status = kvs_opt_save(fetched != NULL ? fetched : worker->opt, copies->items, copies->n,
                              path, dump_optimizer);
    }
    kvs_opt_free(fetched);
    return status;
}

kvs_status_t dist_worker_save_states(dist_worker_t *worker, const char *path, int dump_optimizer)
{
    copies_t copies = {.n = 0};
    kvs_status_t status = need_optimizer(worker, "save_optimizer_states");

    if (status != KVS_OK) {
        return status;
    }
    status = dist_worker_drain(worker);
    if (status == KVS_OK) {
        status = list_keys(worker, &copies);
    }
    if (status == KVS_OK) {
        status = save(worker, &copies, path, dump_optimizer);
    }
    release(&copies);
    return status == KVS_OK ? KVS_OK : kvs_fail_context(status, "save_optimizer_states");
}

/* ---- To the servers --------------------------------------------------------------------------------------- */

static kvs_status_t put_optimizer(dist_worker_t *worker, const kvs_opt_t *opt)
{
    char *bytes = NULL;
    size_t n = 0;
    kvs_status_t status = kvs_opt_pack(opt, &bytes, &n);

    for (int s = 0; s < worker->n_servers && status == KVS_OK; s++) {
        dist_ask_t ask = {.server = (uint32_t)s,
                          .header = {.kind = DIST_PUT_OPTIMIZER, .round = worker->n_load_tries},
                          .body = bytes,
                          .n_body = n};

        status = dist_worker_ask(worker, &ask);
    }
    free(bytes);
    return status;
}

static kvs_status_t put_run(dist_worker_t *worker, const copy_t *copy, const dist_shard_t *shard,
                            const dist_states_head_t *head, int64_t first, int64_t n)
{
    dist_states_t states = states_of(copy, shard);
    dist_bytes_t body = DIST_BYTES_INIT;
    dist_ask_t ask = {.server = shard->server,
                      .header = {.kind = DIST_PUT_STATES,
                                 .key = copy->key->record.id,
                                 .digest = copy->key->digest,
                                 .round = worker->n_load_tries,
                                 .first = first,
                                 .optimizer = worker->n_optimizers}};
    kvs_status_t status;

    dist_states_put_head(&body, head);
    if (dist_bytes_reserve(&body, (size_t)n)) {
        dist_states_copy(&states, first, n, body.data + body.n, false);
        body.n += (size_t)n;
    }
    ask.body = body.data;
    ask.n_body = body.n;
    status = body.failed ? kvs_fail(KVS_ERR_NO_MEMORY, "no memory to send states")
                         : dist_worker_ask(worker, &ask);
    dist_bytes_release(&body);
    return status;
}

static kvs_status_t put(dist_worker_t *worker, const kvs_opt_t *opt, const copy_t *copy)
{
    uint32_t mask = dist_states_mask(opt, &copy->state);
    kvs_status_t status = KVS_OK;

    for (uint32_t s = 0; s < copy->key->record.n_shards && status == KVS_OK; s++) {
        const dist_shard_t *shard = &copy->key->record.shards[s];
        dist_states_head_t head = {copy->state.states != NULL, mask, copy->state.n_updates,
                                   states_of(copy, shard).n_bytes};
        int64_t first = 0;

        do {
            int64_t left = head.n_bytes - first;
            int64_t n = left < DIST_STATES_RUN_BYTES ? left : DIST_STATES_RUN_BYTES;

            status = put_run(worker, copy, shard, &head, first, n);
            first += n;
        } while (status == KVS_OK && first < head.n_bytes);
    }
    return status;
}

/* Server 0 comes last: when it has the states, all have. */
static kvs_status_t finish(dist_worker_t *worker, bool with_optimizer)
{
    int n_servers = worker->rank == 0 ? worker->n_servers : 1;
    kvs_status_t status = KVS_OK;

    for (int s = n_servers - 1; s >= 0 && status == KVS_OK; s--) {
        dist_ask_t ask = {.server = (uint32_t)s,
                          .header = {.kind = DIST_LOAD,
                                     .round = worker->n_load_tries,
                                     .first = with_optimizer,
                                     .n = worker->n_loads + 1,
                                     .timeout_ms = worker->timeout_ms,
                                     .optimizer = worker->n_optimizers}};

        status = dist_worker_ask(worker, &ask);
    }
    return status;
}

static kvs_status_t give(dist_worker_t *worker, const copies_t *copies, const kvs_opt_t *opt,
                         bool with_optimizer)
{
    kvs_status_t status = KVS_OK;

    worker->n_load_tries++;
    if (worker->rank == 0) {
        status = with_optimizer ? put_optimizer(worker, opt) : KVS_OK;
        for (size_t i = 0; i < copies->n && status == KVS_OK; i++) {
            if (copies->list[i].state.states != NULL || copies->list[i].state.n_updates > 0) {
                status = put(worker, opt, &copies->list[i]);
            }
        }
    }
    return status == KVS_OK ? finish(worker, with_optimizer) : status;
}

/* What the file says of this worker. */
static void put_in_force(dist_worker_t *worker, copies_t *copies)
{
    for (size_t i = 0; i < copies->n; i++) {
        copy_t *copy = &copies->list[i];

        copy->key->host.opt.n_updates = copy->state.n_updates;
        if (is_owner_of_residuals(worker)) {
            kvs_residuals_release(&copy->key->host.residuals);
            kvs_devhost_residual_release(&copy->key->residual);
            copy->key->host.residuals = copy->residuals;
            copy->residuals = (kvs_residuals_t){.n = 0};
        }
    }
    worker->n_loads++;
}

static kvs_status_t load(dist_worker_t *worker, copies_t *copies, const kvs_opt_file_t *file)
{
    kvs_opt_t *opt = NULL, *as_it_is;
    char *bytes = NULL;
    size_t n = 0;
    kvs_status_t status = kvs_opt_pack(worker->opt, &bytes, &n);

    if (status == KVS_OK) {
        status = kvs_opt_unpack(bytes, n, &opt);
    }
    free(bytes);
    as_it_is = opt;
    for (size_t i = 0; i < copies->n && is_owner_of_residuals(worker); i++) {
        copies->items[i].residuals = &copies->list[i].residuals;
    }
    if (status == KVS_OK) {
        status = kvs_opt_file_load(file, &opt, copies->items, copies->n);
    }
    if (status == KVS_OK) { /* the one that was saved, if it was, is another object */
        status = give(worker, copies, opt, opt != as_it_is);
    }
    if (status == KVS_OK) {
        put_in_force(worker, copies);
        kvs_opt_free(worker->opt);
        worker->opt = opt;
    } else {
        kvs_opt_free(opt);
    }
    return status;
}

kvs_status_t dist_worker_load_states(dist_worker_t *worker, const char *path)
{
    copies_t copies = {.n = 0};
    kvs_opt_file_t *file = NULL;
    kvs_status_t status = need_optimizer(worker, "load_optimizer_states");

    if (status != KVS_OK) {
        return status;
    }
    status = dist_worker_drain(worker);
    if (status == KVS_OK) {
        status = kvs_opt_file_open(path, &file);
    }
    if (status == KVS_OK) {
        status = list_keys(worker, &copies);
    }
    if (status == KVS_OK) {
        status = load(worker, &copies, file);
    }
    kvs_opt_file_close(file);
    release(&copies);
    return status == KVS_OK ? KVS_OK : kvs_fail_context(status, "load_optimizer_states");
}
