/* SPDX-License-Identifier: Apache-2.0 */
/* json.c - see json.h. */
#include "json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Bytes of the UTF-8 character at `text`, or 0. Overlong forms and surrogates come from no file
 * name that anybody could read; they are let through. */
static size_t character_length(const unsigned char *text)
{
    size_t len = text[0] < 0x80                       ? 1
                 : text[0] >= 0xC2 && text[0] < 0xE0  ? 2
                 : text[0] >= 0xE0 && text[0] < 0xF0  ? 3
                 : text[0] >= 0xF0 && text[0] <= 0xF4 ? 4
                                                      : 0;

    for (size_t i = 1; i < len; i++) {
        if ((text[i] & 0xC0) != 0x80) {
            return 0;
        }
    }
    return len;
}

static void put_text(const char *text)
{
    const unsigned char *at = (const unsigned char *)text;

    putchar('"');
    while (*at != '\0') {
        size_t len = character_length(at);

        if (len == 0) {
            fputs("\\ufffd", stdout);
            len = 1;
        } else if (*at == '"' || *at == '\\') {
            printf("\\%c", *at);
        } else if (*at < 0x20 || *at == 0x7F) {
            printf("\\u%04x", *at);
        } else {
            fwrite(at, 1, len, stdout);
        }
        at += len;
    }
    putchar('"');
}

/* The comma, line and name before a value. */
static void begin_value(json_t *json, const char *name)
{
    if (json->depth > 0) {
        printf("%s\n%*s", json->has_items ? "," : "", 2 * json->depth, "");
    }
    if (name != NULL) {
        put_text(name);
        fputs(": ", stdout);
    }
    json->has_items = 1;
}

void json_open(json_t *json, const char *name, char bracket)
{
    begin_value(json, name);
    putchar(bracket);
    json->depth++;
    json->has_items = 0;
}

void json_close(json_t *json, char bracket)
{
    json->depth--;
    if (json->has_items) {
        printf("\n%*s", 2 * json->depth, "");
    }
    putchar(bracket);
    if (json->depth == 0) {
        putchar('\n');
    }
    json->has_items = 1;
}

void json_text(json_t *json, const char *name, const char *text)
{
    begin_value(json, name);
    if (text != NULL) {
        put_text(text);
    } else {
        fputs("null", stdout);
    }
}

void json_integer(json_t *json, const char *name, long long value)
{
    begin_value(json, name);
    printf("%lld", value);
}

void json_real(json_t *json, const char *name, double value)
{
    char digits[40];

    begin_value(json, name);
    for (int n = 6; n <= 17; n++) {
        snprintf(digits, sizeof(digits), "%.*g", n, value);
        if (strtod(digits, NULL) == value) {
            break;
        }
    }
    fputs(isnan(value) ? "null" : digits, stdout);
}

void json_bool(json_t *json, const char *name, int value)
{
    begin_value(json, name);
    fputs(value ? "true" : "false", stdout);
}

void json_texts(json_t *json, const char *name, const char *const *texts, size_t n_texts)
{
    begin_value(json, name);
    putchar('[');
    for (size_t i = 0; i < n_texts; i++) {
        fputs(i > 0 ? ", " : "", stdout);
        put_text(texts[i]);
    }
    putchar(']');
}
