/* SPDX-License-Identifier: Apache-2.0 */
/* node_store.c - stores of a worker, and whatever else is asked of the scheduler and waited for. The
 * scheduler keeps the deadlines, as it knows who is missing; here is only waited a little longer. */
#include "node.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Asking the scheduler -------------------------------------------------------------------- */

typedef struct outgoing {
    net_task_t task; /* first */
    net_record_t *record;
} outgoing_t;

static void run_outgoing(kvs_net_node_t *node, net_task_t *task)
{
    outgoing_t *outgoing = (outgoing_t *)task;

    if (node->control != NULL) {
        net_channel_send_record(&node->channel, outgoing->record);
    } else {
        free(outgoing->record);
    }
    free(outgoing);
}

static kvs_status_t post(kvs_net_node_t *node, const net_wire_t *wire,
                         const net_wire_lists_t *lists)
{
    outgoing_t *outgoing = malloc(sizeof(*outgoing));
    net_record_t *record = net_channel_encode(wire, lists);

    if (outgoing == NULL || record == NULL) {
        free(outgoing);
        free(record);
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for a message to the scheduler");
    }
    *outgoing = (outgoing_t){.task.run = run_outgoing, .record = record};
    net_node_add_task(node, &outgoing->task);
    return KVS_OK;
}

void net_node_take_answer(kvs_net_node_t *node, const net_answer_t *answer)
{
    pthread_mutex_lock(&node->lock);
    for (net_wait_entry_t *wait = node->waits; wait != NULL; wait = wait->next) {
        if (wait->type == answer->type && wait->number == answer->number &&
            wait->store == answer->store && !wait->done) {
            wait->done = true;
            wait->status = answer->status;
            wait->value = answer->value;
            wait->text = strdup(answer->text);
            pthread_cond_broadcast(&node->changed);
            break;
        }
    }
    pthread_mutex_unlock(&node->lock);
}

void net_node_wake_waits(kvs_net_node_t *node)
{
    pthread_mutex_lock(&node->lock);
    pthread_cond_broadcast(&node->changed);
    pthread_mutex_unlock(&node->lock);
}

static void remove_wait_locked(kvs_net_node_t *node, net_wait_entry_t *wait)
{
    net_wait_entry_t **at = &node->waits;

    while (*at != wait) {
        at = &(*at)->next;
    }
    *at = wait->next;
}

static bool is_cancelled(const kvs_net_node_t *node, const net_wait_entry_t *wait)
{
    return node->cancelled || (wait->cancelled != NULL && *wait->cancelled);
}

static kvs_status_t result_of(kvs_net_node_t *node, net_wait_entry_t *wait, const char *what,
                              int64_t waited_ms)
{
    char seconds[32];
    kvs_status_t status = KVS_OK;

    if (wait->done && wait->status != KVS_OK) {
        status = kvs_fail(wait->status, "%s", wait->text == NULL ? what : wait->text);
    } else if (!wait->done && is_cancelled(node, wait)) {
        status = kvs_fail(KVS_ERR_CANCELLED, "%s: cancelled", what);
    } else if (!wait->done && net_node_phase(node) == NET_ENDED) {
        status = kvs_fail_context(net_node_fail_ended(node), "%s", what);
    } else if (!wait->done) {
        status = kvs_fail(KVS_ERR_TIMEOUT, "%s: the scheduler at %s has not answered within %s",
                          what, node->job->scheduler_address, net_seconds(seconds, waited_ms));
    }
    free(wait->text);
    return status;
}

/* Send the request and wait for its answer: the scheduler's own deadline, and as long again as it
 * takes to find it dead. */
static kvs_status_t ask(kvs_net_node_t *node, const net_wire_t *wire, const net_wire_lists_t *lists,
                        net_wait_entry_t *wait, int64_t timeout_ms, const char *what)
{
    int64_t patience = timeout_ms < 0 ? -1 : timeout_ms + node->job->settings.dead_after_ms;
    int64_t deadline = net_deadline(patience);
    kvs_status_t status;

    pthread_mutex_lock(&node->lock);
    wait->next = node->waits;
    node->waits = wait;
    pthread_mutex_unlock(&node->lock);
    status = post(node, wire, lists);
    pthread_mutex_lock(&node->lock);
    while (status == KVS_OK && !wait->done && !is_cancelled(node, wait) &&
           net_node_phase(node) != NET_ENDED && net_now() < deadline) {
        net_cond_wait(&node->changed, &node->lock, deadline);
    }
    remove_wait_locked(node, wait);
    pthread_mutex_unlock(&node->lock);
    return status == KVS_OK ? result_of(node, wait, what, patience) : status;
}

/* May this node ask anything now? */
static kvs_status_t check_asker(kvs_net_node_t *node)
{
    kvs_status_t status = net_node_check_waiter(node);

    if (status != KVS_OK) {
        return status;
    }
    if (!net_node_has_joined(node)) {
        return kvs_fail(KVS_ERR_STATE, "the job is not complete");
    }
    return net_node_phase(node) == NET_ENDED ? net_node_fail_ended(node) : KVS_OK;
}

static uint32_t count_dead(kvs_net_node_t *node, int mask)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < node->n_peers; i++) {
        n += (node->peers[i].pub.role & mask) != 0 &&
             atomic_load_explicit(&node->peers[i].gone, memory_order_acquire) &&
             node->peers[i].is_dead;
    }
    return n;
}

kvs_status_t kvs_net_node_num_dead(kvs_net_node_t *node, int mask, int64_t silent_ms,
                                   int64_t timeout_ms, int *ret_dead)
{
    int64_t silent = net_now() - atomic_load_explicit(&node->heard_at, memory_order_relaxed);
    uint32_t dead = (mask & KVS_NET_SCHEDULER) != 0 && silent > silent_ms * NET_MS ? 1 : 0;
    net_wait_entry_t wait = {.type = NET_QUERY};
    net_wire_t wire = {.type = NET_QUERY,
                       .as.request = {.mask = (uint32_t)mask, .timeout_ms = silent_ms}};
    kvs_status_t status = net_node_check_waiter(node);

    if (status != KVS_OK || !net_node_has_joined(node)) {
        return status != KVS_OK ? status : kvs_fail(KVS_ERR_STATE, "the job is not complete");
    }
    if (net_node_phase(node) == NET_ENDED) { /* nobody to ask: what is known here */
        *ret_dead = (int)(dead + count_dead(node, mask));
        return KVS_OK;
    }
    pthread_mutex_lock(&node->lock);
    wait.number = wire.as.request.number = ++node->n_queries;
    pthread_mutex_unlock(&node->lock);
    status = ask(node, &wire, NULL, &wait, timeout_ms, "number of dead nodes");
    if (status == KVS_OK) {
        *ret_dead = (int)(dead + wait.value);
    }
    return status;
}

kvs_status_t kvs_net_node_tell(kvs_net_node_t *node, uint32_t store, kvs_status_t status,
                               const char *text)
{
    net_wire_t wire = {.type = NET_TELL,
                       .as.notice = {.store = store, .status = status, .text = text}};

    if (!net_job_is_ours(node->job)) {
        return KVS_ERR_STATE;
    }
    if (!net_node_has_joined(node)) {
        return kvs_fail(KVS_ERR_STATE, "the job is not complete");
    }
    return post(node, &wire, NULL);
}

/* ---- Stores ---------------------------------------------------------------------------------- */

kvs_net_store_t *net_node_find_store(kvs_net_node_t *node, uint32_t number)
{
    kvs_net_store_t *store = node->stores;

    while (store != NULL && store->number != number) {
        store = store->next;
    }
    return store;
}

static void add_store(kvs_net_node_t *node, void *arg)
{
    kvs_net_store_t *store = arg;

    store->next = node->stores;
    node->stores = store;
}

static void remove_store(kvs_net_node_t *node, void *arg)
{
    kvs_net_store_t **at = &node->stores;

    while (*at != arg) {
        at = &(*at)->next;
    }
    *at = (*at)->next;
}

static kvs_net_store_t *new_store(kvs_net_node_t *node, const kvs_net_store_args_t *args)
{
    kvs_net_store_t *store = calloc(1, sizeof(*store));

    if (store == NULL) {
        return NULL;
    }
    store->node = node;
    store->message = args->message;
    store->arg = args->arg;
    snprintf(store->type, sizeof(store->type), "%s", args->type);
    pthread_mutex_lock(&node->lock);
    store->number = ++node->n_stores;
    pthread_mutex_unlock(&node->lock);
    net_node_run_and_wait(node, add_store, store);
    return store;
}

static void free_store(kvs_net_store_t *store)
{
    net_node_run_and_wait(store->node, remove_store, store);
    free(store);
}

static kvs_status_t check_store_args(kvs_net_node_t *node, const kvs_net_store_args_t *args)
{
    kvs_status_t status = check_asker(node);

    if (status != KVS_OK) {
        return status;
    }
    if (node->args.role != KVS_NET_WORKER) {
        return kvs_fail(KVS_ERR_STATE, "only workers open stores");
    }
    if (args->type == NULL || strlen(args->type) >= sizeof(((kvs_net_store_t *)NULL)->type) ||
        args->n_facts > NET_WIRE_MAX_FACTS - 1) {
        return kvs_fail(KVS_ERR_ARGUMENT,
                        "a store has a type of at most 127 bytes and at most %d facts",
                        NET_WIRE_MAX_FACTS - 1);
    }
    return KVS_OK;
}

/* All facts, of which `copy` holds those of `loaded`. */
typedef struct all_facts {
    kvs_net_fact_t items[NET_WIRE_MAX_FACTS];
    uint32_t n;
    char *copy;
} all_facts_t;

/* One line: "NAME = VALUE", else "NAME VALUE". False: neither, as an empty line. */
static bool cut_fact(char *line, kvs_net_fact_t *ret_fact)
{
    char *value = strstr(line, " = ");
    size_t n_skip = value != NULL ? 3 : 1;

    value = value != NULL ? value : strchr(line, ' ');
    if (value == NULL) {
        return false;
    }
    *value = '\0';
    *ret_fact = (kvs_net_fact_t){line, value + n_skip};
    return true;
}

static kvs_status_t gather_facts(const kvs_net_store_args_t *args, all_facts_t *facts)
{
    uint32_t n_room = NET_WIRE_MAX_FACTS - 1; /* the type is one, too */

    facts->copy = strdup(args->loaded == NULL ? "" : args->loaded);
    if (facts->copy == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for the facts of a store");
    }
    for (facts->n = 0; facts->n < args->n_facts; facts->n++) {
        facts->items[facts->n] = args->facts[facts->n];
    }
    for (char *rest = facts->copy, *line = strsep(&rest, "\n"); line != NULL;
         line = strsep(&rest, "\n")) {
        if (facts->n == n_room && line[0] != '\0') {
            free(facts->copy);
            return kvs_fail(KVS_ERR_ARGUMENT, "a store has at most %u facts", n_room);
        }
        facts->n += cut_fact(line, &facts->items[facts->n]);
    }
    return KVS_OK;
}

static kvs_status_t ask_to_open(kvs_net_store_t *store, const kvs_net_store_args_t *args,
                                int64_t timeout_ms)
{
    all_facts_t facts;
    net_wait_entry_t wait = {.type = NET_STORE_OPEN};
    net_wire_t wire = {.type = NET_STORE_OPEN,
                       .as.store = {.timeout_ms = timeout_ms, .type = args->type}};
    kvs_status_t status = gather_facts(args, &facts);

    if (status == KVS_OK) {
        net_wire_lists_t lists = {.facts = facts.items, .n_facts = facts.n};

        wait.number = wait.store = wire.as.store.ordinal = wire.as.store.store = store->number;
        status = ask(store->node, &wire, &lists, &wait, timeout_ms, args->type);
        free(facts.copy);
    }
    return status;
}

kvs_status_t kvs_net_store_open(kvs_net_node_t *node, const kvs_net_store_args_t *args,
                                int64_t timeout_ms, kvs_net_store_t **ret_store)
{
    kvs_status_t status = check_store_args(node, args);
    kvs_net_store_t *store = status == KVS_OK ? new_store(node, args) : NULL;

    if (status != KVS_OK) {
        return status;
    }
    if (store == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for a store");
    }
    status = ask_to_open(store, args, timeout_ms);
    if (status != KVS_OK) {
        free_store(store);
        return status;
    }
    *ret_store = store;
    return KVS_OK;
}

uint32_t kvs_net_store_number(const kvs_net_store_t *store)
{
    return store->number;
}

kvs_status_t kvs_net_store_barrier(kvs_net_store_t *store, int64_t timeout_ms)
{
    kvs_net_node_t *node = store->node;
    net_wait_entry_t wait = {
        .type = NET_BARRIER, .store = store->number, .cancelled = &store->cancelled};
    net_wire_t wire = {.type = NET_BARRIER,
                       .as.request = {.store = store->number, .timeout_ms = timeout_ms}};
    kvs_status_t status = check_asker(node);
    char what[160];

    if (status != KVS_OK) {
        return status;
    }
    pthread_mutex_lock(&node->lock);
    wait.number = wire.as.request.number = ++store->n_barriers;
    pthread_mutex_unlock(&node->lock);
    snprintf(what, sizeof(what), "barrier of %s", store->type);
    return ask(node, &wire, NULL, &wait, timeout_ms, what);
}

/* Tell the scheduler; wait for the others where this process's end would end them. */
static kvs_status_t say_closed(kvs_net_store_t *store, int64_t timeout_ms)
{
    kvs_net_node_t *node = store->node;
    bool waits = node->job->settings.embed != 0 && timeout_ms != 0 && !store->cancelled;
    net_wait_entry_t wait = {.type = NET_STORE_CLOSE, .store = store->number};
    net_wire_t wire = {
        .type = NET_STORE_CLOSE,
        .as.request = {.store = store->number, .mask = waits ? 1 : 0, .timeout_ms = timeout_ms}};
    char what[160];

    if (net_node_phase(node) == NET_ENDED) {
        return KVS_OK; /* nobody to tell */
    }
    snprintf(what, sizeof(what), "closing %s", store->type);
    return waits ? ask(node, &wire, NULL, &wait, timeout_ms, what) : post(node, &wire, NULL);
}

kvs_status_t kvs_net_store_close(kvs_net_store_t *store, int64_t timeout_ms)
{
    kvs_status_t status;

    if (store == NULL) {
        return KVS_OK;
    }
    status = net_node_check_waiter(store->node);
    if (status != KVS_OK) {
        return status;
    }
    status = say_closed(store, timeout_ms);
    free_store(store);
    return status;
}
