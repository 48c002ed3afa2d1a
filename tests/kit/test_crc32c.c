/* SPDX-License-Identifier: Apache-2.0 */
/* CRC-32C against the examples of RFC 3720, B.4, and the instruction against the table. */
#include "crc32c.h"

#include "kt.h"

#include <stdlib.h>

static void the_examples_of_rfc_3720_hold(void)
{
    unsigned char bytes[32];

    memset(bytes, 0, sizeof(bytes));
    KT_INT(kvs_crc32c(0, bytes, sizeof(bytes)), 0x8A9136AA);
    memset(bytes, 0xFF, sizeof(bytes));
    KT_INT(kvs_crc32c(0, bytes, sizeof(bytes)), 0x62A8AB43);
    for (unsigned char i = 0; i < 32; i++) {
        bytes[i] = i;
    }
    KT_INT(kvs_crc32c(0, bytes, sizeof(bytes)), 0x46DD794E);
    for (unsigned char i = 0; i < 32; i++) {
        bytes[i] = (unsigned char)(31 - i);
    }
    KT_INT(kvs_crc32c(0, bytes, sizeof(bytes)), 0x113FDB5C);
    KT_INT(kvs_crc32c(0, "123456789", 9), 0xE3069283);
    KT_INT(kvs_crc32c(0, NULL, 0), 0);
}

static void any_cut_gives_the_same(void)
{
    unsigned char bytes[100];
    uint32_t whole;

    for (size_t i = 0; i < sizeof(bytes); i++) {
        bytes[i] = (unsigned char)(i * 37 + 11);
    }
    whole = kvs_crc32c(0, bytes, sizeof(bytes));
    for (size_t cut = 0; cut <= sizeof(bytes); cut++) {
        uint32_t crc = kvs_crc32c(0, bytes, cut);

        KT_INT(kvs_crc32c(crc, bytes + cut, sizeof(bytes) - cut), whole);
    }
}

static void the_table_gives_the_same_as_the_instruction(void)
{
    unsigned char bytes[200];

    for (size_t i = 0; i < sizeof(bytes); i++) {
        bytes[i] = (unsigned char)(i * i + 3);
    }
    for (size_t begin = 0; begin < 9; begin++) {
        for (size_t n = 0; n < 40; n++) {
            KT_INT(kvs_crc32c_by_table(17, bytes + begin, n), kvs_crc32c(17, bytes + begin, n));
        }
    }
}

static const kt_test_t tests[] = {
    KT_TEST(the_examples_of_rfc_3720_hold),
    KT_TEST(any_cut_gives_the_same),
    KT_TEST(the_table_gives_the_same_as_the_instruction),
};
KT_MAIN("kit.crc32c", tests)
