/* SPDX-License-Identifier: Apache-2.0 */
/* jsonscan.c - recursive descent over the text. The decoded keys of all open objects lie in one
 * buffer, each behind its length, so that "a" and "\u0061" are seen to be the same key. */
#include "jsonscan.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct scan {
    const char *text;
    size_t n_bytes;
    size_t at;
    char *
        keys; /* as long as the text: a key takes 4 bytes more than itself there, as it does here */
    size_t keys_end;
    char field[KVSI_JSON_FIELD_BYTES];
    const char *wanted; /* the field to be found, or NULL */
    int found;
    kvsi_json_place_t *place;
} scan_t;

static int scan_value(scan_t *scan, int depth);

/* Line and column of a byte; a character begins at a byte that is no UTF-8 continuation. */
static void set_place(scan_t *scan, size_t at)
{
    kvsi_json_place_t *place = scan->place;

    place->line = 1;
    place->column = 1;
    for (size_t i = 0; i < at; i++) {
        if (scan->text[i] == '\n') {
            place->line++;
            place->column = 1;
        } else if (((unsigned char)scan->text[i] & 0xC0) != 0x80) {
            place->column++;
        }
    }
    memcpy(place->field, scan->field, sizeof(place->field));
}

static int fault(scan_t *scan, size_t at, const char *reason)
{
    set_place(scan, at);
    snprintf(scan->place->reason, sizeof(scan->place->reason), "%s", reason);
    return -1;
}

/* The next byte, or -1 at the end. */
static int peek(const scan_t *scan)
{
    return scan->at < scan->n_bytes ? (unsigned char)scan->text[scan->at] : -1;
}

static int take(scan_t *scan, char c)
{
    if (peek(scan) != (unsigned char)c) {
        return 0;
    }
    scan->at++;
    return 1;
}

static void skip_space(scan_t *scan)
{
    while (take(scan, ' ') || take(scan, '\n') || take(scan, '\t') || take(scan, '\r')) {
    }
}

static int unexpected(scan_t *scan, const char *want)
{
    char reason[96];
    int c = peek(scan);

    if (c < 0) {
        snprintf(reason, sizeof(reason), "the text ends where %s is expected", want);
    } else if (c == 0) {
        snprintf(reason, sizeof(reason), "NUL byte");
    } else {
        snprintf(reason, sizeof(reason), "%s is expected", want);
    }
    return fault(scan, scan->at, reason);
}

/* ---- Strings -------------------------------------------------------------------------------- */

/* Bytes of the UTF-8 character at `s`, of at most `n` bytes; 0 if it is none: overlong forms,
 * surrogates and numbers above U+10FFFF are none. RFC 3629. */
static size_t utf8_length(const unsigned char *s, size_t n)
{
    static const uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t len = s[0] < 0x80       ? 1
                 : s[0] >> 5 == 6  ? 2
                 : s[0] >> 4 == 14 ? 3
                 : s[0] >> 3 == 30 ? 4
                                   : 0;

    if (len < 2) {
        return len;
    }
    if (len > n) {
        return 0;
    }
    uint32_t number = s[0] & (0x7Fu >> len);
    for (size_t i = 1; i < len; i++) {
        if ((s[i] & 0xC0) != 0x80) {
            return 0;
        }
        number = number << 6 | (s[i] & 0x3F);
    }
    int surrogate = number >= 0xD800 && number < 0xE000;
    return number < smallest[len] || number > 0x10FFFF || surrogate ? 0 : len;
}

static size_t utf8_write(uint32_t number, char *ret)
{
    size_t len = number < 0x80 ? 1 : number < 0x800 ? 2 : number < 0x10000 ? 3 : 4;
    static const unsigned char lead[] = {0, 0, 0xC0, 0xE0, 0xF0};

    for (size_t i = len - 1; i > 0; i--) {
        ret[i] = (char)(0x80 | (number & 0x3F));
        number >>= 6;
    }
    ret[0] = (char)(lead[len] | number);
    return len;
}

/* Four hexadecimal digits; -1 if they are not there. */
static int32_t hex4(scan_t *scan)
{
    int32_t number = 0;

    for (int i = 0; i < 4; i++) {
        int c = peek(scan);
        int lower = c | 0x20;

        if (c >= '0' && c <= '9') {
            number = number << 4 | (c - '0');
        } else if (lower >= 'a' && lower <= 'f') {
            number = number << 4 | (lower - 'a' + 10);
        } else {
            return -1;
        }
        scan->at++;
    }
    return number;
}

/* After "\u", which began at `begin`. */
static int scan_unicode_escape(scan_t *scan, size_t begin, uint32_t *ret_number)
{
    int32_t number = hex4(scan);

    if (number < 0) {
        return fault(scan, begin, "\\u needs four hexadecimal digits");
    }
    if (number == 0) {
        return fault(scan, begin, "\\u0000 is not allowed");
    }
    if (number >= 0xD800 && number < 0xDC00 && take(scan, '\\') && take(scan, 'u')) {
        int32_t low = hex4(scan);

        if (low >= 0xDC00 && low < 0xE000) {
            *ret_number = 0x10000 + (((uint32_t)number & 0x3FF) << 10) + ((uint32_t)low & 0x3FF);
            return 0;
        }
    }
    if (number >= 0xD800 && number < 0xE000) {
        return fault(scan, begin, "half of a surrogate pair");
    }
    *ret_number = (uint32_t)number;
    return 0;
}

static int scan_escape(scan_t *scan, uint32_t *ret_number)
{
    static const char names[] = "\"\\/bfnrt";
    static const char meanings[] = "\"\\/\b\f\n\r\t";
    size_t begin = scan->at++;
    int c = peek(scan);
    const char *name = c > 0 ? strchr(names, c) : NULL;

    if (c == 'u') {
        scan->at++;
        return scan_unicode_escape(scan, begin, ret_number);
    }
    if (name == NULL) {
        return fault(scan, begin, "unknown escape after \\");
    }
    scan->at++;
    *ret_number = (unsigned char)meanings[name - names];
    return 0;
}

/* A string. With `decoded` its UTF-8 is written there; it is never longer than the text. */
static int scan_string(scan_t *scan, char *decoded, size_t *ret_len)
{
    size_t len = 0;

    if (!take(scan, '"')) {
        return unexpected(scan, "a string in double quotes");
    }
    while (!take(scan, '"')) {
        char utf8[4];
        size_t n = 0;
        int c = peek(scan);

        if (c < 0) {
            return fault(scan, scan->at, "the text ends within a string");
        }
        if (c < 0x20) {
            return fault(scan, scan->at, c == 0 ? "NUL byte" : "control character in a string");
        }
        if (c == '\\') {
            uint32_t number;

            if (scan_escape(scan, &number) != 0) {
                return -1;
            }
            n = utf8_write(number, utf8);
        } else {
            n = utf8_length((const unsigned char *)scan->text + scan->at, scan->n_bytes - scan->at);
            if (n == 0) {
                return fault(scan, scan->at, "invalid UTF-8");
            }
            memcpy(utf8, scan->text + scan->at, n);
            scan->at += n;
        }
        if (decoded != NULL) {
            memcpy(decoded + len, utf8, n);
        }
        len += n;
    }
    if (ret_len != NULL) {
        *ret_len = len;
    }
    return 0;
}

/* ---- Numbers and words ---------------------------------------------------------------------- */

static size_t skip_digits(scan_t *scan)
{
    size_t begin = scan->at;

    while (peek(scan) >= '0' && peek(scan) <= '9') {
        scan->at++;
    }
    return scan->at - begin;
}

/* Whether [begin, at), a number, is below 10^308 in magnitude. By its digits: strtod follows the
 * locale. */
static int is_finite(const scan_t *scan, size_t begin, size_t mantissa_end, long exponent)
{
    long place = -1; /* of the digit before the point, counted from the first that is not 0 */
    int in_fraction = 0, significant = 0;

    for (size_t i = begin; i < mantissa_end; i++) {
        char c = scan->text[i];

        if (c == '.') {
            in_fraction = 1;
        } else if (c != '-') {
            significant = significant || c != '0';
            place += significant && !in_fraction;
            place -= !significant && in_fraction;
        }
    }
    return !significant || place + exponent < 308;
}

static int scan_number(scan_t *scan)
{
    size_t begin = scan->at;
    long exponent = 0;

    take(scan, '-');
    if (take(scan, '0')) {
        if (skip_digits(scan) > 0) {
            return fault(scan, begin, "a number has a leading zero");
        }
    } else if (skip_digits(scan) == 0) {
        return unexpected(scan, "a digit");
    }
    if (take(scan, '.') && skip_digits(scan) == 0) {
        return unexpected(scan, "a digit");
    }
    size_t mantissa_end = scan->at;
    if (take(scan, 'e') || take(scan, 'E')) {
        int negative = take(scan, '-');

        if (!negative) {
            take(scan, '+');
        }
        size_t digits = scan->at;
        if (skip_digits(scan) == 0) {
            return unexpected(scan, "a digit");
        }
        for (; digits < scan->at; digits++) {
            if (exponent < 1000000) {
                exponent = exponent * 10 + (scan->text[digits] - '0');
            }
        }
        exponent = negative ? -exponent : exponent;
    }
    if (!is_finite(scan, begin, mantissa_end, exponent)) {
        return fault(scan, begin, "a number is too large");
    }
    return 0;
}

static int scan_word(scan_t *scan)
{
    static const char *const words[] = {"true", "false", "null"};

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        size_t len = strlen(words[i]);

        if (scan->n_bytes - scan->at >= len && memcmp(scan->text + scan->at, words[i], len) == 0) {
            scan->at += len;
            return 0;
        }
    }
    return unexpected(scan, "a value");
}

/* ---- Objects and arrays --------------------------------------------------------------------- */

/* Add ".key" or "[3]" to the field's path; gives its length before, for leave_field. */
static size_t enter_field(scan_t *scan, const char *separator, const char *name, size_t len)
{
    size_t before = strlen(scan->field);

    snprintf(scan->field + before, sizeof(scan->field) - before, "%s%.*s", separator, (int)len,
             name);
    for (char *c = scan->field + before; *c != '\0'; c++) {
        if ((unsigned char)*c < 0x20 || *c == 0x7F) {
            *c = '?';
        }
    }
    return before;
}

static void leave_field(scan_t *scan, size_t before)
{
    scan->field[before] = '\0';
}

static int key_is_new(const scan_t *scan, size_t object_keys, const char *key, uint32_t len)
{
    for (size_t at = object_keys; at < scan->keys_end;) {
        uint32_t other;

        memcpy(&other, scan->keys + at, sizeof(other));
        at += sizeof(other);
        if (other == len && memcmp(scan->keys + at, key, len) == 0) {
            return 0;
        }
        at += other;
    }
    return 1;
}

static int scan_member(scan_t *scan, size_t object_keys, int depth)
{
    size_t begin = scan->at;
    char *key = scan->keys + scan->keys_end + sizeof(uint32_t);
    size_t len;

    if (scan_string(scan, key, &len) != 0) {
        return -1;
    }
    uint32_t len32 = (uint32_t)len;
    size_t before = enter_field(scan, scan->field[0] != '\0' ? "." : "", key, len);
    if (!key_is_new(scan, object_keys, key, len32)) {
        return fault(scan, begin, "duplicate key");
    }
    memcpy(scan->keys + scan->keys_end, &len32, sizeof(len32));
    scan->keys_end += sizeof(len32) + len;
    skip_space(scan);
    if (!take(scan, ':')) {
        return unexpected(scan, "':'");
    }
    skip_space(scan);
    if (scan_value(scan, depth) != 0) {
        return -1;
    }
    leave_field(scan, before);
    return 0;
}

static int scan_object(scan_t *scan, int depth)
{
    size_t object_keys = scan->keys_end;

    scan->at++;
    skip_space(scan);
    if (!take(scan, '}')) {
        do {
            skip_space(scan);
            if (scan_member(scan, object_keys, depth + 1) != 0) {
                return -1;
            }
            skip_space(scan);
        } while (take(scan, ','));
        if (!take(scan, '}')) {
            return unexpected(scan, "',' or '}'");
        }
    }
    scan->keys_end = object_keys;
    return 0;
}

static int scan_array(scan_t *scan, int depth)
{
    size_t index = 0;

    scan->at++;
    skip_space(scan);
    if (take(scan, ']')) {
        return 0;
    }
    do {
        char number[32];
        size_t before;

        snprintf(number, sizeof(number), "%zu]", index++);
        before = enter_field(scan, "[", number, sizeof(number));
        skip_space(scan);
        if (scan_value(scan, depth + 1) != 0) {
            return -1;
        }
        leave_field(scan, before);
        skip_space(scan);
    } while (take(scan, ','));
    return take(scan, ']') ? 0 : unexpected(scan, "',' or ']'");
}

static int scan_value(scan_t *scan, int depth)
{
    int c = peek(scan);

    if (scan->wanted != NULL && !scan->found && strcmp(scan->wanted, scan->field) == 0) {
        set_place(scan, scan->at);
        scan->found = 1;
    }
    if ((c == '{' || c == '[') && depth >= KVSI_JSON_MAX_DEPTH) {
        return fault(scan, scan->at, "nested too deep (at most 16 levels)");
    }
    if (c == '{') {
        return scan_object(scan, depth);
    }
    if (c == '[') {
        return scan_array(scan, depth);
    }
    if (c == '"') {
        return scan_string(scan, NULL, NULL);
    }
    if (c == '-' || (c >= '0' && c <= '9')) {
        return scan_number(scan);
    }
    return scan_word(scan);
}

static int scan_text(scan_t *scan)
{
    if (scan->n_bytes >= 3 && memcmp(scan->text, "\xEF\xBB\xBF", 3) == 0) {
        return fault(scan, 0, "a byte order mark is not allowed");
    }
    skip_space(scan);
    if (scan_value(scan, 0) != 0) {
        return -1;
    }
    skip_space(scan);
    return scan->at == scan->n_bytes ? 0 : unexpected(scan, "the end of the text");
}

static int scan_all(scan_t *scan)
{
    int result;

    scan->place->out_of_memory = 0;
    scan->keys = malloc(scan->n_bytes + sizeof(uint32_t));
    if (scan->keys == NULL) {
        scan->place->out_of_memory = 1;
        return fault(scan, 0, "out of memory");
    }
    result = scan_text(scan);
    free(scan->keys);
    return result;
}

int kvsi_jsonscan_check(const char *text, size_t n_bytes, kvsi_json_place_t *ret_fault)
{
    scan_t scan = {.text = text, .n_bytes = n_bytes, .place = ret_fault};

    return scan_all(&scan);
}

int kvsi_jsonscan_find(const char *text, size_t n_bytes, const char *field,
                       kvsi_json_place_t *ret_place)
{
    scan_t scan = {.text = text, .n_bytes = n_bytes, .place = ret_place, .wanted = field};

    return scan_all(&scan) == 0 && scan.found ? 0 : -1;
}
