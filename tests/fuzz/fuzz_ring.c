/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_ring.c - any bytes as what the other side wrote into a ring: its own state first, then entries. The
 * reader refuses them or stays within the memory; the writer likewise believes nothing. Seeds lie in
 * seeds/ring. Holds are released in the order of the bytes' own choosing. */
#include "ring.h"
#include "fuzz_host.h"

#include <unistd.h>

#define MAX_HELD   64
#define STATE      (5 * sizeof(uint64_t)) /* tail, read, received, head, choices */
#define DATA_BYTES NET_RING_MIN

/* Memory as segment.c makes it, without descriptors. */
static net_memory_t memory;

kvs_status_t net_memory_new(size_t n_bytes, net_memory_t *ret_memory, int *ret_fd)
{
    memory.n_bytes = n_bytes;
    *ret_memory = memory;
    *ret_fd = -1;
    return KVS_OK;
}

kvs_status_t net_memory_map(int fd, size_t n_bytes, net_memory_t *ret_memory)
{
    (void)fd;
    require(n_bytes == memory.n_bytes);
    *ret_memory = memory;
    return KVS_OK;
}

void net_memory_unmap(net_memory_t *mapped)
{
    mapped->data = NULL;
}

/* Look at each byte, so that reading past the memory's end is noticed. */
static void touch(const uint8_t *bytes, uint64_t n)
{
    static volatile uint8_t last;

    for (uint64_t i = 0; i < n; i++) {
        last = bytes[i];
    }
    (void)last;
}

static void read_all(net_reader_t *reader, uint64_t choices)
{
    net_held_t *held[MAX_HELD];
    size_t n_held = 0;
    const uint8_t *header, *body;
    net_entry_t entry;

    for (int i = 0; i < 10000 && net_reader_peek(reader, &entry, &header, &body) == 1; i++) {
        bool stays = (choices >> (i % 64) & 1) != 0 && n_held < MAX_HELD &&
                     net_reader_may_hold(reader, &entry);

        touch(header, entry.n_header);
        touch(body, entry.n_body);
        if (stays) {
            held[n_held] = malloc(sizeof(**held));
        }
        net_reader_take(reader, &entry, stays ? held[n_held++] : NULL);
        net_reader_tell(reader, entry.seq);
    }
    while (n_held > 0) {
        size_t which = choices % n_held;
        net_held_t *unused = net_reader_release(reader, held[which]);

        held[which] = held[--n_held];
        while (unused != NULL) {
            net_held_t *next = unused->next;

            free(unused);
            unused = next;
        }
    }
}

/* What a writer makes of the reader's numbers, having written some itself. */
static void write_some(net_writer_t *writer, const uint64_t *state)
{
    static const uint8_t bytes[4096];
    net_entry_t entry = {.n_header = 40, .n_body = sizeof(bytes)};
    uint64_t received;

    for (int i = 0; i < 40; i++) {
        writer->ring->read = state[1];
        writer->ring->head = state[3];
        writer->ring->received = state[2];
        if (net_writer_look(writer, &received) != KVS_OK) {
            return;
        }
        require(net_writer_free_bytes(writer) <= writer->capacity);
        (void)net_writer_put(writer, &entry, bytes, bytes);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    static const net_ring_id_t id = {1, 2, 3, 0};
    net_bell_t bell = {.door = -1};
    uint64_t state[5];
    net_writer_t *writer;
    net_reader_t *reader;
    int fd;

    if (n_bytes < STATE) {
        return 0;
    }
    memcpy(state, data, STATE);
    data += STATE;
    n_bytes -= STATE;
    memory.data =
        aligned_alloc(NET_RING_SPREAD, NET_RING_FIXED + DATA_BYTES); /* ASan's each time */
    memset(memory.data, 0, NET_RING_FIXED + DATA_BYTES);
    require(net_writer_new(&id, 1, &bell, &writer, &fd) == KVS_OK);
    require(net_reader_new(fd, memory.n_bytes, &id, 1 << 20, &bell, &reader) == KVS_OK);
    memcpy(writer->data, data, n_bytes < DATA_BYTES ? n_bytes : DATA_BYTES);
    writer->ring->tail = state[0];
    read_all(reader, state[4]);
    writer->tail = 0;
    write_some(writer, state);
    net_reader_unref(reader);
    net_writer_free(writer);
    free(memory.data);
    return 0;
}
