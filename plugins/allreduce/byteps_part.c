/* SPDX-License-Identifier: Apache-2.0 */
/* byteps_part.c - parts wait in a heap for each server, the most urgent first, and are begun as long as the
 * bytes whose results are not in place yet stay below the credit. A use that others wait for needs no
 * credit: workers that begin keys in different orders would otherwise wait for each other. A part whose next
 * block has not arrived from a device is parked meanwhile: out of its heap, and with no more credit than what
 * is sent of it. */
#include "byteps_worker.h"

#include <stdlib.h>
#include <string.h>

#define SMALL_BYTES 8192 /* copied as they are sent */

/* ---- Sizes ------------------------------------------------------------------------------------------- */

uint64_t byteps_blocks_per_part(const byteps_worker_t *worker)
{
    return (worker->part_bytes + BYTEPS_BLOCK_BYTES - 1) / BYTEPS_BLOCK_BYTES;
}

uint64_t byteps_n_parts(const byteps_worker_t *worker, const byteps_header_t *header)
{
    uint64_t n_blocks = byteps_n_blocks(header->dtype, byteps_n_elems(header));
    uint64_t n_part = byteps_blocks_per_part(worker);

    return (n_blocks + n_part - 1) / n_part;
}

size_t byteps_block_bytes(const byteps_use_t *use, uint64_t block)
{
    int dtype = use->header.dtype;

    return (size_t)byteps_elems_of_block(dtype, use->n_elems, block) * kvs_dtype_bytes(dtype);
}

/* Of its blocks from the n-th on. */
static uint64_t bytes_from(const byteps_part_t *part, uint32_t n)
{
    if (n == part->n_blocks) {
        return 0;
    }
    return (uint64_t)(part->n_blocks - 1 - n) * BYTEPS_BLOCK_BYTES +
           byteps_block_bytes(part->use, part->first_block + part->n_blocks - 1);
}

/* What counts against the credit: all that has no result, or only what is sent of it. */
static uint64_t bytes_in_flight(const byteps_part_t *part)
{
    return bytes_from(part, part->n_got) - (part->started ? 0 : bytes_from(part, part->n_sent));
}

static void give_credit_back(byteps_part_t *part)
{
    part->use->key->worker->n_in_flight -= bytes_in_flight(part);
    part->started = false;
}

void byteps_part_rewind(byteps_part_t *part)
{
    give_credit_back(part);
    part->n_sent = part->n_got;
}

/* ---- The heaps --------------------------------------------------------------------------------------- */

static bool is_before(const byteps_part_t *a, const byteps_part_t *b)
{
    const kvs_op_t *x = a->use->pub, *y = b->use->pub;

    if (a->use->wanted != b->use->wanted) {
        return a->use->wanted;
    }
    if (x->priority != y->priority) {
        return x->priority > y->priority;
    }
    return x->sequence != y->sequence ? x->sequence < y->sequence : a->index < b->index;
}

static void put(byteps_target_t *target, size_t i, byteps_part_t *part)
{
    target->heap[i] = part;
    part->at = i + 1;
}

static void sift_up(byteps_target_t *target, size_t i)
{
    byteps_part_t *part = target->heap[i];

    while (i > 0 && is_before(part, target->heap[(i - 1) / 2])) {
        put(target, i, target->heap[(i - 1) / 2]);
        i = (i - 1) / 2;
    }
    put(target, i, part);
}

static void sift_down(byteps_target_t *target, size_t i)
{
    byteps_part_t *part = target->heap[i];

    for (size_t child = 2 * i + 1; child < target->n_heap; child = 2 * i + 1) {
        if (child + 1 < target->n_heap && is_before(target->heap[child + 1], target->heap[child])) {
            child++;
        }
        if (!is_before(target->heap[child], part)) {
            break;
        }
        put(target, i, target->heap[child]);
        i = child;
    }
    put(target, i, part);
}

bool byteps_part_queue(byteps_part_t *part)
{
    byteps_target_t *target = &part->use->key->worker->targets[part->target];

    if (target->n_heap == target->n_room) {
        size_t n = target->n_room == 0 ? 64 : 2 * target->n_room;
        byteps_part_t **grown = realloc(target->heap, n * sizeof(*grown));

        if (grown == NULL) {
            return false;
        }
        target->heap = grown;
        target->n_room = n;
    }
    put(target, target->n_heap++, part);
    sift_up(target, part->at - 1);
    return true;
}

static void unpark(byteps_part_t *part)
{
    byteps_part_t **at = &part->use->key->worker->parked;

    while (*at != part) {
        at = &(*at)->next_parked;
    }
    *at = part->next_parked;
    part->parked = false;
}

void byteps_part_unqueue(byteps_part_t *part)
{
    size_t i = part->at - 1;
    byteps_target_t *target;

    if (part->parked) {
        unpark(part);
    }
    if (part->at == 0) {
        return;
    }
    target = &part->use->key->worker->targets[part->target];
    part->at = 0;
    if (i == --target->n_heap) {
        return;
    }
    put(target, i, target->heap[target->n_heap]);
    sift_down(target, i);
    sift_up(target, target->heap[i]->at - 1);
}

/* ---- The parts of a use ------------------------------------------------------------------------------ */

uint32_t byteps_target_of(const byteps_worker_t *worker, const byteps_key_t *key, uint64_t part)
{
    uint32_t target = key->targets[part];

    return target < worker->n_servers && worker->lost[target]
               ? byteps_replace(key->id, part, worker->lost, worker->n_servers)
               : target;
}

const kvs_net_peer_t *byteps_target_peer(const byteps_worker_t *worker, uint32_t target)
{
    return target < worker->n_servers
               ? kvs_net_node_peer(worker->node, KVS_NET_SERVER, (int)target)
               : kvs_net_node_peer(worker->node, KVS_NET_WORKER, (int)(target - worker->n_servers));
}

uint32_t byteps_target_number(const byteps_worker_t *worker, const kvs_net_peer_t *peer)
{
    return (uint32_t)peer->rank + (peer->role == KVS_NET_WORKER ? worker->n_servers : 0);
}

/* NULL, or why nobody sums the part any more. */
static const char *why_closed(const byteps_worker_t *worker, uint32_t target)
{
    return target < worker->n_servers ? NULL : worker->closed[target - worker->n_servers];
}

static void set_part(byteps_use_t *use, uint64_t i)
{
    const byteps_worker_t *worker = use->key->worker;
    uint64_t n_blocks = byteps_blocks_per_part(worker), first = i * n_blocks;
    uint64_t n_left = use->n_blocks - first;

    use->parts[i] = (byteps_part_t){.use = use,
                                    .index = i,
                                    .first_block = first,
                                    .n_blocks = (uint32_t)(n_left < n_blocks ? n_left : n_blocks),
                                    .target = byteps_target_of(worker, use->key, i)};
}

kvs_status_t byteps_parts_start(byteps_use_t *use)
{
    byteps_key_t *key = use->key;

    byteps_known_t *known = &key->worker->known[key->id];

    use->header.id = key->id;
    use->header.exchange = use->number = ++known->n_uses;
    use->wanted = known->wanted == use->number;
    use->parts = use->n_parts == 1 ? &use->one : calloc((size_t)use->n_parts, sizeof(*use->parts));
    use->n_parts_left = use->n_parts;
    if (use->parts == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for %llu parts",
                        (unsigned long long)use->n_parts);
    }
    for (uint64_t i = 0; i < use->n_parts; i++) {
        set_part(use, i);
    }
    for (uint64_t i = 0; i < use->n_parts; i++) {
        const char *why = why_closed(key->worker, use->parts[i].target);

        if (why != NULL) {
            return kvs_fail(KVS_ERR_PEER, "%s: %s", BYTEPS_KEY_TEXT(&use->header), why);
        }
        if (!byteps_part_queue(&use->parts[i])) {
            return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for a queue of parts");
        }
    }
    return KVS_OK;
}

void byteps_message_of(const byteps_worker_t *worker, const byteps_header_t *header, uint8_t *bytes,
                       kvs_net_send_t *net)
{
    net->store = worker->number;
    net->header = bytes;
    net->n_header_bytes = byteps_header_encode(header, bytes);
}

static void say(const byteps_worker_t *worker, uint32_t target, const byteps_header_t *header)
{
    uint8_t bytes[BYTEPS_MAX_HEADER_BYTES];
    kvs_net_send_t net = KVS_NET_SEND_INIT;

    byteps_message_of(worker, header, bytes, &net);
    net.flags = KVS_NET_URGENT;
    /* Whoever can't be told is lost, or sees this node leave. */
    (void)kvs_net_send(worker->node, byteps_target_peer(worker, target), &net);
}

void byteps_worker_say_closed(byteps_worker_t *worker)
{
    byteps_header_t header = {.kind = BYTEPS_CLOSE};

    for (uint32_t t = 0; t < worker->n_targets; t++) {
        if (!byteps_target_peer(worker, t)->is_self) {
            say(worker, t, &header);
        }
    }
}

static bool has_sent_to(const byteps_use_t *use, uint32_t target)
{
    for (uint64_t i = 0; i < use->n_parts; i++) {
        if (use->parts[i].target == target && use->parts[i].n_sent > use->parts[i].n_got) {
            return true;
        }
    }
    return false;
}

void byteps_parts_withdraw(byteps_use_t *use)
{
    byteps_worker_t *worker = use->key->worker;
    byteps_header_t header = {
        .kind = BYTEPS_DROP, .id = use->header.id, .exchange = use->header.exchange};

    if (use->parts == NULL || use->n_parts_left == 0) {
        return;
    }
    for (uint64_t i = 0; i < use->n_parts; i++) {
        byteps_part_t *part = &use->parts[i];

        byteps_part_unqueue(part);
        give_credit_back(part);
    }
    for (uint32_t t = 0; t < worker->n_targets; t++) {
        if (has_sent_to(use, t)) {
            say(worker, t, &header);
        }
    }
}

/* ---- Elements that come from devices ------------------------------------------------------------------- */

#define NOT_ARRIVED 1 /* no kvs_status_t, which are negative */

/* Whether the next block is there: 0, NOT_ARRIVED, or the failure of what brings it. */
static kvs_status_t look_for_elements(const byteps_part_t *part)
{
    const byteps_use_t *use = part->use;
    uint64_t block = part->first_block + part->n_sent;
    uint64_t end = block * BYTEPS_BLOCK_BYTES + byteps_block_bytes(use, block);
    size_t n_arrived;
    kvs_status_t status = KVS_OK;

    if (use->source != NULL && use->copy == NULL) {
        status = kvs_devhost_arrived(use->pub, &use->pub->groups[0], &n_arrived);
        status = status == KVS_OK && end > n_arrived ? (kvs_status_t)NOT_ARRIVED : status;
    }
    return status;
}

static void park(byteps_part_t *part)
{
    byteps_worker_t *worker = part->use->key->worker;

    byteps_part_unqueue(part);
    worker->n_in_flight -= part->started ? bytes_from(part, part->n_sent) : 0;
    part->started = false;
    part->parked = true;
    part->next_parked = worker->parked;
    worker->parked = part;
}

static void say_refused(const byteps_use_t *use, const byteps_header_t *header,
                        const kvs_net_peer_t *peer, const char *text)
{
    const byteps_worker_t *worker = use->key->worker;
    uint8_t bytes[BYTEPS_MAX_HEADER_BYTES];
    kvs_net_send_t net = KVS_NET_SEND_INIT;

    byteps_message_of(worker, header, bytes, &net);
    net.flags = KVS_NET_URGENT;
    net.body = text;
    net.n_body_bytes = strlen(text);
    (void)kvs_net_send(worker->node, peer, &net); /* one that is gone needs to know nothing */
}

/* Mark whoever sums a part of the use that is not over, and where hosts sum first, the servers that get their sums. */
static void mark_targets(const byteps_use_t *use, bool *marks)
{
    const byteps_worker_t *worker = use->key->worker;

    for (uint64_t i = 0; i < use->n_parts; i++) {
        if (use->parts[i].n_got == use->parts[i].n_blocks) {
            continue;
        }
        marks[use->parts[i].target] = true;
        if (use->key->servers != NULL) {
            uint32_t server = use->key->servers[i];

            marks[worker->lost[server]
                      ? byteps_replace(use->key->id, i, worker->lost, worker->n_servers)
                      : server] = true;
        }
    }
}

/* Others would wait for it in vain. */
static void refuse(const byteps_use_t *use, kvs_status_t status, const char *text)
{
    const byteps_worker_t *worker = use->key->worker;
    byteps_header_t header = {.kind = BYTEPS_REFUSED,
                              .id = use->header.id,
                              .exchange = use->header.exchange,
                              .status = status};
    bool *marks = calloc(worker->n_targets, sizeof(*marks));
    bool hosts = use->key->servers != NULL;

    if (marks == NULL) { /* they wait until the deadline */
        return;
    }
    mark_targets(use, marks);
    for (uint32_t t = 0; t < worker->n_targets; t++) {
        bool is_server = t < worker->n_servers;

        header.server = hosts && !is_server;
        header.n_ranks = hosts && is_server ? (uint32_t)worker->depot->n_mates : 0;
        if (marks[t]) {
            say_refused(use, &header, byteps_target_peer(worker, t), text);
        }
    }
    free(marks);
}

/* With this thread's text. What is cancelled leaves the job, which tells the others. */
static void fail_to_arrive(byteps_use_t *use, kvs_status_t status)
{
    const kvs_net_peer_t *self = kvs_net_node_self(use->key->worker->node);
    kvs_net_text_t text = {.n = 0};

    kvs_net_text_add(&text, "%s: %s: %s", BYTEPS_KEY_TEXT(&use->header), self->label,
                     kvs_plugin_host->last_error());
    if (status != KVS_ERR_CANCELLED) {
        refuse(use, status, text.bytes);
    }
    byteps_use_fail(use, status, text.bytes);
    byteps_use_end(use);
}

/* Put it back where it waits for its turn, or end its use. False: it is still parked. */
static bool take_up(byteps_part_t *part)
{
    byteps_use_t *use = part->use;
    kvs_status_t status = look_for_elements(part);

    if ((int)status == NOT_ARRIVED) {
        return false;
    }
    if (status != KVS_OK) {
        fail_to_arrive(use, status);
        return true;
    }
    unpark(part);
    if (!byteps_part_queue(part)) {
        byteps_use_fail(use, KVS_ERR_NO_MEMORY, "no memory for a queue of parts");
        byteps_use_end(use);
    }
    return true;
}

static void take_arrived(void *arg)
{
    byteps_worker_t *worker = arg;
    byteps_part_t **at;

    pthread_mutex_lock(&worker->lock);
    worker->is_called = false;
    at = &worker->parked;
    while (*at != NULL) { /* from the start again: a use that ends takes others with it */
        at = take_up(*at) ? &worker->parked : &(*at)->next_parked;
    }
    byteps_parts_send(worker);
    byteps_worker_settle(worker);
}

/* The I/O thread sends it: it alone tells the core of ends. */
void byteps_worker_arrived(byteps_worker_t *worker)
{
    bool calls;

    pthread_mutex_lock(&worker->lock);
    calls = worker->parked != NULL && !worker->is_called;
    worker->is_called |= calls;
    pthread_mutex_unlock(&worker->lock);
    if (calls && kvs_net_node_call(worker->node, take_arrived, worker) != KVS_OK) {
        pthread_mutex_lock(&worker->lock);
        worker->is_called = false; /* the next arrival tries again */
        pthread_mutex_unlock(&worker->lock);
    }
}

/* ---- Sending ------------------------------------------------------------------------------------------ */

static void block_is_read(void *arg, kvs_status_t status, const char *text)
{
    byteps_use_t *use = arg;
    byteps_worker_t *worker = use->key->worker;

    (void)status; /* a server that is lost is replaced */
    (void)text;
    pthread_mutex_lock(&worker->lock);
    use->n_held--;
    byteps_use_look(use);
    byteps_worker_settle(worker);
}

static kvs_status_t send_block(byteps_part_t *part)
{
    byteps_use_t *use = part->use;
    byteps_worker_t *worker = use->key->worker;
    byteps_header_t header = use->header;
    uint8_t bytes[BYTEPS_MAX_HEADER_BYTES];
    kvs_net_send_t net = KVS_NET_SEND_INIT;
    bool is_held;
    kvs_status_t status;

    header.block = part->first_block + part->n_sent;
    header.server = use->key->servers == NULL ? 0 : use->key->servers[part->index] + 1;
    byteps_message_of(worker, &header, bytes, &net);
    if (use->source != NULL) {
        net.body = use->source + header.block * BYTEPS_BLOCK_BYTES;
        net.n_body_bytes = byteps_block_bytes(use, header.block);
    }
    is_held = net.n_body_bytes > SMALL_BYTES;
    if (is_held) {
        net.done = block_is_read;
        net.arg = use;
    }
    status = kvs_net_send(worker->node, byteps_target_peer(worker, part->target), &net);
    if (status == KVS_OK) {
        part->n_sent++;
        use->n_held += is_held;
    }
    return status;
}

static bool may_start(const byteps_worker_t *worker, const byteps_part_t *part)
{
    return part->started || part->use->wanted || worker->credit_bytes == 0 ||
           worker->n_in_flight == 0 ||
           worker->n_in_flight + bytes_from(part, part->n_sent) <= worker->credit_bytes;
}

/* The most urgent part of all servers that take something; NULL: none. */
static byteps_part_t *next_part(const byteps_worker_t *worker)
{
    byteps_part_t *next = NULL;

    for (uint32_t t = 0; t < worker->n_targets; t++) {
        const byteps_target_t *target = &worker->targets[t];

        if (target->n_heap > 0 && !target->is_full &&
            (next == NULL || is_before(target->heap[0], next)) &&
            may_start(worker, target->heap[0])) {
            next = target->heap[0];
        }
    }
    return next;
}

static void send_some(byteps_worker_t *worker, byteps_part_t *part)
{
    byteps_use_t *use = part->use;
    kvs_status_t status = look_for_elements(part);

    if ((int)status == NOT_ARRIVED) {
        park(part);
        return;
    }
    if (status != KVS_OK) {
        fail_to_arrive(use, status);
        return;
    }
    status = send_block(part);
    if (status == KVS_NET_AGAIN || status == KVS_ERR_PEER) { /* room, or the loss, is told */
        worker->targets[part->target].is_full = true;
    } else if (status != KVS_OK) {
        byteps_use_fail(use, status, kvs_plugin_host->last_error());
        byteps_use_end(use);
    } else {
        worker->n_in_flight += part->started ? 0 : bytes_from(part, part->n_sent - 1);
        part->started = true;
        if (part->n_sent - part->n_got == 1) { /* nothing was awaited of it before */
            use->moved_ns = byteps_now_ns();
        }
        if (part->n_sent == part->n_blocks) {
            byteps_part_unqueue(part);
        }
    }
}

void byteps_parts_send(byteps_worker_t *worker)
{
    byteps_part_t *part;

    if (worker->pumping) { /* what fails below may begin others */
        return;
    }
    worker->pumping = true;
    while ((part = next_part(worker)) != NULL) {
        send_some(worker, part);
    }
    worker->pumping = false;
}
