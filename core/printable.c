/* SPDX-License-Identifier: Apache-2.0 */
/* printable.c - one character after the other. UTF-8 as RFC 3629 has it: no overlong forms, no
 * surrogates, nothing past U+10FFFF. */
#include "printable.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Bytes of the character at `at`, and the character; 0: what stands there is no UTF-8. */
static size_t read_character(const unsigned char *at, uint32_t *ret_character)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t len = at[0] < 0x80 ? 1 : at[0] < 0xC0 ? 0 : at[0] < 0xE0 ? 2 : at[0] < 0xF0 ? 3 : 4;
    uint32_t c = len <= 1 ? at[0] : at[0] & (0x7Fu >> len);

    for (size_t i = 1; i < len; i++) {
        if ((at[i] & 0xC0) != 0x80) {
            return 0;
        }
        c = c << 6 | (at[i] & 0x3F);
    }
    *ret_character = c;
    return c < least[len] || (c >= 0xD800 && c <= 0xDFFF) || c > 0x10FFFF || at[0] > 0xF4 ? 0 : len;
}

/* The first byte at `at` as an escape; its length. */
static size_t escape(unsigned char byte, char *out, size_t n_bytes)
{
    const char *letter = byte == '\n' ? "\\n" : byte == '\t' ? "\\t" : byte == '\r' ? "\\r" : NULL;

    return letter != NULL ? (size_t)snprintf(out, n_bytes, "%s", letter)
                          : (size_t)snprintf(out, n_bytes, "\\x%02x", byte);
}

void kvsi_printable(const char *text, char *out, size_t n_bytes)
{
    const unsigned char *at = (const unsigned char *)text;
    size_t n = 0, cut = 0; /* where "..." would still fit */

    while (*at != '\0') {
        char piece[8];
        uint32_t c;
        size_t len = read_character(at, &c), n_piece = len;

        if (len == 0 || c < 0x20 || (c >= 0x7F && c < 0xA0)) {
            len = 1;
            n_piece = escape(*at, piece, sizeof(piece));
        } else {
            memcpy(piece, at, len);
        }
        if (n + n_piece >= n_bytes) {
            memcpy(out + cut, "...", sizeof("..."));
            return;
        }
        memcpy(out + n, piece, n_piece);
        n += n_piece;
        at += len;
        cut = n + sizeof("...") <= n_bytes ? n : cut;
    }
    out[n] = '\0';
}
