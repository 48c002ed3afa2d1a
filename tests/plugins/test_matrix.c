/* SPDX-License-Identifier: Apache-2.0 */
/* Every way in which a plugin can be wrong, met as a program meets it: create says which and what
 * mends it, and a good plugin works before, between and after. What a plugin can do to a whole process
 * is tried by `kvstore doctor`, in tests/cli. */
#include "kt.h"
#include "fakes.h"

#include <kvstore/plugins.h>

#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static char dir[512];

/* A fresh place with a good plugin, clash_a. */
static void use_fresh_place(void)
{
    snprintf(dir, sizeof(dir), "%s", kt_temp_dir());
    setenv("KVSTORE_PLUGIN_PATH", dir, 1);
    FAKE_VARIANT(dir, "clash_a", .name = "clash_a");
}

static void works(const char *name, int want_answer)
{
    kvs_store_t *store = NULL;
    int answer = 0;

    if (KT_OK(kvs_store_create(name, NULL, 0, &store))) {
        KT_OK(kvs_store_num_workers(store, &answer));
        KT_INT(answer, want_answer);
        KT_OK(kvs_store_close(store));
    }
}

/* ---- The matrix ----------------------------------------------------------------------------- */

typedef struct row {
    const char *variant;
    const char *listed;  /* the state before anybody asks for it */
    kvs_status_t status; /* of create */
    const char *text[3]; /* parts of its text: the reason code, both sides, what mends it */
    fake_t manifest;     /* beyond the library */
} row_t;

static const row_t rows[] = {
    {"good", "ok", KVS_OK, {0}, {0}},
    {"older_minor", "ok", KVS_OK, {0}, {0}},
    {"short_table", "ok", KVS_OK, {0}, {0}},
    {"newer_minor",
     "ok",
     KVS_ERR_PLUGIN,
     {"abi-mismatch: ", "built for ABI 1.1, this library offers 1.0 to 1.0", "install the plugin"},
     {0}},
    {"good",
     "abi-mismatch",
     KVS_ERR_PLUGIN,
     {"abi-mismatch: ", "needs ABI 1.1, this library offers 1.0 to 1.0", "newer libkvstore0"},
     {.abi = "1.1"}},
    {"other_major",
     "ok",
     KVS_ERR_PLUGIN,
     {"abi-mismatch: ", "built for ABI 2.0, this library offers 1.0 to 1.0", "install the plugin"},
     {0}},
    {"no_entry",
     "ok",
     KVS_ERR_PLUGIN,
     {"entry-missing: ", "no symbol kvs_plugin_entry_v1", "KVS_PLUGIN macro"},
     {0}},
    {"wrong_name",
     "ok",
     KVS_ERR_PLUGIN,
     {"manifest-mismatch: ", "manifest says fake, ", "says somebody_else"},
     {0}},
    {"good",
     "ok",
     KVS_ERR_PLUGIN,
     {"manifest-mismatch: ", "manifest says 2.0.0, ", "says 1.0.0"},
     {.version = "2.0.0"}},
    {"tiny_table",
     "ok",
     KVS_ERR_PLUGIN,
     {"abi-mismatch: ", "operations table has 40 bytes", "plugin's author"},
     {0}},
    {"no_open", "ok", KVS_ERR_PLUGIN, {"abi-mismatch: ", "has no function open", "author"}, {0}},
    {"refuses",
     "ok",
     KVS_ERR_UNAVAILABLE,
     {"unavailable: ", "the plugin refused to load: there is no moon today", ""},
     {0}},
    {"open_fails", "ok", KVS_ERR_IO, {"create 'fake'", "the fake's door is stuck", ""}, {0}},
    {"probe_fails",
     "ok",
     KVS_ERR_UNAVAILABLE,
     {"backend 'fake' is unavailable: no flux capacitor", "", ""},
     {0}},
    {"probe_silent",
     "ok",
     KVS_ERR_UNAVAILABLE,
     {"backend 'fake' is unavailable and gives no reason", "", ""},
     {0}},
    {"undefined",
     "ok",
     KVS_ERR_PLUGIN,
     {"unresolved-symbol: ", "undefined symbol: fake_symbol_that_nobody_has", "install package f0"},
     {.more = "\"package\": \"f0\", "}},
    {"missing_dependency",
     "ok",
     KVS_ERR_PLUGIN,
     {"missing-dependency: ", "libfake_dependency.so: cannot open", "install package lf0"},
     {.more = "\"requires\": {\"libraries\": [{\"name\": \"libfake_dependency.so\","
              " \"package\": \"lf0\"}]}, "}},
    {"no_such_file",
     "library-missing",
     KVS_ERR_PLUGIN,
     {"library-missing: ", "/no_such_file.so: No such file", "install the plugin again"},
     {0}},
    {"good",
     "arch-mismatch",
     KVS_ERR_PLUGIN,
     {"arch-mismatch: ", "for vax-linux-gnu, this library for " KVS_ARCH, "for this architecture"},
     {.arch = "vax-linux-gnu"}},
    {"good",
     "format-too-new",
     KVS_ERR_PLUGIN,
     {"format-too-new: ", "is 2.0, this library reads 1.x", "newer libkvstore0"},
     {.format = "2.0"}},
    {"good",
     "core-too-old",
     KVS_ERR_PLUGIN,
     {"core-too-old: ", "needs libkvstore >=99, this is ", "newer libkvstore0"},
     {.more = "\"requires\": {\"core\": \">=99\"}, "}},
};

static void check_row(const row_t *row)
{
    kvs_plugin_list_t *list = NULL;
    const kvs_plugin_info_t *plugin = NULL;
    fake_t manifest = row->manifest;

    use_fresh_place();
    manifest.library = fake_library(row->variant);
    fake_write(dir, &manifest);
    works("clash_a", 11);
    KT_OK(kvs_plugin_list(&list));
    KT_OK(kvs_plugin_list_find(list, "fake", &plugin));
    KT_STR(kvs_plugin_state_text(plugin->state), row->listed);
    kvs_plugin_list_free(list);
    for (int times = 0; times < 2; times++) { /* the second time it is the same */
        kvs_store_t *store = NULL;

        if (row->status == KVS_OK) {
            KT_OK(kvs_store_create("fake", NULL, 0, &store));
            KT_OK(kvs_store_close(store));
        } else {
            for (int i = 0; i < 3; i++) {
                KT_FAIL(kvs_store_create("fake", NULL, 0, &store), row->status,
                        row->text[i] != NULL ? row->text[i] : "");
            }
            KT_TRUE(store == NULL);
        }
    }
    works("clash_a", 11);
}

static void each_fault_has_its_own_code_and_text_and_hurts_nobody(void)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        unsigned n_failures = CU_get_number_of_failures();

        check_row(&rows[i]);
        if (CU_get_number_of_failures() > n_failures) {
            printf("\n  in row %zu, '%s'", i, rows[i].variant);
        }
    }
}

static void what_nobody_asks_for_makes_no_noise(void)
{
    use_fresh_place();
    FAKE_VARIANT(dir, "undefined", 0);
    FAKE_WRITE(dir, .name = "old", .abi = "0.9");
    FAKE_WRITE(dir, .name = "gone", .library = "./gone.so");
    kt_write_file(dir, "broken.json", "{");
    kt_stderr_begin();
    works("clash_a", 11);
    KT_STR(kt_stderr_end(), "");
}

static void plugins_with_the_same_symbols_work_side_by_side(void)
{
    kvs_store_t *a = NULL, *b = NULL;
    int answer_a = 0, answer_b = 0;

    use_fresh_place();
    FAKE_VARIANT(dir, "clash_b", .name = "clash_b");
    KT_OK(kvs_store_create("clash_a", NULL, 0, &a));
    KT_OK(kvs_store_create("clash_b", NULL, 0, &b));
    KT_OK(kvs_store_num_workers(a, &answer_a));
    KT_OK(kvs_store_num_workers(b, &answer_b));
    KT_INT(answer_a, 11);
    KT_INT(answer_b, 22);
    KT_OK(kvs_store_close(b));
    KT_OK(kvs_store_close(a));
}

/* ---- What outlives a store ------------------------------------------------------------------ */

static void *use_and_leave(void *arg)
{
    kvs_store_t *store = NULL;
    kvs_status_t status = kvs_store_create("fake", NULL, 0, &store);

    *(kvs_status_t *)arg = status != KVS_OK ? status : kvs_store_close(store);
    return NULL; /* now the plugin's destructor of thread-local data runs */
}

static void a_thread_may_end_after_its_store(void)
{
    kvs_status_t status = KVS_ERR_INTERNAL;
    pthread_t thread;

    use_fresh_place();
    FAKE_VARIANT(dir, "tls_destructor", 0);
    KT_INT(pthread_create(&thread, NULL, use_and_leave, &status), 0);
    KT_INT(pthread_join(thread, NULL), 0);
    KT_INT(status, KVS_OK);
    works("clash_a", 11);
}

/* A process that opens and closes a store and ends; what the plugin's atexit handler wrote. */
static int end_a_process(int leave_open, char *ret_written, size_t n_bytes)
{
    char number[16];
    int ends[2], status = -1;
    pid_t child;
    ssize_t n;

    KT_INT(pipe(ends), 0);
    snprintf(number, sizeof(number), "%d", ends[1]);
    setenv("FAKE_ATEXIT_FD", number, 1);
    fflush(stdout);
    child = fork();
    if (child == 0) {
        kvs_store_t *store = NULL;

        if (kvs_store_create("fake", NULL, 0, &store) != KVS_OK ||
            (!leave_open && kvs_store_close(store) != KVS_OK)) {
            _exit(5);
        }
        exit(0);
    }
    unsetenv("FAKE_ATEXIT_FD");
    close(ends[1]);
    KT_INT(waitpid(child, &status, 0), child);
    n = read(ends[0], ret_written, n_bytes - 1);
    ret_written[n > 0 ? n : 0] = '\0';
    close(ends[0]);
    return status;
}

static void a_plugins_atexit_handler_runs_at_the_end_of_the_process(void)
{
    char written[8];

    use_fresh_place();
    FAKE_VARIANT(dir, "atexit_handler", 0);
    KT_INT(end_a_process(0, written, sizeof(written)), 0);
    KT_STR(written, "end");
    KT_INT(end_a_process(1, written, sizeof(written)), 0);
    KT_STR(written, "end");
}

/* ---- Trying --------------------------------------------------------------------------------- */

static void tried(const char *variant, const char *state, const char *reason)
{
    kvs_plugin_list_t *list = NULL;

    use_fresh_place();
    FAKE_VARIANT(dir, variant, 0);
    KT_OK(kvs_plugin_list(&list));
    KT_STR(kvs_plugin_list_at(list, 1)->name, "fake");
    KT_OK(kvs_plugin_try(list, 1));
    KT_STR(kvs_plugin_state_text(kvs_plugin_list_at(list, 1)->state), state);
    KT_HAS(kvs_plugin_list_at(list, 1)->reason, reason);
    KT_OK(kvs_plugin_try(list, 0));
    KT_STR(kvs_plugin_state_text(kvs_plugin_list_at(list, 0)->state), "ok");
    kvs_plugin_list_free(list);
}

static void a_plugin_can_be_tried_without_a_store(void)
{
    kvs_plugin_list_t *list = NULL;

    tried("good", "ok", "");
    tried("undefined", "unresolved-symbol", "fake_symbol_that_nobody_has");
    tried("probe_fails", "unavailable", "backend 'fake' is unavailable: no flux capacitor");
    tried("probe_silent", "unavailable", "backend 'fake' is unavailable and gives no reason");
    tried("refuses", "unavailable", "there is no moon today");
    KT_OK(kvs_plugin_list(&list));
    KT_FAIL(kvs_plugin_try(list, 2), KVS_ERR_ARGUMENT, "no item 2 in a list of 2");
    KT_FAIL(kvs_plugin_try(NULL, 0), KVS_ERR_ARGUMENT, "no item 0 in a list of 0");
    kvs_plugin_list_free(list);
}

static void one_manifest_can_be_read_by_itself(void)
{
    kvs_plugin_list_t *list = NULL;
    char path[600];

    use_fresh_place();
    snprintf(path, sizeof(path), "%s",
             FAKE_WRITE(dir, .more = "\"x-ours\": 1, \"sumary\": \"\", "));
    setenv("KVSTORE_PLUGIN_PATH", "/nonexistent", 1);
    setenv("KVSTORE_PLUGINS", "-fake", 1);
    KT_OK(kvs_plugin_read(path, &list));
    unsetenv("KVSTORE_PLUGINS");
    KT_INT(kvs_plugin_list_count(list), 1);
    KT_STR(kvs_plugin_state_text(kvs_plugin_list_at(list, 0)->state), "ok");
    KT_INT(kvs_plugin_list_at(list, 0)->n_notes, 1);
    KT_HAS(kvs_plugin_list_at(list, 0)->notes[0],
           "fake.json:4:25: unknown key \"sumary\"; did you mean \"summary\"?");
    kvs_plugin_list_free(list);
    KT_OK(kvs_plugin_read("/no/such/file.json", &list));
    KT_STR(kvs_plugin_list_at(list, 0)->reason, "/no/such/file.json: No such file or directory");
    kvs_plugin_list_free(list);
    KT_FAIL(kvs_plugin_read(NULL, &list), KVS_ERR_ARGUMENT, "the path is NULL");
    KT_FAIL(kvs_plugin_read("", &list), KVS_ERR_ARGUMENT, "the path is empty");
    KT_FAIL(kvs_plugin_read(path, NULL), KVS_ERR_ARGUMENT, "ret_list is NULL");
}

static const kt_test_t tests[] = {
    KT_TEST(each_fault_has_its_own_code_and_text_and_hurts_nobody),
    KT_TEST(what_nobody_asks_for_makes_no_noise),
    KT_TEST(plugins_with_the_same_symbols_work_side_by_side),
    KT_TEST(a_thread_may_end_after_its_store),
    KT_TEST(a_plugins_atexit_handler_runs_at_the_end_of_the_process),
    KT_TEST(a_plugin_can_be_tried_without_a_store),
    KT_TEST(one_manifest_can_be_read_by_itself),
};
KT_MAIN("plugins.matrix", tests)
