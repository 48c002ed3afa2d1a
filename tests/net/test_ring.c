/* SPDX-License-Identifier: Apache-2.0 */
/* A ring of messages in shared memory: what goes in comes out, in order, round and round; holds; room; and
 * what either side makes of nonsense of the other. Both ends in one thread. */
#include "ring.h"

#include "kt.h"
#include "wire.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define KIB UINT64_C(1024)

static const net_ring_id_t the_id = {.token = 11, .from = 12, .to = 13, .lane = 2};

typedef struct pair {
    net_writer_t *writer;
    net_reader_t *reader;
    int doors[2]; /* the writer's, the reader's */
} pair_t;

static void open_pair(pair_t *pair, uint64_t window)
{
    net_bell_t bell;
    int fd = -1;

    *pair = (pair_t){.writer = NULL};
    if (!KT_OK(net_door_open(the_id.from, &pair->doors[0])) ||
        !KT_OK(net_door_open(the_id.to, &pair->doors[1]))) {
        exit(1);
    }
    bell = net_bell(pair->doors[0], the_id.from, the_id.to);
    if (!KT_OK(net_writer_new(&the_id, window, &bell, &pair->writer, &fd))) {
        exit(1);
    }
    bell = net_bell(pair->doors[1], the_id.to, the_id.from);
    if (!KT_OK(net_reader_new(fd, pair->writer->memory.n_bytes, &the_id, 64 * KIB * KIB, &bell,
                              &pair->reader))) {
        exit(1);
    }
    close(fd);
}

static void close_pair(pair_t *pair)
{
    net_writer_free(pair->writer);
    net_reader_unref(pair->reader);
    close(pair->doors[0]);
    close(pair->doors[1]);
}

static uint8_t byte_at(uint64_t seq, size_t at)
{
    return (uint8_t)(seq * 37 + at * 11 + at / 255);
}

/* Header and body of message `seq`, and whether there was room. */
static bool put(pair_t *pair, uint64_t seq, size_t n_header, size_t n_body)
{
    net_entry_t entry = {.seq = seq, .n_header = (uint32_t)n_header, .n_body = n_body, .store = 5};
    uint8_t *bytes = malloc(n_header + n_body + 1);
    bool done;

    for (size_t i = 0; i < n_header + n_body; i++) {
        bytes[i] = byte_at(seq, i);
    }
    done = net_writer_put(pair->writer, &entry, bytes, bytes + n_header);
    free(bytes);
    return done;
}

/* `body` follows `n_before` bytes of the message. */
static size_t count_wrong(uint64_t seq, size_t n_before, const uint8_t *body, size_t n_body)
{
    size_t n_wrong = 0;

    for (size_t i = 0; i < n_body; i++) {
        n_wrong += body[i] != byte_at(seq, n_before + i);
    }
    return n_wrong;
}

/* The next message is this one; gives its body. */
static const uint8_t *take(pair_t *pair, uint64_t seq, size_t n_header, size_t n_body,
                           net_held_t *held)
{
    const uint8_t *header = NULL, *body = NULL;
    net_entry_t entry;

    KT_INT(net_reader_peek(pair->reader, &entry, &header, &body), 1);
    KT_INT(entry.seq, seq);
    KT_INT(entry.n_header, n_header);
    KT_INT(entry.n_body, n_body);
    KT_INT(entry.store, 5);
    KT_TRUE(((uintptr_t)body & 63) == 0);
    KT_INT(count_wrong(seq, 0, header, n_header) + count_wrong(seq, n_header, body, n_body), 0);
    net_reader_tell(pair->reader, seq);
    net_reader_take(pair->reader, &entry, held);
    return body;
}

static void look(pair_t *pair, uint64_t received)
{
    uint64_t got = 0;

    KT_OK(net_writer_look(pair->writer, &got));
    KT_INT(got, received);
}

static bool is_empty(pair_t *pair)
{
    const uint8_t *header, *body;
    net_entry_t entry;

    return net_reader_peek(pair->reader, &entry, &header, &body) == 0;
}

/* ---- Contents -------------------------------------------------------------------------------- */

static void odd_sizes_come_out_as_they_went_in_round_and_round(void)
{
    static const size_t headers[] = {0, 1, 63, 64, 65, 1000}, bodies[] = {0, 1, 64, 4095, 16000};
    pair_t pair;
    uint64_t seq = 0;

    open_pair(&pair, 64 * KIB);
    for (int round = 0; round < 20; round++) {
        for (size_t h = 0; h < 6; h++) {
            for (size_t b = 0; b < 5; b++) {
                look(&pair, seq);
                KT_TRUE(put(&pair, ++seq, headers[h], bodies[b]));
                (void)take(&pair, seq, headers[h], bodies[b], NULL);
                KT_TRUE(is_empty(&pair));
            }
        }
    }
    KT_TRUE(pair.writer->tail > 10 * 64 * KIB); /* it went round */
    close_pair(&pair);
}

static void a_full_ring_takes_no_more_until_something_is_read(void)
{
    pair_t pair;
    uint64_t seq = 0, first = 1;

    open_pair(&pair, 64 * KIB);
    while (put(&pair, seq + 1, 10, 5000)) {
        seq++;
    }
    KT_INT(seq, 64 * KIB / (64 + 64 + 5056)); /* whole lines of 64 bytes */
    KT_TRUE(net_writer_free_bytes(pair.writer) < 5184);
    (void)take(&pair, first++, 10, 5000, NULL);
    KT_TRUE(!put(&pair, seq + 1, 10, 5000)); /* not seen yet */
    look(&pair, 1);
    (void)take(&pair, first++, 10, 5000, NULL); /* 64 KiB are no multiple: some are skipped */
    look(&pair, 2);
    KT_TRUE(put(&pair, ++seq, 10, 5000));
    while (first <= seq) {
        (void)take(&pair, first++, 10, 5000, NULL);
    }
    KT_TRUE(is_empty(&pair));
    look(&pair, seq);
    KT_INT(net_writer_unread(pair.writer), 0);
    KT_INT(net_writer_free_bytes(pair.writer), 64 * KIB);
    close_pair(&pair);
}

/* A quarter fits wherever the ring stands, as long as half of it is free. */
static void with_half_of_it_free_a_quarter_fits(void)
{
    pair_t pair;
    uint64_t seq = 0;
    size_t quarter = 16 * KIB - 64;

    open_pair(&pair, 64 * KIB);
    KT_TRUE(net_writer_fits(pair.writer, net_entry_bytes(0, quarter)));
    KT_TRUE(!net_writer_fits(pair.writer, net_entry_bytes(0, quarter + 1)));
    for (size_t step = 0; step < 300; step++) {
        net_held_t held;
        net_entry_t entry;
        const uint8_t *header, *body;

        KT_TRUE(put(&pair, ++seq, 0, 64 * (step % 250)));
        KT_INT(net_reader_peek(pair.reader, &entry, &header, &body), 1);
        KT_TRUE(net_reader_may_hold(pair.reader, &entry));
        (void)take(&pair, seq, 0, 64 * (step % 250), &held);
        look(&pair, seq);
        KT_TRUE(put(&pair, ++seq, 0, quarter));
        (void)take(&pair, seq, 0, quarter, NULL);
        KT_TRUE(net_reader_release(pair.reader, &held) == &held);
        look(&pair, seq);
    }
    close_pair(&pair);
}

/* ---- Holds ----------------------------------------------------------------------------------- */

static void held_messages_keep_their_place_in_whatever_order_they_go(void)
{
    static const int orders[][4] = {{0, 1, 2, 3}, {3, 2, 1, 0}, {1, 3, 0, 2}, {2, 0, 3, 1}};
    pair_t pair;
    uint64_t seq = 0;

    open_pair(&pair, 64 * KIB);
    for (size_t o = 0; o < 4; o++) {
        net_held_t holds[4];
        const uint8_t *bodies[4];
        size_t n_unused = 0;

        for (int i = 0; i < 4; i++) {
            KT_TRUE(put(&pair, seq + 1 + (uint64_t)i, 3, 6000));
        }
        for (int i = 0; i < 4; i++) {
            bodies[i] = take(&pair, seq + 1 + (uint64_t)i, 3, 6000, &holds[i]);
        }
        look(&pair, seq + 4);
        KT_INT(net_writer_unread(pair.writer), 0);
        for (int i = 0; i < 4; i++) {
            int which = orders[o][i];

            KT_TRUE(net_writer_free_bytes(pair.writer) < 64 * KIB);
            KT_TRUE(put(&pair, seq + 5 + (uint64_t)i, 0, 6000)); /* does not disturb */
            KT_INT(count_wrong(seq + 1 + (uint64_t)which, 3, bodies[which], 6000), 0);
            for (net_held_t *at = net_reader_release(pair.reader, &holds[which]); at != NULL;
                 at = at->next) {
                n_unused++;
            }
            (void)take(&pair, seq + 5 + (uint64_t)i, 0, 6000, NULL);
            look(&pair, seq + 5 + (uint64_t)i);
        }
        KT_INT(n_unused, 4);
        KT_INT(net_writer_free_bytes(pair.writer), 64 * KIB);
        seq += 8;
    }
    close_pair(&pair);
}

static bool may_hold_next(pair_t *pair)
{
    net_entry_t entry;
    const uint8_t *header, *body;

    KT_INT(net_reader_peek(pair->reader, &entry, &header, &body), 1);
    return net_reader_may_hold(pair->reader, &entry);
}

static void no_more_than_three_quarters_may_be_held(void)
{
    pair_t pair;
    net_held_t held;

    open_pair(&pair, 64 * KIB);
    for (uint64_t seq = 1; seq <= 4; seq++) {
        KT_TRUE(put(&pair, seq, 0, 16000));
    }
    (void)take(&pair, 1, 0, 16000, &held);
    KT_TRUE(may_hold_next(&pair));
    (void)take(&pair, 2, 0, 16000, NULL);
    KT_TRUE(may_hold_next(&pair));
    (void)take(&pair, 3, 0, 16000, NULL);
    KT_TRUE(!may_hold_next(&pair)); /* the first holds up what comes after it */
    (void)net_reader_release(pair.reader, &held);
    KT_TRUE(may_hold_next(&pair));
    close_pair(&pair);
}

static void what_is_held_stays_mapped_after_the_reader_has_gone(void)
{
    pair_t pair;
    net_held_t held;
    const uint8_t *body;

    open_pair(&pair, 64 * KIB);
    KT_TRUE(put(&pair, 1, 0, 9000));
    body = take(&pair, 1, 0, 9000, &held);
    (void)net_reader_ref(pair.reader); /* the message's */
    net_reader_close(pair.reader);
    net_writer_free(pair.writer);
    pair.writer = NULL;
    net_reader_unref(pair.reader);
    KT_INT(count_wrong(1, 0, body, 9000), 0);
    (void)net_reader_release(pair.reader, &held);
    close_pair(&pair);
}

/* ---- Bells ----------------------------------------------------------------------------------- */

static int count_bells(int door, uint64_t from)
{
    net_door_address_t address;
    net_note_t note;
    int n = 0, fd;

    while (net_door_receive(door, &note, &address, &fd)) {
        n += note.kind == NET_NOTE_BELL && note.from == from;
    }
    return n;
}

static void who_sleeps_is_woken_once_and_nobody_else(void)
{
    pair_t pair;
    net_ring_t *ring;

    open_pair(&pair, 64 * KIB);
    ring = net_reader_ring(pair.reader);
    KT_TRUE(put(&pair, 1, 0, 8));
    KT_INT(count_bells(pair.doors[1], the_id.from), 0);
    ring->reader_sleeps = 1;
    KT_TRUE(put(&pair, 2, 0, 8) && put(&pair, 3, 0, 8));
    KT_INT(count_bells(pair.doors[1], the_id.from), 1);

    net_reader_wake_writer(pair.reader, true);
    KT_INT(count_bells(pair.doors[0], the_id.to), 0); /* it is awake */
    ring->writer_sleeps = 1;
    net_reader_wake_writer(pair.reader, false);
    KT_INT(count_bells(pair.doors[0], the_id.to), 0); /* it waits for nothing */
    net_reader_wake_writer(pair.reader, true);
    KT_INT(count_bells(pair.doors[0], the_id.to), 1);
    close_pair(&pair);
}

static void a_writer_without_room_is_woken_when_half_is_free(void)
{
    pair_t pair;
    net_held_t held[16];
    uint64_t seq = 0;

    open_pair(&pair, 64 * KIB);
    while (put(&pair, seq + 1, 0, 4032)) { /* 16 of 4 KiB each */
        seq++;
    }
    KT_INT(seq, 16);
    net_writer_wait(pair.writer);
    net_reader_ring(pair.reader)->writer_sleeps = 1;
    for (int i = 0; i < 15; i++) {
        (void)take(&pair, (uint64_t)i + 1, 0, 4032, &held[i]);
        net_reader_wake_writer(pair.reader, false);
    }
    KT_INT(count_bells(pair.doors[0], the_id.to), 0);
    for (int i = 0; i < 7; i++) {
        (void)net_reader_release(pair.reader, &held[i]);
    }
    KT_INT(count_bells(pair.doors[0], the_id.to), 0);
    (void)net_reader_release(pair.reader, &held[7]);
    KT_INT(count_bells(pair.doors[0], the_id.to), 1);
    (void)net_reader_release(pair.reader, &held[8]);
    KT_INT(count_bells(pair.doors[0], the_id.to), 0);
    close_pair(&pair);
}

/* ---- Nonsense -------------------------------------------------------------------------------- */

/* What a hostile writer can do: change an entry after it was written. */
static int peek_after(void (*spoil)(net_entry_t *entry))
{
    pair_t pair;
    const uint8_t *header, *body;
    net_entry_t entry;
    int got;

    open_pair(&pair, 64 * KIB);
    KT_TRUE(put(&pair, 1, 10, 100));
    memcpy(&entry, pair.writer->data, sizeof(entry));
    spoil(&entry);
    memcpy(pair.writer->data, &entry, sizeof(entry));
    got = net_reader_peek(pair.reader, &entry, &header, &body);
    if (got < 0) {
        KT_HAS(kvs_last_error(), "in a ring a message of kind");
    }
    close_pair(&pair);
    return got;
}

static void leave_be(net_entry_t *entry)
{
    (void)entry;
}

static void longer_than_there_is(net_entry_t *entry)
{
    entry->n_total += 64;
    entry->n_body += 64;
}

static void longer_than_it_says(net_entry_t *entry)
{
    entry->n_body = 10000;
}

static void wrapping_body(net_entry_t *entry)
{
    entry->n_body = UINT64_MAX - 63;
}

static void large_header(net_entry_t *entry)
{
    entry->n_header = UINT32_MAX;
}

static void no_bytes(net_entry_t *entry)
{
    entry->n_total = 0;
}

static void odd_bytes(net_entry_t *entry)
{
    entry->n_total--;
}

static void unknown_kind(net_entry_t *entry)
{
    entry->kind = 3;
}

static void unknown_flags(net_entry_t *entry)
{
    entry->flags = 8;
}

static void skip_in_the_middle(net_entry_t *entry)
{
    entry->kind = NET_ENTRY_SKIP;
}

static void an_entry_that_cannot_be_is_refused(void)
{
    KT_INT(peek_after(leave_be), 1);
    KT_INT(peek_after(longer_than_there_is), -1);
    KT_INT(peek_after(longer_than_it_says), -1);
    KT_INT(peek_after(wrapping_body), -1);
    KT_INT(peek_after(large_header), -1);
    KT_INT(peek_after(no_bytes), -1);
    KT_INT(peek_after(odd_bytes), -1);
    KT_INT(peek_after(unknown_kind), -1);
    KT_INT(peek_after(unknown_flags), -1);
    KT_INT(peek_after(skip_in_the_middle), -1);
}

static void a_tail_that_cannot_be_is_refused(void)
{
    static const uint64_t tails[] = {64 * 1024 + 64, UINT64_MAX, 1, 100, UINT64_MAX - 63};

    for (size_t i = 0; i < sizeof(tails) / sizeof(tails[0]); i++) {
        const uint8_t *header, *body;
        net_entry_t entry;
        pair_t pair;

        open_pair(&pair, 64 * KIB);
        net_reader_ring(pair.reader)->tail = tails[i];
        KT_INT(net_reader_peek(pair.reader, &entry, &header, &body), -1);
        close_pair(&pair);
    }
}

static void a_reader_that_cannot_be_there_is_refused(void)
{
    pair_t pair;
    uint64_t received = 0;
    net_ring_t *ring;

    open_pair(&pair, 64 * KIB);
    ring = net_reader_ring(pair.reader);
    KT_TRUE(put(&pair, 1, 0, 1000) && put(&pair, 2, 0, 1000));
    (void)take(&pair, 1, 0, 1000, NULL);
    look(&pair, 1);
    ring->read = pair.writer->tail + 64;
    KT_FAIL(net_writer_look(pair.writer, &received), KVS_ERR_FORMAT, "is said to be read up to");
    ring->read = 0;
    KT_FAIL(net_writer_look(pair.writer, &received), KVS_ERR_FORMAT, "is said to be read up to");
    ring->read = pair.writer->tail;
    ring->head = pair.writer->tail + 64;
    KT_FAIL(net_writer_look(pair.writer, &received), KVS_ERR_FORMAT, "free up to");
    ring->head = 0;
    KT_FAIL(net_writer_look(pair.writer, &received), KVS_ERR_FORMAT, "free up to");
    close_pair(&pair);
}

static void a_ring_that_is_another_one_than_was_said_is_refused(void)
{
    net_bell_t bell = net_bell(-1, 0, 0);
    net_writer_t *writer = NULL;
    net_reader_t *reader = NULL;
    int fd = -1;
    net_ring_id_t others[4] = {the_id, the_id, the_id, the_id};
    size_t n_bytes;

    others[0].token++;
    others[1].from++;
    others[2].to++;
    others[3].lane++;
    KT_OK(net_writer_new(&the_id, 1, &bell, &writer, &fd));
    n_bytes = writer->memory.n_bytes;
    for (int i = 0; i < 4; i++) {
        KT_FAIL(net_reader_new(fd, n_bytes, &others[i], 1000, &bell, &reader), KVS_ERR_PEER,
                "another one");
    }
    KT_FAIL(net_reader_new(fd, n_bytes - 1, &the_id, 1000, &bell, &reader), KVS_ERR_PEER,
            "bytes was offered");
    KT_FAIL(net_reader_new(fd, 0, &the_id, 1000, &bell, &reader), KVS_ERR_PEER, "of 0 bytes");
    KT_FAIL(net_reader_new(fd, UINT64_MAX, &the_id, 1000, &bell, &reader), KVS_ERR_PEER,
            "bytes was offered");
    KT_FAIL(net_reader_new(fd, 2 * (n_bytes - 4096) + 4096, &the_id, 1000, &bell, &reader),
            KVS_ERR_PEER, "are announced");
    writer->ring->capacity *= 2;
    KT_FAIL(net_reader_new(fd, n_bytes, &the_id, 1000, &bell, &reader), KVS_ERR_PEER,
            "another one");
    KT_TRUE(reader == NULL);
    net_reader_unref(NULL);
    net_writer_free(writer);
    net_writer_free(NULL);
    close(fd);
}

static const kt_test_t tests[] = {
    KT_TEST(odd_sizes_come_out_as_they_went_in_round_and_round),
    KT_TEST(a_full_ring_takes_no_more_until_something_is_read),
    KT_TEST(with_half_of_it_free_a_quarter_fits),
    KT_TEST(held_messages_keep_their_place_in_whatever_order_they_go),
    KT_TEST(no_more_than_three_quarters_may_be_held),
    KT_TEST(what_is_held_stays_mapped_after_the_reader_has_gone),
    KT_TEST(who_sleeps_is_woken_once_and_nobody_else),
    KT_TEST(a_writer_without_room_is_woken_when_half_is_free),
    KT_TEST(an_entry_that_cannot_be_is_refused),
    KT_TEST(a_tail_that_cannot_be_is_refused),
    KT_TEST(a_reader_that_cannot_be_there_is_refused),
    KT_TEST(a_ring_that_is_another_one_than_was_said_is_refused),
};

KT_MAIN("ring", tests)
