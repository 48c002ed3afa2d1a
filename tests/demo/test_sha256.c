/* SPDX-License-Identifier: Apache-2.0 */
/* test_sha256.c - the examples of FIPS 180, and digests made by Python's hashlib. */
#include "sha256.h"

#include <kt.h>

static void check(const char *text, size_t n_bytes, const char *want)
{
    char hex[SHA256_HEX_BYTES];
    sha256_t hash;

    sha256_start(&hash);
    sha256_add(&hash, text, n_bytes);
    sha256_finish(&hash, hex);
    KT_STR(hex, want);
}

static void the_published_examples_come_out(void)
{
    static const char two_blocks[] = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";

    check("", 0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    check("abc", 3, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    check(two_blocks, sizeof(two_blocks) - 1,
          "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

static void lengths_about_the_padding_come_out(void)
{
    static const struct {
        size_t n_bytes;
        const char *want;
    } cases[] = {
        {55, "d5e285683cd4efc02d021a5c62014694958901005d6f71e89e0989fac77e4072"},
        {56, "04c26261370ee7541549d16dee320c723e3fd14671e66a099afe0a377c16888e"},
        {63, "75220b47218278e656f2013bb8f0c455a25eaf01e86c64924e9d48d89776d6f2"},
        {64, "7ce100971f64e7001e8fe5a51973ecdfe1ced42befe7ee8d5fd6219506b5393c"},
        {65, "9537c5fdf120482f7d58d25e9ed583f52c02b4e304ea814db1633ad565aed7e9"},
        {119, "000b48d4edf0fa7bee3c6236ecd2785baa5db4eeb8bb54341b029e0d9fa5fb0c"},
        {120, "13f05a0b594787f5ecd315edc96141bd3243203d1b7d4f0836f37308b276ba98"},
    };
    char text[120];

    memset(text, 'x', sizeof(text));
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        check(text, cases[i].n_bytes, cases[i].want);
    }
}

static void a_million_bytes_in_uneven_pieces_come_out(void)
{
    char piece[997];
    char hex[SHA256_HEX_BYTES];
    sha256_t hash;

    memset(piece, 'a', sizeof(piece));
    sha256_start(&hash);
    for (size_t left = 1000000; left > 0;) {
        size_t n = left < sizeof(piece) ? left : sizeof(piece);

        sha256_add(&hash, piece, n);
        left -= n;
    }
    sha256_finish(&hash, hex);
    KT_STR(hex, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

static void floats_are_added_as_little_endian_bytes(void)
{
    static const float values[] = {1.0f, -2.0f, 0.1f};
    char hex[SHA256_HEX_BYTES];
    sha256_t hash;

    sha256_start(&hash);
    sha256_add_floats(&hash, values, 3);
    sha256_finish(&hash, hex); /* hashlib.sha256(struct.pack('<3f', 1.0, -2.0, 0.1)) */
    KT_STR(hex, "d226a85ddc9cdc31791f144b026c857fbcb13f7807f252dbcdb62aeaf299d1aa");
}

static const kt_test_t tests[] = {
    KT_TEST(the_published_examples_come_out),
    KT_TEST(lengths_about_the_padding_come_out),
    KT_TEST(a_million_bytes_in_uneven_pieces_come_out),
    KT_TEST(floats_are_added_as_little_endian_bytes),
};

KT_MAIN("demo.sha256", tests)
