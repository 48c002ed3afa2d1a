/* SPDX-License-Identifier: Apache-2.0 */
/* What is found along the search path: order, losers, masks, faults, and KVSTORE_PLUGINS. */
#include "kt.h"
#include "discovery.h"
#include "fakes.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static char first[512], second[512];

/* Two fresh directories, searched in this order and nowhere else. */
static void use_two_places(void)
{
    char path[1100];

    snprintf(first, sizeof(first), "%s", kt_temp_dir());
    snprintf(second, sizeof(second), "%s", kt_temp_dir());
    snprintf(path, sizeof(path), "%s:%s", first, second);
    setenv("KVSTORE_PLUGIN_PATH", path, 1);
    unsetenv("KVSTORE_PLUGINS");
}

static kvs_plugin_list_t *scan(void)
{
    static const kvsi_added_t nothing;
    kvs_plugin_list_t *list = NULL;

    KT_OK(kvsi_discovery_scan(&nothing, &list));
    return list;
}

/* "NAME STATE DIRECTORY" of each, one a line; the directory as 1 or 2. */
static const char *summary(const kvs_plugin_list_t *list)
{
    static char text[4096];
    size_t len = 0;

    text[0] = '\0';
    for (size_t i = 0; i < list->n_plugins; i++) {
        const kvs_plugin_info_t *plugin = &list->plugins[i];
        int in_first = strncmp(plugin->manifest, first, strlen(first)) == 0;

        len += (size_t)snprintf(text + len, sizeof(text) - len, "%s %s %d\n", plugin->name,
                                kvs_plugin_state_text(plugin->state), in_first ? 1 : 2);
    }
    return text;
}

static void found(const char *want)
{
    kvs_plugin_list_t *list = scan();

    KT_STR(summary(list), want);
    kvs_plugin_list_free(list);
}

static void manifests_are_found_in_byte_order_and_other_files_passed_over(void)
{
    use_two_places();
    FAKE_WRITE(first, .name = "b");
    FAKE_WRITE(first, .name = "a");
    FAKE_WRITE(first, .name = "a_b");
    kt_write_file(first, "c.so", "not a manifest");
    kt_write_file(first, ".hidden.json", "not a manifest");
    kt_write_file(first, "d.json.dpkg-new", "not a manifest");
    kt_write_file(first, "sub/e.json", "in a directory below");
    found("a ok 1\na_b ok 1\nb ok 1\n");
}

static void the_first_of_a_name_wins_and_the_other_says_who_hides_it(void)
{
    kvs_plugin_list_t *list;
    char want[1024];

    use_two_places();
    FAKE_WRITE(first, .name = "a");
    FAKE_WRITE(second, .name = "a", .version = "2.0.0");
    FAKE_WRITE(second, .name = "b");
    list = scan();
    KT_STR(summary(list), "a ok 1\na shadowed 2\nb ok 2\n");
    snprintf(want, sizeof(want), "%s/a.json comes first", first);
    KT_STR(list->plugins[1].reason, want);
    KT_STR(list->plugins[1].version, "2.0.0");
    kvs_plugin_list_free(list);
}

static void a_broken_manifest_hides_only_its_own_name(void)
{
    kvs_plugin_list_t *list;
    char want[1024];

    use_two_places();
    kt_write_file(first, "a.json", "{\"manifest_version\": \"1.0\",\n oops}");
    FAKE_WRITE(first, .name = "b");
    FAKE_WRITE(second, .name = "a");
    list = scan();
    KT_STR(summary(list), "a bad-manifest 1\nb ok 1\na shadowed 2\n");
    snprintf(want, sizeof(want), "%s/a.json:2:2: ", first);
    KT_HAS(list->plugins[0].reason, want);
    kvs_plugin_list_free(list);
}

/* Directories of several architectures may be searched one after the other. */
static void a_plugin_for_another_architecture_hides_nothing(void)
{
    kvs_plugin_list_t *list;

    use_two_places();
    FAKE_WRITE(first, .name = "a", .arch = "vax-linux-gnu");
    FAKE_WRITE(second, .name = "a");
    list = scan();
    KT_STR(summary(list), "a arch-mismatch 1\na ok 2\n");
    KT_STR(list->plugins[0].reason, "the plugin is for vax-linux-gnu, this library for " KVS_ARCH);
    kvs_plugin_list_free(list);
}

static void what_does_not_fit_is_known_from_the_manifest_alone(void)
{
    kvs_plugin_list_t *list;

    use_two_places();
    FAKE_WRITE(first, .name = "a", .abi = "2.0");
    FAKE_WRITE(first, .name = "b", .abi = "1.7");
    FAKE_WRITE(first, .name = "c", .more = "\"requires\": {\"core\": \">=0.9.1\"}, ");
    FAKE_WRITE(first, .name = "d", .format = "3.0");
    FAKE_WRITE(first, .name = "e", .library = "./gone.so");
    FAKE_WRITE(first, .name = "f", .more = "\"requires\": {\"core\": \">=0.1\"}, ");
    list = scan();
    KT_STR(summary(list), "a abi-mismatch 1\nb abi-mismatch 1\nc core-too-old 1\n"
                          "d format-too-new 1\ne library-missing 1\nf ok 1\n");
    KT_STR(list->plugins[0].reason, "the plugin needs ABI 2.0, this library offers 1.0 to 1.0");
    KT_HAS(list->plugins[0].fix, "install a newer libkvstore0");
    KT_STR(list->plugins[1].reason, "the plugin needs ABI 1.7, this library offers 1.0 to 1.0");
    KT_HAS(list->plugins[2].reason, "the plugin needs libkvstore >=0.9.1, this is 0.1.0");
    KT_HAS(list->plugins[4].reason, "/gone.so: No such file or directory");
    KT_STR(list->plugins[4].fix, "install the plugin again");
    kvs_plugin_list_free(list);
}

static void what_cannot_be_read_is_listed_with_its_cause(void)
{
    kvs_plugin_list_t *list;
    char path[600];

    use_two_places();
    snprintf(path, sizeof(path), "%s/a.json", first);
    KT_INT(mkdir(path, 0755), 0);
    snprintf(path, sizeof(path), "%s/b.json", first);
    KT_INT(mkfifo(path, 0644), 0);
    snprintf(path, sizeof(path), "%s/c.json", first);
    KT_INT(symlink("/no/such/file", path), 0);
    list = scan();
    KT_STR(summary(list), "a bad-manifest 1\nb bad-manifest 1\nc bad-manifest 1\n");
    KT_HAS(list->plugins[0].reason, "a.json: not a regular file");
    KT_HAS(list->plugins[1].reason, "b.json: not a regular file");
    KT_HAS(list->plugins[2].reason, "c.json: No such file or directory");
    kvs_plugin_list_free(list);
}

static void a_single_manifest_may_be_named_instead_of_a_directory(void)
{
    use_two_places();
    setenv("KVSTORE_PLUGIN_PATH", FAKE_WRITE(first, .name = "a"), 1);
    FAKE_WRITE(first, .name = "b");
    found("a ok 1\n");
}

static void places_that_do_not_exist_hold_nothing(void)
{
    setenv("KVSTORE_PLUGIN_PATH", "/no/such/place:/no/such/file.json", 1);
    found("");
}

static void a_thousand_manifests_are_all_found(void)
{
    kvs_plugin_list_t *list;
    char name[16];

    use_two_places();
    for (int i = 0; i < 1000; i++) {
        snprintf(name, sizeof(name), "p%03d", i);
        FAKE_WRITE(first, .name = name);
    }
    list = scan();
    KT_INT(list->n_plugins, 1000);
    KT_STR(list->plugins[999].name, "p999");
    kvs_plugin_list_free(list);
}

/* ---- On and off ----------------------------------------------------------------------------- */

static void a_mask_in_an_earlier_directory_turns_a_plugin_off(void)
{
    kvs_plugin_list_t *list;
    char path[600], want[1024];

    use_two_places();
    kt_write_file(first, "a.json", "");
    snprintf(path, sizeof(path), "%s/b.json", first);
    KT_INT(symlink("/dev/null", path), 0);
    FAKE_WRITE(second, .name = "a");
    FAKE_WRITE(second, .name = "b");
    FAKE_WRITE(second, .name = "c");
    list = scan();
    KT_STR(summary(list), "a disabled 2\nb disabled 2\nc ok 2\n");
    snprintf(want, sizeof(want), "masked by %s/a.json", first);
    KT_STR(list->plugins[0].reason, want);
    snprintf(want, sizeof(want), "remove %s/a.json", first);
    KT_STR(list->plugins[0].fix, want);
    kvs_plugin_list_free(list);
}

static void a_mask_does_not_reach_earlier_directories(void)
{
    use_two_places();
    FAKE_WRITE(first, .name = "a");
    kt_write_file(second, "a.json", "");
    found("a ok 1\n");
}

static void chosen(const char *globs, const char *want)
{
    setenv("KVSTORE_PLUGINS", globs, 1);
    found(want);
    unsetenv("KVSTORE_PLUGINS");
}

static void globs_choose_and_remove_by_plugin_name(void)
{
    use_two_places();
    FAKE_WRITE(first, .name = "dist");
    FAKE_WRITE(first, .name = "local");
    chosen("", "dist ok 1\nlocal ok 1\n");
    chosen("local", "dist disabled 1\nlocal ok 1\n");
    chosen("-d*", "dist disabled 1\nlocal ok 1\n");
    chosen("*,-local", "dist ok 1\nlocal disabled 1\n");
    chosen(" local , dist ", "dist ok 1\nlocal ok 1\n");
    chosen("nothing", "dist disabled 1\nlocal disabled 1\n");
}

static void a_disabled_plugin_says_by_what(void)
{
    kvs_plugin_list_t *list;

    use_two_places();
    FAKE_WRITE(first, .name = "a", .abi = "2.0"); /* that it wouldn't work doesn't matter */
    setenv("KVSTORE_PLUGINS", "-a", 1);
    list = scan();
    KT_STR(summary(list), "a disabled 1\n");
    KT_STR(list->plugins[0].reason, "removed by KVSTORE_PLUGINS=-a");
    KT_STR(list->plugins[0].fix, "change or unset KVSTORE_PLUGINS");
    kvs_plugin_list_free(list);
    unsetenv("KVSTORE_PLUGINS");
}

static const kt_test_t tests[] = {
    KT_TEST(manifests_are_found_in_byte_order_and_other_files_passed_over),
    KT_TEST(the_first_of_a_name_wins_and_the_other_says_who_hides_it),
    KT_TEST(a_broken_manifest_hides_only_its_own_name),
    KT_TEST(a_plugin_for_another_architecture_hides_nothing),
    KT_TEST(what_does_not_fit_is_known_from_the_manifest_alone),
    KT_TEST(what_cannot_be_read_is_listed_with_its_cause),
    KT_TEST(a_single_manifest_may_be_named_instead_of_a_directory),
    KT_TEST(places_that_do_not_exist_hold_nothing),
    KT_TEST(a_thousand_manifests_are_all_found),
    KT_TEST(a_mask_in_an_earlier_directory_turns_a_plugin_off),
    KT_TEST(a_mask_does_not_reach_earlier_directories),
    KT_TEST(globs_choose_and_remove_by_plugin_name),
    KT_TEST(a_disabled_plugin_says_by_what),
};
KT_MAIN("discovery", tests)
