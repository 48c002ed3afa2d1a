/* SPDX-License-Identifier: Apache-2.0 */
/* byteps_part.c - parts wait in a heap for each server, the most urgent first, and are begun as long as the
 * bytes whose results are not in place yet stay below the credit. A use that others wait for needs no
 * credit: workers that begin keys in different orders would otherwise wait for each other. */
#include "byteps_worker.h"

#include <endian.h>
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

void byteps_part_unqueue(byteps_part_t *part)
{
    size_t i = part->at - 1;
    byteps_target_t *target;

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

static uint32_t target_number(const byteps_worker_t *worker, const kvs_net_peer_t *peer)
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
        worker->n_in_flight -= part->started ? bytes_from(part, part->n_got) : 0;
        part->started = false;
    }
    for (uint32_t t = 0; t < worker->n_targets; t++) {
        if (has_sent_to(use, t)) {
            say(worker, t, &header);
        }
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
           worker->n_in_flight + bytes_from(part, part->n_got) <= worker->credit_bytes;
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
    kvs_status_t status = send_block(part);

    if (status == KVS_NET_AGAIN || status == KVS_ERR_PEER) { /* room, or the loss, is told */
        worker->targets[part->target].is_full = true;
    } else if (status != KVS_OK) {
        byteps_use_fail(use, status, kvs_plugin_host->last_error());
        byteps_use_end(use);
    } else {
        worker->n_in_flight += part->started ? 0 : bytes_from(part, part->n_got);
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

/* ---- Where parts go ----------------------------------------------------------------------------------- */

static bool make_known(byteps_worker_t *worker, uint64_t id)
{
    size_t n = worker->n_known == 0 ? 256 : worker->n_known;
    byteps_known_t *grown;

    if (id > UINT32_MAX) {
        return false;
    }
    while (n <= id) {
        n *= 2;
    }
    if (n > worker->n_known) {
        grown = realloc(worker->known, n * sizeof(*grown));
        if (grown == NULL) {
            return false;
        }
        memset(grown + worker->n_known, 0, (n - worker->n_known) * sizeof(*grown));
        worker->known = grown;
        worker->n_known = n;
    }
    return true;
}

/* Takes over `targets`. */
static kvs_status_t set_places(byteps_key_t *key, uint64_t id, uint64_t n, uint32_t *targets)
{
    if (targets == NULL || !make_known(key->worker, id)) {
        free(targets);
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for the places of a key");
    }
    free(key->targets);
    key->id = id;
    key->n_places = n;
    key->targets = targets;
    key->worker->known[id].key = key;
    return KVS_OK;
}

static kvs_status_t look_up(byteps_worker_t *worker, const byteps_header_t *header,
                            uint64_t n_parts, const byteps_place_t **ret_place)
{
    uint64_t n_bytes = (uint64_t)byteps_n_elems(header) * (uint64_t)kvs_dtype_bytes(header->dtype);
    uint64_t part_bytes = byteps_blocks_per_part(worker) * BYTEPS_BLOCK_BYTES;
    uint64_t before = (n_parts - 1) * part_bytes;

    return byteps_book_place(&worker->book, header, n_parts, part_bytes,
                             n_bytes > before ? n_bytes - before : 0, ret_place);
}

static kvs_status_t place_here(byteps_key_t *key, const byteps_use_t *use)
{
    const byteps_place_t *place;
    kvs_status_t status = look_up(key->worker, &use->header, use->n_parts, &place);
    uint32_t *targets;

    if (status != KVS_OK) {
        return status;
    }
    targets = malloc((size_t)place->n_parts * sizeof(*targets));
    if (targets != NULL) {
        memcpy(targets, place->servers, (size_t)place->n_parts * sizeof(*targets));
    }
    return set_places(key, place->id, place->n_parts, targets);
}

static kvs_status_t ask(byteps_key_t *key, const byteps_use_t *use)
{
    byteps_worker_t *worker = key->worker;
    byteps_header_t header = use->header;
    uint8_t bytes[BYTEPS_MAX_HEADER_BYTES];
    kvs_net_send_t net = KVS_NET_SEND_INIT;
    kvs_status_t status;

    header.kind = BYTEPS_ASK;
    header.block = use->n_parts;
    header.exchange = worker->n_asks + 1;
    byteps_message_of(worker, &header, bytes, &net);
    net.flags = KVS_NET_URGENT;
    status = kvs_net_send(worker->node, kvs_net_node_peer(worker->node, KVS_NET_WORKER, 0), &net);
    if (status != KVS_OK) {
        return status;
    }
    key->ask = ++worker->n_asks;
    key->next_asking = NULL;
    if (worker->asking == NULL) {
        worker->asking = key;
    } else {
        worker->last_asking->next_asking = key;
    }
    worker->last_asking = key;
    return KVS_OK;
}

void byteps_key_ask(byteps_key_t *key, const byteps_use_t *use)
{
    bool here = key->worker->rank == 0;
    kvs_status_t status = here ? place_here(key, use)
                          : key->ask == 0
                              ? ask(key, use)
                              : KVS_OK; /* for a use that has failed: it is answered yet */

    if (status != KVS_OK) {
        byteps_use_fail(key->current, status, kvs_plugin_host->last_error());
        byteps_use_end(key->current);
    } else if (here) {
        byteps_key_go_on(key);
    }
}

/* Where the asker's key goes, as a body of u32; else why it can't be told. */
static kvs_status_t find_places(byteps_worker_t *worker, const byteps_header_t *header,
                                const byteps_place_t **ret_place, uint32_t **ret_body)
{
    kvs_status_t status;
    uint32_t *body;

    if (worker->rank != 0 || header->block != byteps_n_parts(worker, header)) {
        return kvs_fail(KVS_ERR_FORMAT, "%s: worker %d can't say where its parts go",
                        BYTEPS_KEY_TEXT(header), worker->rank);
    }
    status = look_up(worker, header, header->block, ret_place);
    if (status != KVS_OK) {
        return status;
    }
    body = malloc((size_t)(*ret_place)->n_parts * sizeof(*body));
    if (body == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory to say where a key of %llu parts goes",
                        (unsigned long long)(*ret_place)->n_parts);
    }
    for (uint64_t i = 0; i < (*ret_place)->n_parts; i++) {
        body[i] = htole32((*ret_place)->servers[i]);
    }
    *ret_body = body;
    return KVS_OK;
}

static void answer_ask(byteps_worker_t *worker, const byteps_header_t *header,
                       const kvs_net_message_t *message)
{
    byteps_header_t answer = {.kind = BYTEPS_PLACES, .exchange = header->exchange};
    const byteps_place_t *place = NULL;
    uint8_t bytes[BYTEPS_MAX_HEADER_BYTES];
    kvs_net_send_t net = KVS_NET_SEND_INIT;
    uint32_t *body = NULL;

    answer.status = find_places(worker, header, &place, &body);
    if (answer.status == KVS_OK) {
        answer.id = place->id;
        net.body = body;
        net.n_body_bytes = (size_t)place->n_parts * sizeof(*body);
    } else {
        net.body = kvs_plugin_host->last_error();
        net.n_body_bytes = strlen(net.body);
    }
    byteps_message_of(worker, &answer, bytes, &net);
    net.store = message->store; /* we may not have come as far as to know it */
    net.flags = KVS_NET_URGENT;
    (void)kvs_net_send(worker->node, message->from, &net); /* if it is gone, it needs no answer */
    free(body);
}

void byteps_key_forget_ask(byteps_key_t *key)
{
    byteps_worker_t *worker = key->worker;
    byteps_key_t *before = NULL;

    if (key->ask == 0) {
        return;
    }
    for (byteps_key_t *at = worker->asking; at != key; at = at->next_asking) {
        before = at;
    }
    if (before == NULL) {
        worker->asking = key->next_asking;
    } else {
        before->next_asking = key->next_asking;
    }
    worker->last_asking = worker->last_asking == key ? before : worker->last_asking;
    key->ask = 0;
}

/* Answers come in the order of what was asked, but some may be missing. */
static byteps_key_t *take_asking(byteps_worker_t *worker, uint64_t number)
{
    byteps_key_t *key = worker->asking;

    while (key != NULL && key->ask != number) {
        key = key->next_asking;
    }
    if (key != NULL) {
        byteps_key_forget_ask(key);
    }
    return key;
}

/* NULL: not nodes of this job, or no memory. */
static uint32_t *read_places(const byteps_worker_t *worker, const kvs_net_message_t *message,
                             size_t n)
{
    uint32_t *targets = n == 0 ? NULL : malloc(n * sizeof(*targets));

    for (size_t i = 0; i < n && targets != NULL; i++) {
        memcpy(&targets[i], (const uint8_t *)message->body + i * sizeof(*targets),
               sizeof(*targets));
        targets[i] = le32toh(targets[i]);
        if (targets[i] >= worker->n_targets) {
            free(targets);
            targets = NULL;
        }
    }
    return targets;
}

static kvs_status_t accept_places(byteps_key_t *key, const byteps_header_t *header,
                                  const kvs_net_message_t *message)
{
    size_t n = message->n_body_bytes / sizeof(uint32_t);
    uint32_t *targets;

    if (header->status != KVS_OK) {
        return kvs_fail(header->status, "%s could not place the key: %.*s", message->from->label,
                        (int)(message->n_body_bytes < 512 ? message->n_body_bytes : 512),
                        (const char *)message->body);
    }
    targets = read_places(key->worker, message, n);
    if (targets == NULL || header->id == 0) {
        free(targets);
        return kvs_fail(KVS_ERR_PEER, "%s sent places that make no sense", message->from->label);
    }
    return set_places(key, header->id, n, targets);
}

static void take_places(byteps_worker_t *worker, const byteps_header_t *header,
                        const kvs_net_message_t *message)
{
    byteps_key_t *key = message->from->rank == 0 ? take_asking(worker, header->exchange) : NULL;
    kvs_status_t status;

    if (key == NULL) {
        return;
    }
    status = accept_places(key, header, message);
    if (status == KVS_OK) {
        byteps_key_go_on(key);
    } else if (key->current != NULL) {
        byteps_use_fail(key->current, status, kvs_plugin_host->last_error());
        byteps_use_end(key->current);
    }
}

/* ---- Answers ------------------------------------------------------------------------------- */

/* The use that a server's message is about, if it is still on its way. */
static byteps_use_t *find_use(const byteps_worker_t *worker, const byteps_header_t *header)
{
    byteps_key_t *key = header->id < worker->n_known ? worker->known[header->id].key : NULL;
    byteps_use_t *use = key == NULL ? NULL : key->current;

    return use != NULL && use->number == header->exchange && use->parts != NULL ? use : NULL;
}

static byteps_part_t *find_part(const byteps_worker_t *worker, byteps_use_t *use,
                                const byteps_header_t *header, const kvs_net_message_t *message)
{
    uint64_t i = header->block / byteps_blocks_per_part(worker);
    byteps_part_t *part = i < use->n_parts ? &use->parts[i] : NULL;

    return part != NULL && part->target == target_number(worker, message->from) &&
                   part->n_got < part->n_sent && header->block == part->first_block + part->n_got &&
                   message->n_body_bytes == byteps_block_bytes(use, header->block)
               ? part
               : NULL;
}

static void got_block(byteps_part_t *part, uint64_t block)
{
    byteps_use_t *use = part->use;

    use->key->worker->n_in_flight -= byteps_block_bytes(use, block);
    use->moved_ns = byteps_now_ns();
    if (++part->n_got == part->n_blocks) {
        part->started = false;
        if (--use->n_parts_left == 0) {
            byteps_use_end(use);
        }
    }
}

/* Writing takes long, so it is done without the lock; the use is held meanwhile. */
static void take_result(byteps_worker_t *worker, const byteps_header_t *header,
                        const kvs_net_message_t *message)
{
    byteps_use_t *use = find_use(worker, header);
    byteps_part_t *part = use == NULL ? NULL : find_part(worker, use, header, message);

    if (part == NULL) {
        return; /* of a use that has failed */
    }
    use->n_held++;
    pthread_mutex_unlock(&worker->lock);
    byteps_use_write(use, header->block, message->body);
    pthread_mutex_lock(&worker->lock);
    use->n_held--;
    if (!use->over) {
        got_block(part, header->block);
    }
    byteps_use_look(use);
    byteps_parts_send(worker);
}

static void take_failed(byteps_worker_t *worker, const byteps_header_t *header,
                        const kvs_net_message_t *message)
{
    byteps_use_t *use = find_use(worker, header);
    char text[4096];

    if (use != NULL) {
        size_t n = message->n_body_bytes < sizeof(text) ? message->n_body_bytes : sizeof(text) - 1;

        memcpy(text, message->body, n);
        text[n] = '\0';
        byteps_use_fail(use, header->status == KVS_OK ? KVS_ERR_PEER : header->status, text);
        byteps_use_end(use);
        byteps_parts_send(worker); /* there is credit again */
    }
}

static void take_wanted(byteps_worker_t *worker, const byteps_header_t *header)
{
    byteps_use_t *use = find_use(worker, header);

    if (!make_known(worker, header->id)) {
        return;
    }
    worker->known[header->id].wanted = header->exchange;
    if (use == NULL || use->wanted) {
        return;
    }
    for (uint64_t i = 0; i < use->n_parts; i++) {
        byteps_part_unqueue(&use->parts[i]);
    }
    use->wanted = true;
    for (uint64_t i = 0; i < use->n_parts; i++) {
        if (use->parts[i].n_sent < use->parts[i].n_blocks) {
            (void)byteps_part_queue(&use->parts[i]); /* there is room: it has just gone */
        }
    }
    byteps_parts_send(worker);
}

static void take_answer(byteps_worker_t *worker, const byteps_header_t *header,
                        kvs_net_message_t *message)
{
    switch ((byteps_kind_t)header->kind) {
    case BYTEPS_RESULT:
        take_result(worker, header, message);
        break;
    case BYTEPS_FAILED:
        take_failed(worker, header, message);
        break;
    case BYTEPS_WANTED:
        take_wanted(worker, header);
        break;
    default: /* SETTLED */
        break;
    }
    if (message->from->role == KVS_NET_SERVER) {
        byteps_settle_kept(worker, (uint32_t)message->from->rank, header->settled);
    }
    if (header->kind == BYTEPS_RESULT && header->answer > header->settled) {
        byteps_keep(worker, header, message);
    } else {
        kvs_net_message_release(message);
    }
}

static bool is_for_depot(const byteps_header_t *header)
{
    return header->kind == BYTEPS_BLOCK || header->kind == BYTEPS_DROP ||
           header->kind == BYTEPS_CLOSE;
}

/* What workers say to one that sums. A worker that has closed the store sums no more either. */
static void take_for_depot(byteps_worker_t *worker, const byteps_header_t *header,
                           kvs_net_message_t *message)
{
    int rank = message->from->rank;

    byteps_depot_take(worker->depot, header, message);
    if (header->kind == BYTEPS_CLOSE) {
        pthread_mutex_lock(&worker->lock);
        byteps_worker_lose(worker, rank, worker->depot->closed[rank]);
        byteps_worker_settle(worker);
    }
}

static void take(byteps_worker_t *worker, const byteps_header_t *header, kvs_net_message_t *message)
{
    pthread_mutex_lock(&worker->lock);
    if (header->kind == BYTEPS_ASK || header->kind == BYTEPS_PLACES) {
        if (message->from->role == KVS_NET_WORKER && header->kind == BYTEPS_ASK) {
            answer_ask(worker, header, message);
        } else if (message->from->role == KVS_NET_WORKER) {
            take_places(worker, header, message);
        }
        kvs_net_message_release(message);
    } else {
        take_answer(worker, header, message);
    }
    byteps_worker_settle(worker);
}

void byteps_worker_message(void *store, kvs_net_message_t *message)
{
    byteps_worker_t *worker = store;
    byteps_header_t header;

    if (byteps_header_decode(message->header, message->n_header_bytes, &header) != KVS_OK) {
        kvs_log(KVS_LOG_WARN, "byteps", "a message from %s is dropped: it is malformed",
                message->from->label);
        kvs_net_message_release(message);
    } else if (is_for_depot(&header) && message->from->role == KVS_NET_WORKER) {
        take_for_depot(worker, &header, message);
    } else {
        take(worker, &header, message);
    }
}
