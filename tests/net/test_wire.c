/* SPDX-License-Identifier: Apache-2.0 */
/* Frames: what is written is read again, byte for byte as WIRE.md says, and whatever is wrong, too
 * short or too long is refused. */
#include "kt.h"
#include "wire.h"

#include <stdlib.h>

static const kvs_net_fact_t facts[] = {{"plugin", "dist 0.1.0"}, {"type", "dist_sync"}};
static const net_wire_member_t members[] = {
    {1, 0, 0, 71, 11, 12, 13, "host-a", "127.0.0.1:4000"},
    {2, 0, 1, 72, 21, 22, 23, "host-b", "[::1]:4001"},
};
static const net_wire_lists_t lists = {facts, 2, members, 2};

/* One frame of every type, with something in every field. */
static const net_wire_t samples[] = {
    {.type = NET_HELLO,
     .as.hello = {"job 7",
                  "host-a",
                  KVS_NET_WORKER,
                  3,
                  4711,
                  "dist",
                  "10.0.0.5:4000",
                  1,
                  2,
                  3,
                  4,
                  -1,
                  1,
                  {NULL, 0}}},
    {.type = NET_WELCOME, .seq = 1, .as.welcome = {.epoch = 9, .token = 8, .self = 1}},
    {.type = NET_REFUSED, .as.notice = {0, 0, KVS_ERR_PEER, "no"}},
    {.type = NET_STATUS, .as.notice = {0, 0, 0, "1 of 2 workers"}},
    {.type = NET_BEAT, .ack = 17, .flags = NET_RESEND, .as.beat = {UINT64_MAX}},
    {.type = NET_LEAVE},
    {.type = NET_BYE},
    {.type = NET_LEFT, .seq = 3, .as.notice = {5, 0, KVS_ERR_PEER, "left"}},
    {.type = NET_DEAD, .seq = 4, .as.notice = {6, 0, KVS_ERR_PEER, "died"}},
    {.type = NET_END, .seq = 5, .as.notice = {0, 0, 0, ""}},
    {.type = NET_TELL, .seq = 6, .as.notice = {0, 2, KVS_ERR_SHAPE, "shapes\n\tdiffer: … é"}},
    {.type = NET_ERROR, .seq = 7, .as.notice = {1, 2, KVS_ERR_SHAPE, "shapes differ"}},
    {.type = NET_SUSPECT, .seq = 8, .as.notice = {1, 0, KVS_ERR_PEER, "silent"}},
    {.type = NET_STORE_OPEN, .seq = 9, .as.store = {1, 1, -1, "dist_sync", {NULL, 0}}},
    {.type = NET_STORE_ANNOUNCE, .seq = 10, .as.store = {1, 1, 60000, "dist_sync", {NULL, 0}}},
    {.type = NET_STORE_READY, .seq = 11, .as.request = {0, 1, 0, 0}},
    {.type = NET_BARRIER, .seq = 12, .as.request = {4, 1, 0, 60000}},
    {.type = NET_STORE_CLOSE, .seq = 13, .as.request = {0, 1, 1, 5}},
    {.type = NET_STORE_CLOSED, .seq = 14, .as.request = {0, 1, 0, 0}},
    {.type = NET_QUERY, .seq = 15, .as.request = {2, 0, 7, 1000}},
    {.type = NET_ANSWER, .seq = 16, .as.answer = {NET_BARRIER, 4, 1, 2, KVS_ERR_TIMEOUT, "late"}},
    {.type = NET_LANE, .flags = NET_ACK_NOW, .as.lane = {1, 2, 3, 4, 5}},
    {.type = NET_ACK, .ack = 18, .as.ack = {3}},
    {.type = NET_CLOSE, .as.notice = {0, 0, KVS_ERR_PEER, "nonsense"}},
};
#define N_SAMPLES (sizeof(samples) / sizeof(samples[0]))

static uint8_t *encode(const net_wire_t *wire, size_t *ret_n)
{
    uint8_t *frame = malloc(net_wire_size(wire, &lists));

    *ret_n = net_wire_size(wire, &lists);
    net_wire_encode(wire, &lists, frame);
    return frame;
}

/* Decoded, and encoded again from what was decoded. */
static void check_round_trip(const net_wire_t *wire)
{
    kvs_net_fact_t seen_facts[NET_WIRE_MAX_FACTS];
    net_wire_member_t seen_members[4];
    net_wire_lists_t seen = {seen_facts, 0, seen_members, 0};
    size_t n, again_n;
    uint8_t *frame = encode(wire, &n), *again;
    net_wire_t got;
    net_wire_list_t list;

    KT_OK(net_wire_decode(frame, n, &got));
    KT_INT(got.type, wire->type);
    KT_INT(got.version, NET_WIRE_VERSION);
    list = got.type == NET_HELLO ? got.as.hello.facts : got.as.store.facts;
    while (
        (got.type == NET_HELLO || got.type == NET_STORE_OPEN || got.type == NET_STORE_ANNOUNCE) &&
        net_wire_next_fact(&list, &seen_facts[seen.n_facts])) {
        seen.n_facts++;
    }
    list = got.as.welcome.members;
    while (got.type == NET_WELCOME && net_wire_next_member(&list, &seen_members[seen.n_members])) {
        seen.n_members++;
    }
    again_n = net_wire_size(&got, &seen);
    KT_INT(again_n, n);
    again = malloc(again_n);
    net_wire_encode(&got, &seen, again);
    KT_TRUE(again_n == n && memcmp(frame, again, n) == 0);
    free(frame);
    free(again);
}

static void every_type_is_read_as_it_was_written(void)
{
    for (size_t i = 0; i < N_SAMPLES; i++) {
        check_round_trip(&samples[i]);
    }
}

static void fields_arrive(void)
{
    size_t n;
    uint8_t *frame = encode(&samples[0], &n);
    net_wire_t got;
    kvs_net_fact_t fact;

    KT_OK(net_wire_decode(frame, n, &got));
    KT_STR(got.as.hello.job_id, "job 7");
    KT_INT(got.as.hello.rank, 3);
    KT_INT(got.as.hello.n_servers, -1);
    KT_INT(got.as.hello.facts.n, 2);
    KT_TRUE(net_wire_next_fact(&got.as.hello.facts, &fact));
    KT_TRUE(net_wire_next_fact(&got.as.hello.facts, &fact));
    KT_STR(fact.name, "type");
    KT_STR(fact.value, "dist_sync");
    KT_TRUE(!net_wire_next_fact(&got.as.hello.facts, &fact));
    free(frame);
}

/* By hand, from WIRE.md. */
static void bytes_are_little_endian_and_where_the_reference_says(void)
{
    /* clang-format off */
    static const uint8_t want[] = {
        'K', 'V', 'S', 'N', 1, 0, 5, 0, 2, 0, 0, 0, 0, 0, 0, 0, /* magic version type flags reserved */
        0x77, 0, 0, 0, 0, 0, 0, 0,                              /* link */
        0, 0, 0, 0, 0, 0, 0, 0,                                 /* seq */
        0x11, 0x22, 0, 0, 0, 0, 0, 0,                           /* ack */
        0xef, 0xcd, 0xab, 0x89, 0x67, 0x45, 0x23, 0x01,         /* last */
    };
    /* clang-format on */
    net_wire_t wire = {.type = NET_BEAT,
                       .flags = NET_RESEND,
                       .link = 0x77,
                       .ack = 0x2211,
                       .as.beat.last = UINT64_C(0x0123456789abcdef)};
    uint8_t frame[64];

    KT_INT(net_wire_size(&wire, NULL), sizeof(want));
    net_wire_encode(&wire, NULL, frame);
    KT_TRUE(memcmp(frame, want, sizeof(want)) == 0);
    net_wire_stamp(frame, 9, 0x0807060504030201, 1);
    KT_INT(frame[16], 9);
    KT_INT(frame[24], 1);
    KT_INT(frame[31], 8);
    KT_INT(frame[32], 1);
}

/* In memory of exactly that size, so that a sanitizer sees a read beyond it. */
static kvs_status_t decode_exactly(const uint8_t *frame, size_t n)
{
    uint8_t *exact = malloc(n == 0 ? 1 : n);
    net_wire_t got;
    kvs_status_t status;

    memcpy(exact, frame, n);
    status = net_wire_decode(exact, n, &got);
    free(exact);
    return status;
}

static void a_frame_cut_at_any_byte_is_refused(void)
{
    for (size_t i = 0; i < N_SAMPLES; i++) {
        size_t n;
        uint8_t *frame = encode(&samples[i], &n);

        for (size_t cut = 0; cut < n; cut++) {
            KT_INT(decode_exactly(frame, cut), KVS_ERR_FORMAT);
        }
        KT_OK(decode_exactly(frame, n));
        free(frame);
    }
}

static void a_frame_with_a_byte_more_is_refused(void)
{
    for (size_t i = 0; i < N_SAMPLES; i++) {
        size_t n;
        uint8_t *frame = encode(&samples[i], &n), *longer = malloc(n + 1);

        memcpy(longer, frame, n);
        longer[n] = 0;
        KT_FAIL(decode_exactly(longer, n + 1), KVS_ERR_FORMAT, "too long");
        free(frame);
        free(longer);
    }
}

/* Change one byte of a beat. */
static kvs_status_t decode_with(size_t at, uint8_t value)
{
    net_wire_t wire = {.type = NET_BEAT};
    uint8_t frame[64];
    size_t n = net_wire_size(&wire, NULL);

    net_wire_encode(&wire, NULL, frame);
    frame[at] = value;
    return decode_exactly(frame, n);
}

static void what_cannot_be_is_refused(void)
{
    KT_FAIL(decode_with(0, 'X'), KVS_ERR_FORMAT, "does not begin as one of ours");
    KT_FAIL(decode_with(6, 99), KVS_ERR_FORMAT, "unknown type");
    KT_FAIL(decode_with(8, 4), KVS_ERR_FORMAT, "unknown flags");
    KT_FAIL(decode_with(12, 1), KVS_ERR_FORMAT, "reserved");
}

static void another_version_is_told_by_its_door(void)
{
    size_t n;
    uint8_t *frame = encode(&samples[0], &n);
    net_wire_t got;

    frame[4] = 2;
    KT_FAIL(net_wire_decode(frame, n, &got), KVS_ERR_NOT_IMPLEMENTED, "version 2, not 1");
    KT_INT(got.version, 2);
    KT_STR(got.as.hello.job_id, "job 7");
    KT_STR(got.as.hello.host, "host-a");
    KT_INT(got.as.hello.pid, 4711);
    free(frame);
}

static void control_characters_never_travel(void)
{
    net_wire_t wire = {.type = NET_STATUS, .as.notice.text = "a\x1b[31mb\x7f"};
    uint8_t frame[128];
    net_wire_t got;
    size_t n = net_wire_size(&wire, NULL);

    net_wire_encode(&wire, NULL, frame);
    KT_OK(net_wire_decode(frame, n, &got));
    KT_STR(got.as.notice.text, "a?[31mb?");
    frame[n - 2] = 0x1b;
    KT_FAIL(net_wire_decode(frame, n, &got), KVS_ERR_FORMAT, "control character");
    frame[n - 2] = 'b';
    frame[n - 1] = 'c';
    KT_FAIL(net_wire_decode(frame, n, &got), KVS_ERR_FORMAT, "without its end");
}

static void long_texts_are_cut_and_longer_ones_refused(void)
{
    char *text = malloc(NET_WIRE_MAX_TEXT + 11);
    net_wire_t wire = {.type = NET_STATUS, .as.notice.text = text}, got;
    uint8_t *frame;
    size_t n;

    memset(text, 'x', NET_WIRE_MAX_TEXT + 10);
    text[NET_WIRE_MAX_TEXT + 10] = '\0';
    frame = encode(&wire, &n);
    KT_OK(net_wire_decode(frame, n, &got));
    KT_INT(strlen(got.as.notice.text), NET_WIRE_MAX_TEXT);
    frame[NET_WIRE_HEAD_BYTES + 12] = 1; /* 8193 */
    KT_FAIL(net_wire_decode(frame, n, &got), KVS_ERR_FORMAT, "too long");
    free(frame);
    free(text);
}

static void lists_have_limits(void)
{
    size_t n;
    uint8_t *frame = encode(&samples[1], &n);
    net_wire_t got;

    memset(frame + NET_WIRE_HEAD_BYTES + 20, 0xff, 4); /* members */
    KT_FAIL(net_wire_decode(frame, n, &got), KVS_ERR_FORMAT, "list that is too long");
    frame[NET_WIRE_HEAD_BYTES + 20] = 1;
    memset(frame + NET_WIRE_HEAD_BYTES + 21, 0, 3);
    frame[NET_WIRE_HEAD_BYTES + 16] = 1; /* itself: place 1 of 1 */
    KT_FAIL(net_wire_decode(frame, n, &got), KVS_ERR_FORMAT, "outside its list");
    free(frame);
}

/* ---- Data ------------------------------------------------------------------------------------ */

static uint8_t *data_frame(const char *header, const char *body, size_t *ret_n)
{
    size_t n_header = strlen(header), n_body = strlen(body);
    net_wire_t wire = {.type = NET_DATA,
                       .seq = 1,
                       .as.data = {.store = 5,
                                   .n_header = (uint32_t)n_header,
                                   .n_body = n_body,
                                   .n_inline = (uint32_t)n_body}};
    uint8_t *frame;

    *ret_n = net_wire_data_size(n_header, n_body);
    frame = calloc(1, *ret_n);
    net_wire_encode(&wire, NULL, frame);
    memcpy(frame + NET_WIRE_DATA_BYTES, header, n_header);
    memcpy(frame + *ret_n - n_body, body, n_body);
    return frame;
}

static void data_carries_header_and_body(void)
{
    size_t n;
    uint8_t *frame = data_frame("header", "the body", &n);
    net_wire_t got;

    KT_INT(n, 64 + 8 + 8); /* the header is padded to 8 */
    KT_OK(net_wire_decode(frame, n, &got));
    KT_INT(got.as.data.store, 5);
    KT_INT(got.as.data.n_header, 6);
    KT_TRUE(memcmp(got.as.data.header, "header", 6) == 0);
    KT_TRUE(memcmp(got.as.data.body, "the body", 8) == 0);
    for (size_t cut = 0; cut < n; cut++) {
        KT_INT(decode_exactly(frame, cut), KVS_ERR_FORMAT);
    }
    free(frame);
}

static void data_may_be_empty_or_have_its_body_elsewhere(void)
{
    net_wire_t wire = {.type = NET_DATA, .as.data = {.n_body = UINT64_C(1) << 33}}, got;
    uint8_t frame[NET_WIRE_DATA_BYTES];

    KT_INT(net_wire_size(&wire, NULL), sizeof(frame));
    net_wire_encode(&wire, NULL, frame);
    KT_OK(net_wire_decode(frame, sizeof(frame), &got));
    KT_TRUE(got.as.data.n_body == UINT64_C(1) << 33 && got.as.data.body == NULL);
}

static void data_whose_sizes_disagree_is_refused(void)
{
    size_t n;
    uint8_t *frame = data_frame("header", "the body", &n);
    net_wire_t got;

    frame[NET_WIRE_HEAD_BYTES + 8] = 9; /* n_body */
    KT_FAIL(net_wire_decode(frame, n, &got), KVS_ERR_FORMAT, "two sizes");
    frame[NET_WIRE_HEAD_BYTES + 16] = 9; /* n_inline */
    KT_FAIL(net_wire_decode(frame, n, &got), KVS_ERR_FORMAT, "does not hold");
    memset(frame + NET_WIRE_HEAD_BYTES + 4, 0xff, 4); /* n_header */
    KT_FAIL(net_wire_decode(frame, n, &got), KVS_ERR_FORMAT, "header that is too long");
    free(frame);
}

static const kt_test_t tests[] = {
    KT_TEST(every_type_is_read_as_it_was_written),
    KT_TEST(fields_arrive),
    KT_TEST(bytes_are_little_endian_and_where_the_reference_says),
    KT_TEST(a_frame_cut_at_any_byte_is_refused),
    KT_TEST(a_frame_with_a_byte_more_is_refused),
    KT_TEST(what_cannot_be_is_refused),
    KT_TEST(another_version_is_told_by_its_door),
    KT_TEST(control_characters_never_travel),
    KT_TEST(long_texts_are_cut_and_longer_ones_refused),
    KT_TEST(lists_have_limits),
    KT_TEST(data_carries_header_and_body),
    KT_TEST(data_may_be_empty_or_have_its_body_elsewhere),
    KT_TEST(data_whose_sizes_disagree_is_refused),
};

KT_MAIN("wire", tests)
