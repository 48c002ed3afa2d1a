/* SPDX-License-Identifier: Apache-2.0 */
/* The search path: which places, in which order, from which settings. */
#include "kt.h"
#include "searchpath.h"

#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static kvsi_arena_t arena;

static kvsi_searchpath_t build(const char *const *added, size_t n_added)
{
    kvsi_searchpath_t path = {NULL, 0};

    KT_OK(kvsi_searchpath_build(&arena, added, n_added, &path));
    return path;
}

/* The paths, one a line. */
static const char *joined(const kvsi_searchpath_t *path)
{
    const char *text = "";

    for (size_t i = 0; i < path->n_paths; i++) {
        text = kvsi_arena_text(&arena, "%s%s\n", text, path->paths[i]);
    }
    return text;
}

/* The directory of manifests beside the directory that holds this program: PREFIX/share/…. */
static const char *own_prefix(void)
{
    char file[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", file, sizeof(file) - 1);

    file[n > 0 ? n : 0] = '\0';
    for (int i = 0; i < 2; i++) {
        *strrchr(file, '/') = '\0';
    }
    return kvsi_arena_text(&arena, "%s/share/kvstore/plugins.d", file);
}

static void use(const char *plugin_path, const char *data_home, const char *home)
{
    plugin_path != NULL ? setenv("KVSTORE_PLUGIN_PATH", plugin_path, 1)
                        : unsetenv("KVSTORE_PLUGIN_PATH");
    data_home != NULL ? setenv("XDG_DATA_HOME", data_home, 1) : unsetenv("XDG_DATA_HOME");
    home != NULL ? setenv("HOME", home, 1) : unsetenv("HOME");
}

static void without_settings_the_defaults_are_searched_in_order(void)
{
    kvsi_searchpath_t path;

    use(NULL, "/data", "/home/me");
    path = build(NULL, 0);
    KT_STR(joined(&path), kvsi_arena_text(&arena,
                                          "/data/kvstore/plugins.d\n/etc/kvstore/plugins.d\n"
                                          "/usr/local/share/kvstore/plugins.d\n%s\n",
                                          own_prefix()));
    kvsi_arena_release(&arena);
}

static void without_xdg_data_home_the_users_place_is_in_home(void)
{
    kvsi_searchpath_t path;

    use(NULL, NULL, "/home/me");
    path = build(NULL, 0);
    KT_STR(path.paths[0], "/home/me/.local/share/kvstore/plugins.d");
    use(NULL, "relative/is/ignored", "/home/me");
    path = build(NULL, 0);
    KT_STR(path.paths[0], "/home/me/.local/share/kvstore/plugins.d");
    use(NULL, NULL, NULL);
    path = build(NULL, 0);
    KT_STR(path.paths[0], "/etc/kvstore/plugins.d");
    kvsi_arena_release(&arena);
}

static void the_variable_replaces_the_defaults(void)
{
    kvsi_searchpath_t path;

    use("/a:/b/c.json", "/data", NULL);
    path = build(NULL, 0);
    KT_STR(joined(&path), "/a\n/b/c.json\n");
    kvsi_arena_release(&arena);
}

static void an_empty_element_stands_for_the_defaults(void)
{
    kvsi_searchpath_t path;
    const char *defaults;

    use("", "/data", NULL);
    path = build(NULL, 0);
    defaults = joined(&path);
    KT_HAS(defaults, "/data/kvstore/plugins.d\n/etc/kvstore/plugins.d\n");
    use("/a:", "/data", NULL);
    path = build(NULL, 0);
    KT_STR(joined(&path), kvsi_arena_text(&arena, "/a\n%s", defaults));
    use(":/a", "/data", NULL);
    path = build(NULL, 0);
    KT_STR(joined(&path), kvsi_arena_text(&arena, "%s/a\n", defaults));
    use("/a::/b", "/data", NULL);
    path = build(NULL, 0);
    KT_STR(joined(&path), kvsi_arena_text(&arena, "/a\n%s/b\n", defaults));
    kvsi_arena_release(&arena);
}

static void the_programs_paths_come_first(void)
{
    static const char *const added[] = {"/z", "/y"};
    kvsi_searchpath_t path;

    use("/a", NULL, NULL);
    path = build(added, 2);
    KT_STR(joined(&path), "/z\n/y\n/a\n");
    kvsi_arena_release(&arena);
}

static void relative_elements_become_absolute(void)
{
    kvsi_searchpath_t path;
    char cwd[PATH_MAX];

    KT_TRUE(getcwd(cwd, sizeof(cwd)) != NULL);
    use("here/it/is", NULL, NULL);
    path = build(NULL, 0);
    KT_STR(joined(&path), kvsi_arena_text(&arena, "%s/here/it/is\n", cwd));
    kvsi_arena_release(&arena);
}

static void a_place_is_searched_once(void)
{
    kvsi_searchpath_t path;
    char dir[512];
    const char *linked;

    snprintf(dir, sizeof(dir), "%s", kt_temp_dir());
    linked = kvsi_arena_text(&arena, "%s/link", dir);
    KT_INT(symlink(dir, linked), 0);
    use(kvsi_arena_text(&arena, "%s:/a:%s/.:%s:/a", dir, dir, linked), NULL, NULL);
    path = build(NULL, 0);
    KT_STR(joined(&path), kvsi_arena_text(&arena, "%s\n/a\n", dir));
    kvsi_arena_release(&arena);
}

static const kt_test_t tests[] = {
    KT_TEST(without_settings_the_defaults_are_searched_in_order),
    KT_TEST(without_xdg_data_home_the_users_place_is_in_home),
    KT_TEST(the_variable_replaces_the_defaults),
    KT_TEST(an_empty_element_stands_for_the_defaults),
    KT_TEST(the_programs_paths_come_first),
    KT_TEST(relative_elements_become_absolute),
    KT_TEST(a_place_is_searched_once),
};
KT_MAIN("searchpath", tests)
