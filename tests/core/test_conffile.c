/* SPDX-License-Identifier: Apache-2.0 */
/* Configuration files: what a line is, which entry counts, and what is refused with its place. */
#include "kt.h"

#include "conffile.h"
#include "threads.h"

#include <grp.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static kvs_status_t parse(kvsi_arena_t *arena, const char *text, kvsi_conf_t *conf)
{
    return kvsi_conf_parse(arena, "f.conf", text, strlen(text), conf);
}

static void a_line_is_a_key_and_the_rest_as_its_value(void)
{
    kvsi_arena_t arena = KVSI_ARENA_INIT;
    kvsi_conf_t conf = {NULL};

    KT_OK(parse(&arena,
                "timeout = 2.5\n\n  # a comment = no entry\n\tlog=debug,loader \r\nx.y-z_1 =\n"
                "text = a = b # c",
                &conf));
    KT_STR(kvsi_conf_find(&conf, "timeout")->value, "2.5");
    KT_STR(kvsi_conf_find(&conf, "timeout")->origin, "f.conf:1");
    KT_STR(kvsi_conf_find(&conf, "log")->value, "debug,loader");
    KT_STR(kvsi_conf_find(&conf, "log")->origin, "f.conf:4");
    KT_STR(kvsi_conf_find(&conf, "x.y-z_1")->value, "");
    KT_STR(kvsi_conf_find(&conf, "text")->value, "a = b # c");
    KT_TRUE(kvsi_conf_find(&conf, "a comment") == NULL);
    kvsi_arena_release(&arena);
}

static void the_last_entry_of_a_key_counts(void)
{
    kvsi_arena_t arena = KVSI_ARENA_INIT;
    kvsi_conf_t conf = {NULL};

    KT_OK(parse(&arena, "a = 1\na = 2\n", &conf));
    KT_OK(kvsi_conf_parse(&arena, "later.conf", "b = 3\na = 4\n", 12, &conf));
    KT_STR(kvsi_conf_find(&conf, "a")->value, "4");
    KT_STR(kvsi_conf_find(&conf, "a")->origin, "later.conf:2");
    kvsi_arena_release(&arena);
}

static void what_is_no_entry_is_refused_with_its_place(void)
{
    static const char *const lines[] = {"timeout", "= 3", "two words = 3", "key: 3",
                                        "\xC3\xA4 = 3"};
    kvsi_arena_t arena = KVSI_ARENA_INIT;

    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        kvsi_conf_t conf = {NULL};
        char text[64];

        snprintf(text, sizeof(text), "ok = 1\n%s\n", lines[i]);
        KT_FAIL(parse(&arena, text, &conf), KVS_ERR_FORMAT, "f.conf:2: expected \"key = value\"");
    }
    kvsi_arena_release(&arena);
}

static void nul_bytes_and_large_files_are_refused(void)
{
    kvsi_arena_t arena = KVSI_ARENA_INIT;
    kvsi_conf_t conf = {NULL};
    char *large = malloc(64 * 1024 + 1);

    KT_FAIL(kvsi_conf_parse(&arena, "f.conf", "a = \0b", 6, &conf), KVS_ERR_FORMAT,
            "f.conf: holds a NUL");
    memset(large, '#', 64 * 1024 + 1);
    KT_OK(kvsi_conf_parse(&arena, "f.conf", large, 64 * 1024, &conf));
    KT_FAIL(kvsi_conf_parse(&arena, "f.conf", large, 64 * 1024 + 1, &conf), KVS_ERR_FORMAT,
            "larger than 65536 bytes");
    free(large);
    kvsi_arena_release(&arena);
}

static void the_users_file_is_found_by_its_variable(void)
{
    kvsi_arena_t arena = KVSI_ARENA_INIT;
    const char *dir = kt_temp_dir();
    kvsi_conf_t conf;

    setenv("XDG_CONFIG_HOME", dir, 1);
    KT_OK(kvsi_conf_read(&arena, &conf));
    KT_TRUE(kvsi_conf_find(&conf, "timeout") == NULL);
    kt_write_file(dir, "kvstore/kvstore.conf", "timeout = 7\n");
    KT_OK(kvsi_conf_read(&arena, &conf));
    KT_STR(kvsi_conf_find(&conf, "timeout")->value, "7");
    KT_HAS(kvsi_conf_find(&conf, "timeout")->origin, "/kvstore/kvstore.conf:1");
    kvsi_arena_release(&arena);
}

static void a_fifo_is_refused_and_not_waited_for(void)
{
    const char *dir = kt_temp_dir();
    char path[1024];
    kvs_option_t trace = {"trace", path};
    kvs_store_t *store;

    kt_write_file(dir, "kvstore/other", "");
    snprintf(path, sizeof(path), "%s/kvstore/kvstore.conf", dir);
    KT_INT(mkfifo(path, 0644), 0);
    setenv("XDG_CONFIG_HOME", dir, 1);
    KT_FAIL(kvs_store_create("local", NULL, 0, &store), KVS_ERR_IO,
            "kvstore.conf: not a regular file");
    setenv("XDG_CONFIG_HOME", kt_temp_dir(), 1);
    KT_FAIL(kvs_store_create("local", &trace, 1, &store), KVS_ERR_IO, path);
}

/* In a child, which gives up root's rights if it has them: 0, or the number of what is wrong. */
static int read_what_is_out_of_reach(void)
{
    kvsi_arena_t arena = KVSI_ARENA_INIT;
    kvsi_conf_t conf;
    const char *logged;

    if (geteuid() == 0 && (setgroups(0, NULL) != 0 || setgid(65534) != 0 || setuid(65534) != 0)) {
        return 77;
    }
    kt_stderr_begin();
    if (kvsi_conf_read(&arena, &conf) != KVS_OK || kvsi_conf_read(&arena, &conf) != KVS_OK) {
        return 1;
    }
    logged = kt_stderr_end();
    if (strstr(logged, "kvstore.conf is ignored: Permission denied\n") == NULL) {
        return 2;
    }
    if (strchr(logged, '\n')[1] != '\0') {
        return 3; /* told twice */
    }
    return kvsi_conf_find(&conf, "timeout") == NULL ? 0 : 4;
}

static void the_users_file_is_ignored_where_it_is_out_of_reach(void)
{
    char dir[700];
    pid_t child;

    snprintf(dir, sizeof(dir), "%s", kt_temp_dir());
    kt_write_file(dir, "kvstore/kvstore.conf", "timeout = 7\n");
    setenv("XDG_CONFIG_HOME", dir, 1);
    strcat(dir, "/kvstore");
    KT_INT(chmod(dir, 0), 0);
    fflush(NULL);
    child = fork();
    if (child == 0) {
        _exit(read_what_is_out_of_reach());
    }
    KT_INT(kt_wait_child(child), 0);
    KT_INT(chmod(dir, 0700), 0);
}

static void a_store_takes_its_settings_from_the_file(void)
{
    const char *dir = kt_temp_dir();
    kvs_store_t *store;

    setenv("XDG_CONFIG_HOME", dir, 1);
    kt_write_file(dir, "kvstore/kvstore.conf", "default = teststore\n");
    KT_OK(kvs_store_create(NULL, NULL, 0, &store));
    KT_STR(kvs_store_type(store), "teststore");
    KT_OK(kvs_store_close(store));

    kt_write_file(dir, "kvstore/kvstore.conf", "\ntimeout = soon\n");
    KT_FAIL(kvs_store_create("local", NULL, 0, &store), KVS_ERR_ARGUMENT,
            "kvstore.conf:2: timeout is \"soon\"");
    kt_write_file(dir, "kvstore/kvstore.conf", "required = local, nosuch\n");
    KT_FAIL(kvs_store_create("local", NULL, 0, &store), KVS_ERR_NOT_FOUND,
            "a required backend can't be had: no backend named \"nosuch\"");
    kt_write_file(dir, "kvstore/kvstore.conf", "an option of no installed backend = 1\n");
    KT_FAIL(kvs_store_create("local", NULL, 0, &store), KVS_ERR_FORMAT, "kvstore.conf:1");
    kt_write_file(dir, "kvstore/kvstore.conf", "option_of_a_backend_not_installed = 1\n");
    KT_OK(kvs_store_create("local", NULL, 0, &store));
    KT_OK(kvs_store_close(store));
}

static const kt_test_t tests[] = {
    KT_TEST(a_line_is_a_key_and_the_rest_as_its_value),
    KT_TEST(the_last_entry_of_a_key_counts),
    KT_TEST(what_is_no_entry_is_refused_with_its_place),
    KT_TEST(nul_bytes_and_large_files_are_refused),
    KT_TEST(the_users_file_is_found_by_its_variable),
    KT_TEST(a_fifo_is_refused_and_not_waited_for),
    KT_TEST(the_users_file_is_ignored_where_it_is_out_of_reach),
    KT_TEST(a_store_takes_its_settings_from_the_file),
};
KT_MAIN("conffile", tests)
