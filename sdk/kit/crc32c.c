/* SPDX-License-Identifier: Apache-2.0 */
/* crc32c.c - by the instruction of SSE 4.2 where there is one, eight bytes at a time; else by eight
 * tables, so that eight bytes are looked up at once ("slicing by eight"). */
#include "crc32c.h"

#include <pthread.h>
#include <string.h>

#define POLYNOMIAL 0x82F63B78u /* reflected */

static uint32_t tables[8][256]; /* written once, by make_tables */

static void make_tables(void)
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t crc = byte;

        for (int bit = 0; bit < 8; bit++) {
            crc = (crc >> 1) ^ ((crc & 1) != 0 ? POLYNOMIAL : 0);
        }
        tables[0][byte] = crc;
    }
    for (int t = 1; t < 8; t++) {
        for (int byte = 0; byte < 256; byte++) {
            uint32_t crc = tables[t - 1][byte];

            tables[t][byte] = (crc >> 8) ^ tables[0][crc & 0xFF];
        }
    }
}

/* The four bytes from `bytes` on, the first one lowest. */
static uint32_t four(const unsigned char *bytes)
{
    return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 |
           (uint32_t)bytes[3] << 24;
}

uint32_t kvs_crc32c_by_table(uint32_t crc, const void *data, size_t n_bytes)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    const unsigned char *at = data;

    pthread_once(&once, make_tables);
    crc = ~crc;
    for (; n_bytes >= 8; n_bytes -= 8, at += 8) {
        uint32_t low = crc ^ four(at);
        uint32_t high = four(at + 4);

        crc = tables[7][low & 0xFF] ^ tables[6][low >> 8 & 0xFF] ^ tables[5][low >> 16 & 0xFF] ^
              tables[4][low >> 24] ^ tables[3][high & 0xFF] ^ tables[2][high >> 8 & 0xFF] ^
              tables[1][high >> 16 & 0xFF] ^ tables[0][high >> 24];
    }
    for (; n_bytes > 0; n_bytes--, at++) {
        crc = (crc >> 8) ^ tables[0][(crc ^ *at) & 0xFF];
    }
    return ~crc;
}

#if defined(__x86_64__)

__attribute__((target("sse4.2"))) static uint32_t by_instruction(uint32_t crc, const void *data,
                                                                 size_t n_bytes)
{
    const unsigned char *at = data;
    uint64_t wide = ~crc;

    for (; n_bytes >= 8; n_bytes -= 8, at += 8) {
        uint64_t eight;

        memcpy(&eight, at, sizeof(eight));
        wide = __builtin_ia32_crc32di(wide, eight);
    }
    crc = (uint32_t)wide;
    for (; n_bytes > 0; n_bytes--, at++) {
        crc = __builtin_ia32_crc32qi(crc, *at);
    }
    return ~crc;
}

uint32_t kvs_crc32c(uint32_t crc, const void *data, size_t n_bytes)
{
    return __builtin_cpu_supports("sse4.2") ? by_instruction(crc, data, n_bytes)
                                            : kvs_crc32c_by_table(crc, data, n_bytes);
}

#else

uint32_t kvs_crc32c(uint32_t crc, const void *data, size_t n_bytes)
{
    return kvs_crc32c_by_table(crc, data, n_bytes);
}

#endif
