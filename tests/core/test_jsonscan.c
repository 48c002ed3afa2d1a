/* SPDX-License-Identifier: Apache-2.0 */
/* The strict reading of JSON: what cJSON would let through is refused, with its place. */
#include "kt.h"
#include "jsonscan.h"

#include <stdlib.h>

typedef struct refusal {
    const char *text;
    size_t line, column;
    const char *field, *reason;
} refusal_t;

/* On a copy of its exact size, so that a sanitizer sees any read past the end. */
static int check(const char *text, size_t n_bytes, kvsi_json_place_t *ret_fault)
{
    char *copy = malloc(n_bytes + (n_bytes == 0));
    int result;

    memcpy(copy, text, n_bytes);
    result = kvsi_jsonscan_check(copy, n_bytes, ret_fault);
    free(copy);
    return result;
}

static void refused(const refusal_t *want, size_t n_bytes)
{
    kvsi_json_place_t fault = {0};

    KT_INT(check(want->text, n_bytes, &fault), -1);
    KT_INT(fault.line, want->line);
    KT_INT(fault.column, want->column);
    KT_STR(fault.field, want->field);
    KT_HAS(fault.reason, want->reason);
}

static void all_refused(const refusal_t *wants, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        refused(&wants[i], strlen(wants[i].text));
    }
}

#define ALL_REFUSED(wants) all_refused(wants, sizeof(wants) / sizeof((wants)[0]))

static void accepted(const char *text)
{
    kvsi_json_place_t fault = {0};

    if (check(text, strlen(text), &fault) != 0) {
        printf("\n  %s: refused at %zu:%zu: %s", text, fault.line, fault.column, fault.reason);
        KT_TRUE(!"accepted");
    }
}

static void json_is_accepted(void)
{
    accepted("{}");
    accepted(" [ ] ");
    accepted("null");
    accepted("\"\"");
    accepted("-0.5e-3");
    accepted("{\"a\": [1, 2.5, -3e+2, true, false, null, {\"b\": \"\\u00e4\\n\\\"\"}]}");
    accepted("\t\r\n{\"\xC3\xA4\": \"\xF0\x9F\x98\x80\"}\n");
    accepted("\"\\ud83d\\ude00\"");                     /* a surrogate pair */
    accepted("{\"a\": {\"a\": 1}, \"b\": {\"a\": 2}}"); /* the same key in other objects */
    accepted("1e-400");
    accepted("0e9999999999999999999");
    accepted("0.00000001e314");
    accepted("9.99e307");
}

static void what_ends_early_is_refused(void)
{
    static const refusal_t wants[] = {
        {"", 1, 1, "", "the text ends"},
        {"{", 1, 2, "", "a string in double quotes"},
        {"{\"a\"", 1, 5, "a", "':'"},
        {"{\"a\":", 1, 6, "a", "a value"},
        {"{\"a\": 1", 1, 8, "", "',' or '}'"},
        {"[1, 2", 1, 6, "", "',' or ']'"},
        {"\"abc", 1, 5, "", "within a string"},
        {"tru", 1, 1, "", "a value"},
        {"-", 1, 2, "", "a digit"},
        {"1.", 1, 3, "", "a digit"},
        {"1e", 1, 3, "", "a digit"},
    };

    ALL_REFUSED(wants);
}

static void what_is_not_json_is_refused(void)
{
    static const refusal_t wants[] = {
        {"{} x", 1, 4, "", "the end of the text"},
        {"{\"a\": 1,}", 1, 9, "", "a string in double quotes"},
        {"[1,]", 1, 4, "[1]", "a value"},
        {"{'a': 1}", 1, 2, "", "a string in double quotes"},
        {"{\"a\": 01}", 1, 7, "a", "leading zero"},
        {"{\"a\": +1}", 1, 7, "a", "a value"},
        {"{\"a\": .5}", 1, 7, "a", "a value"},
        {"{\"a\": NaN}", 1, 7, "a", "a value"},
        {"{\"a\": 1} // no", 1, 10, "", "the end of the text"},
        {"\"\\x41\"", 1, 2, "", "unknown escape"},
        {"\"\\u12g4\"", 1, 2, "", "four hexadecimal digits"},
        {"\"a\nb\"", 1, 3, "", "control character"},
    };

    ALL_REFUSED(wants);
}

static void numbers_that_become_infinite_are_refused(void)
{
    static const refusal_t wants[] = {
        {"{\"a\": 1e400}", 1, 7, "a", "too large"},
        {"[0, -1.5E+999]", 1, 5, "[1]", "too large"},
        {"1e99999999999999999999", 1, 1, "", "too large"},
        {"0.001e312", 1, 1, "", "too large"},
    };
    char digits[400];

    ALL_REFUSED(wants);
    memset(digits, '9', sizeof(digits));
    refused(&(refusal_t){digits, 1, 1, "", "too large"}, sizeof(digits));
}

static void invalid_utf8_is_refused_where_it_is(void)
{
    static const refusal_t wants[] = {
        {"{\"a\": \"x\xFF\"}", 1, 9, "a", "invalid UTF-8"},
        {"\"\xC0\xAF\"", 1, 2, "", "invalid UTF-8"},         /* overlong */
        {"\"\xE0\x80\x80\"", 1, 2, "", "invalid UTF-8"},     /* overlong */
        {"\"\xED\xA0\x80\"", 1, 2, "", "invalid UTF-8"},     /* a surrogate */
        {"\"\xF4\x90\x80\x80\"", 1, 2, "", "invalid UTF-8"}, /* above U+10FFFF */
        {"\"\xC3\"", 1, 2, "", "invalid UTF-8"},             /* cut short */
        {"\"\xE2\x82", 1, 2, "", "invalid UTF-8"},           /* cut short by the end */
        {"{\"\xC3\xA4\": \"\x80\"}", 1, 8, "\xC3\xA4", "invalid UTF-8"},
        {"\"\\ud800\"", 1, 2, "", "surrogate"},
        {"\"\\ud800\\u0041\"", 1, 2, "", "surrogate"},
        {"\"\\udc00\"", 1, 2, "", "surrogate"},
    };

    ALL_REFUSED(wants);
}

static void embedded_nul_is_refused(void)
{
    refused(&(refusal_t){"{\"a\": \"b\0c\"}", 1, 9, "a", "NUL byte"}, 12);
    refused(&(refusal_t){"{} \0", 1, 4, "", "NUL byte"}, 4);
    refused(&(refusal_t){"{\"a\": \"\\u0000\"}", 1, 8, "a", "\\u0000"}, 15);
}

static void a_byte_order_mark_is_refused(void)
{
    refused(&(refusal_t){"\xEF\xBB\xBF{}", 1, 1, "", "byte order mark"}, 5);
}

static void duplicate_keys_are_refused_at_the_second(void)
{
    static const refusal_t wants[] = {
        {"{\"a\": 1, \"b\": 2,\n \"a\": 3}", 2, 2, "a", "duplicate key"},
        {"{\"o\": {\"x\": 1, \"x\": 2}}", 1, 16, "o.x", "duplicate key"},
        {"{\"a\": 1, \"\\u0061\": 2}", 1, 10, "a",
         "duplicate key"}, /* the same, otherwise written */
        {"{\"a\": {\"b\": [{}]}, \"c\": 0, \"a\": 2}", 1, 28, "a", "duplicate key"},
        {"{\"\": 1, \"\": 2}", 1, 9, "", "duplicate key"},
    };

    ALL_REFUSED(wants);
}

static void nesting_is_limited_to_16(void)
{
    accepted("[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]");
    refused(&(refusal_t){"[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]", 1, 17,
                         "[0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0]", "16 levels"},
            35);
}

static void places_count_lines_and_characters(void)
{
    refused(&(refusal_t){"{\n  \"\xC3\xA4\xC3\xB6\": [1,\n   {\"k\": x}]}", 3, 10,
                         "\xC3\xA4\xC3\xB6[1].k", "a value"},
            26);
}

static void a_long_field_is_cut_but_its_place_is_right(void)
{
    char text[2000];
    kvsi_json_place_t fault;

    text[0] = '{';
    text[1] = '"';
    memset(text + 2, 'k', 1000);
    strcpy(text + 1002, "\": [x]}");
    KT_INT(check(text, strlen(text), &fault), -1);
    KT_INT(fault.column, 1007);
    KT_INT(strlen(fault.field), KVSI_JSON_FIELD_BYTES - 1);
}

static void fields_are_found_where_their_values_begin(void)
{
    static const char text[] = "{\"name\": \"x\",\n \"provides\": [{}, {\"name\":\n  7}]}";
    kvsi_json_place_t place;

    KT_INT(kvsi_jsonscan_find(text, strlen(text), "name", &place), 0);
    KT_INT(place.line, 1);
    KT_INT(place.column, 10);
    KT_INT(kvsi_jsonscan_find(text, strlen(text), "provides[1].name", &place), 0);
    KT_INT(place.line, 3);
    KT_INT(place.column, 3);
    KT_INT(kvsi_jsonscan_find(text, strlen(text), "provides[1]", &place), 0);
    KT_INT(place.line, 2);
    KT_INT(place.column, 19);
    KT_INT(kvsi_jsonscan_find(text, strlen(text), "", &place), 0);
    KT_INT(place.column, 1);
    KT_INT(kvsi_jsonscan_find(text, strlen(text), "provides[2]", &place), -1);
}

/* Each prefix of a valid text that is an object is itself no JSON: none may be read past its
 * end. */
static void every_truncation_is_refused(void)
{
    static const char text[] = "{\"a\": [1, -2.5e3, \"\\u00e4\xC3\xA4\"], \"b\": {\"c\": true}}";
    kvsi_json_place_t fault;

    for (size_t n = 0; n + 1 < sizeof(text); n++) {
        KT_INT(check(text, n, &fault), -1);
    }
    accepted(text);
}

static const kt_test_t tests[] = {
    KT_TEST(json_is_accepted),
    KT_TEST(what_ends_early_is_refused),
    KT_TEST(what_is_not_json_is_refused),
    KT_TEST(numbers_that_become_infinite_are_refused),
    KT_TEST(invalid_utf8_is_refused_where_it_is),
    KT_TEST(embedded_nul_is_refused),
    KT_TEST(a_byte_order_mark_is_refused),
    KT_TEST(duplicate_keys_are_refused_at_the_second),
    KT_TEST(nesting_is_limited_to_16),
    KT_TEST(places_count_lines_and_characters),
    KT_TEST(a_long_field_is_cut_but_its_place_is_right),
    KT_TEST(fields_are_found_where_their_values_begin),
    KT_TEST(every_truncation_is_refused),
};
KT_MAIN("jsonscan", tests)
