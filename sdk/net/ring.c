/* SPDX-License-Identifier: Apache-2.0 */
/* ring.c - see ring.h. A message lies in one piece: what does not fit before the end of the memory begins
 * anew at its start. Space is given back in order, so that one message that is held for long holds up
 * what comes after it; the writer then has its socket. */
#include "ring.h"

#include "wire.h"

#include <stdlib.h>
#include <string.h>

_Static_assert(sizeof(net_ring_t) <= NET_RING_FIXED, "the data begins behind it");
_Static_assert(sizeof(net_entry_t) == NET_RING_LINE, "an entry's header is one line");

static uint64_t padded(uint64_t n)
{
    return (n + NET_RING_LINE - 1) & ~(uint64_t)(NET_RING_LINE - 1);
}

uint64_t net_entry_bytes(uint64_t n_header, uint64_t n_body)
{
    return NET_RING_LINE + padded(n_header) + padded(n_body);
}

/* ---- Bells ----------------------------------------------------------------------------------- */

net_bell_t net_bell(int door, uint64_t from, uint64_t to)
{
    return (net_bell_t){.door = door,
                        .to = net_door_address(to),
                        .note = {.kind = NET_NOTE_BELL, .from = from, .to = to}};
}

/* If it can't be rung, it has rung already, or nobody is there. */
static void ring_if_asleep(_Atomic uint32_t *sleeps, const net_bell_t *bell)
{
    if (atomic_load_explicit(sleeps, memory_order_seq_cst) != 0 && bell->door >= 0 &&
        atomic_exchange_explicit(sleeps, 0, memory_order_seq_cst) != 0) {
        (void)net_door_send(bell->door, &bell->to, &bell->note, -1);
    }
}

/* ---- The writer ------------------------------------------------------------------------------ */

static uint64_t capacity_for(uint64_t window)
{
    uint64_t capacity = NET_RING_MIN;

    while (capacity < window && capacity < NET_RING_MAX) {
        capacity *= 2;
    }
    return capacity;
}

kvs_status_t net_writer_new(const net_ring_id_t *id, uint64_t window, const net_bell_t *bell,
                            net_writer_t **ret_writer, int *ret_fd)
{
    uint64_t capacity = capacity_for(window);
    net_writer_t *writer = calloc(1, sizeof(*writer));
    kvs_status_t status;

    if (writer == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for a ring");
    }
    status = net_memory_new(NET_RING_FIXED + capacity, &writer->memory, ret_fd);
    if (status != KVS_OK) {
        free(writer);
        return status;
    }
    writer->ring = writer->memory.data;
    writer->data = (uint8_t *)writer->memory.data + NET_RING_FIXED;
    writer->bell = *bell;
    writer->capacity = capacity;
    writer->ring->magic = NET_RING_MAGIC;
    writer->ring->capacity = capacity;
    writer->ring->token = id->token;
    writer->ring->from = id->from;
    writer->ring->to = id->to;
    writer->ring->lane = id->lane;
    *ret_writer = writer;
    return KVS_OK;
}

void net_writer_free(net_writer_t *writer)
{
    if (writer != NULL) {
        net_memory_unmap(&writer->memory);
        free(writer);
    }
}

net_ring_state_t net_writer_state(const net_writer_t *writer)
{
    return (net_ring_state_t)atomic_load_explicit(&writer->ring->state, memory_order_acquire);
}

/* A quarter at most, so that with half of the ring free it fits even where it has to begin anew. */
bool net_writer_fits(const net_writer_t *writer, uint64_t n_bytes)
{
    return n_bytes <= writer->capacity / 4;
}

static void get_news(const net_writer_t *writer, uint64_t news[3])
{
    const net_ring_t *ring = writer->ring;

    news[0] = atomic_load_explicit(&ring->read, memory_order_relaxed);
    news[1] = atomic_load_explicit(&ring->head, memory_order_relaxed);
    news[2] = atomic_load_explicit(&ring->received, memory_order_relaxed);
}

bool net_writer_has_news(const net_writer_t *writer)
{
    uint64_t news[3];

    get_news(writer, news);
    return news[0] != writer->seen[0] || news[1] != writer->seen[1] || news[2] != writer->seen[2];
}

void net_writer_note_news(net_writer_t *writer)
{
    get_news(writer, writer->seen);
}

/* The reader writes in the opposite order. */
kvs_status_t net_writer_look(net_writer_t *writer, uint64_t *ret_received)
{
    uint64_t head = atomic_load_explicit(&writer->ring->head, memory_order_acquire);
    uint64_t read = atomic_load_explicit(&writer->ring->read, memory_order_acquire);

    *ret_received = atomic_load_explicit(&writer->ring->received, memory_order_acquire);
    if (head < writer->head || read < writer->read || head > read || read > writer->tail ||
        head % NET_RING_LINE != 0) {
        return kvs_fail(KVS_ERR_FORMAT,
                        "a ring written up to %llu is said to be read up to %llu and free up to "
                        "%llu",
                        (unsigned long long)writer->tail, (unsigned long long)read,
                        (unsigned long long)head);
    }
    writer->head = head;
    writer->read = read;
    return KVS_OK;
}

static uint8_t *place(const net_writer_t *writer, uint64_t position)
{
    return writer->data + (position & (writer->capacity - 1));
}

/* Have the next `n` bytes in one piece; false: there is no room for that. */
static bool make_room(net_writer_t *writer, uint64_t n, uint64_t *ret_begin)
{
    uint64_t left = writer->capacity - (writer->tail & (writer->capacity - 1));
    uint64_t skip = n > left ? left : 0;

    if (skip + n > net_writer_free_bytes(writer)) {
        return false;
    }
    if (skip > 0) {
        net_entry_t entry = {.kind = NET_ENTRY_SKIP, .n_total = skip};

        memcpy(place(writer, writer->tail), &entry, sizeof(entry));
    }
    *ret_begin = writer->tail + skip;
    return true;
}

bool net_writer_put(net_writer_t *writer, const net_entry_t *entry, const void *header,
                    const void *body)
{
    net_entry_t copy = *entry;
    uint64_t begin;
    uint8_t *at;

    copy.kind = NET_ENTRY_DATA;
    copy.n_total = net_entry_bytes(entry->n_header, entry->n_body);
    if (!make_room(writer, copy.n_total, &begin)) {
        return false;
    }
    at = place(writer, begin);
    memcpy(at, &copy, sizeof(copy));
    if (entry->n_header > 0) {
        memcpy(at + NET_RING_LINE, header, entry->n_header);
    }
    if (entry->n_body > 0) {
        memcpy(at + NET_RING_LINE + padded(entry->n_header), body, entry->n_body);
    }
    writer->tail = begin + copy.n_total;
    atomic_store_explicit(&writer->ring->tail, writer->tail, memory_order_seq_cst);
    ring_if_asleep(&writer->ring->reader_sleeps, &writer->bell);
    return true;
}

void net_writer_wait(net_writer_t *writer)
{
    atomic_store_explicit(&writer->ring->writer_waits, 1, memory_order_seq_cst);
    atomic_thread_fence(memory_order_seq_cst);
}

/* ---- The reader ------------------------------------------------------------------------------ */

struct net_reader {
    net_memory_t memory;
    net_ring_t *ring;
    const uint8_t *data;
    uint64_t capacity, max_body;
    uint64_t read; /* the I/O thread's */
    _Atomic int n_refs;
    pthread_mutex_t lock;
    net_bell_t bell; /* the writer's; guarded by lock, like all below */
    uint64_t head;
    net_held_t *first, *last; /* in order of position; those before `first` are free */
};

/* What the writer says about itself is read once. */
static kvs_status_t check_offer(const net_memory_t *memory, const net_ring_id_t *id)
{
    const net_ring_t *ring = memory->data;
    uint64_t capacity = memory->n_bytes - NET_RING_FIXED;

    if (ring->magic != NET_RING_MAGIC || ring->capacity != capacity || ring->token != id->token ||
        ring->from != id->from || ring->to != id->to || ring->lane != id->lane) {
        return kvs_fail(KVS_ERR_PEER, "a ring was offered that is another one than was said");
    }
    return KVS_OK;
}

static bool is_size(uint64_t n_bytes)
{
    uint64_t capacity = n_bytes - NET_RING_FIXED;

    return n_bytes > NET_RING_FIXED && capacity >= NET_RING_MIN && capacity <= NET_RING_MAX &&
           (capacity & (capacity - 1)) == 0;
}

kvs_status_t net_reader_new(int fd, uint64_t n_bytes, const net_ring_id_t *id, uint64_t max_body,
                            const net_bell_t *bell, net_reader_t **ret_reader)
{
    net_reader_t *reader;
    kvs_status_t status;

    if (!is_size(n_bytes)) {
        return kvs_fail(KVS_ERR_PEER, "a ring of %llu bytes was offered",
                        (unsigned long long)n_bytes);
    }
    reader = calloc(1, sizeof(*reader));
    if (reader == NULL) {
        return kvs_fail(KVS_ERR_NO_MEMORY, "no memory for a ring");
    }
    status = net_memory_map(fd, (size_t)n_bytes, &reader->memory);
    status = status == KVS_OK ? check_offer(&reader->memory, id) : status;
    if (status != KVS_OK) {
        net_memory_unmap(&reader->memory);
        free(reader);
        return status;
    }
    reader->ring = reader->memory.data;
    reader->data = (const uint8_t *)reader->memory.data + NET_RING_FIXED;
    reader->capacity = n_bytes - NET_RING_FIXED;
    reader->max_body = max_body;
    reader->bell = *bell;
    atomic_init(&reader->n_refs, 1);
    pthread_mutex_init(&reader->lock, NULL);
    *ret_reader = reader;
    return KVS_OK;
}

net_ring_t *net_reader_ring(const net_reader_t *reader)
{
    return reader->ring;
}

bool net_reader_has_more(const net_reader_t *reader)
{
    return atomic_load_explicit(&reader->ring->tail, memory_order_acquire) != reader->read;
}

static int fail_entry(const net_entry_t *entry, uint64_t n_there)
{
    (void)kvs_fail(KVS_ERR_FORMAT,
                   "in a ring a message of kind %u, %llu bytes with a header of %u and a body of "
                   "%llu, where %llu bytes are there",
                   (unsigned)entry->kind, (unsigned long long)entry->n_total,
                   (unsigned)entry->n_header, (unsigned long long)entry->n_body,
                   (unsigned long long)n_there);
    return -1;
}

static bool is_data(const net_reader_t *reader, const net_entry_t *entry)
{
    return entry->kind == NET_ENTRY_DATA && entry->n_header <= KVS_NET_MAX_HEADER &&
           entry->n_body <= reader->max_body && entry->n_body <= reader->capacity &&
           (entry->flags & ~(uint32_t)(NET_ACK_NOW | NET_ENTRY_WANTS_ACK)) == 0 &&
           entry->zero[0] == 0 && entry->zero[1] == 0 && entry->zero[2] == 0 &&
           entry->n_total == net_entry_bytes(entry->n_header, entry->n_body);
}

static void publish_locked(net_reader_t *reader)
{
    reader->head = reader->first == NULL ? reader->read : reader->first->begin;
    atomic_store_explicit(&reader->ring->head, reader->head, memory_order_seq_cst);
}

static void move_to(net_reader_t *reader, uint64_t read, net_held_t *held)
{
    pthread_mutex_lock(&reader->lock);
    if (held != NULL) {
        *held = (net_held_t){.begin = reader->read};
        *(reader->first == NULL ? &reader->first : &reader->last->next) = held;
        reader->last = held;
    }
    reader->read = read;
    atomic_store_explicit(&reader->ring->read, read, memory_order_release);
    publish_locked(reader);
    pthread_mutex_unlock(&reader->lock);
}

int net_reader_peek(net_reader_t *reader, net_entry_t *ret_entry, const uint8_t **ret_header,
                    const uint8_t **ret_body)
{
    uint64_t tail = atomic_load_explicit(&reader->ring->tail, memory_order_acquire);

    for (;;) {
        uint64_t at = reader->read & (reader->capacity - 1), n_there = tail - reader->read;

        if (n_there == 0) {
            return 0;
        }
        *ret_entry = (net_entry_t){.kind = 0};
        if (n_there > reader->capacity || n_there % NET_RING_LINE != 0) {
            return fail_entry(ret_entry, n_there);
        }
        memcpy(ret_entry, reader->data + at, sizeof(*ret_entry));
        if (ret_entry->n_total > n_there || ret_entry->n_total > reader->capacity - at) {
            return fail_entry(ret_entry, n_there);
        }
        if (is_data(reader, ret_entry)) {
            *ret_header = reader->data + at + NET_RING_LINE;
            *ret_body = *ret_header + padded(ret_entry->n_header);
            return 1;
        }
        if (ret_entry->kind != NET_ENTRY_SKIP || ret_entry->n_total != reader->capacity - at) {
            return fail_entry(ret_entry, n_there);
        }
        move_to(reader, reader->read + ret_entry->n_total, NULL);
    }
}

bool net_reader_may_hold(net_reader_t *reader, const net_entry_t *entry)
{
    bool may;

    pthread_mutex_lock(&reader->lock);
    may = reader->read + entry->n_total - reader->head <= reader->capacity / 4 * 3;
    pthread_mutex_unlock(&reader->lock);
    return may;
}

void net_reader_take(net_reader_t *reader, const net_entry_t *entry, net_held_t *held)
{
    move_to(reader, reader->read + entry->n_total, held);
}

void net_reader_tell(net_reader_t *reader, uint64_t received)
{
    atomic_store_explicit(&reader->ring->received, received, memory_order_release);
}

/* The writer waits for room, and half of the ring is free, or all has been read. */
static bool should_wake(const net_reader_t *reader)
{
    net_ring_t *ring = reader->ring;
    uint64_t tail;

    if (atomic_load_explicit(&ring->writer_waits, memory_order_seq_cst) == 0) {
        return false;
    }
    tail = atomic_load_explicit(&ring->tail, memory_order_acquire);
    return (tail - reader->head <= reader->capacity / 2 || tail == reader->read) &&
           atomic_exchange_explicit(&ring->writer_waits, 0, memory_order_seq_cst) != 0;
}

static void wake_writer_locked(net_reader_t *reader, bool now)
{
    if (should_wake(reader) || now) {
        ring_if_asleep(&reader->ring->writer_sleeps, &reader->bell);
    }
}

void net_reader_wake_writer(net_reader_t *reader, bool now)
{
    pthread_mutex_lock(&reader->lock);
    wake_writer_locked(reader, now);
    pthread_mutex_unlock(&reader->lock);
}

net_held_t *net_reader_release(net_reader_t *reader, net_held_t *held)
{
    net_held_t *unused = NULL, **end;

    pthread_mutex_lock(&reader->lock);
    held->released = true;
    if (reader->first == held) {
        unused = held;
        for (end = &unused; *end != NULL && (*end)->released; end = &(*end)->next) {
        }
        reader->first = *end;
        *end = NULL;
        publish_locked(reader);
        wake_writer_locked(reader, false);
    }
    pthread_mutex_unlock(&reader->lock);
    return unused;
}

void net_reader_close(net_reader_t *reader)
{
    pthread_mutex_lock(&reader->lock);
    reader->bell.door = -1;
    pthread_mutex_unlock(&reader->lock);
}

net_reader_t *net_reader_ref(net_reader_t *reader)
{
    atomic_fetch_add_explicit(&reader->n_refs, 1, memory_order_relaxed);
    return reader;
}

void net_reader_unref(net_reader_t *reader)
{
    if (reader == NULL ||
        atomic_fetch_sub_explicit(&reader->n_refs, 1, memory_order_acq_rel) != 1) {
        return;
    }
    pthread_mutex_destroy(&reader->lock);
    net_memory_unmap(&reader->memory);
    free(reader);
}
