/* SPDX-License-Identifier: Apache-2.0 */
/* Log lines: which are shown, and each whole, in one write to stderr. */
#include "log.h"
#include "kt.h"
#include "threads.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

static void log_at_all_levels(const char *area)
{
    for (int level = 0; level <= KVS_LOG_TRACE + 1; level++) {
        kvsi_log(level, area, "level %d", level);
    }
}

/* In a child process, where nothing has been set or logged yet. */
static void check_in_child(const char *variable, const char *setting, const char *want)
{
    pid_t child = fork();

    if (child == 0) {
        setenv("KVSTORE_LOG", variable, 1);
        if (setting != NULL) {
            kvsi_log_set(setting);
        }
        kt_stderr_begin();
        log_at_all_levels("store");
        _exit(strcmp(kt_stderr_end(), want) != 0);
    }
    KT_INT(kt_wait_child(child), 0);
}

/* These two come first: their children must not find a setting already. */
static void the_variable_decides_where_nothing_is_set(void)
{
    check_in_child("error", NULL, "kvstore error store: level 1\n");
}

static void a_setting_beats_the_variable(void)
{
    check_in_child("error", "warn", "kvstore error store: level 1\nkvstore warn store: level 2\n");
}

static void lines_up_to_the_level_are_shown(void)
{
    kvsi_log_set("warn");
    kt_stderr_begin();
    log_at_all_levels("loader");
    KT_STR(kt_stderr_end(), "kvstore error loader: level 1\nkvstore warn loader: level 2\n");
    kvsi_log_set("Trace");
    kt_stderr_begin();
    log_at_all_levels("x");
    KT_STR(kt_stderr_end(),
           "kvstore error x: level 1\nkvstore warn x: level 2\nkvstore info x: level "
           "3\nkvstore debug x: level 4\nkvstore trace x: level 5\n");
}

static void only_the_named_areas_are_shown(void)
{
    kvsi_log_set("debug,loader,engine");
    kt_stderr_begin();
    kvsi_log(KVS_LOG_DEBUG, "loader", "a");
    kvsi_log(KVS_LOG_DEBUG, "load", "b");
    kvsi_log(KVS_LOG_ERROR, "store", "c");
    kvsi_log(KVS_LOG_DEBUG, "engine", "d");
    kvsi_log(KVS_LOG_TRACE, "engine", "e");
    KT_STR(kt_stderr_end(), "kvstore debug loader: a\nkvstore debug engine: d\n");
}

static void a_level_without_areas_shows_all_again(void)
{
    kvsi_log_set("info,loader");
    kvsi_log_set("info");
    kt_stderr_begin();
    kvsi_log(KVS_LOG_INFO, "store", "a");
    KT_STR(kt_stderr_end(), "kvstore info store: a\n");
}

static void a_comma_without_an_area_shows_all(void)
{
    kvsi_log_set("info,");
    kt_stderr_begin();
    kvsi_log(KVS_LOG_INFO, "store", "a");
    KT_STR(kt_stderr_end(), "kvstore info store: a\n");
}

static void an_unknown_level_changes_nothing(void)
{
    kvsi_log_set("warn");
    kvsi_log_set("loud,store");
    kt_stderr_begin();
    kvsi_log(KVS_LOG_WARN, "loader", "a");
    kvsi_log(KVS_LOG_INFO, "store", "b");
    KT_STR(kt_stderr_end(), "kvstore warn loader: a\n");
}

static void a_long_line_is_cut_and_still_ends(void)
{
    char longer[4000];
    const char *logged;

    memset(longer, 'm', sizeof(longer));
    longer[sizeof(longer) - 1] = '\0';
    kvsi_log_set("warn");
    kt_stderr_begin();
    kvsi_log(KVS_LOG_WARN, "store", "%s", longer);
    kvsi_log(KVS_LOG_WARN, "store", "next");
    logged = kt_stderr_end();
    KT_TRUE(strncmp(logged, "kvstore warn store: mmmm", 24) == 0);
    KT_HAS(logged, "mmm...\nkvstore warn store: next\n");
    KT_TRUE(strlen(logged) < 2000);
}

/* Takes and leaves the lock without a pause: the area is not shown. */
static void log_without_end(void *arg)
{
    while (!atomic_load((atomic_bool *)arg)) {
        kvsi_log(KVS_LOG_WARN, "hidden", "never shown");
    }
}

static void a_child_can_log_whoever_held_the_lock(void)
{
    atomic_bool stop = false;
    kt_thread_t thread;
    int n_failed = 0;

    kvsi_log_set("warn,shown");
    kt_thread_start(&thread, log_without_end, &stop);
    for (int i = 0; i < 100 && n_failed == 0; i++) {
        pid_t child = fork();

        if (child == 0) {
            alarm(KT_PATIENCE_MS / 2000); /* one that hangs is ended */
            kvsi_log(KVS_LOG_WARN, "hidden", "not shown");
            _exit(0);
        }
        n_failed += kt_wait_child(child) != 0;
    }
    atomic_store(&stop, true);
    kt_thread_join(&thread);
    KT_INT(n_failed, 0);
}

static const kt_test_t tests[] = {
    KT_TEST(the_variable_decides_where_nothing_is_set), KT_TEST(a_setting_beats_the_variable),
    KT_TEST(lines_up_to_the_level_are_shown),           KT_TEST(only_the_named_areas_are_shown),
    KT_TEST(a_level_without_areas_shows_all_again),     KT_TEST(a_comma_without_an_area_shows_all),
    KT_TEST(an_unknown_level_changes_nothing),          KT_TEST(a_long_line_is_cut_and_still_ends),
    KT_TEST(a_child_can_log_whoever_held_the_lock),
};
KT_MAIN("log", tests)
