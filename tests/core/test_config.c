/* SPDX-License-Identifier: Apache-2.0 */
/* Settings of a store: where they come from, their types, and what is said of wrong ones. */
#include "config.h"
#include "kt.h"

#include <locale.h>
#include <stdlib.h>

static const kvs_option_info_t options[] = {
    {.name = "depth", .type = "int", .preset = "3", .doc = "", .variable = "MXNET_TEST_DEPTH"},
    {.name = "bound", .type = "size", .preset = "1000", .doc = ""},
    {.name = "rate", .type = "float", .preset = "0.5", .doc = ""},
    {.name = "fast", .type = "bool", .preset = "0", .doc = ""},
    {.name = "patience", .type = "time", .preset = "2", .doc = ""},
    {.name = "title", .type = "text", .preset = "none", .doc = ""},
};
static const kvs_backend_t backend = {.size = (uint32_t)sizeof(backend),
                                      .name = "test",
                                      .options = options,
                                      .n_options = sizeof(options) / sizeof(options[0])};

static kvs_status_t make(const kvs_option_t *given, size_t n, kvs_config_t **ret_config)
{
    return kvsi_config_new(&backend, given, n, ret_config);
}

/* The text of setting `name` when create is given these options. */
static void check_text(const kvs_option_t *given, size_t n, const char *name, const char *want)
{
    kvs_config_t *config = NULL;

    if (KT_OK(make(given, n, &config))) {
        KT_STR(kvsi_config_text(config, name), want);
    }
    kvsi_config_free(config);
}

static void check_refused(const kvs_option_t *given, size_t n, kvs_status_t want, const char *part)
{
    kvs_config_t *config = NULL;

    KT_FAIL(make(given, n, &config), want, part);
    KT_TRUE(config == NULL);
}

static void check_value(const char *name, const char *value, const char *accepted)
{
    const kvs_option_t given = {name, value};
    char text[200];

    if (accepted == NULL) {
        check_text(&given, 1, name, value);
        return;
    }
    snprintf(text, sizeof(text), "option: %s is \"%s\"; accepted is %s", name, value, accepted);
    check_refused(&given, 1, KVS_ERR_ARGUMENT, text);
}

/* A configuration file of the user's with this text; "" for none. */
static void set_file(const char *text)
{
    const char *dir = kt_temp_dir();

    setenv("XDG_CONFIG_HOME", dir, 1);
    if (text[0] != '\0') {
        kt_write_file(dir, "kvstore/kvstore.conf", text);
    }
}

static void forget_sources(void)
{
    unsetenv("KVSTORE_DEPTH");
    unsetenv("MXNET_TEST_DEPTH");
    unsetenv("KVSTORE_TIMEOUT");
    unsetenv("KVSTORE_DEFAULT");
    set_file("");
}

/* ---- Sources --------------------------------------------------------------------------------- */

static void without_any_source_a_setting_has_its_default(void)
{
    forget_sources();
    check_text(NULL, 0, "depth", "3");
    check_text(NULL, 0, "title", "none");
    check_text(NULL, 0, "timeout", "60");
}

static void each_source_beats_the_ones_behind_it(void)
{
    const kvs_option_t given = {"depth", "7"};

    forget_sources();
    set_file("depth = 4\n");
    check_text(NULL, 0, "depth", "4");
    setenv("MXNET_TEST_DEPTH", "5", 1);
    check_text(NULL, 0, "depth", "5");
    setenv("KVSTORE_DEPTH", "6", 1);
    check_text(NULL, 0, "depth", "6");
    check_text(&given, 1, "depth", "7");
    forget_sources();
}

static void an_option_given_twice_is_refused(void)
{
    const kvs_option_t given[] = {{"depth", "1"}, {"rate", "2"}, {"depth", "8"}};

    forget_sources();
    check_refused(given, 3, KVS_ERR_ARGUMENT,
                  "option \"depth\" is given twice, as \"1\" and \"8\"");
    check_text(given, 2, "depth", "1");
}

static void an_empty_text_is_a_value(void)
{
    const kvs_option_t given = {"title", ""};

    check_text(&given, 1, "title", "");
}

static void texts_are_copied(void)
{
    char value[] = "before";
    const kvs_option_t given = {"title", value};
    kvs_config_t *config = NULL;

    KT_OK(make(&given, 1, &config));
    memcpy(value, "after!", sizeof(value));
    KT_STR(kvsi_config_text(config, "title"), "before");
    kvsi_config_free(config);
}

static void an_unknown_setting_has_no_text(void)
{
    check_text(NULL, 0, "depth", "3");
    kvs_config_t *config = NULL;

    KT_OK(make(NULL, 0, &config));
    KT_TRUE(kvsi_config_text(config, "dept") == NULL);
    kvsi_config_free(config);
    kvsi_config_free(NULL);
}

static void a_setting_of_the_process_is_looked_up_without_a_store(void)
{
    kvsi_arena_t arena = KVSI_ARENA_INIT;
    const char *text = NULL;

    forget_sources();
    KT_OK(kvsi_config_lookup(&arena, "default", &text));
    KT_STR(text, "local");
    setenv("KVSTORE_DEFAULT", "nccl", 1);
    KT_OK(kvsi_config_lookup(&arena, "default", &text));
    KT_STR(text, "nccl");
    kvsi_arena_release(&arena);
    forget_sources();
}

static void check_time(const char *seconds, int64_t want_ms)
{
    const kvs_option_t given = {"patience", seconds};
    kvs_config_t *config = NULL;

    if (KT_OK(make(&given, 1, &config))) {
        KT_INT(kvsi_config_time_ms(config, "patience"), want_ms);
    }
    kvsi_config_free(config);
}

/* ---- Types ----------------------------------------------------------------------------------- */

static void whole_numbers_are_taken_whole(void)
{
    const char *what = "a whole number";

    check_value("depth", "0", NULL);
    check_value("depth", "-7", NULL);
    check_value("depth", "+7", NULL);
    check_value("depth", "9223372036854775807", NULL);
    check_value("depth", "9223372036854775808", what);
    check_value("depth", "", what);
    check_value("depth", "1.5", what);
    check_value("depth", "0x10", what);
    check_value("depth", "7 ", what);
    check_value("depth", " 7", what);
    check_value("depth", "seven", what);
}

static void sizes_are_not_negative(void)
{
    check_value("bound", "0", NULL);
    check_value("bound", "123456789012", NULL);
    check_value("bound", "-1", "a whole number that isn't negative");
    check_value("bound", "1e6", "a whole number that isn't negative");
}

static void threads_have_a_bound(void)
{
    check_value("threads", "0", NULL);
    check_value("threads", "1024", NULL);
    check_value("threads", "1025", "a whole number from 0 to 1024");
    check_value("threads", "4294967296", "a whole number from 0 to 1024");
    check_value("threads", "-1", "a whole number from 0 to 1024");
    check_value("threads", "", "a whole number from 0 to 1024");
}

/* Where the program's locale has a decimal comma. */
static void the_locale_does_not_matter(void)
{
    (void)kt_comma_locale();
    check_value("rate", "0.5", NULL);
    check_value("rate", "0,5", "a number");
    check_time("1.5", 1500);
    kvs_fail(KVS_ERR_ARGUMENT, "%g", 0.5);
    KT_STR(kvs_last_error(), "0.5");
    setlocale(LC_ALL, "C");
}

static void numbers_are_finite(void)
{
    check_value("rate", "-0.5", NULL);
    check_value("rate", "1e-3", NULL);
    check_value("rate", "nan", "a number");
    check_value("rate", "inf", "a number");
    check_value("rate", "1e400", "a number");
    check_value("rate", "0,5", "a number");
    check_value("rate", "", "a number");
}

static void booleans_have_eight_words_in_any_case(void)
{
    static const char *const words[] = {"0",  "1",   "false", "true", "no", "yes",
                                        "on", "off", "True",  "OFF",  "Yes"};

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        check_value("fast", words[i], NULL);
    }
    check_value("fast", "2", "0 or 1, true or false, yes or no, on or off");
    check_value("fast", "tru", "0 or 1, true or false, yes or no, on or off");
    check_value("fast", "", "0 or 1, true or false, yes or no, on or off");
}

static void log_levels_may_name_areas(void)
{
    check_value("log", "debug", NULL);
    check_value("log", "Trace,loader,engine", NULL);
    check_value("log", "loud", "error, warn, info, debug or trace, and areas behind commas");
    check_value("log", ",loader", "error, warn, info, debug or trace, and areas behind commas");
}

static void times_are_seconds_and_given_in_milliseconds(void)
{
    check_time("0", 0);
    check_time("60", 60000);
    check_time("0.2", 200);
    check_time("1.001", 1001);
    check_time("1e9", 1000000000000);
    check_value("patience", "-1", "a number of seconds that isn't negative");
    check_value("patience", "1e10", "a number of seconds that isn't negative");
    check_value("patience", "5s", "a number of seconds that isn't negative");
}

static void a_time_below_a_millisecond_is_not_for_ever(void)
{
    check_time("0.0004", 1);
    check_time("1e-9", 1);
    check_time("0.0000", 0);
}

/* ---- What is said of wrong ones -------------------------------------------------------------- */

static void a_malformed_value_names_the_variable_it_came_from(void)
{
    forget_sources();
    setenv("MXNET_TEST_DEPTH", "deep", 1);
    check_refused(NULL, 0, KVS_ERR_ARGUMENT,
                  "variable MXNET_TEST_DEPTH: depth is \"deep\"; accepted is a whole number");
    setenv("KVSTORE_DEPTH", "", 1);
    check_refused(NULL, 0, KVS_ERR_ARGUMENT, "variable KVSTORE_DEPTH: depth is \"\"; accepted");
    forget_sources();
    setenv("KVSTORE_TIMEOUT", "soon", 1);
    check_refused(NULL, 0, KVS_ERR_ARGUMENT,
                  "variable KVSTORE_TIMEOUT: timeout is \"soon\"; accepted is a number of seconds");
    forget_sources();
}

static void a_malformed_value_names_the_line_it_came_from(void)
{
    set_file("# ours\n\ndepth = 1\nrate = fast\n");
    check_refused(NULL, 0, KVS_ERR_ARGUMENT,
                  "kvstore/kvstore.conf:4: rate is \"fast\"; accepted is a number");
    set_file("depth\n");
    check_refused(NULL, 0, KVS_ERR_FORMAT, "kvstore/kvstore.conf:1: expected \"key = value\"");
    forget_sources();
}

static void an_unknown_option_is_refused_with_near_names(void)
{
    const kvs_option_t near = {"timeot", "1"}, far = {"colour", "red"};

    check_refused(&near, 1, KVS_ERR_ARGUMENT,
                  "unknown option \"timeot\"; did you mean \"timeout\"?");
    check_refused(&far, 1, KVS_ERR_ARGUMENT, "unknown option \"colour\"");
    KT_STR(kvs_last_error(), "unknown option \"colour\"");
}

static void what_decides_before_create_is_no_option_of_it(void)
{
    const kvs_option_t chosen = {"default", "local"}, required = {"required", "local"};

    check_refused(&chosen, 1, KVS_ERR_ARGUMENT, "unknown option \"default\"");
    check_refused(&required, 1, KVS_ERR_ARGUMENT, "unknown option \"required\"");
}

static void options_without_name_or_value_are_refused(void)
{
    const kvs_option_t no_name[] = {{"depth", "1"}, {NULL, "1"}}, no_value = {"depth", NULL};

    check_refused(no_name, 2, KVS_ERR_ARGUMENT, "option 1 has no name");
    check_refused(&no_value, 1, KVS_ERR_ARGUMENT, "option \"depth\" has no value");
}

static const kt_test_t tests[] = {
    KT_TEST(without_any_source_a_setting_has_its_default),
    KT_TEST(each_source_beats_the_ones_behind_it),
    KT_TEST(an_option_given_twice_is_refused),
    KT_TEST(an_empty_text_is_a_value),
    KT_TEST(texts_are_copied),
    KT_TEST(an_unknown_setting_has_no_text),
    KT_TEST(a_setting_of_the_process_is_looked_up_without_a_store),
    KT_TEST(whole_numbers_are_taken_whole),
    KT_TEST(sizes_are_not_negative),
    KT_TEST(threads_have_a_bound),
    KT_TEST(the_locale_does_not_matter),
    KT_TEST(numbers_are_finite),
    KT_TEST(booleans_have_eight_words_in_any_case),
    KT_TEST(log_levels_may_name_areas),
    KT_TEST(times_are_seconds_and_given_in_milliseconds),
    KT_TEST(a_time_below_a_millisecond_is_not_for_ever),
    KT_TEST(a_malformed_value_names_the_variable_it_came_from),
    KT_TEST(a_malformed_value_names_the_line_it_came_from),
    KT_TEST(an_unknown_option_is_refused_with_near_names),
    KT_TEST(what_decides_before_create_is_no_option_of_it),
    KT_TEST(options_without_name_or_value_are_refused),
};
KT_MAIN("config", tests)
