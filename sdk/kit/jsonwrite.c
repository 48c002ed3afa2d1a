/* SPDX-License-Identifier: Apache-2.0 */
/* jsonwrite.c - see jsonwrite.h. Numbers are printed in the C locale, whatever the program's is. */
#include "jsonwrite.h"

#include "clocale.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int make_room(kvs_jsonwrite_t *json, size_t n_more)
{
    size_t capacity = json->capacity > 0 ? json->capacity : 256;
    char *text;

    if (json->failed || n_more > SIZE_MAX / 4 - json->n_bytes) {
        json->failed = 1;
        return 0;
    }
    while (capacity < json->n_bytes + n_more + 1) {
        capacity *= 2;
    }
    if (capacity == json->capacity) {
        return 1;
    }
    text = realloc(json->text, capacity);
    if (text == NULL) {
        json->failed = 1;
        return 0;
    }
    json->text = text;
    json->capacity = capacity;
    return 1;
}

void kvs_jsonwrite_raw(kvs_jsonwrite_t *json, const char *bytes, size_t n_bytes)
{
    if (make_room(json, n_bytes)) {
        memcpy(json->text + json->n_bytes, bytes, n_bytes);
        json->n_bytes += n_bytes;
        json->text[json->n_bytes] = '\0';
    }
}

static void begin_value(kvs_jsonwrite_t *json)
{
    if (json->comma) {
        kvs_jsonwrite_raw(json, ",", 1);
    }
    json->comma = 1;
}

void kvs_jsonwrite_open(kvs_jsonwrite_t *json, char bracket)
{
    begin_value(json);
    kvs_jsonwrite_raw(json, &bracket, 1);
    json->comma = 0;
}

void kvs_jsonwrite_close(kvs_jsonwrite_t *json, char bracket)
{
    kvs_jsonwrite_raw(json, &bracket, 1);
    json->comma = 1;
}

void kvs_jsonwrite_name(kvs_jsonwrite_t *json, const char *name)
{
    kvs_jsonwrite_string(json, name);
    kvs_jsonwrite_raw(json, ":", 1);
    json->comma = 0;
}

/* A byte that can't stand in a string as it is. */
static void add_escape(kvs_jsonwrite_t *json, unsigned char c)
{
    char escape[8];
    int n = c == '"' || c == '\\' ? snprintf(escape, sizeof(escape), "\\%c", c)
                                  : snprintf(escape, sizeof(escape), "\\u%04x", c);

    kvs_jsonwrite_raw(json, escape, (size_t)n);
}

void kvs_jsonwrite_string(kvs_jsonwrite_t *json, const char *string)
{
    begin_value(json);
    kvs_jsonwrite_raw(json, "\"", 1);
    while (*string != '\0') {
        size_t n_plain = 0;

        while ((unsigned char)string[n_plain] >= 0x20 && string[n_plain] != '"' &&
               string[n_plain] != '\\') {
            n_plain++;
        }
        kvs_jsonwrite_raw(json, string, n_plain);
        string += n_plain;
        if (*string != '\0') {
            add_escape(json, (unsigned char)*string++);
        }
    }
    kvs_jsonwrite_raw(json, "\"", 1);
}

void kvs_jsonwrite_integer(kvs_jsonwrite_t *json, int64_t number)
{
    char digits[24];
    int n = snprintf(digits, sizeof(digits), "%lld", (long long)number);

    begin_value(json);
    kvs_jsonwrite_raw(json, digits, (size_t)n);
}

void kvs_jsonwrite_real(kvs_jsonwrite_t *json, double number)
{
    char digits[40];
    size_t n;

    if (isnan(number)) {
        kvs_jsonwrite_word(json, "null");
        return;
    }
    n = kvs_clocale_print(number, digits, sizeof(digits));
    begin_value(json);
    kvs_jsonwrite_raw(json, digits, n);
    if (strpbrk(digits, ".e") == NULL) {
        kvs_jsonwrite_raw(json, ".0", 2);
    }
}

void kvs_jsonwrite_word(kvs_jsonwrite_t *json, const char *word)
{
    begin_value(json);
    kvs_jsonwrite_raw(json, word, strlen(word));
}

void kvs_jsonwrite_release(kvs_jsonwrite_t *json)
{
    free(json->text);
    *json = (kvs_jsonwrite_t){0};
}
