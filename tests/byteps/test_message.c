/* SPDX-License-Identifier: Apache-2.0 */
/* Headers as bytes and back, and how arrays are cut in blocks. */
#include "../kit/fake_host.h"

#include <kt.h>

#include "byteps_message.h"

static void every_member_survives_the_way(void)
{
    byteps_header_t header = {.kind = BYTEPS_BLOCK,
                              .dtype = KVS_DTYPE_bfloat16,
                              .verb = KVS_VERB_PUSHPULL,
                              .id = UINT64_C(0x1122334455667788),
                              .exchange = 3,
                              .block = 4,
                              .answer = 5,
                              .settled = 6,
                              .timeout_ms = 60000,
                              .status = KVS_ERR_SHAPE,
                              .n_ranks = 8,
                              .server = 9,
                              .ndim = 2,
                              .shape = {7, 1000000},
                              .has_name = true,
                              .name = "fc1",
                              .n_name = 3,
                              .number = -9};
    uint8_t bytes[BYTEPS_MAX_HEADER_BYTES];
    size_t n = byteps_header_encode(&header, bytes);
    byteps_header_t got;

    KT_INT(n, 80 + 2 * 8 + 3);
    KT_INT(bytes[8], 0x88); /* little-endian */
    KT_OK(byteps_header_decode(bytes, n, &got));
    KT_INT(got.kind, header.kind);
    KT_INT(got.dtype, header.dtype);
    KT_INT(got.verb, header.verb);
    KT_TRUE(got.id == header.id);
    KT_INT(got.exchange, 3);
    KT_INT(got.block, 4);
    KT_INT(got.answer, 5);
    KT_INT(got.settled, 6);
    KT_INT(got.timeout_ms, 60000);
    KT_INT(got.status, KVS_ERR_SHAPE);
    KT_INT(got.n_ranks, 8);
    KT_INT(got.server, 9);
    KT_INT(got.ndim, 2);
    KT_INT(got.shape[1], 1000000);
    KT_INT(got.number, -9);
    KT_TRUE(got.has_name && got.n_name == 3 && memcmp(got.name, "fc1", 3) == 0);
    KT_STR(BYTEPS_KEY_TEXT(&got), "key 'fc1'");
    KT_STR(BYTEPS_ARRAY_TEXT(&got), "pushpull of bfloat16 (7, 1000000)");
}

static void want_refused(const byteps_header_t *header)
{
    uint8_t bytes[BYTEPS_MAX_HEADER_BYTES];
    byteps_header_t got;

    KT_FAIL(byteps_header_decode(bytes, byteps_header_encode(header, bytes), &got), KVS_ERR_FORMAT,
            "makes no sense");
}

static void what_no_honest_peer_sends_is_refused(void)
{
    const byteps_header_t good = {.kind = BYTEPS_BLOCK, .verb = KVS_VERB_PUSHPULL};
    uint8_t bytes[BYTEPS_MAX_HEADER_BYTES + 1];
    byteps_header_t bad, got;
    size_t n = byteps_header_encode(&good, bytes);

    KT_OK(byteps_header_decode(bytes, n, &got));
    bad = good, bad.timeout_ms = INT64_C(1000000000000);
    n = byteps_header_encode(&bad, bytes);
    KT_OK(byteps_header_decode(bytes, n, &got));
    KT_FAIL(byteps_header_decode(bytes, n - 1, &got), KVS_ERR_FORMAT, "79 bytes");
    KT_FAIL(byteps_header_decode(bytes, n + 1, &got), KVS_ERR_FORMAT, "81 bytes, not 80");
    bad = good, bad.kind = BYTEPS_N_KINDS;
    want_refused(&bad);
    bad = good, bad.dtype = KVS_N_DTYPES;
    want_refused(&bad);
    bad = good, bad.verb = KVS_VERB_INIT;
    want_refused(&bad);
    bad = good, bad.status = 1;
    want_refused(&bad);
    bad = good, bad.timeout_ms = -1;
    want_refused(&bad);
    bad = good, bad.timeout_ms = INT64_C(1000000000001); /* 1e9 s are the most that a store takes */
    want_refused(&bad);
    bad = good, bad.ndim = 1, bad.shape[0] = -1;
    want_refused(&bad);
    bad = good, bad.ndim = 3, bad.shape[0] = bad.shape[1] = bad.shape[2] = INT64_C(1) << 30;
    want_refused(&bad);
    bytes[4] = BYTEPS_MAX_NDIM + 1;
    KT_FAIL(byteps_header_decode(bytes, n, &got), KVS_ERR_FORMAT, "33 dimensions");
    bytes[4] = 0;
    bytes[69] = 0x10; /* a name of 4096 bytes */
    KT_FAIL(byteps_header_decode(bytes, n, &got), KVS_ERR_FORMAT, "a name of 4096 bytes");
}

static void an_empty_array_has_one_empty_block(void)
{
    const byteps_header_t header = {.dtype = 0, .ndim = 3, .shape = {INT64_MAX, 0, INT64_MAX}};

    KT_INT(byteps_n_elems(&header), 0);
    KT_INT(byteps_n_blocks(0, 0), 1);
    KT_INT(byteps_elems_of_block(0, 0, 0), 0);
}

static void blocks_are_256_kib_but_the_last(void)
{
    const int64_t n = 3 * 65536 + 1; /* of float32 */

    KT_INT(byteps_n_blocks(KVS_DTYPE_float32, n), 4);
    KT_INT(byteps_elems_of_block(KVS_DTYPE_float32, n, 0), 65536);
    KT_INT(byteps_elems_of_block(KVS_DTYPE_float32, n, 3), 1);
    KT_INT(byteps_n_blocks(KVS_DTYPE_float64, 32768), 1);
    KT_INT(byteps_n_blocks(KVS_DTYPE_int8, 262145), 2);
    KT_INT(byteps_n_blocks(KVS_DTYPE_uint8, (INT64_C(1) << 32) + 5), 16385);
}

static void long_names_and_many_dimensions_fit_their_texts(void)
{
    byteps_header_t header = {.verb = KVS_VERB_BROADCAST, .ndim = BYTEPS_MAX_NDIM};
    char name[BYTEPS_MAX_NAME];

    memset(name, 'n', sizeof(name));
    header.has_name = true;
    header.name = name;
    header.n_name = sizeof(name);
    for (int i = 0; i < BYTEPS_MAX_NDIM; i++) {
        header.shape[i] = INT64_MAX;
    }
    KT_TRUE(strlen(BYTEPS_KEY_TEXT(&header)) < BYTEPS_KEY_TEXT_BYTES);
    KT_HAS(BYTEPS_ARRAY_TEXT(&header), "broadcast of float32 (9223372036854775807, ");
    KT_TRUE(strlen(BYTEPS_ARRAY_TEXT(&header)) < BYTEPS_ARRAY_TEXT_BYTES);
    header.has_name = false;
    header.number = -3;
    KT_STR(BYTEPS_KEY_TEXT(&header), "key -3");
}

static const kt_test_t tests[] = {
    KT_TEST(every_member_survives_the_way),
    KT_TEST(what_no_honest_peer_sends_is_refused),
    KT_TEST(an_empty_array_has_one_empty_block),
    KT_TEST(blocks_are_256_kib_but_the_last),
    KT_TEST(long_names_and_many_dimensions_fit_their_texts),
};

KT_MAIN("message", tests)
