/* SPDX-License-Identifier: Apache-2.0 */
/* The kit's JSON: what is written is read back, and nothing but JSON is read. */
#include "jsonread.h"
#include "jsonwrite.h"

#include "kt.h"

#include <locale.h>
#include <math.h>
#include <stdlib.h>

/* The text, copied to where it may be decoded; freed by the next call. */
static kvs_jsonread_t reader(const char *text, size_t n_bytes)
{
    static char *copy;

    free(copy);
    copy = malloc(n_bytes + 1); /* exact, so that a sanitizer sees an overrun */
    memcpy(copy, text, n_bytes);
    copy[n_bytes] = '\0';
    return kvs_jsonread(copy, n_bytes);
}

static void what_is_written_is_plain_json(void)
{
    kvs_jsonwrite_t json = {0};

    kvs_jsonwrite_open(&json, '{');
    kvs_jsonwrite_name(&json, "a\"b\\c");
    kvs_jsonwrite_open(&json, '[');
    kvs_jsonwrite_integer(&json, INT64_MIN);
    kvs_jsonwrite_real(&json, 1);
    kvs_jsonwrite_real(&json, (double)NAN);
    kvs_jsonwrite_string(&json, "tab\tline\nß");
    kvs_jsonwrite_open(&json, '[');
    kvs_jsonwrite_close(&json, ']');
    kvs_jsonwrite_close(&json, ']');
    kvs_jsonwrite_name(&json, "d");
    kvs_jsonwrite_word(&json, "true");
    kvs_jsonwrite_close(&json, '}');
    KT_STR(json.text, "{\"a\\\"b\\\\c\":[-9223372036854775808,1.0,null,\"tab\\u0009line\\u000aß\","
                      "[]],\"d\":true}");
    KT_INT(json.n_bytes, strlen(json.text));
    KT_INT(json.failed, 0);
    kvs_jsonwrite_release(&json);
    KT_TRUE(json.text == NULL);
}

static void reals_come_back_bit_by_bit(void)
{
    static const double reals[] = {0.1,
                                   1e-8,
                                   -0.0,
                                   1e22,
                                   5e-324,
                                   1.7976931348623157e308,
                                   0.30000000000000004,
                                   123456789012345678.0,
                                   1.0 / 3};

    for (size_t i = 0; i < sizeof(reals) / sizeof(reals[0]); i++) {
        kvs_jsonwrite_t json = {0};
        kvs_jsonread_t read;
        int is_integer = 1;
        double got = 0;

        kvs_jsonwrite_real(&json, reals[i]);
        read = reader(json.text, json.n_bytes);
        KT_TRUE(kvs_jsonread_real(&read, &got, &is_integer));
        KT_TRUE(kvs_jsonread_end(&read));
        KT_INT(is_integer, 0); /* a real is never taken for an integer */
        KT_TRUE(memcmp(&got, &reals[i], sizeof(got)) == 0);
        kvs_jsonwrite_release(&json);
    }
}

/* Where the program's locale has a decimal comma numbers keep their point. */
static void the_locale_does_not_matter(void)
{
    kvs_jsonwrite_t json = {0};
    kvs_jsonread_t read;
    double got = 0;

    (void)kt_comma_locale();
    kvs_jsonwrite_real(&json, 0.5);
    KT_STR(json.text, "0.5");
    read = reader(json.text, json.n_bytes);
    KT_TRUE(kvs_jsonread_real(&read, &got, NULL));
    KT_REAL(got, 0.5);
    kvs_jsonwrite_release(&json);
    setlocale(LC_ALL, "C");
}

static void objects_and_arrays_are_walked_through(void)
{
    const char *text =
        " { \"a\" : [ 1 , -2.5e1, \"x\\u00e9\\ud83d\\ude00\" ,true,null] ,\"b\":{}}\n ";
    kvs_jsonread_t json = reader(text, strlen(text));
    const char *name = "", *string = "";
    int64_t integer = 0;
    double real = 0;
    int flag = 0;

    KT_INT(kvs_jsonread_kind(&json), KVS_JSON_OBJECT);
    KT_TRUE(kvs_jsonread_open(&json, '{'));
    KT_TRUE(kvs_jsonread_more(&json, '}') && kvs_jsonread_name(&json, &name));
    KT_STR(name, "a");
    KT_INT(kvs_jsonread_kind(&json), KVS_JSON_ARRAY);
    KT_TRUE(kvs_jsonread_open(&json, '['));
    KT_TRUE(kvs_jsonread_more(&json, ']') && kvs_jsonread_integer(&json, &integer));
    KT_INT(integer, 1);
    KT_TRUE(kvs_jsonread_more(&json, ']') && kvs_jsonread_real(&json, &real, NULL));
    KT_REAL(real, -25);
    KT_TRUE(kvs_jsonread_more(&json, ']') && kvs_jsonread_string(&json, &string));
    KT_STR(string, "xé😀");
    KT_TRUE(kvs_jsonread_more(&json, ']') && kvs_jsonread_bool(&json, &flag));
    KT_INT(flag, 1);
    KT_TRUE(kvs_jsonread_more(&json, ']') && kvs_jsonread_null(&json));
    KT_TRUE(!kvs_jsonread_more(&json, ']'));
    KT_TRUE(kvs_jsonread_more(&json, '}') && kvs_jsonread_name(&json, &name));
    KT_STR(name, "b");
    KT_TRUE(kvs_jsonread_open(&json, '{') && !kvs_jsonread_more(&json, '}'));
    KT_TRUE(!kvs_jsonread_more(&json, '}'));
    KT_TRUE(kvs_jsonread_end(&json));
    KT_TRUE(json.fault == NULL);
}

/* An array of strings, read to its end. */
static int reads_strings(const char *text, size_t n_bytes)
{
    kvs_jsonread_t json = reader(text, n_bytes);
    const char *string;

    kvs_jsonread_open(&json, '[');
    while (kvs_jsonread_more(&json, ']') && kvs_jsonread_string(&json, &string)) {
    }
    return kvs_jsonread_end(&json);
}

static void what_is_no_json_is_a_fault(void)
{
    static const char *const bad[] = {
        "",
        "[",
        "[\"a\"",
        "[\"a\",]",
        "[,\"a\"]",
        "[\"a\" \"b\"]",
        "[\"a\"]]",
        "[\"a\"] x",
        "[\"a}",
        "[\"\\x\"]",
        "[\"\\u12g4\"]",
        "[\"\\u0000\"]",
        "[\"\\ud800\"]",
        "[\"\\ud800\\u0041\"]",
        "[\"\\udc00\"]",
        "[\"\\",
        "[\"\\u12",
        "[\"a\nb\"]",
        "[\"\xC3\"]",
        "[\"\xC0\x80\"]",
        "[\"\xED\xA0\x80\"]",
        "[\"\xF4\x90\x80\x80\"]",
        "[\"\xFF\"]",
    };

    KT_TRUE(reads_strings("[]", 2));
    KT_TRUE(reads_strings("[\"a\",\"\\/\\b\"]", 12));
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        if (reads_strings(bad[i], strlen(bad[i]))) {
            printf("\n  accepted: %s", bad[i]);
            KT_TRUE(0);
        }
    }
    KT_TRUE(!reads_strings("[\"a\0b\"]", 7));
    KT_TRUE(!reads_strings("[\"a\"]\0", 6));
}

static int reads_number(const char *text, int64_t *ret_integer, double *ret_real)
{
    kvs_jsonread_t first = reader(text, strlen(text)), second = first;
    int as_integer = kvs_jsonread_integer(&first, ret_integer) && kvs_jsonread_end(&first);
    int as_real = kvs_jsonread_real(&second, ret_real, NULL) && kvs_jsonread_end(&second);

    return as_integer + 2 * as_real;
}

static void numbers_are_strict(void)
{
    static const struct {
        const char *text;
        int how; /* 1: as an integer, 2: as a real */
    } rows[] = {
        {"0", 3},     {"-0", 3},    {"9223372036854775807", 3},
        {"1.5", 2},   {"1e3", 2},   {"-9223372036854775808", 3},
        {"1E-3", 2},  {"01", 0},    {"9223372036854775808", 2},
        {"+1", 0},    {".5", 0},    {"-9223372036854775809", 2},
        {"1.", 0},    {"1e", 0},    {"1e+", 0},
        {"-", 0},     {"1e999", 0}, {"0x10", 0},
        {"inf", 0},   {"nan", 0},   {"1 2", 0},
        {"1.2.3", 0}, {"--1", 0},   {"1e5.5", 0},
        {"", 0},      {"null", 0},  {"1,", 0},
    };
    int64_t integer = 0;
    double real = 0;
    char digits[80];

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        int how = reads_number(rows[i].text, &integer, &real);

        if (how != rows[i].how) {
            printf("\n  %s: %d, want %d", rows[i].text, how, rows[i].how);
            KT_TRUE(0);
        }
    }
    memset(digits, '1', sizeof(digits) - 1);
    digits[sizeof(digits) - 1] = '\0';
    KT_INT(reads_number(digits, &integer, &real), 0);
}

static void the_first_fault_stays(void)
{
    kvs_jsonread_t json = reader("[x", 2);
    const char *string;

    kvs_jsonread_open(&json, '[');
    KT_TRUE(kvs_jsonread_more(&json, ']'));
    KT_TRUE(!kvs_jsonread_string(&json, &string));
    KT_STR(json.fault, "a string is expected");
    KT_INT(json.at, 1);
    KT_TRUE(!kvs_jsonread_open(&json, '{'));
    KT_TRUE(!kvs_jsonread_more(&json, '}'));
    KT_TRUE(!kvs_jsonread_null(&json));
    KT_TRUE(!kvs_jsonread_end(&json));
    KT_STR(json.fault, "a string is expected");
    KT_INT(kvs_jsonread_kind(&json), KVS_JSON_FAULT);
}

static const kt_test_t tests[] = {
    KT_TEST(what_is_written_is_plain_json), KT_TEST(reals_come_back_bit_by_bit),
    KT_TEST(the_locale_does_not_matter),    KT_TEST(objects_and_arrays_are_walked_through),
    KT_TEST(what_is_no_json_is_a_fault),    KT_TEST(numbers_are_strict),
    KT_TEST(the_first_fault_stays),
};
KT_MAIN("kit.json", tests)
