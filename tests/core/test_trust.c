/* SPDX-License-Identifier: Apache-2.0 */
/* Who may have put a plugin where it is. Runs twice: as the user who runs the tests, and under another
 * uid if that is root (core.trust_as_nobody): root can read whatever it has no right to. */
#include "kt.h"
#include "discovery.h"
#include "fakes.h"
#include "trust.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static char base[512], manifests[600], libraries[600], manifest[700], library[700];

static void set_mode(const char *path, mode_t mode)
{
    if (chmod(path, mode) != 0) {
        perror(path);
        exit(2);
    }
}

/* BASE/manifests/fake.json and BASE/libraries/lib.so, nobody else's. */
static void use_fresh_place(void)
{
    snprintf(base, sizeof(base), "%s", kt_temp_dir());
    snprintf(libraries, sizeof(libraries), "%s/libraries", base);
    snprintf(library, sizeof(library), "%s", kt_write_file(base, "libraries/lib.so", "x"));
    (void)kt_write_file(base, "manifests/other.txt", "");
    snprintf(manifests, sizeof(manifests), "%s/manifests", base);
    snprintf(manifest, sizeof(manifest), "%s",
             FAKE_WRITE(manifests, .library = "../libraries/lib.so"));
    set_mode(manifest, 0644);
    set_mode(library, 0644);
    setenv("KVSTORE_PLUGIN_PATH", manifests, 1);
    unsetenv("KVSTORE_PLUGINS");
}

static kvs_plugin_list_t *scan(void)
{
    static const kvsi_added_t nothing;
    kvs_plugin_list_t *list = NULL;

    KT_OK(kvsi_discovery_scan(&nothing, &list));
    KT_INT(list->n_plugins, 1);
    return list;
}

static void is(const char *state, const char *reason, const char *fix)
{
    kvs_plugin_list_t *list = scan();

    KT_STR(kvs_plugin_state_text(list->plugins[0].state), state);
    KT_HAS(list->plugins[0].reason, reason);
    KT_HAS(list->plugins[0].fix, fix);
    kvs_plugin_list_free(list);
}

static void refused(const char *path, const char *mode)
{
    char reason[1024], fix[1024];

    snprintf(reason, sizeof(reason), "everybody may write %s, which has mode %s", path, mode);
    snprintf(fix, sizeof(fix), "run: chmod o-w '%s'", path);
    is("untrusted", reason, fix);
}

/* ---- What is refused ------------------------------------------------------------------------ */

static void what_everybody_may_write_is_refused(void)
{
    use_fresh_place();
    is("ok", "", "");
    set_mode(manifest, 0646);
    refused(manifest, "0646");
    set_mode(manifest, 0644);
    set_mode(library, 0666);
    refused(library, "0666");
    set_mode(library, 0644);
    set_mode(manifests, 0777);
    refused(manifests, "0777");
    set_mode(manifests, 0755);
    set_mode(libraries, 0757);
    refused(libraries, "0757");
    set_mode(libraries, 0755);
    is("ok", "", "");
}

static void a_group_may_write(void)
{
    use_fresh_place();
    set_mode(manifest, 0664);
    set_mode(library, 0664);
    set_mode(manifests, 0775);
    set_mode(libraries, 0775);
    is("ok", "", "");
}

static void sticky_directories_and_ancestors_do_not_count(void)
{
    use_fresh_place();
    set_mode(manifests, 01777);
    set_mode(libraries, 01777);
    is("ok", "", "");
    set_mode(base, 0777);
    is("ok", "", "");
    set_mode(manifest, 01646); /* on a file the bit means nothing */
    is("untrusted", "everybody may write ", "chmod o-w");
}

static void of_a_link_both_ends_count(void)
{
    char open_dir[700], link_path[800], text[900];

    use_fresh_place();
    snprintf(open_dir, sizeof(open_dir), "%s/open", base);
    KT_INT(mkdir(open_dir, 0755), 0);
    snprintf(link_path, sizeof(link_path), "%s/lib.so", open_dir);
    KT_INT(symlink(library, link_path), 0);
    FAKE_WRITE(manifests, .library = "../open/lib.so");
    is("ok", "", "");
    set_mode(open_dir, 0777); /* anybody may point the link elsewhere */
    refused(open_dir, "0777");
    set_mode(open_dir, 0755);
    set_mode(libraries, 0777);
    refused(libraries, "0777");
    set_mode(libraries, 0755);

    snprintf(link_path, sizeof(link_path), "%s/fake.json", open_dir);
    KT_INT(symlink(manifest, link_path), 0);
    setenv("KVSTORE_PLUGIN_PATH", open_dir, 1);
    is("ok", "", "");
    set_mode(manifests, 0777);
    snprintf(text, sizeof(text), "everybody may write %s,", manifests);
    is("untrusted", text, "chmod o-w");
    set_mode(manifests, 0755);
    set_mode(open_dir, 0777);
    refused(open_dir, "0777");
}

static void a_plugin_that_is_off_is_off(void)
{
    use_fresh_place();
    set_mode(manifests, 0777);
    setenv("KVSTORE_PLUGINS", "-fake", 1);
    is("disabled", "removed by KVSTORE_PLUGINS", "KVSTORE_PLUGINS");
}

/* Nothing that comes later is used in its place, unseen. */
static void an_untrusted_plugin_hides_later_ones(void)
{
    static const kvsi_added_t nothing;
    kvs_plugin_list_t *list = NULL;
    char path[1300], second[512];

    use_fresh_place();
    set_mode(manifest, 0666);
    snprintf(second, sizeof(second), "%s", kt_temp_dir());
    FAKE_WRITE(second, 0);
    snprintf(path, sizeof(path), "%s:%s", manifests, second);
    setenv("KVSTORE_PLUGIN_PATH", path, 1);
    KT_OK(kvsi_discovery_scan(&nothing, &list));
    KT_STR(kvs_plugin_state_text(list->plugins[0].state), "untrusted");
    KT_STR(kvs_plugin_state_text(list->plugins[1].state), "shadowed");
    kvs_plugin_list_free(list);
}

/* ---- What is noted -------------------------------------------------------------------------- */

/* Whether a note with that text is among those of the plugin, and who owns it is not me. */
static int noted(const char *part)
{
    kvs_plugin_list_t *list = scan();
    kvs_plugin_info_t *info = &list->plugins[0];
    int found = 0;

    kvsi_trust_note(&list->arena, info);
    for (size_t i = 0; i < info->n_notes; i++) {
        found |= strstr(info->notes[i], part) != NULL;
    }
    kvs_plugin_list_free(list);
    return found;
}

static void the_rest_is_noted(void)
{
    char text[800];

    use_fresh_place();
    snprintf(text, sizeof(text), "may write %s", base);
    KT_INT(noted(text), 0);
    set_mode(base, 0777);
    snprintf(text, sizeof(text), "everybody may write %s", base);
    KT_INT(noted(text), 1);
    set_mode(base, 01777);
    KT_INT(noted(text), 0);
    set_mode(base, 0755);
    set_mode(manifests, 01777);
    snprintf(text, sizeof(text), "everybody may add files to %s", manifests);
    KT_INT(noted(text), 1);
    set_mode(manifests, 0755);
    set_mode(library, 0664);
    snprintf(text, sizeof(text), "group %u may write %s", (unsigned)getegid(), library);
    KT_INT(noted(text), getegid() != 0); /* root's group is as good as root */
    KT_INT(noted("belongs to user"), 0);
}

static void files_of_somebody_else_are_noted(void)
{
    char text[800];

    use_fresh_place();
    if (geteuid() != 0) {
        printf(" not tried: needs root ");
        return;
    }
    KT_INT(chown(library, 12345, 0), 0);
    snprintf(text, sizeof(text), "%s belongs to user 12345", library);
    KT_INT(noted(text), 1);
    is("ok", "", "");
}

/* ---- What can't be read ---------------------------------------------------------------------- */

static void what_may_not_be_read_is_told_and_hurts_nothing(void)
{
    kvs_plugin_list_t *list = NULL;
    static const kvsi_added_t nothing;

    use_fresh_place();
    if (geteuid() == 0) {
        printf(" not tried: root may read everything ");
        return;
    }
    set_mode(manifest, 0);
    is("bad-manifest", "fake.json: Permission denied", "correct or remove the file");
    set_mode(manifest, 0644);
    set_mode(libraries, 0);
    is("library-missing", "/libraries/lib.so: Permission denied", "install the plugin again");
    set_mode(libraries, 0755);
    set_mode(manifests, 0);
    KT_OK(kvsi_discovery_scan(&nothing, &list));
    KT_INT(list->n_plugins, 0);
    KT_INT(kvs_plugin_list_n_notes(list), 1);
    KT_HAS(kvs_plugin_list_note(list, 0), "/manifests: Permission denied");
    kvs_plugin_list_free(list);
    set_mode(manifests, 0755);
}

static const kt_test_t tests[] = {
    KT_TEST(what_everybody_may_write_is_refused),
    KT_TEST(a_group_may_write),
    KT_TEST(sticky_directories_and_ancestors_do_not_count),
    KT_TEST(of_a_link_both_ends_count),
    KT_TEST(a_plugin_that_is_off_is_off),
    KT_TEST(an_untrusted_plugin_hides_later_ones),
    KT_TEST(the_rest_is_noted),
    KT_TEST(files_of_somebody_else_are_noted),
    KT_TEST(what_may_not_be_read_is_told_and_hurts_nothing),
};
KT_MAIN("trust", tests)
