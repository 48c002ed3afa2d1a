/* SPDX-License-Identifier: Apache-2.0 */
/* Texts of anybody's making as people may see them: in errors, log lines and rows. */
#include "printable.h"
#include "kt.h"
#include "log.h"
#include "status.h"
#include "verdict.h"

static const char *shown(const char *text)
{
    static char out[256];

    kvsi_printable(text, out, sizeof(out));
    return out;
}

static void text_stays_as_it_is(void)
{
    KT_STR(shown(""), "");
    KT_STR(shown("plain 'text' \\ \"quoted\" 100%"), "plain 'text' \\ \"quoted\" 100%");
    KT_STR(shown("größe 中 \xF0\x9F\x98\x80"), "größe 中 \xF0\x9F\x98\x80");
}

static void control_characters_are_escaped(void)
{
    KT_STR(shown("a\nb\tc\rd"), "a\\nb\\tc\\rd");
    KT_STR(shown("\x1b[31mred\x07\x7f"), "\\x1b[31mred\\x07\\x7f");
    KT_STR(shown("\xC2\x9B"
                 "2J"),
           "\\xc2\\x9b2J"); /* CSI in one character */
    KT_STR(shown(shown("\n")), "\\n");
}

static void what_is_no_utf8_is_escaped(void)
{
    KT_STR(shown("\xFFgr\xC3"), "\\xffgr\\xc3");
    KT_STR(shown("\xC0\xAF"), "\\xc0\\xaf");                   /* overlong */
    KT_STR(shown("\xE0\x80\x80"), "\\xe0\\x80\\x80");          /* overlong */
    KT_STR(shown("\xED\xA0\x80"), "\\xed\\xa0\\x80");          /* a surrogate */
    KT_STR(shown("\xF4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80"); /* past the last */
    KT_STR(shown("\xE4\xB8"), "\\xe4\\xb8");                   /* ends too early */
    KT_STR(shown("\x80"), "\\x80");
}

static void a_cut_falls_between_characters_and_escapes(void)
{
    char out[8];

    kvsi_printable("1234567", out, sizeof(out));
    KT_STR(out, "1234567");
    kvsi_printable("12345678", out, sizeof(out));
    KT_STR(out, "1234...");
    kvsi_printable("123ä5678", out, sizeof(out));
    KT_STR(out, "123...");
    kvsi_printable("12\n345678", out, sizeof(out));
    KT_STR(out, "12\\n...");
    kvsi_printable("123\x01yyyy", out, sizeof(out));
    KT_STR(out, "123...");
}

static void errors_and_log_lines_are_one_line(void)
{
    kvs_fail(KVS_ERR_NOT_FOUND, "key '%s'", "a\nb\xFF");
    KT_STR(kvs_last_error(), "key 'a\\nb\\xff'");
    kvsi_fail_context(KVS_ERR_NOT_FOUND, "create '%s'", "\x1b[2J");
    KT_STR(kvs_last_error(), "create '\\x1b[2J': key 'a\\nb\\xff'");
    kvsi_log_set("warn");
    kt_stderr_begin();
    kvsi_log(KVS_LOG_WARN, "store", "name %s", "x\nkvstore error store: forged");
    KT_STR(kt_stderr_end(), "kvstore warn store: name x\\nkvstore error store: forged\n");
}

static void verdicts_and_notes_are_one_line(void)
{
    kvsi_arena_t arena = KVSI_ARENA_INIT;
    kvs_plugin_info_t info = {.state = KVS_PLUGIN_OK};
    const char *const *notes = NULL;
    size_t n_notes = 0;

    kvsi_judge(&arena, &info, KVS_PLUGIN_DISABLED, "", "by %s", "\x1b[31m");
    KT_STR(info.reason, "by \\x1b[31m");
    kvsi_note(&arena, &notes, &n_notes, "glob %s", "\n");
    KT_STR(notes[0], "glob \\n");
    kvsi_arena_release(&arena);
}

static void a_key_is_escaped_in_the_text_that_names_it(void)
{
    kvs_store_t *store = NULL;
    float value = 1;
    kvs_tensor_t array = KT_F32(&value, 1);
    kvs_arrays_t arrays = kvs_arrays(&array, 1);
    kvs_key_t key = kvs_key_str("line\nbreak");
    kvs_option_t option = {"lo\x1bg", "x"};

    KT_OK(kvs_store_create("local", NULL, 0, &store));
    KT_FAIL(kvs_store_pull(store, &key, 1, &arrays, NULL), KVS_ERR_NOT_FOUND, "line\\nbreak");
    KT_OK(kvs_store_close(store));
    KT_FAIL(kvs_store_create("lo\ncal", NULL, 0, &store), KVS_ERR_NOT_FOUND, "lo\\ncal");
    KT_FAIL(kvs_store_create("local", &option, 1, &store), KVS_ERR_ARGUMENT, "lo\\x1bg");
}

static const kt_test_t tests[] = {
    KT_TEST(text_stays_as_it_is),
    KT_TEST(control_characters_are_escaped),
    KT_TEST(what_is_no_utf8_is_escaped),
    KT_TEST(a_cut_falls_between_characters_and_escapes),
    KT_TEST(errors_and_log_lines_are_one_line),
    KT_TEST(verdicts_and_notes_are_one_line),
    KT_TEST(a_key_is_escaped_in_the_text_that_names_it),
};
KT_MAIN("printable", tests)
