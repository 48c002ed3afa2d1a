/* SPDX-License-Identifier: Apache-2.0 */
/* jsonread.c - see jsonread.h. A decoded string is never longer than its text, so that it fits in its
 * place; its NUL takes that of the closing quote or of a byte before. */
#include "jsonread.h"

#include "clocale.h"

#include <math.h>
#include <string.h>

#define MAX_NUMBER_BYTES 64

int kvs_jsonread_fault(kvs_jsonread_t *json, const char *fault)
{
    if (json->fault == NULL) {
        json->fault = fault;
    }
    return 0;
}

/* The next byte that is no space, or -1. */
static int peek(kvs_jsonread_t *json)
{
    while (json->at < json->n_bytes && strchr(" \n\t\r", json->text[json->at]) != NULL &&
           json->text[json->at] != '\0') {
        json->at++;
    }
    return json->fault == NULL && json->at < json->n_bytes ? (unsigned char)json->text[json->at]
                                                           : -1;
}

static int take(kvs_jsonread_t *json, char c, const char *fault)
{
    if (peek(json) != (unsigned char)c) {
        return kvs_jsonread_fault(json, fault);
    }
    json->at++;
    return 1;
}

kvs_json_kind_t kvs_jsonread_kind(kvs_jsonread_t *json)
{
    int c = peek(json);

    switch (c) {
    case '{':
        return KVS_JSON_OBJECT;
    case '[':
        return KVS_JSON_ARRAY;
    case '"':
        return KVS_JSON_STRING;
    case 't':
    case 'f':
        return KVS_JSON_BOOL;
    case 'n':
        return KVS_JSON_NULL;
    default:
        return c == '-' || (c >= '0' && c <= '9') ? KVS_JSON_NUMBER : KVS_JSON_FAULT;
    }
}

/* ---- Objects and arrays -------------------------------------------------------------------------- */

int kvs_jsonread_open(kvs_jsonread_t *json, char bracket)
{
    json->fresh = 1;
    return take(json, bracket, bracket == '{' ? "'{' is expected" : "'[' is expected");
}

int kvs_jsonread_more(kvs_jsonread_t *json, char bracket)
{
    int c = peek(json);
    int fresh = json->fresh;

    json->fresh = 0;
    if (c == bracket) {
        json->at++;
        return 0;
    }
    return fresh ? json->fault == NULL
                 : take(json, ',',
                        bracket == '}' ? "',' or '}' is expected" : "',' or ']' is expected");
}

int kvs_jsonread_name(kvs_jsonread_t *json, const char **ret_name)
{
    return kvs_jsonread_string(json, ret_name) && take(json, ':', "':' is expected");
}

int kvs_jsonread_end(kvs_jsonread_t *json)
{
    if (peek(json) >= 0 || json->at < json->n_bytes) {
        return kvs_jsonread_fault(json, "the end is expected");
    }
    return json->fault == NULL;
}

/* ---- Strings ------------------------------------------------------------------------------------- */

/* Bytes of the UTF-8 character at `s`, of at most `n` bytes; 0 if it is none. */
static size_t utf8_length(const unsigned char *s, size_t n)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t len = s[0] < 0x80       ? 1
                 : s[0] >> 5 == 6  ? 2
                 : s[0] >> 4 == 14 ? 3
                 : s[0] >> 3 == 30 ? 4
                                   : 0;
    uint32_t code = s[0] & (0x7Fu >> len);

    if (len < 2 || len > n) {
        return len < 2 ? len : 0;
    }
    for (size_t i = 1; i < len; i++) {
        if ((s[i] & 0xC0) != 0x80) {
            return 0;
        }
        code = code << 6 | (s[i] & 0x3F);
    }
    return code < least[len] || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000) ? 0 : len;
}

static size_t utf8_write(uint32_t code, char *to)
{
    size_t len = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    static const unsigned char lead[] = {0, 0, 0xC0, 0xE0, 0xF0};

    for (size_t i = len - 1; i > 0; i--) {
        to[i] = (char)(0x80 | (code & 0x3F));
        code >>= 6;
    }
    to[0] = (char)(lead[len] | code);
    return len;
}

/* The four hexadecimal digits at `at`; -1 if they are not there. */
static int32_t hex4(kvs_jsonread_t *json)
{
    int32_t number = 0;

    for (int i = 0; i < 4; i++, json->at++) {
        int c = json->at < json->n_bytes ? json->text[json->at] : 0;
        int lower = c | 0x20;

        if (c >= '0' && c <= '9') {
            number = number << 4 | (c - '0');
        } else if (lower >= 'a' && lower <= 'f') {
            number = number << 4 | (lower - 'a' + 10);
        } else {
            return -1;
        }
    }
    return number;
}

/* Behind "\u". 0, which no string may hold, for a fault. */
static uint32_t unicode_escape(kvs_jsonread_t *json)
{
    int32_t code = hex4(json);

    if (code >= 0xD800 && code < 0xDC00 && json->n_bytes - json->at >= 6 &&
        memcmp(json->text + json->at, "\\u", 2) == 0) {
        json->at += 2;
        int32_t low = hex4(json);

        return low >= 0xDC00 && low < 0xE000
                   ? 0x10000 + (((uint32_t)code & 0x3FF) << 10) + ((uint32_t)low & 0x3FF)
                   : 0;
    }
    return code < 0 || (code >= 0xD800 && code < 0xE000) ? 0 : (uint32_t)code;
}

/* Behind a backslash. */
static uint32_t escape(kvs_jsonread_t *json)
{
    static const char names[] = "\"\\/bfnrt";
    static const char meanings[] = "\"\\/\b\f\n\r\t";
    char c = json->at < json->n_bytes ? json->text[json->at++] : '\0';
    const char *name = c != '\0' ? strchr(names, c) : NULL;

    if (c == 'u') {
        return unicode_escape(json);
    }
    return name != NULL ? (unsigned char)meanings[name - names] : 0;
}

/* Copy the character at `at` to `to`, decoded; gives its bytes there, 0 for a fault. */
static size_t decode_one(kvs_jsonread_t *json, char *to)
{
    const char *from = json->text + json->at;
    unsigned char c = (unsigned char)*from;
    size_t len;

    if (c == '\\') {
        json->at++;
        uint32_t code = escape(json);

        return code != 0 ? utf8_write(code, to) : 0;
    }
    len = c < 0x20 ? 0 : utf8_length((const unsigned char *)from, json->n_bytes - json->at);
    memmove(to, from, len);
    json->at += len;
    return len;
}

int kvs_jsonread_text(kvs_jsonread_t *json, char **ret_text, size_t *ret_n_bytes)
{
    size_t end;
    char *begin;

    if (!take(json, '"', "a string is expected")) {
        return 0;
    }
    begin = json->text + json->at;
    for (end = json->at; json->at < json->n_bytes && json->text[json->at] != '"';) {
        size_t n = decode_one(json, json->text + end);

        if (n == 0) {
            return kvs_jsonread_fault(json, "a string holds a byte or an escape it must not");
        }
        end += n;
    }
    if (json->at >= json->n_bytes) {
        return kvs_jsonread_fault(json, "the text ends within a string");
    }
    json->at++;
    json->text[end] = '\0';
    *ret_text = begin;
    *ret_n_bytes = (size_t)(json->text + end - begin);
    return 1;
}

int kvs_jsonread_string(kvs_jsonread_t *json, const char **ret_string)
{
    char *text;
    size_t n_bytes;

    if (!kvs_jsonread_text(json, &text, &n_bytes)) {
        return 0;
    }
    *ret_string = text;
    return 1;
}

/* ---- Numbers and words --------------------------------------------------------------------------- */

static size_t digits(const char *text)
{
    return strspn(text, "0123456789");
}

/* Whether `text` is a number of JSON, and whether it has neither point nor exponent. */
static int is_number(const char *text, int *ret_is_integer)
{
    size_t n;

    text += *text == '-';
    n = digits(text);
    if (n == 0 || (n > 1 && *text == '0')) {
        return 0;
    }
    text += n;
    *ret_is_integer = *text == '\0';
    if (*text == '.') {
        n = digits(++text);
        text += n;
        if (n == 0) {
            return 0;
        }
    }
    if (*text == 'e' || *text == 'E') {
        text++;
        text += *text == '-' || *text == '+';
        n = digits(text);
        text += n;
        if (n == 0) {
            return 0;
        }
    }
    return *text == '\0';
}

/* The letters of the number at `at` into `ret_text`. */
static int number_text(kvs_jsonread_t *json, char ret_text[MAX_NUMBER_BYTES], int *ret_is_integer)
{
    size_t n = 0;

    (void)peek(json);
    while (json->fault == NULL && json->at + n < json->n_bytes && n < MAX_NUMBER_BYTES - 1 &&
           json->text[json->at + n] != '\0' &&
           strchr("+-.0123456789eE", json->text[json->at + n]) != NULL) {
        ret_text[n] = json->text[json->at + n];
        n++;
    }
    ret_text[n] = '\0';
    if (json->fault != NULL || n == MAX_NUMBER_BYTES - 1 || !is_number(ret_text, ret_is_integer)) {
        return kvs_jsonread_fault(json, "a number is expected");
    }
    json->at += n;
    return 1;
}

int kvs_jsonread_real(kvs_jsonread_t *json, double *ret_number, int *ret_is_integer)
{
    char text[MAX_NUMBER_BYTES];
    int is_integer;
    double number;

    if (!number_text(json, text, &is_integer)) {
        return 0;
    }
    number = kvs_clocale_read(text, NULL);
    if (!isfinite(number)) {
        return kvs_jsonread_fault(json, "a number is too large");
    }
    if (ret_is_integer != NULL) {
        *ret_is_integer = is_integer;
    }
    *ret_number = number;
    return 1;
}

int kvs_jsonread_integer(kvs_jsonread_t *json, int64_t *ret_number)
{
    char text[MAX_NUMBER_BYTES];
    int64_t number = 0;
    int is_integer;

    if (!number_text(json, text, &is_integer)) {
        return 0;
    }
    if (!is_integer) {
        return kvs_jsonread_fault(json, "a whole number is expected");
    }
    for (const char *digit = text + (text[0] == '-'); *digit != '\0'; digit++) {
        int64_t add = text[0] == '-' ? '0' - *digit : *digit - '0';

        if (__builtin_mul_overflow(number, 10, &number) ||
            __builtin_add_overflow(number, add, &number)) {
            return kvs_jsonread_fault(json, "a number is too large");
        }
    }
    *ret_number = number;
    return 1;
}

static int take_word(kvs_jsonread_t *json, const char *word)
{
    size_t n = strlen(word);

    (void)peek(json);
    if (json->fault != NULL || json->n_bytes - json->at < n ||
        memcmp(json->text + json->at, word, n) != 0) {
        return 0;
    }
    json->at += n;
    return 1;
}

int kvs_jsonread_bool(kvs_jsonread_t *json, int *ret_bool)
{
    int is_true = take_word(json, "true");

    if (!is_true && !take_word(json, "false")) {
        return kvs_jsonread_fault(json, "true or false is expected");
    }
    *ret_bool = is_true;
    return 1;
}

int kvs_jsonread_null(kvs_jsonread_t *json)
{
    return take_word(json, "null") || kvs_jsonread_fault(json, "null is expected");
}
