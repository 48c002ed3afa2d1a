/* SPDX-License-Identifier: Apache-2.0 */
/* Turning plugins off and on by masks, in the user's directory and in the administrator's. The latter
 * is tried on an /etc of the test's own, which needs root and the right to a mount namespace. */
#include "kt.h"
#include "fakes.h"

#include <kvstore/plugins.h>

#include <sched.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

static char data[512], user_mask[700], installed[512];

/* An empty place for the user, then one with `fake` and `other` installed. */
static void use_places(void)
{
    char path[1400];

    snprintf(data, sizeof(data), "%s", kt_temp_dir());
    snprintf(installed, sizeof(installed), "%s", kt_temp_dir());
    snprintf(user_mask, sizeof(user_mask), "%s/kvstore/plugins.d/fake.json", data);
    snprintf(path, sizeof(path), "%s/kvstore/plugins.d:/etc/kvstore/plugins.d:%s", data, installed);
    setenv("XDG_DATA_HOME", data, 1);
    setenv("KVSTORE_PLUGIN_PATH", path, 1);
    unsetenv("KVSTORE_PLUGINS");
    FAKE_WRITE(installed, .provide = "\"aliases\": [\"imitation\"], ");
    FAKE_WRITE(installed, .name = "other");
}

static void is(const char *name, const char *state)
{
    kvs_plugin_list_t *list = NULL;
    const kvs_plugin_info_t *plugin = NULL;

    KT_OK(kvs_plugin_list(&list));
    KT_OK(kvs_plugin_list_find(list, name, &plugin));
    KT_STR(kvs_plugin_state_text(plugin->state), state);
    kvs_plugin_list_free(list);
}

static int exists(const char *path)
{
    return access(path, F_OK) == 0;
}

static void a_user_turns_a_plugin_off_and_on(void)
{
    struct stat st;
    kvs_store_t *store = NULL;

    use_places();
    KT_OK(kvs_plugin_disable("fake", 1));
    is("fake", "disabled");
    is("other", "ok");
    KT_INT(stat(user_mask, &st), 0);
    KT_INT(st.st_size, 0);
    KT_FAIL(kvs_store_create("fake", NULL, 0, &store), KVS_ERR_UNAVAILABLE, "disabled: masked by ");
    KT_FAIL(kvs_store_create("fake", NULL, 0, &store), KVS_ERR_UNAVAILABLE,
            "; run: kvstore enable fake --user");
    KT_OK(kvs_plugin_enable("fake", 1));
    is("fake", "ok");
    KT_INT(exists(user_mask), 0);
}

static void twice_is_as_good_as_once(void)
{
    use_places();
    KT_OK(kvs_plugin_enable("fake", 1));
    KT_OK(kvs_plugin_disable("fake", 1));
    KT_OK(kvs_plugin_disable("fake", 1));
    is("fake", "disabled");
    KT_OK(kvs_plugin_enable("fake", 1));
    KT_OK(kvs_plugin_enable("fake", 1));
    is("fake", "ok");
}

static void names_of_what_is_provided_will_do(void)
{
    use_places();
    KT_OK(kvs_plugin_disable("Imitation", 1));
    KT_INT(exists(user_mask), 1);
    KT_OK(kvs_plugin_enable("IMITATION", 1));
    KT_INT(exists(user_mask), 0);
}

static void unknown_names_are_errors_that_name_near_ones(void)
{
    use_places();
    KT_FAIL(kvs_plugin_disable("fkae", 1), KVS_ERR_NOT_FOUND, "did you mean \"fake\"?");
    KT_FAIL(kvs_plugin_enable("fkae", 1), KVS_ERR_NOT_FOUND, "did you mean \"fake\"?");
    KT_FAIL(kvs_plugin_disable("horovod", 1), KVS_ERR_UNAVAILABLE, "kvstore-backend-horovod");
    KT_FAIL(kvs_plugin_enable("../../x", 1), KVS_ERR_NOT_FOUND, "no plugin named");
    KT_FAIL(kvs_plugin_disable("../../x", 1), KVS_ERR_NOT_FOUND, "no plugin named");
    KT_FAIL(kvs_plugin_disable(NULL, 1), KVS_ERR_ARGUMENT, "the name is NULL");
    KT_FAIL(kvs_plugin_enable("", 0), KVS_ERR_ARGUMENT, "the name is empty");
}

static void a_mask_that_would_have_no_effect_is_not_made(void)
{
    char dir[600], path[1200], earlier[600];

    use_places();
    snprintf(dir, sizeof(dir), "%s/kvstore/plugins.d", data);
    snprintf(earlier, sizeof(earlier), "%s/fake.json", installed);
    snprintf(path, sizeof(path), "%s:%s", installed, dir);
    setenv("KVSTORE_PLUGIN_PATH", path, 1);
    KT_FAIL(kvs_plugin_disable("fake", 1), KVS_ERR_STATE, "would have no effect: ");
    KT_FAIL(kvs_plugin_disable("fake", 1), KVS_ERR_STATE, earlier);
    KT_FAIL(kvs_plugin_disable("fake", 1), KVS_ERR_STATE, "use KVSTORE_PLUGINS=-fake");
    setenv("KVSTORE_PLUGIN_PATH", installed, 1);
    KT_FAIL(kvs_plugin_disable("fake", 1), KVS_ERR_STATE, "that directory is not searched");
    KT_INT(exists(user_mask), 0);
}

static void a_plugin_in_the_masks_own_place_is_never_removed(void)
{
    char dir[600];

    use_places();
    snprintf(dir, sizeof(dir), "%s/kvstore/plugins.d", data);
    kt_write_file(data, "kvstore/plugins.d/x.txt", "");
    FAKE_WRITE(dir, 0);
    KT_FAIL(kvs_plugin_disable("fake", 1), KVS_ERR_STATE, "would have no effect");
    KT_OK(kvs_plugin_enable("fake", 1));
    KT_INT(exists(user_mask), 1);
    is("fake", "ok");
}

static void enable_tells_what_else_turns_it_off(void)
{
    use_places();
    KT_OK(kvs_plugin_disable("fake", 1));
    setenv("KVSTORE_PLUGINS", "-fake", 1);
    KT_FAIL(kvs_plugin_enable("fake", 1), KVS_ERR_STATE,
            "plugin 'fake' stays disabled: removed by KVSTORE_PLUGINS=-fake; change or unset");
    KT_INT(exists(user_mask), 0);
    unsetenv("KVSTORE_PLUGINS");
}

static void a_mask_of_what_is_gone_can_be_removed(void)
{
    char path[600];

    use_places();
    KT_OK(kvs_plugin_disable("fake", 1));
    snprintf(path, sizeof(path), "%s/fake.json", installed);
    KT_INT(unlink(path), 0);
    KT_OK(kvs_plugin_enable("fake", 1));
    KT_INT(exists(user_mask), 0);
    KT_FAIL(kvs_plugin_enable("fake", 1), KVS_ERR_NOT_FOUND, "no plugin named \"fake\"");
}

static void without_a_home_there_is_no_place_for_the_user(void)
{
    use_places();
    unsetenv("XDG_DATA_HOME");
    setenv("HOME", "relative", 1);
    KT_FAIL(kvs_plugin_disable("fake", 1), KVS_ERR_STATE, "set HOME or XDG_DATA_HOME");
    KT_FAIL(kvs_plugin_enable("fake", 1), KVS_ERR_STATE, "set HOME or XDG_DATA_HOME");
}

static void a_directory_that_cannot_be_made_is_named(void)
{
    char want[700];

    use_places();
    kt_write_file(data, "kvstore", "a file is in the way");
    snprintf(want, sizeof(want), "cannot make directory %s/kvstore/plugins.d: Not a directory",
             data);
    KT_FAIL(kvs_plugin_disable("fake", 1), KVS_ERR_IO, want);
}

/* ---- The administrator ------------------------------------------------------------------------- */

#define ADMIN_MASK "/etc/kvstore/plugins.d/fake.json"

/* An empty /etc that nobody else sees, once; 0 if there can be none. */
static int use_own_etc(void)
{
    static int done = -1;

    if (done < 0) {
        done = geteuid() == 0 && unshare(CLONE_NEWNS) == 0 &&
               mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
               mount("none", "/etc", "tmpfs", 0, NULL) == 0;
    }
    if (!done) {
        printf(" not tried: no mount namespace to be had ");
    }
    return done;
}

static void an_administrator_turns_a_plugin_off_for_all(void)
{
    if (!use_own_etc()) {
        return;
    }
    use_places();
    KT_OK(kvs_plugin_disable("fake", 0));
    KT_INT(exists(ADMIN_MASK), 1);
    is("fake", "disabled");
    KT_FAIL(kvs_plugin_enable("fake", 1), KVS_ERR_STATE,
            "stays disabled: masked by " ADMIN_MASK "; run: kvstore enable fake");
    KT_OK(kvs_plugin_enable("fake", 0));
    is("fake", "ok");
}

/* Root's own mask is not one for all. */
static void a_mask_of_the_user_does_not_stand_for_the_administrators(void)
{
    if (!use_own_etc()) {
        return;
    }
    use_places();
    KT_OK(kvs_plugin_disable("fake", 1));
    KT_OK(kvs_plugin_disable("fake", 0));
    KT_INT(exists(user_mask), 1);
    KT_INT(exists(ADMIN_MASK), 1);
    KT_FAIL(kvs_plugin_enable("fake", 0), KVS_ERR_STATE, "run: kvstore enable fake --user");
    KT_OK(kvs_plugin_enable("fake", 1));
    is("fake", "ok");
}

static void a_user_comes_before_the_administrator(void)
{
    char dir[600];

    if (!use_own_etc()) {
        return;
    }
    use_places();
    snprintf(dir, sizeof(dir), "%s/kvstore/plugins.d", data);
    kt_write_file(data, "kvstore/plugins.d/x.txt", "");
    FAKE_WRITE(dir, .version = "1.0.0");
    KT_FAIL(kvs_plugin_disable("fake", 0), KVS_ERR_STATE, "comes before it; remove that file");
    is("fake", "ok");
}

static void who_may_not_write_there_is_told_what_to_do(void)
{
    use_places();
    if (geteuid() == 0) {
        printf(" not tried: root may ");
        return;
    }
    KT_FAIL(kvs_plugin_disable("fake", 0), KVS_ERR_IO,
            "Permission denied; run it as root, or with --user for this user alone");
}

static const kt_test_t tests[] = {
    KT_TEST(a_user_turns_a_plugin_off_and_on),
    KT_TEST(twice_is_as_good_as_once),
    KT_TEST(names_of_what_is_provided_will_do),
    KT_TEST(unknown_names_are_errors_that_name_near_ones),
    KT_TEST(a_mask_that_would_have_no_effect_is_not_made),
    KT_TEST(a_plugin_in_the_masks_own_place_is_never_removed),
    KT_TEST(enable_tells_what_else_turns_it_off),
    KT_TEST(a_mask_of_what_is_gone_can_be_removed),
    KT_TEST(without_a_home_there_is_no_place_for_the_user),
    KT_TEST(a_directory_that_cannot_be_made_is_named),
    KT_TEST(an_administrator_turns_a_plugin_off_for_all),
    KT_TEST(a_mask_of_the_user_does_not_stand_for_the_administrators),
    KT_TEST(a_user_comes_before_the_administrator),
    KT_TEST(who_may_not_write_there_is_told_what_to_do),
};
KT_MAIN("mask", tests)
