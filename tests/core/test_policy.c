/* SPDX-License-Identifier: Apache-2.0 */
/* On or off: the truth table of masks and KVSTORE_PLUGINS, and what is said of it. */
#include "kt.h"
#include "discovery.h"
#include "fakes.h"

#include <stdlib.h>
#include <unistd.h>

static char places[3][512];

/* Three fresh directories, searched in this order; the plugin `dist` is in the second. */
static void use_places(void)
{
    char path[1600];

    for (int i = 0; i < 3; i++) {
        snprintf(places[i], sizeof(places[i]), "%s", kt_temp_dir());
    }
    snprintf(path, sizeof(path), "%s:%s:%s", places[0], places[1], places[2]);
    setenv("KVSTORE_PLUGIN_PATH", path, 1);
    unsetenv("KVSTORE_PLUGINS");
    FAKE_WRITE(places[1], .name = "dist");
}

static kvs_plugin_list_t *scan(void)
{
    static const kvsi_added_t nothing;
    kvs_plugin_list_t *list = NULL;

    KT_OK(kvsi_discovery_scan(&nothing, &list));
    return list;
}

/* ---- The table ------------------------------------------------------------------------------ */

enum { NO_MASK, EMPTY_FILE, NULL_LINK, MASK_BEHIND };

typedef struct row {
    int mask;
    const char *globs; /* KVSTORE_PLUGINS, or NULL: unset */
    int is_on;
    const char *reason; /* part of it, if off */
} row_t;

static const row_t rows[] = {
    /* a mask before it decides, whatever else is said */
    {EMPTY_FILE, NULL, 0, "masked by "},
    {EMPTY_FILE, "dist", 0, "masked by "},
    {EMPTY_FILE, "*", 0, "masked by "},
    {EMPTY_FILE, "-dist", 0, "masked by "},
    {NULL_LINK, NULL, 0, "masked by "},
    {NULL_LINK, "dist", 0, "masked by "},
    {NULL_LINK, "-local", 0, "masked by "},
    /* one behind it says nothing */
    {MASK_BEHIND, NULL, 1, ""},
    {MASK_BEHIND, "dist", 1, ""},
    {MASK_BEHIND, "-dist", 0, "removed by KVSTORE_PLUGINS=-dist"},
    /* nothing said: on */
    {NO_MASK, NULL, 1, ""},
    {NO_MASK, "", 1, ""},
    {NO_MASK, ",", 1, ""},
    {NO_MASK, " , ", 1, ""},
    /* any glob without "-": only those */
    {NO_MASK, "dist", 1, ""},
    {NO_MASK, "local", 0, "not chosen by KVSTORE_PLUGINS=local"},
    {NO_MASK, "local,dist", 1, ""},
    {NO_MASK, "dist,local", 1, ""},
    {NO_MASK, "*", 1, ""},
    {NO_MASK, "d*", 1, ""},
    {NO_MASK, "d??t", 1, ""},
    {NO_MASK, "d?t", 0, "not chosen"},
    {NO_MASK, "[a-d]ist", 1, ""},
    {NO_MASK, "[!d]ist", 0, "not chosen"},
    {NO_MASK, "dis", 0, "not chosen"},
    {NO_MASK, "distant", 0, "not chosen"},
    {NO_MASK, "DIST", 0, "not chosen"},
    /* only globs with "-": all but those */
    {NO_MASK, "-dist", 0, "removed by KVSTORE_PLUGINS=-dist"},
    {NO_MASK, "-local", 1, ""},
    {NO_MASK, "-*", 0, "removed by KVSTORE_PLUGINS=-*"},
    {NO_MASK, "-d*", 0, "removed"},
    {NO_MASK, "-l*,-n*", 1, ""},
    {NO_MASK, "-l*,-d*", 0, "removed"},
    {NO_MASK, "-", 1, ""},
    /* both: what is removed is off, wherever it stands */
    {NO_MASK, "dist,-dist", 0, "removed"},
    {NO_MASK, "-dist,dist", 0, "removed"},
    {NO_MASK, "*,-local", 1, ""},
    {NO_MASK, "-local,*", 1, ""},
    {NO_MASK, "local,-nccl", 0, "not chosen"},
    {NO_MASK, "d*,-dev*", 1, ""},
    {NO_MASK, "-dist,-dist", 0, "removed"},
    {NO_MASK, "dist dist", 1, ""}, /* blanks part, too */
};

static void set_up(const row_t *row)
{
    char path[600];

    use_places();
    if (row->mask == EMPTY_FILE) {
        kt_write_file(places[0], "dist.json", "");
    } else if (row->mask == NULL_LINK) {
        snprintf(path, sizeof(path), "%s/dist.json", places[0]);
        KT_INT(symlink("/dev/null", path), 0);
    } else if (row->mask == MASK_BEHIND) {
        kt_write_file(places[2], "dist.json", "");
    }
    if (row->globs != NULL) {
        setenv("KVSTORE_PLUGINS", row->globs, 1);
    }
}

static void the_first_that_matches_decides(void)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        unsigned n_failures = CU_get_number_of_failures();

        set_up(&rows[i]);
        kvs_plugin_list_t *list = scan();
        KT_INT(list->n_plugins, 1);
        KT_STR(kvs_plugin_state_text(list->plugins[0].state), rows[i].is_on ? "ok" : "disabled");
        KT_HAS(list->plugins[0].reason, rows[i].reason);
        KT_INT(list->plugins[0].fix[0] == '\0', rows[i].is_on);
        kvs_plugin_list_free(list);
        if (CU_get_number_of_failures() > n_failures) {
            printf("\n  in row %zu, KVSTORE_PLUGINS=%s", i,
                   rows[i].globs != NULL ? rows[i].globs : "(unset)");
        }
    }
    unsetenv("KVSTORE_PLUGINS");
}

/* ---- What is told --------------------------------------------------------------------------- */

static void note(const char *globs, size_t n_notes, const char *first)
{
    kvs_plugin_list_t *list;

    use_places();
    setenv("KVSTORE_PLUGINS", globs, 1);
    list = scan();
    KT_INT(kvs_plugin_list_n_notes(list), n_notes);
    if (n_notes > 0) {
        KT_STR(kvs_plugin_list_note(list, 0), first);
    }
    KT_TRUE(kvs_plugin_list_note(list, n_notes) == NULL);
    kvs_plugin_list_free(list);
    unsetenv("KVSTORE_PLUGINS");
}

static void a_glob_that_matches_nothing_is_noted_with_near_names(void)
{
    note("dist", 0, "");
    note("d*,-[d]ist", 0, "");
    note("dits", 1, "KVSTORE_PLUGINS: \"dits\" matches no plugin; did you mean \"dist\"?");
    note("-dits,dist", 1, "KVSTORE_PLUGINS: \"-dits\" matches no plugin; did you mean \"dist\"?");
    note("nothing*", 1, "KVSTORE_PLUGINS: \"nothing*\" matches no plugin");
    note("b*,c*", 2, "KVSTORE_PLUGINS: \"b*\" matches no plugin");
}

static void notes_are_kept_up_to_a_limit(void)
{
    note("a,b,c,e,f,g,h,i,j,k,l,m,n,o,p,q,r,s,t,u,v,w,x,y,z", 20,
         "KVSTORE_PLUGINS: \"a\" matches no plugin");
}

/* What the log says while the list is made twice. */
static const char *logged(const char *globs)
{
    use_places();
    setenv("KVSTORE_PLUGINS", globs, 1);
    kt_stderr_begin();
    kvs_plugin_list_free(scan());
    kvs_plugin_list_free(scan());
    unsetenv("KVSTORE_PLUGINS");
    return kt_stderr_end();
}

static void it_is_logged_once_for_each_value(void)
{
    KT_STR(logged("locla"), "kvstore warn policy: KVSTORE_PLUGINS: \"locla\" matches no plugin\n");
    KT_STR(logged("locla"), "");
    KT_STR(logged("dist"), "");
    KT_STR(logged("locla"), "kvstore warn policy: KVSTORE_PLUGINS: \"locla\" matches no plugin\n");
}

static void the_fix_of_a_mask_is_the_command_that_removes_it(void)
{
    char data[512], user[600], path[1200], want[1300];
    kvs_plugin_list_t *list;

    use_places();
    snprintf(data, sizeof(data), "%s", kt_temp_dir());
    snprintf(user, sizeof(user), "%s/kvstore/plugins.d", data);
    kt_write_file(data, "kvstore/plugins.d/dist.json", "");
    setenv("XDG_DATA_HOME", data, 1);
    snprintf(path, sizeof(path), "%s:%s", user, places[1]);
    setenv("KVSTORE_PLUGIN_PATH", path, 1);
    list = scan();
    KT_STR(list->plugins[0].fix, "run: kvstore enable dist --user");
    kvs_plugin_list_free(list);
    unsetenv("XDG_DATA_HOME");
    list = scan(); /* now it is just some directory */
    snprintf(want, sizeof(want), "remove %s/dist.json", user);
    KT_STR(list->plugins[0].fix, want);
    kvs_plugin_list_free(list);
}

static const kt_test_t tests[] = {
    KT_TEST(the_first_that_matches_decides),
    KT_TEST(a_glob_that_matches_nothing_is_noted_with_near_names),
    KT_TEST(notes_are_kept_up_to_a_limit),
    KT_TEST(it_is_logged_once_for_each_value),
    KT_TEST(the_fix_of_a_mask_is_the_command_that_removes_it),
};
KT_MAIN("policy", tests)
