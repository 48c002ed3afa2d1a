/* SPDX-License-Identifier: Apache-2.0 */
/* Secure execution: a program that runs with more rights than whoever started it must not let them
 * choose what it loads. The test makes a copy of itself that belongs to root and is setuid, and starts it
 * as another user; it needs root, and a file system that allows that. */
#include "kt.h"
#include "config.h"
#include "discovery.h"
#include "environment.h"
#include "fakes.h"
#include "registry.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define NOBODY 65534

static char copy[64]; /* the setuid program */
static char owned[512],
    library[600]; /* root's: a directory of manifests, and the library they name */
static char output[16384], errors[4096]; /* of the program */

/* ---- The program that is started --------------------------------------------------------------- */

/* What it would load from the directory it trusts, and what it lets the environment decide. */
static int inner(const char *place)
{
    kvsi_arena_t arena = KVSI_ARENA_INIT;
    kvs_plugin_list_t *list;
    const char *preset;

    printf("secure %d\n", kvsi_is_secure());
    if (kvs_plugin_path_add(place) != KVS_OK || kvs_plugin_list(&list) != KVS_OK ||
        kvsi_config_lookup(&arena, "default", &preset) != KVS_OK) {
        printf("failed: %s\n", kvs_last_error());
        return 1;
    }
    printf("default %s\n", preset);
    for (size_t i = 0; i < list->path.n_paths; i++) {
        printf("path %s\n", list->path.paths[i]);
    }
    for (size_t i = 0; i < list->n_plugins; i++) {
        printf("plugin %s %s (%s) (%s)\n", list->plugins[i].name,
               kvs_plugin_state_text(list->plugins[i].state), list->plugins[i].reason,
               list->plugins[i].fix);
    }
    kvs_plugin_list_free(list);
    kvsi_arena_release(&arena);
    return 0;
}

/* ---- Starting it ------------------------------------------------------------------------------- */

static void read_all(int fd, char *buffer, size_t n_bytes)
{
    size_t n = 0;
    ssize_t got;

    while (n < n_bytes - 1 && (got = read(fd, buffer + n, n_bytes - 1 - n)) > 0) {
        n += (size_t)got;
    }
    buffer[n] = '\0';
    close(fd);
}

/* Start the copy as nobody; its output and errors are kept. Gives its status. */
static int run_copy(void)
{
    int out[2], err[2], status = -1;
    pid_t child;

    if (pipe(out) != 0 || pipe(err) != 0) {
        perror("pipe");
        exit(2);
    }
    fflush(stdout);
    child = fork();
    if (child == 0) {
        dup2(out[1], STDOUT_FILENO);
        dup2(err[1], STDERR_FILENO);
        if (setresgid(NOBODY, NOBODY, NOBODY) == 0 && setresuid(NOBODY, NOBODY, NOBODY) == 0) {
            execl(copy, copy, "inner", owned, (char *)NULL);
        }
        _exit(9);
    }
    close(out[1]);
    close(err[1]);
    read_all(out[0], output, sizeof(output));
    read_all(err[0], errors, sizeof(errors));
    return waitpid(child, &status, 0) == child ? status : -1;
}

static void start(void)
{
    KT_INT(run_copy(), 0);
}

static int copy_file(const char *from, const char *to, mode_t mode)
{
    char buffer[65536];
    int in = open(from, O_RDONLY), out = open(to, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    ssize_t n;

    while ((n = read(in, buffer, sizeof(buffer))) > 0 && write(out, buffer, (size_t)n) == n) {
    }
    close(in);
    close(out);
    return n == 0 && chown(to, 0, 0) == 0 && chmod(to, mode) == 0 ? 0 : -1;
}

/* A temporary directory of root's that nobody may pass through. */
static void make_dir(const char *name, char *ret_path, size_t n_bytes)
{
    snprintf(ret_path, n_bytes, "%s/%s", copy, name);
    if (mkdir(ret_path, 0755) != 0 || chown(ret_path, 0, 0) != 0) {
        perror(ret_path);
        exit(2);
    }
}

/* 0, or 77 if it can't be tried here. */
static int set_up(void)
{
    char root[] = "/tmp/kvs-secure-XXXXXX";

    if (geteuid() != 0 || mkdtemp(root) == NULL || chmod(root, 0755) != 0) {
        printf("skipped: needs root\n");
        return 77;
    }
    snprintf(copy, sizeof(copy), "%s", root);
    make_dir("owned", owned, sizeof(owned));
    make_dir("lib", library, sizeof(library));
    strcat(library, "/lib.so");
    strcat(copy, "/program");
    unsetenv("KVSTORE_PLUGIN_PATH"); /* ctest's */
    if (copy_file("/proc/self/exe", copy, 04755) != 0 ||
        copy_file(fake_library("good"), library, 0644) != 0) {
        perror(copy);
        return 2;
    }
    if (run_copy() != 0 || strstr(output, "secure 1\n") == NULL) {
        printf("skipped: no setuid program can be run in /tmp: %s%s\n", output, errors);
        return 77;
    }
    return 0;
}

static void clean_up(void)
{
    char command[700];

    *strrchr(copy, '/') = '\0';
    snprintf(command, sizeof(command), "rm -rf '%s'", copy);
    if (system(command) != 0) {
        printf("left behind: %s\n", copy);
    }
}

/* ---- Tests ------------------------------------------------------------------------------------- */

/* A manifest of root's in the trusted directory. */
static const char *use_manifest(void)
{
    static char manifest[700];

    snprintf(manifest, sizeof(manifest), "%s", FAKE_WRITE(owned, .library = library));
    KT_INT(chown(owned, 0, 0), 0);
    KT_INT(chmod(owned, 0755), 0);
    KT_INT(chown(manifest, 0, 0), 0);
    KT_INT(chmod(manifest, 0644), 0);
    return manifest;
}

static void lacks(const char *text, const char *part)
{
    if (strstr(text, part) != NULL) {
        printf("\n  \"%s\" holds \"%s\"", text, part);
    }
    KT_TRUE(strstr(text, part) == NULL);
}

static void what_is_roots_alone_is_used(void)
{
    (void)use_manifest();
    start();
    KT_HAS(output, "plugin fake ok () ()\n");
    KT_STR(errors, "");
}

static void the_environment_and_the_users_places_are_ignored_and_that_is_told(void)
{
    char evil[512];

    snprintf(evil, sizeof(evil), "%s", kt_temp_dir());
    (void)use_manifest();
    FAKE_WRITE(evil, .name = "evil");
    kt_write_file(evil, "kvstore/plugins.d/fake.json", ""); /* a mask */
    kt_write_file(evil, "kvstore/kvstore.conf", "default = evil\n");
    setenv("KVSTORE_PLUGIN_PATH", evil, 1);
    setenv("KVSTORE_PLUGINS", "-fake", 1);
    setenv("KVSTORE_DEFAULT", "evil", 1);
    setenv("XDG_DATA_HOME", evil, 1);
    setenv("XDG_CONFIG_HOME", evil, 1);
    setenv("HOME", evil, 1);
    start();
    unsetenv("KVSTORE_PLUGIN_PATH");
    unsetenv("KVSTORE_PLUGINS");
    unsetenv("KVSTORE_DEFAULT");
    KT_HAS(output, "plugin fake ok () ()\n");
    KT_HAS(output, "default local\n");
    KT_HAS(output, "path /etc/kvstore/plugins.d\n");
    lacks(output, evil);
    KT_HAS(errors,
           "kvstore warn environment: KVSTORE_PLUGIN_PATH is ignored in secure execution\n");
    KT_HAS(errors, "kvstore warn environment: KVSTORE_PLUGINS is ignored in secure execution\n");
    KT_HAS(errors, "kvstore warn environment: KVSTORE_DEFAULT is ignored in secure execution\n");
    lacks(errors, "HOME"); /* everybody has one */
}

static void refused(const char *path, const char *is)
{
    char want[2600];

    start();
    snprintf(
        want, sizeof(want),
        "plugin fake untrusted (in secure execution %s must be root's and writable by root only; "
        "it is %s) (run: chown root '%s'; chmod go-w '%s')\n",
        path, is, path, path);
    KT_HAS(output, want);
}

static void what_others_may_change_is_refused(void)
{
    const char *manifest = use_manifest();
    char libraries[700];

    snprintf(libraries, sizeof(libraries), "%.*s", (int)(strrchr(library, '/') - library), library);
    KT_INT(chmod(manifest, 0664), 0);
    refused(manifest, "user 0's, with mode 0664");
    KT_INT(chmod(manifest, 0644), 0);
    KT_INT(chown(manifest, NOBODY, 0), 0);
    refused(manifest, "user 65534's, with mode 0644");
    KT_INT(chown(manifest, 0, 0), 0);
    KT_INT(chmod(owned, 01777), 0); /* sticky doesn't help here */
    refused(owned, "user 0's, with mode 1777");
    KT_INT(chmod(owned, 0755), 0);
    KT_INT(chown(owned, NOBODY, 0), 0);
    refused(owned, "user 65534's, with mode 0755");
    KT_INT(chown(owned, 0, 0), 0);
    KT_INT(chmod(library, 0666), 0);
    refused(library, "user 0's, with mode 0666");
    KT_INT(chmod(library, 0644), 0);
    KT_INT(chmod(libraries, 0775), 0);
    refused(libraries, "user 0's, with mode 0775");
    KT_INT(chmod(libraries, 0755), 0);
    start();
    KT_HAS(output, "plugin fake ok () ()\n");
}

static const kt_test_t tests[] = {
    KT_TEST(what_is_roots_alone_is_used),
    KT_TEST(the_environment_and_the_users_places_are_ignored_and_that_is_told),
    KT_TEST(what_others_may_change_is_refused),
};

int main(int argc, char **argv)
{
    int status;

    if (argc == 3 && strcmp(argv[1], "inner") == 0) {
        return inner(argv[2]);
    }
    status = set_up();
    if (status == 0) {
        status = kt_run("secure", tests, sizeof(tests) / sizeof(tests[0]), argc, argv);
    }
    if (copy[0] != '\0') {
        clean_up();
    }
    return status;
}
